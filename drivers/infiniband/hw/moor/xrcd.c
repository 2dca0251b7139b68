// SPDX-License-Identifier: GPL-2.0
/*
 * XRC domains: numbers that XRC targets and XRC shared receive queues have in common.
 * The core knows which processes share a domain, by the inode that they open it with.
 */

#include "moor.h"

/**
 * moor_alloc_xrcd - give an XRC domain its number
 * @ibxrcd: XRC domain
 * @udata: no input
 *
 * Return: 0 or an errno.
 */
int moor_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibxrcd->device);
	int number, err;

	err = ib_no_udata_io(udata);
	if (err)
		return err;
	number = ida_alloc_range(&mdev->xrcdns, 1, MOOR_MAX_PDN, GFP_KERNEL);
	if (number < 0)
		return -ENOMEM;
	to_mxrcd(ibxrcd)->xrcdn = number;
	return 0;
}

int moor_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibxrcd->device);

	ida_free(&mdev->xrcdns, to_mxrcd(ibxrcd)->xrcdn);
	return 0;
}
