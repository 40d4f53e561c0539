/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a backup share; backup.c tells how they work together. */
#ifndef SHREDDER_STORE_BACKUP_PARTS_H
#define SHREDDER_STORE_BACKUP_PARTS_H

#include <pthread.h>
#include <sys/stat.h>

#include "store/backup.h"
#include "store/backup_ahead.h"
#include "store/cutter.h"
#include "store/resume.h"

/* One name of a directory that the walker has come to: its entry once it is complete. It goes when that is written. */
struct backup_slot {
	struct backup_folder *folder;
	struct backup_slot *next; /* behind it in the directory */
	uint8_t *entry;
	uint32_t bytes;
	bool complete; /* neither `entry` nor `added` then: left out */
	bool added;    /* to the folder's piece already */
	bool device;   /* a block device that was named: read as a file */
	char name[];
};

/*
 * Names of one directory that may be waiting for one before them: the walker waits then. An entry of a small file has a hundred bytes, so these are
 * some MiB.
 */
#define BACKUP_WAITING_MAX 32768u

/* Guarded by backup.tree, but for what the walker alone uses. */
struct backup_folder {
	struct backup_folder *parent;
	struct backup_slot *slot; /* in the parent */
	char *name;		  /* "" for the root */
	int fd;
	struct stat st; /* st_mode 0: the root, which no file system has */
	struct store_buf attributes;
	uint64_t attributes_count;
	struct backup_slot *first, *last; /* that are not written yet */
	uint32_t waiting;
	bool scanned, writing;
	struct store_pieces pieces;	    /* the writer's */
	struct backup_folder *next, **link; /* of all that are open */
};

#define BACKUP_LINKED_ROWS 65536

struct backup {
	struct store *s;
	const struct store_backup_options *options;
	struct store_keeping keeping;
	struct stat repository;
	struct store_backup_stats *stats;

	pthread_mutex_t tree;
	uint32_t waiting_max;
	pthread_cond_t written;	       /* fewer are waiting in some directory, or something has failed */
	struct backup_folder *folders; /* that are open */
	struct store_content root;     /* once it is complete */
	struct store_buf root_bytes;
	bool root_complete;
	struct backup_linked **linked;
	struct store_owner_set *owners;
	dev_t *devices; /* in the order in which they came */
	size_t devices_count;

	pthread_mutex_t notes;
	atomic_bool failed;
	int rc;
	char text[STORE_TEXT_BYTES];

	atomic_ullong files, directories, others, bytes, unchanged, read_bytes, unread, changed;
	atomic_ullong expected_bytes, resumed_bytes, ahead_bytes;
	atomic_ullong done_bytes; /* of files, as far as they were read or taken over; holes included */
	uint64_t progress_ns;
};

/* A file that was read, and whose content is not known yet. */
struct backup_read {
	struct backup_slot *slot;
	struct stat st;
	struct store_buf attributes;
	uint64_t attributes_count, size;
	bool unsettled;
};

/* What a member of the pool does that is no blob: store_keeping_job.own.number. `what` is a slot, or the worker whose file it reads. */
enum backup_job { BACKUP_JOB_FILE, BACKUP_JOB_AHEAD };

/* What a thread has of its own. */
struct backup_worker {
	struct backup *op;
	struct store_cutter cutter;
	struct backup_read *waiting; /* as many as its cutter has streams that wait, in their order */
	struct store_buf attributes, entry, block;
	struct store_resume resume; /* of the file that is being read */
	struct backup_ahead ahead;  /* of the same, where it is large */
};

/* ---- backup_tell.c */
/* "/a/b/NAME"; the caller frees it. Folders stay while something in them is not complete. */
char *backup_path(const struct backup_folder *folder, const char *name);
/* The first failure counts; everybody stops. Takes this thread's sentence. */
void backup_fail(struct backup *op, int rc);
/* Tells and counts. */
void backup_note(struct backup *op, enum store_note kind, const struct backup_folder *folder, const char *name,
		 const char *sentence);
/* By any thread; does nothing while another one tells. */
void backup_progress(struct backup *op);

/* ---- backup_folder.c */
/* Zeros and no descriptor, for the caller to fill; freed when it is complete, or with all others that are open at the end of a backup. */
struct backup_folder *backup_new_folder(struct backup *op);
/* No worker is at work any more. */
void backup_free_folders(struct backup *op);
/* By the walker, in the order of names; waits while too many are waiting. The slot is there until it is complete. */
struct backup_slot *backup_add_slot(struct backup *op, struct backup_folder *folder, const char *name);
/*
 * An entry is complete (NULL: left out; it is copied). The worker that completes a folder goes on with its parent. One thread
 * at a time writes a folder's pieces;
 * another one that completes an entry meanwhile leaves it to that one.
 */
void backup_complete(struct backup_worker *w, struct backup_slot *slot, const struct store_buf *entry);
/* The walker has been to all its names. */
void backup_scanned(struct backup_worker *w, struct backup_folder *folder);

/* ---- backup_node.c */
/* All extended attributes of an open file, or with fd -1 of a path. -1 and errno. */
int backup_read_attributes(int fd, const char *path, struct store_buf *out, uint64_t *count);
/* Owners of a node, and those that its access control lists name. */
void backup_note_owners(struct backup *op, const struct store_node *node);
/* Fills what every entry has. */
void backup_describe(struct backup *op, struct store_node *node, const struct stat *st, const char *name,
		     const struct store_buf *attributes, uint64_t attributes_count);
/* Its access time where the backup wants them, else none. */
void backup_set_atime(const struct backup *op, struct store_node *node, const struct stat *st);
/* A device by when it came: the first has 0. */
uint64_t backup_device_number(struct backup *op, dev_t device);

/* ---- backup_source.c */
/* True when the old entry still says what the file is; it becomes w->entry. */
bool backup_take_old(struct backup_worker *w, const struct stat *st, const struct store_node *old);
/* Its contents alone, where options->ignore_ctime or ignore_inode allow that. */
bool backup_take_content(struct backup_worker *w, struct backup_folder *folder, const char *name, const struct stat *st,
			 const struct store_node *old);
/* Reads a regular file and completes its slot, then or by a later call of one of the next two. */
void backup_do_file(struct backup_worker *w, struct backup_slot *slot);
/* store_keeping.between: others read ahead what this worker reads, if they have nothing else to do. */
void backup_offer_ahead(void *worker);
/* store_keeping.complete of a worker's cutter. */
void backup_complete_waiting(void *worker, uint32_t index, const struct store_content *content);
/* Completes all files that wait for others. */
void backup_do_waiting(void *worker);
/* What is neither file nor directory, into w->entry. -1 and errno. */
int backup_read_other(struct backup_worker *w, struct backup_folder *folder, const char *name, const struct stat *st);
/* Standard input as the only file. */
void backup_read_stdin(struct backup_worker *w);
void backup_free_linked(struct backup *op);

/* ---- backup_walk.c */
void backup_walk_paths(struct backup_worker *w, char **paths, size_t count);

#endif
