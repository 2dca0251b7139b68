/* SPDX-License-Identifier: GPL-2.0 */
/* Identity and switches of a NIC, from the options of moor-nic. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/impairment.h"

struct nic_config {
	uint64_t node_guid;	/* EUI-64, its first byte in bits 63:56 */
	uint8_t mac[6];
	uint64_t without;	/* MOOR_FEATURE_*: what it does not have */
	bool strict;		/* do what the specification only allows */
	bool sync_commands;	/* a command is done when its kick returns */
	uint64_t seed;
	struct impairment impairment;	/* of packets, from the start */
};

#endif /* MODEL_CONFIG_H */
