/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libshredder: content-defined chunking. A stream or a buffer goes in, chunks come out: offset, length, fingerprint of
 * the cut and BLAKE3-256 of the bytes. Where the cuts lie depends on the content and on struct shredder_params alone,
 * never on the engine, the number of threads, the size of buffers or how the bytes arrived; docs/shredder.md gives the
 * rule exactly, so that another program can make the same cuts.
 *
 *	shredder *s;
 *	struct shredder_chunk chunk;
 *	int rc = shredder_open(NULL, &s);
 *	if (rc == 0)
 *		rc = shredder_begin_file(s, "/var/log/syslog");
 *	while (rc >= 0 && (rc = shredder_next(s, &chunk)) == 1)
 *		store(chunk.digest, chunk.data, chunk.length);
 *	if (rc < 0)
 *		errx(1, "%s", shredder_last_message(s));
 *	shredder_close(s);
 *
 * Results
 *	Functions give 0, 1 or a count, or a negative code of enum shredder_error. Chunks that came before an error are
 *	right, but they are not the whole input: only a shredder_next() that gave 0 says that everything was covered.
 *
 * Threads
 *	A shredder chunks one input at a time and is used by one thread at a time; shredder_cancel() may be called from
 *	any thread. Different shredders are independent. The library starts `threads - 1` threads of its own and one that
 *	reads files; with one thread and a buffer, everything runs in the caller.
 *
 * Memory
 *	Bounded: about buffers * (buffer_bytes * 9 / 8 + max_bytes + record_bytes), allocated once by shredder_open(). When
 *	the caller does not ask for chunks, buffers fill up and reading stops. Nothing that the library hands out must be
 *	freed, and it keeps no pointer beyond what a function's comment says.
 *
 * Versions
 *	Structures that go in start with `size`: set it to sizeof(struct ...) and the rest to zero or to what you want.
 *	Later versions append fields; zero always means the default.
 */
#ifndef SHREDDER_H
#define SHREDDER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHREDDER_VERSION_MAJOR 0
#define SHREDDER_VERSION_MINOR 1
#define SHREDDER_VERSION_PATCH 0

#if defined(__GNUC__)
#define SHREDDER_API __attribute__((visibility("default")))
#else
#define SHREDDER_API
#endif

/* A chunker with its buffers and threads. */
typedef struct shredder shredder;

/* Bytes of a digest: BLAKE3-256. */
#define SHREDDER_DIGEST_BYTES 32

/* ------------------------------------------------------------------------------------------------------- errors */

/* X(NAME, number, sentence): numbers are stable, codes are negative. */
#define SHREDDER_ERRORS(X)                                                                                             \
	X(INVAL, 1, "invalid argument")                                                                                \
	X(VERSION, 2, "the structure is of another version of the library")                                            \
	X(ALGORITHM, 3, "the algorithm is not known")                                                                  \
	X(DEGREE, 4, "the polynomial's degree is not between 16 and 63")                                               \
	X(REDUCIBLE, 5, "the polynomial is reducible")                                                                 \
	X(MASK, 6, "the mask is empty or too wide")                                                                    \
	X(MARKER, 7, "the marker does not fit the mask")                                                               \
	X(SIZES, 8, "the minimum, normal and maximum size of a chunk contradict each other")                           \
	X(RECORD, 9, "the record delimiter or the limit of a record is not usable")                                    \
	X(ENGINE, 10, "the engine is not known or cannot run here")                                                    \
	X(BUFFERS, 11, "the number or the size of the buffers is not usable")                                          \
	X(NOMEM, 12, "out of memory")                                                                                  \
	X(STATE, 13, "the call does not fit the state of the chunker")                                                 \
	X(OPEN, 14, "the input cannot be opened")                                                                      \
	X(ISDIR, 15, "the input is a directory")                                                                       \
	X(IO, 16, "the input cannot be read")                                                                          \
	X(CHANGED, 17, "the input changed while it was read")                                                          \
	X(CANCELLED, 18, "cancelled")                                                                                  \
	X(STOPPED, 19, "the callback asked to stop")                                                                   \
	X(SCANNER, 20, "the record scanner gave an impossible answer")                                                 \
	X(THREAD, 21, "a thread cannot be started")                                                                    \
	X(AGAIN, 22, "more input is needed, or chunks must be taken first")                                            \
	X(KERNEL, 23, "the engine failed")

enum shredder_error {
#define SHREDDER_ERROR_ENUM(name, number, sentence) SHREDDER_E_##name = -(number),
	SHREDDER_ERRORS(SHREDDER_ERROR_ENUM)
#undef SHREDDER_ERROR_ENUM
};

/* A sentence for a code, static storage. Thread-safe. */
SHREDDER_API const char *shredder_strerror(int code);

/* ---------------------------------------------------------------------------------------------------- parameters */

enum shredder_algorithm {
	SHREDDER_RABIN = 1, /* Rabin fingerprint of the last 48 bytes */
	SHREDDER_GEAR = 2,  /* gear hash of the last 32 bytes, normalised as in FastCDC */
};

/* Bytes that decide whether there is a candidate for a cut: never more than this many before it. */
#define SHREDDER_WINDOW_BYTES 48
/* No minimum; no maximum: what a zero in struct shredder_params cannot say, since it means the default. */
#define SHREDDER_NONE UINT64_MAX
/* Chunks that can be longer than this are handed out without their bytes where they span buffers. */
#define SHREDDER_DATA_MAX (UINT64_C(64) << 20)
/* Longest record delimiter. */
#define SHREDDER_DELIMITER_MAX 32

/*
 * Finds the end of the record that the bytes belong to. The first call after a cut was chosen has `first` set and
 * `before` points to the SHREDDER_WINDOW_BYTES bytes of the stream before data[0], zeros where it had not begun; later
 * calls continue where the last piece ended and have before == NULL. Pieces can end anywhere, and where they do must not
 * change the answer. Gives how many of the `bytes` bytes still belong to the record, 0 to bytes, or SHREDDER_MORE when
 * all do and it goes on. Called by one thread at a time, in the order of the stream, not always the caller's thread.
 */
typedef int64_t shredder_record_fn(void *user, const uint8_t *before, const uint8_t *data, uint64_t bytes, int first);
#define SHREDDER_MORE (-1)

/* What the cuts depend on. docs/shredder.md defines every field's effect. */
struct shredder_params {
	uint32_t size;	    /* sizeof(struct shredder_params) */
	uint32_t algorithm; /* enum shredder_algorithm; 0: rabin */
	/* rabin: low-order bits of the fingerprint that must equal the marker, 1 to degree. gear: bits of the expected
	   chunk size, 1 to 28. 0: 13, a marker every 8 KiB on average. */
	uint32_t mask_bits;
	/* gear: the mask has so many bits more below and less above normal_bytes. 0: 2; SHREDDER_NO_NORMALIZATION. */
	uint32_t normalization;
	/* rabin: bit i is the coefficient of x^i, leading term included; irreducible, of degree 16 to 63. 0:
	   SHREDDER_POLYNOMIAL. */
	uint64_t polynomial;
	/* rabin: what the masked bits must equal. 0: the low bits of SHREDDER_MARKER; SHREDDER_ZERO_MARKER: zero. */
	uint64_t marker;
	/* A chunk is cut at a marker from this length on. 0: 2^mask_bits / 4; SHREDDER_NONE: from 1 on. */
	uint64_t min_bytes;
	/* A chunk is cut at this length. 0: 2^mask_bits * 8; SHREDDER_NONE: never. */
	uint64_t max_bytes;
	/* gear: the length from which on the looser mask counts. 0: 2^mask_bits, if that is between the two above. */
	uint64_t normal_bytes;

	/* Records: every cut but the last moves forward to the next border, where the delimiter or `record` says one is. */
	uint32_t delimiter_bytes; /* length of the delimiter that ends a record, at most 32; 0: none */
	uint32_t reserved;
	uint8_t delimiter[SHREDDER_DELIMITER_MAX];
	uint64_t record_bytes;	    /* how far a cut may move, and does when no border comes; 0: 1 MiB */
	shredder_record_fn *record; /* instead of a delimiter; NULL: none */
	void *record_user;	    /* passed to record */
};

/* x^32 + ...: the first irreducible polynomial of degree 32 from the first 32 fraction bits of pi on. */
#define SHREDDER_POLYNOMIAL UINT64_C(0x1243F6A93)
/* The next 32 fraction bits of pi. From 8 mask bits on, no run of one byte value has it: such runs are not cut up. */
#define SHREDDER_MARKER UINT64_C(0x85A308D3)
#define SHREDDER_ZERO_MARKER UINT64_MAX
#define SHREDDER_NO_NORMALIZATION UINT32_MAX

/*
 * Replaces zeros by the defaults they stand for and checks. 0, or the code that says what cannot work: VERSION,
 * ALGORITHM, DEGREE, REDUCIBLE, MASK, MARKER, SIZES, RECORD. *params is changed on success only. Thread-safe.
 */
SHREDDER_API int shredder_params_complete(struct shredder_params *params);
/* 1 when the polynomial (bit i: coefficient of x^i) is irreducible over GF(2), else 0. Thread-safe. */
SHREDDER_API int shredder_polynomial_is_irreducible(uint64_t polynomial);

/* ------------------------------------------------------------------------------------------------------- chunker */

enum shredder_option_flags {
	SHREDDER_NO_DIGEST = 1 << 0, /* chunks carry no BLAKE3 */
	SHREDDER_NO_DIRECT = 1 << 1, /* files are read through the page cache, never with O_DIRECT */
	SHREDDER_NO_DATA = 1 << 2,   /* chunks carry no data pointer unless it costs nothing */
};

/* GPUs that one chunker uses at most. */
#define SHREDDER_GPUS_MAX 16

struct shredder_options {
	uint32_t size;	/* sizeof(struct shredder_options) */
	uint32_t flags; /* enum shredder_option_flags */
	const char
		*engine;  /* "auto", "cpu", "cuda", or one kernel of the CPU engine: "portable", "avx2", "avx512"; NULL:
			       auto. Another engine than the CPU's that cannot run falls back to it; shredder_stats says so. */
	uint32_t threads; /* threads that compute, the caller's among them, 256 at most; 0: one a processor */
	uint32_t buffers; /* buffers of the ring, 2 to 1024; 0: threads + 3, with GPUs 4 for each + 1 */
	uint64_t buffer_bytes; /* bytes of one, a multiple of 4096 from 4 KiB to 1 GiB; 0: 4 MiB, with GPUs 16 MiB */
	const struct shredder_params *params; /* NULL: the default */
	/* "cuda": the GPUs whose numbers are gpus[0 .. gpus_count), or the first gpus_count when gpus is NULL; 0: all
	   that CUDA shows. At most SHREDDER_GPUS_MAX; a number may come twice. Several are used when a buffer holds the
	   longest chunk. One that does not work is left out; shredder_stats says so. */
	const uint32_t *gpus;
	uint32_t gpus_count;
	uint32_t reserved;
};

/* Why a chunk ends where it ends. */
enum shredder_cut {
	SHREDDER_CUT_MARKER = 1, /* the fingerprint is a marker */
	SHREDDER_CUT_MAX = 2,	 /* the chunk had its maximum size */
	SHREDDER_CUT_END = 3,	 /* the input ends */
};

struct shredder_chunk {
	uint64_t offset;      /* in the stream; the chunks of an input follow each other without gaps */
	uint64_t length;      /* at least 1 */
	uint64_t fingerprint; /* Rabin fingerprint or gear hash of the window that ends where the chunk ends */
	const void *data; /* its bytes, until the next call; NULL when they were not kept together: it spans buffers and
			     SHREDDER_NO_DATA is set or max_bytes + record_bytes is above SHREDDER_DATA_MAX */
	uint32_t cut;	  /* enum shredder_cut; a cut that moved to a record border keeps its reason */
	uint32_t reserved;
	uint8_t digest[SHREDDER_DIGEST_BYTES]; /* zeros with SHREDDER_NO_DIGEST */
};

/*
 * Makes a chunker; options may be NULL. The structures, the engine's name and the GPUs' numbers are copied. 0 and *out, or VERSION, ENGINE,
 * BUFFERS, NOMEM, THREAD, INVAL or a code of shredder_params_complete(). shredder_close() frees it, whatever it is doing.
 */
SHREDDER_API int shredder_open(const struct shredder_options *options, shredder **out);
/* Frees it; NULL is allowed. */
SHREDDER_API void shredder_close(shredder *s);

/*
 * Begin an input; STATE while another one is not finished (next gave 0 or an error, or shredder_abandon()). After another
 * error there is no input: shredder_next() gives STATE.
 *
 * buffer: bytes in memory, which must stay unchanged until the input is finished; nothing is copied.
 * file: opened by its name and read to its end, asynchronously and past the page cache where that works. OPEN, ISDIR.
 * fd: a file from its current offset, a pipe, a socket or a device, to its end; it stays the caller's, which does not use
 *     it meanwhile. ISDIR, OPEN when it cannot be read.
 * reader: `read` fills up to `bytes` bytes and gives how many, 0 at the end, or a negative number: the input ends with IO.
 *     It is called from a thread of the library.
 * push: the caller brings the bytes with shredder_push() and says shredder_push_end().
 *
 * A regular file whose size or modification time is another at the end than at the beginning ends with CHANGED.
 */
SHREDDER_API int shredder_begin_buffer(shredder *s, const void *data, uint64_t bytes);
SHREDDER_API int shredder_begin_file(shredder *s, const char *path);
SHREDDER_API int shredder_begin_fd(shredder *s, int fd);
typedef int64_t shredder_read_fn(void *user, void *to, uint64_t bytes);
SHREDDER_API int shredder_begin_reader(shredder *s, shredder_read_fn *read, void *user);
SHREDDER_API int shredder_begin_push(shredder *s);

/* Copies what fits into the ring and gives how many bytes that was; 0 when chunks must be taken first. STATE. */
SHREDDER_API int64_t shredder_push(shredder *s, const void *data, uint64_t bytes);
/* The input is complete. */
SHREDDER_API int shredder_push_end(shredder *s);

/*
 * The next chunk: 1 and *chunk; 0 when all of the input was covered; AGAIN when shredder_push() must bring more first;
 * or the error that ended the input: IO, CHANGED, CANCELLED, SCANNER, KERNEL, NOMEM. Waits for input and computes
 * meanwhile.
 */
SHREDDER_API int shredder_next(shredder *s, struct shredder_chunk *chunk);

/* Takes every chunk; anything but 0 from the callback stops. 0, STOPPED, or what shredder_next() gives. */
typedef int shredder_chunk_fn(void *user, const struct shredder_chunk *chunk);
SHREDDER_API int shredder_each(shredder *s, shredder_chunk_fn *callback, void *user);

/* Gives up the current input, if any, and waits until nothing uses it any more. */
SHREDDER_API void shredder_abandon(shredder *s);
/* Ends the current input with CANCELLED, also while another thread waits in shredder_next(). Thread-safe. */
SHREDDER_API void shredder_cancel(shredder *s);

/* What went wrong last, with names and the system's reason; never NULL, valid until the next call. */
SHREDDER_API const char *shredder_last_message(const shredder *s);

/* ---------------------------------------------------------------------------------------------------- statistics */

/* The stages of the pipeline. Busy time adds up over threads: divided by elapsed_ns it is a stage's utilisation. */
enum shredder_stage {
	SHREDDER_STAGE_READ,	 /* reading into a buffer */
	SHREDDER_STAGE_TRANSFER, /* to the memory of the engine; none for the CPU */
	SHREDDER_STAGE_KERNEL,	 /* markers */
	SHREDDER_STAGE_STORE,	 /* cuts and digests */
	SHREDDER_STAGES
};

struct shredder_stats {
	uint64_t bytes;	     /* covered by chunks that were handed out */
	uint64_t chunks;     /* handed out */
	uint64_t elapsed_ns; /* since the input began, until it was finished */
	uint64_t busy_ns[SHREDDER_STAGES];
	uint32_t threads;
	uint32_t buffers;
	uint64_t buffer_bytes;
	const char *engine;    /* what runs: "cpu", "cuda" */
	const char *kernel;    /* "portable", "avx2", "avx512", ... */
	const char *fell_back; /* why it is not all that was asked for: another engine or fewer GPUs, from the beginning
				  or since one failed; or NULL. It changes in shredder_next() and when an input begins;
				  the other two are static storage */
	uint32_t direct;       /* 1: the input was read with O_DIRECT */
	uint32_t gpus;	       /* how many shredder_get_gpu_stats() knows */
	uint32_t reserved[6];
};

/* What one GPU did for the input; busy_ns of struct shredder_stats has the sums. */
struct shredder_gpu_stats {
	uint32_t number;  /* CUDA's */
	uint32_t failed;  /* 1: it is not used any more */
	uint64_t buffers; /* of the input that it searched */
	uint64_t bytes;
	uint64_t transfer_ns; /* copying; divided by elapsed_ns it is the utilisation */
	uint64_t kernel_ns;   /* computing */
	uint64_t reserved[2];
};

/* Of the current input, or of the last one. Not while another thread is in shredder_next(). */
SHREDDER_API void shredder_get_stats(const shredder *s, struct shredder_stats *stats);

/* The same of the GPU with this index, which counts as shredder_options.gpus does. 1; 0: there are not so many. */
SHREDDER_API int shredder_get_gpu_stats(const shredder *s, uint32_t index, struct shredder_gpu_stats *stats);

/* The name of a stage, static storage. */
SHREDDER_API const char *shredder_stage_name(uint32_t stage);

#ifdef __cplusplus
}
#endif

#endif
