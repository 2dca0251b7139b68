// SPDX-License-Identifier: GPL-2.0
/* Registers in BAR0: set-up, status, capacities (HWI 4). */
#include <endian.h>

#include "base/dma_map.h"
#include "base/fault.h"
#include "base/log.h"
#include "device/command.h"
#include "device/doze.h"
#include "device/nic.h"
#include "device/registers.h"
#include "memory/translate.h"

static uint32_t status_register(const struct nic *nic)
{
	uint32_t status = 0;

	if (!nic->faults->resetting)
		status |= MOOR_STATUS_READY;
	/* Without a wire the port loops back, and its link is up. */
	if (!nic->faults->link_down)
		status |= MOOR_STATUS_LINK_UP;
	if (nic->enabled)
		status |= MOOR_STATUS_ENABLED;
	if (nic->fatal_code)
		status |= MOOR_STATUS_FATAL;
	return status;
}

static uint64_t mac_register(const struct nic *nic)
{
	uint64_t mac = 0;
	unsigned int i;

	for (i = 0; i < sizeof(nic->cfg.mac); i++)
		mac |= (uint64_t)nic->cfg.mac[i] << 8 * i;
	return mac;
}

/* @bytes gets the size of the register at @offset, 0: there is none. */
static uint64_t read_register(const struct nic *nic, uint32_t offset,
			      unsigned int *bytes)
{
	*bytes = 4;
	switch (offset) {
	case MOOR_REG_MAGIC:		return MOOR_MAGIC;
	case MOOR_REG_VERSION:		return MOOR_HW_VERSION_MAJOR << 16 |
					       MOOR_HW_VERSION_MINOR;
	case MOOR_REG_STATUS:		return status_register(nic);
	case MOOR_REG_CONTROL:		return nic->enabled ?
					       MOOR_CONTROL_ENABLE : 0;
	case MOOR_REG_MR_INDEX_BITS:	return NIC_MR_INDEX_BITS;
	case MOOR_REG_MR_CONSUMER_FIRST: return NIC_MR_CONSUMER_FIRST;
	case MOOR_REG_NULL_LKEY:	return NIC_NULL_LKEY;
	case MOOR_REG_MAX_MSG_SIZE:	return NIC_MAX_MSG_SIZE;
	case MOOR_REG_QP_INDEX_BITS:	return NIC_QP_INDEX_BITS;
	case MOOR_REG_SRQ_INDEX_BITS:	return nic_has(nic, MOOR_FEATURE_SRQ) ?
					       NIC_SRQ_INDEX_BITS : 0;
	case MOOR_REG_MAX_FILTER:	return nic_has(nic, MOOR_FEATURE_UD) ?
					       NIC_MAX_FILTER : 0;
	case MOOR_REG_MAX_CQ:		return NIC_MAX_CQ;
	case MOOR_REG_MAX_EQ:		return NIC_MAX_EQ;
	case MOOR_REG_MAX_LOG_WQE:	return NIC_MAX_LOG_WQE;
	case MOOR_REG_MAX_SGE:		return NIC_MAX_SGE;
	case MOOR_REG_MAX_INLINE:	return NIC_MAX_INLINE;
	case MOOR_REG_MAX_LOG_CQE:	return NIC_MAX_LOG_CQE;
	case MOOR_REG_MAX_GID:		return NIC_MAX_GID;
	case MOOR_REG_MAX_RD_ATOMIC:	return NIC_MAX_RD_ATOMIC;
	case MOOR_REG_MAX_LOG_CMD:	return NIC_MAX_LOG_CMD;
	case MOOR_REG_MAX_LOG_EQE:	return NIC_MAX_LOG_EQE;
	case MOOR_REG_NUM_VECTORS:	return NIC_NUM_VECTORS;
	case MOOR_REG_DB_PAGES:		return NIC_DB_PAGES;
	case MOOR_REG_KICK_OFFSET:	return NIC_KICK_OFFSET;
	case MOOR_REG_CMD_LOG_SIZE:	return nic->commands->log_size;
	/* BAR2 is memory: what was written before this read is in place. */
	case MOOR_REG_FENCE:		return 0;
	case MOOR_REG_FATAL_CODE:	return nic->fatal_code;
	}
	*bytes = 8;
	switch (offset) {
	case MOOR_REG_FEATURES:		return NIC_FEATURES & ~nic->cfg.without;
	case MOOR_REG_PAGE_SIZES:	return NIC_PAGE_SIZES;
	case MOOR_REG_NODE_GUID:	return nic->cfg.node_guid;
	case MOOR_REG_MAC:		return mac_register(nic);
	case MOOR_REG_MAX_MR_SIZE:	return NIC_MAX_MR_SIZE;
	case MOOR_REG_DM_OFFSET:	return NIC_DM_OFFSET;
	case MOOR_REG_DM_SIZE:		return nic_has(nic, MOOR_FEATURE_DM) ?
					       NIC_DM_SIZE : 0;
	case MOOR_REG_CMD_BASE:		return nic->commands->base;
	case MOOR_REG_CPL_BASE:		return nic->commands->cpl_base;
	case MOOR_REG_DOZE_ADDR:	return nic->doze->addr;
	case MOOR_REG_CLOCK:		return timer_now() - nic->clock_base;
	}
	*bytes = 0;
	return 0;
}

uint64_t nic_reg_read(struct nic *nic, uint32_t offset, unsigned int size)
{
	unsigned int bytes;
	uint64_t value = read_register(nic, offset, &bytes);

	if (size == 8) {
		/* Two registers of four bytes, read at once. */
		if (bytes != 8)
			value |= nic_reg_read(nic, offset + 4, 4) << 32;
		return value;
	}
	if (!bytes && offset % 8 == 4) {
		value = read_register(nic, offset - 4, &bytes);
		return bytes == 8 ? value >> 32 : 0;
	}
	return (uint32_t)value;
}

static bool range_reachable(struct nic *nic, uint64_t base, uint64_t size, bool write)
{
	struct xlat xlat = {
		.root = base | MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
			MOOR_PTE_WRITABLE,
	};

	return xlat_reachable(nic, &xlat, size, write);
}

/* Without DOZES nobody looks at DOZE_ADDR (HWI CTL-8). */
static bool doze_good(const struct nic *nic)
{
	uint64_t len = sizeof(uint32_t);

	return !nic_has(nic, MOOR_FEATURE_DOZES) ||
	       (!(nic->doze->addr % sizeof(uint32_t)) &&
		dma_map_ptr(nic->dma, nic->doze->addr, &len, true) &&
		len == sizeof(uint32_t));
}

static bool setup_good(struct nic *nic)
{
	uint64_t entries;

	if (!nic->bus_master || !nic->commands->log_size ||
	    nic->commands->log_size > NIC_MAX_LOG_CMD ||
	    nic->commands->base % MOOR_PAGE_SIZE || nic->commands->cpl_base % MOOR_PAGE_SIZE)
		return false;
	entries = 1ULL << nic->commands->log_size;
	return range_reachable(nic, nic->commands->base, entries * MOOR_CMD_SIZE,
			       false) &&
	       range_reachable(nic, nic->commands->cpl_base, entries * MOOR_CPL_SIZE,
			       true) &&
	       doze_good(nic);
}

static void write_control(struct nic *nic, uint32_t value)
{
	bool enable = value & MOOR_CONTROL_ENABLE;

	if (value & ~(uint32_t)(MOOR_CONTROL_ENABLE | MOOR_CONTROL_RESET)) {
		log_refused("HWI CTL-15", "CONTROL: reserved bits in 0x%x", value);
		return;
	}
	if ((value & MOOR_CONTROL_RESET) || !enable) {
		/* The log is to be complete up to a reset by the driver. */
		log_catch_up();
		nic_reset(nic);
		return;
	}
	if (nic->enabled || nic->fatal_code || nic->faults->resetting)
		return;
	if (!setup_good(nic)) {
		log_refused("HWI CTL-8", "ENABLE with bad ring registers");
		nic->fatal_code = MOOR_FATAL_BAD_SETUP;
		return;
	}
	nic->enabled = true;
}

static void replace(uint64_t *reg, uint32_t shift, uint64_t value,
		    unsigned int size)
{
	if (size == 8)
		*reg = value;
	else
		*reg = (*reg & ~(0xffffffffULL << shift)) |
		       (value & 0xffffffff) << shift;
}

void nic_reg_write(struct nic *nic, uint32_t offset, uint64_t value,
		   unsigned int size)
{
	uint32_t shift = offset % 8 * 8;
	unsigned int bytes;

	read_register(nic, offset, &bytes);
	if (size == 8 && bytes != 8) {
		/* Two registers of four bytes, the lower one first (HWI BAR-5). */
		nic_reg_write(nic, offset, (uint32_t)value, 4);
		nic_reg_write(nic, offset + 4, value >> 32, 4);
		return;
	}
	if (offset == MOOR_REG_CONTROL) {
		write_control(nic, (uint32_t)value);
		return;
	}
	if (!nic->enabled) {
		switch (offset & ~7u) {
		case MOOR_REG_CMD_BASE:
			replace(&nic->commands->base, shift, value, size);
			return;
		case MOOR_REG_CPL_BASE:
			replace(&nic->commands->cpl_base, shift, value, size);
			return;
		case MOOR_REG_DOZE_ADDR:
			replace(&nic->doze->addr, shift, value, size);
			return;
		}
		if (offset == MOOR_REG_CMD_LOG_SIZE) {
			nic->commands->log_size = (uint32_t)value;
			return;
		}
	}
	log_refused("HWI REG-3", "write of 0x%llx to register 0x%x, which is %s",
		    (unsigned long long)value, offset,
		    offset >= MOOR_REG_CMD_BASE && offset < MOOR_REG_FENCE ?
		    "read-only while enabled" : "read-only or absent");
}

void registers_reset(struct nic *nic)
{
	nic->enabled = false;
	nic->fatal_code = MOOR_FATAL_NONE;
	nic->clock_base = timer_now();
	if (nic->faults->resets_hang) {
		nic->faults->resetting = true;
		nic->faults->fired++;
	}
}
