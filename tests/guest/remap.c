// SPDX-License-Identifier: GPL-2.0
/*
 * A dma-buf that is being moved while the NIC wants to write to it (dmabuf_gone.t).
 * Prints "ready" when a page request waits for the move, or "pinned" where buffers
 * cannot move. A line on standard input says that the NIC has gone; then the program
 * ends the move, and exits with 0 if nothing was written.
 */
#include <errno.h>
#include <stdio.h>

#include "owner.h"
#include "paged.h"
#include "tap.h"

static struct buffer buffer;
static struct pair pair;

static void wait_for_request(void)
{
	unsigned long long before = paged_counts().faults;
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1, .local = pair.a.buf,
		.length = 64, .lkey = pair.a.mr->lkey, .rkey = buffer.mr->rkey,
	};

	fill(pair.a.buf, 64, 0x55);
	if (post(&pair.a, &request))
		tap_bail("posting");
	while (paged_counts().faults == before)
		;
}

static int written(void)
{
	size_t i;

	for (i = 0; i < BUFFER_SIZE; i++)
		if (buffer.at[i])
			return 1;
	return 0;
}

int main(void)
{
	struct ibv_device_attr attr;
	char line[16];
	int err;

	owner_open();
	pair_open(&pair, open_nic(NULL, &attr), &pair_defaults);
	pair_connect(&pair);
	buffer = buffer_make();
	buffer_reg(&buffer, pair.pd);
	err = owner_does(EXPORTER_MOVE_BEGIN, &buffer);
	if (err && err != EBUSY)
		tap_bail("it cannot be moved: %d", err);
	if (!err)
		wait_for_request();
	puts(err ? "pinned" : "ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 2;
	if (err)
		return 0;
	owner_must(EXPORTER_MOVE_END, &buffer);
	/* Errors do not matter: the process's end closes the rest. */
	ibv_dereg_mr(buffer.mr);
	return written();
}
