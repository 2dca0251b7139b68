/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A call in which each point fails in turn at which the kernel can fail: it
 * succeeds or says why not, nothing of it stays behind, and the same call after
 * it does what it should.
 */
#ifndef WALK_H
#define WALK_H

#include <stdbool.h>

#include "pair.h"

#define WALK_ERRNOS	4

struct path {
	const char *name;
	/* Before each point, and never undone; may be NULL. */
	void (*prepare)(void);
	/* Makes what the call needs, or it cannot go on; 0 or an errno; may be NULL. */
	int (*before)(void);
	/* Under faults. 0 or an errno. */
	int (*call)(void);
	/* After success: does the result do what it should? May be NULL. */
	bool (*works)(void);
	/* After an error: does what was there before still do so? May be NULL. */
	bool (*intact)(void);
	/* Undoes the call and @before, likewise; may be NULL. */
	int (*after)(void);
	/* Errors that are sane beside ENOMEM and EFAULT. */
	int errnos[WALK_ERRNOS];
	/*
	 * What the call says is copied to the process after it has taken effect,
	 * which the core does not undo: an error may come with the effect. If not
	 * 0, this errno then comes from the same call right after, and is fine.
	 */
	bool late;
	int again;
};

void walk(const struct path *path);

/* Not under faults: bails out unless it succeeds. */
void must(int (*call)(void), const char *what);

/*
 * Last test points: data moves on @pair, and without it nothing is left pinned
 * beyond @pinned pages. Returns what main() is to.
 */
int walk_done(struct pair *pair, long pinned);

#endif /* WALK_H */
