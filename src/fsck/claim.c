/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a page is. A page has one purpose: a second claim finds it taken, unless its owners are counted. */
#include <inttypes.h>
#include <stdlib.h>

#include "fsck/claim.h"
#include "fsck/owners.h"
#include "fsck/report.h"
#include "fsck/tables.h"
#include "fsck/team.h"

static bool set_word(struct g4_fsck *fsck, uint64_t **bitmap, uint64_t word, uint64_t bits)
{
	for (; bits != 0; bits &= bits - 1) {
		if (!g4_fsck_set_bits(fsck, bitmap, word * 64 + (uint64_t)__builtin_ctzll(bits), 1))
			return false;
	}
	return true;
}

void g4_fsck_note_broken(struct g4_fsck *fsck, struct g4_address address)
{
	if (fsck->repairing && g4_layout_holds(&fsck->image->layout, address))
		g4_fsck_set_bits(fsck, &fsck->broken, g4_address_page(address), 1);
}

static bool claim(struct g4_fsck *fsck, struct g4_address address, uint64_t pages, const struct g4_fsck_where *where,
		  const char *what, bool data)
{
	uint64_t first_shared = 0, shared = 0, met_before = 0;
	const uint64_t first = g4_address_page(address), end = first + pages;

	for (uint64_t page = first; page < end; page = (page / 64 + 1) * 64) {
		const uint64_t count = g4_min64(end - page, 64 - page % 64);
		const uint64_t mask = (count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1) << page % 64;
		const uint64_t before = __atomic_fetch_or(&fsck->used[page / 64], mask, __ATOMIC_RELAXED);
		uint64_t twice = before & mask;
		met_before += (uint64_t)__builtin_popcountll(twice);
		if (data)
			twice = g4_fsck_meet_owners(fsck, page / 64, mask & ~before, twice);
		if (twice == 0)
			continue;
		if (shared == 0)
			first_shared = page / 64 * 64 + (uint64_t)__builtin_ctzll(twice);
		shared += (uint64_t)__builtin_popcountll(twice);
		if (fsck->repairing && !set_word(fsck, &fsck->shared, page / 64, twice))
			return false;
	}
	fsck->pages_met += pages - met_before;
	g4_progress_step(&fsck->progress, fsck->pages_met + g4_fsck_met_by_others(fsck), fsck->pages_marked);
	if (shared == 0)
		return true;
	g4_fsck_problem(fsck, G4_FSCK_SHARED, where,
			"%s at 0x%" PRIx64 " (%" PRIu64 " of %" PRIu64 " pages) is in use for something else, too",
			what, first_shared * G4_PAGE_BYTES, shared, pages);
	return false;
}

bool g4_fsck_claim(struct g4_fsck *fsck, struct g4_address address, uint64_t pages, const struct g4_fsck_where *where,
		   const char *what)
{
	return claim(fsck, address, pages, where, what, false);
}

bool g4_fsck_claim_data(struct g4_fsck *fsck, struct g4_address address, uint64_t pages,
			const struct g4_fsck_where *where)
{
	const bool alone = claim(fsck, address, pages, where, "data", true);

	if (pages >= G4_REGION_PAGES)
		g4_fsck_meet_large(fsck, g4_address_page(address), pages);
	return alone;
}

bool g4_fsck_claim_metadata(struct g4_fsck *fsck, struct g4_address address, const struct g4_fsck_where *where,
			    const char *what)
{
	if (fsck->repairing)
		g4_fsck_set_bit(fsck->metadata, g4_address_page(address));
	return g4_fsck_claim(fsck, address, 1, where, what);
}

uint64_t g4_fsck_leaked(const struct g4_fsck *fsck, uint64_t word)
{
	const uint64_t met = fsck->used[word] | (fsck->ever_used == NULL ? 0 : fsck->ever_used[word]);

	return g4_fsck_bit(fsck->bad_group, word / G4_FSCK_GROUP_WORDS) ? 0 : fsck->alloc_used[word] & ~met;
}
