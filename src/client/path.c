/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name space by path: walking to a node, and making, removing, renaming and linking names.
 *
 * The engine walks (RESOLVE). Operations that make or remove a name cut the path before its last component here,
 * because "", ".", ".." and a slash at the end have their own errors in each of them. The order of checks is Linux's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/stat.h>

#include "client/client.h"

/* ------------------------------------------------------------------ walking */

int g4c_start_of(gpu4fs *fs, gpu4fs_file *at, bool absolute, struct g4c_node *node)
{
	if (!at)
		at = fs->cwd;
	if (absolute || !at) {
		*node = (struct g4c_node){.ino = G4_NODE_ROOT};
		return 0;
	}
	if (!S_ISDIR(at->format))
		return -ENOTDIR;
	*node = g4c_node_of_file(at);
	return 0;
}

/* Slashes at either end of a path are ignored. */
static void trim(const char **path, uint32_t *bytes)
{
	while (*bytes && (*path)[*bytes - 1] == '/')
		--*bytes;
	while (*bytes && (*path)[0] == '/') {
		++*path;
		--*bytes;
	}
}

/*
 * What the mirror has been told. A walk that does not follow a link at its end has the answer of one that does, unless it has met one: programs ask for
 * a file's attributes in the first way, and for more of it in the other.
 */
static bool was_told(gpu4fs *fs, const struct g4c_question *question, int *rc, struct g4_attr *attr,
		     struct g4_trail *trail)
{
	const uint16_t nofollow = G4_RESOLVE_NOFOLLOW << G4C_ASKS_FLAGS_SHIFT;
	struct g4c_question same = *question;

	if (g4c_mirror_find(fs->mirror, question, rc, attr, trail))
		return true;
	if ((same.asks & ((1u << G4C_ASKS_FLAGS_SHIFT) - 1)) != G4C_ASKS_PATH || (same.asks & nofollow))
		return false;
	same.asks |= nofollow;
	return g4c_mirror_find(fs->mirror, &same, rc, attr, trail) && !(*rc == 0 && S_ISLNK(attr->mode));
}

/* Runs a command that gives attributes, unless the mirror has its answer. trail: what that depends on. */
static int ask(gpu4fs *fs, const struct g4c_question *question, struct g4_cmd *cmd, struct g4_trail *trail)
{
	int rc;

	trail->count = 0;
	if (!fs->mirror)
		return g4c_run(fs->mount->engine, cmd);
	if (was_told(fs, question, &rc, cmd->attr, trail) && g4_engine_lives(fs->mount->engine))
		return rc;
	if (g4c_foresee(fs, question, cmd, trail, &rc) && g4_engine_lives(fs->mount->engine))
		return rc;
	trail->count = 0;
	cmd->flags |= G4_LOOK_TRAIL;
	cmd->data = trail;
	rc = g4c_run(fs->mount->engine, cmd);
	(void)g4c_mirror_keep(fs->mirror, question, rc, cmd->attr, trail);
	return rc;
}

/* What is asked of a path, which is trimmed. */
static struct g4c_question about_path(const gpu4fs *fs, const struct g4c_node *node, const char **path, uint32_t *bytes,
				      bool follow)
{
	const uint32_t flags = (follow ? 0 : G4_RESOLVE_NOFOLLOW) | fs->resolve_flags;

	trim(path, bytes);
	return (struct g4c_question){.start = node->ino,
				     .generation = node->generation,
				     .asks = (uint16_t)(G4C_ASKS_PATH | flags << G4C_ASKS_FLAGS_SHIFT),
				     .path = *path,
				     .path_bytes = (uint16_t)*bytes};
}

/* Walks `bytes` bytes of a path from a node; nothing left of it means the node itself. */
static int walk_noting(gpu4fs *fs, const struct g4c_node *node, const char *path, uint32_t bytes, bool follow,
		       struct g4_attr *attr, struct g4_trail *trail)
{
	struct g4_cmd cmd = {.op = G4_CMD_RESOLVE, .attr = attr, .cred = &fs->cred};
	struct g4c_question question = about_path(fs, node, &path, &bytes, follow);

	if (bytes == 0) {
		cmd.op = G4_CMD_GETATTR;
		question.asks = G4C_ASKS_NODE;
	} else {
		cmd.name = path;
		cmd.name_bytes = (uint16_t)bytes;
		cmd.flags = (follow ? 0 : G4_RESOLVE_NOFOLLOW) | fs->resolve_flags;
	}
	g4c_set_node(&cmd, *node);
	return ask(fs, &question, &cmd, trail);
}

static int walk(gpu4fs *fs, const struct g4c_node *node, const char *path, uint32_t bytes, bool follow,
		struct g4_attr *attr)
{
	struct g4_trail trail;

	return walk_noting(fs, node, path, bytes, follow, attr, &trail);
}

static struct g4c_question about_handle(const gpu4fs_file *file)
{
	return (struct g4c_question){.start = file->handle, .asks = G4C_ASKS_HANDLE};
}

int g4c_stat_handle_noting(gpu4fs_file *file, struct g4_attr *attr, struct g4_trail *trail)
{
	const struct g4c_question question = about_handle(file);
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .handle = file->handle, .attr = attr};

	return ask(file->fs, &question, &cmd, trail);
}

int g4c_stat_handle(gpu4fs_file *file, struct g4_attr *attr)
{
	struct g4_trail trail;

	return g4c_stat_handle_noting(file, attr, &trail);
}

bool g4c_was_told_of_handle(gpu4fs_file *file, struct g4_attr *attr, struct g4_trail *trail)
{
	const struct g4c_question question = about_handle(file);
	int rc;

	return g4c_mirror_find(file->fs->mirror, &question, &rc, attr, trail) && rc == 0;
}

void g4c_tell_of_handle(gpu4fs_file *file, const struct g4c_node *start, const char *path, uint32_t bytes, bool follow)
{
	gpu4fs *fs = file->fs;
	struct g4c_question question = about_path(fs, start, &path, &bytes, follow);
	const struct g4c_question handle = about_handle(file);
	struct g4_trail trail, own;
	struct g4_attr attr;
	int rc;

	if (bytes == 0 || !was_told(fs, &question, &rc, &attr, &trail) || rc != 0)
		return;
	const uint16_t last = trail.epochs[trail.count - 1];
	g4_trail_begin(&own);
	g4_trail_add(&own, last, g4c_pages_epoch(fs->pages, last));
	/* found again, so the epoch had that value from the first time on */
	if (was_told(fs, &question, &rc, &attr, &trail) && rc == 0 && trail.epochs[trail.count - 1] == last &&
	    attr.ino == file->ino && attr.generation == file->generation)
		(void)g4c_mirror_put(fs->mirror, &handle, 0, &attr, &own);
}

int g4c_run_at(gpu4fs *fs, struct g4_cmd *cmd, const char *path, uint32_t bytes, uint32_t flags)
{
	struct g4_walk walk = {.path = path, .bytes = bytes, .flags = flags | fs->resolve_flags};

	trim(&walk.path, &walk.bytes);
	const int rc = g4_engine_execute_at(fs->mount->engine, cmd, &walk);
	return __builtin_expect(rc < 0, 0) ? -g4_errno(rc) : 0;
}

/* Where a path begins, and how much of it is walked. */
static int begin_path(gpu4fs *fs, gpu4fs_file *at, const char *path, struct g4_path_split *split, struct g4c_node *node,
		      uint32_t *bytes)
{
	int rc = g4c_split_path(path, split);

	if (rc)
		return rc;
	*bytes = split->directory_bytes + split->name_bytes;
	return g4c_start_of(fs, at, split->absolute, node);
}

int g4c_resolve(gpu4fs *fs, gpu4fs_file *at, const char *path, bool follow, struct g4_attr *attr)
{
	struct g4_path_split split;
	struct g4c_node node;
	uint32_t bytes;
	int rc = begin_path(fs, at, path, &split, &node, &bytes);

	if (rc)
		return rc;
	rc = walk(fs, &node, path, bytes, follow || split.slash, attr);
	if (rc)
		return rc;
	return split.slash && !S_ISDIR(attr->mode) ? -ENOTDIR : 0;
}

int g4c_resolve_directory(gpu4fs *fs, gpu4fs_file *at, const char *path, bool follow, struct g4_attr *attr,
			  struct g4_cmd *cmd)
{
	const int rc = g4c_resolve(fs, at, path, follow, attr);

	if (rc)
		return rc;
	if (!S_ISDIR(attr->mode))
		return -ENOTDIR;
	g4c_set_node(cmd, g4c_node_of(attr));
	return 0;
}

/* One attempt. */
static int access_once(gpu4fs *fs, const struct g4c_node *node, const struct g4_path_split *split, const char *path,
		       uint32_t bytes, uint32_t mode, struct g4_trail *trail)
{
	struct g4_cmd cmd = {.op = G4_CMD_ACCESS, .flags = mode, .cred = &fs->cred};
	struct g4_attr attr;
	int rc = walk_noting(fs, node, path, bytes, true, &attr, trail);

	if (rc == 0 && split->slash && !S_ISDIR(attr.mode))
		rc = -ENOTDIR;
	if (rc) {
		trail->count = 0; /* the walk's answer, which is kept as that */
		return rc;
	}
	g4c_set_node(&cmd, g4c_node_of(&attr));
	return g4c_run(fs->mount->engine, &cmd);
}

/* Whether a file system can be written is nobody's attribute: those answers are not kept. */
int g4c_access(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode)
{
	const bool kept = fs->mirror && !(mode & G4_ACCESS_WRITE);
	struct g4_path_split split;
	struct g4_trail trail;
	struct g4c_node node;
	uint32_t bytes, attempts = 0;
	int rc = begin_path(fs, at, path, &split, &node, &bytes);

	if (rc)
		return rc;
	const struct g4c_question question = {.start = node.ino,
					      .generation = node.generation,
					      .asks = (uint16_t)(G4C_ASKS_ACCESS | (mode | fs->resolve_flags << 3)
											   << G4C_ASKS_FLAGS_SHIFT),
					      .path = path,
					      .path_bytes = (uint16_t)(bytes + split.slash)};
	if (kept && g4c_mirror_find(fs->mirror, &question, &rc, NULL, NULL) && g4_engine_lives(fs->mount->engine))
		return rc;
	do
		rc = access_once(fs, &node, &split, path, bytes, mode, &trail);
	while (g4c_again(rc, &attempts));
	if (kept && (rc == 0 || rc == -EACCES))
		g4c_mirror_put(fs->mirror, &question, rc, NULL, &trail);
	return rc;
}

int g4c_resolve_parent(gpu4fs *fs, gpu4fs_file *at, const char *path, struct g4c_node *parent,
		       struct g4_path_split *split)
{
	struct g4_attr attr;
	int rc;

	rc = g4c_split_path(path, split);
	if (rc)
		return rc;
	rc = g4c_start_of(fs, at, split->absolute, parent);
	if (rc || split->directory_bytes == 0)
		return rc;
	rc = walk(fs, parent, split->directory, split->directory_bytes, true, &attr);
	if (rc)
		return rc;
	if (!S_ISDIR(attr.mode))
		return -ENOTDIR;
	*parent = g4c_node_of(&attr);
	return 0;
}

/* The directory was removed after the walk. */
static int gone(int rc)
{
	return rc == -ESTALE ? -ENOENT : rc;
}

/* Runs a command on the name that a split path ends in, in the directory before that, which begins at `start`. */
static int run_on_path(gpu4fs *fs, uint32_t op, const struct g4c_node *start, const struct g4_path_split *split,
		       struct g4_cmd *cmd)
{
	cmd->op = op;
	g4c_set_node(cmd, *start);
	cmd->name = split->name;
	cmd->name_bytes = (uint16_t)split->name_bytes;
	cmd->cred = &fs->cred;
	return gone(g4c_run_at(fs, cmd, split->directory, split->directory_bytes, G4_WALK_DIRECTORY));
}

/* The same in a directory that was walked to. */
static int run_on_name(gpu4fs *fs, uint32_t op, const struct g4c_node *parent, const struct g4_path_split *split,
		       struct g4_cmd *cmd)
{
	cmd->op = op;
	g4c_set_node(cmd, *parent);
	cmd->name = split->name;
	cmd->name_bytes = (uint16_t)split->name_bytes;
	cmd->cred = &fs->cred;
	return gone(g4c_run(fs->mount->engine, cmd));
}

/* Whether the operation can be about what the path ends in. */
static int check_last(const struct g4_path_split *split, uint32_t op)
{
	const int rc = g4_path_check_last(split->last, op);

	return rc < 0 ? -g4_errno(rc) : 0;
}

/* Does the name exist, and as what? */
static int lookup(gpu4fs *fs, const struct g4c_node *parent, const struct g4_path_split *split, struct g4_attr *attr)
{
	struct g4_cmd cmd = {.attr = attr};

	return run_on_name(fs, G4_CMD_LOOKUP, parent, split, &cmd);
}

/* ------------------------------------------------------------------ making names */

/*
 * Finds the place of a new name. Only a directory's may end in a slash; anything else that does is -EEXIST if it
 * exists and -ENOENT if not.
 */
static int place_of_new(gpu4fs *fs, gpu4fs_file *at, const char *path, bool directory, struct g4c_node *parent,
			struct g4_path_split *split)
{
	struct g4_attr attr;
	int rc;

	rc = g4c_resolve_parent(fs, at, path, parent, split);
	if (rc)
		return rc;
	rc = check_last(split, G4_CMD_MKDIR);
	if (rc || !split->slash || directory)
		return rc;
	rc = lookup(fs, parent, split, &attr);
	return rc ? rc : -EEXIST;
}

/*
 * Runs a command that makes or removes a name, and where it is that name's directory is walked to on the way. Otherwise *rc is to be
 * found out step by step: the walk's errors come before those of the last component.
 */
static bool run_at_once(gpu4fs *fs, uint32_t op, gpu4fs_file *at, const char *path, bool directory, struct g4_cmd *cmd,
			int *rc)
{
	const uint32_t checked_as = op == G4_CMD_UNLINK || op == G4_CMD_RMDIR ? op : G4_CMD_MKDIR;
	struct g4_path_split split;
	struct g4c_node start;

	if (g4c_split_path(path, &split) || g4c_start_of(fs, at, split.absolute, &start) ||
	    check_last(&split, checked_as) || (split.slash && !directory))
		return false;
	*rc = run_on_path(fs, op, &start, &split, cmd);
	return true;
}

int gpu4fs_mkdir(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode)
{
	struct g4_cmd cmd = {.mode = mode & G4C_MKDIR_MODE};
	struct g4_path_split split;
	struct g4c_node parent;
	int rc;

	if (run_at_once(fs, G4_CMD_MKDIR, at, path, true, &cmd, &rc))
		return rc;
	rc = place_of_new(fs, at, path, true, &parent, &split);
	if (rc)
		return rc;
	return run_on_name(fs, G4_CMD_MKDIR, &parent, &split, &cmd);
}

int gpu4fs_mknod(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode, uint64_t rdev)
{
	struct g4_cmd cmd = {0};
	struct g4_path_split split;
	struct g4c_node parent;
	int rc;

	switch (mode & S_IFMT) {
	case 0:
		mode |= S_IFREG;
		break;
	case S_IFREG:
	case S_IFIFO:
	case S_IFSOCK:
		break;
	case S_IFCHR:
	case S_IFBLK:
		cmd.rdev = rdev;
		break;
	case S_IFDIR:
		return -EPERM;
	default:
		return -EINVAL;
	}
	rc = place_of_new(fs, at, path, false, &parent, &split);
	if (rc)
		return rc;
	if ((S_ISCHR(mode) || S_ISBLK(mode)) && fs->cred.uid != 0)
		return -EPERM;
	cmd.mode = mode & (S_IFMT | 07777);
	return run_on_name(fs, G4_CMD_MKNOD, &parent, &split, &cmd);
}

int gpu4fs_symlink(gpu4fs *fs, const char *target, gpu4fs_file *at, const char *path)
{
	struct g4_cmd cmd = {0};
	struct g4_path_split split;
	struct g4c_node parent;
	size_t bytes;
	int rc;

	bytes = target ? strnlen(target, G4C_PATH_MAX) : 0;
	if (bytes == 0)
		return -ENOENT;
	if (bytes >= G4C_PATH_MAX)
		return -ENAMETOOLONG;
	cmd.name2 = target;
	cmd.name2_bytes = (uint16_t)bytes;
	if (run_at_once(fs, G4_CMD_SYMLINK, at, path, false, &cmd, &rc))
		return rc;
	rc = place_of_new(fs, at, path, false, &parent, &split);
	if (rc)
		return rc;
	return run_on_name(fs, G4_CMD_SYMLINK, &parent, &split, &cmd);
}

/* Gives an inode a name. */
static int link_node(gpu4fs *fs, const struct g4_attr *attr, gpu4fs_file *to_at, const char *to)
{
	struct g4_cmd cmd = {.op = G4_CMD_LINK, .cred = &fs->cred};
	struct g4c_node parent;
	struct g4_path_split split;
	int rc;

	rc = place_of_new(fs, to_at, to, false, &parent, &split);
	if (rc)
		return rc;
	g4c_set_node(&cmd, g4c_node_of(attr));
	g4c_set_node2(&cmd, parent);
	cmd.name2 = split.name;
	cmd.name2_bytes = (uint16_t)split.name_bytes;
	return g4c_run(fs->mount->engine, &cmd);
}

int gpu4fs_link(gpu4fs *fs, gpu4fs_file *from_at, const char *from, gpu4fs_file *to_at, const char *to, int flags)
{
	struct g4_attr attr;
	uint32_t attempts = 0;
	int rc;

	if (flags & ~AT_SYMLINK_FOLLOW)
		return -EINVAL;
	do {
		rc = g4c_resolve(fs, from_at, from, flags & AT_SYMLINK_FOLLOW, &attr);
		if (rc == 0)
			rc = link_node(fs, &attr, to_at, to);
	} while (g4c_again(rc, &attempts));
	return gone(rc);
}

int gpu4fs_link_file(gpu4fs_file *file, gpu4fs_file *to_at, const char *to)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .handle = file->handle, .attr = &attr};
	int rc;

	rc = g4c_run(file->engine, &cmd);
	if (rc)
		return rc;
	if (attr.nlink == 0 && !__atomic_load_n(&file->linkable, __ATOMIC_RELAXED))
		return -ENOENT;
	rc = link_node(file->fs, &attr, to_at, to);
	if (rc == 0) /* unlinked again, it is a removed file like any other */
		__atomic_store_n(&file->linkable, 0, __ATOMIC_RELAXED);
	return rc;
}

/* ------------------------------------------------------------------ removing names */

int gpu4fs_unlink(gpu4fs *fs, gpu4fs_file *at, const char *path)
{
	struct g4_cmd cmd = {0};
	struct g4_path_split split;
	struct g4_attr attr;
	struct g4c_node parent;
	int rc;

	if (run_at_once(fs, G4_CMD_UNLINK, at, path, false, &cmd, &rc))
		return rc;
	rc = g4c_resolve_parent(fs, at, path, &parent, &split);
	if (rc)
		return rc;
	rc = check_last(&split, G4_CMD_UNLINK);
	if (rc)
		return rc;
	if (split.slash) {
		rc = lookup(fs, &parent, &split, &attr);
		if (rc)
			return rc;
		return S_ISDIR(attr.mode) ? -EISDIR : -ENOTDIR;
	}
	return run_on_name(fs, G4_CMD_UNLINK, &parent, &split, &cmd);
}

int gpu4fs_rmdir(gpu4fs *fs, gpu4fs_file *at, const char *path)
{
	struct g4_cmd cmd = {0};
	struct g4_path_split split;
	struct g4c_node parent;
	int rc;

	if (run_at_once(fs, G4_CMD_RMDIR, at, path, true, &cmd, &rc))
		return rc;
	rc = g4c_resolve_parent(fs, at, path, &parent, &split);
	if (rc)
		return rc;
	rc = check_last(&split, G4_CMD_RMDIR);
	if (rc)
		return rc;
	return run_on_name(fs, G4_CMD_RMDIR, &parent, &split, &cmd);
}

/* ------------------------------------------------------------------ renaming */

/* A slash at the end of either path demands a directory at the source, and for EXCHANGE at the target too. */
static int rename_check_slashes(gpu4fs *fs, const struct g4c_node *from_parent, const struct g4_path_split *from,
				const struct g4c_node *to_parent, const struct g4_path_split *to, uint32_t flags)
{
	struct g4_attr attr;
	int rc;

	if (from->slash || (to->slash && !(flags & GPU4FS_RENAME_EXCHANGE))) {
		rc = lookup(fs, from_parent, from, &attr);
		if (rc)
			return rc;
		if (!S_ISDIR(attr.mode))
			return -ENOTDIR;
	}
	if (to->slash && (flags & GPU4FS_RENAME_EXCHANGE)) {
		rc = lookup(fs, to_parent, to, &attr);
		if (rc)
			return rc;
		if (!S_ISDIR(attr.mode))
			return -ENOTDIR;
	}
	return 0;
}

/* Whether the names are in one directory, by the same way, and a name is what both paths end in: then one command does all. */
static bool rename_at_once(gpu4fs *fs, gpu4fs_file *from_at, const char *from, gpu4fs_file *to_at, const char *to,
			   struct g4_cmd *cmd, int *rc)
{
	struct g4_path_split a, b;
	struct g4c_node start;

	if (g4c_split_path(from, &a) || g4c_split_path(to, &b) || a.absolute != b.absolute || a.slash || b.slash ||
	    a.last != G4_LAST_NAME || b.last != G4_LAST_NAME || a.directory_bytes != b.directory_bytes ||
	    memcmp(a.directory, b.directory, a.directory_bytes) != 0 || (!a.absolute && from_at != to_at) ||
	    g4c_start_of(fs, from_at, a.absolute, &start))
		return false;
	g4c_set_node(cmd, start);
	g4c_set_node2(cmd, start);
	cmd->name = a.name;
	cmd->name_bytes = (uint16_t)a.name_bytes;
	cmd->name2 = b.name;
	cmd->name2_bytes = (uint16_t)b.name_bytes;
	*rc = gone(g4c_run_at(fs, cmd, a.directory, a.directory_bytes, G4_WALK_DIRECTORY | G4_WALK_BOTH));
	return true;
}

int gpu4fs_rename(gpu4fs *fs, gpu4fs_file *from_at, const char *from, gpu4fs_file *to_at, const char *to,
		  uint32_t flags)
{
	struct g4_cmd cmd = {.op = G4_CMD_RENAME, .flags = flags, .cred = &fs->cred};
	struct g4_path_split from_split, to_split;
	struct g4c_node from_parent, to_parent;
	int rc;

	G4_STATIC_ASSERT(GPU4FS_RENAME_NOREPLACE == G4_RENAME_NOREPLACE &&
				 GPU4FS_RENAME_EXCHANGE == G4_RENAME_EXCHANGE &&
				 GPU4FS_RENAME_WHITEOUT == G4_RENAME_WHITEOUT,
			 "renameat2(2)");
	if ((flags & G4_RENAME_FILES_ONLY) || !g4_rename_flags_valid(flags))
		return -EINVAL;
	if (fs->resolve_flags & G4_RESOLVE_BENEATH)
		cmd.flags |= G4_RENAME_FILES_ONLY;
	if (rename_at_once(fs, from_at, from, to_at, to, &cmd, &rc))
		return rc;
	rc = g4c_resolve_parent(fs, from_at, from, &from_parent, &from_split);
	if (rc)
		return rc;
	rc = g4c_resolve_parent(fs, to_at, to, &to_parent, &to_split);
	if (rc)
		return rc;
	rc = check_last(&from_split, G4_CMD_RENAME);
	if (rc == 0)
		rc = check_last(&to_split, flags & GPU4FS_RENAME_NOREPLACE ? G4_CMD_LINK : G4_CMD_RENAME);
	if (rc)
		return rc;
	if (from_split.slash || to_split.slash) {
		rc = rename_check_slashes(fs, &from_parent, &from_split, &to_parent, &to_split, flags);
		if (rc)
			return rc;
	}
	g4c_set_node(&cmd, from_parent);
	g4c_set_node2(&cmd, to_parent);
	cmd.name = from_split.name;
	cmd.name_bytes = (uint16_t)from_split.name_bytes;
	cmd.name2 = to_split.name;
	cmd.name2_bytes = (uint16_t)to_split.name_bytes;
	return gone(g4c_run(fs->mount->engine, &cmd));
}

/* ------------------------------------------------------------------ symbolic links */

int64_t gpu4fs_readlink(gpu4fs *fs, gpu4fs_file *at, const char *path, char *buffer, size_t bytes)
{
	char target[G4C_PATH_MAX];
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_READLINK, .length = sizeof(target), .data = target, .cred = &fs->cred};
	uint32_t attempts = 0;
	int rc;

	if (bytes == 0)
		return -EINVAL;
	do {
		rc = g4c_resolve(fs, at, path, false, &attr);
		if (rc)
			return rc;
		if (!S_ISLNK(attr.mode))
			return -EINVAL;
		g4c_set_node(&cmd, g4c_node_of(&attr));
		rc = g4c_run(fs->mount->engine, &cmd);
	} while (g4c_again(rc, &attempts));
	if (rc)
		return rc;
	if (cmd.value < bytes)
		bytes = cmd.value;
	memcpy(buffer, target, bytes);
	return (int64_t)bytes;
}
