// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: event and completion queues that fill, are consumed in any way,
 * armed, resized, taken away, and whose memory goes (HWI 9 and 11).
 */
#include <endian.h>
#include <stdlib.h>

#include "queue.h"
#include "queues/cq.h"
#include "queues/event.h"

/* Messages without data: CQEs at both ends. */
static void post(struct input *in)
{
	uint8_t how = input_u8(in);
	unsigned int i = how & 1, count = 1 + (how >> 1 & 7), k;

	for (k = 0; k < count; k++) {
		struct moor_sq_wqe *wqe = next_send(i);

		wqe->opcode = how & 0x10 ? MOOR_WQE_SEND : MOOR_WQE_WRITE;
		wqe->flags = how & 0x20 ? 0 : MOOR_WQE_FLAG_SIGNALED;
		wqe->flags |= how & 0x40 ? MOOR_WQE_FLAG_SOLICITED : 0;
		/* A malformed WQE ends the QP: the rest is flushed. */
		if (how & 0x80 && k == 3)
			wqe->opcode = 0x33;
		next_recv(!i)->wr_id = k;
	}
	ring_recv(!i);
	ring_send(i);
}

static void consume_cq(struct input *in)
{
	uint8_t how = input_u8(in);
	unsigned int i = how & 1;
	struct cq *cq = cq_find(w->nic, i);
	uint64_t arm = (uint64_t)(how >> 1 & 3) << 32 |
		       (uint64_t)input_u8(in) << 34;

	if (how & 0x80)
		set_slot(WORLD_SLOT(i), some_number(in));
	else if (cq)
		set_slot(WORLD_SLOT(i), arm | (cq->producer - (how >> 4 & 7)));
}

static void consume_eq(struct input *in)
{
	uint8_t how = input_u8(in);
	unsigned int eqn = how & 3;
	uint32_t producer = w->nic->events->eq[eqn].producer;

	set_slot(MOOR_DB_SLOT_EQ_CONSUMER + eqn,
		 how & 0x80 ? some_number(in) : producer - (how >> 4 & 7));
	world_run();
}

static void resize_cq(struct input *in)
{
	struct moor_cmd_resize_cq cmd = {
		.hdr.opcode = MOOR_CMD_RESIZE_CQ, .cqn = input_below(in, 3),
		.log_cqe = (uint8_t)input_below(in, 9),
		.ring = some_xlat(in),
	};

	fuzz_reached += !command(&cmd, sizeof(cmd));
}

static void moderate_cq(struct input *in)
{
	struct moor_cmd_modify_cq cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_CQ, .cqn = input_below(in, 3),
		.count = input_u8(in), .period = input_u16(in),
	};

	fuzz_reached += !command(&cmd, sizeof(cmd));
}

static void make_or_break(struct input *in)
{
	uint8_t how = input_u8(in);
	struct moor_cmd_create_cq create_cq = {
		.hdr.opcode = MOOR_CMD_CREATE_CQ, .cqn = how >> 4 & 3,
		.eqn = 2 + (how >> 6 & 1), .log_cqe = (uint8_t)(how >> 3 & 7),
		.doorbell = WORLD_SLOT(how >> 4 & 7),
	};
	struct moor_cmd_create_eq create_eq = {
		.hdr.opcode = MOOR_CMD_CREATE_EQ, .eqn = how >> 4 & 3,
		.vector = how & 15, .log_eqe = (uint8_t)(how >> 3 & 7),
		.base = page_addr(PAGE_EQ + (how >> 4 & 3)),
	};
	/* EQ, CQ and QP have their number in the same place. */
	struct moor_cmd_destroy_cq destroy = { .cqn = how >> 4 & 3 };

	switch (how & 7) {
	case 0:
	case 1:
		create_cq.ring = some_xlat(in);
		command(&create_cq, sizeof(create_cq));
		break;
	case 2:
	case 3:
		command(&create_eq, sizeof(create_eq));
		break;
	case 4:
		destroy.hdr.opcode = MOOR_CMD_DESTROY_EQ;
		command(&destroy, sizeof(destroy));
		break;
	case 5:
		destroy.hdr.opcode = MOOR_CMD_DESTROY_QP;
		destroy.cqn = WORLD_QPN(how >> 4 & 1);
		command(&destroy, sizeof(destroy));
		break;
	default:
		destroy.hdr.opcode = MOOR_CMD_DESTROY_CQ;
		command(&destroy, sizeof(destroy));
		break;
	}
}

/* For events that are not completions: a drained queue, QPs in error. */
static void change_state(struct input *in)
{
	uint8_t how = input_u8(in);
	struct moor_cmd_modify_qp cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_QP, .qpn = WORLD_QPN(how & 1),
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_SQD_EVENT,
		.state = how >> 1 & 7,
	};

	command(&cmd, sizeof(cmd));
}

/* Events that wait for room (HWI EV-3) fit into the backlog; a dead EQ has no CQs. */
static void check_eqs(void)
{
	unsigned int eqn;

	for (eqn = 0; eqn < NIC_MAX_EQ; eqn++) {
		const struct eq *eq = &w->nic->events->eq[eqn];

		if (eq->exists && eq->backlog_count > eq->backlog_room)
			abort();
		if (!eq->exists && eq->num_cq)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	world_begin(input_u8(&in) & 1);
	world_setup();
	world_connect();
	while (input_left(&in) && w->runs) {
		switch (input_below(&in, 12)) {
		case 0:
		case 1:
		case 2:
			post(&in);
			break;
		case 3:
		case 4:
			consume_cq(&in);
			break;
		case 5:
		case 6:
			consume_eq(&in);
			break;
		case 7:
			resize_cq(&in);
			break;
		case 8:
			make_or_break(&in);
			break;
		case 9:
			change_state(&in);
			break;
		case 10:
			moderate_cq(&in);
			break;
		default:
			common_step(&in);
			break;
		}
		check_eqs();
	}
	fuzz_reached += successes();
	return 0;
}
