/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Moor hardware interface: work queue entries and completion queue entries
 * (HWI 10 and 11). Included by moor_hw.h.
 */
#ifndef MOOR_QUEUE_H
#define MOOR_QUEUE_H

struct moor_sge {
	__le64 addr;
	__le32 length;
	__le32 lkey;
};

enum moor_wqe_opcode {
	MOOR_WQE_SEND		= 0x00,
	MOOR_WQE_SEND_IMM	= 0x01,
	MOOR_WQE_SEND_INV	= 0x02,
	MOOR_WQE_WRITE		= 0x03,
	MOOR_WQE_WRITE_IMM	= 0x04,
	MOOR_WQE_READ		= 0x05,
	MOOR_WQE_CMP_SWAP	= 0x06,
	MOOR_WQE_FETCH_ADD	= 0x07,
	MOOR_WQE_LOCAL_INV	= 0x08,
	MOOR_WQE_BIND_MW	= 0x09,
	MOOR_WQE_REG_MR		= 0x0a,
	MOOR_WQE_ATOMIC_WRITE	= 0x0b,
	MOOR_WQE_FLUSH		= 0x0c,
};

#define MOOR_WQE_FLAG_SIGNALED	MOOR_BIT(0)
#define MOOR_WQE_FLAG_SOLICITED	MOOR_BIT(1)
#define MOOR_WQE_FLAG_FENCE	MOOR_BIT(2)
#define MOOR_WQE_FLAG_INLINE	MOOR_BIT(3)
#define MOOR_WQE_FLAG_ALL	MOOR_MASK(3, 0)

/*
 * Head of a send WQE; a segment that depends on the opcode follows, then
 * @num_sge scatter/gather entries or @inline_length bytes of data. What is
 * not used is not looked at, so that a slot need not be cleared (HWI WQ-4).
 */
struct moor_sq_wqe {
	__u8 opcode;		/* enum moor_wqe_opcode */
	__u8 flags;		/* MOOR_WQE_FLAG_* */
	__u8 num_sge;
	__u8 reserved1;		/* zero */
	union {
		__be32 imm;		/* carried as it is */
		__le32 inv_key;		/* SEND_INV, LOCAL_INV */
	};
	__le64 wr_id;		/* comes back in the CQE */
	__le64 remote_addr;
	__le32 rkey;
	__le32 inline_length;
};

/* Behind the head of a UD QP's send WQE: where the message goes (HWI 12.4). */
struct moor_wqe_ud {
	__u8 dgid[16];
	__u8 dmac[6];
	__u8 sgid_index;
	__u8 hop_limit;
	__le32 flow_label;	/* 20 bits */
	__u8 traffic_class;
	__u8 priority;		/* of the VLAN's tag, 0 to 7 */
	__le16 pkey_index;	/* 0 (HWI UD-6) */
	__le32 dest_qpn;	/* 24 bits; ignored if the GID is multicast */
	__le32 qkey;		/* bit 31 set: the QP's own is sent instead */
	__le16 udp_sport;
	__le16 reserved1;
	__le32 reserved2;
};

#define MOOR_QKEY_OF_QP		MOOR_BIT(31)

/* Behind the head of an XRC_INI QP's message WQE: the SRQ it is for (HWI 12.6). */
struct moor_wqe_xrc {
	__le32 srqn;		/* 24 bits */
	__le32 reserved1[3];
};

/* CMP_SWAP, FETCH_ADD; one SGE of eight bytes follows. */
struct moor_wqe_atomic {
	__le64 swap_add;
	__le64 compare;
};

/* BIND_MW; no SGE follows. */
struct moor_wqe_bind {
	__le32 mw_key;		/* names the window; any consumer byte will do */
	__le32 new_key;		/* low byte: the window's new consumer byte */
	__le32 mr_lkey;
	__le32 access;		/* MOOR_ACCESS_REMOTE_*, MOOR_BIND_ZERO_BASED */
	__le64 addr;		/* in the MR's own address space */
	__le64 length;		/* 0: unbind (type 1) */
};

#define MOOR_BIND_ZERO_BASED	MOOR_BIT(31)

/* REG_MR (HWI FR-1); no SGE follows. @remote_addr is the new iova. */
struct moor_wqe_reg {
	__le32 key;		/* names the MR; low byte: the MR's new consumer byte */
	__le32 access;		/* MOOR_ACCESS_* as HWI FR-8 allows */
	__le64 length;
	struct moor_xlat xlat;
};

/* FLUSH (HWI MPE-5); no SGE follows. */
struct moor_wqe_flush {
	__le32 length;		/* bytes from @remote_addr on; ignored with REGION */
	__u8 type;		/* MOOR_FLUSH_GLOBAL, MOOR_FLUSH_PERSISTENT */
	__u8 level;		/* enum moor_flush_level */
	__u8 reserved1[10];
};

/* The values of enum ib_placement_type and ib_selectivity_level. */
#define MOOR_FLUSH_GLOBAL	MOOR_BIT(0)	/* wait till all see the data */
#define MOOR_FLUSH_PERSISTENT	MOOR_BIT(1)	/* ... or outlive a loss of power */

enum moor_flush_level {
	MOOR_FLUSH_RANGE	= 0,
	MOOR_FLUSH_REGION	= 1,	/* all of the MR or window */
};

struct moor_rq_wqe {
	__le64 wr_id;
	__u8 num_sge;
	__u8 reserved1[7];	/* zero */
	/* scatter/gather entries follow */
};

#define MOOR_MIN_LOG_SQ_STRIDE	6
#define MOOR_MIN_LOG_RQ_STRIDE	5
#define MOOR_MAX_LOG_STRIDE	9

/* In a CQE of a receive queue, beside the send opcodes above. */
#define MOOR_CQE_RECV		0x80	/* SEND of any kind */
#define MOOR_CQE_RECV_WRITE_IMM	0x81	/* RDMA WRITE with immediate */

#define MOOR_CQE_FLAG_IMM	MOOR_BIT(0)
#define MOOR_CQE_FLAG_INV	MOOR_BIT(1)
#define MOOR_CQE_FLAG_SOLICITED	MOOR_BIT(2)
#define MOOR_CQE_FLAG_GRH	MOOR_BIT(3)	/* the first MOOR_GRH_SIZE bytes are a header */

#define MOOR_GRH_SIZE		40

/* Which header the bytes of MOOR_CQE_FLAG_GRH are (HWI UD-15). */
enum moor_network {
	MOOR_NETWORK_NONE	= 0,
	MOOR_NETWORK_ROCE_V1	= 1,
	MOOR_NETWORK_IPV4	= 2,	/* in the last 20 bytes */
	MOOR_NETWORK_IPV6	= 3,
};

/* The values of enum ib_wc_status that Moor uses. */
enum moor_wc_status {
	MOOR_WC_SUCCESS			= 0,
	MOOR_WC_LOC_LEN_ERR		= 1,
	MOOR_WC_LOC_QP_OP_ERR		= 2,
	MOOR_WC_LOC_PROT_ERR		= 4,
	MOOR_WC_WR_FLUSH_ERR		= 5,
	MOOR_WC_MW_BIND_ERR		= 6,
	MOOR_WC_LOC_ACCESS_ERR		= 8,
	MOOR_WC_REM_INV_REQ_ERR		= 9,
	MOOR_WC_REM_ACCESS_ERR		= 10,
	MOOR_WC_REM_OP_ERR		= 11,
	MOOR_WC_RETRY_EXC_ERR		= 12,
	MOOR_WC_RNR_RETRY_EXC_ERR	= 13,
};

/* HWI SYN-2: the cause, finer than the status; in ibv_wc.vendor_err. */
enum moor_syndrome {
	MOOR_SYN_NONE		= 0x00,
	MOOR_SYN_KEY		= 0x01,	/* no valid entry under this key */
	MOOR_SYN_PD		= 0x02,
	MOOR_SYN_RIGHTS		= 0x03,	/* of the MR or window */
	MOOR_SYN_BOUNDS		= 0x04,
	MOOR_SYN_TRANSLATION	= 0x05,	/* table entry absent, malformed or read-only */
	MOOR_SYN_DMA		= 0x06,	/* the platform refused the address */
	MOOR_SYN_QP_RIGHTS	= 0x07,	/* the responder QP does not allow it */
	MOOR_SYN_ALIGNMENT	= 0x08,	/* atomic not on eight bytes; in no CQE */
	MOOR_SYN_WQE		= 0x09,	/* malformed work request */
	MOOR_SYN_LENGTH		= 0x0a,	/* message or receive buffer too long or short */
	MOOR_SYN_WINDOW		= 0x0b,	/* not bound on this QP, bound already, of type 1 */
	MOOR_SYN_NO_RESPONDER	= 0x0c,	/* nothing answered */
};

struct moor_cqe {
	__le64 wr_id;
	__le32 byte_len;
	union {
		__be32 imm;
		__le32 inv_key;
	};
	__le32 qpn;
	__le32 cookie;		/* of CREATE_QP */
	__le32 wqe_index;	/* free-running index of the WQE in its queue */
	__le32 src_qpn;
	__u8 opcode;		/* with an error only bit 7 counts (HWI CQ-8) */
	__u8 status;		/* enum moor_wc_status */
	__u8 flags;		/* MOOR_CQE_FLAG_* */
	__u8 syndrome;		/* enum moor_syndrome */
	__le16 pkey_index;	/* with flag GRH, as @network, @priority, @smac, @vlan */
	__u8 network;		/* enum moor_network */
	__u8 priority;
	__le64 timestamp;	/* ns, MOOR_REG_CLOCK's clock */
	__u8 smac[6];
	__le16 vlan;		/* or MOOR_GID_NO_VLAN */
	__le32 reserved1;
	__le32 phase;		/* bit 0; written last */
};

_Static_assert(sizeof(struct moor_sq_wqe) == 32, "HWI WQ-6");
_Static_assert(sizeof(struct moor_rq_wqe) == 16, "HWI WQ-10");
_Static_assert(sizeof(struct moor_wqe_ud) == 48, "HWI UD-1");
_Static_assert(sizeof(struct moor_wqe_xrc) == 16, "HWI XRC-3");
_Static_assert(sizeof(struct moor_wqe_flush) == 16, "HWI MPE-5");
_Static_assert(sizeof(struct moor_cqe) == 64, "HWI CQ-4");

#endif /* MOOR_QUEUE_H */
