// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: windows DEVICE [OTHER]
 *
 * What memory windows of both types take, on the devices in turn: ibv_alloc_mw and
 * ibv_dealloc_mw; binding, binding again (type 1) and invalidating (type 2), each until
 * it has completed. Prints figures as lib/figures.h has them.
 */
#include <stdio.h>
#include <string.h>

#include "figures.h"
#include "tap.h"
#include "window.h"

#define BYTES	4096

enum step { ALLOC, BIND, BIND_ANEW, INVALIDATE, DEALLOC, STEPS };

static const char *const step_names[STEPS] = {
	[ALLOC] = "ibv_alloc_mw", [BIND] = "bind", [BIND_ANEW] = "bind a bound one",
	[INVALIDATE] = "invalidate", [DEALLOC] = "ibv_dealloc_mw",
};

struct device {
	struct pair pair;
	struct ibv_mr *mr;
	struct figure figures[STEPS];
};

static void bind(struct device *device, struct ibv_mw *mw, enum step step)
{
	struct side *side = &device->pair.a;
	uint64_t start = now_ns();

	must_bind(&apis[0], side, mw, device->mr, (uintptr_t)side->buf, BYTES,
		  IBV_ACCESS_REMOTE_READ);
	take(&device->figures[step], &start);
}

static void measure(struct device *device, enum ibv_mw_type type)
{
	struct figure *figures = device->figures;
	uint64_t start = now_ns();
	struct ibv_mw *mw = must_alloc_mw(device->pair.pd, type);

	take(&figures[ALLOC], &start);
	bind(device, mw, BIND);
	if (type == IBV_MW_TYPE_1) {
		bind(device, mw, BIND_ANEW);
	} else {
		struct outcome o;

		start = now_ns();
		o = invalidate(&apis[0], &device->pair.a, mw->rkey);
		if (o.posted || o.status)
			tap_bail("LOCAL_INV failed");
		take(&figures[INVALIDATE], &start);
	}
	start = now_ns();
	if (ibv_dealloc_mw(mw))
		tap_bail("ibv_dealloc_mw failed");
	take(&figures[DEALLOC], &start);
}

static void open_device(struct device *device, const char *name)
{
	struct ibv_device_attr attr;
	struct pair *pair = &device->pair;

	pair_open(pair, open_nic(name, &attr), &pair_defaults);
	pair_connect(pair);
	device->mr = must_reg(pair->pd, pair->a.buf, BYTES, BINDABLE);
}

int main(int argc, char **argv)
{
	static const struct {
		enum ibv_mw_type type;
		struct sort sort;
	} types[] = {
		{ IBV_MW_TYPE_1, { .kind = "type 1", .of = "" } },
		{ IBV_MW_TYPE_2, { .kind = "type 2", .of = "" } },
	};
	static struct device devices[2];
	int num = argc - 1, round, i, t, step;

	if (num < 1 || num > 2 || !strcmp(argv[1], "--help")) {
		fprintf(stderr, "usage: windows DEVICE [OTHER]\n");
		return 1;
	}
	for (i = 0; i < num; i++)
		open_device(&devices[i], argv[i + 1]);
	for (t = 0; t < 2; t++) {
		for (round = 0; round < ROUNDS_MAX; round++)
			for (i = 0; i < num; i++)
				measure(&devices[i], types[t].type);
		for (i = 0; i < num; i++)
			for (step = 0; step < STEPS; step++)
				show(&devices[i].figures[step], step_names[step], &types[t].sort,
				     argv[i + 1]);
	}
	return 0;
}
