/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot spares: devices that wait to take the place of a disk that fails (set_rebuild_host.c). A spare names its set by a copy of the
 * set's superblock, with the feature SPARE; the set's own disks do not know it, so that nothing is written to them, and its loss costs
 * nothing. It holds nothing that could be out of date: however the set has changed meanwhile, it is one of its spares as long as it
 * knows one of its disks. Those that are open hear of each new disk.
 *
 * Crashes: a device that becomes one is wiped durably before it gets the first superblock, and either of the two makes it a spare. One that
 * is withdrawn is one until both are gone. One that hears of a new disk keeps one of the two while the other is written.
 */
#define _GNU_SOURCE 1

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock_host.h"
#include "base/log_host.h"
#include "simt/simt_host.h"
#include "space/sealed.h"
#include "space/set_judge_host.h"
#include "space/set_spare_host.h"

/* ---- which device it is ---- */

uint32_t g4_set_find_name(const struct g4_set *set, const char *name)
{
	for (uint32_t d = 0; d < set->count; d++)
		if (set->disks[d].name && g4_set_is_same_file(set->disks[d].name, name))
			return d;
	return G4_MAX_DISKS;
}

uint32_t g4_set_find_spare(const struct g4_set *set, const char *name)
{
	for (uint32_t k = 0; k < set->spare_count; k++)
		if (g4_set_is_same_file(set->spares[k].name, name))
			return k;
	return G4_MAX_SPARES;
}

/* What a device says, if it is a disk or a spare of any set; to be freed. NULL: it is none, or there is no memory. */
static struct g4_superblock *read_label(struct g4_wg *wg, struct g4_dev *dev)
{
	struct g4_superblock *sb = NULL;

	if (posix_memalign((void **)&sb, G4_PAGE_BYTES, sizeof(*sb)) != 0)
		return NULL;
	if (g4_set_read_label(wg, dev, sb, NULL) == 0 && g4_set_is_label(sb))
		return sb;
	free(sb);
	return NULL;
}

uint32_t g4_set_find_disk(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, const char *name)
{
	struct g4_superblock *sb = read_label(wg, dev);
	uint32_t found = g4_set_find_name(set, name);

	pthread_mutex_lock(&set->lock);
	if (sb)
		g4_set_follow(set->super, sb);
	if (sb && g4_set_is_member(set->super, sb))
		found = sb->disk_index;
	pthread_mutex_unlock(&set->lock);
	free(sb);
	return found;
}

static bool is_spare_of(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev)
{
	struct g4_superblock *sb = read_label(wg, dev);

	pthread_mutex_lock(&set->lock);
	const bool is_spare = sb && g4_set_is_spare_label(sb) && g4_set_is_spare_of(set->super, sb);
	pthread_mutex_unlock(&set->lock);
	free(sb);
	return is_spare;
}

bool g4_set_is_spare(const char *name)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_READ_ONLY, .queues = 1};
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_superblock *sb = NULL;
	struct g4_dev *dev;

	if (wg && g4_dev_open(name, &open, &dev, NULL, 0) == 0) {
		sb = read_label(wg, dev);
		g4_dev_close(dev);
	}
	const bool is_spare = sb && g4_set_is_spare_label(sb);
	free(sb);
	if (wg)
		g4_wg_destroy(wg);
	return is_spare;
}

int g4_set_tell_disk(const char *name, uint32_t disk, struct g4_dev_message message)
{
	return g4_dev_fail(message, -G4_E_SB_DISKS, "%s: is disk %u of this file system already", name, disk);
}

int g4_set_tell_spare(const char *name, struct g4_dev_message message)
{
	return g4_dev_fail(message, -G4_E_SB_DISKS, "%s: is a spare of this file system already", name);
}

int g4_set_check_device(const struct g4_set *set, const struct g4_dev *dev, const char *name,
			struct g4_dev_message message)
{
	const struct g4_dev_props *props = g4_dev_props(dev);

	if (props->read_only)
		return g4_dev_fail(message, -G4_E_DEV_READONLY, "%s: can only be read", name);
	if (props->sector_bytes > set->dev.props.sector_bytes)
		return g4_dev_fail(message, -G4_E_INVAL, "%s: has larger sectors than the other disks", name);
	if (props->volatile_cache && !set->dev.props.volatile_cache)
		return g4_dev_fail(message, -G4_E_INVAL, "%s: has a write cache, and the other disks have none", name);
	return 0;
}

/* ---- the list ---- */

int g4_set_put_spare(struct g4_set *set, struct g4_dev *dev, const char *name, struct g4_dev_message message)
{
	char *kept = set->spare_count < G4_MAX_SPARES ? strdup(name) : NULL;

	if (!kept)
		return set->spare_count < G4_MAX_SPARES ?
			       g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name) :
			       g4_dev_fail(message, -G4_E_SB_DISKS, "%s: a file system has at most %u spares", name,
					   G4_MAX_SPARES);
	pthread_mutex_lock(&set->lock);
	set->spares[set->spare_count++] = (struct g4_set_idle){dev, kept};
	pthread_mutex_unlock(&set->lock);
	set->told = 0;
	return 0;
}

struct g4_dev *g4_set_take_spare(struct g4_set *set, uint32_t index)
{
	struct g4_dev *dev = NULL;

	pthread_mutex_lock(&set->lock);
	char **names = realloc(set->old_names, (set->old_name_count + 1) * sizeof(*names));
	if (names) {
		set->old_names = names;
		set->old_names[set->old_name_count++] = set->spares[index].name;
		dev = set->spares[index].dev;
		set->spare_count--;
		memmove(&set->spares[index], &set->spares[index + 1],
			(set->spare_count - index) * sizeof(set->spares[0]));
	}
	pthread_mutex_unlock(&set->lock);
	return dev;
}

/* ---- superblocks ---- */

/* Zeros where page 0 and both superblocks are, durably. */
static int wipe(struct g4_wg *wg, struct g4_dev *dev, uint8_t *page)
{
	const uint64_t bytes = g4_align_down(g4_dev_props(dev)->size_bytes, G4_PAGE_BYTES);
	int rc;

	memset(page, 0, G4_PAGE_BYTES);
	rc = g4_dev_write(wg, dev, 0, page, G4_PAGE_BYTES, 0);
	for (uint32_t copy = 0; copy < 2 && rc == 0; copy++)
		rc = g4_dev_write(wg, dev, g4_set_label_address(bytes, copy == 1), page, G4_PAGE_BYTES, G4_IO_FUA);
	return rc == 0 ? g4_dev_flush(wg, dev) : rc;
}

/* What the set says now, as a spare says it. */
static void fill_label(struct g4_set *set, const struct g4_dev *dev, struct g4_superblock *sb)
{
	pthread_mutex_lock(&set->lock);
	*sb = *set->super;
	pthread_mutex_unlock(&set->lock);
	sb->features_incompat &= ~G4_FEATURE_INCOMPAT_REBUILD;
	sb->features_incompat |= G4_FEATURE_INCOMPAT_SPARE;
	sb->rebuild_disk = 0;
	sb->rebuild_position = 0;
	sb->disk_index = 0;
	sb->size_bytes = g4_align_down(g4_dev_props(dev)->size_bytes, G4_PAGE_BYTES);
	sb->written_ns = (uint64_t)g4_realtime_ns();
}

/* is_new: it is none yet, whatever else it may be. */
static int write_labels(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, bool is_new)
{
	struct g4_superblock *sb = NULL;

	if (posix_memalign((void **)&sb, G4_PAGE_BYTES, sizeof(*sb)) != 0)
		return -G4_E_NOMEM;
	int rc = is_new ? wipe(wg, dev, (uint8_t *)sb) : 0;
	fill_label(set, dev, sb);
	for (uint32_t copy = 0; copy < 2 && rc == 0; copy++) {
		const uint64_t address = g4_set_label_address(sb->size_bytes, copy == 0);
		g4_block_seal(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(address), sb->header.generation,
			      g4_superblock_tag(sb));
		rc = g4_dev_write(wg, dev, address, sb, sizeof(*sb), G4_IO_FUA);
	}
	free(sb);
	return rc;
}

void g4_set_tell_spares(struct g4_wg *wg, struct g4_set *set)
{
	for (uint32_t k = 0; k < set->spare_count; k++) {
		const int rc = write_labels(wg, set, set->spares[k].dev, false);
		if (rc < 0)
			g4_log(G4_LOG_WARN, "%s: the spare can not be written: %s", set->spares[k].name,
			       g4_strerror(rc));
	}
}

/* ---- orders ---- */

static int open_device(const struct g4_set *set, const char *name, struct g4_dev **dev, struct g4_dev_message message)
{
	struct g4_dev_open_options open = set->open;

	open.flags &= ~G4_DEV_READ_ONLY; /* a set that is only looked at */
	return g4_dev_open(name, &open, dev, message.text, message.bytes);
}

/* Whether a new one may be a spare: large enough for one of the disks, and none that holds something of the set. */
static int check_new(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, const char *name,
		     struct g4_dev_message message)
{
	const uint32_t known = g4_set_find_disk(wg, set, dev, name);
	uint64_t least = UINT64_MAX;

	if (known != G4_MAX_DISKS)
		return g4_set_tell_disk(name, known, message);
	pthread_mutex_lock(&set->lock);
	for (uint32_t d = 0; d < set->count; d++)
		least = g4_min64(least, set->super->disk_bytes[d]);
	pthread_mutex_unlock(&set->lock);
	if (g4_dev_props(dev)->size_bytes < least)
		return g4_dev_fail(message, -G4_E_DEV_SMALL,
				   "%s: is too small: it has %" PRIu64 " bytes, and the smallest disk has %" PRIu64,
				   name, g4_dev_props(dev)->size_bytes, least);
	return g4_set_check_device(set, dev, name, message);
}

/* Orders held. */
static int add(struct g4_wg *wg, struct g4_set *set, const char *name, struct g4_dev_message message)
{
	const uint32_t known = g4_set_find_name(set, name);
	struct g4_dev *dev = NULL;

	pthread_mutex_lock(&set->lock);
	const uint32_t copies = set->super->copies;
	pthread_mutex_unlock(&set->lock);
	if (copies < 2)
		return g4_dev_fail(message, -G4_E_INVAL,
				   "%s: a file system without copies and parity has no use for a spare", name);
	if (known != G4_MAX_DISKS) /* before it is opened: it is open already */
		return g4_set_tell_disk(name, known, message);
	if (g4_set_find_spare(set, name) != G4_MAX_SPARES)
		return g4_set_tell_spare(name, message);
	if (set->spare_count == G4_MAX_SPARES)
		return g4_set_put_spare(set, NULL, name, message);
	int rc = open_device(set, name, &dev, message);
	if (rc == 0)
		rc = check_new(wg, set, dev, name, message);
	if (rc == 0) {
		rc = write_labels(wg, set, dev, true);
		if (rc < 0)
			g4_dev_fail(message, rc, "%s: can not be made a spare: %s", name, g4_strerror(rc));
	}
	if (rc == 0)
		rc = g4_set_put_spare(set, dev, name, message);
	if (rc < 0)
		g4_dev_close(dev);
	return rc;
}

/* Orders held. One that the set has not open is known by what it says. One that is open and can not be wiped goes all the same. */
static int withdraw(struct g4_wg *wg, struct g4_set *set, const char *name, struct g4_dev_message message)
{
	const uint32_t index = g4_set_find_spare(set, name);
	struct g4_dev *dev = index != G4_MAX_SPARES ? set->spares[index].dev : NULL;
	bool is_out = index == G4_MAX_SPARES; /* it is not the set's, or not any more */
	uint8_t *page = NULL;
	int rc = 0;

	if (g4_set_find_name(set, name) != G4_MAX_DISKS)
		return g4_dev_fail(message, -G4_E_INVAL,
				   "%s: is a disk of this file system, which is removed while that is not mounted",
				   name);
	if (!dev)
		rc = open_device(set, name, &dev, message);
	if (rc == 0 && index == G4_MAX_SPARES && !is_spare_of(wg, set, dev))
		rc = g4_dev_fail(message, -G4_E_INVAL, "%s: is no spare of this file system", name);
	if (rc == 0) {
		rc = posix_memalign((void **)&page, G4_PAGE_BYTES, G4_PAGE_BYTES) == 0 ? wipe(wg, dev, page) :
											 -G4_E_NOMEM;
		free(page);
		is_out = index == G4_MAX_SPARES || g4_set_take_spare(set, index);
		if (rc < 0 && is_out && index != G4_MAX_SPARES)
			g4_dev_fail(message, rc, "%s: is let go, but may say still that it is a spare: %s", name,
				    g4_strerror(rc));
		else if (rc < 0 || !is_out)
			rc = g4_dev_fail(message, rc < 0 ? rc : -G4_E_NOMEM, "%s: can not be withdrawn: %s", name,
					 g4_strerror(rc < 0 ? rc : -G4_E_NOMEM));
	}
	if (is_out)
		g4_dev_close(dev);
	return rc;
}

int g4_set_order_spare(struct g4_wg *wg, struct g4_set *set, const char *name, bool removes,
		       struct g4_dev_message message)
{
	pthread_mutex_lock(&set->orders);
	const int rc = removes ? withdraw(wg, set, name, message) : add(wg, set, name, message);
	pthread_mutex_unlock(&set->orders);
	return rc;
}
