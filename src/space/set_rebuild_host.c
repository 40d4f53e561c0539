/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebuilding a disk while the set is used. All that chunks have on it is made again, in the order of its own addresses, and the
 * set's position says how far that is:
 *
 * - What lies before the position is read and written as on any other disk, and flushed with them. So after a flush it is as
 * good as there, and after a crash as well: the parity log has entries for it. - Rows behind it are those of a disk that is
 * missing: their pages there are what the others make of them. A row passes from one to the other under the lock of rows, when
 * its page has been made of what is on the other disks then. What is held of it comes later. - Copies behind it are written as
 * well, but not read. What is copied nobody writes to meanwhile (set_window_host.c), so the copy is never older than what was
 * written.
 *
 * Where the set's user reaches all disks he may make what comes next by himself (set_taken_host.c).
 *
 * What its owner says holds nothing is passed over: copies, since they get what is written wherever the position is; rows by
 * whole regions, which leave the map before.
 *
 * The position is in superblocks now and then: after a flush of all disks, and with parity after the log has been emptied, so
 * that all entries that a crash leaves know the disk to be there before it. After a crash it goes on from what they say; what
 * it has done since is done again. The disk counts for nothing else until the last flush: nobody may do without another one
 * because of it.
 *
 * One that fails is dropped as any other, and then the superblocks know of no position any more; so do they before the first
 * write that is done without it, as in a mount that lacks it.
 */
#define _GNU_SOURCE 1

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock_host.h"
#include "base/log_host.h"
#include "base/uuid_host.h"
#include "space/set_drain_host.h"
#include "space/set_epoch_host.h"
#include "space/set_fill_host.h"
#include "space/set_judge_host.h"
#include "space/set_leave_host.h"
#include "space/set_lend_host.h"
#include "space/set_spare_host.h"
#include "space/set_spread_host.h"
#include "space/set_taken_host.h"

#define COPY_BYTES G4_CHUNK_UNIT
#define PART_BYTES (UINT64_C(64) << 10) /* where somebody writes to a part of that */
#define STEP_BYTES (UINT64_C(1) << 20)
#define NOTE_BYTES (UINT64_C(4) << 30)
#define NOTE_NS (30 * UINT64_C(1000000000))
#define PATIENCE 8u		   /* so many times a copy finds somebody in its way before it lets nobody else begin */
#define WAIT_NS UINT64_C(20000000) /* and then it waits so long for those who have */

/* ---- what there is to do ---- */

/* The first place that ends behind an address. False: there is none. */
static bool find_place(const struct g4_set *set, uint32_t disk, uint64_t position, struct g4_set_place *found)
{
	found->chunk = NULL;
	for (uint32_t n = 0; n < set->map.count; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		for (uint32_t p = 0; p < (uint32_t)chunk->columns * chunk->copies; p++) {
			const uint64_t address = g4_place_address(chunk->places[p]);
			if (g4_place_disk(chunk->places[p]) != disk || address + chunk->place_bytes <= position ||
			    (found->chunk && found->address < address))
				continue;
			*found = (struct g4_set_place){chunk, p, address};
		}
	}
	return found->chunk != NULL;
}

void g4_set_rebuild_progress(const struct g4_set *set, uint64_t *done, uint64_t *all)
{
	const uint32_t disk = g4_load32_acq(&set->target);

	*done = *all = 0;
	/* with a target the table stays; without one it may be switched now */
	for (uint32_t n = 0; disk != G4_MAX_DISKS && n < set->map.count; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		for (uint32_t p = 0; p < (uint32_t)chunk->columns * chunk->copies; p++)
			if (g4_place_disk(chunk->places[p]) == disk)
				*all = g4_max64(*all, g4_place_address(chunk->places[p]) + chunk->place_bytes);
	}
	*done = g4_min64(g4_load64_acq(&set->position), *all);
}

/* ---- beginning and ending ---- */

static int check_target(struct g4_set *set, uint32_t disk, const struct g4_dev *dev, const char *name,
			struct g4_dev_message message)
{
	const struct g4_dev_props *props = g4_dev_props(dev);

	if (set->dev.props.read_only)
		return g4_dev_fail(message, -G4_E_DEV_READONLY, "%s: can only be read", name);
	pthread_mutex_lock(&set->lock);
	const uint64_t bytes = set->super->disk_bytes[disk];
	pthread_mutex_unlock(&set->lock);
	if (props->size_bytes < bytes)
		return g4_dev_fail(message, -G4_E_DEV_SMALL,
				   "%s: is too small: it has %" PRIu64 " bytes, and disk %u has %" PRIu64, name,
				   props->size_bytes, disk, bytes);
	return g4_set_check_device(set, dev, name, message);
}

/*
 * Locks of rows and superblocks held: nobody begins to use a disk that is not used. What was opened as it before is the
 * caller's to close, without the locks: that may take long. Of a disk that has no device nobody counts for longer than it takes to find
 * that it is not used.
 */
static int make_room(struct g4_set *set, uint32_t disk, struct g4_dev **before)
{
	struct g4_set_member *member = &set->disks[disk];

	/* added, not loaded: a thread that counts after this sees that it was dropped */
	if (g4_set_is_written(set, disk) || (member->dev && g4_add32(&member->users, 0) > 0))
		return -G4_E_BUSY;
	*before = member->dev;
	member->dev = NULL;
	return 0;
}

/* The same locks held. The name is the set's when this returns 0. */
static int take_name(struct g4_set *set, uint32_t disk, char *name)
{
	struct g4_set_member *member = &set->disks[disk];

	if (member->name && strcmp(member->name, name) == 0) {
		free(name);
		return 0;
	}
	if (member->name && g4_set_keep_name(set, member->name) < 0)
		return -G4_E_NOMEM;
	member->name = name;
	return 0;
}

static void lock_rows(struct g4_wg *wg, struct g4_set *set)
{
	if (set->parity)
		g4_rows_lock(wg, set);
}

static void unlock_rows(struct g4_set *set)
{
	if (set->parity)
		pthread_rwlock_unlock(&set->parity->lock);
}

static void lock_all(struct g4_wg *wg, struct g4_set *set)
{
	lock_rows(wg, set);
	pthread_mutex_lock(&set->lock);
}

static void unlock_all(struct g4_set *set)
{
	pthread_mutex_unlock(&set->lock);
	unlock_rows(set);
}

static int put_in(struct g4_wg *wg, struct g4_set *set, uint32_t disk, struct g4_dev *dev, char *name)
{
	struct g4_dev *before = NULL;

	lock_all(wg, set);
	int rc = make_room(set, disk, &before);
	if (rc == 0)
		rc = take_name(set, disk, name);
	if (rc == 0) {
		set->disks[disk].dev = dev;
		set->disks[disk].torn = true; /* may be: who writes to it looks */
		set->taken_count = 0;	      /* of a rebuild before */
		set->idle_from = set->idle_to = 0;
		set->next.generation = 0; /* nothing is moved while this one goes on */
	}
	unlock_all(set);
	g4_dev_close(before);
	return rc;
}

int g4_set_rebuild_begin(struct g4_wg *wg, struct g4_set *set, uint32_t disk, struct g4_dev *dev, const char *name,
			 bool is_new, struct g4_dev_message message)
{
	char *kept = strdup(name);
	int rc = kept ? check_target(set, disk, dev, name, message) : -G4_E_NOMEM;

	if (rc == 0 && g4_load32_acq(&set->target) != G4_MAX_DISKS)
		rc = g4_dev_fail(message, -G4_E_BUSY, "disk %u is being rebuilt, and one is at a time", set->target);
	if (rc == 0) {
		rc = put_in(wg, set, disk, dev, kept);
		rc = rc == -G4_E_BUSY ? g4_dev_fail(message, rc, "disk %u is in use", disk) : rc;
	}
	if (rc < 0) {
		g4_dev_close(dev);
		free(kept);
		return rc;
	}
	set->noted_ns = g4_clock_ns(CLOCK_MONOTONIC);
	set->noted_bytes = 0;
	set->told &= ~(UINT64_C(1) << disk);
	rc = g4_set_begin_target(wg, set, disk, is_new);
	if (rc == 0 && is_new)
		g4_set_tell_spares(wg, set);
	return rc < 0 ? g4_dev_fail(message, rc, "%s: can not be made a disk of the set: %s", name, g4_strerror(rc)) :
			0;
}

/* All that was written is durable, and no entry of the log takes the disk for missing where it is not. With the lock of rows, if any. */
static int settle(struct g4_wg *wg, struct g4_set *set)
{
	return set->parity ? g4_set_log_empty(wg, set) : g4_set_log_flush_all(wg, set);
}

int g4_set_rebuild_note(struct g4_wg *wg, struct g4_set *set)
{
	lock_rows(wg, set);
	const uint64_t position = g4_load64_acq(&set->position);
	int rc = g4_load32_acq(&set->target) == G4_MAX_DISKS ? -G4_E_NO_TARGET : settle(wg, set);
	if (rc == 0)
		rc = g4_set_note_target(wg, set, position);
	unlock_rows(set);
	set->noted_ns = g4_clock_ns(CLOCK_MONOTONIC);
	set->noted_bytes = position;
	return rc;
}

static int finish(struct g4_wg *wg, struct g4_set *set)
{
	lock_rows(wg, set);
	int rc = settle(wg, set);
	if (rc == 0)
		rc = g4_set_admit_target(wg, set);
	if (rc == 0 && set->parity)
		set->parity->made_changed = true; /* it has no map yet */
	unlock_rows(set);
	return rc;
}

/* ---- copying ---- */

/* Of chunks with copies: from whichever disk can read it, page by page where none can read all of it. */
static int read_copies(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes, uint8_t *to)
{
	struct g4_piece piece;
	int rc = -G4_E_SOURCE;

	g4_chunk_translate(&set->map, address, bytes, &piece);
	for (uint32_t c = 0; c < piece.copies && rc < 0; c++)
		if (g4_load32_acq(&set->disks[piece.disks[c]].state) == G4_DISK_ACTIVE &&
		    g4_dev_read_as(wg, set->disks[piece.disks[c]].dev, piece.offsets[c], to, bytes,
				   G4_IO_CLASS(G4_CLASS_BACKGROUND)) == 0)
			rc = 0;
	return rc;
}

static int read_pages(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes, uint8_t *to)
{
	int rc = read_copies(wg, set, address, bytes, to);

	if (rc == 0)
		return 0;
	rc = 0;
	for (uint64_t at = 0; at < bytes && rc == 0; at += G4_PAGE_BYTES)
		rc = read_copies(wg, set, address + at, G4_PAGE_BYTES, to + at);
	return rc;
}

/* The disk has these bytes. One that does not take them is dropped. */
static int put(struct g4_wg *wg, struct g4_set *set, uint32_t disk, uint64_t address, const uint8_t *from,
	       uint64_t bytes)
{
	if (g4_dev_write(wg, set->disks[disk].dev, address, from, bytes, G4_IO_CLASS(G4_CLASS_BACKGROUND)) == 0) {
		g4_store64_rel(&set->position, address + bytes);
		return 0;
	}
	const int rc = g4_set_drop(wg, set, disk);
	return rc < 0 ? rc : -G4_E_TARGET;
}

/*
 * Nobody writes to *bytes of the address space from now on, or to `part` of them. False: somebody does. Where writers follow each other
 * without a gap those who come later wait now and then, but not for long: one of them may be in his own way (set_window_host.c).
 */
static bool shut(struct g4_set *set, uint64_t address, uint64_t part, uint64_t *bytes)
{
	bool done = g4_set_window_open(&set->window, address, *bytes);

	if (!done) {
		*bytes = g4_min64(*bytes, part);
		done = g4_set_window_open(&set->window, address, *bytes);
	}
	set->refused = done ? 0 : set->refused + 1;
	if (!done && set->refused % PATIENCE == 0)
		done = g4_set_window_wait(&set->window, address, *bytes, WAIT_NS);
	return done;
}

/* A part of a chunk with copies, `within` its place. *bytes: how much; 0: somebody writes there. */
static int copy_part(struct g4_wg *wg, struct g4_set *set, uint32_t disk, const struct g4_set_place *place,
		     uint64_t within, uint64_t most, uint64_t *bytes, uint8_t *buffer)
{
	const uint64_t address = place->chunk->address + within;
	uint64_t some = g4_min64(COPY_BYTES - within % COPY_BYTES, place->chunk->place_bytes - within);

	some = g4_min64(some, most);
	*bytes = 0;
	if (some == 0)
		return 0;
	if (g4_load32_acq(&set->stuck)) /* what the others have may be lost with what one of them had not flushed */
		return -G4_E_IO;
	if (!shut(set, address, PART_BYTES - within % PART_BYTES, &some))
		return 0;
	int rc = read_pages(wg, set, address, some, buffer);
	if (rc == 0)
		rc = put(wg, set, disk, place->address + within, buffer, some);
	g4_set_window_close(&set->window);
	*bytes = some;
	return rc;
}

/* What a chunk with parity has there of a stripe. */
static int make_stripe(struct g4_wg *wg, struct g4_set *set, uint32_t disk, const struct g4_set_place *place,
		       uint64_t within, uint64_t *bytes, uint8_t *buffer)
{
	const uint64_t stripe = place->chunk->stripe_bytes;

	g4_rows_lock(wg, set);
	int rc = g4_load32_acq(&set->stuck) ? -G4_E_IO : 0;
	if (rc == 0 && g4_set_parity_lost(wg, set, place->chunk, within / stripe, place->number, buffer) < 0)
		rc = -G4_E_SOURCE;
	if (rc == 0)
		rc = put(wg, set, disk, place->address + within, buffer, stripe);
	pthread_rwlock_unlock(&set->parity->lock);
	*bytes = stripe;
	return rc;
}

/* *bytes: at most so many of copies, of rows a stripe; then how many. */
static int copy_some(struct g4_wg *wg, struct g4_set *set, uint64_t *bytes, uint8_t *buffer)
{
	const uint64_t most = *bytes;
	const uint32_t disk = g4_load32_acq(&set->target);
	const uint64_t position = g4_load64_acq(&set->position);
	struct g4_set_place place;

	*bytes = 0;
	if (disk == G4_MAX_DISKS)
		return -G4_E_TARGET;
	if (!find_place(set, disk, position, &place)) {
		const int rc = finish(wg, set);
		return rc == 0 ? 1 : rc;
	}
	const uint64_t within = g4_max64(position, place.address) - place.address;
	return place.chunk->parity ? make_stripe(wg, set, disk, &place, within, bytes, buffer) :
				     copy_part(wg, set, disk, &place, within, most, bytes, buffer);
}

/* What could not be read leaves the others as they are, and this one as it was before. */
static void give_up(struct g4_wg *wg, struct g4_set *set, int rc)
{
	const uint32_t disk = g4_load32_acq(&set->target);

	if (disk == G4_MAX_DISKS)
		return;
	g4_log(G4_LOG_ERROR, "disk %u can not be rebuilt: %s", disk, g4_strerror(rc));
	g4_set_give_up(wg, set, disk);
}

/* After an error it is given up. */
static int note_now_and_then(struct g4_wg *wg, struct g4_set *set)
{
	if (g4_load64_acq(&set->position) - set->noted_bytes < NOTE_BYTES &&
	    g4_clock_ns(CLOCK_MONOTONIC) - set->noted_ns < NOTE_NS)
		return 0;
	const int rc = g4_set_rebuild_note(wg, set);
	if (rc < 0)
		give_up(wg, set, rc);
	return rc;
}

int g4_set_rebuild_step(struct g4_wg *wg, struct g4_set *set, uint64_t *bytes)
{
	const uint32_t disk = g4_load32_acq(&set->target);
	const uint64_t most = g4_min64(*bytes ? g4_align_up(*bytes, G4_PAGE_BYTES) : STEP_BYTES, STEP_BYTES);
	uint64_t some = 1;
	uint8_t *buffer = NULL;
	int rc = 0;

	*bytes = 0;
	if (disk == G4_MAX_DISKS)
		return -G4_E_NO_TARGET;
	if (posix_memalign((void **)&buffer, G4_PAGE_BYTES, COPY_BYTES) != 0)
		return 0; /* later there may be memory */
	while (rc == 0 && some > 0 && *bytes < STEP_BYTES) {
		some = most - g4_min64(*bytes, most);
		rc = copy_some(wg, set, &some, buffer);
		*bytes += some;
	}
	free(buffer);
	if (rc == 0)
		rc = note_now_and_then(wg, set);
	else if (rc < 0)
		give_up(wg, set, rc);
	if (rc == 1)
		g4_log(G4_LOG_INFO, "%s: disk %u is up to date", set->disks[disk].name, disk);
	return rc;
}

/* ---- leaving out ---- */

#define LOOK_BYTES (UINT64_C(1) << 30) /* of a place: what an owner has to look through at once */

/* What is told to be next of a place: between two offsets in it, and what one byte of it is of the address space. */
static void next_of(const struct g4_set_place *place, uint64_t ahead, uint64_t *from, uint64_t *to, uint64_t *scale)
{
	const struct g4_chunk *chunk = place->chunk;

	*from = g4_max64(ahead, place->address) - place->address;
	if (chunk->parity)
		*from = g4_align_down(*from, G4_PARITY_REGION_BYTES);
	*to = g4_min64(*from + LOOK_BYTES, chunk->place_bytes);
	*scale = chunk->parity ? g4_chunk_data_columns(chunk) : 1;
}

int g4_set_rebuild_next(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	const uint32_t disk = g4_load32_acq(&set->target);
	uint64_t from, to, scale;
	struct g4_set_place place;

	order->done = order->bytes = order->all = 0;
	order->disk = 1;
	if (disk == G4_MAX_DISKS)
		return -G4_E_NO_TARGET;
	lock_rows(wg, set);
	const uint64_t ahead = g4_set_taken_ahead(set);
	const bool found = find_place(set, disk, ahead, &place);
	if (found) {
		next_of(&place, ahead, &from, &to, &scale);
		set->idle_from = place.chunk->address + from * scale;
		set->idle_to = set->idle_from + (to - from) * scale;
	}
	unlock_rows(set);
	if (!found)
		return 0;
	order->all = (g4_max64(ahead, place.address) - place.address - from) * scale;
	order->done = place.chunk->address + from * scale;
	order->bytes = (to - from) * scale;
	order->disk = (uint32_t)scale;
	if (place.chunk->parity)
		order->disk |= (uint32_t)(G4_PARITY_REGION_BYTES / G4_MIB) << G4_NEXT_UNIT_SHIFT;
	return 0;
}

/*
 * Lock of rows held. Copies get what is written wherever the position is, and so what is claimed after the look. A row that is
 * passed counts as whole, whatever is in it: nobody may have written to it since the look, and its region is forgotten before. Where something is
 * taken before it, it is passed with that, and who writes to such rows until then is noticed as there.
 */
static int skip(struct g4_wg *wg, struct g4_set *set, uint32_t disk, uint64_t *bytes)
{
	const uint64_t ahead = g4_set_taken_ahead(set);
	uint64_t from, to, scale, all = *bytes;
	struct g4_set_place place;
	int rc = 0;

	*bytes = 0;
	if (!find_place(set, disk, ahead, &place))
		return 0;
	next_of(&place, ahead, &from, &to, &scale);
	const uint64_t address = place.chunk->address + from * scale;
	const uint64_t end = g4_min64(from + g4_align_down(all / scale, G4_PAGE_BYTES), to);
	if (place.chunk->parity) {
		const uint64_t whole = end == to ? end : g4_align_down(end, G4_PARITY_REGION_BYTES);
		if (whole <= from || ahead > place.address + from || address < set->idle_from ||
		    address + (whole - from) * scale > set->idle_to)
			return 0;
		rc = g4_rows_forget(wg, set, place.chunk, from, whole);
		to = whole;
	} else {
		to = end;
	}
	/* the flush may have met that it is gone */
	if (rc < 0 || to <= from || g4_load32_acq(&set->target) != disk)
		return rc;
	if (set->taken_count == 0)
		g4_store64_rel(&set->position, place.address + to);
	else if (!g4_set_taken_leave_out(set, &place, to))
		return 0;
	*bytes = (to - from) * scale;
	return 0;
}

int g4_set_rebuild_skip(struct g4_wg *wg, struct g4_set *set, uint64_t *bytes)
{
	const uint32_t disk = g4_load32_acq(&set->target);

	if (disk == G4_MAX_DISKS)
		return -G4_E_NO_TARGET;
	lock_rows(wg, set);
	const int rc = g4_load32_acq(&set->stuck) ? -G4_E_IO : skip(wg, set, disk, bytes);
	unlock_rows(set);
	if (rc < 0) {
		*bytes = 0;
		give_up(wg, set, rc);
	}
	return rc;
}

/* ---- orders ---- */

/* Lock held. The disk that is used and was written without this one, as this one was without it. G4_MAX_DISKS: there is none. */
static uint32_t find_apart(const struct g4_set *set, const struct g4_superblock *sb)
{
	struct g4_superblock lead = *set->super;

	for (uint32_t d = 0; d < set->count; d++) {
		lead.disk_index = d;
		if (g4_set_is_active(set, d) && g4_set_is_split(&lead, sb))
			return d;
	}
	return G4_MAX_DISKS;
}

/* Which disk of the set a device is that is not used now. One that has what no other disk has is not touched. */
static int recognise(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, const char *name, uint32_t *disk,
		     struct g4_dev_message message)
{
	struct g4_superblock *sb = NULL;
	int rc = posix_memalign((void **)&sb, G4_PAGE_BYTES, sizeof(*sb)) == 0 ? 0 : -G4_E_NOMEM;

	if (rc == 0)
		rc = g4_set_read_label(wg, dev, sb, NULL);
	if (rc == 0 && !g4_set_is_label(sb))
		rc = -G4_E_SB_DISKS;
	pthread_mutex_lock(&set->lock);
	if (rc == 0)
		g4_set_follow(set->super, sb);
	*disk = rc == 0 ? (uint32_t)sb->disk_index : 0;
	if (rc == 0 && !g4_set_is_member(set->super, sb))
		rc = -G4_E_SB_DISKS;
	const uint32_t apart = rc == 0 ? find_apart(set, sb) : G4_MAX_DISKS;
	if (rc < 0)
		g4_dev_fail(message, rc, "%s: is no disk of this file system", name);
	else if (apart != G4_MAX_DISKS)
		rc = g4_set_tell_apart(message, set->disks[apart].name, name);
	pthread_mutex_unlock(&set->lock);
	free(sb);
	return rc;
}

/* The first disk that is not there. */
static int find_missing(struct g4_set *set, const char *name, uint32_t *disk, struct g4_dev_message message)
{
	for (*disk = 0; *disk < set->count && g4_set_is_written(set, *disk); ++*disk)
		;
	return *disk < set->count ? 0 : g4_dev_fail(message, -G4_E_INVAL, "%s: no disk is missing", name);
}

/* A disk that was dropped is let go where nobody uses it any more, so that it can be opened again, by whatever name. */
static int close_dropped(struct g4_wg *wg, struct g4_set *set, struct g4_dev_message message)
{
	struct g4_dev *before[G4_MAX_DISKS] = {NULL};
	int rc = 0;

	if (!g4_set_forget_numbers(set))
		return g4_dev_fail(message, -G4_E_BUSY,
				   "a disk was removed, and requests are under way that began before; try again");
	lock_all(wg, set);
	for (uint32_t d = 0; d < set->count; d++)
		if (!g4_set_is_written(set, d) && set->disks[d].dev && make_room(set, d, &before[d]) < 0)
			rc = g4_dev_fail(message, -G4_E_BUSY,
					 "disk %u failed, and requests to it are under way still; try again", d);
	unlock_all(set);
	for (uint32_t d = 0; d < set->count; d++)
		g4_dev_close(before[d]);
	return rc;
}

/* Orders held. Its device is the caller's, if it can be that disk. */
static int take_spare(struct g4_set *set, uint32_t spare, uint32_t disk, struct g4_dev **dev,
		      struct g4_dev_message message)
{
	const struct g4_set_idle *idle = &set->spares[spare];
	const char *name = idle->name;
	const int rc = check_target(set, disk, idle->dev, name, message);

	if (rc < 0)
		return rc;
	*dev = g4_set_take_spare(set, spare);
	return *dev ? 0 : g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
}

static int order_begin(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order, bool is_new)
{
	const struct g4_dev_message message = {.text = order->text, .bytes = order->text_bytes};
	struct g4_dev *dev = NULL;
	int rc = g4_load32_acq(&set->target) == G4_MAX_DISKS ?
			 close_dropped(wg, set, message) :
			 g4_dev_fail(message, -G4_E_BUSY, "a disk is being rebuilt already");

	const uint32_t spare = is_new ? g4_set_find_spare(set, order->name) : G4_MAX_SPARES;
	if (rc == 0 && spare == G4_MAX_SPARES)
		rc = g4_dev_open(order->name, &set->open, &dev, order->text, order->text_bytes);
	if (rc == 0)
		rc = is_new ? find_missing(set, order->name, &order->disk, message) :
			      recognise(wg, set, dev, order->name, &order->disk, message);
	if (rc == 0 && spare != G4_MAX_SPARES)
		rc = take_spare(set, spare, order->disk, &dev, message);
	if (rc == 0)
		return g4_set_rebuild_begin(wg, set, order->disk, dev, order->name, is_new, message);
	g4_dev_close(dev);
	return rc;
}

/* Disks that have failed, or were missing from the beginning: a bit each. Not those that an order took out. */
static uint64_t find_failed(struct g4_set *set)
{
	uint64_t failed = 0;

	pthread_mutex_lock(&set->lock);
	for (uint32_t d = 0; d < set->count && set->super->copies > 1; d++)
		if (!g4_set_is_written(set, d) && !(set->super->disk_by_hand >> d & 1))
			failed |= UINT64_C(1) << d;
	pthread_mutex_unlock(&set->lock);
	return failed;
}

/* Orders held. The first spare that can be that disk begins to be rebuilt as it. */
static int relieve(struct g4_wg *wg, struct g4_set *set, uint32_t disk)
{
	char text[256] = "there is none";
	const struct g4_dev_message message = {.text = text, .bytes = sizeof(text)};
	struct g4_dev *dev = NULL;
	const char *name = NULL;
	int rc = -G4_E_NO_TARGET;

	for (uint32_t k = 0; k < set->spare_count && rc < 0; k++) {
		name = set->spares[k].name; /* which stays */
		rc = take_spare(set, k, disk, &dev, message);
	}
	if (rc == 0) {
		g4_log(G4_LOG_WARN, "%s: the spare takes the place of disk %u, and is rebuilt", name, disk);
		rc = g4_set_rebuild_begin(wg, set, disk, dev, name, true, message);
	}
	if (rc < 0 && (dev || !(set->told >> disk & 1)))
		g4_log(G4_LOG_WARN, "disk %u is missing, and no spare takes its place: %s", disk, text);
	if (rc < 0 && !dev)
		set->told |= UINT64_C(1) << disk;
	return rc;
}

/* Nobody is waited for who has the set in hand: it is asked again. */
static int order_relieve(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	const uint64_t failed = find_failed(set);
	int rc = -G4_E_NO_TARGET;

	if (!failed || pthread_mutex_trylock(&set->orders) != 0)
		return rc;
	if (failed & set->laid) /* its memory has to stay for those who go past the set */
		rc = -G4_E_AGAIN;
	else if (set->spare_count > 0 && g4_load32_acq(&set->target) == G4_MAX_DISKS && !g4_load32_acq(&set->stuck) &&
		 close_dropped(wg, set, (struct g4_dev_message){.text = NULL}) == 0)
		for (uint32_t d = 0; d < set->count && rc < 0; d++)
			if (failed >> d & 1) {
				order->disk = d;
				rc = relieve(wg, set, d);
			}
	pthread_mutex_unlock(&set->orders);
	return rc;
}

static int order_offline(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	const struct g4_dev_message message = {.text = order->text, .bytes = order->text_bytes};
	const char *names[G4_MAX_DISKS];
	uint32_t d = 0;

	pthread_mutex_lock(&set->lock);
	for (uint32_t n = 0; n < set->count; n++)
		names[n] = g4_set_is_written(set, n) ? set->disks[n].name : NULL;
	pthread_mutex_unlock(&set->lock);
	/* without the lock: a path may lead anywhere, and take long */
	while (d < set->count && !(names[d] && g4_set_is_same_file(names[d], order->name)))
		d++;
	if (d == set->count)
		return g4_dev_fail(message, -G4_E_NOENT, "%s: is no disk that is used", order->name);
	order->disk = d;
	const int rc = g4_set_leave_out(wg, set, d);
	return rc == -G4_E_BUSY ?
		       g4_dev_fail(message, rc, "%s: the other disks do not have all that it has", order->name) :
	       rc < 0 ? g4_dev_fail(message, rc, "%s: %s", order->name, g4_strerror(rc)) :
			0;
}

static int order_name(struct g4_set *set, const struct g4_dev_order *order)
{
	const uint32_t spare = order->disk - G4_MAX_DISKS;
	int rc = 0;

	pthread_mutex_lock(&set->lock);
	if (order->disk < set->count)
		snprintf(order->text, order->text_bytes, "%s",
			 g4_set_is_written(set, order->disk) ? set->disks[order->disk].name : "");
	else if (order->disk >= G4_MAX_DISKS && spare < set->spare_count)
		snprintf(order->text, order->text_bytes, "%s", set->spares[spare].name);
	else
		rc = -G4_E_NOENT;
	pthread_mutex_unlock(&set->lock);
	return rc;
}

static int order_chunk(struct g4_set *set, struct g4_dev_order *order)
{
	uint64_t epoch;
	const struct g4_chunk_map *map = g4_set_view_enter(set, &epoch);
	const struct g4_chunk *chunk = g4_chunk_find(map, order->bytes);
	const bool there = order->bytes - chunk->address < chunk->bytes;

	if (there) {
		order->done = chunk->address;
		order->bytes = chunk->address + chunk->bytes;
		order->all = g4_chunk_is_gone(chunk) ? (uint64_t)G4_POOL_GONE : (uint64_t)chunk->level;
		order->disk = g4_set_own_level(map);
	}
	g4_set_view_leave(set, epoch);
	return there ? 0 : -G4_E_NOENT;
}

static int order_lent(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	const uint64_t bytes = order->bytes;
	bool ready = false;
	int rc = 0;

	if (order->op == G4_ORDER_SPREAD_LAY)
		return g4_set_lay(wg, set);
	if (order->op == G4_ORDER_SPREAD_LEND)
		rc = g4_set_lend(wg, set, order->done, bytes, &ready);
	else
		ready = g4_set_take_back(set);
	order->bytes = ready;
	return rc;
}

/* What is in front of what is to be taken, and behind what is. order->bytes becomes 0 where that can not be. */
static int leave_out_ahead(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	uint64_t some = order->done;
	int rc = 0;

	if (set->taken_count == 0)
		some = 0;
	else
		rc = g4_set_rebuild_skip(wg, set, &some);
	if (rc < 0 || some != order->done)
		order->bytes = 0;
	return rc;
}

static int order_take(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	const uint32_t disk = g4_load32_acq(&set->target);
	struct g4_set_place place;

	if (disk == G4_MAX_DISKS)
		return -G4_E_NO_TARGET;
	if (order->done > 0) {
		const int rc = leave_out_ahead(wg, set, order);
		if (rc < 0 || order->bytes == 0)
			return rc;
	}
	lock_rows(wg, set);
	const uint64_t ahead = g4_set_taken_ahead(set);
	if (find_place(set, disk, ahead, &place))
		g4_set_taken_begin(set, disk, &place, ahead, order);
	else
		order->bytes = 0;
	unlock_rows(set);
	return 0;
}

/* Orders that may come while rows that a crash has cut short are not completed. */
static bool is_of_cut(uint32_t op)
{
	return op == G4_ORDER_ASK || op == G4_ORDER_NAME || op == G4_ORDER_ROWS_NEXT || op == G4_ORDER_ROWS_TELL ||
	       op == G4_ORDER_ROWS_CUT;
}

int g4_set_order(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	const uint32_t target = g4_load32_acq(&set->target);
	bool again = false;
	int rc = -G4_E_INVAL;

	if (order->op == G4_ORDER_CHUNK)
		return order_chunk(set, order);
	if (set->dev.props.read_only && order->op != G4_ORDER_ASK && order->op != G4_ORDER_NAME)
		return -G4_E_DEV_READONLY;
	if (set->parity && set->parity->cut && !is_of_cut(order->op)) { /* nobody else has the set yet */
		struct g4_dev_order all = {.op = G4_ORDER_ROWS_CUT, .disk = G4_ROWS_CUT_UNKNOWN};
		const int cut = g4_rows_order_cut(wg, set, &all);
		if (cut < 0)
			return cut;
	}
	if (order->op == G4_ORDER_ASSIGN)
		return g4_set_assign(wg, set, order->disk, strtoull(order->name, NULL, 10),
				     (struct g4_dev_message){.text = order->text, .bytes = order->text_bytes});
	if (order->op == G4_ORDER_ADD_SPARE || order->op == G4_ORDER_REMOVE_SPARE)
		return g4_set_order_spare(wg, set, order->name, order->op == G4_ORDER_REMOVE_SPARE,
					  (struct g4_dev_message){.text = order->text, .bytes = order->text_bytes});
	switch (order->op) {
	case G4_ORDER_SPREAD:
		return g4_set_spread_check(set, &order->all,
					   (struct g4_dev_message){.text = order->text, .bytes = order->text_bytes});
	case G4_ORDER_SPREAD_NEXT:
		return g4_set_spread_next(set, &order->done, &order->bytes, &order->all);
	case G4_ORDER_SPREAD_MOVE:
		return g4_set_spread_move(wg, set, order->disk == 1, &order->bytes, &order->done);
	case G4_ORDER_SPREAD_USE:
		return g4_set_spread_use(set, order->disk, order->all, order->bytes, order->done * G4_PAGE_BYTES);
	case G4_ORDER_SPREAD_FILL:
		rc = g4_set_fill(wg, set, &order->bytes, &again);
		order->disk = again;
		return rc;
	case G4_ORDER_SPREAD_LEND:
	case G4_ORDER_SPREAD_LAY:
	case G4_ORDER_SPREAD_BACK:
		return order_lent(wg, set, order);
	case G4_ORDER_LEAVE:
	case G4_ORDER_LEAVE_NEXT:
	case G4_ORDER_LEAVE_CHUNK:
	case G4_ORDER_LEAVE_USE:
	case G4_ORDER_LEAVE_END:
	case G4_ORDER_GIVE_UP:
		return g4_set_leave_order(wg, set, order);
	case G4_ORDER_ROWS_ASK:
	case G4_ORDER_ROWS_NEXT:
	case G4_ORDER_ROWS_TELL:
		return g4_rows_order(wg, set, order);
	case G4_ORDER_ROWS_CUT:
		return g4_rows_order_cut(wg, set, order);
	case G4_ORDER_RELIEVE:
		rc = order_relieve(wg, set, order);
		break;
	case G4_ORDER_REBUILD:
	case G4_ORDER_REPLACE:
		pthread_mutex_lock(&set->orders);
		rc = order_begin(wg, set, order, order->op == G4_ORDER_REPLACE);
		pthread_mutex_unlock(&set->orders);
		break;
	case G4_ORDER_STEP:
		rc = g4_set_rebuild_step(wg, set, &order->bytes);
		break;
	case G4_ORDER_NEXT:
		return g4_set_rebuild_next(wg, set, order);
	case G4_ORDER_SKIP:
		rc = g4_set_rebuild_skip(wg, set, &order->bytes);
		break;
	case G4_ORDER_TAKE:
		return order_take(wg, set, order);
	case G4_ORDER_MADE:
		g4_set_taken_end(wg, set, order);
		rc = target == G4_MAX_DISKS ? -G4_E_NO_TARGET : note_now_and_then(wg, set);
		break;
	case G4_ORDER_NOTE:
		rc = g4_set_rebuild_note(wg, set);
		break;
	case G4_ORDER_STOP:
		rc = target == G4_MAX_DISKS ? -G4_E_NO_TARGET : g4_set_leave_out(wg, set, target);
		break;
	case G4_ORDER_ASK:
		order->disk = target;
		rc = target == G4_MAX_DISKS ? -G4_E_NO_TARGET : 0;
		break;
	case G4_ORDER_OFFLINE:
		pthread_mutex_lock(&set->orders);
		rc = order_offline(wg, set, order);
		pthread_mutex_unlock(&set->orders);
		break;
	case G4_ORDER_ADD:
		rc = g4_set_add(wg, set, NULL, order->name, &order->disk,
				(struct g4_dev_message){.text = order->text, .bytes = order->text_bytes});
		break;
	case G4_ORDER_NAME:
		rc = order_name(set, order);
		break;
	default:
		break;
	}
	if (order->op != G4_ORDER_NAME && order->op != G4_ORDER_OFFLINE && order->op != G4_ORDER_ADD)
		g4_set_rebuild_progress(set, &order->done, &order->all);
	return rc;
}
