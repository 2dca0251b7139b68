// SPDX-License-Identifier: GPL-2.0
/*
 * Rights of FLUSH: what is announced, what reaches the device, and that memory is
 * called persistent only if all of it is (HWI MPE-11).
 */

#include <linux/ioport.h>
#include <linux/mm.h>

#include "paged.h"

#define PIECES		3
#define PIECES_BYTES	(PIECES * PAGE_SIZE)
#define PERSISTENT	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_FLUSH_PERSISTENT)

/* Memory of which the kernel is told, page by page, what kind it is. */
struct memory {
	unsigned long addr;
	struct page *pages[PIECES];
	struct resource res[PIECES];
};

static void memory_forget(void *arg)
{
	struct memory *memory = arg;
	u32 i;

	for (i = 0; i < PIECES; i++)
		if (memory->res[i].parent)
			remove_resource(&memory->res[i]);
	unpin_user_pages(memory->pages, PIECES);
}

/* Pages stay pinned, so that the pages described are those that are registered. */
static struct memory *memory_new(struct kunit *test, const u32 desc[PIECES])
{
	struct memory *memory = kunit_kzalloc(test, sizeof(*memory), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, memory);
	memory->addr = moor_kunit_mmap_scattered(test, PIECES_BYTES);
	KUNIT_ASSERT_EQ(test, pin_user_pages_fast(memory->addr, PIECES,
						  FOLL_WRITE | FOLL_LONGTERM,
						  memory->pages), PIECES);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, memory_forget,
							memory), 0);
	for (i = 0; i < PIECES; i++) {
		memory->res[i] = (struct resource){
			.name = "moor-kunit",
			.start = page_to_phys(memory->pages[i]),
			.end = page_to_phys(memory->pages[i]) + PAGE_SIZE - 1,
			.flags = IORESOURCE_MEM,
			.desc = desc[i],
		};
		KUNIT_ASSERT_EQ(test, insert_resource(&iomem_resource,
						      &memory->res[i]), 0);
	}
	return memory;
}

static const u32 ordinary[PIECES];
static const u32 persistent[PIECES] = {
	IORES_DESC_PERSISTENT_MEMORY, IORES_DESC_PERSISTENT_MEMORY,
	IORES_DESC_PERSISTENT_MEMORY,
};

static void expect_refusal(struct kunit *test, u32 value, int error)
{
	struct moor_dev *mdev = test->priv;
	struct moor_refusals *refusals = &mdev->refusals;
	const struct moor_refusal *why =
		&refusals->last[(refusals->count - 1) % MOOR_REFUSALS_KEPT].refusal;

	KUNIT_ASSERT_GT(test, refusals->count, 0);
	KUNIT_EXPECT_EQ(test, why->reason, MOOR_REFUSAL_FLAGS);
	KUNIT_EXPECT_EQ(test, why->value, value);
	KUNIT_EXPECT_EQ(test, why->error, error);
}

struct kind {
	const char *name;
	u32 desc[PIECES];
	int err;
};

static const struct kind kinds[] = {
	{ "ordinary", {}, -EINVAL },
	{ "persistent", { IORES_DESC_PERSISTENT_MEMORY, IORES_DESC_PERSISTENT_MEMORY,
			  IORES_DESC_PERSISTENT_MEMORY }, 0 },
	{ "persistent by the command line",
	  { IORES_DESC_PERSISTENT_MEMORY_LEGACY, IORES_DESC_PERSISTENT_MEMORY_LEGACY,
	    IORES_DESC_PERSISTENT_MEMORY_LEGACY }, 0 },
	{ "reserved for somebody", { IORES_DESC_SOFT_RESERVED, IORES_DESC_SOFT_RESERVED,
				     IORES_DESC_SOFT_RESERVED }, -EINVAL },
	{ "but for the first page", { 0, IORES_DESC_PERSISTENT_MEMORY,
				      IORES_DESC_PERSISTENT_MEMORY }, -EINVAL },
	{ "but for one inside", { IORES_DESC_PERSISTENT_MEMORY, 0,
				  IORES_DESC_PERSISTENT_MEMORY }, -EINVAL },
	{ "but for the last", { IORES_DESC_PERSISTENT_MEMORY,
				IORES_DESC_PERSISTENT_MEMORY, 0 }, -EINVAL },
};

static void kind_desc(const struct kind *kind, char *desc)
{
	strscpy(desc, kind->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kind, kinds, kind_desc);

static void flush_persistent(struct kunit *test)
{
	const struct kind *kind = test->param_value;
	struct memory *memory = memory_new(test, kind->desc);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_mr *mr;
	u32 i;

	mr = moor_kunit_reg(pd, memory->addr, PIECES_BYTES, memory->addr, PERSISTENT);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), kind->err);
	if (!IS_ERR(mr)) {
		KUNIT_EXPECT_EQ(test, le32_to_cpu(moor_kunit_entry(mr->lkey)->access),
				MOOR_ACCESS_LOCAL_WRITE |
				MOOR_ACCESS_FLUSH_PERSISTENT);
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	} else {
		expect_refusal(test, IB_ACCESS_FLUSH_PERSISTENT, EINVAL);
	}
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	/* Only registered pages count; without the right no page does. */
	for (i = 0; i < PIECES; i++) {
		mr = moor_kunit_reg(pd, memory->addr + i * PAGE_SIZE, 1,
				    memory->addr + i * PAGE_SIZE, PERSISTENT);
		KUNIT_EXPECT_EQ(test, !IS_ERR(mr),
				!kind->err || kind->desc[i] ==
				IORES_DESC_PERSISTENT_MEMORY);
		if (!IS_ERR(mr))
			KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	}
	mr = moor_kunit_reg(pd, memory->addr, PIECES_BYTES, memory->addr,
			    IB_ACCESS_FLUSH_GLOBAL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	moor_kunit_pd_free(test, pd);
}

static int rereg(struct ib_mr *mr, int flags, unsigned long addr, int access)
{
	return PTR_ERR_OR_ZERO(moor_rereg_user_mr(mr, flags, addr, PIECES_BYTES, addr,
						  access, mr->pd, NULL));
}

/* Re-registering can add the right, and keeps it for other persistent memory. */
static void flush_rereg(struct kunit *test)
{
	struct memory *plain = memory_new(test, ordinary);
	struct memory *first = memory_new(test, persistent);
	struct memory *second = memory_new(test, persistent);
	struct ib_pd *pd = moor_kunit_pd(test);
	const struct moor_mr_context *entry;
	struct moor_mr_context before;
	struct ib_mr *mr;

	mr = moor_kunit_reg(pd, plain->addr, PIECES_BYTES, plain->addr,
			    IB_ACCESS_LOCAL_WRITE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	entry = moor_kunit_entry(mr->lkey);
	before = *entry;
	KUNIT_EXPECT_EQ(test, rereg(mr, IB_MR_REREG_ACCESS, 0, PERSISTENT), -EINVAL);
	expect_refusal(test, IB_ACCESS_FLUSH_PERSISTENT, EINVAL);
	KUNIT_EXPECT_MEMEQ(test, (u8 *)entry, (u8 *)&before, sizeof(before));

	KUNIT_EXPECT_EQ(test, rereg(mr, IB_MR_REREG_TRANS, first->addr, 0), 0);
	KUNIT_EXPECT_EQ(test, rereg(mr, IB_MR_REREG_ACCESS, 0, PERSISTENT), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(entry->access),
			MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_FLUSH_PERSISTENT);
	before = *entry;
	KUNIT_EXPECT_EQ(test, rereg(mr, IB_MR_REREG_TRANS, plain->addr, 0), -EINVAL);
	KUNIT_EXPECT_MEMEQ(test, (u8 *)entry, (u8 *)&before, sizeof(before));
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), PIECES);
	KUNIT_EXPECT_EQ(test, rereg(mr, IB_MR_REREG_TRANS, second->addr, 0), 0);
	KUNIT_EXPECT_EQ(test, rereg(mr, IB_MR_REREG_TRANS | IB_MR_REREG_ACCESS,
				    plain->addr, IB_ACCESS_FLUSH_GLOBAL), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(entry->access), MOOR_ACCESS_FLUSH_GLOBAL);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, pd);
}

/* Of paged memory, and of all memory, the kind is unknown; on-NIC memory: test_dm.c. */
static void flush_unknown(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct moor_dev *mdev = test->priv;
	struct ib_pd *pd = paged->pair.pd;
	struct ib_mr *mr;

	mr = paged_reg(paged, paged->addr, LENGTH, IOVA,
		       PAGED | IB_ACCESS_FLUSH_PERSISTENT);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP);
	expect_refusal(test, IB_ACCESS_FLUSH_PERSISTENT, EOPNOTSUPP);
	paged->mr = paged_reg(paged, paged->addr, LENGTH, IOVA,
			      PAGED | IB_ACCESS_FLUSH_GLOBAL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_EXPECT_TRUE(test, le32_to_cpu(moor_kunit_entry(paged->mr->lkey)->access) &
			  MOOR_ACCESS_FLUSH_GLOBAL);
	mr = moor_rereg_user_mr(paged->mr, IB_MR_REREG_ACCESS, 0, 0, 0,
				PAGED | IB_ACCESS_FLUSH_PERSISTENT, pd,
				paged_udata(test, &paged->pair));
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP);
	paged_close(paged);

	pd = moor_kunit_pd(test);
	mr = moor_get_dma_mr(pd, PERSISTENT);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP);
	mr = moor_get_dma_mr(pd, IB_ACCESS_FLUSH_GLOBAL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	mr->device = &mdev->ibdev;
	mr->pd = pd;
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(mr, NULL), 0);
	moor_kunit_pd_free(test, pd);
}

/* A peer may use such a key at once: FENCE makes sure that the device has the entry. */
static void flush_posted(struct kunit *test)
{
	u32 before = moor_kunit_nic()->fences;

	moor_region_free(test, moor_region_new(test, IB_ACCESS_FLUSH_GLOBAL));
	KUNIT_EXPECT_EQ(test, moor_kunit_nic()->fences, before + 1);
}

/* Each feature by itself; rights of an absent feature never reach the device. */
static void flush_features(struct kunit *test)
{
	static const struct {
		u64 feature;
		u64 cap;
		int access;
	} features[] = {
		{ 0, 0, 0 },
		{ MOOR_FEATURE_FLUSH_PERSISTENT, IB_DEVICE_FLUSH_PERSISTENT,
		  IB_ACCESS_FLUSH_PERSISTENT },
		{ MOOR_FEATURE_ATOMIC_WRITE, IB_DEVICE_ATOMIC_WRITE, 0 },
		{ MOOR_FEATURE_FLUSH_GLOBAL, IB_DEVICE_FLUSH_GLOBAL,
		  IB_ACCESS_FLUSH_GLOBAL },
	};
	u64 caps = IB_DEVICE_FLUSH_GLOBAL | IB_DEVICE_FLUSH_PERSISTENT |
		   IB_DEVICE_ATOMIC_WRITE;
	struct memory *memory = memory_new(test, persistent);
	struct ib_device_attr *attrs;
	struct moor_dev *mdev;
	struct ib_pd *pd;
	struct ib_mr *mr;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(features); i++) {
		mdev = i ? moor_kunit_replug(test, features[i].feature) : test->priv;
		attrs = &mdev->ibdev.attrs;
		caps &= ~features[i].cap;
		KUNIT_EXPECT_EQ(test, attrs->device_cap_flags &
				(IB_DEVICE_FLUSH_GLOBAL | IB_DEVICE_ATOMIC_WRITE |
				 IB_DEVICE_FLUSH_PERSISTENT), caps);
		KUNIT_EXPECT_EQ(test, !!(attrs->odp_caps.per_transport_caps.rc_odp_caps &
					 IB_ODP_SUPPORT_FLUSH),
				!!(caps & IB_DEVICE_FLUSH_GLOBAL));
		KUNIT_EXPECT_EQ(test, !!(attrs->odp_caps.per_transport_caps.rc_odp_caps &
					 IB_ODP_SUPPORT_ATOMIC_WRITE),
				!!(caps & IB_DEVICE_ATOMIC_WRITE));
		if (!features[i].access)
			continue;
		pd = moor_kunit_pd(test);
		mr = moor_kunit_reg(pd, memory->addr, PIECES_BYTES, memory->addr,
				    features[i].access);
		KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP);
		expect_refusal(test, features[i].access, EOPNOTSUPP);
		moor_kunit_pd_free(test, pd);
	}
}

static struct kunit_case flush_cases[] = {
	KUNIT_CASE_PARAM(flush_persistent, kind_gen_params),
	KUNIT_CASE(flush_rereg),
	KUNIT_CASE(flush_unknown),
	KUNIT_CASE(flush_posted),
	KUNIT_CASE(flush_features),
	{}
};

static struct kunit_suite flush_suite = {
	.name = "moor_flush",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = flush_cases,
};

kunit_test_suite(flush_suite);
