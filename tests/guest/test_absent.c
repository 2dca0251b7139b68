// SPDX-License-Identifier: GPL-2.0
/*
 * What the NIC cannot do yet (README, "What works, and what does not yet"): each such
 * call fails at once, with an errno that says so.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pair.h"
#include "tap.h"

#define PAGE	4096

/* A call that returns a pointer, or an errno negated. */
#define ABSENT(call, wanted, what) do { \
	errno = 0; \
	tap_ok(!(call), "%s: refused", what); \
	tap_is(errno, wanted, "%s: errno", what); \
} while (0)

static void qp_types(struct pair *pair)
{
	static const struct { enum ibv_qp_type type; const char *name; } types[] = {
		{ IBV_QPT_RAW_PACKET, "raw packet" },
		{ IBV_QPT_DRIVER, "driver's own" },
	};
	unsigned int i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = pair->a.send_cq, .recv_cq = pair->a.recv_cq,
			.cap = { .max_send_wr = 4, .max_recv_wr = 4,
				 .max_send_sge = 1, .max_recv_sge = 1 },
			.qp_type = types[i].type,
		};

		ABSENT(ibv_create_qp(pair->pd, &attr), EOPNOTSUPP, types[i].name);
	}
}

static void shared_receives(struct pair *pair)
{
	struct ibv_srq_init_attr_ex matching = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_TM, .pd = pair->pd,
	};
	struct ibv_wq_init_attr wq = {
		.wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1,
		.pd = pair->pd, .cq = pair->a.recv_cq,
	};

	ABSENT(ibv_create_srq_ex(pair->ctx, &matching), EOPNOTSUPP,
	       "SRQ with tag matching");
	ABSENT(ibv_create_wq(pair->ctx, &wq), EOPNOTSUPP, "work queue");
}

static void operations(struct pair *pair)
{
	static const struct { uint64_t op; const char *name; } ops[] = {
		{ IBV_QP_EX_WITH_TSO, "ibv_wr_send_tso" },
	};
	static const struct { enum ibv_wr_opcode op; const char *name; } posted[] = {
		{ IBV_WR_TSO, "TSO" },
	};
	unsigned int i;

	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct ibv_qp_init_attr_ex attr = {
			.send_cq = pair->a.send_cq, .recv_cq = pair->a.recv_cq,
			.cap = { .max_send_wr = 4, .max_recv_wr = 4,
				 .max_send_sge = 1, .max_recv_sge = 1 },
			.qp_type = IBV_QPT_RC, .pd = pair->pd,
			.comp_mask = IBV_QP_INIT_ATTR_PD |
				     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.send_ops_flags = ops[i].op,
		};

		ABSENT(ibv_create_qp_ex(pair->ctx, &attr), EOPNOTSUPP, ops[i].name);
	}
	for (i = 0; i < sizeof(posted) / sizeof(posted[0]); i++) {
		struct ibv_sge sge = { (uintptr_t)pair->a.buf, 8, pair->a.mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sge, .num_sge = 1, .opcode = posted[i].op,
		}, *bad;

		tap_is(ibv_post_send(pair->a.qp, &wr, &bad), EINVAL,
		       "ibv_post_send %s", posted[i].name);
	}
}

static void registrations(struct pair *pair)
{
	void *buf = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge sge = { (uintptr_t)pair->a.buf, 8, pair->a.mr->lkey };

	ABSENT(ibv_reg_mr(pair->pd, buf, PAGE, IBV_ACCESS_HUGETLB), EOPNOTSUPP,
	       "HUGETLB");
	tap_is(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1),
	       EINVAL, "ibv_advise_mr() of what is pinned");
	munmap(buf, PAGE);
}

int main(void)
{
	struct pair pair = {};

	pair_open(&pair, open_nic(NULL, &pair.attr), &pair_defaults);
	qp_types(&pair);
	shared_receives(&pair);
	operations(&pair);
	registrations(&pair);
	pair_close(&pair);
	return tap_done();
}
