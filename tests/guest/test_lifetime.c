// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of an MR and its key do not end at the same time. A buffer may be
 * freed, unmapped or replaced before its MR is deregistered: the NIC goes on with
 * the pages that were pinned and touches no others. After the deregistration the
 * key is dead for every kind of operation, and the pages are the owner's alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tap.h"
#include "window.h"

#define PAGE	4096u
#define SIZE	(8 * PAGE)

static struct pair pair;

/* Pages pinned by this process, in KiB. */
static long pinned(void)
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

static uint8_t *map(void *where, int flags, int fd)
{
	uint8_t *p = mmap(where, SIZE, PROT_READ | PROT_WRITE,
			  flags | (where ? MAP_FIXED : 0), fd, 0);

	if (p == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return p;
}

static uint8_t *anonymous(void *where)
{
	return map(where, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* WRITEs and READs all of the memory by the key. Does the data come back? */
static bool key_works(const struct ibv_mr *mr, const void *addr, uint8_t seed)
{
	bool good;

	fill(pair.a.buf, SIZE, seed);
	good = !ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)addr,
		    SIZE).status;
	memset(pair.a.buf, 0, SIZE);
	return good && !ask(&pair, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)addr,
			    SIZE).status &&
	       is_filled(pair.a.buf, SIZE, seed);
}

static bool reads(const struct ibv_mr *mr, const void *addr, uint8_t seed)
{
	memset(pair.a.buf, 0, SIZE);
	return !ask(&pair, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)addr,
		    SIZE).status && is_filled(pair.a.buf, SIZE, seed);
}

/* ---- memory that is unmapped before its MR is deregistered ---- */

static void expect_unpinned(struct ibv_mr *mr, long before, const char *what)
{
	tap_is(pinned(), before + SIZE / 1024, "%s: still pinned", what);
	tap_is(ibv_dereg_mr(mr), 0, "%s: dereg", what);
	tap_is(pinned(), before, "%s: then not any more", what);
}

static void test_unmapped(void)
{
	uint8_t *buf = anonymous(NULL);
	long before = pinned();
	struct ibv_mr *mr = must_reg(pair.pd, buf, SIZE, ALL_ACCESS);

	fill(buf, SIZE, 1);
	munmap(buf, SIZE);
	tap_ok(reads(mr, buf, 1), "unmapped: the NIC has the old pages");
	tap_ok(key_works(mr, buf, 2), "unmapped: and goes on with them");
	expect_unpinned(mr, before, "unmapped");
}

/* Other memory mapped at the same address does not belong to the MR. */
static void test_replaced(void)
{
	uint8_t *buf = anonymous(NULL);
	long before = pinned();
	struct ibv_mr *mr = must_reg(pair.pd, buf, SIZE, ALL_ACCESS);

	fill(buf, SIZE, 3);
	munmap(buf, SIZE);
	anonymous(buf);
	fill(buf, SIZE, 4);
	tap_ok(reads(mr, buf, 3), "replaced: the NIC reads the old pages");
	tap_ok(key_works(mr, buf, 5) && is_filled(buf, SIZE, 4),
	       "replaced: and leaves the new ones alone");
	expect_unpinned(mr, before, "replaced");
	tap_ok(is_filled(buf, SIZE, 4), "replaced: they are as they were");
	munmap(buf, SIZE);
}

static void test_dropped(void)
{
	uint8_t *buf = anonymous(NULL);
	long before = pinned();
	struct ibv_mr *mr = must_reg(pair.pd, buf, SIZE, ALL_ACCESS);

	fill(buf, SIZE, 6);
	if (madvise(buf, SIZE, MADV_DONTNEED))
		tap_bail("madvise: %s", strerror(errno));
	tap_ok(!buf[0] && reads(mr, buf, 6),
	       "MADV_DONTNEED: the NIC has the old pages");
	expect_unpinned(mr, before, "MADV_DONTNEED");
	munmap(buf, SIZE);
}

/*
 * Large enough for the C library to return the memory to the kernel when it is freed.
 */
static void test_freed(void)
{
	uint8_t *buf = malloc(64 * SIZE);
	long before = pinned();
	struct ibv_mr *mr;

	if (!buf)
		tap_bail("no memory");
	fill(buf, SIZE, 7);
	mr = must_reg(pair.pd, buf, SIZE, ALL_ACCESS);
	free(buf);
	tap_ok(key_works(mr, mr->addr, 8), "freed: the NIC goes on");
	tap_is(ibv_dereg_mr(mr), 0, "freed: dereg");
	tap_is(pinned(), before, "freed: nothing is pinned");
}

/* Another mapping of the file shows what the NIC writes. */
static void test_shared(void)
{
	int fd = memfd_create("moor", 0);
	uint8_t *buf, *other;
	long before = pinned();
	struct ibv_mr *mr;

	if (fd < 0 || ftruncate(fd, SIZE))
		tap_bail("memfd: %s", strerror(errno));
	buf = map(NULL, MAP_SHARED, fd);
	other = map(NULL, MAP_SHARED, fd);
	mr = must_reg(pair.pd, buf, SIZE, ALL_ACCESS);
	munmap(buf, SIZE);
	tap_ok(key_works(mr, buf, 9) && is_filled(other, SIZE, 9),
	       "shared and unmapped: the other mapping sees it");
	expect_unpinned(mr, before, "shared and unmapped");
	munmap(other, SIZE);
	close(fd);
}

/* ---- keys that outlive their MR ---- */

static struct outcome local_use(enum ibv_wr_opcode opcode, uint8_t *buf,
				uint32_t lkey)
{
	struct request request = {
		.opcode = opcode, .wr_id = 2, .local = buf, .length = 8,
		.lkey = lkey, .remote = (uintptr_t)pair.a.buf,
		.rkey = pair.a.mr->rkey,
	};

	return finish(&pair.b, post(&pair.b, &request));
}

static struct outcome receive_use(uint8_t *buf, uint32_t lkey)
{
	post_receive(&pair.b, 3, buf, 8, lkey);
	return ask(&pair, IBV_WR_SEND, 0, 0, 8);
}

enum use { REMOTE, LOCAL, RECEIVE };

static const struct {
	const char *name;
	enum use use;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_status status;	/* due once the key is dead */
} uses[] = {
	{ "write", REMOTE, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR },
	{ "write with immediate", REMOTE, IBV_WR_RDMA_WRITE_WITH_IMM,
	  IBV_WC_REM_ACCESS_ERR },
	{ "read", REMOTE, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR },
	{ "compare and swap", REMOTE, IBV_WR_ATOMIC_CMP_AND_SWP,
	  IBV_WC_REM_ACCESS_ERR },
	{ "fetch and add", REMOTE, IBV_WR_ATOMIC_FETCH_AND_ADD,
	  IBV_WC_REM_ACCESS_ERR },
	{ "gather", LOCAL, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR },
	{ "scatter", LOCAL, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR },
	{ "atomic result", LOCAL, IBV_WR_ATOMIC_FETCH_AND_ADD,
	  IBV_WC_LOC_PROT_ERR },
	{ "receive", RECEIVE, IBV_WR_SEND, IBV_WC_REM_OP_ERR },
};

#define NUM_USES	(sizeof(uses) / sizeof(uses[0]))

static enum ibv_wc_status use(unsigned int i, uint8_t *buf, uint32_t key)
{
	struct outcome o;

	if (uses[i].opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		post_receive(&pair.b, 3, NULL, 0, 0);
	o = uses[i].use == REMOTE ? ask(&pair, uses[i].opcode, key,
					(uintptr_t)buf, 8) :
	    uses[i].use == LOCAL ? local_use(uses[i].opcode, buf, key) :
				   receive_use(buf, key);
	if (o.posted)
		tap_bail("posting: %s", strerror(o.posted));
	return o.status;
}

/* Uses a key several times, so that the NIC may cache it, and again when it is dead. */
static void test_dead_key(unsigned int i)
{
	uint8_t *buf = aligned_alloc(PAGE, PAGE);
	struct ibv_mr *mr = must_reg(pair.pd, buf, PAGE, ALL_ACCESS);
	enum ibv_wc_status alive, dead;
	uint32_t key = mr->lkey;
	struct ibv_wc wc;

	fill(pair.a.buf, PAGE, 1);
	fill(buf, PAGE, 2);
	alive = use(i, buf, key);
	while (ibv_poll_cq(pair.b.recv_cq, 1, &wc) > 0)
		;
	if (ibv_dereg_mr(mr))
		tap_bail("ibv_dereg_mr");
	fill(pair.a.buf, PAGE, 3);
	fill(buf, PAGE, 4);
	dead = use(i, buf, key);
	tap_ok(!alive && ended_with(dead, uses[i].status) &&
	       is_filled(buf, PAGE, 4) && is_filled(pair.a.buf, PAGE, 3),
	       "%s: %s, then %s", uses[i].name, ibv_wc_status_str(alive),
	       ibv_wc_status_str(dead));
	revive(&pair);
	while (ibv_poll_cq(pair.b.recv_cq, 1, &wc) > 0)
		;
	free(buf);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	unsigned int i;

	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr),
		  &pair_defaults);
	pair_connect(&pair);
	test_unmapped();
	test_replaced();
	test_dropped();
	test_freed();
	test_shared();
	for (i = 0; i < NUM_USES; i++)
		test_dead_key(i);
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
