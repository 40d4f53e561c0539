/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BATCH: operations on many paths in one command. Each entry is walked and done as a command of its own would be: with its locks,
 * permissions and transaction, and with a result. So a batch holds nothing from one entry to the next, a crash in its middle
 * leaves some of its entries done and the others not, and a bad one is nobody else's business.
 *
 * What an entry saves is the way of a command, and the walk: entries whose paths have the directory in common with the one
 * before take the inode that its walk came to. That is as if all walks had been made first. A directory that is gone is walked to again.
 *
 * Where workgroups have nothing else to do they share the entries, a few at a time. An entry is an operation, so whoever does it holds
 * nothing before, and the one that has the command holds nothing while it waits for them.
 *
 * MKDIR_ALL makes what a path lacks from the top down, a directory a transaction (docs/design/directories.md argues why).
 * Crash at any line: what is there is the path's beginning, valid and reachable.
 *
 * The data is hostile: its entries may say anything. Paths lie behind all results, so that no result changes a path that was checked.
 */
#include "fs/batch.h"
#include "data/split.h"
#include "fs/commands.h"
#include "fs/cred.h"
#include "fs/nested.h"
#include "fs/path.h"
#include "fs/room.h"
#include "fs/walk.h"

#define MAKE_TRIES 64u /* of MKDIR_ALL, for one directory that others make and remove meanwhile */

struct batch {
	struct g4_cmd *cmd;
	const char *paths;	      /* the data, as text */
	struct g4_batch_entry *entry; /* of the entry at hand */
	struct g4_attr *attr;	      /* where its attributes go, or to nobody */
	struct g4_place start;
	/* the directory that was walked to last, and the text that led there; NULL: none */
	const char *near;
	uint32_t near_bytes;
	struct g4_place here;
	uint64_t text; /* bytes of paths so far */
};

/* ------------------------------------------------------------------ walking */

/* An error of a walk of a path: which component it is about. */
G4_FN static int fail_at(struct batch *b, const char *path, const struct g4_walked *walked, int rc)
{
	b->entry->component = g4_path_components(path, walked->at);
	return rc;
}

G4_FN static struct g4_place start_of(const struct batch *b, const char *path)
{
	const struct g4_place root = {G4_NODE_ROOT, 0};

	return path[0] == '/' ? root : b->start;
}

/* Walks to a directory. */
G4_FN static int walk_to(struct g4_wg *wg, struct g4_fs *fs, struct batch *b, const char *path, uint32_t bytes,
			 struct g4_place *place)
{
	const struct g4_place start = start_of(b, path);
	struct g4_walked walked;
	struct g4_attr attr;

	*place = start;
	if (bytes == 0)
		return 0;
	int rc = g4_walk(wg, fs, &start, path, bytes, 0, b->cmd->cred, &attr, &walked);
	if (rc < 0)
		return fail_at(b, path, &walked, rc);
	place->ino = walked.ino;
	place->generation = walked.generation;
	return 0;
}

/* The directory of an entry's path; *known: not walked to this time. */
G4_FN static int find_directory(struct g4_wg *wg, struct g4_fs *fs, struct batch *b, const struct g4_path_split *split,
				bool *known)
{
	const bool empty = split->last == G4_LAST_ROOT; /* no text leads there, as none leads to where others start */

	*known = !empty && b->near != NULL && g4_path_is_in(split, b->near, b->near_bytes);
	if (*known)
		return 0;
	b->near = NULL;
	int rc = walk_to(wg, fs, b, split->directory, split->directory_bytes, &b->here);
	if (rc == 0 && !empty) {
		b->near = split->directory;
		b->near_bytes = split->directory_bytes;
	}
	return rc;
}

/* ------------------------------------------------------------------ one name */

G4_FN static void name_in(struct g4_cmd *one, const struct batch *b, uint32_t op, const struct g4_path_split *split)
{
	memset(one, 0, sizeof(*one));
	one->op = op;
	one->node = b->here.ino;
	one->generation = b->here.generation;
	one->name = split->name;
	one->name_bytes = (uint16_t)split->name_bytes;
	one->cred = b->cmd->cred;
	one->attr = b->attr;
}

/* What a path with a slash at its end names, to which a name has led. */
G4_FN static int look(struct g4_wg *wg, struct g4_fs *fs, const struct batch *b, const struct g4_path_split *split,
		      struct g4_attr *attr)
{
	struct g4_cmd one;

	name_in(&one, b, G4_CMD_LOOKUP, split);
	one.attr = attr;
	return g4_do_lookup(wg, fs, &one);
}

/* Attributes: the last component, with what is behind it, is a path of its own. */
G4_FN static int look_up(struct g4_wg *wg, struct g4_fs *fs, struct batch *b, const struct g4_path_split *split)
{
	const struct g4_batch_entry *entry = b->entry;
	const char *rest = split->name_bytes ? split->name : ".";
	const uint32_t bytes = split->name_bytes ? entry->path_bytes - split->directory_bytes : 1;
	struct g4_walked walked;
	struct g4_attr attr;

	if (entry->mode & ~G4_RESOLVE_NOFOLLOW)
		return -G4_E_INVAL;
	int rc = g4_walk(wg, fs, &b->here, rest, bytes, split->slash ? 0 : entry->mode, b->cmd->cred, &attr, &walked);
	if (rc == 0 && split->slash && !g4_is_dir(attr.mode))
		rc = -G4_E_NOTDIR;
	if (rc == 0 && b->attr)
		*b->attr = attr;
	return rc;
}

G4_FN static int make_name(struct g4_wg *wg, struct g4_fs *fs, struct batch *b, const struct g4_path_split *split)
{
	const uint32_t type = b->entry->mode & G4_S_IFMT;
	struct g4_attr attr;
	struct g4_cmd one;

	if (b->entry->op == G4_CMD_MKNOD) {
		if (type == G4_S_IFCHR || type == G4_S_IFBLK) /* the permission to make these is not asked for here */
			return -G4_E_PERM;
		if (split->slash) {
			const int rc = look(wg, fs, b, split, &attr);
			return rc == 0 ? -G4_E_EXIST : rc;
		}
	}
	name_in(&one, b, b->entry->op, split);
	one.mode = b->entry->mode;
	return g4_do_make(wg, fs, &one);
}

G4_FN static int remove_name(struct g4_wg *wg, struct g4_fs *fs, struct batch *b, const struct g4_path_split *split)
{
	struct g4_attr attr;
	struct g4_cmd one;

	if (b->entry->op == G4_CMD_UNLINK && split->slash) {
		const int rc = look(wg, fs, b, split, &attr);
		return rc < 0 ? rc : g4_is_dir(attr.mode) ? -G4_E_ISDIR : -G4_E_NOTDIR;
	}
	name_in(&one, b, b->entry->op, split);
	return g4_do_remove(wg, fs, &one);
}

/* A slash at the end of either path demands a directory at the source, and for EXCHANGE at the target too. */
G4_FN static int check_slashes(struct g4_wg *wg, struct g4_fs *fs, const struct batch *b,
			       const struct g4_path_split *from, const struct g4_path_split *to, struct g4_place there)
{
	const bool exchange = (b->entry->mode & G4_RENAME_EXCHANGE) != 0;
	struct batch other = *b;
	struct g4_attr attr;
	int rc = 0;

	if (from->slash || (to->slash && !exchange)) {
		rc = look(wg, fs, b, from, &attr);
		if (rc == 0 && !g4_is_dir(attr.mode))
			rc = -G4_E_NOTDIR;
	}
	if (rc == 0 && to->slash && exchange) {
		other.here = there;
		rc = look(wg, fs, &other, to, &attr);
		if (rc == 0 && !g4_is_dir(attr.mode))
			rc = -G4_E_NOTDIR;
	}
	return rc;
}

G4_FN static int move_name(struct g4_wg *wg, struct g4_fs *fs, struct batch *b, const struct g4_path_split *from)
{
	const struct g4_batch_entry *entry = b->entry;
	const char *path2 = b->paths + entry->path_at + entry->path_bytes;
	struct g4_path_split to;
	struct g4_place there = {0, 0};
	struct g4_cmd one;

	b->entry->made = 1; /* an error from here on, until the two are there, is the new path's */
	int rc = g4_path_cut_long(path2, entry->path2_bytes, &to);
	if (rc == 0)
		rc = walk_to(wg, fs, b, path2, to.directory_bytes, &there);
	if (rc == 0)
		rc = g4_path_check_last(to.last, entry->mode & G4_RENAME_NOREPLACE ? G4_CMD_LINK : G4_CMD_RENAME);
	if (rc < 0)
		return rc;
	b->entry->made = 0;
	rc = check_slashes(wg, fs, b, from, &to, there);
	if (rc < 0)
		return rc;
	name_in(&one, b, G4_CMD_RENAME, from);
	one.attr = NULL;
	one.node2 = there.ino;
	one.generation2 = there.generation;
	one.name2 = to.name;
	one.name2_bytes = (uint16_t)to.name_bytes;
	one.flags = entry->mode;
	rc = g4_do_rename(wg, fs, &one);
	/* elsewhere it may take the place of a link that the walk went through */
	if (!g4_path_is_in(&to, from->directory, from->directory_bytes))
		b->near = NULL;
	return rc;
}

/* An operation on a name in a directory. */
G4_FN static int on_name(struct g4_wg *wg, struct g4_fs *fs, struct batch *b, bool *known)
{
	const struct g4_batch_entry *entry = b->entry;
	struct g4_path_split split;
	int rc = g4_path_cut_long(b->paths + entry->path_at, entry->path_bytes, &split);

	*known = false;
	if (rc == 0)
		rc = find_directory(wg, fs, b, &split, known);
	if (rc == 0 && entry->op != G4_CMD_LOOKUP)
		rc = g4_path_check_last(split.last, entry->op);
	if (rc < 0)
		return rc;
	switch (entry->op) {
	case G4_CMD_LOOKUP:
		return look_up(wg, fs, b, &split);
	case G4_CMD_MKNOD:
	case G4_CMD_MKDIR:
		return make_name(wg, fs, b, &split);
	case G4_CMD_RENAME:
		return move_name(wg, fs, b, &split);
	default:
		return remove_name(wg, fs, b, &split);
	}
}

/* ------------------------------------------------------------------ MKDIR_ALL */

struct chain { /* what is left of the path */
	const char *path;
	uint32_t bytes, at;
	struct g4_place here; /* where it begins */
};

/* The next component: its length, 0 at the end. */
G4_FN static uint32_t next_component(struct chain *chain)
{
	uint32_t n = 0;

	while (chain->at < chain->bytes && chain->path[chain->at] == '/')
		chain->at++;
	while (chain->at + n < chain->bytes && chain->path[chain->at + n] != '/')
		n++;
	return n;
}

/* Many below the one that was just made, as far as that goes; whether any. */
G4_FN static int make_many(struct g4_wg *wg, struct g4_fs *fs, struct batch *b, struct chain *chain, uint32_t mode)
{
	int rc = g4_make_nested(wg, fs, b->cmd->cred, mode, &chain->here, chain->path, chain->bytes, &chain->at);

	if (rc > 0)
		b->entry->made += (uint32_t)rc;
	return rc;
}

/* Makes directories, each in the one before. -G4_E_EXIST: there is one already: the chain is at it. */
G4_FN static int make_chain(struct g4_wg *wg, struct g4_fs *fs, struct batch *b, struct chain *chain,
			    struct g4_attr *attr)
{
	const uint32_t above = b->entry->mode | 0300u; /* as mkdir -p has it */
	struct g4_cmd one;
	bool rest_is_long = true; /* or may be */
	uint32_t n;

	while ((n = next_component(chain)) > 0) {
		struct chain rest = *chain;
		rest.at += n;
		const bool last = next_component(&rest) == 0;
		memset(&one, 0, sizeof(one));
		one.op = G4_CMD_MKDIR;
		one.node = chain->here.ino;
		one.generation = chain->here.generation;
		one.name = chain->path + chain->at;
		one.name_bytes = (uint16_t)g4_min64(n, G4_NAME_MAX + 1);
		one.mode = last ? b->entry->mode : above;
		one.cred = b->cmd->cred;
		one.attr = attr;
		int rc = g4_do_make(wg, fs, &one);
		if (rc < 0)
			return rc;
		b->entry->made++;
		chain->here.ino = attr->ino;
		chain->here.generation = (uint32_t)attr->generation;
		chain->at += n;
		while (rest_is_long && (rc = make_many(wg, fs, b, chain, above)) > 0)
			;
		if (rc < 0)
			return rc;
		rest_is_long = false;
	}
	return 0;
}

/* The walk has led to something, at the path's end. */
G4_FN static int arrive(struct batch *b, const struct g4_attr *attr)
{
	if (!g4_is_dir(attr->mode))
		return -G4_E_EXIST;
	if (b->attr)
		*b->attr = *attr;
	return 0;
}

G4_FN static int make_all(struct g4_wg *wg, struct g4_fs *fs, struct batch *b)
{
	struct chain chain = {b->paths + b->entry->path_at, b->entry->path_bytes, 0, {0, 0}};
	uint32_t before = 0;
	int rc = chain.bytes == 0 ? -G4_E_NOENT : -G4_E_EXIST;

	if (chain.bytes > 0)
		chain.here = start_of(b, chain.path);
	for (uint32_t tries = 0; rc == -G4_E_EXIST && tries < MAKE_TRIES; tries++) {
		struct g4_walked walked;
		struct g4_attr attr;
		while (chain.at > 0 && chain.at < chain.bytes && chain.path[chain.at] == '/')
			chain.at++;
		if (chain.at > before)
			tries = 0; /* others make the same path: each that is there is a step */
		before = chain.at;
		rc = g4_walk(wg, fs, &chain.here, chain.path + chain.at, chain.bytes - chain.at, 0, b->cmd->cred, &attr,
			     &walked);
		if (rc == 0)
			return arrive(b, &attr);
		chain.at += (uint32_t)walked.at;
		if (rc != -G4_E_NOENT || !walked.own)
			break;
		chain.here.ino = walked.ino;
		chain.here.generation = walked.generation;
		rc = make_chain(wg, fs, b, &chain, &attr);
		if (rc == 0)
			return arrive(b, &attr);
	}
	struct chain rest = chain;
	rest.at += next_component(&rest);
	if (next_component(&rest) > 0) /* or else it is about the last one */
		b->entry->component = g4_path_components(chain.path, chain.at);
	return rc == -G4_E_EXIST ? -G4_E_AGAIN : rc == -G4_E_STALE ? -G4_E_NOENT : rc;
}

/* ------------------------------------------------------------------ entries */

/* Whether the engine may read what the entry says, and knows what that is. */
G4_FN static int check_entry(const struct g4_fs *fs, struct batch *b, uint32_t op)
{
	const struct g4_batch_entry *entry = b->entry;
	const uint64_t head = g4_batch_head_bytes(b->cmd->mask, b->cmd->flags);
	const uint64_t end = (uint64_t)entry->path_at + entry->path_bytes + entry->path2_bytes;

	switch (entry->op) {
	case G4_CMD_LOOKUP:
	case G4_CMD_MKNOD:
	case G4_CMD_MKDIR:
	case G4_CMD_UNLINK:
	case G4_CMD_RMDIR:
	case G4_CMD_RENAME:
	case G4_BATCH_MKDIR_ALL:
		break;
	default:
		return -G4_E_NOSYS;
	}
	if (entry->path_at < head || end > b->cmd->length || (op != G4_CMD_RENAME && entry->path2_bytes > 0))
		return -G4_E_INVAL;
	/* entries have text of their own, so that there is an end to what one command walks */
	b->text += (uint64_t)entry->path_bytes + entry->path2_bytes;
	if (head + b->text > b->cmd->length)
		return -G4_E_INVAL;
	/* the host would have to hear of each inode that loses its last name; from a batch it does not */
	if ((fs->flags & G4_FS_HOLD_UNLINKED) && (op == G4_CMD_UNLINK || op == G4_CMD_RMDIR || op == G4_CMD_RENAME))
		return -G4_E_NOTSUP;
	if (g4_command_is(op, G4_CHANGES) && ((fs->flags & G4_FS_READ_ONLY) || g4_load32_acq(&fs->journal.aborted)))
		return -G4_E_ROFS;
	return 0;
}

G4_FN static int run_once(struct g4_wg *wg, struct g4_fs *fs, struct batch *b)
{
	bool known;

	b->entry->component = G4_BATCH_AT_NAME;
	if (b->entry->op == G4_BATCH_MKDIR_ALL)
		return make_all(wg, fs, b);
	int rc = on_name(wg, fs, b, &known);
	if (known && (rc == -G4_E_NOENT || rc == -G4_E_STALE)) { /* is it the name, or the directory? */
		b->near = NULL;
		b->entry->component = G4_BATCH_AT_NAME;
		rc = on_name(wg, fs, b, &known);
	}
	return rc == -G4_E_STALE ? -G4_E_NOENT : rc; /* gone after the walk */
}

G4_FN static int run_entry(struct g4_wg *wg, struct g4_fs *fs, struct batch *b)
{
	const uint32_t op = b->entry->op == G4_BATCH_MKDIR_ALL ? G4_CMD_MKDIR : b->entry->op;
	uint32_t tries = 0;
	int rc = check_entry(fs, b, op);

	b->entry->made = 0;
	b->entry->component = G4_BATCH_AT_NAME;
	if (rc < 0)
		return rc;
	do
		rc = run_once(wg, fs, b);
	while (rc < 0 && tries++ == 0 && g4_fs_make_room(wg, fs, op, rc));
	if (rc < 0 && b->attr)
		memset(b->attr, 0, sizeof(*b->attr));
	return rc;
}

/* Entries of a batch, one after the other. */
G4_FN static void run_entries(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, uint32_t first, uint32_t count)
{
	struct g4_batch_entry *entries = (struct g4_batch_entry *)cmd->data;
	struct g4_attr *attrs = (struct g4_attr *)(void *)(entries + cmd->mask);
	struct batch b = {0};
	int failed = 0;

	b.cmd = cmd;
	b.paths = (const char *)cmd->data;
	b.start.ino = cmd->node;
	b.start.generation = cmd->generation;
	for (uint32_t k = first; k < first + count; k++) {
		b.entry = &entries[k];
		b.attr = cmd->flags & G4_BATCH_ATTR ? &attrs[k] : NULL;
		if (failed < 0 && (cmd->flags & G4_BATCH_STOP)) {
			b.entry->component = G4_BATCH_AT_NAME;
			b.entry->made = 0;
			b.entry->status = -G4_E_CANCELED;
			continue;
		}
		b.entry->status = run_entry(wg, fs, &b);
		failed = failed < 0 ? failed : b.entry->status;
	}
}

/* ------------------------------------------------------------------ shared by workgroups */

G4_FN void g4_batch_piece(struct g4_wg *wg, struct g4_fs *fs, const struct g4_names *names, uint32_t first,
			  uint32_t count)
{
	struct g4_cmd cmd = names->cmd;

	run_entries(wg, fs, &cmd, first, count);
}

/*
 * Whether the entries have text of their own, all of them together. Where they do, no part of them is refused for it, so that it does
 * not matter who does which.
 */
G4_FN static bool have_own_text(const struct g4_cmd *cmd)
{
	const struct g4_batch_entry *entries = (const struct g4_batch_entry *)cmd->data;
	uint64_t text = g4_batch_head_bytes(cmd->mask, cmd->flags);

	for (uint32_t k = 0; k < cmd->mask; k++)
		text += (uint64_t)entries[k].path_bytes + entries[k].path2_bytes;
	return text <= cmd->length;
}

/* Lets others do pieces of a batch. False: nobody would. */
G4_FN static bool run_shared(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_split_work work = {.kind = G4_SPLIT_NAMES, .bytes = cmd->mask};
	struct g4_split_piece piece;
	uint64_t done;

	if (g4_load32_rlx(&fs->split.helpers) == 0 || (cmd->flags & G4_BATCH_STOP) || !have_own_text(cmd))
		return false;
	struct g4_names *names = (struct g4_names *)g4_scratch_take(wg, sizeof(*names));
	names->cmd = *cmd;
	if (cmd->cred) {
		names->cred = *cmd->cred;
		names->cmd.cred = &names->cred;
	}
	work.names = names;
	struct g4_split_job *job = g4_split_open(wg, fs, &work);
	if (job) {
		while (g4_split_take(job, &piece)) {
			g4_batch_piece(wg, fs, names, (uint32_t)piece.offset, (uint32_t)piece.bytes);
			g4_split_done(job, &piece, 0, 0);
		}
		(void)g4_split_close(fs, job, &done); /* entries have results of their own: no piece fails */
	}
	g4_scratch_release(wg, mark);
	return job != NULL;
}

G4_FN int g4_do_batch(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	const uint64_t head = g4_batch_head_bytes(cmd->mask, cmd->flags);
	struct g4_batch_entry *entries = (struct g4_batch_entry *)cmd->data;

	cmd->value = 0;
	if (cmd->node == 0 || cmd->mask == 0 || (cmd->flags & ~G4_BATCH_FLAGS) || head > cmd->length ||
	    cmd->length > UINT32_MAX)
		return -G4_E_INVAL;
	/* what a ring seals here is what was led to, and nothing that its client wrote */
	memset(entries + cmd->mask, 0, (size_t)(head - cmd->mask * sizeof(*entries)));
	if (!run_shared(wg, fs, cmd))
		run_entries(wg, fs, cmd, 0, cmd->mask);
	cmd->value = head;
	return 0;
}
