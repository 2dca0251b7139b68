// SPDX-License-Identifier: GPL-2.0
/*
 * The acts: what the steps that are no objects do to objects. An act that cannot be
 * done to an object in its present state (unbinding a window that is not bound) does
 * nothing; a call that has to be refused must fail with the right errno.
 */
#include <errno.h>

#include "queues.h"

#define SLACK	8u	/* bytes by which a re-registration moves both ends */
#define TOO_MUCH (1ull << 40)

/* Makes the QP that binds for a PD, with a CQ. Both go with the PD. */
int act_binder(struct life *life, struct node *node)
{
	struct node *pd = node->need[0];
	struct side *side = &pd->side;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (side->qp)
		return 0;
	side->send_cq = ibv_create_cq(life->ctx, 16, NULL, NULL, 0);
	if (!side->send_cq)
		return errno;
	attr.send_cq = side->send_cq;
	attr.recv_cq = side->send_cq;
	side->qp = ibv_create_qp(pd->pd, &attr);
	return side->qp ? connect_to_itself(side) : errno;
}

static int drop_binder(struct node *pd)
{
	int err;

	if (!pd->side.qp)
		return 0;
	err = ibv_destroy_qp(pd->side.qp);
	pd->side.qp = NULL;
	return err ? err : ibv_destroy_cq(pd->side.send_cq);
}

/* The last entry of a window's holds[] is the MR that it is bound to. */
#define BOUND_TO	(MAX_HOLDS - 1)

/*
 * Binds with ibv_bind_mw() if window and MR have the very struct ibv_pd of the PD. One
 * that has an imported or a parent domain is bound by posting instead: bind_window()
 * posts for any key but the next one.
 */
static struct outcome bind_by_any_name(struct node *window, struct ibv_mr *mr,
				       uint64_t addr, uint64_t length)
{
	struct node *pd = node_domain(window);
	uint32_t key = ibv_inc_rkey(window->mw->rkey);

	if (window->mw->pd != pd->pd || mr->pd != pd->pd)
		key = ibv_inc_rkey(key);
	return bind_window(&apis[0], &pd->side, window->mw, key, mr, addr, length,
			   length ? IBV_ACCESS_REMOTE_READ : 0);
}

static int came_to(struct outcome outcome)
{
	if (outcome.posted)
		return outcome.posted;
	return outcome.status ? EPROTO : 0;
}

int act_bind(struct life *life, struct node *node)
{
	struct node *window = node->need[0], *mr = node_real(node->need[1]);
	struct node binder = { .need = { node_domain(window) } };
	int err = 0;

	if (node_domain(window) != node_domain(mr))
		return 0;
	if (window->mw->type == IBV_MW_TYPE_2 && window->holds[BOUND_TO])
		err = act_unbind(life, node);
	if (!err)
		err = act_binder(life, &binder);
	if (!err)
		err = came_to(bind_by_any_name(window, node->need[1]->mr,
					       (uintptr_t)mr->memory, mr->mr->length));
	if (!err)
		window->holds[BOUND_TO] = mr;
	return err;
}

int act_unbind(struct life *life, struct node *node)
{
	struct node *window = node->need[0];
	int err;

	(void)life;
	if (!window->holds[BOUND_TO])
		return 0;
	if (window->mw->type == IBV_MW_TYPE_1)
		err = came_to(bind_by_any_name(window, window->holds[BOUND_TO]->mr, 0, 0));
	else
		err = came_to(invalidate(&apis[0], &node_domain(window)->side,
					 window->mw->rkey));
	if (!err)
		window->holds[BOUND_TO] = NULL;
	return err;
}

/* Re-registers @mr. While a window is bound to it, EBUSY must be all that happens. */
static int rereg(struct life *life, struct node *mr, int flags, struct ibv_pd *pd)
{
	int wanted = node_in_use(life, mr) ? EBUSY : 0, err;

	errno = 0;
	err = ibv_rereg_mr(mr->mr, flags, pd, mr->memory + SLACK,
			   mr->mr->length - 2 * SLACK, 0);
	if (errno != wanted || !err != !wanted)
		return errno ? errno : ENODATA;
	if (!err && flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		mr->memory += SLACK;
	return 0;
}

int act_rereg(struct life *life, struct node *node)
{
	return rereg(life, node->need[0], IBV_REREG_MR_CHANGE_TRANSLATION, NULL);
}

int act_rereg_pd(struct life *life, struct node *node)
{
	struct node *mr = node->need[0], *pd = node->need[1];
	bool bound = node_in_use(life, mr);
	int err = rereg(life, mr, IBV_REREG_MR_CHANGE_PD, pd->pd);

	if (err || bound)
		return err;
	mr->holds[0] = node_real(pd);
	mr->holds[1] = pd->of ? pd : NULL;
	return 0;
}

static int must_be(int wanted, int err)
{
	return err == wanted ? 0 : err ? err : ENODATA;
}

/* Asks the device for more on-NIC memory than it can have, which has to be refused. */
static int disturb_device(struct life *life)
{
	struct ibv_alloc_dm_attr attr = { .length = TOO_MUCH };

	return must_be(EINVAL, ibv_alloc_dm(life->ctx, &attr) ? 0 : errno);
}

static int disturb_pd(struct node *node)
{
	static char byte;

	return must_be(EINVAL, ibv_reg_mr(node->pd, &byte, 1, IBV_ACCESS_REMOTE_WRITE) ?
		       0 : errno);
}

static int disturb_node(struct life *life, struct node *node)
{
	bool in_use = node_must_stay(life, node) ||
		      (node->kind->roles & KERNEL_PD && node->side.qp);
	int err = 0;

	if (in_use && node->kind->refuses)
		err = must_be(EBUSY, node->kind->end(node));
	if (!err && node->kind->roles & KERNEL_PD)
		err = disturb_pd(node);
	if (!err && node->kind->roles & KERNEL_MR)
		err = rereg(life, node, IBV_REREG_MR_CHANGE_TRANSLATION, NULL);
	return err ? err : disturb_queue(life, node);
}

/* Makes on each live object the calls that have to be refused, and re-registers MRs. */
int act_disturb(struct life *life, struct node *node)
{
	int err = disturb_device(life);
	unsigned int i;

	(void)node;
	for (i = 0; i < life->count && !err; i++)
		if (life->node[i].live && life->node[i].kind->end)
			err = disturb_node(life, &life->node[i]);
	return err;
}

/* Gives an object back if nothing needs it any more; else the call must be refused. */
int act_free(struct life *life, struct node *node)
{
	struct node *object = node->need[0];
	int err = 0;

	if (node_must_stay(life, object))
		return object->kind->refuses ?
		       must_be(EBUSY, object->kind->end(object)) : 0;
	if (object->kind->roles & KERNEL_PD)
		err = drop_binder(object);
	if (!err)
		err = object->kind->end(object);
	if (!err)
		object->live = false;
	return err;
}
