// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "base/state.h"
#include "memory/relaxed.h"

#define PIECE_BYTES	256u	/* the payload of a PCIe write */
#define MAX_PIECES	256u

struct held_piece {
	uint8_t *to;
	uint32_t len;
	uint8_t data[PIECE_BYTES];
};

struct relaxed {
	uint32_t count;
	struct held_piece *order[MAX_PIECES];
	struct held_piece piece[MAX_PIECES];
};

bool relaxed_init(struct nic *nic)
{
	nic->relaxed = calloc(1, sizeof(*nic->relaxed));
	return nic->relaxed;
}

void relaxed_exit(struct nic *nic)
{
	free(nic->relaxed);
}

static void hold_piece(struct nic *nic, uint8_t *to, const uint8_t *from,
		       uint32_t len)
{
	struct relaxed *held = nic->relaxed;
	struct held_piece *piece;

	if (held->count == MAX_PIECES)
		relaxed_release(nic);
	piece = &held->piece[held->count];
	held->order[held->count++] = piece;
	piece->to = to;
	piece->len = len;
	if (from)
		memcpy(piece->data, from, len);
	else
		memset(piece->data, 0, len);
}

void relaxed_hold(struct nic *nic, uint8_t *to, const uint8_t *from,
		  uint64_t len)
{
	while (len) {
		uint32_t piece = PIECE_BYTES - (uintptr_t)to % PIECE_BYTES;

		if (piece > len)
			piece = (uint32_t)len;
		hold_piece(nic, to, from, piece);
		to += piece;
		from = from ? from + piece : NULL;
		len -= piece;
	}
}

void relaxed_release(struct nic *nic)
{
	struct relaxed *held = nic->relaxed;

	while (held && held->count) {
		uint32_t which = nic_chance(nic, held->count);
		const struct held_piece *piece = held->order[which];

		held->order[which] = held->order[--held->count];
		memcpy(piece->to, piece->data, piece->len);
	}
}

void relaxed_before_read(struct nic *nic, const uint8_t *at, uint64_t len)
{
	const struct relaxed *held = nic->relaxed;
	uint32_t i;

	for (i = 0; held && i < held->count; i++) {
		const struct held_piece *piece = held->order[i];

		if (piece->to < at + len && at < piece->to + piece->len) {
			relaxed_release(nic);
			return;
		}
	}
}
