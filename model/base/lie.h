/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A NIC that lies (control socket: "lie"): in some of the entries that it writes for the
 * driver one field has another value, at the end of its range or at random. The NIC
 * itself goes on with the true value.
 */
#ifndef MODEL_LIE_H
#define MODEL_LIE_H

#include <stdint.h>

#include "base/random.h"
#include "moor/moor_hw.h"

struct nic;

/* Which entries the NIC lies in. */
enum lie_where {
	LIE_COMMANDS	= 1 << 0,	/* completions of commands, lists of windows */
	LIE_EVENTS	= 1 << 1,
	LIE_CQES	= 1 << 2,
	LIE_EVERYWHERE	= LIE_COMMANDS | LIE_EVENTS | LIE_CQES,
};

struct lies {
	uint32_t where;		/* enum lie_where; 0: the NIC is honest */
	uint32_t one_in;	/* one lie in so many entries */
	struct random random;	/* chooses entry, field and value */
};

/* With the same @seed the same entries bring the same lies. */
void lie_begin(struct nic *nic, uint64_t seed, uint32_t one_in, uint32_t where);

/* Called with a complete entry, phase included; a lie is logged. */
void lie_completion(struct nic *nic, const char *name, uint8_t opcode,
		    struct moor_cpl *cpl);
void lie_window(struct nic *nic, struct moor_window_info *info);
void lie_event(struct nic *nic, struct moor_eqe *eqe);
void lie_cqe(struct nic *nic, struct moor_cqe *cqe);

#endif /* MODEL_LIE_H */
