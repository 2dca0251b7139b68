/* SPDX-License-Identifier: GPL-2.0 */
/* Two connected QPs on a port that can be made to lose packets, and worse. */
#ifndef TEST_LOSSY_H
#define TEST_LOSSY_H

#include "guest.h"

#define PD	5
#define RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
		 MOOR_ACCESS_REMOTE_READ | MOOR_ACCESS_REMOTE_ATOMIC | \
		 MOOR_ACCESS_FLUSH_GLOBAL | MOOR_ACCESS_FLUSH_PERSISTENT)
#define BATCH	32u
#define SLICE	16384u
#define SIZE	(BATCH * SLICE)

enum op { OP_WRITE, OP_WRITE_IMM, OP_SEND, OP_READ, OP_ADD, OP_WORD, OP_FLUSH,
	  NUM_OPS };

struct world {
	struct guest *g;
	struct guest_cq cq[2];
	struct guest_qp qp[2];
	uint64_t buf[2], counter, result;
	uint32_t key[2], counter_key;
	uint64_t count;		/* expected value of the counter, as far as known */
	uint64_t chance;
};

extern struct world w;

/* A random number below @n, the same in each run. */
uint32_t chance(uint32_t n);
void fill(uint64_t addr, uint32_t len);
/* Sets long time-outs, and several READs at once. */
void be_patient(struct guest_qp *qp);
/* Makes @w: a NIC with two QPs of @type, after be_patient(). */
void world_start(uint8_t type);
/* The next completion of CQ @i; lets time pass for the timers that it takes. */
bool wait_cq(int i, struct moor_cqe *cqe);
/*
 * Posts to QP 0, from and to this slice of the memory, with a receive where @op needs
 * one. OP_ADD adds to the counter, OP_WORD overwrites it with the start of its slice.
 */
void post(enum op op, uint32_t slice, uint32_t len);
/* A FLUSH of @len bytes; its type and level depend on the slice. */
struct moor_wqe_flush flush_of(uint32_t slice, uint32_t len);
/* After success: has @op done its work? To be called in the order of posting. */
bool has_moved(enum op op, uint32_t slice, uint32_t len);
bool counter_is_good(void);
/* Of QP 0. */
void set_timeout(uint8_t timeout, uint8_t retry_cnt);
/* @how: as for moor-nic's option; NULL: no impairments any more. */
void impair(const char *how);

#endif /* TEST_LOSSY_H */
