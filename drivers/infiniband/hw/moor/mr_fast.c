// SPDX-License-Identifier: GPL-2.0
/*
 * Fast registration: MRs of the kernel that change what they stand for by work
 * requests (HWI 6.9).
 *
 * The device reads a registration's table as long as the registration is valid,
 * and users map the next buffer before the LOCAL_INV of the last one is even
 * posted. So an MR has two tables, and mapping never writes the one that a valid
 * registration uses: a REG_MR work request takes the table that was mapped last, and
 * the next mapping takes the other. That holds as long as an MR is not mapped again
 * before its last REG_MR has completed. (SRP maps earlier if it gives up a command before
 * the target has heard of the key: until the LOCAL_INV that it has posted is done, that key
 * reaches the next buffer.) If the REG_MR failed, the registration before it may still be
 * valid, and the two tables are exchanged. Where no completion says so, for the QP was
 * reset, the device is asked; it can tell the two apart if key, iova or length differ, and
 * users change the key: ib_update_fast_reg_key(). If the driver had to flush the REG_MR,
 * because a failed CQ got no CQE of it, either table may be in use, and the MR is mapped
 * no more.
 */

#include <linux/log2.h>
#include <linux/slab.h>

#include "moor.h"

/* Rights that a REG_MR may ask for and that every device has. */
#define MOOR_FAST_ACCESS	(IB_ACCESS_LOCAL_WRITE |		\
				 IB_ACCESS_REMOTE_WRITE |		\
				 IB_ACCESS_REMOTE_READ |		\
				 IB_ACCESS_REMOTE_ATOMIC)

/**
 * moor_alloc_mr - an MR for fast registration
 * @ibpd: protection domain
 * @type: IB_MR_TYPE_MEM_REG
 * @max_num_sg: pages that it is to have room for
 *
 * Return: the MR; -EOPNOTSUPP for another type, or a device without fast registration;
 * -EINVAL for no pages or too many; -ENOMEM; -EIO on a dead device.
 */
struct ib_mr *moor_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_num_sg)
{
	struct moor_dev *mdev = to_mdev(ibpd->device);
	struct moor_fast_mr *fast;
	struct moor_node *node;
	int err;

	if (type != IB_MR_TYPE_MEM_REG ||
	    !(mdev->caps.features & MOOR_FEATURE_FAST_REG))
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > MOOR_FAST_MAX_PAGES)
		return ERR_PTR(-EINVAL);
	if (moor_is_dead(mdev))
		return ERR_PTR(-EIO);
	fast = kzalloc_obj(*fast);
	if (!fast)
		return ERR_PTR(-ENOMEM);
	err = moor_table_alloc_nodes(mdev, &fast->mr.reg.table,
				     ARRAY_SIZE(fast->tables));
	if (err)
		goto free_mr;
	node = fast->mr.reg.table.nodes;
	fast->tables[0] = *node;
	fast->tables[1] = *node->next;
	fast->max_pages = max_num_sg;
	fast->mr.type = MOOR_MRC_TYPE_FAST_REG;
	fast->mr.reg.pdn = to_mpd(ibpd)->pdn;

	err = moor_key_alloc_consumer(mdev, &fast->mr.key);
	if (err)
		goto release;
	err = xa_err(xa_store(&mdev->fast_mrs,
			      moor_key_index(mdev, fast->mr.key), fast,
			      GFP_KERNEL));
	if (err)
		goto free_key;
	moor_fast_publish(mdev, fast->mr.key, fast->mr.reg.pdn, max_num_sg);
	fast->mr.ibmr.lkey = fast->mr.key;
	fast->mr.ibmr.rkey = fast->mr.key;
	return &fast->mr.ibmr;

free_key:
	moor_key_free(mdev, fast->mr.key);
release:
	moor_table_free(mdev, &fast->mr.reg.table);
free_mr:
	kfree(fast);
	return ERR_PTR(err);
}

/**
 * moor_fast_free - let a fast-registration MR go
 * @mdev: device
 * @mr: MR whose key is revoked
 */
void moor_fast_free(struct moor_dev *mdev, struct moor_mr *mr)
{
	xa_erase(&mdev->fast_mrs, moor_key_index(mdev, mr->key));
	moor_key_free(mdev, mr->key);
	moor_table_free(mdev, &mr->reg.table);
	/* An RCU reader may see the MR a moment longer, but uses none of its nodes. */
	kfree_rcu(to_fast_mr(&mr->ibmr), rcu);
}

static int moor_fast_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct moor_fast_mr *fast = to_fast_mr(ibmr);

	if (unlikely(fast->num_pages == fast->max_pages))
		return -ENOMEM;
	/* Writable: the direction is not known here, and the rights limit access. */
	fast->tables[fast->mapped].pte[fast->num_pages++] =
		cpu_to_le64(addr | MOOR_PTE_PRESENT | MOOR_PTE_WRITABLE |
			    MOOR_PTE_LEAF);
	return 0;
}

/**
 * moor_map_mr_sg - describe memory for the next REG_MR
 * @ibmr: MR from moor_alloc_mr(); its last REG_MR, if any, has completed
 * @sg: memory, mapped for DMA
 * @sg_nents: entries of @sg
 * @sg_offset: bytes to leave out of the first entry, or NULL
 *
 * The registration that the MR may have, and its table, are left alone. What
 * lies in the table behind the last page is out of the registration's bounds.
 *
 * Return: entries that were mapped; -EINVAL for a page size that the device does not
 * have, for memory that pages of it cannot describe, and after a REG_MR that was flushed
 * because its CQ had failed; -ENOMEM if the first entry alone has too many pages. A dead
 * device, which flushes every REG_MR, uses no table: NFS would take an error for one of
 * the disk's, and not connect again.
 */
int moor_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		   unsigned int *sg_offset)
{
	struct moor_dev *mdev = to_mdev(ibmr->device);
	struct moor_fast_mr *fast = to_fast_mr(ibmr);

	if (!is_power_of_2(ibmr->page_size) ||
	    !(mdev->caps.page_sizes & ibmr->page_size) ||
	    (READ_ONCE(fast->unsure) && !moor_is_dead(mdev)))
		return -EINVAL;
	fast->mapped = !fast->posted;
	fast->num_pages = 0;
	return ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset,
			      moor_fast_set_page);
}

/**
 * moor_put_reg_mr - the work request that registers what was mapped
 * @wqe: filled in
 * @wr: what is asked for
 *
 * Return: 0, or -EINVAL for flags that the device does not have, and for
 * FLUSH_PERSISTENT: only the DMA addresses of the memory are known.
 */
int moor_put_reg_mr(struct moor_sq_wqe *wqe, const struct ib_reg_wr *wr)
{
	struct moor_fast_mr *fast = to_fast_mr(wr->mr);
	struct moor_wqe_reg *reg = (struct moor_wqe_reg *)(wqe + 1);
	u32 flush = moor_flush_rights(to_mdev(wr->mr->device)) &
		    ~IB_ACCESS_FLUSH_PERSISTENT;
	u32 access = wr->access & (MOOR_FAST_ACCESS | flush);

	if (unlikely(wr->access & ~(access | IB_ACCESS_OPTIONAL)))
		return -EINVAL;
	if (wr->access & IB_ACCESS_RELAXED_ORDERING)
		access |= MOOR_ACCESS_RELAXED_ORDERING;
	wqe->opcode = MOOR_WQE_REG_MR;
	wqe->remote_addr = cpu_to_le64(wr->mr->iova);
	reg->key = cpu_to_le32(wr->key);
	reg->access = cpu_to_le32(access);
	reg->length = cpu_to_le64(wr->mr->length);
	reg->xlat = (struct moor_xlat){
		.root = cpu_to_le64(fast->tables[fast->mapped].dma |
				    MOOR_PTE_PRESENT),
		.offset = cpu_to_le64(wr->mr->iova & (wr->mr->page_size - 1)),
		.levels = 1,
		.page_shift = ilog2(wr->mr->page_size),
	};
	fast->said[fast->mapped] = (struct moor_fast_said){
		.key = reg->key, .iova = wqe->remote_addr, .length = reg->length,
	};
	fast->posted = fast->mapped;
	return 0;
}

/* The MR that a REG_MR work request was for, if it is still there. */
static struct moor_fast_mr *moor_fast_find(struct moor_dev *mdev, u32 key)
{
	struct moor_fast_mr *fast = xa_load(&mdev->fast_mrs,
					    moor_key_index(mdev, key));

	return fast && !((fast->mr.key ^ key) & ~MOOR_KEY_CONSUMER) ? fast : NULL;
}

/* A REG_MR did not take effect: the MR's registration before it still counts. */
static void moor_fast_take_back(struct moor_fast_mr *fast,
				const struct moor_wqe_reg *reg)
{
	u64 node = le64_to_cpu(reg->xlat.root) & MOOR_PTE_ADDR;

	if (node == fast->tables[fast->posted].dma)
		fast->posted = !fast->posted;
}

/* Whether a REG_MR took effect is unknown: either table may be in use. */
static void moor_fast_doubt(struct moor_fast_mr *fast,
			    const struct moor_wqe_reg *reg)
{
	WRITE_ONCE(fast->unsure, true);
}

static const struct moor_wqe_reg *moor_wqe_reg_of(struct moor_qp *qp, u32 index)
{
	const struct moor_sq_wqe *wqe = moor_wqe_at(&qp->kernel.sq, index);

	return wqe->opcode == MOOR_WQE_REG_MR ? (const void *)(wqe + 1) : NULL;
}

/* If the WQE is a REG_MR whose MR is still there, call @change for that MR. */
static void moor_fast_change(struct moor_qp *qp, u32 index,
			     void (*change)(struct moor_fast_mr *fast,
					    const struct moor_wqe_reg *reg))
{
	const struct moor_wqe_reg *reg = moor_wqe_reg_of(qp, index);
	struct moor_fast_mr *fast;

	if (!reg)
		return;
	rcu_read_lock();
	fast = moor_fast_find(to_mdev(qp->ibqp.device), le32_to_cpu(reg->key));
	if (fast)
		change(fast, reg);
	rcu_read_unlock();
}

/**
 * moor_fast_failed - a send work request has ended in error
 * @qp: queue pair of the kernel
 * @index: of the WQE, which is not overwritten yet
 */
void moor_fast_failed(struct moor_qp *qp, u32 index)
{
	moor_fast_change(qp, index, moor_fast_take_back);
}

/**
 * moor_fast_flushed - the driver flushes a send work request
 * @qp: queue pair of the kernel
 * @index: of the WQE, which is not overwritten yet
 *
 * Context: poll.c, under a lock, so that the device cannot be asked
 */
void moor_fast_flushed(struct moor_qp *qp, u32 index)
{
	moor_fast_change(qp, index, moor_fast_doubt);
}

static bool moor_fast_is(const struct moor_fast_mr *fast, u8 table,
			 const struct moor_cpl_mr_query *now)
{
	const struct moor_fast_said *said = &fast->said[table];

	return said->key == now->key && said->iova == now->iova &&
	       said->length == now->length;
}

/* The device has this registration: which table does it use? */
static void moor_fast_choose(struct moor_fast_mr *fast,
			     const struct moor_cpl_mr_query *now)
{
	if (moor_fast_is(fast, fast->posted, now))
		return;
	if (moor_fast_is(fast, !fast->posted, now))
		fast->posted = !fast->posted;
	else
		WRITE_ONCE(fast->unsure, true);
}

/**
 * moor_fast_settle - find out about REG_MRs whose completions were not polled
 * @qp: queue pair of the kernel that has been reset or destroyed, and whose CQEs have
 *	been dropped: its tail does not move any more
 *
 * Some may have taken effect, others not, and by other queue pairs the MR may have been
 * registered since: only the device knows.
 *
 * Context: process; sleeps.
 */
void moor_fast_settle(struct moor_qp *qp)
{
	struct moor_dev *mdev = to_mdev(qp->ibqp.device);
	struct moor_kernel_wq *sq = &qp->kernel.sq;
	struct moor_cpl_mr_query now;
	struct moor_fast_mr *fast;
	u32 i;

	for (i = sq->tail; i != sq->head; i++) {
		const struct moor_wqe_reg *reg = moor_wqe_reg_of(qp, i);

		/* A device that does not answer has no registrations any more. */
		if (!reg || moor_cmd_mr_query(mdev, le32_to_cpu(reg->key), &now) ||
		    now.state != MOOR_MR_STATE_VALID)
			continue;
		rcu_read_lock();
		fast = moor_fast_find(mdev, le32_to_cpu(reg->key));
		if (fast)
			moor_fast_choose(fast, &now);
		rcu_read_unlock();
	}
}
