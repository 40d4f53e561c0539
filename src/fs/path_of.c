/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path of an inode of which a directory is known that names it: by way of its parents, each of which is searched for the one below.
 * For messages; nothing else takes time that grows with the size of directories.
 */
#include "fs/commands.h"
#include "fs/names.h"
#include "inode/icache.h"

/* Puts "/" and the name in front of what is there. Read-locked. */
G4_FN static int put_name(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t ino,
			  uint8_t *path, uint64_t *at)
{
	const struct g4_dir dir = g4_dir_shared(fs, inode);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_dir_listed *listed = (struct g4_dir_listed *)g4_scratch_take(wg, sizeof(*listed));
	int rc = -G4_E_NOENT;

	for (uint64_t from = 0; rc == -G4_E_NOENT && from != UINT64_MAX; from = listed->next) {
		int got = g4_dir_read_leaf(wg, &dir, from, listed);
		if (got < 0)
			rc = got;
		for (uint32_t k = 0; k < listed->count && rc == -G4_E_NOENT; k++) {
			const struct g4_dir_entry *entry = listed->items[k].entry;
			if (entry->inode != ino)
				continue;
			rc = *at < entry->name_bytes + 1u ? -G4_E_NAMETOOLONG : 0;
			if (rc < 0)
				break;
			*at -= entry->name_bytes;
			memcpy(path + *at, entry + 1, entry->name_bytes);
			path[--*at] = '/';
		}
	}
	g4_scratch_release(wg, mark);
	return rc;
}

/* One step up: the name of `ino` in the directory, and the directory's parent; equal for the root. */
G4_FN static int step_up(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint64_t dir, uint8_t *path, uint64_t *at,
			 uint64_t *parent)
{
	uint32_t index;
	int rc = g4_icache_get(wg, fs, dir, &index);

	if (rc < 0)
		return rc;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_read_lock(&inode->lock);
	if (inode->dead || !g4_is_dir(inode->disk.mode))
		rc = -G4_E_NOENT;
	else
		rc = put_name(wg, fs, inode, ino, path, at);
	*parent = inode->disk.parent;
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, index);
	return rc;
}

G4_FN int g4_do_path(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint8_t *path = (uint8_t *)cmd->data;
	const uint64_t root = g4_icache_at(fs, fs->root_index)->ino;
	uint64_t at = cmd->length, ino = cmd->node, dir = cmd->node2;
	int rc = cmd->length > 0 && g4_ino_plausible(ino, &fs->meta.layout) ? 0 : -G4_E_INVAL;

	if (rc == 0 && ino == root)
		path[--at] = '/';
	for (uint32_t steps = 0; rc == 0 && ino != root; steps++) {
		uint64_t parent;
		if (steps == G4_PATH_MAX || !g4_ino_plausible(dir, &fs->meta.layout))
			return -G4_E_NOENT;
		rc = step_up(wg, fs, ino, dir, path, &at, &parent);
		ino = dir;
		dir = parent;
	}
	if (rc < 0)
		return rc;
	cmd->value = cmd->length - at;
	g4_bytes_move(path, path + at, cmd->value);
	return 0;
}
