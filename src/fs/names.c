/* SPDX-License-Identifier: Apache-2.0 */
/* Names in directories: checking, finding and remembering them. */
#include "fs/names.h"

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

G4_FN int g4_name_find(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const char *name,
		       uint32_t bytes, struct g4_dir_slot *slot)
{
	struct g4_dir dir = g4_dir_of(fs, inode);

	if (g4_is_dot(name, bytes) || g4_is_dotdot(name, bytes)) {
		slot->inode = g4_is_dot(name, bytes) ? inode->ino : inode->disk.parent;
		slot->file_type = 4; /* DT_DIR */
		slot->room = 0;
		return 0;
	}
	const bool small = inode->disk.pages == 1;
	const uint32_t near = small ? g4_load32_rlx(&inode->leaf) - 1 : G4_NO_LINE;
	slot->line = near;
	int rc = g4_dir_lookup(wg, &dir, name, bytes, slot);
	if (small && slot->line != near)
		g4_store32_rlx(&inode->leaf, slot->line + 1);
	return rc;
}

G4_FN int g4_check_child(struct g4_fs *fs, const struct g4_inode_core *parent, uint32_t index)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);

	if (!g4_is_dir(g4_inode_core_type(inode)))
		return 0;
	const bool fits = inode != parent && g4_is_child(G4_S_IFDIR, g4_load64_acq(&inode->disk.parent), parent->ino);
	return fits ? 0 : -G4_E_CORRUPT_DIR;
}

G4_FN struct g4_lookup_name g4_lookup_key(const struct g4_fs *fs, const struct g4_inode_core *dir, const char *name,
					  uint32_t bytes)
{
	struct g4_lookup_name key = {dir->data_key, g4_dir_hash(fs->hash_key, name, bytes), name, bytes};
	return key;
}

G4_FN void g4_name_forget(struct g4_fs *fs, const struct g4_inode_core *inode, const struct g4_dir_slot *slot,
			  const char *name, uint32_t bytes)
{
	const struct g4_lookup_name key = {inode->data_key, slot->hash, name, bytes};

	g4_lookup_forget(&fs->lookup, &key);
}

G4_FN void g4_name_remember(struct g4_fs *fs, const struct g4_lookup_name *key, uint32_t index)
{
	struct g4_lookup_value value = {g4_icache_at(fs, index)->ino, index};

	g4_lookup_put(&fs->lookup, key, &value);
}

G4_FN bool g4_name_cached(struct g4_fs *fs, const struct g4_inode_core *dir, const char *name, uint64_t bytes,
			  struct g4_lookup_value *value)
{
	if (bytes > G4_LOOKUP_NAME_BYTES)
		return false;
	struct g4_lookup_name key = g4_lookup_key(fs, dir, name, (uint32_t)bytes);
	return g4_lookup_find(&fs->lookup, &key, value);
}
