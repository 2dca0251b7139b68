/* SPDX-License-Identifier: GPL-2.0 */
/* The commands of /dev/moor_exporter. */
#ifndef EXPORTER_H
#define EXPORTER_H

#include <linux/ioctl.h>

#define EXPORTER_PAGES	16
#define EXPORTER_MARK	0x5a	/* each byte of memory that was taken back or left */
#define EXPORTER_ERROR	71	/* EPROTO: the error of a mapping that fails */

#define EXPORTER_MAKE		_IO('M', 0)	/* gives a dma-buf */
/*
 * The argument is a dma-buf's descriptor. EUCLEAN: memory it had left was written to.
 */
#define EXPORTER_TAKE_BACK	_IO('M', 1)	/* from now on all mappings fail */
#define EXPORTER_FAIL		_IO('M', 2)	/* the next mapping fails */
#define EXPORTER_SHORT		_IO('M', 3)	/* the next mapping is a page short */
#define EXPORTER_MOVE		_IO('M', 4)	/* to other pages; EBUSY while pinned */
#define EXPORTER_MOVE_BEGIN	_IO('M', 5)	/* likewise; the data comes with */
#define EXPORTER_MOVE_END	_IO('M', 6)	/* this; until then there is a fence */

#define EXPORTER_INTERRUPT	_IO('M', 7)	/* the next mapping fails with EINTR */

#ifdef __KERNEL__
int exported_make(void);
int exported_change(unsigned int cmd, int fd);
#endif

#endif /* EXPORTER_H */
