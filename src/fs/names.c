/* SPDX-License-Identifier: Apache-2.0 */
/* Names in directories: checking, finding and remembering them. */
#include "fs/names.h"
#include "dir/leaf.h"
#include "fs/attr.h"
#include "fs/super.h"
#include "inode/icache.h"

/* Whether a byte of the word is 0 (Lamport, "Multiple byte processing with full-word instructions", 1975). */
G4_FN static bool has_zero(uint64_t word)
{
	return ((word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080)) != 0;
}

/* Whether a slash or a zero is among 1 to 8 bytes. */
G4_FN static bool has_bad_byte(const char *text, uint32_t bytes)
{
	uint64_t word = g4_load_bytes(text, bytes);

	if (bytes < 8)
		word |= ~UINT64_C(0) << 8 * bytes;
	return has_zero(word) || has_zero(word ^ UINT64_C(0x2f2f2f2f2f2f2f2f));
}

G4_FN int g4_check_name(const char *name, uint32_t bytes)
{
	if (bytes == 0)
		return -G4_E_NOENT;
	if (bytes > G4_NAME_MAX)
		return -G4_E_NAMETOOLONG;
	G4_ROLLED
	for (uint32_t i = 0; i < bytes; i += 8)
		if (has_bad_byte(name + i, (uint32_t)g4_min64(8, bytes - i)))
			return -G4_E_INVAL;
	return 0;
}

/* . and .. of a directory. */
G4_FN static int find_dots(const struct g4_inode_core *inode, bool dot, struct g4_dir_slot *slot)
{
	slot->inode = dot ? inode->ino : inode->disk.parent;
	slot->file_type = 4; /* DT_DIR */
	slot->leaf_lock = NULL;
	slot->room = 0;
	return 0;
}

/* A name that is neither; its leaf stays locked. */
G4_FN static int find_held(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, enum g4_locked how,
			   const char *name, uint32_t bytes, struct g4_dir_slot *slot)
{
	const struct g4_dir dir = g4_dir_locked(fs, inode, how);
	const uint32_t near = g4_load32_rlx(&inode->first_page) - 1;

	slot->line = near;
	const int rc = g4_dir_lookup_held(wg, &dir, name, bytes, slot);
	if (slot->first_line != near)
		g4_store32_rlx(&inode->first_page, slot->first_line + 1);
	return rc;
}

G4_FN int g4_name_find(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, enum g4_locked how,
		       const char *name, uint32_t bytes, struct g4_dir_slot *slot)
{
	if (g4_is_dot(name, bytes) || g4_is_dotdot(name, bytes))
		return find_dots(inode, g4_is_dot(name, bytes), slot);
	const int rc = find_held(wg, fs, inode, how, name, bytes, slot);
	g4_dir_let_go_fenced(slot);
	return rc;
}

#define LOOK_AGAIN 1

/*
 * References the inode of a name whose leaf is locked, and is locked afterwards. An inode that is not in core is loaded with the leaf
 * given back: makers wait for that lock inside of their transactions. LOOK_AGAIN: names in the leaf have changed meanwhile.
 */
G4_FN static int get_named(struct g4_wg *wg, struct g4_fs *fs, struct g4_dir_slot *slot, uint32_t *index)
{
	if (g4_icache_find(fs, slot->inode, index))
		return 0;
	g4_dir_let_go(slot);
	const int rc = g4_icache_get(wg, fs, slot->inode, index);
	g4_dir_hold(slot);
	if (g4_dir_slot_holds(slot))
		return rc;
	if (rc == 0)
		g4_icache_put(fs, *index);
	return LOOK_AGAIN;
}

G4_FN int g4_name_get(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, enum g4_locked how,
		      const char *name, uint32_t bytes, bool remember, struct g4_dir_slot *slot, uint32_t *index)
{
	int rc;

	do {
		rc = find_held(wg, fs, inode, how, name, bytes, slot);
		if (rc == 0)
			rc = get_named(wg, fs, slot, index);
		if (rc == 0 && remember) { /* while the leaf is locked, so that nobody has taken the name away */
			const struct g4_lookup_name key = g4_lookup_key_of(fs, inode, slot->hash, name, bytes);
			g4_name_remember(fs, &key, *index);
		}
		g4_dir_let_go(slot);
	} while (rc == LOOK_AGAIN);
	return rc;
}

G4_FN int g4_name_leads_to(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, enum g4_locked how,
			   const char *name, uint32_t bytes, const struct g4_inode_core *inode)
{
	struct g4_lookup_value value;
	struct g4_lookup_seen seen;
	struct g4_dir_slot slot;

	if (inode->dead)
		return 0;
	if (g4_name_cached(fs, dir, name, bytes, &value, &seen))
		return value.inode == inode->ino;
	const int rc = g4_name_find(wg, fs, dir, how, name, bytes, &slot);
	if (rc == -G4_E_NOENT)
		return 0;
	return rc < 0 ? rc : slot.inode == inode->ino;
}

G4_FN int g4_check_child(struct g4_fs *fs, const struct g4_inode_core *parent, uint32_t index)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);

	if (!g4_is_dir(g4_inode_core_type(inode)))
		return 0;
	const bool fits = inode != parent && g4_is_child(G4_S_IFDIR, g4_load64_acq(&inode->disk.parent), parent->ino);
	return fits ? 0 : -G4_E_CORRUPT_DIR;
}

/* The inode of a listed name, as it was listed, or, where that is not so any more (again), as it is now; referenced. */
G4_FN static int get_listed(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir,
			    const struct g4_dir_listed *listed, const struct g4_dir_entry *entry, bool again,
			    uint32_t *index)
{
	struct g4_dir_slot slot;
	int rc = again ? -G4_E_STALE : g4_icache_get(wg, fs, entry->inode, index);

	if (!g4_dir_listed_holds(
		    listed)) { /* the number may be another inode's by now, of which nothing is looked at */
		if (rc == 0)
			g4_icache_put(fs, *index);
		rc = g4_name_get(wg, fs, dir, G4_LOCKED_SHARED, g4_leaf_name(entry), entry->name_bytes, false, &slot,
				 index);
	}
	if (rc < 0)
		return rc == -G4_E_STALE ? -G4_E_CORRUPT_DIR : rc;
	rc = g4_check_child(fs, dir, *index);
	if (rc < 0)
		g4_icache_put(fs, *index);
	return rc;
}

G4_FN int g4_name_attr(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir,
		       const struct g4_dir_listed *listed, const struct g4_dir_entry *entry, struct g4_attr *attr)
{
	bool again = false;

	for (int leads = 0; leads <= 0;
	     again = true) { /* once more for each time that the name is given to another inode meanwhile */
		uint32_t index;
		int rc = get_listed(wg, fs, dir, listed, entry, again, &index);
		if (rc < 0)
			return rc;
		struct g4_inode_core *inode = g4_icache_at(fs, index);
		g4_read_lock(&inode->lock);
		leads = inode->ino == entry->inode && g4_dir_listed_holds(listed) ?
				1 :
				g4_name_leads_to(wg, fs, dir, G4_LOCKED_SHARED, g4_leaf_name(entry), entry->name_bytes,
						 inode);
		if (leads > 0)
			g4_fill_attr(inode, attr);
		g4_read_unlock(&inode->lock);
		g4_icache_put(fs, index);
		if (leads < 0)
			return leads;
	}
	return 0;
}

G4_FN struct g4_lookup_name g4_lookup_key_of(const struct g4_fs *fs, const struct g4_inode_core *dir, uint32_t hash,
					     const char *name, uint32_t bytes)
{
	struct g4_lookup_name key = {dir->data_key, hash, name, bytes, {0, 0}};

	g4_lookup_print(&key, fs->name_secret);
	return key;
}

G4_FN struct g4_lookup_name g4_lookup_key(const struct g4_fs *fs, const struct g4_inode_core *dir, const char *name,
					  uint32_t bytes)
{
	return g4_lookup_key_of(fs, dir, g4_dir_hash(fs->hash_key, name, bytes), name, bytes);
}

G4_FN int g4_name_allow(struct g4_wg *wg, struct g4_fs *fs, const struct g4_dir_slot *slot)
{
	return slot->equal ? g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_EQUAL_HASHES) : 0;
}

G4_FN void g4_name_forget(struct g4_fs *fs, const struct g4_inode_core *inode, const struct g4_dir_slot *slot,
			  const char *name, uint32_t bytes)
{
	const struct g4_lookup_name key = g4_lookup_key_of(fs, inode, slot->hash, name, bytes);

	g4_lookup_forget(&fs->lookup, &key);
}

G4_FN void g4_name_remember(struct g4_fs *fs, const struct g4_lookup_name *key, uint32_t index)
{
	struct g4_lookup_value value = {g4_icache_at(fs, index)->ino, index};

	g4_lookup_put(&fs->lookup, key, &value);
}

G4_FN bool g4_name_cached(struct g4_fs *fs, const struct g4_inode_core *dir, const char *name, uint64_t bytes,
			  struct g4_lookup_value *value, struct g4_lookup_seen *seen)
{
	if (bytes > G4_NAME_MAX)
		return false;
	struct g4_lookup_name key = g4_lookup_key(fs, dir, name, (uint32_t)bytes);
	return g4_lookup_look(&fs->lookup, &key, value, seen);
}
