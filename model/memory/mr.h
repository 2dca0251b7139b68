/* SPDX-License-Identifier: GPL-2.0 */
/* Memory regions: look-up, checks, dynamic state, revoke (HWI 6). */
#ifndef MODEL_MR_H
#define MODEL_MR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"
#include "memory/translate.h"

/* The QP that makes an access. */
struct mr_actor {
	uint32_t qpn;
	uint32_t pd;
	bool kernel;		/* MOOR_QP_FLAG_KERNEL */
	uint32_t windows;	/* of type 2, bound on the QP: first index, or 0 */
};

enum mr_kind {
	MR_KIND_TABLE,		/* through a translation */
	MR_KIND_NULL,		/* reads as zeros, swallows writes */
	MR_KIND_ALL,		/* addresses are DMA addresses */
};

/* An access that was granted; good for one chunk. */
struct mr_grant {
	enum mr_kind kind;
	uint32_t index;
	uint64_t epoch;		/* differs for each body or binding of the entry */
	bool write;
	bool relaxed;		/* writes may be reordered (HWI ORD-9) */
	uint64_t first;		/* byte of the mapped space, or DMA address */
	uint64_t wanted;	/* byte last asked for: with SYN_PAGE_FAULT it is absent */
	struct xlat xlat;
	struct xlat_node node;
};

/**
 * mr_grant_access() - the checks of HWI ACC-3 to ACC-12
 * @nic:   the NIC
 * @actor: the QP that accesses
 * @key:   all 32 bits count
 * @addr:  first byte
 * @len:   bytes, not 0
 * @need:  MOOR_ACCESS_*, of which a remote right makes the access remote;
 *         0: local read
 * @grant: result
 *
 * Return: MOOR_SYN_NONE, or why not.
 */
uint8_t mr_grant_access(struct nic *nic, const struct mr_actor *actor,
			uint32_t key, uint64_t addr, uint64_t len,
			uint32_t need, struct mr_grant *grant);

/* The same for the whole range of the MR or window that @key names. */
uint8_t mr_grant_whole(struct nic *nic, const struct mr_actor *actor,
		       uint32_t key, uint32_t need, struct mr_grant *grant);

/**
 * mr_grant_ptr() - the checks of HWI ACC-13 and ACC-14, and the host address
 * @nic:   the NIC
 * @grant: from mr_grant_access(), not of kind MR_KIND_NULL
 * @off:   bytes from the start of the granted range
 * @len:   bytes wanted; cut to what is contiguous
 * @ptr:   result
 *
 * Return: MOOR_SYN_NONE, or why not; with SYN_PAGE_FAULT @grant->wanted is absent.
 */
uint8_t mr_grant_ptr(struct nic *nic, struct mr_grant *grant, uint64_t off,
		     uint64_t *len, uint8_t **ptr);

/* Return: MOOR_ACCESS_*, those whose features the NIC has (HWI FEAT-4). */
uint32_t mr_rights(const struct nic *nic);

bool mr_init(struct nic *nic);
void mr_exit(struct nic *nic);
void mr_reset(struct nic *nic);

uint8_t mr_revoke(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);
uint8_t mr_query(struct nic *nic, const struct moor_cmd *cmd,
		 struct moor_cpl *cpl);

#endif /* MODEL_MR_H */
