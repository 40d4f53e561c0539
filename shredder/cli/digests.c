/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing, at most half full. Digests are as good as random, so their bytes are the hash. */
#include <stdlib.h>
#include <string.h>

#include "cli/digests.h"

#define ROOM_FIRST 4096

static struct digest_key *find(struct digest_key *keys, uint64_t room, const struct digest_key *key)
{
	uint64_t at = key->half[0] & (room - 1);

	while (keys[at].group != 0 && (keys[at].half[0] != key->half[0] || keys[at].half[1] != key->half[1]))
		at = (at + 1) & (room - 1);
	return &keys[at];
}

static bool grow(struct digest_set *set)
{
	const uint64_t room = set->room == 0 ? ROOM_FIRST : 2 * set->room;
	struct digest_key *keys = (struct digest_key *)calloc(room, sizeof(*keys));

	if (keys == NULL)
		return false;
	for (uint64_t i = 0; i < set->room; i++)
		if (set->keys[i].group != 0)
			*find(keys, room, &set->keys[i]) = set->keys[i];
	free(set->keys);
	set->keys = keys;
	set->room = room;
	return true;
}

uint32_t digest_set_add(struct digest_set *set, const uint8_t *digest, uint32_t group)
{
	struct digest_key key = {.group = group};

	if (2 * (set->used + 1) > set->room && !grow(set))
		return 0;
	memcpy(key.half, digest, sizeof(key.half));
	struct digest_key *found = find(set->keys, set->room, &key);
	if (found->group != 0)
		return found->group;
	*found = key;
	set->used++;
	return group;
}

void digest_set_free(struct digest_set *set)
{
	free(set->keys);
	memset(set, 0, sizeof(*set));
}
