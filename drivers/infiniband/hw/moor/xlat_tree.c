// SPDX-License-Identifier: GPL-2.0
/*
 * Translation trees (HWI 7.2): pinned memory, described with as few leaves as it
 * allows.
 *
 * Memory is pieces, each contiguous for the device. The address in a leaf needs no
 * alignment, only the leaf's position in the tree does, and the driver chooses where
 * the memory begins in the tree. So the address on the wire does not matter, and pieces
 * whose seams are congruent modulo a size take leaves of that size. In a tree of small
 * leaves a large leaf stands for a whole node of them.
 *
 * Nothing is known in advance of memory that comes and goes (dmabuf_move.c): it has a
 * tree of small leaves, with as many nodes as those can need, and its entry in the
 * context table never changes.
 */

#include <linux/log2.h>
#include <linux/scatterlist.h>
#include <linux/string.h>

#include "moor.h"

/* A leaf instead of a node of the smallest ones. */
#define MOOR_HUGE_SHIFT	(MOOR_MIN_PAGE_SHIFT + MOOR_NODE_SHIFT)

struct moor_walk {
	struct scatterlist *sg;
	u32 left;
};

/* The next entry of a mapped scatterlist, as sg_next() but inline. */
static inline struct scatterlist *moor_sg_next(struct scatterlist *sg)
{
	sg++;
	return unlikely(sg_is_chain(sg)) ? sg_chain_ptr(sg) : sg;
}

/* The next piece: entries whose addresses follow each other are one piece. */
static u64 moor_walk_piece(struct moor_walk *walk, u64 *addr)
{
	u64 end = sg_dma_address(walk->sg);

	*addr = end;
	do {
		end += sg_dma_len(walk->sg);
		if (--walk->left)
			walk->sg = moor_sg_next(walk->sg);
	} while (walk->left && end && sg_dma_address(walk->sg) == end);
	return end - *addr;
}

/**
 * struct moor_survey - what a tree's shape depends on
 * @start: address in the process where the memory begins: a page
 * @length: bytes, whole pages
 * @seams: the bits of all places where two pieces meet, or-ed
 * @first_seam: the first of these places, or 0
 * @apart: bits in which other seams differ from @first_seam
 * @longest: length of the longest piece; more if not all pieces have been seen
 * @huge: leaves of MOOR_HUGE_SHIFT that the pieces have room for
 * @bits: of all addresses and lengths
 * @first: address of the first byte
 * @end: address behind the last one, modulo 2^64
 */
struct moor_survey {
	u64 start;
	u64 length;
	u64 seams;
	u64 first_seam;
	u64 apart;
	u64 longest;
	u64 huge;
	u64 bits;
	u64 first;
	u64 end;
};

static u64 moor_count_huge(u64 from, u64 to)
{
	from = ALIGN(from, BIT_ULL(MOOR_HUGE_SHIFT));
	return from < to ? (to - from) >> MOOR_HUGE_SHIFT : 0;
}

/*
 * Once the pages are plainly scattered the walk ends: nothing more needs to be known,
 * and a second walk reads half a cache line more for each page. The list of a dma-buf
 * is always walked to its end: its owner may give pieces that are not whole pages.
 */
static void moor_survey_memory(struct moor_survey *survey,
			       const struct ib_umem *umem)
{
	const struct sg_table *sgt = &umem->sgt_append.sgt;
	struct moor_walk walk = { .sg = sgt->sgl, .left = sgt->nents };
	u64 start = umem->address & PAGE_MASK;
	u64 at = start, addr, len;

	*survey = (struct moor_survey){
		.start = start,
		.first = sg_dma_address(sgt->sgl),
	};
	while (walk.left) {
		len = moor_walk_piece(&walk, &addr);
		survey->bits |= addr | len;
		survey->huge += moor_count_huge(at, at + len);
		survey->longest = max(survey->longest, len);
		survey->end = addr + len;
		at += len;
		if (!walk.left)
			break;
		if (!survey->first_seam)
			survey->first_seam = at;
		survey->seams |= at;
		survey->apart |= at ^ survey->first_seam;
		if (survey->apart & MOOR_PAGE_SIZE && !umem->is_dmabuf) {
			at = PAGE_ALIGN(umem->address + umem->length);
			survey->longest = max(survey->longest,
					      min(at - start,
						  BIT_ULL(MOOR_HUGE_SHIFT)));
			break;
		}
	}
	survey->length = at - start;
}

/**
 * struct moor_tree - a tree being filled from left to right
 * @mdev: device, or NULL: no more nodes than @spare
 * @table: table that has the tree's nodes
 * @spare: nodes of @table that are not in use yet
 * @root: entry that points to the root's node
 * @bits: bits of the tree's leaves, beside their addresses
 * @pos: where the next leaf goes, in bytes of the tree's space
 * @page_shift: of the smallest leaves
 * @levels: height of the root's node
 * @node: by height - 1: the entries of the node being filled, or NULL
 * @last: by height - 1: the last byte that this node maps
 */
struct moor_tree {
	struct moor_dev *mdev;
	struct moor_table *table;
	struct moor_node *spare;
	__le64 root;
	u64 bits;
	u64 pos;
	u32 page_shift;
	u32 levels;
	__le64 *node[MOOR_MAX_LEVELS];
	u64 last[MOOR_MAX_LEVELS];
};

/*
 * Do leaves of this size, with a seam at @anchor, keep within 64 bits? The first and
 * the last leaf may reach beyond the memory; the key's bounds allow no access there.
 */
static bool moor_leaf_fits(const struct moor_survey *survey, u64 anchor,
			   u32 shift)
{
	u64 mask = BIT_ULL(shift) - 1;
	u64 before = (survey->start - anchor) & mask;
	u64 behind = (anchor - survey->start - survey->length) & mask;

	return before <= survey->first && behind <= -survey->end;
}

/*
 * Make all leaves as large as the seams allow; or small leaves with huge ones among
 * them, if those are fewer. Positions in the tree are the process's addresses where the
 * seams allow that, since huge pages are aligned to those.
 */
static int moor_tree_plan(struct moor_tree *tree,
			  const struct moor_survey *survey, u64 page_sizes)
{
	u32 top = ilog2(survey->longest), shift, reach;
	u64 anchor = 0;

	if (survey->apart)
		top = min_t(u32, top, __ffs64(survey->apart));
	for (shift = top; shift > MOOR_MIN_PAGE_SHIFT; shift--) {
		anchor = survey->seams & (BIT_ULL(shift) - 1) ?
			 survey->first_seam : 0;
		if (page_sizes & BIT_ULL(shift) &&
		    moor_leaf_fits(survey, anchor, shift))
			break;
	}
	if ((survey->length >> MOOR_MIN_PAGE_SHIFT) -
	    survey->huge * (MOOR_NODE_ENTRIES - 1) < survey->length >> shift)
		shift = MOOR_MIN_PAGE_SHIFT;
	if (shift == MOOR_MIN_PAGE_SHIFT)
		anchor = 0;

	/* Room for leaves at greater heights. */
	for (reach = shift; reach + MOOR_NODE_SHIFT <= ilog2(survey->longest);)
		reach += MOOR_NODE_SHIFT;
	tree->page_shift = shift;
	tree->pos = (survey->start - anchor) & (BIT_ULL(reach) - 1);
	for (tree->levels = 1, shift += MOOR_NODE_SHIFT;
	     shift < 64 && (tree->pos + survey->length - 1) >> shift;
	     shift += MOOR_NODE_SHIFT)
		tree->levels++;
	return tree->levels > MOOR_MAX_LEVELS ? -EINVAL : 0;
}

static u32 moor_tree_shift(const struct moor_tree *tree, u32 h)
{
	return tree->page_shift + MOOR_NODE_SHIFT * h;
}

/* Which entry of a node at height @h + 1 maps the byte. */
static u32 moor_tree_index(const struct moor_tree *tree, u32 h, u64 byte)
{
	return byte >> moor_tree_shift(tree, h) & (MOOR_NODE_ENTRIES - 1);
}

/* By words: a memset() by bytes is eight times the work under emulation. */
static void moor_clear_entries(__le64 *pte, u32 count)
{
	memset64((__force u64 *)pte, 0, count);
}

static struct moor_node *moor_tree_node(struct moor_tree *tree)
{
	struct moor_node *node = tree->spare;

	if (tree->mdev)
		return moor_table_add_node(tree->mdev, tree->table);
	if (WARN_ON_ONCE(!node))
		return NULL;
	tree->spare = node->next;
	return node;
}

static __le64 *moor_tree_entry(struct moor_tree *tree, u32 h);

/* Make a node at height @h + 1, and enter it in the node above. */
static int moor_tree_grow(struct moor_tree *tree, u32 h)
{
	u32 span = moor_tree_shift(tree, h + 1);
	struct moor_node *node;
	__le64 *above = NULL;
	__le64 entry;

	if (h + 1 < tree->levels) {
		above = moor_tree_entry(tree, h + 1);
		if (!above)
			return -ENOMEM;
	} else if (WARN_ON_ONCE(tree->node[h])) {
		return -EINVAL;
	}
	node = moor_tree_node(tree);
	if (!node)
		return -ENOMEM;
	entry = cpu_to_le64(node->dma | MOOR_PTE_PRESENT);
	if (above)
		*above = entry;
	else
		tree->root = entry;
	/* The node has its old contents: clear the entries before the memory. */
	moor_clear_entries(node->pte, moor_tree_index(tree, h, tree->pos));
	tree->node[h] = node->pte;
	tree->last[h] = span < 64 ? tree->pos | (BIT_ULL(span) - 1) : U64_MAX;
	cond_resched();
	return 0;
}

/* The entry at height @h + 1 for what comes next, or NULL without memory. */
static __le64 *moor_tree_entry(struct moor_tree *tree, u32 h)
{
	if ((!tree->node[h] || tree->pos > tree->last[h]) &&
	    moor_tree_grow(tree, h))
		return NULL;
	return tree->node[h] + moor_tree_index(tree, h, tree->pos);
}

/* Height - 1 of the largest leaf that may stand here and does not go beyond @end. */
static u32 moor_tree_height(const struct moor_tree *tree, u64 end)
{
	u32 h;

	for (h = 0; h + 1 < tree->levels; h++) {
		u64 size = BIT_ULL(moor_tree_shift(tree, h + 1));

		if (!IS_ALIGNED(tree->pos, size) || end - tree->pos < size)
			break;
	}
	return h;
}

static int moor_tree_add_piece(struct moor_tree *tree, u64 addr, u64 len)
{
	u64 inside = tree->pos & (BIT_ULL(tree->page_shift) - 1);
	u64 end = tree->pos + len;

	/* Only the first piece begins inside a leaf. */
	tree->pos -= inside;
	addr -= inside;
	while (tree->pos < end) {
		u32 h = moor_tree_height(tree, end);
		u64 size = BIT_ULL(moor_tree_shift(tree, h));
		__le64 *pte = moor_tree_entry(tree, h);
		u32 room, i;
		u64 count;

		if (!pte)
			return -ENOMEM;
		room = MOOR_NODE_ENTRIES - moor_tree_index(tree, h, tree->pos);
		/* The last leaf may end behind the memory, if it is a smallest leaf. */
		count = (end - tree->pos + (h ? 0 : size - 1)) >>
			moor_tree_shift(tree, h);
		count = min_t(u64, count, room);
		for (i = 0; i < count; i++, addr += size)
			pte[i] = cpu_to_le64(addr | tree->bits);
		tree->pos += count * size;
	}
	return 0;
}

/*
 * Add entries of the scatterlist that are one leaf each, up to the end of a node or of
 * a chained part of the list. This loop decides the speed for scattered memory, so it
 * checks nothing else. It leaves out the last entry of the whole list.
 *
 * Return: how many, or -ENOMEM.
 */
static int moor_tree_add_pages(struct moor_tree *tree, struct moor_walk *walk)
{
	u64 size = BIT_ULL(tree->page_shift), bits = tree->bits;
	struct scatterlist *sg = walk->sg;
	u32 len = size;
	long room, i;
	__le64 *pte;

	if (sg_dma_len(sg) != size || !IS_ALIGNED(tree->pos, size) ||
	    walk->left < 2)
		return 0;
	pte = moor_tree_entry(tree, 0);
	if (!pte)
		return -ENOMEM;
	room = MOOR_NODE_ENTRIES - moor_tree_index(tree, 0, tree->pos);
	room = min_t(long, room, walk->left - 1);
	pte += room;
	i = -room;
	do {
		pte[i] = cpu_to_le64(sg_dma_address(sg) | bits);
		sg++;
		i++;
	} while (i && !sg_is_chain(sg) && sg_dma_len(sg) == len);
	walk->sg = sg_is_chain(sg) ? sg_chain_ptr(sg) : sg;
	walk->left -= room + i;
	tree->pos += (room + i) * size;
	return room + i;
}

/* Nodes have their old contents: clear the entries behind the memory. */
static void moor_tree_clear_rest(struct moor_tree *tree)
{
	u64 last = tree->pos - 1;
	u32 h, next;

	for (h = 0; h < tree->levels; h++) {
		if (!tree->node[h] || last > tree->last[h])
			continue;
		next = moor_tree_index(tree, h, last) + 1;
		moor_clear_entries(tree->node[h] + next,
				   MOOR_NODE_ENTRIES - next);
	}
}

static int moor_tree_fill(struct moor_tree *tree, const struct sg_table *sgt)
{
	struct moor_walk walk = { .sg = sgt->sgl, .left = sgt->nents };
	u64 addr, len;
	int err;

	while (walk.left) {
		err = moor_tree_add_pages(tree, &walk);
		if (!err) {
			len = moor_walk_piece(&walk, &addr);
			err = moor_tree_add_piece(tree, addr, len);
		}
		if (err < 0)
			return err;
	}
	moor_tree_clear_rest(tree);
	return 0;
}

static u64 moor_leaf_bits(const struct ib_umem *umem)
{
	return MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
	       (umem->writable ? MOOR_PTE_WRITABLE : 0);
}

static int moor_table_build_tree(struct moor_dev *mdev,
				 struct moor_table *table,
				 const struct moor_survey *survey,
				 struct ib_umem *umem)
{
	struct moor_tree tree = {
		.mdev = mdev,
		.table = table,
		.bits = moor_leaf_bits(umem),
	};
	int err;

	err = moor_tree_plan(&tree, survey, mdev->caps.page_sizes);
	if (err)
		return err;
	table->xlat.offset = cpu_to_le64(tree.pos + ib_umem_offset(umem));
	table->xlat.levels = tree.levels;
	table->xlat.page_shift = tree.page_shift;
	err = moor_tree_fill(&tree, &umem->sgt_append.sgt);
	if (err)
		moor_table_free(mdev, table);
	else
		table->xlat.root = tree.root;
	return err;
}

/**
 * moor_table_build - describe pinned memory to the device
 * @mdev: device
 * @table: filled in
 * @umem: pinned memory
 *
 * Memory that is one piece has no table: the root is its leaf.
 *
 * Return: 0; -ENOMEM; -EINVAL if no table can describe it.
 */
int moor_table_build(struct moor_dev *mdev, struct moor_table *table,
		     struct ib_umem *umem)
{
	const struct sg_table *sgt = &umem->sgt_append.sgt;
	struct moor_survey survey;

	*table = (struct moor_table){};
	if (sgt->nents > 1) {
		moor_survey_memory(&survey, umem);
		if (survey.bits & ~PAGE_MASK)
			return -EINVAL;
		if (survey.first_seam)
			return moor_table_build_tree(mdev, table, &survey,
						     umem);
	}
	table->xlat.root = cpu_to_le64(sg_dma_address(sgt->sgl) |
				       moor_leaf_bits(umem));
	table->xlat.offset = cpu_to_le64(ib_umem_offset(umem));
	table->xlat.page_shift = MOOR_MIN_PAGE_SHIFT;
	return 0;
}

/* Levels and nodes of a tree with @leaves small leaves. */
static void moor_table_shape(u64 leaves, u32 *levels, u64 *nodes)
{
	*levels = 0;
	*nodes = 0;
	do {
		leaves = DIV_ROUND_UP_ULL(leaves, MOOR_NODE_ENTRIES);
		*nodes += leaves;
		(*levels)++;
	} while (leaves > 1);
}

/**
 * moor_table_reserve - make a table for memory that comes and goes as a whole
 * @mdev: device
 * @table: filled in; describes nothing yet
 * @start: address of the first byte
 * @length: bytes
 *
 * The whole tree hangs on the first entry of the root's node.
 *
 * Return: 0; -ENOMEM; -EINVAL if no table can be as large.
 */
int moor_table_reserve(struct moor_dev *mdev, struct moor_table *table,
		       u64 start, u64 length)
{
	struct moor_xlat *xlat = &table->xlat;
	u32 offset = offset_in_page(start);
	u32 levels;
	u64 nodes;
	int err;

	*table = (struct moor_table){};
	moor_table_shape(DIV_ROUND_UP_ULL(offset + length, MOOR_PAGE_SIZE),
			 &levels, &nodes);
	if (levels >= MOOR_MAX_LEVELS || nodes >= U32_MAX)
		return -EINVAL;
	err = moor_table_alloc_nodes(mdev, table, nodes + 1);
	if (err)
		return err;
	moor_clear_entries(table->nodes->pte, MOOR_NODE_ENTRIES);
	xlat->root = cpu_to_le64(table->nodes->dma | MOOR_PTE_PRESENT);
	xlat->offset = cpu_to_le64(offset);
	xlat->levels = levels + 1;
	xlat->page_shift = MOOR_MIN_PAGE_SHIFT;
	return 0;
}

/**
 * moor_table_fill - describe memory that has come
 * @table: of moor_table_reserve(); describes nothing, and the device caches no entry
 * @umem: memory, mapped in whole pages, as long as was reserved
 *
 * Return: 0, or an errno with the table describing nothing.
 */
int moor_table_fill(struct moor_table *table, struct ib_umem *umem)
{
	struct moor_node *root = table->nodes;
	struct moor_tree tree = {
		.table = table,
		.spare = root->next,
		.bits = moor_leaf_bits(umem),
		.page_shift = table->xlat.page_shift,
		.levels = table->xlat.levels - 1,
	};
	int err = moor_tree_fill(&tree, &umem->sgt_append.sgt);

	if (err)
		return err;
	/* The nodes' contents before the entry that points to them (HWI ODP-18). */
	dma_wmb();
	WRITE_ONCE(*root->pte, tree.root);
	return 0;
}

/**
 * moor_table_empty - describe nothing
 * @table: of moor_table_reserve()
 *
 * The memory may be let go when the device has forgotten it (HWI ODP-19).
 */
void moor_table_empty(struct moor_table *table)
{
	WRITE_ONCE(*table->nodes->pte, 0);
}
