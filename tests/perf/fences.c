// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: fences DEVICE [MRS]
 *
 * How many fences deregistering takes: by one thread, by eight that begin at once, and
 * by the end of a process; MRS (1000) regions of a page in all. Counts the commands
 * that the NIC has fetched, by its control socket: nothing else may use the NIC, and
 * MR_REVOKE is all that deregistering issues. From the host:
 *
 *   tests/perf/nic/make slow
 *   scripts/vm --control -- build/tests/fences moor0
 *   MOOR_NIC=build/perf-nic/slow/moor-nic scripts/vm --control -- build/tests/fences moor0
 *
 * Prints a line for each: regions, fences, regions a fence, microseconds a region.
 */
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "figures.h"
#include "open.h"
#include "tap.h"

#define PAGE		4096
#define THREADS_MAX	8
#define NAMES		"/sys/class/virtio-ports/*/name"
#define CONTROL		"moor.control.0"

static const char *device;
static char *page;
static int port;

/* ---- the NIC's count ---- */

static void open_control(void)
{
	char line[64], path[64];
	glob_t names;
	size_t i;

	port = -1;
	if (glob(NAMES, 0, NULL, &names))
		tap_bail("no control socket: scripts/vm --control");
	for (i = 0; i < names.gl_pathc && port < 0; i++) {
		FILE *file = fopen(names.gl_pathv[i], "r");
		char *name = strrchr(names.gl_pathv[i], '/');

		if (file && fgets(line, sizeof(line), file) &&
		    !strncmp(line, CONTROL, strlen(CONTROL))) {
			*name = 0;
			snprintf(path, sizeof(path), "/dev/%s",
				 strrchr(names.gl_pathv[i], '/') + 1);
			port = open(path, O_RDWR | O_CLOEXEC);
		}
		if (file)
			fclose(file);
	}
	globfree(&names);
	if (port < 0)
		tap_bail("no control socket: scripts/vm --control");
}

static unsigned long commands(void)
{
	static const char ask[] = "status\n", word[] = " commands=";
	char answer[512], *found;
	size_t length = 0;
	ssize_t got;

	if (write(port, ask, strlen(ask)) != (ssize_t)strlen(ask))
		tap_bail("control socket");
	do {
		got = read(port, answer + length, sizeof(answer) - 1 - length);
		if (got <= 0)
			tap_bail("control socket");
		length += got;
	} while (answer[length - 1] != '\n');
	answer[length] = 0;
	found = strstr(answer, word);
	if (!found)
		tap_bail("the NIC says: %s", answer);
	return strtoul(found + strlen(word), NULL, 0);
}

static void report(const char *what, int mrs, unsigned long fences, uint64_t ns)
{
	if (!fences)
		tap_bail("%s: no command", what);
	printf("%-32s %6d MRs %6lu fences %6.2f MRs a fence %9.1f us an MR\n", what, mrs,
	       fences, (double)mrs / fences, ns / 1000.0 / mrs);
	fflush(stdout);
}

/* ---- registering ---- */

static struct ibv_mr **reg_all(struct ibv_pd *pd, int mrs)
{
	struct ibv_mr **all = calloc(mrs, sizeof(*all));
	int i;

	for (i = 0; i < mrs; i++) {
		all[i] = ibv_reg_mr(pd, page, PAGE, IBV_ACCESS_LOCAL_WRITE);
		if (!all[i])
			tap_bail("ibv_reg_mr");
	}
	return all;
}

static void dereg_all(struct ibv_mr **all, int mrs)
{
	int i;

	for (i = 0; i < mrs; i++)
		if (ibv_dereg_mr(all[i]))
			tap_bail("ibv_dereg_mr");
}

/* ---- threads ---- */

struct part {
	pthread_t thread;
	pthread_barrier_t *start;
	struct ibv_mr **mrs;
	int count;
};

static void *dereg_part(void *arg)
{
	struct part *part = arg;

	pthread_barrier_wait(part->start);
	dereg_all(part->mrs, part->count);
	return NULL;
}

static void measure_threads(int threads, int mrs)
{
	struct ibv_mr **all = reg_all(open_pd(device), mrs);
	struct part parts[THREADS_MAX];
	pthread_barrier_t start;
	unsigned long before;
	uint64_t since;
	char what[32];
	int i;

	pthread_barrier_init(&start, NULL, threads + 1);
	for (i = 0; i < threads; i++) {
		parts[i] = (struct part){
			.start = &start,
			.mrs = all + i * (mrs / threads),
			.count = mrs / threads,
		};
		if (pthread_create(&parts[i].thread, NULL, dereg_part, &parts[i]))
			tap_bail("pthread_create");
	}
	before = commands();
	since = now_ns();
	pthread_barrier_wait(&start);
	for (i = 0; i < threads; i++)
		pthread_join(parts[i].thread, NULL);
	since = now_ns() - since;
	snprintf(what, sizeof(what), "%d thread%s", threads, threads > 1 ? "s" : "");
	report(what, mrs / threads * threads, commands() - before, since);
	free(all);
}

/* ---- the end of a process ---- */

static void measure_end(int mrs)
{
	int ready[2], go[2], status;
	unsigned long before;
	uint64_t since;
	pid_t pid;
	char c = 0;

	if (pipe(ready) || pipe(go))
		tap_bail("pipe");
	pid = fork();
	if (!pid) {
		reg_all(open_pd(device), mrs);
		if (write(ready[1], &c, 1) == 1 && read(go[0], &c, 1) == 1)
			_exit(0);
		_exit(1);
	}
	close(ready[1]);
	if (pid < 0 || read(ready[0], &c, 1) != 1)
		tap_bail("a process cannot register");
	before = commands();
	since = now_ns();
	if (write(go[1], &c, 1) != 1 || waitpid(pid, &status, 0) != pid || status)
		tap_bail("a process does not end");
	since = now_ns() - since;
	report("the end of a process", mrs, commands() - before, since);
}

int main(int argc, char **argv)
{
	int mrs = argc > 2 ? atoi(argv[2]) : 1000;

	if (argc < 2 || argc > 3 || mrs < THREADS_MAX) {
		fprintf(stderr, "usage: fences DEVICE [MRS]\n");
		return 1;
	}
	device = argv[1];
	open_control();
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		tap_bail("no memory");
	measure_threads(1, mrs);
	measure_threads(2, mrs);
	measure_threads(THREADS_MAX, mrs);
	measure_end(mrs);
	measure_end(8 * mrs);
	return 0;
}
