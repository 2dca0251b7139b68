// SPDX-License-Identifier: GPL-2.0
/*
 * Objects of a kernel client, for tests of what processes leave behind (tests/graphs).
 * Writing "DEVICE CHANCE" to the file "hold" in debugfs makes them, in a state that the
 * number chooses; they live until the file is closed or the device goes.
 */

#include <linux/slab.h>

#include "verbs_test.h"

#define MRS	4

/**
 * struct hold - the objects of an open file
 * @list: in @holds
 * @link: two queue pairs and their CQs; there are no objects if its device is NULL
 * @mrs: each is registered, not registered, registered twice, or its queue pair failed
 * @pages: memory of the MRs
 */
struct hold {
	struct list_head list;
	struct link link;
	struct ib_mr *mrs[MRS];
	struct pages pages;
};

/* @holds and all functions here are protected by a lock in main.c. */
static LIST_HEAD(holds);

static int hold_mr(struct hold *hold, int i, u32 chance)
{
	struct ib_mr *mr = ib_alloc_mr(hold->link.pd, IB_MR_TYPE_MEM_REG,
				       hold->pages.num);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	hold->mrs[i] = mr;
	if (!(chance & 1))
		return 0;
	if (!fast_map(mr, &hold->pages))
		return -EIO;
	/* Registering an MR twice fails and takes the queue pair to ERR. */
	fast_reg(&hold->link, i & 1, mr, mr->rkey, ALL_REMOTE);
	if (chance & 2)
		fast_reg(&hold->link, i & 1, mr, mr->rkey, ALL_REMOTE);
	return 0;
}

/* Posts work that is never polled for, to a side with receives and to one without. */
static void hold_work(struct hold *hold, u32 chance)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};
	int i;

	for (i = 0; i < 4; i++) {
		link_recv(&hold->link, 1, i);
		if (chance & 1)
			link_send(&hold->link, chance >> 1 & 1, &wr);
	}
	if (chance & 4)
		link_state(&hold->link, 0, IB_QPS_ERR);
}

static void hold_drop(struct hold *hold)
{
	int i;

	if (!hold->link.dev)
		return;
	/* Half of the MRs go before the queue pairs that have used them, half after. */
	for (i = 0; i < MRS; i += 2)
		if (hold->mrs[i])
			ib_dereg_mr(hold->mrs[i]);
	for (i = 0; i < 2; i++)
		if (hold->link.qp[i])
			ib_destroy_qp(hold->link.qp[i]);
	for (i = 1; i < MRS; i += 2)
		if (hold->mrs[i])
			ib_dereg_mr(hold->mrs[i]);
	if (hold->pages.page)
		pages_free(&hold->pages);
	memset(hold->link.qp, 0, sizeof(hold->link.qp));
	link_close(&hold->link);
	hold->link.dev = NULL;
}

/**
 * hold_new - allocate what an open file needs, still without objects
 *
 * Return: for hold_make() and hold_free(), or NULL.
 */
struct hold *hold_new(void)
{
	struct hold *hold = kzalloc(sizeof(*hold), GFP_KERNEL);

	if (hold)
		list_add(&hold->list, &holds);
	return hold;
}

/**
 * hold_make - make objects
 * @hold: without objects
 * @dev: device
 * @chance: what state they are in
 *
 * Return: 0 or an errno.
 */
int hold_make(struct hold *hold, struct ib_device *dev, u32 chance)
{
	struct link_how how = {
		.alloc_cq = chance & 1, .poll_ctx = IB_POLL_DIRECT, .depth = 16,
	};
	int err = 0, i;

	if (hold->link.dev)
		return -EBUSY;
	/* link_open() has taken back what it could not make in whole. */
	if (!link_open(&hold->link, dev, how)) {
		hold->link.dev = NULL;
		return -EIO;
	}
	if (!pages_alloc(&hold->pages, dev, 3) ||
	    !pages_map(&hold->pages, 100, 2 * PAGE_SIZE))
		err = -ENOMEM;
	for (i = 0; i < MRS && !err; i++)
		err = hold_mr(hold, i, chance >> (1 + 2 * i));
	if (err)
		hold_drop(hold);
	else
		hold_work(hold, chance >> (1 + 2 * MRS));
	return err;
}

/**
 * hold_leave - a device goes: objects on it are given back
 * @dev: device
 */
void hold_leave(struct ib_device *dev)
{
	struct hold *hold;

	list_for_each_entry(hold, &holds, list)
		if (hold->link.dev == dev)
			hold_drop(hold);
}

void hold_free(struct hold *hold)
{
	hold_drop(hold);
	list_del(&hold->list);
	kfree(hold);
}
