/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages that are listed, in an image that is damaged or hostile: what is wrong is found by the checker and taken from the list by a repair,
 * and costs a mount that meets it no more than a duplicate.
 */
#include "damage.h"

#include <pthread.h>
#include <stdlib.h>

#include "alloc/share.h"
#include "data/dedup.h"
#include "format/owners.h"
#include "fs/fs.h"
#include "fs/super.h"
#include "fsck/fsck.h"
#include "inode/txn.h"
#include "simt/simt_host.h"

#define PAGES 200u
#define BYTES (PAGES * (uint64_t)G4_PAGE_BYTES)

static struct rig rig;
static uint8_t data[BYTES], found[BYTES];

static int setup(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 64 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_crc32c(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_CRC32C, 1, 64 * G4_MIB, 0, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

static uint64_t make_with(uint32_t number)
{
	const uint64_t ino = rig_make(&rig, number);

	assert_int_equal(op_write(&rig, ino, 0, 0, data, BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	return ino;
}

static void expect(uint64_t ino)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, 0, found, BYTES, &done), 0);
	assert_int_equal(done, BYTES);
	assert_memory_equal(found, data, BYTES);
}

static void unmount(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
}

static void mount_and_load(void)
{
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	while (g4_dedup_serve(rig.wg, rig.fs))
		;
}

/* ---------------------------------------------------------------------------------------------------- the checker */

enum damage { SUM, UNUSED, METADATA, BROKEN, NOWHERE, OTHERS, DATA, SUMLESS, FEATURE, DAMAGES };

static void drop_feature(uint64_t address)
{
	struct g4_superblock *sb = (struct g4_superblock *)(void *)&rig.image[address];

	sb->features_incompat &= ~G4_FEATURE_INCOMPAT_LISTED;
	sb->policy &= ~G4_POLICY_DEDUP;
	damage_seal(&rig, address);
}

/* `at`: the address of the first page of a file. */
/* The first page of the group that is in use and has nothing of the file. */
static uint64_t metadata_in(const struct g4_alloc_page *map, uint64_t group, const uint64_t *places)
{
	for (uint64_t other = 0; other < G4_GROUP_PAGES; other++) {
		bool is_contents = false;

		if (!(map->regions[other / G4_REGION_PAGES].used[other % G4_REGION_PAGES / 64] >> other % 64 & 1))
			continue;
		for (uint32_t page = 0; page < PAGES; page++)
			is_contents |= places[page] == group * G4_GROUP_BYTES + other * G4_PAGE_BYTES;
		if (!is_contents)
			return other;
	}
	fail_msg("the group has no metadata");
	return 0;
}

/* Of the page at `at`, the first of a file whose pages lie at these places; those are for METADATA. */
static void damage_list(enum damage kind, uint64_t at, const uint64_t *places)
{
	const struct g4_alloc_page *map = damage_map(&rig, at);
	struct g4_shares_page *shares = (struct g4_shares_page *)(void *)&rig.image[map->shares];
	const uint64_t page = at / G4_PAGE_BYTES % G4_GROUP_PAGES;
	const uint32_t region = (uint32_t)(page / G4_REGION_PAGES), in_region = (uint32_t)(page % G4_REGION_PAGES);
	const uint32_t quarter = in_region / G4_LISTING_PAGES;
	const uint64_t listing_at = shares->listings[region][quarter];
	struct g4_listing_page *listing = (struct g4_listing_page *)(void *)&rig.image[listing_at];
	uint64_t other = 0; /* of the group */

	assert_true(g4_listed(shares, region, in_region));
	switch (kind) {
	case SUM:
		listing->sums[in_region % G4_LISTING_PAGES][5] ^= 1;
		damage_seal(&rig, listing_at);
		return;
	case UNUSED: /* the last page of the region, or another one that nobody has */
		for (other = region * G4_REGION_PAGES + G4_REGION_PAGES - 1;
		     map->regions[region].used[other % G4_REGION_PAGES / 64] >> other % 64 & 1; other--)
			;
		break;
	case METADATA:
		other = metadata_in(map, at / G4_GROUP_BYTES, places);
		break;
	case BROKEN:
		listing->sums[0][0] ^= 1;
		return;
	case NOWHERE:
		shares->listings[region][quarter] = rig.bytes / 2;
		damage_seal(&rig, map->shares);
		return;
	case OTHERS: /* its page of sums is another quarter's */
		listing->quarter++;
		damage_seal(&rig, listing_at);
		return;
	case DATA: /* that is contents of a file */
		shares->listings[region][quarter] = at;
		damage_seal(&rig, map->shares);
		return;
	case SUMLESS: /* the bits of another quarter, which has no page of sums */
		for (other = 0; shares->listings[other / G4_LISTING_QUARTERS][other % G4_LISTING_QUARTERS] != 0;
		     other++)
			;
		shares->listed[other / G4_LISTING_QUARTERS][other % G4_LISTING_QUARTERS * G4_LISTING_WORDS] = 6;
		damage_seal(&rig, map->shares);
		return;
	default:
		drop_feature(G4_SUPERBLOCK_ADDRESS);
		drop_feature(rig.bytes - G4_PAGE_BYTES);
		return;
	}
	shares->listed[other / G4_REGION_PAGES][other % G4_REGION_PAGES / 64] |= UINT64_C(1) << other % 64;
	g4_le64 *place = &shares->listings[other / G4_REGION_PAGES][other % G4_REGION_PAGES / G4_LISTING_PAGES];
	if (*place == 0)
		*place = listing_at; /* one more thing that is wrong */
	damage_seal(&rig, map->shares);
}

static void what_is_listed_wrongly_is_found_and_repaired(void **state)
{
	(void)state;
	rig_pattern(data, 1, BYTES);
	for (uint32_t kind = 0; kind < DAMAGES; kind++) {
		struct rig_repair how = {0};
		uint64_t places[PAGES];
		char *text;

		if (rig.fs == NULL)
			rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		const uint64_t a = make_with(2 * kind);
		for (uint32_t page = 0; page < PAGES; page++)
			places[page] = rig_place(&rig, a, page);
		unmount();
		damage_list((enum damage)kind, places[0], places);
		const struct rig_verdict verdict = rig_fsck(&rig, &text);
		if (verdict.problems == 0)
			print_error("damage %u is not found\n", kind);
		assert_int_not_equal(verdict.problems, 0);
		/* a page of shares that contradicts itself is damaged as a whole */
		assert_non_null(strstr(text, kind == SUMLESS ? "counts of owners" : "listed"));
		free(text);
		assert_int_equal(rig_repair(&rig, &how), 0);
		assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
		if (kind < BROKEN) /* a page of sums that nothing leads to is free, and was something */
			assert_int_equal(how.outcome[G4_FSCK_DOUBTFUL], 0);
		free(how.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
		mount_and_load();
		expect(a);
		const uint64_t b = make_with(2 * kind + 1);
		if (kind < BROKEN) /* one page is gone from the list, at most */
			assert_int_equal(rig_place(&rig, a, PAGES - 1), rig_place(&rig, b, PAGES - 1));
		unmount();
		rig_expect_clean(&rig, RIG_ANY_FREE, "with one more file");
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		expect(b);
		for (uint32_t f = 0; f < 2; f++) {
			char name[16];
			snprintf(name, sizeof(name), "f%u", 2 * kind + f);
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
		}
	}
}

/* A domain that is made now shares nothing with what is there; its file comes to that. */
static void expect_a_new_domain(const char *name, uint64_t *others, uint32_t *count)
{
	uint64_t dir, ino;

	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, name, 0755, &dir), 0);
	assert_int_equal(op_setxattr(&rig, dir, "gpu4fs.dedup", "domain", 6, 0), 0);
	assert_int_equal(op_mknod(&rig, dir, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	for (uint32_t k = 0; k < *count; k++)
		for (uint64_t page = 0; page < PAGES; page++)
			assert_int_not_equal(rig_place(&rig, ino, page), rig_place(&rig, others[k], page));
	others[(*count)++] = ino;
}

/*
 * A domain that was not made, or made and lost by the root block, or that the image may not have: nothing is deduplicated there, and who
 * gets its number afterwards finds nothing of it.
 */
static void a_domain_that_there_is_not_is_given_up(void **state)
{
	uint64_t inos[8];
	uint32_t count = 0;

	(void)state;
	rig_pattern(data, 13, BYTES);
	for (uint32_t kind = 0; kind < 4; kind++) {
		struct rig_repair how = {0};
		uint64_t dir, ino;
		char *text, word[8] = "", name[8];

		snprintf(name, sizeof(name), "d%u", kind);
		if (rig.fs == NULL)
			rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, name, 0755, &dir), 0);
		assert_int_equal(op_setxattr(&rig, dir, "gpu4fs.dedup", "domain", 6, 0), 0);
		assert_int_equal(op_mknod(&rig, dir, "f", G4_S_IFREG | 0644, &ino), 0);
		assert_int_equal(op_write(&rig, ino, 0, 0, data, BYTES, NULL), 0);
		inos[count++] = ino;
		const uint64_t root = g4_address_stored(g4_layout_root(&rig.fs->meta.layout));
		unmount();
		rig_expect_clean(&rig, RIG_ANY_FREE, "with a domain");
		struct g4_inode *inode = damage_inode(&rig, ino);
		if (kind == 0) {
			assert_int_equal(inode->entries, 1);
			inode->entries = 77;
		} else if (kind == 1) {
			inode->entries = 0;
		} else if (kind == 2) {
			((struct g4_root *)(void *)&rig.image[root])->domains = 1;
			damage_seal(&rig, root);
		} else { /* of a directory */
			damage_inode(&rig, dir)->rdev = UINT64_MAX;
			damage_seal(&rig, g4_ptr_offset(dir) / G4_PAGE_BYTES * G4_PAGE_BYTES);
		}
		damage_seal(&rig, g4_ptr_offset(ino) / G4_PAGE_BYTES * G4_PAGE_BYTES);
		assert_int_not_equal(rig_fsck(&rig, &text).problems, 0);
		assert_non_null(strstr(text, "of deduplication, which there is not"));
		free(text);
		assert_int_equal(rig_repair(&rig, &how), 0);
		assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
		assert_int_not_equal(how.outcome[G4_FSCK_DOUBTFUL], 0);
		free(how.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
		mount_and_load();
		expect(ino);
		assert_int_equal(op_getxattr(&rig, kind == 3 ? dir : ino, "gpu4fs.dedup", word, sizeof(word), NULL), 0);
		assert_string_equal(word, "off");
		name[0] = 'n';
		expect_a_new_domain(name, inos, &count);
	}
}

/* The root block alone says how many there are; where that is lost inodes tell, and what is listed is found by the files of its domain. */
static void domains_outlive_the_root_block(void **state)
{
	uint64_t dirs[2], inos[4], second, root = 0;
	struct rig_repair how = {0};
	uint32_t count = 0;
	char word[8];

	(void)state;
	rig_pattern(data, 14, BYTES);
	if (rig.fs == NULL)
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	for (uint32_t k = 0; k < 2; k++) {
		char name[8];
		snprintf(name, sizeof(name), "d%u", k);
		assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, name, 0755, &dirs[k]), 0);
		assert_int_equal(op_setxattr(&rig, dirs[k], "gpu4fs.dedup", "domain", 6, 0), 0);
		assert_int_equal(op_mknod(&rig, dirs[k], "f", G4_S_IFREG | 0644, &inos[count]), 0);
		assert_int_equal(op_write(&rig, inos[count], 0, 0, data, BYTES, NULL), 0);
		assert_int_equal(op_fsync(&rig, inos[count++]), 0);
	}
	root = g4_address_stored(g4_layout_root(&rig.fs->meta.layout));
	unmount();
	rig_expect_clean(&rig, RIG_ANY_FREE, "with domains");
	rig.image[root + 40] ^= 1;
	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
	assert_int_equal(how.outcome[G4_FSCK_DOUBTFUL], 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	mount_and_load();
	for (uint32_t k = 0; k < 2; k++) {
		memset(word, 0, sizeof(word));
		expect(inos[k]);
		assert_int_equal(op_getxattr(&rig, dirs[k], "gpu4fs.dedup", word, sizeof(word), NULL), 0);
		assert_string_equal(word, "domain");
		assert_int_equal(op_getxattr(&rig, inos[k], "gpu4fs.dedup", word, sizeof(word), NULL), 0);
		assert_string_equal(word, "domain");
		assert_int_equal(op_mknod(&rig, dirs[k], "g", G4_S_IFREG | 0644, &second), 0);
		assert_int_equal(op_write(&rig, second, 0, 0, data, BYTES, NULL), 0);
		assert_int_equal(op_fsync(&rig, second), 0);
		for (uint64_t page = 0; page < PAGES; page++)
			assert_int_equal(rig_place(&rig, second, page), rig_place(&rig, inos[k], page));
	}
	expect_a_new_domain("n", inos, &count);
}

/* ---------------------------------------------------------------------------------------------------- a mount */

/* Nobody has checked the image: duplicates are stored, and files can be read, written and removed. */
static void a_damaged_list_costs_space_alone(void **state)
{
	static const enum damage kinds[] = {SUM, BROKEN, OTHERS};

	(void)state;
	rig_pattern(data, 2, BYTES);
	for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		const uint64_t a = make_with(2 * k), at = rig_place(&rig, a, 0);
		unmount();
		damage_list(kinds[k], at, NULL);
		mount_and_load();
		const uint64_t b = make_with(2 * k + 1);
		assert_int_not_equal(rig_place(&rig, b, 0), at);
		assert_int_equal(rig_place(&rig, b, PAGES - 1), rig_place(&rig, a, PAGES - 1)); /* another quarter */
		expect(a);
		expect(b);
		assert_int_equal(rig.fs->journal.aborted, 0);
		for (uint32_t f = 0; f < 2; f++) {
			char name[16];
			snprintf(name, sizeof(name), "f%u", 2 * k + f);
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
		}
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(rig.fs->journal.aborted, 0);
	}
}

#define ROTTED 64u /* more than a queue of them holds */

static void rot(const uint64_t *at)
{
	for (uint32_t k = 0; k < ROTTED; k++)
		rig.image[at[k] + 100] ^= 1;
}

/* Pages that a reader has met as damaged are not shared any more, in this mount and, when that was noted, in the next one. */
static void what_is_damaged_is_stored_anew(void **state)
{
	uint64_t at[ROTTED], done;

	(void)state;
	rig_pattern(data, 4, BYTES);
	const uint64_t a = make_with(0);
	for (uint32_t k = 0; k < ROTTED; k++)
		at[k] = rig_place(&rig, a, 2 * k);
	unmount();
	mount_and_load();
	rot(at);
	for (uint32_t k = 0; k < ROTTED; k++)
		assert_int_equal(op_read(&rig, a, 0, 2 * k * (uint64_t)G4_PAGE_BYTES, found, G4_PAGE_BYTES, &done),
				 -G4_E_DATA);
	const uint64_t b = make_with(1);
	for (uint32_t k = 0; k < ROTTED; k++)
		assert_int_not_equal(rig_place(&rig, b, 2 * k), at[k]);
	assert_int_equal(rig_place(&rig, b, PAGES - 1), rig_place(&rig, a, PAGES - 1));
	assert_true(g4_dedup_serve(rig.wg, rig.fs));
	while (g4_dedup_serve(rig.wg, rig.fs))
		;
	unmount();
	mount_and_load();
	const uint64_t c = make_with(2);
	for (uint32_t k = 0; k < ROTTED; k++)
		assert_int_equal(rig_place(&rig, c, 2 * k), rig_place(&rig, b, 2 * k));
	expect(b);
	expect(c);
	rot(at);
	unmount();
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	expect(a);
}

/* Files of the next mount share what is listed and whole, and nothing that has rotted. */
static void expect_none_of(const uint64_t *at, uint64_t a, uint32_t number)
{
	mount_and_load();
	const uint64_t b = make_with(number);

	for (uint32_t k = 0; k < ROTTED; k++)
		assert_int_not_equal(rig_place(&rig, b, 2 * k), at[k]);
	assert_int_equal(rig_place(&rig, b, PAGES - 1), rig_place(&rig, a, PAGES - 1));
	expect(b);
}

static uint64_t make_rotten(uint64_t *at)
{
	const uint64_t a = make_with(0);

	for (uint32_t k = 0; k < ROTTED; k++)
		at[k] = rig_place(&rig, a, 2 * k);
	return a;
}

/* Nobody has had the time to take from the list what readers have met: an unmount does. */
static void an_unmount_takes_what_is_damaged_from_the_list(void **state)
{
	static const uint32_t met[] = {3, ROTTED}; /* with places for all of them, and without */
	uint64_t at[ROTTED], done;

	(void)state;
	for (uint32_t round = 0; round < 2; round++) {
		rig_pattern(data, 9 + round, BYTES);
		const uint64_t a = make_with(2 * round);
		for (uint32_t k = 0; k < ROTTED; k++)
			at[k] = rig_place(&rig, a, 2 * k);
		unmount();
		mount_and_load();
		for (uint32_t k = 0; k < met[round]; k++) {
			rig.image[at[k] + 100] ^= 1;
			assert_int_equal(op_read(&rig, a, 0, 2 * k * (uint64_t)G4_PAGE_BYTES, found, G4_PAGE_BYTES,
						 &done),
					 -G4_E_DATA);
		}
		unmount();
		mount_and_load();
		const uint64_t b = make_with(2 * round + 1);
		for (uint32_t k = 0; k < met[round]; k++)
			assert_int_not_equal(rig_place(&rig, b, 2 * k), at[k]);
		assert_int_equal(rig_place(&rig, b, PAGES - 1), rig_place(&rig, a, PAGES - 1));
		expect(b);
	}
}

/* Nobody has met them but the checker: a repair that reads contents takes them from the list. */
static void a_repair_takes_what_is_damaged_from_the_list(void **state)
{
	static uint8_t before[64 * G4_MIB];
	struct rig_repair how = {.data = true, .dry_run = true};
	uint64_t at[ROTTED];

	(void)state;
	rig_pattern(data, 11, BYTES);
	const uint64_t a = make_rotten(at);
	unmount();
	rot(at);
	memcpy(before, rig.image, sizeof(before));
	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_non_null(strstr(how.text, "64 pages"));
	free(how.text);
	assert_memory_equal(rig.image, before, sizeof(before));
	how.dry_run = false;
	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_int_equal(how.outcome[G4_FSCK_REPAIRED], 1);
	assert_non_null(strstr(how.text, "64 pages"));
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	assert_int_equal(rig_repair(&rig, &how), 0); /* which has nothing left to do */
	assert_int_equal(how.outcome[G4_FSCK_REPAIRED], 0);
	free(how.text);
	expect_none_of(at, a, 1);
}

/* The same cut short at each of its writes, and made once more. */
static void a_repair_of_the_list_survives_a_power_cut(void **state)
{
	static uint8_t before[64 * G4_MIB];
	uint64_t at[ROTTED];
	bool cut = true;

	(void)state;
	rig_pattern(data, 12, BYTES);
	const uint64_t a = make_rotten(at);
	unmount();
	rot(at);
	memcpy(before, rig.image, sizeof(before));
	for (uint64_t n = 1; cut; n++) {
		struct rig_repair first = {.data = true, .stop_at_write = n}, again = {.data = true};
		memcpy(rig.image, before, sizeof(before));
		cut = rig_repair(&rig, &first) < 0;
		free(first.text);
		assert_int_equal(rig_repair(&rig, &again), 0);
		free(again.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after a cut");
		assert_true(!cut || n < 40);
		if (cut && n % 3)
			continue;
		expect_none_of(at, a, 1);
		unmount();
	}
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

/* So is a page that can not be read. */
static void what_is_unreadable_is_stored_anew(void **state)
{
	struct g4_fault fault = {0};
	uint64_t done;

	(void)state;
	rig_pattern(data, 7, BYTES);
	const uint64_t a = make_with(0), at = rig_place(&rig, a, 3);
	unmount();
	rig.fs = rig_mount_fs(&rig, rig.wg, &fault);
	while (g4_dedup_serve(rig.wg, rig.fs))
		;
	assert_int_equal(rig_place(&rig, a, 3), at); /* what leads to it is in the cache */
	fault.fail_read_at = 1;
	g4_dev_fault_set(rig.fault, &fault);
	const uint64_t counted = rig.fs->damaged_pages;
	assert_int_equal(op_read(&rig, a, 0, 3 * G4_PAGE_BYTES, found, G4_PAGE_BYTES, &done), -G4_E_IO);
	assert_int_equal(rig.fs->damaged_pages, counted + 1);
	assert_int_equal(rig.fs->space.damaged[0], counted + 1);
	const uint64_t b = make_with(1);
	assert_int_not_equal(rig_place(&rig, b, 3), at);
	assert_int_equal(rig_place(&rig, b, PAGES - 1), rig_place(&rig, a, PAGES - 1));
	while (g4_dedup_serve(rig.wg, rig.fs))
		;
	unmount();
	mount_and_load();
	const uint64_t c = make_with(2);
	assert_int_equal(rig_place(&rig, c, 3), rig_place(&rig, b, 3));
	expect(c);
}

/* A writer of the right contents to the place of a page that has rotted gets them, whether that page was met or not. */
static void writing_it_again_heals_it(void **state)
{
	(void)state;
	rig_pattern(data, 6, BYTES);
	const uint64_t a = make_with(0), at = rig_place(&rig, a, 0), good = rig_place(&rig, a, PAGES - 1);
	unmount();
	rig.image[at + 100] ^= 1;
	mount_and_load();
	assert_int_equal(op_write(&rig, a, 0, 0, data, BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, a), 0);
	assert_int_not_equal(rig_place(&rig, a, 0), at);
	assert_int_not_equal(rig_place(&rig, a, PAGES - 1), good);
	unmount();
	mount_and_load();
	expect(a);
	/* a second owner finds what was written last */
	const uint64_t b = make_with(1);
	assert_int_equal(rig_place(&rig, b, 0), rig_place(&rig, a, 0));
	expect(b);
}

static uint32_t scrub(void)
{
	struct g4_cmd start = {.op = G4_CMD_JOB_START};
	uint32_t findings = 0;

	start.kind = G4_JOB_SCRUB;
	assert_int_equal(g4_execute(rig.wg, rig.fs, &start), 0);
	while (g4_jobs_serve(rig.wg, rig.fs, true) == 0)
		;
	for (uint32_t k = 0; k < G4_JOBS; k++)
		assert_int_not_equal(rig.fs->jobs.records[k].state, G4_JOB_RUNNING);
	for (uint32_t k = 0; k < G4_FINDINGS; k++)
		findings += rig.fs->jobs.findings[k].code != 0;
	return findings;
}

static void a_scrub_looks_at_it(void **state)
{
	(void)state;
	rig_pattern(data, 5, BYTES);
	const uint64_t a = make_with(0), at = rig_place(&rig, a, 0);
	unmount();
	mount_and_load();
	assert_int_equal(scrub(), 0);
	unmount();
	damage_list(BROKEN, at, NULL);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(scrub(), 1);
	assert_int_equal(rig.fs->journal.aborted, 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	assert_int_equal(scrub(), 0);
}

/* Pages whose file has lost their sums, and which the list has one of: a scrub that adds sums gives none to what is something else. */
static void sums_are_added_to_what_was_listed(void **state)
{
	struct g4_cmd start = {.op = G4_CMD_JOB_START, .flags = G4_JOB_ADD_SUMS};
	uint64_t done;

	(void)state;
	rig_pattern(data, 14, BYTES);
	const uint64_t a = rig_make(&rig, 0);
	assert_int_equal(op_write(&rig, a, 0, 0, data, 3 * G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, a), 0);
	const uint64_t at = rig_place(&rig, a, 1);
	unmount();
	struct g4_inode *inode = damage_inode(&rig, a);
	assert_true(inode->flags & G4_INODE_SUMS_INLINE);
	memset(inode->few.sums, 0, sizeof(inode->few.sums));
	damage_seal(&rig, g4_ptr_offset(a) / G4_PAGE_BYTES * G4_PAGE_BYTES);
	rig.image[at + 100] ^= 1;
	mount_and_load();
	start.kind = G4_JOB_SCRUB;
	assert_int_equal(g4_execute(rig.wg, rig.fs, &start), 0);
	while (g4_jobs_serve(rig.wg, rig.fs, true) == 0)
		;
	assert_int_equal(rig.fs->jobs.records[0].state, G4_JOB_DONE);
	assert_int_equal(rig.fs->jobs.records[0].summed, 2);
	assert_int_equal(rig.fs->jobs.records[0].errors, 1);
	/* and who writes the right contents stores them */
	const uint64_t b = rig_make(&rig, 1);
	assert_int_equal(op_write(&rig, b, 0, 0, data, 3 * G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, b), 0);
	assert_int_equal(rig_place(&rig, a, 0), rig_place(&rig, b, 0));
	assert_int_not_equal(at, rig_place(&rig, b, 1));
	assert_int_equal(op_read(&rig, b, 0, 0, found, BYTES, &done), 0);
	assert_memory_equal(found, data, 3 * G4_PAGE_BYTES);
}

/* As a pointer to a page of 1 GiB may ask for whose space has a page of shares: counts and lists are of one region. */
static void a_release_is_of_one_region(void **state)
{
	struct g4_txn txn;

	(void)state;
	rig_pattern(data, 8, BYTES);
	const uint64_t a = make_with(0);
	const struct g4_address first = g4_address_from(rig_place(&rig, a, 0));
	assert_int_equal(g4_begin(rig.wg, rig.fs, 4, &txn), 0);
	assert_int_equal(g4_share_release(rig.wg, &rig.fs->alloc, &txn, first, G4_REGION_PAGES + 1), -G4_E_CORRUPT_MAP);
	assert_int_equal(g4_share_release(rig.wg, &rig.fs->alloc, &txn, first, UINT64_MAX), -G4_E_CORRUPT_MAP);
	assert_int_equal(g4_end(rig.fs, &txn, 0), 0);
	expect(a);
}

static bool image_has(uint64_t feature)
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		const uint64_t at = copy ? rig.bytes - G4_PAGE_BYTES : G4_SUPERBLOCK_ADDRESS;
		const struct g4_superblock *sb = (const struct g4_superblock *)(const void *)&rig.image[at];
		if (!(__atomic_load_n(&sb->features_incompat, __ATOMIC_RELAXED) & feature))
			return false;
	}
	return true;
}

/* An image from before pages were listed, told to deduplicate: the first mount that may write says that they are. */
static void an_older_image_gets_a_list(void **state)
{
	(void)state;
	unmount();
	for (uint32_t copy = 0; copy < 2; copy++) {
		const uint64_t at = copy ? rig.bytes - G4_PAGE_BYTES : G4_SUPERBLOCK_ADDRESS;
		struct g4_superblock *sb = (struct g4_superblock *)(void *)&rig.image[at];
		sb->features_incompat &= ~G4_FEATURE_INCOMPAT_LISTED;
		damage_seal(&rig, at);
	}
	mount_and_load();
	rig_pattern(data, 3, BYTES);
	const uint64_t a = make_with(0), b = make_with(1);
	assert_int_equal(rig_place(&rig, a, 0), rig_place(&rig, b, 0));
	assert_true(image_has(G4_FEATURE_INCOMPAT_LISTED));
}

#define ADDERS 4u
static pthread_barrier_t adders;
static int added[ADDERS];
static bool durable[ADDERS];

static void *add_feature(void *argument)
{
	const uint32_t k = (uint32_t)(uintptr_t)argument;
	struct g4_wg *wg = g4_wg_create(1 + k);

	(void)pthread_barrier_wait(&adders);
	added[k] = g4_super_add_feature(wg, rig.fs, G4_FEATURE_INCOMPAT_LISTED);
	durable[k] = image_has(G4_FEATURE_INCOMPAT_LISTED); /* a caller that is told so relies on it */
	g4_wg_destroy(wg);
	return NULL;
}

/* Nobody uses a feature that the superblocks do not have yet, and where one can not be written nobody has seen it. */
static void a_feature_is_seen_when_it_is_durable(void **state)
{
	struct g4_fault fault = {.write_through = true}; /* what it has is in the image */
	pthread_t threads[ADDERS];

	(void)state;
	unmount();
	drop_feature(G4_SUPERBLOCK_ADDRESS);
	drop_feature(rig.bytes - G4_PAGE_BYTES);
	rig.fs = rig_mount_fs(&rig, rig.wg, &fault);
	fault.fail_write_at = 2;
	g4_dev_fault_set(rig.fault, &fault);
	assert_int_equal(g4_super_add_feature(rig.wg, rig.fs, G4_FEATURE_INCOMPAT_LISTED), -G4_E_IO);
	assert_false(rig.fs->super.features_incompat & G4_FEATURE_INCOMPAT_LISTED);
	fault.fail_write_at = 0;
	fault.delay_ns = 20000000;
	g4_dev_fault_set(rig.fault, &fault);
	assert_int_equal(pthread_barrier_init(&adders, NULL, ADDERS), 0);
	for (uintptr_t k = 0; k < ADDERS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, add_feature, (void *)k), 0);
	for (uint32_t k = 0; k < ADDERS; k++) {
		pthread_join(threads[k], NULL);
		assert_int_equal(added[k], 0);
		assert_true(durable[k]);
	}
	(void)pthread_barrier_destroy(&adders);
	fault.delay_ns = 0;
	g4_dev_fault_set(rig.fault, &fault);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_listed_wrongly_is_found_and_repaired, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_listed_wrongly_is_found_and_repaired, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(a_domain_that_there_is_not_is_given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(a_domain_that_there_is_not_is_given_up, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(domains_outlive_the_root_block, setup, teardown),
		cmocka_unit_test_setup_teardown(a_damaged_list_costs_space_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_damaged_is_stored_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_unreadable_is_stored_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(an_unmount_takes_what_is_damaged_from_the_list, setup, teardown),
		cmocka_unit_test_setup_teardown(a_repair_takes_what_is_damaged_from_the_list, setup, teardown),
		cmocka_unit_test_setup_teardown(a_repair_of_the_list_survives_a_power_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(writing_it_again_heals_it, setup, teardown),
		cmocka_unit_test_setup_teardown(a_scrub_looks_at_it, setup, teardown),
		cmocka_unit_test_setup_teardown(sums_are_added_to_what_was_listed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_release_is_of_one_region, setup, teardown),
		cmocka_unit_test_setup_teardown(an_older_image_gets_a_list, setup, teardown),
		cmocka_unit_test_setup_teardown(a_feature_is_seen_when_it_is_durable, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
