/* SPDX-License-Identifier: Apache-2.0 */
/* Making a snapshot. */
#ifndef SHREDDER_STORE_BACKUP_H
#define SHREDDER_STORE_BACKUP_H

#include <stdatomic.h>

#include "chunk/service.h"
#include "store/exclude.h"
#include "store/tree.h"

struct store_backup_stats {
	uint64_t files, directories, others; /* in the snapshot */
	uint64_t bytes;			     /* of its files, holes included */
	uint64_t unchanged_files;	     /* taken from the parent, not read */
	uint64_t read_bytes;
	uint64_t resumed_bytes; /* of files that a backup that was cut off had read */
	uint64_t ahead_bytes;	/* of large files, read by others than who cut them; at the end only */
	uint64_t new_blobs, new_bytes, stored_bytes; /* written; before and after compression and encryption */
	uint64_t written_bytes;			     /* packs and index files */
	uint64_t unread;			     /* files and directories that could not be read */
	uint64_t changed;			     /* while they were read */
	bool skipped;		 /* the snapshot would have been its parent once more, and was not stored */
	uint64_t done_bytes;	 /* read or taken over so far, holes included */
	uint64_t expected_bytes; /* how much that will be: the parent's files, or what was measured; 0: not known yet */
	struct shredder_service_state gpus; /* zeros where none were asked for; at the end only */
};

enum store_note { STORE_NOTE_UNREAD, STORE_NOTE_CHANGED, STORE_NOTE_FILE };

struct store_backup_options {
	const char *const *paths; /* absolute or not */
	size_t paths_count;
	const char *stdin_name; /* not NULL: standard input under this name, and no paths */
	const struct store_excludes *excludes;
	const char *const *exclude_if_present; /* a directory with a file of such a name is left empty */
	size_t exclude_if_present_count;
	bool exclude_caches;	/* and one whose CACHEDIR.TAG says that it is a cache (bford.info/cachedir) */
	uint64_t largest_bytes; /* larger files are left out; 0: none are */
	const char *host;
	char **tags;
	size_t tags_count;
	const struct store_time *time; /* that the snapshot has; NULL: now */
	/* Called when everything was read, before the snapshot is stored; anything but 0, with a sentence, ends the backup without one. NULL: nothing. */
	int (*was_read)(void *user);
	bool skip_unchanged; /* no snapshot where a restore of the parent would give the same; not in a dry run */
	const struct store_snapshot *parent; /* NULL: everything is read */
	bool one_file_system, dry_run;
	/* Of a file whose size and mtime are the parent's contents are, too, whatever its ctime, and with ignore_inode its inode; metadata is saved anew. */
	bool ignore_ctime, ignore_inode;
	bool with_atime;	   /* entries have access times; the format has to be STORE_VERSION_ATIME */
	const char *resume_folder; /* notes about files of resume_bytes and more (resume.h); NULL: none are taken */
	uint64_t resume_bytes;
	size_t names_bytes;   /* of memory for the names of a directory (names.h); 0: STORE_NAMES_BYTES */
	uint32_t waiting_max; /* entries of a directory that wait for one before them; 0: BACKUP_WAITING_MAX */
	int level;
	uint32_t threads; /* 0: one a processor */
	/* What cuts and hashes, as in struct shredder_options; NULL: auto. "auto" opens GPUs for the first large file, "cuda" at once, for small ones, too. */
	const char *engine;
	const uint32_t *gpus;
	uint32_t gpus_count;
	/* Called by any thread, one at a time. FILE: it was read (not taken from the parent). */
	void (*note)(void *user, enum store_note note, const char *path, const char *sentence);
	/* Every so often, by any thread, one at a time. With it and without a parent, a thread measures what is to be read. */
	void (*progress)(void *user, const struct store_backup_stats *stats);
	void *user;
	bool tell_files;
};

/*
 * 0 and the snapshot, which is stored unless dry_run, or stats->skipped. `stats` also after an error. Files that cannot be read are told, counted and
 * left out. The lock and the index are the caller's.
 */
int store_backup(struct store *s, const struct store_backup_options *options, struct store_snapshot *snapshot,
		 struct store_backup_stats *stats);
/* Bytes of the files below paths, as a backup with these options would count them; ends early when `stop` becomes true. */
uint64_t store_measure(char *const *paths, size_t count, const struct store_backup_options *options,
		       const atomic_bool *stop);
/* Absolute, without "." and empty components; ".." and what is before it as the kernel takes it. NULL: there is no such thing. */
char *store_absolute(const char *path);

#endif
