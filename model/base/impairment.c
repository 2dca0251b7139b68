// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "base/impairment.h"

bool impairment_parse(struct impairment *to, const char *text)
{
	const struct {
		const char *name;
		uint8_t *percent;
	} fields[] = {
		{ "lose=", &to->lose },
		{ "repeat=", &to->repeat },
		{ "reorder=", &to->reorder },
		{ "delay=", &to->delay },
		{ "damage=", &to->damage },
	};
	const unsigned int num = sizeof(fields) / sizeof(fields[0]);

	memset(to, 0, sizeof(*to));
	for (;;) {
		unsigned long value;
		unsigned int i;
		char *end;

		for (i = 0; i < num; i++)
			if (!strncmp(text, fields[i].name,
				     strlen(fields[i].name)))
				break;
		if (i == num)
			return false;
		text += strlen(fields[i].name);
		if (*text < '0' || *text > '9')
			return false;
		value = strtoul(text, &end, 10);
		if (value > 100)
			return false;
		*fields[i].percent = (uint8_t)value;
		if (!*end)
			return true;
		if (*end != ',')
			return false;
		text = end + 1;
	}
}
