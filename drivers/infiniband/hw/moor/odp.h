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

/* Size of what a node of the lowest height maps, or one leaf at the height above. */
#define MOOR_BRANCH_SHIFT	(MOOR_MIN_PAGE_SHIFT + MOOR_NODE_SHIFT)
#define MOOR_BRANCH_SIZE	BIT_ULL(MOOR_BRANCH_SHIFT)

/*
 * A page as the device may have it: its entry of the table (0: none), and the page
 * that was mapped for it (NULL: the device's page of zeros).
 */
struct moor_odp_page {
	u64 pte;
	struct page *page;
};

/**
 * struct moor_odp_node - a node above the branches
 * @parent: node whose entry points to this one; NULL for the root
 * @slot: that entry of the parent
 * @id: index in &moor_odp.nodes
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
 * @notifier: called when some of that memory goes away
 * @odp: translation that the branch belongs to
 * @parent: node whose entry points to the branch
 * @slot: that entry of the parent: absent while @present is 0
 * @table: the branch's node of 4 KiB pages
 * @start: address in the process
 * @lock: protects what follows and the table's entries. Taken in reclaim: under it
 *	memory is allocated with GFP_ATOMIC only
 * @present: pages that the device may have
 * @huge: the pages are one leaf in @slot; @pages[0] describes that leaf
 * @pages: the driver's copy of the table. The table itself, which the device could
 *	have written, is never read back
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
 * @ref: held by the registration, and by each task that works on a fault, a prefetch
 *	or @reap
 * @mdev: device; not to be touched when @dead
 * @mm: the process's mm; a reference on the structure, not on the address space
 * @key: of the MR
 * @start: address of the first byte in the process
 * @end: address behind the last byte
 * @iova: address of the first byte on the wire
 * @base: address in the process at which the table's space begins
 * @levels: of the table
 * @writable: the device may write
 * @huge: the process has promised huge pages (IB_ACCESS_HUGETLB)
 * @implicit: the MR is all of the process's memory
 * @leaving: the MR's key is being revoked: an MR_INVALIDATE may come too late
 * @listens: the process has had a notifier
 * @lock: protects the tree. Held while pages are entered, and from when the key leads
 *	to this translation until the device has the MR's entry. Never held while a
 *	task waits for a page or for the process's mmap_lock
 * @dead: the registration is over
 * @root: node of the table's root
 * @nodes: the others above the branches, by height and place
 * @branches: by place; marked MOOR_ODP_EMPTY when the last page has gone
 * @num_nodes: nodes of the table, for display
 * @pfns: pages that the process has, while they are entered
 * @reap: frees empty branches, a while after the first of them became empty
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
 * @ref: held by the registration, and by each task that works on a fault or a prefetch
 * @buf: the buffer. Its reservation lock protects what follows
 * @mr: MR that registers the buffer; not to be touched when @over
 * @mapped: the device may use it
 * @over: the MR has been deregistered
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

/* What a fault waits for: the process, or the owner of a dma-buf. */
enum moor_fault_kind {
	MOOR_FAULT_PAGE,
	MOOR_FAULT_DMABUF,
	MOOR_FAULT_KINDS,
	/* Prefetches of both kinds: page requests must not wait behind them. */
	MOOR_FAULT_ADVICE = MOOR_FAULT_KINDS,
	MOOR_FAULT_QUEUES
};

/* Prefetches in workers, of a context and of all: beyond that the caller runs its own. */
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
 * @pager: pager of both halves
 * @route: for an XRC target: finds the context whose page is wanted
 * @work: by kind: answers @fault, if @fault is of that kind
 * @lock: protects what follows, down to @fault
 * @queue: by kind: where @work is queued or runs; NULL: it does neither
 * @next: by kind: where @work is to be queued when it has run
 * @fault: the last page request
 * @next_key: MR in which the last fault was
 * @next_addr: where the pages entered for that fault ended: a next fault here reads on
 * @window: bytes that were entered ahead
 */
struct moor_half {
	struct moor_pager *pager;
	struct work_struct route;
	struct work_struct work[MOOR_FAULT_KINDS];
	spinlock_t lock;		/* protects the next three */
	struct moor_fault_queue *queue[MOOR_FAULT_KINDS];
	struct moor_fault_queue *next[MOOR_FAULT_KINDS];
	struct moor_page_fault fault;
	u32 next_key;
	u64 next_addr;
	u64 window;
};

/* For an XRC target: each message may be for another process; the device knows it. */
#define MOOR_PDN_ANY	0

/**
 * struct moor_fault_queue - where the page requests of a context are worked on
 * @ref: held by the context, and by each page request and prefetch that is in @wq
 * @wq: workqueues of this context alone, by kind: a worker that waits for a page that
 *	does not come delays no other context
 * @destroy: destroys the queue: a worker that puts the last reference runs in it
 * @prefetches: under way in the background
 * @user: user who made the queue
 * @left: entry in the list of queues whose context has gone
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
 * @ref: held by the QP, and by requests that are worked on. A page may take for ever
 *	to come (userfaultfd, FUSE), and the QP does not wait for that
 * @lock: protects @mdev, and is held while @mdev is used
 * @mdev: device; NULL when the QP is gone
 * @pdn: the QP's protection domain, or MOOR_PDN_ANY
 * @srq_pdn: protection domain of the QP's SRQ; without an SRQ the same as @pdn
 * @qpn: the QP's number, for display
 * @half: requester, responder
 */
struct moor_pager {
	struct kref ref;
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
void moor_faults_put(struct moor_fault_queue *queue);
int moor_faults_open(struct moor_ucontext *uctx);
void moor_faults_close(struct moor_ucontext *uctx);

/* odp_fault.c */
struct moor_mr *moor_paged_mr(struct moor_dev *mdev, u32 key, u32 pdn);
struct moor_odp *moor_odp_get(struct moor_dev *mdev, u32 key, u32 pdn);
long moor_odp_fault(struct moor_odp *odp, u64 addr, u64 end, bool write,
		    u32 *fresh);
struct moor_pager *moor_pager_new(const struct moor_qp *qp);
struct moor_pager *moor_pager_another(struct moor_pager *old);
struct moor_pager *moor_pager_swap(struct moor_qp *qp, struct moor_pager *next);
void moor_pager_close(struct moor_pager *pager);
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
