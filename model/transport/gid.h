/* SPDX-License-Identifier: GPL-2.0 */
/* The GID table of the port. */
#ifndef MODEL_GID_H
#define MODEL_GID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"

struct gid_entry {
	uint8_t type;		/* enum moor_gid_type */
	uint16_t vlan;
	uint8_t smac[6];
	uint8_t gid[16];
};

struct gids {
	struct gid_entry entry[NIC_MAX_GID];
};

/* Is @gid in an entry of this NIC's GID table? */
bool gid_is_own(const struct nic *nic, const uint8_t *gid);
/* ::ffff:a.b.c.d (HWI UD-4) */
bool gid_is_ipv4(const uint8_t *gid);
bool gid_is_multicast(const uint8_t *gid);
uint8_t gid_set(struct nic *nic, const struct moor_cmd *cmd,
		struct moor_cpl *cpl);

#endif /* MODEL_GID_H */
