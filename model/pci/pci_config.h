/* SPDX-License-Identifier: GPL-2.0 */
/* The configuration space of the function: identity, BARs, PCIe, MSI-X (HWI 2). */
#ifndef MODEL_PCI_CONFIG_H
#define MODEL_PCI_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#define PCI_CONFIG_SIZE		4096u

struct pci_config {
	uint8_t space[PCI_CONFIG_SIZE];
	uint8_t writable[PCI_CONFIG_SIZE];	/* mask of what software may change */
};

/* What the caller has to do after a write. */
enum pci_config_effect {
	PCI_EFFECT_BUS_MASTER	= 1,	/* Bus Master Enable changed */
	PCI_EFFECT_FLR		= 2,	/* function level reset asked for */
};

/* The state after power-on. */
void pci_config_init(struct pci_config *cfg);

/* After a function level reset: the link's fields stay as they are (PCIe 6.6.2). */
void pci_config_flr(struct pci_config *cfg);

/* @offset + @count is inside the space for both. */
void pci_config_read(const struct pci_config *cfg, uint32_t offset, void *data,
		     uint32_t count);
unsigned int pci_config_write(struct pci_config *cfg, uint32_t offset,
			      const void *data, uint32_t count);

bool pci_config_bus_master(const struct pci_config *cfg);

#endif /* MODEL_PCI_CONFIG_H */
