/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory windows on a pair: binding and invalidating by both of libibverbs' interfaces
 * for posting, and requests by a key.
 */
#ifndef WINDOW_H
#define WINDOW_H

#include "pair.h"

/* The operations that a QP of ibv_create_qp_ex() needs for these tests. */
#define WINDOW_OPS	(IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | \
			 IBV_QP_EX_WITH_SEND_WITH_INV)

#define BINDABLE	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)

/* The values of enum moor_syndrome. */
enum {
	SYN_NONE, SYN_KEY, SYN_PD, SYN_RIGHTS, SYN_BOUNDS, SYN_LENGTH = 10,
	SYN_WINDOW,
};

struct api {
	const char *name;
	/*
	 * All return what posting returned. Posting a bind sets mw->rkey to the new
	 * key; if the bind then fails, the caller has to put the old one back.
	 */
	int (*bind)(struct side *side, struct ibv_mw *mw, uint32_t new_key,
		    const struct ibv_mw_bind_info *info);
	int (*local_inv)(struct side *side, uint32_t key);
	int (*send_inv)(struct side *side, uint32_t key, void *data,
			uint32_t length);
};

extern const struct api apis[2];	/* ibv_post_send(), ibv_wr_*() */

#define WINDOW_WR_ID	0x77

/* How a request has ended. */
struct outcome {
	int posted;	/* what posting returned; ETIMEDOUT: no completion came */
	enum ibv_wc_status status;	/* valid if @posted is 0 */
	uint32_t syndrome;
	enum ibv_wc_opcode opcode;	/* valid if the status is success */
};

struct outcome finish(struct side *side, int posted);
/* Has the request ended with @status? If not, prints how. */
bool is(struct outcome o, enum ibv_wc_status status);
struct outcome bind_window(const struct api *api, struct side *side,
			   struct ibv_mw *mw, uint32_t new_key,
			   struct ibv_mr *mr, uint64_t addr, uint64_t length,
			   unsigned int access);
/* Binds with the next key; bails out unless that succeeds. */
void must_bind(const struct api *api, struct side *side, struct ibv_mw *mw,
	       struct ibv_mr *mr, uint64_t addr, uint64_t length,
	       unsigned int access);
struct outcome invalidate(const struct api *api, struct side *side,
			  uint32_t key);
/* Side a makes a request for memory at side b; its own end is a's buffer. */
struct outcome ask(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t rkey,
		   uint64_t remote, uint32_t length);
/* Resets and connects both QPs; drops their completions and events. */
void revive(struct pair *pair);
struct ibv_mw *must_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
struct ibv_mr *must_reg(struct ibv_pd *pd, void *addr, size_t length,
			unsigned int access);

#endif /* WINDOW_H */
