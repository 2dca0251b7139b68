/* SPDX-License-Identifier: GPL-2.0 */
/* The command ring (HWI 8). */
#ifndef MODEL_COMMAND_H
#define MODEL_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"

struct commands {
	/* registers */
	uint64_t base;
	uint64_t cpl_base;
	uint32_t log_size;

	uint32_t consumer;
	uint32_t cpl_producer;
	uint64_t cpl_arm_done;
	struct moor_cpl again;	/* of a command that is answered twice */
	bool again_due;
};

bool command_pending(struct nic *nic);
/* Carries out a bounded number of commands. Return: true when there were any. */
bool command_run(struct nic *nic);
/* Carries out all commands posted by now; later ones do not keep it from returning. */
void command_run_posted(struct nic *nic);
void command_reset(struct nic *nic);
/* The opcode of this name, or -1. */
int command_opcode(const char *name);
const char *command_name(uint8_t opcode);
/* Writes a completion of no command, and interrupts. Return: false if it cannot. */
bool command_inject(struct nic *nic, const struct moor_cpl *cpl);
/* Writes entry @index of the completion ring as if it were new, in turn or not. */
bool command_overwrite(struct nic *nic, uint32_t index,
		       const struct moor_cpl *cpl);

#endif /* MODEL_COMMAND_H */
