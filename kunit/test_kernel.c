// SPDX-License-Identifier: GPL-2.0
/*
 * Queues of the kernel: what the driver writes into rings, and what it makes of CQEs.
 * The fake NIC executes no WQE: the cases write the CQEs.
 */

#include <linux/sizes.h>

#include "kernel_pair.h"

#define DEPTH	KERNEL_DEPTH
#define TO_INIT	(IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS)

static void kernel_post(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct moor_kernel_wq *sq = &pair->qp->kernel.sq;
	struct ib_sge sge = { .addr = 0x1122, .length = 33, .lkey = 44 };
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE_WITH_IMM, .num_sge = 1,
			.sg_list = &sge, .ex.imm_data = cpu_to_be32(55),
			.send_flags = IB_SEND_SIGNALED | IB_SEND_FENCE,
		},
		.remote_addr = 66, .rkey = 77,
	};
	const struct moor_sq_wqe *wqe = moor_wqe_at(sq, 0);
	const struct moor_sge *put = (const void *)(wqe + 1);
	const struct ib_send_wr *bad;

	KUNIT_EXPECT_GE(test, sq->log_stride, 7);
	KUNIT_EXPECT_EQ(test, ib_post_send(&pair->qp->ibqp, &wr.wr, NULL), 0);
	KUNIT_EXPECT_EQ(test, wqe->opcode, MOOR_WQE_WRITE_IMM);
	KUNIT_EXPECT_EQ(test, wqe->flags,
			MOOR_WQE_FLAG_SIGNALED | MOOR_WQE_FLAG_FENCE);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(wqe->imm), 55);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(wqe->remote_addr), 66);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(wqe->rkey), 77);
	KUNIT_EXPECT_EQ(test, wqe->num_sge, 1);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(put->addr), 0x1122);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(put->length), 33);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(put->lkey), 44);
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&sq->slot), 1);
	/* A request that is refused leaves those before it posted. */
	wr.wr.next = &(struct ib_send_wr){ .opcode = IB_WR_LSO };
	KUNIT_EXPECT_EQ(test, ib_post_send(&pair->qp->ibqp, &wr.wr, &bad), -EINVAL);
	KUNIT_EXPECT_PTR_EQ(test, bad, wr.wr.next);
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&sq->slot), 2);
	KUNIT_EXPECT_EQ(test, kernel_pair_send(pair, DEPTH - 2, 0), 0);
	KUNIT_EXPECT_EQ(test, kernel_pair_send(pair, 1, 0), -ENOMEM);
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&sq->slot), DEPTH);
	kernel_pair_close(test, pair);
}

/* Of SGEs or inline, as a WRITE. The core has no way to ask for FLUSH. */
static void kernel_post_atomic_write(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct moor_kernel_wq *sq = &pair->qp->kernel.sq;
	const struct moor_sq_wqe *wqe = moor_wqe_at(sq, 0);
	const struct moor_sge *put = (const void *)(wqe + 1);
	u64 word = 0x1122334455667788;
	struct ib_sge sge = { .addr = 0x1122, .length = 8, .lkey = 44 };
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_ATOMIC_WRITE, .num_sge = 1,
			.sg_list = &sge, .send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = 64, .rkey = 77,
	};
	const struct ib_send_wr *bad;

	KUNIT_EXPECT_EQ(test, ib_post_send(&pair->qp->ibqp, &wr.wr, NULL), 0);
	KUNIT_EXPECT_EQ(test, wqe->opcode, MOOR_WQE_ATOMIC_WRITE);
	KUNIT_EXPECT_EQ(test, wqe->flags, MOOR_WQE_FLAG_SIGNALED);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(wqe->remote_addr), 64);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(wqe->rkey), 77);
	KUNIT_EXPECT_EQ(test, wqe->num_sge, 1);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(put->addr), 0x1122);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(put->length), 8);

	wqe = moor_wqe_at(sq, 1);
	sge.addr = (uintptr_t)&word;
	wr.wr.send_flags |= IB_SEND_INLINE;
	KUNIT_EXPECT_EQ(test, ib_post_send(&pair->qp->ibqp, &wr.wr, NULL), 0);
	KUNIT_EXPECT_EQ(test, wqe->opcode, MOOR_WQE_ATOMIC_WRITE);
	KUNIT_EXPECT_EQ(test, wqe->flags,
			MOOR_WQE_FLAG_SIGNALED | MOOR_WQE_FLAG_INLINE);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(wqe->inline_length), 8);
	KUNIT_EXPECT_MEMEQ(test, (const u8 *)(wqe + 1), (const u8 *)&word, 8);

	wr.wr.opcode = IB_WR_FLUSH;
	wr.wr.send_flags = 0;
	KUNIT_EXPECT_EQ(test, ib_post_send(&pair->qp->ibqp, &wr.wr, &bad), -EINVAL);
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&sq->slot), 2);
	kernel_pair_close(test, pair);

	moor_kunit_replug(test, MOOR_FEATURE_ATOMIC_WRITE);
	pair = kernel_pair_open(test);
	wr.wr.opcode = IB_WR_ATOMIC_WRITE;
	KUNIT_EXPECT_EQ(test, ib_post_send(&pair->qp->ibqp, &wr.wr, &bad), -EINVAL);
	kernel_pair_close(test, pair);
}

/* Requests that need an answer are not posted to a UC queue, which gets none. */
static void kernel_post_uc(struct kunit *test)
{
	static const enum ib_wr_opcode posted[] = {
		IB_WR_SEND, IB_WR_SEND_WITH_IMM, IB_WR_RDMA_WRITE,
		IB_WR_RDMA_WRITE_WITH_IMM, IB_WR_LOCAL_INV,
	}, refused[] = {
		IB_WR_RDMA_READ, IB_WR_ATOMIC_CMP_AND_SWP,
		IB_WR_ATOMIC_FETCH_AND_ADD, IB_WR_SEND_WITH_INV,
		IB_WR_ATOMIC_WRITE,
	};
	struct kernel_pair *rc = kernel_pair_open(test);
	struct kernel_pair *uc = kernel_pair_open_type(test, IB_QPT_UC);
	struct ib_sge sge = { .addr = 0x1000, .length = 8, .lkey = 44 };
	union {
		struct ib_rdma_wr rdma;
		struct ib_atomic_wr atomic;
	} wr = {};
	const struct ib_send_wr *bad;
	u32 i;

	wr.atomic.wr.sg_list = &sge;
	wr.atomic.wr.num_sge = 1;
	for (i = 0; i < ARRAY_SIZE(posted); i++) {
		wr.atomic.wr.opcode = posted[i];
		KUNIT_EXPECT_EQ(test, ib_post_send(&uc->qp->ibqp, &wr.atomic.wr,
						   NULL), 0);
	}
	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		bad = NULL;
		wr.atomic.wr.opcode = refused[i];
		KUNIT_EXPECT_EQ(test, ib_post_send(&uc->qp->ibqp, &wr.atomic.wr,
						   &bad), -EINVAL);
		KUNIT_EXPECT_PTR_EQ(test, bad, &wr.atomic.wr);
		KUNIT_EXPECT_EQ(test, ib_post_send(&rc->qp->ibqp, &wr.atomic.wr,
						   NULL), 0);
	}
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&uc->qp->kernel.sq.slot),
			ARRAY_SIZE(posted));
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&rc->qp->kernel.sq.slot),
			ARRAY_SIZE(refused));
	kernel_pair_close_qp(test, uc);
	kernel_pair_close(test, rc);
}

/* A CQE ends its WQE and those before it; rings wrap. */
static void kernel_poll(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct ib_wc wc[4];
	u32 turn;

	for (turn = 0; turn < 40; turn++) {
		u32 last = (turn + 1) * DEPTH - 1;

		KUNIT_ASSERT_EQ(test, kernel_pair_send(pair, DEPTH, turn * 100), 0);
		KUNIT_ASSERT_EQ(test, kernel_pair_send(pair, 1, 0), -ENOMEM);
		KUNIT_ASSERT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 4, wc), 0);
		kernel_pair_write(pair, (struct moor_cqe){
			.opcode = MOOR_WQE_SEND, .byte_len = cpu_to_le32(9),
			.wqe_index = cpu_to_le32(last),
			.wr_id = cpu_to_le64(0xdead),
		});
		KUNIT_ASSERT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 4, wc), 1);
		KUNIT_EXPECT_EQ(test, wc->wr_id, turn * 100 + DEPTH - 1);
		KUNIT_EXPECT_EQ(test, wc->status, IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, wc->opcode, IB_WC_SEND);
		KUNIT_EXPECT_EQ(test, wc->byte_len, 9);
		KUNIT_EXPECT_PTR_EQ(test, wc->qp, &pair->qp->ibqp);
		KUNIT_EXPECT_EQ(test, (u32)kernel_slot_value(&pair->cq->kernel.slot),
				turn + 1);
	}
	kernel_pair_close(test, pair);
}

/* Each opcode of a CQE, and what the completion reports. */
static void kernel_poll_opcodes(struct kunit *test)
{
	static const struct {
		u8 wqe;
		enum ib_wc_opcode wc;
	} opcodes[] = {
		{ MOOR_WQE_SEND, IB_WC_SEND },
		{ MOOR_WQE_WRITE_IMM, IB_WC_RDMA_WRITE },
		{ MOOR_WQE_READ, IB_WC_RDMA_READ },
		{ MOOR_WQE_CMP_SWAP, IB_WC_COMP_SWAP },
		{ MOOR_WQE_FETCH_ADD, IB_WC_FETCH_ADD },
		{ MOOR_WQE_LOCAL_INV, IB_WC_LOCAL_INV },
		{ MOOR_WQE_REG_MR, IB_WC_REG_MR },
		{ MOOR_WQE_ATOMIC_WRITE, IB_WC_ATOMIC_WRITE },
		{ MOOR_WQE_FLUSH, IB_WC_FLUSH },
	};
	struct kernel_pair *pair = kernel_pair_open(test);
	struct ib_wc wc;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(opcodes); i++) {
		KUNIT_ASSERT_EQ(test, kernel_pair_send(pair, 1, i), 0);
		kernel_pair_write(pair, (struct moor_cqe){
			.opcode = opcodes[i].wqe, .wqe_index = cpu_to_le32(i),
		});
		KUNIT_ASSERT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 1, &wc), 1);
		KUNIT_EXPECT_EQ(test, wc.opcode, opcodes[i].wc);
	}
	kernel_pair_close(test, pair);
}

/* A work request of each of these, with the numbers of the WQEs as wr_ids. */
static const struct {
	enum ib_wr_opcode wr;
	enum ib_wc_opcode wc;
} sent[] = {
	{ IB_WR_SEND, IB_WC_SEND },
	{ IB_WR_RDMA_WRITE, IB_WC_RDMA_WRITE },
	{ IB_WR_RDMA_READ, IB_WC_RDMA_READ },
	{ IB_WR_ATOMIC_CMP_AND_SWP, IB_WC_COMP_SWAP },
	{ IB_WR_LOCAL_INV, IB_WC_LOCAL_INV },
};

static void post_each(struct kunit *test, struct kernel_pair *pair)
{
	struct ib_sge sge = { .addr = 0x1000, .length = 8, .lkey = 44 };
	union {
		struct ib_rdma_wr rdma;
		struct ib_atomic_wr atomic;
	} wr = {};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(sent); i++) {
		wr.atomic.wr = (struct ib_send_wr){
			.opcode = sent[i].wr, .wr_id = i, .sg_list = &sge, .num_sge = 1,
		};
		KUNIT_ASSERT_EQ(test, ib_post_send(&pair->qp->ibqp, &wr.atomic.wr, NULL), 0);
	}
}

/* A completion in error says only what the driver itself knows of the work request. */
static void expect_bare(struct kunit *test, const struct ib_wc *wc, u64 wr_id,
			enum ib_wc_opcode opcode)
{
	KUNIT_EXPECT_EQ(test, wc->wr_id, wr_id);
	KUNIT_EXPECT_EQ(test, wc->status, IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, wc->opcode, opcode);
	KUNIT_EXPECT_EQ(test, wc->byte_len, 0);
	KUNIT_EXPECT_EQ(test, wc->wc_flags, 0);
}

/*
 * What a CQE in error says of its opcode, its flags and its length has no meaning (HWI
 * CQ-8). SMC looks at the opcode before it looks at the status.
 */
static void kernel_poll_errors(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	u32 i, noise, sends = 0, recvs = 0;
	struct ib_recv_wr recv = {};
	struct ib_wc wc;

	for (noise = 0; noise < MOOR_CQE_RECV; noise++) {
		struct moor_cqe cqe = {
			.status = MOOR_WC_WR_FLUSH_ERR, .flags = noise,
			.byte_len = cpu_to_le32(noise),
		};

		post_each(test, pair);
		for (i = 0; i < ARRAY_SIZE(sent); i++) {
			cqe.opcode = noise;
			cqe.wqe_index = cpu_to_le32(sends++);
			kernel_pair_write(pair, cqe);
			KUNIT_ASSERT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 1, &wc), 1);
			expect_bare(test, &wc, i, sent[i].wc);
		}
		recv.wr_id = noise;
		KUNIT_ASSERT_EQ(test, ib_post_recv(&pair->qp->ibqp, &recv, NULL), 0);
		cqe.opcode = MOOR_CQE_RECV | noise;
		cqe.wqe_index = cpu_to_le32(recvs++);
		kernel_pair_write(pair, cqe);
		KUNIT_ASSERT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 1, &wc), 1);
		expect_bare(test, &wc, noise, IB_WC_RECV);
	}
	flush_work(&pair->mdev->fatal_work);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(pair->mdev));
	kernel_pair_close(test, pair);
}

/* As do the completions of a dead device. */
static void kernel_flush_opcodes(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct ib_recv_wr recv = { .wr_id = 7 };
	struct ib_wc wc[ARRAY_SIZE(sent) + 2];
	u32 i;

	post_each(test, pair);
	KUNIT_ASSERT_EQ(test, ib_post_recv(&pair->qp->ibqp, &recv, NULL), 0);
	moor_hw_kill(pair->mdev, "a case asked for it");
	KUNIT_ASSERT_EQ(test, ib_poll_cq(&pair->cq->ibcq, ARRAY_SIZE(wc), wc),
			ARRAY_SIZE(sent) + 1);
	for (i = 0; i < ARRAY_SIZE(sent); i++)
		expect_bare(test, &wc[i], i, sent[i].wc);
	expect_bare(test, &wc[i], 7, IB_WC_RECV);
	kernel_pair_close(test, pair);
}

struct lie {
	const char *name;
	u32 qpn_xor;
	u32 index;
	u8 opcode;
	u8 status;
	bool stops;		/* the device */
	int wcs;
};

/* Two sends have been posted, no receive. */
static const struct lie lies[] = {
	{ "true", 0, 1, MOOR_WQE_SEND, 0, false, 1 },
	{ "no such queue pair", 1, 0, MOOR_WQE_SEND, 0, false, 0 },
	{ "not posted yet", 0, 2, MOOR_WQE_SEND, 0, true, 0 },
	{ "long ago", 0, ~0U, MOOR_WQE_SEND, 0, true, 0 },
	{ "another queue", 0, 0, MOOR_CQE_RECV, 0, true, 0 },
	{ "unknown opcode", 0, 0, 0x7f, 0, false, 1 },
	{ "unknown status", 0, 0, MOOR_WQE_SEND, 0xff, false, 1 },
};

static void lie_desc(const struct lie *lie, char *desc)
{
	strscpy(desc, lie->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(lie, lies, lie_desc);

static void kernel_lie(struct kunit *test)
{
	const struct lie *lie = test->param_value;
	struct kernel_pair *pair = kernel_pair_open(test);
	struct ib_wc wc;

	KUNIT_ASSERT_EQ(test, kernel_pair_send(pair, 2, 5), 0);
	kernel_pair_write(pair, (struct moor_cqe){
		.qpn = cpu_to_le32(pair->qp->qpn ^ lie->qpn_xor),
		.opcode = lie->opcode, .status = lie->status,
		.wqe_index = cpu_to_le32(lie->index),
	});
	KUNIT_EXPECT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 1, &wc), lie->wcs);
	if (lie->wcs) {
		KUNIT_EXPECT_EQ(test, wc.wr_id, 5 + lie->index);
		KUNIT_EXPECT_LE(test, wc.status, IB_WC_GENERAL_ERR);
	}
	if (lie->stops)
		moor_kunit_wait(test, moor_is_dead(pair->mdev));
	flush_work(&pair->mdev->fatal_work);
	KUNIT_EXPECT_EQ(test, moor_is_dead(pair->mdev), lie->stops);
	KUNIT_EXPECT_STREQ(test, pair->mdev->why ?: "",
			   lie->stops ? "it completed a request that is not posted" :
					"");
	kernel_pair_close(test, pair);
}

struct told {
	const char *name;
	u32 bytes;
	u8 opcode;
	u8 status;
	bool stops;		/* the device */
};

/* A receive of 100 bytes has been posted. */
static const struct told tolds[] = {
	{ "as much as there is room for", 100, MOOR_CQE_RECV, 0, false },
	{ "a byte more", 101, MOOR_CQE_RECV, 0, true },
	{ "as much as can be said", ~0U, MOOR_CQE_RECV, 0, true },
	{ "of a receive that there is not", 101, MOOR_CQE_RECV + 7, 0, true },
	{ "of a write", 4096, MOOR_CQE_RECV_WRITE_IMM, 0, false },
	{ "of nothing", 101, MOOR_CQE_RECV, MOOR_WC_WR_FLUSH_ERR, false },
};

static void told_desc(const struct told *told, char *desc)
{
	strscpy(desc, told->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(told, tolds, told_desc);

/* A device may lie about how many bytes came, and users rely on that number. */
static void kernel_room(struct kunit *test)
{
	const struct told *told = test->param_value;
	struct kernel_pair *pair = kernel_pair_open(test);
	struct ib_sge sge = { .length = 100 };
	struct ib_recv_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 };
	struct ib_wc wc;

	KUNIT_ASSERT_EQ(test, ib_post_recv(&pair->qp->ibqp, &wr, NULL), 0);
	kernel_pair_write(pair, (struct moor_cqe){
		.opcode = told->opcode, .status = told->status,
		.byte_len = cpu_to_le32(told->bytes),
	});
	KUNIT_ASSERT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, wc.wr_id, 7);
	KUNIT_EXPECT_EQ(test, wc.status, told->stops ? IB_WC_LOC_LEN_ERR :
						       told->status);
	if (!told->stops)
		KUNIT_EXPECT_EQ(test, wc.byte_len, told->status ? 0 : told->bytes);
	flush_work(&pair->mdev->fatal_work);
	KUNIT_EXPECT_EQ(test, moor_is_dead(pair->mdev), told->stops);
	KUNIT_EXPECT_STREQ(test, pair->mdev->why ?: "",
			   told->stops ?
			   "it wrote more bytes than a receive has room for" : "");
	kernel_pair_close(test, pair);
}

/* A user that stops a queue pair frees memory next: a device that refuses is stopped. */
static void stop_refused(struct kunit *test, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1 };
	struct fake_nic *nic = moor_kunit_nic();
	struct kernel_pair *pair = kernel_pair_open(test);

	KUNIT_ASSERT_EQ(test, kernel_pair_send(pair, 1, 5), 0);
	KUNIT_ASSERT_EQ(test, ib_modify_qp(&pair->qp->ibqp, &attr, TO_INIT), 0);
	nic->behave.fail_opcode = MOOR_CMD_MODIFY_QP;
	nic->behave.fail_status = MOOR_CMD_BAD_STATE;
	/* A device may refuse any other change. */
	KUNIT_EXPECT_EQ(test, ib_modify_qp(&pair->qp->ibqp, &attr, TO_INIT), -EINVAL);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(pair->mdev));
	attr.qp_state = state;
	KUNIT_EXPECT_EQ(test, ib_modify_qp(&pair->qp->ibqp, &attr, IB_QP_STATE), 0);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(pair->mdev));
	KUNIT_EXPECT_EQ(test, pair->qp->attr.qp_state, state);
	kernel_pair_close(test, pair);
}

static void kernel_err_refused(struct kunit *test)
{
	stop_refused(test, IB_QPS_ERR);
}

static void kernel_reset_refused(struct kunit *test)
{
	stop_refused(test, IB_QPS_RESET);
}

/*
 * After a reset the slots are 0, even if a task stored an old head after the device had
 * zeroed them. This fake NIC does not zero them, which looks the same.
 */
static void kernel_reset_slots(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	struct ib_recv_wr recv = {};

	KUNIT_EXPECT_EQ(test, kernel_pair_send(pair, 2, 0), 0);
	KUNIT_EXPECT_EQ(test, ib_post_recv(&pair->qp->ibqp, &recv, NULL), 0);
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&pair->qp->kernel.sq.slot), 2);
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&pair->qp->kernel.rq.slot), 1);
	KUNIT_EXPECT_EQ(test, ib_modify_qp(&pair->qp->ibqp, &attr, IB_QP_STATE), 0);
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&pair->qp->kernel.sq.slot), 0);
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&pair->qp->kernel.rq.slot), 0);
	kernel_pair_close(test, pair);
}

/* Slots come from page 0 first, then from pages that the driver keeps. */
static void kernel_slots(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	const u32 first = MOOR_DB_SLOTS_PER_PAGE - MOOR_DB_SLOT_KERNEL_FIRST;
	const u32 all = first + (FAKE_DB_PAGES - 1) * MOOR_DB_SLOTS_PER_PAGE;
	struct moor_kernel_slot *slots, one;
	u32 i;

	slots = kunit_kcalloc(test, all, sizeof(*slots), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, slots);
	for (i = 0; i < all; i++) {
		KUNIT_ASSERT_EQ(test, moor_kernel_slot_alloc(mdev, &slots[i]), 0);
		KUNIT_ASSERT_EQ(test, le32_to_cpu(moor_kernel_slot_location(&slots[i])),
				i + MOOR_DB_SLOT_KERNEL_FIRST);
	}
	KUNIT_EXPECT_EQ(test, moor_kernel_slot_alloc(mdev, &one), -ENOMEM);
	moor_kernel_slot_free(mdev, &slots[7]);
	KUNIT_EXPECT_EQ(test, moor_kernel_slot_alloc(mdev, &slots[7]), 0);
	KUNIT_EXPECT_EQ(test, slots[7].number, 7 + MOOR_DB_SLOT_KERNEL_FIRST);
	for (i = 0; i < all; i++)
		moor_kernel_slot_free(mdev, &slots[i]);
	moor_kernel_slot_free(mdev, &slots[0]);
}

/* Both ends of each page of a ring are where the table says, and nothing behind it is. */
static void ring_check(struct kunit *test, const struct moor_kernel_ring *ring,
		       size_t bytes)
{
	u64 dma, left;
	size_t at;

	for (at = 0; at < bytes; at += PAGE_SIZE / 2) {
		size_t byte = at & PAGE_SIZE / 2 ? at + PAGE_SIZE / 2 - 1 : at;
		u8 *found;

		KUNIT_ASSERT_TRUE(test, fake_xlat_find(moor_kunit_nic(),
						       &ring->table.xlat, byte,
						       true, &dma, &left));
		found = phys_to_virt(dma);
		KUNIT_ASSERT_PTR_EQ(test, found,
				    (u8 *)moor_kernel_ring_at(ring, byte));
		KUNIT_ASSERT_EQ(test, *found, 0);
		*found = 1;
	}
	/* Pieces that happen to lie side by side need no table, and only that has an end. */
	if (ring->table.xlat.levels)
		KUNIT_EXPECT_FALSE(test, fake_xlat_find(moor_kunit_nic(),
							&ring->table.xlat, bytes,
							true, &dma, &left));
}

/* In one piece and in many; each slab allocation fails in turn, and nothing is left. */
static void kernel_ring(struct kunit *test)
{
	static const size_t sizes[] = {
		SZ_2K, SZ_4K, SZ_32K, SZ_64K, SZ_2M, SZ_8M,
	};
	struct moor_dev *mdev = test->priv;
	u32 nodes = mdev->nodes.count, failed = 0, i, nth;
	struct moor_kernel_ring ring;
	bool reached;
	int err;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		nth = 0;
		do {
			current->fail_nth = ++nth;
			err = moor_kernel_ring_alloc(mdev, &ring, sizes[i]);
			reached = !current->fail_nth;
			current->fail_nth = 0;
			if (err)
				KUNIT_EXPECT_EQ(test, err, -ENOMEM);
			failed += !!err;
			moor_kernel_ring_free(mdev, &ring);
			KUNIT_ASSERT_EQ(test, mdev->nodes.count, nodes);
		} while (reached);
		KUNIT_ASSERT_EQ(test, moor_kernel_ring_alloc(mdev, &ring, sizes[i]),
				0);
		KUNIT_EXPECT_EQ(test, ring.num_pieces,
				DIV_ROUND_UP(sizes[i], MOOR_KERNEL_PIECE_BYTES));
		ring_check(test, &ring, max(sizes[i], PAGE_SIZE));
		moor_kernel_ring_free(mdev, &ring);
		KUNIT_EXPECT_EQ(test, mdev->nodes.count, nodes);
	}
	KUNIT_EXPECT_GE(test, failed, ARRAY_SIZE(sizes));
}

static struct kunit_case kernel_cases[] = {
	KUNIT_CASE(kernel_post),
	KUNIT_CASE(kernel_post_atomic_write),
	KUNIT_CASE(kernel_post_uc),
	KUNIT_CASE(kernel_poll),
	KUNIT_CASE(kernel_poll_opcodes),
	KUNIT_CASE(kernel_poll_errors),
	KUNIT_CASE(kernel_flush_opcodes),
	KUNIT_CASE_PARAM(kernel_lie, lie_gen_params),
	KUNIT_CASE_PARAM(kernel_room, told_gen_params),
	KUNIT_CASE(kernel_err_refused),
	KUNIT_CASE(kernel_reset_refused),
	KUNIT_CASE(kernel_reset_slots),
	KUNIT_CASE(kernel_slots),
	KUNIT_CASE(kernel_ring),
	{}
};

static struct kunit_suite kernel_suite = {
	.name = "moor_kernel",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = kernel_cases,
};

kunit_test_suite(kernel_suite);
