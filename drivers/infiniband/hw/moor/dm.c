// SPDX-License-Identifier: GPL-2.0
/*
 * On-NIC memory (HWI 7.3): handed out in pages, cleared, mapped by its process
 * and registered like other memory, except that nothing is pinned.
 */

#include <linux/bitmap.h>
#include <linux/io.h>
#include <linux/slab.h>

#include "moor.h"
#include "regs.h"

/**
 * moor_dm_init - map the NIC's memory and make all of it free
 * @mdev: device
 *
 * Return: 0 or -ENOMEM.
 */
int moor_dm_init(struct moor_dev *mdev)
{
	struct moor_dm_pool *pool = &mdev->dm;

	spin_lock_init(&pool->lock);
	pool->pages = mdev->caps.dm_size / MOOR_PAGE_SIZE;
	if (!pool->pages)
		return 0;
	pool->used = bitmap_zalloc(pool->pages, GFP_KERNEL);
	if (!pool->used)
		return -ENOMEM;
	pool->mem = ioremap_wc(mdev->db_bar + mdev->caps.dm_offset,
			       mdev->caps.dm_size);
	if (!pool->mem) {
		bitmap_free(pool->used);
		return -ENOMEM;
	}
	return 0;
}

void moor_dm_destroy(struct moor_dev *mdev)
{
	if (!mdev->dm.pages)
		return;
	iounmap(mdev->dm.mem);
	bitmap_free(mdev->dm.used);
}

static int moor_dm_take_pages(struct moor_dev *mdev, u32 num, u32 align,
			      u32 *first)
{
	struct moor_dm_pool *pool = &mdev->dm;
	unsigned long found;

	spin_lock(&pool->lock);
	found = bitmap_find_next_zero_area(pool->used, pool->pages, 0, num,
					   align - 1);
	if (found < pool->pages)
		bitmap_set(pool->used, found, num);
	spin_unlock(&pool->lock);
	if (found >= pool->pages)
		return -ENOMEM;
	*first = found;
	return 0;
}

/**
 * moor_dm_free_pages - give pages back
 * @mdev: device
 * @first: first page
 * @num: how many; no MR is over them, and nobody maps them any more
 */
void moor_dm_free_pages(struct moor_dev *mdev, u32 first, u32 num)
{
	struct moor_dm_pool *pool = &mdev->dm;

	spin_lock(&pool->lock);
	bitmap_clear(pool->used, first, num);
	spin_unlock(&pool->lock);
}

/* Clear pages, so that their next owner does not see what the last one left. */
static void moor_dm_clear(struct moor_dev *mdev, u32 first, u32 num)
{
	memset_io(mdev->dm.mem + (size_t)first * MOOR_PAGE_SIZE, 0,
		  (size_t)num * MOOR_PAGE_SIZE);
	/*
	 * The zeros go out of this CPU's write-combining buffers, and into the
	 * device, before the process or the NIC writes there (HWI ORD-2).
	 */
	wmb();
	moor_read32(mdev->regs, MOOR_REG_FENCE);
}

/**
 * moor_dm_describe - tell a process where its on-NIC memory is
 * @dm: on-NIC memory
 * @length: bytes asked for
 * @out: filled in
 */
void moor_dm_describe(const struct moor_dm *dm, u64 length,
		      struct moor_dm_location *out)
{
	*out = (struct moor_dm_location){
		.mmap_offset =
			rdma_user_mmap_get_offset(&dm->entry->rdma_entry),
		.length = length,
	};
}

static struct moor_dm *moor_dm_new(struct moor_ucontext *uctx, u32 num,
				   u32 align)
{
	struct moor_dev *mdev = to_mdev(uctx->ibucontext.device);
	struct moor_dm *dm = kzalloc_obj(*dm);
	int err;

	if (!dm)
		return ERR_PTR(-ENOMEM);
	err = moor_dm_take_pages(mdev, num, align, &dm->first);
	if (err)
		goto free_dm;
	moor_dm_clear(mdev, dm->first, num);
	dm->entry = moor_mmap_insert(uctx, MOOR_MMAP_DM, dm->first, num);
	if (IS_ERR(dm->entry)) {
		err = PTR_ERR(dm->entry);
		moor_dm_free_pages(mdev, dm->first, num);
		goto free_dm;
	}
	return dm;

free_dm:
	kfree(dm);
	return ERR_PTR(err);
}

/**
 * moor_alloc_dm - hand out on-NIC memory
 * @ibdev: device
 * @ibuctx: context of the process
 * @attr: length in bytes, and the log2 of the alignment
 * @attrs: MOOR_ATTR_ALLOC_DM_RESP, out
 *
 * Return: zeroed memory; -EOPNOTSUPP if the NIC has none; -EINVAL for a size, alignment
 * or flag that is impossible even if all were free; -ENOMEM.
 */
struct ib_dm *moor_alloc_dm(struct ib_device *ibdev,
			    struct ib_ucontext *ibuctx,
			    struct ib_dm_alloc_attr *attr,
			    struct uverbs_attr_bundle *attrs)
{
	struct moor_dev *mdev = to_mdev(ibdev);
	u64 size = (u64)mdev->dm.pages * MOOR_PAGE_SIZE;
	struct moor_dm_location location;
	u32 align = 1;
	struct moor_dm *dm;
	int err;

	if (!size)
		return ERR_PTR(-EOPNOTSUPP);
	if (!attr->length || attr->length > size || attr->flags ||
	    attr->alignment >= BITS_PER_LONG || BIT(attr->alignment) > size)
		return ERR_PTR(-EINVAL);
	if (moor_is_dead(mdev))
		return ERR_PTR(-EIO);

	if (BIT(attr->alignment) > MOOR_PAGE_SIZE)
		align = BIT(attr->alignment) / MOOR_PAGE_SIZE;
	dm = moor_dm_new(to_muctx(ibuctx),
			 DIV_ROUND_UP_ULL(attr->length, MOOR_PAGE_SIZE), align);
	if (IS_ERR(dm))
		return ERR_CAST(dm);

	moor_dm_describe(dm, attr->length, &location);
	err = uverbs_copy_to_struct_or_zero(attrs, MOOR_ATTR_ALLOC_DM_RESP,
					    &location, sizeof(location));
	if (err) {
		moor_dealloc_dm(&dm->ibdm, attrs);
		return ERR_PTR(err);
	}
	return &dm->ibdm;
}

/**
 * moor_dealloc_dm - take on-NIC memory back
 * @ibdm: on-NIC memory without MRs, as the core has checked
 * @attrs: unused
 *
 * Return: 0. Pages that are still mapped stay taken until they are unmapped.
 */
int moor_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	struct moor_dm *dm = to_mdm(ibdm);

	rdma_user_mmap_entry_remove(&dm->entry->rdma_entry);
	kfree(dm);
	return 0;
}

/* The range is inside the pages of @dm: the core has checked that. */
static void moor_dm_translate(const struct moor_dm *dm, u64 offset,
			      struct moor_xlat *xlat)
{
	u64 byte = (u64)dm->first * MOOR_PAGE_SIZE + offset;

	*xlat = (struct moor_xlat){
		.root = cpu_to_le64(ALIGN_DOWN(byte, MOOR_PAGE_SIZE) |
				    MOOR_PTE_PRESENT | MOOR_PTE_WRITABLE |
				    MOOR_PTE_LEAF),
		.offset = cpu_to_le64(offset_in_page(byte)),
		.page_shift = MOOR_MIN_PAGE_SHIFT,
		.memory = MOOR_MEMORY_NIC,
	};
}

/**
 * moor_reg_dm_mr - register on-NIC memory
 * @ibpd: protection domain
 * @ibdm: on-NIC memory
 * @attr: offset, length and access flags; addresses count from 0
 * @attrs: of the call
 *
 * The length may be 0: then the device does not know the MR's key.
 *
 * Return: the MR; -EINVAL; -EOPNOTSUPP for a flag we do not have; -ENOMEM; -EIO on
 * a dead device.
 */
struct ib_mr *moor_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
			     struct ib_dm_mr_attr *attr,
			     struct uverbs_attr_bundle *attrs)
{
	struct moor_dev *mdev = to_mdev(ibpd->device);
	struct moor_refusal why = {
		.start = attr->offset,
		.length = attr->length,
		.access = attr->access_flags,
	};
	struct moor_mr *mr = NULL;
	int err = -EIO;

	why.reason = MOOR_REFUSAL_DEVICE;
	if (moor_is_dead(mdev))
		goto refuse;
	err = moor_mr_check_access(moor_mr_supported(mdev), attr->access_flags,
				   &why);
	if (!err && attr->length)
		err = moor_mr_check_range(mdev, 0, attr->length, 0, &why);
	if (err)
		goto refuse;

	err = -ENOMEM;
	why.reason = MOOR_REFUSAL_MEMORY;
	mr = moor_mr_new(ibpd, attr->access_flags, attr->length ?
			 MOOR_MRC_TYPE_MR : MOOR_MRC_TYPE_INVALID);
	if (!mr)
		goto refuse;
	mr->reg.length = attr->length;
	moor_dm_translate(to_mdm(ibdm), attr->offset, &mr->reg.table.xlat);
	err = moor_mr_enter(mdev, mr, &why);
	if (err)
		goto refuse;
	mr->ibmr.length = attr->length;
	return &mr->ibmr;

refuse:
	kfree(mr);
	moor_refuse(mdev, &attrs->driver_udata, &why, err);
	return ERR_PTR(err);
}
