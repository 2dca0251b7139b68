// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "open.h"
#include "tap.h"

struct ibv_pd *open_pd(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **at;
	struct ibv_context *ctx = NULL;
	struct ibv_pd *pd;

	for (at = list; at && *at && !ctx; at++)
		if (!strcmp(ibv_get_device_name(*at), name))
			ctx = ibv_open_device(*at);
	ibv_free_device_list(list);
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	if (!pd)
		tap_bail("%s cannot be opened", name);
	return pd;
}
