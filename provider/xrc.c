// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Extended reliable connections (HWI 12.6): domains and targets. The kernel keeps the
 * targets, which have no queues. Requesters are QPs like others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "moor.h"

/* A target has no PD, but librdmacm passes a PD for every QP. */
#define SUPPORTED_COMP_MASK	(IBV_QP_INIT_ATTR_PD | \
				 IBV_QP_INIT_ATTR_XRCD | \
				 IBV_QP_INIT_ATTR_CREATE_FLAGS)

struct ibv_xrcd *moor_open_xrcd(struct ibv_context *context,
				struct ibv_xrcd_init_attr *attr)
{
	struct verbs_xrcd *xrcd = calloc(1, sizeof(*xrcd));
	struct ib_uverbs_open_xrcd_resp resp;
	struct ibv_open_xrcd cmd;
	int err;

	if (!xrcd)
		return NULL;
	err = ibv_cmd_open_xrcd(context, xrcd, sizeof(*xrcd), attr, &cmd,
				sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(xrcd);
		errno = err;
		return NULL;
	}
	return &xrcd->xrcd;
}

int moor_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct verbs_xrcd *xrcd = container_of(ibxrcd, struct verbs_xrcd, xrcd);
	int err;

	err = ibv_cmd_close_xrcd(xrcd);
	if (!err)
		free(xrcd);
	return err;
}

static int check_target(const struct ibv_context *context,
			const struct ibv_qp_init_attr_ex *attr)
{
	if (!check_comp_mask(attr->comp_mask, SUPPORTED_COMP_MASK) ||
	    ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	     attr->create_flags))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd ||
	    attr->xrcd->context != context)
		return EINVAL;
	return 0;
}

/**
 * moor_create_target - create an XRC target
 * @context: the context
 * @attr: attributes; the queue sizes are ignored, as there are no queues
 *
 * Returns the QP, or NULL with errno.
 */
struct ibv_qp *moor_create_target(struct ibv_context *context,
				  struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex kernel_attr = *attr;
	struct ib_uverbs_create_qp_resp resp = {};
	struct ibv_create_qp cmd = {};
	struct moor_qp *qp;
	int err;

	err = check_target(context, attr);
	if (err) {
		errno = err;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	kernel_attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	memset(&kernel_attr.cap, 0, sizeof(kernel_attr.cap));
	err = ibv_cmd_create_qp_ex(context, &qp->vqp, &kernel_attr, &cmd,
				   sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(qp);
		errno = err;
		return NULL;
	}
	attr->cap = kernel_attr.cap;
	return &qp->vqp.qp;
}

/* Opens an existing target, perhaps one of another process. */
struct ibv_qp *moor_open_qp(struct ibv_context *context,
			    struct ibv_qp_open_attr *attr)
{
	struct ib_uverbs_create_qp_resp resp;
	struct ibv_open_qp cmd;
	struct moor_qp *qp = calloc(1, sizeof(*qp));
	int err;

	if (!qp)
		return NULL;
	err = ibv_cmd_open_qp(context, &qp->vqp, sizeof(qp->vqp), attr, &cmd,
			      sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(qp);
		errno = err;
		return NULL;
	}
	return &qp->vqp.qp;
}

int moor_destroy_target(struct moor_qp *qp)
{
	int err = ibv_cmd_destroy_qp(&qp->vqp.qp);

	if (!err)
		free(qp);
	return err;
}
