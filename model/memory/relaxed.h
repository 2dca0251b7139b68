/* SPDX-License-Identifier: GPL-2.0 */
/*
 * --strict: writes through memory with RELAXED_ORDERING, on their way (HWI ORD-9).
 * They are held back in pieces and arrive in any order, at the latest when
 * something comes that they shall not be later than, or a QP's quantum or what a
 * port's timer has delivered ends: nothing here outlives that, so that it needs no
 * care for what may change then, a fence and the memory's end among it.
 */
#ifndef MODEL_RELAXED_H
#define MODEL_RELAXED_H

#include <stdbool.h>
#include <stdint.h>

struct nic;

bool relaxed_init(struct nic *nic);
void relaxed_exit(struct nic *nic);

/* Writes to @to, later, what is at @from now; @from NULL: zeros. */
void relaxed_hold(struct nic *nic, uint8_t *to, const uint8_t *from,
		  uint64_t len);
/* Lets all of them arrive. */
void relaxed_release(struct nic *nic);

/* What is held back for @at is there when this returns. */
void relaxed_before_read(struct nic *nic, const uint8_t *at, uint64_t len);

#endif /* MODEL_RELAXED_H */
