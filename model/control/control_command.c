// SPDX-License-Identifier: GPL-2.0
/* The commands of the control socket. */
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fault.h"
#include "base/lie.h"
#include "control/control.h"
#include "control/inject.h"
#include "device/command.h"
#include "transport/port.h"

#define MAX_WORDS	8

/* A command being carried out. */
struct call {
	struct endpoint *ep;
	struct nic *nic;
	char *word[MAX_WORDS];
	unsigned int words, next;
	char *answer;
	size_t size;
};

struct verb {
	const char *name;
	const char *arguments;
	/* Return: false when the command is refused; the answer says why. */
	bool (*run)(struct call *call);
};

static const char * const statuses[] = {
	[MOOR_CMD_OK]		= "OK",
	[MOOR_CMD_BAD_OPCODE]	= "BAD_OPCODE",
	[MOOR_CMD_BAD_RESERVED]	= "BAD_RESERVED",
	[MOOR_CMD_BAD_PARAM]	= "BAD_PARAM",
	[MOOR_CMD_BAD_INDEX]	= "BAD_INDEX",
	[MOOR_CMD_BAD_STATE]	= "BAD_STATE",
	[MOOR_CMD_BUSY]		= "BUSY",
	[MOOR_CMD_NO_RESOURCE]	= "NO_RESOURCE",
	[MOOR_CMD_DMA_FAULT]	= "DMA_FAULT",
};

static bool __attribute__((format(printf, 2, 3)))
refuse(struct call *call, const char *fmt, ...)
{
	va_list args;
	int used = snprintf(call->answer, call->size, "error ");

	va_start(args, fmt);
	vsnprintf(call->answer + used, call->size - (size_t)used, fmt, args);
	va_end(args);
	return false;
}

static const char *next_word(struct call *call)
{
	return call->next < call->words ? call->word[call->next++] : NULL;
}

static bool is_number(const char *word, uint64_t max, uint64_t *value)
{
	char *end;

	if (*word < '0' || *word > '9')
		return false;
	errno = 0;
	*value = strtoull(word, &end, 0);
	return !errno && !*end && *value <= max;
}

static bool no_more(struct call *call)
{
	if (call->next == call->words)
		return true;
	return refuse(call, "%s: nothing more expected",
		      call->word[call->next]);
}

/* The next word as a number. Without a word, @value stays, or if @needed: an error. */
static bool take_number(struct call *call, const char *what, uint64_t min,
			uint64_t max, bool needed, uint64_t *value)
{
	const char *word = next_word(call);

	if (!word && !needed)
		return true;
	if (!word || !is_number(word, max, value) || *value < min)
		return refuse(call, "%s: a number from %llu to %llu expected",
			      what, (unsigned long long)min,
			      (unsigned long long)max);
	return true;
}

static bool take_opcode(struct call *call, int *opcode)
{
	const char *word = next_word(call);
	uint64_t value;

	if (!word)
		return refuse(call, "an opcode expected: a name, a number or any");
	*opcode = command_opcode(word);
	if (!strcmp(word, "any"))
		*opcode = FAULT_ANY_OPCODE;
	else if (*opcode < 0 && is_number(word, UINT8_MAX, &value))
		*opcode = (int)value;
	else if (*opcode < 0)
		return refuse(call, "%s: a name such as CREATE_CQ, a number to 255 or any expected",
			      word);
	return true;
}

static bool take_status(struct call *call, uint8_t *status)
{
	const char *word = next_word(call);
	uint64_t value;
	unsigned int i;

	for (i = 0; word && i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		if (!strcasecmp(word, statuses[i])) {
			*status = (uint8_t)i;
			return true;
		}
	}
	if (!word || !is_number(word, UINT8_MAX, &value))
		return refuse(call, "a status expected: a name such as BUSY, or a number to 255");
	*status = (uint8_t)value;
	return true;
}

/* [N|always] [after M] */
static bool take_count(struct call *call, struct fault_rule *rule)
{
	uint64_t count = 1, after = 0;
	const char *word = next_word(call);

	if (word && !strcmp(word, "always")) {
		count = FAULT_ALWAYS;
		word = next_word(call);
	} else if (word && strcmp(word, "after")) {
		if (!is_number(word, FAULT_ALWAYS - 1, &count) || !count)
			return refuse(call, "%s: how often expected, from 1, or always",
				      word);
		word = next_word(call);
	}
	if (word && strcmp(word, "after"))
		return refuse(call, "%s: after M or nothing expected", word);
	if (word && !take_number(call, "after", 0, UINT32_MAX, true, &after))
		return false;
	rule->left = (uint32_t)count;
	rule->after = (uint32_t)after;
	return true;
}

static bool add_rule(struct call *call, enum fault_kind kind)
{
	struct fault_rule rule = { .kind = kind };

	if (!take_opcode(call, &rule.opcode) ||
	    (kind == FAULT_FAIL && !take_status(call, &rule.status)) ||
	    !take_count(call, &rule))
		return false;
	if (!no_more(call))
		return false;
	if (!fault_add(call->nic, &rule))
		return refuse(call, "%u rules are all there can be; clear expected",
			      FAULT_MAX_RULES);
	return true;
}

static bool do_fail(struct call *call)
{
	return add_rule(call, FAULT_FAIL);
}

static bool do_drop(struct call *call)
{
	return add_rule(call, FAULT_DROP);
}

static bool do_twice(struct call *call)
{
	return add_rule(call, FAULT_TWICE);
}

static bool not_now(struct call *call)
{
	return refuse(call, "a NIC that works expected, with room in its rings");
}

static bool do_stray(struct call *call)
{
	uint8_t status = MOOR_CMD_OK;
	uint64_t tag = 0;

	if (!take_number(call, "tag", 0, UINT16_MAX, true, &tag) ||
	    (call->next < call->words && !take_status(call, &status)) ||
	    !no_more(call))
		return false;
	return fault_stray(call->nic, (uint16_t)tag, status) || not_now(call);
}

static bool do_garbage(struct call *call)
{
	const char *where = next_word(call);
	uint64_t eqn = 0, count = 1;
	uint32_t done;

	if (!where || (strcmp(where, "commands") && strcmp(where, "events")))
		return refuse(call, "commands or events expected");
	if (!strcmp(where, "events") &&
	    !take_number(call, "event queue", 0, NIC_MAX_EQ - 1, true, &eqn))
		return false;
	if (!take_number(call, "how many", 1, 1u << NIC_MAX_LOG_CMD, false,
			 &count) || !no_more(call))
		return false;
	done = strcmp(where, "events") ?
	       fault_garbage_completions(call->nic, (uint32_t)count) :
	       fault_garbage_events(call->nic, (uint32_t)eqn, (uint32_t)count);
	if (!done)
		return not_now(call);
	snprintf(call->answer, call->size, "ok %u written", done);
	return true;
}

static bool do_scribble(struct call *call)
{
	return fault_scribble(call->nic) || not_now(call);
}

static bool do_event(struct call *call)
{
	uint64_t eqn = 0, type = 0, number = 0;

	if (!take_number(call, "event queue", 0, NIC_MAX_EQ - 1, true, &eqn) ||
	    !take_number(call, "type", 0, UINT8_MAX, true, &type) ||
	    !take_number(call, "number", 0, UINT32_MAX, false, &number) ||
	    !no_more(call))
		return false;
	return fault_event(call->nic, (uint32_t)eqn, (uint8_t)type,
			   (uint32_t)number) || not_now(call);
}

static bool do_page_request(struct call *call)
{
	uint64_t flags = 0, token = 0, key = 0, qpn = 0, addr = 0, length = 0;
	struct moor_page_request request = {};

	if (!take_number(call, "flags", 0, UINT8_MAX, true, &flags) ||
	    !take_number(call, "token", 0, UINT32_MAX, true, &token) ||
	    !take_number(call, "key", 0, UINT32_MAX, true, &key) ||
	    !take_number(call, "queue pair", 0, UINT32_MAX, true, &qpn) ||
	    !take_number(call, "address", 0, UINT64_MAX, true, &addr) ||
	    !take_number(call, "length", 0, UINT32_MAX, true, &length) ||
	    !no_more(call))
		return false;
	request.flags = (uint8_t)flags;
	request.token = htole32((uint32_t)token);
	request.key = htole32((uint32_t)key);
	request.qpn = htole32((uint32_t)qpn);
	request.addr = htole64(addr);
	request.length = htole32((uint32_t)length);
	return fault_page_request(call->nic, &request) || not_now(call);
}

static bool do_lose(struct call *call)
{
	const char *word = next_word(call);
	uint64_t count = FAULT_ALWAYS, vector = 0, last = NIC_NUM_VECTORS - 1;

	if (!word || (strcmp(word, "always") &&
		      !is_number(word, FAULT_ALWAYS - 1, &count)))
		return refuse(call, "how many interrupts expected, or always");
	if (call->next < call->words) {
		if (!take_number(call, "vector", 0, last, true, &vector))
			return false;
		last = vector;
	}
	if (!no_more(call))
		return false;
	for (; vector <= last; vector++)
		fault_lose(call->nic, (unsigned int)vector, (uint32_t)count);
	return true;
}

static bool take_where(struct call *call, uint32_t *where)
{
	static const char * const names[] = { "commands", "events", "cqes" };
	const char *word;
	uint32_t i;

	*where = 0;
	while ((word = next_word(call))) {
		for (i = 0; i < 3 && strcmp(word, names[i]); i++)
			;
		if (i == 3)
			return refuse(call, "%s: commands, events or cqes expected", word);
		*where |= 1u << i;
	}
	if (!*where)
		*where = LIE_EVERYWHERE;
	return true;
}

static bool do_lie(struct call *call)
{
	uint64_t seed = 0, one_in = 0;
	uint32_t where;

	if (!take_number(call, "seed", 0, UINT64_MAX, true, &seed) ||
	    !take_number(call, "one in how many", 1, UINT32_MAX, true, &one_in) ||
	    !take_where(call, &where))
		return false;
	lie_begin(call->nic, seed, (uint32_t)one_in, where);
	return true;
}

/* Takes the last word, which is one of two: @is_first says which. */
static bool take_either(struct call *call, const char *first, const char *second,
			bool *is_first)
{
	const char *word = next_word(call);

	if (!word || (strcmp(word, first) && strcmp(word, second)))
		return refuse(call, "%s or %s expected", first, second);
	*is_first = !strcmp(word, first);
	return no_more(call);
}

static bool do_reset(struct call *call)
{
	bool hangs = false;

	if (!take_either(call, "hangs", "ends", &hangs))
		return false;
	fault_reset(call->nic, hangs);
	return true;
}

static bool do_link(struct call *call)
{
	bool up = false;

	if (!take_either(call, "up", "down", &up))
		return false;
	fault_link(call->nic, up);
	return true;
}

static bool do_impair(struct call *call)
{
	const char *word = next_word(call);
	bool off = word && !strcmp(word, "off");
	struct impairment asked;

	if (!off && (!word || !impairment_parse(&asked, word)))
		return refuse(call, "off expected, or percentages such as lose=5,damage=1");
	if (!no_more(call))
		return false;
	return port_impair(call->nic, off ? NULL : &asked) ||
	       refuse(call, "no memory");
}

static bool do_traffic(struct call *call)
{
	const struct traffic *t = &call->nic->wire->traffic;

	snprintf(call->answer, call->size,
		 "ok carried=%llu lost=%llu repeated=%llu reordered=%llu delayed=%llu damaged=%llu sent-again=%llu went-back=%llu timeouts=%llu duplicates=%llu gaps=%llu",
		 (unsigned long long)t->carried, (unsigned long long)t->lost,
		 (unsigned long long)t->repeated,
		 (unsigned long long)t->reordered,
		 (unsigned long long)t->delayed,
		 (unsigned long long)t->damaged,
		 (unsigned long long)t->sent_again,
		 (unsigned long long)t->went_back,
		 (unsigned long long)t->timeouts,
		 (unsigned long long)t->duplicates,
		 (unsigned long long)t->gaps);
	return true;
}

static bool do_fatal(struct call *call)
{
	if (!nic_works(call->nic))
		return not_now(call);
	fault_fatal(call->nic);
	return true;
}

static bool do_dead(struct call *call)
{
	endpoint_set_dead(call->ep, true);
	return true;
}

static bool do_alive(struct call *call)
{
	endpoint_set_dead(call->ep, false);
	return true;
}

static bool do_clear(struct call *call)
{
	fault_clear(call->nic);
	return true;
}

static bool do_status(struct call *call)
{
	const struct nic *nic = call->nic;

	snprintf(call->answer, call->size,
		 "ok alive=%d enabled=%d bus-master=%d fatal=%u link=%s rules=%u losing=0x%x fired=%llu commands=%u dma=%llu resets=%u",
		 !endpoint_is_dead(call->ep), nic->enabled, nic->bus_master,
		 nic->fatal_code, nic->faults->link_down ? "down" : "up",
		 nic->faults->num_rules, nic->faults->losing,
		 (unsigned long long)nic->faults->fired, nic->commands->consumer,
		 (unsigned long long)dma_map_accesses(nic->dma),
		 endpoint_resets(call->ep));
	return true;
}

static bool do_help(struct call *call);

static const struct verb verbs[] = {
	{ "help", "", do_help },
	{ "status", "", do_status },
	{ "fail", "OPCODE STATUS [N|always] [after M]", do_fail },
	{ "drop", "OPCODE [N|always] [after M]", do_drop },
	{ "twice", "OPCODE [N|always] [after M]", do_twice },
	{ "stray", "TAG [STATUS]", do_stray },
	{ "garbage", "commands [N] | events EQN [N]", do_garbage },
	{ "scribble", "", do_scribble },
	{ "event", "EQN TYPE [NUMBER]", do_event },
	{ "page-request", "FLAGS TOKEN KEY QPN ADDRESS LENGTH",
	  do_page_request },
	{ "lose", "N|always [VECTOR]", do_lose },
	{ "lie", "SEED N [commands|events|cqes]...", do_lie },
	{ "link", "up|down", do_link },
	{ "reset", "hangs|ends", do_reset },
	{ "impair", "lose=N,repeat=N,reorder=N,delay=N,damage=N | off",
	  do_impair },
	{ "traffic", "", do_traffic },
	{ "fatal", "", do_fatal },
	{ "dead", "", do_dead },
	{ "alive", "", do_alive },
	{ "clear", "", do_clear },
};

#define NUM_VERBS	(sizeof(verbs) / sizeof(verbs[0]))

static bool do_help(struct call *call)
{
	size_t used = (size_t)snprintf(call->answer, call->size, "ok");
	unsigned int i;

	for (i = 0; i < NUM_VERBS && used < call->size; i++)
		used += (size_t)snprintf(call->answer + used, call->size - used,
					 "%s %s%s%s", i ? ";" : "",
					 verbs[i].name,
					 *verbs[i].arguments ? " " : "",
					 verbs[i].arguments);
	return true;
}

/* Return: false when there are more words than any command has. */
static bool split(struct call *call, char *line)
{
	char *rest = line, *word;

	while ((word = strtok_r(rest, " \t", &rest)) != NULL) {
		if (call->words == MAX_WORDS)
			return false;
		call->word[call->words++] = word;
	}
	return true;
}

void control_command(struct endpoint *ep, char *line, char *answer, size_t size)
{
	struct call call = {
		.ep = ep,
		.nic = endpoint_nic(ep),
		.answer = answer,
		.size = size,
	};
	const char *name;
	unsigned int i;

	if (!split(&call, line)) {
		refuse(&call, "no command has more than %u words", MAX_WORDS);
		return;
	}
	name = next_word(&call);
	for (i = 0; name && i < NUM_VERBS; i++)
		if (!strcmp(name, verbs[i].name))
			break;
	if (!name || i == NUM_VERBS) {
		refuse(&call, "%s: a command expected; see help",
		       name ? name : "nothing");
		return;
	}
	snprintf(answer, size, "ok");
	if (*verbs[i].arguments || no_more(&call))
		verbs[i].run(&call);
}
