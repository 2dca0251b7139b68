/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ATOMIC_WRITE and FLUSH (HWI 12.7): side a asks, and how that ends.
 */
#ifndef PLACED_H
#define PLACED_H

#include "window.h"

/* What a QP of ibv_create_qp_ex() needs for all that is tried. */
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

/* One signaled request; both return what ibv_wr_complete() did. */
int post_flush(struct side *side, const struct flush *flush);
int post_atomic_write(struct side *side, uint32_t rkey, uint64_t at, const void *data);

/* Test points: it ends well, and its completion says what it was. */
void expect_flushed(struct pair *pair, struct flush f, const char *what);
void expect_placed(struct pair *pair, uint32_t rkey, uint64_t at, const void *data,
		   const char *what);
/*
 * Test points: what @posted has posted fails so, here or at the peer, who is told of it;
 * nothing in the buffers has changed. They work again after this.
 */
void expect_refusal(struct pair *pair, int posted, enum ibv_wc_status due,
		    const char *what);

/* The buffers as expect_refusal() wants them. */
void fill_sides(struct pair *pair);

#endif /* PLACED_H */
