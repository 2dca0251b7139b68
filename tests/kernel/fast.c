// SPDX-License-Identifier: GPL-2.0
/* Fast registration: what an MR can map, its keys, its two tables, many cycles. */

#include "verbs_test.h"

#define BIG_PAGES	256
#define OTHER		0xee

/* Registers what @mr was mapped to last. Return: 0, a status, or an errno. */
int fast_reg(struct link *link, int side, struct ib_mr *mr, u32 key, int access)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.wr.send_flags = IB_SEND_SIGNALED,
		.mr = mr,
		.key = key,
		.access = access,
	};

	return link_finish(link, side, &wr.wr);
}

int fast_inv(struct link *link, int side, u32 key)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = key,
	};

	return link_finish(link, side, &wr);
}

/* Maps all of the range. */
bool fast_map(struct ib_mr *mr, struct pages *pages)
{
	return ib_map_mr_sg(mr, pages->sg, pages->mapped, NULL, PAGE_SIZE) ==
	       pages->mapped && mr->length == pages->length;
}

/* A second GSI QP: the port's one belongs to the core's MAD agents. */
static struct ib_qp *another_gsi(struct link *link)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_GSI, .port_num = 1,
		.send_cq = link->cq[0], .recv_cq = link->cq[0],
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ib_create_qp(link->pd, &attr);
}

static void test_caps(struct ib_device *dev, u32 seed)
{
	u32 most = dev->attrs.max_fast_reg_page_list_len;
	struct link link;
	struct ib_mr *mr;

	point(dev->kverbs_provider, "kernel verbs are all there");
	point(dev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS,
	      "fast registration is announced");
	point(!(dev->attrs.kernel_cap_flags & IBK_SG_GAPS_REG) &&
	      !dev->attrs.max_pi_fast_reg_page_list_len,
	      "what is not there is not announced");
	point(rdma_cap_ib_mad(dev, 1) && rdma_cap_ib_cm(dev, 1) &&
	      !rdma_cap_ib_smi(dev, 1) && !rdma_cap_ib_sa(dev, 1),
	      "MADs are for the CM: no subnet is managed");
	if (!link_open(&link, dev, (struct link_how){}))
		return;
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, most);
	if (point(!IS_ERR(mr), "an MR of %u pages", most))
		point(!ib_dereg_mr(mr), "is deregistered");
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, most + 1);
	point(mr == ERR_PTR(-EINVAL), "%u pages are too many: EINVAL", most + 1);
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, 0);
	point(mr == ERR_PTR(-EINVAL), "no pages: EINVAL");
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_SG_GAPS, 16);
	point(mr == ERR_PTR(-EOPNOTSUPP), "SG_GAPS: EOPNOTSUPP");
	point(another_gsi(&link) == ERR_PTR(-EBUSY), "a second GSI QP: EBUSY");
	link_close(&link);
}

/*
 * Tries one shape of a range: a peer reads and writes all of it and changes nothing
 * else.
 */
static bool try_shape(struct link *link, struct ib_mr *mr, struct pages *pages,
		      struct buffer *buffer, u32 offset, u32 length, u8 seed)
{
	struct ib_sge sge = buffer_sge(link, buffer, length);
	bool good;
	int got;

	if (!pages_map(pages, offset, length) || !fast_map(mr, pages)) {
		note("offset %u length %u: not mapped", offset, length);
		return false;
	}
	pages_set(pages, OTHER);
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	got = fast_reg(link, 1, mr, mr->rkey, ALL_REMOTE);
	buffer_fill(buffer, length, seed);
	got = got ?: link_rdma(link, 0, IB_WR_RDMA_WRITE, &sge, mr->iova,
			       mr->rkey);
	good = !got && pages_are(pages, seed) &&
	       pages_same_outside(pages, OTHER);
	pages_fill(pages, seed + 1);
	got = got ?: link_rdma(link, 0, IB_WR_RDMA_READ, &sge, mr->iova,
			       mr->rkey);
	good = good && !got && buffer_is(buffer, length, seed + 1);
	got = got ?: fast_inv(link, 1, mr->rkey);
	if (!good || got)
		note("offset %u length %u: status %d", offset, length, got);
	return good && !got;
}

/* Like try_shape(); accesses just outside of the range must also fail. */
static bool try_edges(struct link *link, struct ib_mr *mr, struct buffer *buffer)
{
	struct ib_sge sge = buffer_sge(link, buffer, 1);
	u64 iova = mr->iova;
	int before, behind;

	if (fast_reg(link, 1, mr, mr->rkey, ALL_REMOTE))
		return false;
	before = link_rdma(link, 0, IB_WR_RDMA_READ, &sge, iova - 1, mr->rkey);
	link_revive(link);
	behind = link_rdma(link, 0, IB_WR_RDMA_READ, &sge, iova + mr->length,
			   mr->rkey);
	link_revive(link);
	return ended_with(before, IB_WC_REM_ACCESS_ERR) &&
	       ended_with(behind, IB_WC_REM_ACCESS_ERR) && !fast_inv(link, 1, mr->rkey);
}

static void test_shapes(struct ib_device *dev, u32 seed)
{
	static const u32 offsets[] = { 0, 1, 511, 2048, 4095 };
	static const u32 extra[] = { 1, 2, 1000, 4094, 4095, 4096 };
	struct rnd_state random;
	struct buffer buffer = {};
	struct pages pages = {};
	u32 count = 0, num, i, j;
	struct link link;
	struct ib_mr *mr;
	bool good = true;

	if (!link_open(&link, dev, (struct link_how){}))
		return;
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, BIG_PAGES);
	if (!point(!IS_ERR(mr), "an MR"))
		goto close;
	if (!pages_alloc(&pages, dev, BIG_PAGES) ||
	    !buffer_open(&buffer, dev, BIG_PAGES * PAGE_SIZE))
		goto dereg;

	for (num = 0; num < 3; num++)
		for (i = 0; i < ARRAY_SIZE(offsets); i++)
			for (j = 0; j < ARRAY_SIZE(extra); j++)
				good &= try_shape(&link, mr, &pages, &buffer,
						  offsets[i],
						  num * PAGE_SIZE + extra[j],
						  count++);
	point(good, "%u shapes of up to 4 pages", count);
	good = try_edges(&link, mr, &buffer);
	point(good, "the bytes before and behind are out of bounds");

	prandom_seed_state(&random, seed);
	for (count = 0, good = true; count < 24; count++) {
		u32 offset = prandom_u32_state(&random) % (8 * PAGE_SIZE);
		u32 most = BIG_PAGES * PAGE_SIZE - offset;

		most >>= prandom_u32_state(&random) % 8;
		good &= try_shape(&link, mr, &pages, &buffer, offset,
				  1 + prandom_u32_state(&random) % most, count);
	}
	point(good, "%u random ones of up to %u pages, seed %u", count,
	      BIG_PAGES, seed);
	good = try_shape(&link, mr, &pages, &buffer, 0, BIG_PAGES * PAGE_SIZE, 9);
	point(good, "as many pages as it has room for");
	pages_unmap(&pages);
dereg:
	buffer_close(&buffer);
	if (pages.page)
		pages_free(&pages);
	point(!ib_dereg_mr(mr), "deregistered");
close:
	link_close(&link);
}

/* Scatterlists of which an MR maps only a part, or nothing. */
static void test_lists(struct ib_device *dev, u32 seed)
{
	struct pages pages = {};
	unsigned int offset = 0, turns = 0;
	struct link link;
	struct ib_mr *mr;
	int got = 0, done;
	u64 total = 0;

	if (!link_open(&link, dev, (struct link_how){}))
		return;
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, 4);
	if (!point(!IS_ERR(mr), "an MR of 4 pages"))
		goto close;
	if (!pages_alloc(&pages, dev, 8) || !pages_map(&pages, 0, 8 * PAGE_SIZE))
		goto dereg;
	/* In one entry or in eight, whatever the platform makes of the list. */
	for (done = 0; done < pages.mapped; done += got, turns++) {
		got = ib_map_mr_sg(mr, pages.sg + done, pages.mapped - done,
				   &offset, PAGE_SIZE);
		if (got < 0 || !mr->length || mr->length > 4 * PAGE_SIZE)
			break;
		total += mr->length;
	}
	point(total == 8 * PAGE_SIZE && turns > 1 && !offset,
	      "8 pages, 4 at most at once: all in turn (%u turns, %llu bytes)",
	      turns, total);
	pages_map(&pages, 0, 3 * PAGE_SIZE);
	offset = 100;
	got = ib_map_mr_sg(mr, pages.sg, 1, &offset, PAGE_SIZE);
	point(got == 1 && mr->iova == sg_dma_address(pages.sg) + 100,
	      "an offset into the first entry");
	point(ib_map_mr_sg(mr, pages.sg, 1, NULL, 3 * PAGE_SIZE) == -EINVAL,
	      "a page size that is no power of two: EINVAL");
	point(ib_map_mr_sg(mr, pages.sg, 1, NULL, 2048) == -EINVAL,
	      "pages of 2 KiB: EINVAL");
	point(ib_map_mr_sg(mr, pages.sg, 0, NULL, PAGE_SIZE) == -EINVAL,
	      "no entries: EINVAL");
	pages_unmap(&pages);
	/*
	 * Two entries of 200 bytes with a gap between them: only the first can be
	 * mapped.
	 */
	if (pages_map(&pages, 100, 200)) {
		struct scatterlist two[2];

		sg_init_table(two, 2);
		sg_set_page(&two[0], pages.page[0], 200, 100);
		sg_set_page(&two[1], pages.page[2], 200, 100);
		got = ib_dma_map_sg(dev, two, 2, DMA_BIDIRECTIONAL);
		point(got == 2 && ib_map_mr_sg(mr, two, 2, NULL, PAGE_SIZE) == 1,
		      "a gap between entries: the first alone");
		if (got)
			ib_dma_unmap_sg(dev, two, 2, DMA_BIDIRECTIONAL);
	}
dereg:
	if (pages.page)
		pages_free(&pages);
	ib_dereg_mr(mr);
close:
	link_close(&link);
}

static void test_keys(struct ib_device *dev, u32 seed)
{
	bool reached = true, dead = true, mixed = true;
	struct buffer buffer = {};
	struct pages pages = {};
	struct link link;
	struct ib_sge sge;
	struct ib_mr *mr;
	u32 i, old;

	if (!link_open(&link, dev, (struct link_how){}))
		return;
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, 2);
	if (!point(!IS_ERR(mr), "an MR"))
		goto close;
	if (!pages_alloc(&pages, dev, 2) || !buffer_open(&buffer, dev, PAGE_SIZE) ||
	    !pages_map(&pages, 10, PAGE_SIZE))
		goto dereg;
	sge = buffer_sge(&link, &buffer, 8);
	for (i = 0; i < 300; i++) {
		fast_map(mr, &pages);
		old = mr->rkey;
		ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
		mixed &= (old ^ mr->rkey) < 256 && mr->lkey == mr->rkey;
		reached &= !fast_reg(&link, 1, mr, mr->rkey, ALL_REMOTE) &&
			   !link_rdma(&link, 0, IB_WR_RDMA_WRITE, &sge, mr->iova,
				      mr->rkey);
		if (i % 32 == 31) {
			dead &= ended_with(link_rdma(&link, 0, IB_WR_RDMA_WRITE,
						     &sge, mr->iova, old),
					   IB_WC_REM_ACCESS_ERR);
			link_revive(&link);
		}
		reached &= !fast_inv(&link, 1, mr->rkey);
	}
	point(mixed, "ib_inc_rkey() changes the low byte alone");
	point(reached, "a peer gets in by each of 300 keys in turn");
	point(dead, "and not by the one before");
	fast_map(mr, &pages);
	point(!fast_reg(&link, 1, mr, mr->rkey, ALL_REMOTE) &&
	      !link_rdma(&link, 0, IB_WR_RDMA_WRITE, &sge, mr->iova, mr->rkey) &&
	      !fast_inv(&link, 1, mr->rkey), "the same key once more");
dereg:
	buffer_close(&buffer);
	if (pages.page)
		pages_free(&pages);
	point(!ib_dereg_mr(mr), "deregistered");
close:
	link_close(&link);
}

/*
 * Maps an MR to the next buffer while it is still registered to the last one: by the
 * old key the peer goes on in the old buffer, and it never reaches the new pages.
 */
static void test_two_tables(struct ib_device *dev, u32 seed)
{
	struct pages pages[2] = {};
	struct buffer buffer = {};
	bool stayed = true, moved = true, kept = true;
	u32 old_key, turn;
	struct link link;
	struct ib_sge sge;
	struct ib_mr *mr;
	u64 old_iova;

	if (!link_open(&link, dev, (struct link_how){}))
		return;
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, 8);
	if (!point(!IS_ERR(mr), "an MR"))
		goto close;
	if (!pages_alloc(&pages[0], dev, 8) || !pages_alloc(&pages[1], dev, 8) ||
	    !pages_map(&pages[0], 0, 8 * PAGE_SIZE) ||
	    !pages_map(&pages[1], 0, 8 * PAGE_SIZE) ||
	    !buffer_open(&buffer, dev, 8 * PAGE_SIZE))
		goto dereg;
	sge = buffer_sge(&link, &buffer, 8 * PAGE_SIZE);
	fast_map(mr, &pages[0]);
	fast_reg(&link, 1, mr, mr->rkey, ALL_REMOTE);
	for (turn = 0; turn < 9; turn++) {
		struct pages *old = &pages[turn % 2], *new = &pages[!(turn % 2)];
		u32 i;

		old_key = mr->rkey;
		old_iova = mr->iova;
		pages_set(old, 0);
		pages_set(new, OTHER);
		/* Map several times, as a client may that changes its mind. */
		for (i = 0; i <= turn % 3; i++)
			fast_map(mr, new);
		buffer_fill(&buffer, sge.length, turn);
		stayed &= !link_rdma(&link, 0, IB_WR_RDMA_WRITE, &sge, old_iova,
				     old_key) && pages_are(old, turn);
		kept &= pages_all(new, OTHER);
		ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
		moved &= !fast_inv(&link, 1, old_key) &&
			 !fast_reg(&link, 1, mr, mr->rkey, ALL_REMOTE) &&
			 !link_rdma(&link, 0, IB_WR_RDMA_WRITE, &sge, mr->iova,
				    mr->rkey) && pages_are(new, turn);
	}
	point(stayed, "mapped anew, the old registration is as it was");
	point(kept, "and none of the new pages is reached");
	point(moved, "until they are registered");
dereg:
	buffer_close(&buffer);
	if (pages[0].page)
		pages_free(&pages[0]);
	if (pages[1].page)
		pages_free(&pages[1]);
	point(!ib_dereg_mr(mr), "deregistered");
close:
	link_close(&link);
}

/*
 * If a REG_MR does not take effect, the registration before it stays valid, and its
 * table must not be written when the MR is mapped next. @how it fails: 0: flushed, 1:
 * refused, 2: flushed and never polled, 3: executed and never polled.
 */
static bool try_failure(struct link *link, struct ib_mr *mr,
			struct pages *pages, struct buffer *buffer, int how)
{
	struct ib_sge sge = buffer_sge(link, buffer, buffer->size);
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = mr,
		.access = ALL_REMOTE,
	};
	u32 key = mr->rkey;
	struct ib_wc wc;
	bool good;
	u64 iova;

	fast_map(mr, &pages[0]);
	iova = mr->iova;
	good = !fast_reg(link, 1, mr, key, ALL_REMOTE);
	fast_map(mr, &pages[1]);
	wr.key = (key & ~0xffU) | (u8)(key + 1);
	if (how == 3) {
		good &= !fast_inv(link, 1, key);
		key = wr.key;
		iova = mr->iova;
	} else if (how != 1) {
		link_state(link, 1, IB_QPS_ERR);
	}
	good &= !link_send(link, 1, &wr.wr);
	if (how < 2)
		good &= link_poll(link, 1, &wc) && wc.status ==
			(how ? IB_WC_MW_BIND_ERR : IB_WC_WR_FLUSH_ERR);
	if (how == 3) {
		/*
		 * This LOCAL_INV of key 0 fails, but behind the REG_MR, which was
		 * executed then.
		 */
		good &= fast_inv(link, 1, 0) == IB_WC_MW_BIND_ERR;
		link_quiet(link, 1);
	}
	link_revive(link);
	/* This has to go into the table that no registration uses. */
	fast_map(mr, &pages[2]);
	pages_set(&pages[2], OTHER);
	buffer_fill(buffer, buffer->size, how);
	good &= !link_rdma(link, 0, IB_WR_RDMA_WRITE, &sge, iova, key);
	good &= pages_are(&pages[how == 3], how) && pages_all(&pages[2], OTHER);
	good &= !fast_inv(link, 1, key);
	return good;
}

static void test_failed(struct ib_device *dev, u32 seed)
{
	static const char *const names[] = {
		"flushed", "refused", "flushed and not polled for",
		"done and not polled for",
	};
	struct buffer buffer = {};
	struct pages pages[3] = {};
	struct link link;
	struct ib_mr *mr;
	int i;

	if (!link_open(&link, dev, (struct link_how){}))
		return;
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, 4);
	if (!point(!IS_ERR(mr), "an MR"))
		goto close;
	for (i = 0; i < 3; i++)
		if (!pages_alloc(&pages[i], dev, 4) ||
		    !pages_map(&pages[i], 0, 4 * PAGE_SIZE))
			goto dereg;
	if (!buffer_open(&buffer, dev, 4 * PAGE_SIZE))
		goto dereg;
	for (i = 0; i < 2 * ARRAY_SIZE(names); i++)
		point(try_failure(&link, mr, pages, &buffer, i % ARRAY_SIZE(names)),
		      "REG_MR %s: the table in use is left alone (%d)",
		      names[i % ARRAY_SIZE(names)], i);
dereg:
	buffer_close(&buffer);
	for (i = 0; i < 3; i++)
		if (pages[i].page)
			pages_free(&pages[i]);
	point(!ib_dereg_mr(mr), "deregistered");
close:
	link_close(&link);
}

/* A cycle is two work requests; only the last of a batch of cycles is signaled. */
static void test_cycles(struct ib_device *dev, u32 seed)
{
	const u32 cycles = 100000, batch = 32;
	struct ib_reg_wr reg = { .wr.opcode = IB_WR_REG_MR };
	struct ib_send_wr inv = { .opcode = IB_WR_LOCAL_INV };
	struct pages pages[2] = {};
	u32 done = 0, failed = 0, i;
	struct link link;
	struct ib_mr *mr;

	if (!link_open(&link, dev, (struct link_how){}))
		return;
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, 16);
	if (!point(!IS_ERR(mr), "an MR"))
		goto close;
	for (i = 0; i < 2; i++)
		if (!pages_alloc(&pages[i], dev, 16) ||
		    !pages_map(&pages[i], i, 15 * PAGE_SIZE))
			goto dereg;
	reg.mr = mr;
	reg.access = ALL_REMOTE;
	reg.wr.next = &inv;
	for (done = 0; done < cycles && !failed; done += batch) {
		/* The MR must not be mapped while registrations of it are posted. */
		fast_map(mr, &pages[done / batch % 2]);
		for (i = 0; i < batch; i++) {
			ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
			reg.key = mr->rkey;
			inv.ex.invalidate_rkey = mr->rkey;
			inv.send_flags = i == batch - 1 ? IB_SEND_SIGNALED : 0;
			if (i < batch - 1)
				failed += link_send(&link, 1, &reg.wr) != 0;
			else
				failed += link_finish(&link, 1, &reg.wr) != 0;
		}
	}
	point(!failed && link_quiet(&link, 1), "%u cycles of REG_MR and LOCAL_INV",
	      done);
dereg:
	for (i = 0; i < 2; i++)
		if (pages[i].page)
			pages_free(&pages[i]);
	point(!ib_dereg_mr(mr), "deregistered");
close:
	link_close(&link);
}

/* Posts a registration, a WRITE by its key and a LOCAL_INV in one call. */
static int write_chain(struct link *link, struct ib_mr *mr, u64 addr, u32 rkey)
{
	struct ib_sge sge = { .addr = mr->iova, .length = mr->length };
	struct ib_send_wr inv = {
		.opcode = IB_WR_LOCAL_INV, .send_flags = IB_SEND_SIGNALED,
	};
	struct ib_rdma_wr write = {
		.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = &sge,
			.num_sge = 1, .next = &inv },
		.remote_addr = addr,
		.rkey = rkey,
	};
	struct ib_reg_wr reg = {
		.wr = { .opcode = IB_WR_REG_MR, .next = &write.wr },
		.mr = mr,
	};

	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	reg.key = mr->rkey;
	sge.lkey = mr->lkey;
	inv.ex.invalidate_rkey = mr->rkey;
	return link_finish(link, 0, &reg.wr);
}

/*
 * LOCAL_INV must not take effect while the WRITE before it may be sent, or sent again.
 */
static void test_chains(struct ib_device *dev, u32 seed)
{
	const u32 turns = 100, num = 16;
	struct pages pages[2] = {};
	struct ib_mr *mr[2] = {};
	bool good = true;
	struct link link;
	u32 turn, i;

	if (!link_open(&link, dev, (struct link_how){}))
		return;
	for (i = 0; i < 2; i++) {
		mr[i] = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, num);
		if (!point(!IS_ERR(mr[i]), "an MR")) {
			mr[i] = NULL;
			goto dereg;
		}
		if (!pages_alloc(&pages[i], dev, num) ||
		    !pages_map(&pages[i], i, (num - 1) * PAGE_SIZE) ||
		    !fast_map(mr[i], &pages[i]))
			goto dereg;
	}
	good = !fast_reg(&link, 1, mr[1], mr[1]->rkey, ALL_REMOTE);
	for (turn = 0; turn < turns && good; turn++) {
		pages_fill(&pages[0], turn);
		good = fast_map(mr[0], &pages[0]) &&
		       !write_chain(&link, mr[0], mr[1]->iova, mr[1]->rkey) &&
		       pages_are(&pages[1], turn);
	}
	point(good, "%u chains of REG_MR, WRITE and LOCAL_INV", turn);
dereg:
	for (i = 0; i < 2; i++) {
		if (pages[i].page)
			pages_free(&pages[i]);
		if (mr[i])
			point(!ib_dereg_mr(mr[i]), "deregistered");
	}
	link_close(&link);
}

const struct verbs_test fast_tests[] = {
	{ "caps", test_caps },
	{ "shapes", test_shapes },
	{ "lists", test_lists },
	{ "keys", test_keys },
	{ "two_tables", test_two_tables },
	{ "failed", test_failed },
	{ "cycles", test_cycles },
	{ "chains", test_chains },
	{}
};
