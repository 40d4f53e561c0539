/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels by file: what a file's policy, or that of its directory, asks for is where its pages lie, however they are written;
 * nothing else lies there; a level that is full is full for its files alone; and what is reserved, claimed and freed of it
 * adds up.
 */
#include "leveled.h"

#define PIECE (3 * G4_PAGE_BYTES + 700)

static void files_lie_where_their_directory_says(void **state)
{
	struct world w;
	uint8_t *data = rig_memory(4 * G4_MIB, 5), *found = rig_memory(4 * G4_MIB, 6);
	uint64_t done = 0, used = 0;

	(void)state;
	for (uint32_t checksum = 0; checksum < 2; checksum++) {
		begin_world(&w, checksum ? G4_CHECKSUM_XXH3 : G4_CHECKSUM_NONE);
		const uint64_t own = make_file(&w, G4_NODE_ROOT, "own"), small = make_file(&w, w.dir, "small"),
			       large = make_file(&w, w.dir, "large"), room = make_file(&w, w.dir, "room");
		used = 0;
		assert_int_equal(op_write(&w.d.rig, own, 0, 0, data, 4 * G4_MIB, &done), 0);
		for (uint64_t at = 0; at < 40 * PIECE; at += PIECE) /* through the cache */
			assert_int_equal(op_write(&w.d.rig, small, 0, at, data + at, PIECE, &done), 0);
		assert_int_equal(op_write(&w.d.rig, large, 0, 0, data, 4 * G4_MIB, &done), 0); /* past it */
		assert_int_equal(op_fallocate(&w.d.rig, room, 0, 0, G4_MIB), 0);
		expect_level(&w, own, G4_LEVEL_OWN);
		used += expect_level(&w, small, LEVEL);
		used += expect_level(&w, large, LEVEL);
		used += expect_level(&w, room, LEVEL);
		assert_true(used >= (4 * G4_MIB + G4_MIB) / G4_PAGE_BYTES);
		expect_free(&w, used);
		/* written again, what was allocated, too */
		assert_int_equal(op_write(&w.d.rig, large, 0, 5, data, G4_MIB, &done), 0);
		assert_int_equal(op_write(&w.d.rig, room, 0, 9000, data, 50000, &done), 0);
		used = expect_level(&w, small, LEVEL) + expect_level(&w, large, LEVEL) + expect_level(&w, room, LEVEL);
		expect_free(&w, used);
		disks_unmount_fs(&w.d, w.set, true);
		disks_expect_clean(&w.d, all(&w));
		/* after a mount, without a disk */
		disks_mount_fs(&w.d, all(&w) & ~2u, &w.set);
		expect_free(&w, used);
		assert_int_equal(op_read(&w.d.rig, large, 0, 5, found, G4_MIB, &done), 0);
		assert_memory_equal(found, data, G4_MIB);
		assert_int_equal(op_unlink(&w.d.rig, w.dir, "large"), 0);
		assert_int_equal(op_truncate(&w.d.rig, small, 0), 0);
		assert_int_equal(op_unlink(&w.d.rig, w.dir, "room"), 0);
		expect_free(&w, 0);
		disks_unmount_fs(&w.d, w.set, true);
		free_world(&w);
	}
	free(data);
	free(found);
}

static void a_level_is_full_for_its_files_alone(void **state)
{
	struct world w;
	struct g4_statfs before, after;
	uint8_t *data = rig_memory(G4_MIB, 5);
	uint64_t done = 0, at = 0, used;

	(void)state;
	begin_world(&w, G4_CHECKSUM_NONE);
	const uint64_t own = make_file(&w, G4_NODE_ROOT, "own"), file = make_file(&w, w.dir, "file"),
		       other = make_file(&w, w.dir, "other");
	assert_int_equal(op_statfs(&w.d.rig, &before), 0);
	while (op_write(&w.d.rig, file, 0, at, data, G4_MIB, &done) == 0 && done == G4_MIB)
		at += G4_MIB;
	/* to the last page, a page at a time */
	assert_int_equal(op_sync(&w.d.rig), 0);
	at = (at + G4_MIB) & ~(G4_MIB - 1);
	while (op_write(&w.d.rig, other, 0, at, data, G4_PAGE_BYTES, &done) == 0 && done > 0) {
		at += G4_PAGE_BYTES;
		assert_int_equal(op_sync(&w.d.rig), 0);
	}
	used = expect_level(&w, file, LEVEL) + expect_level(&w, other, LEVEL);
	assert_int_equal(used, w.free_at_first);
	expect_free(&w, used);
	assert_int_equal(op_fallocate(&w.d.rig, other, 0, 0, G4_PAGE_BYTES), -G4_E_NOSPC);
	/* the others may go on, as far as their own goes, and never there */
	assert_int_equal(op_statfs(&w.d.rig, &after), 0);
	assert_true(after.blocks_free <= before.blocks_free - used);
	assert_true(after.blocks_available > 0 && after.blocks_available + 64 > before.blocks_available);
	for (at = 0; op_write(&w.d.rig, own, 0, at, data, G4_MIB, &done) == 0 && done == G4_MIB;)
		at += G4_MIB;
	assert_true(at >= G4_MIB);
	expect_level(&w, own, G4_LEVEL_OWN);
	assert_int_equal(op_unlink(&w.d.rig, w.dir, "file"), 0);
	assert_int_equal(op_unlink(&w.d.rig, w.dir, "other"), 0);
	expect_free(&w, 0);
	assert_true(op_write(&w.d.rig, own, 0, at, data, G4_MIB, &done) < 0 || done < G4_MIB);
	free(data);
	end_world(&w);
}

/* A page that is cut is written elsewhere before the old one is free; what a link says is a page more. */
static void files_of_a_full_level_can_be_cut(void **state)
{
	struct world w;
	uint8_t *data = rig_memory(G4_MIB, 5), *found = rig_memory(G4_MIB, 6);
	uint64_t done = 0, at = 0, link;
	char target[600];

	(void)state;
	begin_world(&w, G4_CHECKSUM_NONE);
	const uint64_t file = make_file(&w, w.dir, "file"), other = make_file(&w, w.dir, "other");
	while (op_write(&w.d.rig, file, 0, at, data, G4_MIB, &done) == 0 && done == G4_MIB)
		at += G4_MIB;
	assert_int_equal(op_sync(&w.d.rig), 0);
	for (at = 0; op_write(&w.d.rig, other, 0, at, data, G4_PAGE_BYTES, &done) == 0 && done > 0;) {
		at += G4_PAGE_BYTES;
		assert_int_equal(op_sync(&w.d.rig), 0);
	}
	assert_int_equal(g4_alloc_free_in(&w.d.rig.fs->alloc, LEVEL), 0);
	memset(target, 'x', sizeof(target) - 1);
	target[sizeof(target) - 1] = 0;
	assert_int_equal(op_symlink(&w.d.rig, w.dir, "link", target, &link), 0);
	assert_int_equal(op_truncate(&w.d.rig, file, 5000), 0);
	assert_int_equal(op_sync(&w.d.rig), 0);
	assert_int_equal(op_read(&w.d.rig, file, 0, 0, found, G4_MIB, &done), 0);
	assert_int_equal(done, 5000);
	assert_memory_equal(found, data, 5000);
	assert_int_equal(op_unlink(&w.d.rig, w.dir, "file"), 0);
	assert_int_equal(op_unlink(&w.d.rig, w.dir, "other"), 0);
	assert_int_equal(op_unlink(&w.d.rig, w.dir, "link"), 0);
	expect_free(&w, 0);
	free(data);
	free(found);
	end_world(&w);
}

static void what_there_is_none_of_is_refused(void **state)
{
	struct world w;
	char word[16];
	uint64_t done = 0;

	(void)state;
	begin_world(&w, G4_CHECKSUM_NONE);
	assert_int_equal(op_setxattr(&w.d.rig, w.dir, "gpu4fs.raid", "6", 1, 0), -G4_E_NOTSUP);
	assert_int_equal(op_setxattr(&w.d.rig, w.dir, "gpu4fs.raid", "0", 1, 0), -G4_E_NOTSUP);
	assert_int_equal(op_setxattr(&w.d.rig, w.dir, "gpu4fs.raid", "7", 1, 0), -G4_E_INVAL);
	/* what all have */
	const uint64_t file = make_file(&w, w.dir, "file");
	assert_int_equal(op_getxattr(&w.d.rig, file, "gpu4fs.raid", word, sizeof(word), &done), 0);
	assert_int_equal(done, 1);
	assert_int_equal(word[0], '5');
	assert_int_equal(op_setxattr(&w.d.rig, file, "gpu4fs.raid", "1", 1, 0), 0);
	uint8_t *data = rig_memory(G4_MIB, 5);
	assert_int_equal(op_write(&w.d.rig, file, 0, 0, data, G4_MIB, &done), 0);
	expect_level(&w, file, G4_LEVEL_OWN);
	/* what is written later goes elsewhere */
	assert_int_equal(op_setxattr(&w.d.rig, file, "gpu4fs.raid", "5", 1, 0), 0);
	assert_int_equal(op_write(&w.d.rig, file, 0, 0, data, G4_MIB, &done), 0);
	expect_free(&w, expect_level(&w, file, LEVEL));
	free(data);
	end_world(&w);
}

static void files_of_both_survive_any_disk(void **state)
{
	struct world w;
	uint8_t *data = rig_memory(2 * G4_MIB, 5), *found = rig_memory(2 * G4_MIB, 6);
	uint64_t done = 0;

	(void)state;
	begin_world(&w, G4_CHECKSUM_NONE);
	const uint64_t own = make_file(&w, G4_NODE_ROOT, "own"), file = make_file(&w, w.dir, "file");
	for (uint32_t lost = 0; lost < w.d.count; lost++) {
		/* it is rebuilt with the next mount: what it missed is of both levels */
		assert_int_equal(op_write(&w.d.rig, own, 0, lost * 70000, data, 2 * G4_MIB, &done), 0);
		assert_int_equal(op_write(&w.d.rig, file, 0, lost * 70000, data, 2 * G4_MIB, &done), 0);
		disks_unmount_fs(&w.d, w.set, true);
		disks_mount_fs(&w.d, all(&w) & ~(1u << lost), &w.set);
		for (uint32_t k = 0; k < 2; k++) {
			assert_int_equal(op_read(&w.d.rig, k ? file : own, 0, lost * 70000, found, 2 * G4_MIB, &done),
					 0);
			assert_memory_equal(found, data, 2 * G4_MIB);
		}
		assert_int_equal(op_write(&w.d.rig, file, 0, 0, data, 70000, &done), 0);
		begin(&w.d, G4_DISK_REBUILD, lost);
		finish(&w.d);
	}
	free(data);
	free(found);
	end_world(&w);
}

/* Its own level and the other one, by turns; what is left of the old disks is there for both. */
static void a_disk_and_more_of_a_level_are_added_while_it_is_used(void **state)
{
	struct world w;
	uint8_t *data = rig_memory(G4_MIB, 5), *found = rig_memory(G4_MIB, 6);
	const struct g4_mount_options options = {.commit_ms = 1000000, .cache_bytes = 16 * G4_MIB};
	uint64_t done = 0, inos[8];
	uint32_t files = 0;
	char name[16];

	(void)state;
	begin_part(&w, G4_CHECKSUM_NONE, 8 * G4_MIB);
	disks_unmount_fs(&w.d, w.set, true);
	assert_int_equal(disks_try_open(&w.d, all(&w), false, 0, &w.set), 0);
	memset(&w.d.rig, 0, sizeof(w.d.rig));
	assert_int_equal(g4_engine_mount_device(w.set, &options, &w.d.rig.engine, w.d.message, sizeof(w.d.message)), 0);
	for (uint32_t step = 0; step < 4; step++) {
		struct g4_cmd more = {.op = G4_CMD_DISK,
				      .mask = G4_DISK_ASSIGN,
				      .number = LEVEL,
				      .name = "6291456",
				      .name_bytes = 7,
				      .data = w.d.message,
				      .length = sizeof(w.d.message)};
		for (uint32_t k = 0; k < 2; k++, files++) {
			snprintf(name, sizeof(name), "f%u", files);
			inos[files] = make_file(&w, k ? w.dir : G4_NODE_ROOT, name);
			assert_int_equal(op_write(&w.d.rig, inos[files], 0, 0, data, G4_MIB, &done), 0);
		}
		if (step == 1) {
			begin(&w.d, G4_DISK_ADD, w.d.count);
			w.d.count++;
		} else if (step < 3 && g4_engine_execute(w.d.rig.engine, &more) < 0) {
			fail_msg("%s", w.d.message);
		}
		for (uint32_t n = 0; n < files; n++)
			expect_level(&w, inos[n], n % 2 ? LEVEL : G4_LEVEL_OWN);
	}
	disks_unmount(&w.d);
	disks_expect_clean(&w.d, all(&w));
	for (uint32_t lost = 0; lost < w.d.count; lost++) {
		assert_int_equal(disks_try_open(&w.d, all(&w) & ~(1u << lost), false, G4_DEV_READ_ONLY, &w.set), 0);
		disks_begin_fs(&w.d, w.set, G4_FS_READ_ONLY);
		for (uint32_t n = 0; n < files; n++) {
			assert_int_equal(op_read(&w.d.rig, inos[n], 0, 0, found, G4_MIB, &done), 0);
			assert_memory_equal(found, data, G4_MIB);
		}
		disks_unmount_fs(&w.d, w.set, true);
	}
	free(data);
	free(found);
	free_world(&w);
}

static void note_largest(void *context, const struct g4_io *io)
{
	uint64_t *largest = (uint64_t *)context;

	if (io->op == G4_IO_DISCARD)
		*largest = g4_max64(*largest, io->discard_bytes);
}

/* What is being discarded nobody can have meanwhile: little of a level that has little. */
static void discarding_leaves_room_at_each_level(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_NONE, .leave_percent = 40};
	uint64_t sizes[MOST_DISKS], bytes, largest = 0, done = 0;
	struct faulty f;
	struct world w;

	(void)state;
	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = 2 * BYTES;
	disks_make(&w.d, 3, sizes);
	disks_format_plan(&w.d, &plan, G4_CHECKSUM_NONE);
	assert_int_equal(disks_try_open(&w.d, all(&w), false, 0, &w.set), 0);
	if (g4_set_assign_to(w.set, G4_LEVEL_STRIPED, 8 * G4_MIB, w.d.message, sizeof(w.d.message)) < 0 ||
	    g4_resize_device(w.set, 0, &bytes, w.d.message, sizeof(w.d.message)) < 0)
		fail_msg("%s", w.d.message);
	g4_dev_close(w.set);
	mount_faulty(&w.d, &f, NULL);
	for (uint32_t n = 0; n < w.d.count; n++)
		g4_dev_fault_watch(f.fault[n], note_largest, &largest);
	const uint64_t share = g4_alloc_free_in(&w.d.rig.fs->alloc, G4_LEVEL_STRIPED) / 16;
	assert_true(share > 64 && share < w.d.rig.fs->alloc.free_pages / 32);
	assert_int_equal(op_trim(&w.d.rig, 0, UINT64_MAX, 0, &done), 0);
	assert_true(done > 16 * G4_MIB);
	assert_true(largest > 0 && largest <= share * G4_PAGE_BYTES);
	disks_unmount_fs(&w.d, f.set, true);
	disks_expect_clean(&w.d, all(&w));
	disks_free(&w.d);
}

/* A byte of a page on all disks that have it in a chunk. */
static void flip_page(struct world *w, const struct g4_chunk *chunk, uint64_t page)
{
	assert_int_equal(chunk->columns, 1);
	for (uint32_t c = 0; c < chunk->copies; c++) {
		const uint64_t within = g4_place_address(chunk->places[c]) + page - chunk->address;
		w->d.memory[g4_place_disk(chunk->places[c])][within + 100] ^= 1;
	}
}

/* Of the group in which the level begins: what is free of it is promised to nobody, at any level, and all else goes on. */
static void a_damaged_map_page_does_not_keep_files_from_being_used(void **state)
{
	struct world w;
	uint8_t *data = rig_memory(G4_MIB, 5), *found = rig_memory(G4_MIB, 6);
	struct g4_chunk chunk, at_page;
	uint64_t done = 0, border = 0;

	(void)state;
	begin_sized(&w, G4_CHECKSUM_NONE, 0, 4 * BYTES); /* another group than that of the root */
	const uint64_t file = make_file(&w, w.dir, "file");
	assert_int_equal(op_write(&w.d.rig, file, 0, 0, data, G4_MIB, &done), 0);
	for (uint32_t n = 0; border == 0 && g4_set_chunk(w.set, n, &chunk); n++)
		border = chunk.level ? chunk.address : 0;
	const uint64_t page =
		g4_address_page(g4_layout_map_page(&w.d.rig.fs->meta.layout, border / G4_GROUP_BYTES)) * G4_PAGE_BYTES;
	assert_true(border % G4_GROUP_BYTES != 0 && border > G4_GROUP_BYTES);
	for (uint32_t n = 0; g4_set_chunk(w.set, n, &at_page); n++)
		if (page >= at_page.address && page - at_page.address < at_page.bytes)
			break;
	disks_unmount_fs(&w.d, w.set, true);
	flip_page(&w, &at_page, page);
	assert_int_equal(disks_try_open(&w.d, all(&w), false, G4_DEV_READ_ONLY, &w.set), 0);
	disks_begin_fs(&w.d, w.set, G4_FS_READ_ONLY);
	assert_int_equal(op_read(&w.d.rig, file, 0, 0, found, G4_MIB, &done), 0);
	assert_memory_equal(found, data, G4_MIB);
	disks_unmount_fs(&w.d, w.set, true);
	mount_world(&w);
	/* behind its end is that group, which is passed over */
	for (uint64_t at = 0; at < G4_MIB; at += at ? G4_MIB - G4_PAGE_BYTES : (uint64_t)G4_PAGE_BYTES) {
		assert_int_equal(op_write(&w.d.rig, file, 0, G4_MIB + at, data + at,
					  at ? G4_MIB - G4_PAGE_BYTES : (uint64_t)G4_PAGE_BYTES, &done),
				 0);
		assert_int_equal(op_fsync(&w.d.rig, file), 0);
	}
	for (uint32_t k = 0; k < 2; k++) { /* of the level, then of the file system's own */
		const uint64_t full = make_file(&w, k ? (uint64_t)G4_NODE_ROOT : w.dir, "full");
		uint64_t at = 0;
		int rc = 0;
		for (; rc == 0; at += rc == 0 ? done : 0)
			rc = op_write(&w.d.rig, full, 0, at, data, G4_MIB, &done);
		assert_int_equal(rc, -G4_E_NOSPC);
		assert_int_equal(op_fsync(&w.d.rig, full), 0);
		assert_true(at > 8 * G4_MIB);
		for (uint64_t from = 0; from + G4_MIB <= at; from += G4_MIB) {
			assert_int_equal(op_read(&w.d.rig, full, 0, from, found, G4_MIB, &done), 0);
			assert_memory_equal(found, data, G4_MIB);
		}
	}
	for (uint64_t at = 0; at < 2 * G4_MIB; at += G4_MIB) {
		assert_int_equal(op_read(&w.d.rig, file, 0, at, found, G4_MIB, &done), 0);
		assert_memory_equal(found, data, G4_MIB);
	}
	/* a page that can be read after all: what was in use is freed, and used again */
	flip_page(&w, &at_page, page);
	assert_int_equal(op_unlink(&w.d.rig, G4_NODE_ROOT, "full"), 0);
	assert_int_equal(op_sync(&w.d.rig), 0);
	const uint64_t left = w.d.rig.fs->alloc.pool_free[LEVEL];
	assert_int_equal(op_unlink(&w.d.rig, w.dir, "file"), 0);
	assert_int_equal(op_sync(&w.d.rig), 0);
	assert_int_equal(w.d.rig.fs->alloc.pool_free[LEVEL] - left, 2 * G4_MIB / G4_PAGE_BYTES);
	const uint64_t again = make_file(&w, w.dir, "again");
	assert_int_equal(op_write(&w.d.rig, again, 0, 0, data, G4_MIB, &done), 0);
	assert_int_equal(op_read(&w.d.rig, again, 0, 0, found, G4_MIB, &done), 0);
	assert_memory_equal(found, data, G4_MIB);
	disks_unmount_fs(&w.d, w.set, true);
	disks_expect_clean(&w.d, all(&w));
	mount_world(&w);
	disks_unmount_fs(&w.d, w.set, true);
	free(data);
	free(found);
	free_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_lie_where_their_directory_says),
		cmocka_unit_test(a_level_is_full_for_its_files_alone),
		cmocka_unit_test(files_of_a_full_level_can_be_cut),
		cmocka_unit_test(discarding_leaves_room_at_each_level),
		cmocka_unit_test(what_there_is_none_of_is_refused),
		cmocka_unit_test(a_damaged_map_page_does_not_keep_files_from_being_used),
		cmocka_unit_test(files_of_both_survive_any_disk),
		cmocka_unit_test(a_disk_and_more_of_a_level_are_added_while_it_is_used),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
