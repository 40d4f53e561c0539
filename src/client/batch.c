/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: operations on many names, as few commands of the engine (BATCH, fs/command.h) as they fit into. A command has at most as
 * many bytes as a ring lets one have.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <sys/stat.h>

#include "client/client.h"
#include "ring/ring.h"

#define BATCH_BYTES G4_SESSION_STAGE_BYTES
#define ENTRIES_MOST 512u /* of a command: others that wait for the workgroup wait for so many */

struct batch {
	gpu4fs *fs;
	struct g4c_node start;
	struct gpu4fs_batch_entry *entries;
	uint32_t flags;
	uint8_t *data; /* BATCH_BYTES, aligned */
};

/* ------------------------------------------------------------------ to the engine */

static uint64_t path_bytes(const char *path)
{
	return path ? strnlen(path, BATCH_BYTES) : 0;
}

static uint64_t text_bytes(const struct gpu4fs_batch_entry *entry)
{
	return path_bytes(entry->path) + (entry->op == GPU4FS_BATCH_RENAME ? path_bytes(entry->path2) : 0);
}

/* What the engine calls it; false: there is none such. */
static bool translate(const struct gpu4fs_batch_entry *entry, struct g4_batch_entry *out)
{
	switch ((enum gpu4fs_batch_op)entry->op) {
	case GPU4FS_BATCH_STAT:
	case GPU4FS_BATCH_LSTAT:
		out->op = G4_CMD_LOOKUP;
		out->mode = entry->op == GPU4FS_BATCH_LSTAT ? G4_RESOLVE_NOFOLLOW : 0;
		return true;
	case GPU4FS_BATCH_CREATE:
		out->op = G4_CMD_MKNOD;
		out->mode = entry->mode;
		return true;
	case GPU4FS_BATCH_MKDIR:
	case GPU4FS_BATCH_MKDIR_ALL:
		out->op = entry->op == GPU4FS_BATCH_MKDIR ? G4_CMD_MKDIR : G4_BATCH_MKDIR_ALL;
		out->mode = entry->mode & G4C_MKDIR_MODE;
		return true;
	case GPU4FS_BATCH_UNLINK:
		out->op = G4_CMD_UNLINK;
		return true;
	case GPU4FS_BATCH_RMDIR:
		out->op = G4_CMD_RMDIR;
		return true;
	case GPU4FS_BATCH_RENAME:
		out->op = G4_CMD_RENAME;
		out->mode = entry->mode;
		return true;
	}
	return false;
}

static void append(struct batch *batch, uint64_t *at, const char *path)
{
	const uint64_t bytes = path_bytes(path);

	if (bytes > 0)
		memcpy(batch->data + *at, path, bytes);
	*at += bytes;
}

/* Entries from `first` on that one command takes: how many, at least 1; *flags: for the command. */
static uint32_t count_fitting(const struct batch *batch, uint32_t first, uint32_t count, uint32_t *flags)
{
	uint64_t text = 0;
	uint32_t n = 0;

	*flags = batch->flags & GPU4FS_BATCH_STOP ? G4_BATCH_STOP : 0;
	while (n < ENTRIES_MOST && first + n < count) {
		const uint32_t more = *flags | (batch->entries[first + n].stat ? G4_BATCH_ATTR : 0);
		text += text_bytes(&batch->entries[first + n]);
		if (n > 0 && g4_batch_head_bytes(n + 1, more) + text > BATCH_BYTES)
			break;
		*flags = more;
		n++;
	}
	return n;
}

/* Fills the command's data; its length. */
static uint64_t pack(struct batch *batch, uint32_t first, uint32_t count, uint32_t flags)
{
	struct g4_batch_entry *out = (struct g4_batch_entry *)(void *)batch->data;
	uint64_t at = g4_batch_head_bytes(count, flags);

	memset(batch->data, 0, at);
	for (uint32_t k = 0; k < count; k++) {
		const struct gpu4fs_batch_entry *entry = &batch->entries[first + k];
		if (!translate(entry, &out[k]))
			out[k].op = UINT32_MAX;
		out[k].path_at = (uint32_t)at;
		out[k].path_bytes = (uint32_t)path_bytes(entry->path);
		out[k].path2_bytes = (uint32_t)(text_bytes(entry) - out[k].path_bytes);
		append(batch, &at, entry->path);
		if (out[k].path2_bytes > 0)
			append(batch, &at, entry->path2);
	}
	return at;
}

/* ------------------------------------------------------------------ and back */

static void unpack(const struct batch *batch, uint32_t first, uint32_t count, uint32_t flags)
{
	const struct g4_batch_entry *in = (const struct g4_batch_entry *)(const void *)batch->data;
	const struct g4_attr *attrs = (const struct g4_attr *)(const void *)(in + count);

	for (uint32_t k = 0; k < count; k++) {
		struct gpu4fs_batch_entry *entry = &batch->entries[first + k];
		/* an operation that the engine does not know is one that we do not */
		entry->result = in[k].status == -G4_E_NOSYS ? -EINVAL : in[k].status < 0 ? -g4_errno(in[k].status) : 0;
		entry->component = in[k].component;
		entry->made = in[k].made;
		if (entry->stat && entry->result == 0 && (flags & G4_BATCH_ATTR))
			g4c_stat_from_attr(&attrs[k], entry->stat);
	}
}

static void fail(const struct batch *batch, uint32_t first, uint32_t count, int rc)
{
	for (uint32_t k = first; k < count; k++) {
		batch->entries[k].result = rc;
		batch->entries[k].component = GPU4FS_BATCH_AT_NAME;
		batch->entries[k].made = 0;
	}
}

/* One command: how many of its entries were done, or a negative errno of them all. */
static int run(struct batch *batch, uint32_t first, uint32_t count, uint32_t flags)
{
	struct g4_cmd cmd = {.op = G4_CMD_BATCH, .mask = count, .flags = flags, .cred = &batch->fs->cred};
	int done = 0;

	if (g4_batch_head_bytes(1, flags) + text_bytes(&batch->entries[first]) > BATCH_BYTES) {
		fail(batch, first, first + 1, -ENAMETOOLONG);
		return 0;
	}
	g4c_set_node(&cmd, batch->start);
	cmd.data = batch->data;
	cmd.length = pack(batch, first, count, flags);
	const int rc = g4c_run(batch->fs->mount->engine, &cmd);
	if (rc < 0)
		return rc;
	unpack(batch, first, count, flags);
	for (uint32_t k = first; k < first + count; k++)
		done += batch->entries[k].result == 0;
	return done;
}

static int64_t run_all(struct batch *batch, uint32_t count)
{
	int64_t done = 0;
	uint32_t flags, n;

	for (uint32_t first = 0; first < count; first += n) {
		n = count_fitting(batch, first, count, &flags);
		const int rc = run(batch, first, n, flags);
		if (rc < 0) {
			fail(batch, first, count, rc);
			return done > 0 ? done : rc;
		}
		done += rc;
		if ((batch->flags & GPU4FS_BATCH_STOP) && (uint32_t)rc < n) {
			fail(batch, first + n, count, -ECANCELED);
			break;
		}
	}
	return done;
}

int64_t gpu4fs_batch(gpu4fs *fs, gpu4fs_file *at, struct gpu4fs_batch_entry *entries, uint32_t count, uint32_t flags)
{
	struct batch batch = {.fs = fs, .entries = entries, .flags = flags};

	G4_STATIC_ASSERT(GPU4FS_BATCH_AT_NAME == G4_BATCH_AT_NAME, "one meaning");
	if (flags & ~GPU4FS_BATCH_STOP)
		return -EINVAL;
	int rc = g4c_start_of(fs, at, false, &batch.start);
	if (rc < 0)
		return rc;
	batch.data = malloc(BATCH_BYTES);
	if (!batch.data)
		return -ENOMEM;
	const int64_t done = run_all(&batch, count);
	free(batch.data);
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
	const uint64_t head = g4_batch_head_bytes(1, G4_BATCH_ATTR);
	struct g4_batch_entry *entry = (struct g4_batch_entry *)(void *)chain->data;
	const struct g4_attr *attr = (const struct g4_attr *)(const void *)(entry + 1);
	struct g4_cmd cmd = {.op = G4_CMD_BATCH, .mask = 1, .flags = G4_BATCH_ATTR, .cred = &chain->fs->cred};

	*entry = (struct g4_batch_entry){
		.op = G4_BATCH_MKDIR_ALL, .mode = chain->mode, .path_at = (uint32_t)head, .path_bytes = bytes};
	g4c_set_node(&cmd, chain->here);
	cmd.data = chain->data;
	cmd.length = head + bytes;
	const int rc = g4c_run(chain->fs->mount->engine, &cmd);
	if (rc < 0)
		return rc;
	chain->made += entry->made;
	if (entry->status < 0)
		return -g4_errno(entry->status);
	chain->here = g4c_node_of(attr);
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
