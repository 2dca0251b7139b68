// SPDX-License-Identifier: GPL-2.0
/* Filters: which QPs get a datagram that is sent to a group (HWI 12.5). */
#include <endian.h>
#include <string.h>

#include "base/layout.h"
#include "transport/filter.h"
#include "transport/gid.h"
#include "transport/qp.h"

const struct filter *filter_next(const struct nic *nic, const uint8_t *gid,
				 uint32_t *at)
{
	while (*at < NIC_MAX_FILTER) {
		const struct filter *f = &nic->filters->filter[(*at)++];

		if (f->used && !memcmp(f->gid, gid, sizeof(f->gid)))
			return f;
	}
	return NULL;
}

void filter_forget(struct nic *nic, uint32_t qpn)
{
	uint32_t i;

	for (i = 0; i < NIC_MAX_FILTER; i++) {
		if (nic->filters->filter[i].qpn == qpn)
			nic->filters->filter[i].used = false;
	}
}

/* The filter of this QP and GID; else an unused entry; else NULL. */
static struct filter *find(struct nic *nic, uint32_t qpn, const uint8_t *gid)
{
	struct filter *room = NULL;
	uint32_t i;

	for (i = 0; i < NIC_MAX_FILTER; i++) {
		struct filter *f = &nic->filters->filter[i];

		if (!f->used)
			room = room ? room : f;
		else if (f->qpn == qpn && !memcmp(f->gid, gid, sizeof(f->gid)))
			return f;
	}
	return room;
}

static uint8_t check(struct nic *nic, const struct moor_cmd_filter *cmd,
		     struct moor_cpl *cpl)
{
	const struct qp *qp = qp_find(nic, le32toh(cmd->qpn));

	if (cmd->type != MOOR_FILTER_MULTICAST)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM, struct moor_cmd_filter,
				type);
	if (!gid_is_multicast(cmd->gid))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM, struct moor_cmd_filter,
				gid);
	if (!qp || !qp->datagrams)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX, struct moor_cmd_filter,
				qpn);
	return MOOR_CMD_OK;
}

uint8_t filter_attach(struct nic *nic, const struct moor_cmd *raw,
		      struct moor_cpl *cpl)
{
	const struct moor_cmd_filter *cmd = (const void *)raw;
	uint8_t status = check(nic, cmd, cpl);
	struct filter *f;

	if (status)
		return status;
	f = find(nic, le32toh(cmd->qpn), cmd->gid);
	if (!f)
		return MOOR_CMD_NO_RESOURCE;
	f->used = true;
	f->qpn = le32toh(cmd->qpn);
	memcpy(f->gid, cmd->gid, sizeof(f->gid));
	return MOOR_CMD_OK;
}

uint8_t filter_detach(struct nic *nic, const struct moor_cmd *raw,
		      struct moor_cpl *cpl)
{
	const struct moor_cmd_filter *cmd = (const void *)raw;
	uint8_t status = check(nic, cmd, cpl);
	struct filter *f;

	if (status)
		return status;
	f = find(nic, le32toh(cmd->qpn), cmd->gid);
	if (!f || !f->used)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX, struct moor_cmd_filter,
				gid);
	f->used = false;
	return MOOR_CMD_OK;
}
