// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Protection domains, parent domains and thread domains. Parent and thread
 * domains are known in this process only: to the kernel a parent domain is
 * the PD that it contains.
 */
#include <errno.h>
#include <stdlib.h>

#include "compat.h"
#include "moor.h"
#include "moor_abi.h"

struct ibv_pd *moor_alloc_pd(struct ibv_context *context)
{
	struct moor_ucmd_alloc_pd_resp resp = {};
	struct ibv_alloc_pd cmd;
	struct moor_pd *pd;
	int err;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	err = ibv_cmd_alloc_pd(context, &pd->pd, &cmd, sizeof(cmd),
			       &resp.ibv_resp, sizeof(resp));
	if (err) {
		free(pd);
		errno = err;
		return NULL;
	}
	return &pd->pd;
}

#define SUPPORTED_PARENT_DOMAIN_MASK	(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | \
					 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | \
					 MOOR_PARENT_DOMAIN_CC_UNPROTECTED)

struct ibv_pd *moor_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr)
{
	struct moor_pd *parent, *pd;

	(void)context;
	if (ibv_check_alloc_parent_domain(attr))
		return NULL;
	if (!check_comp_mask(attr->comp_mask, SUPPORTED_PARENT_DOMAIN_MASK)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) &&
	    !attr->alloc != !attr->free) {
		errno = EINVAL;
		return NULL;
	}

	parent = calloc(1, sizeof(*parent));
	if (!parent)
		return NULL;
	/* A parent domain is a PD like others: that of another contains what that contains. */
	pd = to_moor_pd(attr->pd);
	if (pd->contained)
		pd = pd->contained;
	ibv_initialize_parent_domain(&parent->pd, &pd->pd);
	parent->contained = pd;
	atomic_fetch_add(&parent->contained->users, 1);
	if (attr->td) {
		parent->td = container_of(attr->td, struct moor_td, td);
		atomic_fetch_add(&parent->td->users, 1);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		parent->alloc = attr->alloc;
		parent->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		parent->pd_context = attr->pd_context;
	return &parent->pd;
}

static void free_parent_domain(struct moor_pd *parent)
{
	if (parent->td)
		atomic_fetch_sub(&parent->td->users, 1);
	atomic_fetch_sub(&parent->contained->users, 1);
	free(parent);
}

int moor_dealloc_pd(struct ibv_pd *ibpd)
{
	struct moor_pd *pd = to_moor_pd(ibpd);
	int err;

	if (atomic_load(&pd->users))
		return EBUSY;
	if (pd->contained) {
		free_parent_domain(pd);
		return 0;
	}
	err = ibv_cmd_dealloc_pd(ibpd);
	if (err)
		return err;
	free(pd);
	return 0;
}

struct ibv_td *moor_alloc_td(struct ibv_context *context,
			     struct ibv_td_init_attr *attr)
{
	struct moor_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->td.context = context;
	return &td->td;
}

int moor_dealloc_td(struct ibv_td *ibtd)
{
	struct moor_td *td = container_of(ibtd, struct moor_td, td);

	if (atomic_load(&td->users))
		return EBUSY;
	free(td);
	return 0;
}

/**
 * moor_single_threaded - did the consumer promise to lock by itself?
 * @parent: parent domain, or NULL
 */
bool moor_single_threaded(const struct moor_pd *parent)
{
	return parent && parent->td;
}
