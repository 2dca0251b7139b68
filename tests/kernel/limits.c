// SPDX-License-Identifier: GPL-2.0
/*
 * The largest queues that the device announces. A ring is one piece of coherent memory:
 * without an IOMMU the page allocator has no piece larger than MAX_PIECE, and says so
 * without a word in the log.
 */

#include <linux/iommu.h>

#include "verbs_test.h"

#define MAX_PIECE	(PAGE_SIZE << MAX_PAGE_ORDER)
#define CQE_BYTES	64
#define RECV_SGE_BYTES	16

/* Was that the answer for rings of up to so many bytes? */
static bool as_expected(struct ib_device *dev, long err, u64 bytes)
{
	if (!err)
		return true;
	return err == -ENOMEM && bytes > MAX_PIECE &&
	       !device_iommu_mapped(dev->dma_device);
}

/* All of a receive queue is filled, flushed, and comes back in its order. */
static bool is_of_use(struct link *link, struct ib_qp *qp, struct ib_cq *cq,
		      u32 depth)
{
	struct ib_recv_wr wr = {};
	struct ib_wc wc;
	u32 i;

	link->qp[0] = qp;
	link->qp[1] = qp;
	link->cq[0] = cq;
	if (!link_state(link, 0, IB_QPS_INIT))
		return false;
	for (i = 0; i < depth; i++) {
		wr.wr_id = i;
		if (ib_post_recv(qp, &wr, NULL))
			return false;
	}
	if (ib_post_recv(qp, &wr, NULL) != -ENOMEM ||
	    !link_state(link, 0, IB_QPS_ERR))
		return false;
	for (i = 0; i < depth; i++)
		if (!link_poll(link, 0, &wc) || wc.wr_id != i ||
		    wc.status != IB_WC_WR_FLUSH_ERR)
			return false;
	return link_quiet(link, 0);
}

static void try_qp(struct ib_device *dev, struct ib_pd *pd, struct ib_cq *cq,
		   u32 sges, u64 bytes)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = {
			.max_send_wr = 16, .max_send_sge = 1,
			.max_recv_wr = dev->attrs.max_qp_wr,
			.max_recv_sge = sges,
		},
	};
	struct link link = { .dev = dev };
	struct ib_qp *qp = ib_create_qp(pd, &attr);

	if (!point(as_expected(dev, PTR_ERR_OR_ZERO(qp), bytes),
		   "%u receives of %u SGEs: %ld", attr.cap.max_recv_wr, sges,
		   (long)PTR_ERR_OR_ZERO(qp)) ||
	    IS_ERR(qp))
		return;
	point(is_of_use(&link, qp, cq, attr.cap.max_recv_wr),
	      "and all of them are of use");
	ib_destroy_qp(qp);
}

static void test_limits(struct ib_device *dev, u32 seed)
{
	struct ib_cq_init_attr cq_attr = { .cqe = dev->attrs.max_qp_wr + 16 };
	struct ib_pd *pd = ib_alloc_pd(dev, 0);
	struct ib_cq *cq, *most;

	if (IS_ERR(pd))
		return;
	cq = ib_create_cq(dev, NULL, NULL, NULL, &cq_attr);
	if (!point(!IS_ERR(cq), "a CQ for as many receives as there can be"))
		goto dealloc;
	try_qp(dev, pd, cq, 1, dev->attrs.max_qp_wr * 2 * RECV_SGE_BYTES);
	try_qp(dev, pd, cq, dev->attrs.max_recv_sge,
	       (u64)dev->attrs.max_qp_wr * RECV_SGE_BYTES *
	       roundup_pow_of_two(1 + dev->attrs.max_recv_sge));
	cq_attr.cqe = dev->attrs.max_cqe;
	most = ib_create_cq(dev, NULL, NULL, NULL, &cq_attr);
	point(as_expected(dev, PTR_ERR_OR_ZERO(most), (u64)cq_attr.cqe * CQE_BYTES),
	      "a CQ of %u: %ld", cq_attr.cqe, (long)PTR_ERR_OR_ZERO(most));
	if (!IS_ERR(most))
		ib_destroy_cq(most);
	cq_attr.cqe++;
	most = ib_create_cq(dev, NULL, NULL, NULL, &cq_attr);
	point(most == ERR_PTR(-EINVAL), "one more: EINVAL");
	ib_destroy_cq(cq);
dealloc:
	ib_dealloc_pd(pd);
}

const struct verbs_test limit_tests[] = {
	{ "limits", test_limits },
	{}
};
