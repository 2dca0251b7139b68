// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "graph.h"

/*
 * The graphs that graph_each() visits:
 *
 * - all of up to three objects; of four, those that have nothing of FURTHER kinds (SRQs,
 *   UD, XRC), and those that have such kinds and what they are made of (PARTs), and
 *   nothing else. All there is to XRC, once each, for that takes six.
 * - a share of the others of four, where those kinds stand beside regions and windows,
 *   and of five objects of those kinds and their parts.
 */
struct rule {
	unsigned int objects;
	enum role among;	/* each kind must have one of these; 0: any kind */
	bool once;		/* each allowed kind stands in the graph exactly once */
	bool (*fits)(const struct graph *graph);	/* NULL: all graphs fit */
	bool shared;
};

static bool has_further(const struct graph *graph)
{
	unsigned int i;

	for (i = 0; i < graph->count; i++)
		if (kinds[graph->step[i].kind].roles & FURTHER)
			return true;
	return false;
}

static bool is_mixed(const struct graph *graph)
{
	unsigned int i;

	for (i = 0; i < graph->count; i++)
		if (!(kinds[graph->step[i].kind].roles & (FURTHER | PART)))
			return has_further(graph);
	return false;
}

static bool is_not_mixed(const struct graph *graph)
{
	return !is_mixed(graph);
}

static const struct rule rules[] = {
	{ .objects = 1 },
	{ .objects = 2 },
	{ .objects = 3 },
	{ .objects = 4, .fits = is_not_mixed },
	{ .objects = 6, .among = WHOLE_XRC, .once = true },
	{ .objects = 4, .fits = is_mixed, .shared = true },
	{ .objects = 5, .among = FURTHER | PART, .fits = has_further, .shared = true },
};

/* ---- all of them ---- */

struct enumeration {
	const struct plan *plan;
	struct rule rule;
	bool (*visit)(const struct graph *graph, void *arg);
	void *arg;
	bool stop;
	unsigned int total, shared;	/* graphs; sets of objects of shared rules */
	int bind, binder, use, disturb;	/* indices of kinds[] */
};

static bool is_our_turn(const struct enumeration *all)
{
	return !all->rule.shared ||
	       all->shared % all->plan->share == all->plan->turn % all->plan->share;
}

static void visit(struct enumeration *all, const struct graph *graph)
{
	struct graph disturbed = *graph;

	all->total += 2;
	if (!is_our_turn(all))
		return;
	if (!all->stop)
		all->stop = !all->visit(graph, all->arg);
	if (has_further(graph))
		disturbed.step[disturbed.count++] = (struct step){ .kind = all->use };
	disturbed.step[disturbed.count++] = (struct step){ .kind = all->disturb };
	if (!all->stop)
		all->stop = !all->visit(&disturbed, all->arg);
}

/*
 * By default the QP that binds is made when it is first needed, after the other
 * objects, and so is destroyed before them. This visits the graph again with that QP
 * made right after its PD, older than everything else in it.
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

/* From step @at on, tries each window unbound and bound to each MR of its domain. */
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

/* Are all objects connected, directly or through others, by what they need? */
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

/* Tries each choice of earlier steps for what the last step needs, from need @n on. */
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

static bool is_allowed(const struct rule *rule, const struct graph *graph,
		       unsigned int kind)
{
	unsigned int i;

	if (!(kinds[kind].roles & OBJECT) ||
	    (rule->among && !(kinds[kind].roles & rule->among)))
		return false;
	for (i = 0; i < graph->count && rule->once; i++)
		if (graph->step[i].kind == kind)
			return false;
	return true;
}

static void extend(struct enumeration *all, struct graph *graph)
{
	unsigned int kind;

	if (graph->count == all->rule.objects) {
		if (!related(graph) || (all->rule.fits && !all->rule.fits(graph)))
			return;
		bind(all, graph, graph->count, 0);
		all->shared += all->rule.shared;
		return;
	}
	for (kind = 0; kind < num_kinds && !all->stop; kind++) {
		if (!is_allowed(&all->rule, graph, kind))
			continue;
		graph->step[graph->count++] = (struct step){ .kind = kind };
		choose_needs(all, graph, 0);
		graph->count--;
	}
}

unsigned int graph_each(const struct plan *plan,
			bool (*visit)(const struct graph *graph, void *arg), void *arg)
{
	struct enumeration all = {
		.plan = plan, .visit = visit, .arg = arg,
		.bind = kind_by_name("bind"), .binder = kind_by_name("binder"),
		.use = kind_by_name("use"), .disturb = kind_by_name("disturb"),
	};
	unsigned int count = plan->objects, i;
	struct graph graph = {};

	if (!count)
		count = sizeof(rules) / sizeof(rules[0]);
	for (i = 0; i < count; i++) {
		all.rule = plan->objects ? (struct rule){ .objects = i + 1 } : rules[i];
		extend(&all, &graph);
	}
	return all.total;
}

/* ---- random ones ---- */

static uint64_t next(uint64_t *chance)
{
	*chance ^= *chance << 13;
	*chance ^= *chance >> 7;
	*chance ^= *chance << 17;
	return *chance >> 16;
}

static bool needs(unsigned int kind, enum role role)
{
	unsigned int n;

	for (n = 0; n < MAX_NEEDS; n++)
		if (kinds[kind].needs[n] & role)
			return true;
	return false;
}

/* A random kind that has @role and does not itself need it. */
static unsigned int kind_that_is(enum role role, uint64_t *chance)
{
	unsigned int fits[MAX_KINDS], count = 0, i;

	for (i = 0; i < num_kinds; i++)
		if (kinds[i].roles & role && !needs(i, role))
			fits[count++] = i;
	return fits[next(chance) % count];
}

/*
 * Adds a step of @kind. Each of its needs is a random earlier step that fits; if there
 * is none, one is added first. Return: false if there is no room.
 */
static bool add(struct graph *graph, unsigned int kind, uint64_t *chance)
{
	struct step step = { .kind = kind };
	unsigned int fits[MAX_STEPS], count, i, n;

	for (n = 0; n < MAX_NEEDS && kinds[kind].needs[n]; n++) {
		for (i = 0, count = 0; i < graph->count; i++)
			if (kinds[graph->step[i].kind].roles & kinds[kind].needs[n])
				fits[count++] = i;
		if (!count) {
			if (!add(graph, kind_that_is(kinds[kind].needs[n], chance), chance))
				return false;
			fits[count++] = graph->count - 1;
		}
		step.need[n] = fits[next(chance) % count];
	}
	if (graph->count == MAX_STEPS)
		return false;
	graph->step[graph->count++] = step;
	return true;
}

void graph_random(struct graph *graph, uint64_t seed)
{
	/* Spreads the seeds: neighbouring ones give unrelated sequences. */
	uint64_t chance = (seed + 1) * 0x9e3779b97f4a7c15u;
	unsigned int steps = 6 + next(&chance) % (MAX_STEPS - 6);

	*graph = (struct graph){ .count = 1 };
	graph->step[0].kind = kind_by_name("pd");
	while (graph->count < steps && add(graph, next(&chance) % num_kinds, &chance))
		;
}
