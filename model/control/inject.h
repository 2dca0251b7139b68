/* SPDX-License-Identifier: GPL-2.0 */
/* What the control socket makes the NIC do, beside the rules of base/fault.h. */
#ifndef MODEL_INJECT_H
#define MODEL_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "moor/moor_hw.h"

struct nic;

/* A well-formed completion for a tag, whether or not a command has this tag. */
bool fault_stray(struct nic *nic, uint16_t tag, uint8_t status);

/*
 * Entries as the NIC would write them, in turn and with the right phase, but of
 * random content. Return: how many there was room for.
 */
uint32_t fault_garbage_completions(struct nic *nic, uint32_t count);
uint32_t fault_garbage_events(struct nic *nic, uint32_t eqn, uint32_t count);

/* Writes garbage that looks new to the whole completion ring; its producer stays. */
bool fault_scribble(struct nic *nic);

bool fault_event(struct nic *nic, uint32_t eqn, uint8_t type, uint32_t number);
/* A page request that no half of a QP has made; its type and phase are filled in. */
bool fault_page_request(struct nic *nic,
			const struct moor_page_request *request);
void fault_fatal(struct nic *nic);

void fault_link(struct nic *nic, bool up);

#endif /* MODEL_INJECT_H */
