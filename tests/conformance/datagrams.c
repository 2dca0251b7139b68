// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "datagrams.h"

/* GIDs of the table; host_begin() sets the first one. */
static const uint8_t gids[][16] = {
	[GID_INDEX] = { 0xfe, 0x80, [15] = 1 },
	[V1_INDEX] = { 0xfe, 0x80, [8] = 0x02, [15] = 2 },
	[IPV4_INDEX] = { [10] = 0xff, 0xff, 192, 0, 2, 17 },
};

const uint8_t *gid_of(unsigned int index)
{
	return gids[index];
}

void set_gid(unsigned int index, uint8_t type, const uint8_t *gid, uint16_t vlan)
{
	struct moor_cmd_set_gid cmd = {
		.hdr.opcode = MOOR_CMD_SET_GID, .index = (uint16_t)index,
		.type = type, .vlan = vlan,
		.smac = { 2, 0, 0, 0, 7, (uint8_t)index },
	};

	at_least(max_gid, index + 1);
	memcpy(cmd.gid, gid, sizeof(cmd.gid));
	must(cmd);
}

void make_ud_qp(struct qp *qp, const struct cq *cq)
{
	struct moor_cmd_create_qp cmd = qp_command(qp, cq, cq);

	cmd.type = MOOR_QP_UD;
	must(cmd);
}

void start_ud_qp(const struct qp *qp, uint32_t qkey)
{
	must_modify(qp, (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_QKEY |
			MOOR_QP_ATTR_PKEY_INDEX | MOOR_QP_ATTR_PATH_MTU,
		.state = MOOR_QPS_INIT, .qkey = qkey, .path_mtu = UD_MTU,
	});
	must_modify(qp, to_state(MOOR_QPS_RTR));
	must_modify(qp, to_state(MOOR_QPS_RTS));
}

void make_datagrams(struct datagrams *d)
{
	unsigned int i;

	at_least(max_cq, UD_QPS);
	at_least(max_mr_size, BUF);
	memset(d, 0, sizeof(*d));
	set_gid(GID_INDEX, MOOR_GID_ROCE_V2, gids[GID_INDEX], MOOR_GID_NO_VLAN);
	if (dev.max_gid > V1_INDEX)
		set_gid(V1_INDEX, MOOR_GID_ROCE_V1, gids[V1_INDEX], 0x123);
	if (dev.max_gid > IPV4_INDEX)
		set_gid(IPV4_INDEX, MOOR_GID_ROCE_V2, gids[IPV4_INDEX], MOOR_GID_NO_VLAN);
	for (i = 0; i < UD_QPS; i++) {
		make_cq(&d->cq[i], i, LOG_DEPTH + 1);
		make_ud_qp(&d->qp[i], &d->cq[i]);
		start_ud_qp(&d->qp[i], QKEY);
		d->buf[i] = take_filled(BUF, i + 1);
		d->key[i] = make_mr(PD, ALL_RIGHTS, d->buf[i], BUF);
	}
	d->to = (struct moor_wqe_ud){
		.sgid_index = GID_INDEX, .hop_limit = 64,
		.dmac = { 2, 0, 0, 0, 0, 1 }, .dest_qpn = d->qp[1].qpn,
		.qkey = QKEY,
	};
	memcpy(d->to.dgid, gids[GID_INDEX], sizeof(d->to.dgid));
}

struct send_wr datagram(const struct datagrams *d, uint64_t wr_id, uint32_t len)
{
	return (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = wr_id, .imm = 0x4711,
		.to = &d->to, SGE(d->buf[0], len, d->key[0]),
	};
}

/* When the last one was sent, and the longest time that one has taken to arrive. */
static uint64_t sent_at, slowest;

#define LONGEST_REST	500000000ull

void send_datagram(struct datagrams *d, uint32_t len)
{
	sent_at = now_ns();
	post_send(&d->qp[0], datagram(d, 0x5e, len));
	expect_cqe(&d->cq[0], 0x5e, MOOR_WC_SUCCESS, 0);
}

void recv_datagram(struct datagrams *d, unsigned int i, uint64_t wr_id,
		   uint32_t room)
{
	memset(at(d->buf[i]), 0, BUF);
	post_recv(&d->qp[i], wr_id, d->buf[i], room, d->key[i]);
}

struct moor_cqe expect_datagram(struct datagrams *d, unsigned int i,
				uint64_t wr_id, uint32_t len)
{
	struct moor_cqe cqe = expect_cqe(&d->cq[i], wr_id, MOOR_WC_SUCCESS, 0);
	uint64_t message = d->buf[i] + MOOR_GRH_SIZE;
	uint64_t took = sent_at ? now_ns() - sent_at : 0;

	if (took > slowest)
		slowest = took;
	sent_at = 0;
	expect(cqe.byte_len == MOOR_GRH_SIZE + len &&
	       cqe.flags & MOOR_CQE_FLAG_GRH && cqe.qpn == d->qp[i].qpn &&
	       cqe.src_qpn == d->qp[0].qpn && cqe.opcode == MOOR_CQE_RECV,
	       "%u bytes, flags 0x%x, QP 0x%x from 0x%x", cqe.byte_len,
	       cqe.flags, cqe.qpn, cqe.src_qpn);
	expect(same(d->buf[0], message, len) &&
	       is_all(message + len, BUF - MOOR_GRH_SIZE - len, 0), "the data");
	return cqe;
}

/* Nothing bounds the time that a datagram takes; others have taken so long at most. */
void expect_dropped(struct datagrams *d, unsigned int i)
{
	uint64_t end = now_ns() + (slowest < LONGEST_REST / 2 ? 2 * slowest : LONGEST_REST);

	while (now_ns() < end)
		breathe();
	expect_no_cqe(&d->cq[i]);
	expect_no_event(MOOR_EQ_ASYNC);
	expect(query_qp(&d->qp[0]).state == MOOR_QPS_RTS,
	       "the sender is not in RTS");
}
