// SPDX-License-Identifier: GPL-2.0
/* CQEs of work requests (HWI 11). */
#include <endian.h>

#include "qp.h"

static void fill_cqe(struct moor_cqe *cqe, const struct qp *qp, uint64_t wr_id,
		     uint32_t index, uint8_t opcode)
{
	*cqe = (struct moor_cqe){
		.wr_id = htole64(wr_id),
		.qpn = htole32(qp->qpn),
		.cookie = htole32(qp->cookie),
		.wqe_index = htole32(index),
		.opcode = opcode,
	};
}

void complete_send(struct nic *nic, struct qp *qp, const struct send_wqe *wqe,
		   uint8_t status, uint8_t syndrome)
{
	struct moor_cqe cqe;

	fill_cqe(&cqe, qp, wqe->wr_id, wqe->index, wqe->opcode);
	cqe.status = status;
	cqe.syndrome = syndrome;
	if (!status)
		cqe.byte_len = htole32(wqe->length);
	if (!cq_write(nic, qp->send_cq, &cqe, false))
		qp_error(nic, qp);
}

void complete_recv(struct nic *nic, struct qp *qp, const struct recv_wqe *wqe,
		   uint8_t status, uint8_t syndrome)
{
	struct moor_cqe cqe;

	fill_cqe(&cqe, qp, wqe->wr_id, wqe->index, MOOR_CQE_RECV);
	cqe.status = status;
	cqe.syndrome = syndrome;
	if (!cq_write(nic, qp->recv_cq, &cqe, false))
		qp_error(nic, qp);
}

void complete_recv_message(struct nic *nic, struct qp *qp,
			   const struct recv_wqe *wqe, const struct qp *from)
{
	const struct send_wqe *sent = &from->req.wqe;
	bool solicited = sent->flags & MOOR_WQE_FLAG_SOLICITED;
	struct moor_cqe cqe;

	fill_cqe(&cqe, qp, wqe->wr_id, wqe->index,
		 sent->opcode == MOOR_WQE_WRITE_IMM ? MOOR_CQE_RECV_WRITE_IMM :
						      MOOR_CQE_RECV);
	cqe.byte_len = htole32(sent->length);
	cqe.src_qpn = htole32(from->qpn);
	if (sent->opcode == MOOR_WQE_SEND_IMM ||
	    sent->opcode == MOOR_WQE_WRITE_IMM) {
		cqe.flags |= MOOR_CQE_FLAG_IMM;
		cqe.imm = sent->imm;
	}
	if (sent->opcode == MOOR_WQE_SEND_INV) {
		cqe.flags |= MOOR_CQE_FLAG_INV;
		cqe.inv_key = htole32(sent->inv_key);
	}
	if (solicited)
		cqe.flags |= MOOR_CQE_FLAG_SOLICITED;
	if (!cq_write(nic, qp->recv_cq, &cqe, solicited))
		qp_error(nic, qp);
}
