/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stress mix. Workers, each with a pair of QPs of its own, make, change,
 * use and free memory regions and windows, as a seed tells them. A worker knows
 * its objects, and so how each call and each request must end and what its
 * memory must contain.
 */
#ifndef MIX_H
#define MIX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "window.h"

#define ARENA		(64u << 10)	/* parts of it are registered */
#define REACH		8192u		/* longest message */
#define REGIONS		6
#define WINDOWS		6
#define DEAD		16
#define PROCESSES	2
#define THREADS		2		/* of a process */
#define EXPORTED	4096u

#define REMOTE_RIGHTS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
			 IBV_ACCESS_REMOTE_ATOMIC)

/* Counted for the accounts at the end. */
enum tally {
	POSTED, COMPLETED,
	REFUSED_REQUEST,	/* work requests that end in an error: HWI 12 */
	REFUSED_PEER,		/* refused by the responder: HWI ACC-1 */
	EVENTS_DUE, EVENTS,
	BUSY,			/* keys that are not revoked: HWI REV-2 */
	REG, REREG, DEREG, BIND, UNBIND, SEND_INV, LIVE_KEY, DEAD_KEY,
	NULL_MR, ON_NIC, IMPORT, ORPHAN, QP_RESET, QP_DESTROY,
	TALLIES,
};

/* A registered part of the arena. */
struct region {
	struct ibv_mr *mr;		/* NULL: none */
	size_t offset, length;
	uint64_t hca_va;		/* as registered, before ZERO_BASED */
	unsigned int access;
	bool home;			/* of the PD that the QPs have */
	bool writable;			/* its pages are pinned for writing */
	unsigned int windows;		/* bound to it */
};

struct window {
	struct ibv_mw *mw;		/* NULL: no window in this slot */
	enum ibv_mw_type type;
	struct region *region;		/* NULL: not bound */
	size_t offset, length;		/* in the arena */
	uint64_t iova;
	unsigned int access;
};

/* What a process exports, for all others to import. */
struct exported {
	_Atomic uint32_t pid, rkey;
	uint32_t fd, pd, mr;
	uint8_t *memory;		/* shared, of EXPORTED bytes */
	atomic_bool in_use;
};

struct world {
	struct exported exported[PROCESSES];
	_Atomic uint64_t tallies[TALLIES];
	/*
	 * The last rkey of each worker, valid or not, for other workers to try.
	 */
	_Atomic uint32_t rkeys[PROCESSES * THREADS];
	_Atomic uint64_t addrs[PROCESSES * THREADS];
	atomic_bool stop, broken;
};

struct worker {
	struct world *world;
	unsigned int process, number;
	uint64_t seed, steps, draws;
	struct ibv_context *ctx;
	struct pair pair;		/* a asks, b answers */
	struct ibv_pd *away;		/* another PD */
	struct ibv_mr *null;
	uint8_t *arena, *shadow;	/* @shadow: what the arena must contain */
	struct region regions[REGIONS];
	struct window windows[WINDOWS];
	uint32_t dead[DEAD];		/* keys that were good once */
	unsigned int num_dead;
	_Atomic uint64_t events;	/* that pair.b.qp has raised so far */
	uint64_t events_due;
};

/* mix.c */
uint64_t draw(struct worker *w);
unsigned int below(struct worker *w, unsigned int limit);
void count(struct worker *w, enum tally tally);
_Noreturn void wrong(struct worker *w, const char *format, ...) PRINTF(2);

/* traffic.c */
void reap(struct worker *w, struct ibv_cq *cq, struct ibv_wc *wc);
void settle(struct worker *w, struct side *side, int posted,
	    enum ibv_wc_status wanted, bool peer_refuses, const char *what);
void watch(struct worker *w, struct side *side);
void reset_qps(struct worker *w);
void destroy_qp(struct worker *w);
void check_arena(struct worker *w, size_t offset, size_t length);
void use_region(struct worker *w);
void use_window(struct worker *w);
void use_dead(struct worker *w);
void use_foreign(struct worker *w);
void use_null(struct worker *w);
void send_batch(struct worker *w);

/* regions.c */
struct region *some_region(struct worker *w);
uint64_t wire_address(const struct region *r, size_t offset);
void bury(struct worker *w, uint32_t key);
void toggle_region(struct worker *w);
void rereg_region(struct worker *w);
void dereg_region(struct worker *w, struct region *r);
void orphan(struct worker *w);
void on_nic_memory(struct worker *w);
void import(struct worker *w);

/* windows.c */
void forget_type_2(struct worker *w);
void toggle_window(struct worker *w);
void bind_or_unbind(struct worker *w);
void bind_wrongly(struct worker *w);
void dealloc_window(struct worker *w, struct window *win);

#endif /* MIX_H */
