// SPDX-License-Identifier: GPL-2.0
/*
 * A port in front of the other one: packets become bytes, one path MTU each at
 * the most, and some of them are lost, repeated, reordered, delayed or damaged.
 * Which ones, the seed decides.
 */
#include <stdlib.h>
#include <string.h>

#include "memory/relaxed.h"
#include "transport/port.h"
#include "transport/transport.h"

#define MAX_FRAMES	2048u
#define WINDOW		64u	/* so many packets may follow a lost one, and go again */
#define REORDER_NS	30000u
#define DELAY_NS	1000000u

/* A packet on its way. */
struct frame {
	struct frame *next;
	uint64_t due;
	uint32_t src_qpn;
	uint8_t sgid[16], dgid[16];
	bool is_datagram;
	struct datagram datagram;
	uint32_t len;
	uint8_t bytes[PACKET_MAX_MTU + PACKET_OVERHEAD];
};

struct impaired {
	struct timer timer;	/* first: its callback finds the port by it */
	struct impairment asked;
	struct random random;
	struct frame *first;	/* the one that is due first */
	struct frame *unused;
	struct frame frames[MAX_FRAMES];
};

/* In @percent of a hundred cases. */
static bool happens(struct impaired *port, uint8_t percent)
{
	return random_below(&port->random, 100) < percent;
}

static struct frame *frame_get(struct impaired *port)
{
	struct frame *f = port->unused;

	if (f)
		port->unused = f->next;
	return f;
}

static void frame_put(struct impaired *port, struct frame *f)
{
	f->next = port->unused;
	port->unused = f;
}

static void watch(struct nic *nic, struct impaired *port)
{
	if (port->first)
		timer_start(&nic->timers, &port->timer, port->first->due);
	else
		timer_stop(&nic->timers, &port->timer);
}

/* Puts @f behind the frames that are due before it or at the same time. */
static void enqueue(struct impaired *port, struct frame *f, uint64_t due)
{
	struct frame **at = &port->first;

	f->due = due;
	while (*at && (*at)->due <= due)
		at = &(*at)->next;
	f->next = *at;
	*at = f;
}

static void deliver(struct nic *nic, struct frame *f)
{
	struct packet p = {
		.src_qpn = f->src_qpn,
		.sgid = f->sgid,
		.dgid = f->dgid,
		.datagram = f->is_datagram ? &f->datagram : NULL,
	};

	if (!transport_receive_bytes(nic, &p, f->bytes, f->len))
		nic->wire->traffic.damaged++;
}

static void deliver_due(struct nic *nic, struct timer *timer)
{
	struct impaired *port = (struct impaired *)timer;
	uint64_t now = timer_now();

	while (port->first && port->first->due <= now) {
		struct frame *f = port->first;

		port->first = f->next;
		deliver(nic, f);
		frame_put(port, f);
	}
	/* A command may come next; its completion promises that no write is held back. */
	relaxed_release(nic);
	watch(nic, port);
}

static uint64_t due_time(struct nic *nic, struct impaired *port)
{
	uint64_t due = timer_now();

	if (happens(port, port->asked.reorder)) {
		nic->wire->traffic.reordered++;
		due += REORDER_NS;
	}
	if (happens(port, port->asked.delay)) {
		nic->wire->traffic.delayed++;
		due += DELAY_NS;
	}
	return due;
}

static void repeat(struct nic *nic, struct impaired *port,
		   const struct frame *original)
{
	struct frame *f = frame_get(port);

	if (!f)
		return;
	memcpy(f, original, sizeof(*f));
	enqueue(port, f, due_time(nic, port));
	nic->wire->traffic.repeated++;
}

static uint8_t impaired_send(struct nic *nic, struct packet *p)
{
	struct impaired *port = nic->wire->impaired;
	struct frame *f = frame_get(port);
	uint8_t payload[PACKET_MAX_MTU], syndrome;
	struct stream to = { .bytes = payload }, *culprit;

	/* A full port drops, as switches do. */
	if (!f)
		return MOOR_SYN_NONE;
	syndrome = p->length ? transfer(nic, &to, p->payload, p->length,
					&culprit) : MOOR_SYN_NONE;
	nic->wire->traffic.carried++;
	if (syndrome || happens(port, port->asked.lose)) {
		nic->wire->traffic.lost += !syndrome;
		frame_put(port, f);
		return syndrome;
	}
	f->src_qpn = p->src_qpn;
	memcpy(f->sgid, p->sgid, sizeof(f->sgid));
	memcpy(f->dgid, p->dgid, sizeof(f->dgid));
	f->is_datagram = (p->opcode & PACKET_TRANSPORT) == PACKET_TRANSPORT_UD;
	if (f->is_datagram)
		f->datagram = *p->datagram;
	f->len = (uint32_t)packet_encode(p, payload, f->bytes);
	if (happens(port, port->asked.damage))
		f->bytes[port->random.state % f->len] ^=
			1u << (port->random.state >> 60 & 7);
	enqueue(port, f, due_time(nic, port));
	if (happens(port, port->asked.repeat))
		repeat(nic, port, f);
	watch(nic, port);
	return MOOR_SYN_NONE;
}

static uint32_t impaired_unit(uint32_t mtu)
{
	return mtu;
}

const struct port impaired_port = {
	.unit = impaired_unit,
	.send = impaired_send,
	.window = WINDOW,
};

void port_reset(struct nic *nic)
{
	struct impaired *port = nic->wire->impaired;

	if (!port)
		return;
	while (port->first) {
		struct frame *f = port->first;

		port->first = f->next;
		frame_put(port, f);
	}
	watch(nic, port);
}

bool port_init(struct nic *nic)
{
	static const struct impairment none;

	return port_impair(nic, memcmp(&nic->cfg.impairment, &none,
				       sizeof(none)) ?
				&nic->cfg.impairment : NULL);
}

bool port_impair(struct nic *nic, const struct impairment *asked)
{
	struct impaired *port = nic->wire->impaired;
	unsigned int i;

	if (!asked) {
		nic->wire->port = &loopback_port;
		port_reset(nic);
		free(port);
		nic->wire->impaired = NULL;
		return true;
	}
	if (!port) {
		port = calloc(1, sizeof(*port));
		if (!port)
			return false;
		port->timer.expired = deliver_due;
		random_seed(&port->random, nic->cfg.seed);
		for (i = 0; i < MAX_FRAMES; i++)
			frame_put(port, &port->frames[i]);
		nic->wire->impaired = port;
	}
	port->asked = *asked;
	nic->wire->port = &impaired_port;
	return true;
}
