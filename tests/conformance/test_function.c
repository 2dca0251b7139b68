// SPDX-License-Identifier: GPL-2.0
/* Version, PCI identity, BARs (HWI 1 to 3). */
#include <linux/pci_regs.h>
#include <string.h>

#include "traffic.h"
#include "vfio_user.h"

TEST_CASE(identity, "vendor, device, subsystem, revision and class", "PCI-1", 0)
{
	uint16_t vendor = config_read16(PCI_VENDOR_ID);

	/* Other makers have their own IDs. */
	if (vendor == MOOR_PCI_VENDOR_ID) {
		expect(config_read16(PCI_DEVICE_ID) == MOOR_PCI_DEVICE_ID,
		       "%04x:%04x", vendor, config_read16(PCI_DEVICE_ID));
		expect(config_read16(PCI_SUBSYSTEM_VENDOR_ID) == vendor &&
		       config_read16(PCI_SUBSYSTEM_ID) == MOOR_PCI_DEVICE_ID,
		       "subsystem %04x:%04x",
		       config_read16(PCI_SUBSYSTEM_VENDOR_ID),
		       config_read16(PCI_SUBSYSTEM_ID));
	} else {
		expect(vendor && vendor != 0xffff, "%04x is nobody's", vendor);
	}
	expect(config_read32(PCI_CLASS_REVISION) ==
	       (MOOR_PCI_CLASS << 8 | MOOR_PCI_REVISION),
	       "class and revision 0x%08x", config_read32(PCI_CLASS_REVISION));
	config_write32(PCI_VENDOR_ID, 0);
	expect(config_read16(PCI_VENDOR_ID) == vendor,
	       "the vendor ID can be written");
}

TEST_CASE(version, "MAGIC, VERSION, and features of that version alone",
	  "VER-1 VER-6 VER-8 RSV-1", 0)
{
	const uint64_t reserved = MOOR_MASK(63, 17) | MOOR_BIT(6);
	uint32_t version = reg_read(MOOR_REG_VERSION);
	char bytes[4];

	vfio_user_read(MOOR_BAR_REGS, MOOR_REG_MAGIC, bytes, sizeof(bytes));
	expect(!memcmp(bytes, "MOOR", 4), "MAGIC is not \"MOOR\" in memory");
	expect(version >> 16 == MOOR_HW_VERSION_MAJOR &&
	       (int)(version & 0xffff) >= MOOR_HW_VERSION_MINOR,
	       "VERSION 0x%08x", version);
	expect(!(dev.features & reserved) ||
	       (int)(version & 0xffff) > MOOR_HW_VERSION_MINOR,
	       "FEATURES 0x%llx has bits that nobody knows",
	       (unsigned long long)dev.features);
}

TEST_CASE(capabilities, "a PCI Express endpoint with FLR and MSI-X, no legacy interrupt",
	  "PCI-3 PCI-6", 0)
{
	uint32_t pcie = config_capability(PCI_CAP_ID_EXP);
	uint32_t msix = config_capability(PCI_CAP_ID_MSIX);

	need(pcie && msix, "a capability is missing");
	expect((config_read16(pcie + PCI_EXP_FLAGS) & PCI_EXP_FLAGS_TYPE) >> 4 ==
	       PCI_EXP_TYPE_ENDPOINT, "no endpoint");
	expect(config_read32(pcie + PCI_EXP_DEVCAP) & PCI_EXP_DEVCAP_FLR,
	       "no FLR");
	expect((config_read16(msix + PCI_MSIX_FLAGS) & PCI_MSIX_FLAGS_QSIZE) + 1u
	       == dev.num_vectors && dev.msix_vectors == dev.num_vectors,
	       "vectors: %u by MSI-X, %u by the platform, %u by NUM_VECTORS",
	       (config_read16(msix + PCI_MSIX_FLAGS) & PCI_MSIX_FLAGS_QSIZE) + 1u,
	       dev.msix_vectors, dev.num_vectors);
	expect(config_read32(msix + PCI_MSIX_TABLE) == MOOR_MSIX_TABLE_OFFSET &&
	       config_read32(msix + PCI_MSIX_PBA) == MOOR_MSIX_PBA_OFFSET,
	       "MSI-X table at 0x%x, pending bits at 0x%x",
	       config_read32(msix + PCI_MSIX_TABLE),
	       config_read32(msix + PCI_MSIX_PBA));
	expect(!config_read8(PCI_INTERRUPT_PIN), "a legacy interrupt");
}

/* The size of a BAR, by writing all ones; and its flags. */
static uint64_t bar_size(unsigned int bar, uint32_t *flags)
{
	uint32_t where = PCI_BASE_ADDRESS_0 + 4 * bar, low, high;
	uint64_t mask;

	low = config_read32(where);
	high = config_read32(where + 4);
	config_write32(where, ~0u);
	config_write32(where + 4, ~0u);
	mask = (uint64_t)config_read32(where + 4) << 32 | config_read32(where);
	config_write32(where, low);
	config_write32(where + 4, high);
	*flags = mask & 0xf;
	return ~(mask & ~0xfull) + 1;
}

TEST_CASE(bars, "three BARs of 64 bits, of the sizes that the registers ask for",
	  "BAR-1 BAR-2 DB-1 DB-12 DB-21 MR-3 REG-4", 0)
{
	static const struct {
		unsigned int bar;
		uint32_t flags;
	} bars[] = {
		{ MOOR_BAR_REGS, PCI_BASE_ADDRESS_MEM_TYPE_64 },
		{ MOOR_BAR_MR, PCI_BASE_ADDRESS_MEM_TYPE_64 |
			       PCI_BASE_ADDRESS_MEM_PREFETCH },
		{ MOOR_BAR_DB, PCI_BASE_ADDRESS_MEM_TYPE_64 |
			       PCI_BASE_ADDRESS_MEM_PREFETCH },
	};
	uint64_t size, pages = (uint64_t)dev.db_pages * PAGE;
	unsigned int i;
	uint32_t flags;
	bool inside;

	for (i = 0; i < 3; i++) {
		about("BAR%u", bars[i].bar);
		size = bar_size(bars[i].bar, &flags);
		expect(flags == bars[i].flags, "flags 0x%x", flags);
		expect(size == dev.bar_size[bars[i].bar],
		       "0x%llx bytes, the platform says 0x%llx",
		       (unsigned long long)size,
		       (unsigned long long)dev.bar_size[bars[i].bar]);
	}
	about(NULL);
	expect(dev.bar_size[MOOR_BAR_REGS] == MOOR_BAR_REGS_SIZE &&
	       dev.bar_size[MOOR_BAR_MR] == (uint64_t)dev.num_keys *
	       sizeof(struct moor_mr_context), "BAR0 or BAR2 has another size");
	size = dev.bar_size[MOOR_BAR_DB];
	expect(!(size & (size - 1)) && dev.db_pages && pages <= size,
	       "BAR4: %u doorbell pages in 0x%llx bytes", dev.db_pages,
	       (unsigned long long)size);
	/* They are there also without DOZES (DB-21). */
	expect(dev.kick_offset >= pages && dev.kick_offset + pages <= size,
	       "BAR4: kick pages at 0x%x", dev.kick_offset);
	inside = dev.dm_offset >= dev.kick_offset + pages && dev.dm_offset < size &&
		 dev.dm_size <= size - dev.dm_offset;
	expect(!dev.dm_size || (inside && !(dev.dm_offset % PAGE)),
	       "BAR4: on-NIC memory at 0x%llx", (unsigned long long)dev.dm_offset);
	expect(!config_read32(PCI_ROM_ADDRESS), "an option ROM");
}

/* Vector Control of vector 0 is a word of 1, and the pending bits are 0. */
static void odd_msix_accesses(void)
{
	static const struct {
		uint32_t offset, size;
	} odd[] = {
		{ 12, 1 }, { 12, 2 }, { 12, 3 }, { 13, 1 }, { 10, 4 }, { 12, 8 },
	};
	uint8_t bytes[8];
	unsigned int i;

	reg_write(MOOR_MSIX_TABLE_OFFSET + 12, 1);
	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		about("MSI-X: %u bytes at %u", odd[i].size, odd[i].offset);
		memset(bytes, 0, sizeof(bytes));
		vfio_user_write(MOOR_BAR_REGS, MOOR_MSIX_TABLE_OFFSET + odd[i].offset,
				bytes, odd[i].size);
		expect(reg_read(MOOR_MSIX_TABLE_OFFSET + 12) == 1, "a write has an effect");
		vfio_user_read(MOOR_BAR_REGS, MOOR_MSIX_TABLE_OFFSET + odd[i].offset,
			       bytes, odd[i].size);
		expect(!memcmp(bytes, "\0\0\0\0\0\0\0", odd[i].size), "a read gives something");
	}
}

TEST_CASE(odd_accesses, "BAR0 ignores accesses of another size or alignment",
	  "BAR-4 BAR-5", 0)
{
	static const struct {
		uint32_t offset, size;
	} odd[] = {
		{ 0, 1 }, { 3, 1 }, { 0, 2 }, { 2, 2 }, { 2, 4 }, { 1, 4 },
		{ 4, 8 }, { 2, 8 }, { 0, 3 },
	};
	const uint64_t both = (uint64_t)MOOR_CONTROL_RESET << 32 | ~0u;
	uint8_t bytes[8];
	uint64_t base;
	unsigned int i;

	host_reset();
	reg_write64(MOOR_REG_CMD_BASE, 0x123456789000);
	reg_write64(MOOR_REG_CPL_BASE, 0xabcdef000);
	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		about("%u bytes at %u", odd[i].size, odd[i].offset);
		memset(bytes, 0xff, sizeof(bytes));
		vfio_user_write(MOOR_BAR_REGS, MOOR_REG_CMD_BASE + odd[i].offset,
				bytes, odd[i].size);
		base = reg_read64(MOOR_REG_CMD_BASE);
		expect(base == 0x123456789000 &&
		       reg_read64(MOOR_REG_CPL_BASE) == 0xabcdef000,
		       "a write has an effect: 0x%llx", (unsigned long long)base);
		vfio_user_read(MOOR_BAR_REGS, MOOR_REG_CMD_BASE + odd[i].offset,
			       bytes, odd[i].size);
		expect(!memcmp(bytes, "\0\0\0\0\0\0\0", odd[i].size) ||
		       bytes[0] == 0xff, "a read gives something");
	}
	about("MSI-X");
	odd_msix_accesses();
	about("eight bytes over two registers");
	expect(reg_read64(MOOR_REG_MAGIC) == ((uint64_t)reg_read(MOOR_REG_VERSION)
	       << 32 | MOOR_MAGIC), "MAGIC and VERSION");
	reg_write64(MOOR_REG_STATUS, both);
	wait_ready();
	expect(!reg_read64(MOOR_REG_CMD_BASE), "a write does not reach CONTROL");
}

TEST_CASE(without_bus_master, "no DMA and no MSI while Bus Master Enable is clear",
	  "PCI-4 ERR-4 ERR-10", 0)
{
	struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };
	struct moor_cpl cpl;
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	settle();
	arm_cq(&p.cq[0], MOOR_CQ_ARM_ANY);
	store_slot(MOOR_DB_SLOT_CPL_ARM, 1);
	interrupts(0);
	bus_master(false);
	issue(&cmd, sizeof(cmd));
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 1, .remote = p.buf[1],
		.rkey = p.key[1], SGE(p.buf[0], BUF, p.key[0]),
	});
	kick(MOOR_DB_SLOT_CMD_PRODUCER);
	kick(p.qp[0].sq_slot);
	for (unsigned int i = 0; i < 1000; i++)
		reg_read(MOOR_REG_STATUS);
	expect(!poll_completion(&cpl), "a command is completed");
	expect(!peek_cqe(&p.cq[0], &cqe), "a CQE is written");
	expect(is_filled(p.buf[1], BUF, 2), "data is written");
	expect(!interrupts(0) && !interrupts(eq_vector(MOOR_EQ_COMPLETION)),
	       "an interrupt is raised");
	bus_master(true);
	kick(p.qp[0].sq_slot);
	kick(MOOR_DB_SLOT_CMD_PRODUCER);
	wait_completion(&cpl);
	expect(!cpl.status, "the command that waited: status %u", cpl.status);
	expect_cqe(&p.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect(is_filled(p.buf[1], BUF, 1), "the data has not come");
}

TEST_CASE(wide_addresses, "DMA addresses have 64 bits", "PCI-5", 0)
{
	static const uint64_t high[] = { 1ull << 32, 1ull << 47, 1ull << 62,
					 ~0ull - 0xffff };
	struct pair p;
	uint32_t key;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 4; i++) {
		about("0x%llx", (unsigned long long)high[i]);
		/* The lowest address is the memory itself. */
		if (high[i] != MEMORY_BASE)
			dma_map(high[i], 2 * PAGE, p.buf[1] - MEMORY_BASE, DMA_BOTH);
		key = make_mr(PD, ALL_RIGHTS, high[i], PAGE);
		fill(p.buf[0], PAGE, i);
		if (high[i] == MEMORY_BASE)
			continue;
		expect_remote(&p, MOOR_WQE_WRITE, key, high[i], PAGE, true);
		expect(is_filled(p.buf[1], PAGE, i), "the data is elsewhere");
	}
}

TEST_CASE(hole, "what lies beside the parts of BAR4, and the kick pages, read as zero",
	  "BAR-6 DB-12 DB-15 DB-21", 0)
{
	uint64_t pages = (uint64_t)dev.db_pages * PAGE, at_, tried = 0;
	uint64_t size = dev.bar_size[MOOR_BAR_DB];

	for (at_ = pages; at_ < size; at_ += size / 64 + 8 * 13) {
		uint64_t place = at_ & ~7ull;

		if (place - dev.dm_offset < dev.dm_size)
			continue;
		about("0x%llx", (unsigned long long)place);
		/* In a kick page this is a kick, and the value is not kept. */
		bar_write64(MOOR_BAR_DB, place, ~0ull);
		expect(!bar_read64(MOOR_BAR_DB, place), "it reads as 0x%llx",
		       (unsigned long long)bar_read64(MOOR_BAR_DB, place));
		tried++;
	}
	expect(tried || size == pages, "nothing tried");
	expect(!nop(), "the device works no more");
}

TEST_CASE(apart, "kicks and doorbells are no stores into on-NIC memory", "BAR-6 DB-12 XLT-19",
	  HAS(DM))
{
	const uint32_t slots = 2 * MOOR_DB_SLOTS_PER_PAGE;
	uint64_t words = dev.dm_size / 8 < slots ? dev.dm_size / 8 : slots, changed = 0, i;

	for (i = 0; i < words; i++)
		bar_write64(MOOR_BAR_DB, dev.dm_offset + i * 8, 0x55aa00 + i);
	for (i = 0; i < slots; i++) {
		kick((uint32_t)i);
		/* Those of page 0 are the driver's. */
		if (i >= MOOR_DB_SLOTS_PER_PAGE)
			store_slot((uint32_t)i, ~0ull);
	}
	reg_read(MOOR_REG_FENCE);
	for (i = 0; i < words; i++)
		changed += bar_read64(MOOR_BAR_DB, dev.dm_offset + i * 8) != 0x55aa00 + i;
	expect(!changed, "%llu words have changed", (unsigned long long)changed);
	expect(!nop(), "the device works no more");
}
