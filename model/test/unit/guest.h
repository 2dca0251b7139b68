/* SPDX-License-Identifier: GPL-2.0 */
/* A guest in the same process: memory, a driver's and a provider's moves. */
#ifndef TEST_GUEST_H
#define TEST_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dma_map.h"
#include "base/log.h"
#include "device/nic.h"
#include "moor/moor_hw.h"

#define GUEST_MEMORY	(64u << 20)
#define GUEST_BASE	0x100000000ull	/* DMA address of its first byte */

struct guest {
	struct nic *nic;
	struct dma_map *dma;
	uint8_t *memory, *mr_bar, *db_bar;
	uint64_t next;			/* free memory, DMA address */
	uint32_t commands;
	uint32_t next_slot;
	unsigned int raised[NIC_NUM_VECTORS];
	uint64_t cmd_base, cpl_base, doze, eq_base[3];
	uint32_t eq_consumer[3];
	/* Of the last command; its fields of eight bytes need the alignment. */
	struct moor_cpl cpl __attribute__((aligned(8)));
	uint32_t next_mr;
};

struct guest_cq {
	uint32_t cqn, consumer, slot;
	uint8_t log_cqe;
	uint64_t ring;
	uint32_t arm_seq;
};

struct guest_qp {
	uint32_t qpn, sq_slot, rq_slot;
	uint64_t sq, rq;
	uint32_t sq_producer, rq_producer;
};

#define LOG_DEPTH	6
#define LOG_STRIDE	9

/* Linked in place of timer_now(). A look at the clock takes @clock_step_ns. */
uint64_t __wrap_timer_now(void);
extern uint64_t clock_step_ns;

/* TAP */
void ok(bool good, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int done(void);

struct guest *guest_start(bool strict);
/* Ring registers and ENABLE. */
void guest_setup(struct guest *g);
void guest_stop(struct guest *g);
void *at(struct guest *g, uint64_t addr);
uint64_t take(struct guest *g, uint64_t len);
/* Lets the NIC work till there is nothing to do. */
void settle(struct guest *g);
/* As settle(), with the timers of the next @ms; time passes only here. */
void settle_timers(struct guest *g, unsigned int ms);
/* The NIC meets the command when it works next, and nobody looks at what it answers. */
void send_command(struct guest *g, const void *cmd, size_t size);
uint8_t command(struct guest *g, const void *cmd, size_t size);
struct moor_xlat flat(uint64_t addr);

void guest_set_gid(struct guest *g, unsigned int index, unsigned int id);
uint8_t make_cq(struct guest *g, struct guest_cq *cq, uint32_t cqn,
		uint8_t log_cqe);
bool poll_cq(struct guest *g, struct guest_cq *cq, struct moor_cqe *cqe);
void arm_cq(struct guest *g, struct guest_cq *cq, enum moor_cq_arm how);
bool next_event(struct guest *g, unsigned int eqn, struct moor_eqe *eqe);

uint8_t make_qp(struct guest *g, struct guest_qp *qp, uint32_t qpn, uint32_t pd,
		const struct guest_cq *scq, const struct guest_cq *rcq);
uint8_t make_special_qp(struct guest *g, struct guest_qp *qp, uint32_t qpn,
			uint32_t pd, const struct guest_cq *scq,
			const struct guest_cq *rcq, uint8_t type,
			uint8_t flags);
/* To RTS, connected to @peer. */
void connect_qp(struct guest *g, struct guest_qp *qp, uint32_t peer);
uint8_t modify(struct guest *g, struct moor_cmd_modify_qp *cmd, uint32_t qpn);
uint32_t make_mr(struct guest *g, uint32_t pd, uint32_t access, uint64_t addr,
		 uint64_t len);
/* Bit 0: busy, bit 1: unknown. */
unsigned int revoke_key(struct guest *g, uint32_t key);
void put_entry(struct guest *g, uint32_t key, const struct moor_mr_context *e,
	       unsigned int type);

struct moor_sge sge(uint64_t addr, uint32_t len, uint32_t key);
/* A free slot of the SQ, zeroed, with an index to ring later. */
struct moor_sq_wqe *next_send(struct guest *g, struct guest_qp *qp,
			      uint8_t opcode, uint64_t wr_id);
void add_sge(struct moor_sq_wqe *wqe, struct moor_sge sge);
void post_recv(struct guest *g, struct guest_qp *qp, uint64_t wr_id,
	       const struct moor_sge *sges, unsigned int num);
/* Rings the doorbell; the NIC works later. */
void announce(struct guest *g, struct guest_qp *qp);
/* Rings the doorbell, and lets the NIC work. */
void ring(struct guest *g, struct guest_qp *qp);

#endif /* TEST_GUEST_H */
