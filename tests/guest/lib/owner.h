/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Buffers of an owner who moves them and takes them back: a module of ours
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
	uint8_t *at;		/* where this process sees it */
	struct ibv_mr *mr;	/* of all of it, from iova 0 on */
};

void owner_open(void);
/* Test point: it has all its buffers back. */
void owner_close(void);
/* 0 or an errno; EXPORTER_MAKE gives a buffer, others take one. */
int owner_does(unsigned int command, const struct buffer *b);
/* The same, or bails out. */
void owner_must(unsigned int command, const struct buffer *b);

struct buffer buffer_make(void);
void buffer_reg(struct buffer *b, struct ibv_pd *pd);
/* Its MR is gone, or is somebody else's business. */
void buffer_put(struct buffer *b);
/* All of it as when it was taken back? */
bool buffer_is_marked(const struct buffer *b);

#endif /* OWNER_H */
