// SPDX-License-Identifier: GPL-2.0
/*
 * What pinning memory of the calling process for a device takes, with nothing
 * registered: the least that a registration on that device can take.
 */

#include <linux/ktime.h>
#include <linux/version.h>
#include <rdma/ib_umem.h>

#include "verbs_test.h"

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#define ib_umem_get_va	ib_umem_get
#endif

/**
 * pin_measure - pin memory and unpin it
 * @dev: device
 * @addr: address of the first byte
 * @length: bytes
 * @took: filled in: nanoseconds of pinning and of letting go
 *
 * Return: 0 or an errno
 */
int pin_measure(struct ib_device *dev, u64 addr, u64 length, u64 took[2])
{
	u64 start = ktime_get_ns(), middle;
	struct ib_umem *umem;

	umem = ib_umem_get_va(dev, addr, length, IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	middle = ktime_get_ns();
	ib_umem_release(umem);
	took[1] = ktime_get_ns() - middle;
	took[0] = middle - start;
	return 0;
}
