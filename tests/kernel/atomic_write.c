// SPDX-License-Identifier: GPL-2.0
/*
 * ATOMIC_WRITE of the kernel's verbs: eight bytes that are written as one, and
 * refusals.
 */

#include "verbs_test.h"

#define OTHER	0xee
#define AT	64	/* offset of the eight bytes; no other may change */

/* A link, a page of side 0 to send from, and one of side 1 under an MR. */
struct scene {
	struct link link;
	struct buffer from;
	struct buffer to;
	struct ib_mr *mr;
};

static void scene_close(struct scene *scene)
{
	if (scene->mr)
		ib_dereg_mr(scene->mr);
	buffer_close(&scene->from);
	buffer_close(&scene->to);
	link_close(&scene->link);
}

static bool scene_open(struct scene *scene, struct ib_device *dev)
{
	struct scatterlist sg;

	*scene = (struct scene){};
	if (!link_open(&scene->link, dev, (struct link_how){ .max_inline = 8 }))
		return false;
	scene->mr = ib_alloc_mr(scene->link.pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(scene->mr)) {
		scene->mr = NULL;
		point(false, "an MR");
		goto fail;
	}
	if (!buffer_open(&scene->from, dev, PAGE_SIZE) ||
	    !buffer_open(&scene->to, dev, PAGE_SIZE))
		goto fail;
	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = scene->to.dma;
	sg_dma_len(&sg) = PAGE_SIZE;
	if (ib_map_mr_sg(scene->mr, &sg, 1, NULL, PAGE_SIZE) == 1)
		return true;
	point(false, "a page of it");
fail:
	scene_close(scene);
	return false;
}

static int scene_reg(struct scene *scene, int access)
{
	return fast_reg(&scene->link, 1, scene->mr, scene->mr->rkey, access);
}

/* Fills side 0's page by @seed and the peer's with other values. */
static void scene_prepare(struct scene *scene, u8 seed)
{
	buffer_fill(&scene->from, PAGE_SIZE, seed);
	memset(scene->to.mem, OTHER, PAGE_SIZE);
}

/*
 * Do @length bytes at AT equal the start of side 0's page, and is the rest unchanged?
 */
static bool scene_has(struct scene *scene, u32 length)
{
	const u8 *mem = scene->to.mem;

	return !memchr_inv(mem, OTHER, AT) &&
	       !memcmp(mem + AT, scene->from.mem, length) &&
	       !memchr_inv(mem + AT + length, OTHER, PAGE_SIZE - AT - length);
}

/* An ATOMIC_WRITE. Return: its status, or an errno. */
static int scene_write(struct scene *scene, struct ib_sge *sges, int num, int flags,
		       u64 at, struct ib_wc *wc)
{
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_ATOMIC_WRITE,
			.send_flags = IB_SEND_SIGNALED | flags,
			.sg_list = sges,
			.num_sge = num,
		},
		.remote_addr = scene->mr->iova + at,
		.rkey = scene->mr->rkey,
	};
	int err = link_send(&scene->link, 0, &wr.wr);

	if (err)
		return err;
	return link_poll(&scene->link, 0, wc) ? wc->status : -ETIMEDOUT;
}

static void good_writes(struct scene *scene)
{
	struct ib_sge sges[2];
	struct ib_wc wc;

	sges[0] = buffer_sge(&scene->link, &scene->from, 8);
	scene_prepare(scene, 1);
	point(!scene_write(scene, sges, 1, 0, AT, &wc) && scene_has(scene, 8) &&
	      wc.opcode == IB_WC_ATOMIC_WRITE, "eight bytes");

	sges[0].length = 3;
	sges[1] = sges[0];
	sges[1].addr += 3;
	sges[1].length = 5;
	scene_prepare(scene, 2);
	point(!scene_write(scene, sges, 2, 0, AT, &wc) && scene_has(scene, 8),
	      "of two pieces");

	sges[0].addr = (uintptr_t)scene->from.mem;
	sges[0].length = 8;
	scene_prepare(scene, 3);
	point(!scene_write(scene, sges, 1, IB_SEND_INLINE, AT, &wc) &&
	      scene_has(scene, 8), "inline");
}

/* The request fails with the right status, and nothing is written. */
static void wrong(struct scene *scene, const char *what, u32 length, u64 at,
		  enum ib_wc_status due)
{
	struct ib_sge sge = buffer_sge(&scene->link, &scene->from, length);
	struct ib_wc wc;
	int got;

	scene_prepare(scene, 4);
	got = scene_write(scene, &sge, 1, 0, at, &wc);
	if (!point(ended_with(got, due) && scene_has(scene, 0), "%s: %s", what,
		   ib_wc_status_msg(due)))
		note("status %d", got);
	link_revive(&scene->link);
}

static void wrong_writes(struct scene *scene)
{
	u32 key = scene->mr->rkey;

	wrong(scene, "of 7 bytes", 7, AT, IB_WC_LOC_LEN_ERR);
	wrong(scene, "of 9 bytes", 9, AT, IB_WC_LOC_LEN_ERR);
	wrong(scene, "of none", 0, AT, IB_WC_LOC_LEN_ERR);
	wrong(scene, "to an address that is not a multiple of 8", 8, AT + 4,
	      IB_WC_REM_INV_REQ_ERR);
	wrong(scene, "behind the end", 8, PAGE_SIZE, IB_WC_REM_ACCESS_ERR);
	fast_inv(&scene->link, 1, key);
	wrong(scene, "by a dead key", 8, AT, IB_WC_REM_ACCESS_ERR);
	point(!scene_reg(scene, ALL_REMOTE & ~IB_ACCESS_REMOTE_WRITE),
	      "the page, not to be written, but for atomics");
	wrong(scene, "to it", 8, AT, IB_WC_REM_ACCESS_ERR);
}

/* A kernel client cannot ask for FLUSH, whatever the device can do. */
static void refused(struct scene *scene)
{
	struct ib_sge sge = buffer_sge(&scene->link, &scene->from, 8);

	point(link_rdma(&scene->link, 0, IB_WR_FLUSH, &sge, scene->mr->iova,
			scene->mr->rkey) == -EINVAL, "FLUSH: EINVAL");
	point(scene_reg(scene, ALL_REMOTE | IB_ACCESS_FLUSH_PERSISTENT) == -EINVAL,
	      "REG_MR with FLUSH_PERSISTENT: EINVAL");
}

static void test_atomic_write(struct ib_device *dev, u32 seed)
{
	struct scene scene;
	struct ib_sge sge;

	if (!scene_open(&scene, dev))
		return;
	refused(&scene);
	if (dev->attrs.device_cap_flags & IB_DEVICE_ATOMIC_WRITE) {
		point(!scene_reg(&scene, ALL_REMOTE), "a page, to be written");
		good_writes(&scene);
		wrong_writes(&scene);
		fast_inv(&scene.link, 1, scene.mr->rkey);
		point(!scene_reg(&scene, IB_ACCESS_LOCAL_WRITE |
				 IB_ACCESS_REMOTE_WRITE), "to be written again");
		good_writes(&scene);
	} else {
		sge = buffer_sge(&scene.link, &scene.from, 8);
		point(link_rdma(&scene.link, 0, IB_WR_ATOMIC_WRITE, &sge,
				scene.mr->iova, scene.mr->rkey) == -EINVAL,
		      "ATOMIC_WRITE, which the device does not have: EINVAL");
	}
	scene_close(&scene);
}

const struct verbs_test atomic_write_tests[] = {
	{ "atomic_write", test_atomic_write },
	{}
};
