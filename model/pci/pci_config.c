// SPDX-License-Identifier: GPL-2.0
#include <linux/pci_regs.h>
#include <string.h>

#include "base/limits.h"
#include "pci/pci_config.h"

#define CAP_PCIE		0x40
#define CAP_MSIX		0x80

#define PCIE_CAP_VERSION	2
#define LINK_SPEED_16GT		4
#define LINK_WIDTH_X16		16

static void put8(struct pci_config *cfg, uint32_t at, uint8_t value,
		 uint8_t writable)
{
	cfg->space[at] = value;
	cfg->writable[at] = writable;
}

static void put16(struct pci_config *cfg, uint32_t at, uint16_t value,
		  uint16_t writable)
{
	put8(cfg, at, (uint8_t)value, (uint8_t)writable);
	put8(cfg, at + 1, (uint8_t)(value >> 8), (uint8_t)(writable >> 8));
}

static void put32(struct pci_config *cfg, uint32_t at, uint32_t value,
		  uint32_t writable)
{
	put16(cfg, at, (uint16_t)value, (uint16_t)writable);
	put16(cfg, at + 2, (uint16_t)(value >> 16), (uint16_t)(writable >> 16));
}

static void init_header(struct pci_config *cfg)
{
	put16(cfg, PCI_VENDOR_ID, MOOR_PCI_VENDOR_ID, 0);
	put16(cfg, PCI_DEVICE_ID, MOOR_PCI_DEVICE_ID, 0);
	put16(cfg, PCI_COMMAND, 0, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER |
	      PCI_COMMAND_PARITY | PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE);
	put16(cfg, PCI_STATUS, PCI_STATUS_CAP_LIST, 0);
	put32(cfg, PCI_CLASS_REVISION,
	      MOOR_PCI_CLASS << 8 | MOOR_PCI_REVISION, 0);
	put8(cfg, PCI_CACHE_LINE_SIZE, 0, 0xff);
	put16(cfg, PCI_SUBSYSTEM_VENDOR_ID, MOOR_PCI_VENDOR_ID, 0);
	put16(cfg, PCI_SUBSYSTEM_ID, MOOR_PCI_DEVICE_ID, 0);
	put8(cfg, PCI_CAPABILITY_LIST, CAP_PCIE, 0);
	put8(cfg, PCI_INTERRUPT_LINE, 0, 0xff);
}

/* Writing ones and reading back gives the size: its low bits do not change. */
/* Sizes of BARs, and offsets into them, are counted in 32 bits. */
_Static_assert(NIC_MR_BAR_SIZE <= 1ull << 31 && NIC_DB_BAR_SIZE <= 1ull << 31,
	       "a BAR of 4 GiB or more");

static void init_bar(struct pci_config *cfg, unsigned int bar, uint32_t size,
		     uint32_t flags)
{
	uint32_t at = PCI_BASE_ADDRESS_0 + 4 * bar;

	put32(cfg, at, flags | PCI_BASE_ADDRESS_MEM_TYPE_64, ~(size - 1));
	put32(cfg, at + 4, 0, ~0u);
}

static void init_pcie(struct pci_config *cfg)
{
	put8(cfg, CAP_PCIE + PCI_CAP_LIST_ID, PCI_CAP_ID_EXP, 0);
	put8(cfg, CAP_PCIE + PCI_CAP_LIST_NEXT, CAP_MSIX, 0);
	put16(cfg, CAP_PCIE + PCI_EXP_FLAGS,
	      PCI_EXP_TYPE_ENDPOINT << 4 | PCIE_CAP_VERSION, 0);
	put32(cfg, CAP_PCIE + PCI_EXP_DEVCAP,
	      PCI_EXP_DEVCAP_EXT_TAG | PCI_EXP_DEVCAP_RBER | PCI_EXP_DEVCAP_FLR,
	      0);
	put16(cfg, CAP_PCIE + PCI_EXP_DEVCTL,
	      PCI_EXP_DEVCTL_RELAX_EN | PCI_EXP_DEVCTL_NOSNOOP_EN |
	      PCI_EXP_DEVCTL_READRQ_512B,
	      PCI_EXP_DEVCTL_CERE | PCI_EXP_DEVCTL_NFERE | PCI_EXP_DEVCTL_FERE |
	      PCI_EXP_DEVCTL_URRE | PCI_EXP_DEVCTL_RELAX_EN |
	      PCI_EXP_DEVCTL_PAYLOAD | PCI_EXP_DEVCTL_EXT_TAG |
	      PCI_EXP_DEVCTL_NOSNOOP_EN | PCI_EXP_DEVCTL_READRQ);
	put32(cfg, CAP_PCIE + PCI_EXP_LNKCAP,
	      LINK_SPEED_16GT | LINK_WIDTH_X16 << 4, 0);
	put16(cfg, CAP_PCIE + PCI_EXP_LNKCTL, 0,
	      PCI_EXP_LNKCTL_ASPMC | PCI_EXP_LNKCTL_RCB | PCI_EXP_LNKCTL_CCC);
	put16(cfg, CAP_PCIE + PCI_EXP_LNKSTA,
	      LINK_SPEED_16GT | LINK_WIDTH_X16 << 4, 0);
	put16(cfg, CAP_PCIE + PCI_EXP_DEVCTL2, 0, PCI_EXP_DEVCTL2_COMP_TMOUT_DIS);
	put32(cfg, CAP_PCIE + PCI_EXP_DEVCAP2, PCI_EXP_DEVCAP2_COMP_TMOUT_DIS, 0);
	put16(cfg, CAP_PCIE + PCI_EXP_LNKCTL2, LINK_SPEED_16GT, 0);
}

static void init_msix(struct pci_config *cfg)
{
	put8(cfg, CAP_MSIX + PCI_CAP_LIST_ID, PCI_CAP_ID_MSIX, 0);
	put8(cfg, CAP_MSIX + PCI_CAP_LIST_NEXT, 0, 0);
	put16(cfg, CAP_MSIX + PCI_MSIX_FLAGS, NIC_NUM_VECTORS - 1,
	      PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
	put32(cfg, CAP_MSIX + PCI_MSIX_TABLE,
	      MOOR_MSIX_TABLE_OFFSET | MOOR_BAR_REGS, 0);
	put32(cfg, CAP_MSIX + PCI_MSIX_PBA, MOOR_MSIX_PBA_OFFSET | MOOR_BAR_REGS,
	      0);
}

void pci_config_init(struct pci_config *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	init_header(cfg);
	init_bar(cfg, MOOR_BAR_REGS, MOOR_BAR_REGS_SIZE, 0);
	init_bar(cfg, MOOR_BAR_MR, NIC_MR_BAR_SIZE, PCI_BASE_ADDRESS_MEM_PREFETCH);
	init_bar(cfg, MOOR_BAR_DB, NIC_DB_BAR_SIZE, PCI_BASE_ADDRESS_MEM_PREFETCH);
	init_pcie(cfg);
	init_msix(cfg);
}

void pci_config_flr(struct pci_config *cfg)
{
	/* What two ends of a link have to agree on. */
	static const struct {
		uint32_t at;
		uint16_t mask;
	} kept[] = {
		{ CAP_PCIE + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_PAYLOAD },
		{ CAP_PCIE + PCI_EXP_LNKCTL, PCI_EXP_LNKCTL_ASPMC |
		  PCI_EXP_LNKCTL_RCB | PCI_EXP_LNKCTL_CCC },
	};
	const struct pci_config was = *cfg;
	unsigned int i, j;

	pci_config_init(cfg);
	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		for (j = 0; j < 2; j++)
			cfg->space[kept[i].at + j] |= was.space[kept[i].at + j] &
						      (uint8_t)(kept[i].mask >> 8 * j);
}

void pci_config_read(const struct pci_config *cfg, uint32_t offset, void *data,
		     uint32_t count)
{
	memcpy(data, cfg->space + offset, count);
}

bool pci_config_bus_master(const struct pci_config *cfg)
{
	return cfg->space[PCI_COMMAND] & PCI_COMMAND_MASTER;
}

unsigned int pci_config_write(struct pci_config *cfg, uint32_t offset,
			      const void *data, uint32_t count)
{
	/* Initiate FLR is bit 15 of Device Control and always reads as 0. */
	const uint32_t flr_at = CAP_PCIE + PCI_EXP_DEVCTL + 1;
	bool was_master = pci_config_bus_master(cfg);
	const uint8_t *value = data;
	unsigned int effects = 0;
	uint32_t i;

	for (i = 0; i < count; i++) {
		uint32_t at = offset + i;
		uint8_t mask = cfg->writable[at];

		cfg->space[at] = (uint8_t)((cfg->space[at] & ~mask) |
					   (value[i] & mask));
		if (at == flr_at && value[i] & (PCI_EXP_DEVCTL_BCR_FLR >> 8))
			effects |= PCI_EFFECT_FLR;
	}
	if (pci_config_bus_master(cfg) != was_master)
		effects |= PCI_EFFECT_BUS_MASTER;
	return effects;
}
