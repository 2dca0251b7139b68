/* SPDX-License-Identifier: GPL-2.0 */
/* Handling the structures of the hardware interface. */
#ifndef MODEL_LAYOUT_H
#define MODEL_LAYOUT_H

#include <endian.h>
#include <stddef.h>
#include <string.h>

/* Field @mask of @word. */
#define FIELD(mask, word)	(((word) & (mask)) / ((mask) & -(mask)))

/*
 * Copies out of guest memory, once: the barrier keeps the compiler from
 * fetching a second time what has been checked.
 */
static inline void fetch(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	__asm__ volatile("" : : : "memory");
}

/*
 * Ends a command with a status and the field at fault; used as
 * return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM, struct moor_cmd_x, field);
 */
#define CMD_FAIL(cpl, status, type, field) \
	((cpl)->detail = htole32(offsetof(type, field)), (status))

#endif /* MODEL_LAYOUT_H */
