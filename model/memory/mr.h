/* SPDX-License-Identifier: GPL-2.0 */
/* Memory regions: look-up, checks, dynamic state, revoke (HWI 6). */
#ifndef MODEL_MR_H
#define MODEL_MR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/engine.h"

/* Whose access it is. */
struct mr_actor {
	uint32_t qpn;
	uint32_t pd;
	bool kernel;		/* MOOR_QP_FLAG_KERNEL */
	uint32_t windows;	/* of type 2 bound on it: first index, or 0 */
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
	uint32_t epoch;		/* another body or binding, another epoch */
	bool write;
	bool relaxed;		/* writes may be reordered (HWI ORD-9) */
	uint64_t first;		/* byte of the mapped space, or DMA address */
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

/**
 * mr_grant_ptr() - the checks of HWI ACC-13 and ACC-14, and the host address
 * @nic:   the NIC
 * @grant: from mr_grant_access(), not of kind MR_KIND_NULL
 * @off:   bytes from the start of the granted range
 * @len:   bytes wanted; cut to what is contiguous
 * @ptr:   result
 *
 * Return: MOOR_SYN_NONE, or why not.
 */
uint8_t mr_grant_ptr(struct nic *nic, struct mr_grant *grant, uint64_t off,
		     uint64_t *len, uint8_t **ptr);

const char *syndrome_name(uint8_t syndrome);
/* The rule of 6.3 that an access broke. */
const char *syndrome_rule(uint8_t syndrome);

bool mr_init(struct nic *nic);
void mr_exit(struct nic *nic);
void mr_reset(struct nic *nic);

uint8_t mr_revoke(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);
uint8_t mr_query(struct nic *nic, const struct moor_cmd *cmd,
		 struct moor_cpl *cpl);

/* mr_fast.c: fast registration (HWI 6.9) */

/* What REG_MR asks for. */
struct mr_fast_request {
	uint32_t key;
	uint32_t access;	/* MOOR_ACCESS_* */
	uint64_t iova;
	uint64_t length;
	struct moor_xlat xlat;
};

/**
 * mr_fast_register() - register
 * @nic:   the NIC
 * @actor: the QP whose send queue the request is in, one of the kernel's
 * @req:   what it asks for
 *
 * Return: MOOR_SYN_NONE, or why not; then nothing has changed.
 */
uint8_t mr_fast_register(struct nic *nic, const struct mr_actor *actor,
			 const struct mr_fast_request *req);
/*
 * LOCAL_INV by, or SEND_INV to, this QP; of a fast-registration MR or a window.
 * Return: MOOR_SYN_NONE, or why not.
 */
uint8_t mr_invalidate(struct nic *nic, const struct mr_actor *actor,
		      uint32_t key);

/* mw.c: memory windows (HWI 6.7) */

/* What BIND_MW asks for. */
struct mw_request {
	uint32_t mw_key;
	uint32_t new_key;
	uint32_t mr_lkey;
	uint32_t access;	/* MOOR_ACCESS_REMOTE_*, MOOR_BIND_ZERO_BASED */
	uint64_t addr;
	uint64_t length;
};

/**
 * mw_bind() - bind a window, or unbind one of type 1
 * @nic:   the NIC
 * @actor: the QP whose send queue the request is in
 * @req:   what it asks for
 *
 * Return: MOOR_SYN_NONE, or why not; then nothing has changed.
 */
uint8_t mw_bind(struct nic *nic, struct mr_actor *actor,
		const struct mw_request *req);
/* What mr_invalidate() does with a window. */
uint8_t mw_invalidate(struct nic *nic, const struct mr_actor *actor,
		      uint32_t key);
/* The QP goes, or is reset: its type 2 windows are unbound. */
void mw_unbind_all(struct nic *nic, struct mr_actor *actor);
uint8_t mw_list(struct nic *nic, const struct moor_cmd *cmd,
		struct moor_cpl *cpl);

/* mr_strict.c: what --strict keeps until a revoke. */
struct moor_mr_context;

bool mr_strict_init(struct nic *nic);
void mr_strict_exit(struct nic *nic);
void mr_strict_reset(struct nic *nic);
void mr_strict_drop(struct nic *nic, uint32_t index);
/* The translations alone: the entry stays. */
void mr_strict_drop_pages(struct nic *nic, uint32_t index);
/* The entry that is kept, or NULL. */
const struct moor_mr_context *mr_strict_entry(struct nic *nic, uint32_t index);
void mr_strict_keep(struct nic *nic, uint32_t index,
		    const struct moor_mr_context *entry);
/* xlat_walk() that keeps what it finds. */
uint8_t mr_strict_walk(struct nic *nic, struct mr_grant *grant, uint64_t byte,
		       struct xlat_leaf *leaf);

#endif /* MODEL_MR_H */
