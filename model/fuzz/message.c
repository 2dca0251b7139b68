// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: messages of a hostile vfio-user client, through a real socket, to the
 * whole NIC: any message, cut anywhere, with any files, memory that is mapped,
 * unmapped, shared twice and taken away.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "input.h"
#include "moor/moor_hw.h"
#include "pci/vfio_message.h"
#include "pci/vfio_user.h"

#define MEM_SIZE	(64u << 10)
#define BASE		0x100000ull
#define MAX_CLIENTS	3u
#define MAX_NIC_RUNS	40u

/* Files that a client may pass. */
enum {
	FILE_MEMORY,
	FILE_OTHER,		/* memory that shrinks and grows */
	FILE_READ_ONLY,
	FILE_EVENT,
	FILE_SOCKET,
	FILE_NULL,
	NUM_FILES,
};

static struct vfio_user server;
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static char dir[32];
static int file[NUM_FILES];
static uint8_t *memory;
static int client = -1;
static unsigned int clients, nic_runs;

/* The message that is being made. */
static uint8_t out[4096];
static size_t out_len;
static int out_fd[16];
static unsigned int out_fds;

static int make_memory(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, MEM_SIZE))
		abort();
	return fd;
}

static void clean_up(void)
{
	unlink(address.sun_path);
	rmdir(dir);
}

static void start(void)
{
	struct endpoint_config cfg = { .nic.node_guid = 1 };
	char path[64], error[256];
	int pair[2];

	snprintf(dir, sizeof(dir), "/tmp/moor-fuzz-XXXXXX");
	if (!mkdtemp(dir) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		abort();
	snprintf(address.sun_path, sizeof(address.sun_path), "%.24s/socket",
		 dir);
	server.dma = dma_map_create();
	server.ep = endpoint_create(&cfg, server.dma);
	server.sock = vfio_socket_listen(address.sun_path, error,
					 sizeof(error));
	if (!server.ep || !server.sock || atexit(clean_up))
		abort();
	file[FILE_MEMORY] = make_memory("memory");
	file[FILE_OTHER] = make_memory("other");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file[FILE_MEMORY]);
	file[FILE_READ_ONLY] = open(path, O_RDONLY | O_CLOEXEC);
	file[FILE_EVENT] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	file[FILE_SOCKET] = pair[0];
	file[FILE_NULL] = open("/dev/null", O_RDWR | O_CLOEXEC);
	memory = mmap(NULL, MEM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
		      file[FILE_MEMORY], 0);
	if (memory == MAP_FAILED)
		abort();
}

static void disconnect(void)
{
	if (client >= 0)
		close(client);
	client = -1;
}

static void connect_client(void)
{
	disconnect();
	if (!clients)
		return;
	clients--;
	client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (client < 0 || connect(client, (struct sockaddr *)&address,
				  sizeof(address)))
		abort();
	vfio_user_accept(&server);
}

/* Replies, and the files in them. Their form is checked by test_protocol. */
static void read_replies(void)
{
	static uint8_t data[VFIO_USER_MAX_MESSAGE];
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int) * 16)];
	} control;
	struct iovec iov = { data, sizeof(data) };
	struct cmsghdr *cmsg;
	ssize_t n;

	for (;;) {
		struct msghdr msg = {
			.msg_iov = &iov, .msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};
		int fd;

		n = recvmsg(client, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n <= 0)
			return;
		cmsg = CMSG_FIRSTHDR(&msg);
		if (cmsg && cmsg->cmsg_type == SCM_RIGHTS) {
			memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
			close(fd);
		}
		if ((size_t)n >= sizeof(struct vfio_user_header) &&
		    !(((struct vfio_user_header *)data)->flags &
		      VFIO_USER_FLAG_ERROR))
			fuzz_reached++;
	}
}

static void run_nic(void)
{
	struct nic *nic = endpoint_nic(server.ep);
	unsigned int i;

	for (i = 0; i < 4 && nic_runs && nic_run(nic); i++)
		nic_runs--;
	nic_doze(nic);
	nic_wake(nic);
}

/* Sends the messages made so far, and lets the server read them. */
static void flush(void)
{
	struct iovec iov = { out, out_len };
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(out_fd))];
	} control;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (client < 0)
		connect_client();
	if (client < 0 || !out_len)
		return;
	if (out_fds) {
		memset(&control, 0, sizeof(control));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(out_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), out_fd,
		       out_fds * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(out_fds * sizeof(int));
	}
	sendmsg(client, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	out_len = 0;
	out_fds = 0;
	vfio_user_serve(&server);
	run_nic();
	read_replies();
	if (dma_map_torn())
		vfio_user_drop(&server, "it took mapped memory away");
	if (vfio_socket_fd(server.sock) < 0)
		disconnect();
}

static void add_files(struct input *in, unsigned int count)
{
	while (count-- && out_fds < 16) {
		uint8_t which = input_u8(in);

		out_fd[out_fds++] = file[which < 0xa0 ? FILE_MEMORY :
					 which % NUM_FILES];
	}
}

static uint64_t some_number(struct input *in)
{
	uint8_t how = input_u8(in);

	switch (how >> 6) {
	case 0:
		return (how & 15) * 4096ull;
	case 1:
		return BASE + (how & 15) * 4096ull;
	case 2:
		return how & 0x20 ? -(uint64_t)(how & 31) : 1ull << (how & 31);
	default:
		return how & 1 ? input_u64(in) : input_u8(in);
	}
}

/* An offset that has a meaning in the region. */
static uint64_t region_offset(struct input *in, unsigned int region)
{
	uint8_t how = input_u8(in);

	if (how == 0xff)
		return input_u64(in);
	switch (region) {
	case MOOR_BAR_REGS:
		if (how & 0x80)
			return MOOR_REG_CMD_BASE + (how & 7) * 4;
		return (how & 0x40 ? MOOR_MSIX_TABLE_OFFSET : 0) + how * 8;
	case MOOR_BAR_MR:
		return (how & 0x80 ? 0x8000 * 64u : 0) + (how & 0x7f) * 8u;
	case MOOR_BAR_DB:
		return (how & 0x80 ? NIC_KICK_OFFSET : 0) +
		       (how & 0x40 ? MOOR_PAGE_SIZE : 0) + (how & 0x3f) * 8u;
	case VFIO_PCI_CONFIG_REGION_INDEX:
		return how & 0x80 ? PCI_COMMAND : how;
	default:
		return how;
	}
}

/* The payload of a command as a client would make it. Return: its size. */
static size_t make_payload(struct input *in, unsigned int command, uint8_t *to)
{
	static const char caps[] = "{\"capabilities\":{\"write_multiple\": true}}";
	struct vfio_user_version version = { 0 };
	struct vfio_user_region_access access;
	struct vfio_user_multi_write multi;
	struct vfio_user_dma_map map;
	struct vfio_user_dma_unmap unmap;
	struct vfio_irq_set set;
	uint32_t words[8] = { 32, 0, 0, 0 };
	uint64_t count, i;

	switch (command) {
	case VFIO_USER_VERSION:
		version.minor = input_u8(in) & 1;
		memcpy(to, &version, sizeof(version));
		memcpy(to + sizeof(version), caps, sizeof(caps));
		return sizeof(version) + sizeof(caps);
	case VFIO_USER_DMA_MAP:
		map = (struct vfio_user_dma_map){
			.argsz = sizeof(map), .flags = 3,
			.offset = some_number(in), .addr = some_number(in),
			.size = some_number(in),
		};
		memcpy(to, &map, sizeof(map));
		add_files(in, 1);
		return sizeof(map);
	case VFIO_USER_DMA_UNMAP:
		unmap = (struct vfio_user_dma_unmap){
			.argsz = sizeof(unmap), .flags = input_u8(in) & 2,
			.addr = some_number(in), .size = some_number(in),
		};
		memcpy(to, &unmap, sizeof(unmap));
		return sizeof(unmap);
	case VFIO_USER_DEVICE_SET_IRQS:
		set = (struct vfio_irq_set){
			.argsz = sizeof(set), .flags = input_u8(in),
			.index = 2, .start = input_below(in, 20),
			.count = input_below(in, 10),
		};
		memcpy(to, &set, sizeof(set));
		if (set.flags & VFIO_IRQ_SET_DATA_EVENTFD)
			while (out_fds < set.count)
				out_fd[out_fds++] = file[FILE_EVENT];
		return sizeof(set) + input_bytes(in, to + sizeof(set), 4);
	case VFIO_USER_REGION_READ:
	case VFIO_USER_REGION_WRITE:
		access.region = input_below(in, 10);
		access.offset = region_offset(in, access.region);
		access.count = 1u << input_below(in, 5);
		memcpy(to, &access, sizeof(access));
		if (command == VFIO_USER_REGION_READ)
			return sizeof(access);
		count = some_number(in);
		memset(to + sizeof(access), 0, 16);
		memcpy(to + sizeof(access), &count, sizeof(count));
		return sizeof(access) + access.count;
	case VFIO_USER_REGION_WRITE_MULTI:
		count = input_below(in, 4);
		memcpy(to, &count, sizeof(count));
		for (i = 0; i < count; i++) {
			multi.access.region = input_below(in, 10);
			multi.access.offset = region_offset(in,
							    multi.access.region);
			multi.access.count = 1u << input_below(in, 5);
			input_bytes(in, multi.data, sizeof(multi.data));
			memcpy(to + sizeof(count) + i * sizeof(multi), &multi,
			       sizeof(multi));
		}
		return sizeof(count) + count * sizeof(multi);
	default:
		words[2] = input_below(in, 12);
		memcpy(to, words, sizeof(words));
		return sizeof(words);
	}
}

/* Adds a message, most of it right; sometimes sends only half of it at first. */
static void one_message(struct input *in)
{
	static const uint8_t commands[] = {
		VFIO_USER_VERSION, VFIO_USER_DMA_MAP, VFIO_USER_DMA_MAP,
		VFIO_USER_DMA_UNMAP, VFIO_USER_DEVICE_GET_INFO,
		VFIO_USER_DEVICE_GET_REGION_INFO, VFIO_USER_DEVICE_GET_IRQ_INFO,
		VFIO_USER_DEVICE_SET_IRQS, VFIO_USER_REGION_READ,
		VFIO_USER_REGION_WRITE, VFIO_USER_REGION_WRITE,
		VFIO_USER_REGION_WRITE, VFIO_USER_REGION_WRITE_MULTI,
		VFIO_USER_DEVICE_RESET, VFIO_USER_DIRTY_PAGES, 99,
	};
	uint8_t which = input_u8(in), odd = input_u8(in), *to = out + out_len;
	struct vfio_user_header header = {
		.id = which, .command = commands[which & 15],
	};
	size_t size;

	size = make_payload(in, header.command, to + sizeof(header));
	header.size = (uint32_t)(sizeof(header) + size);
	if (odd & 0x20)
		header.size = (uint32_t)some_number(in);
	if (odd & 0x10)
		header.flags = input_u8(in);
	memcpy(to, &header, sizeof(header));
	out_len += sizeof(header) + size;
	if (odd & 0x08) {
		size_t at = input_u8(in) % (sizeof(header) + size);

		to[at] ^= input_u8(in);
	}
	if (odd & 0x04)
		add_files(in, input_below(in, 12));
	if (odd & 0x02)
		out_len -= input_u8(in) % (sizeof(header) + size);
	/* Several messages for one read of the server. */
	if (!(odd & 0x01) || out_len > sizeof(out) / 2 || out_fds)
		flush();
}

/* The first messages of a client, and the set-up of the NIC. */
static void set_up(void)
{
	static const struct {
		uint32_t region, offset;
		uint64_t value;
	} writes[] = {
		{ VFIO_PCI_CONFIG_REGION_INDEX, PCI_COMMAND,
		  PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER },
		{ MOOR_BAR_REGS, MOOR_REG_CMD_BASE, BASE },
		{ MOOR_BAR_REGS, MOOR_REG_CPL_BASE, BASE + 0x1000 },
		{ MOOR_BAR_REGS, MOOR_REG_DOZE_ADDR, BASE + 0x2000 },
		{ MOOR_BAR_REGS, MOOR_REG_CMD_LOG_SIZE & ~7u, 4 },
		{ MOOR_BAR_REGS, MOOR_REG_STATUS,
		  MOOR_CONTROL_ENABLE << 32 },
	};
	static const uint8_t hello[] = { 0, 0, 0 };
	struct input in = { hello, hello + sizeof(hello) };
	unsigned int i;

	one_message(&in);
	if (dma_map_add(server.dma, BASE, MEM_SIZE,
			DMA_PROT_READ | DMA_PROT_WRITE, file[FILE_MEMORY], 0))
		return;
	for (i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		uint32_t count = writes[i].region == MOOR_BAR_REGS ? 4 : 2;
		uint64_t value = writes[i].value;

		if (value >> 32) {
			value >>= 32;
			endpoint_write(server.ep, MOOR_BAR_REGS,
				       writes[i].offset + 4, &value, 4);
		} else {
			endpoint_write(server.ep, writes[i].region,
				       writes[i].offset, &value, count);
		}
	}
}

static void write_memory(struct input *in)
{
	uint32_t at = input_u16(in) % (MEM_SIZE - 64);
	uint8_t size = input_u8(in) % 64;

	input_bytes(in, memory + at, size);
}

/* Cuts the file that only the server maps, or makes it grow. */
static void resize_file(struct input *in)
{
	if (ftruncate(file[FILE_OTHER], input_below(in, 32) * 4096))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	if (!server.ep)
		start();
	fuzz_clock_ns = 1000000000;
	clients = MAX_CLIENTS;
	nic_runs = MAX_NIC_RUNS;
	out_len = 0;
	out_fds = 0;
	memset(memory, 0, MEM_SIZE);
	connect_client();
	if (input_u8(&in) & 1)
		set_up();
	while (input_left(&in) && (clients || client >= 0)) {
		uint8_t which = input_u8(&in);

		if (which < 0xd0)
			one_message(&in);
		else if (which < 0xe8)
			write_memory(&in);
		else if (which < 0xf0)
			resize_file(&in);
		else if (which < 0xf8)
			flush();
		else
			connect_client();
	}
	flush();
	disconnect();
	if (vfio_socket_fd(server.sock) >= 0)
		vfio_user_drop(&server, "the input ended");
	if (ftruncate(file[FILE_OTHER], MEM_SIZE))
		abort();
	return 0;
}
