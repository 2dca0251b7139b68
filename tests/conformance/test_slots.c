// SPDX-License-Identifier: GPL-2.0
/*
 * Queues of every depth and stride, what does not fit into a slot, and messages as long as
 * may be (HWI 10).
 */
#include <string.h>

#include "traffic.h"

/* Slots of a send and a receive queue; depths and strides are of powers of two. */
struct shape {
	unsigned int log_sq_depth, log_sq_stride, log_rq_depth, log_rq_stride;
};

/* A QP that is connected to itself, with queues of this shape. */
struct shaped {
	struct cq send_cq, recv_cq;
	struct qp sends, receives;	/* one QP, whose queues differ */
	uint64_t buf;			/* BUF bytes, filled with seed 1 */
	uint32_t key;
};

static void make_shaped(struct shaped *s, const struct shape *shape)
{
	struct moor_cmd_create_qp cmd;

	at_least(max_cq, 2);
	at_least(max_mr_size, BUF);
	make_cq(&s->send_cq, 0, LOG_DEPTH + 1);
	make_cq(&s->recv_cq, 1, LOG_DEPTH + 1);
	cmd = qp_command(&s->sends, &s->send_cq, &s->recv_cq);
	cmd.log_sq_depth = (uint8_t)shape->log_sq_depth;
	cmd.log_sq_stride = (uint8_t)shape->log_sq_stride;
	cmd.log_rq_depth = (uint8_t)shape->log_rq_depth;
	cmd.log_rq_stride = (uint8_t)shape->log_rq_stride;
	must(cmd);
	s->receives = s->sends;
	s->sends.log_depth = shape->log_sq_depth;
	s->sends.log_stride = shape->log_sq_stride;
	s->receives.log_depth = shape->log_rq_depth;
	s->receives.log_stride = shape->log_rq_stride;
	s->buf = take_filled(BUF, 1);
	s->key = make_mr(PD, ALL_RIGHTS, s->buf, BUF);
	connect_qp(&s->sends, s->sends.qpn);
}

static void reconnect_shaped(struct shaped *s)
{
	struct moor_cqe cqe;

	reset_qp(&s->sends);
	reset_qp(&s->receives);
	while (poll_cqe(&s->send_cq, &cqe) || poll_cqe(&s->recv_cq, &cqe))
		;
	connect_qp(&s->sends, s->sends.qpn);
	drop_events(MOOR_EQ_ASYNC);
}

/* SGEs that a slot of this size has room for behind its head, of those that may be. */
static unsigned int most_sges(unsigned int log_stride, unsigned int head)
{
	unsigned int fit = ((1u << log_stride) - head) / 16;

	if (fit > MAX_SGES)
		fit = MAX_SGES;
	return fit < dev.max_sge ? fit : dev.max_sge;
}

/* SGEs of 7 bytes each, @far apart. */
static void spread(struct moor_sge *sge, unsigned int num, uint64_t addr, unsigned int far,
		   uint32_t key)
{
	unsigned int i;

	for (i = 0; i < num; i++)
		sge[i] = (struct moor_sge){ addr + i * far, 7, key };
}

/* Several times through both queues, each slot with as many SGEs as it has room for. */
static void passes_through(struct shaped *s)
{
	unsigned int n = most_sges(s->sends.log_stride, sizeof(struct moor_sq_wqe));
	unsigned int m = most_sges(s->receives.log_stride, sizeof(struct moor_rq_wqe)), i, j;
	struct moor_sge to[MAX_SGES];

	if (n > m)
		n = m;
	for (i = 0; i < 9; i++) {
		struct send_wr wr = { .opcode = MOOR_WQE_SEND, .wr_id = i, .num_sge = n };

		fill(s->buf, BUF / 2, i);
		memset(at(s->buf + BUF / 2), 0, BUF / 2);
		spread(wr.sge, n, s->buf, 100, s->key);
		spread(to, m, s->buf + BUF / 2, 50, s->key);
		put_recv(&s->receives, 100 + i, to, m);
		ring_recv(&s->receives);
		post_send(&s->sends, wr);
		expect_cqe(&s->send_cq, i, MOOR_WC_SUCCESS, 0);
		expect(expect_cqe(&s->recv_cq, 100 + i, MOOR_WC_SUCCESS, 0).byte_len == 7 * n,
		       "message %u: the length", i);
		for (j = 0; j < n; j++)
			expect(same(wr.sge[j].addr, to[j].addr, 7), "message %u, SGE %u", i, j);
	}
}

TEST_CASE(shapes, "slots of every size, queues of small depths, each with all the SGEs that fit",
	  "WQ-2 WQ-6 WQ-8 WQ-10 WQ-15 REG-4", 0)
{
	struct shape shape = { 0 };
	struct shaped s;
	unsigned int n = 0;

	for (shape.log_sq_stride = MOOR_MIN_LOG_SQ_STRIDE;
	     shape.log_sq_stride <= MOOR_MAX_LOG_STRIDE; shape.log_sq_stride++) {
		for (shape.log_rq_stride = MOOR_MIN_LOG_RQ_STRIDE;
		     shape.log_rq_stride <= MOOR_MAX_LOG_STRIDE; shape.log_rq_stride++) {
			/* The smallest depths are those of the smallest slots, among others. */
			shape.log_sq_depth = n % (LOG_DEPTH + 1);
			shape.log_rq_depth = n++ / 2 % (LOG_DEPTH + 1);
			about("2^%u slots of 2^%u bytes, and 2^%u of 2^%u", shape.log_sq_depth,
			      shape.log_sq_stride, shape.log_rq_depth, shape.log_rq_stride);
			host_begin();
			make_shaped(&s, &shape);
			passes_through(&s);
		}
	}
}

/*
 * Posts a send WQE that names an SGE more than its slot has room for; those behind the
 * slot, in that of the next WQE, would do.
 */
static void overflow_send(struct shaped *s, uint8_t opcode)
{
	unsigned int num = ((1u << s->sends.log_stride) - sizeof(struct moor_sq_wqe)) / 16;
	struct moor_sge sge = { s->buf, 8, s->key };
	struct moor_sq_wqe *wqe = at(s->sends.sq);
	unsigned int i;

	*wqe = (struct moor_sq_wqe){
		.opcode = opcode, .flags = MOOR_WQE_FLAG_SIGNALED, .wr_id = 4,
		.num_sge = (uint8_t)(num + 1), .remote_addr = s->buf + BUF / 2,
		.rkey = s->key,
	};
	for (i = 0; i <= num; i++)
		memcpy((uint8_t *)(wqe + 1) + 16 * i, &sge, sizeof(sge));
	ring_slot(s->sends.sq_slot, 1);
}

TEST_CASE(send_overflow, "of a send WQE no SGE and no inline byte lies behind its slot",
	  "WQ-8 RC-5 RC-21", 0)
{
	static const uint8_t opcodes[] = { MOOR_WQE_SEND, MOOR_WQE_WRITE, MOOR_WQE_READ };
	struct shape shape = { 1, 0, 1, MOOR_MAX_LOG_STRIDE };
	struct moor_sq_wqe *wqe;
	struct shaped s;
	unsigned int i;

	at_least(max_log_wqe, 1);
	for (shape.log_sq_stride = MOOR_MIN_LOG_SQ_STRIDE;
	     shape.log_sq_stride < MOOR_MAX_LOG_STRIDE; shape.log_sq_stride++) {
		host_begin();
		make_shaped(&s, &shape);
		for (i = 0; i < 3; i++) {
			about("2^%u bytes, opcode %u", shape.log_sq_stride, opcodes[i]);
			post_recv(&s.receives, 9, s.buf + BUF / 2, 512, s.key);
			overflow_send(&s, opcodes[i]);
			expect_cqe(&s.send_cq, 4, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
			expect_cqe(&s.recv_cq, 9, MOOR_WC_WR_FLUSH_ERR, 0);
			reconnect_shaped(&s);
		}
		about("2^%u bytes, inline", shape.log_sq_stride);
		wqe = at(s.sends.sq);
		*wqe = (struct moor_sq_wqe){
			.opcode = MOOR_WQE_WRITE, .wr_id = 5,
			.flags = MOOR_WQE_FLAG_INLINE | MOOR_WQE_FLAG_SIGNALED,
			.inline_length = (1u << shape.log_sq_stride) - sizeof(*wqe) + 1,
			.remote_addr = s.buf + BUF / 2, .rkey = s.key,
		};
		ring_slot(s.sends.sq_slot, 1);
		expect_cqe(&s.send_cq, 5, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		expect(is_filled(s.buf, BUF, 1), "something is written");
	}
}

TEST_CASE(recv_overflow, "of a receive WQE no SGE lies behind its slot", "WQ-10 WQ-15 RC-24",
	  0)
{
	struct shape shape = { 1, MOOR_MIN_LOG_SQ_STRIDE, 1, 0 };
	struct moor_rq_wqe *wqe;
	struct shaped s;
	unsigned int num, i;

	at_least(max_log_wqe, 1);
	for (shape.log_rq_stride = MOOR_MIN_LOG_RQ_STRIDE;
	     shape.log_rq_stride < MOOR_MAX_LOG_STRIDE; shape.log_rq_stride++) {
		struct moor_sge sge = { .length = 1 };

		about("2^%u bytes", shape.log_rq_stride);
		host_begin();
		make_shaped(&s, &shape);
		num = ((1u << shape.log_rq_stride) - sizeof(*wqe)) / 16;
		wqe = at(s.receives.rq);
		*wqe = (struct moor_rq_wqe){ .wr_id = 4, .num_sge = (uint8_t)(num + 1) };
		sge.addr = s.buf + BUF / 2;
		sge.lkey = s.key;
		for (i = 0; i <= num; i++)
			memcpy((uint8_t *)(wqe + 1) + 16 * i, &sge, sizeof(sge));
		store_slot(s.receives.rq_slot, 1);
		post_send(&s.sends, (struct send_wr){
			.opcode = MOOR_WQE_SEND, .wr_id = 5, SGE(s.buf, num + 1, s.key),
		});
		expect_cqe(&s.recv_cq, 4, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		expect_cqe(&s.send_cq, 5, MOOR_WC_REM_OP_ERR, 0);
		expect(is_filled(s.buf, BUF, 1), "something is written");
	}
}

/* MAX_MSG_SIZE bytes, of the null MR into an MR whose tables name few pages many times. */
static void longest_message(struct pair *p)
{
	struct moor_mr_context e = mr_entry(PD, ALL_RIGHTS, 0, dev.max_msg_size);
	uint64_t leaves = take(PAGE), upper = take(PAGE), root = take(PAGE);
	bool end = false;
	struct moor_cqe cqe;
	unsigned int i;

	at_least(max_mr_size, dev.max_msg_size);
	for (i = 0; i < PAGE / 8; i++) {
		((uint64_t *)at(leaves))[i] = (p->buf[1] + i % (BUF / PAGE) * PAGE) |
			MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
		((uint64_t *)at(upper))[i] = leaves | MOOR_PTE_PRESENT;
		((uint64_t *)at(root))[i] = upper | MOOR_PTE_PRESENT;
	}
	e.xlat = (struct moor_xlat){
		.root = root | MOOR_PTE_PRESENT, .levels = 3, .page_shift = 12,
	};
	/* However long it takes. */
	must_modify(&p->qp[0], (struct moor_cmd_modify_qp){ .mask = MOOR_QP_ATTR_TIMEOUT });
	memset(at(p->buf[1]), 0xff, BUF);
	post_send(&p->qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .rkey = make_entry(&e, MOOR_MRC_TYPE_MR),
		SGE(0, dev.max_msg_size, dev.null_lkey),
	});
	for (i = 0; i < 12 && !end; i++)
		end = wait_until(poll_cqe(&p->cq[0], &cqe));
	need(end, "it does not end in %llu s", i * DUE_NS / 1000000000);
	expect(!cqe.status && cqe.byte_len == dev.max_msg_size,
	       "status %u, syndrome %u, %u bytes", cqe.status, cqe.syndrome, cqe.byte_len);
	expect(is_all(p->buf[1], dev.max_msg_size < BUF ? dev.max_msg_size : BUF, 0),
	       "it is not written");
	expect(query_qp(&p->qp[0]).sq_psn ==
	       ((to_rts().sq_psn + (dev.max_msg_size + 1023) / 1024) & 0xffffff),
	       "the next PSN is 0x%x", query_qp(&p->qp[0]).sq_psn);
}

TEST_CASE(long_messages, "messages up to MAX_MSG_SIZE, and none beyond",
	  "WQ-9 RC-4 RC-21 REG-4", 0)
{
	struct pair p;
	struct send_wr wr;
	unsigned int i;

	make_pair(&p);
	/* The null MR stands for any length. */
	for (i = 0; i < 6; i++) {
		wr = (struct send_wr){
			.opcode = i & 1 ? MOOR_WQE_READ : MOOR_WQE_WRITE,
			.flags = AS_IT_IS, .remote = p.buf[1], .rkey = p.key[1],
			SGE(0, dev.max_msg_size + 1, dev.null_lkey),
		};
		about("%s, %s", i & 1 ? "a READ" : "a WRITE", i < 2 ? "one SGE" : i < 4 ?
		      "two" : "a sum of 2^32 and 8");
		if (i >= 2) {
			if (dev.max_sge < 2)
				break;
			wr.num_sge = 2;
			wr.sge[1] = wr.sge[0];
			wr.sge[0].length = i < 4 ? 1 : 0x80000000;
			wr.sge[1].length = i < 4 ? dev.max_msg_size : 0x80000008;
		}
		post_send(&p.qp[0], wr);
		expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
		reconnect(&p);
	}
	if (dev.features & MOOR_FEATURE_ATOMICS) {
		about("an atomic of four bytes");
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_FETCH_ADD, .remote = p.buf[1],
			.rkey = p.key[1], SGE(p.buf[0], 4, p.key[0]),
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
		reconnect(&p);
	}
	about("all of it");
	longest_message(&p);
}
