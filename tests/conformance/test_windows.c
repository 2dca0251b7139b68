// SPDX-License-Identifier: GPL-2.0
/* Memory windows of both types (HWI 6.7). */
#include <string.h>

#include "platform.h"
#include "traffic.h"

#define TYPES	(MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B)
#define OFFSET	3000u
#define LEN	5000u
#define BIND_ALL (ALL_REMOTE)

/* A type of window that the device has, for rules that are the same for both. */
static unsigned int some_type(void)
{
	return dev.features & MOOR_FEATURE_MW_TYPE_2B ? MOOR_MRC_TYPE_MW_2 :
							MOOR_MRC_TYPE_MW_1;
}

static struct moor_wqe_bind whole_bind(const struct pair *p, uint32_t window)
{
	return (struct moor_wqe_bind){
		.mw_key = window, .new_key = window + 1, .mr_lkey = p->key[1],
		.access = BIND_ALL, .addr = p->buf[1] + OFFSET, .length = LEN,
	};
}

/* Binds on QP 1, whose peer then uses the window. */
static uint8_t try_bind(struct pair *p, const struct moor_wqe_bind *bind,
			uint8_t *syndrome)
{
	struct moor_cqe cqe;

	post_send(&p->qp[1], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW, .wr_id = 9, .bind = *bind,
	});
	cqe = wait_cqe(&p->cq[1]);
	*syndrome = cqe.syndrome;
	if (cqe.status)
		reconnect(p);
	return cqe.status;
}

static void must_bind(struct pair *p, const struct moor_wqe_bind *bind)
{
	uint8_t syndrome, status = try_bind(p, bind, &syndrome);

	need(!status, "BIND_MW: status %u, syndrome %u", status, syndrome);
}

static void bind_fails(struct pair *p, const struct moor_wqe_bind *bind,
		       uint8_t wanted)
{
	uint8_t syndrome, status = try_bind(p, bind, &syndrome);

	expect(status == MOOR_WC_MW_BIND_ERR && syndrome == wanted,
	       "BIND_MW: status %u, syndrome %u, where %u, %u was due", status,
	       syndrome, MOOR_WC_MW_BIND_ERR, wanted);
}

static struct moor_cpl_mr_query state_of(uint32_t key)
{
	struct moor_cpl_mr_query out;

	need(!query(key, &out), "MR_QUERY: status %u", answer.status);
	return out;
}

static bool is_bound(uint32_t key)
{
	return state_of(key).state == MOOR_MR_STATE_BOUND;
}

TEST_CASE(bind_1, "type 1: bound, bound anew, unbound", "DYN-2 DYN-8 DYN-9 MW-6 MW-3 KEY-4 CMD-31",
	  HAS(MW_TYPE_1))
{
	struct moor_cpl_mr_query out;
	struct moor_wqe_bind b;
	uint32_t window, key;
	struct pair p;

	make_pair(&p);
	window = make_window(PD, MOOR_MRC_TYPE_MW_1);
	expect(state_of(window).state == MOOR_MR_STATE_UNBOUND, "not UNBOUND");
	expect_remote(&p, MOOR_WQE_WRITE, window, p.buf[1] + OFFSET, 8, false);
	b = whole_bind(&p, window);
	must_bind(&p, &b);
	key = (window & ~0xffu) | (b.new_key & 0xff);
	out = state_of(key);
	expect(out.state == MOOR_MR_STATE_BOUND &&
	       out.type == MOOR_MRC_TYPE_MW_1 && out.key == key &&
	       out.mr_key == p.key[1] && !out.qpn && out.access == BIND_ALL &&
	       out.iova == p.buf[1] + OFFSET && out.length == LEN,
	       "MR_QUERY: state %u, key 0x%x, MR 0x%x, QP 0x%x", out.state,
	       out.key, out.mr_key, out.qpn);
	expect(state_of(p.key[1]).windows == 1, "the MR counts %u windows",
	       state_of(p.key[1]).windows);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1] + OFFSET, LEN, true);
	expect_remote(&p, MOOR_WQE_WRITE, window, p.buf[1] + OFFSET, 8, false);

	about("bound anew");
	b.mw_key = key;
	b.new_key = key + 1;
	b.addr += 100;
	b.length -= 200;
	must_bind(&p, &b);
	expect(state_of(p.key[1]).windows == 1, "the MR counts %u windows",
	       state_of(p.key[1]).windows);
	expect_remote(&p, MOOR_WQE_WRITE, key, b.addr, 8, false);
	key = (window & ~0xffu) | (b.new_key & 0xff);
	expect_remote(&p, MOOR_WQE_WRITE, key, b.addr, (uint32_t)b.length, true);
	expect_remote(&p, MOOR_WQE_WRITE, key, b.addr - 1, 8, false);

	about("unbound");
	b = (struct moor_wqe_bind){ .mw_key = key, .new_key = key + 1 };
	must_bind(&p, &b);
	expect(state_of(key).state == MOOR_MR_STATE_UNBOUND, "not UNBOUND");
	expect(!state_of(p.key[1]).windows, "the MR still counts it");
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1] + OFFSET + 100, 8, false);
	expect_remote(&p, MOOR_WQE_WRITE, key + 1, p.buf[1] + OFFSET + 100, 8,
		      false);
}

TEST_CASE(bind_2, "type 2: bound once, on the QP that asks", "DYN-2 DYN-10 MW-5 MW-7 MW-17 ACC-5",
	  HAS(MW_TYPE_2B))
{
	struct moor_cpl_mr_query out;
	struct moor_wqe_bind b;
	uint32_t window, key;
	struct pair p;

	make_pair(&p);
	window = make_window(PD, MOOR_MRC_TYPE_MW_2);
	b = whole_bind(&p, window);
	b.length = 0;
	bind_fails(&p, &b, MOOR_SYN_LENGTH);
	b.length = LEN;
	must_bind(&p, &b);
	key = (window & ~0xffu) | (b.new_key & 0xff);
	out = state_of(key);
	expect(out.state == MOOR_MR_STATE_BOUND && out.key == key &&
	       out.type == MOOR_MRC_TYPE_MW_2 && out.qpn == p.qp[1].qpn &&
	       out.mr_key == p.key[1], "MR_QUERY: state %u, key 0x%x, QP 0x%x",
	       out.state, out.key, out.qpn);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1] + OFFSET, LEN, true);

	about("bound already");
	b.mw_key = key;
	post_send(&p.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW, .bind = b,
	});
	expect_cqe(&p.cq[1], 0, MOOR_WC_MW_BIND_ERR, MOOR_SYN_WINDOW);
	expect(is_bound(key), "the refused bind has unbound it");

	about("from the other QP");
	reconnect(&p);
	expect(state_of(key).state == MOOR_MR_STATE_UNBOUND,
	       "it has outlived its QP");
	b.mw_key = key;
	b.new_key = key;
	must_bind(&p, &b);
	/* Now QP 0 is the responder, on which the window is not bound. */
	post_send(&p.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = p.buf[1] + OFFSET,
		.rkey = key, SGE(p.buf[0], 8, p.key[0]),
	});
	expect_cqe(&p.cq[1], 0, MOOR_WC_REM_ACCESS_ERR, 0);
}

TEST_CASE(ends_with_qp, "a type 2 window ends with its QP, by reset or destruction",
	  "DYN-11 MW-17 QP-2 QP-4", HAS(MW_TYPE_2B))
{
	uint32_t window, key;
	struct moor_wqe_bind b;
	struct pair p;

	make_pair(&p);
	window = make_window(PD, MOOR_MRC_TYPE_MW_2);
	b = whole_bind(&p, window);
	must_bind(&p, &b);
	key = (window & ~0xffu) | (b.new_key & 0xff);
	expect(revoke(p.key[1]) == BUSY, "the MR goes before its window");
	must_modify(&p.qp[1], to_state(MOOR_QPS_ERR));
	expect(is_bound(key), "ERR has unbound it");
	reset_qp(&p.qp[1]);
	expect(state_of(key).state == MOOR_MR_STATE_UNBOUND, "reset leaves it");
	expect(!state_of(p.key[1]).windows, "and its MR counts it");
	connect_qp(&p.qp[1], p.qp[0].qpn);
	reconnect(&p);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1] + OFFSET, 8, false);

	b.mw_key = key;
	must_bind(&p, &b);
	destroy_qp(&p.qp[1]);
	expect(state_of(key).state == MOOR_MR_STATE_UNBOUND,
	       "destruction leaves it");
	expect(revoke(p.key[1]) == REVOKED, "the MR cannot be revoked");
}

TEST_CASE(bind_key, "the window is named by all bits but the consumer's",
	  "MW-1 MW-2 MW-3", TYPES)
{
	struct moor_wqe_bind b;
	uint32_t window, key;
	struct pair p;
	unsigned int bit;

	make_pair(&p);
	window = make_window(PD, some_type());
	for (bit = 8; bit < 32; bit++) {
		about("bit %u", bit);
		b = whole_bind(&p, window ^ 1u << bit);
		bind_fails(&p, &b, MOOR_SYN_KEY);
	}
	about("an MR's key");
	b = whole_bind(&p, p.key[0]);
	bind_fails(&p, &b, MOOR_SYN_KEY);
	about("key 0");
	b = whole_bind(&p, 0);
	bind_fails(&p, &b, MOOR_SYN_KEY);

	about("a foreign low byte, and a new key of which only the byte counts");
	b = whole_bind(&p, window ^ 0x5a);
	b.new_key = 0xdeadbe00 | (window & 0xff);
	must_bind(&p, &b);
	key = window;
	expect(state_of(key).key == key, "the key is 0x%x", state_of(key).key);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1] + OFFSET, 8, true);
	revoke(window);
	reconnect(&p);
	about("a revoked window");
	bind_fails(&p, &b, MOOR_SYN_KEY);
}

TEST_CASE(bind_checks, "what a bind is checked for, in order",
	  "MW-1 MW-4 MW-8 MW-9 MW-10 MW-11 MW-12 MW-13 RSV-2", TYPES)
{
	uint32_t window, others, no_bind, read_only, revoked;
	struct moor_wqe_bind good, b;
	struct pair p;

	make_pair(&p);
	window = make_window(PD, some_type());
	others = make_mr(OTHER_PD, ALL_RIGHTS, p.buf[1], BUF);
	no_bind = make_mr(PD, ALL_RIGHTS & ~MOOR_ACCESS_MW_BIND, p.buf[1], BUF);
	read_only = make_mr(PD, MOOR_ACCESS_MW_BIND | MOOR_ACCESS_REMOTE_READ,
			    p.buf[1], BUF);
	revoked = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);
	revoke(revoked);
	good = whole_bind(&p, window);
#define BAD(what, change, syndrome)					\
	do {								\
		about(what);						\
		b = good;						\
		change;							\
		bind_fails(&p, &b, syndrome);				\
		expect(!is_bound(window) && state_of(window).key == window,\
		       "the refused bind has changed something");	\
	} while (0)
	BAD("a window of another PD",
	    b.mw_key = make_window(OTHER_PD, some_type()), MOOR_SYN_PD);
	BAD("no such MR", b.mr_lkey ^= 1, MOOR_SYN_KEY);
	BAD("a window as MR", b.mr_lkey = window, MOOR_SYN_KEY);
	BAD("a revoked MR", b.mr_lkey = revoked, MOOR_SYN_KEY);
	BAD("an MR of another PD", b.mr_lkey = others, MOOR_SYN_PD);
	BAD("an MR without MW_BIND", b.mr_lkey = no_bind, MOOR_SYN_RIGHTS);
	BAD("REMOTE_WRITE on an MR without LOCAL_WRITE",
	    (b.mr_lkey = read_only, b.access = MOOR_ACCESS_REMOTE_WRITE),
	    MOOR_SYN_RIGHTS);
	if (dev.features & MOOR_FEATURE_ATOMICS)
		BAD("REMOTE_ATOMIC on an MR without LOCAL_WRITE",
		    (b.mr_lkey = read_only, b.access = MOOR_ACCESS_REMOTE_ATOMIC),
		    MOOR_SYN_RIGHTS);
	BAD("LOCAL_WRITE", b.access |= MOOR_ACCESS_LOCAL_WRITE, MOOR_SYN_RIGHTS);
	BAD("MW_BIND", b.access |= MOOR_ACCESS_MW_BIND, MOOR_SYN_RIGHTS);
	/* A later minor version may have such rights (VER-8). */
	if (dev.minor <= MOOR_HW_VERSION_MINOR) {
		BAD("an unknown right", b.access |= 1u << 20, MOOR_SYN_RIGHTS);
		BAD("right 7", b.access |= 1u << 7, MOOR_SYN_RIGHTS);
		BAD("right 10", b.access |= 1u << 10, MOOR_SYN_RIGHTS);
	}
	BAD("ON_DEMAND", b.access |= 1u << 6, MOOR_SYN_RIGHTS);
	BAD("a byte before the MR", b.addr = p.buf[1] - 1, MOOR_SYN_BOUNDS);
	BAD("a byte behind it", (b.addr = p.buf[1] + 1, b.length = BUF),
	    MOOR_SYN_BOUNDS);
	BAD("a length that wraps", b.length = ~0ull, MOOR_SYN_BOUNDS);
	BAD("an address that wraps", (b.addr = ~0ull, b.length = 8),
	    MOOR_SYN_BOUNDS);
	BAD("rights before bounds", (b.mr_lkey = no_bind, b.length = ~0ull),
	    MOOR_SYN_RIGHTS);
	BAD("PD before rights", (b.mr_lkey = others, b.access = ~0u),
	    MOOR_SYN_PD);
#undef BAD
	about("all of the MR");
	good.addr = p.buf[1];
	good.length = BUF;
	must_bind(&p, &good);
	about("a read-only MR, to be read");
	window = make_window(PD, some_type());
	b = whole_bind(&p, window);
	b.mr_lkey = read_only;
	b.access = MOOR_ACCESS_REMOTE_READ;
	must_bind(&p, &b);
}

TEST_CASE(window_access, "a window lends its range, with rights of its own",
	  "MW-14 MW-16 ACC-4 ACC-6 ACC-9 ACC-12", TYPES)
{
	static const struct {
		uint8_t opcode;
		uint32_t right;
	} ops[] = {
		{ MOOR_WQE_WRITE, MOOR_ACCESS_REMOTE_WRITE },
		{ MOOR_WQE_READ, MOOR_ACCESS_REMOTE_READ },
		{ MOOR_WQE_FETCH_ADD, MOOR_ACCESS_REMOTE_ATOMIC },
	};
	unsigned int n = dev.features & MOOR_FEATURE_ATOMICS ? 3 : 2, i;
	struct moor_wqe_bind b;
	uint32_t access, mr, key;
	struct pair p;
	uint64_t first;

	make_pair(&p);
	/* The MR itself has no remote rights. */
	mr = make_mr(PD, MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_MW_BIND, p.buf[1],
		     BUF);
	first = p.buf[1] + OFFSET;
	for (access = 0; access < 16; access += 2) {
		for (i = 0; i < n; i++) {
			about("window 0x%x, opcode %u", access, ops[i].opcode);
			key = make_window(PD, some_type());
			b = whole_bind(&p, key);
			b.new_key = key;
			b.mr_lkey = mr;
			b.access = access;
			must_bind(&p, &b);
			expect_remote(&p, ops[i].opcode, key, first, 8,
				      access & ops[i].right);
		}
	}
	key = make_window(PD, some_type());
	b = whole_bind(&p, key);
	b.new_key = key;
	must_bind(&p, &b);
	about("the whole of it");
	expect_remote(&p, MOOR_WQE_WRITE, key, first, LEN, true);
	expect(same(p.buf[0], first, LEN), "the data is elsewhere");
	expect_remote(&p, MOOR_WQE_WRITE, key, first + LEN - 1, 1, true);
#define REBIND()							\
	do {								\
		if (!is_bound(key))					\
			must_bind(&p, &b);				\
	} while (0)
	about("outside of it");
	expect_remote(&p, MOOR_WQE_WRITE, key, first - 1, 8, false);
	REBIND();
	expect_remote(&p, MOOR_WQE_WRITE, key, first + 1, LEN, false);
	REBIND();
	expect_remote(&p, MOOR_WQE_WRITE, key, first + LEN, 1, false);
	REBIND();
	expect_remote(&p, MOOR_WQE_READ, key, ~0ull - 7, 16, false);
	REBIND();
	about("as an lkey");
	expect_local(&p, MOOR_WQE_WRITE, key, first, 8, MOOR_SYN_KEY);
	REBIND();
	expect_local(&p, MOOR_WQE_READ, key, first, 8, MOOR_SYN_KEY);
#undef REBIND
}

TEST_CASE(window_pd, "a type 1 window belongs to a PD, not to a QP",
	  "MW-16 MW-17 ACC-7 MW-4", HAS(MW_TYPE_1))
{
	struct moor_cmd_create_qp cmd;
	struct moor_wqe_bind b;
	struct qp stranger, peer;
	struct moor_cqe cqe;
	struct pair p;
	uint32_t key;

	make_pair(&p);
	key = make_window(PD, MOOR_MRC_TYPE_MW_1);
	b = whole_bind(&p, key);
	b.new_key = key;
	must_bind(&p, &b);
	about("any QP of the PD");
	reconnect(&p);
	post_send(&p.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = b.addr, .rkey = key,
		SGE(p.buf[0], 8, p.key[0]),
	});
	expect_cqe(&p.cq[1], 0, MOOR_WC_SUCCESS, 0);

	about("a QP of another PD");
	cmd = qp_command(&stranger, &p.cq[1], &p.cq[1]);
	cmd.pd = OTHER_PD;
	must(cmd);
	make_qp(&peer, &p.cq[0], &p.cq[0]);
	connect_qp(&stranger, peer.qpn);
	connect_qp(&peer, stranger.qpn);
	post_send(&peer, (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = b.addr, .rkey = key,
		SGE(p.buf[0], 8, p.key[0]),
	});
	cqe = wait_cqe(&p.cq[0]);
	expect(cqe.status == MOOR_WC_REM_ACCESS_ERR, "status %u", cqe.status);
	post_send(&p.qp[1], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	wait_cqe(&p.cq[1]);
	reset_qp(&stranger);
	connect_qp(&stranger, peer.qpn);
	post_send(&stranger, (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW,
		.bind = { .mw_key = key, .new_key = key },
	});
	expect_cqe(&p.cq[1], 0, MOOR_WC_MW_BIND_ERR, MOOR_SYN_PD);
}

TEST_CASE(zero_based, "addresses count from 0 with BIND_ZERO_BASED", "MW-15", TYPES)
{
	struct moor_wqe_bind b;
	struct pair p;
	uint32_t key;

	make_pair(&p);
	key = make_window(PD, some_type());
	b = whole_bind(&p, key);
	b.new_key = key;
	b.access |= MOOR_BIND_ZERO_BASED;
	must_bind(&p, &b);
	expect_remote(&p, MOOR_WQE_WRITE, key, 0, LEN, true);
	expect(same(p.buf[0], p.buf[1] + OFFSET, LEN), "the data is elsewhere");
	expect_remote(&p, MOOR_WQE_WRITE, key, 100, 8, true);
	expect(same(p.buf[0], p.buf[1] + OFFSET + 100, 8), "at an offset");
	expect_remote(&p, MOOR_WQE_WRITE, key, LEN, 1, false);
	if (!is_bound(key))
		must_bind(&p, &b);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1] + OFFSET, 8, false);
}

TEST_CASE(of_wide_mr, "a window's place in the MR: its iova and its offset count",
	  "MW-15 MW-16", TYPES)
{
	struct moor_mr_context e;
	struct moor_wqe_bind b;
	struct pair p;
	uint32_t key;

	make_pair(&p);
	e = mr_entry(PD, ALL_RIGHTS, p.buf[1] + 777, 20000);
	e.iova = 0x1234567;
	b = whole_bind(&p, make_window(PD, some_type()));
	b.new_key = b.mw_key;
	key = b.new_key;
	b.mr_lkey = make_entry(&e, MOOR_MRC_TYPE_MR);
	b.addr = e.iova + 5000;
	must_bind(&p, &b);
	expect_remote(&p, MOOR_WQE_WRITE, key, e.iova + 5010, 64, true);
	expect(same(p.buf[0], p.buf[1] + 777 + 5010, 64), "the data is elsewhere");
}

TEST_CASE(rebinding_message, "a binding that ends in the middle of a message ends it",
	  "ACC-15 DYN-8 REV-10", HAS(MW_TYPE_1))
{
	const uint32_t len = longest(16u << 20) / 2;	/* the MR has two of them */
	struct moor_wqe_bind b;
	uint32_t source, mr, key, round, way;
	uint64_t big, to;
	struct moor_cqe cqe;
	struct qp binder;
	struct pair p;

	make_pair(&p);
	make_qp(&binder, &p.cq[1], &p.cq[1]);
	connect_qp(&binder, binder.qpn);
	big = take_filled(len, 3);
	to = take(2 * len);
	source = make_mr(PD, ALL_RIGHTS, big, len);
	mr = make_mr(PD, ALL_RIGHTS, to, 2 * len);
	key = make_window(PD, MOOR_MRC_TYPE_MW_1);
	for (round = 0; round < 8; round++) {
		memset(at(to), 0, 2 * len);
		b = (struct moor_wqe_bind){
			.mw_key = key, .new_key = key, .mr_lkey = mr,
			.access = BIND_ALL | MOOR_BIND_ZERO_BASED, .addr = to,
			.length = len,
		};
		must_bind(&p, &b);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .rkey = key,
			SGE(big, len, source),
		});
		watch_until(((volatile uint8_t *)at(to))[round * len / 16 + 1]);
		/* Bound elsewhere with the same key: at once, or after another key. */
		b.addr = to + len;
		for (way = round & 1; way < 2; way++) {
			b.new_key = key + !way;
			put_send(&binder, &(struct send_wr){
				.opcode = MOOR_WQE_BIND_MW, .bind = b,
			});
		}
		ring_send(&binder);
		for (way = round & 1; way < 2; way++)
			expect_cqe(&p.cq[1], 0, MOOR_WC_SUCCESS, 0);
		cqe = wait_cqe(&p.cq[0]);
		expect(cqe.status == MOOR_WC_REM_ACCESS_ERR ||
		       (!cqe.status && same(big, to, len)), "status %u",
		       cqe.status);
		if (!expect(is_all(to + len, len, 0),
			    "round %u: it goes on through the next binding", round))
			return;
		if (cqe.status)
			reconnect(&p);
	}
}

TEST_CASE(list, "MR_WINDOWS lists the windows bound to a key, 128 at a time",
	  "CMD-24 CMD-30 CMD-32 CMD-33 CMD-16 CMD-11 CMD-12", TYPES)
{
	const unsigned int wanted = 128 + 40;
	struct moor_cmd_mr_windows cmd = { .hdr.opcode = MOOR_CMD_MR_WINDOWS };
	static uint8_t seen[128 + 40];
	bool reports = platform_reports_writes();
	const struct moor_window_info *info;
	struct moor_cpl_mr_windows out;
	unsigned int i, total = 0, calls = 0;
	struct moor_wqe_bind b;
	uint32_t first = 0, mr;
	struct pair p;

	make_pair(&p);
	mr = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);
	memset(seen, 0, sizeof(seen));
	for (i = 0; i < wanted; i++) {
		b = whole_bind(&p, make_window(PD, some_type()));
		b.new_key = b.mw_key;
		b.mr_lkey = i % 8 == 7 ? p.key[1] : mr;
		b.addr = p.buf[1] + i;
		if (!i)
			first = key_index(b.mw_key);
		must_bind(&p, &b);
	}
	cmd.buffer = take(PAGE);
	info = at(cmd.buffer);
	for (cmd.key = mr; cmd.key; cmd.key = cmd.key == mr ? p.key[1] : 0) {
		cmd.cursor = 0;
		do {
			must(cmd);
			memcpy(&out, answer.out, sizeof(out));
			need(out.count <= MOOR_WINDOWS_PER_PAGE, "%u at a time",
			     out.count);
			for (i = 0; i < out.count; i++) {
				uint32_t n = key_index(info[i].key) - first;

				need(n < wanted, "key 0x%x", info[i].key);
				expect(!seen[n]++, "key 0x%x twice", info[i].key);
				expect((n % 8 == 7) == (cmd.key != mr) &&
				       info[i].type == some_type() &&
				       info[i].access == BIND_ALL &&
				       info[i].iova == p.buf[1] + n &&
				       info[i].length == LEN &&
				       info[i].qpn == p.qp[1].qpn,
				       "window %u: type %u, QP 0x%x", n,
				       info[i].type, info[i].qpn);
			}
			total += out.count;
			cmd.cursor = out.cursor;
			need(++calls < 100, "the list does not end");
		} while (out.cursor);
	}
	expect(total == wanted, "%u windows of %u", total, wanted);

	about("no windows");
	cmd.cursor = 0;
	cmd.key = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);
	must(cmd);
	memcpy(&out, answer.out, sizeof(out));
	expect(!out.count && !out.cursor, "%u of an MR without", out.count);
	cmd.key = make_window(PD, some_type());
	must(cmd);
	memcpy(&out, answer.out, sizeof(out));
	expect(!out.count && !out.cursor, "%u of a window", out.count);
	about("a cursor of one's own");
	cmd.key = mr;
	cmd.cursor = ~0u;
	/* A device need not know that it is none of its own. */
	if (do_command(cmd))
		refused(cmd, MOOR_CMD_BAD_PARAM, cursor, "status");
	about(NULL);
	cmd.cursor = 0;
	cmd.key = dev.null_lkey;
	refused(cmd, MOOR_CMD_BAD_INDEX, key, "the null MR");
	cmd.key = mr ^ 1;
	refused(cmd, MOOR_CMD_BAD_INDEX, key, "no such key");
	cmd.key = mr;
	cmd.buffer += 8;
	refused(cmd, MOOR_CMD_BAD_PARAM, buffer, "a buffer that is not aligned");
	cmd.buffer = NOWHERE;
	/* It is written alone (ACC-19). */
	if (reports)
		refused(cmd, MOOR_CMD_DMA_FAULT, buffer, "a buffer that is nowhere");
}

TEST_CASE(unsignaled, "a message behind an unsignaled BIND_MW may bring its key along",
	  "MW-18", HAS(MW_TYPE_1))
{
	uint32_t window, i;
	struct pair p;

	make_pair(&p);
	window = make_window(PD, MOOR_MRC_TYPE_MW_1);
	for (i = 0; i < 20; i++) {
		struct moor_wqe_bind bind = whole_bind(&p, window);
		struct send_wr wr = {
			.opcode = MOOR_WQE_BIND_MW, .flags = UNSIGNALED,
		};

		about("round %u", i);
		bind.new_key = (window & ~0xffu) | i;
		wr.bind = bind;
		post_recv(&p.qp[0], 1, p.buf[0], 64, p.key[0]);
		put_send(&p.qp[1], &wr);
		post_send(&p.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_SEND, .flags = UNSIGNALED,
		});
		expect_cqe(&p.cq[0], 1, MOOR_WC_SUCCESS, 0);
		expect_remote(&p, MOOR_WQE_WRITE, bind.new_key, bind.addr, 8, true);
	}
}
