// SPDX-License-Identifier: GPL-2.0
/* A guest in the same process: memory, a driver's and a provider's moves. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"

static unsigned int tests, failures;

void ok(bool good, const char *fmt, ...)
{
	va_list args;

	failures += !good;
	printf("%sok %u - ", good ? "" : "not ", ++tests);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

int done(void)
{
	printf("1..%u\n", tests);
	return failures ? 1 : 0;
}

static void raise_vector(void *ctx, unsigned int vector)
{
	((struct guest *)ctx)->raised[vector]++;
}

void *at(struct guest *g, uint64_t addr)
{
	return g->memory + (addr - GUEST_BASE);
}

uint64_t take(struct guest *g, uint64_t len)
{
	uint64_t addr = g->next;

	g->next += (len + 4095) & ~4095ull;
	if (g->next > GUEST_BASE + GUEST_MEMORY)
		abort();
	return addr;
}

static uint64_t *slot_ptr(struct guest *g, uint32_t slot)
{
	return (uint64_t *)g->db_bar + slot;
}

static void set_slot(struct guest *g, uint32_t slot, uint64_t value)
{
	__atomic_store_n(slot_ptr(g, slot), value, __ATOMIC_SEQ_CST);
}

void settle(struct guest *g)
{
	do {
		while (nic_run(g->nic))
			;
	} while (!nic_doze(g->nic));
	nic_wake(g->nic);
}

/*
 * Linked in place of timer_now(): time that passes only when the NIC looks at it, and
 * when a test waits, so that no timer ends because the machine is busy.
 */
uint64_t clock_step_ns = 10000;
static uint64_t clock_ns;

uint64_t __wrap_timer_now(void)
{
	clock_ns += clock_step_ns;
	return clock_ns;
}

void settle_timers(struct guest *g, unsigned int ms)
{
	uint64_t end = clock_ns + ms * 1000000ull, next;

	settle(g);
	while ((next = nic_next_deadline(g->nic)) < end) {
		if (clock_ns < next)
			clock_ns = next;
		settle(g);
	}
}

void guest_setup(struct guest *g)
{
	g->cmd_base = take(g, 8192);
	g->cpl_base = take(g, 4096);
	g->doze = take(g, 4096);
	nic_reg_write(g->nic, MOOR_REG_CMD_BASE, g->cmd_base, 8);
	nic_reg_write(g->nic, MOOR_REG_CPL_BASE, (uint32_t)g->cpl_base, 4);
	nic_reg_write(g->nic, MOOR_REG_CPL_BASE + 4, g->cpl_base >> 32, 4);
	nic_reg_write(g->nic, MOOR_REG_CMD_LOG_SIZE, 6, 4);
	nic_reg_write(g->nic, MOOR_REG_DOZE_ADDR, g->doze, 8);
	nic_reg_write(g->nic, MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE, 4);
	g->commands = 0;
}

struct guest *guest_start(bool strict)
{
	struct nic_config cfg = { .node_guid = 0x0102, .strict = strict };
	struct guest *g = calloc(1, sizeof(*g));
	int fd = memfd_create("guest", MFD_CLOEXEC);
	unsigned int n;

	log_open(NULL);
	if (!g || ftruncate(fd, GUEST_MEMORY))
		abort();
	g->memory = mmap(NULL, GUEST_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED,
			 fd, 0);
	g->mr_bar = mmap(NULL, NIC_MR_BAR_SIZE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	g->db_bar = mmap(NULL, NIC_DB_BAR_SIZE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	g->dma = dma_map_create();
	if (dma_map_add(g->dma, GUEST_BASE, GUEST_MEMORY,
			DMA_PROT_READ | DMA_PROT_WRITE, fd, 0))
		abort();
	close(fd);
	dma_map_set_enabled(g->dma, true);
	g->next = GUEST_BASE;
	g->next_slot = MOOR_DB_SLOTS_PER_PAGE;
	g->next_mr = MOOR_MR_INDEX_FIRST;
	g->nic = nic_create(&cfg, g->dma, g->mr_bar, g->db_bar, raise_vector, g);
	nic_set_bus_master(g->nic, true);
	guest_setup(g);
	for (n = 0; n < 3; n++) {
		struct moor_cmd_create_eq cmd = {
			.hdr.opcode = MOOR_CMD_CREATE_EQ,
			.eqn = n, .vector = n + 1, .log_eqe = 4,
			.base = g->eq_base[n] = take(g, 4096),
		};

		if (command(g, &cmd, sizeof(cmd)))
			abort();
	}
	return g;
}

void guest_stop(struct guest *g)
{
	nic_destroy(g->nic);
	dma_map_destroy(g->dma);
	munmap(g->memory, GUEST_MEMORY);
	munmap(g->mr_bar, NIC_MR_BAR_SIZE);
	munmap(g->db_bar, NIC_DB_BAR_SIZE);
	free(g);
}

void send_command(struct guest *g, const void *cmd, size_t size)
{
	struct moor_cmd *to = (struct moor_cmd *)at(g, g->cmd_base) +
			      (g->commands & 63);

	memset(to, 0, sizeof(*to));
	memcpy(to, cmd, size);
	to->hdr.tag = (uint16_t)g->commands;
	set_slot(g, MOOR_DB_SLOT_CMD_PRODUCER, ++g->commands);
	nic_kick(g->nic, 0, MOOR_DB_SLOT_CMD_PRODUCER);
}

uint8_t command(struct guest *g, const void *cmd, size_t size)
{
	uint32_t slot = g->commands & 63, phase = !(g->commands >> 6 & 1);
	struct moor_cpl *cpl = (struct moor_cpl *)at(g, g->cpl_base) + slot;

	send_command(g, cmd, size);
	settle(g);
	if ((cpl->phase & 1) != phase || cpl->tag != (uint16_t)(g->commands - 1))
		return 0xff;
	g->cpl = *cpl;
	return cpl->status;
}

struct moor_xlat flat(uint64_t addr)
{
	return (struct moor_xlat){
		.root = (addr & MOOR_PTE_ADDR) | MOOR_PTE_PRESENT |
			MOOR_PTE_LEAF | MOOR_PTE_WRITABLE,
		.offset = addr & 4095,
		.page_shift = 12,
	};
}

void guest_set_gid(struct guest *g, unsigned int index, unsigned int id)
{
	struct moor_cmd_set_gid cmd = {
		.hdr.opcode = MOOR_CMD_SET_GID,
		.index = (uint16_t)index, .type = MOOR_GID_ROCE_V2,
		.vlan = MOOR_GID_NO_VLAN, .gid = { 0xfe, 0x80, [15] = (uint8_t)id },
	};

	if (command(g, &cmd, sizeof(cmd)))
		abort();
}

uint8_t make_cq(struct guest *g, struct guest_cq *cq, uint32_t cqn,
		uint8_t log_cqe)
{
	struct moor_cmd_create_cq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_CQ,
		.cqn = cqn, .eqn = 2, .log_cqe = log_cqe,
	};

	*cq = (struct guest_cq){ .cqn = cqn, .log_cqe = log_cqe };
	cq->ring = take(g, 64ull << log_cqe);
	cq->slot = g->next_slot++;
	cmd.doorbell = cq->slot;
	cmd.ring = flat(cq->ring);
	return command(g, &cmd, sizeof(cmd));
}

static uint64_t arm_bits(struct guest_cq *cq, enum moor_cq_arm how)
{
	return (uint64_t)how << 32 | (uint64_t)cq->arm_seq << 34;
}

bool poll_cq(struct guest *g, struct guest_cq *cq, struct moor_cqe *cqe)
{
	struct moor_cqe *from = (struct moor_cqe *)at(g, cq->ring) +
				(cq->consumer & ((1u << cq->log_cqe) - 1));
	uint32_t phase = !(cq->consumer >> cq->log_cqe & 1);

	if ((__atomic_load_n(&from->phase, __ATOMIC_ACQUIRE) & 1) != phase)
		return false;
	*cqe = *from;
	cq->consumer++;
	set_slot(g, cq->slot, cq->consumer | arm_bits(cq, 0));
	return true;
}

void arm_cq(struct guest *g, struct guest_cq *cq, enum moor_cq_arm how)
{
	cq->arm_seq++;
	set_slot(g, cq->slot, cq->consumer | arm_bits(cq, how));
}

bool next_event(struct guest *g, unsigned int eqn, struct moor_eqe *eqe)
{
	uint32_t i = g->eq_consumer[eqn];
	struct moor_eqe *from = (struct moor_eqe *)at(g, g->eq_base[eqn]) +
				(i & 15);

	if ((from->phase & 1) != !(i >> 4 & 1))
		return false;
	*eqe = *from;
	g->eq_consumer[eqn]++;
	set_slot(g, MOOR_DB_SLOT_EQ_CONSUMER + eqn, g->eq_consumer[eqn]);
	return true;
}

uint8_t make_special_qp(struct guest *g, struct guest_qp *qp, uint32_t qpn,
			uint32_t pd, const struct guest_cq *scq,
			const struct guest_cq *rcq, uint8_t type,
			uint8_t flags)
{
	struct moor_cmd_create_qp cmd = {
		.type = type,
		.hdr.opcode = MOOR_CMD_CREATE_QP,
		.qpn = qpn, .pd = pd, .cookie = qpn + 7, .flags = flags,
		.send_cqn = scq->cqn, .recv_cqn = rcq->cqn,
		.log_sq_depth = LOG_DEPTH, .log_sq_stride = LOG_STRIDE,
		.log_rq_depth = LOG_DEPTH, .log_rq_stride = LOG_STRIDE,
	};

	*qp = (struct guest_qp){ .qpn = qpn };
	qp->sq = take(g, 1u << (LOG_DEPTH + LOG_STRIDE));
	qp->rq = take(g, 1u << (LOG_DEPTH + LOG_STRIDE));
	qp->sq_slot = g->next_slot++;
	qp->rq_slot = g->next_slot++;
	cmd.sq_doorbell = qp->sq_slot;
	cmd.rq_doorbell = qp->rq_slot;
	cmd.sq = flat(qp->sq);
	cmd.rq = flat(qp->rq);
	return command(g, &cmd, sizeof(cmd));
}

uint8_t make_qp(struct guest *g, struct guest_qp *qp, uint32_t qpn, uint32_t pd,
		const struct guest_cq *scq, const struct guest_cq *rcq)
{
	return make_special_qp(g, qp, qpn, pd, scq, rcq, MOOR_QP_RC, 0);
}

uint8_t modify(struct guest *g, struct moor_cmd_modify_qp *cmd, uint32_t qpn)
{
	cmd->hdr.opcode = MOOR_CMD_MODIFY_QP;
	cmd->qpn = qpn;
	return command(g, cmd, sizeof(*cmd));
}

void connect_qp(struct guest *g, struct guest_qp *qp, uint32_t peer)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_ACCESS,
		.state = MOOR_QPS_INIT,
		.access = MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_REMOTE_READ |
			  MOOR_ACCESS_REMOTE_ATOMIC,
		.access_high = (MOOR_ACCESS_FLUSH_GLOBAL |
				MOOR_ACCESS_FLUSH_PERSISTENT) >> 8,
	};

	if (modify(g, &cmd, qp->qpn))
		abort();
	cmd = (struct moor_cmd_modify_qp){
		.mask = MOOR_MASK(13, 0) & ~(MOOR_QP_ATTR_ACCESS |
					   MOOR_QP_ATTR_SQD_EVENT),
		.state = MOOR_QPS_RTR, .path_mtu = 3, .dest_qpn = peer,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 14, .timeout = 4, .retry_cnt = 2,
		.rnr_retry = 2, .dgid = { 0xfe, 0x80, [15] = 1 },
	};
	if (modify(g, &cmd, qp->qpn))
		abort();
	cmd.mask = MOOR_QP_ATTR_STATE;
	cmd.state = MOOR_QPS_RTS;
	if (modify(g, &cmd, qp->qpn))
		abort();
}

void put_entry(struct guest *g, uint32_t key, const struct moor_mr_context *e,
	       unsigned int type)
{
	struct moor_mr_context *to = (struct moor_mr_context *)g->mr_bar +
				     (key >> 16);
	static uint8_t generation;

	generation++;
	memcpy((uint8_t *)to + 8, (const uint8_t *)e + 8, sizeof(*e) - 8);
	__atomic_store_n(&to->valid, (uint64_t)key << 32 | type |
			 (uint64_t)generation << 8,
			 __ATOMIC_RELEASE);
}

uint32_t make_mr(struct guest *g, uint32_t pd, uint32_t access, uint64_t addr,
		 uint64_t len)
{
	uint32_t key = g->next_mr++ << 16 | 0x1234;
	struct moor_mr_context e = {
		.pd = pd, .access = access, .iova = addr, .length = len,
		.xlat = flat(addr),
	};

	put_entry(g, key, &e, MOOR_MRC_TYPE_MR);
	return key;
}

unsigned int revoke_key(struct guest *g, uint32_t key)
{
	struct moor_cmd_mr_revoke cmd = {
		.hdr.opcode = MOOR_CMD_MR_REVOKE, .count = 1, .key = { key },
	};
	const struct moor_cpl_mr_revoke *out;

	if (command(g, &cmd, sizeof(cmd)))
		abort();
	out = (const void *)g->cpl.out;
	return (out->busy & 1) | (out->unknown & 1) << 1;
}

struct moor_sge sge(uint64_t addr, uint32_t len, uint32_t key)
{
	return (struct moor_sge){ .addr = addr, .length = len, .lkey = key };
}

struct moor_sq_wqe *next_send(struct guest *g, struct guest_qp *qp,
			      uint8_t opcode, uint64_t wr_id)
{
	uint32_t slot = qp->sq_producer++ & ((1u << LOG_DEPTH) - 1);
	struct moor_sq_wqe *wqe = at(g, qp->sq + (slot << LOG_STRIDE));

	memset(wqe, 0, 1u << LOG_STRIDE);
	wqe->opcode = opcode;
	wqe->flags = MOOR_WQE_FLAG_SIGNALED;
	wqe->wr_id = wr_id;
	return wqe;
}

void add_sge(struct moor_sq_wqe *wqe, struct moor_sge s)
{
	uint8_t *end = (uint8_t *)(wqe + 1);

	if (wqe->opcode == MOOR_WQE_CMP_SWAP || wqe->opcode == MOOR_WQE_FETCH_ADD)
		end += sizeof(struct moor_wqe_atomic);
	((struct moor_sge *)end)[wqe->num_sge++] = s;
}

void post_recv(struct guest *g, struct guest_qp *qp, uint64_t wr_id,
	       const struct moor_sge *sges, unsigned int num)
{
	uint32_t slot = qp->rq_producer++ & ((1u << LOG_DEPTH) - 1);
	struct moor_rq_wqe *wqe = at(g, qp->rq + (slot << LOG_STRIDE));

	memset(wqe, 0, 1u << LOG_STRIDE);
	wqe->wr_id = wr_id;
	wqe->num_sge = (uint8_t)num;
	if (num)
		memcpy(wqe + 1, sges, num * sizeof(*sges));
	set_slot(g, qp->rq_slot, qp->rq_producer);
}

void announce(struct guest *g, struct guest_qp *qp)
{
	set_slot(g, qp->sq_slot, qp->sq_producer);
	nic_kick(g->nic, qp->sq_slot / 512, qp->sq_slot % 512);
}

void ring(struct guest *g, struct guest_qp *qp)
{
	announce(g, qp);
	settle(g);
}
