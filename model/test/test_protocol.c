// SPDX-License-Identifier: GPL-2.0
/* The vfio-user protocol: every message, right and wrong, in any order. */
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "moor/moor_hw.h"

#define READ_WRITE	(VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE)
#define PAGE		MOOR_PAGE_SIZE
#define TEAR_SEEN_MS	10000

static struct client_reply reply;

static int send_version(struct client *c, uint16_t major, const char *caps)
{
	struct {
		struct vfio_user_version version;
		char caps[128];
	} out = { .version = { .major = major } };

	snprintf(out.caps, sizeof(out.caps), "%s", caps);
	return client_call(c, VFIO_USER_VERSION, &out,
			   sizeof(out.version) + strlen(caps) + 1, NULL, 0,
			   &reply);
}

static void test_version(struct model *model, struct client *c)
{
	const struct vfio_user_version *version = (const void *)reply.data;
	const char *caps = (const char *)(reply.data + sizeof(*version));
	uint32_t zero = 0;

	client_connect(c, model);
	check(client_call(c, VFIO_USER_DEVICE_RESET, NULL, 0, NULL, 0, NULL) ==
	      EINVAL, "a command before VERSION: EINVAL");
	check(send_version(c, 1, "{}") == EINVAL, "another major version: EINVAL");
	check(client_call(c, VFIO_USER_VERSION, &zero, 2, NULL, 0, NULL) == EINVAL,
	      "a VERSION cut short: EINVAL");
	check(client_call(c, VFIO_USER_VERSION, "\0\0\0\0{}", 6, NULL, 0, NULL) ==
	      EINVAL, "capabilities without a NUL: EINVAL");
	check(send_version(c, 0, "{\"capabilities\":{\"write_multiple\": true}}") ==
	      0 && version->major == 0 && version->minor == 0,
	      "version 0.0 is agreed on");
	check(reply.data[reply.size - 1] == '\0' &&
	      strstr(caps, "\"max_msg_fds\":8") &&
	      strstr(caps, "\"write_multiple\":true"),
	      "capabilities answer those offered: %s", caps);
	check(send_version(c, 0, "{}") == EINVAL, "a second VERSION: EINVAL");
	client_disconnect(c);

	client_connect(c, model);
	check(send_version(c, 0, "{}") == 0 && !strstr(caps, "write_multiple"),
	      "what is not offered is not answered");
	client_disconnect(c);
}

static int region_info(struct client *c, uint32_t index, uint32_t argsz)
{
	struct vfio_region_info in = { .argsz = argsz, .index = index };

	if (reply.fd >= 0)
		close(reply.fd);
	return client_call(c, VFIO_USER_DEVICE_GET_REGION_INFO, &in, sizeof(in),
			   NULL, 0, &reply);
}

static void test_regions(struct client *c)
{
	const struct vfio_region_info *info = (const void *)reply.data;
	const struct vfio_region_info_cap_sparse_mmap *sparse =
		(const void *)(reply.data + sizeof(*info));

	check(!region_info(c, MOOR_BAR_REGS, 256) && info->size == 0x10000 &&
	      info->flags == (VFIO_REGION_INFO_FLAG_READ |
			      VFIO_REGION_INFO_FLAG_WRITE) && reply.fd < 0,
	      "BAR0: 64 KiB, trapped");
	check(!region_info(c, MOOR_BAR_MR, 256) && info->size == NIC_MR_BAR_SIZE &&
	      info->flags & VFIO_REGION_INFO_FLAG_MMAP && reply.fd >= 0 &&
	      sparse->nr_areas == 1 && sparse->areas[0].size == NIC_MR_BAR_SIZE,
	      "BAR2: 4 MiB, to be mapped");
	check(ftruncate(reply.fd, 0) && errno == EPERM,
	      "BAR2: the client cannot cut its memory short");
	check(!region_info(c, MOOR_BAR_DB, 256) && info->size == NIC_DB_BAR_SIZE &&
	      info->flags & VFIO_REGION_INFO_FLAG_CAPS && reply.fd >= 0 &&
	      info->cap_offset == sizeof(*info) && sparse->nr_areas == 2 &&
	      sparse->areas[0].offset == 0 &&
	      sparse->areas[0].size == NIC_KICK_OFFSET &&
	      sparse->areas[1].offset == NIC_DM_OFFSET &&
	      sparse->areas[1].size == NIC_DM_SIZE,
	      "BAR4: doorbells and memory to be mapped, kick pages trapped");
	check(!region_info(c, MOOR_BAR_DB, sizeof(*info)) &&
	      reply.size == sizeof(*info) && info->argsz > sizeof(*info) &&
	      !(info->flags & VFIO_REGION_INFO_FLAG_CAPS),
	      "too little room: told how much is needed");
	check(!region_info(c, VFIO_PCI_CONFIG_REGION_INDEX, 256) &&
	      info->size == 4096, "configuration space: 4 KiB");
	check(!region_info(c, VFIO_PCI_ROM_REGION_INDEX, 256) && !info->size,
	      "no option ROM");
	check(region_info(c, VFIO_PCI_NUM_REGIONS, 256) == EINVAL,
	      "a region that does not exist: EINVAL");
	check(region_info(c, 0, 8) == EINVAL, "argsz too small: EINVAL");
}

static uint32_t irq_count(struct client *c, uint32_t index)
{
	struct vfio_irq_info in = { .argsz = sizeof(in), .index = index };

	if (client_call(c, VFIO_USER_DEVICE_GET_IRQ_INFO, &in, sizeof(in), NULL,
			0, &reply))
		return UINT32_MAX;
	memcpy(&in, reply.data, sizeof(in));
	return in.count;
}

static void test_device_info(struct client *c)
{
	uint32_t in[4] = { sizeof(in) };
	const uint32_t *out = (const void *)reply.data;

	check(!client_call(c, VFIO_USER_DEVICE_GET_INFO, in, sizeof(in), NULL, 0,
			   &reply) &&
	      out[1] == (VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET) &&
	      out[2] == VFIO_PCI_NUM_REGIONS && out[3] == VFIO_PCI_NUM_IRQS,
	      "a PCI device with reset");
	check(irq_count(c, VFIO_PCI_MSIX_IRQ_INDEX) == NIC_NUM_VECTORS &&
	      irq_count(c, VFIO_PCI_INTX_IRQ_INDEX) == 0 &&
	      irq_count(c, VFIO_PCI_MSI_IRQ_INDEX) == 0,
	      "%u MSI-X vectors, no other interrupt", NIC_NUM_VECTORS);
	check(irq_count(c, VFIO_PCI_NUM_IRQS) == UINT32_MAX,
	      "an interrupt type that does not exist: refused");
}

static int set_irqs(struct client *c, uint32_t flags, uint32_t start,
		    uint32_t count, const int *fds, unsigned int num_fds)
{
	struct vfio_irq_set set = {
		.argsz = sizeof(set),
		.flags = flags | VFIO_IRQ_SET_ACTION_TRIGGER,
		.index = VFIO_PCI_MSIX_IRQ_INDEX,
		.start = start,
		.count = count,
	};

	return client_call(c, VFIO_USER_DEVICE_SET_IRQS, &set, sizeof(set), fds,
			   num_fds, NULL);
}

static uint64_t raised(int fd)
{
	uint64_t count = 0;

	return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static void test_interrupts(struct client *c)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	uint64_t pending;

	check(!set_irqs(c, VFIO_IRQ_SET_DATA_NONE, 3, 2, NULL, 0) &&
	      raised(c->irq[3]) == 1 && raised(c->irq[4]) == 1 &&
	      !raised(c->irq[2]) && !raised(c->irq[5]),
	      "vectors 3 and 4 triggered, no other");
	check(!set_irqs(c, VFIO_IRQ_SET_DATA_EVENTFD, 7, 1, NULL, 0) &&
	      !set_irqs(c, VFIO_IRQ_SET_DATA_NONE, 7, 1, NULL, 0) &&
	      !raised(c->irq[7]), "without an eventfd nothing is raised");
	pending = reg_read64(c, MOOR_MSIX_PBA_OFFSET);
	check(pending == 1u << 7, "it is pending: 0x%llx",
	      (unsigned long long)pending);
	check(!set_irqs(c, VFIO_IRQ_SET_DATA_EVENTFD, 7, 1, &c->irq[7], 1) &&
	      raised(c->irq[7]) == 1 && !reg_read64(c, MOOR_MSIX_PBA_OFFSET),
	      "with an eventfd again it is raised, and no longer pending");
	check(set_irqs(c, VFIO_IRQ_SET_DATA_NONE, NIC_NUM_VECTORS, 1, NULL, 0) ==
	      EINVAL && set_irqs(c, VFIO_IRQ_SET_DATA_NONE, 1, UINT32_MAX, NULL,
				 0) == EINVAL &&
	      set_irqs(c, VFIO_IRQ_SET_DATA_NONE, UINT32_MAX, 1, NULL, 0) ==
	      EINVAL, "vectors out of range: EINVAL");
	check(set_irqs(c, VFIO_IRQ_SET_DATA_EVENTFD, 0, 3, c->irq, 2) == EINVAL,
	      "fewer eventfds than vectors: EINVAL");
	check(set_irqs(c, VFIO_IRQ_SET_DATA_EVENTFD, 0, 1, &null, 1) == EINVAL &&
	      set_irqs(c, VFIO_IRQ_SET_DATA_EVENTFD, 0, 1, &c->mem_fd, 1) ==
	      EINVAL, "files that are no eventfds: EINVAL");
	check(set_irqs(c, VFIO_IRQ_SET_DATA_BOOL, 0, 4, NULL, 0) == EINVAL,
	      "booleans that are not there: EINVAL");
	close(null);
}

/* The client can make its eventfd blocking again: both processes share the open file. */
static void test_eventfd_that_blocks(struct client *c)
{
	uint64_t full = UINT64_MAX - 1;

	if (write(c->irq[6], &full, sizeof(full)) != sizeof(full) ||
	    fcntl(c->irq[6], F_SETFL, 0))
		die("eventfd: %s", strerror(errno));
	check(!set_irqs(c, VFIO_IRQ_SET_DATA_NONE, 6, 1, NULL, 0) &&
	      reg_read(c, MOOR_REG_MAGIC) == MOOR_MAGIC,
	      "an eventfd that is full and blocks: the model lives");
	check(raised(c->irq[6]) >= full &&
	      !set_irqs(c, VFIO_IRQ_SET_DATA_NONE, 6, 1, NULL, 0) &&
	      raised(c->irq[6]) == 1, "emptied, it is raised again");
	fcntl(c->irq[6], F_SETFL, O_NONBLOCK);
}

static void test_dma(struct client *c)
{
	const uint64_t far = 1ull << 40;
	int bar = memfd_create("small", MFD_CLOEXEC);
	int pipes[2];

	check(client_map(c, CLIENT_BASE + PAGE, PAGE, 0, READ_WRITE, c->mem_fd) ==
	      EEXIST, "mapping what is mapped: EEXIST");
	check(client_map(c, far, 0, 0, READ_WRITE, c->mem_fd) == EINVAL,
	      "no length: EINVAL");
	check(client_map(c, UINT64_MAX - PAGE + 1, 2 * PAGE, 0, READ_WRITE,
			 c->mem_fd) == EINVAL, "an end beyond 2^64: EINVAL");
	check(client_map(c, far, PAGE, CLIENT_SIZE, READ_WRITE, c->mem_fd) ==
	      EINVAL, "beyond the end of the file: EINVAL");
	check(client_map(c, far, PAGE, UINT64_MAX - PAGE + 1, READ_WRITE,
			 c->mem_fd) == EINVAL, "an offset that wraps: EINVAL");
	check(client_map(c, far, PAGE, 8, READ_WRITE, c->mem_fd) == EINVAL &&
	      client_map(c, far + 8, PAGE, 0, READ_WRITE, c->mem_fd) == EINVAL &&
	      client_map(c, far, PAGE / 2, 0, READ_WRITE, c->mem_fd) == EINVAL &&
	      client_map(c, far + 8, PAGE, 8, READ_WRITE, c->mem_fd) == EINVAL,
	      "memory that is not whole pages: EINVAL");
	check(client_map(c, far, PAGE, 0, READ_WRITE | 0x100, c->mem_fd) == EINVAL,
	      "an unknown flag: EINVAL");
	check(client_map(c, far, PAGE, 0, READ_WRITE, bar) == EINVAL,
	      "an empty file: EINVAL");
	if (pipe(pipes))
		die("pipe");
	check(client_map(c, far, PAGE, 0, READ_WRITE, pipes[0]) == EINVAL,
	      "a pipe: EINVAL");
	check(!client_map(c, far, PAGE, 0, READ_WRITE, -1),
	      "no file: accepted, as a BAR of another device has none");
	check(!client_map(c, UINT64_MAX - PAGE + 1, PAGE, 0, READ_WRITE,
			  c->mem_fd) &&
	      !client_unmap(c, UINT64_MAX - PAGE + 1, PAGE),
	      "the last page of 2^64 maps and unmaps");
	check(!client_unmap(c, far, PAGE) && !client_unmap(c, far, PAGE),
	      "unmapping, and unmapping what is not mapped");
	check(client_unmap(c, far, 0) == EINVAL &&
	      client_unmap(c, far, UINT64_MAX) == EINVAL,
	      "unmapping nothing, or around 2^64: EINVAL");
	check(!client_unmap(c, CLIENT_BASE + PAGE, PAGE) &&
	      client_map(c, CLIENT_BASE, PAGE, 0, READ_WRITE, c->mem_fd) ==
	      EEXIST &&
	      client_map(c, CLIENT_BASE + 2 * PAGE, PAGE, 0, READ_WRITE,
			 c->mem_fd) == EEXIST &&
	      !client_map(c, CLIENT_BASE + PAGE, PAGE, PAGE, READ_WRITE,
			  c->mem_fd),
	      "a page out of the middle goes alone, and comes back");
	close(bar);
	close(pipes[0]);
	close(pipes[1]);
}

/* As with a vIOMMU: a message for each page, downwards, one unmap at the end. */
static void test_many_maps(struct client *c)
{
	const uint64_t base = 1ull << 36, pages = 16384;
	uint64_t begin = now_ns(), i;
	int err = 0;

	for (i = pages; i-- && !err; )
		err = client_map(c, base + i * PAGE, PAGE,
				 i * 37 % (CLIENT_SIZE / PAGE) * PAGE, READ_WRITE,
				 c->mem_fd);
	check(!err, "%llu pages mapped one by one", (unsigned long long)pages);
	note("%llu us a page",
	     (unsigned long long)((now_ns() - begin) / pages / 1000));
	check(!client_unmap(c, base, pages * PAGE) &&
	      !client_map(c, base + PAGE, PAGE, 0, READ_WRITE, c->mem_fd) &&
	      !client_unmap(c, base + PAGE, PAGE), "unmapped by one message");
}

static void test_region_access(struct client *c)
{
	static uint8_t data[65536];
	uint32_t value = 0;

	check(client_read(c, MOOR_BAR_REGS, 0x10000 - 2, &value, 4) == EINVAL &&
	      client_read(c, MOOR_BAR_REGS, UINT64_MAX, &value, 4) == EINVAL &&
	      client_write(c, MOOR_BAR_REGS, 0x10000, &value, 4) == EINVAL,
	      "beyond the end of a region: EINVAL");
	check(client_read(c, 1, 0, &value, 4) == EINVAL &&
	      client_read(c, 1000, 0, &value, 4) == EINVAL,
	      "a region that does not exist: EINVAL");
	check(client_read(c, MOOR_BAR_REGS, 0, &value, 0) == EINVAL,
	      "nothing: EINVAL");
	check(!client_read(c, MOOR_BAR_MR, 0, data, sizeof(data)),
	      "64 KiB of BAR2 in one message");
	value = 0x12345678;
	check(!client_write(c, MOOR_BAR_DB, NIC_DM_OFFSET + 12, &value, 4) &&
	      !memcmp(c->bar4 + NIC_DM_OFFSET + 12, &value, 4),
	      "a trapped write arrives in mapped memory");
	check(!client_write(c, MOOR_BAR_DB, NIC_KICK_OFFSET + 5 * PAGE, &value, 4),
	      "a kick of a queue that is not there does nothing");
	check(!client_write(c, MOOR_BAR_DB, NIC_DM_OFFSET + NIC_DM_SIZE, &value,
			    4) &&
	      !client_read(c, MOOR_BAR_DB, NIC_DM_OFFSET + NIC_DM_SIZE, &value,
			   4) && !value, "the hole of BAR4 reads as zero");
}

/* Several messages in one piece, and one message in many pieces. */
static void test_framing(struct client *c)
{
	struct {
		struct vfio_user_header header;
		struct vfio_user_region_access access;
		uint32_t value;
	} msg[3];
	uint32_t seen;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		msg[i].header = (struct vfio_user_header){
			.id = ++c->id,
			.command = VFIO_USER_REGION_WRITE,
			.size = sizeof(msg[i]) - 4,
			.flags = i < 2 ? VFIO_USER_FLAG_NO_REPLY : 0,
		};
		msg[i].header.size = sizeof(msg[i].header) +
				     sizeof(msg[i].access) + 4;
		msg[i].access = (struct vfio_user_region_access){
			.offset = NIC_DM_OFFSET + 4 * i, .region = MOOR_BAR_DB,
			.count = 4,
		};
		msg[i].value = 0x100 + i;
	}
	for (i = 0; i < 3; i++)
		if (send(c->sock, &msg[i], msg[i].header.size, MSG_MORE) < 0)
			die("send");
	check(!client_receive(c, msg[2].header.id, &reply),
	      "posted writes get no reply, the one behind them does");
	memcpy(&seen, c->bar4 + NIC_DM_OFFSET + 4, 4);
	check(seen == 0x101, "and they were carried out first");

	msg[2].value = 0x999;
	msg[2].header.id = ++c->id;
	for (i = 0; i < msg[2].header.size; i++)
		if (send(c->sock, (char *)&msg[2] + i, 1, 0) != 1)
			die("send");
	memcpy(&seen, c->bar4 + NIC_DM_OFFSET + 8, 4);
	check(!client_receive(c, msg[2].header.id, &reply),
	      "a message byte by byte");
}

static void test_write_multi(struct client *c)
{
	struct {
		uint64_t count;
		struct vfio_user_multi_write write[2];
	} out = { .count = 2 };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		out.write[i].access.offset = NIC_DM_OFFSET + 64 + 8 * i;
		out.write[i].access.region = MOOR_BAR_DB;
		out.write[i].access.count = 8;
		memset(out.write[i].data, 0x50 + (int)i, 8);
	}
	check(!client_call(c, VFIO_USER_REGION_WRITE_MULTI, &out, sizeof(out),
			   NULL, 0, NULL) &&
	      c->bar4[NIC_DM_OFFSET + 71] == 0x50 &&
	      c->bar4[NIC_DM_OFFSET + 72] == 0x51, "two writes in one message");
	out.count = 3;
	check(client_call(c, VFIO_USER_REGION_WRITE_MULTI, &out, sizeof(out), NULL,
			  0, NULL) == EINVAL, "more writes than bytes: EINVAL");
	out.count = 2;
	out.write[1].access.count = 9;
	check(client_call(c, VFIO_USER_REGION_WRITE_MULTI, &out, sizeof(out), NULL,
			  0, NULL) == EINVAL, "a write of nine bytes: EINVAL");
	check(client_call(c, VFIO_USER_DIRTY_PAGES, &out, 8, NULL, 0, NULL) ==
	      ENOTSUP && client_call(c, 999, &out, 8, NULL, 0, NULL) == ENOTSUP,
	      "dirty pages, unknown commands: ENOTSUP");
}

static void expect_drop(struct model *model, struct client *c, const void *data,
			size_t size, const int *fds, unsigned int num_fds,
			const char *what)
{
	int err;

	client_connect(c, model);
	client_setup(c);
	if (num_fds)
		err = client_call(c, VFIO_USER_DEVICE_RESET, NULL, 0, fds,
				  num_fds, NULL);
	else
		err = send(c->sock, data, size, MSG_NOSIGNAL) < 0 ? 0 :
			client_receive(c, 0, &reply);
	client_disconnect(c);
	check(err == CLIENT_CLOSED && model_alive(model),
	      "%s: the client is dropped, the model lives", what);
}

static void test_malformed(struct model *model, struct client *c)
{
	struct vfio_user_header header = { .command = VFIO_USER_DEVICE_RESET };
	int fds[12], i;

	header.size = 8;
	expect_drop(model, c, &header, sizeof(header), NULL, 0,
		    "a message shorter than its header");
	header.size = 0x7fffffff;
	expect_drop(model, c, &header, sizeof(header), NULL, 0,
		    "a message of 2 GiB");
	header.size = sizeof(header);
	header.flags = VFIO_USER_TYPE_REPLY;
	expect_drop(model, c, &header, sizeof(header), NULL, 0,
		    "a reply nobody asked for");
	for (i = 0; i < 12; i++)
		fds[i] = c->mem_fd;
	expect_drop(model, c, NULL, 0, fds, 12, "twelve files with a message");
	/* Its own end of the connection: were it kept, the model would never see it leave. */
	expect_drop(model, c, NULL, 0, &c->sock, 1, "a socket with a message");
}

static void test_torn_memory(struct model *model, struct client *c)
{
	struct pollfd pfd = { .events = POLLIN };
	struct client other;

	client_init(&other);
	client_connect(&other, model);
	client_setup(&other);
	config_write16(&other, 4, 6);
	reg_write64(&other, MOOR_REG_CMD_BASE, CLIENT_BASE);
	reg_write64(&other, MOOR_REG_CPL_BASE, CLIENT_BASE + PAGE);
	reg_write(&other, MOOR_REG_CMD_LOG_SIZE, 4);
	reg_write64(&other, MOOR_REG_DOZE_ADDR, CLIENT_BASE + 2 * PAGE);
	if (ftruncate(other.mem_fd, 0))
		die("ftruncate");
	reg_write(&other, MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	pfd.fd = other.sock;
	check(poll(&pfd, 1, TEAR_SEEN_MS) == 1 &&
	      !recv(other.sock, reply.data, 1, MSG_DONTWAIT),
	      "memory that the client takes away: it is dropped");
	client_destroy(&other);
	client_connect(c, model);
	client_setup(c);
	check(model_alive(model) && reg_read(c, MOOR_REG_MAGIC) == MOOR_MAGIC,
	      "memory that the client takes away: the model lives");
	client_disconnect(c);
}

/* Mappings outlive a connection, so what the next client gets must be other memory. */
static void test_kept_mappings(struct model *model, struct client *c)
{
	static const uint8_t secret[8] = "secret!", nothing[8];
	uint8_t seen[8] = "", *bar2, *bar4;

	client_connect(c, model);
	client_setup(c);
	memcpy(c->bar4 + NIC_DM_OFFSET, secret, 8);
	check(!client_read(c, MOOR_BAR_DB, NIC_DM_OFFSET, seen, 8) &&
	      !memcmp(seen, secret, 8), "a mapping of BAR4 is on-NIC memory");
	bar2 = c->bar2;
	bar4 = c->bar4;
	c->bar2 = NULL;
	c->bar4 = NULL;
	client_disconnect(c);

	client_connect(c, model);
	client_setup(c);
	check(!client_read(c, MOOR_BAR_DB, NIC_DM_OFFSET, seen, 8) &&
	      !memcmp(seen, nothing, 8), "the next client finds zeroes");
	memcpy(c->bar4 + NIC_DM_OFFSET, secret, 8);
	memset(bar4 + NIC_DM_OFFSET, 0xa5, 8);
	memset(bar2, 0xa5, 8);
	check(!client_read(c, MOOR_BAR_DB, NIC_DM_OFFSET, seen, 8) &&
	      !memcmp(seen, secret, 8) && memcmp(bar4 + NIC_DM_OFFSET, secret, 8),
	      "a mapping of BAR4 that the last one kept is not this one's memory");
	check(!client_read(c, MOOR_BAR_MR, 0, seen, 8) &&
	      !memcmp(seen, nothing, 8), "nor is one of BAR2");
	munmap(bar2, NIC_MR_BAR_SIZE);
	munmap(bar4, NIC_DB_BAR_SIZE);
	client_disconnect(c);
}

int main(void)
{
	struct model model;
	struct client c;

	client_init(&c);
	model_start(&model, NULL);
	test_version(&model, &c);
	client_connect(&c, &model);
	client_setup(&c);
	test_device_info(&c);
	test_regions(&c);
	test_interrupts(&c);
	test_eventfd_that_blocks(&c);
	test_dma(&c);
	test_many_maps(&c);
	test_region_access(&c);
	test_framing(&c);
	test_write_multi(&c);
	client_disconnect(&c);
	test_malformed(&model, &c);
	test_torn_memory(&model, &c);
	test_kept_mappings(&model, &c);
	check(model_stop(&model) == 0, "SIGTERM: exit status 0");
	client_destroy(&c);
	return check_done();
}
