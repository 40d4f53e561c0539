/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What dev.c asks of a kind of devices, and what the kinds share. Host only, private to src/dev, and to the sets of src/space,
 * which are a kind made of others. Callers have checked ranges,
 * alignment and permissions (dev.c).
 */
#ifndef G4_DEV_OPS_HOST_H
#define G4_DEV_OPS_HOST_H

#include <stdarg.h>

#include "dev/dev_host.h"
#include "dev/dev_types.h"

/*
 * A kind of devices. None of it needs a workgroup but orders, layout, and submit, poll, wait, execute and disks_at of sets and of devices behind an agent. A queued kind has submit,
 * poll, wait; a mapped one flush, persist and discard.
 */
struct g4_dev_ops {
	/* Starts those of a list that are not done yet. */
	void (*submit)(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first);
	void (*poll)(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io);
	void (*wait)(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io);
	/* Any request from start to end; returns its result and leaves completing it to the caller. NULL: by submit and wait. */
	int (*execute)(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io);
	/* Makes stores to the whole device, or to a range of it, durable. */
	int (*flush)(struct g4_dev *dev);
	int (*persist)(struct g4_dev *dev, uint64_t offset, uint64_t bytes);
	int (*discard)(struct g4_dev *dev, uint64_t offset, uint64_t bytes);
	/* g4_dev_set_size(); NULL: the size is fixed. */
	int (*set_size)(struct g4_dev *dev, uint64_t bytes);
	/* g4_dev_disks_at(); NULL: it is no set. */
	uint64_t (*disks_at)(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset);
	/* g4_dev_order(); NULL: it is no set. */
	int (*order)(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order);
	/* g4_dev_layout(); NULL: it is no set. */
	int (*layout)(struct g4_wg *wg, struct g4_dev *dev, void *table, uint64_t bytes);
	/* g4_dev_grant(); NULL: it is no set. */
	int (*grant)(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number);
	/* g4_dev_words() of a set. */
	uint32_t *(*words)(const struct g4_dev *dev);
	/* From now on these are its words, NULL: its own; grants that have the others are waited for. */
	void (*use_words)(struct g4_dev *dev, uint32_t *words);
	void (*close)(struct g4_dev *dev);
};

/* ---- what all say and how they say it (fail_host.c) ---- */
struct g4_dev_message { /* where the sentence for the user goes; text may be NULL */
	char *text;
	size_t bytes;
};
/* Writes the sentence and returns `code`. */
__attribute__((format(printf, 3, 4))) int g4_dev_fail(struct g4_dev_message message, int code, const char *format, ...);
/* The negative code for a positive errno of an I/O system call. */
int g4_dev_code(int unix_error);

/* ---- host files (file_host.c) ---- */
struct g4_file { /* first member of the host state of every device that holds a file descriptor */
	int fd;
	bool block_device;
	uint64_t size_bytes;
	struct g4_claim *claim; /* NULL: without G4_DEV_EXCLUSIVE */
};
/*
 * Opens, creates and locks the file as the options say; refuses what is neither a regular file nor a block device, what
 * is smaller than a page, and what can only be read unless G4_DEV_READ_ONLY is given.
 */
int g4_file_open(const char *name, const char *path, const struct g4_dev_open_options *options, struct g4_file *file,
		 struct g4_dev_message message);
void g4_file_close(struct g4_file *file);
/*
 * Turns the page cache off for the descriptor (O_DIRECT). Returns the sector size that requests must then keep to, 512 or
 * 4096, or 0 when the host file system refuses or wants more: requests then go through the page cache.
 */
uint32_t g4_file_go_direct(const struct g4_file *file);
/* True when the file accepts holes (regular file) or discards (block device). Changes nothing. */
bool g4_file_can_discard(const struct g4_file *file);
/* g4_dev_set_size() of a device whose host state begins with a struct g4_file. */
int g4_file_set_size(struct g4_dev *dev, uint64_t bytes);

/* ---- claims (claim_host.c) ---- */
/*
 * Claims the bytes that `path`, open as fd, stands for: fails with G4_E_DEV_BUSY when they are in use under any name that
 * the kernel tells. What is claimed stays so until the claim is dropped and fd is closed. Readers share with readers.
 */
int g4_claim_take(const char *name, const char *path, int fd, bool read_only, struct g4_claim **out,
		  struct g4_dev_message message);
/* flock(2) without waiting for anybody but a process that was killed, whose files the kernel has still. 0, or errno. */
int g4_claim_flock(int fd, bool shared);
void g4_claim_drop(struct g4_claim *claim); /* NULL is ignored */
bool g4_claim_lend(struct g4_claim *claim); /* as g4_dev_lend() */
bool g4_claim_take_back(struct g4_claim *claim, int fd);

/* ---- synchronous requests on host files (transfer_host.c): return when complete. Thread-safe. ---- */
int g4_file_discard(const struct g4_file *file, uint64_t offset, uint64_t bytes);
/* Any request; returns its result and leaves completing it to the caller. */
int g4_file_execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io);

/*
 * The part of a vector that one system call can transfer next, when `done_bytes` of it were transferred: entries from
 * `index` on, or, with within_bytes > 0, the rest of that entry alone. Returns false when nothing is left.
 */
struct g4_iov_part {
	uint32_t index;
	uint32_t count;	       /* entries, at most IOV_MAX */
	uint64_t within_bytes; /* done in the first entry; count is 1 if not 0 */
};
bool g4_iov_next(const struct g4_iov *iov, uint32_t iov_count, uint64_t done_bytes, struct g4_iov_part *part);

/* ---- queued files (uring_host.c) ---- */
int g4_queued_open(const char *name, const struct g4_dev_open_options *options, struct g4_dev **out,
		   struct g4_dev_message message);
/* Whether a device is one of these; what is below is for no other. */
bool g4_queued_is(const struct g4_dev *dev);
/*
 * Sleeps until `most` requests that workgroup 0 submitted are complete, or all that there are, but not longer
 * than `ns`. Completes what is complete.
 */
void g4_queued_doze(struct g4_dev *dev, uint32_t most, uint64_t ns);
/*
 * From now until g4_queued_disown(), both without a request under way, the calling thread is the only one that uses the
 * device. False: nothing has changed, and what is below does nothing.
 */
#define G4_QUEUED_BUFFERS 65u
bool g4_queued_own(struct g4_dev *dev);
void g4_queued_disown(struct g4_dev *dev);
/*
 * Pins memory, so that requests with one buffer in it cost less, in place of what `index` was. Should the kernel refuse,
 * they cost what they did. 0 bytes: no longer; that has to be before the memory goes.
 */
void g4_queued_register(struct g4_dev *dev, uint32_t index, void *base, uint64_t bytes);
/* Submitted requests wait until this is over, to be given to the kernel together. */
void g4_queued_hold(struct g4_dev *dev, bool hold);

/* ---- the tracing device (traced_host.c) ---- */
/* Over `inner`, which is the new device's, or closed on failure; the trace goes to the end of the file at `path`. */
int g4_traced_open(const char *name, struct g4_dev *inner, const char *path, struct g4_dev **out,
		   struct g4_dev_message message);

/* ---- mapped devices (mapped_host.c) ---- */
int g4_mem_open(const char *name, uint64_t size_bytes, const struct g4_dev_open_options *options, struct g4_dev **out,
		struct g4_dev_message message);
int g4_dax_open(const char *name, const char *path, const struct g4_dev_open_options *options, struct g4_dev **out,
		struct g4_dev_message message);

#endif
