// SPDX-License-Identifier: GPL-2.0
/* The command ring, completions, their interrupt (HWI 8.1 to 8.3). */
#include <string.h>

#include "traffic.h"

TEST_CASE(nop_works, "NOP: tag, status, nothing else", "CMD-5 CMD-8 CMD-21 VER-4", 0)
{
	struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };
	unsigned int i;

	for (i = 0; i < 4 * RING; i++) {
		uint16_t tag = issue(&cmd, sizeof(cmd));

		wait_completion(&answer);
		if (!expect(answer.tag == tag && !answer.status &&
			    !answer.detail && !answer.reserved1 &&
			    !answer.reserved2 && !(answer.phase & ~1u),
			    "command %u: tag 0x%x, status %u, detail %u", i,
			    answer.tag, answer.status, answer.detail))
			return;
	}
}

/* Entries are written over as soon as they, or some behind them, have completed (CMD-40). */
TEST_CASE(many, "many commands outstanding: each is answered once, in ring order",
	  "CMD-1 CMD-5 CMD-7 CMD-39", 0)
{
	uint8_t *ring = at(reg_read64(MOOR_REG_CMD_BASE));
	struct moor_cmd_hdr none = { .opcode = MOOR_CMD_NOP };
	struct moor_cmd_mr_query ask = { .hdr.opcode = MOOR_CMD_MR_QUERY };
	unsigned int round, i, j, n;
	struct moor_cpl_mr_query out;
	uint32_t first, place[RING];
	uint16_t tags[RING];
	bool answered[RING];
	struct moor_cpl cpl;

	n = dev.max_log_cmd < LOG_RING ? 1u << dev.max_log_cmd : RING;
	ask.key = make_mr(PD, ALL_RIGHTS, take(PAGE), PAGE);
	for (round = 0; round < 9; round++) {
		first = (uint32_t)bar_read64(MOOR_BAR_DB, MOOR_DB_SLOT_CMD_PRODUCER);
		for (i = 0; i < n; i++) {
			tags[i] = i & 1 ? issue(&ask, sizeof(ask)) :
					  issue(&none, sizeof(none));
			place[i] = (first + i) & (n - 1);
			answered[i] = false;
		}
		for (i = 0; i < n; i++) {
			wait_completion(&cpl);
			for (j = 0; j < n && tags[j] != cpl.tag; j++)
				;
			if (!expect(j < n && !answered[j] && !cpl.status,
				    "tag 0x%x, status %u", cpl.tag, cpl.status))
				return;
			answered[j] = true;
			memcpy(&out, cpl.out, sizeof(out));
			expect(out.key == (j & 1 ? ask.key : 0), "command %u: key 0x%x",
			       j, out.key);
			do {
				memset(ring + place[j] * MOOR_CMD_SIZE, 0xff,
				       MOOR_CMD_SIZE);
			} while (j--);
		}
	}
	expect(!poll_completion(&cpl), "a completion too many");
}

/* Is the completion's output zero, as it has to be without output? */
static bool out_is_zero(void)
{
	static const uint8_t zeros[sizeof(answer.out)];

	return !memcmp(answer.out, zeros, sizeof(zeros));
}

TEST_CASE(opcodes, "opcodes that there are not", "CMD-9 CMD-18 CMD-28 FEAT-2 RSV-2", 0)
{
	static const uint8_t known[] = {
		MOOR_CMD_NOP, MOOR_CMD_CREATE_EQ, MOOR_CMD_DESTROY_EQ,
		MOOR_CMD_CREATE_CQ, MOOR_CMD_DESTROY_CQ, MOOR_CMD_RESIZE_CQ,
		MOOR_CMD_CREATE_QP, MOOR_CMD_MODIFY_QP, MOOR_CMD_QUERY_QP,
		MOOR_CMD_DESTROY_QP, MOOR_CMD_SET_GID, MOOR_CMD_MR_REVOKE,
		MOOR_CMD_MR_QUERY, MOOR_CMD_MR_WINDOWS,
	};
	struct moor_cmd_hdr cmd = { 0 };
	unsigned int opcode;

	/* A later minor version may have more of them (VER-8). */
	skip_unless(dev.minor <= MOOR_HW_VERSION_MINOR);
	for (opcode = 0; opcode < 256; opcode++) {
		if (memchr(known, (int)opcode, sizeof(known)) ||
		    (opcode == MOOR_CMD_MODIFY_CQ &&
		     dev.features & MOOR_FEATURE_CQ_MODERATION) ||
		    ((opcode == MOOR_CMD_MR_INVALIDATE ||
		      opcode == MOOR_CMD_PAGE_RESPONSE) &&
		     dev.features & MOOR_FEATURE_ODP) ||
		    (opcode >= MOOR_CMD_CREATE_SRQ &&
		     opcode <= MOOR_CMD_DESTROY_SRQ &&
		     dev.features & MOOR_FEATURE_SRQ) ||
		    ((opcode == MOOR_CMD_ATTACH_FILTER ||
		      opcode == MOOR_CMD_DETACH_FILTER) &&
		     dev.features & MOOR_FEATURE_UD))
			continue;
		cmd.opcode = (uint8_t)opcode;
		cmd.reserved1 = opcode & 1;
		refused(cmd, MOOR_CMD_BAD_OPCODE, opcode, "0x%02x", opcode);
		expect(out_is_zero(), "0x%02x: the completion is not empty",
		       opcode);
	}
}

/* Sends a good command with one bad reserved byte. */
static void reserved(const char *what, const void *good, size_t size, size_t at_)
{
	struct moor_cmd cmd = { 0 };
	uint8_t status;

	memcpy(&cmd, good, size);
	/* Any bit, another one in each byte. */
	((uint8_t *)&cmd)[at_] = (uint8_t)(1u << at_ * 5 % 8);
	status = command(&cmd, sizeof(cmd));
	expect(status == MOOR_CMD_BAD_RESERVED && out_is_zero(),
	       "%s, byte %zu: status %u", what, at_, status);
	expect(!answer.detail || answer.detail == at_ ||
	       (answer.detail < at_ && at_ < answer.detail + 8),
	       "%s, byte %zu: detail %u", what, at_, answer.detail);
}

TEST_CASE(reserved_fields, "each reserved byte of each command, and each behind it, is checked",
	  "CMD-10 CMD-17 CMD-18 CMD-28 VER-3", 0)
{
	struct moor_cmd_create_eq eq = {
		.hdr.opcode = MOOR_CMD_CREATE_EQ, .eqn = 1,
		.log_eqe = LOG_EQE, .base = take(PAGE),
	};
	struct moor_cmd_destroy_eq d_eq = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_ASYNC,
	};
	struct cq cq, spare;
	struct moor_cmd_create_cq c_cq;
	struct moor_cmd_destroy_cq d_cq = {
		.hdr.opcode = MOOR_CMD_DESTROY_CQ, .cqn = 0,
	};
	struct moor_cmd_resize_cq r_cq = {
		.hdr.opcode = MOOR_CMD_RESIZE_CQ, .log_cqe = 1,
		.ring = flat(take(PAGE)),
	};
	struct moor_cmd_create_qp c_qp;
	struct moor_cmd_modify_qp m_qp = { .hdr.opcode = MOOR_CMD_MODIFY_QP };
	struct moor_cmd_query_qp q_qp = { .hdr.opcode = MOOR_CMD_QUERY_QP };
	struct moor_cmd_destroy_qp d_qp = { .hdr.opcode = MOOR_CMD_DESTROY_QP };
	struct moor_cmd_set_gid gid = {
		.hdr.opcode = MOOR_CMD_SET_GID, .vlan = MOOR_GID_NO_VLAN,
		.type = MOOR_GID_ROCE_V2, .gid = { 1 },
	};
	struct moor_cmd_mr_query mr_query = { .hdr.opcode = MOOR_CMD_MR_QUERY };
	struct moor_cmd_mr_revoke mr_revoke = {
		.hdr.opcode = MOOR_CMD_MR_REVOKE, .count = 1,
	};
	struct moor_cmd_mr_invalidate invalidate = {
		.hdr.opcode = MOOR_CMD_MR_INVALIDATE,
	};
	struct moor_cmd_page_response response = {
		.hdr.opcode = MOOR_CMD_PAGE_RESPONSE,
	};
	struct moor_cmd_modify_cq m_cq = { .hdr.opcode = MOOR_CMD_MODIFY_CQ };
	struct moor_cmd_mr_windows windows = {
		.hdr.opcode = MOOR_CMD_MR_WINDOWS, .buffer = take(PAGE),
	};
	struct moor_cmd_filter filter = {
		.hdr.opcode = MOOR_CMD_ATTACH_FILTER, .type = MOOR_FILTER_MULTICAST,
		.gid = { 0xff },
	};
	struct moor_cmd_create_srq c_srq = {
		.hdr.opcode = MOOR_CMD_CREATE_SRQ, .log_stride = 6,
		.doorbell = take_slot(), .ring = flat(take(PAGE)),
	};
	struct moor_cmd_modify_srq m_srq = { .hdr.opcode = MOOR_CMD_MODIFY_SRQ };
	struct moor_cmd_query_srq q_srq = { .hdr.opcode = MOOR_CMD_QUERY_SRQ };
	struct moor_cmd_destroy_srq d_srq = { .hdr.opcode = MOOR_CMD_DESTROY_SRQ };
	struct moor_cmd_hdr hdr = { .opcode = MOOR_CMD_NOP };
	struct qp qp, other;
	unsigned int i;

	make_cq(&cq, 0, 4);
	make_qp(&qp, &cq, &cq);
	c_cq = cq_command(&spare, dev.max_cq - 1, 1);
	c_qp = qp_command(&other, &cq, &cq);
	d_qp.qpn = qp.qpn;
	q_qp.qpn = d_qp.qpn;
	m_qp.qpn = d_qp.qpn;
	mr_revoke.key[0] = make_mr(PD, 0, take(PAGE), PAGE);
	mr_query.key = mr_revoke.key[0];
	windows.key = mr_revoke.key[0];
#define TRY(cmd, field)							\
	for (i = 0; i < sizeof((cmd).field); i++)			\
		reserved(#cmd "." #field, &(cmd), sizeof(cmd),		\
			 offsetof(__typeof__(cmd), field) + i)
#define BEHIND(cmd)							\
	for (i = sizeof(cmd); i < MOOR_CMD_SIZE; i++)			\
		reserved("behind " #cmd, &(cmd), sizeof(cmd), i)
	TRY(hdr, reserved1);
	TRY(hdr, reserved2);
	TRY(eq, hdr.reserved1);
	TRY(eq, reserved1);
	TRY(d_eq, reserved1);
	TRY(c_cq, hdr.reserved2);
	TRY(c_cq, reserved1);
	TRY(c_cq, ring.reserved1);
	TRY(d_cq, reserved1);
	TRY(r_cq, reserved1);
	TRY(r_cq, ring.reserved1);
	TRY(c_qp, srqn);
	TRY(c_qp, sq.reserved1);
	TRY(c_qp, rq.reserved1);
	TRY(c_qp, xrcd);
	TRY(c_qp, reserved1);
	TRY(m_qp, reserved1);
	TRY(q_qp, reserved1);
	TRY(d_qp, reserved1);
	TRY(gid, reserved1);
	TRY(mr_query, reserved1);
	TRY(mr_revoke, reserved1);
	BEHIND(hdr);
	BEHIND(eq);
	BEHIND(d_eq);
	BEHIND(c_cq);
	BEHIND(d_cq);
	BEHIND(r_cq);
	BEHIND(c_qp);
	BEHIND(m_qp);
	BEHIND(q_qp);
	BEHIND(d_qp);
	BEHIND(gid);
	BEHIND(mr_query);
	BEHIND(mr_revoke);
	if (dev.features & MOOR_FEATURE_ODP) {
		TRY(invalidate, reserved1);
		BEHIND(invalidate);
		TRY(response, reserved1);
		BEHIND(response);
	}
	if (dev.features & MOOR_FEATURE_CQ_MODERATION)
		BEHIND(m_cq);
	if (dev.features & (MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B))
		BEHIND(windows);
	if (dev.features & MOOR_FEATURE_UD) {
		TRY(filter, reserved1);
		BEHIND(filter);
		filter.hdr.opcode = MOOR_CMD_DETACH_FILTER;
		TRY(filter, reserved1);
		BEHIND(filter);
	}
	if (dev.features & MOOR_FEATURE_SRQ) {
		TRY(c_srq, reserved1);
		TRY(c_srq, ring.reserved1);
		TRY(c_srq, reserved2);
		BEHIND(c_srq);
		TRY(m_srq, reserved1);
		TRY(m_srq, ring.reserved1);
		BEHIND(m_srq);
		TRY(q_srq, reserved1);
		BEHIND(q_srq);
		TRY(d_srq, reserved1);
		BEHIND(d_srq);
	}
	reserved("the last byte", &hdr, sizeof(hdr), MOOR_CMD_SIZE - 1);
#undef BEHIND
#undef TRY
	about("before other mistakes");
	q_qp.qpn = ~0u;
	q_qp.reserved1 = 1;
	refused(q_qp, MOOR_CMD_BAD_RESERVED, reserved1, "QUERY_QP");
	q_qp.qpn = qp.qpn;
	q_qp.reserved1 = 0;
	about("they have changed nothing");
	must(mr_query);
	must(q_qp);
	must(eq);
	must(c_qp);
	if (dev.max_cq > 1)
		must(c_cq);
}

TEST_CASE(interrupt, "vector 0 is raised when slot 1 has changed, and once for it",
	  "CMD-19", 0)
{
	unsigned int i;

	settle();
	interrupts(MOOR_VECTOR_CMD);
	nop();
	settle();
	expect(!interrupts(MOOR_VECTOR_CMD), "unasked");
	for (i = 1; i < 5; i++) {
		about("request %u", i);
		store_slot(MOOR_DB_SLOT_CPL_ARM, i % 2 ? ~0ull - i : i);
		nop();
		expect(wait_until(interrupts(MOOR_VECTOR_CMD) == 1),
		       "no interrupt");
		nop();
		nop();
		settle();
		expect(!interrupts(MOOR_VECTOR_CMD), "a second one");
	}
}

TEST_CASE(interrupt_race, "a completion that the last look did not see raises vector 0",
	  "CMD-38 CMD-20", 0)
{
	/* With a vfio-user message per store the completion is always there before. */
	bool early = !bar_is_mapped(MOOR_BAR_DB, 0);
	struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };
	struct moor_cpl cpl;
	unsigned int i;

	settle();
	for (i = 1; i <= 2000; i++) {
		interrupts(MOOR_VECTOR_CMD);
		if (early)
			store_slot(MOOR_DB_SLOT_CPL_ARM, i);
		issue(&cmd, sizeof(cmd));
		if (!early)
			store_slot(MOOR_DB_SLOT_CPL_ARM, i);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (!early && poll_completion(&cpl))
			continue;
		if (!expect(wait_until(interrupts(MOOR_VECTOR_CMD)),
			    "round %u: no interrupt", i))
			return;
		wait_completion(&cpl);
	}
}

TEST_CASE(interrupt_shared, "an event on vector 0 does not answer the request",
	  "CMD-38 CMD-19", 0)
{
	struct moor_cmd_destroy_eq cmd = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_ASYNC,
	};
	struct pair p;

	must(cmd);
	make_eq(MOOR_EQ_ASYNC, LOG_EQE, MOOR_VECTOR_CMD);
	make_pair(&p);
	settle();
	interrupts(MOOR_VECTOR_CMD);
	store_slot(MOOR_DB_SLOT_CPL_ARM, 1);
	post_recv(&p.qp[1], 1, p.buf[1], 64, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 2, .remote = p.buf[1],
		.rkey = p.key[1] ^ 1, SGE(p.buf[0], 64, p.key[0]),
	});
	expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
	expect(wait_until(interrupts(MOOR_VECTOR_CMD)), "none for the event");
	nop();
	expect(wait_until(interrupts(MOOR_VECTOR_CMD)), "none for the completion");
}

TEST_CASE(producer_too_far, "a producer index more than a ring ahead is fatal",
	  "CMD-6 ERR-1 ERR-2 ERR-3 ERR-12 EV-15", 0)
{
	static const uint64_t ahead[] = { 1, 100, 1u << 31 };
	unsigned int i;

	for (i = 0; i < 3; i++) {
		uint32_t size = 1u << reg_read(MOOR_REG_CMD_LOG_SIZE);
		struct moor_eqe eqe;
		uint64_t slot;

		about("%llu beyond the ring", (unsigned long long)ahead[i]);
		settle();
		slot = bar_read64(MOOR_BAR_DB, 0);
		ring_slot(MOOR_DB_SLOT_CMD_PRODUCER,
			  (uint32_t)(slot + size + ahead[i]));
		need(wait_until(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL),
		     "STATUS is 0x%x", reg_read(MOOR_REG_STATUS));
		expect(reg_read(MOOR_REG_FATAL_CODE) == MOOR_FATAL_CMD_RING,
		       "FATAL_CODE is %u", reg_read(MOOR_REG_FATAL_CODE));
		expect(next_event(MOOR_EQ_ASYNC, &eqe) &&
		       eqe.type == MOOR_EVENT_DEVICE_FATAL &&
		       eqe.number == MOOR_FATAL_CMD_RING, "no event says so");
		expect(reg_read(MOOR_REG_MAGIC) == MOOR_MAGIC &&
		       reg_read64(MOOR_REG_CLOCK), "registers do not answer");
		host_begin();
	}
}
