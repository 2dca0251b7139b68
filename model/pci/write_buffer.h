/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Posted writes on their way to the context table (--trap-bar2): held back, torn
 * into words of eight bytes, and applied in any order that a write barrier before
 * and after each valid word allows (HWI MR-7): one now and then, and all of them
 * when something comes that is ordered behind them.
 */
#ifndef MODEL_WRITE_BUFFER_H
#define MODEL_WRITE_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

struct write_buffer;

/* @target: the memory that the writes are for. Return: NULL without memory. */
struct write_buffer *write_buffer_create(uint8_t *target, uint64_t seed);
void write_buffer_destroy(struct write_buffer *wb);

/* A write of @count bytes at @offset, which the caller has checked. */
void write_buffer_add(struct write_buffer *wb, uint32_t offset,
		      const void *data, uint32_t count);

/* Once in a while applies one write; the main loop calls it at each turn. */
void write_buffer_trickle(struct write_buffer *wb);

/* Applies everything. */
void write_buffer_flush(struct write_buffer *wb);

/* Forgets everything: reset. */
void write_buffer_drop(struct write_buffer *wb);

#endif /* MODEL_WRITE_BUFFER_H */
