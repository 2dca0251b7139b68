// SPDX-License-Identifier: GPL-2.0
/* On-demand paging: pages that are not there, and MR_INVALIDATE (HWI 6.10). */
#include <endian.h>

#include <stddef.h>

#include "memory/mr_state.h"
#include "memory/mr_strict.h"
#include "memory/odp.h"

bool odp_describe(struct nic *nic, const struct stream *s, uint32_t end,
		  struct moor_page_request *request)
{
	const struct mr_grant *grant = &s->grant;
	struct moor_mr_context entry;
	struct xlat xlat = { 0 };	/* stays zero if the entry has none by now */
	struct mr_dynamic *dyn = mr_find_entry(nic, grant->index, &entry, &xlat);
	uint64_t in_mr, left;
	uint32_t at;

	if (!dyn || !xlat.on_demand)
		return false;
	in_mr = grant->wanted - xlat.offset;
	if (in_mr >= le64toh(entry.length))
		return false;
	left = le64toh(entry.length) - in_mr;
	/* A receive's segment may reach beyond its MR. */
	at = s->granted_from + (uint32_t)(grant->wanted - grant->first);
	if (left > end - at)
		left = end - at;

	request->key = htole32(dyn->key);
	request->addr = htole64(le64toh(entry.iova) + in_mr);
	request->length = htole32((uint32_t)left);
	if (grant->write)
		request->flags |= MOOR_PAGE_REQUEST_WRITE;
	return true;
}

/*
 * HWI ODP-19, ODP-22. As with a revoke, one thread does all DMA, and does it
 * before it takes the next command.
 */
uint8_t odp_invalidate(struct nic *nic, const struct moor_cmd *raw,
		       struct moor_cpl *cpl)
{
	const struct moor_cmd_mr_invalidate *cmd = (const void *)raw;
	uint64_t addr = le64toh(cmd->addr), length = le64toh(cmd->length);
	uint32_t index = key_index(le32toh(cmd->key));
	struct moor_mr_context entry;
	struct mr_dynamic *dyn = mr_find_key(nic, le32toh(cmd->key), &entry);
	uint64_t first;

	if (!dyn || dyn->revoked)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_mr_invalidate, key);
	if (!(le32toh(entry.access) & MOOR_ACCESS_ON_DEMAND))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_STATE,
				struct moor_cmd_mr_invalidate, key);
	if (!length)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_mr_invalidate, length);
	if (!range_inside(addr, 1, le64toh(entry.iova), le64toh(entry.length)))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_mr_invalidate, addr);
	if (!range_inside(addr, length, le64toh(entry.iova),
			  le64toh(entry.length)))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_mr_invalidate, length);

	first = le64toh(entry.xlat.offset) + (addr - le64toh(entry.iova));
	if (nic->mr->strict)
		mr_strict_drop_range(nic, index, first, first + length - 1);
	return MOOR_CMD_OK;
}
