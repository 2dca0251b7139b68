/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A NIC in kernel memory that obeys Documentation/hardware-interface.rst, for
 * the KUnit suites: the driver probes it on a PCI bus, and cannot tell it from
 * another Moor NIC. The fake NIC carries no traffic.
 */
#ifndef MOOR_KUNIT_FAKE_H
#define MOOR_KUNIT_FAKE_H

#include <kunit/test.h>
#include <linux/bitfield.h>
#include <linux/bitmap.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/wait.h>
#include <moor/moor_hw.h>

struct moor_dev;
struct fake_nic;

#define FAKE_MR_INDEX_BITS	12
#define FAKE_CONSUMER_FIRST	1024
#define FAKE_BRIEFLY		16
#define FAKE_NULL_LKEY		(1U << (32 - FAKE_MR_INDEX_BITS))
#define FAKE_DB_PAGES		8
#define FAKE_VECTORS		5
#define FAKE_QP_INDEX_BITS	8
#define FAKE_MAX_CQ		64
#define FAKE_MAX_EQ		4
#define FAKE_GIDS		16
#define FAKE_SRQ_INDEX_BITS	4
#define FAKE_MAX_FILTER		4
#define FAKE_LOG_CMD		4	/* small, so that rings wrap soon */
#define FAKE_BATCH		BIT(FAKE_LOG_CMD)

#define FAKE_MR_BYTES		(sizeof(struct moor_mr_context) << FAKE_MR_INDEX_BITS)
#define FAKE_DB_BYTES		(FAKE_DB_PAGES * MOOR_PAGE_SIZE)
#define FAKE_KICK_OFFSET	FAKE_DB_BYTES
#define FAKE_DM_OFFSET		(2 * FAKE_DB_BYTES)
#define FAKE_DM_PAGES		16
#define FAKE_DM_BYTES		(FAKE_DM_PAGES * MOOR_PAGE_SIZE)
#define FAKE_BAR4_BYTES		(FAKE_DM_OFFSET + FAKE_DM_BYTES)	/* a power of two */
#define FAKE_PAGE_REQUESTS	8
#define FAKE_WINDOWS		(BIT(FAKE_MR_INDEX_BITS) - FAKE_CONSUMER_FIRST)

/* What a test makes the NIC do wrong, or differently from usual. */
struct fake_behaviour {
	bool reverse;		/* executes fetched commands in reverse order */
	bool pause;		/* fetches no commands */
	bool hold;		/* fetches commands, but completes none */
	bool mute;		/* raises no interrupts */
	u8 fail_opcode;		/* this command ... */
	u8 fail_status;		/* ... gets that status, unless 0 ... */
	u32 fail_after;		/* ... after this many that succeed */
	u32 odd_register;	/* this register, unless 0, reads as ... */
	u64 odd_value;		/* ... this value */
	bool stray;		/* one completion of an unknown tag first */
	bool circle;		/* its list of windows never ends */
	bool brief;		/* looks at FAKE_BRIEFLY windows for such a list, then breaks off */
	bool frozen;		/* its channel is frozen: BARs must not be touched */
	bool no_enable;		/* rejects the set-up at ENABLE */
	u64 no_features;	/* MOOR_FEATURE_* that the NIC does not have */
	/* Changes the answer to a command before it is written. */
	void (*lie)(struct fake_nic *nic, const struct moor_cmd *cmd,
		    struct moor_cpl *answer);
	void *lie_arg;
	/* Called before a word of the context table is stored. */
	void (*enter)(struct fake_nic *nic, u32 index);
	void *enter_arg;
};

struct fake_eq {
	bool live;
	u64 base;
	u32 log_size;
	u32 producer;
	u16 vector;
};

/* The values of the last MODIFY_CQ. */
struct fake_moderation {
	u32 cqn;
	u16 count;
	u16 period;
};

/* A page request that the NIC has sent for a test, and the driver's answer. */
struct fake_page {
	u32 token;		/* 0: none */
	bool answered;
	u8 status;		/* enum moor_page_status */
};

struct fake_qp {
	bool live;
	u32 qpn;
	u8 type;		/* enum moor_qp_type */
	u32 pd;
	u32 xrcd;
	u8 state;
	bool has_srq;
	u32 srqn;
	u32 qkey;
	u32 access;		/* MOOR_ACCESS_* */
	u8 path_mtu;
};

struct fake_srq {
	bool live;
	u32 srqn;
	u32 pd;
	u8 flags;		/* MOOR_SRQ_FLAG_* */
	u8 log_depth;
	u8 log_stride;
	u32 limit;
	u32 consumer;
	u32 xrcd;
	u32 cqn;
	u32 cookie;
};

struct fake_filter {
	bool live;
	u32 qpn;
	u8 gid[16];
};

/* Dynamic state of a window (HWI 6.4), and what it is bound to. */
struct fake_window {
	bool bound;
	u32 key;		/* with the current consumer byte */
	u32 mr;			/* index */
	u32 qpn;
	u32 access;
	u64 iova;
	u64 length;
};

/* A BIND_MW work request, and the QP it is posted to. */
struct fake_bind {
	u32 mw_key;
	u32 new_key;
	u32 mr_lkey;
	u32 qpn;
	u32 access;
	u64 addr;
	u64 length;
};

/**
 * struct fake_nic - the NIC
 * @cfg: configuration space
 * @cfg_writable: bits of @cfg that software may change
 * @behave: what a test makes the NIC do; set while the NIC is idle
 * @lock: protects the rest
 * @ring_cmd: register CMD_BASE
 * @ring_cpl: register CPL_BASE
 * @doze_addr: register DOZE_ADDR
 * @log_size: register CMD_LOG_SIZE
 * @status: register STATUS; all ones when the NIC has left the bus
 * @fatal_code: register FATAL_CODE
 * @magic: register MAGIC
 * @version: register VERSION
 * @msix: the MSI-X table
 * @msix_pending: raised while masked
 * @mr: BAR2
 * @slots: doorbell slots, at the start of BAR4
 * @consumer: command ring, free-running
 * @batch: commands being executed
 * @cpl_producer: completion ring, free-running
 * @last_arm: value of the arm slot at the last interrupt of vector 0
 * @eqs: event queues
 * @cqs: completion queue numbers in use
 * @moderation: as the last MODIFY_CQ set it
 * @qps: queue pairs, by index
 * @srqs: shared receive queues, by index
 * @filters: filters of multicast groups
 * @pages: page requests
 * @invalidated: the last MR_INVALIDATE
 * @windows: by index of an MR: number of windows bound to it
 * @bindings: of windows, by index from FAKE_CONSUMER_FIRST on
 * @dm: on-NIC memory
 * @revoked: by index of an entry: its valid word at the last revoke
 * @gids: entries of the GID table that are set
 * @kicked: a kick came
 * @thread: the device itself
 * @wait: where @thread sleeps while the NIC dozes
 * @commands: executed, by opcode
 * @interrupts: delivered
 * @kicks: received
 * @mappings: number of mappings of its BARs
 * @fences: reads of FENCE
 * @violations: times that software broke the rules of the interface
 * @violation: the first violation
 */
struct fake_nic {
	struct fake_behaviour behave;
	u8 cfg[4096];
	u8 cfg_writable[4096];
	spinlock_t lock;
	u64 ring_cmd;
	u64 ring_cpl;
	u64 doze_addr;
	u32 log_size;
	u32 status;
	u32 fatal_code;
	u32 magic;
	u32 version;
	u32 msix[FAKE_VECTORS][4];
	DECLARE_BITMAP(msix_pending, FAKE_VECTORS);
	struct moor_mr_context *mr;
	u64 *slots;
	u32 consumer;
	struct moor_cmd batch[FAKE_BATCH];
	u32 cpl_producer;
	u64 last_arm;
	struct fake_eq eqs[FAKE_MAX_EQ];
	DECLARE_BITMAP(cqs, FAKE_MAX_CQ);
	struct fake_moderation moderation;
	struct fake_qp qps[1 << FAKE_QP_INDEX_BITS];
	struct fake_srq srqs[1 << FAKE_SRQ_INDEX_BITS];
	struct fake_filter filters[FAKE_MAX_FILTER];
	struct fake_page pages[FAKE_PAGE_REQUESTS];
	struct moor_cmd_mr_invalidate invalidated;
	u32 windows[1 << FAKE_MR_INDEX_BITS];
	struct fake_window bindings[FAKE_WINDOWS];
	u8 *dm;
	u64 revoked[1 << FAKE_MR_INDEX_BITS];
	DECLARE_BITMAP(gids, FAKE_GIDS);
	bool kicked;
	struct task_struct *thread;
	wait_queue_head_t wait;
	u32 commands[256];
	u32 interrupts;
	u32 kicks;
	u32 fences;
	atomic_t mappings;
	u32 violations;
	const char *violation;
};

/* fake_pci.c */
struct fake_nic *fake_nic_new(struct kunit *test);
void fake_nic_free(struct fake_nic *nic);
struct moor_dev *fake_nic_driver(struct fake_nic *nic);
u64 fake_cfg_read(struct fake_nic *nic, u32 offset, int size);
void fake_cfg_write(struct fake_nic *nic, u32 offset, int size, u64 val);
u64 fake_bar_read(struct fake_nic *nic, int bar, u32 offset, int size);
void fake_bar_write(struct fake_nic *nic, int bar, u32 offset, int size, u64 val);

/* bus.c */
void fake_nic_plug(struct fake_nic *nic);
void fake_nic_unplug(struct fake_nic *nic);

/* bus_uml.c, bus_x86.c */
void fake_nic_interrupt(struct fake_nic *nic);

/* fake_nic.c */
void fake_nic_reset(struct fake_nic *nic);
u64 fake_features(const struct fake_nic *nic);
u32 fake_flush_rights(const struct fake_nic *nic);
u64 fake_nic_read_reg(struct fake_nic *nic, u32 offset, int size);
void fake_nic_write_reg(struct fake_nic *nic, u32 offset, u64 value, int size);
void fake_nic_wake(struct fake_nic *nic);
void fake_nic_deliver(struct fake_nic *nic);
int fake_nic_thread(void *data);
void fake_nic_event(struct fake_nic *nic, u32 eqn, u8 type, u32 number);
struct fake_page *fake_nic_page_request(struct fake_nic *nic,
					const struct moor_page_request *request);
void fake_violation(struct fake_nic *nic, const char *what);

/* fake_command.c */
struct fake_qp *fake_find_qp(struct fake_nic *nic, __le32 qpn);
u8 fake_execute(struct fake_nic *nic, const struct moor_cmd *cmd, void *out);
bool fake_doorbell_ok(struct fake_nic *nic, __le32 doorbell);
u8 fake_check_ring(struct fake_nic *nic, const struct moor_xlat *xlat,
		   u64 bytes, bool write);

/* fake_srq.c */
struct fake_srq *fake_find_srq(struct fake_nic *nic, __le32 srqn);
u8 fake_create_srq(struct fake_nic *nic, const void *data, void *out);
u8 fake_modify_srq(struct fake_nic *nic, const void *data, void *out);
u8 fake_query_srq(struct fake_nic *nic, const void *data, void *out);
u8 fake_destroy_srq(struct fake_nic *nic, const void *data, void *out);
u8 fake_attach_filter(struct fake_nic *nic, const void *data, void *out);
u8 fake_detach_filter(struct fake_nic *nic, const void *data, void *out);

/* fake_mr.c */
void fake_mr_written(struct fake_nic *nic, u32 offset, int size, u64 before);
bool fake_mr_find(struct fake_nic *nic, u32 key, u32 *index);
bool fake_xlat_find(struct fake_nic *nic, const struct moor_xlat *xlat,
		    u64 byte, bool write, u64 *dma, u64 *left);
int fake_nic_access(struct fake_nic *nic, u32 key, u32 right, u64 addr,
		    void *buf, size_t len, bool write);

/* fake_wc.c */
void fake_wc_barrier(void);
void fake_wc_write(struct fake_nic *nic, u32 offset, u64 value);
void fake_wc_drop(void);

/* fake_window.c */
void fake_window_begin(struct fake_nic *nic, u32 index);
void fake_window_unbind(struct fake_nic *nic, u32 index);
void fake_windows_of_qp(struct fake_nic *nic, u32 qpn);
int fake_nic_bind(struct fake_nic *nic, const struct fake_bind *bind);
bool fake_nic_invalidate(struct fake_nic *nic, u32 key, u32 qpn);
u8 fake_mr_query(struct fake_nic *nic, const void *data, void *out);
u8 fake_mr_windows(struct fake_nic *nic, const void *data, void *out);

/* DMA addresses are physical ones: no IOMMU is in front of the buses. */
void *fake_dma(u64 addr);

#endif /* MOOR_KUNIT_FAKE_H */
