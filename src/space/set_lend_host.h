/* SPDX-License-Identifier: Apache-2.0 */
/* Free space whose places are room while what lies on a set is spread, and is laid anew. Of the files of this folder alone. */
#ifndef G4_SET_LEND_HOST_H
#define G4_SET_LEND_HOST_H

#include "space/set_types_host.h"

/*
 * Nothing is in use of `bytes` of the address space, from an address on, nor will be before it is taken back; -G4_E_NOSPC: so many parts are
 * lent already. No bytes: all are told. *ready: nobody uses any of it any more, so places of it may be written to; else try again.
 */
int g4_set_lend(struct g4_set *set, uint64_t address, uint64_t bytes, bool *ready);
/* All of that is its owner's again. False: a request may be meant for what lay there before, try again. */
bool g4_set_take_back(struct g4_set *set);
/* What is lent is laid anew, as mkfs would, over its own places and what no chunk has. -G4_E_NOSPC: nothing was changed, there is no room for all. */
int g4_set_lay(struct g4_wg *wg, struct g4_set *set);

/* ---- of a table that is planned; orders held ---- */
/* What is lent has no places, of the own level and but for rows. False: there are too many chunks. */
bool g4_set_lend_places(const struct g4_set *set, struct g4_chunk *chunks, uint32_t *count);
/* That, and it gets others of what room there is then. -G4_E_NOSPC: there is none for all of it, or there are too many chunks. */
int g4_set_lay_lent(const struct g4_set *set, const uint64_t *disk_bytes, struct g4_chunk *chunks, uint32_t *count);

#endif
