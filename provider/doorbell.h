/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Doorbells (HWI 5): where a queue's slot is mapped, and how it is rung.
 */
#ifndef MOOR_PROVIDER_DOORBELL_H
#define MOOR_PROVIDER_DOORBELL_H

#include <stdatomic.h>
#include <stdint.h>

#include <ccan/list.h>
#include <rdma/moor-abi.h>
#include <util/compiler.h>
#include <util/mmio.h>
#include <util/udma_barrier.h>

struct moor_context;

/**
 * struct moor_doorbell_page - a doorbell page and its kick page, mapped once
 * however many queues have slots there
 * @entry: in moor_context.doorbell_pages
 * @offset: mmap offset of the doorbell page, by which it is found
 * @doorbells: the doorbell page
 * @kicks: the kick page
 * @users: slots handed out; protected by moor_context.lock
 */
struct moor_doorbell_page {
	struct list_node entry;
	uint64_t offset;
	void *doorbells;
	void *kicks;
	unsigned int users;
};

/**
 * struct moor_slot - the doorbell slot of one queue
 * @doorbell: eight bytes, keeps what was stored last; &@nowhere while muted
 * @muted: where @doorbell led before
 * @nowhere: takes what the device is not to see
 * @kick: four bytes at the same place of the kick page
 * @doze: the dozing word, read-only
 * @page: pages to release with the slot
 */
struct moor_slot {
	void *doorbell;
	void *muted;
	uint64_t nowhere;
	void *kick;
	const __le32 *doze;
	struct moor_doorbell_page *page;
};

int moor_slot_get(struct moor_context *ctx, const struct moor_doorbell *where,
		  uint32_t slot_offset, struct moor_slot *slot);
void moor_slot_put(struct moor_context *ctx, struct moor_slot *slot);
void moor_slots_close(struct moor_context *ctx);

/*
 * Tells the device a new index. The slot is mapped write-combining, and such a store
 * may pass earlier ones to ordinary memory: the first barrier puts all that the index
 * covers into memory before the index. Outside of x86 it orders only stores, and the
 * index also gives memory away: the CQEs before a consumer index, the buffers of
 * receives. The fence has all loads from them done before. The flush makes values that
 * different CPUs store under a lock reach the device in the order in which the CPUs held
 * the lock.
 */
static inline void moor_slot_store(const struct moor_slot *slot, uint64_t value)
{
	atomic_thread_fence(memory_order_release);
	mmio_wc_start();
	mmio_write64(slot->doorbell, value);
	mmio_flush_writes();
}

/*
 * Before a queue is destroyed: what is stored from here on does not reach the device.
 *
 * The kernel gives the slot of a destroyed queue to the next one that is made, while
 * libibverbs still waits until all events of the old one are acknowledged. Till then
 * whoever handles such an event may use the old one, and must not ring for the new one.
 */
static inline void moor_slot_mute(struct moor_slot *slot)
{
	slot->muted = slot->doorbell;
	slot->doorbell = &slot->nowhere;
}

/* The queue was not destroyed after all; the caller stores its index. */
static inline void moor_slot_unmute(struct moor_slot *slot)
{
	slot->doorbell = slot->muted;
}

/*
 * Wakes the device if it dozes; to be called after moor_slot_store() on a send
 * queue. This is one half of a Dekker handshake: we store the slot and load
 * the dozing word, the device stores the dozing word and loads the slot, and
 * one of the two must see the other's store. On every architecture a load may
 * pass an earlier store, so a full barrier is needed. As the slot may be mapped
 * write-combining, the write-combining buffer must have been drained before:
 * moor_slot_store() does that, because outside of x86 a fence for ordinary memory
 * alone need not do it.
 */
static inline void moor_kick(const struct moor_slot *slot)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (unlikely(mmio_read32(slot->doze)))
		mmio_write32(slot->kick, 1);
}

#endif /* MOOR_PROVIDER_DOORBELL_H */
