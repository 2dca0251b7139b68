// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues (HWI 10.3). */
#include <string.h>

#include "paged.h"
#include "shared.h"

TEST_CASE(srq_commands, "CREATE_SRQ and DESTROY_SRQ: ranges, and what is in use",
	  "SRQ-1 SRQ-4 CMD-11 CMD-12 CMD-14 CMD-16 CMD-17 CMD-18 CMD-30 DB-3 DB-17 DB-18",
	  HAS(SRQ))
{
	struct moor_cmd_destroy_srq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_SRQ,
	};
	struct moor_cmd_create_srq good, cmd;
	struct srq srq, same_index;
	struct cq cq;
	struct qp qp;

	make_cq(&cq, 0, 4);
	good = srq_command(&srq);
#define BAD(status, at_, field, value)					\
	do {								\
		cmd = good;						\
		cmd.field = value;					\
		refused(cmd, status, at_, #field " = " #value);		\
	} while (0)
	BAD(MOOR_CMD_BAD_PARAM, srqn, srqn, 1u << 24 | good.srqn);
	BAD(MOOR_CMD_BAD_PARAM, pd, pd, 1u << 24);
	BAD(MOOR_CMD_BAD_PARAM, flags, flags, 0x04);
	BAD(MOOR_CMD_BAD_PARAM, flags, flags, 0x80);
	BAD(MOOR_CMD_BAD_PARAM, log_depth, log_depth,
	    (uint8_t)(dev.max_log_wqe + 1));
	BAD(MOOR_CMD_BAD_PARAM, log_depth, log_depth, 0xff);
	BAD(MOOR_CMD_BAD_PARAM, log_stride, log_stride, MOOR_MIN_LOG_RQ_STRIDE - 1);
	BAD(MOOR_CMD_BAD_PARAM, log_stride, log_stride, MOOR_MAX_LOG_STRIDE + 1);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.offset, 16);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.levels, 6);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.memory, MOOR_MEMORY_NIC);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.memory, MOOR_MEMORY_GATHER);
	BAD(MOOR_CMD_DMA_FAULT, ring, ring.root, 0);
	BAD(MOOR_CMD_BAD_PARAM, doorbell, doorbell, 127);
	BAD(MOOR_CMD_BAD_PARAM, doorbell, doorbell, ~0u);
	BAD(MOOR_CMD_BUSY, doorbell, doorbell, cq.slot);
#undef BAD
	/* Where nothing is may come out when a receive is needed: srq_nowhere (CMD-41). */
	cmd = good;
	cmd.ring = flat(NOWHERE);
	destroy.srqn = good.srqn;
	if (do_command(cmd) == MOOR_CMD_OK)
		must(destroy);
	else
		expect(answer.status == MOOR_CMD_DMA_FAULT, "a ring that is nowhere: %u",
		       answer.status);
	must(good);
	refused(good, MOOR_CMD_BAD_INDEX, srqn, "twice");
	cmd = srq_command(&same_index);
	cmd.srqn = good.srqn ^ 1u << dev.srq_index_bits;
	if (dev.srq_index_bits < 24)
		refused(cmd, MOOR_CMD_BAD_INDEX, srqn, "another number, its index");
	cmd = srq_command(&same_index);
	cmd.doorbell = srq.slot;
	refused(cmd, MOOR_CMD_BUSY, doorbell, "another's slot");
	make_sharing_qp(&qp, &cq, &srq);
	destroy.srqn = srq.srqn;
	refused(destroy, MOOR_CMD_BUSY, srqn, "in use");
	destroy.srqn = srq.srqn | 1u << 24;
	refused(destroy, MOOR_CMD_BAD_INDEX, srqn, "by a number of 25 bits");
	destroy.srqn = srq.srqn;
	destroy_qp(&qp);
	must(destroy);
	refused(destroy, MOOR_CMD_BAD_INDEX, srqn, "gone");
	good.doorbell = take_slot();
	must(good);
}

TEST_CASE(srq_of_qp, "CREATE_QP: an SRQ, or a receive queue, or none", "QP-19 CMD-28",
	  HAS(SRQ))
{
	struct moor_cmd_create_qp cmd;
	struct srq srq;
	struct cq cq;
	struct qp qp;

	make_cq(&cq, 0, 4);
	make_srq(&srq);
	cmd = sharing_command(&qp, &cq, &srq);
	cmd.srqn = srq.srqn ^ 1;
	refused(cmd, MOOR_CMD_BAD_INDEX, srqn, "another SRQ");
	cmd.srqn = srq.srqn | 1u << 24;
	refused(cmd, MOOR_CMD_BAD_INDEX, srqn, "a number of 25 bits");
	cmd = qp_command(&qp, &cq, &cq);
	cmd.flags = MOOR_QP_FLAG_SRQ;
	cmd.srqn = srq.srqn;
	refused(cmd, MOOR_CMD_BAD_PARAM, no_rq, "a receive queue besides");
	cmd.flags = 0;
	refused(cmd, MOOR_CMD_BAD_RESERVED, srqn, "without the flag");
	cmd.type = 0xff;
	refused(cmd, MOOR_CMD_BAD_RESERVED, srqn, "without the flag, and worse");
	cmd.type = MOOR_QP_RC;
	cmd.flags = 0x80;
	refused(cmd, MOOR_CMD_BAD_RESERVED, srqn, "with an unknown flag instead");
	make_sharing_qp(&qp, &cq, &srq);
	expect(!query_qp(&qp).rq_consumer, "it has done with receives");
}

TEST_CASE(srq_reserved, "reserved bytes of the commands of SRQs", "CMD-10 VER-3 SRQ-2 SRQ-3",
	  HAS(SRQ))
{
	struct moor_cmd_create_srq create;
	struct moor_cmd_modify_srq change;
	struct moor_cmd_query_srq query_;
	struct moor_cmd_destroy_srq destroy;
	struct srq srq;
	uint8_t *bytes;

	create = srq_command(&srq);
	create.reserved1 = 1;
	refused(create, MOOR_CMD_BAD_RESERVED, reserved1, "CREATE_SRQ");
	create.reserved1 = 0;
	create.ring.reserved1 = 1;
	refused(create, MOOR_CMD_BAD_RESERVED, ring.reserved1, "its ring");
	create.ring.reserved1 = 0;
	create.reserved2 = 1;
	refused(create, MOOR_CMD_BAD_RESERVED, reserved2, "behind all");
	create.reserved2 = 0;
	must(create);
	change = (struct moor_cmd_modify_srq){
		.hdr.opcode = MOOR_CMD_MODIFY_SRQ, .srqn = srq.srqn,
		.reserved1 = 0x100,
	};
	refused(change, MOOR_CMD_BAD_RESERVED, reserved1, "MODIFY_SRQ");
	change.reserved1 = 0;
	must(change);
	query_ = (struct moor_cmd_query_srq){
		.hdr.opcode = MOOR_CMD_QUERY_SRQ, .srqn = srq.srqn, .reserved1 = 1,
	};
	refused(query_, MOOR_CMD_BAD_RESERVED, reserved1, "QUERY_SRQ");
	query_.reserved1 = 0;
	must(query_);
	bytes = (uint8_t *)&answer.out;
	expect(!bytes[1] && !bytes[2] && !bytes[3], "reserved bytes are set");
	destroy = (struct moor_cmd_destroy_srq){
		.hdr.opcode = MOOR_CMD_DESTROY_SRQ, .srqn = srq.srqn,
		.reserved1 = 1u << 31,
	};
	refused(destroy, MOOR_CMD_BAD_RESERVED, reserved1, "DESTROY_SRQ");
	destroy.reserved1 = 0;
	must(destroy);
}

TEST_CASE(srq_without_xrc, "without XRC its flag is unknown, and its fields are reserved",
	  "FEAT-3 SRQ-2 CMD-28", HAS(SRQ))
{
	struct moor_cmd_create_srq cmd;
	struct srq srq;

	skip_unless(!(dev.features & MOOR_FEATURE_XRC));
	cmd = srq_command(&srq);
	cmd.flags = MOOR_SRQ_FLAG_XRC;
	refused(cmd, MOOR_CMD_BAD_PARAM, flags, "the flag");
	cmd.xrcd = 1;
	refused(cmd, MOOR_CMD_BAD_RESERVED, xrcd, "the flag, and a domain");
	cmd.flags = 0;
	refused(cmd, MOOR_CMD_BAD_RESERVED, xrcd, "a domain");
	cmd.xrcd = 0;
	must(cmd);
}

static void in_turn(uint8_t type)
{
	struct sharing s;
	unsigned int i, n;

	make_sharing(&s, type);
	/* Three times through the ring; at most a ring is posted. */
	for (n = 0; n < 3 * DEPTH; n++) {
		uint64_t to = s.buf + BUF / 2 + n % DEPTH * SLOT;

		i = n % 3 == 1;
		about("type %u, message %u", type, n);
		memset(at(to), 0, SLOT);
		post_shared(&s.srq, 0x1000 + n, to, SLOT, s.key);
		send_shared(&s, i, 100 + n, MOOR_WC_SUCCESS);
		came_shared(&s, i, 0x1000 + n, n, 100 + n);
		expect(is_filled(s.buf, 100 + n, 1) && same(s.buf, to, 100 + n) &&
		       is_all(to + 100 + n, SLOT - 100 - n, 0), "the data");
		expect(query_srq(&s.srq).consumer == n + 1, "%u are taken",
		       query_srq(&s.srq).consumer);
	}
	expect(!query_qp(&s.receiver[0]).rq_consumer, "of a queue of its own");
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(srq_in_turn, "messages take what is posted, in order, whosever they are",
	  "SRQ-3 SRQ-5 SRQ-6 SRQ-8 DB-25 WQ-16", HAS(SRQ))
{
	in_turn(MOOR_QP_RC);
	if (!(dev.features & MOOR_FEATURE_UC))
		return;
	host_begin();
	in_turn(MOOR_QP_UC);
}

TEST_CASE(srq_full_ring, "a ring that is posted whole, and once more while WQEs are held",
	  "SRQ-5 SRQ-6 SRQ-8", HAS(SRQ))
{
	struct sharing s;
	unsigned int n;

	at_least(max_log_wqe, 1);
	at_least(max_log_cqe, 2);
	make_sharing(&s, MOOR_QP_RC);
	for (n = 0; n < DEPTH; n++) {
		struct moor_sge sge = { s.buf + BUF / 2 + n * SLOT, SLOT, s.key };

		put_shared(&s.srq, n, &sge, 1);
	}
	ring_shared(&s.srq);
	abandon_shared(&s, 0);
	send_shared(&s, 1, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 1, 1, 1, 64);
	about("WQE 0 is held, WQE 1 is done: both slots are free");
	post_shared(&s.srq, DEPTH, s.buf + BUF / 2, SLOT, s.key);
	post_shared(&s.srq, DEPTH + 1, s.buf + BUF / 2, SLOT, s.key);
	for (n = 2; n < DEPTH + 2; n++) {
		about("WQE %u", n);
		send_shared(&s, 1, 64, MOOR_WC_SUCCESS);
		came_shared(&s, 1, n, n, 64);
	}
	about("the one that is held");
	expect_no_cqe(&s.recv_cq[0]);
	must_modify(&s.receiver[0], to_state(MOOR_QPS_ERR));
	expect(expect_cqe(&s.recv_cq[0], 0, MOOR_WC_WR_FLUSH_ERR, 0).wqe_index == 0,
	       "not WQE 0");
	expect_no_cqe(&s.recv_cq[0]);
}

TEST_CASE(srq_held, "a WQE that was taken serves the QP's next message", "SRQ-8 UC-3",
	  HAS(SRQ))
{
	struct sharing s;

	skip_unless(dev.features & MOOR_FEATURE_UC);
	make_sharing(&s, MOOR_QP_UC);
	post_shared(&s.srq, 1, s.buf + BUF / 2, 64, s.key);
	post_shared(&s.srq, 2, s.buf + BUF / 2, SLOT, s.key);
	about("too long for it");
	send_shared(&s, 0, 65, MOOR_WC_SUCCESS);
	expect_no_cqe(&s.recv_cq[0]);
	send_shared(&s, 1, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 1, 2, 1, 64);
	about("short enough");
	send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 0, 1, 0, 64);
}

TEST_CASE(srq_empty, "an empty one is an empty receive queue", "SRQ-7 RC-10", HAS(SRQ))
{
	struct sharing s;

	make_sharing(&s, MOOR_QP_RC);
	send_shared(&s, 0, 64, MOOR_WC_RNR_RETRY_EXC_ERR);
	expect_no_event(MOOR_EQ_ASYNC);
	expect(!query_srq(&s.srq).consumer && !query_srq(&s.srq).failed,
	       "something is taken");
	reconnect_shared(&s, 0);
	post_shared(&s.srq, 9, s.buf + BUF / 2, 64, s.key);
	send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 0, 9, 0, 64);
}

/* A QP of @qp_pd with an SRQ of @srq_pd: a message to it ends with @syndrome there. */
static void keys_case(uint32_t qp_pd, uint32_t srq_pd, uint8_t qp_flags,
		      uint8_t srq_flags, uint32_t key, uint8_t syndrome)
{
	struct moor_cmd_create_srq create;
	struct moor_cmd_create_qp cmd;
	uint64_t buf = take(PAGE);
	struct moor_cqe cqe;
	struct srq srq;
	struct cq cq[2];
	struct qp qp[2];

	make_cq(&cq[0], 0, 4);
	make_cq(&cq[1], 1, 4);
	create = srq_command(&srq);
	create.pd = srq_pd;
	create.flags = srq_flags;
	must(create);
	make_qp(&qp[0], &cq[0], &cq[0]);
	cmd = sharing_command(&qp[1], &cq[1], &srq);
	cmd.pd = qp_pd;
	cmd.flags |= qp_flags;
	must(cmd);
	connect_qp(&qp[0], qp[1].qpn);
	connect_qp(&qp[1], qp[0].qpn);
	if (!key)
		key = make_mr(PD, MOOR_ACCESS_LOCAL_WRITE, buf, PAGE);
	post_shared(&srq, 3, buf, 64, key);
	post_send(&qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .data = "12345678", .data_len = 8,
	});
	cqe = expect_cqe(&cq[1], 3, syndrome ? MOOR_WC_LOC_PROT_ERR :
					       MOOR_WC_SUCCESS, syndrome);
	expect(cqe.qpn == qp[1].qpn, "of QP 0x%x", cqe.qpn);
	expect(memcmp(at(buf), "12345678", 8) ? syndrome : !syndrome, "the data");
	host_begin();
}

TEST_CASE(srq_keys, "receive SGEs are checked by the SRQ's PD and KERNEL flag",
	  "ACC-20 ACC-7 ACC-18 QP-19", HAS(SRQ))
{
	struct moor_mr_context all = { .pd = PD, .access = MOOR_ACCESS_LOCAL_WRITE };
	uint32_t key;

	about("PD of the SRQ");
	keys_case(OTHER_PD, PD, 0, 0, 0, 0);
	about("PD of the QP");
	keys_case(PD, OTHER_PD, 0, 0, 0, MOOR_SYN_PD);
	about("KERNEL of the SRQ");
	key = make_entry(&all, MOOR_MRC_TYPE_ALL);
	keys_case(PD, PD, 0, MOOR_SRQ_FLAG_KERNEL, key, 0);
	about("KERNEL of the QP");
	key = make_entry(&all, MOOR_MRC_TYPE_ALL);
	keys_case(PD, PD, MOOR_QP_FLAG_KERNEL, 0, key, MOOR_SYN_KEY);
}

/* Copies WQEs that may not be taken yet to a new ring, as software does. */
static void move_wqes(struct srq *srq, uint32_t from, unsigned int log_depth,
		      unsigned int log_stride)
{
	uint64_t ring = take(1ull << (log_depth + log_stride));
	uint32_t n;

	for (n = from; n != srq->producer; n++)
		memcpy(at(ring + ((uint64_t)(n & ((1u << log_depth) - 1)) << log_stride)),
		       at(srq->ring + ((uint64_t)(n & ((1u << srq->log_depth) - 1)) <<
				       srq->log_stride)),
		       1u << (log_stride < srq->log_stride ? log_stride :
							     srq->log_stride));
	srq->ring = ring;
	srq->log_depth = log_depth;
	srq->log_stride = log_stride;
}

TEST_CASE(srq_resize, "another ring: deeper, wider, shallower; indices run on",
	  "SRQ-2 SRQ-13 CMD-16", HAS(SRQ))
{
	static const struct {
		unsigned int log_depth, log_stride;
	} rings[] = { { 6, 9 }, { 6, 6 }, { 3, 7 }, { 5, 9 } };
	uint32_t done = 0, n = 0;
	struct sharing s;
	unsigned int i, j;
	uint64_t old;

	at_least(max_log_wqe, 6);
	make_sharing(&s, MOOR_QP_RC);
	for (i = 0; i < 4; i++) {
		about("to 2^%u slots of 2^%u bytes", rings[i].log_depth,
		      rings[i].log_stride);
		while (s.srq.producer - done < 7)
			post_shared(&s.srq, n++, s.buf + BUF / 2, SLOT, s.key);
		old = s.srq.ring;
		move_wqes(&s.srq, done, rings[i].log_depth, rings[i].log_stride);
		need(!modify_srq(&s.srq, MOOR_SRQ_ATTR_RING, 0), "it is refused at %u",
		     answer.detail);
		memset(at(old), 0xff, PAGE);
		for (j = 0; j < 7; j++, done++) {
			send_shared(&s, j & 1, 64, MOOR_WC_SUCCESS);
			came_shared(&s, j & 1, done, done, 64);
		}
	}
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(srq_resize_refused, "another ring that is refused changes nothing",
	  "SRQ-13 CMD-11 CMD-16 CMD-18 CMD-30", HAS(SRQ))
{
	struct moor_cmd_modify_srq good, cmd;
	struct sharing s;
	unsigned int n;

	at_least(max_log_wqe, 4);
	make_sharing(&s, MOOR_QP_RC);
	for (n = 0; n < 9; n++)
		post_shared(&s.srq, n, s.buf + BUF / 2, SLOT, s.key);
	good = (struct moor_cmd_modify_srq){
		.hdr.opcode = MOOR_CMD_MODIFY_SRQ, .srqn = s.srq.srqn,
		.mask = MOOR_SRQ_ATTR_RING | MOOR_SRQ_ATTR_LIMIT, .limit = 9,
		.log_depth = 4, .log_stride = 9, .ring = flat(take(2 * PAGE)),
	};
#define BAD(status, at_, field, value)					\
	do {								\
		cmd = good;						\
		cmd.field = value;					\
		refused(cmd, status, at_, #field " = " #value);		\
	} while (0)
	BAD(MOOR_CMD_BAD_PARAM, log_depth, log_depth,
	    (uint8_t)(dev.max_log_wqe + 1));
	BAD(MOOR_CMD_BAD_PARAM, log_depth, log_depth, 0xff);
	BAD(MOOR_CMD_BAD_PARAM, log_stride, log_stride, 4);
	BAD(MOOR_CMD_BAD_PARAM, log_stride, log_stride, 10);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.offset, 256);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.memory, MOOR_MEMORY_NIC);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.entries, 1);
	BAD(MOOR_CMD_BAD_PARAM, limit, limit, 17);
	BAD(MOOR_CMD_DMA_FAULT, ring, ring.root, 0);
	cmd = good;
	cmd.log_depth = 3;
	cmd.limit = 0;
	refused(cmd, MOOR_CMD_BAD_PARAM, log_depth, "nine WQEs into eight slots");
#undef BAD
	expect(!query_srq(&s.srq).limit, "a limit is set");
	for (n = 0; n < 8; n++) {
		send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
		came_shared(&s, 0, n, n, 64);
	}
	about("a producer index that is senseless");
	store_slot(s.srq.slot, 8 + DEPTH + 1);
	refused(good, MOOR_CMD_BAD_PARAM, log_depth, "it is");
	about("the old ring is still the one");
	ring_shared(&s.srq);
	send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 0, 8, 8, 64);
	expect_no_event(MOOR_EQ_ASYNC);
	about("a ring that is nowhere: now, or when it is needed");
	post_shared(&s.srq, 9, s.buf + BUF / 2, SLOT, s.key);
	cmd = good;
	cmd.mask = MOOR_SRQ_ATTR_RING;
	cmd.ring = flat(NOWHERE);
	if (do_command(cmd) == MOOR_CMD_OK) {
		send_shared(&s, 0, 64, MOOR_WC_REM_OP_ERR);
		expect(query_srq(&s.srq).failed == 1, "the SRQ has not failed");
		return;
	}
	expect(answer.status == MOOR_CMD_DMA_FAULT, "status %u", answer.status);
	send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 0, 9, 9, 64);
}

TEST_CASE(srq_masked, "without its bit nothing of the ring is looked at but what is reserved",
	  "SRQ-2 CMD-10 CMD-29 CMD-44", HAS(SRQ))
{
	struct moor_cmd_modify_srq cmd;
	struct sharing s;

	make_sharing(&s, MOOR_QP_RC);
	memset(&cmd, 0xff, sizeof(cmd));
	cmd.hdr = (struct moor_cmd_hdr){ .opcode = MOOR_CMD_MODIFY_SRQ };
	cmd.srqn = s.srq.srqn;
	cmd.mask = MOOR_SRQ_ATTR_LIMIT;
	cmd.limit = 0;
	cmd.reserved1 = 0;
	refused(cmd, MOOR_CMD_BAD_RESERVED, ring.reserved1, "with LIMIT");
	cmd.mask = 0;
	refused(cmd, MOOR_CMD_BAD_RESERVED, ring.reserved1, "with nothing");
	cmd.ring.reserved1 = 0;
	must(cmd);
	cmd.mask = MOOR_SRQ_ATTR_LIMIT;
	must(cmd);
	about("the ring is still the one");
	post_shared(&s.srq, 1, s.buf, SLOT, s.key);
	send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 0, 1, 0, 64);
}

TEST_CASE(srq_pages, "RC: a receive of an SRQ waits for its pages", "SRQ-8 ODP-15 ODP-16",
	  HAS(SRQ))
{
	struct moor_page_request r;
	struct paged p;
	struct srq srq;
	struct qp sharer;

	skip_unless(dev.features & MOOR_FEATURE_ODP);
	make_paged(&p);
	make_srq(&srq);
	make_sharing_qp(&sharer, &p.pair.cq[1], &srq);
	reset_qp(&p.pair.qp[0]);
	connect_qp(&p.pair.qp[0], sharer.qpn);
	connect_qp(&sharer, p.pair.qp[0].qpn);
	p.pair.qp[1] = sharer;
	page_in(&p, 0, 0, PAGES, true);
	post_shared(&srq, 7, paged_addr(1, 64), 256, p.key[1]);
	paged_post(&p, MOOR_WQE_SEND, 1, 0, 0, 256);
	r = expect_request(&p, 1, 64, 1, MOOR_PAGE_REQUEST_RESPONDER |
					 MOOR_PAGE_REQUEST_WRITE);
	while_it_waits(&p);
	expect(query_srq(&srq).consumer == 1, "it is not taken");
	page_in(&p, 1, 0, 1, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.pair.cq[1], 7, MOOR_WC_SUCCESS, 0);
	expect(same(p.pages[0], p.pages[1] + 64, 256), "the data");
	expect(query_srq(&srq).consumer == 1, "it is taken twice");
}
