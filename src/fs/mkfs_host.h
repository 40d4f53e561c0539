/* SPDX-License-Identifier: Apache-2.0 */
/* Making a file system. Host only. */
#ifndef G4_MKFS_HOST_H
#define G4_MKFS_HOST_H

#include "base/progress_host.h"
#include "dev/dev.h"
#include "format/layout.h"

#define G4_MKFS_CHECKSUM G4_CHECKSUM_BLAKE3 /* unless it is told otherwise */

struct g4_mkfs_options {
	const char *label;			/* NULL: none; at most 63 bytes */
	const uint8_t *uuid;			/* NULL: random */
	uint32_t checksum;			/* of data: g4_policy_of(); 0: G4_MKFS_CHECKSUM */
	bool dedup;				/* pages that are there already are shared; needs BLAKE3 */
	uint64_t dedup_quota;			/* bytes that listings may take; 0: no limit */
	uint64_t journal_bytes;			/* 0: chosen from the size */
	uint32_t root_uid, root_gid, root_mode; /* mode 0: 0755 */
	struct g4_progress *progress;		/* a started bar, which is told how far it is; NULL: none */
};

/* A superblock for a layout, clean, with a random UUID and hash key; not sealed. 0 or -G4_E_IO. */
int g4_superblock_make(const struct g4_layout *layout, struct g4_superblock *sb);
/* Writes an empty file system to an open device and flushes it. message gets one sentence on failure. */
int g4_mkfs(struct g4_dev *dev, const struct g4_mkfs_options *options, struct g4_superblock *out, char *message,
	    size_t message_bytes);
/*
 * Names what is on the device already ("ext4", "xfs", "gpu4fs", "a partition table", ...) or NULL if nothing known is:
 * looks at the magic numbers of common formats.
 */
const char *g4_probe_foreign(struct g4_dev *dev);

#endif
