/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a snapshot back. */
#ifndef SHREDDER_STORE_RESTORE_H
#define SHREDDER_STORE_RESTORE_H

#include "store/exclude.h"
#include "store/tree.h"

struct store_restore_stats {
	uint64_t files, directories, others;
	uint64_t bytes;		/* of files, holes included */
	uint64_t written_bytes; /* what was not there already */
	uint64_t errors;
	uint64_t kept;	  /* that `overwrite` left as they are */
	uint64_t deleted; /* or would be, in a dry run */
};

/* What happens to what is there under the name of something that is no directory. */
enum store_overwrite {
	STORE_OVERWRITE_ALWAYS,	    /* its contents become what they should be, whatever they are */
	STORE_OVERWRITE_IF_CHANGED, /* a file of the same size and modification time has the right contents */
	STORE_OVERWRITE_IF_NEWER,   /* it stays unless what the snapshot has is newer */
	STORE_OVERWRITE_NEVER	    /* it stays */
};

struct store_restore_options {
	const char *target;  /* made when it is not there */
	const char *device;  /* not NULL: no target, but the one file that subpath names onto this block device */
	const char *subpath; /* of the snapshot; NULL: "/" */
	const struct store_excludes *excludes;
	const struct store_excludes
		*includes; /* only what matches, what is below it and the directories above it; NULL: everything */
	enum store_overwrite overwrite;
	bool delete_others; /* of directories that are restored into: what the snapshot does not have, as far as excludes and includes take it */
	const char *const
		*spared; /* paths on this machine of files that delete_others leaves, whatever the snapshot has */
	size_t spared_count;
	bool dry_run;
	bool no_owner;	  /* owners stay the caller's; always so without root */
	bool owner_names; /* owners are those who have their names here, where the snapshot says them */
	uint32_t threads; /* 0: one a processor */
	/* A path that could not be restored as it was; by any thread, one at a time. */
	void (*note)(void *user, const char *path, const char *sentence);
	/* What is deleted, in a dry run would be: its path in what is restored; as `note`. NULL: nobody is told. */
	void (*deleted)(void *user, const char *path, bool directory);
	void (*progress)(void *user, const struct store_restore_stats *stats);
	void *user;
};

/*
 * Files that are there are compared chunk by chunk and written where they differ, so an interrupted restore goes on; but nothing of a file is changed
 * before all that it lacks could be read. A new file that cannot be completed is left out. What
 * is in the way and no directory is removed; what the snapshot does not have stays, unless delete_others. No link is followed and no name leaves the
 * target. A device is compared and written in the same way; what it holds behind the file's size stays. 0 also with stats->errors; an error when nothing more can be done.
 */
int store_restore(struct store *s, const struct store_snapshot *snapshot, const struct store_restore_options *options,
		  struct store_restore_stats *stats);

struct store_verify_result {
	uint64_t files, bytes; /* that were read */
	uint64_t errors;       /* files that are not what the snapshot has, or cannot be read; each is noted */
};
/*
 * Reads all files again that a restore with these options writes, and compares sizes and contents with what the snapshot has. Nothing is fetched but
 * directories. 0 also with errors; an error when the snapshot itself cannot be read.
 */
int store_restore_verify(struct store *s, const struct store_snapshot *snapshot,
			 const struct store_restore_options *options, struct store_verify_result *result);

#endif
