/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What must not stay behind after graphs end: objects, pinned pages, complaints of the
 * kernel.
 */
#ifndef RESIDUE_H
#define RESIDUE_H

#include <stdbool.h>

#include "holdings.h"

struct residue {
	struct holdings held;	/* context entries; objects that the core counts */
	long pinned;		/* pages */
	int mrs;		/* MRs that the driver lists */
};

void residue_get(struct residue *now);

/*
 * Waits until everything is as in @before and on-NIC memory is free. Return: false with
 * @why if that does not come, or if the kernel has complained since the last call.
 */
bool residue_same(const struct residue *before, char *why, unsigned int size);

/*
 * Counts slab objects of the driver, and of the core on its behalf. Takes a second.
 * Returns -1 if the kernel cannot tell, for it has KASAN; 0 without slab_debug=U.
 */
long residue_objects(void);

/*
 * Checks only what can be checked without a device: pinned pages and the kernel's log.
 */
bool residue_unpinned(const struct residue *before, char *why, unsigned int size);

#endif /* RESIDUE_H */
