// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: registration [--most BYTES] [--step FACTOR] DEVICE [OTHER]
 *
 * What ibv_reg_mr, ibv_rereg_mr and ibv_dereg_mr take, on one buffer after the other,
 * with the devices in turn on each. To compare with: pinning the same buffer for DEVICE
 * without registering it (if tests/kernel is loaded), and registering it with io_uring,
 * which no device sees. Each kind of memory in sizes up to BYTES (1 GiB), each FACTOR
 * (4) times the one before. Then calls that do little, and the end of a process.
 *
 * Prints figures as lib/figures.h has them; what a device cannot do is left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/moor_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "figures.h"
#include "mapping.h"
#include "open.h"

#define PIN		"/sys/kernel/debug/moor_verbs_test/pin"
#define CLOSE_COUNT	1000
#define DEVICES_MAX	2
#define ACCESS		IBV_ACCESS_LOCAL_WRITE

/* The operations measured on an MR, in this order. */
enum step { REG, RIGHTS, MOVE, DEREG, STEPS };

static const char *const step_names[STEPS] = {
	[REG] = "reg", [RIGHTS] = "rereg: rights", [MOVE] = "rereg: memory", [DEREG] = "dereg",
};

struct device {
	const char *name;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct figure figures[STEPS];
};

static const struct sort plain = { .kind = "", .of = "" };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void open_device(struct device *device, const char *name)
{
	device->name = name;
	device->pd = open_pd(name);
	device->ctx = device->pd->context;
}

static struct ibv_mr *reg(struct device *device, const struct mapping *mapping)
{
	if (mapping->kind == DMABUF)
		return ibv_reg_dmabuf_mr(device->pd, 0, mapping->length, mapping->iova, mapping->fd,
					 ACCESS);
	return ibv_reg_mr_iova(device->pd, mapping->at, mapping->length, mapping->iova, ACCESS);
}

/* ibv_rereg_mr() takes neither an iova nor a dma-buf. */
static void measure_rereg(struct device *device, struct ibv_mr *mr, const struct mapping *mapping)
{
	bool can_move = mapping->kind != ASKEW && mapping->kind != DMABUF;
	struct figure *figures = device->figures;
	uint64_t start = now_ns();

	if (!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			  ACCESS | IBV_ACCESS_REMOTE_WRITE))
		take(&figures[RIGHTS], &start);
	start = now_ns();
	if (can_move && !ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, mapping->at,
				      mapping->length, 0))
		take(&figures[MOVE], &start);
}

static void measure_mr(struct device *device, const struct mapping *mapping)
{
	struct figure *figures = device->figures;
	uint64_t start = now_ns();
	struct ibv_mr *mr = reg(device, mapping);

	if (!mr && errno == EOPNOTSUPP)
		return;
	if (!mr)
		die("registering");
	take(&figures[REG], &start);
	measure_rereg(device, mr, mapping);
	start = now_ns();
	if (ibv_dereg_mr(mr))
		die("ibv_dereg_mr");
	take(&figures[DEREG], &start);
}

/* ---- what registering cannot be faster than ---- */

struct floor {
	int file;
	struct figure on, off;
};

static void measure_pin(struct floor *floor, const struct device *device,
			const struct mapping *mapping)
{
	unsigned long long on, off;
	char text[128] = "";

	snprintf(text, sizeof(text), "%s %llu %llu", device->name,
		 (unsigned long long)(uintptr_t)mapping->at, (unsigned long long)mapping->length);
	if (write(floor->file, text, strlen(text)) < 0 ||
	    pread(floor->file, text, sizeof(text) - 1, 0) < 0 ||
	    sscanf(text, "%llu %llu", &on, &off) != 2)
		die(PIN);
	floor->on.took[floor->on.count++] = on;
	floor->off.took[floor->off.count++] = off;
}

static int open_ring(void)
{
	struct io_uring_params params = {};

	return syscall(__NR_io_uring_setup, 1, &params);
}

static void measure_ring(struct floor *floor, const struct mapping *mapping)
{
	struct iovec buffer = { .iov_base = mapping->at, .iov_len = mapping->length };
	uint64_t start = now_ns();

	if (syscall(__NR_io_uring_register, floor->file, IORING_REGISTER_BUFFERS, &buffer, 1))
		die("IORING_REGISTER_BUFFERS");
	take(&floor->on, &start);
	if (syscall(__NR_io_uring_register, floor->file, IORING_UNREGISTER_BUFFERS, NULL, 0))
		die("IORING_UNREGISTER_BUFFERS");
	take(&floor->off, &start);
}

static void show_floor(struct floor *floor, const struct sort *sort, const char *whose)
{
	show(&floor->on, step_names[REG], sort, whose);
	show(&floor->off, step_names[DEREG], sort, whose);
}

/* ---- all of them on a buffer ---- */

static int rounds_for(size_t length)
{
	if (length <= 64ul << 10)
		return ROUNDS_MAX;
	return length <= 4ul << 20 ? 31 : length <= 64ul << 20 ? 7 : 3;
}

static void measure_memory(struct device *devices, int num, struct floor *pin, struct floor *ring,
			   enum mapping_kind kind, size_t length)
{
	struct sort sort = { mapping_info[kind].name, length, "bytes" };
	struct mapping mapping;
	int round, i, step;

	if (mapping_make(&mapping, kind, length)) {
		fprintf(stderr, "%s, %zu bytes: %s\n", sort.kind, length, strerror(errno));
		return;
	}
	for (round = 0; round < rounds_for(length); round++) {
		for (i = 0; i < num; i++)
			measure_mr(&devices[i], &mapping);
		if (pin->file >= 0 && kind != DMABUF)
			measure_pin(pin, &devices[0], &mapping);
		if (ring->file >= 0 && kind != DMABUF)
			measure_ring(ring, &mapping);
	}
	for (i = 0; i < num; i++)
		for (step = 0; step < STEPS; step++)
			show(&devices[i].figures[step], step_names[step], &sort, devices[i].name);
	show_floor(pin, &sort, "pinning");
	show_floor(ring, &sort, "io_uring");
	mapping_free(&mapping);
}

/* ---- calls that pin nothing ---- */

/* A call that only copies a few bytes to the process. Moor NICs alone have it. */
static void measure_call(const struct device *device)
{
	static struct figure figure;
	struct moor_refusal refusal;
	uint64_t start = now_ns();
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attr;
	} call = {
		.hdr = {
			.length = sizeof(call),
			.object_id = UVERBS_OBJECT_DEVICE,
			.method_id = MOOR_METHOD_DEVICE_REFUSAL,
			.num_attrs = 1,
		},
		.attr = {
			.attr_id = MOOR_ATTR_DEVICE_REFUSAL,
			.flags = UVERBS_ATTR_F_MANDATORY,
			.len = sizeof(refusal),
			.data = (uintptr_t)&refusal,
		},
	};

	while (figure.count < ROUNDS_MAX && !ioctl(device->ctx->cmd_fd, RDMA_VERBS_IOCTL, &call))
		take(&figure, &start);
	show(&figure, "a method of uverbs", &plain, device->name);
}

/* Making a small object, a PD. */
static void measure_object(const struct device *device)
{
	static struct figure on, off;
	struct ibv_pd *pd;
	uint64_t start;

	while (on.count < ROUNDS_MAX) {
		start = now_ns();
		pd = ibv_alloc_pd(device->ctx);
		if (!pd)
			die("ibv_alloc_pd");
		take(&on, &start);
		ibv_dealloc_pd(pd);
		take(&off, &start);
	}
	show(&on, "ibv_alloc_pd", &plain, device->name);
	show(&off, "ibv_dealloc_pd", &plain, device->name);
}

/* Closing a context with open MRs, which the kernel frees as when a process ends. */
static void measure_close(const char *name)
{
	struct figure figure = { .count = 1 };
	struct device device = {};
	struct mapping mapping;
	uint64_t start;
	int i;

	open_device(&device, name);
	if (mapping_make(&mapping, IN_ORDER, mapping_info[IN_ORDER].least))
		die("memory");
	for (i = 0; i < CLOSE_COUNT; i++)
		if (!reg(&device, &mapping))
			die("ibv_reg_mr");
	start = now_ns();
	ibv_close_device(device.ctx);
	figure.took[0] = (now_ns() - start) / CLOSE_COUNT;
	show(&figure, "the end of a process with 1000 MRs: each", &plain, name);
	mapping_free(&mapping);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "most", required_argument, NULL, 'm' },
		{ "step", required_argument, NULL, 's' },
		{}
	};
	static struct floor pin, ring;
	static struct device devices[DEVICES_MAX];
	size_t most = 1ul << 30, step = 4, length;
	int option, num, kind, i;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'm')
			most = strtoul(optarg, NULL, 0);
		if (option == 's')
			step = strtoul(optarg, NULL, 0);
		if (option == '?')
			optind = argc;
	}
	num = argc - optind;
	if (num < 1 || num > DEVICES_MAX || step < 2) {
		fprintf(stderr, "usage: registration [--most BYTES] [--step FACTOR] "
			"DEVICE [OTHER]\n");
		return 1;
	}
	pin.file = open(PIN, O_RDWR);
	ring.file = open_ring();
	for (i = 0; i < num; i++)
		open_device(&devices[i], argv[optind + i]);
	for (kind = 0; kind < MAPPING_KINDS; kind++)
		for (length = mapping_info[kind].least;
		     length <= mapping_info[kind].most && length <= most; length *= step)
			measure_memory(devices, num, &pin, &ring, kind, length);
	measure_call(&devices[0]);
	for (i = 0; i < num; i++)
		measure_object(&devices[i]);
	for (i = 0; i < num; i++)
		measure_close(devices[i].name);
	return 0;
}
