/* SPDX-License-Identifier: Apache-2.0 */
/* Any disk is removed from a set, whatever lies on it: that is moved to the others, whatever the power does. */
#include "removing.h"

#include "fsck/fsck.h"
#include "fsck/plan.h"
#include "simt/simt_host.h"
#include "space/chunk.h"
#include "space/set_types_host.h"

#define FILES 6u
#define BYTES (24 * G4_MIB)

struct shape {
	enum g4_raid raid;
	uint32_t disks, copies, parity;
	uint32_t added; /* of which the level has no use, so they are room for what is moved */
	bool redundant;
};
static const struct shape shapes[] = {{G4_RAID_NONE, 3, 0, 0, 0, false},
				      {G4_RAID_0, 3, 0, 0, 0, false},
				      {G4_RAID_1, 4, 2, 0, 0, true},
				      {G4_RAID_1, 2, 2, 0, 1, true},
				      {G4_RAID_PARITY, 3, 0, 1, 1, true}};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static uint32_t disks_of(const struct shape *shape)
{
	return shape->disks + shape->added;
}

/* With files, and one disk more than the set has. */
static void format(struct disks *d, const struct shape *shape, bool populated)
{
	const struct g4_set_plan plan = {.raid = shape->raid,
					 .copies = shape->copies,
					 .parity = shape->parity,
					 .stripe_bytes = 16 * 1024,
					 .journal_bytes = JOURNAL_BYTES};
	uint64_t sizes[MOST_DISKS];

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = BYTES;
	disks_make(d, disks_of(shape) + 1, sizes);
	d->count = shape->disks;
	disks_format_plan(d, &plan, G4_CHECKSUM_CRC32C);
	while (d->count < disks_of(shape))
		add_next(d, true);
	disks_mount(d, all_of(d));
	if (populated)
		disks_populate(d);
	else
		for (uint32_t n = 0; n < FILES; n++)
			assert_int_equal(disks_put(d, n, 1), 0);
	disks_unmount(d);
}

static void swap(struct disks *d, uint32_t a, uint32_t b)
{
	const struct disks before = *d;

	d->fds[a] = before.fds[b];
	d->fds[b] = before.fds[a];
	d->memory[a] = before.memory[b];
	d->memory[b] = before.memory[a];
	rig_copy(d->names[a], before.names[b], sizeof(d->names[a]));
	rig_copy(d->names[b], before.names[a], sizeof(d->names[b]));
}

/* The set without that disk, which is the one behind the last then. */
static void leave_out(struct disks *d, uint32_t disk)
{
	swap(d, disk, d->count - 1);
	d->count--;
}

static int try_remove(struct disks *d, uint32_t disk, uint64_t *bytes)
{
	struct g4_dev *set = open_all(d);
	const int rc = g4_remove_disk(set, d->names[disk], NULL, bytes, d->message, sizeof(d->message));

	g4_dev_close(set);
	return rc;
}

static uint64_t free_pages(struct disks *d)
{
	struct g4_statfs s;

	assert_int_equal(op_statfs(&d->rig, &s), 0);
	assert_true(s.blocks_free <= s.blocks);
	return s.blocks_available;
}

static uint64_t all_free(struct disks *d)
{
	struct g4_statfs s;

	assert_int_equal(op_statfs(&d->rig, &s), 0);
	return s.blocks_free;
}

static void release(struct disks *d, const struct shape *shape)
{
	d->count = disks_of(shape) + 1;
	disks_free(d);
}

/* No chunk lies on a disk that is none, and some lie nowhere. */
static bool has_gone(struct disks *d)
{
	struct g4_dev *set = open_all(d);
	struct g4_chunk chunk;
	bool gone = false;

	for (uint32_t n = 0; g4_set_chunk(set, n, &chunk); n++) {
		gone = gone || g4_chunk_is_gone(&chunk);
		for (uint32_t p = 0; p < (uint32_t)chunk.columns * chunk.copies; p++)
			assert_true(g4_place_disk(chunk.places[p]) < d->count);
	}
	g4_dev_close(set);
	return gone;
}

static void what_lies_on_a_disk_is_moved(void **state)
{
	uint32_t gone = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++)
		for (uint32_t disk = 0; disk < disks_of(&shapes[s]); disk += (uint32_t)rig_every(1)) {
			uint64_t bytes, ino;
			struct g4_dev *set;
			struct disks d;
			format(&d, &shapes[s], true);
			if (try_remove(&d, disk, &bytes) < 0)
				fail_msg("shape %u, disk %u: %s", s, disk, d.message);
			/* it is nobody's, and the others need it no more */
			assert_true(disks_try_open(&d, all_of(&d), true, 0, &set) < 0);
			leave_out(&d, disk);
			disks_expect_clean(&d, all_of(&d));
			gone += has_gone(&d);
			disks_mount(&d, all_of(&d));
			disks_expect_all(&d);
			if (shapes[s].parity == 0) { /* what lies nowhere is not discarded, nor counted */
				assert_int_equal(op_trim(&d.rig, 0, UINT64_MAX, 0, &bytes), 0);
				assert_true(bytes > 0 && bytes <= all_free(&d) * G4_PAGE_BYTES);
			}
			const uint64_t before = free_pages(&d), filled = disks_fill(&d, &ino);
			/* what is told to be free is: nobody is given what lies nowhere */
			if (filled + 2 * G4_MIB < before * G4_PAGE_BYTES)
				fail_msg("shape %u, disk %u: %lu of %lu bytes", s, disk, (unsigned long)filled,
					 (unsigned long)(before * G4_PAGE_BYTES));
			disks_expect_filled(&d, ino, filled);
			disks_unmount(&d);
			disks_expect_clean(&d, all_of(&d));
			/* a disk that comes brings room again */
			const uint32_t count = d.count;
			add_next(&d, true);
			assert_int_equal(d.count, count + 1);
			disks_expect_clean(&d, all_of(&d));
			disks_mount(&d, all_of(&d));
			disks_expect_all(&d);
			disks_expect_filled(&d, ino, filled);
			disks_unmount(&d);
			release(&d, &shapes[s]);
		}
	assert_true(gone > 0);
}

static void expect_refused(struct disks *d, uint32_t disk, int code, const char *words)
{
	uint64_t bytes;

	assert_int_equal(try_remove(d, disk, &bytes), code);
	if (!strstr(d->message, words))
		fail_msg("%s", d->message);
	disks_expect_clean(d, all_of(d));
}

static void what_can_not_be_moved_is_told(void **state)
{
	const struct shape rows = {G4_RAID_PARITY, 3, 0, 1, 0, true}, copies = {G4_RAID_1, 3, 3, 0, 0, true};
	uint64_t ino, bytes;
	struct disks d;

	(void)state;
	format(&d, &rows, false);
	expect_refused(&d, 1, -G4_E_INVAL, "would bear fewer losses");
	assert_int_equal(try_remove(&d, d.count, &bytes), -G4_E_INVAL);
	assert_non_null(strstr(d.message, "is no disk of the file system"));
	release(&d, &rows);
	format(&d, &copies, false);
	expect_refused(&d, 0, -G4_E_INVAL, "would bear fewer losses");
	release(&d, &copies);
	format(&d, &shapes[0], false);
	disks_mount(&d, all_of(&d));
	const uint64_t filled = disks_fill(&d, &ino);
	disks_unmount(&d);
	expect_refused(&d, 0, -G4_E_NOSPC, "have no room");
	disks_mount(&d, all_of(&d));
	disks_expect_files(&d, FILES, 1);
	disks_expect_filled(&d, ino, filled);
	disks_unmount(&d);
	release(&d, &shapes[0]);
}

/* Where a disk of a set that bears that can not read all, the others have it. */
static void bad_sectors_are_made_up_for(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		/* in the middle of what is in use: in front of all places is the log */
		const struct g4_fault bad = {.bad_at = 3 * G4_MIB + 8192, .bad_bytes = 2 * G4_PAGE_BYTES};
		struct faulty f;
		struct disks d;
		uint64_t bytes;
		format(&d, &shapes[s], true);
		disks_open_faulty(&d, &f);
		g4_dev_fault_set(f.fault[0], &bad);
		const int rc = g4_remove_disk(f.set, d.names[0], NULL, &bytes, d.message, sizeof(d.message));
		g4_dev_close(f.set);
		if (shapes[s].redundant && rc < 0)
			fail_msg("shape %u: %s", s, d.message);
		if (rc == 0)
			leave_out(&d, 0);
		disks_expect_clean(&d, all_of(&d));
		disks_mount(&d, all_of(&d));
		disks_expect_all(&d);
		disks_unmount(&d);
		release(&d, &shapes[s]);
	}
}

static bool lies_nowhere(const struct g4_dev *set, uint64_t address)
{
	struct g4_chunk chunk = {.bytes = 0};

	for (uint32_t n = 0; g4_set_chunk(set, n, &chunk) && address - chunk.address >= chunk.bytes; n++)
		;
	return g4_chunk_is_gone(&chunk);
}

/* The checker, which knows no pools of pages, finds all room that there is for what it makes, and none that is gone. */
static void a_repair_takes_no_room_that_is_gone(void **state)
{
	static struct g4_fsck fsck; /* too large for a stack */
	struct g4_journal_state journal;
	struct g4_address address;
	struct g4_image image;
	uint64_t bytes, pages = 0;
	struct disks d;

	(void)state;
	format(&d, &shapes[0], true);
	assert_int_equal(try_remove(&d, 0, &bytes), 0);
	leave_out(&d, 0);
	assert_true(has_gone(&d)); /* there is some that it could have taken */
	disks_mount(&d, all_of(&d));
	const uint64_t available = free_pages(&d);
	disks_unmount(&d);
	memset(&fsck, 0, sizeof(fsck));
	fsck.out = stdout;
	if (g4_image_open(&image, disks_name_of(&d, all_of(&d)), d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(g4_image_load_overlay(&image, &journal), 0);
	assert_int_equal(g4_fsck_run(&fsck, &image, &journal), 0);
	while (!g4_address_is_none(address = g4_fsck_find_room(&fsck, 1))) {
		assert_false(lies_nowhere(image.dev, g4_address_stored(address)));
		pages++;
	}
	assert_true(pages >= available);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	release(&d, &shapes[0]);
}

/* What is free of a group of which nobody can say what, and a part lies nowhere, is promised to nobody; all the rest goes on. */
static void a_damaged_map_of_a_group_that_is_partly_gone_is_borne(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_NONE, .journal_bytes = JOURNAL_BYTES};
	const uint64_t sizes[] = {96 * G4_MIB, 96 * G4_MIB, 96 * G4_MIB};
	struct g4_wg *wg = g4_wg_create(0);
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 1);
	struct g4_chunk chunk;
	struct g4_dev *set;
	struct disks d;
	uint64_t bytes, ino, group = 0;

	(void)state;
	disks_make(&d, 3, sizes);
	disks_format_plan(&d, &plan, G4_CHECKSUM_CRC32C);
	disks_mount_fs(&d, all_of(&d), &set);
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(&d, n, 1), 0);
	const uint64_t maps = g4_address_page(g4_layout_map_page(&d.rig.fs->meta.layout, 0)) * G4_PAGE_BYTES;
	disks_unmount_fs(&d, set, true);
	assert_int_equal(try_remove(&d, 1, &bytes), 0);
	leave_out(&d, 1);
	disks_mount(&d, all_of(&d));
	disks_fill(&d, &ino); /* a map of which nothing was ever used is not read */
	assert_int_equal(op_unlink(&d.rig, G4_NODE_ROOT, "big"), 0);
	disks_unmount(&d);
	disks_mount(&d, all_of(&d));
	const uint64_t whole = free_pages(&d);
	disks_unmount(&d);
	set = open_all(&d);
	for (uint32_t n = 0; group == 0 && g4_set_chunk(set, n, &chunk); n++)
		group = g4_chunk_is_gone(&chunk) && chunk.address % G4_GROUP_BYTES ? chunk.address / G4_GROUP_BYTES : 0;
	assert_true(group > 0); /* not that of the root */
	const uint64_t at = maps + group * G4_PAGE_BYTES;
	assert_int_equal(g4_dev_read(wg, set, at, page, G4_PAGE_BYTES), 0);
	page[100] ^= 1;
	assert_int_equal(g4_dev_write(wg, set, at, page, G4_PAGE_BYTES, 0), 0);
	g4_dev_close(set);
	disks_mount(&d, all_of(&d));
	const uint64_t available = free_pages(&d);
	assert_true(available < whole && whole - available <= G4_GROUP_PAGES);
	const uint64_t filled = disks_fill(&d, &ino);
	assert_true(filled > available / 2 * G4_PAGE_BYTES && filled <= available * G4_PAGE_BYTES);
	disks_expect_filled(&d, ino, filled);
	disks_expect_files(&d, FILES, 1);
	disks_unmount(&d);
	d.count = 3;
	disks_free(&d);
	free(page);
	g4_wg_destroy(wg);
}

/* Versions that know no such table have the feature to refuse it by; so it counts for nothing without. */
static void a_table_is_not_believed_without_its_feature(void **state)
{
	struct g4_dev *set;
	struct disks d;
	uint64_t bytes;

	(void)state;
	for (uint32_t level = 0; level < 2; level++) {
		format(&d, &shapes[level], false);
		assert_int_equal(try_remove(&d, 0, &bytes), 0);
		leave_out(&d, 0);
		for (uint32_t with = 0; with < 2; with++) {
			for (uint32_t n = 0; n < 2 * d.count; n++) {
				const uint64_t at = n % 2 ? d.bytes[n / 2] - G4_PAGE_BYTES : G4_SUPERBLOCK_ADDRESS;
				struct g4_superblock *sb = (struct g4_superblock *)(void *)(d.memory[n / 2] + at);
				assert_true(with || (sb->features_incompat & G4_FEATURE_INCOMPAT_MOVED));
				sb->features_incompat ^= G4_FEATURE_INCOMPAT_MOVED;
				g4_block_seal(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(at), sb->header.generation,
					      g4_superblock_tag(sb));
			}
			const int rc = disks_try_open(&d, all_of(&d), false, 0, &set);
			assert_int_equal(rc, with ? 0 : -G4_E_SB_GEOMETRY);
			if (rc < 0)
				assert_non_null(strstr(d.message, "what lies where"));
			else
				g4_dev_close(set);
		}
		disks_expect_clean(&d, all_of(&d));
		release(&d, &shapes[level]);
	}
}

/* ---- the power fails ---- */

/* Who only looks at the superblocks sees either set, and the disk that goes as one of it or none. */
static void expect_told(struct disks *d, uint32_t disk, uint32_t at)
{
	static struct g4_set_status status;
	const char *names[MOST_DISKS];
	uint32_t active = 0;

	for (uint32_t n = 0; n < d->count; n++)
		names[n] = d->names[n];
	if (g4_set_examine(names, d->count, &status, d->message, sizeof(d->message)) < 0)
		fail_msg("after %u requests: %s", at, d->message);
	for (uint32_t n = 0; n < status.count; n++)
		active += status.disks[n].state == G4_DISK_ACTIVE;
	if (!status.usable || active != status.count || status.count + status.other_count != d->count)
		fail_msg("after %u requests: %u of %u disks, %s", at, active, status.count, d->message);
	if (status.count < d->count)
		assert_string_equal(status.others[0].name, d->names[disk]);
}

/* What it leaves is the set that was or the one without the disk, also where one of the others is lost. True: the former. */
static bool judge_crash(struct disks *crashed, const struct shape *shape, uint32_t disk, uint32_t at)
{
	const uint32_t old = disks_of(shape), lost = (disk + 1 + at / 3 % (old - 1)) % old;
	const uint32_t gone = shape->redundant && at % 3 == 0 ? 1u << lost : 0;
	uint64_t bytes;

	crashed->count = old;
	uint32_t which = all_of(crashed) & ~gone;
	expect_told(crashed, disk, at);
	int rc = disks_try_mount(crashed, which, gone != 0);
	const bool is_old = rc == 0;
	if (!is_old) {
		which &= ~(1u << disk);
		rc = disks_try_mount(crashed, which, gone != 0);
	}
	if (rc < 0)
		fail_msg("after %u requests without %x: %s", at, gone, crashed->message);
	disks_expect_files(crashed, FILES, 1);
	disks_unmount(crashed);
	disks_expect_clean(crashed, which);
	if (is_old && !gone) { /* the order is given again */
		if (try_remove(crashed, disk, &bytes) < 0)
			fail_msg("after %u requests: %s", at, crashed->message);
		which &= ~(1u << disk);
		disks_mount(crashed, which);
		disks_expect_files(crashed, FILES, 1);
		disks_unmount(crashed);
		disks_expect_clean(crashed, which);
	}
	return is_old;
}

static void a_power_cut_leaves_the_set_with_it_or_without_it(void **state)
{
	static struct disks_order order;
	uint32_t states = 0, old_sets = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		const uint32_t old = disks_of(&shapes[s]), disk = s % 2;
		struct disks d, crashed;
		struct faulty f;
		uint8_t *before[MOST_DISKS];
		uint64_t random = 1 + s, bytes;
		format(&d, &shapes[s], false);
		keep_disks(&d, before);
		disks_open_faulty(&d, &f);
		memset(&order, 0, sizeof(order));
		disks_watch(&d, &f, &order);
		g4_dev_fault_share(f.fault[disk]);
		if (g4_remove_disk(f.set, d.names[disk], NULL, &bytes, d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
		disks_make(&crashed, old, d.bytes);
		for (uint32_t at = s % 2; at <= order.count; at += (uint32_t)rig_every(2)) {
			crashed.count = old;
			disks_crash(&crashed, before, &f, &order, at, &random);
			old_sets += judge_crash(&crashed, &shapes[s], disk, at);
			states++;
		}
		crashed.count = old;
		disks_free(&crashed);
		g4_dev_close(f.set);
		g4_dev_close(f.fault[disk]);
		for (uint32_t n = 0; n < old; n++)
			free(before[n]);
		release(&d, &shapes[s]);
	}
	print_message("%u states, %u with the old set\n", states, old_sets);
	assert_true(old_sets > 0 && old_sets < states);
}

/* ---- disks fail ---- */

static void nothing_is_lost_where_the_others_do_not_take_it(void **state)
{
	static uint8_t disks[MOST_REQUESTS];
	uint32_t failed = 0, with_it = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		const uint32_t old = disks_of(&shapes[s]), disk = 0;
		uint8_t *before[MOST_DISKS];
		uint32_t has = 0, at = 0;
		struct disks d;
		format(&d, &shapes[s], false);
		keep_disks(&d, before);
		const uint32_t writes = rehearse_removal(&d, disk, disks);
		for (; at < writes && has != (1u << old) - 2; at++) /* each has one that works */
			has |= disks[at] != disk ? 1u << disks[at] : 0;
		for (; at < writes; at += (uint32_t)rig_every(3)) {
			restore_disks(&d, before);
			const bool removed = remove_while_failing(&d, disk, disks, at);
			failed += !removed;
			bool mounted = !removed && mount_most(&d, all_of(&d));
			with_it += mounted;
			if (!mounted && !mount_most(&d, all_of(&d) & ~(1u << disk)))
				fail_msg("shape %u, %u of %u writes: %s", s, at, writes, d.message);
			disks_expect_files(&d, FILES, 1);
			disks_unmount(&d);
		}
		for (uint32_t n = 0; n < old; n++)
			free(before[n]);
		release(&d, &shapes[s]);
	}
	print_message("%u failures, after %u the disk is one still\n", failed, with_it);
	assert_true(failed > 0 && with_it > 0);
}

/* All but one of the disks are opened without it, or with it as one that is stale; it gets what it missed. mounted: by an order. */
static void rebuild_stale(struct disks *d, uint32_t stale, bool mounted)
{
	const char *names[MOST_DISKS];
	struct g4_dev *set;
	uint32_t disk;

	for (uint32_t n = 0; n < d->count; n++)
		names[n] = d->names[n];
	assert_true(disks_try_open(d, all_of(d), true, 0, &set) < 0);
	if (!strstr(d->message, "stale"))
		fail_msg("%s", d->message);
	if (mounted) {
		struct g4_dev_order order = {.op = G4_ORDER_REBUILD,
					     .name = names[stale],
					     .text = d->message,
					     .text_bytes = sizeof(d->message)};
		struct g4_wg *wg = g4_wg_create(0);
		assert_int_equal(disks_try_open(d, all_of(d) & ~(1u << stale), true, 0, &set), 0);
		if (g4_dev_order(wg, set, &order) < 0)
			fail_msg("%s", d->message);
		g4_wg_destroy(wg);
	} else if (g4_set_rebuild_open(names, d->count, true, NULL, &set, &disk, d->message, sizeof(d->message)) < 0) {
		fail_msg("%s", d->message);
	}
	if (g4_set_rebuild_all(set, NULL, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
	g4_dev_close(set);
	disks_expect_clean(d, all_of(d));
}

/* The last disk does not take the superblocks that give it another number, so the others leave it out: it is rebuilt as any that missed something. */
static void the_last_one_is_known_whatever_number_it_says(void **state)
{
	static uint8_t disks[MOST_REQUESTS];
	const struct shape *shape = &shapes[2];

	(void)state;
	for (uint32_t mounted = 0; mounted < 2; mounted++) {
		const uint32_t last = disks_of(shape) - 1;
		struct g4_fault fault = {.write_through = true};
		uint8_t *before[MOST_DISKS];
		struct faulty f;
		struct disks d;
		uint64_t bytes;
		format(&d, shape, false);
		keep_disks(&d, before);
		const uint32_t writes = rehearse_removal(&d, 0, disks);
		for (uint32_t k = 0; k < writes; k++)
			fault.cut_after_writes += disks[k] == last;
		fault.cut_after_writes -= 2;
		for (uint32_t n = 0; n <= last; n++) {
			rig_copy(d.memory[n], before[n], d.bytes[n]);
			free(before[n]);
		}
		disks_open_faulty(&d, &f);
		g4_dev_fault_set(f.fault[last], &fault);
		const int rc = g4_remove_disk(f.set, d.names[0], NULL, &bytes, d.message, sizeof(d.message));
		g4_dev_close(f.set);
		if (rc < 0)
			fail_msg("%s", d.message);
		leave_out(&d, 0); /* so the last one is the first */
		rebuild_stale(&d, 0, mounted != 0);
		disks_mount(&d, all_of(&d));
		disks_expect_files(&d, FILES, 1);
		disks_unmount(&d);
		release(&d, shape);
	}
}

/* As another disk that fails begins one. */
static void begin_generation(struct disks *d, uint32_t which)
{
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_dev *dev;

	assert_int_equal(disks_try_open(d, which, true, 0, &dev), 0);
	struct g4_set *set = (struct g4_set *)dev->host;
	g4_store32_rel(&set->unrecorded, 1);
	assert_int_equal(g4_set_record_missing(wg, set), 0);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
}

/* Disk 0 is removed, and the power fails when the last disk alone knows its new number; the others are written without it, by the old one. */
static void write_by_two_numbers(struct disks *d, const struct shape *shape)
{
	static uint8_t disks[MOST_REQUESTS];
	const uint32_t last = disks_of(shape) - 1, others = (1u << last) - 1;
	uint8_t *before[MOST_DISKS];
	uint32_t at, superblocks = 0;

	format(d, shape, false);
	keep_disks(d, before);
	at = rehearse_removal(d, 0, disks);
	for (; superblocks < 2; at--)
		superblocks += disks[at - 1] == last;
	restore_disks(d, before);
	assert_false(remove_while_failing(d, 0, disks, at + 1));
	for (uint32_t n = 0; n <= last; n++)
		free(before[n]);
	if (disks_try_mount(d, others, true) < 0)
		fail_msg("%s", d->message);
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(d, n, 2), 0);
	disks_unmount(d);
}

/* It was away, and no more. */
static void one_that_alone_knows_its_new_number_is_rebuilt(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < 8; k++) { /* half of them behind another generation */
		const struct shape *shape = &shapes[2 + k / 4];
		const uint32_t last = disks_of(shape) - 1;
		struct disks d;
		write_by_two_numbers(&d, shape);
		if (k / 2 % 2)
			begin_generation(&d, (1u << last) - 1);
		rebuild_stale(&d, last, k % 2 != 0);
		disks_mount(&d, all_of(&d));
		disks_expect_files(&d, FILES, 2);
		disks_unmount(&d);
		release(&d, shape);
	}
}

/* But where it was used as well, by its new number, nobody knows which counts. */
static void two_numbers_that_were_both_used_are_told_apart(void **state)
{
	const struct shape *shape = &shapes[3];
	const uint32_t last = disks_of(shape) - 1;

	(void)state;
	for (uint32_t newer = 0; newer < 2; newer++) { /* those with the old numbers have the higher generation */
		const char *names[MOST_DISKS];
		struct g4_dev *set;
		struct disks d;
		uint32_t disk;
		write_by_two_numbers(&d, shape);
		begin_generation(&d, 1u << last);
		for (uint32_t k = 0; k < 3 * newer; k++)
			begin_generation(&d, (1u << last) - 1);
		for (uint32_t n = 0; n <= last; n++)
			names[n] = d.names[n];
		assert_true(disks_try_open(&d, all_of(&d) & ~1u, true, 0, &set) < 0);
		assert_non_null(strstr(d.message, "without the other"));
		assert_true(g4_set_rebuild_open(&names[1], last, true, NULL, &set, &disk, d.message,
						sizeof(d.message)) < 0);
		assert_non_null(strstr(d.message, "without the other"));
		for (uint32_t with_last = 0; with_last < 2; with_last++) { /* either alone is what it was */
			const uint32_t which = with_last ? 1u << last : (1u << last) - 1;
			assert_int_equal(disks_try_mount(&d, which, true), 0);
			disks_expect_files(&d, FILES, with_last ? 1 : 2);
			disks_unmount(&d);
		}
		release(&d, shape);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_lies_on_a_disk_is_moved),
		cmocka_unit_test(what_can_not_be_moved_is_told),
		cmocka_unit_test(bad_sectors_are_made_up_for),
		cmocka_unit_test(a_repair_takes_no_room_that_is_gone),
		cmocka_unit_test(a_damaged_map_of_a_group_that_is_partly_gone_is_borne),
		cmocka_unit_test(a_table_is_not_believed_without_its_feature),
		cmocka_unit_test(a_power_cut_leaves_the_set_with_it_or_without_it),
		cmocka_unit_test(nothing_is_lost_where_the_others_do_not_take_it),
		cmocka_unit_test(the_last_one_is_known_whatever_number_it_says),
		cmocka_unit_test(one_that_alone_knows_its_new_number_is_rebuilt),
		cmocka_unit_test(two_numbers_that_were_both_used_are_told_apart),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
