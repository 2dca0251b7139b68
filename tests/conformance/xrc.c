// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "xrc.h"

struct moor_cmd_create_srq xrc_srq_command(struct srq *srq, const struct cq *cq,
					   uint32_t pd)
{
	struct moor_cmd_create_srq cmd = srq_command(srq);

	cmd.flags = MOOR_SRQ_FLAG_XRC;
	cmd.xrcd = XRCD;
	cmd.cqn = cq->cqn;
	cmd.cookie = COOKIE;
	cmd.pd = pd;
	return cmd;
}

struct moor_cmd_create_qp ini_command(struct qp *qp, const struct cq *cq)
{
	static const struct srq none;
	struct moor_cmd_create_qp cmd = sharing_command(qp, cq, &none);

	cmd.type = MOOR_QP_XRC_INI;
	cmd.flags = 0;
	return cmd;
}

struct moor_cmd_create_qp tgt_command(struct qp *qp)
{
	*qp = (struct qp){ .qpn = take_qpn() };
	return (struct moor_cmd_create_qp){
		.hdr.opcode = MOOR_CMD_CREATE_QP, .qpn = qp->qpn,
		.type = MOOR_QP_XRC_TGT, .no_sq = 1, .no_rq = 1, .xrcd = XRCD,
	};
}

void make_xrc(struct xrc *x)
{
	static const uint32_t pds[] = { PD, OTHER_PD };
	struct moor_cmd_create_srq create;
	struct moor_cmd_create_qp cmd;
	unsigned int i;

	at_least(max_log_cqe, MOST_LOG_DEPTH + 1);
	at_least(max_cq, 3);
	at_least(max_mr_size, BUF);
	memset(x, 0, sizeof(*x));
	x->buf = take_filled(BUF, 1);
	make_cq(&x->send_cq, 0, LOG_DEPTH + 1);
	for (i = 0; i < 2; i++) {
		make_cq(&x->recv_cq[i], 1 + i, LOG_DEPTH + 1);
		create = xrc_srq_command(&x->srq[i], &x->recv_cq[i], pds[i]);
		create.cookie += i;
		must(create);
		x->key[i] = make_mr(pds[i], ALL_RIGHTS, x->buf, BUF);
	}
	cmd = ini_command(&x->ini, &x->send_cq);
	must(cmd);
	cmd = tgt_command(&x->tgt);
	must(cmd);
	connect_qp(&x->ini, x->tgt.qpn);
	connect_qp(&x->tgt, x->ini.qpn);
}

void reconnect_xrc(struct xrc *x)
{
	reset_qp(&x->ini);
	reset_qp(&x->tgt);
	connect_qp(&x->ini, x->tgt.qpn);
	connect_qp(&x->tgt, x->ini.qpn);
}

void post_for(struct xrc *x, uint32_t srqn, struct send_wr wr)
{
	struct moor_wqe_xrc whose = { .srqn = srqn };

	wr.whose = &whose;
	wr.wr_id = 0x5e;
	post_send(&x->ini, wr);
}

void send_for(struct xrc *x, uint32_t srqn, uint32_t len, uint8_t status)
{
	post_for(x, srqn, (struct send_wr){
		.opcode = MOOR_WQE_SEND, SGE(x->buf, len, x->key[0]),
	});
	expect_cqe(&x->send_cq, 0x5e, status, 0);
}

struct moor_cqe came_for(struct xrc *x, unsigned int i, uint64_t wr_id,
			 uint8_t status, uint8_t syndrome)
{
	struct moor_cqe cqe = expect_cqe(&x->recv_cq[i], wr_id, status, syndrome);

	expect(cqe.qpn == x->tgt.qpn && cqe.cookie == COOKIE + i,
	       "QP 0x%x, cookie 0x%x", cqe.qpn, cqe.cookie);
	return cqe;
}

void destroy_srq(const struct srq *srq)
{
	struct moor_cmd_destroy_srq cmd = {
		.hdr.opcode = MOOR_CMD_DESTROY_SRQ, .srqn = srq->srqn,
	};

	must(cmd);
}
