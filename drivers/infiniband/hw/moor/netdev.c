// SPDX-License-Identifier: GPL-2.0
/*
 * The Ethernet interface of the port. It gives the port its MAC address, from
 * which the core makes GIDs. The device interface has no packet queues, so
 * packets of the host's own are counted and dropped.
 */

#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <rdma/ib_pack.h>

#include "moor.h"

/* Room for a path MTU of 4096 and RoCE's headers: iboe_get_mtu() finds it. */
#define MOOR_NETDEV_MTU	4200
/*
 * The least path MTU and the headers that iboe_get_mtu() leaves room for: a smaller MTU
 * has room for no path MTU, and no queue pair could be set up.
 */
#define MOOR_NETDEV_MIN_MTU	(256 + IB_GRH_BYTES + IB_UDP_BYTES +		\
				 IB_BTH_BYTES + IB_EXT_XRC_BYTES +		\
				 IB_EXT_ATOMICETH_BYTES + IB_ICRC_BYTES)

struct moor_netdev {
	struct pci_dev *pdev;
	u32 version;
	struct moor_port_events events;
};

static netdev_tx_t moor_netdev_xmit(struct sk_buff *skb,
				    struct net_device *netdev)
{
	dev_core_stats_tx_dropped_inc(netdev);
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops moor_netdev_ops = {
	.ndo_start_xmit = moor_netdev_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void moor_get_drvinfo(struct net_device *netdev,
			     struct ethtool_drvinfo *info)
{
	struct moor_netdev *priv = netdev_priv(netdev);

	strscpy(info->driver, KBUILD_MODNAME, sizeof(info->driver));
	strscpy(info->bus_info, pci_name(priv->pdev), sizeof(info->bus_info));
	snprintf(info->fw_version, sizeof(info->fw_version), "%u.%u",
		 (u32)FIELD_GET(MOOR_VERSION_MAJOR, priv->version),
		 (u32)FIELD_GET(MOOR_VERSION_MINOR, priv->version));
}

static int moor_get_link_ksettings(struct net_device *netdev,
				   struct ethtool_link_ksettings *settings)
{
	settings->base.speed = SPEED_100000;
	settings->base.duplex = DUPLEX_FULL;
	settings->base.port = PORT_OTHER;
	settings->base.autoneg = AUTONEG_DISABLE;
	return 0;
}

static const struct ethtool_ops moor_ethtool_ops = {
	.get_drvinfo = moor_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = moor_get_link_ksettings,
};

/**
 * moor_netdev_create - register the port's interface
 * @function: function that has none yet
 * @caps: what the device says of itself
 *
 * The interface has no carrier until the device is seen to have a link, and none while
 * there is no device.
 *
 * Return: 0 or an errno.
 */
int moor_netdev_create(struct moor_function *function,
		       const struct moor_caps *caps)
{
	struct net_device *netdev;
	struct moor_netdev *priv;
	int err;

	netdev = alloc_etherdev(sizeof(*priv));
	if (!netdev)
		return -ENOMEM;
	priv = netdev_priv(netdev);
	priv->pdev = function->pdev;
	priv->version = caps->version;
	SET_NETDEV_DEV(netdev, &function->pdev->dev);
	eth_hw_addr_set(netdev, caps->mac);
	netdev->netdev_ops = &moor_netdev_ops;
	netdev->ethtool_ops = &moor_ethtool_ops;
	netdev->min_mtu = MOOR_NETDEV_MIN_MTU;
	netdev->max_mtu = MOOR_NETDEV_MTU;
	netdev->mtu = MOOR_NETDEV_MTU;
	netif_carrier_off(netdev);

	err = register_netdev(netdev);
	if (err)
		goto free;
	err = moor_port_events_start(&priv->events, function, netdev);
	if (err)
		goto unregister;
	function->netdev = netdev;
	return 0;

unregister:
	unregister_netdev(netdev);
free:
	free_netdev(netdev);
	return err;
}

/* The function may have no interface: its probe may have failed before there was one. */
void moor_netdev_destroy(struct moor_function *function)
{
	struct net_device *netdev = function->netdev;
	struct moor_netdev *priv;

	if (!netdev)
		return;
	priv = netdev_priv(netdev);
	moor_port_events_stop(&priv->events);
	unregister_netdev(netdev);
	free_netdev(netdev);
}
