/* SPDX-License-Identifier: Apache-2.0 */
/* Packs that are written, in the place of packs that go: the last step of a prune, and of a repair of packs. */
#ifndef SHREDDER_STORE_REPLACE_H
#define SHREDDER_STORE_REPLACE_H

#include "store/backend.h"
#include "store/index.h"

/*
 * Writes a new index, removes the old index files, makes that durable, then removes those of the listed packs that the new index does not name. It
 * names, of the first `packs` packs of the index, those for which keep[] is true, and all that were written since it was loaded. `gone`:
 * any order. The lock is exclusive.
 *
 * A crash at any moment leaves index files that name only packs that are there (FORMAT.md, section 10).
 */
int store_packs_replace(struct store *s, const bool *keep, uint32_t packs, const struct store_listed *gone,
			size_t count);
/*
 * The same where FULL was the answer, and no pack was written: without room for a second index. The old index goes, then packs that are not kept,
 * which makes room, then the new index comes. No index file names what is gone, but between the first and the last step there may be none, or not
 * all of it: a crash there is mended by a check that makes an index anew.
 */
int store_packs_replace_in_place(struct store *s, const bool *keep, uint32_t packs, const struct store_listed *gone,
				 size_t count);

#endif
