/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of rows with several parities of which several columns are wrong: rotten, missing, or made from another that had rotted. Each is right
 * as one of its versions, whichever columns these are, however many of them a range of addresses has, and however many disks a mount was given
 * when it began.
 */
#include "disks.h"

#include "rebuilding.h"
#include "space/chunk.h"

#define NAMES 1200u
#define BYTES (24 * G4_MIB)
#define FRONT_BYTES (90 * 15 * G4_PAGE_BYTES) /* at least what has copies, behind the journal */

static const struct level {
	uint32_t disks, parity;
} levels[] = {{4, 2}, {6, 3}};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static struct g4_chunk_map map_of(const struct disks *d)
{
	const struct g4_superblock *sb =
		(const struct g4_superblock *)(const void *)(d->memory[0] + G4_SUPERBLOCK_ADDRESS);
	const struct g4_chunks_page *page =
		(const struct g4_chunks_page *)(const void *)(d->memory[0] + sb->chunk_list_head);

	return (struct g4_chunk_map){.chunks = page->chunks, .count = page->count};
}

static void format(struct disks *d, const struct level *level, uint64_t stripe_bytes, uint32_t left_percent)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_PARITY,
					 .parity = level->parity,
					 .stripe_bytes = stripe_bytes,
					 .journal_bytes = JOURNAL_BYTES,
					 .leave_percent = left_percent};
	uint64_t sizes[MOST_DISKS];

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = BYTES;
	disks_make(d, level->disks + 1, sizes);
	d->count = level->disks;
	disks_format_plan(d, &plan, G4_CHECKSUM_CRC32C);
}

static void release(struct disks *d, const struct level *level)
{
	d->count = level->disks + 1;
	disks_free(d);
}

/* So many that slabs and directories lie in rows: what is in copies is full. */
static void make_names(struct disks *d)
{
	uint8_t *data = rig_memory(FRONT_BYTES, 3);
	uint64_t ino, done;
	char name[32];

	disks_mount(d, (1u << d->count) - 1);
	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "front", G4_S_IFREG | 0644, &ino), 0);
	for (uint64_t at = 0; at < FRONT_BYTES;
	     at += 15 * G4_PAGE_BYTES) /* with holes, so that no page of 2 MiB maps it */
		assert_int_equal(op_write(&d->rig, ino, 0, at / 15 * 16, data, 15 * G4_PAGE_BYTES, &done), 0);
	for (uint32_t n = 0; n < NAMES; n++) {
		snprintf(name, sizeof(name), "name %u", n);
		assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
		assert_int_equal(op_write(&d->rig, ino, 0, 0, data + n, 700, &done), 0);
	}
	assert_int_equal(disks_put(d, 0, 1), 0);
	disks_unmount(d);
	free(data);
}

static void expect_names_of(struct disks *d, uint32_t which)
{
	uint8_t *data = rig_memory(FRONT_BYTES, 3), found[700];
	struct g4_attr attr;
	uint64_t done;
	char name[32];

	disks_mount(d, which);
	for (uint32_t n = 0; n < NAMES; n++) {
		snprintf(name, sizeof(name), "name %u", n);
		if (op_lookup(&d->rig, G4_NODE_ROOT, name, &attr) < 0)
			fail_msg("%s is gone", name);
		assert_int_equal(op_read(&d->rig, attr.ino, 0, 0, found, sizeof(found), &done), 0);
		assert_memory_equal(found, data + n, sizeof(found));
	}
	disks_expect_files(d, 1, 1);
	disks_unmount(d);
	free(data);
}

static void expect_names(struct disks *d)
{
	expect_names_of(d, (1u << d->count) - 1);
}

/* Whether a page of a disk is metadata in its place, in a row. */
static bool is_metadata(const struct disks *d, uint32_t disk, uint64_t at)
{
	const struct g4_block_header *header = (const struct g4_block_header *)(const void *)(d->memory[disk] + at);
	const struct g4_chunk_map map = map_of(d);
	struct g4_piece piece;

	if (header->magic != G4_BLOCK_MAGIC || header->address % G4_PAGE_BYTES != 0 ||
	    header->address >= g4_chunk_end(map.chunks, map.count))
		return false;
	g4_chunk_translate(&map, header->address, G4_PAGE_BYTES, &piece);
	return piece.parity > 0 && piece.disks[0] == disk && piece.offsets[0] == at;
}

/* A byte of each page of metadata that a disk has in rows, and, if it is another one, of the page of the same row on `other`. How many. */
static uint32_t rot_metadata(struct disks *d, uint32_t disk, uint32_t other)
{
	uint32_t pages = 0;

	for (uint64_t at = 2 * G4_MIB; at < d->bytes[disk] - G4_PAGE_BYTES; at += G4_PAGE_BYTES) {
		if (!is_metadata(d, disk, at))
			continue;
		d->memory[disk][at + 1000] ^= 0x20;
		if (other != disk)
			d->memory[other][at + 1100] ^= 0x21;
		pages++;
	}
	return pages;
}

static void repair(struct disks *d, const char *when)
{
	struct rig_repair how = {.found = 0};

	snprintf(d->rig.name, sizeof(d->rig.name), "%s", disks_name_of(d, (1u << d->count) - 1));
	const int rc = rig_repair(&d->rig, &how);
	if (rc < 0)
		fail_msg("%s: %s", when, how.words);
	free(how.text);
	disks_expect_clean(d, (1u << d->count) - 1);
}

/* A new disk in the place of this one, made from what the others have while nobody looks at them. */
static void replace(struct disks *d, uint32_t lost)
{
	const char *names[MOST_DISKS];
	struct g4_dev *set;
	uint32_t count = 0, disk;

	for (uint32_t n = 0; n < d->count; n++)
		if (n != lost)
			names[count++] = d->names[n];
	names[count++] = d->names[lost];
	memset(d->memory[lost], 0, d->bytes[lost]);
	if (g4_set_rebuild_open(names, count, false, NULL, &set, &disk, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
	assert_int_equal(disk, lost);
	if (g4_set_rebuild_all(set, NULL, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
	g4_dev_close(set);
}

/* What was made from a rotten page fits that by the parity that made it, and no other one. */
static void a_repair_after_a_rebuild_from_rotten_pages_gives_nothing_up(void **state)
{
	uint32_t pages = 0;

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t rotten = 0; rotten < levels[l].disks; rotten++) {
			const uint32_t lost = (rotten + 1 + rotten / 2) % levels[l].disks;
			struct disks d;
			format(&d, &levels[l], G4_STRIPE_DEFAULT, 0);
			make_names(&d);
			if (lost != rotten) {
				pages += rot_metadata(&d, rotten, rotten);
				replace(&d, lost);
				repair(&d, "rebuilt");
				expect_names(&d);
			}
			release(&d, &levels[l]);
		}
	assert_true(pages > 60);
}

/* A range of short stripes has several columns: of each of them other versions are there. */
static void a_repair_finds_two_rotten_pages_of_rows_of_short_stripes(void **state)
{
	uint32_t pages = 0;

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t first = 0; first < levels[l].disks; first++) {
			struct disks d;
			format(&d, &levels[l], ROWS_STRIPE, 0);
			make_names(&d);
			pages += rot_metadata(&d, first, (first + 1) % levels[l].disks);
			repair(&d, "two of a row");
			expect_names(&d);
			release(&d, &levels[l]);
		}
	assert_true(pages > 60);
}

/* ---- as many disks as there are parities ---- */

static uint8_t *kept[MOST_DISKS];

static void keep(struct disks *d)
{
	for (uint32_t n = 0; n < d->count; n++) {
		kept[n] = (uint8_t *)malloc(d->bytes[n]);
		rig_copy(kept[n], d->memory[n], d->bytes[n]);
	}
}

static void restore(struct disks *d)
{
	for (uint32_t n = 0; n < d->count; n++)
		rig_copy(d->memory[n], kept[n], d->bytes[n]);
}

static void forget(struct disks *d)
{
	for (uint32_t n = 0; n < d->count; n++)
		free(kept[n]);
}

/* All of a row's pages but as many as it has data may have rotted, whichever these are; a disk that is missing is one of them. */
static void as_many_disks_may_rot_as_there_are_parities(void **state)
{
	static const struct level wide[] = {{4, 2}, {6, 3}, {6, 4}};

	(void)state;
	for (uint32_t l = 0; l < 3; l++) {
		struct disks d;
		uint32_t turn = 0;
		format(&d, &wide[l], ROWS_STRIPE, 0);
		make_names(&d);
		keep(&d);
		for (uint32_t which = 0; which < 1u << d.count; which++) {
			if ((uint32_t)__builtin_popcount(which) != wide[l].parity || turn++ % rig_every(1) != 0)
				continue;
			restore(&d);
			for (uint32_t n = 0; n < d.count; n++)
				if (which >> n & 1)
					disks_rot(&d, n);
			if (turn % 3 == 0)
				repair(&d, "as many disks as there are parities");
			const uint32_t missing = turn % 3 == 1 ? which & (~which + 1) : 0;
			expect_names_of(&d, ((1u << d.count) - 1) & ~missing);
		}
		forget(&d);
		release(&d, &wide[l]);
	}
}

/* ---- a parity that has lost a write ---- */

#define CHANGED 90u /* each of so many names: what else is in their rows stays as it is */

/* Where a column of the row is that this address is in, beside it. */
static uint64_t place_in_row(const struct g4_chunk *chunk, uint64_t address, uint32_t column)
{
	const uint64_t within = address - chunk->address;
	const uint64_t stripe = within / chunk->stripe_bytes / g4_chunk_data_columns(chunk);

	return g4_chunk_place(chunk, stripe, column) + stripe * chunk->stripe_bytes + within % chunk->stripe_bytes;
}

/* Where the first parity of a row is in which a disk has this page. */
static uint64_t first_parity(const struct disks *d, uint32_t disk, uint64_t at)
{
	const uint64_t address = ((const struct g4_block_header *)(const void *)(d->memory[disk] + at))->address;
	const struct g4_chunk_map map = map_of(d);
	const struct g4_chunk *chunk = g4_chunk_find(&map, address);

	return place_in_row(chunk, address, g4_chunk_data_columns(chunk));
}

/* Names that are made, and some of them changed, of which the first parity has not heard; and a changed page of each row rots. How many. */
static uint32_t lose_writes_of_a_parity(struct disks *d)
{
	uint32_t pages = 0;
	char name[32];

	make_names(d);
	keep(d);
	disks_mount(d, (1u << d->count) - 1);
	for (uint32_t n = 0; n < NAMES; n += CHANGED) {
		struct g4_attr attr;
		snprintf(name, sizeof(name), "name %u", n);
		assert_int_equal(op_lookup(&d->rig, G4_NODE_ROOT, name, &attr), 0);
		attr.mode = 0600;
		assert_int_equal(op_setattr(&d->rig, attr.ino, G4_SET_MODE, &attr), 0);
	}
	disks_unmount(d);
	for (uint32_t n = 0; n < d->count; n++)
		for (uint64_t at = 2 * G4_MIB; at < d->bytes[n] - G4_PAGE_BYTES; at += G4_PAGE_BYTES) {
			const struct g4_block_header *header =
				(const struct g4_block_header *)(const void *)(d->memory[n] + at);
			if (header->type != G4_BLOCK_SLAB || !is_metadata(d, n, at) ||
			    memcmp(d->memory[n] + at, kept[n] + at, G4_PAGE_BYTES) == 0)
				continue;
			const uint64_t place = first_parity(d, n, at);
			uint8_t *parity = d->memory[g4_place_disk(place)] + g4_place_address(place);
			const uint8_t *before = kept[g4_place_disk(place)] + g4_place_address(place);
			/* another page of the row has rotted: with a parity of no use two are more than two parities bear */
			if (memcmp(parity, before, G4_PAGE_BYTES) == 0)
				continue;
			rig_copy(parity, before, G4_PAGE_BYTES);
			d->memory[n][at + 1000] ^= 0x20;
			pages++;
		}
	forget(d);
	return pages;
}

static void expect_changed(struct disks *d)
{
	struct g4_attr attr;
	char name[32];

	disks_mount(d, (1u << d->count) - 1);
	for (uint32_t n = 0; n < NAMES; n += CHANGED) {
		snprintf(name, sizeof(name), "name %u", n);
		assert_int_equal(op_lookup(&d->rig, G4_NODE_ROOT, name, &attr), 0);
		if ((attr.mode & 07777) != 0600)
			fail_msg("%s is as it was before", name);
	}
	disks_unmount(d);
}

/* Who reads, who repairs and who scrubs: the newest version counts. */
static void a_parity_that_lost_a_write_brings_no_old_page_back(void **state)
{
	uint32_t pages = 0;

	(void)state;
	for (uint32_t who = 0; who < 3; who++)
		for (uint32_t l = 0; l < LEVELS; l++) {
			struct g4_dev *dev;
			struct disks d;
			format(&d, &levels[l], G4_STRIPE_DEFAULT, 0);
			pages += lose_writes_of_a_parity(&d);
			if (who == 1)
				repair(&d, "a parity lost a write");
			if (who == 2) {
				disks_mount_fs(&d, (1u << d.count) - 1, &dev);
				assert_int_equal(disks_scrub(&d), 0);
				disks_unmount_fs(&d, dev, true);
			}
			expect_changed(&d);
			disks_expect_clean(&d, (1u << d.count) - 1);
			release(&d, &levels[l]);
		}
	assert_true(pages > 20);
}

/* ---- a disk that has lost a write ---- */

/* Names that are made, and all of them changed, of which one disk has not heard in rows; and pages beside these rot. Which these are, and how many. */
static uint32_t lose_writes_of_a_disk(struct disks *d, uint32_t disk, uint8_t *is_rotten)
{
	const struct g4_chunk_map map = map_of(d);
	struct g4_attr attr;
	uint32_t pages = 0;
	char name[32];

	make_names(d);
	keep(d);
	disks_mount(d, (1u << d->count) - 1);
	for (uint32_t n = 0; n < NAMES; n++) {
		snprintf(name, sizeof(name), "name %u", n);
		assert_int_equal(op_lookup(&d->rig, G4_NODE_ROOT, name, &attr), 0);
		attr.mode = 0600;
		assert_int_equal(op_setattr(&d->rig, attr.ino, G4_SET_MODE, &attr), 0);
	}
	disks_unmount(d);
	for (uint64_t at = 2 * G4_MIB; at < d->bytes[disk] - G4_PAGE_BYTES; at += G4_PAGE_BYTES) {
		const struct g4_block_header *header =
			(const struct g4_block_header *)(const void *)(d->memory[disk] + at);
		if (!is_metadata(d, disk, at) || header->type != G4_BLOCK_SLAB ||
		    memcmp(d->memory[disk] + at, kept[disk] + at, G4_PAGE_BYTES) == 0)
			continue;
		/* the other column of data of the row */
		const struct g4_chunk *chunk = g4_chunk_find(&map, header->address);
		for (uint32_t c = 0; c < 2; c++) {
			const uint64_t place = place_in_row(chunk, header->address, c);
			const uint32_t other = g4_place_disk(place);
			const uint64_t there = g4_place_address(place);
			const struct g4_block_header *beside =
				(const struct g4_block_header *)(const void *)(d->memory[other] + there);
			if (other == disk || !is_metadata(d, other, there) || beside->type != G4_BLOCK_SLAB)
				continue;
			is_rotten[beside->address / G4_PAGE_BYTES] = 1;
			d->memory[other][there + 1000] ^= 0x20;
			rig_copy(d->memory[disk] + at, kept[disk] + at, G4_PAGE_BYTES);
			pages++;
		}
	}
	forget(d);
	return pages;
}

/* Two of a row are more than one parity bears; but what it makes of them is not taken for a page, but for one of 32 768. */
static void what_is_made_beside_a_lost_write_is_no_page(void **state)
{
	static const struct level one = {3, 1};
	uint8_t *is_rotten = (uint8_t *)malloc(3 * BYTES / G4_PAGE_BYTES);
	uint32_t pages = 0, gone = 0, mixed = 0;
	struct g4_attr attr;
	char name[32];

	(void)state;
	for (uint32_t disk = 0; disk < one.disks && !(rig_slow() && pages > 0); disk++) {
		struct disks d;
		memset(is_rotten, 0, 3 * BYTES / G4_PAGE_BYTES);
		format(&d, &one, ROWS_STRIPE, 0);
		pages += lose_writes_of_a_disk(&d, disk, is_rotten);
		disks_mount(&d, (1u << d.count) - 1);
		for (uint32_t n = 0; n < NAMES; n++) {
			snprintf(name, sizeof(name), "name %u", n);
			const int rc = op_lookup(&d.rig, G4_NODE_ROOT, name, &attr);
			if (rc == 0 && is_rotten[attr.ino / G4_PAGE_BYTES]) {
				is_rotten[attr.ino / G4_PAGE_BYTES] = 0;
				mixed++;
			}
			gone += rc < 0;
		}
		/* it ends its work in slabs, and these can not be read */
		const int rc = rig_unmount(&d.rig);
		assert_true(rc == 0 || rc == -G4_E_SHUTDOWN);
		release(&d, &one);
	}
	assert_true(pages > 0 && gone > pages);
	assert_true(mixed <= 1);
	free(is_rotten);
}

/* ---- a disk more ---- */

/* Pages of the file that lie in these columns of the same row of the last chunk, whose rows have one more than the others. */
static uint32_t rot_columns(struct disks *d, uint32_t first, uint32_t second, const uint8_t *data)
{
	const struct g4_chunk_map map = map_of(d);
	const struct g4_chunk *chunk = &map.chunks[map.count - 1];
	const uint32_t columns[2] = {first, second};
	uint32_t rows = 0;

	assert_int_equal(chunk->columns, d->count);
	for (uint64_t within = 0; within < chunk->place_bytes; within += G4_PAGE_BYTES) {
		const uint64_t stripe = within / chunk->stripe_bytes;
		uint8_t *pages[2];
		uint32_t found = 0;
		for (uint32_t c = 0; c < 2; c++) {
			const uint64_t place = g4_chunk_place(chunk, stripe, columns[c]) + within;
			pages[c] = d->memory[g4_place_disk(place)] + g4_place_address(place);
			for (uint64_t page = 0; page < G4_MIB; page += G4_PAGE_BYTES)
				if (memcmp(pages[c], data + page, G4_PAGE_BYTES) == 0) {
					found++;
					break;
				}
		}
		for (uint32_t c = 0; c < 2 && found == 2; c++)
			pages[c][40 + within / G4_PAGE_BYTES % 4000] ^= 0x10;
		rows += found == 2;
	}
	return rows;
}

/* What the log has is in its place, too. */
static void settle(struct disks *d, struct g4_dev *set)
{
	struct g4_io io = {.op = G4_IO_CHECK, .discard_bytes = G4_PAGE_BYTES};
	struct g4_wg *wg = g4_wg_create(9);

	assert_int_equal(op_sync(&d->rig), 0);
	g4_dev_submit(wg, set, &io);
	assert_int_equal(g4_dev_wait(wg, set, &io), 0);
	g4_wg_destroy(wg);
}

/* What no version was right of, so far. */
static uint64_t damaged(struct disks *d)
{
	struct g4_cmd list = {.op = G4_CMD_JOB_LIST, .data = &disks_health, .length = sizeof(disks_health)};

	assert_int_equal(g4_engine_execute(d->rig.engine, &list), 0);
	return disks_health.damaged_since_mount;
}

static void a_mount_that_got_a_disk_makes_all_columns_again(void **state)
{
	const struct level *level = &levels[0];
	uint8_t *data = rig_memory(G4_MIB, 5);

	(void)state;
	for (uint32_t other = 0; other < 2; other++) {
		struct faulty f;
		struct disks d;
		uint64_t ino;
		format(&d, level, ROWS_STRIPE, 50);
		disks_open_faulty(&d, &f);
		disks_mount_faulty(&d, &f);
		begin(&d, G4_DISK_ADD, d.count);
		d.count++;
		const uint64_t bytes = disks_fill(&d, &ino);
		settle(&d, f.set);
		const uint32_t rotten = rot_columns(&d, other, 2, data);
		assert_true(rotten > 100);
		disks_expect_filled(&d, ino, bytes);
		assert_int_equal(damaged(&d), 0); /* to who reads ahead, too */
		disks_unmount(&d);
		disks_expect_clean(&d, (1u << d.count) - 1);
		disks_mount(&d, (1u << d.count) - 1);
		disks_expect_filled(&d, ino, bytes);
		disks_unmount(&d);
		release(&d, level);
	}
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_repair_after_a_rebuild_from_rotten_pages_gives_nothing_up),
		cmocka_unit_test(a_repair_finds_two_rotten_pages_of_rows_of_short_stripes),
		cmocka_unit_test(as_many_disks_may_rot_as_there_are_parities),
		cmocka_unit_test(a_parity_that_lost_a_write_brings_no_old_page_back),
		cmocka_unit_test(what_is_made_beside_a_lost_write_is_no_page),
		cmocka_unit_test(a_mount_that_got_a_disk_makes_all_columns_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
