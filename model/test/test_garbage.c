// SPDX-License-Identifier: GPL-2.0
/*
 * Garbage from the client and from the guest: messages, registers, configuration
 * space, kicks, the memory of the BARs, of rings and tables. Seeded, bounded. The
 * model answers or drops the client; it does not crash, hang, or fail to serve the
 * next client.
 */
#include <errno.h>
#include <linux/vfio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "moor/moor_hw.h"

#define MESSAGES	100000u
#define ACCESSES	100000u
#define ROUND		2000u	/* after which the model has to prove itself */
#define BATCH		64u

static uint64_t state;

static uint32_t random32(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32);
}

static uint32_t below(uint32_t bound)
{
	return random32() % bound;
}

/* A number of the kind that breaks things. */
static uint64_t odd_number(void)
{
	switch (below(8)) {
	case 0: return 0;
	case 1: return UINT64_MAX - below(16);
	case 2: return 1ull << below(64);
	case 3: return (1ull << below(64)) - 1;
	case 4: return CLIENT_BASE + below(CLIENT_SIZE);
	case 5: return below(4096);
	case 6: return (uint64_t)below(16) * MOOR_PAGE_SIZE;
	default: return (uint64_t)random32() << 32 | random32();
	}
}

static void fill(uint8_t *data, size_t size)
{
	size_t i;

	for (i = 0; i + 8 <= size; i += 8) {
		uint64_t value = odd_number();

		memcpy(data + i, &value, sizeof(value));
	}
}

/* Reads and drops the model's replies, so that its socket does not fill up. */
static bool drain(struct client *c)
{
	static uint8_t trash[65536];
	ssize_t n;

	do
		n = recv(c->sock, trash, sizeof(trash), MSG_DONTWAIT);
	while (n > 0);
	return n < 0 && errno == EAGAIN;
}

static void fresh_client(struct client *c, const struct model *model)
{
	client_disconnect(c);
	client_connect(c, model);
	client_setup(c);
}

static void garbage_message(struct client *c)
{
	static const uint8_t sizes[] = { 0, 4, 16, 20, 24, 32, 40, 48 };
	uint32_t command = below(20), size = sizes[below(sizeof(sizes))];
	uint8_t payload[256];
	/* Not the client's socket: in its own queue it would survive close(). */
	int fds[3] = { c->mem_fd, c->irq[0], STDERR_FILENO };
	uint32_t word;

	fill(payload, sizeof(payload));
	if (!below(8))
		size = below(sizeof(payload));
	/* Often nearly right: that gets further. */
	if (below(2)) {
		word = below(12);
		memcpy(payload + 8, &word, 4);
		word = below(64);
		memcpy(payload + 12, &word, 4);
		word = below(64);
		memcpy(payload + 4, &word, 4);
	}
	client_send(c, command, below(4) ? VFIO_USER_FLAG_NO_REPLY : 0, payload,
		    size, fds, below(8) ? 0 : 1 + below(3));
}

/* Bytes without even a header. */
static void garbage_bytes(struct client *c)
{
	uint8_t data[512];

	fill(data, sizeof(data));
	if (send(c->sock, data, 1 + below(sizeof(data) - 1),
		 MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		drain(c);
}

static void test_messages(struct model *model, struct client *c)
{
	uint32_t i, drops = 0;

	fresh_client(c, model);
	for (i = 0; i < MESSAGES; i++) {
		if (below(1000))
			garbage_message(c);
		else
			garbage_bytes(c);
		if (i % BATCH == 0 && !drain(c)) {
			drops++;
			fresh_client(c, model);
		}
		if (i % ROUND == 0 && !model_alive(model))
			die("dead after %u messages", i);
	}
	fresh_client(c, model);
	check(model_alive(model) && reg_read(c, MOOR_REG_MAGIC) == MOOR_MAGIC,
	      "%u garbage messages, the client dropped %u times", MESSAGES, drops);
}

/* Posted, as QEMU may do it: the model is not waited for. */
static void post(struct client *c, uint32_t region, uint64_t offset,
		 uint64_t value, uint32_t count)
{
	struct {
		struct vfio_user_region_access access;
		uint64_t value;
	} out = {
		.access = { .offset = offset, .region = region, .count = count },
		.value = value,
	};

	client_send(c, VFIO_USER_REGION_WRITE, VFIO_USER_FLAG_NO_REPLY, &out,
		    sizeof(out.access) + count, NULL, 0);
}

/* Rings that are where they should be, full of garbage. */
static void enable(struct client *c)
{
	uint64_t base = CLIENT_BASE;

	post(c, VFIO_PCI_CONFIG_REGION_INDEX, 4, 6, 2);
	post(c, 0, MOOR_REG_CONTROL, MOOR_CONTROL_RESET, 4);
	post(c, 0, MOOR_REG_CMD_BASE, base, 8);
	post(c, 0, MOOR_REG_CPL_BASE, base + 65536, 8);
	post(c, 0, MOOR_REG_CMD_LOG_SIZE, 1 + below(8), 4);
	post(c, 0, MOOR_REG_DOZE_ADDR, base + 131072, 8);
	post(c, 0, MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE, 4);
}

static void garbage_command(struct client *c)
{
	static const uint8_t opcodes[] = {
		MOOR_CMD_CREATE_EQ, MOOR_CMD_CREATE_CQ, MOOR_CMD_CREATE_QP,
		MOOR_CMD_MODIFY_QP, MOOR_CMD_RESIZE_CQ, MOOR_CMD_MODIFY_CQ,
		MOOR_CMD_SET_GID,
		MOOR_CMD_MR_REVOKE, MOOR_CMD_MR_QUERY, MOOR_CMD_DESTROY_QP,
		MOOR_CMD_DESTROY_CQ, MOOR_CMD_DESTROY_EQ, 0xff,
	};
	uint32_t slot = below(256), i;
	uint8_t *cmd = c->mem + slot * MOOR_CMD_SIZE;

	memset(cmd, 0, MOOR_CMD_SIZE);
	cmd[0] = opcodes[below(sizeof(opcodes))];
	for (i = 8; i < MOOR_CMD_SIZE; i += 4) {
		uint32_t value = (uint32_t)(below(3) ? below(4) : odd_number());

		if (below(4))
			memcpy(cmd + i, &value, 4);
	}
}

static void garbage_access(struct client *c)
{
	static const uint32_t counts[] = { 1, 2, 4, 4, 4, 8, 8, 3 };
	uint32_t count = counts[below(8)];

	switch (below(10)) {
	case 0:
		post(c, 0, below(2) ? below(0x200) & ~3u : below(0x10000),
		     odd_number(), count);
		break;
	case 1:
		post(c, VFIO_PCI_CONFIG_REGION_INDEX, below(4096), odd_number(),
		     count);
		break;
	case 2:
		post(c, MOOR_BAR_DB, NIC_KICK_OFFSET + (below(16 * 512) << 3), 1, 4);
		break;
	case 3:
		post(c, below(6), odd_number(), odd_number(), count);
		break;
	case 4:
		fill(c->bar2 + below(4096) * 64, 64);
		break;
	case 5:
		fill(c->bar4 + (below(4 * 512) << 3), 8);
		break;
	case 6:
		fill(c->mem + (below(CLIENT_SIZE / 64) & 0xffff) * 64, 64);
		break;
	case 7:
		enable(c);
		break;
	default:
		garbage_command(c);
		*(uint64_t *)c->bar4 += 1;
		post(c, MOOR_BAR_DB, NIC_KICK_OFFSET, 1, 4);
	}
}

static void test_accesses(const char *option)
{
	const char *const args[] = { option, NULL };
	struct model model;
	struct client c;
	uint32_t i;

	client_init(&c);
	model_start(&model, option ? args : NULL);
	client_connect(&c, &model);
	client_setup(&c);
	for (i = 0; i < ACCESSES; i++) {
		garbage_access(&c);
		if (i % ROUND == 0 && reg_read(&c, MOOR_REG_MAGIC) != MOOR_MAGIC)
			die("no answer after %u accesses", i);
	}
	reg_write(&c, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	check(reg_read(&c, MOOR_REG_STATUS) & MOOR_STATUS_READY &&
	      !(reg_read(&c, MOOR_REG_STATUS) & MOOR_STATUS_FATAL),
	      "%u garbage accesses%s%s, then a reset that works", ACCESSES,
	      option ? " with " : "", option ? option : "");
	client_destroy(&c);
	check(model_stop(&model) == 0, "SIGTERM: exit status 0");
}

int main(void)
{
	struct model model;
	struct client c;

	state = 0x6d6f6f72;
	client_init(&c);
	model_start(&model, NULL);
	test_messages(&model, &c);
	client_destroy(&c);
	check(model_stop(&model) == 0, "SIGTERM: exit status 0");
	test_accesses(NULL);
	test_accesses("--strict");
	return check_done();
}
