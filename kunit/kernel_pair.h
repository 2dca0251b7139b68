/* SPDX-License-Identifier: GPL-2.0 */
/* Queues of a user in the kernel, for suites that look into them. */
#ifndef MOOR_KUNIT_KERNEL_PAIR_H
#define MOOR_KUNIT_KERNEL_PAIR_H

#include "harness.h"

#define KERNEL_DEPTH	8

/* A queue pair with one CQ, as a kernel user has them. */
struct kernel_pair {
	struct moor_dev *mdev;
	struct ib_pd *pd;
	struct moor_cq *cq;
	struct moor_qp *qp;
	u32 written;		/* CQEs */
};

struct kernel_pair *kernel_pair_open(struct kunit *test);
struct kernel_pair *kernel_pair_open_type(struct kunit *test, enum ib_qp_type type);
void kernel_pair_add_qp(struct kunit *test, struct kernel_pair *pair,
			enum ib_qp_type type);
void kernel_pair_close_qp(struct kunit *test, struct kernel_pair *pair);
void kernel_pair_close(struct kunit *test, struct kernel_pair *pair);
void kernel_pair_write(struct kernel_pair *pair, struct moor_cqe cqe);
int kernel_pair_send(struct kernel_pair *pair, u32 count, u64 wr_id);
u64 *kernel_slot_in_nic(const struct moor_kernel_slot *slot);

static inline u64 kernel_slot_value(const struct moor_kernel_slot *slot)
{
	return *kernel_slot_in_nic(slot);
}

#endif /* MOOR_KUNIT_KERNEL_PAIR_H */
