// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Address handles. The kernel resolves the GID to an Ethernet address; the
 * device is not told about address handles, they go into the WQEs.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "moor.h"
#include "moor_abi.h"

static void fill_segment(struct moor_wqe_ud *segment,
			 const struct ibv_ah_attr *attr,
			 const struct moor_create_ah_resp *resp)
{
	memcpy(segment->dgid, attr->grh.dgid.raw, sizeof(segment->dgid));
	memcpy(segment->dmac, resp->dmac, sizeof(segment->dmac));
	segment->sgid_index = attr->grh.sgid_index;
	segment->hop_limit = resp->hop_limit;
	segment->traffic_class = attr->grh.traffic_class;
	segment->flow_label = htole32(attr->grh.flow_label &
				      IB_GRH_FLOWLABEL_MASK);
	segment->priority = attr->sl & 7;
	segment->udp_sport =
		htole16(ibv_flow_label_to_udp_sport(attr->grh.flow_label));
}

struct ibv_ah *moor_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct moor_ucmd_create_ah_resp resp = {};
	struct moor_ah *ah;
	int err;

	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	err = ibv_cmd_create_ah(pd, &ah->ah, attr, &resp.ibv_resp,
				sizeof(resp));
	if (err) {
		free(ah);
		errno = err;
		return NULL;
	}
	fill_segment(&ah->segment, attr, &resp.drv_payload);
	return &ah->ah;
}

int moor_destroy_ah(struct ibv_ah *ibah)
{
	int err = ibv_cmd_destroy_ah(ibah);

	if (err)
		return err;
	free(to_moor_ah(ibah));
	return 0;
}
