// SPDX-License-Identifier: GPL-2.0
/*
 * The requester's half that all transports share: WQEs become requests, and requests
 * become packets.
 */
#include "memory/mr_fast.h"
#include "transport/live.h"
#include "transport/port.h"
#include "transport/requester.h"
#include "transport/transport.h"
#include "transport/ud.h"

/* A long message asks for an acknowledgment at each PSN that is a multiple of this. */
#define ACK_EVERY	32u

/*
 * Checks key to bounds of all SGEs, before the responder sees anything. The grant of
 * the first SGE stays with the request, for its first packet.
 */
static uint8_t check_sges(struct nic *nic, struct request *r)
{
	struct stream other, *s = &r->local;
	uint8_t syndrome;
	uint32_t i;

	for (i = 0; i < r->wqe.num_sge; i++) {
		struct segment *sge = &r->wqe.sge[i];

		if (!sge->length)
			continue;
		if (s == &r->local)
			s->current = i;
		else
			stream_init(s, r->local.actor, sge, 1, r->local.need);
		syndrome = stream_grant(nic, s, sge->length);
		if (syndrome)
			return syndrome;
		s = &other;
	}
	return MOOR_SYN_NONE;
}

/*
 * Checks, likewise, the translation of the first byte (HWI RC-21). For an atomic,
 * which is done only once, that of the whole result.
 */
static uint8_t check_first_bytes(struct nic *nic, struct request *r)
{
	uint64_t need = request_is_one_of(r, WQE_ATOMICS) ? r->wqe.length : 1;
	uint64_t done, run;
	uint8_t *ptr;

	if (!r->local.granted_to || r->local.grant.kind == MR_KIND_NULL)
		return MOOR_SYN_NONE;
	for (done = 0; done < need; done += run) {
		uint8_t syndrome;

		run = need - done;
		syndrome = mr_grant_ptr(nic, &r->local.grant, done, &run, &ptr);
		if (syndrome)
			return syndrome;
	}
	return MOOR_SYN_NONE;
}

/*
 * A request does not pass what is checked before the responder sees anything of it. It
 * has no PSN then (HWI QP-15), unless this is not the first time that it is sent.
 */
static void refuse(struct nic *nic, struct qp *qp, struct request *r,
		   uint8_t status, uint8_t syndrome)
{
	if (qp->req.sent_psn == r->psn && !qp->req.renumbered)
		qp->req.psn = r->psn;
	requester_fail(qp, r, status, syndrome);
	requester_retire(nic, qp);
}

/*
 * Checks what stops a request before the responder sees anything (HWI RC-2, RC-3).
 * Return: false when it does not go.
 */
static bool check_memory(struct nic *nic, struct qp *qp, struct request *r)
{
	uint8_t syndrome = check_sges(nic, r);

	if (!syndrome)
		syndrome = check_first_bytes(nic, r);
	if (!syndrome)
		return true;
	if (!requester_waits(nic, qp, r->psn, &r->local, &syndrome))
		refuse(nic, qp, r, MOOR_WC_LOC_PROT_ERR, syndrome);
	return false;
}

/* Checks what the WQE says. Return: false when the request is refused. */
static bool check_wqe(struct nic *nic, struct qp *qp, struct request *r)
{
	bool eight_bytes = request_is_one_of(r, WQE_ATOMICS |
					     WQE_BIT(ATOMIC_WRITE));

	if (r->form == WQE_MALFORMED)
		refuse(nic, qp, r, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	else if (r->form == WQE_TOO_LONG ||
		 (eight_bytes && r->wqe.length != sizeof(uint64_t)))
		refuse(nic, qp, r, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	else
		return true;
	return false;
}

/*
 * Requests under way are answered with the PSNs that they were sent with: a new PSN
 * counts when they have ended, and what waited for a page with them. Return: false until
 * then.
 */
static bool renumber(struct requester *req)
{
	if (req->next != req->head)
		return false;
	req->sent_psn = req->psn;
	req->acked_psn = req->psn;
	req->renumbered = false;
	req->half.state = HALF_GOES;
	req->peer_half.state = HALF_GOES;
	return true;
}

/* What is new starts in RTS alone (HWI RC-16), and not when the QP is about to fail. */
static bool starts_anew(const struct qp *qp)
{
	return qp->state == MOOR_QPS_RTS && !qp->req.stopped;
}

/*
 * Gives a new request what it begins with now (HWI QP-10). Until it begins, its PSNs are
 * not counted. Return: false when it has to wait.
 */
static bool prepare(struct qp *qp, struct request *r)
{
	struct requester *req = &qp->req;

	if (!starts_anew(qp) || (req->renumbered && !renumber(req)))
		return false;
	r->path_mtu = qp->path_mtu;
	r->psn = req->psn;
	r->num_psn = 0;
	if (r->form == WQE_OK && !request_is_one_of(r, WQE_LOCAL))
		r->num_psn = packets_of(r->path_mtu, r->wqe.length);
	return true;
}

/* Return: false when the request does not go, at least not now. */
static bool begin(struct nic *nic, struct qp *qp, struct request *r)
{
	bool writes = r->form == WQE_OK && request_is_one_of(r, WQE_ASKS_DATA);
	struct requester *req = &qp->req;

	if (req->next == req->head) {
		req->retries = qp->retry_cnt;
		req->rnr_retries = qp->rnr_retry;
	}
	req->psn = (r->psn + r->num_psn) & PSN_MASK;
	r->state = REQUEST_OPEN;
	r->syndrome = MOOR_SYN_NONE;
	stream_init(&r->local, &qp->actor, r->wqe.sge, r->wqe.num_sge,
		    writes ? MOOR_ACCESS_LOCAL_WRITE : 0);
	if (r->wqe.flags & MOOR_WQE_FLAG_INLINE)
		r->local.bytes = r->wqe.data;
	return check_wqe(nic, qp, r) && check_memory(nic, qp, r);
}

/* An opcode that the QP does not have, or not now, is malformed too (HWI WQ-8). */
static enum wqe_form form_of(const struct qp *qp, const struct request *r,
			     enum wqe_form form)
{
	bool known = request_is_one_of(r, qp->transport->wqe_opcodes) &&
		     (!request_is_one_of(r, WQE_ASKS) || qp->max_rd_atomic);

	return known ? form : WQE_MALFORMED;
}

/* Return: true when there is a request to go on with. */
static bool fetch_next(struct nic *nic, struct qp *qp)
{
	struct requester *req = &qp->req;
	enum queue_look look;
	enum wqe_form form;
	struct request *r;

	if (!starts_anew(qp) || req->tail - req->head == REQUESTER_WINDOW)
		return false;
	look = queue_look(&qp->sq);
	if (look == QUEUE_EMPTY)
		return false;
	live_seen(nic, qp, qp->sq.producer);
	if (look == QUEUE_BROKEN) {
		qp_queue_failed(nic, qp);
		return false;
	}
	r = request_get(nic, req);
	if (!r)
		return false;
	form = wqe_fetch_send(nic, qp, &r->wqe);
	if (form == WQE_UNREACHABLE) {
		request_put(nic, req, r);
		qp_queue_failed(nic, qp);
		return false;
	}
	r->form = form_of(qp, r, form);
	r->state = REQUEST_NEW;
	r->answered = 0;
	req->window[req->tail++ % REQUESTER_WINDOW] = r;
	return true;
}

/* A request that concerns this NIC alone is done at once; no packet is sent. */
static void do_local(struct nic *nic, struct qp *qp, struct request *r)
{
	uint8_t syndrome;

	if (r->wqe.opcode == MOOR_WQE_BIND_MW)
		syndrome = mw_bind(nic, &qp->actor, &r->wqe.bind);
	else if (r->wqe.opcode == MOOR_WQE_REG_MR)
		syndrome = mr_fast_register(nic, &qp->actor, &r->wqe.reg);
	else
		syndrome = mr_invalidate(nic, &qp->actor, r->wqe.inv_key);
	qp->req.next++;
	if (syndrome)
		requester_fail(qp, r, MOOR_WC_MW_BIND_ERR, syndrome);
	else
		r->state = REQUEST_DONE;
	requester_retire(nic, qp);
}

static uint8_t data_opcode(uint8_t wqe_opcode, bool first, bool last)
{
	/* First, middle, last, the only one. */
	static const uint8_t opcodes[][4] = {
		[MOOR_WQE_SEND] = { PACKET_SEND_FIRST, PACKET_SEND_MIDDLE,
				    PACKET_SEND_LAST, PACKET_SEND_ONLY },
		[MOOR_WQE_SEND_IMM] = { PACKET_SEND_FIRST, PACKET_SEND_MIDDLE,
					PACKET_SEND_LAST_IMM,
					PACKET_SEND_ONLY_IMM },
		[MOOR_WQE_SEND_INV] = { PACKET_SEND_FIRST, PACKET_SEND_MIDDLE,
					PACKET_SEND_LAST_INV,
					PACKET_SEND_ONLY_INV },
		[MOOR_WQE_WRITE] = { PACKET_WRITE_FIRST, PACKET_WRITE_MIDDLE,
				     PACKET_WRITE_LAST, PACKET_WRITE_ONLY },
		[MOOR_WQE_WRITE_IMM] = { PACKET_WRITE_FIRST,
					 PACKET_WRITE_MIDDLE,
					 PACKET_WRITE_LAST_IMM,
					 PACKET_WRITE_ONLY_IMM },
	};

	return opcodes[wqe_opcode][last ? (first ? 3 : 2) : (first ? 0 : 1)];
}

/* The packet of a SEND or WRITE from byte @offset on. */
static void fill_data(struct nic *nic, const struct qp *qp, struct request *r,
		      uint32_t offset, struct packet *p)
{
	const struct send_wqe *wqe = &r->wqe;
	uint32_t mtu = mtu_of(r->path_mtu);
	uint32_t psn = (r->psn + offset / mtu) & PSN_MASK;
	uint32_t own = half_unit(&qp->req.half, psn, port_unit(nic, mtu), mtu);
	uint32_t unit = half_unit(&qp->req.peer_half, psn, own, mtu);
	uint32_t left = wqe->length - offset;
	bool last = left <= unit;

	p->opcode |= data_opcode(wqe->opcode, !offset, last);
	p->psn = psn;
	p->solicited = last && (wqe->flags & MOOR_WQE_FLAG_SOLICITED);
	p->addr = wqe->remote_addr;
	p->rkey = wqe->rkey;
	p->dma_length = wqe->length;
	if (wqe->opcode == MOOR_WQE_SEND_INV)
		p->inv_key = wqe->inv_key;
	else
		p->imm = wqe->imm;
	p->length = last ? left : unit;
	p->num_psn = packets_of(r->path_mtu, p->length);
	p->ack_request = last || -p->psn % ACK_EVERY < p->num_psn;
	p->payload = &r->local;
}

/* A READ or what is left of it, an atomic, ATOMIC_WRITE or FLUSH. */
static void fill_question(struct request *r, struct packet *p)
{
	static const uint8_t opcodes[] = {
		[MOOR_WQE_READ] = PACKET_READ_REQUEST,
		[MOOR_WQE_CMP_SWAP] = PACKET_COMPARE_SWAP,
		[MOOR_WQE_FETCH_ADD] = PACKET_FETCH_ADD,
		[MOOR_WQE_ATOMIC_WRITE] = PACKET_ATOMIC_WRITE,
		[MOOR_WQE_FLUSH] = PACKET_FLUSH,
	};
	const struct send_wqe *wqe = &r->wqe;
	uint32_t answered = r->answered / mtu_of(r->path_mtu);

	p->opcode |= opcodes[wqe->opcode];
	p->psn = (r->psn + answered) & PSN_MASK;
	p->num_psn = r->num_psn - answered;
	p->addr = wqe->remote_addr + r->answered;
	p->rkey = wqe->rkey;
	p->dma_length = wqe->length - r->answered;
	p->swap_add = wqe->swap_add;
	p->compare = wqe->compare;
	if (wqe->opcode == MOOR_WQE_ATOMIC_WRITE) {
		p->payload = &r->local;
		p->length = wqe->length;
	} else if (wqe->opcode == MOOR_WQE_FLUSH) {
		p->flush_type = wqe->flush_type;
		p->flush_level = wqe->flush_level;
		p->dma_length = wqe->flush_length;
	}
}

/* How far the requester has sent. */
struct cursor {
	uint32_t next, offset, sent_psn;
};

/*
 * A packet was not sent, since a page is missing at the requester or the responder.
 * It goes when the page is there; if an answer has sent the requester back further,
 * the cursor stays there.
 */
static void take_back(struct requester *req, const struct request *r,
		      const struct cursor *was)
{
	int32_t behind = (int32_t)(req->next - was->next);

	req->sent_psn = was->sent_psn;
	if (behind < 0 || (!behind && req->offset < was->offset))
		return;
	req->next = was->next;
	req->offset = was->offset;
	if (request_is_one_of(r, WQE_ASKS) && req->num_reads)
		req->num_reads--;
}

/* What a packet costs of the quantum; a READ as its answer, which may come at once. */
static uint32_t cost(const struct request *r, const struct packet *p)
{
	return r->wqe.opcode == MOOR_WQE_READ ? p->dma_length : p->length;
}

/* Return: true when packet @psn is only to be sent later, which is no failure. */
static bool stays(struct nic *nic, struct qp *qp, struct request *r, uint32_t psn,
		  const struct cursor *was, uint8_t *syndrome)
{
	if (*syndrome == PORT_KEPT)
		qp->req.held = true;
	else if (!requester_waits(nic, qp, psn, &r->local, syndrome))
		return false;
	take_back(&qp->req, r, was);
	return true;
}

/*
 * The cursor moves before the packet goes: its answer may have been taken, and
 * the request be gone, when port_send() returns. @granted: what the packet
 * touches has been checked just now.
 */
static void send_packet(struct nic *nic, struct qp *qp, struct request *r,
			bool granted, uint32_t *budget)
{
	bool asks = request_is_one_of(r, WQE_ASKS), last;
	struct requester *req = &qp->req;
	const struct cursor was = { req->next, req->offset, req->sent_psn };
	uint32_t psn, num_psn, end;
	struct packet p;
	uint8_t syndrome;

	packet_init(&p, nic, qp, qp->transport->packets, 0);
	p.srqn = r->wqe.srqn;
	if (!granted && !request_is_one_of(r, WQE_ASKS_DATA))
		stream_seek(&r->local, req->offset);
	if (asks) {
		fill_question(r, &p);
		req->num_reads++;
		/* The NIC may have to wait for a disk: one such FLUSH in a quantum. */
		if (r->wqe.opcode == MOOR_WQE_FLUSH &&
		    (r->wqe.flush_type & MOOR_FLUSH_PERSISTENT))
			*budget = 0;
	} else {
		fill_data(nic, qp, r, req->offset, &p);
		if (qp->datagrams)
			ud_address(nic, qp, r, &p, budget);
	}
	last = packet_form(&p)->last;
	req->offset += p.length;
	if (last) {
		req->next++;
		req->offset = 0;
	}
	psn = p.psn;
	num_psn = p.num_psn;
	end = (psn + num_psn) & PSN_MASK;
	if (psn_diff(end, req->sent_psn) > 0)
		req->sent_psn = end;
	else
		nic->wire->traffic.sent_again++;
	*budget -= cost(r, &p) < *budget ? cost(r, &p) : *budget;

	req->granted = granted ? r : NULL;
	syndrome = port_send(nic, &p);
	req->granted = NULL;
	if (syndrome && stays(nic, qp, r, psn, &was, &syndrome))
		return;
	if (!request_is_one_of(r, WQE_ASKS_DATA))
		requester_moved(req, psn, num_psn);
	if (syndrome)
		requester_fail(qp, r, MOOR_WC_LOC_PROT_ERR, syndrome);
	else if (qp->transport->acknowledged)
		return;
	else if (last)
		r->state = REQUEST_DONE;
	/* Without acknowledgments a packet that has been sent is done with. */
	if (!qp->transport->acknowledged)
		req->acked_psn = req->sent_psn;
	requester_retire(nic, qp);
}

/* Packets under way: the one to be sent counts, and a READ as its answer. */
static bool is_window_full(const struct nic *nic, const struct qp *qp,
			   const struct request *r)
{
	const struct requester *req = &qp->req;
	uint32_t psn = r->psn + req->offset / mtu_of(r->path_mtu);

	/* A READ that goes on where its answer broke off began before @acked_psn. */
	return psn_diff(psn, req->acked_psn) >= (int32_t)nic->wire->port->window ||
	       ((r->psn + r->num_psn - req->acked_psn) & PSN_MASK) >
	       PORT_MAX_WINDOW;
}

/*
 * After a wait the request's memory is checked once more before the responder hears
 * of the message (HWI RC-21). Return: false when the request does not go.
 */
static bool check_again(struct nic *nic, struct qp *qp, struct request *r)
{
	if (qp->req.offset || r->answered)
		return true;
	stream_seek(&r->local, 0);
	return check_memory(nic, qp, r);
}

/*
 * An acknowledgment may come late, when the requester has gone back to what it is for:
 * it goes on behind that (HWI RC-22). Else a page that nothing needs any more could be asked
 * for without end, as no mark of FAILED stays for what is acknowledged.
 */
static void skip_acknowledged(const struct qp *qp, struct requester *req,
			      const struct request *r)
{
	int32_t num_psn = psn_diff(req->acked_psn, r->psn);
	uint32_t offset;

	if (num_psn <= 0 || !qp->transport->acknowledged || request_is_one_of(r, WQE_ASKS))
		return;
	offset = num_psn * mtu_of(r->path_mtu);
	if (req->offset < offset)
		req->offset = offset;
}

static bool passes(const struct requester *req, struct half *half,
		   const struct request *r)
{
	/* It may have come to the responder before, and be acknowledged by now. */
	if (psn_diff(half->psn, req->acked_psn) < 0)
		half->state = HALF_GOES;
	return half->state && psn_diff(r->psn, half->psn) > 0;
}

/*
 * What is behind the packet that waited for a page does not pass it: the page is to be
 * used before another is asked for (HWI ODP-13).
 */
static bool passes_waiter(struct requester *req, const struct request *r)
{
	return passes(req, &req->half, r) || passes(req, &req->peer_half, r);
}

enum requester_step requester_step(struct nic *nic, struct qp *qp,
				   uint32_t *budget)
{
	struct requester *req = &qp->req;
	struct request *r;
	bool is_new;

	if (req->next == req->tail && !fetch_next(nic, qp))
		return REQUESTER_RESTS;
	r = requester_at(req, req->next);
	if (r->state == REQUEST_FAILED)
		return REQUESTER_RESTS;
	if (r->state == REQUEST_DONE) {
		/* The request was to be sent again, and then was acknowledged. */
		req->next++;
		req->offset = 0;
		return REQUESTER_SENT;
	}
	is_new = r->state == REQUEST_NEW;
	if (!is_new)
		skip_acknowledged(qp, req, r);
	if ((!req->offset && !qp->transport->may_begin(qp, r)) ||
	    (is_new && !prepare(qp, r)) || is_window_full(nic, qp, r) ||
	    (requester_waited(req) && passes_waiter(req, r)))
		return REQUESTER_RESTS;
	if (is_new ? !begin(nic, qp, r) :
		     requester_waited(req) && !check_again(nic, qp, r))
		return REQUESTER_RESTS;
	if (request_is_one_of(r, WQE_LOCAL))
		do_local(nic, qp, r);
	else
		send_packet(nic, qp, r, is_new, budget);
	return REQUESTER_SENT;
}
