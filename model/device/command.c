// SPDX-License-Identifier: GPL-2.0
/* The command ring and what is common to all commands (HWI 8). */
#include <endian.h>
#include <strings.h>
#include <string.h>

#include "base/dma_map.h"
#include "base/fault.h"
#include "base/layout.h"
#include "base/lie.h"
#include "base/log.h"
#include "base/rules.h"
#include "device/command.h"
#include "memory/odp.h"
#include "queues/cq.h"
#include "queues/event.h"
#include "queues/slot.h"
#include "queues/srq.h"
#include "transport/filter.h"
#include "transport/gid.h"
#include "transport/qp.h"
#include "transport/xrc.h"

#define COMMANDS_AT_ONCE	16
#define MAX_RESERVED		4	/* reserved fields of a command */

/* What a command is answered with. Aligned: answers have fields of eight bytes. */
struct answer {
	struct moor_cpl cpl __attribute__((aligned(8)));
	uint8_t opcode;
	enum fault_kind fault;
};

/* A reserved field, from the start of the command. */
struct reserved {
	uint8_t offset;
	uint8_t size;
};

struct command {
	const char *name;
	uint8_t (*run)(struct nic *nic, const struct moor_cmd *cmd,
		       struct moor_cpl *cpl);
	uint64_t needs;		/* MOOR_FEATURE_*, one of which there has to be; 0: none */
	uint8_t size;		/* the bytes behind have to be zero */
	bool walks;		/* the table of a ring, which may have a million entries */
	struct reserved reserved[MAX_RESERVED];
};

#define RESERVED(type, field)	{ offsetof(struct type, field), \
				  sizeof(((struct type *)0)->field) }
#define XLAT_RESERVED(type, field) RESERVED(type, field.reserved1)

static uint8_t nop(struct nic *nic, const struct moor_cmd *cmd,
		   struct moor_cpl *cpl)
{
	(void)nic;
	(void)cmd;
	(void)cpl;
	return MOOR_CMD_OK;
}

#define WINDOWS		(MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B)

/* An opcode that is not in here is unknown. */
static const struct command commands[] = {
	[MOOR_CMD_NOP] = {
		.name = "NOP", .run = nop,
		.size = sizeof(struct moor_cmd_hdr),
	},
	[MOOR_CMD_CREATE_EQ] = {
		.name = "CREATE_EQ", .run = eq_create,
		.size = sizeof(struct moor_cmd_create_eq),
		.reserved = { RESERVED(moor_cmd_create_eq, reserved1) },
	},
	[MOOR_CMD_DESTROY_EQ] = {
		.name = "DESTROY_EQ", .run = eq_destroy,
		.size = sizeof(struct moor_cmd_destroy_eq),
		.reserved = { RESERVED(moor_cmd_destroy_eq, reserved1) },
	},
	[MOOR_CMD_CREATE_CQ] = {
		.name = "CREATE_CQ", .run = cq_create,
		.size = sizeof(struct moor_cmd_create_cq),
		.walks = true,
		.reserved = { RESERVED(moor_cmd_create_cq, reserved1),
			      XLAT_RESERVED(moor_cmd_create_cq, ring) },
	},
	[MOOR_CMD_DESTROY_CQ] = {
		.name = "DESTROY_CQ", .run = cq_destroy,
		.size = sizeof(struct moor_cmd_destroy_cq),
		.reserved = { RESERVED(moor_cmd_destroy_cq, reserved1) },
	},
	[MOOR_CMD_RESIZE_CQ] = {
		.name = "RESIZE_CQ", .run = cq_resize,
		.size = sizeof(struct moor_cmd_resize_cq),
		.walks = true,
		.reserved = { RESERVED(moor_cmd_resize_cq, reserved1),
			      XLAT_RESERVED(moor_cmd_resize_cq, ring) },
	},
	[MOOR_CMD_MODIFY_CQ] = {
		.name = "MODIFY_CQ", .run = cq_modify,
		.needs = MOOR_FEATURE_CQ_MODERATION,
		.size = sizeof(struct moor_cmd_modify_cq),
	},
	[MOOR_CMD_CREATE_QP] = {
		.name = "CREATE_QP", .run = qp_create,
		.size = sizeof(struct moor_cmd_create_qp),
		.walks = true,
		.reserved = { XLAT_RESERVED(moor_cmd_create_qp, sq),
			      XLAT_RESERVED(moor_cmd_create_qp, rq),
			      RESERVED(moor_cmd_create_qp, reserved1) },
	},
	[MOOR_CMD_MODIFY_QP] = {
		.name = "MODIFY_QP", .run = qp_modify,
		.size = sizeof(struct moor_cmd_modify_qp),
		.reserved = { RESERVED(moor_cmd_modify_qp, reserved1) },
	},
	[MOOR_CMD_QUERY_QP] = {
		.name = "QUERY_QP", .run = qp_query,
		.size = sizeof(struct moor_cmd_query_qp),
		.reserved = { RESERVED(moor_cmd_query_qp, reserved1) },
	},
	[MOOR_CMD_DESTROY_QP] = {
		.name = "DESTROY_QP", .run = qp_destroy,
		.size = sizeof(struct moor_cmd_destroy_qp),
		.reserved = { RESERVED(moor_cmd_destroy_qp, reserved1) },
	},
	[MOOR_CMD_CREATE_SRQ] = {
		.name = "CREATE_SRQ", .run = srq_create,
		.needs = MOOR_FEATURE_SRQ,
		.size = sizeof(struct moor_cmd_create_srq),
		.walks = true,
		.reserved = { RESERVED(moor_cmd_create_srq, reserved1),
			      XLAT_RESERVED(moor_cmd_create_srq, ring),
			      RESERVED(moor_cmd_create_srq, reserved2) },
	},
	[MOOR_CMD_MODIFY_SRQ] = {
		.name = "MODIFY_SRQ", .run = srq_modify,
		.needs = MOOR_FEATURE_SRQ,
		.size = sizeof(struct moor_cmd_modify_srq),
		.walks = true,
		.reserved = { RESERVED(moor_cmd_modify_srq, reserved1),
			      XLAT_RESERVED(moor_cmd_modify_srq, ring) },
	},
	[MOOR_CMD_QUERY_SRQ] = {
		.name = "QUERY_SRQ", .run = srq_query,
		.needs = MOOR_FEATURE_SRQ,
		.size = sizeof(struct moor_cmd_query_srq),
		.reserved = { RESERVED(moor_cmd_query_srq, reserved1) },
	},
	[MOOR_CMD_DESTROY_SRQ] = {
		.name = "DESTROY_SRQ", .run = xrc_destroy_srq,
		.needs = MOOR_FEATURE_SRQ,
		.size = sizeof(struct moor_cmd_destroy_srq),
		.reserved = { RESERVED(moor_cmd_destroy_srq, reserved1) },
	},
	[MOOR_CMD_ATTACH_FILTER] = {
		.name = "ATTACH_FILTER", .run = filter_attach,
		.needs = MOOR_FEATURE_UD,
		.size = sizeof(struct moor_cmd_filter),
		.reserved = { RESERVED(moor_cmd_filter, reserved1) },
	},
	[MOOR_CMD_DETACH_FILTER] = {
		.name = "DETACH_FILTER", .run = filter_detach,
		.needs = MOOR_FEATURE_UD,
		.size = sizeof(struct moor_cmd_filter),
		.reserved = { RESERVED(moor_cmd_filter, reserved1) },
	},
	[MOOR_CMD_SET_GID] = {
		.name = "SET_GID", .run = gid_set,
		.size = sizeof(struct moor_cmd_set_gid),
		.reserved = { RESERVED(moor_cmd_set_gid, reserved1) },
	},
	[MOOR_CMD_MR_REVOKE] = {
		.name = "MR_REVOKE", .run = mr_revoke,
		.size = sizeof(struct moor_cmd_mr_revoke),
		.reserved = { RESERVED(moor_cmd_mr_revoke, reserved1) },
	},
	[MOOR_CMD_MR_QUERY] = {
		.name = "MR_QUERY", .run = mr_query,
		.size = sizeof(struct moor_cmd_mr_query),
		.reserved = { RESERVED(moor_cmd_mr_query, reserved1) },
	},
	[MOOR_CMD_MR_WINDOWS] = {
		.name = "MR_WINDOWS", .run = mw_list, .needs = WINDOWS,
		.size = sizeof(struct moor_cmd_mr_windows),
	},
	[MOOR_CMD_MR_INVALIDATE] = {
		.name = "MR_INVALIDATE", .run = odp_invalidate,
		.needs = MOOR_FEATURE_ODP,
		.size = sizeof(struct moor_cmd_mr_invalidate),
		.reserved = { RESERVED(moor_cmd_mr_invalidate, reserved1) },
	},
	[MOOR_CMD_PAGE_RESPONSE] = {
		.name = "PAGE_RESPONSE", .run = parking_answer,
		.needs = MOOR_FEATURE_ODP,
		.size = sizeof(struct moor_cmd_page_response),
		.reserved = { RESERVED(moor_cmd_page_response, reserved1) },
	},
};

static const struct command *find_command(uint8_t opcode)
{
	if (opcode >= sizeof(commands) / sizeof(commands[0]) ||
	    !commands[opcode].run)
		return NULL;
	return &commands[opcode];
}

int command_opcode(const char *name)
{
	int i;

	for (i = 0; i < (int)(sizeof(commands) / sizeof(commands[0])); i++)
		if (commands[i].name && !strcasecmp(commands[i].name, name))
			return i;
	return -1;
}

const char *command_name(uint8_t opcode)
{
	const struct command *command = find_command(opcode);

	return command ? command->name : "unknown command";
}

/* The first byte in the range that is not zero; @end: there is none. */
static uint32_t first_set(const uint8_t *bytes, uint32_t from, uint32_t end)
{
	while (from < end && !bytes[from])
		from++;
	return from;
}

/* Return: true when all bytes that must be zero are; else @at is the field at fault. */
static bool reserved_clear(const struct command *command,
			   const struct moor_cmd *cmd, uint32_t *at)
{
	const uint8_t *bytes = (const uint8_t *)cmd;
	unsigned int i;

	if (cmd->hdr.reserved1 || cmd->hdr.reserved2) {
		*at = cmd->hdr.reserved1 ?
		      offsetof(struct moor_cmd_hdr, reserved1) :
		      offsetof(struct moor_cmd_hdr, reserved2);
		return false;
	}
	for (i = 0; i < MAX_RESERVED && command->reserved[i].size; i++) {
		const struct reserved *r = &command->reserved[i];

		*at = r->offset;
		if (first_set(bytes, r->offset, r->offset + r->size) <
		    (uint32_t)r->offset + r->size)
			return false;
	}
	*at = first_set(bytes, command->size, sizeof(*cmd));
	return *at == sizeof(*cmd);
}

static void run_command(struct nic *nic, const struct moor_cmd *cmd,
			struct moor_cpl *cpl)
{
	const struct command *command = find_command(cmd->hdr.opcode);
	uint32_t at;

	cpl->tag = cmd->hdr.tag;
	if (!command || (command->needs && !nic_has(nic, command->needs))) {
		cpl->status = MOOR_CMD_BAD_OPCODE;
		log_refused(command_rule(cpl->status),
			    "command 0x%02x: unknown opcode", cmd->hdr.opcode);
		return;
	}
	if (!reserved_clear(command, cmd, &at)) {
		cpl->status = MOOR_CMD_BAD_RESERVED;
		cpl->detail = htole32(at);
	} else {
		cpl->status = command->run(nic, cmd, cpl);
	}
	if (cpl->status) {
		memset(cpl->out, 0, sizeof(cpl->out));
		log_refused(command_rule(cpl->status),
			    "%s: status 0x%02x, field at %u", command->name,
			    cpl->status, le32toh(cpl->detail));
	}
}

static void *ring_entry(struct nic *nic, uint64_t base, uint32_t index,
			uint32_t size, bool write)
{
	uint32_t slot = index & ((1u << nic->commands->log_size) - 1);
	uint64_t len = size;
	void *p = dma_map_ptr(nic->dma, base + (uint64_t)slot * size, &len,
			      write);

	if (p && len == size)
		return p;
	nic_fatal(nic, MOOR_FATAL_DMA);
	return NULL;
}

static void set_phase(struct nic *nic, struct moor_cpl *cpl)
{
	cpl->phase = htole32(!(nic->commands->cpl_producer >> nic->commands->log_size & 1));
}

static bool store(struct nic *nic, uint32_t index, const struct moor_cpl *cpl)
{
	struct moor_cpl *to = ring_entry(nic, nic->commands->cpl_base, index,
					 sizeof(*cpl), true);

	if (!to)
		return false;
	memcpy(to, cpl, offsetof(struct moor_cpl, phase));
	__atomic_store_n(&to->phase, cpl->phase, __ATOMIC_RELEASE);
	return true;
}

bool command_overwrite(struct nic *nic, uint32_t index,
		       const struct moor_cpl *cpl)
{
	struct moor_cpl entry = *cpl;

	set_phase(nic, &entry);
	return store(nic, index, &entry);
}

static void complete(struct nic *nic, const struct moor_cpl *cpl)
{
	if (command_overwrite(nic, nic->commands->cpl_producer, cpl))
		nic->commands->cpl_producer++;
}

/* The same for a command that the driver issued: only here the NIC may lie. */
static void complete_command(struct nic *nic, const struct answer *answer)
{
	struct moor_cpl cpl = answer->cpl;

	set_phase(nic, &cpl);
	lie_completion(nic, command_name(answer->opcode), answer->opcode, &cpl);
	if (store(nic, nic->commands->cpl_producer, &cpl))
		nic->commands->cpl_producer++;
}

/* HWI CMD-19; the completions have been written. */
static void evaluate_arm(struct nic *nic)
{
	uint64_t arm;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	arm = db_load(db_fixed_slot(nic, MOOR_DB_SLOT_CPL_ARM));
	if (arm == nic->commands->cpl_arm_done)
		return;
	nic->commands->cpl_arm_done = arm;
	event_raise(nic, MOOR_VECTOR_CMD);
}

static uint32_t commands_waiting(struct nic *nic)
{
	uint64_t slot = db_load(db_fixed_slot(nic, MOOR_DB_SLOT_CMD_PRODUCER));

	return (uint32_t)le64toh(slot) - nic->commands->consumer;
}

bool command_pending(struct nic *nic)
{
	return commands_waiting(nic);
}

/* Return: true when a command was fetched and done. */
static bool fetch_and_run(struct nic *nic, struct answer *answer)
{
	const void *from = ring_entry(nic, nic->commands->base, nic->commands->consumer,
				      sizeof(struct moor_cmd), false);
	struct moor_cmd cmd;

	if (!from)
		return false;
	fetch(&cmd, from, sizeof(cmd));
	nic->commands->consumer++;
	memset(answer, 0, sizeof(*answer));
	answer->opcode = cmd.hdr.opcode;
	if (nic->faults->num_rules)
		answer->fault = fault_of_command(nic, cmd.hdr.opcode,
						 &answer->cpl.status);
	if (answer->fault == FAULT_FAIL)
		answer->cpl.tag = cmd.hdr.tag;
	else
		run_command(nic, &cmd, &answer->cpl);
	return true;
}

static bool walks_table(uint8_t opcode)
{
	const struct command *command = find_command(opcode);

	return command && command->walks;
}

/* Completions may come in any order (HWI CMD-4). */
static void shuffle(struct nic *nic, struct answer *answers, uint32_t count)
{
	for (; count > 1; count--) {
		uint32_t other = nic_chance(nic, count);
		struct answer last = answers[count - 1];

		answers[count - 1] = answers[other];
		answers[other] = last;
	}
}

static void give(struct nic *nic, struct answer *answer)
{
	if (answer->fault == FAULT_DROP)
		return;
	complete_command(nic, answer);
	if (answer->fault == FAULT_TWICE) {
		nic->commands->again = answer->cpl;
		nic->commands->again_due = true;
	}
}

bool command_run(struct nic *nic)
{
	struct answer answers[COMMANDS_AT_ONCE];
	uint32_t waiting = commands_waiting(nic), done = 0, i;

	if (!waiting)
		return false;
	if (waiting > 1u << nic->commands->log_size) {
		nic_fatal(nic, MOOR_FATAL_CMD_RING);
		return false;
	}
	/* A second answer: by now the next command is likely to have its tag. */
	if (nic->commands->again_due) {
		nic->commands->again_due = false;
		complete(nic, &nic->commands->again);
	}
	/* Behind a command that may take long, QPs and the client have their turn. */
	while (done < waiting && done < COMMANDS_AT_ONCE &&
	       fetch_and_run(nic, &answers[done]))
		if (walks_table(answers[done++].opcode))
			break;
	if (nic->cfg.strict)
		shuffle(nic, answers, done);
	for (i = 0; i < done && !nic->fatal_code; i++)
		give(nic, &answers[i]);
	if (!nic->fatal_code)
		evaluate_arm(nic);
	return true;
}

void command_run_posted(struct nic *nic)
{
	uint32_t until = nic->commands->consumer + commands_waiting(nic);

	while (nic_works(nic) && (int32_t)(until - nic->commands->consumer) > 0)
		if (!command_run(nic))
			return;
}

bool command_inject(struct nic *nic, const struct moor_cpl *cpl)
{
	if (!nic_works(nic))
		return false;
	complete(nic, cpl);
	event_raise(nic, MOOR_VECTOR_CMD);
	event_flush(nic);
	return !nic->fatal_code;
}

void command_reset(struct nic *nic)
{
	*nic->commands = (struct commands){ 0 };
}
