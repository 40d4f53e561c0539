/* SPDX-License-Identifier: Apache-2.0 */
/* A huge page at a place in physical memory that is known, for a device without an IOMMU. Host only. */
#ifndef G4_DEV_NVME_HUGE_HOST_H
#define G4_DEV_NVME_HUGE_HOST_H

#include <liburing.h>

#include "dev/dev_ops_host.h"

#define G4_HUGE_BYTES (2 * G4_MIB)

struct g4_huge {
	void *memory; /* NULL: there is none */
	int file;
	struct io_uring pin; /* of a page that is pinned */
	bool pinned;
	int last_file;	  /* the highest number of the files that the page belongs to */
	uint64_t address; /* physical */
};

/*
 * Zeroed memory, which the kernel neither swaps nor moves; where it does not pin it, as a warning says, it moves it if somebody orders
 * that: memory that goes offline, a contiguous piece for somebody else, migratepages(8), a cpuset with memory_migrate. 0, or a code and a
 * sentence, which begins with `name`.
 */
int g4_huge_map(const char *name, struct g4_huge *huge, struct g4_dev_message message);
/* Where the memory is now: 0, or an errno. */
int g4_huge_find(const void *memory, uint64_t *address);
void g4_huge_unmap(struct g4_huge *huge); /* of one without memory, and with -1 as its file: nothing */

#endif
