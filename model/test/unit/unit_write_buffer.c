// SPDX-License-Identifier: GPL-2.0
/* Posted writes on their way (HWI MR-7): in any order that the barriers allow. */
#include <string.h>

#include "guest.h"
#include "moor/moor_hw.h"
#include "pci/write_buffer.h"

#define ENTRY_WORDS	(sizeof(struct moor_mr_context) / 8)
#define WORDS		(2 * ENTRY_WORDS)
#define ROUNDS		200
#define FULL		0x0123456789abcdefull
/* Limit of a wait for writes that do not come. */
#define MAX_TURNS	100000

static uint64_t target[WORDS];

static unsigned int arrived(unsigned int from, unsigned int to)
{
	unsigned int n = 0;

	for (; from < to; from++)
		n += target[from] == FULL;
	return n;
}

static void write_word(struct write_buffer *wb, unsigned int word)
{
	const uint64_t value = FULL;

	write_buffer_add(wb, 8 * word, &value, sizeof(value));
}

/* As a driver does: the body, here in one wide store, then the valid word. */
static void publish(struct write_buffer *wb, unsigned int entry)
{
	uint64_t body[ENTRY_WORDS - 1] = {};
	unsigned int i;

	for (i = 0; i < ENTRY_WORDS - 1; i++)
		body[i] = FULL;
	write_buffer_add(wb, 64 * entry + 8, body, sizeof(body));
	write_word(wb, ENTRY_WORDS * entry);
}

static bool whole(void)
{
	unsigned int i;

	for (i = 0; i < WORDS; i++)
		if (target[i] && target[i] != FULL)
			return false;
	return true;
}

/* Do the barriers allow the words that have arrived? */
static bool allowed(void)
{
	unsigned int first = arrived(1, ENTRY_WORDS);
	unsigned int second = arrived(ENTRY_WORDS + 1, WORDS);

	return whole() && (!target[0] || first == ENTRY_WORDS - 1) &&
	       (!second || target[0]) &&
	       (!target[ENTRY_WORDS] || second == ENTRY_WORDS - 1);
}

static void test_trickle(void)
{
	struct write_buffer *wb = write_buffer_create((uint8_t *)target, 11);
	unsigned int round, turns, good = 0, halves = 0, backwards = 0;

	for (round = 0; round < ROUNDS; round++) {
		memset(target, 0, sizeof(target));
		publish(wb, 0);
		publish(wb, 1);
		for (turns = 0; turns < MAX_TURNS; turns++) {
			if (!allowed() || arrived(0, WORDS) == WORDS)
				break;
			write_buffer_trickle(wb);
			halves += !target[0] && arrived(1, ENTRY_WORDS);
			backwards += target[ENTRY_WORDS - 1] && !target[1];
		}
		good += allowed() && arrived(0, WORDS) == WORDS;
	}
	ok(good == ROUNDS, "two entries arrive, word by word, as barriers allow");
	ok(halves, "bodies are seen that are there in part: %u times", halves);
	ok(backwards, "the last word of one before its first: %u times", backwards);
	write_buffer_destroy(wb);
}

static void test_flush(void)
{
	struct write_buffer *wb = write_buffer_create((uint8_t *)target, 12);
	unsigned int round, good = 0, turns;
	uint64_t old = 42;

	for (round = 0; round < ROUNDS; round++) {
		memset(target, 0, sizeof(target));
		publish(wb, 0);
		for (turns = 0; turns < round; turns++)
			write_buffer_trickle(wb);
		publish(wb, 1);
		write_buffer_add(wb, 8, &old, sizeof(old));
		write_word(wb, 1);
		write_buffer_flush(wb);
		good += arrived(0, WORDS) == WORDS;
	}
	ok(good == ROUNDS, "a flush leaves nothing behind, the last write to a place stays");
	memset(target, 0, sizeof(target));
	publish(wb, 0);
	write_buffer_drop(wb);
	write_buffer_flush(wb);
	ok(!arrived(0, WORDS), "a reset forgets them");
	write_buffer_destroy(wb);
}

int main(void)
{
	test_trickle();
	test_flush();
	return done();
}
