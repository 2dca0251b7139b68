// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a dma-buf whose owner moves it: its table, which tasks wait for which, and
 * what happens when it cannot be mapped again.
 */

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/fdtable.h>
#include <linux/kthread.h>

#include "../tests/kernel/exporter.h"
#include "harness.h"

#define LENGTH		(EXPORTER_PAGES * PAGE_SIZE)
#define IOVA		0x123456000ULL
#define RIGHTS		(ALL_RIGHTS & ~IB_ACCESS_MW_BIND)
#define TO_WRITE	(MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_LOCAL_WRITE)
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define PREFETCH	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH		IB_UVERBS_ADVISE_MR_FLAG_FLUSH

/* An MR of LENGTH of a buffer, a QP that faults, and a paged MR beside it. */
struct moving {
	struct kunit *test;
	struct moor_pair pair;
	struct ib_mr *mr;
	struct ib_mr *paged;
	unsigned long addr;
	int fd;
	u32 token;
};

static struct ib_mr *moving_reg(struct moving *moving, u64 offset, u64 length,
				u64 iova, int access)
{
	struct ib_mr *mr;

	moor_user_udata(moving->test, moving->pair.user, NULL, 0, 0);
	mr = moor_reg_user_mr_dmabuf(moving->pair.pd, offset, length, iova,
				     moving->fd, access,
				     &moving->pair.user->attrs);
	if (!IS_ERR(mr)) {
		mr->device = moving->pair.pd->device;
		mr->pd = moving->pair.pd;
	}
	return mr;
}

static struct moving *moving_open(struct kunit *test)
{
	struct moving *moving = kunit_kzalloc(test, sizeof(*moving), GFP_KERNEL);
	struct ib_udata *udata;

	if (!moor_dmabufs_move()) {
		KUNIT_ASSERT_LT(test, LINUX_VERSION_CODE, KERNEL_VERSION(7, 2, 0));
		kunit_skip(test, "nothing moves on this kernel");
	}
	KUNIT_ASSERT_NOT_NULL(test, moving);
	moving->test = test;
	moor_pair_open(test, &moving->pair);
	moving->addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	udata = moor_user_udata(test, moving->pair.user, NULL, 0, 0);
	moving->paged = moor_kunit_reg_as(moving->pair.pd, moving->addr,
					  PAGE_SIZE, moving->addr,
					  RIGHTS | IB_ACCESS_ON_DEMAND, udata);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, moving->paged);
	moving->fd = exported_make();
	KUNIT_ASSERT_GE(test, moving->fd, 0);
	moving->mr = moving_reg(moving, 0, LENGTH, IOVA, RIGHTS);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, moving->mr);
	return moving;
}

static void moving_close(struct moving *moving)
{
	struct kunit *test = moving->test;

	if (moving->mr)
		KUNIT_EXPECT_EQ(test, moor_dereg_mr(moving->mr, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(moving->paged), 0);
	close_fd(moving->fd);
	moor_pair_close(test, &moving->pair);
}

static int owner(struct moving *moving, unsigned int cmd)
{
	return exported_change(cmd, moving->fd);
}

static struct moor_odp_counters *counters(struct moving *moving)
{
	return &to_mmr(moving->mr)->reg.dmabuf->counters;
}

static u32 invalidations(void)
{
	return moor_kunit_nic()->commands[MOOR_CMD_MR_INVALIDATE];
}

/* A write by the device. Return: 0, or a syndrome. */
static int put(struct ib_mr *mr, u64 addr, u64 value)
{
	return fake_nic_access(moor_kunit_nic(), mr->rkey, TO_WRITE, addr,
			       &value, sizeof(value), true);
}

static u64 get(struct kunit *test, struct ib_mr *mr, u64 addr)
{
	u64 value = 0;

	KUNIT_EXPECT_EQ(test, fake_nic_access(moor_kunit_nic(), mr->rkey,
					      MOOR_ACCESS_REMOTE_READ, addr,
					      &value, sizeof(value), false), 0);
	return value;
}

static struct fake_page *ask_for(struct moving *moving, struct ib_mr *mr,
				 u64 addr, u8 flags)
{
	return moor_pair_ask(&moving->pair, ++moving->token, mr->lkey, addr, 8,
			     flags);
}

static u8 ask(struct moving *moving, struct ib_mr *mr, u64 addr)
{
	struct fake_page *page = ask_for(moving, mr, addr, 0);

	moor_kunit_wait(moving->test, moor_is_answered(page));
	return page->status;
}

/* Pages of the process are served, whether or not a worker waits for a buffer. */
static void expect_pages(struct moving *moving)
{
	struct fake_page *page = ask_for(moving, moving->paged, moving->addr,
					 RESPONDER);

	moor_kunit_wait(moving->test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(moving->test, page->status, MOOR_PAGE_RESOLVED);
}

static int advise(struct moving *moving, u64 addr, u32 length,
		  enum ib_uverbs_advise_mr_advice advice, u32 flags)
{
	struct ib_sge sge = {
		.addr = addr, .length = length, .lkey = moving->mr->lkey,
	};

	return moor_advise_mr(moving->pair.pd, advice, flags, &sge, 1,
			      &moving->pair.user->attrs);
}

/* The buffer is mapped as a whole, and unmapped as a whole, and keeps its data. */
static void move_data(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	const struct moor_mr_context *entry = moor_kunit_entry(moving->mr->rkey);
	const struct moor_cmd_mr_invalidate *cmd = &moor_kunit_nic()->invalidated;
	int round;
	u64 i;

	KUNIT_EXPECT_TRUE(test, le32_to_cpu(entry->access) &
				MOOR_ACCESS_ON_DEMAND);
	KUNIT_EXPECT_EQ(test, entry->xlat.levels, 2);
	for (i = 0; i < EXPORTER_PAGES; i++)
		KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA + i * PAGE_SIZE, i), 0);
	for (round = 1; round < 5; round++) {
		KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
		KUNIT_EXPECT_EQ(test, invalidations(), round);
		KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd->key), moving->mr->rkey);
		KUNIT_EXPECT_EQ(test, le64_to_cpu(cmd->addr), IOVA);
		KUNIT_EXPECT_EQ(test, le64_to_cpu(cmd->length), LENGTH);
		KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA, 1),
				MOOR_SYN_TRANSLATION);
		KUNIT_EXPECT_EQ(test, ask(moving, moving->mr, IOVA + LENGTH - 8),
				MOOR_PAGE_RESOLVED);
		for (i = 0; i < EXPORTER_PAGES; i++) {
			KUNIT_EXPECT_EQ(test, get(test, moving->mr,
						  IOVA + i * PAGE_SIZE),
					i + round - 1);
			KUNIT_EXPECT_EQ(test, put(moving->mr,
						  IOVA + i * PAGE_SIZE,
						  i + round), 0);
		}
	}
	/* Mapped already: nothing happens. */
	KUNIT_EXPECT_EQ(test, ask(moving, moving->mr, IOVA), MOOR_PAGE_RESOLVED);
	/* Not mapped: it moves all the same, and the device gets no MR_INVALIDATE. */
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, invalidations(), round);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters(moving)->faults), round);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters(moving)->handled), round);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters(moving)->invalidations),
			round * EXPORTER_PAGES);
	moving_close(moving);
}

/* An MR of a part of the buffer, with another iova. */
static void move_offset(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	struct ib_mr *mr = moving_reg(moving, 3 * PAGE_SIZE + 16, PAGE_SIZE, 16,
				      RIGHTS);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, put(mr, 16, 0x4711), 0);
	KUNIT_EXPECT_EQ(test, put(mr, 8 + PAGE_SIZE, 0x815), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, ask(moving, mr, 16), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, get(test, mr, 16), 0x4711);
	KUNIT_EXPECT_EQ(test, get(test, mr, 8 + PAGE_SIZE), 0x815);
	KUNIT_EXPECT_EQ(test, put(mr, 12 + PAGE_SIZE, 0), MOOR_SYN_BOUNDS);
	/* The other MR of the buffer is not mapped by it. */
	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA, 1), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, ask(moving, moving->mr, IOVA), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, get(test, moving->mr, IOVA + 3 * PAGE_SIZE + 16),
			0x4711);
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(mr, NULL), 0);
	moving_close(moving);
}

/* The owner refuses a mapping: that access fails, and nothing else has happened. */
static void expect_refused(struct moving *moving)
{
	struct moor_keys *keys = &moor_kunit_attached(moving->test)->keys;
	struct kunit *test = moving->test;
	u32 used = moor_keys_used(keys);
	u64 handled = atomic64_read(&counters(moving)->handled);

	KUNIT_EXPECT_EQ(test, ask(moving, moving->mr, IOVA), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_NE(test, moor_kunit_entry(moving->mr->rkey)->valid, 0);
	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA, 1), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, moor_keys_used(keys), used);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters(moving)->handled), handled);
	expect_pages(moving);
}

/* The owner has given the buffer after all. */
static void expect_mapped_again(struct moving *moving, u64 value)
{
	struct kunit *test = moving->test;

	KUNIT_EXPECT_EQ(test, ask(moving, moving->mr, IOVA), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, get(test, moving->mr, IOVA + 8), value);
}

static void expect_no_rereg(struct moving *moving)
{
	struct kunit *test = moving->test;
	struct ib_mr *mr;

	mr = moor_rereg_user_mr(moving->mr, IB_MR_REREG_ACCESS, 0, 0, 0, RIGHTS,
				moving->pair.pd,
				moor_user_udata(test, moving->pair.user, NULL,
						0, 0));
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP);
}

/* Each failure fails one access, or one advice, and the next one maps the buffer. */
static void move_failed(struct kunit *test)
{
	struct moving *moving = moving_open(test);

	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA + 8, 0x99), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_FAIL), 0);
	expect_refused(moving);
	expect_no_rereg(moving);
	expect_mapped_again(moving, 0x99);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_FAIL), 0);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA, 8, PREFETCH, FLUSH),
			-EXPORTER_ERROR);
	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA, 1), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA, 8, PREFETCH, FLUSH), 0);
	KUNIT_EXPECT_EQ(test, get(test, moving->mr, IOVA + 8), 0x99);
	moving_close(moving);
}

static void move_short(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	struct ib_mr *mr;

	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_SHORT), 0);
	mr = moving_reg(moving, 0, LENGTH, 0, RIGHTS);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EINVAL);
	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA + 8, 0x99), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_SHORT), 0);
	expect_refused(moving);
	expect_mapped_again(moving, 0x99);
	moving_close(moving);
}

/* The owner refuses every mapping from now on. */
static void move_taken_back(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	struct ib_mr *mr;

	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_TAKE_BACK), 0);
	expect_refused(moving);
	expect_refused(moving);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA, 8, PREFETCH, FLUSH), -ENODEV);
	expect_no_rereg(moving);
	mr = moving_reg(moving, 0, LENGTH, 0, RIGHTS);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -ENODEV);
	moving_close(moving);
}

/* A signal interrupts the task that would have mapped the buffer. */
static void move_interrupted(struct kunit *test)
{
	struct moving *moving = moving_open(test);

	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA + 8, 0x99), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_INTERRUPT), 0);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA, 8, PREFETCH, FLUSH), -EINTR);
	expect_mapped_again(moving, 0x99);
	moving_close(moving);
}

/* Until the buffer has arrived it is not mapped, and only what needs it waits. */
static void move_fence(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	struct moor_fault_queue *queue = moving->pair.user->uctx.faults;
	struct fake_page *page;

	/* With one worker, a wait for the buffer there would hold up the process's pages. */
	workqueue_set_max_active(queue->wq[MOOR_FAULT_PAGE], 1);
	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA, 0x4711), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE_BEGIN), 0);
	page = ask_for(moving, moving->mr, IOVA, 0);
	moor_kunit_wait(test, atomic64_read(&counters(moving)->faults) == 1);
	expect_pages(moving);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA, 8, PREFETCH, 0), 0);
	expect_pages(moving);
	KUNIT_EXPECT_FALSE(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA, 1), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE_END), 0);
	moor_kunit_wait(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, page->status, MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, get(test, moving->mr, IOVA), 0x4711);
	moor_kunit_wait(test, !atomic_read(&queue->prefetches));
	moving_close(moving);
}

/* Neither the end of an MR nor that of a QP waits for what a worker waits for. */
static void move_fence_dereg(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	struct moor_dmabuf *dmabuf = to_mmr(moving->mr)->reg.dmabuf;
	struct fake_page *page;

	kref_get(&dmabuf->ref);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE_BEGIN), 0);
	page = ask_for(moving, moving->mr, IOVA, 0);
	moor_kunit_wait(test, atomic64_read(&dmabuf->counters.faults) == 1);
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(moving->mr, NULL), 0);
	moving->mr = NULL;
	KUNIT_EXPECT_FALSE(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE_END), 0);
	moor_kunit_wait(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, page->status, MOOR_PAGE_FAILED);
	moor_kunit_wait(test, kref_read(&dmabuf->ref) == 1);
	moor_dmabuf_put(dmabuf);
	moving_close(moving);
}

/* A thread that holds the buffer's reservation lock for a while. */
struct owner {
	struct dma_buf *buf;
	struct completion begun;
	struct completion over;
	struct completion gone;
	bool linger;
	bool let_go;
};

static int owner_run(void *data)
{
	struct owner *owner = data;

	dma_resv_lock(owner->buf->resv, NULL);
	complete(&owner->begun);
	if (owner->linger)
		schedule_timeout_uninterruptible(HZ / 5);
	else
		wait_for_completion(&owner->over);
	WRITE_ONCE(owner->let_go, true);
	dma_resv_unlock(owner->buf->resv);
	complete(&owner->gone);
	return 0;
}

static void owner_start(struct moving *moving, struct owner *owner)
{
	struct kunit *test = moving->test;

	owner->buf = to_mmr(moving->mr)->reg.dmabuf->buf;
	init_completion(&owner->begun);
	init_completion(&owner->over);
	init_completion(&owner->gone);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(owner_run, owner, "owner"));
	wait_for_completion(&owner->begun);
}

/* While its owner has it locked it is not mapped; the process's pages are served. */
static void move_locked(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	struct owner locker = {};
	struct fake_page *page;

	workqueue_set_max_active(moving->pair.user->uctx.faults->wq[MOOR_FAULT_PAGE],
				 1);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	owner_start(moving, &locker);
	page = ask_for(moving, moving->mr, IOVA, 0);
	moor_kunit_wait(test, atomic64_read(&counters(moving)->faults) == 1);
	expect_pages(moving);
	KUNIT_EXPECT_FALSE(test, moor_is_answered(page));
	complete(&locker.over);
	wait_for_completion(&locker.gone);
	moor_kunit_wait(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, page->status, MOOR_PAGE_RESOLVED);
	moving_close(moving);
}

/* The owner may be moving the buffer: deregistering waits for the lock. */
static void move_locked_dereg(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	struct owner locker = { .linger = true };

	owner_start(moving, &locker);
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(moving->mr, NULL), 0);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(locker.let_go));
	wait_for_completion(&locker.gone);
	moving->mr = NULL;
	moving_close(moving);
}

static void move_advise(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	u32 key = moving->mr->lkey;
	struct ib_mr *read_only;

	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA, LENGTH, NO_FAULT, FLUSH), 0);
	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA, 1), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA + 8, LENGTH, PREFETCH, FLUSH),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA - 8, 8, PREFETCH, FLUSH),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA, 1), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA + LENGTH - 8, 8, PREFETCH_WRITE,
				     FLUSH), 0);
	KUNIT_EXPECT_EQ(test, put(moving->mr, IOVA, 1), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters(moving)->prefetch),
			EXPORTER_PAGES);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters(moving)->faults), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA, 8, PREFETCH, 0), 0);
	moor_kunit_wait(test, atomic64_read(&counters(moving)->prefetch) ==
			      2 * EXPORTER_PAGES);
	moor_kunit_wait(test, !put(moving->mr, IOVA, 1));

	read_only = moving_reg(moving, 0, LENGTH, IOVA, IB_ACCESS_REMOTE_READ);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, read_only);
	swap(moving->mr, read_only);
	KUNIT_EXPECT_EQ(test, advise(moving, IOVA, 8, PREFETCH_WRITE, FLUSH),
			-EPERM);
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(moving->mr, NULL), 0);
	moving->mr = read_only;
	KUNIT_EXPECT_EQ(test, moving->mr->lkey, key);
	moor_kunit_wait(test, !atomic_read(&moving->pair.user->uctx.faults->prefetches));
	moving_close(moving);
}

/* Requests for another domain's MR, or outside the MR: an answer, and no mapping. */
static void move_lies(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	struct ib_pd *own = moving->pair.pd;
	struct ib_mr *foreign;

	moving->pair.pd = moor_kunit_pd(test);
	foreign = moving_reg(moving, 0, LENGTH, IOVA, RIGHTS);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, foreign);
	swap(moving->pair.pd, own);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, ask(moving, foreign, IOVA), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, put(foreign, IOVA, 1), MOOR_SYN_TRANSLATION);
	/* Unless it is the domain of the SRQ, whose receives the QP takes. */
	moving->pair.qp->pager->srq_pdn = to_mpd(own)->pdn;
	KUNIT_EXPECT_EQ(test, ask(moving, foreign, IOVA), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, put(foreign, IOVA, 1), 0);
	KUNIT_EXPECT_EQ(test, ask(moving, moving->mr, U64_MAX),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(foreign, NULL), 0);
	moor_kunit_pd_free(test, own);
	moving_close(moving);
}

/* A device that does not forget is stopped before the buffer is given back. */
static void move_no_fence(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	struct fake_nic *nic = moor_kunit_nic();

	nic->behave.fail_opcode = MOOR_CMD_MR_INVALIDATE;
	nic->behave.fail_status = MOOR_CMD_BAD_INDEX;
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_TRUE(test, moor_is_dead(test->priv));
	moving_close(moving);
}

/* A device that says that an MR to which no window can be bound is busy is stopped. */
static void move_busy(struct kunit *test)
{
	struct moving *moving = moving_open(test);

	moor_kunit_hold(moving->mr, 1);
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(moving->mr, NULL), 0);
	moving->mr = NULL;
	KUNIT_EXPECT_TRUE(test, moor_is_dead(test->priv));
	moving_close(moving);
}

static void move_dead(struct kunit *test)
{
	struct moving *moving = moving_open(test);

	moor_hw_kill(test->priv, NULL);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_MOVE), 0);
	KUNIT_EXPECT_EQ(test, owner(moving, EXPORTER_TAKE_BACK), 0);
	moving_close(moving);
}

/* Each allocation fails in turn: the MR is there or nothing is left of it. */
static void move_no_memory(struct kunit *test)
{
	struct moving *moving = moving_open(test);
	u32 nth, failed = 0;
	bool reached = true;
	struct ib_mr *mr;

	for (nth = 1; reached && nth < 500; nth++) {
		moor_nodes_destroy(test->priv);
		current->fail_nth = nth;
		mr = moving_reg(moving, 0, LENGTH, 0, RIGHTS);
		reached = !current->fail_nth;
		current->fail_nth = 0;
		if (IS_ERR(mr)) {
			KUNIT_EXPECT_EQ(test, PTR_ERR(mr), -ENOMEM);
			failed++;
			continue;
		}
		KUNIT_EXPECT_EQ(test, put(mr, 0, nth), 0);
		KUNIT_EXPECT_EQ(test, moor_dereg_mr(mr, NULL), 0);
	}
	KUNIT_EXPECT_GT(test, failed, 3);
	moving_close(moving);
}

static struct kunit_case move_cases[] = {
	KUNIT_CASE(move_data),
	KUNIT_CASE(move_offset),
	KUNIT_CASE(move_failed),
	KUNIT_CASE(move_short),
	KUNIT_CASE(move_taken_back),
	KUNIT_CASE(move_interrupted),
	KUNIT_CASE(move_fence),
	KUNIT_CASE(move_fence_dereg),
	KUNIT_CASE(move_locked),
	KUNIT_CASE(move_locked_dereg),
	KUNIT_CASE(move_advise),
	KUNIT_CASE(move_lies),
	KUNIT_CASE(move_no_fence),
	KUNIT_CASE(move_busy),
	KUNIT_CASE(move_dead),
	KUNIT_CASE(move_no_memory),
	{}
};

static struct kunit_suite move_suite = {
	.name = "moor_dmabuf_move",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = move_cases,
};

kunit_test_suite(move_suite);
