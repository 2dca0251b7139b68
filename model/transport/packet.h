/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What travels between queue pairs: packets as IBA 9.2 has them, or runs of
 * them. A port that carries whole pieces of a message gives one packet a range
 * of PSNs, and the sender's memory as its payload; a port that carries frames
 * gives each packet one PSN, and the bytes themselves.
 */
#ifndef MODEL_PACKET_H
#define MODEL_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/transfer.h"

/* Bits 4:0 of the opcode; bits 7:5 are the transport. */
enum packet_opcode {
	PACKET_SEND_FIRST		= 0x00,
	PACKET_SEND_MIDDLE		= 0x01,
	PACKET_SEND_LAST		= 0x02,
	PACKET_SEND_LAST_IMM		= 0x03,
	PACKET_SEND_ONLY		= 0x04,
	PACKET_SEND_ONLY_IMM		= 0x05,
	PACKET_WRITE_FIRST		= 0x06,
	PACKET_WRITE_MIDDLE		= 0x07,
	PACKET_WRITE_LAST		= 0x08,
	PACKET_WRITE_LAST_IMM		= 0x09,
	PACKET_WRITE_ONLY		= 0x0a,
	PACKET_WRITE_ONLY_IMM		= 0x0b,
	PACKET_READ_REQUEST		= 0x0c,
	PACKET_READ_RESPONSE_FIRST	= 0x0d,
	PACKET_READ_RESPONSE_MIDDLE	= 0x0e,
	PACKET_READ_RESPONSE_LAST	= 0x0f,
	PACKET_READ_RESPONSE_ONLY	= 0x10,
	PACKET_ACKNOWLEDGE		= 0x11,
	PACKET_ATOMIC_ACKNOWLEDGE	= 0x12,
	PACKET_COMPARE_SWAP		= 0x13,
	PACKET_FETCH_ADD		= 0x14,
	PACKET_SEND_LAST_INV		= 0x16,
	PACKET_SEND_ONLY_INV		= 0x17,
	PACKET_FLUSH			= 0x1c,
	PACKET_ATOMIC_WRITE		= 0x1d,
	NUM_PACKET_OPCODES		= 0x20,
};

#define PACKET_OPCODE		0x1f
#define PACKET_TRANSPORT	0xe0
#define PACKET_TRANSPORT_RC	0x00
#define PACKET_TRANSPORT_UC	0x20
#define PACKET_TRANSPORT_UD	0x60
#define PACKET_TRANSPORT_XRC	0xa0

enum packet_kind {
	PACKET_KIND_UNKNOWN,
	PACKET_KIND_SEND,
	PACKET_KIND_WRITE,
	PACKET_KIND_READ,
	PACKET_KIND_ATOMIC,
	PACKET_KIND_ATOMIC_WRITE,
	PACKET_KIND_FLUSH,
	PACKET_KIND_READ_RESPONSE,
	PACKET_KIND_ACKNOWLEDGE,
	PACKET_KIND_ATOMIC_ACKNOWLEDGE,
};

/* What an opcode says. */
struct packet_form {
	uint8_t kind;		/* enum packet_kind */
	uint16_t headers;	/* PACKET_HAS_* */
	bool first, last;	/* of its message */
	bool payload;
};

#define PACKET_HAS_RETH		0x01u
#define PACKET_HAS_ATOMIC	0x02u	/* AtomicETH */
#define PACKET_HAS_AETH		0x04u
#define PACKET_HAS_ORIGINAL	0x08u	/* AtomicAckETH */
#define PACKET_HAS_IMM		0x10u
#define PACKET_HAS_INV		0x20u	/* IETH */
#define PACKET_HAS_DETH		0x40u	/* by the transport, not the opcode */
#define PACKET_HAS_XRC		0x80u	/* XRCETH, likewise, of requests */
#define PACKET_HAS_FETH		0x100u

extern const struct packet_form packet_forms[NUM_PACKET_OPCODES];

/* Syndromes of an AETH (IBA 9.7.5.2.1). */
#define AETH_ACK		0x1fu	/* no credit count */
#define AETH_RNR_NAK		0x20u	/* bits 4:0: timer */
#define AETH_NAK_SEQUENCE	0x60u
#define AETH_NAK_INVALID	0x61u
#define AETH_NAK_ACCESS		0x62u
#define AETH_NAK_OPERATION	0x63u
#define AETH_CODE		0x60u	/* mask: ACK, RNR NAK, -, NAK */
#define AETH_VALUE		0x1fu	/* mask; bit 7 is reserved */

#define PSN_MASK		0xffffffu
#define PACKET_MAX_MTU		4096u

/* What a port knows of a datagram, from the headers in front of the packet's own. */
struct datagram {
	uint8_t header[MOOR_GRH_SIZE];	/* as its receiver sees it (HWI UD-15) */
	uint8_t network;	/* enum moor_network */
	uint8_t priority;
	uint8_t smac[6];
	uint16_t vlan;
};

/* Small: one is made for each message, and one for its answer. */
struct packet {
	uint8_t opcode;
	bool solicited;
	bool ack_request;
	uint8_t syndrome;	/* AETH: AETH_* */
	uint8_t flush_type;	/* FETH: MOOR_FLUSH_* */
	uint8_t flush_level;	/* FETH: enum moor_flush_level */
	uint32_t psn;
	uint32_t num_psn;	/* PSNs; of a READ, of its answer; 0: not known */
	uint32_t dest_qpn;
	uint32_t srqn;		/* XRCETH */

	/* The sender and the addresses, as the port knows them. */
	uint32_t src_qpn;
	const uint8_t *sgid, *dgid;
	const struct datagram *datagram;	/* of PACKET_TRANSPORT_UD, or NULL */

	struct stream *payload;
	uint32_t length;	/* of @payload */

	union {
		uint32_t rkey;	/* RETH, AtomicETH */
		uint32_t qkey;	/* DETH */
	};
	uint64_t addr;
	union {
		uint32_t dma_length;	/* RETH */
		uint32_t msn;		/* AETH */
	};
	union {
		uint32_t imm;		/* as it was stored */
		uint32_t inv_key;
	};
	union {
		uint64_t swap_add;	/* AtomicETH */
		uint64_t original;	/* AtomicAckETH */
	};
	uint64_t compare;	/* AtomicETH */
};

static inline const struct packet_form *packet_form(const struct packet *p)
{
	return &packet_forms[p->opcode & PACKET_OPCODE];
}

/* Is @p a request, which a requester has sent? */
static inline bool packet_asks(const struct packet *p)
{
	uint8_t kind = packet_form(p)->kind;

	return kind >= PACKET_KIND_SEND && kind <= PACKET_KIND_FLUSH;
}

/* Does a FLUSH ask for a type and a level that exist (HWI MPE-5)? */
static inline bool flush_is_known(uint8_t type, uint8_t level)
{
	return type && !(type & ~(MOOR_FLUSH_GLOBAL | MOOR_FLUSH_PERSISTENT)) &&
	       level <= MOOR_FLUSH_REGION;
}

/* How far @a is behind @b (negative) or ahead of it, modulo 2^24. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/**
 * packet_cut_front() - leave out the first packets of a run
 * @p:       run of packets of a SEND or WRITE
 * @num_psn: how many, less than the run has
 * @len:     bytes of their payload
 */
void packet_cut_front(struct packet *p, uint32_t num_psn, uint32_t len);

/* The most that packet_encode() adds to a payload. */
#define PACKET_OVERHEAD		(12 + 4 + 28 + 3 + 4)

/**
 * packet_encode() - the bytes of a packet: headers, payload, pad, CRC
 * @p:       all but the payload
 * @payload: its bytes
 * @to:      room for the payload and PACKET_OVERHEAD bytes
 *
 * Return: bytes written.
 */
size_t packet_encode(const struct packet *p, const uint8_t *payload,
		     uint8_t *to);

/**
 * packet_decode() - take a packet apart
 * @p:       result; what the bytes do not tell stays as it is
 * @payload: result: the payload's place in @from
 * @from:    bytes, of which none is trusted
 * @len:     how many
 *
 * Return: false when the bytes are damaged or not a packet.
 */
bool packet_decode(struct packet *p, const uint8_t **payload,
		   const uint8_t *from, size_t len);

#endif /* MODEL_PACKET_H */
