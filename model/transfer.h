/* SPDX-License-Identifier: GPL-2.0 */
/* Moving bytes between two scatter/gather lists, with all checks. */
#ifndef MODEL_TRANSFER_H
#define MODEL_TRANSFER_H

#include "mr.h"

struct segment {
	uint64_t addr;
	uint32_t length;
	uint32_t key;
};

/* One end of a message, and how far it has got. */
struct stream {
	const struct mr_actor *actor;	/* by whose PD and rights */
	const uint8_t *bytes;	/* inline data; NULL: @segments */
	const struct segment *segments;
	uint32_t need;		/* as for mr_grant_access() */
	uint32_t current;	/* segment */
	uint32_t offset;	/* in it, or in @bytes */
	uint32_t num_segments;
	uint32_t epoch;		/* of the segment's MR when it was begun */
};

/**
 * transfer() - move the next bytes of a message
 * @nic: the NIC
 * @to:  has @len bytes left
 * @from: has @len bytes left
 * @len: bytes
 * @culprit: the end that failed
 *
 * Key and translation are checked anew for each chunk of at most 64 KiB. A
 * segment ends under the registration that it began under, or fails (HWI ACC-15).
 *
 * Return: MOOR_SYN_NONE, or why not; part of the data may have moved.
 */
uint8_t transfer(struct nic *nic, struct stream *to, struct stream *from,
		 uint32_t len, struct stream **culprit);

#endif /* MODEL_TRANSFER_H */
