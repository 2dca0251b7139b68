/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where windows are tried: a pair, an MR over the buffer of side b, a range of it
 * that windows are bound to; in rounds, each by one API and with one type.
 */
#ifndef BENCH_H
#define BENCH_H

#include "window.h"

#define FROM		4096u		/* the range that windows are bound to */
#define LENGTH		3000u
#define RIGHTS		(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
			 IBV_ACCESS_REMOTE_ATOMIC)

/* What a round is about. */
extern struct pair pair;
extern struct ibv_mr *mr;	/* for windows: the buffer of side b */
extern const struct api *api;
extern enum ibv_mw_type type;

void bench_open(struct ibv_context *ctx);
void bench_close(void);

uint64_t start(void);			/* of the range */
const char *title(void);		/* of the round */

/* Says why not. */
bool refused_with(struct outcome o, uint32_t syndrome);

void bind_all(struct ibv_mw *mw, unsigned int access);

/* The buffers: 1 at side a, 2 at side b, and there in the range 3. */
void refill(void);
/* Nobody has written outside of what the window covers. */
bool only_written(uint8_t seed);

/* A request by @key fails at the responder and changes nothing. */
void expect_refused(const char *what, enum ibv_wr_opcode opcode,
		    uint32_t key, uint64_t remote, uint32_t length);
/* No window holds the MR; there is a new one then. */
void expect_free(const char *what);

#endif /* BENCH_H */
