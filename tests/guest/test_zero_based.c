// SPDX-License-Identifier: GPL-2.0
/*
 * The addresses of a registration: from 0 on (ZERO_BASED, at any byte of a page), at
 * any address congruent with the buffer's (ibv_reg_mr_iova), or the process's own. With
 * small and huge pages, private and shared; at both ends of each MR, by rkey and by
 * lkey.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tap.h"
#include "window.h"

#define PAGE		4096u
#define HUGE		(2u << 20)
#define SMALL		(8 * PAGE)	/* of a buffer of small pages */
#define MARGIN		64u		/* bytes around an access that are checked */
#define SHORT		600u		/* length of an access at an end */

static struct pair pair;

/* A buffer, with the mapping to register and one to check it by. */
struct memory {
	const char *name;
	uint8_t *used, *seen;
	size_t size;
};

/* ---- one registration ---- */

struct subject {
	const struct memory *memory;
	struct ibv_mr *mr;
	size_t offset;		/* in the memory */
	uint32_t length;
	uint64_t base;		/* the address of its first byte */
};

static uint32_t min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Side a accesses the MR by rkey; its own end is the pair's buffer. */
static enum ibv_wc_status from_afar(const struct subject *s,
				    enum ibv_wr_opcode opcode, uint64_t at,
				    uint32_t length)
{
	struct outcome o = ask(&pair, opcode, s->mr->rkey, s->base + at,
			       length);

	if (o.posted)
		tap_bail("posting: %s", strerror(o.posted));
	if (o.status)
		revive(&pair);
	return o.status;
}

static bool is_refused(const struct subject *s, enum ibv_wr_opcode opcode,
		       uint64_t at, uint32_t length)
{
	return ended_with(from_afar(s, opcode, at, length),
			  IBV_WC_REM_ACCESS_ERR);
}

/* Side b uses the MR by lkey; the other end is a's buffer. */
static enum ibv_wc_status locally(const struct subject *s,
				  enum ibv_wr_opcode opcode, uint64_t at,
				  uint32_t length)
{
	struct request request = {
		.opcode = opcode, .wr_id = 2,
		.local = (uint8_t *)(uintptr_t)(s->base + at),
		.length = length, .lkey = s->mr->lkey,
		.remote = (uintptr_t)pair.a.buf, .rkey = pair.a.mr->rkey,
	};
	struct outcome o = finish(&pair.b, post(&pair.b, &request));

	if (o.posted)
		tap_bail("posting: %s", strerror(o.posted));
	if (o.status)
		revive(&pair);
	return o.status;
}

/* Is everything around an access of @length bytes at byte @at unchanged? */
static bool margins(const struct subject *s, uint32_t at, uint32_t length)
{
	const uint8_t *from = s->memory->seen + s->offset + at;
	uint32_t i;

	for (i = 1; i <= MARGIN; i++) {
		if (s->offset + at >= i && from[-(int)i] != 0xee)
			return false;
		if (s->offset + at + length + i <= s->memory->size &&
		    from[length + i - 1] != 0xee)
			return false;
	}
	return true;
}

static void clear(const struct subject *s, uint32_t at, uint32_t length)
{
	uint8_t *first = s->memory->seen + s->offset + at;
	uint32_t before = min(MARGIN, s->offset + at);
	size_t behind = s->memory->size - s->offset - at - length;

	memset(first - before, 0xee,
	       before + length + (behind < MARGIN ? behind : MARGIN));
}

/* Reads and writes @length bytes at byte @at, by rkey and by lkey. */
static bool moves(const struct subject *s, uint32_t at, uint32_t length)
{
	uint8_t *here = s->memory->seen + s->offset + at;
	bool good;

	clear(s, at, length);
	fill(pair.a.buf, length, 3);
	good = !from_afar(s, IBV_WR_RDMA_WRITE, at, length) &&
	       is_filled(here, length, 3) && margins(s, at, length);
	memset(pair.a.buf, 0, length);
	good = good && !from_afar(s, IBV_WR_RDMA_READ, at, length) &&
	       is_filled(pair.a.buf, length, 3);

	clear(s, at, length);
	fill(pair.a.buf, length, 4);
	good = good && !locally(s, IBV_WR_RDMA_READ, at, length) &&
	       is_filled(here, length, 4) && margins(s, at, length);
	memset(pair.a.buf, 0, length);
	return good && !locally(s, IBV_WR_RDMA_WRITE, at, length) &&
	       is_filled(pair.a.buf, length, 4);
}

/*
 * Accesses all of the MR, or both ends of one that is longer than the pair's buffers.
 */
static bool all_moves(const struct subject *s)
{
	uint32_t room = pair.config.buffer_size;

	if (s->length <= room)
		return moves(s, 0, s->length) && moves(s, s->length - 1, 1);
	return moves(s, 0, SHORT) && moves(s, s->length - SHORT, SHORT) &&
	       moves(s, s->length / 2 - room / 2 + 1, room);
}

/* Accesses one byte beyond either end, which must fail without effect. */
static bool ends_hold(const struct subject *s)
{
	uint32_t length = min(SHORT, s->length), last = s->length - length;
	const enum ibv_wc_status local = IBV_WC_LOC_PROT_ERR;
	bool good;

	clear(s, 0, length);
	clear(s, last, length);
	good = is_refused(s, IBV_WR_RDMA_WRITE, -1ull, length) &&
	       is_refused(s, IBV_WR_RDMA_WRITE, last + 1, length) &&
	       is_refused(s, IBV_WR_RDMA_READ, -1ull, 1) &&
	       is_refused(s, IBV_WR_RDMA_READ, s->length, 1) &&
	       locally(s, IBV_WR_RDMA_READ, -1ull, length) == local &&
	       locally(s, IBV_WR_RDMA_READ, last + 1, length) == local &&
	       locally(s, IBV_WR_RDMA_WRITE, s->length, 1) == local;
	return good && margins(s, 0, 0) && margins(s, s->length, 0) &&
	       s->memory->seen[s->offset] == 0xee &&
	       s->memory->seen[s->offset + s->length - 1] == 0xee;
}

/* ---- the kinds of addresses ---- */

enum naming { OWN, ZERO_BASED, IOVA_LOW, IOVA_ZERO, IOVA_HIGH, NUM_NAMINGS };

static const char *const namings[] = {
	[OWN] = "own addresses", [ZERO_BASED] = "from 0",
	[IOVA_LOW] = "iova of the first pages", [IOVA_ZERO] = "iova 0",
	[IOVA_HIGH] = "iova of the last pages",
};

/* The iova of an MR; congruent with the address, unless it is 0, which ZERO_BASED is, too. */
static uint64_t iova_of(enum naming naming, const struct subject *s)
{
	uint64_t in_page = s->offset % PAGE;

	switch (naming) {
	case IOVA_LOW:
		return 3 * PAGE + in_page;
	case IOVA_HIGH:
		return in_page - (in_page + s->length + PAGE - 1) / PAGE * PAGE;
	case OWN:
		return (uintptr_t)s->memory->used + s->offset;
	default:
		return 0;
	}
}

/* Registers the MR. Return: whether that was allowed. */
static bool enter(struct subject *s, enum naming naming)
{
	uint8_t *addr = s->memory->used + s->offset;

	s->base = iova_of(naming, s);
	errno = 0;
	if (naming == ZERO_BASED)
		s->mr = ibv_reg_mr(pair.pd, addr, s->length,
				   ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	else
		s->mr = ibv_reg_mr_iova(pair.pd, addr, s->length, s->base,
					ALL_ACCESS);
	return s->mr;
}

static unsigned int tried, bad;

static void try(const struct memory *memory, size_t offset, uint32_t length,
		enum naming naming, bool ends)
{
	struct subject s = {
		.memory = memory, .offset = offset, .length = length,
	};
	bool good;

	if (offset + length > memory->size)
		return;
	good = enter(&s, naming) && all_moves(&s) && (!ends || ends_hold(&s));
	if (s.mr && ibv_dereg_mr(s.mr))
		tap_bail("ibv_dereg_mr");
	tried++;
	if (good)
		return;
	bad++;
	tap_diag("%s: %s: %u bytes at %zu (errno %d)", memory->name,
		 namings[naming], length, offset, errno);
}

static void test_memory(const struct memory *memory)
{
	static const size_t offsets[] = {
		0, 1, 63, 64, 511, 2047, 4033, 4088, 4095,
	};
	static const uint32_t lengths[] = {
		1, 2, 64, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE + 5,
	};
	enum naming naming;
	unsigned int i, j;

	tried = 0;
	bad = 0;
	for (naming = 0; naming < NUM_NAMINGS; naming++)
		for (i = 0; i < 9; i++)
			for (j = 0; j < 7; j++)
				try(memory, MARGIN * PAGE * (memory->size > SMALL) +
				    offsets[i], lengths[j], naming,
				    (7 * i + j) % 21 == naming);
	tap_ok(!bad, "%s: %u registrations, %u not as they should be",
	       memory->name, tried, bad);
}

/*
 * Across huge pages, from odd bytes to odd bytes. Few accesses: with a vIOMMU each
 * small page of them is a message to the NIC.
 */
static void test_huge(const struct memory *memory)
{
	static const size_t offsets[] = { 1, 4097, HUGE - 63 };
	unsigned int i;

	tried = 0;
	bad = 0;
	for (i = 0; i < 3; i++) {
		try(memory, offsets[i], HUGE, ZERO_BASED, true);
		try(memory, offsets[i], (uint32_t)(memory->size - offsets[i]),
		    IOVA_HIGH, false);
	}
	tap_ok(!bad, "%s: %u large registrations, %u not as they should be",
	       memory->name, tried, bad);
}

/* Does the MR's table have huge leaves? */
static bool has_huge_leaves(const struct memory *memory)
{
	struct ibv_mr *mr = must_reg(pair.pd, memory->used, memory->size, 0);
	int levels = -1, shift = 0;
	char command[96];
	FILE *pipe;

	snprintf(command, sizeof(command),
		 "awk '$1 == \"0x%08x\" { print $10, $11 }' /sys/kernel/debug/moor/*/mr",
		 mr->lkey);
	pipe = popen(command, "r");
	if (!pipe || fscanf(pipe, "%d %d", &levels, &shift) != 2)
		tap_diag("no such MR in debugfs");
	if (pipe)
		pclose(pipe);
	ibv_dereg_mr(mr);
	tap_diag("levels %d, page shift %d", levels, shift);
	return levels == 0 || shift >= 21;
}

/* The rule of ibv_reg_mr_iova(): congruent modulo the page size, no wrap-around. */
static void test_rule(const struct memory *memory)
{
	unsigned int offset, accepted = 0, refused = 0;
	struct ibv_mr *mr;

	for (offset = 0; offset < PAGE; offset += 105) {
		uint64_t iova = 0x7fff00000000 + 105;

		mr = ibv_reg_mr_iova(pair.pd, memory->used + offset, 10, iova,
				     ALL_ACCESS);
		if (mr)
			ibv_dereg_mr(mr);
		accepted += mr && offset == 105;
		refused += !mr && errno == EINVAL && offset != 105;
	}
	tap_ok(accepted == 1 && refused == PAGE / 105,
	       "iova: congruent or EINVAL (%u accepted, %u refused)", accepted,
	       refused);
	mr = ibv_reg_mr_iova(pair.pd, memory->used, PAGE, -PAGE, ALL_ACCESS);
	tap_ok(mr, "iova: up to 2^64");
	if (mr)
		ibv_dereg_mr(mr);
	tap_ok(!ibv_reg_mr_iova(pair.pd, memory->used, PAGE + 1, -(uint64_t)PAGE,
				ALL_ACCESS) && errno == EINVAL,
	       "iova: not a byte beyond: EINVAL");
	/* ZERO_BASED overrides a given iova, which may be any. */
	for (offset = 7; offset < 10; offset++) {
		mr = ibv_reg_mr_iova(pair.pd, memory->used + 7, 10,
				     5 * PAGE + offset,
				     ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
		tap_ok(mr && !ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, 0,
				  10).status,
		       "iova and ZERO_BASED: from 0 (%u)", offset);
		if (mr)
			ibv_dereg_mr(mr);
	}
}

static struct memory map(const char *name, size_t size, int flags, int fd)
{
	struct memory memory = { .name = name, .size = size };

	memory.used = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
	memory.seen = memory.used;
	if (fd >= 0)
		memory.seen = mmap(NULL, size, PROT_READ | PROT_WRITE, flags,
				   fd, 0);
	if (memory.used == MAP_FAILED || memory.seen == MAP_FAILED)
		memory.used = NULL;
	return memory;
}

/* Sets the kernel's number of huge pages; returns what it was before. */
static int set_huge_pages(int number)
{
	FILE *file = fopen("/proc/sys/vm/nr_hugepages", "r+");
	int before = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%d", &before) == 1) {
		rewind(file);
		fprintf(file, "%d", number);
	}
	fclose(file);
	return before;
}

static void test_huge_pages(void)
{
	int before = set_huge_pages(4);
	struct memory huge = map("huge pages", 3 * (size_t)HUGE, MAP_PRIVATE |
				 MAP_ANONYMOUS | MAP_HUGETLB, -1);

	if (huge.used) {
		tap_ok(has_huge_leaves(&huge), "huge pages: one block, or leaves of 2 MiB");
		test_memory(&huge);
		test_huge(&huge);
		munmap(huge.used, huge.size);
	} else {
		tap_skip("no huge pages to be had", "huge pages");
	}
	set_huge_pages(before);
}

int main(int argc, char **argv)
{
	int fd = memfd_create("moor", 0);
	struct ibv_device_attr attr;
	struct memory private, shared;

	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr),
		  &pair_defaults);
	pair_connect(&pair);
	private = map("private memory", SMALL, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (fd < 0 || ftruncate(fd, SMALL) || !private.used)
		tap_bail("no memory: %s", strerror(errno));
	shared = map("a memfd, shared", SMALL, MAP_SHARED, fd);
	if (!shared.used)
		tap_bail("no shared memory: %s", strerror(errno));
	test_rule(&private);
	test_memory(&private);
	test_memory(&shared);
	test_huge_pages();
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
