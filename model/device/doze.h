/* SPDX-License-Identifier: GPL-2.0 */
/* How the NIC sleeps, and how the driver knows that it has to kick (HWI 5). */
#ifndef MODEL_DOZE_H
#define MODEL_DOZE_H

#include <stdbool.h>
#include <stdint.h>

struct nic;

struct doze {
	uint64_t addr;		/* register */
	bool dozing;		/* the word at @addr is set */
};

void doze_reset(struct nic *nic);

#endif /* MODEL_DOZE_H */
