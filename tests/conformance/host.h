/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The driver's part: memory, rings, commands, events, context entries. Everything
 * belongs to the case that runs; the next case begins with a device after reset.
 */
#ifndef CONFORMANCE_HOST_H
#define CONFORMANCE_HOST_H

#include "device.h"
#include "suite.h"

/* Values that every case may use. */
#define PD		5u
#define OTHER_PD	6u
#define GID_INDEX	0u
#define ALL_REMOTE	(MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_REMOTE_READ | \
			 MOOR_ACCESS_REMOTE_ATOMIC)
#define ALL_RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | ALL_REMOTE | MOOR_ACCESS_MW_BIND)
#define ALL_FLUSH	(MOOR_ACCESS_FLUSH_GLOBAL | MOOR_ACCESS_FLUSH_PERSISTENT)
#define PAGE		((uint64_t)MOOR_PAGE_SIZE)
#define LOG_RING	6u
#define RING		(1u << LOG_RING)
#define LOG_EQE		4u

/* Limit of a wait: what a command may take, whatever the load (HWI CMD-36). */
#define DUE_NS		10000000000ull
#define WATCH_NS	5000000ull

/* Waits for @condition; evaluates to its last value. */
#define wait_until(condition)						\
	({								\
		uint64_t wait_end = now_ns() + DUE_NS;			\
		bool wait_met;						\
									\
		while (!(wait_met = (condition)) && now_ns() < wait_end)\
			breathe();					\
		wait_met;						\
	})

/* The same, for conditions that may last only microseconds: does not sleep at first. */
#define watch_until(condition)						\
	({								\
		uint64_t watch_end = now_ns() + WATCH_NS;		\
		bool watch_met;						\
									\
		while (!(watch_met = (condition)) && now_ns() < watch_end)\
			;						\
		watch_met || wait_until(condition);			\
	})

/* Lets other tasks have the processor. */
void breathe(void);

/*
 * Who looks for what lasts only a moment sees it while the device works at that moment,
 * on another processor, and on a busy machine that is seldom. Return: whether @seen such
 * looks, of @wanted, are enough, or have taken too long since @began.
 */
static inline bool looked_enough(unsigned int seen, unsigned int wanted, uint64_t began)
{
	return seen >= wanted || now_ns() - began > 1000000000ull;
}

/* ---- the function ---- */

/* Reset, rings, ENABLE; then EQs 0 and 2 and a GID. */
void host_begin(void);

/*
 * Ends the case as one of what the device does not offer, unless it has a capacity, a
 * field of struct device, of @least.
 */
#define at_least(capacity, least)	skip_below(#capacity, dev.capacity, least)

/* Reset, nothing else: STATUS is READY. */
void host_reset(void);

/* Waits for READY behind a reset: till then other registers mean nothing (HWI CTL-12). */
void wait_ready(void);

/* Rings and ENABLE: STATUS.ENABLED, or else the case ends. */
void host_enable(void);

/* Only the registers, of rings with @log entries. */
void host_set_up_registers(unsigned int log_size);

/* Zeroed memory, on a page of its own; its DMA address. */
uint64_t take(uint64_t size);

/* The same, filled with bytes that depend on their place and on @seed. */
uint64_t take_filled(uint64_t size, unsigned int seed);
void fill(uint64_t addr, uint64_t size, unsigned int seed);
bool is_filled(uint64_t addr, uint64_t size, unsigned int seed);
bool is_all(uint64_t addr, uint64_t size, uint8_t byte);
bool same(uint64_t a, uint64_t b, uint64_t size);

/* Waits until the device has done all that was asked before. */
void settle(void);

/* ---- doorbells ---- */

/* Slot number @slot counts through the pages, as a command names it. */
void store_slot(uint32_t slot, uint64_t value);

/* Rings a queue's doorbell: store, then kick if need be (HWI 5.2). */
void ring_slot(uint32_t slot, uint64_t value);
void kick(uint32_t slot);
bool dozing(void);

/* Free slots: of page 1 and up, or of page 0 for the kernel's queues. */
uint32_t take_slot(void);
uint32_t take_kernel_slot(void);

/* ---- commands ---- */

/* The answer to the last command. */
extern struct moor_cpl answer;

/* Has a command carried out. Return: its status; without one the case ends. */
uint8_t command(const void *cmd, size_t size);

/* Issues a command without waiting for its completion. Return: the tag. */
uint16_t issue(const void *cmd, size_t size);
bool poll_completion(struct moor_cpl *cpl);
void wait_completion(struct moor_cpl *cpl);

#define do_command(cmd)	command(&(cmd), sizeof(cmd))
#define must(cmd)							\
	({								\
		uint8_t must_status = do_command(cmd);			\
									\
		need(!must_status, "command 0x%02x: status %u at %u",	\
		     (cmd).hdr.opcode, must_status, answer.detail);	\
	})

/* The command is refused with @wanted; the completion names @field, or no field. */
#define refused(cmd, wanted, field, ...)				\
	refused_at(__FILE__, __LINE__, &(cmd), sizeof(cmd), wanted,	\
		   offsetof(__typeof__(cmd), field), __VA_ARGS__)
void refused_at(const char *file, int line, const void *cmd, size_t size,
		uint8_t wanted, size_t field, const char *fmt, ...)
	__attribute__((format(printf, 7, 8)));

uint8_t nop(void);

/* ---- events ---- */

void make_eq(uint32_t eqn, unsigned int log_eqe, unsigned int vector);
/* The place of the next event. */
uint64_t next_event_place(uint32_t eqn);
bool next_event(uint32_t eqn, struct moor_eqe *eqe);
bool wait_event(uint32_t eqn, struct moor_eqe *eqe);

/* Expects this event as the next of EQ 0; or that none comes, after a settle(). */
void expect_event(uint8_t type, uint32_t number);
void expect_no_event(uint32_t eqn);

/*
 * expect_events({ type, number }, ...): expects exactly these as the next events of EQ 0.
 * What one cause brings about has no order.
 */
struct due_event {
	uint8_t type;
	uint32_t number;
};

#define MAX_DUE_EVENTS	8
#define expect_events(...)						\
	expect_events_of((struct due_event[]){ __VA_ARGS__ },		\
			 sizeof((struct due_event[]){ __VA_ARGS__ }) /	\
			 sizeof(struct due_event))
void expect_events_of(const struct due_event *due, unsigned int num);

/* Consumes all events of an EQ. */
void drop_events(uint32_t eqn);
unsigned int eq_vector(uint32_t eqn);

/* ---- memory regions ---- */

/* A translation without a table: contiguous memory from @addr on. */
struct moor_xlat flat(uint64_t addr);

/* Keys of entries not used yet, below or from MR_CONSUMER_FIRST on. */
uint32_t take_key(void);
uint32_t take_consumer_key(void);
uint32_t key_index(uint32_t key);

struct moor_mr_context mr_entry(uint32_t pd, uint32_t access, uint64_t addr,
				uint64_t len);

/* Body, then valid word, with the generation after the last one. */
void write_entry(uint32_t key, const struct moor_mr_context *entry,
		 unsigned int type);
void write_valid(uint32_t key, uint64_t valid);
void clear_entry(uint32_t key);

uint32_t make_mr(uint32_t pd, uint32_t access, uint64_t addr, uint64_t len);
uint32_t make_entry(const struct moor_mr_context *entry, unsigned int type);
uint32_t make_window(uint32_t pd, unsigned int type);

#define REVOKED	0u
#define BUSY	1u
#define UNKNOWN	2u
unsigned int revoke(uint32_t key);

/* Revokes a key and registers memory under it again: a new registration. */
void register_anew(uint32_t key, uint32_t pd, uint32_t access, uint64_t addr,
		   uint64_t len);

/* Return: the command's status. */
uint8_t query(uint32_t key, struct moor_cpl_mr_query *out);

#endif /* CONFORMANCE_HOST_H */
