// SPDX-License-Identifier: GPL-2.0
/* timeout: 300
 *
 * Nothing that the tests before it have made the kernel allocate has been lost.
 * Needs scripts/vm --kernel debug --append kmemleak=on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
/* What is younger may still be on its way to where it belongs. */
#define MIN_AGE_S	6

/* Asked for at boot: then a fault must not have turned it off. */
static bool asked_for(void)
{
	FILE *file = fopen("/proc/cmdline", "r");
	char line[4096] = "";
	bool asked = file && fgets(line, sizeof(line), file) && strstr(line, "kmemleak=on");

	if (file)
		fclose(file);
	return asked;
}

static bool scan(void)
{
	int fd = open(KMEMLEAK, O_WRONLY);
	bool done = fd >= 0 && write(fd, "scan", 4) == 4;

	close(fd);
	return done;
}

/*
 * Not ours: when the core cannot build its tables for a device, it frees what is
 * in its radix tree, but not a node that an insertion which failed has left empty.
 */
#define KNOWN	"uapi_merge_def"

static void show(char *report)
{
	const char *line;

	while ((line = strsep(&report, "\n")))
		tap_diag("%s", line);
}

/* Says what was lost, each object with its history, and counts. */
static int count_reports(void)
{
	FILE *file = fopen(KMEMLEAK, "r");
	char line[256], report[8192] = "";
	int count = 0;
	bool more;

	if (!file)
		return -1;
	do {
		more = fgets(line, sizeof(line), file);
		if (!more || !strncmp(line, "unreferenced object", 19)) {
			if (*report && !strstr(report, KNOWN)) {
				show(report);
				count++;
			}
			*report = 0;
		}
		if (more && strlen(report) + strlen(line) < sizeof(report))
			strcat(report, line);
	} while (more);
	fclose(file);
	return count;
}

int main(void)
{
	if (!scan()) {
		if (asked_for())
			tap_bail(KMEMLEAK ": %s", strerror(errno));
		printf("1..0 # SKIP kmemleak is off (scripts/vm --append kmemleak=on)\n");
		return 0;
	}
	/* An object counts as lost when it looks the same in two scans. */
	sleep(MIN_AGE_S);
	if (!scan())
		tap_bail(KMEMLEAK ": %s", strerror(errno));
	tap_is(count_reports(), 0, "objects that nothing points to");
	return tap_done();
}
