// SPDX-License-Identifier: GPL-2.0
/* The fake NIC's shared receive queues and filters (HWI 10.3, 12.5). */

#include "fake.h"

struct fake_srq *fake_find_srq(struct fake_nic *nic, __le32 srqn)
{
	struct fake_srq *srq = &nic->srqs[le32_to_cpu(srqn) %
					  ARRAY_SIZE(nic->srqs)];

	return srq->live && srq->srqn == le32_to_cpu(srqn) ? srq : NULL;
}

u8 fake_create_srq(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_create_srq *cmd = data;
	u32 srqn = le32_to_cpu(cmd->srqn);
	struct fake_srq *srq = &nic->srqs[srqn % ARRAY_SIZE(nic->srqs)];
	u8 status;

	if (srqn >> 24 || cmd->flags & ~(MOOR_SRQ_FLAG_KERNEL | MOOR_SRQ_FLAG_XRC) ||
	    cmd->log_stride < MOOR_MIN_LOG_RQ_STRIDE ||
	    cmd->log_stride > MOOR_MAX_LOG_STRIDE ||
	    !fake_doorbell_ok(nic, cmd->doorbell))
		return MOOR_CMD_BAD_PARAM;
	if (!(cmd->flags & MOOR_SRQ_FLAG_XRC) &&
	    (cmd->xrcd || cmd->cqn || cmd->cookie))
		return MOOR_CMD_BAD_RESERVED;
	if (srq->live)
		return MOOR_CMD_BAD_INDEX;
	status = fake_check_ring(nic, &cmd->ring,
				 1ULL << (cmd->log_depth + cmd->log_stride),
				 false);
	if (!status)
		*srq = (struct fake_srq){
			.live = true,
			.srqn = srqn,
			.pd = le32_to_cpu(cmd->pd),
			.flags = cmd->flags,
			.log_depth = cmd->log_depth,
			.log_stride = cmd->log_stride,
			.xrcd = le32_to_cpu(cmd->xrcd),
			.cqn = le32_to_cpu(cmd->cqn),
			.cookie = le32_to_cpu(cmd->cookie),
		};
	return status;
}

u8 fake_modify_srq(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_modify_srq *cmd = data;
	struct fake_srq *srq = fake_find_srq(nic, cmd->srqn);
	u32 mask = le32_to_cpu(cmd->mask);
	u8 log_depth, status;

	if (!srq)
		return MOOR_CMD_BAD_INDEX;
	log_depth = mask & MOOR_SRQ_ATTR_RING ? cmd->log_depth : srq->log_depth;
	if (mask & ~MOOR_SRQ_ATTR_ALL ||
	    (mask & MOOR_SRQ_ATTR_LIMIT &&
	     le32_to_cpu(cmd->limit) > 1U << log_depth))
		return MOOR_CMD_BAD_PARAM;
	if (mask & MOOR_SRQ_ATTR_RING) {
		status = fake_check_ring(nic, &cmd->ring,
					 1ULL << (log_depth + cmd->log_stride),
					 false);
		if (status)
			return status;
		srq->log_depth = log_depth;
		srq->log_stride = cmd->log_stride;
	}
	if (mask & MOOR_SRQ_ATTR_LIMIT)
		srq->limit = le32_to_cpu(cmd->limit);
	return MOOR_CMD_OK;
}

u8 fake_query_srq(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_query_srq *cmd = data;
	struct fake_srq *srq = fake_find_srq(nic, cmd->srqn);
	struct moor_cpl_query_srq *cpl = out;

	if (!srq)
		return MOOR_CMD_BAD_INDEX;
	cpl->limit = cpu_to_le32(srq->limit);
	cpl->consumer = cpu_to_le32(srq->consumer);
	return MOOR_CMD_OK;
}

u8 fake_destroy_srq(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_destroy_srq *cmd = data;
	struct fake_srq *srq = fake_find_srq(nic, cmd->srqn);
	u32 i;

	if (!srq)
		return MOOR_CMD_BAD_INDEX;
	for (i = 0; i < ARRAY_SIZE(nic->qps); i++)
		if (nic->qps[i].live && nic->qps[i].has_srq &&
		    nic->qps[i].srqn == srq->srqn)
			return MOOR_CMD_BUSY;
	srq->live = false;
	return MOOR_CMD_OK;
}

static struct fake_filter *fake_find_filter(struct fake_nic *nic,
					    const struct moor_cmd_filter *cmd)
{
	u32 i;

	for (i = 0; i < FAKE_MAX_FILTER; i++)
		if (nic->filters[i].live &&
		    nic->filters[i].qpn == le32_to_cpu(cmd->qpn) &&
		    !memcmp(nic->filters[i].gid, cmd->gid, sizeof(cmd->gid)))
			return &nic->filters[i];
	return NULL;
}

u8 fake_attach_filter(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_filter *cmd = data;
	u32 i;

	if (cmd->type != MOOR_FILTER_MULTICAST)
		return MOOR_CMD_BAD_PARAM;
	if (fake_find_filter(nic, cmd))
		return MOOR_CMD_OK;
	for (i = 0; i < FAKE_MAX_FILTER; i++) {
		struct fake_filter *filter = &nic->filters[i];

		if (filter->live)
			continue;
		filter->live = true;
		filter->qpn = le32_to_cpu(cmd->qpn);
		memcpy(filter->gid, cmd->gid, sizeof(filter->gid));
		return MOOR_CMD_OK;
	}
	return MOOR_CMD_NO_RESOURCE;
}

u8 fake_detach_filter(struct fake_nic *nic, const void *data, void *out)
{
	struct fake_filter *filter = fake_find_filter(nic, data);

	if (!filter)
		return MOOR_CMD_BAD_INDEX;
	filter->live = false;
	return MOOR_CMD_OK;
}
