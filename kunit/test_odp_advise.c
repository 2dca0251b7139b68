// SPDX-License-Identifier: GPL-2.0
/* On-demand paging: ibv_advise_mr(), and the counters of an MR. */

#include <linux/kthread.h>
#include <linux/uaccess.h>
#include <net/netlink.h>
#include <uapi/rdma/rdma_netlink.h>

#include "paged.h"

static void odp_advise(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	u32 key = paged->mr->lkey;

	KUNIT_EXPECT_EQ(test, paged_advise(paged, key, IOVA, LENGTH, NO_FAULT, FLUSH),
			0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, false), MOOR_SYN_TRANSLATION);
	KUNIT_ASSERT_EQ(test, put_user(1, (u8 __user *)paged->addr + PAGE_SIZE), 0);
	KUNIT_ASSERT_EQ(test, put_user(1, (u8 __user *)paged->addr +
				       3 * PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, key, IOVA, LENGTH, NO_FAULT, FLUSH),
			0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, false), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + PAGE_SIZE, false), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + 2 * PAGE_SIZE, false),
			MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + 3 * PAGE_SIZE, false), 0);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, key, IOVA + 1, LENGTH - 1, PREFETCH,
					   FLUSH), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + LENGTH - 1, false), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + LENGTH - 1, true),
			MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, key, IOVA, LENGTH, PREFETCH_WRITE,
					   FLUSH), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + LENGTH - 1, true), 0);
	/* Each page was entered twice, zeros first, except those already there. */
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.prefetch),
			2 * PAGES - 2);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.faults), 0);
	paged_close(paged);
}

static void odp_advise_refused(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct ib_pd *other = moor_kunit_pd(test);
	struct moor_dev *mdev = test->priv;
	u32 key = paged->mr->lkey, consumer;
	struct ib_mr *foreign, *fixed;

	foreign = moor_kunit_reg_as(other, paged->addr, LENGTH, IOVA, PAGED,
				    paged_udata(test, &paged->pair));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, foreign);
	fixed = paged_reg(paged, paged->addr, LENGTH, IOVA, IB_ACCESS_ON_DEMAND);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixed);
	KUNIT_ASSERT_EQ(test, moor_key_alloc_consumer(mdev, &consumer), 0);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, key, IOVA, LENGTH, 99, FLUSH),
			-EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, key ^ 1, IOVA, 1, PREFETCH, FLUSH),
			-ENOENT);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, consumer, IOVA, 1, PREFETCH, FLUSH),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, foreign->lkey, IOVA, 1, PREFETCH, 0),
			-EPERM);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, fixed->lkey, IOVA, 1, PREFETCH_WRITE,
					   0), -EPERM);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, fixed->lkey, IOVA, 1, PREFETCH,
					   FLUSH), 0);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, key, IOVA, LENGTH + 1, PREFETCH, 0),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, key, IOVA - 1, 1, PREFETCH, 0),
			-EFAULT);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, key, IOVA, LENGTH, PREFETCH, FLUSH),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, paged_advise(paged, key, IOVA, LENGTH, NO_FAULT, FLUSH),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, false), MOOR_SYN_TRANSLATION);
	moor_key_free(mdev, consumer);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(fixed), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(foreign), 0);
	moor_kunit_pd_free(test, other);
	paged_close(paged);
}

struct advisor {
	struct paged *paged;
	struct completion done;
};

static int advisor_run(void *data)
{
	struct advisor *advisor = data;
	struct paged *paged = advisor->paged;

	paged_advise(paged, paged->mr->lkey, IOVA, LENGTH, PREFETCH_WRITE, 0);
	complete_all(&advisor->done);
	return 0;
}

/* Advice in the background is limited: a process that advises more has to wait. */
static void odp_advise_later(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct moor_fault_queue *queue = paged->pair.user->uctx.faults;
	struct advisor advisor = { .paged = paged };
	struct paged_hog hog;
	u32 i;

	init_completion(&advisor.done);
	paged_hog_start(test, &hog);
	for (i = 0; i < 16; i++)
		KUNIT_EXPECT_EQ(test, paged_advise(paged, paged->mr->lkey, IOVA,
						   LENGTH, PREFETCH_WRITE, 0), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->prefetches), 16);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(advisor_run, &advisor,
						       "advisor"));
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&advisor.done, HZ), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->prefetches), 16);
	paged_hog_stop(&hog);
	wait_for_completion(&advisor.done);
	moor_kunit_wait(test, !atomic_read(&queue->prefetches));
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + LENGTH - 1, true), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.prefetch),
			PAGES);
	paged_close(paged);
}

/* All prefetches wait for a page: a page request for another page is still served. */
static void odp_advise_slow(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct moor_fault_queue *queue = paged->pair.user->uctx.faults;
	struct paged_late late;
	struct ib_mr *mr;
	u32 i;

	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	paged_late_map(test, &late);
	mr = paged_reg(paged, late.addr, PAGE_SIZE, late.addr,
		       IB_ACCESS_REMOTE_READ | IB_ACCESS_ON_DEMAND);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	for (i = 0; i < MOOR_PREFETCHES; i++)
		KUNIT_EXPECT_EQ(test, paged_advise(paged, mr->lkey, late.addr, 1,
						   PREFETCH, 0), 0);
	moor_kunit_wait(test, atomic_read(&late.asked) == MOOR_PREFETCHES);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA + PAGE_SIZE, 1, 0),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_ask_key(paged, mr->lkey, late.addr - 1, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->prefetches), MOOR_PREFETCHES);
	complete_all(&late.come);
	moor_kunit_wait(test, !atomic_read(&queue->prefetches));
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	paged_late_unmap(test, &late);
	paged_close(paged);
}

/* A thread that advises with a key while the key's entry is on its way to the device. */
struct early {
	struct paged *paged;
	u32 key;
	int err;
	struct completion found;
	struct completion advised;
};

static int early_run(void *data)
{
	struct early *early = data;

	wait_for_completion(&early->found);
	early->err = paged_advise(early->paged, early->key, IOVA, 1,
				  PREFETCH_WRITE, FLUSH);
	complete_all(&early->advised);
	return 0;
}

/* The key leads to the MR already. Give the advice time, then unmap the page. */
static void early_enter(struct fake_nic *nic, u32 index)
{
	struct early *early = nic->behave.enter_arg;
	struct paged *paged = early->paged;
	struct moor_dev *mdev = paged->test->priv;
	spinlock_t *lock;

	/* Re-registering takes the old entry away first: wait for the new one. */
	if (nic->mr[index].valid)
		return;
	nic->behave.enter = NULL;
	lock = moor_keys_lock(&mdev->keys, index - mdev->keys.first);
	spin_lock(lock);
	early->key = moor_keys_mr(&mdev->keys, index - mdev->keys.first)->key;
	spin_unlock(lock);
	complete(&early->found);
	wait_for_completion_timeout(&early->advised, HZ / 2);
	KUNIT_EXPECT_EQ(paged->test, vm_munmap(paged->addr, PAGE_SIZE), 0);
}

static void early_start(struct paged *paged, struct early *early)
{
	struct fake_nic *nic = moor_kunit_nic();

	early->paged = paged;
	init_completion(&early->found);
	init_completion(&early->advised);
	nic->behave.enter_arg = early;
	nic->behave.enter = early_enter;
	KUNIT_ASSERT_NOT_ERR_OR_NULL(paged->test,
				     kthread_run(early_run, early, "early"));
}

/* The device has the entry, and only now may have pages; the advised page has gone. */
static void early_end(struct paged *paged, struct early *early)
{
	struct kunit *test = paged->test;

	wait_for_completion(&early->advised);
	KUNIT_EXPECT_EQ(test, early->err, -EFAULT);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(test->priv));
	KUNIT_EXPECT_EQ(test, paged_advise(paged, paged->mr->lkey,
					   IOVA + PAGE_SIZE, 1, PREFETCH_WRITE,
					   FLUSH), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + PAGE_SIZE, true), 0);
	paged_close(paged);
}

static void odp_early(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct early early;

	early_start(paged, &early);
	paged->mr = paged_reg(paged, paged->addr, LENGTH, IOVA, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	early_end(paged, &early);
}

static void odp_early_rereg(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct early early;

	early_start(paged, &early);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_PD, 0, 0, 0, 0), 0);
	early_end(paged, &early);
}

/* "rdma statistic show mr"; a message that is too short stays unchanged. */
static void odp_statistic(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct sk_buff *msg;
	size_t room;
	u32 len;

	msg = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, msg);
	KUNIT_EXPECT_EQ(test, moor_fill_stat_mr_entry(msg, paged->mr), 0);
	KUNIT_EXPECT_EQ(test, nla_type((struct nlattr *)msg->data),
			RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	/* Too short by more than the padding that alignment may have cost. */
	room = msg->len - 4 * sizeof(u64);
	nlmsg_free(msg);
	while (room) {
		room -= 4;
		msg = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, msg);
		skb_put(msg, skb_tailroom(msg) - room);
		len = msg->len;
		KUNIT_EXPECT_EQ(test, moor_fill_stat_mr_entry(msg, paged->mr),
				-EMSGSIZE);
		KUNIT_EXPECT_EQ(test, msg->len, len);
		nlmsg_free(msg);
	}
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_ACCESS, 0, 0, 0, 0),
			0);
	KUNIT_EXPECT_EQ(test, moor_fill_stat_mr_entry(NULL, paged->mr), 0);
	paged_close(paged);
}

static struct kunit_case odp_advise_cases[] = {
	KUNIT_CASE(odp_advise),
	KUNIT_CASE(odp_advise_refused),
	KUNIT_CASE(odp_advise_later),
	KUNIT_CASE(odp_advise_slow),
	KUNIT_CASE(odp_early),
	KUNIT_CASE(odp_early_rereg),
	KUNIT_CASE(odp_statistic),
	{}
};

static struct kunit_suite odp_advise_suite = {
	.name = "moor_odp_advise",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = odp_advise_cases,
};

kunit_test_suite(odp_advise_suite);
