// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "paged.h"

/* Longer than the retries of traffic.c, which take some two milliseconds. */
#define PATIENCE_NS	10000000ull

uint64_t paged_addr(unsigned int side, uint64_t off)
{
	return 0x7f0000000000ull + side * 0x10000000ull + off;
}

struct moor_mr_context paged_entry(const struct paged *p, unsigned int side)
{
	struct moor_mr_context e = mr_entry(PD, PAGED_RIGHTS,
					    paged_addr(side, 0), PAGES * PAGE);

	e.xlat = (struct moor_xlat){
		.root = p->root[side] | MOOR_PTE_PRESENT, .levels = 2,
		.page_shift = 12,
	};
	return e;
}

static void make_memory(struct paged *p, unsigned int side)
{
	struct moor_mr_context e;

	p->pages[side] = take_filled(PAGES * PAGE, side + 1);
	p->root[side] = take(PAGE);
	p->node[side] = take(PAGE);
	*(uint64_t *)at(p->root[side]) = p->node[side] | MOOR_PTE_PRESENT;
	e = paged_entry(p, side);
	p->key[side] = make_entry(&e, MOOR_MRC_TYPE_MR);
}

void make_paged_type(struct paged *p, uint8_t type)
{
	struct pair *pair = &p->pair;
	unsigned int i;

	memset(p, 0, sizeof(*p));
	make_eq(MOOR_EQ_PAGE_REQUEST, LOG_EQE, eq_vector(MOOR_EQ_PAGE_REQUEST));
	for (i = 0; i < 2; i++) {
		struct moor_cmd_create_qp cmd;

		make_cq(&pair->cq[i], i, LOG_DEPTH + 1);
		cmd = qp_command(&pair->qp[i], &pair->cq[i], &pair->cq[i]);
		cmd.type = type;
		must(cmd);
		make_memory(p, i);
	}
	for (i = 0; i < 2; i++)
		connect_qp(&pair->qp[i], pair->qp[!i].qpn);
	drop_events(MOOR_EQ_ASYNC);
}

void make_paged(struct paged *p)
{
	make_paged_type(p, MOOR_QP_RC);
}

void page_in(struct paged *p, unsigned int side, uint64_t page,
	     unsigned int num, bool writable)
{
	uint64_t *to = (uint64_t *)at(p->node[side]) + page;
	uint64_t addr = p->pages[side] + page * PAGE;

	for (; num--; addr += PAGE)
		__atomic_store_n(to++, addr | MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
				 (writable ? MOOR_PTE_WRITABLE : 0),
				 __ATOMIC_RELEASE);
}

void page_out(struct paged *p, unsigned int side, uint64_t page,
	      unsigned int num)
{
	uint64_t *to = (uint64_t *)at(p->node[side]) + page;
	uint8_t status;

	for (uint64_t i = 0; i < num; i++)
		__atomic_store_n(to + i, 0, __ATOMIC_RELEASE);
	status = invalidate(p->key[side], paged_addr(side, page * PAGE),
			    num * PAGE);
	need(!status, "MR_INVALIDATE: status %u", status);
}

uint8_t invalidate(uint32_t key, uint64_t addr, uint64_t length)
{
	struct moor_cmd_mr_invalidate cmd = {
		.hdr.opcode = MOOR_CMD_MR_INVALIDATE,
		.key = key, .addr = addr, .length = length,
	};

	return do_command(cmd);
}

void paged_post(struct paged *p, uint8_t opcode, uint64_t wr_id, uint64_t local,
		uint64_t remote, uint32_t len)
{
	post_send(&p->pair.qp[0], (struct send_wr){
		.opcode = opcode, .wr_id = wr_id,
		.remote = paged_addr(1, remote), .rkey = p->key[1],
		SGE(paged_addr(0, local), len, p->key[0]),
		.atomic = { .swap_add = 1 },
	});
}

void paged_recv(struct paged *p, uint64_t wr_id, uint64_t off, uint32_t len)
{
	post_recv(&p->pair.qp[1], wr_id, paged_addr(1, off), len, p->key[1]);
}

struct moor_page_request expect_request(struct paged *p, unsigned int side,
					uint64_t off, unsigned int qp,
					uint8_t flags)
{
	uint64_t first = paged_addr(side, 0), addr = first + off;
	struct moor_page_request r = { 0 };
	struct moor_eqe eqe;

	need(wait_event(MOOR_EQ_PAGE_REQUEST, &eqe), "nobody asks for byte 0x%llx",
	     (unsigned long long)off);
	memcpy(&r, &eqe, sizeof(r));
	expect(r.type == MOOR_EVENT_PAGE_REQUEST && r.flags == flags &&
	       !r.reserved1[0] && !r.reserved1[1] && !(r.phase & ~1u),
	       "type 0x%02x, flags %u where %u was due", r.type, r.flags, flags);
	expect(r.key == p->key[side] && r.qpn == p->pair.qp[qp].qpn,
	       "key 0x%08x of QP 0x%06x", r.key, r.qpn);
	expect(r.addr == addr && r.length && r.length <= PAGES * PAGE - off,
	       "%u bytes from 0x%llx where 0x%llx was due", r.length,
	       (unsigned long long)(r.addr - first), (unsigned long long)off);
	return r;
}

uint8_t answer_request(uint32_t token, uint8_t status)
{
	struct moor_cmd_page_response cmd = {
		.hdr.opcode = MOOR_CMD_PAGE_RESPONSE,
		.token = token, .status = status,
	};

	return do_command(cmd);
}

void must_answer(uint32_t token, uint8_t status)
{
	uint8_t got = answer_request(token, status);

	need(!got, "PAGE_RESPONSE: status %u", got);
}

void while_it_waits(struct paged *p)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (now_ns() < end)
		breathe();
	expect_no_cqe(&p->pair.cq[0]);
	expect_no_cqe(&p->pair.cq[1]);
}
