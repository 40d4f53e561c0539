/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of pages as they are met. */
#include "fsck/owners.h"
#include "fsck/tables.h"

struct g4_fsck_owners *g4_fsck_add_owners(struct g4_fsck *fsck, uint64_t region)
{
	struct g4_fsck_cell *cell = g4_fsck_add(fsck, &fsck->owner_regions, region + 1);

	if (cell == NULL)
		return NULL;
	if (cell->a == 0) {
		if (!g4_fsck_reserve(fsck, (void **)&fsck->owners, fsck->owner_count, &fsck->owner_room,
				     sizeof(*fsck->owners)))
			return NULL;
		memset(&fsck->owners[fsck->owner_count], 0, sizeof(*fsck->owners));
		fsck->owners[fsck->owner_count].region = region;
		cell->a = (uint32_t)++fsck->owner_count;
	}
	return &fsck->owners[cell->a - 1];
}

struct g4_fsck_owners *g4_fsck_find_owners(const struct g4_fsck *fsck, uint64_t region)
{
	const struct g4_fsck_cell *cell =
		fsck->owner_count == 0 ? NULL : g4_fsck_find(&fsck->owner_regions, region + 1);

	return cell == NULL ? NULL : &fsck->owners[cell->a - 1];
}

uint64_t g4_fsck_meet_owners(struct g4_fsck *fsck, uint64_t word, uint64_t first, uint64_t again)
{
	const uint64_t region = word / G4_FSCK_REGION_WORDS;
	const bool unknown =
		fsck->unknown_owners != NULL && fsck->team == NULL && g4_fsck_bit(fsck->unknown_owners, region);
	struct g4_fsck_owners *owners = unknown ? g4_fsck_add_owners(fsck, region) : g4_fsck_find_owners(fsck, region);

	if (owners == NULL)
		return again;
	uint64_t *data = &owners->data[word % G4_FSCK_REGION_WORDS];
	const uint64_t before = __atomic_fetch_or(data, first, __ATOMIC_RELAXED);
	uint64_t wrong = 0, early = 0;
	for (uint64_t bits = again; bits != 0; bits &= bits - 1) {
		const uint32_t bit = (uint32_t)__builtin_ctzll(bits);
		const uint64_t page = word % G4_FSCK_REGION_WORDS * 64 + bit;
		const bool is_data = (before >> bit & 1) != 0;
		if ((owners->counted[page] == 0 && !unknown) || (!is_data && fsck->team == NULL)) {
			wrong |= UINT64_C(1) << bit;
			continue;
		}
		if (!is_data) /* it is metadata, or the member that met it first has not come here yet */
			early |= UINT64_C(1) << bit;
		__atomic_fetch_add(&owners->met[page], 1, __ATOMIC_RELAXED);
	}
	if (early != 0)
		__atomic_fetch_or(&owners->early[word % G4_FSCK_REGION_WORDS], early, __ATOMIC_RELAXED);
	return wrong;
}

void g4_fsck_meet_large(struct g4_fsck *fsck, uint64_t page, uint64_t pages)
{
	for (uint64_t region = page / G4_REGION_PAGES; region < (page + pages) / G4_REGION_PAGES; region++) {
		struct g4_fsck_owners *owners = g4_fsck_find_owners(fsck, region);
		if (owners != NULL)
			__atomic_fetch_add(&owners->larges, 1, __ATOMIC_RELAXED);
	}
}

bool g4_fsck_meet_map(struct g4_fsck *fsck, uint64_t page)
{
	const uint64_t region = page / G4_REGION_PAGES, at = page % G4_REGION_PAGES;
	struct g4_fsck_owners *owners =
		fsck->team == NULL ? g4_fsck_add_owners(fsck, region) : g4_fsck_find_owners(fsck, region);

	if (owners == NULL || (fsck->team != NULL && owners->counted[at] == 0))
		return false;
	__atomic_fetch_add(&owners->met[at], 1, __ATOMIC_RELAXED);
	return true;
}
