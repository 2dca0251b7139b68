/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two queue pairs of one process, connected to each other. Each side has a CQ for
 * either queue and a registered buffer.
 */
#ifndef PAIR_H
#define PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define ALL_ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct pair_config {
	enum ibv_qp_type type;		/* RC, UC or UD */
	size_t buffer_size;
	uint32_t send_wr, recv_wr, sge, inline_data;
	enum ibv_mtu mtu;
	unsigned int qp_access;		/* of both */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint64_t send_ops;		/* IBV_QP_EX_WITH_*; 0: plain QPs */
	uint32_t qkey;			/* UD */
	struct ibv_srq *srq;		/* of both, or NULL */
	bool sig_all;
	bool events;			/* CQs have a channel */
	bool no_rd_atomic;		/* max_rd_atomic is 0 */
	bool no_dest_rd_atomic;		/* max_dest_rd_atomic is 0 */
};

extern const struct pair_config pair_defaults;

struct side {
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
	struct ibv_qp_cap cap;		/* as the provider reported it */
};

struct pair {
	struct pair_config config;
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;			/* set before pair_open(); NULL: a new one */
	bool owns_pd;
	struct side a, b;
	union ibv_gid gid;
	int gid_index;
	uint32_t psn;				/* of the connection: each has its own */
};

/* What to post to a send queue. */
struct request {
	enum ibv_wr_opcode opcode;
	unsigned int flags;		/* IBV_SEND_*, beside SIGNALED */
	uint64_t wr_id;
	uint8_t *local;
	uint32_t length, lkey;
	uint64_t remote;
	uint32_t rkey;
	uint64_t compare_add, swap;
	__be32 imm;
};

struct ibv_context *open_nic(const char *name, struct ibv_device_attr *attr);
void pair_find_gid(struct pair *pair);
void pair_open(struct pair *pair, struct ibv_context *ctx,
	       const struct pair_config *config);
void pair_close(struct pair *pair);
/* Destroys one side's QP, and makes a new one in RESET. */
void pair_close_qp(struct side *side);
void pair_open_qp(struct pair *pair, struct side *side);
void pair_connect(struct pair *pair);
void pair_reset(struct pair *pair);
/* An address handle, with a value in each field of the global route. */
struct ibv_ah *pair_open_ah(struct pair *pair, const union ibv_gid *dgid);
void fill(uint8_t *buf, size_t size, uint8_t seed);
bool is_filled(const uint8_t *buf, size_t size, uint8_t seed);
bool is_all(const uint8_t *buf, size_t size, uint8_t value);
int modify_to_init(struct pair *pair, struct side *side);
int modify_to_rtr(struct pair *pair, struct side *side, uint32_t dest_qpn);
int modify_to_rts(struct pair *pair, struct side *side);
int modify_to(struct side *side, enum ibv_qp_state state);
enum ibv_qp_state query_state(struct side *side);
int post(struct side *side, const struct request *request);
int post_receive(struct side *side, uint64_t wr_id, void *addr,
		 uint32_t length, uint32_t lkey);
bool impaired(void);
bool ended_with(enum ibv_wc_status status, enum ibv_wc_status due);
bool wait_wc(struct ibv_cq *cq, struct ibv_wc *wc);
bool expect_wc(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status,
	       struct ibv_wc *wc, const char *what);
bool expect_event(struct ibv_context *ctx, enum ibv_event_type type,
		  const void *object, const char *what);
bool no_event(struct ibv_context *ctx);

#endif /* PAIR_H */
