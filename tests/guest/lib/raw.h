/* SPDX-License-Identifier: GPL-2.0 */
/* uverbs commands of a program that does not use libibverbs. */
#ifndef RAW_H
#define RAW_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/ib_user_verbs.h>
#include <rdma/moor-abi.h>

/* A command: the core's structure and the driver's. */
struct raw {
	uint32_t number;	/* IB_USER_VERBS_CMD_* */
	const void *core;	/* begins with the response's address */
	size_t core_size;
	const void *driver;
	size_t driver_size;
	void *out;
	size_t core_out, driver_out;
};

int raw_call(int fd, const struct raw *raw);
int raw_get_context(int fd, const void *req, size_t size,
		    struct moor_alloc_ucontext_resp *resp);

/*
 * An attribute of a method. @data has objects and small values, else it is an
 * address.
 */
struct raw_attr {
	uint16_t id;		/* UVERBS_ATTR_* */
	uint16_t size;
	uint64_t data;
};

int raw_ioctl(int fd, uint16_t object, uint16_t method, struct raw_attr *attrs,
	      unsigned int num);
int raw_open(void);
/* Opens the device and gets a context, or bails out. Returns the file. */
int raw_open_context(struct moor_alloc_ucontext_resp *resp);

#endif /* RAW_H */
