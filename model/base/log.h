/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The log: one line per event. Each message that the guest or the client can cause
 * at will has a rate limit, by call site or by rule. So it can neither fill a disk
 * nor bury another message.
 */
#ifndef MODEL_LOG_H
#define MODEL_LOG_H

#include <stdbool.h>
#include <stdint.h>

/* What a call site or a rule has printed and held back; static and zero at first. */
struct log_site {
	struct log_site *next;
	const char *tag;
	uint64_t window_start;	/* ns */
	unsigned int printed;	/* in this window */
	uint64_t suppressed;	/* since the last line */
	bool known;
};

/* Opens @path for appending; NULL: stderr. Return: 0 or an errno. */
int log_open(const char *path);

/* Tells how many lines are still held back; log_catch_up() has a rate limit, too. */
void log_flush(void);
void log_catch_up(void);

void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void log_limited(struct log_site *site, const char *kind, const char *tag,
		 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The site of a rule: all calls that cite the rule share one rate limit. */
struct log_site *log_site_of_rule(const char *rule);

/* An operation that the specification makes us refuse, by rule @rule ("HWI MR-1"). */
#define log_refused(rule, ...)						\
	do {								\
		const char *rule_ = (rule);				\
		log_limited(log_site_of_rule(rule_), "refused", rule_,	\
			    __VA_ARGS__);				\
	} while (0)

/* A message of the vfio-user client that cannot be right. */
#define log_client(...)							\
	do {								\
		static struct log_site log_site_;			\
		log_limited(&log_site_, "client", "vfio-user", __VA_ARGS__); \
	} while (0)

#endif /* MODEL_LOG_H */
