/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing a directory. A cookie is the position after an entry in the order of (hash, collision): it stays right
 * whatever is made or removed meanwhile, and an entry that exists all the time is listed exactly once. Each leaf is as it was at one
 * moment; names of it that go before their attributes are looked at are left out.
 */
#include "fs/attr.h"
#include "fs/commands.h"
#include "fs/names.h"
#include "fs/node.h"
#include "inode/icache.h"
#include "inode/times.h"
#include "inode/txn.h"

/* cookies: 0 start, 1 after ".", 2 after "..", else position of the entry just given + 3 */
#define COOKIE_DOT 1u
#define COOKIE_DOTDOT G4_COOKIE_NAMES
#define COOKIE_FIRST 3u

/* Appends one record; false when it does not fit. */
G4_FN static bool give(struct g4_cmd *cmd, uint64_t ino, uint64_t cookie, const char *name, uint32_t name_bytes,
		       uint8_t file_type, const struct g4_attr *attr)
{
	uint64_t attr_bytes = attr ? sizeof(*attr) : 0;
	uint64_t bytes = g4_align_up(sizeof(struct g4_dirent) + attr_bytes + name_bytes, 8);
	struct g4_dirent head;
	uint8_t *to = (uint8_t *)cmd->data + cmd->value;

	if (cmd->value + bytes > cmd->length)
		return false;
	memset(&head, 0, sizeof(head));
	head.ino = ino;
	head.cookie = cookie;
	head.record_bytes = (uint32_t)bytes;
	head.name_bytes = (uint16_t)name_bytes;
	head.file_type = file_type;
	head.has_attr = attr != NULL;
	memcpy(to, &head, sizeof(head));
	if (attr)
		memcpy(to + sizeof(head), attr, sizeof(*attr));
	memcpy(to + sizeof(head) + attr_bytes, name, name_bytes);
	cmd->value += bytes;
	return true;
}

G4_FN static bool give_dots(struct g4_cmd *cmd, const struct g4_inode_core *inode, uint64_t *cookie)
{
	if (*cookie < COOKIE_DOT) {
		if (!give(cmd, inode->ino, COOKIE_DOT, ".", 1, 4, NULL))
			return false;
		*cookie = COOKIE_DOT;
	}
	if (*cookie < COOKIE_DOTDOT) {
		if (!give(cmd, inode->disk.parent, COOKIE_DOTDOT, "..", 2, 4, NULL))
			return false;
		*cookie = COOKIE_DOTDOT;
	}
	return true;
}

/* 1: given; 0: no room; negative: error. */
G4_FN static int give_entry(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_cmd *cmd,
			    const struct g4_dir_listed *listed, const struct g4_dir_item *item)
{
	const struct g4_dir_entry *entry = item->entry;
	const uint64_t cookie = item->position + COOKIE_FIRST;
	const char *name = (const char *)(entry + 1);
	struct g4_attr attr;

	if (!(cmd->flags & G4_READDIR_PLUS))
		return give(cmd, entry->inode, cookie, name, entry->name_bytes, entry->file_type, NULL);
	const int rc = g4_name_attr(wg, fs, inode, listed, entry, &attr);
	if (rc == -G4_E_NOENT) /* it is gone since */
		return 1;
	if (rc < 0)
		return rc;
	return give(cmd, attr.ino, cookie, name, entry->name_bytes, g4_dirent_type(attr.mode), &attr);
}

G4_FN static int list(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_cmd *cmd,
		      struct g4_dir_listed *listed)
{
	const struct g4_dir dir = g4_dir_shared(fs, inode);
	uint64_t cookie = cmd->cookie, from;
	int given = 1;

	if (!give_dots(cmd, inode, &cookie))
		return cmd->value ? 0 : -G4_E_RANGE;
	from = cookie < COOKIE_FIRST ? 0 : cookie - COOKIE_FIRST + 1;
	while (given == 1 && from != UINT64_MAX) {
		int rc = g4_dir_read_leaf(wg, &dir, from, listed);
		if (rc < 0)
			return rc;
		from = listed->next;
		for (uint32_t k = 0; k < listed->count && given == 1; k++)
			given = give_entry(wg, fs, inode, cmd, listed, &listed->items[k]);
	}
	if (given < 0)
		return given;
	return given == 0 && cmd->value == 0 ? -G4_E_RANGE : 0;
}

G4_FN int g4_do_readdir(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t index;
	int rc = g4_icache_get_node(wg, fs, cmd, &index);

	if (rc < 0)
		return g4_check(fs, rc);
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	cmd->value = 0;
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_dir_listed *listed = (struct g4_dir_listed *)g4_scratch_take(wg, sizeof(*listed));
	g4_read_lock(&inode->lock);
	if (!g4_is_dir(inode->disk.mode))
		rc = -G4_E_NOTDIR;
	else if (!inode->dead && g4_load32_rlx(&inode->disk.nlink) > 0) /* a removed directory lists nothing */
		rc = list(wg, fs, inode, cmd, listed);
	if (rc == 0)
		g4_touch_read(fs, index);
	g4_read_unlock(&inode->lock);
	g4_scratch_release(wg, mark);
	g4_icache_put(fs, index);
	return g4_check(fs, rc);
}
