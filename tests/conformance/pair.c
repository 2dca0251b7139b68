// SPDX-License-Identifier: GPL-2.0
/* Two QPs that are connected (traffic.h). */
#include <string.h>

#include "platform.h"
#include "traffic.h"

void make_pair(struct pair *p)
{
	unsigned int i;

	at_least(max_cq, 2);
	at_least(max_mr_size, BUF);
	memset(p, 0, sizeof(*p));
	for (i = 0; i < 2; i++) {
		make_cq(&p->cq[i], i, LOG_DEPTH + 1);
		make_qp(&p->qp[i], &p->cq[i], &p->cq[i]);
		p->buf[i] = take_filled(BUF, i + 1);
		p->key[i] = make_mr(PD, ALL_RIGHTS, p->buf[i], BUF);
	}
	connect_qp(&p->qp[0], p->qp[1].qpn);
	connect_qp(&p->qp[1], p->qp[0].qpn);
}

uint32_t longest(uint32_t len)
{
	if (len > dev.max_msg_size)
		len = dev.max_msg_size;
	return len < dev.max_mr_size ? len : (uint32_t)dev.max_mr_size;
}

void reconnect(struct pair *p)
{
	struct moor_cqe cqe;
	unsigned int i;

	for (i = 0; i < 2; i++)
		reset_qp(&p->qp[i]);
	for (i = 0; i < 2; i++) {
		while (poll_cqe(&p->cq[i], &cqe))
			;
		connect_qp(&p->qp[i], p->qp[!i].qpn);
	}
	drop_events(MOOR_EQ_ASYNC);
}

void connect_with(struct pair *p, uint8_t rnr_timer, uint8_t rnr_retry,
		  uint8_t timeout, uint8_t retry_cnt)
{
	unsigned int i;

	reset_qp(&p->qp[0]);
	reset_qp(&p->qp[1]);
	for (i = 0; i < 2; i++) {
		struct moor_cmd_modify_qp rtr = to_rtr(p->qp[!i].qpn);
		struct moor_cmd_modify_qp rts = to_rts();

		must_modify(&p->qp[i], to_init());
		rtr.min_rnr_timer = rnr_timer;
		must_modify(&p->qp[i], rtr);
		rts.rnr_retry = rnr_retry;
		rts.timeout = timeout;
		rts.retry_cnt = retry_cnt;
		must_modify(&p->qp[i], rts);
	}
}

struct moor_cqe move(struct pair *p, uint8_t opcode, uint64_t local,
		     uint32_t lkey, uint64_t remote, uint32_t rkey,
		     uint32_t len)
{
	post_send(&p->qp[0], (struct send_wr){
		.opcode = opcode, .wr_id = 0x77, .remote = remote, .rkey = rkey,
		SGE(local, len, lkey),
		.atomic = { .swap_add = 1 },
	});
	return wait_cqe(&p->cq[0]);
}

void expect_local(struct pair *p, uint8_t opcode, uint32_t lkey, uint64_t addr,
		  uint32_t len, uint8_t syndrome)
{
	struct moor_cqe cqe = move(p, opcode, addr, lkey, p->buf[1], p->key[1],
				   len);
	uint8_t due = syndrome ? MOOR_WC_LOC_PROT_ERR : MOOR_WC_SUCCESS;

	expect(cqe.status == due && cqe.syndrome == syndrome,
	       "local access: status %u, syndrome %u, where %u, %u was due",
	       cqe.status, cqe.syndrome, due, syndrome);
	if (cqe.status)
		reconnect(p);
}

void expect_remote(struct pair *p, uint8_t opcode, uint32_t rkey, uint64_t addr,
		   uint32_t len, bool allowed)
{
	struct moor_cqe cqe = move(p, opcode, p->buf[0], p->key[0], addr, rkey,
				   len);
	uint8_t due = allowed ? MOOR_WC_SUCCESS : MOOR_WC_REM_ACCESS_ERR;

	expect(cqe.status == due && !cqe.syndrome,
	       "remote access: status %u, syndrome %u, where %u, 0 was due",
	       cqe.status, cqe.syndrome, due);
	if (cqe.status) {
		expect_event(MOOR_EVENT_QP_ACCESS_ERR, p->qp[1].qpn);
		reconnect(p);
	}
}

struct moor_cqe expect_unless_lost(struct cq *cq, bool may_be_lost, uint64_t wr_id,
				   uint8_t status, uint8_t syndrome)
{
	struct moor_cqe cqe;

	if (!may_be_lost)
		return expect_cqe(cq, wr_id, status, syndrome);
	cqe = wait_cqe(cq);
	expect(cqe.wr_id == wr_id &&
	       (cqe.status ? cqe.status == status && cqe.syndrome == syndrome : !cqe.syndrome),
	       "CQE of %llu: status %u, syndrome %u, where %llu: %u, %u or a success was due",
	       (unsigned long long)cqe.wr_id, cqe.status, cqe.syndrome,
	       (unsigned long long)wr_id, status, syndrome);
	return cqe;
}

void expect_lost(struct pair *p, uint8_t opcode, uint64_t addr, uint32_t key,
		 uint32_t len)
{
	bool local = opcode == MOOR_WQE_READ;
	struct moor_cqe cqe;

	if (platform_reports_writes()) {
		if (local)
			expect_local(p, opcode, key, addr, len, MOOR_SYN_DMA);
		else
			expect_remote(p, opcode, key, addr, len, false);
		return;
	}
	cqe = local ? move(p, opcode, addr, key, p->buf[1], p->key[1], len) :
		      move(p, opcode, p->buf[0], p->key[0], addr, key, len);
	expect(!cqe.status || cqe.status == (local ? MOOR_WC_LOC_PROT_ERR :
						     MOOR_WC_REM_ACCESS_ERR),
	       "status %u of a write that the platform refuses", cqe.status);
	if (cqe.status)
		reconnect(p);
}

static struct moor_mr_context torn_entry(bool absent, uint64_t memory)
{
	struct moor_mr_context e = mr_entry(PD, ALL_RIGHTS, TORN_IOVA, 3 * PAGE);
	uint64_t table = take(PAGE);
	unsigned int i;

	for (i = 0; i < 3; i++)
		((uint64_t *)at(table))[i] = (memory + i * PAGE) |
			MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	((uint64_t *)at(table))[2] = absent ? 0 : NOWHERE | MOOR_PTE_PRESENT |
					      MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	e.xlat = (struct moor_xlat){
		.root = table | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
	};
	return e;
}

uint32_t make_torn_mr(bool absent, uint64_t memory)
{
	struct moor_mr_context e = torn_entry(absent, memory);

	return make_entry(&e, MOOR_MRC_TYPE_MR);
}

uint32_t make_torn_word(bool absent, uint64_t memory)
{
	struct moor_mr_context e = torn_entry(absent, memory);

	e.xlat.offset = 4;
	return make_entry(&e, MOOR_MRC_TYPE_MR);
}
