// SPDX-License-Identifier: GPL-2.0
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "host.h"
#include "vfio_user.h"

#define MAX_EQ		4u
#define RESET_NS	1000000000ull
#define LATE_RESETS	3u

/*
 * Time for a device to come to rest: DOZE_NS for a device that dozes, which shows it
 * unless a timer keeps the device busy; REST_NS for any other.
 */
#define DOZE_NS		30000000ull
#define REST_NS		3000000ull

struct moor_cpl answer;

static struct {
	uint64_t next;			/* free memory, DMA address */
	uint64_t cmd_base, cpl_base, doze;
	unsigned int log_ring;
	uint32_t issued, completed;
	uint32_t next_slot, next_kernel_slot;
	uint32_t next_index, next_consumer_index;
	uint8_t generation;
	struct {
		uint64_t base;
		unsigned int log_eqe;
		uint32_t consumer;
	} eq[MAX_EQ];
} host;

/*
 * A device that is a program needs a processor to answer, perhaps this one. A task that
 * sleeps for a moment gets it back sooner than a task that has used up its slice.
 */
void breathe(void)
{
	const struct timespec moment = { .tv_nsec = 20000 };

	nanosleep(&moment, NULL);
}

/* ---- memory ---- */

uint64_t take(uint64_t size)
{
	uint64_t addr = host.next;

	size = (size + PAGE - 1) & ~(PAGE - 1);
	if (size > MEMORY_BASE + MEMORY_SIZE - addr)
		bail_out("a case needs more memory than there is");
	host.next += size;
	memset(at(addr), 0, size);
	return addr;
}

static uint8_t pattern(uint64_t i, unsigned int seed)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) + seed);
}

void fill(uint64_t addr, uint64_t size, unsigned int seed)
{
	uint8_t *p = at(addr);
	uint64_t i;

	for (i = 0; i < size; i++)
		p[i] = pattern(i, seed);
}

uint64_t take_filled(uint64_t size, unsigned int seed)
{
	uint64_t addr = take(size);

	fill(addr, size, seed);
	return addr;
}

bool is_filled(uint64_t addr, uint64_t size, unsigned int seed)
{
	const uint8_t *p = at(addr);
	uint64_t i;

	for (i = 0; i < size; i++)
		if (p[i] != pattern(i, seed))
			return false;
	return true;
}

bool is_all(uint64_t addr, uint64_t size, uint8_t byte)
{
	const uint8_t *p = at(addr);
	uint64_t i;

	for (i = 0; i < size; i++)
		if (p[i] != byte)
			return false;
	return true;
}

bool same(uint64_t a, uint64_t b, uint64_t size)
{
	return !memcmp(at(a), at(b), size);
}

/* ---- the function ---- */

void wait_ready(void)
{
	static unsigned int late;
	uint64_t began = now_ns();
	bool ready = wait_until(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_READY);

	if (!ready)
		bail_out("STATUS.READY is clear %llu s after a reset", DUE_NS / 1000000000u);
	/* Once may be the fault of other programs that keep the processors busy. */
	late = now_ns() - began < RESET_NS ? 0 : late + 1;
	expect(late < LATE_RESETS, "STATUS.READY has come after %llu ms (CTL-3), again and again",
	       (unsigned long long)(now_ns() - began) / 1000000u);
}

void host_reset(void)
{
	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	wait_ready();
}

void host_set_up_registers(unsigned int log_size)
{
	host.log_ring = log_size;
	host.cmd_base = take(MOOR_CMD_SIZE << log_size);
	host.cpl_base = take(MOOR_CPL_SIZE << log_size);
	host.doze = take(PAGE);
	host.issued = 0;
	host.completed = 0;
	reg_write64(MOOR_REG_CMD_BASE, host.cmd_base);
	reg_write64(MOOR_REG_CPL_BASE, host.cpl_base);
	reg_write(MOOR_REG_CMD_LOG_SIZE, log_size);
	if (dev.features & MOOR_FEATURE_DOZES)
		reg_write64(MOOR_REG_DOZE_ADDR, host.doze);
}

void host_enable(void)
{
	uint32_t status;

	host_set_up_registers(dev.max_log_cmd < LOG_RING ? dev.max_log_cmd :
							   LOG_RING);
	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	status = reg_read(MOOR_REG_STATUS);
	need(status & MOOR_STATUS_ENABLED && !(status & MOOR_STATUS_FATAL),
	     "ENABLE: STATUS is 0x%x, FATAL_CODE %u", status,
	     reg_read(MOOR_REG_FATAL_CODE));
}

void host_begin(void)
{
	struct moor_cmd_set_gid gid = {
		.hdr.opcode = MOOR_CMD_SET_GID, .index = GID_INDEX,
		.type = MOOR_GID_ROCE_V2, .vlan = MOOR_GID_NO_VLAN,
		.smac = { 2, 0, 0, 0, 0, 1 },
		.gid = { 0xfe, 0x80, [15] = 1 },
	};
	unsigned int i;

	memset(&host, 0, sizeof(host));
	host.next = MEMORY_BASE;
	host.next_slot = MOOR_DB_SLOTS_PER_PAGE;
	host.next_kernel_slot = MOOR_DB_SLOT_KERNEL_FIRST;
	host.next_index = MOOR_MR_INDEX_FIRST;
	host.next_consumer_index = dev.consumer_first;
	host.generation = 0x40;
	bus_master(true);
	host_reset();
	host_enable();
	for (i = 0; i < dev.msix_vectors; i++)
		interrupts(i);
	make_eq(MOOR_EQ_ASYNC, LOG_EQE, eq_vector(MOOR_EQ_ASYNC));
	make_eq(MOOR_EQ_COMPLETION, LOG_EQE, eq_vector(MOOR_EQ_COMPLETION));
	must(gid);
}

bool dozing(void)
{
	return __atomic_load_n((uint32_t *)at(host.doze), __ATOMIC_SEQ_CST);
}

void settle(void)
{
	bool dozes = dev.features & MOOR_FEATURE_DOZES;
	uint64_t end;

	if (reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL)
		return;
	nop();
	end = now_ns() + (dozes ? DOZE_NS : REST_NS);
	while (now_ns() < end && !(dozes && dozing()))
		breathe();
}

/* ---- doorbells ---- */

void store_slot(uint32_t slot, uint64_t value)
{
	bar_write64(MOOR_BAR_DB, (uint64_t)slot * MOOR_DB_SLOT_SIZE, value);
}

void kick(uint32_t slot)
{
	const uint32_t one = 1;

	vfio_user_write(MOOR_BAR_DB, dev.kick_offset +
			(uint64_t)slot * MOOR_DB_SLOT_SIZE, &one, sizeof(one));
}

void ring_slot(uint32_t slot, uint64_t value)
{
	store_slot(slot, value);
	if (!(dev.features & MOOR_FEATURE_DOZES))
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (dozing())
		kick(slot);
}

uint32_t take_slot(void)
{
	return host.next_slot++;
}

uint32_t take_kernel_slot(void)
{
	return host.next_kernel_slot++;
}

/* ---- commands ---- */

uint16_t issue(const void *cmd, size_t size)
{
	uint32_t slot = host.issued & ((1u << host.log_ring) - 1);
	struct moor_cmd *entry = (struct moor_cmd *)at(host.cmd_base) + slot;

	memset(entry, 0, sizeof(*entry));
	memcpy(entry, cmd, size);
	entry->hdr.tag = (uint16_t)(host.issued ^ 0x5a00);
	host.issued++;
	ring_slot(MOOR_DB_SLOT_CMD_PRODUCER, host.issued);
	return entry->hdr.tag;
}

bool poll_completion(struct moor_cpl *cpl)
{
	uint32_t size = 1u << host.log_ring;
	struct moor_cpl *entry = (struct moor_cpl *)at(host.cpl_base) +
				 (host.completed & (size - 1));
	uint32_t phase = !(host.completed & size);

	if ((__atomic_load_n(&entry->phase, __ATOMIC_ACQUIRE) & 1) != phase)
		return false;
	*cpl = *entry;
	host.completed++;
	return true;
}

void wait_completion(struct moor_cpl *cpl)
{
	need(wait_until(poll_completion(cpl)), "no completion of a command");
}

uint8_t command(const void *cmd, size_t size)
{
	uint16_t tag = issue(cmd, size);

	wait_completion(&answer);
	need(answer.tag == tag, "a completion of tag 0x%x where 0x%x was due",
	     answer.tag, tag);
	return answer.status;
}

void refused_at(const char *file, int line, const void *cmd, size_t size,
		uint8_t wanted, size_t field, const char *fmt, ...)
{
	uint8_t status = command(cmd, size);
	char what[128];
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	expect_at(file, line, status == wanted,
		  "%s: status %u where %u was due (detail %u)", what, status,
		  wanted, answer.detail);
	expect_at(file, line, !answer.detail || answer.detail == field,
		  "%s: detail %u where %zu, or 0, was due", what, answer.detail,
		  field);
}

uint8_t nop(void)
{
	struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };

	return command(&cmd, sizeof(cmd));
}

/* ---- events ---- */

unsigned int eq_vector(uint32_t eqn)
{
	return (eqn + 1) % dev.num_vectors;
}

void make_eq(uint32_t eqn, unsigned int log_eqe, unsigned int vector)
{
	struct moor_cmd_create_eq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_EQ, .eqn = eqn,
		.vector = (uint16_t)vector, .log_eqe = (uint8_t)log_eqe,
	};

	need(eqn < MAX_EQ, "the suite has no room for EQ %u", eqn);
	host.eq[eqn].base = take(sizeof(struct moor_eqe) << log_eqe);
	host.eq[eqn].log_eqe = log_eqe;
	host.eq[eqn].consumer = 0;
	cmd.base = host.eq[eqn].base;
	must(cmd);
}

uint64_t next_event_place(uint32_t eqn)
{
	uint32_t size = 1u << host.eq[eqn].log_eqe;

	return host.eq[eqn].base +
	       (host.eq[eqn].consumer & (size - 1)) * sizeof(struct moor_eqe);
}

bool next_event(uint32_t eqn, struct moor_eqe *eqe)
{
	uint32_t size = 1u << host.eq[eqn].log_eqe;
	struct moor_eqe *entry = at(next_event_place(eqn));
	uint32_t phase = !(host.eq[eqn].consumer & size);

	if ((__atomic_load_n(&entry->phase, __ATOMIC_ACQUIRE) & 1) != phase)
		return false;
	*eqe = *entry;
	store_slot(MOOR_DB_SLOT_EQ_CONSUMER + eqn, ++host.eq[eqn].consumer);
	return true;
}

bool wait_event(uint32_t eqn, struct moor_eqe *eqe)
{
	return wait_until(next_event(eqn, eqe));
}

void expect_event(uint8_t type, uint32_t number)
{
	struct moor_eqe eqe;

	if (expect(wait_event(MOOR_EQ_ASYNC, &eqe),
		   "event 0x%02x of 0x%x does not come", type, number))
		expect(eqe.type == type && eqe.number == number,
		       "event 0x%02x of 0x%x where 0x%02x of 0x%x was due",
		       eqe.type, eqe.number, type, number);
}

void expect_events_of(const struct due_event *due, unsigned int num)
{
	bool seen[MAX_DUE_EVENTS] = { false };
	struct moor_eqe eqe;
	unsigned int i, j;

	need(num <= MAX_DUE_EVENTS, "the suite cannot wait for %u events", num);
	for (i = 0; i < num && wait_event(MOOR_EQ_ASYNC, &eqe); i++) {
		for (j = 0; j < num; j++)
			if (!seen[j] && due[j].type == eqe.type && due[j].number == eqe.number)
				break;
		if (expect(j < num, "event 0x%02x of 0x%x, which is not due", eqe.type,
			   eqe.number))
			seen[j] = true;
	}
	for (j = 0; j < num; j++)
		expect(seen[j], "event 0x%02x of 0x%x does not come", due[j].type,
		       due[j].number);
}

void expect_no_event(uint32_t eqn)
{
	struct moor_eqe eqe;

	settle();
	if (next_event(eqn, &eqe))
		expect(false, "event 0x%02x of 0x%x where none was due", eqe.type,
		       eqe.number);
}

void drop_events(uint32_t eqn)
{
	struct moor_eqe eqe;

	while (next_event(eqn, &eqe))
		;
}

/* ---- memory regions ---- */

struct moor_xlat flat(uint64_t addr)
{
	return (struct moor_xlat){
		.root = (addr & MOOR_PTE_ADDR) | MOOR_PTE_PRESENT |
			MOOR_PTE_LEAF | MOOR_PTE_WRITABLE,
		.offset = addr & ~MOOR_PTE_ADDR,
		.page_shift = MOOR_MIN_PAGE_SHIFT,
	};
}

uint32_t take_key(void)
{
	uint32_t index = host.next_index++;

	skip_below("mr_consumer_first", dev.consumer_first, index + 1);
	return index << dev.nonce_bits | (0x9e5u + index * 37) %
	       (1u << dev.nonce_bits);
}

uint32_t take_consumer_key(void)
{
	uint32_t index = host.next_consumer_index++;

	skip_below("2^mr_index_bits - mr_consumer_first", dev.num_keys - dev.consumer_first,
		   index + 1 - dev.consumer_first);
	return index << dev.nonce_bits | (0x6b7u + index * 41) %
	       (1u << dev.nonce_bits);
}

uint32_t key_index(uint32_t key)
{
	return key >> dev.nonce_bits;
}

struct moor_mr_context mr_entry(uint32_t pd, uint32_t access, uint64_t addr,
				uint64_t len)
{
	return (struct moor_mr_context){
		.pd = pd, .access = access, .iova = addr, .length = len,
		.xlat = flat(addr),
	};
}

static uint64_t entry_offset(uint32_t key)
{
	return (uint64_t)key_index(key) * sizeof(struct moor_mr_context);
}

void write_valid(uint32_t key, uint64_t valid)
{
	bar_write64(MOOR_BAR_MR, entry_offset(key), valid);
}

void write_entry(uint32_t key, const struct moor_mr_context *entry,
		 unsigned int type)
{
	uint64_t words[sizeof(*entry) / 8];
	unsigned int i;

	memcpy(words, entry, sizeof(words));
	for (i = 1; i < sizeof(words) / 8; i++)
		bar_write64(MOOR_BAR_MR, entry_offset(key) + 8 * i, words[i]);
	host.generation++;
	write_valid(key, (uint64_t)key << 32 | type |
		    (uint64_t)host.generation << 8);
}

void clear_entry(uint32_t key)
{
	write_valid(key, 0);
}

uint32_t make_entry(const struct moor_mr_context *entry, unsigned int type)
{
	bool consumer = type >= MOOR_MRC_TYPE_FAST_REG &&
			type <= MOOR_MRC_TYPE_MW_2;
	uint32_t key = consumer ? take_consumer_key() : take_key();

	write_entry(key, entry, type);
	return key;
}

uint32_t make_mr(uint32_t pd, uint32_t access, uint64_t addr, uint64_t len)
{
	struct moor_mr_context entry = mr_entry(pd, access, addr, len);

	return make_entry(&entry, MOOR_MRC_TYPE_MR);
}

uint32_t make_window(uint32_t pd, unsigned int type)
{
	struct moor_mr_context entry = { .pd = pd };

	return make_entry(&entry, type);
}

unsigned int revoke(uint32_t key)
{
	struct moor_cmd_mr_revoke cmd = {
		.hdr.opcode = MOOR_CMD_MR_REVOKE, .count = 1, .key = { key },
	};
	struct moor_cpl_mr_revoke out;

	must(cmd);
	memcpy(&out, answer.out, sizeof(out));
	return (out.busy & 1 ? BUSY : 0) | (out.unknown & 1 ? UNKNOWN : 0);
}

void register_anew(uint32_t key, uint32_t pd, uint32_t access, uint64_t addr,
		   uint64_t len)
{
	struct moor_mr_context entry = mr_entry(pd, access, addr, len);

	need(revoke(key) == REVOKED, "MR_REVOKE");
	write_entry(key, &entry, MOOR_MRC_TYPE_MR);
}

uint8_t query(uint32_t key, struct moor_cpl_mr_query *out)
{
	struct moor_cmd_mr_query cmd = {
		.hdr.opcode = MOOR_CMD_MR_QUERY, .key = key,
	};
	uint8_t status = do_command(cmd);

	memcpy(out, answer.out, sizeof(*out));
	return status;
}
