// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: doorbell DEVICE [OTHER]
 *
 * What an RDMA WRITE of 8 bytes takes in a loop, and after 10 ms of rest, when a NIC
 * that dozes has to be kicked: posting it, posting a second one at once behind it, and
 * from posting it to its completion. First, on a NIC that dozes, what one kick takes
 * that is nothing but a kick. One device after the other, by wall time.
 *
 * Prints figures as lib/figures.h has them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <moor/moor_hw.h>

#include "figures.h"
#include "pair.h"
#include "raw.h"
#include "tap.h"

#define REST_US		10000
#define PAGE		4096

enum row { FIRST, SECOND, DONE, ROWS };

static const char *const rows[ROWS] = {
	[FIRST] = "ibv_post_send of an 8-byte WRITE",
	[SECOND] = "ibv_post_send of one more behind it",
	[DONE] = "from posting to the completion",
};

static const struct sort in_a_loop = { .kind = "in a loop", .of = "" };
static const struct sort rested = { .kind = "after 10 ms of rest", .of = "" };

/* The kick of a CQ's slot, for which the NIC has nothing to do but wake up. */
struct kick {
	volatile uint32_t *slot;
	const volatile uint32_t *dozing;
};

static void *map_page(int fd, int prot, uint64_t offset)
{
	void *page = mmap(NULL, PAGE, prot, MAP_SHARED, fd, offset);

	if (page == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return page;
}

/* A CQ of a context of its own. Only the kick page of its doorbell is used. */
static uint64_t create_cq(int fd)
{
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct moor_create_cq_resp driver;
	} out;
	struct moor_create_cq_req req = { .log_cqe = 6 };
	struct ib_uverbs_create_cq core = { .cqe = 64, .comp_channel = -1 };
	int err;

	req.ring_addr = (uintptr_t)mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	err = raw_call(fd, &(struct raw){
		.number = IB_USER_VERBS_CMD_CREATE_CQ,
		.core = &core, .core_size = sizeof(core),
		.driver = &req, .driver_size = sizeof(req),
		.out = &out, .core_out = sizeof(out.core), .driver_out = sizeof(out.driver),
	});
	if (err)
		tap_bail("no CQ: %s", strerror(err));
	return out.driver.db.kick_mmap_offset;
}

/* Return: false where nothing is to be kicked. */
static bool kick_open(struct kick *kick)
{
	struct moor_alloc_ucontext_resp resp;
	int fd = raw_open_context(&resp);

	if (!(resp.features & MOOR_FEATURE_DOZES)) {
		close(fd);
		return false;
	}
	kick->dozing = map_page(fd, PROT_READ, resp.doze_mmap_offset);
	kick->slot = map_page(fd, PROT_READ | PROT_WRITE, create_cq(fd));
	return true;
}

static void measure_kicks(const struct kick *kick, const char *whose)
{
	static struct figure figure;
	uint64_t start;

	while (figure.count < ROUNDS_MAX) {
		usleep(REST_US);
		if (!*kick->dozing)
			continue;
		start = now_ns();
		*kick->slot = 1;
		take(&figure, &start);
	}
	show(&figure, "a kick", &rested, whose);
}

static void post_one(struct pair *pair)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = pair->a.buf, .length = 8,
		.lkey = pair->a.mr->lkey, .remote = (uintptr_t)pair->b.buf,
		.rkey = pair->b.mr->rkey,
	};

	if (post(&pair->a, &request))
		tap_bail("posting failed");
}

static void complete_one(struct pair *pair)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(pair->a.send_cq, 1, &wc))
		;
	if (wc.status)
		tap_bail("WRITE: %s", ibv_wc_status_str(wc.status));
}

static void measure(struct pair *pair, const struct sort *sort, const char *whose)
{
	static struct figure figures[ROWS];
	uint64_t posted, start;
	enum row row;

	/* Rounds of one request and rounds of two, in turn. */
	while (figures[SECOND].count < ROUNDS_MAX) {
		if (sort == &rested)
			usleep(REST_US);
		posted = now_ns();
		start = posted;
		post_one(pair);
		take(&figures[FIRST], &start);
		complete_one(pair);
		take(&figures[DONE], &posted);

		if (sort == &rested)
			usleep(REST_US);
		post_one(pair);
		start = now_ns();
		post_one(pair);
		take(&figures[SECOND], &start);
		complete_one(pair);
		complete_one(pair);
	}
	for (row = 0; row < ROWS; row++)
		show(&figures[row], rows[row], sort, whose);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	struct kick kick;
	int i;

	if (argc < 2 || !strcmp(argv[1], "--help")) {
		fprintf(stderr, "usage: doorbell DEVICE [OTHER]\n");
		return 1;
	}
	if (kick_open(&kick))
		measure_kicks(&kick, argv[1]);
	for (i = 1; i < argc; i++) {
		struct pair pair = {};

		pair_open(&pair, open_nic(argv[i], &attr), &pair_defaults);
		pair_connect(&pair);
		measure(&pair, &in_a_loop, argv[i]);
		measure(&pair, &rested, argv[i]);
		pair_close(&pair);
		ibv_close_device(pair.ctx);
	}
	return 0;
}
