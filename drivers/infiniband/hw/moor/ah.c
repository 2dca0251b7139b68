// SPDX-License-Identifier: GPL-2.0
/*
 * Address handles. The device needs none: they are a place where the core's
 * resolution of a GID to an Ethernet address is kept.
 */

#include "moor.h"

/**
 * moor_create_ah - make an address handle
 * @ibah: address handle
 * @init_attr: attributes, resolved by the core
 * @udata: no input, struct moor_create_ah_resp, or NULL for the kernel's own
 *
 * Return: 0 or an errno.
 */
int moor_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init_attr,
		   struct ib_udata *udata)
{
	struct rdma_ah_attr *attr = init_attr->ah_attr;
	struct moor_create_ah_resp resp = {};
	struct moor_ah *ah = to_mah(ibah);
	int err;

	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;
	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE ||
	    !(rdma_ah_get_ah_flags(attr) & IB_AH_GRH))
		return -EINVAL;

	memcpy(ah->dmac, attr->roce.dmac, ETH_ALEN);
	if (!udata)
		return 0;
	memcpy(resp.dmac, ah->dmac, ETH_ALEN);
	return ib_respond_udata(udata, resp);
}

int moor_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	return 0;
}
