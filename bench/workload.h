/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workload of `make bench`, written once against a table of callbacks, so that gpu4fs in-process and any file
 * system behind system calls do exactly the same.
 *
 * Every metric prints one line of JSON to standard output: {"metric", "unit", "value", "cpu_seconds"}. cpu_seconds is
 * user and system time of this process and, where there is one, of the FUSE server while the metric ran. Work of kernel
 * threads (loop devices, write-back) is nobody's.
 *
 *	create	   ops/s  open(O_CREAT | O_EXCL) and close in order of names, `dirs` directories of `files` each
 *	stat	   ops/s  every file once, in random order
 *	rename	   ops/s  every file once to a new name in its directory, in random order
 *	lookup	   ops/s  stat of every file once, in random order, after the kernel has forgotten names and attributes;
 *			  its caches of blocks stay. In-process nothing is remembered by name, so nothing is forgotten.
 *	unlink	   ops/s  every file once, in random order
 *	seq_write  MB/s	  a new file in 1 MiB writes; the time includes one fsync at the end
 *	seq_read   MB/s	  the file in 1 MiB reads, caches dropped before
 *	cached_read_4k  ns    4 KiB reads at random pages of a 16 MiB file that was read before
 *	rand_read_4k	MB/s  4 KiB reads at random pages, each page once, caches dropped before
 *	rand_write_4k	MB/s  4 KiB overwrites of random pages, each once; the time includes one fsync at the end
 *	fsync_p50, fsync_p99  us  the fsync after a 4 KiB overwrite of a random page
 *
 * Before the first metric a little of everything runs unreported. Metadata metrics are over several
 * passes, because some servers hold a descriptor for every file, of which there may be 20 000. They do not include a sync; one runs untimed
 * after each of them. Data is random, and every page differs, so that neither compression nor deduplication nor a zero
 * check can help. "Caches dropped" means: the file system is unmounted and mounted again, and behind system calls
 * /proc/sys/vm/drop_caches empties what is left, such as the page cache of a loop device. Without --remount the latter
 * alone happens, without the right to it posix_fadvise(POSIX_FADV_DONTNEED) on the file, with a warning.
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
	int (*forget_names)(void *context);
	/* user and system time of the process that serves the file system; NULL when there is none */
	double (*server_cpu_seconds)(void *context);
};

struct workload_options {
	uint32_t dirs, files; /* directories, and files in each */
	uint32_t passes;      /* through all metadata operations */
	uint64_t file_bytes;  /* of the file for sequential and random I/O */
	uint32_t cached_reads, random_ops, fsyncs;
	uint64_t image_bytes, cache_bytes; /* in-process only; 0: default */
	const char *remount, *server;	   /* behind system calls only; NULL: none */
	const char *target;		   /* what to run on: an image or a directory */
};

/* Reads the command line; prints a message and exits when it is wrong. what: the target in words. */
void workload_parse(int argc, char **argv, const char *what, struct workload_options *options);
/* Runs everything. Returns an exit status. */
int workload_run(const struct workload_target *target, const struct workload_options *options);

#endif
