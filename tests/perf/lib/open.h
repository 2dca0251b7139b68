/* SPDX-License-Identifier: GPL-2.0 */
#ifndef OPEN_H
#define OPEN_H

#include <infiniband/verbs.h>

/* Opens the device @name and allocates a PD. Ends the program if that fails. */
struct ibv_pd *open_pd(const char *name);

#endif /* OPEN_H */
