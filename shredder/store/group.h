/* SPDX-License-Identifier: Apache-2.0 */
/* Small blobs on their way into a group (FORMAT.md, section 3). One thread's. */
#ifndef SHREDDER_STORE_GROUP_H
#define SHREDDER_STORE_GROUP_H

#include "store/store.h"

/* Blobs up to this size are stored in groups; a group is closed from this size on. */
#define STORE_GROUPED_BYTES (64 * G4_KIB)
#define STORE_GROUP_BYTES G4_MIB

struct store_member {
	struct store_id id;
	uint32_t number, raw;
	enum store_blob_type type;
};

/* Zero is an empty one. */
struct store_group {
	struct store_buf raw;
	struct store_member *members;
	uint32_t count, room;
};

/* Copies the blob; true: the group is to be closed. */
bool store_group_add(struct store_group *g, enum store_blob_type type, uint32_t number, const struct store_id *id,
		     const void *data, size_t bytes);
void store_group_clear(struct store_group *g);
void store_group_free(struct store_group *g);

#endif
