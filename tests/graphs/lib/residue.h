/* SPDX-License-Identifier: GPL-2.0 */
/* What graphs must not leave behind: nothing more than there was, and no complaint. */
#ifndef RESIDUE_H
#define RESIDUE_H

#include <stdbool.h>

#include "holdings.h"

struct residue {
	struct holdings held;	/* valid entries; what the core counts */
	long pinned;		/* pages */
	int mrs;		/* that the driver knows */
};

void residue_get(struct residue *now);

/*
 * Waits a moment until all is as @before, and on-NIC memory is free. Return: false
 * with @why if it is not, or if the kernel has complained since the last call.
 */
bool residue_same(const struct residue *before, char *why, unsigned int size);

/*
 * Slab objects of the driver, and of the core for it. Takes a second. -1: this kernel
 * does not know (it does with slab_debug=U, and without KASAN).
 */
long residue_objects(void);

/* Only what is true without a device, too: pages, and the kernel's word. */
bool residue_unpinned(const struct residue *before, char *why, unsigned int size);

#endif /* RESIDUE_H */
