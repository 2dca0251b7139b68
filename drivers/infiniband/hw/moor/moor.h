/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Moor RDMA NIC: the device, and the functions that are about it.
 *
 * "HWI n.m" names a section of Documentation/hardware-interface.rst, "HWI AB-n" a rule.
 */
#ifndef MOOR_H
#define MOOR_H

#include <linux/bitfield.h>
#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/idr.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/siphash.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/moor-abi.h>
#include <rdma/moor_user_ioctl_cmds.h>
#include <rdma/uverbs_ioctl.h>
#include <moor/moor_hw.h>

#include "kernel_queue.h"
#include "mr.h"
#include "odp.h"
#include "verbs.h"

#define MOOR_PORT		1
#define MOOR_MAX_PDN		0xffffff
/* 0 and 1 are the SMI and GSI QPs of IBA. */
#define MOOR_QP_INDEX_FIRST	2

/**
 * struct moor_caps - what the device says of itself (HWI 4), checked
 * @version: register VERSION
 * @features: MOOR_FEATURE_*
 * @page_sizes: bit n: leaves of 2^n bytes
 * @node_guid: EUI-64 of the NIC
 * @mac: Ethernet address of the port
 * @mr_index_bits: log2 of the entries in the context table
 * @mr_consumer_first: first index whose keys have a consumer byte
 * @null_lkey: lkey of the null MR
 * @max_msg_size: bytes in a message
 * @qp_index_bits: log2 of the number of QPs
 * @max_cq: CQ numbers are below this
 * @max_eq: EQ numbers are below this
 * @max_log_wqe: log2 of the entries of a work queue
 * @max_sge: entries of a scatter/gather list
 * @max_inline: bytes of inline data
 * @max_log_cqe: log2 of the entries of a CQ
 * @max_gid: entries of the GID table
 * @max_rd_atomic: READs and atomics in flight, of a QP and of either side
 * @max_log_cmd: log2 of the entries of the command ring
 * @max_log_eqe: log2 of the entries of an EQ
 * @num_vectors: MSI-X vectors
 * @max_mr_size: bytes of a memory region
 * @db_pages: doorbell pages
 * @kick_offset: of the kick pages in BAR4
 * @srq_index_bits: log2 of the number of SRQs
 * @max_filter: filters
 * @dm_offset: of the on-NIC memory in BAR4
 * @dm_size: bytes of it, 0: none
 */
struct moor_caps {
	u32 version;
	u64 features;
	u64 page_sizes;
	u64 node_guid;
	u8 mac[ETH_ALEN];
	u32 mr_index_bits;
	u32 mr_consumer_first;
	u32 null_lkey;
	u32 max_msg_size;
	u32 qp_index_bits;
	u32 max_cq;
	u32 max_eq;
	u32 max_log_wqe;
	u32 max_sge;
	u32 max_inline;
	u32 max_log_cqe;
	u32 max_gid;
	u32 max_rd_atomic;
	u32 max_log_cmd;
	u32 max_log_eqe;
	u32 num_vectors;
	u64 max_mr_size;
	u32 db_pages;
	u32 kick_offset;
	u32 srq_index_bits;
	u32 max_filter;
	u64 dm_offset;
	u64 dm_size;
};

/* One command in flight; what its issuer waits on. */
struct moor_cmd_slot {
	struct completion wake;
	bool done;		/* store-release by the task that reaps its completion */
	u16 tag;		/* of its last use; under reap_lock */
	bool asleep;		/* counted in sleepers; under reap_lock */
	u8 opcode;		/* for the log */
	u8 status;
	u32 detail;
	u8 out[sizeof_field(struct moor_cpl, out)];
};

/**
 * struct moor_cmdq - the command ring and its completion ring (HWI 8)
 * @ring: commands
 * @cpl: completions
 * @ring_dma: DMA address of @ring
 * @cpl_dma: DMA address of @cpl
 * @log_size: log2 of the entries of both
 * @slots: one for each entry. A tag is the index of a slot and, above that, a count
 *	of its uses: a repeated answer is not taken for the answer to the slot's
 *	next command
 * @free_tags: bit n: @slots[n] is free
 * @ordinary_tags: tags below this are for all commands; those above are kept for
 *	invalidations, which reclaim waits for
 * @tag_wait: tasks that wait for a free tag
 * @issue_lock: protects @producer, the entry behind it and doorbell slot 0
 * @producer: free-running index of the next command
 * @reap_lock: protects @consumer and the hand-over of completions to slots;
 *	taken by interrupt handlers
 * @consumer: free-running index of the next completion
 * @sleepers: number of issuers that may be asleep: if not 0, the interrupt arms again;
 *	written under @reap_lock
 * @arm: value last stored into slot CPL_ARM; any change will do
 * @timeout_ms: how long a command may take before the device counts as broken;
 *	an administrator may change it
 */
struct moor_cmdq {
	struct moor_cmd *ring;
	struct moor_cpl *cpl;
	dma_addr_t ring_dma;
	dma_addr_t cpl_dma;
	u32 log_size;
	struct moor_cmd_slot *slots;
	unsigned long *free_tags;
	u32 ordinary_tags;
	wait_queue_head_t tag_wait;
	spinlock_t issue_lock;	/* protects producer, entry, doorbell */
	u32 producer;
	spinlock_t reap_lock;	/* protects consumer and hand-over */
	u32 consumer;
	u32 sleepers;
	atomic64_t arm;
	u32 timeout_ms;
};

/**
 * struct moor_eq - an event queue (HWI 9)
 * @mdev: device
 * @ring: entries
 * @dma: DMA address of @ring
 * @log_size: log2 of the entries
 * @eqn: EQ number
 * @vector: of MSI-X
 * @irq: Linux interrupt number
 * @guest: EQ that has no interrupt of its own and is looked at with this one
 * @lock: protects @consumer; held while events are handled, and by works that call the
 *	handler of a CQ of this queue
 * @consumer: free-running index
 * @work: handles what is too much for an interrupt
 * @name: of the interrupt
 */
struct moor_eq {
	struct moor_dev *mdev;
	struct moor_eqe *ring;
	dma_addr_t dma;
	u32 log_size;
	u32 eqn;
	u16 vector;
	int irq;
	struct moor_eq *guest;
	spinlock_t lock;	/* protects consumer */
	u32 consumer;
	struct work_struct work;
	char name[32];
};

/**
 * struct moor_function - the part of a NIC that outlives its resets
 * @pdev: PCI function
 * @netdev: Ethernet interface of the port: keeps its name and addresses
 * @mdev: the device; NULL while it cannot be used. Like @shut_down it changes
 *	under the device lock, which is held whenever the kernel calls the PCI driver;
 *	readers without that lock read it under RCU, for ib_device_try_get()
 * @shut_down: another kernel may follow, nothing is to start the device again
 * @asleep: the system sleeps, or goes to; only its waking up starts the device again
 * @ref: one for the driver, one for a recovery that waits for the device lock
 * @recovery: resets the device after it has died
 * @rest_until: in jiffies: a device that dies before then stays dead
 */
struct moor_function {
	struct pci_dev *pdev;
	struct net_device *netdev;
	struct moor_dev *mdev;
	bool shut_down;
	bool asleep;
	struct kref ref;
	struct work_struct recovery;
	u64 rest_until;
};

/**
 * struct moor_dev - a Moor NIC, from one reset to the next
 * @ibdev: the core's; first, for ib_alloc_device()
 * @pdev: PCI function
 * @function: the part of the NIC that outlives this device
 * @netdev: Ethernet interface of the port, owned by @function
 * @caps: what the device says of itself
 * @regs: BAR0
 * @db: doorbell page 0
 * @kick: kick page 0
 * @db_bar: physical address of BAR4
 * @doze: the dozing word; the device writes it, processes map it read-only
 * @doze_dma: its DMA address
 * @dead: the device does no DMA any more and nothing will bring it back;
 *	set after bus mastering was seen to be off: a task that sees @dead may unpin
 * @why: for the log, why it is dead
 * @kill_lock: serialises killing, and looks at STATUS that make the carrier
 * @fatal_work: kills from interrupt context
 * @fatal_why: for the log, why @fatal_work does
 * @health_work: looks at STATUS now and then
 * @cmdq: command ring
 * @num_vectors: MSI-X vectors that there are
 * @num_comp: completion vectors and their EQs
 * @async_eq: EQ 0
 * @page_eq: EQ 1, of a device with ODP
 * @comp_eqs: EQs from MOOR_EQ_COMPLETION up
 * @kernel_pages: doorbell pages of the kernel's queues
 * @db_used: doorbell pages in use; bit 0 always is
 * @db_used_lock: protects @db_used
 * @pdns: protection domain numbers
 * @xrcdns: XRC domain numbers
 * @cqs: CQs by number. The handlers of events load from it and use the CQ;
 *	moor_cq_forget() erases, and calls moor_eq_sync() before the CQ is freed
 * @next_cqn: where the next search in @cqs starts: numbers rest before reuse
 * @qps: QPs by index; used like @cqs, by handlers of the asynchronous and the page EQ
 * @srqs: SRQs by index, likewise
 * @nodes: pool of table nodes
 * @keys: keys of plain MRs
 * @mw_keys: keys of windows
 * @fast_mrs: fast-registration MRs by index; loaded under RCU
 * @mrs: context table
 * @dm: on-NIC memory
 * @zeros: what the device reads where a process has not written, with ODP
 * @zeros_dma: its DMA address
 * @refusals: registrations that failed
 * @debugfs: directory
 */
struct moor_dev {
	struct ib_device ibdev;
	struct pci_dev *pdev;
	struct moor_function *function;
	struct net_device *netdev;
	struct moor_caps caps;
	void __iomem *regs;
	void __iomem *db;
	void __iomem *kick;
	phys_addr_t db_bar;
	__le32 *doze;
	dma_addr_t doze_dma;
	bool dead;
	const char *why;
	struct mutex kill_lock;		/* serialises killing and the carrier */
	struct work_struct fatal_work;
	const char *fatal_why;
	struct delayed_work health_work;
	struct moor_cmdq cmdq;
	u32 num_vectors;
	u32 num_comp;
	struct moor_eq async_eq;
	struct moor_eq page_eq;
	struct moor_eq *comp_eqs;
	struct moor_kernel_pages kernel_pages;
	unsigned long *db_used;
	spinlock_t db_used_lock;	/* protects db_used; a leaf */
	struct ida pdns;
	struct ida xrcdns;
	struct xarray cqs;
	u32 next_cqn;
	struct xarray qps;
	struct xarray srqs;
	struct moor_node_pool nodes;
	struct moor_keys keys;
	struct moor_keys mw_keys;
	struct xarray fast_mrs;
	struct moor_mr_table mrs;
	struct moor_dm_pool dm;
	struct page *zeros;
	dma_addr_t zeros_dma;
	struct moor_refusals refusals;
	struct dentry *debugfs;
};

static inline struct moor_dev *to_mdev(const struct ib_device *ibdev)
{
	return container_of(ibdev, struct moor_dev, ibdev);
}

static inline bool moor_has_odp(const struct moor_dev *mdev)
{
	return mdev->caps.features & MOOR_FEATURE_ODP;
}

/* IB_ACCESS_FLUSH_* that the device has. */
static inline u32 moor_flush_rights(const struct moor_dev *mdev)
{
	u32 rights = 0;

	if (mdev->caps.features & MOOR_FEATURE_FLUSH_GLOBAL)
		rights |= IB_ACCESS_FLUSH_GLOBAL;
	if (mdev->caps.features & MOOR_FEATURE_FLUSH_PERSISTENT)
		rights |= IB_ACCESS_FLUSH_PERSISTENT;
	return rights;
}

static inline bool moor_is_dead(const struct moor_dev *mdev)
{
	/* Pairs with moor_hw_kill(): there is no DMA after @dead is seen. */
	return smp_load_acquire(&mdev->dead);
}

/* main.c */
extern struct workqueue_struct *moor_wq;

int moor_up(struct moor_function *function);
void moor_down(struct moor_function *function);

/* recovery.c */
extern bool moor_recover;

struct moor_function *moor_function_alloc(struct pci_dev *pdev);
void moor_function_put(struct moor_function *function);
int moor_recovery_init(void);
void moor_recovery_exit(void);
void moor_recovery_start(struct moor_dev *mdev);

/* hw.c */
int moor_hw_identify(struct moor_dev *mdev);
int moor_hw_reset(struct moor_dev *mdev);
int moor_hw_read_caps(struct moor_dev *mdev);
int moor_hw_enable(struct moor_dev *mdev);
int moor_hw_alloc_doze(struct moor_dev *mdev);
void moor_hw_free_doze(struct moor_dev *mdev);
bool moor_hw_has_failed(struct moor_dev *mdev);
void moor_hw_kill(struct moor_dev *mdev, const char *why);
void moor_hw_kill_later(struct moor_dev *mdev, const char *why);
void moor_hw_fatal_work(struct work_struct *work);
void moor_hw_watch(struct moor_dev *mdev);
void moor_hw_health_work(struct work_struct *work);
void moor_hw_look_soon(struct moor_dev *mdev);

/* cmd.c */
int moor_cmdq_init(struct moor_dev *mdev);
void moor_cmdq_destroy(struct moor_dev *mdev);
void moor_cmdq_abort(struct moor_dev *mdev);
irqreturn_t moor_cmd_interrupt(int irq, void *data);
int moor_cmd_start(struct moor_dev *mdev, const void *cmd, size_t len);
int moor_cmd_wait(struct moor_dev *mdev, int tag, void *out, size_t out_len);
int moor_cmd_status(struct moor_dev *mdev, const void *cmd, size_t len,
		    void *out, size_t out_len);
int moor_cmd_errno(int status);
int moor_cmd_exec(struct moor_dev *mdev, const void *cmd, size_t len,
		  void *out, size_t out_len);

/* cmd_verbs.c */
int moor_cmd_create_eq(struct moor_dev *mdev, const struct moor_eq *eq);
void moor_cmd_destroy_eq(struct moor_dev *mdev, u32 eqn);
int moor_cmd_create_cq(struct moor_dev *mdev, const struct moor_cq *cq,
		       u8 log_cqe);
int moor_cmd_resize_cq(struct moor_dev *mdev, u32 cqn,
		       const struct moor_ring *ring, u8 log_cqe);
int moor_cmd_modify_cq(struct moor_dev *mdev, u32 cqn, u16 count, u16 period);
void moor_cmd_destroy_cq(struct moor_dev *mdev, u32 cqn);
int moor_cmd_create_qp(struct moor_dev *mdev, const struct moor_qp *qp,
		       const struct moor_create_qp_req *req);
int moor_cmd_create_target(struct moor_dev *mdev, u32 qpn, u32 xrcdn);
int moor_cmd_query_qp(struct moor_dev *mdev, u32 qpn,
		      struct moor_cpl_query_qp *out);
void moor_cmd_destroy_qp(struct moor_dev *mdev, u32 qpn);
int moor_cmd_create_srq(struct moor_dev *mdev, const struct moor_srq *srq);
int moor_cmd_modify_srq(struct moor_dev *mdev, struct moor_cmd_modify_srq *cmd);
int moor_cmd_query_srq(struct moor_dev *mdev, u32 srqn,
		       struct moor_cpl_query_srq *out);
void moor_cmd_destroy_srq(struct moor_dev *mdev, u32 srqn);
int moor_cmd_attach_filter(struct moor_dev *mdev, u32 qpn,
			   const union ib_gid *gid);
int moor_cmd_detach_filter(struct moor_dev *mdev, u32 qpn,
			   const union ib_gid *gid);
int moor_cmd_set_gid(struct moor_dev *mdev, u16 index, u8 type, u16 vlan,
		     const u8 *smac, const union ib_gid *gid);
int moor_cmd_clear_gid(struct moor_dev *mdev, u16 index);
void moor_cmd_mr_revoke_start(struct moor_dev *mdev, struct moor_fence *fence);
int moor_cmd_mr_revoke_wait(struct moor_dev *mdev,
			    const struct moor_fence *fence, u32 *busy);
int moor_cmd_mr_invalidate(struct moor_dev *mdev, u32 key, u64 addr,
			   u64 length);
void moor_cmd_page_response(struct moor_dev *mdev, u32 token, bool resolved);
int moor_cmd_mr_query(struct moor_dev *mdev, u32 key,
		      struct moor_cpl_mr_query *out);
int moor_cmd_mr_windows(struct moor_dev *mdev, u32 key, u32 cursor,
			dma_addr_t buffer, struct moor_cpl_mr_windows *out);

/* eq.c */
int moor_irqs_init(struct moor_dev *mdev);
void moor_irqs_destroy(struct moor_dev *mdev);
void moor_eq_drain(struct moor_eq *eq);
void moor_eq_sync(struct moor_eq *eq);
int moor_eqs_init(struct moor_dev *mdev);
void moor_eqs_destroy(struct moor_dev *mdev);

/* device.c */
extern const struct ib_device_ops moor_dev_ops;
extern const struct ib_device_ops moor_moderation_ops;
extern const struct ib_device_ops moor_odp_ops;
extern const struct ib_device_ops moor_srq_ops;
extern const struct ib_device_ops moor_ud_ops;
extern const struct ib_device_ops moor_xrc_ops;

enum ib_mtu moor_port_mtu(const struct moor_dev *mdev);

/* netdev.c */
int moor_netdev_create(struct moor_function *function,
		       const struct moor_caps *caps);
void moor_netdev_destroy(struct moor_function *function);

/* debugfs.c */
void moor_debugfs_init(void);
void moor_debugfs_exit(void);
void moor_debugfs_add(struct moor_dev *mdev);
void moor_debugfs_remove(struct moor_dev *mdev);

#include "compat.h"

#endif /* MOOR_H */
