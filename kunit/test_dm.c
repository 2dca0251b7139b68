// SPDX-License-Identifier: GPL-2.0
/*
 * On-NIC memory (HWI 7.3): how pages are allocated, that they are cleared, and MRs
 * over them. All through uverbs, because some checks are the core's.
 */

#include <linux/mman.h>

#include "process.h"

#define DM_RIGHTS	(IB_ZERO_BASED | IB_ACCESS_LOCAL_WRITE |		\
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

struct owner {
	struct moor_process *process;
	u32 pd;
};

static void owner_open(struct kunit *test, struct owner *owner)
{
	struct moor_alloc_ucontext_resp resp;

	owner->process = moor_process_open(test);
	KUNIT_ASSERT_EQ(test, moor_process_context(owner->process, &resp), 0);
	owner->pd = moor_process_pd(owner->process);
}

static int dm_alloc(struct owner *owner, u64 length, u32 alignment, u32 *handle,
		    struct moor_dm_location *location)
{
	struct moor_process *process = owner->process;
	unsigned long at;
	int err;

	moor_call_begin(process, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
	moor_call_handle(process, UVERBS_ATTR_ALLOC_DM_HANDLE, 0);
	moor_call_room(process, UVERBS_ATTR_ALLOC_DM_LENGTH, &length, 8);
	moor_call_room(process, UVERBS_ATTR_ALLOC_DM_ALIGNMENT, &alignment, 4);
	at = moor_call_room(process, MOOR_ATTR_ALLOC_DM_RESP, NULL,
			    sizeof(*location));
	err = moor_call_run(process);
	*handle = process->call.attrs[0].data;
	moor_process_get(process, at, location, sizeof(*location));
	return err;
}

static int dm_free(struct owner *owner, u32 handle)
{
	moor_call_begin(owner->process, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE);
	moor_call_handle(owner->process, UVERBS_ATTR_FREE_DM_HANDLE, handle);
	return moor_call_run(owner->process);
}

static int dm_reg(struct owner *owner, u32 dm, u64 offset, u64 length, u32 access,
		  u32 *handle, u32 *key)
{
	struct moor_process *process = owner->process;
	unsigned long lkey;
	int err;

	moor_call_begin(process, UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);
	moor_call_handle(process, UVERBS_ATTR_REG_DM_MR_HANDLE, 0);
	moor_call_room(process, UVERBS_ATTR_REG_DM_MR_OFFSET, &offset, 8);
	moor_call_room(process, UVERBS_ATTR_REG_DM_MR_LENGTH, &length, 8);
	moor_call_handle(process, UVERBS_ATTR_REG_DM_MR_PD_HANDLE, owner->pd);
	moor_call_room(process, UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, &access, 4);
	moor_call_handle(process, UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm);
	lkey = moor_call_room(process, UVERBS_ATTR_REG_DM_MR_RESP_LKEY, NULL, 4);
	moor_call_room(process, UVERBS_ATTR_REG_DM_MR_RESP_RKEY, NULL, 4);
	err = moor_call_run(process);
	*handle = process->call.attrs[0].data;
	moor_process_get(process, lkey, key, sizeof(*key));
	return err;
}

static int mr_destroy(struct owner *owner, u32 handle)
{
	moor_call_begin(owner->process, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY);
	moor_call_handle(owner->process, UVERBS_ATTR_DESTROY_MR_HANDLE, handle);
	return moor_call_run(owner->process);
}

/* Data goes to and from the NIC's own memory, which is cleared for the next owner. */
static void dm_data(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dm_location location, query;
	const struct moor_mr_context *entry;
	u32 dm, mr, key, fences;
	u8 in[64], out[64];
	struct owner owner;
	unsigned long at;

	memset(nic->dm, 0xee, FAKE_DM_BYTES);
	owner_open(test, &owner);
	fences = nic->fences;
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, 5000, 0, &dm, &location), 0);
	KUNIT_EXPECT_EQ(test, location.length, 5000);
	KUNIT_EXPECT_GT(test, nic->fences, fences);
	KUNIT_EXPECT_FALSE(test, memchr_inv(nic->dm, 0, 2 * PAGE_SIZE));
	KUNIT_EXPECT_FALSE(test, memchr_inv(nic->dm + 2 * PAGE_SIZE, 0xee,
					    FAKE_DM_BYTES - 2 * PAGE_SIZE));

	moor_call_begin(owner.process, UVERBS_OBJECT_DM, MOOR_METHOD_DM_QUERY);
	moor_call_handle(owner.process, MOOR_ATTR_DM_QUERY_HANDLE, dm);
	at = moor_call_room(owner.process, MOOR_ATTR_DM_QUERY_RESP, NULL,
			    sizeof(query));
	KUNIT_EXPECT_EQ(test, moor_call_run(owner.process), 0);
	moor_process_get(owner.process, at, &query, sizeof(query));
	KUNIT_EXPECT_MEMEQ(test, (u8 *)&query, (u8 *)&location, sizeof(query));

	KUNIT_ASSERT_EQ(test, dm_reg(&owner, dm, 4090, 100, DM_RIGHTS, &mr, &key),
			0);
	entry = moor_kunit_entry(key);
	KUNIT_EXPECT_EQ(test, entry->iova, 0);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->length), 100);
	KUNIT_EXPECT_EQ(test, entry->xlat.memory, MOOR_MEMORY_NIC);
	get_random_bytes(in, sizeof(in));
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, MOOR_ACCESS_REMOTE_WRITE,
					      0, in, sizeof(in), true), 0);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, MOOR_ACCESS_REMOTE_READ,
					      0, out, sizeof(out), false), 0);
	KUNIT_EXPECT_MEMEQ(test, in, out, sizeof(in));
	KUNIT_EXPECT_MEMEQ(test, nic->dm + 4090, in, sizeof(in));
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, 0, 37, out, 64, false),
			MOOR_SYN_BOUNDS);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);

	/* Memory with an MR cannot be freed. */
	KUNIT_EXPECT_EQ(test, dm_free(&owner, dm), -EBUSY);
	KUNIT_EXPECT_EQ(test, mr_destroy(&owner, mr), 0);
	KUNIT_EXPECT_EQ(test, dm_free(&owner, dm), 0);
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, 1, 0, &dm, &location), 0);
	KUNIT_EXPECT_FALSE(test, memchr_inv(nic->dm, 0, PAGE_SIZE));
	moor_process_close(owner.process);
}

struct request {
	const char *name;
	u64 length;
	u32 alignment;
	int err;
};

static const struct request requests[] = {
	{ "everything", FAKE_DM_BYTES, 0, 0 },
	{ "aligned to all of it", 1, 16, 0 },
	{ "nothing", 0, 0, -EINVAL },
	{ "a byte more than there is", FAKE_DM_BYTES + 1, 0, -EINVAL },
	{ "2^64 - 1 bytes", U64_MAX, 0, -EINVAL },
	{ "aligned to more than there is", 1, 17, -EINVAL },
	{ "alignment 63", 1, 63, -EINVAL },
	{ "alignment 64", 1, 64, -EINVAL },
	{ "alignment 2^32 - 1", 1, U32_MAX, -EINVAL },
};

static void request_desc(const struct request *request, char *desc)
{
	strscpy(desc, request->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(request, requests, request_desc);

static void dm_request(struct kunit *test)
{
	const struct request *request = test->param_value;
	struct moor_dm_location location;
	struct moor_dev *mdev = test->priv;
	struct owner owner;
	u32 dm;

	owner_open(test, &owner);
	KUNIT_EXPECT_EQ(test, dm_alloc(&owner, request->length, request->alignment,
				       &dm, &location), request->err);
	if (request->err)
		KUNIT_EXPECT_TRUE(test, bitmap_empty(mdev->dm.used,
						     FAKE_DM_PAGES));
	else
		KUNIT_EXPECT_EQ(test, dm_free(&owner, dm), 0);
	moor_process_close(owner.process);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(mdev->dm.used, FAKE_DM_PAGES));
}

/* Alignment is obeyed around taken pages; ENOMEM; freed pages are found again. */
static void dm_pages(struct kunit *test)
{
	struct moor_dm_location location;
	struct moor_dev *mdev = test->priv;
	u32 first, aligned, rest, more;
	struct owner owner;

	owner_open(test, &owner);
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, 1, 3, &first, &location), 0);
	KUNIT_EXPECT_TRUE(test, test_bit(0, mdev->dm.used));
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, PAGE_SIZE + 1, 14, &aligned,
				       &location), 0);
	KUNIT_EXPECT_FALSE(test, test_bit(3, mdev->dm.used));
	KUNIT_EXPECT_TRUE(test, test_bit(4, mdev->dm.used));
	KUNIT_EXPECT_TRUE(test, test_bit(5, mdev->dm.used));
	KUNIT_EXPECT_EQ(test, bitmap_weight(mdev->dm.used, FAKE_DM_PAGES), 3);
	KUNIT_EXPECT_EQ(test, dm_alloc(&owner, 11 * PAGE_SIZE, 0, &rest, &location),
			-ENOMEM);
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, 10 * PAGE_SIZE, 0, &rest,
				       &location), 0);
	KUNIT_EXPECT_EQ(test, dm_alloc(&owner, 4 * PAGE_SIZE, 0, &more, &location),
			-ENOMEM);
	KUNIT_ASSERT_EQ(test, dm_free(&owner, first), 0);
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, 4 * PAGE_SIZE, 0, &more, &location),
			0);
	KUNIT_EXPECT_TRUE(test, bitmap_full(mdev->dm.used, FAKE_DM_PAGES));
	moor_process_close(owner.process);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(mdev->dm.used, FAKE_DM_PAGES));
}

/* Memory that is freed while it is mapped stays taken until it is unmapped. */
static void dm_mapped(struct kunit *test)
{
	struct moor_dm_location location;
	struct moor_dev *mdev = test->priv;
	struct owner owner;
	long at;
	u32 dm;

	owner_open(test, &owner);
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, 2 * PAGE_SIZE, 0, &dm, &location), 0);
	KUNIT_EXPECT_EQ(test, moor_process_mmap(owner.process, location.mmap_offset,
						PAGE_SIZE, PROT_READ, MAP_SHARED),
			-EINVAL);
	at = moor_process_mmap(owner.process, location.mmap_offset, 2 * PAGE_SIZE,
			       PROT_READ | PROT_WRITE, MAP_SHARED);
	KUNIT_ASSERT_GT(test, at, 0);
	KUNIT_ASSERT_EQ(test, dm_free(&owner, dm), 0);
	KUNIT_EXPECT_EQ(test, bitmap_weight(mdev->dm.used, FAKE_DM_PAGES), 2);
	KUNIT_EXPECT_EQ(test, moor_process_mmap(owner.process, location.mmap_offset,
						2 * PAGE_SIZE, PROT_READ,
						MAP_SHARED), -EINVAL);
	KUNIT_EXPECT_EQ(test, vm_munmap(at, 2 * PAGE_SIZE), 0);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(mdev->dm.used, FAKE_DM_PAGES));
	moor_process_close(owner.process);
}

struct piece {
	const char *name;
	u64 offset;
	u64 length;
	u32 access;
	int err;
};

/* Ranges of on-NIC memory of 5,000 bytes. */
static const struct piece pieces[] = {
	{ "all of it", 0, 5000, DM_RIGHTS, 0 },
	{ "the last byte", 4999, 1, DM_RIGHTS, 0 },
	{ "a byte beyond", 1, 5000, DM_RIGHTS, -EINVAL },
	{ "offset beyond", 5001, 0, DM_RIGHTS, -EINVAL },
	{ "not based at zero", 0, 5000, IB_ACCESS_LOCAL_WRITE, -EINVAL },
	{ "remote write without local", 0, 1, IB_ZERO_BASED | IB_ACCESS_REMOTE_WRITE,
	  -EINVAL },
	{ "on demand", 0, 1, IB_ZERO_BASED | IB_ACCESS_ON_DEMAND, -EOPNOTSUPP },
	{ "huge pages", 0, 1, IB_ZERO_BASED | IB_ACCESS_HUGETLB, -EOPNOTSUPP },
	{ "flushed for all", 0, 1, IB_ZERO_BASED | IB_ACCESS_FLUSH_GLOBAL, 0 },
	{ "persistent", 0, 1, IB_ZERO_BASED | IB_ACCESS_FLUSH_PERSISTENT,
	  -EOPNOTSUPP },
};

static void piece_desc(const struct piece *piece, char *desc)
{
	strscpy(desc, piece->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(piece, pieces, piece_desc);

static void dm_register(struct kunit *test)
{
	const struct piece *piece = test->param_value;
	struct moor_dm_location location;
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct owner owner;
	u32 dm, mr, key;
	u8 byte = 0x5a;

	owner_open(test, &owner);
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, 5000, 0, &dm, &location), 0);
	KUNIT_EXPECT_EQ(test, dm_reg(&owner, dm, piece->offset, piece->length,
				     piece->access, &mr, &key), piece->err);
	if (!piece->err) {
		/* The only allocation: it begins where the NIC's memory does. */
		KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, 0, 0, &byte, 1,
						      true), 0);
		KUNIT_EXPECT_EQ(test, nic->dm[piece->offset], byte);
		KUNIT_EXPECT_EQ(test, mr_destroy(&owner, mr), 0);
	}
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->keys), 0);
	moor_process_close(owner.process);
}

/* An MR of no bytes has a key that the device does not know, and needs no fence. */
static void dm_register_nothing(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dm_location location;
	struct moor_dev *mdev = test->priv;
	struct owner owner;
	u32 dm, mr, key, count = 9;
	unsigned long at;
	u8 byte;

	owner_open(test, &owner);
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, 5000, 0, &dm, &location), 0);
	KUNIT_ASSERT_EQ(test, dm_reg(&owner, dm, 5000, 0, DM_RIGHTS, &mr, &key), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_entry(key)->valid, 0);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->keys), 1);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, key, 0, 0, &byte, 1, false),
			MOOR_SYN_KEY);

	/* No window is bound to the MR; the device is not asked about its key. */
	moor_call_begin(owner.process, UVERBS_OBJECT_MR, MOOR_METHOD_MR_WINDOWS);
	moor_call_handle(owner.process, MOOR_ATTR_MR_WINDOWS_HANDLE, mr);
	at = moor_call_room(owner.process, MOOR_ATTR_MR_WINDOWS_COUNT, NULL,
			    sizeof(count));
	KUNIT_EXPECT_EQ(test, moor_call_run(owner.process), 0);
	moor_process_get(owner.process, at, &count, sizeof(count));
	KUNIT_EXPECT_EQ(test, count, 0);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_MR_WINDOWS], 0);

	KUNIT_EXPECT_EQ(test, mr_destroy(&owner, mr), 0);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_MR_REVOKE], 0);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->keys), 0);
	moor_process_close(owner.process);
}

/* All keys are taken: the refusal is recorded, and the memory kept. */
static void dm_register_limit(struct kunit *test)
{
	const u32 most = FAKE_CONSUMER_FIRST - MOOR_MR_INDEX_FIRST;
	struct moor_dm_location location;
	struct moor_dev *mdev = test->priv;
	u32 dm, mr, key, i;
	struct owner owner;

	owner_open(test, &owner);
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, 5000, 0, &dm, &location), 0);
	for (i = 0; i < most; i++)
		KUNIT_ASSERT_EQ(test, dm_reg(&owner, dm, 0, 10, DM_RIGHTS, &mr,
					     &key), 0);
	KUNIT_EXPECT_EQ(test, dm_reg(&owner, dm, 0, 10, DM_RIGHTS, &i, &key),
			-ENOMEM);
	KUNIT_EXPECT_EQ(test, mdev->refusals.last[0].refusal.reason,
			MOOR_REFUSAL_MR_LIMIT);
	KUNIT_EXPECT_EQ(test, mdev->refusals.last[0].refusal.limit, most);
	KUNIT_EXPECT_EQ(test, mdev->refusals.last[0].refusal.value, most);
	KUNIT_EXPECT_EQ(test, mr_destroy(&owner, mr), 0);
	KUNIT_EXPECT_EQ(test, dm_reg(&owner, dm, 0, 10, DM_RIGHTS, &mr, &key), 0);
	moor_process_close(owner.process);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->keys), 0);
}

static void dm_dead(struct kunit *test)
{
	struct moor_dm_location location;
	struct moor_dev *mdev = test->priv;
	struct owner owner;
	u32 dm, mr, key, more;

	owner_open(test, &owner);
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, 1, 0, &dm, &location), 0);
	KUNIT_ASSERT_EQ(test, dm_reg(&owner, dm, 0, 1, DM_RIGHTS, &mr, &key), 0);
	moor_hw_kill(mdev, "a test asks for it");
	KUNIT_EXPECT_EQ(test, dm_alloc(&owner, 1, 0, &more, &location), -EIO);
	KUNIT_EXPECT_EQ(test, dm_reg(&owner, dm, 0, 1, DM_RIGHTS, &more, &key), -EIO);
	KUNIT_EXPECT_EQ(test, mdev->refusals.last[0].refusal.reason,
			MOOR_REFUSAL_DEVICE);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->keys), 1);
	moor_process_close(owner.process);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(mdev->dm.used, FAKE_DM_PAGES));
}

/* A NIC without on-NIC memory. */
static void dm_none(struct kunit *test)
{
	struct moor_dm_location location;
	struct moor_dev *mdev;
	struct owner owner;
	u32 dm;

	mdev = moor_kunit_replug(test, MOOR_FEATURE_DM);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.max_dm_size, 0);
	owner_open(test, &owner);
	KUNIT_EXPECT_EQ(test, dm_alloc(&owner, 1, 0, &dm, &location), -EOPNOTSUPP);
	moor_process_close(owner.process);
}

/* A process ends with on-NIC memory and MRs of it. */
static void dm_dies(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct moor_dm_location location;
	struct owner owner;
	u32 dm, mr, key, i;

	owner_open(test, &owner);
	KUNIT_ASSERT_EQ(test, dm_alloc(&owner, PAGE_SIZE, 0, &dm, &location), 0);
	for (i = 0; i < 5; i++)
		KUNIT_ASSERT_EQ(test, dm_reg(&owner, dm, 0, PAGE_SIZE, DM_RIGHTS,
					     &mr, &key), 0);
	moor_process_close(owner.process);
	KUNIT_EXPECT_EQ(test, moor_kunit_entry(key)->valid, 0);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->keys), 0);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(mdev->dm.used, mdev->dm.pages));
}

static struct kunit_case dm_cases[] = {
	KUNIT_CASE(dm_data),
	KUNIT_CASE_PARAM(dm_request, request_gen_params),
	KUNIT_CASE(dm_pages),
	KUNIT_CASE(dm_mapped),
	KUNIT_CASE_PARAM(dm_register, piece_gen_params),
	KUNIT_CASE(dm_register_nothing),
	KUNIT_CASE(dm_register_limit),
	KUNIT_CASE(dm_dead),
	KUNIT_CASE(dm_none),
	KUNIT_CASE(dm_dies),
	{}
};

static struct kunit_suite dm_suite = {
	.name = "moor_dm",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = dm_cases,
};

kunit_test_suite(dm_suite);
