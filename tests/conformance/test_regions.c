// SPDX-License-Identifier: GPL-2.0
/* The context table, keys, the null MR (HWI 6.1, 6.2, 6.6). */
#include <string.h>

#include "traffic.h"

/* Tries an entry as the lkey of a WRITE, which is read. */
static void try_entry(struct pair *p, const char *what,
		      const struct moor_mr_context *e, unsigned int type,
		      uint8_t syndrome)
{
	uint32_t key = take_key();

	about("%s", what);
	write_entry(key, e, type);
	expect_local(p, MOOR_WQE_WRITE, key, e->iova, 8, syndrome);
}

TEST_CASE(entry_form, "an entry with a field that is out of range is none",
	  "MR-3 MR-14 ACC-3 VER-3 XLT-2 XLT-7 RSV-2", 0)
{
	struct moor_mr_context good, e;
	struct pair p;

	make_pair(&p);
	good = mr_entry(PD, ALL_RIGHTS, p.buf[0], PAGE);
	try_entry(&p, "a good entry", &good, 1, 0);
#define BAD(what, change)						\
	do {								\
		e = good;						\
		change;							\
		try_entry(&p, what, &e, MOOR_MRC_TYPE_MR, MOOR_SYN_KEY);\
	} while (0)
	BAD("length 0", e.length = 0);
	BAD("iova + length - 1 wraps", e.iova = ~0ull - PAGE + 2);
	BAD("a PD of 25 bits", e.pd |= 1u << 24);
	BAD("a PD of 32 bits", e.pd |= 1u << 31);
	/* A later minor version may have such rights (VER-8). */
	if (dev.minor <= MOOR_HW_VERSION_MINOR) {
		BAD("right 7", e.access |= 1u << 7);
		BAD("right 10", e.access |= 1u << 10);
		BAD("right 31", e.access |= 1u << 31);
	}
	BAD("max_pages of an MR", e.max_pages = 1);
	BAD("offset + length - 1 wraps", e.xlat.offset = ~0ull - PAGE + 2);
	BAD("reserved byte of the translation", e.xlat.reserved1 = 1);
	BAD("memory 3", e.xlat.memory = 3);
	BAD("memory 255", e.xlat.memory = 255);
	BAD("entries of host memory", e.xlat.entries = 1);
	BAD("more than MAX_MR_SIZE",
	    (e.iova = 0, e.length = dev.max_mr_size + 1, e.xlat.offset = 0));
	BAD("right 6, ON_DEMAND", e.access |= 1u << 6);
	BAD("memory 2, a gather list", (e.xlat.memory = 2, e.xlat.entries = 1));
	BAD("6 levels", e.xlat.levels = 6);
	BAD("page_shift 11", e.xlat.page_shift = 11);
#undef BAD
	e = good;
	e.access |= ALL_FLUSH;
	try_entry(&p, "rights 8 and 9", &e, MOOR_MRC_TYPE_MR, 0);
	e = good;
	e.iova = ~0ull - PAGE + 1;
	try_entry(&p, "the last page there is", &e, MOOR_MRC_TYPE_MR, 0);
}

TEST_CASE(valid_word, "types that there are not, and reserved bits of the valid word",
	  "MR-3 MR-4 ACC-3 VER-3", 0)
{
	struct moor_mr_context good;
	struct pair p;
	unsigned int bit;

	make_pair(&p);
	good = mr_entry(PD, ALL_RIGHTS, p.buf[0], PAGE);
	try_entry(&p, "INVALID", &good, MOOR_MRC_TYPE_INVALID, MOOR_SYN_KEY);
	if (dev.minor <= MOOR_HW_VERSION_MINOR) {
		try_entry(&p, "type 6", &good, 6, MOOR_SYN_KEY);
		try_entry(&p, "type 255", &good, 255, MOOR_SYN_KEY);
	}
	for (bit = 16; bit < 32; bit++) {
		uint32_t key = take_key();

		about("bit %u", bit);
		write_entry(key, &good, MOOR_MRC_TYPE_MR);
		write_valid(key, (uint64_t)key << 32 | MOOR_MRC_TYPE_MR |
			    1ull << bit);
		expect_local(&p, MOOR_WQE_WRITE, key, p.buf[0], 8, MOOR_SYN_KEY);
	}
}

TEST_CASE(ranges_of_types, "an entry of a type that is not of its range is invalid",
	  "KEY-3 MR-14 ACC-3", 0)
{
	struct moor_mr_context mr, bare = { .pd = PD };
	struct moor_cpl_mr_query out;
	struct pair p;
	unsigned int type;
	uint32_t key;

	make_pair(&p);
	mr = mr_entry(PD, ALL_RIGHTS, p.buf[0], PAGE);
	if (dev.consumer_first < dev.num_keys) {
		key = take_consumer_key();
		write_entry(key, &mr, MOOR_MRC_TYPE_MR);
		expect_local(&p, MOOR_WQE_WRITE, key, p.buf[0], 8, MOOR_SYN_KEY);
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[0], 8, false);
		expect(query(key, &out) == MOOR_CMD_BAD_INDEX,
		       "an MR among the windows is known");
		key = take_consumer_key();
		write_entry(key, &bare, MOOR_MRC_TYPE_ALL);
		expect(query(key, &out) == MOOR_CMD_BAD_INDEX,
		       "a key for all memory among the windows is known");
	}
	for (type = MOOR_MRC_TYPE_FAST_REG; type <= MOOR_MRC_TYPE_MW_2; type++) {
		key = take_key();
		bare.max_pages = type == MOOR_MRC_TYPE_FAST_REG;
		write_entry(key, &bare, type);
		expect(query(key, &out) == MOOR_CMD_BAD_INDEX,
		       "type %u among the MRs is known", type);
	}
	/* The last entry of the MRs works like the first. */
	key = (dev.consumer_first - 1) << dev.nonce_bits | 0x77;
	write_entry(key, &mr, MOOR_MRC_TYPE_MR);
	expect_local(&p, MOOR_WQE_WRITE, key, p.buf[0], 8, 0);
}

TEST_CASE(bare_entries, "of windows and fast-registration MRs the entry says little",
	  "MR-14", HAS(MW_TYPE_1) | HAS(MW_TYPE_2B) | HAS(FAST_REG))
{
	static const struct {
		uint64_t feature;
		unsigned int type;
	} types[] = {
		{ MOOR_FEATURE_FAST_REG, MOOR_MRC_TYPE_FAST_REG },
		{ MOOR_FEATURE_MW_TYPE_1, MOOR_MRC_TYPE_MW_1 },
		{ MOOR_FEATURE_MW_TYPE_2B, MOOR_MRC_TYPE_MW_2 },
	};
	struct moor_mr_context good, e;
	struct moor_cpl_mr_query out;
	unsigned int i, j;

	for (i = 0; i < 3; i++) {
		bool fast_reg = types[i].type == MOOR_MRC_TYPE_FAST_REG;

		if (!(dev.features & types[i].feature))
			continue;
		about("type %u", types[i].type);
		good = (struct moor_mr_context){
			.pd = PD, .max_pages = fast_reg ? 16 : 0,
		};
		expect(!query(make_entry(&good, types[i].type), &out),
		       "a good one is none");
		for (j = 0; j < 6; j++) {
			e = good;
			if (j == 0)
				e.access = MOOR_ACCESS_LOCAL_WRITE;
			else if (j == 1)
				e.iova = 1;
			else if (j == 2)
				e.length = PAGE;
			else if (j == 3)
				e.xlat.root = 1;
			else if (j == 4)
				e.max_pages = !fast_reg;
			else
				e.pd |= 1u << 24;
			expect(query(make_entry(&e, types[i].type), &out) ==
			       MOOR_CMD_BAD_INDEX, "a bad one, %u, is good", j);
		}
	}
}

TEST_CASE(whole_key, "all 32 bits of a key are compared", "KEY-1 KEY-2 ACC-3", 0)
{
	struct pair p;
	unsigned int bit;

	make_pair(&p);
	for (bit = 0; bit < 32; bit++) {
		about("bit %u", bit);
		expect_local(&p, MOOR_WQE_WRITE, p.key[0] ^ 1u << bit, p.buf[0],
			     8, MOOR_SYN_KEY);
		expect_remote(&p, MOOR_WQE_WRITE, p.key[1] ^ 1u << bit, p.buf[1],
			      8, false);
	}
	about("the key itself");
	expect_local(&p, MOOR_WQE_WRITE, p.key[0], p.buf[0], 8, 0);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 8, true);
}

TEST_CASE(index_zero, "index 0 is never valid", "KEY-5", 0)
{
	struct moor_mr_context e;
	struct moor_cpl_mr_query out;
	struct pair p;

	make_pair(&p);
	e = mr_entry(PD, ALL_RIGHTS, p.buf[0], PAGE);
	write_entry(0x123, &e, MOOR_MRC_TYPE_MR);
	expect_local(&p, MOOR_WQE_WRITE, 0x123, p.buf[0], 8, MOOR_SYN_KEY);
	expect_remote(&p, MOOR_WQE_WRITE, 0x123, p.buf[0], 8, false);
	expect(query(0x123, &out) == MOOR_CMD_BAD_INDEX, "it can be queried");
}

TEST_CASE(never_written, "the device never writes the table", "MR-1 KEY-4", 0)
{
	static uint64_t before[64 * 8];
	struct moor_mr_context window = { .pd = PD };
	uint32_t last, key = 0;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	if (dev.features & MOOR_FEATURE_MW_TYPE_1)
		key = make_entry(&window, MOOR_MRC_TYPE_MW_1);
	last = key_index(p.key[1]) + 1;
	for (i = 0; i < last * 8; i++)
		before[i] = bar_read64(MOOR_BAR_MR, i * 8);
	for (i = 0; i < 8; i++)
		before[last * 8 + i] = bar_read64(MOOR_BAR_MR,
						  key_index(key) * 64ull + i * 8);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], BUF, true);
	if (key) {
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_BIND_MW,
			.bind = { .mw_key = key, .new_key = key + 1,
				  .mr_lkey = p.key[1], .addr = p.buf[1],
				  .length = PAGE,
				  .access = MOOR_ACCESS_REMOTE_WRITE },
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		revoke(key);
	}
	revoke(p.key[1]);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 8, false);
	for (i = 0; i < last * 8; i++)
		expect(bar_read64(MOOR_BAR_MR, i * 8) == before[i],
		       "entry %u, word %u", i / 8, i % 8);
	for (i = 0; i < 8; i++)
		expect(bar_read64(MOOR_BAR_MR, key_index(key) * 64ull + i * 8) ==
		       before[last * 8 + i], "the window's entry, word %u", i);
}

TEST_CASE(rights, "each right allows its own operations and no other",
	  "MR-5 ACC-8 ACC-9 FEAT-4", 0)
{
	static const uint8_t opcodes[] = { MOOR_WQE_WRITE, MOOR_WQE_READ,
					   MOOR_WQE_FETCH_ADD,
					   MOOR_WQE_CMP_SWAP };
	static const uint32_t remote[] = {
		MOOR_ACCESS_REMOTE_WRITE, MOOR_ACCESS_REMOTE_READ,
		MOOR_ACCESS_REMOTE_ATOMIC, MOOR_ACCESS_REMOTE_ATOMIC,
	};
	unsigned int ops = dev.features & MOOR_FEATURE_ATOMICS ? 4 : 2, i;
	uint32_t access, key;
	struct pair p;

	make_pair(&p);
	/* Every combination of the first five that is not contradictory. */
	for (access = 0; access < 32; access++) {
		if (access & (MOOR_ACCESS_REMOTE_WRITE |
			      MOOR_ACCESS_REMOTE_ATOMIC) &&
		    !(access & MOOR_ACCESS_LOCAL_WRITE))
			continue;
		key = make_mr(PD, access, p.buf[1], BUF);
		for (i = 0; i < ops; i++) {
			about("rights 0x%x, opcode %u", access, opcodes[i]);
			expect_remote(&p, opcodes[i], key, p.buf[1], 8,
				      access & remote[i]);
		}
		about("rights 0x%x, written locally", access);
		expect_local(&p, MOOR_WQE_READ, key, p.buf[1], 8,
			     access & MOOR_ACCESS_LOCAL_WRITE ? 0 :
			     MOOR_SYN_RIGHTS);
		about("rights 0x%x, read locally", access);
		expect_local(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, 0);
	}
}

TEST_CASE(contradictory_rights, "remote writes and atomics need LOCAL_WRITE too",
	  "MR-5 ACC-9", 0)
{
	struct pair p;
	uint32_t key;

	make_pair(&p);
	key = make_mr(PD, MOOR_ACCESS_REMOTE_WRITE, p.buf[1], BUF);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);
	if (dev.features & MOOR_FEATURE_ATOMICS) {
		key = make_mr(PD, MOOR_ACCESS_REMOTE_ATOMIC, p.buf[1], BUF);
		expect_remote(&p, MOOR_WQE_FETCH_ADD, key, p.buf[1], 8, false);
	}
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
}

TEST_CASE(local_read, "local read is always allowed", "MR-6", 0)
{
	uint32_t key;
	struct pair p;

	make_pair(&p);
	key = make_mr(PD, 0, p.buf[0], BUF);
	expect_local(&p, MOOR_WQE_WRITE, key, p.buf[0], BUF, 0);
	expect(is_filled(p.buf[1], BUF, 1), "the data has not come");
	expect_local(&p, MOOR_WQE_READ, key, p.buf[0], 1, MOOR_SYN_RIGHTS);
}

TEST_CASE(fresh_entries, "an entry is good as soon as it is written, whatever was asked before",
	  "MR-11 ORD-2 ORD-3 MR-9 REG-4", 0)
{
	struct moor_mr_context e;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	e = mr_entry(PD, ALL_RIGHTS, p.buf[1], BUF);
	for (i = 0; i < 20; i++) {
		uint32_t key = take_key();

		about("entry %u", key_index(key));
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);
		expect_local(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, MOOR_SYN_KEY);
		write_entry(key, &e, MOOR_MRC_TYPE_MR);
		if (i & 1)
			reg_read(MOOR_REG_FENCE);
		expect_local(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, 0);
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, true);
	}
}

/* ---- keys of special kinds ---- */

static void make_kernel_pair(struct pair *p)
{
	unsigned int i;

	at_least(max_mr_size, BUF);
	memset(p, 0, sizeof(*p));
	for (i = 0; i < 2; i++) {
		struct moor_cmd_create_qp cmd;

		make_cq(&p->cq[i], i, LOG_DEPTH + 1);
		cmd = qp_command(&p->qp[i], &p->cq[i], &p->cq[i]);
		p->qp[i].sq_slot = take_kernel_slot();
		p->qp[i].rq_slot = take_kernel_slot();
		cmd.flags = MOOR_QP_FLAG_KERNEL;
		cmd.sq_doorbell = p->qp[i].sq_slot;
		cmd.rq_doorbell = p->qp[i].rq_slot;
		must(cmd);
		p->buf[i] = take_filled(BUF, i + 1);
		p->key[i] = make_mr(PD, ALL_RIGHTS, p->buf[i], BUF);
	}
	connect_qp(&p->qp[0], p->qp[1].qpn);
	connect_qp(&p->qp[1], p->qp[0].qpn);
}

TEST_CASE(all_of_memory, "type ALL is all DMA addresses, for QPs with flag KERNEL alone",
	  "MR-4 MR-14 DYN-2 DYN-3 ACC-12 ACC-14 ACC-18", 0)
{
	struct moor_mr_context e = {
		.pd = PD, .access = MOOR_ACCESS_LOCAL_WRITE,
	};
	uint32_t key, others;
	struct pair user, kernel;

	make_kernel_pair(&kernel);
	key = make_entry(&e, MOOR_MRC_TYPE_ALL);
	expect_local(&kernel, MOOR_WQE_WRITE, key, kernel.buf[0] + 5, BUF - 5, 0);
	expect(is_filled(kernel.buf[1], 8, 1 + 35), "other data has come");
	expect_local(&kernel, MOOR_WQE_READ, key, kernel.buf[0], BUF, 0);
	expect_local(&kernel, MOOR_WQE_WRITE, key, NOWHERE, 8, MOOR_SYN_DMA);
	e.pd = OTHER_PD;
	others = make_entry(&e, MOOR_MRC_TYPE_ALL);
	expect_local(&kernel, MOOR_WQE_WRITE, others, kernel.buf[0], 8,
		     MOOR_SYN_PD);
	e = (struct moor_mr_context){ .pd = PD, .iova = PAGE };
	others = make_entry(&e, MOOR_MRC_TYPE_ALL);
	expect_local(&kernel, MOOR_WQE_WRITE, others, kernel.buf[0], 8,
		     MOOR_SYN_KEY);
	e = (struct moor_mr_context){ .pd = PD, .length = PAGE };
	others = make_entry(&e, MOOR_MRC_TYPE_ALL);
	expect_local(&kernel, MOOR_WQE_WRITE, others, kernel.buf[0], 8,
		     MOOR_SYN_KEY);
	about("an end beyond 2^64");
	expect_local(&kernel, MOOR_WQE_WRITE, key, ~0ull - 3, 8,
		     MOOR_SYN_BOUNDS);
	about("as an rkey");
	expect_remote(&kernel, MOOR_WQE_WRITE, key, kernel.buf[1], 8, false);
	e = (struct moor_mr_context){ .pd = PD, .access = ALL_RIGHTS };
	others = make_entry(&e, MOOR_MRC_TYPE_ALL);
	expect_remote(&kernel, MOOR_WQE_WRITE, others, kernel.buf[1] + 9, 500,
		      true);
	expect(same(kernel.buf[0], kernel.buf[1] + 9, 500), "the data");
	about(NULL);
	expect(revoke(key) == REVOKED, "it is not revoked");
	expect_local(&kernel, MOOR_WQE_WRITE, key, kernel.buf[0], 8,
		     MOOR_SYN_KEY);

	host_begin();
	make_pair(&user);
	e = (struct moor_mr_context){
		.pd = PD, .access = MOOR_ACCESS_LOCAL_WRITE,
	};
	key = make_entry(&e, MOOR_MRC_TYPE_ALL);
	expect_local(&user, MOOR_WQE_WRITE, key, user.buf[0], 8, MOOR_SYN_KEY);
	expect_local(&user, MOOR_WQE_READ, key, user.buf[0], 8, MOOR_SYN_KEY);
	about("before its PD and rights are looked at");
	e = (struct moor_mr_context){ .pd = OTHER_PD };
	key = make_entry(&e, MOOR_MRC_TYPE_ALL);
	expect_local(&user, MOOR_WQE_READ, key, user.buf[0], 8, MOOR_SYN_KEY);
}

TEST_CASE(null_mr, "the null MR reads as zeros and swallows writes, without DMA",
	  "NUL-1", 0)
{
	static const uint64_t places[] = { 0, 1, 1ull << 40, ~0ull - 63 };
	const uint32_t whole = dev.max_msg_size < BUF ? dev.max_msg_size : BUF;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 4; i++) {
		about("at 0x%llx", (unsigned long long)places[i]);
		fill(p.buf[1], BUF, 2);
		expect_local(&p, MOOR_WQE_WRITE, dev.null_lkey, places[i], 64, 0);
		expect(is_all(p.buf[1], 64, 0), "it does not read as zeros");
		expect(*(uint8_t *)at(p.buf[1] + 64), "or as too many");
		expect_local(&p, MOOR_WQE_READ, dev.null_lkey, places[i], 64, 0);
	}
	about("a whole buffer");
	expect_local(&p, MOOR_WQE_WRITE, dev.null_lkey, 0, whole, 0);
	expect(is_all(p.buf[1], whole, 0), "it does not read as zeros");

	about("as a receive");
	post_recv(&p.qp[1], 1, 0, 4000, dev.null_lkey);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, SGE(p.buf[0], 4000, p.key[0]),
	});
	expect(expect_cqe(&p.cq[1], 1, MOOR_WC_SUCCESS, 0).byte_len == 4000,
	       "the length");
}

TEST_CASE(null_mr_between, "the null MR between two others takes its part of the message", "NUL-1",
	  0)
{
	struct moor_cqe cqe;
	struct pair p;

	at_least(max_sge, 3);
	make_pair(&p);
	fill(p.buf[1], BUF, 7);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_READ, .remote = p.buf[1], .rkey = p.key[1],
		.num_sge = 3, .sge = {
			{ .addr = p.buf[0], .length = 100, .lkey = p.key[0] },
			{ .addr = 5, .length = 1000, .lkey = dev.null_lkey },
			{ .addr = p.buf[0] + 100, .length = 50, .lkey = p.key[0] },
		},
	});
	cqe = wait_cqe(&p.cq[0]);
	expect(!cqe.status && is_filled(p.buf[0], 100, 7) &&
	       same(p.buf[0] + 100, p.buf[1] + 1100, 50), "READ: status %u",
	       cqe.status);
}

TEST_CASE(null_mr_elsewhere, "the null MR is good as an lkey only", "NUL-2 NUL-1", 0)
{
	struct moor_mr_context e;
	struct moor_cpl_mr_query out;
	struct pair p;

	make_pair(&p);
	expect_remote(&p, MOOR_WQE_WRITE, dev.null_lkey, 0, 8, false);
	expect_remote(&p, MOOR_WQE_READ, dev.null_lkey, 0, 8, false);
	expect(revoke(dev.null_lkey) == UNKNOWN, "it can be revoked");
	expect_local(&p, MOOR_WQE_WRITE, dev.null_lkey, 0, 8, 0);

	/* The entry is ignored. */
	e = mr_entry(OTHER_PD, ALL_RIGHTS, p.buf[0], PAGE);
	write_entry(dev.null_lkey, &e, MOOR_MRC_TYPE_MR);
	fill(p.buf[1], BUF, 2);
	expect_local(&p, MOOR_WQE_WRITE, dev.null_lkey, p.buf[0], 64, 0);
	expect(is_all(p.buf[1], 64, 0), "its entry counts");
	expect_remote(&p, MOOR_WQE_WRITE, dev.null_lkey, p.buf[0], 8, false);
	expect(revoke(dev.null_lkey) == UNKNOWN, "now it can be revoked");
	expect(query(dev.null_lkey, &out) == MOOR_CMD_BAD_INDEX, "MR_QUERY");
	if (dev.features & (MOOR_FEATURE_MW_TYPE_2B | MOOR_FEATURE_FAST_REG)) {
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_LOCAL_INV, .inv_key = dev.null_lkey,
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_MW_BIND_ERR, MOOR_SYN_KEY);
		reconnect(&p);
	}
	if (dev.features & MOOR_FEATURE_MW_TYPE_1) {
		uint32_t window = make_window(PD, MOOR_MRC_TYPE_MW_1);

		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_BIND_MW,
			.bind = { .mw_key = window, .new_key = window + 1,
				  .mr_lkey = dev.null_lkey, .length = 8,
				  .access = MOOR_ACCESS_REMOTE_READ },
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_MW_BIND_ERR, MOOR_SYN_KEY);
	}
}
