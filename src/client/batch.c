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

#include "client/batch_form.h"
#include "client/client.h"
#include "ring/ring.h"

#define BATCH_BYTES G4_SESSION_STAGE_BYTES

struct batch {
	struct g4c_batch form;
	gpu4fs *fs;
	struct g4c_node start;
};

/* One command: how many of its entries were done, or a negative errno of them all. */
static int run(const struct batch *batch, uint32_t first, uint32_t count, uint32_t flags)
{
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
	return done;
}

static int64_t run_all(const struct batch *batch, uint32_t count)
{
	int64_t done = 0;
	uint32_t flags, n;

	for (uint32_t first = 0; first < count; first += n) {
		n = g4c_batch_fitting(&batch->form, first, count, &flags);
		const int rc = run(batch, first, n, flags);
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
