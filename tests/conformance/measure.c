// SPDX-License-Identifier: GPL-2.0
/*
 * The NIC alone: the time from a doorbell to the completion, messages and bytes per
 * second. Only the NIC works meanwhile; this program waits by spinning.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "traffic.h"

#define ROUNDS		20000u
#define RATE_NS		1000000000u
#define BIG		(1u << 20)

/* QPs with the shortest queues. */
#define MANY		16000u
#define SPACE		2048u	/* of both queues of a QP */
#define OTHERS		16u	/* room for QPs that have indices already */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void report(const char *what, uint64_t *ns, unsigned int n)
{
	qsort(ns, n, sizeof(*ns), compare);
	printf("%-28s %8.2f us median, %8.2f us 99 %%, %8.2f us least\n", what,
	       (double)ns[n / 2] / 1e3, (double)ns[n - n / 100 - 1] / 1e3,
	       (double)ns[0] / 1e3);
	fflush(stdout);
}

static bool spin_cqe(struct cq *cq)
{
	uint64_t end = now_ns() + DUE_NS;
	struct moor_cqe cqe;
	unsigned int spins = 0;

	while (!poll_cqe(cq, &cqe))
		if (!(++spins & 0xffff) && now_ns() > end)
			return false;
	return !cqe.status;
}

/*
 * Latency of messages on QPs in turn, which share a CQ. Each QP has sent one before: with
 * the very first the host's kernel finds a page for the queue.
 */
static bool latency(const char *what, struct qp *qp, unsigned int num_qp,
		    struct cq *cq, const struct send_wr *wr)
{
	static uint64_t ns[ROUNDS];
	unsigned int i;

	for (i = 0; i < num_qp + ROUNDS; i++) {
		uint64_t started = now_ns();

		post_send(&qp[i % num_qp], *wr);
		if (!spin_cqe(cq))
			return false;
		if (i >= num_qp)
			ns[i - num_qp] = now_ns() - started;
	}
	report(what, ns, ROUNDS);
	return true;
}

/*
 * What a WRITE of @size bytes takes, and what copying them takes alone, between the same
 * buffers. This program copies by memcpy(), on its own processor and in its own caches.
 */
static bool latency_beside_memcpy(const char *size, struct pair *p, struct send_wr wr,
				  uint32_t bytes)
{
	static uint64_t ns[ROUNDS];
	char what[64];
	unsigned int i;

	wr.sge[0].length = bytes;
	snprintf(what, sizeof(what), "WRITE of %s", size);
	if (!latency(what, &p->qp[0], 1, &p->cq[0], &wr))
		return false;
	for (i = 0; i < ROUNDS; i++) {
		uint64_t started = now_ns();

		memcpy(at(p->buf[1]), at(p->buf[0]), bytes);
		ns[i] = now_ns() - started;
	}
	snprintf(what, sizeof(what), "memcpy() of %s", size);
	report(what, ns, ROUNDS);
	return true;
}

static void command_latency(void)
{
	static uint64_t ns[ROUNDS];
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };
		struct moor_cpl cpl;
		uint64_t started = now_ns();

		issue(&cmd, sizeof(cmd));
		if (!watch_until(poll_completion(&cpl)))
			bail_out("no completion of a command");
		ns[i] = now_ns() - started;
	}
	report("command (NOP)", ns, ROUNDS);
	for (i = 0; i < ROUNDS; i++) {
		uint64_t started = now_ns();

		reg_read(MOOR_REG_FENCE);
		ns[i] = now_ns() - started;
	}
	report("read of a register", ns, ROUNDS);
}

/* Makes QPs, connected to themselves. Return: how many the device has room for. */
static unsigned int make_many(struct qp *qp, struct cq *cq)
{
	unsigned int num = MANY, i;
	uint64_t space;

	if (num > (1u << dev.qp_index_bits) - OTHERS)
		num = (1u << dev.qp_index_bits) - OTHERS;
	space = take((uint64_t)num * SPACE);
	for (i = 0; i < num; i++) {
		struct moor_cmd_create_qp cmd;

		qp[i] = (struct qp){
			.qpn = take_qpn(), .sq_slot = take_slot(),
			.rq_slot = take_slot(), .log_depth = 1,
			.log_stride = LOG_STRIDE,
			.sq = space + i * SPACE,
			.rq = space + i * SPACE + SPACE / 2,
		};
		cmd = qp_command_with(&qp[i], cq, cq);
		must(cmd);
		connect_qp(&qp[i], qp[i].qpn);
	}
	return num;
}

/*
 * The cost of resting QPs for a QP that works, and of QPs that have rested. @alone is
 * measured again first, since the host may have moved the two programs by now.
 */
static bool latency_of_many(struct qp *alone, struct cq *cq, const struct send_wr *wr)
{
	static struct qp qp[MANY];
	unsigned int num, some;
	char what[64];

	if (!latency("8 bytes, few QPs", alone, 1, cq, wr))
		return false;
	num = make_many(qp, cq);
	snprintf(what, sizeof(what), "8 bytes, of %u QPs one", num);
	if (!latency(what, qp, 1, cq, wr))
		return false;
	for (some = 16; some < num; some *= 4) {
		snprintf(what, sizeof(what), "8 bytes, %u QPs in turn", some);
		if (!latency(what, qp, some, cq, wr))
			return false;
	}
	snprintf(what, sizeof(what), "8 bytes, %u QPs in turn", num);
	return latency(what, qp, num, cq, wr);
}

/* Posts half a queue at a time, the last WQE with a CQE; two halves are under way. */
static bool rate(const char *what, struct pair *p, struct send_wr wr, uint32_t bytes)
{
	uint64_t started = now_ns(), took;
	unsigned int i, batches = 0;
	double messages;

	do {
		for (i = 0; i < DEPTH / 2; i++) {
			wr.flags = i < DEPTH / 2 - 1 ? UNSIGNALED : 0;
			put_send(&p->qp[0], &wr);
		}
		ring_send(&p->qp[0]);
		if (batches++ && !spin_cqe(&p->cq[0]))
			return false;
	} while (now_ns() - started < RATE_NS);
	if (!spin_cqe(&p->cq[0]))
		return false;
	took = now_ns() - started;
	messages = (double)batches * (DEPTH / 2) * 1e9 / (double)took;
	printf("%-28s %8.0f messages/s, %8.3f GB/s\n", what, messages,
	       messages * bytes / 1e9);
	fflush(stdout);
	return true;
}

bool measure_nic(void)
{
	struct send_wr small = { .opcode = MOOR_WQE_WRITE, .data = "12345678",
			    .data_len = 8 };
	struct send_wr read = { .opcode = MOOR_WQE_READ }, page, big;
	struct pair p;
	bool good;

	host_begin();
	make_pair(&p);
	p.buf[0] = take_filled(BIG, 1);
	p.buf[1] = take_filled(BIG, 2);
	p.key[0] = make_mr(PD, ALL_RIGHTS, p.buf[0], BIG);
	p.key[1] = make_mr(PD, ALL_RIGHTS, p.buf[1], BIG);
	small.remote = p.buf[1];
	small.rkey = p.key[1];
	read = (struct send_wr){ .opcode = MOOR_WQE_READ, .remote = p.buf[1],
			    .rkey = p.key[1], SGE(p.buf[0], 8, p.key[0]) };
	page = (struct send_wr){ .opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
			    .rkey = p.key[1], SGE(p.buf[0], 4096, p.key[0]) };
	big = (struct send_wr){ .opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
			   .rkey = p.key[1], SGE(p.buf[0], BIG, p.key[0]) };

	command_latency();
	good = latency("WRITE of 8 bytes, inline", &p.qp[0], 1, &p.cq[0], &small) &&
	       latency("READ of 8 bytes", &p.qp[0], 1, &p.cq[0], &read) &&
	       latency_beside_memcpy("4 KiB", &p, big, 4096) &&
	       latency_beside_memcpy("64 KiB", &p, big, 64 << 10) &&
	       latency_beside_memcpy("1 MiB", &p, big, BIG) &&
	       rate("WRITE of 8 bytes, inline", &p, small, 8) &&
	       rate("WRITE of 4 KiB", &p, page, 4096) &&
	       rate("WRITE of 1 MiB", &p, big, BIG) &&
	       latency_of_many(&p.qp[0], &p.cq[0], &small);
	if (!good)
		printf("a message has failed, or does not end\n");
	return good;
}
