// SPDX-License-Identifier: GPL-2.0
/* Commands that are refused, events that find no room, fatal errors (HWI 8). */
#include <stddef.h>
#include <string.h>

#include "control/inject.h"
#include "guest.h"

static struct guest *g;

static void refused(const char *what, const void *cmd, size_t size,
		    uint8_t status, uint32_t detail)
{
	uint8_t got = command(g, cmd, size);

	ok(got == status && g->cpl.detail == detail,
	   "%s: status %u at %u (wanted %u at %u)", what, got, g->cpl.detail,
	   status, detail);
}

/* The completion names this field of the command. */
#define REFUSED(what, cmd, status, field) \
	refused(what, &(cmd), sizeof(cmd), status, \
		(uint32_t)offsetof(__typeof__(cmd), field))

static void test_common(void)
{
	struct moor_cmd cmd = { .hdr.opcode = 0x7f };

	refused("unknown opcode", &cmd, sizeof(cmd), MOOR_CMD_BAD_OPCODE, 0);
	cmd.hdr.opcode = MOOR_CMD_PAGE_RESPONSE + 1;
	refused("the first that is free", &cmd, sizeof(cmd), MOOR_CMD_BAD_OPCODE,
		0);
	cmd.hdr.opcode = MOOR_CMD_NOP;
	ok(!command(g, &cmd, sizeof(cmd)), "NOP");
	cmd.hdr.reserved1 = 1;
	REFUSED("reserved byte of the head", cmd, MOOR_CMD_BAD_RESERVED,
		hdr.reserved1);
	cmd.hdr.reserved1 = 0;
	cmd.in[50] = 1;
	REFUSED("unused byte", cmd, MOOR_CMD_BAD_RESERVED, in[50]);
}

static void test_eq(void)
{
	struct moor_cmd_create_eq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_EQ, .eqn = 3, .log_eqe = 4,
		.base = take(g, 4096),
	};
	struct moor_cmd_destroy_eq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = 3,
	};

	cmd.vector = NIC_NUM_VECTORS;
	REFUSED("EQ: vector", cmd, MOOR_CMD_BAD_PARAM, vector);
	cmd.vector = 3;
	cmd.log_eqe = 16;
	REFUSED("EQ: log_eqe", cmd, MOOR_CMD_BAD_PARAM, log_eqe);
	cmd.log_eqe = 4;
	cmd.base += 8;
	REFUSED("EQ: base", cmd, MOOR_CMD_BAD_PARAM, base);
	cmd.base = 0x9999000;
	REFUSED("EQ: unreachable", cmd, MOOR_CMD_DMA_FAULT, base);
	cmd.base = take(g, 4096);
	cmd.eqn = 18;
	REFUSED("EQ: number", cmd, MOOR_CMD_BAD_INDEX, eqn);
	cmd.eqn = 0;
	REFUSED("EQ: exists", cmd, MOOR_CMD_BAD_INDEX, eqn);
	REFUSED("destroy EQ: none", destroy, MOOR_CMD_BAD_INDEX, eqn);
	cmd.eqn = 3;
	ok(!command(g, &cmd, sizeof(cmd)), "create EQ");
	ok(!command(g, &destroy, sizeof(destroy)), "destroy EQ");
}

static void test_objects_in_use(void)
{
	struct moor_cmd_destroy_eq eq = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = 2,
	};
	struct moor_cmd_destroy_cq destroy_cq = {
		.hdr.opcode = MOOR_CMD_DESTROY_CQ, .cqn = 7,
	};
	struct moor_cmd_destroy_qp destroy_qp = {
		.hdr.opcode = MOOR_CMD_DESTROY_QP, .qpn = 0x12345,
	};
	struct moor_cmd_create_cq create_cq = {
		.hdr.opcode = MOOR_CMD_CREATE_CQ, .cqn = 8, .eqn = 2,
		.log_cqe = 4, .ring = flat(take(g, 4096)),
	};
	struct guest_cq cq;
	struct guest_qp qp;

	ok(!make_cq(g, &cq, 7, 4), "create CQ");
	ok(!make_qp(g, &qp, 0x12345, 5, &cq, &cq), "create QP");
	REFUSED("EQ in use", eq, MOOR_CMD_BUSY, eqn);
	REFUSED("CQ in use", destroy_cq, MOOR_CMD_BUSY, cqn);
	create_cq.doorbell = qp.sq_slot;
	REFUSED("slot in use", create_cq, MOOR_CMD_BUSY, doorbell);
	create_cq.doorbell = 8;
	REFUSED("slot of the EQs", create_cq, MOOR_CMD_BAD_PARAM, doorbell);
	create_cq.doorbell = NIC_DB_PAGES * 512;
	REFUSED("no such page", create_cq, MOOR_CMD_BAD_PARAM, doorbell);
	create_cq.doorbell = g->next_slot;
	create_cq.ring.root ^= 1ull << 40;
	REFUSED("ring unreachable", create_cq, MOOR_CMD_DMA_FAULT, ring);
	create_cq.ring.root ^= 1ull << 40;
	create_cq.ring.offset = 32;
	REFUSED("ring not aligned", create_cq, MOOR_CMD_BAD_PARAM, ring);
	create_cq.ring.offset = 0;
	create_cq.eqn = 9;
	REFUSED("no such EQ", create_cq, MOOR_CMD_BAD_INDEX, eqn);
	ok(!command(g, &destroy_qp, sizeof(destroy_qp)), "destroy QP");
	REFUSED("destroy QP again", destroy_qp, MOOR_CMD_BAD_INDEX, qpn);
	ok(!command(g, &destroy_cq, sizeof(destroy_cq)), "destroy CQ");
	create_cq.eqn = 2;
	create_cq.doorbell = qp.sq_slot;
	ok(!command(g, &create_cq, sizeof(create_cq)), "the slot is free again");
}

static void to_init(struct guest_qp *qp)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_INIT,
	};

	ok(!modify(g, &cmd, qp->qpn), "to INIT");
	cmd.state = MOOR_QPS_SQD;
	ok(modify(g, &cmd, qp->qpn) == MOOR_CMD_BAD_STATE, "INIT to SQD");
	cmd.mask = MOOR_QP_ATTR_TIMEOUT;
	cmd.timeout = 32;
	ok(modify(g, &cmd, qp->qpn) == MOOR_CMD_BAD_PARAM &&
	   g->cpl.detail == offsetof(struct moor_cmd_modify_qp, timeout),
	   "timeout 32");
}

/* Without a wire, only the NIC's own GIDs can be the end of a path (HWI QP-11). */
static void test_paths(void)
{
	struct moor_cmd_set_gid none = {
		.hdr.opcode = MOOR_CMD_SET_GID, .index = 3, .vlan = 0xfff,
	};
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_PATH, .dgid = { 0xfe, 0x80, [15] = 7 },
	};
	struct guest_qp qp;
	struct guest_cq cq;
	unsigned int i;

	ok(!make_cq(g, &cq, 7, 4) && !make_qp(g, &qp, 1, 5, &cq, &cq),
	   "create CQ, QP");
	guest_set_gid(g, 0, 1);
	guest_set_gid(g, 3, 7);
	ok(!modify(g, &cmd, 1), "a path to a GID of the table");
	for (i = 0; i < 128; i++) {
		cmd.dgid[i / 8] ^= 1u << i % 8;
		if (modify(g, &cmd, 1) != MOOR_CMD_BAD_PARAM ||
		    g->cpl.detail != offsetof(struct moor_cmd_modify_qp, dgid))
			break;
		cmd.dgid[i / 8] ^= 1u << i % 8;
	}
	ok(i == 128, "to one that differs in a bit: refused");
	/* For type NONE only the index counts (HWI GID-1). */
	memcpy(none.gid, cmd.dgid, sizeof(none.gid));
	ok(!command(g, &none, sizeof(none)), "the GID goes");
	ok(modify(g, &cmd, 1) == MOOR_CMD_BAD_PARAM, "to one that is gone");
	memset(cmd.dgid, 0, sizeof(cmd.dgid));
	ok(modify(g, &cmd, 1) == MOOR_CMD_BAD_PARAM, "to none");
	cmd.mask = MOOR_QP_ATTR_TIMEOUT;
	ok(!modify(g, &cmd, 1), "a path that is not in the mask is not looked at");
}

/* The EQ has 16 entries; 20 QPs drain before the events are consumed. */
static void test_events_kept(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_SQD_EVENT,
		.state = MOOR_QPS_SQD,
	};
	struct moor_cmd_destroy_qp destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_QP,
	};
	struct guest_qp qp[20];
	struct guest_cq cq;
	struct moor_eqe eqe;
	unsigned int i, n = 0;
	bool good = true;

	ok(!make_cq(g, &cq, 7, 4), "create CQ");
	guest_set_gid(g, 0, 1);
	for (i = 0; i < 20; i++) {
		good &= !make_qp(g, &qp[i], i, 5, &cq, &cq);
		if (!i)
			to_init(&qp[i]);
		connect_qp(g, &qp[i], 100);
		good &= !modify(g, &cmd, i);
	}
	/* Events of a destroyed QP are not delivered. */
	destroy.qpn = 18;
	good &= !command(g, &destroy, sizeof(destroy));
	while (next_event(g, 0, &eqe)) {
		good &= eqe.type == MOOR_EVENT_SQ_DRAINED && eqe.number == n;
		if (++n == 18)
			n = 19;
		settle(g);
	}
	ok(good && n == 20, "events wait for room, none is lost");
	ok(g->raised[1], "vector of EQ 0");
}

static void test_port_events_kept(void)
{
	struct moor_eqe eqe;
	unsigned int i, others = 0;

	for (i = 0; i < 16; i++)
		fault_event(g->nic, MOOR_EQ_ASYNC, 0xee, i);
	for (i = 0; i < 5; i++)
		fault_link(g->nic, i & 1);
	ok(!(nic_reg_read(g->nic, MOOR_REG_STATUS, 4) & MOOR_STATUS_LINK_UP),
	   "the link goes down though EQ 0 is full");
	for (i = 0; i < 16 && next_event(g, MOOR_EQ_ASYNC, &eqe); i++)
		others += eqe.type == 0xee;
	settle(g);
	ok(others == 16 && next_event(g, MOOR_EQ_ASYNC, &eqe) &&
	   eqe.type == MOOR_EVENT_PORT_DOWN && !eqe.number &&
	   next_event(g, MOOR_EQ_ASYNC, &eqe) &&
	   eqe.type == MOOR_EVENT_PORT_UP, "its events come when there is room");
	ok(!next_event(g, MOOR_EQ_ASYNC, &eqe),
	   "one of each: the others were one with them");
	fault_link(g->nic, true);
	ok(next_event(g, MOOR_EQ_ASYNC, &eqe) &&
	   eqe.type == MOOR_EVENT_PORT_UP, "and then the next one");
}

static void set_bus_master(bool on)
{
	dma_map_set_enabled(g->dma, on);
	nic_set_bus_master(g->nic, on);
}

/* What the link did while Bus Master Enable was clear comes when it is set (HWI ERR-10). */
static void test_port_events_stand_still(void)
{
	struct moor_eqe eqe;
	bool good;

	set_bus_master(false);
	fault_link(g->nic, false);
	fault_link(g->nic, true);
	settle(g);
	good = !next_event(g, MOOR_EQ_ASYNC, &eqe) && !g->raised[1];
	set_bus_master(true);
	settle(g);
	ok(good && next_event(g, MOOR_EQ_ASYNC, &eqe) &&
	   eqe.type == MOOR_EVENT_PORT_DOWN &&
	   next_event(g, MOOR_EQ_ASYNC, &eqe) &&
	   eqe.type == MOOR_EVENT_PORT_UP && g->raised[1],
	   "events of the link wait for Bus Master Enable");
	fault_link(g->nic, false);
	ok(next_event(g, MOOR_EQ_ASYNC, &eqe) &&
	   eqe.type == MOOR_EVENT_PORT_DOWN &&
	   !next_event(g, MOOR_EQ_ASYNC, &eqe), "and then the next one");
}

static void test_fatal(void)
{
	struct moor_eqe eqe;
	uint32_t i;
	uint64_t used = 0;

	((uint64_t *)g->db_bar)[0] = g->commands + 65;
	settle(g);
	ok(nic_reg_read(g->nic, MOOR_REG_FATAL_CODE, 4) ==
	   MOOR_FATAL_CMD_RING, "command producer index a ring ahead");
	ok(nic_reg_read(g->nic, MOOR_REG_STATUS, 4) & MOOR_STATUS_FATAL,
	   "STATUS.FATAL");
	ok(next_event(g, 0, &eqe) && eqe.type == MOOR_EVENT_DEVICE_FATAL &&
	   eqe.number == MOOR_FATAL_CMD_RING, "event DEVICE_FATAL");
	nic_reg_write(g->nic, MOOR_REG_CONTROL, MOOR_CONTROL_RESET, 4);
	ok(nic_reg_read(g->nic, MOOR_REG_STATUS, 4) ==
	   (MOOR_STATUS_READY | MOOR_STATUS_LINK_UP), "reset leads out");
	for (i = 0; i < NIC_MR_BAR_SIZE / 8; i++)
		used |= ((uint64_t *)g->mr_bar)[i];
	for (i = 0; i < NIC_DB_PAGES * 512; i++)
		used |= ((uint64_t *)g->db_bar)[i];
	ok(!used, "BAR2 and the doorbell pages are zero");
	nic_reg_write(g->nic, MOOR_REG_CMD_BASE, 0x123, 8);
	nic_reg_write(g->nic, MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE, 4);
	ok(nic_reg_read(g->nic, MOOR_REG_FATAL_CODE, 4) ==
	   MOOR_FATAL_BAD_SETUP, "ENABLE with a bad CMD_BASE");
	nic_reg_write(g->nic, MOOR_REG_CONTROL, MOOR_CONTROL_RESET, 4);
	guest_setup(g);
	ok(nic_reg_read(g->nic, MOOR_REG_STATUS, 4) & MOOR_STATUS_ENABLED,
	   "and works again");
}

static void with_guest(void (*test)(void))
{
	g = guest_start(false);
	test();
	guest_stop(g);
}

int main(void)
{
	with_guest(test_common);
	with_guest(test_eq);
	with_guest(test_objects_in_use);
	with_guest(test_paths);
	with_guest(test_events_kept);
	with_guest(test_port_events_kept);
	with_guest(test_port_events_stand_still);
	with_guest(test_fatal);
	return done();
}
