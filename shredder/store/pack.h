/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a pack, and headers: FORMAT.md, section 4. */
#ifndef SHREDDER_STORE_PACK_H
#define SHREDDER_STORE_PACK_H

#include "store/store.h"

/* A pack is closed from this size on. */
#define STORE_PACK_BYTES (16 * G4_MIB)
/* And its header: of tiny blobs, whose ids are as long as they are, there would be many copies of a long one in memory. */
#define STORE_HEADER_BYTES (2 * G4_MIB)

/* What a header says about one blob. */
struct store_header_entry {
	uint8_t type;
	bool grouped; /* offset and stored are the group's, and the blob lies at `inner` of what the group holds */
	struct store_id id;
	uint32_t offset, stored, raw, inner;
};

/* Goes through a header's body, of which more may follow in `in`. */
struct store_header {
	struct store_in *in;
	uint32_t version, offset; /* of the next blob or group */
	uint64_t left;
	/* a group's */
	uint64_t group_left;
	uint32_t group_stored, inner;
};
/* version: the repository's. */
void store_header_open(struct store_header *h, struct store_in *in, uint32_t version);
/* False: that was the last one, or in->bad. */
bool store_header_next(struct store_header *h, struct store_header_entry *entry);

/* What a packer writes: a blob, a group, and what stands behind them. */
void store_header_add_blob(struct store_buf *header, uint8_t type, const struct store_id *id, uint64_t stored,
			   uint64_t raw);
void store_header_add_group(struct store_buf *header, uint64_t stored, uint64_t count);
void store_header_add_member(struct store_buf *header, uint8_t type, const struct store_id *id, uint64_t raw);
/* Header and trailer of a pack whose body is given: appended to `out`. */
void store_pack_end(const struct store *s, const uint8_t prefix[STORE_PREFIX_BYTES], const struct store_buf *body,
		    struct store_buf *out);

/* Bytes of a whole pack: gives its header body, which holds for exactly these bytes. */
int store_pack_header(const struct store *s, const uint8_t *pack, size_t bytes, const char *what,
		      struct store_buf *body);
/* The header of a pack of `bytes` bytes, read from its end; the blobs are not looked at. */
int store_pack_header_get(struct store *s, const struct store_id *name, uint64_t bytes, struct store_buf *body);

/* What store_pack_header_get() failed with is this pack's own trouble: others may have theirs. */
bool store_pack_header_lost(const struct store *s, int rc);

#endif
