// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Reading completions (HWI 11).
 */
#include <endian.h>
#include <errno.h>

#include <ccan/array_size.h>

#include "moor.h"
#include "sq.h"

static const uint8_t send_wc_opcodes[] = {
	[MOOR_WQE_SEND]		= IBV_WC_SEND,
	[MOOR_WQE_SEND_IMM]	= IBV_WC_SEND,
	[MOOR_WQE_SEND_INV]	= IBV_WC_SEND,
	[MOOR_WQE_WRITE]	= IBV_WC_RDMA_WRITE,
	[MOOR_WQE_WRITE_IMM]	= IBV_WC_RDMA_WRITE,
	[MOOR_WQE_READ]		= IBV_WC_RDMA_READ,
	[MOOR_WQE_CMP_SWAP]	= IBV_WC_COMP_SWAP,
	[MOOR_WQE_FETCH_ADD]	= IBV_WC_FETCH_ADD,
	[MOOR_WQE_LOCAL_INV]	= IBV_WC_LOCAL_INV,
	[MOOR_WQE_BIND_MW]	= IBV_WC_BIND_MW,
	[MOOR_WQE_ATOMIC_WRITE]	= IBV_WC_ATOMIC_WRITE,
	[MOOR_WQE_FLUSH]	= IBV_WC_FLUSH,
};

/* Bit 7 tells which queue the CQE is of, whatever its status and the other bits. */
static bool cqe_is_recv(const struct moor_cqe *cqe)
{
	return cqe->opcode & MOOR_CQE_RECV;
}

static enum ibv_wc_opcode cqe_wc_opcode(const struct moor_cqe *cqe)
{
	if (cqe->opcode == MOOR_CQE_RECV_WRITE_IMM)
		return IBV_WC_RECV_RDMA_WITH_IMM;
	if (cqe_is_recv(cqe))
		return IBV_WC_RECV;
	if (cqe->opcode < ARRAY_SIZE(send_wc_opcodes))
		return send_wc_opcodes[cqe->opcode];
	return IBV_WC_DRIVER1;
}

static unsigned int cqe_wc_flags(const struct moor_cqe *cqe)
{
	unsigned int flags = 0;

	if (cqe->flags & MOOR_CQE_FLAG_IMM)
		flags |= IBV_WC_WITH_IMM;
	if (cqe->flags & MOOR_CQE_FLAG_INV)
		flags |= IBV_WC_WITH_INV;
	if (cqe->flags & MOOR_CQE_FLAG_GRH)
		flags |= IBV_WC_GRH;
	return flags;
}

static struct moor_cqe *ring_slot(const struct moor_cq *cq, uint32_t index)
{
	return &cq->ring[index & ((1u << cq->log_cqe) - 1)];
}

/* The CQE at @index, or NULL if the device has not written it yet. */
static struct moor_cqe *cqe_at(const struct moor_cq *cq, uint32_t index)
{
	struct moor_cqe *cqe = ring_slot(cq, index);
	uint32_t stale = index >> cq->log_cqe & MOOR_PHASE;

	if ((mmio_read32(&cqe->phase) & MOOR_PHASE) == stale)
		return NULL;
	/* The device stores the phase last: the rest must be read after the phase. */
	udma_from_device_barrier();
	return cqe;
}

/* From now on the slots up to that of the CQE's WQE may be written again. */
static void free_slots(const struct moor_owner *owner,
		       const struct moor_cqe *cqe)
{
	struct moor_wq *wq = cqe_is_recv(cqe) ? owner->rq : owner->sq;
	uint32_t end = le32toh(cqe->wqe_index) + 1;

	if (cqe_is_recv(cqe) && owner->shared)
		moor_srq_taken(wq, end);
	else if (wq)
		atomic_store_explicit(&wq->consumer, end, memory_order_release);
}

/*
 * What a CQE in error says of the opcode, but for bit 7, of flags and of the length has no
 * meaning (HWI CQ-8), but there are programs that look at the opcode before the status. The
 * CQE is not the device's before its slot is given back: let it say what was posted.
 */
static void mend_error(const struct moor_owner *owner, struct moor_cqe *cqe)
{
	const struct moor_sq_wqe *wqe;

	cqe->flags = 0;
	cqe->byte_len = 0;
	if (cqe_is_recv(cqe)) {
		cqe->opcode = MOOR_CQE_RECV;
	} else if (owner->sq) {
		wqe = moor_wq_slot(owner->sq, le32toh(cqe->wqe_index));
		cqe->opcode = wqe->opcode & ~MOOR_CQE_RECV;
	}
}

/*
 * Is this thread in ibv_start_poll() ... ibv_end_poll()? Only that thread stores its own
 * ID, so the answer holds for a whole verb.
 */
static bool is_polling(struct moor_cq *cq)
{
	return atomic_load_explicit(&cq->poller, memory_order_relaxed) == pthread_self();
}

/**
 * moor_cq_lock - lock a CQ for a verb that may be called within a poll
 * @cq: the CQ
 *
 * The thread that polls holds the lock; one that polls another CQ meanwhile, and waits
 * here, must not be waited for by the thread that polls this one.
 */
void moor_cq_lock(struct moor_cq *cq)
{
	if (!is_polling(cq))
		moor_lock(&cq->lock);
}

/* Returns true if @cq is locked now, as by moor_cq_lock(). */
bool moor_cq_trylock(struct moor_cq *cq)
{
	return is_polling(cq) || moor_trylock(&cq->lock);
}

void moor_cq_unlock(struct moor_cq *cq)
{
	if (!is_polling(cq))
		moor_unlock(&cq->lock);
}

/**
 * moor_cq_keep_current - let the slot of the CQE that is read be given back, or its ring go
 * @cq: the CQ, locked
 *
 * Until the next ibv_next_poll() the read functions read a copy.
 */
void moor_cq_keep_current(struct moor_cq *cq)
{
	if (!is_polling(cq))
		return;
	cq->kept = *cq->current;
	cq->current = &cq->kept;
}

static void store_slot(struct moor_cq *cq)
{
	moor_slot_store(&cq->slot, cq->arm | cq->announced);
}

/* While @cq is being destroyed it may be polled and armed (moor_slot_mute()). */
void moor_cq_mute(struct moor_cq *cq)
{
	moor_cq_lock(cq);
	moor_slot_mute(&cq->slot);
	moor_cq_unlock(cq);
}

void moor_cq_unmute(struct moor_cq *cq)
{
	moor_cq_lock(cq);
	moor_slot_unmute(&cq->slot);
	store_slot(cq);
	moor_cq_unlock(cq);
}

/**
 * moor_cq_announce - tell the device how far the consumer is
 * @cq: the CQ, locked
 */
void moor_cq_announce(struct moor_cq *cq)
{
	if (cq->announced == cq->consumer)
		return;
	cq->announced = cq->consumer;
	store_slot(cq);
}

/*
 * Takes the next CQE off the ring, and frees the slots of its WQE and of all WQEs before
 * that in the work queue. Skips CQEs whose cookie names no owner in this context.
 *
 * The device is told at the end of a batch, and within it after each MOOR_CQ_LAG CQEs: a
 * thread that posts anew for each CQE that it takes may go on in one batch for ever, and
 * fill a CQ that was full when the batch began. The ring has room for MOOR_CQ_LAG CQEs
 * beside those that the CQ holds.
 */
static const struct moor_cqe *take_cqe(struct moor_cq *cq)
{
	struct moor_context *ctx = to_moor_context(cq->vcq.cq.context);
	struct moor_cqe *cqe;
	struct moor_owner *owner;

	while ((cqe = cqe_at(cq, cq->consumer))) {
		/* The CQE before this one has been read: its slot may be given back. */
		if (unlikely(cq->consumer - cq->announced >= MOOR_CQ_LAG))
			moor_cq_announce(cq);
		cq->consumer++;
		owner = moor_owner_find(ctx, le32toh(cqe->cookie));
		if (unlikely(!owner))
			continue;
		if (unlikely(cqe->status))
			mend_error(owner, cqe);
		free_slots(owner, cqe);
		return cqe;
	}
	return NULL;
}

static void fill_wc(struct ibv_wc *wc, const struct moor_cqe *cqe)
{
	wc->wr_id = le64toh(cqe->wr_id);
	wc->status = cqe->status;
	wc->vendor_err = cqe->syndrome;
	wc->qp_num = le32toh(cqe->qpn);
	wc->opcode = cqe_wc_opcode(cqe);
	wc->wc_flags = 0;
	if (unlikely(cqe->status))
		return;
	wc->byte_len = le32toh(cqe->byte_len);
	wc->src_qp = le32toh(cqe->src_qpn);
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = cqe->priority;
	wc->dlid_path_bits = 0;
	if (!cqe_is_recv(cqe))
		return;
	wc->wc_flags = cqe_wc_flags(cqe);
	if (wc->wc_flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = le32toh(cqe->inv_key);
	else
		wc->imm_data = cqe->imm;
}

int moor_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct moor_cq *cq = to_moor_cq(ibcq);
	const struct moor_cqe *cqe;
	int n;

	moor_lock(&cq->lock);
	for (n = 0; n < num_entries; n++) {
		cqe = take_cqe(cq);
		if (!cqe)
			break;
		fill_wc(&wc[n], cqe);
	}
	moor_cq_announce(cq);
	moor_unlock(&cq->lock);
	return n;
}

/* Counts a request; returns the MOOR_CQ_ARM_* that the device is to be asked for. */
static uint64_t count_request(struct moor_cq *cq, int solicited_only)
{
	bool any;

	moor_lock(&cq->request_lock);
	cq->requests++;
	/* A request for any completion is not narrowed by a later one (HWI CQ-24). */
	if (!solicited_only)
		cq->any_events = cq->requests;
	any = cq->any_events;
	moor_unlock(&cq->request_lock);
	return any ? MOOR_CQ_ARM_ANY : MOOR_CQ_ARM_SOLICITED;
}

int moor_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct moor_cq *cq = to_moor_cq(ibcq);
	uint64_t sequence;

	moor_cq_lock(cq);
	sequence = FIELD_GET(MOOR_DB_CQ_ARM_SEQ, cq->arm) + 1;
	cq->arm = FIELD_PREP(MOOR_DB_CQ_ARM_SEQ, sequence) |
		  FIELD_PREP(MOOR_DB_CQ_ARM, count_request(cq, solicited_only));
	/* Not the consumer index: within a poll its last CQE is still being read. */
	store_slot(cq);
	moor_cq_unlock(cq);
	/*
	 * The consumer polls once more now. Either that poll sees a CQE, or the
	 * device sees the request after it has written that CQE: each side does a
	 * store and then a load, so each side needs a full barrier between them.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	return 0;
}

/*
 * An event answers one request, but does not say which: perhaps not the last one. Of n
 * requests without an event, the last is known to be answered, or replaced by one that is,
 * after n more events. A request that is replaced before it is answered gets no event:
 * requests for solicited completions may then ask for any a while longer, so that too many
 * events may come, but never too few.
 *
 * This runs in the thread that calls ibv_get_cq_event(), which need not be the one thread
 * of a single-threaded CQ.
 */
void moor_cq_event(struct ibv_cq *ibcq)
{
	struct moor_cq *cq = to_moor_cq(ibcq);

	moor_lock(&cq->request_lock);
	if (cq->requests)
		cq->requests--;
	if (cq->any_events)
		cq->any_events--;
	moor_unlock(&cq->request_lock);
}

/* An SRQ goes on, so the slot is freed; a QP's own queue begins anew or is gone. */
static void drop_cqe(const struct moor_owner *owner, const struct moor_cqe *cqe)
{
	if (cqe_is_recv(cqe) && owner->shared)
		free_slots(owner, cqe);
}

static bool cqe_is_of(const struct moor_cqe *cqe, const struct moor_owner *owner)
{
	return le32toh(cqe->cookie) == owner->cookie &&
	       (!owner->sq || le32toh(cqe->qpn) == owner->qpn);
}

/**
 * moor_cq_clean - remove the CQEs of an owner that is gone or was reset
 * @cq: the CQ, locked
 * @owner: the QP or XRC SRQ; the device writes no CQE for it any more
 *
 * The CQEs that stay move up towards the producer, each slot keeping its phase.
 * Then the consumer index skips the slots that have become free.
 */
void moor_cq_clean(struct moor_cq *cq, const struct moor_owner *owner)
{
	uint32_t end = cq->consumer;
	struct moor_cqe *from, *to;
	uint32_t removed = 0;
	__le32 phase;
	uint32_t i;

	while (end - cq->consumer < 1u << cq->log_cqe && cqe_at(cq, end))
		end++;
	for (i = end; i-- != cq->consumer; ) {
		from = ring_slot(cq, i);
		if (cqe_is_of(from, owner)) {
			drop_cqe(owner, from);
			removed++;
			continue;
		}
		if (!removed)
			continue;
		to = ring_slot(cq, i + removed);
		phase = to->phase;
		*to = *from;
		to->phase = phase;
	}
	cq->consumer += removed;
	moor_cq_keep_current(cq);
	moor_cq_announce(cq);
}

/* ---- ibv_start_poll() and what follows ---- */

static int next_poll(struct ibv_cq_ex *ibcq)
{
	struct moor_cq *cq = to_moor_cq_ex(ibcq);
	const struct moor_cqe *cqe = take_cqe(cq);

	if (!cqe)
		return ENOENT;
	cq->current = cqe;
	ibcq->wr_id = le64toh(cqe->wr_id);
	ibcq->status = cqe->status;
	return 0;
}

static void end_poll(struct ibv_cq_ex *ibcq)
{
	struct moor_cq *cq = to_moor_cq_ex(ibcq);

	moor_cq_announce(cq);
	atomic_store_explicit(&cq->poller, MOOR_NOBODY, memory_order_relaxed);
	moor_unlock(&cq->lock);
}

static int start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct moor_cq *cq = to_moor_cq_ex(ibcq);

	if (unlikely(attr->comp_mask))
		return EINVAL;
	moor_lock(&cq->lock);
	atomic_store_explicit(&cq->poller, pthread_self(), memory_order_relaxed);
	if (!next_poll(ibcq))
		return 0;
	end_poll(ibcq);
	return ENOENT;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return cqe_wc_opcode(to_moor_cq_ex(cq)->current);
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	return to_moor_cq_ex(cq)->current->syndrome;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
	const struct moor_cqe *cqe = to_moor_cq_ex(cq)->current;

	return cqe_is_recv(cqe) ? cqe_wc_flags(cqe) : 0;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return le32toh(to_moor_cq_ex(cq)->current->byte_len);
}

/* Immediate data as it is, or the invalidated key as a number. */
static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	const struct moor_cqe *cqe = to_moor_cq_ex(cq)->current;

	if (cqe->flags & MOOR_CQE_FLAG_INV)
		return (__force __be32)le32toh(cqe->inv_key);
	return cqe->imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return le32toh(to_moor_cq_ex(cq)->current->qpn);
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
	return le32toh(to_moor_cq_ex(cq)->current->src_qpn);
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
	return le64toh(to_moor_cq_ex(cq)->current->timestamp);
}

/* RoCE has none of InfiniBand's local addressing, except for the priority. */
static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
	return to_moor_cq_ex(cq)->current->priority;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

/**
 * moor_cq_set_readers - set the functions of an extended CQ
 * @cq: the CQ
 * @wc_flags: IBV_WC_EX_WITH_* that it was created with
 */
void moor_cq_set_readers(struct ibv_cq_ex *cq, uint64_t wc_flags)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		cq->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		cq->read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		cq->read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		cq->read_src_qp = read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		cq->read_slid = read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		cq->read_sl = read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		cq->read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cq->read_completion_ts = read_completion_ts;
}
