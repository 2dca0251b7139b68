// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: persistent FILE
 *
 * FLUSH_PERSISTENT with memory that outlives a loss of power: FILE is a DAX device.
 * Other memory is test_flush's subject.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "paged.h"
#include "placed.h"
#include "tap.h"

#define HUGE		(2ul << 20)	/* mapped at once, and aligned */
#define SIZE		8192u
#define GLOBAL		IBV_ACCESS_FLUSH_GLOBAL
#define PERSISTENT	IBV_ACCESS_FLUSH_PERSISTENT
#define RIGHTS_OF_MR	(ALL_ACCESS | IBV_ACCESS_MW_BIND | GLOBAL)

static struct pair both;
static uint8_t *memory;		/* HUGE bytes that are persistent, and as many that are not */

static struct flush persistently(struct flush flush)
{
	flush.type = IBV_FLUSH_PERSISTENT;
	return flush;
}

static void map_memory(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t *room;

	if (fd < 0)
		tap_bail("%s: %s", path, strerror(errno));
	room = mmap(NULL, 3 * HUGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	room += -(uintptr_t)room & (HUGE - 1);
	memory = mmap(room, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	if (memory == MAP_FAILED)
		tap_bail("mmap of %s: %s", path, strerror(errno));
	close(fd);
}

static bool reg_fails(void *at, size_t length, int due)
{
	struct ibv_mr *bad = ibv_reg_mr(both.pd, at, length, RIGHTS_OF_MR | PERSISTENT);

	if (!bad)
		return errno == due;
	ibv_dereg_mr(bad);
	return false;
}

/* Persistent access is granted only if all of the memory is persistent. */
static void test_registration(void)
{
	tap_ok(reg_fails(memory + HUGE, PAGE, EINVAL), "ordinary memory behind it: EINVAL");
	tap_ok(reg_fails(memory + HUGE - PAGE, 2 * PAGE, EINVAL),
	       "the last page of it and the first that is not: EINVAL");
	tap_ok(!reg_fails(memory + HUGE - PAGE, PAGE, EINVAL), "its last page");
}

static void write_there(struct ibv_mr *to, uint8_t seed)
{
	struct outcome o;

	fill(both.a.buf, SIZE, seed);
	o = ask(&both, IBV_WR_RDMA_WRITE, to->rkey, (uintptr_t)memory, SIZE);
	tap_ok(is(o, IBV_WC_SUCCESS), "written");
}

static void test_flush(struct ibv_mr *to)
{
	struct flush of_both = flush_range(to->rkey, memory, SIZE);

	write_there(to, 5);
	expect_flushed(&both, persistently(flush_range(to->rkey, memory, SIZE)),
		       "a range, PERSISTENT");
	tap_ok(is_filled(memory, SIZE, 5), "it has what was written");
	write_there(to, 6);
	expect_flushed(&both, persistently(flush_region(to->rkey)), "the region, PERSISTENT");
	of_both.type |= IBV_FLUSH_PERSISTENT;
	expect_flushed(&both, of_both, "GLOBAL and PERSISTENT");
	tap_ok(is_filled(memory, SIZE, 6), "it has what was written");
}

/* The right to flush is the region's, whatever its memory is. */
static void test_rights(void)
{
	struct ibv_mr *plain = must_reg(both.pd, memory, SIZE, RIGHTS_OF_MR);

	fill_sides(&both);
	expect_refusal(&both, post_flush(&both.a, &(struct flush){
		.rkey = plain->rkey, .at = (uintptr_t)memory, .length = SIZE,
		.type = IBV_FLUSH_PERSISTENT, .level = IBV_FLUSH_RANGE,
	}), IBV_WC_REM_ACCESS_ERR, "PERSISTENT of an MR without the right");
	tap_is(ibv_rereg_mr(plain, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    RIGHTS_OF_MR | PERSISTENT), 0, "the right comes with ibv_rereg_mr");
	expect_flushed(&both, persistently(flush_region(plain->rkey)), "and allows it");
	ibv_dereg_mr(plain);
}

/* A window can grant what its region allows, this right included. */
static void test_windows(struct ibv_mr *of)
{
	struct ibv_mr *plain = must_reg(both.pd, memory, SIZE, RIGHTS_OF_MR);
	struct ibv_mw *mw = must_alloc_mw(both.pd, IBV_MW_TYPE_2);
	const struct api *by = &apis[1];
	struct outcome o;

	/* The window is bound at the responder's side. */
	must_bind(by, &both.b, mw, of, (uintptr_t)memory, SIZE,
		  IBV_ACCESS_REMOTE_WRITE | PERSISTENT);
	expect_flushed(&both, persistently(flush_region(mw->rkey)), "through a window");
	tap_ok(is(invalidate(by, &both.b, mw->rkey), IBV_WC_SUCCESS), "invalidated");
	o = bind_window(by, &both.b, mw, ibv_inc_rkey(mw->rkey), plain,
			(uintptr_t)memory, SIZE, PERSISTENT);
	tap_ok(!o.posted && o.status == IBV_WC_MW_BIND_ERR && o.syndrome == SYN_RIGHTS,
	       "no window with the right to an MR without it");
	revive(&both);
	tap_is(ibv_dealloc_mw(mw), 0, "ibv_dealloc_mw");
	ibv_dereg_mr(plain);
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	struct ibv_mr *region;

	if (argc != 2) {
		fprintf(stderr, "usage: %s FILE, a device of persistent memory (DAX)\n", argv[0]);
		return 2;
	}
	config.send_ops = PLACED_OPS;
	config.qp_access = ALL_ACCESS | GLOBAL | PERSISTENT;
	pair_open(&both, open_nic("moor0", &attr), &config);
	pair_connect(&both);
	map_memory(argv[1]);
	test_registration();
	region = must_reg(both.pd, memory, HUGE, RIGHTS_OF_MR | PERSISTENT);
	test_flush(region);
	test_rights();
	test_windows(region);
	tap_is(ibv_dereg_mr(region), 0, "ibv_dereg_mr");
	pair_close(&both);
	return tap_done();
}
