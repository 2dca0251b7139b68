/* SPDX-License-Identifier: GPL-2.0 */
/* The functions that build calls, and what they share. */
#ifndef UVERBS_BUILD_H
#define UVERBS_BUILD_H

#include <rdma/moor-abi.h>

#include "uverbs_call.h"

/* A random address in the arena. */
uint64_t memory(void);

/* Begin an ioctl(), and add its attributes one by one. */
void method(uint16_t object, uint16_t id);
void attr_new(uint16_t id);
void attr_in(uint16_t id, const void *data, uint16_t len);
void *attr_out(uint16_t id, uint16_t len);
void attr_u32(uint16_t id, uint32_t value);
void attr_u64(uint16_t id, uint64_t value);

/*
 * Builds a command for write(). @core begins with the address of the answer, if there
 * is one. Returns where the answer will be.
 */
void *command(uint32_t number, const void *core, size_t core_size,
	      const void *driver, size_t driver_size, size_t answer_size);

#define COMMAND(number, core, answer) \
	command(IB_USER_VERBS_CMD_##number, &(core), sizeof(core), NULL, 0, answer)

/* uverbs_context.c */
void build_get_context(void);
void build_get_context_ioctl(void);
void build_query_context(void);
void build_query_device(void);
void build_query_port(void);
void build_query_port_ioctl(void);
void build_query_gids(void);
void build_info_handles(void);
void build_refusal(void);
void build_alloc_pd(void);
void build_dealloc_pd(void);
void build_query_pd(void);
void build_create_ah(void);
void build_destroy_ah(void);

/* uverbs_memory.c */
void build_reg_mr(void);
void build_reg_mr_ioctl(void);
void build_rereg_mr(void);
void build_dereg_mr(void);
void build_destroy_mr(void);
void build_query_mr(void);
void build_list_windows(void);
void build_alloc_mw(void);
void build_dealloc_mw(void);
void build_alloc_dm(void);
void build_free_dm(void);
void build_query_dm(void);
void build_reg_dm(void);

/* uverbs_dmabuf.c */
void build_reg_dmabuf(void);
void build_advise_mr(void);
int move_dmabuf(void);

/* uverbs_queue.c */
void build_create_channel(void);
void build_create_cq(void);
void build_create_cq_ioctl(void);
void build_resize_cq(void);
void build_destroy_cq(void);
void build_create_qp(void);
void build_create_qp_ioctl(void);
void build_query_qp(void);
void build_modify_qp(void);
void build_destroy_qp(void);

struct cq_answer {
	struct ib_uverbs_create_cq_resp core;
	struct moor_create_cq_resp driver;
};

struct qp_answer {
	struct ib_uverbs_create_qp_resp core;
	struct moor_create_qp_resp driver;
};

/* The same calls with arguments that are not random. */
const struct cq_answer *put_create_cq(uint64_t ring, uint8_t log_cqe, int channel);
const struct qp_answer *put_create_qp(const struct moor_create_qp_req *req, uint32_t pd,
				      uint32_t send_cq, uint32_t recv_cq);
void put_modify_qp(uint32_t qp, uint32_t state, uint32_t peer);

/* uverbs_map.c */
int map_something(void);

/* uverbs_bind.c */
int bind_some(void);
int unbind_some(void);
/* A PD for new memory: often the one whose MRs and windows can be bound. */
uint32_t pick_pd(void);

/* uverbs_post.c */
int post_refused(void);

#endif /* UVERBS_BUILD_H */
