// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Cookies: the cookie in a CQE names the owner of the CQE, a QP or an XRC SRQ. */
#include <errno.h>
#include <stdlib.h>

#include "moor.h"

static struct moor_owner_chunk *get_chunk(struct moor_context *ctx,
					  uint32_t number)
{
	struct moor_owner_chunk *chunk = ctx->owners[number];

	if (!chunk) {
		chunk = calloc(1, sizeof(*chunk));
		if (chunk)
			__atomic_store_n(&ctx->owners[number], chunk,
					 __ATOMIC_RELEASE);
	}
	return chunk;
}

/* Gives @owner a cookie. Returns 0 or an errno. */
int moor_cookie_get(struct moor_context *ctx, struct moor_owner *owner)
{
	struct moor_owner_chunk *chunk;
	int err = ENOMEM;
	uint32_t i, place;

	pthread_mutex_lock(&ctx->lock);
	for (i = 0; i < MOOR_COOKIES; i++) {
		owner->cookie = ctx->next_cookie;
		ctx->next_cookie = (ctx->next_cookie + 1) % MOOR_COOKIES;
		place = owner->cookie % MOOR_CHUNK_SIZE;
		chunk = get_chunk(ctx, owner->cookie >> MOOR_CHUNK_SHIFT);
		if (!chunk)
			break;
		if (!__atomic_load_n(&chunk->owner[place], __ATOMIC_ACQUIRE)) {
			__atomic_store_n(&chunk->owner[place], owner,
					 __ATOMIC_RELEASE);
			err = 0;
			break;
		}
	}
	pthread_mutex_unlock(&ctx->lock);
	return err;
}

void moor_cookie_put(struct moor_context *ctx, const struct moor_owner *owner)
{
	struct moor_owner_chunk *chunk =
		ctx->owners[owner->cookie >> MOOR_CHUNK_SHIFT];

	__atomic_store_n(&chunk->owner[owner->cookie % MOOR_CHUNK_SIZE], NULL,
			 __ATOMIC_RELEASE);
}
