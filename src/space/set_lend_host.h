/* SPDX-License-Identifier: Apache-2.0 */
/* Free space whose places are room while what lies on a set is spread, and is laid anew. Of the files of this folder alone. */
#ifndef G4_SET_LEND_HOST_H
#define G4_SET_LEND_HOST_H

#include "space/set_table_host.h"

/*
 * Nothing is in use of `bytes` of the address space, from an address on, nor will be before it is taken back; -G4_E_NOSPC: so many parts are
 * lent already. No bytes: all are told. *ready: nobody uses any of it any more, so places of it may be written to; else try again.
 */
int g4_set_lend(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes, bool *ready);
/* All of that is its owner's again. False: a request may be meant for what lay there before, try again. */
bool g4_set_take_back(struct g4_set *set);
/* What is lent is laid anew, as mkfs would, over its own places and what no chunk has. -G4_E_NOSPC: nothing was changed, there is no room for all. */
int g4_set_lay(struct g4_wg *wg, struct g4_set *set);

/* ---- of a table that is planned; orders held ---- */
/* Whether a chunk is of those that are moved and lent: of the own level, and where that has rows, one of these. */
bool g4_set_may_move(const struct g4_set *set, const struct g4_chunk *chunk);
/* What is lent has no places. False: there are too many chunks. */
bool g4_set_lend_places(const struct g4_set *set, struct g4_chunk *chunks, uint32_t *count);
/* That, and it gets others of what room there is then. -G4_E_NOSPC: there is none for all of it, or there are too many chunks. */
int g4_set_lay_lent(const struct g4_set *set, const struct g4_superblock *super, struct g4_set_span *spans,
		    struct g4_chunk *chunks, uint32_t *count);
/*
 * Rows without places, chunk n of a table that is planned, get those of what room there is, from their beginning on; what fits into no gaps is another
 * chunk behind it. -G4_E_NOSPC: nothing fits, or there are too many chunks.
 */
int g4_set_lay_rows(const struct g4_superblock *super, struct g4_set_span *spans, struct g4_set_move *move, uint32_t n);
/*
 * Locked (set_draft_host.h). Before that table counts: rows that lie elsewhere in it hold other bytes there than their parity was made of, so the
 * map of regions says nothing of them any more, durably.
 */
int g4_set_forget_lent(struct g4_wg *wg, struct g4_set *set, const struct g4_set_move *move);

#endif
