// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the kernel's verbs. In debugfs, in moor_verbs_test/: "tests" names them,
 * "run" takes "DEVICE TEST [SEED]" and returns when the test is over, "results" has the
 * last test's TAP output, "moved" counts what all tests have moved. "hold" belongs to
 * hold.c. "pin" (pin.c) takes "DEVICE ADDRESS LENGTH" and then holds what pinning took.
 */

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "verbs_test.h"

#define RESULTS_BYTES	(256 * 1024)

static const struct verbs_test *const all_tests[] = {
	fast_tests, invalid_tests, queue_tests, state_tests, rw_tests,
	uc_tests, atomic_write_tests, limit_tests, dim_tests, gone_tests, figure_tests,
};

static DEFINE_MUTEX(lock);	/* of results and devices; one test at a time */
#define MAX_DEVICES	8
static struct ib_device *devices[MAX_DEVICES];
static struct dentry *directory;
static char *results;
static size_t results_length;
static unsigned int points;
static const struct ib_device *leaving;

atomic_t moved;

bool impaired;
module_param(impaired, bool, 0444);
MODULE_PARM_DESC(impaired, "packets meet with accidents");

static void __printf(1, 0) say(const char *format, va_list args)
{
	results_length += vscnprintf(results + results_length,
				     RESULTS_BYTES - results_length, format,
				     args);
}

static void __printf(1, 2) say_this(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

/**
 * point - a test point
 * @good: the outcome
 * @name: what is tested
 *
 * Return: @good
 */
bool point(bool good, const char *name, ...)
{
	va_list args;

	say_this("%s %u - ", good ? "ok" : "not ok", ++points);
	va_start(args, name);
	say(name, args);
	va_end(args);
	say_this("\n");
	return good;
}

/**
 * note - print a diagnostic line
 * @text: the line
 */
void note(const char *text, ...)
{
	va_list args;

	say_this("# ");
	va_start(args, text);
	say(text, args);
	va_end(args);
	say_this("\n");
}

static const struct verbs_test *find_test(const char *name)
{
	const struct verbs_test *test;
	int i;

	for (i = 0; i < ARRAY_SIZE(all_tests); i++)
		for (test = all_tests[i]; test->name; test++)
			if (!strcmp(test->name, name))
				return test;
	return NULL;
}

static struct ib_device **find_device(const struct ib_device *dev)
{
	int i;

	for (i = 0; i < MAX_DEVICES; i++)
		if (devices[i] == dev)
			return &devices[i];
	return NULL;
}

static int client_add(struct ib_device *dev)
{
	struct ib_device **place;

	mutex_lock(&lock);
	place = find_device(NULL);
	if (place)
		*place = dev;
	mutex_unlock(&lock);
	return place ? 0 : -ENOSPC;
}

/**
 * device_leaves - is the device about to go?
 * @dev: device
 *
 * Return: true if nothing but the test keeps it.
 */
bool device_leaves(const struct ib_device *dev)
{
	return READ_ONCE(leaving) == dev;
}

/* Waits for the test that runs on the device; device_leaves() tells the test to end. */
static void client_remove(struct ib_device *dev, void *client_data)
{
	WRITE_ONCE(leaving, dev);
	mutex_lock(&lock);
	*find_device(dev) = NULL;
	hold_leave(dev);
	WRITE_ONCE(leaving, NULL);
	mutex_unlock(&lock);
}

static struct ib_client client = {
	.name = KBUILD_MODNAME,
	.add = client_add,
	.remove = client_remove,
};

static struct ib_device *device_by_name(const char *name)
{
	int i;

	for (i = 0; i < MAX_DEVICES; i++)
		if (devices[i] && !strcmp(dev_name(&devices[i]->dev), name))
			return devices[i];
	return NULL;
}

static int run(const char *device, const char *name, u32 seed)
{
	const struct verbs_test *test = find_test(name);
	struct ib_device *dev;

	mutex_lock(&lock);
	/* What cannot begin has no results, not those of the test before. */
	results_length = 0;
	points = 0;
	dev = test ? device_by_name(device) : NULL;
	if (dev) {
		test->run(dev, seed);
		say_this("1..%u\n", points);
	}
	mutex_unlock(&lock);
	if (!test)
		return -ENOENT;
	return dev ? 0 : -ENODEV;
}

#define TEXT	128

static int get_text(char text[TEXT], const char __user *from, size_t length)
{
	if (length >= TEXT)
		return -EINVAL;
	if (copy_from_user(text, from, length))
		return -EFAULT;
	text[length] = 0;
	return 0;
}

static ssize_t run_write(struct file *file, const char __user *from,
			 size_t length, loff_t *pos)
{
	char text[TEXT], device[64], name[32];
	u32 seed = 1;
	int err;

	err = get_text(text, from, length);
	if (err)
		return err;
	if (sscanf(text, "%63s %31s %u", device, name, &seed) < 2)
		return -EINVAL;
	err = run(device, name, seed);
	return err ?: length;
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.write = run_write,
};

static int hold_open(struct inode *inode, struct file *file)
{
	mutex_lock(&lock);
	file->private_data = hold_new();
	mutex_unlock(&lock);
	return file->private_data ? 0 : -ENOMEM;
}

static ssize_t hold_write(struct file *file, const char __user *from,
			  size_t length, loff_t *pos)
{
	char text[TEXT], name[64];
	struct ib_device *dev;
	u32 chance;
	int err;

	err = get_text(text, from, length);
	if (err)
		return err;
	if (sscanf(text, "%63s %u", name, &chance) != 2)
		return -EINVAL;
	mutex_lock(&lock);
	dev = device_by_name(name);
	err = dev ? hold_make(file->private_data, dev, chance) : -ENODEV;
	mutex_unlock(&lock);
	return err ?: length;
}

static int hold_release(struct inode *inode, struct file *file)
{
	mutex_lock(&lock);
	hold_free(file->private_data);
	mutex_unlock(&lock);
	return 0;
}

static const struct file_operations hold_fops = {
	.owner = THIS_MODULE,
	.open = hold_open,
	.write = hold_write,
	.release = hold_release,
};

static u64 pin_took[2];		/* protected by lock */

static ssize_t pin_write(struct file *file, const char __user *from,
			 size_t length, loff_t *pos)
{
	char text[TEXT], name[64];
	struct ib_device *dev;
	u64 addr, bytes;
	int err;

	err = get_text(text, from, length);
	if (err)
		return err;
	if (sscanf(text, "%63s %llu %llu", name, &addr, &bytes) != 3)
		return -EINVAL;
	mutex_lock(&lock);
	dev = device_by_name(name);
	err = dev ? pin_measure(dev, addr, bytes, pin_took) : -ENODEV;
	mutex_unlock(&lock);
	return err ?: length;
}

static ssize_t pin_read(struct file *file, char __user *to, size_t length,
			loff_t *pos)
{
	char text[TEXT];
	int written;

	mutex_lock(&lock);
	written = scnprintf(text, sizeof(text), "%llu %llu\n", pin_took[0],
			    pin_took[1]);
	mutex_unlock(&lock);
	return simple_read_from_buffer(to, length, pos, text, written);
}

static const struct file_operations pin_fops = {
	.owner = THIS_MODULE,
	.read = pin_read,
	.write = pin_write,
};

static int results_show(struct seq_file *seq, void *v)
{
	mutex_lock(&lock);
	seq_write(seq, results, results_length);
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(results);

static int tests_show(struct seq_file *seq, void *v)
{
	const struct verbs_test *test;
	int i;

	for (i = 0; i < ARRAY_SIZE(all_tests); i++)
		for (test = all_tests[i]; test->name; test++)
			seq_printf(seq, "%s\n", test->name);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tests);

static int __init verbs_test_init(void)
{
	int err;

	results = vmalloc(RESULTS_BYTES);
	if (!results)
		return -ENOMEM;
	err = ib_register_client(&client);
	if (err) {
		vfree(results);
		return err;
	}
	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("run", 0200, directory, NULL, &run_fops);
	debugfs_create_file("hold", 0200, directory, NULL, &hold_fops);
	debugfs_create_file("pin", 0600, directory, NULL, &pin_fops);
	debugfs_create_atomic_t("moved", 0400, directory, &moved);
	debugfs_create_file("results", 0400, directory, NULL, &results_fops);
	debugfs_create_file("tests", 0400, directory, NULL, &tests_fops);
	return 0;
}

static void __exit verbs_test_exit(void)
{
	debugfs_remove_recursive(directory);
	ib_unregister_client(&client);
	vfree(results);
}

module_init(verbs_test_init);
module_exit(verbs_test_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of the kernel's RDMA verbs");
