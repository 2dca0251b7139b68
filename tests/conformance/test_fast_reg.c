// SPDX-License-Identifier: GPL-2.0
/* Fast registration (HWI 6.9). */
#include <string.h>

#include "traffic.h"

#define MAX_PAGES	8u
#define IOVA		0x1234000ull
#define LENGTH		(5 * PAGE)
#define RIGHTS		(MOOR_ACCESS_LOCAL_WRITE | ALL_REMOTE)

/* Kernel QPs; QP 1, the responder, registers. */
struct fast {
	struct pair p;
	uint64_t table;
	uint32_t key;
};

static void kernel_qp(struct pair *p, unsigned int i, unsigned int log_stride)
{
	struct moor_cmd_create_qp cmd = qp_command(&p->qp[i], &p->cq[i],
						   &p->cq[i]);

	p->qp[i].log_stride = log_stride;
	cmd.log_rq_stride = (uint8_t)log_stride;
	cmd.log_sq_stride = cmd.log_rq_stride;
	cmd.flags = MOOR_QP_FLAG_KERNEL;
	must(cmd);
}

static uint32_t make_fast_mr(uint32_t pd)
{
	struct moor_mr_context e = { .pd = pd, .max_pages = MAX_PAGES };

	return make_entry(&e, MOOR_MRC_TYPE_FAST_REG);
}

static void begin(struct fast *f)
{
	unsigned int i;

	at_least(max_mr_size, BUF);
	memset(f, 0, sizeof(*f));
	for (i = 0; i < 2; i++) {
		make_cq(&f->p.cq[i], i, LOG_DEPTH + 1);
		kernel_qp(&f->p, i, LOG_STRIDE);
		f->p.buf[i] = take_filled(BUF, i + 1);
		f->p.key[i] = make_mr(PD, ALL_RIGHTS, f->p.buf[i], BUF);
	}
	connect_qp(&f->p.qp[0], f->p.qp[1].qpn);
	connect_qp(&f->p.qp[1], f->p.qp[0].qpn);
	f->table = take(PAGE);
	for (i = 0; i < MAX_PAGES; i++)
		((uint64_t *)at(f->table))[i] =
			(f->p.buf[1] + (i ^ 1) * PAGE) | MOOR_PTE_PRESENT |
			MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	f->key = make_fast_mr(PD);
}

static struct send_wr reg_wr(const struct fast *f, uint32_t key)
{
	return (struct send_wr){
		.opcode = MOOR_WQE_REG_MR, .wr_id = 8, .remote = IOVA,
		.reg = {
			.key = key, .access = RIGHTS, .length = LENGTH,
			.xlat = { .root = f->table | MOOR_PTE_PRESENT,
				  .levels = 1, .page_shift = 12 },
		},
	};
}

static void must_reg(struct fast *f, uint32_t key)
{
	post_send(&f->p.qp[1], reg_wr(f, key));
	expect_cqe(&f->p.cq[1], 8, MOOR_WC_SUCCESS, 0);
}

static struct moor_cpl_mr_query state_of(uint32_t key)
{
	struct moor_cpl_mr_query out;

	need(!query(key, &out), "MR_QUERY: status %u", answer.status);
	return out;
}

TEST_CASE(register_and_use, "REG_MR gives iova, length, rights and translation, under a new byte",
	  "FR-1 FR-5 FR-12 FR-13 DYN-2 DYN-5 MR-4 KEY-4 CMD-31 CQ-18 ACC-9 ACC-12",
	  HAS(FAST_REG))
{
	struct moor_cpl_mr_query out;
	struct moor_cqe cqe;
	struct fast f;
	uint32_t key;

	begin(&f);
	expect(state_of(f.key).state == MOOR_MR_STATE_FREE, "not FREE");
	expect_remote(&f.p, MOOR_WQE_WRITE, f.key, IOVA, 8, false);
	expect_local(&f.p, MOOR_WQE_WRITE, f.key, IOVA, 8, MOOR_SYN_KEY);
	key = (f.key & ~0xffu) | ((f.key + 3) & 0xff);
	post_send(&f.p.qp[1], reg_wr(&f, key));
	cqe = expect_cqe(&f.p.cq[1], 8, MOOR_WC_SUCCESS, 0);
	expect(!cqe.byte_len && cqe.opcode == MOOR_WQE_REG_MR,
	       "%u bytes, opcode 0x%x", cqe.byte_len, cqe.opcode);
	out = state_of(key);
	expect(out.state == MOOR_MR_STATE_VALID && out.key == key &&
	       out.type == MOOR_MRC_TYPE_FAST_REG && out.access == RIGHTS &&
	       out.iova == IOVA && out.length == LENGTH,
	       "MR_QUERY: state %u, key 0x%x, length %llu", out.state, out.key,
	       (unsigned long long)out.length);
	expect_remote(&f.p, MOOR_WQE_WRITE, key, IOVA, LENGTH, true);
	expect(same(f.p.buf[0], f.p.buf[1] + PAGE, PAGE) &&
	       same(f.p.buf[0] + PAGE, f.p.buf[1], PAGE), "the data is elsewhere");
	expect_remote(&f.p, MOOR_WQE_READ, key, IOVA + 5, 100, true);
	expect_local(&f.p, MOOR_WQE_WRITE, key, IOVA, 64, 0);
	about("what is not registered");
	expect_remote(&f.p, MOOR_WQE_WRITE, f.key, IOVA, 8, false);
	expect_remote(&f.p, MOOR_WQE_WRITE, key, IOVA - 1, 8, false);
	expect_remote(&f.p, MOOR_WQE_WRITE, key, IOVA + LENGTH - 7, 8, false);
}

TEST_CASE(same_byte, "the byte may be the one that the MR has; whatever the upper bits",
	  "FR-4 FR-5 KEY-4", HAS(FAST_REG))
{
	struct fast f;

	begin(&f);
	must_reg(&f, f.key);
	expect_remote(&f.p, MOOR_WQE_WRITE, f.key, IOVA, 64, true);
	expect(state_of(f.key).key == f.key, "another key");
}

TEST_CASE(registration_rights, "the registration's rights count, each for itself",
	  "FR-1 ACC-8 ACC-9", HAS(FAST_REG))
{
	static const struct {
		uint8_t opcode;
		uint32_t right;
	} ops[] = {
		{ MOOR_WQE_WRITE, MOOR_ACCESS_REMOTE_WRITE },
		{ MOOR_WQE_READ, MOOR_ACCESS_REMOTE_READ },
	};
	struct fast f;
	unsigned int i, access;

	begin(&f);
	for (access = 0; access < 8; access++) {
		struct send_wr wr;
		uint32_t key = make_fast_mr(PD);

		if (access & MOOR_ACCESS_REMOTE_WRITE &&
		    !(access & MOOR_ACCESS_LOCAL_WRITE))
			continue;
		wr = reg_wr(&f, key);
		wr.reg.access = access;
		post_send(&f.p.qp[1], wr);
		expect_cqe(&f.p.cq[1], 8, MOOR_WC_SUCCESS, 0);
		for (i = 0; i < 2; i++) {
			about("rights 0x%x, opcode %u", access, ops[i].opcode);
			expect_remote(&f.p, ops[i].opcode, key, IOVA, 8,
				      access & ops[i].right);
		}
		expect_local(&f.p, MOOR_WQE_READ, key, IOVA, 8,
			     access & MOOR_ACCESS_LOCAL_WRITE ? 0 :
			     MOOR_SYN_RIGHTS);
	}
}

static void fails(struct fast *f, struct send_wr wr, uint8_t syndrome)
{
	post_send(&f->p.qp[1], wr);
	expect_cqe(&f->p.cq[1], 8, MOOR_WC_MW_BIND_ERR, syndrome);
	reconnect(&f->p);
	expect(state_of(f->key).state == MOOR_MR_STATE_FREE &&
	       state_of(f->key).key == f->key, "it has changed something");
}

TEST_CASE(idle_right, "where there are no atomics, their right asks for no LOCAL_WRITE",
	  "FR-8 FEAT-4", HAS(FAST_REG))
{
	struct send_wr wr;
	struct fast f;

	skip_unless(!(dev.features & MOOR_FEATURE_ATOMICS));
	begin(&f);
	wr = reg_wr(&f, f.key);
	wr.reg.access = MOOR_ACCESS_REMOTE_ATOMIC;
	post_send(&f.p.qp[1], wr);
	expect_cqe(&f.p.cq[1], 8, MOOR_WC_SUCCESS, 0);
	expect(state_of(f.key).state == MOOR_MR_STATE_VALID, "it is not registered");
}

TEST_CASE(checks, "what a REG_MR is checked for, in order",
	  "FR-4 FR-6 FR-7 FR-8 FR-9 FR-10 FR-11 XLT-2 RSV-2", HAS(FAST_REG))
{
	uint32_t others, revoked, valid;
	struct send_wr good, wr;
	struct fast f;

	begin(&f);
	others = make_fast_mr(OTHER_PD);
	revoked = make_fast_mr(PD);
	revoke(revoked);
	valid = make_fast_mr(PD);
	must_reg(&f, valid);
	good = reg_wr(&f, f.key);
#define BAD(what, change, syndrome)					\
	do {								\
		about(what);						\
		wr = good;						\
		change;							\
		fails(&f, wr, syndrome);				\
	} while (0)
	BAD("another nonce", wr.reg.key ^= 0x100, MOOR_SYN_KEY);
	BAD("another index", wr.reg.key ^= 1u << 31, MOOR_SYN_KEY);
	BAD("a plain MR", wr.reg.key = f.p.key[1], MOOR_SYN_KEY);
	BAD("a revoked one", wr.reg.key = revoked, MOOR_SYN_KEY);
	BAD("one of another PD", wr.reg.key = others, MOOR_SYN_PD);
	BAD("one that is VALID", wr.reg.key = valid, MOOR_SYN_KEY);
	BAD("MW_BIND", wr.reg.access |= MOOR_ACCESS_MW_BIND, MOOR_SYN_RIGHTS);
	BAD("ON_DEMAND", wr.reg.access |= 1u << 6, MOOR_SYN_RIGHTS);
	/* A later minor version may have such rights (VER-8). */
	if (dev.minor <= MOOR_HW_VERSION_MINOR) {
		BAD("right 7", wr.reg.access |= 1u << 7, MOOR_SYN_RIGHTS);
		BAD("right 10", wr.reg.access |= 1u << 10, MOOR_SYN_RIGHTS);
		BAD("an unknown right", wr.reg.access |= 1u << 31, MOOR_SYN_RIGHTS);
	}
	BAD("REMOTE_WRITE alone", wr.reg.access = MOOR_ACCESS_REMOTE_WRITE,
	    MOOR_SYN_RIGHTS);
	if (dev.features & MOOR_FEATURE_ATOMICS)
		BAD("REMOTE_ATOMIC alone", wr.reg.access = MOOR_ACCESS_REMOTE_ATOMIC,
		    MOOR_SYN_RIGHTS);
	BAD("length 0", wr.reg.length = 0, MOOR_SYN_LENGTH);
	BAD("more than MAX_MR_SIZE", wr.reg.length = dev.max_mr_size + 1,
	    MOOR_SYN_LENGTH);
	BAD("addresses that wrap", wr.remote = ~0ull - LENGTH + 2,
	    MOOR_SYN_BOUNDS);
	BAD("6 levels", wr.reg.xlat.levels = 6, MOOR_SYN_TRANSLATION);
	BAD("page_shift 11", wr.reg.xlat.page_shift = 11, MOOR_SYN_TRANSLATION);
	if (!(dev.page_sizes >> 63))
		BAD("page_shift 63", wr.reg.xlat.page_shift = 63,
		    MOOR_SYN_TRANSLATION);
	BAD("memory 1", (wr.reg.xlat.memory = 1, wr.reg.xlat.levels = 0),
	    MOOR_SYN_TRANSLATION);
	BAD("memory 2", wr.reg.xlat.memory = 2, MOOR_SYN_TRANSLATION);
	BAD("entries", wr.reg.xlat.entries = 1, MOOR_SYN_TRANSLATION);
	BAD("an offset that wraps", wr.reg.xlat.offset = ~0ull - PAGE,
	    MOOR_SYN_TRANSLATION);
	BAD("a page too many", wr.reg.length = MAX_PAGES * PAGE + 1,
	    MOOR_SYN_TRANSLATION);
	BAD("a page too many by its offset",
	    (wr.reg.length = MAX_PAGES * PAGE, wr.reg.xlat.offset = 1),
	    MOOR_SYN_TRANSLATION);
	about("order");
	BAD("PD before FREE and rights", (wr.reg.key = others, wr.reg.access = ~0u),
	    MOOR_SYN_PD);
	BAD("rights before length", (wr.reg.access = ~0u, wr.reg.length = 0),
	    MOOR_SYN_RIGHTS);
	BAD("length before translation",
	    (wr.reg.length = 0, wr.reg.xlat.levels = 6), MOOR_SYN_LENGTH);
#undef BAD
	about("as many pages as there is room for");
	good.reg.length = MAX_PAGES * PAGE;
	post_send(&f.p.qp[1], good);
	expect_cqe(&f.p.cq[1], 8, MOOR_WC_SUCCESS, 0);
	expect_remote(&f.p, MOOR_WQE_WRITE, f.key, IOVA + MAX_PAGES * PAGE - 8, 8,
		      true);
}

TEST_CASE(unsignaled, "a message behind an unsignaled REG_MR may bring its key along",
	  "FR-12", HAS(FAST_REG))
{
	uint32_t i, key;
	struct send_wr wr;
	struct fast f;

	begin(&f);
	for (i = 0; i < 20; i++) {
		about("round %u", i);
		key = (f.key & ~0xffu) | (i + 1);
		wr = reg_wr(&f, key);
		wr.flags = UNSIGNALED;
		post_recv(&f.p.qp[0], 1, f.p.buf[0], 64, f.p.key[0]);
		put_send(&f.p.qp[1], &wr);
		post_send(&f.p.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_SEND, .flags = UNSIGNALED,
		});
		expect_cqe(&f.p.cq[0], 1, MOOR_WC_SUCCESS, 0);
		post_send(&f.p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .wr_id = 2, .remote = IOVA,
			.rkey = key, SGE(f.p.buf[0], 64, f.p.key[0]),
		});
		expect_cqe(&f.p.cq[0], 2, MOOR_WC_SUCCESS, 0);
		post_send(&f.p.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_LOCAL_INV, .wr_id = 3, .inv_key = key,
		});
		expect_cqe(&f.p.cq[1], 3, MOOR_WC_SUCCESS, 0);
	}
}

TEST_CASE(who_may, "on a QP without KERNEL, or in slots of less than 128 bytes, it is malformed",
	  "FR-2 FR-3 WQ-8", HAS(FAST_REG))
{
	struct moor_cmd_create_qp cmd;
	struct fast f;

	begin(&f);
	about("a user's QP");
	destroy_qp(&f.p.qp[1]);
	make_qp(&f.p.qp[1], &f.p.cq[1], &f.p.cq[1]);
	reconnect(&f.p);
	post_send(&f.p.qp[1], reg_wr(&f, f.key));
	expect_cqe(&f.p.cq[1], 8, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	about("slots of 64 bytes");
	destroy_qp(&f.p.qp[1]);
	cmd = qp_command(&f.p.qp[1], &f.p.cq[1], &f.p.cq[1]);
	f.p.qp[1].log_stride = 6;
	cmd.log_rq_stride = 6;
	cmd.log_sq_stride = cmd.log_rq_stride;
	cmd.flags = MOOR_QP_FLAG_KERNEL;
	must(cmd);
	reconnect(&f.p);
	((struct moor_sq_wqe *)at(f.p.qp[1].sq))->opcode = MOOR_WQE_REG_MR;
	((struct moor_sq_wqe *)at(f.p.qp[1].sq))->flags = MOOR_WQE_FLAG_SIGNALED;
	f.p.qp[1].sq_producer = 1;
	ring_send(&f.p.qp[1]);
	expect_cqe(&f.p.cq[1], 0, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	about("slots of 128 bytes");
	destroy_qp(&f.p.qp[1]);
	kernel_qp(&f.p, 1, 7);
	reconnect(&f.p);
	must_reg(&f, f.key);
	about("with an SGE");
	post_send(&f.p.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_REG_MR, SGE(f.p.buf[1], 8, f.p.key[1]),
	});
	expect_cqe(&f.p.cq[1], 0, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
}

TEST_CASE(invalidated, "LOCAL_INV and SEND_INV make it FREE, and it is registered anew",
	  "DYN-6 INV-2 INV-3 INV-7 FR-1 REV-10 FR-14", HAS(FAST_REG))
{
	struct fast f;
	unsigned int i;
	uint32_t key;

	begin(&f);
	for (i = 0; i < 6; i++) {
		about("round %u", i);
		key = (f.key & ~0xffu) | ((f.key + i) & 0xff);
		/* Another table each time, as software that keeps two does. */
		((uint64_t *)at(f.table))[0] = (f.p.buf[1] + (i + 1) * 2 * PAGE) |
			MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
		must_reg(&f, key);
		fill(f.p.buf[0], BUF, 70 + i);
		expect_remote(&f.p, MOOR_WQE_WRITE, key, IOVA, PAGE, true);
		expect(is_filled(f.p.buf[1] + (i + 1) * 2 * PAGE, PAGE, 70 + i),
		       "the data is elsewhere");
		if (i & 1) {
			post_recv(&f.p.qp[1], 3, 0, 0, 0);
			post_send(&f.p.qp[0], (struct send_wr){
				.opcode = MOOR_WQE_SEND_INV, .inv_key = key,
			});
			expect_cqe(&f.p.cq[0], 0, MOOR_WC_SUCCESS, 0);
			expect_cqe(&f.p.cq[1], 3, MOOR_WC_SUCCESS, 0);
		} else {
			post_send(&f.p.qp[1], (struct send_wr){
				.opcode = MOOR_WQE_LOCAL_INV, .inv_key = key,
			});
			expect_cqe(&f.p.cq[1], 0, MOOR_WC_SUCCESS, 0);
		}
		expect(state_of(f.key).state == MOOR_MR_STATE_FREE, "not FREE");
		expect_remote(&f.p, MOOR_WQE_WRITE, key, IOVA, 8, false);
	}
	about("one that is FREE");
	post_send(&f.p.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_LOCAL_INV, .inv_key = key,
	});
	expect_cqe(&f.p.cq[1], 0, MOOR_WC_MW_BIND_ERR, MOOR_SYN_KEY);
	reconnect(&f.p);
	about("one of another PD");
	must_reg(&f, f.key);
	destroy_qp(&f.p.qp[0]);
	{
		struct moor_cmd_create_qp cmd = qp_command(&f.p.qp[0],
						&f.p.cq[0], &f.p.cq[0]);

		cmd.pd = OTHER_PD;
		must(cmd);
	}
	reconnect(&f.p);
	post_send(&f.p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_LOCAL_INV, .inv_key = f.key,
	});
	expect_cqe(&f.p.cq[0], 0, MOOR_WC_MW_BIND_ERR, MOOR_SYN_PD);
	expect(state_of(f.key).state == MOOR_MR_STATE_VALID, "it is invalidated");
}

TEST_CASE(revoked, "revoked from FREE and from VALID; no window is bound to it",
	  "DYN-7 MW-8 REV-1 REV-4", HAS(FAST_REG))
{
	struct fast f;

	begin(&f);
	must_reg(&f, f.key);
	if (dev.features & MOOR_FEATURE_MW_TYPE_1) {
		uint32_t window = make_window(PD, MOOR_MRC_TYPE_MW_1);

		post_send(&f.p.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_BIND_MW,
			.bind = { .mw_key = window, .new_key = window,
				  .mr_lkey = f.key, .addr = IOVA, .length = 8,
				  .access = MOOR_ACCESS_REMOTE_READ },
		});
		expect_cqe(&f.p.cq[1], 0, MOOR_WC_MW_BIND_ERR, MOOR_SYN_KEY);
		reconnect(&f.p);
	}
	expect(revoke(f.key ^ 0x5a) == REVOKED, "VALID: not revoked");
	expect(state_of(f.key).state == MOOR_MR_STATE_REVOKED, "not REVOKED");
	expect_remote(&f.p, MOOR_WQE_WRITE, f.key, IOVA, 8, false);
	f.key = make_fast_mr(PD);
	expect(revoke(f.key) == REVOKED, "FREE: not revoked");
	expect(revoke(f.key) == UNKNOWN, "twice");
}

TEST_CASE(without_its_qp, "a registration stays when the QP that made it goes", "FR-17",
	  HAS(FAST_REG))
{
	static const char * const how[] = { "ERR", "RESET", "destroyed" };
	unsigned int i;
	struct fast f;

	begin(&f);
	for (i = 0; i < 3; i++) {
		about("%s", how[i]);
		must_reg(&f, f.key);
		if (i == 0)
			must_modify(&f.p.qp[1], to_state(MOOR_QPS_ERR));
		else if (i == 1)
			reset_qp(&f.p.qp[1]);
		else
			destroy_qp(&f.p.qp[1]);
		expect(state_of(f.key).state == MOOR_MR_STATE_VALID, "not VALID");
		if (i == 2)
			kernel_qp(&f.p, 1, LOG_STRIDE);
		reconnect(&f.p);
		expect_remote(&f.p, MOOR_WQE_WRITE, f.key, IOVA, 8, true);
		post_send(&f.p.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_LOCAL_INV, .inv_key = f.key,
		});
		expect_cqe(&f.p.cq[1], 0, MOOR_WC_SUCCESS, 0);
	}
}

TEST_CASE(in_queue_order, "work requests after it see the registration, without its CQE",
	  "FR-12 WQ-14", HAS(FAST_REG))
{
	struct fast f;
	unsigned int i;

	begin(&f);
	for (i = 0; i < 10; i++) {
		struct send_wr wr = reg_wr(&f, f.key);

		wr.flags = UNSIGNALED;
		put_send(&f.p.qp[1], &wr);
		put_send(&f.p.qp[1], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = f.p.buf[0], .rkey = f.p.key[0],
			SGE(IOVA, 64, f.key),
		});
		put_send(&f.p.qp[1], &(struct send_wr){
			.opcode = MOOR_WQE_LOCAL_INV, .inv_key = f.key,
			.wr_id = i,
		});
		ring_send(&f.p.qp[1]);
		if (expect_cqe(&f.p.cq[1], i, MOOR_WC_SUCCESS, 0).status)
			return;
	}
	expect(same(f.p.buf[0], f.p.buf[1] + PAGE, 64), "the data");
}
