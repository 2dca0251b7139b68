/* SPDX-License-Identifier: GPL-2.0 */
/* The vfio-user server: what the client asks for, done to the endpoint. */
#ifndef MODEL_VFIO_USER_H
#define MODEL_VFIO_USER_H

#include <stdbool.h>

#include "base/dma_map.h"
#include "pci/endpoint.h"
#include "pci/vfio_socket.h"

struct vfio_user {
	struct vfio_socket *sock;
	struct endpoint *ep;
	struct dma_map *dma;
	bool negotiated;	/* the client has sent VERSION */
};

/* Accepts the client that connects, if it can be served. */
void vfio_user_accept(struct vfio_user *server);

/*
 * Handles the messages that are there. A client that is gone, or that sends what
 * cannot be parsed, is dropped: its memory and eventfds too, and the NIC is reset.
 * Return: true when there was a message, or the client was dropped.
 */
bool vfio_user_serve(struct vfio_user *server);

/* Drops the client; @why goes into the log. */
void vfio_user_drop(struct vfio_user *server, const char *why);

#endif /* MODEL_VFIO_USER_H */
