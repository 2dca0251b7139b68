// SPDX-License-Identifier: GPL-2.0
/*
 * The PCI driver: bringing a NIC up and down, whatever the occasion.
 */

#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "moor.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

#define MOOR_BAR_MASK	(BIT(MOOR_BAR_REGS) | BIT(MOOR_BAR_MR) | BIT(MOOR_BAR_DB))

/* Tasks that free memory destroy queues, and then wait for the works that run here. */
struct workqueue_struct *moor_wq;

#if BITS_PER_LONG != 64
#error "moor needs a 64-bit kernel: doorbells are stored eight bytes at a time"
#endif
#if PAGE_SHIFT != 12
#error "moor needs a kernel with pages of 4 KiB: a doorbell page is one process's alone"
#endif

#ifndef CONFIG_INFINIBAND_ON_DEMAND_PAGING
#error "moor needs CONFIG_INFINIBAND_ON_DEMAND_PAGING: it follows what becomes of memory"
#endif

static int moor_map_bars(struct moor_dev *mdev)
{
	struct pci_dev *pdev = mdev->pdev;

	/* Each BAR must be memory: an I/O port is no address to map. */
	if (!(pci_resource_flags(pdev, MOOR_BAR_REGS) &
	      pci_resource_flags(pdev, MOOR_BAR_MR) &
	      pci_resource_flags(pdev, MOOR_BAR_DB) & IORESOURCE_MEM) ||
	    pci_resource_len(pdev, MOOR_BAR_REGS) < MOOR_BAR_REGS_SIZE) {
		dev_err(&pdev->dev,
			"BARs %d, %d and %d have to be memory, the first of %#x bytes or more\n",
			MOOR_BAR_REGS, MOOR_BAR_MR, MOOR_BAR_DB, MOOR_BAR_REGS_SIZE);
		return -ENODEV;
	}
	mdev->regs = pci_iomap(pdev, MOOR_BAR_REGS, MOOR_BAR_REGS_SIZE);
	return mdev->regs ? 0 : -ENOMEM;
}

/* The driver's own doorbell and kick page; processes map theirs. */
static int moor_map_doorbells(struct moor_dev *mdev)
{
	mdev->db_bar = pci_resource_start(mdev->pdev, MOOR_BAR_DB);
	mdev->db = ioremap(mdev->db_bar, MOOR_PAGE_SIZE);
	if (!mdev->db)
		return -ENOMEM;
	mdev->kick = ioremap(mdev->db_bar + mdev->caps.kick_offset,
			     MOOR_PAGE_SIZE);
	if (!mdev->kick) {
		iounmap(mdev->db);
		return -ENOMEM;
	}
	return 0;
}

static void moor_unmap_doorbells(struct moor_dev *mdev)
{
	iounmap(mdev->kick);
	iounmap(mdev->db);
}

/* PCI resources: what outlives a reset of the function. */
static int moor_enable_pci(struct moor_dev *mdev)
{
	struct pci_dev *pdev = mdev->pdev;
	int err;

	err = pci_enable_device(pdev);
	if (err)
		return err;
	err = pci_request_selected_regions(pdev, MOOR_BAR_MASK, KBUILD_MODNAME);
	if (err)
		goto disable;
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (err)
		goto release;
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	err = moor_map_bars(mdev);
	if (err)
		goto release;
	return 0;

release:
	pci_release_selected_regions(pdev, MOOR_BAR_MASK);
disable:
	pci_disable_device(pdev);
	return err;
}

static void moor_disable_pci(struct moor_dev *mdev)
{
	pci_iounmap(mdev->pdev, mdev->regs);
	pci_release_selected_regions(mdev->pdev, MOOR_BAR_MASK);
	pci_disable_device(mdev->pdev);
}

/* Memory that the device will use or that mirrors it. */
static int moor_alloc_tables(struct moor_dev *mdev)
{
	int err;

	err = moor_map_doorbells(mdev);
	if (err)
		return err;
	err = moor_hw_alloc_doze(mdev);
	if (err)
		goto unmap_doorbells;
	err = moor_db_init(mdev);
	if (err)
		goto free_doze;
	err = moor_kernel_pages_init(mdev);
	if (err)
		goto destroy_db;
	err = moor_keys_init(mdev);
	if (err)
		goto destroy_kernel_pages;
	err = moor_nodes_init(mdev);
	if (err)
		goto destroy_keys;
	err = moor_mr_table_init(mdev);
	if (err)
		goto destroy_nodes;
	err = moor_dm_init(mdev);
	if (err)
		goto destroy_mrs;
	err = moor_odp_init(mdev);
	if (err)
		goto destroy_dm;
	err = moor_cmdq_init(mdev);
	if (err)
		goto destroy_odp;
	return 0;

destroy_odp:
	moor_odp_destroy(mdev);
destroy_dm:
	moor_dm_destroy(mdev);
destroy_mrs:
	moor_mr_table_destroy(mdev);
destroy_nodes:
	moor_nodes_destroy(mdev);
destroy_keys:
	moor_keys_destroy(mdev);
destroy_kernel_pages:
	moor_kernel_pages_destroy(mdev);
destroy_db:
	moor_db_destroy(mdev);
free_doze:
	moor_hw_free_doze(mdev);
unmap_doorbells:
	moor_unmap_doorbells(mdev);
	return err;
}

static void moor_free_tables(struct moor_dev *mdev)
{
	moor_cmdq_destroy(mdev);
	moor_odp_destroy(mdev);
	moor_dm_destroy(mdev);
	moor_mr_table_destroy(mdev);
	moor_nodes_destroy(mdev);
	moor_keys_destroy(mdev);
	moor_kernel_pages_destroy(mdev);
	moor_db_destroy(mdev);
	moor_hw_free_doze(mdev);
	moor_unmap_doorbells(mdev);
}

/* No DMA afterwards, and no interrupt: the rings may go. */
static void moor_stop(struct moor_dev *mdev)
{
	cancel_delayed_work_sync(&mdev->health_work);
	cancel_work_sync(&mdev->fatal_work);
	moor_hw_kill(mdev, NULL);
}

static int moor_start(struct moor_dev *mdev)
{
	int err;

	err = moor_irqs_init(mdev);
	if (err)
		return err;
	/* A device that cannot be enabled may have begun: stop it before its rings go. */
	err = moor_hw_enable(mdev);
	if (err)
		goto stop;
	err = moor_eqs_init(mdev);
	if (err)
		goto stop;
	moor_hw_watch(mdev);
	return 0;

stop:
	moor_stop(mdev);
	moor_irqs_destroy(mdev);
	return err;
}

static int moor_register(struct moor_dev *mdev)
{
	struct ib_device *ibdev = &mdev->ibdev;
	int err;

	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->node_guid = cpu_to_be64(mdev->caps.node_guid);
	ibdev->phys_port_cnt = MOOR_PORT;
	ibdev->num_comp_vectors = mdev->num_comp;
	ibdev->dev.parent = &mdev->pdev->dev;
	ib_set_device_ops(ibdev, &moor_dev_ops);
	if (moor_has_odp(mdev))
		ib_set_device_ops(ibdev, &moor_odp_ops);
	if (mdev->caps.features & MOOR_FEATURE_SRQ)
		ib_set_device_ops(ibdev, &moor_srq_ops);
	if (mdev->caps.features & MOOR_FEATURE_UD)
		ib_set_device_ops(ibdev, &moor_ud_ops);
	if (mdev->caps.features & MOOR_FEATURE_XRC)
		ib_set_device_ops(ibdev, &moor_xrc_ops);
	if (mdev->caps.features & MOOR_FEATURE_CQ_MODERATION) {
		ib_set_device_ops(ibdev, &moor_moderation_ops);
		ibdev->use_cq_dim = true;
	}
	ibdev->driver_def = moor_uapi;
	err = ib_device_set_netdev(ibdev, mdev->netdev, MOOR_PORT);
	if (err)
		return err;
	err = ib_register_device(ibdev, "moor%d", &mdev->pdev->dev);
	if (err) {
		/* Drop the core's reference: unregister_netdev() would wait for it. */
		ib_device_set_netdev(ibdev, NULL, MOOR_PORT);
		return err;
	}
	moor_debugfs_add(mdev);
	return 0;
}

static void moor_unregister(struct moor_dev *mdev)
{
	moor_debugfs_remove(mdev);
	ib_unregister_device(&mdev->ibdev);
}

static struct moor_dev *moor_alloc_dev(struct moor_function *function)
{
	struct moor_dev *mdev = ib_alloc_device(moor_dev, ibdev);

	if (!mdev)
		return NULL;
	mdev->function = function;
	mdev->pdev = function->pdev;
	mutex_init(&mdev->kill_lock);
	INIT_WORK(&mdev->fatal_work, moor_hw_fatal_work);
	INIT_DELAYED_WORK(&mdev->health_work, moor_hw_health_work);
	spin_lock_init(&mdev->refusals.lock);
	ida_init(&mdev->pdns);
	ida_init(&mdev->xrcdns);
	xa_init_flags(&mdev->cqs, XA_FLAGS_ALLOC);
	xa_init_flags(&mdev->qps, XA_FLAGS_ALLOC);
	xa_init_flags(&mdev->srqs, XA_FLAGS_ALLOC);
	xa_init(&mdev->fast_mrs);
	return mdev;
}

static void moor_free_dev(struct moor_dev *mdev)
{
	WARN_ON(!xa_empty(&mdev->qps) || !xa_empty(&mdev->srqs) ||
		!xa_empty(&mdev->cqs) || !xa_empty(&mdev->fast_mrs));
	ida_destroy(&mdev->xrcdns);
	ida_destroy(&mdev->pdns);
	mutex_destroy(&mdev->kill_lock);
	ib_dealloc_device(&mdev->ibdev);
}

/* The function's first device creates the interface; the following ones reuse it. */
static int moor_attach_netdev(struct moor_dev *mdev)
{
	struct moor_function *function = mdev->function;
	int err = 0;

	if (!function->netdev)
		err = moor_netdev_create(function, &mdev->caps);
	mdev->netdev = function->netdev;
	return err;
}

/**
 * moor_up - reset the function and make a device of it
 * @function: function without a device
 *
 * Context: with the device lock.
 *
 * Return: 0, or an errno and no device.
 */
int moor_up(struct moor_function *function)
{
	struct moor_dev *mdev = moor_alloc_dev(function);
	int err;

	if (!mdev)
		return -ENOMEM;
	err = moor_enable_pci(mdev);
	if (err)
		goto free_dev;
	err = moor_hw_identify(mdev);
	if (err)
		goto disable_pci;
	/* For moor_slot_reset(); only now, as the function is known to be readable. */
	pci_save_state(mdev->pdev);
	err = moor_hw_reset(mdev);
	if (err)
		goto disable_pci;
	err = moor_hw_read_caps(mdev);
	if (err)
		goto disable_pci;
	err = moor_alloc_tables(mdev);
	if (err)
		goto disable_pci;
	/* Its carrier is the device's link: the interface must be there from here on. */
	err = moor_attach_netdev(mdev);
	if (err)
		goto free_tables;
	err = moor_start(mdev);
	if (err)
		goto free_tables;
	/* Set first: port events use it as soon as the device is registered. */
	WRITE_ONCE(function->mdev, mdev);
	err = moor_register(mdev);
	if (err)
		goto stop;
	return 0;

stop:
	WRITE_ONCE(function->mdev, NULL);
	moor_eqs_destroy(mdev);
	moor_stop(mdev);
	moor_irqs_destroy(mdev);
free_tables:
	moor_free_tables(mdev);
disable_pci:
	moor_disable_pci(mdev);
free_dev:
	moor_free_dev(mdev);
	return err;
}

/**
 * moor_down - take the function's device away, if it has one
 * @function: function
 *
 * Processes lose the device here without being asked: the core destroys their
 * objects, which a dead device cannot hold up.
 *
 * Context: with the device lock.
 */
void moor_down(struct moor_function *function)
{
	struct moor_dev *mdev = function->mdev;

	if (!mdev)
		return;
	WRITE_ONCE(function->mdev, NULL);
	if (moor_hw_has_failed(mdev))
		moor_hw_kill(mdev, "it was found stopped");
	moor_unregister(mdev);
	moor_eqs_destroy(mdev);
	moor_stop(mdev);
	moor_irqs_destroy(mdev);
	moor_free_tables(mdev);
	moor_disable_pci(mdev);
	moor_free_dev(mdev);
}

static int moor_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct moor_function *function = moor_function_alloc(pdev);
	int err;

	if (!function)
		return -ENOMEM;
	err = moor_up(function);
	if (err) {
		/* The driver core reports all errors of a probe but this one. */
		if (err == -ENODEV)
			dev_err(&pdev->dev, "cannot be used: error %d\n", err);
		moor_netdev_destroy(function);
		moor_function_put(function);
		return err;
	}
	pci_set_drvdata(pdev, function);
	return 0;
}

static void moor_remove(struct pci_dev *pdev)
{
	struct moor_function *function = pci_get_drvdata(pdev);

	moor_down(function);
	moor_netdev_destroy(function);
	moor_function_put(function);
}

/* Another kernel may take over: no DMA into its memory. */
static void moor_shutdown(struct pci_dev *pdev)
{
	struct moor_function *function = pci_get_drvdata(pdev);

	function->shut_down = true;
	if (function->mdev)
		moor_hw_kill(function->mdev, NULL);
}

/*
 * Sleep may cost the function its power and with it all objects, the keys that
 * peers hold included, so nothing can be kept for the processes: they lose the
 * device as when it is reset. The interface stays, without a carrier.
 */
static int moor_pm_suspend(struct device *dev)
{
	struct moor_function *function = dev_get_drvdata(dev);

	function->asleep = true;
	moor_down(function);
	return 0;
}

static int moor_pm_resume(struct device *dev)
{
	struct moor_function *function = dev_get_drvdata(dev);

	function->asleep = false;
	return moor_up(function);
}

static DEFINE_SIMPLE_DEV_PM_OPS(moor_pm_ops, moor_pm_suspend, moor_pm_resume);

static pci_ers_result_t moor_error_detected(struct pci_dev *pdev,
					    pci_channel_state_t state)
{
	struct moor_function *function = pci_get_drvdata(pdev);

	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	if (function->mdev)
		moor_hw_kill(function->mdev, "PCI error");
	moor_down(function);
	return state == pci_channel_io_perm_failure ?
	       PCI_ERS_RESULT_DISCONNECT : PCI_ERS_RESULT_NEED_RESET;
}

/*
 * The drivers below a port vote. So this is called with a device that was to go on, too: if
 * the driver of another function has asked for the reset. Linux 6.12 resets nothing then, but
 * what is restored has no bus mastering.
 */
static pci_ers_result_t moor_slot_reset(struct pci_dev *pdev)
{
	struct moor_function *function = pci_get_drvdata(pdev);

	pci_restore_state(pdev);
	if (function->mdev) {
		dev_warn(&pdev->dev, "reset after a PCI error of another function\n");
		moor_hw_kill(function->mdev, NULL);
		moor_down(function);
	}
	return PCI_ERS_RESULT_RECOVERED;
}

/*
 * Unless the device is there already, or is not to run: after moor_shutdown(), or asleep.
 * The handling of a PCI error goes on while the system goes to sleep.
 */
static void moor_come_back(struct pci_dev *pdev, const char *after)
{
	struct moor_function *function = pci_get_drvdata(pdev);

	if (function->mdev || function->shut_down || function->asleep)
		return;
	if (moor_up(function))
		dev_err(&pdev->dev, "did not come back after %s\n", after);
}

static void moor_resume(struct pci_dev *pdev)
{
	moor_come_back(pdev, "a PCI error");
}

/* FLR from sysfs or vfio: the function forgets everything. */
static void moor_reset_prepare(struct pci_dev *pdev)
{
	moor_down(pci_get_drvdata(pdev));
}

static void moor_reset_done(struct pci_dev *pdev)
{
	moor_come_back(pdev, "a reset");
}

static const struct pci_error_handlers moor_err_handlers = {
	.error_detected = moor_error_detected,
	.slot_reset = moor_slot_reset,
	.resume = moor_resume,
	.reset_prepare = moor_reset_prepare,
	.reset_done = moor_reset_done,
};

static const struct pci_device_id moor_pci_ids[] = {
	{ PCI_DEVICE(MOOR_PCI_VENDOR_ID, MOOR_PCI_DEVICE_ID) },
	{ }
};
MODULE_DEVICE_TABLE(pci, moor_pci_ids);

static struct pci_driver moor_driver = {
	.name = KBUILD_MODNAME,
	.id_table = moor_pci_ids,
	.probe = moor_probe,
	.remove = moor_remove,
	.shutdown = moor_shutdown,
	.driver.pm = pm_sleep_ptr(&moor_pm_ops),
	.err_handler = &moor_err_handlers,
};

static int __init moor_init(void)
{
	int err;

	moor_wq = alloc_workqueue("moor", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!moor_wq)
		return -ENOMEM;
	err = moor_faults_init();
	if (err)
		goto destroy_wq;
	err = moor_recovery_init();
	if (err)
		goto exit_faults;
	moor_debugfs_init();
	err = pci_register_driver(&moor_driver);
	if (err)
		goto exit_recovery;
	return 0;

exit_recovery:
	moor_debugfs_exit();
	moor_recovery_exit();
exit_faults:
	moor_faults_exit();
destroy_wq:
	destroy_workqueue(moor_wq);
	return err;
}

static void __exit moor_exit(void)
{
	pci_unregister_driver(&moor_driver);
	moor_recovery_exit();
	moor_debugfs_exit();
	moor_faults_exit();
	destroy_workqueue(moor_wq);
}

module_init(moor_init);
module_exit(moor_exit);

MODULE_DESCRIPTION("Moor RDMA NIC driver");
MODULE_LICENSE("GPL");
