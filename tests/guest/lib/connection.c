// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "connection.h"
#include "tap.h"

#define DEADLINE_S	20
#define RESOLVE_MS	5000

static struct rdma_cm_id *new_id(struct rdma_event_channel *channel,
				 enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, space))
		tap_bail("rdma_create_id: %s", strerror(errno));
	return id;
}

static struct rdma_event_channel *new_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (!channel)
		tap_bail("no rdma_cm in this kernel");
	return channel;
}

/* Can an identifier be bound to the address, that is, has the core made a GID of it? */
static bool can_bind(struct rdma_event_channel *channel, struct sockaddr_in *to)
{
	struct rdma_cm_id *id = new_id(channel, RDMA_PS_TCP);
	bool bound = !rdma_bind_addr(id, (struct sockaddr *)to) && id->verbs;

	rdma_destroy_id(id);
	return bound;
}

/* Gives the first NIC's interface CM_ADDRESS. @to is that address, without a port. */
void cm_address(struct sockaddr_in *to)
{
	struct rdma_event_channel *channel = new_channel();
	time_t end = time(NULL) + DEADLINE_S;
	char command[256];
	glob_t found;

	if (glob("/sys/bus/pci/drivers/moor/*:*/net/*", 0, NULL, &found))
		tap_bail("no interface of a Moor NIC");
	snprintf(command, sizeof(command), "ip addr replace " CM_ADDRESS "/24 dev %s",
		 strrchr(found.gl_pathv[0], '/') + 1);
	globfree(&found);
	if (system(command))
		tap_bail("%s", command);
	memset(to, 0, sizeof(*to));
	to->sin_family = AF_INET;
	inet_pton(AF_INET, CM_ADDRESS, &to->sin_addr);
	while (!can_bind(channel, to)) {
		if (time(NULL) > end)
			tap_bail("no GID of " CM_ADDRESS);
		poll(NULL, 0, 20);
	}
	rdma_destroy_event_channel(channel);
}

static void note(struct cm_seen *seen, const struct rdma_cm_event *event, bool datagrams)
{
	const void *data = datagrams ? event->param.ud.private_data :
				       event->param.conn.private_data;
	size_t length = datagrams ? event->param.ud.private_data_len :
				    event->param.conn.private_data_len;

	memset(seen, 0, sizeof(*seen));
	seen->type = event->event;
	seen->status = event->status;
	seen->id = event->id;
	if (data)
		memcpy(seen->data, data, length);
	seen->data[sizeof(seen->data) - 1] = 0;
	if (datagrams) {
		seen->ah = event->param.ud.ah_attr;
		seen->qpn = event->param.ud.qp_num;
		seen->qkey = event->param.ud.qkey;
	}
}

/* A test point: the next event of @end is one of @type. */
bool cm_event(struct end *end, enum rdma_cm_event_type type, struct cm_seen *seen,
	      const char *what)
{
	struct pollfd waiting = { .fd = end->channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	struct cm_seen dummy;

	if (!seen)
		seen = &dummy;
	memset(seen, 0, sizeof(*seen));
	if (poll(&waiting, 1, DEADLINE_S * 1000) != 1)
		return tap_ok(false, "%s: no event, %s awaited", what, rdma_event_str(type));
	if (rdma_get_cm_event(end->channel, &event))
		return tap_ok(false, "%s: rdma_get_cm_event: %s", what, strerror(errno));
	note(seen, event, event->id->ps == RDMA_PS_UDP);
	if (event->event != type)
		tap_diag("%s, status %d", rdma_event_str(event->event), event->status);
	rdma_ack_cm_event(event);
	return tap_ok(seen->type == type, "%s: %s", what, rdma_event_str(type));
}

/* Listens at a port that the kernel chooses. */
void cm_listen(struct connection *cm)
{
	cm->server.channel = new_channel();
	cm->listener = new_id(cm->server.channel, cm->space);
	cm->to.sin_port = 0;
	if (rdma_bind_addr(cm->listener, (struct sockaddr *)&cm->to) ||
	    rdma_listen(cm->listener, 4))
		tap_bail("nobody can listen: %s", strerror(errno));
	cm->to.sin_port = rdma_get_src_port(cm->listener);
}

/* Ends listening; the server's end must have gone. */
void cm_hang_up(struct connection *cm)
{
	rdma_destroy_id(cm->listener);
	rdma_destroy_event_channel(cm->server.channel);
}

/* Makes the client's end, and resolves address and route of the listener. */
void cm_resolve(struct connection *cm)
{
	struct end *end = &cm->client;

	end->channel = new_channel();
	end->id = new_id(end->channel, cm->space);
	if (rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&cm->to, RESOLVE_MS))
		tap_bail("rdma_resolve_addr: %s", strerror(errno));
	cm_event(end, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, "own address");
	if (rdma_resolve_route(end->id, RESOLVE_MS))
		tap_bail("rdma_resolve_route: %s", strerror(errno));
	cm_event(end, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, "own address");
}

void end_open(struct connection *cm, struct end *end)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = CM_SLOTS, .max_recv_wr = CM_SLOTS,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = cm->space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	if (rdma_create_qp(end->id, NULL, &attr))
		tap_bail("rdma_create_qp: %s", strerror(errno));
	end->buf = aligned_alloc(4096, CM_SLOTS * CM_SLOT);
	if (!end->buf)
		tap_bail("no memory");
	memset(end->buf, 0, CM_SLOTS * CM_SLOT);
	end->mr = ibv_reg_mr(end->id->pd, end->buf, CM_SLOTS * CM_SLOT,
			     IBV_ACCESS_LOCAL_WRITE);
	if (!end->mr)
		tap_bail("ibv_reg_mr: %s", strerror(errno));
}

void end_close(struct end *end)
{
	rdma_destroy_qp(end->id);
	tap_is(ibv_dereg_mr(end->mr), 0, "its buffer is deregistered");
	free(end->buf);
	tap_is(rdma_destroy_id(end->id), 0, "its identifier is destroyed");
}

static struct rdma_conn_param parameters(const char *words)
{
	return (struct rdma_conn_param){
		.private_data = words, .private_data_len = strlen(words) + 1,
		.responder_resources = 1, .initiator_depth = 1,
		.retry_count = 7, .rnr_retry_count = 7,
	};
}

/* Returns 0, or -1 and errno. */
int cm_call(struct connection *cm, const char *words)
{
	struct rdma_conn_param param = parameters(words);

	return rdma_connect(cm->client.id, &param);
}

int cm_answer(struct connection *cm, const char *words)
{
	struct rdma_conn_param param = parameters(words);

	param.qp_num = cm->server.id->qp->qp_num;
	return rdma_accept(cm->server.id, &param);
}

/* Opens both ends; the client's request to connect is not answered yet. */
void cm_open(struct connection *cm, enum rdma_port_space space)
{
	struct cm_seen seen;

	memset(cm, 0, sizeof(*cm));
	cm->space = space;
	cm_address(&cm->to);
	cm_listen(cm);
	cm_resolve(cm);
	end_open(cm, &cm->client);
	if (cm_call(cm, "who calls"))
		tap_bail("rdma_connect: %s", strerror(errno));
	if (!cm_event(&cm->server, RDMA_CM_EVENT_CONNECT_REQUEST, &seen, "a call"))
		tap_bail("no call");
	cm->server.id = seen.id;
	end_open(cm, &cm->server);
}

/* Closes both ends, connected or not. */
void cm_close(struct connection *cm)
{
	end_close(&cm->client);
	end_close(&cm->server);
	rdma_destroy_event_channel(cm->client.channel);
	cm_hang_up(cm);
}

int end_receive(struct end *end, int slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->buf + slot * CM_SLOT,
		.length = CM_SLOT, .lkey = end->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(end->id->qp, &wr, &bad);
}

int end_send(struct end *end, int slot, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->buf + slot * CM_SLOT,
		.length = length, .lkey = end->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = slot, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
	};

	return ibv_post_send(end->id->qp, &wr, &bad);
}
