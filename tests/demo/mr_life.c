// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a memory region, for people to read: register it, look at its entry in
 * the device, write and read it through its rkey, deregister it, and use the rkey once
 * more. Plain libibverbs; two RC QPs of one process in loopback.
 *
 * Exit status: 0 when every step went as the manual pages say.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define REGION_SIZE	(4ul << 20)
#define LOCAL_SIZE	(64ul << 10)
#define REMOTE_OFFSET	(1ul << 20)

struct endpoint {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *requester;
	struct ibv_qp *responder;
	union ibv_gid gid;
	uint8_t gid_index;
};

static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("  FAILED: ", stdout);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	exit(1);
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

/* Finds the first RoCE v2 GID, for a connection over the device's own port. */
static void find_gid(struct endpoint *ep)
{
	struct ibv_gid_entry entries[64];
	ssize_t i, n = ibv_query_gid_table(ep->ctx, entries, 64, 0);

	for (i = 0; i < n; i++) {
		if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		ep->gid = entries[i].gid;
		ep->gid_index = entries[i].gid_index;
		return;
	}
	fail("no RoCE v2 GID on %s: is its netdev up?",
	     ibv_get_device_name(ep->ctx->device));
}

static struct ibv_qp *create_qp(struct endpoint *ep)
{
	struct ibv_qp_init_attr init = {
		.send_cq = ep->cq,
		.recv_cq = ep->cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(ep->pd, &init);

	if (!qp)
		fail("ibv_create_qp: %s", strerror(errno));
	return qp;
}

static void connect_qp(struct endpoint *ep, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	int ret;

	ret = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS);
	if (ret)
		fail("QP to INIT: %s", strerror(ret));

	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_4096;
	attr.dest_qp_num = peer;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.dgid = ep->gid;
	attr.ah_attr.grh.sgid_index = ep->gid_index;
	attr.ah_attr.grh.hop_limit = 1;
	attr.ah_attr.port_num = 1;
	ret = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			    IBV_QP_MIN_RNR_TIMER);
	if (ret)
		fail("QP to RTR: %s", strerror(ret));

	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	ret = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (ret)
		fail("QP to RTS: %s", strerror(ret));
}

static void open_endpoint(struct endpoint *ep, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ep->ctx = ibv_open_device(list[i]);
	if (!ep->ctx)
		fail("cannot open device %s: %s", name, strerror(errno));
	ibv_free_device_list(list);

	find_gid(ep);
	ep->pd = ibv_alloc_pd(ep->ctx);
	ep->cq = ibv_create_cq(ep->ctx, 16, NULL, NULL, 0);
	if (!ep->pd || !ep->cq)
		fail("cannot create PD and CQ: %s", strerror(errno));
	ep->requester = create_qp(ep);
	ep->responder = create_qp(ep);
	connect_qp(ep, ep->requester, ep->responder->qp_num);
	connect_qp(ep, ep->responder, ep->requester->qp_num);
}

/* Posts one RDMA operation and polls for its completion, ten seconds at most. */
static enum ibv_wc_status rdma(struct endpoint *ep, enum ibv_wr_opcode opcode,
			       struct ibv_mr *local, uint64_t remote, uint32_t rkey,
			       double *us)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)local->addr,
		.length = local->length,
		.lkey = local->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = remote, .rkey = rkey },
	};
	double start = now_us();
	struct ibv_wc wc;
	int n;

	if (ibv_post_send(ep->requester, &wr, &bad))
		fail("ibv_post_send refused the request");
	do {
		n = ibv_poll_cq(ep->cq, 1, &wc);
	} while (!n && now_us() - start < 1e7);
	*us = now_us() - start;
	if (n != 1)
		fail("no completion within ten seconds");
	return wc.status;
}

/* Explanations of the fields that need one. */
static const struct {
	const char *name, *meaning;
} fields[] = {
	{ "lkey", "key for requests of one's own" },
	{ "rkey", "key for the peer" },
	{ "generation", "goes up when the key is registered anew" },
	{ "pd", "protection domain: queue pairs of another one are refused" },
	{ "access", "rights, a bit each" },
	{ "iova", "address of the first byte, as requests name it" },
	{ "length", "bytes" },
	{ "levels", "of the tree of tables; 0: memory in one piece" },
	{ "page_shift", "a leaf maps two to the power of this" },
	{ "nodes", "pages of 4 KiB that the tree takes" },
	{ "root", "DMA address of the tree" },
	{ "offset", "of the first byte in what the tree maps" },
};

static void print_field(const char *name, const char *value)
{
	size_t i;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(name, fields[i].name))
			printf("    %-10s %16s   %s\n", name, value,
			       fields[i].meaning);
}

/* Prints the values of @row, each with its name in @heading. */
static void print_row(char *heading, char *row)
{
	static const char separators[] = { ' ', '\n', '\0' };
	char *next_name, *next_value;
	char *name = strtok_r(heading, separators, &next_name);
	char *value = strtok_r(row, separators, &next_value);

	while (name && value) {
		print_field(name, value);
		name = strtok_r(NULL, separators, &next_name);
		value = strtok_r(NULL, separators, &next_value);
	}
}

/* Print what the driver shows of this MR. */
static void show_context(const char *device, uint32_t key)
{
	char path[512], function[256], heading[512], row[512], wanted[16];
	bool found = false;
	FILE *file;
	ssize_t n;

	/*
	 * The driver's debugfs directory is named by the PCI address, the end of this
	 * link.
	 */
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", device);
	n = readlink(path, function, sizeof(function) - 1);
	if (n < 0)
		fail("%s: %s", path, strerror(errno));
	function[n] = 0;
	snprintf(path, sizeof(path), "/sys/kernel/debug/moor/%s/mr",
		 strrchr(function, '/') + 1);
	snprintf(wanted, sizeof(wanted), "%08" PRIx32, key);
	file = fopen(path, "r");
	if (!file || !fgets(heading, sizeof(heading), file))
		fail("%s: %s", path, strerror(errno));
	while (!found && fgets(row, sizeof(row), file))
		found = strstr(row, wanted);
	fclose(file);
	if (!found)
		fail("%s does not list key %s", path, wanted);
	print_row(heading, row);
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t size, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, addr, size, access);

	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	return mr;
}

int main(int argc, char **argv)
{
	struct endpoint ep = {};
	struct ibv_mr *region, *local;
	enum ibv_wc_status status;
	unsigned char *memory, *buffer;
	uint64_t remote;
	uint32_t rkey;
	double start, us;
	int ret;

	if (argc != 2) {
		fprintf(stderr, "usage: %s DEVICE    the life of a memory region, step by step\n",
			argv[0]);
		return 2;
	}
	open_endpoint(&ep, argv[1]);
	memory = mmap(NULL, REGION_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	buffer = aligned_alloc(4096, LOCAL_SIZE);
	if (memory == MAP_FAILED || !buffer)
		fail("out of memory");
	memset(buffer, 0xa5, LOCAL_SIZE);
	local = reg(ep.pd, buffer, LOCAL_SIZE, IBV_ACCESS_LOCAL_WRITE);

	start = now_us();
	region = reg(ep.pd, memory, REGION_SIZE, IBV_ACCESS_LOCAL_WRITE |
		     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	us = now_us() - start;
	rkey = region->rkey;
	remote = (uintptr_t)memory + REMOTE_OFFSET;
	printf("  ibv_reg_mr          4 MiB at %p: rkey 0x%08x, %.0f us\n",
	       (void *)memory, rkey, us);
	puts("  the context entry and the shape of its table:");
	show_context(argv[1], rkey);

	status = rdma(&ep, IBV_WR_RDMA_WRITE, local, remote, rkey, &us);
	if (status || memcmp(memory + REMOTE_OFFSET, buffer, LOCAL_SIZE) ||
	    memory[REMOTE_OFFSET - 1] || memory[REMOTE_OFFSET + LOCAL_SIZE])
		fail("RDMA WRITE: %s, or other data than sent", ibv_wc_status_str(status));
	printf("  RDMA WRITE          64 KiB through the rkey: data as sent, %.0f us\n", us);

	memset(memory + REMOTE_OFFSET, 0x3c, LOCAL_SIZE);
	status = rdma(&ep, IBV_WR_RDMA_READ, local, remote, rkey, &us);
	if (status || memcmp(memory + REMOTE_OFFSET, buffer, LOCAL_SIZE))
		fail("RDMA READ: %s, or other data than stored", ibv_wc_status_str(status));
	printf("  RDMA READ           64 KiB through the rkey: data as stored, %.0f us\n", us);

	start = now_us();
	ret = ibv_dereg_mr(region);
	if (ret)
		fail("ibv_dereg_mr: %s", strerror(ret));
	printf("  ibv_dereg_mr        0, %.0f us\n", now_us() - start);

	memset(buffer, 0x77, LOCAL_SIZE);
	status = rdma(&ep, IBV_WR_RDMA_WRITE, local, remote, rkey, &us);
	if (status != IBV_WC_REM_ACCESS_ERR)
		fail("the rkey still does something: %s", ibv_wc_status_str(status));
	if (memory[REMOTE_OFFSET] != 0x3c)
		fail("memory was written after deregistration");
	printf("  RDMA WRITE again    \"%s\", memory untouched\n", ibv_wc_status_str(status));
	return 0;
}
