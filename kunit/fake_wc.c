// SPDX-License-Identifier: GPL-2.0
/*
 * A processor's write-combining buffer in front of BAR2 (HWI MR-7): a write stays
 * in it until a barrier or the read of a register, and writes leave it in any
 * order. So a missing barrier in the driver is seen: the NIC does not know a key
 * that was handed out, or knows a key that was revoked, or gets a valid word before
 * its body.
 */

#include "fake.h"

#define FAKE_WC_WRITES	64

struct fake_wc_write {
	struct fake_nic *nic;
	u32 offset;
	u64 value;
};

static DEFINE_SPINLOCK(fake_wc_lock);	/* protects the rest */
static struct fake_wc_write fake_wc_writes[FAKE_WC_WRITES];
static u32 fake_wc_count;

static void fake_wc_empty(void)
{
	u32 i;

	lockdep_assert_held(&fake_wc_lock);
	for (i = 0; i < fake_wc_count; i++) {
		struct fake_wc_write *write = &fake_wc_writes[i];
		u64 *word = (u64 *)((u8 *)write->nic->mr + write->offset);
		u64 before = *word;

		WRITE_ONCE(*word, write->value);
		fake_mr_written(write->nic, write->offset, 8, before);
	}
	fake_wc_count = 0;
}

/* For a barrier, or a register read, which has the same effect. */
void fake_wc_barrier(void)
{
	unsigned long flags;

	spin_lock_irqsave(&fake_wc_lock, flags);
	fake_wc_empty();
	spin_unlock_irqrestore(&fake_wc_lock, flags);
}

/* Is part of an entry's body still in the buffer? A valid word must not overtake it. */
static bool fake_wc_holds_body(const struct fake_nic *nic, u32 entry)
{
	u32 i;

	for (i = 0; i < fake_wc_count; i++)
		if (fake_wc_writes[i].nic == nic &&
		    round_down(fake_wc_writes[i].offset,
			       sizeof(struct moor_mr_context)) == entry)
			return true;
	return false;
}

/**
 * fake_wc_write - eight bytes written to BAR2
 * @nic: NIC
 * @offset: in BAR2
 * @value: value
 */
void fake_wc_write(struct fake_nic *nic, u32 offset, u64 value)
{
	unsigned long flags;

	spin_lock_irqsave(&fake_wc_lock, flags);
	if (value && offset % sizeof(struct moor_mr_context) == 0 &&
	    fake_wc_holds_body(nic, offset))
		fake_violation(nic, "no barrier between a body and its valid word");
	if (fake_wc_count == FAKE_WC_WRITES)
		fake_wc_empty();
	fake_wc_writes[fake_wc_count++] = (struct fake_wc_write){
		.nic = nic,
		.offset = offset,
		.value = value,
	};
	spin_unlock_irqrestore(&fake_wc_lock, flags);
}

/* The NIC is reset or unplugged: writes in the buffer are lost. */
void fake_wc_drop(void)
{
	unsigned long flags;

	spin_lock_irqsave(&fake_wc_lock, flags);
	fake_wc_count = 0;
	spin_unlock_irqrestore(&fake_wc_lock, flags);
}
