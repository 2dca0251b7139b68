// SPDX-License-Identifier: GPL-2.0
/*
 * A device that has died is reset and registered anew, without being asked: its
 * users lose what they have, as at any other reset, and may begin again. One that
 * dies again within a minute stays dead: to lose everything over and over is worse.
 */

#include <linux/jiffies.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "moor.h"

#define MOOR_RECOVERY_REST	(60 * HZ)

bool moor_recover = true;
module_param_named(recover, moor_recover, bool, 0644);
MODULE_PARM_DESC(recover,
		 "Reset a device that has died, at most once a minute (default: Y)");

/* Its works wait for the device lock, and for all that unregistering waits for. */
static struct workqueue_struct *moor_recovery_wq;

/*
 * The task that had the device lock before may have been faster: the driver has let go
 * of the function, or the function sleeps, was reset, or is not to run again. While the
 * PCI channel is offline, the handlers of PCI errors, or of hotplug, act next.
 */
static bool moor_recovery_is_due(const struct moor_function *function)
{
	return function->mdev && moor_is_dead(function->mdev) &&
	       !function->shut_down && !pci_channel_offline(function->pdev);
}

static const char *moor_recovery_obstacle(const struct moor_function *function)
{
	if (!READ_ONCE(moor_recover))
		return "recovery is off";
	if (time_before64(get_jiffies_64(), function->rest_until))
		return "it was recovered less than a minute ago";
	return NULL;
}

static void moor_recovery_run(struct moor_function *function)
{
	const char *obstacle = moor_recovery_obstacle(function);
	const char *why = function->mdev->why;
	struct device *dev = &function->pdev->dev;
	int err;

	if (obstacle) {
		dev_err(dev, "stays stopped until it is reset or bound again: %s\n",
			obstacle);
		return;
	}
	function->rest_until = get_jiffies_64() + MOOR_RECOVERY_REST;
	moor_down(function);
	err = moor_up(function);
	if (err)
		dev_err(dev, "did not come back after it was stopped: %s (error %d)\n",
			why, err);
	else
		dev_warn(dev, "recovered, as %s; it had been stopped: %s\n",
			 dev_name(&function->mdev->ibdev.dev), why);
}

static void moor_recovery_work(struct work_struct *work)
{
	struct moor_function *function =
		container_of(work, struct moor_function, recovery);
	struct device *dev = &function->pdev->dev;

	device_lock(dev);
	if (moor_recovery_is_due(function))
		moor_recovery_run(function);
	device_unlock(dev);
	moor_function_put(function);
}

/**
 * moor_recovery_start - recover from a death as soon as nothing else happens
 * @mdev: dead device
 */
void moor_recovery_start(struct moor_dev *mdev)
{
	struct moor_function *function = mdev->function;

	kref_get(&function->ref);
	if (!queue_work(moor_recovery_wq, &function->recovery))
		moor_function_put(function);
}

/**
 * moor_function_alloc - begin to look after a PCI function
 * @pdev: PCI function
 *
 * Return: the function, for moor_function_put() to release, or NULL.
 */
struct moor_function *moor_function_alloc(struct pci_dev *pdev)
{
	struct moor_function *function = kzalloc_obj(*function);

	if (!function)
		return NULL;
	function->pdev = pci_dev_get(pdev);
	kref_init(&function->ref);
	INIT_WORK(&function->recovery, moor_recovery_work);
	return function;
}

static void moor_function_free(struct kref *ref)
{
	struct moor_function *function =
		container_of(ref, struct moor_function, ref);

	pci_dev_put(function->pdev);
	kfree(function);
}

void moor_function_put(struct moor_function *function)
{
	kref_put(&function->ref, moor_function_free);
}

/**
 * moor_recovery_init - make the queue in which devices are recovered
 *
 * Its works register and unregister devices, which must not happen while the system
 * goes to sleep: the queue is freezable.
 *
 * Return: 0 or -ENOMEM.
 */
int moor_recovery_init(void)
{
	moor_recovery_wq = alloc_workqueue("moor-recovery",
					   WQ_UNBOUND | WQ_FREEZABLE, 0);
	return moor_recovery_wq ? 0 : -ENOMEM;
}

void moor_recovery_exit(void)
{
	destroy_workqueue(moor_recovery_wq);
}
