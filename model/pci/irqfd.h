/* SPDX-License-Identifier: GPL-2.0 */
/* Interrupts as eventfds of the client, which may do with the eventfds what it likes. */
#ifndef MODEL_IRQFD_H
#define MODEL_IRQFD_H

#include <linux/aio_abi.h>

/* What irqfd_raise() needs. */
struct irqfd {
	aio_context_t context;
	int empty_fd;
};

/* Return: 0, or an errno: the kernel or its limits say no. */
int irqfd_init(struct irqfd *irqfd);
void irqfd_exit(struct irqfd *irqfd);

/*
 * Counts @fd up by one, never waiting; a counter that is full stays as it is: the
 * interrupt is raised already. Return: 0 or an errno; EINVAL: @fd is no eventfd.
 */
int irqfd_raise(struct irqfd *irqfd, int fd);

#endif /* MODEL_IRQFD_H */
