/* SPDX-License-Identifier: GPL-2.0 */
/* A process that has the uverbs device open: see process.c. */
#ifndef MOOR_KUNIT_PROCESS_H
#define MOOR_KUNIT_PROCESS_H

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "harness.h"

#define MOOR_CALL_ATTRS	12

/* The argument of an ioctl, as uverbs reads it. */
struct moor_call {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[MOOR_CALL_ATTRS];
};

/**
 * struct moor_process - a process
 * @test: case
 * @file: the device
 * @page: of its memory, for arguments
 * @used: bytes of @page in use
 * @call: the call that is being put together; afterwards its results
 */
struct moor_process {
	struct kunit *test;
	struct file *file;
	unsigned long page;
	size_t used;
	struct moor_call call;
};

/* A verb by write(): input and answer of the core, input and answer of the driver. */
struct moor_verb {
	u32 cmd;
	const void *in;
	size_t in_len;
	void *out;
	size_t out_len;
	const void *hw_in;
	size_t hw_in_len;
	void *hw_out;
	size_t hw_out_len;
};

#define VERB_IN(what)		.in = &(what), .in_len = sizeof(what)
#define VERB_OUT(what)		.out = &(what), .out_len = sizeof(what)
#define VERB_HW_IN(what)	.hw_in = &(what), .hw_in_len = sizeof(what)
#define VERB_HW_OUT(what)	.hw_out = &(what), .hw_out_len = sizeof(what)

struct moor_process *moor_process_open(struct kunit *test);
void moor_process_close(struct moor_process *process);
void moor_call_begin(struct moor_process *process, u16 object, u16 method);
void moor_call_handle(struct moor_process *process, u16 id, u32 handle);
void moor_call_const(struct moor_process *process, u16 id, u64 value);
unsigned long moor_call_room(struct moor_process *process, u16 id,
			     const void *data, u16 len);
unsigned long moor_call_answer(struct moor_process *process, u16 id,
			       const void *before, u16 room, u16 len);
int moor_call_run(struct moor_process *process);
void moor_process_get(struct moor_process *process, unsigned long at, void *to,
		      size_t len);
int moor_process_write(struct moor_process *process,
		       const struct moor_verb *verb);
int moor_process_context(struct moor_process *process,
			 struct moor_alloc_ucontext_resp *resp);
u32 moor_process_pd(struct moor_process *process);
int moor_process_reg(struct moor_process *process, u32 pd, u64 addr, u64 length,
		     int access, struct ib_uverbs_reg_mr_resp *resp);
int moor_process_dereg(struct moor_process *process, u32 mr);
u32 moor_process_cq(struct moor_process *process,
		    struct moor_create_cq_resp *hw);
u32 moor_process_qp(struct moor_process *process, u32 pd, u32 cq,
		    struct moor_create_qp_resp *hw);
u32 moor_process_srq(struct moor_process *process, u32 pd,
		     struct moor_create_srq_resp *hw);
int moor_process_window(struct moor_process *process, u32 pd,
			struct ib_uverbs_alloc_mw_resp *resp);
struct moor_process *moor_process_busy(struct kunit *test);
void moor_process_expect_cut_off(struct moor_process *process);
long moor_process_mmap(struct moor_process *process, u64 offset, size_t length,
		       int prot, int flags);

#endif /* MOOR_KUNIT_PROCESS_H */
