// SPDX-License-Identifier: GPL-2.0
/* Life cycle of the NIC, reset, and its run loop. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "transport/port.h"
#include "transport/qp.h"

/* A quantum, after which the front looks at its socket. */
#define QUANTUM_NS	50000
/* EQ consumer slots are not kicked for: how often to look while one is full. */
#define EQ_LOOK_NS	1000000

struct nic *nic_create(const struct nic_config *cfg, struct dma_map *dma,
		       void *mr_bar, void *db_bar,
		       void (*raise)(void *ctx, unsigned int vector), void *ctx)
{
	struct nic *nic = calloc(1, sizeof(*nic));

	if (!nic)
		return NULL;
	nic->cfg = *cfg;
	nic->chance = cfg->seed | 1;	/* xorshift: anything but zero */
	nic->faults.chance = nic->chance;
	nic->dma = dma;
	nic->mr_bar = mr_bar;
	nic->db_bar = db_bar;
	nic->raise = raise;
	nic->raise_ctx = ctx;
	nic->rest.expired = qp_rest_over;
	nic->slot_owner = calloc(NIC_DB_SLOTS, sizeof(*nic->slot_owner));
	nic->live = calloc(NIC_NUM_QP, sizeof(*nic->live));
	nic->dirty_cq = calloc(NIC_MAX_CQ, sizeof(*nic->dirty_cq));
	/* A timer a QP, one for those that rest, and the port's. */
	if (!nic->slot_owner || !nic->live || !nic->dirty_cq ||
	    !timer_heap_init(&nic->timers, NIC_NUM_QP + 2) || !mr_init(nic) ||
	    !requester_init(nic) || !port_init(nic)) {
		nic_destroy(nic);
		return NULL;
	}
	nic_reset(nic);
	return nic;
}

uint32_t nic_chance(struct nic *nic, uint32_t n)
{
	if (!nic->cfg.strict)
		return 0;
	nic->chance ^= nic->chance << 13;
	nic->chance ^= nic->chance >> 7;
	nic->chance ^= nic->chance << 17;
	return (uint32_t)(nic->chance >> 32) % n;
}

static void destroy_objects(struct nic *nic)
{
	port_reset(nic);
	qp_reset_all(nic);
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
	free(nic->dirty_cq);
	free(nic->live);
	free(nic->slot_owner);
	free(nic);
}

/* Zeroes BAR memory and, where it is a file's, gives the pages back. */
static void zero_memory(void *start, size_t len)
{
	if (madvise(start, len, MADV_REMOVE))
		memset(start, 0, len);
}

void nic_reset(struct nic *nic)
{
	destroy_objects(nic);
	memset(nic->gid, 0, sizeof(nic->gid));
	zero_memory(nic->mr_bar, NIC_MR_BAR_SIZE);
	zero_memory(nic->db_bar, NIC_DB_BAR_SIZE);
	mr_reset(nic);
	db_reset(nic);
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
	bool worked;

	if (!nic_works(nic))
		return false;
	timer_expire(nic, &nic->timers, now);
	worked = command_run(nic);
	db_scan(nic);
	worked = worked || nic->ready.first;
	while (nic->ready.first && nic_works(nic) && now < end) {
		qp_run(nic, nic->ready.first);
		cq_flush(nic);
		event_flush(nic);
		/* With many QPs a scan costs more than a QP's quantum. */
		if (!nic->ready.first)
			db_scan(nic);
		now = timer_now();
	}
	/* Commands and timers have events and CQEs too. */
	cq_flush(nic);
	event_flush(nic);
	/* Who just had work is likely to get more: the caller stays awake. */
	return nic_works(nic) && (worked || command_pending(nic));
}

uint64_t nic_next_deadline(struct nic *nic)
{
	uint64_t next = timer_next(&nic->timers);

	if (!nic_works(nic))
		return UINT64_MAX;
	if (nic->eq_backlogged && next > timer_now() + EQ_LOOK_NS)
		next = timer_now() + EQ_LOOK_NS;
	return next;
}
