// SPDX-License-Identifier: GPL-2.0
/* FLUSH where the client's files cannot be written back (HWI MPE-12). */
#include <endian.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lossy.h"

/* Slices for which flush_of() has these. */
#define GLOBAL_RANGE		0
#define PERSISTENT_RANGE	1
#define PERSISTENT_REGION	4

/* The last page of the guest's memory goes, which nothing uses: msync() meets a hole. */
static void spoil_sync(void)
{
	uint64_t len = 4096;
	void *page = dma_map_ptr(w.g->dma, GUEST_BASE + GUEST_MEMORY - len, &len, true);

	if (!page || munmap(page, len))
		abort();
}

static void expect_flush(uint32_t slice, uint32_t len, bool good, const char *what)
{
	uint8_t wanted = good ? MOOR_WC_SUCCESS : MOOR_WC_REM_OP_ERR;
	struct moor_eqe eqe = { 0 };
	struct moor_cqe cqe;

	world_start(MOOR_QP_RC);
	spoil_sync();
	post(OP_FLUSH, slice, len);
	ring(w.g, &w.qp[0]);
	while (next_event(w.g, 0, &eqe) && eqe.type != MOOR_EVENT_QP_FATAL)
		;
	ok(wait_cq(0, &cqe) && cqe.status == wanted &&
	   (eqe.type == MOOR_EVENT_QP_FATAL) == !good, "%s %s", what,
	   good ? "succeeds" : "fails");
	guest_stop(w.g);
}

int main(void)
{
	expect_flush(GLOBAL_RANGE, 8, true, "GLOBAL of eight bytes");
	expect_flush(PERSISTENT_RANGE, 8, false, "PERSISTENT of eight bytes");
	expect_flush(PERSISTENT_REGION, 0, false, "PERSISTENT of a region");
	expect_flush(PERSISTENT_RANGE, 0, true, "PERSISTENT of no bytes");
	return done();
}
