/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: operations on many names, as few commands of the engine (BATCH, fs/command.h) as they fit into. A command has at most as
 * many bytes as a ring lets one have.
 *
 * At a mount's socket the engine leaves removals and renames in a batch to us, for the mount's kernel has to hear of each inode that goes
 * (fuse/share.c). They are commands of their own then, with the results that the engine would have given: the directory is a LOOKUP's, by
 * a batch of one, which says which component is missing; entries whose directory is written as the one before share that walk.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <sys/stat.h>

#include "client/batch_form.h"
#include "client/client.h"
#include "fs/walk.h"
#include "ring/ring.h"

#define BATCH_BYTES G4_SESSION_STAGE_BYTES

struct batch {
	struct g4c_batch form;
	gpu4fs *fs;
	struct g4c_node start;
	bool singly; /* the engine has left a removal to us */
	/* the directory that was walked to last for such entries, and the text that led there; NULL: none */
	const char *near;
	uint32_t near_bytes;
	struct g4c_node here;
};

/* ------------------------------------------------------------------ a batch of one */

/*
 * Runs one entry with attributes, whose path lies behind the head in `data` already. 0: the entry has results, in the data; or a negative
 * errno.
 */
static int run_one(gpu4fs *fs, uint8_t *data, struct g4c_node start, uint32_t op, uint32_t mode, uint32_t bytes)
{
	const uint64_t head = g4_batch_head_bytes(1, G4_BATCH_ATTR);
	struct g4_cmd cmd = {.op = G4_CMD_BATCH, .mask = 1, .flags = G4_BATCH_ATTR, .cred = &fs->cred};

	*(struct g4_batch_entry *)(void *)data =
		(struct g4_batch_entry){.op = op, .mode = mode, .path_at = (uint32_t)head, .path_bytes = bytes};
	g4c_set_node(&cmd, start);
	cmd.data = data;
	cmd.length = head + bytes;
	return g4c_run(fs->mount->engine, &cmd);
}

static const struct g4_batch_entry *entry_of_one(const uint8_t *data)
{
	return (const struct g4_batch_entry *)(const void *)data;
}

static const struct g4_attr *attr_of_one(const uint8_t *data)
{
	return (const struct g4_attr *)(const void *)(entry_of_one(data) + 1);
}

/* ------------------------------------------------------------------ removals and renames singly */

static bool may_be_left_to_us(uint32_t op)
{
	return op == GPU4FS_BATCH_UNLINK || op == GPU4FS_BATCH_RMDIR || op == GPU4FS_BATCH_RENAME;
}

/* The directory that a path's last component is in. *component: what an error is about. */
static int walk_to(struct batch *batch, const struct g4_path_split *split, struct g4c_node *node, uint32_t *component)
{
	const uint64_t head = g4_batch_head_bytes(1, G4_BATCH_ATTR);

	*node = split->absolute ? (struct g4c_node){.ino = G4_NODE_ROOT} : batch->start;
	if (split->directory_bytes == 0)
		return 0;
	if (head + split->directory_bytes > batch->form.room)
		return -ENAMETOOLONG;
	memcpy(batch->form.data + head, split->directory, split->directory_bytes);
	const int rc = run_one(batch->fs, batch->form.data, *node, G4_CMD_LOOKUP, 0, split->directory_bytes);
	if (rc < 0)
		return rc;
	const struct g4_batch_entry *found = entry_of_one(batch->form.data);
	if (found->status < 0) {
		*component = found->component == G4_BATCH_AT_NAME ?
				     g4_path_components(split->directory, split->directory_bytes) - 1 :
				     found->component;
		return -g4_errno(found->status);
	}
	*node = g4c_node_of(attr_of_one(batch->form.data));
	return 0;
}

/* The same, unless it is the one that was walked to last; *known: it is. */
static int find_directory(struct batch *batch, const struct g4_path_split *split, uint32_t *component, bool *known)
{
	*known = batch->near && g4_path_is_in(split, batch->near, batch->near_bytes);
	if (*known)
		return 0;
	batch->near = NULL;
	const int rc = walk_to(batch, split, &batch->here, component);
	if (rc == 0) {
		batch->near = split->directory;
		batch->near_bytes = split->directory_bytes;
	}
	return rc;
}

/* A command about a name in a directory. */
static int run_on(const struct batch *batch, struct g4_cmd *cmd, struct g4c_node directory,
		  const struct g4_path_split *split)
{
	g4c_set_node(cmd, directory);
	cmd->name = split->name;
	cmd->name_bytes = (uint16_t)split->name_bytes;
	cmd->cred = &batch->fs->cred;
	return g4c_run(batch->fs->mount->engine, cmd);
}

static int demand_directory(const struct batch *batch, struct g4c_node directory, const struct g4_path_split *split)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_LOOKUP, .attr = &attr};
	const int rc = run_on(batch, &cmd, directory, split);

	return rc < 0 ? rc : S_ISDIR(attr.mode) ? 0 : -ENOTDIR;
}

static int remove_name(struct batch *batch, uint32_t op, const struct g4_path_split *split)
{
	struct g4_cmd cmd = {.op = op};

	if (op == G4_CMD_UNLINK && split->slash) {
		const int rc = demand_directory(batch, batch->here, split);
		return rc < 0 ? rc : -EISDIR;
	}
	return run_on(batch, &cmd, batch->here, split);
}

static int cut(const struct batch *batch, const char *path, struct g4_path_split *split)
{
	const int rc = g4_path_cut_long(path, (uint32_t)g4c_batch_path_bytes(&batch->form, path), split);

	return rc < 0 ? -g4_errno(rc) : 0;
}

static int check_last(const struct g4_path_split *split, uint32_t op)
{
	const int rc = g4_path_check_last(split->last, op);

	return rc < 0 ? -g4_errno(rc) : 0;
}

/* Renames; entry->made: an error is about the new path, as the engine has it. */
static int move_name(struct batch *batch, struct gpu4fs_batch_entry *entry, const struct g4_path_split *from)
{
	const bool exchange = (entry->mode & G4_RENAME_EXCHANGE) != 0;
	struct g4_cmd cmd = {.op = G4_CMD_RENAME, .flags = entry->mode};
	struct g4_path_split to;
	struct g4c_node there;

	entry->made = 1;
	int rc = cut(batch, entry->path2, &to);
	if (rc == 0)
		rc = walk_to(batch, &to, &there, &entry->component);
	if (rc == 0)
		rc = check_last(&to, entry->mode & G4_RENAME_NOREPLACE ? G4_CMD_LINK : G4_CMD_RENAME);
	if (rc < 0)
		return rc;
	entry->made = 0;
	if (from->slash || (to.slash && !exchange))
		rc = demand_directory(batch, batch->here, from);
	if (rc == 0 && to.slash && exchange)
		rc = demand_directory(batch, there, &to);
	if (rc < 0)
		return rc;
	g4c_set_node2(&cmd, there);
	cmd.name2 = to.name;
	cmd.name2_bytes = (uint16_t)to.name_bytes;
	rc = run_on(batch, &cmd, batch->here, from);
	/* elsewhere it may take the place of a link that the walk went through */
	if (!g4_path_is_in(&to, from->directory, from->directory_bytes))
		batch->near = NULL;
	return rc;
}

static int run_entry_once(struct batch *batch, struct gpu4fs_batch_entry *entry, bool *known)
{
	const uint32_t op = entry->op == GPU4FS_BATCH_UNLINK ? G4_CMD_UNLINK :
			    entry->op == GPU4FS_BATCH_RMDIR  ? G4_CMD_RMDIR :
							       G4_CMD_RENAME;
	struct g4_path_split split;
	int rc = g4c_batch_is_too_long(&batch->form, entry) ? -ENAMETOOLONG : cut(batch, entry->path, &split);

	*known = false;
	entry->component = GPU4FS_BATCH_AT_NAME;
	entry->made = 0;
	if (rc == 0)
		rc = find_directory(batch, &split, &entry->component, known);
	if (rc == 0)
		rc = check_last(&split, op);
	if (rc < 0)
		return rc;
	return op == G4_CMD_RENAME ? move_name(batch, entry, &split) : remove_name(batch, op, &split);
}

/* An entry that the engine leaves to us. Overwrites the data. */
static void run_entry(struct batch *batch, struct gpu4fs_batch_entry *entry)
{
	bool known;
	int rc = run_entry_once(batch, entry, &known);

	if (known && (rc == -ENOENT || rc == -ESTALE)) { /* is it the name, or the directory? */
		batch->near = NULL;
		rc = run_entry_once(batch, entry, &known);
	}
	entry->result = rc == -ESTALE ? -ENOENT : rc; /* gone after the walk */
}

/* ------------------------------------------------------------------ commands */

/* Entries that were left to us. With STOP an entry behind one that is done has not been tried: *count ends before it. */
static int run_left(struct batch *batch, uint32_t first, uint32_t *count)
{
	int done = 0;

	for (uint32_t k = 0; k < *count; k++) {
		struct gpu4fs_batch_entry *entry = &batch->form.entries[first + k];
		if (entry->result != -EOPNOTSUPP || !may_be_left_to_us(entry->op))
			continue;
		batch->singly = true;
		run_entry(batch, entry);
		done += entry->result == 0;
		if (entry->result == 0 && (batch->form.flags & GPU4FS_BATCH_STOP))
			*count = k + 1;
	}
	return done;
}

/* One command: how many of its entries were done, or a negative errno of them all. */
static int run(struct batch *batch, uint32_t first, uint32_t *entries, uint32_t flags)
{
	const uint32_t count = *entries;
	struct g4_cmd cmd = {.op = G4_CMD_BATCH, .mask = count, .flags = flags, .cred = &batch->fs->cred};
	int done = 0;

	if (g4c_batch_is_too_long(&batch->form, &batch->form.entries[first])) {
		g4c_batch_fail(&batch->form, first, first + 1, -ENAMETOOLONG);
		return 0;
	}
	g4c_set_node(&cmd, batch->start);
	cmd.data = batch->form.data;
	cmd.length = g4c_batch_pack(&batch->form, first, count, flags);
	const int rc = g4c_run(batch->fs->mount->engine, &cmd);
	if (rc < 0)
		return rc;
	for (uint32_t k = 0; k < count; k++) {
		const int code = g4c_batch_unpack(&batch->form, first, count, flags, k);
		batch->form.entries[first + k].result = code < 0 ? -g4_errno(code) : 0;
		done += code == 0;
	}
	return done + run_left(batch, first, entries);
}

/*
 * Where order counts and removals are left to us, a command ends before the next one of them, and the first is done without one. What its
 * result is before has it done by run_left().
 */
static uint32_t before_what_is_left(struct batch *batch, uint32_t first, uint32_t count)
{
	struct gpu4fs_batch_entry *entries = &batch->form.entries[first];
	uint32_t n = 0;

	if (!batch->singly || !(batch->form.flags & GPU4FS_BATCH_STOP))
		return count;
	while (n < count && !may_be_left_to_us(entries[n].op))
		n++;
	if (n == 0)
		entries->result = -EOPNOTSUPP;
	return n;
}

static int64_t run_all(struct batch *batch, uint32_t count)
{
	int64_t done = 0;
	uint32_t flags, n;

	for (uint32_t first = 0; first < count; first += n) {
		n = before_what_is_left(batch, first, g4c_batch_fitting(&batch->form, first, count, &flags));
		int rc;
		if (n > 0) {
			rc = run(batch, first, &n, flags);
		} else {
			n = 1;
			rc = run_left(batch, first, &n);
		}
		if (rc < 0) {
			g4c_batch_fail(&batch->form, first, count, rc);
			return done > 0 ? done : rc;
		}
		done += rc;
		if ((batch->form.flags & GPU4FS_BATCH_STOP) && (uint32_t)rc < n) {
			g4c_batch_fail(&batch->form, first + n, count, -ECANCELED);
			break;
		}
	}
	return done;
}

int64_t gpu4fs_batch(gpu4fs *fs, gpu4fs_file *at, struct gpu4fs_batch_entry *entries, uint32_t count, uint32_t flags)
{
	struct batch batch = {.fs = fs, .form = {.entries = entries, .flags = flags, .room = BATCH_BYTES}};

	G4_STATIC_ASSERT(GPU4FS_BATCH_AT_NAME == G4_BATCH_AT_NAME, "one meaning");
	if (flags & ~GPU4FS_BATCH_STOP)
		return -EINVAL;
	int rc = g4c_start_of(fs, at, false, &batch.start);
	if (rc < 0)
		return rc;
	batch.form.data = malloc(BATCH_BYTES);
	if (!batch.form.data)
		return -ENOMEM;
	const int64_t done = run_all(&batch, count);
	free(batch.form.data);
	return done;
}

/* ------------------------------------------------------------------ missing parents */

struct chain { /* a path of any length, made in pieces */
	gpu4fs *fs;
	struct g4c_node here;
	uint32_t mode;
	uint64_t made;
	uint8_t *data;
};

/* One piece, which begins where the last one has led. */
static int make_piece(struct chain *chain, uint32_t bytes)
{
	const int rc = run_one(chain->fs, chain->data, chain->here, G4_BATCH_MKDIR_ALL, chain->mode, bytes);

	if (rc < 0)
		return rc;
	chain->made += entry_of_one(chain->data)->made;
	if (entry_of_one(chain->data)->status < 0)
		return -g4_errno(entry_of_one(chain->data)->status);
	chain->here = g4c_node_of(attr_of_one(chain->data));
	return 0;
}

static int begin_chain(struct chain *chain, gpu4fs_file *at, bool absolute)
{
	int rc = g4c_start_of(chain->fs, at, absolute, &chain->here);

	chain->data = rc < 0 ? NULL : malloc(BATCH_BYTES);
	return rc < 0 ? rc : chain->data ? 0 : -ENOMEM;
}

static int end_chain(const struct chain *chain, int rc, uint64_t *made)
{
	free(chain->data);
	if (made)
		*made = chain->made;
	return rc;
}

/* Of the pieces all but the last end behind a slash. What is made above the last name may be entered and filled by its owner. */
static int make_path(struct chain *chain, const char *path, size_t bytes, uint32_t mode)
{
	const uint64_t head = g4_batch_head_bytes(1, G4_BATCH_ATTR);
	int rc = bytes == 0 ? -ENOENT : 0;

	while (bytes > 1 && path[bytes - 1] == '/')
		bytes--;
	while (rc == 0 && bytes > 0) {
		size_t n = bytes;
		if (n > BATCH_BYTES - head)
			for (n = BATCH_BYTES - head; n > 0 && path[n - 1] != '/'; n--)
				;
		if (n == 0)
			return -ENAMETOOLONG;
		memcpy(chain->data + head, path, n);
		chain->mode = n == bytes ? mode : mode | S_IWUSR | S_IXUSR;
		rc = make_piece(chain, (uint32_t)n);
		path += n;
		bytes -= n;
		while (bytes > 0 && *path == '/') { /* a piece that begins with one would begin at the root */
			path++;
			bytes--;
		}
	}
	return rc;
}

int gpu4fs_mkdir_all(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode, uint64_t *made)
{
	struct chain chain = {.fs = fs};
	int rc = begin_chain(&chain, at, path && path[0] == '/');

	if (rc == 0)
		rc = make_path(&chain, path, path ? strlen(path) : 0, mode & G4C_MKDIR_MODE);
	return end_chain(&chain, rc, made);
}

static int check_names(const char *const *names, uint64_t count)
{
	for (uint64_t k = 0; k < count; k++) {
		const size_t bytes = names[k] ? strnlen(names[k], G4C_NAME_MAX + 1) : 0;
		if (bytes == 0)
			return -ENOENT;
		if (bytes > G4C_NAME_MAX)
			return -ENAMETOOLONG;
		if (strchr(names[k], '/') || strcmp(names[k], ".") == 0 || strcmp(names[k], "..") == 0)
			return -EINVAL;
	}
	return count > 0 ? 0 : -ENOENT;
}

int gpu4fs_mkdir_all_names(gpu4fs *fs, gpu4fs_file *at, const char *const *names, uint64_t count, uint32_t mode,
			   uint64_t *made)
{
	const uint64_t head = g4_batch_head_bytes(1, G4_BATCH_ATTR);
	struct chain chain = {.fs = fs};
	uint64_t end = head;
	int rc = check_names(names, count);

	if (rc == 0)
		rc = begin_chain(&chain, at, false);
	for (uint64_t k = 0; k < count && rc == 0; k++) {
		const size_t bytes = strlen(names[k]);
		if (end > head)
			chain.data[end++] = '/';
		memcpy(chain.data + end, names[k], bytes);
		end += bytes;
		const bool last = k + 1 == count;
		if (!last && end + G4C_NAME_MAX + 1 <= BATCH_BYTES)
			continue;
		chain.mode = mode & G4C_MKDIR_MODE;
		if (!last)
			chain.mode |= S_IWUSR | S_IXUSR;
		rc = make_piece(&chain, (uint32_t)(end - head));
		end = head;
	}
	return end_chain(&chain, rc, made);
}
