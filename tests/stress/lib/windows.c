// SPDX-License-Identifier: GPL-2.0
/* Windows of both types: allocated, bound, moved, unbound in every way, freed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "mix.h"

static void set_unbound(struct window *win)
{
	if (win->region)
		win->region->windows--;
	win->region = NULL;
}

/* Notes that windows of type 2 are unbound: their QP was reset or destroyed. */
void forget_type_2(struct worker *w)
{
	for (unsigned int i = 0; i < WINDOWS; i++)
		if (w->windows[i].mw && w->windows[i].type == IBV_MW_TYPE_2)
			set_unbound(&w->windows[i]);
}

/* Freeing a window must work, bound or not. */
void dealloc_window(struct worker *w, struct window *win)
{
	uint32_t key = win->mw->rkey;
	int err = ibv_dealloc_mw(win->mw);

	if (err)
		wrong(w, "ibv_dealloc_mw: %s", strerror(err));
	set_unbound(win);
	win->mw = NULL;
	bury(w, key);
}

void toggle_window(struct worker *w)
{
	struct window *win = &w->windows[below(w, WINDOWS)];

	if (win->mw) {
		dealloc_window(w, win);
		return;
	}
	win->type = draw(w) & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
	win->mw = ibv_alloc_mw(w->pair.pd, win->type);
	if (!win->mw)
		wrong(w, "ibv_alloc_mw: %s", strerror(errno));
}

/* Invalidates by LOCAL_INV at b, or by a SEND with invalidate from a. */
static void invalidate_type_2(struct worker *w, struct window *win)
{
	const struct api *api = &apis[draw(w) & 1];
	struct side *a = &w->pair.a, *b = &w->pair.b;
	struct ibv_wc wc;

	if (draw(w) & 1) {
		settle(w, b, api->local_inv(b, win->mw->rkey), IBV_WC_SUCCESS,
		       false, "LOCAL_INV");
	} else {
		count(w, SEND_INV);
		if (post_receive(b, w->steps, b->buf, 64, b->mr->lkey))
			wrong(w, "posting a receive");
		count(w, POSTED);
		settle(w, a, api->send_inv(a, win->mw->rkey, a->buf, 64),
		       IBV_WC_SUCCESS, false, "SEND_WITH_INV");
		reap(w, b->recv_cq, &wc);
		if (wc.status || !(wc.wc_flags & IBV_WC_WITH_INV) ||
		    wc.invalidated_rkey != win->mw->rkey)
			wrong(w, "the receive of SEND_WITH_INV: %s, flags 0x%x, key 0x%x",
			      ibv_wc_status_str(wc.status), wc.wc_flags,
			      wc.invalidated_rkey);
	}
	set_unbound(win);
}

static void unbind(struct worker *w, struct window *win)
{
	struct ibv_mw_bind_info nothing = {};
	struct side *b = &w->pair.b;

	count(w, UNBIND);
	if (win->type == IBV_MW_TYPE_2) {
		invalidate_type_2(w, win);
		return;
	}
	settle(w, b, apis[draw(w) & 1].bind(b, win->mw,
					    ibv_inc_rkey(win->mw->rkey),
					    &nothing),
	       IBV_WC_SUCCESS, false, "unbinding");
	set_unbound(win);
}

/* May a window with these rights be bound to the MR? */
static bool may_bind(const struct region *r, unsigned int access)
{
	return r->home && r->access & IBV_ACCESS_MW_BIND &&
	       (r->access & IBV_ACCESS_LOCAL_WRITE ||
		!(access & ~IBV_ACCESS_REMOTE_READ & REMOTE_RIGHTS));
}

static void bind(struct worker *w, struct window *win, struct region *r)
{
	/* ibv_bind_mw() checks the PDs itself, so other PDs are left to posting. */
	const struct api *api = &apis[!r->home || draw(w) & 1];
	size_t skip = below(w, r->length);
	struct ibv_mw_bind_info info = {
		.mr = r->mr, .addr = wire_address(r, r->offset + skip),
		.length = 1 + below(w, r->length - skip),
		.mw_access_flags = draw(w) & (REMOTE_RIGHTS |
					      IBV_ACCESS_ZERO_BASED),
	};
	bool allowed = may_bind(r, info.mw_access_flags);
	uint32_t key = win->mw->rkey;
	struct side *b = &w->pair.b;

	/* Seldom bind wrongly: an error costs both QPs and all bindings of type 2. */
	if (!allowed && below(w, 4))
		return;
	count(w, BIND);
	settle(w, b, api->bind(b, win->mw, ibv_inc_rkey(key), &info),
	       allowed ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR, false,
	       "binding a window");
	if (!allowed) {
		win->mw->rkey = key;
		return;
	}
	if (win->mw->rkey != ibv_inc_rkey(key))
		wrong(w, "mw->rkey is 0x%08x after a bind of 0x%08x",
		      win->mw->rkey, key);
	set_unbound(win);
	win->region = r;
	win->offset = r->offset + skip;
	win->length = info.length;
	win->iova = info.mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : info.addr;
	win->access = info.mw_access_flags;
	r->windows++;
}

/* A type 1 window may be bound again; type 2 has to be unbound first. */
void bind_or_unbind(struct worker *w)
{
	struct window *win = &w->windows[below(w, WINDOWS)];
	struct region *r = some_region(w);

	if (!win->mw)
		return;
	if (win->region && (win->type == IBV_MW_TYPE_2 || !below(w, 3)))
		unbind(w, win);
	else if (r)
		bind(w, win, r);
}

/* Binds that must always fail: the window stays as it was. */
void bind_wrongly(struct worker *w)
{
	struct window *win = &w->windows[below(w, WINDOWS)];
	struct ibv_mr stale = *w->pair.b.mr;
	struct ibv_mw_bind_info info = {
		.mr = &stale, .addr = (uintptr_t)w->arena, .length = 8,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ,
	};
	struct side *b = &w->pair.b;
	uint32_t key;

	if (!win->mw)
		return;
	switch (below(w, 3)) {
	case 0:
		stale.lkey = w->null->lkey;
		break;
	case 1:
		if (w->num_dead)
			stale.lkey = w->dead[w->num_dead % DEAD ?
					     w->num_dead % DEAD - 1 : 0];
		break;
	default:	/* side b's own MR has no MW_BIND */
		break;
	}
	key = win->mw->rkey;
	settle(w, b, apis[1].bind(b, win->mw, ibv_inc_rkey(key), &info),
	       IBV_WC_MW_BIND_ERR, false, "a bind that is wrong");
	win->mw->rkey = key;
}
