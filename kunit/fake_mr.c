// SPDX-License-Identifier: GPL-2.0
/*
 * The fake NIC's memory regions (HWI 6 and 7): it watches how software writes
 * the context table, and reaches memory through keys as a peer would.
 */

#include "fake.h"

#define FAKE_NONCE_BITS	(32 - FAKE_MR_INDEX_BITS)

/*
 * Software has written eight bytes. The body of an entry may change only while its
 * valid word is zero or was revoked, and a new valid word needs a complete body.
 */
void fake_mr_written(struct fake_nic *nic, u32 offset, int size, u64 before)
{
	u32 index = offset / sizeof(struct moor_mr_context);
	u64 valid = le64_to_cpu(nic->mr[index].valid);

	if (offset % sizeof(struct moor_mr_context)) {
		if (valid && valid != nic->revoked[index])
			fake_violation(nic, "the body of a valid entry is written");
		return;
	}
	if (before && before != nic->revoked[index])
		fake_violation(nic, "a valid word is written over without a revoke");
	if (!valid)
		return;
	if (valid == nic->revoked[index])
		fake_violation(nic, "a revoked valid word is used again");
	if (valid & MOOR_MRC_RESERVED ||
	    FIELD_GET(MOOR_MRC_KEY, valid) >> FAKE_NONCE_BITS != index)
		fake_violation(nic, "a valid word makes no sense");
	if (le32_to_cpu(nic->mr[index].access) &
	    ~(MOOR_MASK(6, 0) | fake_flush_rights(nic)))
		fake_violation(nic, "an entry has rights that the NIC does not know");
	nic->windows[index] = 0;
	nic->revoked[index] = 0;
	if (index >= FAKE_CONSUMER_FIRST)
		fake_window_begin(nic, index);
}

/**
 * fake_mr_find - look a key up (HWI ACC-3)
 * @nic: NIC
 * @key: key; the consumer byte of a window's is not compared
 * @index: set to the entry's index
 *
 * Return: whether there is an entry of the key's kind that was not revoked.
 */
bool fake_mr_find(struct fake_nic *nic, u32 key, u32 *index)
{
	u32 type, differ;
	u64 valid;

	*index = key >> FAKE_NONCE_BITS;
	valid = le64_to_cpu(READ_ONCE(nic->mr[*index].valid));
	type = FIELD_GET(MOOR_MRC_TYPE, valid);
	differ = FIELD_GET(MOOR_MRC_KEY, valid) ^ key;
	if (!valid || valid == nic->revoked[*index] ||
	    *index < MOOR_MR_INDEX_FIRST)
		return false;
	if (*index < FAKE_CONSUMER_FIRST)
		return !differ && (type == MOOR_MRC_TYPE_MR ||
				   type == MOOR_MRC_TYPE_ALL);
	return !(differ & ~(u32)MOOR_KEY_CONSUMER) &&
	       (type == MOOR_MRC_TYPE_MW_1 || type == MOOR_MRC_TYPE_MW_2 ||
		type == MOOR_MRC_TYPE_FAST_REG);
}

static bool fake_pte_ok(u64 pte, bool leaf)
{
	return pte & MOOR_PTE_PRESENT && !(pte & MOOR_PTE_RESERVED) &&
	       !!(pte & MOOR_PTE_LEAF) == leaf &&
	       (leaf || !(pte & MOOR_PTE_WRITABLE));
}

/* The leaf for @at, and the log2 of its size; false if there is none. */
static bool fake_walk(const struct moor_xlat *xlat, u64 at, u64 *leaf,
		      u32 *shift)
{
	u64 pte = le64_to_cpu(xlat->root);
	const __le64 *node;
	u32 h;

	for (h = xlat->levels; h; h--) {
		if (!fake_pte_ok(pte, false))
			return false;
		*shift = xlat->page_shift + MOOR_NODE_SHIFT * (h - 1);
		node = fake_dma(pte & MOOR_PTE_ADDR);
		pte = le64_to_cpu(node[*shift > 63 ? 0 :
				       (at >> *shift) % MOOR_NODE_ENTRIES]);
		if (pte & MOOR_PTE_LEAF)
			break;
	}
	*leaf = pte;
	return fake_pte_ok(pte, true);
}

/**
 * fake_xlat_find - translate a byte of an object (HWI 7.2)
 * @nic: NIC
 * @xlat: translation
 * @byte: of the object
 * @write: whether it will be written
 * @dma: set to the DMA address
 * @left: set to the bytes that follow it contiguously
 *
 * Return: false for what HWI XLT-10 calls a TRANSLATION failure.
 */
bool fake_xlat_find(struct fake_nic *nic, const struct moor_xlat *xlat,
		    u64 byte, bool write, u64 *dma, u64 *left)
{
	u64 at = le64_to_cpu(xlat->offset) + byte, leaf, inside;
	u32 top = xlat->page_shift + MOOR_NODE_SHIFT * xlat->levels;
	u32 shift = 64;

	if (at < byte || xlat->levels > MOOR_MAX_LEVELS ||
	    xlat->memory > MOOR_MEMORY_NIC || xlat->reserved1 || xlat->entries)
		return false;
	/* On-NIC memory is one leaf, and a byte offset (HWI XLT-14). */
	if (xlat->memory && xlat->levels)
		return false;
	/* Nothing is mapped above what the root's node spans. */
	if (xlat->levels && (xlat->page_shift < MOOR_MIN_PAGE_SHIFT ||
			     (top < 64 && at >> top)))
		return false;
	if (!fake_walk(xlat, at, &leaf, &shift) ||
	    (write && !(leaf & MOOR_PTE_WRITABLE)))
		return false;
	inside = shift < 64 ? at & (BIT_ULL(shift) - 1) : at;
	*dma = (leaf & MOOR_PTE_ADDR) + inside;
	*left = shift < 64 ? BIT_ULL(shift) - inside : ~0ULL - inside;
	return true;
}

/* What a key gives access to: the MR behind it, the part of it, and the rights. */
struct fake_extent {
	const struct moor_mr_context *mr;
	u64 iova;
	u64 length;
	u32 access;
};

/* HWI ACC-4: the key of an MR, or of a window that is bound. */
static bool fake_extent_find(struct fake_nic *nic, u32 key,
			     struct fake_extent *extent)
{
	const struct fake_window *window;
	u32 index;

	if (!fake_mr_find(nic, key, &index))
		return false;
	extent->mr = &nic->mr[index];
	if (index < FAKE_CONSUMER_FIRST) {
		extent->iova = le64_to_cpu(extent->mr->iova);
		extent->length = le64_to_cpu(extent->mr->length);
		extent->access = le32_to_cpu(extent->mr->access);
		return true;
	}
	window = &nic->bindings[index - FAKE_CONSUMER_FIRST];
	extent->mr = &nic->mr[window->mr];
	extent->iova = window->iova;
	extent->length = window->length;
	extent->access = window->access;
	return window->bound && window->key == key;
}

/**
 * fake_nic_access - reach memory through a key, as a peer would (HWI 6.3)
 * @nic: NIC
 * @key: key; a type 2 window's is used through the QP it is bound to
 * @right: MOOR_ACCESS_* that the access needs, or 0 for local reading
 * @addr: address, in the MR's own terms
 * @buf: data
 * @len: bytes
 * @write: to memory
 *
 * Return: 0, or the syndrome of the refusal.
 */
int fake_nic_access(struct fake_nic *nic, u32 key, u32 right, u64 addr,
		    void *buf, size_t len, bool write)
{
	const struct moor_mr_context *mr;
	struct fake_extent extent;
	u64 offset, dma, left;
	u8 *at;

	/* The null MR: local only, at every address (HWI NUL-1). */
	if (key == FAKE_NULL_LKEY && !right) {
		if (!write)
			memset(buf, 0, len);
		return 0;
	}
	if (!fake_extent_find(nic, key, &extent))
		return MOOR_SYN_KEY;
	mr = extent.mr;
	if ((extent.access & right) != right)
		return MOOR_SYN_RIGHTS;
	if (addr < extent.iova || len > extent.length ||
	    addr - extent.iova > extent.length - len)
		return MOOR_SYN_BOUNDS;
	offset = addr - le64_to_cpu(mr->iova);
	for (; len; len -= left, offset += left, buf += left) {
		if (!fake_xlat_find(nic, &mr->xlat, offset, write, &dma, &left))
			return MOOR_SYN_TRANSLATION;
		left = min_t(u64, left, len);
		if (mr->xlat.memory == MOOR_MEMORY_NIC &&
		    (dma > FAKE_DM_BYTES || left > FAKE_DM_BYTES - dma))
			return MOOR_SYN_DMA;
		at = mr->xlat.memory == MOOR_MEMORY_NIC ? nic->dm + dma :
							  fake_dma(dma);
		if (write)
			memcpy(at, buf, left);
		else
			memcpy(buf, at, left);
	}
	return 0;
}
