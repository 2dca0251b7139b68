// SPDX-License-Identifier: GPL-2.0
/*
 * A pingpong for a network that loses packets: two RC queue pairs send each other
 * messages with changing data, and every byte that arrives is compared.
 *
 * Exit status: 0 when all of them were as sent.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pair.h"
#include "tap.h"

#define SIZE	16384u

/* Sends a message from @from to @to. Returns whether each byte is as sent. */
static bool message(struct side *from, struct side *to, uint8_t seed)
{
	struct request request = {
		.opcode = IBV_WR_SEND, .local = from->buf, .length = SIZE,
		.lkey = from->mr->lkey,
	};
	struct ibv_wc sent, received;

	fill(from->buf, SIZE, seed);
	if (post_receive(to, 0, to->buf, SIZE, to->mr->lkey) ||
	    post(from, &request))
		tap_bail("cannot post");
	if (!wait_wc(to->recv_cq, &received) || !wait_wc(from->send_cq, &sent))
		tap_bail("a message is lost");
	if (sent.status || received.status)
		tap_bail("a message failed: %s",
			 ibv_wc_status_str(sent.status ? sent.status :
							 received.status));
	return received.byte_len == SIZE && is_filled(to->buf, SIZE, seed);
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct pair pair = {};
	unsigned int rounds, i, whole = 0;

	if (argc != 3) {
		fprintf(stderr, "usage: %s DEVICE ROUNDS    a pingpong, each byte checked\n",
			argv[0]);
		return 2;
	}
	rounds = strtoul(argv[2], NULL, 0);
	/* A packet without an ACK is sent again after some 4 ms. */
	config.timeout = 10;
	pair_open(&pair, open_nic(argv[1], &pair.attr), &config);
	pair_connect(&pair);
	for (i = 0; i < rounds; i++) {
		whole += message(&pair.a, &pair.b, 2 * i);
		whole += message(&pair.b, &pair.a, 2 * i + 1);
	}
	pair_close(&pair);
	printf("  pingpong            %u rounds of %u KiB each way, %u bytes a packet\n",
	       rounds, SIZE / 1024, 128u << config.mtu);
	printf("  bytes               %u of %u arrived as sent\n", whole * SIZE,
	       2 * rounds * SIZE);
	return whole != 2 * rounds;
}
