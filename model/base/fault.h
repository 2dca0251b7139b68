/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the NIC does wrong because somebody asked for it (control.c). The engine
 * looks at these where it answers a command and where it raises a vector; with
 * nothing asked for that costs it a load.
 */
#ifndef MODEL_FAULT_H
#define MODEL_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "device/nic.h"
#include "moor/moor_hw.h"

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
	uint32_t after;		/* so many of them are let through first */
	uint32_t left;		/* commands that it is still good for */
};

struct faults {
	struct fault_rule rule[FAULT_MAX_RULES];
	uint32_t num_rules;
	uint32_t lose[NIC_NUM_VECTORS];	/* interrupts that are not to be raised */
	uint32_t losing;		/* a bit for each vector with some */
	bool link_down;
	uint64_t chance;		/* state of what makes garbage */
	uint64_t fired;			/* how often something went wrong */
};

/* Return: false when there is no room for another rule. */
bool fault_add(struct nic *nic, const struct fault_rule *rule);
void fault_lose(struct nic *nic, unsigned int vector, uint32_t count);

/* Forgets the rules and the interrupts that are to be lost, and ends the lies. */
void fault_clear(struct nic *nic);

/* What is to happen to this command; @status is filled in for FAULT_FAIL. */
enum fault_kind fault_of_command(struct nic *nic, uint8_t opcode,
				 uint8_t *status);

/* Those of @vectors that are to be raised. */
uint32_t fault_of_vectors(struct nic *nic, uint32_t vectors);

/* A well-formed completion for a tag, whoever has it. */
bool fault_stray(struct nic *nic, uint16_t tag, uint8_t status);

/*
 * Entries as the NIC would write them, in turn and with the right phase, but of
 * random content. Return: how many there was room for.
 */
uint32_t fault_garbage_completions(struct nic *nic, uint32_t count);
uint32_t fault_garbage_events(struct nic *nic, uint32_t eqn, uint32_t count);

/* All of the completion ring looks new; the NIC goes on where it was. */
bool fault_scribble(struct nic *nic);

bool fault_event(struct nic *nic, uint32_t eqn, uint8_t type, uint32_t number);
void fault_fatal(struct nic *nic);

void fault_link(struct nic *nic, bool up);

#endif /* MODEL_FAULT_H */
