/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dma-bufs of a test module that can move them and take them back
 * (tests/kernel/exporter.c).
 */
#ifndef OWNER_H
#define OWNER_H

#include <stdbool.h>

#include "../../kernel/exporter.h"
#include "pair.h"

#define BUFFER_SIZE	(EXPORTER_PAGES * 4096u)

struct buffer {
	int fd;
	uint8_t *at;		/* this process's mapping */
	struct ibv_mr *mr;	/* of all of it, from iova 0 on */
};

void owner_open(void);
/* Test point: does a driver let its buffers move where the kernel asks that of it? */
void owner_expects(bool moves);
/* Test point: no buffer is left, so that the module can be unloaded. */
void owner_close(void);
/* Sends the module a command about a buffer. Returns 0 or an errno. */
int owner_does(unsigned int command, const struct buffer *b);
/* The same, but bails out if the command fails. */
void owner_must(unsigned int command, const struct buffer *b);

struct buffer buffer_make(void);
void buffer_reg(struct buffer *b, struct ibv_pd *pd);
/* Unmaps and closes the buffer; the MR is left to the caller. */
void buffer_put(struct buffer *b);
/* Is each byte EXPORTER_MARK, as of a buffer that was taken back? */
bool buffer_is_marked(const struct buffer *b);

#endif /* OWNER_H */
