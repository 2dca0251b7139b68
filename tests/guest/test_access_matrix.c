// SPDX-License-Identifier: GPL-2.0
/*
 * The access matrix (HWI 6.3, 6.7): every set of flags that a registration may have,
 * every set of rights that a window may be bound with, and every operation, local and
 * remote, by an MR's key and by windows of both types. Each cell is one request, of
 * which status and the effect on both buffers are checked.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"
#include "window.h"

#define BUFFER	4096u
#define START	1032u		/* of the object in side b's buffer */
#define SIZE	512u		/* of the object */
#define AT	64u		/* in the object: where the requests go */
#define LENGTH	96u

#define WRITING	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define RIGHTS	(WRITING | IBV_ACCESS_REMOTE_READ)

static struct pair pair;
static unsigned int cells, wrong;

/* A range of memory that a key gives access to. */
struct object {
	uint32_t key;
	uint64_t base;		/* address of its first byte */
	unsigned int access;	/* IBV_ACCESS_*; windows: remote rights */
	bool window;
};

enum operation {
	GATHER, SCATTER, RECEIVE,			/* local */
	WRITE, WRITE_IMM, READ, CMP_SWAP, FETCH_ADD,	/* remote */
	NUM_OPERATIONS,
};

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
	unsigned int needs;
} operations[] = {
	[GATHER] = { "gather", IBV_WR_RDMA_WRITE, 0 },
	[SCATTER] = { "scatter", IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE },
	[RECEIVE] = { "receive", IBV_WR_SEND, IBV_ACCESS_LOCAL_WRITE },
	[WRITE] = { "write", IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE },
	[WRITE_IMM] = { "write with immediate", IBV_WR_RDMA_WRITE_WITH_IMM,
			IBV_ACCESS_REMOTE_WRITE },
	[READ] = { "read", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ },
	[CMP_SWAP] = { "compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP,
		       IBV_ACCESS_REMOTE_ATOMIC },
	[FETCH_ADD] = { "fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD,
			IBV_ACCESS_REMOTE_ATOMIC },
};

static bool is_local(enum operation op)
{
	return op < WRITE;
}

static bool allowed(const struct object *o, enum operation op)
{
	if (o->window && is_local(op))
		return false;
	return (o->access & operations[op].needs) == operations[op].needs;
}

static const char *flags_text(unsigned int access)
{
	static const char *const names[] = {
		"LW", "RW", "RR", "RA", "BIND", "ZERO", "OD", "HUGE",
	};
	static char text[80];
	unsigned int i;

	text[0] = 0;
	for (i = 0; i < 8; i++)
		if (access & 1u << i)
			snprintf(text + strlen(text), sizeof(text) -
				 strlen(text), "%s%s", text[0] ? "," : "",
				 names[i]);
	if (access & IBV_ACCESS_RELAXED_ORDERING)
		strcat(text, text[0] ? ",RO" : "RO");
	return text[0] ? text : "none";
}

/* What both sides' buffers must contain after a request, and what before. */
static uint8_t want_a[BUFFER], want_b[BUFFER], fresh_a[BUFFER], fresh_b[BUFFER];

static void refill(void)
{
	memcpy(pair.a.buf, fresh_a, BUFFER);
	memcpy(pair.b.buf, fresh_b, BUFFER);
	memcpy(want_a, fresh_a, BUFFER);
	memcpy(want_b, fresh_b, BUFFER);
}

/* The effect of an operation that is allowed. */
static void expect_effect(enum operation op)
{
	uint8_t *target = want_b + START + AT;
	uint64_t word;

	switch (op) {
	case GATHER:
	case READ:
		memcpy(want_a, fresh_b + START + AT, LENGTH);
		break;
	case SCATTER:
	case RECEIVE:
	case WRITE:
	case WRITE_IMM:
		memcpy(target, fresh_a, LENGTH);
		break;
	case CMP_SWAP:
	case FETCH_ADD:
		memcpy(&word, target, sizeof(word));
		memcpy(want_a, &word, sizeof(word));
		word = op == FETCH_ADD ? word + 5 : 0x1122334455667788;
		memcpy(target, &word, sizeof(word));
		break;
	default:
		break;
	}
}

static struct outcome by_side_b(const struct object *o, enum operation op)
{
	struct request request = {
		.opcode = operations[op].opcode, .wr_id = 2,
		.local = (uint8_t *)(uintptr_t)(o->base + AT),
		.length = LENGTH, .lkey = o->key,
		.remote = (uintptr_t)pair.a.buf, .rkey = pair.a.mr->rkey,
	};

	return finish(&pair.b, post(&pair.b, &request));
}

static struct outcome by_side_a(const struct object *o, enum operation op)
{
	bool atomic = op == CMP_SWAP || op == FETCH_ADD;
	struct request request = {
		.opcode = operations[op].opcode, .wr_id = 2,
		.local = pair.a.buf, .length = atomic ? 8 : LENGTH,
		.lkey = pair.a.mr->lkey, .remote = o->base + AT,
		.rkey = o->key, .swap = 0x1122334455667788, .imm = 7,
	};

	memcpy(&request.compare_add, fresh_b + START + AT, 8);
	if (op == FETCH_ADD)
		request.compare_add = 5;
	return finish(&pair.a, post(&pair.a, &request));
}

/* Has the receive that belongs to the operation ended as it must? */
static bool receive_good(enum operation op, bool may)
{
	enum ibv_wc_status status = may ? IBV_WC_SUCCESS :
				    op == RECEIVE ? IBV_WC_LOC_PROT_ERR :
						    IBV_WC_LOC_ACCESS_ERR;
	struct ibv_wc wc = {};

	if (!wait_wc(pair.b.recv_cq, &wc))
		tap_bail("no completion of a receive");
	return wc.wr_id == 3 && wc.status == status &&
	       (!may || wc.byte_len == LENGTH);
}

static enum ibv_wc_status wanted_status(enum operation op, bool may)
{
	if (may)
		return IBV_WC_SUCCESS;
	if (op == RECEIVE)
		return IBV_WC_REM_OP_ERR;
	return is_local(op) ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR;
}

/* Tries one cell. Return: whether the pair had to be revived. */
static bool try_cell(const char *what, const struct object *o,
		     enum operation op, bool may)
{
	enum ibv_wc_status status = wanted_status(op, may);
	struct outcome got;
	bool good = true;

	refill();
	if (may)
		expect_effect(op);
	if (op == RECEIVE)
		post_receive(&pair.b, 3, (void *)(uintptr_t)(o->base + AT),
			     LENGTH, o->key);
	if (op == WRITE_IMM)
		post_receive(&pair.b, 3, NULL, 0, 0);
	got = op == GATHER || op == SCATTER ? by_side_b(o, op) :
					      by_side_a(o, op);
	if (op == RECEIVE || op == WRITE_IMM)
		good = receive_good(op, may);
	good = good && !got.posted && ended_with(got.status, status) &&
	       !memcmp(want_a, pair.a.buf, BUFFER) &&
	       !memcmp(want_b, pair.b.buf, BUFFER);
	cells++;
	if (!good) {
		wrong++;
		tap_diag("%s, %s: %s (syndrome %u), wanted %s; memory of a %s, of b %s",
			 what, operations[op].name,
			 ibv_wc_status_str(got.status), got.syndrome,
			 ibv_wc_status_str(status),
			 memcmp(want_a, pair.a.buf, BUFFER) ? "wrong" : "right",
			 memcmp(want_b, pair.b.buf, BUFFER) ? "wrong" : "right");
	}
	if (got.status)
		revive(&pair);
	return got.status;
}

static bool legal(unsigned int access)
{
	return !(access & WRITING) || (access & IBV_ACCESS_LOCAL_WRITE);
}

static struct ibv_mr *reg(unsigned int access)
{
	return must_reg(pair.pd, pair.b.buf + START, SIZE, access);
}

static uint64_t base_of(unsigned int access)
{
	return access & IBV_ACCESS_ZERO_BASED ? 0 :
	       (uintptr_t)pair.b.buf + START;
}

/* ---- MRs, windows, the QP's rights ---- */

static void test_mr(unsigned int access)
{
	struct ibv_mr *mr = reg(access);
	struct object o = {
		.key = mr->lkey, .base = base_of(access), .access = access,
	};
	unsigned int before = wrong;
	enum operation op;
	char what[100];

	snprintf(what, sizeof(what), "MR with %s", flags_text(access));
	for (op = 0; op < NUM_OPERATIONS; op++)
		try_cell(what, &o, op, allowed(&o, op));
	tap_ok(wrong == before && !ibv_dereg_mr(mr), "%s", what);
}

static bool may_bind(unsigned int mr_access, unsigned int rights)
{
	return (mr_access & IBV_ACCESS_MW_BIND) &&
	       (!(rights & WRITING) || (mr_access & IBV_ACCESS_LOCAL_WRITE));
}

static void unbind(struct ibv_mw *mw)
{
	struct outcome o;

	if (mw->type == IBV_MW_TYPE_2)
		o = invalidate(&apis[0], &pair.b, mw->rkey);
	else
		o = bind_window(&apis[0], &pair.b, mw, ibv_inc_rkey(mw->rkey),
				NULL, 0, 0, 0);
	if (o.posted || o.status)
		tap_bail("cannot unbind");
}

/* Binds a window with these rights. If that is allowed, tries all operations. */
static void test_rights(const char *what, struct ibv_mw *mw, struct ibv_mr *mr,
			uint64_t mr_base, bool may, unsigned int rights)
{
	uint32_t key = mw->rkey;
	struct outcome got = bind_window(&apis[0], &pair.b, mw,
					 ibv_inc_rkey(key), mr, mr_base, SIZE,
					 rights);
	struct object o = {
		.key = mw->rkey, .base = rights & IBV_ACCESS_ZERO_BASED ? 0 :
							mr_base,
		.access = rights, .window = true,
	};
	enum operation op;

	cells++;
	if (got.posted ||
	    got.status != (may ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR) ||
	    (!may && got.syndrome != SYN_RIGHTS)) {
		wrong++;
		tap_diag("%s: bind: errno %d, %s (syndrome %u)", what,
			 got.posted, ibv_wc_status_str(got.status),
			 got.syndrome);
	}
	if (got.status) {
		mw->rkey = key;
		revive(&pair);
		return;
	}
	for (op = 0; op < NUM_OPERATIONS; op++) {
		/* After the reset a window of type 2 is unbound. */
		if (try_cell(what, &o, op, allowed(&o, op)) &&
		    mw->type == IBV_MW_TYPE_2)
			must_bind(&apis[0], &pair.b, mw, mr, mr_base, SIZE,
				  rights);
		o.key = mw->rkey;
	}
	unbind(mw);
}

static void test_windows(enum ibv_mw_type type, unsigned int mr_access)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	struct ibv_mr *mr = reg(mr_access);
	unsigned int before = wrong, rights, zero;
	char what[160];

	for (rights = 0; rights <= RIGHTS; rights += 2) {
		for (zero = 0; zero < 2; zero++) {
			unsigned int all = rights |
					   (zero ? IBV_ACCESS_ZERO_BASED : 0);
			char of[80];

			snprintf(of, sizeof(of), "%s", flags_text(mr_access));
			snprintf(what, sizeof(what),
				 "window %d with %s of an MR with %s",
				 (int)type, flags_text(all), of);
			test_rights(what, mw, mr, base_of(mr_access),
				    may_bind(mr_access, rights), all);
		}
	}
	tap_ok(wrong == before && !ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr),
	       "windows %d of an MR with %s", (int)type,
	       flags_text(mr_access));
}

/* Tries rights of the responder's QP, with an object that allows everything. */
static void test_qp(unsigned int qp_access)
{
	unsigned int before = wrong;
	struct ibv_mr *mr = reg(ALL_ACCESS);
	struct object o = {
		.key = mr->rkey, .base = base_of(0), .access = ALL_ACCESS,
	};
	enum operation op;
	char what[100];

	pair.config.qp_access = qp_access;
	revive(&pair);
	snprintf(what, sizeof(what), "QP with %s", flags_text(qp_access));
	for (op = WRITE; op < NUM_OPERATIONS; op++)
		try_cell(what, &o, op, (qp_access & operations[op].needs) ==
				       operations[op].needs);
	tap_ok(wrong == before && !ibv_dereg_mr(mr), "%s", what);
}

/* Flags that imply local write are refused without it, with EINVAL. */
static void test_illegal(unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pair.pd, pair.b.buf, BUFFER, access);

	cells++;
	tap_ok(!mr && errno == EINVAL, "registration with %s",
	       flags_text(access));
	if (mr)
		ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	static const unsigned int extra[] = {
		0, IBV_ACCESS_ZERO_BASED, IBV_ACCESS_RELAXED_ORDERING,
		IBV_ACCESS_ZERO_BASED | IBV_ACCESS_RELAXED_ORDERING,
	};
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	unsigned int access, i;

	config.buffer_size = BUFFER;
	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr), &config);
	pair_connect(&pair);
	fill(fresh_a, BUFFER, 1);
	fill(fresh_b, BUFFER, 2);
	for (access = 0; access < 32; access++) {
		for (i = 0; i < 4; i++) {
			if (legal(access))
				test_mr(access | extra[i]);
			else
				test_illegal(access | extra[i]);
		}
	}
	for (access = 0; access < 32; access++) {
		if (!legal(access))
			continue;
		test_windows(IBV_MW_TYPE_1, access);
		test_windows(IBV_MW_TYPE_2, access);
	}
	test_windows(IBV_MW_TYPE_1, BINDABLE | IBV_ACCESS_ZERO_BASED);
	test_windows(IBV_MW_TYPE_2, BINDABLE | IBV_ACCESS_ZERO_BASED);
	for (access = 0; access <= RIGHTS; access += 2)
		test_qp(access);
	tap_ok(!wrong, "cells tried: %u, as specified: %u", cells,
	       cells - wrong);
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
