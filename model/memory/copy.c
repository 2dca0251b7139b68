// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "memory/copy.h"

/*
 * Each function copies as many whole units as there are of its own, and returns their
 * bytes; @to is aligned to the unit.
 */

static uint64_t copy_bytes(uint8_t *to, const uint8_t *from, uint64_t len)
{
	uint64_t done;

	for (done = 0; done < len; done++)
		__atomic_store_n(&to[done], from[done], __ATOMIC_RELEASE);
	return done;
}

static uint64_t copy_words(uint8_t *to, const uint8_t *from, uint64_t len)
{
	uint64_t done, word;

	for (done = 0; len - done >= sizeof(word); done += sizeof(word)) {
		memcpy(&word, from + done, sizeof(word));
		__atomic_store_n((uint64_t *)(to + done), word, __ATOMIC_RELEASE);
	}
	return done;
}

/* ThreadSanitizer would take stores of blocks for races. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
typedef uint64_t block __attribute__((vector_size(16), may_alias));

static block load(const uint8_t *from)
{
	block value;

	memcpy(&value, from, sizeof(value));
	return value;
}

/*
 * x86 makes stores visible in the order of the program, and with AVX an aligned store of
 * 16 bytes as a whole, so blocks can stand for words; there is no such promise for 32. No
 * rule says how a source is read. Four at a time, that takes what memcpy() does; one at
 * a time, twice as long (performance.rst, 2).
 */
static uint64_t copy_blocks(uint8_t *to, const uint8_t *from, uint64_t len)
{
	const uint64_t size = sizeof(block);
	uint64_t done;

	if (!__builtin_cpu_supports("avx"))
		return 0;
	/* The compiler keeps what came before it before it. */
	__atomic_signal_fence(__ATOMIC_RELEASE);
	for (done = 0; len - done >= 4 * size; done += 4 * size) {
		volatile block *dst = (void *)(to + done);
		block a = load(from + done), b = load(from + done + size);
		block c = load(from + done + 2 * size), d = load(from + done + 3 * size);

		dst[0] = a;
		dst[1] = b;
		dst[2] = c;
		dst[3] = d;
	}
	return done;
}
#else
typedef uint64_t block;

static uint64_t copy_blocks(uint8_t *to, const uint8_t *from, uint64_t len)
{
	return copy_words(to, from, len);
}
#endif

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void copy_in_order(uint8_t *to, const uint8_t *from, uint64_t len)
{
	uint64_t done;

	done = copy_bytes(to, from, least(-(uintptr_t)to % sizeof(uint64_t), len));
	done += copy_words(to + done, from + done,
			   least(-(uintptr_t)(to + done) % sizeof(block), len - done));
	done += copy_blocks(to + done, from + done, len - done);
	done += copy_words(to + done, from + done, len - done);
	copy_bytes(to + done, from + done, len - done);
}

void zero_in_order(uint8_t *to, uint64_t len)
{
	static const uint8_t zeros[4096];

	while (len) {
		uint64_t part = len < sizeof(zeros) ? len : sizeof(zeros);

		copy_in_order(to, zeros, part);
		to += part;
		len -= part;
	}
}
