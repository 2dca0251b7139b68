// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: flood
 *
 * Gives the NIC minutes of work that needs no processor: full send queues of long RDMA
 * WRITEs. Prints "ready" when they are posted, and ends at the end of its standard
 * input.
 */
#include <stdio.h>

#include "pair.h"
#include "tap.h"

#define PAIRS	32
#define DEPTH	8192
#define LENGTH	(16u << 20)	/* 4 TiB in all: minutes even at memory's own speed */

static struct pair pair[PAIRS];

int main(void)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	struct ibv_context *ctx;
	int i, j;

	config.buffer_size = LENGTH;
	config.send_wr = DEPTH;
	config.sge = 1;
	ctx = open_nic(NULL, &attr);
	for (i = 0; i < PAIRS; i++) {
		struct pair *p = &pair[i];
		struct request request = {
			.opcode = IBV_WR_RDMA_WRITE, .length = LENGTH,
		};

		p->pd = pair->pd;
		pair_open(p, ctx, &config);
		pair_connect(p);
		/* All write from and to the memory of the first. */
		config.buffer_size = 1;
		request.local = pair->a.buf;
		request.lkey = pair->a.mr->lkey;
		request.remote = (uintptr_t)pair->b.buf;
		request.rkey = pair->b.mr->rkey;
		for (j = 0; j < DEPTH; j++)
			if (post(&p->a, &request))
				tap_bail("posting ended after %d", j);
	}
	printf("ready\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
