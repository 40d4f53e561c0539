/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a restore share; restore.c tells how they work together. */
#ifndef SHREDDER_STORE_RESTORE_PARTS_H
#define SHREDDER_STORE_RESTORE_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "store/restore.h"
#include "store/restore_write.h"

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
	pthread_mutex_t links; /* what restore.c says of them */
	struct restore_linked **linked;
	atomic_ullong files, directories, others, bytes, written, errors, kept, deleted;
	uint64_t progress_ns;
};

/* One a thread; zeros at first, but for op and codec. */
struct restore_worker {
	struct restore *op;
	struct store_codec codec;
	struct store_buf blob, old;
	struct store_buf held; /* chunks that the first round has read of a file, one behind the other */
	const void *held_of;   /* which one; NULL: none */
	size_t held_at;
	struct store_run run;
};

/* ---- restore.c */
/* Gives a folder back; the last user sets what it should be and goes on with its parent. */
void restore_leave(struct restore *op, struct restore_folder *folder);
/* Above 0: what the snapshot has is newer; below: older. */
int restore_newer(const struct store_node *node, const struct stat *st);
/* The first name of a file with several; NULL: there was none yet. */
struct restore_linked *restore_find_linked(struct restore *op, const struct store_node *node);
/* It is known what became of the first name: those that wait for it are made, or told. By any thread. */
void restore_end_linked(struct restore *op, struct restore_linked *linked, bool made);

/* ---- restore_file.c */
/* Begins a file; workers end it. */
void restore_file(struct restore *op, struct restore_folder *folder, const struct store_node *node, const char *name);
/* The same of a device, which is open. */
void restore_onto(struct restore *op, struct restore_folder *folder, const struct store_node *node, const char *name,
		  int fd);
/* What the pool does, and the bytes of one of its jobs. */
void restore_job(void *member, void *user);
size_t restore_job_bytes(void);

/* ---- restore_node.c */
/* Tells about a name of a folder, and counts an error. By any thread. */
void restore_note(struct restore *op, const struct restore_folder *folder, const char *name, const char *sentence);
/* "what: errno's words" */
void restore_note_errno(struct restore *op, const struct restore_folder *folder, const char *name, const char *what);
/* Owner, attributes, mode and times of a file or directory that is open. fresh: this restore has made it; else what is right already is left alone. */
void restore_set_open(struct restore *op, const struct restore_folder *folder, const char *name, int fd,
		      const struct store_node *node, bool fresh);
/* It has them already, but for the time of its last reading. */
bool restore_is_set(const struct restore *op, int fd, const struct store_node *node);
/* The same of what is neither file nor directory, by its name: it is this one, has one name, and no attributes on either side. */
bool restore_other_is_set(const struct restore *op, const struct restore_folder *folder, const char *name,
			  const struct store_node *node);
/* That time, where the snapshot has it, of a file that has all else. */
void restore_set_atime(struct restore *op, const struct restore_folder *folder, const char *name, int fd,
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
