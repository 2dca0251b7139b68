// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/userfaultfd.h>

#include "paged.h"
#include "tap.h"

#define PATIENCE_MS	60000

const char *const memory_kinds[MEMORY_KINDS] = {
	[UNTOUCHED] = "untouched", [TOUCHED] = "touched",
	[READ_BEFORE] = "read before", [FILE_SHARED] = "shared file",
	[FILE_PRIVATE] = "private file", [FORKED] = "forked",
	[READ_ONLY] = "read-only",
};

/* One page request is answered with pages of one such branch. */
#define BRANCH		(2ul << 20)

static bool crosses_branch(const uint8_t *at, size_t size)
{
	return (uintptr_t)at % BRANCH + size > BRANCH;
}

/*
 * Maps memory. If it is no longer than a branch it lies in one, so that page requests
 * can be counted.
 */
static uint8_t *map(size_t size, int prot, int flags, int fd)
{
	uint8_t *at = mmap(NULL, size, prot, flags, fd, 0), *other;

	if (at == MAP_FAILED)
		tap_bail("mmap of %zu bytes: %s", size, strerror(errno));
	if (size > BRANCH || !crosses_branch(at, size))
		return at;
	other = map(size, prot, flags, fd);
	munmap(at, size);
	return other;
}

uint8_t *map_pages(size_t size)
{
	return map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* Maps a file whose contents are written through another mapping, @m->file. */
static void make_file(struct memory *m)
{
	int flags = m->kind == FILE_SHARED ? MAP_SHARED : MAP_PRIVATE;
	int prot = m->kind == READ_ONLY ? PROT_READ : PROT_READ | PROT_WRITE;
	int fd = memfd_create("paged", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, m->size))
		tap_bail("memfd: %s", strerror(errno));
	m->file = map(m->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	fill(m->file, m->size, m->seed);
	m->at = map(m->size, prot, flags, fd);
	close(fd);
}

/* Forks a child that, when it is told to, checks its copy of the memory and exits. */
static void make_child(struct memory *m)
{
	int ask[2];
	char c;

	if (pipe2(ask, O_CLOEXEC))
		tap_bail("pipe: %s", strerror(errno));
	fflush(stdout);
	m->child = fork();
	if (m->child < 0)
		tap_bail("fork: %s", strerror(errno));
	if (!m->child) {
		_exit(read(ask[0], &c, 1) != 1 ||
		      !is_filled(m->at, m->size, m->seed));
	}
	close(ask[0]);
	m->ask = ask[1];
}

void memory_make(struct memory *m, enum memory_kind kind, size_t size)
{
	static uint8_t seed;
	size_t i;

	*m = (struct memory){ .kind = kind, .size = size, .seed = ++seed };
	if (kind == FILE_SHARED || kind == FILE_PRIVATE || kind == READ_ONLY) {
		make_file(m);
		return;
	}
	m->at = map_pages(size);
	if (kind == READ_BEFORE)
		for (i = 0; i < size; i += PAGE)
			(void)*(volatile uint8_t *)(m->at + i);
	if (kind == TOUCHED || kind == FORKED)
		fill(m->at, size, m->seed);
	if (kind == FORKED)
		make_child(m);
}

void memory_first(const struct memory *m, uint8_t *copy)
{
	if (m->kind == UNTOUCHED || m->kind == READ_BEFORE)
		memset(copy, 0, m->size);
	else
		fill(copy, m->size, m->seed);
}

bool memory_end(struct memory *m)
{
	bool right = true;
	int status;

	if (m->file && m->kind == FILE_SHARED)
		right = !memcmp(m->file, m->at, m->size);
	else if (m->file)
		right = is_filled(m->file, m->size, m->seed);
	if (m->child) {
		right = write(m->ask, "", 1) == 1 &&
			waitpid(m->child, &status, 0) == m->child && !status;
		close(m->ask);
	}
	munmap(m->at, m->size);
	if (m->file)
		munmap(m->file, m->size);
	return right;
}

/* ---- a page server ---- */

int server_open(void *at, size_t size)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)at, .len = size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && errno == ENOSYS)
		return -1;
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) ||
	    ioctl(fd, UFFDIO_REGISTER, &reg))
		tap_bail("userfaultfd: %s", strerror(errno));
	return fd;
}

uint8_t *server_wait(int server)
{
	struct pollfd fd = { .fd = server, .events = POLLIN };
	struct uffd_msg msg;

	if (poll(&fd, 1, PATIENCE_MS) != 1 ||
	    read(server, &msg, sizeof(msg)) != sizeof(msg) ||
	    msg.event != UFFD_EVENT_PAGEFAULT)
		return NULL;
	return (void *)(uintptr_t)(msg.arg.pagefault.address & -(uint64_t)PAGE);
}

bool server_give(int server, void *page, const void *contents)
{
	struct uffdio_copy copy = {
		.dst = (uintptr_t)page, .src = (uintptr_t)contents, .len = PAGE,
	};

	if (!ioctl(server, UFFDIO_COPY, &copy))
		return true;
	if (errno != EEXIST)
		tap_bail("UFFDIO_COPY: %s", strerror(errno));
	return false;
}

/* ---- what was counted ---- */

struct paged paged_counts(void)
{
	FILE *rdma = popen("rdma statistic show mr", "r");
	struct paged sum = {};
	unsigned long long value;
	char word[64];

	/* "link moor0/1 mrn 5 page_faults 7 page_faults_handled 7 ..." */
	while (rdma && fscanf(rdma, "%63s", word) == 1) {
		unsigned long long *count =
			!strcmp(word, "page_faults") ? &sum.faults :
			!strcmp(word, "page_faults_handled") ? &sum.handled :
			!strcmp(word, "page_invalidations") ? &sum.invalidations :
			!strcmp(word, "page_prefetch") ? &sum.prefetched : NULL;

		if (count && fscanf(rdma, "%llu", &value) == 1)
			*count += value;
	}
	if (!rdma || pclose(rdma))
		tap_bail("rdma statistic show mr");
	return sum;
}
