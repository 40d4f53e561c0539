/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records that lie in the log long after their transactions went home. Where the journal's header is lost, or older than
 * what the superblocks say, they must not be taken for what is still to be replayed: that would put old metadata over new.
 */
#include "rig.h"

#include <sys/stat.h>
#include <unistd.h>

#include "fs/fs.h"
#include "fs/mount_host.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (32 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define FILES 200u
#define TEXT_BYTES 90u /* in the inode */
#define PAGE G4_PAGE_BYTES

static struct rig rig;
static struct g4_wg *wg;
static uint64_t nodes[FILES];
static uint8_t header[PAGE];			/* of the journal, as a mount found it */
static uint8_t superblock[PAGE];		/* the first one, the same */
static const struct g4_journal_header *journal; /* in the image */

static int setup(void **state)
{
	(void)state;
	wg = g4_wg_create(0);
	rig_open(&rig, DEVICE_BYTES, JOURNAL_BYTES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(&rig);
	g4_wg_destroy(wg);
	return 0;
}

static void mount(void)
{
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	rig.wg = wg;
	journal = (const void *)(rig.image + rig.fs->meta.layout.journal_address);
}

static void stop(bool clean)
{
	rig_unmount_fs(&rig, wg, rig.fs, clean);
	rig.fs = NULL;
}

static void name_of(char name[16], uint32_t file)
{
	snprintf(name, 16, "f%u", file);
}

/* What a mount writes, to be put back later. */
static void remember(void)
{
	memcpy(header, journal, PAGE);
	memcpy(superblock, rig.image + G4_SUPERBLOCK_ADDRESS, PAGE);
}

/* Files in some transactions, their contents in later ones. Everything is home, and the log is as long as it was. */
static void make(void)
{
	uint8_t text[TEXT_BYTES];
	char name[16];

	mount();
	remember();
	for (uint32_t file = 0; file < FILES; file++) {
		name_of(name, file);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, S_IFREG | 0644, &nodes[file]), 0);
		if (file % 40 == 0)
			assert_int_equal(op_sync(&rig), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t file = 0; file < FILES; file++) {
		rig_pattern(text, file + 1, sizeof(text));
		assert_int_equal(op_write(&rig, nodes[file], 0, 0, text, sizeof(text), NULL), 0);
	}
	assert_int_equal(g4_sync_all(wg, rig.fs, true), 0);
}

static void expect_files(void)
{
	uint8_t wanted[TEXT_BYTES], found[TEXT_BYTES];
	uint32_t empty = 0;
	char name[16];

	mount();
	for (uint32_t file = 0; file < FILES; file++) {
		struct g4_attr attr;
		uint64_t bytes = 0;
		name_of(name, file);
		assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, name, &attr), 0);
		assert_int_equal(op_read(&rig, attr.ino, 0, 0, found, sizeof(found), &bytes), 0);
		rig_pattern(wanted, file + 1, sizeof(wanted));
		empty += bytes != sizeof(found) || memcmp(found, wanted, sizeof(found)) != 0;
	}
	if (empty != 0)
		fail_msg("%u of %u files are empty", empty, FILES);
	stop(true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after a mount");
}

/* The page behind the newest record is where the tail stands: what is before it is the record's commit page. */
static void damage_newest_record(void)
{
	uint8_t *log = (uint8_t *)(uintptr_t)journal + PAGE;

	assert_true(journal->tail_page > 0);
	log[(journal->tail_page - 1) * PAGE + 50] ^= 1;
}

static void damage_header(void)
{
	((uint8_t *)(uintptr_t)journal)[40] ^= 1;
}

/* Repairs; the image must be whole afterwards. */
static struct rig_repair repair(bool find)
{
	struct rig_repair how = {.find_superblock = find};

	if (rig_repair(&rig, &how) < 0)
		fail_msg("%s", how.words);
	assert_true(how.found > 0);
	assert_int_equal(how.outcome[2], find); /* lost: the label, where there is no superblock */
	rig_expect_clean(&rig, RIG_ANY_FREE, "after a repair");
	free(how.text);
	return how;
}

/* ------------------------------------------------------------------ after a clean unmount */

static void make_clean(void)
{
	make();
	stop(true);
	damage_newest_record();
	damage_header();
}

static void a_mount_replays_nothing_that_is_home(void **state)
{
	(void)state;
	make_clean();
	expect_files();
}

static void a_repair_replays_nothing_that_is_home(void **state)
{
	struct rig_repair how;

	(void)state;
	make_clean();
	how = repair(false);
	assert_int_equal(how.outcome[1], 0); /* the superblock says that nothing can have been lost */
	expect_files();
}

static void the_first_64_kib(void **state)
{
	(void)state;
	make();
	stop(true);
	damage_newest_record();
	memset(rig.image, 0, 64 * G4_KIB);
	repair(false);
	expect_files();
}

/* Not even a superblock is left to ask: metadata in place is newer than the records. */
static void both_superblocks_and_the_header(void **state)
{
	(void)state;
	make_clean();
	memset(rig.image, 0, 3 * PAGE);
	memset(rig.image + DEVICE_BYTES - PAGE, 0, PAGE);
	repair(true);
	expect_files();
}

/* What a mount writes next has a higher number than all that was written before. */
static void sequences_never_go_back(void **state)
{
	uint64_t generation;

	(void)state;
	make_clean();
	generation = ((const struct g4_block_header *)(rig.image + DEVICE_BYTES - PAGE))->generation;
	assert_true(generation > 6);
	mount();
	assert_true(rig.fs->journal.running > generation);
	stop(true);
}

/* ------------------------------------------------------------------ a header that is whole and old */

static void a_header_from_before(void **state)
{
	char *text = NULL;

	(void)state;
	make();
	stop(true);
	damage_newest_record();
	memcpy((void *)(uintptr_t)journal, header, PAGE);
	assert_true(rig_fsck(&rig, &text).problems > 0);
	free(text);
	repair(false);
	expect_files();
}

static void a_header_from_before_is_no_tail(void **state)
{
	(void)state;
	make();
	stop(true);
	damage_newest_record();
	memcpy((void *)(uintptr_t)journal, header, PAGE);
	expect_files();
}

/* As if the first copy had never been written since the mount, which the drive said it had. */
static void of_two_superblocks_the_newer_counts(void **state)
{
	struct rig_repair how;

	(void)state;
	for (uint32_t mended = 0; mended < 2; mended++) {
		if (mended)
			teardown(state), setup(state);
		make_clean();
		memcpy(rig.image + G4_SUPERBLOCK_ADDRESS, superblock, PAGE);
		if (mended) {
			how = repair(false);
			assert_int_equal(how.outcome[1], 0);
		}
		expect_files();
	}
}

/* ------------------------------------------------------------------ after a crash */

/* All is home, the tail stands behind it, and the power goes: the superblocks say only what was home at the mount. */
static void after_a_crash(void **state)
{
	struct g4_fs *fs;
	struct rig_repair how;

	(void)state;
	make();
	stop(false);
	damage_newest_record();
	damage_header();
	assert_int_equal(rig_try_mount_fs(&rig, wg, NULL, &fs), -G4_E_JOURNAL_OLD);
	how = repair(false);
	assert_true(how.outcome[1] > 0); /* whether there was more nobody can tell */
	expect_files();
}

/* A superblock that is written while the log is in use does not say that what the log holds is home. */
static void a_resize_tells_only_what_is_home(void **state)
{
	uint64_t limit, ino;
	struct g4_attr attr;

	(void)state;
	mount();
	assert_int_equal(g4_resize(wg, rig.fs, DEVICE_BYTES - 4 * G4_MIB, true, &limit), 0);
	stop(true);
	make();
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "only in the log", S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_resize(wg, rig.fs, DEVICE_BYTES, false, &limit), 0);
	stop(false);
	damage_header();
	mount();
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "only in the log", &attr), 0);
	stop(true);
	expect_files();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_mount_replays_nothing_that_is_home, setup, teardown),
		cmocka_unit_test_setup_teardown(a_repair_replays_nothing_that_is_home, setup, teardown),
		cmocka_unit_test_setup_teardown(the_first_64_kib, setup, teardown),
		cmocka_unit_test_setup_teardown(both_superblocks_and_the_header, setup, teardown),
		cmocka_unit_test_setup_teardown(sequences_never_go_back, setup, teardown),
		cmocka_unit_test_setup_teardown(a_header_from_before, setup, teardown),
		cmocka_unit_test_setup_teardown(a_header_from_before_is_no_tail, setup, teardown),
		cmocka_unit_test_setup_teardown(of_two_superblocks_the_newer_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(after_a_crash, setup, teardown),
		cmocka_unit_test_setup_teardown(a_resize_tells_only_what_is_home, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
