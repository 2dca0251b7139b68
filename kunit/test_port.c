// SPDX-License-Identifier: GPL-2.0
/*
 * The device and its port: attributes, events, the Ethernet interface, the GID
 * table; and PDs and AHs, objects of which the device knows nothing.
 */

#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>

#include "harness.h"

static void port_device(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	const struct ib_device_ops *ops = &moor_dev_ops;
	struct moor_user *user = moor_user_open(test);
	struct moor_query_device_resp resp;
	struct ib_device_attr attr;
	struct ib_udata *udata;
	u8 in[8] = {};
	char fw[IB_FW_VERSION_NAME_MAX];
	u16 pkey = 0;

	udata = moor_user_udata(test, user, in, sizeof(in), sizeof(resp));
	KUNIT_EXPECT_EQ(test, ops->query_device(&mdev->ibdev, &attr, udata), 0);
	moor_user_answer(test, user, &resp, sizeof(resp));
	KUNIT_EXPECT_NE(test, resp.clock, 0);
	KUNIT_EXPECT_NE(test, resp.clock, 0xaaaaaaaaaaaaaaaaULL);
	KUNIT_EXPECT_EQ(test, attr.max_mr_size, 1ULL << 40);
	KUNIT_EXPECT_EQ(test, attr.max_dm_size, FAKE_DM_BYTES);
	KUNIT_EXPECT_EQ(test, attr.max_mw, FAKE_WINDOWS);
	KUNIT_EXPECT_EQ(test, attr.atomic_cap, IB_ATOMIC_HCA);
	KUNIT_EXPECT_EQ(test, attr.page_size_cap, ~0ULL << 12);
	in[7] = 1;
	udata = moor_user_udata(test, user, in, sizeof(in), 0);
	KUNIT_EXPECT_EQ(test, ops->query_device(&mdev->ibdev, &attr, udata),
			-EOPNOTSUPP);
	in[7] = 0;
	udata = moor_user_udata(test, user, in, sizeof(in), 8);
	udata->outbuf = (void __user *)16UL;
	KUNIT_EXPECT_EQ(test, ops->query_device(&mdev->ibdev, &attr, udata),
			-EFAULT);

	KUNIT_EXPECT_EQ(test, ib_query_pkey(&mdev->ibdev, MOOR_PORT, 0, &pkey), 0);
	KUNIT_EXPECT_EQ(test, pkey, IB_DEFAULT_PKEY_FULL);
	KUNIT_EXPECT_EQ(test, ops->query_pkey(&mdev->ibdev, MOOR_PORT, 1, &pkey),
			-EINVAL);
	ib_get_device_fw_str(&mdev->ibdev, fw);
	KUNIT_EXPECT_STREQ(test, fw, "1.0");
	moor_user_close(test, user);
}

/* A dead device cannot give the time; its other attributes are still known. */
static void port_device_dead(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct moor_user *user = moor_user_open(test);
	struct moor_query_device_resp resp;
	struct ib_device_attr attr;
	struct ib_udata *udata;
	u8 in[8] = {};

	moor_hw_kill(mdev, "a test asks for it");
	udata = moor_user_udata(test, user, in, sizeof(in), sizeof(resp));
	KUNIT_EXPECT_EQ(test, moor_dev_ops.query_device(&mdev->ibdev, &attr, udata),
			-EIO);
	udata = moor_user_udata(test, user, in, sizeof(in), 0);
	KUNIT_EXPECT_EQ(test, moor_dev_ops.query_device(&mdev->ibdev, &attr, udata),
			0);
	moor_user_close(test, user);
}

struct watcher {
	struct ib_event_handler handler;
	struct completion seen;
	enum ib_event_type event;
};

static void watch(struct ib_event_handler *handler, struct ib_event *event)
{
	struct watcher *watcher = container_of(handler, struct watcher, handler);

	if (event->event == watcher->event)
		complete(&watcher->seen);
}

static void watch_begin(struct watcher *watcher, struct moor_dev *mdev,
			enum ib_event_type event)
{
	watcher->event = event;
	init_completion(&watcher->seen);
	INIT_IB_EVENT_HANDLER(&watcher->handler, &mdev->ibdev, watch);
	ib_register_event_handler(&watcher->handler);
}

static void watch_end(struct kunit *test, struct watcher *watcher)
{
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&watcher->seen, 100 * HZ),
			0);
	ib_unregister_event_handler(&watcher->handler);
}

static enum ib_port_state port_state(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct ib_port_attr attr = {};

	KUNIT_EXPECT_EQ(test, ib_query_port(&mdev->ibdev, MOOR_PORT, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.phys_state, attr.state == IB_PORT_ACTIVE ?
			IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED);
	return attr.state;
}

/* The NIC's link changes, in STATUS. link_event() makes an event of it. */
static void link_set(bool up)
{
	struct fake_nic *nic = moor_kunit_nic();

	WRITE_ONCE(nic->status, up ? nic->status | MOOR_STATUS_LINK_UP :
				     nic->status & ~MOOR_STATUS_LINK_UP);
}

static void link_event(bool up)
{
	fake_nic_event(moor_kunit_nic(), MOOR_EQ_ASYNC,
		       up ? MOOR_EVENT_PORT_UP : MOOR_EVENT_PORT_DOWN, 0);
}

/* Keep the driver from looking at STATUS by itself. */
static void stop_looking(struct kunit *test, struct moor_dev *mdev)
{
	mod_delayed_work(moor_wq, &mdev->health_work, 3600 * HZ);
	/* A look that was under way does not change the delay. */
	flush_work(&mdev->health_work.work);
	KUNIT_ASSERT_TRUE(test, delayed_work_pending(&mdev->health_work));
}

/* The port is up if the interface and the link are up, and an event tells of a change. */
static void port_states(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct watcher watcher;
	int i;

	KUNIT_EXPECT_EQ(test, port_state(test), IB_PORT_DOWN);
	for (i = 0; i < 2; i++) {
		watch_begin(&watcher, mdev, IB_EVENT_PORT_ACTIVE);
		KUNIT_ASSERT_EQ(test, moor_kunit_netdev_up(mdev->netdev, true), 0);
		watch_end(test, &watcher);
		KUNIT_EXPECT_EQ(test, port_state(test), IB_PORT_ACTIVE);

		stop_looking(test, mdev);
		link_set(false);
		watch_begin(&watcher, mdev, IB_EVENT_PORT_ERR);
		link_event(false);
		watch_end(test, &watcher);
		KUNIT_EXPECT_EQ(test, port_state(test), IB_PORT_DOWN);
		KUNIT_EXPECT_FALSE(test, netif_carrier_ok(mdev->netdev));

		link_set(true);
		watch_begin(&watcher, mdev, IB_EVENT_PORT_ACTIVE);
		link_event(true);
		watch_end(test, &watcher);
		KUNIT_EXPECT_EQ(test, port_state(test), IB_PORT_ACTIVE);

		watch_begin(&watcher, mdev, IB_EVENT_PORT_ERR);
		moor_kunit_netdev_up(mdev->netdev, false);
		watch_end(test, &watcher);
		KUNIT_EXPECT_EQ(test, port_state(test), IB_PORT_DOWN);
		KUNIT_EXPECT_TRUE(test, netif_carrier_ok(mdev->netdev));
	}
}

/* Where an event comes late or is lost, STATUS counts. */
static void port_authority(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct net_device *netdev = mdev->netdev;
	int ups = atomic_read(&netdev->carrier_up_count);
	int downs = atomic_read(&netdev->carrier_down_count);

	link_event(false);
	link_event(true);
	link_event(false);
	fake_nic_event(moor_kunit_nic(), MOOR_EQ_ASYNC, MOOR_EVENT_COMM_EST, ~0U);
	moor_kunit_wait(test, READ_ONCE(mdev->async_eq.consumer) >= 4);
	flush_delayed_work(&mdev->health_work);
	KUNIT_EXPECT_TRUE(test, netif_carrier_ok(netdev));
	KUNIT_EXPECT_EQ(test, atomic_read(&netdev->carrier_down_count), downs);
	link_set(false);
	moor_kunit_wait(test, !netif_carrier_ok(netdev));
	link_set(true);
	moor_kunit_wait(test, netif_carrier_ok(netdev));
	KUNIT_EXPECT_EQ(test, atomic_read(&netdev->carrier_up_count), ups + 1);
}

struct gone_case {
	const char *name;
	u32 status;
	pci_channel_state_t channel;
};

static const struct gone_case gone_cases[] = {
	{ "off the bus", ~0U, pci_channel_io_normal },
	{ "fatal", MOOR_STATUS_READY | MOOR_STATUS_ENABLED | MOOR_STATUS_FATAL |
		   MOOR_STATUS_LINK_UP, pci_channel_io_normal },
	{ "not enabled", MOOR_STATUS_READY | MOOR_STATUS_LINK_UP,
	  pci_channel_io_normal },
	{ "frozen", MOOR_STATUS_READY | MOOR_STATUS_ENABLED | MOOR_STATUS_LINK_UP,
	  pci_channel_io_frozen },
};

static void gone_desc(const struct gone_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(gone, gone_cases, gone_desc);

/* Whatever STATUS reads as: a device that is gone has no link, not for a moment. */
static void port_gone(struct kunit *test)
{
	const struct gone_case *c = test->param_value;
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct net_device *netdev = mdev->netdev;
	struct watcher watcher;
	int ups;

	KUNIT_ASSERT_EQ(test, moor_kunit_netdev_up(netdev, true), 0);
	link_set(false);
	link_event(false);
	moor_kunit_wait(test, !netif_carrier_ok(netdev));
	ups = atomic_read(&netdev->carrier_up_count);

	watch_begin(&watcher, mdev, IB_EVENT_DEVICE_FATAL);
	mdev->pdev->error_state = c->channel;
	WRITE_ONCE(nic->status, c->status);
	watch_end(test, &watcher);
	KUNIT_EXPECT_EQ(test, atomic_read(&netdev->carrier_up_count), ups);
	KUNIT_EXPECT_EQ(test, port_state(test), IB_PORT_DOWN);
	mdev->pdev->error_state = pci_channel_io_normal;
}

/* The device reports its death by an event alone. */
static void port_fatal_event(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct watcher watcher;

	watch_begin(&watcher, mdev, IB_EVENT_DEVICE_FATAL);
	fake_nic_event(moor_kunit_nic(), MOOR_EQ_ASYNC, MOOR_EVENT_DEVICE_FATAL, 0);
	watch_end(test, &watcher);
	KUNIT_EXPECT_FALSE(test, netif_carrier_ok(mdev->netdev));
}

/* The asynchronous EQ more than once around, with room made on the way. */
static void port_many_events(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	u64 *consumer = &nic->slots[MOOR_DB_SLOT_EQ_CONSUMER + MOOR_EQ_ASYNC];
	u64 before = READ_ONCE(*consumer), i;

	/* A burst that one interrupt finds: the handler stores its index twice. */
	WRITE_ONCE(nic->behave.mute, true);
	for (i = 0; i < 200; i++)
		fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_COMM_EST, ~0U);
	WRITE_ONCE(nic->behave.mute, false);
	fake_nic_wake(nic);
	moor_kunit_wait(test, READ_ONCE(*consumer) == before + 200);
	for (; i < 600; i++) {
		fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_COMM_EST, ~0U);
		moor_kunit_wait(test, READ_ONCE(*consumer) == before + i + 1);
	}
}

/* What ethtool shows, and what happens to a packet. */
static void port_netdev(struct kunit *test)
{
	struct ethtool_link_ksettings settings = {};
	struct moor_dev *mdev = test->priv;
	struct net_device *netdev = mdev->netdev;
	const struct ethtool_ops *ethtool = netdev->ethtool_ops;
	struct ethtool_drvinfo info = {};
	struct rtnl_link_stats64 stats;
	struct sk_buff *skb;

	ethtool->get_drvinfo(netdev, &info);
	KUNIT_EXPECT_STREQ(test, info.driver, KBUILD_MODNAME);
	KUNIT_EXPECT_STREQ(test, info.bus_info, pci_name(mdev->pdev));
	KUNIT_EXPECT_STREQ(test, info.fw_version, "1.0");
	KUNIT_EXPECT_EQ(test, ethtool->get_link_ksettings(netdev, &settings), 0);
	KUNIT_EXPECT_EQ(test, settings.base.speed, SPEED_100000);
	KUNIT_EXPECT_MEMEQ(test, netdev->dev_addr, mdev->caps.mac, ETH_ALEN);

	skb = alloc_skb(64, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	KUNIT_EXPECT_EQ(test, netdev->netdev_ops->ndo_start_xmit(skb, netdev),
			NETDEV_TX_OK);
	dev_get_stats(netdev, &stats);
	KUNIT_EXPECT_EQ(test, stats.tx_dropped, 1);
}

/* With the interface up the core makes GIDs, and the device gets them. */
static void port_gids(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct ib_gid_attr attr = { .device = &mdev->ibdev, .index = 9 };
	union ib_gid gid;

	KUNIT_ASSERT_EQ(test, moor_kunit_netdev_up(mdev->netdev, true), 0);
	moor_kunit_wait(test, !bitmap_empty(nic->gids, FAKE_GIDS));
	KUNIT_EXPECT_EQ(test, rdma_query_gid(&mdev->ibdev, MOOR_PORT,
					     find_first_bit(nic->gids, FAKE_GIDS),
					     &gid), 0);
	/* Link-local, of the MAC address. */
	KUNIT_EXPECT_EQ(test, be64_to_cpu(gid.global.subnet_prefix),
			0xfe80000000000000ULL);
	KUNIT_EXPECT_EQ(test, gid.raw[15], mdev->caps.mac[5]);
	KUNIT_EXPECT_EQ(test, gid.raw[8], mdev->caps.mac[0] ^ 2);

	/* No entry without an interface to take the address from. */
	KUNIT_EXPECT_EQ(test, moor_add_gid(&attr, NULL), -ENODEV);
	KUNIT_EXPECT_FALSE(test, test_bit(9, nic->gids));
	rcu_assign_pointer(attr.ndev, mdev->netdev);
	KUNIT_EXPECT_EQ(test, moor_add_gid(&attr, NULL), 0);
	KUNIT_EXPECT_TRUE(test, test_bit(9, nic->gids));
	nic->behave.fail_opcode = MOOR_CMD_SET_GID;
	nic->behave.fail_status = MOOR_CMD_NO_RESOURCE;
	KUNIT_EXPECT_EQ(test, moor_add_gid(&attr, NULL), -ENOMEM);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_EQ(test, moor_del_gid(&attr, NULL), 0);
	KUNIT_EXPECT_FALSE(test, test_bit(9, nic->gids));
	attr.index = FAKE_GIDS;
	KUNIT_EXPECT_EQ(test, moor_add_gid(&attr, NULL), -EINVAL);
	moor_kunit_netdev_up(mdev->netdev, false);
}

/* PD numbers differ, are never 0, and are reused; a failure keeps none. */
static void port_pd(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct moor_dev *mdev = test->priv;
	struct moor_pd pds[3] = {};
	struct moor_alloc_pd_resp resp;
	struct ib_udata *udata;
	u8 in[4] = {}, extra[16];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(pds); i++) {
		pds[i].ibpd.device = &mdev->ibdev;
		udata = moor_user_udata(test, user, in, sizeof(in), 16);
		KUNIT_ASSERT_EQ(test, moor_alloc_pd(&pds[i].ibpd, udata), 0);
		moor_user_answer(test, user, &resp, sizeof(resp));
		KUNIT_EXPECT_EQ(test, resp.pdn, pds[i].pdn);
		KUNIT_EXPECT_EQ(test, resp.reserved, 0);
		KUNIT_EXPECT_NE(test, resp.pdn, 0);
		if (i)
			KUNIT_EXPECT_NE(test, pds[i].pdn, pds[i - 1].pdn);
	}
	/* Room beyond the driver's answer is cleared. */
	moor_user_answer(test, user, extra, sizeof(extra));
	KUNIT_EXPECT_FALSE(test, memchr_inv(extra + 8, 0, 8));
	KUNIT_EXPECT_EQ(test, moor_dealloc_pd(&pds[1].ibpd, NULL), 0);

	udata = moor_user_udata(test, user, in, 0, 16);
	udata->outbuf = (void __user *)16UL;
	KUNIT_EXPECT_EQ(test, moor_alloc_pd(&pds[1].ibpd, udata), -EFAULT);
	in[0] = 1;
	udata = moor_user_udata(test, user, in, sizeof(in), 16);
	KUNIT_EXPECT_EQ(test, moor_alloc_pd(&pds[1].ibpd, udata), -EOPNOTSUPP);
	/* The number is the lowest free one: neither failure has kept it. */
	i = pds[1].pdn;
	KUNIT_EXPECT_EQ(test, moor_alloc_pd(&pds[1].ibpd, NULL), 0);
	KUNIT_EXPECT_EQ(test, pds[1].pdn, i);
	for (i = 0; i < ARRAY_SIZE(pds); i++)
		KUNIT_EXPECT_EQ(test, moor_dealloc_pd(&pds[i].ibpd, NULL), 0);
	moor_user_close(test, user);
}

/* The address that the core resolved goes to the process; there is no command. */
static void port_ah(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct moor_dev *mdev = test->priv;
	struct moor_ah ah = { .ibah.device = &mdev->ibdev };
	struct rdma_ah_attr attr = {
		.type = RDMA_AH_ATTR_TYPE_ROCE,
		.roce.dmac = { 2, 3, 4, 5, 6, 7 },
	};
	struct rdma_ah_init_attr init = { .ah_attr = &attr };
	struct moor_create_ah_resp resp;
	struct ib_udata *udata;
	u8 in[4] = {};

	KUNIT_EXPECT_EQ(test, moor_create_ah(&ah.ibah, &init, NULL), -EINVAL);
	rdma_ah_set_ah_flags(&attr, IB_AH_GRH);
	KUNIT_EXPECT_EQ(test, moor_create_ah(&ah.ibah, &init, NULL), 0);
	KUNIT_EXPECT_MEMEQ(test, ah.segment.dmac, attr.roce.dmac, ETH_ALEN);
	udata = moor_user_udata(test, user, in, sizeof(in), sizeof(resp));
	KUNIT_EXPECT_EQ(test, moor_create_ah(&ah.ibah, &init, udata), 0);
	moor_user_answer(test, user, &resp, sizeof(resp));
	KUNIT_EXPECT_MEMEQ(test, resp.dmac, attr.roce.dmac, ETH_ALEN);
	KUNIT_EXPECT_EQ(test, moor_destroy_ah(&ah.ibah, 0), 0);

	attr.type = RDMA_AH_ATTR_TYPE_IB;
	KUNIT_EXPECT_EQ(test, moor_create_ah(&ah.ibah, &init, NULL), -EINVAL);
	attr.type = RDMA_AH_ATTR_TYPE_ROCE;
	in[2] = 1;
	udata = moor_user_udata(test, user, in, sizeof(in), sizeof(resp));
	KUNIT_EXPECT_EQ(test, moor_create_ah(&ah.ibah, &init, udata), -EOPNOTSUPP);
	moor_user_close(test, user);
}

/* Whatever MTU the interface may have, there is a path MTU. */
static void port_mtu(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct net_device *netdev = mdev->netdev;

	rtnl_lock();
	KUNIT_EXPECT_EQ(test, dev_set_mtu(netdev, 351), -EINVAL);
	KUNIT_EXPECT_EQ(test, moor_port_mtu(mdev), IB_MTU_4096);
	KUNIT_EXPECT_EQ(test, dev_set_mtu(netdev, 352), 0);
	KUNIT_EXPECT_EQ(test, moor_port_mtu(mdev), IB_MTU_256);
	KUNIT_EXPECT_EQ(test, dev_set_mtu(netdev, 4201), -EINVAL);
	KUNIT_EXPECT_EQ(test, dev_set_mtu(netdev, 4200), 0);
	KUNIT_EXPECT_EQ(test, moor_port_mtu(mdev), IB_MTU_4096);
	rtnl_unlock();
}

static struct kunit_case port_cases[] = {
	KUNIT_CASE(port_device),
	KUNIT_CASE(port_device_dead),
	KUNIT_CASE(port_states),
	KUNIT_CASE(port_authority),
	KUNIT_CASE_PARAM(port_gone, gone_gen_params),
	KUNIT_CASE(port_fatal_event),
	KUNIT_CASE(port_many_events),
	KUNIT_CASE(port_netdev),
	KUNIT_CASE(port_mtu),
	KUNIT_CASE(port_gids),
	KUNIT_CASE(port_pd),
	KUNIT_CASE(port_ah),
	{}
};

static struct kunit_suite port_suite = {
	.name = "moor_port",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = port_cases,
};

kunit_test_suite(port_suite);
