// SPDX-License-Identifier: GPL-2.0
/*
 * Fast registration: MRs whose registrations come and go by work requests of the
 * kernel's QPs (HWI 6.9).
 */
#include <endian.h>
#include <stddef.h>

#include "memory/mr_fast.h"
#include "memory/mr_state.h"
#include "memory/mr_strict.h"
#include "memory/mw.h"

#define FAST_RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | REMOTE_RIGHTS | \
			 MOOR_ACCESS_RELAXED_ORDERING)

static struct mr_registration *registration_of(struct nic *nic, uint32_t index)
{
	return &nic->mr->fast[index - NIC_MR_CONSUMER_FIRST];
}

void mr_fast_show(struct nic *nic, uint32_t index,
		  struct moor_mr_context *entry, struct xlat *xlat)
{
	const struct mr_registration *reg = registration_of(nic, index);

	entry->access = htole32(reg->access);
	entry->iova = htole64(reg->iova);
	entry->length = htole64(reg->length);
	*xlat = reg->xlat;
}

/* Is there room in the MR's table for what the translation maps? */
static bool table_has_room(const struct xlat *xlat, uint64_t length,
			   uint64_t max_pages)
{
	uint64_t last;

	return !__builtin_add_overflow(xlat->offset, length - 1, &last) &&
	       last >> xlat->page_shift < max_pages;
}

/* The checks 4 to 7 of REG_MR. */
static uint8_t check_request(const struct nic *nic,
			     const struct mr_fast_request *req,
			     const struct moor_mr_context *entry,
			     struct mr_registration *reg)
{
	uint64_t last;

	if ((req->access & ~(uint32_t)FAST_RIGHTS) ||
	    ((req->access & mr_rights(nic) & WRITING_RIGHTS) &&
	     !(req->access & MOOR_ACCESS_LOCAL_WRITE)))
		return MOOR_SYN_RIGHTS;
	if (!req->length || req->length > NIC_MAX_MR_SIZE)
		return MOOR_SYN_LENGTH;
	if (__builtin_add_overflow(req->iova, req->length - 1, &last))
		return MOOR_SYN_BOUNDS;
	if (!xlat_decode(&reg->xlat, &req->xlat) ||
	    reg->xlat.memory != MOOR_MEMORY_HOST ||
	    !table_has_room(&reg->xlat, req->length,
			    le64toh(entry->max_pages)))
		return MOOR_SYN_TRANSLATION;
	reg->access = req->access;
	reg->iova = req->iova;
	reg->length = req->length;
	return MOOR_SYN_NONE;
}

uint8_t mr_fast_register(struct nic *nic, const struct mr_actor *actor,
			 const struct mr_fast_request *req)
{
	struct moor_mr_context entry;
	struct mr_dynamic *dyn = mr_find_key(nic, req->key, &entry);
	struct mr_registration reg;
	uint8_t syndrome;

	if (!dyn || !is_fast(dyn->word) || dyn->revoked)
		return MOOR_SYN_KEY;
	if (le32toh(entry.pd) != actor->pd)
		return MOOR_SYN_PD;
	if (dyn->registered)
		return MOOR_SYN_KEY;
	syndrome = check_request(nic, req, &entry, &reg);
	if (syndrome)
		return syndrome;
	*registration_of(nic, key_index(req->key)) = reg;
	dyn->key = (dyn->key & ~(uint32_t)MOOR_KEY_CONSUMER) |
		   (req->key & MOOR_KEY_CONSUMER);
	dyn->registered = true;
	dyn->epoch++;
	return MOOR_SYN_NONE;
}

/* The fast-registration MR of this key, consumer byte not compared, or NULL. */
static struct mr_dynamic *find_fast(struct nic *nic, uint32_t key,
				    struct moor_mr_context *entry)
{
	struct mr_dynamic *dyn = mr_find_key(nic, key, entry);

	return dyn && is_fast(dyn->word) ? dyn : NULL;
}

/*
 * One thread does all DMA, a message's last chunk before the message's invalidation:
 * an access through the registration has ended before this runs (HWI REV-10).
 */
uint8_t mr_invalidate(struct nic *nic, const struct mr_actor *actor,
		      uint32_t key)
{
	struct moor_mr_context entry;
	struct mr_dynamic *dyn = find_fast(nic, key, &entry);

	if (!dyn)
		return mw_invalidate(nic, actor, key);
	if (dyn->revoked || !dyn->registered || dyn->key != key)
		return MOOR_SYN_KEY;
	if (le32toh(entry.pd) != actor->pd)
		return MOOR_SYN_PD;
	dyn->registered = false;
	dyn->epoch++;
	if (nic->mr->strict)
		mr_strict_drop_pages(nic, key_index(key));
	return MOOR_SYN_NONE;
}
