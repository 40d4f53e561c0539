/* SPDX-License-Identifier: Apache-2.0 */
/* Which blobs snapshots use: for check and prune. */
#ifndef SHREDDER_STORE_MARKS_H
#define SHREDDER_STORE_MARKS_H

#include "store/backend.h"
#include "store/tree.h"

struct store_marks {
	struct store *s;
	struct store_codec codec;
	uint8_t *used; /* by the index's numbers */
	uint64_t problems, snapshots, trees;
	uint64_t losses; /* of the problems: blobs that are not in the index, and directories that are damaged */
	void (*problem)(void *user, const char *sentence);
	void *user;
};
/* After the index was loaded; it must not grow until the end. */
void store_marks_begin(struct store_marks *marks, struct store *s, void (*problem)(void *user, const char *sentence),
		       void *user);
/*
 * Goes through snapshots; those that are not there any more are left out. Blobs that are missing or damaged are problems, and it goes on.
 * They were listed before the index was loaded: it knows nothing of a backup that ended later.
 */
void store_marks_snapshots(struct store_marks *marks, const struct store_listed *names, size_t count);
void store_marks_end(struct store_marks *marks);

#endif
