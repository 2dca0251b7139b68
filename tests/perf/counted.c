// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: counted COMMAND [ARG...]
 *
 * Runs COMMAND and prints, as the last line, how many instructions the whole guest has
 * executed meanwhile (lib/spare.h). COMMAND's output is dropped.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spare.h"
#include "tap.h"

static int run(char **command)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		execvp(*command, command);
		perror(*command);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		tap_bail("cannot run %s", *command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	uint64_t start;
	int status;

	if (argc < 2 || !strcmp(argv[1], "--help")) {
		fprintf(stderr, "usage: counted COMMAND [ARG...]    the instructions it takes\n");
		return 1;
	}
	spare_begin();
	start = busy();
	status = run(argv + 1);
	printf("%llu\n", (unsigned long long)(busy() - start));
	return status;
}
