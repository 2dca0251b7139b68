/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A NIC and a small guest for fuzz targets. Each input finds them as after
 * power-on; the clock stands unless the NIC looks at it, so that an input has
 * the same effect each time.
 */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "device/nic.h"
#include "input.h"
#include "memory/mr_state.h"

#define WORLD_PAGES	32u
#define WORLD_SIZE	(WORLD_PAGES * MOOR_PAGE_SIZE)

/* DMA addresses: all memory; the same, read-only; no memory; its first two pages. */
#define WORLD_BASE	0x100000000ull
#define WORLD_READ_ONLY	0x200000000ull
#define WORLD_NO_FILE	0x300000000ull
#define WORLD_TOP	(-(2ull * MOOR_PAGE_SIZE))

/* What the pages are used for, unless an input uses them otherwise. */
enum world_page {
	PAGE_CMD	= 0,
	PAGE_CPL	= 1,
	PAGE_DOZE	= 2,
	PAGE_EQ		= 3,	/* three EQs */
	PAGE_CQ		= 6,	/* two CQs */
	PAGE_SQ		= 8,	/* of two QPs */
	PAGE_RQ		= 10,
	PAGE_TABLE	= 12,
	PAGE_DATA	= 16,
};

#define WORLD_LOG_CMD	4
#define WORLD_LOG_EQE	3
#define WORLD_LOG_CQE	4
#define WORLD_LOG_DEPTH	3
#define WORLD_LOG_STRIDE 9
#define WORLD_PD	5
#define WORLD_QPN(i)	(0x4003u + 0x4001u * (i))
#define WORLD_SLOT(i)	(MOOR_DB_SLOTS_PER_PAGE + (i))	/* CQ 0, 1, SQ 2, 3, RQ 4, 5 */
/* SRQs, in place of the RQs: one in the first RQ's place, or with XRC two. */
#define WORLD_SRQN	0x3005u
#define WORLD_XRCD	9u
#define WORLD_QKEY	0x1234u
#define WORLD_FLUSH	(MOOR_ACCESS_FLUSH_GLOBAL | MOOR_ACCESS_FLUSH_PERSISTENT)

struct parts;

struct world {
	struct nic *nic;
	struct parts *pristine;
	struct dma_map *dma;
	int fd;
	uint8_t *memory, *mr_bar, *db_bar;
	bool dma_changed;
	unsigned int resets, runs;	/* left to this input */
	uint32_t sq_producer[2], rq_producer[2];
	uint32_t cq_consumer[2];
	uint8_t qp_type;	/* of those that world_connect() makes */
	bool shared;		/* those QPs share an SRQ */
	uint8_t generation;
	uint32_t raised;
	struct moor_cpl cpl __attribute__((aligned(8)));
};

extern struct world *w;

/* With XRC, QP 0 is a requester and QP 1 a target. */
static inline bool world_is_xrc(void)
{
	return w->qp_type == MOOR_QP_XRC_INI;
}

/* A NIC after power-on, with memory and bus mastering; @strict: nic_config. */
void world_begin(bool strict);
/* Registers and ENABLE; three EQs. */
void world_setup(void);
/*
 * Sets GID 0; makes two CQs, and two connected QPs in RTS; or QPs of type UD, in a
 * group, with GIDs of the other types; or QPs of XRC, with two SRQs.
 */
void world_connect(void);
/* The group, or the GID of this entry. */
void world_gid(uint8_t *gid, unsigned int index);
#define WORLD_GROUP	3u
void connect_qp(unsigned int i);
void modify_qp(struct moor_cmd_modify_qp *cmd, unsigned int i);
/*
 * MRs of eight pages of PAGE_DATA with all rights: at index 2 and 3 contiguous, 4
 * through a table, 5 of on-NIC memory; windows, the first of type 1, three of type 2.
 */
void world_enter_regions(void);

void *world_ptr(uint64_t addr);
uint64_t page_addr(unsigned int page);
struct moor_xlat flat(uint64_t addr);

/* Lets the NIC work, within the input's limit. */
void world_run(void);
/* Goes on to the next timer, if there is one. */
void world_run_timers(void);

/* Return: the command's status, or 0xff without a completion. */
uint8_t command(const void *cmd, size_t size);
void set_slot(uint32_t slot, uint64_t value);
/* Answers a half of QP @i, even if it has not asked for a page. */
void world_answer(unsigned int i, bool responder, uint8_t status);
void put_entry(uint32_t index, const struct moor_mr_context *e);

/* Numbers from the input that have a meaning somewhere. */
uint64_t some_number(struct input *in);
uint64_t some_addr(struct input *in);
uint32_t some_index(struct input *in);
uint32_t some_key(struct input *in);
struct moor_xlat some_xlat(struct input *in);

/* Linked in place of qp_create() and so on (__wrap_), and those themselves (__real_). */
uint8_t __real_qp_create(struct nic *nic, const struct moor_cmd *cmd,
			 struct moor_cpl *cpl);
uint8_t __wrap_qp_create(struct nic *nic, const struct moor_cmd *cmd,
			 struct moor_cpl *cpl);
uint8_t __real_cq_create(struct nic *nic, const struct moor_cmd *cmd,
			 struct moor_cpl *cpl);
uint8_t __wrap_cq_create(struct nic *nic, const struct moor_cmd *cmd,
			 struct moor_cpl *cpl);
uint8_t __real_srq_create(struct nic *nic, const struct moor_cmd *cmd,
			  struct moor_cpl *cpl);
uint8_t __wrap_srq_create(struct nic *nic, const struct moor_cmd *cmd,
			  struct moor_cpl *cpl);

/* Steps that all targets share: memory, tables, entries, doorbells ... */
void common_step(struct input *in);

#endif /* FUZZ_WORLD_H */
