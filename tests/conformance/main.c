// SPDX-License-Identifier: GPL-2.0
/*
 * moor-conformance: holds a device that speaks vfio-user against the rules of
 * Documentation/hardware-interface.rst. It is host, memory and driver at once.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "device.h"
#include "launch.h"
#include "measure.h"
#include "suite.h"

#define EXIT_USAGE	2

static const char help[] =
"Usage: moor-conformance [OPTION]... [-- OPTION-OF-THE-NIC...]\n"
"Holds a Moor NIC against the rules of its hardware interface.\n"
"\n"
"  --socket PATH   the device that listens on this socket (vfio-user)\n"
"  --nic PROGRAM   without --socket: the NIC to start (default: moor-nic)\n"
"  --only TEXT     only cases whose name, chapter or rules contain TEXT; if TEXT is the\n"
"                  name of a rule, cases of this rule alone\n"
"  --first         end with the first case that fails\n"
"  --measure       measure the NIC alone instead: latencies, rates\n"
"  --list          show the cases, with their rules\n"
"  --help          show this\n"
"\n"
"What comes out is TAP, and then a table of the rules: what each was found to be,\n"
"or why it cannot be seen. The status is 0 if no case failed, 1 if one did or there\n"
"is none, and 3 if the device could not be tested to the end.\n"
"\n"
"  moor-conformance --socket /run/my-device\n"
"  moor-conformance --only ACC- -- --strict\n";

enum {
	OPT_SOCKET = 256,
	OPT_NIC,
	OPT_ONLY,
	OPT_FIRST,
	OPT_MEASURE,
	OPT_LIST,
	OPT_HELP,
};

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "nic", required_argument, NULL, OPT_NIC },
	{ "only", required_argument, NULL, OPT_ONLY },
	{ "first", no_argument, NULL, OPT_FIRST },
	{ "measure", no_argument, NULL, OPT_MEASURE },
	{ "list", no_argument, NULL, OPT_LIST },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static void __attribute__((noreturn)) usage(const char *what)
{
	fprintf(stderr, "moor-conformance: %s; see moor-conformance --help\n",
		what);
	exit(EXIT_USAGE);
}

int main(int argc, char **argv)
{
	const char *socket = NULL, *nic = "moor-nic", *only = NULL;
	bool measure = false, first = false, launched = false, good;
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
		switch (option) {
		case OPT_SOCKET:
			socket = optarg;
			break;
		case OPT_NIC:
			nic = optarg;
			break;
		case OPT_ONLY:
			only = optarg;
			break;
		case OPT_FIRST:
			first = true;
			break;
		case OPT_MEASURE:
			measure = true;
			break;
		case OPT_LIST:
			suite_list_cases();
			return EXIT_SUCCESS;
		case OPT_HELP:
			fputs(help, stdout);
			return EXIT_SUCCESS;
		default:
			exit(EXIT_USAGE);
		}
	}
	if (socket && optind < argc)
		usage("options of a NIC, and a device that runs already (--socket)");
	if (!socket) {
		socket = launch_nic(nic, argv + optind);
		launched = true;
	}

	/* What a case has said is out, however the suite ends. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Let short sleeps be short. */
	prctl(PR_SET_TIMERSLACK, 1ul);
	device_attach(socket);
	good = measure ? measure_nic() : suite_run(only, first);
	device_detach();
	if (launched && !launch_end()) {
		printf("# the NIC has not ended as it should\n");
		good = false;
	}
	if (!measure && !suite_rule_table())
		good = false;
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
