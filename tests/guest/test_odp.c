// SPDX-License-Identifier: GPL-2.0
/* timeout: 120
 *
 * On-demand paging (HWI 6.10): each operation, to and from memory in each state that a
 * page can be in, explicitly and implicitly registered, with every byte checked. And
 * its cost: page requests are counted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paged.h"
#include "tap.h"
#include "window.h"

#define SIZE	(6 * PAGE)
#define FROM	200u		/* aligned to nothing */
#define TO	4088u
#define LENGTH	(4 * PAGE + 77)
#define MIB	(1ul << 20)
#define BRANCH	(2 * MIB)

static const struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	bool received, reads, atomic;
} operations[] = {
	{ "SEND", IBV_WR_SEND, .received = true },
	{ "SEND with immediate", IBV_WR_SEND_WITH_IMM, .received = true },
	{ "WRITE", IBV_WR_RDMA_WRITE, .reads = false },
	{ "WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, .reads = false },
	{ "READ", IBV_WR_RDMA_READ, .reads = true },
	{ "fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, .reads = true, .atomic = true },
	{ "compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, .reads = true, .atomic = true },
};

#define OPERATIONS	(sizeof(operations) / sizeof(operations[0]))

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct pair pair;
static unsigned int extra;	/* access flags */

static struct ibv_mr *reg(void *at, size_t size)
{
	return must_reg(pd, at, size, ON_DEMAND | extra);
}

static void dereg(struct ibv_mr *mr)
{
	int err = ibv_dereg_mr(mr);

	if (err)
		tap_bail("ibv_dereg_mr: %s", strerror(err));
}

/* Memory at one end of an operation, and its contents that are due afterwards. */
struct end {
	struct memory memory;
	struct ibv_mr *mr;
	uint8_t due[SIZE];
};

static void end_open(struct end *end, enum memory_kind kind, struct ibv_mr *implicit)
{
	memory_make(&end->memory, kind, SIZE);
	end->mr = implicit ? implicit : reg(end->memory.at, SIZE);
	memory_first(&end->memory, end->due);
}

/* Are the contents right, for this process and for those who share the memory? */
static bool end_close(struct end *end, struct ibv_mr *implicit)
{
	bool right = !memcmp(end->memory.at, end->due, SIZE);

	if (!implicit)
		dereg(end->mr);
	return memory_end(&end->memory) && right;
}

/* Computes the operation's effect. For atomics it also sets the present value. */
static void predict(const struct operation *op, struct end *local, struct end *remote,
		    struct request *request)
{
	uint64_t old;

	if (op->atomic) {
		memcpy(&old, remote->due + TO, 8);
		memcpy(local->due + FROM, &old, 8);
		request->compare_add = op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ?
				       0x0102030405060708 : old;
		request->swap = 0xa1a2a3a4a5a6a7a8;
		old = op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ?
		      old + request->compare_add : request->swap;
		memcpy(remote->due + TO, &old, 8);
	} else if (op->reads) {
		memcpy(local->due + FROM, remote->due + TO, LENGTH);
	} else {
		memcpy(remote->due + TO, local->due + FROM, LENGTH);
	}
}

static bool moved(const struct operation *op, struct end *local, struct end *remote)
{
	bool immediate = op->opcode == IBV_WR_SEND_WITH_IMM ||
			 op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct request request = {
		.opcode = op->opcode, .wr_id = 5, .imm = 77,
		.local = local->memory.at + FROM, .lkey = local->mr->lkey,
		.length = op->atomic ? 8 : LENGTH,
		.remote = (uintptr_t)remote->memory.at + TO,
		.rkey = remote->mr->rkey,
	};
	struct ibv_wc wc = {};
	int err = 0;

	predict(op, local, remote, &request);
	if (op->received)
		err = post_receive(&pair.b, 6, remote->memory.at + TO, LENGTH,
				   remote->mr->lkey);
	else if (immediate)
		err = post_receive(&pair.b, 6, NULL, 0, 0);
	if (err || post(&pair.a, &request))
		return false;
	if (!wait_wc(pair.a.send_cq, &wc) || wc.status || wc.wr_id != 5) {
		tap_diag("%s (%u)", ibv_wc_status_str(wc.status), wc.vendor_err);
		return false;
	}
	if (!op->received && !immediate)
		return true;
	return wait_wc(pair.b.recv_cq, &wc) && !wc.status && wc.wr_id == 6 &&
	       wc.byte_len == LENGTH && (!immediate || wc.imm_data == 77);
}

static void test_states(const char *how, struct ibv_mr *implicit)
{
	enum memory_kind l, r;
	struct end local, remote;
	size_t i;
	bool done;

	for (i = 0; i < OPERATIONS; i++) {
		const struct operation *op = &operations[i];

		for (l = 0; l < MEMORY_KINDS; l++) {
			for (r = 0; r < MEMORY_KINDS; r++) {
				/* Read-only memory can be read. */
				if ((op->reads && l == READ_ONLY) ||
				    (!op->reads && r == READ_ONLY) ||
				    (op->atomic && r == READ_ONLY))
					continue;
				end_open(&local, l, implicit);
				end_open(&remote, r, implicit);
				done = moved(op, &local, &remote);
				done &= end_close(&local, implicit);
				done &= end_close(&remote, implicit);
				tap_ok(done, "%s: %s: %s here, %s there", how,
				       op->name, memory_kinds[l], memory_kinds[r]);
				if (!done)
					pair_reset(&pair);
			}
		}
	}
}

/*
 * The NIC gets a page for reading first. Writing it then needs another page request,
 * which must work.
 */
static void test_read_then_write(void)
{
	const struct operation *read = &operations[4], *write = &operations[2];
	struct end local, remote, other;
	enum memory_kind kind;
	bool done;

	for (kind = 0; kind < WRITABLE_KINDS; kind++) {
		end_open(&local, UNTOUCHED, NULL);
		end_open(&other, TOUCHED, NULL);
		end_open(&remote, kind, NULL);
		tap_ok(moved(read, &local, &remote) && moved(write, &other, &remote) &&
		       moved(read, &local, &remote),
		       "%s: read, written, read again", memory_kinds[kind]);
		done = end_close(&local, NULL);
		done &= end_close(&other, NULL);
		done &= end_close(&remote, NULL);
		tap_ok(done, "%s: data", memory_kinds[kind]);
	}
}

/* Does the NIC read @due from the first byte of each page? */
static bool reads_pages(struct ibv_mr *mr, uint8_t *const *pages, unsigned int num,
			uint8_t due)
{
	uint8_t *seen = map_pages(PAGE);
	struct ibv_mr *local = must_reg(pd, seen, PAGE, ALL_ACCESS);
	bool right = true;
	unsigned int i;

	for (i = 0; i < num && right; i++) {
		struct request request = {
			.opcode = IBV_WR_RDMA_READ, .local = seen, .lkey = local->lkey,
			.length = 1, .remote = (uintptr_t)pages[i], .rkey = mr->rkey,
		};
		struct ibv_wc wc;

		seen[0] = ~due;
		right = !post(&pair.a, &request) && wait_wc(pair.a.send_cq, &wc) &&
			!wc.status && seen[0] == due;
	}
	dereg(local);
	munmap(seen, PAGE);
	return right;
}

/*
 * A page shared with a child is read only. When the child is gone it may be written, of
 * which no notifier tells.
 */
static void test_child_gone(void)
{
	uint8_t *page = map_pages(PAGE), *from = map_pages(PAGE);
	struct request request = { .opcode = IBV_WR_RDMA_WRITE, .length = 8 };
	struct ibv_mr *mr, *local;
	struct ibv_wc wc;
	int child, hold[2];
	char c;

	fill(page, PAGE, 5);
	fill(from, PAGE, 6);
	mr = reg(page, PAGE);
	local = must_reg(pd, from, PAGE, ALL_ACCESS);
	if (pipe(hold))
		tap_bail("pipe: %s", strerror(errno));
	child = fork();
	if (!child) {
		close(hold[1]);
		_exit(read(hold[0], &c, 1) != 0);
	}
	tap_ok(child > 0 && reads_pages(mr, &page, 1, page[0]), "shared with a child: read");
	close(hold[0]);
	close(hold[1]);
	waitpid(child, NULL, 0);
	request.local = from;
	request.lkey = local->lkey;
	request.remote = (uintptr_t)page;
	request.rkey = mr->rkey;
	tap_ok(!post(&pair.a, &request) && wait_wc(pair.a.send_cq, &wc) && !wc.status,
	       "  its own again: written");
	tap_ok(!memcmp(page, from, 8) && reads_pages(mr, &page, 1, from[0]), "  data");
	dereg(mr);
	dereg(local);
	munmap(page, PAGE);
	munmap(from, PAGE);
}

/*
 * One page at many addresses, mapped for reading: with DMA debugging the kernel
 * complains if a page is mapped that often for writing.
 */
static void test_page_of_many(void)
{
	int file = memfd_create("page", MFD_CLOEXEC);
	struct ibv_mr *mr = reg(NULL, SIZE_MAX);
	uint8_t *at[12];
	unsigned int i;

	if (file < 0 || write(file, "a", 1) != 1 || ftruncate(file, PAGE))
		tap_bail("memfd_create: %s", strerror(errno));
	for (i = 0; i < 12; i++) {
		at[i] = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
		if (at[i] == MAP_FAILED)
			tap_bail("mmap: %s", strerror(errno));
	}
	tap_ok(reads_pages(mr, at, 12, 'a'), "a page at 12 addresses");
	for (i = 0; i < 12; i++)
		munmap(at[i], PAGE);
	dereg(mr);
	close(file);
}

/* ---- cost ---- */

static bool in_pieces(enum ibv_wr_opcode opcode, uint8_t *local, struct ibv_mr *lmr,
		      uint8_t *remote, struct ibv_mr *rmr, size_t size)
{
	struct ibv_wc wc;
	size_t at;

	for (at = 0; at < size; at += PAGE) {
		struct request request = {
			.opcode = opcode, .wr_id = at, .local = local + at,
			.lkey = lmr->lkey, .length = PAGE,
			.remote = (uintptr_t)remote + at, .rkey = rmr->rkey,
		};

		if (post(&pair.a, &request) || !wait_wc(pair.a.send_cq, &wc) ||
		    wc.status || wc.wr_id != at)
			return false;
	}
	return true;
}

/* Sequential reads or writes get more and more pages ahead. */
static void test_ahead(enum ibv_wr_opcode opcode, const char *name)
{
	uint8_t *here = map_pages(4 * MIB), *there = map_pages(4 * MIB);
	struct ibv_mr *lmr = must_reg(pd, here, 4 * MIB, ALL_ACCESS);
	struct ibv_mr *rmr = reg(there, 4 * MIB);
	struct paged before = paged_counts(), now;

	fill(here, 4 * MIB, 1);
	fill(there, 4 * MIB, 2);
	tap_ok(in_pieces(opcode, here, lmr, there, rmr, 4 * MIB), "%s: 4 MiB by pages",
	       name);
	now = paged_counts();
	tap_ok(is_filled(here, 4 * MIB, opcode == IBV_WR_RDMA_READ ? 2 : 1) &&
	       is_filled(there, 4 * MIB, opcode == IBV_WR_RDMA_READ ? 2 : 1),
	       "%s: data", name);
	tap_ok(now.faults > before.faults && now.faults - before.faults <= 16,
	       "%s: at most 16 page requests", name);
	tap_is(now.handled - before.handled, now.faults - before.faults,
	       "%s: all handled", name);
	tap_diag("%s: %llu page requests for 4 MiB", name, now.faults - before.faults);
	dereg(lmr);
	dereg(rmr);
	munmap(here, 4 * MIB);
	munmap(there, 4 * MIB);
}

/*
 * Opens an end so that a branch of the translation, of 2 MiB, begins @before bytes
 * behind its start.
 */
static void end_open_at(struct end *end, enum memory_kind kind, size_t before)
{
	uint8_t *area = map_pages(4 * MIB), *at;

	at = (uint8_t *)(((uintptr_t)area + SIZE + BRANCH - 1) / BRANCH * BRANCH) - before;
	munmap(area, 4 * MIB);
	memory_make(&end->memory, kind, SIZE);
	at = mremap(end->memory.at, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, at);
	if (at == MAP_FAILED)
		tap_bail("mremap: %s", strerror(errno));
	end->memory.at = at;
	end->mr = reg(at, SIZE);
	memory_first(&end->memory, end->due);
}

/* One page request gets pages of one branch only: across a boundary, two are needed. */
static void test_counts(const char *name, size_t before)
{
	const struct operation *write = &operations[2];
	unsigned int branches = before ? 2 : 1;
	struct paged at_first, now;
	struct end local, remote;
	bool done;

	end_open_at(&local, TOUCHED, 0);
	end_open_at(&remote, UNTOUCHED, before);
	at_first = paged_counts();
	tap_ok(!at_first.faults && !at_first.handled && !at_first.invalidations &&
	       !at_first.prefetched, "%s: an MR begins with none", name);
	tap_ok(moved(write, &local, &remote), "%s: WRITE", name);
	now = paged_counts();
	tap_is(now.faults, 1 + branches, "%s: a page request a branch at either end", name);
	tap_is(now.handled, 1 + branches, "%s: all handled", name);
	tap_ok(moved(write, &local, &remote), "%s: WRITE again", name);
	tap_is(paged_counts().faults, 1 + branches, "%s: what is there is not asked for",
	       name);
	madvise(remote.memory.at, SIZE, MADV_DONTNEED);
	now = paged_counts();
	tap_is(now.invalidations, 6, "%s: pages taken away", name);
	memset(remote.due, 0, SIZE);
	tap_ok(moved(write, &local, &remote), "%s: WRITE after that", name);
	tap_is(paged_counts().faults, 1 + 2 * branches, "%s: asked for again", name);
	done = end_close(&local, NULL);
	done &= end_close(&remote, NULL);
	tap_ok(done, "%s: data", name);
}

/* An implicit MR contains all of the process's memory, also what is mapped later. */
static void test_implicit(void)
{
	struct ibv_mr *mr = reg(NULL, SIZE_MAX);

	test_states("implicit", mr);
	dereg(mr);
}

int main(void)
{
	struct ibv_device_attr attr;

	ctx = open_nic(NULL, &attr);
	pair.pd = ibv_alloc_pd(ctx);
	pd = pair.pd;
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);
	test_states("explicit", NULL);
	test_implicit();
	extra = IBV_ACCESS_RELAXED_ORDERING;
	test_read_then_write();
	extra = 0;
	test_child_gone();
	test_page_of_many();
	test_counts("counts", 0);
	test_counts("counts across branches", 2 * PAGE);
	test_ahead(IBV_WR_RDMA_READ, "READ");
	test_ahead(IBV_WR_RDMA_WRITE, "WRITE");
	pair_close(&pair);
	tap_is(ibv_dealloc_pd(pd), 0, "nothing holds the PD");
	ibv_close_device(ctx);
	return tap_done();
}
