// SPDX-License-Identifier: GPL-2.0
/*
 * Why a registration failed. An errno names a class of reasons; here the exact limit,
 * flag or page is remembered: the last failure of each context for its process, and
 * the last failures of the device for its administrator.
 */

#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/mm.h>

#include "moor.h"
#include "trace.h"

#define MOOR_PROBE_PAGES	32	/* pinned at a time, on the stack */

static const char * const moor_refusal_names[] = {
	[MOOR_REFUSAL_NONE]	= "none",
	[MOOR_REFUSAL_LENGTH]	= "length",
	[MOOR_REFUSAL_IOVA]	= "iova",
	[MOOR_REFUSAL_FLAGS]	= "flags",
	[MOOR_REFUSAL_MEMLOCK]	= "memlock",
	[MOOR_REFUSAL_PAGE]	= "page",
	[MOOR_REFUSAL_MR_LIMIT]	= "mr-limit",
	[MOOR_REFUSAL_MEMORY]	= "memory",
	[MOOR_REFUSAL_WINDOWS]	= "windows",
	[MOOR_REFUSAL_DEVICE]	= "device",
	[MOOR_REFUSAL_OTHER]	= "other",
};

/**
 * moor_refusal_name - a reason in a word
 * @reason: enum moor_refusal_reason
 *
 * Return: the word.
 */
const char *moor_refusal_name(u32 reason)
{
	return moor_refusal_names[reason];
}

/*
 * Find the first page of a range that cannot be pinned, by pinning a few pages at a
 * time: the mappings alone do not show it (a file may end within one). Each page is
 * unpinned at once, so that nothing needs to be accounted for.
 */
static u64 moor_find_bad_page(u64 start, u64 length, bool write)
{
	unsigned int flags = FOLL_LONGTERM | (write ? FOLL_WRITE : 0);
	struct page *pages[MOOR_PROBE_PAGES];
	u64 left = DIV_ROUND_UP_ULL(offset_in_page(start) + length, PAGE_SIZE);
	u64 addr = start & PAGE_MASK;
	int want, got;

	while (left && !fatal_signal_pending(current)) {
		want = min_t(u64, left, MOOR_PROBE_PAGES);
		got = pin_user_pages_fast(addr, want, flags, pages);
		if (got > 0)
			unpin_user_pages(pages, got);
		if (got <= 0)
			return max(addr, start);
		addr += (u64)got * PAGE_SIZE;
		left -= got;
		cond_resched();
	}
	return 0;
}

/**
 * moor_refusal_of_errno - the reason for an error that has no better one
 * @err: negative errno
 *
 * Return: enum moor_refusal_reason
 */
u32 moor_refusal_of_errno(int err)
{
	return err == -ENOMEM ? MOOR_REFUSAL_MEMORY : MOOR_REFUSAL_OTHER;
}

/**
 * moor_refusal_of_pin - why memory could not be pinned
 * @why: filled in
 * @start: address of the first byte
 * @length: bytes
 * @err: what ib_umem_get_va() gave
 *
 * Return: @err.
 */
int moor_refusal_of_pin(struct moor_refusal *why, u64 start, u64 length,
			int err)
{
	u64 pages = DIV_ROUND_UP_ULL(offset_in_page(start) + length, PAGE_SIZE);
	u64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	u64 pinned = atomic64_read(&current->mm->pinned_vm);
	bool limited = !ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK);

	why->limit = 0;
	why->value = 0;
	if (limited && (err == -EPERM ||
			(err == -ENOMEM && pinned + pages > limit))) {
		why->reason = MOOR_REFUSAL_MEMLOCK;
		why->limit = rlimit(RLIMIT_MEMLOCK);
		why->value = pinned << PAGE_SHIFT;
	} else if (err == -EFAULT) {
		/* moor_refusal_last() looks for the page when the process asks. */
		why->reason = MOOR_REFUSAL_PAGE;
	} else {
		why->reason = moor_refusal_of_errno(err);
	}
	return err;
}

/**
 * moor_refuse - remember why a registration failed
 * @mdev: device
 * @udata: of the call, by which its context is found
 * @why: reason and arguments; @why->error is filled in here
 * @err: negative errno
 */
void moor_refuse(struct moor_dev *mdev, struct ib_udata *udata,
		 struct moor_refusal *why, int err)
{
	struct moor_ucontext *uctx =
		rdma_udata_to_drv_context(udata, struct moor_ucontext,
					  ibucontext);
	struct moor_refusals *refusals = &mdev->refusals;
	struct moor_refusal_record record = {
		.time = ktime_get_real_seconds(),
		.pid = task_tgid_nr(current),
	};

	why->error = -err;
	record.refusal = *why;
	get_task_comm(record.comm, current);

	spin_lock(&refusals->lock);
	refusals->last[refusals->count++ % MOOR_REFUSALS_KEPT] = record;
	if (uctx)
		uctx->refusal = *why;
	spin_unlock(&refusals->lock);
	trace_moor_reg_refused(mdev, why);
}

/**
 * moor_refusal_last - why the last failed registration of a context failed
 * @mdev: device
 * @uctx: context of the calling process
 * @why: filled in
 */
void moor_refusal_last(struct moor_dev *mdev, struct moor_ucontext *uctx,
		       struct moor_refusal *why)
{
	spin_lock(&mdev->refusals.lock);
	*why = uctx->refusal;
	spin_unlock(&mdev->refusals.lock);
	/* odp.c knows the address, and asks for no page. */
	if (why->reason == MOOR_REFUSAL_PAGE && !why->value)
		why->value = moor_find_bad_page(why->start, why->length,
						ib_access_writable(why->access));
}
