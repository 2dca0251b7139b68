// SPDX-License-Identifier: GPL-2.0
/*
 * The port's GID table: the core keeps it, the device needs a copy to know what
 * loops back and what to send from.
 */

#include <rdma/ib_cache.h>

#include "moor.h"

/**
 * moor_add_gid - set an entry of the device's GID table
 * @attr: entry
 * @context: unused
 *
 * Return: 0 or an errno.
 */
int moor_add_gid(const struct ib_gid_attr *attr, void **context)
{
	u8 type = attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP ?
		  MOOR_GID_ROCE_V2 : MOOR_GID_ROCE_V1;
	u16 vlan = MOOR_GID_NO_VLAN;
	u8 smac[ETH_ALEN];
	int err;

	err = rdma_read_gid_l2_fields(attr, &vlan, smac);
	if (err)
		return err;
	return moor_cmd_set_gid(to_mdev(attr->device), attr->index, type, vlan,
				smac, &attr->gid);
}

/**
 * moor_del_gid - clear an entry of the device's GID table
 * @attr: entry
 * @context: unused
 *
 * Return: 0 or an errno.
 */
int moor_del_gid(const struct ib_gid_attr *attr, void **context)
{
	return moor_cmd_clear_gid(to_mdev(attr->device), attr->index);
}
