// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "traffic.h"

/* Retries are over soon: 4.096 us << 6, twice. */
#define TIMEOUT		6
#define RETRIES		2
#define MIN_RNR_TIMER	1
#define PATH_MTU	3	/* 1024 bytes */

#define STAGE		64u	/* bytes of a WQE's data that cannot be inline */

/* A CQ of twice that depth takes the CQEs of both queues of a QP. */
unsigned int usual_log_depth(void)
{
	unsigned int most = dev.max_log_wqe < dev.max_log_cqe ? dev.max_log_wqe :
								dev.max_log_cqe - 1;

	return most < MOST_LOG_DEPTH ? most : MOST_LOG_DEPTH;
}

/* ---- completion queues ---- */

struct moor_cmd_create_cq cq_command(struct cq *cq, uint32_t cqn,
				     unsigned int log_cqe)
{
	*cq = (struct cq){ .cqn = cqn, .log_cqe = log_cqe };
	cq->ring = take(sizeof(struct moor_cqe) << log_cqe);
	cq->slot = take_slot();
	return (struct moor_cmd_create_cq){
		.hdr.opcode = MOOR_CMD_CREATE_CQ, .cqn = cqn,
		.eqn = MOOR_EQ_COMPLETION, .doorbell = cq->slot,
		.log_cqe = (uint8_t)log_cqe, .ring = flat(cq->ring),
	};
}

void make_cq(struct cq *cq, uint32_t cqn, unsigned int log_cqe)
{
	struct moor_cmd_create_cq cmd;

	at_least(max_cq, cqn + 1);
	cmd = cq_command(cq, cqn, log_cqe < dev.max_log_cqe ? log_cqe :
							      dev.max_log_cqe);
	must(cmd);
}

/* Arm and sequence are stored unchanged: an open request stays until it is answered. */
void free_cqes(const struct cq *cq)
{
	store_slot(cq->slot, cq->consumer | (uint64_t)cq->arm << 32 |
		   (uint64_t)cq->arm_seq << 34);
}

void arm_cq(struct cq *cq, enum moor_cq_arm how)
{
	cq->arm = how;
	cq->arm_seq++;
	free_cqes(cq);
}

bool peek_cqe(const struct cq *cq, struct moor_cqe *cqe)
{
	uint32_t size = 1u << cq->log_cqe;
	struct moor_cqe *entry = (struct moor_cqe *)at(cq->ring) +
				 (cq->consumer & (size - 1));
	uint32_t phase = !(cq->consumer & size);

	if ((__atomic_load_n(&entry->phase, __ATOMIC_ACQUIRE) & 1) != phase)
		return false;
	*cqe = *entry;
	return true;
}

bool poll_cqe(struct cq *cq, struct moor_cqe *cqe)
{
	if (!peek_cqe(cq, cqe))
		return false;
	cq->consumer++;
	free_cqes(cq);
	return true;
}

struct moor_cqe wait_cqe(struct cq *cq)
{
	struct moor_cqe cqe = { 0 };

	need(wait_until(poll_cqe(cq, &cqe)), "no CQE in CQ %u", cq->cqn);
	return cqe;
}

struct moor_cqe expect_cqe(struct cq *cq, uint64_t wr_id, uint8_t status,
			   uint8_t syndrome)
{
	struct moor_cqe cqe = wait_cqe(cq);

	expect(cqe.wr_id == wr_id && cqe.status == status &&
	       cqe.syndrome == syndrome,
	       "CQE of %llu: status %u, syndrome %u, where %llu: %u, %u was due",
	       (unsigned long long)cqe.wr_id, cqe.status, cqe.syndrome,
	       (unsigned long long)wr_id, status, syndrome);
	return cqe;
}

void expect_no_cqe(struct cq *cq)
{
	struct moor_cqe cqe;

	settle();
	if (peek_cqe(cq, &cqe))
		expect(false, "CQE of %llu, status %u, where none was due",
		       (unsigned long long)cqe.wr_id, cqe.status);
}

/* ---- queue pairs ---- */

static bool is_qp(uint32_t qpn)
{
	struct moor_cmd_query_qp cmd = {
		.hdr.opcode = MOOR_CMD_QUERY_QP, .qpn = qpn,
	};

	return !do_command(cmd);
}

uint32_t take_qpn(void)
{
	static uint32_t next;
	uint32_t num = 1u << dev.qp_index_bits, i, qpn;

	for (i = 0; i < num; i++) {
		qpn = ((next++ & (num - 1)) | 0x5u << dev.qp_index_bits) & 0xffffff;
		/* Of few numbers this one may be in use still. */
		if (num > SMALL_NUMBER || !is_qp(qpn))
			return qpn;
	}
	at_least(qp_index_bits, dev.qp_index_bits + 1);
	return 0;
}

struct moor_cmd_create_qp qp_command_with(const struct qp *qp,
					  const struct cq *send_cq,
					  const struct cq *recv_cq)
{
	return (struct moor_cmd_create_qp){
		.hdr.opcode = MOOR_CMD_CREATE_QP, .qpn = qp->qpn, .pd = PD,
		.send_cqn = send_cq->cqn, .recv_cqn = recv_cq->cqn,
		.cookie = ~qp->qpn, .type = MOOR_QP_RC,
		.log_sq_depth = qp->log_depth, .log_sq_stride = qp->log_stride,
		.log_rq_depth = qp->log_depth, .log_rq_stride = qp->log_stride,
		.sq_doorbell = qp->sq_slot, .rq_doorbell = qp->rq_slot,
		.sq = flat(qp->sq), .rq = flat(qp->rq),
	};
}

struct moor_cmd_create_qp qp_command(struct qp *qp, const struct cq *send_cq,
				     const struct cq *recv_cq)
{
	*qp = (struct qp){
		.qpn = take_qpn(), .sq_slot = take_slot(),
		.rq_slot = take_slot(), .log_depth = LOG_DEPTH,
		.log_stride = LOG_STRIDE,
		.sq = take(1u << (LOG_DEPTH + LOG_STRIDE)),
		.rq = take(1u << (LOG_DEPTH + LOG_STRIDE)),
		.send_cq = send_cq, .recv_cq = recv_cq,
	};
	return qp_command_with(qp, send_cq, recv_cq);
}

void make_qp(struct qp *qp, const struct cq *send_cq, const struct cq *recv_cq)
{
	struct moor_cmd_create_qp cmd = qp_command(qp, send_cq, recv_cq);

	must(cmd);
}

void destroy_qp(const struct qp *qp)
{
	struct moor_cmd_destroy_qp cmd = {
		.hdr.opcode = MOOR_CMD_DESTROY_QP, .qpn = qp->qpn,
	};

	must(cmd);
}

struct moor_cmd_modify_qp to_init(void)
{
	return (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_ACCESS,
		.state = MOOR_QPS_INIT, .access = ALL_REMOTE,
		.access_high = ALL_FLUSH >> 8,
	};
}

struct moor_cmd_modify_qp to_rtr(uint32_t peer)
{
	return (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_PATH |
			MOOR_QP_ATTR_PATH_MTU | MOOR_QP_ATTR_DEST_QPN |
			MOOR_QP_ATTR_RQ_PSN | MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC |
			MOOR_QP_ATTR_MIN_RNR_TIMER,
		.state = MOOR_QPS_RTR, .path_mtu = PATH_MTU, .dest_qpn = peer,
		.rq_psn = 0x123, .max_dest_rd_atomic = 1,
		.min_rnr_timer = MIN_RNR_TIMER, .sgid_index = GID_INDEX,
		.hop_limit = 1, .dmac = { 2, 0, 0, 0, 0, 1 },
		.dgid = { 0xfe, 0x80, [15] = 1 },
	};
}

struct moor_cmd_modify_qp to_rts(void)
{
	return (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_SQ_PSN |
			MOOR_QP_ATTR_MAX_RD_ATOMIC | MOOR_QP_ATTR_TIMEOUT |
			MOOR_QP_ATTR_RETRY_CNT | MOOR_QP_ATTR_RNR_RETRY,
		.state = MOOR_QPS_RTS, .sq_psn = 0x123, .max_rd_atomic = 1,
		.timeout = TIMEOUT, .retry_cnt = RETRIES, .rnr_retry = RETRIES,
	};
}

struct moor_cmd_modify_qp to_state(enum moor_qp_state state)
{
	return (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_STATE, .state = (uint8_t)state,
	};
}

uint8_t modify(const struct qp *qp, struct moor_cmd_modify_qp cmd)
{
	cmd.hdr.opcode = MOOR_CMD_MODIFY_QP;
	cmd.qpn = qp->qpn;
	return do_command(cmd);
}

void must_modify(const struct qp *qp, struct moor_cmd_modify_qp cmd)
{
	uint8_t status = modify(qp, cmd);

	need(!status, "MODIFY_QP to state %u: status %u at %u", cmd.state,
	     status, answer.detail);
}

void connect_qp(const struct qp *qp, uint32_t peer)
{
	must_modify(qp, to_init());
	must_modify(qp, to_rtr(peer));
	must_modify(qp, to_rts());
}

void reset_qp(struct qp *qp)
{
	must_modify(qp, to_state(MOOR_QPS_RESET));
	qp->sq_producer = 0;
	qp->rq_producer = 0;
	qp->sq_done = 0;
	qp->rq_done = 0;
}

struct moor_cpl_query_qp query_qp(const struct qp *qp)
{
	struct moor_cmd_query_qp cmd = {
		.hdr.opcode = MOOR_CMD_QUERY_QP, .qpn = qp->qpn,
	};
	struct moor_cpl_query_qp out;

	must(cmd);
	memcpy(&out, answer.out, sizeof(out));
	return out;
}

bool reaches_state(const struct qp *qp, enum moor_qp_state state)
{
	return wait_until(query_qp(qp).state == state);
}

/* ---- work requests ---- */

static uint32_t num_unpolled(const struct cq *cq)
{
	struct cq ahead = *cq;
	struct moor_cqe cqe;

	while (ahead.consumer - cq->consumer < 1u << cq->log_cqe &&
	       peek_cqe(&ahead, &cqe))
		ahead.consumer++;
	return ahead.consumer - cq->consumer;
}

/* As far as is known there is room for another WQE, and for the CQEs of all. */
static bool has_room(const struct qp *qp, bool send)
{
	uint32_t sends = qp->sq_producer - qp->sq_done;
	uint32_t recvs = qp->rq_producer - qp->rq_done;
	const struct cq *cq = send ? qp->send_cq : qp->recv_cq;

	if ((send ? sends : recvs) >= 1u << qp->log_depth)
		return false;
	if (!cq)
		return true;
	return num_unpolled(cq) + (qp->send_cq == cq ? sends : 0) +
	       (qp->recv_cq == cq ? recvs : 0) < 1u << cq->log_cqe;
}

/* A case that posts more at once than the small queues of a device hold is not for it. */
static void make_room(struct qp *qp, bool send)
{
	struct moor_cpl_query_qp out;
	unsigned int tries;

	if (usual_log_depth() == MOST_LOG_DEPTH)
		return;
	for (tries = 0; tries < 2 && !has_room(qp, send); tries++) {
		if (tries)
			settle();
		if (!is_qp(qp->qpn))
			return;
		memcpy(&out, answer.out, sizeof(out));
		qp->sq_done = out.sq_consumer;
		qp->rq_done = out.rq_consumer;
	}
	if (has_room(qp, send))
		return;
	at_least(max_log_wqe, MOST_LOG_DEPTH);
	at_least(max_log_cqe, MOST_LOG_DEPTH + 1);
}

/* What is too much for the device is not for it, unless that is what the case is about. */
static void check_limits(const struct send_wr *wr)
{
	uint64_t total = 0;
	unsigned int i;

	if (wr->flags & AS_IT_IS)
		return;
	for (i = 0; i < wr->num_sge; i++)
		total += wr->sge[i].length;
	at_least(max_sge, wr->num_sge);
	at_least(max_msg_size, total);
}

/* Data that the device does not take inline, in memory of which each WQE has some. */
static struct send_wr staged(struct qp *qp, const struct send_wr *wr)
{
	struct send_wr instead = *wr;
	uint64_t to;

	if (!qp->staged) {
		qp->staged = take(PAGE);
		qp->staged_key = make_mr(PD, 0, qp->staged, PAGE);
	}
	to = qp->staged + qp->num_staged++ % (PAGE / STAGE) * STAGE;
	memcpy(at(to), wr->data, wr->data_len);
	instead.data = NULL;
	instead.num_sge = 1;
	instead.sge[0] = (struct moor_sge){ to, wr->data_len, qp->staged_key };
	return instead;
}

static struct moor_sq_wqe *write_send(struct qp *qp, const struct send_wr *wr)
{
	uint32_t slot = qp->sq_producer++ & ((1u << qp->log_depth) - 1);
	uint8_t *wqe = at(qp->sq + ((uint64_t)slot << qp->log_stride));
	struct moor_sq_wqe head = {
		.opcode = wr->opcode,
		.flags = (uint8_t)wr->flags |
			 (wr->flags & UNSIGNALED ? 0 : MOOR_WQE_FLAG_SIGNALED) |
			 (wr->data ? MOOR_WQE_FLAG_INLINE : 0),
		.num_sge = (uint8_t)wr->num_sge, .inv_key = wr->inv_key,
		.wr_id = wr->wr_id, .remote_addr = wr->remote,
		.rkey = wr->rkey, .inline_length = wr->data_len,
	};
	uint8_t *to = wqe + sizeof(head);

	/* Unused fields are full of garbage: the device must not look at them. */
	memset(wqe, 0xa5, 1u << qp->log_stride);
	memcpy(wqe, &head, sizeof(head));
	if (wr->to) {
		memcpy(to, wr->to, sizeof(*wr->to));
		to += sizeof(*wr->to);
	}
	if (wr->whose) {
		memcpy(to, wr->whose, sizeof(*wr->whose));
		to += sizeof(*wr->whose);
	}
	switch (wr->opcode) {
	case MOOR_WQE_CMP_SWAP:
	case MOOR_WQE_FETCH_ADD:
		memcpy(to, &wr->atomic, sizeof(wr->atomic));
		to += sizeof(wr->atomic);
		break;
	case MOOR_WQE_BIND_MW:
		memcpy(to, &wr->bind, sizeof(wr->bind));
		to += sizeof(wr->bind);
		break;
	case MOOR_WQE_REG_MR:
		memcpy(to, &wr->reg, sizeof(wr->reg));
		to += sizeof(wr->reg);
		break;
	case MOOR_WQE_FLUSH:
		memcpy(to, &wr->flush, sizeof(wr->flush));
		to += sizeof(wr->flush);
		break;
	}
	if (wr->data)
		memcpy(to, wr->data, wr->data_len);
	else
		memcpy(to, wr->sge, wr->num_sge * sizeof(wr->sge[0]));
	return (struct moor_sq_wqe *)wqe;
}

struct moor_sq_wqe *put_send(struct qp *qp, const struct send_wr *wr)
{
	struct send_wr instead;

	make_room(qp, true);
	check_limits(wr);
	if (!wr->data || wr->data_len <= dev.max_inline || wr->data_len > STAGE ||
	    wr->flags & AS_IT_IS)
		return write_send(qp, wr);
	instead = staged(qp, wr);
	return write_send(qp, &instead);
}

struct send_wr flush_wr(uint8_t type, uint8_t level, uint64_t remote,
			uint32_t rkey, uint32_t len)
{
	return (struct send_wr){
		.opcode = MOOR_WQE_FLUSH, .wr_id = 0xf1, .remote = remote,
		.rkey = rkey,
		.flush = { .length = len, .type = type, .level = level },
	};
}

uint8_t flush_types(void)
{
	return (dev.features & MOOR_FEATURE_FLUSH_GLOBAL ?
		MOOR_FLUSH_GLOBAL : 0) |
	       (dev.features & MOOR_FEATURE_FLUSH_PERSISTENT ?
		MOOR_FLUSH_PERSISTENT : 0);
}

void ring_send(const struct qp *qp)
{
	ring_slot(qp->sq_slot, qp->sq_producer);
}

void post_send(struct qp *qp, struct send_wr wr)
{
	put_send(qp, &wr);
	ring_send(qp);
}

struct moor_rq_wqe *put_recv(struct qp *qp, uint64_t wr_id, const struct moor_sge *sge,
			     unsigned int num_sge)
{
	struct moor_rq_wqe head = {
		.wr_id = wr_id, .num_sge = (uint8_t)num_sge,
	};
	uint8_t *wqe;

	at_least(max_sge, num_sge);
	make_room(qp, false);
	wqe = at(qp->rq + ((uint64_t)(qp->rq_producer++ & ((1u << qp->log_depth) - 1)) <<
			   qp->log_stride));
	memset(wqe, 0xa5, 1u << qp->log_stride);
	memcpy(wqe, &head, sizeof(head));
	if (num_sge)
		memcpy(wqe + sizeof(head), sge, num_sge * sizeof(*sge));
	return (struct moor_rq_wqe *)wqe;
}

/* There is no kick: the device looks at the slot when a message comes. */
void ring_recv(const struct qp *qp)
{
	store_slot(qp->rq_slot, qp->rq_producer);
}

void post_recv(struct qp *qp, uint64_t wr_id, uint64_t addr, uint32_t len,
	       uint32_t lkey)
{
	struct moor_sge sge = { .addr = addr, .length = len, .lkey = lkey };

	put_recv(qp, wr_id, &sge, len ? 1 : 0);
	ring_recv(qp);
}
