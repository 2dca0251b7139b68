// SPDX-License-Identifier: GPL-2.0
/* Entries, events and states that no NIC should come to by itself. */

#include <stddef.h>
#include <endian.h>

#include "base/fault.h"
#include "control/inject.h"
#include "device/command.h"
#include "queues/event.h"

static void fill_garbage(struct nic *nic, void *to, size_t len)
{
	uint8_t *bytes = to;
	size_t i;

	for (i = 0; i < len; i++)
		bytes[i] = (uint8_t)(random_next(&nic->faults->random) >> 32);
}

bool fault_stray(struct nic *nic, uint16_t tag, uint8_t status)
{
	struct moor_cpl cpl = { .tag = htole16(tag), .status = status };

	if (!command_inject(nic, &cpl))
		return false;
	nic->faults->fired++;
	return true;
}

uint32_t fault_garbage_completions(struct nic *nic, uint32_t count)
{
	struct moor_cpl cpl;
	uint32_t i;

	for (i = 0; i < count; i++) {
		fill_garbage(nic, &cpl, sizeof(cpl));
		/* Half of them with a tag that some command may have. */
		if (i & 1)
			cpl.tag &= htole16(0x7f);
		if (!command_inject(nic, &cpl))
			break;
		nic->faults->fired++;
	}
	return i;
}

uint32_t fault_garbage_events(struct nic *nic, uint32_t eqn, uint32_t count)
{
	struct moor_eqe eqe;
	uint32_t i;

	for (i = 0; i < count; i++) {
		fill_garbage(nic, &eqe, sizeof(eqe));
		/* Half of them with a type that may exist, none with DEVICE_FATAL. */
		if (i & 1)
			eqe.type &= 0x1f;
		if (eqe.type == MOOR_EVENT_DEVICE_FATAL)
			eqe.type = 0xff;
		if (!event_inject(nic, eqn, &eqe))
			break;
		nic->faults->fired++;
	}
	return i;
}

bool fault_scribble(struct nic *nic)
{
	struct moor_cpl cpl;
	uint32_t i;

	if (!nic_works(nic))
		return false;
	for (i = 0; i < 1u << nic->commands->log_size; i++) {
		fill_garbage(nic, &cpl, sizeof(cpl));
		if (!command_overwrite(nic, i, &cpl))
			return false;
	}
	nic->faults->fired++;
	event_raise(nic, MOOR_VECTOR_CMD);
	event_flush(nic);
	return true;
}

bool fault_event(struct nic *nic, uint32_t eqn, uint8_t type, uint32_t number)
{
	struct moor_eqe eqe = { .type = type, .number = htole32(number) };

	if (!event_inject(nic, eqn, &eqe))
		return false;
	nic->faults->fired++;
	return true;
}

bool fault_page_request(struct nic *nic,
			const struct moor_page_request *request)
{
	union {
		struct moor_page_request request;
		struct moor_eqe eqe;
	} entry = { .request = *request };

	entry.request.type = MOOR_EVENT_PAGE_REQUEST;
	if (!event_inject(nic, MOOR_EQ_PAGE_REQUEST, &entry.eqe))
		return false;
	nic->faults->fired++;
	return true;
}

void fault_fatal(struct nic *nic)
{
	nic->faults->fired++;
	nic_fatal(nic, MOOR_FATAL_INJECTED);
}

void fault_link(struct nic *nic, bool up)
{
	if (nic->faults->link_down == !up)
		return;
	nic->faults->link_down = !up;
	nic->faults->fired++;
	event_post(nic, MOOR_EQ_ASYNC,
		   up ? MOOR_EVENT_PORT_UP : MOOR_EVENT_PORT_DOWN, 0,
		   &nic->events->backlogged);
	event_flush(nic);
}
