// SPDX-License-Identifier: GPL-2.0
/*
 * Numbers of queue pairs and shared receive queues: the low bits are an index, the
 * driver chooses the others (HWI 8.4).
 */

#include <linux/random.h>

#include "moor.h"

#define MOOR_NUMBER_BITS	24
#define MOOR_NUMBER_TRIES	16
#define MOOR_NUMBER_MULTICAST	0xffffffU	/* in IBA: no queue pair's (HWI QP-16) */

/**
 * moor_number_alloc - give an object its number
 * @objects: existing objects, by index
 * @bits: number of bits of the index
 * @first: lowest index
 * @object: what @objects is to have under the new index; NULL: nothing yet, but the
 *	index is taken
 * @number: filled in
 *
 * QP numbers are not to be guessed by a peer: the index is random, and so are
 * the bits above it. These bits tell a late event or packet of an object that is gone
 * from one of the index's next owner.
 *
 * Return: 0, or -ENOMEM if there is no memory or no index left.
 */
int moor_number_alloc(struct xarray *objects, u32 bits, u32 first, void *object,
		      u32 *number)
{
	u32 last = min(BIT(bits), MOOR_NUMBER_MULTICAST) - 1;
	u32 index;
	int try, err;

	for (try = 0; try < MOOR_NUMBER_TRIES; try++) {
		index = get_random_u32_inclusive(first, last);
		err = xa_insert(objects, index, object, GFP_KERNEL);
		if (err != -EBUSY)
			break;
	}
	/* Nearly full: search from there on, then from the start. */
	if (err == -EBUSY)
		err = xa_alloc(objects, &index, object, XA_LIMIT(index, last),
			       GFP_KERNEL);
	if (err == -EBUSY)
		err = xa_alloc(objects, &index, object, XA_LIMIT(first, last),
			       GFP_KERNEL);
	if (err)
		return -ENOMEM;
	/* The loop ends: an index of all bits is never MOOR_NUMBER_MULTICAST. */
	do {
		*number = index |
			  get_random_u32_below(BIT(MOOR_NUMBER_BITS - bits)) << bits;
	} while (*number == MOOR_NUMBER_MULTICAST);
	return 0;
}
