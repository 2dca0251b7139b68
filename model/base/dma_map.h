/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the guest has mapped for DMA: intervals of DMA addresses, each backed by
 * a range of a file that the client passed us.
 *
 * A pointer from dma_map_ptr() is good until dma_map_generation() changes,
 * that is, at most until the next message of the client is read: nothing here
 * is unmapped while the NIC works.
 */
#ifndef MODEL_DMA_MAP_H
#define MODEL_DMA_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dma_map;

enum dma_prot {
	DMA_PROT_READ	= 1,	/* the device may read */
	DMA_PROT_WRITE	= 2,	/* the device may write */
};

struct dma_map *dma_map_create(void);
void dma_map_destroy(struct dma_map *map);

/**
 * dma_map_add - makes a range of DMA addresses known
 * @map:	the map
 * @addr:	first DMA address
 * @len:	bytes, not 0
 * @prot:	enum dma_prot
 * @fd:		file that holds the memory, or -1: the range is known, but every
 *		access to it is a fault. Not consumed.
 * @offset:	of the range in the file
 *
 * Return: 0; EINVAL: the range wraps, is not inside the file or not of whole
 * pages; EEXIST: it overlaps a mapped range; ENOSPC: too many ranges or files; or the
 * error of mmap() or fstat().
 */
int dma_map_add(struct dma_map *map, uint64_t addr, uint64_t len,
		unsigned int prot, int fd, uint64_t offset);

/* Takes away whatever is mapped in the range. Return: 0, EINVAL or ENOMEM. */
int dma_map_remove(struct dma_map *map, uint64_t addr, uint64_t len);

/* Takes everything away and lets go of the files. */
void dma_map_clear(struct dma_map *map);

/* Bus Master Enable. While off, every access is a fault. */
void dma_map_set_enabled(struct dma_map *map, bool enabled);

/**
 * dma_map_ptr - where a DMA address is in our memory
 * @map:	the map
 * @addr:	DMA address
 * @len:	in: bytes wanted; out: bytes from here on that are contiguous in our
 *		memory, at least 1 and never more than wanted
 * @write:	the device is going to write
 *
 * Return: the address; NULL: not mapped, not mapped for this direction, or bus
 * mastering is off. That is a DMA fault, already logged and counted; the
 * caller fails the access.
 */
void *dma_map_ptr(struct dma_map *map, uint64_t addr, uint64_t *len, bool write);

/* Copies across ranges. Return: false at a DMA fault; part may be copied. */
bool dma_read(struct dma_map *map, void *to, uint64_t addr, uint64_t len);
bool dma_write(struct dma_map *map, uint64_t addr, const void *from,
	       uint64_t len);

/*
 * Writes back all that was written to the client's files: some may outlive the machine.
 * Return: false when that failed for one of the files.
 */
bool dma_map_sync(struct dma_map *map);

/* Changes whenever a pointer from dma_map_ptr() may have become stale. */
uint64_t dma_map_generation(const struct dma_map *map);

/* DMA faults since creation. */
uint64_t dma_map_faults(const struct dma_map *map);

/* Addresses that dma_map_ptr() has given out since creation. */
uint64_t dma_map_accesses(const struct dma_map *map);

/*
 * True once if memory vanished under us since the last call, because the
 * client cut a file short. The file's mapping is private memory since, zeros at first.
 */
bool dma_map_torn(void);

#endif /* MODEL_DMA_MAP_H */
