// SPDX-License-Identifier: GPL-2.0
/* The time that a client has to take a reply: for all of it, however it reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "pci/vfio_socket.h"

#define PAYLOAD		60000u
#define SEND_BUFFER	4096		/* the reply takes a dozen rounds through it */
#define READ_US		20000		/* between two reads of the client */

static uint8_t payload[PAYLOAD];

/* A client that reads now and then, what there is. Return: its process. */
static pid_t read_slowly(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	uint8_t buf[PAYLOAD];
	pid_t pid;

	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)))
		abort();
	pid = fork();
	if (pid < 0)
		abort();
	if (pid) {
		close(fd);
		return pid;
	}
	do {
		usleep(READ_US);
	} while (read(fd, buf, sizeof(buf)) > 0);
	_exit(0);
}

/* Does the client take the reply, where a look at the clock takes @step_ns? */
static bool takes_reply(uint64_t step_ns)
{
	const struct vfio_message msg = { .header.command = VFIO_USER_REGION_READ };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int size = SEND_BUFFER;
	struct vfio_socket *sock;
	char error[128];
	bool taken;
	pid_t pid;

	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/moor-reply-%d", getpid());
	sock = vfio_socket_listen(address.sun_path, error, sizeof(error));
	if (!sock)
		abort();
	pid = read_slowly(&address);
	if (!vfio_socket_accept(sock) || setsockopt(vfio_socket_fd(sock), SOL_SOCKET,
						    SO_SNDBUF, &size, sizeof(size)))
		abort();
	clock_step_ns = step_ns;
	taken = vfio_socket_reply(sock, &msg, 0, payload, sizeof(payload), -1);
	vfio_socket_close(sock);
	waitpid(pid, NULL, 0);
	return taken;
}

int main(void)
{
	log_open(NULL);
	ok(takes_reply(1000), "a slow client that is in time");
	ok(!takes_reply(4000000000ull), "ten seconds are over before it has all");
	return done();
}
