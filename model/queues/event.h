/* SPDX-License-Identifier: GPL-2.0 */
/* Event queues and their vectors (HWI 9). */
#ifndef MODEL_EVENT_H
#define MODEL_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/state.h"

struct event {
	struct moor_eqe entry;	/* but for its phase */
	uint64_t *backlogged;	/* as for event_post() */
};

struct eq {
	bool exists;
	uint8_t log_eqe;
	uint16_t vector;
	uint32_t producer;	/* free-running */
	uint32_t num_cq;	/* CQs that send their events here */
	uint64_t base;

	/*
	 * Events that found no room (HWI EV-3). Bounded: an object has at most
	 * one event of each type in here.
	 */
	struct event *backlog;
	uint32_t backlog_count;
	uint32_t backlog_room;
};

/* The token is in the place of the number: no page request is taken for another. */
_Static_assert(offsetof(struct moor_page_request, token) ==
	       offsetof(struct moor_eqe, number), "HWI EV-19");
/* Here and in struct faults a word has a bit for each vector. */
_Static_assert(NIC_NUM_VECTORS <= 32, "more vectors than bits");

struct events {
	struct eq eq[NIC_MAX_EQ];
	uint32_t pending_vectors;
	uint32_t num_backlogged;	/* EQs with a backlog */
	uint64_t backlogged;	/* kept back: events without an object, a bit a type */
	void (*raise)(void *ctx, unsigned int vector);
	void *raise_ctx;
};

/*
 * Posts an event, unless its object has one of this type kept back (HWI EV-16):
 * @backlogged has a bit for each type of which it has one.
 */
void event_post(struct nic *nic, uint32_t eqn, uint8_t type, uint32_t number,
		uint64_t *backlogged);
/* The same for an event with more fields: @entry is complete but for its phase. */
void event_post_entry(struct nic *nic, uint32_t eqn,
		      const struct moor_eqe *entry, uint64_t *backlogged);
/* Does EQ @eqn exist? */
static inline bool event_has_queue(const struct nic *nic, uint32_t eqn)
{
	return nic->events->eq[eqn].exists;
}

/* Forgets events that were kept back and speak of a dead object. */
void event_forget(struct nic *nic, uint32_t eqn, uint64_t types,
		  uint32_t number);
/* Forgets all events that were kept back, before all objects are destroyed in turn. */
void event_forget_all(struct nic *nic);
/* Writes an entry that stands for no event. Return: false when there is no room. */
bool event_inject(struct nic *nic, uint32_t eqn, const struct moor_eqe *eqe);
/* The vector is raised by the next event_flush(). */
static inline void event_raise(struct nic *nic, unsigned int vector)
{
	nic->events->pending_vectors |= 1u << vector;
}

/* Delivers what was kept back, and raises the vectors. */
void event_flush(struct nic *nic);
void event_reset(struct nic *nic);
uint8_t eq_create(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);
uint8_t eq_destroy(struct nic *nic, const struct moor_cmd *cmd,
		   struct moor_cpl *cpl);

/* The NIC works no more, until it is reset (HWI ERR-1). */
void nic_fatal(struct nic *nic, enum moor_fatal_code code);

#endif /* MODEL_EVENT_H */
