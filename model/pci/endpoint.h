/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The PCIe function: its BARs as memory and as trapped accesses, its interrupts
 * and its resets. Between the vfio-user protocol and the NIC.
 */
#ifndef MODEL_ENDPOINT_H
#define MODEL_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dma_map.h"
#include "device/nic.h"

struct endpoint;

struct endpoint_config {
	struct nic_config nic;
	bool trap_bar2;		/* apply writes to BAR2 torn and late */
};

#define ENDPOINT_MAX_AREAS	2

struct endpoint_area {
	uint64_t offset;
	uint64_t size;
};

/* A region in the sense of VFIO; the index is VFIO's too. */
struct endpoint_region {
	uint64_t size;		/* 0: there is none */
	int fd;			/* for mmap(), or -1 */
	unsigned int areas;	/* that may be mapped */
	struct endpoint_area area[ENDPOINT_MAX_AREAS];
};

/* Return: NULL with errno set. */
struct endpoint *endpoint_create(const struct endpoint_config *cfg,
				 struct dma_map *dma);
void endpoint_destroy(struct endpoint *ep);

struct nic *endpoint_nic(struct endpoint *ep);

/* @region: 0 to VFIO_PCI_NUM_REGIONS - 1. */
void endpoint_region_info(const struct endpoint *ep, unsigned int region,
			  struct endpoint_region *info);

/*
 * endpoint_read(), endpoint_write() - an access that the client forwards
 *
 * Return: 0; EINVAL: not inside a region. A wrong access inside a region is logged
 * and answered as the specification says; that is no error here.
 */
int endpoint_read(struct endpoint *ep, unsigned int region, uint64_t offset,
		  void *data, uint32_t count);
int endpoint_write(struct endpoint *ep, unsigned int region, uint64_t offset,
		   const void *data, uint32_t count);

/*
 * A function that has left the bus: all reads give ones, writes are lost, no DMA,
 * no interrupts. When it is dead no more, the function is as after power-on. A reset
 * that the client asks for, as one of the platform, ends this state, too.
 */
void endpoint_set_dead(struct endpoint *ep, bool dead);
bool endpoint_is_dead(const struct endpoint *ep);

/* Conventional reset: also what happens when the client goes away. */
void endpoint_reset(struct endpoint *ep);

/*
 * Gives BAR2 and BAR4 new memory, for the next client: the one before it may have kept
 * its mappings, and would ring doorbells, and read on-NIC memory, that are no longer its
 * own. For an endpoint that was reset and has no client.
 * Return: false with errno set: the memory may be the old one.
 */
bool endpoint_renew_bars(struct endpoint *ep);

/* How many resets there were, FLR included. */
uint32_t endpoint_resets(const struct endpoint *ep);

/*
 * Ties an eventfd to a vector and takes the file over; -1: none. A vector that is
 * pending is raised at once.
 */
void endpoint_set_irq(struct endpoint *ep, unsigned int vector, int fd);
void endpoint_trigger_irq(struct endpoint *ep, unsigned int vector);

/* Whether an interrupt was sent since the last call of this. */
bool endpoint_has_interrupted(struct endpoint *ep);

/* Now and then lets a write to BAR2 that was held back take effect. */
void endpoint_trickle(struct endpoint *ep);

#endif /* MODEL_ENDPOINT_H */
