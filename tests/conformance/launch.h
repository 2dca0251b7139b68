/* SPDX-License-Identifier: GPL-2.0 */
/* A moor-nic of the suite's own, if the user names no device. */
#ifndef CONFORMANCE_LAUNCH_H
#define CONFORMANCE_LAUNCH_H

/*
 * Starts @program with a socket and a log in a new folder, and with @options
 * (ended by NULL). Return: the socket's path, once it listens.
 */
const char *launch_nic(const char *program, char *const *options);

/*
 * Ends the program and removes the folder. Return: whether the program was still
 * running, and ended as it should.
 */
bool launch_end(void);

#endif /* CONFORMANCE_LAUNCH_H */
