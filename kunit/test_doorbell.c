// SPDX-License-Identifier: GPL-2.0
/* Doorbell pages and slots (HWI 5): one process to a page, one queue to a slot. */

#include "harness.h"

#define SLOTS	((FAKE_DB_PAGES - 1) * MOOR_DB_SLOTS_PER_PAGE)

static u32 location(const struct moor_db *db, u32 n)
{
	return le32_to_cpu(moor_db_location(db, n));
}

static u32 page_of(const struct moor_db *db)
{
	return FIELD_GET(MOOR_DB_PAGE, (u64)location(db, 0));
}

static void db_pair(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct moor_doorbell doorbell = {};
	struct moor_db db = {};

	KUNIT_ASSERT_EQ(test, moor_db_alloc(&user->uctx, &db, 2), 0);
	KUNIT_EXPECT_NE(test, page_of(&db), 0);
	KUNIT_EXPECT_LT(test, page_of(&db), FAKE_DB_PAGES);
	KUNIT_EXPECT_NE(test, location(&db, 0), location(&db, 1));
	KUNIT_EXPECT_EQ(test, location(&db, 0) >> 9, location(&db, 1) >> 9);

	moor_db_describe(&db, &doorbell);
	KUNIT_EXPECT_EQ(test, doorbell.slot_offset, (location(&db, 0) & 511) * 8);
	KUNIT_EXPECT_EQ(test, doorbell.slot_offset_rq, (location(&db, 1) & 511) * 8);
	KUNIT_EXPECT_NE(test, doorbell.doorbell_mmap_offset,
			doorbell.kick_mmap_offset);
	KUNIT_EXPECT_EQ(test, doorbell.doorbell_mmap_offset % PAGE_SIZE, 0);
	KUNIT_EXPECT_EQ(test, doorbell.kick_mmap_offset % PAGE_SIZE, 0);
	moor_db_free(&user->uctx, &db);
	moor_user_close(test, user);
}

/* All slots of the device, none twice; then ENOMEM; then a freed slot again. */
static void db_exhaustion(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	unsigned long *seen = bitmap_zalloc(FAKE_DB_PAGES *
					    MOOR_DB_SLOTS_PER_PAGE, GFP_KERNEL);
	struct moor_db *dbs = kunit_kcalloc(test, SLOTS, sizeof(*dbs),
					    GFP_KERNEL);
	struct moor_db more = {};
	u32 i, twice = 0;

	KUNIT_ASSERT_NOT_NULL(test, seen);
	KUNIT_ASSERT_NOT_NULL(test, dbs);
	for (i = 0; i < SLOTS; i++) {
		KUNIT_ASSERT_EQ(test, moor_db_alloc(&user->uctx, &dbs[i], 1), 0);
		twice += test_and_set_bit(location(&dbs[i], 0), seen);
	}
	KUNIT_EXPECT_EQ(test, twice, 0);
	KUNIT_EXPECT_EQ(test, find_first_bit(seen, SLOTS), 512);
	KUNIT_EXPECT_EQ(test, moor_db_alloc(&user->uctx, &more, 1), -ENOMEM);
	moor_db_free(&user->uctx, &dbs[777]);
	KUNIT_EXPECT_EQ(test, moor_db_alloc(&user->uctx, &more, 2), -ENOMEM);
	KUNIT_ASSERT_EQ(test, moor_db_alloc(&user->uctx, &dbs[777], 1), 0);
	for (i = 0; i < SLOTS; i++)
		moor_db_free(&user->uctx, &dbs[i]);
	bitmap_free(seen);
	moor_user_close(test, user);
}

/* Two processes never share a page; when a process ends, its pages are free again. */
static void db_isolation(struct kunit *test)
{
	struct moor_user *users[FAKE_DB_PAGES - 1], *late;
	struct moor_dev *mdev = test->priv;
	DECLARE_BITMAP(pages, FAKE_DB_PAGES) = {};
	struct moor_db db[FAKE_DB_PAGES] = {};
	u32 i, shared = 0;

	for (i = 0; i < ARRAY_SIZE(users); i++) {
		users[i] = moor_user_open(test);
		KUNIT_ASSERT_EQ(test, moor_db_alloc(&users[i]->uctx, &db[i], 1), 0);
		shared += test_and_set_bit(page_of(&db[i]), pages);
	}
	KUNIT_EXPECT_EQ(test, shared, 0);
	late = moor_user_open(test);
	KUNIT_EXPECT_EQ(test, moor_db_alloc(&late->uctx, &db[i], 1), -ENOMEM);
	moor_db_free(&users[2]->uctx, &db[2]);
	moor_user_close(test, users[2]);
	KUNIT_ASSERT_EQ(test, moor_db_alloc(&late->uctx, &db[i], 1), 0);
	KUNIT_EXPECT_EQ(test, page_of(&db[i]), page_of(&db[1]) + 1);
	moor_db_free(&late->uctx, &db[i]);
	moor_user_close(test, late);
	for (i = 0; i < ARRAY_SIZE(users); i++) {
		if (i == 2)
			continue;
		moor_db_free(&users[i]->uctx, &db[i]);
		moor_user_close(test, users[i]);
	}
	KUNIT_EXPECT_EQ(test, bitmap_weight(mdev->db_used, FAKE_DB_PAGES), 1);
}

/* Workers for page requests are charged to nobody: a context pays with a page. */
static void db_workers(struct kunit *test)
{
	struct moor_user *users[FAKE_DB_PAGES - 1], *late;
	struct moor_dev *mdev = test->priv;
	struct moor_db db = {};
	u32 i;

	late = moor_user_open(test);
	for (i = 0; i < ARRAY_SIZE(users); i++) {
		users[i] = moor_user_open(test);
		KUNIT_ASSERT_EQ(test, moor_faults_open(&users[i]->uctx), 0);
	}
	KUNIT_EXPECT_EQ(test, bitmap_weight(mdev->db_used, FAKE_DB_PAGES),
			FAKE_DB_PAGES);
	KUNIT_EXPECT_EQ(test, moor_faults_open(&late->uctx), -ENOMEM);
	KUNIT_EXPECT_NULL(test, late->uctx.faults);
	/* A context that has its page needs no other one for queues, and vice versa. */
	KUNIT_EXPECT_EQ(test, moor_db_alloc(&users[0]->uctx, &db, 2), 0);
	moor_db_free(&users[0]->uctx, &db);
	moor_user_close(test, users[0]);
	KUNIT_ASSERT_EQ(test, moor_db_alloc(&late->uctx, &db, 1), 0);
	KUNIT_EXPECT_EQ(test, moor_faults_open(&late->uctx), 0);
	moor_db_free(&late->uctx, &db);
	moor_user_close(test, late);
	for (i = 1; i < ARRAY_SIZE(users); i++)
		moor_user_close(test, users[i]);
	KUNIT_EXPECT_EQ(test, bitmap_weight(mdev->db_used, FAKE_DB_PAGES), 1);
}

/* Opening the device: the driver's answer to the process. */
static void ucontext_answer(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct moor_alloc_ucontext_resp resp;

	moor_user_answer(test, user, &resp, sizeof(resp));
	KUNIT_EXPECT_EQ(test, resp.hw_version, moor_kunit_nic()->version);
	KUNIT_EXPECT_EQ(test, resp.null_lkey,
			1U << (32 - FAKE_MR_INDEX_BITS));
	KUNIT_EXPECT_TRUE(test, resp.features & MOOR_FEATURE_DOZES);
	KUNIT_EXPECT_EQ(test, resp.max_inline, 256);
	KUNIT_EXPECT_EQ(test, resp.reserved, 0);
	KUNIT_EXPECT_EQ(test, resp.doze_mmap_offset % PAGE_SIZE, 0);
	moor_user_close(test, user);
}

struct input {
	const char *name;
	size_t length;
	size_t nonzero;		/* index of a byte that is 1, if below @length */
	int err;
};

static const struct input inputs[] = {
	{ "as it is", 8, 99, 0 },
	{ "longer, zeros", 24, 99, 0 },
	{ "longer, not zeros", 24, 20, -EOPNOTSUPP },
	{ "reserved not zero", 8, 0, -EINVAL },
	{ "too short", 7, 99, -EINVAL },
	{ "none", 0, 99, -EINVAL },
};

static void input_desc(const struct input *input, char *desc)
{
	strscpy(desc, input->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(input, inputs, input_desc);

static void ucontext_input(struct kunit *test)
{
	const struct input *input = test->param_value;
	struct moor_user *user = moor_user_open(test);
	struct moor_ucontext *other = kunit_kzalloc(test, sizeof(*other),
						    GFP_KERNEL);
	struct ib_udata *udata;
	u8 bytes[32] = {};
	int err;

	KUNIT_ASSERT_NOT_NULL(test, other);
	other->ibucontext.device = user->uctx.ibucontext.device;
	other->ibucontext.ufile = user->ufile;
	xa_init_flags(&other->ibucontext.mmap_xa, XA_FLAGS_ALLOC);
	if (input->nonzero < sizeof(bytes))
		bytes[input->nonzero] = 1;
	udata = moor_user_udata(test, user, bytes, input->length, 64);
	err = moor_alloc_ucontext(&other->ibucontext, udata);
	KUNIT_EXPECT_EQ(test, err, input->err);
	if (!err)
		moor_dealloc_ucontext(&other->ibucontext);
	KUNIT_EXPECT_TRUE(test, xa_empty(&other->ibucontext.mmap_xa));
	moor_user_close(test, user);
}

/* If the answer cannot be copied to the process, everything is undone. */
static void ucontext_answer_fault(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct moor_ucontext *other = kunit_kzalloc(test, sizeof(*other),
						    GFP_KERNEL);
	struct moor_alloc_ucontext_req req = {};
	struct ib_udata *udata;

	KUNIT_ASSERT_NOT_NULL(test, other);
	other->ibucontext.device = user->uctx.ibucontext.device;
	other->ibucontext.ufile = user->ufile;
	xa_init_flags(&other->ibucontext.mmap_xa, XA_FLAGS_ALLOC);
	udata = moor_user_udata(test, user, &req, sizeof(req), 32);
	udata->outbuf = (void __user *)16UL;
	KUNIT_EXPECT_EQ(test, moor_alloc_ucontext(&other->ibucontext, udata),
			-EFAULT);
	KUNIT_EXPECT_TRUE(test, xa_empty(&other->ibucontext.mmap_xa));
	moor_user_close(test, user);
}

static struct kunit_case doorbell_cases[] = {
	KUNIT_CASE(db_pair),
	KUNIT_CASE(db_exhaustion),
	KUNIT_CASE(db_isolation),
	KUNIT_CASE(db_workers),
	KUNIT_CASE(ucontext_answer),
	KUNIT_CASE_PARAM(ucontext_input, input_gen_params),
	KUNIT_CASE(ucontext_answer_fault),
	{}
};

static struct kunit_suite doorbell_suite = {
	.name = "moor_doorbell",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = doorbell_cases,
};

kunit_test_suite(doorbell_suite);
