// SPDX-License-Identifier: GPL-2.0
/*
 * Copying in order copies: every alignment of both ends, every length that begins or ends
 * inside of a word, a block or several. That it is in order the conformance suite sees,
 * from another process.
 */
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "memory/copy.h"

#define OFFSETS	33u	/* two blocks, and a byte */
#define LENGTHS	200u	/* three times four blocks, and more */
#define SPACE	(OFFSETS + LENGTHS + 16)

static uint8_t source[SPACE], found[SPACE], expected[SPACE];

static bool copies(unsigned int to, unsigned int from, unsigned int len)
{
	memset(found, 7, SPACE);
	memset(expected, 7, SPACE);
	copy_in_order(found + to, source + from, len);
	memcpy(expected + to, source + from, len);
	return !memcmp(found, expected, SPACE);
}

/* To a place before its source in the same buffer. */
static bool copies_down(unsigned int to, unsigned int from, unsigned int len)
{
	memcpy(found, source, SPACE);
	memcpy(expected, source, SPACE);
	copy_in_order(found + to, found + from, len);
	memmove(expected + to, expected + from, len);
	return !memcmp(found, expected, SPACE);
}

static bool zeroes(unsigned int to, unsigned int len)
{
	memcpy(found, source, SPACE);
	memcpy(expected, source, SPACE);
	zero_in_order(found + to, len);
	memset(expected + to, 0, len);
	return !memcmp(found, expected, SPACE);
}

static bool zeroes_pages(void)
{
	const size_t len = 3 * 4096 + 5;
	uint8_t *place = malloc(len + 2);
	bool good;
	size_t i;

	memset(place, 7, len + 2);
	zero_in_order(place + 1, len);
	good = place[0] == 7 && place[len + 1] == 7;
	for (i = 1; i <= len; i++)
		good &= !place[i];
	free(place);
	return good;
}

int main(void)
{
	bool apart = true, down = true, zero = true;
	unsigned int to, from, len;

	srand(1);
	for (len = 0; len < SPACE; len++)
		source[len] = (uint8_t)(rand() % 255 + 1);
	for (to = 0; to < OFFSETS; to++)
		for (len = 0; len < LENGTHS; len++) {
			zero &= zeroes(to, len);
			for (from = 0; from < OFFSETS; from++) {
				apart &= copies(to, from, len);
				if (from >= to)
					down &= copies_down(to, from, len);
			}
		}
	ok(apart, "all that is to be copied, and nothing beside it");
	ok(down, "also to a place before it that it overlaps");
	ok(zero, "zeros likewise");
	ok(zeroes_pages(), "zeros, several pages");
	return done();
}
