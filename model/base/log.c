// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/timer.h"

/* A call site or a rule prints LOG_BURST lines in a window, then only counts. */
#define LOG_WINDOW_NS	1000000000ull
#define LOG_BURST	5
/* More than rules are cited; were it too few, the last rules would share a site. */
#define LOG_RULES	128

static FILE *log_file;
static struct log_site *log_sites;

int log_open(const char *path)
{
	if (!path) {
		log_file = stderr;
		return 0;
	}
	log_file = fopen(path, "ae");
	if (!log_file)
		return errno;
	setvbuf(log_file, NULL, _IOLBF, 0);
	return 0;
}

static void print_time(void)
{
	uint64_t now = timer_now();

	fprintf(log_file, "moor-nic: %llu.%06llu ",
		(unsigned long long)(now / 1000000000ull),
		(unsigned long long)(now / 1000 % 1000000));
}

void log_info(const char *fmt, ...)
{
	va_list args;

	print_time();
	va_start(args, fmt);
	vfprintf(log_file, fmt, args);
	va_end(args);
	fputc('\n', log_file);
}

static void print_suppressed(struct log_site *site)
{
	log_info("%s: %llu more like the one before were not printed", site->tag,
		 (unsigned long long)site->suppressed);
	site->suppressed = 0;
}

void log_limited(struct log_site *site, const char *kind, const char *tag,
		 const char *fmt, ...)
{
	uint64_t now = timer_now();
	va_list args;

	if (!site->known) {
		site->known = true;
		site->tag = tag;
		site->next = log_sites;
		log_sites = site;
		site->window_start = now;
	}
	if (now - site->window_start >= LOG_WINDOW_NS) {
		site->window_start = now;
		site->printed = 0;
		if (site->suppressed)
			print_suppressed(site);
	}
	if (site->printed >= LOG_BURST) {
		site->suppressed++;
		return;
	}
	site->printed++;

	print_time();
	fprintf(log_file, "%s: %s: ", kind, tag);
	va_start(args, fmt);
	vfprintf(log_file, fmt, args);
	va_end(args);
	fputc('\n', log_file);
}

struct log_site *log_site_of_rule(const char *rule)
{
	static struct log_site sites[LOG_RULES];
	unsigned int i;

	for (i = 0; i < LOG_RULES - 1 && sites[i].tag; i++)
		if (!strcmp(sites[i].tag, rule))
			break;
	return &sites[i];
}

void log_catch_up(void)
{
	static struct log_site site;
	uint64_t now = timer_now();

	if (now - site.window_start >= LOG_WINDOW_NS) {
		site.window_start = now;
		site.printed = 0;
	}
	if (site.printed++ < LOG_BURST)
		log_flush();
}

void log_flush(void)
{
	struct log_site *site;

	for (site = log_sites; site; site = site->next)
		if (site->suppressed)
			print_suppressed(site);
	fflush(log_file);
}
