// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: fuzz_uverbs [--seconds N] [--calls N] [--processes N] [--seed N]
 *
 * Calls uverbs directly, by ioctl() and write(). Most calls are valid commands on live
 * objects, so that they reach the driver; in the others one field or many are changed.
 * Half of the processes are ordinary users. All register and move one dma-buf.
 * Afterwards all memory must be free and the NIC must move data; a warning in the
 * kernel's log ends the VM's run.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>

#include "counts.h"
#include "holdings.h"
#include "tap.h"
#include "uverbs_call.h"
#include "window.h"

#define NOBODY		65534
#define LIFE		400	/* calls between opening a context and closing it */
#define ERRNOS		134
#define MAX_OPS		64
#define DRIVER_NS	(1u << UVERBS_ID_NS_SHIFT)

/* ---- changing calls ---- */

static uint64_t odd_value(void)
{
	static const uint64_t odd[] = {
		0, 1, 2, 7, 255, 4095, 4096, 4097, INT32_MAX, UINT32_MAX,
		1ULL << 32, 1ULL << 47, INT64_MAX, UINT64_MAX, UINT64_MAX - 4095,
		0xffff888000000000ULL, 0xffffffff81000000ULL, 0x800000000000ULL,
	};

	switch (below(4)) {
	case 0:
		return odd[below(sizeof(odd) / sizeof(odd[0]))];
	case 1:
		return pick(below(KINDS));
	case 2:
		/*
		 * An address at the end of the arena, or in its page that cannot be
		 * written.
		 */
		return (uintptr_t)arena + ARENA - below(64) + (one_in(2) ? 0 : PAGE);
	default:
		return next() >> below(64);
	}
}

static void change_attr(struct ib_uverbs_attr *a)
{
	static const uint16_t lengths[] = { 0, 1, 2, 4, 7, 8, 9, 16, 64, 4096, 65535 };

	switch (below(8)) {
	case 0:
		a->attr_id = below(24) | (one_in(3) ? DRIVER_NS : 0);
		break;
	case 1:
		a->len = lengths[below(sizeof(lengths) / sizeof(lengths[0]))];
		break;
	case 2:
		a->flags = one_in(2) ? 0 : next();
		break;
	case 3:
		a->attr_data.reserved = next();
		break;
	default:
		a->data = odd_value();
	}
}

static void change_ioctl(void)
{
	struct ib_uverbs_ioctl_hdr *hdr = &call.ioctl.hdr;
	uint32_t n = hdr->num_attrs;

	switch (below(12)) {
	case 0:
		hdr->object_id = below(24);
		break;
	case 1:
		hdr->method_id = below(10) | (one_in(3) ? DRIVER_NS : 0);
		break;
	case 2:
		hdr->driver_id = below(30);
		break;
	case 3:
		hdr->reserved1 = next();
		break;
	case 4:	/* one attribute less */
		if (n)
			call.ioctl.attrs[below(n)] = call.ioctl.attrs[--hdr->num_attrs];
		break;
	case 5:	/* one attribute more */
		if (n && n < MAX_ATTRS)
			change_attr(attr(below(24), 8, odd_value()));
		break;
	case 6:	/* one attribute twice */
		if (n > 1)
			call.ioctl.attrs[below(n)] = call.ioctl.attrs[below(n)];
		break;
	case 7:	/* a byte of the data that attributes point to */
		inputs[below(inputs_used + 1)] = next();
		break;
	default:
		if (n)
			change_attr(&call.ioctl.attrs[below(n)]);
	}
}

static void change_write(void)
{
	struct ib_uverbs_cmd_hdr *hdr = (void *)call.bytes;
	uint32_t words = call.size / 4;
	uint32_t value = odd_value();

	switch (below(8)) {
	case 0:
		hdr->command = below(48) | (one_in(4) ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0);
		break;
	case 1:
		hdr->in_words = one_in(2) ? below(64) : next();
		break;
	case 2:
		hdr->out_words = one_in(2) ? below(64) : next();
		break;
	case 3:
		call.size = one_in(2) ? below(call.size + 1) : call.size + 4 * below(8);
		call.size = call.size < sizeof(call.bytes) ? call.size : 0;
		hdr->in_words = call.size / 4;
		break;
	default:
		memcpy(call.bytes + 4 * (2 + below(words > 2 ? words - 2 : 1)), &value, 4);
	}
}

static void change(void)
{
	uint32_t times = one_in(4) ? 1 + below(6) : 1;

	while (times--)
		if (call.by_write)
			change_write();
		else
			change_ioctl();
}

static void make_noise(void)
{
	size_t i;

	for (i = 0; i < sizeof(call.ioctl) / 8; i++)
		((uint64_t *)&call.ioctl)[i] = next() & (one_in(2) ? 0xf0000000f : UINT64_MAX);
	call.ioctl.hdr.num_attrs = below(MAX_ATTRS);
	call.ioctl.hdr.reserved1 = 0;
	call.ioctl.hdr.reserved2 = 0;
	call.ioctl.hdr.driver_id = 0;
	call.ioctl.hdr.object_id = below(20);
}

/* ---- calling ---- */

static struct stats {
	uint64_t calls, changed, binders;
	uint64_t tried[MAX_OPS], succeeded[MAX_OPS], busy[MAX_OPS];
	uint64_t errnos[ERRNOS];
} *stats;		/* shared by all processes */

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void keep_results(const struct op *op)
{
	if (call.handle)
		call.made.handle = *call.handle;
	if (call.key)
		call.made.key = *call.key;
	if (op->makes != NONE && pool[op->makes].count < POOL)
		pool[op->makes].object[pool[op->makes].count++] = call.made;
	if (op->ends != NONE && pool[op->ends].count)
		pool[op->ends].object[picked] =
			pool[op->ends].object[--pool[op->ends].count];
	if (call.offset)
		keep_offset(*call.offset);
}

/* A call by an operation's builder; @clean: not changed. */
static int perform(size_t n, bool clean)
{
	const struct op *op = &ops[n];
	int err;

	begin();
	if (!op->build) {
		err = op->act();
	} else {
		op->build();
		if (!clean) {
			count(&stats->changed);
			if (one_in(16) && !call.by_write)
				make_noise();
			else
				change();
		}
		err = issue();
		if (!err && clean)
			keep_results(op);
	}
	count(&stats->calls);
	count(&stats->errnos[err < ERRNOS ? err : ERRNOS - 1]);
	if (clean) {
		count(&stats->tried[n]);
		if (!err)
			count(&stats->succeeded[n]);
		if (err == EBUSY)
			count(&stats->busy[n]);
	}
	return err;
}

static size_t choose(void)
{
	static uint32_t total;
	uint32_t at;
	size_t n;

	if (!total)
		for (n = 0; n < num_ops; n++)
			total += ops[n].weight;
	for (;;) {
		at = below(total);
		for (n = 0; at >= ops[n].weight; n++)
			at -= ops[n].weight;
		/*
		 * Skip operations that need an object if there is none, or would make
		 * one too many.
		 */
		if (ops[n].makes != NONE && pool[ops[n].makes].count == POOL)
			continue;
		if (ops[n].ends != NONE && !pool[ops[n].ends].count)
			continue;
		return n;
	}
}

static void open_context(const char *device)
{
	uint32_t i;

	uverbs_fd = open(device, O_RDWR | O_CLOEXEC);
	if (uverbs_fd < 0)
		_exit(2);
	memset(pool, 0, sizeof(pool));
	forget_offsets();
	/* Calls before there is a context: none of them works. */
	for (i = below(4); i; i--)
		perform(choose(), one_in(2));
	if (one_in(4))
		perform(below(2), false);
	else
		perform(below(2), true);
	perform(OP_ALLOC_PD, true);
	perform(OP_CREATE_CQ, true);
	if (binder_open())
		count(&stats->binders);
}

static int first_fd;	/* of the context's files; those below it stay open */

static void close_context(void)
{
	unmap_some();
	binder_close();
	close(uverbs_fd);
	/*
	 * Close completion channels, and other files that changed calls may have
	 * opened.
	 */
	close_range(first_fd, ~0u, 0);
}

/* ---- processes ---- */

static struct {
	uint32_t seconds, calls, processes;
	uint64_t seed;
} options = { .seconds = 60, .processes = 4 };

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static _Noreturn void fuzz(uint32_t number, const char *device)
{
	const struct rlimit limit = { 64 << 20, 64 << 20 };
	double end = now() + options.seconds;
	uint32_t calls = 0;

	random_state = (options.seed + number + 1) * 0x9e3779b97f4a7c15ULL;
	if (number % 2 && (setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(NOBODY) ||
			   setuid(NOBODY)))
		_exit(3);
	arena = mmap(NULL, ARENA + PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	inputs = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	answers = inputs + 2 * PAGE;
	/* The page behind the arena can be read only. */
	if (arena == MAP_FAILED || inputs == MAP_FAILED ||
	    mprotect(arena + ARENA, PAGE, PROT_READ))
		_exit(4);
	while (options.calls ? calls < options.calls : now() < end) {
		uint32_t life = 1 + below(LIFE);

		open_context(device);
		for (calls += life; life; life--)
			perform(choose(), below(100) < 65);
		close_context();
	}
	_exit(0);
}

static void find_gid(struct ibv_context *ctx)
{
	struct ibv_gid_entry entry;

	for (gid_index = 0; gid_index < 16; gid_index++)
		if (!ibv_query_gid_ex(ctx, 1, gid_index, &entry, 0) &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2) {
			memcpy(gid, &entry.gid, sizeof(gid));
			return;
		}
	tap_bail("no RoCE v2 GID");
}

static void run_all(const char *device)
{
	uint32_t i, good = 0;
	int status;
	pid_t pid;

	fflush(NULL);
	for (i = 0; i < options.processes; i++) {
		pid = fork();
		if (!pid)
			fuzz(i, device);
		if (pid < 0)
			tap_bail("fork: %s", strerror(errno));
	}
	for (i = 0; i < options.processes; i++) {
		if (wait(&status) < 0)
			tap_bail("wait: %s", strerror(errno));
		good += status == 0;
		if (status)
			tap_diag("a process ended with status 0x%x", status);
	}
	tap_is(good, options.processes, "processes that came to their end");
}

static void report(void)
{
	uint64_t tried = 0, succeeded = 0, busy = 0;
	size_t i;

	for (i = 0; i < num_ops; i++) {
		tap_diag("%-20s %8llu of %8llu unchanged calls succeeded", ops[i].name,
			 (unsigned long long)stats->succeeded[i],
			 (unsigned long long)stats->tried[i]);
		if (ops[i].ends == MR)
			busy += stats->busy[i];
		tried += stats->tried[i];
		succeeded += stats->succeeded[i];
	}
	for (i = 0; i < ERRNOS; i++)
		if (stats->errnos[i])
			tap_diag("%-20s %8llu calls", i ? strerrorname_np(i) : "success",
				 (unsigned long long)stats->errnos[i]);
	tap_is(stats->errnos[EUCLEAN], 0, "nobody has written where the dma-buf had been");
	for (i = 0; i < num_ops; i++)
		if (!stats->succeeded[i])
			tap_ok(false, "%s never succeeded", ops[i].name);
	tap_ok(busy, "deregistering met EBUSY, a window being bound: %llu times",
	       (unsigned long long)busy);
	tap_diag("%llu contexts had a QP to bind windows by",
		 (unsigned long long)stats->binders);
	tap_ok(tried && succeeded * 2 > tried,
	       "%llu calls, %llu of them changed; of the others %llu of %llu succeeded",
	       (unsigned long long)stats->calls, (unsigned long long)stats->changed,
	       (unsigned long long)succeeded, (unsigned long long)tried);
}

static void expect_data(void)
{
	struct ibv_device_attr attr;
	struct pair pair = {};
	struct request request;

	pair_open(&pair, open_nic(nic_name(), &attr), &pair_defaults);
	pair_connect(&pair);
	fill(pair.a.buf, PAGE, 3);
	request = (struct request){
		.opcode = IBV_WR_RDMA_WRITE, .local = pair.a.buf, .length = PAGE,
		.lkey = pair.a.mr->lkey, .remote = (uintptr_t)pair.b.buf,
		.rkey = pair.b.mr->rkey,
	};
	tap_ok(!finish(&pair.a, post(&pair.a, &request)).status &&
	       is_filled(pair.b.buf, PAGE, 3), "data moves");
	pair_close(&pair);
	ibv_close_device(pair.ctx);
}

static void parse(int argc, char **argv)
{
	static const struct option known[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "calls", required_argument, NULL, 'c' },
		{ "processes", required_argument, NULL, 'p' },
		{ "seed", required_argument, NULL, 'r' },
		{}
	};
	int option;

	options.seed = time(NULL);
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (option == 's')
			options.seconds = value;
		else if (option == 'c')
			options.calls = value;
		else if (option == 'p')
			options.processes = value;
		else if (option == 'r')
			options.seed = value;
		else
			tap_bail("unknown option");
	}
}

int main(int argc, char **argv)
{
	struct holdings before, after;
	struct ibv_device_attr attr;
	struct ibv_context *ctx;
	char device[128];
	long pinned;

	parse(argc, argv);
	tap_diag("--seed %llu --processes %u", (unsigned long long)options.seed,
		 options.processes);
	first_fd = dmabuf_open();
	ctx = open_nic(nic_name(), &attr);
	find_gid(ctx);
	snprintf(device, sizeof(device), "/dev/infiniband/%s", ctx->device->dev_name);
	ibv_close_device(ctx);
	stats = mmap(NULL, sizeof(*stats), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (stats == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	holdings_open();
	pinned = pinned_pages();
	holdings_get(&before);

	run_all(device);
	dmabuf_close();

	holdings_get(&after);
	if (!tap_ok(holdings_equal(&before, &after), "nothing of theirs is left")) {
		holdings_diag("before", &before);
		holdings_diag("after", &after);
	}
	tap_is(pinned_pages() - pinned, 0, "no page stays pinned");
	expect_data();
	report();
	return tap_done();
}
