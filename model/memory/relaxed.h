/* SPDX-License-Identifier: GPL-2.0 */
/*
 * --strict: writes through memory with RELAXED_ORDERING, on their way (HWI ORD-9).
 * They are held back in pieces and arrive in any order: at the latest before an access
 * that must not overtake them, at the end of a QP's quantum, and when the port's timer
 * has delivered its packets. No piece is held longer. So what may change after that,
 * such as a fence or the end of the memory, needs no care here.
 */
#ifndef MODEL_RELAXED_H
#define MODEL_RELAXED_H

#include <stdbool.h>
#include <stdint.h>

struct nic;

bool relaxed_init(struct nic *nic);
void relaxed_exit(struct nic *nic);

/* Writes to @to, later, the bytes that are at @from now; @from NULL: zeros. */
void relaxed_hold(struct nic *nic, uint8_t *to, const uint8_t *from,
		  uint64_t len);
/* Lets all writes arrive that are held back. */
void relaxed_release(struct nic *nic);

/* When this returns, no write to the @len bytes at @at is held back. */
void relaxed_before_read(struct nic *nic, const uint8_t *at, uint64_t len);

#endif /* MODEL_RELAXED_H */
