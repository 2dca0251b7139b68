// SPDX-License-Identifier: GPL-2.0
/* Two connected QPs with memory on demand (HWI 6.10), and a host that pages it. */
#include <string.h>

#include "paged.h"

static uint64_t *entries(struct paged *p, uint64_t node)
{
	return at(p->g, node);
}

/* A table of two nodes, of which the upper knows the lower. */
static void make_memory(struct paged *p, int i)
{
	struct paged_memory *m = &p->m[i];
	struct moor_mr_context e = {
		.pd = PAGED_PD, .access = PAGED_RIGHTS, .iova = PAGED_IOVA(i),
		.length = PAGED_SIZE - PAGED_OFFSET,
		.xlat = { .offset = PAGED_OFFSET, .page_shift = 12,
			  .levels = 2 },
	};

	m->pages = take(p->g, PAGED_SIZE);
	m->root = take(p->g, 4096);
	m->node = take(p->g, 4096);
	m->key = p->g->next_mr++ << 16 | 0x4321;
	memset(at(p->g, m->root), 0, 4096);
	memset(at(p->g, m->node), 0, 4096);
	entries(p, m->root)[0] = m->node | MOOR_PTE_PRESENT;
	e.xlat.root = m->root | MOOR_PTE_PRESENT;
	put_entry(p->g, m->key, &e, MOOR_MRC_TYPE_MR);
	paged_fill(p, i, (uint8_t)(i + 1));
}

void paged_start(struct paged *p, bool strict, uint8_t type)
{
	uint8_t mtu = p->mtu;
	int i;

	memset(p, 0, sizeof(*p));
	p->mtu = mtu ? mtu : 3;
	p->g = guest_start(strict);
	guest_set_gid(p->g, 0, 1);
	for (i = 0; i < 2; i++) {
		if (make_cq(p->g, &p->cq[i], (uint32_t)i, 8) ||
		    make_special_qp(p->g, &p->qp[i], 0x4000u * (i + 1) + 3 + i,
				    PAGED_PD, &p->cq[i], &p->cq[i], type, 0))
			ok(false, "create CQ and QP");
		make_memory(p, i);
	}
	for (i = 0; i < 2; i++) {
		struct moor_cmd_modify_qp cmd = {
			.mask = MOOR_QP_ATTR_PATH_MTU, .path_mtu = p->mtu,
		};

		connect_qp(p->g, &p->qp[i], p->qp[!i].qpn);
		modify(p->g, &cmd, p->qp[i].qpn);
	}
	paged_retries(p, 0, 0);
}

void paged_retries(struct paged *p, uint8_t retry_cnt, uint8_t rnr_retry)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_RETRY_CNT | MOOR_QP_ATTR_RNR_RETRY |
			MOOR_QP_ATTR_MAX_RD_ATOMIC |
			MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC,
		.retry_cnt = retry_cnt, .rnr_retry = rnr_retry,
		.max_rd_atomic = 4, .max_dest_rd_atomic = 4,
	};
	int i;

	for (i = 0; i < 2; i++)
		modify(p->g, &cmd, p->qp[i].qpn);
}

void paged_stop(struct paged *p)
{
	guest_stop(p->g);
}

void paged_fill(struct paged *p, int side, uint8_t seed)
{
	uint8_t *to = at(p->g, p->m[side].pages);
	uint32_t i;

	for (i = 0; i < PAGED_SIZE; i++)
		to[i] = (uint8_t)(i * 11 + (i >> 9) + (i >> 16) + 101 * seed);
}

uint8_t *paged_at(struct paged *p, int side, uint32_t off)
{
	return at(p->g, p->m[side].pages + PAGED_OFFSET + off);
}

uint64_t paged_addr(int side, uint32_t off)
{
	return PAGED_IOVA(side) + off;
}

void paged_in(struct paged *p, int side, uint32_t page, uint32_t num,
	      bool writable)
{
	uint64_t *to = entries(p, p->m[side].node) + page;
	uint64_t addr = p->m[side].pages + page * 4096u;

	for (; num--; addr += 4096)
		__atomic_store_n(to++, addr | MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
				 (writable ? MOOR_PTE_WRITABLE : 0),
				 __ATOMIC_RELEASE);
}

void paged_out(struct paged *p, int side, uint32_t page, uint32_t num)
{
	memset(entries(p, p->m[side].node) + page, 0, num * sizeof(uint64_t));
}

uint8_t paged_invalidate(struct paged *p, int side, uint64_t addr,
			 uint64_t length)
{
	struct moor_cmd_mr_invalidate cmd = {
		.hdr.opcode = MOOR_CMD_MR_INVALIDATE,
		.key = p->m[side].key, .addr = addr, .length = length,
	};

	return command(p->g, &cmd, sizeof(cmd));
}

bool paged_request(struct paged *p, struct moor_page_request *request)
{
	struct moor_eqe eqe;

	memset(request, 0, sizeof(*request));
	if (!next_event(p->g, MOOR_EQ_PAGE_REQUEST, &eqe))
		return false;
	memcpy(request, &eqe, sizeof(*request));
	return true;
}

uint8_t paged_answer(struct paged *p, uint32_t token, uint8_t status)
{
	struct moor_cmd_page_response cmd = {
		.hdr.opcode = MOOR_CMD_PAGE_RESPONSE,
		.token = token, .status = status,
	};

	return command(p->g, &cmd, sizeof(cmd));
}

bool paged_is(struct paged *p, const struct moor_page_request *r, int mr,
	      uint32_t off, int qp, uint8_t flags)
{
	bool good = r->type == MOOR_EVENT_PAGE_REQUEST && r->flags == flags &&
		    !r->reserved1[0] && !r->reserved1[1] &&
		    r->key == p->m[mr].key && r->qpn == p->qp[qp].qpn &&
		    r->addr == paged_addr(mr, off) && r->length &&
		    r->length <= PAGED_SIZE - PAGED_OFFSET - off;

	if (!good)
		ok(false, "request: type %u flags %u key 0x%x qpn 0x%x byte %lld length %u",
		   r->type, r->flags, r->key, r->qpn,
		   (long long)(r->addr - paged_addr(mr, 0)), r->length);
	return good;
}

unsigned int paged_serve(struct paged *p, int mr, int qp, uint8_t flags)
{
	struct moor_page_request r;
	unsigned int count = 0;

	settle_timers(p->g, 100);
	while (paged_request(p, &r)) {
		uint32_t off = (uint32_t)(r.addr - paged_addr(mr, 0));

		if (!paged_is(p, &r, mr, off, qp, flags))
			return 0;
		paged_in(p, mr, (off + PAGED_OFFSET) / 4096, 1, true);
		if (paged_answer(p, r.token, MOOR_PAGE_RESOLVED)) {
			ok(false, "PAGE_RESPONSE");
			return 0;
		}
		count++;
		settle_timers(p->g, 100);
	}
	return count;
}

bool paged_let_go(struct paged *p, int mr, uint32_t off, int qp, uint8_t flags,
		  uint8_t status)
{
	struct moor_page_request r;

	settle_timers(p->g, 100);
	if (!paged_request(p, &r)) {
		ok(false, "no request for byte %u", off);
		return false;
	}
	if (!paged_is(p, &r, mr, off, qp, flags) ||
	    paged_answer(p, r.token, status))
		return false;
	settle_timers(p->g, 100);
	return true;
}

struct moor_sge paged_sge(struct paged *p, int side, uint32_t off, uint32_t len)
{
	return sge(paged_addr(side, off), len, p->m[side].key);
}

struct moor_sq_wqe *paged_post(struct paged *p, uint8_t opcode, uint64_t wr_id,
			       uint32_t off, uint32_t remote, uint32_t len)
{
	struct moor_sq_wqe *wqe = next_send(p->g, &p->qp[0], opcode, wr_id);

	wqe->remote_addr = paged_addr(1, remote);
	wqe->rkey = p->m[1].key;
	add_sge(wqe, paged_sge(p, 0, off, len));
	return wqe;
}

void paged_recv(struct paged *p, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct moor_sge s = paged_sge(p, 1, off, len);

	post_recv(p->g, &p->qp[1], wr_id, &s, 1);
}

bool paged_got(struct paged *p, int side, uint8_t status, uint64_t wr_id,
	       uint8_t syndrome)
{
	struct moor_cqe cqe = { 0 };

	if (!poll_cq(p->g, &p->cq[side], &cqe))
		return false;
	if (cqe.status == status && cqe.wr_id == wr_id &&
	    cqe.syndrome == syndrome)
		return true;
	ok(false, "CQE: status %u wr_id %llu syndrome %u", cqe.status,
	   (unsigned long long)cqe.wr_id, cqe.syndrome);
	return false;
}

bool paged_quiet(struct paged *p, int side)
{
	struct moor_cqe cqe;

	return !poll_cq(p->g, &p->cq[side], &cqe);
}

bool paged_same(struct paged *p, uint32_t off, uint32_t remote, uint32_t len)
{
	return !memcmp(paged_at(p, 0, off), paged_at(p, 1, remote), len);
}
