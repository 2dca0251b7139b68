// SPDX-License-Identifier: GPL-2.0
/* Event queues and their vectors (HWI 9). */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/dma_map.h"
#include "base/fault.h"
#include "base/layout.h"
#include "base/lie.h"
#include "base/log.h"
#include "memory/relaxed.h"
#include "memory/translate.h"
#include "queues/event.h"
#include "queues/slot.h"

static uint32_t eq_free(struct nic *nic, uint32_t eqn)
{
	const struct eq *eq = &nic->events->eq[eqn];
	uint64_t slot = db_load(db_fixed_slot(nic,
					      MOOR_DB_SLOT_EQ_CONSUMER + eqn));
	uint32_t used = eq->producer - (uint32_t)le64toh(slot);

	/* A consumer index from beyond the producer frees nothing. */
	return used > 1u << eq->log_eqe ? 0 : (1u << eq->log_eqe) - used;
}

static void eq_write_entry(struct nic *nic, struct eq *eq,
			   const struct moor_eqe *entry)
{
	uint32_t slot = eq->producer & ((1u << eq->log_eqe) - 1);
	uint64_t len = sizeof(struct moor_eqe);
	struct moor_eqe *eqe;

	eqe = dma_map_ptr(nic->dma, eq->base + slot * sizeof(*eqe), &len, true);
	if (!eqe || len < sizeof(*eqe)) {
		nic_fatal(nic, MOOR_FATAL_DMA);
		return;
	}
	memcpy(eqe, entry, offsetof(struct moor_eqe, phase));
	__atomic_store_n(&eqe->phase, entry->phase, __ATOMIC_RELEASE);
	eq->producer++;
	nic->events->pending_vectors |= 1u << eq->vector;
}

static uint32_t eq_phase(const struct eq *eq)
{
	return htole32(!(eq->producer >> eq->log_eqe & 1));
}

static void eq_write(struct nic *nic, struct eq *eq,
		     const struct moor_eqe *event)
{
	struct moor_eqe entry = *event;

	entry.phase = eq_phase(eq);
	lie_event(nic, &entry);
	eq_write_entry(nic, eq, &entry);
}

static bool backlog_add(struct nic *nic, struct eq *eq,
			const struct moor_eqe *entry, uint64_t *backlogged)
{
	uint32_t room = eq->backlog_room ? 2 * eq->backlog_room : 64;
	struct event *backlog;

	if (eq->backlog_count == eq->backlog_room) {
		backlog = realloc(eq->backlog, room * sizeof(*backlog));
		if (!backlog)
			return false;
		eq->backlog = backlog;
		eq->backlog_room = room;
	}
	if (!eq->backlog_count)
		nic->events->num_backlogged++;
	eq->backlog[eq->backlog_count++] = (struct event){
		.entry = *entry, .backlogged = backlogged,
	};
	return true;
}

void event_post_entry(struct nic *nic, uint32_t eqn,
		      const struct moor_eqe *entry, uint64_t *backlogged)
{
	struct eq *eq = &nic->events->eq[eqn];

	if (*backlogged & MOOR_BIT(entry->type) || !eq->exists ||
	    !nic->enabled || nic->fatal_code)
		return;
	/* Without Bus Master Enable it is kept back till that is set (HWI EV-3, ERR-10). */
	if (nic_works(nic))
		relaxed_release(nic);
	if (nic_works(nic) && !eq->backlog_count && eq_free(nic, eqn))
		eq_write(nic, eq, entry);
	else if (backlog_add(nic, eq, entry, backlogged))
		*backlogged |= MOOR_BIT(entry->type);
}

void event_post(struct nic *nic, uint32_t eqn, uint8_t type, uint32_t number,
		uint64_t *backlogged)
{
	const struct moor_eqe entry = {
		.type = type, .number = htole32(number),
	};

	event_post_entry(nic, eqn, &entry, backlogged);
}

bool event_inject(struct nic *nic, uint32_t eqn, const struct moor_eqe *eqe)
{
	struct eq *eq = &nic->events->eq[eqn];
	struct moor_eqe entry = *eqe;

	if (!nic_works(nic) || !eq->exists || eq->backlog_count ||
	    !eq_free(nic, eqn))
		return false;
	entry.phase = eq_phase(eq);
	eq_write_entry(nic, eq, &entry);
	event_flush(nic);
	return true;
}

/* The object may have another event of this type kept back from now on. */
static void backlog_left(const struct event *event)
{
	*event->backlogged &= ~MOOR_BIT(event->entry.type);
}

static void backlog_drop(struct nic *nic, struct eq *eq, uint32_t count)
{
	eq->backlog_count -= count;
	memmove(eq->backlog, eq->backlog + count,
		eq->backlog_count * sizeof(*eq->backlog));
	if (!eq->backlog_count)
		nic->events->num_backlogged--;
}

static void backlog_deliver(struct nic *nic, uint32_t eqn)
{
	struct eq *eq = &nic->events->eq[eqn];
	uint32_t count = eq_free(nic, eqn), i;

	if (!eq->backlog_count)
		return;
	if (count > eq->backlog_count)
		count = eq->backlog_count;
	for (i = 0; i < count && nic_works(nic); i++) {
		eq_write(nic, eq, &eq->backlog[i].entry);
		backlog_left(&eq->backlog[i]);
	}
	if (i)
		backlog_drop(nic, eq, i);
}

void event_forget(struct nic *nic, uint32_t eqn, uint64_t types,
		  uint32_t number)
{
	struct eq *eq = &nic->events->eq[eqn];
	uint32_t i, kept = 0;

	for (i = 0; i < eq->backlog_count; i++) {
		const struct moor_eqe *entry = &eq->backlog[i].entry;

		if (le32toh(entry->number) != number ||
		    !(types & MOOR_BIT(entry->type)))
			eq->backlog[kept++] = eq->backlog[i];
	}
	if (eq->backlog_count && !kept)
		nic->events->num_backlogged--;
	eq->backlog_count = kept;
}

void event_forget_all(struct nic *nic)
{
	uint32_t eqn;

	for (eqn = 0; eqn < NIC_MAX_EQ; eqn++)
		nic->events->eq[eqn].backlog_count = 0;
	nic->events->num_backlogged = 0;
}

void event_flush(struct nic *nic)
{
	uint32_t eqn, vectors;

	if (!nic_works(nic))
		return;
	for (eqn = 0; nic->events->num_backlogged && eqn < NIC_MAX_EQ; eqn++)
		backlog_deliver(nic, eqn);
	vectors = nic->events->pending_vectors;
	if (nic->faults->losing)
		vectors = fault_of_vectors(nic, vectors);
	for (; vectors; vectors &= vectors - 1)
		nic->events->raise(nic->events->raise_ctx, __builtin_ctz(vectors));
	nic->events->pending_vectors = 0;
}

void nic_fatal(struct nic *nic, enum moor_fatal_code code)
{
	if (nic->fatal_code)
		return;
	log_refused("HWI ERR-1", "fatal, code %u", code);
	/* A fault while the event is written comes back here as code DMA. */
	if (code != MOOR_FATAL_DMA) {
		event_post(nic, MOOR_EQ_ASYNC, MOOR_EVENT_DEVICE_FATAL, code,
			   &nic->events->backlogged);
		event_flush(nic);
	}
	nic->fatal_code = code;
}

static bool eq_reachable(struct nic *nic, uint64_t base, uint32_t log_eqe)
{
	struct xlat xlat = {
		.root = base | MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
			MOOR_PTE_WRITABLE,
	};
	uint64_t size = sizeof(struct moor_eqe) << log_eqe;

	return xlat_reachable(nic, &xlat, size, true);
}

uint8_t eq_create(struct nic *nic, const struct moor_cmd *raw,
		  struct moor_cpl *cpl)
{
	const struct moor_cmd_create_eq *cmd = (const void *)raw;
	uint32_t eqn = le32toh(cmd->eqn);
	uint64_t base = le64toh(cmd->base);
	struct eq *eq;

	if (eqn >= NIC_MAX_EQ || nic->events->eq[eqn].exists)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_create_eq, eqn);
	if (le16toh(cmd->vector) >= NIC_NUM_VECTORS)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_eq, vector);
	if (cmd->log_eqe > NIC_MAX_LOG_EQE)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_eq, log_eqe);
	if (base % MOOR_PAGE_SIZE)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_eq, base);
	if (!eq_reachable(nic, base, cmd->log_eqe))
		return CMD_FAIL(cpl, MOOR_CMD_DMA_FAULT,
				struct moor_cmd_create_eq, base);

	eq = &nic->events->eq[eqn];
	*eq = (struct eq){
		.exists = true,
		.log_eqe = cmd->log_eqe,
		.vector = le16toh(cmd->vector),
		.base = base,
	};
	__atomic_store_n(db_fixed_slot(nic, MOOR_DB_SLOT_EQ_CONSUMER + eqn), 0,
			 __ATOMIC_RELEASE);
	return MOOR_CMD_OK;
}

static void eq_free_backlog(struct nic *nic, struct eq *eq)
{
	uint32_t i, count = eq->backlog_count;

	if (count)
		nic->events->num_backlogged--;
	eq->backlog_count = 0;
	for (i = 0; i < count; i++)
		backlog_left(&eq->backlog[i]);
	free(eq->backlog);
	*eq = (struct eq){ 0 };
}

uint8_t eq_destroy(struct nic *nic, const struct moor_cmd *raw,
		   struct moor_cpl *cpl)
{
	const struct moor_cmd_destroy_eq *cmd = (const void *)raw;
	uint32_t eqn = le32toh(cmd->eqn);

	if (eqn >= NIC_MAX_EQ || !nic->events->eq[eqn].exists)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_destroy_eq, eqn);
	if (nic->events->eq[eqn].num_cq)
		return CMD_FAIL(cpl, MOOR_CMD_BUSY,
				struct moor_cmd_destroy_eq, eqn);
	eq_free_backlog(nic, &nic->events->eq[eqn]);
	return MOOR_CMD_OK;
}

void event_reset(struct nic *nic)
{
	uint32_t eqn;

	for (eqn = 0; eqn < NIC_MAX_EQ; eqn++) {
		free(nic->events->eq[eqn].backlog);
		nic->events->eq[eqn] = (struct eq){ 0 };
	}
	nic->events->num_backlogged = 0;
	nic->events->backlogged = 0;
	nic->events->pending_vectors = 0;
}
