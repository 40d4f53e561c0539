/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds contents that are stored more than once wherever they begin: files are read and cut by content (shredder/shredder.h), and chunks
 * with the same BLAKE3 are the same. Pages are what files share, so it tells what of that begins at the same place of a page, and shares
 * that. Pages of zeros are no chunks: of those without sums they become holes. Files may change meanwhile: g4_dedup_share() looks again.
 */
#ifndef G4_CLI_DEDUP_CHUNKS_H
#define G4_CLI_DEDUP_CHUNKS_H

#include "cli/dedup.h"

/*
 * Goes through g4_dedup.file_list, each file once, and fills g4_dedup.chunks. Takes memory_bytes, at least G4_DEDUP_CHUNKS_LEAST_BYTES,
 * for what it knows of chunks, and about 8 MiB for what it reads and cuts. 0, or a negative errno that ended it, as g4_dedup_go().
 */
int g4_dedup_chunks(struct g4_dedup *dedup);

#endif
