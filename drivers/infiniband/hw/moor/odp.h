/* SPDX-License-Identifier: GPL-2.0 */
/*
 * On-demand paging (HWI 6.10): translations that are filled in when the device
 * asks for a page, and emptied when the process's memory goes. Included by moor.h.
 */
#ifndef MOOR_ODP_H
#define MOOR_ODP_H

#include <linux/kref.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <moor/moor_hw.h>

#include "mr.h"

struct dma_buf;
struct moor_fault_queue;
struct moor_ucontext;

/* What a node of the lowest height maps, and a leaf above it. */
#define MOOR_BRANCH_SHIFT	(MOOR_MIN_PAGE_SHIFT + MOOR_NODE_SHIFT)
#define MOOR_BRANCH_SIZE	BIT_ULL(MOOR_BRANCH_SHIFT)

/*
 * A page as the device may have it: an entry of the table, 0 for none, and what was
 * mapped for it: NULL for zeros.
 */
struct moor_odp_page {
	u64 pte;
	struct page *page;
};

/**
 * struct moor_odp_node - a node above the branches
 * @parent: the node that names it; NULL for the root's
 * @slot: entry of the parent's that does
 * @id: in &moor_odp.nodes
 * @children: entries that are in use
 * @table: the node
 */
struct moor_odp_node {
	struct moor_odp_node *parent;
	__le64 *slot;
	unsigned long id;
	u32 children;
	struct moor_table table;
};

/**
 * struct moor_branch - 2 MiB of the process's memory, from the first fault on
 * @notifier: tells when some of it goes
 * @odp: whose branch it is
 * @parent: node that names it
 * @slot: entry of the parent's: absent while @present is 0
 * @table: its node of 4 KiB pages
 * @start: address in the process
 * @lock: protects what follows and the table's entries. Taken in reclaim: nothing
 *	is allocated under it but with GFP_ATOMIC
 * @present: pages that the device may have
 * @huge: they are one leaf in @slot; @pages[0] stands for it
 * @pages: what is in the table. What the device could have written to the table
 *	itself is never read back
 */
struct moor_branch {
	struct mmu_interval_notifier notifier;
	struct moor_odp *odp;
	struct moor_odp_node *parent;
	__le64 *slot;
	struct moor_table table;
	u64 start;
	struct mutex lock;		/* protects the rest; below reclaim */
	u32 present;
	bool huge;
	struct moor_odp_page *pages;
};

/* What "rdma statistic show mr" shows. */
struct moor_odp_counters {
	atomic64_t faults;
	atomic64_t handled;
	atomic64_t invalidations;
	atomic64_t prefetch;
};

/**
 * struct moor_odp - the translation of an MR whose pages come and go
 * @ref: the registration's, and of whoever works on a fault
 * @mdev: device; not to be touched when @dead
 * @mm: the process's memory; the structure, not what is in it
 * @key: of the MR
 * @start: address of the first byte in the process
 * @end: behind the last one
 * @iova: what the wire calls the first byte
 * @base: address in the process at which the table's space begins
 * @levels: of the table
 * @writable: the device may write
 * @huge: the process has promised huge pages (IB_ACCESS_HUGETLB)
 * @implicit: it is all of the process's memory
 * @leaving: its key is being taken away: an MR_INVALIDATE may come too late
 * @listens: the process has had a notifier
 * @lock: protects the tree. Held while pages are entered, never while anybody
 *	waits for one, or for the process's mmap_lock; and from when the key leads here
 *	until the device has the entry
 * @dead: the registration is over
 * @root: node of the table's root
 * @nodes: the others above the branches, by height and place
 * @branches: by place; marked MOOR_ODP_EMPTY when the last page has gone
 * @num_nodes: of the table, for people
 * @pfns: what the process has, while pages are entered
 * @reap: takes empty branches away, a while after the first of them was emptied
 * @counters: what has happened
 */
struct moor_odp {
	struct kref ref;
	struct moor_dev *mdev;
	struct mm_struct *mm;
	u32 key;
	u64 start;
	u64 end;
	u64 iova;
	u64 base;
	u32 levels;
	bool writable;
	bool huge;
	bool implicit;
	bool leaving;
	bool listens;
	struct mutex lock;		/* protects what follows */
	bool dead;
	struct moor_odp_node root;
	struct xarray nodes;
	struct xarray branches;
	u32 num_nodes;
	unsigned long *pfns;
	struct delayed_work reap;
	struct moor_odp_counters counters;
};

#define MOOR_ODP_EMPTY	XA_MARK_0

/**
 * struct moor_dmabuf - a dma-buf that may move, and what is registered of it
 * @ref: the registration's, and of whoever works on a fault
 * @buf: the buffer. Its reservation lock protects what follows
 * @mr: whose registration it is; not to be touched when @over
 * @mapped: the device may use it
 * @over: for good: the MR's key has been taken away
 * @counters: what has happened
 */
struct moor_dmabuf {
	struct kref ref;
	struct dma_buf *buf;
	struct moor_mr *mr;
	bool mapped;
	bool over;
	struct moor_odp_counters counters;
};

/* Who is waited for: the process, or the owner of a dma-buf. */
enum moor_fault_kind {
	MOOR_FAULT_PAGE,
	MOOR_FAULT_DMABUF,
	MOOR_FAULT_KINDS,
	/* Either, and nobody has asked yet: who does has not to wait for those. */
	MOOR_FAULT_ADVICE = MOOR_FAULT_KINDS,
	MOOR_FAULT_QUEUES
};

/* Under way in a context, each with a worker; who asks for more waits for it himself. */
#define MOOR_PREFETCHES		16
#define MOOR_PREFETCHES_ALL	256

/* What a half of a QP waits for. */
struct moor_page_fault {
	enum moor_fault_kind kind;
	u32 token;
	u32 key;
	u64 addr;
	u32 length;
	bool write;
};

/**
 * struct moor_half - the requester or the responder of a QP, when it faults
 * @pager: both
 * @work: answers @fault, if it is of that kind
 * @lock: protects @fault
 * @fault: the last page request
 * @next_key: MR in which the last fault was
 * @next_addr: where what was entered for it ended: who faults here reads on
 * @window: bytes that were entered ahead
 */
struct moor_half {
	struct moor_pager *pager;
	struct work_struct work[MOOR_FAULT_KINDS];
	spinlock_t lock;		/* protects fault */
	struct moor_page_fault fault;
	u32 next_key;
	u64 next_addr;
	u64 window;
};

/* Of a target, whose messages are each for another process: who it is the device knows. */
#define MOOR_PDN_ANY	0

/**
 * struct moor_fault_queue - where the page requests of a context are worked on
 * @ref: the context's, and of pagers and prefetches that may still be at work
 * @wq: its own, by kind: who waits here for a page that does not come lets nobody
 *	else wait
 * @destroy: the last one out cannot destroy the queue that he runs in
 * @prefetches: under way in the background
 * @user: who made it
 * @left: in the list of those whose context has gone
 */
struct moor_fault_queue {
	struct kref ref;
	struct workqueue_struct *wq[MOOR_FAULT_QUEUES];
	struct work_struct destroy;
	atomic_t prefetches;
	kuid_t user;
	struct list_head left;
};

/**
 * struct moor_pager - answers the page requests of a QP, until it goes to RESET
 * @ref: the QP's, and of requests that are worked on. A page may take for ever
 *	to come (userfaultfd, FUSE), and the QP does not wait for it
 * @queue: of the QP's context, set with the first request; a target has its own
 * @lock: protects @mdev and what is done with it
 * @mdev: device; NULL when the QP is gone
 * @pdn: the QP's protection domain, or MOOR_PDN_ANY
 * @srq_pdn: that of the receives that it takes from an SRQ, or the same
 * @qpn: the QP's number, for people
 * @half: requester, responder
 */
struct moor_pager {
	struct kref ref;
	struct moor_fault_queue *queue;
	struct mutex lock;		/* protects mdev */
	struct moor_dev *mdev;
	u32 pdn;
	u32 srq_pdn;
	u32 qpn;
	struct moor_half half[2];
};

/* All of a process's memory. */
static inline bool moor_reg_is_implicit(const struct moor_registration *reg)
{
	return !reg->start && reg->length == U64_MAX;
}

static inline u64 moor_branch_end(const struct moor_branch *branch)
{
	return branch->start + MOOR_BRANCH_SIZE;
}

static inline unsigned long moor_branch_id(const struct moor_odp *odp, u64 addr)
{
	return (addr - odp->base) >> MOOR_BRANCH_SHIFT;
}

static inline u32 moor_page_index(const struct moor_branch *branch, u64 addr)
{
	return (addr - branch->start) >> MOOR_MIN_PAGE_SHIFT;
}

static inline __le64 *moor_node_entries(const struct moor_table *table)
{
	return table->nodes->pte;
}

static inline __le64 moor_node_entry(const struct moor_table *table)
{
	return cpu_to_le64(table->nodes->dma | MOOR_PTE_PRESENT);
}

/* odp.c */
int moor_odp_init(struct moor_dev *mdev);
void moor_odp_destroy(struct moor_dev *mdev);
int moor_odp_new(struct moor_dev *mdev, struct moor_registration *reg,
		 struct moor_refusal *why);
void moor_odp_release(struct moor_odp *odp);
void moor_odp_put(struct moor_odp *odp);
void moor_odp_hold(struct moor_odp *odp);
void moor_odp_begin(struct moor_odp *odp, u32 key);
void moor_odp_leaving(struct moor_odp *odp, bool leaving);
void moor_odp_fence(struct moor_odp *odp, u64 start, u64 end);
void moor_odp_emptied(struct moor_branch *branch);
long moor_odp_map(struct moor_odp *odp, u64 start, u64 end, bool write,
		  u32 *fresh);

/* odp_tree.c */
int moor_odp_alloc_node(struct moor_odp *odp, struct moor_table *table);
void moor_odp_free_node(struct moor_odp *odp, struct moor_table *table);
struct moor_branch *moor_branch_find(struct moor_odp *odp, u64 addr);
struct moor_branch *moor_branch_new(struct moor_odp *odp, u64 addr);
void moor_branch_free(struct moor_branch *branch);
void moor_odp_free_tree(struct moor_odp *odp);

/* odp_page.c */
extern const struct mmu_interval_notifier_ops moor_branch_ops;

bool moor_branch_is_empty(struct moor_branch *branch);
void moor_branch_drop_pages(struct moor_branch *branch);
long moor_branch_set_range(struct moor_branch *branch, u64 start, u64 end,
			   bool write);

/* odp_workers.c */
extern struct workqueue_struct *moor_odp_wq;

int moor_faults_init(void);
void moor_faults_exit(void);
struct moor_fault_queue *moor_faults_new(void);
void moor_faults_leave(struct moor_fault_queue *queue);
void moor_faults_put(struct moor_fault_queue *queue);
int moor_faults_open(struct moor_ucontext *uctx);
void moor_faults_close(struct moor_ucontext *uctx);

/* odp_fault.c */
struct moor_mr *moor_paged_mr(struct moor_dev *mdev, u32 key, u32 pdn);
struct moor_odp *moor_odp_get(struct moor_dev *mdev, u32 key, u32 pdn);
long moor_odp_fault(struct moor_odp *odp, u64 addr, u64 end, bool write,
		    u32 *fresh);
struct moor_pager *moor_pager_new(const struct moor_qp *qp);
struct moor_pager *moor_target_pager_new(const struct moor_qp *qp);
struct moor_pager *moor_pager_another(struct moor_pager *old);
struct moor_pager *moor_pager_swap(struct moor_qp *qp, struct moor_pager *next);
void moor_pager_close(struct moor_pager *pager);
void moor_target_pager_close(struct moor_pager *pager);
void moor_page_request(struct moor_dev *mdev,
		       const struct moor_page_request *event);

/* dmabuf_move.c */
int moor_dmabuf_new(struct moor_dev *mdev, struct moor_mr *mr, int fd,
		    struct moor_refusal *why);
void moor_dmabuf_end(struct moor_dmabuf *dmabuf);
struct moor_dmabuf *moor_dmabuf_get(struct moor_dev *mdev, u32 key, u32 pdn);
void moor_dmabuf_put(struct moor_dmabuf *dmabuf);
int moor_dmabuf_fault(struct moor_dmabuf *dmabuf, u32 *fresh);

/* odp_advise.c */
int moor_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice,
		   u32 flags, struct ib_sge *sg_list, u32 num_sge,
		   struct uverbs_attr_bundle *attrs);
int moor_fill_stat_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);

#endif /* MOOR_ODP_H */
