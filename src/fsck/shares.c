/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of owners, against the pointers that were met. */
#include <inttypes.h>
#include <stdlib.h>

#include "format/owners.h"
#include "fsck/claim.h"
#include "fsck/fix.h"
#include "fsck/listed.h"
#include "fsck/owners.h"
#include "fsck/plan.h"
#include "fsck/report.h"
#include "fsck/shares.h"
#include "fsck/tables.h"

/* ------------------------------------------------------------------ what the counts say */

/* What the counts of some regions say is not known: they are made anew from the pointers, none of which is blamed. */
static void forget(struct g4_fsck *fsck, uint64_t first, uint64_t regions)
{
	fsck->owners_wrong = true;
	g4_fsck_set_bits(fsck, &fsck->unknown_owners, first, regions);
}

static void damaged(struct g4_fsck *fsck, uint64_t first, uint64_t regions, const char *what, int status)
{
	g4_fsck_problem(fsck, G4_FSCK_OWNERS, NULL, "%s of %" PRIu64 " regions from 0x%" PRIx64 " on: %s", what,
			regions, first * G4_REGION_BYTES, g4_strerror(status));
	forget(fsck, first, regions);
}

static void load_region(struct g4_fsck *fsck, uint64_t region, struct g4_address address)
{
	struct g4_owners_page page;
	int status = g4_image_block(fsck->image, address, G4_BLOCK_OWNERS, &page);

	if (status == 0)
		status = g4_owners_page_validate(&page, region);
	if (status < 0) {
		damaged(fsck, region, 1, "the counts of owners", status);
		return;
	}
	if (!g4_fsck_claim_metadata(fsck, address, NULL, "a page of counts of owners")) {
		forget(fsck, region, 1);
		return;
	}
	struct g4_fsck_owners *owners = g4_fsck_add_owners(fsck, region);
	if (owners == NULL)
		return;
	owners->address = address;
	memcpy(owners->counted, page.more, sizeof(owners->counted));
}

/* Owners that the group's page counts for regions, when those of their pages were loaded. */
static void load_whole(struct g4_fsck *fsck, uint64_t group, const struct g4_shares_page *page)
{
	const bool may = (fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_WHOLE) != 0;

	for (uint32_t k = 0; k < G4_GROUP_REGIONS; k++) {
		const uint64_t region = group * G4_GROUP_REGIONS + k;
		if (page->whole[k] == 0)
			continue;
		if (!may) { /* it would be believed when that comes */
			g4_fsck_problem(fsck, G4_FSCK_OWNERS, NULL,
					"owners are counted for the region at 0x%" PRIx64 ", and none may be",
					region * G4_REGION_BYTES);
			forget(fsck, region, 1);
			continue;
		}
		struct g4_fsck_owners *owners = g4_fsck_add_owners(fsck, region);
		if (owners == NULL)
			return;
		owners->whole = page->whole[k];
		for (uint32_t at = 0; at < G4_REGION_PAGES; at++) {
			if (owners->counted[at] > UINT32_MAX - owners->whole) {
				damaged(fsck, region, 1, "the owners, more than can be counted,", -G4_E_CORRUPT_ALLOC);
				break;
			}
			owners->counted[at] += owners->whole;
		}
	}
}

/* Owners that the pages of counts do not have yet. */
static void load_buffered(struct g4_fsck *fsck, uint64_t group, struct g4_address address)
{
	const uint64_t first = group * G4_GROUP_REGIONS;
	struct g4_buffered_page page;

	if (!(fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_BUFFERED)) {
		g4_fsck_problem(fsck, G4_FSCK_OWNERS, NULL,
				"owners of pages of group %" PRIu64 " are buffered, and none may be", group);
		forget(fsck, first, G4_GROUP_REGIONS);
		return;
	}
	int status = g4_image_block(fsck->image, address, G4_BLOCK_BUFFERED, &page);
	if (status == 0)
		status = g4_buffered_page_validate(&page, group);
	if (status < 0) {
		damaged(fsck, first, G4_GROUP_REGIONS, "the buffered owners", status);
		return;
	}
	if (!g4_fsck_claim_metadata(fsck, address, NULL, "a page of buffered owners")) {
		forget(fsck, first, G4_GROUP_REGIONS);
		return;
	}
	fsck->group_buffered[group] = address;
	for (uint32_t k = 0; k < page.count; k++) {
		struct g4_fsck_owners *owners = g4_fsck_add_owners(fsck, first + page.pages[k] / G4_REGION_PAGES);
		if (owners == NULL)
			return;
		uint32_t *counted = &owners->counted[page.pages[k] % G4_REGION_PAGES];
		if (*counted == UINT32_MAX) {
			damaged(fsck, owners->region, 1, "the buffered owners, more than can be counted,",
				-G4_E_CORRUPT_ALLOC);
			return;
		}
		++*counted;
	}
}

/* Room for what each group has. */
static bool make_groups(struct g4_fsck *fsck)
{
	if (fsck->group_shares == NULL)
		fsck->group_shares = calloc(fsck->image->layout.group_count, sizeof(*fsck->group_shares));
	if (fsck->group_buffered == NULL)
		fsck->group_buffered = calloc(fsck->image->layout.group_count, sizeof(*fsck->group_buffered));
	if (fsck->group_shares == NULL || fsck->group_buffered == NULL)
		fsck->fatal = -G4_E_NOMEM;
	return fsck->fatal == 0;
}

void g4_fsck_load_owners(struct g4_fsck *fsck, uint64_t group, const struct g4_alloc_page *map)
{
	const uint64_t first = group * G4_GROUP_REGIONS;
	struct g4_shares_page page;
	int status = 0;

	if (map != NULL && map->shares == 0)
		return;
	if (!(fsck->image->sb.features_incompat &
	      G4_FEATURE_INCOMPAT_SHARED)) { /* it would be believed when that comes */
		if (map != NULL)
			g4_fsck_problem(fsck, G4_FSCK_OWNERS, NULL,
					"the map of group %" PRIu64 " leads to counts of owners, and nothing is shared",
					group);
		return;
	}
	if (!make_groups(fsck))
		return;
	if (map == NULL) { /* that was told; counts may have been lost with it */
		forget(fsck, first, G4_GROUP_REGIONS);
		return;
	}
	const struct g4_address shares = g4_address_from(map->shares);
	if (!g4_address_starts_page(shares) || !g4_layout_holds(&fsck->image->layout, shares))
		status = -G4_E_CORRUPT_ALLOC;
	if (status == 0)
		status = g4_image_block(fsck->image, shares, G4_BLOCK_SHARES, &page);
	if (status == 0)
		status = g4_shares_page_validate(&page, group, &fsck->image->layout);
	if (status < 0) {
		damaged(fsck, first, G4_GROUP_REGIONS, "the page that leads to the counts of owners", status);
		return;
	}
	if (!g4_fsck_claim_metadata(fsck, shares, NULL, "a page that leads to counts of owners")) {
		forget(fsck, first, G4_GROUP_REGIONS);
		return;
	}
	fsck->group_shares[group] = shares;
	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++)
		if (page.owners[region] != 0)
			load_region(fsck, first + region, g4_address_from(page.owners[region]));
	load_whole(fsck, group, &page);
	if (page.buffered != 0)
		load_buffered(fsck, group, g4_address_from(page.buffered));
	g4_fsck_load_listed(fsck, group, &page);
}

/* ------------------------------------------------------------------ both */

/* One of those that lead there does so by mistake, and nobody knows which: the next round says so of each. */
static void note_excess(struct g4_fsck *fsck, const struct g4_fsck_owners *owners)
{
	for (uint32_t page = 0; page < G4_REGION_PAGES; page++) {
		if (owners->met[page] > owners->counted[page])
			g4_fsck_set_bits(fsck, &fsck->excess_owners, owners->region * G4_REGION_PAGES + page, 1);
	}
}

/* A page that one of the other pointers leads to could not be released, if all were large that are counted for the region. */
static void compare_whole(struct g4_fsck *fsck, const struct g4_fsck_owners *owners)
{
	if (owners->whole == 0 || owners->whole < owners->larges)
		return;
	fsck->owners_wrong = true;
	g4_fsck_problem(fsck, G4_FSCK_OWNERS, NULL,
			"%" PRIu32 " owners are counted for all pages of the region at 0x%" PRIx64 ", and %" PRIu32
			" pointers to all of it were met",
			owners->whole, owners->region * G4_REGION_BYTES, owners->larges);
}

/* Of a team: what is in use, and was claimed as data later, must have been claimed as data first. */
static void compare_early(struct g4_fsck *fsck, const struct g4_fsck_owners *owners)
{
	for (uint32_t word = 0; word < G4_FSCK_REGION_WORDS; word++) {
		const uint64_t twice = owners->early[word] & ~owners->data[word];
		if (twice != 0)
			g4_fsck_problem(fsck, G4_FSCK_SHARED, NULL,
					"data at 0x%" PRIx64 " is in use for something else, too",
					owners->region * G4_REGION_BYTES +
						(word * 64 + (uint64_t)__builtin_ctzll(twice)) * G4_PAGE_BYTES);
	}
}

void g4_fsck_compare_owners(struct g4_fsck *fsck)
{
	for (uint64_t i = 0; i < fsck->owner_count; i++) {
		const struct g4_fsck_owners *owners = &fsck->owners[i];
		uint32_t differ = 0, first = 0;
		if (fsck->unknown_owners != NULL && g4_fsck_bit(fsck->unknown_owners, owners->region))
			continue;
		compare_whole(fsck, owners);
		compare_early(fsck, owners);
		for (uint32_t page = 0; page < G4_REGION_PAGES; page++) {
			if (owners->counted[page] == owners->met[page])
				continue;
			if (differ++ == 0)
				first = page;
		}
		if (differ == 0)
			continue;
		fsck->owners_wrong = true;
		note_excess(fsck, owners);
		g4_fsck_problem(fsck, G4_FSCK_OWNERS, NULL,
				"%" PRIu32 " pages from 0x%" PRIx64 " on: %" PRIu32
				" owners beyond the first are counted, %" PRIu32 " were met",
				differ, owners->region * G4_REGION_BYTES + first * G4_PAGE_BYTES,
				owners->counted[first], owners->met[first]);
	}
}

/* ------------------------------------------------------------------ repair */

static void unclaim(struct g4_fsck *fsck, struct g4_address address)
{
	g4_fsck_clear_bit(fsck->used, g4_address_page(address));
	g4_fsck_clear_bit(fsck->metadata, g4_address_page(address));
}

/* A new page of metadata; none: there is no room, or no memory. */
static struct g4_address new_page(struct g4_fsck *fsck, const void *contents, uint32_t type)
{
	const struct g4_address address = g4_fsck_find_room(fsck, 1);
	uint8_t *page = g4_address_is_none(address) ? NULL : g4_fsck_edit(fsck, address);

	if (page == NULL)
		return G4_NO_ADDRESS;
	memcpy(page, contents, G4_PAGE_BYTES);
	g4_fsck_seal(fsck, address, type);
	g4_fsck_set_bit(fsck->metadata, g4_address_page(address));
	return address;
}

/* How many owners may be counted for the region: what all its pages have, and fewer than large pointers lead there. */
static uint32_t whole_of(const struct g4_fsck *fsck, const struct g4_fsck_owners *owners)
{
	uint32_t whole = owners->larges == 0 ? 0 : owners->larges - 1;

	if (!(fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_WHOLE))
		return 0;
	for (uint32_t i = 0; i < G4_REGION_PAGES && whole > 0; i++)
		whole = (uint32_t)g4_min64(whole, owners->met[i]);
	return whole;
}

static struct g4_address write_region(struct g4_fsck *fsck, const struct g4_fsck_owners *owners, uint32_t whole)
{
	struct g4_owners_page page = {.region = owners->region};

	for (uint32_t i = 0; i < G4_REGION_PAGES; i++) {
		page.more[i] = owners->met[i] - whole;
		page.shared += page.more[i] != 0;
	}
	return page.shared == 0 ? G4_NO_ADDRESS : new_page(fsck, &page, G4_BLOCK_OWNERS);
}

void g4_fsck_rebuild_owners(struct g4_fsck *fsck)
{
	/* of shared maps no count may be left, and no page that led to one */
	if (!fsck->owners_wrong || (fsck->group_shares == NULL && fsck->maps == NULL && fsck->rows == NULL) ||
	    !make_groups(fsck))
		return;
	for (uint64_t i = 0; i < fsck->owner_count; i++)
		if (!g4_address_is_none(fsck->owners[i].address))
			unclaim(fsck, fsck->owners[i].address);
	for (uint64_t group = 0; group < fsck->image->layout.group_count && fsck->fatal == 0; group++) {
		struct g4_shares_page page = {.group = group};
		uint32_t regions = 0;
		if (!g4_address_is_none(fsck->group_shares[group]))
			unclaim(fsck, fsck->group_shares[group]);
		if (!g4_address_is_none(fsck->group_buffered[group]))
			unclaim(fsck, fsck->group_buffered[group]);
		fsck->group_shares[group] = fsck->group_buffered[group] = G4_NO_ADDRESS;
		for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++) {
			const struct g4_fsck_owners *owners =
				g4_fsck_find_owners(fsck, group * G4_GROUP_REGIONS + region);
			if (owners == NULL)
				continue;
			page.whole[region] = whole_of(fsck, owners);
			page.owners[region] = g4_address_stored(write_region(fsck, owners, page.whole[region]));
			regions += page.owners[region] != 0 || page.whole[region] != 0;
		}
		const bool lists = g4_fsck_write_listed(fsck, group, &page);
		if (regions != 0 || lists)
			fsck->group_shares[group] = new_page(fsck, &page, G4_BLOCK_SHARES);
	}
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0, "the owners of shared pages are counted anew");
}
