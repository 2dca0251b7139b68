/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between the kernels this driver is built for: Linux 6.12 and
 * from 7.2 on. The rest of the source is written for the newer one; what is
 * here gives the older one the same names and meanings. Included by moor.h,
 * at its end.
 */
#ifndef MOOR_COMPAT_H
#define MOOR_COMPAT_H

#include <linux/version.h>

/* Exported by the core; declared in a header it does not install. */
void rdma_restrack_new(struct rdma_restrack_entry *res,
		       enum rdma_restrack_type type);
void rdma_restrack_set_name(struct rdma_restrack_entry *res,
			    const char *caller);
void rdma_restrack_add(struct rdma_restrack_entry *res);

/* 6.12.101 can revoke a pinned dma-buf, as 7.2 can. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 101) ||			\
	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0) &&		\
	 LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0))
#error "moor is written for Linux 6.12, from 6.12.101 on, and for 7.2 and later"
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)

#define ib_umem_get_va			ib_umem_get

/* Bits of the ABI that were given names later. */
#define IB_ODP_SUPPORT_FLUSH		BIT(6)
#define IB_ODP_SUPPORT_ATOMIC_WRITE	BIT(7)

#define invalidate_mappings		move_notify
#define MOOR_DMA_BUF_NS			DMA_BUF

/* Without this option no owner of a dma-buf may move it while it is mapped. */
static inline bool moor_dmabufs_move(void)
{
	return IS_ENABLED(CONFIG_DMABUF_MOVE_NOTIFY);
}

static inline struct ib_umem *
ib_umem_get_cq_buf_or_va(struct ib_device *device,
			 const struct uverbs_attr_bundle *attrs, u64 addr,
			 size_t size, int access)
{
	return ib_umem_get(device, addr, size, access);
}

/* Bytes beyond what this driver knows must be 0, as in extensible system calls. */
static inline int _ib_copy_validate_udata_in(struct ib_udata *udata, void *req,
					     size_t kernel_size,
					     size_t minimum_size)
{
	int err;

	if (udata->inlen < minimum_size)
		return -EINVAL;
	err = copy_struct_from_user(req, kernel_size, udata->inbuf,
				    udata->inlen);
	return err == -E2BIG ? -EOPNOTSUPP : err;
}

static inline int _ib_respond_udata(struct ib_udata *udata, const void *src,
				    size_t len)
{
	size_t known = min(len, udata->outlen);

	if (copy_to_user(udata->outbuf, src, known) ||
	    clear_user(udata->outbuf + known, udata->outlen - known))
		return -EFAULT;
	return 0;
}

static inline int ib_is_udata_in_empty(struct ib_udata *udata)
{
	if (!udata || !udata->inlen)
		return 0;
	return ib_is_udata_cleared(udata, 0, udata->inlen) ? 0 : -EOPNOTSUPP;
}

static inline int ib_respond_empty_udata(struct ib_udata *udata)
{
	if (udata && udata->outlen && clear_user(udata->outbuf, udata->outlen))
		return -EFAULT;
	return 0;
}

static inline int ib_no_udata_io(struct ib_udata *udata)
{
	int err = ib_is_udata_in_empty(udata);

	return err ?: ib_respond_empty_udata(udata);
}

#define ib_copy_validate_udata_in(udata, req, end_member)		\
	_ib_copy_validate_udata_in(udata, &(req), sizeof(req),		\
				   offsetofend(typeof(req), end_member))

#define ib_respond_udata(udata, rep)					\
	_ib_respond_udata(udata, &(rep), sizeof(rep))

static inline enum ib_port_state
ib_get_curr_port_state(struct net_device *netdev)
{
	return netif_running(netdev) && netif_carrier_ok(netdev) ?
	       IB_PORT_ACTIVE : IB_PORT_DOWN;
}

/* 6.12's core makes no port events when the interface changes. */
struct moor_port_events {
	struct notifier_block nb;
	struct moor_function *function;
	struct net_device *netdev;
	enum ib_port_state last;	/* protected by RTNL */
};

/*
 * The function's own device. The core cannot find it by the interface, which others, such
 * as rxe, may have too. The device's memory is freed after a grace period.
 */
static inline struct ib_device *
moor_port_device(const struct moor_function *function)
{
	struct moor_dev *mdev;
	bool live;

	rcu_read_lock();
	mdev = READ_ONCE(function->mdev);
	live = mdev && ib_device_try_get(&mdev->ibdev);
	rcu_read_unlock();
	return live ? &mdev->ibdev : NULL;
}

static inline int moor_port_changed(struct notifier_block *nb,
				    unsigned long what, void *info)
{
	struct moor_port_events *events =
		container_of(nb, struct moor_port_events, nb);
	enum ib_port_state state = ib_get_curr_port_state(events->netdev);
	struct ib_event event = { .element.port_num = MOOR_PORT };

	if (netdev_notifier_info_to_dev(info) != events->netdev ||
	    (what != NETDEV_UP && what != NETDEV_DOWN && what != NETDEV_CHANGE) ||
	    state == events->last)
		return NOTIFY_DONE;
	events->last = state;
	event.event = state == IB_PORT_ACTIVE ? IB_EVENT_PORT_ACTIVE :
						IB_EVENT_PORT_ERR;
	event.device = moor_port_device(events->function);
	if (event.device) {
		ib_dispatch_event(&event);
		ib_device_put(event.device);
	}
	return NOTIFY_DONE;
}

static inline int moor_port_events_start(struct moor_port_events *events,
					 struct moor_function *function,
					 struct net_device *netdev)
{
	events->nb.notifier_call = moor_port_changed;
	events->function = function;
	events->netdev = netdev;
	events->last = IB_PORT_DOWN;
	return register_netdevice_notifier(&events->nb);
}

static inline void moor_port_events_stop(struct moor_port_events *events)
{
	unregister_netdevice_notifier(&events->nb);
}

static inline int moor_resize_cq_op(struct ib_cq *ibcq, int cqe,
				    struct ib_udata *udata)
{
	return moor_resize_cq(ibcq, cqe, udata);
}

/* 6.12 does not tell a driver that a process closes: each MR has its own fence. */
#define MOOR_VERSION_OPS						\
	.create_cq = moor_create_cq,					\
	.reg_user_mr = moor_reg_user_mr,				\
	.reg_user_mr_dmabuf = moor_reg_user_mr_dmabuf,			\
	.resize_cq = moor_resize_cq_op

#else /* 7.2 and later */

#include <rdma/uverbs_std_types.h>

#define MOOR_DMA_BUF_NS			"DMA_BUF"

static inline bool moor_dmabufs_move(void)
{
	return true;
}

struct moor_port_events {
};

static inline int moor_port_events_start(struct moor_port_events *events,
					 struct moor_function *function,
					 struct net_device *netdev)
{
	return 0;
}

static inline void moor_port_events_stop(struct moor_port_events *events)
{
}

static inline struct ib_mr *
moor_reg_user_mr_op(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
		    int access, struct ib_dmah *dmah, struct ib_udata *udata)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return moor_reg_user_mr(ibpd, start, length, iova, access, udata);
}

static inline struct ib_mr *
moor_reg_user_mr_dmabuf_op(struct ib_pd *ibpd, u64 offset, u64 length,
			   u64 iova, int fd, int access, struct ib_dmah *dmah,
			   struct uverbs_attr_bundle *attrs)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return moor_reg_user_mr_dmabuf(ibpd, offset, length, iova, fd, access,
				       attrs);
}

/*
 * A process closes its context, or the device leaves it. The core is about to destroy
 * the process's objects one by one, and no other task uses them (hw_destroy_rwsem is
 * held): so their keys are taken away together, many to a fence (HWI 6.5). Windows go
 * first, or they would make their MRs busy, and are waited for, as the fences of a list
 * may be done in any order (HWI CMD-34). A key that is busy all the same is revoked
 * again when its object is destroyed.
 */
static inline void moor_ufile_hw_cleanup(struct ib_uverbs_file *ufile)
{
	struct moor_dev *mdev = to_mdev(ufile->ucontext->device);
	struct ib_uobject *uobj;
	struct moor_mw *mw;
	struct moor_mr *mr;
	LIST_HEAD(mws);
	LIST_HEAD(mrs);

	lockdep_assert_held_write(&ufile->hw_destroy_rwsem);
	list_for_each_entry(uobj, &ufile->uobjects, list) {
		if (uobj_get_object_id(uobj) == UVERBS_OBJECT_MW) {
			mw = to_mmw(uobj->object);
			moor_revocation_add(&mw->exit, mw->key, &mws);
		} else if (uobj_get_object_id(uobj) == UVERBS_OBJECT_MR) {
			mr = to_mmr(uobj->object);
			/* dma-bufs later, one by one, under their reservation locks. */
			if (mr->type == MOOR_MRC_TYPE_INVALID ||
			    moor_reg_is_dmabuf(&mr->reg))
				continue;
			moor_odp_leaving(mr->reg.odp, true);
			moor_revocation_add(&mr->exit, mr->key, &mrs);
		}
	}
	moor_keys_revoke(mdev, &mws);
	moor_keys_revoke(mdev, &mrs);
}

/* uverbs uses create_cq on its write() path and create_user_cq on ioctl(). */
#define MOOR_VERSION_OPS						\
	.uverbs_robust_udata = 1,					\
	.create_cq = moor_create_cq,					\
	.create_user_cq = moor_create_cq,				\
	.reg_user_mr = moor_reg_user_mr_op,				\
	.reg_user_mr_dmabuf = moor_reg_user_mr_dmabuf_op,		\
	.resize_user_cq = moor_resize_cq,				\
	.ufile_hw_cleanup = moor_ufile_hw_cleanup

#endif

#endif /* MOOR_COMPAT_H */
