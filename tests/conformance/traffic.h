/* SPDX-License-Identifier: GPL-2.0 */
/* The provider's part: CQs, QPs, work requests, completions. */
#ifndef CONFORMANCE_TRAFFIC_H
#define CONFORMANCE_TRAFFIC_H

#include "host.h"

/* ---- completion queues ---- */

struct cq {
	uint32_t cqn, consumer, slot, arm_seq;
	enum moor_cq_arm arm;
	unsigned int log_cqe;
	uint64_t ring;
};

/* The command that creates @cq, with a new ring; to be sent, or changed before. */
struct moor_cmd_create_cq cq_command(struct cq *cq, uint32_t cqn,
				     unsigned int log_cqe);
void make_cq(struct cq *cq, uint32_t cqn, unsigned int log_cqe);
void arm_cq(struct cq *cq, enum moor_cq_arm how);

/* Stores the consumer index in the slot; poll_cqe() does so, too. */
void free_cqes(const struct cq *cq);
bool peek_cqe(const struct cq *cq, struct moor_cqe *cqe);
bool poll_cqe(struct cq *cq, struct moor_cqe *cqe);
struct moor_cqe wait_cqe(struct cq *cq);

/* Waits for the next CQE, which must have these values. Return: the CQE. */
struct moor_cqe expect_cqe(struct cq *cq, uint64_t wr_id, uint8_t status,
			   uint8_t syndrome);

/* No CQE comes, though the device has had the time. */
void expect_no_cqe(struct cq *cq);

/* ---- queue pairs ---- */

/* Of the work queues of most cases: less where the device has no room for more. */
#define MOST_LOG_DEPTH	5u
#define LOG_DEPTH	usual_log_depth()
#define DEPTH		(1u << LOG_DEPTH)
#define LOG_STRIDE	9u
unsigned int usual_log_depth(void);
/* What it takes of memory, in pages. */
#define QUEUE_SIZE	(((1ull << (LOG_DEPTH + LOG_STRIDE)) + PAGE - 1) & ~(PAGE - 1))

struct qp {
	uint32_t qpn, sq_slot, rq_slot;
	unsigned int log_depth, log_stride;	/* of both queues */
	uint64_t sq, rq;
	uint32_t sq_producer, rq_producer;
	/* Of small queues: how many WQEs are known to be done with; where their CQEs go. */
	uint32_t sq_done, rq_done;
	const struct cq *send_cq, *recv_cq;
	uint64_t staged;		/* a page for data that cannot be inline */
	uint32_t staged_key, num_staged;
};

/* Of no more numbers each may be in use. */
#define SMALL_NUMBER	64u

/* A QP number that was not used yet, with bits above the index. */
uint32_t take_qpn(void);

/* The command that creates @qp: as it is; or with a new number and new queues. */
struct moor_cmd_create_qp qp_command_with(const struct qp *qp,
					  const struct cq *send_cq,
					  const struct cq *recv_cq);
struct moor_cmd_create_qp qp_command(struct qp *qp, const struct cq *send_cq,
				     const struct cq *recv_cq);
void make_qp(struct qp *qp, const struct cq *send_cq, const struct cq *recv_cq);
void destroy_qp(const struct qp *qp);

/* The smallest commands for transitions, for modify(). */
struct moor_cmd_modify_qp to_init(void);
struct moor_cmd_modify_qp to_rtr(uint32_t peer);
struct moor_cmd_modify_qp to_rts(void);
struct moor_cmd_modify_qp to_state(enum moor_qp_state state);
uint8_t modify(const struct qp *qp, struct moor_cmd_modify_qp cmd);
void must_modify(const struct qp *qp, struct moor_cmd_modify_qp cmd);

/* To INIT, RTR and RTS. */
void connect_qp(const struct qp *qp, uint32_t peer);
void reset_qp(struct qp *qp);
struct moor_cpl_query_qp query_qp(const struct qp *qp);
bool reaches_state(const struct qp *qp, enum moor_qp_state state);

/* ---- work requests ---- */

#define MAX_SGES	32

/* A send work request. SIGNALED is set unless @flags has UNSIGNALED. */
struct send_wr {
	uint8_t opcode;
	unsigned int flags;
	uint64_t wr_id;
	union {
		uint32_t imm;
		uint32_t inv_key;
	};
	uint64_t remote;
	uint32_t rkey;
	unsigned int num_sge;
	struct moor_sge sge[MAX_SGES];
	const struct moor_wqe_ud *to;	/* of a UD QP */
	const struct moor_wqe_xrc *whose;	/* of an XRC_INI QP */
	const void *data;		/* inline */
	uint32_t data_len;
	union {
		struct moor_wqe_atomic atomic;
		struct moor_wqe_bind bind;
		struct moor_wqe_reg reg;
		struct moor_wqe_flush flush;
	};
};

#define UNSIGNALED	0x100u
/* It is to be refused: it may have more SGEs or bytes than the device takes. */
#define AS_IT_IS	0x200u

#define SGE(a, len, key)						\
	.num_sge = 1, .sge = { { .addr = (a), .length = (len), .lkey = (key) } }

/* A FLUSH of @len bytes, or of all that @rkey names. */
struct send_wr flush_wr(uint8_t type, uint8_t level, uint64_t remote,
			uint32_t rkey, uint32_t len);

/* The types of FLUSH that the device offers. */
uint8_t flush_types(void);

/*
 * Writes a WQE into the next slot, without ringing. What a small device has no room for
 * ends the case as skipped; where it takes no inline data, that is put into memory.
 * Return: the WQE.
 */
struct moor_sq_wqe *put_send(struct qp *qp, const struct send_wr *wr);
void ring_send(const struct qp *qp);
void post_send(struct qp *qp, struct send_wr wr);

struct moor_rq_wqe *put_recv(struct qp *qp, uint64_t wr_id, const struct moor_sge *sge,
			     unsigned int num_sge);
void ring_recv(const struct qp *qp);
void post_recv(struct qp *qp, uint64_t wr_id, uint64_t addr, uint32_t len,
	       uint32_t lkey);

/* ---- two QPs that are connected ---- */

#define BUF	65536u

/* Each with a CQ and a buffer of its own, registered with all rights. */
struct pair {
	struct cq cq[2];
	struct qp qp[2];
	uint64_t buf[2];
	uint32_t key[2];
};

/* Makes a pair, with CQs 0 and 1; the buffers are filled with seeds 1 and 2. */
void make_pair(struct pair *p);

/* @len, or as much as one message, and one MR, may have. */
uint32_t longest(uint32_t len);

/* Resets both QPs and connects them anew; CQs and events are emptied. */
void reconnect(struct pair *p);

/* The same, with these timers and numbers of retries; CQs and events stay. */
void connect_with(struct pair *p, uint8_t rnr_timer, uint8_t rnr_retry,
		  uint8_t timeout, uint8_t retry_cnt);

/* Does a WRITE or READ of @len bytes. Return: its CQE. */
struct moor_cqe move(struct pair *p, uint8_t opcode, uint64_t local,
		     uint32_t lkey, uint64_t remote, uint32_t rkey,
		     uint32_t len);

/* Expects this result of a local or remote access; reconnects the pair if need be. */
void expect_local(struct pair *p, uint8_t opcode, uint32_t lkey, uint64_t addr,
		  uint32_t len, uint8_t syndrome);
void expect_remote(struct pair *p, uint8_t opcode, uint32_t rkey, uint64_t addr,
		   uint32_t len, bool allowed);

/*
 * A WRITE or READ of side 0 that writes where nothing can be written, by a key that is
 * good: it is refused, or lost where no such write is reported. The case begins with
 * platform_reports_writes().
 */
void expect_lost(struct pair *p, uint8_t opcode, uint64_t addr, uint32_t key,
		 uint32_t len);

/* A CQE of @status and @syndrome is due, or where a write may be lost a success, too. */
struct moor_cqe expect_unless_lost(struct cq *cq, bool may_be_lost, uint64_t wr_id,
				   uint8_t status, uint8_t syndrome);

/* An MR of three pages of @memory, the last of which is absent, or is not mapped. */
#define TORN_IOVA	0x100000ull
uint32_t make_torn_mr(bool absent, uint64_t memory);
/* Likewise, four bytes off: a word that may be an atomic's begins in the second page. */
#define TORN_WORD	(TORN_IOVA + 2 * PAGE - 8)
uint32_t make_torn_word(bool absent, uint64_t memory);

#endif /* CONFORMANCE_TRAFFIC_H */
