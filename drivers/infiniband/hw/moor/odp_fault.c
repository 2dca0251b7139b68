// SPDX-License-Identifier: GPL-2.0
/*
 * Page requests (HWI 6.10): the device asks for a page, a worker makes the process
 * have it, enters it and answers.
 *
 * The process decides how long that takes: behind its memory may be a file system or
 * a page server of its own. So each context has workers of its own (odp_workers.c), and
 * no other task waits for a worker. A QP or an MR that goes meanwhile leaves the worker
 * behind, which finds that out from &moor_pager.mdev or &moor_odp.dead. A worker that
 * waits for a page holds no lock, and nothing of the device.
 */

#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/userfaultfd_k.h>

#include "moor.h"
#include "trace.h"

#define MOOR_FAULT_TRIES	8
#define MOOR_MEMORY_TRIES	9	/* half a second of pauses between them */
#define MOOR_AHEAD_MIN		SZ_16K
#define MOOR_AHEAD_MAX		SZ_1M

/*
 * Make the process have pages, from @start on, as if it touched them itself. May wait
 * for ever. Returns how many pages it has, all in the mapping of the first one. A
 * userfaultfd is asked for the first page alone, never ahead.
 *
 * A page that NUMA balancing watches counts as absent: hmm_range_fault() does not report
 * it. get_user_pages() without FOLL_HONOR_NUMA_FAULT would take it as present, and the
 * two would never agree.
 */
static long moor_odp_populate(struct moor_odp *odp, u64 start, u64 end,
			      bool write)
{
	struct mem_cgroup *memcg, *before;
	struct vm_area_struct *vma;
	long pages = -EFAULT;
	int locked = 1;

	if (!mmget_not_zero(odp->mm))
		return -EFAULT;
	memcg = get_mem_cgroup_from_mm(odp->mm);
	before = set_active_memcg(memcg);
	mmap_read_lock(odp->mm);
	vma = vma_lookup(odp->mm, start);
	if (vma) {
		end = userfaultfd_armed(vma) ? start + PAGE_SIZE :
					       min_t(u64, end, vma->vm_end);
		pages = get_user_pages_remote(odp->mm, start,
					      (end - start) >> PAGE_SHIFT,
					      FOLL_HONOR_NUMA_FAULT |
					      (write ? FOLL_WRITE : 0), NULL,
					      &locked);
	}
	if (locked)
		mmap_read_unlock(odp->mm);
	set_active_memcg(before);
	mem_cgroup_put(memcg);
	/* As in moor_odp_map(). */
	mmput_async(odp->mm);
	return pages ?: -EFAULT;
}

/**
 * moor_odp_fault - make the process have pages and enter them
 * @odp: translation
 * @addr: address in the process
 * @end: behind the last byte that is wanted
 * @write: to be written
 * @fresh: the number of pages that were entered is added to it
 *
 * Fewer pages are entered if the branch or the mapping ends before @end, or if
 * something gets in the way behind the first page.
 *
 * Context: process, without locks; may sleep for as long as the process takes.
 *
 * Return: pages that the device can use, from that of @addr on; 0 if they went away
 * each time before they could be entered; or an errno if the first cannot be had.
 */
long moor_odp_fault(struct moor_odp *odp, u64 addr, u64 end, bool write,
		    u32 *fresh)
{
	u64 start = ALIGN_DOWN(addr, PAGE_SIZE);
	long pages, wanted;
	int try;

	if (write && !odp->writable)
		return -EACCES;
	end = min3(PAGE_ALIGN(end), PAGE_ALIGN(odp->end),
		   ALIGN_DOWN(start, MOOR_BRANCH_SIZE) + MOOR_BRANCH_SIZE);
	wanted = (end - start) >> PAGE_SHIFT;
	/* To look for pages that are there already is quicker than to fault them in. */
	if (wanted > 1) {
		pages = moor_odp_map(odp, start, end, write, fresh);
		/* After -EFAULT the process may still get the page by a fault. */
		if (pages == wanted || (pages < 0 && pages != -EFAULT))
			return pages;
	}
	for (try = 0; try < MOOR_FAULT_TRIES; try++) {
		pages = moor_odp_populate(odp, start, end, write);
		if (pages > 0)
			pages = moor_odp_map(odp, start,
					     start + pages * PAGE_SIZE, write,
					     fresh);
		if (pages)
			return pages;
	}
	return 0;
}

/**
 * moor_paged_mr - the MR behind a key
 * @mdev: device
 * @key: of an MR
 * @pdn: protection domain of the caller, or MOOR_PDN_ANY
 *
 * Context: with the key's lock
 *
 * Return: the MR; -ENOENT for a key that is not in use, -EPERM for a key of another
 * domain, -EINVAL for an MR that is not paged, or a window.
 */
struct moor_mr *moor_paged_mr(struct moor_dev *mdev, u32 key, u32 pdn)
{
	struct moor_keys *keys = &mdev->keys;
	u32 index = moor_key_index(mdev, key);
	struct moor_mr *mr;

	lockdep_assert_held(moor_key_lock(mdev, key));
	if (index >= mdev->mw_keys.first)
		return ERR_PTR(-EINVAL);
	if (index < keys->first)
		return ERR_PTR(-ENOENT);
	mr = moor_keys_mr(keys, index - keys->first);
	if (!mr || mr->key != key)
		return ERR_PTR(-ENOENT);
	if (pdn != MOOR_PDN_ANY && mr->reg.pdn != pdn)
		return ERR_PTR(-EPERM);
	return mr->reg.odp || mr->reg.dmabuf ? mr : ERR_PTR(-EINVAL);
}

/**
 * moor_odp_get - the translation behind a key
 * @mdev: device
 * @key: of an MR
 * @pdn: protection domain of the caller, or MOOR_PDN_ANY
 *
 * Return: the translation, to be put with moor_odp_put(); or an error as of
 * moor_paged_mr(), -EINVAL also for an MR of a dma-buf.
 */
struct moor_odp *moor_odp_get(struct moor_dev *mdev, u32 key, u32 pdn)
{
	struct moor_odp *odp = ERR_PTR(-EINVAL);
	spinlock_t *lock = moor_key_lock(mdev, key);
	struct moor_mr *mr;

	spin_lock(lock);
	mr = moor_paged_mr(mdev, key, pdn);
	if (IS_ERR(mr)) {
		odp = ERR_CAST(mr);
	} else if (mr->reg.odp) {
		odp = mr->reg.odp;
		kref_get(&odp->ref);
	}
	spin_unlock(lock);
	return odp;
}

/* A half that goes on where the last fault's pages ended gets more and more ahead. */
static u64 moor_half_window(struct moor_half *half,
			    const struct moor_page_fault *fault)
{
	if (fault->key == half->next_key && fault->addr == half->next_addr)
		half->window = clamp(half->window * 2, MOOR_AHEAD_MIN,
				     MOOR_AHEAD_MAX);
	else
		half->window = 0;
	return max3(half->window, (u64)fault->length, 1ULL);
}

/*
 * Memory may be short for a moment only: a DMA mapping is allocated without waiting,
 * and for other memory the OOM killer may be ending another process. The device can
 * wait meanwhile; an error would lose its message.
 */
static long moor_half_have(struct moor_odp *odp, u64 start, u64 end, bool write)
{
	u32 fresh = 0;
	long pages;
	int try;

	for (try = 0; try < MOOR_MEMORY_TRIES; try++) {
		if (try)
			msleep(1 << try);
		pages = moor_odp_fault(odp, start, end, write, &fresh);
		if (pages != -ENOMEM)
			break;
	}
	return pages;
}

/* @fault is from the device's event: nothing in it may be relied on. */
static int moor_half_resolve(struct moor_half *half, struct moor_odp *odp,
			     const struct moor_page_fault *fault)
{
	u64 offset = fault->addr - odp->iova;
	u64 length = odp->end - odp->start;
	u64 start, window;
	long pages;

	if (offset >= length)
		return -EFAULT;
	window = min(moor_half_window(half, fault), length - offset);
	start = odp->start + offset;
	pages = moor_half_have(odp, start, start + window, fault->write);
	if (pages < 0)
		return pages;
	half->next_key = fault->key;
	half->next_addr = fault->addr - offset_in_page(start) +
			  pages * PAGE_SIZE;
	return 0;
}

static struct moor_odp *moor_half_find(struct moor_half *half, u32 key)
{
	struct moor_odp *odp = ERR_PTR(-ENOENT);
	struct moor_pager *pager = half->pager;

	mutex_lock(&pager->lock);
	if (pager->mdev)
		odp = moor_odp_get(pager->mdev, key, pager->pdn);
	if (odp == ERR_PTR(-EPERM))
		odp = moor_odp_get(pager->mdev, key, pager->srq_pdn);
	mutex_unlock(&pager->lock);
	return odp;
}

static int moor_half_fault_dmabuf(struct moor_half *half,
				  const struct moor_page_fault *fault)
{
	struct moor_dmabuf *dmabuf = ERR_PTR(-ENOENT);
	struct moor_pager *pager = half->pager;
	u32 fresh;
	int err;

	mutex_lock(&pager->lock);
	if (pager->mdev)
		dmabuf = moor_dmabuf_get(pager->mdev, fault->key, pager->pdn);
	if (dmabuf == ERR_PTR(-EPERM))
		dmabuf = moor_dmabuf_get(pager->mdev, fault->key,
					 pager->srq_pdn);
	mutex_unlock(&pager->lock);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	atomic64_inc(&dmabuf->counters.faults);
	err = moor_dmabuf_fault(dmabuf, &fresh);
	if (!err)
		atomic64_inc(&dmabuf->counters.handled);
	moor_dmabuf_put(dmabuf);
	return err;
}

static int moor_half_fault(struct moor_half *half,
			   const struct moor_page_fault *fault)
{
	struct moor_odp *odp;
	int err;

	/* -ESTALE: the MR was re-registered meanwhile; find its new translation. */
	do {
		odp = moor_half_find(half, fault->key);
		if (IS_ERR(odp))
			return PTR_ERR(odp);
		atomic64_inc(&odp->counters.faults);
		err = moor_half_resolve(half, odp, fault);
		if (!err)
			atomic64_inc(&odp->counters.handled);
		moor_odp_put(odp);
	} while (err == -ESTALE);
	return err;
}

static void moor_pager_free(struct kref *ref)
{
	struct moor_pager *pager = container_of(ref, struct moor_pager, ref);

	mutex_destroy(&pager->lock);
	kfree(pager);
}

static void moor_pager_put(struct moor_pager *pager)
{
	kref_put(&pager->ref, moor_pager_free);
}

static void moor_half_answer(struct moor_half *half,
			     const struct moor_page_fault *fault, int err)
{
	struct moor_pager *pager = half->pager;

	mutex_lock(&pager->lock);
	if (pager->mdev) {
		trace_moor_page_fault(pager->mdev, half, fault, err);
		moor_cmd_page_response(pager->mdev, fault->token, !err);
	}
	mutex_unlock(&pager->lock);
}

/*
 * A worker of one kind may find a request of the other kind here: the request that the
 * worker was queued for is forgotten, and the new one has its own worker.
 */
static struct moor_page_fault moor_half_take(struct moor_half *half)
{
	struct moor_page_fault fault;

	spin_lock_irq(&half->lock);
	fault = half->fault;
	spin_unlock_irq(&half->lock);
	return fault;
}

/*
 * Give the last request to workers, with the caller's reference on @queue. A worker of
 * the half may still be at the request before, for another context perhaps: it gives
 * this one on when it has done.
 */
static void moor_half_queue(struct moor_half *half, enum moor_fault_kind kind,
			    struct moor_fault_queue *queue)
{
	unsigned long flags;

	spin_lock_irqsave(&half->lock, flags);
	if (half->queue[kind]) {
		swap(half->next[kind], queue);
	} else {
		kref_get(&half->pager->ref);
		queue_work(queue->wq[kind], &half->work[kind]);
		swap(half->queue[kind], queue);
	}
	spin_unlock_irqrestore(&half->lock, flags);
	/* Of a request that the last one has replaced. */
	if (queue)
		moor_faults_put(queue);
}

/* A worker has done; the next run has its reference on the pager. */
static void moor_half_done(struct moor_half *half, enum moor_fault_kind kind)
{
	struct moor_pager *pager = half->pager;
	struct moor_fault_queue *queue, *next;

	spin_lock_irq(&half->lock);
	queue = half->queue[kind];
	next = half->next[kind];
	half->queue[kind] = next;
	half->next[kind] = NULL;
	if (next)
		queue_work(next->wq[kind], &half->work[kind]);
	spin_unlock_irq(&half->lock);
	if (!next)
		moor_pager_put(pager);
	moor_faults_put(queue);
}

/* The QP has gone: drop what no worker has begun. */
static void moor_half_drop(struct moor_half *half, enum moor_fault_kind kind)
{
	struct moor_fault_queue *next;

	spin_lock_irq(&half->lock);
	next = half->next[kind];
	half->next[kind] = NULL;
	spin_unlock_irq(&half->lock);
	if (next)
		moor_faults_put(next);
	if (cancel_work(&half->work[kind]))
		moor_half_done(half, kind);
}

static void moor_half_work_page(struct work_struct *work)
{
	struct moor_half *half = container_of(work, struct moor_half,
					      work[MOOR_FAULT_PAGE]);
	struct moor_page_fault fault = moor_half_take(half);

	if (fault.kind == MOOR_FAULT_PAGE)
		moor_half_answer(half, &fault, moor_half_fault(half, &fault));
	moor_half_done(half, MOOR_FAULT_PAGE);
}

static void moor_half_work_dmabuf(struct work_struct *work)
{
	struct moor_half *half = container_of(work, struct moor_half,
					      work[MOOR_FAULT_DMABUF]);
	struct moor_page_fault fault = moor_half_take(half);

	if (fault.kind == MOOR_FAULT_DMABUF)
		moor_half_answer(half, &fault,
				 moor_half_fault_dmabuf(half, &fault));
	moor_half_done(half, MOOR_FAULT_DMABUF);
}

/* The queue of the context that an MR belongs to, with a reference; or an error. */
static struct moor_fault_queue *moor_faults_of_key(struct moor_dev *mdev, u32 key)
{
	spinlock_t *lock = moor_key_lock(mdev, key);
	struct moor_fault_queue *queue;
	struct moor_mr *mr;

	spin_lock(lock);
	mr = moor_paged_mr(mdev, key, MOOR_PDN_ANY);
	if (IS_ERR(mr)) {
		queue = ERR_CAST(mr);
	} else {
		/* An MR goes before its context, and is paged after moor_faults_open(). */
		queue = mr->uctx->faults;
		kref_get(&queue->ref);
	}
	spin_unlock(lock);
	return queue;
}

/*
 * An XRC target belongs to no process: the context whose page is wanted has the work.
 * Nothing is waited for here, so all targets have these workers in common.
 */
static void moor_half_route(struct work_struct *work)
{
	struct moor_half *half = container_of(work, struct moor_half, route);
	struct moor_pager *pager = half->pager;
	struct moor_page_fault fault = moor_half_take(half);
	struct moor_fault_queue *queue;
	int err = 0;

	mutex_lock(&pager->lock);
	if (pager->mdev) {
		queue = moor_faults_of_key(pager->mdev, fault.key);
		err = PTR_ERR_OR_ZERO(queue);
		if (!err)
			moor_half_queue(half, fault.kind, queue);
	}
	mutex_unlock(&pager->lock);
	if (err)
		moor_half_answer(half, &fault, err);
	moor_pager_put(pager);
}

/* The protection domains are MOOR_PDN_ANY, as an XRC target needs them. */
static struct moor_pager *moor_pager_alloc(struct moor_dev *mdev)
{
	struct moor_pager *pager = kzalloc_obj(*pager);
	struct moor_half *half;

	if (!pager)
		return NULL;
	kref_init(&pager->ref);
	mutex_init(&pager->lock);
	pager->mdev = mdev;
	for (half = pager->half; half < pager->half + 2; half++) {
		half->pager = pager;
		spin_lock_init(&half->lock);
		INIT_WORK(&half->route, moor_half_route);
		INIT_WORK(&half->work[MOOR_FAULT_PAGE], moor_half_work_page);
		INIT_WORK(&half->work[MOOR_FAULT_DMABUF],
			  moor_half_work_dmabuf);
	}
	return pager;
}

/**
 * moor_pager_new - make the pager that answers the page requests of a QP
 * @qp: QP of a process, or an XRC target
 *
 * Return: the pager, for moor_pager_close(), or NULL.
 */
struct moor_pager *moor_pager_new(const struct moor_qp *qp)
{
	struct moor_pager *pager = moor_pager_alloc(to_mdev(qp->ibqp.device));

	if (!pager || qp->ibqp.qp_type == IB_QPT_XRC_TGT)
		return pager;
	pager->pdn = to_mpd(qp->ibqp.pd)->pdn;
	pager->srq_pdn = qp->ibqp.srq ? to_mpd(qp->ibqp.srq->pd)->pdn :
					pager->pdn;
	return pager;
}

/**
 * moor_pager_another - make the pager that a QP has from RESET on
 * @old: the QP's pager until then
 *
 * Return: the pager, for moor_pager_swap() or moor_pager_close(), or NULL.
 */
struct moor_pager *moor_pager_another(struct moor_pager *old)
{
	struct moor_pager *pager = moor_pager_alloc(old->mdev);

	if (!pager)
		return NULL;
	pager->pdn = old->pdn;
	pager->srq_pdn = old->srq_pdn;
	pager->qpn = old->qpn;
	return pager;
}

/**
 * moor_pager_swap - a QP has gone to RESET
 * @qp: QP
 * @next: its pager from now on
 *
 * Pages that the QP asked for before may take for ever to come. The device has forgotten
 * those requests, and the QP's next ones do not wait behind them.
 *
 * Return: the pager until now, for moor_pager_close().
 */
struct moor_pager *moor_pager_swap(struct moor_qp *qp, struct moor_pager *next)
{
	struct moor_eq *eq = &to_mdev(qp->ibqp.device)->page_eq;

	/* Requests from before RESET are not for @next. */
	moor_eq_drain(eq);
	spin_lock_irq(&eq->lock);
	swap(qp->pager, next);
	spin_unlock_irq(&eq->lock);
	return next;
}

/**
 * moor_pager_close - the QP has gone
 * @pager: pager that no event reaches any more, or NULL
 *
 * A request that is worked on is left to its worker. One that is being answered, under
 * the pager's lock, is waited for.
 */
void moor_pager_close(struct moor_pager *pager)
{
	struct moor_half *half;
	int kind;

	if (!pager)
		return;
	mutex_lock(&pager->lock);
	pager->mdev = NULL;
	mutex_unlock(&pager->lock);
	for (half = pager->half; half < pager->half + 2; half++)
		for (kind = 0; kind < MOOR_FAULT_KINDS; kind++)
			moor_half_drop(half, kind);
	moor_pager_put(pager);
}

/* A half has one request outstanding: a later request has replaced the one before. */
static enum moor_fault_kind
moor_half_ask(struct moor_half *half, struct moor_dev *mdev,
	      const struct moor_page_request *event)
{
	u32 key = le32_to_cpu(READ_ONCE(event->key));
	enum moor_fault_kind kind = moor_key_is_moving(mdev, key) ?
				    MOOR_FAULT_DMABUF : MOOR_FAULT_PAGE;

	spin_lock(&half->lock);
	half->fault = (struct moor_page_fault){
		.kind = kind,
		.token = le32_to_cpu(READ_ONCE(event->token)),
		.key = key,
		.addr = le64_to_cpu(READ_ONCE(event->addr)),
		.length = le32_to_cpu(READ_ONCE(event->length)),
		.write = READ_ONCE(event->flags) & MOOR_PAGE_REQUEST_WRITE,
	};
	spin_unlock(&half->lock);
	return kind;
}

/**
 * moor_page_request - the device asks for a page
 * @mdev: device
 * @event: its request
 *
 * A request for a QP that has gone, or has nothing that is paged, needs no answer: the
 * device has forgotten the request (HWI ODP-13), or lies.
 *
 * Context: with the lock of the event queue; allocates nothing.
 */
void moor_page_request(struct moor_dev *mdev,
		       const struct moor_page_request *event)
{
	struct moor_qp *qp = moor_qp_find(mdev,
					  le32_to_cpu(READ_ONCE(event->qpn)));
	struct moor_fault_queue *queue;
	enum moor_fault_kind kind;
	struct moor_half *half;

	if (!qp || !qp->pager)
		return;
	half = &qp->pager->half[!!(READ_ONCE(event->flags) &
				   MOOR_PAGE_REQUEST_RESPONDER)];
	if (qp->ibqp.qp_type == IB_QPT_XRC_TGT) {
		moor_half_ask(half, mdev, event);
		kref_get(&qp->pager->ref);
		if (!queue_work(moor_odp_wq, &half->route))
			moor_pager_put(qp->pager);
		return;
	}
	/* Pairs with moor_faults_open(). */
	queue = smp_load_acquire(&qp->uctx->faults);
	if (!queue)
		return;
	kref_get(&queue->ref);
	kind = moor_half_ask(half, mdev, event);
	moor_half_queue(half, kind, queue);
}
