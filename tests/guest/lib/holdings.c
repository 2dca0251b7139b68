// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <moor/moor_hw.h>

#include "counts.h"
#include "holdings.h"
#include "tap.h"

#define DRIVER	"/sys/bus/pci/drivers/moor"

static const struct moor_mr_context *table;
static size_t table_size;
static unsigned int entries;
static char address[256], name[256];

/* Finds the first name in a directory that begins with @prefix. */
static bool first_of(const char *path, const char *prefix, char *found, size_t size)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	found[0] = 0;
	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)) &&
		    (!found[0] || strcmp(entry->d_name, found) < 0))
			snprintf(found, size, "%s", entry->d_name);
	if (dir)
		closedir(dir);
	return found[0];
}

const char *nic_address(void)
{
	if (!address[0] && !first_of(DRIVER, "0000:", address, sizeof(address)))
		tap_bail("no NIC has the driver");
	return address;
}

const char *nic_name(void)
{
	char path[512];

	snprintf(path, sizeof(path), DRIVER "/%s/infiniband", nic_address());
	if (!first_of(path, "moor", name, sizeof(name)))
		tap_bail("%s: no device", path);
	return name;
}

void holdings_open(void)
{
	char path[512];
	off_t size;
	int fd;

	nic_name();
	if (table)
		return;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource2", nic_address());
	fd = open(path, O_RDWR | O_CLOEXEC);
	size = lseek(fd, 0, SEEK_END);
	if (size > 0)
		table = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (size <= 0 || table == MAP_FAILED)
		tap_bail("%s: %s", path, strerror(errno));
	table_size = size;
	entries = size / sizeof(*table);
	close(fd);
}

void holdings_close(void)
{
	if (table)
		munmap((void *)table, table_size);
	table = NULL;
	address[0] = 0;
	name[0] = 0;
}

static unsigned int count_entries(void)
{
	unsigned int i, count = 0;

	for (i = 0; i < entries; i++)
		count += *(volatile const __le64 *)&table[i].valid != 0;
	return count;
}

/* ---- netlink ---- */

/* Calls @visit with each message of the answer. Returns 0 or an errno. */
static int nl_dump(int command, const void *attrs, size_t length,
		   void (*visit)(const struct nlmsghdr *msg, void *arg), void *arg)
{
	static char answer[64 * 1024] __attribute__((aligned(8)));
	static struct {
		struct nlmsghdr hdr;
		char attrs[64];
	} request;
	/* Do not wait for ever for an answer that is lost. */
	const struct timeval patience = { .tv_sec = 20 };
	struct nlmsghdr *msg;
	int fd, err = -1;
	ssize_t left;

	request.hdr = (struct nlmsghdr){
		.nlmsg_len = NLMSG_LENGTH(length),
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
	};
	memcpy(request.attrs, attrs, length);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	if (fd < 0)
		return errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    send(fd, &request, request.hdr.nlmsg_len, 0) < 0)
		err = errno;
	while (err < 0) {
		left = recv(fd, answer, sizeof(answer), 0);
		if (left <= 0) {
			err = left ? errno : EPIPE;
			break;
		}
		for (msg = (void *)answer; NLMSG_OK(msg, left);
		     msg = NLMSG_NEXT(msg, left)) {
			if (msg->nlmsg_type == NLMSG_DONE ||
			    msg->nlmsg_type == NLMSG_ERROR)
				err = -*(int *)NLMSG_DATA(msg);
			else if (visit)
				visit(msg, arg);
		}
	}
	close(fd);
	return err;
}

static struct nlattr *next_attr(struct nlattr *attr)
{
	return (void *)((char *)attr + NLA_ALIGN(attr->nla_len));
}

static bool attr_ok(const struct nlattr *attr, const void *end)
{
	return (const char *)(attr + 1) <= (const char *)end &&
	       attr->nla_len >= sizeof(*attr) &&
	       (const char *)attr + attr->nla_len <= (const char *)end;
}

static void read_summary(struct nlattr *table_attr, struct holdings *held)
{
	void *end = (char *)table_attr + table_attr->nla_len;
	struct nlattr *row, *field;
	int kind = 0;

	for (row = table_attr + 1; attr_ok(row, end) && kind < RESOURCES;
	     row = next_attr(row), kind++) {
		void *row_end = (char *)row + row->nla_len;

		for (field = row + 1; attr_ok(field, row_end); field = next_attr(field))
			if ((field->nla_type & NLA_TYPE_MASK) ==
			    RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR)
				held->resource[kind] = *(uint64_t *)(field + 1);
	}
}

static void visit_device(const struct nlmsghdr *msg, void *arg)
{
	void *end = (char *)msg + msg->nlmsg_len;
	struct nlattr *attr, *summary = NULL;
	bool ours = false;

	for (attr = NLMSG_DATA(msg); attr_ok(attr, end); attr = next_attr(attr)) {
		int type = attr->nla_type & NLA_TYPE_MASK;

		if (type == RDMA_NLDEV_ATTR_DEV_NAME)
			ours = !strcmp((char *)(attr + 1), name);
		if (type == RDMA_NLDEV_ATTR_RES_SUMMARY)
			summary = attr;
	}
	if (ours && summary)
		read_summary(summary, arg);
}

void holdings_get(struct holdings *now)
{
	int err;

	*now = (struct holdings){};
	now->pinned_kib = own_pinned_kib();
	now->entries = count_entries();
	err = nl_dump(RDMA_NLDEV_CMD_RES_GET, NULL, 0, visit_device, now);
	if (err)
		tap_bail("counting resources: %s", strerror(err));
}

bool holdings_equal(const struct holdings *a, const struct holdings *b)
{
	return !memcmp(a, b, sizeof(*a));
}

void holdings_diag(const char *when, const struct holdings *held)
{
	/* In the order of the kernel's summary. */
	tap_diag("%s: %ld KiB pinned, %u entries, pd %u cq %u qp %u cm_id %u mr %u ctx %u srq %u",
		 when, held->pinned_kib, held->entries, held->resource[0],
		 held->resource[1], held->resource[2], held->resource[3],
		 held->resource[4], held->resource[5], held->resource[6]);
}

struct find {
	uint32_t index;
	bool found;
};

static void visit_index(const struct nlmsghdr *msg, void *arg)
{
	void *end = (char *)msg + msg->nlmsg_len;
	struct find *find = arg;
	struct nlattr *attr;
	uint32_t index = 0;

	for (attr = NLMSG_DATA(msg); attr_ok(attr, end); attr = next_attr(attr)) {
		int type = attr->nla_type & NLA_TYPE_MASK;

		if (type == RDMA_NLDEV_ATTR_DEV_INDEX)
			index = *(uint32_t *)(attr + 1);
		if (type == RDMA_NLDEV_ATTR_DEV_NAME &&
		    !strcmp((char *)(attr + 1), name)) {
			find->index = index;
			find->found = true;
		}
	}
}

static void count_message(const struct nlmsghdr *msg, void *arg)
{
	(void)msg;
	++*(unsigned int *)arg;
}

int resource_dump(int command, unsigned int *answers)
{
	static struct find find;
	struct {
		struct nlattr index;
		uint32_t value;
		struct nlattr details;
		uint8_t on;
		uint8_t pad[3];
	} attrs = {
		.index = { NLA_HDRLEN + 4, RDMA_NLDEV_ATTR_DEV_INDEX },
		.details = { NLA_HDRLEN + 1, RDMA_NLDEV_ATTR_DRIVER_DETAILS },
		.on = 1,
	};

	/* Look the device's index up once, so that later calls issue the dump alone. */
	if (!find.found && (nl_dump(RDMA_NLDEV_CMD_GET, NULL, 0, visit_index, &find) ||
			    !find.found))
		tap_bail("netlink does not know %s", name);
	attrs.value = find.index;
	*answers = 0;
	return nl_dump(command, &attrs, sizeof(attrs), count_message, answers);
}
