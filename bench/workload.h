/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workload of `make bench`, written once against a table of callbacks, so that gpu4fs in-process and any file
 * system behind system calls do exactly the same.
 *
 * Every metric prints one line of JSON to standard output: {"metric", "unit", "value", "cpu_seconds"}. cpu_seconds is
 * user and system time of this process while the metric ran; a FUSE daemon's is its own.
 *
 *	create	   ops/s  open(O_CREAT | O_EXCL) and close in order of names, `dirs` directories of `files` each
 *	stat	   ops/s  every file once, in random order
 *	rename	   ops/s  every file once to a new name in its directory, in random order
 *	unlink	   ops/s  every file once, in random order
 *	seq_write  MB/s	  a new file in 1 MiB writes; the time includes one fsync at the end
 *	seq_read   MB/s	  the file in 1 MiB reads, caches dropped before
 *	cached_read_4k  ns    4 KiB reads at random pages of a 16 MiB file that was read before
 *	rand_read_4k	MB/s  4 KiB reads at random pages, each page once, caches dropped before
 *	rand_write_4k	MB/s  4 KiB overwrites of random pages, each once; the time includes one fsync at the end
 *	fsync_p50, fsync_p99  us  the fsync after a 4 KiB overwrite of a random page
 *
 * Metadata metrics do not include a sync; one runs untimed after each of them. Data is random, and every page differs,
 * so that neither compression nor deduplication nor a zero check can help. "Caches dropped" means: in-process, the file
 * system is unmounted and mounted again (its image file is read with O_DIRECT); behind system calls, sync(2) and
 * /proc/sys/vm/drop_caches, which also empties the page cache below a loop device, or, without the right to do so,
 * posix_fadvise(POSIX_FADV_DONTNEED) on the file, with a warning.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#define WORKLOAD_CREATE 1u /* create, must not exist, read and write; otherwise open what exists to read and write */

/* All return 0 or a count, and a negative errno on failure. Files are the target's own. */
struct workload_target {
	void *context;
	int (*mkdir)(void *context, const char *path);
	int (*rmdir)(void *context, const char *path);
	int (*open)(void *context, const char *path, unsigned int flags, void **file);
	int (*close)(void *file);
	int (*stat)(void *context, const char *path);
	int (*rename)(void *context, const char *from, const char *to);
	int (*unlink)(void *context, const char *path);
	int64_t (*pread)(void *file, void *buffer, size_t bytes, int64_t offset);
	int64_t (*pwrite)(void *file, const void *buffer, size_t bytes, int64_t offset);
	int (*fsync)(void *file);
	int (*sync)(void *context);
	/* path: the file that is read next; no file is open */
	int (*drop_caches)(void *context, const char *path);
};

struct workload_options {
	uint32_t dirs, files; /* directories, and files in each */
	uint64_t file_bytes;  /* of the file for sequential and random I/O */
	uint32_t cached_reads, random_ops, fsyncs;
	uint64_t image_bytes, cache_bytes; /* in-process only; 0: default */
	const char *target;		   /* what to run on: an image or a directory */
};

/* Reads the command line; prints a message and exits when it is wrong. what: the target in words. */
void workload_parse(int argc, char **argv, const char *what, struct workload_options *options);
/* Runs everything. Returns an exit status. */
int workload_run(const struct workload_target *target, const struct workload_options *options);

#endif
