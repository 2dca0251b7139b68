// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: registers in any order and width, set-up with rings anywhere, kicks,
 * bus mastering (HWI 4, 5 and 14).
 */
#include "world.h"

static const uint32_t offsets[] = {
	MOOR_REG_MAGIC, MOOR_REG_VERSION, MOOR_REG_STATUS, MOOR_REG_CONTROL,
	MOOR_REG_FEATURES, MOOR_REG_PAGE_SIZES, MOOR_REG_MAC,
	MOOR_REG_MR_INDEX_BITS, MOOR_REG_NULL_LKEY, MOOR_REG_DM_OFFSET,
	MOOR_REG_CMD_BASE, MOOR_REG_CMD_BASE + 4, MOOR_REG_CPL_BASE,
	MOOR_REG_CPL_BASE + 4, MOOR_REG_CMD_LOG_SIZE, MOOR_REG_DOZE_ADDR,
	MOOR_REG_DOZE_ADDR + 4, MOOR_REG_FENCE, MOOR_REG_CLOCK,
	MOOR_REG_FATAL_CODE,
};

/* An offset that the endpoint accepts: 4 or 8 bytes, aligned, below the MSI-X table. */
static uint32_t some_offset(struct input *in, unsigned int size)
{
	uint8_t how = input_u8(in);
	uint32_t offset = how < 0xe0 ?
		offsets[how % (sizeof(offsets) / sizeof(offsets[0]))] :
		input_u16(in) % MOOR_MSIX_TABLE_OFFSET;

	return offset & ~(size - 1);
}

static void write_register(struct input *in)
{
	unsigned int size = input_u8(in) & 1 ? 8 : 4;
	uint32_t offset = some_offset(in, size);
	uint64_t value = some_number(in);
	bool control = offset == MOOR_REG_CONTROL;

	/* Each reset costs as much as a thousand other steps. */
	if (control && ((value & MOOR_CONTROL_RESET) ||
			(w->nic->enabled && !(value & MOOR_CONTROL_ENABLE)))) {
		if (!w->resets)
			return;
		w->resets--;
	}
	nic_reg_write(w->nic, offset, value, size);
}

/* Sets the RW registers as a driver would, with up to two wrong values. */
static void set_up(struct input *in)
{
	uint64_t value[] = {
		page_addr(PAGE_CMD), page_addr(PAGE_CPL), WORLD_LOG_CMD,
		page_addr(PAGE_DOZE),
	};
	uint8_t odd = input_u8(in);

	if (odd & 0x80)
		value[odd & 3] = some_number(in);
	if (odd & 0x40)
		value[odd >> 2 & 3] = some_number(in);
	nic_reg_write(w->nic, MOOR_REG_CMD_BASE, value[0], 8);
	nic_reg_write(w->nic, MOOR_REG_CPL_BASE, value[1], 8);
	nic_reg_write(w->nic, MOOR_REG_CMD_LOG_SIZE, value[2], 4);
	nic_reg_write(w->nic, MOOR_REG_DOZE_ADDR, value[3], 8);
	nic_reg_write(w->nic, MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE, 4);
	fuzz_reached += nic_reg_read(w->nic, MOOR_REG_STATUS, 4) >> 1 & 1;
}

static void some_event_queue(struct input *in)
{
	struct moor_cmd_create_eq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_EQ, .eqn = input_below(in, 3),
		.vector = (uint16_t)input_below(in, NIC_NUM_VECTORS),
		.log_eqe = (uint8_t)input_below(in, 8),
		.base = page_addr(PAGE_EQ + input_below(in, 3)),
	};

	command(&cmd, sizeof(cmd));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t how = input_u8(&in);

	world_begin(how & 1);
	w->nic->cfg.sync_commands = how & 2;
	while (input_left(&in) && w->runs) {
		unsigned int width;

		switch (input_below(&in, 8)) {
		case 0:
		case 1:
			width = input_u8(&in) & 1 ? 8 : 4;
			nic_reg_read(w->nic, some_offset(&in, width), width);
			break;
		case 2:
		case 3:
			write_register(&in);
			break;
		case 4:
			set_up(&in);
			break;
		case 5:
			some_event_queue(&in);
			break;
		default:
			common_step(&in);
			break;
		}
		world_run();
	}
	return 0;
}
