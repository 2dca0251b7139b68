/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The commands to the kernel driver, each with the driver's part after the
 * common one. kernel-abi/moor-abi.h is made from rdma/moor-abi.h when the
 * provider is built, by rdma-core's own make_abi_structs.py.
 */
#ifndef MOOR_PROVIDER_ABI_H
#define MOOR_PROVIDER_ABI_H

#include <infiniband/kern-abi.h>
#include <rdma/moor-abi.h>
#include <kernel-abi/moor-abi.h>

DECLARE_DRV_CMD(moor_ucmd_get_context, IB_USER_VERBS_CMD_GET_CONTEXT,
		moor_alloc_ucontext_req, moor_alloc_ucontext_resp);
DECLARE_DRV_CMD(moor_ucmd_query_device, IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
		empty, moor_query_device_resp);
DECLARE_DRV_CMD(moor_ucmd_alloc_pd, IB_USER_VERBS_CMD_ALLOC_PD,
		empty, moor_alloc_pd_resp);
DECLARE_DRV_CMD(moor_ucmd_create_ah, IB_USER_VERBS_CMD_CREATE_AH,
		empty, moor_create_ah_resp);
DECLARE_DRV_CMD(moor_ucmd_create_cq, IB_USER_VERBS_EX_CMD_CREATE_CQ,
		moor_create_cq_req, moor_create_cq_resp);
DECLARE_DRV_CMD(moor_ucmd_resize_cq, IB_USER_VERBS_CMD_RESIZE_CQ,
		moor_resize_cq_req, empty);
DECLARE_DRV_CMD(moor_ucmd_create_srq, IB_USER_VERBS_CMD_CREATE_SRQ,
		moor_create_srq_req, moor_create_srq_resp);
DECLARE_DRV_CMD(moor_ucmd_create_xsrq, IB_USER_VERBS_CMD_CREATE_XSRQ,
		moor_create_srq_req, moor_create_srq_resp);
DECLARE_DRV_CMD(moor_ucmd_modify_srq, IB_USER_VERBS_CMD_MODIFY_SRQ,
		moor_modify_srq_req, empty);
DECLARE_DRV_CMD(moor_ucmd_create_qp, IB_USER_VERBS_CMD_CREATE_QP,
		moor_create_qp_req, moor_create_qp_resp);

#endif /* MOOR_PROVIDER_ABI_H */
