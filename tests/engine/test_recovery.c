/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery where what it needs is itself torn, and of a journal that is full to its last page. What the crash explorer
 * (tests/crash/) found once, made by hand.
 */
#include "rig.h"

#include <fcntl.h>
#include <unistd.h>

#include "fs/fs.h"
#include "fs/mkfs_host.h"
#include "fs/mount_host.h"
#include "hash/crc32c.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (16 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define SECTOR 512u

static struct rig rig;
static struct g4_wg *wg;
static uint64_t node;

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
}

static void stop(bool clean)
{
	rig_unmount_fs(&rig, wg, rig.fs, clean);
	rig.fs = NULL;
}

/* A number that one transaction changes: the permissions of a file. */
static void set(uint32_t value)
{
	struct g4_attr attr = {.mode = value};

	assert_int_equal(op_setattr(&rig, node, G4_SET_MODE, &attr), 0);
	assert_int_equal(op_sync(&rig), 0);
}

static uint32_t get(void)
{
	struct g4_attr attr;

	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "f", &attr), 0);
	node = attr.ino;
	return attr.mode & 0777;
}

static void make(void)
{
	mount();
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 01, &node), 0);
	assert_int_equal(op_sync(&rig), 0);
}

static uint8_t *copy_image(void)
{
	uint8_t *copy = (uint8_t *)malloc(DEVICE_BYTES);

	assert_non_null(copy);
	rig_copy(copy, rig.image, DEVICE_BYTES);
	return copy;
}

/* Every mixture of the old and the new header, cut between two words as on mapped memory. */
static void a_torn_header_is_made_good_by_the_log(void **state)
{
	uint32_t tried = 0;

	(void)state;
	make();
	stop(true);
	mount();
	for (uint32_t value = 2; value < 40; value++)
		set(value);
	uint64_t at = rig.fs->meta.layout.journal_address;
	uint8_t *before = copy_image();
	stop(true); /* moves the tail */
	uint8_t *after = copy_image();
	for (uint32_t words = 1; words < 8; words++) {
		rig_copy(rig.image, after, DEVICE_BYTES);
		memcpy(rig.image + at + 8 * words, before + at + 8 * words, 64 - 8 * words);
		tried += memcmp(rig.image + at, before + at, 64) != 0 && memcmp(rig.image + at, after + at, 64) != 0;
		mount();
		assert_int_equal(get(), 39);
		set(0700 + words);
		stop(false);
		mount();
		assert_int_equal(get(), 0700 + words);
		stop(true);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after a torn header");
	}
	assert_true(tried >= 3);
	free(before);
	free(after);
}

/* After a crash; after a clean unmount there is nothing to replay (test_rollback.c). */
static void a_lost_header_without_a_log_is_an_error(void **state)
{
	struct g4_fs_options options = {.cache_bytes = 4 * G4_MIB};
	struct g4_dev_open_options open_options = {0};
	struct g4_dev *dev;
	struct g4_fs *fs;
	char message[256];

	(void)state;
	make();
	stop(false);
	memset(rig.image + 2 * G4_PAGE_BYTES, 0, JOURNAL_BYTES);
	assert_int_equal(g4_dev_open(rig.name, &open_options, &dev, message, sizeof(message)), 0);
	assert_int_equal(g4_fs_mount(wg, dev, &options, &fs, message, sizeof(message)), -G4_E_CHECKSUM);
	assert_non_null(strstr(message, "journal"));
	g4_dev_close(dev);
}

/* ------------------------------------------------------------------ a record in the middle of the log */

#define RECORDS 8u
enum { DOUBTFUL = 1, LOST = 2 }; /* enum g4_fsck_outcome */
struct record {			 /* of the transaction that set `value` */
	uint32_t value;
	uint64_t sequence, page, pages;
};
static struct record records[RECORDS]; /* the newest, in order; all of them may not be home */

static uint8_t *log_page(uint64_t page)
{
	struct g4_layout layout;

	g4_layout_of((const struct g4_superblock *)(rig.image + G4_SUPERBLOCK_ADDRESS), &layout);
	return rig.image + layout.journal_address +
	       (1 + page % (layout.journal_bytes / G4_PAGE_BYTES - 1)) * G4_PAGE_BYTES;
}

static const struct g4_journal_header *journal_header(void)
{
	return (const struct g4_journal_header *)(log_page(0) - G4_PAGE_BYTES);
}

/* Transactions, and then the power goes. `wrapped`: the last page of the log is one of a record in the middle. */
static void make_records(bool wrapped)
{
	const uint64_t log_pages = JOURNAL_BYTES / G4_PAGE_BYTES - 1;
	uint32_t value = 1; /* as make() has it */
	bool there;

	memset(records, 0, sizeof(records));
	make();
	stop(true); /* the file is home */
	mount();
	do {
		for (uint32_t i = 0; i + 1 < RECORDS; i++)
			records[i] = records[i + 1];
		const uint64_t page = rig.fs->journal.head_page;
		value = value % 0700 + 1;
		set(value);
		records[RECORDS - 1] =
			(struct record){.value = value,
					.sequence = rig.fs->journal.durable,
					.page = page,
					.pages = (rig.fs->journal.head_page + log_pages - page) % log_pages};
		const struct record *middle = &records[RECORDS / 2];
		there = records[0].value != 0 && journal_header()->tail_sequence < records[0].sequence &&
			(!wrapped || middle->page + middle->pages >= log_pages);
	} while (!there);
	stop(false);
}

static void damage_page(uint64_t page)
{
	log_page(page)[64] ^= 1;
}

static int try_mount(uint32_t flags, uint32_t device_flags, bool no_replay, char message[256])
{
	struct g4_fs_options options = {.cache_bytes = 4 * G4_MIB, .flags = flags, .no_replay = no_replay};
	struct g4_dev_open_options open_options = {.flags = device_flags};
	struct g4_dev *dev;
	struct g4_fs *fs;

	assert_int_equal(g4_dev_open(rig.name, &open_options, &dev, message, 256), 0);
	const int rc = g4_fs_mount(wg, dev, &options, &fs, message, 256);
	if (rc == 0)
		g4_fs_unmount(wg, fs, false);
	g4_dev_close(dev);
	return rc;
}

/* No kind of mount passes it in silence, and none changes a byte; a repair says what is given up. */
static void expect_gap(const char *what, uint32_t outcome, uint32_t value)
{
	static const uint32_t kinds[][2] = {{0, 0}, {G4_FS_READ_ONLY, 0}, {G4_FS_READ_ONLY, G4_DEV_READ_ONLY}};
	uint8_t *before = copy_image();
	struct rig_repair how = {0};
	char message[256];

	for (uint32_t i = 0; i < 3; i++) {
		const int rc = try_mount(kinds[i][0], kinds[i][1], false, message);
		if (rc != -G4_E_JOURNAL_GAP || strstr(message, "fsck.gpu4fs") == NULL)
			fail_msg("%s, kind %u: %d: %s", what, i, rc, message);
		assert_memory_equal(rig.image, before, DEVICE_BYTES);
	}
	/* who wants to look at it without the journal may */
	assert_int_equal(try_mount(G4_FS_READ_ONLY, G4_DEV_READ_ONLY, true, message), 0);
	assert_memory_equal(rig.image, before, DEVICE_BYTES);
	free(before);
	if (rig_repair(&rig, &how) < 0)
		fail_msg("%s: %s", what, how.words);
	if (how.found == 0 || how.outcome[outcome] == 0)
		fail_msg("%s: nobody was told:\n%s", what, how.text);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, what);
	mount();
	if (get() != value)
		fail_msg("%s: %u is there, not %u", what, get(), value);
	stop(true);
}

/* A record that was durable is damaged: its descriptor, an image, the page that ends it, or all of it. */
static void a_damaged_record_in_the_middle_is_told(void **state)
{
	(void)state;
	for (uint32_t wrapped = 0; wrapped < 2; wrapped++) {
		if (wrapped) {
			teardown(state);
			setup(state);
		}
		make_records(wrapped);
		uint8_t *whole = copy_image();
		for (uint32_t at = 0; at + 1 < RECORDS; at++) {
			const struct record *r = &records[at];
			const uint32_t before = at ? records[at - 1].value : (r->value + 0700 - 2) % 0700 + 1;
			for (uint64_t page = 0; page <= r->pages; page++) {
				rig_copy(rig.image, whole, DEVICE_BYTES);
				for (uint64_t p = 0; p < r->pages; p++)
					if (page == r->pages || p == page)
						damage_page(r->page + p);
				char what[64];
				snprintf(what, sizeof(what), "record %u, page %lu%s", at, (unsigned long)page,
					 wrapped ? ", wrapped" : "");
				expect_gap(what, LOST, before);
			}
		}
		/* a newest one that is torn is no damage */
		rig_copy(rig.image, whole, DEVICE_BYTES);
		damage_page(records[RECORDS - 1].page);
		mount();
		assert_int_equal(get(), records[RECORDS - 2].value);
		stop(true);
		free(whole);
	}
}

/* Neither is there a header to tell where the records begin that may not be home. */
static void a_damaged_record_and_header_are_told(void **state)
{
	const struct record *last = &records[RECORDS - 1];

	(void)state;
	make_records(false);
	uint8_t *header = log_page(0) - G4_PAGE_BYTES;
	uint8_t *whole = copy_image();
	/* the first page is there, what follows it is not: a record that was overwritten would have lost that first */
	for (uint32_t at = 0; at + 1 < RECORDS; at++) {
		rig_copy(rig.image, whole, DEVICE_BYTES);
		header[40] ^= 1;
		damage_page(records[at].page + records[at].pages - 1);
		expect_gap("a record and the header", DOUBTFUL, last->value);
	}
	/* nor is anything of it, but older ones are */
	for (uint32_t at = 1; at + 1 < RECORDS; at++) {
		rig_copy(rig.image, whole, DEVICE_BYTES);
		header[40] ^= 1;
		for (uint64_t p = 0; p < records[at].pages; p++)
			damage_page(records[at].page + p);
		expect_gap("all of a record and the header", DOUBTFUL, last->value);
	}
	/* the newest is torn, as by a crash, and the one before it damaged */
	rig_copy(rig.image, whole, DEVICE_BYTES);
	header[40] ^= 1;
	damage_page(last->page + last->pages - 1);
	damage_page(last[-1].page + last[-1].pages - 1);
	expect_gap("the two newest records and the header", LOST, last[-2].value);
	free(whole);
}

static void make_again(void)
{
	const struct g4_superblock *sb = (const struct g4_superblock *)(rig.image + G4_SUPERBLOCK_ADDRESS);
	struct g4_dev_open_options open_options = {0};
	struct g4_superblock made;
	uint8_t uuid[G4_UUID_BYTES];
	char message[256];
	struct g4_dev *dev;

	memcpy(uuid, sb->uuid, sizeof(uuid));
	const struct g4_mkfs_options options = {.journal_bytes = JOURNAL_BYTES, .uuid = uuid};
	assert_int_equal(g4_dev_open(rig.name, &open_options, &dev, message, sizeof(message)), 0);
	assert_int_equal(g4_mkfs(dev, &options, &made, message, sizeof(message)), 0);
	g4_dev_close(dev);
	assert_memory_equal(sb->uuid, uuid, sizeof(uuid));
}

/* A file system in place of one that had the same UUID, after a crash: each begins its numbers anywhere. */
static void what_an_older_file_system_left_is_nothing(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 12; round++) {
		make_records(false);
		make_again();
		make();
		set(2);
		stop(false);
		rig_expect_clean(&rig, RIG_ANY_FREE, "in place of another");
		mount();
		assert_int_equal(get(), 2);
		stop(true);
		make_again();
	}
}

/* The record that is written next is torn in its turn and brings just the piece that the dropped one lacks. */
static void a_dropped_record_does_not_come_back(void **state)
{
	(void)state;
	make();
	set(1);
	uint64_t head = rig.fs->journal.head_page;
	uint64_t at = rig.fs->meta.layout.journal_address + (1 + head) * G4_PAGE_BYTES;
	uint8_t *before = copy_image();
	set(2);
	stop(false);
	assert_memory_not_equal(rig.image + at, before + at, SECTOR);
	memcpy(rig.image + at, before + at, SECTOR); /* torn: its first sector never arrived */
	free(before);
	mount();
	assert_int_equal(get(), 1);
	assert_int_equal(rig.fs->journal.head_page, head);
	before = copy_image();
	set(3);
	stop(false);
	uint8_t *after = copy_image();
	rig_copy(rig.image, before, DEVICE_BYTES);
	memcpy(rig.image + at, after + at, SECTOR);
	mount();
	assert_int_equal(get(), 1);
	stop(true);
	free(before);
	free(after);
}

/* A device that only can be read: what the journal holds is shown, and not a byte is written. */
static void a_journal_is_read_without_being_replayed(void **state)
{
	const struct g4_fs_options options = {.flags = G4_FS_READ_ONLY, .cache_bytes = 4 * G4_MIB};
	const struct g4_dev_open_options open_options = {.flags = G4_DEV_READ_ONLY};
	struct g4_dev *dev;
	char message[256] = "";

	(void)state;
	make();
	stop(true);
	mount();
	assert_int_equal(get(), 01);
	for (uint32_t value = 2; value < 7; value++) {
		char name[16];
		uint64_t dir;
		snprintf(name, sizeof(name), "d%u", value);
		assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, name, 0755, &dir), 0);
		assert_int_equal(op_mkdir(&rig, dir, "inside", 0755, NULL), 0);
		set(value);
	}
	assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "d2"), -G4_E_NOTEMPTY);
	stop(false);
	uint8_t *before = copy_image();
	assert_int_equal(g4_dev_open(rig.name, &open_options, &dev, message, sizeof(message)), 0);
	if (g4_fs_mount(wg, dev, &options, &rig.fs, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	struct g4_attr attr;
	assert_int_equal(get(), 6);
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "d6", &attr), 0);
	assert_int_equal(op_lookup(&rig, attr.ino, "inside", &attr), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "late", 0755, NULL), -G4_E_ROFS);
	assert_int_equal(g4_fs_unmount(wg, rig.fs, true), 0);
	rig.fs = NULL;
	g4_dev_close(dev);
	assert_memory_equal(before, rig.image, DEVICE_BYTES);
	free(before);
	mount();
	assert_int_equal(get(), 6);
	stop(true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after a replay");
}

/* The copy that a mount did not read may be damaged: while it is written the other one stays as it is. */
static void the_superblock_that_was_not_read_is_written_first(void **state)
{
	const struct g4_fault none = {0};

	(void)state;
	for (uint32_t damaged = 0; damaged < 2; damaged++) {
		mount();
		uint64_t copies[2] = {G4_SUPERBLOCK_ADDRESS, rig.fs->meta.layout.backup_address}, found = 0;
		stop(true);
		rig.image[copies[damaged] + 100] ^= 1;
		struct g4_dev_open_options options = {0};
		const struct g4_fs_options fs_options = {.cache_bytes = 4 * G4_MIB};
		struct g4_dev *dev, *fault;
		struct g4_fs *fs;
		char message[256];
		assert_int_equal(g4_dev_open(rig.name, &options, &dev, message, sizeof(message)), 0);
		assert_int_equal(g4_dev_fault_open(dev, &fault), 0);
		g4_dev_fault_set(fault, &none);
		g4_dev_fault_record(fault, true);
		assert_int_equal(g4_fs_mount(wg, fault, &fs_options, &fs, message, sizeof(message)), 0);
		for (uint64_t k = 0; k < g4_dev_fault_recorded(fault) && !found; k++) {
			uint64_t offset = g4_dev_fault_recorded_op(fault, k)->offset_bytes;
			found = offset == copies[0] || offset == copies[1] ? offset : 0;
		}
		assert_int_equal(found, copies[damaged]);
		assert_int_equal(g4_fs_unmount(wg, fs, true), 0);
		g4_dev_close(fault);
	}
}

/* ------------------------------------------------------------------ a full journal */

#define LARGE_BYTES (512 * G4_MIB)
#define LARGE_JOURNAL (128 * G4_MIB)
#define TARGETS 9000u
#define IMAGES 100u /* of one record */
#define REVOKES 7u
#define FIRST_TARGET (256 * G4_MIB)

static uint64_t newest[TARGETS]; /* sequence whose image belongs there, 0: none */

static uint64_t target(uint64_t *random)
{
	return rig_random(random) % TARGETS;
}

/* One record from log page `page` on; `pages` of the log in all, 3 at least. */
static void write_record(const struct g4_layout *layout, uint32_t fs_tag, uint64_t page, uint64_t pages,
			 uint64_t sequence, uint64_t *random)
{
	uint8_t *at = rig.image + layout->journal_address + (1 + page) * G4_PAGE_BYTES;
	struct g4_journal_descriptor *d = (struct g4_journal_descriptor *)at;
	struct g4_journal_commit *commit = (struct g4_journal_commit *)(at + (pages - 1) * G4_PAGE_BYTES);
	uint64_t address = layout->journal_address + (1 + page) * G4_PAGE_BYTES, image_count = pages - 2;

	memset(d, 0, sizeof(*d));
	d->sequence = sequence;
	d->block_count = (uint32_t)image_count;
	d->revoke_count = REVOKES;
	d->page_count = 1;
	for (uint64_t k = 0; k < image_count; k++) {
		uint64_t n = target(random);
		d->tags[k] = FIRST_TARGET + n * G4_PAGE_BYTES;
		newest[n] = sequence;
		/* the same contents should a record have two images for one place */
		memset(at + (1 + k) * G4_PAGE_BYTES, (int)(sequence & 0xff), G4_PAGE_BYTES);
		g4_block_seal(at + (1 + k) * G4_PAGE_BYTES, G4_BLOCK_XATTR_VALUE, g4_address_from(d->tags[k]), sequence,
			      fs_tag);
	}
	for (uint64_t k = 0; k < REVOKES; k++) {
		uint64_t n = target(random);
		d->tags[image_count + k] = FIRST_TARGET + n * G4_PAGE_BYTES;
		newest[n] = 0;
	}
	g4_block_seal(d, G4_BLOCK_JOURNAL_DESCRIPTOR, g4_address_from(address), sequence, fs_tag);
	memset(commit, 0, sizeof(*commit));
	commit->sequence = sequence;
	commit->record_pages = pages;
	commit->record_crc32c = g4_crc32c(0, at, (pages - 1) * G4_PAGE_BYTES);
	g4_block_seal(commit, G4_BLOCK_JOURNAL_COMMIT, g4_address_from(address + (pages - 1) * G4_PAGE_BYTES), sequence,
		      fs_tag);
}

/* From the page that the tail stands at, 0 on a new image, to the last page of the log. */
static void fill_journal(void)
{
	const struct g4_superblock *sb = (const struct g4_superblock *)(rig.image + G4_SUPERBLOCK_ADDRESS);
	struct g4_layout layout;
	uint64_t random = 1;
	uint32_t fs_tag;

	g4_layout_of(sb, &layout);
	memcpy(&fs_tag, sb->uuid, sizeof(fs_tag));
	const struct g4_journal_header *header = (const struct g4_journal_header *)(rig.image + layout.journal_address);
	uint64_t log = layout.journal_bytes / G4_PAGE_BYTES - 1, sequence = header->tail_sequence;
	assert_int_equal(header->tail_page, 0);
	memset(newest, 0, sizeof(newest));
	for (uint64_t page = 0, pages; page < log; page += pages, sequence++) {
		pages = g4_min64(log - page, IMAGES + 2);
		if (log - page - pages < 3) /* none that is too short for a record is left */
			pages = log - page;
		write_record(&layout, fs_tag, page, pages, sequence, &random);
	}
}

static void check_targets(struct g4_dev *dev)
{
	uint8_t *page = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, G4_PAGE_BYTES);
	uint64_t zeros = 0;

	assert_non_null(page);
	for (uint64_t n = 0; n < TARGETS; n++) {
		assert_int_equal(g4_dev_read(wg, dev, FIRST_TARGET + n * G4_PAGE_BYTES, page, G4_PAGE_BYTES), 0);
		const struct g4_block_header *header = (const struct g4_block_header *)page;
		assert_int_equal(header->generation, newest[n]);
		assert_int_equal(page[G4_PAGE_BYTES - 1], newest[n] & 0xff);
		zeros += newest[n] == 0;
	}
	assert_in_range(zeros, 1, TARGETS / 2);
	free(page);
}

/* How long a mount takes goes to the output: it is what docs/reliability.md states, and depends on the device. */
static void mount_and_check(const char *name, const char *what)
{
	const struct g4_fs_options fs_options = {.cache_bytes = 16 * G4_MIB};
	struct g4_dev_open_options options = {0};
	struct g4_dev *dev;
	struct g4_fs *fs;
	char message[256] = "";

	assert_int_equal(g4_dev_open(name, &options, &dev, message, sizeof(message)), 0);
	uint64_t start = g4_monotonic_ns();
	int rc = g4_fs_mount(wg, dev, &fs_options, &fs, message, sizeof(message));
	uint64_t took = g4_monotonic_ns() - start;
	if (rc < 0)
		fail_msg("%s", message);
	print_message("recovery of a full journal of 128 MiB, %s: %lu ms\n", what, (unsigned long)(took / 1000000));
	assert_int_equal(g4_fs_unmount(wg, fs, true), 0);
	check_targets(dev);
	g4_dev_close(dev);
}

static void write_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint64_t end = 2 * G4_PAGE_BYTES + LARGE_JOURNAL + 64 * G4_PAGE_BYTES, last = LARGE_BYTES - G4_PAGE_BYTES;

	assert_true(fd >= 0);
	assert_return_code(ftruncate(fd, (off_t)LARGE_BYTES), 0);
	for (uint64_t at = 0; at < end; at += G4_MIB)
		assert_int_equal(pwrite(fd, rig.image + at, G4_MIB, (off_t)at), G4_MIB);
	assert_int_equal(pwrite(fd, rig.image + last, G4_PAGE_BYTES, (off_t)last), G4_PAGE_BYTES);
	assert_return_code(fsync(fd), 0);
	close(fd);
}

static void a_full_journal_is_replayed(void **state)
{
	char path[64];

	(void)state;
	wg = g4_wg_create(0);
	rig_open(&rig, LARGE_BYTES, LARGE_JOURNAL);
	fill_journal();
	snprintf(path, sizeof(path), "full-journal-%ld.img", (long)getpid());
	write_file(path);
	mount_and_check(rig.name, "in memory");
	mount_and_check(path, "in a file");
	unlink(path);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the replay of a full journal");
	rig_close(&rig);
	g4_wg_destroy(wg);
}

#define recovery_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		recovery_test(a_torn_header_is_made_good_by_the_log),
		recovery_test(a_lost_header_without_a_log_is_an_error),
		recovery_test(a_damaged_record_in_the_middle_is_told),
		recovery_test(a_damaged_record_and_header_are_told),
		recovery_test(what_an_older_file_system_left_is_nothing),
		recovery_test(a_dropped_record_does_not_come_back),
		recovery_test(a_journal_is_read_without_being_replayed),
		recovery_test(the_superblock_that_was_not_read_is_written_first),
		cmocka_unit_test(a_full_journal_is_replayed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
