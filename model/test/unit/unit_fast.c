// SPDX-License-Identifier: GPL-2.0
/* Fast registration: REG_MR, invalidation, two tables (HWI 6.9). */
#include <string.h>

#include "guest.h"

#define PD	5
#define PAGES	8u
#define LEN	(PAGES * 4096u)
#define RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
		 MOOR_ACCESS_REMOTE_READ)
#define OK	0u
#define BAD(syndrome)	(MOOR_WC_MW_BIND_ERR << 8 | MOOR_SYN_##syndrome)
#define MALFORMED	(MOOR_WC_LOC_QP_OP_ERR << 8 | MOOR_SYN_WQE)

static struct guest *g;
static struct guest_cq cq[2];
static struct guest_qp qp[2];
static uint64_t buf[3], table[2];	/* 0: the peer's; 1, 2: registered */
static uint32_t lkey;
static uint32_t next_index = 0x8000;

static void start(bool strict, uint8_t flags)
{
	int i;

	g = guest_start(strict);
	guest_set_gid(g, 0, 1);
	for (i = 0; i < 2; i++)
		if (make_cq(g, &cq[i], i, 8) ||
		    make_special_qp(g, &qp[i], 0x4000u * (i + 1) + 3 + i, PD,
				    &cq[i], &cq[i], MOOR_QP_RC, flags))
			ok(false, "create CQ, QP");
	for (i = 0; i < 3; i++)
		buf[i] = take(g, LEN);
	for (i = 0; i < 2; i++)
		table[i] = take(g, 4096);
	lkey = make_mr(g, PD, MOOR_ACCESS_LOCAL_WRITE, buf[0], LEN);
	connect_qp(g, &qp[0], qp[1].qpn);
	connect_qp(g, &qp[1], qp[0].qpn);
}

static void revive(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};
	struct moor_cqe cqe;
	struct moor_eqe eqe;
	int i;

	for (i = 0; i < 2; i++) {
		modify(g, &cmd, qp[i].qpn);
		qp[i].sq_producer = 0;
		qp[i].rq_producer = 0;
		while (poll_cq(g, &cq[i], &cqe))
			;
	}
	while (next_event(g, 0, &eqe))
		;
	connect_qp(g, &qp[0], qp[1].qpn);
	connect_qp(g, &qp[1], qp[0].qpn);
}

static struct moor_mr_context good_entry(void)
{
	return (struct moor_mr_context){ .pd = PD, .max_pages = PAGES };
}

static uint32_t make_fast_mr(struct moor_mr_context e)
{
	uint32_t key = next_index++ << 16 | 0x4200;

	put_entry(g, key, &e, MOOR_MRC_TYPE_FAST_REG);
	return key;
}

/* The pages of a buffer, in reverse, into a table. */
static void fill_table(int t, uint64_t addr)
{
	uint64_t *pte = at(g, table[t]);
	unsigned int i;

	for (i = 0; i < PAGES; i++)
		pte[i] = (addr + (PAGES - 1 - i) * 4096) | MOOR_PTE_PRESENT |
			 MOOR_PTE_WRITABLE | MOOR_PTE_LEAF;
}

static struct moor_wqe_reg all_of(uint32_t key, int t)
{
	return (struct moor_wqe_reg){
		.key = key, .access = RIGHTS, .length = LEN,
		.xlat = { .root = table[t] | MOOR_PTE_PRESENT, .levels = 1,
			  .page_shift = 12 },
	};
}

/* Status and syndrome of the work request just rung for, as one number. */
static unsigned int outcome(int i)
{
	struct moor_cqe cqe;
	unsigned int got;

	ring(g, &qp[i]);
	if (!poll_cq(g, &cq[i], &cqe))
		return ~0u;
	got = (unsigned int)cqe.status << 8 | cqe.syndrome;
	if (got)
		revive();
	return got;
}

static unsigned int reg_mr(struct moor_wqe_reg reg, uint64_t iova)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[1], MOOR_WQE_REG_MR, 1);

	wqe->remote_addr = iova;
	memcpy(wqe + 1, &reg, sizeof(reg));
	return outcome(1);
}

static unsigned int local_inv(uint32_t key)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[1], MOOR_WQE_LOCAL_INV, 1);

	wqe->inv_key = key;
	return outcome(1);
}

/* QP 0 writes a byte through the MR. */
static unsigned int write_byte(uint32_t key, uint64_t addr, uint8_t value)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[0], MOOR_WQE_WRITE, 2);

	*(uint8_t *)at(g, buf[0]) = value;
	wqe->remote_addr = addr;
	wqe->rkey = key;
	add_sge(wqe, sge(buf[0], 1, lkey));
	return outcome(0);
}

static uint8_t state_of(uint32_t key)
{
	struct moor_cmd_mr_query cmd = {
		.hdr.opcode = MOOR_CMD_MR_QUERY, .key = key,
	};

	command(g, &cmd, sizeof(cmd));
	return ((struct moor_cpl_mr_query *)g->cpl.out)->state;
}

/* Byte @x of what fill_table() maps. */
static uint8_t *byte_of(uint64_t addr, uint64_t x)
{
	return at(g, addr + (PAGES - 1 - x / 4096) * 4096 + x % 4096);
}

static void test_life(void)
{
	uint32_t key = make_fast_mr(good_entry());
	const uint64_t iova = 0x7000;

	fill_table(0, buf[1]);
	ok(state_of(key) == MOOR_MR_STATE_FREE, "starts FREE");
	ok(write_byte(key, iova, 1) == MOOR_WC_REM_ACCESS_ERR << 8,
	   "no access while FREE");
	ok(local_inv(key) == BAD(KEY), "no LOCAL_INV while FREE");
	ok(reg_mr(all_of(key + 3, 0), iova) == OK, "REG_MR");
	ok(state_of(key) == MOOR_MR_STATE_VALID, "VALID");
	ok(!write_byte(key + 3, iova + 5000, 2) && *byte_of(buf[1], 5000) == 2,
	   "a peer reaches it by the key of the registration");
	ok(write_byte(key, iova, 1) == MOOR_WC_REM_ACCESS_ERR << 8,
	   "and by no other byte");
	ok(reg_mr(all_of(key + 4, 0), iova) == BAD(KEY) &&
	   !write_byte(key + 3, iova, 3), "REG_MR of a VALID MR changes nothing");
	ok(local_inv(key) == BAD(KEY), "LOCAL_INV wants the whole key");
	ok(local_inv(key + 3) == OK, "LOCAL_INV");
	ok(write_byte(key + 3, iova, 4) == MOOR_WC_REM_ACCESS_ERR << 8,
	   "the key is dead");
	ok(reg_mr(all_of(key + 3, 0), iova) == OK, "the byte may stay");
	ok(revoke_key(g, key) == 0 &&
	   write_byte(key + 3, iova, 4) == MOOR_WC_REM_ACCESS_ERR << 8,
	   "revoke ends it");
	ok(reg_mr(all_of(key, 0), iova) == BAD(KEY), "for good");
}

/* Translations that --strict kept of the last registration must be gone. */
static void test_two_tables(void)
{
	uint32_t key = make_fast_mr(good_entry());

	fill_table(0, buf[1]);
	fill_table(1, buf[2]);
	ok(!reg_mr(all_of(key, 0), 0) && !write_byte(key, 100, 0x11) &&
	   *byte_of(buf[1], 100) == 0x11, "through the first table");
	ok(!local_inv(key) && !reg_mr(all_of(key, 1), 0) &&
	   !write_byte(key, 100, 0x22) && *byte_of(buf[2], 100) == 0x22 &&
	   *byte_of(buf[1], 100) == 0x11, "through the second, by the same key");
	fill_table(0, buf[2]);
	ok(!local_inv(key) && !reg_mr(all_of(key, 0), 0) &&
	   !write_byte(key, 4096, 0x33) && *byte_of(buf[2], 4096) == 0x33,
	   "through the first one, written anew");
}

static void refuse(const char *what, struct moor_wqe_reg reg, uint64_t iova,
		   unsigned int want)
{
	unsigned int got = reg_mr(reg, iova);

	ok(got == want, "%s: %#x, expected %#x", what, got, want);
	if (got == OK)
		local_inv(reg.key);
}

static void test_checks(void)
{
	uint32_t key = make_fast_mr(good_entry());
	struct moor_mr_context e = good_entry();
	struct moor_wqe_reg reg = all_of(key, 0);

	fill_table(0, buf[1]);
	refuse("good", reg, 0x1000, OK);
	reg.key = key + 0x100;
	refuse("another nonce", reg, 0, BAD(KEY));
	e.pd = PD + 1;
	reg.key = make_fast_mr(e);
	refuse("another PD", reg, 0, BAD(PD));
	reg = all_of(key, 0);
	reg.access = MOOR_ACCESS_REMOTE_WRITE;
	refuse("REMOTE_WRITE alone", reg, 0, BAD(RIGHTS));
	reg.access = RIGHTS | MOOR_ACCESS_MW_BIND;
	refuse("MW_BIND", reg, 0, BAD(RIGHTS));
	reg.access = RIGHTS | MOOR_ACCESS_ON_DEMAND;
	refuse("ON_DEMAND", reg, 0, BAD(RIGHTS));
	reg.access = 1u << 31;
	refuse("unknown right", reg, 0, BAD(RIGHTS));
	reg.access = 0;
	refuse("no right but local read", reg, 0, OK);
	reg = all_of(key, 0);
	reg.length = 0;
	refuse("length 0", reg, 0, BAD(LENGTH));
	reg.length = (1ull << 63) + 1;
	refuse("length beyond MAX_MR_SIZE", reg, 0, BAD(LENGTH));
	reg = all_of(key, 0);
	refuse("up to the end of addresses", reg, -(uint64_t)LEN, OK);
	refuse("iova wraps", reg, 1 - (uint64_t)LEN, BAD(BOUNDS));
	reg.xlat.offset = 1;
	refuse("a byte more than max_pages", reg, 0, BAD(TRANSLATION));
	reg.length = LEN - 1;
	refuse("offset inside max_pages", reg, 0, OK);
	reg.xlat.offset = ~0ull;
	refuse("offset wraps", reg, 0, BAD(TRANSLATION));
	reg = all_of(key, 0);
	reg.xlat.levels = 6;
	refuse("six levels", reg, 0, BAD(TRANSLATION));
	reg = all_of(key, 0);
	reg.xlat.page_shift = 11;
	refuse("pages of 2 KiB", reg, 0, BAD(TRANSLATION));
	reg = all_of(key, 0);
	reg.xlat.levels = 0;
	reg.xlat.root |= MOOR_PTE_LEAF;
	reg.xlat.memory = MOOR_MEMORY_NIC;
	refuse("on-NIC memory", reg, 0, BAD(TRANSLATION));
	reg.xlat.memory = MOOR_MEMORY_GATHER;
	refuse("gather list", reg, 0, BAD(TRANSLATION));
	reg.key = make_mr(g, PD, RIGHTS, buf[1], LEN);
	refuse("a plain MR", reg, 0, BAD(KEY));
	reg.key = next_index << 16;
	put_entry(g, next_index++ << 16, &(struct moor_mr_context){ .pd = PD },
		  MOOR_MRC_TYPE_MW_2);
	refuse("a window", reg, 0, BAD(KEY));
}

static void test_entry_form(void)
{
	struct moor_mr_context e = good_entry();

	e.max_pages = 0;
	refuse("no max_pages", all_of(make_fast_mr(e), 0), 0, BAD(KEY));
	e = good_entry();
	e.access = 1;
	refuse("rights in the entry", all_of(make_fast_mr(e), 0), 0, BAD(KEY));
	e = good_entry();
	e.length = LEN;
	refuse("a length in the entry", all_of(make_fast_mr(e), 0), 0, BAD(KEY));
	e = good_entry();
	e.xlat = flat(buf[1]);
	refuse("a translation in the entry", all_of(make_fast_mr(e), 0), 0,
	       BAD(KEY));
}

static unsigned int send_inv(uint32_t key)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[0], MOOR_WQE_SEND_INV, 3);

	wqe->inv_key = key;
	post_recv(g, &qp[1], 4, NULL, 0);
	return outcome(0);
}

static void test_remote_invalidate(void)
{
	uint32_t key = make_fast_mr(good_entry());
	struct moor_cqe cqe;

	fill_table(0, buf[1]);
	reg_mr(all_of(key, 0), 0);
	ok(!send_inv(key) && poll_cq(g, &cq[1], &cqe) &&
	   cqe.flags == MOOR_CQE_FLAG_INV && cqe.inv_key == key,
	   "SEND with invalidate: the receiver is told the key");
	ok(state_of(key) == MOOR_MR_STATE_FREE, "and it is FREE");
	ok(send_inv(key), "a second one is refused");
	revive();
}

/* Two WQEs with one doorbell, and a WQE of an ordinary QP. */
static void test_queue(void)
{
	uint32_t key = make_fast_mr(good_entry());
	struct moor_wqe_reg reg = all_of(key, 0);
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe;
	unsigned int i;

	fill_table(0, buf[1]);
	for (i = 0; i < 20; i++) {
		wqe = next_send(g, &qp[1], MOOR_WQE_REG_MR, 1);
		wqe->flags = 0;
		memcpy(wqe + 1, &reg, sizeof(reg));
		wqe = next_send(g, &qp[1], MOOR_WQE_LOCAL_INV, 2);
		wqe->flags = i == 19 ? MOOR_WQE_FLAG_SIGNALED : 0;
		wqe->inv_key = key;
	}
	ring(g, &qp[1]);
	ok(poll_cq(g, &cq[1], &cqe) && cqe.wr_id == 2 && !cqe.status &&
	   !poll_cq(g, &cq[1], &cqe), "20 cycles at once");
	wqe = next_send(g, &qp[1], MOOR_WQE_REG_MR, 1);
	memcpy(wqe + 1, &reg, sizeof(reg));
	wqe->num_sge = 1;
	ok(outcome(1) == MALFORMED, "REG_MR with an SGE");
	guest_stop(g);
	start(false, 0);
	ok(reg_mr(all_of(make_fast_mr(good_entry()), 0), 0) == MALFORMED,
	   "REG_MR on a QP of a process");
}

int main(void)
{
	int strict;

	for (strict = 0; strict < 2; strict++) {
		start(strict, MOOR_QP_FLAG_KERNEL);
		test_life();
		test_two_tables();
		test_checks();
		test_entry_form();
		test_remote_invalidate();
		test_queue();
		guest_stop(g);
	}
	return done();
}
