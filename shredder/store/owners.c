/* SPDX-License-Identifier: Apache-2.0 */
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "store/owners.h"

#define RECENT 256u
/* system.posix_acl_*: a version (u32), and for each entry tag (u16), permissions (u16), id (u32). */
#define ACL_PREFIX "system.posix_acl_"
#define ACL_HEAD_BYTES 4u
#define ACL_ENTRY_BYTES 8u
enum { ACL_TAG_USER = 0x02, ACL_TAG_GROUP = 0x08 };

/* One number orders all owners: users first. */
static uint64_t key_of(enum store_owner_kind kind, uint32_t id)
{
	return (uint64_t)kind << 32 | id;
}

/* ------------------------------------------------------------------------------------------------- in a snapshot */

/* False: that is none. *key: the kind and the number. */
static bool read_owner(struct store_in *in, uint64_t *key, const uint8_t **name, size_t *bytes)
{
	const uint8_t kind = store_in_u8(in);
	const uint32_t id = (uint32_t)store_in_limited(in, UINT32_MAX);

	*name = store_in_string(in, 1, STORE_OWNER_NAME_MAX, bytes);
	if (in->bad || kind > STORE_GROUP || memchr(*name, 0, *bytes) != NULL) {
		in->bad = true;
		return false;
	}
	*key = key_of((enum store_owner_kind)kind, id);
	return true;
}

void store_owners_read(struct store_in *in, struct store_owners *owners)
{
	const uint64_t count = store_in_count(in, 4);
	const uint8_t *begin = in->at, *name;
	uint64_t key, before = 0;
	size_t bytes;

	for (uint64_t i = 0; i < count && read_owner(in, &key, &name, &bytes); i++) {
		if (i > 0 && key <= before)
			in->bad = true;
		before = key;
	}
	if (in->bad)
		return;
	store_buf_add(&owners->list, begin, (size_t)(in->at - begin));
	owners->count = count;
}

void store_owners_write(struct store_buf *out, const struct store_owners *owners)
{
	store_buf_varint(out, owners->count);
	store_buf_add(out, owners->list.data, owners->list.size);
}

/* ------------------------------------------------------------------------------------------ access control lists */

static bool is_acl(const uint8_t *name, size_t bytes)
{
	return bytes > strlen(ACL_PREFIX) && memcmp(name, ACL_PREFIX, strlen(ACL_PREFIX)) == 0;
}

/* The owner that an entry names; false: its id means nothing. */
static bool acl_owner(const uint8_t *entry, enum store_owner_kind *kind, uint32_t *id)
{
	uint16_t tag;

	memcpy(&tag, entry, sizeof(tag));
	memcpy(id, entry + 4, sizeof(*id));
	*kind = tag == ACL_TAG_USER ? STORE_USER : STORE_GROUP;
	return tag == ACL_TAG_USER || tag == ACL_TAG_GROUP;
}

/* ------------------------------------------------------------------------------------------------------ backing up */

struct store_owner_set {
	atomic_ullong recent[RECENT]; /* key + 1: noted already, without a lock */
	pthread_mutex_t mutex;
	uint64_t *keys; /* sorted */
	size_t count, room;
};

struct store_owner_set *store_owner_set_new(void)
{
	struct store_owner_set *set = (struct store_owner_set *)store_alloc(sizeof(*set));

	pthread_mutex_init(&set->mutex, NULL);
	return set;
}

void store_owner_set_free(struct store_owner_set *set)
{
	free(set->keys);
	pthread_mutex_destroy(&set->mutex);
	free(set);
}

/* Of sorted keys the first that is not below `key`. */
static size_t place_of(const uint64_t *keys, size_t count, uint64_t key)
{
	size_t low = 0, high = count;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (keys[middle] < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void store_owner_note(struct store_owner_set *set, enum store_owner_kind kind, uint32_t id)
{
	const uint64_t key = key_of(kind, id);
	atomic_ullong *recent = &set->recent[(id * 2 + (uint32_t)kind) % RECENT];

	if (atomic_load_explicit(recent, memory_order_relaxed) == key + 1)
		return;
	pthread_mutex_lock(&set->mutex);
	const size_t place = place_of(set->keys, set->count, key);
	if (place == set->count || set->keys[place] != key) {
		if (set->count == set->room) {
			set->room = set->room == 0 ? 64 : 2 * set->room;
			set->keys = (uint64_t *)store_realloc(set->keys, set->room * sizeof(*set->keys));
		}
		memmove(&set->keys[place + 1], &set->keys[place], (set->count - place) * sizeof(*set->keys));
		set->keys[place] = key;
		set->count++;
	}
	pthread_mutex_unlock(&set->mutex);
	atomic_store_explicit(recent, key + 1, memory_order_relaxed);
}

void store_owner_note_acl(struct store_owner_set *set, const uint8_t *name, size_t name_bytes, const uint8_t *value,
			  size_t value_bytes)
{
	enum store_owner_kind kind;
	uint32_t id;

	if (!is_acl(name, name_bytes))
		return;
	for (size_t at = ACL_HEAD_BYTES; at + ACL_ENTRY_BYTES <= value_bytes; at += ACL_ENTRY_BYTES)
		if (acl_owner(value + at, &kind, &id))
			store_owner_note(set, kind, id);
}

static const char *name_of(enum store_owner_kind kind, uint32_t id)
{
	const struct passwd *user = kind == STORE_USER ? getpwuid(id) : NULL;
	const struct group *group = kind == STORE_GROUP ? getgrgid(id) : NULL;

	return user != NULL ? user->pw_name : group != NULL ? group->gr_name : NULL;
}

void store_owners_of(struct store_owner_set *set, struct store_owners *owners)
{
	for (size_t i = 0; i < set->count; i++) {
		const enum store_owner_kind kind = (enum store_owner_kind)(set->keys[i] >> 32);
		const char *name = name_of(kind, (uint32_t)set->keys[i]);
		const size_t bytes = name == NULL ? 0 : strlen(name);

		if (bytes == 0 || bytes > STORE_OWNER_NAME_MAX)
			continue;
		store_buf_u8(&owners->list, (uint8_t)kind);
		store_buf_varint(&owners->list, (uint32_t)set->keys[i]);
		store_buf_string(&owners->list, name, bytes);
		owners->count++;
	}
}

/* -------------------------------------------------------------------------------------------------------- restoring */

struct store_owner_map {
	uint64_t *keys; /* sorted; those whose number is another one here */
	uint32_t *here;
	size_t count;
};

/* The number that a name has here; false: nobody has it. */
static bool number_of(enum store_owner_kind kind, const char *name, uint32_t *id)
{
	const struct passwd *user = kind == STORE_USER ? getpwnam(name) : NULL;
	const struct group *group = kind == STORE_GROUP ? getgrnam(name) : NULL;

	*id = user != NULL ? user->pw_uid : group != NULL ? group->gr_gid : 0;
	return user != NULL || group != NULL;
}

struct store_owner_map *store_owner_map_new(const struct store_owners *owners)
{
	struct store_in in = store_in_of(owners->list.data, owners->list.size);
	struct store_owner_map *map = (struct store_owner_map *)store_alloc(sizeof(*map));
	char text[STORE_OWNER_NAME_MAX + 1];
	const uint8_t *name;
	uint64_t key;
	size_t bytes;
	uint32_t id;

	map->keys = (uint64_t *)store_alloc((owners->count + 1) * sizeof(*map->keys));
	map->here = (uint32_t *)store_alloc((owners->count + 1) * sizeof(*map->here));
	for (uint64_t i = 0; i < owners->count && read_owner(&in, &key, &name, &bytes); i++) {
		memcpy(text, name, bytes);
		text[bytes] = 0;
		if (!number_of((enum store_owner_kind)(key >> 32), text, &id) || id == (uint32_t)key)
			continue;
		map->keys[map->count] = key;
		map->here[map->count++] = id;
	}
	return map;
}

void store_owner_map_free(struct store_owner_map *map)
{
	if (map == NULL)
		return;
	free(map->keys);
	free(map->here);
	free(map);
}

uint32_t store_owner_here(const struct store_owner_map *map, enum store_owner_kind kind, uint32_t id)
{
	const uint64_t key = key_of(kind, id);
	const size_t place = map == NULL ? 0 : place_of(map->keys, map->count, key);

	return map != NULL && place < map->count && map->keys[place] == key ? map->here[place] : id;
}

const uint8_t *store_owner_acl_here(const struct store_owner_map *map, const char *name, const uint8_t *value,
				    size_t bytes, struct store_buf *room)
{
	enum store_owner_kind kind;
	uint32_t id;

	if (map == NULL || !is_acl((const uint8_t *)name, strlen(name)))
		return value;
	room->size = 0;
	store_buf_add(room, value, bytes);
	for (size_t at = ACL_HEAD_BYTES; at + ACL_ENTRY_BYTES <= bytes; at += ACL_ENTRY_BYTES)
		if (acl_owner(room->data + at, &kind, &id)) {
			id = store_owner_here(map, kind, id);
			memcpy(room->data + at + 4, &id, sizeof(id));
		}
	return room->data;
}
