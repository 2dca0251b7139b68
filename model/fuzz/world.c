// SPDX-License-Identifier: GPL-2.0
/* A NIC and a small guest for fuzz targets: life cycle, and the driver's part. */
#include <endian.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/dma_map.h"
#include "device/parts.h"
#include "memory/mr_strict.h"
#include "world.h"

/* Limits of one input; the NIC bounds the transfers of a quantum. */
#define MAX_RUNS	128u
#define MAX_RESETS	2u

struct world *w;

static struct world worlds[2];
/* The context entries that inputs write: both ends of both ranges. */
static const uint32_t indices[] = {
	2, 3, 4, 5, 0x8000, 0x8001, 0x8002, 0x8003, 6, 0, 1, 0x7fff, 0xffff,
};

#define NUM_INDICES	(sizeof(indices) / sizeof(indices[0]))

/* Maps memory between two pages without access. */
static uint8_t *guarded(size_t size, int fd)
{
	uint8_t *room = mmap(NULL, size + 2 * MOOR_PAGE_SIZE, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int flags = MAP_SHARED | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0);

	if (room == MAP_FAILED ||
	    mmap(room + MOOR_PAGE_SIZE, size, PROT_READ | PROT_WRITE, flags, fd,
		 0) == MAP_FAILED)
		abort();
	return room + MOOR_PAGE_SIZE;
}

static void raise_vector(void *ctx, unsigned int vector)
{
	struct world *world = ctx;

	if (vector >= NIC_NUM_VECTORS)
		abort();
	world->raised |= 1u << vector;
}

static void map_memory(void)
{
	const unsigned int both = DMA_PROT_READ | DMA_PROT_WRITE;

	dma_map_clear(w->dma);
	if (dma_map_add(w->dma, WORLD_BASE, WORLD_SIZE, both, w->fd, 0) ||
	    dma_map_add(w->dma, WORLD_READ_ONLY, WORLD_SIZE, DMA_PROT_READ,
			w->fd, 0) ||
	    dma_map_add(w->dma, WORLD_NO_FILE, WORLD_SIZE, both, -1, 0) ||
	    dma_map_add(w->dma, WORLD_TOP, -WORLD_TOP, both, w->fd, 0))
		abort();
	w->dma_changed = false;
}

static void create(bool strict)
{
	struct nic_config cfg = {
		.node_guid = 0x0102, .strict = strict, .seed = 1,
	};

	w->fd = memfd_create("guest", MFD_CLOEXEC);
	if (w->fd < 0 || ftruncate(w->fd, WORLD_SIZE))
		abort();
	w->memory = guarded(WORLD_SIZE, w->fd);
	w->mr_bar = guarded(NIC_MR_BAR_SIZE, -1);
	w->db_bar = guarded(NIC_DB_BAR_SIZE, -1);
	w->dma = dma_map_create();
	w->nic = nic_create(&cfg, w->dma, w->mr_bar, w->db_bar, raise_vector, w);
	w->pristine = malloc(sizeof(*w->pristine));
	if (!w->nic || !w->pristine)
		abort();
	memcpy(w->pristine, w->nic, sizeof(*w->pristine));
	map_memory();
}

/*
 * Objects that were made, to be destroyed before the next input: a search through all
 * numbers takes longer than most inputs do.
 */
#define MAX_MADE	512u

static struct {
	uint32_t number[MAX_MADE];
	unsigned int count;
} qps, cqs, srqs;

uint8_t __wrap_qp_create(struct nic *nic, const struct moor_cmd *cmd,
			 struct moor_cpl *cpl)
{
	uint8_t status = __real_qp_create(nic, cmd, cpl);

	if (!status && qps.count < MAX_MADE)
		qps.number[qps.count++] =
			((const struct moor_cmd_create_qp *)cmd)->qpn;
	return status;
}

uint8_t __wrap_cq_create(struct nic *nic, const struct moor_cmd *cmd,
			 struct moor_cpl *cpl)
{
	uint8_t status = __real_cq_create(nic, cmd, cpl);

	if (!status && cqs.count < MAX_MADE)
		cqs.number[cqs.count++] =
			((const struct moor_cmd_create_cq *)cmd)->cqn;
	return status;
}

uint8_t __wrap_srq_create(struct nic *nic, const struct moor_cmd *cmd,
			  struct moor_cpl *cpl)
{
	uint8_t status = __real_srq_create(nic, cmd, cpl);

	if (!status && srqs.count < MAX_MADE)
		srqs.number[srqs.count++] =
			((const struct moor_cmd_create_srq *)cmd)->srqn;
	return status;
}

static void destroy_made(struct nic *nic)
{
	struct moor_cmd cmd = { 0 };
	struct moor_cpl cpl;
	unsigned int i;

	/* The number is the first field of each command. */
	if (qps.count == MAX_MADE || cqs.count == MAX_MADE ||
	    srqs.count == MAX_MADE) {
		qp_reset_all(nic);
		srq_reset_all(nic);
		cq_reset(nic);
	}
	for (i = 0; i < qps.count; i++) {
		memcpy(cmd.in, &qps.number[i], sizeof(qps.number[i]));
		qp_destroy(nic, &cmd, &cpl);
	}
	for (i = 0; i < srqs.count; i++) {
		memcpy(cmd.in, &srqs.number[i], sizeof(srqs.number[i]));
		srq_destroy(nic, &cmd, &cpl);
	}
	for (i = 0; i < cqs.count; i++) {
		memcpy(cmd.in, &cqs.number[i], sizeof(cqs.number[i]));
		cq_destroy(nic, &cmd, &cpl);
	}
	qps.count = 0;
	cqs.count = 0;
	srqs.count = 0;
}

/*
 * Brings the NIC to the state after nic_reset(), which would clear megabytes each time:
 * here only what the last input has changed. Allocated memory stays.
 */
static void rewind_nic(void)
{
	struct nic *nic = w->nic;
	unsigned int i;

	event_reset(nic);
	for (i = 0; i < NUM_INDICES; i++) {
		uint32_t index = indices[i];

		memset(&nic->mr->dynamic[index], 0, sizeof(nic->mr->dynamic[index]));
		if (index >= NIC_MR_CONSUMER_FIRST)
			memset(&nic->mr->window[index - NIC_MR_CONSUMER_FIRST], 0,
			       sizeof(nic->mr->window[0]));
		if (nic->mr->strict)
			mr_strict_drop(nic, index);
	}
	/* The large parts are empty now; the heads of their lists are reset below. */
	memcpy((struct parts *)nic, w->pristine, offsetof(struct parts, slots));
	nic->live->count = 0;
	nic->cqs->num_dirty = 0;
	memcpy(nic->qps, &w->pristine->qps, offsetof(struct qps, qp));
	if (madvise(w->mr_bar, NIC_MR_BAR_SIZE, MADV_REMOVE) ||
	    madvise(w->db_bar, NIC_DB_BAR_SIZE, MADV_REMOVE))
		abort();
}

void world_begin(bool strict)
{
	/* The last input may have used the other world. */
	if (w)
		destroy_made(w->nic);
	w = &worlds[strict];
	if (w->nic)
		rewind_nic();
	else
		create(strict);
	if (w->dma_changed)
		map_memory();
	memset(w->memory, 0, WORLD_SIZE);
	fuzz_clock_ns = 1000000000;
	w->nic->clock_base = fuzz_clock_ns;
	w->resets = MAX_RESETS;
	w->runs = MAX_RUNS;
	memset(w->sq_producer, 0, sizeof(w->sq_producer));
	memset(w->rq_producer, 0, sizeof(w->rq_producer));
	memset(w->cq_consumer, 0, sizeof(w->cq_consumer));
	w->qp_type = MOOR_QP_RC;
	w->shared = false;
	w->raised = 0;
	w->generation = 0;
	dma_map_set_enabled(w->dma, true);
	nic_set_bus_master(w->nic, true);
}

void *world_ptr(uint64_t addr)
{
	return w->memory + (addr - WORLD_BASE);
}

uint64_t page_addr(unsigned int page)
{
	return WORLD_BASE + page * MOOR_PAGE_SIZE;
}

struct moor_xlat flat(uint64_t addr)
{
	return (struct moor_xlat){
		.root = (addr & MOOR_PTE_ADDR) | MOOR_PTE_PRESENT |
			MOOR_PTE_LEAF | MOOR_PTE_WRITABLE,
		.offset = addr & (MOOR_PAGE_SIZE - 1),
		.page_shift = MOOR_MIN_PAGE_SHIFT,
	};
}

void set_slot(uint32_t slot, uint64_t value)
{
	__atomic_store_n((uint64_t *)w->db_bar + slot, value, __ATOMIC_RELEASE);
}

void world_run(void)
{
	do {
		while (w->runs && nic_run(w->nic))
			w->runs--;
	} while (w->runs && w->runs-- && !nic_doze(w->nic));
	nic_wake(w->nic);
}

void world_run_timers(void)
{
	uint64_t next = nic_next_deadline(w->nic);

	if (next != UINT64_MAX && next > fuzz_clock_ns)
		fuzz_clock_ns = next;
	world_run();
}

/* An entry of a ring whose base the input may have chosen, or NULL. */
static void *ring_entry(uint64_t base, uint32_t index, uint32_t size)
{
	uint64_t slot = index & ((1u << w->nic->commands->log_size % 32) - 1);
	uint64_t at = base + slot * size - WORLD_BASE;

	return at <= WORLD_SIZE - size && at % 8 == 0 ? w->memory + at : NULL;
}

uint8_t command(const void *cmd, size_t size)
{
	struct nic *nic = w->nic;
	uint32_t producer = nic->commands->cpl_producer;
	uint32_t phase = !(producer >> nic->commands->log_size % 32 & 1);
	struct moor_cmd *to = ring_entry(nic->commands->base, nic->commands->consumer,
					 sizeof(*to));
	struct moor_cpl *cpl = ring_entry(nic->commands->cpl_base, producer,
					  sizeof(*cpl));

	if (!to || !cpl)
		return 0xff;
	memset(to, 0, sizeof(*to));
	memcpy(to, cmd, size);
	set_slot(MOOR_DB_SLOT_CMD_PRODUCER, nic->commands->consumer + 1);
	nic_kick(nic, 0, MOOR_DB_SLOT_CMD_PRODUCER);
	world_run();
	if (nic->commands->cpl_producer != producer + 1 || (cpl->phase & 1) != phase)
		return 0xff;
	memcpy(&w->cpl, cpl, sizeof(w->cpl));
	return w->cpl.status;
}

void world_setup(void)
{
	unsigned int runs = w->runs, i;

	w->runs = MAX_RUNS;
	nic_reg_write(w->nic, MOOR_REG_CMD_BASE, page_addr(PAGE_CMD), 8);
	nic_reg_write(w->nic, MOOR_REG_CPL_BASE, page_addr(PAGE_CPL), 8);
	nic_reg_write(w->nic, MOOR_REG_CMD_LOG_SIZE, WORLD_LOG_CMD, 4);
	nic_reg_write(w->nic, MOOR_REG_DOZE_ADDR, page_addr(PAGE_DOZE), 8);
	nic_reg_write(w->nic, MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE, 4);
	for (i = 0; i < 3; i++) {
		struct moor_cmd_create_eq cmd = {
			.hdr.opcode = MOOR_CMD_CREATE_EQ, .eqn = i,
			.vector = (uint16_t)(i + 1), .log_eqe = WORLD_LOG_EQE,
			.base = page_addr(PAGE_EQ + i),
		};

		command(&cmd, sizeof(cmd));
	}
	w->runs = runs;
}

static void create_qp(unsigned int i)
{
	struct moor_cmd_create_qp cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_QP, .qpn = WORLD_QPN(i),
		.pd = WORLD_PD, .type = w->qp_type, .send_cqn = i, .recv_cqn = i, .cookie = i,
		.log_sq_depth = WORLD_LOG_DEPTH,
		.log_rq_depth = WORLD_LOG_DEPTH,
		.log_sq_stride = WORLD_LOG_STRIDE,
		.log_rq_stride = WORLD_LOG_STRIDE,
		.sq_doorbell = WORLD_SLOT(2 + i),
		.rq_doorbell = WORLD_SLOT(4 + i),
		.sq = flat(page_addr(PAGE_SQ + i)),
		.rq = flat(page_addr(PAGE_RQ + i)),
	};

	if (w->shared) {
		cmd.flags = MOOR_QP_FLAG_SRQ;
		cmd.srqn = WORLD_SRQN;
	}
	if (w->shared || world_is_xrc()) {
		cmd.no_rq = 1;
		cmd.log_rq_depth = 0;
		cmd.log_rq_stride = 0;
		cmd.rq_doorbell = 0;
		memset(&cmd.rq, 0, sizeof(cmd.rq));
	}
	command(&cmd, sizeof(cmd));
}

static void create_target(unsigned int i)
{
	struct moor_cmd_create_qp cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_QP, .qpn = WORLD_QPN(i),
		.type = MOOR_QP_XRC_TGT, .no_sq = 1, .no_rq = 1,
		.xrcd = WORLD_XRCD,
	};

	command(&cmd, sizeof(cmd));
}

static void create_srq(unsigned int i)
{
	struct moor_cmd_create_srq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_SRQ, .srqn = WORLD_SRQN + i,
		.pd = WORLD_PD, .doorbell = WORLD_SLOT(4 + i),
		.log_depth = WORLD_LOG_DEPTH, .log_stride = WORLD_LOG_STRIDE,
		.ring = flat(page_addr(PAGE_RQ + i)),
	};

	if (world_is_xrc()) {
		cmd.flags = MOOR_SRQ_FLAG_XRC;
		cmd.xrcd = WORLD_XRCD;
		cmd.cqn = i;
	}
	command(&cmd, sizeof(cmd));
}

void world_gid(uint8_t *gid, unsigned int index)
{
	static const uint8_t gids[][16] = {
		{ 0xfe, 0x80 }, { 0xfe, 0x80, [15] = 1 },
		{ [10] = 0xff, 0xff, 192, 0, 2, 1 },
		[WORLD_GROUP] = { 0xff, 0x0e },
	};

	memcpy(gid, gids[index % 4], sizeof(gids[0]));
}

/* Datagrams also need GIDs of other types, and a group. */
static void meet(void)
{
	struct moor_cmd_filter filter = {
		.hdr.opcode = MOOR_CMD_ATTACH_FILTER,
		.type = MOOR_FILTER_MULTICAST,
	};
	struct moor_cmd_set_gid gid = {
		.hdr.opcode = MOOR_CMD_SET_GID, .vlan = MOOR_GID_NO_VLAN,
	};
	unsigned int i;

	for (i = 1; i < 3; i++) {
		gid.index = (uint16_t)i;
		gid.type = i == 1 ? MOOR_GID_ROCE_V1 : MOOR_GID_ROCE_V2;
		world_gid(gid.gid, i);
		command(&gid, sizeof(gid));
	}
	world_gid(filter.gid, WORLD_GROUP);
	for (i = 0; i < 2; i++) {
		filter.qpn = WORLD_QPN(i);
		command(&filter, sizeof(filter));
	}
}

void modify_qp(struct moor_cmd_modify_qp *cmd, unsigned int i)
{
	cmd->hdr.opcode = MOOR_CMD_MODIFY_QP;
	cmd->qpn = WORLD_QPN(i);
	command(cmd, sizeof(*cmd));
}

void connect_qp(unsigned int i)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};

	modify_qp(&cmd, i);
	w->sq_producer[i] = 0;
	if (!w->shared && !world_is_xrc())
		w->rq_producer[i] = 0;
	cmd.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_ACCESS;
	cmd.state = MOOR_QPS_INIT;
	cmd.access = MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_REMOTE_READ |
		     MOOR_ACCESS_REMOTE_ATOMIC;
	cmd.access_high = WORLD_FLUSH >> 8;
	modify_qp(&cmd, i);
	cmd = (struct moor_cmd_modify_qp){
		.mask = MOOR_MASK(14, 0) & ~(MOOR_QP_ATTR_ACCESS |
					   MOOR_QP_ATTR_SQD_EVENT),
		.qkey = WORLD_QKEY, .state = MOOR_QPS_RTR, .path_mtu = 3,
		.dest_qpn = WORLD_QPN(!i), .max_rd_atomic = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1, .timeout = 4,
		.retry_cnt = 2, .rnr_retry = 2, .dgid = { 0xfe, 0x80 },
	};
	modify_qp(&cmd, i);
	cmd.mask = MOOR_QP_ATTR_STATE;
	cmd.state = MOOR_QPS_RTS;
	modify_qp(&cmd, i);
}

void world_connect(void)
{
	struct moor_cmd_set_gid gid = {
		.hdr.opcode = MOOR_CMD_SET_GID, .type = MOOR_GID_ROCE_V2,
		.vlan = MOOR_GID_NO_VLAN, .gid = { 0xfe, 0x80 },
	};
	unsigned int runs = w->runs, i;

	w->runs = MAX_RUNS;
	command(&gid, sizeof(gid));
	for (i = 0; i < 2; i++) {
		struct moor_cmd_create_cq cmd = {
			.hdr.opcode = MOOR_CMD_CREATE_CQ, .cqn = i, .eqn = 2,
			.log_cqe = WORLD_LOG_CQE, .doorbell = WORLD_SLOT(i),
			.ring = flat(page_addr(PAGE_CQ + i)),
		};

		command(&cmd, sizeof(cmd));
		if (world_is_xrc() || (w->shared && !i))
			create_srq(i);
		if (world_is_xrc() && i)
			create_target(i);
		else
			create_qp(i);
	}
	connect_qp(0);
	connect_qp(1);
	if (w->qp_type == MOOR_QP_UD)
		meet();
	w->runs = runs;
}

void put_entry(uint32_t index, const struct moor_mr_context *e)
{
	struct moor_mr_context *to = (struct moor_mr_context *)w->mr_bar + index;

	memcpy((uint8_t *)to + sizeof(to->valid),
	       (const uint8_t *)e + sizeof(e->valid),
	       sizeof(*e) - sizeof(e->valid));
	__atomic_store_n(&to->valid, e->valid, __ATOMIC_RELEASE);
}

void world_enter_regions(void)
{
	uint64_t *table = world_ptr(page_addr(PAGE_TABLE));
	struct moor_mr_context e = {
		.pd = WORLD_PD, .access = WORLD_FLUSH | 0x1f,
		.iova = page_addr(PAGE_DATA),
		.length = 8 * MOOR_PAGE_SIZE, .xlat = flat(page_addr(PAGE_DATA)),
	};
	unsigned int i;

	for (i = 0; i < 8; i++)
		table[i] = page_addr(PAGE_DATA + (i * 5 & 7)) |
			   MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	for (i = 2; i < 6; i++) {
		e.valid = (uint64_t)(i << 16 | 0x1200) << 32 |
			  MOOR_MRC_TYPE_MR;
		if (i == 4)
			e.xlat = (struct moor_xlat){
				.root = page_addr(PAGE_TABLE) | MOOR_PTE_PRESENT,
				.levels = 1, .page_shift = 12,
			};
		if (i == 5) {
			e.xlat = flat(0);
			e.xlat.memory = MOOR_MEMORY_NIC;
		}
		put_entry(i, &e);
	}
	memset(&e, 0, sizeof(e));
	e.pd = WORLD_PD;
	for (i = 0x8000; i < 0x8004; i++) {
		e.valid = (uint64_t)(i << 16 | 0x1200) << 32 |
			  (i > 0x8000 ? MOOR_MRC_TYPE_MW_2 :
			   MOOR_MRC_TYPE_MW_1);
		put_entry(i, &e);
	}
}

/* Those of world_enter_regions(), mostly. */
uint32_t some_index(struct input *in)
{
	uint8_t how = input_u8(in);

	return indices[how < 0xd0 ? how % 8 : how % NUM_INDICES];
}
