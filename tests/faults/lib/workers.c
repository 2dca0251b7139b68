// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"
#include "workers.h"

#define MAX_WORKERS	64

static int workers[MAX_WORKERS], num_workers;

/*
 * Finds the kernel's workers that have worked for the driver: they will be used again.
 */
static void find_workers(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	char path[300], name[64];
	FILE *file;

	while (dir && (entry = readdir(dir)) && num_workers < MAX_WORKERS) {
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file) && strstr(name, "moor")) {
			snprintf(path, sizeof(path), "/proc/%s/fail-nth", entry->d_name);
			workers[num_workers] = open(path, O_RDWR | O_CLOEXEC);
			num_workers += workers[num_workers] >= 0;
		}
		if (file)
			fclose(file);
	}
	if (dir)
		closedir(dir);
}

void workers_arm(unsigned int nth)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", nth), i;

	find_workers();
	if (!num_workers)
		tap_bail("no worker has worked for the driver");
	for (i = 0; i < num_workers; i++)
		if (pwrite(workers[i], text, length, 0) != length)
			tap_bail("fail-nth of a worker: %s", strerror(errno));
}

bool workers_disarm(void)
{
	bool reached = false;
	char text[16];
	int i;

	for (i = 0; i < num_workers; i++) {
		if (pread(workers[i], text, sizeof(text) - 1, 0) > 0)
			reached |= text[0] == '0';
		if (pwrite(workers[i], "0", 1, 0) != 1)
			tap_bail("fail-nth of a worker: %s", strerror(errno));
		close(workers[i]);
	}
	num_workers = 0;
	return reached;
}
