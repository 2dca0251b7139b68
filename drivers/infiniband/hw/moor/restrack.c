// SPDX-License-Identifier: GPL-2.0
/* What "rdma resource show" says of Moor's objects beside the core's part. */

#include <linux/capability.h>
#include <linux/pid_namespace.h>
#include <net/sock.h>
#include <rdma/restrack.h>

#include "moor.h"

/* Windows that are listed; a message has no room for thousands of them. */
#define MOOR_RES_WINDOWS	8

/* Windows on their way into a message. */
struct moor_res_windows {
	struct moor_dev *mdev;
	struct sk_buff *msg;
	u32 count;
	int err;
};

static int moor_res_put(struct moor_res_windows *windows, const char *what,
			bool hex, u32 value)
{
	char name[16];

	snprintf(name, sizeof(name), "window%u_%s", windows->count, what);
	return hex ? rdma_nl_put_driver_u32_hex(windows->msg, name, value) :
		     rdma_nl_put_driver_u32(windows->msg, name, value);
}

static void moor_res_add_window(void *arg, const struct moor_window_info *info)
{
	struct moor_res_windows *windows = arg;
	struct moor_window window;

	if (windows->err || windows->count == MOOR_RES_WINDOWS)
		return;
	moor_window_describe(windows->mdev, &window, info,
			     task_active_pid_ns(current), NULL);
	if (moor_res_put(windows, "rkey", true, window.rkey) ||
	    moor_res_put(windows, "type", false, window.type) ||
	    moor_res_put(windows, "qpn", true, window.qpn) ||
	    moor_res_put(windows, "pid", false, window.pid))
		windows->err = -EMSGSIZE;
	windows->count++;
}

/*
 * Any process may query the MRs of all processes. The core shows keys only to those with
 * CAP_NET_ADMIN, and so it is with addresses here. The message of a dump has the asker's
 * socket; that of a single answer has none yet, and the asker is the current task.
 */
static bool moor_res_may_see(const struct sk_buff *msg)
{
	return msg->sk ? sk_capable(msg->sk, CAP_NET_ADMIN) :
			 capable(CAP_NET_ADMIN);
}

static int moor_res_put_addresses(struct sk_buff *msg,
				  const struct moor_mr_info *info)
{
	if (rdma_nl_put_driver_u64_hex(msg, "mr_iova", info->iova) ||
	    rdma_nl_put_driver_u64_hex(msg, "mr_start", info->start) ||
	    rdma_nl_put_driver_u64_hex(msg, "root",
				       le64_to_cpu(info->xlat.root)))
		return -EMSGSIZE;
	return 0;
}

/* How many windows are bound and, if the asker may see keys, the first of them. */
static int moor_res_put_windows(struct sk_buff *msg, struct moor_dev *mdev,
				const struct moor_mr_info *info, bool may_see)
{
	struct moor_res_windows windows = { .mdev = mdev, .msg = msg };
	u32 bound = moor_mr_count_windows(mdev, info->key, info->access);

	if (rdma_nl_put_driver_u32(msg, "windows", bound))
		return -EMSGSIZE;
	/* If the device fails meanwhile, the number is all there is to say. */
	if (bound && may_see)
		moor_windows_visit(mdev, info->key, moor_res_add_window,
				   &windows);
	return windows.err;
}

/**
 * moor_fill_res_mr_entry - driver attributes of an MR
 * @msg: netlink message
 * @ibmr: MR
 *
 * The core holds no lock but a reference, which deregistering waits for, so the
 * device may be asked which windows are bound.
 *
 * Return: 0 or -EMSGSIZE.
 */
int moor_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct moor_dev *mdev = to_mdev(ibmr->device);
	spinlock_t *lock = moor_key_lock(mdev, to_mmr(ibmr)->key);
	bool may_see = moor_res_may_see(msg);
	struct moor_mr_info info;
	struct nlattr *table;

	spin_lock(lock);
	moor_mr_info_copy(mdev, &info, to_mmr(ibmr));
	spin_unlock(lock);
	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if ((may_see && moor_res_put_addresses(msg, &info)) ||
	    rdma_nl_put_driver_u32_hex(msg, "access", info.access) ||
	    rdma_nl_put_driver_u32(msg, "generation", info.generation) ||
	    rdma_nl_put_driver_u32(msg, "memory", info.xlat.memory) ||
	    rdma_nl_put_driver_u32(msg, "levels", info.xlat.levels) ||
	    rdma_nl_put_driver_u32(msg, "page_shift", info.xlat.page_shift) ||
	    rdma_nl_put_driver_u32(msg, "nodes", info.nodes) ||
	    moor_res_put_windows(msg, mdev, &info, may_see))
		goto cancel;
	nla_nest_end(msg, table);
	return 0;

cancel:
	nla_nest_cancel(msg, table);
	return -EMSGSIZE;
}
