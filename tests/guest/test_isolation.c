// SPDX-License-Identifier: GPL-2.0
/*
 * Two processes on one NIC: one cannot reach the other's objects by key, by queue pair
 * number or by handle, neither while the other lives nor after its end.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"
#include "raw.h"
#include "tap.h"

#define SIZE	4096

/* What the victim reveals; keys can be guessed anyway. */
struct victim {
	uint64_t addr;
	uint32_t lkey, rkey, qpn, mr_handle, qp_handle;
};

/* Shared memory, so that the attacker sees whether the victim's memory has changed. */
static uint8_t *memory;

static _Noreturn void be_victim(int out)
{
	struct ibv_device_attr attr;
	struct pair pair = {};
	struct victim victim;
	struct ibv_mr *mr;

	pair_open(&pair, open_nic(NULL, &attr), &pair_defaults);
	pair_connect(&pair);
	mr = ibv_reg_mr(pair.pd, memory, SIZE, ALL_ACCESS);
	if (!mr)
		_exit(1);
	victim = (struct victim){
		.addr = (uintptr_t)memory, .lkey = mr->lkey, .rkey = mr->rkey,
		.qpn = pair.b.qp->qp_num, .mr_handle = mr->handle,
		.qp_handle = pair.b.qp->handle,
	};
	if (write(out, &victim, sizeof(victim)) != sizeof(victim))
		_exit(1);
	for (;;)
		pause();
}

static pid_t start_victim(struct victim *victim)
{
	int ends[2];
	pid_t pid;

	if (pipe(ends))
		tap_bail("pipe: %s", strerror(errno));
	fflush(stdout);
	pid = fork();
	if (!pid)
		be_victim(ends[1]);
	if (pid < 0 || read(ends[0], victim, sizeof(*victim)) != sizeof(*victim))
		tap_bail("no victim");
	close(ends[0]);
	close(ends[1]);
	return pid;
}

static void remote(struct pair *pair, uint64_t addr, uint32_t rkey,
		   enum ibv_wr_opcode opcode, const char *what)
{
	struct request request = {
		.opcode = opcode, .wr_id = 1, .local = pair->a.buf,
		.length = 8, .lkey = pair->a.mr->lkey,
		.remote = addr, .rkey = rkey,
	};
	struct ibv_wc wc;

	tap_is(post(&pair->a, &request), 0, "%s: posted", what);
	expect_wc(pair->a.send_cq, 1, IBV_WC_REM_ACCESS_ERR, &wc, what);
	tap_ok(is_filled(memory, SIZE, 7), "%s: memory untouched", what);
	pair_reset(pair);
}

static void local(struct pair *pair, uint32_t lkey, const char *what)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 2, .local = memory,
		.length = 8, .lkey = lkey,
		.remote = (uintptr_t)pair->b.buf, .rkey = pair->b.mr->rkey,
	};
	struct ibv_wc wc;

	fill(pair->b.buf, SIZE, 9);
	tap_is(post(&pair->a, &request), 0, "%s: posted", what);
	expect_wc(pair->a.send_cq, 2, IBV_WC_LOC_PROT_ERR, &wc, what);
	tap_ok(is_filled(pair->b.buf, SIZE, 9), "%s: nothing arrived", what);
	pair_reset(pair);
}

static void keys(struct pair *pair, const struct victim *victim, const char *when)
{
	char what[80];

#define NAME(format, ...) (snprintf(what, sizeof(what), "%s: " format, when,	\
				    ##__VA_ARGS__), what)
	remote(pair, victim->addr, victim->rkey, IBV_WR_RDMA_WRITE,
	       NAME("writing by another's rkey"));
	remote(pair, victim->addr, victim->rkey, IBV_WR_RDMA_READ,
	       NAME("reading by another's rkey"));
	remote(pair, victim->addr, victim->rkey, IBV_WR_ATOMIC_FETCH_AND_ADD,
	       NAME("an atomic by another's rkey"));
	local(pair, victim->lkey, NAME("another's lkey"));
	for (int delta = -1; delta <= 1; delta += 2)
		remote(pair, victim->addr, victim->rkey + delta,
		       IBV_WR_RDMA_WRITE, NAME("a key off by %d", delta));
#undef NAME
}

/* The victim's queue pair accepts packets from its own peer only. */
static void queue_pair(struct pair *pair, uint32_t qpn)
{
	struct request request = {
		.opcode = IBV_WR_SEND, .wr_id = 3, .local = pair->a.buf,
		.length = 8, .lkey = pair->a.mr->lkey,
	};
	struct ibv_wc wc;

	modify_to(&pair->a, IBV_QPS_RESET);
	modify_to_init(pair, &pair->a);
	tap_is(modify_to_rtr(pair, &pair->a, qpn), 0,
	       "connecting to another's queue pair");
	modify_to_rts(pair, &pair->a);
	tap_is(post(&pair->a, &request), 0, "sending to it: posted");
	expect_wc(pair->a.send_cq, 3, IBV_WC_RETRY_EXC_ERR, &wc,
		  "sending to it: no answer");
	pair_reset(pair);
}

/* A handle is only valid with the file that it came from. */
static void handles(const struct victim *victim)
{
	struct ib_uverbs_dereg_mr dereg = { .mr_handle = victim->mr_handle };
	struct ib_uverbs_destroy_qp destroy = { .qp_handle = victim->qp_handle };
	struct ib_uverbs_destroy_qp_resp gone;
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(NULL, &attr);

	tap_is(raw_call(ctx->cmd_fd, &(struct raw){
			.number = IB_USER_VERBS_CMD_DEREG_MR,
			.core = &dereg, .core_size = sizeof(dereg) }),
	       ENOENT, "deregistering by another's handle");
	tap_is(raw_call(ctx->cmd_fd, &(struct raw){
			.number = IB_USER_VERBS_CMD_DESTROY_QP,
			.core = &destroy, .core_size = sizeof(destroy),
			.out = &gone, .core_out = sizeof(gone) }),
	       ENOENT, "destroying by another's handle");
	ibv_close_device(ctx);
}

int main(void)
{
	struct ibv_device_attr attr;
	struct pair pair = {};
	struct victim victim;
	pid_t pid;

	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fill(memory, SIZE, 7);
	pid = start_victim(&victim);
	pair_open(&pair, open_nic(NULL, &attr), &pair_defaults);
	pair_connect(&pair);

	keys(&pair, &victim, "alive");
	queue_pair(&pair, victim.qpn);
	handles(&victim);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	keys(&pair, &victim, "dead");
	queue_pair(&pair, victim.qpn);
	pair_close(&pair);
	return tap_done();
}
