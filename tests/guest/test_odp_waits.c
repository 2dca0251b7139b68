// SPDX-License-Identifier: GPL-2.0
/* timeout: 180
 *
 * A page that does not come, because its page server takes its time: the request that
 * touches it waits, and no other. Meanwhile the MR or QP that it uses, or its process,
 * may go.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "counts.h"
#include "message.h"
#include "paged.h"
#include "tap.h"
#include "window.h"

#define SIZE	(4 * PAGE)
#define LENGTH	(3 * PAGE)

static struct ibv_context *ctx;
static struct ibv_pd *pd;

/*
 * Two QPs, memory that is present, and memory of a page server that does not serve yet.
 */
struct scene {
	struct pair pair;
	uint8_t *here, *there, *other;
	struct ibv_mr *mr, *served;
	int server;
};

static uint8_t page[PAGE];

static void scene_open(struct scene *s)
{
	*s = (struct scene){ .pair.pd = pd };
	pair_open(&s->pair, ctx, &pair_defaults);
	pair_connect(&s->pair);
	s->here = map_pages(SIZE);
	s->there = map_pages(SIZE);
	s->other = map_pages(SIZE);
	fill(s->here, SIZE, 3);
	s->mr = must_reg(pd, s->here, SIZE, ON_DEMAND);
	s->served = must_reg(pd, s->there, SIZE, ON_DEMAND);
	s->server = server_open(s->there, SIZE);
	if (s->server < 0)
		tap_bail("no userfaultfd");
}

/* Closing the server makes the kernel fill in the pages that are waited for. */
static void scene_close(struct scene *s)
{
	if (s->server >= 0)
		close(s->server);
	if (s->served && ibv_dereg_mr(s->served))
		tap_bail("ibv_dereg_mr");
	if (ibv_dereg_mr(s->mr))
		tap_bail("ibv_dereg_mr");
	pair_close(&s->pair);
	munmap(s->here, SIZE);
	munmap(s->there, SIZE);
	munmap(s->other, SIZE);
}

/* Side a posts a READ into @memory, which is a's, or a WRITE to it, which is b's. */
static void touch_memory(struct scene *s, bool local, uint8_t *memory,
			 const struct ibv_mr *mr)
{
	struct request request = {
		.opcode = local ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.wr_id = 8, .length = LENGTH,
		.local = local ? memory : s->here,
		.lkey = local ? mr->lkey : s->mr->lkey,
		.remote = (uintptr_t)(local ? s->here : memory),
		.rkey = local ? s->mr->rkey : mr->rkey,
	};
	int err = post(&s->pair.a, &request);

	if (err)
		tap_bail("posting: %s", strerror(err));
}

/* The same with the server's memory; waits for the page fault. */
static void touch(struct scene *s, bool local)
{
	touch_memory(s, local, s->there, s->served);
	if (!server_wait(s->server))
		tap_bail("nobody asks for a page");
}

static bool nothing_completed(struct scene *s)
{
	struct ibv_wc wc;

	return ibv_poll_cq(s->pair.a.send_cq, 1, &wc) == 0;
}

/* Serves all pages, and returns the request's status. */
static enum ibv_wc_status serve(struct scene *s)
{
	struct ibv_wc wc = {};
	size_t at;

	for (at = 0; at < SIZE; at += PAGE)
		server_give(s->server, s->there + at, page);
	if (!wait_wc(s->pair.a.send_cq, &wc))
		tap_bail("no completion");
	return wc.status;
}

/* Everything that does not touch the page goes on: other QPs, other MRs, fences. */
static void expect_others_go_on(const char *name)
{
	struct pair other = { .pd = pd };
	uint8_t *memory = map_pages(SIZE);
	struct ibv_mr *mr;
	int i;

	pair_open(&other, ctx, &pair_defaults);
	pair_connect(&other);
	exchange(&other, 20, 0);
	mr = must_reg(pd, memory, SIZE, ON_DEMAND);
	for (i = 0; i < 20; i++) {
		struct outcome o = ask(&other, IBV_WR_RDMA_WRITE, mr->rkey,
				       (uintptr_t)memory + 5, LENGTH);

		if (o.posted || o.status)
			break;
		madvise(memory, SIZE, MADV_DONTNEED);
	}
	tap_is(i, 20, "%s: others fault and go on", name);
	tap_is(ibv_dereg_mr(mr), 0, "%s: a fence does not wait", name);
	munmap(memory, SIZE);
	pair_close(&other);
}

static void test_waits(bool local)
{
	const char *name = local ? "requester" : "responder";
	struct request send = {
		.opcode = IBV_WR_SEND, .wr_id = 2, .length = 100,
	};
	struct ibv_wc wc = {};
	struct scene s;

	scene_open(&s);
	send.local = s.pair.b.buf;
	send.lkey = s.pair.b.mr->lkey;
	touch(&s, local);
	expect_others_go_on(name);
	/* The other half of a's QP, which does not wait, receives a message. */
	if (post_receive(&s.pair.a, 1, s.pair.a.buf, 100, s.pair.a.mr->lkey) ||
	    post(&s.pair.b, &send))
		tap_bail("posting");
	tap_ok(wait_wc(s.pair.a.recv_cq, &wc) && !wc.status && wc.byte_len == 100,
	       "%s: the other half of the QP goes on", name);
	tap_ok(nothing_completed(&s), "%s: waits", name);
	tap_is(serve(&s), IBV_WC_SUCCESS, "%s: goes on", name);
	tap_ok(!memcmp(s.here, s.there, LENGTH) &&
	       !memcmp(s.there + LENGTH, page, PAGE), "%s: data", name);
	scene_close(&s);
}

/*
 * The MR is deregistered, or gets other memory, while a request waits for a page of it.
 */
static void test_mr_goes(bool local)
{
	const char *name = local ? "local" : "remote";
	struct scene s;

	scene_open(&s);
	touch(&s, local);
	tap_is(ibv_dereg_mr(s.served), 0, "%s: deregistered while a page is waited for",
	       name);
	s.served = NULL;
	tap_ok(nothing_completed(&s), "%s: the request waits", name);
	tap_is(serve(&s), local ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR,
	       "%s: and meets a key that is gone", name);
	tap_ok(!memcmp(s.there, page, PAGE), "%s: nothing is written", name);
	scene_close(&s);

	scene_open(&s);
	touch(&s, local);
	tap_is(ibv_rereg_mr(s.served, IBV_REREG_MR_CHANGE_TRANSLATION, pd, s.other, SIZE,
			    0), 0,
	       "%s: re-registered while a page is waited for", name);
	tap_is(serve(&s), local ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR,
	       "%s: and meets the new range", name);
	tap_ok(!memcmp(s.there, page, PAGE) && !s.other[0], "%s: nothing is written",
	       name);
	scene_close(&s);
}

/* The MR keeps its addresses but loses a right, while a request waits. */
static void test_rights_go(void)
{
	struct scene s;

	scene_open(&s);
	touch(&s, false);
	tap_is(ibv_rereg_mr(s.served, IBV_REREG_MR_CHANGE_ACCESS, pd, NULL, 0,
			    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND), 0,
	       "rights taken while a page is waited for");
	tap_is(serve(&s), IBV_WC_REM_ACCESS_ERR, "and missed");
	tap_ok(!memcmp(s.there, page, PAGE), "nothing is written");
	scene_close(&s);
}

/* More prefetches than a context has workers for page requests. */
static void prefetch(struct scene *s)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)s->there, .length = SIZE, .lkey = s->served->lkey,
	};
	int i, err;

	for (i = 0; i < 12; i++) {
		err = ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1);
		if (err)
			tap_bail("ibv_advise_mr: %s", strerror(err));
	}
	if (!server_wait(s->server))
		tap_bail("nobody asks for a page");
}

static void test_advice(void)
{
	struct scene s;

	scene_open(&s);
	prefetch(&s);
	expect_others_go_on("prefetch");
	scene_close(&s);
}

/*
 * Closes a context while a prefetch of it waits. Returns 0, or the errno of
 * registering.
 */
static int leave_behind(uint8_t *there)
{
	struct ibv_context *own = ibv_open_device(ctx->device);
	struct ibv_sge sge = { .addr = (uintptr_t)there, .length = PAGE };
	struct ibv_pd *own_pd = own ? ibv_alloc_pd(own) : NULL;
	struct ibv_mr *mr;
	int err = 0;

	if (!own_pd)
		tap_bail("another context: %s", strerror(errno));
	mr = ibv_reg_mr(own_pd, there, SIZE, ON_DEMAND);
	if (mr) {
		sge.lkey = mr->lkey;
		err = ibv_advise_mr(own_pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1);
		if (err || ibv_dereg_mr(mr))
			tap_bail("ibv_advise_mr: %s", strerror(err));
	} else {
		err = errno;
	}
	ibv_dealloc_pd(own_pd);
	ibv_close_device(own);
	return err;
}

/*
 * A process that has left so many waiting contexts behind cannot register in another
 * one, until pages come.
 */
static void test_left_behind(void)
{
	uint8_t *there = map_pages(SIZE);
	int server = server_open(there, SIZE), i, err = 0;
	time_t end;

	for (i = 0; i < 100 && !err; i++)
		err = leave_behind(there);
	tap_is(err, ENOMEM, "contexts left behind without end");
	tap_ok(i > 50 && i < 70, "some 64 of them: %d", i);
	close(server);
	end = time(NULL) + 20;
	while (leave_behind(there) && time(NULL) < end)
		sched_yield();
	tap_is(leave_behind(there), 0, "when their pages have come there are others");
	munmap(there, SIZE);
}

/* After a reset, the QP faults on other pages, and these come. */
static void expect_anew(struct scene *s, bool local, const char *name)
{
	struct ibv_mr *mr = must_reg(pd, s->other, SIZE, ON_DEMAND);
	struct ibv_wc wc = {};

	pair_reset(&s->pair);
	touch_memory(s, local, s->other, mr);
	tap_ok(wait_wc(s->pair.a.send_cq, &wc) && !wc.status &&
	       !memcmp(s->here, s->other, LENGTH),
	       "%s: faults again, though the page has not come", name);
	if (ibv_dereg_mr(mr))
		tap_bail("ibv_dereg_mr");
}

static void test_qp_goes(bool local)
{
	const char *name = local ? "requester" : "responder";
	struct side *side;
	struct ibv_wc wc = {};
	struct scene s;

	scene_open(&s);
	touch(&s, local);
	side = local ? &s.pair.a : &s.pair.b;
	tap_is(modify_to(side, IBV_QPS_ERR), 0, "%s: to ERR while it waits", name);
	if (local)
		tap_ok(wait_wc(side->send_cq, &wc) && wc.wr_id == 8 &&
		       wc.status == IBV_WC_WR_FLUSH_ERR, "%s: flushed", name);
	tap_is(modify_to(side, IBV_QPS_RESET), 0, "%s: to RESET", name);
	expect_anew(&s, local, name);
	scene_close(&s);

	scene_open(&s);
	touch(&s, local);
	side = local ? &s.pair.a : &s.pair.b;
	pair_close_qp(side);
	tap_ok(true, "%s: destroyed while it waits", name);
	pair_open_qp(&s.pair, side);
	tap_ok(!server_give(s.server, s.there, page) || !memcmp(s.there, page, PAGE),
	       "%s: nothing is written", name);
	pair_reset(&s.pair);
	exchange(&s.pair, 3, 0);
	scene_close(&s);
}

/* ---- processes that end ---- */

enum ending { EXITS, IS_KILLED, CLOSES, ENDINGS };

static const char *const endings[ENDINGS] = { "exits", "is killed", "closes the context" };

/* A process that waits for pages at both ends, and ends. */
static _Noreturn void child(enum ending how, int tell)
{
	struct ibv_device_attr attr;
	struct scene s[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ctx = open_nic(NULL, &attr);
	pd = ibv_alloc_pd(ctx);
	scene_open(&s[0]);
	scene_open(&s[1]);
	touch(&s[0], true);
	touch(&s[1], false);
	prefetch(&s[1]);
	/* The descriptor of the server that the parent is to hold. */
	if (write(tell, &s[1].server, sizeof(int)) != sizeof(int))
		_exit(1);
	if (how == IS_KILLED)
		pause();
	if (how == CLOSES && close(ctx->cmd_fd))
		_exit(1);
	_exit(0);
}

/*
 * A process's memory may be freed after its exit, and the context's MRs and queues
 * later.
 */
static void expect_soon_gone(long pinned)
{
	int i;

	for (i = 0; i < 2000 && (live_mrs() || pinned_pages() > pinned); i++)
		poll(NULL, 0, 10);
}

/* With @keep the page server outlives the process. */
static void test_process(enum ending how, bool keep)
{
	long pinned = pinned_pages();
	int tell[2], server, status, pidfd, kept = -1;
	pid_t pid;

	if (pipe(tell))
		tap_bail("pipe: %s", strerror(errno));
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		child(how, tell[1]);
	close(tell[1]);
	if (pid < 0 || read(tell[0], &server, sizeof(server)) != sizeof(server))
		tap_bail("a process in mid-fault");
	close(tell[0]);
	if (keep) {
		pidfd = syscall(SYS_pidfd_open, pid, 0);
		kept = syscall(SYS_pidfd_getfd, pidfd, server, 0);
		close(pidfd);
	}
	if (how == IS_KILLED)
		kill(pid, SIGKILL);
	tap_ok(waitpid(pid, &status, 0) == pid &&
	       (how == IS_KILLED ? WIFSIGNALED(status) : !status),
	       "a process %s in mid-fault%s", endings[how],
	       keep ? ", its page server stays" : "");
	if (keep)
		tap_ok(kept >= 0 || how != IS_KILLED, "its page server is held");
	/* The workers that wait, and with them the context, live until a page comes. */
	if (kept >= 0)
		close(kept);
	expect_soon_gone(pinned);
	expect_nothing_left(pinned);
}

int main(void)
{
	struct ibv_device_attr attr;
	enum ending how;
	int server;

	memset(page, 0x77, sizeof(page));
	server = server_open(map_pages(PAGE), PAGE);
	if (server < 0) {
		tap_skip("the kernel has no userfaultfd", "pages that do not come");
		return tap_done();
	}
	close(server);
	/* Before this process has objects itself, which would be counted. */
	for (how = 0; how < ENDINGS; how++)
		test_process(how, false);
	test_process(IS_KILLED, true);

	ctx = open_nic(NULL, &attr);
	pd = ibv_alloc_pd(ctx);
	test_advice();
	test_left_behind();
	test_waits(true);
	test_waits(false);
	test_mr_goes(true);
	test_mr_goes(false);
	test_rights_go();
	test_qp_goes(true);
	test_qp_goes(false);
	tap_is(ibv_dealloc_pd(pd), 0, "nothing holds the PD");
	ibv_close_device(ctx);
	return tap_done();
}
