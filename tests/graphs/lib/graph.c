// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

int kind_by_name(const char *name)
{
	unsigned int i;

	for (i = 0; i < num_kinds; i++)
		if (!strcmp(kinds[i].name, name))
			return i;
	return -1;
}

/* Parses one step: its name and, after dots, the numbers of the steps that it needs. */
static bool parse_step(struct graph *graph, char *word, char *why, size_t size)
{
	struct step *step = &graph->step[graph->count];
	char *name = strsep(&word, "."), *number, *end;
	int kind = kind_by_name(name), i;
	unsigned long need;

	if (kind < 0) {
		snprintf(why, size, "%s: no such kind of step", name);
		return false;
	}
	step->kind = kind;
	for (i = 0; i < MAX_NEEDS && kinds[kind].needs[i]; i++) {
		number = strsep(&word, ".");
		need = number && *number ? strtoul(number, &end, 10) : MAX_STEPS;
		if (need >= graph->count || *end ||
		    !(kinds[graph->step[need].kind].roles & kinds[kind].needs[i])) {
			snprintf(why, size, "step %u, %s: what it needs is not there",
				 graph->count, name);
			return false;
		}
		step->need[i] = need;
	}
	if (word) {
		snprintf(why, size, "step %u, %s: it needs no %s", graph->count,
			 name, word);
		return false;
	}
	graph->count++;
	return true;
}

bool graph_parse(struct graph *graph, const char *text, char *why, size_t size)
{
	char copy[GRAPH_TEXT], *rest = copy, *word;

	*graph = (struct graph){};
	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy)) {
		snprintf(why, size, "more than %u characters", GRAPH_TEXT - 1);
		return false;
	}
	while ((word = strsep(&rest, ","))) {
		if (graph->count == MAX_STEPS) {
			snprintf(why, size, "more than %u steps", MAX_STEPS);
			return false;
		}
		if (!parse_step(graph, word, why, size))
			return false;
	}
	return true;
}

const char *graph_text(const struct graph *graph, char text[GRAPH_TEXT])
{
	unsigned int i, n, used = 0;

	text[0] = 0;
	for (i = 0; i < graph->count; i++) {
		const struct kind *kind = &kinds[graph->step[i].kind];

		used += snprintf(text + used, GRAPH_TEXT - used, "%s%s",
				 i ? "," : "", kind->name);
		for (n = 0; n < MAX_NEEDS && kind->needs[n]; n++)
			used += snprintf(text + used, GRAPH_TEXT - used, ".%u",
					 graph->step[i].need[n]);
	}
	return text;
}

unsigned int graph_domain(const struct graph *graph, unsigned int step)
{
	const struct kind *kind = &kinds[graph->step[step].kind];
	unsigned int i;

	if (kind->roles & KERNEL_PD)
		return step;
	/*
	 * An import belongs to the PD of the object that it stands for: its last need.
	 */
	for (i = MAX_NEEDS; i-- > 0;)
		if (kind->needs[i] & (ANY_PD | KERNEL_PD | TARGET))
			return graph_domain(graph, graph->step[step].need[i]);
	return MAX_STEPS;
}

bool graph_without(const struct graph *graph, unsigned int step,
		   struct graph *rest)
{
	uint8_t place[MAX_STEPS];
	unsigned int i, n;

	*rest = (struct graph){};
	for (i = 0; i < graph->count; i++) {
		const struct step *old = &graph->step[i];
		struct step new = *old;
		bool stays = i != step;

		for (n = 0; n < MAX_NEEDS && kinds[old->kind].needs[n]; n++) {
			stays = stays && place[old->need[n]] != MAX_STEPS;
			new.need[n] = place[old->need[n]];
		}
		place[i] = stays ? rest->count : MAX_STEPS;
		if (stays)
			rest->step[rest->count++] = new;
	}
	return rest->count;
}
