/* SPDX-License-Identifier: Apache-2.0 */
/* Opening devices by the names users type. Host only. */
#ifndef G4_DEV_HOST_H
#define G4_DEV_HOST_H

#include "dev/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

#define G4_DEV_READ_ONLY 1u
#define G4_DEV_CREATE 2u /* create a regular file (or dax: file) of create_bytes when it does not exist */
#define G4_DEV_EXCLUSIVE                                                                                               \
	4u /* refuse bytes that are in use, under whatever name; claim them while open (claim_host.c) */
#define G4_DEV_SYNCHRONOUS 8u /* never use io_uring: a request is executed inside g4_dev_submit() */
#define G4_DEV_RESIZE 16u     /* give an existing regular file create_bytes, after G4_DEV_EXCLUSIVE has claimed it */

struct g4_dev_open_options {
	uint32_t flags;
	uint32_t queues; /* io_uring instances; 0: one a core, at most 8 */
	uint32_t
		lane_queues; /* an NVMe drive's, beside the driver's own, for lanes of an engine: at most so many; 0: none */
	uint64_t create_bytes; /* with G4_DEV_CREATE, G4_DEV_RESIZE */
};

/*
 * Opens `name`: "mem:SIZE" (SIZE with K, M, G, T suffix), "dax:PATH", a regular file, a block device, "nvme:ADDRESS[/NAMESPACE]", or "emu:"
 * or "trace:FILE:" and one of the others. On failure
 * returns a negative code and writes one clear sentence (with the name in it) to message[message_bytes].
 */
int g4_dev_open(const char *name, const struct g4_dev_open_options *options, struct g4_dev **out, char *message,
		size_t message_bytes);
/* The name, or its beginning, that an open device was opened by; of a set and of what wraps another one "the device". */
const char *g4_dev_name(const struct g4_dev *dev);
/* Whether a device's name has a path in it: not that of memory or of a controller. */
bool g4_dev_has_path(const char *name);
/* The path in a device's name: what is behind "dax:", "emu:" and "trace:FILE:". */
const char *g4_dev_path(const char *name);
/*
 * Makes a regular file longer or shorter, and asks a block device for its size, which may have changed. Others may use the device, but
 * not what is beyond the new end. -G4_E_NOTSUP: its size is fixed; -G4_E_DEV_SMALL: a block device has less than that.
 */
int g4_dev_set_size(struct g4_dev *dev, uint64_t bytes);
/*
 * Of a regular file: has the host's file system read where all its pages lie, if it does that when it is asked to (ext4, F2FS). Else each request to a part of the
 * file that nobody has used waits for that first, in its submission, and those behind it with it. May take long: for a thread of its own. Thread-safe.
 */
void g4_dev_find_pages(const struct g4_dev *dev);
/*
 * Gives up the claim on a block device that keeps other file systems away, for the kernel is about to mount it and claims it
 * then; users of gpu4fs stay away all the time. False: it is no block device that is claimed.
 */
bool g4_dev_lend(struct g4_dev *dev);
/* The kernel has not mounted it: claims it again. False: somebody else has it now. */
bool g4_dev_take_back(struct g4_dev *dev);
/* Closes a device on which no request is under way. Does not flush. NULL is ignored. */
void g4_dev_close(struct g4_dev *dev);

/*
 * ---- the fault device (tests) ----
 * Wraps another device (which it then owns) and injects what tests ask for. It is a queued device with a write cache,
 * whatever it wraps. All settings may be changed while in use. Thread-safe.
 */
struct g4_fault {
	uint64_t cut_after_writes;  /* n > 0: after n more writes the power is cut: later requests fail with G4_E_IO */
	uint64_t fail_read_at;	    /* n > 0: the n-th read from now fails with G4_E_IO, once */
	uint64_t fail_write_at;	    /* the same for writes */
	uint64_t fail_flush_at;	    /* the same for flushes */
	uint64_t bad_at, bad_bytes; /* reads that touch one of so many bytes there fail with G4_E_IO, each time */
	uint64_t delay_ns;	    /* added to every request */
	bool keep_unflushed;	    /* at the cut: true keeps, false drops completed but unflushed writes */
	bool cut_inside;    /* the cut hits the n-th write itself: it fails, and counts as unflushed even with FUA */
	uint64_t seed;	    /* non-zero with !keep_unflushed: drops and tears a pseudo-random subset instead of all */
	bool write_through; /* it has no write cache: what completes is durable. Set while nothing is unflushed */
};
/* On failure `inner` stays the caller's. */
int g4_dev_fault_open(struct g4_dev *inner, struct g4_dev **out);
/* One more owner, an engine that closes its device for example: the device is closed when all of them have closed it. */
void g4_dev_fault_share(struct g4_dev *dev);
/* Copies the settings; counting starts anew. */
void g4_dev_fault_set(struct g4_dev *dev, const struct g4_fault *settings);
/* Cuts the power now, by the rules set. 0, or the code of the wrapped device if the survivors could not be written. */
int g4_dev_fault_cut(struct g4_dev *dev);
/* Restores power: the device again answers from what survived the cut. */
void g4_dev_fault_power_on(struct g4_dev *dev);
/* Counts since open: reads, writes, flushes. Requests refused for want of power or for their arguments do not count. */
void g4_dev_fault_counts(const struct g4_dev *dev, uint64_t *reads, uint64_t *writes, uint64_t *flushes);
/* Flips `mask` in the byte at `offset`, below every cache: the next read of that sector sees it. */
int g4_dev_fault_flip(struct g4_dev *dev, uint64_t offset, uint8_t mask);

/*
 * One recorded request: a WRITE, FLUSH or DISCARD that succeeded. Requests are in the order of submission. With a delay
 * several are under way at a time: a request began after this one was complete if its number is done_at or more.
 */
struct g4_fault_op {
	uint32_t op;
	uint32_t flags;
	uint64_t offset_bytes;
	uint64_t bytes;
	const uint8_t *data; /* WRITE: `bytes` bytes, else NULL */
	uint64_t done_at;    /* requests recorded when it was seen to be complete; UINT64_MAX: it never was */
};
/* on, with no request under way: forgets the record and starts a new one. Off: stops; the record stays. */
void g4_dev_fault_record(struct g4_dev *dev, bool on);
/*
 * Calls `watcher` with every request, before it is executed and under the device's lock; NULL: nobody. It must not use the
 * device. For tests that undo what is written to the wrapped device.
 */
typedef void (*g4_fault_watcher)(void *context, const struct g4_io *io);
void g4_dev_fault_watch(struct g4_dev *dev, g4_fault_watcher watcher, void *context);
/* The same, by another one, before the submitter sees that a request is complete: with a delay that is later. Its context is the other's. */
void g4_dev_fault_watch_done(struct g4_dev *dev, g4_fault_watcher watcher);
/* How many requests are recorded so far. */
uint64_t g4_dev_fault_recorded(const struct g4_dev *dev);
/* The index-th of them in order, NULL behind the last; valid until the record is forgotten or the device closed. */
const struct g4_fault_op *g4_dev_fault_recorded_op(const struct g4_dev *dev, uint64_t index);

/* Writes what is still unflushed (power on), gives the inner device back and closes the wrapper. */
struct g4_dev *g4_dev_fault_unwrap(struct g4_dev *dev);

#ifdef __cplusplus
}
#endif

#endif
