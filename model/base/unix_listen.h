/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MODEL_UNIX_LISTEN_H
#define MODEL_UNIX_LISTEN_H

#include <stddef.h>
#include <sys/un.h>

/**
 * unix_listen - a listening socket at a path, for clients to connect to
 * @path:	a file; a socket that nobody listens on any more is replaced
 * @address:	filled in; the caller removes the file when it closes the socket
 * @error:	what to tell the user when this fails
 * @error_size:	bytes of room there
 *
 * Return: the socket, not blocking, or -1.
 */
int unix_listen(const char *path, struct sockaddr_un *address, char *error,
		size_t error_size);

#endif /* MODEL_UNIX_LISTEN_H */
