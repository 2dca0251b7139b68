// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: rest DEVICE [OTHER]
 *
 * What it takes to register a page and to deregister it, by wall time: back to back,
 * while the NIC is awake, and after 5 ms of idleness, when the NIC and the threads
 * between it and the caller sleep. One device after the other.
 *
 * Prints figures as lib/figures.h has them.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "figures.h"
#include "mapping.h"
#include "open.h"

#define REST_US		5000

static struct figure local, remote, dereg;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void rest(unsigned int us)
{
	/* usleep(0) would sleep, too, for the timer's slack. */
	if (us)
		usleep(us);
}

static struct ibv_mr *reg(struct ibv_pd *pd, const struct mapping *mapping, unsigned int pause,
			  int access, struct figure *figure)
{
	struct ibv_mr *mr;
	uint64_t start;

	rest(pause);
	start = now_ns();
	mr = ibv_reg_mr(pd, mapping->at, mapping->length, access);
	if (!mr)
		die("ibv_reg_mr");
	take(figure, &start);
	return mr;
}

static void take_back(struct ibv_mr *mr, unsigned int pause, bool counts)
{
	uint64_t start;

	rest(pause);
	start = now_ns();
	if (ibv_dereg_mr(mr))
		die("ibv_dereg_mr");
	if (counts)
		take(&dereg, &start);
}

static void measure(struct ibv_pd *pd, const struct mapping *mapping, const char *whose,
		    unsigned int pause)
{
	struct sort sort = { pause ? "after 5 ms of rest" : "in a loop", mapping->length, "bytes" };
	struct ibv_mr *mr;
	int round;

	for (round = 0; round < ROUNDS_MAX; round++) {
		mr = reg(pd, mapping, pause, IBV_ACCESS_LOCAL_WRITE, &local);
		take_back(mr, pause, true);
		mr = reg(pd, mapping, pause, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			 &remote);
		take_back(mr, pause, false);
	}
	show(&local, "reg", &sort, whose);
	show(&remote, "reg: a remote right", &sort, whose);
	show(&dereg, "dereg", &sort, whose);
}

int main(int argc, char **argv)
{
	struct mapping mapping;
	struct ibv_pd *pd;
	int i;

	if (argc < 2) {
		fprintf(stderr, "usage: rest DEVICE [OTHER]\n");
		return 1;
	}
	if (mapping_make(&mapping, IN_ORDER, mapping_info[IN_ORDER].least))
		die("memory");
	for (i = 1; i < argc; i++) {
		pd = open_pd(argv[i]);
		measure(pd, &mapping, argv[i], 0);
		measure(pd, &mapping, argv[i], REST_US);
	}
	mapping_free(&mapping);
	return 0;
}
