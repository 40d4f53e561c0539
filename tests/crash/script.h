/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workloads are made of. A part is one call into the file system; an operation is one to eight parts that belong
 * together, with the file and the directory that a sync after it is about.
 */
#ifndef CRASH_SCRIPT_H
#define CRASH_SCRIPT_H

#include "engine/rig.h"

enum verb {
	CREATE,
	DEVICE,
	MKDIR,
	MKDIR_ALL, /* so many levels: the path, and below it "x" in "x" */
	SYMLINK,
	LINK,
	UNLINK,
	RMDIR,
	CLEAR, /* a name of what is below the directory, the next one */
	RENAME,
	WHITEOUT, /* a rename that leaves one */
	EXCHANGE,
	WRITE,
	TRUNCATE,
	ALLOCATE,
	PUNCH,
	ZERO,
	INSERT,
	COLLAPSE,
	SET,
	REMOVE,
	CHMOD,
	CHOWN, /* the group: the owner tells whose inode it is */
	TIMES,
	COPY,	  /* from path2 */
	DEDUPE,	  /* with the same place of path2, as far as they are the same */
	DIG,	  /* what is zeros becomes a hole */
	OPEN,	  /* and keep open */
	CUT_OPEN, /* truncates what was opened last, whatever its name */
	TMPFILE,
	PRUNE,	     /* takes what has one owner from what deduplication finds */
	PRUNE_OLDER, /* the same of what was listed on the day `bytes`, or before */
	ORDER,	     /* `bytes` (enum g4_disk_order) to the disk `offset` of a set */
	SCRUB,	     /* a job begins that reads everything */
	SERVE,	     /* so many steps of jobs; 0: until none runs */
	FAIL,	     /* the disk `offset` fails its next write, and is dropped with that */
	RESTRIPE,    /* a file's policy is the level path2, and what it has is moved there */
	FSYNC,
	FDATASYNC,
	SYNCFS,
};

#define PATH_MAX_PART 24u /* system.posix_acl_access fits */
struct part {
	enum verb verb;
	char path[PATH_MAX_PART], path2[PATH_MAX_PART];
	uint64_t offset, bytes;
	uint32_t id; /* of the inode that it makes; of what it writes, 0: zeros */
	/*
	 * Goes on with the command of the part before. One command of several transactions is as many parts as states that it may leave:
	 * rehearsed one by one, and recorded as one command.
	 */
	bool rest;
};

/* Who runs parts: one thread's view of a mounted file system. */
struct actor {
	struct rig rig;
	struct g4_cred cred;
	uint64_t opened; /* inode */
	bool scrubs;	 /* beside its parts, if that is wanted */
};
/* Commands go to rig.fs through rig.wg. */
void actor_start(struct actor *actor, struct g4_fs *fs, struct g4_wg *wg);
int part_run(struct actor *actor, const struct part *part);
#define IDLE_DISK 1000u /* `offset` of what is about disks: the first one that is none of the set at first */
/* What the disks are called that parts are about, which of them is IDLE_DISK, and what makes one fail; stays the caller's. */
void part_name_disks(char (*names)[64], uint32_t idle, void (*fail)(uint32_t disk));
/* The node that a path leads to. */
int part_resolve(struct actor *actor, const char *path, uint64_t *node);
/* How many of `count` parts are one command, which *whole is. */
uint32_t part_whole(const struct part *parts, uint32_t count, struct part *whole);
bool part_is_sync(const struct part *part);
/* Whether no user sees anything of it: what is about disks. */
bool part_is_of_disks(const struct part *part);
/* One line for people. */
void part_print(const struct part *part, char *to, size_t room);

/* ---- operations ---- */
#define OPERATION_PARTS 8u
struct operation {
	const char *name;
	const char *sync_path;	 /* NULL: there is nothing left to fsync */
	const char *parent_path; /* the directory that it changes, NULL: none */
	struct part parts[OPERATION_PARTS];
};
extern const struct operation operations[];
extern const uint32_t operation_count;
const struct operation *operation_find(const char *name);
/* Ends the program where two operations make files of one id, which the judge takes for one file. */
void operations_check(void);

/* ---- trees ---- */
enum tree_kind {
	SMALL, /* a few files and directories of each kind */
	WRAP,  /* the same; the journal's next record runs over the end of the ring */
	DUE, /* the same; the journal is nearly half full when the workload begins, so that a checkpoint falls into it */
	FULL, /* the same and hardly any free space; a large attribute was just rewritten */
	WIDE, /* a directory whose only leaf is full, one that has an index; with tiny pages also some that get or lose a level,
		or divide names of one hash */
	LARGE,	/* a page of 2 MiB, for the operations that are about it: "whole-" */
	PARTS,	/* the same, but for its beginning, with sums that do not lie in a row, for "join" */
	HALVES, /* an empty file, and 2 MiB that nothing lies in, for "halves" */
	MAPS,	/* a file in parts, whose indirect pages a copy leads to, for "maps" */
	TREE_KINDS
};
/* LARGE and those behind it have operations of their own, by their names. */
bool operation_is_for(const struct operation *operation, enum tree_kind tree);
/* Whether it gives orders to disks of a set; operation_is_for() no tree, then. */
bool operation_is_of_disks(const struct operation *operation);
/* Whether it is about stripes with parity, more than one, and parts of them; the same. */
bool operation_is_of_stripes(const struct operation *operation);
extern const char *const tree_names[TREE_KINDS];
/* Fills an empty, mounted file system. */
void tree_populate(struct actor *actor, enum tree_kind kind);
/*
 * What happens after the mount and before the workload, all of it durable at the end. DUE takes so many commits, 0: as
 * many as the journal of actor->rig.fs needs. Returns how many they were.
 */
uint64_t tree_preamble(struct actor *actor, enum tree_kind kind, uint64_t commits);

#endif
