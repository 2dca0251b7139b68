// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: connected
 *
 * Connects to itself by rdma_cm, moves data, prints "ready" and waits for the device to
 * be removed. Then both ends must get events, and all objects can be destroyed.
 */
#include <stdio.h>

#include "connection.h"
#include "pair.h"
#include "tap.h"

/* The end of the connection may be reported before the removal. */
static void told(struct end *end, const char *who)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	do {
		if (rdma_get_cm_event(end->channel, &event))
			tap_bail("%s: no event", who);
		type = event->event;
		rdma_ack_cm_event(event);
	} while (type == RDMA_CM_EVENT_DISCONNECTED);
	tap_ok(type == RDMA_CM_EVENT_DEVICE_REMOVAL, "%s: %s", who, rdma_event_str(type));
}

int main(void)
{
	struct connection cm;
	struct ibv_wc wc;

	cm_open(&cm, RDMA_PS_TCP);
	if (end_receive(&cm.server, 0) || end_receive(&cm.server, 1))
		tap_bail("no receives");
	tap_is(cm_answer(&cm, "who answers"), 0, "it is accepted");
	cm_event(&cm.client, RDMA_CM_EVENT_ESTABLISHED, NULL, "client");
	cm_event(&cm.server, RDMA_CM_EVENT_ESTABLISHED, NULL, "server");
	fill(cm.client.buf, CM_SLOT, 9);
	tap_is(end_send(&cm.client, 0, CM_SLOT), 0, "a message is sent");
	expect_wc(cm.server.id->recv_cq, 0, IBV_WC_SUCCESS, &wc, "and received");
	tap_ok(is_filled(cm.server.buf, CM_SLOT, 9), "as sent");
	puts("ready");
	fflush(stdout);
	told(&cm.client, "client");
	told(&cm.server, "server");
	cm_close(&cm);
	return tap_done();
}
