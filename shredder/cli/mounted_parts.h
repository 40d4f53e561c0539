/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a mounted repository. From below:
 *
 *	mounted_cache.c   chunks in memory; the index, and loading it again
 *	mounted_tree.c    directories and inodes
 *	mounted.c         requests of the kernel
 *
 * Locking: `mutex` guards nodes, listings and snapshots, and is held while a directory is read for the first time; the cache has
 * its own; `index` is held for reading while anything reads blobs, and for writing while the index is loaded again. Order: mutex, index, cache.
 */
#ifndef SHREDDER_CLI_MOUNTED_PARTS_H
#define SHREDDER_CLI_MOUNTED_PARTS_H

#include <pthread.h>

#include "store/tree.h"

/* ---- mounted_cache.c */
#define MOUNTED_CACHED 256

struct mounted_blob {
	struct store_id id;
	struct store_buf bytes;
	uint32_t users;
	uint64_t used; /* when; 0: free */
	bool loading;
};

struct mounted_cache {
	struct store *s;
	pthread_rwlock_t index;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct mounted_blob blobs[MOUNTED_CACHED];
	uint64_t clock, bytes;
};

void mounted_cache_init(struct mounted_cache *c, struct store *s);
void mounted_cache_free(struct mounted_cache *c);
/* A data blob, verified; it stays until it is put back. NULL after a sentence. */
const struct mounted_blob *mounted_cache_get(struct mounted_cache *c, const struct store_part *part);
void mounted_cache_put(struct mounted_cache *c, const struct mounted_blob *blob);
/* Loads the index again: there are new snapshots, or packs were pruned. */
int mounted_cache_reload(struct mounted_cache *c);

/* ---- mounted_tree.c */
/* The entries of a directory, in the order of their names. */
struct mounted_listing {
	struct store_buf bytes;
	size_t *offsets;
	size_t count, room;
	uint32_t users;			      /* the node, and handles that have it open */
	struct mounted_listing *next, **link; /* of all: a session may end before the kernel has closed what is open */
};

/* An inode that the kernel knows. */
struct mounted_node {
	uint64_t number;  /* of the inode, and what the kernel calls it */
	uint64_t shown;	  /* st_ino: names of one file have the same */
	uint64_t domain;  /* of a snapshot: device and inode numbers mean something in it only */
	uint64_t lookups; /* that the kernel has not taken back */
	bool root;
	struct store_buf entry;
	struct store_node node; /* in the entry */
	struct mounted_listing *listing;
	uint64_t used; /* the listing, when */
	struct mounted_node *next;
};

#define MOUNTED_ROWS 4096

struct mounted_tree {
	struct store *s;
	struct store_filter filter;
	struct mounted_cache *cache;
	struct store_codec codec;
	pthread_mutex_t mutex;
	uint64_t key[2];
	struct mounted_node *rows[MOUNTED_ROWS];
	struct mounted_node *root;
	struct mounted_listing *listings;
	struct store_id snapshots; /* of the names of those that the root shows */
	uint64_t clock, listed_bytes;
};

int mounted_tree_init(struct mounted_tree *t, struct store *s, const struct store_filter *filter,
		      struct mounted_cache *cache);
/* Listings that are open still go, too. */
void mounted_tree_free(struct mounted_tree *t);
/* All with the mutex held. */
struct mounted_node *mounted_node_at(struct mounted_tree *t, uint64_t number);
void mounted_forget(struct mounted_tree *t, uint64_t number, uint64_t lookups);
/* NULL after a sentence. The caller puts it back. */
struct mounted_listing *mounted_list(struct mounted_tree *t, struct mounted_node *directory);
void mounted_listing_put(struct mounted_listing *listing);
/* An entry of a listing, in place. */
struct store_node mounted_entry(const struct mounted_listing *listing, size_t place);
/* 1 and a node with one lookup more; 0: there is no such name; or an error. */
int mounted_lookup(struct mounted_tree *t, struct mounted_node *directory, const char *name, struct mounted_node **out);
/* st_ino of an entry. */
uint64_t mounted_shown(const struct mounted_tree *t, const struct mounted_node *directory,
		       const struct store_node *node);

#endif
