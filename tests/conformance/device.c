// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "suite.h"
#include "vfio_user.h"

#define MAX_VECTORS	2048
#define MAX_AREAS	8
#define MAX_CHANGES	4096
#define READY_NS	10000000000ull
#define CONFIG		VFIO_PCI_CONFIG_REGION_INDEX

struct device dev;

/* A BAR, as far as it can be mapped. */
static struct {
	uint8_t *base;
	unsigned int num_areas;
	struct vfio_region_sparse_mmap_area area[MAX_AREAS];
} bars[6];

static const char *path;
static int memory_fd = -1;
static int irq_fd[MAX_VECTORS];
static unsigned int num_irqs;

/* Changes that dma_restore() has to undo. */
static struct change {
	uint64_t addr, size;
	bool hole;
} changes[MAX_CHANGES];
static unsigned int num_changes;

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void *at(uint64_t dma)
{
	if (dma < MEMORY_BASE || dma >= MEMORY_BASE + MEMORY_SIZE)
		bail_out("0x%llx is no address of the memory",
			 (unsigned long long)dma);
	return dev.memory + (dma - MEMORY_BASE);
}

/* ---- DMA ---- */

static int call_map(uint64_t addr, uint64_t size, uint64_t offset, enum dma_way way)
{
	struct vfio_user_dma_map map = {
		.argsz = sizeof(map),
		.flags = (way & DMA_READ ? VFIO_DMA_MAP_FLAG_READ : 0) |
			 (way & DMA_WRITE ? VFIO_DMA_MAP_FLAG_WRITE : 0),
		.offset = offset, .addr = addr, .size = size,
	};

	return vfio_user_call(VFIO_USER_DMA_MAP, &map, sizeof(map), &memory_fd,
			      1, NULL);
}

static int call_unmap(uint64_t addr, uint64_t size)
{
	struct vfio_user_dma_unmap unmap = {
		.argsz = sizeof(unmap), .addr = addr, .size = size,
	};

	return vfio_user_call(VFIO_USER_DMA_UNMAP, &unmap, sizeof(unmap), NULL,
			      0, NULL);
}

static void remember(uint64_t addr, uint64_t size, bool hole)
{
	if (num_changes == MAX_CHANGES)
		bail_out("a case maps more than the suite can undo");
	changes[num_changes++] = (struct change){ addr, size, hole };
}

void dma_map(uint64_t addr, uint64_t size, uint64_t offset, enum dma_way way)
{
	int err = call_map(addr, size, offset, way);

	need(!err, "DMA_MAP at 0x%llx: %s", (unsigned long long)addr,
	     strerror(err));
	remember(addr, size, false);
}

void dma_unmap(uint64_t addr, uint64_t size)
{
	int err = call_unmap(addr, size);

	need(!err, "DMA_UNMAP at 0x%llx: %s", (unsigned long long)addr,
	     strerror(err));
	if (addr >= MEMORY_BASE && addr < MEMORY_BASE + MEMORY_SIZE)
		remember(addr, size, true);
}

void dma_restore(void)
{
	while (num_changes) {
		const struct change *c = &changes[--num_changes];

		if (c->hole ? call_map(c->addr, c->size, c->addr - MEMORY_BASE,
				       DMA_BOTH) :
			      call_unmap(c->addr, c->size))
			bail_out("the memory cannot be mapped as it was");
	}
}

static void make_memory(void)
{
	/* It is the device's, too, which must not take it away from under the suite. */
	memory_fd = memfd_create("moor-conformance", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memory_fd < 0 || ftruncate(memory_fd, MEMORY_SIZE) ||
	    fcntl(memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		bail_out("memory for the device: %s", strerror(errno));
	dev.memory = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			  memory_fd, 0);
	if (dev.memory == MAP_FAILED)
		bail_out("memory for the device: %s", strerror(errno));
}

/* ---- BARs ---- */

static void map_area(unsigned int bar, int fd, uint64_t offset,
		     const struct vfio_region_sparse_mmap_area *area)
{
	void *to = bars[bar].base + area->offset;

	if (area->offset > dev.bar_size[bar] ||
	    area->size > dev.bar_size[bar] - area->offset)
		bail_out("BAR%u: an area to be mapped is outside of it", bar);
	if (mmap(to, area->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 fd, (off_t)(offset + area->offset)) != to)
		bail_out("BAR%u cannot be mapped: %s", bar, strerror(errno));
	bars[bar].area[bars[bar].num_areas++] = *area;
}

/* The areas that can be mapped, as the capability at @offset lists them. */
static void map_listed(unsigned int bar, const struct vfio_user_reply *reply,
		       uint64_t region, uint32_t offset)
{
	struct vfio_region_info_cap_sparse_mmap sparse;
	struct vfio_region_sparse_mmap_area area;
	uint32_t i;

	memcpy(&sparse, reply->data + offset, sizeof(sparse));
	offset += (uint32_t)sizeof(sparse);
	if (sparse.nr_areas > (reply->size - offset) / sizeof(area))
		bail_out("BAR%u: %u areas to be mapped, more than the answer has", bar,
			 sparse.nr_areas);
	for (i = 0; i < sparse.nr_areas && i < MAX_AREAS; i++) {
		memcpy(&area, reply->data + offset + i * sizeof(area), sizeof(area));
		map_area(bar, reply->fd, region, &area);
	}
}

/* Return: where the list of areas is in the answer, or 0. */
static uint32_t find_areas(const struct vfio_user_reply *reply,
			   const struct vfio_region_info *info)
{
	uint32_t offset = info->flags & VFIO_REGION_INFO_FLAG_CAPS ? info->cap_offset : 0;
	struct vfio_info_cap_header header;
	unsigned int i;

	/* There are less than eight kinds: a longer list goes in circles. */
	for (i = 0; offset && i < 8; i++) {
		if (reply->size < sizeof(struct vfio_region_info_cap_sparse_mmap) ||
		    offset > reply->size - sizeof(struct vfio_region_info_cap_sparse_mmap))
			return 0;
		memcpy(&header, reply->data + offset, sizeof(header));
		if (header.id == VFIO_REGION_INFO_CAP_SPARSE_MMAP)
			return offset;
		offset = header.next;
	}
	return 0;
}

static void learn_bar(unsigned int bar)
{
	struct vfio_region_info in = { .argsz = 1024, .index = bar }, info;
	struct vfio_region_sparse_mmap_area all = { 0 };
	struct vfio_user_reply reply;
	uint32_t areas;

	if (vfio_user_call(VFIO_USER_DEVICE_GET_REGION_INFO, &in, sizeof(in),
			   NULL, 0, &reply))
		bail_out("GET_REGION_INFO of BAR%u is refused", bar);
	if (reply.size < sizeof(info))
		bail_out("GET_REGION_INFO of BAR%u is answered with %u bytes", bar, reply.size);
	memcpy(&info, reply.data, sizeof(info));
	dev.bar_size[bar] = info.size;
	bars[bar].num_areas = 0;
	if (reply.fd < 0)
		return;
	if (info.flags & VFIO_REGION_INFO_FLAG_MMAP) {
		if (!bars[bar].base)
			bars[bar].base = mmap(NULL, info.size, PROT_NONE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (bars[bar].base == MAP_FAILED)
			bail_out("room for BAR%u, of 0x%llx bytes: %s", bar,
				 (unsigned long long)info.size, strerror(errno));
		all.size = info.size;
		areas = find_areas(&reply, &info);
		if (areas)
			map_listed(bar, &reply, info.offset, areas);
		else
			map_area(bar, reply.fd, info.offset, &all);
	}
	close(reply.fd);
}

bool bar_is_mapped(unsigned int bar, uint64_t offset)
{
	unsigned int i;

	for (i = 0; i < bars[bar].num_areas; i++)
		if (offset - bars[bar].area[i].offset < bars[bar].area[i].size)
			return true;
	return false;
}

static void must_read(unsigned int region, uint64_t offset, void *data,
		      uint32_t count)
{
	int err = vfio_user_read(region, offset, data, count);

	if (err)
		bail_out("a read of %u bytes at 0x%llx of region %u: %s", count,
			 (unsigned long long)offset, region, strerror(err));
}

static void must_write(unsigned int region, uint64_t offset, const void *data,
		       uint32_t count)
{
	int err = vfio_user_write(region, offset, data, count);

	if (err)
		bail_out("a write of %u bytes at 0x%llx of region %u: %s", count,
			 (unsigned long long)offset, region, strerror(err));
}

uint64_t bar_read64(unsigned int bar, uint64_t offset)
{
	uint64_t value;

	if (bar_is_mapped(bar, offset))
		return __atomic_load_n((uint64_t *)(bars[bar].base + offset),
				       __ATOMIC_ACQUIRE);
	must_read(bar, offset, &value, sizeof(value));
	return value;
}

void bar_write64(unsigned int bar, uint64_t offset, uint64_t value)
{
	if (bar_is_mapped(bar, offset))
		__atomic_store_n((uint64_t *)(bars[bar].base + offset), value,
				 __ATOMIC_RELEASE);
	else
		must_write(bar, offset, &value, sizeof(value));
}

uint32_t reg_read(uint32_t offset)
{
	uint32_t value;

	must_read(MOOR_BAR_REGS, offset, &value, sizeof(value));
	return value;
}

uint64_t reg_read64(uint32_t offset)
{
	uint64_t value;

	must_read(MOOR_BAR_REGS, offset, &value, sizeof(value));
	return value;
}

void reg_write(uint32_t offset, uint32_t value)
{
	must_write(MOOR_BAR_REGS, offset, &value, sizeof(value));
}

void reg_write64(uint32_t offset, uint64_t value)
{
	must_write(MOOR_BAR_REGS, offset, &value, sizeof(value));
}

/* ---- configuration space ---- */

uint32_t config_read32(uint32_t offset)
{
	uint32_t value;

	must_read(CONFIG, offset, &value, sizeof(value));
	return value;
}

uint16_t config_read16(uint32_t offset)
{
	uint16_t value;

	must_read(CONFIG, offset, &value, sizeof(value));
	return value;
}

uint8_t config_read8(uint32_t offset)
{
	uint8_t value;

	must_read(CONFIG, offset, &value, sizeof(value));
	return value;
}

void config_write32(uint32_t offset, uint32_t value)
{
	must_write(CONFIG, offset, &value, sizeof(value));
}

void config_write16(uint32_t offset, uint16_t value)
{
	must_write(CONFIG, offset, &value, sizeof(value));
}

uint32_t config_capability(uint8_t id)
{
	uint32_t where = config_read8(PCI_CAPABILITY_LIST) & ~3u;
	unsigned int i;

	/* 48 capabilities fill the space: a longer list goes in circles. */
	for (i = 0; where && i < 48; i++) {
		if (config_read8(where) == id)
			return where;
		where = config_read8(where + PCI_CAP_LIST_NEXT) & ~3u;
	}
	return 0;
}

void bus_master(bool on)
{
	config_write16(PCI_COMMAND, PCI_COMMAND_MEMORY |
		       (on ? PCI_COMMAND_MASTER : 0));
}

void device_flr(void)
{
	uint32_t cap = config_capability(PCI_CAP_ID_EXP);

	need(cap, "no PCI Express capability");
	config_write16(cap + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_BCR_FLR);
}

void device_platform_reset(void)
{
	int err = vfio_user_call(VFIO_USER_DEVICE_RESET, NULL, 0, NULL, 0, NULL);

	need(!err, "DEVICE_RESET: %s", strerror(err));
}

/* ---- interrupts ---- */

unsigned int interrupts(unsigned int vector)
{
	uint64_t count;

	if (vector >= num_irqs ||
	    read(irq_fd[vector], &count, sizeof(count)) != sizeof(count))
		return 0;
	return (unsigned int)count;
}

static void learn_interrupts(void)
{
	struct vfio_irq_info info = {
		.argsz = sizeof(info), .index = VFIO_PCI_MSIX_IRQ_INDEX,
	};
	struct vfio_user_reply reply;
	unsigned int i, count;

	if (vfio_user_call(VFIO_USER_DEVICE_GET_IRQ_INFO, &info, sizeof(info),
			   NULL, 0, &reply))
		bail_out("GET_IRQ_INFO of MSI-X is refused");
	memcpy(&info, reply.data, sizeof(info));
	dev.msix_vectors = info.count;
	if (!info.count || info.count > MAX_VECTORS)
		bail_out("%u MSI-X vectors: 1 to %u there have to be", info.count,
			 MAX_VECTORS);
	for (i = num_irqs; i < info.count; i++) {
		irq_fd[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (irq_fd[i] < 0)
			bail_out("eventfd: %s", strerror(errno));
	}
	num_irqs = info.count;
	for (i = 0; i < num_irqs; i += count) {
		struct vfio_irq_set set = {
			.argsz = sizeof(set),
			.flags = VFIO_IRQ_SET_DATA_EVENTFD |
				 VFIO_IRQ_SET_ACTION_TRIGGER,
			.index = VFIO_PCI_MSIX_IRQ_INDEX,
			.start = i,
		};

		count = num_irqs - i;
		if (count > vfio_user_max_fds())
			count = vfio_user_max_fds();
		set.count = count;
		if (vfio_user_call(VFIO_USER_DEVICE_SET_IRQS, &set, sizeof(set),
				   irq_fd + i, count, NULL))
			bail_out("SET_IRQS of vectors %u to %u is refused", i,
				 i + count - 1);
	}
}

/* ---- all of it ---- */

/* What was before is not known (CTL-20), and till READY other registers are not good (CTL-12). */
static void reset_first(void)
{
	uint64_t end = now_ns() + READY_NS;

	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	while (!(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_READY))
		if (now_ns() > end)
			bail_out("STATUS is 0x%x %llu s after a reset: READY is clear",
				 reg_read(MOOR_REG_STATUS), READY_NS / 1000000000u);
}

static void learn_capacities(void)
{
	uint32_t magic = reg_read(MOOR_REG_MAGIC), version;

	if (magic != MOOR_MAGIC)
		bail_out("MAGIC is 0x%08x: this is no Moor NIC", magic);
	version = reg_read(MOOR_REG_VERSION);
	if (version >> 16 != MOOR_HW_VERSION_MAJOR)
		bail_out("version %u.%u of the hardware interface; the suite knows %u.%u",
			 version >> 16, version & 0xffff, MOOR_HW_VERSION_MAJOR,
			 MOOR_HW_VERSION_MINOR);
	dev.minor = version & 0xffff;
	reset_first();
	dev.features = reg_read64(MOOR_REG_FEATURES);
	dev.page_sizes = reg_read64(MOOR_REG_PAGE_SIZES);
	dev.nonce_bits = reg_read(MOOR_REG_MR_INDEX_BITS);
	if (dev.nonce_bits < 12 || dev.nonce_bits > 20)
		bail_out("MR_INDEX_BITS is %u: not 12 to 20", dev.nonce_bits);
	dev.num_keys = 1u << dev.nonce_bits;
	dev.nonce_bits = 32 - dev.nonce_bits;
	dev.consumer_first = reg_read(MOOR_REG_MR_CONSUMER_FIRST);
	dev.null_lkey = reg_read(MOOR_REG_NULL_LKEY);
	dev.max_msg_size = reg_read(MOOR_REG_MAX_MSG_SIZE);
	dev.qp_index_bits = reg_read(MOOR_REG_QP_INDEX_BITS);
	dev.max_cq = reg_read(MOOR_REG_MAX_CQ);
	dev.max_eq = reg_read(MOOR_REG_MAX_EQ);
	dev.max_log_wqe = reg_read(MOOR_REG_MAX_LOG_WQE);
	dev.max_sge = reg_read(MOOR_REG_MAX_SGE);
	dev.max_inline = reg_read(MOOR_REG_MAX_INLINE);
	dev.max_log_cqe = reg_read(MOOR_REG_MAX_LOG_CQE);
	dev.max_gid = reg_read(MOOR_REG_MAX_GID);
	dev.max_rd_atomic = reg_read(MOOR_REG_MAX_RD_ATOMIC);
	dev.max_log_cmd = reg_read(MOOR_REG_MAX_LOG_CMD);
	dev.max_log_eqe = reg_read(MOOR_REG_MAX_LOG_EQE);
	dev.num_vectors = reg_read(MOOR_REG_NUM_VECTORS);
	dev.max_mr_size = reg_read64(MOOR_REG_MAX_MR_SIZE);
	dev.db_pages = reg_read(MOOR_REG_DB_PAGES);
	dev.kick_offset = reg_read(MOOR_REG_KICK_OFFSET);
	dev.srq_index_bits = reg_read(MOOR_REG_SRQ_INDEX_BITS);
	dev.max_filter = reg_read(MOOR_REG_MAX_FILTER);
	dev.dm_offset = reg_read64(MOOR_REG_DM_OFFSET);
	dev.dm_size = reg_read64(MOOR_REG_DM_SIZE);

	/* A case says what is out of range; without these no case can run. */
	if (!dev.num_vectors || !dev.db_pages || !dev.bar_size[MOOR_BAR_DB])
		bail_out("NUM_VECTORS is %u, DB_PAGES %u, BAR4 has 0x%llx bytes: one is missing",
			 dev.num_vectors, dev.db_pages,
			 (unsigned long long)dev.bar_size[MOOR_BAR_DB]);
}

static int attach(void)
{
	int err = vfio_user_connect(path);

	if (err)
		return err;
	err = call_map(MEMORY_BASE, MEMORY_SIZE, 0, DMA_BOTH);
	if (err)
		bail_out("DMA_MAP of the memory: %s", strerror(err));
	learn_bar(MOOR_BAR_REGS);
	learn_bar(MOOR_BAR_MR);
	learn_bar(MOOR_BAR_DB);
	learn_interrupts();
	bus_master(true);
	learn_capacities();
	return 0;
}

void device_attach(const char *socket_path)
{
	int err;

	path = socket_path;
	make_memory();
	err = attach();
	if (err)
		bail_out("%s: %s; is there a device that listens?", path, strerror(err));
}

void device_detach(void)
{
	vfio_user_disconnect();
}

bool device_reattach(void)
{
	num_changes = 0;
	device_detach();
	return !attach();
}
