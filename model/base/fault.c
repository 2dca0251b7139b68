// SPDX-License-Identifier: GPL-2.0
/* Faults on demand: which commands, interrupts and ring entries go wrong. */
#include <endian.h>
#include <string.h>

#include "base/fault.h"
#include "base/lie.h"
#include "base/log.h"
#include "base/state.h"

#define log_fault(...)							\
	do {								\
		static struct log_site log_site_;			\
		log_limited(&log_site_, "fault", "control", __VA_ARGS__); \
	} while (0)

bool fault_add(struct nic *nic, const struct fault_rule *rule)
{
	struct faults *faults = nic->faults;

	if (faults->num_rules == FAULT_MAX_RULES)
		return false;
	faults->rule[faults->num_rules++] = *rule;
	return true;
}

void fault_lose(struct nic *nic, unsigned int vector, uint32_t count)
{
	nic->faults->lose[vector] = count;
	if (count)
		nic->faults->losing |= 1u << vector;
	else
		nic->faults->losing &= ~(1u << vector);
}

void fault_clear(struct nic *nic)
{
	nic->faults->num_rules = 0;
	nic->faults->losing = 0;
	nic->lies->where = 0;
}

void fault_reset(struct nic *nic, bool hangs)
{
	nic->faults->resets_hang = hangs;
	if (!hangs)
		nic->faults->resetting = false;
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
	struct faults *faults = nic->faults;
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
	struct faults *faults = nic->faults;
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
