/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing packs. Threads fill pieces of a pack that is open; one thread hashes and writes them, so that a pack is never in memory as a
 * whole (but for a backend that takes whole files only):
 *
 *	adding threads --pieces of 2 MiB--> writer: hash, write past the page cache --last one--> fsync, name, index
 *
 * At most STORE_PIECES pieces exist: a worker that adds waits while all are on their way.
 */
#ifndef SHREDDER_STORE_PACKER_H
#define SHREDDER_STORE_PACKER_H

#include "store/group.h"
#include "store/index.h"

struct store_packer;
/* Threads may add at a time; one thread of its own writes. */
struct store_packer *store_packer_open(struct store *s);
/*
 * A blob's stored form, whose number store_index_claim() gave; it is copied. Waits while pieces before are not written yet. Fails when
 * writing failed, which nobody can mend: the caller ends.
 */
int store_packer_add(struct store_packer *p, enum store_blob_type type, uint32_t number, const struct store_id *id,
		     const struct store_buf *stored, uint64_t raw_bytes);
/* The same of a group, which goes into a pack of its first member's type. */
int store_packer_add_group(struct store_packer *p, const struct store_group *group, const struct store_buf *stored);
/* Writes what is left, then the index. After 0 everything that was added is durable and in the index. */
int store_packer_finish(struct store_packer *p);
/* Frees it; without finish, packs that are not written are forgotten. */
void store_packer_close(struct store_packer *p);
/* Bytes of packs and index files written so far. */
uint64_t store_packer_written(struct store_packer *p);

#endif
