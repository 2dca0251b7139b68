// SPDX-License-Identifier: GPL-2.0
/* On-NIC memory (HWI 7.3). */
#include <string.h>

#include "traffic.h"
#include "vfio_user.h"

static struct moor_xlat on_nic(uint64_t offset)
{
	return (struct moor_xlat){
		.root = (offset & MOOR_PTE_ADDR) | MOOR_PTE_PRESENT |
			MOOR_PTE_LEAF | MOOR_PTE_WRITABLE,
		.offset = offset & ~MOOR_PTE_ADDR, .page_shift = 12,
		.memory = MOOR_MEMORY_NIC,
	};
}

/* Place @wanted of it, or one at its beginning that is as far into a page. */
static uint64_t nic_place(uint64_t wanted)
{
	return wanted < dev.dm_size ? wanted : wanted % PAGE;
}

static uint32_t nic_mr(struct moor_xlat xlat, uint64_t length)
{
	struct moor_mr_context e = mr_entry(PD, ALL_RIGHTS, 0x40000, length);

	e.xlat = xlat;
	return make_entry(&e, MOOR_MRC_TYPE_MR);
}

static bool nic_holds(uint64_t offset, uint64_t memory, unsigned int len)
{
	unsigned int i;
	uint64_t word;

	for (i = 0; i < len; i += 8) {
		word = bar_read64(MOOR_BAR_DB, dev.dm_offset + offset + i);
		if (memcmp(&word, at(memory + i), 8))
			return false;
	}
	return true;
}

TEST_CASE(nic_memory, "on-NIC memory as a translation, and through BAR4",
	  "XLT-14 XLT-16 ORD-1 ORD-15", HAS(DM))
{
	uint64_t last = dev.dm_size - PAGE, odd = nic_place(2 * PAGE + 16);
	struct pair p;
	uint32_t key;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 3; i++) {
		uint64_t place = i == 0 ? 0 : i == 1 ? last : last / 2 & ~(PAGE - 1);

		about("at 0x%llx", (unsigned long long)place);
		key = nic_mr(on_nic(place), PAGE);
		fill(p.buf[0], PAGE, 30 + i);
		expect_remote(&p, MOOR_WQE_WRITE, key, 0x40000, PAGE, true);
		expect(nic_holds(place, p.buf[0], PAGE), "the data is elsewhere");
		bar_write64(MOOR_BAR_DB, dev.dm_offset + place + 8, 0x1122334455);
		reg_read(MOOR_REG_FENCE);
		expect_local(&p, MOOR_WQE_WRITE, key, 0x40000, PAGE, 0);
		expect(((uint64_t *)at(p.buf[1]))[1] == 0x1122334455,
		       "what the CPU wrote is not there");
		expect_local(&p, MOOR_WQE_READ, key, 0x40000, PAGE, 0);
	}
	about("a byte offset");
	key = nic_mr(on_nic(odd), 64);
	expect_remote(&p, MOOR_WQE_WRITE, key, 0x40000, 64, true);
	expect(nic_holds(odd, p.buf[0], 64), "the data is elsewhere");
	if (dev.features & MOOR_FEATURE_ATOMICS) {
		bar_write64(MOOR_BAR_DB, dev.dm_offset + odd, 41);
		expect_remote(&p, MOOR_WQE_FETCH_ADD, key, 0x40000, 8, true);
		expect(bar_read64(MOOR_BAR_DB, dev.dm_offset + odd) == 42, "an atomic");
	}
}

TEST_CASE(nic_memory_bytes, "a store into on-NIC memory changes the bytes it covers, no others",
	  "XLT-19", HAS(DM))
{
	static const struct {
		uint32_t offset, size;
	} stores[] = {
		{ 0, 1 }, { 7, 1 }, { 9, 2 }, { 12, 4 }, { 22, 4 }, { 35, 3 },
		{ 44, 12 }, { 61, 8 }, { 70, 100 }, { 512, 64 },
	};
	const uint32_t size = 1024;
	uint64_t shadow = take_filled(size, 7), from = take_filled(size, 8);
	unsigned int i;

	for (i = 0; i < size; i += 8)
		bar_write64(MOOR_BAR_DB, dev.dm_offset + i,
			    *(uint64_t *)at(shadow + i));
	for (i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
		about("%u bytes at %u", stores[i].size, stores[i].offset);
		memcpy(at(shadow + stores[i].offset), at(from), stores[i].size);
		expect(!vfio_user_write(MOOR_BAR_DB,
					dev.dm_offset + stores[i].offset,
					at(from), stores[i].size), "refused");
		reg_read(MOOR_REG_FENCE);
		expect(nic_holds(0, shadow, size), "other bytes have changed");
	}
}

TEST_CASE(nic_memory_end, "beyond the on-NIC memory there is no translation; levels is 0",
	  "XLT-14 XLT-7 MR-14", HAS(DM))
{
	struct moor_xlat xlat = on_nic(dev.dm_size - PAGE);
	struct moor_cqe cqe;
	struct pair p;
	unsigned int i;
	uint8_t due;

	make_pair(&p);
	for (i = 0; i < 5; i++) {
		static const char * const what[] = {
			"a byte beyond", "an offset beyond", "a root beyond",
			"a tree", "an offset that wraps",
		};

		about("%s", what[i]);
		xlat = on_nic(dev.dm_size - PAGE);
		if (i == 0)
			xlat.offset = PAGE - 64;
		else if (i == 1)
			xlat.offset = PAGE;
		else if (i == 2)
			xlat.root += PAGE;
		else if (i == 3)
			xlat.levels = 1;
		else if (i == 4)
			xlat.offset = ~0ull - PAGE / 2;
		cqe = move(&p, MOOR_WQE_WRITE, 0x40000,
			   nic_mr(xlat, i == 0 ? 65 : i == 4 ? PAGE : 64),
			   p.buf[1], p.key[1], i == 0 ? 65 : 64);
		due = i < 3 ? MOOR_SYN_TRANSLATION : MOOR_SYN_KEY;
		expect(cqe.status == MOOR_WC_LOC_PROT_ERR && cqe.syndrome == due,
		       "status %u, syndrome %u", cqe.status, cqe.syndrome);
		reconnect(&p);
	}
}

TEST_CASE(nic_memory_window, "a window on on-NIC memory has its own place in it",
	  "MW-16 XLT-14", HAS(DM))
{
	struct pair p;
	uint32_t key;

	make_pair(&p);
	skip_unless(dev.features &
		    (MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B));
	key = make_window(PD, dev.features & MOOR_FEATURE_MW_TYPE_1 ?
			  MOOR_MRC_TYPE_MW_1 : MOOR_MRC_TYPE_MW_2);
	post_send(&p.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW,
		.bind = { .mw_key = key, .new_key = key,
			  .mr_lkey = nic_mr(on_nic(nic_place(PAGE)), PAGE),
			  .access = ALL_REMOTE, .addr = 0x40000 + 128,
			  .length = 256 },
	});
	expect_cqe(&p.cq[1], 0, MOOR_WC_SUCCESS, 0);
	expect_remote(&p, MOOR_WQE_WRITE, key, 0x40000 + 128, 256, true);
	expect(nic_holds(nic_place(PAGE) + 128, p.buf[0], 256), "the data is elsewhere");
}

TEST_CASE(no_nic_memory, "without the feature an entry that asks for it is none",
	  "FEAT-2 XLT-7", 0)
{
	struct moor_mr_context e = mr_entry(PD, ALL_RIGHTS, 0x40000, PAGE);
	struct pair p;

	make_pair(&p);
	e.xlat = on_nic(0);
	expect_local(&p, MOOR_WQE_WRITE, make_entry(&e, MOOR_MRC_TYPE_MR),
		     0x40000, 8, dev.features & MOOR_FEATURE_DM ? 0 :
		     MOOR_SYN_KEY);
}
