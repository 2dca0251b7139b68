// SPDX-License-Identifier: GPL-2.0
/* The control socket: what each command makes the NIC do, and hostile clients. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"
#include "moor/moor_hw.h"

#define LOG_ENTRIES	5
#define ENTRIES		(1u << LOG_ENTRIES)
#define WAIT_NS		10000000000ull
#define ANSWER_MS	10000
#define EQN		2
#define EQ_VECTOR	4
#define LOG_EQE		4
#define MAX_CLIENTS	4
#define ARGS(...)	((const char *const[]){ __VA_ARGS__, NULL })

struct nic_user {
	struct model model;
	struct client c;
	char path[96];
	int fd;				/* connection to the control socket */
	struct moor_cmd *ring;
	struct moor_cpl *cpl;
	struct moor_eqe *eq;
	uint32_t issued, completed, events;
};

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die("%s: %s", path, strerror(errno));
	return fd;
}

/* A line of answer without its end; NULL when the server hangs up instead. */
static const char *answer(int fd)
{
	static char line[4096];
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	size_t used = 0;

	do {
		if (poll(&pfd, 1, ANSWER_MS) <= 0)
			die("the control socket does not answer");
		if (recv(fd, line + used, 1, 0) != 1)
			return NULL;
	} while (line[used++] != '\n' && used < sizeof(line));
	line[used - 1] = '\0';
	return line;
}

static const char *ask(struct nic_user *u, const char *command)
{
	char line[512];
	int len = snprintf(line, sizeof(line), "%s\n", command);
	const char *got;

	if (send(u->fd, line, (size_t)len, MSG_NOSIGNAL) != len)
		die("control: %s", strerror(errno));
	got = answer(u->fd);
	return got ? got : "closed";
}

static void must(struct nic_user *u, const char *command)
{
	const char *got = ask(u, command);

	if (strncmp(got, "ok", 2))
		die("%s: %s", command, got);
}

/* Is @what in the answer to "status"? */
static bool has(struct nic_user *u, const char *what)
{
	return strstr(ask(u, "status"), what);
}

static unsigned long long dma(struct nic_user *u)
{
	const char *number = strstr(ask(u, "status"), "dma=");

	return number ? strtoull(number + 4, NULL, 10) : 0;
}

static void enable(struct nic_user *u)
{
	uint64_t ring, cpl, doze;

	u->ring = guest_alloc(&u->c, ENTRIES * MOOR_CMD_SIZE, &ring);
	u->cpl = guest_alloc(&u->c, ENTRIES * MOOR_CPL_SIZE, &cpl);
	guest_alloc(&u->c, MOOR_PAGE_SIZE, &doze);
	reg_write64(&u->c, MOOR_REG_CMD_BASE, ring);
	reg_write64(&u->c, MOOR_REG_CPL_BASE, cpl);
	reg_write64(&u->c, MOOR_REG_DOZE_ADDR, doze);
	reg_write(&u->c, MOOR_REG_CMD_LOG_SIZE, LOG_ENTRIES);
	config_write16(&u->c, PCI_COMMAND,
		       PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
	reg_write(&u->c, MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	u->issued = 0;
	u->completed = 0;
	u->events = 0;
}

static void start(struct nic_user *u)
{
	memset(u, 0, sizeof(*u));
	snprintf(u->path, sizeof(u->path), "/tmp/moor-control-%d", getpid());
	client_init(&u->c);
	model_start(&u->model, ARGS("--control", u->path));
	client_connect(&u->c, &u->model);
	client_setup(&u->c);
	enable(u);
	u->fd = connect_to(u->path);
}

static void stop(struct nic_user *u)
{
	close(u->fd);
	client_destroy(&u->c);
	check(model_stop(&u->model) == 0 && access(u->path, F_OK) < 0,
	      "SIGTERM: exit status 0, the control socket is gone");
}

/* The command's tag is its number. */
static void issue(struct nic_user *u, const void *cmd, size_t size)
{
	struct moor_cmd *entry = &u->ring[u->issued % ENTRIES];
	uint32_t one = 1;
	uint64_t slot;

	memset(entry, 0, sizeof(*entry));
	memcpy(entry, cmd, size);
	entry->hdr.tag = (uint16_t)u->issued;
	slot = ++u->issued;
	__atomic_store_n((uint64_t *)u->c.bar4, slot, __ATOMIC_SEQ_CST);
	client_write(&u->c, MOOR_BAR_DB, NIC_KICK_OFFSET, &one, sizeof(one));
}

static void issue_nop(struct nic_user *u)
{
	const struct moor_cmd_hdr nop = { .opcode = MOOR_CMD_NOP };

	issue(u, &nop, sizeof(nop));
}

/* The next completion, which has to come. */
static const struct moor_cpl *completion(struct nic_user *u)
{
	uint32_t phase = !(u->completed >> LOG_ENTRIES & 1);
	struct moor_cpl *cpl = &u->cpl[u->completed++ % ENTRIES];
	uint64_t end = now_ns() + WAIT_NS;

	while ((__atomic_load_n(&cpl->phase, __ATOMIC_ACQUIRE) & 1) != phase)
		if (now_ns() > end)
			die("no completion");
	return cpl;
}

static bool completes(struct nic_user *u, uint16_t tag, uint8_t status)
{
	const struct moor_cpl *cpl = completion(u);

	if (cpl->tag == tag && cpl->status == status)
		return true;
	note("tag %u, status 0x%02x", cpl->tag, cpl->status);
	return false;
}

static bool nop_ends_with(struct nic_user *u, uint8_t status)
{
	issue_nop(u);
	return completes(u, (uint16_t)(u->issued - 1), status);
}

static bool next_event(struct nic_user *u, uint8_t type, uint32_t number)
{
	uint32_t phase = !(u->events >> LOG_EQE & 1);
	struct moor_eqe *eqe = &u->eq[u->events % (1u << LOG_EQE)];

	/* The event was requested, and the request answered: no need to wait. */
	if ((__atomic_load_n(&eqe->phase, __ATOMIC_ACQUIRE) & 1) != phase)
		return false;
	u->events++;
	__atomic_store_n((uint64_t *)u->c.bar4 + MOOR_DB_SLOT_EQ_CONSUMER + EQN,
			 u->events, __ATOMIC_SEQ_CST);
	return eqe->type == type && eqe->number == number;
}

static void *make_eq(struct nic_user *u, uint32_t eqn)
{
	struct moor_cmd_create_eq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_EQ,
		.eqn = eqn, .vector = EQ_VECTOR, .log_eqe = LOG_EQE,
	};
	uint64_t base;
	void *eq = guest_alloc(&u->c, MOOR_PAGE_SIZE, &base);

	cmd.base = base;
	issue(u, &cmd, sizeof(cmd));
	if (!completes(u, (uint16_t)(u->issued - 1), MOOR_CMD_OK))
		die("CREATE_EQ");
	return eq;
}

/* Interrupts of a vector since the last look. */
static uint64_t interrupts(struct nic_user *u, unsigned int vector)
{
	uint64_t count;

	return read(u->c.irq[vector], &count, sizeof(count)) < 0 ? 0 : count;
}

static void test_rules(struct nic_user *u)
{
	must(u, "fail NOP BUSY 2 after 2");
	check(nop_ends_with(u, MOOR_CMD_OK) && nop_ends_with(u, MOOR_CMD_OK) &&
	      nop_ends_with(u, MOOR_CMD_BUSY) &&
	      nop_ends_with(u, MOOR_CMD_BUSY) && nop_ends_with(u, MOOR_CMD_OK),
	      "fail NOP BUSY 2 after 2: the third and the fourth");
	must(u, "fail 0x40 NO_RESOURCE always");
	check(nop_ends_with(u, MOOR_CMD_OK), "a rule for another opcode");
	must(u, "fail any 0xa5 always");
	check(nop_ends_with(u, 0xa5) && nop_ends_with(u, 0xa5) &&
	      has(u, "rules=2"), "fail any 0xa5 always");
	must(u, "clear");
	check(nop_ends_with(u, MOOR_CMD_OK) && has(u, "rules=0"), "clear");

	must(u, "drop nop");
	issue_nop(u);
	check(nop_ends_with(u, MOOR_CMD_OK),
	      "drop: the next completion is the next command's");

	must(u, "twice any");
	check(nop_ends_with(u, MOOR_CMD_OK), "twice: the answer");
	issue_nop(u);
	check(completes(u, (uint16_t)(u->issued - 2), MOOR_CMD_OK) &&
	      completes(u, (uint16_t)(u->issued - 1), MOOR_CMD_OK),
	      "twice: once more, before the next one's");

	must(u, "fail any BUSY");
	reg_write(&u->c, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	enable(u);
	check(nop_ends_with(u, MOOR_CMD_BUSY) && nop_ends_with(u, MOOR_CMD_OK),
	      "a rule outlives a reset");
}

/* "page-request": the event is as given, in the EQ of page requests. */
static void test_page_requests(struct nic_user *u)
{
	static const char * const call =
		"page-request 0xff 0x12345678 1 0xffffff 0xfedcba9876543210 0xffffffff";
	const struct moor_page_request *r;

	check(!strncmp(ask(u, call), "error ", 6),
	      "a page request, and no queue for it");
	r = make_eq(u, MOOR_EQ_PAGE_REQUEST);
	interrupts(u, EQ_VECTOR);
	must(u, call);
	check(__atomic_load_n(&r->phase, __ATOMIC_ACQUIRE) == 1 &&
	      r->type == MOOR_EVENT_PAGE_REQUEST && r->flags == 0xff &&
	      r->token == 0x12345678 && r->key == 1 && r->qpn == 0xffffff &&
	      r->addr == 0xfedcba9876543210 && r->length == 0xffffffff &&
	      interrupts(u, EQ_VECTOR) == 1, "a page request, with an interrupt");
}

static void test_rings(struct nic_user *u)
{
	unsigned int i, known = 0;

	interrupts(u, MOOR_VECTOR_CMD);
	must(u, "stray 4660 BAD_STATE");
	check(completes(u, 4660, MOOR_CMD_BAD_STATE) &&
	      interrupts(u, MOOR_VECTOR_CMD) == 1, "stray, with an interrupt");
	must(u, "garbage commands 16");
	for (i = 0; i < 16; i++)
		known += !completion(u)->status;
	check(known < 8 && nop_ends_with(u, MOOR_CMD_OK),
	      "garbage commands: entries in turn, then an answer");

	u->eq = make_eq(u, EQN);
	interrupts(u, EQ_VECTOR);
	must(u, "event 2 0xee 77");
	check(next_event(u, 0xee, 77) && interrupts(u, EQ_VECTOR) == 1,
	      "an event, with an interrupt");
	check(!strcmp(ask(u, "garbage events 2 100"), "ok 16 written"),
	      "garbage events: as many as there is room for");
	check(!strncmp(ask(u, "event 2 1"), "error ", 6) &&
	      !strncmp(ask(u, "garbage events 2"), "error ", 6),
	      "and no more");
	check(!strncmp(ask(u, "event 3 1"), "error ", 6),
	      "an event queue that there is not");

	interrupts(u, MOOR_VECTOR_CMD);
	must(u, "lose 2 0");
	must(u, "stray 1");
	must(u, "stray 1");
	i = (unsigned int)interrupts(u, MOOR_VECTOR_CMD);
	must(u, "stray 1");
	check(!i && interrupts(u, MOOR_VECTOR_CMD) == 1,
	      "lose 2 0: two, and then they come");

	must(u, "scribble");
	for (i = 0, known = 0; i < ENTRIES; i++)
		known += u->cpl[i].phase & 1;
	check(known == ENTRIES || !known, "scribble: all entries look new");
}

#define LIES	12u

/* The first completions after a reset, with lies of @seed. */
static void hear_lies(struct nic_user *u, unsigned int seed, struct moor_cpl *told)
{
	uint64_t end = now_ns() + WAIT_NS;
	char text[64];
	unsigned int i;

	reg_write(&u->c, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	enable(u);
	snprintf(text, sizeof(text), "lie %u 1 commands", seed);
	must(u, text);
	for (i = 0; i < LIES; i++)
		issue_nop(u);
	snprintf(text, sizeof(text), "commands=%u", LIES);
	while (!has(u, text))
		if (now_ns() > end)
			die("the commands are not carried out");
	must(u, "clear");
	memcpy(told, u->cpl, LIES * sizeof(*told));
}

static unsigned int wrong_fields(const struct moor_cpl *told, unsigned int tag)
{
	return (told->tag != tag) + (told->status != MOOR_CMD_OK) +
	       (told->detail != 0) + (told->phase != 1);
}

static void test_lies(struct nic_user *u)
{
	struct moor_cpl first[LIES], again[LIES], other[LIES];
	unsigned int i, lies = 0;

	hear_lies(u, 7, first);
	hear_lies(u, 7, again);
	hear_lies(u, 8, other);
	for (i = 0; i < LIES; i++)
		lies += wrong_fields(&first[i], i) == 1;
	check(lies == LIES, "lie: one field of each completion is wrong");
	check(!memcmp(first, again, sizeof(first)) &&
	      memcmp(first, other, sizeof(first)) != 0,
	      "lie: the same seed, the same lies");
	reg_write(&u->c, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	enable(u);
	check(nop_ends_with(u, MOOR_CMD_OK), "clear: it is honest again");
}

static void test_device(struct nic_user *u)
{
	unsigned long long before;
	bool counted;

	reg_write(&u->c, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	enable(u);
	must(u, "link down");
	check(!(reg_read(&u->c, MOOR_REG_STATUS) & MOOR_STATUS_LINK_UP) &&
	      has(u, "link=down"), "link down");
	must(u, "link up");
	check(reg_read(&u->c, MOOR_REG_STATUS) & MOOR_STATUS_LINK_UP,
	      "link up");
	must(u, "fatal");
	check(reg_read(&u->c, MOOR_REG_STATUS) & MOOR_STATUS_FATAL &&
	      reg_read(&u->c, MOOR_REG_FATAL_CODE) == MOOR_FATAL_INJECTED,
	      "fatal: code 4");
	check(!strncmp(ask(u, "stray 1"), "error ", 6) &&
	      !strncmp(ask(u, "scribble"), "error ", 6) &&
	      !strncmp(ask(u, "fatal"), "error ", 6),
	      "a NIC that does not work writes no rings");
	reg_write(&u->c, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	enable(u);
	must(u, "reset hangs");
	check(reg_read(&u->c, MOOR_REG_STATUS) & MOOR_STATUS_READY &&
	      nop_ends_with(u, MOOR_CMD_OK),
	      "a NIC whose resets hang works till the next one");
	reg_write(&u->c, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	reg_write(&u->c, MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	check(!(reg_read(&u->c, MOOR_REG_STATUS) &
		(MOOR_STATUS_READY | MOOR_STATUS_ENABLED | MOOR_STATUS_FATAL)),
	      "a reset that hangs: not READY, and not to be enabled");
	must(u, "reset ends");
	check(reg_read(&u->c, MOOR_REG_STATUS) & MOOR_STATUS_READY,
	      "and READY when it ends");
	reg_write(&u->c, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	check(reg_read(&u->c, MOOR_REG_STATUS) & MOOR_STATUS_READY,
	      "so is the next one at once");
	enable(u);
	before = dma(u);
	check(nop_ends_with(u, MOOR_CMD_OK) && dma(u) >= before + 2,
	      "dma counts a command and its completion");

	must(u, "dead");
	before = dma(u);
	check(reg_read(&u->c, MOOR_REG_STATUS) == 0xffffffff &&
	      reg_read64(&u->c, MOOR_REG_CLOCK) == UINT64_MAX &&
	      config_read32(&u->c, PCI_VENDOR_ID) == 0xffffffff,
	      "dead: reads give ones");
	reg_write(&u->c, MOOR_REG_CONTROL, MOOR_CONTROL_RESET);
	config_write16(&u->c, PCI_COMMAND, 0);
	issue_nop(u);
	check(has(u, "alive=0 enabled=1 bus-master=0") && has(u, "commands=1") &&
	      dma(u) == before, "dead: writes are lost, no DMA");
	must(u, "alive");
	check(reg_read(&u->c, MOOR_REG_MAGIC) == MOOR_MAGIC &&
	      !config_read16(&u->c, PCI_COMMAND) && has(u, "enabled=0"),
	      "alive: as after power-on");
	enable(u);
	check(nop_ends_with(u, MOOR_CMD_OK), "and it works");

	must(u, "dead");
	counted = has(u, "resets=1");
	client_call(&u->c, VFIO_USER_DEVICE_RESET, NULL, 0, NULL, 0, NULL);
	check(reg_read(&u->c, MOOR_REG_MAGIC) == MOOR_MAGIC && counted &&
	      has(u, "resets=2"), "a reset of the platform revives it too");
}

static void test_refusals(struct nic_user *u)
{
	static const char * const wrong[] = {
		"", " ", "frobnicate", "fail", "fail NOP", "fail NOP FULL",
		"fail 256 OK", "fail -1 OK", "fail NOP OK 0", "fail NOP OK x",
		"fail NOP OK 4294967295", "fail NOP OK 1 after",
		"fail NOP OK 1 after x", "fail NOP OK 1 before 2",
		"fail NOP OK 1 after 2 3", "drop", "twice NONE", "stray",
		"stray 65536", "stray 1 OK 2", "garbage", "garbage rings",
		"garbage events", "garbage events 18", "garbage commands 0",
		"garbage commands 257", "event 1", "event 1 256",
		"event 1 1 1 1", "page-request 0 0 0 0 0",
		"page-request 256 0 0 0 0 0", "page-request 0 0 0 0 0 0 0",
		"lie", "lie 1", "lie x 1", "lie 1 0",
		"lie 1 1 everything", "lie 1 1 events now",
		"lie 1 1 events cqes events cqes events now", "lose", "lose x",
		"lose 1 18", "lose 1 0 0",
		"link", "link left", "link up now", "reset",
		"reset now", "reset hangs now", "dead now", "status 1",
		"clear all", "HELP", "a b c d e f g h i j k l m n",
	};
	char text[64];
	unsigned int i;

	must(u, "clear");
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		check(!strncmp(ask(u, wrong[i]), "error ", 6), "refused: \"%s\"",
		      wrong[i]);
	check(has(u, "alive=1") && has(u, "rules=0 losing=0x0"),
	      "and nothing has been done");
	for (i = 0; i < 16; i++)
		must(u, "drop 0x7f");
	check(!strncmp(ask(u, "drop 0x7f"), "error ", 6), "the 17th rule");
	must(u, "clear");
	snprintf(text, sizeof(text), "%s", ask(u, "fail CREATE_CQ FULL"));
	check(strstr(text, "expected"), "it says what it expected: %s", text);
	check(strstr(ask(u, "help"), "fail OPCODE STATUS"), "help");
}

static void say(int fd, const void *data, size_t size)
{
	if (send(fd, data, size, MSG_NOSIGNAL) < 0)
		die("send: %s", strerror(errno));
}

static void test_hostile(struct nic_user *u)
{
	char noise[10000];
	int others[MAX_CLIENTS], fd;
	unsigned int i;

	say(u->fd, "sta", 3);
	say(u->fd, "tus\r\nstatus\nsta", 15);
	check(!strncmp(answer(u->fd), "ok ", 3) &&
	      !strncmp(answer(u->fd), "ok ", 3), "lines in pieces and together");
	say(u->fd, "tus\n", 4);
	check(!strncmp(answer(u->fd), "ok ", 3), "and the rest of the last one");

	memset(noise, 'x', sizeof(noise));
	say(u->fd, noise, sizeof(noise));
	say(u->fd, "\nstatus\n", 8);
	check(strstr(answer(u->fd), "255") && !strncmp(answer(u->fd), "ok ", 3),
	      "a line of 10,000 characters is one mistake");
	for (i = 0; i < sizeof(noise); i++)
		noise[i] = i % 100 == 99 ? '\n' : (char)(i * 37 % 256);
	memset(noise + 100, 0, 50);
	say(u->fd, noise, 300);
	for (i = 0; i < 300; i++)
		if (noise[i] == '\n' && strncmp(answer(u->fd), "error ", 6))
			die("garbage is understood");
	check(has(u, "alive=1"), "bytes that are no text");

	fd = connect_to(u->path);
	say(fd, "dea", 3);
	/* The server hangs up when it has read all; only then is its place free. */
	shutdown(fd, SHUT_WR);
	if (answer(fd))
		die("half a line is answered");
	close(fd);
	fd = connect_to(u->path);
	say(fd, "d\n", 2);
	check(!strncmp(answer(fd), "error ", 6),
	      "half a line of one client is not the next one's");
	close(fd);

	fd = connect_to(u->path);
	while (send(fd, "help\nhelp\nhelp\nhelp\n", 20,
		    MSG_NOSIGNAL | MSG_DONTWAIT) == 20 || errno == EAGAIN)
		errno = 0;
	check(has(u, "alive=1"), "who reads no answers has to go");
	close(fd);

	for (i = 0; i < MAX_CLIENTS - 1; i++)
		others[i] = connect_to(u->path);
	others[i] = connect_to(u->path);
	check(!answer(others[i]), "a client too many is turned away");
	for (i = 0; i < MAX_CLIENTS; i++)
		close(others[i]);
	check(has(u, "alive=1"), "and the NIC lives on");
}

static void test_paths(struct nic_user *u)
{
	char socket[128], text[1024];

	snprintf(socket, sizeof(socket), "%s-vfio", u->path);
	check(model_run(ARGS("--socket", socket, "--control", u->path), text,
			sizeof(text)) == 1 &&
	      strstr(text, "in use") && access(socket, F_OK) < 0,
	      "a control socket that is in use; the other one goes too");
	check(model_run(ARGS("--socket", socket, "--control", u->model.log),
			text, sizeof(text)) == 1 &&
	      strstr(text, "not a socket"), "a file that is no socket");
}

int main(void)
{
	struct nic_user u;

	start(&u);
	test_refusals(&u);
	test_rules(&u);
	test_page_requests(&u);
	test_rings(&u);
	test_lies(&u);
	test_device(&u);
	test_hostile(&u);
	test_paths(&u);
	stop(&u);
	return check_done();
}
