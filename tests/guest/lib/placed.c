// SPDX-License-Identifier: GPL-2.0
#include "placed.h"
#include "tap.h"

struct flush flush_range(uint32_t rkey, const void *at, size_t length)
{
	return (struct flush){
		.rkey = rkey, .at = (uintptr_t)at, .length = length,
		.type = IBV_FLUSH_GLOBAL, .level = IBV_FLUSH_RANGE,
	};
}

/* Flushes the whole region; address and length are not looked at. */
struct flush flush_region(uint32_t rkey)
{
	return (struct flush){
		.rkey = rkey, .at = 0x123456789abcdef1, .length = SIZE_MAX,
		.type = IBV_FLUSH_GLOBAL, .level = IBV_FLUSH_MR,
	};
}

static struct ibv_qp_ex *begin(struct side *side)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->qp);

	ibv_wr_start(qp);
	qp->wr_id = PLACED_WR_ID;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

int post_flush(struct side *side, const struct flush *flush)
{
	struct ibv_qp_ex *qp = begin(side);

	ibv_wr_flush(qp, flush->rkey, flush->at, flush->length, flush->type,
		     flush->level);
	return ibv_wr_complete(qp);
}

int post_atomic_write(struct side *side, uint32_t rkey, uint64_t at, const void *data)
{
	struct ibv_qp_ex *qp = begin(side);

	ibv_wr_atomic_write(qp, rkey, at, data);
	return ibv_wr_complete(qp);
}

static void expect_end(struct outcome o, enum ibv_wc_opcode opcode, const char *what)
{
	tap_ok(is(o, IBV_WC_SUCCESS) && o.opcode == opcode, "%s", what);
}

void expect_flushed(struct pair *p, struct flush f, const char *what)
{
	expect_end(finish(&p->a, post_flush(&p->a, &f)), IBV_WC_FLUSH, what);
}

void expect_placed(struct pair *p, uint32_t rkey, uint64_t at, const void *data,
		   const char *what)
{
	expect_end(finish(&p->a, post_atomic_write(&p->a, rkey, at, data)),
		   IBV_WC_ATOMIC_WRITE, what);
}

void fill_sides(struct pair *p)
{
	fill(p->a.buf, p->config.buffer_size, 1);
	fill(p->b.buf, p->config.buffer_size, 2);
}

void expect_refusal(struct pair *p, int posted, enum ibv_wc_status due,
		    const char *what)
{
	bool told = due == IBV_WC_REM_ACCESS_ERR || due == IBV_WC_REM_INV_REQ_ERR;
	struct outcome o = finish(&p->a, posted);

	tap_ok(is(o, due), "%s: %s", what, ibv_wc_status_str(due));
	tap_is(query_state(&p->a), IBV_QPS_ERR, "%s: the requester is in ERR", what);
	tap_is(query_state(&p->b), told ? IBV_QPS_ERR : IBV_QPS_RTS,
	       "%s: the responder's state", what);
	if (told)
		expect_event(p->ctx, due == IBV_WC_REM_ACCESS_ERR ?
			     IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR,
			     p->b.qp, "event at the responder");
	else
		tap_ok(no_event(p->ctx), "%s: no event", what);
	tap_ok(is_filled(p->a.buf, p->config.buffer_size, 1) &&
	       is_filled(p->b.buf, p->config.buffer_size, 2),
	       "%s: memory untouched", what);
	revive(p);
}
