// SPDX-License-Identifier: GPL-2.0
/*
 * The owner of a dma-buf takes it back, at rest and under traffic: afterwards nobody
 * reaches it, the key is of no use and stays the MR's, and nothing else is disturbed.
 * The owner is a module of ours (tests/kernel/exporter.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../kernel/exporter.h"
#include "counts.h"
#include "tap.h"
#include "window.h"

#define PAGE	4096u
#define SIZE	(EXPORTER_PAGES * PAGE)
#define ROUNDS	50

struct buffer {
	int fd;
	uint8_t *at;
	struct ibv_mr *mr;
};

static struct pair pair;
static struct ibv_device_attr attr;
static int owner;

/* Beside the programs, where the modules are built. */
static void load_owner(void)
{
	char path[PATH_MAX] = "", file[2 * PATH_MAX];
	struct utsname system;
	int fd, i;

	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		tap_bail("who am I: %s", strerror(errno));
	for (i = 0; i < 2; i++)
		*strrchr(path, '/') = 0;
	uname(&system);
	snprintf(file, sizeof(file),
		 "%s/modules/%s/tree/tests/kernel/moor_exporter.ko", path,
		 system.release);
	fd = open(file, O_RDONLY);
	if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
		tap_bail("%s: %s", file, strerror(errno));
	close(fd);
	owner = open("/dev/moor_exporter", O_RDWR);
	if (owner < 0)
		tap_bail("/dev/moor_exporter: %s", strerror(errno));
}

static struct buffer make(void)
{
	struct buffer b = { .fd = ioctl(owner, EXPORTER_MAKE) };

	b.at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, b.fd, 0);
	if (b.at == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	b.mr = ibv_reg_dmabuf_mr(pair.pd, 0, SIZE, 0, b.fd, ALL_ACCESS);
	if (!b.mr)
		tap_bail("ibv_reg_dmabuf_mr: %s", strerror(errno));
	return b;
}

static void take_back(const struct buffer *b)
{
	if (ioctl(owner, EXPORTER_TAKE_BACK, b->fd))
		tap_bail("take back: %s", strerror(errno));
}

static void put(struct buffer *b)
{
	munmap(b->at, SIZE);
	close(b->fd);
}

static bool is_marked(const struct buffer *b)
{
	size_t i;

	for (i = 0; i < SIZE; i++)
		if (b->at[i] != EXPORTER_MARK)
			return false;
	return true;
}

static enum ibv_wc_status write_to(const struct buffer *b, uint32_t length)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 7, .local = pair.a.buf,
		.length = length, .lkey = pair.a.mr->lkey,
		.rkey = b->mr->rkey, .remote = 0,
	};
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	if (post(&pair.a, &request) || !wait_wc(pair.a.send_cq, &wc))
		return IBV_WC_GENERAL_ERR;
	return wc.status;
}

static void test_at_rest(void)
{
	struct buffer b = make(), other = make();
	uint8_t *own = pair.b.buf;
	struct ibv_wc wc;

	fill(pair.a.buf, SIZE, 1);
	tap_is(write_to(&b, SIZE), IBV_WC_SUCCESS, "a WRITE into it");
	tap_ok(is_filled(b.at, SIZE, 1), "arrives");
	take_back(&b);
	tap_is(write_to(&b, SIZE), IBV_WC_REM_ACCESS_ERR,
	       "taken back: REM_ACCESS_ERR");
	tap_ok(is_marked(&b), "not a byte of it is written");
	revive(&pair);
	tap_is(post(&pair.a, &(struct request){
		.opcode = IBV_WR_RDMA_READ, .wr_id = 8, .local = 0,
		.length = 8, .lkey = b.mr->lkey, .rkey = pair.b.mr->rkey,
		.remote = (uintptr_t)own }), 0, "a READ into it is posted");
	expect_wc(pair.a.send_cq, 8, IBV_WC_LOC_PROT_ERR, &wc, "LOC_PROT_ERR");
	revive(&pair);
	tap_is(write_to(&other, SIZE), IBV_WC_SUCCESS, "another one is served");
	take_back(&b);
	tap_ok(!ibv_reg_dmabuf_mr(pair.pd, 0, SIZE, 0, b.fd, ALL_ACCESS) &&
	       errno == ENODEV, "registered anew: what its owner says, %s",
	       strerror(errno));
	tap_is(live_entries("mr"), 4, "its MR is there still");
	tap_is(ibv_dereg_mr(b.mr), 0, "and is deregistered");
	tap_is(ibv_dereg_mr(other.mr), 0, "as is the other one");
	put(&b);
	put(&other);
}

static void test_failing(void)
{
	int fd = ioctl(owner, EXPORTER_MAKE);

	ioctl(owner, EXPORTER_FAIL, fd);
	tap_ok(!ibv_reg_dmabuf_mr(pair.pd, 0, SIZE, 0, fd, ALL_ACCESS) &&
	       errno == EXPORTER_ERROR, "memory that is not to be had: %s",
	       strerror(errno));
	close(fd);
}

static void *taker(void *arg)
{
	const struct buffer *b = arg;

	/* While it is written: that it is, one sees. */
	while (!__atomic_load_n(&b->at[SIZE - 1], __ATOMIC_RELAXED))
		sched_yield();
	take_back(b);
	return NULL;
}

/* WRITEs one after the other, until one fails. */
static bool written_till_taken(struct buffer *b)
{
	enum ibv_wc_status status;

	do {
		status = write_to(b, SIZE);
	} while (status == IBV_WC_SUCCESS);
	return status == IBV_WC_REM_ACCESS_ERR;
}

static void test_under_traffic(void)
{
	unsigned int i, good = 0, kept = 0;

	fill(pair.a.buf, SIZE, 3);
	pair.a.buf[SIZE - 1] = 1;
	for (i = 0; i < ROUNDS; i++) {
		struct buffer b = make();
		pthread_t thread;

		pthread_create(&thread, NULL, taker, &b);
		good += written_till_taken(&b);
		pthread_join(thread, NULL);
		kept += is_marked(&b);
		revive(&pair);
		if (ibv_dereg_mr(b.mr))
			tap_bail("ibv_dereg_mr: %s", strerror(errno));
		put(&b);
	}
	tap_is(good, ROUNDS, "under traffic: REM_ACCESS_ERR each time");
	tap_is(kept, ROUNDS, "and nothing is written afterwards");
}

/* Whoever comes first, owner or process: both come to an end. */
static void test_race(void)
{
	unsigned int i, failed = 0;

	for (i = 0; i < ROUNDS; i++) {
		struct buffer b = make();
		pthread_t thread;

		b.at[SIZE - 1] = 1;
		pthread_create(&thread, NULL, taker, &b);
		if (i & 1)
			sched_yield();
		failed += !!ibv_dereg_mr(b.mr);
		pthread_join(thread, NULL);
		put(&b);
	}
	tap_is(failed, 0, "deregistered while it is taken back");
}

int main(void)
{
	struct pair_config config = pair_defaults;
	long pinned = pinned_pages();

	load_owner();
	config.buffer_size = SIZE;
	pair_open(&pair, open_nic(NULL, &attr), &config);
	pair_connect(&pair);
	test_at_rest();
	test_failing();
	test_under_traffic();
	test_race();
	pair_close(&pair);
	close(owner);
	tap_ok(!syscall(SYS_delete_module, "moor_exporter", O_NONBLOCK),
	       "all buffers have been given back to their owner");
	expect_nothing_left(pinned);
	return tap_done();
}
