// SPDX-License-Identifier: GPL-2.0
/*
 * Guessing keys (HWI 6.2): how many live keys unlimited guesses find, among 4,000
 * that were given out as the driver gives them.
 *
 * MOOR_GUESSES is the number of guesses at wholly unknown keys; the default is small
 * enough for every run.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "memory/mr_state.h"
#include "memory/mw.h"

#define PD		5
#define QPN		0x4003
#define LIVE_MRS	3000u
#define LIVE_WINDOWS	1000u
#define CHURN		200000u	/* keys that were used and freed before */
#define GUESSES		20000000u
#define MAX_KNOWN	100000000u	/* where 10^9 would tell no more */
#define LEN		4096u

/* One range of indices, as drivers/infiniband/hw/moor/key.c keeps it. */
struct range {
	uint32_t first, size;
	unsigned int nonce_bits, shift;
	uint32_t head, tail;
	uint32_t *queue;	/* free indices, the last freed one last */
	uint32_t *count;	/* of each index: position in its permutation */
	uint32_t *live;		/* keys in use */
	uint32_t num_live;
};

static struct guest *g;
static struct mr_actor actor = { .qpn = QPN, .pd = PD };
static uint64_t state = 0x243f6a8885a308d3ull;
static uint64_t secret;

static uint32_t random32(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32);
}

/* Stands in for the driver's keyed hash. */
static uint32_t mix(uint32_t value)
{
	uint64_t x = (secret ^ value) * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
	return (uint32_t)(x >> 32);
}

/* A permutation of @count for each index: four rounds of a Feistel network. */
static uint32_t nonce(const struct range *r, uint32_t slot, uint32_t count)
{
	unsigned int bits = r->nonce_bits / 2, round;
	uint32_t mask = (1u << bits) - 1;
	uint32_t low = count & mask, high = count >> bits & mask;

	for (round = 0; round < 4; round += 2) {
		high ^= mix(round << 30 | slot << bits | low) & mask;
		low ^= mix((round + 1) << 30 | slot << bits | high) & mask;
	}
	return high << bits | low;
}

static void range_init(struct range *r, uint32_t first, uint32_t end,
		       unsigned int consumer_bits, uint32_t live)
{
	uint32_t i;

	*r = (struct range){
		.first = first, .size = end - first, .tail = end - first,
		.nonce_bits = 32 - NIC_MR_INDEX_BITS - consumer_bits,
		.shift = consumer_bits,
	};
	r->queue = calloc(r->size, sizeof(*r->queue));
	r->count = calloc(r->size, sizeof(*r->count));
	r->live = calloc(live, sizeof(*r->live));
	if (!r->queue || !r->count || !r->live)
		abort();
	for (i = 0; i < r->size; i++) {
		r->queue[i] = i;
		r->count[i] = random32();
	}
}

static void range_exit(struct range *r)
{
	free(r->queue);
	free(r->count);
	free(r->live);
}

static uint32_t key_alloc(struct range *r)
{
	uint32_t slot = r->queue[r->head++ % r->size];
	uint32_t key = ((slot + r->first) << r->nonce_bits |
			nonce(r, slot, r->count[slot]++)) << r->shift;

	return key | (random32() & ((1u << r->shift) - 1));
}

static void key_free(struct range *r, uint32_t key)
{
	r->queue[r->tail++ % r->size] = key_index(key) - r->first;
}

/* Allocates @live keys, after many others were used and freed. */
static void churn(struct range *r, uint32_t live)
{
	uint32_t i, victim;

	while (r->num_live < live)
		r->live[r->num_live++] = key_alloc(r);
	for (i = 0; i < CHURN; i++) {
		victim = random32() % live;
		key_free(r, r->live[victim]);
		r->live[victim] = key_alloc(r);
	}
}

static void enter_mrs(const struct range *r)
{
	struct moor_mr_context e = {
		.pd = PD, .iova = 0, .length = LEN,
		.access = MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_READ |
			  MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_MW_BIND,
		.xlat = flat(GUEST_BASE),
	};
	uint32_t i;

	for (i = 0; i < r->num_live; i++)
		put_entry(g, r->live[i], &e, MOOR_MRC_TYPE_MR);
}

/* Each window is bound, to an MR of its own; the key's byte is the bind's. */
static void bind_windows(struct range *r, const struct range *mrs)
{
	struct moor_mr_context e = { .pd = PD };
	uint32_t i, bound = 0;

	for (i = 0; i < r->num_live; i++) {
		struct mw_request req = {
			.mw_key = r->live[i], .new_key = r->live[i] ^ 1,
			.mr_lkey = mrs->live[i], .length = LEN,
			.access = MOOR_ACCESS_REMOTE_READ,
		};

		put_entry(g, r->live[i], &e, i & 1 ? MOOR_MRC_TYPE_MW_2 :
						     MOOR_MRC_TYPE_MW_1);
		bound += !mw_bind(g->nic, &actor, &req);
		r->live[i] ^= 1;
	}
	ok(bound == r->num_live, "%u windows bound", bound);
}

/* The guesser has everything but the key: PD, QP, address. */
static bool opens(uint32_t key)
{
	struct mr_grant grant;

	return mr_grant_access(g->nic, &actor, key, 0, 1,
			       MOOR_ACCESS_REMOTE_READ,
			       &grant) == MOOR_SYN_NONE;
}

static uint32_t count_open(const struct range *r, uint32_t flip)
{
	uint32_t i, open = 0;

	for (i = 0; i < r->num_live; i++)
		open += opens(r->live[i] ^ flip);
	return open;
}

/*
 * Hits may be a tenth more or less than computed; where so few are expected that
 * chance does more, five standard deviations.
 */
static void judge(const char *what, uint64_t guesses, uint64_t hits,
		  double chance)
{
	double expected = (double)guesses * chance;
	double slack = 5 * sqrt(expected);
	bool few = expected < 900;
	double low = few ? expected - slack : expected / 1.1;
	double high = few ? expected + slack : expected * 1.1;

	ok((double)hits >= low && (double)hits <= high,
	   "%s: %llu guesses, %llu hits, computed %.1f (%.1f to %.1f)", what,
	   (unsigned long long)guesses, (unsigned long long)hits, expected,
	   low > 0 ? low : 0, high);
}

static void guess_all(uint64_t guesses, uint32_t live)
{
	uint64_t i, hits = 0;

	for (i = 0; i < guesses; i++)
		hits += opens(random32());
	judge("any key", guesses, hits, live / 0x1p32);
}

/* Guesses the bits of @mask of keys in use, whose other bits are known. */
static void guess_known(const char *what, const struct range *r, uint32_t mask,
			uint64_t guesses)
{
	uint64_t i, hits = 0;

	for (i = 0; i < guesses; i++) {
		uint32_t key = r->live[random32() % r->num_live];

		hits += opens((key & ~mask) | (random32() & mask));
	}
	judge(what, guesses, hits,
	      1.0 / (double)(1u << __builtin_popcount(mask)));
}

/*
 * Earlier keys of an index do not come back: of an MR not within 4,096 uses, of a
 * window not within 256, whatever byte the consumer chooses.
 */
static void try_dead(const char *what, const struct range *r, uint32_t uses,
		     uint32_t indices)
{
	uint32_t i, n, open = 0;

	for (i = 0; i < indices; i++) {
		uint32_t slot = key_index(r->live[i]) - r->first;
		uint32_t key = (slot + r->first) << r->nonce_bits;

		for (n = 2; n <= uses; n++) {
			uint32_t dead = key | nonce(r, slot, r->count[slot] - n);

			open += opens(dead << r->shift |
				      (random32() & ((1u << r->shift) - 1)));
		}
	}
	ok(!open, "%s: of the %u keys before it %u open an index", what,
	   uses - 1, open);
}

int main(void)
{
	const char *wanted = getenv("MOOR_GUESSES");
	uint64_t guesses = wanted ? strtoull(wanted, NULL, 0) : GUESSES;
	struct range mrs, windows;

	g = guest_start(false);
	secret = (uint64_t)random32() << 32 | random32();
	range_init(&mrs, MOOR_MR_INDEX_FIRST, NIC_MR_CONSUMER_FIRST, 0,
		   LIVE_MRS);
	range_init(&windows, NIC_MR_CONSUMER_FIRST, NIC_NUM_MR, 8,
		   LIVE_WINDOWS);
	churn(&mrs, LIVE_MRS);
	churn(&windows, LIVE_WINDOWS);
	enter_mrs(&mrs);
	bind_windows(&windows, &mrs);
	ok(count_open(&mrs, 0) == LIVE_MRS && count_open(&windows, 0) ==
	   LIVE_WINDOWS, "each live key opens its memory");
	ok(!count_open(&mrs, 1) && !count_open(&windows, 1),
	   "a bit beside it opens nothing");

	guess_all(guesses, LIVE_MRS + LIVE_WINDOWS);
	if (guesses > MAX_KNOWN)
		guesses = MAX_KNOWN;
	guess_known("MR, its index known", &mrs, 0xffff, guesses);
	guess_known("window, its index known", &windows, 0xffff, guesses);
	guess_known("window, index and consumer byte known", &windows, 0xff00,
		    guesses / 10);
	try_dead("MR", &mrs, 4096, 200);
	try_dead("window", &windows, 256, LIVE_WINDOWS);

	range_exit(&mrs);
	range_exit(&windows);
	guest_stop(g);
	return done();
}
