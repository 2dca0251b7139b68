// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: traffic
 *
 * Moves data without a pause while a hundred threads have a registration in progress
 * each and another one held. Says "ready" when all that is under way. Then reads from
 * standard input what the device should be now, checks that, frees everything, and ends
 * with status 0:
 *
 *   gone    the device has gone, and calls fail with EIO
 *   here    the device works
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pair.h"
#include "tap.h"

#define THREADS		100
#define LENGTH		(32 * 1024u)
#define STACK		(64 * 1024u)

static struct pair pair;
static uint8_t *memory;
static atomic_bool stop;
static atomic_ulong transfers, registrations;
static atomic_int wrong;	/* errno of a call that must not fail so */

static struct ibv_mr *reg(uint8_t *addr)
{
	return ibv_reg_mr(pair.pd, addr, LENGTH, ALL_ACCESS);
}

static void *register_all_the_time(void *arg)
{
	uint8_t *addr = arg;
	struct ibv_mr *held = reg(addr + LENGTH), *mr;

	while (held && !stop) {
		mr = reg(addr);
		if (!mr) {
			if (errno != EIO)
				wrong = errno;
			break;
		}
		/* If the device dies meanwhile, the MR stays as it was. */
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, addr,
			     LENGTH / 2, 0);
		if (ibv_dereg_mr(mr))
			wrong = EBUSY;
		registrations++;
	}
	return held;
}

/* Each transfer must bring the bytes that were sent, or end in an error. */
static void *transfer_all_the_time(void *arg)
{
	struct request request = {
		.local = pair.a.buf, .lkey = pair.a.mr->lkey,
		.remote = (uintptr_t)pair.b.buf, .rkey = pair.b.mr->rkey,
		.length = pair.config.buffer_size,
	};
	struct ibv_wc wc = {};
	int got;

	while (!stop && !wc.status) {
		request.opcode = transfers & 1 ? IBV_WR_RDMA_READ :
						 IBV_WR_RDMA_WRITE;
		if (post(&pair.a, &request))
			break;
		do {
			got = ibv_poll_cq(pair.a.send_cq, 1, &wc);
		} while (!got && !stop);
		if (got < 0)
			break;
		if (got && !wc.status &&
		    !is_filled(pair.b.buf, pair.config.buffer_size, 7))
			wrong = EIO;
		transfers += got;
	}
	return arg;
}

static void start(pthread_t *thread, void *(*what)(void *), void *arg)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	if (pthread_create(thread, &attr, what, arg))
		tap_bail("no more threads");
}

static void try_device(bool gone)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = reg(memory);
	if (gone) {
		tap_ok(!mr && errno == EIO, "registering: EIO");
	} else {
		tap_ok(mr, "registering works");
		tap_ok(mr && !ibv_dereg_mr(mr), "and so does deregistering");
	}
}

int main(void)
{
	pthread_t worker[THREADS], mover;
	struct ibv_device_attr attr;
	unsigned int held = 0, let_go = 0;
	char line[16];
	void *mr;
	int i;

	pair_open(&pair, open_nic(NULL, &attr), &pair_defaults);
	pair_connect(&pair);
	fill(pair.a.buf, pair.config.buffer_size, 7);
	fill(pair.b.buf, pair.config.buffer_size, 7);
	memory = mmap(NULL, THREADS * 2ul * LENGTH, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	start(&mover, transfer_all_the_time, NULL);
	for (i = 0; i < THREADS; i++)
		start(&worker[i], register_all_the_time,
		      memory + i * 2ul * LENGTH);
	while (transfers < 10 || registrations < THREADS)
		sched_yield();
	printf("ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;

	stop = true;
	pthread_join(mover, NULL);
	try_device(line[0] == 'g');
	for (i = 0; i < THREADS; i++) {
		pthread_join(worker[i], &mr);
		if (!mr)
			continue;
		held++;
		let_go += !ibv_dereg_mr(mr);
	}
	tap_diag("%lu transfers, %lu registrations", transfers, registrations);
	tap_is(wrong, 0, "nothing else than EIO while it went");
	tap_is(let_go, held, "all registrations that were held are let go");
	pair_close(&pair);
	return tap_done();
}
