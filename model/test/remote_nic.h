/* SPDX-License-Identifier: GPL-2.0 */
/* What stands behind a struct nic that is a model in another process. */
#ifndef TEST_REMOTE_NIC_H
#define TEST_REMOTE_NIC_H

#include "client.h"

/* Of models that are started from now on. */
void remote_options(const char *const *options);
struct client *remote_client(struct nic *nic);
struct model *remote_model(struct nic *nic);

#endif /* TEST_REMOTE_NIC_H */
