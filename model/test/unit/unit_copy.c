// SPDX-License-Identifier: GPL-2.0
/*
 * Copying in order copies: every alignment of both ends, every length that begins or ends
 * inside of a word, a block or several. And it is in order: of what lies before a page
 * that is not there all is written when the first byte behind it is.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "guest.h"
#include "memory/copy.h"

#define OFFSETS	33u	/* two blocks, and a byte */
#define LENGTHS	200u	/* three times four blocks, and more */
#define PAGE	4096u
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
	static uint8_t place[3 * PAGE + 7];
	bool good;
	size_t i;

	memset(place, 7, sizeof(place));
	zero_in_order(place + 1, sizeof(place) - 2);
	good = place[0] == 7 && place[sizeof(place) - 1] == 7;
	for (i = 1; i < sizeof(place) - 1; i++)
		good &= !place[i];
	return good;
}

/* A page that is there and one that is not until something is written there. */
static uint8_t *pages;
static unsigned int expected_before, faults;
static bool all_before;

static void fault(int sig)
{
	(void)sig;
	faults++;
	all_before = !memcmp(pages + PAGE - expected_before, source, expected_before);
	if (mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE))
		abort();
}

/* @before bytes fit before the missing page, of @len. */
static bool first_byte_first(unsigned int before, unsigned int len)
{
	if (mprotect(pages + PAGE, PAGE, PROT_NONE))
		return false;
	memset(pages + PAGE - before, 0, before);
	expected_before = before;
	faults = 0;
	copy_in_order(pages + PAGE - before, source, len);
	return len > before ? faults == 1 && all_before : !faults;
}

static bool in_order(void)
{
	struct sigaction action = { .sa_handler = fault }, before_it;
	unsigned int before, len;
	bool good = true;

	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || sigaction(SIGSEGV, &action, &before_it))
		return false;
	for (before = 0; before < LENGTHS; before++)
		for (len = 0; len < LENGTHS; len++)
			good &= first_byte_first(before, len);
	sigaction(SIGSEGV, &before_it, NULL);
	munmap(pages, 2 * PAGE);
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
	ok(in_order(), "the first byte first");
	ok(down, "also to a place before it that it overlaps");
	ok(zero, "zeros likewise");
	ok(zeroes_pages(), "zeros, several pages");
	return done();
}
