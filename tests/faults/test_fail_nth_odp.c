// SPDX-License-Identifier: GPL-2.0
/* timeout: 900
 *
 * On-demand paging with each allocation and copy in the kernel failing in turn:
 * registering and re-registering; advice, which makes branches of the table and faults
 * pages in; memory that is unmapped; and page requests, which a worker of the kernel
 * answers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "counts.h"
#include "fault.h"
#include "holdings.h"
#include "paged.h"
#include "tap.h"
#include "walk.h"
#include "window.h"
#include "workers.h"

#define SIZE		(4 * PAGE)
#define LENGTH		2048u
#define MOST_POINTS	200
#define MISSES		5	/* this many in turn: the workers have no such point */

static struct pair home;
static uint8_t *memory;
static struct ibv_mr *mr;
static bool implicit;
static unsigned int access_flags;

/* ---- registering, and re-registering as paged or pinned ---- */

static int reg(void)
{
	errno = 0;
	mr = implicit ? ibv_reg_mr(home.pd, NULL, SIZE_MAX, access_flags) :
			ibv_reg_mr(home.pd, memory, SIZE, access_flags);
	return mr ? 0 : errno;
}

static int dereg(void)
{
	return ibv_dereg_mr(mr);
}

/* Data arrives, by page requests at both ends. */
static bool works(void)
{
	uint8_t *last = memory + SIZE - LENGTH;

	fill(home.a.buf, LENGTH, 5);
	if (ask(&home, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)memory, LENGTH).status ||
	    !is_filled(memory, LENGTH, 5))
		return false;
	fill(home.a.buf, LENGTH, 9);
	return !ask(&home, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)last, LENGTH).status &&
	       is_filled(last, LENGTH, 9);
}

static void forget_pages(void)
{
	if (madvise(memory, SIZE, MADV_DONTNEED))
		tap_bail("madvise: %s", strerror(errno));
}

static void walk_registering(void)
{
	walk(&(struct path){
		.name = implicit ? "register all of memory" : "register, paged",
		.prepare = forget_pages, .call = reg, .works = works, .after = dereg,
	});
	walk(&(struct path){
		.name = implicit ? "deregister all of memory" : "deregister, paged",
		.prepare = forget_pages, .before = reg, .call = dereg, .intact = works,
	});
}

static unsigned int to_access;

static int rereg(void)
{
	errno = 0;
	if (!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, to_access))
		return 0;
	return errno ? errno : EPROTO;
}

static void walk_reregistering(void)
{
	to_access = ALL_ACCESS;
	walk(&(struct path){
		.name = "re-register: pinned from now on", .prepare = forget_pages,
		.before = reg, .call = rereg, .works = works, .intact = works,
		.after = dereg, .late = true,
	});
	access_flags = ALL_ACCESS;
	to_access = ON_DEMAND;
	walk(&(struct path){
		.name = "re-register: paged from now on", .prepare = forget_pages,
		.before = reg, .call = rereg, .works = works, .intact = works,
		.after = dereg, .late = true,
	});
	access_flags = ON_DEMAND;
}

/* ---- pages that come and go ---- */

static enum ibv_advise_mr_advice advice;

static int advise(void)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)memory, .length = SIZE, .lkey = mr->lkey,
	};

	return ibv_advise_mr(home.pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

static int have_pages(void)
{
	int err = reg();

	if (!err)
		memset(memory, 1, SIZE);
	return err;
}

/* Unmaps a page between two others: the process's mapping is split in two. */
static int let_go(void)
{
	return munmap(memory + PAGE, PAGE) ? errno : 0;
}

static int have_again(void)
{
	if (mmap(memory + PAGE, PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return errno;
	return dereg();
}

static void walk_pages(void)
{
	static const char *const names[] = {
		[IBV_ADVISE_MR_ADVICE_PREFETCH] = "fetch pages to be read",
		[IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE] = "fetch pages to be written",
		[IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT] = "enter pages that there are",
	};

	for (advice = IBV_ADVISE_MR_ADVICE_PREFETCH;
	     advice <= IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT; advice++)
		walk(&(struct path){
			.name = names[advice], .prepare = forget_pages,
			.before = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ?
				  have_pages : reg,
			.call = advise, .works = works, .intact = works, .after = dereg,
		});
	walk(&(struct path){
		.name = "let a page go", .before = have_pages, .call = let_go,
		.works = works, .intact = works, .after = have_again,
	});
}

/* ---- page requests ---- */

/* Memory that is short once is no error: the worker tries the fault again. */
static void test_page_requests(void)
{
	struct holdings before, after;
	unsigned int failed = 0, misses = 0;

	must(reg, "register");
	holdings_get(&before);
	/* If another worker did the work, no fault was hit: try the point again. */
	while (misses < MISSES && failed < MOST_POINTS) {
		forget_pages();
		if (!works())
			break;
		forget_pages();
		workers_arm(failed + 1);
		if (!works())
			break;
		if (workers_disarm()) {
			failed++;
			misses = 0;
		} else {
			misses++;
		}
	}
	holdings_get(&after);
	tap_ok(misses == MISSES && failed > 1,
	       "page requests: %u points of the workers, none is seen", failed);
	tap_ok(holdings_equal(&before, &after), "page requests: nothing is left");
	must(dereg, "deregister");
}

int main(void)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx;
	long pinned;

	if (!fault_setup()) {
		printf("1..0 # SKIP " FAULT_NONE "\n");
		return 0;
	}
	pinned = pinned_pages();
	ctx = open_nic(nic_name(), &attr);
	pair_open(&home, ctx, &pair_defaults);
	pair_connect(&home);
	holdings_open();
	memory = map_pages(SIZE);
	access_flags = ON_DEMAND;
	walk_reregistering();
	do {
		walk_registering();
		walk_pages();
		test_page_requests();
		implicit = !implicit;
	} while (implicit);
	munmap(memory, SIZE);
	return walk_done(&home, pinned);
}
