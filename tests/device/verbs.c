// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: verbs
 *
 * Reads words from standard input, one a line, calls the verb of that name and prints
 * the result: 0 or an errno. For tests that break the device in between. The words are
 * in the table at the end; "reg 100" makes up to a hundred calls.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pair.h"
#include "tap.h"
#include "words.h"

#define MAX_MR		256
#define LENGTH		(64 * 1024u)
#define EVENT_MS	20000

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr[MAX_MR];
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mw *mw;
static struct ibv_pd *second_pd;
static struct ibv_ah *ah;
static struct ibv_dm *dm;
static struct ibv_mr *dm_mr;
static struct ibv_context *second;
static uint8_t *buf;
static int mrs;

/* Stores a new object in @place, unless making it failed. */
#define keep(place, object) ({						\
	__typeof__(object) object_ = (object);				\
	object_ ? (*(place) = object_, 0) : errno; })

static int do_reg(void)
{
	if (mrs == MAX_MR)
		return ENOSPC;
	mr[mrs] = ibv_reg_mr(pd, buf + mrs * LENGTH, LENGTH,
			     ALL_ACCESS | IBV_ACCESS_MW_BIND);
	return mr[mrs] ? (mrs++, 0) : errno;
}

static int do_rereg(void)
{
	return ibv_rereg_mr(mr[mrs - 1], IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			    buf, LENGTH, 0) ? errno : 0;
}

static int do_dereg(void)
{
	int err = ibv_dereg_mr(mr[mrs - 1]);

	mrs -= !err;
	return err;
}

static int do_cq(void)
{
	return keep(&cq, ibv_create_cq(ctx, 64, NULL, channel, 0));
}

static int do_resize_cq(void)
{
	return ibv_resize_cq(cq, 128);
}

static int do_resize_back(void)
{
	return ibv_resize_cq(cq, 64);
}

static int do_modify_cq(void)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = 4, .cq_period = 100 },
	};

	return ibv_modify_cq(cq, &attr);
}

static int do_destroy_cq(void)
{
	return ibv_destroy_cq(cq);
}

static int make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return keep(&qp, ibv_create_qp(pd, &attr));
}

static int do_qp(void)
{
	return make_qp(IBV_QPT_RC);
}

static int do_ud(void)
{
	return make_qp(IBV_QPT_UD);
}

static const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };

static int do_join(void)
{
	return ibv_attach_mcast(qp, &group, 0);
}

static int do_leave(void)
{
	return ibv_detach_mcast(qp, &group, 0);
}

static int do_init_qp(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = ALL_ACCESS,
	};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			     IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int do_reset_qp(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static int do_query_qp(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
}

static int do_destroy_qp(void)
{
	return ibv_destroy_qp(qp);
}

static int do_mw(void)
{
	return keep(&mw, ibv_alloc_mw(pd, IBV_MW_TYPE_2));
}

static int do_dealloc_mw(void)
{
	return ibv_dealloc_mw(mw);
}

static int do_pd(void)
{
	return keep(&second_pd, ibv_alloc_pd(ctx));
}

static int do_dealloc_pd(void)
{
	return ibv_dealloc_pd(second_pd);
}

/* An address handle of this port itself. */
static int do_ah(void)
{
	struct ibv_ah_attr attr = {
		.grh = { .hop_limit = 1 }, .is_global = 1, .port_num = 1,
	};

	return ibv_query_gid(ctx, 1, 0, &attr.grh.dgid) ? errno :
	       keep(&ah, ibv_create_ah(pd, &attr));
}

static int do_destroy_ah(void)
{
	return ibv_destroy_ah(ah);
}

static int do_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };

	return keep(&dm, ibv_alloc_dm(ctx, &attr));
}

static int do_free_dm(void)
{
	return ibv_free_dm(dm);
}

static int do_reg_dm(void)
{
	return keep(&dm_mr, ibv_reg_dm_mr(pd, dm, 0, 4096,
					  ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
}

static int do_dereg_dm(void)
{
	return ibv_dereg_mr(dm_mr);
}

static int do_open(void)
{
	return keep(&second, ibv_open_device(ctx->device));
}

static int do_shut(void)
{
	return ibv_close_device(second);
}

/* A receive that is flushed completes in error: that gives a CQ event. */
static int do_complete(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buf, .length = 1 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int err;

	sge.lkey = mr[0]->lkey;
	err = ibv_req_notify_cq(cq, 0);
	if (!err)
		err = ibv_post_recv(qp, &wr, &bad);
	return err ? err : ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/* Returns 0 if a CQ event comes in time, EAGAIN if none does. */
static int look_for_cq_event(int timeout)
{
	struct pollfd pfd = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *which;
	void *context;

	if (poll(&pfd, 1, timeout) <= 0)
		return EAGAIN;
	if (ibv_get_cq_event(channel, &which, &context))
		return errno;
	ibv_ack_cq_events(which, 1);
	return 0;
}

static int do_cq_event(void)
{
	return look_for_cq_event(EVENT_MS);
}

static int do_no_cq_event(void)
{
	return look_for_cq_event(500) == EAGAIN ? 0 : EEXIST;
}

/* Waits for an asynchronous event of this type; drops others. */
static int wait_for_event(enum ibv_event_type type)
{
	struct pollfd pfd = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	do {
		if (poll(&pfd, 1, EVENT_MS) <= 0)
			return EAGAIN;
		if (ibv_get_async_event(ctx, &event))
			return errno;
		ibv_ack_async_event(&event);
	} while (event.event_type != type);
	return 0;
}

static int do_fatal_event(void)
{
	return wait_for_event(IBV_EVENT_DEVICE_FATAL);
}

static int do_port_active_event(void)
{
	return wait_for_event(IBV_EVENT_PORT_ACTIVE);
}

static int do_port_err_event(void)
{
	return wait_for_event(IBV_EVENT_PORT_ERR);
}

static int do_port_state(void)
{
	struct ibv_port_attr attr;
	int err = ibv_query_port(ctx, 1, &attr);

	return err ? err : (int)attr.state;
}

static int do_clock(void)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	return ibv_query_rt_values_ex(ctx, &values);
}

static int do_query_device(void)
{
	struct ibv_device_attr attr;

	return ibv_query_device(ctx, &attr);
}

static int do_close(void)
{
	return ibv_close_device(ctx);
}

static const struct word calls[] = {
	{ "reg", do_reg }, { "rereg", do_rereg }, { "dereg", do_dereg },
	{ "cq", do_cq }, { "resize_cq", do_resize_cq },
	{ "resize_back", do_resize_back }, { "modify_cq", do_modify_cq },
	{ "destroy_cq", do_destroy_cq },
	{ "qp", do_qp }, { "init_qp", do_init_qp }, { "reset_qp", do_reset_qp },
	{ "query_qp", do_query_qp }, { "destroy_qp", do_destroy_qp },
	{ "ud", do_ud }, { "join", do_join }, { "leave", do_leave },
	{ "mw", do_mw }, { "dealloc_mw", do_dealloc_mw },
	{ "pd", do_pd }, { "dealloc_pd", do_dealloc_pd },
	{ "ah", do_ah }, { "destroy_ah", do_destroy_ah },
	{ "dm", do_dm }, { "free_dm", do_free_dm },
	{ "reg_dm", do_reg_dm }, { "dereg_dm", do_dereg_dm },
	{ "open", do_open }, { "shut", do_shut },
	{ "complete", do_complete }, { "cq_event", do_cq_event },
	{ "no_cq_event", do_no_cq_event }, { "fatal_event", do_fatal_event },
	{ "port_active_event", do_port_active_event },
	{ "port_err_event", do_port_err_event },
	{ "port_state", do_port_state }, { "clock", do_clock },
	{ "query_device", do_query_device }, { "close", do_close },
};

int main(void)
{
	struct ibv_device_attr attr;

	ctx = open_nic(NULL, &attr);
	pd = ibv_alloc_pd(ctx);
	channel = ibv_create_comp_channel(ctx);
	buf = mmap(NULL, MAX_MR * (size_t)LENGTH, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!pd || !channel || buf == MAP_FAILED)
		tap_bail("set-up: %s", strerror(errno));
	words_follow(calls, sizeof(calls) / sizeof(calls[0]));
	return 0;
}
