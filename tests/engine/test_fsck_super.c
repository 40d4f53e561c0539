/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images without a superblock in its place: both damaged or overwritten, the second not at the end because the device has
 * grown, an older file system's pages in between. After the repair every file is where it was.
 */
#include "damage.h"
#include "rig.h"

#include <sys/stat.h>
#include <unistd.h>

#include "fs/mkfs_host.h"
#include "fs/mount_host.h"
#include "journal/block.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (80 * G4_MIB) /* two groups */
#define JOURNAL_BYTES (2 * G4_MIB)
#define DIRECTORIES 6u
#define FILES 150u /* more than a leaf holds */
#define LABEL "superblock test"

static struct rig rig;
static struct g4_wg *wg;
static uint8_t *whole;
static char words[512]; /* why the image could not be opened */

static void must(int rc)
{
	assert_true(rc >= 0);
}

static void mount(void)
{
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	rig.wg = wg;
}

static void unmount(bool clean)
{
	rig_unmount_fs(&rig, wg, rig.fs, clean);
	rig.fs = NULL;
}

static void format(uint64_t journal_bytes)
{
	const struct g4_dev_open_options options = {.flags = G4_DEV_EXCLUSIVE};
	const struct g4_mkfs_options mkfs = {.journal_bytes = journal_bytes, .label = LABEL};
	struct g4_superblock sb;
	struct g4_dev *dev;
	char message[256];

	must(g4_dev_open(rig.name, &options, &dev, message, sizeof(message)));
	must(g4_mkfs(dev, &mkfs, &sb, message, sizeof(message)));
	g4_dev_close(dev);
}

/* A text that is different for each file. */
static void contents_of(uint32_t dir, uint32_t file, uint8_t to[200])
{
	rig_pattern(to, 1000 * dir + file + 1, 200);
}

static void name_of(char *name, const char *kind, uint32_t number)
{
	snprintf(name, 64, "%s number %u", kind, number);
}

static void populate(void)
{
	mount();
	for (uint32_t d = 0; d < DIRECTORIES; d++) {
		uint64_t dir, node;
		uint8_t text[200];
		char name[64];
		name_of(name, "directory", d);
		must(op_mkdir(&rig, G4_NODE_ROOT, name, 0755, &dir));
		for (uint32_t f = 0; f < FILES; f++) {
			name_of(name, "file", f);
			contents_of(d, f, text);
			must(op_mknod(&rig, dir, name, S_IFREG | 0644, &node));
			must(op_write(&rig, node, 0, 0, text, sizeof(text), NULL));
		}
	}
}

static void expect_populated(void)
{
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	mount();
	for (uint32_t d = 0; d < DIRECTORIES; d++) {
		struct g4_attr dir, file;
		char name[64];
		name_of(name, "directory", d);
		must(op_lookup(&rig, G4_NODE_ROOT, name, &dir));
		for (uint32_t f = 0; f < FILES; f++) {
			uint8_t wanted[200], found[200];
			uint64_t bytes = 0;
			name_of(name, "file", f);
			must(op_lookup(&rig, dir.ino, name, &file));
			must(op_read(&rig, file.ino, 0, 0, found, sizeof(found), &bytes));
			contents_of(d, f, wanted);
			assert_int_equal(bytes, sizeof(wanted));
			assert_memory_equal(found, wanted, sizeof(wanted));
		}
	}
	unmount(true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after a mount");
}

/* 0 or why it could not be done; *found counts problems. */
static int repair(bool find, bool dry_run, uint64_t stop_at_write, uint64_t *found)
{
	struct rig_repair how = {.find_superblock = find, .dry_run = dry_run, .stop_at_write = stop_at_write};
	const int status = rig_repair(&rig, &how);

	*found = how.found;
	snprintf(words, sizeof(words), "%s", how.words);
	free(how.text);
	return status;
}

static void expect_repair(void)
{
	uint64_t found;

	if (repair(true, false, 0, &found) < 0)
		fail_msg("%s", words);
	assert_true(found > 0);
	expect_populated();
	assert_int_equal(repair(true, false, 0, &found), 0);
	assert_int_equal(found, 0);
}

static const struct g4_superblock *superblock(void)
{
	return (const struct g4_superblock *)(const void *)(rig.image + G4_SUPERBLOCK_ADDRESS);
}

static void wipe(uint64_t address, uint64_t bytes)
{
	memset(rig.image + address, 0, bytes);
}

/* The first and last pages of the device, as a new partition table takes them. */
static void put_partition_table(void)
{
	for (uint64_t at = 0; at < 34 * 512; at++)
		rig.image[at] = (uint8_t)(at * 37);
	for (uint64_t at = DEVICE_BYTES - 33 * 512; at < DEVICE_BYTES; at++)
		rig.image[at] = (uint8_t)(at * 41);
}

static void set_size(uint64_t bytes)
{
	assert_int_equal(ftruncate(rig.fd, (off_t)bytes), 0);
	rig.bytes = bytes;
}

static int setup(void **state)
{
	(void)state;
	wg = g4_wg_create(0);
	rig_open(&rig, DEVICE_BYTES, JOURNAL_BYTES);
	format(JOURNAL_BYTES);
	populate();
	unmount(true);
	whole = malloc(DEVICE_BYTES);
	assert_non_null(whole);
	rig_copy(whole, rig.image, DEVICE_BYTES);
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

static int restore(void **state)
{
	(void)state;
	set_size(DEVICE_BYTES);
	rig_copy(rig.image, whole, DEVICE_BYTES);
	return 0;
}

/* ------------------------------------------------------------------ tests */

static void test_both_gone(void **state)
{
	uint64_t found;
	uint8_t tag[4];

	(void)state;
	memcpy(tag, superblock()->uuid, sizeof(tag));
	wipe(G4_SUPERBLOCK_ADDRESS, G4_PAGE_BYTES);
	wipe(DEVICE_BYTES - G4_PAGE_BYTES, G4_PAGE_BYTES);
	assert_true(repair(false, false, 0, &found) < 0); /* only when it is asked for */
	assert_non_null(strstr(words, "--find-superblock"));
	uint8_t *before = malloc(DEVICE_BYTES);
	assert_non_null(before);
	rig_copy(before, rig.image, DEVICE_BYTES);
	assert_int_equal(repair(true, true, 0, &found), 0);
	assert_memory_equal(before, rig.image, DEVICE_BYTES);
	free(before);
	expect_repair();
	assert_memory_equal(tag, superblock()->uuid, sizeof(tag));
}

/* A file with sums, and one that shares its pages: what the new superblock does not say about them must not take them. */
static void test_sums_and_shares(void **state)
{
	static uint8_t wanted[20 * G4_PAGE_BYTES], found[sizeof(wanted)];
	struct rig_repair how = {.find_superblock = true};
	uint64_t ino[2], in, out, done;

	(void)state;
	mount();
	rig_pattern(wanted, 77, sizeof(wanted));
	must(op_mknod(&rig, G4_NODE_ROOT, "sums", S_IFREG | 0644, &ino[0]));
	must(op_mknod(&rig, G4_NODE_ROOT, "copy", S_IFREG | 0644, &ino[1]));
	must(op_setxattr(&rig, ino[0], "gpu4fs.checksum", "blake3", 6, 0));
	must(op_write(&rig, ino[0], 0, 0, wanted, sizeof(wanted), NULL));
	must(op_open(&rig, ino[0], G4_OPEN_READ, &in));
	must(op_open(&rig, ino[1], G4_OPEN_WRITE, &out));
	must(op_copy(&rig, in, 0, out, 0, sizeof(wanted), &done));
	assert_int_equal(done, sizeof(wanted));
	must(op_release(&rig, in));
	must(op_release(&rig, out));
	unmount(true);
	wipe(G4_SUPERBLOCK_ADDRESS, G4_PAGE_BYTES);
	wipe(DEVICE_BYTES - G4_PAGE_BYTES, G4_PAGE_BYTES);
	must(rig_repair(&rig, &how));
	assert_null(strstr(how.text, "sums"));
	assert_null(strstr(how.text, "in use for something else"));
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	mount();
	for (uint32_t f = 0; f < 2; f++) {
		must(op_read(&rig, ino[f], 0, 0, found, sizeof(found), &done));
		assert_int_equal(done, sizeof(wanted));
		assert_memory_equal(found, wanted, sizeof(wanted));
	}
	unmount(true);
}

/* A directory that is a domain, with a file in it: both stay what they were. */
static void test_domain(void **state)
{
	struct rig_repair how = {.find_superblock = true};
	uint64_t dir, ino, done;
	char word[2][8] = {"", ""};

	(void)state;
	mount();
	must(op_mkdir(&rig, G4_NODE_ROOT, "own", 0755, &dir));
	must(op_setxattr(&rig, dir, "gpu4fs.dedup", "domain", 6, 0));
	must(op_mknod(&rig, dir, "file", S_IFREG | 0644, &ino));
	must(op_write(&rig, ino, 0, 0, whole, 20 * G4_PAGE_BYTES, NULL));
	unmount(true);
	wipe(G4_SUPERBLOCK_ADDRESS, G4_PAGE_BYTES);
	wipe(DEVICE_BYTES - G4_PAGE_BYTES, G4_PAGE_BYTES);
	must(rig_repair(&rig, &how));
	assert_null(strstr(how.text, "domain"));
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	mount();
	must(op_getxattr(&rig, dir, "gpu4fs.dedup", word[0], sizeof(word[0]), &done));
	must(op_getxattr(&rig, ino, "gpu4fs.dedup", word[1], sizeof(word[1]), &done));
	assert_string_equal(word[0], "domain");
	assert_string_equal(word[1], "domain");
	unmount(true);
}

/* A feature that is added while mounted is in one superblock first: power that goes between the two is no damage. */
static void test_feature_in_one(void **state)
{
	static const uint64_t features[] = {G4_FEATURE_INCOMPAT_SUMS, G4_FEATURE_INCOMPAT_SHARED,
					    G4_FEATURE_INCOMPAT_LISTED, G4_FEATURE_INCOMPAT_DOMAINS};

	(void)state;
	for (uint32_t k = 0; k < 2 * sizeof(features) / sizeof(features[0]); k++) {
		const uint64_t at = k % 2 ? G4_SUPERBLOCK_ADDRESS : DEVICE_BYTES - G4_PAGE_BYTES;
		struct g4_superblock *sb = (struct g4_superblock *)(void *)&rig.image[at];

		restore(NULL);
		sb->features_incompat |= features[k / 2];
		damage_seal(&rig, at);
		rig_expect_clean(&rig, RIG_ANY_FREE, "with a feature in one superblock");
	}
}

static void test_partition_table(void **state)
{
	(void)state;
	put_partition_table();
	expect_repair();
}

/* Changes that only the journal has. */
static void test_with_a_journal(void **state)
{
	struct g4_attr attr;
	uint64_t node;

	(void)state;
	mount();
	must(op_mknod(&rig, G4_NODE_ROOT, "only in the journal", S_IFREG | 0644, &node));
	must(op_sync(&rig));
	unmount(false);
	wipe(G4_SUPERBLOCK_ADDRESS, G4_PAGE_BYTES);
	wipe(DEVICE_BYTES - G4_PAGE_BYTES, G4_PAGE_BYTES);
	expect_repair();
	mount();
	must(op_lookup(&rig, G4_NODE_ROOT, "only in the journal", &attr));
	unmount(true);
}

/* A repair that stops in the middle of each write in turn is finished by the next one. */
static void test_cut(void **state)
{
	const uint64_t step = rig_slow() ? 17 : 3;
	uint64_t found;

	for (uint64_t stop = 1;; stop += step) {
		restore(state);
		put_partition_table();
		if (repair(true, false, stop, &found) == 0)
			break;
		assert_int_equal(repair(true, false, 0, &found), 0);
		expect_populated();
	}
}

/* The second superblock stays where the device ended: found by the first one's word, or in the last group. */
static void test_grown(void **state)
{
	const uint64_t larger[] = {DEVICE_BYTES + 100 * G4_PAGE_BYTES, DEVICE_BYTES + 200 * G4_MIB};

	for (uint32_t i = 0; i < 4; i++) {
		const bool told = i % 2 == 0;
		uint64_t found;
		restore(state);
		set_size(larger[i / 2]);
		if (told)
			rig.image[G4_SUPERBLOCK_ADDRESS + 3000] ^= 1;
		else
			wipe(0, 34 * 512);
		assert_int_equal(repair(!told, false, 0, &found), 0);
		expect_populated();
		assert_string_equal((const char *)superblock()->label, LABEL);
		assert_int_equal(superblock()->size_bytes, DEVICE_BYTES);
		assert_memory_equal(superblock()->uuid,
				    whole + G4_SUPERBLOCK_ADDRESS + offsetof(struct g4_superblock, uuid), 16);
	}
}

static void test_grown_and_both_gone(void **state)
{
	(void)state;
	put_partition_table();
	set_size(DEVICE_BYTES + 200 * G4_MIB);
	expect_repair();
}

static void test_truncated(void **state)
{
	uint64_t found;

	(void)state;
	set_size(DEVICE_BYTES - G4_PAGE_BYTES);
	assert_int_equal(repair(true, false, 0, &found), -G4_E_SB_TRUNCATED);
	assert_non_null(strstr(words, "smaller than the file system"));
}

/* What an older file system left in the journal of the newer one is not taken for it. */
static void test_older_file_system(void **state)
{
	(void)state;
	mount();
	uint64_t node;
	must(op_mknod(&rig, G4_NODE_ROOT, "of the older", S_IFREG | 0644, &node));
	unmount(true);
	format(12 * G4_MIB);
	populate();
	must(op_sync(&rig));
	unmount(true);
	put_partition_table();
	expect_repair();
	mount();
	struct g4_attr attr;
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "of the older", &attr), -G4_E_NOENT);
	unmount(true);
}

static void test_nothing_there(void **state)
{
	uint64_t found;

	(void)state;
	wipe(0, DEVICE_BYTES);
	assert_int_equal(repair(true, false, 0, &found), -G4_E_SB_MAGIC);
	assert_non_null(strstr(words, "nothing that one could be made from"));
	for (uint64_t at = 0; at < DEVICE_BYTES; at += G4_PAGE_BYTES)
		assert_int_equal(rig.image[at], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_both_gone, restore),
		cmocka_unit_test_setup(test_sums_and_shares, restore),
		cmocka_unit_test_setup(test_domain, restore),
		cmocka_unit_test_setup(test_feature_in_one, restore),
		cmocka_unit_test_setup(test_partition_table, restore),
		cmocka_unit_test_setup(test_with_a_journal, restore),
		cmocka_unit_test_setup(test_cut, restore),
		cmocka_unit_test_setup(test_grown, restore),
		cmocka_unit_test_setup(test_grown_and_both_gone, restore),
		cmocka_unit_test_setup(test_truncated, restore),
		cmocka_unit_test_setup(test_older_file_system, restore),
		cmocka_unit_test_setup(test_nothing_there, restore),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
