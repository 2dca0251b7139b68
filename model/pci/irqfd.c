// SPDX-License-Identifier: GPL-2.0
/*
 * A client can fill the counter of its eventfd and clear O_NONBLOCK at any time, and
 * a write() would then wait for it for ever. What the kernel itself adds to an eventfd
 * never waits, and that is how asynchronous I/O tells that it is done: so something is
 * read of which there is nothing.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pci/irqfd.h"

int irqfd_init(struct irqfd *irqfd)
{
	int err;

	irqfd->empty_fd = memfd_create("moor-irqfd", MFD_CLOEXEC);
	if (irqfd->empty_fd < 0)
		return errno;
	irqfd->context = 0;
	if (syscall(SYS_io_setup, 1, &irqfd->context)) {
		err = errno;
		close(irqfd->empty_fd);
		return err;
	}
	return 0;
}

void irqfd_exit(struct irqfd *irqfd)
{
	syscall(SYS_io_destroy, irqfd->context);
	close(irqfd->empty_fd);
}

int irqfd_raise(struct irqfd *irqfd, int fd)
{
	struct iocb iocb = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = (uint32_t)irqfd->empty_fd,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = (uint32_t)fd,
	}, *list = &iocb;
	struct io_event event;

	if (syscall(SYS_io_submit, irqfd->context, 1l, &list) != 1)
		return errno;
	/* It is done already; the context has room for one that was not fetched. */
	if (syscall(SYS_io_getevents, irqfd->context, 1l, 1l, &event, NULL) != 1)
		return errno;
	return 0;
}
