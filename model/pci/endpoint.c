// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "pci/endpoint.h"
#include "pci/irqfd.h"
#include "pci/pci_config.h"
#include "pci/write_buffer.h"

#define MSIX_ENTRY_SIZE		16
#define MSIX_TABLE_SIZE		(NIC_NUM_VECTORS * MSIX_ENTRY_SIZE)
#define MSIX_MASKED		1	/* in the last word of an entry */
#define PBA_SIZE		8

/* For writes that the guest may repeat as often as it likes. */
#define log_config(...)							\
	do {								\
		static struct log_site log_site_;			\
		log_limited(&log_site_, "guest", "config", __VA_ARGS__); \
	} while (0)

struct endpoint {
	struct nic *nic;
	struct dma_map *dma;
	struct pci_config config;

	int mr_fd, db_fd;		/* memory of BAR2 and BAR4 */
	uint8_t *mr_bar, *db_bar;
	struct write_buffer *held;	/* NULL: BAR2 may be mapped */
	bool bus_master;		/* as the NIC knows it */
	bool dead;			/* off the bus */
	bool has_dm;			/* on-NIC memory (HWI 7.3) */
	uint32_t resets;		/* FLR, and by the client */

	/*
	 * The client emulates masks and sends no eventfd for a vector that is
	 * not in use; a vector raised without eventfd stays pending.
	 */
	int irq_fd[NIC_NUM_VECTORS];
	struct irqfd irqfd;
	bool interrupted;
	uint64_t pending;
	uint8_t msix_table[MSIX_TABLE_SIZE];
};

static void reset_msix(struct endpoint *ep)
{
	unsigned int i;

	memset(ep->msix_table, 0, sizeof(ep->msix_table));
	for (i = 0; i < NIC_NUM_VECTORS; i++)
		ep->msix_table[i * MSIX_ENTRY_SIZE + 12] = MSIX_MASKED;
	ep->pending = 0;
}

/*
 * Memory that the NIC shares with the client: sealed, so that the client cannot cut
 * the file short. It is mapped where *@mem says; NULL: anywhere, and *@mem tells where.
 */
static int create_bar(const char *name, size_t size, uint8_t **mem)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *base;

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)size) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto err_close;
	base = mmap(*mem, size, PROT_READ | PROT_WRITE,
		    MAP_SHARED | (*mem ? MAP_FIXED : 0), fd, 0);
	if (base == MAP_FAILED)
		goto err_close;
	*mem = base;
	return fd;

err_close:
	close(fd);
	return -1;
}

/* The same addresses with an empty file of its own behind them. */
static bool renew_bar(const char *name, size_t size, uint8_t *mem, int *fd)
{
	int renewed = create_bar(name, size, &mem);

	if (renewed < 0)
		return false;
	close(*fd);
	*fd = renewed;
	return true;
}

bool endpoint_renew_bars(struct endpoint *ep)
{
	return renew_bar("moor-bar2", NIC_MR_BAR_SIZE, ep->mr_bar, &ep->mr_fd) &&
	       renew_bar("moor-bar4", NIC_DB_BAR_SIZE, ep->db_bar, &ep->db_fd);
}

static void raise_vector(void *ctx, unsigned int vector)
{
	endpoint_trigger_irq(ctx, vector);
}

struct endpoint *endpoint_create(const struct endpoint_config *cfg,
				 struct dma_map *dma)
{
	struct endpoint *ep;
	unsigned int i;

	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return NULL;
	errno = irqfd_init(&ep->irqfd);
	if (errno)
		goto err_free;
	ep->dma = dma;
	ep->has_dm = !(cfg->nic.without & MOOR_FEATURE_DM);
	for (i = 0; i < NIC_NUM_VECTORS; i++)
		ep->irq_fd[i] = -1;
	pci_config_init(&ep->config);
	reset_msix(ep);

	ep->mr_fd = create_bar("moor-bar2", NIC_MR_BAR_SIZE, &ep->mr_bar);
	if (ep->mr_fd < 0)
		goto err_irqfd;
	ep->db_fd = create_bar("moor-bar4", NIC_DB_BAR_SIZE, &ep->db_bar);
	if (ep->db_fd < 0)
		goto err_mr_bar;
	if (cfg->trap_bar2) {
		ep->held = write_buffer_create(ep->mr_bar, cfg->nic.seed);
		if (!ep->held)
			goto err_db_bar;
	}
	ep->nic = nic_create(&cfg->nic, dma, ep->mr_bar, ep->db_bar,
			     raise_vector, ep);
	if (!ep->nic)
		goto err_held;
	return ep;

err_held:
	write_buffer_destroy(ep->held);
err_db_bar:
	munmap(ep->db_bar, NIC_DB_BAR_SIZE);
	close(ep->db_fd);
err_mr_bar:
	munmap(ep->mr_bar, NIC_MR_BAR_SIZE);
	close(ep->mr_fd);
err_irqfd:
	irqfd_exit(&ep->irqfd);
err_free:
	free(ep);
	return NULL;
}

void endpoint_destroy(struct endpoint *ep)
{
	unsigned int i;

	nic_destroy(ep->nic);
	write_buffer_destroy(ep->held);
	for (i = 0; i < NIC_NUM_VECTORS; i++)
		endpoint_set_irq(ep, i, -1);
	munmap(ep->db_bar, NIC_DB_BAR_SIZE);
	close(ep->db_fd);
	munmap(ep->mr_bar, NIC_MR_BAR_SIZE);
	close(ep->mr_fd);
	irqfd_exit(&ep->irqfd);
	free(ep);
}

struct nic *endpoint_nic(struct endpoint *ep)
{
	return ep->nic;
}

void endpoint_region_info(const struct endpoint *ep, unsigned int region,
			  struct endpoint_region *info)
{
	memset(info, 0, sizeof(*info));
	info->fd = -1;
	switch (region) {
	case VFIO_PCI_CONFIG_REGION_INDEX:
		info->size = PCI_CONFIG_SIZE;
		break;
	case MOOR_BAR_REGS:
		info->size = MOOR_BAR_REGS_SIZE;
		break;
	case MOOR_BAR_MR:
		info->size = NIC_MR_BAR_SIZE;
		if (ep->held)
			break;
		info->fd = ep->mr_fd;
		info->areas = 1;
		info->area[0].size = NIC_MR_BAR_SIZE;
		break;
	case MOOR_BAR_DB:
		/* Neither the kick pages nor the hole after them may be mapped. */
		info->size = NIC_DB_BAR_SIZE;
		info->fd = ep->db_fd;
		/* A mapped doorbell would overtake BAR2 writes that are messages. */
		if (!ep->held)
			info->area[info->areas++].size =
				NIC_DB_PAGES * MOOR_PAGE_SIZE;
		if (!ep->has_dm)
			break;
		info->area[info->areas].offset = NIC_DM_OFFSET;
		info->area[info->areas++].size = NIC_DM_SIZE;
		break;
	}
}

void endpoint_trickle(struct endpoint *ep)
{
	if (ep->held)
		write_buffer_trickle(ep->held);
}

/* The access that comes now is ordered behind all earlier writes to BAR2. */
static void settle(struct endpoint *ep)
{
	if (ep->held)
		write_buffer_flush(ep->held);
}

void endpoint_set_irq(struct endpoint *ep, unsigned int vector, int fd)
{
	if (ep->irq_fd[vector] >= 0)
		close(ep->irq_fd[vector]);
	ep->irq_fd[vector] = fd;
	if (fd < 0)
		return;
	if (ep->pending & 1ull << vector) {
		ep->pending &= ~(1ull << vector);
		endpoint_trigger_irq(ep, vector);
	}
}

void endpoint_trigger_irq(struct endpoint *ep, unsigned int vector)
{
	int err;

	if (vector >= NIC_NUM_VECTORS)
		return;
	if (ep->irq_fd[vector] < 0) {
		ep->pending |= 1ull << vector;
		return;
	}
	ep->interrupted = true;
	err = irqfd_raise(&ep->irqfd, ep->irq_fd[vector]);
	if (err)
		log_client("eventfd of vector %u: %s", vector, strerror(err));
}

bool endpoint_has_interrupted(struct endpoint *ep)
{
	bool interrupted = ep->interrupted;

	ep->interrupted = false;
	return interrupted;
}

static void apply_bus_master(struct endpoint *ep)
{
	bool on = pci_config_bus_master(&ep->config) && !ep->dead;

	if (on != ep->bus_master)
		log_config("bus mastering %s, dma=%llu", on ? "on" : "off",
			   (unsigned long long)dma_map_accesses(ep->dma));
	ep->bus_master = on;
	/* The NIC starts after DMA has been enabled and stops before it is disabled. */
	if (on)
		dma_map_set_enabled(ep->dma, true);
	nic_set_bus_master(ep->nic, on);
	if (!on)
		dma_map_set_enabled(ep->dma, false);
}

void endpoint_set_dead(struct endpoint *ep, bool dead)
{
	if (ep->dead == dead)
		return;
	ep->dead = dead;
	if (dead)
		apply_bus_master(ep);
	else
		endpoint_reset(ep);
}

bool endpoint_is_dead(const struct endpoint *ep)
{
	return ep->dead;
}

uint32_t endpoint_resets(const struct endpoint *ep)
{
	return ep->resets;
}

/* The rest of a reset, once the configuration space is as after one. */
static void reset_behind_config(struct endpoint *ep)
{
	ep->dead = false;
	ep->resets++;
	if (ep->held)
		write_buffer_drop(ep->held);
	apply_bus_master(ep);
	nic_reset(ep->nic);
	reset_msix(ep);
}

void endpoint_reset(struct endpoint *ep)
{
	pci_config_init(&ep->config);
	reset_behind_config(ep);
}

static void config_write(struct endpoint *ep, uint32_t offset, const void *data,
			 uint32_t count)
{
	unsigned int effects = pci_config_write(&ep->config, offset, data, count);

	if (effects & PCI_EFFECT_FLR) {
		log_config("function level reset");
		pci_config_flr(&ep->config);
		reset_behind_config(ep);
	} else if (effects & PCI_EFFECT_BUS_MASTER) {
		apply_bus_master(ep);
	}
}

/* An access to BAR0 that may have an effect (HWI BAR-4). */
static bool good_access(uint32_t offset, uint32_t count)
{
	return (count == 4 || count == 8) && offset % count == 0;
}

/* The bytes of the MSI-X table that a good access touches, or NULL. */
static uint8_t *msix_bytes(struct endpoint *ep, uint32_t offset, uint32_t count)
{
	if (offset < MOOR_MSIX_TABLE_OFFSET ||
	    offset + count > MOOR_MSIX_TABLE_OFFSET + MSIX_TABLE_SIZE)
		return NULL;
	return ep->msix_table + (offset - MOOR_MSIX_TABLE_OFFSET);
}

static void regs_read(struct endpoint *ep, uint32_t offset, void *data,
		      uint32_t count)
{
	const uint8_t *msix;
	uint64_t value;

	memset(data, 0, count);
	if (!good_access(offset, count)) {
		log_refused("HWI BAR-4", "read of %u bytes at BAR0 + 0x%x", count,
			    offset);
		return;
	}
	msix = msix_bytes(ep, offset, count);
	if (offset < MOOR_MSIX_TABLE_OFFSET) {
		value = nic_reg_read(ep->nic, offset, count);
		memcpy(data, &value, count);
	} else if (msix) {
		memcpy(data, msix, count);
	} else if (offset >= MOOR_MSIX_PBA_OFFSET &&
		   offset + count <= MOOR_MSIX_PBA_OFFSET + PBA_SIZE) {
		memcpy(data, (uint8_t *)&ep->pending +
		       (offset - MOOR_MSIX_PBA_OFFSET), count);
	}
}

static void regs_write(struct endpoint *ep, uint32_t offset, const void *data,
		       uint32_t count)
{
	uint64_t value = 0;
	uint8_t *msix;

	if (!good_access(offset, count)) {
		log_refused("HWI BAR-4", "write of %u bytes at BAR0 + 0x%x", count,
			    offset);
		return;
	}
	msix = msix_bytes(ep, offset, count);
	if (offset < MOOR_MSIX_TABLE_OFFSET) {
		memcpy(&value, data, count);
		nic_reg_write(ep->nic, offset, value, count);
	} else if (msix) {
		memcpy(msix, data, count);
	}
}

/*
 * The write of a client that did not map the BAR: an aligned word of eight bytes that
 * the guest wrote with one store is also written here with one store.
 */
static void store(uint8_t *to, const void *data, uint32_t count)
{
	uint64_t value = 0;

	if (count == 8 && (uintptr_t)to % 8 == 0) {
		memcpy(&value, data, 8);
		__atomic_store_n((uint64_t *)to, value, __ATOMIC_RELEASE);
	} else {
		memcpy(to, data, count);
	}
}

static bool in_kick_pages(uint64_t offset)
{
	return offset >= NIC_KICK_OFFSET &&
	       offset < NIC_KICK_OFFSET + NIC_DB_PAGES * MOOR_PAGE_SIZE;
}

static void kick(struct endpoint *ep, uint64_t offset)
{
	uint32_t at = (uint32_t)(offset - NIC_KICK_OFFSET);

	nic_kick(ep->nic, at / MOOR_PAGE_SIZE,
		 at % MOOR_PAGE_SIZE / MOOR_DB_SLOT_SIZE);
}

/* @offset is in the BAR. */
static bool in_db_memory(const struct endpoint *ep, uint64_t offset, uint32_t count)
{
	return offset + count <= NIC_DB_PAGES * MOOR_PAGE_SIZE ||
	       (ep->has_dm && offset >= NIC_DM_OFFSET &&
		offset + count <= NIC_DM_OFFSET + NIC_DM_SIZE);
}

static bool in_region(const struct endpoint *ep, unsigned int region,
		      uint64_t offset, uint32_t count)
{
	struct endpoint_region info;

	endpoint_region_info(ep, region, &info);
	return count && offset < info.size && info.size - offset >= count;
}

int endpoint_read(struct endpoint *ep, unsigned int region, uint64_t offset,
		  void *data, uint32_t count)
{
	if (!in_region(ep, region, offset, count))
		return EINVAL;
	if (ep->dead) {
		memset(data, 0xff, count);
		return 0;
	}
	settle(ep);
	switch (region) {
	case VFIO_PCI_CONFIG_REGION_INDEX:
		pci_config_read(&ep->config, (uint32_t)offset, data, count);
		break;
	case MOOR_BAR_REGS:
		regs_read(ep, (uint32_t)offset, data, count);
		break;
	case MOOR_BAR_MR:
		memcpy(data, ep->mr_bar + offset, count);
		break;
	case MOOR_BAR_DB:
		if (in_db_memory(ep, offset, count))
			memcpy(data, ep->db_bar + offset, count);
		else
			memset(data, 0, count);
		break;
	}
	return 0;
}

int endpoint_write(struct endpoint *ep, unsigned int region, uint64_t offset,
		   const void *data, uint32_t count)
{
	if (!in_region(ep, region, offset, count))
		return EINVAL;
	if (ep->dead)
		return 0;
	if (region != MOOR_BAR_MR)
		settle(ep);
	switch (region) {
	case VFIO_PCI_CONFIG_REGION_INDEX:
		config_write(ep, (uint32_t)offset, data, count);
		break;
	case MOOR_BAR_REGS:
		regs_write(ep, (uint32_t)offset, data, count);
		break;
	case MOOR_BAR_MR:
		if (ep->held)
			write_buffer_add(ep->held, (uint32_t)offset, data, count);
		else
			store(ep->mr_bar + offset, data, count);
		break;
	case MOOR_BAR_DB:
		if (in_kick_pages(offset))
			kick(ep, offset);
		else if (in_db_memory(ep, offset, count))
			store(ep->db_bar + offset, data, count);
		else
			log_refused("HWI BAR-6", "write of %u bytes at BAR4 + 0x%llx",
				    count, (unsigned long long)offset);
		break;
	}
	return 0;
}
