// SPDX-License-Identifier: GPL-2.0
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/fault.h"
#include "base/lie.h"
#include "base/log.h"
#include "base/state.h"

struct field {
	const char *name;
	uint8_t offset, size;	/* little-endian, in bytes */
};

struct fields {
	const struct field *field;
	uint32_t count;
};

#define FIELD_OF(type, member) \
	{ #member, offsetof(struct type, member), sizeof(((struct type *)0)->member) }
#define OUT_OF(type, member) \
	{ #member, offsetof(struct moor_cpl, out) + offsetof(struct type, member), \
	  sizeof(((struct type *)0)->member) }
#define FIELDS(list)	{ list, sizeof(list) / sizeof((list)[0]) }

static const struct field completion[] = {
	FIELD_OF(moor_cpl, tag), FIELD_OF(moor_cpl, status),
	FIELD_OF(moor_cpl, detail), FIELD_OF(moor_cpl, phase),
};

static const struct field query_qp[] = {
	OUT_OF(moor_cpl_query_qp, state), OUT_OF(moor_cpl_query_qp, sq_draining),
	OUT_OF(moor_cpl_query_qp, sq_psn), OUT_OF(moor_cpl_query_qp, rq_psn),
	OUT_OF(moor_cpl_query_qp, sq_consumer),
	OUT_OF(moor_cpl_query_qp, rq_consumer),
};

static const struct field query_srq[] = {
	OUT_OF(moor_cpl_query_srq, failed), OUT_OF(moor_cpl_query_srq, limit),
	OUT_OF(moor_cpl_query_srq, consumer),
};

static const struct field revoke[] = {
	OUT_OF(moor_cpl_mr_revoke, busy), OUT_OF(moor_cpl_mr_revoke, unknown),
};

static const struct field query_mr[] = {
	OUT_OF(moor_cpl_mr_query, state), OUT_OF(moor_cpl_mr_query, type),
	OUT_OF(moor_cpl_mr_query, key), OUT_OF(moor_cpl_mr_query, windows),
	OUT_OF(moor_cpl_mr_query, mr_key), OUT_OF(moor_cpl_mr_query, qpn),
	OUT_OF(moor_cpl_mr_query, access), OUT_OF(moor_cpl_mr_query, iova),
	OUT_OF(moor_cpl_mr_query, length),
};

static const struct field windows[] = {
	OUT_OF(moor_cpl_mr_windows, count), OUT_OF(moor_cpl_mr_windows, cursor),
};

static const struct field window[] = {
	FIELD_OF(moor_window_info, key), FIELD_OF(moor_window_info, type),
	FIELD_OF(moor_window_info, qpn), FIELD_OF(moor_window_info, access),
	FIELD_OF(moor_window_info, iova), FIELD_OF(moor_window_info, length),
};

static const struct field event[] = {
	FIELD_OF(moor_eqe, type), FIELD_OF(moor_eqe, number),
	FIELD_OF(moor_eqe, phase),
};

static const struct field page_request[] = {
	FIELD_OF(moor_page_request, type), FIELD_OF(moor_page_request, flags),
	FIELD_OF(moor_page_request, token), FIELD_OF(moor_page_request, key),
	FIELD_OF(moor_page_request, qpn), FIELD_OF(moor_page_request, addr),
	FIELD_OF(moor_page_request, length), FIELD_OF(moor_page_request, phase),
};

static const struct field cqe_fields[] = {
	FIELD_OF(moor_cqe, wr_id), FIELD_OF(moor_cqe, byte_len),
	FIELD_OF(moor_cqe, imm), FIELD_OF(moor_cqe, qpn),
	FIELD_OF(moor_cqe, cookie), FIELD_OF(moor_cqe, wqe_index),
	FIELD_OF(moor_cqe, src_qpn), FIELD_OF(moor_cqe, opcode),
	FIELD_OF(moor_cqe, status), FIELD_OF(moor_cqe, flags),
	FIELD_OF(moor_cqe, syndrome), FIELD_OF(moor_cqe, pkey_index),
	FIELD_OF(moor_cqe, network), FIELD_OF(moor_cqe, priority),
	FIELD_OF(moor_cqe, timestamp), FIELD_OF(moor_cqe, vlan),
	FIELD_OF(moor_cqe, phase),
};

/* The fields of a command's answer, besides those of every completion. */
static const struct fields answers[] = {
	[MOOR_CMD_QUERY_QP]	= FIELDS(query_qp),
	[MOOR_CMD_QUERY_SRQ]	= FIELDS(query_srq),
	[MOOR_CMD_MR_REVOKE]	= FIELDS(revoke),
	[MOOR_CMD_MR_QUERY]	= FIELDS(query_mr),
	[MOOR_CMD_MR_WINDOWS]	= FIELDS(windows),
};

#define NUM_ANSWERS	(sizeof(answers) / sizeof(answers[0]))

static uint64_t next(struct lies *lies)
{
	return random_next(&lies->random) >> 8;
}

/* A value of @bits bits, not @truth: an end of a range, next to @truth, or random. */
static uint64_t other_value(struct lies *lies, uint64_t truth, unsigned int bits)
{
	uint64_t all, value = truth;

	assert(bits);
	all = ~0ull >> (64 - bits);
	while (value == truth) {
		switch (next(lies) % 10) {
		case 0:
			value = 0;
			break;
		case 1:
			value = all;
			break;
		case 2:
			value = all - 1;
			break;
		case 3:
			value = 1ull << (bits - 1);
			break;
		case 4:
			value = (1ull << (bits - 1)) - 1;
			break;
		case 5:
			value = truth + 1;
			break;
		case 6:
			value = truth - 1;
			break;
		case 7:
			value = truth ^ 1ull << next(lies) % bits;
			break;
		case 8:
			value = next(lies) % 128;
			break;
		default:
			value = next(lies) ^ next(lies) << 40;
			break;
		}
		value &= all;
	}
	return value;
}

static void change(struct lies *lies, const char *what, void *entry,
		   const struct field *field)
{
	uint8_t *bytes = (uint8_t *)entry + field->offset;
	uint64_t truth = 0, value;
	unsigned int i;

	for (i = 0; i < field->size; i++)
		truth |= (uint64_t)bytes[i] << 8 * i;
	value = other_value(lies, truth, 8 * field->size);
	for (i = 0; i < field->size; i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
	log_info("lie: %s: %s 0x%llx, not 0x%llx", what, field->name,
		 (unsigned long long)value, (unsigned long long)truth);
}

/* Now and then changes one field, out of the two lists together. */
static void maybe_lie(struct nic *nic, enum lie_where where, const char *what,
		      void *entry, struct fields head, struct fields more)
{
	struct lies *lies = nic->lies;
	uint32_t which;

	if (!(lies->where & where) || next(lies) % lies->one_in)
		return;
	which = (uint32_t)(next(lies) % (head.count + more.count));
	nic->faults->fired++;
	change(lies, what, entry, which < head.count ? &head.field[which] :
						     &more.field[which - head.count]);
}

void lie_begin(struct nic *nic, uint64_t seed, uint32_t one_in, uint32_t where)
{
	*nic->lies = (struct lies){
		.where = where, .one_in = one_in,
	};
	random_seed(&nic->lies->random, seed);
}

void lie_completion(struct nic *nic, const char *name, uint8_t opcode,
		    struct moor_cpl *cpl)
{
	const struct fields head = FIELDS(completion);
	const struct fields none = { NULL, 0 };

	/* The completion of a failed command has no answer fields. */
	maybe_lie(nic, LIE_COMMANDS, name, cpl, head,
		  cpl->status || opcode >= NUM_ANSWERS ? none : answers[opcode]);
}

void lie_window(struct nic *nic, struct moor_window_info *info)
{
	const struct fields all = FIELDS(window), none = { NULL, 0 };

	maybe_lie(nic, LIE_COMMANDS, "list of windows", info, all, none);
}

void lie_event(struct nic *nic, struct moor_eqe *eqe)
{
	const struct fields pages = FIELDS(page_request), none = { NULL, 0 };
	const struct fields all = FIELDS(event);

	if (eqe->type == MOOR_EVENT_PAGE_REQUEST)
		maybe_lie(nic, LIE_EVENTS, "page request", eqe, pages, none);
	else
		maybe_lie(nic, LIE_EVENTS, "event", eqe, all, none);
}

void lie_cqe(struct nic *nic, struct moor_cqe *cqe)
{
	const struct fields all = FIELDS(cqe_fields), none = { NULL, 0 };

	maybe_lie(nic, LIE_CQES, "CQE", cqe, all, none);
}
