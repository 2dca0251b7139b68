// SPDX-License-Identifier: GPL-2.0
/* The checks of every access, and their order (HWI 6.3). */
#include <string.h>

#include "platform.h"
#include "traffic.h"

/* An MR in the middle of a buffer. */
#define FIRST	(4 * PAGE + 100)
#define LEN	5000u

TEST_CASE(bounds, "the first and the last byte, and none beside them",
	  "ACC-1 ACC-12 ACC-17 ERR-7", 0)
{
	static const struct {
		int64_t shift;
		uint32_t len;
		bool inside;
	} ranges[] = {
		{ 0, LEN, true }, { 0, 1, true }, { LEN - 1, 1, true },
		{ 1, LEN - 1, true }, { 0, LEN - 1, true },
		{ -1, 1, false }, { -1, 2, false }, { -1, LEN + 2, false },
		{ LEN, 1, false }, { LEN - 1, 2, false }, { 0, LEN + 1, false },
		{ 1, LEN, false }, { -4096, 8, false }, { LEN + 4096, 8, false },
		{ 1ll << 32, 8, false }, { -(1ll << 32), 8, false },
		{ INT64_MIN, 8, false }, { INT64_MIN + 16, LEN, false },
		{ -16, 32, false }, { -8, BUF - LEN, false },
	};
	static uint8_t before[BUF];
	struct pair p;
	unsigned int i;
	uint32_t key;
	uint64_t iova;

	make_pair(&p);
	memcpy(before, at(p.buf[1]), BUF);
	iova = p.buf[1] + FIRST;
	key = make_mr(PD, ALL_RIGHTS, iova, LEN);
	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		about("%u bytes at %lld", ranges[i].len, (long long)ranges[i].shift);
		fill(p.buf[1], BUF, 2);
		expect_remote(&p, MOOR_WQE_WRITE, key, iova + ranges[i].shift,
			      ranges[i].len, ranges[i].inside);
		expect(!memcmp(at(p.buf[1]), before, FIRST) &&
		       !memcmp(at(iova + LEN), before + FIRST + LEN,
			       BUF - FIRST - LEN), "bytes beside it are written");
		expect(ranges[i].inside || !memcmp(at(p.buf[1]), before, BUF),
		       "a refused WRITE has placed something");
		expect_remote(&p, MOOR_WQE_READ, key, iova + ranges[i].shift,
			      ranges[i].len, ranges[i].inside);
		expect_local(&p, MOOR_WQE_WRITE, key, iova + ranges[i].shift,
			     ranges[i].len, ranges[i].inside ? 0 :
			     MOOR_SYN_BOUNDS);
		expect_local(&p, MOOR_WQE_READ, key, iova + ranges[i].shift,
			     ranges[i].len, ranges[i].inside ? 0 :
			     MOOR_SYN_BOUNDS);
	}
}

TEST_CASE(wrapping_bounds, "bounds are computed without wrap-around", "ACC-12", 0)
{
	/* The MR's own addresses: at both ends of the address space. */
	static const uint64_t iovas[] = { 0, ~0ull - LEN + 1 };
	struct moor_mr_context e;
	struct pair p;
	unsigned int i;
	uint32_t key;

	make_pair(&p);
	for (i = 0; i < 2; i++) {
		about("iova 0x%llx", (unsigned long long)iovas[i]);
		e = mr_entry(PD, ALL_RIGHTS, p.buf[1] + PAGE, LEN);
		e.iova = iovas[i];
		key = make_entry(&e, MOOR_MRC_TYPE_MR);
		expect_remote(&p, MOOR_WQE_WRITE, key, iovas[i], LEN, true);
		expect_remote(&p, MOOR_WQE_WRITE, key, iovas[i] + LEN - 1, 1,
			      true);
		expect_remote(&p, MOOR_WQE_WRITE, key, iovas[i] + LEN - 1, 2,
			      false);
		expect_remote(&p, MOOR_WQE_WRITE, key, iovas[i] - 1, 2, false);
		expect_remote(&p, MOOR_WQE_WRITE, key, iovas[i] - 16, LEN + 16,
			      false);
		expect_local(&p, MOOR_WQE_WRITE, key, iovas[i] + 1, LEN,
			     MOOR_SYN_BOUNDS);
		expect_local(&p, MOOR_WQE_READ, key, iovas[i] - 1, 1,
			     MOOR_SYN_BOUNDS);
	}
}

TEST_CASE(domains, "the PD of the entry is the QP's", "ACC-7 CMD-27", 0)
{
	static const uint32_t pds[] = { OTHER_PD, 0, PD ^ 0x800000, 0xffffff };
	struct pair p;
	unsigned int i;
	uint32_t key;

	make_pair(&p);
	for (i = 0; i < 4; i++) {
		about("PD 0x%x", pds[i]);
		key = make_mr(pds[i], ALL_RIGHTS, p.buf[1], BUF);
		expect_local(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, MOOR_SYN_PD);
		expect_local(&p, MOOR_WQE_READ, key, p.buf[1], 8, MOOR_SYN_PD);
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);
		expect_remote(&p, MOOR_WQE_READ, key, p.buf[1], 8, false);
	}
}

TEST_CASE(qp_rights, "the responder's QP has to allow it too", "ACC-10", 0)
{
	static const struct {
		uint8_t opcode;
		uint8_t right;
	} ops[] = {
		{ MOOR_WQE_WRITE, MOOR_ACCESS_REMOTE_WRITE },
		{ MOOR_WQE_READ, MOOR_ACCESS_REMOTE_READ },
		{ MOOR_WQE_FETCH_ADD, MOOR_ACCESS_REMOTE_ATOMIC },
	};
	unsigned int n = dev.features & MOOR_FEATURE_ATOMICS ? 3 : 2, i, access;
	struct moor_cmd_modify_qp cmd = { .mask = MOOR_QP_ATTR_ACCESS };
	struct pair p;

	make_pair(&p);
	for (access = 0; access < 16; access += 2) {
		for (i = 0; i < n; i++) {
			about("QP 0x%x, opcode %u", access, ops[i].opcode);
			cmd.access = (uint8_t)access;
			must_modify(&p.qp[1], cmd);
			expect_remote(&p, ops[i].opcode, p.key[1], p.buf[1], 8,
				      access & ops[i].right);
		}
	}
}

TEST_CASE(zero_length, "a zero-length access touches nothing, and any key will do",
	  "ACC-11 ACC-10 WQ-13", 0)
{
	struct pair p;

	make_pair(&p);
	expect_remote(&p, MOOR_WQE_WRITE, 0xdead, NOWHERE, 0, true);
	expect_remote(&p, MOOR_WQE_READ, 0xdead, NOWHERE, 0, true);
	expect_local(&p, MOOR_WQE_WRITE, 0xdead, NOWHERE, 0, 0);
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
	about("but the QP has to allow it");
	must_modify(&p.qp[1], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_ACCESS,
	});
	expect_remote(&p, MOOR_WQE_WRITE, 0xdead, NOWHERE, 0, false);
	must_modify(&p.qp[1], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_ACCESS,
	});
	expect_remote(&p, MOOR_WQE_READ, 0xdead, NOWHERE, 0, false);
	about(NULL);

	if (dev.max_sge >= 2) {
		/* An SGE of length 0 beside others. */
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
			.rkey = p.key[1], .num_sge = 2, .sge = {
				{ .addr = NOWHERE, .length = 0, .lkey = 0xdead },
				{ .addr = p.buf[0], .length = 100,
				  .lkey = p.key[0] },
			},
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		expect(is_filled(p.buf[1], 100, 1), "the data has not come");
	}
	post_recv(&p.qp[1], 4, 0, 0, 0);
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_SEND, .wr_id = 3 });
	expect_cqe(&p.cq[0], 3, MOOR_WC_SUCCESS, 0);
	expect(!expect_cqe(&p.cq[1], 4, MOOR_WC_SUCCESS, 0).byte_len,
	       "a SEND of nothing has a length");
}

TEST_CASE(order_of_checks, "the first check that fails decides the syndrome",
	  "ACC-1 SYN-2", 0)
{
	uint64_t far = NOWHERE;
	struct pair p;
	uint32_t key;

	make_pair(&p);
	about("key before all else");
	key = make_mr(OTHER_PD, 0, far, PAGE) ^ 1;
	expect_local(&p, MOOR_WQE_READ, key, far - 1, 2 * PAGE, MOOR_SYN_KEY);
	about("PD before rights, bounds and DMA");
	expect_local(&p, MOOR_WQE_READ, key ^ 1, far - 1, 2 * PAGE, MOOR_SYN_PD);
	about("rights before bounds and DMA");
	key = make_mr(PD, ALL_REMOTE & MOOR_ACCESS_REMOTE_READ, far, PAGE);
	expect_local(&p, MOOR_WQE_READ, key, far - 1, 2 * PAGE, MOOR_SYN_RIGHTS);
	about("bounds before DMA");
	expect_local(&p, MOOR_WQE_WRITE, key, far + 1, PAGE, MOOR_SYN_BOUNDS);
	about("DMA");
	expect_local(&p, MOOR_WQE_WRITE, key, far, PAGE, MOOR_SYN_DMA);
}

TEST_CASE(unmapped, "the platform has to accept the address", "ACC-14 ERR-6 RC-3", 0)
{
	struct pair p;
	uint32_t key;

	platform_reports_writes();
	make_pair(&p);
	key = make_mr(PD, ALL_RIGHTS, NOWHERE, PAGE);
	expect_local(&p, MOOR_WQE_WRITE, key, NOWHERE, 8, MOOR_SYN_DMA);
	expect_lost(&p, MOOR_WQE_READ, NOWHERE, key, 8);
	expect_lost(&p, MOOR_WQE_WRITE, NOWHERE, key, 8);
	expect(move(&p, MOOR_WQE_READ, p.buf[0], p.key[0], NOWHERE, key, 8).status,
	       "a READ from where nothing is succeeds");
	reconnect(&p);

	about("a page taken out of the middle");
	settle();
	dma_unmap(p.buf[1] + 4 * PAGE, PAGE);
	memset(at(p.buf[1] + 4 * PAGE), 0xcc, PAGE);
	expect_lost(&p, MOOR_WQE_WRITE, p.buf[1] + 4 * PAGE, p.key[1], 64);
	expect_local(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1] + 4 * PAGE, PAGE,
		     MOOR_SYN_DMA);
	expect_lost(&p, MOOR_WQE_READ, p.buf[1] + 4 * PAGE, p.key[1], PAGE);
	expect(is_all(p.buf[1] + 4 * PAGE, PAGE, 0xcc), "it is written to");
	dma_restore();
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1] + 4 * PAGE, PAGE,
		      true);
}

TEST_CASE(direction, "memory that the platform maps for reading is not written",
	  "ACC-14 ERR-6", 0)
{
	const uint64_t iova = 0x5000000000;
	struct pair p;
	uint32_t key;

	platform_reports_writes();
	make_pair(&p);
	dma_map(iova, BUF, p.buf[1] - MEMORY_BASE, DMA_READ);
	key = make_mr(PD, ALL_RIGHTS, iova, BUF);
	expect_remote(&p, MOOR_WQE_READ, key, iova, BUF, true);
	expect(same(p.buf[0], p.buf[1], BUF), "it is not read");
	fill(p.buf[0], BUF, 9);
	expect_lost(&p, MOOR_WQE_WRITE, iova, key, 64);
	expect_lost(&p, MOOR_WQE_READ, iova, key, 64);
	expect(is_filled(p.buf[1], BUF, 2), "it is written to");
}

TEST_CASE(other_direction, "memory that the platform maps for writing is not read",
	  "ACC-14 ERR-6", 0)
{
	const uint64_t iova = 0x5000000000;
	struct pair p;
	uint32_t key;

	make_pair(&p);
	dma_map(iova, BUF, p.buf[1] - MEMORY_BASE, DMA_WRITE);
	key = make_mr(PD, ALL_RIGHTS, iova, BUF);
	expect_remote(&p, MOOR_WQE_WRITE, key, iova, BUF, true);
	expect(same(p.buf[0], p.buf[1], BUF), "it is not written");
	fill(p.buf[1], BUF, 9);
	expect_remote(&p, MOOR_WQE_READ, key, iova, 64, false);
	expect_local(&p, MOOR_WQE_WRITE, key, iova, 64, MOOR_SYN_DMA);
	expect(is_filled(p.buf[0], BUF, 1), "it is read");
}

TEST_CASE(atomic_direction, "an atomic reads and writes: the platform has to allow both",
	  "RC-26 ACC-14 ERR-6", HAS(ATOMICS))
{
	static const uint8_t opcodes[] = { MOOR_WQE_FETCH_ADD, MOOR_WQE_CMP_SWAP };
	const uint64_t iova = 0x5000000000;
	const bool reported = platform_reports_writes();
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 6; i++) {
		enum dma_way way = 1 + i % 3;

		about("opcode 0x%02x, way %u", opcodes[i / 3], way);
		dma_map(iova, PAGE, p.buf[1] - MEMORY_BASE, way);
		drop_events(MOOR_EQ_ASYNC);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = opcodes[i / 3], .remote = iova,
			.rkey = make_mr(PD, ALL_RIGHTS, iova, PAGE),
			SGE(p.buf[0], 8, p.key[0]),
			.atomic = {
				.swap_add = 1, .compare = *(uint64_t *)at(p.buf[1]),
			},
		});
		if (way == DMA_BOTH) {
			expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
			expect(!is_filled(p.buf[1], 8, 2), "it is not done");
		} else if (way == DMA_READ && !reported) {
			/* What it cannot write may be lost (ACC-19). */
			if (wait_cqe(&p.cq[0]).status)
				reconnect(&p);
			expect(is_filled(p.buf[1], 8, 2), "it is done");
		} else {
			expect_cqe(&p.cq[0], 0, MOOR_WC_REM_ACCESS_ERR, 0);
			expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
			expect(is_filled(p.buf[1], 8, 2), "it is done");
			reconnect(&p);
		}
		fill(p.buf[1], BUF, 2);
		dma_restore();
	}
}

TEST_CASE(atomic_torn, "an atomic whose bytes are out of place, and one of them is not there",
	  "RC-21 RC-26 ACC-13 ACC-14", HAS(ATOMICS))
{
	static const uint8_t opcodes[] = { MOOR_WQE_FETCH_ADD, MOOR_WQE_CMP_SWAP };
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 4; i++) {
		about("opcode 0x%02x, %s", opcodes[i / 2],
		      i & 1 ? "no translation" : "no DMA");
		drop_events(MOOR_EQ_ASYNC);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = opcodes[i / 2], .remote = TORN_WORD,
			.rkey = make_torn_word(i & 1, p.buf[1]),
			SGE(p.buf[0], 8, p.key[0]), .atomic = { .swap_add = 1 },
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_REM_ACCESS_ERR, 0);
		expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
		reconnect(&p);
	}
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
}

TEST_CASE(scattered, "what lies side by side for DMA need not in memory", "ACC-13", 0)
{
	const uint64_t iova = 0x6000000000;
	const unsigned int pages = BUF / PAGE;
	struct pair p;
	unsigned int i;
	uint32_t key;

	make_pair(&p);
	for (i = 0; i < pages; i++)
		dma_map(iova + i * PAGE, PAGE,
			p.buf[1] - MEMORY_BASE + i * 5 % pages * PAGE, DMA_BOTH);
	key = make_mr(PD, ALL_RIGHTS, iova + 3, BUF - 3);
	expect_remote(&p, MOOR_WQE_WRITE, key, iova + 3, BUF - 3, true);
	for (i = 1; i < pages; i++)
		expect(same(p.buf[0] + i * PAGE - 3,
			    p.buf[1] + i * 5 % pages * PAGE, PAGE - 3),
		       "page %u", i);
}

/* An error in each SGE of several, of a request and of a receive. */
TEST_CASE(every_sge, "each SGE is checked, not the first alone", "ACC-1 RC-2 RC-9", 0)
{
	struct moor_sge good, bad, sge[3];
	struct pair p;
	unsigned int i;

	unsigned int n = dev.max_sge < 3 ? dev.max_sge : 3;

	make_pair(&p);
	for (i = 0; i < n; i++) {
		struct send_wr wr = { .opcode = MOOR_WQE_WRITE, .num_sge = n,
				 .remote = p.buf[1], .rkey = p.key[1] };

		about("SGE %u", i);
		good = (struct moor_sge){ .addr = p.buf[0], .length = 1500,
					  .lkey = p.key[0] };
		bad = good;
		bad.lkey ^= 1;
		wr.sge[2] = good;
		wr.sge[1] = wr.sge[2];
		wr.sge[0] = wr.sge[2];
		wr.sge[i] = bad;
		post_send(&p.qp[0], wr);
		expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY);
		reconnect(&p);
		good.addr = p.buf[1];
		good.lkey = p.key[1];
		bad = good;
		bad.addr = p.buf[1] + BUF - 10;
		sge[2] = good;
		sge[1] = sge[2];
		sge[0] = sge[2];
		sge[i] = bad;
		put_recv(&p.qp[1], 8, sge, n);
		ring_recv(&p.qp[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND, SGE(p.buf[0], n * 1500, p.key[0]),
		});
		expect_cqe(&p.cq[1], 8, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_BOUNDS);
		expect_cqe(&p.cq[0], 0, MOOR_WC_REM_OP_ERR, 0);
		reconnect(&p);
	}
}
