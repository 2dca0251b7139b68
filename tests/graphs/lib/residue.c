// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counts.h"
#include "pair.h"
#include "residue.h"
#include "tap.h"

/* Looks until a test gives up: some objects are freed late, by RCU or by workers. */
#define PATIENCE	200
#define PAUSE_MS	20

/* ---- slab objects ---- */

/*
 * Functions that allocate on behalf of a process: the driver's, and the core's for it.
 * The core's handles (alloc_uobj()) do not count, for RCU frees them some time later,
 * nor do those in stay[]: MRs of kernel clients, likewise, and table nodes, which are
 * kept for the next tables.
 */
static const char * const allocators[] = {
	"moor_", "uverbs_", "ib_uverbs", "ib_alloc", "__ib_alloc", "create_cq",
	"ib_create", "create_qp", "_rdma_create", "rdma_user", "ib_umem", "__ib_umem",
	"ib_open_qp", "__ib_open_qp", "create_xrc_qp", "xrcd_table",
};

static const char * const stay[] = { "moor_alloc_mr", "moor_node_new" };

static bool is_in(const char *function, const char * const *list, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (!strncmp(function, list[i], strlen(list[i])))
			return true;
	return false;
}

/*
 * A line is "COUNT FUNCTION+OFFSET ...", and the callers of the function are below it.
 */
static long count_line(const char *line)
{
	char function[64];
	long count;

	if (sscanf(line, " %ld %63s", &count, function) != 2 ||
	    is_in(function, stay, sizeof(stay) / sizeof(stay[0])) ||
	    !is_in(function, allocators, sizeof(allocators) / sizeof(allocators[0])))
		return 0;
	return count;
}

/*
 * KASAN keeps freed objects for a while, and slabs show the call that allocated them.
 */
static bool has_kasan(void)
{
	static int has = -1;
	char line[256];
	FILE *file;

	if (has >= 0)
		return has;
	has = 0;
	file = fopen("/proc/kallsyms", "r");
	while (file && !has && fgets(line, sizeof(line), file))
		has = !!strstr(line, " __asan_load8");
	if (file)
		fclose(file);
	if (has)
		tap_diag("slab objects are not counted: KASAN keeps those that are freed");
	return has;
}

long residue_objects(void)
{
	char line[512];
	long count = 0;
	glob_t caches;
	FILE *file;
	size_t i;

	if (has_kasan())
		return -1;
	if (glob("/sys/kernel/debug/slab/kmalloc*/alloc_traces", 0, NULL, &caches))
		return 0;
	for (i = 0; i < caches.gl_pathc; i++) {
		file = fopen(caches.gl_pathv[i], "r");
		while (file && fgets(line, sizeof(line), file))
			count += count_line(line);
		if (file)
			fclose(file);
	}
	globfree(&caches);
	return count;
}

/* ---- the kernel's log ---- */

/*
 * What scripts/vm looks for at the end, and what the core says of objects left behind.
 */
static const char * const complaints[] = {
	"WARNING: ", "BUG: ", "Oops: ", "KASAN: ", "UBSAN: ", "INFO: task ", "stall",
	"DMAR: [DMA", "refcount_t: ", "corruption", "scheduling while atomic",
	"restrack: ", "unreferenced object", "DMA-API: ",
};

/* Has the kernel complained since the last call? @what is the line of the log. */
static bool kernel_complains(char *what, unsigned int size)
{
	static int log = -1;
	char record[2048];
	bool found = false;
	unsigned int i;
	ssize_t n;

	if (log < 0) {
		log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (log < 0 || lseek(log, 0, SEEK_END) < 0)
			tap_bail("/dev/kmsg: %s", strerror(errno));
	}
	while ((n = read(log, record, sizeof(record) - 1)) > 0 || errno == EPIPE) {
		record[n > 0 ? n : 0] = 0;
		errno = 0;
		for (i = 0; i < sizeof(complaints) / sizeof(complaints[0]) && !found; i++) {
			found = strstr(record, complaints[i]);
			if (found)
				snprintf(what, size, "the kernel: %.*s",
					 (int)strcspn(strchr(record, ';') + 1, "\n"),
					 strchr(record, ';') + 1);
		}
	}
	return found;
}

/* ---- all of it ---- */

static void take(struct residue *now)
{
	holdings_get(&now->held);
	now->pinned = pinned_pages();
	now->mrs = live_mrs();
}

void residue_get(struct residue *now)
{
	char old[8];

	take(now);
	kernel_complains(old, sizeof(old));
}

static bool differs(const struct residue *before, const struct residue *now,
		    char *why, unsigned int size)
{
	if (now->pinned != before->pinned)
		snprintf(why, size, "%ld pages more are pinned", now->pinned - before->pinned);
	else if (now->held.entries != before->held.entries)
		snprintf(why, size, "%d context entries more are valid",
			 (int)(now->held.entries - before->held.entries));
	else if (now->mrs != before->mrs)
		snprintf(why, size, "the driver has %d MRs more", now->mrs - before->mrs);
	else if (!holdings_equal(&now->held, &before->held))
		snprintf(why, size, "pd %+d cq %+d qp %+d mr %+d context %+d srq %+d",
			 (int)(now->held.resource[0] - before->held.resource[0]),
			 (int)(now->held.resource[1] - before->held.resource[1]),
			 (int)(now->held.resource[2] - before->held.resource[2]),
			 (int)(now->held.resource[4] - before->held.resource[4]),
			 (int)(now->held.resource[5] - before->held.resource[5]),
			 (int)(now->held.resource[6] - before->held.resource[6]));
	else
		return false;
	return true;
}

/* Can all of the NIC's memory be allocated? */
static bool dm_is_free(void)
{
	struct ibv_device_attr_ex attr = {};
	struct ibv_context *ctx = open_nic(nic_name(), &attr.orig_attr);
	struct ibv_alloc_dm_attr dm_attr = {};
	struct ibv_dm *dm;

	if (ibv_query_device_ex(ctx, NULL, &attr))
		tap_bail("ibv_query_device_ex: %s", strerror(errno));
	dm_attr.length = attr.max_dm_size;
	dm = ibv_alloc_dm(ctx, &dm_attr);
	if (dm)
		ibv_free_dm(dm);
	ibv_close_device(ctx);
	return dm;
}

bool residue_same(const struct residue *before, char *why, unsigned int size)
{
	struct residue now;
	bool same = false;
	int i;

	for (i = 0; i < PATIENCE && !same; i++) {
		if (i)
			poll(NULL, 0, PAUSE_MS);
		take(&now);
		if (kernel_complains(why, size))
			return false;
		same = !differs(before, &now, why, size);
	}
	if (same && !dm_is_free()) {
		snprintf(why, size, "on-NIC memory is not free");
		same = false;
	}
	return same;
}

bool residue_unpinned(const struct residue *before, char *why, unsigned int size)
{
	long more = 0;
	int i;

	for (i = 0; i < PATIENCE; i++) {
		more = pinned_pages() - before->pinned;
		if (!more)
			return !kernel_complains(why, size);
		poll(NULL, 0, PAUSE_MS);
	}
	snprintf(why, size, "%ld pages more are pinned without a device", more);
	return false;
}
