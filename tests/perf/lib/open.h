/* SPDX-License-Identifier: GPL-2.0 */
#ifndef OPEN_H
#define OPEN_H

#include <infiniband/verbs.h>

/* A PD of the device of that name, in a context of its own. Without one the program ends. */
struct ibv_pd *open_pd(const char *name);

#endif /* OPEN_H */
