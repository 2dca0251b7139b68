// SPDX-License-Identifier: GPL-2.0
/* TAP output, and the model as a child process. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define READY_TIMEOUT_MS	20000
#define MAX_ARGS		16

static unsigned int checks, failures;

static void print_line(const char *head, const char *fmt, va_list args)
{
	fputs(head, stdout);
	vprintf(fmt, args);
	putchar('\n');
	fflush(stdout);
}

void check(bool ok, const char *fmt, ...)
{
	char head[32];
	va_list args;

	checks++;
	if (!ok)
		failures++;
	snprintf(head, sizeof(head), "%s %u - ", ok ? "ok" : "not ok", checks);
	va_start(args, fmt);
	print_line(head, fmt, args);
	va_end(args);
}

int check_done(void)
{
	printf("1..%u\n", checks);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

void note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_line("# ", fmt, args);
	va_end(args);
}

void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_line("Bail out! ", fmt, args);
	va_end(args);
	exit(EXIT_FAILURE);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static const char *program(void)
{
	const char *path = getenv("MOOR_NIC");

	if (!path)
		die("MOOR_NIC does not name the model");
	return path;
}

static unsigned int append_args(const char **argv, unsigned int argc,
				const char *const *args)
{
	for (; args && *args; args++) {
		if (argc == MAX_ARGS - 1)
			die("too many arguments");
		argv[argc++] = *args;
	}
	argv[argc] = NULL;
	return argc;
}

static void wait_ready(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	char text[16] = "";

	if (poll(&pfd, 1, READY_TIMEOUT_MS) <= 0 ||
	    read(fd, text, sizeof(text) - 1) < 0 || strcmp(text, "ready\n"))
		die("the model did not get ready: \"%s\"", text);
}

void model_start(struct model *model, const char *const *args)
{
	snprintf(model->dir, sizeof(model->dir), "/tmp/moor-test-XXXXXX");
	if (!mkdtemp(model->dir))
		die("mkdtemp: %s", strerror(errno));
	snprintf(model->socket, sizeof(model->socket), "%s/socket", model->dir);
	snprintf(model->log, sizeof(model->log), "%s/log", model->dir);
	model_restart(model, args);
}

void model_restart(struct model *model, const char *const *args)
{
	const char *argv[MAX_ARGS];
	char ready[16];
	int pipes[2];

	if (pipe(pipes))
		die("pipe: %s", strerror(errno));
	snprintf(ready, sizeof(ready), "%d", pipes[1]);
	argv[0] = program();
	argv[1] = "--socket";
	argv[2] = model->socket;
	argv[3] = "--log";
	argv[4] = model->log;
	argv[5] = "--ready-fd";
	argv[6] = ready;
	append_args(argv, 7, args);

	model->pid = fork();
	if (model->pid < 0)
		die("fork: %s", strerror(errno));
	if (!model->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pipes[0]);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(pipes[1]);
	wait_ready(pipes[0]);
	close(pipes[0]);
}

static int exit_status(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int model_stop(struct model *model)
{
	int status;

	kill(model->pid, SIGTERM);
	status = exit_status(model->pid);
	unlink(model->log);
	rmdir(model->dir);
	return status;
}

void model_kill(struct model *model)
{
	kill(model->pid, SIGKILL);
	exit_status(model->pid);
}

int model_run(const char *const *args, char *text, size_t size)
{
	const char *argv[MAX_ARGS];
	size_t used = 0;
	int pipes[2];
	ssize_t n;
	pid_t pid;

	argv[0] = program();
	append_args(argv, 1, args);
	if (pipe(pipes))
		die("pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		dup2(pipes[1], STDERR_FILENO);
		dup2(pipes[1], STDOUT_FILENO);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(pipes[1]);
	while ((n = read(pipes[0], text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	close(pipes[0]);
	return exit_status(pid);
}

bool model_alive(const struct model *model)
{
	return !waitpid(model->pid, NULL, WNOHANG);
}

unsigned int model_logged(const struct model *model, const char *text)
{
	FILE *file = fopen(model->log, "re");
	unsigned int lines = 0;
	char line[512];

	if (!file)
		die("%s: %s", model->log, strerror(errno));
	while (fgets(line, sizeof(line), file))
		lines += !!strstr(line, text);
	fclose(file);
	return lines;
}

unsigned int model_cpu_ms(const struct model *model)
{
	unsigned long user, system;
	char path[64], text[512];
	const char *fields;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", model->pid);
	file = fopen(path, "re");
	if (!file)
		die("%s: %s", path, strerror(errno));
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	fields = strrchr(text, ')');
	if (!fields ||
	    sscanf(fields + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		   &user, &system) != 2)
		die("%s: not understood", path);
	return (unsigned int)((user + system) * 1000 /
			      (unsigned long)sysconf(_SC_CLK_TCK));
}
