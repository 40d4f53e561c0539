/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds pages with the same contents in files of a file system by their sums, in bounded memory, and shares them. No data is read but
 * what g4_dedup_same() compares. Files may change, move and go meanwhile: what is found is a hint, which that function verifies.
 */
#ifndef G4_CLI_DEDUP_H
#define G4_CLI_DEDUP_H

#include "base/progress_host.h"
#include "cli/dedup_files.h"
#include "task/job.h"

#define G4_DEDUP_PAGE_BYTES UINT64_C(4096)
#define G4_DEDUP_LEAST_BYTES UINT64_C(4096)
#define G4_DEDUP_CHUNKS_LEAST_BYTES (UINT64_C(256) << 10)
#define G4_DEDUP_CLASSES 33u

/* What chunks have found (cli/dedup_chunks.h). Bytes are those of pages that are stored; the end of a file's last page counts. */
struct g4_dedup_chunks {
	uint64_t count, bytes; /* chunks, and how long they are together */
	uint64_t passes;
	uint64_t left_out; /* files that could not be read */
	uint64_t
		duplicate_bytes; /* stored once more than they have to be, wherever they begin: the sum of the next three */
	uint64_t aligned_bytes;	  /* in pages that are the same, and so may be shared */
	uint64_t partial_bytes;	  /* at the same place of a page that has other bytes, too */
	uint64_t unaligned_bytes; /* at another place of a page than in any copy before */
	uint64_t shared;	  /* pages of files that were another page before */
};

struct g4_dedup {
	struct g4_dedup_place place;
	struct g4_progress progress; /* zero: none is shown */
	/* what to do */
	uint64_t memory_bytes; /* for what is known of pages; names of files come on top */
	uint64_t rate;	       /* bytes a second that are shared, 0: no limit */
	bool idle;	       /* of a mount: only while nobody else uses it, or a step in G4_JOB_LEAST_NS */
	bool share;	       /* else it only looks */
	bool compare;
	bool by_chunks; /* as well as by the sums of pages: files are read */
	/* what was found; pages of 4096 bytes */
	uint64_t files, left_out; /* files that could not be read */
	uint64_t tiny; /* files without pages that are among them, since nobody asked for their sizes before */
	uint64_t passes;
	uint64_t pages;	       /* that files have */
	uint64_t stored;       /* different ones on the device */
	uint64_t without_sums; /* of those of files */
	uint64_t duplicates;   /* stored ones whose contents another one has, by their sums, and all that are zeros */
	uint64_t zeros;	       /* of files that are zeros */
	uint64_t shared;       /* of files that were another page before */
	uint64_t holes;	       /* of files that were zeros before */
	uint64_t different;    /* that were not the same after all, or whose file has gone */
	uint64_t failed;       /* that could not be shared */
	uint64_t owners
		[G4_DEDUP_CLASSES]; /* stored pages that have 2^k pages of these files, or more, and less than 2^(k+1) */
	struct g4_dedup_chunks chunks;
	/* its own */
	uint64_t zero_keys[3];
	struct g4_dedup_file *file_list;
	uint64_t file_room;
	struct g4_dedup_record *records;
	uint64_t record_count, record_room;
	struct g4_job_throttle throttle;
	struct g4_dedup_queue *queue; /* of a mount: rows that are not tried yet (cli/dedup_share.c) */
	uint64_t granted_ns;	      /* when nobody else used it */
};

/* Adds a file, or all that are in a directory and below. False: something could not be read, which was said. */
bool g4_dedup_add(struct g4_dedup *dedup, const char *path);
/* Goes through what was added. 0, or a negative errno that ended it, -EINTR where a signal did (g4_cli_interrupted()). */
int g4_dedup_go(struct g4_dedup *dedup);
void g4_dedup_free(struct g4_dedup *dedup);

#endif
