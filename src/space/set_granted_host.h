/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that others write by themselves now (set_granted_host.c). Of the files of this folder alone. */
#ifndef G4_SET_GRANTED_HOST_H
#define G4_SET_GRANTED_HOST_H

#include "space/set_parity_host.h"

/* Memory for a set that has chunks with parity; -G4_E_NOMEM. */
int g4_set_grants_begin(struct g4_set *set);
void g4_set_grants_end(struct g4_set *set);
/* G4_DEV_GRANTS of the set's own. */
uint32_t *g4_set_grants_words(const struct g4_set *set);

/* ---- the lock of rows is held for writing ---- */
/* Somebody writes there until *word, 0 from now on, is something else. False: too many do. */
bool g4_set_grants_note(struct g4_set *set, uint32_t *word, uint64_t address, uint64_t bytes);
/*
 * Nobody writes rows by himself, or none of these, until the lock is given back. -G4_E_IO: somebody has not ended for a long
 * time.
 */
int g4_set_grants_await(struct g4_set *set);
int g4_set_grants_await_some(struct g4_set *set, uint64_t address, uint64_t bytes);
/* The same of all, whose words are not looked at any more: who has not ended for a long time never will, and all that wait get the error from then on. */
void g4_set_grants_forget(struct g4_set *set);

#endif
