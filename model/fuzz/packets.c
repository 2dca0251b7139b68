// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: packets from an untrusted wire (HWI 12). Packets that the QPs send are
 * caught on their way, and come late, twice, changed or not at all, between packets of
 * any content. Whatever comes, only memory that is registered for it is read or
 * written, the QPs' state stays consistent, and the QPs come to rest.
 */
#include <endian.h>
#include <stdlib.h>

#include "packets.h"
#include "queues/cq.h"
#include "transport/port.h"
#include "transport/transport.h"

#define MAX_FRAMES	32u
#define WINDOW		64u
/* More than the QPs' timers: full EQs are looked at each millisecond. */
#define MAX_TIMERS	2048u
#define DRAIN_RUNS	1024u

struct frame {
	uint32_t src_qpn;
	uint8_t sgid[16], dgid[16];
	bool is_datagram;
	struct datagram datagram;
	size_t len;
	uint8_t bytes[PACKET_MAX_MTU + PACKET_OVERHEAD];
};

/* Packets on their way, the oldest first. */
static struct frame frames[MAX_FRAMES];
static unsigned int num_frames;
/* Work requests that were posted to queues before these were reset. */
static uint32_t posted_before;

/* ---- the wire ---- */

static uint32_t wire_unit(uint32_t mtu)
{
	return mtu;
}

/* A packet that is sent is decoded as what was encoded. */
static void check_encoding(const struct packet *p, const struct frame *f)
{
	struct packet q = { 0 };
	const uint8_t *payload;

	if (!packet_decode(&q, &payload, f->bytes, f->len) ||
	    q.opcode != p->opcode || q.psn != p->psn ||
	    q.dest_qpn != p->dest_qpn || q.length != p->length ||
	    (packet_form(p)->headers & PACKET_HAS_AETH &&
	     (q.syndrome != p->syndrome || q.msn != p->msn)) ||
	    (packet_form(p)->headers & PACKET_HAS_FETH &&
	     (q.flush_type != p->flush_type ||
	      q.flush_level != p->flush_level)) ||
	    (world_is_xrc() && packet_asks(p) && q.srqn != p->srqn) ||
	    (w->qp_type == MOOR_QP_UD && (q.qkey != p->qkey || q.src_qpn != p->src_qpn)))
		abort();
}

static uint8_t wire_send(struct nic *nic, struct packet *p)
{
	uint8_t payload[PACKET_MAX_MTU], syndrome;
	struct stream to = { .bytes = payload }, *culprit;
	struct frame *f = &frames[num_frames];

	if (p->length > PACKET_MAX_MTU || p->psn & ~PSN_MASK)
		abort();
	syndrome = p->length ? transfer(nic, &to, p->payload, p->length,
					&culprit) : MOOR_SYN_NONE;
	if (syndrome)
		return syndrome;
	check_secret(payload, p->length);
	if (num_frames == MAX_FRAMES)
		return MOOR_SYN_NONE;
	num_frames++;
	f->src_qpn = p->src_qpn;
	memcpy(f->sgid, p->sgid, sizeof(f->sgid));
	memcpy(f->dgid, p->dgid, sizeof(f->dgid));
	f->is_datagram = w->qp_type == MOOR_QP_UD;
	if (f->is_datagram)
		f->datagram = *p->datagram;
	f->len = packet_encode(p, payload, f->bytes);
	if (f->len > sizeof(f->bytes))
		abort();
	check_encoding(p, f);
	return MOOR_SYN_NONE;
}

static const struct port wire = {
	.unit = wire_unit,
	.send = wire_send,
	.window = WINDOW,
};

static void deliver(const struct frame *f)
{
	/* A buffer of the exact length, for the sanitizer to see its end. */
	uint8_t *bytes = malloc(f->len ? f->len : 1);
	struct packet p = {
		.src_qpn = f->src_qpn, .sgid = f->sgid, .dgid = f->dgid,
		.datagram = f->is_datagram ? &f->datagram : NULL,
	};

	if (!bytes)
		abort();
	memcpy(bytes, f->bytes, f->len);
	transport_receive_bytes(w->nic, &p, bytes, f->len);
	free(bytes);
}

static void take_out(unsigned int which)
{
	num_frames--;
	memmove(&frames[which], &frames[which + 1],
		(num_frames - which) * sizeof(frames[0]));
}

/* CRC-32, bit by bit: not as the model does it. */
static void put_crc(struct frame *f)
{
	uint32_t crc = ~0u;
	size_t i, len = f->len - sizeof(crc);
	unsigned int bit;

	for (i = 0; i < len; i++) {
		crc ^= f->bytes[i];
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	crc = htobe32(~crc);
	memcpy(f->bytes + len, &crc, sizeof(crc));
}

/* ---- steps ---- */

/* Delivers a packet that is on its way: the next one, mostly. */
static void carry(struct input *in)
{
	static struct frame f;
	uint8_t how = input_u8(in);
	unsigned int which = how & 0x80 ? how % MAX_FRAMES : 0;

	if (which >= num_frames)
		return;
	f = frames[which];
	if (!(how & 0x40))
		take_out(which);
	deliver(&f);
	world_run();
}

/* Delivers packets on their way, and packets that these cause, in order. */
static void carry_all(struct input *in)
{
	unsigned int count = 1 + input_below(in, 64);
	static struct frame f;

	while (count-- && num_frames && w->runs) {
		f = frames[0];
		take_out(0);
		deliver(&f);
		world_run();
	}
}

static void lose(struct input *in)
{
	unsigned int which = input_below(in, MAX_FRAMES);

	if (which < num_frames)
		take_out(which);
}

/* Changes a packet's byte, or cuts its end off; with a right CRC, or not. */
static void damage(struct input *in)
{
	uint8_t how = input_u8(in);
	struct frame *f = &frames[how % MAX_FRAMES];
	unsigned int at;

	if (how % MAX_FRAMES >= num_frames)
		return;
	if (how & 0x20) {
		at = input_u8(in);
		f->len -= at < f->len ? at : 0;
	}
	/* Headers, mostly. */
	at = input_u8(in);
	if (at >= 0xc0)
		at *= 64;
	if (at < f->len)
		f->bytes[at] ^= input_u8(in);
	if (how & 0x40 && f->len >= sizeof(uint32_t))
		put_crc(f);
}

/* Source and destination of a packet: right ones, mostly. */
static void address(struct frame *f, unsigned int to, struct input *in)
{
	uint8_t how = input_u8(in);

	memset(f->sgid, 0, sizeof(f->sgid));
	f->sgid[0] = 0xfe;
	f->sgid[1] = how & 0x80 ? 0x81 : 0x80;
	memcpy(f->dgid, f->sgid, sizeof(f->dgid));
	f->dgid[1] = how & 0x40 ? 0x81 : 0x80;
	f->is_datagram = w->qp_type == MOOR_QP_UD && !(how & 8);
	if (how & 4)
		world_gid(f->dgid, WORLD_GROUP);
	f->src_qpn = how & 1 ? 0x123456 : WORLD_QPN(how & 2 ? to : !to);
}

/* A PSN near one of the QP's, or anywhere. */
static uint32_t some_psn(const struct qp *qp, struct input *in)
{
	uint8_t how = input_u8(in);
	uint32_t psn = input_u8(in) & 0x0f;

	if (!qp || (how & 0xf0) == 0xf0)
		return input_u32(in);
	if (how & 0x80)
		psn = how & 0x40 ? -psn : psn << 19;
	else if (!(how & 0x40))
		psn = 0;
	switch (how & 3) {
	case 0:
	case 1:
		return psn + qp->resp.psn;
	case 2:
		return psn + qp->req.acked_psn;
	default:
		return psn + qp->req.sent_psn - 1;
	}
}

static uint8_t transport(void)
{
	if (world_is_xrc())
		return PACKET_TRANSPORT_XRC;
	return w->qp_type == MOOR_QP_UC ? PACKET_TRANSPORT_UC :
					  PACKET_TRANSPORT_RC;
}

static uint8_t some_opcode(struct input *in)
{
	uint8_t opcode = input_u8(in);

	if (opcode & 0x80)
		return opcode << 1;
	opcode &= PACKET_OPCODE;
	if (w->qp_type == MOOR_QP_UD)
		return (opcode & 1 ? opcode : PACKET_SEND_ONLY) |
		       PACKET_TRANSPORT_UD;
	return opcode | transport();
}

static void fill_headers(struct packet *p, struct input *in)
{
	uint16_t headers = packet_form(p)->headers;

	if (w->qp_type == MOOR_QP_UD) {
		p->qkey = WORLD_QKEY;
		p->src_qpn = (uint32_t)some_number(in) & 0xffffff;
	}
	if (world_is_xrc() && packet_asks(p)) {
		p->srqn = input_u8(in);
		p->srqn = p->srqn < 0xf0 ? WORLD_SRQN + (p->srqn & 1) :
					   (uint32_t)some_number(in) & 0xffffff;
	}
	if (headers & PACKET_HAS_FETH) {
		p->flush_type = input_u8(in);
		p->flush_level = p->flush_type >> 4 & 3;
		p->flush_type &= 0x0f;
	}
	if (headers & (PACKET_HAS_RETH | PACKET_HAS_ATOMIC)) {
		p->addr = page_addr(PAGE_DATA) + input_u8(in) * 64ull;
		if (!(p->addr & 0x40))
			p->addr = some_number(in);
		p->rkey = some_key(in);
	}
	if (headers & PACKET_HAS_RETH) {
		p->dma_length = input_u8(in);
		if (p->dma_length & 0x80)
			p->dma_length = (uint32_t)some_number(in);
	}
	if (headers & PACKET_HAS_ATOMIC) {
		p->swap_add = some_number(in);
		p->compare = some_number(in);
	}
	if (headers & PACKET_HAS_AETH) {
		p->syndrome = input_u8(in);
		p->msn = input_u8(in);
	}
	if (headers & PACKET_HAS_ORIGINAL)
		p->original = some_number(in);
	if (headers & PACKET_HAS_IMM)
		p->imm = input_u8(in);
	if (headers & PACKET_HAS_INV)
		p->inv_key = some_key(in);
}

/* Delivers a packet of right form, with content from the input. */
static void compose(struct input *in)
{
	static struct frame f;
	uint8_t how = input_u8(in), payload[PACKET_MAX_MTU] = { 0 };
	unsigned int to = how & 1;
	struct packet p = {
		.opcode = some_opcode(in), .solicited = how & 2,
		.ack_request = how & 4, .dest_qpn = WORLD_QPN(to),
	};

	if (how & 0x80)
		p.dest_qpn = (uint32_t)some_number(in);
	p.psn = some_psn(world_qp(to), in) & PSN_MASK;
	fill_headers(&p, in);
	if (packet_form(&p)->payload) {
		p.length = input_u8(in);
		if (p.length >= 0x80)
			p.length = p.length % 33 * 128;
		input_bytes(in, payload, p.length < 16 ? p.length : 16);
	}
	address(&f, to, in);
	f.len = packet_encode(&p, payload, f.bytes);
	if (how & 0x40)
		f.bytes[input_below(in, 12)] ^= input_u8(in);
	put_crc(&f);
	deliver(&f);
	world_run();
}

/* Delivers bytes of the input as a packet, with a right CRC or without. */
static void raw(struct input *in)
{
	static struct frame f;
	uint8_t how = input_u8(in);

	address(&f, how & 1, in);
	f.len = input_bytes(in, f.bytes, how >> 1);
	if (how >= 0x20) {
		f.len += sizeof(uint32_t);
		put_crc(&f);
	}
	deliver(&f);
	world_run();
}

/* Resets and connects a QP, with attributes of the input; maybe not up to RTS. */
static void reconnect(struct input *in)
{
	uint8_t how = input_u8(in), rd = input_u8(in), more = input_u8(in);
	unsigned int i = how & 1;
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};

	modify_qp(&cmd, i);
	posted_before += w->sq_producer[i];
	w->sq_producer[i] = 0;
	if (!w->shared && !world_is_xrc()) {
		posted_before += w->rq_producer[i];
		w->rq_producer[i] = 0;
	}
	cmd.mask |= MOOR_QP_ATTR_ACCESS;
	cmd.state = MOOR_QPS_INIT;
	cmd.access = how & 2 ? more & 0x0e : 0x0e;
	cmd.access_high = how & 2 ? more >> 6 : 3;
	modify_qp(&cmd, i);
	cmd = (struct moor_cmd_modify_qp){
		.mask = MOOR_MASK(14, 0) & ~(MOOR_QP_ATTR_ACCESS |
					   MOOR_QP_ATTR_SQD_EVENT),
		.qkey = WORLD_QKEY,
		.state = MOOR_QPS_RTR, .path_mtu = 1 + (how >> 2 & 3),
		.dest_qpn = WORLD_QPN(how & 0x10 ? i : !i),
		.max_rd_atomic = rd & 15, .max_dest_rd_atomic = rd >> 4,
		.min_rnr_timer = more & 31, .timeout = more >> 5,
		.retry_cnt = rd & 7, .rnr_retry = rd >> 4 & 7,
		.dgid = { 0xfe, 0x80 },
		/* PSNs that are about to wrap. */
		.rq_psn = how & 0x20 ? 0xfffffe : 0,
		.sq_psn = how & 0x20 ? 0xfffffe : 0,
	};
	modify_qp(&cmd, i);
	cmd.mask = MOOR_QP_ATTR_STATE;
	cmd.state = MOOR_QPS_RTS;
	if (!(how & 0x40))
		modify_qp(&cmd, i);
}

/* Changes attributes while messages are under way, which keep the old ones. */
static void change_attributes(uint8_t how, uint8_t value)
{
	static const uint32_t attributes[] = {
		MOOR_QP_ATTR_PATH_MTU, MOOR_QP_ATTR_SQ_PSN, MOOR_QP_ATTR_RQ_PSN,
		MOOR_QP_ATTR_MAX_RD_ATOMIC | MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC,
	};
	struct moor_cmd_modify_qp cmd = {
		.path_mtu = 1 + value % 5, .sq_psn = value << 16,
		.rq_psn = value << 16, .max_rd_atomic = value & 15,
		.max_dest_rd_atomic = value >> 4,
	};
	unsigned int i;

	for (i = 0; i < 4; i++)
		if (how & 0x10 << i)
			cmd.mask |= attributes[i];
	modify_qp(&cmd, how & 1);
}

static void change_state(struct input *in)
{
	uint8_t how = input_u8(in);
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_SQD_EVENT,
		.state = how >> 1 & 7,
	};

	/* reconnect() goes to the other states. */
	if (cmd.state > MOOR_QPS_INIT)
		modify_qp(&cmd, how & 1);
	else
		change_attributes(how, input_u8(in));
}

static void revoke(struct input *in)
{
	struct moor_cmd_mr_revoke cmd = {
		.hdr.opcode = MOOR_CMD_MR_REVOKE, .count = 1,
		.key = { some_key(in) },
	};

	if (input_u8(in) & 1)
		enter_regions();
	else
		command(&cmd, sizeof(cmd));
}

/* A page comes or goes; perhaps a half gets a response for it. */
static void page(struct input *in)
{
	uint8_t how = input_u8(in);
	unsigned int i = how & 1;
	uint64_t addr = page_addr(PAGES_PAGED + i);
	struct moor_cmd_mr_invalidate cmd = {
		.hdr.opcode = MOOR_CMD_MR_INVALIDATE, .key = PAGED_KEY,
		.addr = PAGED_IOVA + i * MOOR_PAGE_SIZE,
		.length = MOOR_PAGE_SIZE,
	};
	uint64_t *entry = world_ptr(page_addr(PAGE_TABLE + 1));

	check_guards();
	guarded[i] = false;
	entry[i] = how & 2 ? addr | MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
			     (how & 4 ? MOOR_PTE_WRITABLE : 0) : 0;
	if (how & 8 && !command(&cmd, sizeof(cmd)) && !(how & 2))
		guard(i);
	if (how & 0x10)
		world_answer(how >> 5 & 1, how & 0x40, how >> 7 ?
			     MOOR_PAGE_FAILED : MOOR_PAGE_RESOLVED);
}

static void consume(void)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		set_slot(WORLD_SLOT(i), cq_find(w->nic, i)->producer);
}

/* Without acknowledgements, nothing holds a long message up: it takes all of the runs. */
static bool sends_on(const struct qp *qp)
{
	return !qp->transport->acknowledged && !requester_idle(&qp->req);
}

/* When no packets come any more, each QP comes to rest: by success, error or waiting. */
static void come_to_rest(void)
{
	unsigned int timers = MAX_TIMERS, i;

	while (!rests(world_qp(0)) || !rests(world_qp(1))) {
		if (!timers--)
			abort();
		num_frames = 0;
		w->runs = DRAIN_RUNS;
		for (i = 0; i < 4; i++)
			world_answer(i & 1, i & 2, MOOR_PAGE_FAILED);
		world_run_timers();
		if (!w->runs && !sends_on(world_qp(0)) && !sends_on(world_qp(1)))
			abort();
		check_books(posted_before);
	}
}

static void step(struct input *in)
{
	switch (input_below(in, 24)) {
	case 0:
	case 1:
	case 2:
	case 3:
		if (post_send(in)) {
			ring_send(0);
			ring_send(1);
		}
		break;
	case 4:
	case 5:
		post_recv(in);
		break;
	case 6:
	case 7:
	case 8:
		carry(in);
		break;
	case 9:
	case 10:
		carry_all(in);
		break;
	case 11:
		lose(in);
		break;
	case 12:
	case 13:
		damage(in);
		break;
	case 14:
		raw(in);
		break;
	case 15:
		reconnect(in);
		break;
	case 16:
		change_state(in);
		break;
	case 17:
		world_run_timers();
		break;
	case 18:
		revoke(in);
		break;
	case 19:
		consume();
		break;
	case 20:
		page(in);
		break;
	default:
		compose(in);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t how = input_u8(&in);

	world_begin(how & 1);
	world_setup();
	choose_queues(how);
	if (how & 2)
		w->qp_type = MOOR_QP_UC;
	world_connect();
	w->nic->wire->port = &wire;
	fill_memory();
	enter_regions();
	num_frames = 0;
	memset(guarded, 0, sizeof(guarded));
	posted_before = 0;
	while (input_left(&in) && w->runs) {
		step(&in);
		check_books(posted_before);
	}
	fuzz_reached += successes() + world_qp(0)->resp.msn +
			world_qp(1)->resp.msn;
	come_to_rest();
	check_memory();
	check_guards();
	return 0;
}
