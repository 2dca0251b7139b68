// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: pager
 *
 * Two connected QPs and memory that is paged on demand. Words on standard input (see
 * the table at the end) have it touch the memory, unmap pages, or make both halves of a
 * QP wait for pages that are not served. For tests that break the device in between.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "paged.h"
#include "tap.h"
#include "window.h"
#include "words.h"

#define SIZE	(16 * PAGE)
#define NONE	99		/* no completion, or wrong data: above all statuses */

static struct ibv_context *ctx;
static struct ibv_pd *other_pd;
static struct pair pair;
/*
 * Ordinary memory, with MRs of two PDs; memory of a page server that serves on "serve"
 * alone.
 */
static uint8_t *memory, *served;
static struct ibv_mr *mr, *foreign, *served_mr;
static uint8_t page[PAGE];
static int server;
static unsigned int rounds;

static uint8_t *place(void)
{
	return memory + rounds % (SIZE / PAGE) * PAGE;
}

static int do_touch(void)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .length = PAGE,
		.local = pair.a.buf, .lkey = pair.a.mr->lkey, .rkey = mr->rkey,
	};

	rounds++;
	request.remote = (uintptr_t)place();
	fill(pair.a.buf, PAGE, rounds);
	return post(&pair.a, &request);
}

static int completion(struct side *side)
{
	struct ibv_wc wc;

	return wait_wc(side->send_cq, &wc) ? (int)wc.status : NONE;
}

/* The status of the last "touch"; NONE also if its data is not there. */
static int do_done(void)
{
	int status = completion(&pair.a);

	return status || is_filled(place(), PAGE, rounds) ? status : NONE;
}

static int do_nothing(void)
{
	struct ibv_wc wc;

	return ibv_poll_cq(pair.a.send_cq, 1, &wc) || ibv_poll_cq(pair.b.send_cq, 1, &wc);
}

/* Returns 1 if any request has succeeded. */
static int do_no_success(void)
{
	struct ibv_wc wc;
	int succeeded = 0;

	while (ibv_poll_cq(pair.a.send_cq, 1, &wc) == 1)
		succeeded |= wc.status == IBV_WC_SUCCESS;
	while (ibv_poll_cq(pair.b.send_cq, 1, &wc) == 1)
		succeeded |= wc.status == IBV_WC_SUCCESS;
	return succeeded;
}

static int do_drop(void)
{
	return madvise(memory, SIZE, MADV_DONTNEED) ? errno : 0;
}

static int do_advise(void)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)memory, .length = SIZE, .lkey = mr->lkey,
	};

	return ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

/* @b's responder waits for the first served page, its requester for the second. */
static int do_park(void)
{
	struct request remote = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1, .length = PAGE,
		.local = pair.a.buf, .lkey = pair.a.mr->lkey,
		.remote = (uintptr_t)served, .rkey = served_mr->rkey,
	};
	struct request local = {
		.opcode = IBV_WR_RDMA_READ, .wr_id = 2, .length = PAGE,
		.local = served + PAGE, .lkey = served_mr->lkey,
		.remote = (uintptr_t)pair.a.buf, .rkey = pair.a.mr->rkey,
	};
	int err = post(&pair.a, &remote);

	if (err || !server_wait(server))
		return err ? err : ETIMEDOUT;
	err = post(&pair.b, &local);
	return err || server_wait(server) ? err : ETIMEDOUT;
}

/* Gives the two pages that @b waits for. */
static int do_serve(void)
{
	server_give(server, served, page);
	server_give(server, served + PAGE, page);
	return 0;
}

static int do_parked_done(void)
{
	int status = completion(&pair.a);

	return status ? status : completion(&pair.b);
}

/* Returns 0 if neither page has been written to. */
static int do_untouched(void)
{
	return memcmp(served, page, PAGE) || memcmp(served + PAGE, page, PAGE);
}

/* Returns 0 if registering and querying fail with EIO. */
static int do_gone(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	errno = 0;
	if (ibv_reg_mr(pair.pd, memory, PAGE, ON_DEMAND) || errno != EIO)
		return errno;
	return ibv_query_qp(pair.a.qp, &attr, IBV_QP_STATE, &init) == EIO ? 0 : EEXIST;
}

static int do_names(void)
{
	printf("%u %u %u %llu %u %u %u\n", pair.a.qp->qp_num, pair.b.qp->qp_num, mr->lkey,
	       (unsigned long long)(uintptr_t)memory, SIZE, foreign->lkey,
	       pair.a.mr->lkey);
	return 0;
}

static const struct word words[] = {
	{ "touch", do_touch }, { "done", do_done }, { "nothing", do_nothing },
	{ "no_success", do_no_success },
	{ "drop", do_drop }, { "advise", do_advise },
	{ "park", do_park }, { "serve", do_serve }, { "parked_done", do_parked_done },
	{ "untouched", do_untouched }, { "gone", do_gone }, { "names", do_names },
};

int main(void)
{
	struct ibv_device_attr attr;

	ctx = open_nic(NULL, &attr);
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);
	other_pd = ibv_alloc_pd(ctx);
	if (!other_pd)
		tap_bail("ibv_alloc_pd: %s", strerror(errno));
	memset(page, 0x77, sizeof(page));
	memory = map_pages(SIZE);
	served = map_pages(SIZE);
	mr = must_reg(pair.pd, memory, SIZE, ON_DEMAND);
	foreign = must_reg(other_pd, memory, SIZE, ON_DEMAND);
	served_mr = must_reg(pair.pd, served, SIZE, ON_DEMAND);
	server = server_open(served, SIZE);
	if (server < 0)
		tap_bail("no userfaultfd");
	words_follow(words, sizeof(words) / sizeof(words[0]));
	return 0;
}
