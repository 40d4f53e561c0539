/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at what is free and in use, which change nothing. Leader. */
#ifndef G4_COUNT_H
#define G4_COUNT_H

#include "alloc/alloc.h"

/*
 * From a page's number on, of at most so many: how many in a row nobody has claimed, or has (`used`), for as long as that is
 * true of all that one word of the view has of them. What lies behind the last region is free, what can not be read is used.
 */
G4_FN uint64_t g4_alloc_count(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t page, uint64_t most, bool used);
/* What freeing a page there will read is read: 0, or an error. No transaction. */
G4_FN int g4_alloc_look(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address);

#endif
