/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resizing offline: the same code as online, on a file system that is mounted here for this alone. A file is made longer
 * before the file system, and shorter after it: it is never too short for what a superblock says.
 */
#include "fs/resize_host.h"
#include "alloc/count.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units_host.h"
#include "dev/dev_host.h"
#include "fs/leave.h"
#include "fs/rebalance.h"
#include "simt/simt_host.h"
#include "space/set_host.h"

#define CACHE_BYTES (64 * G4_MIB)

void g4_resize_explain(int code, uint64_t bytes, uint64_t limit, char *message, size_t message_bytes)
{
	char wanted[24], possible[24];

	g4_format_size(bytes, wanted, sizeof(wanted));
	g4_format_size(limit, possible, sizeof(possible));
	if (code == -G4_E_NOSPC && limit != 0)
		snprintf(message, message_bytes, "it can not have %s: %s, %" PRIu64 " bytes, is the %s", wanted,
			 possible, limit,
			 bytes > limit ?
				 "largest possible size" :
				 "smallest possible size, for something in use ends there, and nothing is moved");
	else if (code == -G4_E_BUSY)
		snprintf(message, message_bytes, "it is mounted: it can grow, but to shrink it has to be unmounted");
	else
		snprintf(message, message_bytes, "%s", g4_strerror(code));
}

/* The second superblock of a larger size would be taken for this one's where the first is lost. */
static int wipe_old_end(struct g4_wg *wg, struct g4_dev *dev, uint64_t old_bytes)
{
	uint8_t *page = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, G4_PAGE_BYTES);
	int rc = page ? 0 : -G4_E_NOMEM;

	if (page) {
		memset(page, 0, G4_PAGE_BYTES);
		rc = g4_dev_write(wg, dev, old_bytes - G4_PAGE_BYTES, page, G4_PAGE_BYTES, G4_IO_FUA);
	}
	free(page);
	return rc;
}

/* only_less: a file system that is smaller stays as it is. */
static int resize(struct g4_wg *wg, struct g4_dev *dev, bool only_less, uint64_t *bytes, uint64_t *limit, uint64_t *old,
		  char *message, size_t message_bytes)
{
	const struct g4_fs_options options = {.cache_bytes = CACHE_BYTES, .may_grow = true};
	struct g4_fs *fs;
	int rc = g4_fs_mount(wg, dev, &options, &fs, message, message_bytes);

	if (rc < 0)
		return rc;
	*old = fs->super.size_bytes;
	if (only_less)
		*bytes = g4_min64(*bytes, *old);
	rc = only_less && (fs->flags & G4_FS_READ_ONLY) ? -G4_E_ROFS : g4_resize(wg, fs, *bytes, true, limit);
	*bytes = rc == 0 ? (uint64_t)fs->super.size_bytes : *bytes;
	int unmounted = g4_fs_unmount(wg, fs, true);
	return rc < 0 ? rc : unmounted;
}

int g4_resize_device(struct g4_dev *dev, uint64_t bytes, uint64_t *result, char *message, size_t message_bytes)
{
	const uint64_t had = g4_dev_props(dev)->size_bytes;
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t limit = 0, old = 0;
	int rc = wg ? 0 : -G4_E_NOMEM;

	message[0] = 0;
	if (rc == 0 && g4_dev_props(dev)->disks && bytes != 0 && bytes != had) {
		snprintf(
			message, message_bytes,
			"a file system of several disks is as large as they are; 'gpu4fs disk add' gives it another one");
		rc = -G4_E_NOTSUP;
	}
	bytes = g4_align_down(bytes ? bytes : had, G4_PAGE_BYTES);
	*result = bytes;
	if (rc == 0 && bytes > had)
		rc = g4_dev_set_size(dev, bytes);
	if (rc == 0)
		rc = resize(wg, dev, false, &bytes, &limit, &old, message, message_bytes);
	if (rc == 0 && bytes < old)
		rc = wipe_old_end(wg, dev, old);
	*result = bytes;
	if (rc == 0 && bytes < had && !g4_dev_props(dev)->disks)
		rc = g4_dev_set_size(dev, bytes);
	else if (rc < 0 && bytes > had && (old == 0 || limit != 0))
		g4_dev_set_size(dev, had); /* refused: nothing was written there */
	if (rc < 0 && message[0] == 0)
		g4_resize_explain(rc, bytes, limit, message, message_bytes);
	if (wg)
		g4_wg_destroy(wg);
	return rc;
}

/*
 * The file system ends within so many bytes. It is mounted whatever its superblocks say: where a resize was interrupted the root block
 * decides, and the mount makes all superblocks of all disks say that. *bytes: its size. -G4_E_NOSPC: something lies behind.
 */
static int shrink_to(struct g4_dev *set, const char *name, uint64_t *bytes, char *message, size_t message_bytes)
{
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t limit = 0, old = 0;
	int rc = wg ? 0 : -G4_E_NOMEM;

	message[0] = 0;
	if (rc == 0)
		rc = resize(wg, set, true, bytes, &limit, &old, message, message_bytes);
	if (wg)
		g4_wg_destroy(wg);
	if (rc < 0 && message[0] == 0)
		snprintf(message, message_bytes, "%s: %s", name, g4_strerror(rc));
	return rc;
}

/* Why what is in use is not known. */
static int doubt(const struct g4_fs *fs, const char *name, char *message, size_t message_bytes)
{
	const bool errors = (fs->super.state & G4_STATE_ERROR) != 0;

	if (errors)
		snprintf(message, message_bytes, "%s: the file system had errors: 'gpu4fs fsck' comes first", name);
	return errors ? -G4_E_CORRUPT_ALLOC : 0;
}

/* Of a file system that is mounted here, and changes no more. A bit for each region; to be freed. */
static int look_what_is_used(struct g4_wg *wg, struct g4_fs *fs, struct g4_set_in_use *in_use)
{
	struct g4_alloc *alloc = &fs->alloc;
	const uint64_t regions = alloc->region_count, keep = g4_alloc_keep(alloc);
	uint64_t *used = (uint64_t *)calloc(regions / 64 + 1, sizeof(*used));

	in_use->used = used;
	in_use->regions = regions;
	in_use->spare_pages = alloc->free_pages > keep ? alloc->free_pages - keep : 0;
	for (uint64_t r = 0; used && r < regions; r++)
		if (g4_alloc_count(wg, alloc, r * G4_REGION_PAGES, G4_REGION_PAGES, false) < G4_REGION_PAGES)
			used[r / 64] |= UINT64_C(1) << r % 64;
	return used ? 0 : -G4_E_NOMEM;
}

/*
 * Mounted twice: first what was interrupted is completed, and all that is pending written, then it is looked at as it lies there, and
 * nothing is written any more.
 */
static int find_used(struct g4_wg *wg, struct g4_dev *set, const char *name, struct g4_set_in_use *in_use,
		     uint64_t *bytes, char *message, size_t message_bytes)
{
	struct g4_fs_options options = {.cache_bytes = CACHE_BYTES};
	int rc = 0;

	for (int pass = 0; pass < 2 && rc == 0; pass++) {
		struct g4_fs *fs;
		options.flags = pass ? G4_FS_READ_ONLY : 0;
		rc = g4_fs_mount(wg, set, &options, &fs, message, message_bytes);
		if (rc < 0)
			return rc;
		rc = doubt(fs, name, message, message_bytes);
		if (rc == 0 && pass == 0 && (fs->flags & G4_FS_READ_ONLY))
			rc = -G4_E_ROFS;
		if (rc == 0 && pass == 1)
			rc = look_what_is_used(wg, fs, in_use);
		*bytes = fs->super.size_bytes;
		const int unmounted = g4_fs_unmount(wg, fs, true);
		rc = rc < 0 ? rc : unmounted;
	}
	return rc;
}

/* What is in use of a set, for an order that moves places; end_moving() follows, with an error as well. */
static int begin_moving(struct g4_wg **wg, struct g4_dev *set, const char *name, struct g4_set_in_use *in_use,
			uint64_t *bytes, char *message, size_t message_bytes)
{
	*in_use = (struct g4_set_in_use){.used = NULL};
	message[0] = 0;
	*wg = g4_wg_create(0);
	return *wg ? find_used(*wg, set, name, in_use, bytes, message, message_bytes) : -G4_E_NOMEM;
}

/* Gives back what begin_moving() made, and says what failed where nobody has; rc again. */
static int end_moving(struct g4_wg *wg, const char *name, const struct g4_set_in_use *in_use, int rc, char *message,
		      size_t message_bytes)
{
	if (rc < 0 && message[0] == 0)
		snprintf(message, message_bytes, "%s: %s", name, g4_strerror(rc));
	free((void *)(uintptr_t)in_use->used);
	if (wg)
		g4_wg_destroy(wg);
	return rc;
}

/* ---- rows with parity: by the steps of a mount ---- */

/* What mkfs made is rows. */
static bool is_of_rows(struct g4_wg *wg, struct g4_dev *set)
{
	struct g4_dev_order order = {.op = G4_ORDER_CHUNK};

	return g4_dev_order(wg, set, &order) == 0 && order.disk >= G4_LEVEL_PARITY;
}

/* Of its own level, or of one that was assigned. */
static bool has_rows(const struct g4_dev *set)
{
	struct g4_chunk chunk = {.parity = 0};

	for (uint32_t n = 0; !chunk.parity && g4_set_chunk(set, n, &chunk); n++)
		;
	return chunk.parity > 0;
}

/* Mounted for this alone: what a crash leaves is that of a mount that did the same. *fs is NULL after an error. */
static int mount_to_move(struct g4_wg *wg, struct g4_dev *set, const char *name, struct g4_fs **fs, char *message,
			 size_t message_bytes)
{
	const struct g4_fs_options options = {.cache_bytes = CACHE_BYTES};
	int rc = g4_fs_mount(wg, set, &options, fs, message, message_bytes);

	if (rc < 0) {
		*fs = NULL;
		return rc;
	}
	rc = doubt(*fs, name, message, message_bytes);
	if (rc == 0 && ((*fs)->flags & G4_FS_READ_ONLY))
		rc = -G4_E_ROFS;
	if (rc < 0) {
		(void)g4_fs_unmount(wg, *fs, true);
		*fs = NULL;
	}
	return rc;
}

static void show(struct g4_progress *progress, const struct g4_job_record *record)
{
	if (progress)
		g4_progress_step(progress, record->done * G4_PAGE_BYTES, record->units * G4_PAGE_BYTES);
}

/* *moved: bytes that were copied. */
static int balance_rows(struct g4_wg *wg, struct g4_dev *set, const char *name, struct g4_progress *progress,
			uint64_t *moved, char *message, size_t message_bytes)
{
	struct g4_dev_order order = {.op = G4_ORDER_SPREAD, .text = message, .text_bytes = (uint32_t)message_bytes};
	struct g4_job_record record = {.kind = G4_JOB_REBALANCE};
	struct g4_fs *fs;
	int rc = mount_to_move(wg, set, name, &fs, message, message_bytes);

	if (rc < 0)
		return rc;
	rc = g4_space_order(wg, &fs->space, &order);
	while (rc == 0) {
		rc = g4_rebalance_step(wg, fs, &record);
		show(progress, &record);
	}
	*moved = record.bytes;
	const int unmounted = g4_fs_unmount(wg, fs, true);
	return rc < 0 ? rc : unmounted;
}

/*
 * Where rows can not go as a whole: in pieces, and what is free of others is given up for them. *bytes: the size of the file system that is left.
 * `message` may say already that there is no room, and still does where it is refused for that.
 */
static int remove_rows(struct g4_wg *wg, struct g4_dev *set, const char *name, struct g4_progress *progress,
		       uint64_t *bytes, char *message, size_t message_bytes)
{
	char text[512] = "";
	struct g4_cmd cmd = {.op = G4_CMD_DISK,
			     .mask = G4_DISK_REMOVE,
			     .name = name,
			     .name_bytes = (uint16_t)strlen(name),
			     .data = text,
			     .length = sizeof(text)};
	struct g4_job_record record = {.kind = G4_JOB_REMOVE};
	struct g4_chunk chunk;
	struct g4_fs *fs;
	int rc = mount_to_move(wg, set, name, &fs, message, message_bytes);

	if (rc < 0)
		return rc;
	rc = g4_leave_order(wg, fs, &cmd, &record);
	if (rc < 0 && (rc != -G4_E_NOSPC || message[0] == 0))
		snprintf(message, message_bytes, "%s", text);
	while (rc == 0) {
		rc = g4_leave_step(wg, fs, &record);
		show(progress, &record);
		if (rc == -G4_E_NOSPC)
			snprintf(
				message, message_bytes,
				"%s: the other disks have no room for the rest of what lies on it: delete something, or "
				"add a disk; what was moved stays where it is",
				name);
		else if (rc < 0)
			snprintf(message, message_bytes, "%s: %s", name, g4_strerror(rc));
	}
	*bytes = fs->super.size_bytes;
	for (uint32_t n = 0; g4_set_chunk(set, n, &chunk); n++)
		*bytes -= g4_chunk_is_gone(&chunk) ? g4_min64(chunk.bytes, *bytes) : 0;
	const int unmounted = g4_fs_unmount(wg, fs, true);
	return rc < 0 ? rc : unmounted;
}

/* ---- moving ---- */

static int remove_moving(struct g4_dev *set, const char *name, struct g4_progress *progress, uint64_t *bytes,
			 char *message, size_t message_bytes)
{
	struct g4_set_in_use in_use;
	struct g4_wg *wg;
	uint64_t gone = 0;
	int rc = begin_moving(&wg, set, name, &in_use, bytes, message, message_bytes);

	if (rc == 0)
		rc = g4_set_remove_moving(set, name, &in_use, progress, &gone, message, message_bytes);
	*bytes -= g4_min64(gone, *bytes);
	const bool fixed = rc == -G4_E_INVAL && wg && has_rows(set); /* of which nothing may be in use */
	if (fixed)
		message[0] = 0;
	if (fixed || (rc == -G4_E_NOSPC && wg && is_of_rows(wg, set)))
		rc = remove_rows(wg, set, name, progress, bytes, message, message_bytes);
	return end_moving(wg, name, &in_use, rc, message, message_bytes);
}

int g4_balance_disks(struct g4_dev *set, struct g4_progress *progress, uint64_t *moved, char *message,
		     size_t message_bytes)
{
	struct g4_disk_info first = {.name = NULL};
	struct g4_set_in_use in_use;
	struct g4_wg *wg;
	uint64_t bytes = 0;

	*moved = 0;
	(void)g4_set_disk(set, 0, &first); /* of one disk: g4_set_balance() tells */
	const char *name = first.name ? first.name : "the first disk";
	wg = g4_wg_create(0);
	if (wg && is_of_rows(wg, set)) {
		message[0] = 0;
		in_use.used = NULL;
		return end_moving(wg, name, &in_use,
				  balance_rows(wg, set, name, progress, moved, message, message_bytes), message,
				  message_bytes);
	}
	if (wg)
		g4_wg_destroy(wg);
	int rc = begin_moving(&wg, set, name, &in_use, &bytes, message, message_bytes);
	if (rc == 0)
		rc = g4_set_balance(set, &in_use, progress, moved, message, message_bytes);
	return end_moving(wg, name, &in_use, rc, message, message_bytes);
}

int g4_remove_disk(struct g4_dev *set, const char *name, struct g4_progress *progress, uint64_t *result, char *message,
		   size_t message_bytes)
{
	int rc = g4_set_remove_plan(set, name, result, message, message_bytes);

	if (rc < 0)
		return rc;
	if (*result != 0) {
		rc = shrink_to(set, name, result, message, message_bytes);
		if (rc != -G4_E_NOSPC)
			return rc < 0 ? rc : g4_set_remove(set, name, message, message_bytes);
	}
	return remove_moving(set, name, progress, result, message, message_bytes);
}
