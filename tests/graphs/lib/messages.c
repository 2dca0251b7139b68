// SPDX-License-Identifier: GPL-2.0
/*
 * Acts with messages: posting receives to a QP or an SRQ, sending what takes them, and
 * leaving messages under way when the graph ends. Only completions that must come are
 * waited for.
 */
#include <errno.h>
#include <string.h>

#include "queues.h"

#define RECEIVE		(1ull << 63)	/* set in the wr_id of all receives */
#define ROOM		256u		/* of a receive: fits message and header */
#define LIMIT		2
#define MAX_RING	256u

/* ---- completions ---- */

/* A completion that must come. */
struct awaited {
	struct ibv_cq *cq;
	uint32_t qpn;
	uint64_t id;			/* wr_id; RECEIVE: that of any receive */
	enum ibv_wc_status status;	/* valid once @came is set */
	bool came;
};

static uint64_t new_id(void)
{
	static uint64_t last;

	return ++last;
}

static bool is_awaited(const struct awaited *this, const struct ibv_cq *cq,
		       const struct ibv_wc *wc)
{
	if (this->came || this->cq != cq || this->qpn != wc->qp_num)
		return false;
	return this->id == wc->wr_id || (this->id == RECEIVE && wc->wr_id & RECEIVE);
}

/* Waits for all of @these; other completions are dropped. */
static int await(struct awaited *these, unsigned int count)
{
	struct ibv_wc wc;
	unsigned int i, n;

	for (i = 0; i < count; i++) {
		while (!these[i].came) {
			if (!wait_wc(these[i].cq, &wc))
				return ETIMEDOUT;
			for (n = 0; n < count; n++) {
				if (!is_awaited(&these[n], these[i].cq, &wc))
					continue;
				these[n].came = true;
				these[n].status = wc.status;
				break;
			}
		}
	}
	return 0;
}

/*
 * Drops the completions in a CQ, so that those which are not waited for do not fill it.
 */
static void empty(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

/* ---- receives ---- */

/* The node with a QP's receives: its SRQ, or the QP itself. */
static struct node *queue_of(struct node *qp)
{
	return qp->kind->roles & (SHARES | DATAGRAMS) && qp->holds[3] ? qp->holds[3] : qp;
}

/*
 * Posts a receive into @mr, or with NULL one without a buffer. A full queue is no
 * error.
 */
static int post_receive_of(struct node *queue, struct node *mr)
{
	struct ibv_sge sge = { .length = ROOM };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = RECEIVE | new_id(), .sg_list = &sge, .num_sge = !!mr,
	};
	int err;

	if (mr) {
		sge.addr = (uintptr_t)mr->memory;
		sge.lkey = mr->mr->lkey;
	}
	err = queue->kind->roles & ANY_SRQ ? ibv_post_srq_recv(queue->srq, &wr, &bad) :
					     ibv_post_recv(queue->side.qp, &wr, &bad);
	if (!err)
		queue->receives++;
	return err == ENOMEM ? 0 : err;
}

/* From any state to RTS; its posted receives are lost. An SRQ keeps those in it. */
static int bring_up(struct node *qp)
{
	int err;

	qp->receives = 0;
	qp->contended = false;
	err = modify_to(&qp->side, IBV_QPS_RESET);
	if (!err)
		err = connect_to_itself(&qp->side);
	qp->up = !err;
	return err;
}

int act_post(struct life *life, struct node *node)
{
	struct node *queue = node->need[0], *mr = node->need[1];
	unsigned int i;
	int err = 0;

	(void)life;
	if (node_domain(queue) != node_domain(mr))
		return 0;
	if (!(queue->kind->roles & ANY_SRQ) && !queue->up)
		err = bring_up(queue);
	for (i = 0; i < 2 && !err; i++)
		err = post_receive_of(queue, mr);
	return err;
}

/* A receive is flushed: a completion in error, and an event if the CQ has a channel. */
int act_flush(struct life *life, struct node *node)
{
	struct node *qp = node->need[0];
	struct side *side = &qp->side;
	struct awaited receive = {
		.cq = side->recv_cq, .qpn = side->qp->qp_num, .id = RECEIVE,
	};
	int err;

	(void)life;
	err = bring_up(qp);
	if (!err)
		err = ibv_req_notify_cq(side->recv_cq, 0);
	if (!err)
		err = post_receive_of(qp, NULL);
	qp->up = false;
	if (!err)
		err = modify_to(side, IBV_QPS_ERR);
	if (!err)
		err = await(&receive, 1);
	return err ? err : receive.status == IBV_WC_WR_FLUSH_ERR ? 0 : EPROTO;
}

/* The limit event, if there is one, is not read. */
int act_limit(struct life *life, struct node *node)
{
	struct ibv_srq_attr attr = { .srq_limit = LIMIT };

	(void)life;
	return ibv_modify_srq(node->need[0]->srq, &attr, IBV_SRQ_LIMIT);
}

int act_resize(struct life *life, struct node *node)
{
	struct ibv_srq *srq = node->need[0]->srq;
	struct ibv_srq_attr attr;
	int err = ibv_query_srq(srq, &attr);

	(void)life;
	if (err)
		return err;
	attr.max_wr = attr.max_wr < MAX_RING ? 2 * attr.max_wr : MAX_RING;
	return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

/* ---- messages ---- */

static int send_one(struct node *from, uint64_t id, uint32_t length,
		    const struct ibv_send_wr *to)
{
	static char message[INLINE_BYTES];
	struct ibv_sge sge = { .addr = (uintptr_t)message, .length = length };
	struct ibv_send_wr *bad, wr = *to;

	wr.wr_id = id;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	return ibv_post_send(from->side.qp, &wr, &bad);
}

/*
 * Sends two messages over a connection: one that takes a receive from @queue, and one
 * that takes another or waits for it. The first must end as @known if no receives were
 * posted here before: earlier ones may be of memory that has gone.
 */
static int send_two(struct node *from, struct node *queue, enum ibv_wc_status known,
		    const struct ibv_send_wr *to)
{
	bool first = !queue->receives && !queue->contended;
	struct awaited sent = {
		.cq = from->side.send_cq, .qpn = from->side.qp->qp_num, .id = new_id(),
	};
	uint32_t length = first ? 0 : INLINE_BYTES;
	int err = post_receive_of(queue, NULL);

	empty(from->side.send_cq);
	if (!err)
		err = send_one(from, sent.id, length, to);
	/* Where other messages wait, one of them may have taken the receive. */
	if (!err && (!queue->contended || known != IBV_WC_SUCCESS)) {
		err = await(&sent, 1);
		from->up = sent.status == IBV_WC_SUCCESS;
		if (!err && (first || known != IBV_WC_SUCCESS) && sent.status != known)
			err = EPROTO;
	}
	if (known != IBV_WC_SUCCESS)
		return err;
	queue->contended = true;
	return err ? err : send_one(from, new_id(), length, to);
}

int act_send(struct life *life, struct node *node)
{
	struct node *qp = node->need[0];
	struct ibv_send_wr itself = {};
	int err = bring_up(qp);

	(void)life;
	return err ? err : send_two(qp, queue_of(qp), IBV_WC_SUCCESS, &itself);
}

/*
 * Sends through the target @by to the SRQ @queue; they must share a domain, else the
 * message must be refused.
 */
int act_xrc(struct life *life, struct node *node)
{
	struct node *from = node->need[0], *by = node->need[1], *queue = node->need[2];
	bool reachable = same_xrcd(by->holds[0], queue->holds[2]);
	struct ibv_send_wr to = {};
	int err;

	(void)life;
	err = ibv_get_srq_num(queue->srq, &to.qp_type.xrc.remote_srqn);
	if (!err)
		err = modify_to(&from->side, IBV_QPS_RESET);
	if (!err)
		err = modify_to(&by->side, IBV_QPS_RESET);
	if (!err)
		err = connect_to(&by->side, from->side.qp->qp_num);
	if (!err)
		err = connect_to(&from->side, by->side.qp->qp_num);
	return err ? err : send_two(from, queue, reachable ? IBV_WC_SUCCESS :
				    IBV_WC_REM_INV_REQ_ERR, &to);
}

/*
 * Sends a datagram for which @to has a receive: both must complete, not always in
 * success.
 */
static int deliver(struct node *from, struct node *to, const struct ibv_send_wr *way)
{
	struct awaited these[] = {
		{ .cq = from->side.send_cq, .qpn = from->side.qp->qp_num, .id = new_id() },
		{ .cq = to->side.recv_cq, .qpn = to->side.qp->qp_num, .id = RECEIVE },
	};
	int err;

	empty(from->side.send_cq);
	empty(to->side.recv_cq);
	err = send_one(from, these[0].id, INLINE_BYTES, way);
	if (!err)
		err = await(these, 2);
	if (err)
		return err;
	queue_of(to)->receives--;
	/*
	 * A receive whose memory or page is missing fails, which takes @to to ERR with
	 * its sends.
	 */
	to->up = these[1].status == IBV_WC_SUCCESS;
	return these[0].status == IBV_WC_SUCCESS || !from->up ? 0 : EPROTO;
}

/*
 * Sends a datagram for each posted receive, then two that may be under way at the end.
 */
int act_datagram(struct life *life, struct node *node)
{
	struct node *from = node->need[0], *ah = node->need[1], *to = node->need[2];
	struct ibv_send_wr way = {
		.wr.ud = { .ah = ah->ah, .remote_qpn = to->side.qp->qp_num,
			   .remote_qkey = QKEY },
	};
	unsigned int i;
	int err = 0;

	(void)life;
	if (node_domain(from) != node_domain(ah))
		return 0;
	if (!from->up)
		err = bring_up(from);
	while (!err && (!to->up || (queue_of(to)->receives && !queue_of(to)->contended)))
		err = to->up ? deliver(from, to, &way) : bring_up(to);
	if (!err && !from->up)
		err = bring_up(from);
	empty(from->side.send_cq);
	for (i = 0; i < 2 && !err; i++)
		err = send_one(from, new_id(), INLINE_BYTES, &way);
	/* These two are not waited for: a receive may fail and take @to to ERR. */
	to->up = false;
	queue_of(to)->contended = true;
	return err;
}

/* ---- groups ---- */

static union ibv_gid group_of(struct life *life)
{
	union ibv_gid gid = own_path(life->ctx)->gid;

	/* A GID of an IPv4 address needs an IPv4 group. */
	if (gid.raw[10] == 0xff && gid.raw[11] == 0xff && !gid.raw[0]) {
		gid.raw[12] = 239;
		return gid;
	}
	memset(gid.raw, 0, sizeof(gid.raw));
	gid.raw[0] = 0xff;
	gid.raw[1] = 0x0e;
	gid.raw[15] = 1;
	return gid;
}

/*
 * Joins a group, or leaves it if the QP is in it. ENOMEM is fine only if this process
 * has filled all the NIC's groups.
 */
int act_join(struct life *life, struct node *node)
{
	static unsigned int members;
	struct node *qp = node->need[0];
	union ibv_gid group = group_of(life);
	struct ibv_device_attr attr;
	int err;

	if (qp->joined) {
		err = ibv_detach_mcast(qp->side.qp, &group, 0);
		qp->joined = err;
		members -= !err;
		return err;
	}
	err = ibv_attach_mcast(qp->side.qp, &group, 0);
	if (err == ENOMEM && !ibv_query_device(life->ctx, &attr) &&
	    members >= (unsigned int)attr.max_mcast_grp)
		return 0;
	qp->joined = !err;
	members += !err;
	return err;
}

/* ---- all of it ---- */

/* Does an act with each choice of nodes for what it needs, from need @n on. */
static int take_all(struct life *life, struct node *node, unsigned int n)
{
	unsigned int i;
	int err = 0;

	if (n == MAX_NEEDS || !node->kind->needs[n])
		return node->kind->make(life, node);
	for (i = 0; i < life->count && !err; i++) {
		node->need[n] = &life->node[i];
		if (node->need[n]->live && node->need[n]->kind->roles & node->kind->needs[n])
			err = take_all(life, node, n + 1);
	}
	return err;
}

int act_use(struct life *life, struct node *node)
{
	struct node act = {};
	unsigned int i;
	int err = 0;

	(void)node;
	for (i = 0; i < num_kinds && !err; i++) {
		act.kind = &kinds[i];
		if (act.kind->roles & MESSAGES)
			err = take_all(life, &act, 0);
	}
	return err;
}
