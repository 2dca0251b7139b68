// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that moves under every kind of message (HWI 6.10): between any two looks of
 * the NIC pages come, go and are somewhere else afterwards, where they were is
 * poison, requests are answered late and in any order. Each message arrives, whole
 * and once, in loopback and over a port that loses packets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/mr.h"
#include "paged.h"
#include "transport/port.h"

#define MAX_BATCH	24u
#define MAX_WAITING	64u
#define COUNTER		1000000u	/* a byte behind all slices */
#define MAX_ROUNDS	200000u

enum op { OP_WRITE, OP_WRITE_IMM, OP_SEND, OP_READ, OP_ADD, NUM_OPS };

static const uint8_t opcodes[NUM_OPS] = {
	MOOR_WQE_WRITE, MOOR_WQE_WRITE_IMM, MOOR_WQE_SEND, MOOR_WQE_READ,
	MOOR_WQE_FETCH_ADD,
};

static struct paged p;
static uint64_t seed;
/* Where a page is; there are some more places than pages. */
static uint64_t place[2][PAGED_PAGES], spare[16];
static struct moor_page_request waiting[MAX_WAITING];
static unsigned int num_waiting, requests, moves;

static uint32_t chance(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

static uint64_t *entry_of(int side, uint32_t page)
{
	return (uint64_t *)at(p.g, p.m[side].node) + page;
}

static void come(int side, uint32_t page, bool writable)
{
	__atomic_store_n(entry_of(side, page), place[side][page] |
			 MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
			 (writable ? MOOR_PTE_WRITABLE : 0), __ATOMIC_RELEASE);
}

/* It is not where it was, and there is nothing good there. */
static void move_away(int side, uint32_t page)
{
	uint64_t *to = &spare[chance(16)], from = place[side][page];

	if (!(*entry_of(side, page) & MOOR_PTE_PRESENT))
		return;
	paged_out(&p, side, page, 1);
	if (paged_invalidate(&p, side, page ? paged_addr(side, page * 4096 -
							 PAGED_OFFSET) :
					      paged_addr(side, 0),
			     page ? 4096 : 4096 - PAGED_OFFSET))
		ok(false, "MR_INVALIDATE: %u at %u", p.g->cpl.status,
		   p.g->cpl.detail);
	memcpy(at(p.g, *to), at(p.g, from), 4096);
	memset(at(p.g, from), 0xee, 4096);
	place[side][page] = *to;
	*to = from;
	moves++;
}

/* Byte @off of an MR, by the host's own map. */
static uint8_t *byte_at(int side, uint32_t off)
{
	off += PAGED_OFFSET;
	return (uint8_t *)at(p.g, place[side][off / 4096]) + off % 4096;
}

static bool same_bytes(uint32_t off, uint32_t len)
{
	for (; len--; off++)
		if (*byte_at(0, off) != *byte_at(1, off))
			return false;
	return true;
}

static void fill_bytes(int side, uint32_t off, uint32_t len)
{
	for (; len--; off++)
		*byte_at(side, off) = (uint8_t)chance(256);
}

/* A number where it may lie across the host's pages, but not across the MR's. */
static uint64_t read_word(int side, uint32_t off)
{
	uint64_t word;

	memcpy(&word, byte_at(side, off), sizeof(word));
	return word;
}

/* What it asked for, and more or less of what lies behind. */
static void answer(unsigned int which)
{
	const struct moor_page_request *r = &waiting[which];
	int side = r->key == p.m[1].key;
	uint32_t page = (uint32_t)(r->addr - paged_addr(side, 0) +
				   PAGED_OFFSET) / 4096;
	uint32_t num = 1 + chance(4) * chance(8);
	bool writable = r->flags & MOOR_PAGE_REQUEST_WRITE || chance(2);

	for (; num && page < PAGED_PAGES; num--, page++)
		if (!(*entry_of(side, page) & MOOR_PTE_PRESENT) || writable)
			come(side, page, writable);
	if (paged_answer(&p, r->token, MOOR_PAGE_RESOLVED))
		ok(false, "PAGE_RESPONSE: %u", p.g->cpl.status);
	waiting[which] = waiting[--num_waiting];
}

static void host(void)
{
	unsigned int i, n;

	while (num_waiting < MAX_WAITING &&
	       paged_request(&p, &waiting[num_waiting])) {
		num_waiting++;
		requests++;
	}
	if (num_waiting && chance(3))
		answer(chance(num_waiting));
	for (n = chance(12); n < 4; n++)
		move_away((int)chance(2), chance(PAGED_PAGES));
	for (i = 0; !chance(200) && i < PAGED_PAGES; i++)
		move_away((int)chance(2), i);
}

static uint32_t post(enum op op, uint32_t i, uint32_t slice)
{
	const uint32_t lengths[] = { 1, 64, 1024, 4096, 30000, slice, slice };
	uint32_t off = i * slice, len = lengths[chance(7)];
	struct moor_sq_wqe *wqe;

	if (op == OP_ADD) {
		wqe = paged_post(&p, opcodes[op], i, COUNTER + 8 * i, COUNTER, 8);
		((struct moor_wqe_atomic *)(wqe + 1))->swap_add = 1;
		return 8;
	}
	fill_bytes(op == OP_READ, off, len);
	if (op == OP_SEND || op == OP_WRITE_IMM)
		paged_recv(&p, i, off, len);
	paged_post(&p, opcodes[op], i, off, off, len);
	return len;
}

/* Return: how many of @count messages arrived as they should. */
static unsigned int batch(uint32_t count, uint32_t slice, uint64_t *adds)
{
	uint32_t len[MAX_BATCH], i, rounds, sent = 0, good = 0;
	enum op op[MAX_BATCH];
	struct moor_cqe cqe;

	for (i = 0; i < count; i++) {
		op[i] = (enum op)chance(NUM_OPS);
		len[i] = post(op[i], i, slice);
	}
	announce(p.g, &p.qp[0]);
	for (rounds = 0; rounds < MAX_ROUNDS && sent < count; rounds++) {
		host();
		if (!nic_run(p.g->nic) && !chance(4))
			settle_timers(p.g, 1 + chance(3));
		while (poll_cq(p.g, &p.cq[0], &cqe)) {
			if (cqe.status || cqe.wr_id != sent)
				ok(false, "CQE %u: status %u wr_id %llu", sent,
				   cqe.status, (unsigned long long)cqe.wr_id);
			sent++;
		}
	}
	for (i = 0; i < sent; i++) {
		if (op[i] == OP_ADD)
			good += read_word(0, COUNTER + 8 * i) == (*adds)++;
		else
			good += same_bytes(i * slice, len[i]);
	}
	for (i = 0; i < sent; i++)
		if (op[i] == OP_SEND || op[i] == OP_WRITE_IMM)
			good -= !poll_cq(p.g, &p.cq[1], &cqe) || cqe.status ||
				cqe.wr_id != i;
	return good;
}

static void begin(bool strict, bool lossy)
{
	static const struct impairment loss = {
		.lose = 2, .repeat = 2, .reorder = 2, .delay = 2, .damage = 2,
	};
	unsigned int i;

	paged_start(&p, strict, MOOR_QP_RC);
	for (i = 0; i < PAGED_PAGES; i++) {
		place[0][i] = p.m[0].pages + i * 4096;
		place[1][i] = p.m[1].pages + i * 4096;
	}
	for (i = 0; i < 16; i++)
		spare[i] = take(p.g, 4096);
	memset(byte_at(1, COUNTER), 0, 8);
	num_waiting = 0;
	requests = 0;
	moves = 0;
	if (lossy && !port_impair(p.g->nic, &loss))
		abort();
	if (lossy)
		paged_retries(&p, 7, 7);
}

static void test(bool strict, bool lossy, unsigned int batches)
{
	unsigned int n, good = 0, all = 0;
	uint64_t adds = 0;

	begin(strict, lossy);
	for (n = 0; n < batches; n++) {
		/* Many short ones, or few that loopback cuts too. */
		uint32_t count = chance(2) ? MAX_BATCH : 3;

		good += batch(count, count == 3 ? 330000 : 36000, &adds);
		all += count;
	}
	ok(good == all && adds == read_word(1, COUNTER) && requests > batches &&
	   moves > batches,
	   "%s%s: %u messages of %u arrive, %llu atomics once; %u requests, %u pages moved",
	   strict ? "strict" : "not strict", lossy ? ", lossy port" : "", good,
	   all, (unsigned long long)adds, requests, moves);
	paged_stop(&p);
}

int main(int argc, char **argv)
{
	unsigned int batches = argc > 1 ? (unsigned int)atoi(argv[1]) : 20;
	unsigned int i;

	/* One that has found something. */
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 26;
	for (i = 0; i < 4; i++)
		test(i & 1, i & 2, batches);
	return done();
}
