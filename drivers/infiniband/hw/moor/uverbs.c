// SPDX-License-Identifier: GPL-2.0
/*
 * Methods and attributes that Moor adds to those of uverbs:
 * include/uapi/rdma/moor_user_ioctl_cmds.h. Structures grow as moor-abi.h says: what
 * UVERBS_ATTR_STRUCT() names is the last member that 1.0 had, and stays.
 */

#include <linux/pid_namespace.h>
#include <linux/slab.h>

#include "moor.h"

#define UVERBS_MODULE_NAME moor
#include <rdma/uverbs_named_ioctl.h>

/* Size of a list entry in 1.0, which is also used for processes that give no size. */
#define MOOR_WINDOW_SIZE_1_0	offsetofend(struct moor_window, reserved)

/*
 * What fits into a process's array, and how many windows there were. The process gives
 * the size of an entry, that of its struct moor_window; the driver's may be smaller or
 * larger. @list is cleared, so that members that only the process knows are zero. An
 * attribute takes 64 KiB at most: a process asks again for what follows, and skips what
 * it has.
 */
struct moor_window_array {
	struct moor_dev *mdev;
	u8 *list;
	size_t entry_size;
	u64 skip;
	u32 room;
	u32 listed;
	u32 count;
};

static void moor_window_array_add(void *arg,
				  const struct moor_window_info *info)
{
	struct moor_window_array *array = arg;
	struct moor_window window;

	if (array->count++ < array->skip || array->listed == array->room)
		return;
	moor_window_describe(array->mdev, &window, info,
			     task_active_pid_ns(current), NULL);
	memcpy(array->list + array->listed++ * array->entry_size, &window,
	       min(array->entry_size, sizeof(window)));
}

/* As many entries as the process has room for; the caller frees @array->list. */
static int moor_window_array_init(struct moor_window_array *array,
				  struct uverbs_attr_bundle *attrs)
{
	int err;

	err = uverbs_get_const_default(&array->entry_size, attrs,
				       MOOR_ATTR_MR_WINDOWS_ENTRY_SIZE,
				       MOOR_WINDOW_SIZE_1_0);
	if (err)
		return err;
	if (array->entry_size < MOOR_WINDOW_SIZE_1_0)
		return -EINVAL;
	err = uverbs_get_const_default(&array->skip, attrs,
				       MOOR_ATTR_MR_WINDOWS_SKIP, 0);
	if (err)
		return err;
	if (!uverbs_attr_is_valid(attrs, MOOR_ATTR_MR_WINDOWS_LIST))
		return 0;
	array->room = uverbs_attr_get_len(attrs, MOOR_ATTR_MR_WINDOWS_LIST) /
		      array->entry_size;
	if (!array->room)
		return 0;
	array->list = kvcalloc(array->room, array->entry_size, GFP_KERNEL);
	return array->list ? 0 : -ENOMEM;
}

static int moor_windows_respond(struct uverbs_attr_bundle *attrs,
				struct moor_window_array *array)
{
	int err = 0;

	if (uverbs_attr_is_valid(attrs, MOOR_ATTR_MR_WINDOWS_LIST))
		err = uverbs_copy_to_struct_or_zero(attrs,
						    MOOR_ATTR_MR_WINDOWS_LIST,
						    array->list,
						    array->listed *
						    array->entry_size);
	if (!err)
		err = uverbs_copy_to(attrs, MOOR_ATTR_MR_WINDOWS_COUNT,
				     &array->count, sizeof(array->count));
	return err;
}

static int UVERBS_HANDLER(MOOR_METHOD_MR_WINDOWS)(struct uverbs_attr_bundle *attrs)
{
	struct ib_mr *ibmr =
		uverbs_attr_get_obj(attrs, MOOR_ATTR_MR_WINDOWS_HANDLE);
	struct moor_window_array array = { .mdev = to_mdev(ibmr->device) };
	int err;

	err = moor_window_array_init(&array, attrs);
	if (err)
		return err;
	/* No window can be bound to a dma-buf, and its key may be revoked already. */
	if (to_mmr(ibmr)->type != MOOR_MRC_TYPE_INVALID &&
	    !moor_reg_is_dmabuf(&to_mmr(ibmr)->reg))
		err = moor_windows_visit(array.mdev, to_mmr(ibmr)->key,
					 moor_window_array_add, &array);
	/* A device without window types has no windows bound. */
	if (!err || err == -EOPNOTSUPP)
		err = moor_windows_respond(attrs, &array);
	kvfree(array.list);
	return err;
}

DECLARE_UVERBS_NAMED_METHOD(MOOR_METHOD_MR_WINDOWS,
			    UVERBS_ATTR_IDR(MOOR_ATTR_MR_WINDOWS_HANDLE,
					    UVERBS_OBJECT_MR,
					    UVERBS_ACCESS_READ,
					    UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(MOOR_ATTR_MR_WINDOWS_LIST,
						UVERBS_ATTR_MIN_SIZE(0),
						UA_OPTIONAL),
			    UVERBS_ATTR_PTR_OUT(MOOR_ATTR_MR_WINDOWS_COUNT,
						UVERBS_ATTR_TYPE(u32),
						UA_MANDATORY),
			    UVERBS_ATTR_CONST_IN(MOOR_ATTR_MR_WINDOWS_ENTRY_SIZE,
						 u64, UA_OPTIONAL),
			    UVERBS_ATTR_CONST_IN(MOOR_ATTR_MR_WINDOWS_SKIP,
						 u64, UA_OPTIONAL));

ADD_UVERBS_METHODS(moor_mr_methods, UVERBS_OBJECT_MR,
		   &UVERBS_METHOD(MOOR_METHOD_MR_WINDOWS));

static int UVERBS_HANDLER(MOOR_METHOD_DEVICE_REFUSAL)(struct uverbs_attr_bundle *attrs)
{
	struct ib_ucontext *ibuctx = ib_uverbs_get_ucontext(attrs);
	struct moor_refusal refusal;

	if (IS_ERR(ibuctx))
		return PTR_ERR(ibuctx);
	moor_refusal_last(to_mdev(ibuctx->device), to_muctx(ibuctx), &refusal);
	return uverbs_copy_to_struct_or_zero(attrs, MOOR_ATTR_DEVICE_REFUSAL,
					     &refusal, sizeof(refusal));
}

DECLARE_UVERBS_NAMED_METHOD(MOOR_METHOD_DEVICE_REFUSAL,
			    UVERBS_ATTR_PTR_OUT(MOOR_ATTR_DEVICE_REFUSAL,
						UVERBS_ATTR_STRUCT(struct moor_refusal,
								   reserved),
						UA_MANDATORY));

ADD_UVERBS_METHODS(moor_device_methods, UVERBS_OBJECT_DEVICE,
		   &UVERBS_METHOD(MOOR_METHOD_DEVICE_REFUSAL));

ADD_UVERBS_ATTRIBUTES_SIMPLE(moor_query_context, UVERBS_OBJECT_DEVICE,
			     UVERBS_METHOD_QUERY_CONTEXT,
			     UVERBS_ATTR_PTR_OUT(MOOR_ATTR_QUERY_CONTEXT_RESP,
						 UVERBS_ATTR_STRUCT(struct moor_alloc_ucontext_resp,
								    reserved),
						 UA_MANDATORY));

ADD_UVERBS_ATTRIBUTES_SIMPLE(moor_dm_alloc, UVERBS_OBJECT_DM,
			     UVERBS_METHOD_DM_ALLOC,
			     UVERBS_ATTR_PTR_OUT(MOOR_ATTR_ALLOC_DM_RESP,
						 UVERBS_ATTR_STRUCT(struct moor_dm_location,
								    length),
						 UA_MANDATORY));

static int UVERBS_HANDLER(MOOR_METHOD_DM_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *ibdm =
		uverbs_attr_get_obj(attrs, MOOR_ATTR_DM_QUERY_HANDLE);
	struct moor_dm_location location;

	moor_dm_describe(to_mdm(ibdm), ibdm->length, &location);
	return uverbs_copy_to_struct_or_zero(attrs, MOOR_ATTR_DM_QUERY_RESP,
					     &location, sizeof(location));
}

DECLARE_UVERBS_NAMED_METHOD(MOOR_METHOD_DM_QUERY,
			    UVERBS_ATTR_IDR(MOOR_ATTR_DM_QUERY_HANDLE,
					    UVERBS_OBJECT_DM,
					    UVERBS_ACCESS_READ,
					    UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(MOOR_ATTR_DM_QUERY_RESP,
						UVERBS_ATTR_STRUCT(struct moor_dm_location,
								   length),
						UA_MANDATORY));

ADD_UVERBS_METHODS(moor_dm_methods, UVERBS_OBJECT_DM,
		   &UVERBS_METHOD(MOOR_METHOD_DM_QUERY));

static int UVERBS_HANDLER(MOOR_METHOD_PD_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_pd *ibpd =
		uverbs_attr_get_obj(attrs, MOOR_ATTR_PD_QUERY_HANDLE);
	struct moor_alloc_pd_resp resp = { .pdn = to_mpd(ibpd)->pdn };

	return uverbs_copy_to_struct_or_zero(attrs, MOOR_ATTR_PD_QUERY_RESP,
					     &resp, sizeof(resp));
}

DECLARE_UVERBS_NAMED_METHOD(MOOR_METHOD_PD_QUERY,
			    UVERBS_ATTR_IDR(MOOR_ATTR_PD_QUERY_HANDLE,
					    UVERBS_OBJECT_PD,
					    UVERBS_ACCESS_READ,
					    UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(MOOR_ATTR_PD_QUERY_RESP,
						UVERBS_ATTR_STRUCT(struct moor_alloc_pd_resp,
								   reserved),
						UA_MANDATORY));

ADD_UVERBS_METHODS(moor_pd_methods, UVERBS_OBJECT_PD,
		   &UVERBS_METHOD(MOOR_METHOD_PD_QUERY));

static int UVERBS_HANDLER(MOOR_METHOD_SRQ_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_srq *ibsrq =
		uverbs_attr_get_obj(attrs, MOOR_ATTR_SRQ_QUERY_HANDLE);
	struct moor_cpl_query_srq cpl;
	struct moor_srq_state state = {};
	int err;

	err = moor_cmd_query_srq(to_mdev(ibsrq->device), to_msrq(ibsrq)->srqn,
				 &cpl);
	if (err)
		return err;
	state.consumer = le32_to_cpu(cpl.consumer);
	return uverbs_copy_to_struct_or_zero(attrs, MOOR_ATTR_SRQ_QUERY_RESP,
					     &state, sizeof(state));
}

DECLARE_UVERBS_NAMED_METHOD(MOOR_METHOD_SRQ_QUERY,
			    UVERBS_ATTR_IDR(MOOR_ATTR_SRQ_QUERY_HANDLE,
					    UVERBS_OBJECT_SRQ,
					    UVERBS_ACCESS_READ,
					    UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(MOOR_ATTR_SRQ_QUERY_RESP,
						UVERBS_ATTR_STRUCT(struct moor_srq_state,
								   reserved),
						UA_MANDATORY));

ADD_UVERBS_METHODS(moor_srq_methods, UVERBS_OBJECT_SRQ,
		   &UVERBS_METHOD(MOOR_METHOD_SRQ_QUERY));

/* What uverbs is to know beside the core's own tree. */
const struct uapi_definition moor_uapi[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_MR, &moor_mr_methods),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &moor_device_methods),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &moor_query_context),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_PD, &moor_pd_methods),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &moor_dm_alloc),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &moor_dm_methods),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_SRQ, &moor_srq_methods),
	{}
};
