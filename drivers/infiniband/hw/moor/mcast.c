// SPDX-License-Identifier: GPL-2.0
/* Multicast groups: filters of the device (HWI 12.5). */

#include "moor.h"

/**
 * moor_attach_mcast - let a queue pair have what is sent to a group
 * @ibqp: queue pair of type UD; the core has checked that
 * @gid: of the group
 * @lid: InfiniBand's, of no meaning here
 *
 * Return: 0; -EINVAL for what is no group to the device; -ENOMEM if it has no filter
 * left; or another errno.
 */
int moor_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return moor_cmd_attach_filter(to_mdev(ibqp->device), to_mqp(ibqp)->qpn,
				      gid);
}

/**
 * moor_detach_mcast - take a queue pair out of a group
 * @ibqp: queue pair
 * @gid: of the group
 * @lid: of no meaning
 *
 * The core detaches once, whatever the result, and destroys no QP that is in a group. So
 * a device that refuses is stopped, as if it had refused to destroy the QP: a dead device
 * has no groups. A QP that is not in the group is no refusal: a process may join twice,
 * by LIDs that only the core tells apart, and the first detach takes the QP out.
 *
 * Return: 0; -EINVAL if a QP of the kernel's was not in the group.
 */
int moor_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct moor_dev *mdev = to_mdev(ibqp->device);
	struct moor_qp *qp = to_mqp(ibqp);
	int err = moor_cmd_detach_filter(mdev, qp->qpn, gid);

	if (err == -EINVAL)
		return moor_qp_is_kernel(qp) ? err : 0;
	if (err)
		moor_hw_kill(mdev, "it refused to take a queue pair out of a group");
	return 0;
}
