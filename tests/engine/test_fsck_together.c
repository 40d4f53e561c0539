/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker says and repairs the same with any number of threads: on a whole image, and on ones with damage of the kind
 * that only shows when what several threads have found is put together.
 */
#include "damage.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "fs/mount_host.h"
#include "fsck/fsck.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define DIRECTORIES 40u
#define FILES 12u
#define MANY 4500u /* more than one thread takes of a directory at a time */
#define PAGES_DAMAGED 24

static struct rig rig;
static struct g4_wg *wg;
static uint8_t *whole; /* the image before any damage */
static uint64_t dirs[DIRECTORIES], files[DIRECTORIES][FILES], shared[DIRECTORIES], fragmented;

static void must(int rc)
{
	assert_true(rc >= 0);
}

/* A page of 2 MiB that several files have, and its pages of sums: owners that several threads meet. One has it divided. */
static void share_large(void)
{
	uint8_t *bytes = rig_memory(G4_REGION_BYTES, 9);
	uint64_t first, copy, from, to, done;
	struct g4_run run;

	must(op_mknod(&rig, dirs[0], "large", S_IFREG | 0644, &first));
	must(op_write(&rig, first, 0, 0, bytes, G4_REGION_BYTES, NULL));
	must(op_fsync(&rig, first));
	rig_run_at(&rig, first, 0, &run);
	assert_int_equal(run.level, 1);
	must(op_open(&rig, first, G4_OPEN_READ, &from));
	for (uint32_t d = 1; d < DIRECTORIES; d += 2) {
		must(op_mknod(&rig, dirs[d], "copy of the large one", S_IFREG | 0644, &copy));
		must(op_open(&rig, copy, G4_OPEN_WRITE, &to));
		must(op_copy(&rig, from, 0, to, 0, G4_REGION_BYTES, &done));
		assert_int_equal(done, G4_REGION_BYTES);
		must(op_release(&rig, to));
	}
	must(op_write(&rig, copy, 0, 5 * G4_PAGE_BYTES, bytes, G4_PAGE_BYTES, NULL));
	must(op_release(&rig, from));
	free(bytes);
}

static void populate(void)
{
	char name[64], page[4096];

	rig_pattern(page, 1, sizeof(page));
	for (uint32_t d = 0; d < DIRECTORIES; d++) {
		snprintf(name, sizeof(name), "directory %u", d);
		must(op_mkdir(&rig, d < 4 ? G4_NODE_ROOT : dirs[d / 4], name, 0755, &dirs[d]));
		for (uint32_t f = 0; f < FILES; f++) {
			snprintf(name, sizeof(name), "file %u of %u", f, d);
			must(op_mknod(&rig, dirs[d], name, S_IFREG | 0644, &files[d][f]));
			must(op_write(&rig, files[d][f], 0, 0, page, f % 3 == 0 ? 60 : sizeof(page), NULL));
		}
		must(op_setxattr(&rig, files[d][0], "user.note", page, 3000, 0));
		must(op_symlink(&rig, dirs[d], "link", "file", &fragmented));
		must(op_mknod(&rig, dirs[d], "empty", S_IFREG | 0644, &shared[d]));
		if (d >= 8)
			must(op_link(&rig, shared[d], dirs[d - 8], "empty of another"));
		if (d > 0)
			must(op_link(&rig, files[d / 2][1], dirs[d], "another name"));
	}
	must(op_mknod(&rig, G4_NODE_ROOT, "fragmented", S_IFREG | 0644, &fragmented));
	for (uint64_t i = 0; i < 600; i++)
		must(op_write(&rig, fragmented, 0, i * 3 * sizeof(page), page, sizeof(page), NULL));
	uint64_t dir, node;
	must(op_mkdir(&rig, G4_NODE_ROOT, "many", 0755, &dir));
	for (uint32_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "%u", i);
		must(op_mknod(&rig, dir, name, S_IFREG | 0644, &node));
	}
	share_large();
}

static int setup(void **state)
{
	(void)state;
	wg = g4_wg_create(0);
	rig_open(&rig, DEVICE_BYTES, JOURNAL_BYTES);
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	rig.wg = wg;
	populate();
	rig_unmount_fs(&rig, wg, rig.fs, true);
	rig.fs = NULL;
	whole = malloc(rig.bytes);
	assert_non_null(whole);
	rig_copy(whole, rig.image, rig.bytes);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(whole);
	rig_close(&rig);
	g4_wg_destroy(wg);
	return 0;
}

static void restore(void)
{
	rig_copy(rig.image, whole, rig.bytes);
}

/* ------------------------------------------------------------------ what the checker says */

/* All it says and counts; free it. */
static char *examine(const char *what, uint32_t threads, bool repair, uint64_t *problems)
{
	static struct g4_fsck fsck;
	const struct g4_fsck_repair_options options = {.dry_run = false};
	struct g4_journal_state journal;
	struct g4_image image = {.name = NULL};
	char message[512] = "";
	char *text = NULL;
	size_t bytes;

	memset(&fsck, 0, sizeof(fsck));
	fsck.out = open_memstream(&text, &bytes);
	fsck.printed_limit = UINT64_MAX;
	fsck.threads = threads;
	if (repair) {
		must(g4_fsck_repair_device(&fsck, &image, rig.name, &options, &journal, message, sizeof(message)));
	} else {
		must(g4_image_open(&image, rig.name, message, sizeof(message)));
		must(g4_image_load_overlay(&image, &journal));
		must(g4_fsck_run(&fsck, &image, &journal));
		fsck.found = fsck.problems;
	}
	*problems = fsck.found;
	/* Several threads have found it whole; else one would have walked the tree once more. */
	if (threads > 1 && fsck.found == 0 && fsck.by_outcome[G4_FSCK_REPAIRED] == 0 && fsck.dir_count != 0)
		fail_msg("%s%s: one thread has looked after %u had stopped", what, repair ? ", repaired" : "", threads);
	fprintf(fsck.out,
		"%" PRIu64 " %" PRIu64 " files %" PRIu64 " directories %" PRIu64 " links %" PRIu64 " others %" PRIu64
		" orphans %" PRIu64 " pages %" PRIu64 " of %" PRIu64 " slabs %" PRIu64 "\n",
		fsck.found, fsck.problems, fsck.files, fsck.directories, fsck.symlinks, fsck.others, fsck.orphan_count,
		fsck.pages_met, fsck.pages_marked, fsck.slabs.count);
	for (uint64_t i = 0; i < fsck.change_count; i++)
		fprintf(fsck.out, "%s %.*s %" PRIu64 "+%" PRIu64 " %s\n", g4_fsck_outcome_name(fsck.changes[i].outcome),
			(int)fsck.changes[i].path_bytes, fsck.changes[i].path == NULL ? "" : fsck.changes[i].path,
			fsck.changes[i].offset, fsck.changes[i].bytes, fsck.changes[i].text);
	fclose(fsck.out);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	return text;
}

static void expect_same(const char *one, char *several, const char *what, uint32_t threads)
{
	if (strcmp(one, several) != 0)
		fail_msg("%s: one thread says\n%s%u threads say\n%s", what, one, threads, several);
	free(several);
}

/* Checks and repairs the damaged image with one thread and with several; returns the problems found. */
static uint64_t compare(const char *what)
{
	uint8_t *damaged = malloc(rig.bytes);
	uint64_t found, problems;

	assert_non_null(damaged);
	rig_copy(damaged, rig.image, rig.bytes);
	char *check = examine(what, 1, false, &found);
	char *repair = examine(what, 1, true, &problems);
	char *after = examine(what, 1, false, &problems);
	for (uint32_t threads = rig_slow() ? 5 : 2; threads <= 5; threads += 3) {
		rig_copy(rig.image, damaged, rig.bytes);
		expect_same(check, examine(what, threads, false, &problems), what, threads);
		expect_same(repair, examine(what, threads, true, &problems), what, threads);
		expect_same(after, examine(what, threads, false, &problems), what, threads);
		assert_int_equal(problems, 0);
	}
	free(check);
	free(repair);
	free(after);
	free(damaged);
	return found;
}

/* ------------------------------------------------------------------ damage */

static uint64_t number_of(uint64_t dir, const char *name)
{
	struct g4_attr attr;

	rig.fs = rig_mount_fs(&rig, wg, NULL);
	must(op_lookup(&rig, dir, name, &attr));
	rig_unmount_fs(&rig, wg, rig.fs, true);
	rig.fs = NULL;
	return attr.ino;
}

/* ------------------------------------------------------------------ tests */

static void test_whole(void **state)
{
	(void)state;
	restore();
	assert_int_equal(compare("whole"), 0);
	assert_memory_equal(rig.image, whole, rig.bytes);
}

static void test_damaged_pages(void **state)
{
	uint64_t seed = 7, damaged = 0;

	(void)state;
	while (damaged < (rig_slow() ? PAGES_DAMAGED / 6 : PAGES_DAMAGED)) {
		const uint64_t page = rig_random(&seed) % (rig.bytes / G4_PAGE_BYTES) * G4_PAGE_BYTES;
		struct g4_block_header header;
		char what[64];
		memcpy(&header, whole + page, sizeof(header));
		if (header.magic != G4_BLOCK_MAGIC || header.address != page)
			continue;
		restore();
		rig.image[page + rig_random(&seed) % G4_PAGE_BYTES] ^= 0x41;
		snprintf(what, sizeof(what), "%s at 0x%" PRIx64, g4_block_type_name(header.type), page);
		damaged += compare(what) != 0;
	}
}

static void test_superblocks(void **state)
{
	(void)state;
	restore();
	rig.image[G4_SUPERBLOCK_ADDRESS + 1000] ^= 1;
	assert_int_equal(compare("the first superblock"), 1);
	restore();
	rig.image[rig.bytes - 1000] ^= 1;
	assert_int_equal(compare("the second superblock"), 1);
}

/* Two directories, likely in the hands of two threads, with a name for one inode that counts one link. */
static void test_inode_with_two_names(void **state)
{
	uint64_t leaf;

	(void)state;
	restore();
	damage_entry(&rig, dirs[20], files[20][5], &leaf)->inode = files[30][7];
	damage_seal(&rig, leaf);
	assert_true(compare("an inode with two names") >= 2);
}

static void test_directory_with_two_names(void **state)
{
	uint64_t leaf;

	(void)state;
	restore();
	struct g4_dir_entry *entry = damage_entry(&rig, dirs[20], files[20][5], &leaf);
	entry->inode = dirs[30];
	entry->file_type = S_IFDIR >> 12;
	damage_seal(&rig, leaf);
	assert_true(compare("a directory with two names") >= 2);
}

static void test_page_of_two_files(void **state)
{
	(void)state;
	restore();
	damage_inode(&rig, files[20][4])->map[0] = damage_inode(&rig, files[30][4])->map[0];
	damage_seal(&rig, g4_ptr_offset(files[20][4]));
	assert_true(compare("a page of two files") >= 2);
}

static void test_slab_as_contents(void **state)
{
	(void)state;
	restore();
	const uint64_t slab = g4_align_down(g4_ptr_offset(files[30][4]), G4_PAGE_BYTES);
	damage_inode(&rig, files[5][4])->map[0] = g4_ptr_at(slab, G4_TAG_4K, G4_PTR_VALID);
	damage_seal(&rig, g4_ptr_offset(files[5][4]));
	assert_true(compare("a slab that is a file's contents, too") >= 1);
}

static void test_counts(void **state)
{
	(void)state;
	restore();
	damage_inode(&rig, files[2][1])->nlink = 40; /* several names, in several directories */
	damage_seal(&rig, g4_ptr_offset(files[2][1]));
	assert_int_equal(compare("a wrong link count"), 1);
	restore();
	const uint64_t many = number_of(G4_NODE_ROOT, "many");
	damage_inode(&rig, many)->entries--;
	damage_seal(&rig, g4_ptr_offset(many));
	assert_int_equal(compare("a wrong count of entries"), 1);
}

/* No contents, so that nothing else is met twice. Often enough the two names are met by two threads. */
static void test_one_link_and_two_names(void **state)
{
	(void)state;
	for (uint32_t d = 8; d < DIRECTORIES; d += rig_slow() ? 16 : 4) {
		restore();
		damage_inode(&rig, shared[d])->nlink = 1;
		damage_seal(&rig, g4_ptr_offset(shared[d]));
		assert_int_equal(compare("an inode with two names that counts one"), 1);
	}
}

/* A journal that waits, and files on the orphan list. */
static void test_orphans(void **state)
{
	uint64_t ino, handle;

	(void)state;
	restore();
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	must(op_tmpfile(&rig, G4_NODE_ROOT, &ino, &handle));
	must(op_write(&rig, ino, handle, 0, "temporary", 9, NULL));
	must(op_mknod(&rig, dirs[3], "new", S_IFREG | 0644, &ino));
	must(op_sync(&rig));
	rig_unmount_fs(&rig, wg, rig.fs, false);
	rig.fs = NULL;
	assert_int_equal(compare("orphans"), 0);
	files[0][0] = number_of(dirs[0], "file 0 of 0"); /* the image can still be mounted */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_damaged_pages),
		cmocka_unit_test(test_superblocks),
		cmocka_unit_test(test_inode_with_two_names),
		cmocka_unit_test(test_directory_with_two_names),
		cmocka_unit_test(test_page_of_two_files),
		cmocka_unit_test(test_slab_as_contents),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_one_link_and_two_names),
		cmocka_unit_test(test_orphans),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
