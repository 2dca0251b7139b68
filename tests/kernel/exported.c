// SPDX-License-Identifier: GPL-2.0
/*
 * An owner of dma-bufs that moves them, takes them back or refuses to map them, as the
 * peer of dmabuf.c and dmabuf_move.c in tests. Part of a test module (exporter.c) and
 * of KUnit's.
 */

#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "exporter.h"

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#define dma_buf_invalidate_mappings	dma_buf_move_notify
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif

/*
 * As ib_core maps memory: a page may be mapped any number of times at once, to which
 * DMA debugging objects otherwise.
 */
#ifdef DMA_ATTR_REQUIRE_COHERENT
#define ATTRS	DMA_ATTR_REQUIRE_COHERENT
#else
#define ATTRS	0
#endif

/*
 * The data is in one of two sets of pages. Each byte of the other set is EXPORTER_MARK,
 * and must stay so. The reservation lock protects the members that change.
 */
struct exported {
	struct page *pages[2][EXPORTER_PAGES];
	int at;			/* the set with the data */
	int pins;
	bool taken_back;
	bool cut;		/* the next mapping is one page short */
	int error;		/* of the next attempt to map */
	struct dma_fence *moving;
	struct mutex arrival;	/* for the end of a move: no reservation lock */
	spinlock_t fence_lock;	/* for dma_fence_init() */
};

static const char *exported_fence_name(struct dma_fence *fence)
{
	return "moor_exporter";
}

static const struct dma_fence_ops exported_fence_ops = {
	.get_driver_name = exported_fence_name,
	.get_timeline_name = exported_fence_name,
};

static int exported_pin(struct dma_buf_attachment *attach)
{
	struct exported *exported = attach->dmabuf->priv;

	if (exported->taken_back)
		return -ENODEV;
	exported->pins++;
	return 0;
}

static void exported_unpin(struct dma_buf_attachment *attach)
{
	struct exported *exported = attach->dmabuf->priv;

	exported->pins--;
}

/*
 * An error hits one attempt to map; after the buffer was taken back all attempts fail.
 */
static int exported_error(struct exported *exported)
{
	int error = exported->error;

	exported->error = 0;
	return exported->taken_back ? -ENODEV : error;
}

static struct sg_table *exported_map(struct dma_buf_attachment *attach,
				     enum dma_data_direction direction)
{
	struct exported *exported = attach->dmabuf->priv;
	u32 num = EXPORTER_PAGES - exported->cut;
	int err = exported_error(exported);
	struct sg_table *sgt;

	if (err)
		return ERR_PTR(err);
	exported->cut = false;
	sgt = kzalloc(sizeof(*sgt), GFP_KERNEL);
	if (!sgt)
		return ERR_PTR(-ENOMEM);
	err = sg_alloc_table_from_pages(sgt, exported->pages[exported->at], num,
					0, num * PAGE_SIZE, GFP_KERNEL);
	if (err)
		goto free;
	err = dma_map_sgtable(attach->dev, sgt, direction, ATTRS);
	if (err)
		goto free_table;
	return sgt;

free_table:
	sg_free_table(sgt);
free:
	kfree(sgt);
	return ERR_PTR(err);
}

static void exported_unmap(struct dma_buf_attachment *attach,
			   struct sg_table *sgt,
			   enum dma_data_direction direction)
{
	dma_unmap_sgtable(attach->dev, sgt, direction, ATTRS);
	sg_free_table(sgt);
	kfree(sgt);
}

/* Takes the reservation lock, so that no page of a set is mapped that is being left. */
static vm_fault_t exported_fault(struct vm_fault *vmf)
{
	struct dma_buf *buf = vmf->vma->vm_private_data;
	struct exported *exported = buf->priv;
	vm_fault_t result = VM_FAULT_SIGBUS;

	dma_resv_lock(buf->resv, NULL);
	if (!READ_ONCE(exported->moving) && vmf->pgoff < EXPORTER_PAGES)
		result = vmf_insert_pfn(vmf->vma, vmf->address,
					page_to_pfn(exported->pages[exported->at]
								   [vmf->pgoff]));
	dma_resv_unlock(buf->resv);
	return result;
}

static const struct vm_operations_struct exported_vm_ops = {
	.fault = exported_fault,
};

static int exported_mmap(struct dma_buf *buf, struct vm_area_struct *vma)
{
	vm_flags_set(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &exported_vm_ops;
	vma->vm_private_data = buf;
	return 0;
}

static void exported_end_fence(struct exported *exported)
{
	struct dma_fence *fence = exported->moving;

	if (!fence)
		return;
	WRITE_ONCE(exported->moving, NULL);
	dma_fence_signal(fence);
	dma_fence_put(fence);
}

static void exported_free(struct exported *exported)
{
	int i;

	exported_end_fence(exported);
	for (i = 0; i < EXPORTER_PAGES; i++) {
		if (exported->pages[0][i])
			put_page(exported->pages[0][i]);
		if (exported->pages[1][i])
			put_page(exported->pages[1][i]);
	}
	kfree(exported);
}

static void exported_release(struct dma_buf *buf)
{
	exported_free(buf->priv);
}

static const struct dma_buf_ops exported_ops = {
	.pin = exported_pin,
	.unpin = exported_unpin,
	.map_dma_buf = exported_map,
	.unmap_dma_buf = exported_unmap,
	.mmap = exported_mmap,
	.release = exported_release,
};

static void exported_mark(struct exported *exported, int set)
{
	int i;

	for (i = 0; i < EXPORTER_PAGES; i++)
		memset(page_address(exported->pages[set][i]), EXPORTER_MARK,
		       PAGE_SIZE);
}

static bool exported_is_marked(struct exported *exported, int set)
{
	int i;

	for (i = 0; i < EXPORTER_PAGES; i++)
		if (memchr_inv(page_address(exported->pages[set][i]),
			       EXPORTER_MARK, PAGE_SIZE))
			return false;
	return true;
}

static struct exported *exported_new(void)
{
	struct exported *exported = kzalloc(sizeof(*exported), GFP_KERNEL);
	int i;

	if (!exported)
		return NULL;
	mutex_init(&exported->arrival);
	spin_lock_init(&exported->fence_lock);
	for (i = 0; i < EXPORTER_PAGES; i++) {
		exported->pages[0][i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		exported->pages[1][i] = alloc_page(GFP_KERNEL);
		if (!exported->pages[0][i] || !exported->pages[1][i]) {
			exported_free(exported);
			return NULL;
		}
	}
	exported_mark(exported, 1);
	return exported;
}

/**
 * exported_make - make a dma-buf of EXPORTER_PAGES pages, which are zero
 *
 * Return: its file descriptor, or an errno
 */
int exported_make(void)
{
	struct exported *exported = exported_new();
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *buf;
	int fd;

	if (!exported)
		return -ENOMEM;
	info.ops = &exported_ops;
	info.size = EXPORTER_PAGES * PAGE_SIZE;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = exported;
	buf = dma_buf_export(&info);
	if (IS_ERR(buf)) {
		exported_free(exported);
		return PTR_ERR(buf);
	}
	fd = dma_buf_fd(buf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(buf);
	return fd;
}

/* Marks all pages: a write to them from now on will be found. */
static int exported_take_back(struct dma_buf *buf, struct exported *exported)
{
	exported->taken_back = true;
	dma_buf_invalidate_mappings(buf);
	exported_mark(exported, exported->at);
	return 0;
}

/*
 * Switches to the other set of pages and unmaps the old one. The data is not copied
 * yet.
 */
static int exported_leave(struct dma_buf *buf, struct exported *exported)
{
	if (exported->pins || READ_ONCE(exported->moving))
		return -EBUSY;
	if (!exported_is_marked(exported, !exported->at))
		return -EUCLEAN;
	unmap_mapping_range(buf->file->f_mapping, 0, 0, 1);
	dma_buf_invalidate_mappings(buf);
	exported->at = !exported->at;
	return 0;
}

static void exported_arrive(struct exported *exported)
{
	int i;

	for (i = 0; i < EXPORTER_PAGES; i++)
		copy_page(page_address(exported->pages[exported->at][i]),
			  page_address(exported->pages[!exported->at][i]));
	exported_mark(exported, !exported->at);
}

static int exported_move(struct dma_buf *buf, struct exported *exported)
{
	int err = exported_leave(buf, exported);

	if (!err)
		exported_arrive(exported);
	return err;
}

static int exported_move_begin(struct dma_buf *buf, struct exported *exported)
{
	struct dma_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL);
	int err = fence ? dma_resv_reserve_fences(buf->resv, 1) : -ENOMEM;

	if (!err)
		err = exported_leave(buf, exported);
	if (err) {
		kfree(fence);
		return err;
	}
	dma_fence_init(fence, &exported_fence_ops, &exported->fence_lock,
		       dma_fence_context_alloc(1), 1);
	dma_resv_add_fence(buf->resv, fence, DMA_RESV_USAGE_KERNEL);
	WRITE_ONCE(exported->moving, fence);
	return 0;
}

/* Takes no reservation lock, for a waiter of the fence may hold that. */
static int exported_move_end(struct exported *exported)
{
	int err = -EINVAL;

	mutex_lock(&exported->arrival);
	if (exported->moving) {
		exported_arrive(exported);
		exported_end_fence(exported);
		err = 0;
	}
	mutex_unlock(&exported->arrival);
	return err;
}

static int exported_do(struct dma_buf *buf, struct exported *exported,
		       unsigned int cmd)
{
	switch (cmd) {
	case EXPORTER_TAKE_BACK:
		return exported_take_back(buf, exported);
	case EXPORTER_FAIL:
		exported->error = -EXPORTER_ERROR;
		return 0;
	case EXPORTER_INTERRUPT:
		exported->error = -EINTR;
		return 0;
	case EXPORTER_SHORT:
		exported->cut = true;
		return 0;
	case EXPORTER_MOVE:
		return exported_move(buf, exported);
	case EXPORTER_MOVE_BEGIN:
		return exported_move_begin(buf, exported);
	default:
		return -ENOTTY;
	}
}

/**
 * exported_change - carry out a command on a dma-buf
 * @cmd: EXPORTER_*
 * @fd: file descriptor from exported_make()
 *
 * Return: 0, -EBADF, -EINVAL for another dma-buf, or the command's result
 */
int exported_change(unsigned int cmd, int fd)
{
	struct dma_buf *buf = dma_buf_get(fd);
	int err = -EINVAL;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	if (buf->ops != &exported_ops)
		goto put;
	if (cmd == EXPORTER_MOVE_END) {
		err = exported_move_end(buf->priv);
	} else {
		dma_resv_lock(buf->resv, NULL);
		err = exported_do(buf, buf->priv, cmd);
		dma_resv_unlock(buf->resv);
	}
put:
	dma_buf_put(buf);
	return err;
}
