/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queues of kernel users: rings, doorbells, work queues and completion queues
 * in the kernel's own memory. Included by moor.h.
 */
#ifndef MOOR_KERNEL_QUEUE_H
#define MOOR_KERNEL_QUEUE_H

#include <linux/hashtable.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/list.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <moor/moor_hw.h>

#include "mr.h"

struct moor_cq;
struct moor_dev;
struct moor_qp;
struct moor_srq;

/**
 * struct moor_kernel_page - a doorbell page of the driver's
 * @list: in &moor_kernel_pages.list
 * @index: page number; 0 has slots of the driver's own as well
 * @slots: the page
 * @kicks: its kick page
 * @num_free: slots not in @used
 * @used: bit n: slot n is tied
 */
struct moor_kernel_page {
	struct list_head list;
	u32 index;
	void __iomem *slots;
	void __iomem *kicks;
	u32 num_free;
	DECLARE_BITMAP(used, MOOR_DB_SLOTS_PER_PAGE);
};

/**
 * struct moor_kernel_pages - doorbell pages of the driver's, page 0 first
 * @lock: protects the rest
 * @list: &struct moor_kernel_page
 */
struct moor_kernel_pages {
	struct mutex lock;	/* protects the rest */
	struct list_head list;
};

/**
 * struct moor_kernel_slot - a doorbell slot of a kernel queue
 * @page: its page, or NULL: there is no queue
 * @number: index of the slot in the page
 * @bell: the slot
 */
struct moor_kernel_slot {
	struct moor_kernel_page *page;
	u32 number;
	void __iomem *bell;
};

/* The largest pieces that the page allocator finds in fragmented memory, too. */
#define MOOR_KERNEL_PIECE_SHIFT	(PAGE_SHIFT + PAGE_ALLOC_COSTLY_ORDER)
#define MOOR_KERNEL_PIECE_BYTES	BIT(MOOR_KERNEL_PIECE_SHIFT)

/**
 * struct moor_kernel_piece - a part of a ring
 * @buf: coherent memory
 * @dma: its DMA address
 */
struct moor_kernel_piece {
	void *buf;
	dma_addr_t dma;
};

/**
 * struct moor_kernel_ring - a ring in coherent memory
 * @pieces: the memory, in order; or NULL: there is no queue
 * @num_pieces: how many
 * @piece_bytes: size of each: MOOR_KERNEL_PIECE_BYTES, or less if there is only one
 * @table: describes them to the device
 */
struct moor_kernel_ring {
	struct moor_kernel_piece *pieces;
	u32 num_pieces;
	u32 piece_bytes;
	struct moor_table table;
};

/**
 * struct moor_kernel_wq - a send or receive queue
 * @lock: protects @head, the WQEs from it on, and the value of the slot
 * @ring: WQEs
 * @wr_id: what each WQE's completion gives its poster. Kept here and not read
 *	from the device, because users take it for a pointer
 * @room: of a receive queue: bytes of memory that each WQE has
 * @mask: entries - 1
 * @log_stride: log2 of the bytes of a WQE
 * @head: free-running index of the next WQE; store-release after @wr_id, because
 *	pollers read both without @lock
 * @tail: index of the oldest WQE that has not completed; written under the lock of
 *	the CQ that the queue completes to
 * @slot: doorbell
 */
struct moor_kernel_wq {
	spinlock_t lock;	/* protects head, WQEs from it on, the slot */
	struct moor_kernel_ring ring;
	u64 *wr_id;
	u32 *room;
	u32 mask;
	u8 log_stride;
	u32 head;
	u32 tail;
	struct moor_kernel_slot slot;
};

/* Ends a list of free entries. */
#define MOOR_SRQ_WR_NONE	(~0U)

/**
 * struct moor_posted - what is known of a work request when it completes
 * @wr_id: what its completion gives its poster
 * @room: bytes of memory that a receive has
 * @opcode: MOOR_WQE_* of a send
 */
struct moor_posted {
	u64 wr_id;
	u32 room;
	u8 opcode;
};

/**
 * struct moor_srq_wr - a receive of a shared receive queue
 * @posted: what its completion is checked against
 * @index: index of its WQE
 * @busy: the receive has not completed
 * @next: the next free entry
 */
struct moor_srq_wr {
	struct moor_posted posted;
	u32 index;
	bool busy;
	u32 next;
};

/**
 * struct moor_kernel_srq - what a shared receive queue of the kernel has in addition
 * @lock: protects the rest, the WQEs from @head on, and the value of the slot;
 *	nests inside the locks of CQs
 * @ring: WQEs. Each names its entry in @wrs: receives complete in any order, so
 *	a place in the ring may be reused before its first WQE has completed
 * @wrs: as many entries as WQEs: if an entry is free, so is a place in the ring
 * @free: first free entry, or MOOR_SRQ_WR_NONE
 * @mask: WQEs - 1
 * @log_stride: log2 of the bytes of a WQE
 * @head: free-running index of the next WQE
 * @slot: doorbell
 */
struct moor_kernel_srq {
	spinlock_t lock;	/* protects the rest, WQEs from head on, the slot */
	struct moor_kernel_ring ring;
	struct moor_srq_wr *wrs;
	u32 free;
	u32 mask;
	u8 log_stride;
	u32 head;
	struct moor_kernel_slot slot;
};

/* Links a queue pair to a CQ that it completes to: in &moor_kernel_cq.qps. */
struct moor_cq_user {
	struct hlist_node node;
	struct moor_qp *qp;
};

enum moor_kernel_qp_flag {
	/* The user has been given the last-WQE event. A reset clears the flag. */
	MOOR_KERNEL_QP_LAST_WQE,
	/* The user has taken the queue pair to ERR: it moves no data any more. */
	MOOR_KERNEL_QP_STOPPED,
};

/**
 * struct moor_kernel_qp - what a queue pair of the kernel has in addition
 * @sq: send queue
 * @rq: receive queue
 * @users: links to the send CQ and, if that is another one, to the receive CQ
 * @last_wqe: work: tells the user of a dead device that no receive will complete
 * @flags: enum moor_kernel_qp_flag
 */
struct moor_kernel_qp {
	struct moor_kernel_wq sq;
	struct moor_kernel_wq rq;
	struct moor_cq_user users[2];
	struct work_struct last_wqe;
	unsigned long flags;
};

#define MOOR_CQ_HASH_BITS	5

/**
 * struct moor_kernel_cq - what a completion queue of the kernel has in addition
 * @lock: protects the rest and the tails of the queues that complete here. Nests
 *	inside the event queue's lock; the locks of the work queues nest inside @lock
 * @ring: CQEs
 * @log_cqe: log2 of the number of CQEs
 * @consumer: free-running index of the next CQE
 * @arm: arm and arm sequence as last stored (HWI 11.2)
 * @armed: the user waits for a call of its handler, which the death of the device
 *	causes, too. moor_cq_tell() clears it, under the lock of the event queue
 * @resizing: the device is moving the CQ to another ring: nothing is polled
 * @failed: the device writes no CQE any more (HWI CQ-10)
 * @slot: doorbell
 * @qps: queue pairs that complete here, by number
 * @num_qps: number of @qps; while 0, no handler is called (moor_cq_tell()). Protected
 *	by the lock of the event queue
 * @untold: moor_cq_tell() came while @num_qps was 0. Protected by the same lock
 * @wake: work: calls the user's handler if @armed
 */
struct moor_kernel_cq {
	spinlock_t lock;	/* protects the rest, and queues' tails */
	struct moor_kernel_ring ring;
	u32 log_cqe;
	u32 consumer;
	u64 arm;
	bool armed;
	bool resizing;
	bool failed;
	struct moor_kernel_slot slot;
	DECLARE_HASHTABLE(qps, MOOR_CQ_HASH_BITS);
	u32 num_qps;
	bool untold;
	struct work_struct wake;
};

/* kernel_slot.c */
int moor_kernel_pages_init(struct moor_dev *mdev);
void moor_kernel_pages_destroy(struct moor_dev *mdev);
int moor_kernel_slot_alloc(struct moor_dev *mdev, struct moor_kernel_slot *slot);
void moor_kernel_slot_free(struct moor_dev *mdev, struct moor_kernel_slot *slot);
__le32 moor_kernel_slot_location(const struct moor_kernel_slot *slot);
void moor_kernel_slot_kick(struct moor_dev *mdev,
			   const struct moor_kernel_slot *slot);

/* kernel_ring.c */
void moor_kernel_ring_clear(struct moor_kernel_ring *ring);
int moor_kernel_ring_alloc(struct moor_dev *mdev, struct moor_kernel_ring *ring,
			   size_t bytes);
void moor_kernel_ring_free(struct moor_dev *mdev,
			   struct moor_kernel_ring *ring);

/* kernel_cq.c */
int moor_create_kernel_cq(struct ib_cq *ibcq,
			  const struct ib_cq_init_attr *attr);
void moor_destroy_kernel_cq(struct moor_cq *cq);
int moor_resize_kernel_cq(struct moor_cq *cq, unsigned int cqe);
int moor_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
void moor_cq_tell(struct moor_cq *cq);
void moor_kernel_cq_failed(struct moor_cq *cq);
void moor_cqs_wake(struct moor_dev *mdev);
int moor_cqs_enter(struct moor_qp *qp);
void moor_cqs_leave(struct moor_qp *qp);
void moor_cqs_forget(struct moor_qp *qp);

/* kernel_qp.c */
int moor_kernel_qp_init(struct moor_qp *qp, struct ib_qp_init_attr *attr,
			struct moor_create_qp_req *req);
void moor_kernel_qp_release(struct moor_qp *qp);
void moor_kernel_qp_reset(struct moor_qp *qp);
void moor_kernel_qp_stopped(struct moor_qp *qp);
void moor_kernel_qp_last_wqe(struct moor_qp *qp);
void moor_kernel_qps_wake(struct moor_dev *mdev);
void moor_kernel_qp_last_wqe_work(struct work_struct *work);

/* kernel_srq.c */
int moor_kernel_srq_init(struct moor_srq *srq, u32 max_wr);
void moor_kernel_srq_release(struct moor_srq *srq);
bool moor_srq_complete(struct moor_srq *srq, const struct moor_cqe *cqe,
		       struct moor_posted *posted);
int moor_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr);

/* poll.c */
bool moor_cq_has_work(struct moor_cq *cq);
struct moor_cqe *moor_cqe_at(const struct moor_kernel_cq *kcq, u32 index);
int moor_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);

/* post.c */
int moor_put_sges(struct moor_sge *to, const struct ib_sge *sges, int num,
		  u32 max);
u32 moor_recv_room(const struct ib_recv_wr *wr);
int moor_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr);
int moor_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr);

/* writeq() orders earlier writes to memory, such as WQEs, before the slot. */
static inline void moor_kernel_slot_store(const struct moor_kernel_slot *slot,
					  u64 value)
{
	writeq(value, slot->bell);
}

/* Entries have sizes that are powers of 2, so that none lies in two pieces. */
static inline void *moor_kernel_ring_at(const struct moor_kernel_ring *ring,
					size_t offset)
{
	return ring->pieces[offset >> MOOR_KERNEL_PIECE_SHIFT].buf +
	       (offset & (MOOR_KERNEL_PIECE_BYTES - 1));
}

static inline void *moor_wqe_at(const struct moor_kernel_wq *wq, u32 index)
{
	return moor_kernel_ring_at(&wq->ring,
				   (size_t)(index & wq->mask) << wq->log_stride);
}

#endif /* MOOR_KERNEL_QUEUE_H */
