// SPDX-License-Identifier: GPL-2.0
/* CQEs of work requests (HWI 11). */
#include <endian.h>
#include <string.h>

#include "queues/cq.h"
#include "transport/complete.h"
#include "transport/qp.h"

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

/*
 * HWI CQ-8: in an error CQE only bit 7 of the opcode has a meaning; the length and the
 * flags have none. With --strict these are random, so that no driver relies on them.
 */
static void set_error(struct nic *nic, struct moor_cqe *cqe, uint8_t queue,
		      uint8_t status, uint8_t syndrome)
{
	cqe->opcode ^= nic_chance(nic, 0x100);
	cqe->opcode = queue | (cqe->opcode & ~MOOR_CQE_RECV);
	cqe->flags = (uint8_t)nic_chance(nic, 0x100);
	cqe->byte_len = htole32(nic_chance(nic, UINT32_MAX));
	cqe->status = status;
	cqe->syndrome = syndrome;
}

void complete_send(struct nic *nic, struct qp *qp, const struct send_wqe *wqe,
		   uint8_t status, uint8_t syndrome)
{
	struct moor_cqe cqe;

	fill_cqe(&cqe, qp, wqe->wr_id, wqe->index, wqe->opcode);
	if (status)
		set_error(nic, &cqe, 0, status, syndrome);
	else
		cqe.byte_len = htole32(wqe->length);
	if (!cq_write(nic, qp->send_cq, &cqe, false))
		qp_error(nic, qp);
}

void complete_recv(struct nic *nic, struct qp *qp, const struct recv_wqe *wqe,
		   uint8_t status, uint8_t syndrome)
{
	struct moor_cqe cqe;

	fill_cqe(&cqe, qp, wqe->wr_id, wqe->index, MOOR_CQE_RECV);
	set_error(nic, &cqe, MOOR_CQE_RECV, status, syndrome);
	if (!cq_write(nic, qp->recv_cq, &cqe, false))
		qp_error(nic, qp);
}

/* HWI UD-13. */
static void fill_datagram(struct moor_cqe *cqe, const struct packet *p)
{
	const struct datagram *d = p->datagram;

	cqe->flags |= MOOR_CQE_FLAG_GRH;
	cqe->src_qpn = htole32(p->src_qpn);
	cqe->network = d->network;
	cqe->priority = d->priority;
	memcpy(cqe->smac, d->smac, sizeof(cqe->smac));
	cqe->vlan = htole16(d->vlan);
}

bool complete_recv_message(struct nic *nic, struct qp *qp,
			   const struct recv_wqe *wqe, const struct packet *p,
			   uint32_t length)
{
	const struct packet_form *form = packet_form(p);
	struct moor_cqe cqe;

	fill_cqe(&cqe, qp, wqe->wr_id, wqe->index,
		 form->kind == PACKET_KIND_WRITE ? MOOR_CQE_RECV_WRITE_IMM :
						   MOOR_CQE_RECV);
	cqe.byte_len = htole32(length);
	cqe.src_qpn = htole32(qp->dest_qpn);
	if (form->headers & PACKET_HAS_IMM) {
		cqe.flags |= MOOR_CQE_FLAG_IMM;
		cqe.imm = p->imm;
	}
	if (form->headers & PACKET_HAS_INV) {
		cqe.flags |= MOOR_CQE_FLAG_INV;
		cqe.inv_key = htole32(p->inv_key);
	}
	if (p->solicited)
		cqe.flags |= MOOR_CQE_FLAG_SOLICITED;
	if (qp->datagrams)
		fill_datagram(&cqe, p);
	return cq_write(nic, qp->recv_cq, &cqe, p->solicited);
}
