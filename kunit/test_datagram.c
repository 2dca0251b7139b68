// SPDX-License-Identifier: GPL-2.0
/* Datagrams of the kernel: address handles, posting, completions, groups. */

#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>

#include "harness.h"

#define QKEY	0x1234

struct datagram_user {
	struct moor_dev *mdev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
};

static struct datagram_user *datagram_open(struct kunit *test)
{
	struct datagram_user *user = kunit_kzalloc(test, sizeof(*user), GFP_KERNEL);
	struct ib_cq_init_attr cq_attr = { .cqe = 16 };
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_UD, .cap = { 4, 4, 2, 1, 32 },
	};

	KUNIT_ASSERT_NOT_NULL(test, user);
	user->mdev = test->priv;
	user->pd = ib_alloc_pd(&user->mdev->ibdev, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, user->pd);
	user->cq = ib_create_cq(&user->mdev->ibdev, NULL, NULL, NULL, &cq_attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, user->cq);
	attr.send_cq = user->cq;
	attr.recv_cq = user->cq;
	user->qp = ib_create_qp(user->pd, &attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, user->qp);
	return user;
}

static void datagram_close(struct kunit *test, struct datagram_user *user)
{
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(user->qp), 0);
	ib_destroy_cq(user->cq);
	ib_dealloc_pd(user->pd);
}

static struct fake_qp *datagram_at_device(struct datagram_user *user)
{
	struct fake_nic *nic = moor_kunit_nic();

	return &nic->qps[user->qp->qp_num % ARRAY_SIZE(nic->qps)];
}

static void datagram_address(struct rdma_ah_attr *attr)
{
	static const u8 dmac[ETH_ALEN] = { 2, 3, 5, 7, 11, 13 };

	*attr = (struct rdma_ah_attr){ .type = RDMA_AH_ATTR_TYPE_ROCE };
	rdma_ah_set_ah_flags(attr, IB_AH_GRH);
	rdma_ah_set_grh(attr, NULL, 0xfff12345, 6, 64, 0x28);
	attr->grh.dgid.raw[15] = 9;
	rdma_ah_set_sl(attr, 5);
	memcpy(attr->roce.dmac, dmac, ETH_ALEN);
}

static void datagram_ah(struct kunit *test)
{
	struct moor_ah *ah = kunit_kzalloc(test, sizeof(*ah), GFP_KERNEL);
	struct moor_user *user = moor_user_open(test);
	struct rdma_ah_attr attr;
	struct rdma_ah_init_attr init = { .ah_attr = &attr };
	struct moor_create_ah_resp resp;
	struct ib_udata *udata;

	KUNIT_ASSERT_NOT_NULL(test, ah);
	datagram_address(&attr);
	udata = moor_user_udata(test, user, NULL, 0, sizeof(resp));
	KUNIT_ASSERT_EQ(test, moor_create_ah(&ah->ibah, &init, udata), 0);
	moor_user_answer(test, user, &resp, sizeof(resp));
	KUNIT_EXPECT_MEMEQ(test, resp.dmac, attr.roce.dmac, ETH_ALEN);
	KUNIT_EXPECT_EQ(test, resp.hop_limit, 64);
	KUNIT_EXPECT_EQ(test, resp.reserved, 0);
	KUNIT_EXPECT_EQ(test, ah->segment.sgid_index, 6);
	KUNIT_EXPECT_EQ(test, ah->segment.hop_limit, 64);
	KUNIT_EXPECT_EQ(test, ah->segment.traffic_class, 0x28);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(ah->segment.flow_label), 0x12345);
	KUNIT_EXPECT_EQ(test, ah->segment.priority, 5);
	KUNIT_EXPECT_GE(test, le16_to_cpu(ah->segment.udp_sport), 0xc000);
	KUNIT_EXPECT_MEMEQ(test, ah->segment.dgid, attr.grh.dgid.raw, 16);
	KUNIT_EXPECT_MEMEQ(test, ah->segment.dmac, attr.roce.dmac, ETH_ALEN);
	rdma_ah_set_ah_flags(&attr, 0);
	KUNIT_EXPECT_EQ(test, moor_create_ah(&ah->ibah, &init, NULL), -EINVAL);
	moor_user_close(test, user);
}

static void datagram_post(struct kunit *test)
{
	struct datagram_user *user = datagram_open(test);
	struct moor_kernel_wq *sq = &to_mqp(user->qp)->kernel.sq;
	struct moor_ah *ah = kunit_kzalloc(test, sizeof(*ah), GFP_KERNEL);
	struct moor_sq_wqe *wqe = moor_wqe_at(sq, 0);
	const struct moor_wqe_ud *to = (const void *)(wqe + 1);
	const struct moor_sge *put = (const void *)(to + 1);
	struct ib_sge sge = { .addr = 0x1122, .length = 33, .lkey = 44 };
	struct ib_ud_wr wr = {
		.wr = {
			.opcode = IB_WR_SEND_WITH_IMM, .num_sge = 1,
			.sg_list = &sge, .ex.imm_data = cpu_to_be32(55),
		},
		.remote_qpn = 66, .remote_qkey = QKEY, .pkey_index = 9,
	};
	static const enum ib_wr_opcode others[] = {
		IB_WR_RDMA_WRITE, IB_WR_RDMA_READ, IB_WR_SEND_WITH_INV,
		IB_WR_LOCAL_INV, IB_WR_REG_MR,
	};
	const struct ib_send_wr *bad;
	struct rdma_ah_attr attr;
	u8 data[32] = "where it goes comes first";
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, ah);
	datagram_address(&attr);
	KUNIT_ASSERT_EQ(test, moor_create_ah(&ah->ibah, &(struct rdma_ah_init_attr){
					     .ah_attr = &attr }, NULL), 0);
	wr.ah = &ah->ibah;
	KUNIT_ASSERT_EQ(test, ib_post_send(user->qp, &wr.wr, &bad), 0);
	KUNIT_EXPECT_EQ(test, wqe->opcode, MOOR_WQE_SEND_IMM);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(wqe->imm), 55);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(to->dest_qpn), 66);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(to->qkey), QKEY);
	KUNIT_EXPECT_EQ(test, to->sgid_index, 6);
	KUNIT_EXPECT_EQ(test, to->pkey_index, 0);
	KUNIT_EXPECT_EQ(test, to->reserved1, 0);
	KUNIT_EXPECT_EQ(test, to->reserved2, 0);
	KUNIT_EXPECT_EQ(test, wqe->num_sge, 1);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(put->addr), 0x1122);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(put->lkey), 44);
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		wr.wr.opcode = others[i];
		KUNIT_EXPECT_EQ(test, ib_post_send(user->qp, &wr.wr, &bad), -EINVAL);
	}
	wqe = moor_wqe_at(sq, 1);
	wr.wr.opcode = IB_WR_SEND;
	wr.wr.send_flags = IB_SEND_INLINE;
	sge.addr = (uintptr_t)data;
	sge.length = sizeof(data);
	KUNIT_ASSERT_EQ(test, ib_post_send(user->qp, &wr.wr, &bad), 0);
	KUNIT_EXPECT_MEMEQ(test, (u8 *)(wqe + 1) + sizeof(*to), data, sizeof(data));
	datagram_close(test, user);
}

/* Only a write needs no room in the receive, and no datagram is a write. */
static void datagram_room(struct kunit *test)
{
	struct datagram_user *user = datagram_open(test);
	struct moor_cqe *ring =
		moor_kernel_ring_at(&to_mcq(user->cq)->kernel.ring, 0);
	struct ib_recv_wr wr = { .wr_id = 7 };
	struct ib_wc wc;

	KUNIT_ASSERT_EQ(test, ib_post_recv(user->qp, &wr, NULL), 0);
	ring[0] = (struct moor_cqe){
		.qpn = cpu_to_le32(user->qp->qp_num), .byte_len = cpu_to_le32(1),
		.opcode = MOOR_CQE_RECV_WRITE_IMM, .phase = cpu_to_le32(1),
	};
	KUNIT_ASSERT_EQ(test, ib_poll_cq(user->cq, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_LOC_LEN_ERR);
	flush_work(&to_mdev(user->cq->device)->fatal_work);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(to_mdev(user->cq->device)));
	datagram_close(test, user);
}

static void datagram_completion(struct kunit *test)
{
	struct datagram_user *user = datagram_open(test);
	struct moor_cqe *ring =
		moor_kernel_ring_at(&to_mcq(user->cq)->kernel.ring, 0);
	struct ib_sge sge = { .length = 50 };
	struct ib_recv_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 };
	const struct ib_recv_wr *bad;
	struct ib_wc wc;
	u32 i;

	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, ib_post_recv(user->qp, &wr, &bad), 0);
		ring[i] = (struct moor_cqe){
			.qpn = cpu_to_le32(user->qp->qp_num),
			.wqe_index = cpu_to_le32(i),
			.src_qpn = cpu_to_le32(8), .byte_len = cpu_to_le32(50),
			.opcode = MOOR_CQE_RECV, .flags = MOOR_CQE_FLAG_GRH,
			.network = MOOR_NETWORK_IPV4, .priority = 3,
			.smac = { 1, 2, 3, 4, 5, 6 },
			.vlan = cpu_to_le16(i ? 100 : MOOR_GID_NO_VLAN),
			.phase = cpu_to_le32(1),
		};
		KUNIT_ASSERT_EQ(test, ib_poll_cq(user->cq, 1, &wc), 1);
		KUNIT_EXPECT_EQ(test, wc.wr_id, 7);
		KUNIT_EXPECT_EQ(test, wc.src_qp, 8);
		KUNIT_EXPECT_EQ(test, wc.byte_len, 50);
		KUNIT_EXPECT_EQ(test, wc.sl, 3);
		KUNIT_EXPECT_EQ(test, wc.port_num, 1);
		KUNIT_EXPECT_EQ(test, wc.network_hdr_type, RDMA_NETWORK_IPV4);
		KUNIT_EXPECT_MEMEQ(test, wc.smac, ring[i].smac, ETH_ALEN);
		KUNIT_EXPECT_EQ(test, wc.wc_flags,
				IB_WC_GRH | IB_WC_WITH_SMAC |
				IB_WC_WITH_NETWORK_HDR_TYPE |
				(i ? IB_WC_WITH_VLAN : 0));
		KUNIT_EXPECT_EQ(test, wc.vlan_id, i ? 100 : 0);
	}
	datagram_close(test, user);
}

static void datagram_states(struct kunit *test)
{
	struct datagram_user *user = datagram_open(test);
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT, .port_num = 1, .qkey = QKEY,
	};
	int to_init = IB_QP_STATE | IB_QP_PORT | IB_QP_PKEY_INDEX;
	struct ib_qp_init_attr init;

	KUNIT_EXPECT_EQ(test, datagram_at_device(user)->type, MOOR_QP_UD);
	KUNIT_EXPECT_EQ(test, ib_modify_qp(user->qp, &attr, to_init), -EINVAL);
	attr.pkey_index = 1;
	KUNIT_EXPECT_EQ(test, ib_modify_qp(user->qp, &attr, to_init | IB_QP_QKEY),
			-EINVAL);
	attr.pkey_index = 0;
	KUNIT_ASSERT_EQ(test, ib_modify_qp(user->qp, &attr, to_init | IB_QP_QKEY), 0);
	KUNIT_EXPECT_EQ(test, datagram_at_device(user)->qkey, QKEY);
	KUNIT_EXPECT_EQ(test, datagram_at_device(user)->path_mtu,
			iboe_get_mtu(user->mdev->netdev->mtu));
	attr.qp_state = IB_QPS_RTR;
	KUNIT_ASSERT_EQ(test, ib_modify_qp(user->qp, &attr, IB_QP_STATE), 0);
	attr.qp_state = IB_QPS_RTS;
	attr.qkey = QKEY + 1;
	KUNIT_ASSERT_EQ(test, ib_modify_qp(user->qp, &attr, IB_QP_STATE |
					   IB_QP_SQ_PSN | IB_QP_QKEY), 0);
	/* As if a send had failed: the transition ends SQE. */
	datagram_at_device(user)->state = MOOR_QPS_SQE;
	attr.cur_qp_state = IB_QPS_SQE;
	KUNIT_EXPECT_EQ(test, ib_modify_qp(user->qp, &attr, IB_QP_STATE |
					   IB_QP_CUR_STATE), 0);
	KUNIT_EXPECT_EQ(test, datagram_at_device(user)->state, MOOR_QPS_RTS);
	memset(&attr, 0, sizeof(attr));
	KUNIT_ASSERT_EQ(test, ib_query_qp(user->qp, &attr, IB_QP_QKEY, &init), 0);
	KUNIT_EXPECT_EQ(test, attr.qkey, QKEY + 1);
	datagram_close(test, user);
}

static void datagram_group(struct kunit *test)
{
	struct datagram_user *user = datagram_open(test);
	union ib_gid group = { .raw = { 0xff, 0x0e } }, other = { .raw = { 0xfe } };
	struct fake_nic *nic = moor_kunit_nic();
	u32 i;

	KUNIT_EXPECT_EQ(test, ib_attach_mcast(user->qp, &other, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(user->qp, &group, 0), 0);
	KUNIT_EXPECT_TRUE(test, nic->filters[0].live);
	KUNIT_EXPECT_EQ(test, nic->filters[0].qpn, user->qp->qp_num);
	KUNIT_EXPECT_MEMEQ(test, nic->filters[0].gid, group.raw, 16);
	for (i = 1; i < FAKE_MAX_FILTER; i++) {
		group.raw[15] = i;
		KUNIT_EXPECT_EQ(test, ib_attach_mcast(user->qp, &group, 0), 0);
	}
	group.raw[15] = i;
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(user->qp, &group, 0), -ENOMEM);
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(user->qp, &group, 0), -EINVAL);
	while (--i) {
		group.raw[15] = i;
		KUNIT_EXPECT_EQ(test, ib_detach_mcast(user->qp, &group, 0), 0);
	}
	/* A device that refuses is stopped. A dead device has no filters any more. */
	group.raw[15] = 1;
	KUNIT_EXPECT_EQ(test, ib_attach_mcast(user->qp, &group, 0), 0);
	nic->behave.fail_opcode = MOOR_CMD_DETACH_FILTER;
	nic->behave.fail_status = MOOR_CMD_BUSY;
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(user->qp, &group, 0), 0);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_TRUE(test, moor_is_dead(user->mdev));
	group.raw[15] = 0;
	KUNIT_EXPECT_EQ(test, ib_detach_mcast(user->qp, &group, 0), 0);
	datagram_close(test, user);
}

/* The port's attributes, and the GSI QP that the core's MAD agents have made. */
static void datagram_gsi(struct kunit *test)
{
	const struct fake_qp *gsi = &moor_kunit_nic()->qps[MOOR_QPN_GSI];
	struct moor_dev *mdev = test->priv;
	struct ib_port_attr port = {};

	KUNIT_EXPECT_TRUE(test, rdma_cap_ib_mad(&mdev->ibdev, MOOR_PORT));
	KUNIT_EXPECT_TRUE(test, rdma_cap_ib_cm(&mdev->ibdev, MOOR_PORT));
	KUNIT_EXPECT_FALSE(test, rdma_cap_ib_smi(&mdev->ibdev, MOOR_PORT));
	KUNIT_EXPECT_EQ(test, rdma_max_mad_size(&mdev->ibdev, MOOR_PORT),
			IB_MGMT_MAD_SIZE);
	KUNIT_EXPECT_EQ(test, ib_query_port(&mdev->ibdev, MOOR_PORT, &port), 0);
	KUNIT_EXPECT_EQ(test, port.port_cap_flags, IB_PORT_CM_SUP);
	KUNIT_EXPECT_EQ(test, port.pkey_tbl_len, 1);
	KUNIT_EXPECT_TRUE(test, gsi->live);
	KUNIT_EXPECT_EQ(test, gsi->qpn, MOOR_QPN_GSI);
	KUNIT_EXPECT_EQ(test, gsi->type, MOOR_QP_UD);
	KUNIT_EXPECT_EQ(test, gsi->qkey, IB_QP1_QKEY);
	KUNIT_EXPECT_EQ(test, gsi->state, MOOR_QPS_RTS);
}

static int datagram_try_gsi(struct datagram_user *user, u32 port)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_GSI, .port_num = port, .cap = { 4, 4, 2, 1, 0 },
		.send_cq = user->cq, .recv_cq = user->cq,
	};
	struct ib_qp *qp = ib_create_qp(user->pd, &attr);

	if (!IS_ERR(qp))
		ib_destroy_qp(qp);
	return PTR_ERR_OR_ZERO(qp);
}

/* A port has one GSI QP. moor_qp tests that a process cannot have it. */
static void datagram_gsi_refused(struct kunit *test)
{
	struct datagram_user *user = datagram_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	u32 before = nic->commands[MOOR_CMD_CREATE_QP];

	KUNIT_EXPECT_EQ(test, datagram_try_gsi(user, MOOR_PORT), -EBUSY);
	KUNIT_EXPECT_EQ(test, datagram_try_gsi(user, MOOR_PORT + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_CREATE_QP], before);
	KUNIT_EXPECT_TRUE(test, nic->qps[MOOR_QPN_GSI].live);
	KUNIT_EXPECT_NOT_NULL(test, moor_qp_find(user->mdev, MOOR_QPN_GSI));
	datagram_close(test, user);
}

/* The most SGEs that a NIC may announce. */
#define MOST_SGES	27

/* Log2 of the size of a WQE, for a queue pair with so many SGEs. */
static u8 log_stride_of(struct kunit *test, enum ib_qp_type type, u32 sges)
{
	struct moor_dev *mdev = test->priv;
	struct ib_cq_init_attr cq_attr = { .cqe = 16 };
	struct ib_qp_init_attr attr = {
		.qp_type = type, .cap = { 4, 4, sges, sges, 0 },
	};
	struct ib_pd *pd = ib_alloc_pd(&mdev->ibdev, 0);
	struct ib_qp *qp;
	u8 stride = 0;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	attr.send_cq = ib_create_cq(&mdev->ibdev, NULL, NULL, NULL, &cq_attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, attr.send_cq);
	attr.recv_cq = attr.send_cq;
	qp = ib_create_qp(pd, &attr);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(qp), 0);
	if (!IS_ERR(qp)) {
		stride = to_mqp(qp)->kernel.sq.log_stride;
		KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), 0);
	}
	ib_destroy_cq(attr.send_cq);
	ib_dealloc_pd(pd);
	return stride;
}

/* The most SGEs that a NIC may announce fit into a WQE of each QP type. */
static void datagram_most_sges(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev;

	nic->behave.odd_register = MOOR_REG_MAX_SGE;
	nic->behave.odd_value = MOST_SGES;
	mdev = moor_kunit_replug(test, 0);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.max_send_sge, MOST_SGES);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.max_recv_sge, MOST_SGES);
	KUNIT_EXPECT_EQ(test, log_stride_of(test, IB_QPT_UD, MOST_SGES),
			MOOR_MAX_LOG_STRIDE);
	KUNIT_EXPECT_EQ(test, log_stride_of(test, IB_QPT_RC, MOST_SGES),
			MOOR_MAX_LOG_STRIDE);
}

/* WQEs are no larger than needed: a head and six SGEs, or a REG_MR, take 128 bytes. */
static void datagram_no_waste(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, log_stride_of(test, IB_QPT_RC, 1), 7);
	KUNIT_EXPECT_EQ(test, log_stride_of(test, IB_QPT_RC, 6), 7);
	KUNIT_EXPECT_EQ(test, log_stride_of(test, IB_QPT_RC, 7), 8);
}

static void datagram_absent(struct kunit *test)
{
	struct moor_dev *mdev = moor_kunit_replug(test, MOOR_FEATURE_UD);

	KUNIT_EXPECT_FALSE(test, rdma_cap_ib_mad(&mdev->ibdev, MOOR_PORT));
	KUNIT_EXPECT_FALSE(test, rdma_cap_ib_cm(&mdev->ibdev, MOOR_PORT));
	KUNIT_EXPECT_FALSE(test, moor_kunit_nic()->qps[MOOR_QPN_GSI].live);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.max_ah, 0);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.max_mcast_grp, 0);
	KUNIT_EXPECT_NULL(test, mdev->ibdev.ops.attach_mcast);
	KUNIT_EXPECT_NULL(test, mdev->ibdev.ops.create_ah);
	KUNIT_EXPECT_NULL(test, mdev->ibdev.ops.create_user_ah);
}

static struct kunit_case datagram_cases[] = {
	KUNIT_CASE(datagram_ah),
	KUNIT_CASE(datagram_post),
	KUNIT_CASE(datagram_room),
	KUNIT_CASE(datagram_completion),
	KUNIT_CASE(datagram_states),
	KUNIT_CASE(datagram_group),
	KUNIT_CASE(datagram_gsi),
	KUNIT_CASE(datagram_gsi_refused),
	KUNIT_CASE(datagram_most_sges),
	KUNIT_CASE(datagram_no_waste),
	KUNIT_CASE(datagram_absent),
	{}
};

static struct kunit_suite datagram_suite = {
	.name = "moor_datagram",
	.init = moor_kunit_init_all,
	.exit = moor_kunit_exit,
	.test_cases = datagram_cases,
};

kunit_test_suite(datagram_suite);
