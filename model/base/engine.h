/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the NIC share: its state, event and completion queues. */
#ifndef MODEL_ENGINE_H
#define MODEL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/fault.h"
#include "base/lie.h"
#include "base/timer.h"
#include "device/nic.h"
#include "memory/translate.h"
#include "moor/moor_hw.h"

/* Capacities: the read-only registers (HWI 4). */
#define NIC_MR_INDEX_BITS	16u
#define NIC_NUM_MR		(1u << NIC_MR_INDEX_BITS)
#define NIC_MR_CONSUMER_FIRST	0x8000u
#define NIC_NUM_MW		(NIC_NUM_MR - NIC_MR_CONSUMER_FIRST)
#define NIC_NULL_LKEY		((MOOR_MR_INDEX_NULL << 16) | 0x9e37u)
#define NIC_MAX_MSG_SIZE	(1u << 30)
#define NIC_QP_INDEX_BITS	14u
#define NIC_NUM_QP		(1u << NIC_QP_INDEX_BITS)
#define NIC_MAX_CQ		16384u
#define NIC_MAX_EQ		18u
#define NIC_MAX_LOG_WQE		15u
#define NIC_MAX_SGE		16u
#define NIC_MAX_INLINE		448u
#define NIC_MAX_LOG_CQE		20u
#define NIC_MAX_GID		64u
#define NIC_MAX_RD_ATOMIC	16u
#define NIC_NUM_REQUESTS	8192u
#define NIC_MAX_LOG_CMD		8u
#define NIC_MAX_LOG_EQE		15u
#define NIC_MAX_MR_SIZE		(1ULL << 63)
#define NIC_PAGE_SIZES		MOOR_MASK(38, 12)
#define NIC_FEATURES		(MOOR_FEATURE_DOZES | MOOR_FEATURE_ATOMICS | \
				 MOOR_FEATURE_MW_TYPE_1 | \
				 MOOR_FEATURE_MW_TYPE_2B | \
				 MOOR_FEATURE_FAST_REG | MOOR_FEATURE_DM | \
				 MOOR_FEATURE_RELAXED_ORDERING | \
				 MOOR_FEATURE_UC)

#define NIC_DB_SLOTS		(NIC_DB_PAGES * MOOR_DB_SLOTS_PER_PAGE)
#define NIC_NUMBER_MASK		0xffffffu	/* QP and PD numbers, PSNs */

/* Field @mask of @word. */
#define FIELD(mask, word)	(((word) & (mask)) / ((mask) & -(mask)))

struct qp;
struct port;
struct impaired;
struct request;
struct mr_dynamic;
struct mr_strict;
struct mr_registration;
struct mw_binding;
struct relaxed;

struct event {
	uint8_t type;		/* enum moor_event_type */
	uint32_t number;
};

struct eq {
	bool exists;
	uint8_t log_eqe;
	uint16_t vector;
	uint32_t producer;	/* free-running */
	uint32_t num_cq;	/* CQs that send their events here */
	uint64_t base;

	/*
	 * Events that found no room (HWI EV-3). Bounded: an object has at most
	 * one event of each type in here.
	 */
	struct event *backlog;
	uint32_t backlog_count;
	uint32_t backlog_room;
};

struct cq {
	uint32_t cqn;
	uint32_t eqn;
	uint32_t num_qp;	/* queues that complete here */
	uint8_t log_cqe;
	bool failed;		/* overrun or unreachable: no CQE any more */
	bool dirty;		/* in nic->dirty_cq */
	bool got_any;		/* since the slot was evaluated: a CQE, */
	bool got_solicited;	/* one that is solicited or an error */
	uint64_t backlogged;	/* events kept back, a bit a type */
	uint32_t producer;	/* free-running */
	uint32_t consumer;	/* as last read from the slot */
	uint32_t arm_done;	/* arm sequence of the last event */
	uint32_t slot_id;
	uint64_t *slot;
	struct xlat ring;
	struct xlat_window window;
};

/* What happened to packets, since the program started. */
struct traffic {
	uint64_t sent_again;	/* how often a requester went back */
	uint64_t timeouts;
	uint64_t duplicates;
	uint64_t gaps;		/* packets out of sequence */
	uint64_t carried;	/* by a port that impairs, and of these */
	uint64_t lost;
	uint64_t repeated;
	uint64_t reordered;
	uint64_t delayed;
	uint64_t damaged;	/* noticed, and dropped */
};

struct gid_entry {
	uint8_t type;		/* enum moor_gid_type */
	uint16_t vlan;
	uint8_t smac[6];
	uint8_t gid[16];
};

/* A send queue in the array that is scanned for new doorbell values. */
struct live_sq {
	uint64_t *slot;
	uint32_t seen;
	struct qp *qp;
};

struct qp_list {
	struct qp *first, *last;
};

struct nic {
	struct nic_config cfg;
	uint64_t chance;	/* state of nic_chance() */
	struct dma_map *dma;
	uint8_t *mr_bar;
	uint8_t *db_bar;
	void (*raise)(void *ctx, unsigned int vector);
	void *raise_ctx;

	/* registers.c */
	bool bus_master;
	bool enabled;
	uint32_t fatal_code;	/* enum moor_fatal_code */
	uint64_t clock_base;
	uint64_t cmd_base;
	uint64_t cpl_base;
	uint64_t doze_addr;
	uint32_t cmd_log_size;

	/* doorbell.c */
	uint32_t *slot_owner;	/* [NIC_DB_SLOTS]: kind and number, 0: none */
	struct live_sq *live;	/* [NIC_NUM_QP] */
	uint32_t num_live;
	bool dozing;

	/* command.c */
	uint32_t cmd_consumer;
	uint32_t cpl_producer;
	uint64_t cpl_arm_done;
	struct moor_cpl cpl_again;	/* of a command that is answered twice */
	bool cpl_again_due;

	/* event.c */
	struct eq eq[NIC_MAX_EQ];
	uint32_t pending_vectors;
	uint32_t eq_backlogged;	/* EQs with a backlog */
	uint64_t backlogged;	/* events of no queue kept back, a bit a type */

	/* cq.c */
	struct cq *cq[NIC_MAX_CQ];
	struct cq **dirty_cq;	/* [NIC_MAX_CQ] */
	uint32_t num_dirty_cq;

	/* qp.c */
	struct qp *qp[NIC_NUM_QP];
	struct qp_list ready;	/* there is something to do, or may be */
	struct qp_list resting;	/* in ERR, flushed, receives may be posted */
	struct timer rest;	/* till @resting is looked at */
	uint64_t rest_ns;	/* how long it was this time */

	/* requester.c: requests beyond each QP's own */
	struct request *request_memory;	/* [NIC_NUM_REQUESTS] */
	uint32_t requests_made;		/* the others were never used */
	struct request *requests;	/* those that are free again */

	struct traffic traffic;

	/* port_impaired.c */
	const struct port *port;
	struct impaired *impaired;	/* NULL while nothing is impaired */

	struct timer_heap timers;
	struct gid_entry gid[NIC_MAX_GID];

	/* mr.c */
	struct mr_dynamic *mr;	/* [NIC_NUM_MR] */
	struct mw_binding *mw;	/* [NIC_NUM_MW], from NIC_MR_CONSUMER_FIRST */
	struct mr_registration *fast;	/* the same */
	struct mr_strict *strict;	/* NULL without --strict */

	/* relaxed.c */
	struct relaxed *relaxed;	/* NULL without --strict */

	struct faults faults;	/* survive a reset */
	struct lies lies;	/* likewise */
};

/*
 * Copies out of guest memory, once: the barrier keeps the compiler from
 * fetching a second time what has been checked.
 */
static inline void fetch(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	__asm__ volatile("" : : : "memory");
}

/* Is DMA allowed and has the driver set the NIC up? */
static inline bool nic_works(const struct nic *nic)
{
	return nic->enabled && nic->bus_master && !nic->fatal_code;
}

/* nic.c */
/*
 * What --strict does where the document leaves a choice: a number below @n,
 * at random but the same in each run with one seed; else 0.
 */
uint32_t nic_chance(struct nic *nic, uint32_t n);

/* registers.c */
void nic_fatal(struct nic *nic, enum moor_fatal_code code);
void registers_reset(struct nic *nic);

/* doorbell.c */
enum slot_kind {
	SLOT_SQ	= 1,
	SLOT_RQ	= 2,
	SLOT_CQ	= 3,
};

/* Slot @slot of the driver's page. */
static inline uint64_t *db_fixed_slot(struct nic *nic, unsigned int slot)
{
	return (uint64_t *)nic->db_bar + slot;
}

/*
 * Ties a slot to a queue and zeroes it. Return: enum moor_cmd_status.
 */
uint8_t db_claim(struct nic *nic, uint32_t doorbell, enum slot_kind kind,
		 uint32_t number, uint32_t *slot_id, uint64_t **slot);
void db_release(struct nic *nic, uint32_t slot_id);
void db_live_add(struct nic *nic, struct qp *qp);
void db_live_remove(struct nic *nic, struct qp *qp);
void db_scan(struct nic *nic);
void db_reset(struct nic *nic);

static inline uint64_t db_load(const uint64_t *slot)
{
	return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

/* command.c */
bool command_pending(struct nic *nic);
/* Does a bounded number of them. Return: true when there were any. */
bool command_run(struct nic *nic);
/* Does all that are posted now, however many are added meanwhile. */
void command_run_posted(struct nic *nic);
void command_reset(struct nic *nic);
/* The opcode of this name, or -1. */
int command_opcode(const char *name);
const char *command_name(uint8_t opcode);
/* Answers what nobody asked, and interrupts. Return: false if it cannot. */
bool command_inject(struct nic *nic, const struct moor_cpl *cpl);
/* Entry @index of the completion ring, whoever's turn it is, as if it were new. */
bool command_overwrite(struct nic *nic, uint32_t index,
		       const struct moor_cpl *cpl);

/* event.c */
/*
 * An event, unless one like it is kept back (HWI EV-16): @backlogged says of which
 * types its object has one.
 */
void event_post(struct nic *nic, uint32_t eqn, uint8_t type, uint32_t number,
		uint64_t *backlogged);
/* Forgets events that were kept back and speak of a dead object. */
void event_forget(struct nic *nic, uint32_t eqn, uint64_t types,
		  uint32_t number);
/* An entry that stands for no event. Return: false when there is no room. */
bool event_inject(struct nic *nic, uint32_t eqn, const struct moor_eqe *eqe);
/* Delivers what was kept back, and raises the vectors. */
void event_flush(struct nic *nic);
void event_reset(struct nic *nic);
uint8_t eq_create(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);
uint8_t eq_destroy(struct nic *nic, const struct moor_cmd *cmd,
		   struct moor_cpl *cpl);

/* requester.c */
bool requester_init(struct nic *nic);
void requester_exit(struct nic *nic);

/* cq.c */
struct cq *cq_find(struct nic *nic, uint32_t cqn);
/*
 * Writes a CQE; its phase is filled in. Return: false when the CQ has failed,
 * and the QP is to fail with it.
 */
bool cq_write(struct nic *nic, struct cq *cq, struct moor_cqe *cqe,
	      bool solicited);
/* Evaluates the arm requests of the CQs written to. */
void cq_flush(struct nic *nic);
void cq_reset(struct nic *nic);
uint8_t cq_create(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);
uint8_t cq_destroy(struct nic *nic, const struct moor_cmd *cmd,
		   struct moor_cpl *cpl);
uint8_t cq_resize(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);

/* gid.c */
/* Is it in an entry of this NIC's table? */
bool gid_is_own(const struct nic *nic, const uint8_t *gid);
uint8_t gid_set(struct nic *nic, const struct moor_cmd *cmd,
		struct moor_cpl *cpl);

/*
 * Ends a command with a status and the field at fault; used as
 * return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM, struct moor_cmd_x, field);
 */
#define CMD_FAIL(cpl, status, type, field) \
	((cpl)->detail = htole32(offsetof(type, field)), (status))

#endif /* MODEL_ENGINE_H */
