/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a repository in order: checking, forgetting, pruning; and what looks at it: differences, statistics. */
#ifndef SHREDDER_STORE_MAINTAIN_H
#define SHREDDER_STORE_MAINTAIN_H

#include "store/tree.h"

/* ---- check */
/* Which packs are read as a whole: `parts`, `share` or `bytes` says it, the others are 0. */
struct store_check_subset {
	uint32_t part, parts; /* those of whose names the first byte is part - 1, modulo parts: 1 to 256 */
	double share;	      /* as many of all, by chance: above 0, to 1 */
	uint64_t bytes;	      /* by chance until they have so many */
};
struct store_check_options {
	bool read_data;				 /* every blob, not only what directories and the index say */
	const struct store_check_subset *subset; /* blobs of these packs; NULL: none */
	bool repair; /* what is damaged is mended by its parity, and a new index is made of the packs */
	uint32_t threads;
	void (*problem)(void *user, const char *sentence); /* by any thread, one at a time */
	void (*mended)(void *user, const char *sentence);  /* what was one and is none any more */
	void (*progress)(void *user, uint64_t done, uint64_t total);
	void *user;
};
struct store_check_result {
	uint64_t problems;
	uint64_t packs, blobs, snapshots, trees;
	uint64_t read_packs;	/* as a whole */
	uint64_t bad_packs;	/* missing or damaged, as far as they were looked at */
	uint64_t losses;	/* blobs of snapshots that are not in the index, and damaged directories */
	uint64_t unknown_packs; /* that no index file names: of a backup that did not finish */
	uint64_t read_bytes;
	uint64_t mended; /* packs */
	uint64_t mended_others;
};
/* Loads the index itself. 0 also with problems; an error when it could not go on. */
int store_check(struct store *s, const struct store_check_options *options, struct store_check_result *result);

/* ---- forget: as restic's --keep-* */
struct store_policy {
	uint32_t last, hourly, daily, weekly, monthly, yearly;
	int64_t within_seconds; /* 0: none */
	int64_t within[5]; /* seconds: the last one of each hour, day, week, month, year that is so young; 0: none */
	const char *const *tags;
	size_t tags_count;
};
/* keep[i] for each of a list that is sorted by time, the oldest first. */
void store_policy_apply(const struct store_policy *policy, const struct store_snapshot *list, size_t count, int64_t now,
			bool *keep);
static inline bool store_policy_empty(const struct store_policy *p)
{
	return (p->last | p->hourly | p->daily | p->weekly | p->monthly | p->yearly) == 0 &&
	       (p->within_seconds | p->within[0] | p->within[1] | p->within[2] | p->within[3] | p->within[4]) == 0 &&
	       p->tags_count == 0;
}

/* ---- prune */
struct store_prune_options {
	double max_unused;	   /* share of what is kept that may stay unused in packs that have both */
	uint64_t max_unused_bytes; /* above 0: so many bytes instead */
	uint64_t max_repack_bytes; /* above 0: no more is moved; the next prune goes on */
	bool dry_run;
	int level; /* of groups that are made again */
	void (*progress)(void *user, uint64_t done, uint64_t total);
	void *user;
};
struct store_prune_result {
	uint64_t used_blobs, unused_blobs, used_bytes, unused_bytes; /* stored */
	uint64_t removed_packs, removed_bytes, repacked_packs, repacked_bytes, left_unused_bytes;
	uint64_t waiting_packs,
		waiting_least_bytes; /* that max_repack_bytes kept from being moved; what the least of them has to move */
	bool in_place;		     /* there was no room for a new index beside the old one */
};
/* The lock is exclusive. Loads the index itself. Changes nothing when something that a snapshot needs is missing. */
int store_prune(struct store *s, const struct store_prune_options *options, struct store_prune_result *result);

/* ---- packs with damaged blobs */
struct store_salvage_options {
	const struct store_id *packs; /* these alone are looked at, and given up where they cannot be read */
	size_t packs_count;	      /* 0: all are looked at, and what cannot be read stays */
	bool dry_run;
	uint32_t threads;				/* 0: one a processor */
	int level;					/* of groups that are made again */
	void (*told)(void *user, const char *sentence); /* about a pack; by any thread, one at a time */
	void (*progress)(void *user, uint64_t done, uint64_t total);
	void *user;
};
struct store_salvage_result {
	uint64_t read_packs, read_bytes;
	uint64_t damaged_packs, missing_packs; /* which have left the index, and the repository */
	uint64_t mendable_packs, unread_packs; /* which stay */
	uint64_t moved_blobs,
		lost_blobs; /* of those that went; in a dry run what another pack has as well may count as lost */
};
/*
 * Blobs of damaged packs that can be opened go into new packs; what is lost leaves the index, so that the next backup stores it again. The lock is
 * exclusive. Loads the index itself, and leaves it as it is then.
 */
int store_salvage(struct store *s, const struct store_salvage_options *options, struct store_salvage_result *result);

/* ---- parity of a repository that is there */
struct store_parity_change {
	uint64_t packs, others; /* files that were written anew */
	uint64_t bytes;		/* that they have */
	uint64_t problems;	/* files that are missing, or damaged beyond their parity, which stay as they are */
	void (*problem)(void *user, const char *sentence);
	void (*progress)(void *user, uint64_t done, uint64_t total);
	void *user;
};
/*
 * Gives all files (but locks) as much parity as new ones get from now on, 0 to STORE_PARITY_MOST; their names change with it. The lock is exclusive,
 * the format 4. One that was cut off is gone on with by the next. Takes a sixteenth of the repository's size at a time, 1 GiB at least.
 */
int store_parity_set(struct store *s, uint32_t parity, struct store_parity_change *change);

/* ---- differences of two directories */
/* STORE_INODE: all is the same, but of files with several names the number that tells which names are one file. */
enum store_change { STORE_ADDED, STORE_REMOVED, STORE_CONTENT, STORE_METADATA, STORE_TYPE, STORE_INODE };
/* Anything but 0 stops. `left` or `right` is NULL where there is none. */
typedef int store_diff_fn(void *user, enum store_change change, const char *path, const struct store_node *left,
			  const struct store_node *right);
int store_diff(struct store *s, struct store_codec *codec, const struct store_content *left,
	       const struct store_content *right, store_diff_fn *each, void *user);

/* The path of an entry of a directory, which has "" or "/a"; the caller frees it. */
char *store_node_path(const char *path, const struct store_node *node);

/* ---- every entry below a directory, in order, directories before what they hold */
typedef int store_visit_fn(void *user, const char *path, const struct store_node *node);
/* `each` gives 0 to go on, 1 not to go into this directory, or a code that ends it. path: of `content`, "" or "/a". */
int store_visit(struct store *s, struct store_codec *codec, const struct store_content *content, const char *path,
		store_visit_fn *each, void *user);

#endif
