// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows. The driver makes them and ends them; binding and invalidating
 * is between the process and the device. So the driver asks the device which windows
 * are bound to an MR (HWI 6.7).
 */

#include <linux/dma-mapping.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>

#include "moor.h"
#include "trace.h"

/**
 * moor_alloc_mw - make a window
 * @ibmw: window; its type and protection domain are set
 * @udata: no input
 *
 * Return: 0; -EOPNOTSUPP for a type that the device does not have; -ENOMEM if
 * all keys are in use.
 */
int moor_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibmw->device);
	bool type_1 = ibmw->type == IB_MW_TYPE_1;
	struct moor_mw *mw = to_mmw(ibmw);
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return err;
	if (!(mdev->caps.features & (type_1 ? MOOR_FEATURE_MW_TYPE_1 :
					      MOOR_FEATURE_MW_TYPE_2B)))
		return -EOPNOTSUPP;
	if (moor_is_dead(mdev))
		return -EIO;

	err = moor_key_alloc_consumer(mdev, &mw->key);
	if (err)
		return err;
	atomic_inc(&to_mpd(ibmw->pd)->mws_made);
	moor_mw_publish(mdev, mw->key,
			type_1 ? MOOR_MRC_TYPE_MW_1 : MOOR_MRC_TYPE_MW_2,
			to_mpd(ibmw->pd)->pdn);
	ibmw->rkey = mw->key;
	return 0;
}

/**
 * moor_dealloc_mw - end a window, bound or not
 * @ibmw: window
 *
 * Nothing is bound to a window. A device that calls a window busy is stopped.
 *
 * Return: 0.
 */
int moor_dealloc_mw(struct ib_mw *ibmw)
{
	struct moor_dev *mdev = to_mdev(ibmw->device);
	struct moor_mw *mw = to_mmw(ibmw);

	if (!moor_is_revoked(&mw->exit) && moor_key_revoke(mdev, mw->key))
		moor_hw_kill(mdev, "it holds a window");
	atomic_inc(&to_mpd(ibmw->pd)->mws_gone);
	moor_key_free(mdev, mw->key);
	return 0;
}

/**
 * moor_mr_count_windows - windows bound to an MR
 * @mdev: device
 * @key: of the MR
 * @access: the MR's rights; a copy, as the caller may not have the MR to itself
 *
 * Context: process; sleeps.
 *
 * Return: how many; 0 also if the device does not answer any more.
 */
u32 moor_mr_count_windows(struct moor_dev *mdev, u32 key, u32 access)
{
	struct moor_cpl_mr_query out;

	if (!(access & MOOR_ACCESS_MW_BIND) ||
	    moor_cmd_mr_query(mdev, key, &out))
		return 0;
	return le32_to_cpu(out.windows);
}

/**
 * moor_windows_visit - visit the windows bound to an MR
 * @mdev: device
 * @key: of the MR
 * @visit: called with each window
 * @arg: first argument of @visit
 *
 * Windows that are bound or unbound meanwhile may be missed, and most of them by a caller
 * that is being killed.
 *
 * Return: 0; -EINVAL if there is no such MR (any more); or another errno.
 */
int moor_windows_visit(struct moor_dev *mdev, u32 key,
		       void (*visit)(void *arg,
				     const struct moor_window_info *info),
		       void *arg)
{
	struct device *dev = &mdev->pdev->dev;
	struct moor_cpl_mr_windows out = {};
	struct moor_window_info *page;
	u32 i, count, left = mdev->mw_keys.size + 1;
	dma_addr_t dma;
	int err;

	page = dma_alloc_coherent(dev, MOOR_PAGE_SIZE, &dma, GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	do {
		err = moor_cmd_mr_windows(mdev, key, le32_to_cpu(out.cursor),
					  dma, &out);
		if (err)
			break;
		count = le32_to_cpu(out.count);
		for (i = 0; i < count; i++)
			visit(arg, &page[i]);
		/*
		 * A device may look at some of its windows at a time and find none of
		 * this MR (HWI CMD-32). One that repeats cursors ends, too.
		 */
		left -= min(left, max(count, 1U));
	} while (out.cursor && left && !fatal_signal_pending(current));
	dma_free_coherent(dev, MOOR_PAGE_SIZE, page, dma);
	return err;
}

/**
 * moor_window_describe - describe a bound window for people and processes
 * @mdev: device
 * @window: filled in
 * @info: what the device said of the window
 * @ns: namespace in which the process number is given
 * @comm: room for the name of the process that owns the QP, or NULL
 */
void moor_window_describe(struct moor_dev *mdev, struct moor_window *window,
			  const struct moor_window_info *info,
			  struct pid_namespace *ns, char *comm)
{
	u32 qpn = le32_to_cpu(info->qpn);
	struct pid *owner = moor_qp_owner(mdev, qpn, comm);

	*window = (struct moor_window){
		.rkey = le32_to_cpu(info->key),
		.type = le32_to_cpu(info->type) == MOOR_MRC_TYPE_MW_1 ? 1 : 2,
		.qpn = qpn,
		.iova = le64_to_cpu(info->iova),
		.length = le64_to_cpu(info->length),
		.access = le32_to_cpu(info->access),
	};
	if (owner) {
		rcu_read_lock();
		if (pid_task(owner, PIDTYPE_TGID))
			window->pid = pid_nr_ns(owner, ns);
		rcu_read_unlock();
		put_pid(owner);
	}
}

struct moor_held_mr {
	struct moor_dev *mdev;
	u32 key;
};

static void moor_mr_trace_holder(void *arg, const struct moor_window_info *info)
{
	struct moor_held_mr *held = arg;
	struct moor_window window;

	moor_window_describe(held->mdev, &window, info, &init_pid_ns, NULL);
	trace_moor_mr_holder(held->mdev, held->key, &window);
}

/**
 * moor_mr_trace_holders - trace each window bound to an MR
 * @mdev: device
 * @key: of an MR that could not be deregistered or re-registered
 *
 * Asks the device only if the trace event is enabled.
 */
void moor_mr_trace_holders(struct moor_dev *mdev, u32 key)
{
	struct moor_held_mr held = { .mdev = mdev, .key = key };

	if (trace_moor_mr_holder_enabled())
		moor_windows_visit(mdev, key, moor_mr_trace_holder, &held);
}
