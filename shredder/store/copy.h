/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of one repository in another one, with its keys and its names: FORMAT.md, section 3. */
#ifndef SHREDDER_STORE_COPY_H
#define SHREDDER_STORE_COPY_H

#include "store/tree.h"

struct store_copy_result {
	uint64_t copied, present; /* snapshots; present: that were there already */
	uint64_t read_bytes;
	uint64_t new_blobs, new_bytes, stored_bytes; /* written; before and after compression and encryption */
};

struct store_copy_options {
	int level;
	uint32_t threads; /* 0: one a processor */
	bool dry_run;
	/* `to` is NULL for one that was there already; in a dry run it is zeros. */
	void (*copied)(void *user, const struct store_snapshot *from, const struct store_id *to);
	void (*progress)(void *user, uint64_t read_bytes, uint64_t total_bytes);
	void *user;
};

/* True when both cut streams at the same places: then chunks are copied as they are, and read once. */
bool store_same_cuts(const struct store *a, const struct store *b);
/*
 * Copies snapshots of `from`, the oldest first; one that `to` has already (time, host, user, paths, tags, sizes) is left out. Each is
 * in `to` as soon as it is copied; after an error what was copied before stays. Locks and both indexes are the caller's.
 */
int store_copy(struct store *from, struct store *to, const struct store_snapshot *list, size_t count,
	       const struct store_copy_options *options, struct store_copy_result *result);

#endif
