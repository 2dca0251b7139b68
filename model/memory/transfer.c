// SPDX-License-Identifier: GPL-2.0
/* Moving bytes between two scatter/gather lists, with all checks. */
#include <string.h>

#include "memory/copy.h"
#include "memory/relaxed.h"
#include "memory/transfer.h"

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

void stream_seek(struct stream *s, uint32_t offset)
{
	s->current = 0;
	if (!s->bytes) {
		while (s->current + 1 < s->num_segments &&
		       offset >= s->segments[s->current].length)
			offset -= s->segments[s->current++].length;
	}
	s->offset = offset;
	s->granted_to = 0;
}

void stream_skip(struct stream *s, uint32_t len)
{
	uint32_t offset = s->offset + len, i;

	for (i = 0; i < s->current; i++)
		offset += s->segments[i].length;
	stream_seek(s, offset);
}

/* Bytes left in the segment that the stream stands in. */
static uint32_t stream_left(struct stream *s, uint32_t wanted)
{
	if (s->bytes)
		return wanted;
	while (s->offset == s->segments[s->current].length) {
		s->current++;
		s->offset = 0;
		s->granted_to = 0;
	}
	return min_u32(wanted, s->segments[s->current].length - s->offset);
}

uint8_t stream_grant(struct nic *nic, struct stream *s, uint32_t len)
{
	struct segment *seg = &s->segments[s->current];
	uint8_t syndrome;
	uint64_t addr;

	if (__builtin_add_overflow(seg->addr, s->offset, &addr) &&
	    seg->key != NIC_NULL_LKEY)
		return MOOR_SYN_BOUNDS;
	syndrome = mr_grant_access(nic, s->actor, seg->key, addr, len, s->need,
				   &s->grant);
	if (syndrome)
		return syndrome;
	/* Re-registered halfway through: the rest would go elsewhere. */
	if (seg->epoch && s->grant.epoch != seg->epoch)
		return MOOR_SYN_KEY;
	seg->epoch = s->grant.epoch;
	s->granted_from = s->offset;
	s->granted_to = s->offset + len;
	return MOOR_SYN_NONE;
}

/* Cuts @len to what is granted. The NIC's own bytes need no grant. */
static uint8_t stream_reach(struct nic *nic, struct stream *s, uint32_t *len)
{
	uint8_t syndrome;

	if (s->bytes)
		return MOOR_SYN_NONE;
	if (s->offset >= s->granted_to) {
		syndrome = stream_grant(nic, s, *len);
		if (syndrome)
			return syndrome;
	}
	*len = min_u32(*len, s->granted_to - s->offset);
	return MOOR_SYN_NONE;
}

/* The next run of a chunk; *@ptr NULL: the null MR. */
static uint8_t stream_run(struct nic *nic, struct stream *s, uint32_t off,
			  uint64_t *len, uint8_t **ptr)
{
	if (s->bytes) {
		*ptr = s->bytes + s->offset + off;
		return MOOR_SYN_NONE;
	}
	if (s->grant.kind == MR_KIND_NULL) {
		*ptr = NULL;
		return MOOR_SYN_NONE;
	}
	return mr_grant_ptr(nic, &s->grant, s->offset - s->granted_from + off,
			    len, ptr);
}

/* @from NULL: zeros. */
static void write_run(struct nic *nic, bool relaxed, uint8_t *to,
		      const uint8_t *from, uint64_t len)
{
	if (from)
		relaxed_before_read(nic, from, len);
	if (relaxed && nic->relaxed) {
		relaxed_hold(nic, to, from, len);
		return;
	}
	/* A write that is not relaxed does not overtake the relaxed ones. */
	relaxed_release(nic);
	if (!from)
		zero_in_order(to, len);
	else if (from < to && to < from + len)
		/* The consumer may name one buffer at both ends. */
		memmove(to, from, len);
	else
		copy_in_order(to, from, len);
}

static uint8_t move_chunk(struct nic *nic, struct stream *to,
			  struct stream *from, uint32_t len,
			  struct stream **culprit)
{
	uint8_t *dst, *src, syndrome;
	uint32_t done = 0;

	while (done < len) {
		uint64_t run = len - done;

		*culprit = to;
		syndrome = stream_run(nic, to, done, &run, &dst);
		if (syndrome)
			return syndrome;
		*culprit = from;
		syndrome = stream_run(nic, from, done, &run, &src);
		if (syndrome)
			return syndrome;
		if (dst)
			write_run(nic, to->grant.relaxed, dst, src, run);
		done += (uint32_t)run;
	}
	return MOOR_SYN_NONE;
}

uint8_t transfer(struct nic *nic, struct stream *to, struct stream *from,
		 uint32_t len, struct stream **culprit)
{
	uint8_t syndrome;

	while (len) {
		uint32_t chunk = stream_left(from, stream_left(to, len));

		*culprit = to;
		syndrome = stream_reach(nic, to, &chunk);
		if (syndrome)
			return syndrome;
		*culprit = from;
		syndrome = stream_reach(nic, from, &chunk);
		if (syndrome)
			return syndrome;
		syndrome = move_chunk(nic, to, from, chunk, culprit);
		if (syndrome)
			return syndrome;
		to->offset += chunk;
		from->offset += chunk;
		len -= chunk;
	}
	return MOOR_SYN_NONE;
}
