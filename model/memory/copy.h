/* SPDX-License-Identifier: GPL-2.0 */
/* Copying that a CPU sees byte after byte (HWI ORD-4). memcpy() promises no order. */
#ifndef MODEL_COPY_H
#define MODEL_COPY_H

#include <stdint.h>

/* From the first byte to the last; @to is not between @from and its end. */
void copy_in_order(uint8_t *to, const uint8_t *from, uint64_t len);
void zero_in_order(uint8_t *to, uint64_t len);

#endif /* MODEL_COPY_H */
