// SPDX-License-Identifier: GPL-2.0
/* One dma-buf, which all processes register and move; no call writes to it. */
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "owner.h"
#include "uverbs_build.h"

static struct buffer buffer;

int dmabuf_open(void)
{
	owner_open();
	buffer = buffer_make();
	return buffer.fd + 1;
}

void dmabuf_close(void)
{
	buffer_put(&buffer);
	owner_close();
}

void build_reg_dmabuf(void)
{
	uint64_t offset = below(EXPORTER_PAGES) * PAGE + below(PAGE);
	uint32_t pd = pick_pd();

	method(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
	attr_new(UVERBS_ATTR_REG_DMABUF_MR_HANDLE);
	attr(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd);
	attr_u64(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset);
	attr_u64(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 1 + below(BUFFER_SIZE - offset));
	attr_u64(UVERBS_ATTR_REG_DMABUF_MR_IOVA, offset);
	attr_u32(UVERBS_ATTR_REG_DMABUF_MR_FD, buffer.fd);
	attr_u32(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
		 IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_READ);
	call.key = attr_out(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4);
	attr_out(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4);
	call.made.start = offset;
	call.made.advisable_in = pd + 1;
}

/*
 * Advice for the first byte of an MR of the dma-buf, if there is one: a dma-buf is
 * mapped as a whole.
 */
void build_advise_mr(void)
{
	struct ib_uverbs_sge sge = { .length = 1, .lkey = next() };
	uint32_t i, n = pool[MR].count, pd = pick(PD);

	for (i = n ? below(n) : 0; n; n--, i = (i + 1) % pool[MR].count) {
		const struct object *mr = &pool[MR].object[i];

		if (!mr->advisable_in)
			continue;
		pd = mr->advisable_in - 1;
		sge.lkey = mr->key;
		sge.addr = mr->start;
		break;
	}
	method(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR);
	attr(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, 0, pd);
	attr_u64(UVERBS_ATTR_ADVISE_MR_ADVICE, below(3));
	attr_u32(UVERBS_ATTR_ADVISE_MR_FLAGS,
		 one_in(2) ? IB_UVERBS_ADVISE_MR_FLAG_FLUSH : 0);
	attr_in(UVERBS_ATTR_ADVISE_MR_SGE_LIST, &sge, sizeof(sge));
}

int move_dmabuf(void)
{
	return owner_does(EXPORTER_MOVE, &buffer);
}
