// SPDX-License-Identifier: GPL-2.0
/*
 * Memory is freed as soon as its MR is deregistered, or before, while requests
 * write to it and read into it: the next owner of the pages must find its own
 * data in them.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tap.h"
#include "window.h"

#define LENGTH	(32u << 10)
#define HEIRS	8		/* mappings of the same size, made after freeing */
#define AT_ONCE	4
#define ROUNDS	40
#define CANARY	0xc5

/* How the memory is freed. */
enum way { UNMAP_AFTER, UNMAP_BEFORE, DISCARD_BEFORE, WAYS };

static const char *const way_names[] = {
	[UNMAP_AFTER] = "unmapped after dereg",
	[UNMAP_BEFORE] = "unmapped before dereg",
	[DISCARD_BEFORE] = "MADV_DONTNEED before dereg",
};

/* A thread that moves data into the memory, by its rkey or its lkey. */
struct sender {
	struct pair pair;
	bool local;		/* by READs with the lkey, else by WRITEs */
	unsigned int good, refused, odd;
};

static _Atomic uint32_t key;	/* of the present MR; 0: none yet */
static _Atomic uint64_t addr;
static atomic_uint turns;	/* of all senders */
static atomic_bool over;

static uint8_t *map(void)
{
	uint8_t *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
			       0);

	if (memory == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return memory;
}

static void post_one(struct sender *sender)
{
	struct side *a = &sender->pair.a, *b = &sender->pair.b;
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = a->buf, .length = LENGTH,
		.lkey = a->mr->lkey, .remote = addr, .rkey = key,
	};

	if (sender->local) {
		request.opcode = IBV_WR_RDMA_READ;
		request.local = (uint8_t *)(uintptr_t)addr;
		request.lkey = key;
		request.remote = (uintptr_t)b->buf;
		request.rkey = b->mr->rkey;
	}
	if (post(a, &request))
		tap_bail("posting");
}

static void *send_on(void *arg)
{
	struct sender *sender = arg;
	enum ibv_wc_status error = sender->local ? IBV_WC_LOC_PROT_ERR :
						   IBV_WC_REM_ACCESS_ERR;
	struct ibv_wc wc;
	bool failed;
	int i;

	while (!atomic_load(&over)) {
		for (i = 0; i < AT_ONCE; i++)
			post_one(sender);
		for (i = 0, failed = false; i < AT_ONCE; i++) {
			if (!wait_wc(sender->pair.a.send_cq, &wc))
				tap_bail("a completion is lost");
			if (!wc.status)
				sender->good++;
			else if (ended_with(wc.status, error))
				sender->refused++;
			else if (!failed || wc.status != IBV_WC_WR_FLUSH_ERR)
				sender->odd++;
			failed |= wc.status;
		}
		if (failed)
			pair_reset(&sender->pair);
		atomic_fetch_add(&turns, 1);
	}
	return NULL;
}

static void await_turns(unsigned int more)
{
	unsigned int from = atomic_load(&turns);

	while (atomic_load(&turns) - from < more)
		sched_yield();
}

static bool is_canary(const uint8_t *memory)
{
	return memory[0] == CANARY && !memcmp(memory, memory + 1, LENGTH - 1);
}

/*
 * One round: memory is registered, used and freed; later mappings must keep
 * their data.
 */
static bool inherit(struct ibv_pd *pd, enum way way)
{
	uint8_t *memory = map(), *heirs[HEIRS];
	struct ibv_mr *mr = must_reg(pd, memory, LENGTH, ALL_ACCESS);
	bool good = true;
	int i;

	atomic_store(&addr, (uintptr_t)memory);
	atomic_store(&key, mr->lkey);
	await_turns(3);
	if (way == UNMAP_BEFORE)
		munmap(memory, LENGTH);
	if (way == DISCARD_BEFORE)
		madvise(memory, LENGTH, MADV_DONTNEED);
	if (ibv_dereg_mr(mr))
		tap_bail("ibv_dereg_mr");
	if (way == UNMAP_AFTER)
		munmap(memory, LENGTH);
	for (i = 0; i < HEIRS; i++) {
		heirs[i] = map();
		memset(heirs[i], CANARY, LENGTH);
	}
	/* By then, requests posted before the deregistration have ended. */
	await_turns(3);
	for (i = 0; i < HEIRS; i++) {
		good &= is_canary(heirs[i]);
		munmap(heirs[i], LENGTH);
	}
	if (way == DISCARD_BEFORE)
		munmap(memory, LENGTH);
	return good;
}

int main(void)
{
	struct pair_config config = pair_defaults;
	struct sender senders[2] = { { .local = false }, { .local = true } };
	struct ibv_device_attr attr;
	struct ibv_pd *pd = NULL;
	struct ibv_mr *first;
	pthread_t threads[2];
	unsigned int i, bad;

	for (i = 0; i < 2; i++) {
		senders[i].pair.pd = pd;
		pair_open(&senders[i].pair,
			  i ? senders[0].pair.ctx : open_nic(NULL, &attr),
			  &config);
		pair_connect(&senders[i].pair);
		pd = senders[0].pair.pd;
	}
	first = must_reg(pd, senders[0].pair.b.buf, LENGTH, ALL_ACCESS);
	addr = (uintptr_t)senders[0].pair.b.buf;
	key = first->lkey;
	for (i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, send_on, &senders[i]))
			tap_bail("pthread_create");
	for (enum way way = 0; way < WAYS; way++) {
		for (i = 0, bad = 0; i < ROUNDS; i++)
			bad += !inherit(pd, way);
		tap_is(bad, 0, "%s: nothing comes after it", way_names[way]);
	}
	atomic_store(&over, true);
	for (i = 0; i < 2; i++) {
		const char *name = senders[i].local ? "READs into it" :
						      "WRITEs to it";

		pthread_join(threads[i], NULL);
		tap_ok(senders[i].good && senders[i].refused,
		       "%s: %u good, %u refused", name, senders[i].good,
		       senders[i].refused);
		tap_is(senders[i].odd, 0, "%s: no other error", name);
	}
	tap_is(ibv_dereg_mr(first), 0, "the MR before all of them");
	pair_close(&senders[1].pair);
	pair_close(&senders[0].pair);
	return tap_done();
}
