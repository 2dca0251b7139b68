// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging when pages do not come: mmap_lock is held, or memory is short; and
 * objects that end meanwhile.
 */

#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/uaccess.h>

#include "paged.h"

/* Requests for a QP that does not exist, or of a process without paging: no answer. */
static void odp_nobody_asks(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct moor_eq *eq = &mdev->page_eq;
	u32 seen = READ_ONCE(eq->consumer);
	struct fake_page *page;

	page = paged_ask_for(paged, 0, 0, 1, 0);
	moor_kunit_wait(test, READ_ONCE(eq->consumer) != seen);
	moor_eq_sync(eq);
	paged->pair.qp->qpn ^= 1 << FAKE_QP_INDEX_BITS;
	paged_ask_for(paged, 0, 0, 1, 0);
	paged->pair.qp->qpn ^= 1 << FAKE_QP_INDEX_BITS;
	fake_nic_event(nic, MOOR_EQ_PAGE_REQUEST, MOOR_EVENT_COMM_EST, 0);
	paged->mr = paged_reg(paged, paged->addr, LENGTH, IOVA, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	/* All earlier requests have been handled when this one is. */
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_FALSE(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_PAGE_RESPONSE], 1);
	paged_close(paged);
}

/* A fault waits for mmap_lock: destroying the QP and the MR does not wait for it. */
static void stuck(struct paged *paged, u32 length)
{
	struct kunit *test = paged->test;
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_odp *odp = paged_odp(paged);
	struct moor_pager *pager = paged->pair.qp->pager;
	struct fake_page *page;
	struct paged_hog hog;
	u32 answers;

	kref_get(&odp->ref);
	kref_get(&pager->ref);
	answers = nic->commands[MOOR_CMD_PAGE_RESPONSE];
	paged_hog_start(test, &hog);
	page = paged_ask_for(paged, paged->mr->lkey, IOVA, length, 0);
	moor_kunit_wait(test, atomic64_read(&odp->counters.faults) == answers + 1);
	KUNIT_EXPECT_EQ(test, moor_destroy_qp(&paged->pair.qp->ibqp, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), 0);
	KUNIT_EXPECT_FALSE(test, moor_is_answered(page));
	paged_hog_stop(&hog);
	moor_kunit_wait(test, kref_read(&pager->ref) == 1);
	KUNIT_EXPECT_EQ(test, kref_read(&odp->ref), 1);
	KUNIT_EXPECT_FALSE(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_PAGE_RESPONSE], answers);
	moor_odp_put(odp);
	moor_pager_close(pager);

	moor_kunit_pd_free(test, paged->pair.pd);
	KUNIT_EXPECT_EQ(test, moor_destroy_cq(&paged->pair.cq->ibcq, NULL), 0);
	moor_user_close(test, paged->pair.user);
}

static void odp_stuck(struct kunit *test)
{
	stuck(paged_open(test), 1);
}

/* More than a page: the process's mappings are looked at first. */
static void odp_stuck_long(struct kunit *test)
{
	stuck(paged_open(test), PAGE_SIZE + 1);
}

/* The same, where no node has to be made: the branch is there. */
static void odp_stuck_again(struct kunit *test)
{
	struct paged *paged = paged_open(test);

	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	stuck(paged, PAGE_SIZE + 1);
}

/*
 * A task waits for mmap_lock to change mappings. Its turn has come, but it has not run
 * yet: it is let pass, and the prefetch is not given up. On more processors than one, the
 * task may be through before the prefetch begins.
 */
static void odp_lets_pass(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct mm_struct *mm = current->mm;
	struct paged_hog hog;

	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	mmap_read_lock(mm);
	paged_hog_queue(test, &hog);
	moor_kunit_wait(test, mmap_lock_is_contended(mm));
	complete(&hog.over);
	/* Who wakes up does not take the processor from this thread. */
	sched_set_fifo(current);
	mmap_read_unlock(mm);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, paged->mr->lkey, IOVA, LENGTH,
					   PREFETCH_WRITE, FLUSH), 0);
	sched_set_normal(current, 0);
	wait_for_completion(&hog.gone);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + LENGTH - 1, true), 0);
	paged_close(paged);
}

struct last_worker {
	struct work_struct work;
	struct moor_fault_queue *queue;
};

static void last_worker_run(struct work_struct *work)
{
	struct last_worker *last = container_of(work, struct last_worker, work);
	struct work_struct *end = &last->queue->destroy;
	int i;

	moor_faults_put(last->queue);
	while (!(work_busy(end) & WORK_BUSY_RUNNING))
		cond_resched();
	/* Let the work that destroys the queue get as far as waiting for this work. */
	for (i = 0; i < 1000; i++)
		yield();
}

/* A fault's work may outlive the context: the workqueues go with the last reference. */
static void odp_last_worker(struct kunit *test)
{
	int before = module_refcount(THIS_MODULE);
	struct moor_user *user = moor_user_open(test);
	struct last_worker last;

	KUNIT_ASSERT_EQ(test, moor_faults_open(&user->uctx), 0);
	last.queue = user->uctx.faults;
	kref_get(&last.queue->ref);
	moor_user_close(test, user);
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before + 1);
	INIT_WORK_ONSTACK(&last.work, last_worker_run);
	queue_work(last.queue->wq[MOOR_FAULT_PAGE], &last.work);
	moor_kunit_wait(test, module_refcount(THIS_MODULE) == before);
	destroy_work_on_stack(&last.work);
}

/* The MR is re-registered while a fault waits: the answer is for the new registration. */
static void odp_stuck_rereg(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct moor_odp *old = paged_odp(paged);
	struct fake_page *page;
	struct paged_hog hog;

	kref_get(&old->ref);
	paged_hog_start(test, &hog);
	page = paged_ask_for(paged, paged->mr->lkey, IOVA, 1, TO_WRITE);
	moor_kunit_wait(test, atomic64_read(&old->counters.faults) == 1);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_PD, 0, 0, 0, 0), 0);
	KUNIT_EXPECT_PTR_NE(test, paged_odp(paged), old);
	paged_hog_stop(&hog);
	moor_kunit_wait(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, page->status, MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, true), 0);
	moor_odp_put(old);
	paged_close(paged);
}

/*
 * A QP goes to RESET while it waits for pages: its later requests do not wait for the
 * earlier ones, whether the driver has already seen those or not.
 */
static void odp_reset(struct kunit *test)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	struct paged *paged = paged_open(test);
	struct moor_qp *qp = paged->pair.qp;
	struct moor_pager *old = qp->pager;
	struct moor_dev *mdev = test->priv;
	struct fake_page *seen, *unseen;
	struct paged_late late;
	struct ib_mr *mr;

	paged_late_map(test, &late);
	mr = paged_reg(paged, late.addr, PAGE_SIZE, late.addr,
		       IB_ACCESS_REMOTE_READ | IB_ACCESS_ON_DEMAND);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	seen = paged_ask_for(paged, mr->lkey, late.addr, 1, RESPONDER);
	moor_kunit_wait(test, atomic_read(&late.asked) == 1);
	disable_irq(mdev->page_eq.irq);
	unseen = paged_ask_for(paged, mr->lkey, late.addr, 1, 0);
	kref_get(&old->ref);
	KUNIT_EXPECT_EQ(test, moor_modify_qp(&qp->ibqp, &attr, IB_QP_STATE, NULL),
			0);
	enable_irq(mdev->page_eq.irq);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, RESPONDER),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_FALSE(test, completion_done(&late.come));
	complete_all(&late.come);
	moor_kunit_wait(test, kref_read(&old->ref) == 1);
	KUNIT_EXPECT_FALSE(test, moor_is_answered(seen));
	KUNIT_EXPECT_FALSE(test, moor_is_answered(unseen));
	KUNIT_EXPECT_EQ(test, old->qpn, qp->pager->qpn);
	moor_pager_close(old);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	paged_late_unmap(test, &late);
	paged_close(paged);
}

struct syncer {
	struct moor_eq *eq;
	bool begun, over;
	struct completion done;
};

static int sync_thread(void *data)
{
	struct syncer *me = data;

	WRITE_ONCE(me->begun, true);
	moor_eq_sync(me->eq);
	WRITE_ONCE(me->over, true);
	complete(&me->done);
	return 0;
}

/*
 * A task that takes a QP to RESET handles events of other QPs, too, under the EQ's lock.
 * A task that destroys one of these waits for that, though it is no interrupt.
 */
static void odp_drain_is_waited_for(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct syncer syncer = { .eq = &mdev->page_eq };
	struct task_struct *task;
	unsigned int i, here;
	bool over;

	if (num_online_cpus() < 2)
		kunit_skip(test, "one processor: nobody is in the midst of it");
	init_completion(&syncer.done);
	task = kthread_create(sync_thread, &syncer, "syncer");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	here = get_cpu();
	kthread_bind(task, cpumask_any_but(cpu_online_mask, here));
	spin_lock_irq(&syncer.eq->lock);
	wake_up_process(task);
	while (!READ_ONCE(syncer.begun))
		cpu_relax();
	for (i = 0; i < 20 && !READ_ONCE(syncer.over); i++)
		mdelay(1);
	over = READ_ONCE(syncer.over);
	spin_unlock_irq(&syncer.eq->lock);
	put_cpu();
	wait_for_completion(&syncer.done);
	KUNIT_EXPECT_FALSE(test, over);
}

/* A window is bound: the MR cannot be deregistered, and its pages come and go. */
static void odp_busy(struct kunit *test)
{
	struct paged *paged = paged_open(test);

	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	moor_kunit_hold(paged->mr, 1);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), -EBUSY);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, true), 0);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA + PAGE_SIZE, 1, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, true), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + PAGE_SIZE, true), 0);
	moor_kunit_hold(paged->mr, 0);
	paged_close(paged);
}

/*
 * BAD_INDEX: no QP waits for the answer any more. Any other refusal would leave a QP
 * waiting for ever: the device is stopped.
 */
static void odp_answer_refused(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;

	nic->behave.fail_opcode = MOOR_CMD_PAGE_RESPONSE;
	nic->behave.fail_status = MOOR_CMD_BAD_INDEX;
	paged_ask_for(paged, paged->mr->lkey, IOVA, 1, 0);
	moor_kunit_wait(test, READ_ONCE(nic->commands[MOOR_CMD_PAGE_RESPONSE]) == 1);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA + PAGE_SIZE, 1, 0),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
	nic->behave.fail_status = MOOR_CMD_BAD_PARAM;
	paged_ask_for(paged, paged->mr->lkey, IOVA, 1, 0);
	moor_kunit_wait(test, moor_is_dead(mdev));
	nic->behave.fail_status = 0;
	paged_close(paged);
}

/* On a dead device pages are unmapped without an invalidation. */
static void odp_dead(struct kunit *test)
{
	struct paged *paged = paged_open(test);

	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, LENGTH, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	moor_hw_kill(test->priv, NULL);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, paged_invalidations(), 0);
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, paged->addr, LENGTH, IOVA,
					    PAGED), ERR_PTR(-EIO));
	paged_close(paged);
}

/* Each allocation for the first fault in a branch fails in turn, its nodes included. */
static void odp_no_memory(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct moor_dev *mdev = test->priv;
	u32 nth, failed = 0;
	bool reached = true;
	int err;

	paged->mr = paged_reg(paged, 0, U64_MAX, 0, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_ASSERT_EQ(test, put_user(1, (u8 __user *)paged->addr), 0);
	for (nth = 1; reached && nth < 500; nth++) {
		moor_nodes_destroy(mdev);
		current->fail_nth = nth;
		err = paged_advise(paged, paged->mr->lkey, paged->addr, 1, NO_FAULT,
				   FLUSH);
		reached = !current->fail_nth;
		current->fail_nth = 0;
		if (!err && reached) {
			/* The failure did no harm: once more with new memory. */
			KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
			paged_expect_nodes(paged, 1);
			paged->addr = moor_kunit_mmap(test, LENGTH, true);
			KUNIT_ASSERT_EQ(test, put_user(1, (u8 __user *)paged->addr),
					0);
		}
		if (!err)
			continue;
		failed++;
		KUNIT_EXPECT_EQ(test, err, -ENOMEM);
		KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, 1);
		KUNIT_EXPECT_TRUE(test, xa_empty(&paged_odp(paged)->nodes));
		KUNIT_EXPECT_TRUE(test, xa_empty(&paged_odp(paged)->branches));
	}
	kunit_info(test, "%u allocations failed in turn\n", failed);
	KUNIT_EXPECT_GE(test, failed, 3);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, paged->addr, true), 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
	paged_close(paged);
}

/* Memory whose first faults fail. */
struct shortage {
	struct page *page;
	u32 left;		/* faults that will fail */
	u32 met;		/* faults that have failed */
};

static vm_fault_t shortage_fault(struct vm_fault *vmf)
{
	struct shortage *shortage = vmf->vma->vm_private_data;

	if (shortage->left) {
		shortage->left--;
		shortage->met++;
		return VM_FAULT_OOM;
	}
	get_page(shortage->page);
	vmf->page = shortage->page;
	return 0;
}

static const struct vm_operations_struct shortage_vm_ops = {
	.fault = shortage_fault,
};

static int shortage_mmap(struct file *file, struct vm_area_struct *vma)
{
	vma->vm_ops = &shortage_vm_ops;
	vma->vm_private_data = file->private_data;
	return 0;
}

static const struct file_operations shortage_ops = {
	.owner = THIS_MODULE,
	.mmap = shortage_mmap,
};

/* Memory is short for a moment: the fault is tried again. For longer: it fails. */
static void odp_short_of_memory(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct shortage shortage = { .left = 5 };
	unsigned long at = paged_map(test, &shortage_ops, &shortage, 0);
	struct moor_odp_counters *counters;

	shortage.page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	KUNIT_ASSERT_NOT_NULL(test, shortage.page);
	paged->mr = paged_reg(paged, at, PAGE_SIZE, at,
			      IB_ACCESS_REMOTE_READ | IB_ACCESS_ON_DEMAND);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	counters = &paged_odp(paged)->counters;
	KUNIT_EXPECT_EQ(test, paged_ask(paged, at, 1, 0), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, shortage.met, 5);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, at, false), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters->faults), 1);

	paged_map(test, &shortage_ops, &shortage, at);
	shortage.left = U32_MAX;
	shortage.met = 0;
	KUNIT_EXPECT_EQ(test, paged_ask(paged, at, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_GT(test, shortage.met, 5);
	KUNIT_EXPECT_LT(test, shortage.met, 20);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters->faults), 2);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters->handled), 1);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, paged->mr->lkey, at, 1, PREFETCH,
					   FLUSH), -ENOMEM);
	KUNIT_ASSERT_EQ(test, vm_munmap(at, PAGE_SIZE), 0);
	paged_close(paged);
	__free_page(shortage.page);
}

/* With few vectors page requests share the vector of the asynchronous events. */
static void odp_few_vectors(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev;
	struct paged *paged;

	nic->behave.odd_register = MOOR_REG_NUM_VECTORS;
	nic->behave.odd_value = MOOR_VECTOR_ASYNC + 2;
	mdev = moor_kunit_replug(test, 0);
	KUNIT_EXPECT_EQ(test, mdev->num_comp, 1);
	KUNIT_EXPECT_EQ(test, nic->eqs[MOOR_EQ_PAGE_REQUEST].vector,
			MOOR_VECTOR_ASYNC);
	paged = paged_open(test);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	paged_close(paged);
	nic->behave.odd_register = 0;
}

static struct kunit_case odp_waits_cases[] = {
	KUNIT_CASE(odp_nobody_asks),
	KUNIT_CASE(odp_stuck),
	KUNIT_CASE(odp_stuck_long),
	KUNIT_CASE(odp_stuck_again),
	KUNIT_CASE(odp_stuck_rereg),
	KUNIT_CASE(odp_lets_pass),
	KUNIT_CASE(odp_reset),
	KUNIT_CASE(odp_drain_is_waited_for),
	KUNIT_CASE(odp_last_worker),
	KUNIT_CASE(odp_busy),
	KUNIT_CASE(odp_answer_refused),
	KUNIT_CASE(odp_dead),
	KUNIT_CASE(odp_no_memory),
	KUNIT_CASE(odp_short_of_memory),
	KUNIT_CASE(odp_few_vectors),
	{}
};

static struct kunit_suite odp_waits_suite = {
	.name = "moor_odp_waits",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = odp_waits_cases,
};

kunit_test_suite(odp_waits_suite);
