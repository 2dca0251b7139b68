// SPDX-License-Identifier: GPL-2.0
/*
 * Workers for page requests: those of a context, and what becomes of the workers when
 * the context goes while they wait for a page.
 */

#include <linux/kref.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "moor.h"

#define MOOR_FAULT_WORKERS	4	/* of a context */
#define MOOR_FAULTS_LEFT	64	/* queues in which a user may leave workers */

/*
 * Destroys fault queues and frees empty branches. Not done on moor_wq: that is
 * WQ_MEM_RECLAIM, and its work may not wait for queues that are not.
 */
struct workqueue_struct *moor_odp_wq;

/*
 * Queues whose contexts have gone while workers wait for pages that do not come. Such
 * queues are charged to nobody, so a user who left too many behind gets no new ones.
 * Those of contexts that are there are charged to nobody either: the device's doorbell
 * pages limit how many there are.
 */
static DEFINE_SPINLOCK(moor_faults_left_lock);
static LIST_HEAD(moor_faults_left);

/* A user namespace's owner counts, unless root: there the owner may have 65536 IDs. */
static kuid_t moor_faults_user(void)
{
	struct user_namespace *ns = current_user_ns();
	kuid_t user = current_uid();

	for (; ns != &init_user_ns && !uid_eq(ns->owner, GLOBAL_ROOT_UID);
	     ns = ns->parent)
		user = ns->owner;
	return user;
}

static bool moor_faults_may(kuid_t user)
{
	struct moor_fault_queue *queue;
	u32 left = 0;

	spin_lock(&moor_faults_left_lock);
	list_for_each_entry(queue, &moor_faults_left, left)
		left += uid_eq(queue->user, user);
	spin_unlock(&moor_faults_left_lock);
	return left < MOOR_FAULTS_LEFT;
}

static void moor_faults_free(struct moor_fault_queue *queue)
{
	int kind;

	spin_lock(&moor_faults_left_lock);
	list_del(&queue->left);
	spin_unlock(&moor_faults_left_lock);
	for (kind = 0; kind < MOOR_FAULT_QUEUES; kind++)
		destroy_workqueue(queue->wq[kind]);
	kfree(queue);
	module_put(THIS_MODULE);
}

/* This function ends before the module's code goes: module exit waits for moor_odp_wq. */
static void moor_faults_destroy(struct work_struct *work)
{
	moor_faults_free(container_of(work, struct moor_fault_queue, destroy));
}

static void moor_faults_last(struct kref *ref)
{
	struct moor_fault_queue *queue =
		container_of(ref, struct moor_fault_queue, ref);

	queue_work(moor_odp_wq, &queue->destroy);
}

/**
 * moor_faults_put - let a queue go
 * @queue: queue; a worker destroys it after the last reference
 */
void moor_faults_put(struct moor_fault_queue *queue)
{
	kref_put(&queue->ref, moor_faults_last);
}

/**
 * moor_faults_init - make the queue that destroys fault queues and frees branches
 *
 * Return: 0 or -ENOMEM.
 */
int moor_faults_init(void)
{
	moor_odp_wq = alloc_workqueue("moor-odp", WQ_UNBOUND, 0);
	return moor_odp_wq ? 0 : -ENOMEM;
}

void moor_faults_exit(void)
{
	destroy_workqueue(moor_odp_wq);
}

/* A queue with one reference; NULL without memory, and for a user who left too many. */
static struct moor_fault_queue *moor_faults_new(void)
{
	static const struct {
		const char *name;
		int workers;
	} wqs[MOOR_FAULT_QUEUES] = {
		[MOOR_FAULT_PAGE] = { "moor-faults", MOOR_FAULT_WORKERS },
		[MOOR_FAULT_DMABUF] = { "moor-dmabufs", MOOR_FAULT_WORKERS },
		/* The default: MOOR_PREFETCHES is the limit, over all NUMA nodes. */
		[MOOR_FAULT_ADVICE] = { "moor-advice", 0 },
	};
	kuid_t user = moor_faults_user();
	struct moor_fault_queue *queue;
	int kind;

	if (!moor_faults_may(user))
		return NULL;
	queue = kzalloc_obj(*queue);
	if (!queue)
		return NULL;
	queue->user = user;
	INIT_LIST_HEAD(&queue->left);
	for (kind = 0; kind < MOOR_FAULT_QUEUES; kind++) {
		queue->wq[kind] = alloc_workqueue("%s", WQ_UNBOUND,
						  wqs[kind].workers,
						  wqs[kind].name);
		if (!queue->wq[kind])
			goto destroy;
	}
	/* An open device does not hold the module, which may be on its way out. */
	if (!try_module_get(THIS_MODULE))
		goto destroy;
	kref_init(&queue->ref);
	INIT_WORK(&queue->destroy, moor_faults_destroy);
	return queue;

destroy:
	while (kind--)
		destroy_workqueue(queue->wq[kind]);
	kfree(queue);
	return NULL;
}

/**
 * moor_faults_open - make the workers for a context's page requests, if it has none
 * @uctx: context that is to have its first MR with paging, or another one
 *
 * Return: 0; -ENOMEM, also for a user who has left too many queues behind, or if there
 * is no doorbell page left.
 */
int moor_faults_open(struct moor_ucontext *uctx)
{
	struct moor_fault_queue *queue;
	int err;

	if (READ_ONCE(uctx->faults))
		return 0;
	err = moor_db_have_page(uctx);
	if (err)
		return err;
	queue = moor_faults_new();
	if (!queue)
		return -ENOMEM;
	if (cmpxchg_release(&uctx->faults, NULL, queue))
		moor_faults_put(queue);
	return 0;
}

static void moor_faults_idle(struct kref *ref)
{
	moor_faults_free(container_of(ref, struct moor_fault_queue, ref));
}

/**
 * moor_faults_close - the context of the workers goes
 * @uctx: context without QPs
 *
 * Workers that still wait for a page stay behind with the queue. Without such workers
 * the queue is destroyed here.
 */
void moor_faults_close(struct moor_ucontext *uctx)
{
	struct moor_fault_queue *queue = uctx->faults;

	if (!queue)
		return;
	if (kref_read(&queue->ref) > 1) {
		spin_lock(&moor_faults_left_lock);
		list_add(&queue->left, &moor_faults_left);
		spin_unlock(&moor_faults_left_lock);
	}
	kref_put(&queue->ref, moor_faults_idle);
}
