// SPDX-License-Identifier: GPL-2.0
/*
 * Protection domains: numbers that QPs, MRs and windows have in common. The
 * device makes nothing of them but comparisons.
 */

#include "moor.h"

/**
 * moor_alloc_pd - give a protection domain its number
 * @ibpd: protection domain
 * @udata: no input, struct moor_alloc_pd_resp, or NULL for the kernel's own
 *
 * Return: 0 or an errno.
 */
int moor_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibpd->device);
	struct moor_alloc_pd_resp resp = {};
	struct moor_pd *pd = to_mpd(ibpd);
	int pdn, err;

	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;

	pdn = ida_alloc_range(&mdev->pdns, 1, MOOR_MAX_PDN, GFP_KERNEL);
	if (pdn < 0)
		return -ENOMEM;
	pd->pdn = pdn;
	if (udata) {
		resp.pdn = pdn;
		err = ib_respond_udata(udata, resp);
		if (err) {
			ida_free(&mdev->pdns, pdn);
			return err;
		}
	}
	return 0;
}

int moor_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibpd->device);

	ida_free(&mdev->pdns, to_mpd(ibpd)->pdn);
	return 0;
}
