// SPDX-License-Identifier: GPL-2.0
/*
 * ATOMIC_WRITE and FLUSH over an extended reliable connection (HWI 12.6, 12.7): their
 * headers follow the SRQ's number, and the SRQ's PD decides.
 */
#include <errno.h>
#include <string.h>

#include "placed.h"
#include "tap.h"
#include "xrc.h"

#define PLACE	8192u

static struct xrc x;

static uint64_t place(const struct inbox *in)
{
	return (uintptr_t)in->buf + PLACE;
}

static struct ibv_qp_ex *begin(void)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(x.ini.qp);

	ibv_wr_start(qp);
	qp->wr_id = PLACED_WR_ID;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

static enum ibv_wc_status end(struct ibv_qp_ex *qp, enum ibv_wc_opcode due)
{
	struct ibv_wc wc;
	int err = ibv_wr_complete(qp);

	if (err || !wait_wc(x.cq, &wc))
		tap_bail("a request does not complete (errno %d)", err);
	if (!wc.status)
		tap_is(wc.opcode, due, "opcode of its completion");
	return wc.status;
}

static enum ibv_wc_status atomic_write(const struct inbox *in, uint32_t rkey,
				       const void *data)
{
	struct ibv_qp_ex *qp = begin();

	ibv_wr_atomic_write(qp, rkey, place(in), data);
	ibv_wr_set_xrc_srqn(qp, in->number);
	return end(qp, IBV_WC_ATOMIC_WRITE);
}

static enum ibv_wc_status flush(const struct inbox *in, struct flush f)
{
	struct ibv_qp_ex *qp = begin();

	ibv_wr_flush(qp, f.rkey, f.at, f.length, f.type, f.level);
	ibv_wr_set_xrc_srqn(qp, in->number);
	return end(qp, IBV_WC_FLUSH);
}

static void test_atomic_write(struct inbox *in)
{
	uint8_t data[8] = "over XRC";

	memset(in->buf, 0, XRC_BUF);
	tap_is(atomic_write(in, in->mr->rkey, data), IBV_WC_SUCCESS, "ATOMIC_WRITE");
	tap_ok(!memcmp(in->buf + PLACE, data, 8) && !in->buf[PLACE - 1] &&
	       !in->buf[PLACE + 8], "its data");
	fill(x.buf, 8, 9);
	tap_is(xrc_ask(&x, in->number, IBV_WR_ATOMIC_WRITE, place(in), in->mr->rkey, 8),
	       IBV_WC_SUCCESS, "the same by ibv_post_send()");
	tap_ok(is_filled(in->buf + PLACE, 8, 9), "its data");
}

static void test_flush(struct inbox *in, struct ibv_mr *mr)
{
	fill(x.buf, XRC_SIZE, 7);
	tap_is(xrc_ask(&x, in->number, IBV_WR_RDMA_WRITE, place(in), mr->rkey, XRC_SIZE),
	       IBV_WC_SUCCESS, "WRITE");
	tap_is(flush(in, flush_range(mr->rkey, in->buf + PLACE, XRC_SIZE)),
	       IBV_WC_SUCCESS, "FLUSH of the range");
	tap_is(flush(in, flush_region(mr->rkey)), IBV_WC_SUCCESS, "FLUSH of the region");
	tap_ok(is_filled(in->buf + PLACE, XRC_SIZE, 7), "the data is there");
}

static void refused(enum ibv_wc_status status, enum ibv_wc_status due, const char *what)
{
	enum ibv_event_type event = due == IBV_WC_REM_ACCESS_ERR ?
				    IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;

	if (!tap_ok(ended_with(status, due), "%s", what))
		tap_diag("%s", ibv_wc_status_str(status));
	expect_event(x.ctx, event, x.tgt.qp, "its event");
	reconnect(&x);
}

/* The MRs of the two inboxes belong to two PDs. */
static void test_refused(struct ibv_mr *mr)
{
	struct inbox *in = &x.inbox[0], *other = &x.inbox[1], none = *in;
	uint8_t data[8] = "refused ";

	memset(in->buf, 0, XRC_BUF);
	refused(atomic_write(other, in->mr->rkey, data), IBV_WC_REM_ACCESS_ERR,
		"ATOMIC_WRITE for the SRQ of another PD");
	refused(flush(other, flush_range(mr->rkey, in->buf, 8)), IBV_WC_REM_ACCESS_ERR,
		"FLUSH for the SRQ of another PD");
	refused(flush(in, flush_range(in->mr->rkey, in->buf, 8)), IBV_WC_REM_ACCESS_ERR,
		"FLUSH of what may not be flushed");
	none.number ^= 0x800000;
	refused(atomic_write(&none, in->mr->rkey, data), IBV_WC_REM_INV_REQ_ERR,
		"ATOMIC_WRITE for no SRQ");
	refused(flush(&none, flush_region(mr->rkey)), IBV_WC_REM_INV_REQ_ERR,
		"FLUSH for no SRQ");
	x.pair.config.qp_access = ALL_ACCESS;
	reconnect(&x);
	refused(flush(in, flush_region(mr->rkey)), IBV_WC_REM_ACCESS_ERR,
		"FLUSH by a target without the right");
	tap_ok(!in->buf[PLACE] && !in->buf[PLACE + 7], "nothing was written");
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);
	struct ibv_mr *mr[2];
	int i;

	open_requester(&x, ctx, -1, PLACED_OPS & ~WINDOW_OPS);
	x.pair.config.qp_access = FLUSHABLE;
	x.tgt.qp = make_target(ctx, x.xrcd);
	if (!x.tgt.qp)
		tap_bail("no target: %s", strerror(errno));
	for (i = 0; i < 2; i++) {
		open_inbox(&x.inbox[i], ctx, x.xrcd, 0);
		mr[i] = must_reg(x.inbox[i].pd, x.inbox[i].buf, XRC_BUF, FLUSHABLE);
	}
	reconnect(&x);
	for (i = 0; i < 2; i++) {
		tap_diag("SRQ %d", i);
		test_atomic_write(&x.inbox[i]);
		test_flush(&x.inbox[i], mr[i]);
	}
	test_refused(mr[0]);
	tap_is(ibv_destroy_qp(x.tgt.qp), 0, "the target is destroyed");
	for (i = 0; i < 2; i++) {
		ibv_dereg_mr(mr[i]);
		close_inbox(&x.inbox[i]);
	}
	close_requester(&x);
	ibv_close_device(ctx);
	return tap_done();
}
