// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: lied_to ROUNDS
 *
 * A process on a NIC that lies: makes one object of each kind, moves data, also to and
 * from pages on demand, binds windows, waits for events, lists resources, and gives the
 * objects back. Any call may fail and any answer may be nonsense, but each call must
 * return; the program ends with status 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/rdma_netlink.h>

#include "holdings.h"
#include "tap.h"
#include "window.h"

#define LENGTH	8192u
#define WRS	8
#define WAIT_MS	20	/* for completions and events that may never come */

static struct pair pair;
static struct ibv_mw *mw[2];
static struct ibv_dm *dm;
static struct ibv_mr *mr, *dm_mr, *paged_mr;
static uint8_t *memory, *paged;
static unsigned int completions, events;

/* Polls for a moment and counts the completions. */
static void poll_cq(struct ibv_cq *cq)
{
	struct pollfd nothing = {};
	struct ibv_wc wc[4];
	int tries, got;

	for (tries = 0; cq && tries < WAIT_MS; tries++) {
		got = ibv_poll_cq(cq, 4, wc);
		if (got > 0)
			completions += got;
		else
			poll(&nothing, 0, 1);
	}
}

static bool readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, WAIT_MS) == 1;
}

/* Each event that is read must be acknowledged, or destroying its object blocks. */
static void take_events(void)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *context;
	int limit = 64;

	while (limit-- && readable(pair.channel->fd) &&
	       !ibv_get_cq_event(pair.channel, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		events++;
	}
	while (limit-- > 0 && readable(pair.ctx->async_fd) &&
	       !ibv_get_async_event(pair.ctx, &event)) {
		ibv_ack_async_event(&event);
		events++;
	}
}

static struct ibv_qp *make_qp(struct side *side)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = WRS, .max_recv_wr = WRS,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	side->send_cq = ibv_create_cq(pair.ctx, 4 * WRS, NULL, pair.channel, 0);
	side->recv_cq = ibv_create_cq(pair.ctx, 4 * WRS, NULL, pair.channel, 0);
	if (!side->send_cq || !side->recv_cq)
		return NULL;
	attr.send_cq = side->send_cq;
	attr.recv_cq = side->recv_cq;
	return ibv_create_qp(pair.pd, &attr);
}

static void make_all(void)
{
	struct ibv_alloc_dm_attr dm_attr = { .length = LENGTH };
	int type;

	pair.config = pair_defaults;
	pair.a.qp = make_qp(&pair.a);
	pair.b.qp = make_qp(&pair.b);
	mr = ibv_reg_mr(pair.pd, memory, LENGTH, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	paged_mr = ibv_reg_mr(pair.pd, paged, LENGTH, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	dm = ibv_alloc_dm(pair.ctx, &dm_attr);
	if (dm)
		dm_mr = ibv_reg_dm_mr(pair.pd, dm, 0, LENGTH, IBV_ACCESS_ZERO_BASED |
				      IBV_ACCESS_MW_BIND | ALL_ACCESS);
	for (type = 0; type < 2; type++)
		mw[type] = ibv_alloc_mw(pair.pd, type ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
}

static void connect_all(void)
{
	if (!pair.a.qp || !pair.b.qp)
		return;
	modify_to(&pair.a, IBV_QPS_RESET);
	modify_to(&pair.b, IBV_QPS_RESET);
	modify_to_init(&pair, &pair.a);
	modify_to_init(&pair, &pair.b);
	modify_to_rtr(&pair, &pair.a, pair.b.qp->qp_num);
	modify_to_rtr(&pair, &pair.b, pair.a.qp->qp_num);
	modify_to_rts(&pair, &pair.a);
	modify_to_rts(&pair, &pair.b);
}

static void move_data(void)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	unsigned int i;

	if (!pair.a.qp || !pair.b.qp || !mr)
		return;
	ibv_req_notify_cq(pair.a.send_cq, 0);
	ibv_req_notify_cq(pair.b.recv_cq, 1);
	for (i = 0; i < 4; i++) {
		const struct request request = {
			.opcode = opcodes[i], .wr_id = i, .local = memory,
			.length = 8, .lkey = mr->lkey, .rkey = mr->rkey,
			.remote = (uintptr_t)memory + 64, .compare_add = 1,
		};

		post_receive(&pair.b, i, memory, LENGTH, mr->lkey);
		post(&pair.a, &request);
	}
	poll_cq(pair.a.send_cq);
	poll_cq(pair.b.recv_cq);
}

/* Has each half of a QP wait for a page, then unmaps the pages. */
static void page(void)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = memory, .length = LENGTH,
		.remote = (uintptr_t)paged,
	};
	struct ibv_sge sge = { .addr = (uintptr_t)paged, .length = LENGTH };

	if (!pair.a.qp || !pair.b.qp || !mr || !paged_mr)
		return;
	request.lkey = mr->lkey;
	request.rkey = paged_mr->rkey;
	post(&pair.a, &request);
	request.opcode = IBV_WR_RDMA_READ;
	request.local = paged;
	request.lkey = paged_mr->lkey;
	request.remote = (uintptr_t)memory;
	request.rkey = mr->rkey;
	post(&pair.b, &request);
	poll_cq(pair.a.send_cq);
	poll_cq(pair.b.send_cq);
	madvise(paged, LENGTH, MADV_DONTNEED);
	sge.lkey = paged_mr->lkey;
	ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
		      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
	madvise(paged, LENGTH / 2, MADV_DONTNEED);
}

static void bind_windows(void)
{
	struct ibv_mw_bind_info info = { .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int i;

	for (i = 0; i < 2 && pair.b.qp; i++) {
		info.mr = i ? mr : dm_mr;
		if (!mw[i] || !info.mr)
			continue;
		info.addr = i ? (uintptr_t)memory : 0;
		info.length = LENGTH;
		apis[0].bind(&pair.b, mw[i], ibv_inc_rkey(mw[i]->rkey), &info);
		poll_cq(pair.b.send_cq);
	}
}

/* Queries that make the driver ask the NIC. */
static void look_around(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	unsigned int answers;
	char page[4096];
	glob_t found;
	int fd;

	if (pair.a.qp)
		ibv_query_qp(pair.a.qp, &attr, IBV_QP_STATE, &init);
	resource_dump(RDMA_NLDEV_CMD_RES_MR_GET, &answers);
	resource_dump(RDMA_NLDEV_CMD_RES_QP_GET, &answers);
	if (glob("/sys/kernel/debug/moor/*/windows", 0, NULL, &found))
		return;
	fd = open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && read(fd, page, sizeof(page)) > 0)
		;
	if (fd >= 0)
		close(fd);
	globfree(&found);
}

static void change_all(unsigned int round)
{
	struct ibv_modify_cq_attr moderation = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = round, .cq_period = 100 },
	};

	if (mr)
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory,
			     LENGTH, 0);
	if (pair.a.send_cq)
		ibv_resize_cq(pair.a.send_cq, round & 1 ? 4 * WRS : 16 * WRS);
	if (pair.b.recv_cq)
		ibv_modify_cq(pair.b.recv_cq, &moderation);
	if (mw[1] && pair.b.qp)
		apis[0].local_inv(&pair.b, mw[1]->rkey);
	poll_cq(pair.b.send_cq);
}

/* Gives back half of the objects; errors are ignored. */
static void give_back(void)
{
	int i;

	for (i = 0; i < 2; i++)
		if (mw[i])
			ibv_dealloc_mw(mw[i]);
	if (dm_mr && !ibv_dereg_mr(dm_mr))
		ibv_free_dm(dm);
	if (mr)
		ibv_dereg_mr(mr);
	if (paged_mr)
		ibv_dereg_mr(paged_mr);
	if (pair.a.qp)
		ibv_destroy_qp(pair.a.qp);
	if (pair.a.send_cq)
		ibv_destroy_cq(pair.a.send_cq);
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, i;
	struct ibv_device_attr attr;

	pair.ctx = open_nic(NULL, &attr);
	pair.pd = ibv_alloc_pd(pair.ctx);
	pair.channel = ibv_create_comp_channel(pair.ctx);
	memory = aligned_alloc(4096, LENGTH);
	paged = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!pair.pd || !pair.channel || !memory || paged == MAP_FAILED)
		tap_bail("set-up: %s", strerror(errno));
	pair_find_gid(&pair);
	nic_name();
	printf("ready\n");
	fflush(stdout);
	/* The test has the NIC lie from now on. */
	if (getchar() == EOF)
		return 1;
	make_all();
	for (i = 0; i < rounds; i++) {
		connect_all();
		move_data();
		page();
		bind_windows();
		look_around();
		change_all(i);
		take_events();
	}
	/* The other objects are left to the end of the process. */
	give_back();
	printf("# %u completions, %u events\n", completions, events);
	return 0;
}
