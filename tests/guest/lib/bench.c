// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>

#include "bench.h"
#include "tap.h"

struct pair pair;
struct ibv_mr *mr;
const struct api *api;
enum ibv_mw_type type;

void bench_open(struct ibv_context *ctx)
{
	struct pair_config config = pair_defaults;

	config.send_ops = WINDOW_OPS;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	mr = must_reg(pair.pd, pair.b.buf, pair.config.buffer_size, BINDABLE);
}

void bench_close(void)
{
	if (ibv_dereg_mr(mr))
		tap_bail("cannot deregister what windows were bound to");
	pair_close(&pair);
}

uint64_t start(void)
{
	return (uintptr_t)pair.b.buf + FROM;
}

const char *title(void)
{
	static char text[64];

	snprintf(text, sizeof(text), "type %d, %s", (int)type, api->name);
	return text;
}

bool refused_with(struct outcome o, uint32_t syndrome)
{
	return is(o, IBV_WC_MW_BIND_ERR) && o.syndrome == syndrome;
}

bool only_written(uint8_t seed)
{
	return is_filled(pair.b.buf, FROM, 2) &&
	       is_filled(pair.b.buf + FROM, LENGTH, seed);
}

void refill(void)
{
	fill(pair.a.buf, pair.config.buffer_size, 1);
	fill(pair.b.buf, pair.config.buffer_size, 2);
	fill(pair.b.buf + FROM, LENGTH, 3);
}

void expect_refused(const char *what, enum ibv_wr_opcode opcode,
		    uint32_t key, uint64_t remote, uint32_t length)
{
	struct outcome o;

	refill();
	o = ask(&pair, opcode, key, remote, length);
	/*
	 * If the responder's answer is lost, the syndrome is that of a timeout.
	 */
	tap_ok(is(o, IBV_WC_REM_ACCESS_ERR) &&
	       (o.status == IBV_WC_RETRY_EXC_ERR || o.syndrome == SYN_NONE) &&
	       only_written(3) && is_filled(pair.a.buf, 4096, 1),
	       "%s: %s", title(), what);
	expect_event(pair.ctx, IBV_EVENT_QP_ACCESS_ERR, pair.b.qp,
		     "event at the responder");
	revive(&pair);
}

void bind_all(struct ibv_mw *mw, unsigned int access)
{
	must_bind(api, &pair.b, mw, mr, start(), LENGTH, access);
}

void expect_free(const char *what)
{
	tap_is(ibv_dereg_mr(mr), 0, "%s: %s: MR can go", title(), what);
	mr = must_reg(pair.pd, pair.b.buf, pair.config.buffer_size, BINDABLE);
}
