// SPDX-License-Identifier: GPL-2.0
/*
 * The device and its port as the core asks for them, and the table of what
 * this driver implements.
 */

#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>

#include "moor.h"
#include "regs.h"

#define MOOR_MAX_AH	BIT(20)
#define MOOR_CLOCK_KHZ	1000000

/* RoCE v1 and v2 by hardware. */
#define MOOR_CORE_CAPS	(RDMA_CORE_CAP_PROT_ROCE |			\
			 RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP |		\
			 RDMA_CORE_CAP_ETH_AH)

/* Capabilities that need MADs, and with them the GSI QP. */
#define MOOR_CORE_CM	(RDMA_CORE_CAP_IB_MAD | RDMA_CORE_CAP_IB_CM |	\
			 RDMA_CORE_CAP_AF_IB)

static void moor_query_windows(const struct moor_dev *mdev,
			       struct ib_device_attr *attr)
{
	u64 features = mdev->caps.features;

	if (!(features & (MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B)))
		return;
	attr->max_mw = mdev->mw_keys.size;
	if (features & MOOR_FEATURE_MW_TYPE_1)
		attr->device_cap_flags |= IB_DEVICE_MEM_WINDOW;
	if (features & MOOR_FEATURE_MW_TYPE_2B)
		attr->device_cap_flags |= IB_DEVICE_MEM_WINDOW_TYPE_2B;
}

static void moor_query_srqs(const struct moor_caps *caps,
			    struct ib_device_attr *attr)
{
	if (!(caps->features & MOOR_FEATURE_SRQ))
		return;
	attr->max_srq = 1 << caps->srq_index_bits;
	attr->max_srq_wr = 1 << caps->max_log_wqe;
	attr->max_srq_sge = caps->max_sge;
	attr->device_cap_flags |= IB_DEVICE_SRQ_RESIZE;
	if (caps->features & MOOR_FEATURE_XRC)
		attr->device_cap_flags |= IB_DEVICE_XRC;
}

static void moor_query_datagrams(const struct moor_caps *caps,
				 struct ib_device_attr *attr)
{
	if (!(caps->features & MOOR_FEATURE_UD))
		return;
	attr->max_ah = MOOR_MAX_AH;
	attr->max_mcast_grp = caps->max_filter;
	attr->max_mcast_qp_attach = caps->max_filter;
	attr->max_total_mcast_qp_attach = caps->max_filter;
}

static void moor_query_placement(const struct moor_caps *caps,
				 struct ib_device_attr *attr)
{
	if (caps->features & MOOR_FEATURE_FLUSH_GLOBAL)
		attr->device_cap_flags |= IB_DEVICE_FLUSH_GLOBAL;
	if (caps->features & MOOR_FEATURE_FLUSH_PERSISTENT)
		attr->device_cap_flags |= IB_DEVICE_FLUSH_PERSISTENT;
	if (caps->features & MOOR_FEATURE_ATOMIC_WRITE)
		attr->device_cap_flags |= IB_DEVICE_ATOMIC_WRITE;
}

static void moor_query_odp(const struct moor_caps *caps,
			   struct ib_device_attr *attr)
{
	struct ib_odp_caps *odp = &attr->odp_caps;

	attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	odp->general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	odp->per_transport_caps.rc_odp_caps = IB_ODP_SUPPORT_SEND |
					      IB_ODP_SUPPORT_RECV |
					      IB_ODP_SUPPORT_WRITE |
					      IB_ODP_SUPPORT_READ;
	if (caps->features & MOOR_FEATURE_ATOMICS)
		odp->per_transport_caps.rc_odp_caps |= IB_ODP_SUPPORT_ATOMIC;
	if (caps->features & MOOR_FEATURE_SRQ)
		odp->per_transport_caps.rc_odp_caps |= IB_ODP_SUPPORT_SRQ_RECV;
	/* What is paged is never known to be persistent. */
	if (caps->features & MOOR_FEATURE_FLUSH_GLOBAL)
		odp->per_transport_caps.rc_odp_caps |= IB_ODP_SUPPORT_FLUSH;
	if (caps->features & MOOR_FEATURE_ATOMIC_WRITE)
		odp->per_transport_caps.rc_odp_caps |=
			IB_ODP_SUPPORT_ATOMIC_WRITE;
	if (caps->features & MOOR_FEATURE_XRC)
		odp->per_transport_caps.xrc_odp_caps =
			odp->per_transport_caps.rc_odp_caps;
	/* A UC receiver cannot make the sender wait (HWI ODP-15). */
	if (caps->features & MOOR_FEATURE_UC)
		odp->per_transport_caps.uc_odp_caps = IB_ODP_SUPPORT_SEND;
	if (caps->features & MOOR_FEATURE_UD)
		odp->per_transport_caps.ud_odp_caps = IB_ODP_SUPPORT_SEND;
}

static int moor_query_device(struct ib_device *ibdev,
			     struct ib_device_attr *attr,
			     struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibdev);
	const struct moor_caps *caps = &mdev->caps;
	struct moor_query_device_resp resp = {};
	int err;

	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;
	/* A read of the register traps: only for callers that ask for it. */
	if (udata && udata->outlen) {
		if (moor_is_dead(mdev))
			return -EIO;
		resp.clock = moor_read64(mdev->regs, MOOR_REG_CLOCK);
		err = ib_respond_udata(udata, resp);
		if (err)
			return err;
	}

	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = caps->version;
	attr->sys_image_guid = ibdev->node_guid;
	attr->vendor_id = mdev->pdev->vendor;
	attr->vendor_part_id = mdev->pdev->device;
	attr->hw_ver = mdev->pdev->revision;
	attr->page_size_cap = caps->page_sizes;
	attr->max_mr_size = caps->max_mr_size;
	attr->max_mr = mdev->keys.size;
	attr->max_dm_size = caps->dm_size;
	attr->max_pd = MOOR_MAX_PDN;
	attr->max_cq = caps->max_cq;
	attr->max_cqe = 1 << caps->max_log_cqe;
	attr->max_qp = (1 << caps->qp_index_bits) - MOOR_QP_INDEX_FIRST;
	attr->max_qp_wr = 1 << caps->max_log_wqe;
	attr->max_send_sge = caps->max_sge;
	attr->max_recv_sge = caps->max_sge;
	attr->max_sge_rd = caps->max_sge;
	attr->max_qp_rd_atom = caps->max_rd_atomic;
	attr->max_qp_init_rd_atom = caps->max_rd_atomic;
	attr->max_res_rd_atom = min_t(u64, S32_MAX, (u64)caps->max_rd_atomic *
						    attr->max_qp);
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = 15;
	attr->atomic_cap = caps->features & MOOR_FEATURE_ATOMICS ?
			   IB_ATOMIC_HCA : IB_ATOMIC_NONE;
	attr->device_cap_flags = IB_DEVICE_RC_RNR_NAK_GEN |
				 IB_DEVICE_SYS_IMAGE_GUID |
				 IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_CURR_QP_STATE_MOD;
	moor_query_windows(mdev, attr);
	moor_query_srqs(caps, attr);
	moor_query_datagrams(caps, attr);
	moor_query_placement(caps, attr);
	if (moor_has_odp(mdev))
		moor_query_odp(caps, attr);
	if (caps->features & MOOR_FEATURE_FAST_REG) {
		attr->max_fast_reg_page_list_len = MOOR_FAST_MAX_PAGES;
		attr->device_cap_flags |= IB_DEVICE_MEM_MGT_EXTENSIONS;
	}
	if (caps->features & MOOR_FEATURE_CQ_MODERATION) {
		attr->cq_caps.max_cq_moderation_count = U16_MAX;
		attr->cq_caps.max_cq_moderation_period = U16_MAX;
	}
	attr->timestamp_mask = U64_MAX;
	attr->hca_core_clock = MOOR_CLOCK_KHZ;
	return 0;
}

static void moor_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	u32 version = to_mdev(ibdev)->caps.version;

	snprintf(str, IB_FW_VERSION_NAME_MAX, "%u.%u",
		 (u32)FIELD_GET(MOOR_VERSION_MAJOR, version),
		 (u32)FIELD_GET(MOOR_VERSION_MINOR, version));
}

/**
 * moor_port_mtu - the largest packet of the port
 * @mdev: device
 *
 * Return: what the interface has room for.
 */
enum ib_mtu moor_port_mtu(const struct moor_dev *mdev)
{
	return iboe_get_mtu(READ_ONCE(mdev->netdev->mtu));
}

static int moor_query_port(struct ib_device *ibdev, u32 port,
			   struct ib_port_attr *attr)
{
	struct moor_dev *mdev = to_mdev(ibdev);

	attr->state = ib_get_curr_port_state(mdev->netdev);
	attr->phys_state = attr->state == IB_PORT_ACTIVE ?
			   IB_PORT_PHYS_STATE_LINK_UP :
			   IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = moor_port_mtu(mdev);
	attr->gid_tbl_len = mdev->caps.max_gid;
	attr->pkey_tbl_len = 1;
	attr->ip_gids = true;
	if (mdev->caps.features & MOOR_FEATURE_UD)
		attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->max_msg_sz = mdev->caps.max_msg_size;
	attr->max_vl_num = 1;
	attr->active_speed = IB_SPEED_EDR;
	attr->active_width = IB_WIDTH_4X;
	return 0;
}

static int moor_get_port_immutable(struct ib_device *ibdev, u32 port,
				   struct ib_port_immutable *immutable)
{
	const struct moor_caps *caps = &to_mdev(ibdev)->caps;

	immutable->core_cap_flags = MOOR_CORE_CAPS;
	if (caps->features & MOOR_FEATURE_UD) {
		immutable->core_cap_flags |= MOOR_CORE_CM;
		immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	}
	immutable->gid_tbl_len = caps->max_gid;
	immutable->pkey_tbl_len = 1;
	return 0;
}

static enum rdma_link_layer moor_get_link_layer(struct ib_device *ibdev,
						u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int moor_query_pkey(struct ib_device *ibdev, u32 port, u16 index,
			   u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

const struct ib_device_ops moor_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = MOOR_UVERBS_ABI_VERSION,

	.add_gid = moor_add_gid,
	.alloc_dm = moor_alloc_dm,
	.alloc_mr = moor_alloc_mr,
	.alloc_mw = moor_alloc_mw,
	.alloc_pd = moor_alloc_pd,
	.alloc_ucontext = moor_alloc_ucontext,
	.create_qp = moor_create_qp,
	.dealloc_dm = moor_dealloc_dm,
	.dealloc_mw = moor_dealloc_mw,
	.dealloc_pd = moor_dealloc_pd,
	.dealloc_ucontext = moor_dealloc_ucontext,
	.del_gid = moor_del_gid,
	.dereg_mr = moor_dereg_mr,
	.destroy_cq = moor_destroy_cq,
	.destroy_qp = moor_destroy_qp,
	.disassociate_ucontext = moor_disassociate_ucontext,
	.fill_res_mr_entry = moor_fill_res_mr_entry,
	.get_dev_fw_str = moor_get_dev_fw_str,
	.get_dma_mr = moor_get_dma_mr,
	.get_link_layer = moor_get_link_layer,
	.get_port_immutable = moor_get_port_immutable,
	.map_mr_sg = moor_map_mr_sg,
	.mmap = moor_mmap,
	.mmap_free = moor_mmap_free,
	.modify_qp = moor_modify_qp,
	.poll_cq = moor_poll_cq,
	.post_recv = moor_post_recv,
	.post_send = moor_post_send,
	.query_device = moor_query_device,
	.query_pkey = moor_query_pkey,
	.query_port = moor_query_port,
	.query_qp = moor_query_qp,
	.query_ucontext = moor_query_ucontext,
	.reg_dm_mr = moor_reg_dm_mr,
	.req_notify_cq = moor_req_notify_cq,
	.rereg_user_mr = moor_rereg_user_mr,
	MOOR_VERSION_OPS,

	INIT_RDMA_OBJ_SIZE(ib_ah, moor_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, moor_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, moor_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, moor_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, moor_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, moor_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, moor_ucontext, ibucontext),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, moor_xrcd, ibxrcd),
};

/* Operations of a device that asks for pages. */
const struct ib_device_ops moor_odp_ops = {
	.advise_mr = moor_advise_mr,
	.fill_stat_mr_entry = moor_fill_stat_mr_entry,
};

/* Operations of a device that has shared receive queues. */
const struct ib_device_ops moor_srq_ops = {
	.create_srq = moor_create_srq,
	.destroy_srq = moor_destroy_srq,
	.modify_srq = moor_modify_srq,
	.post_srq_recv = moor_post_srq_recv,
	.query_srq = moor_query_srq,
};

/* Operations of a device that has datagrams. */
const struct ib_device_ops moor_ud_ops = {
	.attach_mcast = moor_attach_mcast,
	.create_ah = moor_create_ah,
	.create_user_ah = moor_create_ah,
	.destroy_ah = moor_destroy_ah,
	.detach_mcast = moor_detach_mcast,
};

/* Operations of a device that has extended reliable connections. */
const struct ib_device_ops moor_xrc_ops = {
	.alloc_xrcd = moor_alloc_xrcd,
	.dealloc_xrcd = moor_dealloc_xrcd,
};

/* Operations of a device that moderates events. */
const struct ib_device_ops moor_moderation_ops = {
	.modify_cq = moor_modify_cq,
};
