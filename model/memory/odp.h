/* SPDX-License-Identifier: GPL-2.0 */
/* On-demand paging: pages that are not there, and MR_INVALIDATE (HWI 6.10). */
#ifndef MODEL_ODP_H
#define MODEL_ODP_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/transfer.h"

/**
 * odp_describe() - the page that a stream's access is waiting for
 * @nic: the NIC
 * @s:   the stream, which met SYN_PAGE_FAULT
 * @end: offset in the current segment at which the bytes to be moved end
 * @request: result: key, address, length, flag WRITE
 *
 * Return: false when the MR is not there any more.
 */
bool odp_describe(struct nic *nic, const struct stream *s, uint32_t end,
		  struct moor_page_request *request);
uint8_t odp_invalidate(struct nic *nic, const struct moor_cmd *cmd,
		       struct moor_cpl *cpl);

#endif /* MODEL_ODP_H */
