// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * On-NIC memory (HWI 7.3): allocated by the kernel, mapped here, copied to and
 * from by the CPU, registered as a zero-based memory region.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/moor_user_ioctl_cmds.h>

#include "moor.h"

/* libibverbs leaves the granularity to the device; programs expect four bytes. */
static bool may_copy(const struct moor_dm *dm, uint64_t offset, size_t length)
{
	return offset % sizeof(uint32_t) == 0 &&
	       length % sizeof(uint32_t) == 0 &&
	       offset <= dm->length && length <= dm->length - offset;
}

/* Uses accesses of eight bytes where @dm is aligned to that, and never longer ones. */
static void copy_to(void *dm, const uint8_t *from, size_t length)
{
	uint64_t word;
	uint32_t half;

	while (length) {
		if (length >= sizeof(word) && (uintptr_t)dm % sizeof(word) == 0) {
			memcpy(&word, from, sizeof(word));
			*(volatile uint64_t *)dm = word;
			dm += sizeof(word);
			from += sizeof(word);
			length -= sizeof(word);
		} else {
			memcpy(&half, from, sizeof(half));
			*(volatile uint32_t *)dm = half;
			dm += sizeof(half);
			from += sizeof(half);
			length -= sizeof(half);
		}
	}
}

static void copy_from(uint8_t *to, const void *dm, size_t length)
{
	uint64_t word;
	uint32_t half;

	while (length) {
		if (length >= sizeof(word) && (uintptr_t)dm % sizeof(word) == 0) {
			word = *(volatile const uint64_t *)dm;
			memcpy(to, &word, sizeof(word));
			dm += sizeof(word);
			to += sizeof(word);
			length -= sizeof(word);
		} else {
			half = *(volatile const uint32_t *)dm;
			memcpy(to, &half, sizeof(half));
			dm += sizeof(half);
			to += sizeof(half);
			length -= sizeof(half);
		}
	}
}

static int memcpy_to_dm(struct ibv_dm *ibdm, uint64_t offset,
			const void *host_addr, size_t length)
{
	struct moor_dm *dm = to_moor_dm(ibdm);

	if (!may_copy(dm, offset, length))
		return EINVAL;
	copy_to(dm->addr + offset, host_addr, length);
	/* The stores must be out before the doorbell of a request that reads them. */
	mmio_flush_writes();
	return 0;
}

static int memcpy_from_dm(void *host_addr, struct ibv_dm *ibdm, uint64_t offset,
			  size_t length)
{
	struct moor_dm *dm = to_moor_dm(ibdm);

	if (!may_copy(dm, offset, length))
		return EINVAL;
	copy_from(host_addr, dm->addr + offset, length);
	return 0;
}

static size_t mapped_size(const struct moor_dm *dm)
{
	return align(dm->length, MOOR_PAGE_SIZE);
}

/* Maps the on-NIC memory. Returns 0 or an errno. */
static int set_up(struct moor_dm *dm, struct ibv_context *context,
		  const struct moor_dm_location *where)
{
	struct moor_context *ctx = to_moor_context(context);

	dm->length = where->length;
	dm->addr = mmap(NULL, mapped_size(dm), PROT_READ | PROT_WRITE,
			MAP_SHARED, context->cmd_fd, where->mmap_offset);
	if (dm->addr == MAP_FAILED)
		return errno;
	dm->vdm.dm.memcpy_to_dm = memcpy_to_dm;
	dm->vdm.dm.memcpy_from_dm = memcpy_from_dm;
	pthread_mutex_lock(&ctx->lock);
	list_add(&ctx->dms, &dm->entry);
	pthread_mutex_unlock(&ctx->lock);
	return 0;
}

static void unmap(struct moor_dm *dm)
{
	list_del(&dm->entry);
	munmap(dm->addr, mapped_size(dm));
	free(dm);
}

struct ibv_dm *moor_alloc_dm(struct ibv_context *context,
			     struct ibv_alloc_dm_attr *attr)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
			       1);
	struct moor_dm_location where = {};
	struct moor_dm *dm;
	int err;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;
	fill_attr_out_ptr(cmd, MOOR_ATTR_ALLOC_DM_RESP, &where);
	err = ibv_cmd_alloc_dm(context, attr, &dm->vdm, cmd);
	if (err)
		goto free_dm;
	err = set_up(dm, context, &where);
	if (err)
		goto free_in_kernel;
	return &dm->vdm.dm;

free_in_kernel:
	ibv_cmd_free_dm(&dm->vdm);
free_dm:
	free(dm);
	errno = err;
	return NULL;
}

/* The kernel returns EBUSY if MRs are registered on the memory. */
int moor_free_dm(struct ibv_dm *ibdm)
{
	struct moor_dm *dm = to_moor_dm(ibdm);
	int err = ibv_cmd_free_dm(&dm->vdm);

	if (err)
		return err;
	moor_unimport_dm(ibdm);
	return 0;
}

struct ibv_dm *moor_import_dm(struct ibv_context *context, uint32_t handle)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, MOOR_METHOD_DM_QUERY, 2);
	struct moor_dm_location where = {};
	struct moor_dm *dm;
	int err;

	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;
	fill_attr_in_obj(cmd, MOOR_ATTR_DM_QUERY_HANDLE, handle);
	fill_attr_out_ptr(cmd, MOOR_ATTR_DM_QUERY_RESP, &where);
	err = execute_ioctl(context, cmd);
	if (!err)
		err = set_up(dm, context, &where);
	if (err) {
		free(dm);
		errno = err;
		return NULL;
	}
	dm->vdm.handle = handle;
	dm->vdm.dm.handle = handle;
	dm->vdm.dm.comp_mask = IBV_DM_MASK_HANDLE;
	dm->vdm.dm.context = context;
	return &dm->vdm.dm;
}

void moor_unimport_dm(struct ibv_dm *ibdm)
{
	struct moor_context *ctx = to_moor_context(ibdm->context);

	pthread_mutex_lock(&ctx->lock);
	unmap(to_moor_dm(ibdm));
	pthread_mutex_unlock(&ctx->lock);
}

/**
 * moor_dms_close - unmap the on-NIC memory that was never freed
 * @ctx: the context, which is being closed
 */
void moor_dms_close(struct moor_context *ctx)
{
	struct moor_dm *dm, *next;

	list_for_each_safe(&ctx->dms, dm, next, entry)
		unmap(dm);
}

struct ibv_mr *moor_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm,
			      uint64_t offset, size_t length,
			      unsigned int access)
{
	struct verbs_mr *vmr;
	int err;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	err = ibv_cmd_reg_dm_mr(pd, &to_moor_dm(ibdm)->vdm, offset, length,
				access, vmr, NULL);
	if (err) {
		struct moor_registration asked = {
			.start = offset, .length = length, .access = access,
			.dm_length = to_moor_dm(ibdm)->length,
		};

		moor_note_failure(pd->context, err, &asked);
		free(vmr);
		errno = err;
		return NULL;
	}
	return &vmr->ibv_mr;
}
