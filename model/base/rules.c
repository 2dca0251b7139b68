// SPDX-License-Identifier: GPL-2.0
/* Which rule of the hardware interface refused something, for the log. */
#include <stdbool.h>
#include <stddef.h>

#include "base/rules.h"
#include "moor/moor_hw.h"

const char *syndrome_name(uint8_t syndrome)
{
	static const char *const names[] = {
		[MOOR_SYN_NONE] = "none",
		[MOOR_SYN_KEY] = "no valid entry under this key",
		[MOOR_SYN_PD] = "another PD",
		[MOOR_SYN_RIGHTS] = "access right missing",
		[MOOR_SYN_BOUNDS] = "out of bounds",
		[MOOR_SYN_TRANSLATION] = "translation absent or malformed",
		[MOOR_SYN_DMA] = "DMA address refused",
		[MOOR_SYN_QP_RIGHTS] = "not allowed by the responder QP",
		[MOOR_SYN_ALIGNMENT] = "not aligned",
		[MOOR_SYN_WQE] = "malformed work request",
		[MOOR_SYN_LENGTH] = "length",
		[MOOR_SYN_WINDOW] = "another QP's window",
		[MOOR_SYN_NO_RESPONDER] = "nothing answered",
	};

	return syndrome < sizeof(names) / sizeof(names[0]) ?
	       names[syndrome] : "?";
}

const char *syndrome_rule(uint8_t syndrome)
{
	static const char *const rules[] = {
		[MOOR_SYN_KEY] = "HWI ACC-3",
		[MOOR_SYN_PD] = "HWI ACC-7",
		[MOOR_SYN_RIGHTS] = "HWI ACC-9",
		[MOOR_SYN_BOUNDS] = "HWI ACC-12",
		[MOOR_SYN_TRANSLATION] = "HWI ACC-13",
		[MOOR_SYN_DMA] = "HWI ACC-14",
		[MOOR_SYN_QP_RIGHTS] = "HWI ACC-10",
		[MOOR_SYN_WINDOW] = "HWI ACC-5",
	};
	bool known = syndrome < sizeof(rules) / sizeof(rules[0]);

	return known && rules[syndrome] ? rules[syndrome] : "HWI ACC-1";
}

/* A value that the table lacks is a mistake of the model, but no reason to crash. */
#define LOOK_UP(table, at)						\
	((at) < sizeof(table) / sizeof((table)[0]) && (table)[at] ?	\
	 (table)[at] : "HWI SYN-2")

const char *command_rule(uint8_t status)
{
	static const char *const rules[] = {
		[MOOR_CMD_BAD_OPCODE] = "HWI CMD-9",
		[MOOR_CMD_BAD_RESERVED] = "HWI CMD-10",
		[MOOR_CMD_BAD_PARAM] = "HWI CMD-11",
		[MOOR_CMD_BAD_INDEX] = "HWI CMD-12",
		[MOOR_CMD_BAD_STATE] = "HWI CMD-13",
		[MOOR_CMD_BUSY] = "HWI CMD-14",
		[MOOR_CMD_NO_RESOURCE] = "HWI CMD-15",
		[MOOR_CMD_DMA_FAULT] = "HWI CMD-16",
	};

	return LOOK_UP(rules, status);
}

static const char *bind_rule(uint8_t syndrome)
{
	static const char *const rules[] = {
		[MOOR_SYN_KEY] = "HWI MW-2 or MW-8",
		[MOOR_SYN_PD] = "HWI MW-4 or MW-9",
		[MOOR_SYN_RIGHTS] = "HWI MW-10 to MW-12 or MW-19",
		[MOOR_SYN_BOUNDS] = "HWI MW-13",
		[MOOR_SYN_LENGTH] = "HWI MW-7",
		[MOOR_SYN_WINDOW] = "HWI MW-5",
	};

	return LOOK_UP(rules, syndrome);
}

static const char *invalidation_rule(uint8_t syndrome)
{
	static const char *const rules[] = {
		[MOOR_SYN_KEY] = "HWI INV-7",
		[MOOR_SYN_PD] = "HWI INV-2",
		[MOOR_SYN_WINDOW] = "HWI INV-1",
	};

	return LOOK_UP(rules, syndrome);
}

static const char *registration_rule(uint8_t syndrome)
{
	static const char *const rules[] = {
		[MOOR_SYN_KEY] = "HWI FR-4 or FR-7",
		[MOOR_SYN_PD] = "HWI FR-6",
		[MOOR_SYN_RIGHTS] = "HWI FR-8",
		[MOOR_SYN_LENGTH] = "HWI FR-9",
		[MOOR_SYN_BOUNDS] = "HWI FR-10",
		[MOOR_SYN_TRANSLATION] = "HWI FR-11",
	};

	return LOOK_UP(rules, syndrome);
}

const char *work_rule(uint8_t opcode, uint8_t status, uint8_t syndrome)
{
	/* SYN-3: the requester is not told why the responder refused. */
	static const char *const rules[] = {
		[MOOR_WC_LOC_LEN_ERR] = "HWI RC-4",
		[MOOR_WC_LOC_QP_OP_ERR] = "HWI RC-5",
		[MOOR_WC_REM_INV_REQ_ERR] = "HWI SYN-3",
		[MOOR_WC_REM_ACCESS_ERR] = "HWI SYN-3",
		[MOOR_WC_REM_OP_ERR] = "HWI SYN-3",
		[MOOR_WC_RETRY_EXC_ERR] = "HWI RC-11",
		[MOOR_WC_RNR_RETRY_EXC_ERR] = "HWI RC-10",
	};

	if (status == MOOR_WC_LOC_PROT_ERR)
		return syndrome_rule(syndrome);
	if (status != MOOR_WC_MW_BIND_ERR)
		return LOOK_UP(rules, status);
	if (opcode == MOOR_WQE_BIND_MW)
		return bind_rule(syndrome);
	if (opcode == MOOR_WQE_REG_MR)
		return registration_rule(syndrome);
	return invalidation_rule(syndrome);
}
