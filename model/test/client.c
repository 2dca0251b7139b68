// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "moor/moor_hw.h"

#define REPLY_TIMEOUT_MS	20000

void client_init(struct client *c)
{
	unsigned int i;

	memset(c, 0, sizeof(*c));
	c->sock = -1;
	c->mem_fd = memfd_create("guest", MFD_CLOEXEC);
	if (c->mem_fd < 0 || ftruncate(c->mem_fd, CLIENT_SIZE))
		die("memfd: %s", strerror(errno));
	c->mem = mmap(NULL, CLIENT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
		      c->mem_fd, 0);
	if (c->mem == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	for (i = 0; i < NIC_NUM_VECTORS; i++) {
		c->irq[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (c->irq[i] < 0)
			die("eventfd: %s", strerror(errno));
	}
}

void client_connect(struct client *c, const struct model *model)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", model->socket);
	c->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->sock < 0 || connect(c->sock, (struct sockaddr *)&address,
				   sizeof(address)))
		die("connect: %s", strerror(errno));
}

uint16_t client_send(struct client *c, unsigned int command, uint32_t flags,
		     const void *payload, size_t size, const int *fds,
		     unsigned int num_fds)
{
	struct vfio_user_header header = {
		.id = ++c->id,
		.command = (uint16_t)command,
		.size = (uint32_t)(sizeof(header) + size),
		.flags = flags,
	};
	struct iovec iov[2] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = (void *)(uintptr_t)payload, .iov_len = size },
	};
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(64 * sizeof(int))];
	} control;
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (num_fds) {
		memset(&control, 0, sizeof(control));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(num_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, num_fds * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
	}
	/* If the server has dropped the connection, reading the reply fails. */
	if (sendmsg(c->sock, &msg, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
	    errno != ECONNRESET)
		die("sendmsg: %s", strerror(errno));
	return header.id;
}

static bool receive_bytes(struct client *c, void *data, size_t size, int *fd)
{
	struct pollfd pfd = { .fd = c->sock, .events = POLLIN };
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	uint8_t *to = data;

	while (size) {
		struct iovec iov = { .iov_base = to, .iov_len = size };
		struct msghdr msg = {
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};
		struct cmsghdr *cmsg;
		ssize_t n;

		if (poll(&pfd, 1, REPLY_TIMEOUT_MS) <= 0)
			die("the model does not answer");
		n = recvmsg(c->sock, &msg, MSG_CMSG_CLOEXEC);
		if (n <= 0)
			return false;
		cmsg = CMSG_FIRSTHDR(&msg);
		if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
			memcpy(fd, CMSG_DATA(cmsg), sizeof(*fd));
		to += n;
		size -= (size_t)n;
	}
	return true;
}

int client_receive(struct client *c, uint16_t id, struct client_reply *reply)
{
	struct vfio_user_header header;

	reply->fd = -1;
	if (!receive_bytes(c, &header, sizeof(header), &reply->fd))
		return CLIENT_CLOSED;
	reply->size = header.size - (uint32_t)sizeof(header);
	if (header.id != id || header.size < sizeof(header) ||
	    reply->size > sizeof(reply->data) ||
	    (header.flags & VFIO_USER_FLAG_TYPE) != VFIO_USER_TYPE_REPLY)
		die("reply %u of %u bytes, flags 0x%x, to message %u",
		    header.id, header.size, header.flags, id);
	if (!receive_bytes(c, reply->data, reply->size, &reply->fd))
		return CLIENT_CLOSED;
	return header.flags & VFIO_USER_FLAG_ERROR ? (int)header.error : 0;
}

int client_call(struct client *c, unsigned int command, const void *payload,
		size_t size, const int *fds, unsigned int num_fds,
		struct client_reply *reply)
{
	static struct client_reply ignored;
	struct client_reply *to = reply ? reply : &ignored;
	uint16_t id = client_send(c, command, 0, payload, size, fds, num_fds);
	int err = client_receive(c, id, to);

	if (!reply && to->fd >= 0)
		close(to->fd);
	return err;
}

int client_read(struct client *c, unsigned int region, uint64_t offset,
		void *data, uint32_t count)
{
	static struct client_reply reply;
	struct vfio_user_region_access access = {
		.offset = offset, .region = region, .count = count,
	};
	int err = client_call(c, VFIO_USER_REGION_READ, &access, sizeof(access),
			      NULL, 0, &reply);

	if (err)
		return err;
	if (reply.size != sizeof(access) + count)
		die("read of %u bytes answered with %u", count, reply.size);
	memcpy(data, reply.data + sizeof(access), count);
	return 0;
}

int client_write(struct client *c, unsigned int region, uint64_t offset,
		 const void *data, uint32_t count)
{
	static struct {
		struct vfio_user_region_access access;
		uint8_t data[65536];
	} out;

	out.access.offset = offset;
	out.access.region = region;
	out.access.count = count;
	memcpy(out.data, data, count);
	return client_call(c, VFIO_USER_REGION_WRITE, &out,
			   sizeof(out.access) + count, NULL, 0, NULL);
}

int client_map(struct client *c, uint64_t addr, uint64_t size, uint64_t offset,
	       uint32_t flags, int fd)
{
	struct vfio_user_dma_map map = {
		.argsz = sizeof(map), .flags = flags, .offset = offset,
		.addr = addr, .size = size,
	};

	return client_call(c, VFIO_USER_DMA_MAP, &map, sizeof(map), &fd, fd >= 0,
			   NULL);
}

int client_unmap(struct client *c, uint64_t addr, uint64_t size)
{
	struct vfio_user_dma_unmap unmap = {
		.argsz = sizeof(unmap), .addr = addr, .size = size,
	};

	return client_call(c, VFIO_USER_DMA_UNMAP, &unmap, sizeof(unmap), NULL, 0,
			   NULL);
}

static uint8_t *map_bar(struct client *c, unsigned int bar, size_t size)
{
	static struct client_reply reply;
	struct vfio_region_info in = { .argsz = 256, .index = bar };
	void *mem;

	if (client_call(c, VFIO_USER_DEVICE_GET_REGION_INFO, &in, sizeof(in),
			NULL, 0, &reply))
		die("no information about BAR%u", bar);
	if (reply.fd < 0)
		return NULL;
	mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, reply.fd, 0);
	close(reply.fd);
	if (mem == MAP_FAILED)
		die("mmap of BAR%u: %s", bar, strerror(errno));
	return mem;
}

static void set_eventfds(struct client *c)
{
	unsigned int at, count;

	for (at = 0; at < NIC_NUM_VECTORS; at += count) {
		struct vfio_irq_set set = {
			.argsz = sizeof(set),
			.flags = VFIO_IRQ_SET_DATA_EVENTFD |
				 VFIO_IRQ_SET_ACTION_TRIGGER,
			.index = VFIO_PCI_MSIX_IRQ_INDEX,
			.start = at,
		};

		count = NIC_NUM_VECTORS - at;
		if (count > VFIO_USER_MAX_FDS)
			count = VFIO_USER_MAX_FDS;
		set.count = count;
		if (client_call(c, VFIO_USER_DEVICE_SET_IRQS, &set, sizeof(set),
				c->irq + at, count, NULL))
			die("SET_IRQS");
	}
}

void client_setup(struct client *c)
{
	struct vfio_user_version version = { .major = 0, .minor = 0 };

	if (client_call(c, VFIO_USER_VERSION, &version, sizeof(version), NULL, 0,
			NULL))
		die("VERSION");
	if (client_map(c, CLIENT_BASE, CLIENT_SIZE, 0,
		       VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		       c->mem_fd))
		die("DMA_MAP");
	c->bar2 = map_bar(c, MOOR_BAR_MR, NIC_MR_BAR_SIZE);
	c->bar4 = map_bar(c, MOOR_BAR_DB, NIC_DB_BAR_SIZE);
	set_eventfds(c);
}

void client_disconnect(struct client *c)
{
	if (c->sock >= 0)
		close(c->sock);
	c->sock = -1;
	if (c->bar2)
		munmap(c->bar2, NIC_MR_BAR_SIZE);
	if (c->bar4)
		munmap(c->bar4, NIC_DB_BAR_SIZE);
	c->bar2 = NULL;
	c->bar4 = NULL;
}

void client_destroy(struct client *c)
{
	unsigned int i;

	client_disconnect(c);
	munmap(c->mem, CLIENT_SIZE);
	close(c->mem_fd);
	for (i = 0; i < NIC_NUM_VECTORS; i++)
		close(c->irq[i]);
}

static void must_read(struct client *c, unsigned int region, uint32_t offset,
		      void *data, uint32_t count)
{
	if (client_read(c, region, offset, data, count))
		die("read of region %u + 0x%x", region, offset);
}

static void must_write(struct client *c, unsigned int region, uint32_t offset,
		       const void *data, uint32_t count)
{
	if (client_write(c, region, offset, data, count))
		die("write of region %u + 0x%x", region, offset);
}

uint32_t reg_read(struct client *c, uint32_t offset)
{
	uint32_t value;

	must_read(c, MOOR_BAR_REGS, offset, &value, sizeof(value));
	return value;
}

uint64_t reg_read64(struct client *c, uint32_t offset)
{
	uint64_t value;

	must_read(c, MOOR_BAR_REGS, offset, &value, sizeof(value));
	return value;
}

void reg_write(struct client *c, uint32_t offset, uint32_t value)
{
	must_write(c, MOOR_BAR_REGS, offset, &value, sizeof(value));
}

void reg_write64(struct client *c, uint32_t offset, uint64_t value)
{
	must_write(c, MOOR_BAR_REGS, offset, &value, sizeof(value));
}

uint16_t config_read16(struct client *c, uint32_t offset)
{
	uint16_t value;

	must_read(c, VFIO_PCI_CONFIG_REGION_INDEX, offset, &value, sizeof(value));
	return value;
}

uint32_t config_read32(struct client *c, uint32_t offset)
{
	uint32_t value;

	must_read(c, VFIO_PCI_CONFIG_REGION_INDEX, offset, &value, sizeof(value));
	return value;
}

void config_write16(struct client *c, uint32_t offset, uint16_t value)
{
	must_write(c, VFIO_PCI_CONFIG_REGION_INDEX, offset, &value, sizeof(value));
}

void config_write32(struct client *c, uint32_t offset, uint32_t value)
{
	must_write(c, VFIO_PCI_CONFIG_REGION_INDEX, offset, &value, sizeof(value));
}

void *guest_alloc(struct client *c, size_t size, uint64_t *dma)
{
	uint8_t *mem = c->mem + c->used;

	size = (size + MOOR_PAGE_SIZE - 1) & ~(size_t)(MOOR_PAGE_SIZE - 1);
	if (size > CLIENT_SIZE - c->used)
		die("the guest is out of memory");
	*dma = CLIENT_BASE + c->used;
	c->used += size;
	memset(mem, 0, size);
	return mem;
}
