// SPDX-License-Identifier: GPL-2.0
/*
 * Extended reliable connections (HWI 12.6) on a port that loses packets and worse: every
 * message arrives once, at the SRQ that it names; and the SRQ's number in packets.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "lossy.h"
#include "transport/packet.h"
#include "transport/port.h"

#define XRCD		0x31u
#define SRQN(i)		(0x2007u + 0x1001u * (i))
#define COOKIE(i)	(0xc001u + (i))
#define INI		0x5009u
#define TGT		0x600bu

/* In addition to world_start(): XRC QPs, and two SRQs; @srq has only their rings. */
static struct {
	struct guest_qp ini, tgt, srq[2];
	struct guest_cq cq[2];
} x;

static void make_srq(unsigned int i)
{
	struct guest_qp *srq = &x.srq[i];
	struct moor_cmd_create_srq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_SRQ, .srqn = htole32(SRQN(i)),
		.pd = htole32(PD), .flags = MOOR_SRQ_FLAG_XRC,
		.log_depth = LOG_DEPTH, .log_stride = LOG_STRIDE,
		.xrcd = htole32(XRCD), .cookie = htole32(COOKIE(i)),
	};

	if (make_cq(w.g, &x.cq[i], 2 + i, 8))
		abort();
	*srq = (struct guest_qp){ .rq_slot = w.g->next_slot++ };
	srq->rq = take(w.g, 1u << (LOG_DEPTH + LOG_STRIDE));
	cmd.doorbell = htole32(srq->rq_slot);
	cmd.ring = flat(srq->rq);
	cmd.cqn = htole32(x.cq[i].cqn);
	if (command(w.g, &cmd, sizeof(cmd)))
		abort();
}

static void make_qps(void)
{
	struct moor_cmd_create_qp ini = {
		.hdr.opcode = MOOR_CMD_CREATE_QP, .qpn = htole32(INI),
		.type = MOOR_QP_XRC_INI, .pd = htole32(PD), .no_rq = 1,
		.log_sq_depth = LOG_DEPTH, .log_sq_stride = LOG_STRIDE,
	};
	struct moor_cmd_create_qp tgt = {
		.hdr.opcode = MOOR_CMD_CREATE_QP, .qpn = htole32(TGT),
		.type = MOOR_QP_XRC_TGT, .no_sq = 1, .no_rq = 1,
		.xrcd = htole32(XRCD),
	};

	x.ini = (struct guest_qp){ .qpn = INI, .sq_slot = w.g->next_slot++ };
	x.ini.sq = take(w.g, 1u << (LOG_DEPTH + LOG_STRIDE));
	ini.send_cqn = htole32(w.cq[0].cqn);
	ini.recv_cqn = htole32(w.cq[0].cqn);
	ini.sq_doorbell = htole32(x.ini.sq_slot);
	ini.sq = flat(x.ini.sq);
	x.tgt = (struct guest_qp){ .qpn = TGT };
	if (command(w.g, &ini, sizeof(ini)) || command(w.g, &tgt, sizeof(tgt)))
		abort();
	connect_qp(w.g, &x.ini, TGT);
	connect_qp(w.g, &x.tgt, INI);
	be_patient(&x.ini);
	be_patient(&x.tgt);
}

static void start(void)
{
	world_start(MOOR_QP_RC);
	make_srq(0);
	make_srq(1);
	make_qps();
}

/* Message @slice, for SRQ @to. */
static void post_for(unsigned int to, enum op op, uint32_t slice, uint32_t len)
{
	static const uint8_t opcodes[] = {
		[OP_WRITE] = MOOR_WQE_WRITE,
		[OP_WRITE_IMM] = MOOR_WQE_WRITE_IMM,
		[OP_SEND] = MOOR_WQE_SEND_IMM,
		[OP_READ] = MOOR_WQE_READ,
		[OP_ADD] = MOOR_WQE_FETCH_ADD,
		[OP_WORD] = MOOR_WQE_ATOMIC_WRITE,
		[OP_FLUSH] = MOOR_WQE_FLUSH,
	};
	uint64_t offset = (uint64_t)slice * SLICE;
	struct moor_sq_wqe *wqe = next_send(w.g, &x.ini, opcodes[op], slice);
	struct moor_wqe_xrc whose = { .srqn = htole32(SRQN(to)) };
	struct moor_wqe_atomic add = { .swap_add = htole64(1) };
	struct moor_sge room = sge(w.buf[1] + offset, SLICE, w.key[1]), data;
	struct moor_wqe_flush flush = flush_of(slice, len);
	bool counts = op == OP_ADD || op == OP_WORD;
	uint8_t *segment = (uint8_t *)(wqe + 1);

	wqe->remote_addr = htole64(counts ? w.counter : w.buf[1] + offset);
	wqe->rkey = htole32(counts ? w.counter_key : w.key[1]);
	memcpy(segment, &whose, sizeof(whose));
	segment += sizeof(whose);
	if (op == OP_FLUSH) {
		memcpy(segment, &flush, sizeof(flush));
		return;
	}
	if (op == OP_ADD) {
		memcpy(segment, &add, sizeof(add));
		segment += sizeof(add);
	}
	if (counts)
		len = sizeof(uint64_t);
	data = sge(w.buf[0] + offset, len, w.key[0]);
	memcpy(segment, &data, sizeof(data));
	wqe->num_sge = 1;
	if (op == OP_SEND || op == OP_WRITE_IMM) {
		wqe->imm = slice + 100;
		post_recv(w.g, &x.srq[to], slice, &room, 1);
	}
}

/* Has the message's receive come to the SRQ's CQ, with the SRQ's cookie? */
static bool came_to(unsigned int to, uint32_t slice, uint32_t len)
{
	struct moor_cqe cqe;

	return poll_cq(w.g, &x.cq[to], &cqe) && !cqe.status &&
	       le64toh(cqe.wr_id) == slice && cqe.imm == slice + 100 &&
	       le32toh(cqe.byte_len) == len && le32toh(cqe.qpn) == TGT &&
	       le32toh(cqe.cookie) == COOKIE(to);
}

/* BATCH messages for either SRQ, all in flight at once. Return: true when all is well. */
static bool batch(void)
{
	uint32_t len[BATCH], to[BATCH], i;
	enum op op[BATCH];
	struct moor_cqe cqe;
	bool good = true;

	fill(w.buf[0], SIZE);
	fill(w.buf[1], SIZE);
	for (i = 0; i < BATCH; i++) {
		op[i] = (enum op)chance(NUM_OPS);
		to[i] = chance(2);
		len[i] = 1 + chance(chance(2) ? 64 : SLICE - 1);
		post_for(to[i], op[i], i, len[i]);
	}
	ring(w.g, &x.ini);
	for (i = 0; i < BATCH && good; i++)
		good = wait_cq(0, &cqe) && !cqe.status && cqe.wr_id == i;
	for (i = 0; i < BATCH && good; i++) {
		if (op[i] == OP_SEND || op[i] == OP_WRITE_IMM)
			good = came_to(to[i], i, len[i]);
		good = good && has_moved(op[i], i, len[i]);
	}
	return good && counter_is_good() && !poll_cq(w.g, &w.cq[0], &cqe) &&
	       !poll_cq(w.g, &x.cq[0], &cqe) && !poll_cq(w.g, &x.cq[1], &cqe);
}

static void test_impaired(const char *how)
{
	const struct traffic *t;
	unsigned int i;

	start();
	t = &w.g->nic->wire->traffic;
	impair(how);
	for (i = 0; i < 20 && batch(); i++)
		;
	ok(i == 20 && t->sent_again, "%s: %u of 20 batches, %llu packets sent again",
	   how, i, (unsigned long long)t->sent_again);
	impair(NULL);
	guest_stop(w.g);
}

/* Behind the BTH of requests (IBA 9.8.3): eight reserved bits, then the SRQ's number. */
static bool is_named(uint8_t opcode)
{
	struct packet p = {
		.opcode = PACKET_TRANSPORT_XRC | opcode, .psn = 0x123456,
		.dest_qpn = TGT, .srqn = 0xabcdef, .addr = 0x1122334455667788,
		.rkey = 0x99aabbcc, .length = packet_forms[opcode].payload ? 5 : 0,
	};
	static const uint8_t number[] = { 0, 0xab, 0xcd, 0xef };
	static const uint8_t address[] = {
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
	};
	uint8_t bytes[64 + PACKET_OVERHEAD], plain[64 + PACKET_OVERHEAD];
	struct packet out = { .srqn = 0 };
	uint32_t more = packet_asks(&p) ? sizeof(number) : 0;
	const uint8_t *payload;
	size_t len, without;

	len = packet_encode(&p, address, bytes);
	if (!packet_decode(&out, &payload, bytes, len) ||
	    out.srqn != (more ? p.srqn : 0) || out.opcode != p.opcode ||
	    out.length != p.length)
		return false;
	if (more && memcmp(bytes + 12, number, sizeof(number)))
		return false;
	if (packet_form(&p)->headers & PACKET_HAS_RETH &&
	    memcmp(bytes + (packet_form(&p)->headers & PACKET_HAS_FETH ? 20 : 16),
		   address, sizeof(address)))
		return false;
	/* RC's packet is the same without the SRQ's number. */
	p.opcode = opcode;
	without = packet_encode(&p, address, plain);
	return len == without + more &&
	       !memcmp(bytes + 12 + more, plain + 12, without - 12 - 4);
}

static void test_packets(void)
{
	unsigned int opcode, bad = 0, known = 0;

	for (opcode = 0; opcode < NUM_PACKET_OPCODES; opcode++) {
		if (packet_forms[opcode].kind == PACKET_KIND_UNKNOWN)
			continue;
		known++;
		bad += !is_named((uint8_t)opcode);
	}
	ok(known && !bad, "what asks has the SRQ's number behind the BTH: %u of %u",
	   known - bad, known);
}

int main(void)
{
	w.chance = 1;
	test_packets();
	test_impaired("lose=5");
	test_impaired("lose=5,repeat=5,reorder=5,delay=5,damage=5");
	return done();
}
