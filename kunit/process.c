// SPDX-License-Identifier: GPL-2.0
/*
 * A process as uverbs sees one: the character device, opened, with ioctls on it
 * whose arguments lie in the memory of the case's process. What the fake context
 * of harness.c cannot have, the core's objects and mappings, is real here.
 */

#include <linux/file.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/uaccess.h>

#include "process.h"

/* Made by the scripts that load the module: the first uverbs device. */
#define UVERBS_NODE	"/run/moor-uverbs"

/* Offsets of a call's parts in the process's page. */
#define CALL_AT		0
#define DATA_AT		1024

/**
 * moor_process_open - open the case's device
 * @test: case
 *
 * Return: the process, for moor_process_close()
 */
struct moor_process *moor_process_open(struct kunit *test)
{
	struct moor_process *process = kunit_kzalloc(test, sizeof(*process),
						     GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, process);
	process->test = test;
	process->page = moor_kunit_mmap(test, PAGE_SIZE, true);
	process->file = moor_kunit_open(UVERBS_NODE, O_RDWR | O_CLOEXEC);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, process->file);
	return process;
}

/**
 * moor_process_close - end a process, whatever it has open
 * @process: process; all that it mapped is unmapped
 */
void moor_process_close(struct moor_process *process)
{
	__fput_sync(process->file);
}

/**
 * moor_call_begin - begin the call of a method
 * @process: process
 * @object: UVERBS_OBJECT_*
 * @method: of the object
 */
void moor_call_begin(struct moor_process *process, u16 object, u16 method)
{
	memset(&process->call, 0, sizeof(process->call));
	process->call.hdr.object_id = object;
	process->call.hdr.method_id = method;
	process->call.hdr.driver_id = RDMA_DRIVER_UNKNOWN;
	process->used = DATA_AT;
}

/*
 * Copies between the case and its process must not be made to fail: injected
 * failures are meant for the call that the case tries.
 */
static void moor_process_put(struct moor_process *process, unsigned long at,
			     const void *from, size_t len)
{
	KUNIT_ASSERT_EQ(process->test,
			raw_copy_to_user((void __user *)at, from, len), 0);
}

static struct ib_uverbs_attr *moor_call_attr(struct moor_process *process, u16 id,
					     u16 len)
{
	struct moor_call *call = &process->call;
	struct ib_uverbs_attr *attr = &call->attrs[call->hdr.num_attrs++];

	KUNIT_ASSERT_LE(process->test, call->hdr.num_attrs, MOOR_CALL_ATTRS);
	attr->attr_id = id;
	attr->len = len;
	attr->flags = UVERBS_ATTR_F_MANDATORY;
	return attr;
}

/* A handle; for a new object uverbs writes its handle there. */
void moor_call_handle(struct moor_process *process, u16 id, u32 handle)
{
	moor_call_attr(process, id, 0)->data = handle;
}

/* An enum or flags: the attribute holds the value itself. */
void moor_call_const(struct moor_process *process, u16 id, u64 value)
{
	moor_call_attr(process, id, sizeof(value))->data = value;
}

/**
 * moor_call_room - reserve memory of the process for an attribute
 * @process: process
 * @id: attribute
 * @data: input to copy there, or NULL for output
 * @len: bytes
 *
 * Return: its address.
 */
unsigned long moor_call_room(struct moor_process *process, u16 id,
			     const void *data, u16 len)
{
	struct ib_uverbs_attr *attr = moor_call_attr(process, id, len);
	unsigned long at = process->page + process->used;

	KUNIT_ASSERT_LE(process->test, process->used + len, PAGE_SIZE);
	process->used += ALIGN(len, 8);
	if (!data) {
		KUNIT_ASSERT_EQ(process->test,
				clear_user((void __user *)at, len), 0);
		attr->data = at;
		return at;
	}
	moor_process_put(process, at, data, len);
	/* Up to eight bytes of input are in the attribute itself. */
	if (len > sizeof(attr->data))
		attr->data = at;
	else
		memcpy(&attr->data, data, len);
	return at;
}

/**
 * moor_call_answer - reserve more memory than a call is told of
 * @process: process
 * @id: attribute, which the call writes
 * @before: what is in the memory beforehand, more than eight bytes
 * @room: bytes of memory
 * @len: bytes that the call may write
 *
 * Return: its address.
 */
unsigned long moor_call_answer(struct moor_process *process, u16 id,
			       const void *before, u16 room, u16 len)
{
	unsigned long at = moor_call_room(process, id, before, room);

	process->call.attrs[process->call.hdr.num_attrs - 1].len = len;
	return at;
}

/**
 * moor_call_run - run the call that was put together
 * @process: process
 *
 * Return: the system call's result.
 */
int moor_call_run(struct moor_process *process)
{
	unsigned long at = process->page + CALL_AT;
	struct moor_call *call = &process->call;
	size_t len = struct_size(&call->hdr, attrs, call->hdr.num_attrs);
	int err;

	call->hdr.length = len;
	moor_process_put(process, at, call, len);
	err = process->file->f_op->unlocked_ioctl(process->file, RDMA_VERBS_IOCTL,
						  at);
	moor_process_get(process, at, call, len);
	return err;
}

/**
 * moor_process_get - read a call's output
 * @process: process
 * @at: address from moor_call_room()
 * @to: where to
 * @len: bytes
 */
void moor_process_get(struct moor_process *process, unsigned long at, void *to,
		      size_t len)
{
	KUNIT_ASSERT_EQ(process->test,
			raw_copy_from_user(to, (void __user *)at, len), 0);
}

/**
 * moor_process_write - call a verb by the older interface, write()
 * @process: process
 * @verb: verb with its input, and room for its answers if it succeeds
 *
 * Return: 0 or an errno.
 */
int moor_process_write(struct moor_process *process, const struct moor_verb *verb)
{
	unsigned long out = 0, hw_out = 0;
	int err;

	moor_call_begin(process, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	moor_call_const(process, UVERBS_ATTR_WRITE_CMD, verb->cmd);
	moor_call_room(process, UVERBS_ATTR_CORE_IN, verb->in, verb->in_len);
	if (verb->out_len)
		out = moor_call_room(process, UVERBS_ATTR_CORE_OUT, NULL,
				     verb->out_len);
	if (verb->hw_in_len)
		moor_call_room(process, UVERBS_ATTR_UHW_IN, verb->hw_in,
			       verb->hw_in_len);
	if (verb->hw_out_len)
		hw_out = moor_call_room(process, UVERBS_ATTR_UHW_OUT, NULL,
					verb->hw_out_len);
	err = moor_call_run(process);
	if (!err && verb->out_len)
		moor_process_get(process, out, verb->out, verb->out_len);
	if (!err && verb->hw_out_len)
		moor_process_get(process, hw_out, verb->hw_out, verb->hw_out_len);
	return err;
}

/**
 * moor_process_context - open a context
 * @process: process
 * @resp: the driver's answer
 *
 * Return: 0 or an errno.
 */
int moor_process_context(struct moor_process *process,
			 struct moor_alloc_ucontext_resp *resp)
{
	struct moor_alloc_ucontext_req req = {};
	unsigned long at;
	int err;

	moor_call_begin(process, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
	moor_call_room(process, UVERBS_ATTR_UHW_IN, &req, sizeof(req));
	at = moor_call_room(process, UVERBS_ATTR_UHW_OUT, NULL, sizeof(*resp));
	err = moor_call_run(process);
	moor_process_get(process, at, resp, sizeof(*resp));
	return err;
}

/* Return: the handle of a new PD. */
u32 moor_process_pd(struct moor_process *process)
{
	struct moor_alloc_pd_resp hw = {};
	struct ib_uverbs_alloc_pd cmd = {};
	struct ib_uverbs_alloc_pd_resp resp = {};
	struct moor_verb verb = {
		IB_USER_VERBS_CMD_ALLOC_PD,
		VERB_IN(cmd), VERB_OUT(resp), VERB_HW_OUT(hw),
	};

	KUNIT_ASSERT_EQ(process->test, moor_process_write(process, &verb), 0);
	return resp.pd_handle;
}

int moor_process_reg(struct moor_process *process, u32 pd, u64 addr, u64 length,
		     int access, struct ib_uverbs_reg_mr_resp *resp)
{
	struct ib_uverbs_reg_mr cmd = {
		.start = addr,
		.length = length,
		.hca_va = addr,
		.pd_handle = pd,
		.access_flags = access,
	};
	struct moor_verb verb = {
		IB_USER_VERBS_CMD_REG_MR, VERB_IN(cmd), VERB_OUT(*resp),
	};

	return moor_process_write(process, &verb);
}

int moor_process_dereg(struct moor_process *process, u32 mr)
{
	struct ib_uverbs_dereg_mr cmd = { .mr_handle = mr };
	struct moor_verb verb = { IB_USER_VERBS_CMD_DEREG_MR, VERB_IN(cmd) };

	return moor_process_write(process, &verb);
}

/**
 * moor_process_cq - create a completion queue of 16 entries
 * @process: process
 * @hw: the driver's answer
 *
 * Return: its handle.
 */
u32 moor_process_cq(struct moor_process *process, struct moor_create_cq_resp *hw)
{
	struct ib_uverbs_create_cq cmd = { .cqe = 16, .comp_channel = -1 };
	struct ib_uverbs_create_cq_resp resp = {};
	struct moor_create_cq_req req = {
		.ring_addr = moor_kunit_mmap(process->test, PAGE_SIZE, true),
		.log_cqe = 4,
	};
	struct moor_verb verb = {
		IB_USER_VERBS_CMD_CREATE_CQ,
		VERB_IN(cmd), VERB_OUT(resp), VERB_HW_IN(req), VERB_HW_OUT(*hw),
	};

	KUNIT_ASSERT_EQ(process->test, moor_process_write(process, &verb), 0);
	return resp.cq_handle;
}

/**
 * moor_process_srq - create a shared receive queue of 16 entries
 * @process: process
 * @pd: handle
 * @hw: the driver's answer
 *
 * Return: its handle.
 */
u32 moor_process_srq(struct moor_process *process, u32 pd,
		     struct moor_create_srq_resp *hw)
{
	struct ib_uverbs_create_srq cmd = {
		.pd_handle = pd, .max_wr = 16, .max_sge = 1,
	};
	struct ib_uverbs_create_srq_resp resp = {};
	struct moor_create_srq_req req = {
		.ring_addr = moor_kunit_mmap(process->test, PAGE_SIZE, true),
		.log_depth = 4,
		.log_stride = MOOR_MIN_LOG_RQ_STRIDE,
	};
	struct moor_verb verb = {
		IB_USER_VERBS_CMD_CREATE_SRQ,
		VERB_IN(cmd), VERB_OUT(resp), VERB_HW_IN(req), VERB_HW_OUT(*hw),
	};

	KUNIT_ASSERT_EQ(process->test, moor_process_write(process, &verb), 0);
	return resp.srq_handle;
}

/**
 * moor_process_qp - create a queue pair of 16 entries each way
 * @process: process
 * @pd: handle
 * @cq: handle
 * @hw: the driver's answer
 *
 * Return: its handle.
 */
u32 moor_process_qp(struct moor_process *process, u32 pd, u32 cq,
		    struct moor_create_qp_resp *hw)
{
	unsigned long ring = moor_kunit_mmap(process->test, 2 * PAGE_SIZE, true);
	struct ib_uverbs_create_qp cmd = {
		.pd_handle = pd,
		.send_cq_handle = cq,
		.recv_cq_handle = cq,
		.max_send_wr = 16,
		.max_recv_wr = 16,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.qp_type = IB_UVERBS_QPT_RC,
	};
	struct ib_uverbs_create_qp_resp resp = {};
	struct moor_create_qp_req req = {
		.sq_addr = ring,
		.rq_addr = ring + PAGE_SIZE,
		.log_sq_depth = 4, .log_sq_stride = 6,
		.log_rq_depth = 4, .log_rq_stride = 6,
	};
	struct moor_verb verb = {
		IB_USER_VERBS_CMD_CREATE_QP,
		VERB_IN(cmd), VERB_OUT(resp), VERB_HW_IN(req), VERB_HW_OUT(*hw),
	};

	KUNIT_ASSERT_EQ(process->test, moor_process_write(process, &verb), 0);
	return resp.qp_handle;
}

/* Create a window of type 2. */
int moor_process_window(struct moor_process *process, u32 pd,
			struct ib_uverbs_alloc_mw_resp *resp)
{
	struct ib_uverbs_alloc_mw cmd = {
		.pd_handle = pd,
		.mw_type = IB_MW_TYPE_2,
	};
	struct moor_verb verb = {
		IB_USER_VERBS_CMD_ALLOC_MW, VERB_IN(cmd), VERB_OUT(*resp),
	};

	return moor_process_write(process, &verb);
}

/**
 * moor_process_mmap - map part of the device
 * @process: process
 * @offset: offset that the driver gave for mmap()
 * @length: bytes
 * @prot: PROT_*
 * @flags: MAP_*
 *
 * Return: the address or a negative errno.
 */
long moor_process_mmap(struct moor_process *process, u64 offset, size_t length,
		       int prot, int flags)
{
	return vm_mmap(process->file, 0, length, prot, flags, offset);
}

/**
 * moor_process_busy - open a process with objects that the core has to destroy
 * @test: case
 *
 * Return: a process that has an MR and a queue
 */
struct moor_process *moor_process_busy(struct kunit *test)
{
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, true);
	struct moor_process *process = moor_process_open(test);
	struct moor_alloc_ucontext_resp resp;
	struct ib_uverbs_reg_mr_resp mr;
	struct moor_create_cq_resp cq;

	KUNIT_ASSERT_EQ(test, moor_process_context(process, &resp), 0);
	KUNIT_ASSERT_EQ(test, moor_process_reg(process, moor_process_pd(process),
					       addr, REGION_LENGTH, ALL_RIGHTS,
					       &mr), 0);
	moor_process_cq(process, &cq);
	return process;
}

/* The device of the process is gone: a verb fails, nothing is pinned. Then close it. */
void moor_process_expect_cut_off(struct moor_process *process)
{
	struct kunit *test = process->test;
	struct ib_uverbs_alloc_pd cmd = {};
	struct ib_uverbs_alloc_pd_resp resp;
	struct moor_verb verb = {
		IB_USER_VERBS_CMD_ALLOC_PD, VERB_IN(cmd), VERB_OUT(resp),
	};

	KUNIT_EXPECT_EQ(test, moor_process_write(process, &verb), -EIO);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_process_close(process);
}
