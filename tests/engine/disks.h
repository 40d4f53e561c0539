/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems of several disks in memory, for tests: made, mounted with some of their disks, filled, damaged. With
 * G4_TEST_ENGINE=remote each set is behind an I/O agent, as the CUDA engine has it; with "cuda" engines are that.
 */
#ifndef DISKS_H
#define DISKS_H

#include "rig.h"

#include "fs/fs.h"
#include "space/set_host.h"

#define DISK_BYTES (16 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define MOST_DISKS 16u
#define FILE_PAGES 6u

struct disks {
	uint32_t count;
	int fds[MOST_DISKS];
	char names[MOST_DISKS][64];
	uint8_t *memory[MOST_DISKS]; /* a mapping of the same number's file, which others may get later */
	uint64_t bytes[MOST_DISKS];
	char all[MOST_DISKS * 64];
	char message[1024];   /* why it could not be done */
	struct rig rig;	      /* without disks_begin_fs(): an engine */
	struct g4_dev *outer; /* of disks_begin_fs() */
};

struct faulty {
	struct g4_dev *fault[MOST_DISKS];
	struct g4_dev *set;
};

extern struct g4_health disks_health; /* as disks_scrub() saw it last */

void disks_make(struct disks *d, uint32_t count, const uint64_t *bytes);
void disks_free(struct disks *d);
/* The disks of a set of bits, as one name. */
const char *disks_name_of(struct disks *d, uint32_t which);
struct g4_dev *disks_open_one(const char *name);
int disks_try_open(struct disks *d, uint32_t which, bool degraded, uint32_t flags, struct g4_dev **dev);
/* The same, as whoever mounts it next. */
int disks_open_to_mount(struct disks *d, uint32_t which, bool degraded, struct g4_dev **dev);
void disks_format(struct disks *d, enum g4_raid raid, uint32_t checksum);
void disks_format_plan(struct disks *d, const struct g4_set_plan *plan, uint32_t checksum);
/*
 * With parity, in stripes of ROWS_STRIPE bytes, and a file that takes what is left of the front, which has copies: what comes then lies in
 * rows.
 */
#define ROWS_STRIPE (16 * 1024u)
void disks_format_rows(struct disks *d, uint32_t parity, uint32_t checksum);
void disks_format_copies(struct disks *d, enum g4_raid raid, uint32_t copies, uint32_t checksum);
/* Mounts these disks; d->rig has the commands then. */
int disks_try_mount(struct disks *d, uint32_t which, bool degraded);
void disks_mount(struct disks *d, uint32_t which);
void disks_unmount(struct disks *d);
void disks_expect_clean(struct disks *d, uint32_t which);
/* A file of this content, durable. 0 or a code. */
int disks_put(struct disks *d, uint32_t number, uint32_t version);
/* Whether the file has this content; a code where it can not be read. */
int disks_has(struct disks *d, uint32_t number, uint32_t version);
void disks_expect_files(struct disks *d, uint32_t count, uint32_t version);
/* One file as large as fits, each MiB as rig_memory(G4_MIB, 5) has it, so that all disks are used to their ends. Its bytes. */
uint64_t disks_fill(struct disks *d, uint64_t *ino);
void disks_expect_filled(struct disks *d, uint64_t ino, uint64_t bytes);
/* So many disks can not be a set by this plan, and the sentence has these words. */
void disks_expect_refused(uint32_t count, const struct g4_set_plan *plan, const char *words);
/*
 * rig_every(), and behind an I/O agent the share that AddressSanitizer takes, but where G4_TEST_LONG is set: the code is the same below the
 * agent and above it.
 */
uint64_t disks_every(uint64_t slow);
/* Whether a check of all that may be lost looks at the loss of these disks (bits): sanitizers take some by turns, and none that is lost. */
bool disks_takes_loss(uint32_t lost);
/* The set behind an I/O agent that owns it, with a short queue, where the tests run so; else the set. */
struct g4_dev *disks_behind(struct g4_dev *set);
/* The disks, each behind a fault device; the set owns them. */
void disks_open_faulty(struct disks *d, struct faulty *f);
/* The same in two: between them nothing was asked of the disks yet, and the set's recovery can be watched. */
void disks_wrap_faulty(struct disks *d, struct faulty *f);
void disks_assemble_faulty(struct disks *d, struct faulty *f);
void disks_mount_faulty(struct disks *d, struct faulty *f);
/* One byte of each page of a disk is another, but for its superblocks: they say that it is one of the set. */
void disks_rot(struct disks *d, uint32_t bad);
/* Mounts an open set without an engine around it. flags: G4_FS_* */
void disks_begin_fs(struct disks *d, struct g4_dev *set, uint32_t flags);
/* The same of these disks; disks_unmount_fs() closes the set. */
void disks_mount_fs(struct disks *d, uint32_t which, struct g4_dev **dev);
void disks_unmount_fs(struct disks *d, struct g4_dev *dev, bool clean);
/* Every kind of page. */
void disks_populate(struct disks *d);
void disks_expect_all(struct disks *d);
/* To its end; the damage that it found. */
uint64_t disks_scrub(struct disks *d);
/* What the newest job has come to, in disks_health. */
const struct g4_job_record *disks_newest_job(struct disks *d);

/* ---- the power fails ---- */
#define MOST_REQUESTS 65536u
struct disks_watched {
	struct disks_order *order;
	uint8_t disk;
};
struct disks_order { /* what was submitted to all disks, but reads, in one order: an entry is the disk's number */
	uint8_t disk[MOST_REQUESTS];
	uint32_t count;
	struct disks_watched watched[MOST_DISKS];
};
/* From now on the requests are recorded; `order` is zeros, and stays while they are used. */
void disks_watch(struct disks *d, struct faulty *f, struct disks_order *order);
/*
 * What the disks have when the power fails after the first `at` requests, into crashed->memory: of each what it had at first, all that
 * was flushed, and some sectors of the rest.
 */
void disks_crash(struct disks *crashed, uint8_t *const *start, struct faulty *f, const struct disks_order *order,
		 uint32_t at, uint64_t *random);

#endif
