// SPDX-License-Identifier: GPL-2.0
/*
 * Work queue entries: copied once, then checked (HWI 10). Only what was copied
 * counts; the consumer may scribble over the ring at any time.
 */
#include <endian.h>
#include <string.h>

#include "base/layout.h"
#include "memory/mr_fast.h"
#include "transport/transport.h"
#include "transport/ud.h"
#include "transport/wqe.h"

#define INLINE_ALLOWED	(WQE_RC & ~(WQE_ASKS_DATA | WQE_BIT(FLUSH) | WQE_LOCAL))

/* The features of which an opcode needs one (HWI FEAT-3); 0: none. */
static const uint64_t needs[] = {
	[MOOR_WQE_SEND_INV] = MOOR_FEATURE_MW_TYPE_2B | MOOR_FEATURE_FAST_REG,
	[MOOR_WQE_CMP_SWAP] = MOOR_FEATURE_ATOMICS,
	[MOOR_WQE_FETCH_ADD] = MOOR_FEATURE_ATOMICS,
	[MOOR_WQE_LOCAL_INV] = MOOR_FEATURE_MW_TYPE_2B | MOOR_FEATURE_FAST_REG,
	[MOOR_WQE_BIND_MW] = MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B,
	[MOOR_WQE_REG_MR] = MOOR_FEATURE_FAST_REG,
	[MOOR_WQE_ATOMIC_WRITE] = MOOR_FEATURE_ATOMIC_WRITE,
	[MOOR_WQE_FLUSH] = MOOR_FEATURE_FLUSH_GLOBAL |
			   MOOR_FEATURE_FLUSH_PERSISTENT,
};

static bool is_known(const struct nic *nic, uint8_t opcode)
{
	return opcode < sizeof(needs) / sizeof(needs[0]) &&
	       (WQE_RC & 1u << opcode) &&
	       (!needs[opcode] || nic_has(nic, needs[opcode]));
}

/* Return: the bytes of all SGEs. */
static uint64_t fetch_sges(struct segment *to, const uint8_t *from, uint8_t num)
{
	struct moor_sge raw;
	uint64_t length = 0;
	uint8_t i;

	for (i = 0; i < num; i++) {
		fetch(&raw, from + i * sizeof(raw), sizeof(raw));
		to[i].addr = le64toh(raw.addr);
		to[i].length = le32toh(raw.length);
		to[i].key = le32toh(raw.lkey);
		to[i].epoch = 0;
		length += to[i].length;
	}
	return length;
}

static bool sges_fit(uint8_t num, size_t before, uint8_t log_stride)
{
	return num <= NIC_MAX_SGE &&
	       before + num * sizeof(struct moor_sge) <= 1u << log_stride;
}

static bool fetch_inline(struct send_wqe *wqe, const uint8_t *from,
			 uint32_t length, size_t before, uint8_t log_stride)
{
	if (!(INLINE_ALLOWED & 1u << wqe->opcode) || length > NIC_MAX_INLINE ||
	    before + length > 1u << log_stride)
		return false;
	fetch(wqe->data, from, length);
	wqe->num_sge = 0;
	wqe->length = length;
	return true;
}

static void fetch_atomic(struct send_wqe *wqe, const uint8_t *from)
{
	struct moor_wqe_atomic raw;

	fetch(&raw, from, sizeof(raw));
	wqe->swap_add = le64toh(raw.swap_add);
	wqe->compare = le64toh(raw.compare);
}

/* HWI MPE-5. */
static bool fetch_flush(struct send_wqe *wqe, const uint8_t *from,
			size_t before, uint8_t log_stride)
{
	static const uint8_t zero[sizeof(((struct moor_wqe_flush *)0)->reserved1)];
	struct moor_wqe_flush raw;

	if (wqe->num_sge || before + sizeof(raw) > 1u << log_stride)
		return false;
	fetch(&raw, from, sizeof(raw));
	wqe->length = 0;
	wqe->flush_length = le32toh(raw.length);
	wqe->flush_type = raw.type;
	wqe->flush_level = raw.level;
	return flush_is_known(raw.type, raw.level) &&
	       !memcmp(raw.reserved1, zero, sizeof(zero));
}

/* REG_MR carries DMA addresses: only QPs of the kernel may have it. */
static bool fetch_reg(struct send_wqe *wqe, const uint8_t *from,
		      const struct qp *qp)
{
	struct moor_wqe_reg raw;

	if (!qp->actor.kernel || sizeof(struct moor_sq_wqe) + sizeof(raw) >
				 1u << qp->sq.log_stride)
		return false;
	fetch(&raw, from, sizeof(raw));
	wqe->reg = (struct mr_fast_request){
		.key = le32toh(raw.key),
		.access = le32toh(raw.access),
		.iova = wqe->remote_addr,
		.length = le64toh(raw.length),
		.xlat = raw.xlat,
	};
	return true;
}

/* An opcode that moves no data. */
static bool fetch_local(struct send_wqe *wqe, const uint8_t *from,
			const struct qp *qp)
{
	struct moor_wqe_bind raw;

	wqe->length = 0;
	if (wqe->num_sge)
		return false;
	if (wqe->opcode == MOOR_WQE_REG_MR)
		return fetch_reg(wqe, from, qp);
	if (wqe->opcode != MOOR_WQE_BIND_MW)
		return true;
	fetch(&raw, from, sizeof(raw));
	wqe->bind = (struct mw_request){
		.mw_key = le32toh(raw.mw_key),
		.new_key = le32toh(raw.new_key),
		.mr_lkey = le32toh(raw.mr_lkey),
		.access = le32toh(raw.access),
		.addr = le64toh(raw.addr),
		.length = le64toh(raw.length),
	};
	return true;
}

/* The address comes behind the head. The requester refuses opcodes other than SEND's. */
static enum wqe_form fetch_datagram(const struct nic *nic, struct send_wqe *wqe,
				    const uint8_t *from, uint32_t inline_length,
				    const struct qp *qp)
{
	const size_t before = sizeof(struct moor_sq_wqe) +
			      sizeof(struct moor_wqe_ud);
	uint64_t length;

	if (before > 1u << qp->sq.log_stride ||
	    !ud_fetch_address(nic, &wqe->to, from + sizeof(struct moor_sq_wqe)))
		return WQE_MALFORMED;
	if (wqe->flags & MOOR_WQE_FLAG_INLINE) {
		if (!fetch_inline(wqe, from + before, inline_length, before,
				  qp->sq.log_stride))
			return WQE_MALFORMED;
		length = inline_length;
	} else {
		if (!sges_fit(wqe->num_sge, before, qp->sq.log_stride))
			return WQE_MALFORMED;
		length = fetch_sges(wqe->sge, from + before, wqe->num_sge);
	}
	wqe->length = (uint32_t)length;
	return length > mtu_of(qp->path_mtu) ? WQE_TOO_LONG : WQE_OK;
}

/* The SRQ that the message is for (HWI XRC-3). */
static bool fetch_target(struct send_wqe *wqe, const uint8_t *from,
			 const struct qp *qp)
{
	struct moor_wqe_xrc raw;

	if (sizeof(struct moor_sq_wqe) + sizeof(raw) > 1u << qp->sq.log_stride)
		return false;
	fetch(&raw, from, sizeof(raw));
	wqe->srqn = le32toh(raw.srqn);
	return !(wqe->srqn & ~NIC_NUMBER_MASK) && !raw.reserved1[0] &&
	       !raw.reserved1[1] && !raw.reserved1[2];
}

enum wqe_form wqe_fetch_send(struct nic *nic, struct qp *qp,
			     struct send_wqe *wqe)
{
	const uint8_t *from = queue_wqe(nic, &qp->sq);
	size_t segment = sizeof(struct moor_sq_wqe);
	struct moor_sq_wqe head;
	uint64_t length;

	if (!from)
		return WQE_UNREACHABLE;
	fetch(&head, from, sizeof(head));
	wqe->index = qp->sq.consumer++;
	wqe->opcode = head.opcode;
	wqe->flags = head.flags;
	wqe->num_sge = head.num_sge;
	wqe->imm = head.imm;
	wqe->inv_key = le32toh(head.inv_key);
	wqe->wr_id = le64toh(head.wr_id);
	wqe->remote_addr = le64toh(head.remote_addr);
	wqe->rkey = le32toh(head.rkey);

	if (!is_known(nic, head.opcode) || (head.flags & ~MOOR_WQE_FLAG_ALL) ||
	    head.reserved1)
		return WQE_MALFORMED;
	if (qp->datagrams)
		return fetch_datagram(nic, wqe, from,
				      le32toh(head.inline_length), qp);
	if (qp->names_srq && !(WQE_LOCAL & 1u << head.opcode)) {
		if (!fetch_target(wqe, from + segment, qp))
			return WQE_MALFORMED;
		segment += sizeof(struct moor_wqe_xrc);
	}
	if (head.flags & MOOR_WQE_FLAG_INLINE)
		return fetch_inline(wqe, from + segment,
				    le32toh(head.inline_length), segment,
				    qp->sq.log_stride) ? WQE_OK : WQE_MALFORMED;
	if (WQE_LOCAL & 1u << head.opcode)
		return fetch_local(wqe, from + segment, qp) ? WQE_OK :
							      WQE_MALFORMED;
	if (head.opcode == MOOR_WQE_FLUSH)
		return fetch_flush(wqe, from + segment, segment,
				   qp->sq.log_stride) ? WQE_OK : WQE_MALFORMED;
	if (WQE_ATOMICS & 1u << head.opcode) {
		if (head.num_sge != 1)
			return WQE_MALFORMED;
		fetch_atomic(wqe, from + segment);
		segment += sizeof(struct moor_wqe_atomic);
	}
	if (!sges_fit(head.num_sge, segment, qp->sq.log_stride))
		return WQE_MALFORMED;
	length = fetch_sges(wqe->sge, from + segment, head.num_sge);
	if (length > NIC_MAX_MSG_SIZE)
		return WQE_TOO_LONG;
	wqe->length = (uint32_t)length;
	return WQE_OK;
}

enum wqe_form wqe_fetch_recv(struct nic *nic, struct queue *queue,
			     struct recv_wqe *wqe)
{
	static const uint8_t zero[sizeof(((struct moor_rq_wqe *)0)->reserved1)];
	const uint8_t *from = queue_wqe(nic, queue);
	struct moor_rq_wqe head;
	uint64_t room;

	if (!from)
		return WQE_UNREACHABLE;
	fetch(&head, from, sizeof(head));
	wqe->index = queue->consumer++;
	wqe->wr_id = le64toh(head.wr_id);
	wqe->num_sge = head.num_sge;
	if (memcmp(head.reserved1, zero, sizeof(zero)) ||
	    !sges_fit(head.num_sge, sizeof(head), queue->log_stride))
		return WQE_MALFORMED;
	/* No message is longer, and its bytes that have come are counted in 32 bits. */
	room = fetch_sges(wqe->sge, from + sizeof(head), head.num_sge);
	wqe->room = room < NIC_MAX_MSG_SIZE ? room : NIC_MAX_MSG_SIZE;
	return WQE_OK;
}

void recv_wqe_anew(struct recv_wqe *wqe)
{
	unsigned int i;

	for (i = 0; i < wqe->num_sge; i++)
		wqe->sge[i].epoch = 0;
}
