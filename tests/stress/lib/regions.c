// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions of every kind: registered, changed, refused, imported, deregistered.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tap.h"
#include "mix.h"

#define PAGE	4096u

/* Draws a combination of access flags that a registration may have. */
static unsigned int some_access(struct worker *w)
{
	unsigned int access = draw(w) & (ALL_ACCESS | IBV_ACCESS_MW_BIND |
					 IBV_ACCESS_ZERO_BASED |
					 IBV_ACCESS_RELAXED_ORDERING);

	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC))
		access |= IBV_ACCESS_LOCAL_WRITE;
	/* Windows need rights that many of these combinations lack. */
	if (draw(w) & 1)
		access |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	if (below(w, 3) == 0)
		access |= IBV_ACCESS_ON_DEMAND;
	return access;
}

/* Draws a slot. Returns NULL if that has no MR. */
struct region *some_region(struct worker *w)
{
	struct region *r = &w->regions[below(w, REGIONS)];

	return r->mr ? r : NULL;
}

/* The address by which a remote request reaches a byte of the arena. */
uint64_t wire_address(const struct region *r, size_t offset)
{
	return (r->access & IBV_ACCESS_ZERO_BASED ? 0 : r->hca_va) +
	       (offset - r->offset);
}

/* Notes a key that is not valid any more, to be tried later. */
void bury(struct worker *w, uint32_t key)
{
	w->dead[w->num_dead++ % DEAD] = key;
}

static void choose_range(struct worker *w, struct region *r)
{
	r->offset = below(w, ARENA);
	if (draw(w) & 1)
		r->offset &= ~(PAGE - 1);
	r->length = 1 + below(w, ARENA - r->offset);
}

static struct ibv_pd *pd_of(struct worker *w, const struct region *r)
{
	return r->home ? w->pair.pd : w->away;
}

/* Are the pages pinned for writing? A later change of rights does not repin them. */
static bool is_writable(unsigned int access)
{
	return access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
}

static void reg(struct worker *w, struct region *r)
{
	uint8_t *start;

	choose_range(w, r);
	start = w->arena + r->offset;
	r->access = some_access(w);
	r->writable = is_writable(r->access);
	r->home = below(w, 6);
	r->hca_va = (uintptr_t)start;
	if (draw(w) & 1)
		r->hca_va = (draw(w) >> 8 & ~(PAGE - 1ull)) | r->offset % PAGE;
	r->mr = ibv_reg_mr_iova(pd_of(w, r), start, r->length, r->hca_va,
				r->access);
	if (!r->mr)
		wrong(w, "ibv_reg_mr_iova of %zu bytes, flags 0x%x: %s",
		      r->length, r->access, strerror(errno));
	count(w, REG);
	atomic_store(&w->world->addrs[w->number], r->hca_va);
	atomic_store(&w->world->rkeys[w->number], r->mr->rkey);
}

/* EBUSY is due while windows are bound, and must change nothing. */
void dereg_region(struct worker *w, struct region *r)
{
	uint32_t key = r->mr->lkey;
	int err = ibv_dereg_mr(r->mr);

	if (err != (r->windows ? EBUSY : 0))
		wrong(w, "ibv_dereg_mr with %u windows: %s", r->windows,
		      strerror(err));
	count(w, err ? BUSY : DEREG);
	if (err)
		return;
	r->mr = NULL;
	bury(w, key);
}

void toggle_region(struct worker *w)
{
	struct region *r = &w->regions[below(w, REGIONS)];

	if (r->mr)
		dereg_region(w, r);
	else
		reg(w, r);
}

/* The result that is due: 0 or an errno. */
static int rereg_outcome(const struct region *r, const struct region *next,
			 bool anew)
{
	if (!anew && !r->writable &&
	    next->access & IBV_ACCESS_LOCAL_WRITE)
		return EACCES;
	return r->windows ? EBUSY : 0;
}

/* Changes translation, PD and rights, in any combination. */
void rereg_region(struct worker *w)
{
	struct region *r = some_region(w), next;
	int flags = 1 + below(w, 7), wanted, err;
	bool anew;

	if (!r)
		return;
	next = *r;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		next.access = some_access(w);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		choose_range(w, &next);
		next.hca_va = (uintptr_t)w->arena + next.offset;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		next.home = below(w, 6);
	/* Paged MRs, old or new, are registered anew, whatever else changes. */
	anew = flags & IBV_REREG_MR_CHANGE_TRANSLATION ||
	       (r->access | next.access) & IBV_ACCESS_ON_DEMAND;
	if (anew)
		next.writable = is_writable(next.access);
	wanted = rereg_outcome(r, &next, anew);
	errno = 0;
	err = ibv_rereg_mr(r->mr, flags, pd_of(w, &next),
			   w->arena + next.offset, next.length,
			   flags & IBV_REREG_MR_CHANGE_ACCESS ? next.access : 0);
	if (!err != !wanted || errno != wanted)
		wrong(w, "ibv_rereg_mr, flags %d, %u windows: %d, %s, not %s",
		      flags, r->windows, err, strerror(errno),
		      strerror(wanted));
	if (wanted == EBUSY)
		count(w, BUSY);
	if (wanted)
		return;
	count(w, REREG);
	*r = next;
}

static void transfer(struct worker *w, enum ibv_wr_opcode opcode,
		     uint32_t length, uint64_t remote, uint32_t rkey,
		     enum ibv_wc_status wanted, const char *what)
{
	struct request request = {
		.opcode = opcode, .wr_id = w->steps, .local = w->pair.a.buf,
		.length = length, .lkey = w->pair.a.mr->lkey,
		.remote = remote, .rkey = rkey,
	};

	settle(w, &w->pair.a, post(&w->pair.a, &request), wanted, true, what);
}

/* Unmaps registered memory: the MR keeps its pages until it is deregistered. */
void orphan(struct worker *w)
{
	uint32_t length = 1 + below(w, REACH);
	uint8_t seed = (uint8_t)draw(w), *memory;
	struct ibv_mr *mr;
	uint64_t addr;
	uint32_t key;

	memory = mmap(NULL, REACH, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		wrong(w, "mmap: %s", strerror(errno));
	mr = ibv_reg_mr(w->pair.pd, memory, length, ALL_ACCESS);
	if (!mr)
		wrong(w, "registering %u bytes: %s", length, strerror(errno));
	count(w, ORPHAN);
	key = mr->rkey;
	addr = (uintptr_t)memory;
	munmap(memory, REACH);
	fill(w->pair.a.buf, length, seed);
	transfer(w, IBV_WR_RDMA_WRITE, length, addr, key, IBV_WC_SUCCESS,
		 "writing to unmapped memory");
	fill(w->pair.a.buf, length, (uint8_t)~seed);
	transfer(w, IBV_WR_RDMA_READ, length, addr, key, IBV_WC_SUCCESS,
		 "reading unmapped memory");
	if (!is_filled(w->pair.a.buf, length, seed))
		wrong(w, "unmapped memory holds other data");
	if (ibv_dereg_mr(mr))
		wrong(w, "deregistering unmapped memory");
	bury(w, key);
	if (!below(w, 4))
		transfer(w, IBV_WR_RDMA_READ, length, addr, key,
			 IBV_WC_REM_ACCESS_ERR, "reading it after that");
}

/* On-NIC memory, accessed by RDMA and by the processor. */
void on_nic_memory(struct worker *w)
{
	uint32_t length = 4 + 4 * below(w, REACH / 4 - 1);
	uint32_t from = 4 * below(w, length / 4);
	struct ibv_alloc_dm_attr attr = { .length = length };
	struct ibv_dm *dm = ibv_alloc_dm(w->ctx, &attr);
	struct ibv_mr *mr;

	if (!dm)
		wrong(w, "ibv_alloc_dm: %s", strerror(errno));
	count(w, ON_NIC);
	mr = ibv_reg_dm_mr(w->pair.pd, dm, from, length - from,
			   IBV_ACCESS_ZERO_BASED | ALL_ACCESS);
	if (!mr)
		wrong(w, "ibv_reg_dm_mr: %s", strerror(errno));
	fill(w->pair.a.buf, length - from, (uint8_t)draw(w));
	transfer(w, IBV_WR_RDMA_WRITE, length - from, 0, mr->rkey,
		 IBV_WC_SUCCESS, "writing to on-NIC memory");
	if (ibv_memcpy_from_dm(w->pair.b.buf, dm, from, length - from) ||
	    memcmp(w->pair.a.buf, w->pair.b.buf, length - from))
		wrong(w, "on-NIC memory holds other data");
	if (ibv_free_dm(dm) != EBUSY)
		wrong(w, "on-NIC memory is freed below an MR");
	bury(w, mr->rkey);
	if (ibv_dereg_mr(mr) || ibv_free_dm(dm))
		wrong(w, "on-NIC memory cannot be freed");
}

/* Gets a copy of file descriptor @fd of process @pid. */
static int take_fd(struct worker *w, uint32_t pid, uint32_t fd)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0), taken;

	taken = pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	if (taken < 0)
		wrong(w, "pidfd_getfd: %s", strerror(errno));
	close(pidfd);
	return taken;
}

/* Writes to another process's memory, by its PD and queues of this process. */
static void use_import(struct worker *w, struct ibv_pd *pd, struct ibv_mr *mr,
		       struct exported *ex)
{
	struct pair pair = { .pd = pd };
	uint8_t seed = (uint8_t)draw(w);
	struct outcome got;

	pair_open(&pair, pd->context, &pair_defaults);
	pair_connect(&pair);
	fill(pair.a.buf, EXPORTED, seed);
	count(w, POSTED);
	got = ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, 0, EXPORTED);
	count(w, COMPLETED);
	if (got.posted || got.status ||
	    !is_filled(ex->memory, EXPORTED, seed))
		wrong(w, "writing to imported memory: %s",
		      ibv_wc_status_str(got.status));
	pair_close(&pair);
}

void import(struct worker *w)
{
	struct exported *ex = &w->world->exported[below(w, PROCESSES)];
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	/* Only when that process has set it up, and no other worker uses it. */
	if (!atomic_load(&ex->pid) || atomic_exchange(&ex->in_use, true))
		return;
	count(w, IMPORT);
	ctx = ibv_import_device(take_fd(w, ex->pid, ex->fd));
	pd = ctx ? ibv_import_pd(ctx, ex->pd) : NULL;
	mr = pd ? ibv_import_mr(pd, ex->mr) : NULL;
	if (!mr || mr->rkey != ex->rkey)
		wrong(w, "importing: %s", strerror(errno));
	use_import(w, pd, mr, ex);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	if (ibv_close_device(ctx))
		wrong(w, "closing what was imported");
	atomic_store(&ex->in_use, false);
}
