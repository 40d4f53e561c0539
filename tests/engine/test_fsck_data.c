/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fsck --data: of every file, whatever its map and its policy, the pages that are not what was written are told, each once and by name,
 * and no others; with any number of threads the same; and a repair leaves them as they are.
 */
#include "damage.h"

#include "data/map.h"
#include "format/sums.h"
#include "fsck/fsck.h"
#include "hash/page_hasher_host.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define JOURNAL_BYTES (4 * G4_MIB)
#define PATTERN_BYTES (4 * G4_MIB)

static struct rig rig;
static uint8_t *pattern;

static int begin(uint32_t checksum)
{
	rig_open_as(&rig, checksum, RIG_AS_SET, DEVICE_BYTES, JOURNAL_BYTES);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	pattern = rig_memory(PATTERN_BYTES, 3);
	return 0;
}

static int open_with_sums(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_BLAKE3);
}

static int open_without(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_NONE);
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

static void stop(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
}

static void go_on(void)
{
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static uint64_t make(uint64_t dir, const char *name, const char *checksum, uint64_t bytes)
{
	uint64_t ino, done;

	assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0644, &ino), 0);
	if (checksum)
		assert_int_equal(op_setxattr(&rig, ino, "gpu4fs.checksum", checksum, strlen(checksum), 0), 0);
	for (uint64_t at = 0; at < bytes; at += done)
		assert_int_equal(op_write(&rig, ino, 0, at, pattern + at, bytes - at, &done), 0);
	return ino;
}

/* The text of one damaged page. */
static bool tells(const char *text, const char *path, uint64_t page, uint64_t address)
{
	char line[256];

	snprintf(line, sizeof(line), "%s: bytes %llu to %llu, at 0x%llx: ", path, (unsigned long long)page * 4096,
		 (unsigned long long)page * 4096 + 4095, (unsigned long long)address);
	return strstr(text, line) != NULL;
}

static const struct {
	const char *name, *checksum;
	uint64_t bytes, bad; /* a page */
} files[] = {
	{"few", NULL, 3 * 4096, 1},	     {"block", NULL, 16 * 4096, 15},	{"tail", "xxh3", 40 * 4096 + 5, 40},
	{"rows", "crc32c", 300 * 4096, 260}, {"large", NULL, 4 << 20, 777},	{"one", "xxh3", 4096, 0},
	{"plain", "none", 20 * 4096, 7},     {"inline", NULL, 100, UINT64_MAX},
};
#define FILES (sizeof(files) / sizeof(files[0]))
#define WITH_SUM 6u
#define PAGES_WITH_SUM (3u + 16 + 41 + 300 + 1024 + 1)

static void all_kinds_of_files(void **state)
{
	uint64_t dir, ino[FILES], at[FILES] = {0};
	char path[64], *text, *one = NULL;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "a", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, dir, "b", 0755, &dir), 0);
	for (uint32_t i = 0; i < FILES; i++)
		ino[i] = make(dir, files[i].name, files[i].checksum, files[i].bytes);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t i = 0; i < FILES; i++)
		at[i] = files[i].bad == UINT64_MAX ? 0 : rig_place(&rig, ino[i], files[i].bad);
	stop();
	struct rig_data data = rig_fsck_data(&rig, 3, &text);
	assert_int_equal(data.problems + data.damaged + data.unverified, 0);
	assert_int_equal(data.compared, PAGES_WITH_SUM);
	assert_int_equal(data.without, 20);
	assert_string_equal(text, "");
	free(text);
	/* one after the other, and nothing of what has no sum */
	for (uint32_t i = 0; i < FILES; i++) {
		if (at[i] == 0)
			continue;
		rig.image[at[i] + 1234] ^= 0x20;
		data = rig_fsck_data(&rig, 2, &text);
		snprintf(path, sizeof(path), "/a/b/%s", files[i].name);
		assert_int_equal(data.problems, 0);
		assert_int_equal(data.damaged, g4_min64(i + 1, WITH_SUM));
		assert_int_equal(tells(text, path, files[i].bad, at[i]), i < WITH_SUM);
		free(text);
	}
	for (uint32_t threads = 1; threads <= 5; threads += 2) {
		data = rig_fsck_data(&rig, threads, &text);
		assert_int_equal(data.damaged, WITH_SUM);
		assert_int_equal(data.compared, PAGES_WITH_SUM);
		if (one)
			assert_string_equal(text, one);
		free(one);
		one = text;
	}
	free(one);
	/* a reader meets the same */
	go_on();
	for (uint32_t i = 0; i < WITH_SUM; i++) {
		static uint8_t page[G4_PAGE_BYTES];
		uint64_t done;
		assert_int_equal(op_read(&rig, ino[i], 0, files[i].bad * G4_PAGE_BYTES, page, sizeof(page), &done),
				 -G4_E_DATA);
	}
}

/* What hangs at an indirect page of three files, of level 2, is damaged in all of them, and in none of what is beside it. */
static void what_files_share_by_a_map(void **state)
{
	static const char *const names[] = {"one", "two", "three"};
	const uint64_t behind = UINT64_C(512) * 512; /* the file's second GiB */
	uint8_t *bytes = rig_memory(4 * G4_PAGE_BYTES, 5);
	uint64_t ino[3], handle[3], done;
	char *text;

	(void)state;
	for (uint32_t k = 0; k < 3; k++) {
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, names[k], G4_S_IFREG | 0644, &ino[k]), 0);
		assert_int_equal(op_open(&rig, ino[k], k ? G4_OPEN_WRITE : G4_OPEN_READ, &handle[k]), 0);
	}
	for (uint64_t page = behind; page < behind + 2048; page += 512)
		assert_int_equal(op_write(&rig, ino[0], 0, page * G4_PAGE_BYTES, bytes, 4 * G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 1; k < 3; k++)
		for (uint64_t from = 0, end = (behind + 1540) * G4_PAGE_BYTES; from < end; from += done) {
			assert_int_equal(op_copy(&rig, handle[0], from, handle[k], from, end - from, &done), 0);
			assert_true(done > 0);
		}
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(op_release(&rig, handle[k]), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t at = rig_place(&rig, ino[0], behind + 513);
	stop();
	rig.image[at] ^= 1;
	const struct rig_data data = rig_fsck_data(&rig, 4, &text);
	assert_int_equal(data.problems, 0);
	assert_int_equal(data.damaged, 3);
	assert_true(tells(text, "/one", behind + 513, at));
	assert_true(tells(text, "/two", behind + 513, at));
	assert_true(tells(text, "/three", behind + 513, at));
	free(text);
	free(bytes);
	rig.image[at] ^= 1;
	go_on();
}

/* A page of two files is damaged in both; a file with two names is told once. */
static void shared_pages_and_links(void **state)
{
	uint64_t first, second, in, out, done, dir;
	char *text;

	(void)state;
	first = make(G4_NODE_ROOT, "first", NULL, 40 * 4096);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "second", G4_S_IFREG | 0644, &second), 0);
	assert_int_equal(op_open(&rig, first, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, second, G4_OPEN_WRITE, &out), 0);
	assert_int_equal(op_copy(&rig, in, 0, out, 0, 40 * 4096, &done), 0);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &dir), 0);
	assert_int_equal(op_link(&rig, first, dir, "link"), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t at = rig_place(&rig, first, 20);
	assert_int_equal(rig_place(&rig, second, 20), at);
	stop();
	rig.image[at] ^= 1;
	const struct rig_data data = rig_fsck_data(&rig, 4, &text);
	assert_int_equal(data.problems, 0);
	assert_int_equal(data.damaged, 2);
	assert_true(tells(text, "/second", 20, at));
	assert_true(tells(text, "/first", 20, at) != tells(text, "/dir/link", 20, at));
	free(text);
	rig.image[at] ^= 1;
	go_on();
}

/* What was put in another page's place, or is what was there before, is not what was written. */
static void swapped_and_old_pages(void **state)
{
	static uint8_t old[G4_PAGE_BYTES], page[G4_PAGE_BYTES];
	uint64_t done;
	char *text;

	(void)state;
	const uint64_t ino = make(G4_NODE_ROOT, "f", NULL, 30 * 4096);
	assert_int_equal(op_sync(&rig), 0);
	memcpy(old, rig.image + rig_place(&rig, ino, 4), sizeof(old));
	rig_pattern(page, 99, sizeof(page));
	assert_int_equal(op_write(&rig, ino, 0, 4 * G4_PAGE_BYTES, page, sizeof(page), &done), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t a = rig_place(&rig, ino, 10), b = rig_place(&rig, ino, 11), c = rig_place(&rig, ino, 4);
	stop();
	memcpy(page, rig.image + a, sizeof(page));
	memcpy(rig.image + a, rig.image + b, sizeof(page));
	memcpy(rig.image + b, page, sizeof(page));
	memcpy(rig.image + c, old, sizeof(old));
	const struct rig_data data = rig_fsck_data(&rig, 2, &text);
	assert_int_equal(data.damaged, 3);
	assert_true(tells(text, "/f", 10, a) && tells(text, "/f", 11, b) && tells(text, "/f", 4, c));
	free(text);
	go_on();
}

/* Where the sums are damaged that is told, and of the contents behind them nothing. */
static void behind_damaged_sums(void **state)
{
	char *text;

	(void)state;
	const uint64_t ino = make(G4_NODE_ROOT, "f", NULL, 300 * 4096);
	assert_int_equal(op_sync(&rig), 0);
	stop();
	const uint64_t indirect = g4_ptr_offset(damage_inode(&rig, ino)->map[0]);
	struct g4_indirect_header header;
	g4_indirect_extract((const g4_le64 *)(const void *)(rig.image + indirect), &header);
	const uint64_t sums = g4_address_stored(g4_sums_place(&header.sums, g4_address_from(indirect), 1));
	rig.image[sums + 50] ^= 4;
	const struct rig_data data = rig_fsck_data(&rig, 2, &text);
	assert_true(data.problems > 0);
	assert_int_equal(data.damaged, 0);
	assert_int_equal(data.unverified, 128);
	assert_int_equal(data.compared, 300 - 128);
	free(text);
	rig.image[sums + 50] ^= 4;
	go_on();
}

/* A repair puts the rest right, and what contents were nobody knows. */
static void a_repair_leaves_contents_alone(void **state)
{
	static struct g4_fsck fsck;
	const struct g4_fsck_repair_options options = {.dry_run = false};
	struct g4_journal_state journal;
	struct g4_image image = {.name = NULL};
	char message[512], *text;
	size_t bytes;

	(void)state;
	const uint64_t ino = make(G4_NODE_ROOT, "f", NULL, 30 * 4096);
	const uint64_t other = make(G4_NODE_ROOT, "other", NULL, 2 * 4096);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t at = rig_place(&rig, ino, 12);
	stop();
	rig.image[at + 9] ^= 2;
	/* one page of two files that did not share it: the second gets a copy */
	damage_inode(&rig, other)->few.map[0] = g4_ptr_make(g4_address_from(at), G4_TAG_4K, G4_PTR_VALID);
	damage_seal(&rig, g4_ptr_offset(other));
	for (uint32_t round = 0; round < 2; round++) {
		memset(&fsck, 0, sizeof(fsck));
		fsck.out = open_memstream(&text, &bytes);
		fsck.printed_limit = UINT64_MAX;
		fsck.threads = 2;
		assert_int_equal(g4_fsck_repair_device(&fsck, &image, rig.name, &options, &journal, message,
						       sizeof(message)),
				 0);
		assert_int_equal(g4_fsck_data(&fsck), 0);
		assert_int_equal(fsck.problems, 0);
		assert_true(round == 0 ? fsck.found > 0 : fsck.found == 0);
		assert_int_equal(fsck.damaged_pages, 2);
		assert_int_equal(fsck.data_compared, 32);
		fclose(fsck.out);
		assert_true(tells(text, "/f", 12, at));
		assert_non_null(strstr(text, "/other: bytes 0 to 4095"));
		free(text);
		g4_fsck_free(&fsck);
		g4_image_close(&image);
	}
	go_on();
}

/* Before anything is written its outcome is looked at: what it will move is read from where it is. */
static void a_repair_that_is_not_made(void **state)
{
	static struct g4_fsck fsck;
	const struct g4_fsck_repair_options options = {.dry_run = true};
	struct g4_journal_state journal;
	struct g4_image image = {.name = NULL};
	char message[512], *text;
	size_t bytes;

	(void)state;
	const uint64_t ino = make(G4_NODE_ROOT, "f", NULL, 4096), other = make(G4_NODE_ROOT, "other", NULL, 4096);
	assert_int_equal(op_sync(&rig), 0);
	stop();
	/* both have written the same, so that the copy is right for both */
	damage_inode(&rig, other)->few.map[0] = damage_inode(&rig, ino)->few.map[0];
	damage_seal(&rig, g4_ptr_offset(other));
	memset(&fsck, 0, sizeof(fsck));
	fsck.out = open_memstream(&text, &bytes);
	fsck.printed_limit = UINT64_MAX;
	assert_int_equal(g4_fsck_repair_device(&fsck, &image, rig.name, &options, &journal, message, sizeof(message)),
			 0);
	assert_int_equal(g4_fsck_data(&fsck), 0);
	assert_true(fsck.found > 0 && fsck.copy_count > 0);
	assert_int_equal(fsck.data_compared, 2);
	assert_int_equal(fsck.damaged_pages, 0);
	fclose(fsck.out);
	free(text);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	go_on();
}

/* ------------------------------------------------------------------ somebody hashes beside the threads */

#define HASHER_SLOTS 6u /* of two threads; a third one has none */
#define HASHER_PAGES 136u

/* Sums are made at the end of wait(), as late as can be: pages that did not stay as they were would be told as damaged. */
struct late {
	struct g4_page_hasher hasher; /* first */
	struct g4_sum sums[HASHER_SLOTS][HASHER_PAGES];
	uint32_t pages[HASHER_SLOTS];
	uint32_t starts, waits, start_fails, wait_fails; /* from that one on; 0: none */
};

static int start_late(struct g4_page_hasher *hasher, uint32_t slot, uint32_t pages)
{
	struct late *late = (struct late *)(void *)hasher;
	const uint32_t n = __atomic_add_fetch(&late->starts, 1, __ATOMIC_RELAXED);

	assert_true(slot < HASHER_SLOTS && pages > 0 && pages <= HASHER_PAGES && late->pages[slot] == 0);
	if (late->start_fails && n >= late->start_fails)
		return -G4_E_IO;
	late->pages[slot] = pages;
	return 0;
}

static int wait_late(struct g4_page_hasher *hasher, uint32_t slot, const struct g4_sum **sums)
{
	struct late *late = (struct late *)(void *)hasher;
	const uint32_t n = __atomic_add_fetch(&late->waits, 1, __ATOMIC_RELAXED), pages = late->pages[slot];

	assert_true(pages > 0);
	late->pages[slot] = 0;
	if (late->wait_fails && n >= late->wait_fails)
		return -G4_E_IO;
	for (uint32_t k = 0; k < pages; k++) {
		g4_blake3(g4_page_hasher_slot(hasher, slot) + k * G4_PAGE_BYTES, G4_PAGE_BYTES,
			  (uint8_t *)&late->sums[slot][k]);
		g4_sum_of_blake3(&late->sums[slot][k]);
	}
	*sums = late->sums[slot];
	return 0;
}

static struct rig_data check_beside(struct late *late, uint32_t threads, uint32_t start_fails, uint32_t wait_fails,
				    char **text)
{
	memset(late, 0, sizeof(*late));
	late->hasher = (struct g4_page_hasher){
		.slots = HASHER_SLOTS,
		.slot_pages = HASHER_PAGES,
		.memory = rig_memory(HASHER_SLOTS * HASHER_PAGES * G4_PAGE_BYTES, 1),
		.start = start_late,
		.wait = wait_late,
	};
	late->start_fails = start_fails;
	late->wait_fails = wait_fails;
	const struct rig_data data = rig_fsck_data_beside(&rig, threads, &late->hasher, text);
	for (uint32_t k = 0; k < HASHER_SLOTS; k++)
		assert_int_equal(late->pages[k], 0); /* nothing is under way */
	free(late->hasher.memory);
	return data;
}

static void sums_made_beside_the_threads(void **state)
{
	static struct late late;
	uint64_t ino[FILES], pages = 0;
	char *text, *alone;

	(void)state;
	for (uint32_t i = 0; i < FILES; i++)
		ino[i] = make(G4_NODE_ROOT, files[i].name, files[i].checksum, files[i].bytes);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t i = 0; i < FILES; i++)
		if (files[i].bad != UINT64_MAX)
			rig.image[rig_place(&rig, ino[i], files[i].bad) + 99] ^= 0x10;
	for (uint32_t i = 0; i < FILES; i++)
		pages += files[i].checksum || files[i].bytes < G4_PAGE_BYTES ? 0 : g4_pages_for(files[i].bytes);
	stop();
	struct rig_data data = rig_fsck_data(&rig, 1, &alone);
	assert_int_equal(data.damaged, WITH_SUM);
	assert_int_equal(data.beside, 0);
	for (uint32_t threads = 1; threads <= 3; threads++) {
		for (uint32_t fails = 0; fails < 4; fails++) { /* not; at once; later: both ways */
			data = check_beside(&late, threads,
					    fails == 1 ? 1 :
					    fails == 2 ? 4 :
							 0,
					    fails == 3 ? 3 : 0, &text);
			assert_string_equal(text, alone);
			assert_int_equal(data.damaged, WITH_SUM);
			assert_int_equal(data.compared, PAGES_WITH_SUM);
			if (fails == 0 && threads < 3)
				assert_int_equal(data.beside, pages);
			assert_true(fails != 1 || data.beside == 0);
			free(text);
		}
	}
	free(alone);
}

/* Nothing to compare is no problem. */
static void without_any_sum(void **state)
{
	char *text;

	(void)state;
	make(G4_NODE_ROOT, "f", NULL, 30 * 4096);
	stop();
	const struct rig_data data = rig_fsck_data(&rig, 2, &text);
	assert_int_equal(data.problems + data.damaged + data.compared, 0);
	assert_int_equal(data.without, 30);
	free(text);
	go_on();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_with_sums, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_kinds_of_files),
		TEST(what_files_share_by_a_map),
		TEST(shared_pages_and_links),
		TEST(sums_made_beside_the_threads),
		TEST(swapped_and_old_pages),
		TEST(behind_damaged_sums),
		TEST(a_repair_leaves_contents_alone),
		TEST(a_repair_that_is_not_made),
		cmocka_unit_test_setup_teardown(without_any_sum, open_without, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
