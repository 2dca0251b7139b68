// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "suite.h"
#include "watchdog.h"

#define ABOUT_SIZE	160
#define NOT_OFFERED	"the device does not offer it"

/* The documents' rules: made from it when the suite is built. */
static const struct rule {
	const char *name;
	char binds;			/* D, d or S */
	const char *text;
} rules[] = {
#define RULE(rule_name, letter, rule_text) { rule_name, letter, rule_text },
#include "rules.inc"
#undef RULE
};

#define NUM_RULES	(sizeof(rules) / sizeof(rules[0]))

/* Rules that bind the device, but that no client of vfio-user can check. */
static const struct {
	const char *name, *reason;
} unseen[] = {
#define UNSEEN(rule_name, why) { rule_name, why },
#include "unseen.inc"
#undef UNSEEN
};

/* Rules that are layouts, and for each the rule that cannot be kept without it. */
static const struct {
	const char *name, *rule;
} layouts[] = {
#define LAYOUT(layout, of) { layout, of },
#include "layouts.inc"
#undef LAYOUT
};

static struct tally {
	unsigned int cases, passed, failed, absent;
} tally[NUM_RULES];

static struct test_case *first_case, **last_case = &first_case;
static struct test_case *current;
static jmp_buf give_up;
static unsigned int checks, failures;
static bool skipped, partial;
static char topic[ABOUT_SIZE];
static const char *why_skipped;

void register_case(struct test_case *c)
{
	*last_case = c;
	last_case = &c->next;
}

void about(const char *fmt, ...)
{
	va_list args;

	topic[0] = '\0';
	if (!fmt)
		return;
	va_start(args, fmt);
	vsnprintf(topic, sizeof(topic) - 2, fmt, args);
	va_end(args);
	strcat(topic, ": ");
}

static void complain(const char *file, int line, const char *fmt, va_list args)
{
	failures++;
	printf("# %s:%d: %s", file, line, topic);
	vprintf(fmt, args);
	putchar('\n');
}

bool expect_at(const char *file, int line, bool ok, const char *fmt, ...)
{
	va_list args;

	checks++;
	if (ok)
		return true;
	va_start(args, fmt);
	complain(file, line, fmt, args);
	va_end(args);
	return false;
}

bool need_at(const char *file, int line, bool ok, const char *fmt, ...)
{
	va_list args;

	if (ok)
		return true;
	va_start(args, fmt);
	complain(file, line, fmt, args);
	va_end(args);
	if (!current)
		bail_out("the device cannot be used at all");
	longjmp(give_up, 1);
}

static void __attribute__((noreturn)) skip(void)
{
	skipped = true;
	longjmp(give_up, 1);
}

void skip_unless(bool offered)
{
	if (offered)
		return;
	skip();
}

void skip_below(const char *name, uint64_t found, uint64_t least)
{
	static char text[ABOUT_SIZE];
	size_t i;

	if (found >= least)
		return;
	snprintf(text, sizeof(text), "needs %s of %llu, this device has %llu", name,
		 (unsigned long long)least, (unsigned long long)found);
	/* The field of struct device is named after the register. */
	for (i = strlen("needs "); i < strlen("needs ") + strlen(name); i++)
		text[i] = (char)toupper(text[i]);
	why_skipped = text;
	skip();
}

void bail_out(const char *fmt, ...)
{
	va_list args;

	if (current)
		printf("# in case \"%s\"\n", current->name);
	fputs("Bail out! ", stdout);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	partial = true;
	suite_rule_table();
	fflush(stdout);
	exit(EXIT_UNTESTED);
}

/* ---- rules ---- */

static int find_rule(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < NUM_RULES; i++)
		if (strlen(rules[i].name) == len && !memcmp(rules[i].name, name, len))
			return (int)i;
	return -1;
}

/* The next name in a list of them, which is advanced; NULL at its end. */
static const char *next_name(const char **list, size_t *len)
{
	const char *name = *list + strspn(*list, " ");

	*len = strcspn(name, " ");
	*list = name + *len;
	return *len ? name : NULL;
}

enum outcome { PASSED, FAILED, ABSENT };

static void count_rules(const struct test_case *c, enum outcome outcome)
{
	const char *list = c->rules, *name;
	size_t len;

	while ((name = next_name(&list, &len))) {
		int i = find_rule(name, len);

		if (i < 0)
			bail_out("case \"%s\" names %.*s, which is no rule of the document",
				 c->name, (int)len, name);
		tally[i].cases++;
		tally[i].passed += outcome == PASSED;
		tally[i].failed += outcome == FAILED;
		tally[i].absent += outcome == ABSENT;
	}
}

static void count_layouts(void)
{
	size_t i;

	for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		int name = find_rule(layouts[i].name, strlen(layouts[i].name));
		int rule = find_rule(layouts[i].rule, strlen(layouts[i].rule));

		if (name < 0 || rule < 0)
			bail_out("layouts.inc names %s and %s, and one is no rule of the document",
				 layouts[i].name, layouts[i].rule);
		tally[name] = tally[rule];
	}
}

static const char *why_unseen(const struct rule *rule)
{
	size_t i;

	if (rule->binds == 'S')
		return "binds software";
	if (rule->binds == 'd')
		return "no host can tell";
	for (i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++)
		if (!strcmp(unseen[i].name, rule->name))
			return unseen[i].reason;
	return NULL;
}

static const char *result_of(const struct tally *t, const char *reason)
{
	if (t->failed)
		return "FAILED";
	if (t->passed)
		return "passed";
	if (t->absent)
		return "not offered";
	return reason ? "unseen" : "NO CASE";
}

/* How many rules there are of each kind; those that cannot be seen have no case. */
struct sums {
	unsigned int offered, tested, passed, failed, absent, hidden;
};

static void add(struct sums *sums, const struct tally *t, const char *reason)
{
	bool seen = t->passed || t->failed;

	sums->hidden += reason && !t->cases;
	sums->absent += t->absent && !seen;
	sums->offered += seen || !(t->cases || reason);
	sums->tested += seen;
	sums->passed += t->passed && !t->failed;
	sums->failed += t->failed != 0;
}

static void print_rule(const struct rule *rule, const struct tally *t, const char *hidden)
{
	const char *text = rule->text;

	if (!t->cases && hidden)
		text = hidden;
	printf("# %-8s %5u %-12s %s\n", rule->name, t->cases, result_of(t, hidden), text);
}

bool suite_rule_table(void)
{
	struct sums sums = { 0 };
	size_t i;

	count_layouts();
	printf("#\n# %-8s %5s %-12s what it says, or why it cannot be seen\n",
	       "rule", "cases", "result");
	for (i = 0; i < NUM_RULES; i++) {
		const char *hidden = why_unseen(&rules[i]);

		/* What has no case here may have one among those that have not run. */
		if (partial && !tally[i].cases)
			continue;
		print_rule(&rules[i], &tally[i], hidden);
		add(&sums, &tally[i], hidden);
	}
	if (partial) {
		printf("#\n# rules of these cases: %u passed, %u failed, %u are not offered\n",
		       sums.passed, sums.failed, sums.absent);
		return true;
	}
	printf("#\n# %zu rules: %u cannot be seen from outside, %u are not offered\n",
	       NUM_RULES, sums.hidden, sums.absent);
	printf("# rules: %u of %u that can be seen have a case (%.1f %%); %u passed, %u failed\n",
	       sums.tested, sums.offered,
	       sums.offered ? 100.0 * sums.tested / sums.offered : 0, sums.passed, sums.failed);
	return sums.tested == sums.offered;
}

/* ---- cases ---- */

static const char *chapter(const struct test_case *c)
{
	static char name[64];
	const char *slash = strrchr(c->file, '/');

	snprintf(name, sizeof(name), "%s", slash ? slash + 1 : c->file);
	name[strcspn(name, ".")] = '\0';
	return strncmp(name, "test_", 5) ? name : name + 5;
}

static bool is_wanted(const struct test_case *c, const char *only)
{
	const char *list = c->rules, *name;
	size_t len;

	if (!only)
		return true;
	if (find_rule(only, strlen(only)) < 0)
		return strstr(c->name, only) || strstr(chapter(c), only) ||
		       strstr(c->rules, only);
	/* RC-1 is not RC-10. */
	while ((name = next_name(&list, &len)))
		if (strlen(only) == len && !memcmp(name, only, len))
			return true;
	return false;
}

void suite_list_cases(void)
{
	const struct test_case *c;

	for (c = first_case; c; c = c->next)
		printf("%-12s %s  [%s]\n", chapter(c), c->name, c->rules);
}

static enum outcome run_case(struct test_case *c)
{
	checks = 0;
	failures = 0;
	skipped = false;
	about(NULL);
	current = c;
	watchdog_start();
	if (!setjmp(give_up)) {
		host_begin();
		c->run();
		if (!checks && !failures)
			expect(false, "the case has looked at nothing");
	}
	about(NULL);
	if (!setjmp(give_up))
		dma_restore();
	watchdog_stop();
	current = NULL;
	if (failures)
		return FAILED;
	return skipped ? ABSENT : PASSED;
}

bool suite_run(const char *only, bool till_failure)
{
	unsigned int number = 0, passed = 0, failed = 0, absent = 0;
	struct test_case *c;

	partial = only;
	printf("TAP version 13\n");
	for (c = first_case; c; c = c->next) {
		uint64_t started = now_ns();
		enum outcome outcome;

		if (!is_wanted(c, only))
			continue;
		why_skipped = NOT_OFFERED;
		outcome = !c->needs || c->needs & dev.features ? run_case(c) :
								 ABSENT;
		count_rules(c, outcome);
		passed += outcome == PASSED;
		failed += outcome == FAILED;
		absent += outcome == ABSENT;
		printf("%sok %u - %s: %s%s%s\n", outcome == FAILED ? "not " : "",
		       ++number, chapter(c), c->name, outcome == ABSENT ? " # SKIP " : "",
		       outcome == ABSENT ? why_skipped : "");
		if (now_ns() - started > 1000000000u)
			printf("# took %.1f s\n", (double)(now_ns() - started) / 1e9);
		fflush(stdout);
		if (failed && till_failure) {
			partial = true;
			break;
		}
	}
	printf("1..%u\n# cases: %u passed, %u failed, %u of what is not offered\n",
	       number, passed, failed, absent);
	if (!number)
		printf("# no case's name, chapter or rules contain \"%s\"; see --list\n", only);
	return !failed && number;
}
