// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbell and kick pages, which a process maps: what mmap() says when it cannot is
 * what the caller is told.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "holdings.h"
#include "pair.h"
#include "tap.h"

/* What mmap() of a device's page fails with, after so many that succeed; or 0. */
static int mmap_errno, mmap_good;

/* In place of the C library's, for libmoor too. */
void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (fd >= 0 && mmap_errno && !mmap_good--) {
		errno = mmap_errno;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

/* No CQ can be made when the @good'th page behind the first cannot be mapped. */
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

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(name, &attr);

	holdings_open();
	test_no_page(ctx, 0);
	test_no_page(ctx, 1);
	ibv_close_device(ctx);
	return tap_done();
}
