// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory regions. The kernel does the work; a dereg_mr or rereg_mr that is
 * refused with EBUSY (a window is bound) leaves the region as it was.
 */
#include <errno.h>
#include <stdlib.h>

#include "moor.h"

/**
 * moor_note_failure - remember what was asked for when a registration failed
 * @context: context of the call
 * @err: errno of the call
 * @asked: arguments of the call
 *
 * For moordv_last_refusal().
 */
void moor_note_failure(struct ibv_context *context, int err,
		       const struct moor_registration *asked)
{
	struct moor_context *ctx = to_moor_context(context);

	pthread_mutex_lock(&ctx->lock);
	ctx->failed = *asked;
	ctx->failed.error = err;
	pthread_mutex_unlock(&ctx->lock);
}

struct ibv_mr *moor_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			   uint64_t hca_va, int access)
{
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;
	struct verbs_mr *vmr;
	int err;

	/*
	 * To give 0 is to give ZERO_BASED, says ibv_reg_mr_iova(3). The kernel wants the
	 * same offset in the page of any hca_va, even of one that it ignores; one that has
	 * it counts again when rereg_mr() takes the flag away.
	 */
	if ((!hca_va || access & IBV_ACCESS_ZERO_BASED) &&
	    (hca_va ^ (uintptr_t)addr) % MOOR_PAGE_SIZE) {
		access |= IBV_ACCESS_ZERO_BASED;
		hca_va = (uintptr_t)addr;
	}
	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	err = ibv_cmd_reg_mr(pd, addr, length, hca_va, access, vmr,
			     &cmd, sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		struct moor_registration asked = {
			.start = (uintptr_t)addr, .length = length,
			.iova = hca_va, .access = access,
		};

		moor_note_failure(pd->context, err, &asked);
		free(vmr);
		errno = err;
		return NULL;
	}
	return &vmr->ibv_mr;
}

struct ibv_mr *moor_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				  size_t length, uint64_t iova, int fd,
				  int access)
{
	struct verbs_mr *vmr = calloc(1, sizeof(*vmr));
	int err;

	if (!vmr)
		return NULL;
	err = ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr,
				    NULL);
	if (err) {
		struct moor_registration asked = {
			.start = offset, .length = length,
			.iova = iova, .access = access, .dmabuf = true,
		};

		moor_note_failure(pd->context, err, &asked);
		free(vmr);
		errno = err;
		return NULL;
	}
	return &vmr->ibv_mr;
}

int moor_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
		  void *addr, size_t length, int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ibv_context *context = vmr->ibv_mr.context;
	struct ibv_rereg_mr cmd;
	int err;

	err = ibv_cmd_rereg_mr(vmr, flags, addr, length, (uintptr_t)addr,
			       access, pd, &cmd, sizeof(cmd), &resp,
			       sizeof(resp));
	if (err) {
		struct moor_registration asked = {
			.start = (uintptr_t)addr, .length = length,
			.iova = (uintptr_t)addr, .access = access,
			.no_range = !(flags & IBV_REREG_MR_CHANGE_TRANSLATION),
			.no_access = !(flags & IBV_REREG_MR_CHANGE_ACCESS),
		};

		moor_note_failure(context, err, &asked);
		/* libibverbs tells its caller only that the command failed, not why. */
		errno = err;
	}
	return err;
}

/*
 * The null MR is one key of the device that is valid with every PD: the kernel is
 * not called.
 */
struct ibv_mr *moor_alloc_null_mr(struct ibv_pd *pd)
{
	struct verbs_mr *vmr = calloc(1, sizeof(*vmr));

	if (!vmr)
		return NULL;
	vmr->mr_type = IBV_MR_TYPE_NULL_MR;
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.length = SIZE_MAX;
	vmr->ibv_mr.lkey = to_moor_context(pd->context)->null_lkey;
	return &vmr->ibv_mr;
}

int moor_dereg_mr(struct verbs_mr *vmr)
{
	int err = 0;

	if (vmr->mr_type != IBV_MR_TYPE_NULL_MR)
		err = ibv_cmd_dereg_mr(vmr);
	if (err)
		return err;
	free(vmr);
	return 0;
}
