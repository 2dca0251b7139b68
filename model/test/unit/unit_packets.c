// SPDX-License-Identifier: GPL-2.0
/*
 * The transport on a port that loses, repeats, reorders, delays and damages
 * packets: every message arrives, whole, in order, and once. Then packets as
 * bytes, none of which is trusted.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lossy.h"
#include "transport/packet.h"
#include "transport/port.h"
#include "transport/transport.h"

/* BATCH messages, all in flight at once. Return: true when all is well. */
static bool batch(void)
{
	uint32_t len[BATCH], i;
	enum op op[BATCH];
	struct moor_cqe cqe;
	bool good = true;

	fill(w.buf[0], SIZE);
	fill(w.buf[1], SIZE);
	for (i = 0; i < BATCH; i++) {
		op[i] = (enum op)chance(NUM_OPS);
		len[i] = 1 + chance(chance(2) ? 64 : SLICE - 1);
		post(op[i], i, len[i]);
	}
	ring(w.g, &w.qp[0]);
	for (i = 0; i < BATCH && good; i++)
		good = wait_cq(0, &cqe) && !cqe.status && cqe.wr_id == i;
	for (i = 0; i < BATCH && good; i++) {
		if (op[i] == OP_SEND || op[i] == OP_WRITE_IMM)
			good = wait_cq(1, &cqe) && !cqe.status &&
			       cqe.wr_id == i && cqe.imm == i + 100 &&
			       cqe.byte_len == len[i];
		good = good && has_moved(op[i], i, len[i]);
	}
	return good && counter_is_good() && !poll_cq(w.g, &w.cq[0], &cqe) &&
	       !poll_cq(w.g, &w.cq[1], &cqe);
}

static void test_impaired(const char *how, unsigned int batches)
{
	const struct traffic *t = &w.g->nic->wire->traffic, before = *t;
	unsigned int i;

	impair(how);
	for (i = 0; i < batches && batch(); i++)
		;
	ok(i == batches, "%s: %u of %u batches, %llu of %llu packets sent again",
	   how, i, batches,
	   (unsigned long long)(t->sent_again - before.sent_again),
	   (unsigned long long)(t->carried - before.carried));
}

/* All impairments have happened, or the cases above would prove nothing. */
static void test_counts(void)
{
	const struct traffic *t = &w.g->nic->wire->traffic;

	ok(t->lost && t->repeated && t->reordered && t->delayed && t->damaged &&
	   t->duplicates && t->gaps && t->sent_again && t->timeouts,
	   "each kind of accident has happened, and was noticed");
}

static void test_nothing_arrives(void)
{
	struct moor_cqe cqe;

	impair("lose=100");
	set_timeout(4, 2);
	post(OP_WRITE, 0, 100);
	post(OP_WRITE, 1, 100);
	ring(w.g, &w.qp[0]);
	ok(wait_cq(0, &cqe) && cqe.status == MOOR_WC_RETRY_EXC_ERR,
	   "nothing arrives: RETRY_EXC_ERR");
	ok(wait_cq(0, &cqe) && cqe.status == MOOR_WC_WR_FLUSH_ERR,
	   "  and the next one is flushed");
	impair(NULL);
}

/* A WRITE sends the memory that a READ before it fills, with and without a fence. */
static void test_fence(bool fence)
{
	uint64_t here = w.buf[0], there = w.buf[1], elsewhere = there + 4096;
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe;
	bool fresh;

	memset(at(w.g, here), 1, 64);
	memset(at(w.g, there), 2, 64);
	impair("delay=100");
	post(OP_READ, 0, 64);
	wqe = next_send(w.g, &w.qp[0], MOOR_WQE_WRITE, 1);
	wqe->flags |= fence ? MOOR_WQE_FLAG_FENCE : 0;
	wqe->remote_addr = htole64(elsewhere);
	wqe->rkey = htole32(w.key[1]);
	add_sge(wqe, sge(here, 64, w.key[0]));
	ring(w.g, &w.qp[0]);
	if (!wait_cq(0, &cqe) || cqe.status || !wait_cq(0, &cqe) || cqe.status)
		ok(false, "READ and WRITE");
	fresh = !memcmp(at(w.g, elsewhere), at(w.g, there), 64);
	ok(fresh == fence, "a WRITE sends what the READ before it %s",
	   fence ? "brought, behind a fence" : "has not brought yet");
	impair(NULL);
}

/* Without a time-out, a lost packet is sent again because of a sequence NAK. */
static void test_gap(void)
{
	struct moor_cqe cqe[2];
	int i, ends = 0;

	set_timeout(0, 7);
	impair("lose=100");
	post(OP_WRITE, 0, 64);
	ring(w.g, &w.qp[0]);
	impair(NULL);
	post(OP_WRITE, 1, 64);
	ring(w.g, &w.qp[0]);
	for (i = 0; i < 2; i++)
		ends += wait_cq(0, &cqe[i]) && !cqe[i].status;
	ok(ends == 2, "a gap is told, and filled");
	set_timeout(9, 7);
}

static uint8_t window_state(uint32_t key)
{
	struct moor_cmd_mr_query cmd = {
		.hdr.opcode = MOOR_CMD_MR_QUERY, .key = htole32(key),
	};

	if (command(w.g, &cmd, sizeof(cmd)))
		return 0xff;
	return ((const struct moor_cpl_mr_query *)w.g->cpl.out)->state;
}

/* LOCAL_INV waits: earlier requests may have to be sent again, and need the window. */
static void test_invalidate(void)
{
	struct moor_mr_context entry = { .pd = htole32(PD) };
	const uint32_t key = 0x90001234;
	struct moor_wqe_bind bind = {
		.mw_key = htole32(key), .new_key = htole32(key),
		.access = htole32(MOOR_ACCESS_REMOTE_READ),
		.addr = htole64(w.buf[0]), .length = htole64(4096),
		.mr_lkey = htole32(make_mr(w.g, PD, RIGHTS |
					   MOOR_ACCESS_MW_BIND, w.buf[0], 4096)),
	};
	struct moor_cqe cqe;

	put_entry(w.g, key, &entry, MOOR_MRC_TYPE_MW_2);
	memcpy(next_send(w.g, &w.qp[0], MOOR_WQE_BIND_MW, 1) + 1, &bind,
	       sizeof(bind));
	ring(w.g, &w.qp[0]);
	if (!wait_cq(0, &cqe) || cqe.status)
		ok(false, "bind");
	impair("lose=100");
	post(OP_WRITE, 0, 64);
	next_send(w.g, &w.qp[0], MOOR_WQE_LOCAL_INV, 1)->inv_key = htole32(key);
	ring(w.g, &w.qp[0]);
	ok(window_state(key) == MOOR_MR_STATE_BOUND,
	   "LOCAL_INV waits for a WRITE that is not acknowledged");
	impair(NULL);
	ok(wait_cq(0, &cqe) && !cqe.status && wait_cq(0, &cqe) && !cqe.status &&
	   window_state(key) == MOOR_MR_STATE_UNBOUND, "  and then is done");
}

/* More READs than are allowed at once, each longer than what is answered at once. */
static void test_many_reads(void)
{
	const uint32_t len = 2 * SIZE;
	uint64_t from = take(w.g, len), to = take(w.g, len);
	uint32_t from_key = make_mr(w.g, PD, RIGHTS, from, len);
	uint32_t to_key = make_mr(w.g, PD, RIGHTS, to, len);
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe;
	unsigned int i;

	fill(from, len);
	for (i = 0; i < 9; i++) {
		wqe = next_send(w.g, &w.qp[0], MOOR_WQE_READ, i);
		wqe->remote_addr = htole64(from);
		wqe->rkey = htole32(from_key);
		add_sge(wqe, sge(to, len, to_key));
	}
	ring(w.g, &w.qp[0]);
	for (i = 0; i < 9 && wait_cq(0, &cqe) && !cqe.status; i++)
		;
	ok(i == 9 && !memcmp(at(w.g, to), at(w.g, from), len),
	   "nine READs where four are answered at once");
}

/* With rnr_retry 7 the requester waits on, however many RNR NAKs are lost. */
static void test_not_ready_for_long(void)
{
	const uint64_t timeouts = w.g->nic->wire->traffic.timeouts;
	struct moor_sge s = sge(w.buf[1], SLICE, w.key[1]);
	struct moor_cqe cqe;

	set_timeout(4, 7);
	impair("lose=20");
	add_sge(next_send(w.g, &w.qp[0], MOOR_WQE_SEND, 1),
		sge(w.buf[0], 64, w.key[0]));
	ring(w.g, &w.qp[0]);
	settle_timers(w.g, 100);
	ok(w.g->nic->wire->traffic.timeouts > timeouts + 8 && !poll_cq(w.g, &w.cq[0], &cqe),
	   "RNR NAKs that are lost do not add up");
	post_recv(w.g, &w.qp[1], 1, &s, 1);
	ok(wait_cq(0, &cqe) && !cqe.status && wait_cq(1, &cqe) && !cqe.status,
	   "  and the receive is met in the end");
	impair(NULL);
	set_timeout(9, 7);
}

/*
 * A sequence NAK makes the requester go back. The time-out under way begins anew: the
 * requester waits for all of it before it goes back on its own.
 */
static void test_time_after_gap(void)
{
	const struct traffic *t = &w.g->nic->wire->traffic;
	const uint8_t *gid = w.g->nic->gids->entry[0].gid;
	struct packet nak = {
		.opcode = PACKET_TRANSPORT_RC | PACKET_ACKNOWLEDGE,
		.syndrome = AETH_NAK_SEQUENCE, .num_psn = 1,
		.dest_qpn = w.qp[0].qpn, .src_qpn = w.qp[1].qpn,
		.sgid = gid, .dgid = gid,
	};
	const uint64_t timeouts = t->timeouts, went_back = t->went_back;
	struct moor_cqe cqe;

	set_timeout(12, 7);
	impair("lose=100");
	post(OP_WRITE, 0, 64);
	ring(w.g, &w.qp[0]);
	nak.psn = qp_find(w.g->nic, w.qp[0].qpn)->req.acked_psn;
	transport_receive(w.g->nic, &nak);
	ok(t->went_back == went_back + 1, "a NAK for a gap: the requester goes back");
	settle_timers(w.g, 20);
	ok(t->timeouts == timeouts, "  and waits for all of its time-out");
	settle_timers(w.g, 32);
	ok(t->timeouts > timeouts, "  which ends");
	impair(NULL);
	ok(wait_cq(0, &cqe) && !cqe.status, "  and the message arrives");
	set_timeout(9, 7);
}

/* UC: messages that arrive are whole and in order, and some do not arrive. */
static void test_uc(void)
{
	uint32_t i, last = 0, came = 0, whole = 0, sent = 0;
	struct moor_cqe cqe;

	world_start(MOOR_QP_UC);
	fill(w.buf[0], SIZE);
	for (i = 0; i < BATCH; i++)
		post(OP_SEND, i, SLICE - i);
	impair("lose=2,reorder=2");
	ring(w.g, &w.qp[0]);
	for (i = 0; i < BATCH; i++)
		sent += wait_cq(0, &cqe) && !cqe.status;
	settle_timers(w.g, 100);
	while (poll_cq(w.g, &w.cq[1], &cqe)) {
		/* Receives are taken in order, whatever message comes. */
		uint32_t number = cqe.imm - 100;
		uint64_t from = w.buf[0] + (uint64_t)number * SLICE;
		uint64_t to = w.buf[1] + cqe.wr_id * SLICE;

		whole += !cqe.status && number < BATCH &&
			 (!came || number > last) && cqe.wr_id == came &&
			 cqe.byte_len == SLICE - number &&
			 !memcmp(at(w.g, from), at(w.g, to), cqe.byte_len);
		last = number;
		came++;
	}
	ok(sent == BATCH && came && came < BATCH && whole == came,
	   "UC: %u of %u messages arrive, %u whole and in order", came, BATCH,
	   whole);
	impair(NULL);
	post(OP_WRITE, 3, 5000);
	ring(w.g, &w.qp[0]);
	ok(wait_cq(0, &cqe) && !cqe.status &&
	   !memcmp(at(w.g, w.buf[0] + 3 * SLICE), at(w.g, w.buf[1] + 3 * SLICE),
		   5000), "UC: WRITE");
	post(OP_READ, 0, 64);
	ring(w.g, &w.qp[0]);
	ok(wait_cq(0, &cqe) && cqe.status == MOOR_WC_LOC_QP_OP_ERR,
	   "UC has no READ");
	guest_stop(w.g);
}

/* Every packet that can be encoded is decoded as the same; other bytes are refused. */
static void test_codec(void)
{
	uint8_t bytes[4096 + PACKET_OVERHEAD], payload[4096];
	unsigned int opcode, round, bad = 0, taken = 0;

	for (round = 0; round < 20000; round++) {
		struct packet in = { 0 }, out = { 0 };
		const uint8_t *data;
		size_t len;

		opcode = chance(NUM_PACKET_OPCODES);
		in.opcode = (uint8_t)opcode;
		in.psn = chance(1 << 24);
		in.dest_qpn = chance(1 << 24);
		in.addr = w.chance;
		in.rkey = chance(~0u);
		in.dma_length = chance(~0u);
		in.swap_add = in.addr * 3;
		in.compare = in.addr * 5;
		in.flush_type = (uint8_t)chance(16);
		in.flush_level = (uint8_t)chance(4);
		in.syndrome = (uint8_t)chance(256);
		in.imm = chance(~0u);
		in.length = packet_forms[opcode].payload ? chance(4097) : 0;
		memset(payload, (int)round, sizeof(payload));
		len = packet_encode(&in, payload, bytes);
		if (packet_forms[opcode].kind == PACKET_KIND_UNKNOWN) {
			taken += packet_decode(&out, &data, bytes, len);
			continue;
		}
		bad += !packet_decode(&out, &data, bytes, len) ||
		       out.opcode != in.opcode || out.psn != in.psn ||
		       out.dest_qpn != in.dest_qpn || out.length != in.length ||
		       memcmp(data, payload, in.length) ||
		       (packet_forms[opcode].headers & PACKET_HAS_FETH &&
			(out.flush_type != in.flush_type ||
			 out.flush_level != in.flush_level));
		bytes[chance((uint32_t)len)] ^= (uint8_t)(1u << chance(8));
		taken += packet_decode(&out, &data, bytes, len);
		taken += packet_decode(&out, &data, bytes,
				       chance((uint32_t)len));
	}
	ok(!bad, "packets are read as they were written");
	ok(!taken, "damaged, cut and unknown ones are not");
}

/* Behind the BTH: FETH, then the address, the key, the length; the bytes are the IBA's. */
static void test_flush_bytes(void)
{
	static const uint8_t due[] = {
		0, 0, 0, 0x12, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
		0x99, 0xaa, 0xbb, 0xcc, 0, 0x01, 0x02, 0x03,
	};
	struct packet p = {
		.opcode = PACKET_FLUSH, .flush_type = MOOR_FLUSH_PERSISTENT,
		.flush_level = MOOR_FLUSH_REGION, .addr = 0x1122334455667788,
		.rkey = 0x99aabbcc, .dma_length = 0x010203,
	};
	uint8_t bytes[64 + PACKET_OVERHEAD], word[8] = "a word.";
	size_t len = packet_encode(&p, NULL, bytes);

	ok(bytes[0] == 0x1c && len == 12 + sizeof(due) + 4 &&
	   !memcmp(bytes + 12, due, sizeof(due)), "a FLUSH as bytes");
	p.opcode = PACKET_ATOMIC_WRITE;
	p.length = sizeof(word);
	len = packet_encode(&p, word, bytes);
	ok(bytes[0] == 0x1d && len == 12 + 16 + sizeof(word) + 4 &&
	   !memcmp(bytes + 12, due + 4, 16) &&
	   !memcmp(bytes + 12 + 16, word, sizeof(word)),
	   "an ATOMIC_WRITE as bytes");
}

int main(void)
{
	static const char *const kinds[] = {
		"lose=0", "lose=5", "repeat=5", "reorder=5", "delay=5",
		"damage=5", "lose=5,repeat=5,reorder=5,delay=5,damage=5",
		"lose=10,repeat=20,reorder=20",
	};
	unsigned int i;

	w.chance = 1;
	world_start(MOOR_QP_RC);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		test_impaired(kinds[i], 20);
	test_counts();
	impair(NULL);
	test_fence(false);
	test_fence(true);
	test_gap();
	test_invalidate();
	test_many_reads();
	test_not_ready_for_long();
	test_time_after_gap();
	test_nothing_arrives();
	test_codec();
	test_flush_bytes();
	guest_stop(w.g);
	test_uc();
	return done();
}
