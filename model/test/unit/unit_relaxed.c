// SPDX-License-Identifier: GPL-2.0
/*
 * The order of writes (HWI ORD-4, ORD-9): kept without RELAXED_ORDERING and by a
 * device that is not strict; else free, with the exceptions of the rules.
 */
#include <string.h>

#include "guest.h"
#include "base/impairment.h"
#include "memory/transfer.h"
#include "transport/port.h"

#define PD	5
#define RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
		 MOOR_ACCESS_REMOTE_READ | MOOR_ACCESS_REMOTE_ATOMIC | \
		 MOOR_ACCESS_MW_BIND)
#define LEN	8192u
#define ROUNDS	60
#define RELAXED	MOOR_ACCESS_RELAXED_ORDERING

/* The second QP's buffer under two keys; the source of the first QP's writes. */
static struct guest *g;
static struct guest_cq cq[2];
static struct guest_qp qp[2];
static uint64_t buf, source;
static uint32_t ordered, relaxed, window, source_key;

static void start(bool strict)
{
	struct moor_mr_context mw = { .pd = PD };
	int i;

	g = guest_start(strict);
	guest_set_gid(g, 0, 1);
	for (i = 0; i < 2; i++) {
		if (make_cq(g, &cq[i], i, 8) ||
		    make_qp(g, &qp[i], 0x4000u * (i + 1) + 3 + i, PD, &cq[i],
			    &cq[i]))
			ok(false, "create CQ, QP");
	}
	connect_qp(g, &qp[0], qp[1].qpn);
	connect_qp(g, &qp[1], qp[0].qpn);
	buf = take(g, LEN);
	source = take(g, 3 * LEN);
	ordered = make_mr(g, PD, RIGHTS, buf, LEN);
	relaxed = make_mr(g, PD, RIGHTS | RELAXED, buf, LEN);
	source_key = make_mr(g, PD, RIGHTS, source, 3 * LEN);
	for (i = 0; i < 3; i++)
		memset(at(g, source + i * LEN), 'A' + i, LEN);
	window = 0x80004200;
	put_entry(g, window, &mw, MOOR_MRC_TYPE_MW_1);
}

static bool succeeded(unsigned int i)
{
	struct moor_cqe cqe = { .status = 0xff };

	return poll_cq(g, &cq[i], &cqe) && !cqe.status;
}

/* The next request of the first QP, not signalled. */
static struct moor_sq_wqe *request(uint8_t opcode, uint32_t rkey, uint64_t at_)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[0], opcode, 1);

	wqe->flags = 0;
	wqe->rkey = rkey;
	wqe->remote_addr = at_;
	return wqe;
}

static void write_from(unsigned int which, uint32_t rkey)
{
	add_sge(request(MOOR_WQE_WRITE, rkey, buf),
		sge(source + which * LEN, LEN, source_key));
}

/* Posts an empty write that is signalled, and rings the doorbell. */
static bool finish(void)
{
	request(MOOR_WQE_WRITE, 0, 0)->flags = MOOR_WQE_FLAG_SIGNALED;
	ring(g, &qp[0]);
	return succeeded(0);
}

/* Bytes of the buffer that are @value. */
static uint32_t count_of(uint8_t value)
{
	const uint8_t *p = at(g, buf);
	uint32_t i, n = 0;

	for (i = 0; i < LEN; i++)
		n += p[i] == value;
	return n;
}

/* ---- allowed reordering: rounds in which bytes of the first write stay ---- */

static void two_writes(uint32_t key)
{
	write_from(0, key);
	write_from(1, key);
}

static void scatter_read(uint32_t key)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[1], MOOR_WQE_READ, 1);

	wqe->rkey = source_key;
	wqe->remote_addr = source;
	memset(at(g, source + LEN / 2), 'B', LEN / 2);
	add_sge(wqe, sge(buf, LEN / 2, key));
	add_sge(wqe, sge(buf, LEN / 2, key));
	ring(g, &qp[1]);
	succeeded(1);
	memset(at(g, source + LEN / 2), 'A', LEN / 2);
}

static void scatter_receive(uint32_t key)
{
	struct moor_sge to[2] = { sge(buf, LEN, key), sge(buf, LEN, key) };

	post_recv(g, &qp[1], 2, to, 2);
	add_sge(request(MOOR_WQE_SEND, 0, 0),
		sge(source, 2 * LEN, source_key));
}

static const struct {
	const char *name;
	void (*post)(uint32_t key);
	bool receives;
} writers[] = {
	{ "write after write", two_writes, false },
	{ "read into one place twice", scatter_read, false },
	{ "receive into one place twice", scatter_receive, true },
};

static uint32_t passed(unsigned int which, uint32_t key, uint8_t *history)
{
	uint32_t round, n = 0;

	for (round = 0; round < ROUNDS; round++) {
		memset(at(g, buf), 0, LEN);
		writers[which].post(key);
		if (!finish() || (writers[which].receives && !succeeded(1)))
			ok(false, "%s: completion", writers[which].name);
		n += count_of('A') > 0;
		if (history)
			*history++ = *(uint8_t *)at(g, buf);
		/* The second half of what scatter_read() names stays zero. */
		if (count_of(0) != (which == 1 ? LEN / 2 : 0))
			ok(false, "%s: all data is there", writers[which].name);
	}
	return n;
}

static void test_freedom(bool strict)
{
	struct moor_sq_wqe *wqe;
	unsigned int i;
	uint32_t n;

	for (i = 0; i < 3; i++) {
		ok(!passed(i, ordered, NULL), "%s: %s: without the flag in order",
		   strict ? "strict" : "normal", writers[i].name);
		n = passed(i, relaxed, NULL);
		ok(strict ? n > ROUNDS / 2 : !n, "  with it: %u of %u not", n,
		   ROUNDS);
	}
	for (i = 0; i < 2; i++) {
		wqe = next_send(g, &qp[1], MOOR_WQE_BIND_MW, 3);
		*(struct moor_wqe_bind *)(wqe + 1) = (struct moor_wqe_bind){
			.mw_key = window, .new_key = window + 1,
			.mr_lkey = i ? relaxed : ordered,
			.access = MOOR_ACCESS_REMOTE_WRITE,
			.addr = buf, .length = LEN,
		};
		ring(g, &qp[1]);
		if (!succeeded(1))
			ok(false, "bind");
		n = passed(0, ++window, NULL);
		ok(strict && i ? n > ROUNDS / 2 : !n,
		   "  through a window as through its MR: %u", n);
	}
}

/* ---- forbidden reordering ---- */

static void test_not_relaxed_after_relaxed(void)
{
	uint32_t round, n = 0;

	for (round = 0; round < ROUNDS; round++) {
		write_from(0, relaxed);
		write_from(1, ordered);
		n += finish() && count_of('B') == LEN;
	}
	ok(n == ROUNDS, "  a write without the flag passes nothing");
}

static void test_atomic(void)
{
	uint32_t round, n = 0;

	for (round = 0; round < ROUNDS; round++) {
		uint64_t *word = at(g, buf);
		struct moor_sq_wqe *wqe;

		write_from(0, relaxed);
		wqe = request(MOOR_WQE_FETCH_ADD, relaxed, buf);
		((struct moor_wqe_atomic *)(wqe + 1))->swap_add = 1;
		add_sge(wqe, sge(source + 2 * LEN, 8, source_key));
		n += finish() && *word == 0x4141414141414142u;
		/* And a later write does not pass the atomic. */
		wqe = request(MOOR_WQE_FETCH_ADD, relaxed, buf);
		((struct moor_wqe_atomic *)(wqe + 1))->swap_add = 1;
		add_sge(wqe, sge(source + 2 * LEN, 8, source_key));
		write_from(1, relaxed);
		n += finish() && count_of('B') == LEN;
		memset(at(g, source + 2 * LEN), 'C', 8);
	}
	ok(n == 2 * ROUNDS, "  nothing passes an atomic");
}

/* The device's reads see its earlier writes. */
static void test_reads(void)
{
	uint32_t target = make_mr(g, PD, RIGHTS | RELAXED, source + 2 * LEN, LEN);
	uint32_t round, read = 0, gathered = 0;

	for (round = 0; round < ROUNDS; round++) {
		memset(at(g, buf), 0, LEN);
		memset(at(g, source + 2 * LEN), 0, LEN);
		write_from(1, relaxed);
		add_sge(request(MOOR_WQE_READ, relaxed, buf),
			sge(source + 2 * LEN, LEN, target));
		read += finish() && !memcmp(at(g, source + 2 * LEN),
					    at(g, source + LEN), LEN);

		memset(at(g, buf), 0, LEN);
		memset(at(g, source + 2 * LEN), 0, LEN);
		write_from(0, relaxed);
		add_sge(request(MOOR_WQE_WRITE, target, source + 2 * LEN),
			sge(buf, LEN, ordered));
		gathered += finish() && !memcmp(at(g, source + 2 * LEN),
						at(g, source), LEN);
	}
	ok(read == ROUNDS, "  a READ sees the writes before it");
	ok(gathered == ROUNDS, "  so does what gathers");
	memset(at(g, source + 2 * LEN), 'C', LEN);
}

static void test_null(void)
{
	uint32_t null = (uint32_t)nic_reg_read(g->nic, MOOR_REG_NULL_LKEY, 4);
	uint32_t keys[2] = { ordered, relaxed }, i;

	for (i = 0; i < 2; i++) {
		write_from(0, keys[i]);
		if (!finish())
			ok(false, "completion");
		add_sge(request(MOOR_WQE_WRITE, keys[i], buf + 3),
			sge(0, LEN - 6, null));
		ok(finish() && count_of(0) == LEN - 6 && count_of('A') == 6,
		   "  zeros of the null MR");
	}
}

/* Writes data that looks like an old entry into slot @index of a ring. */
static struct moor_sq_wqe *write_slot(uint32_t key, uint64_t base, uint32_t index,
				      uint32_t log_entries, uint32_t size)
{
	bool odd = index >> log_entries & 1;
	uint32_t slot = index & ((1u << log_entries) - 1);
	struct moor_sq_wqe *wqe = request(MOOR_WQE_WRITE, key,
					  base + slot * size);

	add_sge(wqe, sge(source + (odd ? 0 : LEN), size, source_key));
	return wqe;
}

/* Data goes to the place of the request's own CQE, which must come after the data. */
static void test_completion(void)
{
	uint32_t size = 64u << cq[0].log_cqe, round, n = 0;
	uint32_t key = make_mr(g, PD, RIGHTS | RELAXED, cq[0].ring, size);

	for (round = 0; round < ROUNDS; round++) {
		write_slot(key, cq[0].ring, cq[0].consumer, cq[0].log_cqe,
			   sizeof(struct moor_cqe))->flags =
			MOOR_WQE_FLAG_SIGNALED;
		ring(g, &qp[0]);
		n += succeeded(0);
	}
	ok(n == ROUNDS, "  a CQE does not pass the data that it reports");
}

/* Connects the QPs anew after an error, and drops CQEs and events. */
static void reconnect(void)
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
		while (poll_cq(g, &cq[i], &cqe))
			;
	}
	for (i = 0; i < 2; i++)
		connect_qp(g, &qp[i], qp[!i].qpn);
	if (!finish())
		ok(false, "reconnect");
	while (next_event(g, 0, &eqe))
		;
}

/* Replaces the QPs by UC ones; the caller puts the old ones back. */
static void use_uc(uint32_t number)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (make_special_qp(g, &qp[i], 0x4000u * (i + 1) + number + i, PD,
				    &cq[i], &cq[i], MOOR_QP_UC, 0))
			ok(false, "create QP");
}

/*
 * The same with an event, of a receive queue with a wrong doorbell. On UC, where no CQE
 * comes before it.
 */
static void test_event(void)
{
	uint32_t key = make_mr(g, PD, RIGHTS | RELAXED, g->eq_base[0], 4096);
	struct guest_qp rc[2] = { qp[0], qp[1] };
	uint32_t round, n = 0;
	struct moor_eqe eqe;

	use_uc(5);
	for (round = 0; round < ROUNDS; round++) {
		reconnect();
		write_slot(key, g->eq_base[0], g->eq_consumer[0], 4,
			   sizeof(eqe));
		((uint64_t *)g->db_bar)[qp[1].rq_slot] = 1u << 20;
		request(MOOR_WQE_SEND, 0, 0);
		ring(g, &qp[0]);
		n += next_event(g, 0, &eqe) && eqe.type == MOOR_EVENT_QP_FATAL;
	}
	ok(n == ROUNDS, "  an event does not pass the data before it");
	qp[0] = rc[0];
	qp[1] = rc[1];
	reconnect();
}

/*
 * A timer delivers a packet, after which no QP has work: none of its data is held back
 * when the NIC looks at commands, or is reset.
 */
static void test_late_packet(void)
{
	static const struct impairment late = { .delay = 100 };
	struct guest_qp rc[2] = { qp[0], qp[1] };
	uint32_t round, n = 0;

	use_uc(7);
	reconnect();
	port_impair(g->nic, &late);
	for (round = 0; round < ROUNDS; round++) {
		memset(at(g, buf), 0, LEN);
		write_from(0, relaxed);
		ring(g, &qp[0]);
		settle_timers(g, 2);
		n += count_of('A') == LEN;
	}
	ok(n == ROUNDS, "  nor is a packet of a timer held back after it");
	port_impair(g->nic, NULL);
	qp[0] = rc[0];
	qp[1] = rc[1];
	reconnect();
}

/* Transfers to the NIC's own memory, which may be gone after the transfer. */
static void test_own_bytes(void)
{
	static uint8_t inline_data[64] = "what came with the request";
	uint8_t own[sizeof(inline_data)] = {};
	struct stream to = { .bytes = own }, from = { .bytes = inline_data };
	struct stream *culprit;

	ok(!transfer(g->nic, &to, &from, sizeof(own), &culprit) &&
	   !memcmp(own, inline_data, sizeof(own)),
	   "  nothing is held back for the NIC's own bytes");
}

/* Sources and targets of every alignment. */
static void test_alignment(void)
{
	uint32_t keys[2] = { ordered, relaxed }, wrong = 0, i, n;
	uint8_t *from = at(g, source), *to = at(g, buf);

	for (i = 0; i < LEN; i++)
		from[i] = (uint8_t)(i * 7 + (i >> 8));
	for (n = 0; n < 2 * 17 * 17; n++) {
		uint32_t a = n / 2 % 17, b = n / 34, len = 600 + 3 * a + b;

		memset(to, 0xee, LEN);
		add_sge(request(MOOR_WQE_WRITE, keys[n % 2], buf + a),
			sge(source + b, len, source_key));
		if (!finish())
			ok(false, "completion");
		for (i = 0; i < LEN; i++)
			wrong += to[i] != (i >= a && i < a + len ?
					   from[i - a + b] : 0xee);
	}
	ok(!wrong, "  any byte to any byte");
	memset(from, 'A', LEN);
}

int main(void)
{
	uint8_t history[2][ROUNDS];
	int i;

	for (i = 0; i < 2; i++) {
		start(i);
		test_freedom(i);
		test_not_relaxed_after_relaxed();
		test_atomic();
		test_reads();
		test_null();
		test_completion();
		test_event();
		test_late_packet();
		test_own_bytes();
		test_alignment();
		guest_stop(g);
	}
	for (i = 0; i < 2; i++) {
		start(true);
		passed(0, relaxed, history[i]);
		guest_stop(g);
	}
	ok(!memcmp(history[0], history[1], ROUNDS),
	   "one seed, one order");
	return done();
}
