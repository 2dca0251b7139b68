/* SPDX-License-Identifier: GPL-2.0 */
/* What /dev/moor_exporter is asked for. */
#ifndef EXPORTER_H
#define EXPORTER_H

#include <linux/ioctl.h>

#define EXPORTER_PAGES	16
#define EXPORTER_MARK	0x5a	/* each byte of what was taken back */
#define EXPORTER_ERROR	71	/* EPROTO: whoever maps one that fails gets it */

#define EXPORTER_MAKE		_IO('M', 0)	/* gives a dma-buf */
#define EXPORTER_TAKE_BACK	_IO('M', 1)	/* argument: one */
#define EXPORTER_FAIL		_IO('M', 2)	/* the same */

#ifdef __KERNEL__
int exported_make(void);
int exported_change(unsigned int cmd, int fd);
#endif

#endif /* EXPORTER_H */
