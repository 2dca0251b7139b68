/* SPDX-License-Identifier: GPL-2.0 */
/* The NIC as an administrator handles it, and faults of it by the control socket. */
#ifndef NIC_H
#define NIC_H

#include <stdbool.h>

/* Does this guest have the model's control socket, by which tests can break the NIC? */
bool nic_has_control(void);
/*
 * Sends the model a command; bails out unless it answers "ok" (moor-nic(1), CONTROL
 * SOCKET).
 */
void nic_control(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Is the driver bound to it? */
bool nic_is_bound(void);
void nic_unbind(void);
void nic_bind(void);
/* Remove the NIC by its slot, and find it again by rescanning the bus. */
void nic_remove(void);
void nic_rescan(void);
void nic_reset(void);
/* Has the driver stopped the NIC? */
bool nic_is_stopped(void);
/*
 * Switches the driver's recovery off: a NIC that has died stays dead, for tests to look
 * at.
 */
void nic_keep_dead(void);
/*
 * Brings the interface up and waits for a link and a RoCE v2 GID; bails out if none
 * comes.
 */
void nic_bring_up(void);

#endif /* NIC_H */
