// SPDX-License-Identifier: GPL-2.0
/*
 * Re-registering: every combination of changes, under the same key; and whatever
 * goes wrong, the registration is afterwards what it was before.
 */

#include <linux/kthread.h>
#include <linux/uaccess.h>

#include "harness.h"

#define ALL_FLAGS	(IB_MR_REREG_TRANS | IB_MR_REREG_PD | IB_MR_REREG_ACCESS)
#define NEW_PAGES	7
#define NEW_LENGTH	(NEW_PAGES * PAGE_SIZE - 300)
#define NEW_IOVA	0x7000000000ULL

/* A registration, and another range, PD and set of rights for it. */
struct change {
	struct moor_region *region;
	struct ib_pd *pd;
	unsigned long addr;
	struct moor_mr_context before;
};

static struct change *change_open(struct kunit *test)
{
	struct change *change = kunit_kzalloc(test, sizeof(*change), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, change);
	change->region = moor_region_new(test, ALL_RIGHTS);
	change->pd = moor_kunit_pd(test);
	change->addr = moor_kunit_mmap_scattered(test, NEW_PAGES * PAGE_SIZE) + 300;
	change->before = *moor_kunit_entry(change->region->mr->lkey);
	return change;
}

/* Re-register, with the core's part after a success. */
static int rereg(struct ib_mr *mr, int flags, u64 start, u64 length, u64 iova,
		 int access, struct ib_pd *pd)
{
	struct ib_mr *other = moor_rereg_user_mr(mr, flags, start, length, iova,
						 access, pd, NULL);

	if (IS_ERR(other))
		return PTR_ERR(other);
	if (other)
		return 1;
	if (flags & IB_MR_REREG_PD) {
		atomic_inc(&pd->usecnt);
		atomic_dec(&mr->pd->usecnt);
		mr->pd = pd;
	}
	if (flags & IB_MR_REREG_TRANS) {
		mr->iova = iova;
		mr->length = length;
	}
	return 0;
}

static int change_try(struct change *change, int flags)
{
	return rereg(change->region->mr, flags, change->addr, NEW_LENGTH,
		     NEW_IOVA + offset_in_page(change->addr),
		     IB_ACCESS_LOCAL_WRITE | IB_ACCESS_RELAXED_ORDERING,
		     flags & IB_MR_REREG_PD ? change->pd :
					      change->region->mr->pd);
}

static void change_close(struct kunit *test, struct change *change)
{
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(change->region->mr), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, change->pd);
	moor_kunit_pd_free(test, change->region->pd);
}

/* The entry, the pages, and the memory behind the key are as before. */
static void expect_untouched(struct kunit *test, struct change *change)
{
	struct moor_region *region = change->region;
	struct moor_mr *mr = to_mmr(region->mr);
	u8 want = 0x3c, got = 0;

	KUNIT_EXPECT_MEMEQ(test, (u8 *)moor_kunit_entry(mr->key),
			   (u8 *)&change->before, sizeof(change->before));
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), REGION_PAGES);
	KUNIT_EXPECT_EQ(test, mr->generation, 0);
	KUNIT_EXPECT_EQ(test, mr->reg.start, region->addr);
	KUNIT_EXPECT_EQ(test, mr->reg.length, REGION_LENGTH);
	KUNIT_EXPECT_EQ(test, mr->reg.pdn, to_mpd(region->pd)->pdn);
	KUNIT_ASSERT_EQ(test, put_user(want, (u8 __user *)(region->addr +
							   REGION_LENGTH - 1)), 0);
	KUNIT_EXPECT_EQ(test, fake_nic_access(moor_kunit_nic(), mr->key,
					      MOOR_ACCESS_REMOTE_READ,
					      region->addr + REGION_LENGTH - 1,
					      &got, 1, false), 0);
	KUNIT_EXPECT_EQ(test, got, want);
}

static const int flag_sets[] = {
	IB_MR_REREG_TRANS,
	IB_MR_REREG_PD,
	IB_MR_REREG_ACCESS,
	IB_MR_REREG_TRANS | IB_MR_REREG_PD,
	IB_MR_REREG_TRANS | IB_MR_REREG_ACCESS,
	IB_MR_REREG_PD | IB_MR_REREG_ACCESS,
	ALL_FLAGS,
};

static void flag_set_desc(const int *flags, char *desc)
{
	sprintf(desc, "%s%s%s", *flags & IB_MR_REREG_TRANS ? "translation " : "",
		*flags & IB_MR_REREG_PD ? "pd " : "",
		*flags & IB_MR_REREG_ACCESS ? "access" : "");
}

KUNIT_ARRAY_PARAM(flag_set, flag_sets, flag_set_desc);

/* Each flag changes what it names and nothing else; the key stays. */
static void rereg_changes(struct kunit *test)
{
	int flags = *(const int *)test->param_value;
	struct change *change = change_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct ib_mr *mr = change->region->mr;
	const struct moor_mr_context *entry = moor_kunit_entry(mr->lkey);
	const struct moor_mr_context *before = &change->before;
	bool trans = flags & IB_MR_REREG_TRANS;
	u64 start = trans ? change->addr : change->region->addr;
	u64 length = trans ? NEW_LENGTH : REGION_LENGTH;
	u64 iova = trans ? NEW_IOVA + offset_in_page(start) : start;
	u32 key = mr->lkey;
	u8 want = 0x91, got = 0;

	KUNIT_ASSERT_EQ(test, change_try(change, flags), 0);
	KUNIT_EXPECT_EQ(test, mr->lkey, key);
	KUNIT_EXPECT_EQ(test, FIELD_GET(MOOR_MRC_KEY, le64_to_cpu(entry->valid)),
			key);
	KUNIT_EXPECT_EQ(test, FIELD_GET(MOOR_MRC_GENERATION,
					le64_to_cpu(entry->valid)), 1);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(entry->pd),
			to_mpd(flags & IB_MR_REREG_PD ? change->pd :
				change->region->pd)->pdn);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(entry->access),
			flags & IB_MR_REREG_ACCESS ?
			MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_RELAXED_ORDERING :
			le32_to_cpu(before->access));
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->iova), iova);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->length), length);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(),
			trans ? NEW_PAGES : REGION_PAGES);

	KUNIT_ASSERT_EQ(test, put_user(want, (u8 __user *)(start + length - 1)), 0);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, 0, iova + length - 1,
					      &got, 1, false), 0);
	KUNIT_EXPECT_EQ(test, got, want);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, 0, iova + length, &got, 1,
					      false), MOOR_SYN_BOUNDS);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, MOOR_ACCESS_REMOTE_READ,
					      iova, &got, 1, false),
			flags & IB_MR_REREG_ACCESS ? MOOR_SYN_RIGHTS : 0);
	change_close(test, change);
}

/* With a window bound nothing changes, whatever the flags. */
static void rereg_busy(struct kunit *test)
{
	int flags = *(const int *)test->param_value;
	struct change *change = change_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	u32 index = change->region->mr->lkey >> (32 - FAKE_MR_INDEX_BITS);
	struct moor_dev *mdev = test->priv;
	struct moor_refusal_record *last;

	nic->windows[index] = 3;
	KUNIT_EXPECT_EQ(test, change_try(change, flags), -EBUSY);
	expect_untouched(test, change);
	last = &mdev->refusals.last[0];
	KUNIT_EXPECT_EQ(test, mdev->refusals.count, 1);
	KUNIT_EXPECT_EQ(test, last->refusal.reason, MOOR_REFUSAL_WINDOWS);
	KUNIT_EXPECT_EQ(test, last->refusal.value, 3);
	KUNIT_EXPECT_EQ(test, last->refusal.error, EBUSY);
	nic->windows[index] = 0;
	KUNIT_EXPECT_EQ(test, change_try(change, flags), 0);
	change_close(test, change);
}

struct mistake {
	const char *name;
	int flags;
	u64 start;		/* 0: the other range's */
	u64 length;
	u64 iova;
	int access;
	int err;
	u32 reason;
};

static const struct mistake mistakes[] = {
	{ "remote write without local", IB_MR_REREG_ACCESS, 0, NEW_LENGTH, 0,
	  IB_ACCESS_REMOTE_WRITE, -EINVAL, MOOR_REFUSAL_FLAGS },
	{ "the same, with everything else right", ALL_FLAGS, 0, NEW_LENGTH, 0,
	  IB_ACCESS_REMOTE_ATOMIC, -EINVAL, MOOR_REFUSAL_FLAGS },
	{ "a flag that Moor does not have", IB_MR_REREG_ACCESS, 0, NEW_LENGTH, 0,
	  IB_ACCESS_ON_DEMAND, -EOPNOTSUPP, MOOR_REFUSAL_FLAGS },
	{ "no bytes", IB_MR_REREG_TRANS, 0, 0, 0, 0, -EINVAL,
	  MOOR_REFUSAL_LENGTH },
	{ "more than the device takes", IB_MR_REREG_TRANS, 0, 1ULL << 41, 0, 0,
	  -EINVAL, MOOR_REFUSAL_LENGTH },
	{ "iova not congruent", IB_MR_REREG_TRANS | IB_MR_REREG_PD, 0, NEW_LENGTH,
	  1, 0, -EINVAL, MOOR_REFUSAL_IOVA },
	{ "iova wraps", IB_MR_REREG_TRANS, 0, NEW_LENGTH, -NEW_IOVA - PAGE_SIZE, 0,
	  -EINVAL, MOOR_REFUSAL_IOVA },
	{ "not mapped", ALL_FLAGS, 0x10000, PAGE_SIZE, -NEW_IOVA, 0, -EFAULT,
	  MOOR_REFUSAL_PAGE },
};

static void mistake_desc(const struct mistake *mistake, char *desc)
{
	strscpy(desc, mistake->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(mistake, mistakes, mistake_desc);

static void rereg_mistake(struct kunit *test)
{
	const struct mistake *m = test->param_value;
	struct change *change = change_open(test);
	struct moor_dev *mdev = test->priv;
	u32 revokes = moor_kunit_nic()->commands[MOOR_CMD_MR_REVOKE];
	u64 start = m->start ?: change->addr;

	KUNIT_EXPECT_EQ(test, rereg(change->region->mr, m->flags, start, m->length,
				    NEW_IOVA + offset_in_page(start) + m->iova,
				    m->access, change->pd), m->err);
	KUNIT_EXPECT_EQ(test, moor_kunit_nic()->commands[MOOR_CMD_MR_REVOKE],
			revokes);
	KUNIT_EXPECT_EQ(test, mdev->refusals.last[0].refusal.reason, m->reason);
	KUNIT_EXPECT_EQ(test, mdev->refusals.last[0].refusal.error, -m->err);
	expect_untouched(test, change);
	change_close(test, change);
}

static void rereg_input(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct change *change = change_open(test);
	struct ib_udata *udata;
	u8 in[8] = { [3] = 1 };
	struct ib_mr *mr;

	udata = moor_user_udata(test, user, in, sizeof(in), 0);
	mr = moor_rereg_user_mr(change->region->mr, IB_MR_REREG_ACCESS, 0, 0, 0, 0,
				change->pd, udata);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP);
	expect_untouched(test, change);
	change_close(test, change);
	moor_user_close(test, user);
}

/* Memory pinned for reading stays so until it is pinned anew. */
static void rereg_read_only(struct kunit *test)
{
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, false);
	unsigned long other = moor_kunit_mmap(test, REGION_LENGTH, true);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct moor_dev *mdev = test->priv;
	struct ib_mr *mr;
	u8 byte = 1;

	mr = moor_kunit_reg(pd, addr, REGION_LENGTH, addr, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, rereg(mr, IB_MR_REREG_ACCESS, 0, 0, 0,
				    IB_ACCESS_REMOTE_READ, pd), 0);
	KUNIT_EXPECT_EQ(test, rereg(mr, IB_MR_REREG_ACCESS, 0, 0, 0,
				    IB_ACCESS_LOCAL_WRITE, pd), -EACCES);
	KUNIT_EXPECT_EQ(test, mdev->refusals.last[0].refusal.value,
			IB_ACCESS_LOCAL_WRITE);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(moor_kunit_entry(mr->lkey)->access),
			MOOR_ACCESS_REMOTE_READ);
	KUNIT_EXPECT_EQ(test, rereg(mr, IB_MR_REREG_TRANS | IB_MR_REREG_ACCESS,
				    addr, REGION_LENGTH, addr,
				    IB_ACCESS_LOCAL_WRITE, pd), -EFAULT);
	KUNIT_EXPECT_EQ(test, rereg(mr, IB_MR_REREG_TRANS | IB_MR_REREG_ACCESS,
				    other, REGION_LENGTH, other,
				    IB_ACCESS_LOCAL_WRITE, pd), 0);
	KUNIT_EXPECT_EQ(test, fake_nic_access(moor_kunit_nic(), mr->lkey,
					      MOOR_ACCESS_LOCAL_WRITE, other,
					      &byte, 1, true), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, pd);
}

/* Addresses from 0, and back to the iova that the core knows. */
static void rereg_zero_based(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	const struct moor_mr_context *entry = moor_kunit_entry(region->mr->lkey);

	KUNIT_ASSERT_EQ(test, rereg(region->mr, IB_MR_REREG_ACCESS, 0, 0, 0,
				    IB_ZERO_BASED, region->pd), 0);
	KUNIT_EXPECT_EQ(test, entry->iova, 0);
	/* Another change keeps IB_ZERO_BASED. */
	KUNIT_ASSERT_EQ(test, rereg(region->mr, IB_MR_REREG_PD, 0, 0, 0, 0,
				    region->pd), 0);
	KUNIT_EXPECT_EQ(test, entry->iova, 0);
	KUNIT_ASSERT_EQ(test, rereg(region->mr, IB_MR_REREG_ACCESS, 0, 0, 0,
				    ALL_RIGHTS, region->pd), 0);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->iova), region->addr);
	moor_region_free(test, region);
}

/* More often than a generation has values: the fake NIC watches the words. */
static void rereg_generations(struct kunit *test)
{
	struct change *change = change_open(test);
	struct moor_region *region = change->region;
	struct moor_dev *mdev = test->priv;
	u32 nodes = mdev->nodes.count, i;

	for (i = 0; i < 300; i++) {
		KUNIT_ASSERT_EQ(test, change_try(change, IB_MR_REREG_TRANS), 0);
		KUNIT_ASSERT_EQ(test, rereg(region->mr, IB_MR_REREG_TRANS,
					    region->addr, REGION_LENGTH,
					    region->addr, 0, region->pd), 0);
	}
	KUNIT_EXPECT_EQ(test, to_mmr(region->mr)->generation, (u8)600);
	KUNIT_EXPECT_EQ(test, mdev->nodes.count, nodes);
	change_close(test, change);
}

static void rereg_dead(struct kunit *test)
{
	struct change *change = change_open(test);
	struct moor_dev *mdev = test->priv;

	moor_hw_kill(mdev, "a test asks for it");
	KUNIT_EXPECT_EQ(test, change_try(change, ALL_FLAGS), -EIO);
	KUNIT_EXPECT_EQ(test, mdev->refusals.last[0].refusal.reason,
			MOOR_REFUSAL_DEVICE);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), REGION_PAGES);
	change_close(test, change);
}

struct worker {
	struct change *change;
	struct mm_struct *mm;
	int err;
	struct completion done;
};

static int rereg_thread(void *data)
{
	struct worker *me = data;

	kthread_use_mm(me->mm);
	me->err = change_try(me->change, IB_MR_REREG_TRANS);
	kthread_unuse_mm(me->mm);
	complete_all(&me->done);
	return 0;
}

/* New pages are pinned before the fence, old ones stay pinned until after it. */
static void rereg_fence(struct kunit *test)
{
	struct change *change = change_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct worker worker = { .change = change, .mm = current->mm };

	init_completion(&worker.done);
	WRITE_ONCE(nic->behave.pause, true);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(rereg_thread, &worker,
						       "rereg"));
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&worker.done, HZ), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), REGION_PAGES + NEW_PAGES);
	KUNIT_EXPECT_MEMEQ(test,
			   (u8 *)moor_kunit_entry(change->region->mr->lkey),
			   (u8 *)&change->before, sizeof(change->before));
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
	wait_for_completion(&worker.done);
	KUNIT_EXPECT_EQ(test, worker.err, 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), NEW_PAGES);
	change_close(test, change);
}

static struct kunit_case rereg_cases[] = {
	KUNIT_CASE_PARAM(rereg_changes, flag_set_gen_params),
	KUNIT_CASE_PARAM(rereg_busy, flag_set_gen_params),
	KUNIT_CASE_PARAM(rereg_mistake, mistake_gen_params),
	KUNIT_CASE(rereg_input),
	KUNIT_CASE(rereg_read_only),
	KUNIT_CASE(rereg_zero_based),
	KUNIT_CASE(rereg_generations),
	KUNIT_CASE(rereg_dead),
	KUNIT_CASE(rereg_fence),
	{}
};

static struct kunit_suite rereg_suite = {
	.name = "moor_rereg",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = rereg_cases,
};

kunit_test_suite(rereg_suite);
