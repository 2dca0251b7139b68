// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions: registering and deregistering.
 *
 * Two invariants. Pages are unpinned only after a successful fence, or when the
 * device is dead. A context entry is valid only while its MR and its table exist; the
 * table names only memory that is pinned, or that the driver is told of before it goes.
 */

#include <linux/ioport.h>
#include <linux/slab.h>
#include <rdma/restrack.h>

#include "moor.h"
#include "trace.h"

/**
 * moor_mr_supported - access flags that an MR of any kind may have
 * @mdev: device
 *
 * FLUSH_PERSISTENT is not among them: whether memory outlives a loss of power is known
 * of pinned pages alone (HWI MPE-11).
 *
 * Return: IB_ACCESS_*
 */
u32 moor_mr_supported(const struct moor_dev *mdev)
{
	return MOOR_ACCESS_SUPPORTED |
	       (moor_flush_rights(mdev) & ~IB_ACCESS_FLUSH_PERSISTENT);
}

/**
 * moor_mr_check_access - look at the access flags of a registration
 * @supported: flags that the registration may have
 * @access: IB_ACCESS_*
 * @why: filled in on failure
 *
 * Return: 0; -EOPNOTSUPP for a flag we do not have; -EINVAL for a combination
 * of rights that IBA forbids.
 */
int moor_mr_check_access(u32 supported, int access, struct moor_refusal *why)
{
	/* Optional flags may always be ignored. */
	u32 missing = access & ~(supported | IB_ACCESS_OPTIONAL);
	u32 writes = access & (IB_ACCESS_REMOTE_WRITE |
			       IB_ACCESS_REMOTE_ATOMIC);

	why->reason = MOOR_REFUSAL_FLAGS;
	if (missing) {
		why->value = missing;
		return -EOPNOTSUPP;
	}
	if (writes && !(access & IB_ACCESS_LOCAL_WRITE)) {
		why->value = writes;
		return -EINVAL;
	}
	return 0;
}

/**
 * moor_reg_check_access - look at the access flags of a process's memory
 * @mdev: device
 * @uctx: context, or NULL: memory of the kernel
 * @access: IB_ACCESS_*
 * @why: filled in on failure
 *
 * Memory that is paged needs a context whose page requests are answered, and is not
 * persistent, as its pages change.
 *
 * Return: 0; -ENOMEM; or what moor_mr_check_access() gives.
 */
int moor_reg_check_access(const struct moor_dev *mdev,
			  struct moor_ucontext *uctx, int access,
			  struct moor_refusal *why)
{
	u32 supported = moor_mr_supported(mdev);
	int err;

	if (!(access & IB_ACCESS_ON_DEMAND))
		supported |= moor_flush_rights(mdev);
	else if (uctx && moor_has_odp(mdev))
		supported |= IB_ACCESS_ON_DEMAND | IB_ACCESS_HUGETLB;
	err = moor_mr_check_access(supported, access, why);
	if (err || !(access & IB_ACCESS_ON_DEMAND))
		return err;
	why->reason = MOOR_REFUSAL_MEMORY;
	return moor_faults_open(uctx);
}

/**
 * moor_mr_check_range - look at the range of a registration
 * @mdev: device
 * @start: address of the first byte
 * @length: bytes
 * @iova: address of the first byte on the wire
 * @why: filled in on failure
 *
 * Return: 0 or -EINVAL.
 */
int moor_mr_check_range(const struct moor_dev *mdev, u64 start, u64 length,
			u64 iova, struct moor_refusal *why)
{
	u64 last;

	why->reason = MOOR_REFUSAL_LENGTH;
	why->value = length;
	why->limit = mdev->caps.max_mr_size;
	if (!length || length > mdev->caps.max_mr_size ||
	    check_add_overflow(start, length - 1, &last))
		return -EINVAL;

	why->reason = MOOR_REFUSAL_IOVA;
	why->value = iova;
	why->limit = 0;
	if (check_add_overflow(iova, length - 1, &last) ||
	    offset_in_page(start) != offset_in_page(iova))
		return -EINVAL;
	return 0;
}

/* All of the process's memory: addresses on the wire are those of the process. */
static int moor_reg_check_implicit(const struct moor_registration *reg,
				   u64 iova, struct moor_refusal *why)
{
	why->reason = MOOR_REFUSAL_IOVA;
	why->value = iova;
	if (iova)
		return -EINVAL;
	why->reason = MOOR_REFUSAL_FLAGS;
	why->value = reg->huge ? IB_ACCESS_HUGETLB : IB_ZERO_BASED;
	return reg->huge || reg->zero_based ? -EINVAL : 0;
}

/**
 * moor_reg_check_range - look at the range of a registration
 * @mdev: device
 * @reg: registration; start, length and rights are set
 * @iova: address of the first byte on the wire
 * @why: filled in on failure
 *
 * Return: 0 or -EINVAL.
 */
int moor_reg_check_range(const struct moor_dev *mdev,
			 const struct moor_registration *reg, u64 iova,
			 struct moor_refusal *why)
{
	if (reg->access & MOOR_ACCESS_ON_DEMAND && moor_reg_is_implicit(reg))
		return moor_reg_check_implicit(reg, iova, why);
	return moor_mr_check_range(mdev, reg->start, reg->length, iova, why);
}

/**
 * moor_reg_set_access - enter access flags into a registration
 * @reg: registration
 * @access: IB_ACCESS_*, checked
 */
void moor_reg_set_access(struct moor_registration *reg, int access)
{
	reg->access = access & MOOR_ACCESS_COMMON;
	if (access & IB_ACCESS_RELAXED_ORDERING)
		reg->access |= MOOR_ACCESS_RELAXED_ORDERING;
	if (access & IB_ACCESS_ON_DEMAND)
		reg->access |= MOOR_ACCESS_ON_DEMAND;
	reg->zero_based = access & IB_ZERO_BASED;
	reg->huge = access & IB_ACCESS_HUGETLB;
}

/* Does the memory keep its contents without power, as the firmware says? */
static bool moor_is_persistent(phys_addr_t start, size_t size)
{
	return region_intersects(start, size, IORESOURCE_MEM,
				 IORES_DESC_PERSISTENT_MEMORY) ==
	       REGION_INTERSECTS ||
	       region_intersects(start, size, IORESOURCE_MEM,
				 IORES_DESC_PERSISTENT_MEMORY_LEGACY) ==
	       REGION_INTERSECTS;
}

/**
 * moor_reg_check_memory - is pinned memory of the kind that its rights ask for?
 * @reg: registration; access and umem are set
 * @why: filled in on failure
 *
 * FLUSH_PERSISTENT promises a peer that what it wrote is not lost: all of the
 * memory has to be persistent (DAX).
 *
 * Return: 0 or -EINVAL.
 */
int moor_reg_check_memory(const struct moor_registration *reg,
			  struct moor_refusal *why)
{
	struct scatterlist *sg;
	int i;

	if (!(reg->access & MOOR_ACCESS_FLUSH_PERSISTENT))
		return 0;
	for_each_sgtable_sg(&reg->umem->sgt_append.sgt, sg, i) {
		if (!moor_is_persistent(sg_phys(sg), sg->length)) {
			why->reason = MOOR_REFUSAL_FLAGS;
			why->value = IB_ACCESS_FLUSH_PERSISTENT;
			return -EINVAL;
		}
		cond_resched();
	}
	return 0;
}

/**
 * moor_reg_pin - pin the memory of a registration and describe it
 * @mdev: device
 * @reg: start, length, access, huge and zero_based are set; iova, unless
 *	zero_based. The rest is filled in.
 * @why: filled in on failure
 *
 * Memory on demand is not pinned; it is described when the device asks for a page.
 *
 * Return: 0 or an errno, with nothing pinned.
 */
int moor_reg_pin(struct moor_dev *mdev, struct moor_registration *reg,
		 struct moor_refusal *why)
{
	int access = reg->access & MOOR_ACCESS_COMMON;
	int err;

	reg->umem = NULL;
	reg->odp = NULL;
	reg->table = (struct moor_table){};
	if (reg->access & MOOR_ACCESS_ON_DEMAND)
		return moor_odp_new(mdev, reg, why);
	if (reg->access & MOOR_ACCESS_RELAXED_ORDERING)
		access |= IB_ACCESS_RELAXED_ORDERING;
	reg->umem = ib_umem_get_va(&mdev->ibdev, reg->start, reg->length,
				   access);
	if (IS_ERR(reg->umem))
		return moor_refusal_of_pin(why, reg->start, reg->length,
					   PTR_ERR(reg->umem));

	err = moor_reg_check_memory(reg, why);
	if (err)
		goto release;
	err = moor_table_build(mdev, &reg->table, reg->umem);
	if (err) {
		why->reason = moor_refusal_of_errno(err);
		goto release;
	}
	if (reg->zero_based)
		reg->iova = 0;
	return 0;

release:
	ib_umem_release(reg->umem);
	return err;
}

/**
 * moor_reg_unpin - let the memory of a registration go
 * @mdev: device
 * @reg: registration that the device does not use any more
 */
void moor_reg_unpin(struct moor_dev *mdev, struct moor_registration *reg)
{
	if (reg->odp)
		moor_odp_release(reg->odp);
	if (!reg->umem)
		return;
	moor_table_free(mdev, &reg->table);
	ib_umem_release(reg->umem);
	if (reg->dmabuf)
		moor_dmabuf_put(reg->dmabuf);
}

/**
 * moor_mr_new - make an MR that has no key yet
 * @ibpd: protection domain
 * @access: IB_ACCESS_*, checked
 * @type: enum moor_mrc_type
 *
 * Return: the MR or NULL.
 */
struct moor_mr *moor_mr_new(struct ib_pd *ibpd, int access, u8 type)
{
	struct moor_mr *mr = kzalloc_obj(*mr);

	if (!mr)
		return NULL;
	moor_reg_set_access(&mr->reg, access);
	mr->reg.pdn = to_mpd(ibpd)->pdn;
	mr->type = type;
	return mr;
}

/**
 * moor_mr_enter - give an MR a key; from then on the device serves it
 * @mdev: device
 * @mr: MR, complete; one of type INVALID gets a key, but no entry in the device
 * @why: filled in on failure
 *
 * Return: 0 or -ENOMEM.
 */
int moor_mr_enter(struct moor_dev *mdev, struct moor_mr *mr,
		  struct moor_refusal *why)
{
	int err;

	moor_odp_hold(mr->reg.odp);
	err = moor_key_alloc(mdev, mr);
	if (!err && mr->type != MOOR_MRC_TYPE_INVALID)
		moor_mr_publish(mdev, mr);
	moor_odp_begin(mr->reg.odp, mr->key);
	if (err) {
		why->reason = MOOR_REFUSAL_MR_LIMIT;
		why->limit = mdev->keys.size;
		why->value = moor_keys_used(&mdev->keys);
		return err;
	}
	mr->ibmr.lkey = mr->key;
	mr->ibmr.rkey = mr->key;
	trace_moor_reg_mr(mdev, mr);
	return 0;
}

static struct moor_mr *moor_mr_create(struct ib_pd *ibpd,
				      struct moor_ucontext *uctx, u64 iova,
				      struct moor_refusal *why)
{
	struct moor_dev *mdev = to_mdev(ibpd->device);
	struct moor_mr *mr;
	int err;

	why->reason = MOOR_REFUSAL_DEVICE;
	if (moor_is_dead(mdev))
		return ERR_PTR(-EIO);
	err = moor_reg_check_access(mdev, uctx, why->access, why);
	if (err)
		return ERR_PTR(err);

	why->reason = MOOR_REFUSAL_MEMORY;
	mr = moor_mr_new(ibpd, why->access, MOOR_MRC_TYPE_MR);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->uctx = uctx;
	mr->reg.start = why->start;
	mr->reg.length = why->length;
	mr->reg.iova = iova;
	err = moor_reg_check_range(mdev, &mr->reg, iova, why);
	if (err)
		goto free_mr;
	why->value = 0;
	why->limit = 0;
	err = moor_reg_pin(mdev, &mr->reg, why);
	if (err)
		goto free_mr;
	err = moor_mr_enter(mdev, mr, why);
	if (err)
		goto unpin;
	return mr;

unpin:
	moor_reg_unpin(mdev, &mr->reg);
free_mr:
	kfree(mr);
	return ERR_PTR(err);
}

/**
 * moor_reg_user_mr - register memory of the calling process
 * @ibpd: protection domain
 * @start: address of the first byte
 * @length: bytes
 * @iova: address of the first byte on the wire
 * @access: IB_ACCESS_*
 * @udata: no input
 *
 * Sleeps only in pinning and allocating: no command is issued. On demand nothing is
 * pinned, and only the root of the table is allocated. Start 0 and length 2^64 - 1 are
 * all of the process's memory (implicit ODP).
 *
 * Return: the MR; -EINVAL for an impossible range, a combination of rights
 * that IBA forbids, or FLUSH_PERSISTENT of memory that is not persistent;
 * -EOPNOTSUPP for a flag that we, or such memory, do not have; -ENOMEM also for the
 * device's or the process's limit; -EPERM if the process may not lock memory at all;
 * -EFAULT for memory that is not mapped; -EIO on a dead device. moor_refuse() remembers
 * which of these reasons it was.
 */
struct ib_mr *moor_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 iova, int access, struct ib_udata *udata)
{
	struct moor_refusal why = {
		.start = start,
		.length = length,
		.access = access,
	};
	struct moor_ucontext *uctx;
	struct moor_mr *mr;
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return ERR_PTR(err);

	uctx = rdma_udata_to_drv_context(udata, struct moor_ucontext,
					 ibucontext);
	mr = moor_mr_create(ibpd, uctx, iova, &why);
	if (IS_ERR(mr)) {
		moor_refuse(to_mdev(ibpd->device), udata, &why, PTR_ERR(mr));
		return ERR_CAST(mr);
	}
	mr->ibmr.iova = iova;
	mr->ibmr.length = length;
	return &mr->ibmr;
}

/**
 * moor_get_dma_mr - make an MR of all memory, for the kernel
 * @ibpd: protection domain
 * @access: IB_ACCESS_*
 *
 * The device honours such a key on QPs of the kernel alone (HWI MR-4).
 *
 * Return: the MR or an errno; -EIO on a dead device.
 */
struct ib_mr *moor_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct moor_dev *mdev = to_mdev(ibpd->device);
	struct moor_refusal why = { .access = access };
	struct moor_mr *mr;
	int err;

	if (moor_is_dead(mdev))
		return ERR_PTR(-EIO);
	err = moor_mr_check_access(moor_mr_supported(mdev), access, &why);
	if (err)
		return ERR_PTR(err);
	mr = moor_mr_new(ibpd, access, MOOR_MRC_TYPE_ALL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	err = moor_mr_enter(mdev, mr, &why);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

/*
 * The core takes an MR out of its resource tracking before it asks us, and does
 * not put it back when we refuse.
 */
static void moor_mr_track_again(struct ib_mr *ibmr)
{
	rdma_restrack_new(&ibmr->res, RDMA_RESTRACK_MR);
	rdma_restrack_set_name(&ibmr->res, NULL);
	rdma_restrack_add(&ibmr->res);
}

/*
 * Only windows of its own protection domain make an MR busy. So a device that calls
 * an MR busy, though that domain had no window all the while, is wrong and is stopped:
 * otherwise the exit of a process would fail for ever.
 */
static int moor_mr_revoke(struct moor_dev *mdev, struct moor_mr *mr)
{
	struct moor_pd *pd = to_mpd(mr->ibmr.pd);
	int gone = atomic_read_acquire(&pd->mws_gone);
	int made = atomic_read(&pd->mws_made);
	int err;

	moor_odp_leaving(mr->reg.odp, true);
	err = moor_key_revoke(mdev, mr->key);
	if (err)
		moor_odp_leaving(mr->reg.odp, false);
	if (err && made == gone && made == atomic_read(&pd->mws_made)) {
		moor_hw_kill(mdev, "it holds an MR that has no window");
		return 0;
	}
	return err;
}

/**
 * moor_dereg_mr - deregister
 * @ibmr: MR
 * @udata: unused
 *
 * Return: 0, or -EBUSY while a window is bound to the MR, which is then as usable as
 * before. No other error, and none for MRs of the kernel, to which nothing is bound.
 */
int moor_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibmr->device);
	struct moor_mr *mr = to_mmr(ibmr);
	int err = 0;
	u32 bound;

	if (!moor_dmabuf_let_go(&mr->reg) &&
	    mr->type != MOOR_MRC_TYPE_INVALID && !moor_is_revoked(&mr->exit))
		err = moor_mr_revoke(mdev, mr);
	if (err) {
		if (trace_moor_dereg_mr_busy_enabled()) {
			bound = moor_mr_count_windows(mdev, mr->key,
						      mr->reg.access);
			trace_moor_dereg_mr_busy(mdev, mr->key, bound);
		}
		moor_mr_trace_holders(mdev, mr->key);
		moor_mr_track_again(ibmr);
		return err;
	}
	trace_moor_dereg_mr(mdev, mr->key);
	if (mr->type == MOOR_MRC_TYPE_FAST_REG) {
		moor_fast_free(mdev, mr);
		return 0;
	}
	moor_key_free(mdev, mr->key);
	moor_reg_unpin(mdev, &mr->reg);
	kfree(mr);
	return 0;
}

/**
 * moor_mr_info_copy - copy what is shown of an MR
 * @mdev: device
 * @info: filled in
 * @mr: MR; the caller holds its key's lock
 */
void moor_mr_info_copy(struct moor_dev *mdev, struct moor_mr_info *info,
		       const struct moor_mr *mr)
{
	const struct moor_registration *reg = &mr->reg;

	lockdep_assert_held(moor_key_lock(mdev, mr->key));
	*info = (struct moor_mr_info){
		.key = mr->key,
		.pdn = reg->pdn,
		.access = reg->access,
		.iova = reg->iova,
		.length = reg->length,
		.start = reg->start,
		.type = mr->type,
		.generation = mr->generation,
		.nodes = reg->odp ? READ_ONCE(reg->odp->num_nodes) :
				    reg->table.num_nodes,
		.xlat = reg->table.xlat,
	};
}
