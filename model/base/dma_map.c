// SPDX-License-Identifier: GPL-2.0
/*
 * With a vIOMMU the client sends one message for each 4 KiB page, tens of
 * thousands of them, each with a file descriptor of one and the same file. So a
 * file is mapped once, whole, and a message only adds an interval to a
 * balanced tree; neighbours that continue each other become one interval.
 */
#include <errno.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dma_map.h"
#include "base/log.h"

#define MAX_BACKINGS	32
#define MAX_SPANS	(1u << 20)
#define CACHE_SLOTS	256
#define PAGE_SHIFT	12

/* A file of the client, mapped from its first byte to its last. */
struct backing {
	dev_t dev;
	ino_t ino;
	uint8_t *base;		/* NULL: the slot is free */
	uint64_t size;
	bool writable;
	uint64_t spans;		/* that point here; without one, the file is unmapped */
};

/* Spans in the tree never overlap; span_compare() calls two that overlap equal. */
struct span {
	uint64_t first;
	uint64_t last;		/* inclusive: the end of 2^64 has no number */
	uint64_t offset;
	struct backing *backing;	/* NULL: known, but unreachable */
	unsigned int prot;
};

struct cache_slot {
	uint64_t generation;
	struct span *span;
};

struct dma_map {
	void *root;		/* tsearch(3) tree of struct span */
	unsigned int spans;
	bool enabled;
	uint64_t generation;	/* never 0: an empty cache slot matches none */
	uint64_t faults;
	uint64_t accesses;
	struct cache_slot cache[CACHE_SLOTS];
	struct backing backings[MAX_BACKINGS];
};

/* For the SIGBUS handler; there is one map in a process. */
static struct dma_map *bus_map;
static volatile sig_atomic_t bus_torn;

static int span_compare(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->last < y->first)
		return -1;
	return x->first > y->last;
}

static struct span *span_find(struct dma_map *map, uint64_t first, uint64_t last)
{
	struct span key = { .first = first, .last = last };
	struct span **node = tfind(&key, &map->root, span_compare);

	return node ? *node : NULL;
}

/*
 * The client may truncate a file that is mapped here. With zeros instead of the file
 * the NIC goes on until the main loop sees bus_torn and drops the client.
 */
static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uint8_t *addr = info->si_addr;
	unsigned int i;

	(void)context;
	for (i = 0; bus_map && i < MAX_BACKINGS; i++) {
		struct backing *b = &bus_map->backings[i];

		if (!b->base || addr < b->base || addr >= b->base + b->size)
			continue;
		/* The whole mapping: a part may be less than a page of this file. */
		if (mmap(b->base, b->size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
			 -1, 0) == MAP_FAILED)
			break;
		bus_torn = 1;
		return;
	}
	signal(sig, SIG_DFL);
	raise(sig);
}

struct dma_map *dma_map_create(void)
{
	struct dma_map *map = calloc(1, sizeof(*map));
	struct sigaction action = {
		.sa_sigaction = on_sigbus,
		.sa_flags = SA_SIGINFO,
	};

	if (!map)
		return NULL;
	map->generation = 1;
	bus_map = map;
	sigaction(SIGBUS, &action, NULL);
	return map;
}

void dma_map_destroy(struct dma_map *map)
{
	if (!map)
		return;
	dma_map_clear(map);
	bus_map = NULL;
	free(map);
}

static void backing_release(struct backing *b)
{
	munmap(b->base, b->size);
	memset(b, 0, sizeof(*b));
}

/* Unmaps a file without spans: the host gets memory back that the client gave up. */
static void backing_release_unused(struct backing *b)
{
	if (b && !b->spans)
		backing_release(b);
}

/*
 * A file may have grown since it was mapped. Its spans point into the mapping by
 * offset, so the mapping may move.
 */
static int backing_grow(struct dma_map *map, struct backing *b, uint64_t size)
{
	void *base = mremap(b->base, b->size, size, MREMAP_MAYMOVE);

	if (base == MAP_FAILED)
		return errno;
	b->base = base;
	b->size = size;
	map->generation++;
	return 0;
}

static struct backing *backing_slot(struct dma_map *map)
{
	unsigned int i;

	for (i = 0; i < MAX_BACKINGS; i++)
		if (!map->backings[i].base)
			return &map->backings[i];
	return NULL;
}

/*
 * Maps the file writable; read-only if that is not allowed and @write is false. The
 * client sees to it that there is huge memory for the file: none is reserved here.
 */
static int backing_map(struct backing *b, int fd, const struct stat *st,
		       bool write)
{
	const int flags = MAP_SHARED | MAP_NORESERVE;
	uint64_t size = (uint64_t)st->st_size;
	void *base;

	b->writable = true;
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (base == MAP_FAILED && !write &&
	    (errno == EACCES || errno == EPERM)) {
		b->writable = false;
		base = mmap(NULL, size, PROT_READ, flags, fd, 0);
	}
	if (base == MAP_FAILED)
		return errno;
	b->dev = st->st_dev;
	b->ino = st->st_ino;
	b->base = base;
	b->size = size;
	return 0;
}

/*
 * Finds or makes the mapping of a file that holds bytes up to @end. A file that is
 * mapped read-only gets a second mapping when a range of it is to be writable.
 */
static int backing_get(struct dma_map *map, int fd, uint64_t end, bool write,
		       struct backing **out)
{
	struct backing *b;
	struct stat st;
	unsigned int i;

	if (fstat(fd, &st))
		return errno;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    end > (uint64_t)st.st_size)
		return EINVAL;

	for (i = 0; i < MAX_BACKINGS; i++) {
		b = &map->backings[i];
		if (!b->base || b->dev != st.st_dev || b->ino != st.st_ino ||
		    (write && !b->writable))
			continue;
		*out = b;
		return end <= b->size ? 0 :
			backing_grow(map, b, (uint64_t)st.st_size);
	}
	b = backing_slot(map);
	if (!b)
		return ENOSPC;
	*out = b;
	return backing_map(b, fd, &st, write);
}

static bool continues(const struct span *low, const struct span *high)
{
	return low->last != UINT64_MAX && low->last + 1 == high->first &&
	       low->backing == high->backing && low->prot == high->prot &&
	       (!low->backing ||
		low->offset + (low->last - low->first) + 1 == high->offset);
}

static void span_drop(struct dma_map *map, struct span *span)
{
	tdelete(span, &map->root, span_compare);
	if (span->backing)
		span->backing->spans--;
	backing_release_unused(span->backing);
	map->spans--;
	free(span);
}

/* Extending a span in place, into free addresses, keeps the order of the tree. */
static bool span_merge(struct dma_map *map, const struct span *new)
{
	struct span *low = NULL, *high = NULL;

	if (new->first)
		low = span_find(map, new->first - 1, new->first - 1);
	if (new->last != UINT64_MAX)
		high = span_find(map, new->last + 1, new->last + 1);
	if (low && !continues(low, new))
		low = NULL;
	if (high && !continues(new, high))
		high = NULL;

	if (low) {
		uint64_t last = high ? high->last : new->last;

		if (high)
			span_drop(map, high);
		low->last = last;
	} else if (high) {
		high->first = new->first;
		high->offset = new->offset;
	}
	return low || high;
}

static int span_insert(struct dma_map *map, const struct span *new)
{
	struct span *span;

	if (map->spans >= MAX_SPANS)
		return ENOSPC;
	span = malloc(sizeof(*span));
	if (!span)
		return ENOMEM;
	*span = *new;
	if (!tsearch(span, &map->root, span_compare)) {
		free(span);
		return ENOMEM;
	}
	if (span->backing)
		span->backing->spans++;
	map->spans++;
	return 0;
}

int dma_map_add(struct dma_map *map, uint64_t addr, uint64_t len,
		unsigned int prot, int fd, uint64_t offset)
{
	struct span new = { .first = addr, .prot = prot, .offset = offset };
	uint64_t end;
	int err;

	if (!len || __builtin_add_overflow(addr, len - 1, &new.last) ||
	    __builtin_add_overflow(offset, len, &end))
		return EINVAL;
	/* Data that is aligned by DMA address has to be aligned in our memory, too. */
	if (fd >= 0 && (addr | len | offset) % (1u << PAGE_SHIFT))
		return EINVAL;
	if (span_find(map, new.first, new.last))
		return EEXIST;
	if (fd >= 0) {
		err = backing_get(map, fd, end, prot & DMA_PROT_WRITE,
				  &new.backing);
		if (err)
			return err;
	}
	if (span_merge(map, &new)) {
		map->generation++;
		return 0;
	}
	err = span_insert(map, &new);
	if (err)
		backing_release_unused(new.backing);
	else
		map->generation++;
	return err;
}

/* Cuts [first, last] out of @span, which overlaps this range. */
static int span_cut(struct dma_map *map, struct span *span, uint64_t first,
		    uint64_t last)
{
	struct span tail = *span;
	uint64_t old_last = span->last;
	int err;

	if (span->first >= first && span->last <= last) {
		span_drop(map, span);
		return 0;
	}
	if (span->first >= first) {
		span->offset += last + 1 - span->first;
		span->first = last + 1;
		return 0;
	}
	span->last = first - 1;
	if (old_last <= last)
		return 0;
	tail.first = last + 1;
	tail.offset += tail.first - span->first;
	err = span_insert(map, &tail);
	if (err)
		span->last = old_last;
	return err;
}

int dma_map_remove(struct dma_map *map, uint64_t addr, uint64_t len)
{
	struct span *span;
	uint64_t last;
	int err = 0;

	if (!len || __builtin_add_overflow(addr, len - 1, &last))
		return EINVAL;
	map->generation++;
	while (!err && (span = span_find(map, addr, last)))
		err = span_cut(map, span, addr, last);
	return err;
}

void dma_map_clear(struct dma_map *map)
{
	unsigned int i;

	tdestroy(map->root, free);
	map->root = NULL;
	map->spans = 0;
	map->generation++;
	for (i = 0; i < MAX_BACKINGS; i++)
		if (map->backings[i].base)
			backing_release(&map->backings[i]);
	/* A file that this client cut short is no reason to drop the next client. */
	bus_torn = 0;
}

void dma_map_set_enabled(struct dma_map *map, bool enabled)
{
	map->enabled = enabled;
	map->generation++;
}

static void fault(struct dma_map *map, uint64_t addr, uint64_t len, bool write,
		  const char *why)
{
	static struct log_site site;

	map->faults++;
	log_limited(&site, "DMA fault", write ? "write" : "read",
		    "%llu bytes at 0x%llx: %s", (unsigned long long)len,
		    (unsigned long long)addr, why);
}

static struct span *lookup(struct dma_map *map, uint64_t addr)
{
	struct cache_slot *slot =
		&map->cache[(addr >> PAGE_SHIFT) % CACHE_SLOTS];
	struct span *span = slot->span;

	if (slot->generation == map->generation && addr >= span->first &&
	    addr <= span->last)
		return span;
	span = span_find(map, addr, addr);
	if (span) {
		slot->generation = map->generation;
		slot->span = span;
	}
	return span;
}

void *dma_map_ptr(struct dma_map *map, uint64_t addr, uint64_t *len, bool write)
{
	struct span *span;

	if (!map->enabled) {
		fault(map, addr, *len, write, "bus mastering is off");
		return NULL;
	}
	span = lookup(map, addr);
	if (!span) {
		fault(map, addr, *len, write, "not mapped");
		return NULL;
	}
	if (!(span->prot & (write ? DMA_PROT_WRITE : DMA_PROT_READ))) {
		fault(map, addr, *len, write, "not mapped for this direction");
		return NULL;
	}
	if (!span->backing) {
		fault(map, addr, *len, write,
		      "mapped, but the client passed no file for it");
		return NULL;
	}
	if (*len > 1 && *len - 1 > span->last - addr)
		*len = span->last - addr + 1;
	map->accesses++;
	return span->backing->base + span->offset + (addr - span->first);
}

bool dma_read(struct dma_map *map, void *to, uint64_t addr, uint64_t len)
{
	uint8_t *out = to;

	while (len) {
		uint64_t part = len;
		const void *from = dma_map_ptr(map, addr, &part, false);

		if (!from)
			return false;
		memcpy(out, from, part);
		out += part;
		addr += part;
		len -= part;
	}
	return true;
}

bool dma_write(struct dma_map *map, uint64_t addr, const void *from,
	       uint64_t len)
{
	const uint8_t *in = from;

	while (len) {
		uint64_t part = len;
		void *to = dma_map_ptr(map, addr, &part, true);

		if (!to)
			return false;
		memcpy(to, in, part);
		in += part;
		addr += part;
		len -= part;
	}
	return true;
}

bool dma_map_sync(struct dma_map *map)
{
	bool good = true;
	unsigned int i;

	for (i = 0; i < MAX_BACKINGS; i++) {
		struct backing *b = &map->backings[i];

		if (b->base && b->writable && msync(b->base, b->size, MS_SYNC))
			good = false;
	}
	return good;
}

uint64_t dma_map_generation(const struct dma_map *map)
{
	return map->generation;
}

uint64_t dma_map_faults(const struct dma_map *map)
{
	return map->faults;
}

uint64_t dma_map_accesses(const struct dma_map *map)
{
	return map->accesses;
}

bool dma_map_torn(void)
{
	bool torn = bus_torn;

	bus_torn = 0;
	return torn;
}
