// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/features.h"
#include "options.h"

#define EXIT_USAGE	2
#define MAX_INDEX	255

static const char help[] =
"Usage: moor-nic --socket PATH [OPTION]...\n"
"An RDMA NIC that QEMU attaches to over vfio-user.\n"
"\n"
"  --socket PATH      listen on this UNIX socket; a stale one is replaced\n"
"  --ready-fd FD      write \"ready\" and a newline to FD once it listens\n"
"  --log FILE         append the log to FILE (default: standard error)\n"
"  --control PATH     make the NIC misbehave: commands, line by line, on this socket\n"
"  --index N          0 to 255: gives MAC and GUID of their own (default: 0)\n"
"  --mac MAC          unicast Ethernet address; the GUID follows from it\n"
"  --without LIST     features of the hardware interface that this NIC lacks, such as\n"
"                     odp,uc,xrc; all: it has none\n"
"  --strict           do whatever the specification allows a NIC to do\n"
"  --trap-bar2        do not let BAR2 and doorbells be mapped; apply writes to BAR2\n"
"                     torn and late\n"
"  --sync-commands    carry out a command before its kick is answered\n"
"  --impair LIST      of a hundred packets, how many meet with an accident:\n"
"                     lose=N,repeat=N,reorder=N,delay=N,damage=N, or some of these\n"
"  --seed N           of everything random in the NIC (default: 1)\n"
"  --help             show this\n"
"  --version          show the version\n"
"\n"
"In QEMU (10.1 or later), with the guest's memory shared:\n"
"  -device '{\"driver\":\"vfio-user-pci\",\n"
"            \"socket\":{\"type\":\"unix\",\"path\":\"PATH\"}}'\n";

enum {
	OPT_SOCKET = 256,
	OPT_READY_FD,
	OPT_LOG,
	OPT_CONTROL,
	OPT_INDEX,
	OPT_MAC,
	OPT_WITHOUT,
	OPT_STRICT,
	OPT_TRAP_BAR2,
	OPT_SYNC_COMMANDS,
	OPT_IMPAIR,
	OPT_SEED,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "ready-fd", required_argument, NULL, OPT_READY_FD },
	{ "log", required_argument, NULL, OPT_LOG },
	{ "control", required_argument, NULL, OPT_CONTROL },
	{ "index", required_argument, NULL, OPT_INDEX },
	{ "mac", required_argument, NULL, OPT_MAC },
	{ "without", required_argument, NULL, OPT_WITHOUT },
	{ "strict", no_argument, NULL, OPT_STRICT },
	{ "trap-bar2", no_argument, NULL, OPT_TRAP_BAR2 },
	{ "sync-commands", no_argument, NULL, OPT_SYNC_COMMANDS },
	{ "impair", required_argument, NULL, OPT_IMPAIR },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static void __attribute__((noreturn, format(printf, 1, 2)))
usage_error(const char *fmt, ...)
{
	va_list args;

	fputs("moor-nic: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputs("; see moor-nic --help\n", stderr);
	exit(EXIT_USAGE);
}

static uint64_t parse_number(const char *name, const char *text, uint64_t max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end || strchr(text, '-') || value > max)
		usage_error("--%s: not a number from 0 to %llu: %s", name,
			    (unsigned long long)max, text);
	return value;
}

static void parse_mac(uint8_t mac[6], const char *text)
{
	unsigned int byte[6], i;
	int used = 0;

	/* sscanf() would accept signs and blanks, too. */
	if (strlen(text) != 17 || strspn(text, "0123456789abcdefABCDEF:") != 17 ||
	    sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &byte[0], &byte[1],
		   &byte[2], &byte[3], &byte[4], &byte[5], &used) != 6 ||
	    used != 17)
		usage_error("--mac: not an Ethernet address: %s", text);
	for (i = 0; i < 6; i++)
		mac[i] = (uint8_t)byte[i];
	if (mac[0] & 1)
		usage_error("--mac: a multicast address: %s", text);
	if (!(mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5]))
		usage_error("--mac: the address is zero");
}

/* EUI-64 of an Ethernet address: ff:fe in the middle, the U/L bit inverted. */
static uint64_t mac_to_guid(const uint8_t mac[6])
{
	const uint8_t guid[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe,
				  mac[3], mac[4], mac[5] };
	uint64_t value = 0;
	unsigned int i;

	for (i = 0; i < 8; i++)
		value = value << 8 | guid[i];
	return value;
}

static void set_defaults(struct options *opts)
{
	/* Locally administered; then "Moor". */
	static const uint8_t mac[6] = { 0x02, 'M', 'o', 'o', 'r', 0 };

	memset(opts, 0, sizeof(*opts));
	opts->ready_fd = -1;
	opts->endpoint.nic.seed = 1;
	memcpy(opts->endpoint.nic.mac, mac, sizeof(mac));
}

static void parse_one(struct options *opts, int option, const char *name)
{
	struct nic_config *nic = &opts->endpoint.nic;

	switch (option) {
	case OPT_SOCKET:
		opts->socket = optarg;
		break;
	case OPT_READY_FD:
		opts->ready_fd = (int)parse_number(name, optarg, INT_MAX);
		if (fcntl(opts->ready_fd, F_GETFD) < 0)
			usage_error("--ready-fd: %d is not open",
				    opts->ready_fd);
		break;
	case OPT_LOG:
		opts->log = optarg;
		break;
	case OPT_CONTROL:
		opts->control = optarg;
		break;
	case OPT_INDEX:
		nic->mac[5] = (uint8_t)parse_number(name, optarg, MAX_INDEX);
		break;
	case OPT_MAC:
		parse_mac(nic->mac, optarg);
		break;
	case OPT_WITHOUT:
		if (!features_parse(&nic->without, optarg))
			usage_error("--without: not features such as odp,uc: %s", optarg);
		break;
	case OPT_STRICT:
		nic->strict = true;
		break;
	case OPT_TRAP_BAR2:
		opts->endpoint.trap_bar2 = true;
		break;
	case OPT_SYNC_COMMANDS:
		nic->sync_commands = true;
		break;
	case OPT_IMPAIR:
		if (!impairment_parse(&nic->impairment, optarg))
			usage_error("--impair: not percentages such as lose=5,damage=1: %s",
				    optarg);
		break;
	case OPT_SEED:
		nic->seed = parse_number(name, optarg, UINT64_MAX);
		break;
	case OPT_HELP:
		fputs(help, stdout);
		exit(EXIT_SUCCESS);
	case OPT_VERSION:
		printf("moor-nic, hardware interface %d.%d\n",
		       MOOR_HW_VERSION_MAJOR, MOOR_HW_VERSION_MINOR);
		exit(EXIT_SUCCESS);
	}
}

void options_parse(struct options *opts, int argc, char **argv)
{
	bool index = false, mac = false;
	int option, which = 0;

	set_defaults(opts);
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", long_options, &which)) >= 0) {
		if (option == '?' && optopt && optopt < OPT_SOCKET)
			usage_error("unknown option: -%c", optopt);
		if (option == '?')
			usage_error("unknown option or needless argument: %s",
				    argv[optind - 1]);
		if (option == ':')
			usage_error("%s needs an argument", argv[optind - 1]);
		index |= option == OPT_INDEX;
		mac |= option == OPT_MAC;
		parse_one(opts, option, long_options[which].name);
	}
	if (optind < argc)
		usage_error("not an option: %s", argv[optind]);
	if (!opts->socket)
		usage_error("--socket is missing");
	if (index && mac)
		usage_error("--index and --mac exclude each other");
	opts->endpoint.nic.node_guid = mac_to_guid(opts->endpoint.nic.mac);
}
