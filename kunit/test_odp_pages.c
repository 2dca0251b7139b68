// SPDX-License-Identifier: GPL-2.0
/*
 * Pages under paging on demand that change what may be done with them, and that are taken
 * away by who cannot wait.
 */

#include <linux/anon_inodes.h>
#include <linux/mman.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>

#include "paged.h"

/* Pages that are mapped for reading first; a write makes them writable where they are. */
struct paged_file {
	struct page *page[PAGES];
};

static vm_fault_t file_fault(struct vm_fault *vmf)
{
	struct paged_file *file = vmf->vma->vm_private_data;

	if (vmf->pgoff >= PAGES)
		return VM_FAULT_SIGBUS;
	get_page(file->page[vmf->pgoff]);
	vmf->page = file->page[vmf->pgoff];
	return 0;
}

static vm_fault_t file_mkwrite(struct vm_fault *vmf)
{
	lock_page(vmf->page);
	return VM_FAULT_LOCKED;
}

static const struct vm_operations_struct file_vm_ops = {
	.fault = file_fault,
	.page_mkwrite = file_mkwrite,
};

static int file_mmap(struct file *file, struct vm_area_struct *vma)
{
	vma->vm_ops = &file_vm_ops;
	vma->vm_private_data = file->private_data;
	return 0;
}

static const struct file_operations file_ops = {
	.owner = THIS_MODULE,
	.mmap = file_mmap,
};

/* Maps a file's pages where the MR has its memory. */
static void file_map(struct paged *paged, struct paged_file *pages)
{
	struct kunit *test = paged->test;
	struct file *file;
	u32 i;

	for (i = 0; i < PAGES; i++) {
		pages->page[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		KUNIT_ASSERT_NOT_NULL(test, pages->page[i]);
	}
	file = anon_inode_getfile("paged", &file_ops, pages, O_RDWR);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	KUNIT_ASSERT_EQ(test, vm_mmap(file, paged->addr, LENGTH,
				      PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_FIXED, 0), paged->addr);
	fput(file);
}

static void file_unmap(struct paged *paged, struct paged_file *pages)
{
	u32 i;

	KUNIT_EXPECT_EQ(paged->test, vm_munmap(paged->addr, LENGTH), 0);
	for (i = 0; i < PAGES; i++)
		__free_page(pages->page[i]);
}

static u32 writable_pages(struct paged *paged)
{
	u32 i, num = 0;

	for (i = 0; i < PAGES; i++)
		num += !paged_touch(paged, IOVA + i * PAGE_SIZE, true);
	return num;
}

/*
 * Pages that the device reads become writable without an invalidation. All that are to be
 * written cost one fence, and who lies between them and is writable already stays so.
 */
static void odp_upgraded(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct paged_file file;
	u32 before;

	file_map(paged, &file);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, paged->mr->lkey, IOVA, LENGTH,
					   PREFETCH, FLUSH), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + LENGTH - 1, false), 0);
	KUNIT_EXPECT_EQ(test, writable_pages(paged), 0);
	before = paged_invalidations();
	KUNIT_EXPECT_EQ(test, paged_advise(paged, paged->mr->lkey,
					   IOVA + 3 * PAGE_SIZE, PAGE_SIZE,
					   PREFETCH_WRITE, FLUSH), 0);
	KUNIT_EXPECT_EQ(test, paged_invalidations(), before + 1);
	KUNIT_EXPECT_EQ(test, writable_pages(paged), 1);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, paged->mr->lkey, IOVA, LENGTH,
					   PREFETCH_WRITE, FLUSH), 0);
	KUNIT_EXPECT_EQ(test, paged_invalidations(), before + 2);
	KUNIT_EXPECT_EQ(test, writable_pages(paged), PAGES);
	file_unmap(paged, &file);
	paged_close(paged);
}

/* Tells the only branch that its memory goes, as the OOM reaper does: it cannot wait. */
static bool reap(struct paged *paged)
{
	struct moor_odp *odp = paged_odp(paged);
	const struct mmu_notifier_range range = {
		.mm = odp->mm,
		.start = paged->addr,
		.end = paged->addr + LENGTH,
	};
	struct moor_branch *branch;
	unsigned long index = 0;

	branch = xa_find(&odp->branches, &index, ULONG_MAX, XA_PRESENT);
	KUNIT_ASSERT_NOT_NULL(paged->test, branch);
	return moor_branch_ops.invalidate(&branch->notifier, &range,
					  READ_ONCE(branch->notifier.invalidate_seq));
}

/* Pages that the device has are in the way of the OOM reaper; a branch without is not. */
static void odp_reaped(struct kunit *test)
{
	struct paged *paged = paged_open(test);

	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, LENGTH, TO_WRITE), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_FALSE(test, reap(paged));
	KUNIT_EXPECT_EQ(test, writable_pages(paged), PAGES);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
	KUNIT_EXPECT_EQ(test, writable_pages(paged), 0);
	KUNIT_EXPECT_TRUE(test, reap(paged));
	paged_close(paged);
}

/* A signal while the process's first notifier is entered: the call begins anew. */
static void odp_signal(struct kunit *test)
{
	struct paged *paged = paged_open(test);

	set_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, paged->mr->lkey, IOVA, LENGTH,
					   PREFETCH_WRITE, FLUSH), -ERESTARTSYS);
	clear_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_EQ(test, writable_pages(paged), 0);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, paged->mr->lkey, IOVA, LENGTH,
					   PREFETCH_WRITE, FLUSH), 0);
	KUNIT_EXPECT_EQ(test, writable_pages(paged), PAGES);
	paged_close(paged);
}

static struct kunit_case odp_pages_cases[] = {
	KUNIT_CASE(odp_upgraded),
	KUNIT_CASE(odp_reaped),
	KUNIT_CASE(odp_signal),
	{}
};

static struct kunit_suite odp_pages_suite = {
	.name = "moor_odp_pages",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = odp_pages_cases,
};

kunit_test_suite(odp_pages_suite);
