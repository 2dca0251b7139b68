// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "shared.h"

/* An SRQ number that was not used yet, with bits above the index. */
static uint32_t take_srqn(void)
{
	static uint32_t next;
	uint32_t num = 1u << dev.srq_index_bits, i;

	for (i = 0; i < num; i++) {
		struct moor_cmd_query_srq cmd = {
			.hdr.opcode = MOOR_CMD_QUERY_SRQ,
			.srqn = ((next++ & (num - 1)) | 0x3u << dev.srq_index_bits) &
				0xffffff,
		};

		/* Of few numbers this one may be in use still. */
		if (num > SMALL_NUMBER || do_command(cmd))
			return cmd.srqn;
	}
	at_least(srq_index_bits, dev.srq_index_bits + 1);
	return 0;
}

struct moor_cmd_create_srq srq_command(struct srq *srq)
{
	*srq = (struct srq){
		.srqn = take_srqn(), .slot = take_slot(),
		.log_depth = LOG_DEPTH, .log_stride = LOG_STRIDE,
		.ring = take(1u << (LOG_DEPTH + LOG_STRIDE)),
	};
	return (struct moor_cmd_create_srq){
		.hdr.opcode = MOOR_CMD_CREATE_SRQ, .srqn = srq->srqn, .pd = PD,
		.doorbell = srq->slot, .log_depth = LOG_DEPTH,
		.log_stride = LOG_STRIDE, .ring = flat(srq->ring),
	};
}

void make_srq(struct srq *srq)
{
	struct moor_cmd_create_srq cmd;

	/* An SRQ is as deep as work queues usually are, and what it gives ends in one CQ. */
	at_least(max_log_cqe, MOST_LOG_DEPTH + 1);
	cmd = srq_command(srq);
	must(cmd);
}

uint8_t modify_srq(const struct srq *srq, uint32_t mask, uint32_t limit)
{
	struct moor_cmd_modify_srq cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_SRQ, .srqn = srq->srqn,
		.mask = mask, .limit = limit,
		.log_depth = (uint8_t)srq->log_depth,
		.log_stride = (uint8_t)srq->log_stride, .ring = flat(srq->ring),
	};

	return do_command(cmd);
}

struct moor_cpl_query_srq query_srq(const struct srq *srq)
{
	struct moor_cmd_query_srq cmd = {
		.hdr.opcode = MOOR_CMD_QUERY_SRQ, .srqn = srq->srqn,
	};
	struct moor_cpl_query_srq out;

	must(cmd);
	memcpy(&out, answer.out, sizeof(out));
	return out;
}

/* As for other queues: a case that posts more than a small ring holds is not for it. */
static void make_room(struct srq *srq)
{
	if (srq->producer - srq->taken < 1u << srq->log_depth)
		return;
	srq->taken = query_srq(srq).consumer;
	if (srq->producer - srq->taken >= 1u << srq->log_depth)
		at_least(max_log_wqe, srq->log_depth + 1);
}

struct moor_rq_wqe *put_shared(struct srq *srq, uint64_t wr_id, const struct moor_sge *sge,
			       unsigned int num_sge)
{
	struct moor_rq_wqe head = {
		.wr_id = wr_id, .num_sge = (uint8_t)num_sge,
	};
	uint32_t slot;
	uint8_t *wqe;

	at_least(max_sge, num_sge);
	make_room(srq);
	slot = srq->producer++ & ((1u << srq->log_depth) - 1);
	wqe = at(srq->ring + ((uint64_t)slot << srq->log_stride));
	memset(wqe, 0xa5, 1u << srq->log_stride);
	memcpy(wqe, &head, sizeof(head));
	if (num_sge)
		memcpy(wqe + sizeof(head), sge, num_sge * sizeof(*sge));
	return (struct moor_rq_wqe *)wqe;
}

/* As for receive queues, there is no kick. */
void ring_shared(const struct srq *srq)
{
	store_slot(srq->slot, srq->producer);
}

void post_shared(struct srq *srq, uint64_t wr_id, uint64_t addr, uint32_t len,
		 uint32_t lkey)
{
	struct moor_sge sge = { .addr = addr, .length = len, .lkey = lkey };

	put_shared(srq, wr_id, &sge, len ? 1 : 0);
	ring_shared(srq);
}

struct moor_cmd_create_qp sharing_command(struct qp *qp, const struct cq *cq,
					  const struct srq *srq)
{
	struct moor_cmd_create_qp cmd = qp_command(qp, cq, cq);

	cmd.flags = MOOR_QP_FLAG_SRQ;
	cmd.srqn = srq->srqn;
	cmd.no_rq = 1;
	cmd.log_rq_depth = 0;
	cmd.log_rq_stride = 0;
	cmd.rq_doorbell = 0;
	memset(&cmd.rq, 0, sizeof(cmd.rq));
	return cmd;
}

void make_sharing_qp(struct qp *qp, const struct cq *cq, const struct srq *srq)
{
	struct moor_cmd_create_qp cmd = sharing_command(qp, cq, srq);

	must(cmd);
}

void make_sharing(struct sharing *s, uint8_t type)
{
	unsigned int i;

	at_least(max_cq, 4);
	at_least(max_mr_size, BUF);
	memset(s, 0, sizeof(*s));
	make_srq(&s->srq);
	for (i = 0; i < 2; i++) {
		struct moor_cmd_create_qp cmd;

		make_cq(&s->send_cq[i], 2 * i, LOG_DEPTH + 1);
		make_cq(&s->recv_cq[i], 2 * i + 1, LOG_DEPTH + 1);
		cmd = qp_command(&s->sender[i], &s->send_cq[i], &s->send_cq[i]);
		cmd.type = type;
		must(cmd);
		cmd = sharing_command(&s->receiver[i], &s->recv_cq[i], &s->srq);
		cmd.type = type;
		must(cmd);
		connect_qp(&s->sender[i], s->receiver[i].qpn);
		connect_qp(&s->receiver[i], s->sender[i].qpn);
	}
	s->buf = take_filled(BUF, 1);
	s->key = make_mr(PD, ALL_RIGHTS, s->buf, BUF);
}

void send_shared(struct sharing *s, unsigned int i, uint32_t len, uint8_t status)
{
	post_send(&s->sender[i], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 0x5e, SGE(s->buf, len, s->key),
	});
	expect_cqe(&s->send_cq[i], 0x5e, status, 0);
}

void came_shared(struct sharing *s, unsigned int i, uint64_t wr_id, uint32_t index,
		 uint32_t len)
{
	struct moor_cqe cqe = expect_cqe(&s->recv_cq[i], wr_id,
					 MOOR_WC_SUCCESS, 0);

	expect(cqe.wqe_index == index && cqe.qpn == s->receiver[i].qpn &&
	       cqe.cookie == ~s->receiver[i].qpn && cqe.byte_len == len &&
	       cqe.src_qpn == s->sender[i].qpn && cqe.opcode == MOOR_CQE_RECV,
	       "QP 0x%x, WQE %u, %u bytes", cqe.qpn, cqe.wqe_index, cqe.byte_len);
}

void abandon_shared(struct sharing *s, unsigned int i)
{
	uint32_t torn = make_torn_mr(true, take(2 * PAGE));

	post_send(&s->sender[i], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 0xab,
		SGE(TORN_IOVA + 2 * PAGE - 64, 128, torn),
	});
	expect_cqe(&s->send_cq[i], 0xab, MOOR_WC_LOC_PROT_ERR,
		   MOOR_SYN_TRANSLATION);
}

void reconnect_shared(struct sharing *s, unsigned int i)
{
	reset_qp(&s->sender[i]);
	reset_qp(&s->receiver[i]);
	connect_qp(&s->sender[i], s->receiver[i].qpn);
	connect_qp(&s->receiver[i], s->sender[i].qpn);
}
