// SPDX-License-Identifier: GPL-2.0
/* The GID table of the port. */
#include <endian.h>
#include <string.h>

#include "base/layout.h"
#include "transport/gid.h"

bool gid_is_own(const struct nic *nic, const uint8_t *gid)
{
	unsigned int i;

	for (i = 0; i < NIC_MAX_GID; i++) {
		const struct gid_entry *entry = &nic->gids->entry[i];

		if (entry->type && !memcmp(entry->gid, gid, sizeof(entry->gid)))
			return true;
	}
	return false;
}

bool gid_is_ipv4(const uint8_t *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

	return !memcmp(gid, mapped, sizeof(mapped));
}

bool gid_is_multicast(const uint8_t *gid)
{
	return gid_is_ipv4(gid) ? gid[12] >> 4 == 0xe : gid[0] == 0xff;
}

uint8_t gid_set(struct nic *nic, const struct moor_cmd *raw,
		struct moor_cpl *cpl)
{
	const struct moor_cmd_set_gid *cmd = (const void *)raw;
	uint16_t index = le16toh(cmd->index), vlan = le16toh(cmd->vlan);
	struct gid_entry *entry;

	if (index >= NIC_MAX_GID)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_set_gid, index);
	if (cmd->type > MOOR_GID_ROCE_V2)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_set_gid, type);
	/* 12 bits, of which 0xfff is reserved by IEEE 802.1Q. */
	if (cmd->type != MOOR_GID_NONE && vlan != MOOR_GID_NO_VLAN &&
	    vlan >= 0xfff)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_set_gid, vlan);

	entry = &nic->gids->entry[index];
	*entry = (struct gid_entry){ .type = cmd->type };
	if (cmd->type != MOOR_GID_NONE) {
		entry->vlan = vlan;
		memcpy(entry->smac, cmd->smac, sizeof(entry->smac));
		memcpy(entry->gid, cmd->gid, sizeof(entry->gid));
	}
	return MOOR_CMD_OK;
}
