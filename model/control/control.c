// SPDX-License-Identifier: GPL-2.0
/* The control socket: clients and their lines. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unix_listen.h"
#include "control/control.h"

#define MAX_CLIENTS	4
#define MAX_LINE	255u
#define MAX_ANSWER	2048

struct client {
	int fd;			/* -1: none */
	unsigned int used;
	bool too_long;		/* the rest of the line is thrown away */
	char line[MAX_LINE + 1];
};

struct control {
	struct endpoint *ep;
	struct sockaddr_un address;
	int listen_fd;
	int epoll_fd;
	struct client client[MAX_CLIENTS];
};

/* The data of an epoll event: a client's number, or KNOCK for the listening socket. */
#define KNOCK	MAX_CLIENTS

static bool watch(struct control *control, int fd, uint32_t number)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = number };

	return !epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

struct control *control_listen(const char *path, struct endpoint *ep,
			       char *error, size_t error_size)
{
	struct control *control = calloc(1, sizeof(*control));
	unsigned int i;

	if (!control) {
		snprintf(error, error_size, "out of memory");
		return NULL;
	}
	control->ep = ep;
	for (i = 0; i < MAX_CLIENTS; i++)
		control->client[i].fd = -1;
	control->listen_fd = unix_listen(path, &control->address, error,
					 error_size);
	if (control->listen_fd < 0)
		goto err_free;
	control->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (control->epoll_fd < 0 || !watch(control, control->listen_fd, KNOCK)) {
		snprintf(error, error_size, "epoll: %s", strerror(errno));
		goto err_listen;
	}
	return control;

err_listen:
	if (control->epoll_fd >= 0)
		close(control->epoll_fd);
	unlink(control->address.sun_path);
	close(control->listen_fd);
err_free:
	free(control);
	return NULL;
}

static void disconnect(struct client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
	client->used = 0;
	client->too_long = false;
}

void control_close(struct control *control)
{
	unsigned int i;

	if (!control)
		return;
	for (i = 0; i < MAX_CLIENTS; i++)
		disconnect(&control->client[i]);
	unlink(control->address.sun_path);
	close(control->listen_fd);
	close(control->epoll_fd);
	free(control);
}

int control_fd(const struct control *control)
{
	return control->epoll_fd;
}

static void take_client(struct control *control)
{
	int fd = accept4(control->listen_fd, NULL, NULL,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);
	unsigned int i;

	if (fd < 0)
		return;
	for (i = 0; i < MAX_CLIENTS; i++)
		if (control->client[i].fd < 0)
			break;
	if (i == MAX_CLIENTS || !watch(control, fd, i)) {
		log_client("turned a control client away");
		close(fd);
		return;
	}
	control->client[i].fd = fd;
}

static void log_command(const char *line)
{
	static struct log_site site;

	log_limited(&site, "control", "asked for", "%s", line);
}

/* Answers a line. A client that does not read its answers is disconnected. */
static void answer_line(struct control *control, struct client *client)
{
	char answer[MAX_ANSWER];
	size_t len;

	if (client->too_long) {
		snprintf(answer, sizeof(answer),
			 "error a line of at most %u characters expected",
			 MAX_LINE);
	} else {
		client->line[client->used] = '\0';
		log_command(client->line);
		control_command(control->ep, client->line, answer,
				sizeof(answer) - 1);
	}
	client->used = 0;
	client->too_long = false;
	len = strlen(answer);
	answer[len++] = '\n';
	if (send(client->fd, answer, len, MSG_DONTWAIT | MSG_NOSIGNAL) !=
	    (ssize_t)len)
		disconnect(client);
}

/* A character that cannot be printed becomes '?': a zero would end the line. */
static void add_character(struct control *control, struct client *client,
			  char c)
{
	if (c == '\n')
		answer_line(control, client);
	else if (client->used == MAX_LINE)
		client->too_long = true;
	else if (c != '\r')
		client->line[client->used++] =
			(c >= ' ' && c <= '~') || c == '\t' ? c : '?';
}

static void serve_client(struct control *control, struct client *client)
{
	char data[256];
	ssize_t n = recv(client->fd, data, sizeof(data), MSG_DONTWAIT), i;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		disconnect(client);
		return;
	}
	for (i = 0; i < n && client->fd >= 0; i++)
		add_character(control, client, data[i]);
}

void control_serve(struct control *control)
{
	struct epoll_event event[MAX_CLIENTS + 1];
	int n = epoll_wait(control->epoll_fd, event, MAX_CLIENTS + 1, 0), i;

	for (i = 0; i < n; i++) {
		if (event[i].data.u32 == KNOCK)
			take_client(control);
		else
			serve_client(control,
				     &control->client[event[i].data.u32]);
	}
}
