/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory: keys, the context table, translations, regions, windows, on-NIC
 * memory, and why a registration failed. Included by moor.h.
 */
#ifndef MOOR_MR_DRIVER_H
#define MOOR_MR_DRIVER_H

#include <linux/cache.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/siphash.h>
#include <linux/spinlock.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/moor_user_ioctl_cmds.h>
#include <moor/moor_cmd.h>
#include <moor/moor_hw.h>

struct moor_dev;
struct moor_dmabuf;
struct moor_mmap_entry;
struct moor_mr;
struct moor_odp;
struct moor_qp;
struct moor_ring;
struct moor_ucontext;

/* A node of a translation table: 4 KiB of coherent memory (HWI 7). */
struct moor_node {
	struct moor_node *next;
	__le64 *pte;
	dma_addr_t dma;
};

/**
 * struct moor_node_pool - free nodes, mapped for the device
 * @lock: protects the rest; a leaf. No task waits for it: who does not get it does
 *	without the pool
 * @free: nodes
 * @count: of @free
 */
struct moor_node_pool {
	spinlock_t lock;	/* protects the rest; a leaf, only tried */
	struct moor_node *free;
	u32 count;
};

/**
 * struct moor_table - a translation of pinned memory
 * @xlat: what the device is given
 * @nodes: its nodes, none with @xlat.levels 0
 * @num_nodes: of @nodes
 */
struct moor_table {
	struct moor_xlat xlat;
	struct moor_node *nodes;
	u32 num_nodes;
};

/**
 * struct moor_key_slot - what is known of one index of the context table
 * @mr: MR that has it, or NULL: free or a window's
 * @count: uses so far, from a random start: a permutation of the index makes it a nonce
 * @moving: the key is of a dma-buf that may move; read without a lock
 */
struct moor_key_slot {
	struct moor_mr *mr;
	u32 count;
	bool moving;
};

#define MOOR_KEY_LANES	16	/* a power of two */

/**
 * struct moor_key_lane - a share of a range's indices
 * @lock: protects the rest and, while an MR is in one of the lane's slots, the MR's
 *	existence. Nothing is computed under it
 * @head: free-running, taken by @mask
 * @tail: free-running, taken by @mask
 * @mask: entries of @queue less one: a power of two of them, or places would jump
 *	where @head and @tail wrap
 * @queue: free indices, the one that has been free longest at @head
 */
struct moor_key_lane {
	spinlock_t lock;	/* protects the rest; a leaf */
	u32 head;
	u32 tail;
	u32 mask;
	u32 *queue;
} ____cacheline_aligned_in_smp;

/**
 * struct moor_keys - the keys of a range of the context table (HWI 6.2)
 * @slots: by index; the slot of an index in use belongs to the index's user
 * @queue: what the lanes' queues are in
 * @size: indices
 * @lane_bits: an index's lane is in the bits of its slot above these
 * @num_lanes: lanes that have indices. Processors take from different lanes, so that
 *	unrelated registrations do not wait for each other
 * @first: index of @slots[0]
 * @nonce_bits: bits of a key that the nonce has
 * @nonce_shift: bits of a key below the nonce: the consumer's byte, or none
 * @secret: makes nonces unpredictable
 * @lanes: shares of the range
 */
struct moor_keys {
	struct moor_key_slot *slots;
	u32 *queue;
	u32 size;
	u32 lane_bits;
	u32 num_lanes;
	u32 first;
	u32 nonce_bits;
	u32 nonce_shift;
	hsiphash_key_t secret;
	struct moor_key_lane lanes[MOOR_KEY_LANES];
};

/**
 * struct moor_revocation - a key on its way out
 * @list: entry in the caller's list
 * @pending: entry in the list of keys that were handed over
 * @key: of an MR or a window
 * @done: a fence for the key is over
 * @busy: the fence refused the key: a window is bound. Valid once @done
 */
struct moor_revocation {
	struct list_head list;
	struct llist_node pending;
	u32 key;
	bool done;
	bool busy;
};

#define MOOR_FENCES_AT_ONCE	4U
#define MOOR_BATCH_KEYS		(MOOR_FENCES_AT_ONCE * MOOR_REVOKE_MAX_KEYS)

/**
 * struct moor_fence - an MR_REVOKE under way
 * @cmd: the command; what has no key in it is zero or left over
 * @revs: revocations of its keys, in the same order
 * @count: of the keys
 * @tag: of the command
 */
struct moor_fence {
	struct moor_cmd_mr_revoke cmd;
	struct moor_revocation *revs[MOOR_REVOKE_MAX_KEYS];
	u32 count;
	int tag;
};

/**
 * struct moor_mr_table - the context table and its fences (HWI 6)
 * @entries: BAR2, write-combining
 * @pending: revocations that were handed over, the last one first
 * @num_pending: how many were handed over and not yet sent; only how well fences are
 *	filled depends on it
 * @commit: held by the task that sends; protects @unsent and @fences
 * @unsent: revocations taken from @pending, the first one first
 * @fences: those under way
 * @sent: tasks wait here until their revocations are done, or to get @commit and send
 */
struct moor_mr_table {
	struct moor_mr_context __iomem *entries;
	struct llist_head pending;
	atomic_t num_pending;
	struct mutex commit;		/* held by the task that sends */
	struct llist_node *unsent;
	struct moor_fence fences[MOOR_FENCES_AT_ONCE];
	wait_queue_head_t sent;
};

/**
 * struct moor_registration - what re-registering may replace of an MR
 * @umem: pinned memory, or NULL (get_dma_mr, on-NIC memory, with @odp)
 * @odp: of memory that is paged on demand, or NULL; has the nodes of @table
 * @dmabuf: of a dma-buf that may move, or NULL
 * @table: translation
 * @iova: address of the first byte as the wire knows it
 * @length: bytes
 * @start: address of the first byte in the process
 * @access: MOOR_ACCESS_*
 * @pdn: number of the protection domain
 * @zero_based: @iova is 0 whatever the address in the process is
 * @huge: the process has promised huge pages
 */
struct moor_registration {
	struct ib_umem *umem;
	struct moor_odp *odp;
	struct moor_dmabuf *dmabuf;
	struct moor_table table;
	u64 iova;
	u64 length;
	u64 start;
	u32 access;
	u32 pdn;
	bool zero_based;
	bool huge;
};

/* Rights that mean the same to the core and to the device. */
#define MOOR_ACCESS_COMMON	(MOOR_ACCESS_LOCAL_WRITE |		\
				 MOOR_ACCESS_REMOTE_WRITE |		\
				 MOOR_ACCESS_REMOTE_READ |		\
				 MOOR_ACCESS_REMOTE_ATOMIC |		\
				 MOOR_ACCESS_MW_BIND |			\
				 MOOR_ACCESS_FLUSH_GLOBAL |		\
				 MOOR_ACCESS_FLUSH_PERSISTENT)

/* Access flags that an MR of any kind may have on any device. */
#define MOOR_ACCESS_SUPPORTED	(IB_ACCESS_LOCAL_WRITE |		\
				 IB_ACCESS_REMOTE_WRITE |		\
				 IB_ACCESS_REMOTE_READ |		\
				 IB_ACCESS_REMOTE_ATOMIC |		\
				 IB_ACCESS_MW_BIND |			\
				 IB_ZERO_BASED |			\
				 IB_ACCESS_RELAXED_ORDERING)

/**
 * struct moor_mr - a memory region
 * @ibmr: the core's; its iova and length are the core's business
 * @reg: what the MR stands for; changes under moor_key_lock(), and only
 *	while the core has the MR locked for writing
 * @key: lkey and rkey
 * @uctx: context of the process that registered the memory, or NULL
 * @exit: the MR's revocation, together with all others, when its context is closed
 * @type: enum moor_mrc_type
 * @generation: counts the bodies written under this key; changes as @reg does
 */
struct moor_mr {
	struct ib_mr ibmr;
	struct moor_registration reg;
	struct moor_ucontext *uctx;
	struct moor_revocation exit;
	u32 key;
	u8 type;
	u8 generation;
};

/**
 * struct moor_mw - a memory window
 * @ibmw: the core's; its rkey is the key the window began with
 * @exit: as in &struct moor_mr
 * @key: the same as @ibmw has
 */
struct moor_mw {
	struct ib_mw ibmw;
	struct moor_revocation exit;
	u32 key;
};

/**
 * struct moor_dm_pool - on-NIC memory (HWI 7.3)
 * @mem: all of it, write-combining, or NULL if there is none
 * @lock: protects @used; a leaf
 * @used: bit n: page n is handed out
 * @pages: number of pages
 */
struct moor_dm_pool {
	void __iomem *mem;
	spinlock_t lock;	/* protects used; a leaf */
	unsigned long *used;
	u32 pages;
};

/**
 * struct moor_dm - a piece of on-NIC memory
 * @ibdm: the core's
 * @entry: what maps it; the pages are free when the last mapping is gone
 * @first: its first page
 */
struct moor_dm {
	struct ib_dm ibdm;
	struct moor_mmap_entry *entry;
	u32 first;
};

#define MOOR_FAST_MAX_PAGES	MOOR_NODE_ENTRIES	/* one node a table */

/* What a REG_MR asked for: tells which table the registration uses that the device has. */
struct moor_fast_said {
	__le32 key;
	__le64 iova;
	__le64 length;
};

/**
 * struct moor_fast_mr - a memory region for fast registration
 * @mr: the region. Its registration is between the user and the device; @tables are
 *	taken from its table
 * @tables: copies of the table's nodes, for readers by key that outlive those nodes
 * @said: for each table the last REG_MR that took it
 * @max_pages: pages that there is room for
 * @num_pages: pages that were mapped last
 * @mapped: the table that was mapped last; the user serialises the MR's use
 * @posted: the table that a valid registration may use
 * @unsure: a REG_MR was flushed without a CQE, or the device has a registration that is
 *	none of @said: @posted may be wrong
 * @rcu: for freeing
 */
struct moor_fast_mr {
	struct moor_mr mr;
	struct moor_node tables[2];
	struct moor_fast_said said[2];
	u32 max_pages;
	u32 num_pages;
	u8 mapped;
	u8 posted;
	bool unsure;
	struct rcu_head rcu;
};

/* What is shown of an MR: copied under the lock, printed without it. */
struct moor_mr_info {
	u32 key;
	u32 pdn;
	u32 access;
	u64 iova;
	u64 length;
	u64 start;
	u8 type;
	u8 generation;
	u32 nodes;
	struct moor_xlat xlat;
};

/* A registration that failed, and the process that asked for it. */
struct moor_refusal_record {
	struct moor_refusal refusal;
	time64_t time;
	pid_t pid;
	char comm[TASK_COMM_LEN];
};

#define MOOR_REFUSALS_KEPT	32

/**
 * struct moor_refusals - registrations that failed
 * @lock: protects the rest and every context's own last refusal; a leaf
 * @count: of all since the device came
 * @last: the last of them, number n at n modulo the size
 */
struct moor_refusals {
	spinlock_t lock;	/* protects the rest; a leaf */
	u64 count;
	struct moor_refusal_record last[MOOR_REFUSALS_KEPT];
};

static inline struct moor_mr *to_mmr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct moor_mr, ibmr);
}

static inline struct moor_fast_mr *to_fast_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct moor_fast_mr, mr.ibmr);
}

static inline struct moor_mw *to_mmw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct moor_mw, ibmw);
}

static inline struct moor_dm *to_mdm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct moor_dm, ibdm);
}

static inline void moor_revocation_add(struct moor_revocation *rev, u32 key,
				       struct list_head *revs)
{
	*rev = (struct moor_revocation){ .key = key };
	list_add_tail(&rev->list, revs);
}

static inline bool moor_is_revoked(const struct moor_revocation *rev)
{
	return rev->done && !rev->busy;
}

/* key.c */
int moor_keys_init(struct moor_dev *mdev);
void moor_keys_destroy(struct moor_dev *mdev);
int moor_key_alloc(struct moor_dev *mdev, struct moor_mr *mr);
int moor_key_alloc_consumer(struct moor_dev *mdev, u32 *key);
void moor_key_free(struct moor_dev *mdev, u32 key);
u32 moor_key_index(const struct moor_dev *mdev, u32 key);
bool moor_key_is_moving(const struct moor_dev *mdev, u32 key);
spinlock_t *moor_keys_lock(struct moor_keys *keys, u32 slot);
spinlock_t *moor_key_lock(struct moor_dev *mdev, u32 key);
struct moor_mr *moor_keys_mr(struct moor_keys *keys, u32 slot);
u32 moor_keys_used(struct moor_keys *keys);

/* xlat.c */
int moor_nodes_init(struct moor_dev *mdev);
void moor_nodes_destroy(struct moor_dev *mdev);
struct moor_node *moor_table_add_node(struct moor_dev *mdev,
				      struct moor_table *table);
int moor_table_alloc_nodes(struct moor_dev *mdev, struct moor_table *table,
			   u32 want);
void moor_table_free(struct moor_dev *mdev, struct moor_table *table);
int moor_ring_pin(struct moor_dev *mdev, struct moor_ring *ring,
		  struct ib_umem *umem);
void moor_ring_unpin(struct moor_dev *mdev, struct moor_ring *ring);

/* xlat_tree.c */
int moor_table_build(struct moor_dev *mdev, struct moor_table *table,
		     struct ib_umem *umem);
int moor_table_reserve(struct moor_dev *mdev, struct moor_table *table,
		       u64 start, u64 length);
int moor_table_fill(struct moor_table *table, struct ib_umem *umem);
void moor_table_empty(struct moor_table *table);

/* mr_table.c */
int moor_mr_table_init(struct moor_dev *mdev);
void moor_mr_table_destroy(struct moor_dev *mdev);
void moor_mr_publish(struct moor_dev *mdev, const struct moor_mr *mr);
void moor_mw_publish(struct moor_dev *mdev, u32 key, u8 type, u32 pdn);
void moor_keys_revoke(struct moor_dev *mdev, struct list_head *revs);
void moor_keys_wait_sent(struct moor_dev *mdev);
void moor_fast_publish(struct moor_dev *mdev, u32 key, u32 pdn, u32 max_pages);
int moor_key_revoke(struct moor_dev *mdev, u32 key);

/* mr.c */
u32 moor_mr_supported(const struct moor_dev *mdev);
int moor_mr_check_access(u32 supported, int access, struct moor_refusal *why);
int moor_mr_check_range(const struct moor_dev *mdev, u64 start, u64 length,
			u64 iova, struct moor_refusal *why);
int moor_reg_check_access(const struct moor_dev *mdev,
			  struct moor_ucontext *uctx, int access,
			  struct moor_refusal *why);
int moor_reg_check_range(const struct moor_dev *mdev,
			 const struct moor_registration *reg, u64 iova,
			 struct moor_refusal *why);
void moor_reg_set_access(struct moor_registration *reg, int access);
int moor_reg_check_memory(const struct moor_registration *reg,
			  struct moor_refusal *why);
int moor_reg_pin(struct moor_dev *mdev, struct moor_registration *reg,
		 struct moor_refusal *why);
void moor_reg_unpin(struct moor_dev *mdev, struct moor_registration *reg);
struct moor_mr *moor_mr_new(struct ib_pd *ibpd, int access, u8 type);
int moor_mr_enter(struct moor_dev *mdev, struct moor_mr *mr,
		  struct moor_refusal *why);
struct ib_mr *moor_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 iova, int access, struct ib_udata *udata);
struct ib_mr *moor_get_dma_mr(struct ib_pd *ibpd, int access);
int moor_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
void moor_mr_info_copy(struct moor_dev *mdev, struct moor_mr_info *info,
		       const struct moor_mr *mr);

/* mr_fast.c */
struct ib_mr *moor_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_num_sg);
void moor_fast_free(struct moor_dev *mdev, struct moor_mr *mr);
int moor_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		   unsigned int *sg_offset);
int moor_put_reg_mr(struct moor_sq_wqe *wqe, const struct ib_reg_wr *wr);
void moor_fast_failed(struct moor_qp *qp, u32 index);
void moor_fast_flushed(struct moor_qp *qp, u32 index);
void moor_fast_settle(struct moor_qp *qp);

/* dmabuf.c */
static inline bool moor_reg_is_dmabuf(const struct moor_registration *reg)
{
	return reg->umem && reg->umem->is_dmabuf;
}

static inline u64 moor_dmabuf_pages(const struct ib_umem *umem)
{
	return DIV_ROUND_UP_ULL(offset_in_page(umem->address) + umem->length,
				PAGE_SIZE);
}

int moor_dmabuf_check_list(const struct ib_umem *umem);
bool moor_dmabuf_let_go(const struct moor_registration *reg);
struct ib_mr *moor_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
				      u64 length, u64 iova, int fd, int access,
				      struct uverbs_attr_bundle *attrs);

/* rereg.c */
struct ib_mr *moor_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				 u64 length, u64 iova, int access,
				 struct ib_pd *ibpd, struct ib_udata *udata);

/* mw.c */
int moor_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int moor_dealloc_mw(struct ib_mw *ibmw);
u32 moor_mr_count_windows(struct moor_dev *mdev, u32 key, u32 access);
int moor_windows_visit(struct moor_dev *mdev, u32 key,
		       void (*visit)(void *arg,
				     const struct moor_window_info *info),
		       void *arg);
void moor_mr_trace_holders(struct moor_dev *mdev, u32 key);
void moor_window_describe(struct moor_dev *mdev, struct moor_window *window,
			  const struct moor_window_info *info,
			  struct pid_namespace *ns, char *comm);

/* dm.c */
int moor_dm_init(struct moor_dev *mdev);
void moor_dm_destroy(struct moor_dev *mdev);
void moor_dm_free_pages(struct moor_dev *mdev, u32 first, u32 num);
struct ib_dm *moor_alloc_dm(struct ib_device *ibdev,
			    struct ib_ucontext *ibuctx,
			    struct ib_dm_alloc_attr *attr,
			    struct uverbs_attr_bundle *attrs);
int moor_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);
struct ib_mr *moor_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
			     struct ib_dm_mr_attr *attr,
			     struct uverbs_attr_bundle *attrs);
void moor_dm_describe(const struct moor_dm *dm, u64 length,
		      struct moor_dm_location *out);

/* refusal.c */
void moor_refuse(struct moor_dev *mdev, struct ib_udata *udata,
		 struct moor_refusal *why, int err);
void moor_refusal_last(struct moor_dev *mdev, struct moor_ucontext *uctx,
		       struct moor_refusal *why);
u32 moor_refusal_of_errno(int err);
int moor_refusal_of_pin(struct moor_refusal *why, u64 start, u64 length,
			int err);
const char *moor_refusal_name(u32 reason);

/* restrack.c */
int moor_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);

#endif /* MOOR_MR_DRIVER_H */
