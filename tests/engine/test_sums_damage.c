/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums that somebody made up: pages and blocks of them that are whole by themselves, right checksums and all, and say what is not so.
 * Entries that are another page's or another file's, of no known algorithm, or that lead into other files, free space and nowhere. Who
 * reads gets an error for what is concerned and everything else as it was written; a scrub and fsck come to an end and say so; what is
 * written over is right again; a file that is removed takes no contents of another with it: what a large page's entry led to is free
 * then, and a repair gives it back. And a policy of the file system that nobody knows is a refused mount.
 */
#include "damage.h"

#include "data/map.h"
#include "format/sums.h"
#include "fs/fs.h"
#include "fsck/fsck_types.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define PAGES 300u
#define BAD 140u /* a page of the file, in the second quarter */
#define LARGE (uint64_t) G4_INDIRECT_SLOTS

static struct rig rig;
static uint8_t *data, *others, *found;
static uint64_t ino, other;

static int setup(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, RIG_AS_SET, DEVICE_BYTES, 0, NULL);
	data = rig_memory(LARGE * G4_PAGE_BYTES, 21);
	others = rig_memory(LARGE * G4_PAGE_BYTES, 22);
	found = rig_memory(LARGE * G4_PAGE_BYTES, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(data);
	free(others);
	free(found);
	if (rig.fs)
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
	return 0;
}

static void make_both(uint64_t pages)
{
	ino = rig_make_file(&rig, "file", 0, data, pages * G4_PAGE_BYTES);
	other = rig_make_file(&rig, "other", 0, others, pages * G4_PAGE_BYTES);
	assert_int_equal(op_sync(&rig), 0);
}

static uint64_t page_of_sums(uint64_t file, uint32_t quarter)
{
	struct g4_map_nodes nodes;
	uint32_t index;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, file, &index), 0);
	assert_int_equal(g4_map_nodes(rig.wg, rig.fs, g4_icache_at(rig.fs, index), BAD, &nodes), 0);
	g4_icache_put(rig.fs, index);
	assert_true(nodes.sums_count > quarter);
	return g4_address_stored(nodes.sums[quarter]);
}

static struct g4_sums_page *page_at(uint64_t address)
{
	return (struct g4_sums_page *)(void *)(rig.image + address);
}

/* ------------------------------------------------------------------ entries of pages of 4 KiB */

enum wrong {
	OF_OTHER_BYTES,
	OF_THE_NEXT_PAGE,
	OF_ANOTHER_FILE,
	OF_NO_ALGORITHM,
	LOST,
	INTO_ANOTHER_FILES_SUMS,
	INTO_ANOTHER_FILES_DATA,
	INTO_FREE_SPACE,
	BEYOND_THE_END,
	TO_THE_SUPERBLOCK,
	WRONGS
};

/* What the entry becomes. */
static void make_wrong(enum wrong wrong, struct g4_sum_entry *entry, const struct g4_sum_entry *next,
		       const struct g4_sum_entry *theirs, uint64_t their_sums, uint64_t their_data)
{
	const uint64_t places[WRONGS] = {[INTO_ANOTHER_FILES_SUMS] = their_sums,
					 [INTO_ANOTHER_FILES_DATA] = their_data,
					 [INTO_FREE_SPACE] = DEVICE_BYTES - 64 * G4_PAGE_BYTES,
					 [BEYOND_THE_END] = DEVICE_BYTES + G4_GIB,
					 [TO_THE_SUPERBLOCK] = G4_SUPERBLOCK_ADDRESS};
	static const uint64_t hashes[G4_SUMS_QUARTERS];

	switch (wrong) {
	case OF_OTHER_BYTES:
		entry->bytes[5] ^= 4;
		break;
	case OF_THE_NEXT_PAGE:
		*entry = *next;
		break;
	case OF_ANOTHER_FILE:
		*entry = *theirs;
		break;
	case OF_NO_ALGORITHM: /* bits 243 to 250: 77 */
		memset(entry, 0, sizeof(*entry));
		entry->bytes[30] = (uint8_t)(77u << 3);
		entry->bytes[31] = 77u >> 5;
		assert_int_equal(g4_sum_entry_algorithm(entry), G4_CHECKSUM_UNKNOWN);
		break;
	case LOST:
		g4_sum_entry_make_lost(entry);
		break;
	default:
		g4_sum_entry_make_large(entry, g4_address_from(places[wrong]), hashes);
	}
}

static void put_wrong_entry(enum wrong wrong, uint64_t sums, uint64_t their_sums, uint64_t their_data)
{
	struct g4_sums_page theirs = *page_at(their_sums), *page = page_at(sums), ours = *page;
	struct g4_sums_header header, unused;
	struct g4_superblock sb;

	memcpy(&sb, rig.image + G4_SUPERBLOCK_ADDRESS, sizeof(sb));
	assert_int_equal(g4_sums_verify(&theirs, g4_address_from(their_sums), g4_superblock_tag(&sb), &unused), 0);
	assert_int_equal(g4_sums_verify(&ours, g4_address_from(sums), g4_superblock_tag(&sb), &header), 0);
	*page = ours;
	g4_sums_strip(page);
	g4_sums_strip(&theirs);
	const uint32_t slot = BAD % G4_SUMS_SLOTS;
	make_wrong(wrong, &page->entries[slot], &page->entries[slot + 1], &theirs.entries[slot], their_sums,
		   their_data);
	g4_sums_seal(page, header.inode, header.level, header.quarter, g4_address_from(sums), header.header.generation,
		     header.header.fs_tag);
}

static void expect_other(uint64_t pages)
{
	rig_expect_contents(&rig, other, 0, found, others, pages * G4_PAGE_BYTES);
}

/* Pages from `first` to `end` are an error each, all others what was written. */
static void expect_unread(uint64_t pages, uint64_t first, uint64_t end, const char *which)
{
	for (uint64_t page = 0; page < pages; page++) {
		const uint64_t at = page * G4_PAGE_BYTES;
		const int rc = op_read(&rig, ino, 0, at, found, G4_PAGE_BYTES, NULL);
		const bool bad = page >= first && page < end;
		if (bad ? rc != -G4_E_DATA && rc != -G4_E_CORRUPT_SUMS :
			  rc < 0 || memcmp(found, data + at, G4_PAGE_BYTES) != 0)
			fail_msg("%s: page %u: %s", which, (unsigned)page, g4_strerror(rc));
	}
}

static void expect_fsck_to_say_so(const char *which)
{
	char *text = NULL;
	const struct rig_data judged = rig_fsck_data(&rig, 1, &text);

	if (judged.problems + judged.damaged + judged.unverified == 0)
		fail_msg("%s: fsck --data says nothing: %s", which, text);
	free(text);
}

/* To its end: damaged pages. */
static uint64_t scrub(void)
{
	struct g4_cmd start = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB};
	struct g4_health health;

	const int rc = g4_execute(rig.wg, rig.fs, &start);
	assert_true(rc == 0 || rc == -G4_E_BUSY); /* behind a crash that of before goes on */
	while (rig_last_job(&rig, &health)->state == G4_JOB_RUNNING)
		assert_int_equal(g4_jobs_serve(rig.wg, rig.fs, true), 0);
	assert_int_equal(rig_last_job(&rig, &health)->state, G4_JOB_DONE);
	return rig_last_job(&rig, &health)->errors;
}

static void an_entry_that_is_not_the_pages_own(void **state)
{
	char which[32];

	(void)state;
	make_both(PAGES);
	const uint64_t sums = page_of_sums(ino, 1), theirs = page_of_sums(other, 1);
	const uint64_t their_data = rig_place(&rig, other, BAD);
	for (enum wrong wrong = (enum wrong)0; wrong < WRONGS; wrong = (enum wrong)(wrong + 1)) {
		snprintf(which, sizeof(which), "wrong entry %u", (unsigned)wrong);
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
		put_wrong_entry(wrong, sums, theirs, their_data);
		expect_fsck_to_say_so(which);
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		expect_unread(PAGES, BAD, BAD + 1, which);
		assert_in_range(scrub(), 1, 2); /* it, and perhaps the page of sums */
		expect_other(PAGES);
		/* what is written over is right again, and nobody else's is gone */
		assert_int_equal(op_write(&rig, ino, 0, BAD * G4_PAGE_BYTES, data + BAD * G4_PAGE_BYTES, G4_PAGE_BYTES,
					  NULL),
				 0);
		assert_int_equal(op_sync(&rig), 0);
		expect_unread(PAGES, 0, 0, which);
		expect_other(PAGES);
		assert_int_equal(scrub(), 0);
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
		rig_expect_clean(&rig, RIG_ANY_FREE, which);
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		if (page_of_sums(ino, 1) != sums)
			fail_msg("%s: it is another page of sums now", which);
	}
}

/* The same, and the file goes. */
static void a_file_with_wrong_entries_takes_nothing_with_it(void **state)
{
	char which[32];

	(void)state;
	for (enum wrong wrong = (enum wrong)0; wrong < WRONGS; wrong = (enum wrong)(wrong + 1)) {
		snprintf(which, sizeof(which), "wrong entry %u", (unsigned)wrong);
		make_both(PAGES);
		const uint64_t sums = page_of_sums(ino, 1), theirs = page_of_sums(other, 1);
		const uint64_t their_data = rig_place(&rig, other, BAD);
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
		put_wrong_entry(wrong, sums, theirs, their_data);
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(rig.fs->journal.aborted, 0);
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
		rig_expect_clean(&rig, RIG_ANY_FREE, which);
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		expect_other(PAGES);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "other"), 0);
	}
}

/* ------------------------------------------------------------------ of a page of 2 MiB */

/* Its entry, in the block that the inode leads to. */
static struct g4_sum_entry *large_entry(uint64_t file)
{
	const struct g4_inode *inode = (const struct g4_inode *)(const void *)(rig.image + g4_ptr_offset(file));

	assert_true(inode->checksums != 0);
	return &((struct g4_sums_block *)(void *)(rig.image + inode->checksums))->entries[0];
}

static void an_entry_that_leads_elsewhere(void **state)
{
	struct rig_repair how;
	char which[32];

	(void)state;
	for (uint32_t wrong = INTO_ANOTHER_FILES_SUMS - 1; wrong < WRONGS; wrong++) {
		snprintf(which, sizeof(which), "wrong entry %u", wrong);
		make_both(LARGE);
		const uint64_t their_data = rig_place(&rig, other, BAD);
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
		struct g4_sum_entry *entry = large_entry(ino), *theirs = large_entry(other);
		if (wrong < INTO_ANOTHER_FILES_SUMS) /* all of it, hashes and all */
			*entry = *theirs;
		else
			make_wrong((enum wrong)wrong, entry, NULL, NULL, g4_address_stored(g4_sum_entry_place(theirs)),
				   their_data);
		const struct g4_inode *inode = (const struct g4_inode *)(const void *)(rig.image + g4_ptr_offset(ino));
		damage_seal(&rig, inode->checksums);
		expect_fsck_to_say_so(which);
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		expect_unread(LARGE, 0, LARGE, which);
		assert_true(scrub() > 0);
		expect_other(LARGE);
		const int gone = op_unlink(&rig, G4_NODE_ROOT, "file");
		if (gone == 0)
			assert_int_equal(op_sync(&rig), 0);
		else if (wrong != INTO_FREE_SPACE || gone != -G4_E_CORRUPT_ALLOC) /* the map says so: changes stop */
			fail_msg("%s: removing the file: %s", which, g4_strerror(gone));
		assert_int_equal(rig.fs->journal.aborted != 0, gone < 0);
		expect_other(LARGE);
		rig_unmount_fs(&rig, rig.wg, rig.fs, gone == 0);
		/*
		 * What the entry led to was freed with the file, whosever it was; its own pages of sums are nobody's. A repair puts
		 * both right.
		 */
		memset(&how, 0, sizeof(how));
		assert_int_equal(rig_repair(&rig, &how), 0);
		if (how.outcome[G4_FSCK_LOST] > 0)
			fail_msg("%s: %s", which, how.text);
		free(how.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, which);
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		expect_other(LARGE);
		assert_int_equal(scrub(), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), gone == 0 ? -G4_E_NOENT : 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "other"), 0);
		assert_int_equal(op_sync(&rig), 0);
	}
}

/* ------------------------------------------------------------------ the file system's policy */

static void a_policy_that_nobody_knows_is_a_refused_mount(void **state)
{
	static const uint32_t unknown[] = {5, 15, 0x80, UINT32_C(1) << 26};
	struct g4_fs *fs;

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	const uint64_t places[2] = {G4_SUPERBLOCK_ADDRESS, DEVICE_BYTES - G4_PAGE_BYTES};
	for (uint32_t k = 0; k < sizeof(unknown) / sizeof(unknown[0]); k++) {
		for (uint32_t copy = 0; copy < 2; copy++) {
			struct g4_superblock *sb = (struct g4_superblock *)(void *)(rig.image + places[copy]);
			sb->policy = unknown[k];
			g4_block_seal(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(places[copy]), sb->header.generation,
				      g4_superblock_tag(sb));
		}
		assert_int_equal(rig_try_mount_fs(&rig, rig.wg, NULL, &fs), -G4_E_POLICY);
	}
}

#define sums_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		sums_test(an_entry_that_is_not_the_pages_own),
		sums_test(a_file_with_wrong_entries_takes_nothing_with_it),
		sums_test(an_entry_that_leads_elsewhere),
		sums_test(a_policy_that_nobody_knows_is_a_refused_mount),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
