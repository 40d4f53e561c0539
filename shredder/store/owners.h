/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of users and groups beside the numbers that entries have: a snapshot lists them (FORMAT.md, section 7), so that another machine can give files
 * to those who have these names there. Access control lists name owners, too.
 */
#ifndef SHREDDER_STORE_OWNERS_H
#define SHREDDER_STORE_OWNERS_H

#include "store/bytes.h"

enum store_owner_kind { STORE_USER, STORE_GROUP };
#define STORE_OWNER_NAME_MAX 255

/* As in a snapshot, behind their number; sorted. Zero: none. */
struct store_owners {
	struct store_buf list;
	uint64_t count;
};
/* Reads number and list as far as they are right: else in->bad. */
void store_owners_read(struct store_in *in, struct store_owners *owners);
void store_owners_write(struct store_buf *out, const struct store_owners *owners);

/* Those that a backup meets. Threads may note some at a time. */
struct store_owner_set;
struct store_owner_set *store_owner_set_new(void);
void store_owner_set_free(struct store_owner_set *set);
void store_owner_note(struct store_owner_set *set, enum store_owner_kind kind, uint32_t id);
/* Of the value of an access control list; other attributes are passed over. */
void store_owner_note_acl(struct store_owner_set *set, const uint8_t *name, size_t name_bytes, const uint8_t *value,
			  size_t value_bytes);
/* With the names that this machine has for them; what has none is left out. One thread's. */
void store_owners_of(struct store_owner_set *set, struct store_owners *owners);

/* From numbers of a snapshot to this machine's, by their names. Constant once it is made. */
struct store_owner_map;
struct store_owner_map *store_owner_map_new(const struct store_owners *owners);
/* NULL is allowed. */
void store_owner_map_free(struct store_owner_map *map);
/* The number itself where nothing is known, or map is NULL. */
uint32_t store_owner_here(const struct store_owner_map *map, enum store_owner_kind kind, uint32_t id);
/* An attribute's value as it is here: `value`, or of an access control list a copy in `room`. */
const uint8_t *store_owner_acl_here(const struct store_owner_map *map, const char *name, const uint8_t *value,
				    size_t bytes, struct store_buf *room);

#endif
