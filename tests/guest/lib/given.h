/* SPDX-License-Identifier: GPL-2.0 */
/* dma-bufs that the kernel gives to whoever asks; those of our own owner: owner.h. */
#ifndef GIVEN_H
#define GIVEN_H

#include <stddef.h>

#define GIVEN_UDMABUF	"/dev/udmabuf"
#define GIVEN_HEAP	"/dev/dma_heap/system"

/* File descriptors, or -1 with errno. Pages of 4 KiB, none beside its neighbour. */
int udmabuf_make(size_t size);
/* Large pages, if there are. */
int heap_make(size_t size);

#endif /* GIVEN_H */
