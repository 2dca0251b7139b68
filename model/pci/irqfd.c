// SPDX-License-Identifier: GPL-2.0
/*
 * A client can fill the counter of its eventfd and clear O_NONBLOCK at any time: a
 * write() would then wait for ever. The kernel itself never waits when it adds to an
 * eventfd, as it does when asynchronous I/O is done. So an interrupt is raised by an
 * asynchronous read of an empty file.
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
	/* The read is done already; its event has to leave room for the next one's. */
	if (syscall(SYS_io_getevents, irqfd->context, 1l, 1l, &event, NULL) != 1)
		return errno;
	return 0;
}
