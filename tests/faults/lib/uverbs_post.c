// SPDX-License-Identifier: GPL-2.0
/*
 * The calls by which uverbs posts and polls on behalf of a process. They must be
 * refused: processes ring their queues themselves, and a REG_MR would carry DMA
 * addresses.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "uverbs_build.h"

#define REG_MR	0x20	/* enum ib_wr_opcode: a work request for kernel clients only */

static void build_post_send(void)
{
	struct ib_uverbs_send_wr wr = {
		.wr_id = 1, .opcode = one_in(2) ? REG_MR : below(16),
	};
	struct ib_uverbs_post_send core = {
		.qp_handle = pick(QP), .wr_count = 1, .wqe_size = sizeof(wr),
	};

	command(IB_USER_VERBS_CMD_POST_SEND, &core, sizeof(core), &wr, sizeof(wr),
		sizeof(struct ib_uverbs_post_send_resp));
}

static void build_post_recv(void)
{
	struct ib_uverbs_recv_wr wr = { .wr_id = 1 };
	struct ib_uverbs_post_recv core = {
		.qp_handle = pick(QP), .wr_count = 1, .wqe_size = sizeof(wr),
	};

	command(IB_USER_VERBS_CMD_POST_RECV, &core, sizeof(core), &wr, sizeof(wr),
		sizeof(struct ib_uverbs_post_recv_resp));
}

static void build_poll_cq(void)
{
	struct ib_uverbs_poll_cq core = { .cq_handle = pick(CQ), .ne = 1 };

	command(IB_USER_VERBS_CMD_POLL_CQ, &core, sizeof(core), NULL, 0,
		sizeof(struct ib_uverbs_poll_cq_resp) + sizeof(struct ib_uverbs_wc));
}

/* Has no answer: its structure begins with the CQ instead of an address. */
static void build_req_notify_cq(void)
{
	struct ib_uverbs_req_notify_cq core = { .cq_handle = pick(CQ) };

	command(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &core, sizeof(core), NULL, 0, 0);
}

int post_refused(void)
{
	static void (* const builds[])(void) = {
		build_post_send, build_post_recv, build_poll_cq, build_req_notify_cq,
	};
	int err;

	builds[below(4)]();
	err = issue();
	if (!err)
		_exit(6);
	return err == EOPNOTSUPP ? 0 : err;
}
