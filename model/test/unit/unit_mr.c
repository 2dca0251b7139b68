// SPDX-License-Identifier: GPL-2.0
/* Context entries: form, life, what --strict keeps, which QPs may use them (HWI 6). */
#include <string.h>

#include "guest.h"
#include "memory/transfer.h"

#define RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
		 MOOR_ACCESS_REMOTE_READ | MOOR_ACCESS_REMOTE_ATOMIC)
#define LEN	8192u

static struct guest *g;
static const struct mr_actor user = { .qpn = 9, .pd = 5 };
static const struct mr_actor kernel = { .qpn = 9, .pd = 5, .kernel = true };

/* The syndrome of looking a key up and translating the first byte. */
static uint8_t try(const struct mr_actor *actor, uint32_t key, uint64_t addr,
		   uint64_t len, uint32_t need, uint8_t **ptr)
{
	struct mr_grant grant;
	uint8_t syndrome, *dummy;

	syndrome = mr_grant_access(g->nic, actor, key, addr, len, need, &grant);
	if (syndrome)
		return syndrome;
	return mr_grant_ptr(g->nic, &grant, 0, &len, ptr ? ptr : &dummy);
}

/* Compares contents: the NIC has its own mapping of the guest's memory. */
static bool is_at(const uint8_t *ptr, uint64_t addr)
{
	uint64_t len = 1;

	return ptr == dma_map_ptr(g->dma, addr, &len, false);
}

static void test_bounds(void)
{
	uint64_t buf = take(g, LEN);
	uint32_t key = make_mr(g, 5, RIGHTS, buf + 100, 1000);
	uint8_t *ptr;

	ok(!try(&user, key, buf + 100, 1000, MOOR_ACCESS_REMOTE_WRITE, &ptr) &&
	   is_at(ptr, buf + 100), "all of it");
	ok(try(&user, key, buf + 99, 1, 0, NULL) == MOOR_SYN_BOUNDS, "first - 1");
	ok(try(&user, key, buf + 1100, 1, 0, NULL) == MOOR_SYN_BOUNDS, "last + 1");
	ok(try(&user, key, buf + 100, 1001, 0, NULL) == MOOR_SYN_BOUNDS,
	   "one byte more");
	ok(try(&user, key, buf + 101, ~0ull, 0, NULL) == MOOR_SYN_BOUNDS,
	   "length that wraps");
	ok(try(&user, key, ~0ull, 2, 0, NULL) == MOOR_SYN_BOUNDS,
	   "address that wraps");
	ok(!try(&user, key, buf + 1099, 1, 0, NULL), "last byte");
}

static struct moor_mr_context good_entry(uint64_t buf)
{
	return (struct moor_mr_context){
		.pd = 5, .access = RIGHTS, .iova = buf, .length = LEN,
		.xlat = flat(buf),
	};
}

static uint8_t try_entry(struct moor_mr_context e, unsigned int type)
{
	uint32_t key = g->next_mr++ << 16 | 0x55aa;

	put_entry(g, key, &e, type);
	return try(&user, key, e.iova, 1, 0, NULL);
}

static void test_form(void)
{
	struct moor_mr_context good = good_entry(take(g, LEN)), e;

	ok(!try_entry(good, 1), "a good entry");
	e = good;
	e.length = 0;
	ok(try_entry(e, 1) == MOOR_SYN_KEY, "length 0");
	e = good;
	e.iova = ~0ull - 10;
	ok(try_entry(e, 1) == MOOR_SYN_KEY, "iova + length wraps");
	e = good;
	e.pd = 0x1000005;
	ok(try_entry(e, 1) == MOOR_SYN_KEY, "PD of 25 bits");
	e = good;
	e.access |= 0x80;
	ok(try_entry(e, 1) == MOOR_SYN_KEY, "unknown right");
	e = good;
	e.max_pages = 1;
	ok(try_entry(e, 1) == MOOR_SYN_KEY, "max_pages");
	e = good;
	e.xlat.offset = ~0ull;
	ok(try_entry(e, 1) == MOOR_SYN_KEY, "offset + length wraps");
	e = good;
	e.xlat.reserved1 = 1;
	ok(try_entry(e, 1) == MOOR_SYN_KEY, "reserved byte");
	ok(try_entry(good, MOOR_MRC_TYPE_FAST_REG) == MOOR_SYN_KEY &&
	   try_entry(good, MOOR_MRC_TYPE_MW_1) == MOOR_SYN_KEY &&
	   try_entry(good, MOOR_MRC_TYPE_MW_2) == MOOR_SYN_KEY &&
	   try_entry(good, 6) == MOOR_SYN_KEY,
	   "types that are not offered");
	ok(try_entry(good, 1 | 1u << 16) == MOOR_SYN_KEY,
	   "reserved bits of the valid word");
	e = good;
	e.xlat.root &= ~MOOR_PTE_WRITABLE;
	ok(!try_entry(e, 1), "read-only memory, read");
}

static void test_kinds(void)
{
	uint32_t null = (uint32_t)nic_reg_read(g->nic, MOOR_REG_NULL_LKEY, 4);
	uint32_t key = g->next_mr++ << 16 | 0x1111;
	struct moor_mr_context all = { .pd = 5, .access = RIGHTS };
	struct moor_mr_context e = good_entry(0x1000);
	struct mr_grant grant;
	uint64_t buf = take(g, LEN);
	uint8_t *ptr;

	put_entry(g, key, &all, MOOR_MRC_TYPE_ALL);
	ok(!try(&kernel, key, buf + 5, 7, MOOR_ACCESS_LOCAL_WRITE, &ptr) &&
	   is_at(ptr, buf + 5), "all of memory, kernel QP");
	ok(try(&user, key, buf, 1, 0, NULL) == MOOR_SYN_KEY, "and another QP");
	ok(try(&kernel, key, GUEST_BASE + GUEST_MEMORY, 1, 0, NULL) ==
	   MOOR_SYN_DMA, "beyond what is mapped");
	ok(!mr_grant_access(g->nic, &user, null, ~0ull, 1ull << 40,
			    MOOR_ACCESS_LOCAL_WRITE, &grant) &&
	   grant.kind == MR_KIND_NULL, "null MR, locally");
	ok(mr_grant_access(g->nic, &user, null, 0, 1,
			   MOOR_ACCESS_REMOTE_READ, &grant) == MOOR_SYN_KEY,
	   "null MR as an rkey");
	ok(revoke_key(g, null) == 2, "null MR cannot be revoked");

	e.xlat.memory = MOOR_MEMORY_NIC;
	e.xlat.root = 0x2000 | MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
		      MOOR_PTE_WRITABLE;
	e.xlat.offset = 4;
	key = g->next_mr++ << 16 | 0x2222;
	put_entry(g, key, &e, MOOR_MRC_TYPE_MR);
	ok(!try(&user, key, e.iova, 8, MOOR_ACCESS_LOCAL_WRITE, &ptr) &&
	   ptr == g->db_bar + NIC_DM_OFFSET + 0x2004, "on-NIC memory");
	e.xlat.offset = NIC_DM_SIZE;
	key = g->next_mr++ << 16 | 0x2223;
	put_entry(g, key, &e, MOOR_MRC_TYPE_MR);
	ok(try(&user, key, e.iova, 8, 0, NULL) == MOOR_SYN_TRANSLATION,
	   "and nothing beyond its end");
}

/* A driver that takes memory away without a revoke. */
static void test_forgetful_driver(bool strict)
{
	uint64_t buf = take(g, LEN), other = take(g, LEN), node = take(g, 4096);
	struct moor_mr_context e = good_entry(buf);
	uint32_t key = g->next_mr++ << 16 | 0x3333;
	uint64_t *table = at(g, node);
	uint8_t *ptr;

	table[0] = buf | 7;
	e.length = 4096;
	e.xlat = (struct moor_xlat){
		.root = node | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
	};
	put_entry(g, key, &e, MOOR_MRC_TYPE_MR);
	ok(!try(&user, key, buf, 1, 0, &ptr) && is_at(ptr, buf),
	   "%s: reads the table", strict ? "strict" : "normal");
	table[0] = other | 7;
	ok(!try(&user, key, buf, 1, 0, &ptr) &&
	   is_at(ptr, strict ? buf : other), "  table changed");
	((struct moor_mr_context *)g->mr_bar)[key >> 16].valid = 0;
	ok(try(&user, key, buf, 1, 0, &ptr) == (strict ? 0 : MOOR_SYN_KEY),
	   "  entry cleared, not revoked");
	put_entry(g, key, &e, MOOR_MRC_TYPE_MR);
	ok(!try(&user, key, buf, 1, 0, &ptr) &&
	   is_at(ptr, strict ? buf : other),
	   "  entry rewritten, not revoked");
	ok(!revoke_key(g, key) &&
	   try(&user, key, buf, 1, 0, NULL) == MOOR_SYN_KEY, "  revoked");
	put_entry(g, key, &e, MOOR_MRC_TYPE_MR);
	ok(!try(&user, key, buf, 1, 0, &ptr) &&
	   is_at(ptr, other), "  next generation: the new table");
}

static uint8_t query(uint32_t key, struct moor_cpl_mr_query *out)
{
	struct moor_cmd_mr_query cmd = {
		.hdr.opcode = MOOR_CMD_MR_QUERY, .key = key,
	};
	uint8_t status = command(g, &cmd, sizeof(cmd));

	memcpy(out, g->cpl.out, sizeof(*out));
	return status;
}

static void test_revoke_batch(void)
{
	uint64_t buf = take(g, LEN);
	struct moor_cmd_mr_revoke cmd = {
		.hdr.opcode = MOOR_CMD_MR_REVOKE, .count = MOOR_REVOKE_MAX_KEYS,
	};
	struct moor_cpl_mr_revoke *out = (void *)g->cpl.out;
	struct moor_cpl_mr_query info;
	uint32_t i, gone = 0;

	for (i = 0; i < MOOR_REVOKE_MAX_KEYS; i++)
		cmd.key[i] = make_mr(g, 5, RIGHTS, buf, LEN) ^ (i == 3);
	ok(!query(cmd.key[0], &info) && info.state == MOOR_MR_STATE_VALID &&
	   info.iova == buf && info.length == LEN && info.access == RIGHTS,
	   "query: valid");
	ok(!command(g, &cmd, sizeof(cmd)) && out->unknown == 1u << 3 &&
	   !out->busy, "24 keys, one of them unknown");
	for (i = 0; i < MOOR_REVOKE_MAX_KEYS; i++)
		gone += try(&user, cmd.key[i], buf, 1, 0, NULL) == MOOR_SYN_KEY;
	ok(gone == MOOR_REVOKE_MAX_KEYS && !try(&user, cmd.key[3] ^ 1, buf, 1, 0,
						NULL), "23 gone, one not");
	ok(!query(cmd.key[0], &info) && info.state == MOOR_MR_STATE_REVOKED,
	   "query: revoked");
	ok(query(0x77770000, &info) == MOOR_CMD_BAD_INDEX, "query: none");
	cmd.count = 0;
	ok(command(g, &cmd, sizeof(cmd)) == MOOR_CMD_BAD_PARAM, "no keys");
	cmd.count = MOOR_REVOKE_MAX_KEYS + 1;
	ok(command(g, &cmd, sizeof(cmd)) == MOOR_CMD_BAD_PARAM, "25 keys");
	cmd.count = 1;
	ok(command(g, &cmd, sizeof(cmd)) == MOOR_CMD_BAD_RESERVED,
	   "keys behind the count");
}

/* Re-registered between two packets: the message does not go on in the new memory. */
static void test_message(void)
{
	uint64_t buf = take(g, LEN), elsewhere = take(g, LEN);
	uint32_t key = make_mr(g, 5, RIGHTS, buf, LEN);
	struct moor_mr_context e = good_entry(buf);
	struct segment segment = { .addr = buf, .length = LEN, .key = key };
	struct stream to = {
		.actor = &user, .segments = &segment, .num_segments = 1,
		.need = MOOR_ACCESS_REMOTE_WRITE,
	};
	static uint8_t data[LEN] = { [0 ... LEN - 1] = 7 };
	struct stream from = { .bytes = data }, *culprit;
	uint8_t *there = at(g, elsewhere);

	ok(!transfer(g->nic, &to, &from, LEN / 2, &culprit), "half a message");
	e.xlat = flat(elsewhere);
	revoke_key(g, key);
	put_entry(g, key, &e, MOOR_MRC_TYPE_MR);
	ok(transfer(g->nic, &to, &from, LEN / 2, &culprit) == MOOR_SYN_KEY &&
	   culprit == &to && !there[0] && !there[LEN / 2],
	   "re-registered: the other half fails and goes nowhere");
	stream_seek(&to, 0);
	stream_seek(&from, 0);
	segment.epoch = 0;
	ok(!transfer(g->nic, &to, &from, LEN, &culprit) && there[0] == 7 &&
	   there[LEN - 1] == 7, "the next message meets the new place alone");
}

int main(void)
{
	int strict;

	for (strict = 0; strict < 2; strict++) {
		g = guest_start(strict);
		test_bounds();
		test_form();
		test_kinds();
		test_forgetful_driver(strict);
		test_revoke_batch();
		test_message();
		guest_stop(g);
	}
	return done();
}
