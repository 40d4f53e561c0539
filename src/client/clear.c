/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clearing a tree: by the engine's CLEAR, or name by name where each inode that goes has to be heard of: behind a mount's socket, whose
 * kernel may know it (fuse/share.c). The walk then is CLEAR's (fs/clear.c): no recursion, the nearest directories of the way down open, and from the top
 * again where that does not reach. It never follows "..", nor a link.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "client/client.h"

#define WAY 16u
#define MORE_TRIES 4096u /* names that others put there or take away */

struct clearing {
	gpu4fs *fs;
	gpu4fs_file *top, *here;
	gpu4fs_file *way[WAY]; /* above `here`, the nearest last; never the top */
	uint32_t depth;
	uint64_t from; /* where in directories to begin */
	uint64_t most, done, tries;
	/*
	 * Directories that were not empty, and had no name when they were listed, since a name went: others have taken these meanwhile. Or they are damaged,
	 * count names and have none, and would be met for ever, however many names the caller allows.
	 */
	uint32_t empty;
};

static void leave_here(struct clearing *c)
{
	if (c->here != c->top)
		gpu4fs_close(c->here);
	c->here = c->depth > 0 ? c->way[--c->depth] : c->top;
}

/* 0: it is another kind of file by now, or gone. */
static int go_down(struct clearing *c, const char *name)
{
	gpu4fs_file *below;
	const int rc = gpu4fs_open(c->fs, c->here, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &below);

	if (rc < 0)
		return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP ? 0 : rc;
	if (c->depth == WAY) {
		gpu4fs_close(c->way[0]);
		memmove(&c->way[0], &c->way[1], (WAY - 1) * sizeof(c->way[0]));
		c->depth--;
	}
	if (c->here != c->top)
		c->way[c->depth++] = c->here;
	c->here = below;
	return 1;
}

/* 1: the walk is in the directory that has this name, for something is in it. */
static int clear_name(struct clearing *c, const char *name, bool directory)
{
	if (strchr(name, '/')) /* of a damaged image: it would lead elsewhere */
		return -EUCLEAN;
	int rc = directory ? gpu4fs_rmdir(c->fs, c->here, name) : gpu4fs_unlink(c->fs, c->here, name);

	if (rc == -ENOTDIR || rc == -EISDIR) /* the name is another one's by now */
		rc = rc == -EISDIR ? gpu4fs_rmdir(c->fs, c->here, name) : gpu4fs_unlink(c->fs, c->here, name);
	c->tries--;
	c->done += rc == 0;
	c->empty = rc == 0 ? 0 : c->empty;
	return rc == -ENOTEMPTY ? go_down(c, name) : rc == -ENOENT ? 0 : rc;
}

/* Names of the directory at hand: all of them, up to one that the walk goes into (1). */
static int clear_here(struct clearing *c)
{
	struct gpu4fs_dirent entry;
	gpu4fs_dir *stream;
	bool any = false;
	int rc = gpu4fs_opendir_file(c->here, 0, &stream);

	if (rc < 0)
		return rc;
	for (int round = c->from == 0; round < 2 && rc == 0; round++) {
		gpu4fs_seekdir(stream, round == 0 ? c->from : 0);
		while (rc == 0 && c->done < c->most && c->tries > 0 && (rc = gpu4fs_readdir(stream, &entry)) > 0) {
			any = true;
			rc = clear_name(c, entry.name, entry.type == DT_DIR);
		}
	}
	gpu4fs_closedir(stream);
	c->empty += rc == 0 && !any;
	return rc;
}

static int64_t clear_by_names(gpu4fs *fs, gpu4fs_file *top, uint64_t most, uint32_t from)
{
	struct clearing c = {.fs = fs,
			     .top = top,
			     .here = top,
			     .from = (uint64_t)from << 16,
			     .most = most,
			     .tries = most < UINT64_MAX / 8 ? MORE_TRIES + 4 * most : UINT64_MAX};
	int rc = most > 0 ? 0 : -EINVAL;

	while (rc == 0 && c.done < most) {
		const bool at_top = c.here == top;
		if (c.tries == 0 || c.empty > MORE_TRIES)
			rc = -ENOTEMPTY;
		else
			rc = clear_here(&c);
		if (rc == 0 && at_top && c.tries > 0)
			break;
		if (!at_top && (rc == 0 || rc == -ENOENT)) { /* it is empty, or gone */
			leave_here(&c);
			c.tries -= c.tries > 0;
			rc = 0;
		}
		rc = rc > 0 ? 0 : rc;
	}
	while (c.here != top)
		leave_here(&c);
	return c.done > 0 ? (int64_t)c.done : rc; /* what stopped it is met again */
}

int64_t gpu4fs_clear(gpu4fs *fs, gpu4fs_file *at, const char *path, uint64_t most, uint32_t from)
{
	struct g4_cmd cmd = {.op = G4_CMD_CLEAR, .cookie = from, .length = most, .cred = &fs->cred};
	struct g4_attr attr;
	int rc = g4c_resolve_directory(fs, at, path, false, &attr, &cmd);

	if (rc)
		return rc;
	rc = g4c_run(fs->mount->engine, &cmd);
	if (rc == -ESTALE) /* the directory was removed after the walk */
		return -ENOENT;
	if (rc != -EOPNOTSUPP)
		return rc ? rc : (int64_t)cmd.value;
	gpu4fs_file *top;
	rc = gpu4fs_open(fs, at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &top);
	if (rc)
		return rc;
	const int64_t names = clear_by_names(fs, top, most, from);
	gpu4fs_close(top);
	return names;
}
