/* SPDX-License-Identifier: Apache-2.0 */
/* What is held of rows on its way to the log and to its places (set_drain_host.c). Of the files of this folder alone. */
#ifndef G4_SET_DRAIN_HOST_H
#define G4_SET_DRAIN_HOST_H

#include "space/set_rows_host.h"

#define G4_DRAIN_ROWS (G4_PARITY_LOG_SLOTS / 2)

struct g4_drain_batch { /* rows of one entry */
	bool taken;	/* it has rows */
	bool reading;	/* what they replace */
	bool logged;	/* the log has the entry, not durably */
	struct g4_row rows[G4_DRAIN_ROWS];
	uint64_t given[G4_DRAIN_ROWS];
	uint8_t *now[G4_DRAIN_ROWS][G4_ROW_COLUMNS]; /* those that are active in the memory of the entry */
	uint8_t *old
		[G4_DRAIN_ROWS]
		[G4_ROW_COLUMNS]; /* what is given, in set->parity->replaced; parity is read to where it is changed */
	struct g4_row_io transfers[G4_DRAIN_ROWS];
	uint64_t places[G4_PARITY_LOG_SLOTS];
	uint32_t count, pages, replaced;
};

struct g4_drain_behind { /* rows that the log has, to their places, from a half of set->parity->behind */
	struct g4_row rows[G4_PARITY_BEHIND_ROWS];
	uint64_t columns[G4_PARITY_BEHIND_ROWS];
	struct g4_row_io transfers[G4_PARITY_BEHIND_ROWS];
	uint32_t count;
};

struct g4_set_drain {
	struct g4_drain_batch batch;
	struct g4_drain_behind behind[2];
	uint32_t turn; /* that one gathers rows; the other one's are being written */
};

/* A flush is going to follow soon. It takes the lock by itself, unless it would have to wait for it. */
void g4_set_drain_expect(struct g4_wg *wg, struct g4_set *set);
/* The record that says so is on its way: the log's entry, too. As above. */
void g4_set_drain_log(struct g4_wg *wg, struct g4_set *set);
/* All of it is in the log, durably. flush: and what was written before is durable. */
int g4_rows_drain(struct g4_wg *wg, struct g4_set *set, bool flush);
/*
 * Nothing of rows is under way; where something is written in place; where something of these rows is. -G4_E_IO: a disk failed that
 * can not be done without.
 */
int g4_rows_settle(struct g4_wg *wg, struct g4_set *set);
int g4_rows_settle_behind(struct g4_wg *wg, struct g4_set *set);
int g4_rows_settle_for(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows);
/*
 * The lock of rows, for whoever reads or changes them on disks, or changes what disks there are: nothing of rows is under way. And shared, to
 * read the one that it returns (g4_row_at()): nothing of it is. What lies there may be no rows by now: then its chunk says so.
 */
void g4_rows_lock(struct g4_wg *wg, struct g4_set *set);
struct g4_row g4_rows_lock_shared(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
				  uint32_t *column);
/*
 * The lock is held. Nothing of rows is in memory, nor in the log, durably, when this returns 0, and no row is known by a chunk: those may be
 * others then. All that was written is in place.
 */
int g4_rows_empty(struct g4_wg *wg, struct g4_set *set);

#endif
