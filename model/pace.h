/* SPDX-License-Identifier: GPL-2.0 */
/* What the NIC's thread does between two doorbells. */
#ifndef MODEL_PACE_H
#define MODEL_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum pace_step {
	PACE_SPIN,	/* look again at once */
	PACE_NAP,	/* leave the processor for a moment, with doorbells unrung */
	PACE_DOZE,	/* sleep till a kick */
};

/* What the scheduler tells of the processors. */
struct pace_sources {
	int schedstat;		/* file of the thread's waiting time, or -1 */
	int loadavg;		/* file that counts the threads that are ready, or -1 */
	unsigned int processors;	/* that the thread may use */
};

struct pace {
	struct pace_sources sources;
	uint64_t busy_at;
	uint64_t leaves_until;	/* the processor, to whom it has woken */
	uint64_t spins_since;	/* 0: it does not spin */
	uint64_t waited;	/* ns for a processor, until then */
	uint64_t harm;		/* ns that it, or others, waited for one, an eighth forgiven */
	uint64_t naps_until;	/* there was too much of it */
	uint64_t penalty;
};

/*
 * pace_sources_open - the files of the calling thread
 *
 * Those that the system does not have are -1, and both are where it has only one
 * processor: then there is no knowing that spinning takes nothing from others.
 */
void pace_sources_open(struct pace_sources *sources);
void pace_sources_close(struct pace_sources *sources);

/* @sources stay the caller's. */
void pace_init(struct pace *pace, const struct pace_sources *sources, uint64_t now);

/* There was work at @now. */
void pace_worked(struct pace *pace, uint64_t now);

/* A thread of the client's was woken at @now: by an answer, or by an interrupt. */
void pace_woke(struct pace *pace, uint64_t now);

/* There was none. */
enum pace_step pace_next(struct pace *pace, uint64_t now);

#endif /* MODEL_PACE_H */
