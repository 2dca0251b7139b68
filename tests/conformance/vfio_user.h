/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The client's end of the vfio-user protocol, version 0.0: messages, and a
 * connection to whatever serves the device. Fields are in the host's byte order;
 * what a payload shares with the ioctls of VFIO is in <linux/vfio.h>.
 */
#ifndef CONFORMANCE_VFIO_USER_H
#define CONFORMANCE_VFIO_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vfio_user_header {
	uint16_t id;
	uint16_t command;
	uint32_t size;		/* of the message, header included */
	uint32_t flags;
	uint32_t error;		/* errno, with VFIO_USER_FLAG_ERROR */
};

#define VFIO_USER_FLAG_TYPE	0x0fu
#define VFIO_USER_TYPE_REPLY	0x01u
#define VFIO_USER_FLAG_ERROR	0x20u

enum vfio_user_command {
	VFIO_USER_VERSION			= 1,
	VFIO_USER_DMA_MAP			= 2,
	VFIO_USER_DMA_UNMAP			= 3,
	VFIO_USER_DEVICE_GET_INFO		= 4,
	VFIO_USER_DEVICE_GET_REGION_INFO	= 5,
	VFIO_USER_DEVICE_GET_IRQ_INFO		= 7,
	VFIO_USER_DEVICE_SET_IRQS		= 8,
	VFIO_USER_REGION_READ			= 9,
	VFIO_USER_REGION_WRITE			= 10,
	VFIO_USER_DEVICE_RESET			= 13,
};

struct vfio_user_version {
	uint16_t major;
	uint16_t minor;
};

struct vfio_user_dma_map {
	uint32_t argsz;
	uint32_t flags;		/* VFIO_DMA_MAP_FLAG_READ, _WRITE */
	uint64_t offset;
	uint64_t addr;
	uint64_t size;
};

struct vfio_user_dma_unmap {
	uint32_t argsz;
	uint32_t flags;
	uint64_t addr;
	uint64_t size;
};

/* Data follows in a write, and in the answer to a read. */
struct vfio_user_region_access {
	uint64_t offset;
	uint32_t region;
	uint32_t count;
};

struct vfio_user_reply {
	uint8_t data[4096 + sizeof(struct vfio_user_region_access)];
	uint32_t size;
	int fd;			/* that came with the reply, or -1: the caller closes it */
};

/*
 * Connects and agrees on a version. Return: 0, or the errno of one that nobody takes; any
 * other failure ends the program.
 */
int vfio_user_connect(const char *path);
void vfio_user_disconnect(void);

/* Return: how many files one message may carry. */
unsigned int vfio_user_max_fds(void);

/*
 * A command and its answer. @reply may be NULL. Return: 0, or the errno of the
 * answer; a server that is silent for too long or hangs up ends the program.
 */
int vfio_user_call(unsigned int command, const void *payload, size_t size,
		   const int *fds, unsigned int num_fds,
		   struct vfio_user_reply *reply);

/* Up to 4 KiB. Return: 0 or an errno. */
int vfio_user_read(unsigned int region, uint64_t offset, void *data,
		   uint32_t count);
int vfio_user_write(unsigned int region, uint64_t offset, const void *data,
		    uint32_t count);

#endif /* CONFORMANCE_VFIO_USER_H */
