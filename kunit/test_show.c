// SPDX-License-Identifier: GPL-2.0
/*
 * Output for people: debugfs, the driver's attributes of an MR in resource tracking,
 * and the words for why a registration failed.
 */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/uaccess.h>
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>
#include <uapi/rdma/rdma_netlink.h>

#include "harness.h"
#include "kernel_pair.h"
#include "trace.h"

#define FILE_BYTES	(256 * 1024)

/* The text of a file in the device's folder, read as cat does. */
static char *file_text(struct kunit *test, const char *name)
{
	struct moor_dev *mdev = test->priv;
	char *text = kunit_kzalloc(test, FILE_BYTES, GFP_KERNEL);
	unsigned long page = moor_kunit_mmap(test, PAGE_SIZE, true);
	size_t used = 0;
	struct file *file;
	char path[128];
	loff_t pos = 0;
	ssize_t got;

	KUNIT_ASSERT_NOT_NULL(test, text);
	snprintf(path, sizeof(path), "/sys/kernel/debug/" KBUILD_MODNAME "/%s/%s",
		 pci_name(mdev->pdev), name);
	file = moor_kunit_open(path, O_RDONLY);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	while ((got = file->f_op->read(file, (char __user *)page, PAGE_SIZE,
				       &pos)) > 0) {
		KUNIT_ASSERT_LT(test, used + got, FILE_BYTES);
		KUNIT_ASSERT_EQ(test, copy_from_user(text + used,
						     (void __user *)page, got), 0);
		used += got;
	}
	KUNIT_EXPECT_EQ(test, got, 0);
	filp_close(file, NULL);
	return text;
}

static u32 count_lines(const char *text)
{
	u32 lines = 0;

	while ((text = strchr(text, '\n'))) {
		lines++;
		text++;
	}
	return lines;
}

/* The line that begins with a key, cut out; NULL if there is none. */
static char *line_of(struct kunit *test, const char *text, u32 key)
{
	char head[16], *line;
	const char *at;

	snprintf(head, sizeof(head), "\n%#010x ", key);
	at = strstr(text, head);
	if (!at)
		return NULL;
	line = kunit_kstrdup(test, at + 1, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, line);
	*strchrnul(line, '\n') = 0;
	return line;
}

/* One line for an MR, with its context entry. */
static void show_mr(struct kunit *test)
{
	u32 lkey, rkey, type, generation, pd, access, levels, shift, nodes, memory;
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	u64 iova, length, start, root, offset;
	const struct moor_mr_context *entry;
	char *line;
	int fields;

	KUNIT_EXPECT_EQ(test, count_lines(file_text(test, "mr")), 2);
	line = line_of(test, file_text(test, "mr"), region->mr->lkey);
	KUNIT_ASSERT_NOT_NULL(test, line);
	fields = sscanf(line, "%x %x %u %u %u %x %llx %llx %llx %u %u %u %llx %llx %u",
			&lkey, &rkey, &type, &generation, &pd, &access, &iova,
			&length, &start, &levels, &shift, &nodes, &root, &offset,
			&memory);
	KUNIT_ASSERT_EQ(test, fields, 15);
	entry = moor_kunit_entry(lkey);
	KUNIT_EXPECT_EQ(test, rkey, region->mr->rkey);
	KUNIT_EXPECT_EQ(test, type, MOOR_MRC_TYPE_MR);
	KUNIT_EXPECT_EQ(test, generation, 0);
	KUNIT_EXPECT_EQ(test, pd, to_mpd(region->pd)->pdn);
	KUNIT_EXPECT_EQ(test, access, le32_to_cpu(entry->access));
	KUNIT_EXPECT_EQ(test, iova, region->addr);
	KUNIT_EXPECT_EQ(test, start, region->addr);
	KUNIT_EXPECT_EQ(test, length, REGION_LENGTH);
	KUNIT_EXPECT_EQ(test, levels, entry->xlat.levels);
	KUNIT_EXPECT_EQ(test, shift, entry->xlat.page_shift);
	KUNIT_EXPECT_EQ(test, nodes, 1);
	KUNIT_EXPECT_EQ(test, root, le64_to_cpu(entry->xlat.root));
	KUNIT_EXPECT_EQ(test, offset, le64_to_cpu(entry->xlat.offset));
	KUNIT_EXPECT_EQ(test, memory, 0);
	moor_region_free(test, region);
	KUNIT_EXPECT_EQ(test, count_lines(file_text(test, "mr")), 1);
}

/* More MRs than a read takes at once, with gaps: each is shown once. */
static void show_many(struct kunit *test)
{
	unsigned long addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_mr *mrs[200];
	u32 i, missing = 0;
	char *text;

	for (i = 0; i < ARRAY_SIZE(mrs); i++) {
		mrs[i] = moor_kunit_reg(pd, addr, PAGE_SIZE, addr, 0);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mrs[i]);
	}
	for (i = 0; i < ARRAY_SIZE(mrs); i += 3)
		KUNIT_ASSERT_EQ(test, moor_kunit_dereg(mrs[i]), 0);
	text = file_text(test, "mr");
	KUNIT_EXPECT_EQ(test, count_lines(text), 1 + 200 - 67);
	for (i = 0; i < ARRAY_SIZE(mrs); i++) {
		if (i % 3 == 0)
			continue;
		missing += !line_of(test, text, mrs[i]->lkey);
		KUNIT_ASSERT_EQ(test, moor_kunit_dereg(mrs[i]), 0);
	}
	KUNIT_EXPECT_EQ(test, missing, 0);
	moor_kunit_pd_free(test, pd);
}

/* Bound windows, by MR, with QP and process; MRs without windows are left out. */
static void show_windows(struct kunit *test)
{
	u32 key, type, qpn, mr_key, access;
	struct fake_nic *nic = moor_kunit_nic();
	u64 iova, length;
	struct moor_pair pair;
	struct ib_mr *mr, *plain;
	struct moor_mw mw = {};
	struct fake_bind bind;
	unsigned long addr;
	char comm[TASK_COMM_LEN], *line;
	int pid, fields;

	moor_pair_open(test, &pair);
	addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	mr = moor_kunit_reg(pair.pd, addr, PAGE_SIZE, addr, ALL_RIGHTS);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	plain = moor_kunit_reg(pair.pd, addr, PAGE_SIZE, addr, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, plain);
	mw.ibmw.device = pair.pd->device;
	mw.ibmw.pd = pair.pd;
	mw.ibmw.type = IB_MW_TYPE_2;
	KUNIT_ASSERT_EQ(test, moor_alloc_mw(&mw.ibmw, NULL), 0);
	KUNIT_EXPECT_EQ(test, count_lines(file_text(test, "windows")), 1);
	bind = (struct fake_bind){
		.mw_key = mw.ibmw.rkey,
		.new_key = ib_inc_rkey(mw.ibmw.rkey),
		.mr_lkey = mr->lkey,
		.qpn = pair.qp->qpn,
		.access = MOOR_ACCESS_REMOTE_WRITE,
		.addr = addr + 5,
		.length = 1000,
	};
	KUNIT_ASSERT_EQ(test, fake_nic_bind(nic, &bind), 0);
	KUNIT_EXPECT_EQ(test, count_lines(file_text(test, "windows")), 2);
	line = line_of(test, file_text(test, "windows"), bind.new_key);
	KUNIT_ASSERT_NOT_NULL(test, line);
	fields = sscanf(line, "%x %u %x %d %15s %x %llx %llx %x", &key, &type,
			&qpn, &pid, comm, &mr_key, &iova, &length, &access);
	KUNIT_ASSERT_EQ(test, fields, 9);
	KUNIT_EXPECT_EQ(test, type, 2);
	KUNIT_EXPECT_EQ(test, qpn, pair.qp->qpn);
	KUNIT_EXPECT_EQ(test, pid, task_tgid_nr(current));
	KUNIT_EXPECT_STREQ(test, comm, current->group_leader->comm);
	KUNIT_EXPECT_EQ(test, mr_key, mr->lkey);
	KUNIT_EXPECT_EQ(test, iova, addr + 5);
	KUNIT_EXPECT_EQ(test, length, 1000);
	KUNIT_EXPECT_EQ(test, access, MOOR_ACCESS_REMOTE_WRITE);
	KUNIT_EXPECT_EQ(test, moor_dealloc_mw(&mw.ibmw), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(plain), 0);
	moor_pair_close(test, &pair);
}

/* The last refusals, oldest first; earlier ones are forgotten. */
static void show_refusals(struct kunit *test)
{
	const u32 count = MOOR_REFUSALS_KEPT + 5;
	struct ib_pd *pd = moor_kunit_pd(test);
	char *text = file_text(test, "refusals"), *line, reason[16];
	u64 time, value, limit, start, length;
	char comm[TASK_COMM_LEN];
	int pid, error, fields;
	u32 access, i;

	KUNIT_EXPECT_EQ(test, count_lines(text), 1);
	for (i = 0; i < count; i++)
		KUNIT_ASSERT_TRUE(test, IS_ERR(moor_reg_user_mr(pd, i, 1ULL << 50, i,
								IB_ACCESS_MW_BIND,
								NULL)));
	text = file_text(test, "refusals");
	KUNIT_EXPECT_EQ(test, count_lines(text), 1 + MOOR_REFUSALS_KEPT);
	line = text;
	for (i = count - MOOR_REFUSALS_KEPT; i < count; i++) {
		line = strchr(line, '\n') + 1;
		fields = sscanf(line, "%lld %d %15s %d %15s %llx %llx %llx %llx %x",
				&time, &pid, comm, &error, reason, &value,
				&limit, &start, &length, &access);
		KUNIT_ASSERT_EQ(test, fields, 10);
		KUNIT_EXPECT_EQ(test, pid, task_tgid_nr(current));
		KUNIT_EXPECT_EQ(test, error, EINVAL);
		KUNIT_EXPECT_STREQ(test, reason, "length");
		KUNIT_EXPECT_EQ(test, value, 1ULL << 50);
		KUNIT_EXPECT_EQ(test, limit, 1ULL << 40);
		KUNIT_EXPECT_EQ(test, start, i);
		KUNIT_EXPECT_EQ(test, access, IB_ACCESS_MW_BIND);
	}
	moor_kunit_pd_free(test, pd);
}

/* The value of a named driver attribute, 32 or 64 bits wide. */
static bool driver_attr(const struct nlattr *table, const char *name, u64 *value)
{
	const struct nlattr *attr;
	bool named = false;
	int rest;

	nla_for_each_nested(attr, table, rest) {
		switch (nla_type(attr)) {
		case RDMA_NLDEV_ATTR_DRIVER_STRING:
			named = !nla_strcmp(attr, name);
			break;
		case RDMA_NLDEV_ATTR_DRIVER_U32:
			*value = nla_get_u32(attr);
			if (named)
				return true;
			break;
		case RDMA_NLDEV_ATTR_DRIVER_U64:
			*value = nla_get_u64(attr);
			if (named)
				return true;
			break;
		}
	}
	return false;
}

static void expect_attr(struct kunit *test, const struct nlattr *table,
			const char *name, u64 expected)
{
	u64 value = 0;

	KUNIT_EXPECT_TRUE_MSG(test, driver_attr(table, name, &value), "no %s", name);
	KUNIT_EXPECT_EQ_MSG(test, value, expected, "%s", name);
}

/* "rdma resource show mr -dd"; a message that is too short stays unchanged. */
static void show_restrack(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	struct ib_mr *mr = region->mr;
	u32 index = mr->lkey >> (32 - FAKE_MR_INDEX_BITS);
	const struct moor_mr_context *entry = moor_kunit_entry(mr->lkey);
	struct sk_buff *msg;
	struct nlattr *table;
	size_t room;

	moor_kunit_nic()->windows[index] = 7;
	msg = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, msg);
	KUNIT_ASSERT_EQ(test, moor_fill_res_mr_entry(msg, mr), 0);
	table = (struct nlattr *)msg->data;
	KUNIT_EXPECT_EQ(test, nla_type(table), RDMA_NLDEV_ATTR_DRIVER);
	expect_attr(test, table, "mr_iova", region->addr);
	expect_attr(test, table, "mr_start", region->addr);
	expect_attr(test, table, "access", 0x1f);
	expect_attr(test, table, "windows", 7);
	expect_attr(test, table, "generation", 0);
	expect_attr(test, table, "memory", 0);
	expect_attr(test, table, "levels", entry->xlat.levels);
	expect_attr(test, table, "page_shift", entry->xlat.page_shift);
	expect_attr(test, table, "nodes", 1);
	expect_attr(test, table, "root", le64_to_cpu(entry->xlat.root));
	room = msg->len;
	nlmsg_free(msg);

	/* Each length that is too short: refused, and nothing half-written. */
	while (room) {
		room -= 4;
		msg = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, msg);
		skb_put(msg, skb_tailroom(msg) - room);
		index = msg->len;
		KUNIT_EXPECT_EQ(test, moor_fill_res_mr_entry(msg, mr), -EMSGSIZE);
		KUNIT_EXPECT_EQ(test, msg->len, index);
		nlmsg_free(msg);
	}
	moor_kunit_nic()->windows[mr->lkey >> (32 - FAKE_MR_INDEX_BITS)] = 0;
	moor_region_free(test, region);
}

#define HOLDERS		9	/* one more than "rdma resource" lists */

/* Windows bound to one MR, and the tracepoint's events of them. */
struct holders {
	struct moor_mw mw[HOLDERS];
	u32 lkey;
	u32 qpn;
	u32 traced;	/* bit by window */
	u32 wrong;	/* events that are not of these windows */
};

static void holder_traced(void *data, struct moor_dev *mdev, u32 key,
			  const struct moor_window *window)
{
	struct holders *holders = data;
	u32 i;

	for (i = 0; i < HOLDERS; i++)
		if (holders->mw[i].ibmw.rkey == window->rkey)
			break;
	if (i == HOLDERS || key != holders->lkey || window->type != 2 ||
	    window->qpn != holders->qpn)
		holders->wrong++;
	else
		holders->traced |= BIT(i);
}

static void holders_bind(struct kunit *test, struct holders *holders,
			 struct ib_pd *pd, unsigned long addr)
{
	struct fake_bind bind = {
		.mr_lkey = holders->lkey,
		.qpn = holders->qpn,
		.access = MOOR_ACCESS_REMOTE_READ,
		.addr = addr,
		.length = PAGE_SIZE,
	};
	struct ib_mw *mw;
	u32 i;

	for (i = 0; i < HOLDERS; i++) {
		mw = &holders->mw[i].ibmw;
		mw->device = pd->device;
		mw->pd = pd;
		mw->type = IB_MW_TYPE_2;
		KUNIT_ASSERT_EQ(test, moor_alloc_mw(mw, NULL), 0);
		bind.mw_key = mw->rkey;
		bind.new_key = ib_inc_rkey(mw->rkey);
		KUNIT_ASSERT_EQ(test, fake_nic_bind(moor_kunit_nic(), &bind), 0);
		mw->rkey = bind.new_key;
	}
}

/* The first windows are in "rdma resource show mr -dd", each once. */
static void holders_expect_listed(struct kunit *test, struct holders *holders,
				  struct ib_mr *mr)
{
	struct sk_buff *msg = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	const struct nlattr *table;
	char name[32];
	u32 listed = 0, i, k;
	u64 rkey;

	KUNIT_ASSERT_NOT_NULL(test, msg);
	KUNIT_ASSERT_EQ(test, moor_fill_res_mr_entry(msg, mr), 0);
	table = (struct nlattr *)msg->data;
	expect_attr(test, table, "windows", HOLDERS);
	for (i = 0; i < HOLDERS - 1; i++) {
		snprintf(name, sizeof(name), "window%u_rkey", i);
		KUNIT_EXPECT_TRUE(test, driver_attr(table, name, &rkey));
		for (k = 0; k < HOLDERS; k++)
			if (holders->mw[k].ibmw.rkey == rkey)
				listed |= BIT(k);
		snprintf(name, sizeof(name), "window%u_type", i);
		expect_attr(test, table, name, 2);
		snprintf(name, sizeof(name), "window%u_qpn", i);
		expect_attr(test, table, name, holders->qpn);
		snprintf(name, sizeof(name), "window%u_pid", i);
		expect_attr(test, table, name, task_tgid_nr(current));
	}
	KUNIT_EXPECT_EQ(test, hweight32(listed), HOLDERS - 1);
	snprintf(name, sizeof(name), "window%u_rkey", HOLDERS - 1);
	KUNIT_EXPECT_FALSE(test, driver_attr(table, name, &rkey));
	nlmsg_free(msg);
}

/* Without CAP_NET_ADMIN a process sees neither keys nor addresses of others. */
static void holders_hidden(struct kunit *test, struct ib_mr *mr)
{
	static const char *const hidden[] = {
		"mr_iova", "mr_start", "root", "window0_rkey", "window0_qpn",
	};
	struct sk_buff *msg = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	struct cred *nobody = prepare_creds();
	const struct cred *before;
	struct nlattr *table;
	u64 value;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, msg);
	KUNIT_ASSERT_NOT_NULL(test, nobody);
	cap_lower(nobody->cap_effective, CAP_NET_ADMIN);
	before = override_creds(nobody);
	KUNIT_EXPECT_EQ(test, moor_fill_res_mr_entry(msg, mr), 0);
	revert_creds(before);
	put_cred(nobody);
	table = (struct nlattr *)msg->data;
	expect_attr(test, table, "windows", HOLDERS);
	expect_attr(test, table, "generation", 0);
	for (i = 0; i < ARRAY_SIZE(hidden); i++)
		KUNIT_EXPECT_FALSE_MSG(test, driver_attr(table, hidden[i], &value),
				       "%s", hidden[i]);
	nlmsg_free(msg);
}

/* Windows that hold an MR: resource tracking lists them, and -EBUSY traces them all. */
static void show_holders(struct kunit *test)
{
	struct holders *holders = kunit_kzalloc(test, sizeof(*holders),
						GFP_KERNEL);
	struct moor_pair pair;
	unsigned long addr;
	struct ib_mr *mr;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, holders);
	moor_pair_open(test, &pair);
	addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	mr = moor_kunit_reg(pair.pd, addr, PAGE_SIZE, addr, ALL_RIGHTS);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	holders->lkey = mr->lkey;
	holders->qpn = pair.qp->qpn;
	holders_bind(test, holders, pair.pd, addr);
	holders_expect_listed(test, holders, mr);
	holders_hidden(test, mr);

	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), -EBUSY);
	KUNIT_EXPECT_EQ(test, holders->traced, 0);	/* no probe yet */
	KUNIT_ASSERT_EQ(test, register_trace_moor_mr_holder(holder_traced,
							    holders), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), -EBUSY);
	unregister_trace_moor_mr_holder(holder_traced, holders);
	tracepoint_synchronize_unregister();
	KUNIT_EXPECT_EQ(test, holders->traced, GENMASK(HOLDERS - 1, 0));
	KUNIT_EXPECT_EQ(test, holders->wrong, 0);

	for (i = 0; i < HOLDERS; i++)
		KUNIT_EXPECT_EQ(test, moor_dealloc_mw(&holders->mw[i].ibmw), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	moor_pair_close(test, &pair);
}

struct destroyer {
	struct kernel_pair *pair;
	struct completion done;
};

static int destroyer_run(void *data)
{
	struct destroyer *me = data;

	ib_destroy_qp(&me->pair->qp->ibqp);
	complete_all(&me->done);
	return 0;
}

/* The core's list of QPs asks for one that is being destroyed: it is left out. */
static void show_leaving(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct destroyer me = { .pair = pair };
	u32 queries = nic->commands[MOOR_CMD_QUERY_QP];
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	KUNIT_EXPECT_EQ(test, ib_query_qp(&pair->qp->ibqp, &attr, IB_QP_STATE, &init), 0);
	init_completion(&me.done);
	WRITE_ONCE(nic->behave.pause, true);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(destroyer_run, &me, "destroyer"));
	moor_kunit_wait(test, READ_ONCE(pair->mdev->cmdq.sleepers));
	KUNIT_EXPECT_EQ(test, ib_query_qp(&pair->qp->ibqp, &attr, IB_QP_STATE, &init),
			-EAGAIN);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_QUERY_QP], queries + 1);
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
	wait_for_completion(&me.done);
	kernel_pair_add_qp(test, pair, IB_QPT_RC);
	kernel_pair_close(test, pair);
}

static struct kunit_case show_cases[] = {
	KUNIT_CASE(show_mr),
	KUNIT_CASE(show_many),
	KUNIT_CASE(show_windows),
	KUNIT_CASE(show_refusals),
	KUNIT_CASE(show_restrack),
	KUNIT_CASE(show_holders),
	KUNIT_CASE(show_leaving),
	{}
};

static struct kunit_suite show_suite = {
	.name = "moor_show",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = show_cases,
};

kunit_test_suite(show_suite);
