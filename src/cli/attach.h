/* SPDX-License-Identifier: Apache-2.0 */
/* What subcommands that work inside a file system through the library share: getting at it, and at trees of files. */
#ifndef G4_CLI_ATTACH_H
#define G4_CLI_ATTACH_H

#include <pthread.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "gpu4fs/gpu4fs.h"

#define G4_CLI_MOST_JOBS 64

/* Mounts the image or, if that is NULL, connects to the server at the socket. NULL: it was said why not. */
gpu4fs *g4_cli_attach(const char *command, const char *image, const char *socket);
/* The same, and nothing is going to be changed: the image is mounted read-only. */
gpu4fs *g4_cli_attach_to_look(const char *command, const char *image, const char *socket);
/*
 * `attr set raid=` of a path in `fs` or, if that is NULL, of one that is mounted here; a link is not followed. False: it was said why it
 * can not be.
 */
bool g4_cli_set_raid(const char *command, gpu4fs *fs, const char *path, const char *level);
/* Opens a directory by a path of any length, piece by piece. `flags`: 0, or O_NOFOLLOW for the last name of each piece. */
int g4_cli_open_directory(gpu4fs *fs, const char *path, int flags, gpu4fs_file **out);
/*
 * Where a path of any length ends: calls take *at and *name for it, then *at is to be closed unless it is NULL, for a path that they take
 * whole. Links on a longer one are not followed.
 */
int g4_cli_open_above(gpu4fs *fs, const char *path, gpu4fs_file **at, const char **name);
/* The number of an option -j; false: it is none from 1 to G4_CLI_MOST_JOBS. */
bool g4_cli_parse_jobs(const char *word, long *jobs);
/* What it is without the option: as many as there are processors, at most 8. */
long g4_cli_jobs(void);
/* From now on SIGINT and SIGTERM make g4_cli_interrupted() true, and nothing else. */
void g4_cli_catch_interrupts(void);
/* Whether to end early: also once g4_cli_failed() was given what all else would have as well, -EROFS. */
bool g4_cli_interrupted(void);
/* Says "PATH: " and why, but nothing of what fails because it ends early. */
void g4_cli_failed(const char *command, const char *path, int64_t result);
/* At the end: whether it ended early, and says so where a signal did it. */
bool g4_cli_ended_early(const char *command);
/* Gives the file system of that name back. 0, or a negative errno, which has been said. */
int g4_cli_detach(const char *command, gpu4fs *fs, const char *name);

/* A walk has many directories open: as many as the system lets it have. */
void g4_cli_allow_open_files(void);

/* Names of files that have several: by device, or generation, and inode number. Thread-safe but for its beginning and end. */
struct g4_cli_links {
	pthread_mutex_t lock;
	struct g4_cli_link **buckets; /* a power of two of them */
	size_t room, count;
};
struct g4_cli_link {
	struct g4_cli_link *next;
	uint64_t device, inode;
	char path[];
};
void g4_cli_links_begin(struct g4_cli_links *links);
void g4_cli_links_end(struct g4_cli_links *links);
/* The caller has the lock. The path that was noted last of a file; NULL: none. */
const char *g4_cli_links_find(const struct g4_cli_links *links, uint64_t device, uint64_t inode);
/* The caller has the lock. False: no memory. */
bool g4_cli_links_note(struct g4_cli_links *links, uint64_t device, uint64_t inode, const char *path);

#endif
