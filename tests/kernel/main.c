// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the kernel's verbs. In debugfs, in moor_verbs_test/: "tests" names them,
 * "run" takes "DEVICE TEST [SEED]" and returns when the test is over, "results" has
 * what the last one said, as TAP.
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
	uc_tests, figure_tests,
};

static DEFINE_MUTEX(lock);	/* one test at a time, its results, devices */
#define MAX_DEVICES	8
static struct ib_device *devices[MAX_DEVICES];
static struct dentry *directory;
static char *results;
static size_t results_length;
static unsigned int points;

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
 * note - a line for people
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

/* A device stays until the test on it is over. */
static void client_remove(struct ib_device *dev, void *client_data)
{
	mutex_lock(&lock);
	*find_device(dev) = NULL;
	mutex_unlock(&lock);
}

static struct ib_client client = {
	.name = KBUILD_MODNAME,
	.add = client_add,
	.remove = client_remove,
};

static int run(const char *device, const char *name, u32 seed)
{
	const struct verbs_test *test = find_test(name);
	int err = -ENODEV, i;

	if (!test)
		return -ENOENT;
	mutex_lock(&lock);
	for (i = 0; i < MAX_DEVICES; i++) {
		if (!devices[i] || strcmp(dev_name(&devices[i]->dev), device))
			continue;
		results_length = 0;
		points = 0;
		test->run(devices[i], seed);
		say_this("1..%u\n", points);
		err = 0;
	}
	mutex_unlock(&lock);
	return err;
}

static ssize_t run_write(struct file *file, const char __user *from,
			 size_t length, loff_t *pos)
{
	char text[128], device[64], name[32];
	u32 seed = 1;
	int err;

	if (length >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, length))
		return -EFAULT;
	text[length] = 0;
	if (sscanf(text, "%63s %31s %u", device, name, &seed) < 2)
		return -EINVAL;
	err = run(device, name, seed);
	return err ?: length;
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.write = run_write,
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
