/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk of `cp -r` and `export`: down a tree of the file system, with a directory of the target beside each of its own. `find` walks deep
 * trees so, without a target.
 *
 * It has no recursion, and of the way down only the nearest levels are open: a deeper tree takes memory for names, and neither stack nor
 * descriptors. So are few that it has left, where names are still being done. A level that was closed is opened again by ".." of the one below it, and must be the directory that it was.
 *
 * One thread walks. It lists a directory to its end, gives its names that are no directories to helpers, and then goes into each
 * directory. A directory is left, which is when it gets its attributes, when its own names are done and the walk has come back from
 * all below it.
 *
 * Each directory of the source is gone into once: an image may say that one is below itself, or in two places.
 */
#ifndef G4_CLI_DESCENT_H
#define G4_CLI_DESCENT_H

#include "cli/attach.h"

struct g4_level {
	struct g4_level *above; /* NULL: the first */
	gpu4fs_file *from;	/* NULL: closed for now; gpu4fs_stat of it is `stat` */
	struct gpu4fs_stat stat;
	/*
	 * The target: of the file system, or a descriptor of the host's (-1: none); a walk may have neither. By inode and device, or ours by
	 * inode and generation, it is known again.
	 */
	gpu4fs_file *to;
	int to_fd;
	uint64_t to_device, to_inode;
	bool is_new; /* enter() made the target */
	/* the walk's own */
	char *names; /* of directories to go into, with a 0 behind each */
	size_t names_bytes, names_room, names_done;
	uint32_t depth;
	uint32_t at_work; /* names that are being done, and the walk; at 0 the level is left */
	uint32_t users;	  /* that, and levels below; at 0 it is freed */
	bool lost;	  /* it could not be opened again */
	char name[];	  /* in the level above; of the first "" */
};

struct g4_descent {
	gpu4fs *fs;
	void *context;
	/*
	 * Opens both sides of the directory level->name of level->above, and fills in what is theirs. False: it was said why not, and
	 * what is open is closed by the walk. By the walking thread.
	 */
	bool (*enter)(struct g4_descent *descent, struct g4_level *level);
	/* A name that was listed as no directory. By any thread; `worker` is below `jobs`, and two of one number never run together. */
	void (*take)(struct g4_descent *descent, const struct g4_level *level, const char *name,
		     const struct gpu4fs_stat *stat, uint32_t worker);
	/* All of it is done, or, with complete false, not. By any thread; both sides are open, and closed behind it. */
	void (*leave)(struct g4_descent *descent, const struct g4_level *level, bool complete, uint32_t worker);
	/* What is wrong with a name of the level, or, for "", with the level. By any thread. */
	void (*failed)(struct g4_descent *descent, const struct g4_level *level, const char *name, int64_t rc);
	/* Whether a directory with this inode number is left out; it says so by itself. NULL: none is. By the walking thread. */
	bool (*skips)(struct g4_descent *descent, const struct g4_level *level, const char *name, uint64_t ino);
	/* Now and then, by the walking thread; NULL: nobody wants to know. */
	void (*tell)(struct g4_descent *descent);
	long jobs; /* threads, with the caller's */
};

/* Walks below the directories that `first` has open: from, to or to_fd, and stat. They are closed behind it, and `first` is the walk's. */
int g4_descend(struct g4_descent *descent, struct g4_level *first);
/* A level with nothing open. NULL: no memory. */
struct g4_level *g4_level_new(struct g4_level *above, const char *name);
/*
 * "BASE/…/LEVEL/name", from the first level on; for name "" the level. False: it does not fit, and `to` has the end of it, behind "...".
 */
bool g4_level_path(const char *base, const struct g4_level *level, const char *name, char *to, size_t room);
/* The same as long as it is, which the caller frees. NULL: no memory. */
char *g4_level_whole_path(const char *base, const struct g4_level *level, const char *name);

#endif
