/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory windows on a pair: binding and invalidating by either of libibverbs'
 * two ways to post, and asking for memory by a key.
 */
#ifndef WINDOW_H
#define WINDOW_H

#include "pair.h"

/* What a QP of ibv_create_qp_ex() needs for all of it. */
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
	 * All return what posting returned. A bind that was posted leaves the key it
	 * is to have in mw->rkey; who sees it fail puts the old one back.
	 */
	int (*bind)(struct side *side, struct ibv_mw *mw, uint32_t new_key,
		    const struct ibv_mw_bind_info *info);
	int (*local_inv)(struct side *side, uint32_t key);
	int (*send_inv)(struct side *side, uint32_t key, void *data,
			uint32_t length);
};

extern const struct api apis[2];	/* ibv_post_send(), ibv_wr_*() */

#define WINDOW_WR_ID	0x77

/* How a request ended. */
struct outcome {
	int posted;			/* what posting returned */
	enum ibv_wc_status status;	/* if that was 0 */
	uint32_t syndrome;
	enum ibv_wc_opcode opcode;	/* if the status is success */
};

struct outcome finish(struct side *side, int posted);
/* Did it end so? Says how else. */
bool is(struct outcome o, enum ibv_wc_status status);
struct outcome bind_window(const struct api *api, struct side *side,
			   struct ibv_mw *mw, uint32_t new_key,
			   struct ibv_mr *mr, uint64_t addr, uint64_t length,
			   unsigned int access);
/* The same by the next key; bails out unless it succeeds. */
void must_bind(const struct api *api, struct side *side, struct ibv_mw *mw,
	       struct ibv_mr *mr, uint64_t addr, uint64_t length,
	       unsigned int access);
struct outcome invalidate(const struct api *api, struct side *side,
			  uint32_t key);
/* Side a asks for memory at side b; a buffer of a's at the other end. */
struct outcome ask(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t rkey,
		   uint64_t remote, uint32_t length);
/* Both QPs back to RTS; completions and events of the past are gone. */
void revive(struct pair *pair);
struct ibv_mw *must_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
struct ibv_mr *must_reg(struct ibv_pd *pd, void *addr, size_t length,
			unsigned int access);

#endif /* WINDOW_H */
