/* SPDX-License-Identifier: GPL-2.0 */
/* What the NIC's thread does between two doorbells. */
#ifndef MODEL_PACE_H
#define MODEL_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum pace_step {
	PACE_SPIN,	/* look again at once */
	PACE_NAP,	/* leave the processor for a moment; doorbells need no kick */
	PACE_DOZE,	/* sleep till a kick */
};

/* Where the scheduler tells about the processors. */
struct pace_sources {
	int schedstat;		/* file of the thread's waiting time, or -1 */
	int loadavg;		/* file that counts the threads that are ready, or -1 */
	unsigned int processors;	/* that the thread may use */
};

struct pace {
	struct pace_sources sources;
	uint64_t busy_at;
	uint64_t leaves_until;	/* naps till then: a thread woken needs the processor */
	uint64_t spins_since;	/* 0: the NIC does not spin */
	uint64_t waited;	/* ns that the NIC's thread waited, when last read */
	uint64_t harm;		/* ns that threads waited, less an eighth of the time */
	uint64_t naps_until;	/* no spinning till then: there was too much harm */
	uint64_t penalty;
};

/*
 * pace_sources_open - the files of the calling thread
 *
 * A file that the system does not have is -1. Both are -1 if the thread may use only
 * one processor: then spinning might take it from others, and that cannot be known.
 */
void pace_sources_open(struct pace_sources *sources);
void pace_sources_close(struct pace_sources *sources);

/* Copies @sources; the caller still has to close them. */
void pace_init(struct pace *pace, const struct pace_sources *sources, uint64_t now);

/* There was work at @now. */
void pace_worked(struct pace *pace, uint64_t now);

/* The NIC woke a thread of the client at @now: by an answer, or by an interrupt. */
void pace_woke(struct pace *pace, uint64_t now);

/* There was no work at @now. Return: what to do instead. */
enum pace_step pace_next(struct pace *pace, uint64_t now);

#endif /* MODEL_PACE_H */
