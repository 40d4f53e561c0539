/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a set in memory and on its disks (set_rows_host.c). Of the files of this folder alone. */
#ifndef G4_SET_ROWS_HOST_H
#define G4_SET_ROWS_HOST_H

#include "space/set_parity_host.h"

/* The lock of the set's rows is held, or nobody else has the set yet. Sets of columns have a bit for each. */
#define G4_ROW_COLUMNS G4_CHUNK_PLACES
static inline uint64_t g4_row_mask(uint32_t count)
{
	return (UINT64_C(1) << count) - 1;
}

/* How many sets of `chosen` of so many columns there are. */
static inline uint32_t g4_row_choices(uint32_t columns, uint32_t chosen)
{
	uint32_t sets = 1;

	for (uint32_t n = 0; n < chosen; n++)
		sets = n < columns ? sets * (columns - n) / (n + 1) : 0;
	return sets;
}

static inline bool g4_set_is_active(const struct g4_set *set, uint32_t disk)
{
	return g4_load32_acq(&set->disks[disk].state) == G4_DISK_ACTIVE;
}

/* Of the first column's page: the same whatever chunk of whichever table has the row. */
static inline uint64_t g4_row_address(const struct g4_row *row)
{
	const struct g4_chunk *chunk = row->chunk;

	return chunk->address + row->stripe * g4_chunk_stripe_data(chunk) + row->within;
}
/* The row, and its column, that has these bytes of one stripe's column. */
struct g4_row g4_row_at(const struct g4_chunk_map *map, uint64_t address, uint64_t bytes, uint32_t *column);

/* Where a column lies: a disk, and the address on it. */
static inline uint64_t g4_row_place(const struct g4_row *row, uint32_t column)
{
	return g4_chunk_place(row->chunk, row->stripe, column) + row->stripe * row->chunk->stripe_bytes + row->within;
}
/*
 * Whether the disk of a column is there. One that is being rebuilt is, for rows that it has already, and is away for all others: they
 * pass from one to the other under the lock.
 */
static inline bool g4_row_has(const struct g4_set *set, const struct g4_row *row, uint32_t column)
{
	const uint64_t place = g4_row_place(row, column);

	return g4_set_has(set, g4_place_disk(place), g4_place_address(place), row->bytes);
}
/* The parities of columns of data. */
void g4_row_encode(struct g4_wg *wg, const struct g4_chunk *chunk, uint8_t *const *columns, uint64_t bytes);
/* Columns of data had `old` before: the parities become what they are with the new ones, as far from right as they were. */
void g4_row_change(struct g4_wg *wg, const struct g4_chunk *chunk, uint64_t changed, uint8_t *const *old,
		   uint8_t *const *columns, uint64_t bytes);
/* The columns that are lost; one that is NULL is not wanted, or not to be used. False: too much is lost. */
bool g4_row_reconstruct(struct g4_wg *wg, const struct g4_chunk *chunk, uint64_t lost, uint8_t *const *columns,
			uint64_t bytes);
/*
 * What a version of a page is made without (G4_ANY_PARITY: nothing): itself, and of the others as many columns as there are parities but one, so that
 * all that is left is needed. The first versions are by one parity alone. The others are where more columns have rotted, or the parities have them as
 * they were before: a page that rotted while it was nobody's and was written then, a disk that is missing besides. A sum says which version is right.
 * They are numbered as sets of numbers are, by the largest, then by the next (colexicographic), where parities come before data: so those of fewer columns are the
 * first ones of more. False: there is none of that number.
 */
bool g4_row_lost_to(const struct g4_row *row, uint32_t column, uint32_t version, uint64_t *lost);
/* The same request of columns, all at once. The columns that it could not be done of. */
uint64_t g4_row_transfer(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint32_t op, uint32_t flags,
			 uint64_t columns, uint8_t *const *memory);
/* The same in two steps, so that several rows are under way at a time. */
struct g4_row_io {
	struct g4_io ios[G4_ROW_COLUMNS];
	struct g4_iov iovs[G4_ROW_COLUMNS];
	uint64_t begun, failed;
	bool logged; /* written, to be found in the log after a crash: no flush has to make it durable */
};
struct g4_row_lists { /* by disk, in the order of the rows; `first` is zeros at first */
	struct g4_io *first[G4_MAX_DISKS], *last[G4_MAX_DISKS];
};
void g4_row_prepare(struct g4_set *set, const struct g4_row *row, uint32_t op, uint32_t flags, uint64_t columns,
		    uint8_t *const *memory, struct g4_row_io *transfer, struct g4_row_lists *lists);
void g4_row_submit(struct g4_wg *wg, struct g4_set *set, struct g4_row_lists *lists);
void g4_row_begin(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint32_t op, uint32_t flags,
		  uint64_t columns, uint8_t *const *memory, struct g4_row_io *transfer);
uint64_t g4_row_end(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, struct g4_row_io *transfer);
/* The disks of columns that were not written are dropped. */
int g4_row_drop(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint64_t columns);
/*
 * Columns `wanted` of a row, those that can not be read (and `lost`, which are not asked) from the others. memory has room for every
 * column; only what is wanted is to be used. -G4_E_IO: too much is lost.
 */
int g4_row_read(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint64_t wanted, uint64_t lost,
		uint8_t *const *memory);
/* Columns go to their disks; one that does not take it is dropped. */
int g4_row_write(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint32_t flags, uint64_t columns,
		 uint8_t *const *memory);

/* Columns of a stripe's memory, from an offset in each on. */
static inline void g4_row_offset_columns(uint8_t *to[G4_ROW_COLUMNS], uint8_t *const *from, uint32_t count,
					 uint64_t offset)
{
	for (uint32_t c = 0; c < count; c++)
		to[c] = from[c] + offset;
}
/* The parities of rows that get these columns, from all pages of data; those that are not given are read. Into `now`. */
int g4_row_make_parity(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint64_t given,
		       uint8_t *const *now);

/* ---- pages that are held back (set_held_host.c) ---- */
int g4_set_held_begin(struct g4_set *set, uint64_t columns);
void g4_set_held_end(struct g4_set *set);
bool g4_set_held_any(const struct g4_set *set);
uint32_t g4_set_held_count(const struct g4_set *set);
/* Without a lock. Whether a page of a column of these rows is held. */
bool g4_set_held_has(const struct g4_set *set, const struct g4_row *rows, uint32_t column);
/* What was read of a column becomes what is held of it. */
void g4_set_held_patch(const struct g4_set *set, const struct g4_row *rows, uint32_t column, uint8_t *memory);
/* Holds columns of rows; of so many bytes of them, for there may be no room for all. in_use: G4_IO_IN_USE. */
uint64_t g4_set_held_add(struct g4_set *set, const struct g4_row *rows, uint64_t given, uint8_t *const *columns,
			 bool in_use);
/* Of so many bytes of rows, from the first on, all data is held, and is in `columns` now. *in_use: some was held as that. */
uint64_t g4_set_held_whole(struct g4_set *set, const struct g4_row *rows, uint8_t *const *columns, bool *in_use);
/* Rows were written: nothing of them is held any more. */
void g4_set_held_drop(struct g4_set *set, const struct g4_row *rows);
/* The row is in the log, or it is not after all. */
void g4_set_held_note_logged(struct g4_set *set, const struct g4_row *row, bool logged);
/* The next row that is held and not in the log, from *at on, at first 0; its pages stay where they are while it is. False: there is none. */
bool g4_set_held_next(const struct g4_set *set, uint32_t *at, struct g4_row *row, uint64_t *given, uint8_t **columns);

/* ---- what is right (set_check_host.c) ---- */
/*
 * Rows between two of a chunk's places, some of which a crash has cut short, get a parity that fits. 1: not all, for
 * what could not be read; or a negative code.
 */
int g4_rows_complete(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to);
/*
 * The same in two steps, for whoever knows the data: pages of data of those rows that do not fit are noted, as by ROWS_ASK, and by what was told of them since
 * they are completed. in_use: some of their pages were somebody's when they were written.
 */
int g4_rows_note_cut(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to);
int g4_rows_settle_cut(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
		       bool in_use);
/* Somebody will tell, from now on (true), or will not. -G4_E_NOMEM: nobody can. */
int g4_rows_begin_asking(struct g4_set_parity *p, bool begins);
/* A set is being made: where discards are known to leave zeros all its rows fit from the beginning. */
void g4_rows_clear(struct g4_wg *wg, struct g4_set *set);
/*
 * Before rows between two places are changed by their old parity: in their regions it fits when this returns 0, but for rows of which
 * more can not be read than they have parity.
 */
int g4_rows_make(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to);
/*
 * Nothing is known of regions any more, durably: those between two places, which are whole ones, or end with the chunk. The
 * next write to them makes their parity.
 */
int g4_rows_forget(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to);
/*
 * Of a stripe what is known to be wrong is written again, and counted, if the set can be written; 1: something is wrong still, or nobody
 * can tell what. 0 also of a stripe that nothing was written to, and of one of which a disk is not there. -G4_E_IO: a disk that can not be
 * done without has failed.
 */
int g4_rows_compare(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t stripe);
/*
 * Whether all that can be read of a stripe fits together, with what is made of what can not be, and nothing is written: also of one whose parity nobody has made, or of
 * which a disk is not there.
 */
bool g4_rows_fit(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t stripe);

#endif
