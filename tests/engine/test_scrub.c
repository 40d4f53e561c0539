/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrub: what is damaged is found in one pass and named, whatever page it is, with everything in the cache and with nothing; what is whole
 * has no findings, beside writers, too. It goes on behind a remount and a crash. (Pausing and limits: files/fs/test_jobs.c.)
 */
#include "rig.h"

#include <pthread.h>

#include "fs/fs.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define JOURNAL_BYTES (4 * G4_MIB)
#define PATTERN_BYTES (4 * G4_MIB)

static struct rig rig;
static uint8_t *pattern;
static struct g4_health health;

static int open_with_sums(void **state)
{
	(void)state;
	rig_open_as(&rig, G4_CHECKSUM_BLAKE3, RIG_AS_SET, DEVICE_BYTES, JOURNAL_BYTES);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	pattern = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, PATTERN_BYTES);
	rig_pattern(pattern, 11, PATTERN_BYTES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (rig.fs)
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
	free(pattern);
	return 0;
}

static void again(bool clean)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, clean);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static void make(uint64_t dir, const char *name, uint64_t bytes, uint64_t *ino)
{
	uint64_t done = 0;

	assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0644, ino), 0);
	for (uint64_t at = 0; at < bytes; at += done)
		assert_int_equal(op_write(&rig, *ino, 0, at, pattern + at, bytes - at, &done), 0);
}

/* A copy of a few pages, which both files have from now on. */
static void share(uint64_t from, uint64_t dir)
{
	uint64_t ino, in, out, done;

	assert_int_equal(op_mknod(&rig, dir, "copy", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, ino, G4_OPEN_WRITE, &out), 0);
	assert_int_equal(op_copy(&rig, in, 0, out, 0, 20000, &done), 0);
	assert_int_equal(done, 20000);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
}

/* Every kind of page. */
static void populate(void)
{
	static const uint64_t sizes[] = {100, 4096, 9000, 16 * 4096, 40 * 4096 + 5, 300 * 4096};
	static char value[20000], target[600];
	uint64_t dir = G4_NODE_ROOT, ino, huge;
	char name[64];

	memset(value, 'v', sizeof(value));
	memset(target, 't', sizeof(target) - 1);
	for (uint32_t depth = 0; depth < 4; depth++) {
		for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			snprintf(name, sizeof(name), "file %u", i);
			make(dir, name, depth == 1 ? sizes[i] : g4_min64(sizes[i], 20000), &ino);
		}
		assert_int_equal(op_setxattr(&rig, ino, "user.large", value, sizeof(value), 0), 0);
		assert_int_equal(op_setxattr(&rig, ino, "user.small", value, 100, 0), 0);
		if (depth == 0)
			make(dir, "huge", PATTERN_BYTES, &huge);
		if (depth == 2)
			share(ino, dir);
		if (depth != 1) /* of the large one, it would be looked at twice */
			assert_int_equal(op_link(&rig, ino, dir, "link"), 0);
		assert_int_equal(op_symlink(&rig, dir, "symlink", target, &ino), 0);
		assert_int_equal(op_mkdir(&rig, dir, "deeper", 0755, &ino), 0);
		dir = ino;
	}
	for (uint32_t i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "one of many with a long name %u", i);
		assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0644, &ino), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	struct g4_map_extent extent;
	uint32_t count;
	assert_int_equal(op_map(&rig, huge, 0, &extent, 1, &count), 0);
	assert_true(count == 1 && (extent.flags & G4_MAP_HUGE));
	again(true); /* everything is home */
}

static const struct g4_job_record *list(void)
{
	return rig_last_job(&rig, &health);
}

static uint32_t findings(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < G4_FINDINGS; i++)
		count += health.findings[i].code != 0;
	return count;
}

/* Steps until it is over, or so many. */
static const struct g4_job_record *steps(uint32_t most)
{
	const struct g4_job_record *job = list();

	for (uint32_t k = 0; k < most && job->state == G4_JOB_RUNNING; k++) {
		assert_int_equal(g4_jobs_serve(rig.wg, rig.fs, true), 0);
		job = list();
		assert_true(k < 100000);
	}
	return job;
}

static const struct g4_job_record *scrub(void)
{
	assert_int_equal(op_job_start(&rig, G4_JOB_SCRUB, 0, 0), 0);
	return steps(UINT32_MAX);
}

static void a_whole_image_has_no_findings(void **state)
{
	(void)state;
	populate();
	const struct g4_job_record *job = scrub();
	assert_int_equal(job->state, G4_JOB_DONE);
	assert_int_equal(job->errors, 0);
	assert_int_equal(findings(), 0);
	assert_int_equal(health.damaged_pages, 0);
	/* of what is in use nothing is left out: hard links and slabs of several directories are looked at twice */
	assert_true(job->done + RIG_MOST_SLABS >= job->units);
	assert_true(job->done <= job->units + job->units / 4);
	assert_int_equal(job->bytes, job->done * G4_PAGE_BYTES);
}

static bool is_used(const uint8_t *used, uint64_t page)
{
	return used[page / 8] >> page % 8 & 1;
}

/* What is marked in the maps on the device. */
static uint8_t *used_pages(void)
{
	const struct g4_layout *layout = &rig.fs->meta.layout;
	uint8_t *used = (uint8_t *)calloc(1, layout->size_bytes / G4_PAGE_BYTES / 8 + 1);

	for (uint64_t page = 0; page < layout->size_bytes / G4_PAGE_BYTES; page++) {
		const uint64_t group = page / G4_GROUP_PAGES, in = page % G4_GROUP_PAGES;
		const struct g4_alloc_page *map =
			(const struct g4_alloc_page *)(void *)(rig.image + layout->alloc_address +
							       group * G4_PAGE_BYTES);
		const struct g4_region *region = &map->regions[in / G4_REGION_PAGES];
		if (map->header.type == G4_BLOCK_ALLOC && region->used[in % G4_REGION_PAGES / 64] >> in % 64 & 1)
			used[page / 8] |= (uint8_t)(1u << page % 8);
	}
	return used;
}

/* Counts of owners are no file's. */
static bool is_of_counts(uint64_t page)
{
	const struct g4_block_header *header =
		(const struct g4_block_header *)(const void *)(rig.image + page * G4_PAGE_BYTES);

	return header->type == G4_BLOCK_SHARES || header->type == G4_BLOCK_OWNERS || header->type == G4_BLOCK_BUFFERED;
}

/* One bit of every page in use, one after the other. cold: the cache is empty. */
static void flip_everywhere(bool cold)
{
	const struct g4_layout layout = rig.fs->meta.layout;
	uint8_t *used = used_pages();
	static uint8_t copy[G4_PAGE_BYTES];
	uint32_t tried = 0, unnamed = 0;

	assert_int_equal(scrub()->errors, 0); /* in the cache from now on */
	for (uint64_t page = layout.root_address / G4_PAGE_BYTES; page < layout.backup_address / G4_PAGE_BYTES;
	     page++) {
		if (!is_used(used, page) || (page * G4_PAGE_BYTES == layout.root_address && cold))
			continue;
		/* of contents some will do */
		memcpy(copy, rig.image + page * G4_PAGE_BYTES, G4_PAGE_BYTES);
		if (page % 64 && g4_block_generation(copy, g4_page_address(page), rig.fs->meta.fs_tag) == 0)
			continue;
		const uint64_t at = page * G4_PAGE_BYTES + 37 + page * 211 % 3900;
		/* the root block goes home with each scrub that is logged */
		if (page * G4_PAGE_BYTES == layout.root_address)
			continue;
		rig.image[at] ^= 0x08;
		if (cold) {
			assert_int_equal(op_sync(&rig), 0);
			rig_unmount_fs(&rig, rig.wg, rig.fs, false);
			rig.fs = NULL;
			if (rig_try_mount_fs(&rig, rig.wg, NULL, &rig.fs) < 0) { /* which says it, too */
				rig.image[at] ^= 0x08;
				rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
				continue;
			}
		}
		const struct g4_job_record *job = scrub();
		bool there = false;
		if (job->state != G4_JOB_DONE || job->errors == 0)
			print_message("page %llu\n", (unsigned long long)page);
		assert_int_equal(job->state, G4_JOB_DONE);
		assert_true(job->errors > 0);
		for (uint32_t i = 0; i < G4_FINDINGS; i++) {
			const struct g4_finding *finding = &health.findings[i];
			there = there || (finding->code && finding->address <= page * G4_PAGE_BYTES &&
					  page * G4_PAGE_BYTES < finding->address + finding->pages * G4_PAGE_BYTES);
			unnamed += finding->code && finding->inode == 0 && !is_of_counts(page);
		}
		assert_true(there);
		assert_int_equal(g4_load32_acq(&rig.fs->journal.aborted), 0);
		rig.image[at] ^= 0x08;
		tried++;
	}
	assert_true(tried > 80);
	assert_int_equal(unnamed, 0);
	assert_int_equal(op_sync(&rig), 0);
	if (cold)
		again(false);
	assert_int_equal(scrub()->errors, 0);
	free(used);
}

static void a_flipped_bit_is_found_while_all_is_cached(void **state)
{
	(void)state;
	populate();
	flip_everywhere(false);
}

static void a_flipped_bit_is_found_by_a_fresh_mount(void **state)
{
	(void)state;
	populate();
	flip_everywhere(true);
}

/* Those at fixed places: superblocks, descriptors, maps; written there by nobody meanwhile. */
static void fixed_pages_are_looked_at(void **state)
{
	(void)state;
	populate();
	const struct g4_layout *layout = &rig.fs->meta.layout;
	const uint64_t places[] = {G4_SUPERBLOCK_ADDRESS, layout->backup_address, layout->groups_address,
				   layout->alloc_address};
	for (uint32_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		rig.image[places[i] + 3000] ^= 1;
		assert_int_equal(scrub()->errors, 1);
		assert_int_equal(health.findings[0].address, places[i]);
		assert_int_equal(health.findings[0].inode, 0);
		rig.image[places[i] + 3000] ^= 1;
	}
	assert_int_equal(scrub()->errors, 0);
}

/* Where a page of this kind is at home. */
static uint64_t find_block(uint32_t type)
{
	for (uint64_t at = 0; at < DEVICE_BYTES; at += G4_PAGE_BYTES) {
		const struct g4_block_header *header = (const struct g4_block_header *)(const void *)(rig.image + at);
		if (header->magic == G4_BLOCK_MAGIC && header->type == type && header->address == at)
			return at;
	}
	fail_msg("no page of type %u", type);
	return 0;
}

/*
 * Descriptors of groups that are damaged on the device, and are going to be written there, are no finding; and what they lead to is looked at
 * all the same: maps and counts of owners.
 */
static void maps_and_counts_are_looked_at_beside_descriptors_on_their_way(void **state)
{
	uint64_t ino;

	(void)state;
	populate();
	const uint64_t groups = rig.fs->meta.layout.groups_address, owners = find_block(G4_BLOCK_OWNERS);
	make(G4_NODE_ROOT, "newer", 9000, &ino);
	assert_int_equal(op_sync(&rig), 0);
	rig.image[groups + 3000] ^= 1;
	assert_int_equal(scrub()->errors, 0);
	rig.image[owners + 3000] ^= 1;
	assert_int_equal(scrub()->errors, 1);
	assert_int_equal(health.findings[0].address, owners);
	rig.image[owners + 3000] ^= 1;
	again(true);
	assert_int_equal(scrub()->errors, 0);
}

static uint64_t place(uint64_t ino, uint64_t page)
{
	struct g4_map_extent extent;
	uint32_t count;

	assert_int_equal(op_map(&rig, ino, page * G4_PAGE_BYTES, &extent, 1, &count), 0);
	assert_int_equal(count, 1);
	return extent.address;
}

static void a_file_is_named_with_the_range(void **state)
{
	struct g4_attr attr;
	uint64_t dir, ino;
	char path[256];

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "a", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, dir, "b", 0755, &dir), 0);
	make(dir, "file", 200 * G4_PAGE_BYTES, &ino);
	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t page = 100; page < 105; page++)
		rig.image[place(ino, page)] ^= 1;
	assert_int_equal(scrub()->errors, 5);
	assert_int_equal(findings(), 1);
	assert_int_equal(health.damaged_pages, 5);
	const struct g4_finding found = health.findings[0];
	assert_int_equal(found.inode, ino);
	assert_int_equal(found.page, 100);
	assert_int_equal(found.pages, 5);
	assert_int_equal(found.code, G4_E_DATA);
	assert_int_equal(op_getattr(&rig, found.dir, &attr), 0);
	struct g4_cmd cmd = {.op = G4_CMD_PATH, .node = found.inode, .data = path, .length = sizeof(path)};
	cmd.node2 = found.dir;
	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
	path[cmd.value] = 0;
	assert_string_equal(path, "/a/b/file");
	/* all of that stays, over an unmount and over a crash behind it */
	again(true);
	assert_int_equal(list()->errors, 5);
	assert_int_equal(health.damaged_pages, 5);
	assert_int_equal(findings(), 1);
	assert_int_equal(scrub()->errors, 5);
	again(false);
	assert_int_equal(op_sync(&rig), 0);
}

/* A step at a time, the power gone behind each of them: as much work as in one go, and the same findings. */
#define NAMELESS 70u /* more than are taken at a time */

/* Files that somebody has open, and whose names are gone. */
static void what_has_no_name_is_read(void **state)
{
	uint64_t inos[NAMELESS], handles[NAMELESS], done;

	(void)state;
	for (uint32_t k = 0; k < NAMELESS; k++) {
		assert_int_equal(op_tmpfile(&rig, G4_NODE_ROOT, &inos[k], &handles[k]), 0);
		assert_int_equal(
			op_write(&rig, 0, handles[k], 0, pattern + k * G4_PAGE_BYTES, 5 * G4_PAGE_BYTES, &done), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(scrub()->errors, 0);
	assert_int_equal(list()->skipped, 0);
	for (uint32_t k = 0; k < NAMELESS; k++)
		rig.image[place(inos[k], k % 5) + 9] ^= 1;
	assert_int_equal(scrub()->errors, NAMELESS);
	for (uint32_t k = 0; k < NAMELESS; k++) {
		rig.image[place(inos[k], k % 5) + 9] ^= 1;
		assert_int_equal(op_release(&rig, handles[k]), 0);
	}
	assert_int_equal(scrub()->errors, 0);
}

static void it_goes_on_behind_a_crash(void **state)
{
	uint64_t ino;

	(void)state;
	populate();
	make(G4_NODE_ROOT, "large", PATTERN_BYTES, &ino);
	assert_int_equal(op_sync(&rig), 0);
	again(true);
	rig.image[place(ino, 900)] ^= 1;
	const uint64_t whole = scrub()->done;
	assert_int_equal(op_job_start(&rig, G4_JOB_SCRUB, 0, 0), 0);
	uint32_t crashes = 0;
	const struct g4_job_record *job = list();
	for (; job->state == G4_JOB_RUNNING; crashes++) {
		steps(1);
		const uint64_t done = list()->done;
		assert_int_equal(g4_jobs_log(rig.wg, rig.fs), 0);
		assert_int_equal(op_sync(&rig), 0);
		again(false);
		job = list();
		assert_int_equal(job->done, done);
		assert_true(crashes < 10000);
	}
	assert_true(crashes > 20);
	assert_int_equal(job->state, G4_JOB_DONE);
	assert_int_equal(job->errors, 1);
	assert_int_equal(health.findings[0].inode, ino);
	/* what is remembered in memory alone is looked at again: the way to where it is, and the slab */
	assert_true(job->done >= whole);
	assert_true(job->done < whole + crashes * 12);
}

/* Without having been logged it begins where it was last: nothing is left out. */
static void what_was_not_logged_is_done_again(void **state)
{
	(void)state;
	populate();
	const uint64_t whole = scrub()->done;
	assert_int_equal(op_job_start(&rig, G4_JOB_SCRUB, 0, 0), 0);
	steps(3);
	assert_true(list()->done > 0);
	again(false);
	assert_int_equal(list()->state, G4_JOB_RUNNING);
	assert_int_equal(list()->done, 0);
	assert_int_equal(steps(UINT32_MAX)->done, whole);
}

/* What it is in the middle of, running or paused, is freed when it is removed, and it goes on behind that. */
static void what_is_removed_is_freed_at_once(void **state)
{
	static const char *const names[] = {"first", "second"};
	uint64_t ino;

	(void)state;
	for (uint32_t paused = 0; paused < 2; paused++) {
		make(G4_NODE_ROOT, names[paused], PATTERN_BYTES, &ino);
		assert_int_equal(op_sync(&rig), 0);
		const uint64_t before = rig.fs->alloc.free_pages;
		assert_int_equal(op_job_start(&rig, G4_JOB_SCRUB, 0, 0), 0);
		do {
			assert_int_equal(list()->state, G4_JOB_RUNNING);
			steps(1);
		} while (rig.fs->jobs.scrub.file == G4_NO_INODE ||
			 g4_icache_at(rig.fs, rig.fs->jobs.scrub.file)->ino != ino || rig.fs->jobs.scrub.page == 0);
		if (paused)
			assert_int_equal(op_job_set(&rig, list()->number, G4_JOB_PAUSE, 0), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, names[paused]), 0);
		assert_int_equal(op_sync(&rig), 0);
		assert_true(rig.fs->alloc.free_pages >= before + PATTERN_BYTES / G4_PAGE_BYTES);
		if (paused)
			assert_int_equal(op_job_set(&rig, list()->number, G4_JOB_RESUME, 0), 0);
		assert_int_equal(steps(UINT32_MAX)->state, G4_JOB_DONE);
		assert_int_equal(list()->errors, 0);
	}
}

/* A file goes from where it will come to where it was, and a directory with files does. */
static void what_is_moved_is_not_missed(void **state)
{
	struct g4_attr attr;
	uint64_t first, second, ino, inner;
	char name[16];

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "first", 0755, &first), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "second", 0755, &second), 0);
	for (uint32_t i = 0; i < 2; i++) { /* one of them comes first */
		make(i ? second : first, "large", PATTERN_BYTES, &ino);
		make(i ? second : first, "victim", 30000, &ino);
		assert_int_equal(op_mkdir(&rig, i ? second : first, "tree", 0755, &inner), 0);
		make(inner, "victim", 30000, &ino);
	}
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_job_start(&rig, G4_JOB_SCRUB, 0, 0), 0);
	uint64_t at = 0;
	while (at != first && at != second) {
		steps(1);
		at = list()->cursor[2];
	}
	const uint64_t from = at == first ? second : first;
	assert_int_equal(op_lookup(&rig, from, "victim", &attr), 0);
	rig.image[place(attr.ino, 3)] ^= 1;
	assert_int_equal(op_lookup(&rig, from, "tree", &attr), 0);
	assert_int_equal(op_lookup(&rig, attr.ino, "victim", &attr), 0);
	rig.image[place(attr.ino, 3)] ^= 1;
	/* names of both kinds of place: in front of the cursor and behind it */
	for (uint32_t i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "m%u", i);
		make(from, name, 5000, &ino);
		assert_int_equal(op_rename(&rig, from, name, at, name, 0), 0);
	}
	assert_int_equal(op_rename(&rig, from, "victim", at, "moved", 0), 0);
	assert_int_equal(op_rename(&rig, from, "tree", at, "moved tree", 0), 0);
	const struct g4_job_record *job = steps(UINT32_MAX);
	assert_int_equal(job->state, G4_JOB_DONE);
	assert_int_equal(job->errors, 2);
	assert_int_equal(job->skipped, 0);
}

/* ------------------------------------------------------------------ beside writers */

#define WRITERS 3u

static uint32_t stop;

static void *write_on(void *argument)
{
	const uint64_t seed = *(const uint64_t *)argument;
	uint64_t random = seed, ino, done, dir;
	char name[16], other[16];
	struct g4_attr attr;

	snprintf(name, sizeof(name), "d%u", (unsigned)seed);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, name, 0755, &dir), 0);
	while (!g4_load32_acq(&stop)) {
		const uint64_t what = rig_random(&random) % 6, bytes = rig_random(&random) % 100000 + 1;
		snprintf(name, sizeof(name), "f%u", (unsigned)(rig_random(&random) % 20));
		snprintf(other, sizeof(other), "f%u", (unsigned)(rig_random(&random) % 20));
		if (op_lookup(&rig, dir, name, &attr) < 0) {
			assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0644, &ino), 0);
			attr.ino = ino;
		}
		if (what < 2)
			assert_int_equal(
				op_write(&rig, attr.ino, 0, rig_random(&random) % 200000, pattern, bytes, &done), 0);
		else if (what == 2)
			assert_int_equal(op_truncate(&rig, attr.ino, bytes / 2), 0);
		else if (what == 3)
			assert_int_equal(op_unlink(&rig, dir, name), 0);
		else if (what == 4)
			assert_int_equal(op_rename(&rig, dir, name, dir, other, 0), 0);
		else
			assert_int_equal(op_fsync(&rig, attr.ino), 0);
	}
	return NULL;
}

static int submit(struct g4_cmd *cmd)
{
	return g4_engine_execute(rig.engine, cmd);
}

static void beside_writers_nothing_is_found(void **state)
{
	const uint32_t passes = rig_slow() ? 3 : 12;
	pthread_t threads[WRITERS];
	uint64_t seeds[WRITERS];

	(void)state;
	if (rig_lanes_are_watched()) { /* a device in memory is read while a checkpoint writes to it */
		print_message("skipped: what lanes copy can not be told apart\n");
		skip();
	}
	populate();
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_mount(&rig);
	g4_store32_rel(&stop, 0);
	for (uint32_t i = 0; i < WRITERS; i++) {
		seeds[i] = i + 1;
		assert_int_equal(pthread_create(&threads[i], NULL, write_on, &seeds[i]), 0);
	}
	for (uint32_t pass = 0; pass < passes; pass++) {
		struct g4_cmd start = {.op = G4_CMD_JOB_START, .flags = G4_JOB_EAGER};
		start.kind = G4_JOB_SCRUB;
		assert_int_equal(submit(&start), 0);
		bool runs = true;
		while (runs) {
			struct g4_cmd cmd = {.op = G4_CMD_JOB_LIST, .data = &health, .length = sizeof(health)};
			assert_int_equal(submit(&cmd), 0);
			runs = false;
			for (uint32_t i = 0; i < G4_JOBS; i++) {
				runs = runs || health.jobs[i].state == G4_JOB_RUNNING;
				assert_int_equal(health.jobs[i].errors, 0);
				assert_int_not_equal(health.jobs[i].state, G4_JOB_FAILED);
			}
			sched_yield();
		}
	}
	g4_store32_rel(&stop, 1);
	for (uint32_t i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(findings(), 0);
	assert_int_equal(health.damaged_pages, 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

/* ------------------------------------------------------------------ orders, one on the heels of the other */

#define BOSSES 3u

static void *give_orders(void *argument)
{
	uint64_t random = *(const uint64_t *)argument;
	struct g4_health *seen = (struct g4_health *)malloc(sizeof(*seen));

	for (uint32_t k = 0; k < (rig_slow() ? 40u : 300u); k++) {
		struct g4_cmd ask = {.op = G4_CMD_JOB_LIST, .data = seen, .length = sizeof(*seen)};
		struct g4_cmd start = {.op = G4_CMD_JOB_START, .flags = G4_JOB_EAGER};
		const struct g4_job_record *last = &seen->jobs[0];
		assert_int_equal(submit(&ask), 0);
		for (uint32_t i = 1; i < G4_JOBS; i++)
			if (seen->jobs[i].number > last->number)
				last = &seen->jobs[i];
		const bool over = last->state != G4_JOB_RUNNING && last->state != G4_JOB_PAUSED;
		if (over) {
			start.kind = G4_JOB_SCRUB;
			const int rc = submit(&start);
			assert_true(rc == 0 || rc == -G4_E_BUSY);
			continue;
		}
		struct g4_cmd set = {.op = G4_CMD_JOB_SET, .mask = (uint32_t)(1 + rig_random(&random) % 4)};
		set.number = last->number;
		const int rc = submit(&set);
		assert_true(rc == 0 || rc == -G4_E_INVAL || rc == -G4_E_NOENT); /* it is over by now, or forgotten */
	}
	free(seen);
	return NULL;
}

/* Whatever was ordered before, the last order holds, and a scrub that is to go on comes to its end. */
static void orders_in_a_row(void **state)
{
	pthread_t threads[BOSSES];
	uint64_t seeds[BOSSES], most = 0;

	(void)state;
	if (rig_lanes_are_watched()) { /* as above */
		print_message("skipped: what lanes copy can not be told apart\n");
		skip();
	}
	populate();
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_mount(&rig);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < BOSSES; i++) {
			seeds[i] = 10 * round + i + 1;
			assert_int_equal(pthread_create(&threads[i], NULL, give_orders, &seeds[i]), 0);
		}
		for (uint32_t i = 0; i < BOSSES; i++)
			pthread_join(threads[i], NULL);
		struct g4_cmd ask = {.op = G4_CMD_JOB_LIST, .data = &health, .length = sizeof(health)};
		struct g4_cmd start = {.op = G4_CMD_JOB_START, .flags = G4_JOB_EAGER};
		assert_int_equal(submit(&ask), 0);
		start.kind = G4_JOB_SCRUB;
		for (uint32_t i = 0; i < G4_JOBS; i++) { /* of those that are paused each is resumed */
			struct g4_cmd set = {.op = G4_CMD_JOB_SET, .mask = G4_JOB_RESUME};
			set.number = health.jobs[i].number;
			if (health.jobs[i].state == G4_JOB_PAUSED)
				assert_int_equal(submit(&set), 0);
		}
		const int rc = submit(&start);
		assert_true(rc == 0 || rc == -G4_E_BUSY);
		for (bool runs = true; runs; sched_yield()) {
			runs = false;
			assert_int_equal(submit(&ask), 0);
			for (uint32_t i = 0; i < G4_JOBS; i++) {
				assert_int_not_equal(health.jobs[i].state, G4_JOB_PAUSED);
				assert_int_not_equal(health.jobs[i].state, G4_JOB_FAILED);
				assert_int_equal(health.jobs[i].errors, 0);
				runs = runs || health.jobs[i].state == G4_JOB_RUNNING;
			}
		}
		for (uint32_t i = 0; i < G4_JOBS; i++)
			most = g4_max64(most, health.jobs[i].number);
		for (uint32_t i = 0; i < G4_JOBS; i++)
			if (health.jobs[i].number == most)
				assert_int_equal(health.jobs[i].state, G4_JOB_DONE);
	}
	assert_int_equal(health.damaged_pages, 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, RIG_ANY_FREE, "behind the orders");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

/* ------------------------------------------------------------------ records */

static void records_that_are_not_valid_are_left_out(void **state)
{
	struct g4_job_record good = {.kind = G4_JOB_SCRUB, .state = G4_JOB_PAUSED, .number = 3}, bad = good;

	(void)state;
	assert_true(g4_job_is_valid(&good));
	bad.kind = G4_JOB_KINDS;
	assert_false(g4_job_is_valid(&bad));
	bad = good;
	bad.state = 0;
	assert_false(g4_job_is_valid(&bad));
	bad.state = G4_JOB_FAILED;
	assert_false(g4_job_is_valid(&bad)); /* with what? */
	bad = good;
	bad.number = 0;
	assert_false(g4_job_is_valid(&bad));
	/* a cursor that leads anywhere: the scrub begins anew, or finds what there is */
	populate();
	for (uint64_t wild = 0; wild < 40; wild++) {
		assert_int_equal(op_job_start(&rig, G4_JOB_SCRUB, 0, 0), 0);
		uint64_t random = wild + 1;
		for (uint32_t i = 0; i < G4_JOBS; i++)
			for (uint32_t k = 0; k < 8 && rig.fs->jobs.records[i].state == G4_JOB_RUNNING; k++)
				rig.fs->jobs.records[i].cursor[k] = rig_random(&random) >> rig_random(&random) % 64;
		assert_int_equal(steps(UINT32_MAX)->state, G4_JOB_DONE);
		assert_int_equal(findings(), 0);
	}
}

static void fsck_drops_them(void **state)
{
	struct rig_repair how = {0};
	char *text;

	(void)state;
	populate();
	scrub();
	scrub();
	const uint64_t root = rig.fs->meta.layout.root_address;
	const uint32_t tag = rig.fs->meta.fs_tag;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	assert_int_equal(rig_fsck(&rig, &text).problems, 0);
	free(text);
	struct g4_root *page = (struct g4_root *)(void *)(rig.image + root);
	page->jobs[0].kind = 77;
	page->jobs[1].number = page->job_count + 1;
	page->findings[5].code = 1; /* of no page */
	g4_block_seal(page, G4_BLOCK_ROOT, g4_address_from(root), page->header.generation, tag);
	assert_int_equal(rig_fsck(&rig, &text).problems, 3);
	assert_non_null(strstr(text, "background job"));
	free(text);
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	assert_int_equal(rig_fsck(&rig, &text).problems, 0);
	free(text);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(scrub()->errors, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_with_sums, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_whole_image_has_no_findings),
		TEST(fixed_pages_are_looked_at),
		TEST(maps_and_counts_are_looked_at_beside_descriptors_on_their_way),
		TEST(a_file_is_named_with_the_range),
		TEST(what_has_no_name_is_read),
		TEST(it_goes_on_behind_a_crash),
		TEST(what_was_not_logged_is_done_again),
		TEST(what_is_removed_is_freed_at_once),
		TEST(what_is_moved_is_not_missed),
		TEST(fsck_drops_them),
		TEST(records_that_are_not_valid_are_left_out),
		TEST(beside_writers_nothing_is_found),
		TEST(orders_in_a_row),
		TEST(a_flipped_bit_is_found_while_all_is_cached),
		TEST(a_flipped_bit_is_found_by_a_fresh_mount),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
