/* SPDX-License-Identifier: GPL-2.0 */
/* Work queue entries, as they were fetched (HWI 10). */
#ifndef MODEL_WQE_H
#define MODEL_WQE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "memory/mr_fast.h"
#include "memory/mw.h"
#include "memory/transfer.h"

struct nic;
struct qp;
struct queue;

/* Where a datagram goes (HWI 12.4), as far as a NIC without a wire needs it. */
struct address {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint32_t dest_qpn;
	uint32_t qkey;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t priority;
};

struct send_wqe {
	uint8_t opcode;		/* enum moor_wqe_opcode */
	uint8_t flags;		/* MOOR_WQE_FLAG_* */
	uint8_t num_sge;
	uint32_t index;		/* free-running */
	uint32_t imm;		/* as it was stored */
	uint32_t inv_key;	/* SEND_INV, LOCAL_INV */
	uint32_t rkey;
	uint32_t srqn;		/* of a QP of type XRC_INI */
	uint32_t length;	/* of the message */
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t swap_add;
	uint64_t compare;
	uint32_t flush_length;
	uint8_t flush_type;	/* MOOR_FLUSH_* */
	uint8_t flush_level;	/* enum moor_flush_level */
	struct mw_request bind;
	struct mr_fast_request reg;
	struct address to;	/* of a QP of type UD */
	struct segment sge[NIC_MAX_SGE];
	uint8_t data[NIC_MAX_INLINE];
};

struct recv_wqe {
	uint8_t num_sge;
	uint32_t index;
	uint64_t wr_id;
	uint64_t room;		/* bytes of all SGEs */
	struct segment sge[NIC_MAX_SGE];
};

#define WQE_BIT(op)	(1u << MOOR_WQE_##op)
#define WQE_LOCAL	(WQE_BIT(LOCAL_INV) | WQE_BIT(BIND_MW) | WQE_BIT(REG_MR))
#define WQE_ATOMICS	(WQE_BIT(CMP_SWAP) | WQE_BIT(FETCH_ADD))
/* The answer is written to memory of the requester. */
#define WQE_ASKS_DATA	(WQE_BIT(READ) | WQE_ATOMICS)
/* Answered by more than an acknowledgment. */
#define WQE_ASKS	(WQE_ASKS_DATA | WQE_BIT(ATOMIC_WRITE) | WQE_BIT(FLUSH))
/* The opcodes of a reliable connection. */
#define WQE_RC		(WQE_BIT(SEND) | WQE_BIT(SEND_IMM) | WQE_BIT(SEND_INV) | \
			 WQE_BIT(WRITE) | WQE_BIT(WRITE_IMM) | WQE_ASKS | \
			 WQE_LOCAL)

enum wqe_form {
	WQE_OK,
	WQE_MALFORMED,		/* wr_id and index are good */
	WQE_TOO_LONG,		/* the message */
	WQE_UNREACHABLE,
};

enum wqe_form wqe_fetch_send(struct nic *nic, struct qp *qp,
			     struct send_wqe *wqe);
enum wqe_form wqe_fetch_recv(struct nic *nic, struct queue *queue,
			     struct recv_wqe *wqe);
/* Forgets the registrations that the last message met: ACC-15 is of a single message. */
void recv_wqe_anew(struct recv_wqe *wqe);

#endif /* MODEL_WQE_H */
