/* SPDX-License-Identifier: GPL-2.0 */
/* A NIC that only checks that the endpoint keeps to nic.h. */
#ifndef FUZZ_NIC_STUB_H
#define FUZZ_NIC_STUB_H

#include "device/nic.h"

struct nic_stub {
	void (*raise)(void *ctx, unsigned int vector);
	void *raise_ctx;
	bool bus_master;
	unsigned int resets, kicks, register_writes;
};

extern struct nic_stub nic_stub;

#endif /* FUZZ_NIC_STUB_H */
