// SPDX-License-Identifier: GPL-2.0
/*
 * DMA to an address that the platform forbids is a fault and is not performed. Root
 * writes into the context entry of an MR of its own, as a broken driver might: the
 * physical address of a page of this process, which the NIC may access only without an
 * IOMMU; and an address that no machine has. At the end the entry is restored, so that
 * the driver can invalidate the key.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/types.h>
#include <moor/moor_hw.h>

#include "holdings.h"
#include "tap.h"
#include "window.h"

#define IOVA		0x10000u
#define NOWHERE		(1ULL << 51)

static struct pair pair;

static volatile void *map_bar(int bar, size_t size)
{
	char path[256];
	void *addr;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/resource%d",
		 ibv_get_device_name(pair.ctx->device), bar);
	fd = open(path, O_RDWR | O_SYNC);
	addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || addr == MAP_FAILED)
		tap_bail("%s: %s", path, strerror(errno));
	close(fd);
	return addr;
}

/* The NIC's number of the pair's protection domain. */
static uint32_t pd_number(void)
{
	char path[256], row[512];
	unsigned int lkey, rkey, type, generation, pd;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/debug/moor/%s/mr",
		 nic_address());
	file = fopen(path, "r");
	while (file && fgets(row, sizeof(row), file)) {
		if (sscanf(row, "%x %x %u %u %u", &lkey, &rkey, &type,
			   &generation, &pd) == 5 && lkey == pair.a.mr->lkey) {
			fclose(file);
			return pd;
		}
	}
	tap_bail("%s does not list our MR", path);
}

static uint64_t physical_address(const void *addr)
{
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	if (fd < 0 || pread(fd, &entry, sizeof(entry), (uintptr_t)addr / 4096 * 8) !=
	    sizeof(entry) || !(entry << 9))
		tap_bail("/proc/self/pagemap tells no address: %s", strerror(errno));
	close(fd);
	return (entry & MOOR_MASK(54, 0)) * 4096;
}

static bool has_iommu(void)
{
	DIR *dir = opendir("/sys/class/iommu");
	struct dirent *entry;
	bool found = false;

	while (dir && (entry = readdir(dir)))
		found |= entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return found;
}

#define ENTRY_WORDS	(sizeof(struct moor_mr_context) / sizeof(uint64_t))

static void read_entry(struct moor_mr_context *entry, volatile uint64_t *from)
{
	uint64_t to[ENTRY_WORDS];
	unsigned int i;

	for (i = 0; i < ENTRY_WORDS; i++)
		to[i] = from[i];
	memcpy(entry, to, sizeof(to));
}

static void write_entry(volatile uint64_t *to, const struct moor_mr_context *entry)
{
	uint64_t from[ENTRY_WORDS];
	unsigned int i;

	memcpy(from, entry, sizeof(from));
	for (i = 1; i < ENTRY_WORDS; i++)
		to[i] = from[i];
	__sync_synchronize();
	to[0] = from[0];
	__sync_synchronize();
}

/* An RDMA READ of side b's buffer into the memory of @lkey. */
static struct outcome read_into(uint32_t lkey)
{
	const struct request request = {
		.opcode = IBV_WR_RDMA_READ, .wr_id = 1,
		.local = (uint8_t *)(uintptr_t)IOVA, .length = 4096,
		.lkey = lkey, .remote = (uintptr_t)pair.b.buf,
		.rkey = pair.b.mr->rkey,
	};

	return finish(&pair.a, post(&pair.a, &request));
}

static void expect_fault(struct outcome got, const char *what)
{
	tap_ok(!got.posted && got.status == IBV_WC_LOC_PROT_ERR &&
	       got.syndrome == MOOR_SYN_DMA, "%s: %s, syndrome %u", what,
	       ibv_wc_status_str(got.status), got.syndrome);
	revive(&pair);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	struct moor_mr_context own, entry = { .iova = IOVA, .length = 4096 };
	volatile uint64_t *slot;
	volatile uint32_t *regs;
	struct outcome got;
	uint32_t index, key;
	struct ibv_mr *mr;
	uint8_t *page;

	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr), &pair_defaults);
	pair_connect(&pair);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
		    MAP_POPULATE | MAP_LOCKED, -1, 0);
	if (page == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	fill(page, 4096, 1);
	fill(pair.b.buf, 4096, 2);

	mr = must_reg(pair.pd, page, 4096, IBV_ACCESS_LOCAL_WRITE);
	key = mr->lkey;
	regs = map_bar(MOOR_BAR_REGS, 4096);
	index = key >> (32 - regs[MOOR_REG_MR_INDEX_BITS / 4]);
	slot = (volatile uint64_t *)map_bar(MOOR_BAR_MR, (index + 1) * sizeof(entry)) +
	       index * sizeof(entry) / sizeof(*slot);
	read_entry(&own, slot);
	entry.valid = (uint64_t)key << 32 | MOOR_MRC_TYPE_MR;
	entry.pd = pd_number();
	entry.access = MOOR_ACCESS_LOCAL_WRITE;
	entry.xlat.page_shift = 12;

	entry.xlat.root = NOWHERE | MOOR_PTE_PRESENT | MOOR_PTE_WRITABLE | MOOR_PTE_LEAF;
	write_entry(slot, &entry);
	expect_fault(read_into(key), "an address that no machine has");

	slot[0] = 0;
	entry.valid |= 1 << 8;	/* generation */
	entry.xlat.root = physical_address(page) | MOOR_PTE_PRESENT |
			  MOOR_PTE_WRITABLE | MOOR_PTE_LEAF;
	write_entry(slot, &entry);
	got = read_into(key);
	if (has_iommu()) {
		expect_fault(got, "memory that the IOMMU keeps from the NIC");
		tap_ok(is_filled(page, 4096, 1), "it was not written");
	} else {
		tap_ok(!got.posted && !got.status, "without an IOMMU: success");
		tap_ok(is_filled(page, 4096, 2), "it was written");
	}
	slot[0] = 0;
	fill(page, 4096, 3);
	tap_ok(read_into(key).status == IBV_WC_LOC_PROT_ERR &&
	       is_filled(page, 4096, 3), "entry cleared: nothing more");
	revive(&pair);
	write_entry(slot, &own);
	tap_is(ibv_dereg_mr(mr), 0, "its MR is deregistered");
	pair_close(&pair);
	return tap_done();
}
