/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listed pages. A wrong one would give a file somebody else's contents, so what is listed must be contents that a file has, and that
 * have no other sum there. What is not goes from the list: it costs nothing but space.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "format/sums.h"
#include "fsck/claim.h"
#include "fsck/fix.h"
#include "fsck/listed.h"
#include "fsck/report.h"
#include "fsck/tables.h"

struct g4_fsck_listed { /* of a group */
	g4_le64 listings[G4_GROUP_REGIONS][G4_LISTING_QUARTERS];
	uint64_t listed[G4_FSCK_GROUP_WORDS], met[G4_FSCK_GROUP_WORDS];
	uint64_t whole[G4_FSCK_GROUP_WORDS], doubtful[G4_FSCK_GROUP_WORDS]; /* contents, where they were read */
};

static struct g4_fsck_listed *of_page(const struct g4_fsck *fsck, uint64_t page)
{
	return fsck->listed == NULL ? NULL : fsck->listed[page / G4_GROUP_PAGES];
}

static bool is_listed(const struct g4_fsck *fsck, uint64_t page)
{
	const struct g4_fsck_listed *listed = of_page(fsck, page);

	return listed != NULL && /* another thread may have found one of the word's pages to be wrong */
	       (__atomic_load_n(&listed->listed[page % G4_GROUP_PAGES / 64], __ATOMIC_RELAXED) >> page % 64 & 1);
}

/* ------------------------------------------------------------------ what is listed */

static void drop_quarter(struct g4_fsck *fsck, struct g4_fsck_listed *listed, uint32_t region, uint32_t quarter)
{
	uint64_t *words = &listed->listed[region * G4_FSCK_REGION_WORDS + quarter * 2];

	listed->listings[region][quarter] = 0;
	words[0] = words[1] = 0;
	fsck->owners_wrong = true;
}

static void load_quarter(struct g4_fsck *fsck, uint64_t group, struct g4_fsck_listed *listed, uint32_t region,
			 uint32_t quarter)
{
	const struct g4_address address = g4_address_from(listed->listings[region][quarter]);
	struct g4_listing_page page;
	int status = g4_image_block(fsck->image, address, G4_BLOCK_LISTING, &page);

	if (status == 0)
		status = g4_listing_page_validate(&page, group * G4_GROUP_REGIONS + region, quarter);
	if (status < 0)
		g4_fsck_problem(fsck, G4_FSCK_LISTED, NULL,
				"the page at 0x%" PRIx64 " with the sums of listed pages is damaged: %s",
				g4_address_stored(address), g4_strerror(status));
	if (status < 0 || !g4_fsck_claim_metadata(fsck, address, NULL, "a page of sums of listed pages"))
		drop_quarter(fsck, listed, region, quarter);
}

/* What is listed for a domain that nobody has made would be found by the directory that gets that number. */
static uint64_t highest_domain(const struct g4_fsck *fsck)
{
	struct g4_root root;

	if ((fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_DOMAINS) == 0)
		return 0;
	if (fsck->forgot_domains)
		return G4_DOMAIN_MOST;
	return g4_image_root(fsck->image, &root) == 0 ? g4_min64(root.domains, G4_DOMAIN_MOST) : 0;
}

void g4_fsck_load_listed(struct g4_fsck *fsck, uint64_t group, const struct g4_shares_page *page)
{
	const bool may = (fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_LISTED) != 0;
	bool any = false;

	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++)
		for (uint32_t quarter = 0; quarter < G4_LISTING_QUARTERS; quarter++)
			any = any || page->listings[region][quarter] != 0;
	if (!any)
		return;
	if (!may) { /* they would be believed when that comes */
		g4_fsck_problem(fsck, G4_FSCK_LISTED, NULL, "pages of group %" PRIu64 " are listed, and none may be",
				group);
		fsck->owners_wrong = true;
		return;
	}
	if (fsck->listed == NULL) {
		fsck->listed = calloc(fsck->image->layout.group_count, sizeof(struct g4_fsck_listed *));
		fsck->domains = highest_domain(fsck);
	}
	struct g4_fsck_listed *listed = fsck->listed == NULL ? NULL : calloc(1, sizeof(*listed));
	if (listed == NULL) {
		fsck->fatal = -G4_E_NOMEM;
		return;
	}
	fsck->listed[group] = listed;
	memcpy(listed->listings, page->listings, sizeof(listed->listings));
	memcpy(listed->listed, page->listed, sizeof(listed->listed));
	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++)
		for (uint32_t quarter = 0; quarter < G4_LISTING_QUARTERS; quarter++)
			if (listed->listings[region][quarter] != 0)
				load_quarter(fsck, group, listed, region, quarter);
}

/* ------------------------------------------------------------------ what is met */

void g4_fsck_meet_listed(struct g4_fsck *fsck, struct g4_address address, uint64_t pages)
{
	const uint64_t first = g4_address_page(address);

	for (uint64_t page = first; fsck->listed != NULL && page < first + pages; page++) {
		struct g4_fsck_listed *listed = of_page(fsck, page);
		if (listed != NULL)
			__atomic_fetch_or(&listed->met[page % G4_GROUP_PAGES / 64], UINT64_C(1) << page % 64,
					  __ATOMIC_RELAXED);
	}
}

/* The sum that a page is listed with. NULL: it can not be read, which was told. */
static const uint8_t *listed_sum(struct g4_fsck *fsck, uint64_t page)
{
	const uint64_t in_group = page % G4_GROUP_PAGES, quarter = in_group / G4_LISTING_PAGES;
	const struct g4_address address = g4_address_from(
		of_page(fsck, page)->listings[quarter / G4_LISTING_QUARTERS][quarter % G4_LISTING_QUARTERS]);

	if (!g4_address_is(fsck->listing_at, address)) {
		fsck->listing_at = G4_NO_ADDRESS;
		if (g4_image_block(fsck->image, address, G4_BLOCK_LISTING, &fsck->listing) < 0)
			return NULL;
		fsck->listing_at = address;
	}
	return fsck->listing.sums[page % G4_LISTING_PAGES];
}

static bool check_sum(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address,
		      const struct g4_sum_entry *entry)
{
	const uint64_t page = g4_address_page(address);

	if (!g4_listing_takes(g4_sum_entry_algorithm(entry)) || !is_listed(fsck, page))
		return true;
	const uint8_t *sum = listed_sum(fsck, page);
	/* of two files that share a page each may have a sum of its own kind */
	if (sum == NULL || g4_listing_algorithm(sum) != g4_sum_entry_algorithm(entry) ||
	    g4_listing_is_of(sum, entry, fsck->domains))
		return true;
	g4_fsck_problem(fsck, G4_FSCK_LISTED, where, "the page at 0x%" PRIx64 " is listed %s",
			g4_address_stored(address),
			g4_listing_is_of(sum, entry, G4_DOMAIN_MOST) ? "for a domain that there is not" :
								       "with another sum than it has here");
	__atomic_fetch_and(&of_page(fsck, page)->listed[page % G4_GROUP_PAGES / 64], ~(UINT64_C(1) << page % 64),
			   __ATOMIC_RELAXED);
	fsck->owners_wrong = true;
	return false;
}

bool g4_fsck_check_listed(struct g4_fsck *fsck, const struct g4_fsck_where *where, const g4_le64 *slots,
			  const struct g4_sum_entry *entries, uint32_t count)
{
	bool good = true;

	for (uint32_t i = 0; fsck->listed != NULL && i < count; i++)
		if ((slots[i] & (G4_PTR_VALID | G4_PTR_INDIRECT)) == G4_PTR_VALID &&
		    g4_ptr_validate(slots[i], &fsck->image->layout) == 0)
			good = check_sum(fsck, where, g4_ptr_address(slots[i]), &entries[i]) && good;
	return good;
}

bool g4_fsck_check_listed_row(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address,
			      const struct g4_sum_entry *entries, uint32_t count)
{
	bool good = true;

	for (uint32_t i = 0; fsck->listed != NULL && i < count; i++)
		good = check_sum(fsck, where, g4_address_after_pages(address, i), &entries[i]) && good;
	return good;
}

void g4_fsck_compare_listed(struct g4_fsck *fsck)
{
	for (uint64_t group = 0; fsck->listed != NULL && group < fsck->image->layout.group_count; group++) {
		struct g4_fsck_listed *listed = fsck->listed[group];
		uint64_t count = 0, first = 0;
		for (uint64_t word = 0; listed != NULL && word < G4_FSCK_GROUP_WORDS; word++) {
			const uint64_t wrong = listed->listed[word] & ~listed->met[word];
			if (wrong != 0 && count == 0)
				first = group * G4_GROUP_PAGES + word * 64 + (uint64_t)__builtin_ctzll(wrong);
			count += (uint64_t)__builtin_popcountll(wrong);
			listed->listed[word] &= ~wrong;
		}
		if (count == 0)
			continue;
		fsck->owners_wrong = true;
		g4_fsck_problem(fsck, G4_FSCK_LISTED, NULL,
				"%" PRIu64 " pages from 0x%" PRIx64 " on are listed, and no file's contents", count,
				first * G4_PAGE_BYTES);
	}
}

/* ------------------------------------------------------------------ what was read */

static void set_bit(uint64_t *bits, uint64_t page)
{
	__atomic_fetch_or(&bits[page % G4_GROUP_PAGES / 64], UINT64_C(1) << page % 64, __ATOMIC_RELAXED);
}

void g4_fsck_vouch_listed(struct g4_fsck *fsck, struct g4_address address)
{
	struct g4_fsck_listed *listed = of_page(fsck, g4_address_page(address));

	if (listed != NULL)
		set_bit(listed->whole, g4_address_page(address));
}

void g4_fsck_doubt_listed(struct g4_fsck *fsck, struct g4_address address)
{
	struct g4_fsck_listed *listed = of_page(fsck, g4_address_page(address));

	if (listed != NULL)
		set_bit(listed->doubtful, g4_address_page(address));
}

/* Of a group: only what was found whole stays. How many pages went. */
static uint64_t keep_whole(struct g4_fsck_listed *listed)
{
	uint64_t count = 0;

	for (uint64_t word = 0; word < G4_FSCK_GROUP_WORDS; word++) {
		const uint64_t keep = listed->whole[word] & ~listed->doubtful[word];
		count += (uint64_t)__builtin_popcountll(listed->listed[word] & ~keep);
		listed->listed[word] &= keep;
	}
	return count;
}

uint64_t g4_fsck_drop_doubtful(struct g4_fsck *fsck, struct g4_address **changed, uint64_t *changed_count)
{
	const uint64_t groups = fsck->image->layout.group_count;
	uint64_t count = 0;

	*changed = fsck->listed == NULL ? NULL : calloc(groups, sizeof(**changed));
	*changed_count = 0;
	if (fsck->listed != NULL && *changed == NULL)
		fsck->fatal = -G4_E_NOMEM;
	for (uint64_t group = 0; *changed != NULL && group < groups && fsck->fatal == 0; group++) {
		struct g4_fsck_listed *listed = fsck->listed[group];
		const uint64_t dropped = listed == NULL ? 0 : keep_whole(listed);
		const struct g4_address address = dropped == 0 ? G4_NO_ADDRESS : fsck->group_shares[group];
		struct g4_shares_page *page =
			dropped == 0 ? NULL : (struct g4_shares_page *)(void *)g4_fsck_edit(fsck, address);
		if (page == NULL)
			continue;
		memcpy(page->listed, listed->listed, sizeof(page->listed));
		g4_fsck_seal(fsck, address, G4_BLOCK_SHARES);
		(*changed)[(*changed_count)++] = address;
		count += dropped;
	}
	return count;
}

/* ------------------------------------------------------------------ repair */

bool g4_fsck_write_listed(const struct g4_fsck *fsck, uint64_t group, struct g4_shares_page *page)
{
	const struct g4_fsck_listed *listed = fsck->listed == NULL ? NULL : fsck->listed[group];
	bool any = false;

	if (listed == NULL)
		return false;
	memcpy(page->listings, listed->listings, sizeof(page->listings));
	memcpy(page->listed, listed->listed, sizeof(page->listed));
	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++)
		for (uint32_t quarter = 0; quarter < G4_LISTING_QUARTERS; quarter++)
			any = any || page->listings[region][quarter] != 0;
	return any;
}

void g4_fsck_free_listed(struct g4_fsck *fsck)
{
	for (uint64_t group = 0; fsck->listed != NULL && group < fsck->image->layout.group_count; group++)
		free(fsck->listed[group]);
	free(fsck->listed);
	fsck->listed = NULL;
	fsck->listing_at = G4_NO_ADDRESS;
}
