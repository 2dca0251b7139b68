// SPDX-License-Identifier: GPL-2.0
/*
 * A process ends with windows bound: windows of both types, to an MR of its own or of
 * on-NIC memory, made before the MR or after it, so that the kernel frees either of
 * them first. Nothing may be left, and the kernel may not warn, which would end the
 * guest.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counts.h"
#include "tap.h"
#include "window.h"

#define LENGTH	8192u

static struct ibv_mr *reg(struct pair *pair, bool on_nic)
{
	struct ibv_alloc_dm_attr attr = { .length = LENGTH };
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	void *buf;

	if (!on_nic) {
		buf = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return must_reg(pair->pd, buf, LENGTH, BINDABLE);
	}
	dm = ibv_alloc_dm(pair->ctx, &attr);
	if (!dm)
		tap_bail("ibv_alloc_dm: %s", strerror(errno));
	mr = ibv_reg_dm_mr(pair->pd, dm, 0, LENGTH,
			   IBV_ACCESS_ZERO_BASED | BINDABLE);
	if (!mr)
		tap_bail("ibv_reg_dm_mr: %s", strerror(errno));
	return mr;
}

static _Noreturn void live(bool on_nic, enum ibv_mw_type type, bool window_first)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	struct ibv_mw *mw = NULL;
	struct ibv_mr *mr;
	struct pair pair = {};

	config.send_ops = WINDOW_OPS;
	pair_open(&pair, open_nic(NULL, &attr), &config);
	pair_connect(&pair);
	if (window_first)
		mw = must_alloc_mw(pair.pd, type);
	mr = reg(&pair, on_nic);
	if (!window_first)
		mw = must_alloc_mw(pair.pd, type);
	must_bind(&apis[0], &pair.b, mw, mr, on_nic ? 0 : (uintptr_t)mr->addr,
		  LENGTH, IBV_ACCESS_REMOTE_WRITE);
	_exit(0);
}

/* Can all of the NIC's memory be allocated? */
static bool dm_is_free(void)
{
	struct ibv_device_attr_ex attr = {};
	struct ibv_alloc_dm_attr dm_attr = {};
	struct ibv_context *ctx = open_nic(NULL, &attr.orig_attr);
	struct ibv_dm *dm;

	ibv_query_device_ex(ctx, NULL, &attr);
	dm_attr.length = attr.max_dm_size;
	dm = ibv_alloc_dm(ctx, &dm_attr);
	if (dm)
		ibv_free_dm(dm);
	ibv_close_device(ctx);
	return dm;
}

int main(void)
{
	long pinned = pinned_pages();
	int status, i;
	pid_t pid;

	for (i = 0; i < 8; i++) {
		bool on_nic = i & 1, window_first = i & 4;
		enum ibv_mw_type type = i & 2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;

		pid = fork();
		if (!pid)
			live(on_nic, type, window_first);
		if (waitpid(pid, &status, 0) != pid)
			tap_bail("waitpid: %s", strerror(errno));
		tap_is(status, 0, "type %d window, made %s an MR of %s memory",
		       type, window_first ? "before" : "after",
		       on_nic ? "the NIC's" : "its");
	}
	expect_nothing_left(pinned);
	tap_ok(dm_is_free(), "all of the on-NIC memory is free");
	return tap_done();
}
