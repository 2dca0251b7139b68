/* SPDX-License-Identifier: GPL-2.0 */
/* What may happen to packets because somebody asked for it. */
#ifndef MODEL_IMPAIRMENT_H
#define MODEL_IMPAIRMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Of a hundred packets, how many ... */
struct impairment {
	uint8_t lose;
	uint8_t repeat;
	uint8_t reorder;	/* come behind some that were sent later */
	uint8_t delay;		/* come a millisecond later */
	uint8_t damage;		/* arrive with a bit turned round */
};

/*
 * From text such as "lose=5,reorder=1"; what is not named is 0. Return: false
 * when it is not of that form.
 */
bool impairment_parse(struct impairment *impairment, const char *text);

#endif /* MODEL_IMPAIRMENT_H */
