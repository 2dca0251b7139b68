// SPDX-License-Identifier: GPL-2.0
/* Windows: binding, access, invalidation, busy MRs, listing (HWI 6.7). */
#include <string.h>

#include "guest.h"

#define PD	5
#define REMOTE	(MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_REMOTE_READ | \
		 MOOR_ACCESS_REMOTE_ATOMIC)
#define BINDABLE	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_MW_BIND)
#define LEN	16384u
#define FIRST_WINDOW	0x8000u

/* A pair of QPs and another QP of the second one's PD. */
static struct guest *g;
static struct guest_cq cq[3];
static struct guest_qp qp[3];
static uint64_t buf[2];
static uint32_t lkey[2];	/* all rights, for data at either end */
static uint32_t mr;		/* MR that windows are bound to: buf[1] */
static uint32_t next_window;

static void start(bool strict)
{
	int i;

	g = guest_start(strict);
	guest_set_gid(g, 0, 1);
	next_window = FIRST_WINDOW;
	for (i = 0; i < 3; i++) {
		if (make_cq(g, &cq[i], i, 8) ||
		    make_qp(g, &qp[i], 0x4000u * (i + 1) + 3 + i, PD, &cq[i],
			    &cq[i]))
			ok(false, "create CQ, QP");
	}
	for (i = 0; i < 2; i++) {
		buf[i] = take(g, LEN);
		memset(at(g, buf[i]), 0x11 * (i + 1), LEN);
		lkey[i] = make_mr(g, PD, MOOR_ACCESS_LOCAL_WRITE, buf[i], LEN);
	}
	mr = make_mr(g, PD, BINDABLE, buf[1], LEN);
	connect_qp(g, &qp[0], qp[1].qpn);
	connect_qp(g, &qp[1], qp[0].qpn);
	connect_qp(g, &qp[2], qp[2].qpn);
}

static uint32_t make_mw(uint32_t pd, unsigned int type)
{
	struct moor_mr_context e = { .pd = pd };
	uint32_t key = next_window++ << 16 | 0x4200;

	put_entry(g, key, &e, type);
	return key;
}

/* Status of the next CQE; 0xff: none. */
static uint8_t status_of(int i, uint8_t *syndrome)
{
	struct moor_cqe cqe;

	if (!poll_cq(g, &cq[i], &cqe))
		return 0xff;
	*syndrome = cqe.syndrome;
	return cqe.status;
}

/* Status and syndrome as one number. */
static unsigned int bind(int i, struct moor_wqe_bind bind)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[i], MOOR_WQE_BIND_MW, 1);
	uint8_t status, syndrome = 0;

	memcpy(wqe + 1, &bind, sizeof(bind));
	ring(g, &qp[i]);
	status = status_of(i, &syndrome);
	return status << 8 | syndrome;
}

static unsigned int local_inv(int i, uint32_t key)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[i], MOOR_WQE_LOCAL_INV, 1);
	uint8_t status, syndrome = 0;

	wqe->inv_key = key;
	ring(g, &qp[i]);
	status = status_of(i, &syndrome);
	return status << 8 | syndrome;
}

static struct moor_wqe_bind all_of(uint32_t key)
{
	return (struct moor_wqe_bind){
		.mw_key = key, .new_key = key + 1, .mr_lkey = mr,
		.access = REMOTE, .addr = buf[1], .length = LEN,
	};
}

/* Both QPs of the pair back to RTS, nothing in the CQs. */
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

/* QP 0 sends a request to QP 1; @addr is the address on the wire. */
static uint8_t remote(uint8_t opcode, uint32_t key, uint64_t addr, uint32_t len)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[0], opcode, 2);
	uint8_t syndrome, status;

	wqe->remote_addr = addr;
	wqe->rkey = key;
	add_sge(wqe, sge(buf[0], len, lkey[0]));
	ring(g, &qp[0]);
	status = status_of(0, &syndrome);
	if (status)
		revive();
	return status;
}

static void refuse(const char *what, struct moor_wqe_bind b, uint8_t syndrome)
{
	unsigned int got = bind(1, b);

	ok(got == (MOOR_WC_MW_BIND_ERR << 8 | syndrome),
	   "bind refused: %s (0x%x)", what, got);
	revive();
}

static void test_bind_checks(unsigned int type)
{
	uint32_t key = make_mw(PD, type), other = make_mw(PD + 1, type);
	uint32_t no_bind = make_mr(g, PD, MOOR_ACCESS_LOCAL_WRITE | REMOTE,
				   buf[1], LEN);
	uint32_t read_only = make_mr(g, PD, MOOR_ACCESS_MW_BIND, buf[1], LEN);
	uint32_t foreign = make_mr(g, PD + 1, BINDABLE, buf[1], LEN);
	struct moor_wqe_bind b;

#define REFUSE(what, syndrome, change)	do {				\
		b = all_of(key);					\
		change;							\
		refuse(what, b, MOOR_SYN_##syndrome);			\
	} while (0)

	REFUSE("window key with another nonce", KEY, b.mw_key ^= 0x100);
	REFUSE("window key of another index", KEY, b.mw_key ^= 0x400000);
	REFUSE("a plain MR's key as window", KEY,
	       b.mw_key = mr; b.new_key = mr + 1);
	REFUSE("window of another PD", PD,
	       b.mw_key = other; b.new_key = other + 1);
	REFUSE("wrong MR key", KEY, b.mr_lkey ^= 1);
	REFUSE("null MR", KEY, b.mr_lkey = (uint32_t)
	       nic_reg_read(g->nic, MOOR_REG_NULL_LKEY, 4));
	REFUSE("window as MR", KEY, b.mr_lkey = other);
	REFUSE("MR of another PD", PD, b.mr_lkey = foreign);
	REFUSE("MR without MW_BIND", RIGHTS, b.mr_lkey = no_bind);
	REFUSE("remote write to a read-only MR", RIGHTS,
	       b.mr_lkey = read_only);
	REFUSE("local right", RIGHTS, b.access |= MOOR_ACCESS_LOCAL_WRITE);
	REFUSE("right to bind", RIGHTS, b.access |= MOOR_ACCESS_MW_BIND);
	REFUSE("unknown right", RIGHTS, b.access |= MOOR_BIT(30));
	REFUSE("one byte before", BOUNDS, b.addr--);
	REFUSE("one byte longer", BOUNDS, b.length++);
	REFUSE("length wraps", BOUNDS, b.addr += 8; b.length = -8ull);
	if (type == MOOR_MRC_TYPE_MW_2)
		REFUSE("length 0", LENGTH, b.length = 0);
#undef REFUSE
	ok(revoke_key(g, mr) == 0, "none of these is counted");
	mr = make_mr(g, PD, BINDABLE, buf[1], LEN);
	b = all_of(key);
	b.mr_lkey = read_only;
	b.access = MOOR_ACCESS_REMOTE_READ;
	ok(bind(1, b) == 0, "remote read of a read-only MR");
	ok(remote(MOOR_WQE_READ, key + 1, buf[1], 8) == 0, "READ through it");
}

/* A bind sets the lowest byte of the key; the other bits stay the window's. */
static void test_keys(unsigned int type)
{
	uint32_t key = make_mw(PD, type), i;
	unsigned int wrong = 0, same = 0;
	struct moor_wqe_bind b = all_of(key);

	for (i = 0; i < 512; i++) {
		/* Neither the old byte nor the other bits of the new key count. */
		b.mw_key = key ^ (i & 0xff);
		b.new_key = (key ^ i * 0x01010101u) & ~0xffu;
		b.new_key |= i & 0xff;
		wrong += bind(1, b) != 0;
		wrong += remote(MOOR_WQE_WRITE, key | (i & 0xff), buf[1], 8) != 0;
		if (type == MOOR_MRC_TYPE_MW_2)
			wrong += local_inv(1, key | (i & 0xff)) != 0;
	}
	ok(!wrong, "bound by each byte, whatever the rest of the new key");
	for (i = 0; i < 2; i++) {
		b.new_key = key | 0xff;
		same += bind(1, b) == 0;
		same += remote(MOOR_WQE_WRITE, b.new_key, buf[1], 8) == 0;
		if (type == MOOR_MRC_TYPE_MW_2)
			same += local_inv(1, b.new_key) == 0;
	}
	ok(same == (type == MOOR_MRC_TYPE_MW_2 ? 6 : 4), "the same byte again");
	ok(remote(MOOR_WQE_WRITE, (key | 0xff) ^ 1, buf[1], 8) ==
	   MOOR_WC_REM_ACCESS_ERR, "another byte is another key");
}

static void test_access(unsigned int type)
{
	uint32_t key = make_mw(PD, type);
	struct moor_wqe_bind b = all_of(key);

	ok(remote(MOOR_WQE_WRITE, key, buf[1], 8) == MOOR_WC_REM_ACCESS_ERR,
	   "unbound window");
	b.addr += 100;
	b.length = 1000;
	b.access = MOOR_ACCESS_REMOTE_WRITE;
	ok(bind(1, b) == 0, "bind type %u", type - 2);
	memset(at(g, buf[0]), 0x77, LEN);
	ok(remote(MOOR_WQE_WRITE, key + 1, buf[1] + 100, 1000) == 0 &&
	   ((uint8_t *)at(g, buf[1]))[99] != 0x77 &&
	   ((uint8_t *)at(g, buf[1]))[100] == 0x77 &&
	   ((uint8_t *)at(g, buf[1]))[1099] == 0x77 &&
	   ((uint8_t *)at(g, buf[1]))[1100] != 0x77, "WRITE, all of it");
	ok(remote(MOOR_WQE_WRITE, mr, buf[1] + 100, 8) ==
	   MOOR_WC_REM_ACCESS_ERR, "the MR's own key stays without rights");
	if (type == MOOR_MRC_TYPE_MW_2) {
		/* revive() has reset the QP, which unbinds the window. */
		ok(remote(MOOR_WQE_WRITE, key + 1, buf[1] + 100, 8) ==
		   MOOR_WC_REM_ACCESS_ERR, "QP reset has unbound it");
		b.mw_key = key + 1;
		b.new_key = key + 2;
		ok(bind(1, b) == 0, "and it can be bound again");
		key++;
	}
	ok(remote(MOOR_WQE_WRITE, key + 1, buf[1] + 99, 8) ==
	   MOOR_WC_REM_ACCESS_ERR, "one byte before");
	if (type == MOOR_MRC_TYPE_MW_1) {
		ok(remote(MOOR_WQE_WRITE, key + 1, buf[1] + 101, 1000) ==
		   MOOR_WC_REM_ACCESS_ERR, "one byte behind");
		ok(remote(MOOR_WQE_READ, key + 1, buf[1] + 100, 8) ==
		   MOOR_WC_REM_ACCESS_ERR, "READ without the right");
		ok(remote(MOOR_WQE_WRITE, key, buf[1] + 100, 8) ==
		   MOOR_WC_REM_ACCESS_ERR, "key of before the bind");
		ok(remote(MOOR_WQE_WRITE, key + 1, buf[1] + 100, 8) == 0,
		   "it has survived the errors");
		b.mw_key = key + 1;
		b.new_key = key + 2;
		b.access |= (uint32_t)MOOR_BIND_ZERO_BASED;
		ok(bind(1, b) == 0, "bind anew, zero-based");
		ok(remote(MOOR_WQE_WRITE, key + 1, buf[1] + 100, 8) ==
		   MOOR_WC_REM_ACCESS_ERR, "old key");
		memset(at(g, buf[0]), 0x55, 8);
		ok(remote(MOOR_WQE_WRITE, key + 2, 0, 8) == 0 &&
		   ((uint8_t *)at(g, buf[1]))[100] == 0x55, "from 0");
		ok(remote(MOOR_WQE_WRITE, key + 2, 993, 8) ==
		   MOOR_WC_REM_ACCESS_ERR, "beyond its end");
		b.mw_key = key + 2;
		b.new_key = key + 3;
		b.length = 0;
		b.mr_lkey = 0;
		ok(revoke_key(g, mr) == 1, "MR is busy");
		ok(bind(1, b) == 0, "unbind");
		ok(remote(MOOR_WQE_WRITE, key + 3, 0, 8) ==
		   MOOR_WC_REM_ACCESS_ERR, "unbound");
		ok(revoke_key(g, mr) == 0, "MR can go");
		mr = make_mr(g, PD, BINDABLE, buf[1], LEN);
	}
}

static void test_local_key(void)
{
	uint32_t key = make_mw(PD, MOOR_MRC_TYPE_MW_1);
	struct moor_sq_wqe *wqe;
	uint8_t syndrome = 0;

	ok(bind(0, all_of(key)) == 0, "bind through another QP");
	ok(remote(MOOR_WQE_WRITE, key + 1, buf[1], 8) == 0,
	   "type 1 works through any QP of the PD");
	wqe = next_send(g, &qp[0], MOOR_WQE_WRITE, 2);
	wqe->remote_addr = buf[1];
	wqe->rkey = key + 1;
	add_sge(wqe, sge(buf[1], 8, key + 1));
	ring(g, &qp[0]);
	ok(status_of(0, &syndrome) == MOOR_WC_LOC_PROT_ERR &&
	   syndrome == MOOR_SYN_KEY, "window as lkey");
	revive();
	ok(revoke_key(g, key) == 0, "revoke of a bound window, by its first key");
	ok(remote(MOOR_WQE_WRITE, key + 1, buf[1], 8) ==
	   MOOR_WC_REM_ACCESS_ERR, "revoked window");
	ok(revoke_key(g, mr) == 0, "and the MR is free");
	mr = make_mr(g, PD, BINDABLE, buf[1], LEN);
}

static void test_type_2(void)
{
	uint32_t key = make_mw(PD, MOOR_MRC_TYPE_MW_2);
	struct moor_wqe_bind again;
	struct moor_cmd_modify_qp reset = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};

	ok(bind(2, all_of(key)) == 0, "bind on a third QP");
	ok(remote(MOOR_WQE_WRITE, key + 1, buf[1], 8) ==
	   MOOR_WC_REM_ACCESS_ERR, "type 2: wrong QP");
	ok(local_inv(1, key + 1) == (MOOR_WC_MW_BIND_ERR << 8 |
				     MOOR_SYN_WINDOW), "LOCAL_INV: wrong QP");
	revive();
	ok(local_inv(1, key) == (MOOR_WC_MW_BIND_ERR << 8 | MOOR_SYN_KEY),
	   "LOCAL_INV: old key");
	revive();
	ok(local_inv(1, mr) == (MOOR_WC_MW_BIND_ERR << 8 | MOOR_SYN_KEY),
	   "LOCAL_INV: plain MR");
	revive();
	again = all_of(key + 1);
	ok(bind(1, again) == (MOOR_WC_MW_BIND_ERR << 8 | MOOR_SYN_WINDOW),
	   "bound already");
	revive();
	ok(revoke_key(g, mr) == 1, "still bound: MR is busy");
	ok(local_inv(2, key + 1) == 0, "LOCAL_INV");
	ok(local_inv(2, key + 1) == (MOOR_WC_MW_BIND_ERR << 8 | MOOR_SYN_KEY),
	   "LOCAL_INV again");
	ok(bind(1, again) == 0, "bind on the pair's QP");
	ok(remote(MOOR_WQE_WRITE, key + 2, buf[1], 8) == 0, "right QP");
	ok(!modify(g, &reset, qp[1].qpn), "QP to RESET");
	ok(revoke_key(g, mr) == 0, "MR is free");
	mr = make_mr(g, PD, BINDABLE, buf[1], LEN);
	revive();
}

static uint8_t send_inv(uint32_t key, struct moor_cqe *received)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[0], MOOR_WQE_SEND_INV, 3);
	struct moor_sge s = sge(buf[1], 64, lkey[1]);
	uint8_t syndrome = 0, status;

	post_recv(g, &qp[1], 4, &s, 1);
	wqe->inv_key = key;
	add_sge(wqe, sge(buf[0], 64, lkey[0]));
	ring(g, &qp[0]);
	status = status_of(0, &syndrome);
	memset(received, 0, sizeof(*received));
	poll_cq(g, &cq[1], received);
	return status;
}

/*
 * The key comes with the last packet: the message may have been placed, but the sender
 * gets no answer, and the receiver fails by itself.
 */
static void refuse_send_inv(const char *what, uint32_t key)
{
	struct moor_eqe eqe;
	struct moor_cqe cqe;

	ok(send_inv(key, &cqe) == 0xff && cqe.wr_id == 4 &&
	   cqe.status == MOOR_WC_WR_FLUSH_ERR, "%s: the receive is flushed",
	   what);
	ok(next_event(g, 0, &eqe) && eqe.type == MOOR_EVENT_QP_ACCESS_ERR &&
	   eqe.number == qp[1].qpn && !next_event(g, 0, &eqe),
	   "%s: event at the receiver", what);
	settle_timers(g, 100);
	ok(poll_cq(g, &cq[0], &cqe) && cqe.status == MOOR_WC_RETRY_EXC_ERR,
	   "%s: nothing answers the sender", what);
	revive();
}

static void test_send_inv(void)
{
	uint32_t key = make_mw(PD, MOOR_MRC_TYPE_MW_2);
	uint32_t one = make_mw(PD, MOOR_MRC_TYPE_MW_1);
	struct moor_cqe cqe;

	ok(bind(1, all_of(key)) == 0 && bind(1, all_of(one)) == 0, "bind two");
	memset(at(g, buf[0]), 0x31, 64);
	ok(send_inv(key + 1, &cqe) == 0 && cqe.status == 0 &&
	   cqe.wr_id == 4 && (cqe.flags & MOOR_CQE_FLAG_INV) &&
	   !(cqe.flags & MOOR_CQE_FLAG_IMM) && cqe.inv_key == key + 1 &&
	   ((uint8_t *)at(g, buf[1]))[63] == 0x31, "SEND_INV");
	ok(remote(MOOR_WQE_WRITE, key + 1, buf[1], 8) ==
	   MOOR_WC_REM_ACCESS_ERR, "the key is dead");
	refuse_send_inv("SEND_INV again", key + 1);
	refuse_send_inv("SEND_INV of a type 1 window", one + 1);
	refuse_send_inv("SEND_INV of a plain MR", mr);
	refuse_send_inv("SEND_INV of nothing", mr ^ 1);
	ok(remote(MOOR_WQE_WRITE, one + 1, buf[1], 8) == 0,
	   "the type 1 window works on");
	ok(revoke_key(g, one) == 0 && revoke_key(g, mr) == 0, "clean up");
	mr = make_mr(g, PD, BINDABLE, buf[1], LEN);
}

/* A driver that rewrites entries without a revoke: dead keys, right counts. */
static void test_rewritten(void)
{
	uint32_t key = make_mw(PD, MOOR_MRC_TYPE_MW_1), i;
	uint32_t target = make_mr(g, PD, BINDABLE, buf[1], LEN);
	struct moor_wqe_bind b = all_of(key);
	struct moor_mr_context window = { .pd = PD }, short_mr = {
		.pd = PD, .access = BINDABLE, .iova = buf[1], .length = 64,
		.xlat = flat(buf[1]),
	}, *entry = (struct moor_mr_context *)g->mr_bar + (target >> 16);

	b.mr_lkey = target;
	ok(bind(1, b) == 0, "bind");
	put_entry(g, target, &short_mr, MOOR_MRC_TYPE_MR);
	ok(remote(MOOR_WQE_WRITE, key + 1, buf[1], 8) ==
	   MOOR_WC_REM_ACCESS_ERR, "MR rewritten: the window leads nowhere");
	ok(revoke_key(g, target) == 0, "and it does not count");

	put_entry(g, key, &window, MOOR_MRC_TYPE_MW_1);
	b.mr_lkey = mr;
	ok(bind(1, b) == 0, "window rewritten, bound");
	put_entry(g, key, &window, MOOR_MRC_TYPE_MW_1);
	ok(remote(MOOR_WQE_WRITE, key + 1, buf[1], 8) ==
	   MOOR_WC_REM_ACCESS_ERR, "window rewritten: unbound");
	ok(revoke_key(g, mr) == 0, "and it does not count either");
	mr = make_mr(g, PD, BINDABLE, buf[1], LEN);

	target = make_mr(g, PD, BINDABLE, buf[1], LEN);
	b.mr_lkey = target;
	entry = (struct moor_mr_context *)g->mr_bar + (target >> 16);
	ok(bind(1, b) == 0, "bind again");
	entry->length = 64;
	i = remote(MOOR_WQE_WRITE, key + 1, buf[1] + 8192, 8);
	ok(i == MOOR_WC_REM_ACCESS_ERR, "body cut under a window: refused");
}

#define MANY	300u

static void test_list(void)
{
	struct moor_cmd_mr_windows cmd = {
		.hdr.opcode = MOOR_CMD_MR_WINDOWS, .key = mr,
	};
	struct moor_cmd_mr_query query = {
		.hdr.opcode = MOOR_CMD_MR_QUERY, .key = mr,
	};
	const struct moor_cpl_mr_query *q = (const void *)g->cpl.out;
	const struct moor_cpl_mr_windows *out = (const void *)g->cpl.out;
	static uint32_t keys[MANY];
	const struct moor_window_info *info;
	uint32_t i, n, total = 0, calls = 0;
	struct moor_wqe_bind b;
	bool good = true;

	cmd.buffer = take(g, 4096);
	info = at(g, cmd.buffer);
	for (i = 0; i < MANY; i++) {
		keys[i] = make_mw(PD, i & 1 ? MOOR_MRC_TYPE_MW_2 :
					      MOOR_MRC_TYPE_MW_1);
		b = all_of(keys[i]);
		b.addr += i;
		b.length = 1 + i;
		b.access = 1u << (1 + i % 3);
		good &= bind(1, b) == 0;
	}
	ok(good, "bind %u windows", MANY);
	ok(!command(g, &query, sizeof(query)) && q->windows == MANY &&
	   q->state == MOOR_MR_STATE_VALID && q->type == MOOR_MRC_TYPE_MR,
	   "MR_QUERY counts them");
	do {
		good &= !command(g, &cmd, sizeof(cmd));
		n = out->count;
		for (i = 0; i < n && total < MANY; i++, total++) {
			good &= info[i].key == keys[total] + 1 &&
				info[i].type == MOOR_MRC_TYPE_MW_1 + (total & 1) &&
				info[i].qpn == qp[1].qpn &&
				info[i].access == 1u << (1 + total % 3) &&
				info[i].iova == buf[1] + total &&
				info[i].length == 1 + total;
		}
		good &= !out->cursor || n == MOOR_WINDOWS_PER_PAGE;
		cmd.cursor = out->cursor;
		calls++;
	} while (cmd.cursor && calls < 10);
	ok(good && total == MANY && calls == 3, "MR_WINDOWS lists them: %u in %u",
	   total, calls);
	query.key = keys[1];
	ok(!command(g, &query, sizeof(query)) && q->key == keys[1] + 1 &&
	   q->state == MOOR_MR_STATE_BOUND && q->mr_key == mr &&
	   q->qpn == qp[1].qpn && q->length == 2, "MR_QUERY of a window");
	cmd.cursor = 1;
	ok(command(g, &cmd, sizeof(cmd)) == MOOR_CMD_BAD_PARAM, "bad cursor");
	cmd.cursor = 0;
	cmd.key ^= 1;
	ok(command(g, &cmd, sizeof(cmd)) == MOOR_CMD_BAD_INDEX, "bad key");
	cmd.key ^= 1;
	cmd.buffer += 8;
	ok(command(g, &cmd, sizeof(cmd)) == MOOR_CMD_BAD_PARAM,
	   "buffer not aligned");
	cmd.buffer = 4096;
	ok(command(g, &cmd, sizeof(cmd)) == MOOR_CMD_DMA_FAULT,
	   "buffer out of reach");

	struct moor_cmd_destroy_qp destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_QP, .qpn = qp[1].qpn,
	};

	ok(!command(g, &destroy, sizeof(destroy)), "destroy the QP");
	query.key = mr;
	ok(!command(g, &query, sizeof(query)) && q->windows == MANY / 2,
	   "those of type 2 are unbound");
	for (i = 0; i < MANY; i += 2)
		good &= revoke_key(g, keys[i]) == 0;
	ok(good && revoke_key(g, mr) == 0, "and those of type 1 by revoke");
}

static void test_nic_memory(void)
{
	struct moor_mr_context e = {
		.pd = PD, .access = MOOR_ACCESS_LOCAL_WRITE | REMOTE,
		.length = 8192, .xlat = flat(4096),
	};
	uint32_t key = g->next_mr++ << 16 | 0x77;
	uint8_t *dm = g->db_bar + NIC_DM_OFFSET;

	e.xlat.memory = MOOR_MEMORY_NIC;
	put_entry(g, key, &e, MOOR_MRC_TYPE_MR);
	memset(at(g, buf[0]), 0x66, LEN);
	ok(remote(MOOR_WQE_WRITE, key, 0, 8192) == 0 && dm[4095] == 0 &&
	   dm[4096] == 0x66 && dm[4096 + 8191] == 0x66 &&
	   dm[4096 + 8192] == 0, "WRITE to on-NIC memory");
	dm[5000] = 0x12;
	ok(remote(MOOR_WQE_READ, key, 904, 8) == 0 &&
	   *(uint8_t *)at(g, buf[0]) == 0x12, "READ from it");
	ok(remote(MOOR_WQE_WRITE, key, 1, 8192) == MOOR_WC_REM_ACCESS_ERR,
	   "beyond the MR");
	key = g->next_mr++ << 16 | 0x77;
	e.xlat = flat(NIC_DM_SIZE - 4096);
	e.xlat.memory = MOOR_MEMORY_NIC;
	put_entry(g, key, &e, MOOR_MRC_TYPE_MR);
	ok(remote(MOOR_WQE_WRITE, key, 4090, 8) == MOOR_WC_REM_ACCESS_ERR,
	   "what lies behind that memory has no translation");
}

int main(void)
{
	unsigned int strict, type;

	for (strict = 0; strict < 2; strict++) {
		for (type = MOOR_MRC_TYPE_MW_1; type <= MOOR_MRC_TYPE_MW_2;
		     type++) {
			start(strict);
			test_bind_checks(type);
			guest_stop(g);
			start(strict);
			test_keys(type);
			guest_stop(g);
			start(strict);
			test_access(type);
			guest_stop(g);
		}
		start(strict);
		test_local_key();
		test_type_2();
		test_send_inv();
		if (!strict)
			test_rewritten();
		test_nic_memory();
		test_list();
		guest_stop(g);
	}
	return done();
}
