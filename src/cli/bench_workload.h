/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workload of `gpu4fs bench`, written once against a table of callbacks, so that gpu4fs in-process and any file
 * system behind system calls do exactly the same.
 *
 * cpu_seconds of a metric is user and system time of this process and, where there is one, of the FUSE server while the
 * metric ran. Work of kernel threads (loop devices, write-back) is nobody's.
 *
 *	create	   ops/s  open(O_CREAT | O_EXCL) and close in order of names, `dirs` directories of `files` each
 *	stat	   ops/s  every file once, in random order
 *	rename	   ops/s  every file once to a new name in its directory, in random order
 *	lookup	   ops/s  stat of every file once, in random order, after the kernel has forgotten names and attributes;
 *			  its caches of blocks stay. In-process nothing is remembered by name, so nothing is forgotten.
 *	unlink	   ops/s  every file once, in random order
 *	batch_create, batch_stat, batch_unlink  ops/s  as create, stat and unlink, 64 names a call where the target has calls
 *		   for many (gpu4fs_batch()); else one by one
 *	deep_mkdir, deep_stat  ops/s  levels of a path of `dirs` * `files` directories, at most 4000, one in the other, that is
 *		   made (mkdir -p), and whose end is looked up; by one call where the target has one for it, else by
 *		   mkdirat and openat, or openat, a level
 *	seq_write  MB/s	  a new file in 1 MiB writes; the time includes one fsync at the end
 *	seq_read   MB/s	  the file in 1 MiB reads, caches dropped before; the median of five passes
 *	cached_read_4k  ns    4 KiB reads at random pages of a file of at most 16 MiB that was read before
 *	rand_read_4k	MB/s  4 KiB reads at random pages, each page once, caches dropped before
 *	rand_write_4k	MB/s  4 KiB overwrites of random pages, each once; the time includes one fsync at the end
 *	fsync_p50, fsync_p99  us  the fsync after a 4 KiB overwrite of a random page
 *
 *	small_write  ops/s  `files` new files of 9 KiB in one directory, opened, written and closed; the time includes one sync
 *	small_read   ops/s  the same files opened, read and closed in the same order, caches dropped before
 *
 * Before the first metric a little of everything runs unreported. Metadata metrics are over several passes, because some
 * servers hold a descriptor for every file, of which there may be 20 000. They do not include a sync; one runs untimed
 * after each of them. Data is random, and every page differs, so that neither compression nor deduplication nor a zero
 * check can help. "Caches dropped" means: the file system is unmounted and mounted again, and behind system calls
 * /proc/sys/vm/drop_caches empties what is left, such as the page cache of a loop device. Without --remount the latter
 * alone happens, without the right to it posix_fadvise(POSIX_FADV_DONTNEED) on the file. Memory ("mem:") is not unmounted.
 */
#ifndef G4_CLI_BENCH_WORKLOAD_H
#define G4_CLI_BENCH_WORKLOAD_H

#include <signal.h>
#include <stddef.h>

#include "base/base.h"

struct g4_bench_options {
	const char *target;   /* a directory, or a device */
	uint32_t dirs, files; /* directories, and files in each */
	uint32_t passes;      /* through all metadata operations */
	uint64_t file_bytes;  /* of the file for sequential and random I/O, a multiple of 1 MiB */
	uint32_t cached_reads, random_ops, fsyncs;
	uint64_t cache_bytes; /* in-process only; 0: default */
	const char *remount;  /* behind system calls only: the command that empties caches; NULL: none */
	const char *server;   /* behind system calls only: file with the FUSE server's process id; NULL: none */
};

#define G4_BENCH_CREATE 1u /* create, must not exist, read and write; otherwise open what exists to read and write */

/*
 * A fresh directory of a file system, to which all paths are relative. All return 0 or a count, and a negative errno on
 * failure. Files are the target's own.
 */
enum g4_bench_many { G4_BENCH_MANY_CREATE, G4_BENCH_MANY_STAT, G4_BENCH_MANY_UNLINK, G4_BENCH_MANY_KINDS };

struct g4_bench_target {
	void *context;
	int (*mkdir)(void *context, const char *path);
	int (*rmdir)(void *context, const char *path);
	int (*open)(void *context, const char *path, unsigned int flags, void **file);
	int (*close)(void *file);
	int (*stat)(void *context, const char *path);
	int (*rename)(void *context, const char *from, const char *to);
	int (*unlink)(void *context, const char *path);
	/* One operation on many paths; NULL: there is no call for it. */
	int (*many)(void *context, enum g4_bench_many kind, const char *const *paths, uint32_t count);
	/* Directories of this name, one in the other: making so many, looking the last one up, removing all. */
	int (*deep_mkdir)(void *context, const char *name, uint32_t levels);
	int (*deep_stat)(void *context, const char *name, uint32_t levels);
	int (*deep_rmdir)(void *context, const char *name, uint32_t levels);
	int64_t (*pread)(void *file, void *buffer, size_t bytes, int64_t offset);
	int64_t (*pwrite)(void *file, const void *buffer, size_t bytes, int64_t offset);
	int (*fsync)(void *file);
	int (*sync)(void *context);
	/* path: the file that is read next; no file is open */
	int (*drop_caches)(void *context, const char *path);
	int (*forget_names)(void *context);
	int (*free_bytes)(void *context, uint64_t *bytes);
	/* user and system time of the process that serves the file system; NULL when there is none */
	int (*server_cpu_seconds)(void *context, double *seconds);
	/* Removes the directory with all that is in it, and ends. The context is gone afterwards. */
	int (*finish)(void *context);
};

/*
 * Opens a target: an image, a block device, dax:PATH or, formatted now, mem:SIZE, in this process; or a directory behind
 * system calls. 0, or a negative errno with a sentence for the user in message[bytes].
 */
int g4_bench_inprocess(const struct g4_bench_options *options, struct g4_bench_target *target, char *message,
		       size_t bytes);
int g4_bench_posix(const struct g4_bench_options *options, struct g4_bench_target *target, char *message, size_t bytes);
/* The name of the fresh directory; false when the kernel gives no random bytes. */
#define G4_BENCH_NAME_BYTES 64
bool g4_bench_name(char name[G4_BENCH_NAME_BYTES]);

struct g4_bench_result {
	const char *metric, *unit;
	double value, cpu_seconds;
};

/* What a run tells, and whom it asks whether to go on. */
struct g4_bench_events {
	void *user;
	void (*result)(void *user, const struct g4_bench_result *result);
	/* from time to time, also inside what is measured: cheap */
	void (*progress)(void *user, uint64_t done, uint64_t total);
	const volatile sig_atomic_t *stop; /* not 0: end as soon as possible */
};

/* Free space that the workload needs, with what a copy-on-write file system takes while it overwrites. */
uint64_t g4_bench_space(const struct g4_bench_options *options);
/*
 * Runs everything. 0, or a negative errno, -EINTR after a stop, and what failed in message[bytes]. What was made may be
 * left behind then.
 */
int g4_bench_run(const struct g4_bench_target *target, const struct g4_bench_options *options,
		 const struct g4_bench_events *events, char *message, size_t bytes);

#endif
