/* SPDX-License-Identifier: GPL-2.0 */
/* What processes hold of the first Moor NIC, to be compared before and after. */
#ifndef HOLDINGS_H
#define HOLDINGS_H

#include <stdbool.h>

#define RESOURCES	7	/* kinds that the kernel counts for a device */

struct holdings {
	long pinned_kib;		/* by this process */
	unsigned int entries;		/* valid ones of the NIC's context table */
	unsigned int resource[RESOURCES];
};

/* Again after the NIC's driver has been unbound and bound. */
void holdings_open(void);
/* Before the NIC leaves the bus: forgets where it was. */
void holdings_close(void);
void holdings_get(struct holdings *now);
bool holdings_equal(const struct holdings *a, const struct holdings *b);
void holdings_diag(const char *when, const struct holdings *held);

/*
 * What "rdma resource show" asks of the kernel: all of a kind of objects, with
 * what the driver says of them. @command is RDMA_NLDEV_CMD_RES_*; @answers counts
 * messages. Returns 0 or an errno.
 */
int resource_dump(int command, unsigned int *answers);

/* The first NIC's name in verbs, and its PCI address. */
const char *nic_name(void);
const char *nic_address(void);

#endif /* HOLDINGS_H */
