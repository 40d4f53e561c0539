/* SPDX-License-Identifier: Apache-2.0 */
/* What those who know that a device is a set ask of it, and tell it: its disks, its chunks, its spares. */
#define _GNU_SOURCE 1

#include "simt/simt_host.h"
#include "space/set_epoch_host.h"
#include "space/set_spare_host.h"

/* ---- adding ---- */

int g4_set_add_to(struct g4_dev *dev, struct g4_dev *disk, const char *name, char *message, size_t message_bytes)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = message_bytes};
	struct g4_wg *wg = g4_set_is(dev) ? g4_wg_create(0) : NULL;
	uint32_t number;
	int rc;

	if (!wg) {
		rc = g4_set_is(dev) ? g4_dev_fail(sentence, -G4_E_NOMEM, "%s: out of memory", name) :
				      g4_dev_fail(sentence, -G4_E_SB_DISKS,
						  "%s: can not be added: the file system was made for one disk", name);
		g4_dev_close(disk);
		return rc;
	}
	rc = g4_set_add(wg, (struct g4_set *)dev->host, disk, name, &number, sentence);
	g4_wg_destroy(wg);
	return rc;
}

int g4_set_assign_to(struct g4_dev *dev, uint32_t level, uint64_t bytes, char *message, size_t message_bytes)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = message_bytes};

	if (!g4_set_is(dev))
		return g4_dev_fail(sentence, -G4_E_SB_DISKS, "the file system was made for one disk");
	struct g4_wg *wg = g4_wg_create(0);
	const int rc = wg ? g4_set_assign(wg, (struct g4_set *)dev->host, level, bytes, sentence) :
			    g4_dev_fail(sentence, -G4_E_NOMEM, "out of memory");
	if (wg)
		g4_wg_destroy(wg);
	return rc;
}

/* ---- of an open device ---- */

bool g4_set_chunk(const struct g4_dev *dev, uint32_t index, struct g4_chunk *chunk)
{
	struct g4_set *set = g4_set_is(dev) ? (struct g4_set *)dev->host : NULL;
	uint64_t epoch;

	if (!set)
		return false;
	const struct g4_chunk_map *map = g4_set_view_enter(set, &epoch);
	const bool there = index < g4_load32_acq(&map->count);
	if (there)
		*chunk = map->chunks[index];
	g4_set_view_leave(set, epoch);
	return there;
}

bool g4_set_disk(const struct g4_dev *dev, uint32_t index, struct g4_disk_info *info)
{
	if (!g4_set_is(dev))
		return false;
	struct g4_set *set = (struct g4_set *)dev->host;
	pthread_mutex_lock(&set->lock);
	if (index >= g4_load32_acq(&set->count)) {
		pthread_mutex_unlock(&set->lock);
		return false;
	}
	info->name = set->disks[index].name;
	memcpy(info->uuid, set->super->disk_uuids[index], sizeof(info->uuid));
	info->bytes = set->super->disk_bytes[index];
	info->state = g4_load32_acq(&set->disks[index].state);
	info->position = info->state == G4_DISK_REBUILDING ? g4_load64_acq(&set->position) : 0;
	info->since = set->super->disk_since[index];
	info->by_hand = info->since != 0 && (set->super->disk_by_hand >> index & 1);
	info->mended = set->super->disk_mended[index];
	info->damaged = set->super->disk_damaged[index];
	pthread_mutex_unlock(&set->lock);
	return true;
}

const char *g4_disk_state_name(uint32_t state)
{
	static const char *const names[] = {"active",	     "missing",	   "dropped", "stale",
					    "written apart", "rebuilding", "spare"};

	return names[state <= G4_DISK_SPARE ? state : G4_DISK_MISSING];
}

bool g4_set_is_degraded(const struct g4_dev *dev)
{
	struct g4_disk_info info;
	bool degraded = false;

	for (uint32_t d = 0; g4_set_disk(dev, d, &info); d++)
		degraded = degraded || info.state != G4_DISK_ACTIVE;
	return degraded;
}

bool g4_set_spare(const struct g4_dev *dev, uint32_t index, struct g4_disk_info *info)
{
	if (!g4_set_is(dev))
		return false;
	struct g4_set *set = (struct g4_set *)dev->host;

	memset(info, 0, sizeof(*info));
	pthread_mutex_lock(&set->lock);
	const bool is_there = index < set->spare_count;
	if (is_there) {
		info->name = set->spares[index].name;
		info->bytes = g4_dev_props(set->spares[index].dev)->size_bytes;
		info->state = G4_DISK_SPARE;
	}
	pthread_mutex_unlock(&set->lock);
	return is_there;
}

/* ---- spares ---- */

static int order_of_device(struct g4_dev *dev, const char *name, bool removes, struct g4_dev_message message)
{
	if (!g4_set_is(dev))
		return g4_dev_fail(message, -G4_E_SB_DISKS,
				   "%s: can not be a spare: the file system was made for one disk", name);
	struct g4_wg *wg = g4_wg_create(0);

	if (!wg)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	const int rc = g4_set_order_spare(wg, (struct g4_set *)dev->host, name, removes, message);
	g4_wg_destroy(wg);
	return rc;
}

int g4_set_add_spare(struct g4_dev *dev, const char *name, char *message, size_t message_bytes)
{
	return order_of_device(dev, name, false, (struct g4_dev_message){.text = message, .bytes = message_bytes});
}

int g4_set_remove_spare(struct g4_dev *dev, const char *name, char *message, size_t message_bytes)
{
	return order_of_device(dev, name, true, (struct g4_dev_message){.text = message, .bytes = message_bytes});
}
