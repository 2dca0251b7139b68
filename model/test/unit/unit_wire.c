// SPDX-License-Identifier: GPL-2.0
/* Packets that no peer should send, as bytes, before QPs with work under way. */
#include <string.h>

#include "guest.h"
#include "transport/port.h"
#include "transport/qp.h"
#include "transport/transport.h"

#define PD	5
#define LEN	4096u
#define QPN(i)	(0x4003u + 0x4001u * (i))

static struct guest *g;
static struct guest_cq cq[2];
static struct guest_qp qp[2];
static uint64_t buf[2];
static uint32_t key[2];
/* Packets that the NIC sent: how many, and the last one. */
static unsigned int sent;
static uint8_t sent_opcode, sent_syndrome;
static uint32_t sent_psn;

static uint32_t unit(uint32_t mtu)
{
	return mtu;
}

static uint8_t catch(struct nic *nic, struct packet *p)
{
	(void)nic;
	sent++;
	sent_opcode = p->opcode;
	sent_psn = p->psn;
	sent_syndrome = p->syndrome;
	return MOOR_SYN_NONE;
}

static const struct port wire = {
	.unit = unit, .send = catch, .window = 64,
};

static void start(uint8_t type)
{
	/* Without a time-out, unanswered packets are not sent again. */
	struct moor_cmd_modify_qp no_timer = { .mask = MOOR_QP_ATTR_TIMEOUT };
	int i;

	g = guest_start(false);
	memset(cq, 0, sizeof(cq));
	memset(qp, 0, sizeof(qp));
	guest_set_gid(g, 0, 1);
	for (i = 0; i < 2; i++) {
		make_cq(g, &cq[i], (uint32_t)i, 6);
		make_special_qp(g, &qp[i], QPN((uint32_t)i), PD, &cq[i], &cq[i],
				type, 0);
		buf[i] = take(g, LEN);
		key[i] = make_mr(g, PD, MOOR_ACCESS_ALL &
				 ~(MOOR_ACCESS_RELAXED_ORDERING |
				   MOOR_ACCESS_ON_DEMAND), buf[i], LEN);
	}
	connect_qp(g, &qp[0], QPN(1));
	connect_qp(g, &qp[1], QPN(0));
	modify(g, &no_timer, QPN(0));
	g->nic->wire->port = &wire;
	sent = 0;
}

static void post(uint8_t opcode)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[0], opcode, 1);

	wqe->remote_addr = buf[1];
	wqe->rkey = key[1];
	add_sge(wqe, sge(buf[0], 64, key[0]));
	ring(g, &qp[0]);
}

/* QP @to receives a packet of its peer. */
static void receive(unsigned int to, const struct packet *p, uint8_t *payload)
{
	const struct gid_entry *own = &g->nic->gids->entry[0];
	struct packet in = {
		.src_qpn = QPN(!to), .sgid = own->gid, .dgid = own->gid,
	};
	uint8_t bytes[LEN + PACKET_OVERHEAD] = { 0 };
	struct packet out = *p;
	size_t len;

	out.dest_qpn = QPN(to);
	len = packet_encode(&out, payload, bytes);
	transport_receive_bytes(g->nic, &in, bytes, len);
}

/* Bit 7 of a syndrome is reserved: IBA 9.7.5.2.1. */
static void test_reserved_bit(void)
{
	struct packet nak = {
		.opcode = PACKET_ACKNOWLEDGE, .syndrome = 0x80 | AETH_NAK_SEQUENCE,
	};

	post(MOOR_WQE_WRITE);
	nak.psn = sent_psn;
	ok(sent == 1, "a WRITE is on its way");
	receive(0, &nak, NULL);
	settle(g);
	ok(sent == 2 && sent_psn == nak.psn,
	   "a sequence NAK with the reserved bit set is one: it goes again");
	nak.syndrome = 0x80 | AETH_RNR_NAK | 1;
	receive(0, &nak, NULL);
	settle_timers(g, 10);
	ok(sent > 2 && sent_psn == nak.psn, "and so is an RNR NAK");
}

/*
 * UC: a WRITE with immediate and a wrong key is dropped silently, but has found the
 * receive malformed. The next message that takes the receive finds that, too.
 */
static void test_malformed_receive(void)
{
	struct packet p = {
		.opcode = PACKET_TRANSPORT_UC | PACKET_WRITE_ONLY_IMM,
		.rkey = 0xdead, .length = 16, .dma_length = 16,
	};
	uint8_t payload[16] = { 0 };
	struct moor_cqe cqe = { 0 };
	struct moor_rq_wqe *wqe = at(g, qp[1].rq);

	post_recv(g, &qp[1], 7, NULL, 0);
	wqe->num_sge = 0xff;
	receive(1, &p, payload);
	ok(!poll_cq(g, &cq[1], &cqe), "a WRITE with a wrong key is dropped");
	p.opcode = PACKET_TRANSPORT_UC | PACKET_SEND_ONLY;
	p.psn = 1;
	receive(1, &p, payload);
	settle(g);
	ok(poll_cq(g, &cq[1], &cqe) && cqe.wr_id == 7 &&
	   cqe.status == MOOR_WC_LOC_QP_OP_ERR,
	   "the next SEND finds the receive malformed as well");
}

/* UC has no SEND with invalidate. */
static void test_no_invalidate(void)
{
	struct packet p = {
		.opcode = PACKET_TRANSPORT_UC | PACKET_SEND_ONLY_INV,
		.length = 16,
	};
	struct moor_sge s = sge(buf[1], LEN, key[1]);
	uint8_t payload[16] = { 0 };
	struct moor_cqe cqe = { 0 };

	post_recv(g, &qp[1], 7, &s, 1);
	receive(1, &p, payload);
	p.opcode = PACKET_TRANSPORT_UC | PACKET_SEND_LAST_INV;
	receive(1, &p, payload);
	settle(g);
	ok(!poll_cq(g, &cq[1], &cqe) &&
	   !qp_find(g->nic, QPN(1))->rq.consumer,
	   "UC drops a SEND with invalidate");
	p.opcode = PACKET_TRANSPORT_UC | PACKET_SEND_ONLY;
	receive(1, &p, payload);
	settle(g);
	ok(poll_cq(g, &cq[1], &cqe) && cqe.wr_id == 7 && !cqe.status &&
	   !cqe.flags, "  and takes one without");
}

static void with(uint8_t type, void (*test)(void))
{
	start(type);
	test();
	guest_stop(g);
}

int main(void)
{
	log_open(NULL);
	with(MOOR_QP_RC, test_reserved_bit);
	with(MOOR_QP_UC, test_malformed_receive);
	with(MOOR_QP_UC, test_no_invalidate);
	return done();
}
