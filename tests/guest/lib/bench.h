/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where windows are tried: a pair, an MR over the buffer of side b, and a range of it
 * that windows are bound to. Tests run in rounds, each with one API and one type of
 * window.
 */
#ifndef BENCH_H
#define BENCH_H

#include "window.h"

#define FROM		4096u		/* the range that windows are bound to */
#define LENGTH		3000u
#define RIGHTS		(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
			 IBV_ACCESS_REMOTE_ATOMIC)

/* The objects, API and window type of the round. */
extern struct pair pair;
extern struct ibv_mr *mr;	/* for windows: an MR over side b's buffer */
extern const struct api *api;
extern enum ibv_mw_type type;

void bench_open(struct ibv_context *ctx);
void bench_close(void);

uint64_t start(void);			/* address of the range */
const char *title(void);		/* the round's name */

/* Was the bind refused with this syndrome? If not, prints the outcome. */
bool refused_with(struct outcome o, uint32_t syndrome);

void bind_all(struct ibv_mw *mw, unsigned int access);

/* Fills the buffers: seed 1 at side a, 2 at side b, 3 in the range. */
void refill(void);
/*
 * Does the range have the pattern of @seed, and side b's buffer before it that of
 * refill()?
 */
bool only_written(uint8_t seed);

/* Test points: a request by @key fails at the responder and changes nothing. */
void expect_refused(const char *what, enum ibv_wr_opcode opcode,
		    uint32_t key, uint64_t remote, uint32_t length);
/*
 * Test point: no window holds the MR, so it can be deregistered. Registers another one.
 */
void expect_free(const char *what);

#endif /* BENCH_H */
