/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine does for the pipeline (pipeline.h). There are two kinds.
 *
 * The CPU engine is a set of kernels, one of which the dispatcher (kernels.c) chooses; the pipeline's threads call it on
 * regions of a buffer, resolve the marks and hash the chunks themselves.
 *
 * A device engine takes whole buffers and answers later: submit() starts the transfer and the computation of one buffer,
 * collect() waits for the oldest one. It may use several GPUs, which is nobody else's concern. It either finds marks, or it finds the chunks with their digests, because it
 * holds the bytes; the pipeline says which at open().
 *
 * Whatever computes, the rule (rule.h) alone decides, so that all give the same.
 */
#ifndef SHREDDER_ENGINE_H
#define SHREDDER_ENGINE_H

#include "chunk/rule.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A kernel: bit i of the bitmap `marks` (bit i % 64 of word i / 64) becomes 1 when position i is a candidate and 0 when
 * not, for 0 <= i < bytes; bits behind `bytes` in the last word become 0. `before` points to the SHREDDER_HISTORY_BYTES
 * bytes that precede data[0]; it may or may not lie right before `data`. Nothing outside these ranges is read. `bytes`
 * may be 0. Thread-safe.
 */
typedef void shredder_find_fn(const struct shredder_rule *rule, const uint8_t *before, const uint8_t *data,
			      uint64_t bytes, uint64_t *marks);

/* Words of a bitmap for `bytes` positions. */
static inline uint64_t shredder_mark_words(uint64_t bytes)
{
	return bytes / 64 + (bytes % 64 != 0);
}

/* X(NAME): kernels of the CPU engine, the slowest first; shredder_find_NAME, usable where shredder_NAME_usable(). */
#if defined(__x86_64__)
#define SHREDDER_KERNELS(X)                                                                                            \
	X(portable)                                                                                                    \
	X(avx2)                                                                                                        \
	X(avx512)
#else
#define SHREDDER_KERNELS(X) X(portable)
#endif

struct shredder_kernel {
	const char *name;
	shredder_find_fn *find_rabin;
	shredder_find_fn *find_gear;
};
/* The kernel of that name, or the fastest for NULL; NULL when there is none of that name or the processor lacks it. */
const struct shredder_kernel *shredder_kernel_find(const char *name);

/* A chunk as an engine gives it: it ends `end` bytes after the stream's beginning, and begins where the last one ended. */
struct shredder_end {
	uint64_t end;
	uint64_t fingerprint;
	uint32_t cut; /* enum shredder_cut */
	uint32_t has_digest;
	uint8_t digest[SHREDDER_DIGEST_BYTES];
};

/* One buffer of the stream, in order. */
struct shredder_batch {
	/* the question */
	uint32_t slot;	     /* which buffer of the ring, below `buffers` of open(); free again after collect() */
	const uint8_t *data; /* in memory of alloc(), or the caller's own */
	uint64_t bytes;	     /* at most buffer_bytes; 0 only for the last one */
	uint64_t position;   /* of data[0] in the stream */
	bool last;	     /* the stream ends with it */
	/*
	 * A stream of its own, at position 0 and the last of it, that has nothing to do with the batches before and behind it: only of a device with
	 * one GPU, that finds chunks. At each of its borders, which ascend between 0 and `bytes`, it is cut as if a stream ended there and another one
	 * began; so the minimum must not be smaller than SHREDDER_WINDOW_BYTES. Fingerprints do not know of borders.
	 */
	bool alone;
	const uint32_t *borders; /* unchanged until collect() */
	uint32_t borders_count;
	/* the answer */
	uint64_t *marks;	   /* if the engine finds marks: shredder_mark_words(bytes) words of the pipeline's */
	struct shredder_end *ends; /* if it finds chunks: room for `room` of them, the pipeline's */
	uint64_t room;
	uint64_t count; /* how many were filled in */
	bool more;	/* there are more: collect() is called again for the same batch */
	bool declined; /* of one that is alone: it has more candidates than there is room for; count is 0, and all is well */
	uint32_t gpu;			 /* which one did it, as ops->gpu() numbers them */
	uint64_t transfer_ns, kernel_ns; /* what it took, for the statistics */
};

/* What a device engine is opened with. */
struct shredder_device_setup {
	const struct shredder_rule *rule; /* lives as long as the engine */
	uint64_t buffer_bytes;
	uint32_t buffers;
	bool find_chunks;     /* chunks and their digests; else marks */
	bool digests;	      /* only with find_chunks */
	const uint32_t *gpus; /* their numbers; one may come twice; NULL: the first ones. Used by open() alone */
	uint32_t gpus_count;  /* 0: all that are there */
	uint32_t borders;     /* of a batch, at most; more than 0 only with buffers of less than 1 GiB */
};

/* Where a stream goes on after an error of the device. */
struct shredder_restart {
	uint64_t position; /* of the batch that comes next */
	uint64_t open;	   /* where the open chunk begins: its bytes up to `position`, if there are any, end `before` */
	const uint8_t *before; /* bytes in front of `position`, the open chunk's and the window's, of this stream;
				  on the host; none when `position` lies in a GPU's memory */
	uint64_t before_bytes;
};

struct shredder_device;
/* X of them may be linked in: shredder_device_cuda, or none. All functions give 0 or a negative code. */
struct shredder_device_ops {
	const char *name;
	/* *why: a sentence when it cannot run here; this thread's next open() overwrites it. */
	int (*open)(const struct shredder_device_setup *setup, struct shredder_device **out, const char **why);
	void (*close)(struct shredder_device *device);
	/* Memory for the ring that the device reads fast: page-locked. NULL when there is none. */
	void *(*alloc)(struct shredder_device *device, uint64_t bytes);
	void (*free)(struct shredder_device *device, void *memory, uint64_t bytes);
	/*
	 * A new stream begins (at: NULL), or the one that failed goes on. What was submitted and not collected is
	 * dropped, and GPUs that fail are left out from here on. ENGINE: none is left; KERNEL: the stream's data is in
	 * the memory of one that failed.
	 */
	int (*restart)(struct shredder_device *device, const struct shredder_restart *at);
	/* Buffers come in the order of the stream, by one thread at a time; returns without waiting for the device. */
	int (*submit)(struct shredder_device *device, struct shredder_batch *batch);
	/* Waits for the oldest batch that was submitted; beside submit() by another thread. */
	int (*collect)(struct shredder_device *device, struct shredder_batch *batch);
	/* True when `data` is memory of the device itself, which a caller may pass to shredder_begin_buffer(). */
	bool (*owns)(struct shredder_device *device, const void *data);
	/* How many GPUs open() would use at most. */
	uint32_t (*count)(const struct shredder_device_setup *setup);
	/*
	 * The GPU with this index: its number and, if it is not used, why not, else NULL; not beside submit() or collect(). False: there are
	 * not so many.
	 */
	bool (*gpu)(const struct shredder_device *device, uint32_t index, uint32_t *number, const char **trouble);
};

#ifdef __cplusplus
}
#endif

#endif
