/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directory trees: a leaf, or index pages over leaves. Each page is claimed, so none is reached twice; each leaf's
 * hashes lie between the bounds that its parents give.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "dir/dir.h"
#include "fsck/claim.h"
#include "fsck/fix.h"
#include "fsck/inode.h"
#include "fsck/plan.h"
#include "fsck/report.h"
#include "fsck/tables.h"
#include "hash/siphash.h"

struct leaf_visit { /* what is known about the leaf whose entries are visited */
	struct g4_fsck *fsck;
	struct g4_fsck_where where; /* of the entry at hand */
	uint64_t low, high;	    /* positions that may be here: low <= position < high */
};

static bool collect_entry(void *context, const struct g4_entry_view *view)
{
	struct leaf_visit *visit = context;
	struct g4_fsck *fsck = visit->fsck;
	const uint32_t hash = (uint32_t)g4_siphash13(fsck->image->sb.hash_key, view->name, view->entry.name_bytes);
	const uint64_t position = g4_dir_position(view->entry.hash, view->entry.collision);
	const bool is_here = position >= visit->low && position < visit->high;

	visit->where.leaf_address = view->leaf_address;
	visit->where.unit = view->unit;
	visit->where.ino = view->entry.inode;
	if (hash != view->entry.hash || !is_here)
		fsck->rebuild_dir = true;
	if (hash != view->entry.hash && !fsck->made_superblock) /* else that is said once, of all */
		g4_fsck_problem(fsck, G4_FSCK_HASH, &visit->where, "the entry's hash is 0x%08x, the name's is 0x%08x",
				view->entry.hash, hash);
	if (!is_here)
		g4_fsck_problem(fsck, G4_FSCK_HASH, &visit->where,
				"the entry's hash 0x%08x with number %u does not belong into its leaf at 0x%" PRIx64,
				view->entry.hash, view->entry.collision, g4_address_stored(view->leaf_address));
	if (!g4_fsck_reserve(fsck, (void **)&fsck->entries, fsck->entry_count, &fsck->entry_room,
			     sizeof(*fsck->entries)))
		return true;
	fsck->entries[fsck->entry_count++] = (struct g4_fsck_entry){
		.ino = view->entry.inode,
		.leaf_address = view->leaf_address,
		.hash = view->entry.hash,
		.collision = view->entry.collision,
		.unit = (uint8_t)view->unit,
		.file_type = view->entry.file_type,
	};
	return false;
}

static int compare_hashes(const void *a, const void *b)
{
	const struct g4_fsck_entry *x = a, *y = b;
	const uint64_t left = g4_dir_position(x->hash, x->collision), right = g4_dir_position(y->hash, y->collision);

	return left < right ? -1 : left > right;
}

static struct g4_fsck_where where_of(const struct g4_fsck_entry *entry, const struct g4_fsck_where *directory)
{
	return (struct g4_fsck_where){
		.dir = directory->dir,
		.leaf_address = entry->leaf_address,
		.unit = entry->unit,
		.ino = entry->ino,
	};
}

static bool names_are_equal(struct g4_fsck *fsck, const struct g4_fsck_entry *a, const struct g4_fsck_entry *b)
{
	uint8_t left[G4_NAME_MAX], right[G4_NAME_MAX];
	const size_t bytes = g4_fsck_entry_name(fsck, a->leaf_address, a->unit, left);

	return bytes == g4_fsck_entry_name(fsck, b->leaf_address, b->unit, right) && memcmp(left, right, bytes) == 0;
}

#define FEW 64u /* names of one hash of which each is compared with each */

struct print { /* of a name, by another hash than the directory's */
	uint64_t value, entry;
};

static int compare_prints(const void *a, const void *b)
{
	const struct print *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static void tell_duplicate(struct g4_fsck *fsck, const struct g4_fsck_entry *entry,
			   const struct g4_fsck_where *directory)
{
	const struct g4_fsck_where where = where_of(entry, directory);

	fsck->rebuild_dir = true;
	g4_fsck_problem(fsck, G4_FSCK_DUPLICATE, &where, "the directory has this name twice");
}

/* Looks for names that are there twice among those of one hash: many, so by their prints. */
static void check_many(struct g4_fsck *fsck, const struct g4_fsck_where *directory, uint64_t first, uint64_t end)
{
	static const uint64_t key[2] = {UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xbf58476d1ce4e5b9)};
	uint8_t name[G4_NAME_MAX];
	struct print *prints = NULL;
	uint64_t room = 0, count = 0;

	for (uint64_t i = first; i < end; i++) {
		const struct g4_fsck_entry *entry = &fsck->entries[i];
		const size_t bytes = g4_fsck_entry_name(fsck, entry->leaf_address, entry->unit, name);
		if (!g4_fsck_reserve(fsck, (void **)&prints, count, &room, sizeof(*prints)))
			break;
		prints[count++] = (struct print){g4_siphash13(key, name, (uint32_t)bytes), i};
	}
	if (count > 1)
		qsort(prints, count, sizeof(*prints), compare_prints);
	for (uint64_t k = 1; k < count; k++) {
		const struct g4_fsck_entry *entry = &fsck->entries[prints[k].entry];
		/* all of its print, of which users may have chosen some */
		for (uint64_t other = k; other-- > 0 && prints[other].value == prints[k].value;) {
			if (!names_are_equal(fsck, entry, &fsck->entries[prints[other].entry]))
				continue;
			tell_duplicate(fsck, entry, directory);
			break;
		}
	}
	free(prints);
}

static void check_few(struct g4_fsck *fsck, const struct g4_fsck_where *directory, uint64_t first, uint64_t end)
{
	for (uint64_t i = first + 1; i < end; i++) {
		for (uint64_t other = i; other-- > first;) {
			if (!names_are_equal(fsck, &fsck->entries[i], &fsck->entries[other]))
				continue;
			tell_duplicate(fsck, &fsck->entries[i], directory);
			break;
		}
	}
}

/* Entries sorted by position. Only those of one hash are compared, so a damaged hash hides nothing but itself. */
static void check_collisions(struct g4_fsck *fsck, const struct g4_fsck_where *directory)
{
	uint64_t first = 0;

	for (uint64_t i = 1; i <= fsck->entry_count; i++) {
		const struct g4_fsck_entry *entry = &fsck->entries[i];
		if (i == fsck->entry_count || entry->hash != entry[-1].hash) {
			if (i - first > FEW)
				check_many(fsck, directory, first, i);
			else
				check_few(fsck, directory, first, i);
			first = i;
			continue;
		}
		if (entry->collision != entry[-1].collision)
			continue;
		const struct g4_fsck_where where = where_of(entry, directory);
		fsck->rebuild_dir = true;
		g4_fsck_problem(fsck, G4_FSCK_COOKIE, &where,
				"another entry has the same hash 0x%08x and collision number %u", entry->hash,
				entry->collision);
	}
}

/* An index page that was entered: of one that divides names of one hash a version without that feature finds only some. */
static void check_feature(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_dir_index *index)
{
	bool divides = false;

	for (uint32_t i = 0; i < index->count; i++)
		divides = divides || index->entries[i].collision != 0;
	if (!divides || (fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_EQUAL_HASHES))
		return;
	g4_fsck_problem(fsck, G4_FSCK_SUPERBLOCK, where,
			"names of one hash lie in several leaves, and the superblock does not say that any do");
	if (!fsck->repairing)
		return;
	fsck->image->sb.features_incompat |= G4_FEATURE_INCOMPAT_EQUAL_HASHES;
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, where, 0, 0,
		       "the superblock says that names of one hash may be divided");
}

/* Reads the page that the walk stands at; collects a leaf's entries. */
static bool check_page(struct g4_fsck *fsck, const struct g4_fsck_where *where)
{
	struct g4_dir_walk *walk = &fsck->dir_walk;
	const uint64_t page = g4_address_page(walk->address);

	/* Not entered when it was met before: else a page that is its own child would be walked for ages. */
	if (g4_fsck_bit(fsck->used, page) && (!fsck->repairing || g4_fsck_bit(fsck->metadata, page))) {
		fsck->rebuild_dir = fsck->missing_pages = true; /* what should be in its place is somewhere else */
		return g4_fsck_claim_metadata(fsck, walk->address, where, "a directory page");
	}
	const int status = g4_dir_walk_enter(walk);
	if (status < 0) {
		fsck->rebuild_dir = fsck->missing_pages = true;
		g4_fsck_note_broken(fsck, walk->address);
		g4_fsck_problem(fsck, G4_FSCK_DIRECTORY, where,
				"the directory page at 0x%" PRIx64 ", for hashes from 0x%08" PRIx64
				" on, is damaged or contradicts its parent: %s",
				g4_address_stored(walk->address), walk->low >> 16, g4_strerror(status));
		if (!fsck->repairing)
			g4_fsck_claim_metadata(fsck, walk->address, where, "a directory page");
		return false;
	}
	g4_fsck_claim_metadata(fsck, walk->address, where, "a directory page");
	if (walk->type == G4_BLOCK_DIR_LEAF) {
		struct leaf_visit visit = {.fsck = fsck, .where = *where, .low = walk->low, .high = walk->high};
		g4_leaf_each_entry(&walk->leaf, walk->address, collect_entry, &visit);
	} else {
		check_feature(fsck, where, &walk->frames[walk->depth - 1].page);
	}
	return true;
}

/* Directories have one pointer. What else is in the map goes; what it led to is looked for. */
static void mend_root(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_inode *inode)
{
	struct g4_inode *slot = g4_fsck_edit_inode(fsck, where->ino);
	const g4_ptr root = inode->map[0];

	inode->map_height = 0;
	memset(inode->map, 0, sizeof(inode->map));
	if ((root & G4_PTR_INDIRECT) == 0)
		inode->map[0] = root;
	fsck->rebuild_dir = true;
	fsck->missing_pages = inode->map[0] == 0;
	if (slot == NULL)
		return;
	*slot = *inode;
	g4_fsck_seal_inode(fsck, where->ino);
}

static bool has_one_root(const struct g4_inode *inode)
{
	bool good = inode->map_height == 0;

	for (uint32_t slot = 1; slot < G4_MAP_SLOTS; slot++)
		good = good && inode->map[slot] == 0;
	return good;
}

static void rebuild_later(struct g4_fsck *fsck, const struct g4_fsck_where *where)
{
	const struct g4_fsck_task task = {
		.kind = G4_FSCK_REBUILD,
		.ino = where->ino,
		.missing = fsck->missing_pages,
		.where = *where,
	};

	g4_fsck_add_task(fsck, &task);
}

bool g4_fsck_read_directory(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where,
			    uint64_t *pages)
{
	struct g4_inode mended = *inode;
	bool good = true;

	fsck->entry_count = 0;
	fsck->rebuild_dir = fsck->missing_pages = false;
	if (!has_one_root(inode)) {
		g4_fsck_problem(fsck, G4_FSCK_DIRECTORY, where, "the directory has more than one root page");
		if (!fsck->repairing)
			return false;
		mend_root(fsck, where, &mended);
	}
	/* Names without a page: the pointer is what was lost. */
	if (mended.map[0] == 0 && inode->entries != 0) {
		g4_fsck_problem(fsck, G4_FSCK_ENTRIES, where, "the directory counts %u entries, it has no page",
				inode->entries);
		fsck->rebuild_dir = fsck->missing_pages = true;
		good = false;
	}
	g4_dir_walk_start(&fsck->dir_walk, fsck->image, &mended);
	while (fsck->fatal == 0 && g4_dir_walk_next(&fsck->dir_walk)) {
		++*pages;
		good = check_page(fsck, where) && good;
	}
	if (fsck->entry_count > 1)
		qsort(fsck->entries, fsck->entry_count, sizeof(*fsck->entries), compare_hashes);
	check_collisions(fsck, where);
	if (fsck->rebuild_dir && fsck->repairing)
		rebuild_later(fsck, where);
	return good && !(fsck->rebuild_dir && fsck->repairing);
}
