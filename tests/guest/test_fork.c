// SPDX-License-Identifier: GPL-2.0
/*
 * A process that forks while its memory is pinned. The NIC goes on with the pages of the
 * parent, whatever the child does with its copy; and the child can register memory of its
 * own with the context that it inherits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "window.h"

#define SIZE	65536u
#define HUGE	(2u << 20)

/* What fill() makes of these: memory before the fork; the NIC; the child; the NIC again. */
enum { FIRST = 1, WRITTEN, OF_CHILD, AGAIN };

static struct pair pair;

/* A process that does a step whenever its parent asks for one. */
struct child {
	pid_t pid;
	int ask, said;
};

static bool step(const struct child *child)
{
	char byte;

	return write(child->ask, "", 1) == 1 && read(child->said, &byte, 1) == 1;
}

/* In the child: waits for the parent to ask. */
static void wait_for_parent(const struct child *child)
{
	char byte;

	if (read(child->ask, &byte, 1) != 1)
		_exit(100);
}

static void tell_parent(const struct child *child)
{
	if (write(child->said, "", 1) != 1)
		_exit(101);
}

/* Forks. Returns whether this is the child, whose ends of the pipes @child has then. */
static bool begins(struct child *child)
{
	int ask[2], said[2];

	if (pipe(ask) || pipe(said))
		tap_bail("pipe: %s", strerror(errno));
	child->pid = fork();
	if (child->pid < 0)
		tap_bail("fork: %s", strerror(errno));
	if (!child->pid) {
		close(ask[1]);
		close(said[0]);
		child->ask = ask[0];
		child->said = said[1];
		return true;
	}
	close(ask[0]);
	close(said[1]);
	child->ask = ask[1];
	child->said = said[0];
	return false;
}

/* Returns the child's exit status. */
static int end(struct child *child)
{
	int status;

	close(child->ask);
	close(child->said);
	if (waitpid(child->pid, &status, 0) != child->pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static enum ibv_wc_status nic(enum ibv_wr_opcode opcode, uint32_t rkey, const uint8_t *at)
{
	return ask(&pair, opcode, rkey, (uintptr_t)at, SIZE).status;
}

static bool nic_writes(uint32_t rkey, const uint8_t *at, uint8_t seed)
{
	fill(pair.a.buf, SIZE, seed);
	return nic(IBV_WR_RDMA_WRITE, rkey, at) == IBV_WC_SUCCESS;
}

static bool nic_reads(uint32_t rkey, const uint8_t *at, uint8_t seed)
{
	memset(pair.a.buf, 0, SIZE);
	return nic(IBV_WR_RDMA_READ, rkey, at) == IBV_WC_SUCCESS &&
	       is_filled(pair.a.buf, SIZE, seed);
}

/* The child: has what the parent had at the fork, or still shares it, and changes it. */
static _Noreturn void look_and_change(const struct child *child, uint8_t *at, bool shared)
{
	wait_for_parent(child);
	if (!is_filled(at, SIZE, shared ? WRITTEN : FIRST))
		_exit(1);
	fill(at, SIZE, OF_CHILD);
	tell_parent(child);
	wait_for_parent(child);
	if (!is_filled(at, SIZE, OF_CHILD))
		_exit(2);
	tell_parent(child);
	_exit(0);
}

static void test_memory(const char *name, uint8_t *at, bool shared)
{
	struct child child;
	struct ibv_mr *mr;

	fill(at, SIZE, FIRST);
	mr = must_reg(pair.pd, at, SIZE, ALL_ACCESS);
	if (begins(&child))
		look_and_change(&child, at, shared);
	tap_ok(nic_writes(mr->rkey, at, WRITTEN) && is_filled(at, SIZE, WRITTEN),
	       "%s: the parent has what the NIC writes", name);
	tap_ok(step(&child), "%s: the child changes it", name);
	tap_ok(nic_reads(mr->rkey, at, shared ? OF_CHILD : WRITTEN),
	       "%s: the NIC reads what the %s has", name, shared ? "child" : "parent");
	tap_ok(step(&child), "%s: the child still has what it wrote", name);
	tap_is(end(&child), 0, "%s: all was as the child expected", name);
	tap_ok(nic_writes(mr->rkey, at, AGAIN) && is_filled(at, SIZE, AGAIN),
	       "%s: it goes on when the child is gone", name);
	tap_is(ibv_dereg_mr(mr), 0, "%s: dereg", name);
}

/* The parent writes after the fork, which must not part it from its pages either. */
static void test_parent_writes(uint8_t *at)
{
	struct child child;
	struct ibv_mr *mr;

	fill(at, SIZE, FIRST);
	mr = must_reg(pair.pd, at, SIZE, ALL_ACCESS);
	if (begins(&child)) {
		wait_for_parent(&child);
		_exit(!is_filled(at, SIZE, FIRST));
	}
	fill(at, SIZE, AGAIN);
	tap_ok(nic_reads(mr->rkey, at, AGAIN), "the NIC reads what the parent writes now");
	tap_ok(write(child.ask, "", 1) == 1 && !end(&child), "the child does not see it");
	tap_is(ibv_dereg_mr(mr), 0, "dereg");
}

/* Forks between requests, so that each finds pages that were just copied for a child. */
static void test_many(uint8_t *at)
{
	struct ibv_mr *mr = must_reg(pair.pd, at, SIZE, ALL_ACCESS);
	int i, good = 0;

	for (i = 0; i < 40; i++) {
		struct child child;

		if (begins(&child)) {
			memset(at, 0xee, SIZE);
			wait_for_parent(&child);
			_exit(0);
		}
		good += nic_writes(mr->rkey, at, i) && is_filled(at, SIZE, i) &&
			write(child.ask, "", 1) == 1 && !end(&child);
	}
	tap_is(good, 40, "requests and children in turn");
	tap_is(ibv_dereg_mr(mr), 0, "dereg");
}

/* What a child that registers memory tells its parent. */
struct told {
	uint32_t handle, rkey;
	uint64_t addr;
};

static _Noreturn void register_own(const struct child *child, struct told *told)
{
	uint8_t *own = aligned_alloc(4096, SIZE);
	struct ibv_mr *mr;

	if (!own)
		_exit(1);
	fill(own, SIZE, FIRST);
	mr = ibv_reg_mr(pair.pd, own, SIZE, ALL_ACCESS);
	if (!mr)
		_exit(2);
	*told = (struct told){ mr->handle, mr->rkey, (uintptr_t)own };
	wait_for_parent(child);
	tell_parent(child);
	wait_for_parent(child);
	if (!is_filled(own, SIZE, WRITTEN))
		_exit(3);
	tell_parent(child);
	_exit(0);
}

/*
 * An MR is an object of the context, which ends with the last process that has it open; so
 * the child's MR outlives the child, with its pages, until somebody deregisters it.
 */
static void test_child_registers(void)
{
	struct told *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct child child;
	struct ibv_mr *mr;
	const uint8_t *at;

	if (told == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	if (begins(&child))
		register_own(&child, told);
	tap_ok(step(&child), "a child registers memory with the context that it inherits");
	at = (const uint8_t *)(uintptr_t)told->addr;
	tap_ok(nic_reads(told->rkey, at, FIRST), "the NIC reads the child's memory");
	tap_ok(nic_writes(told->rkey, at, WRITTEN) && step(&child), "and writes it");
	tap_is(end(&child), 0, "the child has what the NIC wrote");
	tap_ok(nic_reads(told->rkey, at, WRITTEN), "the MR is there when the child is gone");
	mr = ibv_import_mr(pair.pd, told->handle);
	tap_ok(mr && mr->rkey == told->rkey && mr->length == SIZE && !mr->addr,
	       "the parent imports it");
	tap_is(mr ? ibv_dereg_mr(mr) : -1, 0, "and deregisters it");
	tap_is(nic(IBV_WR_RDMA_READ, told->rkey, at), IBV_WC_REM_ACCESS_ERR,
	       "the key is dead");
	expect_event(pair.ctx, IBV_EVENT_QP_ACCESS_ERR, pair.b.qp, "event at the responder");
	revive(&pair);
	munmap(told, sizeof(*told));
}

/* Memory is registered already. A library that could not ask the kernel says EINVAL then. */
static void test_library(void)
{
	if (ibv_is_fork_initialized() == IBV_FORK_UNNEEDED)
		tap_is(ibv_fork_init(), 0, "late ibv_fork_init(): the kernel copies pinned pages");
	else
		tap_skip("this libibverbs is built without netlink, and cannot ask the kernel",
			 "ibv_fork_init()");
}

static uint8_t *map(size_t size, int flags)
{
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return at;
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	uint8_t *private = map(SIZE, MAP_PRIVATE), *shared = map(SIZE, MAP_SHARED);
	uint8_t *huge = map(2 * HUGE, MAP_PRIVATE);
	struct ibv_device_attr attr;

	config.buffer_size = SIZE;
	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr), &config);
	pair_connect(&pair);
	test_library();
	test_memory("private", private, false);
	test_memory("shared", shared, true);
	madvise(huge, 2 * HUGE, MADV_HUGEPAGE);
	test_memory("in a huge page", huge + -(uintptr_t)huge % HUGE, false);
	test_parent_writes(private);
	test_many(private);
	test_child_registers();
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
