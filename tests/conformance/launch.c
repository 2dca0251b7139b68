// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "launch.h"

#define READY_MS	20000
#define MAX_ARGS	32

static char folder[40];
static char socket_path[64], log_path[64];
static pid_t nic;
static bool ended;

/* Where the NIC has said why, if the suite ends before its end. */
static void name_log(void)
{
	if (!ended)
		printf("# the NIC's log: %s\n", log_path);
}

static void wait_started(int fd, const char *program)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	char text[16] = "";

	if (poll(&pfd, 1, READY_MS) <= 0 ||
	    read(fd, text, sizeof(text) - 1) <= 0 || strcmp(text, "ready\n"))
		bail_out("%s did not start; see --nic, and --socket for a device that runs",
			 program);
}

/*
 * One processor for the suite and the others for the NIC. Who looks for what lasts a moment
 * has to look while the device works; where other programs keep the processors busy, the
 * scheduler lets two that wake each other up take turns on one.
 */
static void part(cpu_set_t *suite, cpu_set_t *device)
{
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(*device), device))
		bail_out("sched_getaffinity: %s", strerror(errno));
	*suite = *device;
	if (CPU_COUNT(device) < 2)
		return;
	while (!CPU_ISSET(cpu, device))
		cpu++;
	CPU_CLR(cpu, device);
	CPU_ZERO(suite);
	CPU_SET(cpu, suite);
}

const char *launch_nic(const char *program, char *const *options)
{
	const char *argv[MAX_ARGS] = {
		program, "--socket", socket_path, "--log", log_path, "--ready-fd",
	};
	unsigned int argc = 6;
	cpu_set_t suite, device;
	char ready[16];
	int pipes[2];

	snprintf(folder, sizeof(folder), "/tmp/moor-conformance-XXXXXX");
	if (!mkdtemp(folder))
		bail_out("%s: %s", folder, strerror(errno));
	snprintf(socket_path, sizeof(socket_path), "%s/socket", folder);
	snprintf(log_path, sizeof(log_path), "%s/log", folder);
	if (pipe(pipes))
		bail_out("pipe: %s", strerror(errno));
	snprintf(ready, sizeof(ready), "%d", pipes[1]);
	argv[argc++] = ready;
	for (; *options && argc < MAX_ARGS - 1; options++)
		argv[argc++] = *options;

	atexit(name_log);
	part(&suite, &device);
	nic = fork();
	if (nic < 0)
		bail_out("fork: %s", strerror(errno));
	if (!nic) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		close(pipes[0]);
		sched_setaffinity(0, sizeof(device), &device);
		execvp(program, (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	sched_setaffinity(0, sizeof(suite), &suite);
	close(pipes[1]);
	wait_started(pipes[0], program);
	close(pipes[0]);
	return socket_path;
}

bool launch_end(void)
{
	int status;

	ended = true;
	kill(nic, SIGTERM);
	while (waitpid(nic, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	unlink(log_path);
	rmdir(folder);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}
