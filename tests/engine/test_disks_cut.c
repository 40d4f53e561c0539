/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crash cuts short rows with parity that were being written as a whole, and pages rot beside them: of files that were synced before, in the same units of the log's marks.
 * A mount makes parity of the ones and reads the others.
 */
#include "disks.h"
#include "fs/mount_host.h"
#include "fs/rebuild_host.h"
#include "simt/simt_host.h"

#define OLD_PAGES 24u
#define NEW_BYTES (3 * G4_MIB / 2)
#define WRITTEN_BEFORE (60 * G4_PAGE_BYTES)
#define LOG_AT G4_MIB
#define LOG_BYTES G4_MIB
#define CUT_DISKS 5u
#define RESERVED_BYTES (24 * G4_MIB) /* all of the first region of rows */

static const struct level {
	uint32_t disks, parity;
} levels[] = {{4, 1}, {5, 2}, {5, 3}};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

struct cut {
	struct disks d;
	uint64_t old, fresh, reserved; /* inodes */
	uint8_t *before[CUT_DISKS], *crashed[CUT_DISKS];
	uint8_t *data;
	struct {
		uint32_t disk;
		uint64_t at;
	} places[OLD_PAGES];
};

static void copy_disks(const struct cut *t, uint8_t *const *to, bool back)
{
	for (uint32_t n = 0; n < t->d.count; n++)
		rig_copy(back ? t->d.memory[n] : to[n], back ? to[n] : t->d.memory[n], DISK_BYTES);
}

static uint8_t *old_page(uint32_t page)
{
	static _Alignas(G4_PAGE_BYTES) uint8_t memory[G4_PAGE_BYTES];

	rig_pattern(memory, 500 + page, G4_PAGE_BYTES);
	return memory;
}

static void find_old(struct cut *t)
{
	for (uint32_t page = 0; page < OLD_PAGES; page++) {
		const uint8_t *wanted = old_page(page);
		for (uint32_t n = 0; n < t->d.count; n++)
			for (uint64_t at = 2 * G4_MIB; at < DISK_BYTES; at += G4_PAGE_BYTES)
				if (memcmp(t->d.memory[n] + at, wanted, G4_PAGE_BYTES) == 0) {
					t->places[page].disk = n;
					t->places[page].at = at;
				}
	}
}

/* A flush, behind which nothing was written in place. */
static void flush_some(struct cut *t)
{
	uint64_t other, done;

	assert_int_equal(op_mknod(&t->d.rig, G4_NODE_ROOT, "small", G4_S_IFREG | 0644, &other), 0);
	assert_int_equal(op_write(&t->d.rig, other, 0, 0, old_page(77), G4_PAGE_BYTES, &done), 0);
	assert_int_equal(op_sync(&t->d.rig), 0);
}

/* `reserved`: so many bytes lie in front of all that is written, of a set whose disks could not be cleared. */
static void begin_behind(struct cut *t, const struct level *level, uint64_t reserved)
{
	const uint64_t sizes[MOST_DISKS] = {DISK_BYTES, DISK_BYTES, DISK_BYTES, DISK_BYTES, DISK_BYTES};
	uint64_t done;

	memset(t, 0, sizeof(*t));
	t->data = rig_memory(NEW_BYTES, 9);
	disks_make(&t->d, level->disks, sizes);
	disks_format_rows(&t->d, level->parity, G4_CHECKSUM_BLAKE3);
	for (uint32_t n = 0; n < level->disks; n++) {
		t->before[n] = (uint8_t *)malloc(DISK_BYTES);
		t->crashed[n] = (uint8_t *)malloc(DISK_BYTES);
		if (reserved > 0) /* no map says anything of parity */
			memset(t->d.memory[n] + LOG_AT + LOG_BYTES - G4_PAGE_BYTES, 0, G4_PAGE_BYTES);
	}
	disks_mount(&t->d, (1u << level->disks) - 1);
	if (reserved > 0) {
		assert_int_equal(op_mknod(&t->d.rig, G4_NODE_ROOT, "reserved", G4_S_IFREG | 0644, &t->reserved), 0);
		assert_int_equal(op_fallocate(&t->d.rig, t->reserved, 0, 0, reserved), 0);
		/* its parity is made, and then the log begins, and has the map */
		assert_int_equal(op_write(&t->d.rig, t->reserved, 0, reserved / 2, old_page(79), G4_PAGE_BYTES, &done),
				 0);
		assert_int_equal(op_sync(&t->d.rig), 0);
	}
	assert_int_equal(op_mknod(&t->d.rig, G4_NODE_ROOT, "old", G4_S_IFREG | 0644, &t->old), 0);
	for (uint32_t n = 0; n < OLD_PAGES; n++)
		assert_int_equal(op_write(&t->d.rig, t->old, 0, n * G4_PAGE_BYTES, old_page(n), G4_PAGE_BYTES, &done),
				 0);
	assert_int_equal(op_sync(&t->d.rig), 0);
	/* of the newest record recovery verifies the data */
	assert_int_equal(op_mknod(&t->d.rig, G4_NODE_ROOT, "new", G4_S_IFREG | 0644, &t->fresh), 0);
	assert_int_equal(op_sync(&t->d.rig), 0);
}

static void begin(struct cut *t, const struct level *level)
{
	begin_behind(t, level, 0);
}

static void end(struct cut *t)
{
	for (uint32_t n = 0; n < t->d.count; n++) {
		free(t->before[n]);
		free(t->crashed[n]);
	}
	free(t->data);
	disks_free(&t->d);
}

/* Whole rows are written, and the power fails: these disks have nothing of them, but what the log has of them they have. */
static void write_there_and_crash(struct cut *t, uint64_t offset, uint32_t without)
{
	uint64_t done;

	copy_disks(t, t->before, false);
	find_old(t);
	assert_int_equal(op_write(&t->d.rig, t->fresh, 0, offset, t->data, NEW_BYTES, &done), 0);
	copy_disks(t, t->crashed, false);
	disks_unmount(&t->d);
	for (uint32_t n = 0; n < t->d.count; n++)
		if (without >> n & 1) {
			rig_copy(t->before[n] + LOG_AT, t->crashed[n] + LOG_AT, LOG_BYTES);
			rig_copy(t->crashed[n], t->before[n], DISK_BYTES);
		}
}

static void write_and_crash(struct cut *t, uint32_t without)
{
	write_there_and_crash(t, 0, without);
}

/* Of pages of the old file that lie on these disks. How many there were. */
static uint32_t rot_old(struct cut *t, uint32_t disks)
{
	uint32_t rotten = 0;

	for (uint32_t page = 0; page < OLD_PAGES; page++)
		if (disks >> t->places[page].disk & 1) {
			t->d.memory[t->places[page].disk][t->places[page].at + 100 + page] ^= 4;
			rotten++;
		}
	return rotten;
}

static void expect_old(struct cut *t, uint32_t parity, uint32_t rotten, uint32_t missing)
{
	static _Alignas(G4_PAGE_BYTES) uint8_t found[G4_PAGE_BYTES];
	uint64_t done;

	for (uint32_t page = 0; page < OLD_PAGES; page++) {
		const int rc = op_read(&t->d.rig, t->old, 0, page * G4_PAGE_BYTES, found, G4_PAGE_BYTES, &done);
		if (rc < 0 || memcmp(found, old_page(page), G4_PAGE_BYTES) != 0)
			fail_msg("%u parities, disks %x rotten, %x missing: page %u: %s", parity, rotten, missing, page,
				 rc < 0 ? g4_strerror(rc) : "is another");
	}
}

/* As many disks as may be lost have rotten pages, or some of them are missing, whichever. */
static void what_rots_beside_rows_that_were_being_written_is_read(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		const uint32_t all = (1u << levels[l].disks) - 1;
		uint32_t rotten = 0, turn = 0;
		struct cut t;
		begin(&t, &levels[l]);
		write_and_crash(&t, 2);
		for (uint32_t bad = 1; bad <= all; bad++) {
			if ((uint32_t)__builtin_popcount(bad) != levels[l].parity)
				continue;
			const uint32_t missing = turn++ % 2 ? bad & (bad - 1) : 0;
			copy_disks(&t, t.crashed, true);
			rotten += rot_old(&t, bad & ~missing);
			disks_mount(&t.d, all & ~missing);
			expect_old(&t, levels[l].parity, bad & ~missing, missing);
			disks_unmount(&t.d);
		}
		assert_true(rotten > OLD_PAGES / 2);
		end(&t);
	}
}

/* A row that was left as it was, for one of its pages has rotted, keeps what parity has of it when others are written beside it. */
static void what_rotted_beside_them_outlives_other_writes(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		const uint32_t all = (1u << levels[l].disks) - 1;
		uint64_t done;
		struct cut t;
		begin(&t, &levels[l]);
		write_and_crash(&t, 1);
		for (uint32_t bad = 1; bad <= all; bad <<= 1 + l) {
			copy_disks(&t, t.crashed, true);
			if (rot_old(&t, bad) == 0)
				continue;
			disks_mount(&t.d, all);
			for (uint64_t at = 0; at < NEW_BYTES; at += 16 * G4_PAGE_BYTES)
				assert_int_equal(op_write(&t.d.rig, t.fresh, 0, at, t.data + at, G4_PAGE_BYTES, &done),
						 0);
			assert_int_equal(op_sync(&t.d.rig), 0);
			disks_unmount(&t.d);
			disks_mount(&t.d, all);
			expect_old(&t, levels[l].parity, bad, 0);
			disks_unmount(&t.d);
		}
		disks_expect_clean(&t.d, all);
		end(&t);
	}
}

/*
 * Space that was reserved is somebody's before it is written: rows that were being written there look as if a page of theirs had rotted. They get parity all the same, for
 * what is written to them next is lost with its disk else.
 */
static void reserved_space_gets_parity(const struct level *level, uint32_t step, uint64_t offset, bool flushed)
{
	const uint32_t all = (1u << level->disks) - 1;
	uint64_t done;
	struct cut t;

	begin(&t, level);
	assert_int_equal(op_fallocate(&t.d.rig, t.fresh, 0, 0, offset + NEW_BYTES), 0);
	assert_int_equal(op_sync(&t.d.rig), 0);
	if (offset > 0) {
		assert_int_equal(op_write(&t.d.rig, t.fresh, 0, 0, t.data, offset, &done), 0);
		assert_int_equal(op_sync(&t.d.rig), 0);
		if (flushed)
			flush_some(&t);
	}
	write_there_and_crash(&t, offset, 1);
	copy_disks(&t, t.crashed, true);
	disks_mount(&t.d, all);
	for (uint64_t at = 0; at < NEW_BYTES; at += 16 * G4_PAGE_BYTES)
		assert_int_equal(op_write(&t.d.rig, t.fresh, 0, offset + at, t.data + at, G4_PAGE_BYTES, &done), 0);
	assert_int_equal(op_sync(&t.d.rig), 0);
	disks_unmount(&t.d);
	copy_disks(&t, t.crashed, false);
	for (uint32_t n = 0; n < level->disks; n += step) {
		uint8_t *found = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, G4_PAGE_BYTES);
		copy_disks(&t, t.crashed, true);
		disks_mount(&t.d, all & ~(1u << n));
		for (uint64_t at = 0; at < NEW_BYTES; at += 16 * G4_PAGE_BYTES) {
			assert_int_equal(op_read(&t.d.rig, t.fresh, 0, offset + at, found, G4_PAGE_BYTES, &done), 0);
			assert_memory_equal(found, t.data + at, G4_PAGE_BYTES);
		}
		disks_unmount(&t.d);
		free(found);
	}
	end(&t);
}

static void reserved_space_that_was_being_written_gets_parity(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		reserved_space_gets_parity(&levels[l], 1 + l, 0, false);
	/* beside some that was written before, in the same parts of marks: the log says that nothing of it is under way, or would with the next mark */
	reserved_space_gets_parity(&levels[0], 1, WRITTEN_BEFORE, true);
	reserved_space_gets_parity(&levels[0], 1, WRITTEN_BEFORE, false);
}

/*
 * The journal brings home what it has, over pages that have rotted: parity is of what is there then, and not of what had rotted. Pages of sums, of a file of which a page each
 * 2 MiB is written, so many times.
 */
static void images_come_home_over_rotten_pages(const struct level *level, uint32_t versions, uint32_t step)
{
	static _Alignas(G4_PAGE_BYTES) uint8_t found[G4_PAGE_BYTES];
	const uint32_t all = (1u << level->disks) - 1;
	uint64_t done;
	struct cut t;

	begin(&t, level);
	for (uint32_t version = 0; version < versions; version++) {
		for (uint64_t n = 0; n < OLD_PAGES; n++) {
			assert_int_equal(op_write(&t.d.rig, t.fresh, 0, n * 2 * G4_MIB, old_page((uint32_t)n),
						  G4_PAGE_BYTES, &done),
					 0);
			if (versions == 1) /* so that no row of them is whole, and marked */
				assert_int_equal(op_sync(&t.d.rig), 0);
		}
		assert_int_equal(op_sync(&t.d.rig), 0);
		copy_disks(&t, t.crashed, false);
		disks_unmount(&t.d); /* so that the first are home */
		if (version + 1 < versions)
			disks_mount(&t.d, all);
	}
	for (uint32_t bad = 0; bad < level->disks; bad += step) {
		copy_disks(&t, t.crashed, true);
		disks_rot(&t.d, bad);
		disks_mount(&t.d, all);
		disks_unmount(&t.d);
		disks_mount(&t.d, all & ~(1u << bad));
		for (uint64_t n = 0; n < OLD_PAGES; n++) {
			const int rc = op_read(&t.d.rig, t.fresh, 0, n * 2 * G4_MIB, found, G4_PAGE_BYTES, &done);
			if (rc < 0 || memcmp(found, old_page((uint32_t)n), G4_PAGE_BYTES) != 0)
				fail_msg("%u parities, disk %u: page %u: %s", level->parity, bad, (uint32_t)n,
					 g4_strerror(rc));
		}
		disks_unmount(&t.d);
	}
	end(&t);
}

static void images_that_come_home_over_rotten_pages_have_parity(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		images_come_home_over_rotten_pages(&levels[l], 2, 1 + l);
}

/* What had rotted was nobody's. Several parities tell that, for they make the same of it; with one another page of the row may be what has rotted. */
static void the_first_images_of_pages_that_rotted_have_parity(void **state)
{
	(void)state;
	for (uint32_t l = 1; l < LEVELS; l++)
		images_come_home_over_rotten_pages(&levels[l], 1, l);
}

/* A page of the new file that lies on this disk is another, of those that are found. How many there are. */
static uint32_t rot_new(struct cut *t, uint32_t bad)
{
	uint32_t rotten = 0;

	for (uint64_t at = 2 * G4_MIB; at < DISK_BYTES; at += G4_PAGE_BYTES)
		for (uint64_t page = 0; page < NEW_BYTES; page += G4_PAGE_BYTES)
			if (memcmp(t->d.memory[bad] + at, t->data + page, G4_PAGE_BYTES) == 0) {
				t->d.memory[bad][at + 99] ^= 16;
				rotten++;
				break;
			}
	return rotten;
}

/* Space that was reserved, and was written and synced since: what has rotted there is made of parity, as everywhere. `more`: there are other writes like that behind it. */
static void rot_in_reserved_space_that_was_written(const struct level *level, bool more)
{
	const uint32_t all = (1u << level->disks) - 1;
	uint8_t *found = rig_memory(NEW_BYTES, 10);
	uint64_t done;
	struct cut t;

	begin(&t, level);
	assert_int_equal(op_fallocate(&t.d.rig, t.fresh, 0, 0, 2 * NEW_BYTES), 0);
	assert_int_equal(op_sync(&t.d.rig), 0);
	assert_int_equal(op_write(&t.d.rig, t.fresh, 0, 0, t.data, NEW_BYTES, &done), 0);
	assert_int_equal(op_sync(&t.d.rig), 0);
	if (more)
		assert_int_equal(op_write(&t.d.rig, t.fresh, 0, NEW_BYTES, t.data + G4_PAGE_BYTES,
					  NEW_BYTES - G4_PAGE_BYTES, &done),
				 0);
	if (!more)
		flush_some(&t);
	copy_disks(&t, t.crashed, false);
	disks_unmount(&t.d);
	for (uint32_t bad = 0; bad < level->disks; bad++) {
		copy_disks(&t, t.crashed, true);
		assert_true(rot_new(&t, bad) > 0);
		disks_mount(&t.d, all);
		const int rc = op_read(&t.d.rig, t.fresh, 0, 0, found, NEW_BYTES - G4_MIB / 2, &done);
		if (rc < 0 || memcmp(found, t.data, NEW_BYTES - G4_MIB / 2) != 0)
			fail_msg("%u parities, disk %u: %s after %u of %u bytes", level->parity, bad, g4_strerror(rc),
				 (unsigned)done, (unsigned)(NEW_BYTES - G4_MIB / 2));
		disks_unmount(&t.d);
	}
	free(found);
	end(&t);
}

static void what_rots_in_reserved_space_that_was_written_is_read(void **state)
{
	(void)state;
	rot_in_reserved_space_that_was_written(&levels[0], false);
	rot_in_reserved_space_that_was_written(&levels[0], true);
}

/* Disks that could not be cleared, and a region whose parity was made since the log began: it is right behind a crash, and a write there does not make it of what has rotted. */
static void a_region_that_was_made_is_right_behind_a_crash(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < levels[0].disks; bad++) {
		uint64_t done;
		struct cut t;
		begin_behind(&t, &levels[0], RESERVED_BYTES);
		write_and_crash(&t, 0);
		copy_disks(&t, t.crashed, true);
		if (rot_old(&t, 1u << bad) > 0) {
			disks_mount(&t.d, 15);
			for (uint64_t at = 0; at < RESERVED_BYTES; at += G4_MIB) /* all regions */
				assert_int_equal(
					op_write(&t.d.rig, t.reserved, 0, at, old_page(78), G4_PAGE_BYTES, &done), 0);
			assert_int_equal(op_sync(&t.d.rig), 0);
			disks_unmount(&t.d);
			disks_mount(&t.d, 15);
			expect_old(&t, 1, 1u << bad, 0);
			disks_unmount(&t.d);
		}
		end(&t);
	}
}

/* ---- what can not be told ---- */

/* Pages of this type that any disk has are damaged, or made good again. How many there are. */
static uint32_t flip_pages(struct cut *t, uint32_t type)
{
	uint32_t pages = 0;

	for (uint32_t n = 0; n < t->d.count; n++)
		for (uint64_t at = 0; at < DISK_BYTES; at += G4_PAGE_BYTES) {
			const struct g4_block_header *header = (const struct g4_block_header *)(t->d.memory[n] + at);
			if (header->magic != G4_BLOCK_MAGIC || header->type != type)
				continue;
			t->d.memory[n][at + 2000] ^= 8;
			pages++;
		}
	return pages;
}

/*
 * Of each level from `first` on: what a crash has left is used by `use`, after one disk (`bad`, a bit) has rotted where nobody was writing; `each` of them in turn, or fewer
 * of larger levels. A mount behind that has what rotted from parity.
 */
static void use_what_a_crash_left(uint32_t first, bool each, void (*use)(struct cut *t, uint32_t bad, uint32_t turn))
{
	for (uint32_t l = first; l < LEVELS; l++) {
		const uint32_t all = (1u << levels[l].disks) - 1;
		struct cut t;
		begin(&t, &levels[l]);
		write_and_crash(&t, 2);
		for (uint32_t bad = 1, turn = 0; bad <= all; bad <<= each ? 1 : 1 + l, turn++) {
			copy_disks(&t, t.crashed, true);
			if (rot_old(&t, bad) == 0)
				continue;
			use(&t, bad, turn);
			disks_mount(&t.d, all);
			expect_old(&t, levels[l].parity, bad, 0);
			disks_unmount(&t.d);
		}
		end(&t);
	}
}

static void refuse_a_mount(struct cut *t, uint32_t bad, uint32_t turn)
{
	(void)bad, (void)turn;
	assert_true(flip_pages(t, G4_BLOCK_GROUPS) > 0);
	assert_true(disks_try_mount(&t->d, (1u << t->d.count) - 1, false) < 0);
	flip_pages(t, G4_BLOCK_GROUPS);
}

/* A mount that can not go on, for nothing leads to maps, has changed no row: another one behind it, when that can be read, has what rotted from parity. */
static void a_mount_that_is_refused_leaves_rows_as_they_are(void **state)
{
	(void)state;
	use_what_a_crash_left(0, false, refuse_a_mount);
}

/* As who changes something without a mount. */
static int settle(struct disks *d, uint32_t which)
{
	struct g4_dev *dev;
	int rc = disks_open_to_mount(d, which, false, &dev);

	if (rc < 0)
		return rc;
	rc = g4_fs_settle_rows(dev);
	g4_dev_close(dev);
	return rc;
}

static void repair_or_label(struct cut *t, uint32_t bad, uint32_t turn)
{
	const uint32_t all = (1u << t->d.count) - 1;
	struct rig_repair how = {.find_superblock = false};

	(void)bad;
	snprintf(t->d.rig.name, sizeof(t->d.rig.name), "%s", disks_name_of(&t->d, all));
	assert_int_equal(turn % 2 ? rig_repair(&t->d.rig, &how) : settle(&t->d, all), 0);
	free(how.text);
}

/* Who repairs such a set, or changes its label, without a mount before tells what has rotted as a mount does. */
static void a_repair_and_a_new_label_leave_what_rotted_to_parity(void **state)
{
	(void)state;
	use_what_a_crash_left(0, false, repair_or_label);
}

/* Of another disk than the rotten one. */
static void replace_a_disk(struct cut *t, uint32_t bad, uint32_t turn)
{
	const uint32_t lost = bad == 1 ? t->d.count - 1 : 0;
	const char *names[MOST_DISKS];
	uint32_t count = 0, disk;

	(void)turn;
	memset(t->d.memory[lost], 0, DISK_BYTES);
	for (uint32_t n = 0; n < t->d.count; n++)
		if (n != lost)
			names[count++] = t->d.names[n];
	names[count++] = t->d.names[lost];
	if (g4_rebuild_offline(names, count, false, NULL, &disk, t->d.message, sizeof(t->d.message)) < 0)
		fail_msg("%s", t->d.message);
}

/* The same of who lets another disk take the place of one that was lost with the crash: several parities have that, and what has rotted besides. */
static void a_new_disk_leaves_what_rotted_to_parity(void **state)
{
	(void)state;
	use_what_a_crash_left(1, true, replace_a_disk);
}

/* fsck -n, a mount that is read-only: nothing of such a set is changed, and what has rotted is read from parity. */
static void who_only_looks_changes_nothing(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		const uint32_t all = (1u << levels[l].disks) - 1;
		struct g4_dev *dev;
		struct cut t;
		char *text;
		uint32_t bad = 1;
		begin(&t, &levels[l]);
		write_and_crash(&t, 2);
		copy_disks(&t, t.crashed, true);
		while (bad <= all && rot_old(&t, bad) == 0)
			bad <<= 1;
		assert_true(bad <= all);
		copy_disks(&t, t.crashed, false);
		snprintf(t.d.rig.name, sizeof(t.d.rig.name), "%s", disks_name_of(&t.d, all));
		rig_fsck_data(&t.d.rig, 1, &text);
		free(text);
		assert_int_equal(disks_try_open(&t.d, all, false, G4_DEV_READ_ONLY, &dev), 0);
		disks_begin_fs(&t.d, dev, G4_FS_READ_ONLY);
		expect_old(&t, levels[l].parity, bad, 0);
		disks_unmount_fs(&t.d, dev, false);
		for (uint32_t n = 0; n < t.d.count; n++)
			assert_memory_equal(t.d.memory[n], t.crashed[n], DISK_BYTES);
		disks_mount(&t.d, all);
		expect_old(&t, levels[l].parity, bad, 0);
		disks_unmount(&t.d);
		end(&t);
	}
}

/* ---- what it costs ---- */

static uint64_t reads_of(const struct cut *t, const struct faulty *f)
{
	uint64_t all = 0, reads, writes, flushes;

	for (uint32_t n = 0; n < t->d.count; n++) {
		g4_dev_fault_counts(f->fault[n], &reads, &writes, &flushes);
		all += reads;
	}
	return all;
}

static uint64_t order_cut(struct g4_wg *wg, struct g4_dev *set, uint64_t what)
{
	struct g4_dev_order order = {.op = G4_ORDER_ROWS_CUT, .disk = (uint32_t)what};

	assert_int_equal(g4_dev_order(wg, set, &order), 0);
	return order.all;
}

/* Written in place, flushed, and written in place once more, when the log says elsewhere what has ended: that is cut short again, and gets parity. */
static void what_is_written_in_place_again_is_cut_short_again(void **state)
{
	const uint64_t at = 20 * G4_MIB, bytes = G4_MIB;
	uint8_t *first = rig_memory(bytes, 21), *second = rig_memory(bytes, 22), *now = rig_memory(bytes, 23);
	struct g4_wg *wg = g4_wg_create(9);
	struct g4_dev *set;
	struct cut t;

	(void)state;
	begin(&t, &levels[0]);
	disks_unmount(&t.d);
	assert_int_equal(disks_try_open(&t.d, 15, false, 0, &set), 0);
	assert_int_equal(g4_dev_write(wg, set, at, first, bytes, G4_IO_IN_USE), 0);
	assert_int_equal(g4_dev_flush(wg, set), 0);
	copy_disks(&t, t.before, false);
	assert_int_equal(g4_dev_write(wg, set, at, second, bytes, G4_IO_IN_USE), 0);
	assert_int_equal(g4_dev_write(wg, set, at + 8 * G4_MIB, second, bytes, 0), 0);
	copy_disks(&t, t.crashed, false);
	g4_dev_close(set);
	rig_copy(t.before[1] + LOG_AT, t.crashed[1] + LOG_AT, LOG_BYTES);
	rig_copy(t.crashed[1], t.before[1], DISK_BYTES);
	copy_disks(&t, t.crashed, true);
	assert_int_equal(disks_open_to_mount(&t.d, 15, false, &set), 0);
	while (order_cut(wg, set, G4_ROWS_CUT_NEXT) > 0) /* all of it is somebody's */
		(void)order_cut(wg, set, G4_ROWS_CUT_TOLD);
	assert_int_equal(g4_dev_read(wg, set, at, now, bytes), 0);
	g4_dev_close(set);
	for (uint32_t lost = 0; lost < 4; lost++) {
		assert_int_equal(disks_try_open(&t.d, 15 & ~(1u << lost), true, G4_DEV_READ_ONLY, &set), 0);
		assert_int_equal(g4_dev_read(wg, set, at, second, bytes), 0);
		assert_memory_equal(now, second, bytes);
		g4_dev_close(set);
	}
	free(first);
	free(second);
	free(now);
	g4_wg_destroy(wg);
	end(&t);
}

/* Of all that the log has marked one page does not fit: that row alone is read again, whether anything was told of it or not. */
static void rows_that_fit_are_read_once(void **state)
{
	const struct g4_set_options options = {.mounts = true};
	struct g4_wg *wg = g4_wg_create(9);
	const char *names[MOST_DISKS];
	struct faulty f;
	struct cut t;

	(void)state;
	begin(&t, &levels[0]);
	write_and_crash(&t, 0);
	copy_disks(&t, t.crashed, true);
	assert_true(rot_old(&t, 15) > 0);
	disks_wrap_faulty(&t.d, &f);
	for (uint32_t n = 0; n < t.d.count; n++)
		names[n] = t.d.names[n];
	if (g4_set_assemble(f.fault, names, t.d.count, &options, &f.set, t.d.message, sizeof(t.d.message)) < 0)
		fail_msg("%s", t.d.message);
	uint64_t before = reads_of(&t, &f);
	const uint64_t asked = order_cut(wg, f.set, G4_ROWS_CUT_NEXT);
	assert_in_range(asked, 1, OLD_PAGES * (t.d.count - 1));
	/* stripes of 16 KiB of marks of 2 MiB at most, and of those with one that does not fit each page */
	assert_in_range(reads_of(&t, &f) - before, 1, t.d.count * (128 + 4 * asked));
	before = reads_of(&t, &f);
	assert_int_equal(order_cut(wg, f.set, G4_ROWS_CUT_TOLD), 0);
	assert_in_range(reads_of(&t, &f) - before, asked / (t.d.count - 1), 2 * t.d.count * asked);
	assert_int_equal(order_cut(wg, f.set, G4_ROWS_CUT_NEXT), 0);
	g4_dev_close(f.set);
	g4_wg_destroy(wg);
	end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_rots_beside_rows_that_were_being_written_is_read),
		cmocka_unit_test(what_rotted_beside_them_outlives_other_writes),
		cmocka_unit_test(reserved_space_that_was_being_written_gets_parity),
		cmocka_unit_test(images_that_come_home_over_rotten_pages_have_parity),
		cmocka_unit_test(the_first_images_of_pages_that_rotted_have_parity),
		cmocka_unit_test(what_rots_in_reserved_space_that_was_written_is_read),
		cmocka_unit_test(a_region_that_was_made_is_right_behind_a_crash),
		cmocka_unit_test(a_mount_that_is_refused_leaves_rows_as_they_are),
		cmocka_unit_test(a_new_disk_leaves_what_rotted_to_parity),
		cmocka_unit_test(who_only_looks_changes_nothing),
		cmocka_unit_test(a_repair_and_a_new_label_leave_what_rotted_to_parity),
		cmocka_unit_test(what_is_written_in_place_again_is_cut_short_again),
		cmocka_unit_test(rows_that_fit_are_read_once),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
