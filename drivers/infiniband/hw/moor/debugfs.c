// SPDX-License-Identifier: GPL-2.0
/*
 * debugfs: moor/<device>/mr lists the live MRs with their context entries and
 * the shapes of their tables.
 */

#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "moor.h"

static struct dentry *moor_debugfs_root;

/*
 * What is shown of an MR: copied under the lock that keeps it from going away,
 * printed without it.
 */
struct moor_mr_info {
	u32 key;
	u32 pdn;
	u32 access;
	u64 iova;
	u64 length;
	u64 start;
	u8 type;
	u8 generation;
	u32 nodes;
	struct moor_xlat xlat;
};

static bool moor_mr_info_get(struct moor_keys *keys, u32 slot,
			     struct moor_mr_info *info)
{
	const struct moor_mr *mr;

	spin_lock(&keys->lock);
	mr = keys->slots[slot].mr;
	if (mr)
		*info = (struct moor_mr_info){
			.key = mr->key,
			.pdn = mr->pdn,
			.access = mr->access,
			.iova = mr->iova,
			.length = mr->length,
			.start = mr->start,
			.type = mr->type,
			.generation = mr->generation,
			.nodes = mr->table.num_nodes,
			.xlat = mr->table.xlat,
		};
	spin_unlock(&keys->lock);
	return mr;
}

/* Position 0 is the head line; position n stands for slot n - 1. */
static void *moor_mr_seq_find(struct moor_dev *mdev, loff_t *pos)
{
	struct moor_keys *keys = &mdev->keys;

	for (; *pos && *pos <= keys->size; ++*pos)
		if (READ_ONCE(keys->slots[*pos - 1].mr))
			return pos;
	return *pos ? NULL : SEQ_START_TOKEN;
}

static void *moor_mr_seq_start(struct seq_file *seq, loff_t *pos)
{
	return moor_mr_seq_find(seq->private, pos);
}

static void *moor_mr_seq_next(struct seq_file *seq, void *v, loff_t *pos)
{
	++*pos;
	return moor_mr_seq_find(seq->private, pos);
}

static void moor_mr_seq_stop(struct seq_file *seq, void *v)
{
}

static int moor_mr_seq_show(struct seq_file *seq, void *v)
{
	struct moor_dev *mdev = seq->private;
	struct moor_mr_info info;

	if (v == SEQ_START_TOKEN) {
		seq_puts(seq, "lkey rkey type generation pd access iova length start levels page_shift nodes root offset\n");
		return 0;
	}
	if (!moor_mr_info_get(&mdev->keys, *(loff_t *)v - 1, &info))
		return SEQ_SKIP;
	seq_printf(seq, "%#010x %#010x %u %u %u %#x %#llx %#llx %#llx %u %u %u %#llx %#llx\n",
		   info.key, info.key, info.type, info.generation, info.pdn,
		   info.access, info.iova, info.length, info.start,
		   info.xlat.levels, info.xlat.page_shift, info.nodes,
		   le64_to_cpu(info.xlat.root), le64_to_cpu(info.xlat.offset));
	return 0;
}

static const struct seq_operations moor_mr_sops = {
	.start = moor_mr_seq_start,
	.next = moor_mr_seq_next,
	.stop = moor_mr_seq_stop,
	.show = moor_mr_seq_show,
};
DEFINE_SEQ_ATTRIBUTE(moor_mr);

void moor_debugfs_init(void)
{
	moor_debugfs_root = debugfs_create_dir(KBUILD_MODNAME, NULL);
}

void moor_debugfs_exit(void)
{
	debugfs_remove_recursive(moor_debugfs_root);
}

void moor_debugfs_add(struct moor_dev *mdev)
{
	mdev->debugfs = debugfs_create_dir(dev_name(&mdev->ibdev.dev),
					   moor_debugfs_root);
	debugfs_create_file("mr", 0400, mdev->debugfs, mdev, &moor_mr_fops);
}

void moor_debugfs_remove(struct moor_dev *mdev)
{
	debugfs_remove_recursive(mdev->debugfs);
}
