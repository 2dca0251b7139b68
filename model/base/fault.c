// SPDX-License-Identifier: GPL-2.0
/* Faults on demand: which commands, interrupts and ring entries go wrong. */
#include <endian.h>

#include "base/log.h"
#include "transport/qp.h"

#define log_fault(...)							\
	do {								\
		static struct log_site log_site_;			\
		log_limited(&log_site_, "fault", "control", __VA_ARGS__); \
	} while (0)

bool fault_add(struct nic *nic, const struct fault_rule *rule)
{
	struct faults *faults = &nic->faults;

	if (faults->num_rules == FAULT_MAX_RULES)
		return false;
	faults->rule[faults->num_rules++] = *rule;
	return true;
}

void fault_lose(struct nic *nic, unsigned int vector, uint32_t count)
{
	nic->faults.lose[vector] = count;
	if (count)
		nic->faults.losing |= 1u << vector;
	else
		nic->faults.losing &= ~(1u << vector);
}

void fault_clear(struct nic *nic)
{
	nic->faults.num_rules = 0;
	nic->faults.losing = 0;
	nic->lies.where = 0;
}

/* The oldest rule that fits decides; the younger ones do not see the command. */
static struct fault_rule *find_rule(struct faults *faults, uint8_t opcode)
{
	uint32_t i;

	for (i = 0; i < faults->num_rules; i++)
		if (faults->rule[i].opcode == FAULT_ANY_OPCODE ||
		    faults->rule[i].opcode == opcode)
			return &faults->rule[i];
	return NULL;
}

static void drop_rule(struct faults *faults, struct fault_rule *rule)
{
	const struct fault_rule *end = &faults->rule[faults->num_rules--];

	memmove(rule, rule + 1,
		(size_t)((const uint8_t *)end - (const uint8_t *)(rule + 1)));
}

enum fault_kind fault_of_command(struct nic *nic, uint8_t opcode,
				 uint8_t *status)
{
	struct faults *faults = &nic->faults;
	struct fault_rule *rule = find_rule(faults, opcode);
	enum fault_kind kind;

	if (!rule)
		return FAULT_NONE;
	if (rule->after) {
		rule->after--;
		return FAULT_NONE;
	}
	kind = rule->kind;
	*status = rule->status;
	if (rule->left != FAULT_ALWAYS)
		rule->left--;
	if (!rule->left)
		drop_rule(faults, rule);
	faults->fired++;
	log_fault("command 0x%02x: %s", opcode,
		  kind == FAULT_FAIL ? "failed" :
		  kind == FAULT_DROP ? "not answered" : "answered twice");
	return kind;
}

uint32_t fault_of_vectors(struct nic *nic, uint32_t vectors)
{
	struct faults *faults = &nic->faults;
	uint32_t lost = vectors & faults->losing, left;

	for (left = lost; left; left &= left - 1) {
		unsigned int vector = __builtin_ctz(left);

		faults->fired++;
		log_fault("interrupt of vector %u lost", vector);
		if (faults->lose[vector] != FAULT_ALWAYS)
			fault_lose(nic, vector, faults->lose[vector] - 1);
	}
	return vectors & ~lost;
}

/* xorshift, so that a seed gives the same garbage each time. */
static void fill_garbage(struct nic *nic, void *to, size_t len)
{
	uint64_t *chance = &nic->faults.chance;
	uint8_t *bytes = to;
	size_t i;

	for (i = 0; i < len; i++) {
		*chance ^= *chance << 13;
		*chance ^= *chance >> 7;
		*chance ^= *chance << 17;
		bytes[i] = (uint8_t)(*chance >> 32);
	}
}

bool fault_stray(struct nic *nic, uint16_t tag, uint8_t status)
{
	struct moor_cpl cpl = { .tag = htole16(tag), .status = status };

	if (!command_inject(nic, &cpl))
		return false;
	nic->faults.fired++;
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
		nic->faults.fired++;
	}
	return i;
}

uint32_t fault_garbage_events(struct nic *nic, uint32_t eqn, uint32_t count)
{
	struct moor_eqe eqe;
	uint32_t i;

	for (i = 0; i < count; i++) {
		fill_garbage(nic, &eqe, sizeof(eqe));
		/* Half of them of types that there are, but not the last word. */
		if (i & 1)
			eqe.type &= 0x1f;
		if (eqe.type == MOOR_EVENT_DEVICE_FATAL)
			eqe.type = 0xff;
		if (!event_inject(nic, eqn, &eqe))
			break;
		nic->faults.fired++;
	}
	return i;
}

bool fault_scribble(struct nic *nic)
{
	struct moor_cpl cpl;
	uint32_t i;

	if (!nic_works(nic))
		return false;
	for (i = 0; i < 1u << nic->cmd_log_size; i++) {
		fill_garbage(nic, &cpl, sizeof(cpl));
		if (!command_overwrite(nic, i, &cpl))
			return false;
	}
	nic->faults.fired++;
	nic->pending_vectors |= 1u << MOOR_VECTOR_CMD;
	event_flush(nic);
	return true;
}

bool fault_event(struct nic *nic, uint32_t eqn, uint8_t type, uint32_t number)
{
	struct moor_eqe eqe = { .type = type, .number = htole32(number) };

	if (!event_inject(nic, eqn, &eqe))
		return false;
	nic->faults.fired++;
	return true;
}

void fault_fatal(struct nic *nic)
{
	nic->faults.fired++;
	nic_fatal(nic, MOOR_FATAL_INJECTED);
}

void fault_link(struct nic *nic, bool up)
{
	if (nic->faults.link_down == !up)
		return;
	nic->faults.link_down = !up;
	nic->faults.fired++;
	event_post(nic, MOOR_EQ_ASYNC,
		   up ? MOOR_EVENT_PORT_UP : MOOR_EVENT_PORT_DOWN, 0,
		   &nic->backlogged);
	event_flush(nic);
}
