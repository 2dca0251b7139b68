// SPDX-License-Identifier: GPL-2.0
/*
 * Sends messages over an unreliable connection whose port loses some packets. Reads
 * lines: "send N" sends messages and prints how many sends have completed; "count"
 * sends a last message, waits for it, and prints how many messages arrived whole and in
 * order, and how many arrived otherwise.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "pair.h"
#include "tap.h"

#define LENGTH	3000u	/* three packets */
#define MOST	100u
#define LAST	0xffffffffu

static struct pair pair;
static uint32_t asked;

static uint8_t *place(struct side *side, uint32_t index)
{
	return side->buf + index * LENGTH;
}

static bool send_one(uint32_t imm, uint32_t index, uint32_t length)
{
	struct request request = {
		.opcode = IBV_WR_SEND_WITH_IMM, .wr_id = imm,
		.local = place(&pair.a, index), .length = length,
		.lkey = pair.a.mr->lkey, .imm = htobe32(imm),
	};
	struct ibv_wc wc;

	return !post(&pair.a, &request) && wait_wc(pair.a.send_cq, &wc) &&
	       !wc.status && wc.wr_id == imm;
}

/* Each message has bytes of its own, and a receive. */
static uint32_t send_all(uint32_t num)
{
	uint32_t i, done = 0;

	pair_reset(&pair);
	memset(pair.b.buf, 0, pair.config.buffer_size);
	for (i = 0; i <= num; i++)
		if (post_receive(&pair.b, i, place(&pair.b, i), LENGTH,
				 pair.b.mr->lkey))
			tap_bail("cannot post a receive");
	for (i = 0; i < num; i++) {
		fill(place(&pair.a, i), LENGTH, i);
		done += send_one(i, i, LENGTH);
	}
	asked = num;
	return done;
}

/* The n-th message that arrives takes the n-th receive. */
static void count(void)
{
	uint32_t next = 0, good = 0, bad = 0, slot;
	struct ibv_wc wc;

	if (!send_one(LAST, asked, 0))
		tap_bail("cannot send");
	for (slot = 0;; slot++) {
		uint32_t imm;

		if (!wait_wc(pair.b.recv_cq, &wc))
			tap_bail("the last message did not arrive");
		imm = be32toh(wc.imm_data);
		if (!wc.status && imm == LAST)
			break;
		if (!wc.status && wc.wr_id == slot && imm >= next && imm < asked &&
		    wc.byte_len == LENGTH &&
		    is_filled(place(&pair.b, slot), LENGTH, imm))
			good++;
		else
			bad++;
		next = imm + 1;
	}
	printf("%u %u\n", good, bad);
}

int main(void)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	unsigned int num;
	char line[64];
	bool quiet;

	config.type = IBV_QPT_UC;
	config.recv_wr = MOST + 1;
	config.buffer_size = (MOST + 1) * LENGTH;
	pair_open(&pair, open_nic(NULL, &attr), &config);
	pair_connect(&pair);
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "send %u", &num) == 1 && num <= MOST)
			printf("%u\n", send_all(num));
		else if (!strcmp(line, "count\n"))
			count();
		else
			tap_bail("what is '%s'?", line);
	}
	quiet = no_event(pair.ctx);
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return quiet ? 0 : 1;
}
