// SPDX-License-Identifier: GPL-2.0
/*
 * Load for the core's tuning of CQ moderation (lib/dim): WRITEs until the core has taken
 * enough steps from one profile to another. tests/device/dim.t judges what it asks for.
 * How far it goes depends on how fast NIC and core are, and is not judged.
 */

#include <linux/completion.h>
#include <linux/dim.h>
#include <linux/slab.h>

#include "verbs_test.h"

/*
 * So many that a WRITE takes the NIC a little longer than its completion takes the
 * core.
 */
#define PAGES		32
#define LENGTH		(PAGES * PAGE_SIZE)
#define WINDOW		64
#define ENOUGH_EVENTS	1000	/* if the core does not tune */
#define ENOUGH_STEPS	20

/**
 * struct load - WRITEs that side 0 posts without a pause
 * @link: both sides
 * @from: the data
 * @to: the target, mapped by @mr
 * @mr: of the domain of both sides
 * @cqe: of each work request
 * @over: completed when no WRITE is under way any more
 * @handler: what the core does with an event of side 0's CQ
 * @sge: of @from
 * @write: posted over and over
 * @under_way: number of WRITEs that are posted and not completed
 * @ending: nothing more is posted
 * @failed: something has failed
 * @events: events of the CQ
 * @profile: of the core's, at the last event
 * @steps: how often it was another one than at the event before
 */
struct load {
	struct link link;
	struct buffer from;
	struct pages to;
	struct ib_mr *mr;
	struct ib_cqe cqe;
	struct completion over;
	ib_comp_handler handler;
	struct ib_sge sge;
	struct ib_rdma_wr write;
	u32 under_way;
	bool ending;
	bool failed;
	u32 events;
	u8 profile;
	u32 steps;
};

static bool is_enough(const struct load *load)
{
	return load->link.cq[0]->dim ? load->steps >= ENOUGH_STEPS :
				       load->events >= ENOUGH_EVENTS;
}

static void told(struct ib_cq *cq, void *context)
{
	struct load *load = container_of(context, struct load, link);
	u8 profile = cq->dim ? READ_ONCE(cq->dim->profile_ix) : 0;

	load->events++;
	load->steps += profile != load->profile;
	load->profile = profile;
	load->handler(cq, context);
}

/* Called by the core for one completion at a time: posts the next WRITE. */
static void written(struct ib_cq *cq, struct ib_wc *wc)
{
	struct load *load = container_of(wc->wr_cqe, struct load, cqe);

	load->failed |= wc->status != IB_WC_SUCCESS;
	if (!load->failed && !READ_ONCE(load->ending) && !is_enough(load)) {
		if (!link_send(&load->link, 0, &load->write.wr))
			return;
		load->failed = true;
	}
	if (!--load->under_way)
		complete(&load->over);
}

static bool load_prepare(struct load *load, struct ib_device *dev)
{
	load->mr = ib_alloc_mr(load->link.pd, IB_MR_TYPE_MEM_REG, PAGES);
	if (IS_ERR(load->mr)) {
		load->mr = NULL;
		return false;
	}
	if (!buffer_open(&load->from, dev, LENGTH) ||
	    !pages_alloc(&load->to, dev, PAGES) ||
	    !pages_map(&load->to, 0, LENGTH) || !fast_map(load->mr, &load->to))
		return false;
	load->cqe.done = written;
	load->sge = buffer_sge(&load->link, &load->from, LENGTH);
	load->write = (struct ib_rdma_wr){
		.wr = {
			.wr_cqe = &load->cqe,
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &load->sge,
			.num_sge = 1,
		},
		.remote_addr = load->mr->iova,
		.rkey = load->mr->rkey,
	};
	init_completion(&load->over);
	load->handler = load->link.cq[0]->comp_handler;
	load->link.cq[0]->comp_handler = told;
	return true;
}

/* Return: false if a WRITE could not be posted, or the load did not end by itself. */
static bool load_run(struct load *load)
{
	struct ib_reg_wr reg = {
		.wr = { .wr_cqe = &load->cqe, .opcode = IB_WR_REG_MR },
		.mr = load->mr,
		.key = load->mr->rkey,
		.access = ALL_REMOTE,
	};
	int i;

	load->under_way = WINDOW;
	if (link_send(&load->link, 0, &reg.wr))
		return false;
	for (i = 0; i < WINDOW; i++)
		if (link_send(&load->link, 0, &load->write.wr))
			return false;
	if (wait_for_completion_timeout(&load->over, 3 * PATIENCE))
		return true;
	WRITE_ONCE(load->ending, true);
	return false;
}

static void load_close(struct load *load)
{
	ib_drain_qp(load->link.qp[0]);
	if (load->mr)
		ib_dereg_mr(load->mr);
	if (load->to.page)
		pages_free(&load->to);
	buffer_close(&load->from);
	link_close(&load->link);
}

static void test_dim(struct ib_device *dev, u32 seed)
{
	struct link_how how = { .alloc_cq = true, .poll_ctx = IB_POLL_SOFTIRQ };
	struct load *load = kzalloc(sizeof(*load), GFP_KERNEL);
	bool good;

	if (!load)
		return;
	if (!link_open(&load->link, dev, how))
		goto free;
	good = load_prepare(load, dev) && load_run(load);
	note("%u events, %u steps", load->events, load->steps);
	point(good && !load->failed, "load, until there was enough");
	load_close(load);
free:
	kfree(load);
}

const struct verbs_test dim_tests[] = {
	{ "dim", test_dim },
	{}
};
