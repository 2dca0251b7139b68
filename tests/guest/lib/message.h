/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages from side a of a pair to side b, with every byte of both buffers checked,
 * whatever the type of the QPs.
 */
#ifndef MESSAGE_H
#define MESSAGE_H

#include "pair.h"

#define GUARD	64	/* bytes around a message that have to stay as they are */

/* Sizes around those of packets and pages. */
#define NUM_MESSAGE_SIZES	14
extern const uint32_t message_sizes[NUM_MESSAGE_SIZES];

void fill_both(struct pair *pair);
bool rest_untouched(const struct pair *pair, const struct side *side, size_t at,
		    size_t size);
bool arrived(const struct pair *pair, const struct side *from_side, size_t from,
	     const struct side *to_side, size_t to, size_t size);
struct request request_at(const struct pair *pair, enum ibv_wr_opcode opcode,
			  uint32_t offset, uint32_t length);
bool sent(struct pair *pair, const struct request *request,
	  enum ibv_wc_opcode opcode, const char *name);
bool settle_pair(struct pair *pair);
void exchange(struct pair *pair, int count, unsigned int flags);
void test_messages(struct pair *pair);
void test_message_shapes(struct pair *pair);

#endif /* MESSAGE_H */
