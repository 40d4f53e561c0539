/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parity behind a pack or another file, and mending it with that: FORMAT.md, section 4. A stripe is a piece of 2 MiB of the file (the last
 * one shorter), of 32 chunks; rows of the chunks' blocks of 4 KiB can be mended while no more of them are damaged than there is parity.
 */
#ifndef SHREDDER_STORE_PACK_PARITY_H
#define SHREDDER_STORE_PACK_PARITY_H

#include "store/store.h"
#include "store/upload.h"

#define STORE_PARITY_STRIPE_BYTES STORE_PIECE_BYTES
#define STORE_PARITY_TAIL_BYTES 16

/*
 * How a section lies. PACKED, of format 2 and 3: right behind the file, chunks of any size, so that a sector may hold all of a short file.
 * APART, from format 4 on: no sector has blocks of two chunks of one stripe.
 */
enum store_parity_layout { STORE_PARITY_PACKED, STORE_PARITY_APART };
#define STORE_PARITY_LAYOUTS 2

/* What files of a format get. */
static inline enum store_parity_layout store_parity_layout(uint32_t version)
{
	return version < STORE_VERSION_APART ? STORE_PARITY_PACKED : STORE_PARITY_APART;
}

/* Bytes behind a pack of so many; 0 for parity 0. */
uint64_t store_parity_bytes(enum store_parity_layout layout, uint64_t pack_bytes, uint32_t parity);
/* From the last bytes of a file: those of the pack in it, which are all where there is no parity. False: they contradict each other. */
bool store_parity_split(const uint8_t tail[STORE_PARITY_TAIL_BYTES], uint64_t bytes, uint64_t *pack_bytes);

/* Makes the section, stripe by stripe. One thread's. */
struct store_parity;
struct store_parity *store_parity_open(enum store_parity_layout layout, uint32_t parity);
/* NULL is allowed. */
void store_parity_close(struct store_parity *p);
/* The next stripe; all but the last one have STORE_PARITY_STRIPE_BYTES. */
void store_parity_add(struct store_parity *p, const uint8_t *data, size_t bytes);
/* The section of the stripes that were added, which stays until the next one is; then it begins anew. */
const struct store_buf *store_parity_end(struct store_parity *p);
/* Appends the section of all that is in `file`. */
void store_parity_append(struct store_buf *file, enum store_parity_layout layout, uint32_t parity);
/* There is a section at the end of the file, and it is what follows from the rest. */
bool store_parity_fits(const uint8_t *file, size_t bytes);

enum store_mended { STORE_MENDED_NOT, STORE_MENDED_PARTLY, STORE_MENDED };
/*
 * Mends a file in place whose bytes are not what its name says. MENDED: now they are. Nothing is believed but the name: what parity makes of
 * the bytes is hashed. PARTLY: some rows have more damage than there is parity; of the others, blocks that now have their sums were
 * mended. NOT: the file is as it was. name == NULL: of a file that has none, where all sums must match, or none, for then they are what is lost;
 * its user authenticates it.
 */
enum store_mended store_parity_mend(uint8_t *file, size_t bytes, const struct store_id *name);

#endif
