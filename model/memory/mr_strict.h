/* SPDX-License-Identifier: GPL-2.0 */
/* What --strict keeps until a revoke. */
#ifndef MODEL_MR_STRICT_H
#define MODEL_MR_STRICT_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/mr.h"

bool mr_strict_init(struct nic *nic);
void mr_strict_exit(struct nic *nic);
void mr_strict_reset(struct nic *nic);
void mr_strict_drop(struct nic *nic, uint32_t index);
/* The translations alone: the entry stays. */
void mr_strict_drop_pages(struct nic *nic, uint32_t index);
/* Of an MR with a table: the translations whose leaves span a byte of the range. */
void mr_strict_drop_range(struct nic *nic, uint32_t index, uint64_t first,
			  uint64_t last);
/* The entry that is kept, or NULL. */
const struct moor_mr_context *mr_strict_entry(struct nic *nic, uint32_t index);
void mr_strict_keep(struct nic *nic, uint32_t index,
		    const struct moor_mr_context *entry);
/* xlat_walk() that keeps what it finds. */
uint8_t mr_strict_walk(struct nic *nic, struct mr_grant *grant, uint64_t byte,
		       struct xlat_leaf *leaf);

#endif /* MODEL_MR_STRICT_H */
