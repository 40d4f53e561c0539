/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address space the file system lives in. Version 1 has one disk and maps addresses one to one; logical chunks
 * (RAID) will translate here, and nothing above this file will notice.
 */
#ifndef G4_SPACE_H
#define G4_SPACE_H

#include "dev/dev.h"
#include "format/format.h"

struct g4_space {
	struct g4_dev *disks[G4_MAX_DISKS];
	uint32_t disk_count;
	bool volatile_cache;
	uint64_t size_bytes;
};

/* Leader, thread-safe. Addresses and lengths are multiples of 4 KiB. 0 or a negative code. */
G4_FN int g4_space_read(struct g4_wg *wg, struct g4_space *space, uint64_t address, void *to, uint64_t bytes);
G4_FN int g4_space_write(struct g4_wg *wg, struct g4_space *space, uint64_t address, const void *from, uint64_t bytes,
			 uint32_t flags);
/* Completed writes become durable. */
G4_FN int g4_space_flush(struct g4_wg *wg, struct g4_space *space);

/* Leader, thread-safe. What a discarded range reads is undefined until it is written. -G4_E_NOTSUP: it can not. */
G4_FN bool g4_space_can_discard(const struct g4_space *space);
G4_FN int g4_space_discard(struct g4_wg *wg, struct g4_space *space, uint64_t address, uint64_t bytes);

/* Several transfers at once: fill ios[i] with op, offset_bytes (an address), iov; then wait for all. First error. */
G4_FN int g4_space_transfer(struct g4_wg *wg, struct g4_space *space, struct g4_io *ios, uint32_t count);

#endif
