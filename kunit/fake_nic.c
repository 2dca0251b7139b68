// SPDX-License-Identifier: GPL-2.0
/*
 * The fake NIC's registers, rings and interrupts (HWI 4, 5, 8 and 9). The NIC
 * dozes: a store into a slot meanwhile is not seen until the kick.
 */

#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/pci.h>

#include "fake.h"

#define FAKE_CAP_MSIX_FLAGS	(0x80 + PCI_MSIX_FLAGS)

void fake_violation(struct fake_nic *nic, const char *what)
{
	if (!nic->violations++)
		nic->violation = what;
}

/**
 * fake_nic_reset - what RESET and FLR do (HWI CTL-2)
 * @nic: NIC
 */
void fake_nic_reset(struct fake_nic *nic)
{
	unsigned long flags;

	fake_wc_drop();
	spin_lock_irqsave(&nic->lock, flags);
	memset(nic->mr, 0, FAKE_MR_BYTES);
	memset(nic->slots, 0, FAKE_DB_BYTES);
	nic->ring_cmd = 0;
	nic->ring_cpl = 0;
	nic->doze_addr = 0;
	nic->log_size = 0;
	nic->consumer = 0;
	nic->cpl_producer = 0;
	nic->last_arm = 0;
	nic->fatal_code = 0;
	memset(nic->eqs, 0, sizeof(nic->eqs));
	memset(nic->qps, 0, sizeof(nic->qps));
	memset(nic->srqs, 0, sizeof(nic->srqs));
	memset(nic->filters, 0, sizeof(nic->filters));
	memset(nic->pages, 0, sizeof(nic->pages));
	memset(nic->windows, 0, sizeof(nic->windows));
	memset(nic->revoked, 0, sizeof(nic->revoked));
	memset(nic->bindings, 0, sizeof(nic->bindings));
	bitmap_zero(nic->gids, FAKE_GIDS);
	bitmap_zero(nic->cqs, FAKE_MAX_CQ);
	nic->status = MOOR_STATUS_READY | MOOR_STATUS_LINK_UP;
	spin_unlock_irqrestore(&nic->lock, flags);
}

u64 fake_features(const struct fake_nic *nic)
{
	return (MOOR_FEATURE_DOZES | MOOR_FEATURE_ATOMICS |
		MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B |
		MOOR_FEATURE_FAST_REG | MOOR_FEATURE_ODP | MOOR_FEATURE_DM |
		MOOR_FEATURE_CQ_MODERATION | MOOR_FEATURE_UC |
		MOOR_FEATURE_SRQ | MOOR_FEATURE_UD | MOOR_FEATURE_XRC |
		MOOR_FEATURE_ATOMIC_WRITE | MOOR_FEATURE_FLUSH_GLOBAL |
		MOOR_FEATURE_FLUSH_PERSISTENT) &
	       ~nic->behave.no_features;
}

/* Rights of FLUSH that the NIC has: the bits of the others are reserved. */
u32 fake_flush_rights(const struct fake_nic *nic)
{
	u64 features = fake_features(nic);

	return (features & MOOR_FEATURE_FLUSH_GLOBAL ?
		MOOR_ACCESS_FLUSH_GLOBAL : 0) |
	       (features & MOOR_FEATURE_FLUSH_PERSISTENT ?
		MOOR_ACCESS_FLUSH_PERSISTENT : 0);
}

static u64 fake_reg(struct fake_nic *nic, u32 offset)
{
	switch (offset) {
	case MOOR_REG_MAGIC:		return nic->magic;
	case MOOR_REG_VERSION:		return nic->version;
	case MOOR_REG_STATUS:		return nic->status;
	case MOOR_REG_FEATURES:		return fake_features(nic);
	case MOOR_REG_PAGE_SIZES:	return ~0ULL << MOOR_MIN_PAGE_SHIFT;
	case MOOR_REG_NODE_GUID:	return 0x0200c0fffe000001ULL;
	case MOOR_REG_MAC:		return 0x010000ffc002ULL;
	case MOOR_REG_MR_INDEX_BITS:	return FAKE_MR_INDEX_BITS;
	case MOOR_REG_MR_CONSUMER_FIRST: return FAKE_CONSUMER_FIRST;
	case MOOR_REG_NULL_LKEY:	return FAKE_NULL_LKEY;
	case MOOR_REG_MAX_MSG_SIZE:	return 1U << 31;
	case MOOR_REG_QP_INDEX_BITS:	return FAKE_QP_INDEX_BITS;
	case MOOR_REG_MAX_CQ:		return FAKE_MAX_CQ;
	case MOOR_REG_MAX_EQ:		return FAKE_MAX_EQ;
	case MOOR_REG_MAX_LOG_WQE:	return 15;
	case MOOR_REG_SRQ_INDEX_BITS:
		return fake_features(nic) & MOOR_FEATURE_SRQ ?
		       FAKE_SRQ_INDEX_BITS : 0;
	case MOOR_REG_MAX_FILTER:
		return fake_features(nic) & MOOR_FEATURE_UD ?
		       FAKE_MAX_FILTER : 0;
	case MOOR_REG_MAX_SGE:		return 16;
	case MOOR_REG_MAX_INLINE:	return 256;
	case MOOR_REG_MAX_LOG_CQE:	return 16;
	case MOOR_REG_MAX_GID:		return FAKE_GIDS;
	case MOOR_REG_MAX_RD_ATOMIC:	return 16;
	case MOOR_REG_MAX_LOG_CMD:	return FAKE_LOG_CMD;
	case MOOR_REG_MAX_LOG_EQE:	return 8;
	case MOOR_REG_NUM_VECTORS:	return FAKE_VECTORS;
	case MOOR_REG_MAX_MR_SIZE:	return 1ULL << 40;
	case MOOR_REG_DB_PAGES:		return FAKE_DB_PAGES;
	case MOOR_REG_KICK_OFFSET:	return FAKE_KICK_OFFSET;
	case MOOR_REG_DM_OFFSET:	return FAKE_DM_OFFSET;
	case MOOR_REG_DM_SIZE:		return FAKE_DM_BYTES;
	case MOOR_REG_CLOCK:		return ktime_get_ns();
	case MOOR_REG_CMD_BASE:		return nic->ring_cmd;
	case MOOR_REG_CPL_BASE:		return nic->ring_cpl;
	case MOOR_REG_CMD_LOG_SIZE:	return nic->log_size;
	case MOOR_REG_DOZE_ADDR:	return nic->doze_addr;
	case MOOR_REG_FATAL_CODE:	return nic->fatal_code;
	case MOOR_REG_FENCE:
		nic->fences++;
		return 0;
	default:			return 0;
	}
}

u64 fake_nic_read_reg(struct fake_nic *nic, u32 offset, int size)
{
	u64 value = fake_reg(nic, round_down(offset, size));

	if (nic->behave.odd_register && offset == nic->behave.odd_register)
		value = nic->behave.odd_value;
	/* The NIC has left the bus: HWI ERR-5. */
	if (nic->status == ~0U)
		return ~0ULL;
	return value;
}

static void fake_control(struct fake_nic *nic, u32 value)
{
	if (value & MOOR_CONTROL_RESET || !(value & MOOR_CONTROL_ENABLE)) {
		fake_nic_reset(nic);
		return;
	}
	if (!nic->ring_cmd || nic->ring_cmd % MOOR_PAGE_SIZE ||
	    !nic->ring_cpl || nic->ring_cpl % MOOR_PAGE_SIZE ||
	    !nic->doze_addr || nic->doze_addr % 4 || !nic->log_size ||
	    nic->log_size > FAKE_LOG_CMD || nic->behave.no_enable) {
		nic->status |= MOOR_STATUS_FATAL;
		nic->fatal_code = MOOR_FATAL_BAD_SETUP;
		return;
	}
	nic->status |= MOOR_STATUS_ENABLED;
	fake_nic_wake(nic);
}

void fake_nic_write_reg(struct fake_nic *nic, u32 offset, u64 value, int size)
{
	if (nic->status == ~0U)
		return;
	if (offset == MOOR_REG_CONTROL)
		fake_control(nic, value);
	else if (nic->status & MOOR_STATUS_ENABLED)
		fake_violation(nic, "a ring register is written while enabled");
	else if (offset == MOOR_REG_CMD_BASE && size == 8)
		nic->ring_cmd = value;
	else if (offset == MOOR_REG_CPL_BASE && size == 8)
		nic->ring_cpl = value;
	else if (offset == MOOR_REG_CMD_LOG_SIZE && size == 4)
		nic->log_size = value;
	else if (offset == MOOR_REG_DOZE_ADDR && size == 8)
		nic->doze_addr = value;
	else
		fake_violation(nic, "a register that is not writable is written");
}

static bool fake_may_dma(const struct fake_nic *nic)
{
	return nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER &&
	       nic->status != ~0U && nic->status & MOOR_STATUS_ENABLED &&
	       !(nic->status & MOOR_STATUS_FATAL);
}

static bool fake_msix_masked(const struct fake_nic *nic, u32 vector)
{
	u8 flags = nic->cfg[FAKE_CAP_MSIX_FLAGS + 1];

	return !(flags & (PCI_MSIX_FLAGS_ENABLE >> 8)) ||
	       flags & (PCI_MSIX_FLAGS_MASKALL >> 8) ||
	       READ_ONCE(nic->msix[vector][3]) & PCI_MSIX_ENTRY_CTRL_MASKBIT;
}

/**
 * fake_nic_deliver - send the messages that are pending and not masked
 * @nic: NIC
 *
 * The buses' messages carry the number of the interrupt.
 */
void fake_nic_deliver(struct fake_nic *nic)
{
	u32 vector;

	for_each_set_bit(vector, nic->msix_pending, FAKE_VECTORS) {
		if (fake_msix_masked(nic, vector) || !fake_may_dma(nic) ||
		    nic->behave.mute)
			continue;
		if (!test_and_clear_bit(vector, nic->msix_pending))
			continue;
		nic->interrupts++;
		generic_handle_irq_safe(nic->msix[vector][2]);
	}
}

static void fake_complete(struct fake_nic *nic, const struct moor_cpl *answer)
{
	u32 mask = BIT(nic->log_size) - 1;
	struct moor_cpl *cpl = (struct moor_cpl *)fake_dma(nic->ring_cpl) +
			       (nic->cpl_producer & mask);
	u32 phase = !(nic->cpl_producer >> nic->log_size & 1);
	u64 arm;

	memcpy(cpl, answer, offsetof(struct moor_cpl, phase));
	/* The phase goes last. */
	smp_store_release(&cpl->phase, cpu_to_le32(phase));
	nic->cpl_producer++;
	/* The completion before the look at the arm slot: HWI CMD-19. */
	smp_mb();
	arm = READ_ONCE(nic->slots[MOOR_DB_SLOT_CPL_ARM]);
	if (arm != nic->last_arm) {
		nic->last_arm = arm;
		set_bit(MOOR_VECTOR_CMD, nic->msix_pending);
	}
}

static void fake_run(struct fake_nic *nic, const struct moor_cmd *cmd)
{
	/* The first tag beyond the ring's: the memory there is poisoned. */
	const struct moor_cpl stray = {
		.tag = cpu_to_le16(FAKE_BATCH),
		.status = MOOR_CMD_BAD_PARAM,
	};
	struct moor_cpl answer = { .tag = cmd->hdr.tag };

	nic->commands[cmd->hdr.opcode]++;
	if (nic->behave.stray)
		fake_complete(nic, &stray);
	nic->behave.stray = false;
	if (nic->behave.fail_status &&
	    cmd->hdr.opcode == nic->behave.fail_opcode &&
	    !nic->behave.fail_after--) {
		nic->behave.fail_after = 0;
		answer.status = nic->behave.fail_status;
	} else {
		answer.status = fake_execute(nic, cmd, answer.out);
	}
	if (answer.status)
		memset(answer.out, 0, sizeof(answer.out));
	if (nic->behave.lie)
		nic->behave.lie(nic, cmd, &answer);
	fake_complete(nic, &answer);
}

/* Execute the commands in the ring, in order or in reverse. Return: how many. */
static u32 fake_commands(struct fake_nic *nic)
{
	u32 producer = READ_ONCE(nic->slots[MOOR_DB_SLOT_CMD_PRODUCER]);
	u32 mask = BIT(nic->log_size) - 1;
	struct moor_cmd *batch = nic->batch;
	u32 count, i;

	if (producer - nic->consumer > mask + 1) {
		nic->status |= MOOR_STATUS_FATAL;
		nic->fatal_code = MOOR_FATAL_CMD_RING;
		fake_violation(nic, "the command ring overflows");
		return 0;
	}
	/* Entries are read after the doorbell that announced them. */
	smp_rmb();
	for (count = 0; nic->consumer != producer; count++)
		batch[count] = ((struct moor_cmd *)fake_dma(nic->ring_cmd))
			       [nic->consumer++ & mask];
	if (nic->behave.hold)
		return count;
	for (i = 0; i < count; i++)
		fake_run(nic, &batch[nic->behave.reverse ? count - 1 - i : i]);
	return count;
}

/* Write an event, its phase last, and raise the EQ's vector (HWI 9). */
static void fake_eq_write(struct fake_nic *nic, u32 eqn, const void *event)
{
	struct fake_eq *eq = &nic->eqs[eqn];
	struct moor_eqe *eqe = (struct moor_eqe *)fake_dma(eq->base) +
			       (eq->producer & (BIT(eq->log_size) - 1));
	u32 phase = !(eq->producer >> eq->log_size & 1);

	memcpy(eqe, event, offsetof(struct moor_eqe, phase));
	/* The phase goes last. */
	smp_store_release(&eqe->phase, cpu_to_le32(phase));
	eq->producer++;
	set_bit(eq->vector, nic->msix_pending);
	fake_nic_wake(nic);
}

/**
 * fake_nic_event - write an event
 * @nic: NIC
 * @eqn: EQ
 * @type: enum moor_event_type
 * @number: of the object
 *
 * Tests must not write more events than the EQ has room for.
 */
void fake_nic_event(struct fake_nic *nic, u32 eqn, u8 type, u32 number)
{
	const struct moor_eqe event = {
		.type = type,
		.number = cpu_to_le32(number),
	};

	fake_eq_write(nic, eqn, &event);
}

/**
 * fake_nic_page_request - send a page request
 * @nic: NIC
 * @request: event; its token is not 0 and among the last FAKE_PAGE_REQUESTS unique
 *
 * Return: where the answer will be.
 */
struct fake_page *fake_nic_page_request(struct fake_nic *nic,
					const struct moor_page_request *request)
{
	u32 token = le32_to_cpu(request->token);
	struct fake_page *page = &nic->pages[token % FAKE_PAGE_REQUESTS];
	unsigned long flags;

	spin_lock_irqsave(&nic->lock, flags);
	*page = (struct fake_page){ .token = token };
	fake_eq_write(nic, MOOR_EQ_PAGE_REQUEST, request);
	spin_unlock_irqrestore(&nic->lock, flags);
	return page;
}

/* Wake the NIC for a change that needs no kick, such as a register write. */
void fake_nic_wake(struct fake_nic *nic)
{
	WRITE_ONCE(nic->kicked, true);
	wake_up(&nic->wait);
}

static void fake_doze(struct fake_nic *nic, u32 dozing)
{
	unsigned long flags;

	spin_lock_irqsave(&nic->lock, flags);
	if (fake_may_dma(nic))
		*(__le32 *)fake_dma(nic->doze_addr) = cpu_to_le32(dozing);
	spin_unlock_irqrestore(&nic->lock, flags);
}

/* Execute commands and deliver interrupts. Return: whether there were commands. */
static bool fake_nic_look(struct fake_nic *nic)
{
	unsigned long flags;
	bool busy = false;

	spin_lock_irqsave(&nic->lock, flags);
	if (fake_may_dma(nic) && !READ_ONCE(nic->behave.pause))
		busy = fake_commands(nic);
	spin_unlock_irqrestore(&nic->lock, flags);
	if (!bitmap_empty(nic->msix_pending, FAKE_VECTORS))
		fake_nic_interrupt(nic);
	return busy;
}

/**
 * fake_nic_thread - the device
 * @data: NIC
 *
 * Return: 0
 */
int fake_nic_thread(void *data)
{
	struct fake_nic *nic = data;

	while (!kthread_should_stop()) {
		if (fake_nic_look(nic))
			continue;
		/* HWI DB-14: write the dozing word, look once more, sleep. */
		fake_doze(nic, 1);
		/* Orders the dozing word before the last look at the slots. */
		smp_mb();
		if (!fake_nic_look(nic))
			wait_event_interruptible(nic->wait,
						 READ_ONCE(nic->kicked) ||
						 kthread_should_stop());
		WRITE_ONCE(nic->kicked, false);
		fake_doze(nic, 0);
	}
	return 0;
}
