/* SPDX-License-Identifier: GPL-2.0 */
/* A program that does on standard input's word what a test wants of it. */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>

struct word {
	const char *name;
	int (*call)(void);		/* 0, or an errno or whatever it means */
};

/*
 * Says "ready", and then for each line what came of it: "reg" calls it once, "reg 100" a
 * hundred times, if it does not fail before.
 */
void words_follow(const struct word *words, size_t count);

#endif /* WORDS_H */
