/* SPDX-License-Identifier: GPL-2.0 */
/* The NIC as who administers the machine sees it, and as it can be broken. */
#ifndef NIC_H
#define NIC_H

#include <stdbool.h>

/* Test programs may break it: the control socket of the model is there. */
bool nic_has_control(void);
/* Tells the model; bails out unless it obeys (moor-nic(1), CONTROL SOCKET). */
void nic_control(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Has it the driver? */
bool nic_is_bound(void);
void nic_unbind(void);
void nic_bind(void);
/* By the slot, and by what rescans the bus. */
void nic_remove(void);
void nic_rescan(void);
void nic_reset(void);
/* Has the driver stopped it? */
bool nic_is_stopped(void);
/* When it has died it stays so, for the tests to look at. */
void nic_keep_dead(void);
/* Its interface is up, and it has a GID to talk by. Bails out if it does not come. */
void nic_bring_up(void);

#endif /* NIC_H */
