// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions on a process's real memory: what reaches the device, what data
 * moves, and which errno a mistake gets.
 */

#include <linux/mm.h>
#include <linux/uaccess.h>
#include <rdma/restrack.h>

#include "harness.h"

/* The entry in BAR2, field by field (HWI MR-3). */
static void mr_context(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	const struct moor_mr_context *entry = moor_kunit_entry(region->mr->lkey);
	u64 valid = le64_to_cpu(entry->valid);

	KUNIT_EXPECT_EQ(test, region->mr->lkey, region->mr->rkey);
	KUNIT_EXPECT_EQ(test, FIELD_GET(MOOR_MRC_TYPE, valid), MOOR_MRC_TYPE_MR);
	KUNIT_EXPECT_EQ(test, FIELD_GET(MOOR_MRC_KEY, valid), region->mr->lkey);
	KUNIT_EXPECT_EQ(test, valid & MOOR_MRC_RESERVED, 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(entry->pd), to_mpd(region->pd)->pdn);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(entry->access), 0x1f);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->iova), region->addr);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->length), REGION_LENGTH);
	KUNIT_EXPECT_EQ(test, entry->max_pages, 0);
	KUNIT_EXPECT_EQ(test, region->mr->iova, region->addr);
	KUNIT_EXPECT_EQ(test, region->mr->length, REGION_LENGTH);
	moor_region_free(test, region);
	KUNIT_EXPECT_EQ(test, entry->valid, 0);
}

/* Data through the key, both ways; the bytes around the MR are out of reach. */
static void mr_data(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	u8 *want = kunit_kmalloc(test, REGION_LENGTH, GFP_KERNEL);
	u8 *got = kunit_kmalloc(test, REGION_LENGTH, GFP_KERNEL);
	struct fake_nic *nic = moor_kunit_nic();
	u32 key = region->mr->rkey;
	u64 addr = region->addr;

	get_random_bytes(want, REGION_LENGTH);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)region->addr, want,
					   REGION_LENGTH), 0);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, MOOR_ACCESS_REMOTE_READ,
					      addr, got, REGION_LENGTH, false), 0);
	KUNIT_EXPECT_MEMEQ(test, got, want, REGION_LENGTH);

	get_random_bytes(want, REGION_LENGTH);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, MOOR_ACCESS_REMOTE_WRITE,
					      addr, want, REGION_LENGTH, true), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(got, (void __user *)region->addr,
					     REGION_LENGTH), 0);
	KUNIT_EXPECT_MEMEQ(test, got, want, REGION_LENGTH);

	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, 0, addr - 1, got, 1,
					      false), MOOR_SYN_BOUNDS);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, 0, addr + REGION_LENGTH, got, 1,
					      false), MOOR_SYN_BOUNDS);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, 0, addr + 1, got, REGION_LENGTH,
					      false), MOOR_SYN_BOUNDS);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key ^ 1, 0, addr, got, 1,
					      false), MOOR_SYN_KEY);
	moor_region_free(test, region);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, 0, addr, got, 1, false),
			MOOR_SYN_KEY);
}

/* An unaligned piece of memory, at another address on the wire. */
static void mr_iova(struct kunit *test)
{
	const u64 iova = 0xffff000000000000ULL + 0x123;
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, true) + 0x123;
	struct fake_nic *nic = moor_kunit_nic();
	u64 length = REGION_LENGTH - 0x1234;
	struct ib_pd *pd = moor_kunit_pd(test);
	u8 byte = 0x5a, got = 0;
	struct ib_mr *mr;

	mr = moor_kunit_reg(pd, addr, length, iova, IB_ACCESS_LOCAL_WRITE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)(addr + length - 1),
					   &byte, 1), 0);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, mr->lkey, 0, iova + length - 1,
					      &got, 1, false), 0);
	KUNIT_EXPECT_EQ(test, got, byte);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, mr->lkey, 0, iova + length,
					      &got, 1, false), MOOR_SYN_BOUNDS);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	moor_kunit_pd_free(test, pd);
}

struct flags {
	int access;
	int err;
	u32 rights;
};

static const struct flags flags[] = {
	{ 0, 0, 0 },
	{ IB_ACCESS_LOCAL_WRITE, 0, MOOR_ACCESS_LOCAL_WRITE },
	{ IB_ACCESS_REMOTE_READ, 0, MOOR_ACCESS_REMOTE_READ },
	{ IB_ACCESS_MW_BIND, 0, MOOR_ACCESS_MW_BIND },
	{ IB_ACCESS_REMOTE_WRITE, -EINVAL },
	{ IB_ACCESS_REMOTE_ATOMIC, -EINVAL },
	{ IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ, -EINVAL },
	{ IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND, -EINVAL },
	{ IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE, 0,
	  MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE },
	{ IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_ATOMIC, 0,
	  MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_ATOMIC },
	{ ALL_RIGHTS, 0, 0x1f },
	{ ALL_RIGHTS | IB_ACCESS_RELAXED_ORDERING, 0, 0x3f },
	{ IB_ACCESS_RELAXED_ORDERING, 0, MOOR_ACCESS_RELAXED_ORDERING },
	/* optional: accepted, and of no effect */
	{ IB_ACCESS_LOCAL_WRITE | BIT(29), 0, MOOR_ACCESS_LOCAL_WRITE },
	{ IB_ACCESS_OPTIONAL, 0, MOOR_ACCESS_RELAXED_ORDERING },
	{ IB_ACCESS_FLUSH_GLOBAL, 0, MOOR_ACCESS_FLUSH_GLOBAL },
	{ ALL_RIGHTS | IB_ACCESS_FLUSH_GLOBAL, 0, 0x11f },
	/* rights that such memory cannot have: test_flush.c */
	{ IB_ACCESS_LOCAL_WRITE | IB_ACCESS_FLUSH_PERSISTENT, -EINVAL },
	/* flags that Moor does not know */
	{ IB_ACCESS_LOCAL_WRITE | BIT(10), -EOPNOTSUPP },
	{ IB_ACCESS_LOCAL_WRITE | BIT(30), -EOPNOTSUPP },
	{ -1, -EOPNOTSUPP },
};

static void flags_desc(const struct flags *f, char *desc)
{
	sprintf(desc, "access %#x", f->access);
}

KUNIT_ARRAY_PARAM(flags, flags, flags_desc);

static void mr_flags(struct kunit *test)
{
	const struct flags *expected = test->param_value;
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, true);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_mr *mr;

	mr = moor_kunit_reg(pd, addr, REGION_LENGTH, addr, expected->access);
	if (expected->err) {
		KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), expected->err);
		KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	} else {
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
		KUNIT_EXPECT_EQ(test, le32_to_cpu(moor_kunit_entry(mr->lkey)->access),
				expected->rights);
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	}
	moor_kunit_pd_free(test, pd);
}

struct extent {
	const char *name;
	u64 start;		/* from the buffer's, if not absolute */
	u64 length;
	u64 iova;		/* the same */
	int err;
	bool absolute;
};

static const struct extent ranges[] = {
	{ "everything", 0, REGION_LENGTH, 0, 0 },
	{ "one byte", 1, 1, 1, 0 },
	{ "the last byte", REGION_LENGTH - 1, 1, REGION_LENGTH - 1, 0 },
	{ "other page as iova", 5, 1, 0x7000 + 5, 0 },
	{ "nothing", 0, 0, 0, -EINVAL },
	{ "2^64 - 1 bytes", 0, U64_MAX, 0, -EINVAL },
	{ "more than MAX_MR_SIZE", 0, (1ULL << 40) + 1, 0, -EINVAL },
	{ "end of address wraps", -PAGE_SIZE, 2 * PAGE_SIZE, 0, -EINVAL, true },
	{ "end of iova wraps", 0, 2 * PAGE_SIZE, -PAGE_SIZE, -EINVAL },
	{ "iova within the page differs", 0, PAGE_SIZE, 1, -EINVAL },
	{ "not mapped", 0x10000, PAGE_SIZE, 0x10000, -EFAULT, true },
	{ "kernel's half", 0xffff800000000000, PAGE_SIZE, 0xffff800000000000, -EFAULT, true },
};

static void range_desc(const struct extent *range, char *desc)
{
	strscpy(desc, range->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(range, ranges, range_desc);

static void mr_range(struct kunit *test)
{
	const struct extent *range = test->param_value;
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, true);
	u64 start = range->start + (range->absolute ? 0 : addr);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_mr *mr;
	u64 iova;

	/* An iova that wraps is absolute. */
	iova = range->iova > U64_MAX / 2 ? range->iova :
	       range->iova + (range->absolute ? 0 : addr);
	mr = moor_kunit_reg(pd, start, range->length, iova, IB_ACCESS_LOCAL_WRITE);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), range->err);
	if (!IS_ERR(mr))
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, pd);
}

/* Read-only memory: good for reading, refused for writing. */
static void mr_read_only_memory(struct kunit *test)
{
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, false);
	struct fake_nic *nic = moor_kunit_nic();
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_mr *mr;
	u8 byte = 1;

	mr = moor_kunit_reg(pd, addr, REGION_LENGTH, addr, IB_ACCESS_LOCAL_WRITE);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EFAULT);
	mr = moor_kunit_reg(pd, addr, REGION_LENGTH, addr, IB_ACCESS_REMOTE_READ);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, mr->rkey, 0, addr, &byte, 1,
					      false), 0);
	KUNIT_EXPECT_EQ(test, byte, 0);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, mr->rkey, 0, addr, &byte, 1,
					      true), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	moor_kunit_pd_free(test, pd);
}

/* Commands so far, without SET_GID, which the core may cause at any time. */
static u32 commands(const struct fake_nic *nic)
{
	u32 i, sum = 0;

	for (i = 0; i < ARRAY_SIZE(nic->commands); i++)
		if (i != MOOR_CMD_SET_GID)
			sum += nic->commands[i];
	return sum;
}

/* A registration issues no command; with remote rights it reads FENCE. */
static void mr_posted(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	u32 before = commands(nic);
	struct moor_region *region;

	region = moor_region_new(test, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_MW_BIND);
	KUNIT_EXPECT_EQ(test, commands(nic), before);
	KUNIT_EXPECT_EQ(test, nic->fences, 0);
	moor_region_free(test, region);
	KUNIT_EXPECT_EQ(test, commands(nic), before + 1);

	region = moor_region_new(test, IB_ACCESS_REMOTE_READ);
	KUNIT_EXPECT_EQ(test, nic->fences, 1);
	moor_region_free(test, region);
}

static u32 tracked(struct moor_dev *mdev)
{
	return rdma_restrack_count(&mdev->ibdev, RDMA_RESTRACK_MR, true);
}

/* With a window bound the MR cannot be deregistered, and stays usable; without it can. */
static void mr_busy(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	struct fake_nic *nic = moor_kunit_nic();
	u32 key = region->mr->lkey;
	struct moor_mr_context before = *moor_kunit_entry(region->mr->lkey);
	struct moor_dev *mdev = test->priv;
	u32 count = tracked(mdev);
	int i;
	u8 byte;

	moor_kunit_hold(region->mr, 1);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(region->mr), -EBUSY);
		KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), REGION_PAGES);
		KUNIT_EXPECT_MEMEQ(test, (u8 *)moor_kunit_entry(region->mr->lkey),
				   (u8 *)&before, sizeof(before));
		KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, 0, region->addr,
						      &byte, 1, false), 0);
		KUNIT_EXPECT_EQ(test, tracked(mdev), count);
	}
	moor_kunit_hold(region->mr, 0);
	moor_region_free(test, region);
	KUNIT_EXPECT_EQ(test, tracked(mdev), count - 1);
}

/* On a dead device everything can be taken down. */
static void mr_dereg_dead(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	struct moor_dev *mdev = test->priv;

	moor_hw_kill(mdev, "a test asks for it");
	moor_region_free(test, region);
}

/*
 * The device dies after a task has seen it alive, before the task publishes an entry:
 * the BARs are not touched while the channel is frozen.
 */
static void mr_publish_dead(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct moor_mr *mr = to_mmr(region->mr);
	u32 fences = nic->fences;

	mdev->pdev->error_state = pci_channel_io_frozen;
	nic->behave.frozen = true;
	moor_hw_kill(mdev, NULL);
	moor_mr_publish(mdev, mr);
	moor_mw_publish(mdev, mr->key, MOOR_MRC_TYPE_MW_1, mr->reg.pdn);
	moor_fast_publish(mdev, mr->key, mr->reg.pdn, 1);
	KUNIT_EXPECT_EQ(test, nic->fences, fences);
	KUNIT_EXPECT_EQ_MSG(test, nic->violations, 0, "%s", nic->violation);
	KUNIT_EXPECT_PTR_EQ(test, moor_get_dma_mr(region->pd, IB_ACCESS_LOCAL_WRITE),
			    ERR_PTR(-EIO));
	moor_region_free(test, region);
	nic->behave.frozen = false;
	mdev->pdev->error_state = pci_channel_io_normal;
	/* The driver could not reset the frozen device. */
	fake_nic_reset(nic);
}

/* All indices, ENOMEM, and all back; then a few thousand one by one. */
static void mr_exhaustion(struct kunit *test)
{
	const u32 most = FAKE_CONSUMER_FIRST - MOOR_MR_INDEX_FIRST;
	unsigned long addr = moor_kunit_mmap_scattered(test, REGION_LENGTH);
	struct moor_dev *mdev = test->priv;
	struct ib_mr **mrs = kunit_kcalloc(test, most, sizeof(*mrs), GFP_KERNEL);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_mr *mr;
	u32 nodes = mdev->nodes.count, i;

	KUNIT_ASSERT_NOT_NULL(test, mrs);
	for (i = 0; i < most; i++) {
		mrs[i] = moor_kunit_reg(pd, addr, PAGE_SIZE, addr, 0);
		KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(mrs[i]), "%ld for %u",
				       PTR_ERR(mrs[i]), i);
	}
	/* The nodes of this MR's table go back to the pool. */
	mr = moor_kunit_reg(pd, addr, REGION_LENGTH, addr, 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -ENOMEM);
	KUNIT_EXPECT_EQ(test, mdev->nodes.count, nodes);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), most);
	for (i = 0; i < most; i++)
		KUNIT_ASSERT_EQ(test, moor_kunit_dereg(mrs[i]), 0);
	for (i = 0; i < 3000; i++) {
		mr = moor_kunit_reg(pd, addr, REGION_LENGTH, addr, ALL_RIGHTS);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
		KUNIT_ASSERT_EQ(test, moor_kunit_dereg(mr), 0);
	}
	KUNIT_EXPECT_EQ(test, mdev->nodes.count, nodes);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, pd);
}

/* All of memory, for the kernel: an entry of its own type (HWI MR-4). */
static void mr_dma(struct kunit *test)
{
	const u64 base = offsetof(struct moor_mr_context, iova);
	const struct moor_mr_context *entry;
	struct moor_dev *mdev = test->priv;
	struct ib_pd *pd;
	struct ib_mr *mr;

	/* The core asks for such an MR with each PD of the kernel. */
	pd = ib_alloc_pd(&mdev->ibdev, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	KUNIT_ASSERT_NOT_NULL(test, pd->__internal_mr);
	entry = moor_kunit_entry(pd->__internal_mr->lkey);
	KUNIT_EXPECT_EQ(test, pd->local_dma_lkey,
			FIELD_GET(MOOR_MRC_KEY, le64_to_cpu(entry->valid)));
	KUNIT_EXPECT_EQ(test, FIELD_GET(MOOR_MRC_TYPE,
					le64_to_cpu(entry->valid)),
			MOOR_MRC_TYPE_ALL);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(entry->access),
			MOOR_ACCESS_LOCAL_WRITE);
	KUNIT_EXPECT_FALSE(test, memchr_inv((u8 *)entry + base, 0,
					    sizeof(*entry) - base));
	mr = moor_get_dma_mr(pd, IB_ACCESS_REMOTE_WRITE);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EINVAL);
	ib_dealloc_pd(pd);
	KUNIT_EXPECT_EQ(test, entry->valid, 0);
}

/* Driver-private input: zeros are fine, anything else is unknown. */
static void mr_udata(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, true);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_udata *udata;
	u8 in[16] = {}, out[32];
	struct ib_mr *mr;

	udata = moor_user_udata(test, user, in, sizeof(in), 16);
	mr = moor_reg_user_mr(pd, addr, REGION_LENGTH, addr, 0, udata);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	mr->device = pd->device;
	mr->pd = pd;
	moor_user_answer(test, user, out, sizeof(out));
	KUNIT_EXPECT_FALSE(test, memchr_inv(out, 0, 16));
	KUNIT_EXPECT_FALSE(test, memchr_inv(out + 16, 0xaa, 16));
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(mr, NULL), 0);

	in[15] = 1;
	udata = moor_user_udata(test, user, in, sizeof(in), 0);
	mr = moor_reg_user_mr(pd, addr, REGION_LENGTH, addr, 0, udata);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP);
	udata->inbuf = (void __user *)16UL;
	mr = moor_reg_user_mr(pd, addr, REGION_LENGTH, addr, 0, udata);
	KUNIT_EXPECT_TRUE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, pd);
	moor_user_close(test, user);
}

static struct kunit_case mr_cases[] = {
	KUNIT_CASE(mr_context),
	KUNIT_CASE(mr_data),
	KUNIT_CASE(mr_iova),
	KUNIT_CASE_PARAM(mr_flags, flags_gen_params),
	KUNIT_CASE_PARAM(mr_range, range_gen_params),
	KUNIT_CASE(mr_read_only_memory),
	KUNIT_CASE(mr_posted),
	KUNIT_CASE(mr_busy),
	KUNIT_CASE(mr_dereg_dead),
	KUNIT_CASE(mr_publish_dead),
	KUNIT_CASE(mr_exhaustion),
	KUNIT_CASE(mr_dma),
	KUNIT_CASE(mr_udata),
	{}
};

static struct kunit_suite mr_suite = {
	.name = "moor_mr",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = mr_cases,
};

kunit_test_suite(mr_suite);
