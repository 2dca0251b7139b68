// SPDX-License-Identifier: GPL-2.0
/*
 * Traffic through the whole model: mapped doorbells, dozing word, kicks,
 * interrupts; and what the guest's memory map allows (HWI 6.3, 14).
 */
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "remote_nic.h"

#define PD		5
#define RIGHTS		(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
			 MOOR_ACCESS_REMOTE_READ | MOOR_ACCESS_REMOTE_ATOMIC)
#define LEN		65536u
#define PAGE		MOOR_PAGE_SIZE
#define WAIT_NS		10000000000ull
#define READ_WRITE	(VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE)

struct pair {
	struct guest *g;
	struct client *c;
	struct model *model;
	struct guest_cq cq[2];
	struct guest_qp qp[2];
	uint64_t buf[2];
	uint32_t key[2];
};

static void fill(uint8_t *p, uint32_t len, unsigned int seed)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 8) + seed);
}

static void pair_start(struct pair *p)
{
	unsigned int i;

	memset(p, 0, sizeof(*p));
	p->g = guest_start(false);
	p->c = remote_client(p->g->nic);
	p->model = remote_model(p->g->nic);
	guest_set_gid(p->g, 0, 1);
	for (i = 0; i < 2; i++) {
		if (make_cq(p->g, &p->cq[i], i, 8) ||
		    make_qp(p->g, &p->qp[i], 0x4000u * (i + 1) + 3 + i, PD,
			    &p->cq[i], &p->cq[i]))
			die("cannot create CQ and QP");
		p->buf[i] = take(p->g, LEN);
		p->key[i] = make_mr(p->g, PD, RIGHTS, p->buf[i], LEN);
		fill(at(p->g, p->buf[i]), LEN, i * 99);
	}
	connect_qp(p->g, &p->qp[0], p->qp[1].qpn);
	connect_qp(p->g, &p->qp[1], p->qp[0].qpn);
}

/* The next CQE of CQ @i, which has to come. */
static struct moor_cqe completion(struct pair *p, unsigned int i)
{
	uint64_t end = now_ns() + WAIT_NS;
	struct moor_cqe cqe;

	while (!poll_cq(p->g, &p->cq[i], &cqe))
		if (now_ns() > end)
			die("no completion");
	return cqe;
}

/* WRITE or READ between buffer 0 and a remote range; what came of it. */
static struct moor_cqe transfer(struct pair *p, uint8_t opcode, uint64_t local,
				uint32_t lkey, uint64_t remote, uint32_t rkey,
				uint32_t len)
{
	struct moor_sq_wqe *wqe = next_send(p->g, &p->qp[0], opcode, 77);

	wqe->remote_addr = remote;
	wqe->rkey = rkey;
	add_sge(wqe, sge(local, len, lkey));
	ring(p->g, &p->qp[0]);
	return completion(p, 0);
}

static void test_traffic(void)
{
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe;
	struct moor_sge to;
	struct pair p;

	pair_start(&p);
	cqe = transfer(&p, MOOR_WQE_WRITE, p.buf[0], p.key[0], p.buf[1] + 3,
		       p.key[1], LEN - 3);
	check(cqe.status == MOOR_WC_SUCCESS && cqe.wr_id == 77 &&
	      !memcmp(at(p.g, p.buf[0]), at(p.g, p.buf[1] + 3), LEN - 3),
	      "WRITE, unaligned");
	fill(at(p.g, p.buf[1]), LEN, 5);
	cqe = transfer(&p, MOOR_WQE_READ, p.buf[0], p.key[0], p.buf[1], p.key[1],
		       LEN);
	check(cqe.status == MOOR_WC_SUCCESS &&
	      !memcmp(at(p.g, p.buf[0]), at(p.g, p.buf[1]), LEN), "READ");

	arm_cq(p.g, &p.cq[1], MOOR_CQ_ARM_ANY);
	to = sge(p.buf[1], LEN, p.key[1]);
	post_recv(p.g, &p.qp[1], 88, &to, 1);
	fill(at(p.g, p.buf[0]), LEN, 200);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_SEND, 78);
	add_sge(wqe, sge(p.buf[0], 5000, p.key[0]));
	ring(p.g, &p.qp[0]);
	cqe = completion(&p, 1);
	check(cqe.status == MOOR_WC_SUCCESS && cqe.wr_id == 88 &&
	      cqe.byte_len == 5000 &&
	      !memcmp(at(p.g, p.buf[0]), at(p.g, p.buf[1]), 5000), "SEND");
	check(completion(&p, 0).status == MOOR_WC_SUCCESS, "and its sender");
	settle(p.g);
	check(p.g->raised[3] == 1 && !p.g->raised[1],
	      "the armed CQ raised its EQ's vector once, no other");

	cqe = transfer(&p, MOOR_WQE_WRITE, p.buf[0], p.key[0], p.buf[1],
		       p.key[1] ^ 1, 64);
	check(cqe.status == MOOR_WC_REM_ACCESS_ERR && !cqe.syndrome,
	      "a wrong rkey: REM_ACCESS_ERR, and no reason given");
	guest_stop(p.g);
}

/* A page taken away in the middle: HWI ACC-14. */
static void test_unmapped(void)
{
	static uint8_t before[PAGE];
	struct moor_cqe cqe;
	struct pair p;

	pair_start(&p);
	memcpy(before, at(p.g, p.buf[1] + 4 * PAGE), PAGE);
	if (client_unmap(p.c, p.buf[1] + 4 * PAGE, PAGE))
		die("unmap");
	cqe = transfer(&p, MOOR_WQE_WRITE, p.buf[0], p.key[0],
		       p.buf[1] + 4 * PAGE, p.key[1], PAGE);
	check(cqe.status == MOOR_WC_REM_ACCESS_ERR,
	      "WRITE to an unmapped page: REM_ACCESS_ERR");
	check(!memcmp(before, at(p.g, p.buf[1] + 4 * PAGE), PAGE),
	      "and nothing was written");
	check(model_logged(p.model, "DMA fault: write: "),
	      "and it is logged as a DMA fault");
	guest_stop(p.g);

	pair_start(&p);
	client_unmap(p.c, p.buf[0] + 4 * PAGE, PAGE);
	cqe = transfer(&p, MOOR_WQE_WRITE, p.buf[0], p.key[0], p.buf[1], p.key[1],
		       LEN);
	check(cqe.status == MOOR_WC_LOC_PROT_ERR && cqe.syndrome == MOOR_SYN_DMA,
	      "WRITE from an unmapped page: LOC_PROT_ERR, syndrome DMA");
	check(model_logged(p.model, "DMA fault: read: "),
	      "and it is logged as a DMA fault");
	guest_stop(p.g);
}

static void test_direction(void)
{
	const uint64_t iova = 0x50000000;
	struct moor_cqe cqe;
	struct pair p;
	uint32_t key;

	pair_start(&p);
	if (client_map(p.c, iova, LEN, 0, VFIO_DMA_MAP_FLAG_READ, p.c->mem_fd))
		die("map");
	fill(p.c->mem, LEN, 9);
	key = make_mr(p.g, PD, RIGHTS, iova, LEN);
	cqe = transfer(&p, MOOR_WQE_READ, p.buf[0], p.key[0], iova, key, LEN);
	check(cqe.status == MOOR_WC_SUCCESS &&
	      !memcmp(at(p.g, p.buf[0]), p.c->mem, LEN),
	      "memory mapped for reading is read");
	cqe = transfer(&p, MOOR_WQE_WRITE, p.buf[1], p.key[1], iova, key, 64);
	check(cqe.status == MOOR_WC_REM_ACCESS_ERR && p.c->mem[1] == 16 &&
	      model_logged(p.model, "not mapped for this direction"),
	      "and not written");
	guest_stop(p.g);
}

/* As behind an IOMMU: neighbours for DMA are strangers in memory. */
static void test_scattered(void)
{
	const uint64_t iova = 0x7f0000000;
	const unsigned int pages = LEN / PAGE;
	struct moor_cqe cqe;
	unsigned int i;
	struct pair p;
	bool same = true;
	uint32_t key;

	pair_start(&p);
	for (i = 0; i < pages; i++)
		if (client_map(p.c, iova + i * PAGE, PAGE, i * 5 % pages * PAGE,
			       READ_WRITE, p.c->mem_fd))
			die("map");
	key = make_mr(p.g, PD, RIGHTS, iova, LEN);
	cqe = transfer(&p, MOOR_WQE_WRITE, p.buf[0], p.key[0], iova, key, LEN);
	for (i = 0; i < pages; i++)
		same &= !memcmp(at(p.g, p.buf[0] + i * PAGE),
				p.c->mem + i * 5 % pages * PAGE, PAGE);
	check(cqe.status == MOOR_WC_SUCCESS && same,
	      "WRITE through %u pages in disorder", pages);
	client_unmap(p.c, iova, LEN);
	cqe = transfer(&p, MOOR_WQE_WRITE, p.buf[0], p.key[0], iova, key, 64);
	check(cqe.status == MOOR_WC_REM_ACCESS_ERR, "all unmapped at once");
	guest_stop(p.g);
}

/* HWI ERR-4 */
static void test_bus_master(void)
{
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe;
	struct pair p;

	pair_start(&p);
	nic_set_bus_master(p.g->nic, false);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_WRITE, 1);
	wqe->remote_addr = p.buf[1];
	wqe->rkey = p.key[1];
	add_sge(wqe, sge(p.buf[0], LEN, p.key[0]));
	ring(p.g, &p.qp[0]);
	check(!poll_cq(p.g, &p.cq[0], &cqe) &&
	      memcmp(at(p.g, p.buf[0]), at(p.g, p.buf[1]), LEN),
	      "bus mastering off: nothing moves");
	nic_set_bus_master(p.g->nic, true);
	cqe = completion(&p, 0);
	check(cqe.status == MOOR_WC_SUCCESS &&
	      !memcmp(at(p.g, p.buf[0]), at(p.g, p.buf[1]), LEN),
	      "on: it goes on");
	guest_stop(p.g);
}

static void post_many(struct pair *p)
{
	unsigned int i;

	for (i = 0; i < 48; i++) {
		struct moor_sq_wqe *wqe = next_send(p->g, &p->qp[0],
						    MOOR_WQE_WRITE, i);

		wqe->remote_addr = p->buf[1];
		wqe->rkey = p->key[1];
		add_sge(wqe, sge(p->buf[0], LEN, p->key[0]));
	}
	__atomic_store_n((uint64_t *)p->g->db_bar + p->qp[0].sq_slot,
			 p->qp[0].sq_producer, __ATOMIC_SEQ_CST);
	nic_kick(p->g->nic, p->qp[0].sq_slot / MOOR_DB_SLOTS_PER_PAGE,
		 p->qp[0].sq_slot % MOOR_DB_SLOTS_PER_PAGE);
}

static void test_reset_under_load(void)
{
	struct client next;
	struct pair p;

	pair_start(&p);
	post_many(&p);
	config_write16(p.c, 0x40 + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_BCR_FLR);
	check(reg_read(p.c, MOOR_REG_STATUS) == MOOR_STATUS_READY ||
	      reg_read(p.c, MOOR_REG_STATUS) ==
	      (MOOR_STATUS_READY | MOOR_STATUS_LINK_UP),
	      "FLR under load: ready, not enabled, not fatal");
	nic_set_bus_master(p.g->nic, true);
	guest_setup(p.g);
	guest_set_gid(p.g, 0, 1);
	check(reg_read(p.c, MOOR_REG_STATUS) & MOOR_STATUS_ENABLED,
	      "and a driver can begin anew");
	guest_stop(p.g);

	pair_start(&p);
	post_many(&p);
	client_unmap(p.c, p.buf[1], LEN);
	memset(at(p.g, p.buf[1]), 0x5a, LEN);
	check(reg_read(p.c, MOOR_REG_MAGIC) == MOOR_MAGIC &&
	      ((uint8_t *)at(p.g, p.buf[1]))[LEN - 1] == 0x5a &&
	      ((uint8_t *)at(p.g, p.buf[1]))[0] == 0x5a,
	      "unmapped under load: nothing is written once it is answered");
	post_many(&p);
	client_disconnect(p.c);
	client_init(&next);
	client_connect(&next, p.model);
	client_setup(&next);
	check(reg_read64(&next, MOOR_REG_CMD_BASE) == 0,
	      "the client leaves under load: the next finds a reset NIC");
	client_destroy(&next);
	guest_stop(p.g);
}

/* As command(), but without a kick as long as the NIC is awake. */
static uint8_t command_awake(struct guest *g, const void *cmd, size_t size)
{
	uint32_t slot = g->commands & 63, phase = !(g->commands >> 6 & 1);
	struct moor_cmd *to = (struct moor_cmd *)at(g, g->cmd_base) + slot;
	struct moor_cpl *cpl = (struct moor_cpl *)at(g, g->cpl_base) + slot;
	uint64_t end = now_ns() + WAIT_NS;

	memset(to, 0, sizeof(*to));
	memcpy(to, cmd, size);
	to->hdr.tag = (uint16_t)g->commands;
	g->commands++;
	__atomic_store_n((uint64_t *)g->db_bar + MOOR_DB_SLOT_CMD_PRODUCER,
			 g->commands, __ATOMIC_SEQ_CST);
	while ((__atomic_load_n(&cpl->phase, __ATOMIC_ACQUIRE) & 1) != phase) {
		if (now_ns() > end)
			die("no completion");
		if (*(volatile uint32_t *)at(g, g->doze))
			nic_kick(g->nic, 0, MOOR_DB_SLOT_CMD_PRODUCER);
	}
	return cpl->status;
}

/*
 * What was written to BAR2 before a doorbell governs what the NIC does when it
 * sees that doorbell, kicked or not (HWI ORD-3).
 */
static void test_trapped(void)
{
	const char *const options[] = { "--trap-bar2", NULL };
	unsigned int known = 0, i, word;
	struct client *c;
	struct guest *g;

	remote_options(options);
	g = guest_start(false);
	c = remote_client(g->nic);
	for (i = 0; i < 100; i++) {
		uint32_t key = (8 + i) << 16 | 0x1234;
		const struct moor_cmd_mr_query query = {
			.hdr.opcode = MOOR_CMD_MR_QUERY, .key = key,
		};
		const struct moor_mr_context e = {
			.valid = (uint64_t)key << 32 | MOOR_MRC_TYPE_MR,
			.pd = PD, .length = LEN, .xlat = flat(GUEST_BASE),
		};

		/* The valid word last. */
		for (word = sizeof(e) / 8; word-- > 0; )
			client_write(c, MOOR_BAR_MR, (8 + i) * sizeof(e) + 8 * word,
				     (const uint64_t *)&e + word, 8);
		known += !command_awake(g, &query, sizeof(query));
	}
	check(known == 100, "--trap-bar2: %u of 100 entries are there when the doorbell is", known);
	guest_stop(g);
	remote_options(NULL);
}

int main(void)
{
	test_traffic();
	test_unmapped();
	test_direction();
	test_scattered();
	test_bus_master();
	test_reset_under_load();
	test_trapped();
	return check_done();
}
