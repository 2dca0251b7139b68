/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause) */
/*
 * Moor: what libibverbs' provider and the kernel driver exchange through
 * uverbs beside the common part. Multi-byte fields are in host order. Fields
 * named reserved are zero on input, or the call fails with EINVAL.
 *
 * Structures, here and in moor_user_ioctl_cmds.h, grow at their ends; what is there
 * keeps its place and meaning. Both sides may be older than the other:
 *  - Input is at least what MOOR_UVERBS_ABI_VERSION 1 began with, else EINVAL. What
 *    the kernel does not know of it is zero, or the call fails with EOPNOTSUPP; what
 *    the process did not give is zero.
 *  - An answer may be asked for shorter or longer than the kernel knows it: the kernel
 *    gives the beginning, or zeros behind its end. Methods of moor_user_ioctl_cmds.h
 *    want room for what their structures began with, else EINVAL.
 *  - A list says how large an entry is, and each entry is treated so.
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
	__u8 hop_limit;			/* what the core made of the process's */
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
 * With IB_SRQ_MAX_WR: another ring, of the same stride, with all WQEs in it of which
 * the process does not know that they have been taken.
 */
struct moor_modify_srq_req {
	__aligned_u64 ring_addr;
	__u8 log_depth;
	__u8 reserved[7];
};

#endif /* MOOR_ABI_USER_H */
