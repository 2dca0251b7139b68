// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: churn reg N | qp N | hold | outlive
 *
 * Makes and frees objects, for tests that count what is left.
 *
 *   reg N    registers and deregisters N times, in various sizes
 *   qp N     creates and destroys a pair of CQs and a QP N times
 *   hold     makes MRs, a CQ and a QP, says "ready" and waits to be killed
 *   outlive  the same, then waits for a line on standard input, by which time
 *            the device is gone, and expects calls to say so
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pair.h"
#include "tap.h"

#define SIZE	(4UL << 20)
#define HELD	16

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static uint8_t *buf;

static void reg(int count)
{
	static const size_t sizes[] = { 1, 4096, 4097, 16384, 1 << 18, SIZE };
	const int kinds = sizeof(sizes) / sizeof(sizes[0]);

	for (int i = 0; i < count; i++) {
		/* Large sizes take time, so most rounds use small ones. */
		size_t size = sizes[i % 500 ? i % 4 : i / 500 % kinds];
		struct ibv_mr *mr = ibv_reg_mr(pd, buf, size,
					       i & 1 ? ALL_ACCESS :
						       IBV_ACCESS_LOCAL_WRITE);

		if (!mr)
			tap_bail("registering %zu bytes: %s", size, strerror(errno));
		if (ibv_dereg_mr(mr))
			tap_bail("deregistering: %s", strerror(errno));
	}
}

static struct ibv_qp *make_qp(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(pd, &attr);
}

static void qp(int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
		struct ibv_qp *queues = cq ? make_qp(cq) : NULL;

		if (!queues)
			tap_bail("creating: %s", strerror(errno));
		if (ibv_destroy_qp(queues) || ibv_destroy_cq(cq))
			tap_bail("destroying: %s", strerror(errno));
	}
}

static struct ibv_mr *hold(struct ibv_cq **cq, struct ibv_qp **queues)
{
	struct ibv_mr *mr = NULL;

	for (int i = 0; i < HELD; i++) {
		/* The first MR needs a translation table, the others are small. */
		mr = ibv_reg_mr(pd, buf + i * 4096, i ? 8192 : SIZE, ALL_ACCESS);
		if (!mr)
			tap_bail("registering: %s", strerror(errno));
	}
	*cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	*queues = *cq ? make_qp(*cq) : NULL;
	if (!*queues)
		tap_bail("creating: %s", strerror(errno));
	printf("ready\n");
	fflush(stdout);
	return mr;
}

/*
 * The device has gone: calls that need it fail, and none hangs. Destroying succeeds,
 * for libibverbs knows that the kernel has freed the objects.
 */
static int outlive(void)
{
	struct ibv_qp *queues;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char line[16];

	mr = hold(&cq, &queues);
	if (!fgets(line, sizeof(line), stdin))
		tap_bail("no word that the device is gone");
	errno = 0;
	tap_ok(!ibv_reg_mr(pd, buf, 4096, 0) && errno == EIO,
	       "registering on a device that is gone: EIO");
	errno = 0;
	tap_ok(!make_qp(cq) && errno == EIO, "creating a QP: EIO");
	tap_is(ibv_dereg_mr(mr), 0, "deregistering succeeds");
	tap_is(ibv_destroy_qp(queues), 0, "destroying the QP succeeds");
	tap_is(ibv_close_device(ctx), 0, "closing succeeds");
	return tap_done();
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	struct ibv_qp *queues;
	struct ibv_cq *cq;
	int status = 0;

	if (argc < 2)
		tap_bail("usage: churn reg N | qp N | hold | outlive");
	ctx = open_nic(NULL, &attr);
	pd = ibv_alloc_pd(ctx);
	buf = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!pd || buf == MAP_FAILED)
		tap_bail("set-up: %s", strerror(errno));
	if (!strcmp(argv[1], "reg") && argc > 2) {
		reg(atoi(argv[2]));
	} else if (!strcmp(argv[1], "qp") && argc > 2) {
		qp(atoi(argv[2]));
	} else if (!strcmp(argv[1], "hold")) {
		hold(&cq, &queues);
		pause();
	} else if (!strcmp(argv[1], "outlive")) {
		status = outlive();
	} else {
		tap_bail("unknown mode: %s", argv[1]);
	}
	return status;
}
