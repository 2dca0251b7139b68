// SPDX-License-Identifier: GPL-2.0
/*
 * Answers that come late, twice, or after their memory was registered anew: what has
 * ended stays as it ended, and no message uses two registrations.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "lossy.h"
#include "memory/mr_state.h"
#include "transport/packet.h"
#include "transport/port.h"
#include "transport/transport.h"

/* More than the responder sends at once. */
#define LONG		(300u << 10)

/* The responder receives a READ request whose answer begins at this PSN. */
static void ask_to_read(uint32_t psn, uint64_t addr, uint32_t key, uint32_t len)
{
	const uint8_t *gid = w.g->nic->gids->entry[0].gid;
	struct packet p = {
		.opcode = PACKET_TRANSPORT_RC | PACKET_READ_REQUEST,
		.psn = psn, .num_psn = len / 1024 + !!(len % 1024),
		.dest_qpn = w.qp[1].qpn, .src_qpn = w.qp[0].qpn,
		.sgid = gid, .dgid = gid,
		.addr = addr, .rkey = key, .dma_length = len,
	};

	transport_receive(w.g->nic, &p);
}

/*
 * As many READs as are allowed at once are answered. A request of the first one, which
 * comes once more, late, takes no room from new READs.
 */
static void test_room(void)
{
	/* Long enough for all to be under way together. */
	const uint32_t len = 1u << 20;
	const struct qp *responder;
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe;
	unsigned int i;
	uint64_t buf;
	uint32_t key;

	world_start(MOOR_QP_RC);
	responder = qp_find(w.g->nic, w.qp[1].qpn);
	buf = take(w.g, len);
	key = make_mr(w.g, PD, RIGHTS, buf, len);
	for (i = 0; i < 4; i++) {
		wqe = next_send(w.g, &w.qp[0], MOOR_WQE_READ, i);
		wqe->remote_addr = htole64(buf);
		wqe->rkey = htole32(key);
		add_sge(wqe, sge(buf, len, key));
	}
	ring(w.g, &w.qp[0]);
	while (i && wait_cq(0, &cqe) && !cqe.status)
		i--;
	ok(!i && !w.g->nic->wire->traffic.went_back,
	   "four READs, answered in their order");
	ask_to_read(0, buf, key, len);
	for (i = 4; i < 8; i++)
		ask_to_read(i * (len >> 10), buf, key, len);
	ok(!responder->resp.fault.set, "an old one, asked for again, takes no room");
	guest_stop(w.g);
}

/*
 * READs are counted in 32 bits: those around the 2^32nd are answered as all others are,
 * and again when they are requested once more.
 */
static void test_count(void)
{
	struct responder *resp;
	struct moor_sq_wqe *wqe;
	unsigned int i, n = 0;
	struct moor_cqe cqe;

	world_start(MOOR_QP_RC);
	resp = &qp_find(w.g->nic, w.qp[1].qpn)->resp;
	resp->num_answers = -2;
	resp->unanswered = resp->num_answers;
	for (i = 0; i < 4; i++) {
		wqe = next_send(w.g, &w.qp[0], MOOR_WQE_READ, i);
		wqe->remote_addr = htole64(w.buf[1]);
		wqe->rkey = htole32(w.key[1]);
		add_sge(wqe, sge(w.buf[0], i == 1 ? LONG : 64, w.key[0]));
	}
	ring(w.g, &w.qp[0]);
	while (n < 4 && wait_cq(0, &cqe) && !cqe.status)
		n++;
	ok(n == 4, "READs about the 2^32nd: %u of 4 are answered", n);
	ask_to_read(1, w.buf[1], w.key[1], LONG);
	ok(resp->unanswered + 3 == resp->num_answers, "  and the second once more");
	settle(w.g);
	guest_stop(w.g);
}

/* The value that the last atomic was answered with. */
static uint64_t answered;

static uint32_t in_one(uint32_t mtu)
{
	(void)mtu;
	return PORT_UNIT;
}

static uint8_t watch(struct nic *nic, struct packet *p)
{
	(void)nic;
	if (packet_form(p)->kind == PACKET_KIND_ATOMIC_ACKNOWLEDGE)
		answered = p->original;
	return MOOR_SYN_NONE;
}

static void ask_to_add(uint32_t psn, uint32_t from)
{
	const uint8_t *gid = w.g->nic->gids->entry[0].gid;
	struct packet p = {
		.opcode = PACKET_TRANSPORT_RC | PACKET_FETCH_ADD,
		.psn = psn, .num_psn = 1,
		.dest_qpn = w.qp[1].qpn, .src_qpn = from,
		.sgid = gid, .dgid = gid,
		.addr = w.counter, .rkey = w.counter_key, .swap_add = 1,
	};

	transport_receive(w.g->nic, &p);
}

/* Two atomics with the same PSN: the older one was 2^24 packets ago. */
static void test_old_atomic(void)
{
	static const struct port watcher = {
		.unit = in_one, .send = watch, .window = 64, .keeps = true,
	};
	struct responder *resp;
	uint64_t first;

	world_start(MOOR_QP_RC);
	resp = &qp_find(w.g->nic, w.qp[1].qpn)->resp;
	w.g->nic->wire->port = &watcher;
	ask_to_add(0, w.qp[0].qpn);
	first = answered;
	resp->psn = 0;
	ask_to_add(0, 0);
	ask_to_add(0, w.qp[0].qpn + 1);
	ok(answered == first && !resp->psn, "a QP that it is not connected to gets no answer");
	ask_to_add(0, w.qp[0].qpn);
	ok(answered == first + 1, "two atomics with the same PSN");
	answered = first;
	ask_to_add(0, w.qp[0].qpn);
	ok(answered == first + 1, "  the later one is it that is repeated");
	guest_stop(w.g);
}

/* The bytes of a message are counted in 32 bits; several SGEs may have more room. */
static void test_room_of_receive(void)
{
	struct moor_sge s[3];
	struct moor_cqe cqe;
	unsigned int i;

	world_start(MOOR_QP_RC);
	for (i = 0; i < 3; i++)
		s[i] = sge(w.buf[1], 3u << 30, w.key[1]);
	post_recv(w.g, &w.qp[1], 7, s, 3);
	next_send(w.g, &w.qp[0], MOOR_WQE_SEND, 8);
	ring(w.g, &w.qp[0]);
	ok(wait_cq(1, &cqe) && !cqe.status &&
	   qp_find(w.g->nic, w.qp[1].qpn)->resp.wqe.room == NIC_MAX_MSG_SIZE,
	   "a receive of 9 GiB has room for the longest message");
	guest_stop(w.g);
}

/*
 * WRITEs are sent again, and the local key of the second has been revoked meanwhile. The
 * first can still succeed; the second fails, even if a late answer acknowledges it.
 */
static bool is_dead_for_good(const char *first, const char *then)
{
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe[3];
	unsigned int i, n = 0;
	uint32_t key;

	world_start(MOOR_QP_RC);
	key = make_mr(w.g, PD, RIGHTS, w.buf[0], 4096);
	set_timeout(8, 7);
	impair(first);
	for (i = 0; i < 3; i++) {
		wqe = next_send(w.g, &w.qp[0], MOOR_WQE_WRITE, i);
		wqe->remote_addr = htole64(w.buf[1]);
		wqe->rkey = htole32(w.key[1]);
		add_sge(wqe, sge(w.buf[0], 64, i == 1 ? key : w.key[0]));
	}
	ring(w.g, &w.qp[0]);
	revoke_key(w.g, key);
	impair(then);
	settle_timers(w.g, 3);
	impair(NULL);
	while (n < 3 && wait_cq(0, &cqe[n]))
		n++;
	guest_stop(w.g);
	return n == 3 && !cqe[0].status &&
	       cqe[1].status == MOOR_WC_LOC_PROT_ERR &&
	       cqe[2].status == MOOR_WC_WR_FLUSH_ERR;
}

/* Late answers to the first transmission, some of which are lost. */
static void test_dead_keys(void)
{
	unsigned int i, good = 0;
	char then[32];

	ok(is_dead_for_good("lose=100", "delay=100"),
	   "a key dies before its WRITE is sent again");
	for (i = 0; i < 24; i++) {
		snprintf(then, sizeof(then), "delay=100,lose=%u", 3 * i + 10);
		good += is_dead_for_good("delay=100", then);
	}
	ok(good == i, "  and no late answer makes that good: %u of %u", good, i);
}

/* The local key is revoked before a lost READ or atomic is requested again. */
static void test_dead_answers(uint8_t opcode, const char *what)
{
	uint8_t *memory, before[8];
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe;
	uint32_t key;

	world_start(MOOR_QP_RC);
	fill(w.buf[0], sizeof(before));
	fill(w.counter, sizeof(before));
	memory = at(w.g, w.buf[0]);
	memcpy(before, memory, sizeof(before));
	key = make_mr(w.g, PD, RIGHTS, w.buf[0], 4096);
	impair("lose=100");
	wqe = next_send(w.g, &w.qp[0], opcode, 5);
	wqe->remote_addr = htole64(w.counter);
	wqe->rkey = htole32(w.counter_key);
	add_sge(wqe, sge(w.buf[0], sizeof(before), key));
	ring(w.g, &w.qp[0]);
	revoke_key(w.g, key);
	impair(NULL);
	ok(wait_cq(0, &cqe) && cqe.status == MOOR_WC_LOC_PROT_ERR &&
	   !memcmp(memory, before, sizeof(before)),
	   "a key dies before its %s is asked for again", what);
	guest_stop(w.g);
}

/*
 * After the first piece of a READ's answer the MR is registered anew; with @asked_again
 * the READ is also requested again, as after a short time-out.
 */
static void test_registered_anew(bool asked_again, uint64_t epoch)
{
	struct moor_mr_context entry = {
		.pd = PD, .access = RIGHTS, .length = htole64(SIZE),
	};
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe;
	uint32_t key, sent;

	world_start(MOOR_QP_RC);
	entry.iova = htole64(w.buf[1]);
	entry.xlat = flat(w.buf[1]);
	key = make_mr(w.g, PD, RIGHTS, w.buf[1], SIZE);
	w.g->nic->mr->dynamic[key >> 16].epoch += epoch;
	wqe = next_send(w.g, &w.qp[0], MOOR_WQE_READ, 5);
	wqe->remote_addr = htole64(w.buf[1]);
	wqe->rkey = htole32(key);
	add_sge(wqe, sge(w.buf[0], SIZE, w.key[0]));
	announce(w.g, &w.qp[0]);
	qp_run(w.g->nic, qp_find(w.g->nic, w.qp[0].qpn));
	put_entry(w.g, key, &entry, MOOR_MRC_TYPE_MR);
	if (asked_again) {
		sent = qp_find(w.g->nic, w.qp[1].qpn)->resp.answers[0].sent;
		ask_to_read(sent >> 10, w.buf[1] + sent, key, SIZE - sent);
	}
	ok(wait_cq(0, &cqe) && cqe.status == MOOR_WC_REM_ACCESS_ERR,
	   "a READ%s never meets two registrations%s",
	   asked_again ? ", though asked for again," : "",
	   epoch ? ", however many there were" : "");
	guest_stop(w.g);
}

/* The responder receives a SEND without payload; @psn may be an old one. */
static void ask_to_send(uint32_t psn, bool ack_request)
{
	const uint8_t *gid = w.g->nic->gids->entry[0].gid;
	struct stream nothing = { 0 };
	struct packet p = {
		.opcode = PACKET_TRANSPORT_RC | PACKET_SEND_ONLY,
		.ack_request = ack_request, .psn = psn & PSN_MASK, .num_psn = 1,
		.dest_qpn = w.qp[1].qpn, .src_qpn = w.qp[0].qpn,
		.sgid = gid, .dgid = gid, .payload = &nothing,
	};

	transport_receive(w.g->nic, &p);
}

/* A NAK waits for the answer of a READ: packets that come meanwhile do not change it. */
static void test_nak_that_waits(void)
{
	const struct responder *resp;
	uint32_t next = LONG >> 10;

	world_start(MOOR_QP_RC);
	resp = &qp_find(w.g->nic, w.qp[1].qpn)->resp;
	ask_to_read(0, w.buf[1], w.key[1], LONG);
	ask_to_send(next, true);
	ok(resp->is_due && (resp->due & AETH_CODE) == AETH_RNR_NAK,
	   "an RNR NAK waits for a READ's answer");
	ask_to_send(next + 1, true);
	ok((resp->due & AETH_CODE) == AETH_RNR_NAK, "  what is ahead does not replace it");
	ask_to_send(-1, true);
	ok((resp->due & AETH_CODE) == AETH_RNR_NAK, "  nor does what is behind");
	settle(w.g);
	ask_to_send(next + 1, true);
	ok(!resp->is_due, "  and when it is out, what is ahead meets no other");
	post_recv(w.g, &w.qp[1], 1, NULL, 0);
	ask_to_send(next, true);
	ok(resp->psn == next + 1 && !resp->nak_sent, "  until what was asked for comes");
	guest_stop(w.g);
}

/* With a small MTU the answer to such a READ would have more packets than there are PSNs. */
static void test_too_long(void)
{
	const struct responder *resp;

	world_start(MOOR_QP_RC);
	resp = &qp_find(w.g->nic, w.qp[1].qpn)->resp;
	ask_to_read(0, w.buf[1], w.key[1], UINT32_MAX);
	ok(resp->fault.set && resp->fault.nak == AETH_NAK_INVALID,
	   "a READ that is longer than any message is an invalid request");
	guest_stop(w.g);
}

/* The packet that a waiting NAK asks for has come: the NAK is not sent any more. */
static void test_nak_that_is_late(void)
{
	const struct responder *resp;
	uint32_t next = LONG >> 10;

	world_start(MOOR_QP_RC);
	resp = &qp_find(w.g->nic, w.qp[1].qpn)->resp;
	ask_to_read(0, w.buf[1], w.key[1], LONG);
	ask_to_send(next, true);
	post_recv(w.g, &w.qp[1], 1, NULL, 0);
	ask_to_send(next, false);
	ok(resp->psn == next + 1 && !resp->is_due,
	   "an RNR NAK that waits is not sent when its SEND has been taken");
	guest_stop(w.g);
}

/* Two SENDs behind a long READ, and no receive: that takes no retry. */
static void test_not_ready(void)
{
	const uint32_t len = 1u << 20;
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe;
	unsigned int i, n = 0;
	uint64_t buf;
	uint32_t key;

	world_start(MOOR_QP_RC);
	set_timeout(14, 0);
	buf = take(w.g, len);
	key = make_mr(w.g, PD, RIGHTS, buf, len);
	wqe = next_send(w.g, &w.qp[0], MOOR_WQE_READ, 0);
	wqe->remote_addr = htole64(buf);
	wqe->rkey = htole32(key);
	add_sge(wqe, sge(buf, len, key));
	for (i = 1; i < 3; i++)
		add_sge(next_send(w.g, &w.qp[0], MOOR_WQE_SEND, i),
			sge(w.buf[0], 64, w.key[0]));
	ring(w.g, &w.qp[0]);
	for (i = 1; i < 3; i++) {
		struct moor_sge s = sge(w.buf[1], 64, w.key[1]);

		post_recv(w.g, &w.qp[1], i, &s, 1);
	}
	while (n < 3 && wait_cq(0, &cqe) && !cqe.status)
		n++;
	ok(n == 3 && !w.g->nic->wire->traffic.went_back,
	   "SENDs without a receive behind a READ: %u of 3, and none is sent back for", n);
	guest_stop(w.g);
}

int main(void)
{
	w.chance = 1;
	test_dead_keys();
	test_registered_anew(false, 0);
	test_registered_anew(true, 0);
	test_registered_anew(false, UINT32_MAX);
	test_dead_answers(MOOR_WQE_READ, "READ");
	test_dead_answers(MOOR_WQE_FETCH_ADD, "atomic");
	test_room();
	test_count();
	test_old_atomic();
	test_room_of_receive();
	test_nak_that_waits();
	test_nak_that_is_late();
	test_not_ready();
	test_too_long();
	return done();
}
