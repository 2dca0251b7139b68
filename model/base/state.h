/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The NIC as its parts share it. What a part keeps is a struct, defined in the part's
 * header: here it is a name, and only files that include that header see its members.
 */
#ifndef MODEL_STATE_H
#define MODEL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/timer.h"

struct nic {
	struct nic_config cfg;
	struct dma_map *dma;
	uint8_t *mr_bar;
	uint8_t *db_bar;

	bool bus_master;
	bool enabled;
	uint32_t fatal_code;	/* enum moor_fatal_code */
	uint64_t clock_base;	/* when CLOCK was zero */
	struct timer_heap timers;
	struct random random;	/* of nic_chance() */

	struct faults *faults;	/* survive a reset */
	struct lies *lies;	/* likewise */

	struct mr_tables *mr;
	struct relaxed *relaxed;	/* NULL without --strict */

	struct slots *slots;
	struct events *events;
	struct cqs *cqs;
	struct srqs *srqs;

	struct gids *gids;
	struct filters *filters;
	struct wire *wire;
	struct request_pool *requests;
	struct live_sqs *live;
	struct qps *qps;

	struct commands *commands;
	struct doze *doze;
};

/* Is DMA allowed and has the driver set the NIC up? */
static inline bool nic_works(const struct nic *nic)
{
	return nic->enabled && nic->bus_master && !nic->fatal_code;
}

/* Does the NIC have one of these features (HWI 4.2)? */
static inline bool nic_has(const struct nic *nic, uint64_t features)
{
	return NIC_FEATURES & ~nic->cfg.without & features;
}

/*
 * What --strict does where the document leaves a choice: a number below @n,
 * at random but the same in each run with one seed; else 0.
 */
static inline uint32_t nic_chance(struct nic *nic, uint32_t n)
{
	return nic->cfg.strict ? random_below(&nic->random, n) : 0;
}

#endif /* MODEL_STATE_H */
