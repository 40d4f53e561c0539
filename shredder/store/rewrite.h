/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots without some of what they have: what somebody does not want in them, or what the repository has lost. */
#ifndef SHREDDER_STORE_REWRITE_H
#define SHREDDER_STORE_REWRITE_H

#include "store/exclude.h"
#include "store/tree.h"

/* What is known of chunks, directories and packs; zeros before, and as long as the lock and the index are the same. */
struct store_looked {
	uint8_t *chunks, *packs;
	uint64_t chunks_count, packs_count;
};
void store_looked_free(struct store_looked *looked);

struct store_rewrite_options {
	const struct store_excludes *excludes; /* of paths as the snapshot has them; NULL: nothing is left out */
	bool mend;			       /* what the repository has lost is left out instead of being an error */
	struct store_looked *
		looked; /* with mend: goes from one snapshot to the next, so that no chunk and no whole directory is looked at twice */
	bool read_data; /* with mend: chunks are read, else it is enough that the pack is there and has the size that the index says */
	bool dry_run;
	bool names; /* with mend and dry_run: tells what is lost, and nothing else: the snapshot stays what it was in memory, too */
	int level;
	/* What is left out, wholly or in part, and why. */
	void (*told)(void *user, const char *path, const char *sentence);
	void *user;
};

/*
 * Gives the snapshot in memory the tree that is left, and its counts; directories that differ are stored, chunks stay what they are. The caller
 * stores the snapshot. 1: it has changed; 0: it has not, but in its memory; NONE: nothing would be left of it; or an error, after
 * which it still is what it was.
 *
 * With mend, a file of which chunks are lost keeps its size, with holes in their place, and is marked so that the next backup reads it
 * again; of a directory of which pieces are lost the other entries stay. Lost is what is damaged or absent, not what cannot be read:
 * that may pass. In a dry run, directories in which nothing is lost are visited once for all snapshots. The lock (shared) and the index are the caller's. One thread.
 */
int store_rewrite(struct store *s, const struct store_rewrite_options *options, struct store_snapshot *snapshot);

/*
 * Fills a snapshot, all zeros before, with the directories that no snapshot and no other directory has: "/ID/..." each, as far as
 * they can be read (options->mend is taken as true). *found: how many; 0 leaves the snapshot empty. What it gives: 0, or an error.
 * store_snapshot_free() is the caller's in any case.
 */
int store_recover(struct store *s, const struct store_rewrite_options *options, struct store_snapshot *snapshot,
		  uint64_t *found);

#endif
