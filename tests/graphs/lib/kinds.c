// SPDX-License-Identifier: GPL-2.0
/* The kinds of steps: objects here, what is done with them in acts.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../kernel/exporter.h"
#include "life.h"

#define PAGE		4096u
#define MR_OFFSET	100u		/* neither starts nor ends with a page */
#define MR_LENGTH	(2 * PAGE)
#define DM_LENGTH	4096u

/* What a call made, in a node's member; 0 or an errno. */
#define made(member, call)	(((member) = (call)) ? 0 : errno ? errno : EIO)

struct node *node_real(struct node *node)
{
	return node->of ? node->of : node;
}

bool node_in_use(const struct life *life, const struct node *node)
{
	unsigned int i, h;

	for (i = 0; i < life->count; i++)
		for (h = 0; h < MAX_HOLDS && life->node[i].live; h++)
			if (life->node[i].holds[h] == node)
				return true;
	return false;
}

/* An object in a domain, perhaps through a name of it that is libibverbs' only. */
static void hold_domain(struct node *node)
{
	node->holds[0] = node_real(node->need[0]);
	if (node->need[0]->of)
		node->holds[1] = node->need[0];
}

static int make_pd(struct life *life, struct node *node)
{
	return made(node->pd, ibv_alloc_pd(life->ctx));
}

static int end_pd(struct node *node)
{
	return ibv_dealloc_pd(node->pd);
}

static int make_parent(struct life *life, struct node *node)
{
	struct ibv_parent_domain_init_attr attr = { .pd = node->need[0]->pd };

	node->of = node->need[0];
	node->holds[0] = node->of;
	return made(node->pd, ibv_alloc_parent_domain(life->ctx, &attr));
}

static int import_device(struct life *life)
{
	if (!life->imported)
		life->imported = ibv_import_device(dup(life->ctx->cmd_fd));
	return life->imported ? 0 : errno;
}

static int make_import_pd(struct life *life, struct node *node)
{
	node->of = node->need[0];
	return import_device(life) ? errno :
	       made(node->pd, ibv_import_pd(life->imported, node->of->pd->handle));
}

static int end_import_pd(struct node *node)
{
	ibv_unimport_pd(node->pd);
	return 0;
}

/* Memory is the process's and goes with it. */
static int make_mr(struct life *life, struct node *node)
{
	(void)life;
	hold_domain(node);
	node->memory = aligned_alloc(PAGE, 3 * PAGE);
	if (!node->memory)
		return ENOMEM;
	node->memory += MR_OFFSET;
	return made(node->mr, ibv_reg_mr(node->need[0]->pd, node->memory, MR_LENGTH,
					 BINDABLE | IBV_ACCESS_REMOTE_READ));
}

/* The device has pages of it, so its table has more than a root. */
static int give_pages(struct ibv_mr *mr, const uint8_t *memory)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)memory, .length = MR_LENGTH, .lkey = mr->lkey,
	};

	return ibv_advise_mr(mr->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

static int make_paged(struct life *life, struct node *node)
{
	(void)life;
	hold_domain(node);
	node->memory = aligned_alloc(PAGE, 3 * PAGE);
	if (!node->memory)
		return ENOMEM;
	node->memory += MR_OFFSET;
	return made(node->mr, ibv_reg_mr(node->need[0]->pd, node->memory, MR_LENGTH,
					 BINDABLE | IBV_ACCESS_REMOTE_READ |
					 IBV_ACCESS_ON_DEMAND)) ?:
	       give_pages(node->mr, node->memory);
}

/* All of the process's memory. */
static int make_implicit(struct life *life, struct node *node)
{
	(void)life;
	hold_domain(node);
	node->memory = aligned_alloc(PAGE, 3 * PAGE);
	if (!node->memory)
		return ENOMEM;
	return made(node->mr, ibv_reg_mr(node->need[0]->pd, NULL, SIZE_MAX,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND)) ?:
	       give_pages(node->mr, node->memory);
}

static int end_mr(struct node *node)
{
	return ibv_dereg_mr(node->mr);
}

/*
 * Memory of somebody else's (tests/kernel/exporter.c). It moves, where it can: then
 * nothing of it is mapped. Nobody needs its file any more.
 */
static int make_dmabuf(struct life *life, struct node *node)
{
	int owner = open("/dev/moor_exporter", O_RDWR | O_CLOEXEC);
	int fd = ioctl(owner, EXPORTER_MAKE);
	int err;

	(void)life;
	hold_domain(node);
	err = made(node->mr, ibv_reg_dmabuf_mr(node->need[0]->pd, PAGE, MR_LENGTH,
					       0, fd, IBV_ACCESS_LOCAL_WRITE |
						      IBV_ACCESS_REMOTE_READ));
	if (!err && ioctl(owner, EXPORTER_MOVE, fd) && errno != EBUSY)
		err = errno;
	close(fd);
	close(owner);
	return err;
}

/* The kernel does not know of it. */
static int make_null(struct life *life, struct node *node)
{
	(void)life;
	return made(node->mr, ibv_alloc_null_mr(node->need[0]->pd));
}

static int make_import_mr(struct life *life, struct node *node)
{
	(void)life;
	node->of = node_real(node->need[1]);
	node->holds[0] = node->need[0];
	node->memory = node->of->memory;
	return made(node->mr, ibv_import_mr(node->need[0]->pd, node->of->mr->handle));
}

static int end_import_mr(struct node *node)
{
	ibv_unimport_mr(node->mr);
	return 0;
}

static int make_dm(struct life *life, struct node *node)
{
	struct ibv_alloc_dm_attr attr = { .length = DM_LENGTH };

	return made(node->dm, ibv_alloc_dm(life->ctx, &attr));
}

static int end_dm(struct node *node)
{
	return ibv_free_dm(node->dm);
}

static int make_import_dm(struct life *life, struct node *node)
{
	node->of = node->need[0];
	return import_device(life) ? errno :
	       made(node->dm, ibv_import_dm(life->imported, node->of->dm->handle));
}

static int end_import_dm(struct node *node)
{
	ibv_unimport_dm(node->dm);
	return 0;
}

static int make_dm_mr(struct life *life, struct node *node)
{
	(void)life;
	hold_domain(node);
	node->holds[2] = node_real(node->need[1]);
	return made(node->mr, ibv_reg_dm_mr(node->need[0]->pd, node->need[1]->dm, 0,
					    DM_LENGTH, BINDABLE |
					    IBV_ACCESS_REMOTE_READ |
					    IBV_ACCESS_ZERO_BASED));
}

static int make_mw1(struct life *life, struct node *node)
{
	(void)life;
	hold_domain(node);
	return made(node->mw, ibv_alloc_mw(node->need[0]->pd, IBV_MW_TYPE_1));
}

static int make_mw2(struct life *life, struct node *node)
{
	(void)life;
	hold_domain(node);
	return made(node->mw, ibv_alloc_mw(node->need[0]->pd, IBV_MW_TYPE_2));
}

static int end_mw(struct node *node)
{
	return ibv_dealloc_mw(node->mw);
}

/* To this NIC itself. */
static int make_ah(struct life *life, struct node *node)
{
	struct ibv_ah_attr attr = {
		.grh = { .hop_limit = 1 }, .is_global = 1, .port_num = 1,
	};

	hold_domain(node);
	return ibv_query_gid(life->ctx, 1, 0, &attr.grh.dgid) ? errno :
	       made(node->ah, ibv_create_ah(node->need[0]->pd, &attr));
}

static int end_ah(struct node *node)
{
	return ibv_destroy_ah(node->ah);
}

static int make_channel(struct life *life, struct node *node)
{
	return made(node->channel, ibv_create_comp_channel(life->ctx));
}

static int end_channel(struct node *node)
{
	return ibv_destroy_comp_channel(node->channel);
}

static int make_cq(struct life *life, struct node *node)
{
	return made(node->cq, ibv_create_cq(life->ctx, 16, NULL, NULL, 0));
}

static int make_cq_on(struct life *life, struct node *node)
{
	node->holds[0] = node->need[0];
	return made(node->cq, ibv_create_cq(life->ctx, 16, NULL,
					    node->need[0]->channel, 0));
}

static int end_cq(struct node *node)
{
	return ibv_destroy_cq(node->cq);
}

/* An imported PD is of another context than the CQs, which has to be refused. */
static int make_qp_of(struct life *life, struct node *node,
		      enum ibv_qp_type type)
{
	struct ibv_pd *pd = node->need[0]->pd;
	struct ibv_qp_init_attr attr = {
		.send_cq = node->need[1]->cq, .recv_cq = node->need[2]->cq,
		.qp_type = type,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	hold_domain(node);
	node->holds[2] = node->need[1];
	node->holds[3] = node->need[2];
	node->side.send_cq = attr.send_cq;
	node->side.recv_cq = attr.recv_cq;
	if (pd->context != life->ctx) {
		if (ibv_create_qp(pd, &attr) || errno != EINVAL)
			return ENODATA;
		pd = node_real(node->need[0])->pd;
	}
	return made(node->side.qp, ibv_create_qp(pd, &attr));
}

static int make_qp(struct life *life, struct node *node)
{
	return make_qp_of(life, node, IBV_QPT_RC);
}

static int make_uc(struct life *life, struct node *node)
{
	return make_qp_of(life, node, IBV_QPT_UC);
}

static int end_qp(struct node *node)
{
	return ibv_destroy_qp(node->side.qp);
}

#define KERNEL_HOLD	"/sys/kernel/debug/moor_verbs_test/hold"

/* Objects of a user in the kernel, as long as the file is open (tests/kernel/hold.c). */
static int make_kernel(struct life *life, struct node *node)
{
	static unsigned int chance;
	char text[100];
	int n;

	node->file = open(KERNEL_HOLD, O_WRONLY | O_CLOEXEC);
	if (node->file < 0)
		return errno;
	chance = chance * 1664525 + 1013904223 + getpid();
	n = snprintf(text, sizeof(text), "%s %u", ibv_get_device_name(life->ctx->device),
		     chance >> 4);
	if (write(node->file, text, n) == n)
		return 0;
	n = errno;
	close(node->file);
	return n;
}

static int end_kernel(struct node *node)
{
	return close(node->file) ? errno : 0;
}

#define KIND(name, roles, end, refuses, ...) \
	{ #name, OBJECT | (roles), { __VA_ARGS__ }, make_##name, end, refuses }
#define ACT(name, ...) \
	{ #name, 0, { __VA_ARGS__ }, act_##name, NULL, false }

const struct kind kinds[] = {
	KIND(pd, KERNEL_PD | ANY_PD, end_pd, true),
	KIND(parent, ANY_PD, end_pd, false, KERNEL_PD),
	KIND(import_pd, ANY_PD | IMPORTED_PD, end_import_pd, false, KERNEL_PD),
	KIND(mr, KERNEL_MR | TARGET, end_mr, true, ANY_PD),
	KIND(paged, KERNEL_MR | TARGET, end_mr, true, ANY_PD),
	KIND(implicit, 0, end_mr, true, ANY_PD),
	KIND(dmabuf, 0, end_mr, true, ANY_PD),
	KIND(null, 0, end_mr, false, ANY_PD),
	KIND(import_mr, TARGET, end_import_mr, false, IMPORTED_PD, TARGET),
	KIND(dm, KERNEL_DM | ANY_DM, end_dm, true),
	KIND(import_dm, ANY_DM, end_import_dm, false, KERNEL_DM),
	KIND(dm_mr, TARGET, end_mr, true, ANY_PD, ANY_DM),
	KIND(mw1, WINDOW, end_mw, false, ANY_PD),
	KIND(mw2, WINDOW, end_mw, false, ANY_PD),
	KIND(ah, 0, end_ah, false, ANY_PD),
	KIND(channel, CHANNEL, end_channel, true),
	KIND(cq, CQ, end_cq, true),
	KIND(cq_on, CQ, end_cq, true, CHANNEL),
	KIND(qp, QP, end_qp, false, ANY_PD, CQ, CQ),
	KIND(uc, QP, end_qp, false, ANY_PD, CQ, CQ),
	KIND(kernel, 0, end_kernel, false),
	ACT(binder, KERNEL_PD),
	ACT(bind, WINDOW, TARGET),
	ACT(unbind, WINDOW),
	ACT(rereg, KERNEL_MR),
	ACT(rereg_pd, KERNEL_MR, ANY_PD),
	ACT(flush, QP),
	ACT(disturb),
	ACT(free, OBJECT),
};

const unsigned int num_kinds = sizeof(kinds) / sizeof(kinds[0]);
