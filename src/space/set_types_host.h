/* SPDX-License-Identifier: Apache-2.0 */
/* What is inside an open set. Of the files of this folder alone. */
#ifndef G4_SET_TYPES_HOST_H
#define G4_SET_TYPES_HOST_H

#include <pthread.h>

#include "dev/dev_ops_host.h"
#include "space/set_host.h"

struct g4_set_member {
	struct g4_dev *dev; /* NULL: missing */
	char *name;
	uint32_t state; /* enum g4_disk_state, atomic; it only ever becomes DROPPED */
};

/*
 * The lock guards `super` and `page`, and is held while superblocks are written: so whoever finds a disk dropped, and has had the lock
 * since, knows that the other disks say so durably.
 */
struct g4_set {
	struct g4_dev dev; /* what the world sees; its host is this */
	pthread_mutex_t lock;
	uint32_t count;
	struct g4_set_member disks[G4_MAX_DISKS];
	struct g4_chunk *chunks;
	struct g4_chunk_map map;
	struct g4_superblock *super; /* the newest, as the set gives it */
	bool has_super;		     /* it was read or written; not while the set is being made */
	bool chunks_damaged;	     /* on a disk: all get them again with the next superblock */
	uint32_t unrecorded;	     /* atomic: a disk is missing, and the others do not say so yet */
	uint32_t
		stuck; /* atomic: a disk has failed that can not be done without, and what it had not flushed may be lost */
	uint8_t *page;		      /* aligned */
	struct g4_set_parity *parity; /* set_parity_host.h; NULL: no chunk has any */
};

/* ---- judging (set_open_host.c) ---- */
/* Whether a superblock that is whole can be one of a set. */
bool g4_set_is_label(const struct g4_superblock *sb);
/* Whether the disk of `a` speaks rather than that of `b`. */
bool g4_set_speaks_before(const struct g4_superblock *a, const struct g4_superblock *b);
/* Whether a disk and the one that speaks were each written without the other. */
bool g4_set_is_split(const struct g4_superblock *lead, const struct g4_superblock *one);

/* ---- superblocks (set_label_host.c) ---- */
/* Where the copies of the superblock are on a disk, of which so much is used. */
uint64_t g4_set_label_address(uint64_t disk_bytes, bool second);
/* Reads the newest superblock of a disk of a set or of a single one, into a page. -G4_E_SB_MAGIC: it has none. */
int g4_set_read_label(struct g4_wg *wg, struct g4_dev *disk, struct g4_superblock *out);
/* One of the superblocks of the set; `to` is a page. What is written and is none goes to all disks as it is. */
int g4_set_read_super(struct g4_wg *wg, struct g4_set *set, bool second, void *to);
int g4_set_write_super(struct g4_wg *wg, struct g4_set *set, bool second, const void *from);
/* Whether everything is on disks that are active and not `without`. */
bool g4_set_is_whole(const struct g4_set *set, uint32_t without);
/* A disk has failed: the others say so when it returns 0. -G4_E_IO: it can not be done without. */
int g4_set_drop(struct g4_wg *wg, struct g4_set *set, uint32_t disk);
/* Before the first write that missing disks miss: the others say so when it returns 0. */
int g4_set_record_missing(struct g4_wg *wg, struct g4_set *set);
/*
 * A disk that has everything but superblocks takes the place of one that is not there: chunks and superblocks are written, its own
 * last. It is the set's when this returns 0.
 */
int g4_set_admit(struct g4_wg *wg, struct g4_set *set, uint32_t disk, struct g4_dev *dev, bool is_new);
/* Pages of a disk were written from another copy. */
void g4_set_count_mended(struct g4_set *set, uint32_t disk, uint64_t pages);

/* ---- the device (set_io_host.c) ---- */
/* Makes the device of a set whose disks and chunks are there. */
void g4_set_begin(struct g4_set *set);
/* Closes the disks as well. */
void g4_set_free(struct g4_set *set, bool disks);
bool g4_set_is(const struct g4_dev *dev);

#endif
