/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a disk that lanes make again the next part is taken while the one before is made (src/fs/rebuild.c, src/space/set_taken_host.c): parts count in their order; who
 * writes to one, at whatever time, costs that one and those behind it; what is left out between two passes with the first, or not at all; a part of a rebuild that
 * is over is none of the next one's; orders come between pieces; and wherever users write between two questions, each disk has what the others stand for.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>

#include "lost.h"

#include "alloc/alloc.h"
#include "alloc/count.h"
#include "dev/dev_ops_host.h"
#include "fs/help.h"

#define TAKE_BYTES (256 * G4_KIB)
#define HOLED_BYTES (52 * G4_MIB) /* of a disk: several bits of the map of rows */
#define UNIT_PAGES (8 * G4_MIB / G4_PAGE_BYTES)
#define HELPERS 4u /* so many MiB are a part; nobody comes, so that the owner makes all of it */

/* ---- by hand, in DISK_BYTES ---- */

#define PARTS_MOST 8u

/* As many parts as there can be; how many. */
static uint32_t take_all(struct disks *d, struct g4_direct_lost parts[PARTS_MOST])
{
	struct g4_direct_lost more;
	uint32_t n = 0;

	while (n < PARTS_MOST && take(d, TAKE_BYTES / 2, &parts[n]))
		n++;
	if (n == PARTS_MOST)
		assert_false(take(d, TAKE_BYTES / 2, &more));
	for (uint32_t k = 1; k < n; k++) {
		assert_true(parts[k].number > parts[k - 1].number);
		if (parts[k].chunk == parts[k - 1].chunk)
			assert_int_equal(parts[k].within, parts[k - 1].within + parts[k - 1].bytes);
	}
	return n;
}

/* All up to that one are made. So many bytes count. */
static uint64_t say_all_made(struct disks *d, const struct g4_direct_lost *parts, uint32_t count, uint64_t *told)
{
	struct g4_direct_lost all = {.number = parts[count - 1].number};

	for (uint32_t k = 0; k < count; k++)
		all.bytes += parts[k].bytes;
	*told = all.bytes;
	return say_made(d, &all);
}

static void parts_count_in_their_order(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct g4_direct_lost parts[PARTS_MOST];
		uint32_t count, rounds = 0, most = 0;
		struct g4_dev *dev;
		struct disks d;
		make(&d, &levels[l], &dev);
		lose(&d, 1);
		begin(&d, G4_DISK_REPLACE, 1);
		while ((count = take_all(&d, parts)) > 0) {
			const uint64_t at = position(&d);
			const uint32_t middle = count / 2;
			uint64_t told, before;
			most = (uint32_t)g4_max64(most, count);
			if (count > 1 && rounds % 2 == 0) { /* out of turn nothing counts, none of them */
				make_taken(&d, &parts[1]);
				assert_int_equal(say_made(&d, &parts[1]), 0);
				assert_int_equal(say_made(&d, &parts[0]), 0);
				assert_int_equal(take_all(&d, parts), count);
			}
			assert_int_equal(position(&d), at);
			for (uint32_t k = count; k > 0; k--) /* they may be made in any order */
				make_taken(&d, &parts[k - 1]);
			switch (rounds++ % 4) {
			case 0:
				assert_true(say_all_made(&d, parts, count, &told) == told);
				assert_true(position(&d) >= at + told);
				break;
			case 1: /* only what comes before the one that does not */
				write_at(&d, address_in(&d, &parts[middle], false));
				before = say_all_made(&d, parts, middle + 1, &told);
				assert_int_equal(before, told - parts[middle].bytes);
				assert_true(position(&d) >= at + told - parts[middle].bytes);
				before = position(&d);
				assert_int_equal(say_made(&d, &parts[count - 1]), 0);
				assert_int_equal(position(&d), before);
				break;
			case 2:
				for (uint32_t k = 0; k < count; k++)
					assert_int_equal(say_made(&d, &parts[k]), parts[k].bytes);
				break;
			default: /* once; and what was taken behind it is forgotten */
				assert_int_equal(say_made(&d, &parts[0]), parts[0].bytes);
				before = position(&d);
				assert_int_equal(say_made(&d, &parts[0]), 0);
				assert_int_equal(say_made(&d, &parts[count - 1]), 0);
				assert_int_equal(position(&d), before);
				break;
			}
		}
		assert_true(rounds > 4);
		assert_int_equal(most, PARTS_MOST);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], 1, 1);
		disks_free(&d);
	}
}

/* ---- who writes to which of two, and when ---- */

/* What the file is, whose pages are written to in their places, past the file system. */
struct content {
	uint8_t *data;
	uint32_t seed;
};

/* An address in what was taken that has a page of the file, whose number that is. 0: none is there. */
static uint64_t find_page(const struct disks *d, const struct g4_direct_lost *lost, const struct content *content,
			  uint64_t *number)
{
	const struct g4_chunk *chunk = &direct_of(d)->table.chunks[lost->chunk];
	const uint64_t data = chunk->parity ? g4_chunk_data_columns(chunk) : 1, from = address_in(d, lost, false);
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 0);
	uint64_t found = 0;

	for (uint64_t at = from; at < from + lost->bytes * data && found == 0; at += G4_PAGE_BYTES) {
		assert_int_equal(g4_space_read(d->rig.wg, &d->rig.fs->space, g4_address_from(at), page, G4_PAGE_BYTES),
				 0);
		for (*number = 0; *number < LARGE_BYTES / G4_PAGE_BYTES && found == 0; ++*number)
			if (memcmp(page, content->data + *number * G4_PAGE_BYTES, G4_PAGE_BYTES) == 0)
				found = at;
	}
	--*number;
	free(page);
	return found;
}

/* The page becomes another one. */
static void change(const struct disks *d, uint64_t address, uint64_t number, struct content *content)
{
	uint8_t *page = content->data + number * G4_PAGE_BYTES;

	rig_pattern(page, ++content->seed, G4_PAGE_BYTES);
	assert_int_equal(g4_space_write(d->rig.wg, &d->rig.fs->space, g4_address_from(address), page, G4_PAGE_BYTES,
					G4_IO_FUA),
			 0);
	assert_int_equal(g4_space_flush(d->rig.wg, &d->rig.fs->space), 0);
}

/* Not mounted. */
static void expect_content(struct disks *d, const struct level *level, const struct content *content)
{
	uint8_t *found = rig_memory(LARGE_BYTES, 0);
	struct g4_dev *dev;
	struct g4_attr attr;
	uint64_t done;

	disks_expect_clean(d, all_of(d));
	for (uint32_t which = 1; which <= all_of(d); which++) {
		if (d->count - (uint32_t)__builtin_popcount(which) > level->spare ||
		    !disks_takes_loss(all_of(d) & ~which))
			continue;
		if (disks_try_open(d, which, true, G4_DEV_READ_ONLY, &dev) < 0)
			fail_msg("%s", d->message);
		disks_begin_fs(d, dev, G4_FS_READ_ONLY);
		disks_expect_files(d, FILES, 1);
		assert_int_equal(op_lookup(&d->rig, G4_NODE_ROOT, "large", &attr), 0);
		assert_int_equal(op_read(&d->rig, attr.ino, 0, 0, found, LARGE_BYTES, &done), 0);
		assert_memory_equal(found, content->data, LARGE_BYTES);
		disks_unmount_fs(d, dev, true);
	}
	free(found);
}

enum when { BETWEEN_TAKES, BEFORE_THEY_ARE_MADE, BEFORE_THE_FIRST_COUNTS, BEFORE_THE_SECOND_COUNTS, WHENS };

static void change_one(const struct disks *d, const uint64_t address[2], const uint64_t number[2], bool second,
		       struct content *content)
{
	change(d, address[second], number[second], content);
}

/* Two parts that have pages of the file; what comes before is made. False: there are none any more. */
static bool take_two(struct disks *d, const struct content *content, struct g4_direct_lost taken[2],
		     uint64_t address[2], uint64_t number[2])
{
	while (take(d, TAKE_BYTES, &taken[0])) {
		address[0] = find_page(d, &taken[0], content, &number[0]);
		if (address[0] != 0 && take(d, TAKE_BYTES, &taken[1])) {
			address[1] = find_page(d, &taken[1], content, &number[1]);
			if (address[1] != 0)
				return true;
		}
		make_taken(d, &taken[0]);
		assert_int_equal(say_made(d, &taken[0]), taken[0].bytes);
		assert_int_equal(say_made(d, &(struct g4_direct_lost){.bytes = 0}), 0);
	}
	return false;
}

static void who_writes_costs_what_was_taken_since(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct content content = {.data = rig_memory(LARGE_BYTES, 1), .seed = 5000};
		uint64_t address[2], number[2];
		struct g4_direct_lost taken[2];
		uint32_t cases = 0;
		struct g4_dev *dev;
		struct disks d;
		disks_make(&d, levels[l].disks, NULL);
		disks_format_plan(&d, &levels[l].plan, G4_CHECKSUM_NONE);
		disks_mount_fs(&d, all_of(&d), &dev);
		for (uint32_t n = 0; n < FILES; n++)
			assert_int_equal(disks_put(&d, n, 1), 0);
		put_large(&d, 1);
		rig_pattern(content.data, 1001, LARGE_BYTES);
		lose(&d, 1);
		begin(&d, G4_DISK_REPLACE, 1);
		while (cases < 2 * WHENS && take_two(&d, &content, taken, address, number)) {
			const bool second = cases % 2;
			const enum when when = cases / 2;
			const bool first_counts = second || when > BEFORE_THE_FIRST_COUNTS,
				   second_counts = first_counts && (!second || when == BETWEEN_TAKES);
			const uint64_t at = position(&d);
			cases++;
			if (when == BETWEEN_TAKES) { /* once more */
				assert_int_equal(say_made(&d, &(struct g4_direct_lost){.bytes = 0}), 0);
				assert_true(take(&d, TAKE_BYTES, &taken[0]));
				change_one(&d, address, number, second, &content);
				assert_true(take(&d, TAKE_BYTES, &taken[1]));
			}
			/* the file has no page twice, so that it is found again */
			if (when == BEFORE_THEY_ARE_MADE)
				change_one(&d, address, number, second, &content);
			make_taken(&d, &taken[1]);
			make_taken(&d, &taken[0]);
			if (when == BEFORE_THE_FIRST_COUNTS)
				change_one(&d, address, number, second, &content);
			assert_int_equal(say_made(&d, &taken[0]), first_counts ? taken[0].bytes : 0);
			assert_true(first_counts ? position(&d) >= at + taken[0].bytes : position(&d) == at);
			if (when == BEFORE_THE_SECOND_COUNTS)
				change_one(&d, address, number, second, &content);
			assert_int_equal(say_made(&d, &taken[1]), second_counts ? taken[1].bytes : 0);
		}
		assert_int_equal(cases, 2 * WHENS);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		expect_content(&d, &levels[l], &content);
		disks_free(&d);
		free(content.data);
	}
}

/* ---- of another rebuild ---- */

/* What was taken and made of a disk that was given up does not count for the next one, which has taken the same. */
static void a_part_of_a_rebuild_before_is_none_of_this_one(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct g4_direct_lost old, new;
		struct g4_dev *dev;
		struct disks d;
		make(&d, &levels[l], &dev);
		lose(&d, 0);
		begin(&d, G4_DISK_REPLACE, 0);
		assert_true(take(&d, TAKE_BYTES, &old));
		make_taken(&d, &old);
		begin(&d, G4_DISK_OFFLINE, 0);
		memset(d.memory[0], 0x5a, d.bytes[0]);
		step(&d); /* the job finds that out */
		begin(&d, G4_DISK_REPLACE, 0);
		assert_true(take(&d, TAKE_BYTES, &new));
		assert_true(new.chunk == old.chunk &&new.within == old.within &&new.bytes == old.bytes);
		assert_int_equal(say_made(&d, &old), 0);
		assert_int_equal(position(&d), 0);
		assert_int_equal(say_made(&d, &new), 0); /* nor does this one any more */
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], 1, 1);
		disks_free(&d);
	}
}

/* ---- holes ---- */

static void put_file(struct disks *d, const char *name, uint64_t bytes)
{
	uint8_t *data = rig_memory(G4_MIB, 5);
	uint64_t ino, done = 0;

	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
	for (uint64_t at = 0; at < bytes; at += G4_MIB)
		assert_int_equal(op_write(&d->rig, ino, 0, at, data, G4_MIB, &done), 0);
	assert_int_equal(op_fsync(&d->rig, ino), 0);
	free(data);
}

/* Something in use, bits of the map of rows of which nothing is, and something in use; mounted, a disk lost and begun to be made again. */
static void make_holed(struct disks *d, const struct level *level, struct g4_dev **dev)
{
	const uint64_t columns = level->plan.parity ? level->disks - level->plan.parity : 1;
	uint64_t sizes[MOST_DISKS];

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = HOLED_BYTES;
	disks_make(d, level->disks, sizes);
	fill(d, level, dev);
	put_file(d, "before", 5 * G4_MIB * columns);
	put_file(d, "hole", 24 * G4_MIB * columns);
	put_file(d, "behind", 5 * G4_MIB * columns);
	assert_int_equal(op_unlink(&d->rig, G4_NODE_ROOT, "hole"), 0);
	assert_int_equal(op_sync(&d->rig), 0);
	assert_int_equal(op_sync(&d->rig), 0);
	lose(d, 1);
	begin(d, G4_DISK_REPLACE, 1);
}

/* Copies on more disks than there are of them lie in places of a MiB, and what comes next is told by the place. */
static bool has_holes(const struct level *level)
{
	return level->plan.parity > 0 || level->plan.copies == level->disks;
}

/* What comes next, behind so many pages that are left out, to the end of a bit of the map. */
static bool take_over(struct disks *d, uint64_t hole_pages, uint64_t bytes, struct g4_direct_lost *lost)
{
	struct g4_dev_order o = {.bytes = bytes, .all = G4_GIB, .done = hole_pages * G4_PAGE_BYTES};

	assert_int_equal(give(d, G4_ORDER_TAKE, &o), 0);
	*lost = lost_of(&o);
	return o.bytes > 0;
}

struct hole {
	uint64_t page, pages, columns;
};

/* Takes what lies in front of a hole of several bits of the map, when all before that is made. */
static void take_before_a_hole(struct disks *d, struct g4_direct_lost *lost, struct hole *hole)
{
	for (;;) {
		struct g4_dev_order o = {0};
		assert_int_equal(give(d, G4_ORDER_NEXT, &o), 0);
		assert_true(o.bytes > 0);
		const uint64_t page = (o.done + o.all) / G4_PAGE_BYTES, end = (o.done + o.bytes) / G4_PAGE_BYTES;
		const uint64_t columns = o.disk & G4_NEXT_COLUMNS, unit = o.disk >> G4_NEXT_UNIT_SHIFT;
		const uint64_t free = g4_alloc_count(d->rig.wg, &d->rig.fs->alloc, page, end - page, false);
		if (free > 0 && o.all == 0) {
			o.bytes = free * G4_PAGE_BYTES;
			assert_int_equal(give(d, G4_ORDER_SKIP, &o), 0);
			if (o.bytes > 0)
				continue;
		}
		const uint64_t used = g4_max64(
			g4_alloc_count(d->rig.wg, &d->rig.fs->alloc, page, end - page, true) * G4_PAGE_BYTES, 1);
		assert_true(take_over(d, 0, used, lost));
		hole->columns = columns;
		hole->page = page + lost->bytes * columns / G4_PAGE_BYTES;
		hole->pages = hole->page < end ? g4_alloc_count(d->rig.wg, &d->rig.fs->alloc, hole->page,
								end - hole->page, false) :
						 0;
		if (hole->page + hole->pages < end &&
		    hole->pages * G4_PAGE_BYTES >= g4_max64(2 * unit * columns, 4) * G4_MIB)
			return;
		make_taken(d, lost);
		assert_int_equal(say_made(d, lost), lost->bytes);
	}
}

/* So many pages of the hole are left out, or 0. */
static uint64_t pass_over(struct disks *d, uint64_t pages)
{
	struct g4_dev_order o = {.bytes = pages * G4_PAGE_BYTES};

	assert_int_equal(give(d, G4_ORDER_SKIP, &o), 0);
	return o.bytes / G4_PAGE_BYTES;
}

enum hole_case {
	IT_PASSES_WITH_THE_PART,
	SOMEBODY_WRITES_TO_IT,
	SOMEBODY_HAS_WRITTEN_TO_IT,
	THE_PART_DOES_NOT_COUNT,
	A_KILL_BEFORE_IT_COUNTS,
	A_KILL_WHEN_THAT_IS_NOTED,
	IN_TWO_PARTS,
	ANOTHER_PART_IS_TAKEN_BEHIND_IT,
	ANOTHER_PART_IS_TAKEN_OVER_IT,
	SOMEBODY_HAS_WRITTEN_WHEN_ANOTHER_IS_TAKEN_OVER_IT,
	HOLE_CASES
};

/* True: nothing of it is mounted any more but by a later mount, which this was. */
static void kill_and_mount(struct disks *d, struct g4_dev **dev)
{
	uint8_t *kept[MOST_DISKS];

	keep_disks(d, kept);
	disks_unmount_fs(d, *dev, false);
	restore_disks(d, kept);
	disks_mount_fs(d, all_of(d), dev);
}

static void leave_out_a_hole(struct disks *d, struct g4_dev **dev, bool rows, enum hole_case c)
{
	struct g4_direct_lost lost, next;
	struct g4_dev_order note = {0};
	struct hole hole;

	take_before_a_hole(d, &lost, &hole);
	const uint64_t at = position(d), middle = (hole.page + hole.pages / 2) * G4_PAGE_BYTES,
		       whole = hole.pages - hole.pages % (UNIT_PAGES * hole.columns);
	if (c == SOMEBODY_HAS_WRITTEN_TO_IT) {
		write_at(d, middle);
		/* what copies have there was written to all of them */
		assert_int_equal(pass_over(d, hole.pages) > 0, !rows);
	} else if (c == ANOTHER_PART_IS_TAKEN_OVER_IT) {
		assert_true(take_over(d, whole, TAKE_BYTES, &next));
		make_taken(d, &next);
	} else if (c == SOMEBODY_HAS_WRITTEN_WHEN_ANOTHER_IS_TAKEN_OVER_IT) {
		write_at(d, middle);
		assert_int_equal(take_over(d, whole, TAKE_BYTES, &next), !rows);
		if (!rows)
			make_taken(d, &next);
	} else if (c == IN_TWO_PARTS) { /* one look holds for all that was told */
		const uint64_t first = pass_over(d, hole.pages / 2);
		assert_true(first > 0);
		assert_true(pass_over(d, hole.pages - first) > 0);
	} else {
		assert_true(pass_over(d, hole.pages) > hole.pages / 2);
	}
	assert_int_equal(position(d), at);
	const bool writes = c == SOMEBODY_WRITES_TO_IT;
	if (writes)
		write_at(d, middle);
	make_taken(d, &lost);
	if (c == ANOTHER_PART_IS_TAKEN_BEHIND_IT) {
		assert_true(take(d, TAKE_BYTES, &next));
		assert_true(next.within > lost.within + lost.bytes);
		make_taken(d, &next);
	}
	if (c == A_KILL_BEFORE_IT_COUNTS) {
		kill_and_mount(d, dev);
		assert_true(position(d) <= at);
		return;
	}
	const bool counts = c != THE_PART_DOES_NOT_COUNT && !(writes && rows);
	if (c == THE_PART_DOES_NOT_COUNT)
		assert_int_equal(say_made(d, &(struct g4_direct_lost){.number = lost.number}), 0);
	else
		assert_int_equal(say_made(d, &lost), counts ? lost.bytes : 0);
	if (!counts)
		assert_int_equal(position(d), at);
	else if (c != SOMEBODY_HAS_WRITTEN_TO_IT && c != SOMEBODY_HAS_WRITTEN_WHEN_ANOTHER_IS_TAKEN_OVER_IT)
		assert_true(position(d) > at + lost.bytes + hole.pages / hole.columns * G4_PAGE_BYTES / 2);
	if (c == ANOTHER_PART_IS_TAKEN_BEHIND_IT || c == ANOTHER_PART_IS_TAKEN_OVER_IT ||
	    (c == SOMEBODY_HAS_WRITTEN_WHEN_ANOTHER_IS_TAKEN_OVER_IT && !rows))
		assert_int_equal(say_made(d, &next), next.bytes);
	assert_false(take_over(d, UNIT_PAGES, TAKE_BYTES, &next)); /* nothing is taken in front of it */
	if (c == A_KILL_WHEN_THAT_IS_NOTED) {
		const uint64_t noted = position(d);
		assert_int_equal(give(d, G4_ORDER_NOTE, &note), 0);
		kill_and_mount(d, dev);
		assert_int_equal(position(d), noted);
	}
	put_large(d, 2); /* it may lie in the hole */
	put_file(d, "in it", 8 * G4_MIB);
}

/* As many of the others are lost as can be, by turns, so that what was made is what is read. Not mounted. */
static void expect_without_others(struct disks *d, const struct level *level, uint32_t turn, uint32_t large)
{
	uint32_t which = all_of(d);
	struct g4_dev *dev;

	disks_expect_clean(d, which);
	for (uint32_t n = 0; n < level->spare; turn++) {
		const uint32_t bit = 1u << turn % d->count;
		if (bit != 2 && (which & bit)) {
			which &= ~bit;
			n++;
		}
	}
	if (disks_try_open(d, which, true, G4_DEV_READ_ONLY, &dev) < 0)
		fail_msg("%s", d->message);
	disks_begin_fs(d, dev, G4_FS_READ_ONLY);
	disks_expect_files(d, FILES, 1);
	expect_large(d, large);
	disks_unmount_fs(d, dev, true);
}

static void a_hole_passes_with_the_part_before_it(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (enum hole_case c = 0; c < HOLE_CASES; c++) {
			struct g4_dev *dev;
			struct disks d;
			if (!has_holes(&levels[l]) || (l + c) % rig_every(1) != 0)
				continue;
			make_holed(&d, &levels[l], &dev);
			leave_out_a_hole(&d, &dev, levels[l].plan.parity > 0, c);
			finish(&d);
			disks_unmount_fs(&d, dev, true);
			expect_without_others(&d, &levels[l], c, c == A_KILL_BEFORE_IT_COUNTS ? 1 : 2);
			disks_free(&d);
		}
}

/* The first page that is free from there on is somebody's. */
static uint64_t claim_at(const struct disks *d, uint64_t page)
{
	struct g4_alloc *alloc = &d->rig.fs->alloc;
	struct g4_address address;
	uint64_t got;

	assert_int_equal(
		g4_alloc_claim(d->rig.wg, alloc, G4_ALLOC_DATA, g4_page_address(page), 1, false, &address, &got), 0);
	assert_int_equal(got, 1);
	assert_true(g4_address_page(address) >= page);
	return g4_address_page(address);
}

/*
 * A page of a hole that was left out behind a part is written, and the set holds it in memory: nothing goes to disks before the part has counted, or not. Whichever disk
 * is lost then, the page is what was written.
 */
static void what_is_held_of_a_hole_is_not_passed_over(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 0), *found = rig_memory(G4_PAGE_BYTES, 0);

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct g4_direct_lost lost;
		struct hole hole;
		struct g4_dev *dev;
		struct disks d;
		if (levels[l].plan.parity == 0)
			continue;
		make_holed(&d, &levels[l], &dev);
		take_before_a_hole(&d, &lost, &hole);
		assert_true(pass_over(&d, hole.pages) > hole.pages / 2);
		make_taken(&d, &lost);
		const uint64_t middle = claim_at(&d, hole.page + hole.pages / 2) * G4_PAGE_BYTES;
		assert_true(middle / G4_PAGE_BYTES < hole.page + hole.pages);
		rig_pattern(page, 77, G4_PAGE_BYTES);
		assert_int_equal(
			g4_space_write(d.rig.wg, &d.rig.fs->space, g4_address_from(middle), page, G4_PAGE_BYTES, 0), 0);
		(void)say_made(&d, &lost);
		assert_int_equal(g4_space_flush(d.rig.wg, &d.rig.fs->space), 0);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		for (uint32_t n = 0; n < d.count; n++) {
			if (disks_try_open(&d, all_of(&d) & ~(1u << n), true, G4_DEV_READ_ONLY, &dev) < 0)
				fail_msg("%s", d.message);
			disks_begin_fs(&d, dev, G4_FS_READ_ONLY);
			assert_int_equal(g4_space_read(d.rig.wg, &d.rig.fs->space, g4_address_from(middle), found,
						       G4_PAGE_BYTES),
					 0);
			if (memcmp(found, page, G4_PAGE_BYTES) != 0)
				fail_msg("level %u without disk %u", l, n);
			disks_unmount_fs(&d, dev, true);
		}
		disks_free(&d);
	}
	free(page);
	free(found);
}

/* ---- what the job asks ---- */

#define ASKED_MOST 4096u
static struct {
	const struct g4_dev_ops *ops;
	char asked[ASKED_MOST]; /* a letter for each question, ended by 0 */
	uint32_t count, act_at, acts;
	struct disks *d;
	struct rig own;	      /* another workgroup's way to the file system */
	uint8_t *const *kept; /* memory for that */
} hook;

static void put_version(struct rig *rig, uint32_t version)
{
	uint8_t *data = rig_memory(LARGE_BYTES, 1);
	struct g4_attr attr;
	uint64_t done = 0;

	rig_pattern(data, 1000 + version, LARGE_BYTES);
	assert_int_equal(op_lookup(rig, G4_NODE_ROOT, "large", &attr), 0);
	assert_int_equal(op_write(rig, attr.ino, 0, 0, data, LARGE_BYTES, &done), 0);
	assert_int_equal(op_fsync(rig, attr.ino), 0);
	free(data);
}

/* A user writes in front of question number act_at, while whoever asks waits, or what the disks have then is kept. */
static int asked(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order)
{
	const char letter = order->op == G4_ORDER_NEXT ? 'N' :
			    order->op == G4_ORDER_SKIP ? 'S' :
			    order->op == G4_ORDER_TAKE ? (order->done > 0 ? 't' : 'T') : /* over a hole */
			    order->op == G4_ORDER_MADE ? 'M' :
			    order->op == G4_ORDER_STEP ? 's' :
							 0;

	if (letter && hook.count < ASKED_MOST - 1) {
		hook.asked[hook.count++] = letter;
		if (hook.count == hook.act_at) {
			hook.acts++;
			if (hook.kept)
				for (uint32_t n = 0; n < hook.d->count; n++)
					rig_copy(hook.kept[n], hook.d->memory[n], hook.d->bytes[n]);
			else
				put_version(&hook.own, 2);
		}
	}
	return hook.ops->order(wg, dev, order);
}

static void begin_asking(struct disks *d, struct g4_dev *dev, struct g4_dev_ops *ops, uint32_t act_at)
{
	memset(&hook, 0, sizeof(hook));
	hook.d = d;
	hook.own.fs = d->rig.fs;
	hook.own.wg = g4_wg_create(7);
	hook.act_at = act_at;
	hook.ops = dev->ops;
	*ops = *dev->ops;
	ops->order = asked;
	dev->ops = ops;
	g4_store32_rel(&d->rig.fs->split.helpers, HELPERS);
}

static void end_asking(struct disks *d, struct g4_dev *dev)
{
	g4_store32_rel(&d->rig.fs->split.helpers, 0);
	dev->ops = hook.ops;
	g4_wg_destroy(hook.own.wg);
}

/* In one step the next part is taken before the first is said to be made, also over a hole; and a job that is limited, or has busy users, takes one at a time. */
static void a_step_takes_the_next_part_while_one_is_made(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t limited = 0; limited < 3; limited++) { /* 2: users are busy */
			struct g4_cmd limit = {.op = G4_CMD_JOB_SET, .mask = G4_JOB_LIMIT, .rate = G4_GIB};
			struct g4_dev_ops ops;
			struct g4_dev *dev;
			struct disks d;
			make_holed(&d, &levels[l], &dev);
			limit.number = job_of(&d).number;
			if (limited == 1)
				assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &limit), 0);
			begin_asking(&d, dev, &ops, 0);
			if (limited == 2) { /* the first step is not waited for */
				(void)g4_jobs_serve(d.rig.wg, d.rig.fs, false);
				assert_ptr_equal(strchr(hook.asked, 'T'), strrchr(hook.asked, 'T'));
				assert_null(strchr(hook.asked, 't'));
				assert_non_null(strchr(hook.asked, 'M'));
			}
			while (job_of(&d).state == G4_JOB_RUNNING)
				(void)g4_jobs_serve(d.rig.wg, d.rig.fs, true);
			end_asking(&d, dev);
			assert_int_equal(job_of(&d).state, G4_JOB_DONE);
			const bool ahead = has_holes(&levels[l]) && limited != 1;
			assert_int_equal(strchr(hook.asked, 't') != NULL, ahead);
			assert_int_equal(strstr(hook.asked, "TT") || strstr(hook.asked, "Tt"), ahead);
			disks_unmount_fs(&d, dev, true);
			expect_everywhere(&d, &levels[l], 1, 1);
			disks_free(&d);
		}
}

/* Wherever between two questions a user writes, and whatever becomes of what was taken then: the disk has what the others stand for. */
static void a_user_writes_in_front_of_each_question(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		uint8_t *kept[MOST_DISKS];
		uint32_t questions = 1;
		struct g4_dev *dev;
		struct disks d;
		if (!has_holes(&levels[l])) /* one part at a time */
			continue;
		make_holed(&d, &levels[l], &dev);
		keep_disks(&d, kept);
		disks_unmount_fs(&d, dev, false);
		for (uint32_t at = 1; at <= questions; at += (levels[l].spare > 1 ? 3 : 1) * rig_every(1)) {
			struct g4_dev_ops ops;
			for (uint32_t n = 0; n < d.count; n++)
				rig_copy(d.memory[n], kept[n], d.bytes[n]);
			disks_mount_fs(&d, all_of(&d), &dev);
			begin_asking(&d, dev, &ops, at);
			while (job_of(&d).state == G4_JOB_RUNNING)
				step(&d);
			end_asking(&d, dev);
			assert_int_equal(job_of(&d).state, G4_JOB_DONE);
			assert_int_equal(hook.acts, 1);
			questions = at == 1 ? hook.count : g4_min64(questions, hook.count);
			disks_unmount_fs(&d, dev, true);
			expect_without_others(&d, &levels[l], at, 2);
		}
		assert_true(questions > 10);
		for (uint32_t n = 0; n < d.count; n++)
			free(kept[n]);
		disks_free(&d);
	}
}

/* The same of a kill: the next mount goes on from what was noted, also without another disk, and believes nothing of what was taken. */
static void a_kill_in_front_of_some_questions(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		uint8_t *kept[MOST_DISKS], *crashed[MOST_DISKS];
		uint32_t questions = 1;
		struct g4_dev *dev;
		struct disks d;
		if (!has_holes(&levels[l])) /* one part at a time */
			continue;
		make_holed(&d, &levels[l], &dev);
		keep_disks(&d, kept);
		keep_disks(&d, crashed);
		disks_unmount_fs(&d, dev, false);
		for (uint32_t at = 1; at <= questions; at += 3 * rig_every(levels[l].spare)) {
			const bool loses = levels[l].spare > 1 && at % 2;
			struct g4_dev_ops ops;
			for (uint32_t n = 0; n < d.count; n++)
				rig_copy(d.memory[n], kept[n], d.bytes[n]);
			disks_mount_fs(&d, all_of(&d), &dev);
			begin_asking(&d, dev, &ops, at);
			hook.kept = crashed;
			while (job_of(&d).state == G4_JOB_RUNNING)
				step(&d);
			end_asking(&d, dev);
			questions = hook.count;
			assert_int_equal(hook.acts, 1);
			disks_unmount_fs(&d, dev, false);
			for (uint32_t n = 0; n < d.count; n++)
				rig_copy(d.memory[n], crashed[n], d.bytes[n]);
			disks_mount_fs(&d, all_of(&d) & ~(uint32_t)loses, &dev);
			assert_int_equal(job_of(&d).state, G4_JOB_RUNNING);
			g4_store32_rel(&d.rig.fs->split.helpers, HELPERS);
			put_large(&d, 3);
			finish(&d);
			g4_store32_rel(&d.rig.fs->split.helpers, 0);
			if (loses) {
				begin(&d, G4_DISK_REBUILD, 0);
				finish(&d);
			}
			disks_unmount_fs(&d, dev, true);
			expect_without_others(&d, &levels[l], at, 3);
		}
		assert_true(questions > 10);
		for (uint32_t n = 0; n < d.count; n++) {
			free(kept[n]);
			free(crashed[n]);
		}
		disks_free(&d);
	}
}

/* ---- several workgroups ---- */

struct worker {
	pthread_t thread;
	struct g4_fs *fs;
	uint32_t number, done; /* done: atomic */
	uint32_t *stop;
};

static void *help(void *argument)
{
	struct worker *w = (struct worker *)argument;
	struct g4_wg *wg = g4_wg_create(10 + w->number);

	while (!g4_load32_acq(w->stop)) {
		if (g4_split_help(wg, w->fs))
			g4_store32_rel(&w->done, w->done + 1);
		else
			sched_yield();
	}
	g4_wg_destroy(wg);
	return NULL;
}

/* Orders that close the gate, and come to nothing. */
static void *order_about(void *argument)
{
	struct worker *w = (struct worker *)argument;
	struct g4_wg *wg = g4_wg_create(10 + w->number);
	bool refused = true;

	while (!g4_load32_acq(w->stop) && refused) {
		char text[256] = "";
		struct g4_dev_order o = {
			.op = G4_ORDER_OFFLINE, .name = "/nowhere", .text = text, .text_bytes = sizeof(text)};
		refused = g4_space_order(wg, &w->fs->space, &o) == -G4_E_NOENT;
		g4_store32_rel(&w->done, w->done + 1);
		sched_yield();
	}
	g4_wg_destroy(wg);
	return refused ? NULL : w;
}

/* Who makes a part is not waited for by an order that he waits for. What the gate was closed to is made again. */
static void orders_come_between_pieces(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct worker workers[3];
		uint32_t stop = 0;
		struct g4_dev *dev;
		struct disks d;
		make_holed(&d, &levels[l], &dev);
		g4_store32_rel(&d.rig.fs->split.helpers, HELPERS);
		for (uint32_t n = 0; n < 3; n++) {
			workers[n] = (struct worker){.fs = d.rig.fs, .number = n, .stop = &stop};
			assert_int_equal(
				pthread_create(&workers[n].thread, NULL, n == 2 ? order_about : help, &workers[n]), 0);
		}
		for (uint32_t rounds = 0;
		     rounds < 3 || g4_load32_acq(&workers[0].done) == 0 || g4_load32_acq(&workers[2].done) < 100;
		     rounds++) {
			finish(&d);
			while (order(&d, G4_DISK_OFFLINE, d.names[1]) < 0 || order(&d, G4_DISK_REPLACE, d.names[1]) < 0)
				assert_non_null(strstr(d.message, "under way"));
		}
		finish(&d);
		g4_store32_rel(&stop, 1);
		for (uint32_t n = 0; n < 3; n++) {
			void *failed;
			assert_int_equal(pthread_join(workers[n].thread, &failed), 0);
			assert_null(failed);
		}
		g4_store32_rel(&d.rig.fs->split.helpers, 0);
		assert_true(made(&d) > 0);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], 1, 1);
		disks_free(&d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_count_in_their_order),
		cmocka_unit_test(who_writes_costs_what_was_taken_since),
		cmocka_unit_test(a_part_of_a_rebuild_before_is_none_of_this_one),
		cmocka_unit_test(a_hole_passes_with_the_part_before_it),
		cmocka_unit_test(what_is_held_of_a_hole_is_not_passed_over),
		cmocka_unit_test(a_step_takes_the_next_part_while_one_is_made),
		cmocka_unit_test(a_user_writes_in_front_of_each_question),
		cmocka_unit_test(a_kill_in_front_of_some_questions),
		cmocka_unit_test(orders_come_between_pieces),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
