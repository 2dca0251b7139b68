// SPDX-License-Identifier: GPL-2.0
/*
 * Address handles. The device needs none: they are a place where the core's
 * resolution of a GID to an Ethernet address is kept, ready to go into a WQE.
 */

#include "moor.h"

static void moor_ah_fill(struct moor_wqe_ud *segment,
			 const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);

	memcpy(segment->dgid, grh->dgid.raw, sizeof(segment->dgid));
	memcpy(segment->dmac, attr->roce.dmac, sizeof(segment->dmac));
	segment->sgid_index = grh->sgid_index;
	segment->hop_limit = grh->hop_limit;
	segment->traffic_class = grh->traffic_class;
	segment->flow_label = cpu_to_le32(grh->flow_label &
					  IB_GRH_FLOWLABEL_MASK);
	segment->priority = rdma_ah_get_sl(attr) & 7;
	segment->udp_sport =
		cpu_to_le16(rdma_flow_label_to_udp_sport(grh->flow_label));
}

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

	moor_ah_fill(&ah->segment, attr);
	if (!udata)
		return 0;
	memcpy(resp.dmac, ah->segment.dmac, ETH_ALEN);
	resp.hop_limit = ah->segment.hop_limit;
	return ib_respond_udata(udata, resp);
}

int moor_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	return 0;
}
