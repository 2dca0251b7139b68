// SPDX-License-Identifier: GPL-2.0
/*
 * Posting to a send queue wakes a NIC that dozes (HWI 5.2). Other tests post so quickly
 * that the NIC seldom dozes: this one waits until it does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <moor/moor_hw.h>

#include "pair.h"
#include "raw.h"
#include "tap.h"

#define PAGE		4096
#define ROUNDS		20
#define DEADLINE_S	20
/* For all rounds: a hundred times longer than they take on an idle machine. */
#define LIMIT_S		5

static const volatile uint32_t *dozing;

/* Maps the dozing word, through a context of its own. Returns the file of that. */
static int map_word(void)
{
	struct moor_alloc_ucontext_resp resp;
	int fd = raw_open_context(&resp);

	if (!(resp.features & MOOR_FEATURE_DOZES)) {
		tap_skip("this NIC never dozes", "posting wakes the NIC");
		exit(tap_done());
	}
	dozing = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, resp.doze_mmap_offset);
	if (dozing == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return fd;
}

static void let_it_doze(void)
{
	time_t end = time(NULL) + DEADLINE_S;

	while (!*dozing)
		if (time(NULL) > end)
			tap_bail("the NIC does not doze within %d s", DEADLINE_S);
}

static int post_wr(struct pair *pair)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = pair->a.buf, .length = 8,
		.lkey = pair->a.mr->lkey, .remote = (uintptr_t)pair->b.buf,
		.rkey = pair->b.mr->rkey,
	};

	return post(&pair->a, &request);
}

static int post_wr_ex(struct pair *pair)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->a.qp);

	ibv_wr_start(qp);
	qp->wr_id = 0;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, pair->b.mr->rkey, (uintptr_t)pair->b.buf);
	ibv_wr_set_sge(qp, pair->a.mr->lkey, (uintptr_t)pair->a.buf, 8);
	return ibv_wr_complete(qp);
}

/*
 * The driver's look at the NIC every two seconds also wakes it: without a kick, each
 * round but the first takes that long.
 */
static void test_wakes(struct pair *pair, int (*post_one)(struct pair *pair),
		       const char *what)
{
	const char *patience = getenv("MOOR_TEST_PATIENCE");
	time_t end = time(NULL) + LIMIT_S * (patience ? atoi(patience) : 1);
	struct ibv_wc wc;
	int round;

	for (round = 0; round < ROUNDS && time(NULL) <= end; round++) {
		let_it_doze();
		if (post_one(pair) || !wait_wc(pair->a.send_cq, &wc) || wc.status)
			break;
	}
	tap_is(round, ROUNDS, "%s wakes the NIC, at once and each time", what);
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);
	struct pair pair = {};
	int fd = map_word();

	config.send_ops = IBV_QP_EX_WITH_RDMA_WRITE;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	test_wakes(&pair, post_wr, "ibv_post_send()");
	pair_reset(&pair);
	test_wakes(&pair, post_wr_ex, "ibv_wr_complete()");
	pair_close(&pair);
	close(fd);
	ibv_close_device(ctx);
	return tap_done();
}
