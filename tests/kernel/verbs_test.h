/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the test module share. */
#ifndef MOOR_VERBS_TEST_H
#define MOOR_VERBS_TEST_H

#include <linux/prandom.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

#define LINK_DEPTH	128
/* Longer than any completion takes, however busy the machine is. */
#define PATIENCE	(20 * HZ)

/* main.c: one test point, TAP */
bool __printf(2, 3) point(bool good, const char *name, ...);
void __printf(1, 2) note(const char *text, ...);

/*
 * A module parameter: packets get lost, delayed and so on (tests/run-guest --impair).
 */
extern bool impaired;

/* Transfers since the module was loaded; shown in debugfs for scripts to wait for. */
extern atomic_t moved;

/* Is the device about to go, as soon as the test lets it? */
bool device_leaves(const struct ib_device *dev);

/* How to make a link; all zero: the usual way. */
struct link_how {
	enum ib_qp_type type;		/* RC, unless set to UC */
	enum ib_poll_context poll_ctx;	/* with @alloc_cq */
	bool alloc_cq;			/* by ib_alloc_cq(): completions go to wr_cqe */
	bool no_connect;		/* both queue pairs stay in RESET */
	u32 depth;
	u32 cqe;			/* of a CQ; 0: enough */
	u32 rdma_ctxs;			/* for rdma_rw */
	u32 max_sge;
	u32 max_inline;
};

/**
 * struct link - two queue pairs of one device, connected to each other
 * @dev: device
 * @pd: protection domain of both
 * @cq: the CQs, one for each side
 * @qp: queue pairs
 * @gid: their RoCE v2 GID
 * @psn: first PSN of both directions
 * @how: how it was made
 */
struct link {
	struct ib_device *dev;
	struct ib_pd *pd;
	struct ib_cq *cq[2];
	struct ib_qp *qp[2];
	const struct ib_gid_attr *gid;
	u32 psn;
	struct link_how how;
};

/* link.c */
bool link_open(struct link *link, struct ib_device *dev, struct link_how how);
void link_close(struct link *link);
bool link_again(struct link *link);
bool link_state(struct link *link, int side, enum ib_qp_state state);
bool link_connect(struct link *link);
bool link_revive(struct link *link);
bool link_poll(struct link *link, int side, struct ib_wc *wc);
bool link_quiet(struct link *link, int side);
int link_send(struct link *link, int side, struct ib_send_wr *wr);
int link_finish(struct link *link, int side, struct ib_send_wr *wr);
int link_recv(struct link *link, int side, u64 wr_id);
int link_rdma(struct link *link, int side, enum ib_wr_opcode opcode,
	      struct ib_sge *sge, u64 addr, u32 rkey);
bool ended_with(int got, enum ib_wc_status due);

/* queues.c */
bool send_and_wait(struct link *link, u32 count);

/* pages.c: memory in pages that do not lie side by side */

/**
 * struct pages - memory of which a range is mapped for DMA
 * @dev: device
 * @num: pages
 * @page: the pages
 * @sg: the range, an entry for each page
 * @nents: entries of @sg
 * @mapped: entries of @sg after mapping
 * @offset: offset of the range
 * @length: bytes of the range
 */
struct pages {
	struct ib_device *dev;
	u32 num;
	struct page **page;
	struct scatterlist *sg;
	u32 nents;
	int mapped;
	u32 offset;
	u32 length;
};

bool pages_alloc(struct pages *pages, struct ib_device *dev, u32 num);
void pages_free(struct pages *pages);
bool pages_map(struct pages *pages, u32 offset, u32 length);
void pages_unmap(struct pages *pages);
void pages_fill(struct pages *pages, u8 seed);
void pages_set(struct pages *pages, u8 value);
bool pages_are(struct pages *pages, u8 seed);
bool pages_all(struct pages *pages, u8 value);
bool pages_same_outside(struct pages *pages, u8 value);

/* Memory in one piece, mapped for DMA. */
struct buffer {
	struct ib_device *dev;
	u8 *mem;
	u64 dma;
	u32 size;
};

bool buffer_open(struct buffer *buffer, struct ib_device *dev, u32 size);
void buffer_close(struct buffer *buffer);
struct ib_sge buffer_sge(struct link *link, struct buffer *buffer, u32 length);
void buffer_fill(struct buffer *buffer, u32 length, u8 seed);
bool buffer_is(struct buffer *buffer, u32 length, u8 seed);

/* fast.c */
#define ALL_REMOTE	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |	\
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC)

int fast_reg(struct link *link, int side, struct ib_mr *mr, u32 key, int access);
int fast_inv(struct link *link, int side, u32 key);
bool fast_map(struct ib_mr *mr, struct pages *pages);

/* hold.c; the caller serializes these */
struct hold;

struct hold *hold_new(void);
int hold_make(struct hold *hold, struct ib_device *dev, u32 chance);
void hold_leave(struct ib_device *dev);
void hold_free(struct hold *hold);

/* pin.c; of memory of the calling process */
int pin_measure(struct ib_device *dev, u64 addr, u64 length, u64 took[2]);

struct verbs_test {
	const char *name;
	void (*run)(struct ib_device *dev, u32 seed);
};

extern const struct verbs_test fast_tests[];
extern const struct verbs_test invalid_tests[];
extern const struct verbs_test queue_tests[];
extern const struct verbs_test state_tests[];
extern const struct verbs_test rw_tests[];
extern const struct verbs_test uc_tests[];
extern const struct verbs_test atomic_write_tests[];
extern const struct verbs_test limit_tests[];
extern const struct verbs_test dim_tests[];
extern const struct verbs_test gone_tests[];
extern const struct verbs_test figure_tests[];

#endif /* MOOR_VERBS_TEST_H */
