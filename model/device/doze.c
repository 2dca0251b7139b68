// SPDX-License-Identifier: GPL-2.0
/* Kicks, the dozing word, and when the NIC may sleep (HWI 5). */
#include <endian.h>

#include "base/dma_map.h"
#include "base/log.h"
#include "device/command.h"
#include "device/doze.h"
#include "device/nic.h"
#include "queues/cq.h"
#include "queues/event.h"
#include "queues/slot.h"
#include "transport/live.h"
#include "transport/qp.h"

void nic_kick(struct nic *nic, uint32_t page, uint32_t slot)
{
	unsigned int kind;
	uint32_t number;

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

	kind = db_owner(nic, page * MOOR_DB_SLOTS_PER_PAGE + slot, &number);
	if (!kind)
		log_refused("HWI DB-4", "kick of page %u slot %u: tied to nothing",
			    page, slot);
	if (kind == SLOT_SQ)
		live_look(nic, nic->qps->qp[number]);
}

/* Return: false when the word cannot be reached, which is fatal. */
static bool store_doze(struct nic *nic, uint32_t value)
{
	uint64_t len = sizeof(value);
	uint32_t *word;

	word = dma_map_ptr(nic->dma, nic->doze->addr, &len, true);
	if (!word || len < sizeof(*word)) {
		nic_fatal(nic, MOOR_FATAL_DMA);
		return false;
	}
	__atomic_store_n(word, htole32(value), __ATOMIC_SEQ_CST);
	return true;
}

bool nic_dozes(const struct nic *nic)
{
	return nic_has(nic, MOOR_FEATURE_DOZES);
}

bool nic_doze(struct nic *nic)
{
	if (!nic_works(nic))
		return true;
	if (!nic->doze->dozing) {
		if (!store_doze(nic, 1))
			return true;
		nic->doze->dozing = true;
	}
	/* Store before load: pairs with step 3 of HWI DB-13. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	live_scan_all(nic);
	if (!nic->qps->ready.first && !command_pending(nic))
		return true;
	nic_wake(nic);
	return false;
}

void nic_wake(struct nic *nic)
{
	if (!nic->doze->dozing || !nic_works(nic))
		return;
	/* --sync-commands: the word stays 1, so that the driver kicks each time. */
	if (nic->cfg.sync_commands)
		return;
	if (store_doze(nic, 0))
		nic->doze->dozing = false;
}

/* Only the dozing word is reset here: doorbell slots went with their queues. */
void doze_reset(struct nic *nic)
{
	nic->doze->addr = 0;
	nic->doze->dozing = false;
}
