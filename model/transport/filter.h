/* SPDX-License-Identifier: GPL-2.0 */
/* Filters: which QPs get a datagram that is sent to a group (HWI 12.5). */
#ifndef MODEL_FILTER_H
#define MODEL_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"

struct filter {
	bool used;
	uint32_t qpn;
	uint8_t gid[16];
};

struct filters {
	struct filter filter[NIC_MAX_FILTER];
};

/* The first filter of @gid from index *@at on, or NULL. *@at moves behind the filter. */
const struct filter *filter_next(const struct nic *nic, const uint8_t *gid,
				 uint32_t *at);
/* Removes the filters of a QP that is destroyed. */
void filter_forget(struct nic *nic, uint32_t qpn);
uint8_t filter_attach(struct nic *nic, const struct moor_cmd *cmd,
		      struct moor_cpl *cpl);
uint8_t filter_detach(struct nic *nic, const struct moor_cmd *cmd,
		      struct moor_cpl *cpl);

#endif /* MODEL_FILTER_H */
