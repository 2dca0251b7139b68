// SPDX-License-Identifier: GPL-2.0
/* What is refused has a line in the log, with the reason and the rule, though no CQE tells it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lossy.h"
#include "transport/gid.h"
#include "transport/packet.h"
#include "transport/transport.h"

#define LEN	4096u
#define WINDOW	0x80001200u

static int log_fd;

/* As world_start(); from here on, the log is kept. */
static void start(uint8_t type)
{
	char path[32];

	world_start(type);
	log_fd = memfd_create("log", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", log_fd);
	if (log_open(path))
		abort();
}

/* Ends the test: of this rule the log has one line, which says this. */
__attribute__((format(printf, 2, 3)))
static void expect_line(const char *rule, const char *fmt, ...)
{
	static char log[1u << 16];
	char wanted[160], text[128];
	const char *line;
	va_list args;
	ssize_t n;
	int begin;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	begin = snprintf(wanted, sizeof(wanted), "refused: %s: ", rule);
	snprintf(wanted + begin, sizeof(wanted) - begin, "%s\n", text);
	guest_stop(w.g);
	log_flush();
	n = pread(log_fd, log, sizeof(log) - 1, 0);
	log[n < 0 ? 0 : n] = '\0';
	close(log_fd);
	line = strstr(log, wanted);
	wanted[begin] = '\0';
	ok(line && line == strstr(log, wanted) && !strstr(line + 1, wanted), "%s: %s", rule,
	   text);
}

static void test_uc_write(void)
{
	start(MOOR_QP_UC);
	revoke_key(w.g, w.key[1]);
	post(OP_WRITE, 0, 8);
	ring(w.g, &w.qp[0]);
	expect_line("HWI ACC-3", "QP 0x%06x: a request at PSN 0, key 0x%08x: "
		    "no valid entry under this key", w.qp[1].qpn, w.key[1]);
}

static void test_uc_send(void)
{
	struct moor_sge s;

	start(MOOR_QP_UC);
	s = sge(w.buf[1], 1500, w.key[1]);
	post_recv(w.g, &w.qp[1], 1, &s, 1);
	add_sge(next_send(w.g, &w.qp[0], MOOR_WQE_SEND, 1), sge(w.buf[0], 2000, w.key[0]));
	ring(w.g, &w.qp[0]);
	expect_line("HWI RC-8", "QP 0x%06x: a request at PSN 0, key 0x00000000: length",
		    w.qp[1].qpn);
}

/* A requester that was reset repeats the PSN of a READ; the key has gone meanwhile. */
static void test_read_again(void)
{
	struct moor_cmd_modify_qp reset = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};

	start(MOOR_QP_RC);
	post(OP_READ, 0, LEN);
	ring(w.g, &w.qp[0]);
	revoke_key(w.g, w.key[1]);
	modify(w.g, &reset, w.qp[0].qpn);
	w.qp[0].sq_producer = 0;
	connect_qp(w.g, &w.qp[0], w.qp[1].qpn);
	post(OP_READ, 0, LEN);
	ring(w.g, &w.qp[0]);
	expect_line("HWI RC-41", "QP 0x%06x: a READ at PSN 0 once more, key 0x%08x: "
		    "no valid entry under this key", w.qp[1].qpn, w.key[1]);
}

static void test_busy(void)
{
	static const struct moor_mr_context window = { .pd = PD };
	struct moor_wqe_bind bind = {
		.mw_key = WINDOW, .new_key = 1, .access = MOOR_ACCESS_REMOTE_READ,
		.length = 8,
	};

	start(MOOR_QP_RC);
	bind.mr_lkey = make_mr(w.g, PD, RIGHTS | MOOR_ACCESS_MW_BIND, w.buf[0], SIZE);
	bind.addr = w.buf[0];
	put_entry(w.g, WINDOW, &window, MOOR_MRC_TYPE_MW_1);
	memcpy(next_send(w.g, &w.qp[0], MOOR_WQE_BIND_MW, 1) + 1, &bind, sizeof(bind));
	ring(w.g, &w.qp[0]);
	if (revoke_key(w.g, bind.mr_lkey) != 1)
		abort();
	expect_line("HWI REV-2", "revoke of key 0x%08x: a window is bound", bind.mr_lkey);
}

/* The ring of the receiver's CQ has gone. */
static void test_no_cqe(uint8_t type)
{
	const struct datagram d = { .network = MOOR_NETWORK_IPV6 };
	struct stream nothing = { 0 };
	struct packet p = {
		.opcode = (type == MOOR_QP_UD ? PACKET_TRANSPORT_UD : PACKET_TRANSPORT_RC) |
			  PACKET_SEND_ONLY,
		.num_psn = 1, .payload = &nothing, .datagram = &d,
	};
	struct moor_sge s;

	start(type);
	s = sge(w.buf[1], SIZE, w.key[1]);
	post_recv(w.g, &w.qp[1], 1, &s, 1);
	if (dma_map_remove(w.g->dma, w.cq[1].ring, 4096))
		abort();
	p.src_qpn = w.qp[0].qpn;
	p.dest_qpn = w.qp[1].qpn;
	p.sgid = w.g->nic->gids->entry[0].gid;
	p.dgid = p.sgid;
	transport_receive(w.g->nic, &p);
	expect_line("HWI RC-42", "QP 0x%06x receive WQE 0: its CQ takes no CQE", w.qp[1].qpn);
}

int main(void)
{
	test_uc_write();
	test_uc_send();
	test_read_again();
	test_busy();
	test_no_cqe(MOOR_QP_RC);
	test_no_cqe(MOOR_QP_UD);
	return done();
}
