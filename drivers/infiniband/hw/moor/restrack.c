// SPDX-License-Identifier: GPL-2.0
/* What "rdma resource show" says of Moor's objects beside the core's part. */

#include <rdma/restrack.h>

#include "moor.h"

/**
 * moor_fill_res_mr_entry - driver attributes of an MR
 * @msg: netlink message
 * @ibmr: MR
 *
 * The core holds no lock but a reference, which deregistering waits for, so the
 * device may be asked how many windows are bound.
 *
 * Return: 0 or -EMSGSIZE.
 */
int moor_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct moor_dev *mdev = to_mdev(ibmr->device);
	struct moor_mr_info info;
	struct nlattr *table;

	spin_lock(&mdev->keys.lock);
	moor_mr_info_copy(mdev, &info, to_mmr(ibmr));
	spin_unlock(&mdev->keys.lock);
	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u64_hex(msg, "mr_iova", info.iova) ||
	    rdma_nl_put_driver_u64_hex(msg, "mr_start", info.start) ||
	    rdma_nl_put_driver_u32_hex(msg, "access", info.access) ||
	    rdma_nl_put_driver_u32(msg, "windows",
				   moor_mr_count_windows(mdev, to_mmr(ibmr))) ||
	    rdma_nl_put_driver_u32(msg, "generation", info.generation) ||
	    rdma_nl_put_driver_u32(msg, "memory", info.xlat.memory) ||
	    rdma_nl_put_driver_u32(msg, "levels", info.xlat.levels) ||
	    rdma_nl_put_driver_u32(msg, "page_shift", info.xlat.page_shift) ||
	    rdma_nl_put_driver_u32(msg, "nodes", info.nodes) ||
	    rdma_nl_put_driver_u64_hex(msg, "root",
				       le64_to_cpu(info.xlat.root)))
		goto cancel;
	nla_nest_end(msg, table);
	return 0;

cancel:
	nla_nest_cancel(msg, table);
	return -EMSGSIZE;
}
