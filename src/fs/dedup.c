/* SPDX-License-Identifier: Apache-2.0 */
/* DEDUP: counts of deduplication since the mount, pages that nobody shares taken from the list, and another quota for what is listed. */
#include "data/dedup.h"
#include "alloc/share.h"
#include "fs/commands.h"
#include "fs/super.h"

G4_FN static void count(const struct g4_fs *fs, struct g4_dedup_counts *counts)
{
	struct g4_ddt_stats stats;

	g4_ddt_stats(&fs->ddt, &stats);
	counts->hits = stats.hits;
	counts->misses = stats.misses;
	counts->zeros = stats.zeros;
	counts->plain = stats.plain;
	counts->places = stats.places;
	counts->hints = stats.entries;
	counts->inserted = stats.inserted;
	counts->evicted = stats.evicted;
	counts->stale = stats.stale;
	counts->groups = g4_load64_acq(&fs->alloc.group_count);
	counts->counted = g4_min64(g4_load64_acq(&fs->alloc.counted_groups), counts->groups);
	counts->quota_bytes = g4_load64_acq(&fs->super.dedup_quota);
	counts->listing_bytes = g4_load64_acq(&fs->alloc.listing_pages) * G4_PAGE_BYTES;
	counts->loaded = g4_min64(g4_load64_acq(&fs->ddt.load_group), counts->groups);
}

/* The group that the command names, or the next one that has anything in use. */
G4_FN static int prune(struct g4_wg *wg, struct g4_fs *fs, uint64_t group, uint64_t last,
		       struct g4_dedup_counts *counts)
{
	if (!(g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_LISTED))
		group = counts->groups;
	while (group < counts->groups && g4_load32_rlx(&fs->alloc.group_free[group]) == G4_GROUP_PAGES)
		group++;
	counts->next = g4_min64(group + 1, counts->groups);
	return group < counts->groups ? g4_dedup_prune(wg, fs, group, last, &counts->pruned) : 0;
}

G4_FN int g4_do_dedup(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_dedup_counts *counts = (struct g4_dedup_counts *)cmd->data;
	int rc = 0;

	if (cmd->length < sizeof(*counts) || cmd->mask >= G4_DEDUP_ORDERS)
		return -G4_E_INVAL;
	if (cmd->mask != G4_DEDUP_STATS && ((fs->flags & G4_FS_READ_ONLY) || g4_load32_acq(&fs->journal.aborted)))
		return -G4_E_ROFS;
	if (cmd->mask == G4_DEDUP_QUOTA && cmd->cookie != 0 && cmd->cookie < G4_PAGE_BYTES)
		return -G4_E_INVAL;
	if (cmd->mask == G4_DEDUP_QUOTA)
		rc = g4_super_set_quota(wg, fs, cmd->cookie);
	memset(counts, 0, sizeof(*counts));
	count(fs, counts);
	if (cmd->mask == G4_DEDUP_PRUNE)
		rc = prune(wg, fs, cmd->cookie, G4_LISTING_ANY_DAY, counts);
	if (cmd->mask == G4_DEDUP_PRUNE_OLDER)
		rc = prune(wg, fs, (uint32_t)cmd->cookie, cmd->cookie >> 32, counts);
	cmd->value = sizeof(*counts);
	return rc;
}
