/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MODEL_OPTIONS_H
#define MODEL_OPTIONS_H

#include "pci/endpoint.h"

struct options {
	const char *socket;
	const char *control;	/* NULL: no control socket */
	const char *log;	/* NULL: stderr */
	int ready_fd;		/* -1: nobody waits */
	struct endpoint_config endpoint;
};

/* Does not return for --help, --version and wrong options (exit status 2). */
void options_parse(struct options *opts, int argc, char **argv);

#endif /* MODEL_OPTIONS_H */
