/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where sums are kept and how they are made. Crash at any line: entries, what leads to them, and the pointers beside them change in
 * one transaction.
 */
#include "data/sums.h"
#include "data/extent.h"
#include "data/sums_region.h"

G4_STATIC_ASSERT(sizeof(struct g4_sum) == sizeof(struct g4_sum_entry), "a sum is an entry");
G4_STATIC_ASSERT(sizeof(struct g4_sums_job) <= G4_SUMS_SCRATCH_BYTES, "its room in scratch memory");

G4_FN uint32_t g4_sums_algorithm(const struct g4_fs *fs, uint32_t policy)
{
	if (!(g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SUMS))
		return G4_CHECKSUM_NONE; /* the word is reserved */
	return g4_policy_checksum(policy, fs->super.policy);
}

/* ------------------------------------------------------------------ making */

G4_FN static bool is_known(uint32_t algorithm)
{
	return algorithm == G4_CHECKSUM_BLAKE3 || algorithm == G4_CHECKSUM_CRC32C || algorithm == G4_CHECKSUM_XXH3;
}

/* Collective: the sums of some pages of a job. */
G4_FN static void make(struct g4_wg *wg, struct g4_sums_job *job, uint32_t algorithm, uint32_t first, uint32_t end)
{
	const enum g4_sum_algorithm how = algorithm == G4_CHECKSUM_BLAKE3 ? G4_SUM_BLAKE3 :
					  algorithm == G4_CHECKSUM_CRC32C ? G4_SUM_CRC32C :
									    G4_SUM_XXH3;

	g4_page_sums(wg, how, end - first, job->pages + first, job->sums + first, &job->scratch);
}

/* Collective: every lane does so for some pages, but for the sums that are made. */
G4_FN static void compare(struct g4_wg *wg, struct g4_sums_job *job, const struct g4_sum_entry *expected,
			  uint32_t count)
{
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg);

	for (uint32_t k = lane; k < count; k += width)
		job->algorithms[k] = (uint8_t)g4_sum_entry_algorithm(&expected[k]);
	g4_sync(wg);
	for (uint32_t first = 0, end; first < count; first = end) {
		const uint8_t algorithm = job->algorithms[first];
		for (end = first + 1; end < count && job->algorithms[end] == algorithm;)
			end++;
		if (is_known(algorithm))
			make(wg, job, algorithm, first, end);
	}
	for (uint32_t k = lane; k < count; k += width) {
		if (job->algorithms[k] == G4_CHECKSUM_NONE)
			continue;
		if (!is_known(job->algorithms[k]))
			g4_or32(&job->unknown, UINT32_C(1) << k);
		else if (!g4_bytes_equal(&job->sums[k], &expected[k], sizeof(job->sums[k])))
			g4_or32(&job->differ, UINT32_C(1) << k);
	}
	g4_sync(wg);
}

/* Collective. */
G4_FN static void compare_row(struct g4_wg *wg, struct g4_sums_job *job)
{
	for (uint32_t at = 0; at < job->count; at += G4_SUMS_AT_ONCE) {
		const uint32_t n = (uint32_t)g4_min64(job->count - at, G4_SUMS_AT_ONCE);
		for (uint32_t k = g4_wg_lane(wg); k < n; k += g4_wg_width(wg))
			job->pages[k] = job->row + (uint64_t)(at + k) * G4_PAGE_BYTES;
		g4_sync(wg);
		compare(wg, job, job->expected + at, n);
	}
}

G4_REGION_BODY void g4_sums_region(struct g4_wg *wg, void *args)
{
	struct g4_sums_job *job = (struct g4_sums_job *)args;

	g4_converge(wg);
	if (job->row)
		compare_row(wg, job);
	else if (job->expected)
		compare(wg, job, job->expected, job->count);
	else
		make(wg, job, job->algorithm, 0, job->count);
}

/* In scratch memory. */
G4_FN static struct g4_sums_job *run(struct g4_wg *wg, uint32_t algorithm, const void *const *pages, uint32_t count,
				     const struct g4_sum_entry *expected)
{
	struct g4_sums_job *job = (struct g4_sums_job *)g4_scratch_take(wg, sizeof(*job));

	job->algorithm = algorithm;
	job->count = count;
	job->expected = expected;
	job->row = NULL;
	job->differ = job->unknown = 0;
	g4_copy(wg, job->pages, pages, count * sizeof(*pages));
	g4_region(wg, G4_REGION_SUMS, g4_sums_region, job);
	return job;
}

G4_FN void g4_sums_make(struct g4_wg *wg, uint32_t algorithm, const void *const *pages, uint32_t count,
			struct g4_sum_entry *entries)
{
	const uint32_t mark = g4_scratch_mark(wg);
	const struct g4_sums_job *job = run(wg, algorithm, pages, count, NULL);

	g4_copy(wg, entries, job->sums, count * sizeof(*entries));
	g4_scratch_release(wg, mark);
}

G4_FN void g4_sums_compare(struct g4_wg *wg, const void *const *pages, uint32_t count,
			   const struct g4_sum_entry *expected, struct g4_sum_entry *found, uint32_t *differ,
			   uint32_t *unknown)
{
	const uint32_t mark = g4_scratch_mark(wg);
	const struct g4_sums_job *job = run(wg, G4_CHECKSUM_NONE, pages, count, expected);

	g4_copy(wg, found, job->sums, count * sizeof(*found));
	*differ = job->differ;
	*unknown = job->unknown;
	g4_scratch_release(wg, mark);
}

G4_FN bool g4_sums_match(struct g4_wg *wg, const uint8_t *pages, uint32_t count, const struct g4_sum_entry *expected)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_sums_job *job = (struct g4_sums_job *)g4_scratch_take(wg, sizeof(*job));

	job->row = pages;
	job->count = count;
	job->expected = expected;
	job->differ = job->unknown = 0;
	g4_region(wg, G4_REGION_SUMS, g4_sums_region, job);
	const bool match = (job->differ | job->unknown) == 0;
	g4_scratch_release(wg, mark);
	return match;
}

/*
 * What of a cached page of sums is known: the hash of its entries, in the line's note. It is made when a large page's entry is
 * compared with it, once, and forgotten when entries change. 0: it is not known.
 */
#define HASH_IS_KNOWN (UINT64_C(1) << 63)

G4_FN static uint64_t *hash_of(struct g4_fs *fs, uint32_t line)
{
	return &fs->cache.notes[line].word[0];
}

/* The hashes of `count` pages of entries. */
G4_FN static void make_hashes(struct g4_wg *wg, const void *const *pages, uint32_t count, uint64_t *hashes)
{
	struct g4_sum_entry sums[G4_SUMS_QUARTERS];

	g4_sums_make(wg, G4_CHECKSUM_BLAKE3, pages, count, sums);
	for (uint32_t i = 0; i < count; i++) {
		memcpy(&hashes[i], sums[i].bytes, sizeof(hashes[i]));
		hashes[i] &= G4_SUMS_HASH_MASK;
	}
}

/* The hash of a page of sums, whose inode is locked for reading at least. */
G4_FN static uint64_t page_hash(struct g4_wg *wg, struct g4_fs *fs, uint32_t line)
{
	uint64_t hash = g4_load64_rlx(hash_of(fs, line));

	if (hash & HASH_IS_KNOWN)
		return hash & G4_SUMS_HASH_MASK;
	const uint32_t mark = g4_scratch_mark(wg);
	const void *page = g4_line_data(&fs->cache, line);
	if (g4_meta_line(&fs->cache, line)->level > 1) { /* places are not part of what is equal */
		struct g4_sums_page *copy = (struct g4_sums_page *)(void *)g4_scratch_take_page(wg);
		memcpy(copy, page, sizeof(*copy));
		for (uint32_t i = 0; i < G4_SUMS_SLOTS; i++)
			if (g4_sum_entry_algorithm(&copy->entries[i]) == G4_CHECKSUM_LARGE)
				g4_sum_entry_drop_place(&copy->entries[i]);
		page = copy;
	}
	make_hashes(wg, &page, 1, &hash);
	g4_scratch_release(wg, mark);
	g4_store64_rel(hash_of(fs, line), hash | HASH_IS_KNOWN);
	return hash;
}

/* ------------------------------------------------------------------ keeping */

/* What a damaged page of sums is called, whatever is wrong about it: nobody can tell what is right about the data. */
G4_FN static int damaged(int rc)
{
	switch (-rc) {
	case G4_E_CHECKSUM:
	case G4_E_MISDIRECTED:
	case G4_E_TYPE:
	case G4_E_CORRUPT_MAP:
	case G4_E_CORRUPT_ALLOC:
		return -G4_E_CORRUPT_SUMS;
	default:
		return rc;
	}
}

G4_FN static struct g4_address address_of(const struct g4_fs *fs, uint32_t line)
{
	return g4_page_address(fs->cache.lines[line].index);
}

/* Of a page of metadata that something on disk leads to: it may be anything. */
G4_FN static int check_page(const struct g4_fs *fs, struct g4_address address)
{
	return g4_ptr_validate(g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID), &fs->meta.layout);
}

/* References the page of a quarter; its address may be anything. */
G4_FN static int get_page(struct g4_wg *wg, struct g4_fs *fs, uint32_t indirect, uint32_t quarter,
			  struct g4_address address, uint32_t *line)
{
	const struct g4_meta_line *about = g4_meta_line(&fs->cache, indirect);
	int rc = check_page(fs, address);

	if (rc == 0)
		rc = g4_meta_get_sums(wg, &fs->meta, address, about->inode, about->level, quarter, line);
	return damaged(rc);
}

G4_FN static struct g4_sum_entry *entries_of(struct g4_fs *fs, uint32_t line, uint32_t offset)
{
	return (struct g4_sum_entry *)(void *)((uint8_t *)g4_line_data(&fs->cache, line) + offset);
}

/* The entries of the inode's own slots, in the slab page that is referenced in *line. */
G4_FN static int get_block(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t *line,
			   struct g4_sum_entry **entries)
{
	const struct g4_address address = g4_address_from(inode->disk.checksums), page = g4_address_page_start(address);
	int rc = check_page(fs, page);

	if (rc == 0)
		rc = g4_meta_get(wg, &fs->meta, page, G4_BLOCK_SLAB, line);
	if (rc < 0)
		return damaged(rc);
	if (!g4_slab_has_sums(&fs->alloc, *line, address)) {
		g4_cache_put(&fs->cache, *line);
		return -G4_E_CORRUPT_SUMS;
	}
	*entries = entries_of(fs, *line, (uint32_t)(g4_address_stored(address) % G4_PAGE_BYTES));
	return 0;
}

G4_FN int g4_sums_read(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line,
		       uint32_t first, uint32_t count, struct g4_sum_entry *to)
{
	struct g4_sum_entry *entries;
	uint32_t sums;
	int rc = 0;

	g4_zero(wg, to, count * sizeof(*to));
	if (line == G4_NO_LINE && (inode->disk.flags & G4_INODE_SUMS_INLINE)) {
		for (uint32_t k = 0; k < count && first + k < G4_FEW_PAGES; k++)
			to[k] = inode->disk.few.sums[first + k];
		return 0;
	}
	if (line == G4_NO_LINE) {
		if (inode->disk.checksums == 0)
			return 0;
		rc = get_block(wg, fs, inode, &sums, &entries);
		if (rc == 0) {
			g4_copy(wg, to, &entries[first], count * sizeof(*to));
			g4_cache_put(&fs->cache, sums);
		}
		return rc;
	}
	while (count > 0 && rc == 0) {
		const uint32_t n = (uint32_t)g4_min64(count, g4_sums_row(first)), quarter = first / G4_SUMS_SLOTS;
		const struct g4_address address =
			g4_sums_place(g4_meta_places(&fs->cache, line), address_of(fs, line), quarter);
		const bool is_there = !g4_address_is_none(address);
		if (is_there)
			rc = get_page(wg, fs, line, quarter, address, &sums);
		if (is_there && rc == 0) {
			g4_copy(wg, to, entries_of(fs, sums, 0) + first % G4_SUMS_SLOTS, n * sizeof(*to));
			g4_cache_put(&fs->cache, sums);
		}
		first += n;
		count -= n;
		to += n;
	}
	return rc;
}

/* A line for a new page of sums. */
G4_FN static int new_line(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, uint64_t inode, uint32_t level,
			  uint32_t quarter, uint32_t *line)
{
	int rc = g4_meta_new(wg, &fs->meta, address, G4_BLOCK_CHECKSUMS, line);

	if (rc == 0) {
		struct g4_meta_line *about = g4_meta_line(&fs->cache, *line);
		about->inode = inode;
		about->level = (uint8_t)level;
		about->quarter = (uint8_t)quarter;
	}
	return rc;
}

/* A page of sums for a quarter that has none. */
G4_FN static int new_page(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint32_t indirect, uint32_t quarter, uint32_t *line)
{
	const struct g4_meta_line *about = g4_meta_line(&fs->cache, indirect);
	struct g4_address address;
	int rc = g4_node_acquire(wg, fs, txn, inode, &address);

	if (rc < 0)
		return rc;
	if (!g4_sums_set_place(g4_meta_places(&fs->cache, indirect), address_of(fs, indirect), quarter, address))
		rc = -G4_E_NOSPC; /* none that is near enough */
	else
		rc = new_line(wg, fs, address, about->inode, about->level, quarter, line);
	if (rc < 0) {
		(void)g4_sums_set_place(g4_meta_places(&fs->cache, indirect), address_of(fs, indirect), quarter,
					G4_NO_ADDRESS);
		(void)g4_node_release(wg, fs, txn, inode, address);
	}
	return rc;
}

G4_FN static void put_entries(struct g4_wg *wg, struct g4_sum_entry *to, const struct g4_sum_entry *from,
			      uint32_t count)
{
	if (from)
		g4_copy(wg, to, from, count * sizeof(*to));
	else
		g4_zero(wg, to, count * sizeof(*to));
}

/* Slots with contents had sums that nobody can read any more. Without them the contents would pass for what never had any. */
G4_FN static void make_lost(const g4_le64 *slots, struct g4_sum_entry *entries, uint32_t count)
{
	memset(entries, 0, count * sizeof(*entries));
	for (uint32_t k = 0; k < count; k++)
		if ((slots[k] & (G4_PTR_VALID | G4_PTR_INDIRECT)) == G4_PTR_VALID)
			g4_sum_entry_make_lost(&entries[k]);
}

/*
 * In the place of a damaged page of sums; *line as from new_page(). The damaged one is left for a repair to free: what is not what it
 * should be may be somebody else's.
 */
G4_FN static int replace_page(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			      uint32_t indirect, uint32_t quarter, struct g4_address damaged_page, uint32_t *line)
{
	const g4_le64 *slots = (const g4_le64 *)g4_line_data(&fs->cache, indirect) + (uint64_t)quarter * G4_SUMS_SLOTS;
	struct g4_sums_places *places = g4_meta_places(&fs->cache, indirect);
	int rc = new_page(wg, fs, txn, inode, indirect, quarter, line);

	if (rc < 0) {
		(void)g4_sums_set_place(places, address_of(fs, indirect), quarter, damaged_page);
		return rc;
	}
	inode->disk.pages--;
	make_lost(slots, entries_of(fs, *line, 0), G4_SUMS_SLOTS);
	return 0;
}

/* A block for the inode's slots, without any sums; the one that it has is damaged, and left as it is, or it has none. */
G4_FN static int new_block(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint32_t *line, struct g4_sum_entry **entries)
{
	const uint64_t before = inode->disk.checksums;
	struct g4_address block;
	uint32_t near;
	int rc = g4_slab_alloc(wg, &fs->alloc, txn, G4_SLAB_SMALL, &inode->map_reservation, &block, &near);

	if (rc < 0)
		return rc;
	inode->disk.checksums = g4_address_stored(block);
	rc = get_block(wg, fs, inode, line, entries);
	if (rc < 0) {
		inode->disk.checksums = before;
		return rc;
	}
	g4_txn_dirty(txn, *line);
	memset(*entries, 0, sizeof(struct g4_sums_block)); /* what a repair has freed is as it was */
	return 0;
}

G4_FN static int write_block(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     uint32_t first, uint32_t count, const struct g4_sum_entry *from)
{
	struct g4_sum_entry *entries = NULL;
	uint32_t line;
	int rc;

	if (inode->disk.flags & G4_INODE_SUMS_INLINE) {
		put_entries(wg, &inode->disk.few.sums[first], from, count);
		return 0;
	}
	if (inode->disk.checksums == 0) {
		if (!from)
			return 0;
		rc = new_block(wg, fs, txn, inode, &line, &entries);
	} else {
		rc = get_block(wg, fs, inode, &line, &entries);
		if (rc == -G4_E_CORRUPT_SUMS) {
			rc = new_block(wg, fs, txn, inode, &line, &entries);
			if (rc == 0)
				make_lost(inode->disk.map, entries, G4_MAP_SLOTS);
		}
	}
	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, line);
	put_entries(wg, &entries[first], from, count);
	g4_cache_put(&fs->cache, line);
	return 0;
}

/* Out of the inode, into a block. */
G4_FN static int move_out(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode)
{
	const struct g4_few_pages few = inode->disk.few;

	memset(inode->disk.map, 0, sizeof(inode->disk.map));
	memcpy(inode->disk.map, few.map, sizeof(few.map));
	inode->disk.flags &= ~G4_INODE_SUMS_INLINE;
	int rc = write_block(wg, fs, txn, inode, 0, G4_FEW_PAGES, few.sums);
	if (rc < 0) {
		inode->disk.flags |= G4_INODE_SUMS_INLINE;
		inode->disk.few = few;
	}
	return rc;
}

G4_FN int g4_sums_take(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
		       struct g4_sum_entry *entries)
{
	int rc = g4_sums_read(wg, fs, inode, G4_NO_LINE, 0, G4_MAP_SLOTS, entries);

	if (rc != -G4_E_CORRUPT_SUMS)
		return rc;
	make_lost(inode->disk.map, entries, G4_MAP_SLOTS);
	return 0;
}

G4_FN int g4_sums_fit(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode, uint32_t end,
		      bool sums)
{
	if (inode->disk.flags & G4_INODE_SUMS_INLINE)
		return end <= G4_FEW_PAGES ? 0 : move_out(wg, fs, txn, inode);
	if (!sums || end > G4_FEW_PAGES || inode->disk.checksums != 0)
		return 0;
	for (uint32_t slot = G4_FEW_PAGES; slot < G4_MAP_SLOTS; slot++)
		if (inode->disk.map[slot])
			return 0;
	inode->disk.flags = (inode->disk.flags & ~G4_INODE_SHARES_MAP) | G4_INODE_SUMS_INLINE; /* zeros: no sums */
	return 0;
}

G4_FN int g4_sums_write(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			uint32_t line, uint32_t first, uint32_t count, const struct g4_sum_entry *from)
{
	const uint32_t quarter = first / G4_SUMS_SLOTS;
	uint32_t sums;
	int rc;

	if (line == G4_NO_LINE)
		return write_block(wg, fs, txn, inode, first, count, from);
	const struct g4_address address =
		g4_sums_place(g4_meta_places(&fs->cache, line), address_of(fs, line), quarter);
	if (!g4_address_is_none(address)) {
		rc = get_page(wg, fs, line, quarter, address, &sums);
		if (rc == -G4_E_CORRUPT_SUMS)
			rc = replace_page(wg, fs, txn, inode, line, quarter, address, &sums);
	} else if (from)
		rc = new_page(wg, fs, txn, inode, line, quarter, &sums);
	else
		return 0;
	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, sums);
	g4_store64_rel(hash_of(fs, sums), 0);
	put_entries(wg, entries_of(fs, sums, 0) + first % G4_SUMS_SLOTS, from, count);
	g4_cache_put(&fs->cache, sums);
	return 0;
}

G4_FN bool g4_sums_ready(struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line, uint32_t slot)
{
	if (line != G4_NO_LINE)
		return !g4_address_is_none(
			g4_sums_place(g4_meta_places(&fs->cache, line), address_of(fs, line), slot / G4_SUMS_SLOTS));
	return inode->disk.checksums != 0 || ((inode->disk.flags & G4_INODE_SUMS_INLINE) && slot < G4_FEW_PAGES);
}

G4_FN int g4_sums_prepare(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint32_t line, uint32_t slot)
{
	struct g4_sum_entry none;

	if (g4_sums_ready(fs, inode, line, slot))
		return 0;
	memset(&none, 0, sizeof(none));
	return g4_sums_write(wg, fs, txn, inode, line, slot, 1, &none);
}

/* Not where there can be none, whatever counted it: the file shall be able to go. */
G4_FN static int release_page(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			      struct g4_address address)
{
	if (check_page(fs, address) == 0)
		return g4_node_release(wg, fs, txn, inode, address);
	inode->disk.pages--;
	return 0;
}

/* One that is damaged stays for a repair, so that the file can go. One whose slab's allocation map can not be read stays the inode's, without sums. */
G4_FN static int free_block(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode)
{
	const uint64_t block = inode->disk.checksums;
	struct g4_sum_entry *entries;
	uint32_t line;

	if (block == 0)
		return 0;
	int rc = get_block(wg, fs, inode, &line, &entries);
	if (rc == 0) {
		g4_cache_put(&fs->cache, line);
		rc = g4_slab_free(wg, &fs->alloc, txn, g4_address_from(block), G4_NO_LINE);
		if (g4_alloc_is_unreadable(rc))
			return write_block(wg, fs, txn, inode, 0, G4_MAP_SLOTS, NULL);
	}
	if (rc < 0 && rc != -G4_E_CORRUPT_SUMS)
		return rc;
	inode->disk.checksums = 0;
	return 0;
}

G4_FN int g4_sums_free(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint32_t line)
{
	if (line == G4_NO_LINE && (inode->disk.flags & G4_INODE_SUMS_INLINE)) {
		memset(&inode->disk.map[G4_FEW_PAGES], 0, sizeof(inode->disk.map) - sizeof(inode->disk.few.map));
		inode->disk.flags &= ~G4_INODE_SUMS_INLINE;
		return 0;
	}
	if (line == G4_NO_LINE)
		return free_block(wg, fs, txn, inode);
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
		struct g4_sums_places *places = g4_meta_places(&fs->cache, line);
		const struct g4_address address = g4_sums_place(places, address_of(fs, line), quarter);
		if (g4_address_is_none(address))
			continue;
		int rc = release_page(wg, fs, txn, inode, address);
		if (rc < 0)
			return rc;
		(void)g4_sums_set_place(places, address_of(fs, line), quarter, G4_NO_ADDRESS);
	}
	return 0;
}

G4_FN bool g4_sums_any(const struct g4_fs *fs, uint32_t line)
{
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++)
		if (!g4_address_is_none(g4_sums_place(g4_meta_places(&fs->cache, line), address_of(fs, line), quarter)))
			return true;
	return false;
}

/* ------------------------------------------------------------------ large pages */

/* References a page of sums of a large page; it is what the entry says. maker: the inode that it names. */
G4_FN static int get_page_of_large(struct g4_wg *wg, struct g4_fs *fs, uint64_t maker, const struct g4_sum_entry *entry,
				   uint32_t level, uint32_t quarter, uint32_t *line)
{
	const struct g4_address address = g4_address_after_pages(g4_sum_entry_place(entry), quarter);
	int rc = check_page(fs, address);

	if (level == 1 && g4_extent_shares_rows(fs)) /* the hash tells */
		maker = 0;
	if (rc == 0)
		rc = g4_meta_get_sums(wg, &fs->meta, address, maker, level, quarter, line);
	if (rc < 0)
		return damaged(rc);
	if (page_hash(wg, fs, *line) == g4_sum_entry_hash(entry, quarter))
		return 0;
	g4_cache_put(&fs->cache, *line);
	return -G4_E_CORRUPT_SUMS;
}

/* The page of sums, referenced in *line, that has the entry of a page below a large one. G4_NO_LINE: the large page has no sums. */
G4_FN static int find_in_large(struct g4_wg *wg, struct g4_fs *fs, uint64_t maker, const struct g4_sum_entry *entry,
			       uint32_t level, uint64_t page, uint32_t *line)
{
	struct g4_sum_entry part = *entry;

	*line = G4_NO_LINE;
	for (; level > 0; level--) {
		const uint32_t slot = (uint32_t)(page >> (9 * (level - 1))) % G4_INDIRECT_SLOTS, above = *line;
		const uint32_t algorithm = g4_sum_entry_algorithm(&part);

		if (algorithm != G4_CHECKSUM_LARGE) {
			if (above != G4_NO_LINE)
				g4_cache_put(&fs->cache, above);
			*line = G4_NO_LINE;
			return algorithm == G4_CHECKSUM_NONE ? 0 : -G4_E_CORRUPT_SUMS;
		}
		int rc = get_page_of_large(wg, fs, maker, &part, level, slot / G4_SUMS_SLOTS, line);
		if (above != G4_NO_LINE)
			g4_cache_put(&fs->cache, above);
		if (rc < 0) {
			*line = G4_NO_LINE;
			return rc;
		}
		part = entries_of(fs, *line, 0)[slot % G4_SUMS_SLOTS];
	}
	return 0;
}

G4_FN uint64_t g4_sums_maker(const struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line)
{
	return line == G4_NO_LINE ? inode->ino : g4_meta_line(&fs->cache, line)->inode;
}

G4_FN int g4_sums_read_large(struct g4_wg *wg, struct g4_fs *fs, uint64_t maker, const struct g4_sum_entry *entry,
			     uint32_t level, uint64_t page, uint32_t count, struct g4_sum_entry *to)
{
	uint32_t line;
	int rc = find_in_large(wg, fs, maker, entry, level, page, &line);

	g4_zero(wg, to, count * sizeof(*to));
	if (rc < 0 || line == G4_NO_LINE)
		return rc;
	g4_copy(wg, to, entries_of(fs, line, 0) + page % G4_SUMS_SLOTS, count * sizeof(*to));
	g4_cache_put(&fs->cache, line);
	return 0;
}

G4_FN int g4_sums_page(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t indirect,
		       uint32_t slot, uint32_t level, uint64_t page, uint32_t *line, const struct g4_sum_entry **entry)
{
	int rc;

	*line = G4_NO_LINE;
	if (level > 0) {
		struct g4_sum_entry large;
		rc = g4_sums_read(wg, fs, inode, indirect, slot, 1, &large);
		if (rc == 0)
			rc = find_in_large(wg, fs, g4_sums_maker(fs, inode, indirect), &large, level, page, line);
	} else {
		const struct g4_address address = indirect == G4_NO_LINE ?
							  G4_NO_ADDRESS :
							  g4_sums_place(g4_meta_places(&fs->cache, indirect),
									address_of(fs, indirect), slot / G4_SUMS_SLOTS);
		if (g4_address_is_none(address))
			return 0;
		rc = get_page(wg, fs, indirect, slot / G4_SUMS_SLOTS, address, line);
	}
	if (rc < 0)
		*line = G4_NO_LINE;
	else if (*line != G4_NO_LINE)
		*entry = entries_of(fs, *line, 0) + page % G4_SUMS_SLOTS;
	return rc;
}

G4_FN bool g4_sums_join(struct g4_wg *wg, struct g4_fs *fs, uint32_t line, struct g4_sum_entry *entry)
{
	const struct g4_sums_places *places = g4_meta_places(&fs->cache, line);
	const struct g4_address first = g4_sums_place(places, address_of(fs, line), 0);
	uint64_t hashes[G4_SUMS_QUARTERS];

	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
		const struct g4_address address = g4_sums_place(places, address_of(fs, line), quarter);
		uint32_t sums;
		if (g4_address_is_none(first) || !g4_address_is(address, g4_address_after_pages(first, quarter)) ||
		    get_page(wg, fs, line, quarter, address, &sums) < 0)
			return false;
		hashes[quarter] = page_hash(wg, fs, sums);
		g4_cache_put(&fs->cache, sums);
	}
	g4_sum_entry_make_large(entry, first, hashes);
	return true;
}

/* A page of sums of the indirect page in `line` moves to an address. */
G4_FN static int move_quarter(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			      uint32_t line, uint32_t quarter, struct g4_address to)
{
	const struct g4_meta_line *about = g4_meta_line(&fs->cache, line);
	struct g4_sums_places *places = g4_meta_places(&fs->cache, line);
	const struct g4_address from = g4_sums_place(places, address_of(fs, line), quarter);
	uint32_t before, after;
	int rc = g4_address_is_none(from) ? -G4_E_NOSPC : get_page(wg, fs, line, quarter, from, &before);

	if (rc < 0) /* whoever needs it is told */
		return -G4_E_NOSPC;
	rc = new_line(wg, fs, to, about->inode, about->level, quarter, &after);
	if (rc == 0) {
		g4_txn_dirty(txn, after);
		g4_copy(wg, entries_of(fs, after, 0), entries_of(fs, before, 0), G4_PAGE_BYTES);
		g4_cache_put(&fs->cache, after);
		if (!g4_sums_set_place(places, address_of(fs, line), quarter, to))
			rc = -G4_E_NOSPC;
	}
	g4_cache_put(&fs->cache, before);
	return rc < 0 ? rc : release_page(wg, fs, txn, inode, from);
}

G4_FN int g4_sums_line_up(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint32_t line)
{
	struct g4_address first;
	uint32_t quarter = 0;
	int rc = g4_nodes_acquire_spare(wg, fs, txn, inode, G4_SUMS_QUARTERS, &first);

	if (rc < 0)
		return rc;
	for (; quarter < G4_SUMS_QUARTERS && rc == 0; quarter += rc == 0)
		rc = move_quarter(wg, fs, txn, inode, line, quarter, g4_address_after_pages(first, quarter));
	for (; quarter < G4_SUMS_QUARTERS; quarter++)
		(void)g4_node_release(wg, fs, txn, inode, g4_address_after_pages(first, quarter)); /* rc tells more */
	return rc;
}

/* Whether the pages of sums of a large page of level 1 can become an inode's own as they are: 1, 0, or an error. */
G4_FN static int is_own_row(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			    struct g4_address first)
{
	uint64_t one = 1;
	uint32_t line;

	if (!g4_extent_shares_rows(fs))
		return 1;
	if (check_page(fs, first) < 0)
		return 1; /* whoever reads it is told */
	int rc = g4_extent_has_several(wg, fs, first, &one);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	int unread = 0;
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS;
	     quarter++) { /* any that can be read tells who made them */
		rc = damaged(
			g4_meta_get_sums(wg, &fs->meta, g4_address_after_pages(first, quarter), 0, 1, quarter, &line));
		if (rc < 0) {
			unread = rc == -G4_E_CORRUPT_SUMS ? unread : rc;
			continue;
		}
		const bool own = g4_meta_line(&fs->cache, line)->inode == inode->ino;
		g4_cache_put(&fs->cache, line);
		return own;
	}
	return unread < 0 ? unread : 1; /* there is nothing to copy */
}

G4_FN int g4_sums_look_large(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			     const struct g4_sum_entry *entry, bool all)
{
	if (g4_sum_entry_algorithm(entry) != G4_CHECKSUM_LARGE)
		return 0;
	const int own = all ? 0 : is_own_row(wg, fs, inode, g4_sum_entry_place(entry));
	int rc = own < 0 ? own : 0;
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS && own == 0 && rc == 0; quarter++) {
		struct g4_sum_entry one;
		rc = g4_sums_read_large(wg, fs, 0, entry, 1, quarter * G4_SUMS_SLOTS, 1, &one);
		rc = rc == -G4_E_CORRUPT_SUMS ? 0 : rc;
	}
	return rc;
}

/* A page of sums for a quarter of a new indirect page: that of the large page, or entries that are lost. */
G4_FN static int copy_quarter(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			      const struct g4_sum_entry *entry, uint32_t quarter, struct g4_address address)
{
	uint32_t from, to;
	int rc = new_line(wg, fs, address, inode->ino, 1, quarter, &to);

	if (rc < 0)
		return rc;
	struct g4_sum_entry *entries = entries_of(fs, to, 0);
	g4_txn_dirty(txn, to);
	rc = get_page_of_large(wg, fs, 0, entry, 1, quarter, &from);
	if (rc == 0) {
		g4_copy(wg, entries, entries_of(fs, from, 0), G4_SUMS_SLOTS * sizeof(*entries));
		g4_cache_put(&fs->cache, from);
	} else if (rc == -G4_E_CORRUPT_SUMS) {
		for (uint32_t k = 0; k < G4_SUMS_SLOTS; k++)
			g4_sum_entry_make_lost(&entries[k]);
		rc = 0;
	}
	g4_cache_put(&fs->cache, to);
	return rc;
}

/* The large page's pages of sums stay; the indirect page in `line` gets copies. */
G4_FN static int copy_row(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint32_t line, const struct g4_sum_entry *entry)
{
	struct g4_address pages[G4_SUMS_QUARTERS];
	uint32_t n = 0;
	int rc = 0;

	for (; n < G4_SUMS_QUARTERS && rc == 0; n += rc == 0)
		rc = g4_node_acquire(wg, fs, txn, inode, &pages[n]);
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS && rc == 0; quarter++) {
		rc = copy_quarter(wg, fs, txn, inode, entry, quarter, pages[quarter]);
		if (rc == 0 &&
		    !g4_sums_set_place(g4_meta_places(&fs->cache, line), address_of(fs, line), quarter, pages[quarter]))
			rc = -G4_E_NOSPC;
	}
	if (rc == 0)
		return g4_sums_free_large(wg, fs, txn, inode, entry);
	while (n-- > 0)
		(void)g4_node_release(wg, fs, txn, inode, pages[n]); /* rc tells more */
	return rc;
}

G4_FN int g4_sums_part(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint32_t line, const struct g4_sum_entry *entry)
{
	if (g4_sum_entry_algorithm(entry) == G4_CHECKSUM_NONE)
		return 0;
	if (g4_sum_entry_algorithm(entry) != G4_CHECKSUM_LARGE)
		return -G4_E_CORRUPT_SUMS;
	const int own =
		g4_meta_line(&fs->cache, line)->level == 1 ? is_own_row(wg, fs, inode, g4_sum_entry_place(entry)) : 1;
	if (own <= 0)
		return own < 0 ? own : copy_row(wg, fs, txn, inode, line, entry);
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++)
		if (!g4_sums_set_place(g4_meta_places(&fs->cache, line), address_of(fs, line), quarter,
				       g4_address_after_pages(g4_sum_entry_place(entry), quarter)))
			return -G4_E_NOSPC; /* none that is near enough */
	return 0;
}

G4_FN int g4_sums_share_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			      const struct g4_sum_entry *entry)
{
	const struct g4_address first = g4_sum_entry_place(entry);
	int rc = check_page(fs, first) < 0 ? -G4_E_CORRUPT_SUMS : g4_extent_share(wg, fs, txn, first, 1);

	inode->disk.pages += rc == 0 ? G4_SUMS_QUARTERS : 0;
	return rc;
}

G4_FN int g4_sums_new_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			    const struct g4_sum_entry *sums, struct g4_sum_entry *entry)
{
	const void *pages[G4_SUMS_QUARTERS];
	uint64_t hashes[G4_SUMS_QUARTERS];
	uint32_t lines[G4_SUMS_QUARTERS], n = 0;
	struct g4_address first;
	int rc = g4_nodes_acquire(wg, fs, txn, inode, G4_SUMS_QUARTERS, &first);

	if (rc < 0)
		return rc;
	for (; n < G4_SUMS_QUARTERS && rc == 0; n += rc == 0)
		rc = new_line(wg, fs, g4_address_after_pages(first, n), inode->ino, 1, n, &lines[n]);
	for (uint32_t quarter = 0; quarter < n; quarter++) {
		pages[quarter] = &sums[quarter * G4_SUMS_SLOTS];
		if (rc == 0) {
			g4_txn_dirty(txn, lines[quarter]);
			put_entries(wg, entries_of(fs, lines[quarter], 0), &sums[quarter * G4_SUMS_SLOTS],
				    G4_SUMS_SLOTS);
		}
		g4_cache_put(&fs->cache, lines[quarter]);
	}
	if (rc < 0) {
		for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++)
			(void)g4_node_release(wg, fs, txn, inode, g4_address_after_pages(first, quarter));
		return rc;
	}
	make_hashes(wg, pages, G4_SUMS_QUARTERS, hashes);
	g4_sum_entry_make_large(entry, first, hashes);
	return 0;
}

G4_FN int g4_sums_free_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     const struct g4_sum_entry *entry)
{
	int rc = 0;

	if (g4_sum_entry_algorithm(entry) != G4_CHECKSUM_LARGE) /* it leads to none, or to none that is known */
		return 0;
	if (g4_extent_shares_rows(fs) && check_page(fs, g4_sum_entry_place(entry)) == 0) {
		rc = g4_share_leave(wg, &fs->alloc, txn, g4_sum_entry_place(entry));
		if (rc != 0) {
			inode->disk.pages -= rc > 0 ? G4_SUMS_QUARTERS : 0;
			return rc < 0 ? rc : 0;
		}
	}
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS && rc == 0; quarter++)
		rc = release_page(wg, fs, txn, inode, g4_address_after_pages(g4_sum_entry_place(entry), quarter));
	return rc;
}
