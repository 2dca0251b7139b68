// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * libmoor: libibverbs' provider for the Moor NIC. Matching the device, opening
 * it, and querying it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/moor_user_ioctl_cmds.h>

#include "compat.h"
#include "moor.h"
#include "moor_abi.h"

/* The dozing word of a device that never dozes. */
static const __le32 never_dozes;

static int moor_query_device_ex(struct ibv_context *context,
				const struct ibv_query_device_ex_input *input,
				struct ibv_device_attr_ex *attr,
				size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	uint64_t version;
	int err;

	err = ibv_cmd_query_device_any(context, input, attr, attr_size,
				       &resp, &resp_size);
	if (err)
		return err;
	version = resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver),
		 "%u.%u", (unsigned int)FIELD_GET(MOOR_VERSION_MAJOR, version),
		 (unsigned int)FIELD_GET(MOOR_VERSION_MINOR, version));
	attr->orig_attr.max_cqe = moor_cq_most(attr->orig_attr.max_cqe);
	return 0;
}

/* The clock of completion timestamps: nanoseconds, as the device counts them. */
static int moor_query_rt_values(struct ibv_context *context,
				struct ibv_values_ex *values)
{
	struct moor_ucmd_query_device_resp resp = {};
	size_t resp_size = sizeof(resp);
	uint32_t asked = values->comp_mask;
	struct ibv_device_attr_ex attr;
	int err;

	values->comp_mask = 0;
	if (!(asked & IBV_VALUES_MASK_RAW_CLOCK))
		return 0;
	err = ibv_cmd_query_device_any(context, NULL, &attr, sizeof(attr),
				       &resp.ibv_resp, &resp_size);
	if (err)
		return err;
	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec = resp.clock;
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

static int moor_query_port(struct ibv_context *context, uint8_t port,
			   struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(context, port, attr, &cmd, sizeof(cmd));
}

static void unmap_doze(struct moor_context *ctx)
{
	if (ctx->doze != &never_dozes)
		munmap((void *)ctx->doze, MOOR_PAGE_SIZE);
}

static void moor_free_context(struct ibv_context *context)
{
	struct moor_context *ctx = to_moor_context(context);
	uint32_t i;

	for (i = 0; i < MOOR_CHUNKS; i++)
		free(ctx->owners[i]);
	/*
	 * A mapping holds the uverbs file, and with it all kernel objects of the
	 * context: the mappings of objects that were not destroyed must go, too.
	 */
	moor_slots_close(ctx);
	moor_dms_close(ctx);
	unmap_doze(ctx);
	pthread_mutex_destroy(&ctx->lock);
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

static const struct verbs_context_ops moor_context_ops = {
	.advise_mr = ibv_cmd_advise_mr,
	.alloc_dm = moor_alloc_dm,
	.alloc_mw = moor_alloc_mw,
	.alloc_null_mr = moor_alloc_null_mr,
	.alloc_parent_domain = moor_alloc_parent_domain,
	.alloc_pd = moor_alloc_pd,
	.alloc_td = moor_alloc_td,
	.attach_mcast = ibv_cmd_attach_mcast,
	.bind_mw = moor_bind_mw,
	.close_xrcd = moor_close_xrcd,
	.cq_event = moor_cq_event,
	.create_ah = moor_create_ah,
	.create_cq = moor_create_cq,
	.create_cq_ex = moor_create_cq_ex,
	.create_qp = moor_create_qp,
	.create_qp_ex = moor_create_qp_ex,
	.create_srq = moor_create_srq,
	.create_srq_ex = moor_create_srq_ex,
	.dealloc_mw = moor_dealloc_mw,
	.dealloc_pd = moor_dealloc_pd,
	.dealloc_td = moor_dealloc_td,
	.dereg_mr = moor_dereg_mr,
	.destroy_ah = moor_destroy_ah,
	.destroy_cq = moor_destroy_cq,
	.destroy_qp = moor_destroy_qp,
	.destroy_srq = moor_destroy_srq,
	.detach_mcast = ibv_cmd_detach_mcast,
	.free_context = moor_free_context,
	.free_dm = moor_free_dm,
	.get_srq_num = moor_get_srq_num,
	.import_dm = moor_import_dm,
	.import_mr = moor_import_mr,
	.import_pd = moor_import_pd,
	.modify_cq = moor_modify_cq,
	.modify_qp = moor_modify_qp,
	.modify_srq = moor_modify_srq,
	.open_qp = moor_open_qp,
	.open_xrcd = moor_open_xrcd,
	.poll_cq = moor_poll_cq,
	.post_recv = moor_post_recv,
	.post_send = moor_post_send,
	.post_srq_recv = moor_post_srq_recv,
	.query_device_ex = moor_query_device_ex,
	.query_port = moor_query_port,
	.query_qp = moor_query_qp,
	.query_qp_data_in_order = moor_query_qp_data_in_order,
	.query_rt_values = moor_query_rt_values,
	.query_srq = moor_query_srq,
	.reg_dm_mr = moor_reg_dm_mr,
	.reg_dmabuf_mr = moor_reg_dmabuf_mr,
	.reg_mr = moor_reg_mr,
	.req_notify_cq = moor_req_notify_cq,
	.rereg_mr = moor_rereg_mr,
	.resize_cq = moor_resize_cq,
	.unimport_dm = moor_unimport_dm,
	.unimport_mr = moor_unimport_mr,
	.unimport_pd = moor_unimport_pd,
};

/* HWI VER-7: another major version is another interface. */
static int check_version(const struct ibv_device *device, uint32_t version)
{
	unsigned int major = FIELD_GET(MOOR_VERSION_MAJOR, version);

	if (major == MOOR_HW_VERSION_MAJOR)
		return 0;
	fprintf(stderr,
		"libmoor: %s: the device has hardware interface version %u.%u, this provider knows version %d.%d only; the device is not used\n",
		device->name, major,
		(unsigned int)FIELD_GET(MOOR_VERSION_MINOR, version),
		MOOR_HW_VERSION_MAJOR, MOOR_HW_VERSION_MINOR);
	return EPROTONOSUPPORT;
}

static int map_doze(struct moor_context *ctx, int cmd_fd,
		    const struct moor_alloc_ucontext_resp *resp)
{
	void *page;

	ctx->doze = &never_dozes;
	if (!(resp->features & MOOR_FEATURE_DOZES))
		return 0;
	page = mmap(NULL, MOOR_PAGE_SIZE, PROT_READ, MAP_SHARED, cmd_fd,
		    resp->doze_mmap_offset);
	if (page == MAP_FAILED)
		return errno;
	ctx->doze = page;
	return 0;
}

static int get_limits(struct moor_context *ctx)
{
	struct ibv_device_attr_ex attr;
	int err;

	err = ibv_cmd_query_device_any(&ctx->vctx.context, NULL, &attr,
				       sizeof(attr.orig_attr), NULL, NULL);
	if (err)
		return err;
	ctx->max_wr = attr.orig_attr.max_qp_wr;
	ctx->max_sge = attr.orig_attr.max_sge;
	ctx->max_cqe = attr.orig_attr.max_cqe;
	return 0;
}

/* The common part of opening a context and importing one. */
static int init_context(struct moor_context *ctx,
			const struct moor_alloc_ucontext_resp *resp)
{
	struct ibv_context *context = &ctx->vctx.context;
	int err;

	err = check_version(context->device, resp->hw_version);
	if (err)
		return err;
	err = map_doze(ctx, context->cmd_fd, resp);
	if (err)
		return err;
	err = get_limits(ctx);
	if (err) {
		unmap_doze(ctx);
		return err;
	}
	ctx->features = resp->features;
	ctx->null_lkey = resp->null_lkey;
	ctx->max_inline = resp->max_inline;
	pthread_mutex_init(&ctx->lock, NULL);
	list_head_init(&ctx->doorbell_pages);
	list_head_init(&ctx->dms);
	verbs_set_ops(&ctx->vctx, &moor_context_ops);
	return 0;
}

static int get_context(struct moor_context *ctx,
		       struct moor_alloc_ucontext_resp *resp)
{
	struct moor_ucmd_get_context_resp raw = {};
	struct moor_ucmd_get_context cmd = {};
	int err;

	err = moor_cmd_get_context(&ctx->vctx, &cmd.ibv_cmd, sizeof(cmd),
				   &raw.ibv_resp, sizeof(raw));
	*resp = raw.drv_payload;
	return err;
}

static int query_context(struct moor_context *ctx,
			 struct moor_alloc_ucontext_resp *resp)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DEVICE,
			       UVERBS_METHOD_QUERY_CONTEXT, 1);

	fill_attr_out_ptr(cmd, MOOR_ATTR_QUERY_CONTEXT_RESP, resp);
	return ibv_cmd_query_context(&ctx->vctx.context, cmd);
}

static struct verbs_context *
make_context(struct ibv_device *device, int cmd_fd,
	     int (*get)(struct moor_context *ctx,
			struct moor_alloc_ucontext_resp *resp))
{
	struct moor_alloc_ucontext_resp resp = {};
	struct moor_context *ctx;
	int err;

	ctx = verbs_init_and_alloc_context(device, cmd_fd, ctx, vctx,
					   RDMA_DRIVER_UNKNOWN);
	if (!ctx)
		return NULL;
	err = get(ctx, &resp);
	if (!err)
		err = init_context(ctx, &resp);
	if (!err)
		return &ctx->vctx;

	verbs_uninit_context(&ctx->vctx);
	free(ctx);
	errno = err;
	return NULL;
}

static struct verbs_context *moor_alloc_context(struct ibv_device *device,
						int cmd_fd, void *private_data)
{
	(void)private_data;
	return make_context(device, cmd_fd, get_context);
}

static struct verbs_context *moor_import_context(struct ibv_device *device,
						 int cmd_fd)
{
	return make_context(device, cmd_fd, query_context);
}

static struct verbs_device *moor_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct moor_device *dev = calloc(1, sizeof(*dev));

	(void)sysfs_dev;
	return dev ? &dev->vdev : NULL;
}

static void moor_uninit_device(struct verbs_device *vdev)
{
	free(container_of(vdev, struct moor_device, vdev));
}

/* The kernel has no driver ID for Moor: the device is matched by PCI ID. */
static const struct verbs_match_ent moor_match_table[] = {
	VERBS_PCI_MATCH(MOOR_PCI_VENDOR_ID, MOOR_PCI_DEVICE_ID, NULL),
	{}
};

static const struct verbs_device_ops moor_device_ops = {
	.name = "moor",
	.match_min_abi_version = MOOR_UVERBS_ABI_VERSION,
	.match_max_abi_version = MOOR_UVERBS_ABI_VERSION,
	.match_table = moor_match_table,
	.alloc_device = moor_alloc_device,
	.uninit_device = moor_uninit_device,
	.alloc_context = moor_alloc_context,
	.import_context = moor_import_context,
};

bool moor_is_context(const struct ibv_context *context)
{
	return verbs_get_device(context->device)->ops == &moor_device_ops;
}

PROVIDER_DRIVER(moor, moor_device_ops);
