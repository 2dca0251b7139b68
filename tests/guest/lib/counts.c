// SPDX-License-Identifier: GPL-2.0
#include <glob.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "moor/moor_mr.h"
#include "tap.h"

long pinned_pages(void)
{
	FILE *refresh = fopen("/proc/sys/vm/stat_refresh", "r");
	FILE *file = fopen("/proc/vmstat", "r");
	long value, pinned = 0;
	char name[64];

	/*
	 * Reading stat_refresh folds the counts of each processor into the
	 * sums.
	 */
	if (!refresh || !file || fgetc(refresh) != EOF)
		tap_bail("reading the counts of pages");
	while (fscanf(file, "%63s %ld", name, &value) == 2) {
		if (!strcmp(name, "nr_foll_pin_acquired"))
			pinned += value;
		if (!strcmp(name, "nr_foll_pin_released"))
			pinned -= value;
	}
	fclose(refresh);
	fclose(file);
	return pinned;
}

long own_pinned_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[128];
	long kib = -1;

	while (file && kib < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "VmPin: %ld kB", &kib);
	if (kib < 0)
		tap_bail("no VmPin in /proc/self/status");
	fclose(file);
	return kib;
}

static FILE *open_entries(const char *name)
{
	char path[128];
	glob_t found;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/debug/moor/*/%s", name);
	if (glob(path, 0, NULL, &found))
		tap_bail("%s: nothing there", path);
	file = fopen(found.gl_pathv[0], "r");
	globfree(&found);
	if (!file)
		tap_bail("%s cannot be read", path);
	return file;
}

int live_windows(void)
{
	FILE *file = open_entries("windows");
	int lines = -1, c;

	while ((c = fgetc(file)) != EOF)
		lines += c == '\n';
	fclose(file);
	return lines;
}

int live_mrs(void)
{
	FILE *file = open_entries("mr");
	char line[512];
	unsigned int type;
	int mrs = 0;

	while (fgets(line, sizeof(line), file))
		mrs += sscanf(line, "%*s %*s %u", &type) == 1 &&
		       type != MOOR_MRC_TYPE_ALL;
	fclose(file);
	return mrs;
}

void expect_nothing_left(long pinned)
{
	tap_is(live_mrs(), 0, "no MR is left");
	tap_is(live_windows(), 0, "no window is left");
	tap_is(pinned_pages() - pinned, 0, "no page stays pinned");
}
