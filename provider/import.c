// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Objects of a context that another process opened (ibv_import_device() and
 * what follows). On-NIC memory is in dm.c.
 */
#include <errno.h>
#include <stdlib.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/moor_user_ioctl_cmds.h>

#include "moor.h"

struct ibv_pd *moor_import_pd(struct ibv_context *context, uint32_t handle)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_PD, MOOR_METHOD_PD_QUERY, 2);
	struct moor_alloc_pd_resp resp = {};
	struct moor_pd *pd;
	int err;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	/* This only checks that the handle is a PD's; the response is not used. */
	fill_attr_in_obj(cmd, MOOR_ATTR_PD_QUERY_HANDLE, handle);
	fill_attr_out_ptr(cmd, MOOR_ATTR_PD_QUERY_RESP, &resp);
	err = execute_ioctl(context, cmd);
	if (err) {
		free(pd);
		errno = err;
		return NULL;
	}
	pd->pd.context = context;
	pd->pd.handle = handle;
	return &pd->pd;
}

void moor_unimport_pd(struct ibv_pd *pd)
{
	free(to_moor_pd(pd));
}

struct ibv_mr *moor_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct verbs_mr *vmr;
	int err;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	err = ibv_cmd_query_mr(pd, vmr, handle);
	if (err) {
		free(vmr);
		errno = err;
		return NULL;
	}
	return &vmr->ibv_mr;
}

void moor_unimport_mr(struct ibv_mr *mr)
{
	free(verbs_get_mr(mr));
}
