// SPDX-License-Identifier: GPL-2.0
/* A connection to a vfio-user server: one message at a time, and its answer. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "suite.h"
#include "vfio_user.h"

#define ANSWER_MS	20000
#define MOST_FDS	16

static int sock = -1;
static uint16_t last_id;
static unsigned int max_fds;

static void send_command(uint16_t command, const void *payload, size_t size,
			 const int *fds, unsigned int num_fds)
{
	struct vfio_user_header header = {
		.id = ++last_id,
		.command = command,
		.size = (uint32_t)(sizeof(header) + size),
	};
	struct iovec iov[2] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = (void *)(uintptr_t)payload, .iov_len = size },
	};
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(MOST_FDS * sizeof(int))];
	} control = { 0 };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (num_fds) {
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(num_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, num_fds * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
	}
	if (sendmsg(sock, &msg, MSG_NOSIGNAL) != (ssize_t)header.size)
		bail_out("the device does not take messages: %s", strerror(errno));
}

static void receive_bytes(void *data, size_t size, int *fd)
{
	struct pollfd pfd = { .fd = sock, .events = POLLIN };
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	uint8_t *to = data;

	while (size) {
		struct iovec iov = { .iov_base = to, .iov_len = size };
		struct msghdr msg = {
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};
		struct cmsghdr *cmsg;
		ssize_t n;

		if (poll(&pfd, 1, ANSWER_MS) <= 0)
			bail_out("the device has not answered a message for %d s",
				 ANSWER_MS / 1000);
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
		if (n <= 0)
			bail_out("the device has hung up");
		cmsg = CMSG_FIRSTHDR(&msg);
		if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
			memcpy(fd, CMSG_DATA(cmsg), sizeof(*fd));
		to += n;
		size -= (size_t)n;
	}
}

int vfio_user_call(unsigned int command, const void *payload, size_t size,
		   const int *fds, unsigned int num_fds,
		   struct vfio_user_reply *reply)
{
	static struct vfio_user_reply ignored;
	struct vfio_user_reply *to = reply ? reply : &ignored;
	struct vfio_user_header header;

	send_command((uint16_t)command, payload, size, fds, num_fds);
	to->fd = -1;
	receive_bytes(&header, sizeof(header), &to->fd);
	to->size = header.size - (uint32_t)sizeof(header);
	if (header.id != last_id || to->size > sizeof(to->data) ||
	    (header.flags & VFIO_USER_FLAG_TYPE) != VFIO_USER_TYPE_REPLY)
		bail_out("message %u of %u bytes, flags 0x%x, is no answer to message %u",
			 header.id, header.size, header.flags, last_id);
	receive_bytes(to->data, to->size, &to->fd);
	if (!reply && to->fd >= 0)
		close(to->fd);
	return header.flags & VFIO_USER_FLAG_ERROR ? (int)header.error : 0;
}

int vfio_user_connect(const char *path)
{
	struct {
		struct vfio_user_version version;
		char capabilities[64];
	} hello = { .capabilities = "{\"capabilities\":{\"max_msg_fds\":1}}" };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct vfio_user_reply reply = { .size = 0 };
	const char *limit;

	if (strlen(path) >= sizeof(address.sun_path))
		bail_out("%s: longer than the path of a socket can be", path);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		bail_out("socket: %s", strerror(errno));
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)))
		return errno;
	if (vfio_user_call(VFIO_USER_VERSION, &hello, sizeof(hello.version) +
			   strlen(hello.capabilities) + 1, NULL, 0, &reply))
		bail_out("the server does not speak version 0.0 of vfio-user");

	/* The text is JSON that ends with a NUL; without max_msg_fds the number is 1. */
	reply.data[sizeof(reply.data) - 1] = '\0';
	limit = strstr((char *)reply.data + sizeof(hello.version),
		       "\"max_msg_fds\":");
	max_fds = limit ? (unsigned int)atoi(limit + 14) : 1;
	if (max_fds < 1 || max_fds > MOST_FDS)
		max_fds = max_fds < 1 ? 1 : MOST_FDS;
	return 0;
}

void vfio_user_disconnect(void)
{
	close(sock);
	sock = -1;
}

unsigned int vfio_user_max_fds(void)
{
	return max_fds;
}

int vfio_user_read(unsigned int region, uint64_t offset, void *data,
		   uint32_t count)
{
	struct vfio_user_region_access access = {
		.offset = offset, .region = region, .count = count,
	};
	struct vfio_user_reply reply;
	int err = vfio_user_call(VFIO_USER_REGION_READ, &access, sizeof(access),
				 NULL, 0, &reply);

	if (err)
		return err;
	if (reply.size != sizeof(access) + count)
		bail_out("a read of %u bytes is answered with %u", count,
			 reply.size);
	memcpy(data, reply.data + sizeof(access), count);
	return 0;
}

int vfio_user_write(unsigned int region, uint64_t offset, const void *data,
		    uint32_t count)
{
	struct {
		struct vfio_user_region_access access;
		uint8_t data[4096];
	} out = {
		.access = { .offset = offset, .region = region, .count = count },
	};

	memcpy(out.data, data, count);
	return vfio_user_call(VFIO_USER_REGION_WRITE, &out,
			      sizeof(out.access) + count, NULL, 0, NULL);
}
