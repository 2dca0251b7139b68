// SPDX-License-Identifier: GPL-2.0
/*
 * Objects of a context that another process has opened. That process sends its
 * file descriptor; this one imports device, PD, MR and on-NIC memory by handle,
 * and uses them with queues of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "window.h"

#define SIZE	8192u

struct handles {
	uint32_t pd, mr, dm;
	uint32_t given;		/* another MR of the same memory, which the importer ends */
	uint32_t rkey;
	uint64_t addr;
};

static void send_fd(int sock, int fd, const struct handles *h)
{
	char control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { (void *)h, sizeof(*h) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	if (sendmsg(sock, &msg, 0) != sizeof(*h))
		_exit(1);
}

static int receive_fd(int sock, struct handles *h)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { h, sizeof(*h) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	if (recvmsg(sock, &msg, 0) != sizeof(*h) || !CMSG_FIRSTHDR(&msg))
		tap_bail("the owner did not get that far");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/*
 * The owner: has an MR of memory shared with the importer, and on-NIC memory.
 */
static void own(int sock, const char *name, uint8_t *shared)
{
	struct ibv_alloc_dm_attr dm_attr = { .length = 4096 };
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(name, &attr);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_mr *mr = ibv_reg_mr(pd, shared, SIZE, ALL_ACCESS);
	struct ibv_mr *given = ibv_reg_mr(pd, shared, SIZE, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_dm *dm = ibv_alloc_dm(ctx, &dm_attr);
	struct handles h;
	char byte;

	if (!mr || !given || !dm || ibv_memcpy_to_dm(dm, 8, "on-NIC memory!!", 16))
		_exit(1);
	h = (struct handles){
		.pd = pd->handle, .mr = mr->handle, .dm = dm->handle,
		.given = given->handle, .rkey = mr->rkey, .addr = (uintptr_t)shared,
	};
	send_fd(sock, ctx->cmd_fd, &h);
	/* Wait until the importer has unimported everything. */
	if (read(sock, &byte, 1) != 1)
		_exit(2);
	if (ibv_dereg_mr(given) != ENOENT)
		_exit(3);
	/* What is gone already leaves the library's own object behind. */
	ibv_unimport_mr(given);
	_exit(ibv_dereg_mr(mr) || ibv_free_dm(dm) || ibv_dealloc_pd(pd) ||
	      ibv_close_device(ctx));
}

/* The other side of the importer's pair accesses the memory by a key. */
static bool traffic(struct pair *pair, uint32_t rkey, uint8_t *shared)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1, .local = pair->a.buf,
		.length = SIZE, .lkey = pair->a.mr->lkey,
		.remote = (uintptr_t)shared, .rkey = rkey,
	};
	struct ibv_wc wc = {};

	fill(pair->a.buf, SIZE, 7);
	memset(shared, 0, SIZE);
	return !post(&pair->a, &request) && wait_wc(pair->a.send_cq, &wc) &&
	       !wc.status && is_filled(shared, SIZE, 7);
}

/*
 * Windows of the importer hold an MR that it imports, as any others do; and whoever comes
 * first deregisters it.
 */
static void test_given(struct pair *pair, uint32_t handle, uint8_t *shared)
{
	struct ibv_mr *mr = ibv_import_mr(pair->pd, handle);
	struct ibv_mw *mw = must_alloc_mw(pair->pd, IBV_MW_TYPE_2);

	if (!mr)
		tap_bail("ibv_import_mr: %s", strerror(errno));
	tap_ok(!mr->addr && mr->length == SIZE && mr->pd == pair->pd && mr->handle == handle,
	       "an imported MR has no address, and the rest");
	must_bind(&apis[0], &pair->b, mw, mr, (uintptr_t)shared, SIZE, IBV_ACCESS_REMOTE_WRITE);
	tap_ok(traffic(pair, mw->rkey, shared), "data through a window of it");
	tap_is(ibv_dereg_mr(mr), EBUSY, "with a window bound the importer cannot end it");
	tap_ok(traffic(pair, mw->rkey, shared), "which leaves it as it was");
	tap_is(ibv_dealloc_mw(mw), 0, "the window goes");
	tap_is(ibv_dereg_mr(mr), 0, "the importer ends it");
}

static void test_dm(struct ibv_context *ctx, struct ibv_pd *pd, uint32_t handle)
{
	struct ibv_dm *dm = ibv_import_dm(ctx, handle);
	char text[16] = "";
	struct ibv_mr *mr;

	tap_ok(dm, "import on-NIC memory");
	if (!dm)
		return;
	tap_ok(!ibv_memcpy_from_dm(text, dm, 8, 16) &&
	       !strcmp(text, "on-NIC memory!!"), "what the owner wrote");
	tap_is(ibv_memcpy_from_dm(text, dm, 4096 - 8, 16), EINVAL,
	       "beyond its end");
	mr = ibv_reg_dm_mr(pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED |
			   IBV_ACCESS_LOCAL_WRITE);
	tap_ok(mr && !ibv_dereg_mr(mr), "an MR over it");
	ibv_unimport_dm(dm);
}

static void import(int fd, const struct handles *h, uint8_t *shared)
{
	struct ibv_context *ctx = ibv_import_device(fd);
	struct pair pair = {};
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	if (!tap_ok(ctx, "import device"))
		tap_bail("ibv_import_device: %s", strerror(errno));
	tap_ok(!ibv_import_pd(ctx, 0x7777) && errno, "no such PD: errno %d",
	       errno);
	tap_ok(!ibv_import_pd(ctx, h->mr), "an MR is no PD");
	tap_ok(!ibv_import_dm(ctx, 0x7777), "no such on-NIC memory");
	pd = ibv_import_pd(ctx, h->pd);
	if (!tap_ok(pd, "import PD"))
		tap_bail("ibv_import_pd: %s", strerror(errno));
	tap_ok(!ibv_import_mr(pd, 0x7777), "no such MR");
	mr = ibv_import_mr(pd, h->mr);
	if (!tap_ok(mr, "import MR"))
		tap_bail("ibv_import_mr: %s", strerror(errno));
	tap_ok(mr->rkey == h->rkey && mr->length == SIZE,
	       "its key and length");

	pair.pd = pd;
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);
	tap_ok(traffic(&pair, mr->rkey, shared), "data through the imported MR");
	tap_ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) ==
	       IBV_REREG_MR_ERR_INPUT, "an imported MR is not re-registered");
	test_given(&pair, h->given, shared);
	pair_close(&pair);
	test_dm(ctx, pd, h->dm);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	tap_is(ibv_close_device(ctx), 0, "close");
}

int main(int argc, char **argv)
{
	uint8_t *shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct handles handles;
	int sock[2], status;
	pid_t pid;

	if (shared == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock))
		tap_bail("cannot set up");
	pid = fork();
	if (!pid)
		own(sock[1], argc > 1 ? argv[1] : NULL, shared);
	close(sock[1]);
	import(receive_fd(sock[0], &handles), &handles, shared);
	if (write(sock[0], "x", 1) != 1 || waitpid(pid, &status, 0) != pid)
		tap_bail("the owner is gone");
	tap_is(status, 0, "the owner still owns it all, and frees it");
	return tap_done();
}
