/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a restore share; restore.c tells how they work together. */
#ifndef SHREDDER_STORE_RESTORE_PARTS_H
#define SHREDDER_STORE_RESTORE_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "store/restore.h"

struct restore_linked;
struct store_pool;

struct restore_inode {
	dev_t device;
	ino_t inode;
};

/* A directory that is open: kept while something in it is not complete. */
struct restore_folder {
	struct restore_folder *parent;
	atomic_uint users;
	int fd;	      /* -1: of a device; and in a dry run of what is not there */
	bool fresh;   /* this restore has made it: nothing is in the way */
	bool mounted; /* something is mounted there, which is not the target itself */
	char *name;
	struct store_buf entry; /* its node; empty for the target itself */
};

struct restore {
	struct store *s;
	const struct store_restore_options *options;
	struct store_owner_map *owners; /* NULL: numbers stay */
	bool as_root;
	struct stat repository;	      /* st_ino 0: not on this machine */
	struct restore_inode *spared; /* that options->spared leads to, and links on the way */
	size_t spared_count;
	struct store_pool *pool;
	pthread_mutex_t notes;
	struct restore_linked **linked;
	atomic_ullong files, directories, others, bytes, written, errors, kept, deleted;
	uint64_t progress_ns;
};

/* ---- restore_node.c */
/* Tells about a name of a folder, and counts an error. By any thread. */
void restore_note(struct restore *op, const struct restore_folder *folder, const char *name, const char *sentence);
/* "what: errno's words" */
void restore_note_errno(struct restore *op, const struct restore_folder *folder, const char *name, const char *what);
/* Owner, attributes, mode and times of a file or directory that is open. */
void restore_set_open(struct restore *op, const struct restore_folder *folder, const char *name, int fd,
		      const struct store_node *node);
/* The same of what cannot be opened. */
void restore_set_closed(struct restore *op, const struct restore_folder *folder, const char *name,
			const struct store_node *node);

/* ---- restore_delete.c */
/* False: the snapshot was made of things in this directory, not of it, so what else there was is not known. path: in the snapshot, "/a". */
bool restore_knows(const struct store_snapshot *snapshot, const char *path);
/* Looks at options->spared. The caller frees op->spared. */
void restore_spare(struct restore *op);
/* The repository is open there, or it cannot be known. */
bool restore_is_repository(const struct restore *op, int fd);
/* Something is mounted there, be it of the same file system. */
bool restore_is_mounted(int fd);
/* Whether includes and excludes take it; *included: that of the directory above, then its own. path: in what is restored, "/a/b". */
bool restore_selects(const struct restore *op, const char *path, bool directory, bool *included);
/*
 * Deletes what a directory that is there has and the snapshot's has not, as far as it is selected. `content`: the snapshot's; path: the directory's, ""
 * or "/a".
 */
void restore_delete_others(struct restore *op, struct store_codec *codec, const struct restore_folder *folder,
			   const struct store_content *content, const char *path, bool included);
/* The same of a directory in the way of something else. -1 and errno when it stays. */
int restore_delete_directory(struct restore *op, const struct restore_folder *folder, const char *name,
			     const char *path, bool included);

#endif
