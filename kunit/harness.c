// SPDX-License-Identifier: GPL-2.0
/*
 * A NIC with its driver for each case, a process that uses it, and a check after
 * the case that it left nothing behind.
 */

#include <linux/dma-mapping.h>
#include <linux/fs_struct.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/pid_namespace.h>
#include <linux/rtnetlink.h>
#include <linux/uaccess.h>

#include "harness.h"
#include <uverbs.h>

static struct fake_nic *nic;

struct fake_nic *moor_kunit_nic(void)
{
	return nic;
}

static int plug_first(struct kunit *test, u64 no_features)
{
	nic = fake_nic_new(test);
	nic->behave.no_features = no_features;
	fake_nic_plug(nic);
	test->priv = fake_nic_driver(nic);
	if (!test->priv) {
		fake_nic_unplug(nic);
		fake_nic_free(nic);
		nic = NULL;
	}
	KUNIT_ASSERT_NOT_NULL_MSG(test, test->priv, "the driver did not probe");
	return 0;
}

/**
 * moor_kunit_init - plug a NIC in before a case; its driver has probed it
 * @test: case; its priv is the driver's device afterwards
 *
 * The NIC has no datagrams: with them the core's MAD agents have objects on it, too,
 * which cases that count objects would have to subtract.
 *
 * Return: 0; failures are asserted
 */
int moor_kunit_init(struct kunit *test)
{
	return plug_first(test, MOOR_FEATURE_UD);
}

/**
 * moor_kunit_init_all - as moor_kunit_init(), for a NIC with all features
 * @test: case
 *
 * Return: 0; failures are asserted
 */
int moor_kunit_init_all(struct kunit *test)
{
	return plug_first(test, 0);
}

/* The driver's current device of the case's NIC, or NULL while there is none. */
struct moor_dev *moor_kunit_attached(struct kunit *test)
{
	test->priv = fake_nic_driver(nic);
	return test->priv;
}

int moor_kunit_netdev_up(struct net_device *netdev, bool up)
{
	int err = 0;

	rtnl_lock();
	if (up)
		err = dev_open(netdev, NULL);
	else
		dev_close(netdev);
	rtnl_unlock();
	return err;
}

/**
 * moor_kunit_replug - replug the case's NIC with fewer features
 * @test: case
 * @no_features: MOOR_FEATURE_* that the NIC does not have any more
 *
 * Return: the driver's new device; the old device is gone
 */
struct moor_dev *moor_kunit_replug(struct kunit *test, u64 no_features)
{
	fake_nic_unplug(nic);
	nic->behave.no_features |= no_features;
	fake_nic_plug(nic);
	test->priv = fake_nic_driver(nic);
	KUNIT_ASSERT_NOT_NULL_MSG(test, test->priv, "the driver did not probe");
	return test->priv;
}

/**
 * moor_kunit_exit - unplug the NIC after a case
 * @test: case
 *
 * Checks that the case has left nothing in the device.
 */
void moor_kunit_exit(struct kunit *test)
{
	struct moor_dev *mdev;
	u32 index, own, valid = 0;

	if (!nic)
		return;
	mdev = fake_nic_driver(nic);
	/* The MAD agents have a key and a CQ, which a dead device has lost. */
	own = mdev && !moor_is_dead(mdev) &&
	      rdma_cap_ib_mad(&mdev->ibdev, MOOR_PORT);
	for (index = 0; index < 1U << FAKE_MR_INDEX_BITS; index++)
		valid += !!nic->mr[index].valid;
	KUNIT_EXPECT_EQ_MSG(test, valid, own,
			    "an entry of the context table stayed valid");
	KUNIT_EXPECT_EQ(test, bitmap_weight(nic->cqs, FAKE_MAX_CQ), own);
	fake_nic_unplug(nic);
	KUNIT_EXPECT_EQ_MSG(test, nic->violations, 0,
			    "the driver broke the interface: %s",
			    nic->violation);
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	fake_nic_free(nic);
	nic = NULL;
}

/**
 * moor_bare_init - a device for cases that need no NIC
 * @test: case; its priv is the driver's device afterwards
 *
 * The device has capabilities, memory for DMA and free table nodes, and is on no
 * bus: so these cases run on every architecture.
 *
 * Return: 0; failures are asserted
 */
int moor_bare_init(struct kunit *test)
{
	struct moor_dev *mdev = kunit_kzalloc(test, sizeof(*mdev), GFP_KERNEL);
	struct pci_dev *pdev = kunit_kzalloc(test, sizeof(*pdev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mdev);
	KUNIT_ASSERT_NOT_NULL(test, pdev);
	pdev->dev.init_name = "moor-bare";
	pdev->dev.coherent_dma_mask = DMA_BIT_MASK(64);
	mdev->pdev = pdev;
	mdev->caps.page_sizes = ~0ULL << MOOR_MIN_PAGE_SHIFT;
	mdev->caps.max_mr_size = 1ULL << 40;
	mdev->caps.mr_index_bits = FAKE_MR_INDEX_BITS;
	mdev->caps.mr_consumer_first = FAKE_CONSUMER_FIRST;
	KUNIT_ASSERT_EQ(test, moor_nodes_init(mdev), 0);
	test->priv = mdev;
	return 0;
}

void moor_bare_exit(struct kunit *test)
{
	moor_nodes_destroy(test->priv);
}

/**
 * moor_kunit_mmap - memory of the case's own process
 * @test: case
 * @length: bytes
 * @writable: false: for reading only
 *
 * Return: its address
 */
unsigned long moor_kunit_mmap(struct kunit *test, size_t length, bool writable)
{
	unsigned long addr;

	addr = kunit_vm_mmap(test, NULL, 0, length,
			     PROT_READ | (writable ? PROT_WRITE : 0),
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, addr, 0UL);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(addr));
	return addr;
}

/**
 * moor_kunit_mmap_scattered - memory that takes a table to describe
 * @test: case
 * @length: bytes
 *
 * The even pages are touched before the odd ones, so that neighbouring pages are
 * not contiguous in physical memory.
 *
 * Return: its address
 */
unsigned long moor_kunit_mmap_scattered(struct kunit *test, size_t length)
{
	unsigned long addr = moor_kunit_mmap(test, length, true);
	size_t first, at;

	for (first = 0; first < 2 * PAGE_SIZE; first += PAGE_SIZE)
		for (at = first; at < length; at += 2 * PAGE_SIZE)
			KUNIT_ASSERT_EQ(test, put_user(0, (u8 __user *)(addr + at)),
					0);
	return addr;
}

/**
 * moor_kunit_open - open a file by its name
 * @path: absolute
 * @flags: O_*
 *
 * A case is a kernel thread, whose own root is empty since 7.3: uses process 1's.
 *
 * Return: the file, or an error pointer
 */
struct file *moor_kunit_open(const char *path, int flags)
{
	struct file *file;
	struct path root;

	get_fs_root(init_pid_ns.child_reaper->fs, &root);
	file = file_open_root(&root, path, flags, 0);
	path_put(&root);
	return file;
}

/* Pages of the case's process that are pinned now: 0 if it has no memory. */
long moor_kunit_pinned(void)
{
	return current->mm ? atomic64_read(&current->mm->pinned_vm) : 0;
}

/**
 * moor_user_udata - set the driver's private input and room for its answer
 * @test: case
 * @user: process
 * @in: input
 * @in_len: its bytes, 0 for none
 * @out_len: bytes of room
 *
 * The room is filled with 0xaa. Injected failures (&task_struct.fail_nth) are meant for
 * the driver, and do not count here.
 *
 * Return: the udata for a verb
 */
struct ib_udata *moor_user_udata(struct kunit *test, struct moor_user *user,
				 const void *in, size_t in_len, size_t out_len)
{
	struct ib_udata *udata = &user->attrs.driver_udata;
	unsigned int nth = current->fail_nth;
	u8 fill[256];

	current->fail_nth = 0;
	KUNIT_ASSERT_LE(test, out_len, sizeof(fill));
	memset(fill, 0xaa, sizeof(fill));
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)user->in, in, in_len), 0);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)user->out, fill,
					   sizeof(fill)), 0);
	*udata = (struct ib_udata){
		.inbuf = (void __user *)user->in,
		.outbuf = (void __user *)user->out,
		.inlen = in_len,
		.outlen = out_len,
	};
	current->fail_nth = nth;
	return udata;
}

/* Copy the driver's answer, and the 0xaa behind it. */
void moor_user_answer(struct kunit *test, struct moor_user *user, void *to,
		      size_t len)
{
	KUNIT_ASSERT_EQ(test, copy_from_user(to, (void __user *)user->out, len), 0);
}

/**
 * moor_user_open - open the case's device for a process
 * @test: case
 *
 * Return: the process, for moor_user_close()
 */
struct moor_user *moor_user_open(struct kunit *test)
{
	struct moor_user *user = kunit_kzalloc(test, sizeof(*user), GFP_KERNEL);
	struct moor_alloc_ucontext_req req = {};
	struct ib_udata *udata;

	KUNIT_ASSERT_NOT_NULL(test, user);
	user->mdev = test->priv;
	user->in = moor_kunit_mmap(test, PAGE_SIZE, true);
	user->out = moor_kunit_mmap(test, PAGE_SIZE, true);
	user->ufile = kunit_kzalloc(test, sizeof(*user->ufile), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, user->ufile);
	mutex_init(&user->ufile->umap_lock);
	user->uctx.ibucontext.device = &user->mdev->ibdev;
	user->uctx.ibucontext.ufile = user->ufile;
	xa_init_flags(&user->uctx.ibucontext.mmap_xa, XA_FLAGS_ALLOC);
	user->attrs.context = &user->uctx.ibucontext;
	user->attrs.ufile = user->ufile;
	user->udev = kunit_kzalloc(test, sizeof(*user->udev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, user->udev);
	KUNIT_ASSERT_EQ(test, init_srcu_struct(&user->udev->disassociate_srcu), 0);
	user->srcu = srcu_read_lock(&user->udev->disassociate_srcu);
	user->ufile->device = user->udev;

	udata = moor_user_udata(test, user, &req, sizeof(req),
				sizeof(struct moor_alloc_ucontext_resp));
	KUNIT_ASSERT_EQ(test, moor_alloc_ucontext(&user->uctx.ibucontext, udata), 0);
	return user;
}

void moor_user_close(struct kunit *test, struct moor_user *user)
{
	moor_dealloc_ucontext(&user->uctx.ibucontext);
	KUNIT_EXPECT_TRUE_MSG(test, xa_empty(&user->uctx.ibucontext.mmap_xa),
			      "something can still be mapped");
	srcu_read_unlock(&user->udev->disassociate_srcu, user->srcu);
	cleanup_srcu_struct(&user->udev->disassociate_srcu);
}

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
