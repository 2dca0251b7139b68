/* SPDX-License-Identifier: GPL-2.0 */
/* Registers in BAR0 (HWI 4): see nic_reg_read(). */
#ifndef MODEL_REGISTERS_H
#define MODEL_REGISTERS_H

struct nic;

void registers_reset(struct nic *nic);

#endif /* MODEL_REGISTERS_H */
