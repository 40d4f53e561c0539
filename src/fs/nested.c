/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of a long path, made together. A directory that lies empty is locked alone, and the whole chain below it is made and
 * enters it in one transaction, so nobody sees a part of it, after a crash neither. Other workgroups help with its pieces.
 *
 * The chain's inodes do not come into core: names that lead there load them.
 */
#include "fs/nested.h"
#include "alloc/pages.h"
#include "data/split.h"
#include "fs/create.h"
#include "fs/names.h"
#include "fs/node.h"
#include "inode/chain.h"
#include "inode/inode.h"
#include "inode/txn.h"

#define NESTED_LEAST 8u
#define NESTED_MOST (30u * G4_CHAIN_PIECE)
#define NESTED_PAGES (NESTED_MOST + NESTED_MOST / G4_CHAIN_PIECE)

struct nested { /* in scratch memory */
	struct g4_chain chain;
	uint32_t begins[NESTED_MOST / G4_CHAIN_PIECE];
	uint32_t lines[NESTED_MOST / G4_CHAIN_PIECE];
	uint64_t pages[NESTED_PAGES];
};

/* Beside the chain's pages: those of a name, and where the pages are allocated. */
G4_FN static uint32_t credits_for(uint32_t count)
{
	return count + g4_chain_slabs(count) + G4_NAME_CREDITS + G4_ALLOC_PAGES_CREDITS;
}

/* How many names stand before the path's last one that a chain may have, at most so many; where the pieces' names begin. */
G4_FN static uint32_t count_names(const char *path, uint32_t bytes, uint32_t at, uint32_t most, uint32_t *begins)
{
	uint32_t count = 0, begin = at, n;

	for (;; count++) {
		while (at < bytes && path[at] == '/')
			at++;
		for (n = 0; at + n < bytes && path[at + n] != '/';)
			n++;
		/* what was met before is no longer the last one */
		if (n == 0)
			return count > 0 ? count - 1 : 0;
		if (count == most || g4_is_dot(path + at, n) || g4_is_dotdot(path + at, n) ||
		    g4_check_name(path + at, n) < 0)
			return count;
		if (count % G4_CHAIN_PIECE == 0)
			begins[count / G4_CHAIN_PIECE] = begin;
		at += n;
		begin = at;
	}
}

/* Behind so many names. */
G4_FN static uint32_t skip_names(const char *path, uint32_t at, uint32_t count)
{
	for (; count > 0; count--) {
		while (path[at] == '/')
			at++;
		while (path[at] != '/')
			at++;
	}
	return at;
}

/* The most directories that so many pages are enough for. */
G4_FN static uint32_t count_for(uint32_t pages)
{
	return pages / G4_SLAB_SLOTS * G4_CHAIN_PIECE + (pages % G4_SLAB_SLOTS ? pages % G4_SLAB_SLOTS - 1 : 0);
}

/* Pages for as many of the directories as there are such pages for; count 0: for too few. */
G4_FN static int take_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct nested *nested)
{
	struct g4_chain *chain = &nested->chain;
	struct g4_alloc_runs runs;

	g4_alloc_claim_runs(wg, &fs->alloc, chain->count + g4_chain_slabs(chain->count), &runs);
	chain->count = count_for(runs.count);
	if (chain->count < NESTED_LEAST)
		chain->count = 0;
	const uint32_t slabs = g4_chain_slabs(chain->count);
	chain->slabs = nested->pages;
	chain->leaves = nested->pages + slabs;
	return g4_alloc_publish_runs(wg, &fs->alloc, txn, &runs, chain->count + slabs, nested->pages);
}

G4_FN static int make_pieces(struct g4_wg *wg, struct g4_fs *fs, const struct g4_chain *chain)
{
	const struct g4_split_work work = {.kind = G4_SPLIT_CHAIN, .bytes = chain->count, .chain = chain};
	struct g4_split_job *job = g4_split_open(wg, fs, &work);
	struct g4_split_piece piece = {0, G4_CHAIN_PIECE};
	uint64_t done;
	int rc = 0;

	if (job) {
		while (g4_split_take(job, &piece))
			g4_split_done(job, &piece,
				      g4_chain_piece(wg, fs, chain, (uint32_t)piece.offset, (uint32_t)piece.bytes), 0);
		return g4_split_close(fs, job, &done);
	}
	for (; piece.offset < chain->count && rc == 0; piece.offset += G4_CHAIN_PIECE)
		rc = g4_chain_piece(wg, fs, chain, (uint32_t)piece.offset,
				    (uint32_t)g4_min64(chain->count - piece.offset, G4_CHAIN_PIECE));
	return rc;
}

/* Makes the chain and lets the directory above lead to it. 1, 0 where there is no room for one, or a negative code. */
G4_FN static int make_chain(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *above,
			    struct nested *nested)
{
	struct g4_chain *chain = &nested->chain;
	int rc = take_pages(wg, fs, txn, nested);

	if (rc < 0 || chain->count == 0)
		return rc;
	txn->credits -= chain->count + g4_chain_slabs(chain->count); /* those of the pieces */
	rc = make_pieces(wg, fs, chain);
	/* the cache had no line for a page: nothing leads to the chain, so its pages are free again when the transaction is durable */
	if (rc == -G4_E_NOMEM)
		return g4_alloc_drop_pages(wg, &fs->alloc, txn, nested->pages,
					   chain->count + g4_chain_slabs(chain->count));
	if (rc == 0)
		rc = g4_chain_finish(wg, fs, txn, chain);
	if (rc < 0)
		return rc;
	struct g4_dir dir = g4_dir_of(fs, above);
	dir.root = g4_ptr_make(g4_chain_leaf(chain, 0), G4_TAG_4K, G4_PTR_VALID);
	dir.pages = 1;
	g4_dir_changed(above, &dir, 1, chain->pattern.btime_ns);
	above->disk.nlink++;
	rc = g4_inode_log(wg, fs, txn, above);
	return rc < 0 ? rc : 1;
}

/* Whether what MKDIR would ask of each directory is true of all, because it is of this one, which is locked alone. */
G4_FN static bool suits(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *above, const struct g4_cred *cred,
			uint32_t mode, struct g4_inode *pattern)
{
	return above->disk.entries == 0 && above->disk.map[0] == 0 && above->disk.nlink < G4_LINK_MAX &&
	       g4_check_dir(wg, fs, above, cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC) == 0 &&
	       g4_new_directory(wg, fs, above, cred, mode, pattern) &&
	       (g4_is_root(cred) || (pattern->mode & 0300u) == 0300u);
}

/* Below a directory that is referenced. */
G4_FN static int make_below(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *above, const struct g4_cred *cred,
			    uint32_t mode, struct nested *nested)
{
	struct g4_chain *chain = &nested->chain;
	struct g4_txn txn;
	int rc = 0;

	g4_dir_lock(fs, above, G4_LOCKED_ALONE);
	if (suits(wg, fs, above, cred, mode, &chain->pattern))
		rc = g4_begin(wg, fs, credits_for(chain->count), &txn);
	else
		chain->count = 0;
	if (rc == 0 && chain->count > 0) {
		chain->sequence = txn.sequence;
		chain->above = above->ino;
		chain->first_key = g4_icache_new_keys(&fs->icache, chain->count);
		chain->pattern.change_count = 1;
		rc = make_chain(wg, fs, &txn, above, nested);
		rc = g4_end(fs, &txn, rc);
	}
	g4_dir_unlock(above, G4_LOCKED_ALONE);
	return rc;
}

G4_FN int g4_make_nested(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cred *cred, uint32_t mode,
			 struct g4_place *here, const char *path, uint32_t bytes, uint32_t *at)
{
	struct g4_cmd above;
	const uint32_t mark = g4_scratch_mark(wg);
	/* not all of a transaction, so that others find room in it */
	const uint64_t room = fs->journal.max_blocks / 2;
	struct nested *nested = (struct nested *)g4_scratch_take(wg, sizeof(*nested));
	struct g4_chain *chain = &nested->chain;
	uint32_t index, most = NESTED_MOST;
	int rc = 0;

	memset(&above, 0, sizeof(above));
	above.node = here->ino;
	above.generation = here->generation;
	while (most > 0 && credits_for(most) > room)
		most -= G4_CHAIN_PIECE;
	chain->names = path;
	chain->begins = nested->begins;
	chain->lines = nested->lines;
	chain->count = count_names(path, bytes, *at, most, nested->begins);
	if (chain->count >= NESTED_LEAST)
		rc = g4_icache_get_node(wg, fs, &above, &index);
	if (rc == 0 && chain->count >= NESTED_LEAST) {
		rc = make_below(wg, fs, g4_icache_at(fs, index), cred, mode, nested);
		g4_icache_put(fs, index);
	}
	if (rc == 1) {
		rc = (int)chain->count;
		*at = skip_names(path, *at, chain->count);
		here->ino = g4_chain_ino(chain, chain->count - 1);
		here->generation = g4_chain_generation(fs, chain, chain->count - 1);
	}
	g4_scratch_release(wg, mark);
	return g4_check(fs, rc);
}
