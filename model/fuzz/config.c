// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: the configuration space, the BARs as regions, the MSI-X table and
 * pending bits, with accesses at any offset and of any width, in front of a NIC that
 * checks the accesses that reach it (HWI 2 and 3).
 */
#include <errno.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "input.h"
#include "moor/moor_hw.h"
#include "nic_stub.h"
#include "pci/endpoint.h"
#include "pci/pci_config.h"

#define CONFIG		VFIO_PCI_CONFIG_REGION_INDEX
#define MAX_ACCESS	256u

static struct endpoint *ep;
static struct dma_map *dma;

static uint32_t config_read(uint32_t offset, uint32_t count)
{
	uint32_t value = 0;

	if (endpoint_read(ep, CONFIG, offset, &value, count))
		abort();
	return value;
}

/* Registers that the guest cannot change, and states that follow from those it can. */
static void check_config(void)
{
	static const uint64_t size[] = {
		MOOR_BAR_REGS_SIZE, NIC_MR_BAR_SIZE, NIC_DB_BAR_SIZE,
	};
	uint16_t command = (uint16_t)config_read(PCI_COMMAND, 2);
	unsigned int i, hops = 0;
	uint8_t cap;

	if (config_read(PCI_VENDOR_ID, 4) !=
	    (MOOR_PCI_DEVICE_ID << 16 | MOOR_PCI_VENDOR_ID) ||
	    config_read(PCI_CLASS_REVISION, 4) >> 8 != MOOR_PCI_CLASS)
		abort();
	for (i = 0; i < 3; i++) {
		uint32_t bar = config_read(PCI_BASE_ADDRESS_0 + 8 * i, 4);

		if ((bar & (size[i] - 1)) !=
		    (i ? PCI_BASE_ADDRESS_MEM_TYPE_64 |
		     PCI_BASE_ADDRESS_MEM_PREFETCH :
		     PCI_BASE_ADDRESS_MEM_TYPE_64))
			abort();
	}
	for (cap = (uint8_t)config_read(PCI_CAPABILITY_LIST, 1); cap;
	     cap = (uint8_t)config_read(cap + 1, 1))
		if (cap < 0x40 || hops++ > 8)
			abort();
	if (hops != 2)
		abort();
	if (nic_stub.bus_master != !!(command & PCI_COMMAND_MASTER))
		abort();
}

static uint64_t some_offset(struct input *in, unsigned int region)
{
	static const uint32_t bar0[] = {
		0, MOOR_MSIX_TABLE_OFFSET - 8, MOOR_MSIX_TABLE_OFFSET,
		MOOR_MSIX_TABLE_OFFSET + 18 * 16 - 8, MOOR_MSIX_PBA_OFFSET - 4,
		MOOR_MSIX_PBA_OFFSET, MOOR_BAR_REGS_SIZE - 8,
	};
	static const uint32_t bar4[] = {
		0, NIC_KICK_OFFSET - 8, NIC_KICK_OFFSET,
		NIC_KICK_OFFSET + NIC_DB_PAGES * MOOR_PAGE_SIZE - 8,
		NIC_DM_OFFSET - 8, NIC_DM_OFFSET, NIC_DB_BAR_SIZE - 8,
	};
	uint8_t how = input_u8(in);

	if (how == 0xff)
		return input_u64(in);
	switch (region) {
	case MOOR_BAR_REGS:
		return bar0[how % 7] + input_below(in, 32);
	case MOOR_BAR_MR:
		return (how & 1) * (NIC_MR_BAR_SIZE - 16) +
		       input_below(in, 32);
	case MOOR_BAR_DB:
		return bar4[how % 7] + input_below(in, 32);
	default:
		return how & 0x80 ? input_u16(in) : how;
	}
}

static void one_access(struct input *in, unsigned int region)
{
	static const uint32_t counts[] = { 1, 2, 4, 8, 4, 8, 3, 0 };
	uint64_t offset = some_offset(in, region);
	uint8_t how = input_u8(in), data[MAX_ACCESS], zero[MAX_ACCESS] = { 0 };
	uint32_t count = how & 8 ? input_below(in, MAX_ACCESS) :
				   counts[how & 7];
	struct endpoint_region info;
	int err;

	endpoint_region_info(ep, region, &info);
	if (how & 0x80) {
		err = endpoint_read(ep, region, offset, data, count);
	} else {
		input_bytes(in, data, count);
		err = endpoint_write(ep, region, offset, data, count);
		/* Each input finds the memory of the BARs zeroed. */
		if (!err && (region == MOOR_BAR_MR || region == MOOR_BAR_DB))
			endpoint_write(ep, region, offset, zero, count);
	}
	if (!err != (count && offset < info.size &&
		     info.size - offset >= count))
		abort();
	fuzz_reached += !err;
}

static void change_irq(struct input *in)
{
	unsigned int vector = input_below(in, NIC_NUM_VECTORS + 4);
	uint8_t how = input_u8(in);

	if (vector >= NIC_NUM_VECTORS || how & 1)
		endpoint_trigger_irq(ep, vector);
	else
		endpoint_set_irq(ep, vector, how & 2 ? -1 :
				 eventfd(0, EFD_CLOEXEC));
}

static void start(void)
{
	struct endpoint_config cfg = { .trap_bar2 = true };

	dma = dma_map_create();
	ep = endpoint_create(&cfg, dma);
	if (!ep)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	unsigned int i;

	if (!ep)
		start();
	endpoint_reset(ep);
	while (input_left(&in)) {
		uint8_t which = input_u8(&in);

		if (which < 0x80)
			one_access(&in, CONFIG);
		else if (which < 0xc0)
			one_access(&in, MOOR_BAR_REGS);
		else if (which < 0xf0)
			one_access(&in, which % 10);
		else if (which < 0xf8)
			change_irq(&in);
		else
			endpoint_reset(ep);
		check_config();
	}
	for (i = 0; i < NIC_NUM_VECTORS; i++)
		endpoint_set_irq(ep, i, -1);
	return 0;
}
