// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Address handles. The kernel resolves the GID to an Ethernet address; the
 * device is not told about address handles, they go into the WQEs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "moor.h"
#include "moor_abi.h"

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
	memcpy(ah->dmac, resp.dmac, sizeof(ah->dmac));
	return &ah->ah;
}

int moor_destroy_ah(struct ibv_ah *ibah)
{
	int err = ibv_cmd_destroy_ah(ibah);

	if (err)
		return err;
	free(container_of(ibah, struct moor_ah, ah));
	return 0;
}
