// SPDX-License-Identifier: GPL-2.0
/*
 * What comes to a responder again, after a wait for a page: of runs of packets it takes
 * those that it has not had (HWI RC-43, ODP-15), and a message that begins anew keeps to
 * the registrations that it met first (HWI ACC-15, RC-45).
 */
#include <string.h>

#include "paged.h"
#include "transport/transport.h"

#define WRITE		MOOR_PAGE_REQUEST_WRITE
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define RUN		(256u << 10)	/* bytes that loopback carries at once */

static struct paged p;

/* The first byte of a page, in an MR. */
static uint32_t byte_of(uint32_t page)
{
	return page * 4096 - PAGED_OFFSET;
}

static bool takes_receive(uint8_t opcode)
{
	return opcode == MOOR_WQE_SEND || opcode == MOOR_WQE_WRITE_IMM;
}

/* ---- runs of which the responder has a part ---- */

/*
 * The READ is answered in four runs. Of these the last is still to come when the message
 * behind the READ has waited and goes on, from and to here.
 */
#define READ_LEN	(3 * RUN + 16384)
#define MESSAGE_PAGE	204u
#define NUM_PAGES	(PAGED_PAGES - MESSAGE_PAGE)
#define FIRST_SGE	700u	/* bytes, less than a packet */

static const char *name_of(uint8_t opcode)
{
	return opcode == MOOR_WQE_SEND ? "SEND" :
	       opcode == MOOR_WQE_WRITE ? "WRITE" : "WRITE_IMM";
}

/* All pages are present, but the first of the message, at its responder. */
static void begin_behind_a_read(uint8_t opcode, bool strict, uint32_t len)
{
	uint32_t at = byte_of(MESSAGE_PAGE);
	struct moor_sq_wqe *wqe;

	paged_start(&p, strict, MOOR_QP_RC);
	paged_in(&p, 0, 0, PAGED_PAGES, true);
	paged_in(&p, 1, 0, PAGED_PAGES, true);
	paged_out(&p, 1, MESSAGE_PAGE, 1);
	paged_recv(&p, 3, at, len);
	paged_post(&p, MOOR_WQE_READ, 1, 0, 0, READ_LEN);
	wqe = paged_post(&p, opcode, 2, at, at, FIRST_SGE);
	add_sge(wqe, paged_sge(&p, 0, at + FIRST_SGE, 0));
	add_sge(wqe, paged_sge(&p, 0, at + FIRST_SGE, len - FIRST_SGE));
}

/* The first page of the message comes: its first packet is on its own (HWI ODP-17). */
static bool let_message_go(void)
{
	paged_in(&p, 1, MESSAGE_PAGE, 1, true);
	return paged_let_go(&p, 1, byte_of(MESSAGE_PAGE), 1, WRITE | RESPONDER,
			    MOOR_PAGE_RESOLVED);
}

static bool all_arrived(uint8_t opcode, uint32_t len)
{
	uint32_t at = byte_of(MESSAGE_PAGE);

	return paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) &&
	       paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
	       (!takes_receive(opcode) ||
		paged_got(&p, 1, MOOR_WC_SUCCESS, 3, 0)) &&
	       paged_quiet(&p, 0) && paged_quiet(&p, 1) &&
	       paged_same(&p, 0, 0, READ_LEN) && paged_same(&p, at, at, len);
}

/*
 * The requester lacks a page of the message behind its first packet, and has to drop the
 * rest of the READ's answer meanwhile: it goes back, and sends the message in runs from
 * its start. Of the first run the responder has a packet.
 */
static void test_first_run(uint8_t opcode, bool strict, uint32_t len)
{
	bool good;

	begin_behind_a_read(opcode, strict, len);
	paged_out(&p, 0, MESSAGE_PAGE + 1, 1);
	ring(p.g, &p.qp[0]);
	good = let_message_go() && paged_quiet(&p, 0);
	paged_in(&p, 0, MESSAGE_PAGE + 1, 1, true);
	good = good && paged_let_go(&p, 0, byte_of(MESSAGE_PAGE + 1), 0, 0,
				    MOOR_PAGE_RESOLVED);
	ok(good && all_arrived(opcode, len),
	   "%s of %u bytes: the first run, less a packet", name_of(opcode), len);
	paged_stop(&p);
}

/*
 * The requester lacks a page of the READ's answer, whose rest comes when a packet and a
 * run of the message have: the second run begins a packet too early.
 */
static void test_later_run(uint8_t opcode, bool strict, uint32_t len)
{
	uint32_t page = READ_LEN / 4096;
	bool good;

	begin_behind_a_read(opcode, strict, len);
	paged_out(&p, 0, page, 1);
	ring(p.g, &p.qp[0]);
	good = let_message_go() && paged_quiet(&p, 0);
	paged_in(&p, 0, page, 1, true);
	good = good && paged_let_go(&p, 0, byte_of(page), 0, WRITE,
				    MOOR_PAGE_RESOLVED);
	ok(good && all_arrived(opcode, len),
	   "%s of %u bytes: a later run, less a packet", name_of(opcode), len);
	paged_stop(&p);
}

/* Whatever is cut, its rest is the same message's, and ends it if the whole did. */
static void test_forms(void)
{
	unsigned int opcode;

	for (opcode = 0; opcode < NUM_PACKET_OPCODES; opcode++) {
		uint8_t bytes[100] = { 0 };
		struct stream payload = { .bytes = bytes };
		struct packet packet = {
			.opcode = PACKET_TRANSPORT_XRC | opcode,
			.psn = PSN_MASK, .num_psn = 4, .payload = &payload,
			.length = 100,
		};
		const struct packet_form was = packet_forms[opcode], *is;

		if (was.kind != PACKET_KIND_SEND && was.kind != PACKET_KIND_WRITE)
			continue;
		packet_cut_front(&packet, 3, 90);
		is = packet_form(&packet);
		ok(is->kind == was.kind && !is->first && is->last == was.last &&
		   is->headers == (was.headers & ~PACKET_HAS_RETH) &&
		   (packet.opcode & PACKET_TRANSPORT) == PACKET_TRANSPORT_XRC &&
		   packet.psn == 2 && packet.num_psn == 1 &&
		   packet.length == 10 && payload.offset == 90,
		   "the rest of a run of opcode 0x%02x", opcode);
	}
}

static struct moor_cpl_query_qp responder(void)
{
	struct moor_cmd_query_qp cmd = {
		.hdr.opcode = MOOR_CMD_QUERY_QP, .qpn = p.qp[1].qpn,
	};
	struct moor_cpl_query_qp out = { 0 };

	if (!command(p.g, &cmd, sizeof(cmd)))
		memcpy(&out, p.g->cpl.out, sizeof(out));
	return out;
}

/* The responder receives a run. Return: how far it has got by that. */
static uint32_t receive(uint8_t opcode, uint32_t psn, uint32_t num_psn,
			uint32_t len)
{
	static uint8_t bytes[8192];
	const uint8_t *gid = p.g->nic->gids->entry[0].gid;
	struct stream payload = { .bytes = bytes };
	struct packet run = {
		.opcode = PACKET_TRANSPORT_RC | opcode, .psn = psn,
		.num_psn = num_psn, .payload = &payload, .length = len,
		.src_qpn = p.qp[0].qpn, .dest_qpn = p.qp[1].qpn,
		.sgid = gid, .dgid = gid,
	};
	uint32_t before = responder().rq_psn;

	transport_receive(p.g->nic, &run);
	return (responder().rq_psn - before) & PSN_MASK;
}

/*
 * A run that begins before the PSN expected and ends behind it goes on with the message
 * under way. If it is of another kind, or not so long as by this MTU, it is a repetition.
 */
static void test_strange_runs(void)
{
	uint32_t psn;

	paged_start(&p, false, MOOR_QP_RC);
	paged_in(&p, 1, 0, PAGED_PAGES, true);
	paged_recv(&p, 1, 0, 65536);
	psn = responder().rq_psn;
	ok(receive(PACKET_SEND_FIRST, psn, 2, 2048) == 2, "a SEND begins");
	ok(!receive(PACKET_SEND_MIDDLE, psn + 1, 8, 2048) &&
	   !receive(PACKET_SEND_ONLY, psn + 1, 4000, 100) &&
	   !receive(PACKET_SEND_FIRST, psn - 4000, 8000, 8192) &&
	   !receive(PACKET_WRITE_MIDDLE, psn, 4, 4096) &&
	   !receive(PACKET_SEND_MIDDLE, psn, 2, 2048) &&
	   !receive(PACKET_SEND_MIDDLE, psn, 1, 1024),
	   "what does not go on with it does nothing");
	ok(receive(PACKET_SEND_FIRST, psn, 4, 4096) == 2 &&
	   receive(PACKET_SEND_LAST, psn + 3, 2, 1025) == 1 &&
	   paged_got(&p, 1, MOOR_WC_SUCCESS, 1, 0), "what does ends it");
	ok(!receive(PACKET_SEND_LAST, psn + 3, 3, 2049) &&
	   responder().state == MOOR_QPS_RTS, "no SEND is under way any more");
	paged_stop(&p);
}

/* As test_first_run(), with a responder of whose message two pages are present at most. */
static void test_short_of_memory(bool strict)
{
	uint32_t at = byte_of(MESSAGE_PAGE), len = 50000, page, last = MESSAGE_PAGE;
	struct moor_page_request r;
	unsigned int n = 0;
	bool good;

	begin_behind_a_read(MOOR_WQE_WRITE, strict, len);
	paged_out(&p, 0, MESSAGE_PAGE + 1, 1);
	paged_out(&p, 1, MESSAGE_PAGE + 2, NUM_PAGES - 2);
	ring(p.g, &p.qp[0]);
	good = let_message_go();
	paged_in(&p, 0, MESSAGE_PAGE + 1, 1, true);
	good = good && paged_let_go(&p, 0, byte_of(MESSAGE_PAGE + 1), 0, 0,
				    MOOR_PAGE_RESOLVED);
	while (good && n++ < 100 && paged_request(&p, &r)) {
		page = (uint32_t)(r.addr - paged_addr(1, 0) + PAGED_OFFSET) / 4096;
		paged_out(&p, 1, MESSAGE_PAGE, NUM_PAGES);
		good = !paged_invalidate(&p, 1, paged_addr(1, at), len);
		paged_in(&p, 1, last, 1, true);
		paged_in(&p, 1, page, 1, true);
		last = page;
		good = good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
		settle_timers(p.g, 100);
	}
	ok(good && n > 12 && n < 100 && all_arrived(MOOR_WQE_WRITE, len),
	   "two pages at a time are enough, %u requests", n);
	paged_stop(&p);
}

static void test_runs(bool strict)
{
	static const uint8_t opcodes[] = {
		MOOR_WQE_SEND, MOOR_WQE_WRITE, MOOR_WQE_WRITE_IMM,
	};
	unsigned int i;

	for (i = 0; i < sizeof(opcodes); i++) {
		test_first_run(opcodes[i], strict, 5000);
		test_first_run(opcodes[i], strict, RUN);
		test_first_run(opcodes[i], strict, 2 * RUN);
		test_later_run(opcodes[i], strict, 2 * RUN);
		test_later_run(opcodes[i], strict, NUM_PAGES * 4096);
	}
}

/* ---- registrations ---- */

/* The MR of the responder is registered anew, over the very same memory. */
static void register_anew(void)
{
	struct moor_mr_context entry;

	memcpy(&entry, (struct moor_mr_context *)p.g->mr_bar + (p.m[1].key >> 16),
	       sizeof(entry));
	revoke_key(p.g, p.m[1].key);
	put_entry(p.g, p.m[1].key, &entry, MOOR_MRC_TYPE_MR);
}

/* The message meets KEY at the responder, which its transport tells as it does. */
static bool is_refused(uint8_t opcode, uint8_t type)
{
	bool sends = opcode == MOOR_WQE_SEND;
	uint8_t status = type == MOOR_QP_UC ? MOOR_WC_SUCCESS :
			 sends ? MOOR_WC_REM_OP_ERR : MOOR_WC_REM_ACCESS_ERR;

	return (!sends || paged_got(&p, 1, MOOR_WC_LOC_PROT_ERR, 1,
				    MOOR_SYN_KEY)) &&
	       paged_got(&p, 0, status, 2, 0) && paged_quiet(&p, 1);
}

/*
 * Of a message's first unit a page is there and the next is absent, on @absent's side: a
 * part has been written when the responder's memory is registered anew.
 */
static void test_registered_anew(uint8_t opcode, uint8_t type, int absent,
				 bool strict)
{
	uint32_t len = 8192, at = 5000, first = byte_of(2) - at;
	uint8_t flags = absent ? WRITE | RESPONDER : 0;
	bool good;

	paged_start(&p, strict, type);
	paged_in(&p, !absent, 0, PAGED_PAGES, true);
	paged_in(&p, absent, 0, 2, true);
	if (takes_receive(opcode))
		paged_recv(&p, 1, at, len);
	paged_post(&p, opcode, 2, at, at, len);
	ring(p.g, &p.qp[0]);
	good = paged_same(&p, at, at, first);
	register_anew();
	paged_in(&p, absent, 2, 2, true);
	good = good && paged_let_go(&p, absent, byte_of(2), absent, flags,
				    MOOR_PAGE_RESOLVED);
	ok(good && is_refused(opcode, type) &&
	   !paged_same(&p, at + first, at + first, len - first),
	   "%s %s never meets two registrations, side %d waits",
	   type == MOOR_QP_UC ? "UC:" : "RC:", name_of(opcode), absent);
	paged_stop(&p);
}

/* The requester begins with the same PSN as at first. */
static void begin_from_reset(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};

	modify(p.g, &cmd, p.qp[0].qpn);
	p.qp[0].sq_producer = 0;
	p.qp[0].rq_producer = 0;
	connect_qp(p.g, &p.qp[0], p.qp[1].qpn);
}

/*
 * A message waits half-way for the requester's page, and the requester is reset. What has
 * that PSN next is another message, as it names another range: it may meet what it likes.
 */
static void test_another(uint8_t type, bool strict)
{
	uint32_t len = 8192, at = 5000;
	struct moor_page_request request;
	bool good;

	paged_start(&p, strict, type);
	paged_in(&p, 1, 0, PAGED_PAGES, true);
	paged_in(&p, 0, 0, 2, true);
	paged_post(&p, MOOR_WQE_WRITE, 1, at, at, len);
	ring(p.g, &p.qp[0]);
	good = paged_request(&p, &request);
	begin_from_reset();
	register_anew();
	paged_in(&p, 0, 2, 2, true);
	paged_post(&p, MOOR_WQE_WRITE, 2, at, at + 1, len);
	ring(p.g, &p.qp[0]);
	settle_timers(p.g, 100);
	ok(good && paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
	   paged_same(&p, at, at + 1, len),
	   "%s: another WRITE of the same PSN", type == MOOR_QP_UC ? "UC" : "RC");
	paged_stop(&p);
}

int main(void)
{
	unsigned int strict, absent;

	test_forms();
	test_strange_runs();
	for (strict = 0; strict < 2; strict++) {
		test_runs(strict);
		test_short_of_memory(strict);
		for (absent = 0; absent < 2; absent++) {
			test_registered_anew(MOOR_WQE_SEND, MOOR_QP_RC,
					     (int)absent, strict);
			test_registered_anew(MOOR_WQE_WRITE, MOOR_QP_RC,
					     (int)absent, strict);
		}
		test_registered_anew(MOOR_WQE_SEND, MOOR_QP_UC, 0, strict);
		test_registered_anew(MOOR_WQE_WRITE, MOOR_QP_UC, 0, strict);
		test_another(MOOR_QP_RC, strict);
		test_another(MOOR_QP_UC, strict);
	}
	return done();
}
