// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: work requests of any content on a connected pair of QPs, with MRs,
 * windows and on-NIC memory to work on (HWI 10 and 12).
 */
#include "queue.h"

static void change_qp(struct input *in)
{
	uint8_t how = input_u8(in), access;
	struct moor_cmd_modify_qp cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_QP, .qpn = WORLD_QPN(how & 1),
		.mask = input_u16(in), .state = how >> 1 & 7,
		.path_mtu = 1 + (how >> 4 & 3), .dest_qpn = WORLD_QPN(how >> 6 & 1),
		.timeout = 3, .retry_cnt = 1,
		.rnr_retry = how >> 5, .max_rd_atomic = how >> 7,
		.max_dest_rd_atomic = 1, .dgid = { 0xfe, 0x80 },
		.qkey = WORLD_QKEY + (how >> 7),
	};

	access = input_u8(in);
	cmd.access = access & 0x0e;
	cmd.access_high = access >> 6;
	command(&cmd, sizeof(cmd));
}

/* Changes the limit or the ring of an SRQ, if the QPs have one. */
static void change_srq(struct input *in)
{
	uint8_t how = input_u8(in);
	struct moor_cmd_modify_srq cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_SRQ,
		.srqn = WORLD_SRQN + (world_is_xrc() && how & 0x04),
		.mask = how & 3, .limit = how >> 2 & 7,
		.log_depth = WORLD_LOG_DEPTH, .log_stride = WORLD_LOG_STRIDE,
		.ring = flat(page_addr(PAGE_RQ + (how >> 5 & 1))),
	};

	if (how & 0x40)
		cmd.log_depth = input_u8(in) & 15;
	if (how & 0x80)
		cmd.log_stride = input_u8(in) & 15;
	command(&cmd, sizeof(cmd));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t how = input_u8(&in);
	bool ring;

	world_begin(how & 1);
	world_setup();
	choose_queues(how);
	world_connect();
	world_enter_regions();
	while (input_left(&in) && w->runs) {
		uint8_t which = input_u8(&in);

		switch (which % 16) {
		case 0:
		case 1:
		case 2:
		case 3:
		case 4:
		case 5:
		case 6:
			ring = post_send(&in);
			if (ring)
				ring_send(0);
			if (ring)
				ring_send(1);
			break;
		case 7:
		case 8:
		case 9:
			post_recv(&in);
			break;
		case 10:
			post_raw(&in);
			break;
		case 11:
			if ((w->shared || world_is_xrc()) && which & 0x80)
				change_srq(&in);
			else
				change_qp(&in);
			break;
		case 12:
			connect_qp(which >> 7);
			connect_qp(!(which >> 7));
			break;
		case 13:
			world_run_timers();
			break;
		default:
			common_step(&in);
			break;
		}
	}
	fuzz_reached += successes();
	return 0;
}
