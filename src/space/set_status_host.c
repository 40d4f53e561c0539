/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a set by what its disks say, which may be in use: a set that drops a disk says so in the superblocks of the
 * others before anything
 * else is acknowledged (set_label_host.c), so what is read here is true. Nothing is written, and no disk is refused: what is wrong with
 * one is what this is for.
 */
#define _GNU_SOURCE 1

#include <stdio.h>
#include <stdlib.h>

#include "simt/simt_host.h"
#include "space/set_judge_host.h"
#include "space/set_spare_host.h"

struct label {
	_Alignas(G4_PAGE_BYTES) struct g4_superblock sb;
	const char *name;
};

static void add_other(struct g4_set_status *status, const char *name, const char *reason)
{
	if (status->other_count == G4_MAX_DISKS)
		return;
	status->others[status->other_count].name = name;
	snprintf(status->others[status->other_count].reason, sizeof(status->others[0].reason), "%s", reason);
	status->other_count++;
}

/* 0, and the label is read; else *why says what is wrong. */
static int read_label(struct g4_wg *wg, const char *name, struct label *label, char *why, size_t bytes)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_READ_ONLY, .queues = 1};
	struct g4_dev *dev;
	int rc = g4_dev_open(name, &open, &dev, why, bytes);

	if (rc < 0)
		return rc;
	rc = g4_set_read_label(wg, dev, &label->sb, NULL);
	if (rc == 0 && (label->sb.features_incompat & G4_FEATURE_INCOMPAT_DISKS) && !g4_set_is_label(&label->sb))
		rc = -G4_E_SB_GEOMETRY;
	if (rc == 0 && label->sb.size_bytes > g4_dev_props(dev)->size_bytes)
		rc = -G4_E_SB_TRUNCATED;
	if (rc < 0)
		snprintf(why, bytes, "%s: %s", name, g4_strerror(rc));
	g4_dev_close(dev);
	label->name = name;
	return rc;
}

/* Which disk of the set it is; a sentence where it is none. */
static const char *place(struct g4_set_status *status, const struct g4_superblock *lead, const struct label *one)
{
	const struct g4_superblock *sb = &one->sb;
	const uint32_t disk = sb->disk_index;

	if (!(sb->features_incompat & G4_FEATURE_INCOMPAT_DISKS))
		return "has a file system of its own";
	if (g4_set_is_spare_label(sb)) {
		if (!g4_set_is_spare_of(lead, sb))
			return "is a spare of another file system, or of this one before all its disks were replaced";
		if (status->spare_count == G4_MAX_SPARES)
			return "is one spare more than a file system has";
		status->spares[status->spare_count].name = one->name;
		status->spares[status->spare_count++].bytes = sb->size_bytes;
		return NULL;
	}
	if (g4_set_is_unadded(lead, sb))
		return "was being added, or removed, when that was interrupted, and is no disk of it";
	if (!g4_set_is_member(lead, sb))
		return "belongs to another file system, or was replaced";
	if (status->disks[disk].name)
		return "is the same disk as another one that was named";
	status->disks[disk].name = one->name;
	status->disks[disk].state = g4_set_is_split(lead, sb)	 ? G4_DISK_APART :
				    g4_set_is_target(lead, disk) ? G4_DISK_REBUILDING :
				    lead->disk_since[disk] != 0	 ? G4_DISK_STALE :
								   G4_DISK_ACTIVE;
	if (status->disks[disk].state == G4_DISK_REBUILDING)
		status->disks[disk].position = lead->rebuild_position;
	return NULL;
}

static void add_up_chunks(const struct g4_set *set, struct g4_set_status *status)
{
	uint64_t taken[G4_MAX_DISKS] = {0};

	status->own_level = g4_set_own_level(&set->map);
	status->log_bytes = set->super->parity_log_bytes;
	status->chunk_count = set->map.count;
	memcpy(status->chunks, set->chunks, set->map.count * sizeof(*set->chunks));
	for (uint32_t n = 0; n < set->map.count; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		*(g4_chunk_is_gone(chunk) ? &status->gone_bytes : &status->level_bytes[chunk->level]) += chunk->bytes;
		for (uint32_t k = 0; k < (uint32_t)chunk->columns * chunk->copies; k++)
			taken[g4_place_disk(chunk->places[k])] += chunk->place_bytes;
	}
	for (uint32_t d = 0; d < set->count; d++) {
		const uint64_t room = g4_chunk_usable(set->super->disk_bytes[d]) - set->super->parity_log_bytes;
		status->unassigned_bytes += room > taken[d] ? room - taken[d] : 0;
	}
}

/* Whether the disks that are active have everything: by opening them. */
static void try_active(struct g4_set_status *status, char *message, size_t bytes)
{
	const struct g4_set_options options = {.open = {.flags = G4_DEV_READ_ONLY, .queues = 1}};
	const char *names[G4_MAX_DISKS];
	struct g4_dev *dev;
	uint32_t count = 0;

	for (uint32_t d = 0; d < status->count; d++)
		if (status->disks[d].state == G4_DISK_ACTIVE)
			names[count++] = status->disks[d].name;
	status->usable = count > 0 && g4_set_open(names, count, &options, &dev, message, bytes) == 0;
	status->whole = status->usable && count == status->count;
	if (!status->usable)
		return;
	if (g4_set_is(dev))
		add_up_chunks((const struct g4_set *)dev->host, status);
	g4_dev_close(dev);
}

/* Whether two disks know one in common: each other, or, where one took the other's place, one that was with both. */
static bool is_related(const struct g4_superblock *a, const struct g4_superblock *b)
{
	for (uint32_t d = 0; d < a->disk_count; d++)
		if (g4_set_number_of(b, a->disk_uuids[d]) != G4_MAX_DISKS)
			return true;
	return false;
}

/* The superblock that speaks for the set of the first disk of one that was named; NULL: none is. */
static const struct g4_superblock *find_lead(const struct label *labels, uint32_t count)
{
	const struct g4_superblock *first = NULL, *lead = NULL;

	for (uint32_t n = 0; n < count; n++) {
		const struct g4_superblock *sb = &labels[n].sb;
		if (!(sb->features_incompat & G4_FEATURE_INCOMPAT_DISKS) || g4_set_is_spare_label(sb))
			continue;
		first = first ? first : sb;
		if (is_related(first, sb) && (!lead || g4_set_speaks_before(sb, lead)))
			lead = sb;
	}
	return lead;
}

static int judge(struct label *labels, uint32_t count, struct g4_set_status *status, char *message, size_t bytes)
{
	const struct g4_superblock *lead = find_lead(labels, count);

	for (uint32_t n = 0; n < count && !lead; n++)
		if (g4_set_is_spare_label(&labels[n].sb)) {
			snprintf(message, bytes,
				 "%s: is a spare, which holds nothing; name the disks of its file system",
				 labels[n].name);
			return -G4_E_SB_DISKS;
		}
	if (!lead) {
		status->usable = status->whole = true;
		status->copies = 1;
		for (uint32_t n = 1; n < count; n++)
			add_other(status, labels[n].name, "has a file system of its own");
		return 0;
	}
	status->count = lead->disk_count;
	status->copies = lead->copies;
	status->generation = lead->set_generation;
	for (uint32_t d = 0; d < status->count; d++) {
		struct g4_disk_info *disk = &status->disks[d];
		memcpy(disk->uuid, lead->disk_uuids[d], G4_UUID_BYTES);
		disk->state = G4_DISK_MISSING;
		disk->bytes = lead->disk_bytes[d];
		disk->since = lead->disk_since[d];
		disk->by_hand = disk->since != 0 && (lead->disk_by_hand >> d & 1);
		disk->mended = lead->disk_mended[d];
		disk->damaged = lead->disk_damaged[d];
	}
	for (uint32_t n = 0; n < count; n++) {
		g4_set_follow(lead, &labels[n].sb);
		const char *reason = place(status, lead, &labels[n]);
		if (reason)
			add_other(status, labels[n].name, reason);
	}
	try_active(status, message, bytes);
	return 0;
}

static int examine(const char *const *names, uint32_t count, struct g4_set_status *status, char *message,
		   size_t message_bytes)
{
	struct g4_wg *wg = g4_wg_create(0);
	struct label *labels = NULL;
	uint32_t found = 0;
	int rc = -G4_E_NOMEM;

	memset(status, 0, sizeof(*status));
	if (posix_memalign((void **)&labels, G4_PAGE_BYTES, count * sizeof(*labels)) != 0)
		labels = NULL;
	for (uint32_t n = 0; wg && labels && n < count; n++) {
		char why[256] = "";
		const int one = read_label(wg, names[n], &labels[found], why, sizeof(why));
		if (one < 0)
			add_other(status, names[n], why);
		if (one < 0 && found == 0)
			snprintf(message, message_bytes, "%s", why);
		rc = found > 0 ? 0 : one;
		found += one == 0;
	}
	if (!wg || !labels)
		snprintf(message, message_bytes, "%s: out of memory", names[0]);
	if (rc == 0)
		rc = judge(labels, found, status, message, message_bytes);
	if (wg)
		g4_wg_destroy(wg);
	free(labels);
	return rc;
}

/* Where a mount switches its table meanwhile, disks are met with the one and the other: they are asked again while that goes on. */
#define TURNS 8u
int g4_set_examine(const char *const *names, uint32_t count, struct g4_set_status *status, char *message,
		   size_t message_bytes)
{
	uint64_t before = UINT64_MAX;
	int rc = 0;

	for (uint32_t turn = 0; turn < TURNS; turn++) {
		rc = examine(names, count, status, message, message_bytes);
		if (rc < 0 || status->usable || status->generation == before)
			break;
		before = status->generation;
	}
	return rc;
}
