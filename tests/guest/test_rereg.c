// SPDX-License-Identifier: GPL-2.0
/*
 * ibv_rereg_mr: each combination of flags changes what it names and nothing
 * else; an error leaves the registration as it was, and so does a bound window.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tap.h"
#include "window.h"

#define LENGTH		(64 * 1024u)
#define FULL		(BINDABLE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ)
#define REDUCED		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define PAGE		4096u

/* Two pairs: one in each protection domain. */
static struct pair home, away;
static uint8_t *old_buf, *new_buf;

/* The expected attributes of a registration. */
struct state {
	struct pair *pair;
	uint8_t *buf;
	uint32_t length;
	bool writable;
};

static uint8_t *map(size_t length, int protection)
{
	uint8_t *p = mmap(NULL, length, protection,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return p;
}

/* This process's pinned pages, as its memory lock limit counts them. */
static long pinned_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[128];
	long kib = -1;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "VmPin: %ld", &kib);
	if (file)
		fclose(file);
	return kib;
}

static enum ibv_wc_status ask_once(struct pair *pair, enum ibv_wr_opcode opcode,
				   uint32_t rkey, const void *remote)
{
	struct outcome o = ask(pair, opcode, rkey, (uintptr_t)remote, 512);

	if (o.posted)
		tap_bail("posting: %s", strerror(o.posted));
	if (o.status)
		revive(pair);
	return o.status;
}

static bool is_refused(struct pair *pair, enum ibv_wr_opcode opcode,
		       uint32_t rkey, const void *remote)
{
	return ended_with(ask_once(pair, opcode, rkey, remote),
			  IBV_WC_REM_ACCESS_ERR);
}

static bool writes(struct pair *pair, uint32_t rkey, uint8_t *remote,
		   uint8_t *other)
{
	bool written;

	fill(pair->a.buf, 512, 7);
	fill(remote, 512, 1);
	fill(other, 512, 1);
	written = ask_once(pair, IBV_WR_RDMA_WRITE, rkey, remote) ==
		  IBV_WC_SUCCESS;
	return written == is_filled(remote, 512, 7) &&
	       is_filled(other, 512, 1) && written;
}

static bool reads(struct pair *pair, uint32_t rkey, uint8_t *remote)
{
	fill(pair->a.buf, 512, 1);
	fill(remote, 512, 9);
	return ask_once(pair, IBV_WR_RDMA_READ, rkey, remote) ==
	       IBV_WC_SUCCESS && is_filled(pair->a.buf, 512, 9);
}

/* Do requests find the MR to be as @state, in every respect? */
static bool is_as(const struct ibv_mr *mr, const struct state *state)
{
	uint8_t *last = state->buf + state->length - 512;
	uint8_t *other = state->buf == old_buf ? new_buf : old_buf;
	struct pair *stranger = state->pair == &home ? &away : &home;

	return reads(state->pair, mr->rkey, state->buf) &&
	       reads(state->pair, mr->rkey, last) &&
	       writes(state->pair, mr->rkey, state->buf, other) ==
	       state->writable &&
	       is_refused(state->pair, IBV_WR_RDMA_READ, mr->rkey, last + 1) &&
	       is_refused(state->pair, IBV_WR_RDMA_READ, mr->rkey, other) &&
	       is_refused(stranger, IBV_WR_RDMA_READ, mr->rkey, state->buf);
}

static void test_combination(int flags)
{
	struct ibv_mr *mr = must_reg(home.pd, old_buf, LENGTH, FULL);
	struct state state = { &home, old_buf, LENGTH, true };
	uint32_t lkey = mr->lkey, rkey = mr->rkey;
	long pinned = pinned_kib();
	int err, access = 0;

	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		state.buf = new_buf;
		state.length = LENGTH / 2;
		pinned -= LENGTH / 2 / 1024;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		state.pair = &away;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS) {
		state.writable = false;
		access = REDUCED;
	}
	err = ibv_rereg_mr(mr, flags, away.pd, new_buf, LENGTH / 2, access);
	tap_is(err, 0, "flags %d: rereg", flags);
	tap_ok(mr->lkey == lkey && mr->rkey == rkey,
	       "flags %d: the keys stay", flags);
	tap_ok(mr->pd == state.pair->pd && mr->addr == state.buf &&
	       mr->length == state.length,
	       "flags %d: struct ibv_mr says so", flags);
	tap_ok(is_as(mr, &state), "flags %d: so does the device", flags);
	tap_is(pinned_kib(), pinned, "flags %d: KiB pinned", flags);
	tap_is(ibv_dereg_mr(mr), 0, "flags %d: dereg", flags);
}

/* ---- errors ---- */

static struct state fresh = { &home, NULL, LENGTH, true };

static void expect_error(struct ibv_mr *mr, int flags, struct ibv_pd *pd,
			 void *addr, size_t length, int access, int wanted,
			 const char *what)
{
	long pinned = pinned_kib();
	int got;

	errno = 0;
	got = ibv_rereg_mr(mr, flags, pd, addr, length, access);
	tap_ok(got && errno == wanted, "%s: %s (%d, errno %d)", what,
	       strerror(wanted), got, errno);
	tap_ok(mr->pd == home.pd && mr->addr == old_buf &&
	       mr->length == LENGTH && is_as(mr, &fresh),
	       "%s: the registration is as it was", what);
	tap_is(pinned_kib(), pinned, "%s: KiB pinned", what);
}

static void test_errors(void)
{
	const int trans = IBV_REREG_MR_CHANGE_TRANSLATION;
	const int rights = IBV_REREG_MR_CHANGE_ACCESS;
	uint8_t *hole = map(4 * PAGE, PROT_READ | PROT_WRITE);
	uint8_t *read_only = map(PAGE, PROT_READ);
	struct ibv_mr *mr;

	munmap(hole + 2 * PAGE, PAGE);
	mr = must_reg(home.pd, old_buf, LENGTH, FULL);
	expect_error(mr, 0, NULL, NULL, 0, 0, EINVAL, "no flags");
	expect_error(mr, 8, NULL, NULL, 0, 0, EINVAL, "an unknown flag");
	expect_error(mr, trans, NULL, new_buf, 0, 0, EINVAL, "no bytes");
	expect_error(mr, IBV_REREG_MR_CHANGE_PD, away.pd, NULL, 0, REDUCED,
		     EINVAL, "rights without their flag");
	expect_error(mr, rights, NULL, NULL, 0, REDUCED | 1U << 12, EINVAL,
		     "an unknown right");
	expect_error(mr, trans, NULL, hole, 4 * PAGE, 0, EFAULT,
		     "a range with a hole");
	expect_error(mr, trans, NULL, read_only, PAGE, 0, EFAULT,
		     "a range that is read-only");
	expect_error(mr, trans, NULL, (void *)(UINTPTR_MAX - PAGE), 2 * PAGE, 0,
		     EINVAL, "a range around the end");
	expect_error(mr, trans | IBV_REREG_MR_CHANGE_PD | rights, away.pd, hole,
		     4 * PAGE, REDUCED, EFAULT, "everything, over a hole");
	expect_error(mr, rights, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL,
		     "remote write without local write");
	expect_error(mr, rights, NULL, NULL, 0,
		     REDUCED | IBV_ACCESS_HUGETLB, EOPNOTSUPP, "huge pages");
	tap_is(ibv_dereg_mr(mr), 0, "after all the errors: dereg");
	munmap(hole, 4 * PAGE);
	munmap(read_only, PAGE);
}

/* A change of flags does not make memory writable that was pinned for reading. */
static void test_read_only(void)
{
	uint8_t *page = map(PAGE, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr;
	int got;

	fill(page, PAGE, 4);
	mprotect(page, PAGE, PROT_READ);
	mr = must_reg(home.pd, page, PAGE, IBV_ACCESS_REMOTE_READ);
	errno = 0;
	got = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, FULL);
	tap_ok(got && errno == EACCES, "read-only memory: more rights: EACCES");
	fill(home.a.buf, 512, 7);
	tap_ok(is_refused(&home, IBV_WR_RDMA_WRITE, mr->rkey, page),
	       "read-only memory: not written");
	tap_ok(ask_once(&home, IBV_WR_RDMA_READ, mr->rkey, page) ==
	       IBV_WC_SUCCESS && is_filled(home.a.buf, 512, 4),
	       "read-only memory: read");
	tap_ok(is_filled(page, PAGE, 4), "read-only memory: as it was");
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0,
	       "read-only memory: fewer rights");
	tap_ok(is_refused(&home, IBV_WR_RDMA_READ, mr->rkey, page),
	       "read-only memory: not read any more");
	/* With a change of translation it is pinned anew. */
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS |
			    IBV_REREG_MR_CHANGE_TRANSLATION, NULL, new_buf,
			    PAGE, FULL), 0, "then over writable memory");
	tap_ok(writes(&home, mr->rkey, new_buf, old_buf),
	       "which can be written");
	ibv_dereg_mr(mr);
	munmap(page, PAGE);
}

/* Does side a read 512 bytes of @buf at @iova? */
static bool reads_as(const struct ibv_mr *mr, uint64_t iova, uint8_t *buf)
{
	fill(home.a.buf, 512, 1);
	fill(buf, 512, 9);
	return ask_once(&home, IBV_WR_RDMA_READ, mr->rkey,
			(void *)(uintptr_t)iova) == IBV_WC_SUCCESS &&
	       is_filled(home.a.buf, 512, 9);
}

static bool refused_at(const struct ibv_mr *mr, uint64_t iova)
{
	return is_refused(&home, IBV_WR_RDMA_READ, mr->rkey,
			  (void *)(uintptr_t)iova);
}

/* A zero-based MR stays so until its access flags are changed. */
static void test_zero_based(void)
{
	struct ibv_mr *mr = must_reg(home.pd, old_buf + 63, LENGTH - 63,
				     FULL | IBV_ACCESS_ZERO_BASED);
	uint8_t *buf = new_buf + 4095;

	tap_ok(reads_as(mr, 0, old_buf + 63), "zero-based: from 0");
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf,
			    2 * PAGE, 0), 0, "zero-based: other memory");
	tap_ok(reads_as(mr, 0, buf) &&
	       reads_as(mr, 2 * PAGE - 512, buf + 2 * PAGE - 512) &&
	       refused_at(mr, 2 * PAGE - 511), "zero-based: still from 0");
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION |
			    IBV_REREG_MR_CHANGE_ACCESS, NULL, old_buf + 1, PAGE,
			    FULL), 0, "zero-based: no more");
	tap_ok(reads_as(mr, (uintptr_t)old_buf + 1, old_buf + 1) &&
	       refused_at(mr, 0), "zero-based: by its address");
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    FULL | IBV_ACCESS_ZERO_BASED), 0,
	       "zero-based: again, by the flags alone");
	tap_ok(reads_as(mr, 0, old_buf + 1) &&
	       refused_at(mr, (uintptr_t)old_buf + 1),
	       "zero-based: from 0 again");
	tap_is(ibv_dereg_mr(mr), 0, "zero-based: dereg");
}

/* An iova that was given with the flag counts when the flag goes. */
static void test_zero_based_iova(void)
{
	uint64_t iova = (uintptr_t)old_buf % PAGE + 63 + 1000 * PAGE;
	struct ibv_mr *mr = ibv_reg_mr_iova(home.pd, old_buf + 63, PAGE, iova,
					    FULL | IBV_ACCESS_ZERO_BASED);

	if (!mr)
		tap_bail("ibv_reg_mr_iova: %s", strerror(errno));
	tap_ok(reads_as(mr, 0, old_buf + 63) && refused_at(mr, iova),
	       "zero-based with an iova: from 0");
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, FULL), 0,
	       "zero-based with an iova: no more");
	tap_ok(reads_as(mr, iova, old_buf + 63) && refused_at(mr, 0),
	       "zero-based with an iova: by the iova");
	tap_is(ibv_dereg_mr(mr), 0, "zero-based with an iova: dereg");
}

/* A chosen iova stays while the memory does, and goes with a new translation. */
static void test_iova(void)
{
	uint64_t iova = -16ull * PAGE;
	struct ibv_mr *mr = ibv_reg_mr_iova(home.pd, old_buf, LENGTH, iova,
					    FULL);

	if (!mr)
		tap_bail("ibv_reg_mr_iova: %s", strerror(errno));
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    REDUCED), 0, "iova: other rights");
	tap_ok(reads_as(mr, iova, old_buf), "iova: it stays");
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, new_buf,
			    LENGTH, 0), 0, "iova: other memory");
	tap_ok(reads_as(mr, (uintptr_t)new_buf, new_buf) &&
	       refused_at(mr, iova), "iova: it is the memory's address now");
	tap_is(ibv_dereg_mr(mr), 0, "iova: dereg");
}

static void test_window(enum ibv_mw_type type)
{
	struct ibv_mr *mr = must_reg(home.pd, old_buf, LENGTH, FULL);
	struct ibv_mw *mw = must_alloc_mw(home.pd, type);
	long pinned = pinned_kib();
	int flags, got;

	must_bind(&apis[0], &home.b, mw, mr, (uintptr_t)old_buf, LENGTH,
		  IBV_ACCESS_REMOTE_WRITE);
	for (flags = 1; flags < 8; flags++) {
		errno = 0;
		got = ibv_rereg_mr(mr, flags, away.pd, new_buf, LENGTH,
				   flags & IBV_REREG_MR_CHANGE_ACCESS ?
				   REDUCED : 0);
		tap_ok(got && errno == EBUSY,
		       "type %d window bound: flags %d: EBUSY", (int)type,
		       flags);
		tap_ok(mr->pd == home.pd && mr->addr == old_buf &&
		       mr->length == LENGTH && pinned_kib() == pinned,
		       "type %d window bound: flags %d: as it was", (int)type,
		       flags);
	}
	tap_ok(writes(&home, mw->rkey, old_buf, new_buf),
	       "type %d: the window works", (int)type);
	tap_ok(writes(&home, mr->rkey, old_buf, new_buf),
	       "type %d: so does the MR", (int)type);
	tap_is(ibv_dealloc_mw(mw), 0, "type %d: dealloc", (int)type);
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, new_buf,
			    LENGTH, 0), 0, "type %d: then rereg", (int)type);
	tap_ok(writes(&home, mr->rkey, new_buf, old_buf),
	       "type %d: and it is another range", (int)type);
	tap_is(ibv_dereg_mr(mr), 0, "type %d: dereg", (int)type);
}

/* More re-registrations than a key's generation has values (eight bits). */
static void test_many(void)
{
	struct ibv_mr *mr = must_reg(home.pd, old_buf, LENGTH, FULL);
	uint8_t *bufs[2] = { new_buf, old_buf };
	int i, wrong = 0;

	for (i = 0; i < 600 && !wrong; i++) {
		if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				 bufs[i & 1], LENGTH, 0))
			tap_bail("rereg number %d: %s", i, strerror(errno));
		wrong += !writes(&home, mr->rkey, bufs[i & 1], bufs[!(i & 1)]);
	}
	tap_is(wrong, 0, "600 times in a row");
	ibv_dereg_mr(mr);
}

int main(void)
{
	struct ibv_device_attr attr;
	int flags;

	pair_open(&home, open_nic(NULL, &attr), &pair_defaults);
	pair_open(&away, home.ctx, &pair_defaults);
	pair_connect(&home);
	pair_connect(&away);
	old_buf = map(LENGTH, PROT_READ | PROT_WRITE);
	new_buf = map(LENGTH, PROT_READ | PROT_WRITE);
	fresh.buf = old_buf;

	for (flags = 1; flags < 8; flags++)
		test_combination(flags);
	test_errors();
	test_read_only();
	test_zero_based();
	test_zero_based_iova();
	test_iova();
	test_window(IBV_MW_TYPE_1);
	test_window(IBV_MW_TYPE_2);
	test_many();
	return tap_done();
}
