/* SPDX-License-Identifier: Apache-2.0 */
/* Directories one below the other, a slab of them at a time. */
#include "inode/chain.h"

G4_FN static void make_inode(struct g4_fs *fs, const struct g4_chain *chain, uint32_t k, struct g4_inode *inode)
{
	g4_copy16(inode, &chain->pattern, sizeof(*inode));
	inode->generation = g4_chain_generation(fs, chain, k);
	inode->parent = k == 0 ? chain->above : g4_chain_ino(chain, k - 1);
	if (k + 1 < chain->count) {
		inode->nlink = chain->pattern.nlink + 1;
		inode->entries = 1;
		inode->pages = 1;
		inode->map[0] = g4_ptr_make(g4_chain_leaf(chain, k + 1), G4_TAG_4K, G4_PTR_VALID);
	}
}

/* The name at *at or behind slashes there, which ends at a slash; *at: behind it. */
G4_FN static uint32_t next_name(const char *names, uint32_t *at, const char **name)
{
	uint32_t bytes = 0;

	while (names[*at] == '/')
		++*at;
	*name = names + *at;
	while ((*name)[bytes] != '/')
		bytes++;
	*at += bytes;
	return bytes;
}

G4_FN int g4_chain_piece(struct g4_wg *wg, struct g4_fs *fs, const struct g4_chain *chain, uint32_t first,
			 uint32_t count)
{
	struct g4_txn txn = g4_txn_in(&fs->journal, chain->sequence, count + 1);
	const uint32_t p = first / G4_CHAIN_PIECE;
	const struct g4_dir dir = {
		.alloc = &fs->alloc, .meta = &fs->meta, .cache = &fs->cache, .hash_key = fs->hash_key};
	uint32_t at = chain->begins[p];
	int rc = g4_slab_new(wg, &fs->alloc, &txn, G4_SLAB_INODES, g4_chain_slab(chain, p), &chain->lines[p]);

	if (rc < 0)
		return rc;
	uint8_t *const slab = (uint8_t *)g4_line_data(&fs->cache, chain->lines[p]);
	for (uint32_t k = 0; k < count && rc == 0; k++) {
		const char *name;
		const uint32_t bytes = next_name(chain->names, &at, &name);

		make_inode(fs, chain, first + k, (struct g4_inode *)(void *)(slab + (1 + k) * G4_SLAB_SLOT_BYTES));
		rc = g4_dir_new_leaf(wg, &dir, &txn, g4_chain_leaf(chain, first + k), name, bytes,
				     g4_chain_ino(chain, first + k), G4_S_IFDIR >> 12);
	}
	return rc;
}

G4_FN int g4_chain_finish(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, const struct g4_chain *chain)
{
	int rc = 0;

	for (uint32_t first = 0; first < chain->count && rc == 0; first += G4_CHAIN_PIECE) {
		const uint32_t p = first / G4_CHAIN_PIECE;
		const uint32_t count = (uint32_t)g4_min64(chain->count - first, G4_CHAIN_PIECE);

		rc = g4_slab_fill(wg, &fs->alloc, txn, g4_chain_slab(chain, p), chain->lines[p], count);
	}
	return rc;
}
