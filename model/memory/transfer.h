/* SPDX-License-Identifier: GPL-2.0 */
/* Moving bytes between two scatter/gather lists, with all checks. */
#ifndef MODEL_TRANSFER_H
#define MODEL_TRANSFER_H

#include <stddef.h>

#include "memory/mr.h"

struct segment {
	uint64_t addr;
	uint32_t length;
	uint32_t key;
	uint64_t epoch;		/* of its MR when the segment was begun; 0: not begun */
};

/* One end of a message, and how far it has got. */
struct stream {
	const struct mr_actor *actor;	/* the QP whose PD and rights count */
	uint8_t *bytes;		/* the NIC's own (@grant is empty), or NULL */
	struct segment *segments;
	uint32_t need;		/* as for mr_grant_access() */
	uint32_t current;	/* segment */
	uint32_t offset;	/* in it, or in @bytes */
	uint32_t num_segments;

	/* Of the current segment, what is granted, for one packet. */
	uint32_t granted_from, granted_to;
	struct mr_grant grant;
};

/* At the start of the message; access to its bytes needs the rights @need. */
static inline void stream_init(struct stream *s, const struct mr_actor *actor,
			       struct segment *segments, uint32_t num,
			       uint32_t need)
{
	s->actor = actor;
	s->bytes = NULL;
	s->segments = segments;
	s->need = need;
	s->current = 0;
	s->offset = 0;
	s->num_segments = num;
	s->granted_to = 0;
}

/* Goes to byte @offset of the message; no access is granted there yet. */
void stream_seek(struct stream *s, uint32_t offset);
/* Leaves out the next @len bytes, of which there are as many. */
void stream_skip(struct stream *s, uint32_t len);

/**
 * stream_grant() - check key, PD, rights and bounds of a part of the current segment
 * @nic: the NIC
 * @s:   stands where the part begins
 * @len: bytes of the part, not 0
 *
 * A segment ends under the registration that it began under, or fails (HWI
 * ACC-15).
 *
 * Return: MOOR_SYN_NONE, or why not.
 */
uint8_t stream_grant(struct nic *nic, struct stream *s, uint32_t len);

/**
 * transfer() - move the next bytes of a message
 * @nic: the NIC
 * @to:  has @len bytes left
 * @from: has @len bytes left
 * @len: bytes
 * @culprit: the end that failed
 *
 * An access that was granted since the last stream_seek() is not checked again: the
 * caller seeks before each packet.
 *
 * Return: MOOR_SYN_NONE, or why not; part of the data may have moved.
 */
uint8_t transfer(struct nic *nic, struct stream *to, struct stream *from,
		 uint32_t len, struct stream **culprit);

#endif /* MODEL_TRANSFER_H */
