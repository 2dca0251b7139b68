// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>

#include "tap.h"
#include "window.h"

static int post_one(struct side *side, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad_wr;

	wr->wr_id = WINDOW_WR_ID;
	wr->send_flags = IBV_SEND_SIGNALED;
	return ibv_post_send(side->qp, wr, &bad_wr);
}

/*
 * After posting a bind, a program notes the new key: only the low byte is its own to
 * choose.
 */
static int note_key(int err, struct ibv_mw *mw, uint32_t new_key)
{
	if (!err)
		mw->rkey = (mw->rkey & ~0xffu) | (new_key & 0xff);
	return err;
}

static int verbs_bind(struct side *side, struct ibv_mw *mw, uint32_t new_key,
		      const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = mw, .rkey = new_key, .bind_info = *info },
	};
	struct ibv_mw_bind bind = {
		.wr_id = WINDOW_WR_ID, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = *info,
	};

	/*
	 * For type 1, ibv_bind_mw() chooses the next key; use it if that is the one
	 * asked for.
	 */
	if (mw->type == IBV_MW_TYPE_1 && new_key == ibv_inc_rkey(mw->rkey))
		return ibv_bind_mw(side->qp, mw, &bind);
	return note_key(post_one(side, &wr), mw, new_key);
}

static int verbs_local_inv(struct side *side, uint32_t key)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key,
	};

	return post_one(side, &wr);
}

static int verbs_send_inv(struct side *side, uint32_t key, void *data,
			  uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)data, .length = length,
		.lkey = side->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = key,
		.sg_list = &sge, .num_sge = 1,
	};

	return post_one(side, &wr);
}

static struct ibv_qp_ex *wr_begin(struct side *side)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->qp);

	ibv_wr_start(qp);
	qp->wr_id = WINDOW_WR_ID;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

static int wr_bind(struct side *side, struct ibv_mw *mw, uint32_t new_key,
		   const struct ibv_mw_bind_info *info)
{
	struct ibv_qp_ex *qp = wr_begin(side);

	ibv_wr_bind_mw(qp, mw, new_key, info);
	return note_key(ibv_wr_complete(qp), mw, new_key);
}

static int wr_local_inv(struct side *side, uint32_t key)
{
	struct ibv_qp_ex *qp = wr_begin(side);

	ibv_wr_local_inv(qp, key);
	return ibv_wr_complete(qp);
}

static int wr_send_inv(struct side *side, uint32_t key, void *data,
		       uint32_t length)
{
	struct ibv_qp_ex *qp = wr_begin(side);

	ibv_wr_send_inv(qp, key);
	ibv_wr_set_sge(qp, side->mr->lkey, (uintptr_t)data, length);
	return ibv_wr_complete(qp);
}

const struct api apis[2] = {
	{ "ibv_post_send", verbs_bind, verbs_local_inv, verbs_send_inv },
	{ "ibv_wr", wr_bind, wr_local_inv, wr_send_inv },
};

struct outcome finish(struct side *side, int posted)
{
	struct outcome outcome = { .posted = posted };
	struct ibv_wc wc;

	if (posted)
		return outcome;
	if (!wait_wc(side->send_cq, &wc)) {
		outcome.posted = ETIMEDOUT;
		return outcome;
	}
	outcome.status = wc.status;
	outcome.syndrome = wc.vendor_err;
	if (!wc.status)
		outcome.opcode = wc.opcode;
	return outcome;
}

bool is(struct outcome o, enum ibv_wc_status status)
{
	if (!o.posted && ended_with(o.status, status))
		return true;
	tap_diag("errno %d, %s (syndrome %u), wanted %s", o.posted,
		 ibv_wc_status_str(o.status), o.syndrome,
		 ibv_wc_status_str(status));
	return false;
}

struct outcome bind_window(const struct api *api, struct side *side,
			   struct ibv_mw *mw, uint32_t new_key,
			   struct ibv_mr *mr, uint64_t addr, uint64_t length,
			   unsigned int access)
{
	struct ibv_mw_bind_info info = {
		.mr = mr, .addr = addr, .length = length,
		.mw_access_flags = access,
	};

	return finish(side, api->bind(side, mw, new_key, &info));
}

void must_bind(const struct api *api, struct side *side, struct ibv_mw *mw,
	       struct ibv_mr *mr, uint64_t addr, uint64_t length,
	       unsigned int access)
{
	struct outcome o = bind_window(api, side, mw, ibv_inc_rkey(mw->rkey),
				       mr, addr, length, access);

	if (o.posted || o.status)
		tap_bail("cannot bind a window: errno %d, %s (syndrome %u)",
			 o.posted, ibv_wc_status_str(o.status), o.syndrome);
}

struct outcome invalidate(const struct api *api, struct side *side,
			  uint32_t key)
{
	return finish(side, api->local_inv(side, key));
}

struct outcome ask(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t rkey,
		   uint64_t remote, uint32_t length)
{
	struct request request = {
		.opcode = opcode, .wr_id = 1, .local = pair->a.buf,
		.length = length, .lkey = pair->a.mr->lkey,
		.remote = remote, .rkey = rkey,
		.compare_add = 1, .swap = 2,
	};

	return finish(&pair->a, post(&pair->a, &request));
}

void revive(struct pair *pair)
{
	struct ibv_async_event event;
	struct ibv_wc wc;

	pair_reset(pair);
	while (ibv_poll_cq(pair->a.send_cq, 1, &wc) > 0 ||
	       ibv_poll_cq(pair->b.send_cq, 1, &wc) > 0)
		;
	while (!no_event(pair->ctx)) {
		if (ibv_get_async_event(pair->ctx, &event))
			tap_bail("ibv_get_async_event");
		ibv_ack_async_event(&event);
	}
}

struct ibv_mw *must_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, type);

	if (!mw)
		tap_bail("ibv_alloc_mw: %s", strerror(errno));
	return mw;
}

struct ibv_mr *must_reg(struct ibv_pd *pd, void *addr, size_t length,
			unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, addr, length, access);

	if (!mr)
		tap_bail("ibv_reg_mr: %s", strerror(errno));
	return mr;
}
