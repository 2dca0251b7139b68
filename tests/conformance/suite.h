/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cases, what they expect, and the rules of the hardware interface that they check.
 */
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct test_case - one line of TAP
 * @name:	what the case shows
 * @rules:	the rules that it checks, separated by spaces
 * @needs:	bits of FEATURES, one of which the device must have; 0: none
 * @run:	the case; begins with a device that has just been reset and set up
 */
struct test_case {
	const char *name;
	const char *file;
	const char *rules;
	uint64_t needs;
	void (*run)(void);
	struct test_case *next;
};

void register_case(struct test_case *c);

/* A bit of FEATURES. */
#define HAS(feature)	MOOR_FEATURE_##feature

/* TEST_CASE(function, "what it shows", "its rules", features) { ... } */
#define TEST_CASE(fn, what, rule_list, features)				\
	static void fn(void);						\
	static void __attribute__((constructor)) register_##fn(void)	\
	{								\
		static struct test_case c = {				\
			.name = what, .file = __FILE__,			\
			.rules = rule_list, .needs = features,		\
			.run = fn,					\
		};							\
		register_case(&c);					\
	}								\
	static void fn(void)

/*
 * expect() records that the case has failed and goes on; need() ends the case, because
 * the rest depends on @ok. Both return @ok.
 */
#define expect(ok, ...)	expect_at(__FILE__, __LINE__, ok, __VA_ARGS__)
#define need(ok, ...)	need_at(__FILE__, __LINE__, ok, __VA_ARGS__)

bool expect_at(const char *file, int line, bool ok, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
bool need_at(const char *file, int line, bool ok, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Ends the case as one of what the device does not offer, unless @offered; for a case
 * that depends on more than one feature.
 */
void skip_unless(bool offered);

/* Likewise, unless @found of what @name names are @least. */
void skip_below(const char *name, uint64_t found, uint64_t least);

/* Sets the subject of the expectations that follow; NULL: none. */
void about(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Ends the suite: the device cannot be tested, or not any longer. */
void bail_out(const char *fmt, ...)
	__attribute__((noreturn, format(printf, 1, 2)));

/*
 * Runs the cases whose name, file or rules contain @only (NULL: all); @till_failure:
 * up to the first that fails. Return: whether none failed.
 */
bool suite_run(const char *only, bool till_failure);

/*
 * Prints a line for each rule: its result, or why there is none. Return: false when all
 * cases have run, and a rule that can be seen has none.
 */
bool suite_rule_table(void);
void suite_list_cases(void);

#endif /* CONFORMANCE_SUITE_H */
