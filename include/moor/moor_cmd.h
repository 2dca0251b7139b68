/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Moor hardware interface: command ring, commands, events (HWI 8 and 9).
 * Included by moor_hw.h.
 */
#ifndef MOOR_CMD_H
#define MOOR_CMD_H

#define MOOR_CMD_SIZE	128
#define MOOR_CPL_SIZE	64

enum moor_cmd_opcode {
	MOOR_CMD_NOP		= 0x00,
	MOOR_CMD_CREATE_EQ	= 0x01,
	MOOR_CMD_DESTROY_EQ	= 0x02,
	MOOR_CMD_CREATE_CQ	= 0x10,
	MOOR_CMD_DESTROY_CQ	= 0x11,
	MOOR_CMD_RESIZE_CQ	= 0x12,
	MOOR_CMD_MODIFY_CQ	= 0x13,	/* feature CQ_MODERATION */
	MOOR_CMD_CREATE_QP	= 0x20,
	MOOR_CMD_MODIFY_QP	= 0x21,
	MOOR_CMD_QUERY_QP	= 0x22,
	MOOR_CMD_DESTROY_QP	= 0x23,
	MOOR_CMD_CREATE_SRQ	= 0x28,	/* feature SRQ, as the following */
	MOOR_CMD_MODIFY_SRQ	= 0x29,
	MOOR_CMD_QUERY_SRQ	= 0x2a,
	MOOR_CMD_DESTROY_SRQ	= 0x2b,
	MOOR_CMD_SET_GID	= 0x30,
	MOOR_CMD_ATTACH_FILTER	= 0x31,	/* feature UD */
	MOOR_CMD_DETACH_FILTER	= 0x32,	/* feature UD */
	MOOR_CMD_MR_REVOKE	= 0x40,
	MOOR_CMD_MR_QUERY	= 0x41,
	MOOR_CMD_MR_WINDOWS	= 0x42,
	MOOR_CMD_MR_INVALIDATE	= 0x43,	/* feature ODP */
	MOOR_CMD_PAGE_RESPONSE	= 0x44,	/* feature ODP */
};

enum moor_cmd_status {
	MOOR_CMD_OK		= 0x00,
	MOOR_CMD_BAD_OPCODE	= 0x01,
	MOOR_CMD_BAD_RESERVED	= 0x02,	/* a reserved field, or a byte behind, is not zero */
	MOOR_CMD_BAD_PARAM	= 0x03,	/* a value outside its range */
	MOOR_CMD_BAD_INDEX	= 0x04,	/* no such EQ, CQ, QP, key, slot */
	MOOR_CMD_BAD_STATE	= 0x05,	/* not in the state of the object */
	MOOR_CMD_BUSY		= 0x06,	/* in use by another object */
	MOOR_CMD_NO_RESOURCE	= 0x07,
	MOOR_CMD_DMA_FAULT	= 0x08,	/* memory named by the command is unreachable */
};

struct moor_cmd_hdr {
	__u8 opcode;
	__u8 reserved1;
	__le16 tag;		/* comes back in the completion */
	__le32 reserved2;
};

/* What a ring slot holds: any command. Bytes behind the command's structure are zero. */
struct moor_cmd {
	struct moor_cmd_hdr hdr;
	__u8 in[MOOR_CMD_SIZE - sizeof(struct moor_cmd_hdr)];
};

struct moor_cpl {
	__le16 tag;
	__u8 status;		/* enum moor_cmd_status */
	__u8 reserved1;
	__le32 detail;		/* byte offset of the field at fault, or 0 */
	__u8 out[48];
	__le32 reserved2;
	__le32 phase;		/* bit 0; written last */
};

#define MOOR_PHASE	MOOR_BIT(0)

/* Where a queue's doorbell is: page in bits 31:9, slot in bits 8:0. */
#define MOOR_DB_PAGE	MOOR_MASK(31, 9)
#define MOOR_DB_SLOT	MOOR_MASK(8, 0)

/* ---- event queues ---- */

enum moor_eq_number {
	MOOR_EQ_ASYNC		= 0,
	MOOR_EQ_PAGE_REQUEST	= 1,
	MOOR_EQ_COMPLETION	= 2,	/* and the following */
};

struct moor_cmd_create_eq {
	struct moor_cmd_hdr hdr;
	__le32 eqn;
	__le16 vector;
	__u8 log_eqe;
	__u8 reserved1;
	__le64 base;		/* contiguous, 4 KiB aligned */
};

struct moor_cmd_destroy_eq {
	struct moor_cmd_hdr hdr;
	__le32 eqn;
	__le32 reserved1;
};

enum moor_event_type {
	MOOR_EVENT_COMPLETION	= 0x01,	/* number: CQ */
	MOOR_EVENT_CQ_ERROR	= 0x02,	/* number: CQ */
	MOOR_EVENT_QP_FATAL	= 0x03,	/* number: QP, and the following */
	MOOR_EVENT_QP_REQ_ERR	= 0x04,
	MOOR_EVENT_QP_ACCESS_ERR = 0x05,
	MOOR_EVENT_COMM_EST	= 0x06,
	MOOR_EVENT_SQ_DRAINED	= 0x07,
	MOOR_EVENT_PORT_UP	= 0x08,
	MOOR_EVENT_PORT_DOWN	= 0x09,
	MOOR_EVENT_SRQ_LIMIT	= 0x0a,	/* number: SRQ, and the following */
	MOOR_EVENT_SRQ_ERROR	= 0x0b,
	MOOR_EVENT_LAST_WQE	= 0x0c,	/* number: QP */
	MOOR_EVENT_PAGE_REQUEST	= 0x10,	/* struct moor_page_request */
	MOOR_EVENT_DEVICE_FATAL	= 0x20,	/* number: enum moor_fatal_code */
};

struct moor_eqe {
	__u8 type;		/* enum moor_event_type */
	__u8 reserved1[3];
	__le32 number;
	__le32 reserved2[5];
	__le32 phase;		/* bit 0; written last */
};

#define MOOR_PAGE_REQUEST_WRITE		MOOR_BIT(0)
#define MOOR_PAGE_REQUEST_RESPONDER	MOOR_BIT(1)

/* An event, too: half of a QP is parked until the request is answered (HWI ODP-10). */
struct moor_page_request {
	__u8 type;		/* MOOR_EVENT_PAGE_REQUEST */
	__u8 flags;		/* MOOR_PAGE_REQUEST_* */
	__u8 reserved1[2];
	__le32 token;
	__le32 key;		/* of the MR, even if a window led to the MR */
	__le32 qpn;
	__le64 addr;		/* of the first byte that is not present */
	__le32 length;		/* bytes from @addr on: a hint, not 0 */
	__le32 phase;		/* as in struct moor_eqe */
};

/* ---- completion queues ---- */

struct moor_cmd_create_cq {
	struct moor_cmd_hdr hdr;
	__le32 cqn;
	__le32 eqn;
	__le32 doorbell;	/* MOOR_DB_PAGE, MOOR_DB_SLOT */
	__u8 log_cqe;
	__u8 reserved1[3];
	struct moor_xlat ring;
};

struct moor_cmd_destroy_cq {
	struct moor_cmd_hdr hdr;
	__le32 cqn;
	__le32 reserved1;
};

struct moor_cmd_resize_cq {
	struct moor_cmd_hdr hdr;
	__le32 cqn;
	__u8 log_cqe;
	__u8 reserved1[3];
	struct moor_xlat ring;
};

struct moor_cmd_modify_cq {
	struct moor_cmd_hdr hdr;
	__le32 cqn;
	__le16 count;		/* CQEs (HWI CQ-26) */
	__le16 period;		/* us */
};

/* ---- queue pairs ---- */

enum moor_qp_type {
	MOOR_QP_RC	= 0,
	MOOR_QP_UC	= 1,	/* feature UC */
	MOOR_QP_UD	= 2,	/* feature UD */
	MOOR_QP_XRC_INI	= 3,	/* feature XRC, as the following */
	MOOR_QP_XRC_TGT	= 4,
};

#define MOOR_QPN_GSI	1	/* of type UD, the kernel's (HWI QP-16) */

#define MOOR_QP_FLAG_KERNEL	MOOR_BIT(0)	/* may use keys of MOOR_MRC_TYPE_ALL */
#define MOOR_QP_FLAG_SRQ	MOOR_BIT(1)	/* receives come from @srqn; feature SRQ */

struct moor_cmd_create_qp {
	struct moor_cmd_hdr hdr;
	__le32 qpn;		/* bits QP_INDEX_BITS-1:0 are the index; 24 bits */
	__le32 pd;
	__le32 send_cqn;
	__le32 recv_cqn;
	__le32 cookie;		/* comes back in every CQE */
	__u8 type;		/* enum moor_qp_type */
	__u8 flags;		/* MOOR_QP_FLAG_* */
	__u8 log_sq_depth;
	__u8 log_sq_stride;	/* 6 to 9 */
	__u8 log_rq_depth;
	__u8 log_rq_stride;	/* 5 to 9 */
	__u8 no_rq;		/* 1: no receive queue, its fields are zero (HWI QP-6) */
	__u8 no_sq;
	__le32 sq_doorbell;
	__le32 rq_doorbell;
	__le32 srqn;		/* with flag SRQ, and @no_rq is 1; else zero */
	struct moor_xlat sq;
	struct moor_xlat rq;
	__le32 xrcd;		/* of type XRC_TGT, which has no PD, CQ and cookie; else zero */
	__le32 reserved1;
};

/* The values of enum ib_qp_state. */
enum moor_qp_state {
	MOOR_QPS_RESET	= 0,
	MOOR_QPS_INIT	= 1,
	MOOR_QPS_RTR	= 2,
	MOOR_QPS_RTS	= 3,
	MOOR_QPS_SQD	= 4,
	MOOR_QPS_SQE	= 5,
	MOOR_QPS_ERR	= 6,
};

#define MOOR_QP_ATTR_STATE		MOOR_BIT(0)
#define MOOR_QP_ATTR_ACCESS		MOOR_BIT(1)
#define MOOR_QP_ATTR_PATH		MOOR_BIT(2)	/* sgid_index ... dgid */
#define MOOR_QP_ATTR_PATH_MTU		MOOR_BIT(3)
#define MOOR_QP_ATTR_DEST_QPN		MOOR_BIT(4)
#define MOOR_QP_ATTR_RQ_PSN		MOOR_BIT(5)
#define MOOR_QP_ATTR_SQ_PSN		MOOR_BIT(6)
#define MOOR_QP_ATTR_MAX_RD_ATOMIC	MOOR_BIT(7)
#define MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC	MOOR_BIT(8)
#define MOOR_QP_ATTR_MIN_RNR_TIMER	MOOR_BIT(9)
#define MOOR_QP_ATTR_TIMEOUT		MOOR_BIT(10)
#define MOOR_QP_ATTR_RETRY_CNT		MOOR_BIT(11)
#define MOOR_QP_ATTR_RNR_RETRY		MOOR_BIT(12)
#define MOOR_QP_ATTR_SQD_EVENT		MOOR_BIT(13)	/* no field: notify when drained */
#define MOOR_QP_ATTR_QKEY		MOOR_BIT(14)	/* feature UD */
#define MOOR_QP_ATTR_PKEY_INDEX		MOOR_BIT(15)	/* feature UD */
#define MOOR_QP_ATTR_ALL		MOOR_MASK(15, 0)

struct moor_cmd_modify_qp {
	struct moor_cmd_hdr hdr;
	__le32 qpn;
	__le32 mask;		/* MOOR_QP_ATTR_*: which of the following are looked at */
	__u8 state;		/* enum moor_qp_state */
	__u8 access;		/* MOOR_ACCESS_REMOTE_* */
	__u8 path_mtu;		/* 1 to 5: 256 << (n - 1) bytes */
	__u8 max_rd_atomic;
	__u8 max_dest_rd_atomic;
	__u8 min_rnr_timer;	/* 0 to 31 (HWI LAY-32) */
	__u8 timeout;		/* 4.096 us << n, 0: none */
	__u8 retry_cnt;		/* 0 to 7 */
	__u8 rnr_retry;		/* 0 to 7, 7: for ever */
	__u8 sgid_index;
	__u8 hop_limit;
	__u8 traffic_class;
	__le32 flow_label;
	__le32 dest_qpn;
	__le32 rq_psn;
	__le32 sq_psn;
	__u8 dmac[6];
	__le16 udp_sport;
	__u8 dgid[16];
	__le32 qkey;
	__le16 pkey_index;	/* 0 (HWI UD-6) */
	__u8 access_high;	/* bits 15:8 of MOOR_ACCESS_FLUSH_* */
	__u8 reserved1;
};

struct moor_cmd_query_qp {
	struct moor_cmd_hdr hdr;
	__le32 qpn;
	__le32 reserved1;
};

struct moor_cpl_query_qp {
	__u8 state;		/* enum moor_qp_state */
	__u8 sq_draining;
	__le16 reserved1;
	__le32 sq_psn;		/* of the next request */
	__le32 rq_psn;		/* expected next */
	__le32 sq_consumer;	/* WQEs fetched and done with */
	__le32 rq_consumer;
};

struct moor_cmd_destroy_qp {
	struct moor_cmd_hdr hdr;
	__le32 qpn;
	__le32 reserved1;
};

/* ---- shared receive queues (HWI 10.3) ---- */

#define MOOR_SRQ_FLAG_KERNEL	MOOR_BIT(0)	/* as MOOR_QP_FLAG_KERNEL, for its SGEs */
#define MOOR_SRQ_FLAG_XRC	MOOR_BIT(1)	/* for @xrcd's QPs (HWI 12.6); feature XRC */

struct moor_cmd_create_srq {
	struct moor_cmd_hdr hdr;
	__le32 srqn;		/* bits SRQ_INDEX_BITS-1:0 are the index; 24 bits */
	__le32 pd;
	__le32 doorbell;
	__u8 flags;		/* MOOR_SRQ_FLAG_* */
	__u8 log_depth;
	__u8 log_stride;	/* 5 to 9 */
	__u8 reserved1;
	struct moor_xlat ring;
	__le32 xrcd;		/* with flag XRC, as the following; else zero */
	__le32 cqn;		/* CQ of the SRQ's receives */
	__le32 cookie;		/* comes back in the CQEs of these receives */
	__le32 reserved2;
};

#define MOOR_SRQ_ATTR_LIMIT	MOOR_BIT(0)
#define MOOR_SRQ_ATTR_RING	MOOR_BIT(1)	/* log_depth ... ring */
#define MOOR_SRQ_ATTR_ALL	MOOR_MASK(1, 0)

struct moor_cmd_modify_srq {
	struct moor_cmd_hdr hdr;
	__le32 srqn;
	__le32 mask;		/* MOOR_SRQ_ATTR_*: which of the following are looked at */
	__le32 limit;		/* WQEs (HWI SRQ-9); 0: none */
	__u8 log_depth;
	__u8 log_stride;
	__le16 reserved1;
	struct moor_xlat ring;
};

struct moor_cmd_query_srq {
	struct moor_cmd_hdr hdr;
	__le32 srqn;
	__le32 reserved1;
};

struct moor_cpl_query_srq {
	__u8 failed;		/* 1: SRQ_ERROR */
	__u8 reserved1[3];
	__le32 limit;		/* 0: no limit, or the limit has been reached */
	__le32 consumer;	/* WQEs taken */
};

struct moor_cmd_destroy_srq {
	struct moor_cmd_hdr hdr;
	__le32 srqn;
	__le32 reserved1;
};

/* ---- port ---- */

enum moor_gid_type {
	MOOR_GID_NONE		= 0,	/* clears the entry, whatever the rest is */
	MOOR_GID_ROCE_V1	= 1,
	MOOR_GID_ROCE_V2	= 2,
};

#define MOOR_GID_NO_VLAN	0xffff

struct moor_cmd_set_gid {
	struct moor_cmd_hdr hdr;
	__le16 index;		/* below MAX_GID, which is 255 at most */
	__u8 type;		/* enum moor_gid_type */
	__u8 reserved1;
	__le16 vlan;		/* or MOOR_GID_NO_VLAN */
	__u8 smac[6];
	__u8 gid[16];
};

enum moor_filter_type {
	MOOR_FILTER_MULTICAST	= 1,	/* datagrams to @gid */
};

/* Of ATTACH_FILTER and DETACH_FILTER (HWI 12.5). */
struct moor_cmd_filter {
	struct moor_cmd_hdr hdr;
	__u8 type;		/* enum moor_filter_type */
	__u8 reserved1[3];
	__le32 qpn;		/* QP that gets the matching datagrams */
	__u8 gid[16];
};

/* ---- memory regions and windows ---- */

#define MOOR_REVOKE_MAX_KEYS	24

struct moor_cmd_mr_revoke {
	struct moor_cmd_hdr hdr;
	__le32 count;		/* 1 to MOOR_REVOKE_MAX_KEYS */
	__le32 reserved1;
	__le32 key[MOOR_REVOKE_MAX_KEYS];
};

/* Bit n is about key[n]; no bit set: the key was taken away (HWI REV-1 to REV-4). */
struct moor_cpl_mr_revoke {
	__le32 busy;		/* a window is bound; nothing changed */
	__le32 unknown;		/* no entry is valid under this key */
};

struct moor_cmd_mr_query {
	struct moor_cmd_hdr hdr;
	__le32 key;		/* its consumer byte is not compared */
	__le32 reserved1;
};

/* HWI DYN-1: the dynamic state, kept in the device. */
enum moor_mr_state {
	MOOR_MR_STATE_INVALID	= 0,
	MOOR_MR_STATE_VALID	= 1,
	MOOR_MR_STATE_FREE	= 2,	/* fast-registration MR, no registration */
	MOOR_MR_STATE_UNBOUND	= 3,	/* window */
	MOOR_MR_STATE_BOUND	= 4,	/* window */
	MOOR_MR_STATE_REVOKED	= 5,
};

struct moor_cpl_mr_query {
	__u8 state;		/* enum moor_mr_state */
	__u8 type;		/* enum moor_mrc_type */
	__le16 reserved1;
	__le32 key;		/* as it is now, consumer byte included */
	__le32 windows;		/* bound to this MR */
	__le32 mr_key;		/* window: of the MR it is bound to, else 0 */
	__le32 qpn;		/* window of type 2, bound: its QP, else 0 */
	__le32 access;
	__le64 iova;
	__le64 length;
};

struct moor_cmd_mr_windows {
	struct moor_cmd_hdr hdr;
	__le32 key;
	__le32 cursor;		/* 0 at first, then that of the last completion */
	__le64 buffer;		/* room for MOOR_WINDOWS_PER_PAGE entries, 4 KiB aligned */
};

struct moor_cpl_mr_windows {
	__le32 count;		/* entries written */
	__le32 cursor;		/* 0: there are no more entries */
};

struct moor_window_info {
	__le32 key;
	__le32 type;		/* enum moor_mrc_type */
	__le32 qpn;		/* QP: bound to (type 2), bound through (type 1) */
	__le32 access;
	__le64 iova;
	__le64 length;
};

#define MOOR_WINDOWS_PER_PAGE	(MOOR_PAGE_SIZE / sizeof(struct moor_window_info))

/* HWI ODP-19: forget entries that span a byte of the range, and end their use. */
struct moor_cmd_mr_invalidate {
	struct moor_cmd_hdr hdr;
	__le32 key;
	__le32 reserved1;
	__le64 addr;		/* in the MR's own address space */
	__le64 length;
};

enum moor_page_status {
	MOOR_PAGE_RESOLVED	= 0,
	MOOR_PAGE_FAILED	= 1,	/* the page cannot be had */
};

struct moor_cmd_page_response {
	struct moor_cmd_hdr hdr;
	__le32 token;		/* of a struct moor_page_request */
	__u8 status;		/* enum moor_page_status */
	__u8 reserved1[3];
};

_Static_assert(sizeof(struct moor_cmd) == MOOR_CMD_SIZE, "HWI CMD-1");
_Static_assert(sizeof(struct moor_cpl) == MOOR_CPL_SIZE, "HWI CMD-1");
_Static_assert(sizeof(struct moor_eqe) == 32, "HWI EV-1");
_Static_assert(sizeof(struct moor_page_request) == 32, "HWI EV-1");
_Static_assert(sizeof(struct moor_cmd_create_qp) <= MOOR_CMD_SIZE, "HWI CMD-1");
_Static_assert(sizeof(struct moor_cmd_create_srq) <= MOOR_CMD_SIZE, "HWI CMD-1");
_Static_assert(sizeof(struct moor_cmd_modify_qp) <= MOOR_CMD_SIZE, "HWI CMD-1");
_Static_assert(sizeof(struct moor_cmd_mr_revoke) <= MOOR_CMD_SIZE, "HWI REV-1");

#endif /* MOOR_CMD_H */
