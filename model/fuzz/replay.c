// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a target on files, without libFuzzer: the seeds, and the reproducers of earlier
 * findings. Usage: TARGET [FILE|FOLDER]...; without arguments those in the source.
 * The sanitizers report a crash.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "input.h"

static unsigned int inputs;

static void run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	static uint8_t room[1 << 20];
	uint8_t *data;
	size_t size;

	if (!file) {
		perror(path);
		exit(2);
	}
	size = fread(room, 1, sizeof(room), file);
	fclose(file);
	/* A buffer of the exact length, for the sanitizer to see its end. */
	data = malloc(size ? size : 1);
	if (!data)
		abort();
	memcpy(data, room, size);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	inputs++;
}

static void run_path(const char *path)
{
	struct dirent **entries;
	char file[4096];
	struct stat st;
	int i, n;

	if (stat(path, &st) || !S_ISDIR(st.st_mode)) {
		run_file(path);
		return;
	}
	n = scandir(path, &entries, NULL, alphasort);
	for (i = 0; i < n; i++) {
		if (entries[i]->d_name[0] != '.') {
			snprintf(file, sizeof(file), "%s/%s", path,
				 entries[i]->d_name);
			run_file(file);
		}
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');
	uint64_t seeds_reached;
	char path[256];
	struct stat st;
	int i;

	for (i = 1; i < argc; i++)
		run_path(argv[i]);
	if (argc > 1) {
		printf("# %u inputs, %llu reached\n", inputs,
		       (unsigned long long)fuzz_reached);
		return 0;
	}

	name = name ? name + 1 : argv[0];
	snprintf(path, sizeof(path), "fuzz/seeds/%s", name);
	run_path(path);
	seeds_reached = fuzz_reached;
	printf("%sok 1 - %u seeds, which reach what they are for %llu times\n",
	       inputs && seeds_reached ? "" : "not ", inputs,
	       (unsigned long long)seeds_reached);
	snprintf(path, sizeof(path), "fuzz/reproducers/%s", name);
	if (!stat(path, &st)) {
		inputs = 0;
		run_path(path);
		printf("ok 2 - %u inputs that were mishandled once\n", inputs);
	}
	return !seeds_reached;
}
