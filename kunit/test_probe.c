// SPDX-License-Identifier: GPL-2.0
/* From probe to remove, and what makes the driver leave a device alone. */

#include <linux/pci.h>
#include <linux/unaligned.h>

#include "fake.h"
#include "moor.h"

/* Plug in a NIC. Return: whether the driver takes it. */
static bool probes(struct kunit *test, struct fake_nic *nic)
{
	bool taken;

	fake_nic_plug(nic);
	taken = fake_nic_driver(nic);
	fake_nic_unplug(nic);
	KUNIT_EXPECT_EQ_MSG(test, nic->violations, 0, "%s", nic->violation);
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	fake_nic_free(nic);
	return taken;
}

static void probe_and_remove(struct kunit *test)
{
	int i;

	for (i = 0; i < 5; i++)
		KUNIT_EXPECT_TRUE(test, probes(test, fake_nic_new(test)));
}

static void probe_foreign_device(struct kunit *test)
{
	struct fake_nic *nic = fake_nic_new(test);

	nic->magic = 0x12345678;
	KUNIT_EXPECT_FALSE(test, probes(test, nic));
}

static void probe_other_major(struct kunit *test)
{
	struct fake_nic *nic = fake_nic_new(test);

	nic->version = FIELD_PREP(MOOR_VERSION_MAJOR,
				  MOOR_HW_VERSION_MAJOR + 1);
	KUNIT_EXPECT_FALSE(test, probes(test, nic));
}

static void probe_newer_minor(struct kunit *test)
{
	struct fake_nic *nic = fake_nic_new(test);

	nic->version |= FIELD_PREP(MOOR_VERSION_MINOR, 7);
	KUNIT_EXPECT_TRUE(test, probes(test, nic));
}

/* A device that refuses its EQs is left alone, with nothing kept. */
static void probe_command_fails(struct kunit *test)
{
	struct fake_nic *nic = fake_nic_new(test);

	nic->behave.fail_opcode = MOOR_CMD_CREATE_EQ;
	nic->behave.fail_status = MOOR_CMD_NO_RESOURCE;
	KUNIT_EXPECT_FALSE(test, probes(test, nic));
}

/* A BAR that is too small for its contents. */
static void probe_small_bar(struct kunit *test)
{
	struct fake_nic *nic = fake_nic_new(test);

	put_unaligned(~(u32)(MOOR_BAR_REGS_SIZE / 2 - 1),
		      (u32 *)(nic->cfg_writable + PCI_BASE_ADDRESS_0));
	KUNIT_EXPECT_FALSE(test, probes(test, nic));
}

struct odd {
	const char *name;
	u32 reg;
	u64 value;
};

/* Register values that must not be used as an index, a shift or a length. */
static const struct odd odds[] = {
	{ "no 4 KiB pages", MOOR_REG_PAGE_SIZES, 1 << 21 },
	{ "pages of 2 KiB", MOOR_REG_PAGE_SIZES, 3 << 11 },
	{ "pages of a byte", MOOR_REG_PAGE_SIZES, 1 << 12 | 1 },
	{ "no NODE_GUID", MOOR_REG_NODE_GUID, 0 },
	{ "MAC of zeros", MOOR_REG_MAC, 0 },
	{ "multicast MAC", MOOR_REG_MAC, 1 },
	{ "MAC of seven bytes", MOOR_REG_MAC, 0x1010000ffc002ULL },
	{ "MR_INDEX_BITS beyond BAR2", MOOR_REG_MR_INDEX_BITS, 13 },
	{ "MR_INDEX_BITS all ones", MOOR_REG_MR_INDEX_BITS, U32_MAX },
	{ "MR_CONSUMER_FIRST too large", MOOR_REG_MR_CONSUMER_FIRST, 4097 },
	{ "NULL_LKEY of index 0", MOOR_REG_NULL_LKEY, FAKE_NULL_LKEY - 1 },
	{ "NULL_LKEY of index 2", MOOR_REG_NULL_LKEY, 2 * FAKE_NULL_LKEY },
	{ "MAX_MR_SIZE below a page", MOOR_REG_MAX_MR_SIZE, MOOR_PAGE_SIZE - 1 },
	{ "MAX_MR_SIZE above 2^63", MOOR_REG_MAX_MR_SIZE, BIT_ULL(63) + 1 },
	{ "doorbell pages beyond BAR4", MOOR_REG_DB_PAGES, FAKE_DB_PAGES + 1 },
	{ "doorbell pages all ones", MOOR_REG_DB_PAGES, U32_MAX },
	{ "KICK_OFFSET not aligned", MOOR_REG_KICK_OFFSET, FAKE_KICK_OFFSET + 8 },
	{ "KICK_OFFSET within the doorbells", MOOR_REG_KICK_OFFSET, 4096 },
	{ "KICK_OFFSET beyond BAR4", MOOR_REG_KICK_OFFSET, FAKE_BAR4_BYTES },
	{ "DM_OFFSET not aligned", MOOR_REG_DM_OFFSET, FAKE_DM_OFFSET + 8 },
	{ "DM_OFFSET within the kicks", MOOR_REG_DM_OFFSET, FAKE_KICK_OFFSET },
	{ "DM_OFFSET beyond BAR4", MOOR_REG_DM_OFFSET, 2 * FAKE_BAR4_BYTES },
	{ "DM_SIZE not aligned", MOOR_REG_DM_SIZE, FAKE_DM_BYTES - 8 },
	{ "DM_SIZE beyond BAR4", MOOR_REG_DM_SIZE, FAKE_DM_BYTES + MOOR_PAGE_SIZE },
	{ "DM_SIZE all ones", MOOR_REG_DM_SIZE, U64_MAX },
	{ "never ready", MOOR_REG_STATUS, 0 },
};

static void odd_desc(const struct odd *odd, char *desc)
{
	strscpy(desc, odd->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(odd, odds, odd_desc);

static bool probes_showing(struct kunit *test, u32 reg, u64 value, u64 no_features)
{
	struct fake_nic *nic = fake_nic_new(test);

	nic->behave.odd_register = reg;
	nic->behave.odd_value = value;
	nic->behave.no_features = no_features;
	return probes(test, nic);
}

static void probe_odd_register(struct kunit *test)
{
	const struct odd *odd = test->param_value;

	KUNIT_EXPECT_FALSE(test, probes_showing(test, odd->reg, odd->value, 0));
}

/* Ranges of the document's table (HWI 4). */
struct limits {
	const char *name;
	u32 reg;
	u32 least;
	u32 most;
	bool fits;		/* the fake NIC works with both ends */
};

static const struct limits all_limits[] = {
	{ "MR_INDEX_BITS", MOOR_REG_MR_INDEX_BITS, 12, 20 },
	{ "MR_CONSUMER_FIRST", MOOR_REG_MR_CONSUMER_FIRST, 3, 1 << 12, true },
	{ "MAX_MSG_SIZE", MOOR_REG_MAX_MSG_SIZE, 1 << 12, 1U << 31, true },
	{ "QP_INDEX_BITS", MOOR_REG_QP_INDEX_BITS, 2, 24, true },
	{ "MAX_CQ", MOOR_REG_MAX_CQ, 1, 1 << 24, true },
	{ "MAX_EQ", MOOR_REG_MAX_EQ, 3, 120, true },
	{ "MAX_LOG_WQE", MOOR_REG_MAX_LOG_WQE, 0, 24, true },
	{ "MAX_SGE", MOOR_REG_MAX_SGE, 1, 27, true },
	{ "MAX_INLINE", MOOR_REG_MAX_INLINE, 0, 480, true },
	{ "MAX_LOG_CQE", MOOR_REG_MAX_LOG_CQE, 1, 24, true },
	{ "MAX_GID", MOOR_REG_MAX_GID, 1, 255, true },
	{ "MAX_RD_ATOMIC", MOOR_REG_MAX_RD_ATOMIC, 1, 255, true },
	{ "MAX_LOG_CMD", MOOR_REG_MAX_LOG_CMD, 1, 16 },
	{ "MAX_LOG_EQE", MOOR_REG_MAX_LOG_EQE, 7, 24 },
	{ "NUM_VECTORS", MOOR_REG_NUM_VECTORS, 3, 1024, true },
	{ "DB_PAGES", MOOR_REG_DB_PAGES, 2, 1 << 19 },
	{ "SRQ_INDEX_BITS", MOOR_REG_SRQ_INDEX_BITS, 2, 24, true },
	{ "MAX_FILTER", MOOR_REG_MAX_FILTER, 1, 1 << 24, true },
};

static void limits_desc(const struct limits *limits, char *desc)
{
	strscpy(desc, limits->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(limits, all_limits, limits_desc);

/* Both ends of a range are accepted, the next value on either side is not. */
static void probe_limits(struct kunit *test)
{
	const struct limits *limits = test->param_value;
	/* Without datagrams the core makes no queues during the probe. */
	u64 missing = limits->reg == MOOR_REG_MAX_FILTER ? 0 : MOOR_FEATURE_UD;

	if (limits->least)
		KUNIT_EXPECT_FALSE(test, probes_showing(test, limits->reg,
							limits->least - 1, 0));
	KUNIT_EXPECT_FALSE(test, probes_showing(test, limits->reg, limits->most + 1, 0));
	KUNIT_EXPECT_FALSE(test, probes_showing(test, limits->reg, U32_MAX, 0));
	if (!limits->fits)
		return;
	KUNIT_EXPECT_TRUE(test, probes_showing(test, limits->reg, limits->least,
					       missing));
	KUNIT_EXPECT_TRUE(test, probes_showing(test, limits->reg, limits->most,
					       missing));
}

/* A register of a feature is 0 without the feature (HWI REG-9). */
static void probe_meaningless(struct kunit *test)
{
	const u64 no_srq = MOOR_FEATURE_SRQ | MOOR_FEATURE_XRC;

	KUNIT_EXPECT_TRUE(test, probes_showing(test, MOOR_REG_SRQ_INDEX_BITS, 0,
					       no_srq));
	KUNIT_EXPECT_FALSE(test, probes_showing(test, MOOR_REG_SRQ_INDEX_BITS, 4,
						no_srq));
	KUNIT_EXPECT_FALSE(test, probes_showing(test, MOOR_REG_SRQ_INDEX_BITS, 64,
						no_srq));
	KUNIT_EXPECT_TRUE(test, probes_showing(test, MOOR_REG_MAX_FILTER, 0,
					       MOOR_FEATURE_UD));
	KUNIT_EXPECT_FALSE(test, probes_showing(test, MOOR_REG_MAX_FILTER, 1,
						MOOR_FEATURE_UD));
}

static void probe_attributes(struct kunit *test)
{
	struct fake_nic *nic = fake_nic_new(test);
	struct ib_port_attr port = {};
	struct moor_dev *mdev;

	fake_nic_plug(nic);
	mdev = fake_nic_driver(nic);
	KUNIT_ASSERT_NOT_NULL(test, mdev);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(mdev->ibdev.node_guid),
			0x0200c0fffe000001ULL);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.max_mr,
			FAKE_CONSUMER_FIRST - MOOR_MR_INDEX_FIRST);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.max_cq, FAKE_MAX_CQ);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.num_comp_vectors,
			min(num_online_cpus(), FAKE_VECTORS - 3U));
	KUNIT_EXPECT_EQ(test, ib_query_port(&mdev->ibdev, MOOR_PORT, &port), 0);
	KUNIT_EXPECT_TRUE(test, netif_carrier_ok(mdev->netdev));
	KUNIT_EXPECT_EQ(test, port.gid_tbl_len, 16);
	KUNIT_EXPECT_GT(test, nic->commands[MOOR_CMD_CREATE_EQ], 1);
	fake_nic_unplug(nic);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_CREATE_EQ],
			nic->commands[MOOR_CMD_DESTROY_EQ]);
	KUNIT_EXPECT_EQ_MSG(test, nic->violations, 0, "%s", nic->violation);
	fake_nic_free(nic);
}

/* The device is gone before its driver knows: removal must not hang. */
static void remove_surprise(struct kunit *test)
{
	struct fake_nic *nic = fake_nic_new(test);

	fake_nic_plug(nic);
	KUNIT_ASSERT_NOT_NULL(test, fake_nic_driver(nic));
	nic->status = ~0U;
	fake_nic_unplug(nic);
	fake_nic_free(nic);
}

static struct kunit_case probe_cases[] = {
	KUNIT_CASE(probe_and_remove),
	KUNIT_CASE(probe_foreign_device),
	KUNIT_CASE(probe_other_major),
	KUNIT_CASE(probe_newer_minor),
	KUNIT_CASE(probe_command_fails),
	KUNIT_CASE(probe_small_bar),
	KUNIT_CASE_PARAM(probe_odd_register, odd_gen_params),
	KUNIT_CASE_PARAM(probe_limits, limits_gen_params),
	KUNIT_CASE(probe_meaningless),
	KUNIT_CASE(probe_attributes),
	KUNIT_CASE(remove_surprise),
	{}
};

static struct kunit_suite probe_suite = {
	.name = "moor_probe",
	.test_cases = probe_cases,
};

kunit_test_suite(probe_suite);
