/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that others write by themselves now (set_granted_host.c). Of the files of this folder alone. */
#ifndef G4_SET_GRANTED_HOST_H
#define G4_SET_GRANTED_HOST_H

#include "space/set_parity_host.h"

/* Memory for a set that has chunks with parity; -G4_E_NOMEM. */
int g4_set_grants_begin(struct g4_set *set);
void g4_set_grants_end(struct g4_set *set);
/* g4_dev_words(). */
uint32_t *g4_set_grants_words(const struct g4_set *set);

/* ---- the lock of superblocks is held ---- */
/*
 * A disk was dropped of which lanes do not know yet (true): nothing is granted, and rows are as if something were held of each, so that readers come to the set, until
 * lanes have a table without that disk (false).
 */
void g4_set_grants_doubt(struct g4_set *set, bool doubt);

/* ---- the lock of rows is held for writing ---- */
/* Somebody writes there until the word of this number, 0 from now on, is something else. False: somebody else has it. */
bool g4_set_grants_note(struct g4_set *set, uint32_t number, uint64_t address, uint64_t bytes);
/* Whether somebody writes rows by himself. */
bool g4_set_grants_any(const struct g4_set *set);
/* One more row is held of the stripe that begins at an address of the space, or one less. */
void g4_set_grants_hold(struct g4_set *set, uint64_t stripe, bool more);
/*
 * Nobody writes rows by himself, or none of these, until the lock is given back. -G4_E_IO: somebody has not ended for a long
 * time.
 */
int g4_set_grants_await(struct g4_set *set);
int g4_set_grants_await_some(struct g4_set *set, uint64_t address, uint64_t bytes);
/*
 * The words are these from now on, NULL: the set's own. Grants are waited for; one that was not ended for a long time never is, and all that
 * wait get the error from then on. Takes the lock of superblocks.
 */
void g4_set_grants_move(struct g4_set *set, uint32_t *words);

#endif
