// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging under NUMA balancing, which makes pages inaccessible to see which
 * processor uses them: the NIC has to get them back although no processor touches them.
 * Needs a guest with two nodes ("numa=fake=2U").
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "paged.h"
#include "tap.h"
#include "window.h"

#define PAGES	2048
#define SIZE	(PAGES * PAGE)
#define SPOTS	16
#define PATIENCE_S	60

static struct pair pair;

static bool set(const char *path, const char *value)
{
	FILE *file = fopen(path, "w");
	bool good;

	if (!file)
		return false;
	good = fputs(value, file) >= 0;
	return !fclose(file) && good;
}

/* The number of pages made inaccessible since boot, of all processes. */
static unsigned long long taken(void)
{
	FILE *file = fopen("/proc/vmstat", "r");
	unsigned long long value, found = 0;
	char name[64];

	if (!file)
		tap_bail("/proc/vmstat");
	while (fscanf(file, "%63s %llu", name, &value) == 2)
		if (!strcmp(name, "numa_pte_updates"))
			found = value;
	fclose(file);
	return found;
}

/*
 * Spins, for balancing counts time on a processor, until all pages were made
 * inaccessible.
 */
static bool balanced(unsigned long long before)
{
	time_t end = time(NULL) + PATIENCE_S;

	while (taken() < before + PAGES)
		if (time(NULL) > end)
			return false;
	return true;
}

/*
 * Balancing leaves near pages of a process with one thread alone, so this is a second
 * one.
 */
static void *wait_for_end(void *pipe)
{
	char byte;

	return read(*(int *)pipe, &byte, 1) < 0 ? pipe : NULL;
}

static bool reads(struct ibv_mr *mr, uint8_t *there, uint32_t pages)
{
	struct outcome outcome;
	uint32_t i;

	memset(pair.a.buf, 0, pages * PAGE);
	outcome = ask(&pair, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)there, pages * PAGE);
	for (i = 0; i < pages; i++)
		if (!is_filled(pair.a.buf + i * PAGE, PAGE, 7))
			return false;
	return !outcome.status;
}

int main(void)
{
	static const char debug[] = "/sys/kernel/debug/sched/numa_balancing";
	struct ibv_device_attr attr;
	struct ibv_mr *mr;
	unsigned long long before;
	uint8_t *there;
	int page, ends[2];
	pthread_t thread;
	char path[128];

	if (access("/sys/devices/system/node/node1", F_OK)) {
		tap_skip("the guest has one node", "pages that NUMA balancing watches");
		return tap_done();
	}
	set("/proc/sys/kernel/numa_balancing", "1");
	snprintf(path, sizeof(path), "%s/scan_delay_ms", debug);
	set(path, "1");
	snprintf(path, sizeof(path), "%s/scan_period_min_ms", debug);
	tap_ok(set(path, "10"), "the balancing is in a hurry");
	if (pipe(ends) || pthread_create(&thread, NULL, wait_for_end, &ends[0]))
		tap_bail("a second thread");
	pair.pd = ibv_alloc_pd(open_nic(NULL, &attr));
	pair_open(&pair, pair.pd->context, &pair_defaults);
	pair_connect(&pair);
	there = map_pages(SIZE);
	madvise(there, SIZE, MADV_NOHUGEPAGE);
	before = taken();
	for (page = 0; page < PAGES; page++)
		fill(there + page * PAGE, PAGE, 7);
	mr = must_reg(pair.pd, there, SIZE, ON_DEMAND);
	tap_ok(balanced(before), "no page is the process's as it was");
	for (page = 0; page < PAGES; page += PAGES / SPOTS)
		if (!tap_ok(reads(mr, there + page * PAGE, 1), "page %d is read", page) ||
		    !tap_ok(reads(mr, there + (page + 1) * PAGE, 3), "and the next ones"))
			break;
	tap_is(ibv_dereg_mr(mr), 0, "deregistered");
	munmap(there, SIZE);
	close(ends[1]);
	pthread_join(thread, NULL);
	pair_close(&pair);
	return tap_done();
}
