// SPDX-License-Identifier: GPL-2.0
/* Multicast groups: filters of the device (HWI 12.5). */

#include "moor.h"

/**
 * moor_attach_mcast - let a queue pair have what is sent to a group
 * @ibqp: queue pair of type UD; the core has looked
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
 * Return: 0; -EINVAL if it was not in it; or another errno. A dead device has no
 * groups.
 */
int moor_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return moor_cmd_detach_filter(to_mdev(ibqp->device), to_mqp(ibqp)->qpn,
				      gid);
}
