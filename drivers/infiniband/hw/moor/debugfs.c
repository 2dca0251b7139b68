// SPDX-License-Identifier: GPL-2.0
/*
 * debugfs, in moor/<PCI function>/, because verbs devices can be renamed: "mr" lists the
 * live MRs with their context entries and the shapes of their tables, "windows" the bound
 * windows and their owners, "refusals" the last registrations that failed;
 * "command_timeout_ms" may be changed.
 */

#include <linux/debugfs.h>
#include <linux/pid_namespace.h>
#include <linux/seq_file.h>

#include "moor.h"

static struct dentry *moor_debugfs_root;

static bool moor_mr_info_get(struct moor_dev *mdev, u32 slot,
			     struct moor_mr_info *info)
{
	spinlock_t *lock = moor_keys_lock(&mdev->keys, slot);
	const struct moor_mr *mr;

	spin_lock(lock);
	mr = moor_keys_mr(&mdev->keys, slot);
	if (mr)
		moor_mr_info_copy(mdev, info, mr);
	spin_unlock(lock);
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
		seq_printf(seq, "%-10s %-10s %4s %10s %8s %6s %18s %12s %18s %6s %10s %8s %18s %10s %6s\n",
			   "lkey", "rkey", "type", "generation", "pd",
			   "access", "iova", "length", "start", "levels",
			   "page_shift", "nodes", "root", "offset", "memory");
		return 0;
	}
	if (!moor_mr_info_get(mdev, *(loff_t *)v - 1, &info))
		return SEQ_SKIP;
	seq_printf(seq, "%#010x %#010x %4u %10u %8u %#6x %#18llx %#12llx %#18llx %6u %10u %8u %#18llx %#10llx %6u\n",
		   info.key, info.key, info.type, info.generation, info.pdn,
		   info.access, info.iova, info.length, info.start,
		   info.xlat.levels, info.xlat.page_shift, info.nodes,
		   le64_to_cpu(info.xlat.root), le64_to_cpu(info.xlat.offset),
		   info.xlat.memory);
	return 0;
}

static const struct seq_operations moor_mr_sops = {
	.start = moor_mr_seq_start,
	.next = moor_mr_seq_next,
	.stop = moor_mr_seq_stop,
	.show = moor_mr_seq_show,
};
DEFINE_SEQ_ATTRIBUTE(moor_mr);

struct moor_window_line {
	struct seq_file *seq;
	u32 mr_key;
};

static void moor_window_show(void *arg, const struct moor_window_info *info)
{
	struct moor_window_line *line = arg;
	struct moor_dev *mdev = line->seq->private;
	char comm[TASK_COMM_LEN] = "?";
	struct moor_window window;

	moor_window_describe(mdev, &window, info, &init_pid_ns, comm);
	seq_printf(line->seq, "%#010x %4u %#8x %7d %-15s %#010x %#18llx %#12llx %#6x\n",
		   window.rkey, window.type, window.qpn, window.pid, comm,
		   line->mr_key, window.iova, window.length, window.access);
}

static int moor_windows_seq_show(struct seq_file *seq, void *v)
{
	struct moor_window_line line = { .seq = seq };
	struct moor_dev *mdev = seq->private;
	struct moor_mr_info info;
	int err;

	if (v == SEQ_START_TOKEN) {
		seq_printf(seq, "%-10s %4s %8s %7s %-15s %-10s %18s %12s %6s\n",
			   "rkey", "type", "qpn", "pid", "comm", "mr", "iova",
			   "length", "access");
		return 0;
	}
	if (!moor_mr_info_get(mdev, *(loff_t *)v - 1, &info) ||
	    !(info.access & MOOR_ACCESS_MW_BIND))
		return SEQ_SKIP;
	line.mr_key = info.key;
	err = moor_windows_visit(mdev, info.key, moor_window_show, &line);
	/* The MR is gone meanwhile, or the device has no windows. */
	return err == -EINVAL || err == -EOPNOTSUPP ? 0 : err;
}

static const struct seq_operations moor_windows_sops = {
	.start = moor_mr_seq_start,
	.next = moor_mr_seq_next,
	.stop = moor_mr_seq_stop,
	.show = moor_windows_seq_show,
};
DEFINE_SEQ_ATTRIBUTE(moor_windows);

static void moor_refusal_show(struct seq_file *seq,
			      const struct moor_refusal_record *record)
{
	const struct moor_refusal *why = &record->refusal;

	seq_printf(seq, "%11lld %7d %-15s %5d %-8s %#18llx %#18llx %#18llx %#12llx %#10x\n",
		   record->time, record->pid, record->comm, why->error,
		   moor_refusal_name(why->reason), why->value, why->limit,
		   why->start, why->length, why->access);
}

/* The oldest that is remembered first. */
static int moor_refusals_show(struct seq_file *seq, void *v)
{
	struct moor_dev *mdev = seq->private;
	struct moor_refusals *refusals = &mdev->refusals;
	struct moor_refusal_record record;
	u64 n, count;

	seq_printf(seq, "%11s %7s %-15s %5s %-8s %18s %18s %18s %12s %10s\n",
		   "time", "pid", "comm", "errno", "reason", "value", "limit",
		   "start", "length", "access");
	spin_lock(&refusals->lock);
	count = refusals->count;
	spin_unlock(&refusals->lock);
	n = count > MOOR_REFUSALS_KEPT ? count - MOOR_REFUSALS_KEPT : 0;
	for (; n < count; n++) {
		spin_lock(&refusals->lock);
		record = refusals->last[n % MOOR_REFUSALS_KEPT];
		spin_unlock(&refusals->lock);
		moor_refusal_show(seq, &record);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(moor_refusals);

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
	mdev->debugfs = debugfs_create_dir(pci_name(mdev->pdev),
					   moor_debugfs_root);
	debugfs_create_u32("command_timeout_ms", 0600, mdev->debugfs,
			   &mdev->cmdq.timeout_ms);
	debugfs_create_file("mr", 0400, mdev->debugfs, mdev, &moor_mr_fops);
	debugfs_create_file("windows", 0400, mdev->debugfs, mdev,
			    &moor_windows_fops);
	debugfs_create_file("refusals", 0400, mdev->debugfs, mdev,
			    &moor_refusals_fops);
}

void moor_debugfs_remove(struct moor_dev *mdev)
{
	debugfs_remove_recursive(mdev->debugfs);
}
