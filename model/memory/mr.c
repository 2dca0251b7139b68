// SPDX-License-Identifier: GPL-2.0
/* Memory regions: look-up, checks, dynamic state, revoke (HWI 6). */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/dma_map.h"
#include "base/log.h"
#include "base/rules.h"
#include "memory/mr.h"
#include "memory/mr_state.h"
#include "memory/mr_strict.h"
#include "memory/relaxed.h"

static const struct moor_mr_context *entry_memory(struct nic *nic,
						  uint32_t index)
{
	return (const struct moor_mr_context *)nic->mr_bar + index;
}

/*
 * Loads valid word, body, valid word; the driver may be writing (HWI MR-9).
 * Return: true when both words agree.
 */
static bool read_entry(struct nic *nic, uint32_t index,
		       struct moor_mr_context *entry)
{
	const uint64_t *from = (const uint64_t *)entry_memory(nic, index);
	uint64_t *to = (uint64_t *)entry;
	unsigned int i;

	to[0] = __atomic_load_n(&from[0], __ATOMIC_ACQUIRE);
	if (!(le64toh(to[0]) & MOOR_MRC_TYPE))
		return false;
	for (i = 1; i < sizeof(*entry) / sizeof(*to); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&from[0], __ATOMIC_RELAXED) == to[0];
}

/* The dynamic state of an entry; starts anew if @word is not its valid word so far. */
static struct mr_dynamic *dynamic_state(struct nic *nic, uint32_t index,
					uint64_t word)
{
	struct mr_dynamic *dyn = &nic->mr->dynamic[index];

	if (dyn->word != word) {
		if (dyn->bound)
			mw_unbind(nic, index);
		*dyn = (struct mr_dynamic){
			.word = word, .key = word >> 32,
			.epoch = dyn->epoch + 1,
		};
	}
	return dyn;
}

/* Windows have no body, and ALL has no translation (HWI MR-4). */
static bool body_clear(const struct moor_mr_context *e)
{
	static const struct moor_xlat no_xlat;

	return !e->iova && !e->length &&
	       !memcmp(&e->xlat, &no_xlat, sizeof(no_xlat));
}

static bool range_well_formed(const struct moor_mr_context *e,
			      struct xlat *xlat)
{
	uint64_t length = le64toh(e->length), last;

	return !__builtin_add_overflow(le64toh(e->iova), length - 1, &last) &&
	       xlat_decode(xlat, &e->xlat) &&
	       !__builtin_add_overflow(xlat->offset, length - 1, &last);
}

/* HWI ODP-6: an on-demand MR needs a table, and may be longer than MAX_MR_SIZE. */
static bool body_on_demand(const struct moor_mr_context *e, struct xlat *xlat)
{
	if (!e->length || !range_well_formed(e, xlat))
		return false;
	xlat->on_demand = true;
	return xlat->levels && xlat->memory == MOOR_MEMORY_HOST;
}

static bool body_well_formed(const struct nic *nic,
			     const struct moor_mr_context *e, struct xlat *xlat)
{
	if (le32toh(e->access) & MOOR_ACCESS_ON_DEMAND)
		return nic_has(nic, MOOR_FEATURE_ODP) && body_on_demand(e, xlat);
	return e->length && le64toh(e->length) <= NIC_MAX_MR_SIZE &&
	       range_well_formed(e, xlat) &&
	       (xlat->memory == MOOR_MEMORY_HOST || nic_has(nic, MOOR_FEATURE_DM));
}

/* Are there windows, or fast-registration MRs, of this type? */
static bool type_offered(const struct nic *nic, uint64_t type)
{
	return nic_has(nic, type == MOOR_MRC_TYPE_FAST_REG ? MOOR_FEATURE_FAST_REG :
			    type == MOOR_MRC_TYPE_MW_1 ? MOOR_FEATURE_MW_TYPE_1 :
							 MOOR_FEATURE_MW_TYPE_2B);
}

/* Does an entry have the form of its type (HWI MR-3, MR-4), at an index of its range? */
static bool entry_well_formed(const struct nic *nic,
			      const struct moor_mr_context *e, uint32_t index,
			      struct xlat *xlat)
{
	uint64_t word = le64toh(e->valid);
	bool consumer = index >= NIC_MR_CONSUMER_FIRST;

	if ((word & MOOR_MRC_RESERVED) || !e->max_pages == is_fast(word) ||
	    (le32toh(e->pd) & ~NIC_NUMBER_MASK) ||
	    (le32toh(e->access) & ~MOOR_ACCESS_ALL) ||
	    index < MOOR_MR_INDEX_FIRST)
		return false;

	switch (word & MOOR_MRC_TYPE) {
	case MOOR_MRC_TYPE_MR:
		return !consumer && body_well_formed(nic, e, xlat);
	case MOOR_MRC_TYPE_ALL:
		return !consumer && body_clear(e) &&
		       !(le32toh(e->access) & MOOR_ACCESS_ON_DEMAND);
	case MOOR_MRC_TYPE_FAST_REG:
	case MOOR_MRC_TYPE_MW_1:
	case MOOR_MRC_TYPE_MW_2:
		return consumer && type_offered(nic, word & MOOR_MRC_TYPE) &&
		       !e->access && body_clear(e);
	default:
		return false;
	}
}

struct mr_dynamic *mr_find_entry(struct nic *nic, uint32_t index,
				 struct moor_mr_context *entry,
				 struct xlat *xlat)
{
	const struct moor_mr_context *kept = NULL;
	struct mr_dynamic *dyn;

	if (nic->mr->strict)
		kept = mr_strict_entry(nic, index);
	if (kept)
		*entry = *kept;
	else if (!read_entry(nic, index, entry))
		return NULL;
	if (!entry_well_formed(nic, entry, index, xlat))
		return NULL;
	dyn = dynamic_state(nic, index, le64toh(entry->valid));
	if (nic->mr->strict && !kept && !dyn->revoked)
		mr_strict_keep(nic, index, entry);
	if (dyn->registered)
		mr_fast_show(nic, index, entry, xlat);
	return dyn;
}

static uint8_t check_rights(uint32_t have, uint32_t need)
{
	/* Remote write and atomics need local write too (HWI MR-5). */
	if (need & WRITING_RIGHTS)
		need |= MOOR_ACCESS_LOCAL_WRITE;
	return (have & need) == need ? MOOR_SYN_NONE : MOOR_SYN_RIGHTS;
}

static uint8_t grant_all(uint64_t addr, uint64_t len, struct mr_grant *grant)
{
	uint64_t last;

	if (__builtin_add_overflow(addr, len - 1, &last))
		return MOOR_SYN_BOUNDS;
	grant->kind = MR_KIND_ALL;
	grant->first = addr;
	return MOOR_SYN_NONE;
}

uint8_t mr_grant_access(struct nic *nic, const struct mr_actor *actor,
			uint32_t key, uint64_t addr, uint64_t len,
			uint32_t need, struct mr_grant *grant)
{
	uint32_t index = key_index(key);
	struct moor_mr_context entry;
	struct mr_dynamic *dyn;
	uint8_t syndrome;
	bool all;

	grant->index = index;
	grant->epoch = 0;
	grant->write = need & WRITING_RIGHTS;
	grant->relaxed = false;
	if (key == NIC_NULL_LKEY && !(need & REMOTE_RIGHTS)) {
		grant->kind = MR_KIND_NULL;
		return MOOR_SYN_NONE;
	}

	dyn = mr_find_entry(nic, index, &entry, &grant->xlat);
	if (!dyn || dyn->key != key || dyn->revoked)
		return MOOR_SYN_KEY;
	if (is_window(dyn->word))
		return mw_grant(nic, actor, index, &entry, addr, len, need,
				grant);
	if (is_fast(dyn->word) && !dyn->registered)
		return MOOR_SYN_KEY;
	all = FIELD(MOOR_MRC_TYPE, dyn->word) == MOOR_MRC_TYPE_ALL;
	if (all && !actor->kernel)
		return MOOR_SYN_KEY;
	grant->epoch = dyn->epoch;
	if (le32toh(entry.pd) != actor->pd)
		return MOOR_SYN_PD;
	syndrome = check_rights(le32toh(entry.access), need);
	if (syndrome)
		return syndrome;
	grant->relaxed = le32toh(entry.access) & MOOR_ACCESS_RELAXED_ORDERING;
	if (all)
		return grant_all(addr, len, grant);

	if (!range_inside(addr, len, le64toh(entry.iova),
			  le64toh(entry.length)))
		return MOOR_SYN_BOUNDS;
	grant->kind = MR_KIND_TABLE;
	grant->first = grant->xlat.offset + (addr - le64toh(entry.iova));
	grant->node.entries = NULL;
	return MOOR_SYN_NONE;
}

uint8_t mr_grant_whole(struct nic *nic, const struct mr_actor *actor,
		       uint32_t key, uint32_t need, struct mr_grant *grant)
{
	uint32_t index = key_index(key);
	struct moor_mr_context entry;
	uint64_t addr = 0, len = 0;
	struct mr_dynamic *dyn;
	struct xlat xlat;

	/* Only the range is found here; mr_grant_access() checks key and PD. */
	dyn = mr_find_entry(nic, index, &entry, &xlat);
	if (dyn && is_window(dyn->word)) {
		mw_range(nic, index, &addr, &len);
	} else if (dyn) {
		addr = le64toh(entry.iova);
		len = le64toh(entry.length);
	}
	return mr_grant_access(nic, actor, key, addr, len, need, grant);
}

uint8_t mr_grant_ptr(struct nic *nic, struct mr_grant *grant, uint64_t off,
		     uint64_t *len, uint8_t **ptr)
{
	struct xlat_leaf leaf;
	uint8_t syndrome;
	uint64_t byte;

	if (grant->kind == MR_KIND_ALL) {
		*ptr = dma_map_ptr(nic->dma, grant->first + off, len,
				   grant->write);
		return *ptr && *len ? MOOR_SYN_NONE : MOOR_SYN_DMA;
	}

	byte = grant->first + off;
	grant->wanted = byte;
	if (nic->mr->strict)
		syndrome = mr_strict_walk(nic, grant, byte, &leaf);
	else
		syndrome = xlat_walk(nic, &grant->xlat, byte, &leaf,
				     &grant->node);
	if (syndrome)
		return syndrome;
	return xlat_host(nic, &grant->xlat, &leaf, len, grant->write, ptr);
}

/* The bits of a key that revoke and query compare. */
static uint32_t compared_bits(uint32_t key)
{
	return key_index(key) >= NIC_MR_CONSUMER_FIRST ?
	       ~(uint32_t)MOOR_KEY_CONSUMER : ~0u;
}

struct mr_dynamic *mr_find_key(struct nic *nic, uint32_t key,
			       struct moor_mr_context *entry)
{
	struct mr_dynamic *dyn;
	struct xlat xlat;

	dyn = mr_find_entry(nic, key_index(key), entry, &xlat);
	if (!dyn || ((le64toh(entry->valid) >> 32) ^ key) & compared_bits(key))
		return NULL;
	return dyn;
}

static void revoke_entry(struct nic *nic, uint32_t index,
			 struct mr_dynamic *dyn)
{
	struct moor_mr_context now;

	if (dyn->bound)
		mw_unbind(nic, index);
	dyn->revoked = true;
	if (!nic->mr->strict)
		return;
	/* The kept entry may be older than the table's: the latter is revoked, too. */
	mr_strict_drop(nic, index);
	if (read_entry(nic, index, &now))
		dynamic_state(nic, index, le64toh(now.valid))->revoked = true;
}

/*
 * HWI REV-1 to REV-5. One thread does all DMA and does it before it takes the next
 * command: an access that was started through a key has ended before a revoke runs.
 */
uint8_t mr_revoke(struct nic *nic, const struct moor_cmd *raw,
		  struct moor_cpl *cpl)
{
	const struct moor_cmd_mr_revoke *cmd = (const void *)raw;
	struct moor_cpl_mr_revoke *out = (void *)cpl->out;
	uint32_t count = le32toh(cmd->count);
	uint32_t busy = 0, unknown = 0, i;

	if (!count || count > MOOR_REVOKE_MAX_KEYS)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_mr_revoke, count);
	for (i = count; i < MOOR_REVOKE_MAX_KEYS; i++) {
		if (cmd->key[i])
			return CMD_FAIL(cpl, MOOR_CMD_BAD_RESERVED,
					struct moor_cmd_mr_revoke, key[i]);
	}

	for (i = 0; i < count; i++) {
		uint32_t key = le32toh(cmd->key[i]);
		struct moor_mr_context entry;
		struct mr_dynamic *dyn = mr_find_key(nic, key, &entry);

		if (!dyn || dyn->revoked) {
			log_refused("HWI REV-3", "revoke of key 0x%08x: %s", key,
				    syndrome_name(MOOR_SYN_KEY));
			unknown |= 1u << i;
		} else if (dyn->windows) {
			log_refused("HWI REV-2", "revoke of key 0x%08x: a window is bound", key);
			busy |= 1u << i;
		} else {
			revoke_entry(nic, key_index(key), dyn);
		}
	}
	out->busy = htole32(busy);
	out->unknown = htole32(unknown);
	return MOOR_CMD_OK;
}

uint8_t mr_query(struct nic *nic, const struct moor_cmd *raw,
		 struct moor_cpl *cpl)
{
	const struct moor_cmd_mr_query *cmd = (const void *)raw;
	struct moor_cpl_mr_query *out = (void *)cpl->out;
	struct moor_mr_context entry;
	struct mr_dynamic *dyn = mr_find_key(nic, le32toh(cmd->key), &entry);

	if (!dyn)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_mr_query, key);
	out->type = FIELD(MOOR_MRC_TYPE, dyn->word);
	out->key = htole32(dyn->key);
	if (dyn->revoked) {
		out->state = MOOR_MR_STATE_REVOKED;
	} else if (is_window(dyn->word)) {
		mw_query(nic, key_index(dyn->key), out);
	} else {
		out->state = is_fast(dyn->word) && !dyn->registered ?
			     MOOR_MR_STATE_FREE : MOOR_MR_STATE_VALID;
		out->windows = htole32(dyn->windows);
		out->access = entry.access;
		out->iova = entry.iova;
		out->length = entry.length;
	}
	return MOOR_CMD_OK;
}

uint32_t mr_rights(const struct nic *nic)
{
	uint32_t rights = MOOR_ACCESS_ALL;

	if (!nic_has(nic, MOOR_FEATURE_ATOMICS))
		rights &= ~(uint32_t)MOOR_ACCESS_REMOTE_ATOMIC;
	if (!nic_has(nic, MOOR_FEATURE_FLUSH_GLOBAL))
		rights &= ~(uint32_t)MOOR_ACCESS_FLUSH_GLOBAL;
	if (!nic_has(nic, MOOR_FEATURE_FLUSH_PERSISTENT))
		rights &= ~(uint32_t)MOOR_ACCESS_FLUSH_PERSISTENT;
	return rights;
}

bool mr_init(struct nic *nic)
{
	if (!nic->cfg.strict)
		return true;
	return mr_strict_init(nic) &&
	       (!nic_has(nic, MOOR_FEATURE_RELAXED_ORDERING) || relaxed_init(nic));
}

void mr_exit(struct nic *nic)
{
	relaxed_exit(nic);
	mr_strict_exit(nic);
}

void mr_reset(struct nic *nic)
{
	memset(nic->mr->dynamic, 0, sizeof(nic->mr->dynamic));
	if (nic->mr->strict)
		mr_strict_reset(nic);
}
