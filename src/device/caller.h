/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device-API callers: workgroups that are not the engine's own and run operations on a mounted file system all the same. On a GPU a
 * caller is a warp of somebody's kernel; gpu4fs/gpu4fs_device.h is what its programmer sees, src/client/cuda/device.cu the
 * wrapper. Everything here works in every build.
 *
 * A caller executes its operations itself, as the calling thread does on a CPU. It needs nobody else: no ring, no worker, no
 * kernel of the engine's has to run.
 *
 * It acts for the same user all the time: the credentials and the directory that its struct g4_callers was made with.
 *
 * Leader, thread-safe, unless a function says otherwise. Results that all lanes want (attributes, a file, a page) lie in
 * the caller's own memory, where the lanes read them when the leader is done.
 */
#ifndef G4_DEVICE_CALLER_H
#define G4_DEVICE_CALLER_H

#include "fs/fs.h"

/* An open file. Plain data: any caller of the same g4_callers may use a copy, side by side with others. */
struct g4_caller_file {
	uint64_t handle;
	uint64_t key; /* owner of its pages in the cache */
	uint64_t ino;
};

/* A page of a file in the cache. */
struct g4_caller_page {
	const void *data; /* G4_PAGE_BYTES bytes; zeros behind the end of the file */
	uint32_t line;
	uint32_t bytes; /* how many of them were the file's when it was mapped */
};

#if G4_CUDA
#define G4_CALLER_LANES G4_WARP_LANES
#elif defined(G4_LANES)
#define G4_CALLER_LANES G4_LANES
#else
#define G4_CALLER_LANES 1
#endif

/* What one lane wants of a call in which each has its own, and what it gets. */
struct g4_caller_lane {
	union {
		const char *name; /* lookup: where this lane can read; need not be memory that others reach */
		void *to;	  /* read: memory that all lanes reach */
	};
	uint64_t bytes; /* of the name or the range; 0: nothing is wanted, the result is 0 */
	uint64_t offset;
	bool wants_attr; /* lookup: not the number alone */
	int64_t result;	 /* as the function for one would have returned it */
	uint64_t ino;
	struct g4_caller_page page;
};
G4_STATIC_ASSERT(sizeof(struct g4_caller_lane) == 64, "one cache line");

/* A slot for one workgroup. */
struct g4_caller {
	uint32_t busy;
	uint32_t padding0;
	struct g4_callers *callers; /* constant, as the workgroup */
	struct g4_wg *wg;
	void *scratch; /* G4_COPY_SCRATCH_BYTES of scratch memory for what a call needs around its operations */
	uint32_t mark; /* of the arena before that */
	uint32_t padding2;
	struct g4_attr attr; /* results */
	struct g4_caller_file file;
	struct g4_caller_page page;
	uint64_t cookie;
	/* calls in which each lane has its own (caller_each.c) */
	uint32_t each;	/* which call */
	uint32_t index; /* its file or directory; G4_NO_INODE: the lanes cannot do anything themselves */
	uint64_t done;	/* lanes that got what they wanted; the rest is the leader's */
	uint64_t left;
	struct g4_caller_lane lane[G4_CALLER_LANES];
	uint8_t padding1[64]; /* `busy` of the next one lies in another cache line */
};

/* What callers of the device API have in common; made by the host. */
struct g4_callers {
	struct g4_fs *fs;
	struct g4_caller *caller;
	uint32_t count;
	uint32_t padding;
	uint64_t start; /* the directory in which relative paths start */
	struct g4_cred cred;
};

/* A command of its session, otherwise zero. */
G4_FN G4_INLINE struct g4_cmd g4_caller_command(const struct g4_caller *caller, uint32_t op)
{
	struct g4_cmd cmd;

	memset(&cmd, 0, sizeof(cmd));
	cmd.op = op;
	cmd.cred = &caller->callers->cred;
	return cmd;
}
G4_FN G4_INLINE int g4_caller_run(struct g4_caller *caller, struct g4_cmd *cmd)
{
	return g4_execute(caller->wg, caller->callers->fs, cmd);
}
/* How often a path is walked again when the inode that it led to is gone before it is used. */
#define G4_CALLER_ATTEMPTS 16u

struct g4_caller_open {
	uint32_t flags; /* G4_OPEN_* */
	uint32_t mode;	/* of a new file */
	bool create, nofollow, noatime;
};

/*
 * A slot that no other has until g4_caller_leave(); looks from number `hint` on. While all are taken it waits: for
 * callers of the device API that are inside, which must not wait for this one.
 */
G4_FN struct g4_caller *g4_caller_enter(struct g4_callers *callers, uint32_t hint);
G4_FN void g4_caller_leave(struct g4_caller *caller);

/*
 * Paths start at `at`, an open directory; NULL: at callers->start. They are followed to their end, with `nofollow` not
 * through a symbolic link there. With `create` such a link is never followed: -G4_E_LOOP.
 */
/* caller->file is the file; give it back with g4_caller_close(). */
G4_FN int g4_caller_open(struct g4_caller *caller, const struct g4_caller_file *at, const char *path,
			 uint64_t path_bytes, const struct g4_caller_open *how);
/* Pages of it may stay mapped. */
G4_FN int g4_caller_close(struct g4_caller *caller, const struct g4_caller_file *file);
/* Bytes read or written, or a negative code. Memory that all lanes reach. */
G4_FN int64_t g4_caller_read(struct g4_caller *caller, const struct g4_caller_file *file, uint64_t offset, void *to,
			     uint64_t bytes);
G4_FN int64_t g4_caller_write(struct g4_caller *caller, const struct g4_caller_file *file, uint64_t offset,
			      const void *from, uint64_t bytes);
G4_FN int g4_caller_fsync(struct g4_caller *caller, const struct g4_caller_file *file);
/* These three leave the attributes in caller->attr. */
G4_FN int g4_caller_stat(struct g4_caller *caller, const struct g4_caller_file *at, const char *path,
			 uint64_t path_bytes, bool nofollow);
G4_FN int g4_caller_fstat(struct g4_caller *caller, const struct g4_caller_file *file);
/* One name in a directory; a symbolic link itself. */
G4_FN int g4_caller_lookup(struct g4_caller *caller, const struct g4_caller_file *dir, const char *name,
			   uint64_t name_bytes);
/*
 * Fills `to` with struct g4_dirent records from `cookie` on, without "." and ".."; their bytes, 0 at the end. caller->cookie
 * is where to go on.
 */
G4_FN int64_t g4_caller_readdir(struct g4_caller *caller, const struct g4_caller_file *dir, uint64_t cookie, void *to,
				uint64_t bytes);

/* ---- changing names (caller_names.c), as the functions of gpu4fs.h do ---- */
struct g4_caller_path {
	const struct g4_caller_file *at; /* where it starts, as above */
	const char *text;
	uint64_t bytes;
};
G4_FN int g4_caller_mkdir(struct g4_caller *caller, const struct g4_caller_path *path, uint32_t mode);
G4_FN int g4_caller_symlink(struct g4_caller *caller, const char *target, uint64_t bytes,
			    const struct g4_caller_path *path);
/* follow: of a symbolic link at the end of `from`, what it leads to. */
G4_FN int g4_caller_link(struct g4_caller *caller, const struct g4_caller_path *from, const struct g4_caller_path *to,
			 bool follow);
G4_FN int g4_caller_unlink(struct g4_caller *caller, const struct g4_caller_path *path);
G4_FN int g4_caller_rmdir(struct g4_caller *caller, const struct g4_caller_path *path);
/* flags: 0 or one of G4_RENAME_*. */
G4_FN int g4_caller_rename(struct g4_caller *caller, const struct g4_caller_path *from, const struct g4_caller_path *to,
			   uint32_t flags);
/*
 * A BATCH: its data (fs/command.h) lies in memory that all workgroups reach, for the engine's own may help. Bytes of entries and
 * attributes, or a negative code of them all.
 */
G4_FN int64_t g4_caller_batch(struct g4_caller *caller, const struct g4_caller_file *at, void *data, uint64_t bytes,
			      uint32_t count, uint32_t flags);
/* Of a file that is open for writing: -G4_E_INVAL. */
G4_FN int g4_caller_truncate(struct g4_caller *caller, const struct g4_caller_file *file, uint64_t size);

/* ---- space (caller_space.c) ---- */
/* mode: G4_FALLOC_*. */
G4_FN int g4_caller_fallocate(struct g4_caller *caller, const struct g4_caller_file *file, uint32_t mode,
			      uint64_t offset, uint64_t bytes);
/* flags: G4_COPY_*. The bytes that are copied, shared or the same; a negative code only where there are none. Changes caller->attr. */
G4_FN int64_t g4_caller_copy(struct g4_caller *caller, const struct g4_caller_file *from, uint64_t from_offset,
			     const struct g4_caller_file *to, uint64_t to_offset, uint64_t bytes, uint32_t flags);

/* Per-lane. Whether it was opened for reading, which g4_caller_map() and g4_caller_peek() ask for. */
G4_FN bool g4_caller_may_read(const struct g4_caller_file *file);
/*
 * References page `page` of a file: caller->page. pin: it stays until g4_caller_unmap() and counts against the cache's
 * limit, -G4_E_NOMEM where that is reached. Without, the caller lets it go before it does anything else.
 * The page is what the file holds now. Later writes to it may be seen in it, in whole, in part or not at all; no other
 * file's data ever is. -G4_E_NXIO: behind the end of the file.
 */
G4_FN int g4_caller_map(struct g4_caller *caller, const struct g4_caller_file *file, uint64_t page, bool pin);
/* Takes no caller: may be called after it has left. */
G4_FN void g4_caller_unmap(struct g4_callers *callers, uint32_t line, bool pinned);
/*
 * Per-lane, never waits. The data of a page that lies in the cache, or NULL; what it gives goes back with
 * g4_caller_unpeek() before the lane does anything else. The caller knows that the page is the file's.
 */
G4_FN const void *g4_caller_peek(struct g4_callers *callers, const struct g4_caller_file *file, uint64_t page,
				 uint32_t *line);
G4_FN void g4_caller_unpeek(struct g4_callers *callers, uint32_t line);

/* ---- each lane its own: caller->lane[] says what and gets the results ---- */
/* Names in one directory: g4_caller_lookup(). lane.ino, and with wants_attr g4_caller_attr_of(). */
G4_FN void g4_caller_lookup_each(struct g4_caller *caller, const struct g4_caller_file *dir);
/* Ranges of one file: g4_caller_read(). */
G4_FN void g4_caller_read_each(struct g4_caller *caller, const struct g4_caller_file *file);
/* Pages of one file, pinned: g4_caller_map(), of the page that holds lane.offset. UINT64_MAX: none, -G4_E_NXIO. lane.page. */
G4_FN void g4_caller_map_each(struct g4_caller *caller, const struct g4_caller_file *file);
/*
 * Per-lane, never waits. Lets a mapped page go, all but its pin: g4_caller_unpin(). False: it is the leader's, by
 * g4_caller_unmap() without pin.
 */
G4_FN bool g4_caller_unmap_lane(struct g4_callers *callers, uint32_t line);
/* Per-lane. */
G4_FN void g4_caller_unpin(struct g4_callers *callers, uint32_t count);
/* Per-lane. What a lookup found for a lane; until the caller's next call. */
G4_FN struct g4_attr *g4_caller_attr_of(const struct g4_caller *caller, uint32_t lane);
/* What the other lanes of a caller do until their leader dismisses them. */
G4_FN void g4_caller_serve(struct g4_wg *wg);

/* ---- between the files ---- */
struct g4_caller_name { /* of a name that a path ends in */
	uint64_t node;
	uint32_t generation;
	struct g4_path_split split;
};
/* Walks what is in front of the last component. */
G4_FN int g4_caller_find(struct g4_caller *caller, const struct g4_caller_path *path, struct g4_caller_name *ending);
/* A command about the inode that a path led to (caller->attr), and no other that has its number by now. */
G4_FN void g4_caller_set_node(struct g4_cmd *cmd, const struct g4_caller *caller);
/* A command's name, or its second one. */
G4_FN void g4_caller_set_name(struct g4_cmd *cmd, const struct g4_caller_name *ending);
G4_FN void g4_caller_set_name2(struct g4_cmd *cmd, const struct g4_caller_name *ending);
/* Whether to walk again: the inode that the path led to was gone when it was used. */
G4_FN bool g4_caller_again(int rc, uint32_t *attempts);
/* caller.c to caller_each.c, per-lane: the in-core inode of an open file. -G4_E_BADF: it is none. */
G4_FN int g4_caller_index(struct g4_fs *fs, const struct g4_caller_file *file, uint32_t *inode);

#endif
