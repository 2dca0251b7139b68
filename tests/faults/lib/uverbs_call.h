/* SPDX-License-Identifier: GPL-2.0 */
/* Valid calls of uverbs, which the fuzzer makes as they are or changed. */
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

/* An object that a call has made. For memory more than its handle is needed. */
struct object {
	uint32_t handle;
	uint32_t key;		/* MRs, windows */
	uint32_t type;		/* windows: 1 or 2 */
	bool bound;		/* of a window, as far as is known here */
	uint64_t start;		/* of an MR: its first byte's address under the key */
	uint32_t advisable_in;	/* of an MR of the dma-buf: 1 + the handle of its PD */
};

struct pool {
	struct object object[POOL];
	uint32_t count;
};

extern struct pool pool[KINDS];
extern uint8_t *arena;			/* memory to be registered and for rings */
extern uint8_t *inputs, *answers;	/* what attributes point to */
extern size_t inputs_used, answers_used;
extern uint64_t random_state;
extern int gid_index;			/* of a GID that the NIC itself has */
extern uint8_t gid[16];
extern uint32_t picked;			/* index of what pick() picked last */

extern int uverbs_fd;			/* of the context */

uint64_t next(void);
uint32_t below(uint32_t n);
bool one_in(uint32_t n);
uint32_t pick(enum kind kind);

/* The call that a builder builds. */
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
	const uint32_t *handle;		/* where the handle of the new object will be */
	const uint32_t *key;		/* likewise, or NULL */
	const uint64_t *offset;		/* where an offset for mmap() will be */
	struct object made;		/* the other members of the new object */
};

extern struct call call;

/* Clears the call, before a builder fills it in. */
void begin(void);
/* Issues the call. Returns 0 or an errno. */
int issue(void);

struct ib_uverbs_attr *attr(uint16_t id, uint16_t len, uint64_t data);

/* An operation: its builder, how often it is chosen, what kind it makes or ends. */
struct op {
	const char *name;
	void (*build)(void);		/* NULL: @act */
	uint32_t weight;
	enum kind makes, ends;
	int (*act)(void);		/* instead of a builder; 0 or an errno */
};

enum { OP_GET_CONTEXT, OP_GET_CONTEXT_IOCTL, OP_ALLOC_PD, OP_CREATE_CQ, OP_OTHERS };

extern const struct op ops[];
extern const size_t num_ops;

/* uverbs_map.c: mappings of the device, at offsets that calls have returned. */
void keep_offset(uint64_t offset);
void forget_offsets(void);
void unmap_some(void);

/*
 * uverbs_dmabuf.c: the dma-buf, made before the processes start. Returns the first file
 * descriptor above those that it needs.
 */
int dmabuf_open(void);
void dmabuf_close(void);

/* uverbs_bind.c: a QP of its own, by which windows are bound. */
bool binder_open(void);
void binder_close(void);

#endif /* UVERBS_CALL_H */
