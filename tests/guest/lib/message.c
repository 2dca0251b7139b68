// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "tap.h"

const uint32_t message_sizes[NUM_MESSAGE_SIZES] = {
	0, 1, 7, 8, 64, 255, 1023, 1024, 1025, 4095, 4096, 4097, 12289, 60000,
};

static uint8_t seed;

/* Fills both buffers anew, each with its own pattern. */
void fill_both(struct pair *pair)
{
	seed += 2;
	fill(pair->a.buf, pair->config.buffer_size, seed);
	fill(pair->b.buf, pair->config.buffer_size, seed + 1);
}

/* Is @side's buffer as fill_both() left it, but for @size bytes from @at? */
bool rest_untouched(const struct pair *pair, const struct side *side, size_t at,
		    size_t size)
{
	uint8_t *copy = malloc(pair->config.buffer_size);
	bool same;

	fill(copy, pair->config.buffer_size, side == &pair->a ? seed : seed + 1);
	memcpy(copy + at, side->buf + at, size);
	same = !memcmp(copy, side->buf, pair->config.buffer_size);
	free(copy);
	return same;
}

/* Did exactly @size bytes go from @from of one buffer to @to of the other? */
bool arrived(const struct pair *pair, const struct side *from_side, size_t from,
	     const struct side *to_side, size_t to, size_t size)
{
	return !memcmp(from_side->buf + from, to_side->buf + to, size) &&
	       rest_untouched(pair, from_side, 0, 0) &&
	       rest_untouched(pair, to_side, to, size);
}

/* A request from @offset of a's buffer to GUARD bytes into b's. */
struct request request_at(const struct pair *pair, enum ibv_wr_opcode opcode,
			  uint32_t offset, uint32_t length)
{
	static uint64_t wr_id = 1000;

	return (struct request){
		.opcode = opcode,
		.wr_id = wr_id++,
		.local = pair->a.buf + offset,
		.length = length,
		.lkey = pair->a.mr->lkey,
		.remote = (uintptr_t)pair->b.buf + GUARD,
		.rkey = pair->b.mr->rkey,
		.imm = htobe32(0x12345678 + length),
	};
}

static bool posted(struct pair *pair, const struct request *request)
{
	int err = post(&pair->a, request);

	if (err)
		tap_is(err, 0, "ibv_post_send");
	return !err;
}

/* Posts the request at a and waits; test points. Is the completion right? */
bool sent(struct pair *pair, const struct request *request,
	  enum ibv_wc_opcode opcode, const char *name)
{
	struct ibv_wc wc;

	if (!posted(pair, request) ||
	    !expect_wc(pair->a.send_cq, request->wr_id, IBV_WC_SUCCESS, &wc,
		       name))
		return false;
	return wc.opcode == opcode && wc.qp_num == pair->a.qp->qp_num &&
	       wc.wc_flags == 0;
}

/*
 * Sends an empty message from a to b. Once it has arrived, earlier messages have
 * arrived or never will, which the sender of an unreliable connection is not told.
 */
bool settle_pair(struct pair *pair)
{
	struct request request = request_at(pair, IBV_WR_SEND, 0, 0);
	struct ibv_wc at_a = {}, at_b = {};

	return !post_receive(&pair->b, request.wr_id, NULL, 0, 0) &&
	       !post(&pair->a, &request) &&
	       wait_wc(pair->a.send_cq, &at_a) && !at_a.status &&
	       at_a.wr_id == request.wr_id &&
	       wait_wc(pair->b.recv_cq, &at_b) && !at_b.status &&
	       at_b.wr_id == request.wr_id && !at_b.byte_len;
}

/* Sends @count messages of one byte from a to b, and polls all completions. */
void exchange(struct pair *pair, int count, unsigned int flags)
{
	struct request request = {
		.opcode = IBV_WR_SEND, .flags = flags, .wr_id = 1,
		.local = pair->a.buf, .length = 1, .lkey = pair->a.mr->lkey,
	};
	struct ibv_wc wc;

	while (count--) {
		post_receive(&pair->b, 2, pair->b.buf, 1, pair->b.mr->lkey);
		if (post(&pair->a, &request) ||
		    !wait_wc(pair->a.send_cq, &wc) || wc.status ||
		    !wait_wc(pair->b.recv_cq, &wc) || wc.status)
			tap_bail("a message did not arrive");
	}
}

/* Checks the receive of a SEND or WRITE with or without immediate. */
static void check_received(struct pair *pair, const struct request *request,
			   const char *name)
{
	bool imm = request->opcode != IBV_WR_SEND;
	bool write = request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct ibv_wc wc;

	if (!expect_wc(pair->b.recv_cq, request->wr_id + 1, IBV_WC_SUCCESS,
		       &wc, name))
		return;
	tap_ok(wc.opcode == (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) &&
	       wc.byte_len == request->length &&
	       wc.qp_num == pair->b.qp->qp_num &&
	       wc.wc_flags == (imm ? IBV_WC_WITH_IMM : 0) &&
	       (!imm || wc.imm_data == request->imm),
	       "%s: completion of the receive, %u bytes", name,
	       request->length);
}

static void test_send(struct pair *pair, enum ibv_wr_opcode opcode,
		      const char *name)
{
	size_t i;

	for (i = 0; i < NUM_MESSAGE_SIZES; i++) {
		struct request request = request_at(pair, opcode, 3, message_sizes[i]);

		fill_both(pair);
		post_receive(&pair->b, request.wr_id + 1, pair->b.buf + GUARD,
			     message_sizes[i] + 5, pair->b.mr->lkey);
		tap_ok(sent(pair, &request, IBV_WC_SEND, name),
		       "%s: completion of the request, %u bytes", name,
		       message_sizes[i]);
		check_received(pair, &request, name);
		tap_ok(arrived(pair, &pair->a, 3, &pair->b, GUARD, message_sizes[i]),
		       "%s: data, %u bytes", name, message_sizes[i]);
	}
}

static void test_write(struct pair *pair)
{
	size_t i;

	for (i = 0; i < NUM_MESSAGE_SIZES; i++) {
		struct request request = request_at(pair, IBV_WR_RDMA_WRITE, 1,
						    message_sizes[i]);

		fill_both(pair);
		tap_ok(sent(pair, &request, IBV_WC_RDMA_WRITE, "write") &&
		       settle_pair(pair),
		       "write: completion, %u bytes", message_sizes[i]);
		tap_ok(arrived(pair, &pair->a, 1, &pair->b, GUARD, message_sizes[i]),
		       "write: data, %u bytes", message_sizes[i]);
	}
}

static void test_write_imm(struct pair *pair)
{
	struct request request = request_at(pair, IBV_WR_RDMA_WRITE_WITH_IMM,
					    1, 5000);

	fill_both(pair);
	post_receive(&pair->b, request.wr_id + 1, NULL, 0, 0);
	tap_ok(sent(pair, &request, IBV_WC_RDMA_WRITE, "write with immediate"),
	       "write with immediate: completion");
	check_received(pair, &request, "write with immediate");
	tap_ok(arrived(pair, &pair->a, 1, &pair->b, GUARD, 5000),
	       "write with immediate: data");
}

/*
 * With inline data, data and SGEs may be changed as soon as ibv_post_send() has
 * returned.
 */
static void test_inline(struct pair *pair, enum ibv_wr_opcode opcode,
			const char *name)
{
	uint32_t size = pair->a.cap.max_inline_data;
	uint8_t *data = malloc(size);
	struct request request = request_at(pair, opcode, 0, size);
	struct ibv_wc wc;

	fill_both(pair);
	fill(data, size, 77);
	request.local = data;
	request.lkey = 0xdead;		/* not used */
	request.flags = IBV_SEND_INLINE;
	post_receive(&pair->b, request.wr_id + 1, pair->b.buf + GUARD, size,
		     pair->b.mr->lkey);
	if (!posted(pair, &request))
		return;
	memset(data, 0, size);
	expect_wc(pair->a.send_cq, request.wr_id, IBV_WC_SUCCESS, &wc, name);
	if (opcode != IBV_WR_RDMA_WRITE)
		check_received(pair, &request, name);
	tap_ok(is_filled(pair->b.buf + GUARD, size, 77) &&
	       rest_untouched(pair, &pair->b, GUARD, size),
	       "%s: data, %u bytes", name, size);
	free(data);
}

/* A message with as many SGEs as the QP allows, of unequal lengths, at both ends. */
static void test_sges(struct pair *pair)
{
	uint32_t count = pair->a.cap.max_send_sge;
	struct ibv_sge from[count], to[count];
	struct ibv_send_wr *bad_send, send = {
		.wr_id = 1, .sg_list = from, .num_sge = count,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_recv_wr *bad_recv, recv = {
		.wr_id = 2, .sg_list = to, .num_sge = count,
	};
	uint8_t *expected = calloc(1, pair->config.buffer_size);
	uint8_t *got = calloc(1, pair->config.buffer_size);
	uint32_t total = 0, left, part, i;
	struct ibv_wc wc;

	fill_both(pair);
	for (i = 0; i < count; i++) {
		uint32_t length = i * 397 % 1500;	/* the first is empty */

		from[i] = (struct ibv_sge){
			.addr = (uintptr_t)pair->a.buf + i * 2000 + i,
			.length = length, .lkey = pair->a.mr->lkey,
		};
		/*
		 * The receiver's SGEs divide it differently, from the end of the
		 * buffer.
		 */
		to[i] = (struct ibv_sge){
			.addr = (uintptr_t)pair->b.buf + (count - 1 - i) * 2000,
			.length = 1490 - i, .lkey = pair->b.mr->lkey,
		};
		memcpy(expected + total, pair->a.buf + i * 2000 + i, length);
		total += length;
	}
	if (ibv_post_recv(pair->b.qp, &recv, &bad_recv) ||
	    ibv_post_send(pair->a.qp, &send, &bad_send))
		tap_bail("cannot post %u SGEs", count);
	expect_wc(pair->a.send_cq, 1, IBV_WC_SUCCESS, &wc, "SGEs: request");
	expect_wc(pair->b.recv_cq, 2, IBV_WC_SUCCESS, &wc, "SGEs: receive");
	tap_is(wc.byte_len, total, "SGEs: length of %u of them", count);
	for (i = 0, left = total; i < count; i++, left -= part) {
		part = left < to[i].length ? left : to[i].length;
		memcpy(got + total - left, (void *)(uintptr_t)to[i].addr, part);
	}
	tap_ok(!memcmp(expected, got, total), "SGEs: data");
	free(expected);
	free(got);
}

/*
 * Posts many requests at once, of which the last is signaled: it completes all before
 * it.
 */
static void test_unsignaled(struct pair *pair)
{
	struct ibv_send_wr wr[8], *bad_wr;
	struct ibv_sge sge[8];
	struct ibv_wc wc;
	int i, round, err = 0;

	fill_both(pair);
	for (round = 0; round < 6 && !err; round++) {
		for (i = 0; i < 8; i++) {
			sge[i] = (struct ibv_sge){
				.addr = (uintptr_t)pair->a.buf + i * 100,
				.length = 100, .lkey = pair->a.mr->lkey,
			};
			wr[i] = (struct ibv_send_wr){
				.wr_id = i, .sg_list = &sge[i], .num_sge = 1,
				.next = i < 7 ? &wr[i + 1] : NULL,
				.opcode = IBV_WR_RDMA_WRITE,
				.send_flags = i < 7 ? 0 : IBV_SEND_SIGNALED,
				.wr.rdma.remote_addr = (uintptr_t)pair->b.buf +
						       GUARD + i * 100,
				.wr.rdma.rkey = pair->b.mr->rkey,
			};
		}
		err = ibv_post_send(pair->a.qp, wr, &bad_wr);
		if (!err && (!wait_wc(pair->a.send_cq, &wc) || wc.status ||
			     wc.wr_id != 7))
			err = -1;
	}
	tap_is(err, 0, "unsignaled requests free their slots");
	tap_is(ibv_poll_cq(pair->a.send_cq, 1, &wc), 0,
	       "unsignaled requests give no completion");
	tap_ok(settle_pair(pair) && arrived(pair, &pair->a, 0, &pair->b, GUARD, 800),
	       "unsignaled requests: data");
}

/* Messages of the kinds that all connected QPs have, at many sizes. */
void test_messages(struct pair *pair)
{
	test_send(pair, IBV_WR_SEND, "send");
	test_send(pair, IBV_WR_SEND_WITH_IMM, "send with immediate");
	test_write(pair);
	test_write_imm(pair);
	test_inline(pair, IBV_WR_SEND, "inline send");
}

/* Inline data, SGEs, and unsignaled batches. */
void test_message_shapes(struct pair *pair)
{
	test_inline(pair, IBV_WR_RDMA_WRITE_WITH_IMM,
		    "inline write with immediate");
	test_sges(pair);
	test_unsignaled(pair);
}
