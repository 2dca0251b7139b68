/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device as its platform sees it: BARs, configuration space, interrupts, and
 * the memory for its DMA. Values are little-endian, as this host is.
 */
#ifndef CONFORMANCE_DEVICE_H
#define CONFORMANCE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moor/moor_hw.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the suite runs on little-endian hosts");

/* Where the memory is for DMA, and how much there is of it. */
#define MEMORY_BASE	0x100000000ull
#define MEMORY_SIZE	(64u << 20)

/* An address that nothing is ever mapped at. */
#define NOWHERE		0x700000000000ull

/**
 * struct device - the device's registers, read once; nothing of this is assumed
 * @features:	FEATURES, and so on for the other registers
 * @num_keys:	entries of the context table
 * @nonce_bits:	bits of a key below the index
 */
struct device {
	uint64_t features;
	uint32_t minor;			/* of VERSION */
	uint64_t page_sizes;
	uint64_t max_mr_size;
	uint64_t dm_offset, dm_size;
	uint32_t num_keys, nonce_bits, consumer_first, null_lkey;
	uint32_t max_msg_size, qp_index_bits, max_cq, max_eq;
	uint32_t max_log_wqe, max_sge, max_inline, max_log_cqe, max_gid;
	uint32_t max_rd_atomic, max_log_cmd, max_log_eqe, num_vectors;
	uint32_t db_pages, kick_offset, srq_index_bits, max_filter;
	uint64_t bar_size[6];
	uint32_t msix_vectors;		/* as the platform offers them */
	uint8_t *memory;
};

extern struct device dev;

void device_attach(const char *socket_path);
void device_detach(void);

/* Connects anew, as a second client after the first has gone. Return: whether it may. */
bool device_reattach(void);

/* BAR0. */
uint32_t reg_read(uint32_t offset);
uint64_t reg_read64(uint32_t offset);
void reg_write(uint32_t offset, uint32_t value);
void reg_write64(uint32_t offset, uint64_t value);

/* BARs 2 and 4: by loads and stores where the device lets them be mapped. */
uint64_t bar_read64(unsigned int bar, uint64_t offset);
void bar_write64(unsigned int bar, uint64_t offset, uint64_t value);
bool bar_is_mapped(unsigned int bar, uint64_t offset);

uint32_t config_read32(uint32_t offset);
uint16_t config_read16(uint32_t offset);
uint8_t config_read8(uint32_t offset);
void config_write32(uint32_t offset, uint32_t value);
void config_write16(uint32_t offset, uint16_t value);

/* Return: the capability's offset in the configuration space, or 0. */
uint32_t config_capability(uint8_t id);
void bus_master(bool on);

/* Interrupts of a vector since the last call. */
unsigned int interrupts(unsigned int vector);

/* FLR by the PCI Express capability, and the reset of the platform. */
void device_flr(void);
void device_platform_reset(void);

/* The test's pointer to a DMA address of the memory. */
void *at(uint64_t dma);

/* What the device may do there. */
enum dma_way {
	DMA_READ	= 1,
	DMA_WRITE	= 2,
	DMA_BOTH	= DMA_READ | DMA_WRITE,
};

/*
 * Maps part of the memory at further addresses, or unmaps parts; dma_restore() undoes
 * both. @offset is in the memory.
 */
void dma_map(uint64_t addr, uint64_t size, uint64_t offset, enum dma_way way);
void dma_unmap(uint64_t addr, uint64_t size);
void dma_restore(void);

uint64_t now_ns(void);

#endif /* CONFORMANCE_DEVICE_H */
