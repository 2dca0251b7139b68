/* SPDX-License-Identifier: GPL-2.0 */
/* Interrupts as eventfds of the client, who may do with them what it likes. */
#ifndef MODEL_IRQFD_H
#define MODEL_IRQFD_H

/* Before the first of them. Return: 0, or an errno: the kernel or its limits say no. */
int irqfd_init(void);

/*
 * Counts @fd up by one, never waiting; a counter that is full stays as it is: the
 * interrupt is raised already. Return: an errno; EINVAL: that is no eventfd.
 */
int irqfd_raise(int fd);

#endif /* MODEL_IRQFD_H */
