// SPDX-License-Identifier: GPL-2.0
/*
 * One read takes as many messages as there are: a kick costs one system call.
 *
 * The kernel ends a read after data that files came with. So the files of a read
 * belong to the last message that begins in the data of this read.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/timer.h"
#include "base/unix_listen.h"
#include "pci/vfio_socket.h"

#define REPLY_TIMEOUT_NS	10000000000ull
#define BUFFER_SIZE		(2 * VFIO_USER_MAX_MESSAGE)

struct vfio_socket {
	int listen_fd;
	int fd;				/* -1: no client */
	struct sockaddr_un address;

	uint8_t buffer[BUFFER_SIZE];
	size_t start, end;		/* of the bytes that are not used yet */
	int passed[VFIO_USER_MAX_FDS];	/* files of the last read */
	unsigned int num_passed;
	int held[VFIO_USER_MAX_FDS];	/* files of the message in use */
	unsigned int num_held;
};

static void close_files(const int *fd, unsigned int *count)
{
	unsigned int i;

	for (i = 0; i < *count; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	*count = 0;
}

struct vfio_socket *vfio_socket_listen(const char *path, char *error,
				       size_t error_size)
{
	struct vfio_socket *sock = calloc(1, sizeof(*sock));

	if (!sock) {
		snprintf(error, error_size, "out of memory");
		return NULL;
	}
	sock->fd = -1;
	sock->listen_fd = unix_listen(path, &sock->address, error, error_size);
	if (sock->listen_fd < 0) {
		free(sock);
		return NULL;
	}
	return sock;
}

void vfio_socket_close(struct vfio_socket *sock)
{
	vfio_socket_disconnect(sock);
	unlink(sock->address.sun_path);
	close(sock->listen_fd);
	free(sock);
}

int vfio_socket_fd(const struct vfio_socket *sock)
{
	return sock->fd;
}

int vfio_socket_listen_fd(const struct vfio_socket *sock)
{
	return sock->listen_fd;
}

bool vfio_socket_accept(struct vfio_socket *sock)
{
	int fd = accept4(sock->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return false;
	if (sock->fd >= 0) {
		log_client("turned a client away: there is one already");
		close(fd);
		return false;
	}
	sock->fd = fd;
	return true;
}

bool vfio_socket_hung_up(const struct vfio_socket *sock)
{
	struct pollfd pfd = { .fd = sock->fd };

	return sock->fd >= 0 && poll(&pfd, 1, 0) > 0 && pfd.revents & POLLHUP;
}

void vfio_socket_disconnect(struct vfio_socket *sock)
{
	if (sock->fd < 0)
		return;
	close(sock->fd);
	sock->fd = -1;
	sock->start = 0;
	sock->end = 0;
	close_files(sock->passed, &sock->num_passed);
	close_files(sock->held, &sock->num_held);
}

/*
 * No message has a use for a socket. It could be the client's own end of the connection:
 * with that held here, the connection would never end.
 */
static bool is_socket(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISSOCK(st.st_mode);
}

/* Return: NULL, or what the client passed that it may not. */
static const char *take_files(struct vfio_socket *sock, struct msghdr *msg)
{
	const char *wrong = msg->msg_flags & MSG_CTRUNC ? "too many files" : NULL;
	struct cmsghdr *cmsg;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		const uint8_t *data = CMSG_DATA(cmsg);
		size_t i, count;

		if (cmsg->cmsg_level != SOL_SOCKET ||
		    cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, data + i * sizeof(int), sizeof(fd));
			if (is_socket(fd))
				wrong = "a socket";
			else if (sock->num_passed == VFIO_USER_MAX_FDS)
				wrong = "too many files";
			if (wrong)
				close(fd);
			else
				sock->passed[sock->num_passed++] = fd;
		}
	}
	return wrong;
}

/*
 * How much to read. While files wait for the rest of their message, no more than
 * this rest: that message has to be the last in the buffer.
 */
static size_t room(const struct vfio_socket *sock)
{
	struct vfio_user_header header;

	if (!sock->num_passed)
		return sizeof(sock->buffer) - sock->end;
	if (sock->end < sizeof(header))
		return sizeof(header) - sock->end;
	memcpy(&header, sock->buffer, sizeof(header));
	return header.size - sock->end;
}

/*
 * Reads what is there. Called with less than one message in the buffer; the header of
 * this message is good if all of the header is there.
 */
static enum vfio_receive fill(struct vfio_socket *sock)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * 2 * VFIO_USER_MAX_FDS)];
	} control;
	const char *wrong;
	struct iovec iov;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	if (sock->start) {
		memmove(sock->buffer, sock->buffer + sock->start,
			sock->end - sock->start);
		sock->end -= sock->start;
		sock->start = 0;
	}
	iov.iov_base = sock->buffer + sock->end;
	iov.iov_len = room(sock);
	n = recvmsg(sock->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? VFIO_NOTHING :
			VFIO_GONE;
	if (!n)
		return VFIO_GONE;
	sock->end += (size_t)n;
	wrong = take_files(sock, &msg);
	if (wrong) {
		log_client("%s with a message", wrong);
		return VFIO_GONE;
	}
	return VFIO_RECEIVED;
}

static bool header_good(const struct vfio_user_header *header)
{
	if (header->size < sizeof(*header) ||
	    header->size > VFIO_USER_MAX_MESSAGE) {
		log_client("message of %u bytes", header->size);
		return false;
	}
	if ((header->flags & VFIO_USER_FLAG_TYPE) != VFIO_USER_TYPE_COMMAND) {
		log_client("message of type %u",
			   header->flags & VFIO_USER_FLAG_TYPE);
		return false;
	}
	return true;
}

/* Takes a message out of the buffer. Return: false without a whole, good message. */
static bool next_message(struct vfio_socket *sock, struct vfio_message *msg,
			 bool *malformed)
{
	size_t there = sock->end - sock->start;

	if (there < sizeof(msg->header))
		return false;
	memcpy(&msg->header, sock->buffer + sock->start, sizeof(msg->header));
	if (!header_good(&msg->header)) {
		*malformed = true;
		return false;
	}
	if (there < msg->header.size)
		return false;

	msg->payload = sock->buffer + sock->start + sizeof(msg->header);
	msg->size = msg->header.size - (uint32_t)sizeof(msg->header);
	msg->fd = sock->held;
	msg->fds = 0;
	sock->start += msg->header.size;
	if (sock->start == sock->end) {
		memcpy(sock->held, sock->passed, sizeof(sock->held));
		sock->num_held = sock->num_passed;
		sock->num_passed = 0;
		msg->fds = sock->num_held;
	}
	return true;
}

enum vfio_receive vfio_socket_receive(struct vfio_socket *sock,
				      struct vfio_message *msg)
{
	bool malformed = false;
	enum vfio_receive result;

	close_files(sock->held, &sock->num_held);
	while (!next_message(sock, msg, &malformed)) {
		if (malformed)
			return VFIO_GONE;
		result = fill(sock);
		if (result != VFIO_RECEIVED)
			return result;
	}
	return VFIO_RECEIVED;
}

bool vfio_socket_buffered(const struct vfio_socket *sock)
{
	return sock->start != sock->end;
}

/* Waits till there is room for more. Return: false if there is none by @deadline. */
static bool wait_for_room(int fd, uint64_t deadline)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	uint64_t now = timer_now();

	return now < deadline && poll(&pfd, 1, (int)((deadline - now) / 1000000) + 1) > 0;
}

/* A client that reads little by little does not hold the NIC up for longer either. */
static bool send_all(int fd, struct msghdr *msg, size_t left)
{
	uint64_t deadline = timer_now() + REPLY_TIMEOUT_NS;

	while (left) {
		ssize_t n = sendmsg(fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			if (errno != EAGAIN || !wait_for_room(fd, deadline))
				return false;
			continue;
		}
		left -= (size_t)n;
		msg->msg_control = NULL;
		msg->msg_controllen = 0;
		while (n && (size_t)n >= msg->msg_iov->iov_len) {
			n -= (ssize_t)msg->msg_iov->iov_len;
			msg->msg_iov++;
			msg->msg_iovlen--;
		}
		if (n) {
			msg->msg_iov->iov_base =
				(uint8_t *)msg->msg_iov->iov_base + n;
			msg->msg_iov->iov_len -= (size_t)n;
		}
	}
	return true;
}

bool vfio_socket_reply(struct vfio_socket *sock, const struct vfio_message *msg,
		       int error, const void *payload, size_t size, int fd)
{
	struct vfio_user_header header = {
		.id = msg->header.id,
		.command = msg->header.command,
		.flags = VFIO_USER_TYPE_REPLY,
	};
	struct iovec iov[2] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = (void *)(uintptr_t)payload, .iov_len = size },
	};
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr out = { .msg_iov = iov, .msg_iovlen = 2 };

	if (msg->header.flags & VFIO_USER_FLAG_NO_REPLY)
		return true;
	if (error) {
		header.flags |= VFIO_USER_FLAG_ERROR;
		header.error = (uint32_t)error;
		iov[1].iov_len = 0;
	} else if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		out.msg_control = &control;
		out.msg_controllen = sizeof(control.space);
	}
	header.size = (uint32_t)(sizeof(header) + iov[1].iov_len);
	return send_all(sock->fd, &out, header.size);
}
