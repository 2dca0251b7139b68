// SPDX-License-Identifier: GPL-2.0
/*
 * A NIC that lies: in every field of every answer and event, with the values at
 * the ends of ranges and with random ones. Whatever the NIC says, the driver touches
 * nothing that does not exist, nothing waits for ever, and a NIC that contradicts
 * itself is stopped.
 */

#include <linux/prandom.h>
#include <linux/workqueue.h>

#include "process.h"

#define LIVES		150	/* of random answers */
#define RUBBISH		3000	/* random events */

/* A field of the answer to a command, and its false value. */
struct lie {
	u8 opcode;
	u32 offset;		/* in the completion */
	u32 size;
	u64 value;
};

static void tell_lie(struct fake_nic *nic, const struct moor_cmd *cmd,
		     struct moor_cpl *answer)
{
	const struct lie *lie = nic->behave.lie_arg;

	if (cmd->hdr.opcode == lie->opcode)
		memcpy((u8 *)answer + lie->offset, &lie->value, lie->size);
}

static void list_windows(struct moor_process *process, u32 mr)
{
	moor_call_begin(process, UVERBS_OBJECT_MR, MOOR_METHOD_MR_WINDOWS);
	moor_call_handle(process, MOOR_ATTR_MR_WINDOWS_HANDLE, mr);
	moor_call_room(process, MOOR_ATTR_MR_WINDOWS_LIST, NULL,
		       3 * sizeof(struct moor_window));
	moor_call_room(process, MOOR_ATTR_MR_WINDOWS_COUNT, NULL, sizeof(u32));
	moor_call_run(process);
}

static void use_qp(struct moor_process *process, u32 qp)
{
	struct ib_uverbs_modify_qp modify = {
		.qp_handle = qp,
		.attr_mask = IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			     IB_QP_ACCESS_FLAGS,
		.qp_state = IB_QPS_INIT,
		.port_num = MOOR_PORT,
	};
	struct ib_uverbs_query_qp query = { .qp_handle = qp, .attr_mask = IB_QP_STATE };
	struct ib_uverbs_query_qp_resp resp;
	struct moor_verb verbs[] = {
		{ IB_USER_VERBS_CMD_MODIFY_QP, VERB_IN(modify) },
		{ IB_USER_VERBS_CMD_QUERY_QP, VERB_IN(query), VERB_OUT(resp) },
		/* Depends on the state that the device has given. */
		{ IB_USER_VERBS_CMD_MODIFY_QP, VERB_IN(modify) },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		moor_process_write(process, &verbs[i]);
}

/*
 * A process that does a bit of everything. Once it has its queues, the NIC's answers
 * go through @lie, and no call need succeed. Then the device works, or is stopped.
 */
static void live(struct kunit *test, void (*lie)(struct fake_nic *nic,
						 const struct moor_cmd *cmd,
						 struct moor_cpl *answer),
		 void *lie_arg)
{
	struct moor_process *process = moor_process_open(test);
	unsigned long addr = moor_kunit_mmap(test, 2 * PAGE_SIZE, true);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_alloc_ucontext_resp resp;
	struct moor_dev *mdev = test->priv;
	struct moor_create_cq_resp cq;
	struct moor_create_qp_resp hw;
	struct ib_uverbs_reg_mr_resp mr[2] = {};
	struct ib_uverbs_alloc_mw_resp mw;
	u32 pd, qp, i;

	mdev->cmdq.timeout_ms = 500;
	KUNIT_ASSERT_EQ(test, moor_process_context(process, &resp), 0);
	pd = moor_process_pd(process);
	qp = moor_process_qp(process, pd, moor_process_cq(process, &cq), &hw);
	nic->behave.lie_arg = lie_arg;
	WRITE_ONCE(nic->behave.lie, lie);
	for (i = 0; i < ARRAY_SIZE(mr); i++)
		moor_process_reg(process, pd, addr + i * PAGE_SIZE, PAGE_SIZE,
				 ALL_RIGHTS, &mr[i]);
	moor_process_window(process, pd, &mw);
	use_qp(process, qp);
	list_windows(process, mr[0].mr_handle);
	moor_process_dereg(process, mr[1].mr_handle);
	moor_process_close(process);
	WRITE_ONCE(nic->behave.lie, NULL);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	if (!moor_is_dead(mdev))
		moor_region_free(test, moor_region_new(test, ALL_RIGHTS));
}

static bool live_with(struct kunit *test, const struct lie *lie)
{
	bool stopped;

	live(test, tell_lie, (void *)lie);
	stopped = moor_is_dead(test->priv);
	if (stopped)
		moor_kunit_replug(test, 0);
	return stopped;
}

struct answer {
	const char *name;
	u8 opcode;
	u32 offset;
	u32 size;
	u64 most;		/* values from 0 to this are believed */
};

#define HEAD(op, field, most) {						\
	#op " " #field, MOOR_CMD_##op, offsetof(struct moor_cpl, field),	\
	sizeof_field(struct moor_cpl, field), most			\
}

#define OUT(op, type, field, most) {					\
	#op " " #field, MOOR_CMD_##op,					\
	offsetof(struct moor_cpl, out) + offsetof(struct type, field),	\
	sizeof_field(struct type, field), most				\
}

static const struct answer answers[] = {
	OUT(QUERY_QP, moor_cpl_query_qp, state, MOOR_QPS_ERR),
	OUT(QUERY_QP, moor_cpl_query_qp, sq_draining, ~0ULL),
	OUT(QUERY_QP, moor_cpl_query_qp, sq_psn, ~0ULL),
	OUT(QUERY_QP, moor_cpl_query_qp, rq_psn, ~0ULL),
	HEAD(QUERY_QP, status, ~0ULL),
	HEAD(QUERY_QP, detail, ~0ULL),
	HEAD(QUERY_QP, tag, 0),
	HEAD(MODIFY_QP, status, ~0ULL),
	HEAD(MODIFY_QP, tag, 0),
	HEAD(DESTROY_QP, status, 0),
	HEAD(DESTROY_CQ, status, 0),
	OUT(MR_REVOKE, moor_cpl_mr_revoke, busy, 0),
	OUT(MR_REVOKE, moor_cpl_mr_revoke, unknown, 0),
	HEAD(MR_REVOKE, status, 0),
	HEAD(MR_REVOKE, tag, 0),
	OUT(MR_WINDOWS, moor_cpl_mr_windows, count, MOOR_WINDOWS_PER_PAGE),
	OUT(MR_WINDOWS, moor_cpl_mr_windows, cursor, ~0ULL),
	HEAD(MR_WINDOWS, status, ~0ULL),
};

static void answer_desc(const struct answer *answer, char *desc)
{
	strscpy(desc, answer->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(answer, answers, answer_desc);

/* Each field at the ends of its range and of the type's, and bit by bit. */
static void hostile_answer(struct kunit *test)
{
	const struct answer *answer = test->param_value;
	u64 all = answer->size < 8 ? BIT_ULL(answer->size * 8) - 1 : ~0ULL;
	u64 values[] = {
		0, 1, answer->most, answer->most + 1, all >> 1, all - 1, all,
		0x5a5a5a5a5a5a5a5aULL & all, BIT_ULL(answer->size * 8 - 1),
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		const struct lie lie = {
			answer->opcode, answer->offset, answer->size, values[i] & all,
		};
		bool stopped = live_with(test, &lie);

		/* A wrong tag may happen to be right. */
		if (answer->offset != offsetof(struct moor_cpl, tag))
			KUNIT_EXPECT_EQ_MSG(test, stopped, lie.value > answer->most,
					    "value %#llx", lie.value);
	}
}

struct liar {
	struct rnd_state rnd;
	u32 per_cent;
};

static void tell_anything(struct fake_nic *nic, const struct moor_cmd *cmd,
			  struct moor_cpl *answer)
{
	struct liar *liar = nic->behave.lie_arg;
	u8 *bytes = (u8 *)answer;
	u32 count;

	if (prandom_u32_state(&liar->rnd) % 100 >= liar->per_cent)
		return;
	for (count = 1 + prandom_u32_state(&liar->rnd) % 8; count; count--)
		bytes[prandom_u32_state(&liar->rnd) %
		      offsetof(struct moor_cpl, phase)] =
			prandom_u32_state(&liar->rnd);
}

static void hostile_answers_random(struct kunit *test)
{
	struct liar liar;
	u32 seed, died = 0;

	for (seed = 0; seed < LIVES; seed++) {
		prandom_seed_state(&liar.rnd, seed);
		liar.per_cent = 5 + seed % 60;
		live(test, tell_anything, &liar);
		if (moor_is_dead(test->priv)) {
			moor_kunit_replug(test, 0);
			died++;
		}
	}
	kunit_info(test, "stopped in %u of %u lives\n", died, LIVES);
	KUNIT_EXPECT_GT(test, died, 0);
}

/* Numbers of events that reached a handler. */
struct heard {
	u32 completions;
	u32 qp_events;
	u32 cq_events;
};

static void hear_completion(struct ib_cq *cq, void *context)
{
	((struct heard *)context)->completions++;
}

static void hear_cq(struct ib_event *event, void *context)
{
	((struct heard *)context)->cq_events++;
}

static void hear_qp(struct ib_event *event, void *context)
{
	((struct heard *)context)->qp_events++;
}

/* Sets handlers. Events of a queue pair that never left RESET are dropped. */
static void listen(struct kunit *test, struct moor_pair *pair, struct heard *heard)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1 };

	KUNIT_ASSERT_EQ(test, moor_modify_qp(&pair->qp->ibqp, &attr,
					     IB_QP_STATE | IB_QP_PKEY_INDEX |
					     IB_QP_PORT | IB_QP_ACCESS_FLAGS,
					     NULL), 0);
	pair->cq->ibcq.comp_handler = hear_completion;
	pair->cq->ibcq.event_handler = hear_cq;
	pair->cq->ibcq.cq_context = heard;
	pair->qp->ibqp.event_handler = hear_qp;
	pair->qp->ibqp.qp_context = heard;
}

static u64 eq_consumer(u32 eqn)
{
	struct fake_nic *nic = moor_kunit_nic();

	return READ_ONCE(nic->slots[MOOR_DB_SLOT_EQ_CONSUMER + eqn]);
}

static void send_event(struct kunit *test, u32 eqn, u8 type, u32 number)
{
	u64 before = eq_consumer(eqn);

	fake_nic_event(moor_kunit_nic(), eqn, type, number);
	moor_kunit_wait(test, eq_consumer(eqn) != before);
}

/* An event queue has its own types of events: others are dropped. */
static void hostile_event_queue(struct kunit *test)
{
	struct heard heard = {};
	struct moor_pair pair;
	u32 type;

	moor_pair_open(test, &pair);
	listen(test, &pair, &heard);
	for (type = 0; type <= U8_MAX; type++) {
		if (type == MOOR_EVENT_COMPLETION)
			continue;
		send_event(test, MOOR_EQ_COMPLETION, type, pair.qp->qpn);
		send_event(test, MOOR_EQ_COMPLETION, type, pair.cq->cqn);
	}
	send_event(test, MOOR_EQ_ASYNC, MOOR_EVENT_COMPLETION, pair.cq->cqn);
	send_event(test, MOOR_EQ_ASYNC, MOOR_EVENT_PAGE_REQUEST, pair.cq->cqn);
	KUNIT_EXPECT_EQ(test, heard.completions, 0);
	KUNIT_EXPECT_EQ(test, heard.qp_events, 0);
	KUNIT_EXPECT_EQ(test, heard.cq_events, 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(test->priv));
	send_event(test, MOOR_EQ_COMPLETION, MOOR_EVENT_COMPLETION, pair.cq->cqn);
	send_event(test, MOOR_EQ_ASYNC, MOOR_EVENT_QP_FATAL, pair.qp->qpn);
	send_event(test, MOOR_EQ_ASYNC, MOOR_EVENT_CQ_ERROR, pair.cq->cqn);
	KUNIT_EXPECT_EQ(test, heard.completions, 1);
	KUNIT_EXPECT_EQ(test, heard.qp_events, 1);
	KUNIT_EXPECT_EQ(test, heard.cq_events, 1);
	moor_pair_close(test, &pair);
}

static u32 random_number(struct rnd_state *rnd, const struct moor_pair *pair)
{
	u32 random = prandom_u32_state(rnd);

	switch (random % 6) {
	case 0: return pair->cq->cqn;
	case 1: return pair->qp->qpn;
	case 2: return pair->qp->qpn ^ BIT(random >> 27);
	case 3: return ~0U;
	case 4: return random % 512;
	default: return random;
	}
}

/* Random events, also of queues and QPs that are destroyed on the way. */
static void hostile_events_random(struct kunit *test)
{
	struct heard heard = {};
	struct rnd_state rnd;
	struct moor_pair pair;
	u32 i;

	prandom_seed_state(&rnd, 1);
	for (i = 0; i < RUBBISH; i++) {
		u32 type = prandom_u32_state(&rnd);

		if (i % 500 == 0) {
			moor_pair_open(test, &pair);
			listen(test, &pair, &heard);
		}
		type = type & 0x100 ? type & 0xff : type % 9;
		if (type == MOOR_EVENT_DEVICE_FATAL)
			continue;
		send_event(test, i & 1 ? MOOR_EQ_ASYNC : MOOR_EQ_COMPLETION, type,
			   random_number(&rnd, &pair));
		if (i % 500 == 499)
			moor_pair_close(test, &pair);
	}
	KUNIT_EXPECT_GT(test, heard.qp_events, 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(test->priv));
}

/* A CQ whose NIC has the next event ready whenever one is handled. */
struct storm {
	struct fake_nic *nic;
	u32 cqn;
	u32 left;
	u32 interrupt;		/* number of the current interrupt */
	u32 run;		/* events that came in it so far */
	u32 longest;		/* largest @run */
	u32 deferred;		/* events that came outside of interrupts */
	u32 all;
};

static void brew(struct ib_cq *cq, void *context)
{
	struct storm *storm = context;

	/* No second interrupt continues the work of the first. */
	WRITE_ONCE(storm->nic->behave.mute, true);
	if (current->flags & PF_WQ_WORKER) {
		storm->deferred++;
		storm->run = 0;
	} else if (storm->interrupt != storm->nic->interrupts) {
		storm->interrupt = storm->nic->interrupts;
		storm->run = 0;
	}
	storm->longest = max(storm->longest, ++storm->run);
	storm->all++;
	if (storm->left) {
		storm->left--;
		fake_nic_event(storm->nic, MOOR_EQ_COMPLETION,
			       MOOR_EVENT_COMPLETION, storm->cqn);
	}
}

/* A device cannot keep an interrupt handler busy for long; and no event is lost. */
static void hostile_storm(struct kunit *test)
{
	const u32 many = 5000, most = 128;
	struct storm storm = { .nic = moor_kunit_nic(), .left = many };
	struct moor_pair pair;

	moor_pair_open(test, &pair);
	storm.cqn = pair.cq->cqn;
	pair.cq->ibcq.comp_handler = brew;
	pair.cq->ibcq.cq_context = &storm;
	fake_nic_event(storm.nic, MOOR_EQ_COMPLETION, MOOR_EVENT_COMPLETION,
		       storm.cqn);
	moor_kunit_wait(test, eq_consumer(MOOR_EQ_COMPLETION) == many + 1);
	KUNIT_EXPECT_EQ(test, storm.all, many + 1);
	KUNIT_EXPECT_LE(test, storm.longest, most);
	KUNIT_EXPECT_GE(test, storm.deferred, many - most);
	WRITE_ONCE(storm.nic->behave.mute, false);
	pair.cq->ibcq.comp_handler = NULL;
	moor_pair_close(test, &pair);
}

static struct kunit_case hostile_cases[] = {
	KUNIT_CASE_PARAM(hostile_answer, answer_gen_params),
	KUNIT_CASE(hostile_answers_random),
	KUNIT_CASE(hostile_event_queue),
	KUNIT_CASE(hostile_events_random),
	KUNIT_CASE(hostile_storm),
	{}
};

static struct kunit_suite hostile_suite = {
	.name = "moor_hostile",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = hostile_cases,
};

kunit_test_suite(hostile_suite);
