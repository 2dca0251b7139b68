// SPDX-License-Identifier: GPL-2.0
/* Which accesses a key allows, one check of HWI 6.3 and 6.7 at a time. */
#include <string.h>

#include "guest.h"
#include "memory/mr.h"

#define PD	5
#define REMOTE	(MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_REMOTE_READ | \
		 MOOR_ACCESS_REMOTE_ATOMIC)
#define RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | REMOTE)
#define LEN	4096u
#define FIRST_WINDOW	0x8000u

static struct guest *g;
static uint64_t buf;

static uint8_t try_on(uint32_t qpn, uint32_t pd, uint32_t key, uint32_t need)
{
	const struct mr_actor actor = { .qpn = qpn, .pd = pd };
	struct mr_grant grant;
	uint64_t len = 8;
	uint8_t *ptr, syndrome;

	syndrome = mr_grant_access(g->nic, &actor, key, buf, len, need, &grant);
	return syndrome ? syndrome : mr_grant_ptr(g->nic, &grant, 0, &len, &ptr);
}

static uint8_t try(uint32_t key, uint32_t need)
{
	return try_on(9, PD, key, need);
}

static uint32_t put_mr(uint32_t index, uint32_t access)
{
	struct moor_mr_context e = {
		.pd = PD, .access = access, .iova = buf, .length = LEN,
		.xlat = flat(buf),
	};
	uint32_t key = index << 16 | 0x700;

	put_entry(g, key, &e, MOOR_MRC_TYPE_MR);
	return key;
}

static void test_mr(void)
{
	uint32_t key = make_mr(g, PD, RIGHTS, buf, LEN);
	struct moor_mr_context read_only = {
		.pd = PD, .access = RIGHTS, .iova = buf, .length = LEN,
		.xlat = flat(buf),
	};

	ok(!try(key, 0) && !try(key, MOOR_ACCESS_REMOTE_WRITE), "its own PD");
	ok(try_on(9, PD + 1, key, 0) == MOOR_SYN_PD, "another PD, locally");
	ok(try_on(9, PD + 1, key, MOOR_ACCESS_REMOTE_READ) == MOOR_SYN_PD,
	   "another PD, as a peer");

	key = make_mr(g, PD, REMOTE, buf, LEN);
	ok(!try(key, MOOR_ACCESS_REMOTE_READ), "no local write: read");
	ok(try(key, MOOR_ACCESS_REMOTE_WRITE) == MOOR_SYN_RIGHTS &&
	   try(key, MOOR_ACCESS_REMOTE_ATOMIC) == MOOR_SYN_RIGHTS,
	   "no local write: no remote write either");

	read_only.xlat.root &= ~MOOR_PTE_WRITABLE;
	key = g->next_mr++ << 16 | 0x700;
	put_entry(g, key, &read_only, MOOR_MRC_TYPE_MR);
	ok(!try(key, MOOR_ACCESS_REMOTE_READ), "read-only memory: read");
	ok(try(key, MOOR_ACCESS_REMOTE_WRITE) == MOOR_SYN_TRANSLATION &&
	   try(key, MOOR_ACCESS_LOCAL_WRITE) == MOOR_SYN_TRANSLATION,
	   "read-only memory: not written");

	ok(!try(put_mr(FIRST_WINDOW - 1, RIGHTS), 0), "the last index of MRs");
	ok(try(put_mr(FIRST_WINDOW, RIGHTS), 0) == MOOR_SYN_KEY,
	   "an MR where windows are");
}

/* QP 0, of PD, is connected to itself; a window of type 1 is bound there. */
struct loop {
	struct guest_cq cq;
	struct guest_qp qp;
};

static void loop_start(struct loop *l)
{
	if (make_cq(g, &l->cq, 0, 6) ||
	    make_qp(g, &l->qp, 0x4003, PD, &l->cq, &l->cq))
		ok(false, "create CQ, QP");
	connect_qp(g, &l->qp, l->qp.qpn);
}

/* Status and syndrome of the last work request. */
static unsigned int result(struct loop *l)
{
	struct moor_cqe cqe;

	ring(g, &l->qp);
	return poll_cq(g, &l->cq, &cqe) ?
	       (unsigned int)cqe.status << 8 | cqe.syndrome : ~0u;
}

static unsigned int bind(struct loop *l, uint32_t mw, uint32_t mr)
{
	struct moor_sq_wqe *wqe = next_send(g, &l->qp, MOOR_WQE_BIND_MW, 1);
	struct moor_wqe_bind bind = {
		.mw_key = mw, .new_key = mw + 1, .mr_lkey = mr,
		.access = REMOTE, .addr = buf, .length = LEN,
	};

	memcpy(wqe + 1, &bind, sizeof(bind));
	return result(l);
}

static void revive(struct loop *l)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};
	struct moor_cqe cqe;

	modify(g, &cmd, l->qp.qpn);
	l->qp.sq_producer = 0;
	l->qp.rq_producer = 0;
	while (poll_cq(g, &l->cq, &cqe))
		;
	connect_qp(g, &l->qp, l->qp.qpn);
}

static void test_window(void)
{
	const uint32_t bindable = MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_MW_BIND;
	uint32_t mr = make_mr(g, PD, bindable, buf, LEN);
	uint32_t other = make_mr(g, PD, bindable, buf, LEN);
	struct moor_cmd_mr_revoke cmd = {
		.hdr.opcode = MOOR_CMD_MR_REVOKE, .count = 3,
		.key = { make_mr(g, PD, RIGHTS, buf, LEN), mr, other },
	};
	struct moor_cpl_mr_revoke *out = (void *)g->cpl.out;
	struct moor_mr_context e = { .pd = PD };
	uint32_t mw = (FIRST_WINDOW + 1) << 16 | 0x4200;
	struct loop l;

	loop_start(&l);
	put_entry(g, mw, &e, MOOR_MRC_TYPE_MW_1);
	ok(!bind(&l, mw++, mr), "bind");
	ok(!try_on(77, PD, mw, MOOR_ACCESS_REMOTE_READ),
	   "type 1 through any QP of its PD");
	ok(try_on(77, PD + 1, mw, MOOR_ACCESS_REMOTE_READ) == MOOR_SYN_PD,
	   "type 1 through a QP of another PD");
	ok(!command(g, &cmd, sizeof(cmd)) && out->busy == 2 && !out->unknown,
	   "three keys, one with a window: that one is busy");
	ok(try(cmd.key[0], 0) == MOOR_SYN_KEY && !try(mr, 0) &&
	   try(other, 0) == MOOR_SYN_KEY, "and the others are gone");
	ok(bind(&l, mw, other) == (MOOR_WC_MW_BIND_ERR << 8 | MOOR_SYN_KEY),
	   "bind to an MR that is revoked");
	revive(&l);
	ok(!try(mw, MOOR_ACCESS_REMOTE_READ), "the old binding stays");
}

static void test_local_inv(void)
{
	uint32_t mr = make_mr(g, PD, RIGHTS, buf, LEN);
	struct loop l;

	loop_start(&l);
	next_send(g, &l.qp, MOOR_WQE_LOCAL_INV, 1)->inv_key = mr;
	ok(result(&l) == (MOOR_WC_MW_BIND_ERR << 8 | MOOR_SYN_KEY),
	   "LOCAL_INV of a plain MR");
	ok(!try(mr, MOOR_ACCESS_REMOTE_WRITE), "it goes on");
}

static void remote(struct loop *l, uint8_t opcode, uint32_t key)
{
	struct moor_sq_wqe *wqe = next_send(g, &l->qp, opcode, 1);

	wqe->remote_addr = buf;
	wqe->rkey = key;
	add_sge(wqe, sge(buf + 64, 8, key));
}

static void test_qp_rights(void)
{
	static const struct {
		uint8_t opcode;
		uint32_t right;
		const char *what;
	} ops[] = {
		{ MOOR_WQE_WRITE, MOOR_ACCESS_REMOTE_WRITE, "WRITE" },
		{ MOOR_WQE_READ, MOOR_ACCESS_REMOTE_READ, "READ" },
		{ MOOR_WQE_FETCH_ADD, MOOR_ACCESS_REMOTE_ATOMIC, "atomic" },
	};
	uint32_t key = make_mr(g, PD, RIGHTS, buf, LEN);
	struct moor_cmd_modify_qp cmd = { .mask = MOOR_QP_ATTR_ACCESS };
	struct loop l;
	unsigned int i;

	loop_start(&l);
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		cmd.access = (uint8_t)ops[i].right;
		modify(g, &cmd, l.qp.qpn);
		remote(&l, ops[i].opcode, key);
		ok(!result(&l), "%s: a QP that allows nothing else", ops[i].what);
		cmd.access = (uint8_t)(REMOTE & ~ops[i].right);
		modify(g, &cmd, l.qp.qpn);
		remote(&l, ops[i].opcode, key);
		ok(result(&l) == MOOR_WC_REM_ACCESS_ERR << 8,
		   "%s: a QP that allows everything else", ops[i].what);
		revive(&l);
	}
}

static void with_guest(void (*test)(void))
{
	int strict;

	for (strict = 0; strict < 2; strict++) {
		g = guest_start(strict);
		guest_set_gid(g, 0, 1);
		buf = take(g, LEN);
		test();
		guest_stop(g);
	}
}

int main(void)
{
	with_guest(test_mr);
	with_guest(test_window);
	with_guest(test_local_inv);
	with_guest(test_qp_rights);
	return done();
}
