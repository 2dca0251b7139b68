/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The control socket: makes the NIC misbehave on demand. Lines of text, one
 * line of answer each, "ok ..." or "error ..."; moor-nic(1) has the commands.
 */
#ifndef MODEL_CONTROL_H
#define MODEL_CONTROL_H

#include <stddef.h>

#include "pci/endpoint.h"

struct control;

/**
 * control_listen - serve the control socket
 * @path:	the socket's file
 * @ep:		what commands act on
 * @error:	what to tell the user when this fails
 * @error_size:	bytes of room there
 *
 * Return: the server, or NULL.
 */
struct control *control_listen(const char *path, struct endpoint *ep,
			       char *error, size_t error_size);

/* Ends the connections and removes the file; does nothing for NULL. */
void control_close(struct control *control);

/* For poll(): readable when there is something to serve. */
int control_fd(const struct control *control);

/* Carries out the commands that have come, without waiting. */
void control_serve(struct control *control);

/**
 * control_command - carry out one command
 * @ep:		what the command acts on
 * @line:	the command, without a newline; overwritten
 * @answer:	gets the answer, without a newline
 * @size:	bytes of room there
 */
void control_command(struct endpoint *ep, char *line, char *answer, size_t size);

#endif /* MODEL_CONTROL_H */
