// SPDX-License-Identifier: GPL-2.0
#include "platform.h"
#include "traffic.h"

#define LEN	64u

/* A QP that is connected to itself, so that the smallest device has room for it. */
struct self {
	struct cq cq;
	struct qp qp;
};

static void begin(struct self *s)
{
	host_begin();
	make_cq(&s->cq, 0, 4);
	make_qp(&s->qp, &s->cq, &s->cq);
	connect_qp(&s->qp, s->qp.qpn);
}

/* The null MR is read, and the memory that is nowhere is written, by a WRITE. */
static bool write_is_reported(void)
{
	struct self s;

	begin(&s);
	post_send(&s.qp, (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = NOWHERE,
		.rkey = make_mr(PD, ALL_RIGHTS, NOWHERE, PAGE),
		SGE(0, LEN, dev.null_lkey),
	});
	return wait_cqe(&s.cq).status;
}

/* The result of a READ. */
static bool read_result_is_reported(void)
{
	struct self s;
	uint64_t from;

	if (dev.consumer_first < MOOR_MR_INDEX_FIRST + 2)
		return false;
	begin(&s);
	from = take(PAGE);
	post_send(&s.qp, (struct send_wr){
		.opcode = MOOR_WQE_READ, .remote = from,
		.rkey = make_mr(PD, ALL_RIGHTS, from, PAGE),
		SGE(NOWHERE, LEN, make_mr(PD, ALL_RIGHTS, NOWHERE, PAGE)),
	});
	return wait_cqe(&s.cq).status;
}

/* CQEs. */
static bool completion_is_reported(void)
{
	struct self s;

	begin(&s);
	settle();
	dma_unmap(s.cq.ring, PAGE);
	post_send(&s.qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	settle();
	dma_restore();
	return query_qp(&s.qp).state == MOOR_QPS_ERR;
}

bool platform_reports_writes(void)
{
	static bool known, reports;

	if (known)
		return reports;
	reports = write_is_reported() || read_result_is_reported() ||
		  completion_is_reported();
	known = true;
	host_begin();
	return reports;
}
