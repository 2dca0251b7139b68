// SPDX-License-Identifier: GPL-2.0
/* Memory windows: bind, invalidate, access, list (HWI 6.7). */
#include <endian.h>
#include <stdlib.h>

#include "base/dma_map.h"
#include "base/lie.h"
#include "memory/mr_state.h"
#include "memory/mw.h"

static struct mw_binding *binding_of(struct nic *nic, uint32_t index)
{
	return &nic->mr->window[index - NIC_MR_CONSUMER_FIRST];
}

static void list_add(struct nic *nic, struct mr_actor *owner, uint32_t index)
{
	struct mw_binding *b = binding_of(nic, index);

	b->owner = owner;
	b->prev = 0;
	b->next = owner->windows;
	if (b->next)
		binding_of(nic, b->next)->prev = index;
	owner->windows = index;
}

static void list_remove(struct nic *nic, struct mw_binding *b)
{
	if (!b->owner)
		return;
	*(b->prev ? &binding_of(nic, b->prev)->next : &b->owner->windows) =
		b->next;
	if (b->next)
		binding_of(nic, b->next)->prev = b->prev;
	b->owner = NULL;
}

void mw_unbind(struct nic *nic, uint32_t index)
{
	struct mw_binding *b = binding_of(nic, index);
	struct mr_dynamic *mr = &nic->mr->dynamic[b->mr_index];

	if (!nic->mr->dynamic[index].bound)
		return;
	nic->mr->dynamic[index].bound = false;
	nic->mr->dynamic[index].epoch++;
	list_remove(nic, b);
	/* The MR's entry may hold another MR by now, without a revoke. */
	if (mr->epoch == b->mr_epoch)
		mr->windows--;
}

void mw_unbind_all(struct nic *nic, struct mr_actor *actor)
{
	while (actor->windows)
		mw_unbind(nic, actor->windows);
}

/*
 * Finds translation and ordering of the MR that a window is bound to, if the entry
 * still holds this MR. The MR's length is checked once more: an entry overwritten
 * without a revoke must not widen a window.
 */
static bool find_bound_mr(struct nic *nic, const struct mw_binding *b,
			  struct mr_grant *grant)
{
	struct moor_mr_context entry;
	struct mr_dynamic *mr = mr_find_entry(nic, b->mr_index, &entry,
					      &grant->xlat);

	if (!mr || mr->epoch != b->mr_epoch || mr->revoked ||
	    !range_inside(b->mr_offset, b->length, 0, le64toh(entry.length)))
		return false;
	grant->relaxed = le32toh(entry.access) & MOOR_ACCESS_RELAXED_ORDERING;
	return true;
}

uint8_t mw_grant(struct nic *nic, const struct mr_actor *actor, uint32_t index,
		 const struct moor_mr_context *window, uint64_t addr,
		 uint64_t len, uint32_t need, struct mr_grant *grant)
{
	const struct mw_binding *b = binding_of(nic, index);

	if (!(need & REMOTE_RIGHTS) || !nic->mr->dynamic[index].bound)
		return MOOR_SYN_KEY;
	if (FIELD(MOOR_MRC_TYPE, le64toh(window->valid)) ==
	    MOOR_MRC_TYPE_MW_2 && b->qpn != actor->qpn)
		return MOOR_SYN_WINDOW;
	if (le32toh(window->pd) != actor->pd)
		return MOOR_SYN_PD;
	if ((b->access & need) != need)
		return MOOR_SYN_RIGHTS;
	if (!range_inside(addr, len, b->iova, b->length))
		return MOOR_SYN_BOUNDS;
	if (!find_bound_mr(nic, b, grant))
		return MOOR_SYN_KEY;
	grant->kind = MR_KIND_TABLE;
	grant->index = b->mr_index;
	grant->epoch = nic->mr->dynamic[index].epoch;
	grant->first = grant->xlat.offset + b->mr_offset + (addr - b->iova);
	grant->node.entries = NULL;
	return MOOR_SYN_NONE;
}

void mw_range(struct nic *nic, uint32_t index, uint64_t *addr, uint64_t *len)
{
	const struct mw_binding *b = binding_of(nic, index);

	*addr = b->iova;
	*len = b->length;
}

/* HWI MW-8 to MW-13, MW-19; fills in the binding's place in the MR. */
static uint8_t check_mr(struct nic *nic, const struct mr_actor *actor,
			const struct mw_request *req, struct mw_binding *b)
{
	uint32_t rights = req->access & ~(uint32_t)MOOR_BIND_ZERO_BASED;
	uint32_t asking = rights & mr_rights(nic);
	struct moor_mr_context entry;
	struct mr_dynamic *mr;
	struct xlat xlat;

	b->mr_index = key_index(req->mr_lkey);
	mr = mr_find_entry(nic, b->mr_index, &entry, &xlat);
	if (!mr || mr->revoked || mr->key != req->mr_lkey ||
	    FIELD(MOOR_MRC_TYPE, mr->word) != MOOR_MRC_TYPE_MR)
		return MOOR_SYN_KEY;
	if (le32toh(entry.pd) != actor->pd)
		return MOOR_SYN_PD;
	if (!(le32toh(entry.access) & MOOR_ACCESS_MW_BIND) ||
	    (rights & ~(uint32_t)REMOTE_RIGHTS) ||
	    (asking & ~le32toh(entry.access) & MOOR_ACCESS_FLUSH_PERSISTENT) ||
	    ((asking & WRITING_RIGHTS) &&
	     !(le32toh(entry.access) & MOOR_ACCESS_LOCAL_WRITE)))
		return MOOR_SYN_RIGHTS;
	if (!range_inside(req->addr, req->length, le64toh(entry.iova),
			  le64toh(entry.length)))
		return MOOR_SYN_BOUNDS;
	b->mr_epoch = mr->epoch;
	b->mr_offset = req->addr - le64toh(entry.iova);
	b->access = rights;
	b->length = req->length;
	b->iova = req->access & MOOR_BIND_ZERO_BASED ? 0 : req->addr;
	b->qpn = actor->qpn;
	return MOOR_SYN_NONE;
}

/* HWI MW-2: the live window of this key, whose consumer byte is not compared. */
static struct mr_dynamic *find_window(struct nic *nic, uint32_t key,
				      struct moor_mr_context *entry)
{
	struct mr_dynamic *dyn = mr_find_key(nic, key, entry);

	return dyn && is_window(dyn->word) && !dyn->revoked ? dyn : NULL;
}

uint8_t mw_bind(struct nic *nic, struct mr_actor *actor,
		const struct mw_request *req)
{
	uint32_t index = key_index(req->mw_key);
	struct moor_mr_context entry;
	struct mr_dynamic *dyn = find_window(nic, req->mw_key, &entry);
	struct mw_binding new = { 0 };
	uint8_t syndrome;
	bool type_2;

	if (!dyn)
		return MOOR_SYN_KEY;
	if (le32toh(entry.pd) != actor->pd)
		return MOOR_SYN_PD;
	type_2 = FIELD(MOOR_MRC_TYPE, dyn->word) == MOOR_MRC_TYPE_MW_2;
	if (type_2 && dyn->bound)
		return MOOR_SYN_WINDOW;
	if (!req->length && type_2)
		return MOOR_SYN_LENGTH;
	if (req->length) {
		syndrome = check_mr(nic, actor, req, &new);
		if (syndrome)
			return syndrome;
	}

	mw_unbind(nic, index);
	dyn->key = (dyn->key & ~(uint32_t)MOOR_KEY_CONSUMER) |
		   (req->new_key & MOOR_KEY_CONSUMER);
	if (!req->length)
		return MOOR_SYN_NONE;
	*binding_of(nic, index) = new;
	dyn->bound = true;
	nic->mr->dynamic[new.mr_index].windows++;
	if (type_2)
		list_add(nic, actor, index);
	return MOOR_SYN_NONE;
}

/*
 * One thread does all DMA, a message's last chunk before the message's invalidation:
 * no access through the window is under way here (HWI INV-3).
 */
uint8_t mw_invalidate(struct nic *nic, const struct mr_actor *actor,
		      uint32_t key)
{
	struct moor_mr_context entry;
	struct mr_dynamic *dyn = find_window(nic, key, &entry);

	if (!dyn || !dyn->bound || dyn->key != key)
		return MOOR_SYN_KEY;
	if (binding_of(nic, key_index(key))->owner != actor)
		return MOOR_SYN_WINDOW;
	mw_unbind(nic, key_index(key));
	return MOOR_SYN_NONE;
}

void mw_query(struct nic *nic, uint32_t index, struct moor_cpl_mr_query *out)
{
	const struct mw_binding *b = binding_of(nic, index);

	out->state = nic->mr->dynamic[index].bound ? MOOR_MR_STATE_BOUND :
					    MOOR_MR_STATE_UNBOUND;
	if (!nic->mr->dynamic[index].bound)
		return;
	out->mr_key = htole32(nic->mr->dynamic[b->mr_index].key);
	out->qpn = htole32(b->owner ? b->qpn : 0);
	out->access = htole32(b->access);
	out->iova = htole64(b->iova);
	out->length = htole64(b->length);
}

static bool is_bound_to(struct nic *nic, uint32_t index, uint32_t mr_index)
{
	const struct mw_binding *b = binding_of(nic, index);

	return nic->mr->dynamic[index].bound && b->mr_index == mr_index &&
	       b->mr_epoch == nic->mr->dynamic[mr_index].epoch;
}

static struct moor_window_info window_info(struct nic *nic, uint32_t index)
{
	const struct mw_binding *b = binding_of(nic, index);

	return (struct moor_window_info){
		.key = htole32(nic->mr->dynamic[index].key),
		.type = htole32(FIELD(MOOR_MRC_TYPE, nic->mr->dynamic[index].word)),
		.qpn = htole32(b->qpn),
		.access = htole32(b->access),
		.iova = htole64(b->iova),
		.length = htole64(b->length),
	};
}

/*
 * Lists by index, so that a cursor stays good while windows come and go: windows that
 * stay bound from the first call to the last are listed, and no window is twice.
 */
uint8_t mw_list(struct nic *nic, const struct moor_cmd *raw,
		struct moor_cpl *cpl)
{
	const struct moor_cmd_mr_windows *cmd = (const void *)raw;
	struct moor_cpl_mr_windows *out = (void *)cpl->out;
	uint32_t index = le32toh(cmd->cursor), count = 0, left, mr_index;
	uint64_t len = MOOR_PAGE_SIZE;
	struct moor_window_info *to;
	struct moor_mr_context entry;
	struct mr_dynamic *mr = mr_find_key(nic, le32toh(cmd->key), &entry);

	if (!mr)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_mr_windows, key);
	if (index && (index < NIC_MR_CONSUMER_FIRST || index >= NIC_NUM_MR))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_mr_windows, cursor);
	if (le64toh(cmd->buffer) % MOOR_PAGE_SIZE)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_mr_windows, buffer);
	to = (void *)dma_map_ptr(nic->dma, le64toh(cmd->buffer), &len, true);
	if (!to || len < MOOR_PAGE_SIZE)
		return CMD_FAIL(cpl, MOOR_CMD_DMA_FAULT,
				struct moor_cmd_mr_windows, buffer);

	mr_index = key_index(le32toh(cmd->key));
	left = mr->windows;
	if (!index)
		index = NIC_MR_CONSUMER_FIRST;
	for (; index < NIC_NUM_MR && left; index++) {
		if (!is_bound_to(nic, index, mr_index))
			continue;
		if (count == MOOR_WINDOWS_PER_PAGE)
			break;
		to[count] = window_info(nic, index);
		lie_window(nic, &to[count++]);
		left--;
	}
	out->count = htole32(count);
	out->cursor = htole32(left && index < NIC_NUM_MR ? index : 0);
	return MOOR_CMD_OK;
}
