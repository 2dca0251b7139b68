// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: registration DEVICE [OTHER]
 *
 * What ibv_reg_mr and ibv_dereg_mr take, on one buffer after the other, the devices in
 * turn on each, and beside them what pinning the same buffer for DEVICE takes with
 * nothing registered, if tests/kernel is loaded. Medians, in nanoseconds of this machine;
 * with 'scripts/vm --icount' they are instructions. Then what a call takes that does
 * nothing (a method of uverbs, on a Moor NIC), what one takes that makes an object and
 * no more (ibv_alloc_pd), and the end of a process with MRs of a page, by the MR.
 *
 * Of a buffer that cannot be had, for want of memory or huge pages, it says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/moor_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#define PIN		"/sys/kernel/debug/moor_verbs_test/pin"
#define PAGE		4096ul
#define HUGE		(2ul << 20)
#define ROUNDS_MAX	101
#define CLOSE_COUNT	1000
#define DEVICES_MAX	2

enum kind {
	SMALL,		/* small pages, touched from first to last */
	SCATTERED,	/* small pages that lie apart */
	HUGETLB,
	ODD,		/* huge pages, but for one */
};

static const struct buffer {
	const char *name;
	size_t length;
	enum kind kind;
	uint64_t shift;	/* of its iova against its address */
	int rounds;
} buffers[] = {
	{ "4 KiB", 4ul << 10, SMALL, 0, 101 },
	{ "64 KiB", 64ul << 10, SMALL, 0, 101 },
	{ "64 KiB, scattered", 64ul << 10, SCATTERED, 0, 101 },
	{ "1 MiB", 1ul << 20, SMALL, 0, 51 },
	{ "1 MiB, scattered", 1ul << 20, SCATTERED, 0, 51 },
	{ "16 MiB", 16ul << 20, SMALL, 0, 11 },
	{ "16 MiB, scattered", 16ul << 20, SCATTERED, 0, 11 },
	{ "256 MiB", 256ul << 20, SMALL, 0, 3 },
	{ "4 MiB, huge pages", 4ul << 20, HUGETLB, 0, 51 },
	{ "4 MiB, huge pages, iova off a page", 4ul << 20, HUGETLB, PAGE, 51 },
	{ "1 GiB, huge pages", 1ul << 30, HUGETLB, 0, 3 },
	{ "1 GiB, huge pages but one", 1ul << 30, ODD, 0, 3 },
};

struct device {
	const char *name;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
};

static struct device devices[DEVICES_MAX];
static int num_devices;

struct figure {
	uint64_t on[ROUNDS_MAX];
	uint64_t off[ROUNDS_MAX];
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void open_device(struct device *device, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **at;

	device->name = name;
	for (at = list; at && *at && !device->ctx; at++)
		if (!strcmp(ibv_get_device_name(*at), name))
			device->ctx = ibv_open_device(*at);
	ibv_free_device_list(list);
	device->pd = device->ctx ? ibv_alloc_pd(device->ctx) : NULL;
	if (!device->pd)
		die(name);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *values, int count)
{
	qsort(values, count, sizeof(*values), by_value);
	return values[count / 2];
}

static void show(struct figure *figure, int rounds)
{
	printf(" %11llu %10llu", (unsigned long long)median(figure->on, rounds),
	       (unsigned long long)median(figure->off, rounds));
}

/* Neighbours are touched far from each other in time, so they lie apart. */
static void touch(char *mem, size_t length, bool scattered)
{
	size_t step = scattered ? 7 * PAGE : PAGE, first, at;

	for (first = 0; first < step; first += PAGE)
		for (at = first; at < length; at += step)
			mem[at] = 1;
}

static char *map(const struct buffer *buffer)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *mem;

	if (buffer->kind == HUGETLB)
		flags |= MAP_HUGETLB;
	mem = mmap(NULL, buffer->length + HUGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (mem == MAP_FAILED)
		return NULL;
	if (buffer->kind == ODD) {
		mem += -(uintptr_t)mem % HUGE;
		madvise(mem, buffer->length, MADV_HUGEPAGE);
		madvise(mem + buffer->length / 2, HUGE, MADV_NOHUGEPAGE);
	} else if (buffer->kind != HUGETLB) {
		madvise(mem, buffer->length, MADV_NOHUGEPAGE);
	}
	touch(mem, buffer->length, buffer->kind == SCATTERED);
	return mem;
}

static void measure_mr(struct ibv_pd *pd, const struct buffer *buffer, char *mem,
		       struct figure *figure, int round)
{
	uint64_t start = now_ns(), middle;
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, mem, buffer->length,
					    (uintptr_t)mem + buffer->shift,
					    IBV_ACCESS_LOCAL_WRITE);

	if (!mr)
		die("ibv_reg_mr");
	middle = now_ns();
	if (ibv_dereg_mr(mr))
		die("ibv_dereg_mr");
	figure->off[round] = now_ns() - middle;
	figure->on[round] = middle - start;
}

static void measure_pin(int file, const struct buffer *buffer, char *mem,
			struct figure *figure, int round)
{
	unsigned long long on, off;
	char text[128] = "";

	snprintf(text, sizeof(text), "%s %llu %llu", devices[0].name,
		 (unsigned long long)(uintptr_t)mem, (unsigned long long)buffer->length);
	if (write(file, text, strlen(text)) < 0 ||
	    pread(file, text, sizeof(text) - 1, 0) < 0 ||
	    sscanf(text, "%llu %llu", &on, &off) != 2)
		die(PIN);
	figure->on[round] = on;
	figure->off[round] = off;
}

static void measure_buffer(const struct buffer *buffer, int pin)
{
	static struct figure figures[DEVICES_MAX], pinned;
	char *mem = map(buffer);
	int round, i;

	printf("%-36s", buffer->name);
	if (!mem) {
		printf(" %s\n", strerror(errno));
		return;
	}
	for (round = 0; round < buffer->rounds; round++) {
		for (i = 0; i < num_devices; i++)
			measure_mr(devices[i].pd, buffer, mem, &figures[i], round);
		if (pin >= 0)
			measure_pin(pin, buffer, mem, &pinned, round);
	}
	for (i = 0; i < num_devices; i++)
		show(&figures[i], buffer->rounds);
	if (pin >= 0)
		show(&pinned, buffer->rounds);
	printf("\n");
	munmap(mem, buffer->length + (buffer->kind == ODD ? 0 : HUGE));
}

/* A call that copies a few bytes out, and that is all. */
static void measure_call(const struct device *device)
{
	uint64_t took[ROUNDS_MAX], start;
	struct moor_refusal refusal;
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
	int i;

	for (i = 0; i < ROUNDS_MAX; i++) {
		start = now_ns();
		if (ioctl(device->ctx->cmd_fd, RDMA_VERBS_IOCTL, &call))
			return;
		took[i] = now_ns() - start;
	}
	printf("a method of uverbs on %s: %llu\n", device->name,
	       (unsigned long long)median(took, ROUNDS_MAX));
}

static void measure_object(const struct device *device)
{
	static struct figure figure;
	struct ibv_pd *pd;
	uint64_t start;
	int i;

	for (i = 0; i < ROUNDS_MAX; i++) {
		start = now_ns();
		pd = ibv_alloc_pd(device->ctx);
		figure.on[i] = now_ns() - start;
		if (!pd)
			die("ibv_alloc_pd");
		start = now_ns();
		ibv_dealloc_pd(pd);
		figure.off[i] = now_ns() - start;
	}
	printf("ibv_alloc_pd, ibv_dealloc_pd on %s:", device->name);
	show(&figure, ROUNDS_MAX);
	printf("\n");
}

/* What is left open is the kernel's to take back, as when a process ends. */
static void measure_close(const char *name)
{
	struct device device = {};
	char *mem = map(&buffers[0]);
	uint64_t start;
	int i;

	open_device(&device, name);
	for (i = 0; i < CLOSE_COUNT; i++)
		if (!ibv_reg_mr(device.pd, mem, PAGE, IBV_ACCESS_LOCAL_WRITE))
			die("ibv_reg_mr");
	start = now_ns();
	ibv_close_device(device.ctx);
	printf("closing %s with %d MRs, each: %llu\n", name, CLOSE_COUNT,
	       (unsigned long long)(now_ns() - start) / CLOSE_COUNT);
}

int main(int argc, char **argv)
{
	int pin = open(PIN, O_RDWR), i;
	size_t b;

	if (argc < 2 || argc > 1 + DEVICES_MAX || !strcmp(argv[1], "--help")) {
		fprintf(stderr, "usage: registration DEVICE [OTHER]\n");
		return 1;
	}
	/* Of a run that is cut short, what there is. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	num_devices = argc - 1;
	for (i = 0; i < num_devices; i++)
		open_device(&devices[i], argv[i + 1]);
	printf("%-36s", "");
	for (i = 0; i < num_devices; i++)
		printf(" %11s %10s", devices[i].name, "dereg");
	printf(pin < 0 ? "\n" : " %11s %10s\n", "pinned", "let go");
	for (b = 0; b < sizeof(buffers) / sizeof(*buffers); b++)
		measure_buffer(&buffers[b], pin);
	measure_call(&devices[0]);
	for (i = 0; i < num_devices; i++)
		measure_object(&devices[i]);
	for (i = 0; i < num_devices; i++)
		measure_close(devices[i].name);
	return 0;
}
