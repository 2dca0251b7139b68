// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <string.h>

#include "tap.h"
#include "words.h"

static const struct word *find(const struct word *words, size_t count, const char *name)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(name, words[i].name))
			return &words[i];
	tap_bail("unknown word: %s", name);
}

void words_follow(const struct word *words, size_t count)
{
	char line[64], name[32];

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		const struct word *word;
		int times = 1, err = 0;

		if (sscanf(line, "%31s %d", name, &times) < 1)
			continue;
		word = find(words, count, name);
		while (times-- && !err)
			err = word->call();
		printf("%d\n", err);
		fflush(stdout);
	}
}
