/* SPDX-License-Identifier: GPL-2.0 */
/* Translations: from a byte of an object to host memory (HWI 7). */
#ifndef MODEL_TRANSLATE_H
#define MODEL_TRANSLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "moor/moor_hw.h"

struct nic;

/*
 * struct moor_xlat in host order, copied once and checked by xlat_decode(), except
 * for the root, which xlat_walk() checks (HWI XLT-7).
 */
struct xlat {
	uint64_t root;
	uint64_t offset;
	uint8_t levels;
	uint8_t page_shift;
	uint8_t memory;
	bool on_demand;		/* an absent entry is no failure (HWI ODP-7) */
};

/*
 * Besides enum moor_syndrome: a page is not there yet. No CQE has it: a QP that meets
 * it waits for the page, or reports MOOR_SYN_TRANSLATION.
 */
#define SYN_PAGE_FAULT	0xffu

/* What one table entry says about a byte and the bytes behind it. */
struct xlat_leaf {
	uint64_t addr;		/* DMA address or on-NIC offset of the byte */
	uint64_t size;		/* bytes from there to the end of the leaf */
	bool writable;
};

/*
 * The node that was used last. Good only as long as neither the DMA map nor
 * the table can change, that is, while one chunk is worked on.
 */
struct xlat_node {
	const uint64_t *entries;
	uint64_t addr;		/* its DMA address */
	uint64_t prefix;	/* the bits of its bytes above @shift and the slot */
	unsigned int shift;	/* of one slot */
};

/* A stretch of a queue with a host address, kept across calls. */
struct xlat_window {
	uint64_t generation;	/* of the DMA map when @base was looked up */
	uint64_t first;		/* byte of the mapped space */
	uint64_t size;
	uint8_t *base;
};

/**
 * xlat_decode() - copy a translation and check its form
 * @x:   result; not on demand
 * @raw: from a command or a context entry, already copied out of guest memory
 *
 * Return: true when it is well formed.
 */
bool xlat_decode(struct xlat *x, const struct moor_xlat *raw);

/**
 * xlat_walk() - find the leaf of a byte
 * @nic:   the NIC
 * @x:     the translation
 * @byte:  of the mapped space, so x->offset is already added
 * @leaf:  result
 * @node:  the node used last; cleared before the first use
 *
 * Return: MOOR_SYN_NONE, MOOR_SYN_TRANSLATION, MOOR_SYN_DMA or SYN_PAGE_FAULT.
 */
uint8_t xlat_walk(struct nic *nic, const struct xlat *x, uint64_t byte,
		  struct xlat_leaf *leaf, struct xlat_node *node);

/**
 * xlat_host() - host address of what a leaf names
 * @nic:   the NIC
 * @x:     the translation
 * @leaf:  from xlat_walk()
 * @len:   bytes wanted; cut to what is contiguous
 * @write: the memory is to be written
 * @ptr:   result
 *
 * Return: as xlat_walk().
 */
uint8_t xlat_host(struct nic *nic, const struct xlat *x,
		  const struct xlat_leaf *leaf, uint64_t *len, bool write,
		  uint8_t **ptr);

/**
 * xlat_window_ptr() - host address of an entry of a queue
 * @nic:   the NIC
 * @x:     the queue's translation; its offset is a multiple of the entry size
 * @win:   the queue's window
 * @pos:   byte from the start of the queue; entries do not cross 4 KiB
 * @write: the memory is to be written; the same for all uses of a window
 *
 * Return: the address, good until the DMA map changes, or NULL.
 */
uint8_t *xlat_window_ptr(struct nic *nic, const struct xlat *x,
			 struct xlat_window *win, uint64_t pos, bool write);

/* The node at a DMA address, in host memory; NULL: it cannot be reached. */
const uint64_t *xlat_node_ptr(struct nic *nic, uint64_t addr);

/* Is every byte of a queue reachable? */
bool xlat_reachable(struct nic *nic, const struct xlat *x, uint64_t size,
		    bool write);

#endif /* MODEL_TRANSLATE_H */
