// SPDX-License-Identifier: GPL-2.0
/*
 * Moderated completion events: they wait for a number of completions or for a period,
 * but a solicited completion or an error raises one at once (HWI 11.4).
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "message.h"
#include "tap.h"

#define COUNT		6
#define PERIOD_US	65535	/* the longest there is */
#define TRIES		20

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

static int modify(struct ibv_cq *cq, int count, int period)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = count, .cq_period = period },
	};

	return ibv_modify_cq(cq, &attr);
}

/* Does an event come within @milliseconds? Consumes it. */
static bool event_within(struct pair *pair, int milliseconds)
{
	struct pollfd fd = { .fd = pair->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&fd, 1, milliseconds) != 1 ||
	    ibv_get_cq_event(pair->channel, &cq, &context))
		return false;
	ibv_ack_cq_events(cq, 1);
	return cq == pair->b.recv_cq;
}

/*
 * Does an event come with the last of @count messages, and none before? If the messages
 * take longer than the period this cannot be told, and it is tried again.
 */
static bool comes_with_last(struct pair *pair, int count, unsigned int last_flags)
{
	uint64_t start;
	bool early;
	int i;

	for (i = 0; i < TRIES; i++) {
		start = now_us();
		ibv_req_notify_cq(pair->b.recv_cq, 0);
		exchange(pair, count - 1, 0);
		early = event_within(pair, 0);
		exchange(pair, 1, last_flags);
		if (!early && !event_within(pair, 20000))
			return false;
		if (now_us() - start < PERIOD_US)
			return !early;
	}
	tap_diag("every try took longer than the period");
	return false;
}

static void test_count_and_period(struct pair *pair)
{
	struct ibv_cq *cq = pair->b.recv_cq;
	uint64_t start;

	tap_is(modify(cq, COUNT, PERIOD_US), 0, "ibv_modify_cq");
	tap_ok(comes_with_last(pair, COUNT, 0), "an event with %d completions",
	       COUNT);
	tap_ok(comes_with_last(pair, 2, IBV_SEND_SOLICITED),
	       "with the first that is solicited");
	start = now_us();
	ibv_req_notify_cq(cq, 0);
	exchange(pair, 1, 0);
	tap_ok(event_within(pair, 20000) &&
	       now_us() - start >= PERIOD_US * 9 / 10,
	       "with fewer after the period");
	tap_is(modify(cq, 1, 0), 0, "and off again");
	tap_ok(comes_with_last(pair, 1, 0), "an event with the first completion");
}

static void test_capabilities(struct ibv_context *ctx)
{
	struct ibv_device_attr_ex attr;

	if (ibv_query_device_ex(ctx, NULL, &attr))
		tap_bail("ibv_query_device_ex: %s", strerror(errno));
	tap_ok(attr.cq_mod_caps.max_cq_count == 65535 &&
	       attr.cq_mod_caps.max_cq_period == 65535,
	       "ibv_query_device_ex: up to 65535 completions and microseconds");
}

static void test_wrong(struct pair *pair)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = 1 << 5 };
	int err = ibv_modify_cq(pair->b.recv_cq, &attr);

	tap_ok(err == EOPNOTSUPP || err == EINVAL, "an unknown attribute: %s",
	       strerror(err));
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);
	struct pair pair = {};

	config.events = true;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	test_capabilities(ctx);
	test_count_and_period(&pair);
	test_wrong(&pair);
	pair_close(&pair);
	ibv_close_device(ctx);
	return tap_done();
}
