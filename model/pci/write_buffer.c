// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "moor/moor_hw.h"
#include "pci/write_buffer.h"

#define MAX_WRITES	1024
#define TEAR_BYTES	4
#define VALID_BYTES	8	/* of the valid word, first in each entry */

struct held_write {
	uint32_t offset;
	uint32_t count;			/* 1 to TEAR_BYTES */
	uint8_t data[TEAR_BYTES];
};

struct write_buffer {
	uint8_t *target;
	struct random random;
	unsigned int count;
	unsigned int group;		/* first write after the last barrier */
	bool valid_word;		/* the writes of the group are to one */
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

/* Ends a group: puts its writes in the order in which they will be applied. */
static void barrier(struct write_buffer *wb)
{
	unsigned int i;

	for (i = wb->count; i > wb->group + 1; i--) {
		unsigned int last = i - 1;
		unsigned int other = wb->group +
			random_below(&wb->random, i - wb->group);
		struct held_write swap = wb->write[last];

		wb->write[last] = wb->write[other];
		wb->write[other] = swap;
	}
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

	/* Writes to one place do not overtake each other: the last one stays. */
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

void write_buffer_flush(struct write_buffer *wb)
{
	unsigned int i;

	barrier(wb);
	for (i = 0; i < wb->count; i++)
		memcpy(wb->target + wb->write[i].offset, wb->write[i].data,
		       wb->write[i].count);
	write_buffer_drop(wb);
}

void write_buffer_drop(struct write_buffer *wb)
{
	wb->count = 0;
	wb->group = 0;
}
