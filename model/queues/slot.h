/* SPDX-License-Identifier: GPL-2.0 */
/* Doorbell slots (HWI 5): 64-bit words in the pages of BAR4, each tied to a queue. */
#ifndef MODEL_SLOT_H
#define MODEL_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"

struct slots {
	uint32_t owner[NIC_DB_SLOTS];	/* kind and number, 0: none */
};

enum slot_kind {
	SLOT_SQ	= 1,
	SLOT_RQ	= 2,
	SLOT_CQ	= 3,
	SLOT_SRQ = 4,
};

/* Slot @slot of the driver's page. */
static inline uint64_t *db_fixed_slot(struct nic *nic, unsigned int slot)
{
	return (uint64_t *)nic->db_bar + slot;
}

/*
 * Ties a slot to a queue. It keeps its value until nothing can fail any more: then the
 * caller zeroes it (HWI CMD-18). Return: enum moor_cmd_status.
 */
uint8_t db_claim(struct nic *nic, uint32_t doorbell, enum slot_kind kind,
		 uint32_t number, uint32_t *slot_id, uint64_t **slot);
void db_release(struct nic *nic, uint32_t slot_id);

/* What slot @slot_id is tied to. Return: 0 or enum slot_kind. */
unsigned int db_owner(const struct nic *nic, uint32_t slot_id, uint32_t *number);

static inline uint64_t db_load(const uint64_t *slot)
{
	return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

static inline void db_zero(uint64_t *slot)
{
	__atomic_store_n(slot, 0, __ATOMIC_RELEASE);
}

#endif /* MODEL_SLOT_H */
