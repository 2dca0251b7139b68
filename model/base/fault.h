/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the NIC does wrong because a control client asked for it (control/). The NIC
 * looks at the rules where it answers a command and where it raises a vector; without
 * rules that costs one load.
 */
#ifndef MODEL_FAULT_H
#define MODEL_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/random.h"

struct nic;

#define FAULT_MAX_RULES		16u
#define FAULT_ANY_OPCODE	(-1)
#define FAULT_ALWAYS		UINT32_MAX	/* a count that never runs out */

enum fault_kind {
	FAULT_NONE,
	FAULT_FAIL,		/* answered with a status, not carried out */
	FAULT_DROP,		/* carried out, never answered */
	FAULT_TWICE,		/* answered again under the next command */
};

/* What happens to commands of an opcode. */
struct fault_rule {
	enum fault_kind kind;
	int opcode;		/* or FAULT_ANY_OPCODE */
	uint8_t status;		/* FAULT_FAIL: enum moor_cmd_status, or none of it */
	uint32_t after;		/* so many such commands are let through first */
	uint32_t left;		/* commands that the rule still applies to */
};

struct faults {
	struct fault_rule rule[FAULT_MAX_RULES];
	uint32_t num_rules;
	uint32_t lose[NIC_NUM_VECTORS];	/* interrupts that are not to be raised */
	uint32_t losing;		/* a bit for each vector that loses interrupts */
	bool link_down;
	bool resets_hang;		/* a reset that begins does not end */
	bool resetting;			/* it has begun */
	struct random random;		/* for the content of garbage entries */
	uint64_t fired;			/* how often something went wrong */
};

/* Return: false when there is no room for another rule. */
bool fault_add(struct nic *nic, const struct fault_rule *rule);
void fault_lose(struct nic *nic, unsigned int vector, uint32_t count);

/* Forgets the rules and the interrupts that are to be lost, and ends the lies. */
void fault_clear(struct nic *nic);

/* Resets do not end any more; or they do again, the one that hangs with them. */
void fault_reset(struct nic *nic, bool hangs);

/* What is to happen to this command; @status is filled in for FAULT_FAIL. */
enum fault_kind fault_of_command(struct nic *nic, uint8_t opcode,
				 uint8_t *status);

/* Return: @vectors without those whose interrupt is to be lost now. */
uint32_t fault_of_vectors(struct nic *nic, uint32_t vectors);

#endif /* MODEL_FAULT_H */
