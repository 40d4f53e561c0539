/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TALLY: what the names of a directory take, summed up, a bounded number of them a command; its caller walks the tree. Names that a
 * sum does not do for are told one by one: directories, into which the caller goes, and files with several names, which it
 * counts once. So `du` is a command a directory, which brings a few bytes, instead of a listing and a stat a name.
 *
 * A position in the order of hashes stays right whatever is made or removed meanwhile (readdir.c), so a name that is there all the
 * time is counted exactly once, and nothing is locked between two commands.
 */
#include "fs/tally.h"
#include "fs/commands.h"
#include "fs/listed.h"
#include "fs/names.h"
#include "fs/node.h"
#include "inode/icache.h"
#include "inode/txn.h"

struct summing {
	struct g4_tally *sum;
	struct g4_tally_item *items;
	uint64_t room; /* items */
};

/* False: there is no room to tell of it. */
G4_FN static bool add(struct summing *s, const struct g4_attr *attr)
{
	const bool directory = g4_is_dir(attr->mode), several = !directory && attr->nlink > 1;
	struct g4_tally *sum = s->sum;

	if (directory || several) {
		struct g4_tally_item *item = &s->items[sum->items];
		if (sum->items == s->room)
			return false;
		item->ino = attr->ino;
		item->generation = attr->generation;
		item->token = 0;
		item->size = several && !g4_is_reg(attr->mode) && !g4_is_link(attr->mode) ? 0 : attr->size;
		item->blocks_512 = attr->blocks_512;
		item->mode = attr->mode;
		item->reserved = 0;
		sum->items++;
	}
	sum->names++;
	if (several)
		return true;
	sum->directories += directory;
	sum->files += g4_is_reg(attr->mode);
	sum->links += g4_is_link(attr->mode);
	if (!directory)
		sum->bytes += g4_is_reg(attr->mode) || g4_is_link(attr->mode) ? attr->size : 0;
	sum->blocks_512 += attr->blocks_512;
	return true;
}

/* The directory is read-locked. */
G4_FN static int sum_up(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t from,
			struct summing *s)
{
	const struct g4_dir dir = g4_dir_shared(fs, inode);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_dir_listed *listed = (struct g4_dir_listed *)g4_scratch_take(wg, sizeof(*listed));
	struct g4_listed_job *job = (struct g4_listed_job *)g4_scratch_take(wg, sizeof(*job));
	int rc = 0;
	bool full = false;

	job->fs = fs;
	job->listed = listed;
	job->dir = inode->ino;
	job->to = NULL;
	while (rc == 0 && !full && from != UINT64_MAX) {
		rc = g4_dir_read_leaf(wg, &dir, from, listed);
		if (rc < 0)
			break;
		from = listed->next;
		job->first = 0;
		job->count = listed->count;
		g4_listed_look(wg, job);
		for (uint32_t k = 0; k < listed->count && rc == 0 && !full; k++) {
			full = s->sum->names == G4_TALLY_MOST;
			rc = full ? 0 : g4_listed_attr(wg, job, inode, k);
			const bool gone = rc == -G4_E_NOENT; /* since it was listed */
			rc = gone ? 0 : rc;
			full = full || (rc == 0 && !gone && !add(s, &job->attrs[k]));
			if (full)
				from = listed->items[k].position;
		}
	}
	s->sum->cookie = from;
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN int g4_do_tally(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_tally *sum = (struct g4_tally *)cmd->data;
	struct summing s;
	uint32_t index;

	cmd->value = 0;
	if (cmd->length < sizeof(*sum) + sizeof(struct g4_tally_item))
		return -G4_E_INVAL;
	int rc = g4_icache_get_node(wg, fs, cmd, &index);
	if (rc < 0)
		return g4_check(fs, rc);
	memset(sum, 0, sizeof(*sum));
	s.sum = sum;
	s.items = (struct g4_tally_item *)(void *)(sum + 1);
	s.room = (cmd->length - sizeof(*sum)) / sizeof(*s.items);
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_read_lock(&inode->lock);
	rc = g4_check_dir(wg, fs, inode, cmd->cred, G4_ACCESS_READ | G4_ACCESS_EXEC);
	if (rc == 0)
		rc = sum_up(wg, fs, inode, cmd->cookie, &s);
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, index);
	if (rc == 0)
		cmd->value = sizeof(*sum) + sum->items * sizeof(*s.items);
	return g4_check(fs, rc);
}
