// SPDX-License-Identifier: GPL-2.0
/* Dynamic state, and the fence that takes a key away (HWI 6.4, 6.5). */
#include <string.h>

#include "traffic.h"

static struct moor_cpl_mr_query must_query(uint32_t key)
{
	struct moor_cpl_mr_query out;
	uint8_t status = query(key, &out);

	need(!status, "MR_QUERY: status %u", status);
	return out;
}

static void expect_state(uint32_t key, enum moor_mr_state state)
{
	struct moor_cpl_mr_query out = must_query(key);

	expect(out.state == state, "state %u where %u was due", out.state, state);
}

TEST_CASE(query_mr, "MR_QUERY tells what there is",
	  "CMD-23 CMD-30 CMD-31 DYN-2 VER-4", 0)
{
	struct moor_cmd_mr_query cmd = { .hdr.opcode = MOOR_CMD_MR_QUERY };
	uint64_t buf = take(BUF);
	uint32_t key = make_mr(PD, ALL_RIGHTS, buf + 7, 4000);
	struct moor_cpl_mr_query out = must_query(key);

	expect(out.state == MOOR_MR_STATE_VALID && out.type == MOOR_MRC_TYPE_MR &&
	       out.key == key && !out.windows && !out.mr_key && !out.qpn &&
	       out.access == ALL_RIGHTS && out.iova == buf + 7 &&
	       out.length == 4000,
	       "state %u, type %u, key 0x%x, windows %u, access 0x%x",
	       out.state, out.type, out.key, out.windows, out.access);
	cmd.key = key ^ 1;
	refused(cmd, MOOR_CMD_BAD_INDEX, key, "another nonce");
	cmd.key = take_key();
	refused(cmd, MOOR_CMD_BAD_INDEX, key, "no entry");
	cmd.key = 0;
	refused(cmd, MOOR_CMD_BAD_INDEX, key, "index 0");
	cmd.key = ~0u;
	refused(cmd, MOOR_CMD_BAD_INDEX, key, "the last index");
	clear_entry(key);
	cmd.key = key;
	revoke(key);
	refused(cmd, MOOR_CMD_BAD_INDEX, key, "a cleared entry");
}

TEST_CASE(revoked, "a revoked key is dead, and stays so until its valid word changes",
	  "REV-4 DYN-3 DYN-13 DYN-14 ACC-3 CMD-22", 0)
{
	struct moor_mr_context e;
	struct pair p;
	uint32_t key;

	make_pair(&p);
	key = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, true);
	expect_local(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, 0);
	expect(revoke(key) == REVOKED, "it is not revoked");
	expect_state(key, MOOR_MR_STATE_REVOKED);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);
	expect_remote(&p, MOOR_WQE_READ, key, p.buf[1], 8, false);
	expect_local(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, MOOR_SYN_KEY);
	expect_local(&p, MOOR_WQE_READ, key, p.buf[1], 8, MOOR_SYN_KEY);
	expect(revoke(key) == UNKNOWN, "it can be revoked twice");
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 8, true);

	about("another generation");
	e = mr_entry(PD, ALL_RIGHTS, p.buf[1], BUF);
	write_entry(key, &e, MOOR_MRC_TYPE_MR);
	expect_state(key, MOOR_MR_STATE_VALID);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, true);
	expect(revoke(key) == REVOKED, "it is not revoked");
	clear_entry(key);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);

	about("another key of the same index");
	write_entry(key ^ 1, &e, MOOR_MRC_TYPE_MR);
	expect_remote(&p, MOOR_WQE_WRITE, key ^ 1, p.buf[1], 8, true);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);
}

TEST_CASE(back_again, "the valid word that was revoked stays so when it comes back",
	  "DYN-14 DYN-13 REV-4", 0)
{
	struct pair p;
	uint32_t key;
	uint64_t valid;
	unsigned int i;

	make_pair(&p);
	key = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);
	valid = bar_read64(MOOR_BAR_MR, key_index(key) * sizeof(struct moor_mr_context));
	expect(revoke(key) == REVOKED, "it is not revoked");
	for (i = 0; i < 4; i++) {
		static const char * const before[] = {
			"at once", "behind 0", "behind an INVALID of that key",
			"behind an INVALID of another",
		};

		about("%s", before[i]);
		if (i == 1)
			clear_entry(key);
		else if (i > 1)
			write_valid(key, (valid & ~0xffull) ^ (uint64_t)(i == 3) << 32);
		if (i)
			expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);
		write_valid(key, valid);
		expect_state(key, MOOR_MR_STATE_REVOKED);
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);
		expect_local(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, MOOR_SYN_KEY);
		expect(revoke(key) == UNKNOWN, "it can be revoked again");
	}
}

TEST_CASE(rewritten, "the same key with a new body works, and with that alone",
	  "REV-9 DYN-1 DYN-13 XLT-11", 0)
{
	struct moor_mr_context e;
	uint64_t other, table;
	struct pair p;
	uint32_t key;
	unsigned int i;

	make_pair(&p);
	other = take_filled(BUF, 5);
	table = take(PAGE);
	key = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);
	for (i = 0; i < 6; i++) {
		uint64_t now = i & 1 ? other : p.buf[1];
		uint64_t before = i & 1 ? p.buf[1] : other;

		about("round %u", i);
		e = mr_entry(PD, ALL_RIGHTS, p.buf[1], PAGE);
		e.xlat = flat(now);
		if (i > 2) {
			*(uint64_t *)at(table) = now | MOOR_PTE_PRESENT |
						 MOOR_PTE_LEAF |
						 MOOR_PTE_WRITABLE;
			e.xlat = (struct moor_xlat){
				.root = table | MOOR_PTE_PRESENT, .levels = 1,
				.page_shift = 12,
			};
		}
		expect(revoke(key) == REVOKED, "it is not revoked");
		write_entry(key, &e, MOOR_MRC_TYPE_MR);
		fill(p.buf[0], PAGE, i);
		fill(before, PAGE, 77);
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], PAGE, true);
		expect(is_filled(now, PAGE, i) && is_filled(before, PAGE, 77),
		       "the data is in the wrong place");
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], PAGE + 1, false);
		expect_local(&p, MOOR_WQE_READ, key, p.buf[1], PAGE, 0);
	}
}

TEST_CASE(batch, "MR_REVOKE takes 1 to 24 keys, each for itself",
	  "REV-1 REV-3 CMD-22 CMD-11 CMD-10 CMD-30", 0)
{
	struct moor_cmd_mr_revoke cmd = {
		.hdr.opcode = MOOR_CMD_MR_REVOKE, .count = MOOR_REVOKE_MAX_KEYS,
	};
	uint32_t wrong = 1u << 3 | 1u << 17 | 1u << 23;
	struct moor_cpl_mr_revoke out;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < MOOR_REVOKE_MAX_KEYS; i++)
		cmd.key[i] = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF) ^
			     (wrong >> i & 1);
	must(cmd);
	memcpy(&out, answer.out, sizeof(out));
	expect(out.unknown == wrong && !out.busy, "unknown 0x%x, busy 0x%x",
	       out.unknown, out.busy);
	for (i = 0; i < MOOR_REVOKE_MAX_KEYS; i++) {
		about("key %u", i);
		expect_state(cmd.key[i] ^ (wrong >> i & 1), wrong >> i & 1 ?
			     MOOR_MR_STATE_VALID : MOOR_MR_STATE_REVOKED);
	}
	about(NULL);
	cmd.count = 0;
	memset(cmd.key, 0, sizeof(cmd.key));
	refused(cmd, MOOR_CMD_BAD_PARAM, count, "no keys");
	cmd.count = MOOR_REVOKE_MAX_KEYS + 1;
	refused(cmd, MOOR_CMD_BAD_PARAM, count, "25 keys");
	cmd.count = ~0u;
	refused(cmd, MOOR_CMD_BAD_PARAM, count, "2^32 - 1 keys");
	cmd.count = 1;
	cmd.key[0] = p.key[1];
	cmd.key[1] = p.key[0];
	refused(cmd, MOOR_CMD_BAD_RESERVED, key[1], "a key beyond the count");
	expect_state(p.key[1], MOOR_MR_STATE_VALID);
}

static void bind(struct pair *p, uint32_t window, uint32_t mr, uint64_t addr,
		 uint64_t length)
{
	post_send(&p->qp[1], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW,
		.bind = { .mw_key = window, .new_key = window, .mr_lkey = mr,
			  .addr = addr, .length = length,
			  .access = length ? MOOR_ACCESS_REMOTE_WRITE : 0 },
	});
	expect_cqe(&p->cq[1], 0, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(busy, "with a window bound, a revoke changes nothing and says so",
	  "REV-2 DYN-4 DYN-12 REV-4", HAS(MW_TYPE_1))
{
	struct moor_cmd_mr_revoke cmd = {
		.hdr.opcode = MOOR_CMD_MR_REVOKE, .count = 3,
	};
	struct moor_cpl_mr_revoke out;
	uint32_t window, plain;
	struct pair p;

	make_pair(&p);
	window = make_window(PD, MOOR_MRC_TYPE_MW_1);
	plain = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);
	bind(&p, window, p.key[1], p.buf[1], PAGE);
	cmd.key[0] = plain ^ 1;
	cmd.key[1] = p.key[1];
	cmd.key[2] = plain;
	must(cmd);
	memcpy(&out, answer.out, sizeof(out));
	expect(out.busy == 2 && out.unknown == 1, "busy 0x%x, unknown 0x%x",
	       out.busy, out.unknown);
	expect_state(p.key[1], MOOR_MR_STATE_VALID);
	expect_state(plain, MOOR_MR_STATE_REVOKED);
	expect(must_query(p.key[1]).windows == 1, "it counts %u windows",
	       must_query(p.key[1]).windows);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 8, true);
	expect_remote(&p, MOOR_WQE_WRITE, window, p.buf[1], 8, true);

	about("the window first");
	expect(revoke(window) == REVOKED, "a window that is bound stays");
	expect_state(window, MOOR_MR_STATE_REVOKED);
	expect_remote(&p, MOOR_WQE_WRITE, window, p.buf[1], 8, false);
	expect(!must_query(p.key[1]).windows, "it is still counted");
	expect(revoke(p.key[1]) == REVOKED, "then the MR stays");
}

TEST_CASE(order, "the keys of a revoke are dealt with in their order",
	  "REV-11 REV-3", HAS(MW_TYPE_1))
{
	struct moor_cmd_mr_revoke cmd = {
		.hdr.opcode = MOOR_CMD_MR_REVOKE, .count = 4,
	};
	struct moor_cpl_mr_revoke out;
	struct pair p;

	make_pair(&p);
	about("the window before its MR, and both twice");
	cmd.key[2] = make_window(PD, MOOR_MRC_TYPE_MW_1);
	cmd.key[0] = cmd.key[2];
	cmd.key[3] = p.key[1];
	cmd.key[1] = cmd.key[3];
	bind(&p, cmd.key[0], p.key[1], p.buf[1], PAGE);
	must(cmd);
	memcpy(&out, answer.out, sizeof(out));
	expect(!out.busy && out.unknown == 0xc, "busy 0x%x, unknown 0x%x",
	       out.busy, out.unknown);
	cmd.key[0] = p.key[0];
	cmd.key[1] = make_window(PD, MOOR_MRC_TYPE_MW_1);
	about("the MR before its window, and once more");
	cmd.count = 3;
	cmd.key[2] = cmd.key[0];
	cmd.key[3] = 0;
	bind(&p, cmd.key[1], p.key[0], p.buf[0], PAGE);
	must(cmd);
	memcpy(&out, answer.out, sizeof(out));
	expect(out.busy == 1 && !out.unknown, "busy 0x%x, unknown 0x%x", out.busy,
	       out.unknown);
	expect_state(p.key[0], MOOR_MR_STATE_REVOKED);
}

TEST_CASE(consumer_byte, "of a window any consumer byte will do for a revoke",
	  "REV-1 KEY-4 CMD-31", HAS(MW_TYPE_1))
{
	uint32_t window = make_window(PD, MOOR_MRC_TYPE_MW_1);

	expect(revoke(window ^ 0x100) == UNKNOWN, "another nonce");
	expect(must_query(window ^ 0xff).key == window, "MR_QUERY");
	expect(revoke(window ^ 0x5a) == REVOKED, "another byte");
}

TEST_CASE(fence, "what was under way has been done when the fence is over",
	  "REV-5 REV-6 ORD-1 ORD-7 ORD-8", 0)
{
	struct pair p;
	unsigned int round, i;
	struct moor_cqe cqe;

	make_pair(&p);
	for (round = 0; round < 20; round++) {
		uint32_t key = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);

		for (i = 0; i < 16; i++)
			put_send(&p.qp[0], &(struct send_wr){
				.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
				.rkey = key, SGE(p.buf[0], BUF, p.key[0]),
			});
		ring_send(&p.qp[0]);
		for (i = 0; i < round * 50; i++)
			peek_cqe(&p.cq[0], &cqe);
		expect(revoke(key) == REVOKED, "it is not revoked");
		memset(at(p.buf[1]), 0xdd, BUF);
		for (i = 0; i < 16; i++) {
			cqe = wait_cqe(&p.cq[0]);
			expect(cqe.status == MOOR_WC_SUCCESS ||
			       cqe.status == MOOR_WC_REM_ACCESS_ERR ||
			       cqe.status == MOOR_WC_WR_FLUSH_ERR, "status %u",
			       cqe.status);
		}
		if (!expect(is_all(p.buf[1], BUF, 0xdd),
			    "round %u: written after the fence", round))
			return;
		reconnect(&p);
	}
}

TEST_CASE(message_across, "a message never meets two registrations", "ACC-15", 0)
{
	const uint32_t len = longest(8u << 20);
	unsigned int round, mixed = 0;
	struct moor_mr_context e;
	uint64_t big, old, new;
	uint32_t key, source;
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	big = take_filled(len, 3);
	old = take(len);
	new = take(len);
	source = make_mr(PD, ALL_RIGHTS, big, len);
	for (round = 0; round < 10; round++) {
		e = mr_entry(PD, ALL_RIGHTS, old, len);
		key = make_entry(&e, MOOR_MRC_TYPE_MR);
		memset(at(old), 0, len);
		memset(at(new), 0, len);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = old, .rkey = key,
			SGE(big, len, source),
		});
		wait_until(((volatile uint8_t *)at(old))[round * len / 20]);
		revoke(key);
		e.xlat = flat(new);
		write_entry(key, &e, MOOR_MRC_TYPE_MR);
		cqe = wait_cqe(&p.cq[0]);
		if (cqe.status) {
			mixed++;
			expect(cqe.status == MOOR_WC_REM_ACCESS_ERR, "status %u",
			       cqe.status);
			reconnect(&p);
		} else {
			expect(same(big, old, len), "success, and other data");
		}
		if (!expect(is_all(new, len, 0), "round %u: it goes on elsewhere",
			    round))
			return;
		revoke(key);
	}
	/* Whether a message was cut half-way depends on timing. */
	(void)mixed;
}
