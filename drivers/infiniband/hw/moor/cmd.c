// SPDX-License-Identifier: GPL-2.0
/*
 * The command ring (HWI 8). Many issuers at once; each polls briefly, then
 * sleeps. A task that looks at the completion ring reaps for all issuers.
 */

#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "moor.h"
#include "regs.h"

#define MOOR_CMD_LOG_SIZE	7
#define MOOR_CMD_URGENT		8U	/* entries kept for invalidations */
/* To sleep, be interrupted and wake up takes a guest longer than this. */
#define MOOR_CMD_POLL_NS	(100 * NSEC_PER_USEC)
#define MOOR_CMD_LOOK_MS	500	/* between looks at STATUS while asleep */
#define MOOR_CMD_TIMEOUT_MS	20000

static u32 moor_cmdq_entries(const struct moor_cmdq *cmdq)
{
	return 1U << cmdq->log_size;
}

/**
 * moor_cmdq_init - allocate the rings
 * @mdev: device, not yet enabled
 *
 * Return: 0 or -ENOMEM.
 */
int moor_cmdq_init(struct moor_dev *mdev)
{
	struct moor_cmdq *cmdq = &mdev->cmdq;
	struct device *dev = &mdev->pdev->dev;
	u32 entries, i;

	cmdq->log_size = min(mdev->caps.max_log_cmd, MOOR_CMD_LOG_SIZE);
	entries = moor_cmdq_entries(cmdq);
	spin_lock_init(&cmdq->issue_lock);
	spin_lock_init(&cmdq->reap_lock);
	init_waitqueue_head(&cmdq->tag_wait);

	cmdq->slots = kzalloc_objs(*cmdq->slots, entries);
	if (!cmdq->slots)
		return -ENOMEM;
	cmdq->timeout_ms = MOOR_CMD_TIMEOUT_MS;
	for (i = 0; i < entries; i++) {
		init_completion(&cmdq->slots[i].wake);
		cmdq->slots[i].tag = i;
		cmdq->slots[i].done = true;
	}

	cmdq->free_tags = bitmap_alloc(entries, GFP_KERNEL);
	if (!cmdq->free_tags)
		goto free_slots;
	bitmap_fill(cmdq->free_tags, entries);
	cmdq->ordinary_tags = entries;
	if (moor_has_odp(mdev))
		cmdq->ordinary_tags -= clamp(entries / 4, 1U, MOOR_CMD_URGENT);

	cmdq->ring = dma_alloc_coherent(dev, entries * MOOR_CMD_SIZE,
					&cmdq->ring_dma, GFP_KERNEL);
	if (!cmdq->ring)
		goto free_tags;
	cmdq->cpl = dma_alloc_coherent(dev, entries * MOOR_CPL_SIZE,
				       &cmdq->cpl_dma, GFP_KERNEL);
	if (!cmdq->cpl)
		goto free_ring;
	return 0;

free_ring:
	dma_free_coherent(dev, entries * MOOR_CMD_SIZE, cmdq->ring,
			  cmdq->ring_dma);
free_tags:
	bitmap_free(cmdq->free_tags);
free_slots:
	kfree(cmdq->slots);
	return -ENOMEM;
}

void moor_cmdq_destroy(struct moor_dev *mdev)
{
	struct moor_cmdq *cmdq = &mdev->cmdq;
	struct device *dev = &mdev->pdev->dev;
	u32 entries = moor_cmdq_entries(cmdq);

	dma_free_coherent(dev, entries * MOOR_CPL_SIZE, cmdq->cpl,
			  cmdq->cpl_dma);
	dma_free_coherent(dev, entries * MOOR_CMD_SIZE, cmdq->ring,
			  cmdq->ring_dma);
	bitmap_free(cmdq->free_tags);
	kfree(cmdq->slots);
}

/*
 * Hand completions to the issuers that wait for them. As many looks as there are
 * entries are enough: a device that writes without end does not keep the task here.
 */
static void moor_cmd_reap_locked(struct moor_dev *mdev)
{
	struct moor_cmdq *cmdq = &mdev->cmdq;
	u32 entries = moor_cmdq_entries(cmdq);
	u32 mask = entries - 1;

	lockdep_assert_held(&cmdq->reap_lock);
	while (entries--) {
		struct moor_cpl *cpl = &cmdq->cpl[cmdq->consumer & mask];
		u32 phase = !((cmdq->consumer >> cmdq->log_size) & 1);
		struct moor_cmd_slot *slot;
		u16 tag;

		if ((le32_to_cpu(READ_ONCE(cpl->phase)) & MOOR_PHASE) != phase)
			return;
		/* The phase was stored last; the rest is read after it. */
		dma_rmb();
		cmdq->consumer++;
		tag = le16_to_cpu(cpl->tag);
		slot = &cmdq->slots[tag & mask];
		if (slot->tag != tag || slot->done) {
			dev_warn_ratelimited(&mdev->pdev->dev,
					     "completion of no command: tag %#x\n",
					     tag);
			continue;
		}
		slot->status = cpl->status;
		slot->detail = le32_to_cpu(cpl->detail);
		memcpy(slot->out, cpl->out, sizeof(slot->out));
		/*
		 * complete() comes before @done: an issuer that sees @done may free
		 * the tag, and the tag's next user reinitialises @wake.
		 */
		if (slot->asleep) {
			slot->asleep = false;
			WRITE_ONCE(cmdq->sleepers, cmdq->sleepers - 1);
			complete(&slot->wake);
		}
		/* Pairs with moor_cmd_is_done(): the slot is filled in. */
		smp_store_release(&slot->done, true);
	}
}

static void moor_cmd_reap(struct moor_dev *mdev)
{
	struct moor_cmdq *cmdq = &mdev->cmdq;
	unsigned long flags;

	spin_lock_irqsave(&cmdq->reap_lock, flags);
	moor_cmd_reap_locked(mdev);
	spin_unlock_irqrestore(&cmdq->reap_lock, flags);
}

/*
 * Ask for an interrupt with the next completion. The caller looks at the ring once
 * more before it sleeps: the barrier orders that look after the store.
 */
static void moor_cmd_arm(struct moor_dev *mdev)
{
	u64 value = atomic64_inc_return(&mdev->cmdq.arm);

	writeq(value, mdev->db + MOOR_DB_SLOT_CPL_ARM * MOOR_DB_SLOT_SIZE);
	/* Orders the store before the caller's last look (HWI CMD-20). */
	mb();
}

/**
 * moor_cmd_interrupt - vector 0: completions of commands
 * @irq: interrupt
 * @data: device
 *
 * Return: IRQ_HANDLED
 */
irqreturn_t moor_cmd_interrupt(int irq, void *data)
{
	struct moor_dev *mdev = data;

	moor_cmd_reap(mdev);
	if (READ_ONCE(mdev->cmdq.sleepers) && !moor_is_dead(mdev)) {
		moor_cmd_arm(mdev);
		moor_cmd_reap(mdev);
	}
	return IRQ_HANDLED;
}

static bool moor_cmd_try_tag(struct moor_dev *mdev, u32 limit, int *tag)
{
	struct moor_cmdq *cmdq = &mdev->cmdq;

	do {
		/* A guess, which others may take meanwhile: the atomic tells. */
		*tag = data_race(find_first_bit(cmdq->free_tags, limit));
		if (*tag >= limit)
			return moor_is_dead(mdev);
	} while (!test_and_clear_bit(*tag, cmdq->free_tags));
	return true;
}

/*
 * A tag also stands for room in both rings. The last tags are for invalidations: a task
 * that waits for one may hold up all that need memory. Negative: the device is dead.
 */
static int moor_cmd_get_tag(struct moor_dev *mdev, u8 opcode)
{
	struct moor_cmdq *cmdq = &mdev->cmdq;
	u32 limit = cmdq->ordinary_tags;
	int tag;

	if (opcode == MOOR_CMD_MR_INVALIDATE)
		limit = moor_cmdq_entries(cmdq);
	wait_event(cmdq->tag_wait, moor_cmd_try_tag(mdev, limit, &tag));
	return tag < limit ? tag : -EIO;
}

static void moor_cmd_put_tag(struct moor_cmdq *cmdq, int tag)
{
	/* Orders the reads of the slot before another issuer may take the tag. */
	smp_mb__before_atomic();
	set_bit(tag, cmdq->free_tags);
	/* wq_has_sleeper() has the barrier between the bit and the look for waiters. */
	if (wq_has_sleeper(&cmdq->tag_wait))
		wake_up(&cmdq->tag_wait);
}

/* HWI DB-13: store the slot, full barrier, look whether the device dozes. */
static void moor_cmd_ring(struct moor_dev *mdev)
{
	/* Pairs with the device's barrier between dozing and its last look. */
	mb();
	if (mdev->caps.features & MOOR_FEATURE_DOZES &&
	    le32_to_cpu(READ_ONCE(*mdev->doze)))
		writel(1, mdev->kick +
			  MOOR_DB_SLOT_CMD_PRODUCER * MOOR_DB_SLOT_SIZE);
}

static void moor_cmd_issue(struct moor_dev *mdev, const void *cmd, size_t len,
			   u16 tag)
{
	struct moor_cmdq *cmdq = &mdev->cmdq;
	struct moor_cmd *entry;

	spin_lock(&cmdq->issue_lock);
	entry = &cmdq->ring[cmdq->producer & (moor_cmdq_entries(cmdq) - 1)];
	memcpy(entry, cmd, len);
	memset((u8 *)entry + len, 0, sizeof(*entry) - len);
	entry->hdr.tag = cpu_to_le16(tag);
	cmdq->producer++;
	/* writeq() orders the entry before the doorbell. */
	writeq(cmdq->producer,
	       mdev->db + MOOR_DB_SLOT_CMD_PRODUCER * MOOR_DB_SLOT_SIZE);
	spin_unlock(&cmdq->issue_lock);

	/* The kick is slow and tells nothing but "look": outside the lock. */
	moor_cmd_ring(mdev);
}

/* The next answer for this slot counts, if it bears the slot's new tag. */
static void moor_cmd_expect(struct moor_cmdq *cmdq, struct moor_cmd_slot *slot)
{
	spin_lock_irq(&cmdq->reap_lock);
	slot->tag += moor_cmdq_entries(cmdq);
	slot->done = false;
	spin_unlock_irq(&cmdq->reap_lock);
}

static bool moor_cmd_is_done(struct moor_cmd_slot *slot)
{
	/* Pairs with moor_cmd_reap_locked(). */
	return smp_load_acquire(&slot->done);
}

static bool moor_cmd_poll_once(struct moor_dev *mdev,
			       struct moor_cmd_slot *slot)
{
	moor_cmd_reap(mdev);
	return moor_cmd_is_done(slot);
}

static bool moor_cmd_poll(struct moor_dev *mdev, struct moor_cmd_slot *slot)
{
	u64 end;

	/* A look at the ring is cheaper than a read of the clock. */
	if (moor_cmd_poll_once(mdev, slot))
		return true;
	end = ktime_get_ns() + MOOR_CMD_POLL_NS;
	do {
		cpu_relax();
		if (moor_cmd_poll_once(mdev, slot))
			return true;
	} while (!need_resched() && ktime_get_ns() < end);
	return false;
}

/* Sleep until the command is done or the device is dead. */
static void moor_cmd_sleep(struct moor_dev *mdev, struct moor_cmd_slot *slot)
{
	struct moor_cmdq *cmdq = &mdev->cmdq;
	unsigned long end = jiffies +
			    msecs_to_jiffies(READ_ONCE(cmdq->timeout_ms));
	unsigned long look = msecs_to_jiffies(MOOR_CMD_LOOK_MS);
	bool awake;

	/* Locked: moor_cmdq_abort() wakes issuers that did not see the death here. */
	spin_lock_irq(&cmdq->reap_lock);
	awake = slot->done || moor_is_dead(mdev);
	if (!awake) {
		reinit_completion(&slot->wake);
		slot->asleep = true;
		WRITE_ONCE(cmdq->sleepers, cmdq->sleepers + 1);
	}
	spin_unlock_irq(&cmdq->reap_lock);
	if (awake)
		return;

	do {
		moor_cmd_arm(mdev);
		if (moor_cmd_poll_once(mdev, slot))
			break;
		if (wait_for_completion_timeout(&slot->wake, look))
			continue;
		if (moor_hw_has_failed(mdev))
			moor_hw_kill(mdev, "it went away under a command");
		else if (time_after(jiffies, end) &&
			 !moor_cmd_poll_once(mdev, slot))
			moor_hw_kill(mdev, "a command timed out");
	} while (!moor_cmd_is_done(slot) && !moor_is_dead(mdev));
}

/* The device is dead: no answer counts any more. */
static void moor_cmd_give_up(struct moor_cmdq *cmdq, struct moor_cmd_slot *slot)
{
	spin_lock_irq(&cmdq->reap_lock);
	if (slot->asleep) {
		slot->asleep = false;
		WRITE_ONCE(cmdq->sleepers, cmdq->sleepers - 1);
	}
	spin_unlock_irq(&cmdq->reap_lock);
}

/**
 * moor_cmd_start - hand a command to the device
 * @mdev: device
 * @cmd: a command structure; its tag is filled in on the way
 * @len: size of it
 *
 * moor_cmd_wait() is to follow. Only one task at a time may start several commands before
 * it waits, and no more than moor_cmdq.ordinary_tags: the others give their tags back
 * without needing further ones.
 *
 * Context: process; sleeps until a tag is free
 *
 * Return: the tag, for moor_cmd_wait(), or -EIO if the device is dead.
 */
int moor_cmd_start(struct moor_dev *mdev, const void *cmd, size_t len)
{
	const struct moor_cmd_hdr *hdr = cmd;
	struct moor_cmdq *cmdq = &mdev->cmdq;
	struct moor_cmd_slot *slot;
	int tag;

	might_sleep();
	tag = moor_cmd_get_tag(mdev, hdr->opcode);
	if (tag < 0)
		return tag;
	if (moor_is_dead(mdev)) {
		moor_cmd_put_tag(cmdq, tag);
		return -EIO;
	}
	slot = &cmdq->slots[tag];
	slot->opcode = hdr->opcode;
	moor_cmd_expect(cmdq, slot);
	moor_cmd_issue(mdev, cmd, len, slot->tag);
	return tag;
}

/**
 * moor_cmd_wait - wait for a command's completion
 * @mdev: device
 * @tag: what moor_cmd_start() has returned, an error too
 * @out: where the output goes on success, or NULL
 * @out_len: bytes of it
 *
 * Not interruptible: a command once issued may be writing to memory that the
 * caller would free.
 *
 * Context: process; sleeps. Holding a mutex is allowed: the wait ends with the
 * answer or with the death of the device, which the time-out brings about.
 *
 * Return: the device's status (enum moor_cmd_status, or an unknown one), or -EIO
 * if the device is dead.
 */
int moor_cmd_wait(struct moor_dev *mdev, int tag, void *out, size_t out_len)
{
	struct moor_cmdq *cmdq = &mdev->cmdq;
	struct moor_cmd_slot *slot;
	int status;

	if (tag < 0)
		return tag;
	slot = &cmdq->slots[tag];
	if (!moor_cmd_poll(mdev, slot))
		moor_cmd_sleep(mdev, slot);
	if (!moor_cmd_is_done(slot)) {
		moor_cmd_give_up(cmdq, slot);
		status = -EIO;
		goto put;
	}
	status = slot->status;
	if (status)
		ibdev_dbg(&mdev->ibdev,
			  "command %#x: status %#x, field at byte %u\n",
			  slot->opcode, slot->status, slot->detail);
	else if (out)
		memcpy(out, slot->out, out_len);
put:
	moor_cmd_put_tag(cmdq, tag);
	return status;
}

/**
 * moor_cmd_status - execute a command and wait for its completion
 * @mdev: device
 * @cmd: a command structure
 * @len: size of it
 * @out: where the output goes on success, or NULL
 * @out_len: bytes of it
 *
 * Context: process; sleeps, as moor_cmd_start() and moor_cmd_wait() do
 *
 * Return: as moor_cmd_wait().
 */
int moor_cmd_status(struct moor_dev *mdev, const void *cmd, size_t len,
		    void *out, size_t out_len)
{
	return moor_cmd_wait(mdev, moor_cmd_start(mdev, cmd, len), out, out_len);
}

/**
 * moor_cmd_errno - what a status of the device is to the callers of verbs
 * @status: what moor_cmd_wait() has returned
 *
 * Return: 0 or an errno.
 */
int moor_cmd_errno(int status)
{
	if (status < 0)
		return status;
	switch (status) {
	case MOOR_CMD_OK:
		return 0;
	case MOOR_CMD_BAD_OPCODE:
		return -EOPNOTSUPP;
	case MOOR_CMD_BAD_RESERVED:
	case MOOR_CMD_BAD_PARAM:
	case MOOR_CMD_BAD_INDEX:
	case MOOR_CMD_BAD_STATE:
		return -EINVAL;
	case MOOR_CMD_BUSY:
		return -EBUSY;
	case MOOR_CMD_NO_RESOURCE:
		return -ENOMEM;
	case MOOR_CMD_DMA_FAULT:
		return -EFAULT;
	default:
		return -EIO;
	}
}

/**
 * moor_cmd_exec - moor_cmd_status() for callers that need only an errno
 * @mdev: device
 * @cmd: a command structure
 * @len: size of it
 * @out: where the output goes on success, or NULL
 * @out_len: bytes of it
 *
 * Context: process; sleeps
 *
 * Return: 0, an errno for the device's status, or -EIO if the device is dead.
 */
int moor_cmd_exec(struct moor_dev *mdev, const void *cmd, size_t len,
		  void *out, size_t out_len)
{
	return moor_cmd_errno(moor_cmd_status(mdev, cmd, len, out, out_len));
}

/**
 * moor_cmdq_abort - wake all waiting issuers after the device has died
 * @mdev: dead device
 *
 * Tags are freed by their issuers as they wake.
 */
void moor_cmdq_abort(struct moor_dev *mdev)
{
	struct moor_cmdq *cmdq = &mdev->cmdq;
	u32 i;

	spin_lock_irq(&cmdq->reap_lock);
	for (i = 0; i < moor_cmdq_entries(cmdq); i++)
		complete(&cmdq->slots[i].wake);
	spin_unlock_irq(&cmdq->reap_lock);
	wake_up_all(&cmdq->tag_wait);
}
