// SPDX-License-Identifier: GPL-2.0
/*
 * Performs the steps whose events trace.t looks for in the trace, and prints for each
 * the fields that its event must have.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tap.h"
#include "window.h"

#define PAGE	4096u
#define SIZE	(4 * PAGE)
#define FLAGS	(BINDABLE | IBV_ACCESS_REMOTE_READ)
#define ACCESS	0x15		/* the same, as the device has it */

static struct pair pair;

static void say_registered(const char *step, const struct ibv_mr *mr,
			   unsigned int access)
{
	printf("step=%s key=%#x start=%#lx length=%#zx iova=%#lx access=%#x\n",
	       step, mr->lkey, (unsigned long)mr->addr, mr->length,
	       (unsigned long)mr->addr, access);
}

static void say_refused(const char *step, unsigned long value, int error,
			const void *start, size_t length, unsigned int access)
{
	printf("step=%s value=%#lx error=%d start=%#lx length=%#zx access=%#x\n",
	       step, value, error, (unsigned long)start, length, access);
}

static void bind(struct ibv_mw *mw, struct ibv_mr *mr, unsigned int at)
{
	must_bind(&apis[0], &pair.b, mw, mr, (uintptr_t)mr->addr + at, 100 + at,
		  IBV_ACCESS_REMOTE_READ);
	printf("step=window%d rkey=%#x type=%d qpn=%#x pid=%d iova=%#lx length=%#x access=%#x\n",
	       (int)mw->type, mw->rkey, (int)mw->type, pair.b.qp->qp_num,
	       getpid(), (unsigned long)mr->addr + at, 100 + at,
	       IBV_ACCESS_REMOTE_READ);
}

static void refuse(const char *step, void *start, size_t length,
		   unsigned int access, int error, unsigned long value)
{
	if (ibv_reg_mr(pair.pd, start, length, access) || errno != error)
		tap_bail("%s: errno %d", step, errno);
	say_refused(step, value, error, start, length, access);
}

int main(void)
{
	uint8_t *buf = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_device_attr attr;
	struct ibv_mw *mws[2];
	struct ibv_mr *mr;

	pair_open(&pair, open_nic(NULL, &attr), &pair_defaults);
	pair_connect(&pair);
	mr = must_reg(pair.pd, buf, SIZE, FLAGS);
	say_registered("reg", mr, ACCESS);
	mws[0] = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	mws[1] = must_alloc_mw(pair.pd, IBV_MW_TYPE_2);
	bind(mws[0], mr, 0);
	bind(mws[1], mr, 50);
	if (ibv_dereg_mr(mr) != EBUSY)
		tap_bail("not busy");
	printf("step=busy key=%#x\n", mr->lkey);
	if (!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf, PAGE,
			  0) || errno != EBUSY)
		tap_bail("not busy");
	say_refused("windows", 2, EBUSY, buf, PAGE, 0);
	ibv_dealloc_mw(mws[0]);
	ibv_dealloc_mw(mws[1]);
	if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf + PAGE,
			 PAGE, 0))
		tap_bail("ibv_rereg_mr: %s", strerror(errno));
	say_registered("rereg", mr, ACCESS);
	printf("step=dereg key=%#x\n", mr->lkey);
	if (ibv_dereg_mr(mr))
		tap_bail("ibv_dereg_mr");
	munmap(buf + 2 * PAGE, PAGE);
	refuse("page", buf, SIZE, IBV_ACCESS_LOCAL_WRITE, EFAULT,
	       (unsigned long)buf + 2 * PAGE);
	refuse("flags", buf, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB,
	       EOPNOTSUPP, IBV_ACCESS_HUGETLB);
	pair_close(&pair);
	return 0;
}
