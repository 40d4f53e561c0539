/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is damaged or cannot be read, mended in memory by its parity, so that reading goes on; `check --repair` mends it where it lies. A
 * pack that was mended is held, since a reader of one blob of it reads others.
 *
 * Locking: a mutex, under which a pack is read and mended while others that need it wait.
 */
#ifndef SHREDDER_STORE_MEND_H
#define SHREDDER_STORE_MEND_H

#include "store/pack_parity.h"
#include "store/store.h"

struct store_mends *store_mends_new(void);
/* NULL is allowed. */
void store_mends_free(struct store_mends *mends);
/* Whether anything had to be mended since the repository was opened. */
bool store_mends_any(struct store *s);

/*
 * Of a file that a reader has failed at with `rc`, or that is the configuration (rc 0) with a parity that does not fit. `bytes`: as far as they
 * were read. MENDED: they are what they should be, parity included. Else this thread's sentence stays; PARTLY: what could be mended of
 * the file is.
 */
enum store_mended store_mend_file(struct store *s, int rc, enum store_kind kind, const struct store_id *name,
				  struct store_buf *bytes);
/*
 * The same of a part of a pack, for somebody who authenticates what he gets: of a pack that is beyond parity as a whole it may be one of the
 * parts that could be mended. False leaves this thread's sentence.
 */
bool store_mend_range(struct store *s, int rc, const struct store_id *pack, uint64_t offset, void *to, size_t bytes);

#endif
