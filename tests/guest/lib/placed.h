/* SPDX-License-Identifier: GPL-2.0 */
/* ATOMIC_WRITE and FLUSH (HWI 12.7) from side a to side b, and how they end. */
#ifndef PLACED_H
#define PLACED_H

#include "window.h"

/* The operations that a QP of ibv_create_qp_ex() needs for these tests. */
#define PLACED_OPS	(WINDOW_OPS | IBV_QP_EX_WITH_RDMA_WRITE | \
			 IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH)
#define FLUSHABLE	(ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL)

#define PLACED_WR_ID	0x91

struct flush {
	uint32_t rkey;
	uint64_t at;
	size_t length;
	uint8_t type, level;		/* IBV_FLUSH_* */
};

struct flush flush_range(uint32_t rkey, const void *at, size_t length);
struct flush flush_region(uint32_t rkey);

/* Post one signaled request. Return what ibv_wr_complete() returned. */
int post_flush(struct side *side, const struct flush *flush);
int post_atomic_write(struct side *side, uint32_t rkey, uint64_t at, const void *data);

/* Test points: the request succeeds, and its completion has the right opcode. */
void expect_flushed(struct pair *pair, struct flush f, const char *what);
void expect_placed(struct pair *pair, uint32_t rkey, uint64_t at, const void *data,
		   const char *what);
/*
 * Test points: the posted request ends with @due, an error at the requester or one that
 * the responder answers with; the buffers do not change. Then reconnects both QPs.
 */
void expect_refusal(struct pair *pair, int posted, enum ibv_wc_status due,
		    const char *what);

/* Fills the buffers as expect_refusal() needs them. */
void fill_sides(struct pair *pair);

#endif /* PLACED_H */
