// SPDX-License-Identifier: GPL-2.0
/*
 * The fake NIC as a PCI function: configuration space, BARs, MSI-X. bus.c puts it
 * on a bus.
 */

#include <linux/kthread.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "fake.h"
#include "moor.h"

#define FAKE_CAP_EXP	0x40
#define FAKE_CAP_MSIX	0x80

void *fake_dma(u64 addr)
{
	return phys_to_virt(addr);
}

static u64 fake_load(const void *from, int size)
{
	u64 value = 0;

	memcpy(&value, from, size);
	return value;
}

u64 fake_cfg_read(struct fake_nic *nic, u32 offset, int size)
{
	if (offset + size > sizeof(nic->cfg))
		return U64_MAX;
	return fake_load(nic->cfg + offset, size);
}

void fake_cfg_write(struct fake_nic *nic, u32 offset, int size, u64 val)
{
	const unsigned int flr_at = FAKE_CAP_EXP + PCI_EXP_DEVCTL + 1;
	int i;

	for (i = 0; i < size && offset + i < sizeof(nic->cfg); i++) {
		u8 mask = nic->cfg_writable[offset + i];
		u8 byte = val >> (8 * i);

		nic->cfg[offset + i] = (nic->cfg[offset + i] & ~mask) |
				       (byte & mask);
		if (offset + i == flr_at && byte & (PCI_EXP_DEVCTL_BCR_FLR >> 8))
			fake_nic_reset(nic);
	}
	fake_nic_wake(nic);
}

/* The MSI-X table is dwords: address, address, data, mask. */
static bool fake_msix_at(u32 offset, u32 *vector, u32 *word)
{
	offset -= MOOR_MSIX_TABLE_OFFSET;
	*vector = offset / 16;
	*word = offset % 16 / 4;
	return *vector < FAKE_VECTORS;
}

static u64 fake_regs_read(struct fake_nic *nic, u32 offset, int size)
{
	u32 vector, word;

	if (offset < MOOR_MSIX_TABLE_OFFSET)
		return fake_nic_read_reg(nic, offset, size);
	return fake_msix_at(offset, &vector, &word) ?
	       nic->msix[vector][word] : 0;
}

static void fake_regs_write(struct fake_nic *nic, u32 offset, u64 val, int size)
{
	u32 vector, word;

	if (offset < MOOR_MSIX_TABLE_OFFSET) {
		fake_nic_write_reg(nic, offset, val, size);
	} else if (fake_msix_at(offset, &vector, &word)) {
		nic->msix[vector][word] = val;
		fake_nic_wake(nic);
	}
}

/* While the channel is frozen, only the MSI-X table may be touched, by the core. */
static void fake_touched(struct fake_nic *nic, int bar, u32 offset)
{
	if (nic->behave.frozen &&
	    (bar != MOOR_BAR_REGS || offset < MOOR_MSIX_TABLE_OFFSET))
		fake_violation(nic, "a BAR is touched while the channel is frozen");
}

u64 fake_bar_read(struct fake_nic *nic, int bar, u32 offset, int size)
{
	fake_touched(nic, bar, offset);
	/* A read pushes earlier writes to the device. */
	fake_wc_barrier();
	if (bar == MOOR_BAR_REGS)
		return fake_regs_read(nic, offset, size);
	if (bar == MOOR_BAR_MR && offset + size <= FAKE_MR_BYTES)
		return fake_load((u8 *)nic->mr + offset, size);
	if (bar == MOOR_BAR_DB && offset + size <= FAKE_DB_BYTES)
		return fake_load((u8 *)nic->slots + offset, size);
	if (bar == MOOR_BAR_DB && offset >= FAKE_DM_OFFSET &&
	    offset + size <= FAKE_BAR4_BYTES)
		return fake_load(nic->dm + offset - FAKE_DM_OFFSET, size);
	return 0;
}

static void fake_write_slot(struct fake_nic *nic, u32 offset, u64 val, int size)
{
	if (size != 8 || offset % 8)
		fake_violation(nic, "a slot is not written eight bytes at a time");
	else
		WRITE_ONCE(nic->slots[offset / 8], val);
}

static void fake_write_kick(struct fake_nic *nic, u64 val, int size)
{
	if (size != 4 || val != 1)
		fake_violation(nic, "a kick is four bytes, a one");
	nic->kicks++;
	WRITE_ONCE(nic->kicked, true);
	wake_up(&nic->wait);
}

static void fake_write_mr(struct fake_nic *nic, u32 offset, u64 val, int size)
{
	if (nic->behave.enter)
		nic->behave.enter(nic, offset / sizeof(struct moor_mr_context));
	if (size != 8 || offset % 8)
		fake_violation(nic, "the context table is written by eight bytes");
	else
		fake_wc_write(nic, offset, val);
}

void fake_bar_write(struct fake_nic *nic, int bar, u32 offset, int size, u64 val)
{
	fake_touched(nic, bar, offset);
	if (bar == MOOR_BAR_REGS)
		fake_regs_write(nic, offset, val, size);
	else if (bar == MOOR_BAR_MR && offset + size <= FAKE_MR_BYTES)
		fake_write_mr(nic, offset, val, size);
	else if (bar == MOOR_BAR_DB && offset + size <= FAKE_DB_BYTES)
		fake_write_slot(nic, offset, val, size);
	else if (bar == MOOR_BAR_DB && offset + size <= FAKE_DM_OFFSET)
		fake_write_kick(nic, val, size);
	else if (bar == MOOR_BAR_DB && offset + size <= FAKE_BAR4_BYTES)
		memcpy(nic->dm + offset - FAKE_DM_OFFSET, &val, size);
}

static void fake_cfg_set(struct fake_nic *nic, u32 offset, int size, u32 value)
{
	memcpy(nic->cfg + offset, &value, size);
}

static void fake_cfg_allow(struct fake_nic *nic, u32 offset, int size, u32 mask)
{
	memcpy(nic->cfg_writable + offset, &mask, size);
}

static void fake_cfg_bar(struct fake_nic *nic, int bar, u32 flags, u32 size)
{
	u32 offset = PCI_BASE_ADDRESS_0 + 4 * bar;

	fake_cfg_set(nic, offset, 4, flags | PCI_BASE_ADDRESS_MEM_TYPE_64);
	fake_cfg_allow(nic, offset, 4, ~(size - 1));
	fake_cfg_allow(nic, offset + 4, 4, ~0U);
}

static void fake_cfg_init(struct fake_nic *nic)
{
	const u32 pref = PCI_BASE_ADDRESS_MEM_PREFETCH;

	fake_cfg_set(nic, PCI_VENDOR_ID, 2, MOOR_PCI_VENDOR_ID);
	fake_cfg_set(nic, PCI_DEVICE_ID, 2, MOOR_PCI_DEVICE_ID);
	fake_cfg_set(nic, PCI_STATUS, 2, PCI_STATUS_CAP_LIST);
	fake_cfg_set(nic, PCI_REVISION_ID, 4,
		     MOOR_PCI_CLASS << 8 | MOOR_PCI_REVISION);
	fake_cfg_set(nic, PCI_SUBSYSTEM_VENDOR_ID, 2, MOOR_PCI_VENDOR_ID);
	fake_cfg_set(nic, PCI_SUBSYSTEM_ID, 2, MOOR_PCI_DEVICE_ID);
	fake_cfg_set(nic, PCI_CAPABILITY_LIST, 1, FAKE_CAP_EXP);
	fake_cfg_allow(nic, PCI_COMMAND, 2, PCI_COMMAND_MEMORY |
		       PCI_COMMAND_MASTER | PCI_COMMAND_INTX_DISABLE);
	fake_cfg_allow(nic, PCI_INTERRUPT_LINE, 1, 0xff);
	fake_cfg_bar(nic, MOOR_BAR_REGS, 0, MOOR_BAR_REGS_SIZE);
	fake_cfg_bar(nic, MOOR_BAR_MR, pref, FAKE_MR_BYTES);
	fake_cfg_bar(nic, MOOR_BAR_DB, pref, FAKE_BAR4_BYTES);

	fake_cfg_set(nic, FAKE_CAP_EXP, 1, PCI_CAP_ID_EXP);
	fake_cfg_set(nic, FAKE_CAP_EXP + 1, 1, FAKE_CAP_MSIX);
	fake_cfg_set(nic, FAKE_CAP_EXP + PCI_EXP_FLAGS, 2, 2);
	fake_cfg_set(nic, FAKE_CAP_EXP + PCI_EXP_DEVCAP, 4, PCI_EXP_DEVCAP_FLR);
	fake_cfg_allow(nic, FAKE_CAP_EXP + PCI_EXP_DEVCTL, 2, 0x7fff);

	fake_cfg_set(nic, FAKE_CAP_MSIX, 1, PCI_CAP_ID_MSIX);
	fake_cfg_set(nic, FAKE_CAP_MSIX + PCI_MSIX_FLAGS, 2, FAKE_VECTORS - 1);
	fake_cfg_allow(nic, FAKE_CAP_MSIX + PCI_MSIX_FLAGS, 2,
		       PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
	fake_cfg_set(nic, FAKE_CAP_MSIX + PCI_MSIX_TABLE, 4,
		     MOOR_MSIX_TABLE_OFFSET | MOOR_BAR_REGS);
	fake_cfg_set(nic, FAKE_CAP_MSIX + PCI_MSIX_PBA, 4,
		     MOOR_MSIX_PBA_OFFSET | MOOR_BAR_REGS);
}

/**
 * fake_nic_new - make a NIC that is not plugged in yet
 * @test: for assertions
 *
 * Return: the NIC, for fake_nic_free().
 */
struct fake_nic *fake_nic_new(struct kunit *test)
{
	struct fake_nic *nic = kvzalloc(sizeof(*nic), GFP_KERNEL);
	u32 vector;

	KUNIT_ASSERT_NOT_NULL(test, nic);
	spin_lock_init(&nic->lock);
	init_waitqueue_head(&nic->wait);
	nic->magic = MOOR_MAGIC;
	nic->version = FIELD_PREP(MOOR_VERSION_MAJOR, MOOR_HW_VERSION_MAJOR);
	nic->mr = kvzalloc(FAKE_MR_BYTES, GFP_KERNEL);
	nic->slots = kvzalloc(FAKE_DB_BYTES, GFP_KERNEL);
	nic->dm = kvzalloc(FAKE_DM_BYTES, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, nic->mr);
	KUNIT_ASSERT_NOT_NULL(test, nic->dm);
	KUNIT_ASSERT_NOT_NULL(test, nic->slots);
	fake_cfg_init(nic);
	for (vector = 0; vector < FAKE_VECTORS; vector++)
		nic->msix[vector][3] = PCI_MSIX_ENTRY_CTRL_MASKBIT;
	fake_nic_reset(nic);
	/* Cases look at a dead device; a case that wants recovery enables it. */
	moor_recover = false;
	nic->thread = kthread_run(fake_nic_thread, nic, "fake-nic");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, nic->thread);
	return nic;
}

void fake_nic_free(struct fake_nic *nic)
{
	kthread_stop(nic->thread);
	kvfree(nic->dm);
	kvfree(nic->slots);
	kvfree(nic->mr);
	kvfree(nic);
}

/**
 * fake_nic_driver - get the driver's device of the NIC
 * @nic: NIC
 *
 * Return: the device, or NULL if the driver did not take the NIC.
 */
struct moor_dev *fake_nic_driver(struct fake_nic *nic)
{
	struct pci_dev *pdev = pci_get_device(MOOR_PCI_VENDOR_ID,
					      MOOR_PCI_DEVICE_ID, NULL);
	struct moor_function *function = pdev ? pci_get_drvdata(pdev) : NULL;
	struct moor_dev *mdev = function ? READ_ONCE(function->mdev) : NULL;

	pci_dev_put(pdev);
	return mdev;
}
