// SPDX-License-Identifier: GPL-2.0
/*
 * dma-buf, where its owner may move it (Documentation/on-demand-paging.rst, "Buffers
 * that move"): all of it is mapped or nothing. When the buffer moves it is unmapped, and
 * the device's next access, a page request, maps it again. When mapping fails, that
 * access fails, and the next one tries again.
 *
 * The buffer's reservation lock serialises its owner, the task that deregisters and
 * tasks that map. The owner's move waits for nothing but the device; a task that maps
 * the buffer may wait for the owner under the lock.
 */

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "moor.h"

MODULE_IMPORT_NS(MOOR_DMA_BUF_NS);

static struct moor_dev *moor_dmabuf_dev(const struct moor_dmabuf *dmabuf)
{
	return to_mdev(dmabuf->mr->reg.umem->ibdev);
}

static int moor_dmabuf_map(struct moor_dmabuf *dmabuf)
{
	struct moor_registration *reg = &dmabuf->mr->reg;
	struct ib_umem_dmabuf *umem = to_ib_umem_dmabuf(reg->umem);
	int err;

	dma_resv_assert_held(dmabuf->buf->resv);
	err = ib_umem_dmabuf_map_pages(umem);
	if (!err)
		err = moor_dmabuf_check_list(reg->umem);
	if (!err)
		err = moor_table_fill(&reg->table, reg->umem);
	if (err)
		ib_umem_dmabuf_unmap_pages(umem);
	else
		dmabuf->mapped = true;
	return err;
}

/* A device that does not forget the buffer is stopped, which fences everything. */
static void moor_dmabuf_unmap(struct moor_dmabuf *dmabuf)
{
	struct moor_dev *mdev = moor_dmabuf_dev(dmabuf);
	struct moor_registration *reg = &dmabuf->mr->reg;

	dma_resv_assert_held(dmabuf->buf->resv);
	dmabuf->mapped = false;
	moor_table_empty(&reg->table);
	if (moor_cmd_mr_invalidate(mdev, dmabuf->mr->key, reg->iova,
				   reg->length) && !moor_is_dead(mdev))
		moor_hw_kill(mdev, "it did not forget a dma-buf");
	ib_umem_dmabuf_unmap_pages(to_ib_umem_dmabuf(reg->umem));
	atomic64_add(moor_dmabuf_pages(reg->umem), &dmabuf->counters.invalidations);
}

/* The owner moves the buffer, or takes it back. Called with the reservation lock. */
static void moor_dmabuf_moved(struct dma_buf_attachment *attach)
{
	struct ib_umem_dmabuf *umem = attach->importer_priv;
	struct moor_dmabuf *dmabuf = umem->private;

	/* Before the buffer is registered there is nothing to unmap. */
	if (dmabuf && dmabuf->mapped)
		moor_dmabuf_unmap(dmabuf);
}

static const struct dma_buf_attach_ops moor_dmabuf_ops = {
	.allow_peer2peer = true,
	.invalidate_mappings = moor_dmabuf_moved,
};

/**
 * moor_dmabuf_end - end the use of a buffer that may move
 * @dmabuf: of an MR that is deregistered
 *
 * The MR's key is revoked. Afterwards the device does not use the buffer, and no task
 * maps it.
 */
void moor_dmabuf_end(struct moor_dmabuf *dmabuf)
{
	struct moor_dev *mdev = moor_dmabuf_dev(dmabuf);

	dma_resv_lock(dmabuf->buf->resv, NULL);
	dmabuf->over = true;
	if (moor_key_revoke(mdev, dmabuf->mr->key))
		moor_hw_kill(mdev, "it holds an MR that no window can be bound to");
	ib_umem_dmabuf_unmap_pages(to_ib_umem_dmabuf(dmabuf->mr->reg.umem));
	dmabuf->mapped = false;
	dma_resv_unlock(dmabuf->buf->resv);
}

static void moor_dmabuf_free(struct kref *ref)
{
	struct moor_dmabuf *dmabuf = container_of(ref, struct moor_dmabuf, ref);

	dma_buf_put(dmabuf->buf);
	kfree(dmabuf);
}

void moor_dmabuf_put(struct moor_dmabuf *dmabuf)
{
	kref_put(&dmabuf->ref, moor_dmabuf_free);
}

/**
 * moor_dmabuf_get - the buffer behind a key
 * @mdev: device
 * @key: of an MR
 * @pdn: protection domain of the caller, or MOOR_PDN_ANY
 *
 * Return: the buffer, to be put with moor_dmabuf_put(); or an error as of
 * moor_paged_mr(), -EINVAL also for an MR of a process's memory.
 */
struct moor_dmabuf *moor_dmabuf_get(struct moor_dev *mdev, u32 key, u32 pdn)
{
	struct moor_dmabuf *dmabuf = ERR_PTR(-EINVAL);
	spinlock_t *lock = moor_key_lock(mdev, key);
	struct moor_mr *mr;

	spin_lock(lock);
	mr = moor_paged_mr(mdev, key, pdn);
	if (IS_ERR(mr)) {
		dmabuf = ERR_CAST(mr);
	} else if (mr->reg.dmabuf) {
		dmabuf = mr->reg.dmabuf;
		kref_get(&dmabuf->ref);
	}
	spin_unlock(lock);
	return dmabuf;
}

/*
 * A move of the buffer may still be under way: wait for it without the lock, or a task
 * that deregisters would wait too. Once locked, there is rarely more to wait for.
 */
static int moor_dmabuf_lock_settled(struct moor_dmabuf *dmabuf)
{
	long left = dma_resv_wait_timeout(dmabuf->buf->resv,
					  DMA_RESV_USAGE_KERNEL, true,
					  MAX_SCHEDULE_TIMEOUT);

	if (left < 0)
		return left;
	dma_resv_lock(dmabuf->buf->resv, NULL);
	return 0;
}

/**
 * moor_dmabuf_fault - let the device have a buffer (again)
 * @dmabuf: buffer
 * @fresh: pages that were entered
 *
 * Context: process, without locks; sleeps as long as the buffer's owner takes
 *
 * Return: 0; -ENODEV if the MR has been deregistered; -EINVAL if the owner gives a list
 * that does not cover the buffer; or why the owner does not let the buffer be mapped.
 */
int moor_dmabuf_fault(struct moor_dmabuf *dmabuf, u32 *fresh)
{
	int err = moor_dmabuf_lock_settled(dmabuf);

	*fresh = 0;
	if (err)
		return err;
	if (dmabuf->over) {
		err = -ENODEV;
	} else if (!dmabuf->mapped) {
		err = moor_dmabuf_map(dmabuf);
		if (!err)
			*fresh = moor_dmabuf_pages(dmabuf->mr->reg.umem);
	}
	dma_resv_unlock(dmabuf->buf->resv);
	return err;
}

static int moor_dmabuf_attach(struct moor_dev *mdev, struct moor_mr *mr, int fd)
{
	struct moor_registration *reg = &mr->reg;
	struct ib_umem_dmabuf *umem;
	int err;

	umem = ib_umem_dmabuf_get(&mdev->ibdev, reg->start, reg->length, fd,
				  reg->access & MOOR_ACCESS_COMMON,
				  &moor_dmabuf_ops);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	err = moor_table_reserve(mdev, &reg->table, reg->start, reg->length);
	if (err) {
		ib_umem_release(&umem->umem);
		return err;
	}
	reg->umem = &umem->umem;
	reg->access |= MOOR_ACCESS_ON_DEMAND;
	get_dma_buf(umem->attach->dmabuf);
	reg->dmabuf->buf = umem->attach->dmabuf;
	reg->dmabuf->mr = mr;
	return 0;
}

/* The first mapping: its error goes to the caller. Afterwards the buffer may move. */
static int moor_dmabuf_begin(struct moor_dev *mdev, struct moor_mr *mr,
			     struct moor_refusal *why)
{
	struct moor_dmabuf *dmabuf = mr->reg.dmabuf;
	int err = moor_dmabuf_lock_settled(dmabuf);

	if (err)
		return err;
	err = moor_dmabuf_map(dmabuf);
	if (err)
		goto unlock;
	err = moor_mr_enter(mdev, mr, why);
	/* A move unmaps the buffer only with @private set: without, leave it unmapped. */
	if (err)
		ib_umem_dmabuf_unmap_pages(to_ib_umem_dmabuf(mr->reg.umem));
	else
		to_ib_umem_dmabuf(mr->reg.umem)->private = dmabuf;
unlock:
	dma_resv_unlock(dmabuf->buf->resv);
	return err;
}

/**
 * moor_dmabuf_new - register memory of a dma-buf that may move
 * @mdev: device
 * @mr: MR; start, length, iova and access are set. Has a key afterwards
 * @fd: the buffer
 * @why: filled in on failure
 *
 * Return: 0 or an errno, with nothing left behind.
 */
int moor_dmabuf_new(struct moor_dev *mdev, struct moor_mr *mr, int fd,
		    struct moor_refusal *why)
{
	struct moor_dmabuf *dmabuf = kzalloc_obj(*dmabuf);
	int err;

	if (!dmabuf)
		return -ENOMEM;
	kref_init(&dmabuf->ref);
	mr->reg.dmabuf = dmabuf;
	err = moor_dmabuf_attach(mdev, mr, fd);
	if (err) {
		kfree(dmabuf);
		return err;
	}
	err = moor_dmabuf_begin(mdev, mr, why);
	if (err)
		moor_reg_unpin(mdev, &mr->reg);
	return err;
}
