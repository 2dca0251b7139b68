// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "lossy.h"
#include "transport/port.h"

struct world w;

uint32_t chance(uint32_t n)
{
	w.chance = w.chance * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(w.chance >> 33) % n;
}

void fill(uint64_t addr, uint32_t len)
{
	uint8_t *p = at(w.g, addr);

	while (len--)
		*p++ = (uint8_t)chance(256);
}

void be_patient(struct guest_qp *qp)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_PATH_MTU | MOOR_QP_ATTR_MAX_RD_ATOMIC |
			MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC | MOOR_QP_ATTR_TIMEOUT |
			MOOR_QP_ATTR_RETRY_CNT | MOOR_QP_ATTR_RNR_RETRY,
		.path_mtu = 3, .max_rd_atomic = 4, .max_dest_rd_atomic = 4,
		.timeout = 9, .retry_cnt = 7, .rnr_retry = 7,
	};

	if (modify(w.g, &cmd, qp->qpn))
		abort();
}

void world_start(uint8_t type)
{
	int i;

	w.g = guest_start(false);
	guest_set_gid(w.g, 0, 1);
	memset(w.qp, 0, sizeof(w.qp));
	for (i = 0; i < 2; i++) {
		if (make_cq(w.g, &w.cq[i], i, 8) ||
		    make_special_qp(w.g, &w.qp[i], 0x4000u * (i + 1) + 3 + i,
				    PD, &w.cq[i], &w.cq[i], type, 0))
			abort();
		w.buf[i] = take(w.g, SIZE);
		w.key[i] = make_mr(w.g, PD, RIGHTS, w.buf[i], SIZE);
	}
	w.counter = take(w.g, 4096);
	w.counter_key = make_mr(w.g, PD, RIGHTS, w.counter, 4096);
	w.count = 0;
	for (i = 0; i < 2; i++) {
		connect_qp(w.g, &w.qp[i], w.qp[!i].qpn);
		be_patient(&w.qp[i]);
	}
}

/* The next completion of a CQ; lets time pass for the timers that it takes. */
bool wait_cq(int i, struct moor_cqe *cqe)
{
	int rounds;

	for (rounds = 0; rounds < 2000; rounds++) {
		if (poll_cq(w.g, &w.cq[i], cqe))
			return true;
		settle_timers(w.g, 5);
	}
	return false;
}

struct moor_wqe_flush flush_of(uint32_t slice, uint32_t len)
{
	return (struct moor_wqe_flush){
		.length = htole32(len), .type = 1 + slice % 3,
		.level = slice / 3 & 1,
	};
}

bool has_moved(enum op op, uint32_t slice, uint32_t len)
{
	const uint8_t *here = at(w.g, w.buf[0] + (uint64_t)slice * SLICE);
	uint64_t word;

	memcpy(&word, here, sizeof(word));
	switch (op) {
	case OP_ADD:
		return le64toh(word) == w.count++;
	case OP_WORD:
		w.count = le64toh(word);
		return true;
	case OP_FLUSH:
		return true;
	default:
		return !memcmp(here, at(w.g, w.buf[1] + (uint64_t)slice * SLICE),
			       len);
	}
}

bool counter_is_good(void)
{
	uint64_t count;

	memcpy(&count, at(w.g, w.counter), sizeof(count));
	return le64toh(count) == w.count;
}

void post(enum op op, uint32_t slice, uint32_t len)
{
	static const uint8_t opcodes[] = {
		[OP_WRITE] = MOOR_WQE_WRITE,
		[OP_WRITE_IMM] = MOOR_WQE_WRITE_IMM,
		[OP_SEND] = MOOR_WQE_SEND_IMM,
		[OP_READ] = MOOR_WQE_READ,
		[OP_ADD] = MOOR_WQE_FETCH_ADD,
		[OP_WORD] = MOOR_WQE_ATOMIC_WRITE,
		[OP_FLUSH] = MOOR_WQE_FLUSH,
	};
	uint64_t offset = (uint64_t)slice * SLICE;
	struct moor_sq_wqe *wqe = next_send(w.g, &w.qp[0], opcodes[op], slice);
	struct moor_sge s = sge(w.buf[1] + offset, SLICE, w.key[1]);

	if (op == OP_READ || op == OP_WRITE || op == OP_WRITE_IMM ||
	    op == OP_FLUSH) {
		wqe->remote_addr = htole64(w.buf[1] + offset);
		wqe->rkey = htole32(w.key[1]);
	}
	if (op == OP_SEND || op == OP_WRITE_IMM) {
		wqe->imm = slice + 100;
		post_recv(w.g, &w.qp[1], slice, &s, 1);
	}
	if (op == OP_ADD || op == OP_WORD) {
		wqe->remote_addr = htole64(w.counter);
		wqe->rkey = htole32(w.counter_key);
		len = sizeof(uint64_t);
	}
	if (op == OP_ADD) {
		struct moor_wqe_atomic *atomic = (void *)(wqe + 1);

		atomic->swap_add = htole64(1);
	}
	if (op == OP_FLUSH) {
		*(struct moor_wqe_flush *)(wqe + 1) = flush_of(slice, len);
		return;
	}
	/* Two pieces, so that a packet may need both. */
	if (op != OP_ADD && len > 7) {
		add_sge(wqe, sge(w.buf[0] + offset, 7, w.key[0]));
		add_sge(wqe, sge(w.buf[0] + offset + 7, len - 7, w.key[0]));
	} else {
		add_sge(wqe, sge(w.buf[0] + offset, len, w.key[0]));
	}
}

void set_timeout(uint8_t timeout, uint8_t retry_cnt)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_TIMEOUT | MOOR_QP_ATTR_RETRY_CNT,
		.timeout = timeout, .retry_cnt = retry_cnt,
	};

	if (modify(w.g, &cmd, w.qp[0].qpn))
		abort();
}

void impair(const char *how)
{
	struct impairment impairment;

	if (how && !impairment_parse(&impairment, how))
		abort();
	port_impair(w.g->nic, how ? &impairment : NULL);
}
