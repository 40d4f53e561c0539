/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The superblocks of a set. Each disk has two, as a disk that is alone; they say the same but for the disk's index and size,
 * and for their own address. Above, the set has one superblock in two copies, at 4 KiB and in the last page of its address
 * space: what is written there goes to that copy on all disks, and the newest of all disks is what is read.
 *
 * Which disks have missed writes is the set's own: writers of superblocks neither set nor lose it. A disk is dropped, or found
 * to be missing at the first write, by writing that into both superblocks of all others, before the write that it misses is
 * acknowledged. A crash before the last of these says of a disk that has everything that it is stale, or nothing; never the
 * other way round.
 *
 * A crash may tear the superblock that is written. The set's other one may be another one than that disk's: the set has both where its
 * disks have both between them. So a disk that was opened with one of its two gets that again, from the other one, before that is written:
 * a crash then tears one that is not the last.
 */
#define _GNU_SOURCE 1

#include <assert.h>
#include <stdlib.h>

#include "base/clock_host.h"
#include "base/log_host.h"
#include "base/uuid_host.h"
#include "space/sealed.h"
#include "space/set_epoch_host.h"
#include "space/set_granted_host.h"
#include "space/set_judge_host.h"
#include "space/set_parity_host.h"
#include "space/set_spare_host.h"

/* ---- one disk ---- */

uint64_t g4_set_label_address(uint64_t disk_bytes, bool second)
{
	return second ? disk_bytes - G4_PAGE_BYTES : G4_SUPERBLOCK_ADDRESS;
}

static uint32_t tag_of(const struct g4_superblock *sb)
{
	return g4_superblock_tag(sb);
}

/* Of what was read, with `rc`. */
static int check_one(const struct g4_superblock *sb, uint64_t address, int rc)
{
	if (rc < 0)
		return rc;
	if (sb->header.magic != G4_BLOCK_MAGIC || sb->magic != G4_SUPERBLOCK_MAGIC)
		return -G4_E_SB_MAGIC;
	if (sb->version > G4_FORMAT_VERSION)
		return -G4_E_SB_VERSION;
	return g4_block_verify(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(address), tag_of(sb));
}

static int read_one(struct g4_wg *wg, struct g4_dev *disk, uint64_t address, struct g4_superblock *sb)
{
	return check_one(sb, address, g4_dev_read(wg, disk, address, sb, sizeof(*sb)));
}

int g4_set_read_label(struct g4_wg *wg, struct g4_dev *disk, struct g4_superblock *out,
		      struct g4_set_label_flaws *flaws)
{
	uint64_t end = g4_align_down(g4_dev_props(disk)->size_bytes, G4_PAGE_BYTES);
	struct g4_superblock *second = NULL;

	assert(((uintptr_t)out & (G4_PAGE_BYTES - 1)) == 0);
	if (end < 3 * G4_PAGE_BYTES)
		return -G4_E_SB_MAGIC;
	if (posix_memalign((void **)&second, G4_PAGE_BYTES, sizeof(*second)) != 0)
		return -G4_E_NOMEM;
	/* both at once, the second one where it is if the file system fills its disk */
	uint64_t at = g4_set_label_address(end, true);
	int second_rc;
	int rc = g4_dev_read_two(wg, disk, G4_SUPERBLOCK_ADDRESS, out, at, second, sizeof(*out), &second_rc);
	const int first_rc = check_one(out, G4_SUPERBLOCK_ADDRESS, rc);
	if (first_rc == 0 && out->size_bytes >= 3 * G4_PAGE_BYTES && out->size_bytes % G4_PAGE_BYTES == 0 &&
	    out->size_bytes != end) {
		end = out->size_bytes;
		at = g4_set_label_address(end, true);
		if (end <= g4_dev_props(disk)->size_bytes)
			second_rc = g4_dev_read(wg, disk, at, second, sizeof(*second));
	}
	rc = first_rc;
	second_rc = check_one(second, at, second_rc);
	if (flaws)
		*flaws = (struct g4_set_label_flaws){.torn = first_rc < 0 || second_rc < 0,
						     .uneven = first_rc == 0 && second_rc == 0 &&
							       out->set_generation != second->set_generation};
	if (first_rc != -G4_E_SB_VERSION && end <= g4_dev_props(disk)->size_bytes && second_rc == 0 &&
	    (first_rc < 0 || g4_set_is_newer(second, out))) {
		*out = *second;
		rc = 0;
	}
	free(second);
	if (rc == 0 && (out->features_incompat & ~(G4_FEATURES_INCOMPAT | G4_FEATURE_INCOMPAT_SPARE)))
		rc = -G4_E_SB_FEATURE;
	return rc;
}

/* ---- between what a disk has and what the set gives ---- */

static void seal(struct g4_superblock *sb, uint64_t address)
{
	g4_block_seal(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(address), sb->header.generation, tag_of(sb));
}

/* What of a superblock is the set's own. */
static void take_over(struct g4_superblock *sb, const struct g4_superblock *own)
{
	const uint64_t owned = G4_FEATURE_INCOMPAT_PARITY | G4_FEATURE_INCOMPAT_REBUILD | G4_FEATURE_INCOMPAT_CHUNKS |
			       G4_FEATURE_INCOMPAT_MOVED;

	sb->features_incompat =
		(sb->features_incompat & ~owned) | G4_FEATURE_INCOMPAT_DISKS | (own->features_incompat & owned);
	sb->rebuild_disk = own->rebuild_disk;
	sb->rebuild_position = own->rebuild_position;
	sb->parity_log_bytes = own->parity_log_bytes;
	sb->disk_count = own->disk_count;
	sb->disk_index_bits = 0;
	sb->chunk_tree_root = 0;
	sb->chunk_list_head = own->chunk_list_head;
	sb->set_generation = own->set_generation;
	sb->chunk_count = own->chunk_count;
	sb->copies = own->copies;
	memcpy(sb->disk_uuids, own->disk_uuids, sizeof(sb->disk_uuids));
	memcpy(sb->disk_bytes, own->disk_bytes, sizeof(sb->disk_bytes));
	memcpy(sb->disk_since, own->disk_since, sizeof(sb->disk_since));
	memcpy(sb->disk_mended, own->disk_mended, sizeof(sb->disk_mended));
	sb->disk_by_hand = own->disk_by_hand;
}

/* As the set gives it, at an address of it: the size is the file system's, which is not to be more than the set has. */
static void present(const struct g4_set *set, struct g4_superblock *sb, uint64_t address)
{
	sb->disk_index = 0;
	if (sb->total_bytes < 3 * G4_PAGE_BYTES || sb->total_bytes > g4_set_bytes(set))
		sb->total_bytes = g4_load64_acq(&set->fs_bytes);
	sb->size_bytes = sb->total_bytes;
	seal(sb, address);
}

static bool is_active(const struct g4_set *set, uint32_t disk)
{
	return g4_load32_acq(&set->disks[disk].state) == G4_DISK_ACTIVE;
}

static int write_to(struct g4_wg *wg, struct g4_set *set, uint32_t disk, uint64_t address, const void *from)
{
	return g4_dev_write(wg, set->disks[disk].dev, address, from, G4_PAGE_BYTES, G4_IO_FUA);
}

/* Lock held. Before one of a disk's superblocks is written the other one is whole. */
static int mend_other(struct g4_wg *wg, struct g4_set *set, uint32_t disk, bool second)
{
	struct g4_superblock *sb = (struct g4_superblock *)(void *)set->page;
	const uint64_t address = g4_set_label_address(set->super->disk_bytes[disk], second),
		       other = g4_set_label_address(set->super->disk_bytes[disk], !second);
	int rc = 0;

	if (!set->disks[disk].torn)
		return 0;
	if (read_one(wg, set->disks[disk].dev, other, sb) < 0 && read_one(wg, set->disks[disk].dev, address, sb) == 0) {
		seal(sb, other);
		rc = write_to(wg, set, disk, other, sb);
	}
	set->disks[disk].torn = rc < 0;
	return rc;
}

/* Lock held. One copy of set->super to all disks, last to one that is being rebuilt; *failed: those that did not take it, a bit each. */
static void write_labels(struct g4_wg *wg, struct g4_set *set, bool second, uint64_t *failed)
{
	struct g4_superblock *sb = (struct g4_superblock *)(void *)set->page;
	const uint32_t count =
		set->super->disk_count; /* with one that is being added, which set->count does not count yet */

	for (uint32_t k = 0; k <= count; k++) {
		const uint32_t d = k < count ? k : set->target;
		if (d == G4_MAX_DISKS || (k == set->target && k < count) || !g4_set_is_written(set, d))
			continue;
		const uint64_t address = g4_set_label_address(set->super->disk_bytes[d], second);
		if (mend_other(wg, set, d, second) < 0) {
			*failed |= UINT64_C(1) << d;
			continue;
		}
		*sb = *set->super;
		sb->disk_index = d;
		sb->size_bytes = set->super->disk_bytes[d];
		seal(sb, address);
		if (write_to(wg, set, d, address, sb) < 0)
			*failed |= UINT64_C(1) << d;
	}
}

/* without: disks, a bit each. */
static bool is_whole(const struct g4_set *set, uint64_t without)
{
	for (uint32_t n = 0; n < set->map.count; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		uint32_t lost = 0;
		for (uint32_t k = 0; k < chunk->columns; k++) {
			bool there = false;
			for (uint32_t c = 0; c < chunk->copies; c++) {
				const uint32_t disk = g4_place_disk(chunk->places[k * chunk->copies + c]);
				there = there || (!(without >> disk & 1) && is_active(set, disk));
			}
			lost += !there;
			if (lost > chunk->parity)
				return false;
		}
	}
	return true;
}

static uint64_t bit_of(uint32_t disk)
{
	return disk < G4_MAX_DISKS ? UINT64_C(1) << disk : 0;
}

bool g4_set_is_whole(const struct g4_set *set, uint32_t without)
{
	return is_whole(set, bit_of(without));
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

static void forget_target(struct g4_superblock *sb)
{
	sb->features_incompat &= ~G4_FEATURE_INCOMPAT_REBUILD;
	sb->rebuild_disk = 0;
	sb->rebuild_position = 0;
}

/* Lock held. False: it can not be done without. */
static bool leave_out(struct g4_set *set, uint32_t disk, const char *why)
{
	char uuid[G4_UUID_TEXT_BYTES];

	if (!set->has_super || (disk != set->target && !g4_set_is_whole(set, disk)))
		return false;
	if (disk == set->target)
		g4_store32_rel(&set->target, G4_MAX_DISKS);
	/* before others leave the disk out: they wait until the rest says so (finish() in set_io_host.c) */
	g4_store32_rel(&set->unrecorded, 1);
	for (uint32_t d = set->count; d < G4_MAX_DISKS; d++) /* requests that know it by another number */
		if (set->disks[d].dev == set->disks[disk].dev)
			g4_store32_rel(&set->disks[d].state, G4_DISK_DROPPED);
	g4_store32_rel(&set->disks[disk].state, G4_DISK_DROPPED);
	if (set->parity)
		g4_set_grants_doubt(set, true);
	g4_log(G4_LOG_ERROR, "%s: disk %u, %s, %s; everything is on the other disks", set->disks[disk].name, disk,
	       g4_uuid_format(set->super->disk_uuids[disk], uuid), why);
	return true;
}

#define FAILED "failed and is no longer used"

static int drop_failed(struct g4_wg *wg, struct g4_set *set, uint64_t failed);

/*
 * Lock held, before a generation that follows a crash: all disks have the newest one that there is, in both superblocks. Else a second crash
 * would leave some two behind, also by tearing the one of the two that had it; of these was_left_whole() would not know what they missed.
 */
static int level(struct g4_wg *wg, struct g4_set *set)
{
	if (!set->uneven)
		return 0;
	set->uneven = false;
	return drop_failed(wg, set, write_states(wg, set));
}

/* Lock held. Durable on the disks that are there: which ones are missing, and since when. One that fails at that is missing, too. */
static int record_missing(struct g4_wg *wg, struct g4_set *set)
{
	const int rc = set->torn ? -G4_E_IO : level(wg, set);

	if (rc < 0)
		return rc;
	for (;;) {
		begin_generation(set);
		if (set->target == G4_MAX_DISKS) /* what it misses from now on nobody will know */
			forget_target(set->super);
		const uint64_t failed = write_states(wg, set);
		if (!failed)
			break;
		for (uint32_t d = 0; d < set->count; d++)
			if ((failed >> d & 1) && !leave_out(set, d, FAILED))
				return -G4_E_IO;
	}
	g4_store32_rel(&set->unrecorded, 0);
	return 0;
}

/* Lock held. */
static int drop(struct g4_wg *wg, struct g4_set *set, uint32_t disk)
{
	if (!g4_set_is_written(set, disk))
		return 0;
	return leave_out(set, disk, FAILED) ? record_missing(wg, set) : -G4_E_IO;
}

/*
 * Lock held. Disks that have failed to take a superblock, a bit each. Where the rest could not do without all of them none is dropped: it
 * would call the first of them stale, which is as good as the others when they come back.
 */
static int drop_failed(struct g4_wg *wg, struct g4_set *set, uint64_t failed)
{
	int rc = is_whole(set, failed & ~bit_of(set->target)) || !failed ? 0 : -G4_E_IO;

	for (uint32_t d = 0; d < set->count && rc == 0; d++)
		if (failed >> d & 1)
			rc = drop(wg, set, d);
	return rc;
}

/* Lock held. The number that a disk has now, of which a request began with another one. */
static uint32_t number_now(const struct g4_set *set, uint32_t disk)
{
	uint32_t d = disk < set->count ? disk : 0;

	while (disk >= set->count && d < set->count && set->disks[d].dev != set->disks[disk].dev)
		d++;
	return d;
}

int g4_set_drop(struct g4_wg *wg, struct g4_set *set, uint32_t disk)
{
	pthread_mutex_lock(&set->lock);
	const uint32_t now = number_now(set, disk);
	const int rc = now < set->count ? drop(wg, set, now) : 0;
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
	disk = number_now(set, disk);
	if (disk < set->count)
		set->super->disk_mended[disk] += pages;
	pthread_mutex_unlock(&set->lock);
}

/* ---- the chunks ---- */

/* To one disk, or to all that are there. Lock held. */
static int write_page(struct g4_wg *wg, struct g4_set *set, uint32_t only, uint64_t address)
{
	int rc = 0;

	if (only != G4_MAX_DISKS)
		return write_to(wg, set, only, address, set->page);
	for (uint32_t d = 0; d < set->count && rc == 0; d++)
		if (g4_set_is_written(set, d))
			rc = write_to(wg, set, d, address, set->page);
	return rc;
}

/* The table, at its place for that. Lock held. */
static int write_table(struct g4_wg *wg, struct g4_set *set, uint32_t only, uint64_t head,
		       const struct g4_chunk *chunks, uint32_t count, uint32_t fs_tag)
{
	struct g4_chunks_page *page = (struct g4_chunks_page *)(void *)set->page;
	int rc = 0;

	for (uint32_t first = 0; first < count && rc == 0; first += G4_CHUNKS_PER_PAGE) {
		const uint64_t address = head + first / G4_CHUNKS_PER_PAGE * G4_PAGE_BYTES;
		memset(page, 0, sizeof(*page));
		page->first = first;
		page->count = (uint32_t)g4_min64(count - first, G4_CHUNKS_PER_PAGE);
		memcpy(page->chunks, &chunks[first], page->count * sizeof(struct g4_chunk));
		g4_block_seal(page, G4_BLOCK_CHUNKS, g4_address_from(address), 0, fs_tag);
		rc = write_page(wg, set, only, address);
	}
	return rc;
}

/* While the set is made, and where they were damaged: the chunks are on all disks before the first superblock is. Lock held. */
static int write_chunks(struct g4_wg *wg, struct g4_set *set, uint32_t only, uint32_t fs_tag)
{
	return write_table(wg, set, only, set->super->chunk_list_head, set->chunks, set->map.count, fs_tag);
}

/* ---- more chunks, and a disk more ---- */

/* Lock held. What a disk says that is not one of the set yet: it misses all of it, by its own word, and speaks for nobody. */
static int write_first_labels(struct g4_wg *wg, struct g4_set *set, const struct g4_superblock *next, uint32_t disk)
{
	struct g4_superblock *sb = (struct g4_superblock *)(void *)set->page;
	int rc = 0;

	for (uint32_t copy = 0; copy < 2 && rc == 0; copy++) {
		const uint64_t address = g4_set_label_address(next->disk_bytes[disk], copy == 0);
		*sb = *next;
		sb->disk_index = disk;
		sb->size_bytes = next->disk_bytes[disk];
		sb->disk_since[disk] = next->set_generation;
		seal(sb, address);
		rc = write_to(wg, set, disk, address, sb);
	}
	return rc;
}

/* Lock held. The superblocks are to say that; else they say what they said. */
static void put_growth(const struct g4_set *set, const struct g4_set_growth *growth, struct g4_superblock *sb)
{
	const uint32_t disk = set->count;

	sb->chunk_count = growth->chunk_count;
	sb->chunk_list_head = sb->chunk_list_head == G4_CHUNKS_ADDRESS ? G4_CHUNKS_SECOND : G4_CHUNKS_ADDRESS;
	sb->features_incompat |= G4_FEATURE_INCOMPAT_CHUNKS;
	sb->written_ns = (uint64_t)g4_realtime_ns();
	if (growth->moves)
		sb->features_incompat |= G4_FEATURE_INCOMPAT_MOVED;
	if (growth->disk_count == disk)
		return;
	sb->disk_count = growth->disk_count;
	if (growth->disk_count < disk) {
		const uint32_t last = growth->disk_count;
		if (growth->removed != last)
			g4_set_swap_disks(sb, growth->removed, last);
		sb->disk_bytes[last] = sb->disk_since[last] = sb->disk_mended[last] = sb->disk_damaged[last] = 0;
		sb->disk_by_hand &= ~bit_of(last);
		memset(sb->disk_uuids[last], 0, G4_UUID_BYTES);
		return;
	}
	sb->disk_bytes[disk] = growth->disk_bytes;
	sb->disk_since[disk] = sb->disk_mended[disk] = sb->disk_damaged[disk] = 0;
	sb->disk_by_hand &= ~bit_of(disk);
	memcpy(sb->disk_uuids[disk], growth->uuid, G4_UUID_BYTES);
}

static int tell_stuck(struct g4_set *set, int rc)
{
	g4_store32_rel(&set->stuck, 1);
	g4_log(G4_LOG_ERROR, "%s: what was added or removed may be there with the next mount, or not: %s",
	       set->disks[0].name, g4_strerror(rc));
	return rc;
}

/* Lock held. A crash before may have left superblocks that lead to either place: none leads to the one that is written next. */
static int agree_on_table(struct g4_wg *wg, struct g4_set *set)
{
	for (uint32_t d = 0; d < set->count; d++)
		if (!is_active(set, d))
			return -G4_E_BUSY;
	if (set->target != G4_MAX_DISKS)
		return -G4_E_BUSY;
	if (g4_load32_acq(&set->stuck))
		return -G4_E_IO;
	const uint64_t failed = write_states(wg, set);
	if (!failed)
		return 0;
	const int rc = drop_failed(wg, set, failed);
	if (rc < 0)
		g4_store32_rel(&set->stuck, 1);
	return rc < 0 ? rc : -G4_E_BUSY;
}

/* Lock held. The new disk did not take its superblocks, and has nothing: the others say again what they said, in a generation more. */
static int withdraw(struct g4_wg *wg, struct g4_set *set, const struct g4_superblock *before)
{
	struct g4_superblock *super = set->super;
	const uint64_t generation = super->set_generation;

	g4_store32_rel(&set->disks[set->count].state, G4_DISK_MISSING);
	*super = *before;
	super->set_generation = generation;
	const int rc = record_missing(wg, set);
	return rc < 0 ? tell_stuck(set, rc) : -G4_E_IO;
}

/*
 * Lock held. The last disk gets the number of the one that goes, and that gets its own. live: requests that are under way know the last one
 * by the number that it had, and nobody uses the one that goes, which is the caller's.
 */
static void renumber(struct g4_set *set, uint32_t removed, uint32_t last, bool live)
{
	struct g4_set_member *to = &set->disks[removed], *from = &set->disks[last];
	const struct g4_set_member gone = {.dev = to->dev, .name = to->name, .state = g4_load32_acq(&to->state)};

	/* what was written by one number is not known by the other */
	g4_store64_rel(&set->renumbered, g4_load64_acq(&set->epoch) + 1);
	to->dev = from->dev;
	to->name = from->name;
	g4_store32_rel(&to->state, g4_load32_acq(&from->state));
	if (live) { /* requests may have it by its new number from here on, before there is a table that says so */
		g4_store32_rel(&set->leaving, 0);
		return;
	}
	from->dev = gone.dev;
	from->name = gone.name;
	g4_store32_rel(&from->state, gone.state);
}

/*
 * The steps, each durable before the next: all superblocks lead to the table that counts; the new table, at the other place, on
 * all disks; the new disk's own word, which makes it nobody's; the superblocks of the others, and its own last. A crash before
 * the first of the others leaves the set as it was, one after it the new one. What others have written to the superblock
 * meanwhile is kept. Of a disk less: it is told nothing, and has an older generation's word; the last one has its number from then on.
 */
int g4_set_switch_table(struct g4_wg *wg, struct g4_set *set, const struct g4_set_growth *growth)
{
	const uint32_t tag = tag_of(set->super), disk = set->count, count = growth->chunk_count;
	const bool has_disk = growth->disk_count > disk;
	const struct g4_superblock before = *set->super;
	int rc = growth->live ? g4_set_view_reserve(set) : 0;

	if (rc == 0)
		rc = agree_on_table(wg, set);
	if (rc < 0)
		return rc;
	struct g4_superblock next = *set->super;
	put_growth(set, growth, &next);
	rc = write_table(wg, set, G4_MAX_DISKS, next.chunk_list_head, growth->chunks, count, tag);
	if (rc == 0 && has_disk)
		rc = write_table(wg, set, disk, next.chunk_list_head, growth->chunks, count, tag);
	if (rc == 0 && has_disk)
		rc = write_first_labels(wg, set, &next, disk);
	if (rc < 0)
		return rc;
	*set->super = next;
	if (has_disk)
		g4_store32_rel(&set->disks[disk].state, G4_DISK_ACTIVE);
	if (growth->disk_count < disk && growth->removed != growth->disk_count)
		renumber(set, growth->removed, growth->disk_count, growth->live);
	begin_generation(set);
	const uint64_t failed = write_states(wg, set);
	if (has_disk && failed == UINT64_C(1) << disk)
		return withdraw(wg, set, &before);
	if (growth->live)
		g4_set_view_switch(set, growth->chunks, count);
	else if (growth->moves)
		memcpy(set->chunks, growth->chunks, count * sizeof(*set->chunks));
	else if (count > set->map.count)
		memcpy(&set->chunks[set->map.count], &growth->chunks[set->map.count],
		       (count - set->map.count) * sizeof(*set->chunks));
	if (growth->disk_count != disk)
		g4_store32_rel(&set->count, growth->disk_count);
	g4_store32_rel(&set->map.count, count);
	g4_store32_rel(&set->views[g4_load64_acq(&set->epoch) % 2].map.count, count);
	rc = drop_failed(wg, set, failed);
	if (rc < 0 && growth->live) { /* no write may go to a place that the next mount does not know */
		set->torn = true;
		g4_store32_rel(&set->unrecorded, 1);
	}
	return rc < 0 ? tell_stuck(set, rc) : 0;
}

/* ---- a disk that is rebuilt ---- */

/* keeps_first: its first superblock stays. What it was before may have had another size. */
static int wipe(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, uint64_t bytes, bool keeps_first)
{
	const uint64_t all = g4_align_down(g4_dev_props(dev)->size_bytes, G4_PAGE_BYTES);
	const uint64_t addresses[5] = {0, keeps_first ? 0 : g4_set_label_address(bytes, false),
				       g4_set_label_address(bytes, true), g4_set_label_address(all, true),
				       G4_CHUNK_UNIT};
	const struct g4_set_parity *p = set->parity; /* none while a set is made: its file system is another one */
	int rc = 0;

	memset(set->page, 0, G4_PAGE_BYTES);
	for (uint32_t k = 0; k < (set->super->parity_log_bytes ? 5 : 4) && rc == 0; k++)
		if (k == 0 || addresses[k] != addresses[k - 1])
			rc = g4_dev_write(wg, dev, addresses[k], set->page, G4_PAGE_BYTES, 0);
	for (uint64_t page = p ? p->clear : 0; p && page < p->area && rc == 0; page++)
		rc = g4_dev_write(wg, dev, G4_CHUNK_UNIT + page * G4_PAGE_BYTES, set->page, G4_PAGE_BYTES, 0);
	return rc == 0 ? g4_dev_flush(wg, dev) : rc;
}

int g4_set_wipe(struct g4_wg *wg, struct g4_set *set, uint32_t disk)
{
	return wipe(wg, set, set->disks[disk].dev, set->super->disk_bytes[disk], false);
}

int g4_set_wipe_device(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, uint64_t bytes)
{
	return wipe(wg, set, dev, bytes, false);
}

/* Lock held. Whether that device is a spare of the set by its first superblock. */
static bool is_spare(struct g4_wg *wg, struct g4_set *set, uint32_t disk)
{
	struct g4_superblock *sb = (struct g4_superblock *)(void *)set->page;

	return read_one(wg, set->disks[disk].dev, G4_SUPERBLOCK_ADDRESS, sb) == 0 && g4_set_is_spare_label(sb) &&
	       g4_set_is_label(sb) && g4_set_is_spare_of(set->super, sb);
}

/* Lock held. The others say that the disk, by that UUID, has nothing yet. */
static int start_target(struct g4_wg *wg, struct g4_set *set, uint32_t disk, bool is_new, const uint8_t *uuid)
{
	struct g4_superblock *super = set->super;
	const struct g4_superblock before = *super;

	memcpy(super->disk_uuids[disk], uuid, G4_UUID_BYTES);
	super->disk_mended[disk] = is_new ? 0 : (uint64_t)super->disk_mended[disk];
	super->disk_damaged[disk] = is_new ? 0 : (uint64_t)super->disk_damaged[disk];
	super->written_ns = (uint64_t)g4_realtime_ns();
	super->features_incompat |= G4_FEATURE_INCOMPAT_REBUILD;
	super->rebuild_disk = disk + 1;
	super->rebuild_position = 0;
	super->disk_by_hand &= ~bit_of(disk);
	g4_store32_rel(&set->target, disk);
	g4_store64_rel(&set->position, 0);
	g4_store32_rel(&set->disks[disk].state, G4_DISK_REBUILDING);
	const int rc = record_missing(wg, set);
	if (rc == 0)
		return set->target == disk ? 0 : -G4_E_TARGET;
	/* nobody may know of it: the next superblocks say again what they said, and the generation stays used */
	if (set->target == disk)
		(void)leave_out(set, disk, "can not be rebuilt");
	forget_target(super);
	memcpy(super->disk_uuids[disk], before.disk_uuids[disk], G4_UUID_BYTES);
	super->disk_mended[disk] = before.disk_mended[disk];
	super->disk_damaged[disk] = before.disk_damaged[disk];
	super->disk_by_hand = before.disk_by_hand;
	return rc;
}

/*
 * Disks that are not there miss something from now on, even if nothing is written: they may have been written with each other,
 * of which nobody here knows, and would be taken for as good as these. The disk itself does so by its own word as well until it
 * has everything, and never speaks for a set that others can speak for. A spare is one until it is told last of all what it is now: a crash
 * before leaves it there.
 */
int g4_set_begin_target(struct g4_wg *wg, struct g4_set *set, uint32_t disk, bool is_new)
{
	uint8_t uuid[G4_UUID_BYTES];

	pthread_mutex_lock(&set->lock);
	int rc = level(wg, set); /* of what they say now */
	if (rc == 0)
		rc = wipe(wg, set, set->disks[disk].dev, set->super->disk_bytes[disk], is_spare(wg, set, disk));
	if (rc == 0)
		rc = write_chunks(wg, set, disk, tag_of(set->super));
	memcpy(uuid, set->super->disk_uuids[disk], sizeof(uuid));
	if (rc == 0 && is_new)
		rc = g4_uuid_random(uuid);
	if (rc == 0)
		rc = start_target(wg, set, disk, is_new, uuid);
	pthread_mutex_unlock(&set->lock);
	return rc;
}

int g4_set_note_target(struct g4_wg *wg, struct g4_set *set, uint64_t position)
{
	int rc = -G4_E_TARGET;

	pthread_mutex_lock(&set->lock);
	if (set->target != G4_MAX_DISKS) {
		set->super->rebuild_position = position;
		rc = drop_failed(wg, set, write_states(wg, set));
	}
	if (rc == 0 && set->target == G4_MAX_DISKS)
		rc = -G4_E_TARGET;
	pthread_mutex_unlock(&set->lock);
	return rc;
}

/* The others say first that it has everything. */
int g4_set_admit_target(struct g4_wg *wg, struct g4_set *set)
{
	int rc = -G4_E_TARGET;

	pthread_mutex_lock(&set->lock);
	const int levelled = level(wg, set);
	const uint32_t disk = set->target;
	if (levelled < 0) {
		rc = levelled;
	} else if (disk != G4_MAX_DISKS) {
		g4_store32_rel(&set->disks[disk].state, G4_DISK_ACTIVE);
		set->super->disk_since[disk] = 0;
		set->super->disk_by_hand &= ~bit_of(disk); /* a version that does not know it has begun this */
		forget_target(set->super);
		rc = record_missing(wg, set); /* the target's are still the last that are written */
		if (rc == 0 && g4_load32_acq(&set->disks[disk].state) != G4_DISK_ACTIVE)
			rc = -G4_E_TARGET;
		g4_store32_rel(&set->target, G4_MAX_DISKS);
	}
	pthread_mutex_unlock(&set->lock);
	return rc;
}

int g4_set_leave_out(struct g4_wg *wg, struct g4_set *set, uint32_t disk)
{
	int rc = 0;

	pthread_mutex_lock(&set->lock);
	if (!g4_set_is_written(set, disk)) {
		rc = -G4_E_INVAL;
	} else if (disk != set->target && !g4_set_is_whole(set, disk)) {
		rc = -G4_E_BUSY;
	} else if (leave_out(set, disk, "is no longer used, as it was asked for")) {
		set->super->disk_by_hand |= bit_of(disk);
		rc = record_missing(wg, set);
	} else {
		rc = -G4_E_IO;
	}
	pthread_mutex_unlock(&set->lock);
	return rc;
}

void g4_set_give_up(struct g4_wg *wg, struct g4_set *set, uint32_t disk)
{
	pthread_mutex_lock(&set->lock);
	if (disk == set->target) {
		set->super->disk_by_hand |= bit_of(disk);
		if (drop(wg, set, disk) < 0)
			g4_store32_rel(&set->stuck, 1);
	}
	pthread_mutex_unlock(&set->lock);
}

/* ---- the superblock of the set ---- */

int g4_set_read_super(struct g4_wg *wg, struct g4_set *set, uint64_t address, void *to)
{
	const bool second = address != G4_SUPERBLOCK_ADDRESS;
	struct g4_superblock *sb = (struct g4_superblock *)(void *)set->page, *best = (struct g4_superblock *)to;
	int rc = -G4_E_SB_MAGIC;

	pthread_mutex_lock(&set->lock);
	memset(best, 0, sizeof(*best));
	for (uint32_t d = 0; d < set->count; d++) {
		if (!is_active(set, d))
			continue;
		const int one =
			read_one(wg, set->disks[d].dev, g4_set_label_address(set->super->disk_bytes[d], second), sb);
		if (one == 0 && (rc < 0 || g4_set_is_newer(sb, best))) {
			*best = *sb;
			rc = 0;
		} else if (one < 0 && rc < 0) {
			*best = *sb; /* what is damaged is for its reader to say */
		}
	}
	if (rc == 0) {
		take_over(best, set->super);
		present(set, best, address);
		if (!second) /* which says where the second one is */
			g4_store64_rel(&set->fs_bytes, best->total_bytes);
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

int g4_set_write_super(struct g4_wg *wg, struct g4_set *set, uint64_t address, const void *from)
{
	const bool second = address != G4_SUPERBLOCK_ADDRESS;
	const struct g4_superblock *given = (const struct g4_superblock *)from;
	struct g4_superblock own;
	uint64_t failed = 0;
	int rc = 0;

	pthread_mutex_lock(&set->lock);
	if (!is_superblock(given, address) || given->size_bytes > g4_set_bytes(set)) {
		rc = write_raw(wg, set, second, from);
	} else {
		if (!set->has_super || set->chunks_damaged)
			rc = write_chunks(wg, set, G4_MAX_DISKS, tag_of(given));
		set->chunks_damaged = set->chunks_damaged && rc < 0;
		own = *set->super;
		*set->super = *given;
		take_over(set->super, &own);
		set->super->total_bytes = given->size_bytes;
		if (!second)
			g4_store64_rel(&set->fs_bytes, given->size_bytes);
		if (rc == 0)
			write_labels(wg, set, second, &failed);
		if (!set->has_super && rc == 0 && !failed && !second)
			set->has_super = true;
	}
	rc = rc == 0 ? drop_failed(wg, set, failed) : rc;
	pthread_mutex_unlock(&set->lock);
	return rc;
}
