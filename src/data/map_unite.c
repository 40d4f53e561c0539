/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hangs at the target's own page loses an owner for each slot, and has the source's page for one still: nothing of it is freed. Crash at any
 * line: the slot, the count of the source's page, those of what hangs there and both inodes are of one transaction.
 */
#include "data/map_unite.h"

#include "alloc/share.h"
#include "data/extent.h"
#include "data/map_own.h"
#include "data/sums.h"
#include "data/unreadable.h"
#include "inode/inode.h"
#include "inode/txn.h"

#define SUMS_AT_ONCE 64u
/* The slot and what says how many pages hang above it, an owner more of the source's page and one less of the target's, its pages, both inodes. */
#define NODES_MOST (1 + G4_SUMS_QUARTERS)
#define UNITE_CREDITS (2 + G4_SHARE_CREDITS + G4_SHARE_LEAVE_CREDITS + NODES_MOST * G4_ALLOC_CREDITS + 4)
G4_STATIC_ASSERT(UNITE_CREDITS <= G4_TXN_LEAST_BLOCKS, "what others have as well can be left in any transaction");

/* The same place of two files: the ways to the slots that lead to indirect pages of level 1, and these pages. */
struct twins {
	struct g4_inode_core *from, *to;
	uint64_t from_page, to_page; /* the first ones below */
	struct g4_path source, target;
	uint32_t source_line, target_line;
	bool shared; /* the target's page has other owners: it is left as a whole */
};

G4_FN static void put(struct g4_fs *fs, struct twins *t)
{
	if (t->target_line != G4_NO_LINE)
		g4_cache_put(&fs->cache, t->target_line);
	if (t->source_line != G4_NO_LINE)
		g4_cache_put(&fs->cache, t->source_line);
	g4_path_put(fs, &t->target);
	g4_path_put(fs, &t->source);
}

/* 1: the way ends at such a slot, and the page is referenced. `owns`: no page above it is others' as well. */
G4_FN static int find(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, bool owns,
		      struct g4_path *path, uint32_t *line)
{
	int rc = 0;

	g4_path_start(path, inode, page);
	while (rc == 0 && path->level > 1 && (*path->slot & G4_PTR_INDIRECT)) {
		const int shared = owns ? g4_path_is_shared(wg, fs, inode, path) : 0;
		if (shared != 0)
			return shared < 0 ? shared : 0;
		rc = g4_path_down(wg, fs, inode, path, page);
	}
	if (rc < 0 || path->level != 1 || !(*path->slot & G4_PTR_INDIRECT))
		return rc;
	rc = g4_map_get_node(wg, fs, inode, *path->slot, 1, line);
	if (rc < 0)
		*line = G4_NO_LINE;
	return rc < 0 ? rc : 1;
}

/* Both, and they are two. Afterwards, whatever it says, they are to be put. */
G4_FN static int find_both(struct g4_wg *wg, struct g4_fs *fs, struct twins *t)
{
	t->source_line = t->target_line = G4_NO_LINE;
	g4_path_start(&t->target, t->to, t->to_page);
	int rc = find(wg, fs, t->from, t->from_page, false, &t->source, &t->source_line);

	if (rc > 0)
		rc = find(wg, fs, t->to, t->to_page, true, &t->target, &t->target_line);
	return rc > 0 ? *t->source.slot != *t->target.slot : rc;
}

/* Whether all slots lead to the same pages, which were written; where these lie, of which nothing is known before. */
G4_FN static bool have_same_pages(struct g4_fs *fs, const struct twins *t, struct g4_map_places *places)
{
	const g4_le64 *slots = g4_map_slots(fs, t->source_line), *others = g4_map_slots(fs, t->target_line);

	return g4_bytes_equal(slots, others, G4_INDIRECT_SLOTS * sizeof(*slots)) &&
	       g4_map_add_written(fs, t->source_line, places) && places->region_count > 0;
}

/* Whether what is written there has the same sums in both files, or none: 1, 0, or an error. */
G4_FN static int have_same_sums(struct g4_wg *wg, struct g4_fs *fs, const struct twins *t)
{
	const g4_le64 *slots = g4_map_slots(fs, t->source_line);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_sum_entry *sums = (struct g4_sum_entry *)g4_scratch_take(wg, SUMS_AT_ONCE * sizeof(*sums));
	struct g4_sum_entry *others = (struct g4_sum_entry *)g4_scratch_take(wg, SUMS_AT_ONCE * sizeof(*others));
	int rc = 0;
	bool same = true;

	for (uint32_t first = 0; first < G4_INDIRECT_SLOTS && rc == 0 && same; first += SUMS_AT_ONCE) {
		rc = g4_sums_read(wg, fs, t->from, t->source_line, first, SUMS_AT_ONCE, sums);
		if (rc == 0)
			rc = g4_sums_read(wg, fs, t->to, t->target_line, first, SUMS_AT_ONCE, others);
		for (uint32_t k = 0; k < SUMS_AT_ONCE && rc == 0 && same; k++)
			same = slots[first + k] == 0 || (g4_sum_entry_algorithm(&sums[k]) < G4_CHECKSUM_LOST &&
							 g4_bytes_equal(&sums[k], &others[k], sizeof(sums[k])));
	}
	g4_scratch_release(wg, mark);
	return rc < 0 ? rc : same;
}

/*
 * Whether all that hangs there has other owners, as it has where counts are right: 1, 0, or an error. A page that hangs there twice is asked for once: it
 * hangs twice at the source's page as well, so counts that are right have enough.
 */
G4_FN static int have_several(struct g4_wg *wg, struct g4_fs *fs, uint32_t line)
{
	const g4_le64 *slots = g4_map_slots(fs, line);
	int rc = 1;

	for (uint32_t slot = 0, n; slot < G4_INDIRECT_SLOTS && rc > 0; slot += n) {
		uint64_t several = n = slots[slot] == 0 ? 1 : g4_map_row_of(slots, slot);
		if (slots[slot] == 0)
			continue;
		rc = g4_extent_has_several(wg, fs, g4_ptr_address(slots[slot]), &several);
		rc = rc > 0 ? several == n : rc;
	}
	return rc;
}

/* 1: they can be one, by a transaction with *credits; 0; or an error. What that will read is read. */
G4_FN static int look(struct g4_wg *wg, struct g4_fs *fs, struct twins *t, uint32_t *credits)
{
	struct g4_map_places places = {.region_count = 0};
	uint64_t one = 1;
	int rc = find_both(wg, fs, t);

	if (rc > 0)
		rc = have_same_pages(fs, t, &places);
	if (rc > 0)
		rc = have_same_sums(wg, fs, t);
	/* also of a file that shares none yet: whoever comes in the transaction must find that in the cache */
	const int lent = rc > 0 ? g4_extent_has_several(wg, fs, g4_ptr_address(*t->source.slot), &one) : rc;
	const int shared = lent < 0 ? lent : rc > 0 ? g4_path_is_shared(wg, fs, t->to, &t->target) : 0;
	rc = shared < 0 ? shared : rc;
	t->shared = shared > 0;
	if (rc > 0 && lent == 0 && !g4_map_can_copy(fs, &places))
		rc = 0;
	*credits = UNITE_CREDITS;
	if (rc > 0 && !t->shared) {
		*credits += places.region_count * G4_SHARE_RELEASE_MOST;
		rc = places.region_count <= G4_MAP_PLACES && *credits <= fs->journal.max_blocks;
		rc = rc > 0 ? have_several(wg, fs, t->target_line) : rc;
		const int looked = rc > 0 ? g4_look_at_copy(wg, fs, t->to, &t->target) : 0;
		rc = looked < 0 ? looked : rc;
	}
	const int maps = rc > 0 && !t->shared ? g4_path_look_at_node(wg, fs, t->target_line) : 0;
	rc = maps < 0 ? maps : rc;
	put(fs, t);
	return rc;
}

/* What hangs at the slots up to `end` has an owner less, or more again; *done: up to this slot; *half: of the next one something may have changed. */
G4_FN static int change_owners(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t line, uint32_t end,
			       bool more, uint32_t *done, bool *half)
{
	const g4_le64 *slots = g4_map_slots(fs, line);
	uint32_t slot = 0;
	int rc = 0;

	*half = false;
	while (slot < end && rc == 0) {
		const uint32_t n = slots[slot] == 0 ? 1 : (uint32_t)g4_min64(g4_map_row_of(slots, slot), end - slot);
		const uint32_t before = txn->changed;
		if (slots[slot] != 0)
			rc = more ? g4_extent_share(wg, fs, txn, g4_ptr_address(slots[slot]), n) :
				    g4_extent_release(wg, fs, txn, g4_ptr_address(slots[slot]), n);
		*half = rc < 0 && txn->changed != before;
		slot += rc == 0 ? n : 0;
	}
	*done = slot;
	return rc;
}

/* The target's page goes, which is its own. *undone: it failed, and everything is as it was. */
G4_FN static int drop_own(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct twins *t, bool *undone)
{
	uint32_t done, again;
	bool half, other;
	int rc = change_owners(wg, fs, txn, t->target_line, G4_INDIRECT_SLOTS, false, &done, &half);

	if (rc < 0) {
		*undone = !half && change_owners(wg, fs, txn, t->target_line, done, true, &again, &other) == 0;
		return *undone ? rc : -G4_E_IO; /* counts are wrong: the journal ends before they are durable */
	}
	rc = g4_sums_free(wg, fs, txn, t->to, t->target_line);
	return rc < 0 ? rc : g4_node_release(wg, fs, txn, t->to, g4_ptr_address(*t->target.slot));
}

/* In the transaction. *undone: it failed, and everything is as it was. */
G4_FN static int unite(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct twins *t, bool *undone)
{
	const g4_ptr ptr = *t->source.slot;
	const uint64_t had = g4_map_count_below(fs, t->target_line);
	int rc = g4_extent_share(wg, fs, txn, g4_ptr_address(ptr), 1);

	*undone = rc == -G4_E_NOSPC || rc == -G4_E_MLINK || (rc < 0 && txn->changed == 0);
	if (rc < 0)
		return rc;
	g4_path_dirty(txn, &t->target);
	const uint32_t before = txn->changed;
	rc = t->shared ? g4_share_leave(wg, &fs->alloc, txn, g4_ptr_address(*t->target.slot)) : 0;
	if (rc > 0) {
		t->to->disk.pages -= g4_min64(t->to->disk.pages, had);
		t->to->disk.pages += g4_map_count_below(fs, t->source_line);
		rc = 0;
	} else if (rc == 0 && !t->shared) {
		rc = drop_own(wg, fs, txn, t, undone);
		t->to->disk.pages += rc == 0 ? 1 + g4_map_sums_pages(fs, t->source_line) : 0;
	} else { /* others have left it meanwhile, and nobody has the credits for what hangs there */
		rc = rc < 0 ? rc : -G4_E_AGAIN;
		*undone = txn->changed == before;
	}
	if (rc < 0) {
		*undone = *undone && g4_share_leave(wg, &fs->alloc, txn, g4_ptr_address(ptr)) > 0;
		return *undone ? rc : -G4_E_IO;
	}
	g4_path_forget_below(fs, txn, &t->target);
	*t->target.slot = ptr;
	t->to->disk.flags |= G4_INODE_SHARES_MAP;
	t->from->disk.flags |= G4_INODE_SHARES_MAP;
	return 0;
}

/* The transaction. */
G4_FN static int unite_one(struct g4_wg *wg, struct g4_fs *fs, struct twins *t, uint32_t credits)
{
	struct g4_txn txn;
	bool undone = false;
	int rc = g4_begin(wg, fs, credits, &txn);

	if (rc < 0)
		return rc;
	rc = find_both(wg, fs, t);
	undone = rc < 0;
	if (rc > 0)
		rc = unite(wg, fs, &txn, t, &undone);
	put(fs, t);
	int logged = rc == 0 && txn.changed ? g4_inode_log(wg, fs, &txn, t->from) : 0;
	if (logged == 0 && rc == 0 && txn.changed)
		logged = g4_inode_log(wg, fs, &txn, t->to);
	return g4_end(fs, &txn, rc < 0 && !undone ? rc : logged); /* what can not be is as it was */
}

G4_FN static bool has_map(const struct g4_inode_core *inode, uint64_t page)
{
	return inode->dirty_count == 0 && !(inode->disk.flags & G4_INODE_INLINE) &&
	       page < g4_map_capacity_pages(inode->disk.map_height);
}

G4_FN int g4_map_unite(struct g4_wg *wg, struct g4_fs *fs, uint32_t from, uint64_t from_page, uint32_t to,
		       uint64_t to_page, uint64_t pages)
{
	const uint64_t inside = to_page % G4_INDIRECT_SLOTS, end = to_page + pages;
	struct twins t = {.from = g4_icache_at(fs, from),
			  .to = g4_icache_at(fs, to),
			  .from_page = from_page - inside,
			  .to_page = to_page - inside};
	int rc = 0;

	if (t.from == t.to || from_page % G4_INDIRECT_SLOTS != inside ||
	    g4_inode_domain(&t.from->disk) != g4_inode_domain(&t.to->disk))
		return 0;
	for (; t.to_page < end && rc == 0 && has_map(t.from, t.from_page) && has_map(t.to, t.to_page);
	     t.from_page += G4_INDIRECT_SLOTS, t.to_page += G4_INDIRECT_SLOTS) {
		uint32_t credits;
		if (look(wg, fs, &t, &credits) <= 0) /* also what can not be read: nobody needs it here */
			continue;
		if (G4_FEATURES_REFLINK_MAPS & ~g4_load64_acq(&fs->super.features_incompat))
			return -G4_E_AGAIN;
		rc = unite_one(wg, fs, &t, credits);
	}
	return g4_check(fs, rc);
}
