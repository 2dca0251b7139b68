// SPDX-License-Identifier: GPL-2.0
/*
 * The function as a whole: identity, capabilities, reset, enabling, death
 * (HWI 1 to 4 and 14).
 */

#include <linux/etherdevice.h>
#include <linux/iopoll.h>
#include <linux/sizes.h>

#include "moor.h"
#include "regs.h"

#define MOOR_RESET_POLL_US	100
#define MOOR_RESET_TIMEOUT_US	(2 * USEC_PER_SEC)
#define MOOR_PENDING_TIMEOUT_US	(4 * USEC_PER_SEC)	/* HWI PCI-8 */
#define MOOR_HEALTH_MS		2000	/* between looks at STATUS */

/**
 * moor_hw_identify - check that this is a Moor NIC of a version we speak
 * @mdev: device
 *
 * The PCI IDs are from a range for experiments, so that another device may answer:
 * nothing is written before MAGIC has been seen.
 *
 * Return: 0, or -ENODEV.
 */
int moor_hw_identify(struct moor_dev *mdev)
{
	u32 magic = moor_read32(mdev->regs, MOOR_REG_MAGIC);
	u32 version, major, minor;

	if (magic != MOOR_MAGIC) {
		dev_info(&mdev->pdev->dev,
			 "not a Moor NIC: register MAGIC is %#x\n", magic);
		return -ENODEV;
	}

	version = moor_read32(mdev->regs, MOOR_REG_VERSION);
	major = FIELD_GET(MOOR_VERSION_MAJOR, version);
	minor = FIELD_GET(MOOR_VERSION_MINOR, version);
	if (major != MOOR_HW_VERSION_MAJOR) {
		dev_err(&mdev->pdev->dev,
			"the device has interface version %u.%u, this driver speaks %u.%u\n",
			major, minor, MOOR_HW_VERSION_MAJOR,
			MOOR_HW_VERSION_MINOR);
		return -ENODEV;
	}
	mdev->caps.version = version;
	return 0;
}

/**
 * moor_hw_reset - reset the function and wait until it is ready
 * @mdev: device
 *
 * Return: 0, -ENODEV if it is gone, -ETIMEDOUT.
 */
int moor_hw_reset(struct moor_dev *mdev)
{
	u32 status;
	int err;

	moor_write32(mdev->regs, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	err = read_poll_timeout(moor_read32, status,
				status & MOOR_STATUS_READY, MOOR_RESET_POLL_US,
				MOOR_RESET_TIMEOUT_US, false, mdev->regs,
				MOOR_REG_STATUS);
	if (moor_reads_as_gone(status))
		err = -ENODEV;
	if (err)
		dev_err(&mdev->pdev->dev,
			"not READY within %lu s of a reset: register STATUS is %#x\n",
			MOOR_RESET_TIMEOUT_US / USEC_PER_SEC, status);
	return err;
}

/**
 * struct moor_hw_cap - a register of four bytes, and what it may show (HWI 4)
 * @name: name of the register
 * @reg: its offset
 * @field: offset of its value in &struct moor_caps
 * @least: lowest valid value
 * @most: highest valid value
 * @feature: feature without which the register reads 0; 0 if it needs none
 */
struct moor_hw_cap {
	const char *name;
	u32 reg;
	u32 field;
	u32 least;
	u32 most;
	u64 feature;
};

#define MOOR_HW_CAP(_name, _field, _least, _most, _feature) {		\
	.name = #_name,							\
	.reg = MOOR_REG_##_name,					\
	.field = offsetof(struct moor_caps, _field) +			\
		 BUILD_BUG_ON_ZERO(sizeof_field(struct moor_caps, _field) != \
				   sizeof(u32)),			\
	.least = _least,						\
	.most = _most,							\
	.feature = _feature,						\
}

static const struct moor_hw_cap moor_hw_caps[] = {
	MOOR_HW_CAP(MR_INDEX_BITS, mr_index_bits, 12, 20, 0),
	MOOR_HW_CAP(MR_CONSUMER_FIRST, mr_consumer_first, 3, 1 << 20, 0),
	MOOR_HW_CAP(MAX_MSG_SIZE, max_msg_size, 1 << 12, 1U << 31, 0),
	MOOR_HW_CAP(QP_INDEX_BITS, qp_index_bits, 2, 24, 0),
	MOOR_HW_CAP(MAX_CQ, max_cq, 1, 1 << 24, 0),
	MOOR_HW_CAP(MAX_EQ, max_eq, 3, 120, 0),
	MOOR_HW_CAP(MAX_LOG_WQE, max_log_wqe, 0, 24, 0),
	MOOR_HW_CAP(MAX_SGE, max_sge, 1, 27, 0),
	MOOR_HW_CAP(MAX_INLINE, max_inline, 0, 480, 0),
	MOOR_HW_CAP(MAX_LOG_CQE, max_log_cqe, 1, 24, 0),
	MOOR_HW_CAP(MAX_GID, max_gid, 1, 255, 0),
	MOOR_HW_CAP(MAX_RD_ATOMIC, max_rd_atomic, 1, 255, 0),
	MOOR_HW_CAP(MAX_LOG_CMD, max_log_cmd, 1, 16, 0),
	MOOR_HW_CAP(MAX_LOG_EQE, max_log_eqe, 7, 24, 0),
	MOOR_HW_CAP(NUM_VECTORS, num_vectors, 3, 1024, 0),
	MOOR_HW_CAP(DB_PAGES, db_pages, 2, 1 << 19, 0),
	MOOR_HW_CAP(SRQ_INDEX_BITS, srq_index_bits, 2, 24, MOOR_FEATURE_SRQ),
	MOOR_HW_CAP(MAX_FILTER, max_filter, 1, 1 << 24, MOOR_FEATURE_UD),
};

static u32 *moor_hw_cap_of(struct moor_caps *caps, const struct moor_hw_cap *cap)
{
	return (void *)caps + cap->field;
}

static void moor_hw_fetch_caps(struct moor_dev *mdev)
{
	struct moor_caps *caps = &mdev->caps;
	void __iomem *regs = mdev->regs;
	u64 mac;
	int i;

	for (i = 0; i < ARRAY_SIZE(moor_hw_caps); i++)
		*moor_hw_cap_of(caps, &moor_hw_caps[i]) =
			moor_read32(regs, moor_hw_caps[i].reg);
	caps->features = moor_read64(regs, MOOR_REG_FEATURES);
	caps->page_sizes = moor_read64(regs, MOOR_REG_PAGE_SIZES);
	caps->node_guid = moor_read64(regs, MOOR_REG_NODE_GUID);
	mac = moor_read64(regs, MOOR_REG_MAC);
	for (i = 0; i < ETH_ALEN; i++)
		caps->mac[i] = mac >> (8 * i);
	caps->null_lkey = moor_read32(regs, MOOR_REG_NULL_LKEY);
	caps->max_mr_size = moor_read64(regs, MOOR_REG_MAX_MR_SIZE);
	caps->kick_offset = moor_read32(regs, MOOR_REG_KICK_OFFSET);
	caps->dm_offset = moor_read64(regs, MOOR_REG_DM_OFFSET);
	caps->dm_size = caps->features & MOOR_FEATURE_DM ?
			moor_read64(regs, MOOR_REG_DM_SIZE) : 0;
}

static const char *moor_hw_bad_range(struct moor_caps *caps)
{
	const struct moor_hw_cap *cap;
	u32 value;

	for (cap = moor_hw_caps;
	     cap < moor_hw_caps + ARRAY_SIZE(moor_hw_caps); cap++) {
		value = *moor_hw_cap_of(caps, cap);
		if (cap->feature && !(caps->features & cap->feature)) {
			if (value)
				return cap->name;
			continue;
		}
		if (value < cap->least || value > cap->most)
			return cap->name;
	}
	return NULL;
}

/* On-NIC memory lies behind the kick pages and ends inside BAR4. */
static const char *moor_hw_bad_dm(const struct moor_dev *mdev)
{
	const struct moor_caps *caps = &mdev->caps;
	u64 bar = pci_resource_len(mdev->pdev, MOOR_BAR_DB);
	u64 kick_end = caps->kick_offset + (u64)caps->db_pages * MOOR_PAGE_SIZE;

	if (!caps->dm_size)
		return NULL;
	if (!IS_ALIGNED(caps->dm_offset, MOOR_PAGE_SIZE) ||
	    caps->dm_offset < kick_end || caps->dm_offset > bar)
		return "DM_OFFSET";
	if (!IS_ALIGNED(caps->dm_size, MOOR_PAGE_SIZE) ||
	    caps->dm_size > bar - caps->dm_offset ||
	    caps->dm_size / MOOR_PAGE_SIZE > S32_MAX)
		return "DM_SIZE";
	return NULL;
}

/* Context table and keys (HWI 6), after their ranges. */
static const char *moor_hw_bad_table(const struct moor_dev *mdev)
{
	const struct moor_caps *caps = &mdev->caps;

	if (pci_resource_len(mdev->pdev, MOOR_BAR_MR) <
	    sizeof(struct moor_mr_context) << caps->mr_index_bits)
		return "MR_INDEX_BITS";
	if (caps->mr_consumer_first > 1U << caps->mr_index_bits)
		return "MR_CONSUMER_FIRST";
	if (caps->null_lkey >> (32 - caps->mr_index_bits) != MOOR_MR_INDEX_NULL)
		return "NULL_LKEY";
	if (caps->max_mr_size < SZ_4K || caps->max_mr_size > BIT_ULL(63))
		return "MAX_MR_SIZE";
	/* The pages of 4 KiB, and none that are smaller. */
	if ((caps->page_sizes & GENMASK_ULL(MOOR_MIN_PAGE_SHIFT, 0)) !=
	    MOOR_PAGE_SIZE)
		return "PAGE_SIZES";
	return NULL;
}

/* A capability outside what the interface allows; the first one is named. */
static const char *moor_hw_bad_cap(struct moor_dev *mdev)
{
	struct moor_caps *caps = &mdev->caps;
	u64 db_bytes = (u64)caps->db_pages * MOOR_PAGE_SIZE;
	const char *bad;

	bad = moor_hw_bad_range(caps);
	if (!bad)
		bad = moor_hw_bad_table(mdev);
	if (bad)
		return bad;
	if (!caps->node_guid)
		return "NODE_GUID";
	if (!is_valid_ether_addr(caps->mac) ||
	    moor_read64(mdev->regs, MOOR_REG_MAC) >> (8 * ETH_ALEN))
		return "MAC";
	if (!IS_ALIGNED(caps->kick_offset, MOOR_PAGE_SIZE) ||
	    caps->kick_offset < db_bytes ||
	    caps->kick_offset + db_bytes >
	    pci_resource_len(mdev->pdev, MOOR_BAR_DB))
		return "KICK_OFFSET";
	return moor_hw_bad_dm(mdev);
}

/**
 * moor_hw_read_caps - read and check the capability registers
 * @mdev: device
 *
 * What passes here may be used in shifts and sums without another look.
 *
 * Return: 0, or -ENODEV if one of them makes no sense.
 */
int moor_hw_read_caps(struct moor_dev *mdev)
{
	const char *bad;

	moor_hw_fetch_caps(mdev);
	bad = moor_hw_bad_cap(mdev);
	if (bad) {
		dev_err(&mdev->pdev->dev,
			"register %s has a value outside its range\n", bad);
		return -ENODEV;
	}
	return 0;
}

/**
 * moor_hw_alloc_doze - make the page that the dozing word lies in
 * @mdev: device
 *
 * Processes map it read-only, so it is a page of its own, and a page of the
 * page allocator's: what dma_alloc_coherent() gives cannot be mapped through
 * rdma_user_mmap_io(). As all memory that processes and an RDMA device share,
 * it relies on coherent DMA: where that is not to be had, neither is RDMA.
 *
 * Return: 0; -ENOMEM; -ENODEV without coherent DMA.
 */
int moor_hw_alloc_doze(struct moor_dev *mdev)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

	if (!page)
		return -ENOMEM;
	mdev->doze_dma = dma_map_page(&mdev->pdev->dev, page, 0, PAGE_SIZE,
				      DMA_FROM_DEVICE);
	if (dma_mapping_error(&mdev->pdev->dev, mdev->doze_dma)) {
		__free_page(page);
		return -ENOMEM;
	}
	mdev->doze = page_address(page);
	/* With DMA debugging all memory needs syncing, so the test would tell nothing. */
	if (!IS_ENABLED(CONFIG_DMA_API_DEBUG) &&
	    dma_need_sync(&mdev->pdev->dev, mdev->doze_dma)) {
		dev_err(&mdev->pdev->dev,
			"cannot be used here: DMA is not coherent, or goes through bounce buffers (swiotlb)\n");
		moor_hw_free_doze(mdev);
		return -ENODEV;
	}
	return 0;
}

void moor_hw_free_doze(struct moor_dev *mdev)
{
	dma_unmap_page(&mdev->pdev->dev, mdev->doze_dma, PAGE_SIZE,
		       DMA_FROM_DEVICE);
	__free_page(virt_to_page(mdev->doze));
}

/**
 * moor_hw_enable - hand the rings to the device and start it
 * @mdev: device, freshly reset
 *
 * Return: 0, or -EIO with the device's reason in the log: the device may master the bus
 * then, and the caller has to kill it.
 */
int moor_hw_enable(struct moor_dev *mdev)
{
	void __iomem *regs = mdev->regs;
	u32 status;

	moor_write64(regs, MOOR_REG_CMD_BASE, mdev->cmdq.ring_dma);
	moor_write64(regs, MOOR_REG_CPL_BASE, mdev->cmdq.cpl_dma);
	moor_write32(regs, MOOR_REG_CMD_LOG_SIZE, mdev->cmdq.log_size);
	if (mdev->caps.features & MOOR_FEATURE_DOZES)
		moor_write64(regs, MOOR_REG_DOZE_ADDR, mdev->doze_dma);
	pci_set_master(mdev->pdev);
	moor_write32(regs, MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);

	status = moor_read32(regs, MOOR_REG_STATUS);
	if (moor_reads_as_gone(status) || !(status & MOOR_STATUS_ENABLED)) {
		dev_err(&mdev->pdev->dev,
			"cannot be enabled: status %#x, fatal code %u\n",
			status, moor_read32(regs, MOOR_REG_FATAL_CODE));
		return -EIO;
	}
	return 0;
}

/* STATUS; all ones, if the device has left the bus or cannot be asked. */
static u32 moor_hw_status(struct moor_dev *mdev)
{
	return pci_channel_offline(mdev->pdev) ?
	       ~0U : moor_read32(mdev->regs, MOOR_REG_STATUS);
}

/* A status of all ones has the bit FATAL, too. */
static bool moor_status_is_failure(u32 status)
{
	return status & MOOR_STATUS_FATAL || !(status & MOOR_STATUS_ENABLED);
}

/**
 * moor_hw_has_failed - has the device given up, or left the bus?
 * @mdev: device
 *
 * Return: whether it has
 */
bool moor_hw_has_failed(struct moor_dev *mdev)
{
	return moor_status_is_failure(moor_hw_status(mdev));
}

/*
 * Turn bus mastering off and wait until no DMA is under way. The PCI core waits for less
 * than a second, but a read that is never answered may take four.
 */
static void moor_hw_stop_dma(struct moor_dev *mdev)
{
	u16 command;
	int quiet;

	pci_clear_master(mdev->pdev);
	pci_read_config_word(mdev->pdev, PCI_COMMAND, &command);
	/* The device is off the bus: none of its DMA arrives any more. */
	if (PCI_POSSIBLE_ERROR(command))
		return;
	if (read_poll_timeout(pci_wait_for_pending_transaction, quiet, quiet, 0,
			      MOOR_PENDING_TIMEOUT_US, false, mdev->pdev))
		dev_warn(&mdev->pdev->dev, "transactions remain pending\n");
}

/* No BAR may be touched while the PCI channel is frozen: not harmless everywhere. */
static void moor_hw_stop(struct moor_dev *mdev, const char *why)
{
	bool frozen = pci_channel_offline(mdev->pdev);

	if (why)
		dev_err(&mdev->pdev->dev, "stopped: %s (fatal code %#x)\n", why,
			frozen ? 0 : moor_read32(mdev->regs,
						 MOOR_REG_FATAL_CODE));
	moor_hw_stop_dma(mdev);
	if (!frozen)
		moor_write32(mdev->regs, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
}

/**
 * moor_hw_kill - end all DMA of the device for good
 * @mdev: device
 * @why: for the log, a text that stays valid; NULL if the kill was asked for
 *
 * Afterwards every command fails and all teardown succeeds without asking the
 * device: the device cannot touch memory that is unpinned later, and the driver does
 * not touch the device any more. Returns when that holds, even if another task does
 * the killing. If the kill was not asked for, the function recovers, as a new device.
 *
 * Context: process; sleeps.
 */
void moor_hw_kill(struct moor_dev *mdev, const char *why)
{
	struct ib_event event = {
		.device = &mdev->ibdev,
		.event = IB_EVENT_DEVICE_FATAL,
		.element.port_num = MOOR_PORT,
	};

	mutex_lock(&mdev->kill_lock);
	if (!mdev->dead) {
		moor_hw_stop(mdev, why);
		netif_carrier_off(mdev->netdev);
		mdev->why = why;
		/* Pairs with moor_is_dead(): a task that sees @dead may unpin. */
		smp_store_release(&mdev->dead, true);
		moor_cmdq_abort(mdev);
		moor_cqs_wake(mdev);
		moor_kernel_qps_wake(mdev);
		/* Fails before registration: then there are no listeners. */
		if (ib_device_try_get(&mdev->ibdev)) {
			ib_dispatch_event(&event);
			ib_device_put(&mdev->ibdev);
		}
		if (why)
			moor_recovery_start(mdev);
	}
	mutex_unlock(&mdev->kill_lock);
}

/*
 * Does the device work? Also sets the interface's carrier, from STATUS alone; the core
 * makes the port's state from that. A device that does not work counts as without link.
 */
static bool moor_hw_look(struct moor_dev *mdev)
{
	bool works;
	u32 status;

	mutex_lock(&mdev->kill_lock);
	status = moor_is_dead(mdev) ? ~0U : moor_hw_status(mdev);
	works = !moor_status_is_failure(status);
	if (works && status & MOOR_STATUS_LINK_UP)
		netif_carrier_on(mdev->netdev);
	else
		netif_carrier_off(mdev->netdev);
	mutex_unlock(&mdev->kill_lock);
	return works;
}

/**
 * moor_hw_watch - look after an enabled device, now and from now on
 * @mdev: device
 *
 * Without it, users that wait for completions of their work requests would not notice
 * that the device dies while no command is issued.
 */
void moor_hw_watch(struct moor_dev *mdev)
{
	if (moor_hw_look(mdev))
		queue_delayed_work(moor_wq, &mdev->health_work,
				   msecs_to_jiffies(MOOR_HEALTH_MS));
	else
		moor_hw_kill(mdev, "it has failed, or left the bus");
}

void moor_hw_health_work(struct work_struct *work)
{
	struct moor_dev *mdev = container_of(work, struct moor_dev,
					     health_work.work);

	if (!moor_is_dead(mdev))
		moor_hw_watch(mdev);
}

/**
 * moor_hw_look_soon - look at STATUS without waiting for the next time
 * @mdev: device
 *
 * For interrupt handlers: something about the link has changed.
 */
void moor_hw_look_soon(struct moor_dev *mdev)
{
	mod_delayed_work(moor_wq, &mdev->health_work, 0);
}

void moor_hw_fatal_work(struct work_struct *work)
{
	struct moor_dev *mdev = container_of(work, struct moor_dev, fatal_work);

	moor_hw_kill(mdev, READ_ONCE(mdev->fatal_why));
}

/**
 * moor_hw_kill_later - moor_hw_kill() for interrupt handlers
 * @mdev: device
 * @why: what has happened, for the log; the first one counts
 */
void moor_hw_kill_later(struct moor_dev *mdev, const char *why)
{
	cmpxchg(&mdev->fatal_why, NULL, why);
	queue_work(moor_wq, &mdev->fatal_work);
}
