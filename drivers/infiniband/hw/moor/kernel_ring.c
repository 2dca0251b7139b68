// SPDX-License-Identifier: GPL-2.0
/*
 * Rings of the kernel's queues: coherent memory in pieces, and the table that describes
 * these to the device (HWI 7). A ring of one piece would need no table, but a ring may
 * have megabytes, and a host whose memory is fragmented has no piece of that size.
 */

#include <linux/dma-mapping.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "moor.h"

static int moor_kernel_pieces_alloc(struct moor_dev *mdev,
				    struct moor_kernel_ring *ring)
{
	struct moor_kernel_piece *piece;
	u32 i;

	for (i = 0; i < ring->num_pieces; i++) {
		piece = &ring->pieces[i];
		/* A ring is not worth another process's death: fail instead. */
		piece->buf = dma_alloc_coherent(&mdev->pdev->dev,
						ring->piece_bytes, &piece->dma,
						GFP_KERNEL | __GFP_NOWARN |
						__GFP_RETRY_MAYFAIL);
		if (!piece->buf)
			return -ENOMEM;
	}
	return 0;
}

/* To xlat_tree.c the ring is pinned memory like any other. */
static int moor_kernel_ring_describe(struct moor_dev *mdev,
				     struct moor_kernel_ring *ring)
{
	struct ib_umem memory = {
		.length = (size_t)ring->num_pieces * ring->piece_bytes,
		.writable = true,
	};
	struct sg_table *sgt = &memory.sgt_append.sgt;
	struct scatterlist *sg;
	int err, i;

	err = sg_alloc_table(sgt, ring->num_pieces, GFP_KERNEL);
	if (err)
		return err;
	for_each_sgtable_dma_sg(sgt, sg, i) {
		sg_dma_address(sg) = ring->pieces[i].dma;
		sg_dma_len(sg) = ring->piece_bytes;
	}
	err = moor_table_build(mdev, &ring->table, &memory);
	sg_free_table(sgt);
	return err;
}

/**
 * moor_kernel_ring_alloc - memory for a ring
 * @mdev: device
 * @ring: filled in; its memory is zeroed
 * @bytes: size, a power of 2; at least a page is taken
 *
 * Return: 0 or -ENOMEM, with nothing left behind.
 */
int moor_kernel_ring_alloc(struct moor_dev *mdev, struct moor_kernel_ring *ring,
			   size_t bytes)
{
	int err = -ENOMEM;

	bytes = ALIGN(bytes, MOOR_PAGE_SIZE);
	*ring = (struct moor_kernel_ring){
		.piece_bytes = min(bytes, MOOR_KERNEL_PIECE_BYTES),
	};
	ring->num_pieces = bytes / ring->piece_bytes;
	ring->pieces = kvzalloc_objs(*ring->pieces, ring->num_pieces);
	if (ring->pieces)
		err = moor_kernel_pieces_alloc(mdev, ring);
	if (!err)
		err = moor_kernel_ring_describe(mdev, ring);
	if (err)
		moor_kernel_ring_free(mdev, ring);
	return err;
}

/**
 * moor_kernel_ring_clear - fill a ring with zeros again
 * @ring: ring that the device does not use
 */
void moor_kernel_ring_clear(struct moor_kernel_ring *ring)
{
	u32 i;

	for (i = 0; i < ring->num_pieces; i++) {
		memset(ring->pieces[i].buf, 0, ring->piece_bytes);
		cond_resched();
	}
}

/**
 * moor_kernel_ring_free - let a ring go
 * @mdev: device
 * @ring: ring that the device does not use any more; may never have been allocated
 */
void moor_kernel_ring_free(struct moor_dev *mdev, struct moor_kernel_ring *ring)
{
	u32 i;

	if (!ring->pieces)
		return;
	moor_table_free(mdev, &ring->table);
	for (i = 0; i < ring->num_pieces && ring->pieces[i].buf; i++) {
		dma_free_coherent(&mdev->pdev->dev, ring->piece_bytes,
				  ring->pieces[i].buf, ring->pieces[i].dma);
		cond_resched();
	}
	kvfree(ring->pieces);
	ring->pieces = NULL;
}
