/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page cache gives up goes down into the second tier and comes up again, and is never anything else than what the device has
 * at its address: behind files that are written, cut, cloned and removed, mended pages, and bits that change in memory.
 */
#include "rig.h"

#include "fs/fs.h"
#include "simt/simt_host.h"

#define IMAGE_BYTES (64 * G4_MIB)
#define CACHE_BYTES (2 * G4_MIB)
#define TIER_BYTES (16 * G4_MIB)
#define PIECE_BYTES (16 * G4_PAGE_BYTES)
#define FILE_BYTES (4 * G4_MIB) /* twice the page cache */

static struct rig rig;
static uint8_t *data, *found;

static void begin(const char *checksum, uint64_t tier_bytes, bool apart)
{
	const struct g4_fault fault = {0}; /* a device that is not memory */

	setenv("G4_TEST_CHECKSUM", checksum, 1);
	rig_open(&rig, IMAGE_BYTES, 0);
	unsetenv("G4_TEST_CHECKSUM");
	rig.tier_bytes = tier_bytes;
	rig.cache_bytes = CACHE_BYTES;
	rig.tier_frames = apart ? rig_memory(g4_tier_frames(tier_bytes), 0) : NULL;
	rig.wg = g4_wg_create(0);
	assert_non_null(rig.wg);
	rig.fs = rig_mount_fs(&rig, rig.wg, &fault);
	data = rig_memory(FILE_BYTES, 1);
	found = rig_memory(FILE_BYTES, 0);
}

static int setup(void **state)
{
	(void)state;
	begin("0", TIER_BYTES, false);
	return 0;
}

static int setup_with_sums(void **state)
{
	(void)state;
	begin("2", TIER_BYTES, false);
	return 0;
}

static int setup_apart(void **state)
{
	(void)state;
	begin("0", G4_MIB, true);
	return 0;
}

static int setup_small(void **state)
{
	(void)state;
	begin("0", G4_MIB, false);
	return 0;
}

static int setup_without_tier(void **state)
{
	(void)state;
	begin("0", 0, false);
	return 0;
}

static int teardown(void **state)
{
	void *frames = rig.tier_frames;

	(void)state;
	rig_end(&rig);
	free(frames);
	free(data);
	free(found);
	return 0;
}

static struct g4_tier_counts *counts(void)
{
	return &rig.fs->space.tier.counts;
}

static uint64_t device_reads(void)
{
	uint64_t reads, writes, flushes;

	g4_dev_fault_counts(rig.fault, &reads, &writes, &flushes);
	return reads;
}

static bool in_tier(uint64_t place)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 0);
	const struct g4_iov part = {page, G4_PAGE_BYTES};
	uint64_t from, to;
	const bool there = g4_tier_read(rig.wg, &rig.fs->space.tier, place / G4_PAGE_BYTES, 1, &part, 1, &from, &to);

	free(page);
	return there;
}

static uint64_t make(const char *name, uint64_t bytes)
{
	const uint64_t ino = rig_make_file(&rig, name, 0, data, bytes);

	assert_int_equal(op_sync(&rig), 0);
	return ino;
}

/* Reads a file piece by piece: the device's reads that it took. */
static uint64_t read_all(uint64_t ino, uint64_t bytes)
{
	const uint64_t before = device_reads();

	for (uint64_t at = 0; at < bytes; at += PIECE_BYTES)
		rig_expect_contents(&rig, ino, at, found, data + at, g4_min64(PIECE_BYTES, bytes - at));
	return device_reads() - before;
}

/* It is in the page cache as it was read, and then in the tier alone. */
static void send_down(uint64_t ino, uint64_t bytes)
{
	rig_squeeze(&rig);
	read_all(ino, bytes);
	rig_squeeze(&rig);
}

/* ---- what it is for ---- */

static void a_file_twice_the_page_cache_is_read_once(void **state)
{
	(void)state;
	const uint64_t ino = make("file", FILE_BYTES);
	rig_squeeze(&rig);
	const uint64_t first = read_all(ino, FILE_BYTES);
	assert_true(first >= FILE_BYTES / (128 * G4_PAGE_BYTES)); /* the most that one read brings */
	rig_squeeze(&rig);
	assert_int_equal(read_all(ino, FILE_BYTES), 0);
	assert_true(counts()->down >= FILE_BYTES / G4_PAGE_BYTES);
	assert_true(counts()->up >= FILE_BYTES / G4_PAGE_BYTES);
	const uint64_t down = counts()->down;
	rig_squeeze(&rig); /* what came up and goes down again is still there */
	assert_int_equal(counts()->down, down);
	assert_true(counts()->down_again > 0);
	assert_int_equal(read_all(ino, FILE_BYTES), 0);
}

/* The same with nothing, or a tier in which victims would take the place of neighbours. */
static void without_victims_it_is_read_again(void **state)
{
	(void)state;
	const uint64_t ino = make("file", FILE_BYTES);
	rig_squeeze(&rig);
	const uint64_t first = read_all(ino, FILE_BYTES);
	rig_squeeze(&rig);
	assert_true(read_all(ino, FILE_BYTES) >= first / 2);
	assert_int_equal(counts()->down, 0);
}

/* A tier of any size whose pages lie elsewhere, as those of a GPU's engine do, has room for what it has room for. */
static void pages_of_a_tier_may_lie_elsewhere(void **state)
{
	(void)state;
	const uint64_t ino = make("file", G4_MIB / 2);
	send_down(ino, G4_MIB / 2);
	assert_int_equal(read_all(ino, G4_MIB / 2), 0);
	assert_true(counts()->up > 0);
	const uint64_t place = rig_place(&rig, ino, 3);
	for (uint64_t page = 0; page < G4_MIB / G4_PAGE_BYTES; page++)
		if (memcmp((uint8_t *)rig.tier_frames + page * G4_PAGE_BYTES, rig.image + place, G4_PAGE_BYTES) == 0)
			return;
	fail_msg("the page is not there");
}

/* ---- no stale page ---- */

static void what_is_written_over_is_not_found(void **state)
{
	(void)state;
	const uint64_t ino = make("file", G4_MIB);
	send_down(ino, G4_MIB);
	for (uint64_t page = 1; page < G4_MIB / G4_PAGE_BYTES; page += 3) {
		rig_pattern(data + page * G4_PAGE_BYTES, page + 77, 100);
		assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES, data + page * G4_PAGE_BYTES, 100, NULL),
				 0);
	}
	read_all(ino, G4_MIB); /* dirty */
	assert_int_equal(op_sync(&rig), 0);
	rig_squeeze(&rig);
	read_all(ino, G4_MIB);
	rig_squeeze(&rig);
	read_all(ino, G4_MIB);
}

/*
 * Two files have the same pages. What the one makes of them in memory is not what is at their old addresses, which the other one still
 * has: neither behind a write nor in the tail that a shorter file has. What takes their place is stored far away, so that it changes
 * no version of theirs.
 */
static void change_one_of_two_files(bool cut)
{
	const uint64_t bytes = 64 * G4_PAGE_BYTES, kept = rig_make_file(&rig, "kept", 0, data, bytes);
	const uint64_t changed = rig_make_file(&rig, "changed", 0, data + G4_MIB, 1);
	uint64_t in, out, done;

	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_open(&rig, kept, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, changed, G4_OPEN_READ | G4_OPEN_WRITE, &out), 0);
	assert_int_equal(op_copy_as(&rig, in, 0, out, 0, bytes, G4_COPY_SHARE, &done), 0);
	assert_int_equal(done, bytes);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t page = 0; page < 64; page++)
		assert_int_equal(rig_place(&rig, kept, page), rig_place(&rig, changed, page));
	make("between", G4_MIB);
	rig_squeeze(&rig);
	rig_expect_contents(&rig, changed, 0, found, data, bytes);
	if (cut)
		assert_int_equal(op_truncate(&rig, changed, 2 * G4_PAGE_BYTES + 9), 0);
	else
		assert_int_equal(op_write(&rig, changed, 0, 2 * G4_PAGE_BYTES + 5, data + G4_MIB, 100, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t block = G4_TIER_BLOCK_PAGES * G4_PAGE_BYTES;
	assert_true(rig_place(&rig, kept, 2) / block != rig_place(&rig, changed, 2) / block);
	rig_squeeze(&rig);
	rig_expect_contents(&rig, kept, 0, found, data, bytes);
}

static void what_one_of_two_files_writes_does_not_go_down_as_the_others(void **state)
{
	(void)state;
	change_one_of_two_files(false);
}

static void nor_the_tail_that_one_of_them_has_lost(void **state)
{
	(void)state;
	change_one_of_two_files(true);
}

static void a_page_that_is_freed_and_used_again_is_the_new_one(void **state)
{
	uint64_t places[256], again = 0;

	(void)state;
	uint64_t ino = make("file", G4_MIB);
	for (uint32_t version = 0; version < 6; version++) {
		send_down(ino, G4_MIB);
		for (uint32_t page = 0; page < 256; page++)
			places[page] = rig_place(&rig, ino, page);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
		assert_int_equal(op_sync(&rig), 0);
		rig_pattern(data, version + 100, G4_MIB);
		ino = make("file", G4_MIB);
		rig_squeeze(&rig);
		for (uint32_t page = 0; page < 256; page++)
			for (uint32_t k = 0; k < 256; k++)
				again += rig_place(&rig, ino, page) == places[k];
		read_all(ino, G4_MIB);
	}
	assert_true(again > 0);
	assert_true(counts()->dropped > 0);
}

/* Without sums: who mends a page takes it out of the tier, and what was read before does not come in behind it. */
static void a_page_that_was_mended_is_the_new_one(void **state)
{
	(void)state;
	const uint64_t ino = make("file", PIECE_BYTES), place = rig_place(&rig, ino, 2);
	uint8_t *good = rig_memory(G4_PAGE_BYTES, 0);

	memcpy(good, rig.image + place, G4_PAGE_BYTES);
	assert_int_equal(g4_dev_fault_flip(rig.fault, place + 9, 1), 0);
	data[2 * G4_PAGE_BYTES + 9] ^= rig.image[place + 9] ^ good[9];
	send_down(ino, PIECE_BYTES);
	assert_true(in_tier(place));
	read_all(ino, PIECE_BYTES); /* and it is in the page cache, from there */
	assert_int_equal(g4_space_mend(rig.wg, &rig.fs->space, g4_address_from(place), good, G4_PAGE_BYTES), 1);
	assert_false(in_tier(place));
	rig_squeeze(&rig);
	assert_false(in_tier(place));
	data[2 * G4_PAGE_BYTES + 9] = good[9];
	read_all(ino, PIECE_BYTES);
	free(good);
}

static void an_order_about_disks_leaves_nothing(void **state)
{
	struct g4_dev_order order = {.op = G4_ORDER_STEP, .name = "none"};

	(void)state;
	const uint64_t ino = make("file", PIECE_BYTES), place = rig_place(&rig, ino, 2);
	send_down(ino, PIECE_BYTES);
	assert_true(in_tier(place));
	read_all(ino, PIECE_BYTES);
	assert_true(g4_space_order(rig.wg, &rig.fs->space, &order) < 0);
	assert_false(in_tier(place));
	rig_squeeze(&rig); /* what was read before it is of before it */
	assert_false(in_tier(place));
	send_down(ino, PIECE_BYTES);
	assert_true(in_tier(place));
}

/* ---- verified again ---- */

/* A bit of a victim changes while it is down: its sum tells, the device has the page, and what the tier had is gone. */
static void a_victim_that_changes_in_memory_is_read_from_the_device(void **state)
{
	struct g4_tier *tier = &rig.fs->space.tier;
	uint64_t changed = 0;

	(void)state;
	const uint64_t ino = make("file", G4_MIB), place = rig_place(&rig, ino, 70);
	send_down(ino, G4_MIB);
	assert_true(in_tier(place));
	for (uint64_t page = 0; page < (uint64_t)tier->set_count * G4_TIER_WAYS; page++) {
		uint8_t *frame = tier->frames + page * G4_PAGE_BYTES;
		if (memcmp(frame, rig.image + place, G4_PAGE_BYTES) == 0) {
			frame[1234] ^= 4;
			changed++;
		}
	}
	assert_int_equal(changed, 1);
	const uint64_t reads = read_all(ino, G4_MIB);
	assert_in_range(reads, 1, 2);
	assert_false(in_tier(place));
	assert_int_equal(rig.fs->damaged_pages, 0);
	rig_squeeze(&rig); /* the page cache has the device's, and its version is of before that was doubted */
	assert_false(in_tier(place));
	send_down(ino, G4_MIB);
	assert_true(in_tier(place));
	assert_int_equal(read_all(ino, G4_MIB), 0);
}

/* Pages of metadata, too: they are kept as they were read, and looked at as if they came from the device. */
static void metadata_comes_up_and_is_verified(void **state)
{
	struct g4_tier *tier = &rig.fs->space.tier;

	(void)state;
	const uint64_t ino = make("file", FILE_BYTES);
	assert_int_equal(g4_sync_all(rig.wg, rig.fs, true), 0);
	send_down(ino, FILE_BYTES);
	assert_int_equal(read_all(ino, FILE_BYTES), 0); /* nor what leads to its pages, and their sums */
	rig_squeeze(&rig);
	for (uint64_t at = 5; at < (uint64_t)tier->set_count * G4_TIER_WAYS * G4_PAGE_BYTES; at += G4_PAGE_BYTES)
		tier->frames[at] ^= 1;
	assert_true(read_all(ino, FILE_BYTES) > 0);
	assert_int_equal(rig.fs->damaged_pages, 0);
}

/* ---- anything ---- */

#define FILES 6u
#define MOST_BYTES (40 * G4_PAGE_BYTES)

struct shadow {
	uint64_t ino, size;
	uint8_t *bytes;
};

static void write_some(struct shadow *file, uint64_t *random)
{
	const uint64_t at = rig_random(random) % (MOST_BYTES - 1), most = MOST_BYTES - at;
	const uint64_t bytes = 1 + rig_random(random) % g4_min64(most, rig_random(random) % 2 ? 200 : most);

	if (at > file->size)
		memset(file->bytes + file->size, 0, at - file->size);
	rig_pattern(file->bytes + at, rig_random(random), bytes);
	assert_int_equal(op_write(&rig, file->ino, 0, at, file->bytes + at, bytes, NULL), 0);
	file->size = g4_max64(file->size, at + bytes);
}

static void cut_some(struct shadow *file, uint64_t *random)
{
	const uint64_t size = rig_random(random) % MOST_BYTES;

	if (size > file->size)
		memset(file->bytes + file->size, 0, size - file->size);
	assert_int_equal(op_truncate(&rig, file->ino, size), 0);
	file->size = size;
}

/* Whole pages of one file become another's as well. */
static void share_some(struct shadow *from, struct shadow *to, uint64_t *random)
{
	const uint64_t bytes = from->size / G4_PAGE_BYTES * G4_PAGE_BYTES;
	uint64_t in, out, done;

	if (from == to || bytes == 0)
		return;
	(void)random;
	assert_int_equal(op_open(&rig, from->ino, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to->ino, G4_OPEN_READ | G4_OPEN_WRITE, &out), 0);
	assert_int_equal(op_copy_as(&rig, in, 0, out, 0, bytes, G4_COPY_SHARE, &done), 0);
	assert_int_equal(done, bytes);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	memcpy(to->bytes, from->bytes, bytes);
	to->size = g4_max64(to->size, bytes);
}

static void renew(struct shadow *file, uint32_t number)
{
	char name[16];

	snprintf(name, sizeof(name), "f%u", number);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	file->ino = rig_make(&rig, number);
	file->size = 0;
}

static void whatever_happens_to_files_what_is_read_is_theirs(void **state)
{
	struct shadow files[FILES];
	uint64_t random = rig_setting("G4_TEST_SEED", 19);

	(void)state;
	for (uint32_t i = 0; i < FILES; i++)
		files[i] = (struct shadow){.ino = rig_make(&rig, i), .bytes = rig_memory(MOST_BYTES, 0)};
	for (uint32_t step = 0; step < 6000; step += rig_every(4)) {
		const uint32_t i = (uint32_t)(rig_random(&random) % FILES);
		struct shadow *file = &files[i];
		switch (rig_random(&random) % 16) {
		case 0:
			cut_some(file, &random);
			break;
		case 1:
			share_some(file, &files[rig_random(&random) % FILES], &random);
			break;
		case 2:
			renew(file, i);
			break;
		case 3:
			assert_int_equal(op_sync(&rig), 0);
			break;
		case 4:
		case 5:
		case 6:
			rig_squeeze(&rig);
			break;
		case 7:
		case 8:
		case 9:
			write_some(file, &random);
			break;
		default:
			if (file->size > 0)
				rig_expect_contents(&rig, file->ino, 0, found, file->bytes, file->size);
			break;
		}
	}
	print_message("%lu down, %lu again, %lu old, %lu up, %lu dropped\n", (unsigned long)counts()->down,
		      (unsigned long)counts()->down_again, (unsigned long)counts()->down_old,
		      (unsigned long)counts()->up, (unsigned long)counts()->dropped);
	assert_true(counts()->up > 0 && counts()->down_old > 0 && counts()->dropped > 0);
	for (uint32_t i = 0; i < FILES; i++)
		free(files[i].bytes);
}

#define tier_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		tier_test(a_file_twice_the_page_cache_is_read_once),
		cmocka_unit_test_setup_teardown(without_victims_it_is_read_again, setup_small, teardown),
		cmocka_unit_test_setup_teardown(without_victims_it_is_read_again, setup_without_tier, teardown),
		cmocka_unit_test_setup_teardown(pages_of_a_tier_may_lie_elsewhere, setup_apart, teardown),
		tier_test(what_is_written_over_is_not_found),
		tier_test(what_one_of_two_files_writes_does_not_go_down_as_the_others),
		tier_test(nor_the_tail_that_one_of_them_has_lost),
		tier_test(a_page_that_is_freed_and_used_again_is_the_new_one),
		tier_test(a_page_that_was_mended_is_the_new_one),
		tier_test(an_order_about_disks_leaves_nothing),
		cmocka_unit_test_setup_teardown(a_victim_that_changes_in_memory_is_read_from_the_device,
						setup_with_sums, teardown),
		cmocka_unit_test_setup_teardown(metadata_comes_up_and_is_verified, setup_with_sums, teardown),
		tier_test(whatever_happens_to_files_what_is_read_is_theirs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
