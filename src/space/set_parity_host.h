/* SPDX-License-Identifier: Apache-2.0 */
/* Rows with parity (set_parity_host.c) and the log that they are written through (set_log_host.c). Of the files of this folder alone. */
#ifndef G4_SET_PARITY_HOST_H
#define G4_SET_PARITY_HOST_H

#include "parity/parity.h"
#include "space/set_types_host.h"

/* Pages of all columns of a stripe, from `within` of each on. */
struct g4_row {
	const struct g4_chunk *chunk;
	uint64_t stripe, within, bytes;
};

struct g4_set_held;
struct g4_set_drain;
struct g4_set_grants;

#define G4_PARITY_MARKS 256u
#define G4_PARITY_LOG_ROWS 4096u
#define G4_PARITY_BEHIND_ROWS 16u
/* So much of a chunk's places is a region: a mark has a bit for each unit of one, and the map one for all of it. */
#define G4_PARITY_REGION_BYTES G4_GONE_ROWS_UNIT
#define G4_PARITY_UNIT_BYTES (G4_PARITY_REGION_BYTES / 64)
#define G4_PARITY_MAP_BYTES (G4_PARITY_LOG_SLOTS * sizeof(struct g4_parity_slot)) /* of a page of the map */
/* Of a chunk that may be of rows: bits of the map. One that is gone keeps those that it had. */
static inline uint64_t g4_set_log_regions(const struct g4_chunk *chunk)
{
	const bool has = chunk->parity || g4_chunk_is_gone(chunk);

	return has ? (chunk->place_bytes + G4_PARITY_REGION_BYTES - 1) / G4_PARITY_REGION_BYTES : 0;
}
struct g4_parity_mark {
	uint64_t region; /* chunk << 40 | which of its regions */
	uint64_t units;	 /* where rows are being written as a whole */
	uint64_t in_use; /* and some of their pages are somebody's (G4_IO_IN_USE) */
	uint64_t ended;	 /* of these, what was written there is durable, and the log does not say so yet */
};
struct g4_parity_unit { /* a place among marks */
	uint32_t mark, unit;
};
#define G4_PARITY_LOG_MOST (UINT64_C(16) << 20)
#define G4_PARITY_ASKED_MOST 16384u
struct g4_parity_asked { /* a page of a row of which nobody can tell what is wrong */
	uint64_t address;
	uint64_t print; /* what it is to hold (ROWS_TELL) */
};
/* The lock is held by writers of rows, and shared by readers that make a lost page from others. */
struct g4_set_parity {
	pthread_rwlock_t lock;
	uint32_t parity; /* the most that a chunk has */
	uint64_t area;	 /* pages of the log of a disk, with the map at their end */
	uint64_t pages;	 /* before the map */
	uint64_t clear;	 /* the same, or fewer while chunks are being added: from here on no disk may have an old map */
	uint32_t tag;	 /* of the file system's pages; 0: the set is being made */
	uint64_t epoch;	 /* of what is written now */
	uint64_t sequence; /* of the entry that was written last; 0: none */
	uint64_t head;	   /* page of the next one */
	bool loose;	   /* the last entry may not be durable */
	uint64_t holders;  /* disks that have the epoch's entries, a bit each; 0: not decided yet */
	uint32_t mark_count, row_count;
	bool in_place; /* some was written with G4_IO_IN_USE since the last flush */
	struct g4_parity_mark marks[G4_PARITY_MARKS];
	bool cut; /* marks[] are those of a crash: what they name is completed before anything is written (set_cut_host.c) */
	struct g4_parity_unit cut_from,
		cut_to; /* nothing of it is done from the first on, and between them is asked for what is known */
	const struct g4_chunk *next_chunk; /* where the row behind those that were marked last begins, */
	uint64_t next_from, ahead;	   /* and how far in front of a writer that goes on there is marked */
	struct g4_row *rows;		   /* that the log has pages of */
	struct g4_set_held *held;
	struct g4_set_drain *drain;
	struct g4_set_grants *grants;
	int (*settle)(struct g4_wg *wg,
		      struct g4_set *set); /* before the log is emptied; NULL: nothing was drained yet */
	uint8_t *spare[G4_CHUNK_PLACES];   /* a page of each column */
	uint8_t *entry;			   /* a descriptor and its pages */
	uint8_t *kept;			   /* a page */
	uint8_t *columns[2 * G4_CHUNK_PLACES];
	uint8_t *replaced; /* G4_PARITY_LOG_SLOTS pages: what the rows of an entry have on disks */
	uint8_t *behind;   /* twice G4_PARITY_BEHIND_ROWS pages of each column: on their way to their places */
	uint8_t *memory;   /* of spare, entry, kept, columns, replaced and behind */
	uint64_t memory_bytes;
	uint8_t *made; /* the map: a bit for each region of chunks with parity, in their order, whose rows are right */
	uint64_t regions;	       /* of them */
	bool made_changed;	       /* since it was written */
	struct g4_parity_asked *asked; /* NULL: nothing was noted yet */
	uint32_t asked_count;
	bool asks;    /* somebody will tell: nothing of data is believed before */
	bool asking;  /* more are noted */
	uint8_t *old; /* the log as it was found, of a set that can not be written; NULL: there was nothing in it */
	uint64_t old_end;
	uint64_t
		old_short; /* disks, a bit each, that are to have it and do not have all of it, or something else there */
};

/* ---- rows ---- */
/* Memory for a set that has chunks with parity; 0 or -G4_E_NOMEM. Of set_rows_host.c. */
int g4_set_parity_begin(struct g4_set *set);
/* -G4_E_INVAL and a sentence: the set has too few disks for rows with so many parities. */
int g4_set_parity_fits(const struct g4_set *set, uint32_t parity, struct g4_dev_message message);
void g4_set_parity_end(struct g4_set *set);
/*
 * The lock of rows is held, over both. Before the set has these chunks: the log is empty, and no map of regions says anything
 * of those that are new. And when they count, or will not.
 */
int g4_set_parity_extend(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunks, uint32_t chunk_count);
void g4_set_parity_extended(struct g4_set *set);
/* Completes what a crash has interrupted, if the set can be written; else it is read through the log. mounts: but for rows in p->marks, if p->cut is set then. */
int g4_set_parity_recover(struct g4_wg *wg, struct g4_set *set, bool mounts);
/* The lock of rows is held, or nobody else has the set yet: what was left by that is completed, without any knowledge. Of set_cut_host.c, as the next one. */
int g4_rows_uncut(struct g4_wg *wg, struct g4_set *set);
/* The order ROWS_CUT. */
int g4_rows_order_cut(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order);
/* The lock of rows is held: somebody begins to write there. -G4_E_IO: somebody else does, and does not end. */
int g4_set_parity_touch(struct g4_set *set, uint64_t address, uint64_t bytes);
/* Contents of chunks with parity, from start to end: of one chunk when the request looked, and of several where it was cut since. */
int g4_set_parity_write(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
			const struct g4_iov *iovs, uint32_t parts, uint32_t flags);
/*
 * Of one stripe's column, from the other columns where its disk can not be read. only: by this parity alone, whatever the disk has; behind the
 * parities, where there are several: as if others of the row had rotted, too, as many as the parities bear. -G4_E_NOENT: there is no such version; -G4_E_AGAIN:
 * there are no rows any more, the chunks as they are now say what is.
 */
#define G4_ANY_PARITY UINT32_MAX
int g4_set_parity_read(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
		       const struct g4_iov *iovs, uint32_t parts, uint32_t only);
/* Whether a page there is held back: then it is to be read as above. */
bool g4_set_parity_holds(const struct g4_set *set, const struct g4_chunk_map *map, uint64_t address, uint64_t bytes);
/* All that was written before is durable when this returns 0. Of set_drain_host.c. */
int g4_set_parity_flush(struct g4_wg *wg, struct g4_set *set);
/* A page that was verified goes where it lies, which parity has right. */
int g4_set_parity_mend(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
		       const struct g4_iov *iovs, uint32_t parts);
/* Compares stripes whose data begins between two addresses; G4_IO_CHECK says what it does. */
int g4_set_parity_check(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes);
/* The orders ROWS_ASK, ROWS_NEXT and ROWS_TELL. Of set_check_host.c. */
int g4_rows_order(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order);
/* Something else is written there: what was told of these pages is not known any more. The lock of rows is held. */
void g4_rows_untell(struct g4_set *set, uint64_t address, uint64_t bytes);
/* What a disk that is not there has of a whole stripe, into `to`. */
int g4_set_parity_lost(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t stripe,
		       uint32_t place, uint8_t *to);

/* ---- the log: the lock is held, or nobody else has the set yet ---- */
/* What a crash has left in it stays in memory, for reads (g4_set_log_patch()), until it is forgotten. */
int g4_set_log_load(struct g4_wg *wg, struct g4_set *set);
void g4_set_log_forget(struct g4_set *set);
/* All its pages go to their places. */
int g4_set_log_replay(struct g4_wg *wg, struct g4_set *set);
/* What the log has found marked becomes p->marks. */
void g4_set_log_load_marks(struct g4_set *set);
/*
 * A flush of the disks that need one: all that requests have written is durable then, but for rows in place, which the log has. And one of
 * all disks: everything is.
 */
int g4_set_log_flush(struct g4_wg *wg, struct g4_set *set);
int g4_set_log_flush_all(struct g4_wg *wg, struct g4_set *set);
/* All that was written to rows is durable in place then. */
int g4_set_log_empty(struct g4_wg *wg, struct g4_set *set);
/* Zeros from one page to another, of an empty log, durable on all disks that are there. */
int g4_set_log_clear(struct g4_wg *wg, struct g4_set *set, uint64_t from, uint64_t to);
/* Pages that an entry has room for, and where they are to be. */
uint32_t g4_set_log_room(const struct g4_set *set);
uint8_t *g4_set_log_page(const struct g4_set *set, uint32_t page);
/*
 * An entry of these rows, of pages that go to these places. It is durable when this returns 0: by itself, or by g4_set_log_flush(); or
 * loose: when g4_set_log_settle() has returned 0 as well, unless the log was emptied there. No other entry is written before.
 */
enum g4_log_how { G4_LOG_FUA, G4_LOG_FLUSH, G4_LOG_LOOSE };
int g4_set_log_pages(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint32_t row_count,
		     const uint64_t *places, uint32_t count, enum g4_log_how how);
int g4_set_log_settle(struct g4_wg *wg, struct g4_set *set);
/* Whether it has pages of these rows. */
bool g4_set_log_has(const struct g4_set *set, const struct g4_row *rows);
/*
 * Before rows are written as a whole: all those between two of a chunk's places. Of several regions some may have no mark then: the log was
 * emptied for one behind them. in_use: some of their pages are somebody's (G4_IO_IN_USE).
 */
int g4_set_log_mark(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
		    bool in_use);
/*
 * A flush has succeeded: rows that were written with G4_IO_IN_USE are durable, and no crash cuts them short any more. The log says so with a mark that is written anyway, or, when
 * nothing was written like that since the flush before, with one of its own.
 */
void g4_set_log_flushed(struct g4_wg *wg, struct g4_set *set);
/* Whether all of these places are marked, in an epoch that goes on. */
bool g4_set_log_is_marked(const struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
			  bool in_use);
/* Which bit of the map is that of a region. */
uint64_t g4_set_log_region(const struct g4_set *set, const struct g4_chunk *chunk, uint64_t region);
/* What was read from a disk becomes what the log has of it. */
void g4_set_log_patch(const struct g4_set *set, uint32_t disk, uint64_t offset, const struct g4_iov *iovs,
		      uint32_t parts);

#endif
