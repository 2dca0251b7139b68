/* SPDX-License-Identifier: GPL-2.0 */
/* A moor-nic of one's own, for who names no device. */
#ifndef CONFORMANCE_LAUNCH_H
#define CONFORMANCE_LAUNCH_H

/*
 * Starts @program with a socket and a log in a new folder, and with @options
 * (ended by NULL). Return: the socket's path, once it listens.
 */
const char *launch_nic(const char *program, char *const *options);

/*
 * Ends it and removes the folder. Return: whether it was still there, and ended
 * as it should.
 */
bool launch_end(void);

#endif /* CONFORMANCE_LAUNCH_H */
