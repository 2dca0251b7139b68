// SPDX-License-Identifier: GPL-2.0
/*
 * The kinds of steps. Objects are here and in queues.c, acts in acts.c and messages.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../kernel/exporter.h"
#include "queues.h"

#define PAGE		4096u
#define MR_OFFSET	100u		/* so that no MR starts or ends with a page */
#define MR_LENGTH	(2 * PAGE)
#define DM_LENGTH	4096u

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

void hold_domain(struct node *node)
{
	node->holds[0] = node_real(node->need[0]);
	if (node->need[0]->of)
		node->holds[1] = node->need[0];
}

struct node *node_domain(struct node *node)
{
	return node_real(node)->holds[0];
}

bool node_must_stay(const struct life *life, const struct node *node)
{
	return node->joined || node_in_use(life, node);
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

/* The memory is never freed: it goes with the process. */
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

/* Gives the device pages of a paged MR, so that its table has more than a root. */
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

/* An implicit MR: all memory of the process. */
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
 * An MR of a dma-buf of tests/kernel/exporter.c. Its owner moves it, where it can be
 * moved, which leaves nothing of the MR mapped. The file descriptor is not needed any
 * more then.
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

/* The kernel does not know of null MRs. */
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

#define KERNEL_HOLD	"/sys/kernel/debug/moor_verbs_test/hold"

/*
 * Objects of a kernel client, which last as long as the file is open
 * (tests/kernel/hold.c).
 */
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
#define ACT(name, roles, ...) \
	{ #name, roles, { __VA_ARGS__ }, act_##name, NULL, false }

const struct kind kinds[] = {
	KIND(pd, KERNEL_PD | ANY_PD | PART | WHOLE_XRC, end_pd, true),
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
	KIND(ah, AH | PART, end_ah, false, ANY_PD),
	KIND(channel, CHANNEL, end_channel, true),
	KIND(cq, CQ | PART | WHOLE_XRC, end_cq, true),
	KIND(cq_on, CQ, end_cq, true, CHANNEL),
	KIND(qp, QP, end_qp, false, ANY_PD, CQ, CQ),
	KIND(uc, QP, end_qp, false, ANY_PD, CQ, CQ),
	KIND(kernel, 0, end_kernel, false),
	KIND(ud, QP | RECEIVER | DATAGRAMS | FURTHER, end_qp, true, ANY_PD, CQ),
	KIND(srq, SRQ | ANY_SRQ | RECEIVER | FURTHER, end_srq, true, ANY_PD),
	KIND(rc_srq, SHARES | FURTHER, end_qp, false, ANY_PD, SRQ, CQ),
	KIND(ud_srq, DATAGRAMS | FURTHER, end_qp, true, ANY_PD, SRQ, CQ),
	KIND(xrcd, DOMAIN | FURTHER | WHOLE_XRC, end_xrcd, true),
	KIND(xrcd_file, DOMAIN | FURTHER, end_xrcd, true),
	KIND(xrc_srq, XRC_SRQ | ANY_SRQ | RECEIVER | FURTHER | WHOLE_XRC, end_srq, true,
	     ANY_PD, DOMAIN, CQ),
	KIND(ini, REQUESTER | FURTHER | WHOLE_XRC, end_qp, false, ANY_PD, CQ),
	KIND(tgt, RESPONDER | FURTHER | WHOLE_XRC, end_qp, false, DOMAIN),
	KIND(open_tgt, RESPONDER | FURTHER, end_qp, false, DOMAIN, RESPONDER),
	ACT(binder, 0, KERNEL_PD),
	ACT(bind, 0, WINDOW, TARGET),
	ACT(unbind, 0, WINDOW),
	ACT(rereg, 0, KERNEL_MR),
	ACT(rereg_pd, 0, KERNEL_MR, ANY_PD),
	ACT(flush, 0, QP),
	ACT(post, MESSAGES, RECEIVER, KERNEL_MR),
	ACT(limit, MESSAGES, ANY_SRQ),
	ACT(resize, MESSAGES, ANY_SRQ),
	ACT(send, MESSAGES, SHARES),
	ACT(datagram, MESSAGES, DATAGRAMS, AH, DATAGRAMS),
	ACT(join, MESSAGES, DATAGRAMS),
	ACT(xrc, MESSAGES, REQUESTER, RESPONDER, XRC_SRQ),
	ACT(use, 0),
	ACT(disturb, 0),
	ACT(free, 0, OBJECT),
};

const unsigned int num_kinds = sizeof(kinds) / sizeof(kinds[0]);
