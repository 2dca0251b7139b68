// SPDX-License-Identifier: GPL-2.0
/* Life cycle of the NIC, reset, and its run loop. */
#include <stdlib.h>
#include <sys/mman.h>
#include <string.h>

#include "device/nic.h"
#include "device/parts.h"
#include "device/registers.h"

/* The length of nic_run(), after which the main loop may look at the socket. */
#define QUANTUM_NS	50000
/* EQ consumer slots get no kicks: how often to look at them while an EQ is full. */
#define EQ_LOOK_NS	1000000

static void assemble(struct parts *parts)
{
	struct nic *nic = &parts->nic;

	nic->faults = &parts->faults;
	nic->lies = &parts->lies;
	nic->commands = &parts->commands;
	nic->doze = &parts->doze;
	nic->events = &parts->events;
	nic->gids = &parts->gids;
	nic->filters = &parts->filters;
	nic->wire = &parts->wire;
	nic->requests = &parts->requests;
	nic->slots = &parts->slots;
	nic->live = &parts->live;
	nic->cqs = &parts->cqs;
	nic->srqs = &parts->srqs;
	nic->qps = &parts->qps;
	nic->mr = &parts->mr;
}

struct nic *nic_create(const struct nic_config *cfg, struct dma_map *dma,
		       void *mr_bar, void *db_bar,
		       void (*raise)(void *ctx, unsigned int vector), void *ctx)
{
	struct parts *parts = calloc(1, sizeof(*parts));
	struct nic *nic;

	if (!parts)
		return NULL;
	assemble(parts);
	nic = &parts->nic;
	nic->cfg = *cfg;
	random_seed(&nic->random, cfg->seed);
	random_seed(&nic->faults->random, cfg->seed);
	nic->dma = dma;
	nic->mr_bar = mr_bar;
	nic->db_bar = db_bar;
	nic->events->raise = raise;
	nic->events->raise_ctx = ctx;
	nic->qps->rest.expired = qp_rest_over;
	/* One timer for each QP and CQ, one for QPs that rest, and one for the port. */
	if (!timer_heap_init(&nic->timers, NIC_NUM_QP + NIC_MAX_CQ + 2) ||
	    !mr_init(nic) || !requester_init(nic) || !port_init(nic)) {
		nic_destroy(nic);
		return NULL;
	}
	nic_reset(nic);
	return nic;
}

static void destroy_objects(struct nic *nic)
{
	port_reset(nic);
	/* All at once: else each object would search thousands of events for its own. */
	event_forget_all(nic);
	qp_reset_all(nic);
	srq_reset_all(nic);
	cq_reset(nic);
	event_reset(nic);
}

void nic_destroy(struct nic *nic)
{
	destroy_objects(nic);
	port_impair(nic, NULL);
	requester_exit(nic);
	mr_exit(nic);
	timer_heap_free(&nic->timers);
	free(nic);
}

/* Zeroes BAR memory and, if it belongs to a file, gives the pages back. */
static void zero_memory(void *start, size_t len)
{
	if (madvise(start, len, MADV_REMOVE))
		memset(start, 0, len);
}

void nic_reset(struct nic *nic)
{
	destroy_objects(nic);
	*nic->gids = (struct gids){ 0 };
	zero_memory(nic->mr_bar, NIC_MR_BAR_SIZE);
	zero_memory(nic->db_bar, NIC_DB_BAR_SIZE);
	mr_reset(nic);
	doze_reset(nic);
	command_reset(nic);
	registers_reset(nic);
}

void nic_set_bus_master(struct nic *nic, bool on)
{
	nic->bus_master = on;
}

bool nic_run(struct nic *nic)
{
	uint64_t now = timer_now(), end = now + QUANTUM_NS;
	bool worked, commanded;

	if (!nic_works(nic))
		return false;
	timer_expire(nic, &nic->timers, now);
	/* Before the scan: work posted before a command, RESIZE_CQ say, is seen first. */
	commanded = command_pending(nic);
	live_scan(nic);
	worked = commanded || nic->qps->ready.first;
	while (nic->qps->ready.first && nic_works(nic) && now < end) {
		qp_run(nic, nic->qps->ready.first);
		cq_flush(nic);
		event_flush(nic);
		/* With many QPs a scan costs more than a QP's quantum. */
		if (!nic->qps->ready.first)
			live_scan(nic);
		now = timer_now();
	}
	if (commanded && nic_works(nic))
		command_run(nic);
	/* Commands and timers have events and CQEs too. */
	cq_flush(nic);
	event_flush(nic);
	/* After work more is likely to come: true, so that the caller stays awake. */
	return nic_works(nic) && (worked || command_pending(nic));
}

uint64_t nic_next_deadline(struct nic *nic)
{
	uint64_t next = timer_next(&nic->timers);

	if (!nic_works(nic))
		return UINT64_MAX;
	if (nic->events->num_backlogged && next > timer_now() + EQ_LOOK_NS)
		next = timer_now() + EQ_LOOK_NS;
	return next;
}
