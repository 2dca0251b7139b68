/* SPDX-License-Identifier: GPL-2.0 */
/* A program that is driven by words on its standard input. */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>

struct word {
	const char *name;
	int (*call)(void);		/* 0, an errno or another number */
};

/*
 * Says "ready"; then for each line prints what the word's call returned. "reg" makes
 * the call once, "reg 100" up to a hundred times, until it fails.
 */
void words_follow(const struct word *words, size_t count);

#endif /* WORDS_H */
