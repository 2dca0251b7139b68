/* SPDX-License-Identifier: GPL-2.0 */
/* What /dev/moor_exporter is asked for. */
#ifndef EXPORTER_H
#define EXPORTER_H

#include <linux/ioctl.h>

#define EXPORTER_PAGES	16
#define EXPORTER_MARK	0x5a	/* each byte of what was taken back, or moved away from */
#define EXPORTER_ERROR	71	/* EPROTO: whoever maps one that fails gets it */

#define EXPORTER_MAKE		_IO('M', 0)	/* gives a dma-buf */
/* Argument: one. EUCLEAN: somebody has written to pages that it had moved away from. */
#define EXPORTER_TAKE_BACK	_IO('M', 1)	/* for good */
#define EXPORTER_FAIL		_IO('M', 2)	/* the next who maps it */
#define EXPORTER_SHORT		_IO('M', 3)	/* he gets a page less */
#define EXPORTER_MOVE		_IO('M', 4)	/* to other pages; EBUSY while pinned */
#define EXPORTER_MOVE_BEGIN	_IO('M', 5)	/* the same, but nothing is there before */
#define EXPORTER_MOVE_END	_IO('M', 6)	/* this; till then there is a fence */

#define EXPORTER_INTERRUPT	_IO('M', 7)	/* the next who maps it gets EINTR */

#ifdef __KERNEL__
int exported_make(void);
int exported_change(unsigned int cmd, int fd);
#endif

#endif /* EXPORTER_H */
