// SPDX-License-Identifier: GPL-2.0
/*
 * What becomes of requests, whoever sends them: they come from a pool, and end in the order
 * in which their WQEs were posted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rules.h"
#include "transport/complete.h"
#include "transport/requester.h"
#include "transport/transport.h"

bool requester_init(struct nic *nic)
{
	struct request_pool *pool = nic->requests;

	pool->memory = calloc(NIC_NUM_REQUESTS, sizeof(*pool->memory));
	return pool->memory;
}

void requester_exit(struct nic *nic)
{
	free(nic->requests->memory);
}

struct request *request_get(struct nic *nic, struct requester *req)
{
	struct request *r = nic->requests->unused;

	if (!req->own_taken) {
		req->own_taken = true;
		return req->own;
	}
	if (r)
		nic->requests->unused = r->next;
	else if (nic->requests->made < NIC_NUM_REQUESTS)
		r = &nic->requests->memory[nic->requests->made++];
	return r;
}

void request_put(struct nic *nic, struct requester *req, struct request *r)
{
	if (r == req->own) {
		req->own_taken = false;
		return;
	}
	r->next = nic->requests->unused;
	nic->requests->unused = r;
}

void requester_fail(struct qp *qp, struct request *r, uint8_t status,
		    uint8_t syndrome)
{
	log_refused(work_rule(r->wqe.opcode, status, syndrome),
		    "QP 0x%06x WQE %u opcode 0x%02x: status %u (%s)",
		    qp->qpn, r->wqe.index, r->wqe.opcode, status,
		    syndrome_name(syndrome));
	r->state = REQUEST_FAILED;
	r->status = status;
	r->syndrome = syndrome;
	qp->req.stopped = true;
}

/* Takes the oldest request out of the window. */
static struct request *take_oldest(struct requester *req)
{
	struct request *r = requester_at(req, req->head++);

	if (req->next + 1 == req->head) {
		req->next = req->head;
		req->offset = 0;
	}
	if (req->open + 1 == req->head)
		req->open = req->head;
	return r;
}

static void end_request(struct nic *nic, struct qp *qp, uint8_t status)
{
	struct request *r = take_oldest(&qp->req);

	if (status || (r->wqe.flags & MOOR_WQE_FLAG_SIGNALED))
		complete_send(nic, qp, &r->wqe, status, r->syndrome);
	request_put(nic, &qp->req, r);
}

void requester_retire(struct nic *nic, struct qp *qp)
{
	struct requester *req = &qp->req;

	while (requester_is_busy(req) && qp->state != MOOR_QPS_ERR) {
		struct request *r = requester_at(req, req->head);

		if (r->state == REQUEST_OPEN)
			return;
		if (r->state == REQUEST_FAILED) {
			end_request(nic, qp, r->status);
			if (qp->datagrams)
				qp_send_error(nic, qp);
			else
				qp_error(nic, qp);
			return;
		}
		end_request(nic, qp, MOOR_WC_SUCCESS);
	}
	if (qp->draining && !requester_is_busy(req))
		qp_drained(nic, qp);
}

bool requester_flush_one(struct nic *nic, struct qp *qp)
{
	struct requester *req = &qp->req;
	struct request *r;

	if (requester_idle(req)) {
		if (queue_look(&qp->sq) != QUEUE_WORK)
			return false;
		/* With nothing in the window the QP's own request is free. */
		r = req->own;
		if (wqe_fetch_send(nic, qp, &r->wqe) == WQE_UNREACHABLE)
			return false;
		req->own_taken = true;
		req->window[req->tail++ % REQUESTER_WINDOW] = r;
	}
	requester_at(req, req->head)->syndrome = MOOR_SYN_NONE;
	end_request(nic, qp, MOOR_WC_WR_FLUSH_ERR);
	return true;
}

void requester_reset(struct nic *nic, struct qp *qp)
{
	struct requester *req = &qp->req;
	struct request *own;

	while (!requester_idle(req))
		request_put(nic, req, take_oldest(req));
	own = req->own;
	memset(req, 0, sizeof(*req));
	req->own = own;
}
