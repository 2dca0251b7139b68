// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "moor/moor_hw.h"
#include "pci/write_buffer.h"

#define MAX_WRITES	1024
#define TEAR_BYTES	8	/* a store of that size is never torn (HWI MR-7) */
#define TRICKLE_TURNS	64
#define VALID_BYTES	8	/* of the valid word, first in each entry */

struct held_write {
	uint32_t offset;
	uint32_t count;			/* 1 to TEAR_BYTES */
	uint8_t data[TEAR_BYTES];
};

struct write_buffer {
	uint8_t *target;
	struct random random;
	unsigned int first;		/* index of the first write held back */
	unsigned int count;		/* index behind the last one */
	unsigned int group;		/* first write after the last barrier */
	bool valid_word;		/* the group's writes are to a valid word */
	struct held_write write[MAX_WRITES];
};

struct write_buffer *write_buffer_create(uint8_t *target, uint64_t seed)
{
	struct write_buffer *wb = calloc(1, sizeof(*wb));

	if (!wb)
		return NULL;
	wb->target = target;
	random_seed(&wb->random, seed);
	return wb;
}

void write_buffer_destroy(struct write_buffer *wb)
{
	free(wb);
}

/* Chooses one of the writes from @place on, and moves it to @place. */
static void choose(struct write_buffer *wb, unsigned int place)
{
	unsigned int other = place + random_below(&wb->random, wb->count - place);
	struct held_write swap = wb->write[place];

	wb->write[place] = wb->write[other];
	wb->write[other] = swap;
}

/* Ends a group: puts its writes in the order in which they will be applied. */
static void barrier(struct write_buffer *wb)
{
	unsigned int i;

	for (i = wb->group; i < wb->count; i++)
		choose(wb, i);
	wb->group = wb->count;
}

static void add_piece(struct write_buffer *wb, uint32_t offset,
		      const uint8_t *data, uint32_t count)
{
	bool valid_word = offset % sizeof(struct moor_mr_context) < VALID_BYTES;
	struct held_write *w;
	unsigned int i;

	if (wb->count == MAX_WRITES)
		write_buffer_flush(wb);
	if (valid_word != wb->valid_word)
		barrier(wb);
	wb->valid_word = valid_word;

	/* Writes to one place do not overtake each other: the last data stays. */
	for (i = wb->group; i < wb->count; i++) {
		w = &wb->write[i];
		if (w->offset == offset && w->count == count) {
			memcpy(w->data, data, count);
			return;
		}
		if (offset < w->offset + w->count && w->offset < offset + count) {
			barrier(wb);
			break;
		}
	}
	w = &wb->write[wb->count++];
	w->offset = offset;
	w->count = count;
	memcpy(w->data, data, count);
}

void write_buffer_add(struct write_buffer *wb, uint32_t offset,
		      const void *data, uint32_t count)
{
	const uint8_t *from = data;

	while (count) {
		uint32_t piece = TEAR_BYTES - offset % TEAR_BYTES;

		if (piece > count)
			piece = count;
		add_piece(wb, offset, from, piece);
		offset += piece;
		from += piece;
		count -= piece;
	}
}

static void apply_first(struct write_buffer *wb)
{
	const struct held_write *w = &wb->write[wb->first++];
	uint64_t value;

	if (w->count == sizeof(value)) {
		memcpy(&value, w->data, sizeof(value));
		__atomic_store_n((uint64_t *)(wb->target + w->offset), value,
				 __ATOMIC_RELEASE);
	} else {
		memcpy(wb->target + w->offset, w->data, w->count);
	}
	if (wb->first == wb->count)
		write_buffer_drop(wb);
}

void write_buffer_trickle(struct write_buffer *wb)
{
	if (wb->first == wb->count || random_below(&wb->random, TRICKLE_TURNS))
		return;
	if (wb->first >= wb->group) {
		choose(wb, wb->first);
		wb->group = wb->first + 1;
	}
	apply_first(wb);
}

void write_buffer_flush(struct write_buffer *wb)
{
	barrier(wb);
	while (wb->first < wb->count)
		apply_first(wb);
}

void write_buffer_drop(struct write_buffer *wb)
{
	wb->first = 0;
	wb->count = 0;
	wb->group = 0;
}
