// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <poll.h>
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

static void wait_ready(int fd, const char *program)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	char text[16] = "";

	if (poll(&pfd, 1, READY_MS) <= 0 ||
	    read(fd, text, sizeof(text) - 1) <= 0 || strcmp(text, "ready\n"))
		bail_out("%s did not start; see --nic, and --socket for a device that runs",
			 program);
}

const char *launch_nic(const char *program, char *const *options)
{
	const char *argv[MAX_ARGS] = {
		program, "--socket", socket_path, "--log", log_path, "--ready-fd",
	};
	unsigned int argc = 6;
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

	nic = fork();
	if (nic < 0)
		bail_out("fork: %s", strerror(errno));
	if (!nic) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		close(pipes[0]);
		execvp(program, (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(pipes[1]);
	wait_ready(pipes[0], program);
	close(pipes[0]);
	return socket_path;
}

bool launch_end(void)
{
	int status;

	kill(nic, SIGTERM);
	while (waitpid(nic, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	unlink(log_path);
	rmdir(folder);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}
