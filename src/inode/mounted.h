/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mounted file system: what every operation gets. It stands below what it is made of in data/ and fs/, so what those keep
 * in it (requests to read ahead, large transfers) is described here and used there.
 */
#ifndef G4_MOUNTED_H
#define G4_MOUNTED_H

#include "alloc/alloc.h"
#include "dedup/table.h"
#include "dir/dir.h"
#include "dir/lookup.h"
#include "inode/inode_types.h"
#include "task/job.h"
#include "task/task.h"

/* ------------------------------------------------------------------ reading ahead (data/ahead.c) */
#define G4_AHEAD_SLOTS 64u

struct g4_ahead_request {
	uint32_t index; /* referenced */
	uint32_t pages;
	uint64_t page;
};

struct g4_ahead {
	struct g4_lock lock; /* of first, count and requests */
	uint32_t first, count;
	uint32_t posted;  /* grows with every request; idle servers wait on it */
	uint32_t servers; /* workgroups that call g4_ahead_serve(); without any, nothing is asked for */
	struct g4_ahead_request requests[G4_AHEAD_SLOTS];
};

/* ------------------------------------------------------------------ transfers by many workgroups (data/split.c) */
#define G4_SPLIT_JOBS 64u /* at a time; further transfers are done by one workgroup each */
/*
 * Helpers of all jobs with stripes together, at most. They write to the host's memory and wait for none of it, so that more of them do not write more: what is read,
 * and each question to the agent and its answer, queues behind all that was written before it. With 790 that was a millisecond on an H200.
 */
#define G4_SPLIT_STRIPE_HELPERS 256u
#define G4_SPLIT_PIECE_PAGES 64u /* of a piece, at most */
/* Entries of a batch: few of them wait for the slowest, and what they have in common is walked to once. */
#define G4_SPLIT_PIECE_NAMES 4u

enum g4_split_kind {
	G4_SPLIT_READ,
	G4_SPLIT_WRITE,
	G4_SPLIT_STRIPES,
	G4_SPLIT_STAGE,
	G4_SPLIT_CHAIN,
	G4_SPLIT_NAMES,
	G4_SPLIT_CLEAR,
	G4_SPLIT_LOST
};
struct g4_batch;
struct g4_chain;
struct g4_names;
struct g4_clear_part;
struct g4_batch_stripes;

/* What there is to move. */
struct g4_split_work {
	uint32_t kind;	 /* enum g4_split_kind */
	uint32_t index;	 /* READ: locked by the owner */
	uint64_t offset; /* READ: in the file; the others: 0 */
	uint64_t bytes;	 /* CHAIN: directories; NAMES: entries; CLEAR: ranges of positions */
	uint8_t *to;	 /* READ */
	bool direct;	 /* READ: past the cache, where that can be */
	bool stream;
	struct g4_batch
		*batch;	     /* WRITE, STAGE: in memory that all workgroups reach; a piece has its pages' part of it */
	const uint8_t *from; /* STAGE: what the batch's buffers are filled with */
	const struct g4_batch_stripes *stripes; /* STRIPES: the same; a piece has whole ones */
	const struct g4_chain *chain;		/* CHAIN: the same; a piece has its directories' part of it */
	const struct g4_names *names;		/* NAMES: the same, of its entries */
	struct g4_clear_part *clear;		/* CLEAR: the same; a piece has names of its range */
	const struct g4_direct_lost *lost;	/* LOST: the same; a piece has whole stripes of it */
};

struct g4_split_job { /* what many change at a time lies apart from what is constant while the job is open */
	struct g4_task task;
	uint32_t helpers; /* workgroups besides the owner, or about to see that there are too many */
	uint8_t padding1[100];
	uint32_t piece_bytes;
	uint32_t helpers_most; /* atomic: who looks at it may own no piece */
	struct g4_split_work work;
	uint8_t padding2[24];
};
G4_STATIC_ASSERT(sizeof(struct g4_split_job) == 256, "two cache lines of a GPU");

struct g4_split {
	uint32_t helpers;	 /* workgroups that call g4_split_help() when idle; without any, nothing is split */
	uint32_t stripe_helpers; /* of those, at jobs with STRIPES or LOST */
	uint64_t used;		 /* bit i: jobs[i] has an owner */
	uint64_t stripes;	 /* bit i: jobs[i] is one with STRIPES or LOST; set before its bit in `open` */
	uint32_t lost_first;	 /* where helpers look first, plus 1: the oldest job with LOST; 0: there is none */
	uint32_t
		lost_next; /* where the next one lies, if there is room: the order of these is that of their age. The owner's */
	uint64_t lost; /* bit i: jobs[i] is one with LOST. The owner's, of which there is one at a time */
	uint8_t padding0[88];
	uint64_t open; /* bit i: jobs[i] may have pieces to take; what idle workgroups look at */
	uint8_t padding1[120];
	struct g4_split_job jobs[G4_SPLIT_JOBS];
};

/* ------------------------------------------------------------------ memory that nobody else changes (data/bounce.c) */
#define G4_BOUNCE_BUFFERS 64u		     /* for a processor's threads */
#define G4_BOUNCE_BUFFERS_MOST 1024u	     /* for the workgroups of a GPU, each of which fills one slowly */
#define G4_BOUNCE_PAGES G4_SPLIT_PIECE_PAGES /* of a buffer: a piece of a transfer fits one */

#define G4_BOUNCE_NOTE_BYTES (20u * 1024)

struct g4_bounce {
	struct g4_lock turn; /* held while waiting for a buffer: first come, first served */
	uint32_t given;	     /* grows when some are given back: who waits for one waits on it */
	uint32_t count;	     /* of buffers, a multiple of 32 */
	uint32_t next;	     /* word of `used` where the next one is looked for first; under `turn` */
	uint32_t used[G4_BOUNCE_BUFFERS_MOST / 32]; /* bits of those that are somebody's */
	uint8_t *memory;			    /* NULL: the device is memory, and nobody needs any */
	uint8_t *
		notes; /* of each buffer G4_BOUNCE_NOTE_BYTES: what is known of a batch that begins there (bounce_stage.c) */
};

/* ------------------------------------------------------------------ what was found damaged (inode/events.c) */
#define G4_EVENTS 32u

struct g4_event {
	uint64_t ino;  /* 0: the file system's own */
	uint64_t page; /* of the file, or G4_FINDING_METADATA */
	uint64_t address;
	uint64_t disks; /* bit d: disk d of a set has it; 1 where there is one device. g4_event_post() fills it in */
	uint32_t code;	/* positive */
	uint32_t algorithm;
	uint8_t expected[16], found[16]; /* the beginnings of the sums, with code DATA */
};

struct g4_events {
	struct g4_lock lock;
	uint64_t posted, taken;
	uint64_t lost; /* of all: nobody took them in time */
	struct g4_event ring[G4_EVENTS];
	struct g4_event last; /* posted or lost; code 0: none since the mount */
};

/* ------------------------------------------------------------------ background jobs (fs/jobs.c, fs/scrub.c) */
#define G4_SCRUB_DEPTH 64u
#define G4_SCRUB_SEEN 4096u
#define G4_SCRUB_MOVED 64u
#define G4_SCRUB_PAGES 64u  /* read at a time */
#define G4_SCRUB_BUFFERS 4u /* of so many pages, where the device is no memory */
#define G4_SCRUB_MISFITS 64u
#define G4_SCRUB_ASKED 16384u
#define G4_SCRUB_ROUNDS 64u

struct g4_scrub_span { /* pages of a file that several workgroups look at (fs/scrub_span.c); they take atomics, and the rest stays */
	struct g4_task task;
	uint32_t index; /* of the inode, which the owner has locked */
	uint32_t used;	/* buffers: bit k */
	uint64_t page, end;
	uint64_t dir;		/* that named it */
	uint64_t looked, found; /* pages, and damaged ones */
};

struct g4_scrub {	  /* what a scrub knows beyond its cursor; the step's, but `moved` and `span` */
	uint8_t *pages;	  /* buffers of G4_SCRUB_PAGES: the first is the owner's */
	uint32_t helpers; /* workgroups that call g4_scrub_help() when idle */
	struct g4_scrub_span span;
	uint32_t dir, file; /* referenced */
	bool extra;	    /* the file was moved: the cursor knows nothing of it */
	uint64_t page;	    /* of the file, where it goes on */
	uint32_t depth;	    /* directories above that it goes on with, the lowest last: referenced */
	uint32_t stack[G4_SCRUB_DEPTH];
	uint64_t positions[G4_SCRUB_DEPTH];
	/* looked at last */
	uint64_t seen[G4_SCRUB_SEEN]; /* slabs, indirect pages and pages of sums, by page; atomic */
	uint64_t leaves[G4_DIR_PATH];
	/* inodes that got another name meanwhile, referenced: they may have been moved from where it will come to where it was */
	struct g4_lock moved_lock;
	uint32_t watching; /* somebody scrubs: they are collected */
	uint32_t moved_count;
	uint64_t moved_lost;
	uint32_t moved[G4_SCRUB_MOVED];
	uint32_t nameless; /* so many inodes of the orphan list were among them */
	/* rows that do not fit (fs/scrub_rows.c): where a part of the address space begins in which some lie */
	uint32_t misfit_count, rounds;
	uint64_t rows_at; /* where the comparison goes on behind them */
	uint64_t misfits[G4_SCRUB_MISFITS];
	uint64_t errors;      /* findings before the tree is gone through */
	bool again;	      /* once more, for these pages alone, in ascending order: */
	uint32_t asked_count; /* constant meanwhile */
	uint64_t asked[G4_SCRUB_ASKED];
};

/* Free regions that a rebalancing has taken out of what can be claimed, for the set to use their places (fs/rebalance.c). */
struct g4_lent {
	uint64_t pages;	  /* atomic: all of them. They are nobody's for the allocator, and free for who asks (statfs) */
	uint64_t last_ns; /* atomic: when some were taken or given back */
	uint64_t rest_ns; /* atomic: none are taken before that, for somebody found no room */
	uint32_t told;	  /* the set knows how much of each part of the address space is in use */
	uint32_t count;
	struct {
		uint64_t first, regions;
	} runs[G4_LEND_MOST]; /* from the last one down */
};

struct g4_jobs {
	struct g4_lock lock; /* of records, findings and findings_lost */
	uint32_t owner;	     /* somebody does a step */
	uint32_t wanted;     /* so many commands wait for the step's end: nobody begins another */
	uint32_t changed;    /* grows with each order that servers of jobs should see; they wait on it */
	uint32_t look;	     /* a disk may have failed since somebody looked whether a spare takes its place */
	struct g4_job_record records[G4_JOBS];
	struct g4_finding findings[G4_FINDINGS];
	uint64_t findings_lost;
	uint64_t count; /* started since mkfs */
	uint64_t logged_ns;
	struct g4_job_throttle throttles[G4_JOBS];
	struct g4_scrub scrub;
	struct g4_lent lent; /* with `owner`; of a step, but where what is lent could not be taken back at once */
};

/* ------------------------------------------------------------------ the file system */
#define G4_FS_READ_ONLY 1u
#define G4_FS_NOATIME 2u
#define G4_FS_STRICTATIME 4u
#define G4_FS_HOLD_UNLINKED 8u
#define G4_FS_SYNC 16u
#define G4_FS_DISCARD 32u	/* what was freed is discarded behind its commit */
#define G4_FS_DEDUP_VERIFY 128u /* what has the BLAKE3 of what is written is read and compared before it is shared */
#define G4_FS_TICK_TIMES 64u /* stamps are of the clock's last tick, and not before the latest that a caller brought */

/* What a writer wants of deduplication, with its command or its handle. */
enum g4_dedup_wish { G4_DEDUP_BY_POLICY, G4_DEDUP_WISHED, G4_DEDUP_REFUSED };

struct g4_fs {
	struct g4_space space;
	struct g4_cache cache;
	struct g4_meta meta;
	struct g4_journal journal;
	struct g4_alloc alloc;
	struct g4_ddt ddt; /* what contents lie where, as far as it is known */
	struct g4_icache icache;
	struct g4_lookup lookup;
	struct g4_dir_locks dir_locks;
	struct g4_superblock super;
	bool super_is_second; /* it was read from the second copy */
	uint64_t hash_key[2];
	uint64_t name_secret[4]; /* of this mount: dir/lookup.h */
	uint32_t flags;
	uint32_t root_index;	   /* referenced while mounted */
	uint32_t first_generation; /* a new inode's is this and its key: another one than the number had before */
	uint64_t seen_stamp;	   /* the latest of the kernel's that we know, 0: none */
	int32_t days_ahead;	   /* of tests: of the clock by which pages are listed */
	uint64_t epochs; /* address of G4_EPOCHS counters, once a client wants them: inode/epoch.h; 0: nobody does */
	/* where clients read them, in host memory; there are twice as many counters then. NULL: at `epochs` itself */
	uint64_t *epochs_shown;

	struct g4_lock rename_lock; /* one cross-directory rename at a time */
	struct g4_lock orphan_lock;
	uint32_t orphan_head; /* in-core inode */
	uint32_t left_inodes; /* of that list stay, since the device does not give all that they have */
	bool loads_orphans;   /* a mount goes through it: that it leads to an inode says that this is in use */
	struct g4_lock dirty_list_lock;
	struct g4_rwlock flush_lock;	  /* shared by passes over the dirty inodes; taken before inode locks */
	uint32_t dirty_first, dirty_last; /* in-core inodes with something to write back */
	uint64_t dirty_pages;
	uint64_t dirty_limit;
	uint32_t queued_inodes; /* on that list */
	struct g4_ahead ahead;
	struct g4_split split;
	struct g4_bounce bounce;
	uint32_t own_level;	/* enum g4_level of what no policy asks for; OWN: of one disk */
	uint32_t resizing;	/* enum g4_fs_resizing: what the holder of the superblocks does */
	uint64_t damaged_pages; /* met since mkfs: they are not what was written */
	struct g4_events events;
	struct g4_jobs jobs;
	uint64_t memory_bytes;	/* of the mapping that begins here */
	uint32_t scratch_bytes; /* that a workgroup needs; below */
};

G4_FN G4_INLINE struct g4_inode_core *g4_icache_at(struct g4_fs *fs, uint32_t i)
{
	return &fs->icache.inodes[i];
}

/*
 * Scratch memory that may be taken at a time (simt/scratch.h), from the outside to the inside:
 *
 *     16 KiB  a caller that runs several operations in a row (COPY_RANGE's buffer, CLEAR, names of a device-API caller)
 *     68 KiB  the operation: a batch of the write pipeline and a page, or a path walk
 *     12 KiB  sums of that batch's pages, unless the mount can not have any
 *      8 KiB  a commit on the way into its transaction, or one step's regions
 *      8 KiB  pages that copies are compared with, where there are several
 *      4 KiB  what is read beside a page, and a request without what is there, with a second tier
 *     20 KiB  columns of stripes with parity on their way, where there may be any
 *      8 KiB  what alignment to pages costs
 *
 * A file gets sums while it is mounted, too, and with the first of them the file system its feature: so all mounts that can write
 * have room for them.
 */
#define G4_COPY_SCRATCH_BYTES (16u * 1024)
#define G4_FS_SCRATCH_BYTES (68u * 1024)
#define G4_SUMS_SCRATCH_BYTES (12u * 1024)
#define G4_COPIES_SCRATCH_BYTES (2 * G4_PAGE_BYTES)
#define G4_TIER_SCRATCH_BYTES G4_PAGE_BYTES
#define G4_COLUMNS_SCRATCH_BYTES (20u * 1024)
#define G4_LEAST_SCRATCH_BYTES                                                                                         \
	(G4_COPY_SCRATCH_BYTES + G4_FS_SCRATCH_BYTES + G4_COMMIT_SCRATCH_BYTES + 2 * (uint32_t)G4_PAGE_BYTES)
G4_STATIC_ASSERT((G4_LEAST_SCRATCH_BYTES | G4_SUMS_SCRATCH_BYTES | G4_COPIES_SCRATCH_BYTES) % G4_PAGE_BYTES == 0,
		 "one arena behind the other, and all begin with a page");
G4_STATIC_ASSERT(G4_LEAST_SCRATCH_BYTES + G4_SUMS_SCRATCH_BYTES + G4_COPIES_SCRATCH_BYTES + G4_TIER_SCRATCH_BYTES +
				 G4_COLUMNS_SCRATCH_BYTES <=
			 G4_WG_SCRATCH_BYTES,
		 "enough for any mount");
G4_STATIC_ASSERT(sizeof(struct g4_tier_fill) + G4_TIER_MOST_PAGES * sizeof(struct g4_iov) + G4_PAGE_BYTES / 4 <=
			 G4_TIER_SCRATCH_BYTES,
		 "with what alignment costs");
G4_STATIC_ASSERT(sizeof(struct g4_direct_remake) + G4_DIRECT_NEAR_BYTES + G4_PAGE_BYTES / 4 <= G4_COLUMNS_SCRATCH_BYTES,
		 "the same");

#endif
