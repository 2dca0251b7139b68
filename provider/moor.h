/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libmoor: the objects of the libibverbs provider.
 */
#ifndef MOOR_PROVIDER_H
#define MOOR_PROVIDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ccan/container_of.h>
#include <ccan/list.h>
#include <infiniband/driver.h>
#include <moor/moor_hw.h>
#include <util/util.h>

#include "doorbell.h"

/* What a parent domain's allocator is asked memory for. */
enum moor_resource {
	MOOR_RESOURCE_QP	= 1,
	MOOR_RESOURCE_CQ	= 2,
	MOOR_RESOURCE_SRQ	= 3,
};

/* Owners, indexed by the cookie in CQEs; chunks are allocated on demand. */
#define MOOR_CHUNK_SHIFT	8
#define MOOR_CHUNK_SIZE		(1u << MOOR_CHUNK_SHIFT)
#define MOOR_CHUNKS		1024
#define MOOR_COOKIES		(MOOR_CHUNKS * MOOR_CHUNK_SIZE)

/**
 * struct moor_owner - what a CQE belongs to: a QP, or an XRC SRQ
 * @cookie: index of the owner in moor_context.owners
 * @qpn: of a QP; not used for an XRC SRQ: its CQEs have the number of any target
 * @sq: send queue; NULL for an XRC SRQ
 * @rq: where receives come from
 * @shared: @rq is an SRQ's: its WQEs end in any order, and on several CQs
 */
struct moor_owner {
	uint32_t cookie;
	uint32_t qpn;
	struct moor_wq *sq;
	struct moor_wq *rq;
	bool shared;
};

struct moor_owner_chunk {
	struct moor_owner *owner[MOOR_CHUNK_SIZE];
};

struct moor_device {
	struct verbs_device vdev;
};

/* The last registration that failed: its arguments, and @error; 0 if none failed. */
struct moor_registration {
	uint64_t start;
	uint64_t length;
	uint64_t iova;
	uint64_t dm_length;	/* of the on-NIC memory to be registered, or 0 */
	bool dmabuf;		/* of another driver's memory; @start is an offset in it */
	bool no_range;		/* rereg without a range; no @start, @length, @iova */
	bool no_access;		/* rereg without new rights: @access does not count */
	uint32_t access;
	int error;
};

/**
 * struct moor_context - an open device
 * @vctx: the common part
 * @doze: the dozing word; a constant zero if the device never dozes
 * @features: MOOR_FEATURE_* of the device
 * @null_lkey: key of the null MR (HWI NUL-1)
 * @max_inline: bytes of inline data a WQE may have
 * @max_wr: entries of a work queue
 * @max_sge: SGEs of a WQE
 * @max_cqe: entries of a CQ's ring
 * @lock: protects the following fields; look-ups in @owners do not take it
 * @doorbell_pages: struct moor_doorbell_page
 * @dms: struct moor_dm that are mapped
 * @failed: the last registration that failed
 * @next_cookie: where the search for a free cookie starts
 * @owners: cookie >> MOOR_CHUNK_SHIFT gives the chunk, the rest the entry. An
 *	entry is cleared under the locks of the owner's CQs, so that an owner stays
 *	alive while a thread holds one of these locks.
 */
struct moor_context {
	struct verbs_context vctx;
	const __le32 *doze;
	uint64_t features;
	uint32_t null_lkey;
	uint32_t max_inline;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t max_cqe;

	pthread_mutex_t lock;
	struct list_head doorbell_pages;
	struct list_head dms;
	struct moor_registration failed;
	uint32_t next_cookie;
	struct moor_owner_chunk *owners[MOOR_CHUNKS];
};

struct moor_td {
	struct ibv_td td;
	atomic_int users;
};

/**
 * struct moor_pd - a protection domain or a parent domain
 * @pd: the common part
 * @users: of a PD: its parent domains; of a parent domain: its QPs, CQs and SRQs
 * @contained: parent domain: the PD that it contains; else NULL
 * @td: parent domain: its thread domain, or NULL
 * @alloc: parent domain: allocator for queue memory, or NULL
 * @free: frees what @alloc gave
 * @pd_context: argument of @alloc and @free
 */
struct moor_pd {
	struct ibv_pd pd;
	atomic_int users;
	struct moor_pd *contained;
	struct moor_td *td;
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size,
		       size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr,
		     uint64_t resource_type);
	void *pd_context;
};

/**
 * struct moor_buf - page-aligned memory of a queue
 * @addr: its address
 * @size: bytes, whole pages
 * @owner: the parent domain whose allocator gave the memory; NULL: mmap() did
 * @resource: resource type that the allocator was given
 */
struct moor_buf {
	void *addr;
	size_t size;
	struct moor_pd *owner;
	enum moor_resource resource;
};

/* A lock that costs nothing where the consumer promised a single thread. */
struct moor_lock {
	pthread_spinlock_t spin;
	bool needed;
};

/*
 * At most this many CQEs are taken before the device is told (take_cqe() in poll.c). A
 * ring has room for them beside what its CQ holds; in the smallest, both are the same.
 */
#define MOOR_CQ_LAG	8u
#define MOOR_CQ_MIN_LOG	4

/* How many CQEs a CQ holds whose ring has @ring entries. */
static inline uint32_t moor_cq_most(uint32_t ring)
{
	return ring > MOOR_CQ_LAG ? ring - MOOR_CQ_LAG : 0;
}

/**
 * struct moor_cq - a completion queue
 * @vcq: the common part
 * @lock: protects the following fields, except those that @request_lock protects
 * @buf: memory of the ring
 * @ring: CQEs
 * @log_cqe: log2 of the number of CQEs in @ring
 * @consumer: free-running index of the next CQE to look at
 * @announced: value of @consumer that the device was told last
 * @arm: arm and arm sequence as they stand in the doorbell
 * @request_lock: protects @any_events and @requests; taken within @lock. A CQ that is
 *	used by a single thread needs it, too: the thread that fetches events from the
 *	channel, which many CQs may share, need not be the thread that polls
 * @requests: number of requests for which no event has been fetched
 * @any_events: 0: the last request for any completion is known to be answered; else it
 *	will be when that many more events have been fetched
 * @slot: the doorbell
 * @current: after ibv_start_poll(): the CQE that the read functions read
 * @kept: a copy of that CQE, once its slot is the device's again
 * @poller: thread with @lock held from ibv_start_poll() to ibv_end_poll(), or MOOR_NOBODY
 * @parent: parent domain that the CQ was made with, or NULL
 */
struct moor_cq {
	struct verbs_cq vcq;
	struct moor_lock lock;
	struct moor_buf buf;
	struct moor_cqe *ring;
	uint32_t log_cqe;
	uint32_t consumer;
	uint32_t announced;
	uint64_t arm;
	struct moor_lock request_lock;
	uint64_t requests;
	uint64_t any_events;
	struct moor_slot slot;
	const struct moor_cqe *current;
	struct moor_cqe kept;
	atomic_ulong poller;
	struct moor_pd *parent;
};

/* No thread: pthread_self(), a number with this C library, never returns this. */
#define MOOR_NOBODY	0ul

/**
 * struct moor_wq - a send or receive queue
 * @lock: protects @producer and the slots from @producer on
 * @ring: WQEs of 1 << @log_stride bytes
 * @mask: number of WQEs - 1
 * @max_sge: SGEs that fit into a WQE
 * @depth: number of WQEs; 0: there is no such queue
 * @producer: free-running index of the next WQE to post
 * @consumer: index after the last WQE known to be done; the CQ's poller
 *	stores it, the poster loads it
 * @most: of an SRQ: the largest @depth that it has had
 * @slot: the doorbell
 */
struct moor_wq {
	struct moor_lock lock;
	void *ring;
	uint32_t log_stride;
	uint32_t depth;
	uint32_t mask;
	uint32_t max_sge;
	uint32_t producer;
	atomic_uint consumer;
	atomic_uint most;
	struct moor_slot slot;
};

/**
 * struct moor_srq - a shared receive queue
 * @vsrq: the common part
 * @wq: the queue; pollers of any CQ store @wq.consumer, see poll.c
 * @owner: only of type XRC: the owner that the CQEs of its receives name
 * @buf: memory of the ring
 * @parent: parent domain that the SRQ was made with, or NULL
 */
struct moor_srq {
	struct verbs_srq vsrq;
	struct moor_owner owner;
	struct moor_wq wq;
	struct moor_buf buf;
	struct moor_pd *parent;
};

/**
 * struct moor_qp - a queue pair
 * @vqp: the common part
 * @sq: send queue
 * @rq: receive queue
 * @max_inline: bytes of inline data that fit into a send WQE
 * @owner: the owner that its CQEs name
 * @state: as the consumer last set it. @vqp.qp.state is not used: ibv_query_qp() of
 *	libibverbs writes it, too, and what it writes may be outdated
 * @address_bytes: size of the address segment behind a send WQE's head (UD, XRC), or 0
 * @always: WQE flags that every send request gets (SIGNALED or none)
 * @buf: memory of both rings
 * @wr: ibv_wr_*: the WQE being built; NULL after an error
 * @wr_producer: ibv_wr_*: the next value of @sq.producer
 * @wr_error: ibv_wr_*: first error since ibv_wr_start()
 * @parent: parent domain that the QP was made with, or NULL
 */
struct moor_qp {
	struct verbs_qp vqp;
	struct moor_wq sq;
	struct moor_wq rq;
	uint32_t max_inline;
	struct moor_owner owner;
	atomic_int state;
	uint32_t address_bytes;
	uint8_t always;
	struct moor_buf buf;
	struct moor_sq_wqe *wr;
	uint32_t wr_producer;
	int wr_error;
	struct moor_pd *parent;
};

/**
 * struct moor_dm - on-NIC memory
 * @vdm: the common part
 * @entry: in moor_context.dms
 * @addr: address of the mapping
 * @length: bytes; whole pages are mapped
 */
struct moor_dm {
	struct verbs_dm vdm;
	struct list_node entry;
	void *addr;
	size_t length;
};

/**
 * struct moor_ah - an address handle
 * @ah: the common part
 * @segment: address segment as far as the handle gives it; work requests give the rest
 */
struct moor_ah {
	struct ibv_ah ah;
	struct moor_wqe_ud segment;
};

static inline struct moor_context *to_moor_context(struct ibv_context *context)
{
	return container_of(context, struct moor_context, vctx.context);
}

static inline struct moor_pd *to_moor_pd(struct ibv_pd *pd)
{
	return container_of(pd, struct moor_pd, pd);
}

static inline struct moor_cq *to_moor_cq(struct ibv_cq *cq)
{
	return container_of(cq, struct moor_cq, vcq.cq);
}

static inline struct moor_cq *to_moor_cq_ex(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct moor_cq, vcq.cq_ex);
}

static inline struct moor_qp *to_moor_qp(struct ibv_qp *qp)
{
	return container_of(qp, struct moor_qp, vqp.qp);
}

static inline struct moor_qp *to_moor_qp_ex(struct ibv_qp_ex *qp)
{
	return container_of(qp, struct moor_qp, vqp.qp_ex);
}

static inline struct moor_srq *to_moor_srq(struct ibv_srq *srq)
{
	return container_of(srq, struct moor_srq, vsrq.srq);
}

static inline struct moor_ah *to_moor_ah(struct ibv_ah *ah)
{
	return container_of(ah, struct moor_ah, ah);
}

static inline struct moor_dm *to_moor_dm(struct ibv_dm *dm)
{
	return container_of(dm, struct moor_dm, vdm.dm);
}

static inline void moor_lock_init(struct moor_lock *lock, bool needed)
{
	pthread_spin_init(&lock->spin, PTHREAD_PROCESS_PRIVATE);
	lock->needed = needed;
}

static inline void moor_lock_destroy(struct moor_lock *lock)
{
	pthread_spin_destroy(&lock->spin);
}

static inline void moor_lock(struct moor_lock *lock)
{
	if (lock->needed)
		pthread_spin_lock(&lock->spin);
}

/* Returns true if @lock is taken now. */
static inline bool moor_trylock(struct moor_lock *lock)
{
	return !lock->needed || !pthread_spin_trylock(&lock->spin);
}

static inline void moor_unlock(struct moor_lock *lock)
{
	if (lock->needed)
		pthread_spin_unlock(&lock->spin);
}

/* The owner that a cookie names, or NULL; @cookie comes from a CQE. */
static inline struct moor_owner *moor_owner_find(struct moor_context *ctx,
						 uint32_t cookie)
{
	struct moor_owner_chunk *chunk;

	if (cookie >= MOOR_COOKIES)
		return NULL;
	chunk = __atomic_load_n(&ctx->owners[cookie >> MOOR_CHUNK_SHIFT],
				__ATOMIC_ACQUIRE);
	if (!chunk)
		return NULL;
	return __atomic_load_n(&chunk->owner[cookie % MOOR_CHUNK_SIZE],
			       __ATOMIC_ACQUIRE);
}

/* An XRC target, which has no queues and no CQs. */
static inline bool moor_qp_is_target(const struct moor_qp *qp)
{
	return qp->vqp.qp.qp_type == IBV_QPT_XRC_RECV;
}

/*
 * WQEs of an SRQ are taken in order, but end in any order and on different CQs: the newest
 * WQE that is known to have been taken counts (HWI SRQ-6). A QP may keep a taken WQE while
 * any number of later ones end (HWI SRQ-8), so that the sign of a difference does not tell
 * an old index. A newer one is at most @most ahead: the queue never had room for more.
 */
static inline void moor_srq_taken(struct moor_wq *wq, uint32_t end)
{
	uint32_t most = atomic_load_explicit(&wq->most, memory_order_relaxed);
	unsigned int known = atomic_load_explicit(&wq->consumer,
						  memory_order_relaxed);

	while (end - known - 1 < most &&
	       !atomic_compare_exchange_weak_explicit(&wq->consumer, &known, end,
						      memory_order_release,
						      memory_order_relaxed))
		;
}

/* cookie.c */
int moor_cookie_get(struct moor_context *ctx, struct moor_owner *owner);
void moor_cookie_put(struct moor_context *ctx, const struct moor_owner *owner);

/* moor.c */
bool moor_is_context(const struct ibv_context *context);

/* buf.c */
int moor_buf_alloc(struct moor_buf *buf, size_t size, struct moor_pd *parent,
		   enum moor_resource resource);
void moor_buf_free(struct moor_buf *buf);

/* pd.c */
struct ibv_pd *moor_alloc_pd(struct ibv_context *context);
struct ibv_pd *moor_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr);
int moor_dealloc_pd(struct ibv_pd *pd);
struct ibv_td *moor_alloc_td(struct ibv_context *context,
			     struct ibv_td_init_attr *attr);
int moor_dealloc_td(struct ibv_td *td);
bool moor_single_threaded(const struct moor_pd *parent);

/* mr.c */
struct ibv_mr *moor_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			   uint64_t hca_va, int access);
void moor_note_failure(struct ibv_context *context, int err,
		       const struct moor_registration *asked);
struct ibv_mr *moor_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				  size_t length, uint64_t iova, int fd,
				  int access);
int moor_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
		  void *addr, size_t length, int access);
struct ibv_mr *moor_alloc_null_mr(struct ibv_pd *pd);
int moor_dereg_mr(struct verbs_mr *vmr);

/* mw.c */
struct ibv_mw *moor_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int moor_dealloc_mw(struct ibv_mw *mw);
int moor_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
		 struct ibv_mw_bind *mw_bind);
int moor_put_bind(struct moor_sq_wqe *wqe, const struct ibv_mw *mw,
		  uint32_t rkey, const struct ibv_mw_bind_info *info);

/* dm.c */
struct ibv_dm *moor_alloc_dm(struct ibv_context *context,
			     struct ibv_alloc_dm_attr *attr);
int moor_free_dm(struct ibv_dm *dm);
struct ibv_dm *moor_import_dm(struct ibv_context *context, uint32_t handle);
void moor_unimport_dm(struct ibv_dm *dm);
void moor_dms_close(struct moor_context *ctx);
struct ibv_mr *moor_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm,
			      uint64_t offset, size_t length,
			      unsigned int access);

/* import.c */
struct ibv_pd *moor_import_pd(struct ibv_context *context, uint32_t handle);
void moor_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *moor_import_mr(struct ibv_pd *pd, uint32_t handle);
void moor_unimport_mr(struct ibv_mr *mr);

/* ah.c */
struct ibv_ah *moor_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int moor_destroy_ah(struct ibv_ah *ah);

/* cq.c */
struct ibv_cq *moor_create_cq(struct ibv_context *context, int cqe,
			      struct ibv_comp_channel *channel, int vector);
struct ibv_cq_ex *moor_create_cq_ex(struct ibv_context *context,
				    struct ibv_cq_init_attr_ex *attr);
int moor_resize_cq(struct ibv_cq *cq, int cqe);
int moor_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int moor_destroy_cq(struct ibv_cq *cq);

/* poll.c */
int moor_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int moor_req_notify_cq(struct ibv_cq *cq, int solicited_only);
void moor_cq_event(struct ibv_cq *cq);
void moor_cq_lock(struct moor_cq *cq);
void moor_cq_unlock(struct moor_cq *cq);
bool moor_cq_trylock(struct moor_cq *cq);
void moor_cq_mute(struct moor_cq *cq);
void moor_cq_unmute(struct moor_cq *cq);
void moor_cq_keep_current(struct moor_cq *cq);
void moor_cq_announce(struct moor_cq *cq);
void moor_cq_clean(struct moor_cq *cq, const struct moor_owner *owner);
void moor_cq_set_readers(struct ibv_cq_ex *cq, uint64_t wc_flags);

/* srq.c */
struct ibv_srq *moor_create_srq(struct ibv_pd *pd,
				struct ibv_srq_init_attr *attr);
struct ibv_srq *moor_create_srq_ex(struct ibv_context *context,
				   struct ibv_srq_init_attr_ex *attr);
int moor_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int moor_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int moor_get_srq_num(struct ibv_srq *srq, uint32_t *number);
int moor_destroy_srq(struct ibv_srq *srq);
int moor_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr);

/* qp.c */
uint32_t moor_log2_of_at_least(size_t n);
int moor_size_recv(const struct moor_context *ctx, struct moor_wq *wq,
		   uint32_t max_wr, uint32_t max_sge);
struct ibv_qp *moor_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *moor_create_qp_ex(struct ibv_context *context,
				 struct ibv_qp_init_attr_ex *attr);
int moor_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int moor_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr);
int moor_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
				uint32_t flags);
int moor_destroy_qp(struct ibv_qp *qp);

/* xrc.c */
struct ibv_xrcd *moor_open_xrcd(struct ibv_context *context,
				struct ibv_xrcd_init_attr *attr);
int moor_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *moor_create_target(struct ibv_context *context,
				  struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *moor_open_qp(struct ibv_context *context,
			    struct ibv_qp_open_attr *attr);
int moor_destroy_target(struct moor_qp *qp);

/* post.c */
int moor_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad_wr);
int moor_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad_wr);
int moor_wq_put_recvs(struct moor_wq *rq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr);
void moor_recvs_mute(struct moor_wq *rq);
void moor_recvs_unmute(struct moor_wq *rq);

/* wr.c */
int moor_qp_set_wr_ops(const struct moor_context *ctx, struct ibv_qp_ex *qp,
		       enum ibv_qp_type type, uint64_t send_ops);

#endif /* MOOR_PROVIDER_H */
