// SPDX-License-Identifier: GPL-2.0
/*
 * Connections by rdma_cm to an address of the NIC's own: events and private data while
 * connecting, messages, work requests when a connection ends, refusals, and datagrams.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "connection.h"
#include "pair.h"
#include "tap.h"

/* IBA 12.6.7.2; user-space headers lack it. */
#define REJ_INVALID_SERVICE_ID	8
#define REJ_CONSUMER_DEFINED	28

#define RECEIVES	(CM_SLOTS / 2)

static void fill_slots(struct end *end)
{
	for (int i = 0; i < CM_SLOTS; i++)
		fill(end->buf + i * CM_SLOT, CM_SLOT, i + 1);
}

static void establish(struct connection *cm)
{
	struct cm_seen seen;

	cm_open(cm, RDMA_PS_TCP);
	tap_is(cm_answer(cm, "who answers"), 0, "it is accepted");
	cm_event(&cm->client, RDMA_CM_EVENT_ESTABLISHED, &seen, "client");
	tap_ok(!strcmp((char *)seen.data, "who answers"), "client: what the server said");
	cm_event(&cm->server, RDMA_CM_EVENT_ESTABLISHED, NULL, "server");
}

/* A message from each end to the other. */
static void exchange_messages(struct connection *cm)
{
	struct end *from = &cm->client, *to = &cm->server, *other;
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++) {
		memset(to->buf, 0, CM_SLOTS * CM_SLOT);
		fill(from->buf, CM_SLOT, i + 77);
		tap_is(end_receive(to, 1) || end_send(from, 0, CM_SLOT), 0, "posted");
		expect_wc(from->id->send_cq, 0, IBV_WC_SUCCESS, &wc, "message");
		expect_wc(to->id->recv_cq, 1, IBV_WC_SUCCESS, &wc, "message");
		tap_ok(wc.byte_len == CM_SLOT &&
		       is_filled(to->buf + CM_SLOT, CM_SLOT, i + 77),
		       "its %u bytes are as sent", wc.byte_len);
		other = from;
		from = to;
		to = other;
	}
}

/*
 * Half of the messages find no receive and wait for one when the client disconnects.
 * Messages that have completed are in the receives, in order.
 */
static void end_in_mid_flight(struct connection *cm)
{
	struct end *client = &cm->client, *server = &cm->server;
	bool good = true;
	struct ibv_wc wc;
	int i;

	fill_slots(client);
	memset(server->buf, 0, CM_SLOTS * CM_SLOT);
	for (i = 0; i < RECEIVES; i++)
		good = good && !end_receive(server, i);
	for (i = 0; i < CM_SLOTS; i++)
		good = good && !end_send(client, i, CM_SLOT);
	tap_ok(good, "%d messages for %d receives", CM_SLOTS, RECEIVES);
	for (i = 0; i < RECEIVES && good; i++)
		good = wait_wc(client->id->send_cq, &wc) && !wc.status &&
		       wait_wc(server->id->recv_cq, &wc) && !wc.status &&
		       wc.wr_id == (unsigned int)i &&
		       is_filled(server->buf + i * CM_SLOT, CM_SLOT, i + 1);
	tap_ok(good, "those that find one arrive as sent");
	tap_is(rdma_disconnect(client->id), 0, "the client disconnects");
	for (good = true; i < CM_SLOTS && good; i++)
		good = wait_wc(client->id->send_cq, &wc) &&
		       wc.wr_id == (unsigned int)i &&
		       wc.status == IBV_WC_WR_FLUSH_ERR;
	tap_ok(good, "the others are flushed, each once");
	tap_is(ibv_poll_cq(client->id->send_cq, 1, &wc), 0, "and nothing else completes");
	cm_event(server, RDMA_CM_EVENT_DISCONNECTED, NULL, "server");
	tap_is(rdma_disconnect(server->id), 0, "so does the server");
	cm_event(client, RDMA_CM_EVENT_DISCONNECTED, NULL, "client");
	tap_is(end_receive(server, 3), 0, "it posts a receive");
	expect_wc(server->id->recv_cq, 3, IBV_WC_WR_FLUSH_ERR, &wc,
		  "of a connection that is over");
}

static void connections(void)
{
	struct connection cm;

	establish(&cm);
	exchange_messages(&cm);
	end_in_mid_flight(&cm);
	cm_close(&cm);
}

/* An end that is destroyed without disconnecting: the other one gets DISCONNECTED. */
static void leave_without_a_word(void)
{
	struct connection cm;

	establish(&cm);
	end_close(&cm.client);
	cm_event(&cm.server, RDMA_CM_EVENT_DISCONNECTED, NULL, "the client has gone");
	end_close(&cm.server);
	rdma_destroy_event_channel(cm.client.channel);
	cm_hang_up(&cm);
}

static void refused(void)
{
	struct connection cm;
	struct cm_seen seen;

	cm_open(&cm, RDMA_PS_TCP);
	tap_is(rdma_reject(cm.server.id, "not today", 10), 0, "the server refuses");
	cm_event(&cm.client, RDMA_CM_EVENT_REJECTED, &seen, "who is refused");
	tap_is(seen.status, REJ_CONSUMER_DEFINED, "by the program");
	tap_ok(!strcmp((char *)seen.data, "not today"), "and is told what it said");
	cm_close(&cm);
}

static void nobody_listens(void)
{
	struct connection cm = { .space = RDMA_PS_TCP };
	struct cm_seen seen;

	cm_address(&cm.to);
	cm_listen(&cm);
	cm_hang_up(&cm);
	cm_resolve(&cm);
	end_open(&cm, &cm.client);
	tap_is(cm_call(&cm, "anybody?"), 0, "a call to a port of nobody's");
	cm_event(&cm.client, RDMA_CM_EVENT_REJECTED, &seen, "it");
	tap_is(seen.status, REJ_INVALID_SERVICE_ID, "because nobody listens");
	end_close(&cm.client);
	rdma_destroy_event_channel(cm.client.channel);
}

static void find(struct end *end, const char *address, int within_ms)
{
	struct sockaddr_in to = { .sin_family = AF_INET };

	inet_pton(AF_INET, address, &to.sin_addr);
	end->channel = rdma_create_event_channel();
	if (!end->channel || rdma_create_id(end->channel, &end->id, NULL, RDMA_PS_TCP))
		tap_bail("no rdma_cm in this kernel");
	tap_is(rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&to, within_ms), 0,
	       "%s is looked for", address);
}

static void give_up(struct end *end)
{
	rdma_destroy_id(end->id);
	rdma_destroy_event_channel(end->channel);
}

/* Addresses other than the NIC's own: it has no wire, so nobody answers for them. */
static void other_addresses(void)
{
	struct cm_seen seen;
	struct end end;

	find(&end, "192.0.2.200", 500);
	cm_event(&end, RDMA_CM_EVENT_ADDR_ERROR, &seen, "a neighbour");
	tap_is(seen.status, -ETIMEDOUT, "it does not answer");
	give_up(&end);

	find(&end, "127.0.0.1", 500);
	cm_event(&end, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, "this machine");
	errno = 0;
	tap_ok(rdma_resolve_route(end.id, 500) && errno == ENODEV,
	       "no way leads over the NIC: ENODEV (errno %d)", errno);
	give_up(&end);
}

static void datagrams(void)
{
	struct connection cm;
	struct cm_seen seen;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
	};

	cm_open(&cm, RDMA_PS_UDP);
	tap_is(end_receive(&cm.server, 2), 0, "the server posts a receive");
	tap_is(cm_answer(&cm, "here"), 0, "and says where it is");
	cm_event(&cm.client, RDMA_CM_EVENT_ESTABLISHED, &seen, "client");
	tap_ok(seen.qpn == cm.server.id->qp->qp_num, "it knows the server's QP");
	ah = ibv_create_ah(cm.client.id->pd, &seen.ah);
	if (!tap_ok(ah, "it has an address handle"))
		tap_bail("ibv_create_ah: %s", strerror(errno));
	fill(cm.client.buf, 1000, 55);
	sge = (struct ibv_sge){ (uintptr_t)cm.client.buf, 1000, cm.client.mr->lkey };
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = seen.qpn;
	wr.wr.ud.remote_qkey = seen.qkey;
	tap_is(ibv_post_send(cm.client.id->qp, &wr, &bad), 0, "it sends");
	expect_wc(cm.client.id->send_cq, 0, IBV_WC_SUCCESS, &wc, "sent");
	expect_wc(cm.server.id->recv_cq, 2, IBV_WC_SUCCESS, &wc, "received");
	tap_ok(wc.byte_len == 1000 + sizeof(struct ibv_grh) && wc.wc_flags & IBV_WC_GRH &&
	       wc.src_qp == cm.client.id->qp->qp_num &&
	       is_filled(cm.server.buf + 2 * CM_SLOT + sizeof(struct ibv_grh), 1000, 55),
	       "the datagram is as sent");
	tap_is(ibv_destroy_ah(ah), 0, "the address handle is destroyed");
	cm_close(&cm);
}

/* A target of an extended reliable connection, with librdmacm's PD and domain. */
static void xrc_target(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_XRC_RECV, .cap = { .max_send_wr = 1 },
	};
	struct sockaddr_in to;
	struct rdma_addrinfo where = {
		.ai_flags = RAI_PASSIVE, .ai_family = AF_INET,
		.ai_qp_type = IBV_QPT_XRC_RECV, .ai_port_space = RDMA_PS_TCP,
		.ai_src_addr = (struct sockaddr *)&to, .ai_src_len = sizeof(to),
	};
	struct rdma_cm_id *id;

	cm_address(&to);
	if (rdma_create_ep(&id, &where, NULL, NULL))
		tap_bail("rdma_create_ep: %s", strerror(errno));
	if (tap_ok(!rdma_create_qp(id, NULL, &attr), "an XRC target by rdma_create_qp()")) {
		tap_is(id->qp->qp_type, IBV_QPT_XRC_RECV, "it is one");
		rdma_destroy_qp(id);
	} else {
		tap_diag("%s", strerror(errno));
	}
	rdma_destroy_ep(id);
}

int main(void)
{
	connections();
	leave_without_a_word();
	refused();
	nobody_listens();
	other_addresses();
	datagrams();
	xrc_target();
	return tap_done();
}
