// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/moor_exporter: makes dma-bufs for processes, and moves them, takes them back or
 * makes mapping them fail on request (test_dmabuf_owner.c, test_dmabuf_move.c).
 */

#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

#include "exporter.h"

static long exporter_ioctl(struct file *file, unsigned int cmd,
			   unsigned long arg)
{
	return cmd == EXPORTER_MAKE ? exported_make() :
				      exported_change(cmd, arg);
}

static const struct file_operations exporter_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = exporter_ioctl,
};

static struct miscdevice exporter = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "moor_exporter",
	.fops = &exporter_fops,
};
module_misc_device(exporter);

MODULE_DESCRIPTION("dma-bufs that are moved and taken back");
MODULE_LICENSE("GPL");
