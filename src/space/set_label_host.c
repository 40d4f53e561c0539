/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The superblocks of a set. Each disk has two, as a disk that is alone; they say the same but for the disk's index and size, and for
 * their own address. Above, the set has one superblock in two copies, at 4 KiB and in the last page of its address space: what is
 * written there goes to that copy on all disks, and the newest of all disks is what is read.
 *
 * Which disks have missed writes is the set's own: who writes a superblock neither sets nor loses it. A disk is dropped, or found to be
 * missing at the first write, by writing that into both superblocks of all others, before the write that it misses is acknowledged.
 * A crash before the last of these says of a disk that has everything that it is stale, or nothing; never the other way round.
 */
#define _GNU_SOURCE 1

#include <assert.h>
#include <stdlib.h>

#include "base/clock_host.h"
#include "base/log_host.h"
#include "base/uuid_host.h"
#include "space/sealed.h"
#include "space/set_types_host.h"

/* ---- one disk ---- */

uint64_t g4_set_label_address(uint64_t disk_bytes, bool second)
{
	return second ? disk_bytes - G4_PAGE_BYTES : G4_SUPERBLOCK_ADDRESS;
}

static uint32_t tag_of(const struct g4_superblock *sb)
{
	return g4_superblock_tag(sb);
}

static int read_one(struct g4_wg *wg, struct g4_dev *disk, uint64_t address, struct g4_superblock *sb)
{
	const int rc = g4_dev_read(wg, disk, address, sb, sizeof(*sb));

	if (rc < 0)
		return rc;
	if (sb->header.magic != G4_BLOCK_MAGIC || sb->magic != G4_SUPERBLOCK_MAGIC)
		return -G4_E_SB_MAGIC;
	if (sb->version > G4_FORMAT_VERSION)
		return -G4_E_SB_VERSION;
	return g4_block_verify(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(address), tag_of(sb));
}

static bool is_newer(const struct g4_superblock *a, const struct g4_superblock *b)
{
	if (a->set_generation != b->set_generation)
		return a->set_generation > b->set_generation;
	if (a->header.generation != b->header.generation)
		return a->header.generation > b->header.generation;
	return a->written_ns > b->written_ns;
}

int g4_set_read_label(struct g4_wg *wg, struct g4_dev *disk, struct g4_superblock *out)
{
	uint64_t end = g4_align_down(g4_dev_props(disk)->size_bytes, G4_PAGE_BYTES);
	struct g4_superblock *second = NULL;

	assert(((uintptr_t)out & (G4_PAGE_BYTES - 1)) == 0);
	if (end < 3 * G4_PAGE_BYTES)
		return -G4_E_SB_MAGIC;
	if (posix_memalign((void **)&second, G4_PAGE_BYTES, sizeof(*second)) != 0)
		return -G4_E_NOMEM;
	const int first_rc = read_one(wg, disk, G4_SUPERBLOCK_ADDRESS, out);
	if (first_rc == 0 && out->size_bytes >= 3 * G4_PAGE_BYTES && out->size_bytes % G4_PAGE_BYTES == 0)
		end = out->size_bytes;
	int rc = first_rc;
	if (first_rc != -G4_E_SB_VERSION && end <= g4_dev_props(disk)->size_bytes &&
	    read_one(wg, disk, g4_set_label_address(end, true), second) == 0 &&
	    (first_rc < 0 || is_newer(second, out))) {
		*out = *second;
		rc = 0;
	}
	free(second);
	if (rc == 0 && (out->features_incompat & ~G4_FEATURES_INCOMPAT))
		rc = -G4_E_SB_FEATURE;
	return rc;
}

/* ---- between what a disk has and what the set gives ---- */

static uint64_t total_bytes(const struct g4_set *set)
{
	return set->dev.props.size_bytes;
}

static void seal(struct g4_superblock *sb, uint64_t address)
{
	g4_block_seal(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(address), sb->header.generation, tag_of(sb));
}

/* What of a superblock is the set's own. */
static void take_over(struct g4_superblock *sb, const struct g4_superblock *own)
{
	sb->features_incompat |= G4_FEATURE_INCOMPAT_DISKS | (own->features_incompat & G4_FEATURE_INCOMPAT_PARITY);
	sb->parity_log_bytes = own->parity_log_bytes;
	sb->disk_count = own->disk_count;
	sb->disk_index_bits = 0;
	sb->chunk_tree_root = 0;
	sb->chunk_list_head = own->chunk_list_head;
	sb->total_bytes = own->total_bytes;
	sb->set_generation = own->set_generation;
	sb->chunk_count = own->chunk_count;
	sb->copies = own->copies;
	memcpy(sb->disk_uuids, own->disk_uuids, sizeof(sb->disk_uuids));
	memcpy(sb->disk_bytes, own->disk_bytes, sizeof(sb->disk_bytes));
	memcpy(sb->disk_since, own->disk_since, sizeof(sb->disk_since));
	memcpy(sb->disk_mended, own->disk_mended, sizeof(sb->disk_mended));
}

/* As the set gives it. */
static void present(const struct g4_set *set, struct g4_superblock *sb, bool second)
{
	sb->disk_index = 0;
	sb->size_bytes = sb->total_bytes = total_bytes(set);
	seal(sb, g4_set_label_address(total_bytes(set), second));
}

static bool is_active(const struct g4_set *set, uint32_t disk)
{
	return g4_load32_acq(&set->disks[disk].state) == G4_DISK_ACTIVE;
}

static int write_to(struct g4_wg *wg, struct g4_set *set, uint32_t disk, uint64_t address, const void *from)
{
	return g4_dev_write(wg, set->disks[disk].dev, address, from, G4_PAGE_BYTES, G4_IO_FUA);
}

/* Lock held. One copy of set->super to all disks; *failed: those that did not take it, a bit each. */
static void write_labels(struct g4_wg *wg, struct g4_set *set, bool second, uint64_t *failed)
{
	struct g4_superblock *sb = (struct g4_superblock *)(void *)set->page;

	for (uint32_t d = 0; d < set->count; d++) {
		if (!is_active(set, d))
			continue;
		const uint64_t address = g4_set_label_address(set->super->disk_bytes[d], second);
		*sb = *set->super;
		sb->disk_index = d;
		sb->size_bytes = set->super->disk_bytes[d];
		seal(sb, address);
		if (write_to(wg, set, d, address, sb) < 0)
			*failed |= UINT64_C(1) << d;
	}
}

bool g4_set_is_whole(const struct g4_set *set, uint32_t without)
{
	for (uint32_t n = 0; n < set->map.count; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		uint32_t lost = 0;
		for (uint32_t k = 0; k < chunk->columns; k++) {
			bool there = false;
			for (uint32_t c = 0; c < chunk->copies; c++) {
				const uint32_t disk = g4_place_disk(chunk->places[k * chunk->copies + c]);
				there = there || (disk != without && is_active(set, disk));
			}
			lost += !there;
			if (lost > chunk->parity)
				return false;
		}
	}
	return true;
}

/* Lock held. Both copies, the second first. The disks that could not be written. */
static uint64_t write_states(struct g4_wg *wg, struct g4_set *set)
{
	uint64_t failed = 0;

	write_labels(wg, set, true, &failed);
	write_labels(wg, set, false, &failed);
	return failed;
}

/* Lock held. A new generation, of the disks that are there: all others miss something from it on. */
static void begin_generation(struct g4_set *set)
{
	const uint64_t generation = set->super->set_generation + 1;

	for (uint32_t d = 0; d < set->count; d++)
		if (!is_active(set, d) && set->super->disk_since[d] == 0)
			set->super->disk_since[d] = generation;
	set->super->set_generation = generation;
}

/* Lock held. False: it can not be done without. */
static bool leave_out(struct g4_set *set, uint32_t disk)
{
	char uuid[G4_UUID_TEXT_BYTES];

	if (!set->has_super || !g4_set_is_whole(set, disk))
		return false;
	/* before others leave the disk out: they wait until the rest says so (finish() in set_io_host.c) */
	g4_store32_rel(&set->unrecorded, 1);
	g4_store32_rel(&set->disks[disk].state, G4_DISK_DROPPED);
	g4_log(G4_LOG_ERROR, "%s: disk %u, %s, failed and is no longer used; everything is on the other disks",
	       set->disks[disk].name, disk, g4_uuid_format(set->super->disk_uuids[disk], uuid));
	return true;
}

/* Lock held. Durable on the disks that are there: which ones are missing, and since when. One that fails at that is missing, too. */
static int record_missing(struct g4_wg *wg, struct g4_set *set)
{
	for (;;) {
		begin_generation(set);
		const uint64_t failed = write_states(wg, set);
		if (!failed)
			break;
		for (uint32_t d = 0; d < set->count; d++)
			if ((failed >> d & 1) && !leave_out(set, d))
				return -G4_E_IO;
	}
	g4_store32_rel(&set->unrecorded, 0);
	return 0;
}

/* Lock held. */
static int drop(struct g4_wg *wg, struct g4_set *set, uint32_t disk)
{
	if (!is_active(set, disk))
		return 0;
	return leave_out(set, disk) ? record_missing(wg, set) : -G4_E_IO;
}

int g4_set_drop(struct g4_wg *wg, struct g4_set *set, uint32_t disk)
{
	pthread_mutex_lock(&set->lock);
	const int rc = drop(wg, set, disk);
	if (rc < 0)
		g4_store32_rel(&set->stuck, 1);
	pthread_mutex_unlock(&set->lock);
	return rc;
}

int g4_set_record_missing(struct g4_wg *wg, struct g4_set *set)
{
	int rc = 0;

	pthread_mutex_lock(&set->lock);
	if (g4_load32_acq(&set->unrecorded))
		rc = record_missing(wg, set);
	pthread_mutex_unlock(&set->lock);
	return rc;
}

void g4_set_count_mended(struct g4_set *set, uint32_t disk, uint64_t pages)
{
	pthread_mutex_lock(&set->lock);
	set->super->disk_mended[disk] += pages;
	pthread_mutex_unlock(&set->lock);
}

/* ---- the chunks ---- */

/* While the set is made, and where they were damaged: the chunks are on all disks before the first superblock is. Lock held. */
static int write_chunks(struct g4_wg *wg, struct g4_set *set, uint32_t fs_tag)
{
	struct g4_chunks_page *page = (struct g4_chunks_page *)(void *)set->page;
	int rc = 0;

	for (uint32_t first = 0; first < set->map.count && rc == 0; first += G4_CHUNKS_PER_PAGE) {
		const uint64_t address = G4_CHUNKS_ADDRESS + first / G4_CHUNKS_PER_PAGE * G4_PAGE_BYTES;
		memset(page, 0, sizeof(*page));
		page->first = first;
		page->count = (uint32_t)g4_min64(set->map.count - first, G4_CHUNKS_PER_PAGE);
		memcpy(page->chunks, &set->chunks[first], page->count * sizeof(struct g4_chunk));
		g4_block_seal(page, G4_BLOCK_CHUNKS, g4_address_from(address), 0, fs_tag);
		for (uint32_t d = 0; d < set->count && rc == 0; d++)
			rc = is_active(set, d) ? write_to(wg, set, d, address, page) : 0;
	}
	return rc;
}

/* ---- a disk that comes back, or a new one ---- */

/*
 * The others say first that it has everything, so it never speaks for a set that does not know it; until its own superblocks are there it
 * is no disk at all. Disks that are not there miss something from now on, even if nothing is written: they may have been written with
 * each other, of which nobody here knows, and would be taken for as good as these.
 */
int g4_set_admit(struct g4_wg *wg, struct g4_set *set, uint32_t disk, struct g4_dev *dev, bool is_new)
{
	struct g4_superblock *super = set->super;
	int rc = is_new ? g4_uuid_random(super->disk_uuids[disk]) : 0;

	pthread_mutex_lock(&set->lock);
	if (rc == 0) {
		begin_generation(set);
		super->disk_since[disk] = 0;
		super->disk_mended[disk] = is_new ? 0 : (uint64_t)super->disk_mended[disk];
		super->disk_damaged[disk] = is_new ? 0 : (uint64_t)super->disk_damaged[disk];
		super->written_ns = (uint64_t)g4_realtime_ns();
		rc = write_states(wg, set) ? -G4_E_IO : 0;
	}
	if (rc == 0) {
		set->disks[disk].dev = dev;
		g4_store32_rel(&set->disks[disk].state, G4_DISK_ACTIVE);
		rc = write_chunks(wg, set, tag_of(super));
		if (rc == 0)
			rc = write_states(wg, set) ? -G4_E_IO : 0;
		set->disks[disk].dev = rc == 0 ? dev : NULL;
		if (rc < 0)
			g4_store32_rel(&set->disks[disk].state, G4_DISK_MISSING);
	}
	pthread_mutex_unlock(&set->lock);
	return rc;
}

/* ---- the superblock of the set ---- */

int g4_set_read_super(struct g4_wg *wg, struct g4_set *set, bool second, void *to)
{
	struct g4_superblock *sb = (struct g4_superblock *)(void *)set->page, *best = (struct g4_superblock *)to;
	int rc = -G4_E_SB_MAGIC;

	pthread_mutex_lock(&set->lock);
	memset(best, 0, sizeof(*best));
	for (uint32_t d = 0; d < set->count; d++) {
		if (!is_active(set, d))
			continue;
		const int one =
			read_one(wg, set->disks[d].dev, g4_set_label_address(set->super->disk_bytes[d], second), sb);
		if (one == 0 && (rc < 0 || is_newer(sb, best))) {
			*best = *sb;
			rc = 0;
		} else if (one < 0 && rc < 0) {
			*best = *sb; /* what is damaged is for whoever reads it to say */
		}
	}
	if (rc == 0) {
		take_over(best, set->super);
		present(set, best, second);
	}
	pthread_mutex_unlock(&set->lock);
	return 0;
}

static bool is_superblock(const struct g4_superblock *sb, uint64_t address)
{
	return sb->header.magic == G4_BLOCK_MAGIC && sb->magic == G4_SUPERBLOCK_MAGIC &&
	       g4_block_verify(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(address), tag_of(sb)) == 0;
}

static int write_raw(struct g4_wg *wg, struct g4_set *set, bool second, const void *from)
{
	int rc = 0;

	memcpy(set->page, from, G4_PAGE_BYTES);
	for (uint32_t d = 0; d < set->count && rc == 0; d++)
		if (is_active(set, d))
			rc = write_to(wg, set, d, g4_set_label_address(set->super->disk_bytes[d], second), set->page);
	return rc;
}

int g4_set_write_super(struct g4_wg *wg, struct g4_set *set, bool second, const void *from)
{
	const struct g4_superblock *given = (const struct g4_superblock *)from;
	struct g4_superblock own;
	uint64_t failed = 0;
	int rc = 0;

	pthread_mutex_lock(&set->lock);
	if (!is_superblock(given, g4_set_label_address(total_bytes(set), second))) {
		rc = write_raw(wg, set, second, from);
	} else {
		if (!set->has_super || set->chunks_damaged)
			rc = write_chunks(wg, set, tag_of(given));
		set->chunks_damaged = set->chunks_damaged && rc < 0;
		own = *set->super;
		*set->super = *given;
		take_over(set->super, &own);
		if (rc == 0)
			write_labels(wg, set, second, &failed);
		if (!set->has_super && rc == 0 && !failed && !second)
			set->has_super = true;
	}
	for (uint32_t d = 0; failed && rc == 0 && d < set->count; d++)
		if (failed >> d & 1)
			rc = drop(wg, set, d);
	pthread_mutex_unlock(&set->lock);
	return rc;
}
