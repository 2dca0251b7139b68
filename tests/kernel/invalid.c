// SPDX-License-Identifier: GPL-2.0
/* Invalidation, by LOCAL_INV and by a peer, also under traffic; and wrong uses. */

#include "verbs_test.h"

#define OTHER	0xee

/* A link with a registered MR, and memory for both sides. */
struct scene {
	struct link link;
	struct ib_mr *mr;
	struct pages pages;
	struct buffer buffer;
	struct ib_sge sge;
};

static void scene_close(struct scene *scene)
{
	buffer_close(&scene->buffer);
	if (scene->mr)
		point(!ib_dereg_mr(scene->mr), "deregistered");
	if (scene->pages.page)
		pages_free(&scene->pages);
	link_close(&scene->link);
}

static bool scene_open(struct scene *scene, struct ib_device *dev, u32 num)
{
	*scene = (struct scene){};
	if (!link_open(&scene->link, dev, (struct link_how){}))
		return false;
	scene->mr = ib_alloc_mr(scene->link.pd, IB_MR_TYPE_MEM_REG, num);
	if (IS_ERR(scene->mr)) {
		scene->mr = NULL;
		point(false, "an MR of %u pages", num);
		goto fail;
	}
	if (!pages_alloc(&scene->pages, dev, num) ||
	    !pages_map(&scene->pages, 0, num * PAGE_SIZE) ||
	    !buffer_open(&scene->buffer, dev, num * PAGE_SIZE))
		goto fail;
	scene->sge = buffer_sge(&scene->link, &scene->buffer, num * PAGE_SIZE);
	if (fast_map(scene->mr, &scene->pages))
		return true;
fail:
	scene_close(scene);
	return false;
}

static int scene_reg(struct scene *scene)
{
	return fast_reg(&scene->link, 1, scene->mr, scene->mr->rkey, ALL_REMOTE);
}

static int scene_write(struct scene *scene)
{
	return link_rdma(&scene->link, 0, IB_WR_RDMA_WRITE, &scene->sge,
			 scene->mr->iova, scene->mr->rkey);
}

/* SEND with invalidate from side 0. Return: its status, or an errno. */
static int send_inv(struct link *link, u32 key, struct ib_wc *recv)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = key,
	};
	int status;

	if (link_recv(link, 1, 0x77))
		return -EIO;
	status = link_finish(link, 0, &wr);
	if (!status && !link_poll(link, 1, recv))
		status = -ETIMEDOUT;
	return status;
}

static void test_remote_invalidate(struct ib_device *dev, u32 seed)
{
	struct scene scene;
	struct ib_wc wc;

	if (!scene_open(&scene, dev, 4))
		return;
	point(!scene_reg(&scene) && !scene_write(&scene), "registered");
	point(!send_inv(&scene.link, scene.mr->rkey, &wc) && !wc.status &&
	      wc.wr_id == 0x77 && wc.opcode == IB_WC_RECV &&
	      wc.wc_flags == IB_WC_WITH_INVALIDATE &&
	      wc.ex.invalidate_rkey == scene.mr->rkey,
	      "SEND_WITH_INV: the receiver is told which key");
	point(ended_with(scene_write(&scene), IB_WC_REM_ACCESS_ERR),
	      "which is dead");
	link_revive(&scene.link);
	point(!scene_reg(&scene), "registered again, without LOCAL_INV");
	point(send_inv(&scene.link, scene.mr->rkey ^ 1, &wc) != 0,
	      "SEND_WITH_INV of another key fails");
	link_revive(&scene.link);
	point(!scene_write(&scene), "and leaves the registration alone");
	scene_close(&scene);
}

/*
 * A peer writes without a pause. Once LOCAL_INV has completed, none of its data must
 * arrive any more.
 */
static bool race_once(struct scene *scene, u32 turn)
{
	struct ib_rdma_wr write = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &scene->sge,
			.num_sge = 1,
		},
		.remote_addr = scene->mr->iova,
		.rkey = scene->mr->rkey,
	};
	struct link *link = &scene->link;
	u32 posted = 0, ended = 0, written = 0;
	struct ib_wc wc;
	bool good;

	buffer_fill(&scene->buffer, scene->sge.length, turn);
	while (posted < LINK_DEPTH && !link_send(link, 0, &write.wr))
		posted++;
	/* Then some WRITEs are under way, and one of them may be half done. */
	for (; ended < turn % 8; ended++)
		if (!link_poll(link, 0, &wc))
			return false;
	good = !fast_inv(link, 1, scene->mr->rkey);
	pages_set(&scene->pages, OTHER);
	for (written = ended; ended < posted; ended++) {
		if (!link_poll(link, 0, &wc))
			return false;
		written += wc.status == IB_WC_SUCCESS;
		good &= wc.status == IB_WC_SUCCESS ||
			ended_with(wc.status, IB_WC_REM_ACCESS_ERR) ||
			wc.status == IB_WC_WR_FLUSH_ERR;
	}
	good &= pages_all(&scene->pages, OTHER);
	if (!good)
		note("turn %u: %u of %u written", turn, written, posted);
	return good && (written == posted || link_revive(link));
}

static void test_invalidate_race(struct ib_device *dev, u32 seed)
{
	/* Each may be 32,768 packets, which take their time if one is lost now and then. */
	const u32 turns = impaired ? 25 : 100;
	struct scene scene;
	bool good = true;
	u32 turn;

	if (!scene_open(&scene, dev, 64))
		return;
	for (turn = 0; turn < turns && good; turn++) {
		ib_update_fast_reg_key(scene.mr, ib_inc_rkey(scene.mr->rkey));
		good = !scene_reg(&scene) && race_once(&scene, turn);
	}
	point(good, "after LOCAL_INV no byte arrives (%u turns)", turn);
	scene_close(&scene);
}

static void wrong(struct scene *scene, const char *what, int got, int want)
{
	bool good = ended_with(got, want);

	if (!good)
		note("status %d", got);
	point(good, "%s: %s", what, ib_wc_status_msg(want));
	if (got)
		link_revive(&scene->link);
}

static void wrong_invalidations(struct scene *scene)
{
	struct link *link = &scene->link;
	u32 key = scene->mr->rkey;

	wrong(scene, "LOCAL_INV of an MR that is free", fast_inv(link, 1, key),
	      IB_WC_MW_BIND_ERR);
	scene_reg(scene);
	wrong(scene, "LOCAL_INV with another low byte",
	      fast_inv(link, 1, key ^ 1), IB_WC_MW_BIND_ERR);
	wrong(scene, "LOCAL_INV with another nonce",
	      fast_inv(link, 1, key ^ 0x100), IB_WC_MW_BIND_ERR);
	wrong(scene, "LOCAL_INV of key 0", fast_inv(link, 1, 0),
	      IB_WC_MW_BIND_ERR);
	wrong(scene, "LOCAL_INV of the key of all memory",
	      fast_inv(link, 1, link->pd->local_dma_lkey), IB_WC_MW_BIND_ERR);
	wrong(scene, "REG_MR of an MR that is registered", scene_reg(scene),
	      IB_WC_MW_BIND_ERR);
	wrong(scene, "and all the while a peer may write", scene_write(scene), 0);
	wrong(scene, "LOCAL_INV", fast_inv(link, 1, key), 0);
}

static void wrong_registrations(struct scene *scene)
{
	struct link *link = &scene->link, other;
	struct ib_mr *mr = scene->mr;
	u64 length = mr->length, iova = mr->iova;
	u32 key = mr->rkey;

	wrong(scene, "REG_MR with another nonce",
	      fast_reg(link, 1, mr, key ^ 0x100, ALL_REMOTE), IB_WC_MW_BIND_ERR);
	wrong(scene, "REG_MR with remote write alone",
	      fast_reg(link, 1, mr, key, IB_ACCESS_REMOTE_WRITE),
	      IB_WC_MW_BIND_ERR);
	wrong(scene, "REG_MR with unknown rights",
	      fast_reg(link, 1, mr, key, IB_ACCESS_ON_DEMAND), -EINVAL);
	mr->length = 0;
	wrong(scene, "REG_MR of no bytes", scene_reg(scene), IB_WC_MW_BIND_ERR);
	mr->length = length + 1;
	wrong(scene, "REG_MR of more than the table has room for",
	      scene_reg(scene), IB_WC_MW_BIND_ERR);
	mr->length = length;
	mr->iova = -PAGE_SIZE;
	wrong(scene, "REG_MR over the end of addresses", scene_reg(scene),
	      IB_WC_MW_BIND_ERR);
	mr->iova = iova;
	if (link_open(&other, link->dev, (struct link_how){})) {
		wrong(scene, "REG_MR of another PD's MR",
		      fast_reg(&other, 1, mr, key, ALL_REMOTE),
		      IB_WC_MW_BIND_ERR);
		link_close(&other);
	}
	wrong(scene, "no right but local read",
	      fast_reg(link, 1, mr, key, 0), 0);
	wrong(scene, "a peer may not write then", scene_write(scene),
	      IB_WC_REM_ACCESS_ERR);
	wrong(scene, "LOCAL_INV", fast_inv(link, 1, key), 0);
}

static void test_wrong_uses(struct ib_device *dev, u32 seed)
{
	struct scene scene;

	if (!scene_open(&scene, dev, 4))
		return;
	wrong_invalidations(&scene);
	wrong_registrations(&scene);
	point(!scene_reg(&scene) && !scene_write(&scene),
	      "after all that it works");
	scene_close(&scene);
}

/* Each access right by itself: the last REG_MR decides what a peer may do. */
static void test_rights(struct ib_device *dev, u32 seed)
{
	struct scene scene;
	bool good = true;
	int access;

	if (!scene_open(&scene, dev, 1))
		return;
	scene.sge.length = 8;
	for (access = 0; access < 16; access++) {
		bool legal = !(access & (IB_ACCESS_REMOTE_WRITE |
					 IB_ACCESS_REMOTE_ATOMIC)) ||
			     access & IB_ACCESS_LOCAL_WRITE;
		int got = fast_reg(&scene.link, 1, scene.mr, scene.mr->rkey,
				   access);
		int write, read;

		good &= (got == 0) == legal;
		if (got) {
			link_revive(&scene.link);
			continue;
		}
		write = scene_write(&scene);
		if (write)
			link_revive(&scene.link);
		read = link_rdma(&scene.link, 0, IB_WR_RDMA_READ, &scene.sge,
				 scene.mr->iova, scene.mr->rkey);
		if (read)
			link_revive(&scene.link);
		good &= (write == 0) == !!(access & IB_ACCESS_REMOTE_WRITE) &&
			(read == 0) == !!(access & IB_ACCESS_REMOTE_READ);
		good &= !fast_inv(&scene.link, 1, scene.mr->rkey);
	}
	point(good, "all 16 sets of rights");
	scene_close(&scene);
}

const struct verbs_test invalid_tests[] = {
	{ "remote_invalidate", test_remote_invalidate },
	{ "invalidate_race", test_invalidate_race },
	{ "wrong_uses", test_wrong_uses },
	{ "rights", test_rights },
	{}
};
