/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause) */
/*
 * Moor: what libibverbs' provider and the kernel driver exchange through
 * uverbs beside the common part. Multi-byte fields are in host order. Fields
 * named reserved are zero on input, or the call fails with EINVAL.
 *
 * Structures, here and in moor_user_ioctl_cmds.h, grow at their ends; existing fields
 * keep their place and meaning. Either side may be older than the other:
 *  - Input is at least as long as MOOR_UVERBS_ABI_VERSION 1 had it at first, else EINVAL.
 *    Input that the kernel does not know must be zero, else EOPNOTSUPP; input that the
 *    process did not give counts as zero.
 *  - A process may ask for a shorter or longer answer than the kernel knows: the kernel
 *    gives the beginning, or adds zeros at the end. Methods of moor_user_ioctl_cmds.h
 *    need room for the structures as they were at first, else EINVAL.
 *  - A list says how large an entry is; the same rules hold for each entry.
 */
#ifndef MOOR_ABI_USER_H
#define MOOR_ABI_USER_H

#include <linux/types.h>

/* Raised when the meaning of anything below changes. */
#define MOOR_UVERBS_ABI_VERSION 1

struct moor_alloc_ucontext_req {
	__aligned_u64 reserved;
};

struct moor_alloc_ucontext_resp {
	__u32 hw_version;		/* register VERSION of the device */
	__u32 null_lkey;
	__aligned_u64 features;		/* register FEATURES */
	__aligned_u64 doze_mmap_offset;	/* one page, read-only: the dozing word */
	__u32 max_inline;
	__u32 reserved;
};

struct moor_query_device_resp {
	__aligned_u64 clock;		/* register CLOCK, read for this call */
};

struct moor_alloc_pd_resp {
	__u32 pdn;
	__u32 reserved;
};

/*
 * Where a queue's doorbell lies: offsets for mmap() of the uverbs fd, a page
 * each; two queues with the same doorbell_mmap_offset share the pages. Slot:
 * byte offset in the doorbell page and in the kick page alike.
 */
struct moor_doorbell {
	__aligned_u64 doorbell_mmap_offset;
	__aligned_u64 kick_mmap_offset;
	__u32 slot_offset;
	__u32 slot_offset_rq;		/* create_qp only */
};

struct moor_create_cq_req {
	__aligned_u64 ring_addr;	/* 1 << log_cqe CQEs, page-aligned */
	__u8 log_cqe;
	__u8 reserved[7];
};

struct moor_create_cq_resp {
	struct moor_doorbell db;
	__u32 cqn;
	__u32 reserved;
};

struct moor_resize_cq_req {
	__aligned_u64 ring_addr;
	__u8 log_cqe;
	__u8 reserved[7];
};

struct moor_create_qp_req {
	__aligned_u64 sq_addr;		/* page-aligned */
	__aligned_u64 rq_addr;		/* page-aligned; 0 without receive queue, or with an SRQ */
	__u8 log_sq_depth;
	__u8 log_sq_stride;
	__u8 log_rq_depth;
	__u8 log_rq_stride;
	__u32 cookie;
};

struct moor_create_qp_resp {
	struct moor_doorbell db;
	__u32 qpn;
	__u32 reserved;
};

struct moor_create_ah_resp {
	__u8 dmac[6];
	__u8 hop_limit;			/* the process's, as the core resolved it */
	__u8 reserved;
};

struct moor_create_srq_req {
	__aligned_u64 ring_addr;	/* page-aligned */
	__u8 log_depth;
	__u8 log_stride;
	__u8 reserved[2];
	__u32 cookie;			/* of type XRC: comes back in every CQE; else 0 */
};

struct moor_create_srq_resp {
	struct moor_doorbell db;
	__u32 srqn;
	__u32 reserved;
};

/*
 * With IB_SRQ_MAX_WR: a new ring of the same stride. It has all WQEs in it that the
 * process does not know to have been taken.
 */
struct moor_modify_srq_req {
	__aligned_u64 ring_addr;
	__u8 log_depth;
	__u8 reserved[7];
};

#endif /* MOOR_ABI_USER_H */
