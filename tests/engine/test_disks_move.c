/* SPDX-License-Identifier: Apache-2.0 */
/* Any disk is removed from a set, whatever lies on it: that is moved to the others, whatever the power does. */
#include "removing.h"

#include "fsck/fsck.h"
#include "fsck/plan.h"
#include "simt/simt_host.h"
#include "space/chunk.h"

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

/* The last disk does not take the superblocks that give it another number, so the others leave it out: it is rebuilt as any that missed something. */
static void the_last_one_is_known_whatever_number_it_says(void **state)
{
	static uint8_t disks[MOST_REQUESTS];
	const struct shape *shape = &shapes[2];
	const char *names[MOST_DISKS];

	(void)state;
	for (uint32_t mounted = 0; mounted < 2; mounted++) {
		const uint32_t last = disks_of(shape) - 1;
		struct g4_fault fault = {.write_through = true};
		uint8_t *before[MOST_DISKS];
		struct faulty f;
		struct disks d;
		struct g4_dev *set;
		uint64_t bytes;
		uint32_t disk;
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
		for (uint32_t n = 0; n < d.count; n++)
			names[n] = d.names[n];
		assert_true(disks_try_open(&d, all_of(&d), true, 0, &set) < 0);
		assert_non_null(strstr(d.message, "stale"));
		if (mounted) {
			struct g4_dev_order order = {.op = G4_ORDER_REBUILD,
						     .name = names[0],
						     .text = d.message,
						     .text_bytes = sizeof(d.message)};
			struct g4_wg *wg = g4_wg_create(0);
			assert_int_equal(disks_try_open(&d, all_of(&d) & ~1u, true, 0, &set), 0);
			if (g4_dev_order(wg, set, &order) < 0)
				fail_msg("%s", d.message);
			g4_wg_destroy(wg);
		} else if (g4_set_rebuild_open(names, d.count, true, &set, &disk, d.message, sizeof(d.message)) < 0) {
			fail_msg("%s", d.message);
		}
		if (g4_set_rebuild_all(set, NULL, d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
		g4_dev_close(set);
		disks_expect_clean(&d, all_of(&d));
		disks_mount(&d, all_of(&d));
		disks_expect_files(&d, FILES, 1);
		disks_unmount(&d);
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
		cmocka_unit_test(a_power_cut_leaves_the_set_with_it_or_without_it),
		cmocka_unit_test(nothing_is_lost_where_the_others_do_not_take_it),
		cmocka_unit_test(the_last_one_is_known_whatever_number_it_says),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
