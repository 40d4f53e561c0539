/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of the write pipeline in which contents are recognised: pages of zeros, which become holes, pages that are
 * listed, of which the table of contents has hints, and those that are stored just before them. Nothing changes yet: publish.c shares what was found, and makes entries of what
 * was stored. What is hashed, looked for and stored is the same line, which nobody changes meanwhile: the inode is locked.
 */
#include "data/dedup.h"

#include "alloc/listing.h"
#include "alloc/share.h"
#include "data/batch.h"
#include "data/fetch.h"
#include "data/hints.h"
#include "inode/txn.h"

G4_FN bool g4_dedup_wanted(const struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t wish)
{
	/* an inode that lacks its domain is damaged, and nobody else's */
	if ((inode->disk.policy & G4_POLICY_DEDUP) == G4_POLICY_DEDUP_DOMAIN && g4_inode_domain(&inode->disk) == 0)
		return false;
	return g4_ddt_is_there(&fs->ddt) && g4_is_reg(inode->disk.mode) &&
	       (wish == G4_DEDUP_WISHED ||
		(wish == G4_DEDUP_BY_POLICY && g4_policy_dedup(inode->disk.policy, fs->super.policy))) &&
	       (g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_LISTED) && g4_sums_wanted(fs, inode);
}

/*
 * Whether the page at an index of the lists has the contents of the batch's page k, whose sum is the same. Where sums prove nothing it is one
 * of this batch: another one's may come to be published, or not, and its place be anything by then.
 */
G4_FN static bool is_same(struct g4_fs *fs, const struct g4_batch *batch, uint32_t index, uint32_t k)
{
	const struct g4_batch_lists *lists = batch->lists;

	return !batch->verifies ||
	       (&lists->lines[index] >= batch->lines &&
		g4_bytes_equal(g4_batch_page(fs, batch, index - (uint32_t)(batch->lines - lists->lines)),
			       g4_batch_page(fs, batch, k), G4_PAGE_BYTES));
}

/* What is in the lists before with the contents of the batch's page k; if nothing is, that page is what others are like. */
G4_FN static uint64_t find_same(struct g4_fs *fs, const struct g4_batch *batch, uint32_t k)
{
	struct g4_batch_lists *lists = batch->lists;
	const struct g4_sum_entry *sum = &batch->sums[k];
	const struct g4_listing_key key = g4_listing_key(sum, 0);
	uint32_t at = (key.bytes[8] | (uint32_t)key.bytes[9] << 8) % G4_BATCH_SEEN;

	for (; lists->seen[at]; at = (at + 1) % G4_BATCH_SEEN)
		if (lists->placing.domains[lists->seen[at] - 1] == batch->domain &&
		    g4_bytes_equal(lists->sums[lists->seen[at] - 1].bytes, sum->bytes, sizeof(sum->bytes)) &&
		    is_same(fs, batch, lists->seen[at] - 1, k))
			return G4_KNOWN_SAME(lists->seen[at] - 1);
	lists->seen[at] = (uint32_t)(&batch->sums[k] - lists->sums + 1);
	lists->placing.domains[lists->seen[at] - 1] = batch->domain;
	return G4_KNOWN_NOT;
}

/* The hints of a quarter, the how many'th of a group, only where there is room. */
G4_FN static void make_hints(struct g4_fs *fs, uint64_t group, uint32_t quarter, const uint64_t *bits,
			     const struct g4_listing_page *page)
{
	const uint64_t first = group * G4_GROUP_PAGES + quarter * G4_LISTING_PAGES;

	for (uint32_t k = 0; k < G4_LISTING_PAGES; k++) {
		if (bits[k / 64] >> k % 64 & 1)
			g4_ddt_fill(&fs->ddt, page->sums[k], g4_page_address(first + k));
	}
}

/* What is listed beside a page that was found. Whether there is anything. */
G4_FN static bool bring(struct g4_wg *wg, struct g4_fs *fs, struct g4_address found)
{
	const uint64_t page = g4_address_page(found), group = page / G4_GROUP_PAGES;
	const uint32_t quarter = (uint32_t)(page % G4_GROUP_PAGES / G4_LISTING_PAGES), mark = g4_scratch_mark(wg);
	struct g4_listing_page *sums = (struct g4_listing_page *)(void *)g4_scratch_take_page(wg);
	uint64_t bits[G4_LISTING_WORDS];

	const bool there = g4_share_listed_sums(wg, &fs->alloc, group, quarter, bits, sums) == 0;
	if (there)
		g4_hints_bring(wg, fs, bits, sums,
			       g4_page_address(group * G4_GROUP_PAGES + quarter * G4_LISTING_PAGES));
	g4_scratch_release(wg, mark);
	return there;
}

/*
 * All that a quarter lists. False: its group lists nothing. The sums are read past the cache, which has better things to keep; nothing
 * holds them where they are meanwhile, and what is made of others' sums are wrong hints.
 */
G4_FN static bool load_quarter(struct g4_wg *wg, struct g4_fs *fs, uint64_t group, uint32_t quarter)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_listing_page *page = (struct g4_listing_page *)(void *)g4_scratch_take_page(wg);
	uint64_t bits[G4_LISTING_WORDS];
	struct g4_address sums;

	int rc = g4_share_listed(wg, &fs->alloc, group, quarter, bits, &sums);
	const bool any = rc != -G4_E_NOENT;
	if (rc == 0 && !g4_address_is_none(sums)) {
		rc = g4_journal_look(wg, &fs->journal, sums, G4_BLOCK_LISTING, page);
		if (rc > 0) /* it is newer in the cache */
			rc = g4_share_listed_sums(wg, &fs->alloc, group, quarter, bits, page);
		if (rc == 0)
			make_hints(fs, group, quarter, bits, page);
	}
	g4_scratch_release(wg, mark);
	return any;
}

/*
 * Page k of the batch, of which `known` has a hint: it stays if a listed page with these contents lies there, in the file's domain. That is right until
 * it is freed: publish looks again, and where a sum proves nothing whether that happened since the mark was taken, which is before the page was
 * read. *brought: the table has others now that it had not.
 */
G4_FN static void settle(struct g4_wg *wg, struct g4_fs *fs, const struct g4_batch *batch, uint32_t k, bool *brought)
{
	const struct g4_address address = g4_address_from(batch->known[k]);
	const struct g4_listing_key key = g4_listing_key(&batch->sums[k], batch->domain);
	const uint32_t mark = g4_share_mark(&fs->alloc, address);
	const int listed = g4_share_listed_row(wg, &fs->alloc, address, 1, &batch->sums[k], batch->domain);

	if (listed > 0 && g4_ddt_brings(&fs->ddt, address))
		*brought = bring(wg, fs, address) || *brought;
	if (listed > 0 && batch->verifies) {
		if (g4_fetch_is(wg, fs, address, &key, batch->domain, mark, g4_batch_page(fs, batch, k)))
			g4_batch_marks(batch)[k] = mark;
		else
			batch->known[k] = G4_KNOWN_NOT;
	}
	if (listed > 0)
		return;
	g4_ddt_remove(&fs->ddt, key.bytes, address, false);
	batch->known[k] = G4_KNOWN_NOT;
}

G4_FN static bool is_hint(uint64_t known)
{
	return known >= G4_PAGE_BYTES;
}

G4_STATIC_ASSERT(G4_LISTING_EACH >= G4_BATCH_SUMS, "all pages of a batch have their bits");
#define QUARTERS 16u /* of those that a batch was found in, whose neighbours are brought */

/*
 * The same of all pages with hints, whose sums prove what they are: those in one quarter at a time, under one lock, for what was written together
 * lies together. Neighbours are brought if there is a page of which nothing is known.
 */
G4_FN static bool settle_all(struct g4_wg *wg, struct g4_fs *fs, const struct g4_batch *batch,
			     const struct g4_hints_seen *seen)
{
	struct g4_address places[QUARTERS]; /* one of each quarter */
	uint32_t found = 0;
	bool unknown = false, brought = false;
	struct g4_listing_each each;

	memcpy(each.which, seen->hints, sizeof(seen->hints));
	for (uint32_t w = 0; w < G4_BATCH_SUMS / 64; w++) {
		unknown = unknown || seen->unknown[w] != 0;
		while (each.which[w] != 0) {
			const uint32_t k = w * 64 + g4_lowest_bit(each.which[w]);
			const struct g4_address one = g4_address_from(batch->known[k]);
			bool any = false;

			memset(each.are, 0, sizeof(each.are));
			memset(each.listed, 0, sizeof(each.listed));
			g4_share_listed_each(wg, &fs->alloc, one, batch->count, batch->known, batch->sums,
					     batch->domain, &each);
			for (uint32_t v = w; v < G4_BATCH_SUMS / 64; v++) {
				for (uint64_t gone = each.are[v] & ~each.listed[v]; gone != 0; gone &= gone - 1) {
					const uint32_t g = v * 64 + g4_lowest_bit(gone);
					const struct g4_listing_key key =
						g4_listing_key(&batch->sums[g], batch->domain);
					g4_ddt_remove(&fs->ddt, key.bytes, g4_address_from(batch->known[g]), false);
					batch->known[g] = G4_KNOWN_NOT;
					unknown = true;
				}
				any = any || each.listed[v] != 0;
				each.which[v] &= ~each.are[v];
			}
			if (any && found < QUARTERS)
				places[found++] = one;
		}
	}
	for (uint32_t q = 0; q < found && unknown; q++)
		if (g4_ddt_brings(&fs->ddt, places[q]))
			brought = bring(wg, fs, places[q]) || brought;
	return brought;
}

/* Those that the look has not found, when it has brought the neighbours of others. */
G4_FN static void look_again(struct g4_wg *wg, struct g4_fs *fs, const struct g4_batch *batch, uint32_t from)
{
	bool brought = false;

	for (uint32_t k = from; k < batch->count; k++) {
		if (batch->known[k] != G4_KNOWN_NOT)
			continue;
		const struct g4_listing_key key = g4_listing_key(&batch->sums[k], batch->domain);
		batch->known[k] = g4_address_stored(g4_ddt_find(&fs->ddt, key.bytes));
		if (is_hint(batch->known[k]))
			settle(wg, fs, batch, k, &brought);
	}
}

G4_FN void g4_dedup_batch(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			  uint32_t from)
{
	if (from == 0) {
		batch->dedup = !batch->direct && g4_dedup_wanted(fs, inode, batch->wish);
		batch->domain = (uint32_t)g4_inode_domain(&inode->disk);
		batch->verifies = batch->algorithm != G4_CHECKSUM_BLAKE3 || (fs->flags & G4_FS_DEDUP_VERIFY);
		/* what lies in the inode goes with the first page that is published */
		batch->looks = batch->dedup && !inode->dedup_failed && !(inode->disk.flags & G4_INODE_INLINE);
		inode->dedup_failed = false;
	}
	if (!batch->dedup)
		return;
	g4_zero(wg, &batch->known[from], (batch->count - from) * sizeof(*batch->known));
	if (batch->verifies)
		g4_zero(wg, &g4_batch_marks(batch)[from], (batch->count - from) * sizeof(*g4_batch_marks(batch)));
	if (!batch->looks)
		return;
	struct g4_hints_seen seen;
	bool brought = false;
	g4_hints_look(wg, fs, batch, from, false, &seen);
	if (!batch->verifies) {
		brought = settle_all(wg, fs, batch, &seen);
		g4_hints_same(wg, fs, batch, from);
	}
	for (uint32_t k = from; k < batch->count && batch->verifies; k++) {
		if (is_hint(batch->known[k]))
			settle(wg, fs, batch, k, &brought);
		if (batch->known[k] == G4_KNOWN_NOT)
			batch->known[k] = find_same(fs, batch, k);
	}
	if (brought)
		look_again(wg, fs, batch, from);
}

G4_FN void g4_dedup_late(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch)
{
	struct g4_hints_seen seen;

	g4_hints_look(wg, fs, batch, 0, true, &seen);
	memset(seen.unknown, 0, sizeof(seen.unknown)); /* their neighbours have been asked for */
	(void)settle_all(wg, fs, batch, &seen);
}

/* ------------------------------------------------------------------ damaged pages: nobody shall find one after the next mount either */

/* Of those that are queued the first one that can go. What fails stays, and is tried when this is called again. */
G4_FN static bool unlist_damaged(struct g4_wg *wg, struct g4_fs *fs)
{
	for (uint32_t k = 0; k < G4_DDT_DAMAGED; k++) {
		const struct g4_address page = g4_ddt_damaged(&fs->ddt, k);
		struct g4_txn txn;

		if (g4_address_is_none(page))
			continue;
		int rc = g4_begin(wg, fs, 1, &txn);
		if (rc == 0)
			rc = g4_end(fs, &txn, g4_share_unlist(wg, &fs->alloc, &txn, page));
		if (rc == 0) {
			g4_ddt_unlisted(&fs->ddt, k, page);
			return true;
		}
	}
	return false;
}

/* All listed pages of a quarter that are suspect: they stand in one page. */
G4_FN static int unlist_suspects(struct g4_wg *wg, struct g4_fs *fs, uint64_t first, const uint64_t *bits)
{
	struct g4_txn txn;
	uint32_t k = 0;

	while (k < G4_LISTING_PAGES &&
	       !((bits[k / 64] >> k % 64 & 1) && g4_ddt_is_suspect(&fs->ddt, g4_page_address(first + k))))
		k++;
	if (k == G4_LISTING_PAGES)
		return 0;
	int rc = g4_begin(wg, fs, 1, &txn);
	if (rc < 0)
		return rc;
	for (; k < G4_LISTING_PAGES && rc == 0; k++)
		if ((bits[k / 64] >> k % 64 & 1) && g4_ddt_is_suspect(&fs->ddt, g4_page_address(first + k)))
			rc = g4_share_unlist(wg, &fs->alloc, &txn, g4_page_address(first + k));
	const int ended = g4_end(fs, &txn, txn.changed ? 0 : rc); /* what fails has changed nothing */
	return rc < 0 ? rc : ended;
}

/* The same for a group, the last one that is left. Nobody shares what stands in a page that can not be read. */
G4_FN static bool sweep(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_ddt *ddt = &fs->ddt;
	int rc = 0, there = 0;

	if (g4_ddt_overflowed(ddt))
		g4_store64_rlx(&ddt->sweep_left, g4_load64_acq(&fs->alloc.group_count));
	const uint64_t left = g4_load64_rlx(&ddt->sweep_left);
	if (left == 0)
		return false;
	for (uint32_t quarter = 0; quarter < G4_GROUP_REGIONS * G4_LISTING_QUARTERS && there == 0 && rc == 0;
	     quarter++) {
		uint64_t bits[G4_LISTING_WORDS];
		struct g4_address sums;

		there = g4_share_listed(wg, &fs->alloc, left - 1, quarter, bits, &sums);
		if (there == 0)
			rc = unlist_suspects(wg, fs, (left - 1) * G4_GROUP_PAGES + quarter * G4_LISTING_PAGES, bits);
	}
	if (rc == 0)
		g4_store64_rlx(&ddt->sweep_left, left - 1);
	return rc == 0;
}

G4_FN static bool load(struct g4_wg *wg, struct g4_fs *fs)
{
	const uint64_t group = g4_load64_rlx(&fs->ddt.load_group);

	if (group >= g4_load64_acq(&fs->alloc.group_count))
		return false;
	if (g4_load32_rlx(&fs->alloc.group_free[group]) < G4_GROUP_PAGES)
		for (uint32_t quarter = 0; quarter < G4_GROUP_REGIONS * G4_LISTING_QUARTERS; quarter++)
			if (!load_quarter(wg, fs, group, quarter))
				break;
	g4_store64_rel(&fs->ddt.load_group, group + 1);
	return true;
}

/* Before hints are made: a page for 62 MiB, and a quota may wait for it. */
G4_FN static bool count(struct g4_wg *wg, struct g4_fs *fs)
{
	const uint64_t group = g4_load64_rlx(&fs->alloc.counted_groups);

	if (group >= g4_load64_acq(&fs->alloc.group_count))
		return false;
	g4_share_count_listings(wg, &fs->alloc, group);
	g4_store64_rel(&fs->alloc.counted_groups, group + 1);
	return true;
}

G4_FN static bool lists(const struct g4_fs *fs)
{
	return (g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_LISTED) != 0;
}

G4_FN bool g4_dedup_serve(struct g4_wg *wg, struct g4_fs *fs)
{
	return g4_ddt_is_there(&fs->ddt) && lists(fs) &&
	       (unlist_damaged(wg, fs) || sweep(wg, fs) || count(wg, fs) || load(wg, fs));
}

G4_FN void g4_dedup_finish(struct g4_wg *wg, struct g4_fs *fs)
{
	while (lists(fs) && (unlist_damaged(wg, fs) || sweep(wg, fs)))
		;
}

/* ------------------------------------------------------------------ pages that nobody has asked for */

/* Their hints go, too: there is room for others. Without their sums they stay until somebody follows them. */
G4_FN static void drop_hints(struct g4_fs *fs, uint64_t first, const uint64_t *gone, const struct g4_listing_page *page,
			     uint64_t *count)
{
	for (uint32_t k = 0; k < G4_LISTING_PAGES; k++) {
		if (!(gone[k / 64] >> k % 64 & 1))
			continue;
		++*count;
		if (page)
			g4_ddt_remove(&fs->ddt, page->sums[k], g4_page_address(first + k), false);
	}
}

/* Whether a page that is listed there may go. */
G4_FN static bool has_old(const uint64_t *bits, const struct g4_listing_page *page, uint64_t last)
{
	for (uint32_t k = 0; k < G4_LISTING_PAGES; k++)
		if ((bits[k / 64] >> k % 64 & 1) && (last == G4_LISTING_ANY_DAY || g4_listing_day(page, k) <= last))
			return true;
	return false;
}

G4_FN static int prune_quarter(struct g4_wg *wg, struct g4_fs *fs, uint64_t group, uint32_t quarter, uint64_t last,
			       uint64_t *count)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_listing_page *page = (struct g4_listing_page *)(void *)g4_scratch_take_page(wg);
	uint64_t bits[G4_LISTING_WORDS], gone[G4_LISTING_WORDS];
	struct g4_txn txn;

	int rc = g4_share_listed_sums(wg, &fs->alloc, group, quarter, bits, page);
	const bool known = rc == 0 && (bits[0] | bits[1]) != 0;
	/* Also where nothing is listed: something may be left of that, which the first quarter's turn finds for its region. */
	if ((known && has_old(bits, page, last)) || (rc == 0 && quarter % G4_LISTING_QUARTERS == 0) ||
	    (rc < 0 && rc != -G4_E_NOENT)) {
		rc = g4_begin(wg, fs, G4_SHARE_RELEASE_MOST, &txn);
		if (rc == 0)
			rc = g4_end(fs, &txn, g4_share_prune(wg, &fs->alloc, &txn, group, quarter, last, gone));
		if (rc == 0)
			drop_hints(fs, group * G4_GROUP_PAGES + quarter * G4_LISTING_PAGES, gone, known ? page : NULL,
				   count);
	}
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN int g4_dedup_prune(struct g4_wg *wg, struct g4_fs *fs, uint64_t group, uint64_t last, uint64_t *gone)
{
	int rc = 0;

	*gone = 0;
	for (uint32_t quarter = 0; quarter < G4_GROUP_REGIONS * G4_LISTING_QUARTERS && rc == 0; quarter++)
		rc = prune_quarter(wg, fs, group, quarter, last, gone);
	return rc == -G4_E_NOENT ? 0 : rc; /* the group lists nothing, or nothing any more */
}

/* ------------------------------------------------------------------ contents that only the list has a sum of */

G4_FN uint64_t g4_dedup_compare(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, const uint8_t *pages,
				uint32_t count, const struct g4_sum_entry *has)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_listing_page *listing = (struct g4_listing_page *)(void *)g4_scratch_take_page(wg);
	uint64_t bits[G4_LISTING_WORDS] = {0}, at_hand = UINT64_MAX, bad = 0;

	for (uint32_t k = 0; lists(fs) && k < count; k++) {
		const struct g4_address at = g4_address_after_pages(address, k);
		const uint64_t page = g4_address_page(at), quarter = page / G4_LISTING_PAGES;
		const uint32_t in = (uint32_t)(page % G4_LISTING_PAGES);
		const void *from[1] = {pages + k * G4_PAGE_BYTES};
		struct g4_sum_entry made;

		if (g4_sum_entry_algorithm(&has[k]) != G4_CHECKSUM_NONE)
			continue;
		if (quarter != at_hand &&
		    g4_share_listed_sums(wg, &fs->alloc, page / G4_GROUP_PAGES,
					 (uint32_t)(page % G4_GROUP_PAGES / G4_LISTING_PAGES), bits, listing) < 0)
			memset(bits, 0, sizeof(bits));
		at_hand = quarter;
		if (!(bits[in / 64] >> in % 64 & 1))
			continue;
		g4_sums_make(wg, g4_listing_algorithm(listing->sums[in]), from, 1, &made);
		if (g4_listing_is_of(listing->sums[in], &made, G4_DOMAIN_MOST))
			continue;
		bad |= UINT64_C(1) << k;
		g4_ddt_suspect(&fs->ddt, at);
	}
	g4_scratch_release(wg, mark);
	return bad;
}
