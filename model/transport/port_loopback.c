// SPDX-License-Identifier: GPL-2.0
/*
 * The port that leads back into this NIC: a packet is received before it is
 * sent, so to say, and its payload copied once, from memory to memory.
 */
#include "transport/port.h"
#include "transport/transport.h"

static uint32_t loopback_unit(uint32_t mtu)
{
	(void)mtu;
	return PORT_UNIT;
}

const struct port loopback_port = {
	.unit = loopback_unit,
	.send = transport_receive,
	.keeps = true,
	.window = PORT_MAX_WINDOW,
};

uint32_t port_unit(const struct nic *nic, uint32_t mtu)
{
	return nic->wire->port->unit(mtu);
}

uint8_t port_send(struct nic *nic, struct packet *p)
{
	/* Without an address of its own a QP reaches nobody. */
	return p->sgid ? nic->wire->port->send(nic, p) : MOOR_SYN_NONE;
}
