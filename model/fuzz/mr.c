// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: context entries and translation tables of any content, then
 * accesses by key (HWI 6 and 7). Grants are compared with a second implementation of
 * the document, which is slow and has no caches.
 */
#include <endian.h>
#include <stdlib.h>

#include "base/dma_map.h"
#include "memory/mr_state.h"
#include "memory/relaxed.h"
#include "queue.h"
#include "transport/qp.h"

static const struct moor_mr_context *entry_of(uint32_t index)
{
	return (const struct moor_mr_context *)w->mr_bar + index;
}

/* The NIC's own mapping of the guest's memory. */
static uint8_t *mapped;

static void find_mapped(void)
{
	uint64_t len = WORLD_SIZE;

	mapped = dma_map_ptr(w->dma, WORLD_BASE, &len, true);
	if (!mapped || len != WORLD_SIZE)
		abort();
}

/* Host memory of a DMA address as world_begin() maps it, or NULL. */
static uint8_t *reference_dma(uint64_t addr, bool write)
{
	if (addr - WORLD_BASE < WORLD_SIZE)
		return mapped + (addr - WORLD_BASE);
	if (addr - WORLD_READ_ONLY < WORLD_SIZE && !write)
		return mapped + (addr - WORLD_READ_ONLY);
	if (addr >= WORLD_TOP)
		return mapped + (addr - WORLD_TOP);
	return NULL;
}

/* reference_walk() found nothing only because a page is absent (HWI ODP-7). */
static bool reference_waits;

/* HWI XLT-4 to XLT-10, from the root for each byte. Return: where it is, or NULL. */
static uint8_t *reference_walk(const struct xlat *x, uint64_t byte, bool write)
{
	uint64_t entry = x->root, *node;
	unsigned int height;
	__uint128_t size = 0, addr;

	reference_waits = false;
	/* The root is an entry like others: a node with levels, a leaf without. */
	if (!(entry & MOOR_PTE_PRESENT) || entry & MOOR_PTE_RESERVED ||
	    !(entry & MOOR_PTE_LEAF) != !!x->levels ||
	    (x->levels && entry & MOOR_PTE_WRITABLE))
		return NULL;
	for (height = x->levels; height; height--) {
		unsigned int shift = x->page_shift + 9 * (height - 1);

		size = (__uint128_t)1 << shift;
		if (height == x->levels && byte / size >= 512)
			return NULL;
		node = (uint64_t *)reference_dma(entry & MOOR_PTE_ADDR, false);
		if (!node)
			return NULL;
		entry = le64toh(node[byte / size % 512]);
		reference_waits = x->on_demand && !(entry & MOOR_PTE_PRESENT);
		if (!(entry & MOOR_PTE_PRESENT) || entry & MOOR_PTE_RESERVED)
			return NULL;
		if (entry & MOOR_PTE_LEAF)
			break;
		if (entry & MOOR_PTE_WRITABLE)
			return NULL;
	}
	if (x->levels && !height)
		return NULL;
	if (x->levels && (entry & MOOR_PTE_ADDR) + size > (__uint128_t)1 << 64)
		return NULL;
	if (write && !(entry & MOOR_PTE_WRITABLE)) {
		reference_waits = x->on_demand;
		return NULL;
	}
	addr = (entry & MOOR_PTE_ADDR) + (x->levels ? byte % size : (__uint128_t)byte);
	if (x->memory == MOOR_MEMORY_NIC)
		return addr < NIC_DM_SIZE ? w->db_bar + NIC_DM_OFFSET + addr :
					    NULL;
	return addr >> 64 ? NULL : reference_dma((uint64_t)addr, write);
}

/* Checks HWI ACC-3 to ACC-12 of a grant, for a plain MR or a window. */
static void check_grant(const struct mr_grant *grant,
			const struct mr_actor *actor, uint32_t key,
			uint64_t addr, uint64_t len, uint32_t need)
{
	const struct moor_mr_context *e = entry_of(key >> 16);
	const struct moor_mr_context *mr = entry_of(grant->index);
	const struct mw_binding *b;
	uint64_t first = grant->first - le64toh(mr->xlat.offset);

	/* The PD of the MR behind a window counts only when it is bound (ACC-16). */
	if (e->pd != actor->pd ||
	    (uint32_t)(mr->valid >> 32) >> 16 != grant->index ||
	    (mr->valid & 0xff) != MOOR_MRC_TYPE_MR)
		abort();
	/* The lowest byte of a window's key changes only inside the device. */
	if (((e->valid >> 32) ^ key) & (e == mr ? ~0u : ~0xffu))
		abort();
	if ((__uint128_t)first + len > mr->length)
		abort();
	if (e != mr) {
		b = &w->nic->mr->window[(key >> 16) - NIC_MR_CONSUMER_FIRST];
		if ((b->access & need) != need || addr < b->iova ||
		    (__uint128_t)addr + len > (__uint128_t)b->iova + b->length)
			abort();
		return;
	}
	if ((mr->access & need) != need || addr < mr->iova ||
	    (__uint128_t)addr + len > (__uint128_t)mr->iova + mr->length ||
	    first != addr - mr->iova)
		abort();
}

/* Checks each run of a grant, at its first and its last byte. */
static void check_runs(struct mr_grant *grant, uint64_t len, bool compare)
{
	unsigned int runs = 40;
	uint64_t off, run;
	uint8_t *ptr;

	for (off = 0; off < len && runs; off += run, runs--) {
		uint8_t *first = NULL, syndrome;
		bool waits;

		if (compare)
			first = reference_walk(&grant->xlat, grant->first + off,
					       grant->write);
		run = len - off;
		syndrome = mr_grant_ptr(w->nic, grant, off, &run, &ptr);
		waits = syndrome == SYN_PAGE_FAULT;
		if (compare && (!syndrome != !!first || waits != reference_waits))
			abort();
		if (waits && (!grant->xlat.on_demand ||
			      grant->wanted != grant->first + off))
			abort();
		if (syndrome)
			return;
		if (!run || run > len - off)
			abort();
		if (compare && (first != ptr ||
				reference_walk(&grant->xlat,
					       grant->first + off + run - 1,
					       grant->write) != ptr + run - 1))
			abort();
		*(volatile uint8_t *)ptr;
		*(volatile uint8_t *)(ptr + run - 1);
		fuzz_reached++;
	}
}

/* A grant of all that a key names, for FLUSH: tables are not read (HWI MPE-8). */
static void flush_by_key(struct input *in)
{
	uint8_t how = input_u8(in);
	uint32_t key = some_key(in), need = 0;
	const struct moor_mr_context *e = entry_of(key >> 16);
	struct qp *qp = world_qp(how & 1);
	uint64_t addr = e->iova, len = e->length;
	const struct mw_binding *b;
	struct mr_grant grant;

	need |= how & 2 ? MOOR_ACCESS_FLUSH_GLOBAL : 0;
	need |= how & 4 ? MOOR_ACCESS_FLUSH_PERSISTENT : 0;
	if (!qp || !need ||
	    mr_grant_whole(w->nic, &qp->actor, key, need, &grant))
		return;
	if (grant.kind == MR_KIND_ALL && !qp->actor.kernel)
		abort();
	if (grant.kind != MR_KIND_TABLE || w->nic->mr->strict)
		return;
	if (key >> 16 >= NIC_MR_CONSUMER_FIRST) {
		b = &w->nic->mr->window[(key >> 16) - NIC_MR_CONSUMER_FIRST];
		addr = b->iova;
		len = b->length;
	}
	check_grant(&grant, &qp->actor, key, addr, len, need);
	fuzz_reached++;
}

static void access_by_key(struct input *in)
{
	static const uint32_t needs[] = {
		0, MOOR_ACCESS_LOCAL_WRITE, MOOR_ACCESS_REMOTE_READ,
		MOOR_ACCESS_REMOTE_WRITE, MOOR_ACCESS_REMOTE_ATOMIC,
		MOOR_ACCESS_FLUSH_GLOBAL, MOOR_ACCESS_FLUSH_PERSISTENT,
		WORLD_FLUSH,
	};
	uint8_t how = input_u8(in);
	struct qp *qp = world_qp(how & 1);
	struct mr_actor other = { .qpn = 77, .pd = WORLD_PD, .kernel = true };
	const struct mr_actor *actor = qp && how & 2 ? &qp->actor : &other;
	uint32_t need = needs[how >> 2 & 7], key = some_key(in);
	const struct moor_mr_context *e = entry_of(key >> 16);
	uint64_t addr = some_number(in), len = some_number(in);
	struct mr_grant grant;

	/* Near the MR, so that the checks after the bounds are reached. */
	if (how & 0x40)
		addr = page_addr(PAGE_DATA) + (addr & 0x7fff);
	else if (!(how & 0x80))
		addr += e->iova;
	/* To the MR's end, or a few bytes more or less. */
	if (len < 8)
		len += e->iova + e->length - addr - 3;
	if (!len || mr_grant_access(w->nic, actor, key, addr, len, need, &grant))
		return;
	if (grant.kind == MR_KIND_TABLE) {
		/* --strict may go on using earlier entries. */
		if (!w->nic->mr->strict)
			check_grant(&grant, actor, key, addr, len, need);
		check_runs(&grant, len, !w->nic->mr->strict && !w->dma_changed &&
			   w->nic->bus_master);
	} else if (grant.kind == MR_KIND_ALL) {
		if (!actor->kernel)
			abort();
		check_runs(&grant, len, false);
	}
}

static void bind_window(struct input *in)
{
	uint8_t how = input_u8(in);
	struct qp *qp = world_qp(how & 1);
	uint32_t key = some_key(in);
	struct mw_request req = {
		.mw_key = key, .new_key = key ^ (how >> 1 & 3),
		.mr_lkey = some_key(in),
		.access = (how >> 4 & 0x0e) | (how & 0xc0u) << 2,
		.addr = page_addr(PAGE_DATA) + (some_number(in) & 0x7fff),
		.length = some_number(in),
	};

	if (how & 8)
		req.addr = entry_of(req.mr_lkey >> 16)->iova;
	if (how & 4)
		req.new_key = key ^ 1;
	if (how & 0x10)
		req.access |= input_u8(in);
	if (how & 0x20)
		req.access |= (uint32_t)MOOR_BIND_ZERO_BASED;
	if (qp && !mw_bind(w->nic, &qp->actor, &req))
		fuzz_reached++;
}

static void invalidate(struct input *in)
{
	struct qp *qp = world_qp(input_below(in, 2));
	uint32_t key = some_key(in);

	if (qp)
		mw_invalidate(w->nic, &qp->actor, key);
}

/* Each MR's count of windows is the number of windows bound to it. */
static void check_counts(void)
{
	static const uint32_t windows[] = {
		0x8000, 0x8001, 0x8002, 0x8003, 0xffff,
	};
	unsigned int i, k;

	for (i = 2; i < 7; i++) {
		const struct mr_dynamic *mr = &w->nic->mr->dynamic[i];
		uint32_t bound = 0;

		for (k = 0; k < sizeof(windows) / sizeof(windows[0]); k++) {
			const struct mw_binding *b =
				&w->nic->mr->window[windows[k] - NIC_MR_CONSUMER_FIRST];

			bound += w->nic->mr->dynamic[windows[k]].bound &&
				 b->mr_index == i && b->mr_epoch == mr->epoch;
		}
		if (bound != mr->windows)
			abort();
	}
}

/* The list of a QP holds windows that are bound on it, and is linked both ways. */
static void check_list(const struct mr_actor *actor)
{
	uint32_t index, last = 0, count = 0;

	for (index = actor->windows; index; index = w->nic->mr->window[index -
					      NIC_MR_CONSUMER_FIRST].next) {
		const struct mw_binding *b =
			&w->nic->mr->window[index - NIC_MR_CONSUMER_FIRST];

		if (b->owner != actor || b->prev != last ||
		    !w->nic->mr->dynamic[index].bound || ++count > NIC_NUM_MW)
			abort();
		last = index;
	}
}

/* After an invalidation translations are those of the table, not those known before. */
static void invalidate_range(struct input *in)
{
	struct moor_cmd_mr_invalidate cmd = {
		.hdr.opcode = MOOR_CMD_MR_INVALIDATE, .key = some_key(in),
	};
	const struct moor_mr_context *e = entry_of(cmd.key >> 16);
	const struct mr_actor actor = { .qpn = 77, .pd = le32toh(e->pd) };
	struct mr_grant grant;

	cmd.addr = e->iova + some_number(in);
	cmd.length = some_number(in);
	if (cmd.length < 8)
		cmd.length += e->iova + e->length - cmd.addr;
	if (command(&cmd, sizeof(cmd)))
		return;
	fuzz_reached++;
	if (!mr_grant_access(w->nic, &actor, cmd.key, cmd.addr, cmd.length, 0,
			     &grant))
		check_runs(&grant, cmd.length, !w->dma_changed &&
			   w->nic->bus_master);
}

static void revoke_or_ask(struct input *in)
{
	struct moor_cmd_mr_revoke revoke = {
		.hdr.opcode = MOOR_CMD_MR_REVOKE, .count = 1,
	};
	struct moor_cmd_mr_query query = { .hdr.opcode = MOOR_CMD_MR_QUERY };
	struct moor_cmd_mr_windows windows = {
		.hdr.opcode = MOOR_CMD_MR_WINDOWS,
		.buffer = page_addr(PAGE_DATA + 15),
	};
	uint8_t how = input_u8(in);
	uint32_t key;

	if (how & 0x40) {
		invalidate_range(in);
		return;
	}
	key = some_key(in);
	switch (how & 3) {
	case 0:
		query.key = key;
		command(&query, sizeof(query));
		break;
	case 1:
		windows.key = key;
		windows.cursor = how & 0x80 ? some_index(in) : 0;
		command(&windows, sizeof(windows));
		break;
	default:
		revoke.key[0] = key;
		command(&revoke, sizeof(revoke));
		break;
	}
}

/* Bytes from one key to another, which may be the same. */
static void move(struct input *in)
{
	struct qp *qp = world_qp(0);
	struct segment to[2], from;
	struct stream streams[2], *culprit;
	unsigned int i;

	if (!qp)
		return;
	for (i = 0; i < 2; i++)
		to[i] = (struct segment){
			.addr = page_addr(PAGE_DATA) + input_u8(in) * 64ull,
			.length = input_u16(in), .key = some_key(in),
		};
	from = (struct segment){
		.addr = page_addr(PAGE_DATA) + (some_number(in) & 0xffff),
		.length = to[0].length + to[1].length, .key = some_key(in),
	};
	streams[0] = (struct stream){
		.actor = &qp->actor, .segments = to, .num_segments = 2,
		.need = MOOR_ACCESS_LOCAL_WRITE,
	};
	streams[1] = (struct stream){
		.actor = &qp->actor, .segments = &from, .num_segments = 1,
		.need = input_u8(in) & 1 ? MOOR_ACCESS_REMOTE_READ : 0,
	};
	if (!transfer(w->nic, &streams[0], &streams[1], from.length, &culprit))
		fuzz_reached++;
	/* As at the end of a QP's quantum. */
	relaxed_release(w->nic);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	unsigned int i;

	world_begin(input_u8(&in) & 1);
	find_mapped();
	world_setup();
	world_connect();
	world_enter_regions();
	while (input_left(&in) && w->runs) {
		switch (input_below(&in, 13)) {
		case 0:
		case 1:
		case 2:
		case 3:
			access_by_key(&in);
			break;
		case 4:
			bind_window(&in);
			break;
		case 5:
			invalidate(&in);
			break;
		case 6:
			revoke_or_ask(&in);
			break;
		case 7:
			move(&in);
			break;
		case 12:
			flush_by_key(&in);
			break;
		default:
			common_step(&in);
			break;
		}
		check_counts();
		for (i = 0; i < 2; i++)
			if (world_qp(i))
				check_list(&world_qp(i)->actor);
	}
	return 0;
}
