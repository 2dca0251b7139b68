/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause) */
/*
 * Moor's own uverbs methods: which windows hold an MR, why a registration was refused,
 * where a process finds on-NIC memory, and how many WQEs of an SRQ have been taken.
 * moor-abi.h says how their structures grow.
 */
#ifndef MOOR_USER_IOCTL_CMDS_H
#define MOOR_USER_IOCTL_CMDS_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

/* UVERBS_OBJECT_MR */
enum moor_mr_methods {
	MOOR_METHOD_MR_WINDOWS = (1U << UVERBS_ID_NS_SHIFT),
};

enum moor_mr_windows_attrs {
	MOOR_ATTR_MR_WINDOWS_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	MOOR_ATTR_MR_WINDOWS_LIST,	/* out: array of struct moor_window */
	MOOR_ATTR_MR_WINDOWS_COUNT,	/* out: __u32, number of windows bound in all */
	/* in, optional: __u64, bytes from one entry to the next; if absent: 40 */
	MOOR_ATTR_MR_WINDOWS_ENTRY_SIZE,
	/* in, optional: __u64, windows that are counted, but not listed; if absent: 0 */
	MOOR_ATTR_MR_WINDOWS_SKIP,
};

struct moor_window {
	__u32 rkey;
	__u32 type;		/* 1 or 2 */
	__u32 qpn;		/* bound on (type 2) or through (type 1) */
	__s32 pid;		/* owner of that QP; 0: not known any more */
	__aligned_u64 iova;
	__aligned_u64 length;
	__u32 access;		/* enum ibv_access_flags, remote ones */
	__u32 reserved;
};

/* UVERBS_OBJECT_DEVICE */
enum moor_device_methods {
	MOOR_METHOD_DEVICE_REFUSAL = (1U << UVERBS_ID_NS_SHIFT),
};

enum moor_device_refusal_attrs {
	MOOR_ATTR_DEVICE_REFUSAL = (1U << UVERBS_ID_NS_SHIFT),	/* out */
};

/* UVERBS_METHOD_QUERY_CONTEXT, for a process that imports a context. */
enum moor_query_context_attrs {
	/* out: struct moor_alloc_ucontext_resp */
	MOOR_ATTR_QUERY_CONTEXT_RESP = (1U << UVERBS_ID_NS_SHIFT),
};

/* Why the last registration that failed in this context was refused. */
enum moor_refusal_reason {
	MOOR_REFUSAL_NONE	= 0,	/* none has failed yet */
	MOOR_REFUSAL_LENGTH	= 1,	/* value: length; limit: longest allowed */
	MOOR_REFUSAL_IOVA	= 2,	/* value: iova; not congruent, or wraps */
	MOOR_REFUSAL_FLAGS	= 3,	/* value: flags not possible, or missing */
	MOOR_REFUSAL_MEMLOCK	= 4,	/* limit: RLIMIT_MEMLOCK; value: pinned now; bytes */
	MOOR_REFUSAL_PAGE	= 5,	/* value: first address that cannot be pinned, or 0 */
	MOOR_REFUSAL_MR_LIMIT	= 6,	/* limit: MRs of the device; value: in use */
	MOOR_REFUSAL_MEMORY	= 7,	/* the kernel is out of memory */
	MOOR_REFUSAL_WINDOWS	= 8,	/* value: windows bound */
	MOOR_REFUSAL_DEVICE	= 9,	/* the device is dead */
	MOOR_REFUSAL_OTHER	= 10,	/* what the errno says, such as a signal */
};

struct moor_refusal {
	__u32 reason;		/* enum moor_refusal_reason */
	__s32 error;		/* errno that was returned, positive */
	__aligned_u64 limit;
	__aligned_u64 value;
	/* Address (or offset), length, access flags: the call's, or the region's if it has none */
	__aligned_u64 start;
	__aligned_u64 length;
	__u32 access;
	__u32 reserved;
};

/* UVERBS_OBJECT_PD: checks that a handle from another process exists. */
enum moor_pd_methods {
	MOOR_METHOD_PD_QUERY = (1U << UVERBS_ID_NS_SHIFT),
};

enum moor_pd_query_attrs {
	MOOR_ATTR_PD_QUERY_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	MOOR_ATTR_PD_QUERY_RESP,	/* out: struct moor_alloc_pd_resp */
};

/* UVERBS_OBJECT_SRQ: how many WQEs have been taken; query_srq has no field for that. */
enum moor_srq_methods {
	MOOR_METHOD_SRQ_QUERY = (1U << UVERBS_ID_NS_SHIFT),
};

enum moor_srq_query_attrs {
	MOOR_ATTR_SRQ_QUERY_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	MOOR_ATTR_SRQ_QUERY_RESP,	/* out: struct moor_srq_state */
};

struct moor_srq_state {
	__u32 consumer;		/* free-running index of the next WQE to be taken */
	__u32 reserved;
};

/* UVERBS_OBJECT_DM */
enum moor_dm_methods {
	MOOR_METHOD_DM_QUERY = (1U << UVERBS_ID_NS_SHIFT),
};

enum moor_dm_query_attrs {
	MOOR_ATTR_DM_QUERY_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	MOOR_ATTR_DM_QUERY_RESP,	/* out: struct moor_dm_location */
};

/* Also the answer of ALLOC_DM: attribute MOOR_ATTR_ALLOC_DM_RESP. */
enum moor_alloc_dm_attrs {
	MOOR_ATTR_ALLOC_DM_RESP = (1U << UVERBS_ID_NS_SHIFT),
};

struct moor_dm_location {
	__aligned_u64 mmap_offset;
	__aligned_u64 length;	/* bytes asked for; the mapping is whole pages */
};

#endif /* MOOR_USER_IOCTL_CMDS_H */
