// SPDX-License-Identifier: GPL-2.0
/*
 * A process at the character device: contexts, mappings, and Moor's own methods. The
 * core makes its checks before the driver's.
 */

#include <linux/mman.h>

#include "process.h"

static struct moor_process *opened(struct kunit *test,
				   struct moor_alloc_ucontext_resp *resp)
{
	struct moor_process *process = moor_process_open(test);

	KUNIT_ASSERT_EQ(test, moor_process_context(process, resp), 0);
	return process;
}

static void uverbs_context(struct kunit *test)
{
	struct moor_alloc_ucontext_resp resp, again = {};
	struct moor_process *process = opened(test, &resp);
	unsigned long at;

	KUNIT_EXPECT_EQ(test, resp.hw_version, moor_kunit_nic()->version);
	KUNIT_EXPECT_EQ(test, resp.null_lkey, FAKE_NULL_LKEY);
	KUNIT_EXPECT_EQ(test, resp.features, fake_features(moor_kunit_nic()));
	KUNIT_EXPECT_EQ(test, resp.max_inline, 256);
	KUNIT_EXPECT_EQ(test, resp.reserved, 0);

	/* A process that imports the context gets the same answer. */
	moor_call_begin(process, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT);
	at = moor_call_room(process, MOOR_ATTR_QUERY_CONTEXT_RESP, NULL,
			    sizeof(again));
	KUNIT_EXPECT_EQ(test, moor_call_run(process), 0);
	moor_process_get(process, at, &again, sizeof(again));
	KUNIT_EXPECT_MEMEQ(test, (u8 *)&again, (u8 *)&resp, sizeof(resp));

	KUNIT_EXPECT_EQ(test, moor_process_context(process, &again), -EINVAL);
	moor_process_close(process);
}

/* The doze page can be mapped only whole, shared and read-only. */
static void uverbs_map_doze(struct kunit *test)
{
	struct moor_alloc_ucontext_resp resp;
	struct moor_process *process = opened(test, &resp);
	u64 doze = resp.doze_mmap_offset;
	struct vm_area_struct *vma;
	long at;

	KUNIT_EXPECT_EQ(test, moor_process_mmap(process, doze, PAGE_SIZE,
						PROT_READ | PROT_WRITE,
						MAP_SHARED), -EPERM);
	KUNIT_EXPECT_EQ(test, moor_process_mmap(process, doze, PAGE_SIZE,
						PROT_READ, MAP_PRIVATE), -EINVAL);
	KUNIT_EXPECT_EQ(test, moor_process_mmap(process, doze, 2 * PAGE_SIZE,
						PROT_READ, MAP_SHARED), -EINVAL);
	KUNIT_EXPECT_EQ(test, moor_process_mmap(process, doze + 64 * PAGE_SIZE,
						PAGE_SIZE, PROT_READ,
						MAP_SHARED), -EINVAL);
	at = moor_process_mmap(process, doze, PAGE_SIZE, PROT_READ, MAP_SHARED);
	KUNIT_ASSERT_GT(test, at, 0);
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, at);
	KUNIT_EXPECT_TRUE(test, vma->vm_flags & VM_DONTCOPY);
	/* It cannot be made writable afterwards: only the device writes it. */
	KUNIT_EXPECT_FALSE(test, vma->vm_flags & (VM_WRITE | VM_MAYWRITE));
	mmap_read_unlock(current->mm);
	KUNIT_EXPECT_EQ(test, vm_munmap(at, PAGE_SIZE), 0);
	moor_process_close(process);
}

/* A queue's pages belong to its process: another process cannot map that offset. */
static void uverbs_map_doorbells(struct kunit *test)
{
	struct moor_alloc_ucontext_resp resp;
	struct moor_process *process = opened(test, &resp);
	struct moor_process *other = opened(test, &resp);
	struct moor_dev *mdev = test->priv;
	struct moor_create_cq_resp cq;
	long doorbell, kick;

	moor_process_cq(process, &cq);
	KUNIT_EXPECT_EQ(test, moor_process_mmap(other, cq.db.doorbell_mmap_offset,
						PAGE_SIZE, PROT_WRITE,
						MAP_SHARED), -EINVAL);
	doorbell = moor_process_mmap(process, cq.db.doorbell_mmap_offset,
				     PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED);
	KUNIT_ASSERT_GT(test, doorbell, 0);
	kick = moor_process_mmap(process, cq.db.kick_mmap_offset, PAGE_SIZE,
				 PROT_READ | PROT_WRITE, MAP_SHARED);
	KUNIT_ASSERT_GT(test, kick, 0);
	KUNIT_EXPECT_EQ(test, bitmap_weight(mdev->db_used, FAKE_DB_PAGES), 2);
	KUNIT_EXPECT_EQ(test, vm_munmap(kick, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, vm_munmap(doorbell, PAGE_SIZE), 0);
	moor_process_close(other);
	moor_process_close(process);
	KUNIT_EXPECT_EQ(test, bitmap_weight(mdev->db_used, FAKE_DB_PAGES), 1);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
}

static void uverbs_pd(struct kunit *test)
{
	struct moor_alloc_ucontext_resp resp;
	struct moor_process *other = opened(test, &resp);
	struct moor_process *process = opened(test, &resp);
	u32 first, second, handle, numbers[2];
	struct moor_alloc_pd_resp pd = {};
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, true);
	struct ib_uverbs_reg_mr_resp mr;
	unsigned long at;
	int i;

	/* The other process has PDs: so numbers are not equal to handles. */
	for (i = 0; i < 3; i++)
		moor_process_pd(other);
	first = moor_process_pd(process);
	second = moor_process_pd(process);
	for (i = 0; i < 2; i++) {
		handle = i ? second : first;
		moor_call_begin(process, UVERBS_OBJECT_PD, MOOR_METHOD_PD_QUERY);
		moor_call_handle(process, MOOR_ATTR_PD_QUERY_HANDLE, handle);
		at = moor_call_room(process, MOOR_ATTR_PD_QUERY_RESP, NULL,
				    sizeof(pd));
		KUNIT_EXPECT_EQ(test, moor_call_run(process), 0);
		moor_process_get(process, at, &pd, sizeof(pd));
		numbers[i] = pd.pdn;
		/* It is the number in the context entry. */
		KUNIT_ASSERT_EQ(test, moor_process_reg(process, handle, addr,
						       REGION_LENGTH, ALL_RIGHTS,
						       &mr), 0);
		KUNIT_EXPECT_EQ(test, le32_to_cpu(moor_kunit_entry(mr.lkey)->pd),
				pd.pdn);
	}
	KUNIT_EXPECT_NE(test, numbers[0], numbers[1]);
	KUNIT_EXPECT_NE(test, numbers[0], 0);
	moor_call_begin(process, UVERBS_OBJECT_PD, MOOR_METHOD_PD_QUERY);
	moor_call_handle(process, MOOR_ATTR_PD_QUERY_HANDLE, second + 100);
	moor_call_room(process, MOOR_ATTR_PD_QUERY_RESP, NULL, sizeof(pd));
	KUNIT_EXPECT_EQ(test, moor_call_run(process), -ENOENT);
	moor_process_close(process);
	moor_process_close(other);
}

static int ask_srq(struct moor_process *process, u32 handle,
		   struct moor_srq_state *state)
{
	unsigned long at;
	int err;

	moor_call_begin(process, UVERBS_OBJECT_SRQ, MOOR_METHOD_SRQ_QUERY);
	moor_call_handle(process, MOOR_ATTR_SRQ_QUERY_HANDLE, handle);
	at = moor_call_room(process, MOOR_ATTR_SRQ_QUERY_RESP, NULL,
			    sizeof(*state));
	err = moor_call_run(process);
	moor_process_get(process, at, state, sizeof(*state));
	return err;
}

/* The consumer of a shared receive queue, as the device gives it. */
static void uverbs_srq(struct kunit *test)
{
	struct moor_alloc_ucontext_resp resp;
	struct moor_process *process = opened(test, &resp);
	u32 pd = moor_process_pd(process), handles[2], i;
	struct moor_create_srq_resp hw;
	struct moor_srq_state state;
	struct fake_srq *fake;

	for (i = 0; i < 2; i++) {
		handles[i] = moor_process_srq(process, pd, &hw);
		fake = fake_find_srq(moor_kunit_nic(), cpu_to_le32(hw.srqn));
		KUNIT_ASSERT_NOT_NULL(test, fake);
		fake->consumer = 0xfffffff0 + i;
	}
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, ask_srq(process, handles[i], &state), 0);
		KUNIT_EXPECT_EQ(test, state.consumer, 0xfffffff0 + i);
		KUNIT_EXPECT_EQ(test, state.reserved, 0);
	}
	KUNIT_EXPECT_EQ(test, ask_srq(process, handles[1] + 100, &state), -ENOENT);
	moor_process_close(process);
}

/* The last refusal is the context's own. */
static void uverbs_refusal(struct kunit *test)
{
	struct moor_alloc_ucontext_resp resp;
	struct moor_process *process = opened(test, &resp);
	struct moor_process *other = opened(test, &resp);
	unsigned long addr = moor_kunit_mmap(test, PAGE_SIZE, true), at;
	u32 pd = moor_process_pd(process), i;
	struct ib_uverbs_reg_mr_resp mr;
	struct moor_refusal why;

	KUNIT_EXPECT_EQ(test, moor_process_reg(process, pd, addr, 1ULL << 41,
					       IB_ACCESS_REMOTE_READ, &mr),
			-EINVAL);
	for (i = 0; i < 2; i++) {
		struct moor_process *who = i ? other : process;

		moor_call_begin(who, UVERBS_OBJECT_DEVICE,
				MOOR_METHOD_DEVICE_REFUSAL);
		at = moor_call_room(who, MOOR_ATTR_DEVICE_REFUSAL, NULL,
				    sizeof(why));
		KUNIT_EXPECT_EQ(test, moor_call_run(who), 0);
		moor_process_get(who, at, &why, sizeof(why));
		if (i)
			break;
		KUNIT_EXPECT_EQ(test, why.reason, MOOR_REFUSAL_LENGTH);
		KUNIT_EXPECT_EQ(test, why.error, EINVAL);
		KUNIT_EXPECT_EQ(test, why.value, 1ULL << 41);
		KUNIT_EXPECT_EQ(test, why.limit, 1ULL << 40);
		KUNIT_EXPECT_EQ(test, why.start, addr);
		KUNIT_EXPECT_EQ(test, why.access, IB_ACCESS_REMOTE_READ);
	}
	KUNIT_EXPECT_FALSE(test, memchr_inv(&why, 0, sizeof(why)));
	moor_process_close(other);

	/* Without a context there can be no refusal. */
	other = moor_process_open(test);
	moor_call_begin(other, UVERBS_OBJECT_DEVICE, MOOR_METHOD_DEVICE_REFUSAL);
	moor_call_room(other, MOOR_ATTR_DEVICE_REFUSAL, NULL, sizeof(why));
	KUNIT_EXPECT_EQ(test, moor_call_run(other), -EINVAL);
	moor_process_close(other);
	moor_process_close(process);
}

#define BOUND	3

/* A process with windows bound to an MR of its own. */
struct holder {
	struct moor_process *process;
	struct ib_uverbs_reg_mr_resp mr;
	struct moor_create_qp_resp qp;
	u32 keys[BOUND];
};

static void holder_open(struct kunit *test, struct holder *holder, int access)
{
	unsigned long addr = moor_kunit_mmap_scattered(test, REGION_LENGTH);
	struct moor_alloc_ucontext_resp resp;
	struct ib_uverbs_alloc_mw_resp mw;
	struct moor_create_cq_resp cq;
	u32 pd, i;

	holder->process = opened(test, &resp);
	pd = moor_process_pd(holder->process);
	KUNIT_ASSERT_EQ(test, moor_process_reg(holder->process, pd, addr,
					       REGION_LENGTH, access,
					       &holder->mr), 0);
	moor_process_qp(holder->process, pd, moor_process_cq(holder->process, &cq),
			&holder->qp);
	for (i = 0; i < BOUND && access & IB_ACCESS_MW_BIND; i++) {
		struct fake_bind bind = {
			.mr_lkey = holder->mr.lkey,
			.qpn = holder->qp.qpn,
			.access = MOOR_ACCESS_REMOTE_READ,
			.addr = addr + i,
			.length = 100 + i,
		};

		KUNIT_ASSERT_EQ(test, moor_process_window(holder->process, pd, &mw),
				0);
		bind.mw_key = mw.rkey;
		bind.new_key = ib_inc_rkey(mw.rkey);
		KUNIT_ASSERT_EQ(test, fake_nic_bind(moor_kunit_nic(), &bind), 0);
		holder->keys[i] = bind.new_key;
	}
}

/*
 * Lists windows: entries of @entry_size bytes, or NULL to leave the attribute out, in
 * @size bytes; @count: windows in all.
 */
static int ask_list(struct holder *holder, const u64 *entry_size, void *list,
		    size_t size, u32 *count)
{
	struct moor_process *process = holder->process;
	unsigned long list_at = 0, count_at;
	int err;

	moor_call_begin(process, UVERBS_OBJECT_MR, MOOR_METHOD_MR_WINDOWS);
	moor_call_handle(process, MOOR_ATTR_MR_WINDOWS_HANDLE,
			 holder->mr.mr_handle);
	if (entry_size)
		moor_call_const(process, MOOR_ATTR_MR_WINDOWS_ENTRY_SIZE,
				*entry_size);
	if (size)
		list_at = moor_call_room(process, MOOR_ATTR_MR_WINDOWS_LIST, NULL,
					 size);
	count_at = moor_call_room(process, MOOR_ATTR_MR_WINDOWS_COUNT, NULL,
				  sizeof(*count));
	err = moor_call_run(process);
	moor_process_get(process, count_at, count, sizeof(*count));
	if (size)
		moor_process_get(process, list_at, list, size);
	return err;
}

static int ask_entries(struct holder *holder, u64 entry_size, void *list,
		       size_t size, u32 *count)
{
	return ask_list(holder, &entry_size, list, size, count);
}

/* As 1.0 asks: room for @room windows, or none at all. */
static int ask_windows(struct holder *holder, u32 room, struct moor_window *list,
		       u32 *count)
{
	return ask_list(holder, NULL, list, room * sizeof(*list), count);
}

/* The windows that hold an MR: the whole list, cut short, and the count alone. */
static void uverbs_windows(struct kunit *test)
{
	struct moor_window list[BOUND + 2];
	struct holder holder;
	u32 count, i, j, found = 0;

	holder_open(test, &holder, ALL_RIGHTS);
	KUNIT_EXPECT_EQ(test, moor_process_dereg(holder.process,
						 holder.mr.mr_handle), -EBUSY);
	KUNIT_EXPECT_EQ(test, ask_windows(&holder, ARRAY_SIZE(list), list, &count),
			0);
	KUNIT_EXPECT_EQ(test, count, BOUND);
	for (i = 0; i < BOUND; i++) {
		for (j = 0; j < BOUND; j++)
			found += list[i].rkey == holder.keys[j] &&
				 list[i].length == 100 + j;
		KUNIT_EXPECT_EQ(test, list[i].type, 2);
		KUNIT_EXPECT_EQ(test, list[i].qpn, holder.qp.qpn);
		KUNIT_EXPECT_EQ(test, list[i].pid, task_tgid_nr(current));
		KUNIT_EXPECT_EQ(test, list[i].access, IB_ACCESS_REMOTE_READ);
	}
	KUNIT_EXPECT_EQ(test, found, BOUND);
	KUNIT_EXPECT_FALSE(test, memchr_inv(&list[BOUND], 0, 2 * sizeof(*list)));
	KUNIT_EXPECT_EQ(test, ask_windows(&holder, 1, list, &count), 0);
	KUNIT_EXPECT_EQ(test, count, BOUND);
	KUNIT_EXPECT_EQ(test, ask_windows(&holder, 0, NULL, &count), 0);
	KUNIT_EXPECT_EQ(test, count, BOUND);
	for (i = 0; i < BOUND; i++)
		KUNIT_EXPECT_TRUE(test, fake_nic_invalidate(moor_kunit_nic(),
							    holder.keys[i],
							    holder.qp.qpn));
	KUNIT_EXPECT_EQ(test, ask_windows(&holder, 1, list, &count), 0);
	KUNIT_EXPECT_EQ(test, count, 0);
	KUNIT_EXPECT_EQ(test, moor_process_dereg(holder.process,
						 holder.mr.mr_handle), 0);
	moor_process_close(holder.process);
}

/* An answer, asked for at several lengths: below @least, @size, and longer. */
struct growing {
	const char *name;
	u16 object, method, handle, answer;
	size_t size;		/* as the driver has it */
	size_t least;		/* as 1.0 had it */
};

/* The sizes of 1.0 are written out: they stay when a structure grows. */
static const struct growing growing[] = {
	{ "context", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, 0,
	  MOOR_ATTR_QUERY_CONTEXT_RESP,
	  sizeof(struct moor_alloc_ucontext_resp), 32 },
	{ "refusal", UVERBS_OBJECT_DEVICE, MOOR_METHOD_DEVICE_REFUSAL, 0,
	  MOOR_ATTR_DEVICE_REFUSAL, sizeof(struct moor_refusal), 48 },
	{ "pd", UVERBS_OBJECT_PD, MOOR_METHOD_PD_QUERY,
	  MOOR_ATTR_PD_QUERY_HANDLE, MOOR_ATTR_PD_QUERY_RESP,
	  sizeof(struct moor_alloc_pd_resp), 8 },
};

KUNIT_ARRAY_PARAM_DESC(growing, growing, name);

#define LONGER		24

static int ask_grown(struct moor_process *process, const struct growing *what,
		     u32 pd, size_t len, u8 *answer)
{
	u8 room[64 + LONGER];
	unsigned long at;
	int err;

	memset(room, 0xa5, sizeof(room));
	moor_call_begin(process, what->object, what->method);
	if (what->handle)
		moor_call_handle(process, what->handle, pd);
	at = moor_call_answer(process, what->answer, room, sizeof(room), len);
	err = moor_call_run(process);
	moor_process_get(process, at, answer, sizeof(room));
	KUNIT_EXPECT_FALSE(process->test,
			   memcmp(answer + len, room + len, sizeof(room) - len));
	return err;
}

/* Newer processes ask for a longer answer than there is, older ones for a shorter. */
static void uverbs_grows(struct kunit *test)
{
	const struct growing *what = test->param_value;
	u8 whole[64 + LONGER], other[64 + LONGER];
	struct moor_alloc_ucontext_resp resp;
	struct moor_process *process = opened(test, &resp);
	u32 pd = moor_process_pd(process);

	KUNIT_EXPECT_EQ(test, ask_grown(process, what, pd, what->size, whole), 0);
	KUNIT_EXPECT_EQ(test, ask_grown(process, what, pd, what->least, other), 0);
	KUNIT_EXPECT_MEMEQ(test, other, whole, what->least);
	KUNIT_EXPECT_EQ(test, ask_grown(process, what, pd, what->size + LONGER,
					other), 0);
	KUNIT_EXPECT_MEMEQ(test, other, whole, what->size);
	KUNIT_EXPECT_FALSE(test, memchr_inv(other + what->size, 0, LONGER));
	KUNIT_EXPECT_EQ(test, ask_grown(process, what, pd, what->least - 1, other),
			-EINVAL);
	KUNIT_EXPECT_FALSE(test, memchr_inv(other, 0xa5, sizeof(other)));
	moor_process_close(process);
}

/* Entries are as large as the process asks for, and do not exceed its room. */
static void uverbs_windows_entries(struct kunit *test)
{
	size_t grown = sizeof(struct moor_window) + 16;
	struct moor_window list[BOUND];
	u8 large[BOUND * (sizeof(*list) + 16)];
	struct holder holder;
	u32 count, i;

	holder_open(test, &holder, ALL_RIGHTS);
	KUNIT_ASSERT_EQ(test, ask_windows(&holder, BOUND, list, &count), 0);
	KUNIT_EXPECT_EQ(test, ask_entries(&holder, grown, large, sizeof(large),
					  &count), 0);
	KUNIT_EXPECT_EQ(test, count, BOUND);
	for (i = 0; i < BOUND; i++) {
		KUNIT_EXPECT_MEMEQ(test, large + i * grown, (u8 *)&list[i],
				   sizeof(*list));
		KUNIT_EXPECT_FALSE(test, memchr_inv(large + i * grown +
						    sizeof(*list), 0, 16));
	}
	/* With a byte less there is room for one entry less. */
	KUNIT_EXPECT_EQ(test, ask_entries(&holder, grown, large,
					  sizeof(large) - 1, &count), 0);
	KUNIT_EXPECT_EQ(test, count, BOUND);
	KUNIT_EXPECT_MEMEQ(test, large + grown, (u8 *)&list[1], sizeof(*list));
	KUNIT_EXPECT_FALSE(test, memchr_inv(large + 2 * grown, 0, grown - 1));
	KUNIT_EXPECT_EQ(test, ask_entries(&holder, 1ULL << 63, large,
					  sizeof(large), &count), 0);
	KUNIT_EXPECT_FALSE(test, memchr_inv(large, 0, sizeof(large)));
	KUNIT_EXPECT_EQ(test, ask_entries(&holder, 39, large, sizeof(large),
					  &count), -EINVAL);
	KUNIT_EXPECT_EQ(test, ask_entries(&holder, 0, large, sizeof(large),
					  &count), -EINVAL);
	moor_process_close(holder.process);
}

/* The device refuses the query: so the call fails. */
static void uverbs_windows_refused(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct holder holder;
	u32 count;

	holder_open(test, &holder, IB_ACCESS_MW_BIND);
	nic->behave.fail_opcode = MOOR_CMD_MR_WINDOWS;
	nic->behave.fail_status = MOOR_CMD_DMA_FAULT;
	KUNIT_EXPECT_EQ(test, ask_windows(&holder, 0, NULL, &count), -EFAULT);
	/* A NIC without windows has none bound. */
	nic->behave.fail_status = MOOR_CMD_BAD_OPCODE;
	KUNIT_EXPECT_EQ(test, ask_windows(&holder, 0, NULL, &count), 0);
	KUNIT_EXPECT_EQ(test, count, 0);
	moor_process_close(holder.process);
}

/* A process that dies with windows bound leaves nothing; the suite's exit checks, too. */
static void uverbs_dies(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct holder holder;

	holder_open(test, &holder, ALL_RIGHTS);
	KUNIT_EXPECT_GT(test, moor_kunit_pinned(), REGION_PAGES);
	moor_process_close(holder.process);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->keys), 0);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->mw_keys), 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&mdev->qps));
}

/* The NIC leaves while a process has it open, mapped and full of objects. */
static void uverbs_unplugged(struct kunit *test)
{
	struct moor_create_cq_resp cq;
	struct holder holder;
	long doorbell;
	u32 count;

	holder_open(test, &holder, ALL_RIGHTS);
	moor_process_cq(holder.process, &cq);
	doorbell = moor_process_mmap(holder.process, cq.db.doorbell_mmap_offset,
				     PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED);
	KUNIT_ASSERT_GT(test, doorbell, 0);
	moor_kunit_replug(test, 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	KUNIT_EXPECT_EQ(test, ask_windows(&holder, 0, NULL, &count), -EIO);
	KUNIT_EXPECT_EQ(test, vm_munmap(doorbell, PAGE_SIZE), 0);
	moor_process_close(holder.process);
}

static struct kunit_case uverbs_cases[] = {
	KUNIT_CASE(uverbs_context),
	KUNIT_CASE(uverbs_map_doze),
	KUNIT_CASE(uverbs_map_doorbells),
	KUNIT_CASE(uverbs_pd),
	KUNIT_CASE(uverbs_srq),
	KUNIT_CASE(uverbs_refusal),
	KUNIT_CASE(uverbs_windows),
	KUNIT_CASE_PARAM(uverbs_grows, growing_gen_params),
	KUNIT_CASE(uverbs_windows_entries),
	KUNIT_CASE(uverbs_windows_refused),
	KUNIT_CASE(uverbs_dies),
	KUNIT_CASE(uverbs_unplugged),
	{}
};

static struct kunit_suite uverbs_suite = {
	.name = "moor_uverbs",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = uverbs_cases,
};

kunit_test_suite(uverbs_suite);
