/* SPDX-License-Identifier: GPL-2.0 */
/* Memory to register, of each kind that makes a difference to pinning it. */
#ifndef MAPPING_H
#define MAPPING_H

#include <stddef.h>
#include <stdint.h>

enum mapping_kind {
	IN_ORDER,	/* small pages, touched from first to last */
	SCATTERED,	/* small pages that lie apart */
	DMABUF,		/* small pages that lie apart, behind a file descriptor */
	THP,		/* huge pages given by the kernel */
	HUGETLB,	/* huge pages of the reserve */
	ASKEW,		/* likewise; iova is off by a page */
	ODD,		/* transparent huge pages, but for one */
	HUGETLB_1G,	/* pages of a GiB; the guest has to have been booted with them */
	MAPPING_KINDS
};

struct mapping_info {
	const char *name;
	size_t least, most;
};

extern const struct mapping_info mapping_info[MAPPING_KINDS];

struct mapping {
	enum mapping_kind kind;
	size_t length;
	char *at;
	uint64_t iova;
	int fd;			/* of a dma-buf, or -1 */
	char *map;
	size_t map_length;
};

/* 0, or -1 and errno. */
int mapping_make(struct mapping *mapping, enum mapping_kind kind, size_t length);
void mapping_free(struct mapping *mapping);

#endif /* MAPPING_H */
