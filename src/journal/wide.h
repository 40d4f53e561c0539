/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a committer does for each of thousands of blocks and nobody can do for it, by all its lanes: alone, one lane of a GPU
 * takes a microsecond for each. Private to this folder but for the region.
 */
#ifndef G4_JOURNAL_WIDE_H
#define G4_JOURNAL_WIDE_H

#include "journal/journal.h"

struct g4_commit_job {
	struct g4_journal *journal;
	const struct g4_txn_log *log;
	uint32_t kind;
	uint32_t page;	   /* of the descriptors */
	uint32_t part[64]; /* by lane */
	uint32_t *lines;   /* of one of its lists */
	uint32_t count;	   /* of them; then how many are left */
};

/* Tags of a descriptor: addresses of images and revoked pages, then two for each data page. */
G4_FN uint32_t g4_tag_count(const struct g4_journal *j, const struct g4_txn_log *log);
/* Leader, commit lock held. Fills in the tags of descriptor `page`, zeroed before. */
G4_FN void g4_wide_tags(struct g4_wg *wg, struct g4_journal *j, const struct g4_txn_log *log, uint32_t page);
/* `crc`, then the record's images: their checksums are in record_crcs. */
G4_FN uint32_t g4_wide_crc(struct g4_wg *wg, struct g4_journal *j, const struct g4_txn_log *log, uint32_t crc);
/* Takes those out of a list that are G4_NO_LINE; how many are left, in their order. */
G4_FN uint32_t g4_wide_compact(struct g4_wg *wg, uint32_t *lines, uint32_t count);

/* The region that they open. Collective. */
G4_FN void g4_commit_region(struct g4_wg *wg, void *args);

#endif
