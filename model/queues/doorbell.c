// SPDX-License-Identifier: GPL-2.0
/* Doorbell slots, the dozing word, kicks (HWI 5). */
#include <endian.h>

#include "base/dma_map.h"
#include "base/log.h"
#include "transport/qp.h"

#define OWNER_KIND_SHIFT	28

static uint32_t owner_word(enum slot_kind kind, uint32_t number)
{
	return (uint32_t)kind << OWNER_KIND_SHIFT | number;
}

uint8_t db_claim(struct nic *nic, uint32_t doorbell, enum slot_kind kind,
		 uint32_t number, uint32_t *slot_id, uint64_t **slot)
{
	uint32_t page = doorbell / MOOR_DB_SLOTS_PER_PAGE;

	if (page >= NIC_DB_PAGES || doorbell < MOOR_DB_SLOT_KERNEL_FIRST)
		return MOOR_CMD_BAD_PARAM;
	if (nic->slot_owner[doorbell])
		return MOOR_CMD_BUSY;
	nic->slot_owner[doorbell] = owner_word(kind, number);
	*slot_id = doorbell;
	*slot = (uint64_t *)nic->db_bar + doorbell;
	__atomic_store_n(*slot, 0, __ATOMIC_RELEASE);
	return MOOR_CMD_OK;
}

void db_release(struct nic *nic, uint32_t slot_id)
{
	nic->slot_owner[slot_id] = 0;
}

void db_live_add(struct nic *nic, struct qp *qp)
{
	struct live_sq *live = &nic->live[nic->num_live];

	live->slot = qp->sq.slot;
	live->seen = 0;
	live->qp = qp;
	qp->live_index = nic->num_live++;
}

void db_live_remove(struct nic *nic, struct qp *qp)
{
	struct live_sq *hole = &nic->live[qp->live_index];

	*hole = nic->live[--nic->num_live];
	hole->qp->live_index = hole - nic->live;
}

static bool live_changed(struct live_sq *live)
{
	uint32_t value = (uint32_t)le64toh(__atomic_load_n(live->slot,
							   __ATOMIC_RELAXED));

	if (value == live->seen)
		return false;
	live->seen = value;
	return true;
}

void db_scan(struct nic *nic)
{
	uint32_t i;

	for (i = 0; i < nic->num_live; i++) {
		if (live_changed(&nic->live[i]))
			qp_make_ready(nic, nic->live[i].qp);
	}
}

void nic_kick(struct nic *nic, uint32_t page, uint32_t slot)
{
	uint32_t owner;
	struct qp *qp;

	if (page >= NIC_DB_PAGES || slot >= MOOR_DB_SLOTS_PER_PAGE ||
	    !nic_works(nic))
		return;
	if (!page && slot == MOOR_DB_SLOT_CMD_PRODUCER) {
		if (nic->cfg.sync_commands) {
			command_run_posted(nic);
			cq_flush(nic);
			event_flush(nic);
		}
		return;
	}

	owner = nic->slot_owner[page * MOOR_DB_SLOTS_PER_PAGE + slot];
	if (!owner)
		log_refused("HWI DB-4", "kick of page %u slot %u: tied to nothing",
			    page, slot);
	if (owner >> OWNER_KIND_SHIFT != SLOT_SQ)
		return;
	qp = nic->qp[owner % NIC_NUM_QP];
	if (live_changed(&nic->live[qp->live_index]))
		qp_make_ready(nic, qp);
}

/* Return: false when the word cannot be reached, which is fatal. */
static bool store_doze(struct nic *nic, uint32_t value)
{
	uint64_t len = sizeof(value);
	uint32_t *word;

	word = dma_map_ptr(nic->dma, nic->doze_addr, &len, true);
	if (!word || len < sizeof(*word)) {
		nic_fatal(nic, MOOR_FATAL_DMA);
		return false;
	}
	__atomic_store_n(word, htole32(value), __ATOMIC_SEQ_CST);
	return true;
}

bool nic_doze(struct nic *nic)
{
	if (!nic_works(nic))
		return true;
	if (!nic->dozing) {
		if (!store_doze(nic, 1))
			return true;
		nic->dozing = true;
	}
	/* Store before load: pairs with step 3 of HWI DB-13. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	db_scan(nic);
	if (!nic->ready.first && !command_pending(nic))
		return true;
	nic_wake(nic);
	return false;
}

void nic_wake(struct nic *nic)
{
	if (!nic->dozing || !nic_works(nic))
		return;
	/* Whoever rings has to come through the kick (--sync-commands). */
	if (nic->cfg.sync_commands)
		return;
	if (store_doze(nic, 0))
		nic->dozing = false;
}

/* The slots went with their queues. */
void db_reset(struct nic *nic)
{
	nic->dozing = false;
}
