// SPDX-License-Identifier: GPL-2.0
/* Helpers of the suites of on-demand paging: memory, page requests, accesses. */

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/kthread.h>
#include <linux/mman.h>

#include "paged.h"

struct ib_udata *paged_udata(struct kunit *test, struct moor_pair *pair)
{
	return moor_user_udata(test, pair->user, NULL, 0, 0);
}

struct ib_mr *paged_reg(struct paged *paged, u64 start, u64 length,
			u64 iova, int access)
{
	return moor_kunit_reg_as(paged->pair.pd, start, length, iova, access,
				 paged_udata(paged->test, &paged->pair));
}

struct paged *paged_open_bare(struct kunit *test)
{
	struct paged *paged = kunit_kzalloc(test, sizeof(*paged), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, paged);
	paged->test = test;
	moor_pair_open(test, &paged->pair);
	paged->addr = moor_kunit_mmap(test, LENGTH, true);
	paged->pinned = moor_kunit_pinned();
	return paged;
}

struct paged *paged_open(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);

	paged->mr = paged_reg(paged, paged->addr, LENGTH, IOVA, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	return paged;
}

void paged_close(struct paged *paged)
{
	struct kunit *test = paged->test;

	if (paged->mr)
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), 0);
	moor_pair_close(test, &paged->pair);
}

struct moor_odp *paged_odp(struct paged *paged)
{
	return to_mmr(paged->mr)->reg.odp;
}

/* Send a page request; do not wait for the answer. */
struct fake_page *paged_ask_for(struct paged *paged, u32 key, u64 addr,
				u32 length, u8 flags)
{
	return moor_pair_ask(&paged->pair, ++paged->token, key, addr, length,
			     flags);
}

u8 paged_ask_key(struct paged *paged, u32 key, u64 addr, u32 length, u8 flags)
{
	struct fake_page *page = paged_ask_for(paged, key, addr, length, flags);

	moor_kunit_wait(paged->test, moor_is_answered(page));
	return page->status;
}

u8 paged_ask(struct paged *paged, u64 addr, u32 length, u8 flags)
{
	return paged_ask_key(paged, paged->mr->lkey, addr, length, flags);
}

/* Access a byte as the device does. Return: 0, or a syndrome. */
int paged_touch(struct paged *paged, u64 addr, bool write)
{
	u8 byte = 0x77;

	return fake_nic_access(moor_kunit_nic(), paged->mr->lkey,
			       write ? REMOTE_WRITE : 0, addr, &byte, 1, write);
}

u32 paged_invalidations(void)
{
	return moor_kunit_nic()->commands[MOOR_CMD_MR_INVALIDATE];
}

/* Nodes of the MR once the reaper has taken away the emptied ones. */
void paged_expect_nodes(struct paged *paged, u32 nodes)
{
	flush_delayed_work(&paged_odp(paged)->reap);
	KUNIT_EXPECT_EQ(paged->test, paged_odp(paged)->num_nodes, nodes);
}

int paged_rereg(struct paged *paged, int flags, u64 start, u64 length,
		u64 iova, int access)
{
	struct ib_mr *other;

	other = moor_rereg_user_mr(paged->mr, flags, start, length, iova, access,
				   paged->pair.pd,
				   paged_udata(paged->test, &paged->pair));
	if (!other && flags & IB_MR_REREG_TRANS) {
		paged->mr->iova = iova;
		paged->mr->length = length;
	}
	return other ? PTR_ERR(other) : 0;
}

static int hog_run(void *data)
{
	struct paged_hog *hog = data;

	mmap_write_lock(hog->mm);
	complete(&hog->begun);
	wait_for_completion(&hog->over);
	mmap_write_unlock(hog->mm);
	complete(&hog->gone);
	return 0;
}

/* As paged_hog_start(), but does not wait until the thread has the lock. */
void paged_hog_queue(struct kunit *test, struct paged_hog *hog)
{
	hog->mm = current->mm;
	init_completion(&hog->begun);
	init_completion(&hog->over);
	init_completion(&hog->gone);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(hog_run, hog, "hog"));
}

void paged_hog_start(struct kunit *test, struct paged_hog *hog)
{
	paged_hog_queue(test, hog);
	wait_for_completion(&hog->begun);
}

void paged_hog_stop(struct paged_hog *hog)
{
	complete(&hog->over);
	wait_for_completion(&hog->gone);
}

/* Map a page of an anonymous file: at an address, or if that is 0 anywhere. */
unsigned long paged_map(struct kunit *test, const struct file_operations *ops,
			void *private, unsigned long at)
{
	unsigned long flags = MAP_SHARED | (at ? MAP_FIXED : 0);
	struct file *file;

	file = anon_inode_getfile("paged", ops, private, O_RDWR);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	at = vm_mmap(file, at, PAGE_SIZE, PROT_READ, flags, 0);
	fput(file);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	return at;
}

/* As userfaultfd does, drop the lock: faults in the rest of the memory go on. */
static vm_fault_t late_fault(struct vm_fault *vmf)
{
	struct paged_late *late = vmf->vma->vm_private_data;

	if (completion_done(&late->come)) {
		get_page(late->page);
		vmf->page = late->page;
		return 0;
	}
	if (!(vmf->flags & FAULT_FLAG_ALLOW_RETRY))
		return VM_FAULT_SIGBUS;
	mmap_read_unlock(vmf->vma->vm_mm);
	atomic_inc(&late->asked);
	wait_for_completion(&late->come);
	return VM_FAULT_RETRY;
}

static const struct vm_operations_struct late_vm_ops = {
	.fault = late_fault,
};

static int late_mmap(struct file *file, struct vm_area_struct *vma)
{
	vma->vm_ops = &late_vm_ops;
	vma->vm_private_data = file->private_data;
	return 0;
}

static const struct file_operations late_ops = {
	.owner = THIS_MODULE,
	.mmap = late_mmap,
};

void paged_late_map(struct kunit *test, struct paged_late *late)
{
	init_completion(&late->come);
	atomic_set(&late->asked, 0);
	late->page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	KUNIT_ASSERT_NOT_NULL(test, late->page);
	late->addr = paged_map(test, &late_ops, late, 0);
}

void paged_late_unmap(struct kunit *test, struct paged_late *late)
{
	KUNIT_EXPECT_EQ(test, vm_munmap(late->addr, PAGE_SIZE), 0);
	__free_page(late->page);
}

int paged_advise(struct paged *paged, u32 key, u64 addr, u32 length,
		 enum ib_uverbs_advise_mr_advice advice, u32 flags)
{
	struct ib_sge sge = { .addr = addr, .length = length, .lkey = key };

	return moor_advise_mr(paged->pair.pd, advice, flags, &sge, 1,
			      &paged->pair.user->attrs);
}
