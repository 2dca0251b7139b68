// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#include "raw.h"
#include "tap.h"

/* Issues the command. Returns 0 or an errno. */
int raw_call(int fd, const struct raw *raw)
{
	size_t size = sizeof(struct ib_uverbs_cmd_hdr) + raw->core_size +
		      raw->driver_size;
	struct ib_uverbs_cmd_hdr *hdr = calloc(1, size);
	uint64_t response = (uintptr_t)raw->out;
	char *body = (char *)(hdr + 1);
	ssize_t written;

	if (!hdr)
		return ENOMEM;
	hdr->command = raw->number;
	hdr->in_words = size / 4;
	hdr->out_words = (raw->core_out + raw->driver_out) / 4;
	memcpy(body, raw->core, raw->core_size);
	if (raw->out)
		memcpy(body, &response, sizeof(response));
	if (raw->driver_size)
		memcpy(body + raw->core_size, raw->driver, raw->driver_size);
	written = write(fd, hdr, size);
	free(hdr);
	return written == (ssize_t)size ? 0 : errno;
}

/* Gets a context, with @size bytes of request for the driver. Returns 0 or an errno. */
int raw_get_context(int fd, const void *req, size_t size,
		    struct moor_alloc_ucontext_resp *resp)
{
	struct {
		struct ib_uverbs_get_context_resp core;
		struct moor_alloc_ucontext_resp driver;
	} out = {};
	struct ib_uverbs_get_context core = {};
	int err = raw_call(fd, &(struct raw){
		.number = IB_USER_VERBS_CMD_GET_CONTEXT,
		.core = &core, .core_size = sizeof(core),
		.driver = req, .driver_size = size,
		.out = &out, .core_out = sizeof(out.core),
		.driver_out = sizeof(out.driver),
	});

	*resp = out.driver;
	return err;
}

/*
 * Calls a method with all attributes mandatory; new handles are stored in @attrs.
 * Returns 0 or an errno.
 */
int raw_ioctl(int fd, uint16_t object, uint16_t method, struct raw_attr *attrs,
	      unsigned int num)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[16];
	} call = {
		.hdr = {
			.length = sizeof(call.hdr) + num * sizeof(call.attrs[0]),
			.object_id = object, .method_id = method, .num_attrs = num,
		},
	};
	unsigned int i;
	int err;

	for (i = 0; i < num; i++) {
		call.attrs[i].attr_id = attrs[i].id;
		call.attrs[i].len = attrs[i].size;
		call.attrs[i].flags = UVERBS_ATTR_F_MANDATORY;
		call.attrs[i].data = attrs[i].data;
	}
	err = ioctl(fd, RDMA_VERBS_IOCTL, &call) ? errno : 0;
	for (i = 0; i < num; i++)
		attrs[i].data = call.attrs[i].data;
	return err;
}

/* Opens the first uverbs device. Negative: there is none. */
int raw_open(void)
{
	return open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
}

int raw_open_context(struct moor_alloc_ucontext_resp *resp)
{
	uint64_t req = 0;
	int fd = raw_open();
	int err = fd < 0 ? errno : raw_get_context(fd, &req, sizeof(req), resp);

	if (err)
		tap_bail("no context: %s", strerror(err));
	return fd;
}
