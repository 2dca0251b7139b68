// SPDX-License-Identifier: GPL-2.0
/*
 * Each handler checks the size of its message before it looks at a field. It
 * returns an errno, for the reply, or 0 when it has replied itself.
 */
#include <errno.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "pci/vfio_user.h"

/* A handler could not send its reply. No errno has this value. */
#define CLIENT_LOST	(-1)

/* Rate-limited: a client may connect, leave and come again as often as it likes. */
#define log_connection(...)						\
	do {								\
		static struct log_site log_site_;			\
		log_limited(&log_site_, "vfio-user", "client", __VA_ARGS__); \
	} while (0)

/* Messages handled before the NIC gets to work again. */
#define MAX_BATCH	64

static int reply(struct vfio_user *server, const struct vfio_message *msg,
		 const void *payload, size_t size, int fd)
{
	return vfio_socket_reply(server->sock, msg, 0, payload, size, fd) ?
		0 : CLIENT_LOST;
}

/*
 * Whether the client offers REGION_WRITE_MULTI. The text is JSON; the name and a
 * true behind it are all that matters here.
 */
static bool offers_multi(const char *caps)
{
	static const char name[] = "\"write_multiple\"";
	const char *p = strstr(caps, name);

	if (!p)
		return false;
	p += sizeof(name) - 1;
	p += strspn(p, " \t\r\n:");
	return !strncmp(p, "true", 4);
}

static int do_version(struct vfio_user *server, const struct vfio_message *msg)
{
	struct {
		struct vfio_user_version version;
		char caps[256];
	} out = { .version = { .minor = VFIO_USER_VERSION_MINOR } };
	struct vfio_user_version in;
	const char *caps = "";
	int len;

	if (server->negotiated || msg->size < sizeof(in))
		return EINVAL;
	memcpy(&in, msg->payload, sizeof(in));
	if (in.major != VFIO_USER_VERSION_MAJOR) {
		log_client("client speaks version %u.%u, this server %d.%d",
			   in.major, in.minor, VFIO_USER_VERSION_MAJOR,
			   VFIO_USER_VERSION_MINOR);
		return EINVAL;
	}
	if (msg->size > sizeof(in)) {
		if (msg->payload[msg->size - 1])
			return EINVAL;
		caps = (const char *)msg->payload + sizeof(in);
	}
	len = snprintf(out.caps, sizeof(out.caps),
		       "{\"capabilities\":{\"max_msg_fds\":%d,"
		       "\"max_data_xfer_size\":%u,\"max_dma_maps\":%d,"
		       "\"pgsizes\":%d%s}}",
		       VFIO_USER_MAX_FDS, VFIO_USER_MAX_DATA,
		       VFIO_USER_MAX_DMA_MAPS, 4096,
		       offers_multi(caps) ? ",\"write_multiple\":true" : "");
	server->negotiated = true;
	return reply(server, msg, &out,
		     sizeof(out.version) + (size_t)len + 1, -1);
}

static int do_dma_map(struct vfio_user *server, const struct vfio_message *msg)
{
	struct vfio_user_dma_map in;
	unsigned int prot = 0;
	int err;

	if (msg->size != sizeof(in) || msg->fds > 1)
		return EINVAL;
	memcpy(&in, msg->payload, sizeof(in));
	if (in.flags & ~(uint32_t)(VFIO_DMA_MAP_FLAG_READ |
				   VFIO_DMA_MAP_FLAG_WRITE))
		return EINVAL;
	if (in.flags & VFIO_DMA_MAP_FLAG_READ)
		prot |= DMA_PROT_READ;
	if (in.flags & VFIO_DMA_MAP_FLAG_WRITE)
		prot |= DMA_PROT_WRITE;
	err = dma_map_add(server->dma, in.addr, in.size, prot,
			  msg->fds ? msg->fd[0] : -1, in.offset);
	if (err) {
		log_client("DMA_MAP of 0x%llx, 0x%llx bytes: %s",
			   (unsigned long long)in.addr,
			   (unsigned long long)in.size, strerror(err));
		return err;
	}
	/* BARs come without a file too, but they are not at address 0. */
	if (!msg->fds && !in.addr)
		log_client("no file for the memory at 0: DMA will fail; "
			   "the guest's memory has to be shared");
	return reply(server, msg, NULL, 0, -1);
}

static int do_dma_unmap(struct vfio_user *server, const struct vfio_message *msg)
{
	struct vfio_user_dma_unmap in;
	int err = 0;

	if (msg->size < sizeof(in))
		return EINVAL;
	memcpy(&in, msg->payload, sizeof(in));
	if (in.flags & ~(uint32_t)VFIO_DMA_UNMAP_FLAG_ALL)
		return EINVAL;
	if (in.flags & VFIO_DMA_UNMAP_FLAG_ALL) {
		if (in.addr || in.size)
			return EINVAL;
		dma_map_clear(server->dma);
	} else {
		err = dma_map_remove(server->dma, in.addr, in.size);
	}
	return err ? err : reply(server, msg, &in, sizeof(in), -1);
}

static int do_device_info(struct vfio_user *server,
			  const struct vfio_message *msg)
{
	struct {
		uint32_t argsz, flags, num_regions, num_irqs;
	} out = {
		.argsz = sizeof(out),
		.flags = VFIO_DEVICE_FLAGS_RESET | VFIO_DEVICE_FLAGS_PCI,
		.num_regions = VFIO_PCI_NUM_REGIONS,
		.num_irqs = VFIO_PCI_NUM_IRQS,
	};

	if (msg->size < sizeof(out))
		return EINVAL;
	return reply(server, msg, &out, sizeof(out), -1);
}

static int do_region_info(struct vfio_user *server,
			  const struct vfio_message *msg)
{
	struct {
		struct vfio_region_info info;
		struct {	/* vfio_region_info_cap_sparse_mmap */
			struct vfio_info_cap_header header;
			uint32_t nr_areas;
			uint32_t reserved;
		} sparse;
		struct vfio_region_sparse_mmap_area area[ENDPOINT_MAX_AREAS];
	} out;
	struct endpoint_region region;
	struct vfio_region_info in;
	unsigned int i;
	size_t size;

	if (msg->size < sizeof(in))
		return EINVAL;
	memcpy(&in, msg->payload, sizeof(in));
	if (in.argsz < sizeof(in) || in.index >= VFIO_PCI_NUM_REGIONS)
		return EINVAL;

	endpoint_region_info(server->ep, in.index, &region);
	memset(&out, 0, sizeof(out));
	out.info.index = in.index;
	out.info.size = region.size;
	out.info.argsz = sizeof(out.info);
	if (region.size)
		out.info.flags = VFIO_REGION_INFO_FLAG_READ |
				 VFIO_REGION_INFO_FLAG_WRITE;
	if (region.fd >= 0) {
		out.info.flags |= VFIO_REGION_INFO_FLAG_MMAP;
		out.info.argsz += (uint32_t)(sizeof(out.sparse) +
					     region.areas * sizeof(out.area[0]));
		out.sparse.header.id = VFIO_REGION_INFO_CAP_SPARSE_MMAP;
		out.sparse.header.version = 1;
		out.sparse.nr_areas = region.areas;
		for (i = 0; i < region.areas && i < ENDPOINT_MAX_AREAS; i++) {
			out.area[i].offset = region.area[i].offset;
			out.area[i].size = region.area[i].size;
		}
	}

	/* Too little room: argsz says how much to ask again with. */
	size = sizeof(out.info);
	if (in.argsz >= out.info.argsz) {
		size = out.info.argsz;
		if (region.fd >= 0) {
			out.info.flags |= VFIO_REGION_INFO_FLAG_CAPS;
			out.info.cap_offset = sizeof(out.info);
		}
	}
	return reply(server, msg, &out, size, region.fd);
}

static int do_irq_info(struct vfio_user *server, const struct vfio_message *msg)
{
	struct vfio_irq_info in, out = { .argsz = sizeof(out) };

	if (msg->size < sizeof(in))
		return EINVAL;
	memcpy(&in, msg->payload, sizeof(in));
	if (in.argsz < sizeof(in) || in.index >= VFIO_PCI_NUM_IRQS)
		return EINVAL;
	out.index = in.index;
	if (in.index == VFIO_PCI_MSIX_IRQ_INDEX) {
		out.flags = VFIO_IRQ_INFO_EVENTFD;
		out.count = NIC_NUM_VECTORS;
	}
	return reply(server, msg, &out, sizeof(out), -1);
}

/*
 * An eventfd is an anonymous inode, which has no file type. Other files are not kept:
 * the client's end of its own connection, if kept here, would keep it from ending.
 */
static bool may_be_eventfd(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && !(st.st_mode & S_IFMT);
}

/* Takes the eventfds; a message without files takes those of its vectors away. */
static int set_eventfds(struct vfio_user *server, const struct vfio_message *msg,
			const struct vfio_irq_set *set)
{
	uint32_t i;

	if (msg->fds && msg->fds != set->count)
		return EINVAL;
	for (i = 0; i < msg->fds; i++)
		if (!may_be_eventfd(msg->fd[i]))
			return EINVAL;
	for (i = 0; i < set->count; i++) {
		endpoint_set_irq(server->ep, set->start + i,
				 msg->fds ? msg->fd[i] : -1);
		if (msg->fds)
			msg->fd[i] = -1;
	}
	return 0;
}

static int do_set_irqs(struct vfio_user *server, const struct vfio_message *msg)
{
	struct vfio_irq_set set;
	const uint8_t *bools;
	uint32_t i;
	int err = 0;

	if (msg->size < sizeof(set))
		return EINVAL;
	memcpy(&set, msg->payload, sizeof(set));
	if (set.index != VFIO_PCI_MSIX_IRQ_INDEX)
		return set.index < VFIO_PCI_NUM_IRQS && !set.count ?
			reply(server, msg, NULL, 0, -1) : EINVAL;
	/* Vectors are masked by the client: no MASK, no UNMASK. */
	if ((set.flags & VFIO_IRQ_SET_ACTION_TYPE_MASK) !=
	    VFIO_IRQ_SET_ACTION_TRIGGER)
		return ENOTSUP;
	if (set.start > NIC_NUM_VECTORS ||
	    set.count > NIC_NUM_VECTORS - set.start)
		return EINVAL;

	switch (set.flags & VFIO_IRQ_SET_DATA_TYPE_MASK) {
	case VFIO_IRQ_SET_DATA_NONE:
		for (i = 0; i < set.count; i++)
			endpoint_trigger_irq(server->ep, set.start + i);
		/* No vectors at all: MSI-X is switched off. */
		for (i = 0; !set.count && i < NIC_NUM_VECTORS; i++)
			endpoint_set_irq(server->ep, i, -1);
		break;
	case VFIO_IRQ_SET_DATA_BOOL:
		if (msg->size - sizeof(set) < set.count)
			return EINVAL;
		bools = msg->payload + sizeof(set);
		for (i = 0; i < set.count; i++)
			if (bools[i])
				endpoint_trigger_irq(server->ep, set.start + i);
		break;
	case VFIO_IRQ_SET_DATA_EVENTFD:
		err = set_eventfds(server, msg, &set);
		break;
	default:
		err = EINVAL;
	}
	return err ? err : reply(server, msg, NULL, 0, -1);
}

static int do_region_read(struct vfio_user *server,
			  const struct vfio_message *msg)
{
	struct {
		struct vfio_user_region_access access;
		uint8_t data[VFIO_USER_MAX_DATA];
	} out;
	int err;

	if (msg->size < sizeof(out.access))
		return EINVAL;
	memcpy(&out.access, msg->payload, sizeof(out.access));
	if (out.access.count > sizeof(out.data))
		return EINVAL;
	err = endpoint_read(server->ep, out.access.region, out.access.offset,
			    out.data, out.access.count);
	if (err)
		return err;
	return reply(server, msg, &out, sizeof(out.access) + out.access.count,
		     -1);
}

static int do_region_write(struct vfio_user *server,
			   const struct vfio_message *msg)
{
	struct vfio_user_region_access access;
	int err;

	if (msg->size < sizeof(access))
		return EINVAL;
	memcpy(&access, msg->payload, sizeof(access));
	if (msg->size - sizeof(access) != access.count)
		return EINVAL;
	err = endpoint_write(server->ep, access.region, access.offset,
			     msg->payload + sizeof(access), access.count);
	return err ? err : reply(server, msg, &access, sizeof(access), -1);
}

static int do_region_write_multi(struct vfio_user *server,
				 const struct vfio_message *msg)
{
	struct vfio_user_multi_write one;
	uint64_t count, i;
	int err;

	if (msg->size < sizeof(count))
		return EINVAL;
	memcpy(&count, msg->payload, sizeof(count));
	if (count != (msg->size - sizeof(count)) / sizeof(one) ||
	    (msg->size - sizeof(count)) % sizeof(one))
		return EINVAL;
	for (i = 0; i < count; i++) {
		memcpy(&one, msg->payload + sizeof(count) + i * sizeof(one),
		       sizeof(one));
		if (one.access.count > sizeof(one.data))
			return EINVAL;
		err = endpoint_write(server->ep, one.access.region,
				     one.access.offset, one.data,
				     one.access.count);
		if (err)
			return err;
	}
	return reply(server, msg, &count, sizeof(count), -1);
}

static int do_reset(struct vfio_user *server, const struct vfio_message *msg)
{
	log_connection("reset");
	endpoint_reset(server->ep);
	return reply(server, msg, NULL, 0, -1);
}

static int dispatch(struct vfio_user *server, const struct vfio_message *msg)
{
	if (!server->negotiated && msg->header.command != VFIO_USER_VERSION)
		return EINVAL;
	switch (msg->header.command) {
	case VFIO_USER_VERSION:
		return do_version(server, msg);
	case VFIO_USER_DMA_MAP:
		return do_dma_map(server, msg);
	case VFIO_USER_DMA_UNMAP:
		return do_dma_unmap(server, msg);
	case VFIO_USER_DEVICE_GET_INFO:
		return do_device_info(server, msg);
	case VFIO_USER_DEVICE_GET_REGION_INFO:
		return do_region_info(server, msg);
	case VFIO_USER_DEVICE_GET_IRQ_INFO:
		return do_irq_info(server, msg);
	case VFIO_USER_DEVICE_SET_IRQS:
		return do_set_irqs(server, msg);
	case VFIO_USER_REGION_READ:
		return do_region_read(server, msg);
	case VFIO_USER_REGION_WRITE:
		return do_region_write(server, msg);
	case VFIO_USER_REGION_WRITE_MULTI:
		return do_region_write_multi(server, msg);
	case VFIO_USER_DEVICE_RESET:
		return do_reset(server, msg);
	default:
		return ENOTSUP;
	}
}

void vfio_user_accept(struct vfio_user *server)
{
	/* The next client may knock before we saw that the last one left. */
	if (vfio_socket_hung_up(server->sock))
		vfio_user_drop(server, "the connection ended");
	if (!vfio_socket_accept(server->sock))
		return;
	if (!endpoint_renew_bars(server->ep)) {
		log_connection("refused, no memory for its BARs: %s", strerror(errno));
		vfio_socket_disconnect(server->sock);
		return;
	}
	server->negotiated = false;
	log_connection("connected");
}

void vfio_user_drop(struct vfio_user *server, const char *why)
{
	unsigned int i;

	log_catch_up();
	log_connection("dropped: %s", why);
	endpoint_reset(server->ep);
	dma_map_clear(server->dma);
	for (i = 0; i < NIC_NUM_VECTORS; i++)
		endpoint_set_irq(server->ep, i, -1);
	vfio_socket_disconnect(server->sock);
}

bool vfio_user_serve(struct vfio_user *server)
{
	struct vfio_message msg;
	unsigned int i;
	int err;

	/* One message costs one read: with an empty buffer, no second read for more. */
	for (i = 0; i < MAX_BATCH; i++) {
		if (i && !vfio_socket_buffered(server->sock))
			return true;
		switch (vfio_socket_receive(server->sock, &msg)) {
		case VFIO_NOTHING:
			return i > 0;
		case VFIO_GONE:
			vfio_user_drop(server, "the connection ended");
			return true;
		case VFIO_RECEIVED:
			break;
		}
		err = dispatch(server, &msg);
		if (err > 0) {
			log_client("command %u refused: %s", msg.header.command,
				   strerror(err));
			if (!vfio_socket_reply(server->sock, &msg, err, NULL, 0,
					       -1))
				err = CLIENT_LOST;
		}
		if (err == CLIENT_LOST) {
			vfio_user_drop(server, "it does not read replies");
			return true;
		}
	}
	return true;
}
