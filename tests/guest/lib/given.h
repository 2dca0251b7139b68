/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dma-bufs of the kernel's own exporters; those of tests/kernel/exporter.c are in
 * owner.h.
 */
#ifndef GIVEN_H
#define GIVEN_H

#include <stddef.h>

#define GIVEN_UDMABUF	"/dev/udmabuf"
#define GIVEN_HEAP	"/dev/dma_heap/system"

/*
 * Return file descriptors, or -1 with errno. This one has 4 KiB pages, no two adjacent.
 */
int udmabuf_make(size_t size);
/* This one has large pages, if they are to be had. */
int heap_make(size_t size);

#endif /* GIVEN_H */
