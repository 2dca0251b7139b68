// SPDX-License-Identifier: GPL-2.0
/* Numbers and steps that all targets of the engine share. */
#include <endian.h>

#include "base/dma_map.h"
#include "transport/qp.h"
#include "world.h"

uint64_t some_addr(struct input *in)
{
	static const uint64_t bases[] = {
		WORLD_BASE, WORLD_BASE, WORLD_BASE, WORLD_BASE, WORLD_BASE,
		WORLD_READ_ONLY, WORLD_NO_FILE, WORLD_TOP,
	};
	uint64_t addr = bases[input_below(in, 8)];

	addr += input_below(in, WORLD_PAGES) * MOOR_PAGE_SIZE;
	if (input_u8(in) & 1)
		addr += input_u8(in) * 16ull;
	return addr;
}

uint64_t some_number(struct input *in)
{
	uint8_t how = input_u8(in);

	switch (how >> 5) {
	case 0:
		return how;
	case 1:
		return -(uint64_t)(how & 31);
	case 2:
		return 1ull << 2 * (how & 31);
	case 3:
		return (1ull << 2 * (how & 31)) - 1;
	case 4:
		return input_u8(in);
	case 5:
		return some_addr(in);
	case 6:
		return input_u16(in);
	default:
		return input_u64(in);
	}
}

/* A key; its low bits are a nonce for MRs, and a consumer's byte for windows. */
uint32_t some_key(struct input *in)
{
	uint32_t index = some_index(in);
	uint8_t how = input_u8(in);
	uint32_t key = index << 16 | 0x1200;

	if (how == 0xff)
		return input_u32(in);
	if (how == 0xfe)
		return NIC_NULL_LKEY;
	if (index < NIC_MR_CONSUMER_FIRST)
		return key | how >> 7;
	return key | (how & 1);
}

static uint64_t some_entry(struct input *in)
{
	uint8_t how = input_u8(in);
	unsigned int page = PAGE_TABLE + (how >> 2 & 15);
	uint64_t entry = MOOR_PTE_PRESENT;

	if (how == 0xff)
		return some_number(in);
	/* A node or a leaf, which names a table or data. */
	if (how & 1)
		entry |= MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	if (how & 2)
		entry ^= input_u8(in) & 0x0f;
	if (page == PAGE_TABLE)
		page = input_below(in, WORLD_PAGES);
	switch (how >> 6) {
	case 2:
		return entry | (WORLD_READ_ONLY + page * MOOR_PAGE_SIZE);
	case 3:
		return entry | (WORLD_TOP + (page & 1) * MOOR_PAGE_SIZE);
	default:
		return entry | page_addr(page);
	}
}

/* Any offset; or a few pages before the end of a node's span. */
static uint64_t some_offset(struct input *in)
{
	uint8_t how = input_u8(in);
	uint64_t end = (1ull + (how & 3)) << (21 + 9 * (how >> 2 & 3));

	return how & 0x80 ? some_number(in) :
			    end - (how >> 4 & 7) * MOOR_PAGE_SIZE;
}

struct moor_xlat some_xlat(struct input *in)
{
	uint8_t how = input_u8(in);
	struct moor_xlat x = flat(page_addr(PAGE_DATA + (how & 15)));

	if (how & 0x10)
		x.offset = some_offset(in);
	if (how & 0x20) {
		x.levels = (uint8_t)input_below(in, 6);
		if (x.levels)
			x.root = page_addr(PAGE_TABLE + input_below(in, 4)) |
				 MOOR_PTE_PRESENT;
	}
	if (how & 0x40) {
		x.page_shift = input_u8(in);
		if (x.page_shift < 128)
			x.page_shift = 12 + x.page_shift % 28;
	}
	if (how & 0x80) {
		uint8_t what = input_u8(in);

		if (what & 1)
			x.root = some_entry(in);
		if (what & 2)
			x.memory = (uint8_t)input_below(in, 3);
		if (what & 4)
			x.entries = input_u8(in);
		if (what & 8)
			x.root = (some_number(in) & 0x3ff000) |
				 MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
				 MOOR_PTE_WRITABLE;
	}
	return x;
}

static void write_memory(struct input *in)
{
	unsigned int page = input_below(in, WORLD_PAGES);
	uint64_t *at = world_ptr(page_addr(page));

	at += input_u16(in) % 512;
	*at = some_number(in);
}

/* Writes a run of entries of a table. */
static void write_table(struct input *in)
{
	unsigned int page = PAGE_TABLE + input_below(in, 4);
	uint64_t *table = world_ptr(page_addr(page));
	unsigned int first = input_u8(in), count = input_below(in, 16) + 1;

	if (first & 0x80)
		first += 512 - 256;
	while (count--)
		table[first++ % MOOR_NODE_ENTRIES] = some_entry(in);
}

/* Writes a context entry, of a type that fits the index, mostly. */
static void write_entry(struct input *in)
{
	static const uint8_t mr_types[] = { 1, 1, 1, 1, 1, 5, 2, 0 };
	static const uint8_t mw_types[] = { 3, 4, 3, 4, 3, 4, 2, 1 };
	uint32_t index = some_index(in), key = index << 16 | 0x1200;
	uint8_t how = input_u8(in), odd = input_u8(in);
	bool window = index >= NIC_MR_CONSUMER_FIRST;
	uint8_t type = (window ? mw_types : mr_types)[how & 7];
	struct moor_mr_context e = { .pd = WORLD_PD };

	if (!window)
		key |= how >> 7;
	if (type == MOOR_MRC_TYPE_MR) {
		e.access = (WORLD_FLUSH | 0x3f) & ~(odd & 0x1fu) &
			   ~((odd & 3u) << 8);
		e.xlat = some_xlat(in);
		e.iova = how & 8 ? some_number(in) : page_addr(PAGE_DATA);
		e.length = how & 16 ? some_number(in) : 4 * MOOR_PAGE_SIZE;
	}
	if (how & 0x40)
		e.access |= MOOR_ACCESS_ON_DEMAND;
	if (odd & 0x80)
		e.pd = input_u8(in);
	if (odd & 0x40) {
		unsigned int at = input_below(in, 7) + 1;

		((uint64_t *)&e)[at] ^= some_number(in);
	}
	if (odd & 0x20)
		key = (uint32_t)some_number(in);
	if (how & 32)
		w->generation++;
	e.valid = (uint64_t)key << 32 | (uint64_t)w->generation << 8 | type;
	put_entry(index, &e);
}

static void write_slot(struct input *in)
{
	static const uint32_t fixed[] = {
		MOOR_DB_SLOT_CMD_PRODUCER, MOOR_DB_SLOT_CPL_ARM,
		MOOR_DB_SLOT_EQ_CONSUMER, MOOR_DB_SLOT_EQ_CONSUMER + 1,
		MOOR_DB_SLOT_EQ_CONSUMER + 2, MOOR_DB_SLOT_KERNEL_FIRST,
	};
	uint8_t which = input_u8(in);
	uint32_t slot = which & 1 ? WORLD_SLOT(which >> 1 & 7u) :
				    fixed[(which >> 1) % 6];
	uint64_t *at = (uint64_t *)w->db_bar + slot;

	set_slot(slot, which & 0x80 ? some_number(in) : *at + input_u8(in) % 16);
	if (which & 0x40)
		nic_kick(w->nic, slot / MOOR_DB_SLOTS_PER_PAGE,
			 slot % MOOR_DB_SLOTS_PER_PAGE);
}

/* The guest maps and unmaps pages while the NIC works. */
static void change_dma(struct input *in)
{
	uint64_t addr = some_addr(in) & ~(uint64_t)(MOOR_PAGE_SIZE - 1);
	uint64_t len = (1 + input_below(in, 8)) * MOOR_PAGE_SIZE;
	uint8_t how = input_u8(in);

	w->dma_changed = true;
	if (how & 1)
		dma_map_remove(w->dma, addr, len);
	else
		dma_map_add(w->dma, addr, len, how >> 1 & 3,
			    how & 8 ? -1 : w->fd,
			    (how >> 4) * MOOR_PAGE_SIZE);
}

static void change_power(struct input *in)
{
	uint8_t how = input_u8(in);

	if (how < 0x80) {
		/* As the endpoint does it. */
		if (how & 1)
			dma_map_set_enabled(w->dma, true);
		nic_set_bus_master(w->nic, how & 1);
		if (!(how & 1))
			dma_map_set_enabled(w->dma, false);
	} else if (w->resets) {
		w->resets--;
		nic_reset(w->nic);
		world_setup();
		if (how & 1)
			world_connect();
	}
}

static void kick(struct input *in)
{
	uint32_t page = input_u16(in), slot = input_u16(in) % 600;

	nic_kick(w->nic, page, slot);
	world_run();
}

void world_answer(unsigned int i, bool responder, uint8_t status)
{
	const struct qp *qp = qp_find(w->nic, WORLD_QPN(i));
	struct moor_cmd_page_response cmd = {
		.hdr.opcode = MOOR_CMD_PAGE_RESPONSE, .status = status,
	};

	if (!qp)
		return;
	cmd.token = responder ? qp->resp.half.token : qp->req.half.token;
	command(&cmd, sizeof(cmd));
}

void common_step(struct input *in)
{
	uint8_t which = input_u8(in);

	switch (which % 16) {
	case 0:
	case 1:
		write_memory(in);
		break;
	case 2:
	case 3:
		write_table(in);
		break;
	case 4:
	case 5:
	case 6:
		write_entry(in);
		break;
	case 7:
	case 8:
		write_slot(in);
		world_run();
		break;
	case 9:
		change_dma(in);
		break;
	case 10:
		change_power(in);
		break;
	case 11:
		world_run_timers();
		break;
	case 12:
		kick(in);
		break;
	case 13:
		connect_qp(which >> 7);
		break;
	case 14:
		world_answer(which >> 6 & 1, which >> 5 & 1,
			     which & 0x80 ? MOOR_PAGE_RESOLVED :
					    MOOR_PAGE_FAILED);
		break;
	default:
		world_run();
		break;
	}
}
