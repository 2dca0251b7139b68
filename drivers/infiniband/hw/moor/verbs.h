/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Objects of verbs beside memory: contexts, domains, address handles, queues, and
 * where their doorbells are. Included by moor.h.
 */
#ifndef MOOR_VERBS_H
#define MOOR_VERBS_H

#include <linux/bitmap.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/xarray.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/moor-abi.h>
#include <rdma/moor_user_ioctl_cmds.h>
#include <rdma/uverbs_ioctl.h>
#include <moor/moor_hw.h>

#include "kernel_queue.h"
#include "mr.h"

struct moor_dev;
struct moor_eq;
struct moor_fault_queue;
struct moor_pager;

enum moor_mmap_kind {
	MOOR_MMAP_DOORBELL,
	MOOR_MMAP_KICK,
	MOOR_MMAP_DOZE,
	MOOR_MMAP_DM,
};

struct moor_mmap_entry {
	struct rdma_user_mmap_entry rdma_entry;
	enum moor_mmap_kind kind;
	u32 page;		/* of doorbell, kick, on-NIC memory */
	u32 num_pages;
};

/* A doorbell page of a process and the kick page that goes with it. */
struct moor_db_page {
	struct list_head list;
	u32 index;
	struct moor_mmap_entry *doorbell;
	struct moor_mmap_entry *kick;
	u32 num_free;
	DECLARE_BITMAP(used, MOOR_DB_SLOTS_PER_PAGE);
};

/* Up to two slots in one doorbell page; a queue's or a pair's. */
struct moor_db {
	struct moor_db_page *page;
	u32 num;
	u32 slot[2];
};

struct moor_ucontext {
	struct ib_ucontext ibucontext;
	struct moor_mmap_entry *doze;
	struct mutex db_lock;		/* protects db_pages and what is in it */
	struct list_head db_pages;
	struct moor_refusal refusal;	/* the last; under moor_refusals.lock */
	struct moor_fault_queue *faults; /* set once, by the first MR with paging */
};

/**
 * struct moor_pd - a protection domain
 * @ibpd: the core's
 * @pdn: its number
 * @mws_made: number of windows ever made in it
 * @mws_gone: number of these that the device does not have any more
 */
struct moor_pd {
	struct ib_pd ibpd;
	u32 pdn;
	atomic_t mws_made;
	atomic_t mws_gone;
};

/**
 * struct moor_xrcd - an XRC domain
 * @ibxrcd: the core's
 * @xrcdn: its number
 */
struct moor_xrcd {
	struct ib_xrcd ibxrcd;
	u32 xrcdn;
};

/**
 * struct moor_ah - an address handle
 * @ibah: the core's
 * @segment: the known part of an address segment; the rest comes from the work request
 */
struct moor_ah {
	struct ib_ah ibah;
	struct moor_wqe_ud segment;
};

/*
 * A ring: in a process's memory; or in the kernel's, with a translation alone, as the
 * ring was when its queue was created.
 */
struct moor_ring {
	struct ib_umem *umem;
	struct moor_table table;
};

struct moor_cq {
	struct ib_cq ibcq;
	u32 cqn;
	struct moor_eq *eq;
	struct moor_db db;
	struct moor_ucontext *uctx;
	/* one resize at a time; protects ring and ibcq.cqe of a process's CQ */
	struct mutex resize_lock;
	struct moor_ring ring;
	struct moor_kernel_cq kernel;	/* unused in a process's CQ */
};

/**
 * struct moor_srq - a shared receive queue
 * @ibsrq: the core's
 * @srqn: its number
 * @db: a user's doorbell
 * @uctx: a user's context
 * @lock: protects @ring, @log_depth; orders modifications
 * @ring: WQEs; a kernel user's has no umem
 * @log_depth: log2 of them
 * @log_stride: log2 of the bytes of one
 * @max_sge: SGEs that were asked for
 * @cookie: of an XRC SRQ: by which its process finds it
 * @kernel: unused in a process's SRQ
 */
struct moor_srq {
	struct ib_srq ibsrq;
	u32 srqn;
	struct moor_db db;
	struct moor_ucontext *uctx;
	struct mutex lock;		/* protects ring, log_depth; orders modifications */
	struct moor_ring ring;
	u8 log_depth;
	u8 log_stride;
	u32 max_sge;
	u32 cookie;
	struct moor_kernel_srq kernel;
};

struct moor_qp {
	struct ib_qp ibqp;
	u32 qpn;
	struct moor_db db;
	struct moor_ucontext *uctx;
	struct moor_ring sq;
	struct moor_ring rq;
	struct ib_qp_cap cap;
	enum ib_sig_type sq_sig_type;
	struct mutex lock;		/* protects attr, leaving; orders modifications */
	bool leaving;			/* being destroyed */
	struct ib_qp_attr attr;		/* as last set; qp_state is the shadow */
	bool left_reset;		/* ever; before, the core may be making the QP */
	struct pid *owner;		/* process that created it */
	char comm[TASK_COMM_LEN];	/* its name then */
	struct moor_kernel_qp kernel;	/* unused in a process's QP */
	struct moor_pager *pager;	/* a user's, if the device has ODP */
};

static inline struct moor_ucontext *to_muctx(struct ib_ucontext *ibuctx)
{
	return container_of(ibuctx, struct moor_ucontext, ibucontext);
}

static inline struct moor_pd *to_mpd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct moor_pd, ibpd);
}

static inline struct moor_xrcd *to_mxrcd(struct ib_xrcd *ibxrcd)
{
	return container_of(ibxrcd, struct moor_xrcd, ibxrcd);
}

static inline struct moor_ah *to_mah(struct ib_ah *ibah)
{
	return container_of(ibah, struct moor_ah, ibah);
}

static inline struct moor_cq *to_mcq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct moor_cq, ibcq);
}

static inline struct moor_qp *to_mqp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct moor_qp, ibqp);
}

static inline struct moor_srq *to_msrq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct moor_srq, ibsrq);
}

/* The GSI QP is one of datagrams (HWI QP-16). */
static inline bool moor_qp_is_ud(const struct moor_qp *qp)
{
	return qp->ibqp.qp_type == IB_QPT_UD ||
	       qp->ibqp.qp_type == IB_QPT_GSI;
}

/*
 * An XRC target is the kernel's, as processes may share it, but has no queue: nothing is
 * posted to it, and its receives come from XRC shared receive queues and complete there.
 */
static inline bool moor_qp_is_target(const struct moor_qp *qp)
{
	return qp->ibqp.qp_type == IB_QPT_XRC_TGT;
}

/* Does the QP have queues of a user in the kernel? */
static inline bool moor_qp_is_kernel(const struct moor_qp *qp)
{
	return !qp->uctx && !moor_qp_is_target(qp);
}

/* doorbell.c */
int moor_db_init(struct moor_dev *mdev);
void moor_db_destroy(struct moor_dev *mdev);
int moor_db_have_page(struct moor_ucontext *uctx);
int moor_db_alloc(struct moor_ucontext *uctx, struct moor_db *db, u32 num);
void moor_db_free(struct moor_ucontext *uctx, struct moor_db *db);
void moor_db_release_pages(struct moor_ucontext *uctx);
int moor_db_alloc_page(struct moor_dev *mdev, u32 *index);
void moor_db_free_page(struct moor_dev *mdev, u32 index);
__le32 moor_db_location(const struct moor_db *db, u32 n);
void moor_db_describe(const struct moor_db *db, struct moor_doorbell *out);

/* ucontext.c */
int moor_alloc_ucontext(struct ib_ucontext *ibuctx, struct ib_udata *udata);
int moor_query_ucontext(struct ib_ucontext *ibuctx,
			struct uverbs_attr_bundle *attrs);
void moor_dealloc_ucontext(struct ib_ucontext *ibuctx);
void moor_disassociate_ucontext(struct ib_ucontext *ibuctx);
int moor_mmap(struct ib_ucontext *ibuctx, struct vm_area_struct *vma);
void moor_mmap_free(struct rdma_user_mmap_entry *rdma_entry);
struct moor_mmap_entry *moor_mmap_insert(struct moor_ucontext *uctx,
					 enum moor_mmap_kind kind, u32 page,
					 u32 num_pages);

/* gid.c */
int moor_add_gid(const struct ib_gid_attr *attr, void **context);
int moor_del_gid(const struct ib_gid_attr *attr, void **context);

/* number.c */
int moor_number_alloc(struct xarray *objects, u32 bits, u32 first, void *object,
		      u32 *number);

/* pd.c */
int moor_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int moor_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

/* xrcd.c */
int moor_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int moor_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);

/* ah.c */
int moor_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init_attr,
		   struct ib_udata *udata);
int moor_destroy_ah(struct ib_ah *ibah, u32 flags);

/* mcast.c */
int moor_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int moor_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

/* cq.c */
int moor_cq_enter(struct moor_dev *mdev, struct moor_cq *cq, u8 log_cqe);
void moor_cq_reveal(struct moor_dev *mdev, struct moor_cq *cq);
int moor_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs);
int moor_resize_cq(struct ib_cq *ibcq, unsigned int cqe,
		   struct ib_udata *udata);
int moor_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int moor_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

/* qp.c */
int moor_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		   struct ib_udata *udata);
int moor_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init_attr);
int moor_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int moor_check_queue(const struct moor_dev *mdev, u64 addr, u8 log_depth,
		     u8 log_stride, u8 min_log_stride, u32 max_wr,
		     u32 wqe_bytes);
int moor_pin_queue(struct moor_dev *mdev, struct moor_ring *ring, u64 addr,
		   u8 log_depth, u8 log_stride);
struct moor_qp *moor_qp_find(struct moor_dev *mdev, u32 qpn);
struct pid *moor_qp_owner(struct moor_dev *mdev, u32 qpn, char *comm);

/* qp_modify.c */
int moor_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata);

/* srq.c */
int moor_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
		    struct ib_udata *udata);
int moor_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata);
int moor_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int moor_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
struct moor_srq *moor_srq_find(struct moor_dev *mdev, u32 srqn);

/* uverbs.c */
extern const struct uapi_definition moor_uapi[];

#endif /* MOOR_VERBS_H */
