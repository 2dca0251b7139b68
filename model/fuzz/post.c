// SPDX-License-Identifier: GPL-2.0
/* Work requests of any content on the two QPs of world_connect(). */
#include "queue.h"

/* Plain MRs that world_enter_regions() made, mostly. */
static uint32_t some_lkey(struct input *in)
{
	uint8_t how = input_u8(in);

	return how < 0xe0 ? (2u + (how & 3)) << 16 | 0x1200 : some_key(in);
}

/* An address in the regions, mostly. */
static uint64_t some_place(struct input *in)
{
	uint8_t how = input_u8(in);

	return how < 0xe0 ? page_addr(PAGE_DATA) + how * 128ull +
			    (how & 0x10 ? input_u8(in) : 0) : some_number(in);
}

static uint32_t some_length(struct input *in)
{
	uint8_t how = input_u8(in);

	return how < 0xc0 ? how * (how & 0x40 ? 64u : 8u) :
			    (uint32_t)some_number(in);
}

static void fill_sges(struct moor_sge *sge, unsigned int count, struct input *in)
{
	for (; count; count--, sge++)
		*sge = (struct moor_sge){
			.addr = some_place(in), .length = some_length(in),
			.lkey = some_lkey(in),
		};
}

static void fill_bind(void *segment, struct input *in)
{
	uint8_t how = input_u8(in);
	uint32_t key = some_key(in);
	struct moor_wqe_bind *bind = segment;

	if (how & 1)
		key = (0x8000u + (how >> 1 & 1)) << 16 | 0x1200 |
		      (how >> 2 & 1);
	bind->mw_key = key;
	bind->new_key = key ^ (1u + (how >> 3 & 1));
	bind->mr_lkey = some_lkey(in);
	bind->access = how & 0x10 ? WORLD_FLUSH | 0x0e : input_u8(in);
	bind->access |= how & 0x20 ? (uint32_t)MOOR_BIND_ZERO_BASED : 0;
	bind->addr = some_place(in);
	bind->length = some_length(in);
}

/* Valid types and levels, mostly. */
static void fill_flush(void *segment, struct input *in)
{
	uint8_t how = input_u8(in);
	struct moor_wqe_flush *flush = segment;

	flush->type = how & 8 ? how & 7 : 1 + (how & 3) % 3;
	flush->level = how >> 4 & (how & 0x40 ? 3 : 1);
	flush->length = some_length(in);
	if (how & 0x80)
		flush->reserved1[how & 7] = input_u8(in);
}

void choose_queues(uint8_t how)
{
	w->shared = how & 0x08;
	if (how & 0x10)
		w->qp_type = MOOR_QP_UD;
	else if (how & 0x20)
		w->qp_type = MOOR_QP_UC;
	else if (how & 0x40)
		w->qp_type = MOOR_QP_XRC_INI;
	if (world_is_xrc())
		w->shared = false;
}

/* An address segment: to the other QP, mostly. Return: its end. */
static uint8_t *fill_address(void *segment, unsigned int to, struct input *in)
{
	uint8_t how = input_u8(in);
	struct moor_wqe_ud address = {
		.hop_limit = how, .sgid_index = how & 3,
		.dest_qpn = WORLD_QPN(how & 4 ? !to : to),
		.qkey = how & 8 ? (uint32_t)MOOR_QKEY_OF_QP : WORLD_QKEY,
	};

	world_gid(address.dgid, how >> 4);
	if (how >> 6 == 3)
		((uint8_t *)&address)[input_below(in, sizeof(address))] ^=
			input_u8(in);
	memcpy(segment, &address, sizeof(address));
	return (uint8_t *)segment + sizeof(address);
}

/* An XRC segment: for one of the two SRQs, mostly. Return: its end. */
static uint8_t *fill_srqn(void *segment, struct input *in)
{
	uint8_t how = input_u8(in);
	struct moor_wqe_xrc whose = {
		.srqn = how < 0xf0 ? WORLD_SRQN + (how & 1) :
				     (uint32_t)some_number(in),
	};

	memcpy(segment, &whose, sizeof(whose));
	return (uint8_t *)segment + sizeof(whose);
}

bool post_send(struct input *in)
{
	uint8_t how = input_u8(in), shape = input_u8(in);
	unsigned int i = world_is_xrc() ? 0 : how >> 7;
	struct moor_sq_wqe *wqe = next_send(i);
	uint8_t *segment = (uint8_t *)(wqe + 1);

	wqe->opcode = (how & 0x7f) % 14;
	wqe->flags = shape & 7 ? shape & 7 : MOOR_WQE_FLAG_SIGNALED;
	wqe->wr_id = how;
	if (w->qp_type == MOOR_QP_UD) {
		/* UD refuses other opcodes: they should not come too often. */
		if (how & 0x60)
			wqe->opcode &= MOOR_WQE_SEND_IMM;
		segment = fill_address(segment, !i, in);
	}
	if (world_is_xrc() && wqe->opcode != MOOR_WQE_BIND_MW)
		segment = fill_srqn(segment, in);
	switch (wqe->opcode) {
	case MOOR_WQE_BIND_MW:
		fill_bind(segment, in);
		break;
	case MOOR_WQE_LOCAL_INV:
		wqe->inv_key = some_key(in);
		break;
	case MOOR_WQE_SEND_INV:
		wqe->inv_key = some_key(in);
		/* fallthrough */
	default:
		wqe->remote_addr = some_place(in);
		wqe->rkey = shape & 8 ? some_key(in) : some_lkey(in);
		wqe->num_sge = shape >> 4 & 3;
		if (wqe->opcode == MOOR_WQE_CMP_SWAP ||
		    wqe->opcode == MOOR_WQE_FETCH_ADD) {
			*(uint64_t *)segment = some_number(in);
			segment += sizeof(struct moor_wqe_atomic);
			wqe->num_sge = 1;
			fill_sges((struct moor_sge *)segment, 1, in);
			((struct moor_sge *)segment)->length = 8;
			wqe->remote_addr &= ~7ull;
		} else if (shape & 0x40) {
			wqe->flags |= MOOR_WQE_FLAG_INLINE;
			wqe->inline_length = some_length(in);
		} else if (wqe->opcode == MOOR_WQE_FLUSH) {
			wqe->num_sge = 0;
			fill_flush(segment, in);
		} else {
			fill_sges((struct moor_sge *)segment, wqe->num_sge, in);
		}
		/* Eight bytes at an aligned address, mostly. */
		if (wqe->opcode == MOOR_WQE_ATOMIC_WRITE && !(shape & 0x80)) {
			wqe->remote_addr &= ~7ull;
			if (wqe->num_sge == 1)
				((struct moor_sge *)segment)->length = 8;
		}
		break;
	}
	return shape < 0xc0;
}

void post_recv(struct input *in)
{
	uint8_t how = input_u8(in);
	unsigned int i = how & 1;
	struct moor_rq_wqe *wqe = next_recv(i);

	wqe->wr_id = how;
	wqe->num_sge = how >> 1 & 3;
	fill_sges((struct moor_sge *)(wqe + 1), wqe->num_sge, in);
	if (how & 0x80) {
		unsigned int at = 8 + input_below(in, 8);

		((uint8_t *)wqe)[at] = input_u8(in);
	}
	ring_recv(i);
}

void post_raw(struct input *in)
{
	uint8_t how = input_u8(in), size = input_u8(in);
	unsigned int i = how & 1;

	if (how & 2) {
		input_bytes(in, next_recv(i), size);
		ring_recv(i);
	} else {
		input_bytes(in, next_send(i), size);
		ring_send(i);
	}
}
