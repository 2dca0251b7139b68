// SPDX-License-Identifier: GPL-2.0
/* Work queues and their entries (HWI 10). */
#include <string.h>

#include "traffic.h"

static void malformed(struct pair *p, struct send_wr wr, const char *what)
{
	about("%s", what);
	wr.wr_id = 4;
	post_send(&p->qp[0], wr);
	expect_cqe(&p->cq[0], 4, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	expect_no_cqe(&p->cq[1]);
	reconnect(p);
}

static struct send_wr write_of(const struct pair *p, uint32_t len)
{
	return (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = p->buf[1],
		.rkey = p->key[1], SGE(p->buf[0], len, p->key[0]),
	};
}

TEST_CASE(malformed_wqe, "WQEs that make no sense", "WQ-8 RC-5 RC-21 CQ-19", 0)
{
	unsigned int fit = (512 - 32) / 16, i;
	struct moor_sq_wqe *raw;
	struct pair p;
	struct send_wr wr;

	make_pair(&p);
	for (i = 4; i < 8; i++) {
		wr = write_of(&p, 8);
		wr.flags = 1u << i;
		malformed(&p, wr, "an unknown flag");
	}
	wr = write_of(&p, 8);
	wr.flags = AS_IT_IS;
	wr.num_sge = (dev.max_sge < fit ? dev.max_sge : fit) + 1;
	if (wr.num_sge <= MAX_SGES)
		malformed(&p, wr, "an SGE too many");
	about("255 SGEs");
	wr = write_of(&p, 8);
	raw = put_send(&p.qp[0], &wr);
	raw->num_sge = 255;
	ring_send(&p.qp[0]);
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	reconnect(&p);

	if (dev.features & MOOR_FEATURE_ATOMICS) {
		wr = write_of(&p, 8);
		wr.flags = AS_IT_IS;
		wr.opcode = MOOR_WQE_FETCH_ADD;
		wr.num_sge = 0;
		malformed(&p, wr, "an atomic without SGE");
		wr.num_sge = 2;
		wr.sge[1] = wr.sge[0];
		malformed(&p, wr, "an atomic with two SGEs");
		wr.num_sge = 1;
		wr.flags = MOOR_WQE_FLAG_INLINE | AS_IT_IS;
		malformed(&p, wr, "an atomic, inline");
	}
	wr = write_of(&p, 8);
	wr.flags = AS_IT_IS;
	wr.opcode = MOOR_WQE_READ;
	wr.num_sge = 0;
	wr.data = "12345678";
	wr.data_len = 8;
	malformed(&p, wr, "a READ, inline");
	if (dev.features & MOOR_FEATURE_MW_TYPE_2B) {
		wr.opcode = MOOR_WQE_LOCAL_INV;
		malformed(&p, wr, "a LOCAL_INV, inline");
	}
	about("reserved byte");
	wr = write_of(&p, 8);
	raw = put_send(&p.qp[0], &wr);
	raw->reserved1 = 1;
	ring_send(&p.qp[0]);
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
}

TEST_CASE(malformed_recv, "receive WQEs that make no sense",
	  "WQ-10 WQ-15 RC-24 RC-29", 0)
{
	struct moor_sge sge[2] = { { 0 } };
	struct moor_rq_wqe *raw;
	unsigned int i;
	struct pair p;

	make_pair(&p);
	for (i = 0; i < 3; i++) {
		about("%s", i == 0 ? "255 SGEs" : i == 1 ? "a reserved byte" :
		      "the last reserved byte");
		drop_events(MOOR_EQ_ASYNC);
		sge[0] = (struct moor_sge){ .addr = p.buf[1], .length = 64,
					    .lkey = p.key[1] };
		put_recv(&p.qp[1], 6, sge, 1);
		raw = at(p.qp[1].rq);
		if (i == 0)
			raw->num_sge = 255;
		else
			raw->reserved1[i == 1 ? 0 : 6] = 1;
		ring_recv(&p.qp[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND, SGE(p.buf[0], 64, p.key[0]),
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_REM_OP_ERR, 0);
		expect_cqe(&p.cq[1], 6, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		expect_no_event(MOOR_EQ_ASYNC);
		reconnect(&p);
	}
}

TEST_CASE(inline_data, "inline: up to MAX_INLINE and the end of the slot",
	  "WQ-6 WQ-7 WQ-8", 0)
{
	static const uint8_t opcodes[] = { MOOR_WQE_SEND, MOOR_WQE_WRITE,
					   MOOR_WQE_WRITE_IMM };
	static uint8_t data[512];
	unsigned int log, i;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 3 + 1);
	for (log = MOOR_MIN_LOG_SQ_STRIDE; log <= MOOR_MAX_LOG_STRIDE; log++) {
		uint32_t most = (1u << log) - 32;
		struct moor_cmd_create_qp cmd;
		struct pair p;
		struct send_wr wr;

		about("slots of %u bytes", 1u << log);
		host_begin();
		make_pair(&p);
		destroy_qp(&p.qp[0]);
		cmd = qp_command(&p.qp[0], &p.cq[0], &p.cq[0]);
		p.qp[0].log_stride = log;
		cmd.log_sq_stride = (uint8_t)log;
		must(cmd);
		reset_qp(&p.qp[1]);
		connect_qp(&p.qp[0], p.qp[1].qpn);
		connect_qp(&p.qp[1], p.qp[0].qpn);
		if (most > dev.max_inline)
			most = dev.max_inline;
		for (i = 0; i < 3; i++) {
			wr = (struct send_wr){
				.opcode = opcodes[i], .remote = p.buf[1],
				.rkey = p.key[1], .data = data, .data_len = most,
			};
			memset(at(p.buf[1]), 0, 512);
			post_recv(&p.qp[1], 1, p.buf[1], 512, p.key[1]);
			post_send(&p.qp[0], wr);
			expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
			expect(!memcmp(at(p.buf[1]), data, most) &&
			       is_all(p.buf[1] + most, 512 - most, 0),
			       "opcode %u: the data", opcodes[i]);
		}
		wr.opcode = MOOR_WQE_WRITE;
		wr.data_len = 0;
		post_send(&p.qp[0], wr);
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		if (most + 32 < 512) {
			struct moor_sq_wqe *raw;

			/* Only the length is wrong: the bytes would not fit. */
			wr.data_len = 0;
			raw = put_send(&p.qp[0], &wr);
			raw->inline_length = most + 1;
			ring_send(&p.qp[0]);
			expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_QP_OP_ERR,
				   MOOR_SYN_WQE);
		}
	}
}

TEST_CASE(inline_too_long, "inline: lengths that no slot holds", "WQ-8", 0)
{
	static const uint32_t lengths[] = { 481, 512, 65536, 1u << 31, ~0u };
	struct moor_sq_wqe *raw;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 5; i++) {
		about("%u bytes", lengths[i]);
		raw = put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
			.rkey = p.key[1], .data = "", .wr_id = 3,
		});
		raw->inline_length = lengths[i];
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], 3, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		reconnect(&p);
	}
	if (dev.max_inline < 480) {
		raw = put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
			.rkey = p.key[1], .data = "",
		});
		raw->inline_length = dev.max_inline + 1;
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	}
}

TEST_CASE(many_sges, "as many SGEs as MAX_SGE and the slot allow, of any size",
	  "WQ-6 WQ-10 REG-4", 0)
{
	unsigned int fit = (512 - 32) / 16, n, i, round;
	struct moor_sge to[MAX_SGES];
	struct pair p;
	struct send_wr wr;

	n = dev.max_sge < fit ? dev.max_sge : fit;
	if (n > MAX_SGES)
		n = MAX_SGES;
	make_pair(&p);
	for (round = 0; round < 4; round++) {
		uint32_t len = 1 + round * 333, total = 0;

		wr = (struct send_wr){ .opcode = MOOR_WQE_SEND, .num_sge = n };
		for (i = 0; i < n; i++) {
			wr.sge[i] = (struct moor_sge){
				.addr = p.buf[0] + total, .length = len + i,
				.lkey = p.key[0],
			};
			/* In reverse order, so that no two ends meet. */
			to[n - 1 - i] = (struct moor_sge){
				.length = len + i, .lkey = p.key[1],
			};
			total += len + i;
		}
		for (i = 0, total = 0; i < n; i++) {
			to[i].addr = p.buf[1] + total;
			total += to[i].length;
		}
		fill(p.buf[0], BUF, 60 + round);
		put_recv(&p.qp[1], round, to, n);
		ring_recv(&p.qp[1]);
		post_send(&p.qp[0], wr);
		expect(expect_cqe(&p.cq[1], round, MOOR_WC_SUCCESS, 0).byte_len ==
		       total, "round %u: the length", round);
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		expect(same(p.buf[0], p.buf[1], total), "round %u: the data", round);
	}
}

TEST_CASE(unsignaled, "without SIGNALED there is no CQE for a success",
	  "WQ-7 CQ-6 CQ-19", 0)
{
	struct moor_cqe cqe;
	struct pair p;
	struct send_wr wr;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 9; i++) {
		wr = write_of(&p, 64);
		wr.flags = i == 8 ? 0 : UNSIGNALED;
		wr.wr_id = i;
		post_send(&p.qp[0], wr);
	}
	cqe = expect_cqe(&p.cq[0], 8, MOOR_WC_SUCCESS, 0);
	expect(cqe.wqe_index == 8, "it is called WQE %u", cqe.wqe_index);
	about("an error");
	wr.flags = UNSIGNALED;
	wr.rkey ^= 1;
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 8, MOOR_WC_REM_ACCESS_ERR, 0);
	about("what is flushed");
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 8, MOOR_WC_WR_FLUSH_ERR, 0);
}

TEST_CASE(fence_flag, "FENCE waits for earlier READs", "WQ-7 WQ-14", 0)
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 50; i++) {
		struct send_wr wr = {
			.opcode = MOOR_WQE_WRITE, .remote = p.buf[1] + 8192,
			.rkey = p.key[1], .flags = MOOR_WQE_FLAG_FENCE,
			SGE(p.buf[0], 4096, p.key[0]),
		};

		fill(p.buf[1], 4096, i);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_READ, .remote = p.buf[1],
			.rkey = p.key[1], SGE(p.buf[0], 4096, p.key[0]),
		});
		put_send(&p.qp[0], &wr);
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		if (!expect(is_filled(p.buf[1] + 8192, 4096, i), "round %u", i))
			return;
	}
}

TEST_CASE(flushed_bind, "a bind behind a READ that fails is flushed and has changed nothing",
	  "WQ-17 RC-13", HAS(MW_TYPE_2B))
{
	const uint32_t len = longest(2u << 20);
	uint64_t table = take(PAGE), *leaf = at(table), to = take(len);
	struct moor_cpl_mr_query out;
	struct moor_mr_context e;
	uint32_t window, torn;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	/* All but its last page. */
	e = mr_entry(PD, ALL_RIGHTS, 0, len);
	e.xlat = (struct moor_xlat){
		.root = table | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
	};
	for (i = 0; i + 1 < len / PAGE; i++)
		leaf[i] = p.buf[1] | MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
			  MOOR_PTE_WRITABLE;
	torn = make_entry(&e, MOOR_MRC_TYPE_MR);
	window = make_window(PD, MOOR_MRC_TYPE_MW_2);
	put_send(&p.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_READ, .wr_id = 1, .rkey = torn,
		SGE(to, len, make_mr(PD, ALL_RIGHTS, to, len)),
	});
	put_send(&p.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_BIND_MW, .wr_id = 2,
		.bind = { .mw_key = window, .new_key = window + 1,
			  .mr_lkey = p.key[0], .access = ALL_REMOTE,
			  .addr = p.buf[0], .length = 8 },
	});
	ring_send(&p.qp[0]);
	expect_cqe(&p.cq[0], 1, MOOR_WC_REM_ACCESS_ERR, 0);
	expect_cqe(&p.cq[0], 2, MOOR_WC_WR_FLUSH_ERR, 0);
	need(!query(window, &out), "MR_QUERY: status %u", answer.status);
	expect(out.state == MOOR_MR_STATE_UNBOUND && out.key == window,
	       "state %u, key 0x%x", out.state, out.key);
}

#define LOG_PLACES	5u

TEST_CASE(queue_places, "queues with an offset, and through a table", "WQ-1 WQ-2 XLT-1",
	  0)
{
	struct moor_cmd_create_qp cmd;
	struct moor_cmd_create_cq cq_cmd;
	uint64_t table, pages;
	struct cq cq;
	struct qp qp;
	unsigned int i;

	at_least(max_log_wqe, LOG_PLACES);
	at_least(max_log_cqe, LOG_PLACES + 1);
	/* A ring of four pages in disorder, from the second half of a space on. */
	pages = take(8 * PAGE);
	table = take(PAGE);
	for (i = 0; i < 8; i++)
		((uint64_t *)at(table))[i] = (pages + (i ^ 1) * PAGE) |
			MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	make_cq(&cq, 0, LOG_DEPTH + 1);
	cmd = qp_command(&qp, &cq, &cq);
	cmd.sq = (struct moor_xlat){
		.root = table | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
		.offset = (uint64_t)1 << (LOG_DEPTH + LOG_STRIDE),
	};
	must(cmd);
	connect_qp(&qp, qp.qpn);
	for (i = 0; i < 3 * DEPTH; i++) {
		uint64_t byte = cmd.sq.offset + (uint64_t)(i % DEPTH << LOG_STRIDE);
		struct moor_sq_wqe wqe = {
			.opcode = MOOR_WQE_WRITE, .wr_id = i,
			.flags = MOOR_WQE_FLAG_SIGNALED,
		};

		memcpy(at(pages + (byte / PAGE ^ 1) * PAGE + byte % PAGE), &wqe,
		       sizeof(wqe));
		qp.sq_producer++;
		ring_send(&qp);
		if (!expect(expect_cqe(&cq, i, MOOR_WC_SUCCESS, 0).wr_id == i,
			    "WQE %u", i))
			return;
	}

	about("a CQ");
	host_begin();
	at_least(max_log_cqe, 7);
	pages = take(4 * PAGE);
	table = take(PAGE);
	for (i = 0; i < 4; i++)
		((uint64_t *)at(table))[i] = (pages + (3 - i) * PAGE) |
			MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	cq_cmd = cq_command(&cq, 0, 7);
	cq_cmd.ring = (struct moor_xlat){
		.root = table | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
		.offset = 2 * PAGE,
	};
	must(cq_cmd);
	make_qp(&qp, &cq, &cq);
	connect_qp(&qp, qp.qpn);
	for (i = 0; i < 300; i++) {
		uint64_t page = pages + (i / 64 % 2 ? 0 : PAGE);
		struct moor_cqe *cqe = at(page + i % 64 * 64);
		uint32_t phase = !(i / 128 & 1);

		post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = i });
		need(wait_until((__atomic_load_n(&cqe->phase, __ATOMIC_ACQUIRE) & 1)
				== phase), "no CQE %u", i);
		need(cqe->wr_id == i, "CQE %u is of %llu", i,
		     (unsigned long long)cqe->wr_id);
		cq.consumer++;
		free_cqes(&cq);
	}
	expect(true, "all of them");
}

TEST_CASE(read_once, "a WQE is read once, behind its doorbell, whatever was in its slot before",
	  "WQ-3 WQ-4", 0)
{
	struct moor_sge sge;
	unsigned int i;
	struct pair p;

	make_pair(&p);
	for (i = 0; i < 3 * DEPTH; i++) {
		uint64_t place = p.buf[1] + i % DEPTH * 64;

		about("message %u", i);
		fill(p.buf[0], 64, i);
		/* What a slot has before it is rung, and behind the CQE, would be an error. */
		memset(at(p.qp[0].sq), 0xff, DEPTH << LOG_STRIDE);
		memset(at(p.qp[1].rq), 0xff, DEPTH << LOG_STRIDE);
		settle();
		sge = (struct moor_sge){ place, 64, p.key[1] };
		put_recv(&p.qp[1], i, &sge, 1);
		ring_recv(&p.qp[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND, .wr_id = 100 + i,
			SGE(p.buf[0], 64, p.key[0]),
		});
		expect_cqe(&p.cq[0], 100 + i, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.cq[1], i, MOOR_WC_SUCCESS, 0);
		if (!expect(is_filled(place, 64, i), "the data"))
			return;
	}
}

TEST_CASE(not_looked_at, "fields that an opcode does not use are not looked at",
	  "WQ-4 WQ-12", 0)
{
	struct moor_sq_wqe *raw;
	struct pair p;

	make_pair(&p);
	post_recv(&p.qp[1], 1, p.buf[1], BUF, p.key[1]);
	raw = put_send(&p.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_SEND, SGE(p.buf[0], 64, p.key[0]),
	});
	raw->inv_key = ~0u;
	raw->remote_addr = ~0ull;
	raw->rkey = ~0u;
	raw->inline_length = ~0u;
	ring_send(&p.qp[0]);
	expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
	expect(is_filled(p.buf[1], 64, 1), "the SEND's data");
	at_least(max_inline, 8);
	raw = put_send(&p.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = p.buf[1] + 4096,
		.rkey = p.key[1], .data = "abcdefgh", .data_len = 8,
		.flags = MOOR_WQE_FLAG_SOLICITED | MOOR_WQE_FLAG_FENCE,
	});
	raw->num_sge = 255;
	ring_send(&p.qp[0]);
	expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
	expect(!memcmp(at(p.buf[1] + 4096), "abcdefgh", 8), "the inline data");
}

TEST_CASE(no_rd_atomic, "READs and atomics of a QP whose max_rd_atomic is 0",
	  "WQ-8 QP-10", 0)
{
	struct moor_cmd_modify_qp rts = to_rts();
	struct pair p;

	make_pair(&p);
	reset_qp(&p.qp[0]);
	must_modify(&p.qp[0], to_init());
	must_modify(&p.qp[0], to_rtr(p.qp[1].qpn));
	rts.max_rd_atomic = 0;
	must_modify(&p.qp[0], rts);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_READ, .remote = p.buf[1], .rkey = p.key[1],
		SGE(p.buf[0], 64, p.key[0]),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
}

TEST_CASE(queue_order, "WQEs take effect in order, binds among them", "WQ-14",
	  HAS(MW_TYPE_1))
{
	uint32_t window;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	/* Both ends are one QP: it binds a window, then uses the window. */
	must_modify(&p.qp[0], to_state(MOOR_QPS_RESET));
	connect_qp(&p.qp[0], p.qp[0].qpn);
	window = make_window(PD, MOOR_MRC_TYPE_MW_1);
	for (i = 0; i < 20; i++) {
		uint64_t place = p.buf[1] + i * 64;

		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_BIND_MW, .flags = UNSIGNALED,
			.bind = { .mw_key = window, .new_key = window + i,
				  .mr_lkey = p.key[1], .addr = place,
				  .access = MOOR_ACCESS_REMOTE_WRITE,
				  .length = 64 },
		});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .wr_id = i, .remote = place,
			.rkey = (window & ~0xffu) | ((window + i) & 0xff),
			SGE(p.buf[0] + i * 64, 64, p.key[0]),
		});
		ring_send(&p.qp[0]);
		if (expect_cqe(&p.cq[0], i, MOOR_WC_SUCCESS, 0).status)
			return;
	}
	expect(same(p.buf[0], p.buf[1], 20 * 64), "the data");
}

TEST_CASE(receives_in_order, "receives are taken in order, one by each message", "WQ-16 RC-35",
	  0)
{
	struct moor_sge sge[2];
	struct moor_cqe cqe;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	reset_qp(&p.qp[1]);
	about("posted in RESET and INIT");
	for (i = 0; i < 6; i++) {
		sge[0] = (struct moor_sge){ p.buf[1] + i * 1000, 500, p.key[1] };
		/* Beyond the message: the device does not look at this SGE. */
		sge[1] = (struct moor_sge){ NOWHERE, 500, 0xdead };
		put_recv(&p.qp[1], i, sge, dev.max_sge > 1 ? 2 : 1);
		ring_recv(&p.qp[1]);
		if (i == 2)
			must_modify(&p.qp[1], to_init());
	}
	must_modify(&p.qp[1], to_rtr(p.qp[0].qpn));
	for (i = 0; i < 6; i++) {
		post_send(&p.qp[0], (struct send_wr){
			.opcode = i & 1 ? MOOR_WQE_WRITE_IMM : MOOR_WQE_SEND,
			.remote = p.buf[1] + i * 1000, .rkey = p.key[1],
			SGE(p.buf[0], i == 2 ? 0 : 100 + i, p.key[0]),
		});
		cqe = expect_cqe(&p.cq[1], i, MOOR_WC_SUCCESS, 0);
		expect(cqe.wqe_index == i, "it is called WQE %u", cqe.wqe_index);
		expect(i == 2 || is_filled(p.buf[1] + i * 1000, 100 + i, 1),
		       "message %u: the data", i);
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
	}
}
