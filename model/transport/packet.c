// SPDX-License-Identifier: GPL-2.0
/* Packets as bytes (IBA 9.2 to 9.6): BTH, extended headers, payload, CRC. */
#include <endian.h>
#include <string.h>

#include "transport/packet.h"

#define RETH		PACKET_HAS_RETH
#define IMM		PACKET_HAS_IMM
#define INV		PACKET_HAS_INV
#define AETH		PACKET_HAS_AETH
#define FETH		PACKET_HAS_FETH

#define FORM(k, f, l, h, p) {						\
	.kind = PACKET_KIND_##k, .first = (f), .last = (l),		\
	.headers = (h), .payload = (p) }

const struct packet_form packet_forms[NUM_PACKET_OPCODES] = {
	[PACKET_SEND_FIRST] = FORM(SEND, true, false, 0, true),
	[PACKET_SEND_MIDDLE] = FORM(SEND, false, false, 0, true),
	[PACKET_SEND_LAST] = FORM(SEND, false, true, 0, true),
	[PACKET_SEND_LAST_IMM] = FORM(SEND, false, true, IMM, true),
	[PACKET_SEND_LAST_INV] = FORM(SEND, false, true, INV, true),
	[PACKET_SEND_ONLY] = FORM(SEND, true, true, 0, true),
	[PACKET_SEND_ONLY_IMM] = FORM(SEND, true, true, IMM, true),
	[PACKET_SEND_ONLY_INV] = FORM(SEND, true, true, INV, true),
	[PACKET_WRITE_FIRST] = FORM(WRITE, true, false, RETH, true),
	[PACKET_WRITE_MIDDLE] = FORM(WRITE, false, false, 0, true),
	[PACKET_WRITE_LAST] = FORM(WRITE, false, true, 0, true),
	[PACKET_WRITE_LAST_IMM] = FORM(WRITE, false, true, IMM, true),
	[PACKET_WRITE_ONLY] = FORM(WRITE, true, true, RETH, true),
	[PACKET_WRITE_ONLY_IMM] = FORM(WRITE, true, true, RETH | IMM, true),
	[PACKET_READ_REQUEST] = FORM(READ, true, true, RETH, false),
	[PACKET_COMPARE_SWAP] =
		FORM(ATOMIC, true, true, PACKET_HAS_ATOMIC, false),
	[PACKET_FETCH_ADD] =
		FORM(ATOMIC, true, true, PACKET_HAS_ATOMIC, false),
	[PACKET_FLUSH] = FORM(FLUSH, true, true, FETH | RETH, false),
	[PACKET_ATOMIC_WRITE] = FORM(ATOMIC_WRITE, true, true, RETH, true),
	[PACKET_READ_RESPONSE_FIRST] =
		FORM(READ_RESPONSE, true, false, AETH, true),
	[PACKET_READ_RESPONSE_MIDDLE] =
		FORM(READ_RESPONSE, false, false, 0, true),
	[PACKET_READ_RESPONSE_LAST] =
		FORM(READ_RESPONSE, false, true, AETH, true),
	[PACKET_READ_RESPONSE_ONLY] =
		FORM(READ_RESPONSE, true, true, AETH, true),
	[PACKET_ACKNOWLEDGE] = FORM(ACKNOWLEDGE, true, true, AETH, false),
	[PACKET_ATOMIC_ACKNOWLEDGE] =
		FORM(ATOMIC_ACKNOWLEDGE, true, true,
		     AETH | PACKET_HAS_ORIGINAL, false),
};

void packet_cut_front(struct packet *p, uint32_t num_psn, uint32_t len)
{
	/* What does not begin its message any more; the others stay what they are. */
	static const uint8_t going_on[NUM_PACKET_OPCODES] = {
		[PACKET_SEND_FIRST] = PACKET_SEND_MIDDLE,
		[PACKET_SEND_ONLY] = PACKET_SEND_LAST,
		[PACKET_SEND_ONLY_IMM] = PACKET_SEND_LAST_IMM,
		[PACKET_SEND_ONLY_INV] = PACKET_SEND_LAST_INV,
		[PACKET_WRITE_FIRST] = PACKET_WRITE_MIDDLE,
		[PACKET_WRITE_ONLY] = PACKET_WRITE_LAST,
		[PACKET_WRITE_ONLY_IMM] = PACKET_WRITE_LAST_IMM,
	};

	if (packet_form(p)->first)
		p->opcode = (p->opcode & PACKET_TRANSPORT) |
			    going_on[p->opcode & PACKET_OPCODE];
	p->psn = (p->psn + num_psn) & PSN_MASK;
	p->num_psn -= num_psn;
	p->length -= len;
	stream_skip(p->payload, len);
}

#define BTH_SIZE	12u
#define CRC_SIZE	4u
#define BTH_SOLICITED	0x80u
#define BTH_PAD_SHIFT	4
#define BTH_PAD		0x3u
#define BTH_VERSION	0x0fu
#define BTH_ACK_REQUEST	0x80000000u
#define BTH_PKEY	0xffffu		/* the default partition */
#define FETH_TYPE	0x0fu
#define FETH_LEVEL_SHIFT 4
#define FETH_LEVEL	0x3u

/* A position in the bytes of a packet; each put and get moves it on. */
struct cursor {
	uint8_t *at;
	const uint8_t *from;
};

static void put32(struct cursor *c, uint32_t value)
{
	value = htobe32(value);
	memcpy(c->at, &value, sizeof(value));
	c->at += sizeof(value);
}

static void put64(struct cursor *c, uint64_t value)
{
	value = htobe64(value);
	memcpy(c->at, &value, sizeof(value));
	c->at += sizeof(value);
}

static uint32_t get32(struct cursor *c)
{
	uint32_t value;

	memcpy(&value, c->from, sizeof(value));
	c->from += sizeof(value);
	return be32toh(value);
}

static uint64_t get64(struct cursor *c)
{
	uint64_t value;

	memcpy(&value, c->from, sizeof(value));
	c->from += sizeof(value);
	return be64toh(value);
}

/* CRC-32 of IEEE 802.3, four bits at a time. */
static uint32_t crc32(const uint8_t *from, size_t len)
{
	static const uint32_t table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
		0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	uint32_t crc = ~0u;

	while (len--) {
		crc ^= *from++;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

static inline uint16_t headers_of(const struct packet *p)
{
	uint16_t headers = packet_form(p)->headers;

	switch (p->opcode & PACKET_TRANSPORT) {
	case PACKET_TRANSPORT_UD:
		return headers | PACKET_HAS_DETH;
	case PACKET_TRANSPORT_XRC:
		return packet_asks(p) ? headers | PACKET_HAS_XRC : headers;
	default:
		return headers;
	}
}

static size_t headers_size(uint16_t headers)
{
	return (headers & PACKET_HAS_XRC ? 4 : 0) +
	       (headers & PACKET_HAS_DETH ? 8 : 0) +
	       (headers & PACKET_HAS_FETH ? 4 : 0) +
	       (headers & PACKET_HAS_RETH ? 16 : 0) +
	       (headers & PACKET_HAS_ATOMIC ? 28 : 0) +
	       (headers & PACKET_HAS_AETH ? 4 : 0) +
	       (headers & PACKET_HAS_ORIGINAL ? 8 : 0) +
	       (headers & (PACKET_HAS_IMM | PACKET_HAS_INV) ? 4 : 0);
}

static void put_headers(struct cursor *c, const struct packet *p,
			uint16_t headers)
{
	if (headers & PACKET_HAS_XRC)
		put32(c, p->srqn);
	if (headers & PACKET_HAS_DETH) {
		put32(c, p->qkey);
		put32(c, p->src_qpn);
	}
	if (headers & PACKET_HAS_FETH)
		put32(c, (uint32_t)p->flush_level << FETH_LEVEL_SHIFT |
			 p->flush_type);
	if (headers & (PACKET_HAS_RETH | PACKET_HAS_ATOMIC)) {
		put64(c, p->addr);
		put32(c, p->rkey);
	}
	if (headers & PACKET_HAS_RETH)
		put32(c, p->dma_length);
	if (headers & PACKET_HAS_ATOMIC) {
		put64(c, p->swap_add);
		put64(c, p->compare);
	}
	if (headers & PACKET_HAS_AETH)
		put32(c, (uint32_t)p->syndrome << 24 | (p->msn & PSN_MASK));
	if (headers & PACKET_HAS_ORIGINAL)
		put64(c, p->original);
	if (headers & PACKET_HAS_IMM)
		put32(c, be32toh(p->imm));
	if (headers & PACKET_HAS_INV)
		put32(c, p->inv_key);
}

static void get_headers(struct cursor *c, struct packet *p, uint16_t headers)
{
	uint32_t aeth, feth;

	if (headers & PACKET_HAS_XRC)
		p->srqn = get32(c) & PSN_MASK;
	if (headers & PACKET_HAS_DETH) {
		p->qkey = get32(c);
		p->src_qpn = get32(c) & PSN_MASK;
	}
	if (headers & PACKET_HAS_FETH) {
		feth = get32(c);
		p->flush_type = feth & FETH_TYPE;
		p->flush_level = feth >> FETH_LEVEL_SHIFT & FETH_LEVEL;
	}
	if (headers & (PACKET_HAS_RETH | PACKET_HAS_ATOMIC)) {
		p->addr = get64(c);
		p->rkey = get32(c);
	}
	if (headers & PACKET_HAS_RETH)
		p->dma_length = get32(c);
	if (headers & PACKET_HAS_ATOMIC) {
		p->swap_add = get64(c);
		p->compare = get64(c);
	}
	if (headers & PACKET_HAS_AETH) {
		aeth = get32(c);
		p->syndrome = aeth >> 24 & (AETH_CODE | AETH_VALUE);
		p->msn = aeth & PSN_MASK;
	}
	if (headers & PACKET_HAS_ORIGINAL)
		p->original = get64(c);
	if (headers & PACKET_HAS_IMM)
		p->imm = htobe32(get32(c));
	if (headers & PACKET_HAS_INV)
		p->inv_key = get32(c);
}

size_t packet_encode(const struct packet *p, const uint8_t *payload,
		     uint8_t *to)
{
	uint32_t pad = -p->length & BTH_PAD;
	struct cursor c = { .at = to };

	*c.at++ = p->opcode;
	*c.at++ = (uint8_t)((p->solicited ? BTH_SOLICITED : 0) |
			    pad << BTH_PAD_SHIFT);
	*c.at++ = BTH_PKEY >> 8;
	*c.at++ = BTH_PKEY & 0xff;
	put32(&c, p->dest_qpn);
	put32(&c, (p->ack_request ? BTH_ACK_REQUEST : 0) |
		  (p->psn & PSN_MASK));
	put_headers(&c, p, headers_of(p));
	if (p->length)
		memcpy(c.at, payload, p->length);
	c.at += p->length;
	memset(c.at, 0, pad);
	c.at += pad;
	put32(&c, crc32(to, c.at - to));
	return c.at - to;
}

bool packet_decode(struct packet *p, const uint8_t **payload,
		   const uint8_t *from, size_t len)
{
	struct cursor c = { .from = from }, crc = { .from = from };
	const struct packet_form *form;
	size_t before, pad;
	uint32_t word;

	if (len < BTH_SIZE + CRC_SIZE)
		return false;
	len -= CRC_SIZE;
	crc.from += len;
	if (get32(&crc) != crc32(from, len))
		return false;

	p->opcode = from[0];
	p->solicited = from[1] & BTH_SOLICITED;
	pad = from[1] >> BTH_PAD_SHIFT & BTH_PAD;
	form = packet_form(p);
	before = BTH_SIZE + headers_size(headers_of(p));
	if (form->kind == PACKET_KIND_UNKNOWN || (from[1] & BTH_VERSION) ||
	    len < before + pad || (len > before && !form->payload))
		return false;
	c.from += 4;
	p->dest_qpn = get32(&c) & PSN_MASK;
	word = get32(&c);
	p->ack_request = word & BTH_ACK_REQUEST;
	p->psn = word & PSN_MASK;
	p->num_psn = form->kind == PACKET_KIND_READ ? 0 : 1;
	get_headers(&c, p, headers_of(p));
	*payload = c.from;
	p->length = (uint32_t)(len - before - pad);
	return true;
}
