/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ioctls of a mounted gpu4fs beyond Linux's own. FUSE carries what their numbers say, in and out, and no more. Host only.
 */
#ifndef G4_FUSE_IOCTL_H
#define G4_FUSE_IOCTL_H

#include <linux/ioctl.h>

#include "fs/command.h"

/* On a file that is open for reading: its extents from `offset` on; count 0 behind the last. */
#define G4_IOC_MAP_EXTENTS 127u
struct g4_ioc_map {
	uint64_t offset;
	uint32_t count; /* out */
	uint32_t reserved0;
	uint64_t reserved[2];
	struct g4_map_extent extents[G4_IOC_MAP_EXTENTS];
};
G4_STATIC_ASSERT(sizeof(struct g4_ioc_map) == 4096, "what an ioctl carries is below 16 KiB");
#define G4_IOC_MAP _IOWR(0xb4, 1, struct g4_ioc_map)

/* On a directory, for root and who mounted: another size, in whole pages. */
struct g4_ioc_resize {
	uint64_t bytes;
	uint64_t limit; /* out: the largest possible size, where that is why it was refused */
	int32_t status; /* out: 0 or a negative code */
	uint32_t reserved;
};
#define G4_IOC_RESIZE _IOWR(0xb4, 2, struct g4_ioc_resize)

#endif
