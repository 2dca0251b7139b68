// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "tap.h"

#define DEBUGFS	"/sys/kernel/debug"

static int nth_fd = -1;

static const struct {
	const char *file, *value;
} settings[] = {
	/*
	 * Make allocations that may sleep, and those of memory for processes, fail as
	 * well.
	 */
	{ DEBUGFS "/failslab/ignore-gfp-wait", "N" },
	{ DEBUGFS "/fail_page_alloc/ignore-gfp-wait", "N" },
	{ DEBUGFS "/fail_page_alloc/ignore-gfp-highmem", "N" },
	{ DEBUGFS "/fail_page_alloc/min-order", "0" },
	{ DEBUGFS "/failslab/times", "-1" },
	{ DEBUGFS "/fail_page_alloc/times", "-1" },
	{ DEBUGFS "/fail_usercopy/times", "-1" },
};

static const char * const kinds[] = { "failslab", "fail_page_alloc", "fail_usercopy" };

static bool put(const char *file, const char *value)
{
	int fd = open(file, O_WRONLY);
	bool done = fd >= 0 &&
		    write(fd, value, strlen(value)) == (ssize_t)strlen(value);

	if (fd >= 0)
		close(fd);
	return done;
}

/* With MOOR_FAULT_VERBOSE set, the kernel's log says where each fault hit. */
bool fault_setup(void)
{
	const char *verbose = getenv("MOOR_FAULT_VERBOSE") ? "2" : "0";
	char file[128];
	size_t i;

	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (!put(settings[i].file, settings[i].value))
			return false;
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		snprintf(file, sizeof(file), DEBUGFS "/%s/verbose", kinds[i]);
		if (!put(file, verbose))
			return false;
	}
	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	return nth_fd >= 0;
}

void fault_arm(unsigned int nth)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", nth);

	if (pwrite(nth_fd, text, length, 0) != length)
		tap_bail("fail-nth: %s", strerror(errno));
}

unsigned int fault_disarm(void)
{
	char text[16] = "";
	ssize_t length;

	/*
	 * Reading is a fault point itself: if the read failed, no earlier point was
	 * hit.
	 */
	length = pread(nth_fd, text, sizeof(text) - 1, 0);
	/* Writing is one too; it fails only while the fault has not hit yet. */
	while (pwrite(nth_fd, "0", 1, 0) != 1)
		if (errno != EFAULT)
			tap_bail("fail-nth: %s", strerror(errno));
	return length > 0 ? (unsigned int)atoi(text) : 1;
}
