// SPDX-License-Identifier: GPL-2.0
/*
 * Pages of the device that a process maps: the caller gets the errno of an mmap() that
 * fails, and closing the context unmaps all of them, whatever objects are left.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "holdings.h"
#include "pair.h"
#include "tap.h"

/*
 * The errno with which mmap() of a file fails after @mmap_good calls; 0: it does not.
 */
static int mmap_errno, mmap_good;

/* Replaces the C library's mmap(), also for libmoor. */
void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (fd >= 0 && mmap_errno && !mmap_good--) {
		errno = mmap_errno;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

/*
 * Making a CQ fails if mapping a page fails after @good others, and leaves nothing
 * behind.
 */
static void test_no_page(struct ibv_context *ctx, int good)
{
	struct holdings before, after;
	struct ibv_cq *cq;

	holdings_get(&before);
	mmap_errno = EIO;
	mmap_good = good;
	errno = 0;
	cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	tap_ok(!cq && errno == EIO, "page %d cannot be mapped: error %d", good, errno);
	mmap_errno = 0;
	holdings_get(&after);
	if (!tap_ok(holdings_equal(&before, &after), "and no CQ stays"))
		holdings_diag("after", &after);
}

/* The number of this process's mappings of RDMA devices. */
static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += !!strstr(line, "/infiniband/uverbs");
	if (file)
		fclose(file);
	return n;
}

/* Makes queues, MRs and on-NIC memory, none of which will be destroyed. */
static void make_all(struct ibv_context *ctx)
{
	static uint8_t memory[65536] __attribute__((aligned(4096)));
	struct ibv_alloc_dm_attr dm_attr = { .length = 100 };
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (!pd || !cq || !ibv_create_qp(pd, &attr) || !ibv_alloc_dm(ctx, &dm_attr) ||
	    !ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE))
		tap_bail("objects: %s", strerror(errno));
}

/*
 * Closes a context with objects in it: nothing is left in the process, which goes on.
 */
static void test_all_left(const char *name)
{
	struct holdings before, with, after;
	struct ibv_device_attr attr;
	int mapped = mappings();
	struct ibv_context *ctx;

	holdings_get(&before);
	ctx = open_nic(name, &attr);
	make_all(ctx);
	holdings_get(&with);
	tap_ok(with.pinned_kib >= before.pinned_kib + 64 && mappings() > mapped,
	       "a QP, a CQ, an MR and on-NIC memory");
	tap_is(ibv_close_device(ctx), 0, "closed with all of it there");
	tap_is(mappings(), mapped, "nothing of the device is mapped");
	holdings_get(&after);
	if (!tap_ok(holdings_equal(&before, &after), "nothing is left, nothing is pinned"))
		holdings_diag("after", &after);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(name, &attr);

	holdings_open();
	test_no_page(ctx, 0);
	test_no_page(ctx, 1);
	ibv_close_device(ctx);
	test_all_left(name);
	return tap_done();
}
