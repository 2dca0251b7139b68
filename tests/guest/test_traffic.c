// SPDX-License-Identifier: GPL-2.0
/*
 * Deregistering and re-registering memory while the NIC is working through it. A
 * request either uses the registration as it was, or fails because its key is not valid
 * any more. It must never fail because the memory was unmapped while its key still
 * worked, which with an IOMMU would be a DMA fault.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pair.h"
#include "tap.h"

#define ROUNDS	60
#define SIZE	(256u << 10)

/* Of enum moor_syndrome. */
#define SYN_KEY		1
#define SYN_BOUNDS	4

struct traffic {
	struct pair *pair;
	pthread_t thread;
	uint8_t *memory;
	uint32_t lkey;
	int begun;			/* requests are on their way */
	struct ibv_wc end;		/* of the first request that failed */
	unsigned int good;
};

static void write_from(struct traffic *t)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1, .local = t->memory,
		.length = SIZE, .lkey = t->lkey,
		.remote = (uintptr_t)t->pair->b.buf,
		.rkey = t->pair->b.mr->rkey,
	};

	if (post(&t->pair->a, &request))
		tap_bail("cannot post");
}

/* Keeps two requests under way until one fails; then the other is flushed. */
static void *run(void *arg)
{
	struct traffic *t = arg;
	struct ibv_wc wc;

	write_from(t);
	write_from(t);
	while (wait_wc(t->pair->a.send_cq, &t->end) && !t->end.status) {
		__atomic_store_n(&t->begun, ++t->good, __ATOMIC_RELEASE);
		write_from(t);
	}
	if (!wait_wc(t->pair->a.send_cq, &wc))
		tap_bail("no completion");
	return NULL;
}

static void start(struct traffic *t)
{
	if (pthread_create(&t->thread, NULL, run, t))
		tap_bail("pthread_create");
	while (__atomic_load_n(&t->begun, __ATOMIC_ACQUIRE) < 2)
		;
}

static uint8_t *map_memory(void)
{
	uint8_t *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		tap_bail("no memory");
	return memory;
}

/* Takes the memory away, by dereg or rereg, and unmaps it at once. */
static void test_taken_away(struct pair *pair, bool rereg, const char *what)
{
	unsigned int i, gone = 0, as_due = 0;
	uint8_t *other = map_memory();
	struct ibv_mr *mr;

	for (i = 0; i < ROUNDS; i++) {
		struct traffic t = { .pair = pair, .memory = map_memory() };

		mr = ibv_reg_mr(pair->pd, t.memory, SIZE, 0);
		if (!mr)
			tap_bail("ibv_reg_mr");
		t.lkey = mr->lkey;
		start(&t);
		gone += rereg ? !ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION,
					      NULL, other, SIZE, 0) :
				!ibv_dereg_mr(mr);
		munmap(t.memory, SIZE);
		pthread_join(t.thread, NULL);
		if (t.end.status == IBV_WC_LOC_PROT_ERR &&
		    (t.end.vendor_err == SYN_KEY ||
		     (rereg && t.end.vendor_err == SYN_BOUNDS)))
			as_due++;
		else
			tap_diag("round %u: %s, syndrome %u", i,
				 ibv_wc_status_str(t.end.status),
				 t.end.vendor_err);
		if (rereg && ibv_dereg_mr(mr))
			tap_bail("ibv_dereg_mr");
		pair_reset(pair);
	}
	munmap(other, SIZE);
	tap_is(gone, ROUNDS, "%s while requests are under way", what);
	tap_is(as_due, ROUNDS, "%s: they end at the key", what);
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct pair pair = {};
	struct ibv_context *ctx;

	ctx = open_nic(argc > 1 ? argv[1] : NULL, &pair.attr);
	config.buffer_size = SIZE;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	test_taken_away(&pair, false, "dereg");
	test_taken_away(&pair, true, "rereg");
	pair_close(&pair);
	ibv_close_device(ctx);
	return tap_done();
}
