// SPDX-License-Identifier: GPL-2.0
/*
 * Attributes that change while messages are under way: a message goes on with those it
 * began with (HWI QP-10). The wire is the test's, which keeps what a QP sends.
 */
#include <string.h>

#include "guest.h"
#include "transport/port.h"
#include "transport/transport.h"

#define PD	5
#define RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
		 MOOR_ACCESS_REMOTE_READ)
#define PEER	0x8004u		/* no QP: the test sends its answers */
#define LEN	10000u
#define INLINE	448u
#define RESENT_MS	10	/* longer than the time-out, shorter than all retries */
#define FAR	0x800001u	/* half of all PSNs away from the first */

static struct guest *g;
static struct guest_cq cq;
static struct guest_qp qp;
static uint64_t buf;
static uint32_t key;

/* The last packet that went out, and how many there were. */
static struct packet sent;
static uint8_t payload[4096];
static unsigned int num_sent;

static uint32_t unit(uint32_t mtu)
{
	return mtu;
}

static uint8_t keep(struct nic *nic, struct packet *p)
{
	struct stream *culprit, to = { .bytes = payload };

	num_sent++;
	sent = *p;
	return p->length && p->length <= sizeof(payload) ?
	       transfer(nic, &to, p->payload, p->length, &culprit) : 0;
}

static const struct port wire = { .unit = unit, .send = keep, .window = 64 };

static void set(uint32_t mask, struct moor_cmd_modify_qp cmd)
{
	cmd.mask = mask;
	if (modify(g, &cmd, qp.qpn))
		ok(false, "MODIFY_QP");
}

static void set_mtu(uint8_t path_mtu)
{
	set(MOOR_QP_ATTR_PATH_MTU, (struct moor_cmd_modify_qp){ .path_mtu = path_mtu });
}

static void start(uint8_t path_mtu)
{
	uint32_t i;

	g = guest_start(false);
	guest_set_gid(g, 0, 1);
	if (make_cq(g, &cq, 0, 8) || make_qp(g, &qp, 0x4003, PD, &cq, &cq))
		ok(false, "create CQ, QP");
	connect_qp(g, &qp, PEER);
	set_mtu(path_mtu);
	set(MOOR_QP_ATTR_TIMEOUT | MOOR_QP_ATTR_RETRY_CNT,
	    (struct moor_cmd_modify_qp){ .timeout = 10, .retry_cnt = 7 });
	buf = take(g, LEN);
	for (i = 0; i < LEN; i++)
		((uint8_t *)at(g, buf))[i] = (uint8_t)(i * 7 + (i >> 8));
	key = make_mr(g, PD, RIGHTS, buf, LEN);
	g->nic->wire->port = &wire;
	num_sent = 0;
}

static struct moor_sq_wqe *post(uint8_t opcode, uint64_t wr_id)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp, opcode, wr_id);

	wqe->rkey = 0x1234;
	wqe->remote_addr = 0x10000;
	if (opcode == MOOR_WQE_READ) {
		add_sge(wqe, sge(buf, LEN, key));
	} else {
		wqe->flags |= MOOR_WQE_FLAG_INLINE;
		wqe->inline_length = INLINE;
		memcpy(wqe + 1, at(g, buf), INLINE);
	}
	return wqe;
}

/* A packet from the peer, with @len bytes of the buffer from @from on. */
static void receive(struct packet p, uint32_t from, uint32_t len)
{
	struct stream bytes = { .bytes = (uint8_t *)at(g, buf) + from };

	p.dest_qpn = qp.qpn;
	p.src_qpn = PEER;
	p.sgid = g->nic->gids->entry[0].gid;
	p.dgid = p.sgid;
	p.payload = &bytes;
	p.length = len;
	if (!p.num_psn)
		p.num_psn = 1;
	transport_receive(g->nic, &p);
	settle(g);
}

static void acknowledge(uint32_t psn)
{
	const struct packet ack = {
		.opcode = PACKET_ACKNOWLEDGE, .psn = psn, .syndrome = AETH_ACK,
	};

	receive(ack, 0, 0);
}

/* Is the last packet that went out this one, with @len bytes of the buffer from @from? */
static bool went(uint8_t opcode, uint32_t psn, uint32_t from, uint32_t len)
{
	return sent.opcode == opcode && sent.psn == psn && sent.length == len &&
	       !memcmp(payload, (uint8_t *)at(g, buf) + from, len);
}

static bool got(uint8_t status, uint64_t wr_id)
{
	struct moor_cqe cqe = {};

	return poll_cq(g, &cq, &cqe) && cqe.status == status && cqe.wr_id == wr_id;
}

static bool no_cqe(void)
{
	struct moor_cqe cqe;

	return !poll_cq(g, &cq, &cqe);
}

/* Half of a WRITE is acknowledged: only the rest is sent again. */
static void test_write(uint8_t path_mtu)
{
	start(1);
	post(MOOR_WQE_WRITE, 1);
	ring(g, &qp);
	ok(num_sent == 2 && went(PACKET_WRITE_LAST, 1, 256, INLINE - 256),
	   "a WRITE of two packets");
	acknowledge(0);
	set_mtu(path_mtu);
	settle_timers(g, RESENT_MS);
	ok(num_sent > 2 && went(PACKET_WRITE_LAST, 1, 256, INLINE - 256),
	   "path MTU %u: what is sent again is the second", path_mtu);
	acknowledge(1);
	ok(got(MOOR_WC_SUCCESS, 1), "  and it ends well");
	post(MOOR_WQE_WRITE, 2);
	ring(g, &qp);
	ok(path_mtu == 1 ? sent.opcode == PACKET_WRITE_LAST && sent.psn == 3 :
			   went(PACKET_WRITE_ONLY, 2, 0, INLINE),
	   "  the next one has the new path MTU");
	guest_stop(g);
}

/* The first packet of a READ's answer has come: the others are requested again. */
static void test_read(uint8_t path_mtu)
{
	const uint32_t psn[] = { 1, 2 }, from[] = { 4096, 8192 };
	const uint32_t len[] = { 4096, LEN - 8192 };
	struct packet answer = {
		.opcode = PACKET_READ_RESPONSE_FIRST, .syndrome = AETH_ACK,
	};
	unsigned int i;

	start(5);
	post(MOOR_WQE_READ, 1);
	ring(g, &qp);
	ok(sent.opcode == PACKET_READ_REQUEST && sent.num_psn == 3, "a READ");
	receive(answer, 0, 4096);
	set_mtu(path_mtu);
	settle_timers(g, RESENT_MS);
	ok(num_sent > 1 && sent.psn == 1 && sent.num_psn == 2 &&
	   sent.addr == 0x10000 + 4096 && sent.dma_length == LEN - 4096,
	   "path MTU %u: what is asked for again is the rest", path_mtu);
	for (i = 0; i < 2; i++) {
		answer.opcode = PACKET_READ_RESPONSE_MIDDLE + i;
		answer.psn = psn[i];
		receive(answer, from[i], len[i]);
	}
	ok(got(MOOR_WC_SUCCESS, 1), "  and it ends well");
	guest_stop(g);
}

/* The path MTU of a responder changes, after a READ's answer and within a WRITE. */
static void test_answers(uint8_t path_mtu)
{
	struct packet ask = {
		.opcode = PACKET_READ_REQUEST, .num_psn = 3, .rkey = key,
	};
	struct packet write = { .opcode = PACKET_WRITE_FIRST, .psn = 3 };

	start(5);
	ask.rkey = key;
	ask.addr = buf;
	ask.dma_length = LEN;
	receive(ask, 0, 0);
	ok(num_sent == 3 && went(PACKET_READ_RESPONSE_LAST, 2, 8192, LEN - 8192),
	   "a READ is answered");
	write.rkey = key;
	write.addr = buf;
	write.dma_length = LEN;
	receive(write, 0, 4096);
	set_mtu(path_mtu);
	ask.psn = 2;
	ask.num_psn = 1;
	ask.addr += 8192;
	ask.dma_length -= 8192;
	receive(ask, 0, 0);
	ok(num_sent == 4 && went(PACKET_READ_RESPONSE_LAST, 2, 8192, LEN - 8192),
	   "path MTU %u: its last packet once more", path_mtu);
	write.opcode = PACKET_WRITE_MIDDLE;
	write.psn = 4;
	receive(write, 4096, 4096);
	write.opcode = PACKET_WRITE_LAST;
	write.psn = 5;
	write.ack_request = true;
	receive(write, 8192, LEN - 8192);
	ok(sent.opcode == PACKET_ACKNOWLEDGE && sent.psn == 5 &&
	   sent.syndrome == AETH_ACK, "  a WRITE that had begun is taken to its end");
	guest_stop(g);
}

/* A new SQ_PSN is for messages that begin after those under way have ended. */
static void test_psn(void)
{
	start(1);
	post(MOOR_WQE_WRITE, 1);
	ring(g, &qp);
	acknowledge(0);
	set(MOOR_QP_ATTR_SQ_PSN, (struct moor_cmd_modify_qp){ .sq_psn = FAR });
	post(MOOR_WQE_WRITE, 2);
	ring(g, &qp);
	settle_timers(g, RESENT_MS);
	ok(num_sent > 2 && went(PACKET_WRITE_LAST, 1, 256, INLINE - 256),
	   "SQ_PSN: what is sent again keeps its numbers");
	acknowledge(1);
	ok(got(MOOR_WC_SUCCESS, 1) && no_cqe() &&
	   went(PACKET_WRITE_LAST, FAR + 1, 256, INLINE - 256),
	   "  then the next one has the new ones");
	acknowledge(FAR + 1);
	ok(got(MOOR_WC_SUCCESS, 2) && no_cqe(), "  and ends well");
	guest_stop(g);
}

/* A READ waits for an earlier one when max_rd_atomic becomes 0. */
static void test_no_reads(void)
{
	struct packet answer = {
		.opcode = PACKET_READ_RESPONSE_ONLY, .syndrome = AETH_ACK,
	};
	unsigned int i;

	start(5);
	for (i = 0; i < 2; i++)
		((struct moor_sge *)(post(MOOR_WQE_READ, i) + 1))->length = 64;
	ring(g, &qp);
	ok(num_sent == 1, "of two READs one waits");
	set(MOOR_QP_ATTR_MAX_RD_ATOMIC, (struct moor_cmd_modify_qp){ 0 });
	for (i = 0; i < 2; i++) {
		answer.psn = i;
		receive(answer, 0, 64);
	}
	ok(got(MOOR_WC_SUCCESS, 0) && got(MOOR_WC_SUCCESS, 1),
	   "max_rd_atomic 0: both end");
	post(MOOR_WQE_READ, 2);
	ring(g, &qp);
	ok(got(MOOR_WC_LOC_QP_OP_ERR, 2), "  and a third does not begin");
	guest_stop(g);
}

/* In SQD a fenced WRITE does not begin, though the READ has ended that it waited for. */
static void test_drain(void)
{
	const struct packet answer = {
		.opcode = PACKET_READ_RESPONSE_ONLY, .syndrome = AETH_ACK,
	};
	const struct moor_cmd_modify_qp sqd = { .state = MOOR_QPS_SQD };
	const struct moor_cmd_modify_qp rts = { .state = MOOR_QPS_RTS };
	struct moor_eqe eqe;

	start(5);
	((struct moor_sge *)(post(MOOR_WQE_READ, 1) + 1))->length = 64;
	post(MOOR_WQE_WRITE, 2);
	post(MOOR_WQE_WRITE, 3)->flags |= MOOR_WQE_FLAG_FENCE;
	ring(g, &qp);
	ok(num_sent == 2 && went(PACKET_WRITE_ONLY, 1, 0, INLINE),
	   "a READ, a WRITE, and one that waits");
	set(MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_SQD_EVENT, sqd);
	receive(answer, 0, 64);
	ok(got(MOOR_WC_SUCCESS, 1) && num_sent == 2 &&
	   !next_event(g, MOOR_EQ_ASYNC, &eqe), "SQD: the READ ends");
	acknowledge(1);
	ok(got(MOOR_WC_SUCCESS, 2) && num_sent == 2 &&
	   next_event(g, MOOR_EQ_ASYNC, &eqe) &&
	   eqe.type == MOOR_EVENT_SQ_DRAINED, "  and the first WRITE: drained");
	set(MOOR_QP_ATTR_STATE, rts);
	ok(num_sent == 3 && went(PACKET_WRITE_ONLY, 2, 0, INLINE),
	   "  in RTS the other begins");
	acknowledge(2);
	ok(got(MOOR_WC_SUCCESS, 3) && no_cqe() && num_sent == 3, "  and ends well");
	guest_stop(g);
}

int main(void)
{
	uint8_t path_mtu;

	for (path_mtu = 1; path_mtu <= 5; path_mtu++) {
		test_write(path_mtu);
		test_read(path_mtu);
		test_answers(path_mtu);
	}
	test_psn();
	test_no_reads();
	test_drain();
	return done();
}
