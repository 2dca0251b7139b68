/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walks through a call: makes one point after another fail at which the kernel can.
 * The call must succeed or return a sane errno, leave nothing behind after an error,
 * and then succeed when it is repeated.
 */
#ifndef WALK_H
#define WALK_H

#include <stdbool.h>

#include "pair.h"

#define WALK_ERRNOS	4

struct path {
	const char *name;
	/* Called before each point, without being undone; may be NULL. */
	void (*prepare)(void);
	/*
	 * Makes what the call needs; the walk bails out unless it returns 0. May be
	 * NULL.
	 */
	int (*before)(void);
	/* The call, with one point failing. Returns 0 or an errno. */
	int (*call)(void);
	/* After success: does the new object work? May be NULL. */
	bool (*works)(void);
	/* After an error: do the objects of @before still work? May be NULL. */
	bool (*intact)(void);
	/*
	 * Undoes @call and @before; the walk bails out unless it returns 0. May be
	 * NULL.
	 */
	int (*after)(void);
	/* Errors to be expected beside ENOMEM and EFAULT. */
	int errnos[WALK_ERRNOS];
	/*
	 * The call's answer is copied to the process after the call has taken effect,
	 * which the core does not undo: an error may come although it has. If @again is
	 * not 0, that is the errno that repeating the call may then give.
	 */
	bool late;
	int again;
};

void walk(const struct path *path);

/* Calls @call without faults; bails out unless it returns 0. */
void must(int (*call)(void), const char *what);

/*
 * Last test points: data moves on @pair; when it is closed, no more than @pinned pages
 * are pinned. Returns the exit status for main().
 */
int walk_done(struct pair *pair, long pinned);

#endif /* WALK_H */
