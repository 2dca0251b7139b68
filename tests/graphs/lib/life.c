// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "life.h"

/* Is the object alive, and the one that it is another name of? */
static bool is_usable(const struct node *node)
{
	return node->live && (!node->of || is_usable(node->of));
}

/*
 * Return: false if an object that the step needs has gone; the step is left out then.
 */
static bool find_needs(struct life *life, struct node *node,
		       const struct step *step)
{
	unsigned int n;

	for (n = 0; n < MAX_NEEDS && node->kind->needs[n]; n++) {
		node->need[n] = &life->node[step->need[n]];
		if (!is_usable(node->need[n]))
			return false;
	}
	return true;
}

bool life_make(struct life *life, struct ibv_device *device,
	       const struct graph *graph)
{
	struct node *node;
	int err;

	*life = (struct life){ .ctx = ibv_open_device(device) };
	if (!life->ctx) {
		snprintf(life->error, sizeof(life->error), "ibv_open_device: %s",
			 strerror(errno));
		return false;
	}
	for (; life->count < graph->count; life->count++) {
		node = &life->node[life->count];
		node->kind = &kinds[graph->step[life->count].kind];
		if (!find_needs(life, node, &graph->step[life->count]))
			continue;
		errno = 0;
		err = node->kind->make(life, node);
		if (err) {
			snprintf(life->error, sizeof(life->error), "step %u (%s): %s",
				 life->count, node->kind->name, strerror(err));
			return false;
		}
		node->live = node->kind->roles & OBJECT;
	}
	return true;
}

int life_close(struct life *life)
{
	int err = life->imported ? ibv_close_device(life->imported) : 0;

	return err ? err : ibv_close_device(life->ctx);
}
