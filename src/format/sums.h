/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of sums and what is in them (FORMAT.md, "Sums"); their structures are in format.h. Per-lane. */
#ifndef G4_FORMAT_SUMS_H
#define G4_FORMAT_SUMS_H

#include "format/format.h"

/* ---- pages ---- */
/* The page of sums of a quarter of the indirect page at `address`: its address, which may be a wild one, or none. */
G4_FN struct g4_address g4_sums_place(const struct g4_sums_places *places, struct g4_address address, uint32_t quarter);
/* False: `to` is too far away, more than 2 PiB. It may be none. */
G4_FN bool g4_sums_set_place(struct g4_sums_places *places, struct g4_address address, uint32_t quarter,
			     struct g4_address to);
/* Byte n of 64 of the header, which stands in two entries. */
G4_FN uint8_t g4_sums_header_byte(const struct g4_sums_page *page, uint32_t n);
G4_FN void g4_sums_set_header_byte(struct g4_sums_page *page, uint32_t n, uint8_t value);
G4_FN void g4_sums_embed(struct g4_sums_page *page, const struct g4_sums_header *header);
G4_FN void g4_sums_extract(const struct g4_sums_page *page, struct g4_sums_header *header);
G4_FN void g4_sums_strip(struct g4_sums_page *page);

/* ---- entries ---- */
/* What an entry is a sum of; NONE: it is none. LARGE: one of the next three. */
G4_FN uint32_t g4_sum_entry_algorithm(const struct g4_sum_entry *entry);
G4_FN void g4_sum_entry_make_lost(struct g4_sum_entry *entry);
/* Of a large page: its parts' sums lie in G4_SUMS_QUARTERS pages from `address` on, with these hashes, of which 48 bits count. */
G4_FN void g4_sum_entry_make_large(struct g4_sum_entry *entry, struct g4_address address, const uint64_t *hashes);
/* Where they lie, which may be anywhere; and the hash of one. */
G4_FN struct g4_address g4_sum_entry_place(const struct g4_sum_entry *entry);
G4_FN uint64_t g4_sum_entry_hash(const struct g4_sum_entry *entry, uint32_t quarter);
/* The entry without the place, as it is hashed where it is part of a larger page. */
G4_FN void g4_sum_entry_drop_place(struct g4_sum_entry *entry);
#define G4_SUMS_HASH_MASK ((UINT64_C(1) << 48) - 1)

#endif
