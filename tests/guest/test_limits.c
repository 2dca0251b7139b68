// SPDX-License-Identifier: GPL-2.0
/*
 * The NIC's limits on MRs and windows: all that is announced can be had, the next one
 * is refused by the errno of the manual, and an ordinary user is told which limit it
 * was, its value and the current use. A child takes everything, so that this process
 * fails because of what another one holds, and sees that all is free again when that
 * one dies.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <moordv.h>

#include "tap.h"
#include "window.h"

#define NOBODY	65534
#define PAGE	4096u
#define SOME	500		/* MRs that are freed and then registered again */

static struct ibv_device_attr attr;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static uint8_t page[PAGE] __attribute__((aligned(PAGE)));

/* ---- the child that takes everything: after each step it reports and waits ---- */

static int answer, order;

static void done_with(uint32_t result)
{
	char byte;

	if (write(answer, &result, sizeof(result)) != sizeof(result) ||
	    read(order, &byte, 1) != 1)
		_exit(1);
}

/*
 * Fills the table with MRs of no bytes of on-NIC memory: context entries and nothing
 * else, of which thousands take little time.
 */
static uint32_t fill_table(struct ibv_dm *dm, struct ibv_mr **mrs)
{
	uint32_t n;

	for (n = 0; n <= (uint32_t)attr.max_mr; n++) {
		errno = 0;
		mrs[n] = ibv_reg_dm_mr(pd, dm, 0, 0, IBV_ACCESS_ZERO_BASED);
		if (!mrs[n])
			break;
	}
	return errno == ENOMEM ? n : UINT32_MAX;
}

static void take_mrs(void)
{
	struct ibv_alloc_dm_attr dm_attr = { .length = PAGE };
	struct ibv_dm *dm = ibv_alloc_dm(ctx, &dm_attr);
	struct ibv_mr **mrs = calloc(attr.max_mr + 1, sizeof(*mrs));
	uint32_t n, i, failed = 0;

	n = dm && mrs ? fill_table(dm, mrs) : UINT32_MAX;
	done_with(n);
	done_with(n != UINT32_MAX ? ibv_dereg_mr(mrs[n - 1]) : 1);
	for (i = 0; i < SOME; i++)
		failed += !!ibv_dereg_mr(mrs[i]);
	done_with(failed);
	done_with(fill_table(dm, mrs));
}

static void take_windows(void)
{
	struct ibv_mw **mws = calloc(attr.max_mw + 1, sizeof(*mws));
	uint32_t n;

	for (n = 0; n <= (uint32_t)attr.max_mw; n++) {
		errno = 0;
		mws[n] = ibv_alloc_mw(pd, n % 2 ? IBV_MW_TYPE_1 :
						  IBV_MW_TYPE_2);
		if (!mws[n])
			break;
	}
	done_with(errno == ENOMEM ? n : UINT32_MAX);
	done_with(ibv_dealloc_mw(mws[0]));
}

static void open_device(void)
{
	ctx = open_nic(NULL, &attr);
	pd = ibv_alloc_pd(ctx);
	if (!pd)
		tap_bail("ibv_alloc_pd: %s", strerror(errno));
}

static void take_all(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_device();
	take_mrs();
	take_windows();
	_exit(0);
}

/* ---- the process that watches ---- */

static int from_hog, to_hog;

/* The result of the child's step. */
static uint32_t result(void)
{
	uint32_t value;

	if (read(from_hog, &value, sizeof(value)) != sizeof(value))
		tap_bail("the other process is gone");
	return value;
}

static void go_on(void)
{
	if (write(to_hog, "", 1) != 1)
		tap_bail("the other process is gone");
}

static pid_t start_hog(void)
{
	int up[2], down[2];
	pid_t pid;

	if (pipe(up) || pipe(down))
		tap_bail("pipe: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		answer = up[1];
		order = down[0];
		close(up[0]);
		close(down[1]);
		take_all();
	}
	close(up[1]);
	close(down[0]);
	from_hog = up[0];
	to_hog = down[1];
	return pid;
}

static bool works(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, page, PAGE, ALL_ACCESS);

	return mr && !ibv_dereg_mr(mr);
}

static void expect_limit(const char *when)
{
	struct moor_refusal why = {};
	struct ibv_mr *mr;
	int err;

	errno = 0;
	mr = ibv_reg_mr(pd, page, PAGE, IBV_ACCESS_LOCAL_WRITE);
	tap_ok(!mr && errno == ENOMEM, "%s: ENOMEM (errno %d)", when, errno);
	err = moordv_last_refusal(ctx, &why);
	tap_ok(!err && why.reason == MOOR_REFUSAL_MR_LIMIT &&
	       why.error == ENOMEM && why.limit == (uint32_t)attr.max_mr &&
	       why.value == why.limit && why.start == (uintptr_t)page &&
	       why.length == PAGE, "%s: why: reason %u, %llu of %llu in use",
	       when, why.reason, (unsigned long long)why.value,
	       (unsigned long long)why.limit);
}

static void test_mrs(void)
{
	/* The kernel has one MR of all memory, for its MADs. */
	tap_is(result(), attr.max_mr - 1, "another process gets all %d MRs but one",
	       attr.max_mr);
	expect_limit("none is left");
	go_on();
	tap_is(result(), 0, "it deregisters one");
	tap_ok(works(), "that is ours now");
	go_on();
	tap_is(result(), 0, "it deregisters %d", SOME);
	go_on();
	tap_is(result(), SOME + 1, "it gets as many again");
	expect_limit("none is left again");
}

static void test_windows(void)
{
	struct ibv_mw *mw;

	go_on();
	tap_is(result(), attr.max_mw, "it gets all %d windows", attr.max_mw);
	errno = 0;
	tap_ok(!ibv_alloc_mw(pd, IBV_MW_TYPE_1) && errno == ENOMEM,
	       "none is left: ENOMEM");
	go_on();
	tap_is(result(), 0, "it deallocates one");
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	tap_ok(mw && !ibv_dealloc_mw(mw), "that is ours now");
}

int main(void)
{
	int status;
	pid_t pid;

	if (setgid(NOBODY) || setuid(NOBODY))
		tap_bail("cannot become an ordinary user: %s", strerror(errno));
	pid = start_hog();
	open_device();
	test_mrs();
	test_windows();
	if (kill(pid, SIGKILL) || waitpid(pid, &status, 0) != pid)
		tap_bail("the other process is lost");
	tap_ok(works(), "it is killed: there is room");
	tap_ok(!ibv_dealloc_pd(pd) && !ibv_close_device(ctx), "close");
	return tap_done();
}
