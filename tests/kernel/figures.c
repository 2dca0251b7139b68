// SPDX-License-Identifier: GPL-2.0
/*
 * What fast registration takes. Two figures for each cycle: "calls" is the time in the
 * verbs, "elapsed" includes the time until all has completed, in which a NIC works by
 * itself and software RDMA takes the same processor. With the guest's clock counting
 * instructions (scripts/vm --icount) these are instructions.
 */

#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <rdma/rw.h>

#include "verbs_test.h"

#define CYCLES	16	/* in a batch: each has an MR of its own */
#define BATCHES	31
#define PAGES	16

struct figure {
	u64 calls[BATCHES];
	u64 elapsed[BATCHES];
};

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static void show(struct figure *figure, const char *name, u32 per)
{
	sort(figure->calls, BATCHES, sizeof(u64), compare, NULL);
	sort(figure->elapsed, BATCHES, sizeof(u64), compare, NULL);
	note("figure %s calls %llu elapsed %llu", name,
	     div_u64(figure->calls[BATCHES / 2], per),
	     div_u64(figure->elapsed[BATCHES / 2], per));
}

/* Waits until background work is done and the processor is idle. */
static void rest(void)
{
	schedule_timeout_uninterruptible(msecs_to_jiffies(20));
}

/*
 * Yields to software RDMA's thread, which would otherwise wait for a tick, and that
 * wait would count.
 */
static void give_way(void)
{
	yield();
}

static bool wait_for_one(struct link *link, int side)
{
	struct ib_wc wc;

	while (!ib_poll_cq(link->cq[side], 1, &wc))
		give_way();
	return !wc.status;
}

struct set {
	struct link link;
	struct ib_mr *mr[CYCLES];
	struct pages pages[CYCLES];
};

static void set_close(struct set *set)
{
	int i;

	for (i = 0; i < CYCLES; i++) {
		if (set->mr[i])
			ib_dereg_mr(set->mr[i]);
		if (set->pages[i].page)
			pages_free(&set->pages[i]);
	}
	link_close(&set->link);
}

static bool set_open(struct set *set, struct ib_device *dev)
{
	int i;

	if (!link_open(&set->link, dev, (struct link_how){}))
		return false;
	for (i = 0; i < CYCLES; i++) {
		set->mr[i] = ib_alloc_mr(set->link.pd, IB_MR_TYPE_MEM_REG, PAGES);
		if (IS_ERR(set->mr[i])) {
			set->mr[i] = NULL;
			return false;
		}
		if (!pages_alloc(&set->pages[i], dev, PAGES) ||
		    !pages_map(&set->pages[i], 0, PAGES * PAGE_SIZE) ||
		    !fast_map(set->mr[i], &set->pages[i]))
			return false;
	}
	return true;
}

/* REG_MR and LOCAL_INV of one MR in one call. */
static int post_cycle(struct set *set, int i, bool map, bool signaled)
{
	struct ib_mr *mr = set->mr[i];
	struct ib_send_wr inv = {
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = signaled ? IB_SEND_SIGNALED : 0,
	};
	struct ib_reg_wr reg = {
		.wr = { .opcode = IB_WR_REG_MR, .next = &inv },
		.mr = mr,
		.access = ALL_REMOTE,
	};

	if (map)
		fast_map(mr, &set->pages[i]);
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	reg.key = mr->rkey;
	inv.ex.invalidate_rkey = mr->rkey;
	return link_send(&set->link, 1, &reg.wr);
}

static bool run_batch(struct set *set, bool map, bool restful, u64 *took)
{
	u64 start = ktime_get_ns(), pause = 0;
	bool good = true;
	int i;

	for (i = 0; i < CYCLES; i++)
		good &= !post_cycle(set, i, map, i == CYCLES - 1);
	if (restful) {
		pause = ktime_get_ns();
		rest();
		pause = ktime_get_ns() - pause;
	}
	good &= wait_for_one(&set->link, 1);
	*took = ktime_get_ns() - start - pause;
	return good;
}

static void figure_of_cycles(struct set *set, bool map, const char *name)
{
	struct figure *figure = kzalloc(sizeof(*figure), GFP_KERNEL);
	bool good = figure;
	int i;

	for (i = -2; good && i < BATCHES; i++) {
		u64 calls, elapsed;

		good = run_batch(set, map, true, &calls);
		rest();
		good = good && run_batch(set, map, false, &elapsed);
		if (i < 0)
			continue;
		figure->calls[i] = calls;
		figure->elapsed[i] = elapsed;
	}
	if (point(good, "%s", name))
		show(figure, name, CYCLES);
	kfree(figure);
}

static void test_figures(struct ib_device *dev, u32 seed)
{
	struct set *set = kzalloc(sizeof(*set), GFP_KERNEL);

	if (!set)
		return;
	if (point(set_open(set, dev), "%u MRs of %u pages", CYCLES, PAGES)) {
		figure_of_cycles(set, false, "cycle");
		figure_of_cycles(set, true, "cycle_with_map");
	}
	set_close(set);
	kfree(set);
}

#define TRANSFERS	4

struct transfers {
	struct link link;
	struct pages local[TRANSFERS];
	struct pages remote;
	struct rdma_rw_ctx ctx[TRANSFERS];
	struct ib_cqe cqe;
	u32 done;
	bool failed;
};

static void transfer_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct transfers *t = container_of(wc->wr_cqe, struct transfers, cqe);

	t->done++;
	t->failed |= wc->status != IB_WC_SUCCESS;
}

static bool move_all(struct transfers *t, struct ib_mr *mr, bool restful,
		     enum dma_data_direction dir, u64 *took)
{
	u64 start = ktime_get_ns(), pause = 0;
	bool good = true;
	int i;

	t->done = 0;
	for (i = 0; i < TRANSFERS; i++)
		good &= rdma_rw_ctx_init(&t->ctx[i], t->link.qp[0], 1,
					 t->local[i].sg, t->local[i].nents, 0,
					 mr->iova, mr->rkey, dir) > 0 &&
			!rdma_rw_ctx_post(&t->ctx[i], t->link.qp[0], 1, &t->cqe,
					  NULL);
	if (restful) {
		pause = ktime_get_ns();
		rest();
		pause = ktime_get_ns() - pause;
	}
	while (good && t->done < TRANSFERS) {
		ib_process_cq_direct(t->link.cq[0], -1);
		if (t->done < TRANSFERS)
			give_way();
	}
	for (i = 0; i < TRANSFERS; i++)
		rdma_rw_ctx_destroy(&t->ctx[i], t->link.qp[0], 1, t->local[i].sg,
				    t->local[i].nents, dir);
	*took = ktime_get_ns() - start - pause;
	return good && !t->failed;
}

static void figure_of_transfers(struct transfers *t, struct ib_mr *mr,
				enum dma_data_direction dir, const char *name)
{
	struct figure *figure = kzalloc(sizeof(*figure), GFP_KERNEL);
	bool good = figure;
	int i;

	for (i = -2; good && i < BATCHES; i++) {
		u64 calls, elapsed;

		good = move_all(t, mr, true, dir, &calls);
		rest();
		good = good && move_all(t, mr, false, dir, &elapsed);
		if (i < 0)
			continue;
		figure->calls[i] = calls;
		figure->elapsed[i] = elapsed;
	}
	if (point(good, "%s", name))
		show(figure, name, TRANSFERS);
	kfree(figure);
}

static void test_rw_figures(struct ib_device *dev, u32 seed)
{
	struct link_how how = {
		.alloc_cq = true, .poll_ctx = IB_POLL_DIRECT,
		.rdma_ctxs = TRANSFERS, .depth = 16, .max_sge = 16,
	};
	struct transfers *t = kzalloc(sizeof(*t), GFP_KERNEL);
	struct ib_mr *mr;
	int i;

	if (!t || !link_open(&t->link, dev, how)) {
		kfree(t);
		return;
	}
	t->cqe.done = transfer_done;
	mr = ib_alloc_mr(t->link.pd, IB_MR_TYPE_MEM_REG, PAGES);
	if (!point(!IS_ERR(mr), "an MR"))
		goto close;
	for (i = 0; i < TRANSFERS; i++) {
		if (!pages_alloc(&t->local[i], dev, PAGES))
			goto dereg;
		pages_map(&t->local[i], 0, PAGES * PAGE_SIZE);
		pages_unmap(&t->local[i]);
	}
	if (!pages_alloc(&t->remote, dev, PAGES) ||
	    !pages_map(&t->remote, 0, PAGES * PAGE_SIZE) ||
	    !fast_map(mr, &t->remote) ||
	    fast_reg(&t->link, 1, mr, mr->rkey, ALL_REMOTE))
		goto dereg;
	figure_of_transfers(t, mr, DMA_TO_DEVICE, "rw_write");
	figure_of_transfers(t, mr, DMA_FROM_DEVICE, "rw_read");
dereg:
	ib_dereg_mr(mr);
	for (i = 0; i < TRANSFERS; i++)
		if (t->local[i].page)
			pages_free(&t->local[i]);
	if (t->remote.page)
		pages_free(&t->remote);
close:
	link_close(&t->link);
	kfree(t);
}

const struct verbs_test figure_tests[] = {
	{ "figures", test_figures },
	{ "rw_figures", test_rw_figures },
	{}
};
