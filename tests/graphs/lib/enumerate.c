// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "graph.h"

/* ---- all of them ---- */

struct enumeration {
	unsigned int objects;
	bool (*visit)(const struct graph *graph, void *arg);
	void *arg;
	bool stop;
	int bind, binder, disturb;	/* kinds */
};

static void visit(struct enumeration *all, const struct graph *graph)
{
	struct graph disturbed = *graph;

	if (!all->stop)
		all->stop = !all->visit(graph, all->arg);
	disturbed.step[disturbed.count++] = (struct step){ .kind = all->disturb };
	if (!all->stop)
		all->stop = !all->visit(&disturbed, all->arg);
}

/*
 * The QP that binds is made when it is needed, after all else, and destroyed
 * before it therefore. And once more with the QP older than everything in its PD.
 */
static void visit_with_old_qps(struct enumeration *all, const struct graph *graph)
{
	struct graph old = {};
	uint8_t place[MAX_STEPS];
	unsigned int i, n;

	for (i = 0; i < graph->count; i++) {
		struct step step = graph->step[i];

		for (n = 0; n < MAX_NEEDS && kinds[step.kind].needs[n]; n++)
			step.need[n] = place[step.need[n]];
		place[i] = old.count;
		old.step[old.count++] = step;
		if (kinds[step.kind].roles & KERNEL_PD)
			old.step[old.count++] = (struct step){
				.kind = all->binder, .need = { place[i] },
			};
	}
	visit(all, &old);
}

/* Window by window from @at: not bound, or to each of the MRs in its domain. */
static void bind(struct enumeration *all, const struct graph *graph,
		 unsigned int objects, unsigned int at)
{
	struct graph bound = *graph;
	unsigned int i;

	while (at < objects && !(kinds[graph->step[at].kind].roles & WINDOW))
		at++;
	if (at == objects) {
		visit(all, graph);
		if (graph->count > objects)
			visit_with_old_qps(all, graph);
		return;
	}
	bind(all, graph, objects, at + 1);
	for (i = 0; i < objects && !all->stop; i++) {
		if (!(kinds[graph->step[i].kind].roles & TARGET) ||
		    graph_domain(graph, i) != graph_domain(graph, at))
			continue;
		bound.step[graph->count] = (struct step){
			.kind = all->bind, .need = { at, i },
		};
		bound.count = graph->count + 1;
		bind(all, &bound, objects, at + 1);
	}
}

/* Can one get from each object to each other, along what they need? */
static bool related(const struct graph *graph)
{
	uint32_t group[MAX_STEPS], joined;
	unsigned int i, j, n;

	for (i = 0; i < graph->count; i++) {
		joined = 1u << i;
		for (n = 0; n < MAX_NEEDS && kinds[graph->step[i].kind].needs[n]; n++)
			joined |= group[graph->step[i].need[n]];
		for (j = 0; j <= i; j++)
			if (joined & 1u << j)
				group[j] = joined;
	}
	return group[0] == (1u << graph->count) - 1;
}

static void extend(struct enumeration *all, struct graph *graph);

/* All choices of what the last step needs, from need @n on. */
static void choose_needs(struct enumeration *all, struct graph *graph,
			 unsigned int n)
{
	struct step *step = &graph->step[graph->count - 1];
	unsigned int i;

	if (n == MAX_NEEDS || !kinds[step->kind].needs[n]) {
		extend(all, graph);
		return;
	}
	for (i = 0; i + 1 < graph->count; i++) {
		if (!(kinds[graph->step[i].kind].roles & kinds[step->kind].needs[n]))
			continue;
		step->need[n] = i;
		choose_needs(all, graph, n + 1);
	}
}

static void extend(struct enumeration *all, struct graph *graph)
{
	unsigned int kind;

	if (graph->count == all->objects) {
		if (related(graph))
			bind(all, graph, graph->count, 0);
		return;
	}
	for (kind = 0; kind < num_kinds && !all->stop; kind++) {
		if (!(kinds[kind].roles & OBJECT))
			continue;
		graph->step[graph->count++] = (struct step){ .kind = kind };
		choose_needs(all, graph, 0);
		graph->count--;
	}
}

void graph_each(unsigned int objects,
		bool (*visit)(const struct graph *graph, void *arg), void *arg)
{
	struct enumeration all = {
		.visit = visit, .arg = arg,
		.bind = kind_by_name("bind"), .binder = kind_by_name("binder"),
		.disturb = kind_by_name("disturb"),
	};
	struct graph graph = {};

	for (all.objects = 1; all.objects <= objects; all.objects++)
		extend(&all, &graph);
}

/* ---- random ones ---- */

static uint64_t next(uint64_t *chance)
{
	*chance ^= *chance << 13;
	*chance ^= *chance >> 7;
	*chance ^= *chance << 17;
	return *chance >> 16;
}

/* Fills in what a step of this kind needs, at random. Return: false: not there. */
static bool find_needs(const struct graph *graph, struct step *step,
		       uint64_t *chance)
{
	unsigned int fits[MAX_STEPS], count, i, n;

	for (n = 0; n < MAX_NEEDS && kinds[step->kind].needs[n]; n++) {
		count = 0;
		for (i = 0; i < graph->count; i++)
			if (kinds[graph->step[i].kind].roles &
			    kinds[step->kind].needs[n])
				fits[count++] = i;
		if (!count)
			return false;
		step->need[n] = fits[next(chance) % count];
	}
	return true;
}

void graph_random(struct graph *graph, uint64_t seed)
{
	/* Neighbouring seeds have nothing in common. */
	uint64_t chance = (seed + 1) * 0x9e3779b97f4a7c15u;
	unsigned int steps = 6 + next(&chance) % (MAX_STEPS - 6);
	struct step step;

	*graph = (struct graph){ .count = 1 };
	graph->step[0].kind = kind_by_name("pd");
	while (graph->count < steps) {
		step = (struct step){ .kind = next(&chance) % num_kinds };
		if (find_needs(graph, &step, &chance))
			graph->step[graph->count++] = step;
	}
}
