// SPDX-License-Identifier: GPL-2.0
/* The process: clients that come and go, options, identity. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "moor/moor_hw.h"

static void test_refusals(struct model *model, struct client *c)
{
	uint8_t byte = 0xff;

	client_write(c, 0, MOOR_REG_CMD_BASE, &byte, 1);
	check(model_logged(model, "refused: HWI BAR-4"),
	      "what is refused is logged, with the rule");
}

/* A reset logs what was held back; but neither resets nor refusals may fill a disk. */
static void test_log_is_limited(struct model *model, struct client *c)
{
	const unsigned int rounds = 2000;
	unsigned int i, lines;
	uint8_t byte = 0xff;

	for (i = 0; i < rounds; i++) {
		client_write(c, 0, MOOR_REG_CMD_BASE, &byte, 1);
		reg_write(c, MOOR_REG_CONTROL, 0);
	}
	lines = model_logged(model, "HWI BAR-4");
	check(lines < rounds / 2, "%u refused accesses, each with a reset: %u lines",
	      rounds, lines);
}

/* State that a client leaves, and that the next client must not find. */
static void dirty(struct client *c)
{
	config_write16(c, PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	reg_write64(c, MOOR_REG_CMD_BASE, 0x1000);
	c->bar2[640] = 1;
	c->bar4[MOOR_PAGE_SIZE + 8] = 1;
}

static bool clean(struct client *c)
{
	return reg_read64(c, MOOR_REG_CMD_BASE) == 0 && !c->bar2[640] &&
	       !c->bar4[MOOR_PAGE_SIZE + 8] &&
	       reg_read(c, MOOR_REG_STATUS) & MOOR_STATUS_READY;
}

static void test_clients(struct model *model, struct client *c)
{
	struct pollfd pfd = { .events = POLLIN };
	struct client second;
	char byte;

	client_init(&second);
	client_connect(&second, model);
	pfd.fd = second.sock;
	check(poll(&pfd, 1, 20000) == 1 && read(second.sock, &byte, 1) == 0,
	      "a second client is turned away");
	check(reg_read(c, MOOR_REG_MAGIC) == MOOR_MAGIC, "the first stays");
	client_destroy(&second);

	dirty(c);
	client_disconnect(c);
	client_connect(c, model);
	client_setup(c);
	check(clean(c) && !config_read16(c, PCI_COMMAND),
	      "after the client left the next one finds a NIC after reset");
}

static void test_idle(struct model *model, struct client *c)
{
	unsigned int before = model_cpu_ms(model), used;
	struct pollfd pfd = { .fd = c->sock, .events = POLLIN };

	/* Real time has to pass: there is no event to wait for. */
	poll(&pfd, 1, 500);
	used = model_cpu_ms(model) - before;
	check(used <= 20, "idle for 500 ms: %u ms of processor time", used);
}

static void expect_usage(const char *const *args, const char *message)
{
	char text[4096];
	int status = model_run(args, text, sizeof(text));

	text[strcspn(text, "\n")] = '\0';
	check(status == 2 && strstr(text, message) && strstr(text, "--help"),
	      "exit status %d: %s", status, text);
}

#define ARGS(...)	((const char *const[]){ __VA_ARGS__, NULL })

static void test_options(struct model *model)
{
	char text[4096], path[160];

	check(model_run(ARGS("--help"), text, sizeof(text)) == 0 &&
	      strstr(text, "--socket PATH"), "--help");
	check(model_run(ARGS("--version"), text, sizeof(text)) == 0 &&
	      strstr(text, "hardware interface 1.6"), "--version");
	expect_usage(ARGS("--strict"), "--socket is missing");
	expect_usage(ARGS("--frobnicate"), "--frobnicate");
	expect_usage(ARGS("--socket"), "needs an argument");
	expect_usage(ARGS("--socket", "x", "y"), "not an option: y");
	expect_usage(ARGS("--index", "256"), "--index");
	expect_usage(ARGS("--index", "-1"), "--index");
	expect_usage(ARGS("--index", "1x"), "--index");
	expect_usage(ARGS("--seed", "18446744073709551616"), "--seed");
	expect_usage(ARGS("--mac", "02:00:00:00:00"), "--mac");
	expect_usage(ARGS("--mac", "-2:00:00:00:00:01"), "-2:00");
	expect_usage(ARGS("--strict", "-xy"), "-x");
	expect_usage(ARGS("--mac", "01:00:00:00:00:01"), "multicast");
	expect_usage(ARGS("--without", "odp,"), "not features such as odp,uc: odp,");
	expect_usage(ARGS("--without", "ucx"), "ucx");
	expect_usage(ARGS("--without", ""), "--without");
	expect_usage(ARGS("--ready-fd", "77"), "77 is not open");
	expect_usage(ARGS("--socket", "x", "--mac", "02:00:00:00:00:01",
			  "--index", "1"), "exclude each other");
	check(model_run(ARGS("--socket", model->socket), text, sizeof(text)) == 1 &&
	      strstr(text, "in use"), "a socket with a server: %s", text);
	check(model_alive(model), "that server lives on");
	check(model_run(ARGS("--socket", model->log), text, sizeof(text)) == 1 &&
	      strstr(text, "not a socket"), "a file that is no socket: %s", text);
	check(model_run(ARGS("--socket", "/proc/no/x"), text, sizeof(text)) ==
	      1 && strstr(text, "No such file"), "a folder that is not there");
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	check(model_run(ARGS("--socket", path), text, sizeof(text)) == 1 &&
	      strstr(text, "1 to 107"), "a path that is too long");
	check(model_run(ARGS("--socket", "x", "--log", "/dev/null/x"), text,
			sizeof(text)) == 1 && strstr(text, "--log"),
	      "a log that cannot be opened");
}

/* What is left of FEATURES with --without @list. */
static uint64_t features_without(const char *list)
{
	struct model model;
	struct client c;
	uint64_t features;

	client_init(&c);
	model_start(&model, ARGS("--without", list));
	client_connect(&c, &model);
	client_setup(&c);
	features = reg_read64(&c, MOOR_REG_FEATURES);
	client_destroy(&c);
	model_stop(&model);
	return features;
}

static void test_without(void)
{
	static const char *const names[] = {
		"dozes", "atomics", "mw_type_1", "mw_type_2b", "fast_reg", "odp",
		NULL, "dm", "relaxed_ordering", "uc", "cq_moderation", "srq", "ud",
		"xrc", "atomic_write", "flush_global", "flush_persistent",
	};
	uint64_t left;
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!names[i])
			continue;
		left = NIC_FEATURES & ~MOOR_BIT(i);
		if (!strcmp(names[i], "srq"))
			left &= ~MOOR_FEATURE_XRC;
		check(features_without(names[i]) == left, "--without %s", names[i]);
	}
	check(!features_without("ALL"), "--without ALL");
	check(features_without("UC,Ud") ==
	      (NIC_FEATURES & ~(MOOR_FEATURE_UC | MOOR_FEATURE_UD)),
	      "--without UC,Ud");
}

static void identity(const char *const *args, uint64_t *mac, uint64_t *guid)
{
	struct model model;
	struct client c;

	client_init(&c);
	model_start(&model, args);
	client_connect(&c, &model);
	client_setup(&c);
	*mac = reg_read64(&c, MOOR_REG_MAC);
	*guid = reg_read64(&c, MOOR_REG_NODE_GUID);
	client_destroy(&c);
	model_stop(&model);
}

static void test_identity(void)
{
	uint64_t mac[3], guid[3];

	identity(NULL, &mac[0], &guid[0]);
	identity(ARGS("--index", "7"), &mac[1], &guid[1]);
	identity(ARGS("--mac", "02:11:22:33:44:55"), &mac[2], &guid[2]);
	check(mac[0] == 0x00726f6f4d02, "MAC 02:4d:6f:6f:72:00: 0x%012llx",
	      (unsigned long long)mac[0]);
	check(mac[1] == 0x07726f6f4d02 && mac[2] == 0x554433221102,
	      "--index and --mac set it");
	check(guid[0] != guid[1] && guid[1] != guid[2] && guid[2] != guid[0],
	      "GUIDs differ");
	check(guid[2] == 0x001122fffe334455, "GUID is the EUI-64: 0x%016llx",
	      (unsigned long long)guid[2]);
}

/* --trap-bar2: writes are held back and torn, but are done when a register is read. */
static void test_trap_bar2(void)
{
	uint64_t words[64], seen[64];
	struct model model;
	struct client c;
	unsigned int i;

	client_init(&c);
	model_start(&model, ARGS("--trap-bar2", "--seed", "5"));
	client_connect(&c, &model);
	client_setup(&c);
	check(!c.bar2, "--trap-bar2: BAR2 is not to be mapped");
	for (i = 0; i < 64; i++) {
		words[i] = 0x0101010101010101ull * (i + 1);
		if (client_write(&c, MOOR_BAR_MR, 8 * i, &words[i], 8))
			die("write to BAR2");
	}
	words[9] = 42;
	client_write(&c, MOOR_BAR_MR, 8 * 9, &words[9], 8);
	reg_read(&c, MOOR_REG_FENCE);
	check(!client_read(&c, MOOR_BAR_MR, 0, seen, sizeof(seen)) &&
	      !memcmp(seen, words, sizeof(seen)),
	      "after a read of FENCE all writes are there");
	client_destroy(&c);
	check(model_stop(&model) == 0, "SIGTERM: exit status 0");
}

static void test_stale_socket(void)
{
	struct model model, next;
	struct client c;

	model_start(&model, NULL);
	check(model_stop(&model) == 0 && access(model.socket, F_OK) < 0,
	      "SIGTERM: exit status 0, the socket is gone");

	model_start(&model, NULL);
	model_kill(&model);
	check(!access(model.socket, F_OK), "SIGKILL leaves the socket");
	next = model;
	model_restart(&next, NULL);
	client_init(&c);
	client_connect(&c, &next);
	client_setup(&c);
	check(reg_read(&c, MOOR_REG_MAGIC) == MOOR_MAGIC,
	      "the next server takes its place");
	client_destroy(&c);
	model_stop(&next);
}

int main(void)
{
	struct model model;
	struct client c;

	client_init(&c);
	model_start(&model, NULL);
	client_connect(&c, &model);
	client_setup(&c);
	test_refusals(&model, &c);
	test_log_is_limited(&model, &c);
	test_clients(&model, &c);
	test_idle(&model, &c);
	test_options(&model);
	client_destroy(&c);
	check(model_stop(&model) == 0, "SIGTERM: exit status 0");
	test_identity();
	test_without();
	test_trap_bar2();
	test_stale_socket();
	return check_done();
}
