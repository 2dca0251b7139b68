/* SPDX-License-Identifier: GPL-2.0 */
/* Calls of uverbs, valid ones, for the fuzzer to make and to change. */
#ifndef UVERBS_CALL_H
#define UVERBS_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#define PAGE		4096u
#define ARENA		(4u << 20)
#define MAX_ATTRS	16
#define POOL		24

enum kind { PD, CQ, QP, MR, MW, AH, DM, CHANNEL, KINDS, NONE = KINDS };

/* What a call has made: of memory more than its handle is needed. */
struct object {
	uint32_t handle;
	uint32_t key;		/* MRs, windows */
	uint32_t type;		/* windows: 1 or 2 */
	bool bound;		/* windows, as far as is known here */
	uint64_t start;		/* MRs: the first byte as a key names it */
	uint32_t advisable_in;	/* MRs of the dma-buf: 1 + the handle of the PD */
};

struct pool {
	struct object object[POOL];
	uint32_t count;
};

extern struct pool pool[KINDS];
extern uint8_t *arena;			/* to be registered, and for rings */
extern uint8_t *inputs, *answers;	/* what attributes point to */
extern size_t inputs_used, answers_used;
extern uint64_t random_state;
extern int gid_index;			/* of a GID of the NIC's own */
extern uint8_t gid[16];
extern uint32_t picked;			/* by pick(), the last one */

extern int uverbs_fd;			/* of the context */

uint64_t next(void);
uint32_t below(uint32_t n);
bool one_in(uint32_t n);
uint32_t pick(enum kind kind);

/* What a builder makes. */
struct call {
	bool by_write;
	/* write() */
	uint8_t bytes[512];
	size_t size;
	/* ioctl() */
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[MAX_ATTRS + 1];
	} ioctl;
	const uint32_t *handle;		/* where a new one will be */
	const uint32_t *key;		/* likewise, or NULL */
	const uint64_t *offset;		/* where an offset for mmap() will be */
	struct object made;		/* the rest of what is made */
};

extern struct call call;

/* Forgets the call before, for a builder to fill in. */
void begin(void);
/* 0 or an errno. */
int issue(void);

struct ib_uverbs_attr *attr(uint16_t id, uint16_t len, uint64_t data);

/* A builder, how often it is chosen, and what comes and goes by it. */
struct op {
	const char *name;
	void (*build)(void);		/* NULL: @act */
	uint32_t weight;
	enum kind makes, ends;
	int (*act)(void);		/* what is no call of uverbs; 0 or an errno */
};

enum { OP_GET_CONTEXT, OP_GET_CONTEXT_IOCTL, OP_ALLOC_PD, OP_CREATE_CQ, OP_OTHERS };

extern const struct op ops[];
extern const size_t num_ops;

/* uverbs_map.c: mappings of the device, at offsets that it gave. */
void keep_offset(uint64_t offset);
void forget_offsets(void);
void unmap_some(void);

/*
 * uverbs_dmabuf.c: a buffer that is there before the processes are; returns the
 * first file descriptor that it does not need.
 */
int dmabuf_open(void);
void dmabuf_close(void);

/* uverbs_bind.c: a QP beside the others, for windows to be bound by. */
bool binder_open(void);
void binder_close(void);

#endif /* UVERBS_CALL_H */
