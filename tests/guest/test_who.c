// SPDX-License-Identifier: GPL-2.0
/*
 * Who holds a memory region, and why a registration failed: what moordv.h
 * tells where errno is silent, to an ordinary user as well.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <moordv.h>

#include "tap.h"
#include "window.h"

#define SIZE	8192u
#define MANY	200
#define RIGHTS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct pair pair;

static const struct moor_window *find(const struct moor_window *list, int n,
				      uint32_t rkey)
{
	int i;

	for (i = 0; i < n; i++)
		if (list[i].rkey == rkey)
			return &list[i];
	return NULL;
}

static bool is_window(const struct moor_window *w, enum ibv_mw_type type,
		      const struct side *side, uint64_t iova, uint64_t length)
{
	return w && w->type == (uint32_t)type &&
	       w->qpn == side->qp->qp_num && w->pid == getpid() &&
	       w->iova == iova && w->length == length && w->access == RIGHTS;
}

static void test_holders(void)
{
	uint64_t addr = (uintptr_t)pair.b.buf;
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE);
	struct ibv_mr *other = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE);
	struct ibv_mw *one = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	struct ibv_mw *two = must_alloc_mw(pair.pd, IBV_MW_TYPE_2);
	struct ibv_mw *elsewhere = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	struct moor_window list[4] = {};
	uint32_t bound = 99;

	tap_ok(moordv_query_windows(mr, list, 4, &bound) == 0 && bound == 0,
	       "no window: nobody");
	must_bind(&apis[0], &pair.a, one, mr, addr + 8, 100, RIGHTS);
	must_bind(&apis[0], &pair.b, two, mr, addr + 16, 200, RIGHTS |
		  IBV_ACCESS_ZERO_BASED);
	must_bind(&apis[0], &pair.b, elsewhere, other, addr, 8, RIGHTS);
	tap_is(ibv_dereg_mr(mr), EBUSY, "two windows: the MR is busy");
	tap_ok(moordv_query_windows(mr, list, 4, &bound) == 2 && bound == 2,
	       "and these two hold it");
	tap_ok(is_window(find(list, 2, one->rkey), IBV_MW_TYPE_1, &pair.a,
			 addr + 8, 100), "type 1: through which QP, what range");
	tap_ok(is_window(find(list, 2, two->rkey), IBV_MW_TYPE_2, &pair.b, 0,
			 200), "type 2, zero-based: on which QP, what range");
	tap_ok(moordv_query_windows(mr, list, 1, &bound) == 1 && bound == 2,
	       "room for one: both are counted");
	tap_ok(moordv_query_windows(mr, NULL, 0, &bound) == 0 && bound == 2,
	       "no room: both are counted");
	tap_ok(moordv_query_windows(mr, list, 4, NULL) == -1 &&
	       errno == EINVAL, "nowhere to count");
	ibv_dealloc_mw(one);
	tap_ok(moordv_query_windows(mr, list, 4, &bound) == 1 && bound == 1 &&
	       list[0].rkey == two->rkey, "one deallocated");
	invalidate(&apis[0], &pair.b, two->rkey);
	tap_ok(moordv_query_windows(mr, list, 4, &bound) == 0 && bound == 0 &&
	       !ibv_dereg_mr(mr), "both gone: the MR goes too");
	if (ibv_dealloc_mw(two) || ibv_dealloc_mw(elsewhere) ||
	    ibv_dereg_mr(other))
		tap_bail("cannot clean up");
}

static void test_many(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE);
	static struct moor_window list[MANY];
	struct ibv_mw *mw[MANY];
	uint32_t bound = 0;
	bool good = true;
	int i, n;

	for (i = 0; i < MANY; i++) {
		mw[i] = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
		must_bind(&apis[0], &pair.b, mw[i], mr, (uintptr_t)pair.b.buf,
			  1 + i, RIGHTS);
	}
	n = moordv_query_windows(mr, list, MANY, &bound);
	for (i = 0; i < MANY; i++)
		good &= is_window(find(list, n, mw[i]->rkey), IBV_MW_TYPE_1,
				  &pair.b, (uintptr_t)pair.b.buf, 1 + i);
	tap_ok(good && n == MANY && bound == MANY, "%d windows listed", MANY);
	for (i = 0; i < MANY; i++)
		if (ibv_dealloc_mw(mw[i]))
			tap_bail("ibv_dealloc_mw");
	tap_is(ibv_dereg_mr(mr), 0, "and gone");
}

static void test_owner_gone(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	struct moor_window window = {};
	uint32_t bound;

	must_bind(&apis[0], &pair.b, mw, mr, (uintptr_t)pair.b.buf, 8, RIGHTS);
	pair_close_qp(&pair.b);
	tap_ok(moordv_query_windows(mr, &window, 1, &bound) == 1 &&
	       window.rkey == mw->rkey && window.pid == 0,
	       "QP destroyed: its owner is not known any more");
	pair_open_qp(&pair, &pair.b);
	pair_reset(&pair);
	ibv_dealloc_mw(mw);
	ibv_dereg_mr(mr);
}

static void test_not_ours(void)
{
	struct ibv_mr *null = ibv_alloc_null_mr(pair.pd);
	uint32_t bound;

	tap_ok(moordv_query_windows(null, NULL, 0, &bound) == -1 &&
	       errno == EOPNOTSUPP, "a null MR has no windows");
	ibv_dereg_mr(null);
}

/* ---- refusals ---- */

static void expect_refusal(const char *what, uint32_t reason, int error,
			   struct moor_refusal *refusal)
{
	int err = moordv_last_refusal(pair.ctx, refusal);

	if (!tap_ok(!err && refusal->reason == reason &&
		    refusal->error == error, "why: %s", what))
		tap_diag("%d: reason %u, error %d; limit %llu, value %llu", err,
			 refusal->reason, refusal->error,
			 (unsigned long long)refusal->limit,
			 (unsigned long long)refusal->value);
}

static void refuse(const char *what, void *addr, size_t length, uint64_t iova,
		   unsigned int access, uint32_t reason, int error,
		   struct moor_refusal *refusal)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(pair.pd, addr, length, iova,
					    access);

	if (mr || errno != error) {
		tap_ok(false, "%s: refused", what);
		tap_diag("errno %d, wanted %d", mr ? 0 : errno, error);
		if (mr)
			ibv_dereg_mr(mr);
		return;
	}
	expect_refusal(what, reason, error, refusal);
	tap_ok(refusal->start == (uintptr_t)addr &&
	       refusal->length == length && refusal->access == access,
	       "why: %s: the arguments", what);
}

static void test_refusals(void)
{
	uint8_t *memory = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addr = (uintptr_t)memory;
	struct moor_refusal r = {};

	expect_refusal("nothing yet", MOOR_REFUSAL_NONE, 0, &r);
	refuse("remote write without local write", memory, 4096, addr,
	       IBV_ACCESS_REMOTE_WRITE, MOOR_REFUSAL_FLAGS, EINVAL, &r);
	tap_is(r.value, IBV_ACCESS_REMOTE_WRITE, "the flag");
	refuse("on demand", memory, 4096, addr,
	       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND,
	       MOOR_REFUSAL_FLAGS, EOPNOTSUPP, &r);
	tap_is(r.value, IBV_ACCESS_ON_DEMAND, "the flag");
	refuse("huge pages", memory, 4096, addr,
	       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB,
	       MOOR_REFUSAL_FLAGS, EOPNOTSUPP, &r);
	refuse("address not congruent", memory, 4096, addr + 1,
	       IBV_ACCESS_LOCAL_WRITE, MOOR_REFUSAL_IOVA, EINVAL, &r);
	tap_is(r.value, addr + 1, "the address");
	munmap(memory + 2 * 4096, 4096);
	refuse("a page that is not there", memory + 10, 3 * 4096, addr + 10,
	       IBV_ACCESS_LOCAL_WRITE, MOOR_REFUSAL_PAGE, EFAULT, &r);
	tap_is(r.value, addr + 2 * 4096, "the page");
	mprotect(memory + 4096, 4096, PROT_READ);
	refuse("a page that may not be written", memory, 2 * 4096, addr,
	       IBV_ACCESS_LOCAL_WRITE, MOOR_REFUSAL_PAGE, EFAULT, &r);
	tap_is(r.value, addr + 4096, "the page");
	munmap(memory, 4 * 4096);
}

static void test_busy_rereg(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	struct moor_refusal r = {};

	must_bind(&apis[0], &pair.b, mw, mr, (uintptr_t)pair.b.buf, 8, RIGHTS);
	tap_ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE) && errno == EBUSY,
	       "rereg with a window bound");
	expect_refusal("rereg with a window bound", MOOR_REFUSAL_WINDOWS,
		       EBUSY, &r);
	tap_is(r.value, 1, "the number of windows");
	ibv_dealloc_mw(mw);
	tap_is(ibv_dereg_mr(mr), 0, "the window gone, the MR goes");
}

/* Last: there is no way back to being root. */
static void test_memlock(void)
{
	struct rlimit limit = { 65536, 65536 };
	size_t size = 1 << 20;
	uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct moor_refusal r = {};

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(65534) ||
	    setuid(65534))
		tap_bail("cannot become an ordinary user");
	refuse("locked memory", memory, size, (uintptr_t)memory,
	       IBV_ACCESS_LOCAL_WRITE, MOOR_REFUSAL_MEMLOCK, ENOMEM, &r);
	tap_is(r.limit, 65536, "the limit");
	tap_ok(r.value < size, "what is pinned now: %llu",
	       (unsigned long long)r.value);
	munmap(memory, size);
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;

	config.send_ops = WINDOW_OPS;
	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr), &config);
	pair_connect(&pair);
	test_refusals();
	test_busy_rereg();
	test_holders();
	test_many();
	test_owner_gone();
	test_not_ours();
	test_memlock();
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
