/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An input of the fuzzer as a stream of numbers. At its end everything reads as
 * zero, and input_left() says so.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct input {
	const uint8_t *at, *end;
};

static inline size_t input_left(const struct input *in)
{
	return (size_t)(in->end - in->at);
}

/* Return: how many of the @len bytes the input had; the rest is zero. */
static inline size_t input_bytes(struct input *in, void *to, size_t len)
{
	size_t have = input_left(in) < len ? input_left(in) : len;

	memset(to, 0, len);
	if (have)
		memcpy(to, in->at, have);
	in->at += have;
	return have;
}

static inline uint8_t input_u8(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static inline uint16_t input_u16(struct input *in)
{
	uint16_t value;

	input_bytes(in, &value, sizeof(value));
	return value;
}

static inline uint32_t input_u32(struct input *in)
{
	uint32_t value;

	input_bytes(in, &value, sizeof(value));
	return value;
}

static inline uint64_t input_u64(struct input *in)
{
	uint64_t value;

	input_bytes(in, &value, sizeof(value));
	return value;
}

/* A number below @n, at most 256, of one byte. */
static inline unsigned int input_below(struct input *in, unsigned int n)
{
	return input_u8(in) % n;
}

/* The entry points of the targets, which libFuzzer and replay.c call. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * Counts successes that show that inputs reach the target's subject: commands that
 * succeed, completions, accesses granted. A replay of the seeds without any
 * tests nothing.
 */
extern uint64_t fuzz_reached;

/* The NIC's clock: makes a step with each look at it, and stands otherwise. */
extern uint64_t fuzz_clock_ns;

/* Linked in place of timer_now(). */
uint64_t __wrap_timer_now(void);

#endif /* FUZZ_INPUT_H */
