/* SPDX-License-Identifier: GPL-2.0 */
/* The socket of the vfio-user server: its one client, and whole messages. */
#ifndef MODEL_VFIO_SOCKET_H
#define MODEL_VFIO_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pci/vfio_message.h"

struct vfio_socket;

/* A message and its files; a handler that takes a file sets its entry in @fd to -1. */
struct vfio_message {
	struct vfio_user_header header;
	const uint8_t *payload;
	uint32_t size;			/* of the payload */
	int *fd;
	unsigned int fds;
};

enum vfio_receive {
	VFIO_RECEIVED,		/* a message */
	VFIO_NOTHING,		/* none is there yet */
	VFIO_GONE,		/* the client went, or sent what cannot be parsed */
};

/**
 * vfio_socket_listen - a server on a socket file
 * @path:	the file; one that nobody listens on any more is replaced
 * @error:	what to tell the user when this fails
 * @error_size:	bytes of room there
 *
 * Return: the server, or NULL.
 */
struct vfio_socket *vfio_socket_listen(const char *path, char *error,
				       size_t error_size);

/* Ends the connection and removes the file. */
void vfio_socket_close(struct vfio_socket *sock);

/* For poll(): the connection, or -1; and the socket that the next client connects to. */
int vfio_socket_fd(const struct vfio_socket *sock);
int vfio_socket_listen_fd(const struct vfio_socket *sock);

/*
 * Accepts the client that connects; while there is one, another is turned away.
 * Return: true when there is a new client.
 */
bool vfio_socket_accept(struct vfio_socket *sock);

/* Whether there is a client that has closed its end. */
bool vfio_socket_hung_up(const struct vfio_socket *sock);
void vfio_socket_disconnect(struct vfio_socket *sock);

/*
 * The next message, without waiting. It is good until the next call, which closes
 * those of its files that no handler took.
 */
enum vfio_receive vfio_socket_receive(struct vfio_socket *sock,
				      struct vfio_message *msg);

/* Whether bytes were read that are not used yet. */
bool vfio_socket_buffered(const struct vfio_socket *sock);

/*
 * Answers @msg, if it wants an answer. @error: an errno, or 0 for @size bytes of
 * payload and the file @fd (-1: none). Return: false when the client does not
 * take the answer: the caller has to drop the client.
 */
bool vfio_socket_reply(struct vfio_socket *sock, const struct vfio_message *msg,
		       int error, const void *payload, size_t size, int fd);

#endif /* MODEL_VFIO_SOCKET_H */
