/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The NIC as its PCIe front sees it: registers, doorbells, work. One thread
 * calls everything here; nothing blocks.
 */
#ifndef MODEL_NIC_H
#define MODEL_NIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/limits.h"

struct dma_map;
struct nic;

/**
 * nic_create - a NIC in the state after power-on
 * @cfg:	identity and switches; copied
 * @dma:	the memory that the guest maps for DMA
 * @mr_bar:	memory of BAR2, NIC_MR_BAR_SIZE bytes; the guest writes to it
 * @db_bar:	memory of BAR4, NIC_DB_BAR_SIZE bytes; the guest writes to it
 * @raise:	raises an MSI-X vector
 * @ctx:	first argument of @raise
 *
 * Return: the NIC, or NULL when there is no memory.
 */
struct nic *nic_create(const struct nic_config *cfg, struct dma_map *dma,
		       void *mr_bar, void *db_bar,
		       void (*raise)(void *ctx, unsigned int vector), void *ctx);
void nic_destroy(struct nic *nic);

/* BAR0 below the MSI-X table. @size is 4 or 8, @offset a multiple of it. */
uint64_t nic_reg_read(struct nic *nic, uint32_t offset, unsigned int size);
void nic_reg_write(struct nic *nic, uint32_t offset, uint64_t value,
		   unsigned int size);

/* The driver wrote to a kick page: the NIC looks at this slot. */
void nic_kick(struct nic *nic, uint32_t page, uint32_t slot);

/* For FLR, for power-on, and after the client went away. */
void nic_reset(struct nic *nic);

/* Off: no DMA, no interrupts, queue pairs stand still. */
void nic_set_bus_master(struct nic *nic, bool on);

/*
 * A bounded quantum of work. Return: true when there was any, and there may be
 * more.
 */
bool nic_run(struct nic *nic);

/* May it sleep, so that doorbells need kicks? Else nobody says when there is work. */
bool nic_dozes(const struct nic *nic);

/*
 * Sets the dozing word, then looks at the doorbells once more. Return: false
 * when there is work, and the caller must not block.
 */
bool nic_doze(struct nic *nic);

/* Clears the dozing word. */
void nic_wake(struct nic *nic);

/* CLOCK_MONOTONIC in nanoseconds of the next timer; UINT64_MAX: none. */
uint64_t nic_next_deadline(struct nic *nic);

#endif /* MODEL_NIC_H */
