/* SPDX-License-Identifier: GPL-2.0 */
/* All that a NIC consists of, in one piece: only its life cycle sees this. */
#ifndef MODEL_PARTS_H
#define MODEL_PARTS_H

#include "base/fault.h"
#include "base/lie.h"
#include "base/state.h"
#include "device/command.h"
#include "device/doze.h"
#include "memory/mr_state.h"
#include "queues/cq.h"
#include "queues/event.h"
#include "queues/slot.h"
#include "queues/srq.h"
#include "transport/filter.h"
#include "transport/gid.h"
#include "transport/live.h"
#include "transport/port.h"
#include "transport/qp.h"

struct parts {
	struct nic nic;		/* first: freeing it frees all; it points to the others */
	struct faults faults;
	struct lies lies;
	struct commands commands;
	struct doze doze;
	struct events events;
	struct gids gids;
	struct filters filters;
	struct wire wire;
	struct request_pool requests;
	/* Large parts, of which little memory is in use. */
	struct slots slots;
	struct live_sqs live;
	struct cqs cqs;
	struct srqs srqs;
	struct qps qps;
	struct mr_tables mr;
};

#endif /* MODEL_PARTS_H */
