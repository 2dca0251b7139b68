// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is given out as dma-bufs, and taken back, or not to be had: the other end
 * of dmabuf.c, for tests. Part of a module of their own (exporter.c), and of KUnit's.
 */

#include <linux/dma-buf.h>
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

struct exported {
	struct page *pages[EXPORTER_PAGES];
	bool taken_back;	/* protected by the reservation lock, and the next */
	int error;		/* of who wants to map it */
};

static int exported_pin(struct dma_buf_attachment *attach)
{
	struct exported *exported = attach->dmabuf->priv;

	return exported->taken_back ? -ENODEV : 0;
}

static void exported_unpin(struct dma_buf_attachment *attach)
{
}

static struct sg_table *exported_map(struct dma_buf_attachment *attach,
				     enum dma_data_direction direction)
{
	struct exported *exported = attach->dmabuf->priv;
	struct sg_table *sgt;
	int err;

	if (exported->error)
		return ERR_PTR(exported->error);
	sgt = kzalloc(sizeof(*sgt), GFP_KERNEL);
	if (!sgt)
		return ERR_PTR(-ENOMEM);
	err = sg_alloc_table_from_pages(sgt, exported->pages, EXPORTER_PAGES, 0,
					EXPORTER_PAGES * PAGE_SIZE, GFP_KERNEL);
	if (err)
		goto free;
	err = dma_map_sgtable(attach->dev, sgt, direction, 0);
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
	dma_unmap_sgtable(attach->dev, sgt, direction, 0);
	sg_free_table(sgt);
	kfree(sgt);
}

static int exported_mmap(struct dma_buf *buf, struct vm_area_struct *vma)
{
	struct exported *exported = buf->priv;
	unsigned long num = EXPORTER_PAGES;

	return vm_insert_pages(vma, vma->vm_start, exported->pages, &num);
}

static void exported_free(struct exported *exported)
{
	int i;

	for (i = 0; i < EXPORTER_PAGES; i++)
		if (exported->pages[i])
			put_page(exported->pages[i]);
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

/**
 * exported_make - make a dma-buf of EXPORTER_PAGES pages, which are zero
 *
 * Return: its file descriptor, or an errno
 */
int exported_make(void)
{
	struct exported *exported = kzalloc(sizeof(*exported), GFP_KERNEL);
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *buf;
	int fd = -ENOMEM;
	int i;

	if (!exported)
		return fd;
	for (i = 0; i < EXPORTER_PAGES; i++) {
		exported->pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!exported->pages[i])
			goto free;
	}
	info.ops = &exported_ops;
	info.size = EXPORTER_PAGES * PAGE_SIZE;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = exported;
	buf = dma_buf_export(&info);
	if (IS_ERR(buf)) {
		fd = PTR_ERR(buf);
		goto free;
	}
	fd = dma_buf_fd(buf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(buf);
	return fd;

free:
	exported_free(exported);
	return fd;
}

/* From now on whoever writes there does wrong: it is all one byte, and stays so. */
static void exported_take_back(struct dma_buf *buf, struct exported *exported)
{
	int i;

	exported->taken_back = true;
	dma_buf_invalidate_mappings(buf);
	for (i = 0; i < EXPORTER_PAGES; i++)
		memset(page_address(exported->pages[i]), EXPORTER_MARK,
		       PAGE_SIZE);
}

/**
 * exported_change - take a dma-buf back, or let it fail who maps it
 * @cmd: EXPORTER_TAKE_BACK or EXPORTER_FAIL
 * @fd: of one that exported_make() made
 *
 * Return: 0, -EBADF, or -EINVAL for another one's
 */
int exported_change(unsigned int cmd, int fd)
{
	struct dma_buf *buf = dma_buf_get(fd);
	struct exported *exported;
	int err = -EINVAL;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	if (buf->ops != &exported_ops)
		goto put;
	exported = buf->priv;
	dma_resv_lock(buf->resv, NULL);
	if (cmd == EXPORTER_TAKE_BACK)
		exported_take_back(buf, exported);
	else
		exported->error = -EXPORTER_ERROR;
	dma_resv_unlock(buf->resv);
	err = 0;
put:
	dma_buf_put(buf);
	return err;
}
