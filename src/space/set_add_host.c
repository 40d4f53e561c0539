/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk more, or chunks of another level. The set gets as many chunks of its own level that lie on the new disk as the disks
 * have room for that no chunk has yet, behind those that are there: no address changes, and the file system grows over them
 * as over a device that has become longer (src/fs/resize.c). What one disk more is good for depends on the level: copies need
 * as many disks with room as there are copies, rows one more than they have parities and two of data at least. A disk that
 * does not bring enough is one of the set nevertheless, and its room is there for the next one.
 *
 * Crashes: g4_set_switch_table(). Users: writes to rows wait meanwhile, for the map of regions gets longer; nobody else does.
 */
#define _GNU_SOURCE 1

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/uuid_host.h"
#include "space/set_drain_host.h"
#include "space/set_epoch_host.h"
#include "space/set_parity_host.h"
#include "space/set_spare_host.h"

int g4_set_check_whole(const struct g4_set *set, struct g4_dev_message message)
{
	if (set->dev.props.read_only)
		return g4_dev_fail(message, -G4_E_DEV_READONLY, "%s: can only be read", set->disks[0].name);
	if (g4_load32_acq(&set->stuck))
		return g4_dev_fail(message, -G4_E_IO, "a disk has failed that can not be done without");
	if (g4_load32_acq(&set->target) != G4_MAX_DISKS)
		return g4_dev_fail(message, -G4_E_BUSY, "a disk is being rebuilt; finish that first");
	for (uint32_t d = 0; d < set->count; d++)
		if (!g4_set_is_active(set, d))
			return g4_dev_fail(message, -G4_E_BUSY, "disk %u is missing; rebuild or replace it first", d);
	return 0;
}

/* What the superblocks say, of which an engine writes some meanwhile. */
struct numbers {
	uint64_t log_bytes;
	uint32_t copies;
};

static struct numbers read_super(struct g4_set *set)
{
	struct numbers numbers;

	pthread_mutex_lock(&set->lock);
	numbers.log_bytes = set->super->parity_log_bytes;
	numbers.copies = set->super->copies;
	pthread_mutex_unlock(&set->lock);
	return numbers;
}

static int check_disk(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, const char *name,
		      struct g4_dev_message message)
{
	const struct g4_dev_props *props = g4_dev_props(dev);
	const uint32_t known = g4_set_find_disk(wg, set, dev, name);

	if (known != G4_MAX_DISKS)
		return g4_set_tell_disk(name, known, message);
	if (set->count == G4_MAX_DISKS)
		return g4_dev_fail(message, -G4_E_SB_DISKS, "a file system has at most %u disks", G4_MAX_DISKS);
	if (props->size_bytes < G4_MIN_DEVICE_BYTES ||
	    g4_chunk_usable(g4_align_down(props->size_bytes, G4_PAGE_BYTES)) <= read_super(set).log_bytes)
		return g4_dev_fail(message, -G4_E_DEV_SMALL, "%s: is too small: a disk of a set has at least 8 MiB",
				   name);
	return g4_set_check_device(set, dev, name, message);
}

/* Orders held: nobody else changes what there is. Chunks as wished, behind those that there are; the memory is the caller's. */
static int plan_chunks(struct g4_set *set, const struct g4_chunk_wish *wish, struct g4_set_growth *growth)
{
	uint64_t bytes[G4_MAX_DISKS];

	/* what was moved away leaves room that is still used, and who was removed a number */
	if (!g4_set_view_wait(set, G4_VIEW_PATIENCE) || !g4_set_forget_numbers(set))
		return -G4_E_BUSY;
	growth->chunks = calloc(G4_CHUNKS_MAX, sizeof(*growth->chunks));
	if (!growth->chunks)
		return -G4_E_NOMEM;
	memcpy(growth->chunks, set->chunks, set->map.count * sizeof(*growth->chunks));
	pthread_mutex_lock(&set->lock);
	for (uint32_t d = 0; d < growth->disk_count; d++)
		bytes[d] = d < set->count ? (uint64_t)set->super->disk_bytes[d] : growth->disk_bytes;
	pthread_mutex_unlock(&set->lock);
	growth->chunk_count = g4_chunk_extend(wish, bytes, growth->disk_count, growth->chunks, set->map.count);
	/* a table that can not be right would not be read any more */
	return g4_chunk_validate(growth->chunks, growth->chunk_count, bytes, growth->disk_count);
}

/* And a disk more. */
static int plan_disk(struct g4_set *set, const struct g4_dev *dev, struct g4_set_growth *growth)
{
	struct g4_chunk_wish wish;

	growth->disk_count = set->count + 1;
	growth->disk_bytes = g4_align_down(g4_dev_props(dev)->size_bytes, G4_PAGE_BYTES);
	g4_chunk_wish_like(&set->map, read_super(set).log_bytes, &wish);
	wish.with_disk = growth->disk_count; /* what is left of the others may be meant for another level */
	const int rc = plan_chunks(set, &wish, growth);
	return rc < 0 ? rc : g4_uuid_random(growth->uuid);
}

/* Lock held. The device is in its place, and counts from the switch on. */
static int put_in(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, char *name,
		  const struct g4_set_growth *growth)
{
	const uint32_t disk = set->count;

	/* but for the users: one may look whether a disk that had the number is to be flushed */
	g4_store32_rel(&set->disks[disk].state, G4_DISK_MISSING);
	set->disks[disk].dev = dev;
	set->disks[disk].name = name;
	set->super->disk_bytes[disk] = growth->disk_bytes;
	int rc = g4_set_wipe(wg, set, disk);
	set->super->disk_bytes[disk] = 0;
	if (rc == 0)
		rc = g4_set_switch_table(wg, set, growth);
	if (set->count == disk) {
		g4_store32_rel(&set->disks[disk].state, G4_DISK_MISSING);
		set->disks[disk].dev = NULL;
		set->disks[disk].name = NULL;
		return rc;
	}
	if (!g4_dev_props(dev)->discard)
		set->dev.props.discard = false;
	g4_store32_rel(&set->dev.props.disks, disk + 1);
	return rc;
}

/*
 * Orders held. All that others have to be kept from: writers of rows wait, for the map of regions gets longer; it may be
 * elsewhere then, where there is none yet, so it is written. dev: NULL, or the new disk.
 */
static int grow(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, char *name,
		const struct g4_set_growth *growth)
{
	int rc = 0;

	if (set->parity) {
		g4_rows_lock(wg, set);
		rc = g4_set_parity_extend(wg, set, growth->chunks, growth->chunk_count);
	}
	if (rc == 0) {
		pthread_mutex_lock(&set->lock);
		rc = dev ? put_in(wg, set, dev, name, growth) : g4_set_switch_table(wg, set, growth);
		pthread_mutex_unlock(&set->lock);
		g4_store64_rel(&set->dev.props.size_bytes, g4_chunk_end(set->chunks, set->map.count));
	}
	if (set->parity) {
		g4_set_parity_extended(set);
		(void)g4_set_log_empty(wg, set); /* else it is written later, as ever */
		pthread_rwlock_unlock(&set->parity->lock);
	}
	return rc;
}

/* Orders held. False: the device is the caller's still. */
static bool add(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, char *name, struct g4_dev_message message,
		int *result)
{
	const uint32_t disk = set->count;
	struct g4_set_growth growth = {.chunks = NULL};
	int rc = g4_set_check_whole(set, message);

	if (rc == 0)
		rc = check_disk(wg, set, dev, name, message);
	if (rc == 0) {
		rc = plan_disk(set, dev, &growth);
		if (rc == 0)
			rc = grow(wg, set, dev, name, &growth);
		if (rc < 0)
			g4_dev_fail(message, rc, "%s: can not be made a disk of the set: %s", name, g4_strerror(rc));
		free(growth.chunks);
	}
	*result = rc;
	return set->count > disk;
}

int g4_set_add(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, const char *name, uint32_t *disk,
	       struct g4_dev_message message)
{
	char *kept = strdup(name);
	bool is_in = false;

	pthread_mutex_lock(&set->orders);
	*disk = set->count;
	/* before it is opened: it is open already */
	const uint32_t known = dev ? G4_MAX_DISKS : g4_set_find_name(set, name);
	int rc = known == G4_MAX_DISKS ? 0 : g4_set_tell_disk(name, known, message);
	if (rc == 0 && !dev && g4_set_find_spare(set, name) != G4_MAX_SPARES)
		rc = g4_set_tell_spare(name, message);
	if (rc == 0 && !kept)
		rc = g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	if (rc == 0 && !dev)
		rc = g4_dev_open(name, &set->open, &dev, message.text, message.bytes);
	if (rc == 0)
		is_in = add(wg, set, dev, kept, message, &rc);
	pthread_mutex_unlock(&set->orders);
	if (!is_in) {
		g4_dev_close(dev);
		free(kept);
	}
	return rc;
}

/* ---- chunks of another level ---- */

/*
 * A level that bears the loss of more disks than the set would be of no use where the metadata is lost, one that bears fewer
 * would leave chunks that a disk takes with it.
 */
static int wish_for(struct g4_set *set, uint32_t level, struct g4_chunk_wish *wish, struct g4_dev_message message)
{
	const struct numbers numbers = read_super(set);
	const uint32_t lost = numbers.copies - 1;
	uint32_t bears;

	g4_chunk_wish_like(&set->map, numbers.log_bytes, wish);
	if (level == g4_set_own_level(&set->map)) /* more of what mkfs made */
		return 0;
	if (wish->raid != G4_RAID_PARITY && wish->raid != G4_RAID_0)
		wish->stripe_bytes = G4_STRIPE_DEFAULT;
	wish->level = level;
	wish->copies = lost + 1;
	wish->raid = g4_level_raid(level, &bears); /* as many as it has parities, or fewer than it has copies */
	if (wish->raid == G4_RAID_1)
		bears = (uint32_t)g4_max64(lost, 1);
	if (bears != lost)
		return g4_dev_fail(
			message, -G4_E_INVAL,
			"all of a file system bears the loss of the same number of disks: of %u here, and of %u at "
			"level %s",
			lost, bears, g4_level_name(level));
	if (wish->raid == G4_RAID_PARITY && g4_set_parity_fits(set, bears, message) < 0)
		return -G4_E_INVAL;
	if (wish->raid == G4_RAID_PARITY && !set->parity)
		return g4_dev_fail(
			message, -G4_E_INVAL,
			"there is no room for the log of chunks with parity; 'gpu4fs mkfs --unassigned' leaves some");
	return 0;
}

/* Orders held. */
static int assign(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk_wish *wish, struct g4_dev_message message)
{
	struct g4_set_growth growth = {.disk_count = set->count};
	int rc = plan_chunks(set, wish, &growth);

	if (rc == 0 && growth.chunk_count == set->map.count)
		rc = g4_dev_fail(message, -G4_E_NOSPC, "the disks have no room left for chunks of level %s",
				 g4_level_name(wish->level == G4_LEVEL_OWN ? g4_set_own_level(&set->map) :
									     wish->level));
	else if (rc == 0)
		rc = grow(wg, set, NULL, NULL, &growth);
	if (rc < 0 && rc != -G4_E_NOSPC)
		g4_dev_fail(message, rc, "chunks can not be assigned: %s", g4_strerror(rc));
	free(growth.chunks);
	return rc;
}

int g4_set_assign(struct g4_wg *wg, struct g4_set *set, uint32_t level, uint64_t bytes, struct g4_dev_message message)
{
	struct g4_chunk_wish wish;

	if (level == G4_LEVEL_OWN || level >= G4_LEVELS)
		return g4_dev_fail(message, -G4_E_INVAL, "there is no such level");
	pthread_mutex_lock(&set->orders);
	int rc = g4_set_check_whole(set, message);
	if (rc == 0)
		rc = wish_for(set, level, &wish, message);
	if (rc == 0) {
		wish.most_bytes = bytes;
		rc = assign(wg, set, &wish, message);
	}
	pthread_mutex_unlock(&set->orders);
	return rc;
}

uint32_t g4_set_own_level(const struct g4_chunk_map *map)
{
	struct g4_chunk_wish wish;

	g4_chunk_wish_like(map, 0, &wish);
	return wish.raid == G4_RAID_NONE ? (uint32_t)G4_LEVEL_NONE :
	       wish.raid == G4_RAID_0	 ? (uint32_t)G4_LEVEL_STRIPED :
	       wish.raid == G4_RAID_1	 ? (uint32_t)G4_LEVEL_COPIES :
					   (uint32_t)G4_LEVEL_PARITY + wish.copies - 2;
}

/* ---- words ---- */

#define LEVEL_NAME(text) text,
static const char *const level_names[] = {"own", G4_LEVEL_WORDS(LEVEL_NAME)};
G4_STATIC_ASSERT(sizeof(level_names) / sizeof(level_names[0]) == G4_LEVELS, "in the order of their numbers");

const char *g4_level_name(uint32_t level)
{
	return level < G4_LEVELS ? level_names[level] : NULL;
}

uint32_t g4_level_of(const char *name)
{
	uint32_t level = G4_LEVEL_NONE;

	while (level < G4_LEVELS && strcmp(level_names[level], name) != 0)
		level++;
	return level;
}

enum g4_raid g4_level_raid(uint32_t level, uint32_t *parity)
{
	*parity = level >= G4_LEVEL_PARITY ? level - G4_LEVEL_PARITY + 1 : 0;
	return level == G4_LEVEL_NONE	 ? G4_RAID_NONE :
	       level == G4_LEVEL_STRIPED ? G4_RAID_0 :
	       level == G4_LEVEL_COPIES	 ? G4_RAID_1 :
					   G4_RAID_PARITY;
}
