// SPDX-License-Identifier: GPL-2.0
/* Doorbell slots and the queues that they are tied to (HWI 5). */
#include "queues/slot.h"

#define OWNER_KIND_SHIFT	28

static uint32_t owner_word(enum slot_kind kind, uint32_t number)
{
	return (uint32_t)kind << OWNER_KIND_SHIFT | number;
}

uint8_t db_claim(struct nic *nic, uint32_t doorbell, enum slot_kind kind,
		 uint32_t number, uint32_t *slot_id, uint64_t **slot)
{
	if (doorbell >= NIC_DB_SLOTS || doorbell < MOOR_DB_SLOT_KERNEL_FIRST)
		return MOOR_CMD_BAD_PARAM;
	if (nic->slots->owner[doorbell])
		return MOOR_CMD_BUSY;
	nic->slots->owner[doorbell] = owner_word(kind, number);
	*slot_id = doorbell;
	*slot = (uint64_t *)nic->db_bar + doorbell;
	return MOOR_CMD_OK;
}

unsigned int db_owner(const struct nic *nic, uint32_t slot_id, uint32_t *number)
{
	uint32_t owner = nic->slots->owner[slot_id];

	*number = owner & ((1u << OWNER_KIND_SHIFT) - 1);
	return owner >> OWNER_KIND_SHIFT;
}

void db_release(struct nic *nic, uint32_t slot_id)
{
	nic->slots->owner[slot_id] = 0;
}

