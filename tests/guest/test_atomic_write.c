// SPDX-License-Identifier: GPL-2.0
/*
 * ATOMIC_WRITE (HWI 12.7): eight bytes from and to memory of all kinds, seen whole or
 * not at all, and what is refused. The QP is made without inline data: the operation's
 * own eight bytes always fit into a slot of the send queue.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "paged.h"
#include "placed.h"
#include "tap.h"

#define SIZE	65536u
#define WORD	4096u		/* in side b's buffer, where it is written */
#define ROUNDS	2000

static struct pair pair;

static uint64_t remote(uint32_t offset)
{
	return (uintptr_t)pair.b.buf + offset;
}

/* Is the word @data, and all around it unchanged? */
static bool arrived(uint32_t offset, const void *data)
{
	static uint8_t due[SIZE];

	fill(due, SIZE, 2);
	memcpy(due + offset, data, 8);
	return !memcmp(pair.b.buf, due, SIZE);
}

/* Posts these SGEs by ibv_post_send(). */
static int post_sges(struct side *side, struct ibv_sge *sges, int count,
		     unsigned int flags)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = PLACED_WR_ID, .sg_list = sges, .num_sge = count,
		.opcode = IBV_WR_ATOMIC_WRITE, .send_flags = flags | IBV_SEND_SIGNALED,
		.wr.rdma = { remote(WORD), pair.b.mr->rkey },
	};

	return ibv_post_send(side->qp, &wr, &bad);
}

static struct ibv_sge here(uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){
		(uintptr_t)pair.a.buf + offset, length, pair.a.mr->lkey,
	};
}

static void expect_arrival(struct ibv_sge *sges, int count, unsigned int flags,
			   const void *data, const char *what)
{
	struct outcome o;

	fill(pair.b.buf, SIZE, 2);
	o = finish(&pair.a, post_sges(&pair.a, sges, count, flags));
	if (!tap_ok(!o.posted && !o.status && o.opcode == IBV_WC_ATOMIC_WRITE, "%s",
		    what))
		tap_diag("errno %d, %s (%u)", o.posted, ibv_wc_status_str(o.status),
			 o.syndrome);
	tap_ok(arrived(WORD, data), "%s: data", what);
}

static void test_sources(void)
{
	struct ibv_sge split[] = { here(100, 3), here(900, 5) };
	struct ibv_sge many[] = { here(1, 2), here(0, 0), here(7, 1), here(50, 5) };
	struct ibv_sge one = here(512, 8), odd = here(4093, 8);
	uint8_t due[8], text[8] = "eight by";
	struct ibv_sge in_line = { (uintptr_t)text, 8, 0 };

	fill_sides(&pair);
	expect_placed(&pair, pair.b.mr->rkey, remote(WORD), text, "ibv_wr_atomic_write()");
	tap_ok(arrived(WORD, text), "its data");
	fill_sides(&pair);
	expect_placed(&pair, pair.b.mr->rkey, remote(SIZE - 8), text, "the last eight bytes");
	tap_ok(arrived(SIZE - 8, text), "its data");

	expect_arrival(&one, 1, 0, pair.a.buf + 512, "one SGE");
	expect_arrival(&odd, 1, 0, pair.a.buf + 4093, "one across two pages");
	memcpy(due, pair.a.buf + 100, 3);
	memcpy(due + 3, pair.a.buf + 900, 5);
	expect_arrival(split, 2, 0, due, "three bytes and five");
	memcpy(due, pair.a.buf + 1, 2);
	memcpy(due + 2, pair.a.buf + 7, 1);
	memcpy(due + 3, pair.a.buf + 50, 5);
	expect_arrival(many, 4, 0, due, "four SGEs, one of them empty");
	expect_arrival(&in_line, 1, IBV_SEND_INLINE, text, "inline");
	expect_arrival(&one, 1, IBV_SEND_FENCE, pair.a.buf + 512, "fenced");
}

/* The program may change its data as soon as posting has returned. */
static void test_copied(void)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.a.qp);
	uint64_t value, last;
	struct ibv_wc wc;

	ibv_wr_start(qp);
	qp->wr_id = PLACED_WR_ID;
	qp->wr_flags = 0;
	for (value = 1; value < 5; value++) {
		if (value == 4)
			qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_atomic_write(qp, pair.b.mr->rkey, remote(value * 8), &value);
	}
	tap_is(ibv_wr_complete(qp), 0, "four in a batch, of one variable");
	expect_wc(pair.a.send_cq, PLACED_WR_ID, IBV_WC_SUCCESS, &wc, "the last one's end");
	for (value = 1; value < 5; value++) {
		memcpy(&last, pair.b.buf + value * 8, 8);
		tap_is(last, value, "each has what it was given");
	}
}

/* ---- atomicity ---- */

static atomic_bool stop;

/* Values have eight equal bytes, so that a torn one shows. */
static void *watch(void *arg)
{
	const _Atomic uint64_t *word = arg;
	uintptr_t torn = 0;

	while (!atomic_load(&stop)) {
		uint64_t seen = atomic_load(word);

		torn += seen != (seen & 0xff) * 0x0101010101010101;
	}
	return (void *)torn;
}

static void test_whole(void)
{
	uint32_t depth = pair.a.cap.max_send_wr, n = 0, i, rounds = impaired() ? 100 : ROUNDS;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.a.qp);
	struct ibv_wc wc;
	pthread_t thread;
	void *torn;

	memset(pair.b.buf + WORD, 0, 8);
	atomic_store(&stop, false);
	if (pthread_create(&thread, NULL, watch, pair.b.buf + WORD))
		tap_bail("pthread_create");
	while (n < rounds) {
		ibv_wr_start(qp);
		for (i = 0; i < depth; i++, n++) {
			uint64_t value = (n & 0xff) * 0x0101010101010101;

			qp->wr_flags = i == depth - 1 ? IBV_SEND_SIGNALED : 0;
			ibv_wr_atomic_write(qp, pair.b.mr->rkey, remote(WORD), &value);
		}
		if (ibv_wr_complete(qp) || !wait_wc(pair.a.send_cq, &wc) || wc.status)
			tap_bail("a request failed");
	}
	atomic_store(&stop, true);
	pthread_join(thread, &torn);
	tap_is((uintptr_t)torn, 0, "a thread that looks sees no part of one");
}

/* A fenced ATOMIC_WRITE must send the data that the READ before it has brought. */
static void test_fence(void)
{
	struct ibv_sge sge = here(256, 8);
	int round, wrong = 0, rounds = impaired() ? 20 : 200;
	struct outcome o;
	struct ibv_wc wc;

	for (round = 0; round < rounds; round++) {
		struct request read = {
			.opcode = IBV_WR_RDMA_READ, .wr_id = 1,
			.local = pair.a.buf + 256, .length = 8,
			.lkey = pair.a.mr->lkey, .remote = remote(0),
			.rkey = pair.b.mr->rkey,
		};

		memset(pair.a.buf + 256, 0, 8);
		memset(pair.b.buf + WORD, 0, 8);
		fill(pair.b.buf, 8, round + 1);
		if (post(&pair.a, &read))
			tap_bail("ibv_post_send");
		o = (struct outcome){
			.posted = post_sges(&pair.a, &sge, 1, IBV_SEND_FENCE),
		};
		if (o.posted || !wait_wc(pair.a.send_cq, &wc) || wc.status)
			tap_bail("a READ failed");
		o = finish(&pair.a, 0);
		wrong += o.status || memcmp(pair.b.buf + WORD, pair.b.buf, 8);
	}
	tap_is(wrong, 0, "fenced behind a READ");
}

/* ---- windows, on-NIC memory, on demand ---- */

static void test_window(enum ibv_mw_type type)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	uint8_t data[8] = "a window";

	tap_diag("window of type %d", (int)type);
	fill_sides(&pair);
	must_bind(&apis[1], &pair.b, mw, mr, remote(WORD), 64, IBV_ACCESS_REMOTE_WRITE);
	expect_placed(&pair, mw->rkey, remote(WORD), data, "with the right");
	tap_ok(arrived(WORD, data), "its data");
	fill_sides(&pair);
	expect_refusal(&pair, post_atomic_write(&pair.a, mw->rkey, remote(WORD + 64), data),
		       IBV_WC_REM_ACCESS_ERR, "beyond it");
	must_bind(&apis[1], &pair.b, mw, mr, remote(WORD), 64,
		  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	expect_refusal(&pair, post_atomic_write(&pair.a, mw->rkey, remote(WORD), data),
		       IBV_WC_REM_ACCESS_ERR, "without the right");
	ibv_dealloc_mw(mw);
	ibv_dereg_mr(mr);
}

static void test_on_nic(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(pair.ctx, &attr);
	uint8_t data[8] = "on a NIC", seen[8];
	struct ibv_mr *mr;

	mr = dm ? ibv_reg_dm_mr(pair.pd, dm, 0, 64, ALL_ACCESS | IBV_ACCESS_ZERO_BASED) :
		  NULL;
	if (!mr)
		tap_bail("on-NIC memory: %s", strerror(errno));
	expect_placed(&pair, mr->rkey, 56, data, "on-NIC memory");
	tap_ok(!ibv_memcpy_from_dm(seen, dm, 56, 8) && !memcmp(seen, data, 8), "its data");
	ibv_dereg_mr(mr);
	ibv_free_dm(dm);
}

/* One end is a page on demand that the process has not touched. */
static void test_on_demand(enum memory_kind kind)
{
	struct memory from, to;
	struct ibv_mr *source, *target;
	uint8_t first[PAGE], data[8] = "a demand";
	struct paged before;
	struct ibv_sge sge;
	bool right;

	memory_make(&from, kind, PAGE);
	memory_make(&to, kind, PAGE);
	memory_first(&from, first);
	source = must_reg(pair.pd, from.at, PAGE, ON_DEMAND);
	target = must_reg(pair.pd, to.at, PAGE, ON_DEMAND);
	before = paged_counts();
	expect_placed(&pair, target->rkey, (uintptr_t)to.at + 8, data, memory_kinds[kind]);
	tap_ok(!memcmp(to.at + 8, data, 8), "to memory on demand: data");
	tap_ok(paged_counts().handled > before.handled, "a page was asked for");
	sge = (struct ibv_sge){ (uintptr_t)from.at + 77, 8, source->lkey };
	expect_arrival(&sge, 1, 0, first + 77, "from memory on demand");
	ibv_dereg_mr(source);
	ibv_dereg_mr(target);
	right = memory_end(&from);
	right &= memory_end(&to);
	tap_ok(right, "seen by all who share it");
}

/* ---- what is refused ---- */

static void test_lengths(void)
{
	struct ibv_sge sges[] = { here(0, 7), here(100, 2), here(200, 0), here(0, 16) };
	static const struct { int first, count; const char *what; } cases[] = {
		{ 0, 1, "seven bytes" }, { 0, 2, "nine bytes in two SGEs" },
		{ 2, 1, "an empty SGE" }, { 2, 0, "no SGE" }, { 3, 1, "sixteen bytes" },
	};
	uint8_t text[9] = "nine byte";
	struct ibv_sge in_line = { (uintptr_t)text, 7, 0 };
	size_t i;

	fill_sides(&pair);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_refusal(&pair, post_sges(&pair.a, &sges[cases[i].first],
						cases[i].count, 0),
			       IBV_WC_LOC_LEN_ERR, cases[i].what);
	expect_refusal(&pair, post_sges(&pair.a, &in_line, 1, IBV_SEND_INLINE),
		       IBV_WC_LOC_LEN_ERR, "seven bytes inline");
	in_line.length = 9;
	expect_refusal(&pair, post_sges(&pair.a, &in_line, 1, IBV_SEND_INLINE),
		       IBV_WC_LOC_LEN_ERR, "nine bytes inline");
}

static void expect_no(uint32_t rkey, uint64_t at, enum ibv_wc_status due, const char *what)
{
	uint8_t data[8] = "refuse  ";

	fill_sides(&pair);
	expect_refusal(&pair, post_atomic_write(&pair.a, rkey, at, data), due, what);
}

static void test_responder(void)
{
	struct ibv_mr *other = must_reg(pair.pd, pair.b.buf, SIZE, IBV_ACCESS_LOCAL_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	uint32_t key = pair.b.mr->rkey;

	expect_no(key, remote(WORD + 1), IBV_WC_REM_INV_REQ_ERR, "an odd address");
	expect_no(key, remote(WORD + 4), IBV_WC_REM_INV_REQ_ERR, "half a word further");
	expect_no(key ^ 0x40, remote(WORD), IBV_WC_REM_ACCESS_ERR, "an unknown key");
	expect_no(key, remote(SIZE), IBV_WC_REM_ACCESS_ERR, "beyond the end");
	expect_no(key, remote(0) - 8, IBV_WC_REM_ACCESS_ERR, "before the start");
	expect_no(other->rkey, remote(WORD), IBV_WC_REM_ACCESS_ERR,
		  "all other rights of the MR");
	pair.config.qp_access = ALL_ACCESS & ~IBV_ACCESS_REMOTE_WRITE;
	pair_reset(&pair);
	expect_no(key, remote(WORD), IBV_WC_REM_ACCESS_ERR, "all other rights of the QP");
	pair.config.qp_access = ALL_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC;
	pair_reset(&pair);
	expect_placed(&pair, key, remote(WORD), "anyhow ", "it is no atomic of IBA's");
	pair.config.qp_access = ALL_ACCESS;
	pair.config.no_rd_atomic = true;
	pair_reset(&pair);
	expect_no(key, remote(WORD), IBV_WC_LOC_QP_OP_ERR, "max_rd_atomic 0");
	pair.config.no_rd_atomic = false;
	pair.config.no_dest_rd_atomic = true;
	pair_reset(&pair);
	expect_no(key, remote(WORD), IBV_WC_REM_INV_REQ_ERR, "max_dest_rd_atomic 0");
	pair.config.no_dest_rd_atomic = false;
	pair_reset(&pair);
	ibv_dereg_mr(other);
}

static void test_local(void)
{
	struct ibv_sge sge = here(0, 8);

	fill_sides(&pair);
	sge.lkey ^= 0x40;
	expect_refusal(&pair, post_sges(&pair.a, &sge, 1, 0), IBV_WC_LOC_PROT_ERR,
		       "an unknown lkey");
	sge = here(SIZE - 7, 8);
	expect_refusal(&pair, post_sges(&pair.a, &sge, 1, 0), IBV_WC_LOC_PROT_ERR,
		       "a byte beyond the local end");
}

/*
 * The opcode's own call sets the data: further calls that set data or SGEs are errors.
 */
static void test_more_data(void)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.a.qp);
	struct ibv_sge sge = here(0, 8);
	char data[] = "too much";
	struct ibv_wc wc;
	int way;

	for (way = 0; way < 3; way++) {
		ibv_wr_start(qp);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_atomic_write(qp, pair.b.mr->rkey, remote(WORD), "enough  ");
		if (way == 0)
			ibv_wr_set_sge(qp, sge.lkey, sge.addr, 8);
		else if (way == 1)
			ibv_wr_set_sge_list(qp, 1, &sge);
		else
			ibv_wr_set_inline_data(qp, data, 8);
		tap_is(ibv_wr_complete(qp), EINVAL, "data twice: EINVAL");
	}
	tap_is(ibv_poll_cq(pair.a.send_cq, 1, &wc), 0, "nothing of this was posted");
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;

	config.send_ops = PLACED_OPS;
	config.inline_data = 0;
	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &pair.attr), &config);
	pair_connect(&pair);
	test_sources();
	test_copied();
	test_whole();
	test_fence();
	test_window(IBV_MW_TYPE_1);
	test_window(IBV_MW_TYPE_2);
	test_on_nic();
	test_on_demand(UNTOUCHED);
	test_on_demand(FILE_SHARED);
	test_lengths();
	test_responder();
	test_local();
	test_more_data();
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
