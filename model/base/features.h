/* SPDX-License-Identifier: GPL-2.0 */
/* Features by their names in the hardware interface (HWI 4.2). */
#ifndef MODEL_FEATURES_H
#define MODEL_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * From text such as "odp,uc": MOOR_FEATURE_*, and what needs these; "all" is all that
 * there are. Return: false when it has another word.
 */
bool features_parse(uint64_t *features, const char *text);

#endif /* MODEL_FEATURES_H */
