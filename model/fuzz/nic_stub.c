// SPDX-License-Identifier: GPL-2.0
/* A NIC that only checks that the endpoint keeps to nic.h. */
#include <stdlib.h>

#include "moor/moor_hw.h"
#include "nic_stub.h"

struct nic_stub nic_stub;

static struct nic *the_nic(void)
{
	return (struct nic *)&nic_stub;
}

struct nic *nic_create(const struct nic_config *cfg, struct dma_map *dma,
		       void *mr_bar, void *db_bar,
		       void (*raise)(void *ctx, unsigned int vector), void *ctx)
{
	(void)cfg;
	(void)dma;
	(void)mr_bar;
	(void)db_bar;
	nic_stub.raise = raise;
	nic_stub.raise_ctx = ctx;
	return the_nic();
}

void nic_destroy(struct nic *nic)
{
	(void)nic;
}

static void check_register(uint32_t offset, unsigned int size)
{
	if ((size != 4 && size != 8) || offset % size ||
	    offset + size > MOOR_MSIX_TABLE_OFFSET)
		abort();
}

uint64_t nic_reg_read(struct nic *nic, uint32_t offset, unsigned int size)
{
	(void)nic;
	check_register(offset, size);
	return 0x1122334455667788ull;
}

void nic_reg_write(struct nic *nic, uint32_t offset, uint64_t value,
		   unsigned int size)
{
	(void)nic;
	(void)value;
	check_register(offset, size);
	nic_stub.register_writes++;
}

void nic_kick(struct nic *nic, uint32_t page, uint32_t slot)
{
	(void)nic;
	if (page >= NIC_DB_PAGES || slot >= MOOR_DB_SLOTS_PER_PAGE)
		abort();
	nic_stub.kicks++;
}

void nic_reset(struct nic *nic)
{
	(void)nic;
	nic_stub.resets++;
}

void nic_set_bus_master(struct nic *nic, bool on)
{
	(void)nic;
	nic_stub.bus_master = on;
}
