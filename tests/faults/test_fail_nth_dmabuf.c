// SPDX-License-Identifier: GPL-2.0
/* timeout: 600
 *
 * dma-bufs with each allocation and copy in the kernel failing in turn: registering and
 * deregistering buffers of udmabuf, of the system's heap and of
 * tests/kernel/exporter.c, which moves them; the move itself; and mapping again, on
 * advice, or by a worker of the kernel when the NIC asks. An access or advice that
 * meets a failure fails; the next one is served.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "counts.h"
#include "fault.h"
#include "given.h"
#include "holdings.h"
#include "owner.h"
#include "paged.h"
#include "raw.h"
#include "tap.h"
#include "walk.h"
#include "window.h"
#include "workers.h"

#define SIZE		BUFFER_SIZE
#define MOST_POINTS	200
#define MISSES		5	/* this many in turn: the workers have no such point */
#define PATIENCE	60	/* seconds */

static struct pair home, young;
/*
 * The buffer in use, its one MR, of all of it from iova 0 on, and the pair that uses
 * it.
 */
static struct buffer b;
static struct pair *pair;

static int reg(void)
{
	errno = 0;
	b.mr = ibv_reg_dmabuf_mr(pair->pd, 0, SIZE, 0, b.fd, ALL_ACCESS);
	return b.mr ? 0 : errno;
}

static int dereg(void)
{
	return ibv_dereg_mr(b.mr);
}

/* The NIC writes to all of the MR and reads it back, and the process sees the data. */
static bool served(void)
{
	static uint8_t seed;
	uint8_t *buf = pair->a.buf;

	fill(buf, SIZE, ++seed);
	if (ask(pair, IBV_WR_RDMA_WRITE, b.mr->rkey, 0, SIZE).status ||
	    !is_filled(b.at, SIZE, seed))
		return false;
	memset(buf, 0, SIZE);
	return !ask(pair, IBV_WR_RDMA_READ, b.mr->rkey, 0, SIZE).status &&
	       is_filled(buf, SIZE, seed);
}

static int advise_to(enum ibv_advise_mr_advice advice, uint32_t flags)
{
	struct ibv_sge sge = { .length = SIZE, .lkey = b.mr->lkey };

	return ibv_advise_mr(pair->pd, advice, flags, &sge, 1);
}

static bool fails(enum ibv_wr_opcode opcode, uint8_t *local, uint32_t lkey, uint32_t rkey,
		  uint64_t remote, enum ibv_wc_status due)
{
	struct request request = {
		.opcode = opcode, .local = local, .length = SIZE, .lkey = lkey,
		.rkey = rkey, .remote = remote,
	};
	bool as_due = is(finish(&pair->a, post(&pair->a, &request)), due);

	revive(pair);
	return as_due;
}

/*
 * Calls the kernel directly, for libibverbs refuses by itself. Returns 0 if it refuses.
 */
static int rereg_refused(void)
{
	struct ib_uverbs_rereg_mr_resp answer;
	struct ib_uverbs_rereg_mr core = {
		.mr_handle = b.mr->handle, .flags = IBV_REREG_MR_CHANGE_ACCESS,
		.access_flags = ALL_ACCESS,
	};
	const struct raw raw = {
		.number = IB_USER_VERBS_CMD_REREG_MR, .core = &core,
		.core_size = sizeof(core), .core_out = sizeof(answer),
		.out = &answer,
	};
	int err = raw_call(pair->ctx->cmd_fd, &raw);

	return err == EOPNOTSUPP ? 0 : err ?: EEXIST;
}

/* ---- registering ---- */

static void walk_kind(const char *kind)
{
	char name[64];

	must(reg, kind);
	if (!served())
		tap_bail("%s: data does not move", kind);
	must(dereg, kind);
	snprintf(name, sizeof(name), "register %s", kind);
	walk(&(struct path){
		.name = name, .call = reg, .works = served, .after = dereg,
	});
	snprintf(name, sizeof(name), "deregister %s", kind);
	walk(&(struct path){
		.name = name, .before = reg, .call = dereg, .intact = served,
	});
}

static void walk_given(const char *kind, int fd)
{
	if (fd < 0)
		tap_bail("%s: %s", kind, strerror(errno));
	b = (struct buffer){
		.fd = fd,
		.at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
	};
	if (b.at == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	walk_kind(kind);
	buffer_put(&b);
}

static int open_young(void)
{
	struct ibv_device_attr attr;

	young = (struct pair){};
	pair_open(&young, open_nic(nic_name(), &attr), &home.config);
	pair_connect(&young);
	pair = &young;
	return 0;
}

static int close_young(void)
{
	struct ibv_context *ctx = young.ctx;
	int err = dereg();

	pair_close(&young);
	ibv_close_device(ctx);
	pair = &home;
	return err;
}

/*
 * The workers for page requests are created with a context's first MR that needs them.
 */
static void walk_first(void)
{
	walk(&(struct path){
		.name = "register the first of a context", .before = open_young,
		.call = reg, .works = served, .after = close_young,
	});
}

/* ---- being refused ---- */

static unsigned int command;
static int due;

/* Returns 0 if the registration is refused as it should be, which undoes @command. */
static int be_refused(void)
{
	int err;

	owner_must(command, &b);
	err = reg();
	if (!err)
		dereg();
	return err == due ? 0 : err ?: EEXIST;
}

static void walk_refusing(void)
{
	static const struct {
		const char *name;
		unsigned int command;
		int due;
	} refusals[] = {
		{ "be refused, its owner fails", EXPORTER_FAIL, EXPORTER_ERROR },
		{ "be refused, it is too short", EXPORTER_SHORT, EINVAL },
		{ "be refused, it was taken back", EXPORTER_TAKE_BACK, ENODEV },
	};
	size_t i;

	b = buffer_make();
	walk(&(struct path){
		.name = "be refused, it is registered", .before = reg,
		.call = rereg_refused, .works = served, .intact = served, .after = dereg,
	});
	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		command = refusals[i].command;
		due = refusals[i].due;
		walk(&(struct path){ .name = refusals[i].name, .call = be_refused });
	}
	buffer_put(&b);
}

/* ---- moving ---- */

static int move(void)
{
	return owner_does(EXPORTER_MOVE, &b);
}

static int move_begin(void)
{
	return owner_does(EXPORTER_MOVE_BEGIN, &b);
}

static int reg_and_move(void)
{
	return reg() ?: move();
}

static int reg_and_begin(void)
{
	return reg() ?: move_begin();
}

static bool ends_and_served(void)
{
	return !owner_does(EXPORTER_MOVE_END, &b) && served();
}

static int end(void)
{
	return owner_does(EXPORTER_MOVE_END, &b);
}

/* The NIC asks for the buffer once in vain. */
static int reg_and_fail(void)
{
	int err = reg_and_move();

	if (err)
		return err;
	owner_must(EXPORTER_FAIL, &b);
	return fails(IBV_WR_RDMA_WRITE, pair->a.buf, pair->a.mr->lkey, b.mr->rkey, 0,
		     IBV_WC_REM_ACCESS_ERR) ? 0 : EPROTO;
}

static int reg_and_lose(void)
{
	b = buffer_make();
	return reg() ?: owner_does(EXPORTER_TAKE_BACK, &b);
}

static bool taken_back(void)
{
	return fails(IBV_WR_RDMA_WRITE, pair->a.buf, pair->a.mr->lkey, b.mr->rkey, 0,
		     IBV_WC_REM_ACCESS_ERR) && buffer_is_marked(&b);
}

static int put(void)
{
	buffer_put(&b);
	return 0;
}

static void walk_lost(void)
{
	walk(&(struct path){
		.name = "deregister what was taken back", .before = reg_and_lose,
		.call = dereg, .intact = taken_back, .after = put,
	});
}

static void walk_moving(void)
{
	b = buffer_make();
	walk(&(struct path){
		.name = "move it", .before = reg, .call = move_begin,
		.works = ends_and_served, .intact = served, .after = dereg,
	});
	walk(&(struct path){
		.name = "deregister what has moved", .before = reg_and_move,
		.call = dereg, .intact = served,
	});
	walk(&(struct path){
		.name = "deregister what is under way", .before = reg_and_begin,
		.call = dereg, .after = end,
	});
	walk(&(struct path){
		.name = "deregister what could not be mapped", .before = reg_and_fail,
		.call = dereg, .intact = served,
	});
	buffer_put(&b);
}

/* ---- mapping again, on advice ---- */

static enum ibv_advise_mr_advice advice;

static int advise(void)
{
	return advise_to(advice, IBV_ADVISE_MR_FLAG_FLUSH);
}

/* The owner's errno is a success here. */
static int advise_in_vain(void)
{
	int err = advise();

	return err == ENODEV ? 0 : err ?: EEXIST;
}

static int drop_lost(void)
{
	return dereg() ?: put();
}

static void walk_advising(void)
{
	static const char *const names[] = {
		[IBV_ADVISE_MR_ADVICE_PREFETCH] = "map it again to be read",
		[IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE] = "map it again to be written",
		[IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT] = "leave it as it is",
	};

	b = buffer_make();
	for (advice = IBV_ADVISE_MR_ADVICE_PREFETCH;
	     advice <= IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT; advice++)
		walk(&(struct path){
			.name = names[advice], .before = reg_and_move, .call = advise,
			.works = served, .intact = served, .after = dereg,
		});
	buffer_put(&b);
	advice = IBV_ADVISE_MR_ADVICE_PREFETCH;
	walk(&(struct path){
		.name = "be told that it was taken back", .before = reg_and_lose,
		.call = advise_in_vain, .works = taken_back, .after = drop_lost,
	});
}

/* ---- mapping again, when the NIC asks ---- */

enum way { MOVED, UNDER_WAY, ADVISED, WAYS };

static const char *const ways[] = {
	[MOVED] = "page requests", [UNDER_WAY] = "page requests under way",
	[ADVISED] = "advice that a worker follows",
};

static void wait_for_request(const struct paged *before)
{
	time_t limit = time(NULL) + PATIENCE;

	while (paged_counts().faults == before->faults)
		if (time(NULL) > limit)
			tap_bail("no page request");
}

/* An access under faults of the workers. Returns its status; @reached: a fault hit. */
static enum ibv_wc_status access_by(enum way way, unsigned int nth, bool *reached)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = pair->a.buf, .length = SIZE,
		.lkey = pair->a.mr->lkey, .rkey = b.mr->rkey,
	};
	enum ibv_wc_status status;
	struct paged before = {};
	int posted;

	owner_must(way == UNDER_WAY ? EXPORTER_MOVE_BEGIN : EXPORTER_MOVE, &b);
	if (way == UNDER_WAY)
		before = paged_counts();
	fill(pair->a.buf, SIZE, (uint8_t)nth);
	workers_arm(nth);
	if (way == ADVISED && advise_to(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0))
		tap_bail("ibv_advise_mr");
	posted = post(&pair->a, &request);
	if (way == UNDER_WAY) {
		wait_for_request(&before);
		owner_must(EXPORTER_MOVE_END, &b);
	}
	status = finish(&pair->a, posted).status;
	*reached = workers_disarm();
	return status;
}

/* Data has arrived, or the access was refused and the next one is not. */
static bool ended_well(enum ibv_wc_status status, unsigned int nth, bool reached)
{
	if (!status)
		return is_filled(b.at, SIZE, (uint8_t)nth) && served();
	tap_diag("point %u: %s", nth, ibv_wc_status_str(status));
	revive(pair);
	return reached && status == IBV_WC_REM_ACCESS_ERR && served();
}

static bool try_access(enum way way, unsigned int nth, bool *reached, bool *refused)
{
	struct holdings before, after;
	enum ibv_wc_status status;
	bool good;

	holdings_get(&before);
	must(reg, ways[way]);
	/*
	 * Let workers handle a page request without faults first: they do the next one,
	 * too.
	 */
	owner_must(EXPORTER_MOVE, &b);
	if (!served())
		return false;
	status = access_by(way, nth, reached);
	*refused = status;
	good = ended_well(status, nth, *reached);
	must(dereg, ways[way]);
	holdings_get(&after);
	return good && holdings_equal(&before, &after) && !move();
}

static void test_accesses(enum way way)
{
	unsigned int failed = 0, misses = 0, refusals = 0;
	bool reached = false, refused = false, good = true;

	b = buffer_make();
	/* If another worker did the work, no fault was hit: try the point again. */
	while (good && misses < MISSES && failed < MOST_POINTS) {
		good = try_access(way, failed + 1, &reached, &refused);
		misses = reached ? 0 : misses + 1;
		failed += reached;
		refusals += refused;
	}
	buffer_put(&b);
	/* If advice fails, the access may still map the buffer itself. */
	tap_ok(good && misses == MISSES && (refusals || way == ADVISED),
	       "%s: %u points of the workers, %u fail an access, none the MR", ways[way],
	       failed, refusals);
}

/* ---- all of it ---- */

static bool can_move(void)
{
	bool can;

	b = buffer_make();
	can = !reg_and_move();
	must(dereg, "deregister");
	buffer_put(&b);
	return can;
}

/* The number of dma-bufs in the system, or -1. */
static int buffers(void)
{
	FILE *file = fopen("/sys/kernel/debug/dma_buf/bufinfo", "r");
	char line[256];
	int count = -1;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Total %d objects", &count);
	if (file)
		fclose(file);
	return count;
}

/* The last reference to a buffer may be a worker's, so this may take a while. */
static void expect_buffers(int due)
{
	time_t limit = time(NULL) + PATIENCE;
	int now;

	do {
		now = buffers();
	} while (now != due && time(NULL) < limit);
	tap_is(now, due, "no dma-buf is left");
}

int main(void)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	bool moves;
	int before;
	long pinned;
	enum way way;

	if (!fault_setup()) {
		printf("1..0 # SKIP " FAULT_NONE "\n");
		return 0;
	}
	pinned = pinned_pages();
	before = buffers();
	tap_ok(before >= 0, "dma-bufs are counted");
	owner_open();
	config.buffer_size = SIZE;
	pair_open(&home, open_nic(nic_name(), &attr), &config);
	pair_connect(&home);
	pair = &home;
	holdings_open();
	moves = can_move();
	owner_expects(moves);

	walk_given("memory of udmabuf", udmabuf_make(SIZE));
	walk_given("memory of the heap", heap_make(SIZE));
	b = buffer_make();
	walk_kind(moves ? "what may move" : "what is pinned");
	walk_first();
	buffer_put(&b);
	walk_refusing();
	walk_lost();
	if (moves) {
		walk_moving();
		walk_advising();
		for (way = MOVED; way < WAYS; way++)
			test_accesses(way);
	}
	expect_buffers(before);
	owner_close();
	return walk_done(&home, pinned);
}
