/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the superblocks of disks say of each other: which of them speaks, which are of its set, and which have missed something. Nothing
 * is read or written here.
 */
#define _GNU_SOURCE 1

#include "space/set_judge_host.h"
#include "space/set_parity_host.h"
#include "space/set_spare_host.h"

bool g4_set_is_label(const struct g4_superblock *sb)
{
	if (!(sb->features_incompat & G4_FEATURE_INCOMPAT_DISKS) || sb->disk_count < 1 ||
	    sb->disk_count > G4_MAX_DISKS || sb->disk_index >= sb->disk_count)
		return false;
	if (sb->set_generation == 0 || sb->set_generation > G4_SET_GENERATION_MOST)
		return false;
	if (sb->chunk_count == 0 || sb->chunk_count > G4_CHUNKS_MAX || sb->copies == 0 || sb->copies > G4_COPIES_MAX)
		return false;
	if (sb->chunk_list_head != G4_CHUNKS_ADDRESS &&
	    (!(sb->features_incompat & G4_FEATURE_INCOMPAT_CHUNKS) || sb->chunk_list_head != G4_CHUNKS_SECOND))
		return false;
	for (uint32_t d = 0; d < sb->disk_count; d++)
		if (sb->disk_bytes[d] < 3 * G4_PAGE_BYTES || sb->disk_bytes[d] % G4_PAGE_BYTES != 0)
			return false;
	if (sb->parity_log_bytes % G4_CHUNK_UNIT != 0 || sb->parity_log_bytes > G4_PARITY_LOG_MOST ||
	    (sb->parity_log_bytes != 0) != ((sb->features_incompat & G4_FEATURE_INCOMPAT_PARITY) != 0))
		return false;
	if (g4_set_is_spare_label(sb)) /* what it says of disks is of the set's */
		return sb->size_bytes >= 3 * G4_PAGE_BYTES && sb->size_bytes % G4_PAGE_BYTES == 0;
	return sb->size_bytes == sb->disk_bytes[sb->disk_index];
}

bool g4_set_is_newer(const struct g4_superblock *a, const struct g4_superblock *b)
{
	return a->set_generation != b->set_generation ? a->set_generation > b->set_generation :
							g4_superblock_is_newer(b, a);
}

bool g4_set_is_member(const struct g4_superblock *lead, const struct g4_superblock *one)
{
	/* one that was written before disks were added knows fewer; one before a disk was withdrawn that died, more */
	return !g4_set_is_spare_label(one) && one->disk_index < lead->disk_count &&
	       (one->disk_count <= lead->disk_count || one->set_generation < lead->set_generation) &&
	       memcmp(one->disk_uuids[one->disk_index], lead->disk_uuids[one->disk_index], G4_UUID_BYTES) == 0;
}

uint32_t g4_set_number_of(const struct g4_superblock *sb, const uint8_t *uuid)
{
	uint32_t disk = 0;

	while (disk < sb->disk_count && memcmp(sb->disk_uuids[disk], uuid, G4_UUID_BYTES) != 0)
		disk++;
	return disk < sb->disk_count ? disk : G4_MAX_DISKS;
}

bool g4_set_knows(const struct g4_superblock *sb, const struct g4_superblock *one)
{
	return g4_set_number_of(sb, one->disk_uuids[one->disk_index]) != G4_MAX_DISKS;
}

bool g4_set_is_unadded(const struct g4_superblock *lead, const struct g4_superblock *one)
{
	if (one->disk_count <= lead->disk_count || g4_set_knows(lead, one) ||
	    (one->disk_since[one->disk_index] == 0 && one->set_generation >= lead->set_generation))
		return false;
	for (uint32_t d = 0; d < lead->disk_count; d++)
		if (g4_set_number_of(one, lead->disk_uuids[d]) == G4_MAX_DISKS)
			return false;
	return true;
}

static void swap(g4_le64 *a, g4_le64 *b)
{
	const g4_le64 before = *a;

	*a = *b;
	*b = before;
}

void g4_set_swap_disks(struct g4_superblock *sb, uint32_t a, uint32_t b)
{
	const uint64_t bits = sb->disk_by_hand, differ = (bits >> a ^ bits >> b) & 1;
	uint8_t uuid[G4_UUID_BYTES];

	memcpy(uuid, sb->disk_uuids[a], G4_UUID_BYTES);
	memcpy(sb->disk_uuids[a], sb->disk_uuids[b], G4_UUID_BYTES);
	memcpy(sb->disk_uuids[b], uuid, G4_UUID_BYTES);
	swap(&sb->disk_bytes[a], &sb->disk_bytes[b]);
	swap(&sb->disk_since[a], &sb->disk_since[b]);
	swap(&sb->disk_mended[a], &sb->disk_mended[b]);
	swap(&sb->disk_damaged[a], &sb->disk_damaged[b]);
	sb->disk_by_hand = bits ^ (differ << a | differ << b);
}

void g4_set_follow(const struct g4_superblock *lead, struct g4_superblock *one)
{
	const uint32_t old = one->disk_index, disk = g4_set_number_of(lead, one->disk_uuids[old]);

	if (g4_set_is_spare_label(one) || disk == G4_MAX_DISKS || disk == old ||
	    one->set_generation > lead->set_generation)
		return;
	/* of one generation are two only where one was written without the other: who alone learnt of a removal, and the others */
	if (one->set_generation == lead->set_generation && lead->disk_since[disk] == 0)
		return;
	g4_set_swap_disks(one, old, disk);
	one->disk_index = disk;
}

/* By the disks that the spare knows, whatever their numbers are now: the file system's UUID can be another one by now, and so can the disks that were added since. */
bool g4_set_is_spare_of(const struct g4_superblock *lead, const struct g4_superblock *spare)
{
	for (uint32_t d = 0; d < lead->disk_count; d++)
		if (g4_set_number_of(spare, lead->disk_uuids[d]) != G4_MAX_DISKS)
			return true;
	return false;
}

/* A disk that misses something by its own word was being rebuilt, or added: it speaks when nobody else does. */
static bool misses_something(const struct g4_superblock *sb)
{
	return sb->disk_since[sb->disk_index] != 0;
}

bool g4_set_speaks_before(const struct g4_superblock *a, const struct g4_superblock *b)
{
	if (misses_something(a) != misses_something(b))
		return misses_something(b);
	return g4_set_is_newer(a, b);
}

/*
 * Whether a stale disk was there whenever anything was written until the one that speaks went on without it. It calls nobody stale, so
 * it was last written when all were there, as it knows them. It may have had others replaced that it was written without, and calls them
 * stale no longer: that took it two generations, one that calls them stale and one that admits the last of the new ones. The two had one
 * in common, and the one that speaks was one ahead of it at most when it went on without (level()), with the next.
 */
static bool was_left_whole(const struct g4_superblock *lead, const struct g4_superblock *one)
{
	for (uint32_t d = 0; d < one->disk_count; d++)
		if (one->disk_since[d] != 0)
			return false;
	return one->set_generation < lead->disk_since[one->disk_index];
}

/*
 * Whether the one that speaks was rebuilt and is one as the others since one generation, which a disk that was there does not know yet, for a
 * crash came between: the others are told first, but after another crash a mount may tell them in any order. Nothing is written before all know
 * it, and whoever goes on without a disk that is being rebuilt has a generation of his own.
 */
static bool is_unaware(const struct g4_superblock *lead, const struct g4_superblock *one)
{
	const uint32_t disk = lead->disk_index;

	return one->set_generation + 1 == lead->set_generation && g4_set_is_target(one, disk) &&
	       memcmp(one->disk_uuids[disk], lead->disk_uuids[disk], G4_UUID_BYTES) == 0;
}

/*
 * Whether a disk and the one that speaks were each written without the other. One that is stale was not if a third one was with
 * both: the one that speaks was stale before, and caught up while this one was away. The third is the same to both only by its
 * UUID: a disk that took the place of another has its number, and nothing of what was written with that.
 */
bool g4_set_is_split(const struct g4_superblock *lead, const struct g4_superblock *one)
{
	/* it was being rebuilt, and is told last of a new generation: so the one that speaks was not there */
	if (misses_something(one) && one->set_generation > lead->set_generation)
		return true;
	if (lead->disk_since[one->disk_index] == 0)
		return one->disk_since[lead->disk_index] != 0 && !is_unaware(lead, one);
	if (was_left_whole(lead, one))
		return false;
	for (uint32_t d = 0; d < lead->disk_count; d++)
		if (lead->disk_since[d] == 0 && one->disk_since[d] == 0 &&
		    memcmp(lead->disk_uuids[d], one->disk_uuids[d], G4_UUID_BYTES) == 0)
			return false;
	return true;
}

int g4_set_tell_apart(struct g4_dev_message message, const char *one, const char *other)
{
	return g4_dev_fail(message, -G4_E_SB_DISKS,
			   "%s and %s were each written without the other and differ; mount one of them "
			   "with -o degraded, and the other one no more",
			   one, other);
}

bool g4_set_is_target(const struct g4_superblock *lead, uint32_t disk)
{
	return (lead->features_incompat & G4_FEATURE_INCOMPAT_REBUILD) && lead->rebuild_disk == disk + 1 &&
	       lead->disk_since[disk] != 0;
}
