// SPDX-License-Identifier: GPL-2.0
#include <string.h>
#include <strings.h>

#include "base/features.h"
#include "base/limits.h"

#define FEATURE(name)	{ #name, MOOR_FEATURE_##name }

static const struct {
	const char *name;
	uint64_t bits;
} features[] = {
	{ "ALL", NIC_FEATURES },
	FEATURE(DOZES),
	FEATURE(ATOMICS),
	FEATURE(MW_TYPE_1),
	FEATURE(MW_TYPE_2B),
	FEATURE(FAST_REG),
	FEATURE(ODP),
	FEATURE(DM),
	FEATURE(RELAXED_ORDERING),
	FEATURE(UC),
	FEATURE(CQ_MODERATION),
	/* XRC is there with SRQ only (HWI FEAT-3). */
	{ "SRQ", MOOR_FEATURE_SRQ | MOOR_FEATURE_XRC },
	FEATURE(UD),
	FEATURE(XRC),
	FEATURE(ATOMIC_WRITE),
	FEATURE(FLUSH_GLOBAL),
	FEATURE(FLUSH_PERSISTENT),
};

#define NUM_FEATURES	(sizeof(features) / sizeof(features[0]))

bool features_parse(uint64_t *to, const char *text)
{
	*to = 0;
	for (;;) {
		size_t len = strcspn(text, ","), i;

		for (i = 0; i < NUM_FEATURES; i++)
			if (strlen(features[i].name) == len &&
			    !strncasecmp(text, features[i].name, len))
				break;
		if (i == NUM_FEATURES)
			return false;
		*to |= features[i].bits;
		if (!text[len])
			return true;
		text += len + 1;
	}
}
