/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows with parity are spread over a disk that was added while users write: what was synced is there with any disks lost that the level bears,
 * whatever the power does and whichever disk fails meanwhile, and the order goes on after an unmount.
 */
#include "leveled.h"
#include "moving.h"
#include "rows_moving.h"

#include <unistd.h>

#include "simt/simt_host.h"
#include "space/set_epoch_host.h"
#include "space/set_lend_host.h"
#include "space/set_rows_host.h"
#include "space/set_spread_host.h"

#define EVEN_BYTES                                                                                                     \
	(3 * UNIT) /* each disk may have less than a unit too much or too little, and users write meanwhile */

static const struct shape shapes[] = {
	{3, 1, 1, 88 * G4_MIB},
	{4, 2, 1, 88 * G4_MIB},
	{3, 1, 3,
	 88 * G4_MIB}, /* chunks have all of the new disks as well: nothing moves but where free space makes room */
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/*
 * Whether a test whose turn is that shape's takes this one. Under ThreadSanitizer, which watches one thread here, and lanes that do the
 * same with each shape, such a test takes its own; the other builds take all, and so does the test whose threads meet.
 */
static bool takes(uint32_t turn, uint32_t s)
{
	return s == turn || rig_every(1) == 1;
}

/* Bytes that are in use, of each disk, of parity as of data. */
static void count_used(struct disks *d, struct g4_dev *dev, uint64_t *used)
{
	const uint64_t pages = g4_load64_acq(&d->rig.fs->alloc.region_count) * G4_REGION_PAGES;
	const struct g4_set *set = (const struct g4_set *)dev->host;

	for (uint64_t page = 0; page < g4_min64(pages, g4_dev_props(dev)->size_bytes / G4_PAGE_BYTES); page++) {
		if (g4_alloc_in_use(d->rig.wg, &d->rig.fs->alloc, g4_page_address(page)) != 1)
			continue;
		const struct g4_chunk *chunk = g4_chunk_find(&set->map, page * G4_PAGE_BYTES);
		for (uint32_t k = 0; k < g4_table_places(chunk); k++)
			used[g4_place_disk(chunk->places[k])] += G4_PAGE_BYTES / g4_chunk_data_columns(chunk);
	}
}

static uint64_t unevenness(struct disks *d, struct g4_dev *dev)
{
	uint64_t used[MOST_DISKS] = {0}, most = 0, least = UINT64_MAX;

	count_used(d, dev, used);
	for (uint32_t n = 0; n < g4_dev_props(dev)->disks; n++) {
		most = g4_max64(most, used[n]);
		least = g4_min64(least, used[n]);
	}
	return most - least;
}

static uint64_t unevenness_of(struct disks *d)
{
	struct g4_dev *dev;

	disks_mount_fs(d, all_of(d), &dev);
	const uint64_t bytes = unevenness(d, dev);
	disks_unmount_fs(d, dev, true);
	return bytes;
}

static struct g4_job_record job(struct disks *d)
{
	return newest_of(d, G4_JOB_REBALANCE);
}

static void start(struct disks *d, uint32_t flags)
{
	if (order_as(d, G4_DISK_REBALANCE, "", flags) < 0)
		fail_msg("%s", d->message);
}

/* ---- users ---- */

/* All disks have what the model says, and all but any that may be lost. Not mounted. */
static void expect_everywhere(struct disks *d, const struct shape *shape, struct model *m, uint64_t ballast)
{
	uint8_t *before[MOST_DISKS];
	struct g4_dev *dev;
	uint64_t small;

	disks_mount_fs(d, all_of(d), &dev);
	const uint64_t bytes = fill_in_small_pieces(d, &small);
	assert_true(bytes > 4 * G4_MIB);
	disks_unmount_fs(d, dev, true);
	keep_disks(d, before);
	for (uint32_t lost = 0; lost <= all_of(d); lost++) {
		if ((uint32_t)__builtin_popcount(lost) > shape->parity || !disks_takes_loss(lost))
			continue;
		const uint32_t which = all_of(d) & ~lost;
		disks_expect_clean(d, which);
		disks_mount_fs(d, which, &dev);
		expect_model(m, d);
		disks_expect_filled(d, ballast, shape->ballast);
		expect_small_pieces(d, small, bytes);
		if (!lost)
			assert_int_equal(disks_scrub(d), 0);
		disks_unmount_fs(d, dev, true);
		restore_disks(d, before);
	}
	for (uint32_t n = 0; n < d->count; n++)
		free(before[n]);
}

static void users_write_while_rows_get_their_share(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		struct model m;
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast;
		uint32_t steps = 0;
		if (!takes(2, s))
			continue;
		format(&d, &shapes[s], &ballast);
		if (unevenness_of(&d) <= EVEN_BYTES)
			fail_msg("shape %u: the disks are used evenly", s);
		disks_mount_fs(&d, all_of(&d), &dev);
		begin_model(&m, &d);
		start(&d, 0);
		for (; job(&d).state == G4_JOB_RUNNING; steps++) {
			for (uint32_t k = 0; k < 10; k++)
				use(&m, &d);
			step(&d);
		}
		const struct g4_job_record record = job(&d);
		assert_int_equal(record.state, G4_JOB_DONE);
		assert_int_equal(record.done, record.units);
		/* the new disks have their share, as near as units of rows are; and nothing that is free was copied for it but beside what is in use */
		if (steps < 3 || record.bytes < 3 * UNIT || record.bytes > 12 * UNIT ||
		    unevenness(&d, dev) > EVEN_BYTES)
			fail_msg("shape %u: %u steps, %lu bytes, a disk has %lu more than another", s, steps,
				 (unsigned long)record.bytes, (unsigned long)unevenness(&d, dev));
		expect_model(&m, &d);
		for (uint32_t k = 0; k < 20; k++)
			use(&m, &d);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &shapes[s], &m, ballast);
		end_model(&m);
		disks_free(&d);
	}
}

/* The same while nobody uses the file system, by a mount for this alone; once more moves nothing. */
static void rows_get_their_share_while_nobody_uses_them(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		struct model m;
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast, bytes, again;
		if (!takes(0, s))
			continue;
		format(&d, &shapes[s], &ballast);
		disks_mount_fs(&d, all_of(&d), &dev);
		begin_model(&m, &d);
		for (uint32_t k = 0; k < 50; k++)
			use(&m, &d);
		disks_unmount_fs(&d, dev, true);
		dev = open_all(&d);
		if (g4_balance_disks(dev, NULL, &bytes, d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
		g4_dev_close(dev);
		assert_in_range(bytes, 3 * UNIT, 12 * UNIT);
		assert_true(unevenness_of(&d) <= EVEN_BYTES);
		again = UNIT + 1;
		for (uint32_t turn = 0; again > UNIT; turn++) { /* it comes to an end */
			assert_true(turn < 3);
			dev = open_all(&d);
			assert_int_equal(g4_balance_disks(dev, NULL, &again, d.message, sizeof(d.message)), 0);
			g4_dev_close(dev);
			assert_true(again < bytes);
		}
		expect_everywhere(&d, &shapes[s], &m, ballast);
		end_model(&m);
		disks_free(&d);
	}
}

/* The power fails while nobody uses it, and it is given again. */
static void the_power_fails_while_nobody_uses_them(void **state)
{
	static struct disks_order requests;
	uint64_t ballast, bytes, random = 3;
	uint8_t *before[MOST_DISKS];
	struct disks d, crashed;
	uint32_t moved_more = 0;
	struct faulty f;

	(void)state;
	format(&d, &shapes[0], &ballast);
	keep_disks(&d, before);
	disks_open_faulty(&d, &f);
	memset(&requests, 0, sizeof(requests));
	disks_watch(&d, &f, &requests);
	if (g4_balance_disks(f.set, NULL, &bytes, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	disks_make(&crashed, d.count, d.bytes);
	for (uint32_t at = 0; at <= requests.count; at += 19 * (uint32_t)rig_every(3)) {
		struct g4_dev *dev;
		disks_crash(&crashed, before, &f, &requests, at, &random);
		dev = open_all(&crashed);
		if (g4_balance_disks(dev, NULL, &bytes, crashed.message, sizeof(crashed.message)) < 0)
			fail_msg("after %u requests: %s", at, crashed.message);
		g4_dev_close(dev);
		moved_more += bytes > 0;
		assert_true(unevenness_of(&crashed) <= EVEN_BYTES);
		disks_expect_clean(&crashed, all_of(&d));
		disks_mount(&crashed, all_of(&d) & ~(1u << at % d.count));
		disks_expect_filled(&crashed, ballast, shapes[0].ballast);
		disks_unmount(&crashed);
	}
	assert_true(moved_more > 0);
	disks_free(&crashed);
	g4_dev_close(f.set);
	for (uint32_t n = 0; n < d.count; n++)
		free(before[n]);
	disks_free(&d);
}

/* ---- several threads ---- */

static void threads_write_while_rows_get_their_share(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		struct user users[THREADS];
		struct disks d;
		uint64_t ballast;
		uint32_t stop = 0;
		format(&d, &shapes[s], &ballast);
		disks_mount(&d, all_of(&d));
		begin_users(users, &d, &stop);
		start(&d, G4_JOB_EAGER);
		while (job(&d).state == G4_JOB_RUNNING) {
			disks_expect_filled(&d, ballast, shapes[s].ballast);
			usleep(1000);
		}
		end_users(users);
		assert_int_equal(job(&d).state, G4_JOB_DONE);
		assert_true(job(&d).done > 0);
		disks_unmount(&d);
		disks_expect_clean(&d, all_of(&d));
		disks_mount(&d, all_of(&d) & ~(shapes[s].parity > 1 ? 6u : 2u));
		disks_expect_filled(&d, ballast, shapes[s].ballast);
		expect_users(users, &d);
		disks_unmount(&d);
		disks_free(&d);
	}
}

/* ---- tables ---- */

/* Wherever a chunk of rows is cut each page of its data and each parity lies where it lay, in a region of the same number; and joined it is what it was. */
static void rows_lie_where_they_lay_when_they_are_cut(void **state)
{
	struct g4_chunk *chunks = (struct g4_chunk *)calloc(G4_CHUNKS_MAX, sizeof(*chunks));
	uint32_t cuts = 0;

	(void)state;
	for (uint32_t columns = 3; columns <= G4_CHUNK_PLACES; columns++)
		for (uint32_t stripe = G4_STRIPE_MIN; stripe <= G4_STRIPE_MAX; stripe *= 4)
			for (uint64_t at = UNIT; at <= 5 * UNIT; at += UNIT, cuts++) {
				struct g4_chunk whole = {.bytes = (columns - 1) * (5 * UNIT + 3 * G4_MIB),
							 .place_bytes = 5 * UNIT + 3 * G4_MIB,
							 .stripe_bytes = stripe,
							 .columns = (uint16_t)columns,
							 .copies = 1,
							 .parity = 1};
				uint32_t count = 1;
				for (uint32_t k = 0; k < columns; k++)
					whole.places[k] = ((7 + 64 * k) * G4_MIB) | k;
				chunks[0] = whole;
				assert_true(g4_table_cut(chunks, &count, 0, at));
				assert_int_equal(count, 2);
				if (at == 3 * UNIT) {
					assert_true(g4_table_cut(chunks, &count, 0, UNIT));
					assert_true(g4_table_cut(chunks, &count, 2, UNIT));
				}
				const struct g4_chunk_map before = {&whole, 1}, after = {chunks, count};
				uint64_t regions = 0;
				for (uint32_t n = 0; n < count; n++)
					regions += g4_set_log_regions(&chunks[n]);
				assert_int_equal(regions, g4_set_log_regions(&whole));
				for (uint64_t page = 0; page < whole.bytes; page += 13 * G4_PAGE_BYTES) {
					struct g4_piece one, other;
					uint32_t column, same;
					g4_chunk_translate(&before, page, G4_PAGE_BYTES, &one);
					g4_chunk_translate(&after, page, G4_PAGE_BYTES, &other);
					assert_int_equal(one.disks[0], other.disks[0]);
					assert_int_equal(one.offsets[0], other.offsets[0]);
					const struct g4_row row = g4_row_at(&before, page, G4_PAGE_BYTES, &column),
							    cut = g4_row_at(&after, page, G4_PAGE_BYTES, &same);
					assert_int_equal(column, same);
					assert_int_equal(g4_row_address(&row), g4_row_address(&cut));
					for (uint32_t c = 0; c < columns; c++)
						assert_int_equal(g4_row_place(&row, c), g4_row_place(&cut, c));
				}
				g4_table_join_all(chunks, &count);
				assert_int_equal(count, 1);
				assert_memory_equal(chunks, &whole, sizeof(whole));
			}
	assert_true(cuts > 100);
	free(chunks);
}

/* ---- requests ---- */

struct piece {
	uint64_t address, bytes, left;
};

static struct piece next(struct g4_set *set)
{
	struct piece p;

	assert_int_equal(g4_set_spread_next(set, &p.address, &p.bytes, &p.left), 0);
	return p;
}

static uint64_t moved(struct g4_wg *wg, struct g4_set *set, bool idle, uint64_t bytes, uint64_t *copied)
{
	uint64_t moved = 0;

	*copied = bytes;
	assert_int_equal(g4_set_spread_move(wg, set, idle, copied, &moved), 0);
	return moved;
}

static bool is_made(const struct g4_set *set, uint64_t address)
{
	const struct g4_chunk *chunk = g4_chunk_find(&set->map, address);
	const uint64_t within = (address - chunk->address) / g4_chunk_data_columns(chunk),
		       bit = g4_set_log_region(set, chunk, within / UNIT);

	return set->parity->made[bit / 8] >> bit % 8 & 1;
}

/*
 * What was written and is held goes along. A request that looked at the table of before finds what is held since; nothing moves a second time under
 * it. What is free moves without a copy, and unless somebody has written there; nothing is believed of its parity.
 */
static void rows_move_under_requests(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t ballast, copied, epoch;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &shapes[0], &ballast);
	dev = open_all(&d);
	struct g4_set *set = (struct g4_set *)dev->host;
	struct piece p = next(set);
	const uint64_t first = p.address + 4 * G4_PAGE_BYTES;
	assert_true(p.bytes >= 2 * UNIT && p.left >= UNIT);
	assert_int_equal(g4_dev_write(wg, dev, first, page, G4_PAGE_BYTES, 0), 0);
	assert_true(g4_set_held_any(set));
	assert_int_equal(moved(wg, set, true, p.bytes, &copied), 0); /* it was told to be free before */
	assert_int_equal(moved(wg, set, false, G4_PAGE_BYTES, &copied), UNIT);
	assert_int_equal(copied, UNIT);
	assert_false(g4_set_held_any(set));
	assert_true(is_made(set, first));
	assert_int_equal(moved(wg, set, false, G4_PAGE_BYTES, &copied), 0); /* nothing was chosen since */
	assert_int_equal(g4_dev_read(wg, dev, first, found, G4_PAGE_BYTES), 0);
	assert_memory_equal(found, page, G4_PAGE_BYTES);
	/* one looks at the chunks while they change */
	const struct g4_chunk_map *map = g4_set_view_enter(set, &epoch);
	p = next(set);
	const struct g4_chunk before = *g4_chunk_find(map, p.address);
	assert_int_equal(moved(wg, set, true, p.bytes, &copied), p.bytes / 2);
	assert_int_equal(copied, 0);
	assert_false(is_made(set, p.address));
	assert_memory_equal(g4_chunk_find(map, p.address), &before, sizeof(before));
	struct g4_chunk now;
	for (uint32_t n = 0; g4_set_chunk(dev, n, &now) && now.address + now.bytes <= p.address; n++)
		;
	assert_memory_not_equal(now.places, before.places, sizeof(before.places));
	assert_int_equal(g4_dev_write(wg, dev, p.address, page, G4_PAGE_BYTES, 0), 0);
	assert_true(is_made(set, p.address));
	assert_true(g4_set_parity_holds(set, map, p.address, G4_PAGE_BYTES));
	p = next(set);
	assert_true(p.bytes > 0);
	assert_int_equal(moved(wg, set, false, p.bytes, &copied), 0);
	g4_set_view_leave(set, epoch);
	assert_int_equal(moved(wg, set, false, p.bytes, &copied), UNIT);
	/* a write that is longer than what chunks are now */
	struct g4_chunk last = {.bytes = 0};
	for (uint32_t n = 0; g4_set_chunk(dev, n, &now) && !(last.parity && now.parity); n++)
		last = now;
	uint8_t *long_one = rig_memory(4 * G4_MIB, 6), *again = rig_memory(4 * G4_MIB, 7);
	const uint64_t across = now.address - 2 * G4_MIB;
	assert_true(now.parity && last.parity);
	struct g4_iov iov = {long_one, 4 * G4_MIB};
	assert_int_equal(g4_set_parity_write(wg, set, across, 4 * G4_MIB, &iov, 1, 0), 0);
	assert_int_equal(g4_dev_read(wg, dev, across, again, 4 * G4_MIB), 0);
	assert_memory_equal(again, long_one, 4 * G4_MIB);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	g4_dev_close(dev);
	for (uint32_t lost = 0; lost < d.count; lost++) {
		assert_int_equal(disks_try_open(&d, all_of(&d) & ~(1u << lost), true, G4_DEV_READ_ONLY, &dev), 0);
		assert_int_equal(g4_dev_read(wg, dev, across, again, 4 * G4_MIB), 0);
		assert_memory_equal(again, long_one, 4 * G4_MIB);
		assert_int_equal(g4_dev_read(wg, dev, first, found, G4_PAGE_BYTES), 0);
		if (first + G4_PAGE_BYTES <= across || first >= across + 4 * G4_MIB)
			assert_memory_equal(found, page, G4_PAGE_BYTES);
		g4_dev_close(dev);
	}
	g4_wg_destroy(wg);
	free(page);
	free(found);
	free(long_one);
	free(again);
	disks_free(&d);
}

/* What the log had of rows that moved is not written to where they lay, whatever lies there when the power fails. */
static void the_log_has_nothing_of_what_moved(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
	struct g4_wg *wg = g4_wg_create(0);
	uint8_t *after[MOST_DISKS];
	uint64_t ballast, copied;
	struct disks d;

	(void)state;
	format(&d, &shapes[0], &ballast);
	struct g4_dev *dev = open_all(&d);
	struct g4_set *set = (struct g4_set *)dev->host;
	const struct piece p = next(set);
	const uint64_t stripe = 2 * ROWS_STRIPE, place = set->chunks[set->next.chunk].places[set->next.number],
		       old = g4_place_address(place) + set->next.within;
	/* of three stripes each disk has data or parity that is written */
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(g4_dev_write(wg, dev, p.address + k * stripe, page, G4_PAGE_BYTES, 0), 0);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	assert_true(set->parity->row_count > 0);
	assert_int_equal(moved(wg, set, false, G4_PAGE_BYTES, &copied), UNIT);
	keep_disks(&d, after); /* the power fails */
	g4_dev_close(dev);
	restore_disks(&d, after);
	uint8_t *there = d.memory[g4_place_disk(place)] + old, *expected = (uint8_t *)malloc(UNIT);
	rig_pattern(there, 5, UNIT);
	memcpy(expected, there, UNIT);
	dev = open_all(&d);
	for (uint32_t k = 0; k < 3; k++) {
		assert_int_equal(g4_dev_read(wg, dev, p.address + k * stripe, found, G4_PAGE_BYTES), 0);
		assert_memory_equal(found, page, G4_PAGE_BYTES);
	}
	g4_dev_close(dev);
	assert_memory_equal(there, expected, UNIT);
	for (uint32_t n = 0; n < d.count; n++)
		free(after[n]);
	g4_wg_destroy(wg);
	free(expected);
	free(page);
	free(found);
	disks_free(&d);
}

/*
 * A copy goes to where rows lay that are lent. When the power fails before the switch those lie there still, free, and with contents that their
 * parity was not made of: so the map says nothing of them from before the first write on.
 */
static void what_is_lent_is_not_believed(void **state)
{
	static struct disks_order requests;
	struct g4_wg *wg = g4_wg_create(0);
	uint8_t *before[MOST_DISKS];
	uint64_t ballast, copied, random = 5;
	struct disks d, crashed;
	struct faulty f;
	bool ready;

	(void)state;
	format(&d, &shapes[2], &ballast);
	keep_disks(&d, before);
	disks_open_faulty(&d, &f);
	memset(&requests, 0, sizeof(requests));
	disks_watch(&d, &f, &requests);
	struct g4_set *set = (struct g4_set *)f.set->host;
	const uint64_t lent = 64 * G4_MIB, from = g4_dev_props(f.set)->size_bytes - lent;
	assert_int_equal(g4_set_lend(wg, set, from, lent, &ready), 0);
	assert_int_equal(g4_set_lend(wg, set, 0, 0, &ready), 0);
	assert_true(ready);
	assert_true(is_made(set, from + lent / 2));
	assert_true(next(set).bytes >= UNIT);
	/* nothing else has room: it is a place of what is lent */
	bool is_lent = false;
	for (uint32_t n = 0; n < set->map.count; n++)
		for (uint32_t k = 0; k < g4_table_places(&set->chunks[n]); k++)
			is_lent = is_lent ||
				  (g4_place_disk(set->chunks[n].places[k]) == g4_place_disk(set->next.to) &&
				   set->chunks[n].parity &&
				   g4_place_address(set->next.to) >= g4_place_address(set->chunks[n].places[k]) &&
				   g4_place_address(set->next.to) <
					   g4_place_address(set->chunks[n].places[k]) + set->chunks[n].place_bytes);
	assert_true(is_lent);
	assert_int_equal(moved(wg, set, false, G4_PAGE_BYTES, &copied), UNIT);
	const uint32_t count = requests.count;
	disks_make(&crashed, d.count, d.bytes);
	for (uint32_t at = 0; at <= count; at += (uint32_t)rig_every(3)) {
		struct g4_dev *dev;
		disks_crash(&crashed, before, &f, &requests, at, &random);
		if (disks_try_open(&crashed, all_of(&d), false, G4_DEV_READ_ONLY, &dev) < 0)
			fail_msg("after %u requests: %s", at, crashed.message);
		if (g4_set_parity_check(wg, (struct g4_set *)dev->host, from, lent) != 0)
			fail_msg("after %u of %u requests parity of what is lent is believed, and wrong", at, count);
		g4_dev_close(dev);
	}
	disks_free(&crashed);
	g4_dev_close(f.set);
	for (uint32_t n = 0; n < d.count; n++)
		free(before[n]);
	g4_wg_destroy(wg);
	disks_free(&d);
}

/* Copies of a set that has a log, and rows of another level, move as those of any other: rows stay, and nothing is laid where the log is. */
static void copies_move_beside_rows(void **state)
{
	uint8_t *data = rig_memory(G4_MIB, 5);
	struct g4_chunk chunk, rows = {.bytes = 0};
	uint64_t ballast, in_rows, done = 0;
	struct world w;

	(void)state;
	begin_sized(&w, G4_CHECKSUM_CRC32C, 16 * G4_MIB, 48 * G4_MIB);
	assert_int_equal(op_mknod(&w.d.rig, G4_NODE_ROOT, "ballast", G4_S_IFREG | 0644, &ballast), 0);
	assert_int_equal(op_mknod(&w.d.rig, w.dir, "rows", G4_S_IFREG | 0644, &in_rows), 0);
	for (uint64_t at = 0; at < 24 * G4_MIB; at += G4_MIB)
		assert_int_equal(op_write(&w.d.rig, ballast, 0, at, data, G4_MIB, &done), 0);
	for (uint64_t at = 0; at < 8 * G4_MIB; at += G4_MIB)
		assert_int_equal(op_write(&w.d.rig, in_rows, 0, at, data, G4_MIB, &done), 0);
	disks_unmount_fs(&w.d, w.set, true);
	add_next(&w.d, true);
	mount_world(&w);
	for (uint32_t n = 0; g4_set_chunk(w.set, n, &chunk); n++)
		rows = chunk.parity ? chunk : rows;
	assert_true(rows.bytes > 0);
	start(&w.d, 0);
	for (uint32_t k = 0; job(&w.d).state == G4_JOB_RUNNING; k++) {
		if (k < MOST_SYNCED)
			assert_int_equal(disks_put(&w.d, k % 10, 1), 0);
		assert_int_equal(op_write(&w.d.rig, in_rows, 0, k % 8 * G4_MIB, data, 3 * G4_PAGE_BYTES, &done), 0);
		step(&w.d); /* which is to find rows that are held */
	}
	assert_int_equal(job(&w.d).state, G4_JOB_DONE);
	assert_true(job(&w.d).bytes >= 4 * G4_MIB);
	uint32_t there = 0;
	for (uint32_t n = 0; g4_set_chunk(w.set, n, &chunk); n++) {
		there += memcmp(&chunk, &rows, sizeof(rows)) == 0;
		for (uint32_t k = 0; k < g4_table_places(&chunk); k++)
			assert_true(g4_place_address(chunk.places[k]) >=
				    G4_CHUNK_UNIT + ((struct g4_set *)w.set->host)->parity->area * G4_PAGE_BYTES);
	}
	assert_int_equal(there, 1);
	assert_int_equal(disks_scrub(&w.d), 0);
	disks_unmount_fs(&w.d, w.set, true);
	for (uint32_t lost = 0; lost < w.d.count; lost++) {
		disks_expect_clean(&w.d, all(&w) & ~(1u << lost));
		struct g4_dev *dev;
		assert_int_equal(disks_try_open(&w.d, all(&w) & ~(1u << lost), true, G4_DEV_READ_ONLY, &dev), 0);
		disks_begin_fs(&w.d, dev, G4_FS_READ_ONLY);
		disks_expect_filled(&w.d, ballast, 24 * G4_MIB);
		disks_expect_filled(&w.d, in_rows, 8 * G4_MIB);
		disks_unmount_fs(&w.d, dev, false);
	}
	free(data);
	free_world(&w);
}

/* ---- interruptions ---- */

static void it_goes_on_after_a_pause_and_an_unmount(void **state)
{
	struct g4_cmd set = {.op = G4_CMD_JOB_SET, .mask = G4_JOB_PAUSE};
	struct model m;
	struct disks d;
	struct g4_dev *dev;
	uint64_t ballast;

	(void)state;
	format(&d, &shapes[0], &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	begin_model(&m, &d);
	start(&d, 0);
	assert_int_equal(order(&d, G4_DISK_REBALANCE, ""), -G4_E_BUSY);
	step(&d);
	step(&d);
	set.number = job(&d).number;
	assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &set), 0);
	const struct g4_job_record paused = job(&d);
	assert_int_equal(paused.state, G4_JOB_PAUSED);
	assert_true(paused.done > 0 && paused.done < paused.units);
	step(&d);
	assert_int_equal(job(&d).done, paused.done);
	disks_unmount_fs(&d, dev, true);
	disks_mount_fs(&d, all_of(&d), &dev);
	assert_int_equal(job(&d).state, G4_JOB_PAUSED);
	assert_int_equal(job(&d).done, paused.done);
	set.mask = G4_JOB_RESUME;
	assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &set), 0);
	for (uint32_t k = 0; k < 20; k++)
		use(&m, &d);
	step(&d);
	disks_unmount_fs(&d, dev, true);
	disks_mount_fs(&d, all_of(&d), &dev);
	/* a cancel leaves what was moved where it is, and given again it goes on there */
	set.mask = G4_JOB_CANCEL;
	assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &set), 0);
	assert_int_equal(job(&d).state, G4_JOB_CANCELLED);
	start(&d, 0);
	while (job(&d).state == G4_JOB_RUNNING)
		step(&d);
	assert_int_equal(job(&d).state, G4_JOB_DONE);
	disks_unmount_fs(&d, dev, true);
	assert_true(unevenness_of(&d) <= EVEN_BYTES);
	expect_everywhere(&d, &shapes[0], &m, ballast);
	end_model(&m);
	disks_free(&d);
}

/* Files are put, durably, between the steps of the order; the power fails after any request. */
static void the_power_fails_at_any_request(void **state)
{
	static struct disks_order requests;
	uint32_t states = 0, again = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		uint64_t ballast, random = 1 + s;
		const uint32_t every = (uint32_t)rig_setting("G4_CRASH_EVERY", (s ? 97 : 31) * rig_every(3));
		const bool any = rig_setting("G4_CRASH_ALL", 0) != 0;
		if (!takes(0, s) || !(rig_setting("G4_CRASH_SHAPES", UINT32_MAX) >> s & 1))
			continue;
		struct synced synced = {0};
		struct disks d, crashed;
		uint8_t *before[MOST_DISKS];
		struct faulty f;
		format(&d, &shapes[s], &ballast);
		keep_disks(&d, before);
		memset(&requests, 0, sizeof(requests));
		mount_faulty(&d, &f, &requests);
		start(&d, 0);
		while (job(&d).state == G4_JOB_RUNNING && synced.count < MOST_SYNCED) {
			assert_int_equal(disks_put(&d, synced.count, 1), 0);
			synced.at[synced.count++] = requests.count;
			step(&d);
		}
		assert_int_equal(job(&d).state, G4_JOB_DONE);
		assert_true(job(&d).bytes > 0);
		print_message("shape %u: %u requests, %u files\n", s, requests.count, synced.count);
		disks_make(&crashed, d.count, d.bytes);
		const uint32_t sets = lost_sets(&d, &shapes[s]);
		for (uint32_t at = s % every, turn = 0; at <= requests.count; at += every, turn++)
			for (uint32_t k = 0; k < (any ? sets : 2); k++, states++) {
				/* without none, and without one of the sets by turns; or without each */
				const uint32_t lost = lost_of(&d, &shapes[s], any ? k : k ? 1 + turn % (sets - 1) : 0);
				uint32_t files = 0;
				while (files < synced.count && synced.at[files] <= at)
					files++;
				disks_crash(&crashed, before, &f, &requests, at, &random);
				if (disks_try_mount(&crashed, all_of(&d) & ~lost, lost != 0) < 0)
					fail_msg("shape %u, after %u requests without %x: %s", s, at, lost,
						 crashed.message);
				disks_expect_files(&crashed, files, 1);
				disks_expect_filled(&crashed, ballast, shapes[s].ballast);
				assert_int_equal(disks_put(&crashed, MOST_SYNCED, 1), 0); /* and it is written to */
				/* also all that is free, of which some lay elsewhere in the table that did not come to count */
				uint64_t small = 0;
				const uint64_t bytes = turn % 8 == 0 ? fill_in_small_pieces(&crashed, &small) : 0;
				disks_unmount(&crashed);
				disks_expect_clean(&crashed, all_of(&d) & ~lost);
				const uint32_t later =
					all_of(&d) & ~(lost ? lost : lost_of(&d, &shapes[s], 1 + at % (sets - 1)));
				disks_mount(&crashed, later); /* any may be lost afterwards, too */
				disks_expect_files(&crashed, files, 1);
				disks_expect_filled(&crashed, ballast, shapes[s].ballast);
				expect_small_pieces(&crashed, small, bytes);
				disks_unmount(&crashed);
			}
		for (uint32_t at = s % every; at <= requests.count; at += 13 * every) {
			uint32_t files = 0;
			while (files < synced.count && synced.at[files] <= at)
				files++;
			/* it goes on, or is given again where no record of it was durable */
			struct g4_dev *dev;
			disks_crash(&crashed, before, &f, &requests, at, &random);
			disks_mount_fs(&crashed, all_of(&d), &dev);
			if (job(&crashed).state != G4_JOB_RUNNING)
				start(&crashed, 0);
			while (job(&crashed).state == G4_JOB_RUNNING)
				step(&crashed);
			assert_int_equal(job(&crashed).state, G4_JOB_DONE);
			again += job(&crashed).done > 0;
			assert_int_equal(disks_scrub(&crashed), 0); /* rows fit together */
			disks_unmount_fs(&crashed, dev, true);
			disks_expect_clean(&crashed, all_of(&d));
			disks_mount(&crashed, all_of(&d) & ~lost_of(&d, &shapes[s], 1 + at % (sets - 1)));
			disks_expect_files(&crashed, files, 1);
			disks_expect_filled(&crashed, ballast, shapes[s].ballast);
			disks_unmount(&crashed);
		}
		disks_free(&crashed);
		disks_unmount_fs(&d, f.set, true);
		for (uint32_t n = 0; n < d.count; n++)
			free(before[n]);
		disks_free(&d);
	}
	print_message("%u states, after %u it moved something more\n", states, again);
	assert_true(again > 0);
}

/* As test_rebalance.c has it of copies: what follows a switch that the power has torn is there with any disks lost after that. */
static void what_follows_a_torn_switch_is_on_all_disks(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
	static struct disks_order requests;
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t ballast, copied, random = 7;
	uint8_t *before[MOST_DISKS], *after[MOST_DISKS];
	struct disks d, crashed;
	struct g4_dev *dev;
	uint32_t torn = 0;
	struct faulty f;

	(void)state;
	format(&d, &shapes[0], &ballast);
	/* up to a piece that leaves another disk than the one that is told first: that one has it before and after */
	dev = open_all(&d);
	struct g4_set *set = (struct g4_set *)dev->host;
	struct piece p = next(set);
	for (; g4_place_disk(set->chunks[set->next.chunk].places[set->next.number]) == 0; p = next(set))
		assert_true(moved(wg, set, false, p.bytes, &copied) > 0);
	g4_dev_close(dev);
	keep_disks(&d, before);
	disks_open_faulty(&d, &f);
	disks_watch(&d, &f, &requests);
	p = next((struct g4_set *)f.set->host);
	assert_int_equal(moved(wg, (struct g4_set *)f.set->host, false, G4_PAGE_BYTES, &copied), UNIT);
	disks_make(&crashed, d.count, d.bytes);
	for (uint32_t at = 0; at <= requests.count; at++) {
		disks_crash(&crashed, before, &f, &requests, at, &random);
		dev = open_all(&crashed);
		const bool uneven = ((struct g4_set *)dev->host)->uneven;
		torn += uneven;
		if (!uneven && at % 8 != 0) { /* the same in each of them */
			g4_dev_close(dev);
			continue;
		}
		assert_int_equal(g4_dev_write(wg, dev, p.address, page, G4_PAGE_BYTES, G4_IO_FUA), 0);
		keep_disks(&crashed, after); /* the power fails again */
		g4_dev_close(dev);
		for (uint32_t lost = 0; lost < d.count; lost++) {
			restore_disks(&crashed, after);
			if (disks_try_open(&crashed, all_of(&d) & ~(1u << lost), true, 0, &dev) < 0)
				fail_msg("after %u requests without %u: %s", at, lost, crashed.message);
			assert_int_equal(g4_dev_read(wg, dev, p.address, found, G4_PAGE_BYTES), 0);
			if (memcmp(found, page, G4_PAGE_BYTES) != 0)
				fail_msg("after %u requests disk %u was lost, and what was written with it", at, lost);
			g4_dev_close(dev);
		}
		for (uint32_t n = 0; n < d.count; n++)
			free(after[n]);
	}
	assert_true(torn > 0);
	disks_free(&crashed);
	g4_dev_close(f.set);
	for (uint32_t n = 0; n < d.count; n++)
		free(before[n]);
	g4_wg_destroy(wg);
	free(page);
	free(found);
	disks_free(&d);
}

/* As many disks as there are parities fail for good, each after so many of its writes; users do not notice, and all is there. */
static void disks_fail_meanwhile(void **state)
{
	uint32_t failed = 0, done = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		uint8_t *before[MOST_DISKS];
		uint64_t ballast;
		struct disks d;
		if (!takes(1, s) || !(rig_setting("G4_CRASH_SHAPES", UINT32_MAX) >> s & 1))
			continue;
		format(&d, &shapes[s], &ballast);
		keep_disks(&d, before);
		for (uint32_t which = 0; which < d.count; which++)
			for (uint32_t at = 1 + which, over = 0; !over;
			     at += (uint32_t)rig_setting("G4_FAULT_EVERY", 41 * rig_every(3))) {
				uint32_t files = 0;
				struct faulty f;
				restore_disks(&d, before);
				mount_faulty(&d, &f, NULL);
				for (uint32_t k = 0; k < shapes[s].parity; k++) {
					struct g4_fault fault = {.cut_after_writes = at + 17 * k,
								 .write_through = true};
					g4_dev_fault_set(f.fault[(which + 2 * k) % d.count], &fault);
				}
				int rc = order(&d, G4_DISK_REBALANCE, "");
				while (rc == 0 && job(&d).state == G4_JOB_RUNNING && files < MOST_SYNCED) {
					rc = disks_put(&d, files, 1);
					files += rc == 0;
					step(&d);
				}
				for (uint32_t k = 0; rc == 0 && k < 3; k++) {
					rc = disks_put(&d, files, 1);
					files += rc == 0;
				}
				if (rc < 0)
					fail_msg("shape %u, disk %u, %u writes: %s", s, which, at, g4_strerror(rc));
				over = job(&d).state == G4_JOB_DONE;
				if (over)
					done++;
				else
					failed++;
				disks_expect_files(&d, files, 1);
				disks_unmount_fs(&d, f.set, true);
				if (!mount_most(&d, all_of(&d)))
					fail_msg("shape %u, disk %u, %u writes: %s", s, which, at, d.message);
				disks_expect_files(&d, files, 1);
				disks_expect_filled(&d, ballast, shapes[s].ballast);
				disks_unmount(&d);
			}
		for (uint32_t n = 0; n < d.count; n++)
			free(before[n]);
		disks_free(&d);
	}
	print_message("%u times it ended, %u times it was done\n", failed, done);
	assert_true(failed > 0 && done > 0);
}

static void what_can_not_be_done_is_told(void **state)
{
	struct g4_dev *dev;
	uint64_t ballast;
	struct disks d;

	(void)state;
	format(&d, &shapes[0], &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	begin(&d, G4_DISK_OFFLINE, 0);
	assert_int_equal(order(&d, G4_DISK_REBALANCE, ""), -G4_E_BUSY);
	assert_non_null(strstr(d.message, "disk 0 is missing"));
	begin(&d, G4_DISK_REBUILD, 0);
	assert_int_equal(order(&d, G4_DISK_REBALANCE, ""), -G4_E_BUSY);
	assert_non_null(strstr(d.message, "is being rebuilt"));
	finish(&d);
	/* what begins meanwhile ends it, and nothing is lost */
	start(&d, 0);
	step(&d);
	begin(&d, G4_DISK_OFFLINE, 1);
	while (job(&d).state == G4_JOB_RUNNING)
		step(&d);
	assert_int_equal(job(&d).state, G4_JOB_FAILED);
	assert_int_equal(job(&d).code, G4_E_BUSY);
	disks_expect_filled(&d, ballast, shapes[0].ballast);
	/* and a disk is rebuilt of rows that lie here and there */
	begin(&d, G4_DISK_REBUILD, 1);
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	for (uint32_t lost = 0; lost < d.count; lost++) {
		disks_expect_clean(&d, all_of(&d) & ~(1u << lost));
		struct g4_dev *without;
		assert_int_equal(disks_try_open(&d, all_of(&d) & ~(1u << lost), true, G4_DEV_READ_ONLY, &without), 0);
		g4_dev_close(without);
	}
	disks_mount(&d, all_of(&d) & ~1u);
	disks_expect_filled(&d, ballast, shapes[0].ballast);
	disks_unmount(&d);
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_write_while_rows_get_their_share),
		cmocka_unit_test(rows_get_their_share_while_nobody_uses_them),
		cmocka_unit_test(the_power_fails_while_nobody_uses_them),
		cmocka_unit_test(threads_write_while_rows_get_their_share),
		cmocka_unit_test(rows_lie_where_they_lay_when_they_are_cut),
		cmocka_unit_test(rows_move_under_requests),
		cmocka_unit_test(the_log_has_nothing_of_what_moved),
		cmocka_unit_test(what_is_lent_is_not_believed),
		cmocka_unit_test(copies_move_beside_rows),
		cmocka_unit_test(it_goes_on_after_a_pause_and_an_unmount),
		cmocka_unit_test(the_power_fails_at_any_request),
		cmocka_unit_test(what_follows_a_torn_switch_is_on_all_disks),
		cmocka_unit_test(disks_fail_meanwhile),
		cmocka_unit_test(what_can_not_be_done_is_told),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
