// SPDX-License-Identifier: GPL-2.0
/*
 * nic.h and dma_map.h, done by a model in another process: with this in place of
 * the engine the guest of test/unit goes through the socket, the mapped BARs, the
 * dozing word and the eventfds, as QEMU does.
 */
#include <errno.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "log.h"
#include "moor/moor_hw.h"
#include "remote_nic.h"

/* Long enough for a quantum under the sanitizers; then the word is garbage. */
#define SETTLE_NS	20000000u

/* Timers are unknown here: whoever waits for one looks so often. */
#define LOOK_NS		1000000u

struct dma_map {
	int fd;
	uint64_t addr, len;
	uint8_t *memory;
};

struct nic {
	struct model model;
	struct client client;
	struct dma_map *dma;
	uint64_t doze_addr;
	uint64_t next_look;
	void (*raise)(void *ctx, unsigned int vector);
	void *ctx;
};

static const char *const *model_options;

void remote_options(const char *const *options)
{
	model_options = options;
}

int log_open(const char *path)
{
	(void)path;
	return 0;
}

struct dma_map *dma_map_create(void)
{
	return calloc(1, sizeof(struct dma_map));
}

void dma_map_destroy(struct dma_map *map)
{
	munmap(map->memory, map->len);
	close(map->fd);
	free(map);
}

int dma_map_add(struct dma_map *map, uint64_t addr, uint64_t len,
		unsigned int prot, int fd, uint64_t offset)
{
	(void)prot;
	map->fd = dup(fd);
	map->addr = addr;
	map->len = len;
	map->memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   (off_t)offset);
	return map->memory == MAP_FAILED ? errno : 0;
}

void dma_map_set_enabled(struct dma_map *map, bool enabled)
{
	/* The model has its own map; Bus Master Enable rules it. */
	(void)map;
	(void)enabled;
}

static void move_bar(uint8_t **from, void *to, size_t size)
{
	if (mremap(*from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) !=
	    to)
		die("mremap: %s", strerror(errno));
	*from = NULL;
}

struct nic *nic_create(const struct nic_config *cfg, struct dma_map *dma,
		       void *mr_bar, void *db_bar,
		       void (*raise)(void *ctx, unsigned int vector), void *ctx)
{
	const char *const strict[] = { "--strict", NULL };
	struct nic *nic = calloc(1, sizeof(*nic));

	if (!nic)
		die("out of memory");
	nic->dma = dma;
	nic->raise = raise;
	nic->ctx = ctx;
	client_init(&nic->client);
	model_start(&nic->model, cfg->strict ? strict : model_options);
	client_connect(&nic->client, &nic->model);
	client_setup(&nic->client);
	if (client_map(&nic->client, dma->addr, dma->len, 0,
		       VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE, dma->fd))
		die("DMA_MAP");
	/* With --trap-bar2 nothing is behind it. */
	if (nic->client.bar2)
		move_bar(&nic->client.bar2, mr_bar, NIC_MR_BAR_SIZE);
	move_bar(&nic->client.bar4, db_bar, NIC_DB_BAR_SIZE);
	return nic;
}

void nic_destroy(struct nic *nic)
{
	int status;

	client_destroy(&nic->client);
	status = model_stop(&nic->model);
	if (status)
		die("the model ended with status %d", status);
	free(nic);
}

struct client *remote_client(struct nic *nic)
{
	return &nic->client;
}

struct model *remote_model(struct nic *nic)
{
	return &nic->model;
}

uint64_t nic_reg_read(struct nic *nic, uint32_t offset, unsigned int size)
{
	return size == 8 ? reg_read64(&nic->client, offset) :
		reg_read(&nic->client, offset);
}

void nic_reg_write(struct nic *nic, uint32_t offset, uint64_t value,
		   unsigned int size)
{
	if (size == 8)
		reg_write64(&nic->client, offset, value);
	else
		reg_write(&nic->client, offset, (uint32_t)value);
	nic->doze_addr = reg_read64(&nic->client, MOOR_REG_DOZE_ADDR);
}

/* The doorbell has been stored: what HWI DB-13 asks of the ringer after that. */
void nic_kick(struct nic *nic, uint32_t page, uint32_t slot)
{
	const uint32_t one = 1;

	if (page < NIC_DB_PAGES && slot < MOOR_DB_SLOTS_PER_PAGE &&
	    client_write(&nic->client, MOOR_BAR_DB,
			 NIC_KICK_OFFSET + page * MOOR_PAGE_SIZE +
			 slot * MOOR_DB_SLOT_SIZE, &one, sizeof(one)))
		die("kick");
}

void nic_reset(struct nic *nic)
{
	reg_write(&nic->client, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
}

void nic_set_bus_master(struct nic *nic, bool on)
{
	config_write16(&nic->client, PCI_COMMAND,
		       PCI_COMMAND_MEMORY | (on ? PCI_COMMAND_MASTER : 0));
}

static void deliver_interrupts(struct nic *nic)
{
	uint64_t count;
	unsigned int i;

	for (i = 0; i < NIC_NUM_VECTORS; i++)
		if (read(nic->client.irq[i], &count, sizeof(count)) > 0)
			while (count--)
				nic->raise(nic->ctx, i);
}

/* Return: the dozing word, or NULL when it is not in this guest's memory. */
static uint32_t *dozing_word(struct nic *nic)
{
	uint64_t at = nic->doze_addr - nic->dma->addr;

	if (at > nic->dma->len - sizeof(uint32_t))
		return NULL;
	return (uint32_t *)(nic->dma->memory + at);
}

/* Waits until the NIC dozes: it has done what there was to do. */
bool nic_run(struct nic *nic)
{
	uint32_t *word = dozing_word(nic);
	uint64_t end = now_ns() + SETTLE_NS;
	uint32_t status;

	/* The answer comes after the NIC has woken up for this message. */
	status = reg_read(&nic->client, MOOR_REG_STATUS);
	while (word && status & MOOR_STATUS_ENABLED &&
	       !(status & MOOR_STATUS_FATAL) &&
	       !__atomic_load_n(word, __ATOMIC_SEQ_CST) && now_ns() < end)
		usleep(10);
	deliver_interrupts(nic);
	nic->next_look = now_ns() + LOOK_NS;
	return false;
}

bool nic_doze(struct nic *nic)
{
	(void)nic;
	return true;
}

void nic_wake(struct nic *nic)
{
	(void)nic;
}

uint64_t nic_next_deadline(struct nic *nic)
{
	return nic->next_look;
}
