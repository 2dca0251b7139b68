// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: apart DEVICE PROCESSES COUNT BYTES
 *
 * PROCESSES processes, which share no memory, context or PD, register and deregister
 * BYTES of small, scattered pages, COUNT times each and a few regions at a time. For
 * tests/perf/locks, which counts the locks they contend for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "mapping.h"
#include "open.h"
#include "tap.h"

#define AT_A_TIME	16

static void work(struct ibv_pd *pd, const struct mapping *mapping, int count)
{
	struct ibv_mr *mrs[AT_A_TIME];
	int i;

	for (; count > 0; count -= AT_A_TIME) {
		for (i = 0; i < AT_A_TIME; i++) {
			mrs[i] = ibv_reg_mr(pd, mapping->at, mapping->length,
					    IBV_ACCESS_LOCAL_WRITE);
			if (!mrs[i])
				tap_bail("ibv_reg_mr");
		}
		for (i = 0; i < AT_A_TIME; i++)
			if (ibv_dereg_mr(mrs[i]))
				tap_bail("ibv_dereg_mr");
	}
}

/* Reports when its memory is ready, and starts when all processes are. */
static void be_process(char **argv, int ready, int go)
{
	struct ibv_pd *pd = open_pd(argv[1]);
	struct mapping mapping;
	char c = 0;

	if (mapping_make(&mapping, SCATTERED, strtoul(argv[4], NULL, 0)))
		tap_bail("no memory");
	if (write(ready, &c, 1) != 1 || read(go, &c, 1) != 1)
		tap_bail("nobody waits");
	work(pd, &mapping, atoi(argv[3]));
	_exit(0);
}

int main(int argc, char **argv)
{
	int ready[2], go[2], processes, status = 0, i;
	char c = 0;

	if (argc != 5 || pipe(ready) || pipe(go)) {
		fprintf(stderr, "usage: apart DEVICE PROCESSES COUNT BYTES\n");
		return 1;
	}
	processes = atoi(argv[2]);
	for (i = 0; i < processes; i++)
		if (!fork())
			be_process(argv, ready[1], go[0]);
	close(ready[1]);
	for (i = 0; i < processes; i++)
		if (read(ready[0], &c, 1) != 1)
			tap_bail("a process has failed");
	for (i = 0; i < processes; i++)
		if (write(go[1], &c, 1) != 1)
			tap_bail("a process has failed");
	while (wait(&i) > 0)
		status |= i;
	return !!status;
}
