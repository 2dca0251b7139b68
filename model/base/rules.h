/* SPDX-License-Identifier: GPL-2.0 */
/* Which rule of the hardware interface refused something, for the log: "HWI MR-1". */
#ifndef MODEL_RULES_H
#define MODEL_RULES_H

#include <stdint.h>

const char *syndrome_name(uint8_t syndrome);
/* The rule of 6.3 that an access broke. */
const char *syndrome_rule(uint8_t syndrome);
/* The rule for the status that a command completes with. */
const char *command_rule(uint8_t status);
/* The rule for the opcode, status and syndrome that a send WQE completes with. */
const char *work_rule(uint8_t opcode, uint8_t status, uint8_t syndrome);

#endif /* MODEL_RULES_H */
