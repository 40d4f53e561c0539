/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of the write pipeline in which contents are recognised: pages of zeros, which become holes, pages that the table of
 * contents has, and those that are stored just before them. Nothing changes yet: publish.c shares what was found, and makes entries of what
 * was stored. What is hashed, looked for and stored is the same line, which nobody changes meanwhile: the inode is locked.
 */
#include "data/batch.h"

G4_FN bool g4_dedup_wanted(const struct g4_fs *fs, const struct g4_inode_core *inode)
{
	return g4_ddt_is_there(&fs->ddt) && g4_is_reg(inode->disk.mode) &&
	       g4_policy_dedup(inode->disk.policy, fs->super.policy) &&
	       (g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SHARED) &&
	       g4_sums_algorithm(fs, inode->disk.policy) == G4_CHECKSUM_BLAKE3;
}

G4_FN static bool is_zeros(const void *data)
{
	const uint64_t *words = (const uint64_t *)data;
	uint32_t k = 0;

	while (k < G4_PAGE_BYTES / sizeof(*words) && words[k] == 0)
		k++;
	return k == G4_PAGE_BYTES / sizeof(*words);
}

/* What is in the room before with the sum of the batch's page k; if nothing is, that page is what others are like. */
G4_FN static uint64_t find_same(const struct g4_batch *batch, uint32_t k)
{
	struct g4_batch_room *room = batch->room;
	const struct g4_sum_entry *sum = &batch->sums[k];
	uint32_t at = (sum->bytes[8] | (uint32_t)sum->bytes[9] << 8) % G4_BATCH_SEEN;

	for (; room->seen[at]; at = (at + 1) % G4_BATCH_SEEN)
		if (g4_bytes_equal(room->sums[room->seen[at] - 1].bytes, sum->bytes, sizeof(sum->bytes)))
			return G4_KNOWN_SAME(room->seen[at] - 1u);
	room->seen[at] = (uint16_t)(&batch->sums[k] - room->sums + 1);
	return G4_KNOWN_NOT;
}

G4_FN void g4_dedup_batch(struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch)
{
	const bool again = inode->dedup_failed;

	batch->dedup = !batch->direct && g4_dedup_wanted(fs, inode);
	inode->dedup_failed = false;
	if (!batch->dedup)
		return;
	memset(batch->known, 0, batch->count * sizeof(*batch->known));
	/* what lies in the inode goes with the first page that is published */
	if (again || (inode->disk.flags & G4_INODE_INLINE))
		return;
	for (uint32_t k = 0; k < batch->count; k++) {
		if (is_zeros(g4_line_data(&fs->cache, batch->lines[k])))
			batch->known[k] = G4_KNOWN_ZEROS;
		else
			batch->known[k] = g4_address_stored(g4_ddt_find(&fs->ddt, batch->sums[k].bytes));
		if (batch->known[k] == G4_KNOWN_NOT)
			batch->known[k] = find_same(batch, k);
	}
}
