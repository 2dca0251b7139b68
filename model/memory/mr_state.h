/* SPDX-License-Identifier: GPL-2.0 */
/* What keys stand for: dynamic state, and look-up without checks. */
#ifndef MODEL_MR_STATE_H
#define MODEL_MR_STATE_H

#include "base/layout.h"
#include "memory/mr.h"

#define REMOTE_RIGHTS	(MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_REMOTE_READ | \
			 MOOR_ACCESS_REMOTE_ATOMIC | \
			 MOOR_ACCESS_FLUSH_GLOBAL | \
			 MOOR_ACCESS_FLUSH_PERSISTENT)
#define WRITING_RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
			 MOOR_ACCESS_REMOTE_ATOMIC)

/*
 * The state of an entry that changes without the driver (HWI DYN-1). It belongs to
 * one valid word and starts anew with another one. @epoch then changes, and also when
 * a binding of a window ends and when a registration begins or ends.
 */
struct mr_dynamic {
	uint64_t word;
	uint64_t epoch;
	uint32_t key;		/* as it is now, consumer byte included */
	uint32_t windows;	/* bound to this MR */
	bool revoked;		/* no access starts any more under @word */
	bool bound;		/* window: its mw_binding is valid */
	bool registered;	/* fast registration: its mr_registration is valid */
};

/*
 * The binding of a window. The type 2 windows that are bound on one QP form a list,
 * linked by index, because their bindings end with the QP.
 */
struct mw_binding {
	uint64_t mr_epoch;	/* of the MR it was bound to */
	uint32_t mr_index;
	uint32_t qpn;		/* QP: bound on (type 2), bound through (type 1) */
	uint32_t access;	/* MOOR_ACCESS_REMOTE_*, MOOR_ACCESS_FLUSH_* */
	uint64_t iova;		/* of its first byte, as peers name it */
	uint64_t length;
	uint64_t mr_offset;	/* of its first byte in the MR */
	struct mr_actor *owner;	/* type 2; NULL: in no list */
	uint32_t next, prev;	/* indices; 0: none */
};

/* What REG_MR has made of a fast-registration MR. */
struct mr_registration {
	uint32_t access;
	uint64_t iova;
	uint64_t length;
	struct xlat xlat;
};

struct mr_tables {
	struct mr_dynamic dynamic[NIC_NUM_MR];
	struct mw_binding window[NIC_NUM_MW];	/* from NIC_MR_CONSUMER_FIRST */
	struct mr_registration fast[NIC_NUM_MW];	/* the same */
	struct mr_strict *strict;	/* NULL without --strict */
};

static inline uint32_t key_index(uint32_t key)
{
	return key >> (32 - NIC_MR_INDEX_BITS);
}

static inline bool is_window(uint64_t word)
{
	return FIELD(MOOR_MRC_TYPE, word) == MOOR_MRC_TYPE_MW_1 ||
	       FIELD(MOOR_MRC_TYPE, word) == MOOR_MRC_TYPE_MW_2;
}

static inline bool is_fast(uint64_t word)
{
	return FIELD(MOOR_MRC_TYPE, word) == MOOR_MRC_TYPE_FAST_REG;
}

/* Do @len bytes from @addr on lie inside @length bytes from @iova on? */
static inline bool range_inside(uint64_t addr, uint64_t len, uint64_t iova,
				uint64_t length)
{
	return addr >= iova && len <= length && addr - iova <= length - len;
}

/* mr.c */
/*
 * Finds the valid entry of an index and checks its form, nothing else. Return:
 * its dynamic state, which may be revoked; NULL: there is no valid entry. The body of
 * a fast-registration MR is that of its registration, if it has one.
 */
struct mr_dynamic *mr_find_entry(struct nic *nic, uint32_t index,
				 struct moor_mr_context *entry,
				 struct xlat *xlat);
/* The same for a key, whose consumer byte is not compared. */
struct mr_dynamic *mr_find_key(struct nic *nic, uint32_t key,
			       struct moor_mr_context *entry);

/* mr_fast.c */
/* Puts a registration in the place of an entry's body. */
void mr_fast_show(struct nic *nic, uint32_t index,
		  struct moor_mr_context *entry, struct xlat *xlat);

/* mw.c */
/* HWI ACC-4 to ACC-12 for a remote access through a window. */
uint8_t mw_grant(struct nic *nic, const struct mr_actor *actor, uint32_t index,
		 const struct moor_mr_context *window, uint64_t addr,
		 uint64_t len, uint32_t need, struct mr_grant *grant);
/* Ends a binding: revoke, or another valid word. */
void mw_unbind(struct nic *nic, uint32_t index);
/* Fills in what MR_QUERY tells about a binding. */
void mw_query(struct nic *nic, uint32_t index, struct moor_cpl_mr_query *out);
/* The range of a window; without meaning if the window is not bound. */
void mw_range(struct nic *nic, uint32_t index, uint64_t *addr, uint64_t *len);

#endif /* MODEL_MR_STATE_H */
