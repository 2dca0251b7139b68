// SPDX-License-Identifier: GPL-2.0
/* What "rdma resource show" says of Moor's objects beside the core's part. */

#include <rdma/restrack.h>

#include "moor.h"

/**
 * moor_fill_res_mr_entry - driver attributes of an MR
 * @msg: netlink message
 * @ibmr: MR
 *
 * Return: 0 or -EMSGSIZE.
 */
int moor_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	const struct moor_mr *mr = to_mmr(ibmr);
	const struct moor_xlat *xlat = &mr->table.xlat;
	struct nlattr *table;

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u64_hex(msg, "mr_iova", mr->iova) ||
	    rdma_nl_put_driver_u64_hex(msg, "mr_start", mr->start) ||
	    rdma_nl_put_driver_u32_hex(msg, "access", mr->access) ||
	    rdma_nl_put_driver_u32(msg, "generation", mr->generation) ||
	    rdma_nl_put_driver_u32(msg, "levels", xlat->levels) ||
	    rdma_nl_put_driver_u32(msg, "page_shift", xlat->page_shift) ||
	    rdma_nl_put_driver_u32(msg, "nodes", mr->table.num_nodes) ||
	    rdma_nl_put_driver_u64_hex(msg, "root", le64_to_cpu(xlat->root)))
		goto cancel;
	nla_nest_end(msg, table);
	return 0;

cancel:
	nla_nest_cancel(msg, table);
	return -EMSGSIZE;
}
