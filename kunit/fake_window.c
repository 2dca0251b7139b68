// SPDX-License-Identifier: GPL-2.0
/*
 * The fake NIC's memory windows (HWI 6.7): binding, invalidating, and the
 * queries for the windows that hold an MR.
 */

#include "fake.h"

static struct fake_window *fake_window_at(struct fake_nic *nic, u32 index)
{
	return &nic->bindings[index - FAKE_CONSUMER_FIRST];
}

static u32 fake_window_type(const struct fake_nic *nic, u32 index)
{
	return FIELD_GET(MOOR_MRC_TYPE, le64_to_cpu(nic->mr[index].valid));
}

/* A valid word was written: the new window starts unbound. */
void fake_window_begin(struct fake_nic *nic, u32 index)
{
	*fake_window_at(nic, index) = (struct fake_window){
		.key = FIELD_GET(MOOR_MRC_KEY, le64_to_cpu(nic->mr[index].valid)),
	};
}

/* End the entry's binding, if there is one; its MR has one window less. */
void fake_window_unbind(struct fake_nic *nic, u32 index)
{
	struct fake_window *window = fake_window_at(nic, index);

	if (!window->bound)
		return;
	window->bound = false;
	nic->windows[window->mr]--;
}

/* The QP is destroyed or reset: type 2 windows end with it. */
void fake_windows_of_qp(struct fake_nic *nic, u32 qpn)
{
	u32 index;

	for (index = FAKE_CONSUMER_FIRST; index < 1U << FAKE_MR_INDEX_BITS; index++)
		if (fake_window_at(nic, index)->qpn == qpn &&
		    fake_window_type(nic, index) == MOOR_MRC_TYPE_MW_2)
			fake_window_unbind(nic, index);
}

/* HWI MW-8 to MW-13, MW-19 */
static int fake_bind_check_mr(struct fake_nic *nic, const struct fake_bind *bind,
			      u32 pd, u32 *index)
{
	const u32 writes = MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_REMOTE_ATOMIC;
	const struct moor_mr_context *mr;
	u64 iova, length;
	u32 access;

	if (!fake_mr_find(nic, bind->mr_lkey, index) ||
	    *index >= FAKE_CONSUMER_FIRST)
		return MOOR_SYN_KEY;
	mr = &nic->mr[*index];
	if (FIELD_GET(MOOR_MRC_TYPE, le64_to_cpu(mr->valid)) != MOOR_MRC_TYPE_MR)
		return MOOR_SYN_KEY;
	if (le32_to_cpu(mr->pd) != pd)
		return MOOR_SYN_PD;
	access = le32_to_cpu(mr->access);
	if (!(access & MOOR_ACCESS_MW_BIND) ||
	    (bind->access & writes && !(access & MOOR_ACCESS_LOCAL_WRITE)) ||
	    (bind->access & ~access & MOOR_ACCESS_FLUSH_PERSISTENT) ||
	    bind->access & ~(writes | MOOR_ACCESS_REMOTE_READ |
			     MOOR_ACCESS_FLUSH_GLOBAL |
			     MOOR_ACCESS_FLUSH_PERSISTENT))
		return MOOR_SYN_RIGHTS;
	iova = le64_to_cpu(mr->iova);
	length = le64_to_cpu(mr->length);
	if (bind->addr < iova || bind->length > length ||
	    bind->addr - iova > length - bind->length)
		return MOOR_SYN_BOUNDS;
	return 0;
}

static int fake_bind(struct fake_nic *nic, const struct fake_bind *bind)
{
	struct fake_qp *qp = &nic->qps[bind->qpn % ARRAY_SIZE(nic->qps)];
	struct fake_window *window;
	u32 index, mr;
	int err;

	if (!fake_mr_find(nic, bind->mw_key, &index) ||
	    index < FAKE_CONSUMER_FIRST)
		return MOOR_SYN_KEY;
	window = fake_window_at(nic, index);
	if (window->key != bind->mw_key || bind->new_key == bind->mw_key ||
	    (bind->new_key ^ bind->mw_key) & ~(u32)MOOR_KEY_CONSUMER)
		return MOOR_SYN_KEY;
	if (!qp->live || qp->qpn != bind->qpn ||
	    qp->pd != le32_to_cpu(nic->mr[index].pd))
		return MOOR_SYN_PD;
	if (fake_window_type(nic, index) == MOOR_MRC_TYPE_MW_2) {
		if (window->bound)
			return MOOR_SYN_WINDOW;
		if (!bind->length)
			return MOOR_SYN_LENGTH;
	}
	if (bind->length) {
		err = fake_bind_check_mr(nic, bind, qp->pd, &mr);
		if (err)
			return err;
	}
	fake_window_unbind(nic, index);
	*window = (struct fake_window){
		.bound = bind->length,
		.key = bind->new_key,
		.qpn = bind->qpn,
		.access = bind->access,
		.iova = bind->addr,
		.length = bind->length,
	};
	if (window->bound) {
		window->mr = mr;
		nic->windows[mr]++;
	}
	return 0;
}

/**
 * fake_nic_bind - what BIND_MW does, as if it were posted
 * @nic: NIC
 * @bind: the work request
 *
 * Return: 0, or the syndrome of the refusal.
 */
int fake_nic_bind(struct fake_nic *nic, const struct fake_bind *bind)
{
	int err;

	spin_lock_irq(&nic->lock);
	err = fake_bind(nic, bind);
	spin_unlock_irq(&nic->lock);
	return err;
}

/**
 * fake_nic_invalidate - what LOCAL_INV does to a window
 * @nic: NIC
 * @key: current key of a type 2 window
 * @qpn: QP of the work request
 *
 * Return: whether the window was invalidated.
 */
bool fake_nic_invalidate(struct fake_nic *nic, u32 key, u32 qpn)
{
	struct fake_window *window;
	bool done = false;
	u32 index;

	spin_lock_irq(&nic->lock);
	if (fake_mr_find(nic, key, &index) && index >= FAKE_CONSUMER_FIRST &&
	    fake_window_type(nic, index) == MOOR_MRC_TYPE_MW_2) {
		window = fake_window_at(nic, index);
		done = window->bound && window->key == key &&
		       window->qpn == qpn;
		if (done)
			fake_window_unbind(nic, index);
	}
	spin_unlock_irq(&nic->lock);
	return done;
}

u8 fake_mr_query(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_mr_query *cmd = data;
	struct moor_cpl_mr_query *cpl = out;
	u32 index;

	if (cmd->reserved1)
		return MOOR_CMD_BAD_RESERVED;
	if (!fake_mr_find(nic, le32_to_cpu(cmd->key), &index))
		return MOOR_CMD_BAD_INDEX;
	cpl->type = fake_window_type(nic, index);
	cpl->windows = cpu_to_le32(nic->windows[index]);
	cpl->state = MOOR_MR_STATE_VALID;
	if (index >= FAKE_CONSUMER_FIRST)
		cpl->state = fake_window_at(nic, index)->bound ?
			     MOOR_MR_STATE_BOUND : MOOR_MR_STATE_UNBOUND;
	return MOOR_CMD_OK;
}

/*
 * The cursor is the index at which the next query goes on: where the page is full, or where
 * a NIC that has better things to do breaks off.
 */
u8 fake_mr_windows(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_mr_windows *cmd = data;
	struct moor_window_info *list = fake_dma(le64_to_cpu(cmd->buffer));
	u32 from = max_t(u32, le32_to_cpu(cmd->cursor), FAKE_CONSUMER_FIRST);
	struct moor_cpl_mr_windows *cpl = out;
	u32 mr, index, count = 0;

	if (le64_to_cpu(cmd->buffer) % MOOR_PAGE_SIZE)
		return MOOR_CMD_BAD_PARAM;
	if (!fake_mr_find(nic, le32_to_cpu(cmd->key), &mr))
		return MOOR_CMD_BAD_INDEX;
	for (index = from; index < 1U << FAKE_MR_INDEX_BITS; index++) {
		const struct fake_window *window = fake_window_at(nic, index);

		if (nic->behave.brief && index == from + FAKE_BRIEFLY) {
			cpl->cursor = cpu_to_le32(index);
			break;
		}
		if (!window->bound || window->mr != mr)
			continue;
		if (count == MOOR_WINDOWS_PER_PAGE) {
			cpl->cursor = cpu_to_le32(index);
			break;
		}
		list[count++] = (struct moor_window_info){
			.key = cpu_to_le32(window->key),
			.type = cpu_to_le32(fake_window_type(nic, index)),
			.qpn = cpu_to_le32(window->qpn),
			.access = cpu_to_le32(window->access),
			.iova = cpu_to_le64(window->iova),
			.length = cpu_to_le64(window->length),
		};
	}
	cpl->count = cpu_to_le32(count);
	/* A list without end, as of a broken device. */
	if (nic->behave.circle)
		cpl->cursor = cpu_to_le32(FAKE_CONSUMER_FIRST);
	return MOOR_CMD_OK;
}
