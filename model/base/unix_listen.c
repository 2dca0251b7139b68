// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unix_listen.h"

/* Return: 0 when the file may be bound to, else an errno. */
static int clear_path(const struct sockaddr_un *address)
{
	struct stat st;
	int fd, err = 0;

	if (lstat(address->sun_path, &st))
		return errno == ENOENT ? 0 : errno;
	if (!S_ISSOCK(st.st_mode))
		return EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	/* EAGAIN: another process listens, and is slow to accept. */
	if (!connect(fd, (const struct sockaddr *)address, sizeof(*address)) ||
	    errno == EAGAIN)
		err = EADDRINUSE;
	else if (errno != ECONNREFUSED)
		err = errno;
	close(fd);
	if (!err && unlink(address->sun_path))
		err = errno;
	return err;
}

static int listen_on(const struct sockaddr_un *address, int *listen_fd)
{
	int fd, err = clear_path(address);

	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) ||
	    listen(fd, 4)) {
		err = errno;
		close(fd);
		return err;
	}
	*listen_fd = fd;
	return 0;
}

int unix_listen(const char *path, struct sockaddr_un *address, char *error,
		size_t error_size)
{
	int fd = -1, err;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	if (!*path || strlen(path) >= sizeof(address->sun_path)) {
		snprintf(error, error_size,
			 "the path of a socket has 1 to %zu characters: %s",
			 sizeof(address->sun_path) - 1, path);
		return -1;
	}
	memcpy(address->sun_path, path, strlen(path));
	err = listen_on(address, &fd);
	if (err == EADDRINUSE)
		snprintf(error, error_size,
			 "%s is in use: another server listens on it", path);
	else if (err == EEXIST)
		snprintf(error, error_size, "%s exists and is not a socket", path);
	else if (err)
		snprintf(error, error_size, "%s: %s", path, strerror(err));
	return fd;
}
