/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages of the vfio-user protocol, version 0.0. All fields are in the byte
 * order of the host. What a payload shares with the ioctls of VFIO is taken
 * from <linux/vfio.h>.
 */
#ifndef MODEL_VFIO_MESSAGE_H
#define MODEL_VFIO_MESSAGE_H

#include <stdint.h>

struct vfio_user_header {
	uint16_t id;
	uint16_t command;
	uint32_t size;		/* of the message, header included */
	uint32_t flags;
	uint32_t error;		/* errno, with VFIO_USER_FLAG_ERROR */
};

#define VFIO_USER_FLAG_TYPE	0x0fu
#define VFIO_USER_TYPE_COMMAND	0x00u
#define VFIO_USER_TYPE_REPLY	0x01u
#define VFIO_USER_FLAG_NO_REPLY	0x10u
#define VFIO_USER_FLAG_ERROR	0x20u

enum vfio_user_command {
	VFIO_USER_VERSION		= 1,
	VFIO_USER_DMA_MAP		= 2,
	VFIO_USER_DMA_UNMAP		= 3,
	VFIO_USER_DEVICE_GET_INFO	= 4,
	VFIO_USER_DEVICE_GET_REGION_INFO = 5,
	VFIO_USER_DEVICE_GET_REGION_IO_FDS = 6,
	VFIO_USER_DEVICE_GET_IRQ_INFO	= 7,
	VFIO_USER_DEVICE_SET_IRQS	= 8,
	VFIO_USER_REGION_READ		= 9,
	VFIO_USER_REGION_WRITE		= 10,
	VFIO_USER_DEVICE_RESET		= 13,
	VFIO_USER_DIRTY_PAGES		= 14,
	VFIO_USER_REGION_WRITE_MULTI	= 15,
};

#define VFIO_USER_VERSION_MAJOR	0
#define VFIO_USER_VERSION_MINOR	0

/* Capabilities, as JSON and a NUL, follow. */
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
	uint32_t flags;		/* VFIO_DMA_UNMAP_FLAG_ALL */
	uint64_t addr;
	uint64_t size;
};

/* Data follows in a write and in the reply to a read. */
struct vfio_user_region_access {
	uint64_t offset;
	uint32_t region;
	uint32_t count;
};

#define VFIO_USER_MULTI_DATA	8

struct vfio_user_multi_write {
	struct vfio_user_region_access access;
	uint8_t data[VFIO_USER_MULTI_DATA];
};

/* What both sides agree on. */
#define VFIO_USER_MAX_FDS	8
#define VFIO_USER_MAX_DATA	65536u
#define VFIO_USER_MAX_MESSAGE						\
	(sizeof(struct vfio_user_header) +				\
	 sizeof(struct vfio_user_region_access) + VFIO_USER_MAX_DATA)
#define VFIO_USER_MAX_DMA_MAPS	65535

#endif /* MODEL_VFIO_MESSAGE_H */
