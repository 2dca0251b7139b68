// SPDX-License-Identifier: GPL-2.0
/*
 * A process's context and what it may map: its doorbell pages, the kick pages
 * that go with them, the dozing word, and its on-NIC memory.
 */

#include <linux/mm.h>
#include <linux/slab.h>

#include "moor.h"

/**
 * moor_mmap_insert - make something mappable by a process
 * @uctx: its context
 * @kind: what
 * @page: page number, for kinds that are numbered
 * @num_pages: how many
 *
 * Return: the entry, or -ENOMEM.
 */
struct moor_mmap_entry *moor_mmap_insert(struct moor_ucontext *uctx,
					 enum moor_mmap_kind kind, u32 page,
					 u32 num_pages)
{
	struct moor_mmap_entry *entry = kzalloc_obj(*entry);
	int err;

	if (!entry)
		return ERR_PTR(-ENOMEM);
	entry->kind = kind;
	entry->page = page;
	entry->num_pages = num_pages;
	err = rdma_user_mmap_entry_insert(&uctx->ibucontext,
					  &entry->rdma_entry,
					  (size_t)num_pages * PAGE_SIZE);
	if (err) {
		kfree(entry);
		return ERR_PTR(err);
	}
	return entry;
}

/**
 * moor_mmap_free - the last mapping of an entry is gone
 * @rdma_entry: entry
 *
 * All mappings end before their context does, so a page's entries of both
 * kinds are let go together, the doorbell's last. On-NIC memory that is freed
 * while mapped may be given to another owner only from here on.
 */
void moor_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct moor_mmap_entry *entry =
		container_of(rdma_entry, struct moor_mmap_entry, rdma_entry);
	struct moor_dev *mdev = to_mdev(rdma_entry->ucontext->device);

	if (entry->kind == MOOR_MMAP_DOORBELL)
		moor_db_free_page(mdev, entry->page);
	else if (entry->kind == MOOR_MMAP_DM)
		moor_dm_free_pages(mdev, entry->page, entry->num_pages);
	kfree(entry);
}

static int moor_mmap_entry_map(struct moor_dev *mdev,
			       struct ib_ucontext *ibuctx,
			       struct vm_area_struct *vma,
			       struct moor_mmap_entry *entry)
{
	phys_addr_t addr = mdev->db_bar + (phys_addr_t)entry->page * PAGE_SIZE;
	pgprot_t prot = vma->vm_page_prot;

	switch (entry->kind) {
	case MOOR_MMAP_DOORBELL:
		prot = pgprot_writecombine(prot);
		break;
	case MOOR_MMAP_KICK:
		addr += mdev->caps.kick_offset;
		prot = pgprot_noncached(prot);
		break;
	case MOOR_MMAP_DOZE:
		/* All processes share it and the device alone writes it. */
		if (vma->vm_flags & VM_WRITE)
			return -EPERM;
		vm_flags_clear(vma, VM_MAYWRITE);
		addr = virt_to_phys(mdev->doze);
		break;
	case MOOR_MMAP_DM:
		addr += mdev->caps.dm_offset;
		prot = pgprot_writecombine(prot);
		break;
	}
	return rdma_user_mmap_io(ibuctx, vma, PHYS_PFN(addr),
				 (size_t)entry->num_pages * PAGE_SIZE, prot,
				 &entry->rdma_entry);
}

/**
 * moor_mmap - map what an offset stands for
 * @ibuctx: context
 * @vma: where
 *
 * Offsets are looked up in the context's own table, so that a process cannot map
 * what was given to another one.
 *
 * Return: 0; -EINVAL for an unknown offset, a wrong size or a private mapping;
 * -EPERM for the dozing word mapped writable; -EAGAIN; -ENOMEM.
 */
int moor_mmap(struct ib_ucontext *ibuctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	int err;

	rdma_entry = rdma_user_mmap_entry_get(ibuctx, vma);
	if (!rdma_entry)
		return -EINVAL;
	vm_flags_set(vma, VM_DONTCOPY);
	err = moor_mmap_entry_map(to_mdev(ibuctx->device), ibuctx, vma,
				  container_of(rdma_entry,
					       struct moor_mmap_entry,
					       rdma_entry));
	rdma_user_mmap_entry_put(rdma_entry);
	return err;
}

static void moor_ucontext_describe(const struct moor_ucontext *uctx,
				   struct moor_alloc_ucontext_resp *resp)
{
	const struct moor_dev *mdev = to_mdev(uctx->ibucontext.device);

	*resp = (struct moor_alloc_ucontext_resp){
		.hw_version = mdev->caps.version,
		.null_lkey = mdev->caps.null_lkey,
		.features = mdev->caps.features,
		.doze_mmap_offset =
			rdma_user_mmap_get_offset(&uctx->doze->rdma_entry),
		.max_inline = mdev->caps.max_inline,
	};
}

/**
 * moor_alloc_ucontext - open a context for a process
 * @ibuctx: context
 * @udata: struct moor_alloc_ucontext_req and _resp
 *
 * Return: 0 or an errno.
 */
int moor_alloc_ucontext(struct ib_ucontext *ibuctx, struct ib_udata *udata)
{
	struct moor_ucontext *uctx = to_muctx(ibuctx);
	struct moor_alloc_ucontext_resp resp;
	struct moor_alloc_ucontext_req req = {};
	int err;

	err = ib_copy_validate_udata_in(udata, req, reserved);
	if (err)
		return err;
	if (req.reserved)
		return -EINVAL;

	mutex_init(&uctx->db_lock);
	INIT_LIST_HEAD(&uctx->db_pages);
	uctx->doze = moor_mmap_insert(uctx, MOOR_MMAP_DOZE, 0, 1);
	if (IS_ERR(uctx->doze))
		return PTR_ERR(uctx->doze);

	moor_ucontext_describe(uctx, &resp);
	err = ib_respond_udata(udata, resp);
	if (err)
		rdma_user_mmap_entry_remove(&uctx->doze->rdma_entry);
	return err;
}

/**
 * moor_query_ucontext - tell a process that imports a context what it is
 * @ibuctx: context
 * @attrs: MOOR_ATTR_QUERY_CONTEXT_RESP, out
 *
 * Return: 0 or an errno.
 */
int moor_query_ucontext(struct ib_ucontext *ibuctx,
			struct uverbs_attr_bundle *attrs)
{
	struct moor_alloc_ucontext_resp resp;

	moor_ucontext_describe(to_muctx(ibuctx), &resp);
	return uverbs_copy_to_struct_or_zero(attrs,
					     MOOR_ATTR_QUERY_CONTEXT_RESP,
					     &resp, sizeof(resp));
}

void moor_dealloc_ucontext(struct ib_ucontext *ibuctx)
{
	struct moor_ucontext *uctx = to_muctx(ibuctx);

	moor_faults_close(uctx);
	moor_db_release_pages(uctx);
	rdma_user_mmap_entry_remove(&uctx->doze->rdma_entry);
	mutex_destroy(&uctx->db_lock);
}

/**
 * moor_disassociate_ucontext - the device leaves, the process stays
 * @ibuctx: context
 *
 * That this function exists makes the core replace the process's mappings with
 * zero pages and destroy its objects without waiting for it. Nothing is left to
 * do here.
 */
void moor_disassociate_ucontext(struct ib_ucontext *ibuctx)
{
}
