// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations that must fail, each with its errno and without pinning or
 * leaving anything, and beside them the nearest ones that must succeed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"
#include "tap.h"

#define PAGE		4096UL
#define LOCAL		IBV_ACCESS_LOCAL_WRITE
#define ON_DEMAND	(LOCAL | IBV_ACCESS_ON_DEMAND)
#define MEMLOCK_PAGES	256UL
#define NOBODY		65534

static struct ibv_pd *pd;

/* Pages pinned by this process, in KiB. */
static long pinned(void)
{
	char line[128];
	long kib = -1;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmPin: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

static void refused(const void *addr, size_t length, uint64_t iova,
		    unsigned int access, int wanted, const char *what)
{
	struct ibv_mr *mr;
	long before = pinned();
	int err = 0;

	errno = 0;
	mr = ibv_reg_mr_iova(pd, (void *)addr, length, iova, access);
	if (mr)
		ibv_dereg_mr(mr);
	else
		err = errno;
	tap_is(err, wanted, "%s", what);
	tap_is(pinned(), before, "%s: nothing stays pinned", what);
}

static void accepted(const void *addr, size_t length, uint64_t iova,
		     unsigned int access, const char *what)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, (void *)addr, length, iova, access);

	if (!tap_ok(mr, "%s", what)) {
		tap_diag("errno %d", errno);
		return;
	}
	tap_is(ibv_dereg_mr(mr), 0, "%s: deregistered", what);
}

static uint8_t *pages(size_t count, int protection)
{
	uint8_t *addr = mmap(NULL, count * PAGE, protection,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (addr == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return addr;
}

static void test_ranges(uint8_t *buf)
{
	uint64_t va = (uintptr_t)buf;

	refused(buf, 0, va, LOCAL, EINVAL, "length 0");
	refused(buf, UINT64_MAX, va, LOCAL, EINVAL, "length 2^64 - 1");
	refused(buf, UINT64_MAX - va, va, LOCAL, EINVAL,
		"an end in the last page of all");
	refused((void *)-PAGE, PAGE, -PAGE, LOCAL, EINVAL, "the last page");
	refused(buf, 2 * PAGE, -PAGE, LOCAL, EINVAL, "an iova that wraps around");
	refused(buf, PAGE + 1, -PAGE, LOCAL, EINVAL,
		"an iova that wraps around by one byte");
	accepted(buf, PAGE, -PAGE, LOCAL, "an iova up to the last byte");
	refused(buf, PAGE, va + 8, LOCAL, EINVAL,
		"an iova with another offset in the page");
	refused(buf + 8, PAGE, va, LOCAL, EINVAL,
		"an address with another offset in the page");
	accepted(buf, PAGE, va + 64 * PAGE, LOCAL, "another iova");
	accepted(buf, PAGE, 0, LOCAL, "iova 0");
	accepted(buf + 7, 1, va + 7, LOCAL, "one byte, unaligned");
}

static void test_flags(uint8_t *buf)
{
	uint64_t va = (uintptr_t)buf;
	unsigned int bit;

	refused(buf, PAGE, va, IBV_ACCESS_REMOTE_WRITE, EINVAL,
		"remote write without local write");
	refused(buf, PAGE, va, IBV_ACCESS_REMOTE_ATOMIC, EINVAL,
		"remote atomic without local write");
	refused(NULL, SIZE_MAX, PAGE, ON_DEMAND, EINVAL,
		"all memory on demand, with an address");
	refused(NULL, SIZE_MAX, 0, ON_DEMAND | IBV_ACCESS_ZERO_BASED, EINVAL,
		"all memory on demand, zero based");
	refused(NULL, SIZE_MAX, 0, ON_DEMAND | IBV_ACCESS_HUGETLB, EINVAL,
		"all memory on demand, in huge pages");
	refused(NULL, SIZE_MAX, 0, LOCAL, EINVAL, "all memory, pinned");
	refused(buf, PAGE, va, LOCAL | IBV_ACCESS_HUGETLB, EOPNOTSUPP,
		"huge pages, pinned");
	refused(buf, PAGE, va, LOCAL | 1U << 12, EINVAL, "an unknown flag");
	accepted(buf, PAGE, va, 0, "local read alone");
	accepted(buf, PAGE, va, IBV_ACCESS_REMOTE_READ, "remote read");
	accepted(buf, PAGE, va, LOCAL | IBV_ACCESS_MW_BIND, "window binding");
	accepted(buf, PAGE, va, ALL_ACCESS | IBV_ACCESS_RELAXED_ORDERING,
		 "all rights, relaxed ordering");
	refused(buf, PAGE, va, LOCAL | 1U << 30, EINVAL,
		"an unknown flag above the optional ones");
	for (bit = 20; bit < 30; bit++)
		accepted(buf, PAGE, va, LOCAL | 1U << bit, "an optional flag");
	accepted(buf, PAGE, va, LOCAL | IBV_ACCESS_OPTIONAL_RANGE,
		 "all optional flags");
}

static void test_memory(void)
{
	uint8_t *readonly = pages(2, PROT_READ);
	uint8_t *gap = pages(4, PROT_READ | PROT_WRITE);
	uint8_t *none = pages(1, PROT_NONE);
	int file = memfd_create("moor", 0);
	uint8_t *shared;

	munmap(gap + 2 * PAGE, PAGE);
	refused(gap + 2 * PAGE, PAGE, 0, LOCAL, EFAULT, "an unmapped page");
	refused(gap, 4 * PAGE, 0, LOCAL, EFAULT, "a hole in the middle");
	accepted(gap, 2 * PAGE, 0, LOCAL, "what lies before the hole");
	refused(NULL, PAGE, 0, LOCAL, EFAULT, "address 0");
	refused((void *)0xffffffff80000000UL, PAGE, 0, LOCAL, EFAULT,
		"an address of the kernel");
	refused(readonly, 2 * PAGE, 0, LOCAL, EFAULT,
		"read-only memory for writing");
	accepted(readonly, 2 * PAGE, 0, IBV_ACCESS_REMOTE_READ,
		 "read-only memory for reading");
	refused(none, PAGE, 0, 0, EFAULT, "inaccessible memory");

	if (file < 0 || ftruncate(file, 2 * PAGE))
		tap_bail("memfd: %s", strerror(errno));
	shared = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	accepted(shared, 2 * PAGE, 0, ALL_ACCESS, "shared memory");
	refused(shared, 4 * PAGE, 0, LOCAL, EFAULT,
		"shared memory beyond the end of its file");
	munmap(shared, 4 * PAGE);
	close(file);
	munmap(readonly, 2 * PAGE);
	munmap(none, PAGE);
}

/* An ordinary user's memory lock limit; root has none. The device stays open. */
static void limited(void)
{
	const struct rlimit limit = { MEMLOCK_PAGES * PAGE, MEMLOCK_PAGES * PAGE };
	uint8_t *buf = pages(2 * MEMLOCK_PAGES, PROT_READ | PROT_WRITE);
	long room = MEMLOCK_PAGES - pinned() * 1024 / PAGE;
	struct ibv_mr *mr;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(NOBODY) || setuid(NOBODY))
		tap_bail("cannot become an ordinary user: %s", strerror(errno));
	/*
	 * After giving up root, /proc/self can be read only if the process is dumpable.
	 */
	prctl(PR_SET_DUMPABLE, 1);
	refused(buf, (room + 1) * PAGE, 0, LOCAL, ENOMEM,
		"a page more than the memlock limit");
	accepted(buf, room * PAGE, 0, LOCAL, "all of the memlock limit");
	mr = ibv_reg_mr(pd, buf, room * PAGE, LOCAL);
	refused(buf, PAGE, 0, LOCAL, ENOMEM, "one page beyond the memlock limit");
	tap_is(mr ? ibv_dereg_mr(mr) : -1, 0, "deregistering makes room");
	accepted(buf, PAGE, 0, LOCAL, "and a page is accepted again");
}

int main(void)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(NULL, &attr);
	uint8_t *buf = pages(64, PROT_READ | PROT_WRITE);
	struct ibv_pd *other;

	pd = ibv_alloc_pd(ctx);
	other = ibv_alloc_pd(ctx);
	if (!pd || !other)
		tap_bail("no protection domain: %s", strerror(errno));
	test_ranges(buf);
	test_flags(buf);
	test_memory();
	limited();
	tap_is(ibv_dealloc_pd(other), 0, "a protection domain goes");
	tap_is(ibv_dealloc_pd(pd), 0, "the protection domain goes: nothing is left");
	tap_is(ibv_close_device(ctx), 0, "the context goes");
	return tap_done();
}
