// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts and event queues (HWI 9). EQ 0 brings asynchronous events on
 * vector 1; each completion vector has an EQ and an interrupt of its own. EQ 1, which
 * brings page requests, has an interrupt of its own if there are enough vectors.
 */

#include <linux/interrupt.h>
#include <linux/io-64-nonatomic-lo-hi.h>

#include "moor.h"

#define MOOR_ASYNC_LOG_EQE	8
#define MOOR_PAGE_LOG_EQE	10
#define MOOR_COMP_LOG_EQE	11
#define MOOR_VECTOR_COMP	(MOOR_VECTOR_ASYNC + 1U)
#define MOOR_EQ_BUDGET		128	/* events at a time with interrupts off */

/*
 * A device may name a CQ in an event queue that is not the CQ's. Such an event is passed
 * over, because the lock of the CQ's own event queue is not held.
 */
static void moor_cq_completion(struct moor_eq *eq, u32 cqn)
{
	struct moor_cq *cq = xa_load(&eq->mdev->cqs, cqn);

	if (cq && cq->eq == eq)
		moor_cq_tell(cq);
}

static void moor_cq_error(struct moor_dev *mdev, u32 cqn)
{
	struct moor_cq *cq = xa_load(&mdev->cqs, cqn);
	struct ib_event event = { .device = &mdev->ibdev };

	if (!cq)
		return;
	if (!cq->uctx)
		moor_kernel_cq_failed(cq);
	if (!cq->ibcq.event_handler)
		return;
	event.event = IB_EVENT_CQ_ERR;
	event.element.cq = &cq->ibcq;
	cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

static void moor_qp_event(struct moor_dev *mdev, u32 qpn,
			  enum ib_event_type type)
{
	struct moor_qp *qp = moor_qp_find(mdev, qpn);
	struct ib_event event = { .device = &mdev->ibdev, .event = type };

	/* The core is still making the QP, and its user does not know it yet. */
	if (!qp || !READ_ONCE(qp->left_reset))
		return;
	/*
	 * The QP's queue is not flushed (HWI WQ-5): a task that drains it would wait for
	 * ever. A device that cannot read or understand a kernel queue is of no use.
	 */
	if (moor_qp_is_kernel(qp) && type == IB_EVENT_QP_FATAL)
		moor_hw_kill_later(mdev, "it cannot use a queue of the kernel");
	if (!qp->ibqp.event_handler)
		return;
	/* Once: what kills the device may have raised it (moor_kernel_qp_last_wqe_work()). */
	if (moor_qp_is_kernel(qp) && type == IB_EVENT_QP_LAST_WQE_REACHED &&
	    test_and_set_bit(MOOR_KERNEL_QP_LAST_WQE, &qp->kernel.flags))
		return;
	event.element.qp = &qp->ibqp;
	qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
}

static void moor_srq_event(struct moor_dev *mdev, u32 srqn,
			   enum ib_event_type type)
{
	struct moor_srq *srq = moor_srq_find(mdev, srqn);
	struct ib_event event = { .device = &mdev->ibdev, .event = type };

	if (!srq || !srq->ibsrq.event_handler)
		return;
	event.element.srq = &srq->ibsrq;
	srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

static bool moor_async_event(struct moor_dev *mdev, u8 type, u32 number)
{
	switch (type) {
	case MOOR_EVENT_CQ_ERROR:
		moor_cq_error(mdev, number);
		return true;
	case MOOR_EVENT_QP_FATAL:
		moor_qp_event(mdev, number, IB_EVENT_QP_FATAL);
		return true;
	case MOOR_EVENT_QP_REQ_ERR:
		moor_qp_event(mdev, number, IB_EVENT_QP_REQ_ERR);
		return true;
	case MOOR_EVENT_QP_ACCESS_ERR:
		moor_qp_event(mdev, number, IB_EVENT_QP_ACCESS_ERR);
		return true;
	case MOOR_EVENT_COMM_EST:
		moor_qp_event(mdev, number, IB_EVENT_COMM_EST);
		return true;
	case MOOR_EVENT_SQ_DRAINED:
		moor_qp_event(mdev, number, IB_EVENT_SQ_DRAINED);
		return true;
	case MOOR_EVENT_LAST_WQE:
		moor_qp_event(mdev, number, IB_EVENT_QP_LAST_WQE_REACHED);
		return true;
	case MOOR_EVENT_SRQ_LIMIT:
		moor_srq_event(mdev, number, IB_EVENT_SRQ_LIMIT_REACHED);
		return true;
	case MOOR_EVENT_SRQ_ERROR:
		moor_srq_event(mdev, number, IB_EVENT_SRQ_ERR);
		return true;
	case MOOR_EVENT_PORT_UP:
	case MOOR_EVENT_PORT_DOWN:
		/* STATUS tells which of the two holds now. */
		moor_hw_look_soon(mdev);
		return true;
	case MOOR_EVENT_DEVICE_FATAL:
		moor_hw_kill_later(mdev, "the device reports a fatal error");
		return true;
	default:
		return false;
	}
}

static bool moor_completion_event(struct moor_eq *eq, u8 type, u32 number)
{
	if (type != MOOR_EVENT_COMPLETION)
		return false;
	moor_cq_completion(eq, number);
	return true;
}

static bool moor_page_event(struct moor_dev *mdev, u8 type,
			    const struct moor_eqe *eqe)
{
	if (type != MOOR_EVENT_PAGE_REQUEST)
		return false;
	moor_page_request(mdev, (const struct moor_page_request *)eqe);
	return true;
}

static void moor_eq_ring(struct moor_eq *eq)
{
	writeq(eq->consumer, eq->mdev->db + (MOOR_DB_SLOT_EQ_CONSUMER +
					     eq->eqn) * MOOR_DB_SLOT_SIZE);
}

/*
 * Events of a type that belongs to another queue are passed over: the destroy functions
 * wait only for the queues that may name their objects.
 */
static void moor_eq_handle(struct moor_eq *eq, const struct moor_eqe *eqe)
{
	u32 number = le32_to_cpu(READ_ONCE(eqe->number));
	u8 type = READ_ONCE(eqe->type);
	bool known;

	if (eq->eqn == MOOR_EQ_ASYNC)
		known = moor_async_event(eq->mdev, type, number);
	else if (eq->eqn == MOOR_EQ_PAGE_REQUEST)
		known = moor_page_event(eq->mdev, type, eqe);
	else
		known = moor_completion_event(eq, type, number);
	if (!known)
		dev_warn_ratelimited(&eq->mdev->pdev->dev,
				     "event queue %u: unknown event %#x\n",
				     eq->eqn, type);
}

/* Handle what there is, but no more than the budget. Was that all? */
static bool moor_eq_poll(struct moor_eq *eq)
{
	u32 mask = BIT(eq->log_size) - 1;
	u32 left = MOOR_EQ_BUDGET;
	unsigned long flags;

	/* Events of a dead device do not count. */
	if (moor_is_dead(eq->mdev))
		return true;
	spin_lock_irqsave(&eq->lock, flags);
	for (; left; left--) {
		struct moor_eqe *eqe = &eq->ring[eq->consumer & mask];
		u32 phase = !((eq->consumer >> eq->log_size) & 1);

		if ((le32_to_cpu(READ_ONCE(eqe->phase)) & MOOR_PHASE) != phase)
			break;
		/* The phase was stored last; the rest is read after it. */
		dma_rmb();
		moor_eq_handle(eq, eqe);
		eq->consumer++;
	}
	/* Events are held back while the ring is full: make room. */
	if (!moor_is_dead(eq->mdev))
		moor_eq_ring(eq);
	spin_unlock_irqrestore(&eq->lock, flags);
	return left;
}

static irqreturn_t moor_eq_interrupt(int irq, void *data)
{
	struct moor_eq *eq = data;

	for (; eq; eq = eq->guest)
		if (!moor_eq_poll(eq))
			queue_work(moor_wq, &eq->work);
	return IRQ_HANDLED;
}

static void moor_eq_work(struct work_struct *work)
{
	struct moor_eq *eq = container_of(work, struct moor_eq, work);

	if (!moor_eq_poll(eq))
		queue_work(moor_wq, &eq->work);
}

/**
 * moor_eq_drain - handle what the device has said until now
 * @eq: event queue
 *
 * The interrupt for these events may still be on its way. At most one ring of events is
 * handled: a device that sends more without end is broken.
 */
void moor_eq_drain(struct moor_eq *eq)
{
	u32 left = BIT(eq->log_size) / MOOR_EQ_BUDGET + 1;

	while (left-- && !moor_eq_poll(eq))
		cond_resched();
}

/**
 * moor_eq_sync - wait until no handler uses what an event of this queue named
 * @eq: event queue
 *
 * An event handler looks up a CQ or QP, uses it and does not keep it: a caller that has
 * taken the object out of its xarray may free it after this wait.
 */
void moor_eq_sync(struct moor_eq *eq)
{
	synchronize_irq(eq->irq);
	flush_work(&eq->work);
	/* moor_eq_drain() handles events outside interrupt and work, under the lock. */
	spin_lock_irq(&eq->lock);
	spin_unlock_irq(&eq->lock);
}

static bool moor_eq_is_guest(const struct moor_eq *eq)
{
	return eq->mdev->async_eq.guest == eq;
}

static int moor_eq_create(struct moor_dev *mdev, struct moor_eq *eq, u32 eqn,
			  u32 log_size)
{
	int err;

	eq->log_size = min(log_size, mdev->caps.max_log_eqe);
	eq->eqn = eqn;
	eq->ring = dma_alloc_coherent(&mdev->pdev->dev,
				      sizeof(*eq->ring) << eq->log_size,
				      &eq->dma, GFP_KERNEL);
	if (!eq->ring)
		return -ENOMEM;
	err = moor_cmd_create_eq(mdev, eq);
	if (err)
		goto free_ring;
	/* Requested with IRQF_NO_AUTOEN: the handler does not run without a ring. */
	if (!moor_eq_is_guest(eq))
		enable_irq(eq->irq);
	return 0;

free_ring:
	dma_free_coherent(&mdev->pdev->dev, sizeof(*eq->ring) << eq->log_size,
			  eq->ring, eq->dma);
	return err;
}

static void moor_eq_destroy(struct moor_dev *mdev, struct moor_eq *eq)
{
	moor_cmd_destroy_eq(mdev, eq->eqn);
	if (!moor_eq_is_guest(eq))
		disable_irq(eq->irq);
	cancel_work_sync(&eq->work);
	dma_free_coherent(&mdev->pdev->dev, sizeof(*eq->ring) << eq->log_size,
			  eq->ring, eq->dma);
}

/**
 * moor_eqs_init - create the event queues
 * @mdev: enabled device with interrupts
 *
 * Return: 0 or an errno.
 */
int moor_eqs_init(struct moor_dev *mdev)
{
	u32 i = 0;
	int err = 0;

	/* Made first, destroyed last: async_eq's interrupt may handle it as a guest. */
	if (moor_has_odp(mdev))
		err = moor_eq_create(mdev, &mdev->page_eq, MOOR_EQ_PAGE_REQUEST,
				     MOOR_PAGE_LOG_EQE);
	if (err)
		return err;
	err = moor_eq_create(mdev, &mdev->async_eq, MOOR_EQ_ASYNC,
			     MOOR_ASYNC_LOG_EQE);
	if (err)
		goto destroy_page;
	for (; i < mdev->num_comp; i++) {
		err = moor_eq_create(mdev, &mdev->comp_eqs[i],
				     MOOR_EQ_COMPLETION + i,
				     MOOR_COMP_LOG_EQE);
		if (err)
			goto destroy;
	}
	return 0;

destroy:
	while (i--)
		moor_eq_destroy(mdev, &mdev->comp_eqs[i]);
	moor_eq_destroy(mdev, &mdev->async_eq);
destroy_page:
	if (moor_has_odp(mdev))
		moor_eq_destroy(mdev, &mdev->page_eq);
	return err;
}

void moor_eqs_destroy(struct moor_dev *mdev)
{
	u32 i;

	for (i = 0; i < mdev->num_comp; i++)
		moor_eq_destroy(mdev, &mdev->comp_eqs[i]);
	moor_eq_destroy(mdev, &mdev->async_eq);
	if (moor_has_odp(mdev))
		moor_eq_destroy(mdev, &mdev->page_eq);
}

static void moor_eq_prepare(struct moor_dev *mdev, struct moor_eq *eq,
			    u16 vector)
{
	eq->mdev = mdev;
	eq->vector = vector;
	spin_lock_init(&eq->lock);
	INIT_WORK(&eq->work, moor_eq_work);
	eq->irq = pci_irq_vector(mdev->pdev, vector);
}

/* An EQ's interrupt stays disabled until there is a ring to look at. */
static int moor_eq_request_irq(struct moor_dev *mdev, struct moor_eq *eq,
			       u16 vector)
{
	moor_eq_prepare(mdev, eq, vector);
	snprintf(eq->name, sizeof(eq->name), "moor-eq%u@pci:%s",
		 vector - MOOR_VECTOR_ASYNC, pci_name(mdev->pdev));
	return request_irq(eq->irq, moor_eq_interrupt, IRQF_NO_AUTOEN, eq->name,
			   eq);
}

/* page_eq has the last vector or, if there are too few, is the guest of async_eq. */
static int moor_page_eq_request_irq(struct moor_dev *mdev, u16 vector)
{
	if (!moor_has_odp(mdev))
		return 0;
	if (vector < mdev->num_vectors)
		return moor_eq_request_irq(mdev, &mdev->page_eq, vector);
	moor_eq_prepare(mdev, &mdev->page_eq, MOOR_VECTOR_ASYNC);
	mdev->async_eq.guest = &mdev->page_eq;
	return 0;
}

static void moor_page_eq_free_irq(struct moor_dev *mdev)
{
	if (moor_has_odp(mdev) && !mdev->async_eq.guest)
		free_irq(mdev->page_eq.irq, &mdev->page_eq);
}

static int moor_irqs_alloc(struct moor_dev *mdev)
{
	u32 pages = moor_has_odp(mdev);
	u32 want = min3(num_online_cpus(),
			mdev->caps.num_vectors - MOOR_VECTOR_COMP,
			mdev->caps.max_eq - MOOR_EQ_COMPLETION) + pages;
	int num = pci_alloc_irq_vectors(mdev->pdev, MOOR_VECTOR_COMP + 1,
					min(MOOR_VECTOR_COMP + want,
					    mdev->caps.num_vectors),
					PCI_IRQ_MSIX);

	if (num < 0) {
		dev_err(&mdev->pdev->dev, "no MSI-X interrupts: error %d\n", num);
		return num;
	}
	mdev->num_vectors = num;
	mdev->num_comp = max(num - MOOR_VECTOR_COMP - pages, 1U);
	return 0;
}

/**
 * moor_irqs_init - allocate the vectors and request the interrupts
 * @mdev: device
 *
 * One vector for commands, one for asynchronous events, the rest for
 * completions: as many as there are CPUs, if the device has them; and then one for
 * page requests.
 *
 * Return: 0 or an errno.
 */
int moor_irqs_init(struct moor_dev *mdev)
{
	struct pci_dev *pdev = mdev->pdev;
	int err;
	u32 i;

	err = moor_irqs_alloc(mdev);
	if (err)
		return err;

	mdev->comp_eqs = kzalloc_objs(*mdev->comp_eqs, mdev->num_comp);
	if (!mdev->comp_eqs) {
		err = -ENOMEM;
		goto free_vectors;
	}
	err = request_irq(pci_irq_vector(pdev, MOOR_VECTOR_CMD),
			  moor_cmd_interrupt, 0, "moor-cmd", mdev);
	if (err)
		goto free_eqs;
	err = moor_eq_request_irq(mdev, &mdev->async_eq, MOOR_VECTOR_ASYNC);
	if (err)
		goto free_cmd;
	for (i = 0; i < mdev->num_comp; i++) {
		err = moor_eq_request_irq(mdev, &mdev->comp_eqs[i],
					  MOOR_VECTOR_COMP + i);
		if (err)
			goto free_comp;
	}
	err = moor_page_eq_request_irq(mdev, MOOR_VECTOR_COMP + i);
	if (err)
		goto free_comp;
	return 0;

free_comp:
	while (i--)
		free_irq(mdev->comp_eqs[i].irq, &mdev->comp_eqs[i]);
	free_irq(mdev->async_eq.irq, &mdev->async_eq);
free_cmd:
	free_irq(pci_irq_vector(pdev, MOOR_VECTOR_CMD), mdev);
free_eqs:
	kfree(mdev->comp_eqs);
free_vectors:
	pci_free_irq_vectors(pdev);
	return err;
}

void moor_irqs_destroy(struct moor_dev *mdev)
{
	u32 i;

	moor_page_eq_free_irq(mdev);
	for (i = 0; i < mdev->num_comp; i++)
		free_irq(mdev->comp_eqs[i].irq, &mdev->comp_eqs[i]);
	free_irq(mdev->async_eq.irq, &mdev->async_eq);
	free_irq(pci_irq_vector(mdev->pdev, MOOR_VECTOR_CMD), mdev);
	kfree(mdev->comp_eqs);
	pci_free_irq_vectors(mdev->pdev);
}
