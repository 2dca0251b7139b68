// SPDX-License-Identifier: GPL-2.0
/*
 * Extended reliable connections (HWI 12.6): domains named by files, SRQs in a domain,
 * data of all kinds over one connection to several SRQs, refusals, and processes that
 * share a target and end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "xrc.h"

#define SIZE	XRC_SIZE
#define DEPTH	XRC_DEPTH
#define FILE_NAME "/tmp/xrc-domain"
#define OPS	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | \
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_BIND_MW)

static enum ibv_wc_status send_to(struct xrc *x, uint32_t number)
{
	return xrc_ask(x, number, IBV_WR_SEND, 0, 0, SIZE);
}

/* Does receive @n of the inbox hold the message of seed @n? */
static bool came(struct xrc *x, struct inbox *in, uint32_t n)
{
	struct ibv_wc wc;

	return wait_wc(in->cq, &wc) && wc.status == IBV_WC_SUCCESS &&
	       wc.wr_id == n && wc.byte_len == SIZE &&
	       wc.qp_num == x->tgt.qp->qp_num && wc.opcode == IBV_WC_RECV &&
	       is_filled(in->buf + n % DEPTH * SIZE, SIZE, n);
}

static void test_domains(struct ibv_context *ctx, const struct ibv_device_attr *attr)
{
	int fd = open(FILE_NAME, O_RDWR | O_CREAT, 0600);
	struct ibv_xrcd *first, *second, *private;

	tap_ok(attr->device_cap_flags & IBV_DEVICE_XRC, "XRC is announced");
	tap_ok(!open_domain(ctx, fd, 0) && errno == EAGAIN,
	       "a domain that nobody has made: %s", strerror(errno));
	first = open_domain(ctx, fd, O_CREAT);
	tap_ok(first, "made");
	second = open_domain(ctx, fd, 0);
	tap_ok(second, "opened once more");
	tap_ok(!open_domain(ctx, fd, O_CREAT | O_EXCL) && errno == EINVAL,
	       "made once more: %s", strerror(errno));
	private = open_domain(ctx, -1, O_CREAT);
	tap_ok(private, "one without a file");
	if (!first || !second || !private)
		tap_bail("no domains");
	tap_is(ibv_close_xrcd(first), 0, "closed");
	tap_is(ibv_close_xrcd(private), 0, "the one without a file");
	tap_is(ibv_close_xrcd(second), 0, "the last");
	tap_ok(!open_domain(ctx, fd, 0) && errno == EAGAIN, "and it is gone");
	close(fd);
}

/*
 * Made as librdmacm does, with a PD; the caller's attributes change on success alone.
 */
static void test_target_with_pd(struct xrc *x)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .pd = x->pd, .xrcd = x->xrcd,
		.cap = { .max_send_wr = 3, .max_recv_wr = 4 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD,
		.srq = x->inbox[0].srq,
	};
	struct ibv_srq_init_attr plain = {
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
	};
	struct ibv_srq *basic = ibv_create_srq(x->pd, &plain);
	struct ibv_qp *qp = ibv_create_qp_ex(x->ctx, &attr);

	tap_ok(qp && qp->pd == x->pd, "a target, and a PD is named");
	tap_ok(!attr.cap.max_send_wr && !attr.cap.max_recv_wr, "it has no queues");
	if (qp)
		tap_is(ibv_destroy_qp(qp), 0, "and goes");
	attr.cap.max_recv_wr = 4;
	attr.srq = basic;
	errno = 0;
	tap_ok(!ibv_create_qp_ex(x->ctx, &attr) && errno == EINVAL,
	       "a target with an SRQ that is none of XRC: %s", strerror(errno));
	tap_ok(attr.comp_mask == (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD) &&
	       attr.cap.max_recv_wr == 4, "what was asked for is as it was");
	ibv_destroy_srq(basic);
}

/* A requester has no receives, so it does not use a CQ given for them. */
static void test_recv_cq(struct xrc *x)
{
	struct ibv_cq *cq = ibv_create_cq(x->ctx, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr ini = {
		.send_cq = x->cq, .recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp(x->pd, &ini);

	if (!cq || !qp)
		tap_bail("no requester: %s", strerror(errno));
	tap_ok(!qp->recv_cq, "a requester has no CQ for receives");
	tap_is(ibv_destroy_cq(cq), 0, "the one that was given goes");
	tap_is(ibv_destroy_qp(qp), 0, "then the requester");
}

static void test_creation(struct xrc *x)
{
	struct ibv_srq_init_attr_ex attr = srq_attr(x->pd, x->xrcd, x->cq);
	struct ibv_qp_init_attr rc = {
		.send_cq = x->cq, .recv_cq = x->cq, .srq = x->inbox[0].srq,
		.cap = { .max_send_wr = 1 }, .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_init_attr ini = {
		.send_cq = x->cq, .cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
	};
	struct ibv_recv_wr *bad_recv, recv = { 0 };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_srq_attr limit;
	struct ibv_qp *qp;

	attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ;
	errno = 0;
	tap_ok(!ibv_create_srq_ex(x->ctx, &attr) && errno == EINVAL,
	       "an XRC SRQ without a CQ: %s", strerror(errno));
	attr = srq_attr(x->pd, x->xrcd, x->cq);
	attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_XRCD;
	errno = 0;
	tap_ok(!ibv_create_srq_ex(x->ctx, &attr) && errno == EINVAL,
	       "without a domain: %s", strerror(errno));
	errno = 0;
	tap_ok(!ibv_create_qp(x->pd, &rc) && errno == EINVAL,
	       "of an RC QP: %s", strerror(errno));
	errno = 0;
	tap_ok(!make_target(x->ctx, NULL) && errno == EINVAL,
	       "a target of no domain: %s", strerror(errno));
	qp = ibv_create_qp(x->pd, &ini);
	tap_ok(qp && !ibv_destroy_qp(qp), "a requester by ibv_create_qp()");
	tap_is(ibv_post_send(x->tgt.qp, &wr, &bad), EINVAL, "a target sends");
	tap_is(ibv_post_recv(x->tgt.qp, &recv, &bad_recv), EINVAL, "or receives");
	tap_is(ibv_post_recv(x->ini.qp, &recv, &bad_recv), EINVAL,
	       "a requester receives");
	tap_is(ibv_destroy_cq(x->inbox[0].cq), EBUSY, "the CQ of an SRQ");
	tap_is(ibv_close_xrcd(x->xrcd), EBUSY, "the domain of an SRQ");
	tap_ok(!ibv_query_srq(x->inbox[0].srq, &limit) && limit.max_wr == DEPTH,
	       "of %u WQEs", limit.max_wr);
	tap_ok(!open_target(x->ctx, x->xrcd, x->ini.qp->qp_num) && errno == EINVAL,
	       "opening what is no target: %s", strerror(errno));
}

/*
 * Goes round the rings of both SRQs many times, so that their slots have to become
 * free.
 */
static void test_sends(struct xrc *x)
{
	uint32_t n, good = 0, next[2] = { 0, 0 };

	for (n = 0; n < 2 * DEPTH; n++)
		if (post_inbox(&x->inbox[n & 1], n / 2))
			tap_bail("cannot post");
	tap_is(post_inbox(&x->inbox[0], 0), ENOMEM, "one receive too many");
	for (n = 0; n < 40; n++) {
		struct inbox *in = &x->inbox[n % 3 == 1];
		uint32_t i = next[n % 3 == 1]++;

		fill(x->buf, SIZE, i);
		good += send_to(x, in->number) == IBV_WC_SUCCESS &&
			came(x, in, i) && !post_inbox(in, i + DEPTH);
	}
	tap_is(good, 40, "messages to two SRQs over one connection");
	/* Leaves the rings empty. */
	for (good = 0, n = 0; n < 2 * DEPTH; n++) {
		struct inbox *in = &x->inbox[n & 1];
		uint32_t i = next[n & 1]++;

		fill(x->buf, SIZE, i);
		good += send_to(x, in->number) == IBV_WC_SUCCESS && came(x, in, i);
	}
	tap_is(good, 2 * DEPTH, "the rest");
}

static void test_remote(struct xrc *x)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct inbox *in = &x->inbox[i];
		uint64_t remote = (uintptr_t)in->buf + 8192;
		uint64_t *word = (uint64_t *)(in->buf + 8192);
		struct ibv_wc wc;

		fill(x->buf, 4096, i + 3);
		tap_is(xrc_ask(x, in->number, IBV_WR_RDMA_WRITE, remote, in->mr->rkey,
			       4096), IBV_WC_SUCCESS, "WRITE, SRQ %u", i);
		tap_ok(is_filled(in->buf + 8192, 4096, i + 3), "its data");
		memset(x->buf, 0, 4096);
		tap_is(xrc_ask(x, in->number, IBV_WR_RDMA_READ, remote, in->mr->rkey,
			       4096), IBV_WC_SUCCESS, "READ");
		tap_ok(is_filled(x->buf, 4096, i + 3), "its data");
		*word = htole64(2);
		tap_is(xrc_ask(x, in->number, IBV_WR_ATOMIC_FETCH_AND_ADD, remote,
			       in->mr->rkey, 8), IBV_WC_SUCCESS, "FETCH_ADD");
		tap_ok(le64toh(*word) == 42 && le64toh(*(uint64_t *)x->buf) == 2,
		       "its data");
		*word = htole64(40);
		tap_is(xrc_ask(x, in->number, IBV_WR_ATOMIC_CMP_AND_SWP, remote,
			       in->mr->rkey, 8), IBV_WC_SUCCESS, "CMP_SWAP");
		tap_ok(le64toh(*word) == 7 && le64toh(*(uint64_t *)x->buf) == 40,
		       "its data");
		if (post_inbox(in, 6))
			tap_bail("cannot post");
		tap_is(xrc_ask(x, in->number, IBV_WR_RDMA_WRITE_WITH_IMM, remote,
			       in->mr->rkey, 8), IBV_WC_SUCCESS, "WRITE_WITH_IMM");
		tap_ok(wait_wc(in->cq, &wc) && wc.status == IBV_WC_SUCCESS &&
		       wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wr_id == 6 &&
		       wc.imm_data == htobe32(99), "its receive");
	}
	tap_ok(ended_with(xrc_ask(x, x->inbox[0].number, IBV_WR_RDMA_WRITE,
				  (uintptr_t)x->inbox[1].buf, x->inbox[1].mr->rkey, 8),
			  IBV_WC_REM_ACCESS_ERR), "WRITE by a key of another PD");
	expect_event(x->ctx, IBV_EVENT_QP_ACCESS_ERR, x->tgt.qp, "its event");
	reconnect(x);
}

/* By ibv_wr_*(): the SRQ's number, then memory or inline data. */
static void test_wr(struct xrc *x)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(x->ini.qp);
	struct inbox *in = &x->inbox[1];
	uint64_t *word = (uint64_t *)(in->buf + 8192);
	struct ibv_wc wc;
	unsigned int i;

	if (post_inbox(in, 1) || post_inbox(in, 2))
		tap_bail("cannot post");
	fill(x->buf, SIZE, 1);
	*word = htole64(5);
	ibv_wr_start(qpx);
	qpx->wr_id = 1;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qpx);
	ibv_wr_set_xrc_srqn(qpx, in->number);
	ibv_wr_set_sge(qpx, x->mr->lkey, (uintptr_t)x->buf, SIZE);
	qpx->wr_id = 2;
	ibv_wr_send(qpx);
	ibv_wr_set_xrc_srqn(qpx, in->number);
	ibv_wr_set_inline_data(qpx, x->buf, 32);
	qpx->wr_id = 3;
	ibv_wr_atomic_fetch_add(qpx, in->mr->rkey, (uintptr_t)word, 4);
	ibv_wr_set_xrc_srqn(qpx, in->number);
	ibv_wr_set_sge(qpx, x->mr->lkey, (uintptr_t)x->buf + 4096, 8);
	tap_is(ibv_wr_complete(qpx), 0, "ibv_wr_*()");
	for (i = 1; i <= 3; i++)
		tap_ok(wait_wc(x->cq, &wc) && wc.status == IBV_WC_SUCCESS &&
		       wc.wr_id == i, "request %u: status %u", i, wc.status);
	tap_ok(came(x, in, 1), "the first's data");
	tap_ok(wait_wc(in->cq, &wc) && wc.byte_len == 32 &&
	       is_filled(in->buf + 2 * SIZE, 32, 1), "the inline data");
	tap_ok(le64toh(*word) == 9 && le64toh(*(uint64_t *)(x->buf + 4096)) == 5,
	       "the atomic's");
}

/* A bind goes to no SRQ; a program that sets a number behind every request may do so here. */
static void test_bind(struct xrc *x)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(x->ini.qp);
	struct ibv_mr *mr = ibv_reg_mr(x->pd, x->buf, SIZE, IBV_ACCESS_LOCAL_WRITE |
				       IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(x->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {
		.mr = mr, .addr = (uintptr_t)x->buf, .length = SIZE,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_wc wc;

	if (!mr || !mw)
		tap_bail("no window: %s", strerror(errno));
	ibv_wr_start(qpx);
	qpx->wr_id = 4;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(qpx, mw, ibv_inc_rkey(mw->rkey), &info);
	ibv_wr_set_xrc_srqn(qpx, x->inbox[1].number);
	tap_is(ibv_wr_complete(qpx), 0, "a bind, and the number of an SRQ");
	tap_ok(wait_wc(x->cq, &wc) && wc.status == IBV_WC_SUCCESS && wc.wr_id == 4,
	       "it is bound: status %u", wc.status);
	tap_is(ibv_dereg_mr(mr), EBUSY, "to that memory");
	tap_is(ibv_dealloc_mw(mw), 0, "the window goes");
	tap_is(ibv_dereg_mr(mr), 0, "then the memory");
}

static void refused(struct xrc *x, uint32_t number, const char *what)
{
	tap_ok(ended_with(send_to(x, number), IBV_WC_REM_INV_REQ_ERR), "%s", what);
	expect_event(x->ctx, IBV_EVENT_QP_REQ_ERR, x->tgt.qp, what);
	tap_is(query_state(&x->tgt), IBV_QPS_ERR, "the target is in ERR");
	tap_ok(no_event(x->ctx), "and nothing else is told");
	reconnect(x);
}

static void test_refusals(struct xrc *x)
{
	struct ibv_xrcd *other = open_domain(x->ctx, -1, O_CREAT);
	struct ibv_srq_init_attr plain = {
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
	};
	struct ibv_srq *basic = ibv_create_srq(x->pd, &plain);
	struct inbox foreign;
	uint32_t number;

	if (!other || !basic || ibv_get_srq_num(basic, &number))
		tap_bail("no other SRQs: %s", strerror(errno));
	open_inbox(&foreign, x->ctx, other, 0);
	if (post_inbox(&foreign, 0))
		tap_bail("cannot post");
	refused(x, x->inbox[0].number ^ 0x800000, "a number that there is not");
	refused(x, foreign.number, "an SRQ of another domain");
	refused(x, number, "an SRQ that is none of XRC");
	close_inbox(&foreign);
	tap_is(ibv_close_xrcd(other), 0, "the other domain");
	ibv_destroy_srq(basic);
	if (impaired())
		return;
	tap_is(send_to(x, x->inbox[0].number), IBV_WC_RNR_RETRY_EXC_ERR,
	       "an SRQ with nothing in it");
	tap_ok(no_event(x->ctx), "which is told to nobody");
	reconnect(x);
}

/* Destroying an SRQ drops its completions from the CQ and does not harm the target. */
static void test_gone(struct xrc *x)
{
	struct inbox brief;

	open_inbox(&brief, x->ctx, x->xrcd, 0);
	if (post_inbox(&brief, 0) || post_inbox(&x->inbox[0], 1))
		tap_bail("cannot post");
	tap_is(send_to(x, brief.number), IBV_WC_SUCCESS, "a message nobody polls");
	tap_is(ibv_destroy_srq(brief.srq), 0, "its SRQ goes");
	fill(x->buf, SIZE, 1);
	tap_is(send_to(x, x->inbox[0].number), IBV_WC_SUCCESS, "another SRQ");
	tap_ok(came(x, &x->inbox[0], 1), "is still there");
	tap_is(ibv_poll_cq(brief.cq, 1, &(struct ibv_wc){}), 0,
	       "the message is not seen");
	brief.srq = NULL;
	if (ibv_destroy_cq(brief.cq) || ibv_dereg_mr(brief.mr) ||
	    ibv_dealloc_pd(brief.pd))
		tap_bail("cannot close");
	free(brief.buf);
	refused(x, brief.number, "the SRQ that has gone");
}

/* On-demand paging: receives and remote ranges wait for their pages. */
static void test_on_demand(struct xrc *x)
{
	struct inbox in;

	open_inbox(&in, x->ctx, x->xrcd, IBV_ACCESS_ON_DEMAND);
	if (post_inbox(&in, 0))
		tap_bail("cannot post");
	fill(x->buf, SIZE, 0);
	tap_is(send_to(x, in.number), IBV_WC_SUCCESS, "a receive on demand");
	tap_ok(came(x, &in, 0), "its data");
	fill(x->buf, 4096, 9);
	tap_is(xrc_ask(x, in.number, IBV_WR_RDMA_WRITE, (uintptr_t)in.buf + 8192,
		       in.mr->rkey, 4096), IBV_WC_SUCCESS, "a WRITE to pages on demand");
	tap_ok(is_filled(in.buf + 8192, 4096, 9), "its data");
	close_inbox(&in);
}

/* ---- processes ---- */

struct child {
	pid_t pid;
	int to, from;
};

static void tell(int fd, uint32_t value)
{
	if (write(fd, &value, sizeof(value)) != sizeof(value))
		_exit(9);
}

static uint32_t hear(int fd)
{
	uint32_t value;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? value : ~0u;
}

/* A process that makes the target of a given requester, and keeps it until its end. */
static void be_maker(int from, int to)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(NULL, &attr);
	struct xrc x = { .ctx = ctx, .pair.ctx = ctx };

	x.pair.config = pair_defaults;
	pair_find_gid(&x.pair);
	x.xrcd = open_domain(ctx, open(FILE_NAME, O_RDWR), 0);
	x.tgt.qp = x.xrcd ? make_target(ctx, x.xrcd) : NULL;
	if (!x.tgt.qp)
		_exit(1);
	tell(to, connect_one(&x, &x.tgt, hear(from), true));
	tell(to, x.tgt.qp->qp_num);
	hear(from);
	_exit(0);
}

/* A process that opens a given target, and reports what arrives at its SRQ. */
static void be_receiver(int from, int to)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(NULL, &attr);
	struct xrc x = { .ctx = ctx };
	uint32_t n;

	x.xrcd = open_domain(ctx, open(FILE_NAME, O_RDWR), 0);
	x.tgt.qp = x.xrcd ? open_target(ctx, x.xrcd, hear(from)) : NULL;
	if (!x.tgt.qp)
		_exit(2);
	open_inbox(&x.inbox[0], ctx, x.xrcd, 0);
	for (n = 0; n < DEPTH; n++)
		post_inbox(&x.inbox[0], n);
	tell(to, x.inbox[0].number);
	for (n = 0; hear(from) != ~0u; n++)
		tell(to, came(&x, &x.inbox[0], n));
	_exit(0);
}

static struct child start(void (*be)(int from, int to))
{
	int down[2], up[2];
	struct child child;

	if (pipe(down) || pipe(up))
		tap_bail("pipe");
	child.pid = fork();
	if (!child.pid) {
		close(down[1]);
		close(up[0]);
		be(down[0], up[1]);
	}
	close(down[0]);
	close(up[1]);
	child.to = down[1];
	child.from = up[0];
	return child;
}

static void end(struct child *child, int signal)
{
	int status;

	if (signal)
		kill(child->pid, signal);
	else
		tell(child->to, ~0u);
	close(child->to);
	close(child->from);
	if (waitpid(child->pid, &status, 0) != child->pid)
		tap_bail("waitpid");
	tap_ok(signal ? WIFSIGNALED(status) : WIFEXITED(status) &&
	       !WEXITSTATUS(status), "it has ended");
}

/* Test points: the requester's next message arrives at the receiver's SRQ. */
static void passes(struct xrc *x, struct child *receiver, uint32_t number,
		   uint32_t n, const char *when)
{
	fill(x->buf, SIZE, n);
	tap_is(send_to(x, number), IBV_WC_SUCCESS, "%s: a message", when);
	tell(receiver->to, n);
	tap_is(hear(receiver->from), 1, "%s: it arrives", when);
}

static void test_processes(struct ibv_context *ctx, int signal)
{
	int fd = open(FILE_NAME, O_RDWR | O_CREAT, 0600);
	struct child maker, receiver;
	uint32_t number, target;
	struct xrc x;

	open_requester(&x, ctx, fd, OPS);
	maker = start(be_maker);
	receiver = start(be_receiver);
	tell(maker.to, x.ini.qp->qp_num);
	tap_is(hear(maker.from), 0, "another process makes the target");
	target = hear(maker.from);
	tell(receiver.to, target);
	number = hear(receiver.from);
	if (connect_one(&x, &x.ini, target, false))
		tap_bail("cannot connect");
	passes(&x, &receiver, number, 0, "all are there");
	x.tgt.qp = open_target(ctx, x.xrcd, target);
	tap_ok(x.tgt.qp, "a third process opens it: %s", strerror(errno));
	end(&maker, signal);
	passes(&x, &receiver, number, 1, "the maker has gone");
	end(&receiver, signal);
	tap_ok(ended_with(send_to(&x, number), IBV_WC_REM_INV_REQ_ERR),
	       "the receiver has gone, too");
	tap_is(query_state(&x.tgt), IBV_QPS_ERR, "the target is there, in ERR");
	/*
	 * Events of a target go to the process that made it, not to those that opened
	 * it.
	 */
	tap_ok(no_event(ctx), "which is told to who has made it");
	tap_is(ibv_close_xrcd(x.xrcd), EBUSY, "it keeps the domain");
	tap_is(ibv_destroy_qp(x.tgt.qp), 0, "the last one closes it");
	tap_ok(!open_target(ctx, x.xrcd, target) && errno == EINVAL,
	       "and it is gone: %s", strerror(errno));
	close_requester(&x);
	close(fd);
}

int main(void)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(NULL, &attr);
	struct xrc x;

	test_domains(ctx, &attr);
	open_requester(&x, ctx, -1, OPS);
	x.tgt.qp = make_target(ctx, x.xrcd);
	if (!x.tgt.qp)
		tap_bail("no target: %s", strerror(errno));
	open_inbox(&x.inbox[0], ctx, x.xrcd, 0);
	open_inbox(&x.inbox[1], ctx, x.xrcd, 0);
	test_creation(&x);
	test_target_with_pd(&x);
	test_recv_cq(&x);
	reconnect(&x);
	test_sends(&x);
	test_remote(&x);
	test_wr(&x);
	test_bind(&x);
	test_refusals(&x);
	test_gone(&x);
	test_on_demand(&x);
	tap_is(ibv_destroy_qp(x.tgt.qp), 0, "the target is destroyed");
	close_inbox(&x.inbox[0]);
	close_inbox(&x.inbox[1]);
	close_requester(&x);
	test_processes(ctx, 0);
	test_processes(ctx, SIGKILL);
	ibv_close_device(ctx);
	unlink(FILE_NAME);
	return tap_done();
}
