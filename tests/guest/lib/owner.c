// SPDX-License-Identifier: GPL-2.0
/* dma-bufs of tests/kernel/exporter.c. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "owner.h"
#include "tap.h"

static int owner;

/* Loads the module, which is built beside the test programs. */
void owner_open(void)
{
	char path[PATH_MAX] = "", file[2 * PATH_MAX];
	struct utsname system;
	int fd, i;

	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		tap_bail("who am I: %s", strerror(errno));
	for (i = 0; i < 2; i++)
		*strrchr(path, '/') = 0;
	uname(&system);
	snprintf(file, sizeof(file),
		 "%s/modules/%s/tree/tests/kernel/moor_exporter.ko", path,
		 system.release);
	fd = open(file, O_RDONLY);
	if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
		tap_bail("%s: %s", file, strerror(errno));
	close(fd);
	owner = open("/dev/moor_exporter", O_RDWR | O_CLOEXEC);
	if (owner < 0)
		tap_bail("/dev/moor_exporter: %s", strerror(errno));
}

/* Linux 7.2 has no option for that any more: an owner may move what is not pinned. */
void owner_expects(bool moves)
{
	int version = 0, patch_level = 0;
	struct utsname system;

	uname(&system);
	if (sscanf(system.release, "%d.%d", &version, &patch_level) != 2)
		tap_bail("which Linux is %s?", system.release);
	tap_ok(moves || version < 7 || (version == 7 && patch_level < 2),
	       "on Linux %s buffers %s", system.release, moves ? "move" : "are pinned");
}

/*
 * Unloads the module. The last reference to a buffer may be a worker's, which
 * may take time.
 */
void owner_close(void)
{
	time_t end = time(NULL) + 20;
	bool gone;

	close(owner);
	do {
		gone = !syscall(SYS_delete_module, "moor_exporter", O_NONBLOCK);
	} while (!gone && time(NULL) < end);
	tap_ok(gone, "all buffers have been given back to their owner");
}

int owner_does(unsigned int command, const struct buffer *b)
{
	return ioctl(owner, command, b->fd) ? errno : 0;
}

void owner_must(unsigned int command, const struct buffer *b)
{
	int err = owner_does(command, b);

	if (err)
		tap_bail("command %u of the owner: %s", _IOC_NR(command),
			 strerror(err));
}

struct buffer buffer_make(void)
{
	struct buffer b = { .fd = ioctl(owner, EXPORTER_MAKE) };

	b.at = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, b.fd,
		    0);
	if (b.at == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return b;
}

void buffer_reg(struct buffer *b, struct ibv_pd *pd)
{
	b->mr = ibv_reg_dmabuf_mr(pd, 0, BUFFER_SIZE, 0, b->fd, ALL_ACCESS);
	if (!b->mr)
		tap_bail("ibv_reg_dmabuf_mr: %s", strerror(errno));
}

void buffer_put(struct buffer *b)
{
	munmap(b->at, BUFFER_SIZE);
	close(b->fd);
}

bool buffer_is_marked(const struct buffer *b)
{
	size_t i;

	for (i = 0; i < BUFFER_SIZE; i++)
		if (b->at[i] != EXPORTER_MARK)
			return false;
	return true;
}
