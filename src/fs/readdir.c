/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing a directory. A cookie is the position after an entry in the order of (hash, collision): it stays right
 * whatever is made or removed meanwhile, and an entry that exists all the time is listed exactly once. Each leaf is as it was at one
 * moment; names of it that go before their attributes are looked at are left out.
 */
#include "fs/commands.h"
#include "fs/listed.h"
#include "fs/names.h"
#include "fs/node.h"
#include "inode/icache.h"
#include "inode/times.h"
#include "inode/txn.h"

/* cookies: 0 start, 1 after ".", 2 after "..", else position of the entry just given + G4_COOKIE_FIRST */
#define COOKIE_DOT 1u
#define COOKIE_DOTDOT G4_COOKIE_NAMES

/* Appends the record of a name that no leaf has; false when it does not fit. */
G4_FN static bool give_dot(struct g4_cmd *cmd, uint64_t ino, uint64_t cookie, const char *name, uint32_t name_bytes)
{
	uint64_t bytes = g4_align_up(sizeof(struct g4_dirent) + name_bytes, 8);
	struct g4_dirent head;
	uint8_t *to = (uint8_t *)cmd->data + cmd->value;

	if (cmd->value + bytes > cmd->length)
		return false;
	memset(&head, 0, sizeof(head));
	head.ino = ino;
	head.cookie = cookie;
	head.record_bytes = (uint32_t)bytes;
	head.name_bytes = (uint16_t)name_bytes;
	head.file_type = 4; /* DT_DIR */
	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), name, name_bytes);
	cmd->value += bytes;
	return true;
}

G4_FN static bool give_dots(struct g4_cmd *cmd, const struct g4_inode_core *inode, uint64_t *cookie)
{
	if (*cookie < COOKIE_DOT) {
		if (!give_dot(cmd, inode->ino, COOKIE_DOT, ".", 1))
			return false;
		*cookie = COOKIE_DOT;
	}
	if (*cookie < COOKIE_DOTDOT) {
		if (!give_dot(cmd, inode->disk.parent, COOKIE_DOTDOT, "..", 2))
			return false;
		*cookie = COOKIE_DOTDOT;
	}
	return true;
}

/* Names of a leaf from the first on, as many as have room; all: that are all of them. */
G4_FN static int give_leaf(struct g4_wg *wg, struct g4_inode_core *inode, struct g4_cmd *cmd, struct g4_listed_job *job,
			   bool *all)
{
	const uint32_t end = job->listed->count;

	g4_zero16(job->rows, sizeof(job->rows));
	for (job->first = 0; job->first < end;
	     job->first += job->count) { /* again where some were gone: others have room */
		job->to = (uint8_t *)cmd->data + cmd->value;
		job->room = cmd->length - cmd->value;
		job->count = end - job->first;
		if (job->plus) {
			g4_listed_look(wg, job);
			for (uint32_t k = job->first; k < job->first + job->count; k++) {
				const int rc = g4_listed_attr(wg, job, inode, k);
				if (rc < 0 && rc != -G4_E_NOENT)
					return rc;
			}
		}
		cmd->value += g4_listed_give(wg, job);
		if (job->count == 0)
			break;
	}
	*all = job->first == end;
	return 0;
}

G4_FN static int list(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_cmd *cmd,
		      struct g4_dir_listed *listed, struct g4_listed_job *job)
{
	const struct g4_dir dir = g4_dir_shared(fs, inode);
	uint64_t cookie = cmd->cookie, from;
	bool all = true;

	if (!give_dots(cmd, inode, &cookie))
		return cmd->value ? 0 : -G4_E_RANGE;
	from = cookie < G4_COOKIE_FIRST ? 0 : cookie - G4_COOKIE_FIRST + 1;
	while (all && from != UINT64_MAX) {
		int rc = g4_dir_read_leaf(wg, &dir, from, listed);
		if (rc == 0)
			rc = give_leaf(wg, inode, cmd, job, &all);
		if (rc < 0)
			return rc;
		from = listed->next;
	}
	return !all && cmd->value == 0 ? -G4_E_RANGE : 0;
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
	struct g4_listed_job *job = (struct g4_listed_job *)g4_scratch_take(wg, sizeof(*job));
	job->fs = fs;
	job->listed = listed;
	job->dir = inode->ino;
	job->plus = (cmd->flags & G4_READDIR_PLUS) != 0;
	g4_read_lock(&inode->lock);
	if (!g4_is_dir(inode->disk.mode))
		rc = -G4_E_NOTDIR;
	else if (!inode->dead && g4_load32_rlx(&inode->disk.nlink) > 0) /* a removed directory lists nothing */
		rc = list(wg, fs, inode, cmd, listed, job);
	if (rc == 0)
		g4_touch_read(fs, index);
	g4_read_unlock(&inode->lock);
	g4_scratch_release(wg, mark);
	g4_icache_put(fs, index);
	return g4_check(fs, rc);
}
