/* SPDX-License-Identifier: GPL-2.0 */
/* What processes hold of the first Moor NIC, to be compared before and after. */
#ifndef HOLDINGS_H
#define HOLDINGS_H

#include <stdbool.h>

#define RESOURCES	7	/* kinds that the kernel counts for each device */

struct holdings {
	long pinned_kib;		/* pinned by this process */
	unsigned int entries;		/* valid entries of the NIC's context table */
	unsigned int resource[RESOURCES];
};

/* To be called again after the driver has been unbound and bound. */
void holdings_open(void);
/* To be called before the NIC leaves the bus. */
void holdings_close(void);
void holdings_get(struct holdings *now);
bool holdings_equal(const struct holdings *a, const struct holdings *b);
void holdings_diag(const char *when, const struct holdings *held);

/*
 * Dumps all objects of a kind with the driver's details, as "rdma resource show" does.
 * @command is RDMA_NLDEV_CMD_RES_*; @answers is the number of messages. Returns 0 or an
 * errno.
 */
int resource_dump(int command, unsigned int *answers);

/* The first NIC's name in verbs, and its PCI address. */
const char *nic_name(void);
const char *nic_address(void);

#endif /* HOLDINGS_H */
