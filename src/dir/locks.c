/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves that callers lock and let go of, by what a lookup or a listing said of them. */
#include "dir/dir.h"

G4_FN void g4_dir_let_go(struct g4_dir_slot *slot)
{
	if (slot->leaf_lock)
		g4_read_unlock(&slot->leaf_lock->lock);
}

G4_FN void g4_dir_let_go_fenced(struct g4_dir_slot *slot)
{
	if (slot->leaf_lock)
		g4_read_unlock_fenced(&slot->leaf_lock->lock);
}

G4_FN void g4_dir_hold(struct g4_dir_slot *slot)
{
	if (slot->leaf_lock)
		g4_read_lock_at_gate(&slot->leaf_lock->lock);
}

G4_FN int g4_dir_hold_page(struct g4_wg *wg, const struct g4_dir *dir, struct g4_dir_slot *slot, uint32_t *line)
{
	const int rc = g4_meta_get_near(wg, dir->meta, slot->page, G4_BLOCK_DIR_LEAF, slot->line, line);

	if (rc < 0)
		return rc;
	slot->line = *line;
	g4_dir_hold(slot);
	return 0;
}

G4_FN void g4_dir_let_go_page(const struct g4_dir *dir, struct g4_dir_slot *slot, uint32_t line)
{
	g4_dir_let_go(slot);
	g4_cache_put(dir->cache, line);
}

G4_FN void g4_dir_lock_leaf(struct g4_leaf_lock *leaf_lock)
{
	g4_write_lock(&leaf_lock->lock);
}

G4_FN void g4_dir_lock_two(struct g4_leaf_lock *a, struct g4_leaf_lock *b)
{
	g4_dir_lock_leaf(a < b ? a : b);
	if (a != b)
		g4_dir_lock_leaf(a < b ? b : a);
}

G4_FN void g4_dir_unlock_leaf(struct g4_leaf_lock *leaf_lock, bool changed)
{
	if (changed)
		g4_store64_rlx(&leaf_lock->changes, leaf_lock->changes + 1);
	g4_write_unlock(&leaf_lock->lock);
}

G4_FN void g4_dir_unlock_two(struct g4_leaf_lock *a, struct g4_leaf_lock *b, bool changed)
{
	g4_dir_unlock_leaf(a, changed);
	if (a != b)
		g4_dir_unlock_leaf(b, changed);
}

G4_FN void g4_dir_listed_slot(const struct g4_dir_listed *listed, uint32_t k, struct g4_dir_slot *slot)
{
	const struct g4_dir_entry *entry = listed->items[k].entry;

	slot->inode = entry->inode;
	slot->leaf_lock = listed->leaf_lock;
	slot->leaf = NULL;
	slot->changes = listed->changes;
	slot->splits = listed->splits;
	slot->page = listed->leaf;
	slot->line = slot->first_line = listed->line;
	slot->unit = (uint32_t)((const uint8_t *)entry - (const uint8_t *)listed->page) / G4_DIR_UNIT_BYTES;
	slot->hash = entry->hash;
	slot->collision = entry->collision;
	slot->file_type = entry->file_type;
	slot->full = slot->collides = slot->equal = slot->alone = false;
	slot->first = slot->room = 0;
}
