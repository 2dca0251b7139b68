// SPDX-License-Identifier: GPL-2.0
/*
 * Moving data: each operation, at sizes around the packet and page sizes and
 * at odd addresses, with every byte checked, and the bytes around it too.
 */
#include <string.h>

#include "message.h"
#include "tap.h"

static void test_read(struct pair *pair)
{
	size_t i;

	for (i = 0; i < NUM_MESSAGE_SIZES; i++) {
		struct request request = request_at(pair, IBV_WR_RDMA_READ, 9,
						    message_sizes[i]);

		fill_both(pair);
		tap_ok(sent(pair, &request, IBV_WC_RDMA_READ, "read"),
		       "read: completion, %u bytes", message_sizes[i]);
		tap_ok(arrived(pair, &pair->b, GUARD, &pair->a, 9, message_sizes[i]),
		       "read: data, %u bytes", message_sizes[i]);
	}
}

static void put64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static void check_atomic(struct pair *pair, const struct request *request,
			 enum ibv_wc_opcode opcode, uint64_t before,
			 uint64_t after, const char *name)
{
	fill_both(pair);
	put64(pair->b.buf + GUARD, before);
	tap_ok(sent(pair, request, opcode, name), "%s: completion", name);
	tap_is(get64(request->local), before, "%s: what was there", name);
	tap_is(get64(pair->b.buf + GUARD), after, "%s: what is there", name);
	put64(pair->b.buf + GUARD, 0);
	tap_ok(rest_untouched(pair, &pair->b, GUARD, 8) &&
	       rest_untouched(pair, &pair->a, request->local - pair->a.buf, 8),
	       "%s: the rest is untouched", name);
}

static void test_atomics(struct pair *pair)
{
	struct request request = request_at(pair, IBV_WR_ATOMIC_FETCH_AND_ADD,
					    5, 8);

	request.compare_add = 3;
	check_atomic(pair, &request, IBV_WC_FETCH_ADD, 40, 43, "fetch and add");
	request.wr_id++;
	request.compare_add = 1;
	check_atomic(pair, &request, IBV_WC_FETCH_ADD, UINT64_MAX, 0,
		     "fetch and add, wrapping");

	request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	request.wr_id++;
	request.compare_add = 0x1122334455667788;
	request.swap = 99;
	check_atomic(pair, &request, IBV_WC_COMP_SWAP, request.compare_add, 99,
		     "compare and swap, equal");
	request.wr_id++;
	check_atomic(pair, &request, IBV_WC_COMP_SWAP, 7, 7,
		     "compare and swap, different");
}

/* A QP that is connected to itself. */
static void test_self(struct pair *pair)
{
	struct request request = request_at(pair, IBV_WR_RDMA_WRITE, 0, 3000);
	struct side *side = &pair->a;

	if (modify_to(side, IBV_QPS_RESET) || modify_to_init(pair, side) ||
	    modify_to_rtr(pair, side, side->qp->qp_num) ||
	    modify_to_rts(pair, side))
		tap_bail("cannot connect a QP to itself");
	fill_both(pair);
	tap_ok(sent(pair, &request, IBV_WC_RDMA_WRITE, "to itself"),
	       "a QP connected to itself: completion");
	tap_ok(arrived(pair, side, 0, &pair->b, GUARD, 3000),
	       "a QP connected to itself: data");
}

static void test_mtu(struct ibv_context *ctx, enum ibv_mtu mtu)
{
	struct pair_config config = pair_defaults;
	struct pair pair = {};

	tap_diag("path MTU %d", 128 << mtu);
	config.mtu = mtu;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	test_messages(&pair);
	test_read(&pair);
	test_atomics(&pair);
	pair_close(&pair);
}

static void test_shapes(struct ibv_context *ctx)
{
	struct pair_config config = pair_defaults;
	struct pair pair = {};

	config.sge = 16;
	config.inline_data = 200;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	test_message_shapes(&pair);
	test_self(&pair);
	pair_close(&pair);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);

	test_mtu(ctx, IBV_MTU_1024);
	test_mtu(ctx, IBV_MTU_256);
	test_mtu(ctx, IBV_MTU_4096);
	test_shapes(ctx);
	ibv_close_device(ctx);
	return tap_done();
}
