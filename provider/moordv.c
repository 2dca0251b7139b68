// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The functions of moordv.h: windows of a memory region, reason of a failed registration.
 */
#include <errno.h>
#include <string.h>

#include <ccan/minmax.h>
#include <infiniband/cmd_ioctl.h>

#include "moor.h"
#include "moordv.h"

/* Drivers of version 1.0 are not told the size of an entry: they know this one alone. */
static_assert(sizeof(struct moor_window) == 40, "the attribute is optional");

/* How many windows the kernel gives in one attribute. */
#define MAX_LISTED	(UINT16_MAX / sizeof(struct moor_window))

static int fail(int err)
{
	errno = err;
	return -1;
}

static int list_windows(const struct ibv_mr *mr, struct moor_window *windows,
			uint32_t room, uint32_t skip, uint32_t *bound)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_MR, MOOR_METHOD_MR_WINDOWS,
			       5);

	fill_attr_in_obj(cmd, MOOR_ATTR_MR_WINDOWS_HANDLE, mr->handle);
	attr_optional(fill_attr_const_in(cmd, MOOR_ATTR_MR_WINDOWS_ENTRY_SIZE,
					 sizeof(*windows)));
	/* Not optional: without it the same windows came again. */
	if (skip)
		fill_attr_const_in(cmd, MOOR_ATTR_MR_WINDOWS_SKIP, skip);
	if (room)
		fill_attr_out(cmd, MOOR_ATTR_MR_WINDOWS_LIST, windows,
			      room * sizeof(*windows));
	fill_attr_out_ptr(cmd, MOOR_ATTR_MR_WINDOWS_COUNT, bound);
	return execute_ioctl(mr->context, cmd);
}

__attribute__((visibility("default")))
int moordv_query_windows(struct ibv_mr *mr, struct moor_window *windows,
			 uint32_t max, uint32_t *bound)
{
	uint32_t stored = 0, room;
	int err;

	if (!moor_is_context(mr->context) ||
	    verbs_get_mr(mr)->mr_type == IBV_MR_TYPE_NULL_MR)
		return fail(EOPNOTSUPP);
	if (!bound)
		return fail(EINVAL);
	do {
		room = min_t(uint32_t, max - stored, MAX_LISTED);
		err = list_windows(mr, windows + stored, room, stored, bound);
		/* An older driver gives the first of them alone. */
		if (err == EPROTONOSUPPORT && stored)
			break;
		if (err)
			return fail(err);
		/* Fewer may be bound than there were before. */
		stored = min_t(uint32_t, max_t(uint32_t, *bound, stored),
			       stored + room);
	} while (stored < max && stored < *bound);
	return stored;
}

#define COMMON_ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* Access flags that are possible for memory of this kind on this device. */
static uint32_t possible_flags(const struct moor_context *ctx,
			       const struct moor_registration *asked)
{
	uint32_t flags = COMMON_ACCESS | IBV_ACCESS_MW_BIND |
			 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;

	if (asked->dmabuf)
		return COMMON_ACCESS | IBV_ACCESS_RELAXED_ORDERING;
	if (ctx->features & MOOR_FEATURE_FLUSH_GLOBAL)
		flags |= IBV_ACCESS_FLUSH_GLOBAL;
	if (asked->dm_length)
		return flags;
	if (!(asked->access & IBV_ACCESS_ON_DEMAND) &&
	    ctx->features & MOOR_FEATURE_FLUSH_PERSISTENT)
		flags |= IBV_ACCESS_FLUSH_PERSISTENT;
	if (asked->access & IBV_ACCESS_ON_DEMAND &&
	    ctx->features & MOOR_FEATURE_ODP)
		flags |= IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
	return flags;
}

/* Flags that were given but are not possible, and flags that are missing. */
static uint32_t wrong_flags(const struct moor_context *ctx,
			    const struct moor_registration *asked)
{
	uint32_t implied = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	uint32_t flags = asked->access & ~possible_flags(ctx, asked);

	if (asked->error != EINVAL && asked->error != EOPNOTSUPP)
		return 0;
	if (!(asked->access & IBV_ACCESS_LOCAL_WRITE))
		flags |= asked->access & implied;
	/* On-NIC memory can only be registered with zero-based addresses. */
	if (asked->dm_length)
		flags |= ~asked->access & IBV_ACCESS_ZERO_BASED;
	return flags;
}

/* The range at iova wraps, or iova is not congruent to the start. */
static bool iova_is_wrong(const struct moor_registration *asked)
{
	if (asked->no_range)
		return false;
	return (asked->iova ^ asked->start) % MOOR_PAGE_SIZE ||
	       (asked->length && asked->iova + asked->length - 1 < asked->iova);
}

/*
 * The kernel's core refuses some calls before the Moor driver sees them: the reason then
 * follows from the call's arguments, or else only the errno is known.
 */
static void explain(const struct moor_context *ctx,
		    const struct moor_registration *asked,
		    struct moor_refusal *refusal)
{
	uint32_t flags = wrong_flags(ctx, asked);

	*refusal = (struct moor_refusal){
		.reason = MOOR_REFUSAL_OTHER,
		.error = asked->error,
		.start = asked->start,
		.length = asked->length,
		.access = asked->access,
	};
	if (asked->error == EIO) {
		refusal->reason = MOOR_REFUSAL_DEVICE;
	} else if (asked->error == ENOMEM) {
		refusal->reason = MOOR_REFUSAL_MEMORY;
	} else if (flags) {
		refusal->reason = MOOR_REFUSAL_FLAGS;
		refusal->value = flags;
	} else if (asked->error == EINVAL && asked->dm_length) {
		refusal->reason = MOOR_REFUSAL_LENGTH;
		refusal->value = asked->length;
		if (asked->start < asked->dm_length)
			refusal->limit = asked->dm_length - asked->start;
	} else if (asked->error == EINVAL && iova_is_wrong(asked)) {
		refusal->reason = MOOR_REFUSAL_IOVA;
		refusal->value = asked->iova;
	}
}

/* If the call had no range, the kernel reports the range of the region. */
static bool is_about(const struct moor_refusal *refusal,
		     const struct moor_registration *asked)
{
	return refusal->reason != MOOR_REFUSAL_NONE &&
	       refusal->error == asked->error &&
	       (asked->no_range || (refusal->start == asked->start &&
				    refusal->length == asked->length)) &&
	       (asked->no_access || refusal->access == asked->access);
}

__attribute__((visibility("default")))
int moordv_last_refusal(struct ibv_context *context,
			struct moor_refusal *refusal)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DEVICE,
			       MOOR_METHOD_DEVICE_REFUSAL, 1);
	struct moor_registration asked;
	struct moor_context *ctx;

	if (!moor_is_context(context))
		return fail(EOPNOTSUPP);
	ctx = to_moor_context(context);
	pthread_mutex_lock(&ctx->lock);
	asked = ctx->failed;
	pthread_mutex_unlock(&ctx->lock);

	memset(refusal, 0, sizeof(*refusal));
	fill_attr_out_ptr(cmd, MOOR_ATTR_DEVICE_REFUSAL, refusal);
	/* A dead device does not answer; what the provider noted is enough then. */
	if (execute_ioctl(context, cmd))
		refusal->reason = MOOR_REFUSAL_NONE;
	if (asked.error && !is_about(refusal, &asked))
		explain(ctx, &asked, refusal);
	return 0;
}
