/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgpu4fs inside: the objects behind the public handles and the helpers that its files share.
 *
 * The client holds no file-system state of its own. It translates a call to a command (fs/command.h), fills in which user
 * asks, and turns private codes into errno. What it keeps is what the kernel keeps above a file system: file
 * positions, credentials, advisory locks. Objects count what hangs on them, so that unmount can refuse.
 *
 * Inode numbers are not pinned between two commands. Where a path is resolved by one command and used by the next, the
 * inode may be removed in between: the engine says ESTALE, and the walk starts again, because the name may lead to
 * another inode now and may never have been missing. Commands carry the generation beside the number, in case the number
 * was given to another inode. A directory in which a name is made or removed, gone itself meanwhile, is ENOENT.
 */
#ifndef G4_CLIENT_H
#define G4_CLIENT_H

#include <errno.h>
#include <pthread.h>

#include "client/convert.h"
#include "client/mirror.h"
#include "client/pages.h"
#include "engine/engine.h"
#include "fs/path.h"
#include "gpu4fs/gpu4fs.h"
#include "ring/client_host.h"

#define G4C_PATH_MAX 4096u /* with terminator */
#define G4C_NAME_MAX 255u
#define G4C_LINKS_MAX 40u
#define G4C_FILE_MAX_BYTES INT64_MAX
#define G4C_IO_MAX_BYTES (UINT64_C(0x80000000) - 4096)

struct g4c_locks;
struct g4c_pool;

/* One mounted file system; all its sessions share it. */
struct g4c_mount {
	struct g4_engine *engine;
	struct g4c_locks *locks;
	pthread_mutex_t pool_lock; /* guards the creation of pool */
	struct g4c_pool *pool;	   /* NULL until the first submit; read with acquire order */
	uint32_t pool_threads;
	uint32_t sessions; /* beside the first; atomic */
};

struct gpu4fs {
	struct g4c_mount *mount;
	bool primary;	  /* made by gpu4fs_mount() */
	uint32_t users;	  /* open handles and streams; atomic */
	gpu4fs_file *cwd; /* NULL: the root */
	pthread_mutex_t async_lock;
	pthread_cond_t async_done; /* a completion was appended, or in_flight became 0; on CLOCK_MONOTONIC */
	struct gpu4fs_async *done_head, *done_tail; /* guarded by async_lock, linked by reserved[0] */
	uint64_t in_flight;	   /* submitted and not yet appended to the list; guarded by async_lock */
	struct g4_cred cred;	   /* constant, but for umask (beneath.h) */
	uint32_t resolve_flags;	   /* G4_RESOLVE_BENEATH or nothing (beneath.h) */
	struct g4c_mirror *mirror; /* of what this session was told; NULL: the engine is here, or tells no epochs */
	struct g4c_pages *pages;   /* of what this session has read; NULL: as above */
	struct g4c_foresight *foresight; /* of what it has listed (foresight.c); NULL: nothing yet; atomic */
	g4c_deliver *deliver;		 /* puts bytes into callers' memory; NULL: memcpy() does */
};

struct gpu4fs_file {
	struct g4_engine *engine;
	uint64_t handle;
	uint64_t ino;
	uint64_t generation;
	uint64_t token;
	gpu4fs *fs;
	uint32_t format;	   /* S_IFMT bits of the mode */
	uint32_t flags;		   /* G4_OPEN_* */
	uint32_t linkable;	   /* O_TMPFILE without O_EXCL */
	uint32_t has_locks;	   /* a lock was ever taken through this handle; atomic */
	uint32_t epoch;		   /* read.c; this and the next two are atomic, and hints */
	uint32_t window;	   /* pages that a sequential reader was given last */
	uint64_t next_read;	   /* where the last read ended */
	uint64_t size_hint;	   /* of the file, when it was last told; atomic */
	struct g4c_stream *stream; /* stream.c; NULL: none yet; atomic */
	pthread_mutex_t position_lock;
	uint64_t position;
};

/* ------------------------------------------------------------------ pure helpers, flags.c; also convert.h */

/* g4_path_cut() of a string that may be NULL; errors as errno. */
int g4c_split_path(const char *path, struct g4_path_split *out);

/* Times: signed nanoseconds since 1970, saturating. */
int64_t g4c_time_to_ns(const struct timespec *time);
/* Translates utimensat(2)'s times to G4_SET_* bits and attributes; -EINVAL for nanoseconds out of range. */
int g4c_times_to_mask(const struct timespec times[2], uint32_t *mask, struct g4_attr *attr);

/*
 * Copies a versioned structure that the caller filled in: bytes that it does not have read as zero. -EINVAL if it is
 * smaller than minimum, -E2BIG if it is larger than bytes and something is set beyond. NULL gives zeros.
 */
int g4c_copy_versioned(void *out, size_t bytes, const void *from, size_t minimum);

/* ------------------------------------------------------------------ shared between files */

/* Runs a command; 0 or a negative errno. */
static inline int g4c_run(struct g4_engine *engine, struct g4_cmd *cmd)
{
	int rc = g4_engine_execute(engine, cmd);

	return __builtin_expect(rc < 0, 0) ? -g4_errno(rc) : 0;
}

/* Whether to walk again: the inode that the path led to was gone when it was used. */
#define G4C_ATTEMPTS 16u
static inline bool g4c_again(int64_t rc, uint32_t *attempts)
{
	return __builtin_expect(rc == -ESTALE, 0) && ++*attempts < G4C_ATTEMPTS;
}

/* Finds the node that a path names (path.c). follow: also through a symbolic link at the end. */
int g4c_resolve(gpu4fs *fs, gpu4fs_file *at, const char *path, bool follow, struct g4_attr *attr);
/* The same of a directory, of which the command is then; -ENOTDIR: it is none (path.c). */
int g4c_resolve_directory(gpu4fs *fs, gpu4fs_file *at, const char *path, bool follow, struct g4_attr *attr,
			  struct g4_cmd *cmd);
/* access(2) of a path, links followed; mode: G4_ACCESS_*, not 0 (path.c). */
int g4c_access(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode);
/* Attributes by handle (path.c). */
int g4c_stat_handle(gpu4fs_file *file, struct g4_attr *attr);
/* The same, and what that depends on: trail->count 0: nobody knows. */
int g4c_stat_handle_noting(gpu4fs_file *file, struct g4_attr *attr, struct g4_trail *trail);
/* The same without a command. False: the mirror does not know (path.c). */
bool g4c_was_told_of_handle(gpu4fs_file *file, struct g4_attr *attr, struct g4_trail *trail);
/* Reads by a handle that may: bytes, fewer at the end of the file, or a negative errno (read.c). */
int64_t g4c_read(gpu4fs_file *file, void *buffer, size_t bytes, uint64_t offset);
/*
 * The same by several READs side by side, where it is sequential also of what lies behind these bytes (stream.c). epoch: the file's.
 * False: a command is to do it. *done: as g4c_read(); *more: commands are to read the rest.
 */
bool g4c_stream_read(gpu4fs_file *file, uint16_t epoch, void *buffer, size_t bytes, uint64_t offset, bool sequential,
		     int64_t *done, bool *more);
/* Of a handle that goes. */
void g4c_stream_free(gpu4fs_file *file);
/* Puts bytes that were read into the memory of who reads: how many, or -EFAULT. */
static inline int64_t g4c_give(const gpu4fs_file *file, void *buffer, const uint8_t *from, size_t bytes)
{
	if (!file->fs->deliver)
		memcpy(buffer, from, bytes);
	else if (!file->fs->deliver(buffer, from, bytes))
		return -EFAULT;
	return (int64_t)bytes;
}
/*
 * What a listing tells (foresight.c): begin, names, end. goes_on: it is not the first part of it. NULL: nothing is to be told. bytes: of the name.
 */
struct g4c_foresight *g4c_foresight_begin(gpu4fs_file *directory, bool goes_on);
void g4c_foresight_add(struct g4c_foresight *f, const char *name, uint32_t bytes);
void g4c_foresight_end(struct g4c_foresight *f);
/* A RESOLVE whose answer was foreseen: *rc, *cmd->attr and *trail are that. False: a command is to be asked; cmd is as before, but for its result. */
bool g4c_foresee(gpu4fs *fs, const struct g4c_question *question, struct g4_cmd *cmd, struct g4_trail *trail, int *rc);
void g4c_foresight_free(gpu4fs *fs);
/* An inode as a command names it. */
struct g4c_node {
	uint64_t ino;
	uint32_t generation; /* 0: any */
	uint64_t token;
};
static inline struct g4c_node g4c_node_of(const struct g4_attr *attr)
{
	return (struct g4c_node){attr->ino, (uint32_t)attr->generation, attr->token};
}
static inline struct g4c_node g4c_node_of_file(const gpu4fs_file *file)
{
	return (struct g4c_node){file->ino, (uint32_t)file->generation, file->token};
}
/* Keeps of a handle what the mirror knows of the path by which it was opened just now, if that leads to it (path.c). */
void g4c_tell_of_handle(gpu4fs_file *file, const struct g4c_node *start, const char *path, uint32_t bytes, bool follow);
/* Where a walk starts; -ENOTDIR when it would start at a file (path.c). */
int g4c_start_of(gpu4fs *fs, gpu4fs_file *at, bool absolute, struct g4c_node *node);
/* Makes it the node of a command, or the node2. */
static inline void g4c_set_node(struct g4_cmd *cmd, struct g4c_node node)
{
	cmd->node = node.ino;
	cmd->generation = node.generation;
	cmd->token = node.token;
}
static inline void g4c_set_node2(struct g4_cmd *cmd, struct g4c_node node)
{
	cmd->node2 = node.ino;
	cmd->generation2 = node.generation;
	cmd->token2 = node.token;
}
/* Finds the directory that the last component lives in, and that component. */
int g4c_resolve_parent(gpu4fs *fs, gpu4fs_file *at, const char *path, struct g4c_node *parent,
		       struct g4_path_split *split);
/*
 * Runs a command about the inode that `bytes` bytes of a path lead to from its node, together with that walk; flags: G4_RESOLVE_* and
 * G4_WALK_* beside those of the session. 0 or a negative errno.
 */
int g4c_run_at(gpu4fs *fs, struct g4_cmd *cmd, const char *path, uint32_t bytes, uint32_t flags);
/* Makes a handle of what a command returned. On failure the engine's handle is released. */
int g4c_file_new(gpu4fs *fs, const struct g4_cmd *opened, const struct g4_attr *attr, uint32_t flags, bool linkable,
		 gpu4fs_file **out);
/* The file size by handle. */
int g4c_file_size(gpu4fs_file *file, uint64_t *size);

struct g4c_locks *g4c_locks_new(void);
void g4c_locks_free(struct g4c_locks *locks);
/* Drops everything that was locked through the handle. */
void g4c_locks_close(gpu4fs_file *file);

/* Writes the sentence that gpu4fs_last_message() gives, and returns the error (mount.c). */
int g4c_say(int error, const char *text);
/* That sentence's buffer, for functions that write one. */
char *g4c_message(size_t *bytes);
/* Checks the credentials that a caller gave; NULL: the process's. *cwd: the working directory, NULL: none. */
int g4c_credentials(const struct gpu4fs_credentials *given, struct g4_cred *cred, const char **cwd);
/* Makes the first session of an engine, which it then owns, also on failure. */
int g4c_open_engine(struct g4_engine *engine, uint32_t threads, const struct g4_cred *cred, const char *cwd,
		    gpu4fs **out);

/* Stops and frees the worker threads, if there are any; nothing is in flight any more. */
void g4c_pool_free(struct g4c_mount *mount);
/* True if operations of the session are in flight or were not collected. */
bool g4c_async_busy(gpu4fs *fs);

#endif
