/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk less, while nobody uses the set. There are two ways:
 *
 * - Nothing lies on the disk that was added last, as the opposite of set_add_host.c: the chunks that lie on it are the last ones, so the
 * address space ends where the first of them began. The file system ends there by then (fs/resize_host.c). - Else what lies on the disk,
 * whichever it is, is moved to the others (set_move_host.c), and the address space stays as long as it is. The last disk has its number then.
 *
 * No address changes. Crashes: g4_set_switch_table(). Before it the disk is one of the set, which may be longer than the file system, as
 * after an addition whose growth was interrupted. After it the disk is nobody's: its superblocks are those of an older generation, with
 * more disks than there are, until they are wiped. They are only where all others have taken the new table, or were dropped by the
 * rest.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "base/log_host.h"
#include "simt/simt_host.h"
#include "space/set_drain_host.h"
#include "space/set_move_host.h"

static bool lies_on(const struct g4_chunk *chunk, uint32_t disk)
{
	for (uint32_t p = 0; p < (uint32_t)chunk->columns * chunk->copies; p++)
		if (g4_place_disk(chunk->places[p]) == disk)
			return true;
	return false;
}

/* Orders held. Which disk it is, and how many chunks stay where those on it are simply gone; 0: what lies on it has to be moved. */
static int plan(struct g4_set *set, const char *name, uint32_t *disk, uint32_t *count, struct g4_dev_message message)
{
	if (set->dev.props.read_only)
		return g4_dev_fail(message, -G4_E_DEV_READONLY, "%s: can only be read", name);
	for (uint32_t d = 0; d < set->count; d++)
		if (!g4_set_is_active(set, d))
			return g4_dev_fail(message, -G4_E_BUSY, "disk %u is missing; rebuild or replace it first", d);
	for (*disk = 0; *disk < set->count && !g4_set_is_same_file(set->disks[*disk].name, name); ++*disk)
		;
	if (*disk == set->count)
		return g4_dev_fail(message, -G4_E_INVAL, "%s: is no disk of the file system", name);
	if (set->count <= 2)
		return g4_dev_fail(message, -G4_E_INVAL, "%s: a file system of several disks keeps two of them", name);
	for (*count = 0; *count < set->map.count && !lies_on(&set->chunks[*count], *disk); ++*count)
		;
	for (uint32_t n = *count; n < set->map.count; n++)
		if (!lies_on(&set->chunks[n], *disk))
			*count = 0;
	if (*disk + 1 != set->count)
		*count = 0;
	return 0;
}

int g4_set_remove_plan(struct g4_dev *dev, const char *name, uint64_t *bytes, char *message, size_t message_bytes)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = message_bytes};
	uint32_t disk, count;

	*bytes = 0;
	if (!g4_set_is(dev))
		return g4_dev_fail(sentence, -G4_E_SB_DISKS, "%s: the file system was made for one disk", name);
	struct g4_set *set = (struct g4_set *)dev->host;
	pthread_mutex_lock(&set->orders);
	const int rc = plan(set, name, &disk, &count, sentence);
	if (rc == 0 && count > 0)
		*bytes = g4_chunk_end(set->chunks, count);
	pthread_mutex_unlock(&set->orders);
	return rc;
}

/*
 * Superblock lock held. It is nobody's: without superblocks nobody asks. Where not all others could be told so they may need it, by
 * what they have: then it keeps its own, which is refused by those that do not.
 */
static void let_go(struct g4_wg *wg, struct g4_set *set, uint32_t disk, uint64_t bytes, bool wipes)
{
	struct g4_set_member *member = &set->disks[disk];

	set->super->disk_bytes[disk] = bytes;
	if (wipes && g4_set_wipe(wg, set, disk) < 0)
		g4_log(G4_LOG_WARN, "%s: can not be wiped; it is refused as a disk of this file system from now on",
		       member->name);
	set->super->disk_bytes[disk] = 0;
	g4_dev_close(member->dev);
	free(member->name);
	memset(member, 0, sizeof(*member));
	member->state = G4_DISK_MISSING;
}

/* Orders held. The log is empty meanwhile, for its map of regions may get shorter, and be elsewhere then. */
int g4_set_change_over(struct g4_wg *wg, struct g4_set *set, const struct g4_set_growth *growth)
{
	const uint32_t last = growth->disk_count;
	const bool removes = last < set->count;
	int rc = 0;

	if (set->parity)
		rc = g4_set_parity_flush(wg, set);
	if (set->parity)
		g4_rows_lock(wg, set);
	if (rc == 0 && set->parity)
		rc = g4_set_log_empty(wg, set);
	if (rc == 0) {
		pthread_mutex_lock(&set->lock);
		const uint64_t bytes = set->super->disk_bytes[growth->removed];
		rc = g4_set_switch_table(wg, set, growth);
		if (removes && set->count == last)
			let_go(wg, set, last, bytes, rc == 0);
		pthread_mutex_unlock(&set->lock);
		g4_store64_rel(&set->dev.props.size_bytes, g4_chunk_end(set->chunks, set->map.count));
		g4_store32_rel(&set->dev.props.disks, set->count);
	}
	if (set->parity) {
		g4_set_parity_extended(set);
		if (rc == 0)
			(void)g4_set_log_empty(wg, set); /* else it is written later, as ever */
		pthread_rwlock_unlock(&set->parity->lock);
	}
	return rc;
}

/* By its superblocks, which a mount has made the same on all disks (fs/resize_host.c). */
static bool ends_within(struct g4_set *set, uint64_t bytes)
{
	pthread_mutex_lock(&set->lock);
	const bool is_open = (set->super->features_incompat & G4_FEATURE_INCOMPAT_RESIZING) != 0;
	const uint64_t end = g4_max64(set->super->total_bytes, g4_load64_acq(&set->fs_bytes));
	pthread_mutex_unlock(&set->lock);
	return !is_open && end <= bytes;
}

/* Orders held. */
static int take_out(struct g4_wg *wg, struct g4_set *set, const struct g4_set_growth *growth, const char *name,
		    struct g4_dev_message message)
{
	const uint32_t disks = set->count;
	const int rc = g4_set_change_over(wg, set, growth);

	if (rc < 0 && set->count < disks)
		g4_dev_fail(message, rc,
			    "%s: the other disks could not all be told that it is removed: %s. It is not wiped, "
			    "for it may be needed still: mount with it, or without it where it is refused",
			    name, g4_strerror(rc));
	else if (rc < 0)
		g4_dev_fail(message, rc, "%s: can not be removed: %s", name, g4_strerror(rc));
	return rc;
}

/* Orders held. The last disk, behind the first `count` chunks. */
static int take_out_last(struct g4_wg *wg, struct g4_set *set, uint32_t disk, uint32_t count, const char *name,
			 struct g4_dev_message message)
{
	const struct g4_set_growth growth = {
		.chunks = set->chunks, .chunk_count = count, .disk_count = disk, .removed = disk};

	if (count == 0 || !ends_within(set, g4_chunk_end(set->chunks, count)))
		return g4_dev_fail(message, -G4_E_BUSY, "%s: the file system reaches to it, or may do so", name);
	return take_out(wg, set, &growth, name, message);
}

/* What the last disk has it has by the number of the one that goes. */
static void renumber(struct g4_set_move *move, uint32_t disk, uint32_t last)
{
	for (uint32_t n = 0; n < move->count; n++)
		for (uint32_t p = 0; p < (uint32_t)move->chunks[n].columns * move->chunks[n].copies; p++) {
			const uint64_t place = move->chunks[n].places[p];
			if (g4_place_disk(place) == last)
				move->chunks[n].places[p] = g4_place_address(place) | disk;
		}
}

/* Orders held. */
static int move_and_take_out(struct g4_wg *wg, struct g4_set *set, uint32_t disk, const char *name,
			     const struct g4_set_in_use *in_use, struct g4_progress *progress, uint64_t *gone,
			     struct g4_dev_message message)
{
	const uint32_t last = set->count - 1;
	struct g4_set_move move;
	int rc = set->parity ? g4_set_parity_flush(wg, set) : 0;

	*gone = 0;
	if (rc < 0)
		return g4_dev_fail(message, rc, "%s: can not be removed: %s", name, g4_strerror(rc));
	rc = g4_set_move_plan(set, disk, in_use, &move, message);
	if (rc == 0)
		rc = g4_set_move_copy(wg, set, &move, progress, message);
	if (rc == 0) {
		const struct g4_set_growth growth = {.chunks = move.chunks,
						     .chunk_count = move.count,
						     .disk_count = last,
						     .removed = disk,
						     .moves = true};
		renumber(&move, disk, last);
		rc = take_out(wg, set, &growth, name, message);
	}
	for (uint32_t n = 0; n < move.count; n++)
		*gone += g4_chunk_is_gone(&move.chunks[n]) ? (uint64_t)move.chunks[n].bytes : 0;
	g4_set_move_end(&move);
	return rc;
}

/* in_use NULL: nothing is moved. */
static int remove_disk(struct g4_dev *dev, const char *name, const struct g4_set_in_use *in_use,
		       struct g4_progress *progress, uint64_t *gone, struct g4_dev_message message)
{
	struct g4_set *set = (struct g4_set *)dev->host;
	struct g4_wg *wg = g4_wg_create(0);
	uint32_t disk, count;

	if (!wg)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	pthread_mutex_lock(&set->orders);
	int rc = plan(set, name, &disk, &count, message);
	if (rc == 0)
		rc = in_use ? move_and_take_out(wg, set, disk, name, in_use, progress, gone, message) :
			      take_out_last(wg, set, disk, count, name, message);
	pthread_mutex_unlock(&set->orders);
	g4_wg_destroy(wg);
	return rc;
}

int g4_set_remove(struct g4_dev *dev, const char *name, char *message, size_t message_bytes)
{
	return remove_disk(dev, name, NULL, NULL, NULL,
			   (struct g4_dev_message){.text = message, .bytes = message_bytes});
}

int g4_set_remove_moving(struct g4_dev *dev, const char *name, const struct g4_set_in_use *in_use,
			 struct g4_progress *progress, uint64_t *gone, char *message, size_t message_bytes)
{
	*gone = 0;
	return remove_disk(dev, name, in_use, progress, gone,
			   (struct g4_dev_message){.text = message, .bytes = message_bytes});
}
