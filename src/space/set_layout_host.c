/* SPDX-License-Identifier: Apache-2.0 */
/* What lanes have to know to reach the disks of a set by themselves (direct.h), while nothing stands in their way. */
#define _GNU_SOURCE 1

#include <string.h>

#include "space/direct.h"
#include "space/set_granted_host.h"
#include "space/set_parity_host.h"

/* Locks held. Whether the piece that was chosen can be moved still: who writes there is noticed. */
static bool is_watched(const struct g4_set *set)
{
	return set->next.generation != 0 && set->next.generation == set->super->set_generation &&
	       set->window.watches[0].from != set->window.watches[0].to;
}

/* Nothing is noted of requests, nor has to be but of writes to a set with disks missing. Locks of orders and superblocks held. */
static bool is_quiet(struct g4_set *set)
{
	bool quiet = (!set->parity || set->parity->old_end <= 1) && !set->stuck && !set->torn &&
		     g4_load32_acq(&set->leaving) == 0;

	pthread_mutex_lock(&set->window.lock);
	quiet = quiet && set->window.from == set->window.to && !is_watched(set);
	pthread_mutex_unlock(&set->window.lock);
	return quiet;
}

/*
 * Where the set itself would refuse requests behind the end of a disk, which a table that is none of this disk's may have, lanes do not look. Of one that is
 * missing, or has missed something, nothing is there to be read.
 */
static bool add_disk(const struct g4_set *set, uint32_t disk, struct g4_direct_table *table)
{
	const struct g4_dev *dev = set->disks[disk].dev;

	const bool has_all = g4_load32_acq(&set->disks[disk].state) == G4_DISK_ACTIVE;

	table->missing += !has_all;
	if (!has_all && disk != table->target)
		return true;
	if (!dev || !dev->map || dev->persist != G4_DEV_PERSIST_NEVER ||
	    set->super->disk_bytes[disk] > dev->props.size_bytes)
		return false;
	table->disks[disk] = (uintptr_t)dev->map;
	table->opened[disk] = dev->opened;
	table->disk_bytes[disk] = dev->props.size_bytes;
	return true;
}

static bool fill(const struct g4_set *set, struct g4_direct_table *table)
{
	const uint64_t supers[G4_DIRECT_SUPERS] = {G4_SUPERBLOCK_ADDRESS, g4_set_second_super(set),
						   g4_set_bytes(set) - G4_PAGE_BYTES};

	memset(table, 0, sizeof(*table));
	memcpy(table->supers, supers, sizeof(supers));
	table->bytes = g4_set_bytes(set);
	table->read_only = set->dev.props.read_only;
	table->target = g4_load32_acq(&set->target);
	table->disk_count = g4_load32_acq(&set->count);
	table->chunk_count = set->map.count;
	if (table->chunk_count > G4_DIRECT_CHUNKS)
		return false;
	memcpy(table->chunks, set->map.chunks, table->chunk_count * sizeof(*table->chunks));
	for (uint32_t d = 0; d < table->disk_count; d++)
		if (!add_disk(set, d, table))
			return false;
	return true;
}

/* What disks miss has to be said before a write, which lanes leave to the set where any is missing; but they write to one that is rebuilt. */
static bool needs_no_record(const struct g4_set *set, const struct g4_direct_table *table)
{
	return g4_load32_acq(&set->unrecorded) == 0 || (table->missing > 0 && table->target == G4_MAX_DISKS);
}

static uint64_t disks_of(const struct g4_direct_table *table)
{
	uint64_t disks = 0;

	for (uint32_t d = 0; d < table->disk_count; d++)
		disks |= (uint64_t)(table->disks[d] != 0) << d;
	return disks;
}

int g4_set_layout(struct g4_wg *wg, struct g4_dev *dev, void *table, uint64_t bytes)
{
	struct g4_set *set = (struct g4_set *)dev->host;

	(void)wg;
	if (bytes < sizeof(struct g4_direct_table))
		return -G4_E_INVAL;
	pthread_mutex_lock(&set->orders);
	pthread_mutex_lock(&set->lock);
	const bool filled = set->has_super && is_quiet(set) && fill(set, table) && needs_no_record(set, table);
	if (filled && set->parity)
		g4_set_grants_doubt(set, false);
	set->laid = filled ? disks_of(table) : 0;
	pthread_mutex_unlock(&set->lock);
	pthread_mutex_unlock(&set->orders);
	return filled ? 0 : -G4_E_NOTSUP;
}
