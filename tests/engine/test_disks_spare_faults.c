/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot spares where more goes wrong than one disk: several disks fail at once, spares are gone or die under a rebuild that stands still,
 * disks come back from an earlier life, superblocks lie, others write superblocks meanwhile.
 */
#include "sparing.h"

#include <pthread.h>

#include "dev/dev_ops_host.h"
#include "fs/fs.h"
#include "simt/simt_host.h"
#include "space/sealed.h"
#include "space/set_types_host.h"

static struct g4_set *set_of(struct g4_dev *dev)
{
	return (struct g4_set *)dev->host;
}

/* The superblock of a disk, to be changed: either copy. */
static struct g4_superblock *label_of(struct disks *d, uint32_t disk, bool second)
{
	const struct g4_superblock *first =
		(const struct g4_superblock *)(const void *)(d->memory[disk] + G4_SUPERBLOCK_ADDRESS);
	const uint64_t at = second ? first->size_bytes - G4_PAGE_BYTES : G4_SUPERBLOCK_ADDRESS;

	return (struct g4_superblock *)(void *)(d->memory[disk] + at);
}

static void seal_label(struct g4_superblock *sb)
{
	g4_block_seal(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(sb->header.address), sb->header.generation,
		      g4_superblock_tag(sb));
}

/* ---- several disks at once ---- */

static void two_disks_fail_at_once(void **state)
{
	static const struct level bear_two[] = {{3, 3, 0}, {4, 3, 0}, {4, 0, 2}, {5, 0, 3}};

	(void)state;
	for (uint32_t l = 0; l < sizeof(bear_two) / sizeof(bear_two[0]); l++)
		for (uint32_t spares = 1; spares <= 2; spares++) {
			const struct level *level = &bear_two[l];
			const uint32_t last = level->disks - 1;
			struct g4_dev *dev;
			struct faulty f;
			struct disks d;
			format(&d, level, spares);
			mount_faulty(&d, &f, NULL);
			g4_dev_fault_set(f.fault[0], &(struct g4_fault){.fail_write_at = 1});
			fail_disk(&d, &f, last);
			while (state_of(f.set, 0) != G4_DISK_DROPPED)
				assert_int_equal(disks_put(&d, FILES, 1), 0);
			look(&d);
			assert_int_equal(state_of(f.set, 0), G4_DISK_REBUILDING);
			assert_int_equal(state_of(f.set, last), G4_DISK_DROPPED);
			for (uint32_t n = 0; n < FILES; n++)
				assert_int_equal(disks_put(&d, n, 2), 0);
			finish(&d);
			look(&d);
			assert_int_equal(state_of(f.set, last), spares == 2 ? G4_DISK_REBUILDING : G4_DISK_DROPPED);
			if (spares == 2)
				finish(&d);
			assert_int_equal(spares_of(f.set), 0);
			disks_unmount_fs(&d, f.set, true);
			const uint32_t there = all_of(&d) & ~(1u | 1u << last);
			disks_expect_clean(&d, there);
			assert_int_equal(disks_try_open(&d, there, spares == 1, 0, &dev), 0);
			disks_begin_fs(&d, dev, 0);
			disks_expect_files(&d, FILES, 2);
			disks_unmount_fs(&d, dev, true);
			/* neither of the two is one of them as it is */
			assert_true(disks_try_open(&d, there | 1u, true, 0, &dev) < 0);
			assert_true(disks_try_open(&d, there | 1u << last, true, 0, &dev) < 0);
			disks_free(&d);
		}
}

/* ---- spares ---- */

/* One that waits hears of those that took the place of others, so that it is one of the set after all that it knew are gone. */
static void one_that_waits_knows_the_disks_of_now(void **state)
{
	const struct level level = {2, 2, 0};
	struct g4_dev *dev;
	struct faulty f;
	struct disks d;

	(void)state;
	format(&d, &level, 3);
	mount_faulty(&d, &f, NULL);
	for (uint32_t disk = 0; disk < 2; disk++) {
		fail_disk(&d, &f, disk);
		look(&d);
		finish(&d);
	}
	assert_int_equal(spares_of(f.set), 1);
	disks_unmount_fs(&d, f.set, true);
	if (disks_try_open(&d, 4u | 8u | 16u, false, 0, &dev) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(spares_of(dev), 1);
	g4_dev_close(dev);
	/* and with the disk alone that came last */
	if (disks_try_open(&d, 8u | 16u, true, 0, &dev) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(spares_of(dev), 1);
	g4_dev_close(dev);
	expect_everywhere(&d, &level, 4u | 8u, 1);
	disks_free(&d);
}

/* A spare that is gone keeps nobody from the disks; what may be one of these does. */
static void a_spare_that_can_not_be_opened_costs_nothing(void **state)
{
	const struct level level = {2, 2, 0};
	const struct g4_set_options options = {.degraded = false};
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &level, 1);
	const char *names[4] = {"/nowhere/spare", d.names[0], d.names[1], d.names[2]};
	if (g4_set_open(names, 3, &options, &dev, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(spares_of(dev), 0);
	g4_dev_close(dev);
	if (g4_set_open(names, 4, &options, &dev, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(spares_of(dev), 1);
	g4_dev_close(dev);
	for (uint32_t degraded = 0; degraded < 2; degraded++) {
		const struct g4_set_options asked = {.degraded = degraded == 1};
		const char *less[3] = {"/nowhere/disk", d.names[0], d.names[2]};
		assert_int_equal(g4_set_open(less, 3, &asked, &dev, d.message, sizeof(d.message)), -G4_E_NOENT);
		assert_non_null(strstr(d.message, "/nowhere/disk"));
	}
	assert_int_equal(g4_set_open(names, 1, &options, &dev, d.message, sizeof(d.message)), -G4_E_NOENT);
	disks_free(&d);
}

/* A rebuild that stands still, whose disk dies: the next spare does not wait for an order to the job of one that is gone. */
static void one_that_dies_under_a_paused_rebuild_is_followed_by_the_next(void **state)
{
	const struct level level = {2, 2, 0};
	struct faulty f;
	struct disks d;

	(void)state;
	format(&d, &level, 2);
	mount_faulty(&d, &f, NULL);
	fail_disk(&d, &f, 1);
	look(&d);
	tell(&d, G4_JOB_PAUSE);
	look(&d); /* nobody takes the place of one that is there */
	assert_int_equal(spares_of(f.set), 1);
	assert_int_equal(job_of(&d).state, G4_JOB_PAUSED);
	g4_dev_fault_set(f.fault[2], &(struct g4_fault){.fail_write_at = 1});
	for (uint32_t k = 1; state_of(f.set, 1) != G4_DISK_DROPPED; k++)
		assert_int_equal(disks_put(&d, FILES, k), 0);
	look(&d);
	assert_int_equal(state_of(f.set, 1), G4_DISK_REBUILDING);
	assert_int_equal(spares_of(f.set), 0);
	assert_int_equal(job_of(&d).state, G4_JOB_RUNNING);
	finish(&d);
	disks_unmount_fs(&d, f.set, true);
	expect_everywhere(&d, &level, 1u | 8u, 1);
	disks_free(&d);
}

/* Somebody counts as a user of a disk that is missing, and is about to find that: the spare is neither refused nor lost. */
static void a_look_at_a_missing_disk_does_not_cost_the_spare(void **state)
{
	const struct level level = {2, 2, 0};
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &level, 1);
	disks_mount_fs(&d, 5, &dev);
	g4_add32(&set_of(dev)->disks[1].users, 1);
	look(&d);
	g4_sub32(&set_of(dev)->disks[1].users, 1);
	assert_int_equal(state_of(dev, 1), G4_DISK_REBUILDING);
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	expect_everywhere(&d, &level, 5, 1);
	disks_free(&d);
}

/* A disk that fails again is told of again. */
static void that_no_spare_will_do_is_told_each_time(void **state)
{
	const uint64_t unequal[MOST_DISKS] = {16 * G4_MIB, 10 * G4_MIB, 12 * G4_MIB};
	const struct level level = {2, 2, 0};
	struct faulty f;
	struct disks d;

	(void)state;
	format_sizes(&d, &level, 1, unequal);
	mount_faulty(&d, &f, NULL);
	fail_disk(&d, &f, 0);
	for (uint32_t n = 0; n < 3; n++) {
		assert_int_equal(looks_that_tell(&d, 1, "no spare takes its place"), 1);
		assert_int_equal(looks_that_tell(&d, 1, "no spare takes its place"), 0);
		begin(&d, G4_DISK_REBUILD, 0);
		finish(&d);
		set_of(f.set)->disks[0].state = G4_DISK_DROPPED; /* as one that fails */
	}
	begin(&d, G4_DISK_REBUILD, 0);
	finish(&d);
	begin(&d, G4_DISK_OFFLINE, 0);
	assert_int_equal(looks_that_tell(&d, 1, "no spare takes its place"), 0); /* which an order did */
	disks_unmount_fs(&d, f.set, true);
	expect_everywhere(&d, &level, 2, 1);
	disks_free(&d);
}

/* One that came later and can not discard is not asked to, and keeps what it has; the others are. */
static void one_that_can_not_discard_is_not_asked_to(void **state)
{
	const struct level level = {2, 2, 0};
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &level, 1);
	disks_mount_fs(&d, 5, &dev);
	look(&d);
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	assert_int_equal(disks_try_open(&d, 5, false, 0, &dev), 0);
	const uint64_t address = g4_dev_props(dev)->size_bytes - 2 * G4_CHUNK_UNIT;
	uint8_t *page = rig_memory(G4_CHUNK_UNIT, 9);
	struct g4_piece piece;
	assert_true(g4_dev_props(dev)->discard);
	assert_int_equal(g4_dev_write(wg, dev, address, page, G4_CHUNK_UNIT, 0), 0);
	g4_chunk_translate(&set_of(dev)->map, address, G4_CHUNK_UNIT, &piece);
	set_of(dev)->disks[1].dev->props.discard = false;
	struct g4_io io = {.op = G4_IO_DISCARD, .offset_bytes = address, .discard_bytes = G4_CHUNK_UNIT};
	g4_dev_submit(wg, dev, &io);
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	for (uint32_t c = 0; c < 2; c++) {
		const uint8_t *memory = d.memory[piece.disks[c] == 1 ? 2 : 0] + piece.offsets[c];
		assert_int_equal(memcmp(memory, page, G4_CHUNK_UNIT) == 0, piece.disks[c] == 1);
	}
	free(page);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	disks_free(&d);
}

/* Where nothing can be written to a spare any more, the order that it goes is carried out as far as can be, and says so. */
static void one_that_is_dead_can_be_withdrawn(void **state)
{
	const struct level level = {2, 2, 0};
	struct faulty f;
	struct disks d;

	(void)state;
	format(&d, &level, 2);
	mount_faulty(&d, &f, NULL);
	g4_dev_fault_set(f.fault[2], &(struct g4_fault){.fail_write_at = 1});
	assert_int_equal(order(&d, G4_DISK_REMOVE_SPARE, d.names[2]), -G4_E_IO);
	assert_non_null(strstr(d.message, "is let go"));
	assert_int_equal(spares_of(f.set), 1);
	fail_disk(&d, &f, 1);
	look(&d);
	finish(&d);
	disks_unmount_fs(&d, f.set, true);
	expect_everywhere(&d, &level, 1u | 8u, 1);
	disks_free(&d);
}

/* A version that does not know the bit of an order has rebuilt the disk, or does so still: it is a disk as the others then. */
static void an_order_of_an_earlier_life_keeps_no_spare_away(void **state)
{
	const struct level level = {2, 2, 0};
	struct faulty f;
	struct disks d;

	(void)state;
	format(&d, &level, 2);
	mount_faulty(&d, &f, NULL);
	begin(&d, G4_DISK_OFFLINE, 1);
	assert_int_equal(order(&d, G4_DISK_REPLACE, d.names[2]), 0);
	set_of(f.set)->super->disk_by_hand |= 2; /* as that version has it */
	finish(&d);
	assert_int_equal(state_of(f.set, 1), G4_DISK_ACTIVE);
	for (uint32_t k = 0; state_of(f.set, 1) != G4_DISK_DROPPED; k++) {
		g4_dev_fault_set(f.fault[2], &(struct g4_fault){.fail_write_at = 1});
		assert_int_equal(disks_put(&d, FILES, k), 0);
	}
	look(&d);
	assert_int_equal(state_of(f.set, 1), G4_DISK_REBUILDING);
	finish(&d);
	disks_unmount_fs(&d, f.set, true);
	expect_everywhere(&d, &level, 1u | 8u, 1);
	disks_free(&d);
}

/*
 * The power fails at any request of an order that takes a disk out, or ends its rebuild: what says that it misses something says as well
 * that an order did it, and no spare takes its place by itself; from the order's end on that is so.
 */
static void the_power_fails_while_an_order_takes_one_out(void **state)
{
	static struct disks_order requests;
	const struct level level = {3, 3, 0};

	(void)state;
	for (uint32_t cancels = 0; cancels < 2; cancels++) {
		/* the disk that goes is 1, or the spare that was in its place; the last one waits */
		const uint32_t there = cancels ? 1u | 4u | 16u : 1u | 4u | 8u | 16u;
		uint32_t taken = 0, left_alone = 0;
		uint8_t *before[MOST_DISKS];
		struct disks d, crashed;
		uint64_t random = 3;
		struct faulty f;
		format(&d, &level, 2);
		for (uint32_t n = 0; n < d.count; n++) {
			before[n] = (uint8_t *)malloc(d.bytes[n]);
			rig_copy(before[n], d.memory[n], d.bytes[n]);
		}
		memset(&requests, 0, sizeof(requests));
		mount_faulty(&d, &f, &requests);
		for (uint32_t n = 0; n < d.count; n++)
			g4_dev_fault_share(f.fault[n]); /* what was asked of them is wanted later */
		if (cancels) {
			fail_disk(&d, &f, 1);
			look(&d);
			assert_int_equal(state_of(f.set, 1), G4_DISK_REBUILDING);
		}
		const uint32_t begun = requests.count;
		if (cancels)
			tell(&d, G4_JOB_CANCEL);
		else
			begin(&d, G4_DISK_OFFLINE, 1);
		const uint32_t ended = requests.count;
		disks_unmount_fs(&d, f.set, true);
		disks_make(&crashed, d.count, d.bytes);
		for (uint32_t at = begun; at <= ended; at++) {
			struct g4_disk_info info;
			struct g4_dev *dev;
			disks_crash(&crashed, before, &f, &requests, at, &random);
			if (disks_try_open(&crashed, there, false, G4_DEV_READ_ONLY, &dev) < 0)
				fail_msg("after %u requests: %s", at, crashed.message);
			assert_true(g4_set_disk(dev, 1, &info)); /* before a mount says that it is missing */
			g4_dev_close(dev);
			disks_mount_fs(&crashed, there, &dev);
			const uint32_t spares = spares_of(dev);
			look(&crashed);
			if (info.by_hand) {
				assert_int_equal(state_of(dev, 1), G4_DISK_MISSING);
				assert_int_equal(spares_of(dev), spares);
			} else {
				assert_true(at < ended);
				assert_true(cancels || info.since == 0);
				assert_int_equal(state_of(dev, 1), G4_DISK_REBUILDING);
			}
			left_alone += info.by_hand;
			taken += !info.by_hand;
			disks_expect_files(&crashed, FILES, 1);
			disks_unmount_fs(&crashed, dev, true);
		}
		assert_true(taken > 0 && left_alone > 0);
		disks_free(&crashed);
		for (uint32_t n = 0; n < d.count; n++) {
			g4_dev_close(f.fault[n]);
			free(before[n]);
		}
		disks_free(&d);
	}
}

/* ---- who comes back ---- */

static void write_file(struct disks *d, uint32_t which, uint32_t number, uint32_t version)
{
	disks_mount(d, which);
	assert_int_equal(disks_put(d, number, version), 0);
	disks_unmount(d);
}

/* It was written with all of them, who are gone, and by nobody since: it is stale as any that was away. */
static void one_that_was_away_while_all_others_were_replaced_is_stale(void **state)
{
	(void)state;
	for (uint32_t copies = 3; copies <= 4; copies++) {
		const uint32_t away = copies - 1, all = (1u << copies) - 1;
		uint32_t now = all & ~(1u << away);
		const struct level level = {copies, copies, 0};
		struct g4_dev *dev;
		struct disks d;
		disks_make(&d, 8, NULL);
		d.count = copies;
		disks_format_copies(&d, G4_RAID_1, copies, G4_CHECKSUM_NONE);
		d.count = 8;
		for (uint32_t n = 0; n < FILES; n++)
			write_file(&d, all, n, 1);
		write_file(&d, now, 0, 2);
		for (uint32_t n = 0; n < away; n++) {
			now &= ~(1u << n);
			replace_with(&d, now, copies + n);
			now |= 1u << (copies + n);
		}
		for (uint32_t n = 0; n < FILES; n++)
			write_file(&d, now, n, 3);
		assert_int_equal(disks_try_open(&d, now | 1u << away, true, 0, &dev), -G4_E_SB_DISKS);
		if (!strstr(d.message, "is stale"))
			fail_msg("%s", d.message);
		disks_mount_fs(&d, now, &dev);
		begin(&d, G4_DISK_REBUILD, away);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &level, now | 1u << away, 3);
		disks_free(&d);
	}
}

/* It has replaced all that it was written without, and calls nobody stale any more; but the speaker goes back to one of those. */
static void one_that_replaced_all_others_itself_was_written_apart(void **state)
{
	static const struct {
		uint32_t which, by;
	} steps[] = {{2u, 3}, {2u | 8u, 4}};
	uint32_t disk, told = 0;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 5, NULL);
	d.count = 3;
	disks_format_copies(&d, G4_RAID_1, 3, G4_CHECKSUM_NONE);
	d.count = 5;
	write_file(&d, 7u, 1, 1);
	write_file(&d, 2u, 1, 2);
	for (uint32_t n = 0; n < 2; n++)
		replace_with(&d, steps[n].which, steps[n].by);
	write_file(&d, 1u | 4u, 1, 3);
	/* of whichever half the generation is higher */
	for (uint32_t turns = 0; turns < 6; turns++) {
		const char *names[2] = {d.names[0], d.names[2]}, *joined[3] = {d.names[0], d.names[2], d.names[1]};
		for (uint32_t which = 3; which <= 7; which += 4) {
			assert_int_equal(disks_try_open(&d, which, true, 0, &dev), -G4_E_SB_DISKS);
			/* as long as disk 1 speaks it knows the others by what they were */
			if (!strstr(d.message, "written without the other") && !strstr(d.message, "was replaced"))
				fail_msg("after %u: %s", turns, d.message);
			told += strstr(d.message, "written without the other") != NULL;
		}
		assert_int_equal(g4_rebuild_offline(joined, 3, true, NULL, &disk, d.message, sizeof(d.message)),
				 -G4_E_SB_DISKS);
		write_file(&d, 1u, 1, 3);
		if (g4_rebuild_offline(names, 2, true, NULL, &disk, d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
	}
	assert_in_range(told, 2, 11);
	for (uint32_t half = 0; half < 2; half++) {
		disks_mount(&d, half ? 2u | 8u | 16u : 1u | 4u);
		assert_int_equal(disks_has(&d, 1, half ? 2 : 3), 1);
		disks_unmount(&d);
	}
	disks_free(&d);
}

static uint64_t generation_of(struct disks *d, uint32_t disk)
{
	return g4_max64(label_of(d, disk, false)->set_generation, label_of(d, disk, true)->set_generation);
}

/*
 * A crash leaves a disk a generation behind another one that is as good; a second crash does not make that two. So a disk that calls
 * nobody stale has missed what the speaker's generations say, or is not behind.
 */
static void no_disk_that_is_used_is_two_generations_behind(void **state)
{
	static struct disks_order requests;
	const struct g4_set_options options = {.degraded = true};
	struct disks d, crashed;
	uint8_t *before[2], *old;
	uint64_t random = 5;
	struct faulty f;

	(void)state;
	disks_make(&d, 4, NULL);
	d.count = 3;
	disks_format_copies(&d, G4_RAID_1, 3, G4_CHECKSUM_NONE);
	old = (uint8_t *)malloc(DISK_BYTES);
	rig_copy(old, d.memory[1], DISK_BYTES);
	write_file(&d, 3u, 1, 1);
	rig_copy(d.memory[1], old,
		 DISK_BYTES); /* the disk that comes first has said what is missing, and the power fails */
	d.count = 2;
	assert_int_equal(generation_of(&d, 0), generation_of(&d, 1) + 1);
	for (uint32_t n = 0; n < 2; n++) {
		before[n] = (uint8_t *)malloc(DISK_BYTES);
		rig_copy(before[n], d.memory[n], DISK_BYTES);
	}
	disks_make(&crashed, 2, NULL);
	const char *names[2] = {d.names[0], d.names[1]};
	struct g4_wg *wg = g4_wg_create(1);
	struct g4_dev_order order = {
		.op = G4_ORDER_REPLACE, .name = d.names[3], .text = d.message, .text_bytes = sizeof(d.message)};
	for (uint32_t n = 0; n < 2; n++) {
		rig_copy(d.memory[n], before[n], DISK_BYTES);
		assert_int_equal(g4_dev_fault_open(disks_open_one(names[n]), &f.fault[n]), 0);
	}
	if (g4_set_assemble(f.fault, names, 2, &options, &f.set, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	memset(&requests, 0, sizeof(requests));
	disks_watch(&d, &f, &requests);
	if (g4_dev_order(wg, f.set, &order) < 0)
		fail_msg("%s", d.message);
	for (uint32_t at = 0; at <= requests.count; at++) {
		disks_crash(&crashed, before, &f, &requests, at, &random);
		assert_true(generation_of(&crashed, 0) <= generation_of(&crashed, 1) + 1);
	}
	assert_true(requests.count > 0);
	g4_dev_close(f.set);
	g4_wg_destroy(wg);
	for (uint32_t n = 0; n < 2; n++)
		free(before[n]);
	free(old);
	disks_free(&crashed);
	d.count = 4;
	disks_free(&d);
}

/* ---- superblocks that lie ---- */

/* From the highest generation there is no way on: the next would be 0, and what a disk misses be forgotten. */
static void a_generation_that_has_no_next_is_refused(void **state)
{
	static const uint64_t wrong[] = {0, UINT64_MAX, UINT64_C(1) << 63};
	const struct level level = {2, 2, 0};

	(void)state;
	for (uint32_t which = 0; which < 3; which++)
		for (uint32_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
			struct g4_dev *dev;
			struct disks d;
			format(&d, &level, 1);
			for (uint32_t second = 0; second < 2; second++) {
				struct g4_superblock *sb = label_of(&d, which, second == 1);
				sb->set_generation = wrong[k];
				seal_label(sb);
			}
			assert_int_equal(disks_try_open(&d, 7, true, 0, &dev), -G4_E_SB_GEOMETRY);
			assert_non_null(strstr(d.message, d.names[which]));
			disks_free(&d);
		}
}

/* What a spare says but for the disks that it knows is of no account; of disks no number is out of range, and none is there twice. */
static void lies_are_told(void **state)
{
	const struct level level = {3, 2, 0};
	struct g4_dev *dev;

	(void)state;
	for (uint32_t lie = 0; lie < 6; lie++) {
		struct disks d;
		format(&d, &level, 2);
		const uint32_t liar = lie < 3 ? 3 : 1;
		for (uint32_t second = 0; second < 2; second++) {
			struct g4_superblock *sb = label_of(&d, liar, second == 1);
			switch (lie) {
			case 0: /* a spare that is a disk that there is not */
				sb->disk_index = sb->disk_count;
				break;
			case 1: /* and one that counts more than there are */
				sb->disk_index = 2;
				sb->disk_since[2] = 7;
				sb->set_generation += 1000;
				break;
			case 2:
				sb->disk_count = G4_MAX_DISKS + 1;
				break;
			case 3:
				sb->disk_index = 3;
				break;
			case 4: /* the place of another one */
				sb->disk_index = 0;
				break;
			default: /* its own UUID, twice */
				memcpy(sb->disk_uuids[1], sb->disk_uuids[0], G4_UUID_BYTES);
				break;
			}
			seal_label(sb);
		}
		const int rc = disks_try_open(&d, 31, false, 0, &dev);
		if (lie == 1) {
			assert_int_equal(rc, 0);
			assert_int_equal(spares_of(dev), 2);
			assert_int_equal(set_of(dev)->super->set_generation, 1);
			g4_dev_close(dev);
		} else {
			assert_true(rc < 0);
			assert_true(strlen(d.message) > 0);
		}
		disks_free(&d);
	}
}

/* As of one disk: by the number of mounts, for a clock may go back between two of them. */
static void the_superblock_of_the_later_mount_counts_whatever_the_clock_said(void **state)
{
	const struct level level = {2, 2, 0};
	struct g4_superblock *found = (struct g4_superblock *)(void *)rig_memory(G4_PAGE_BYTES, 1);
	struct g4_wg *wg = g4_wg_create(0);

	(void)state;
	for (uint32_t which = 0; which < 2; which++)
		for (uint32_t second = 0; second < 2; second++) {
			struct g4_dev *dev;
			struct disks d;
			format(&d, &level, 0);
			struct g4_superblock *sb = label_of(&d, which, second == 1);
			const uint64_t mounts = sb->mount_count + 1;
			sb->mount_count = mounts;
			sb->written_ns -= UINT64_C(3600) * 1000 * 1000 * 1000;
			seal_label(sb);
			/* of the two that the disk has, and of those of all disks */
			struct g4_dev *one = disks_open_one(d.names[which]);
			assert_int_equal(g4_set_read_label(wg, one, found, NULL), 0);
			assert_int_equal(found->mount_count, mounts);
			g4_dev_close(one);
			if (disks_try_open(&d, 3, false, 0, &dev) < 0)
				fail_msg("%s", d.message);
			assert_int_equal(set_of(dev)->super->mount_count, mounts);
			const uint64_t at =
				second ? g4_load64_acq(&set_of(dev)->fs_bytes) - G4_PAGE_BYTES : G4_SUPERBLOCK_ADDRESS;
			assert_int_equal(g4_dev_read(wg, dev, at, found, G4_PAGE_BYTES), 0);
			assert_int_equal(found->mount_count, mounts);
			g4_dev_close(dev);
			disks_free(&d);
		}
	g4_wg_destroy(wg);
	free(found);
}

/* ---- others who use the set meanwhile ---- */

struct writer {
	struct g4_dev *set;
	uint32_t stop; /* atomic */
};

/* As an engine writes superblocks at any time: what they say of themselves, read and written back. */
static void *write_superblocks(void *argument)
{
	struct writer *w = (struct writer *)argument;
	struct g4_wg *wg = g4_wg_create(0);
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 1);

	while (!g4_load32_acq(&w->stop)) {
		assert_int_equal(g4_dev_read(wg, w->set, G4_SUPERBLOCK_ADDRESS, page, G4_PAGE_BYTES), 0);
		assert_int_equal(g4_dev_write(wg, w->set, G4_SUPERBLOCK_ADDRESS, page, G4_PAGE_BYTES, 0), 0);
	}
	free(page);
	g4_wg_destroy(wg);
	return NULL;
}

static void superblocks_are_written_while_spares_come_and_go(void **state)
{
	const uint64_t unequal[MOST_DISKS] = {12 * G4_MIB, 10 * G4_MIB, 10 * G4_MIB, 12 * G4_MIB};
	const struct level level = {2, 2, 0};
	struct writer w = {.stop = 0};
	struct g4_wg *wg = g4_wg_create(1);
	pthread_t thread;
	struct disks d;

	(void)state;
	format_sizes(&d, &level, 2, unequal);
	if (disks_try_open(&d, 2u | 4u, true, 0, &w.set) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(pthread_create(&thread, NULL, write_superblocks, &w), 0);
	for (uint32_t k = 0; k < 20; k++) {
		struct g4_dev_order order = {
			.op = G4_ORDER_RELIEVE, .text = d.message, .text_bytes = sizeof(d.message)};
		if (k % 2 == 0) /* the one that is there is too small */
			assert_int_equal(g4_dev_order(wg, w.set, &order), -G4_E_DEV_SMALL);
		order = (struct g4_dev_order){.op = k % 2 ? G4_ORDER_REMOVE_SPARE : G4_ORDER_ADD_SPARE,
					      .name = d.names[3],
					      .text = d.message,
					      .text_bytes = sizeof(d.message)};
		if (g4_dev_order(wg, w.set, &order) < 0)
			fail_msg("%s", d.message);
		assert_int_equal(spares_of(w.set), k % 2 ? 1 : 2);
	}
	struct g4_dev_order order = {
		.op = G4_ORDER_ADD_SPARE, .name = d.names[3], .text = d.message, .text_bytes = sizeof(d.message)};
	assert_int_equal(g4_dev_order(wg, w.set, &order), 0);
	order = (struct g4_dev_order){.op = G4_ORDER_RELIEVE};
	assert_int_equal(g4_dev_order(wg, w.set, &order), 0);
	assert_int_equal(order.disk, 0);
	assert_int_equal(spares_of(w.set), 1);
	do {
		order = (struct g4_dev_order){.op = G4_ORDER_STEP};
	} while (g4_dev_order(wg, w.set, &order) == 0);
	g4_store32_rel(&w.stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(state_of(w.set, 0), G4_DISK_ACTIVE);
	g4_dev_close(w.set);
	g4_wg_destroy(wg);
	expect_everywhere(&d, &level, 2u | 8u, 1);
	disks_free(&d);
}

/* ---- disks that are memory ---- */

static const struct g4_direct *past; /* NULL: nobody goes past the set */
static void (*own_close)(struct g4_dev *dev);
static uint32_t closed;

static void watched_close(struct g4_dev *dev)
{
	for (uint32_t n = 0; past && n < past->table.disk_count; n++)
		assert_false(g4_direct_is_open(past) && past->table.disks[n] == (uintptr_t)dev->map);
	closed++;
	own_close(dev);
}

/* All of them, past which lanes go; each close is watched. */
static void mount_memory(struct disks *d, struct faulty *f)
{
	static struct g4_dev_ops ops;

	disks_wrap_faulty(d, f);
	ops = *f->fault[0]->ops;
	own_close = ops.close;
	ops.close = watched_close;
	for (uint32_t n = 0; n < d->count; n++) {
		g4_dev_fault_set(f->fault[n], &(struct g4_fault){.write_through = true});
		f->fault[n]->map = d->memory[n];
		f->fault[n]->persist = G4_DEV_PERSIST_NEVER;
		f->fault[n]->opened = n + 1;
		f->fault[n]->ops = &ops;
	}
	disks_assemble_faulty(d, f);
	disks_begin_fs(d, f->set, 0);
	past = &d->rig.fs->space.direct;
	assert_true(g4_direct_is_open(past));
	closed = 0;
}

/* Memory of a disk that has failed stays, whether a spare will do or not, until nobody goes past the set to it: requests there ask nobody. */
static void a_disk_that_lanes_use_is_not_let_go(void **state)
{
	static const struct level memory[] = {{3, 2, 0}, {4, 0, 1}};

	(void)state;
	for (uint32_t l = 0; l < 2; l++)
		for (uint32_t spare = 0; spare < 3; spare++) { /* there is none, it is too small, or one that will do */
			const struct level *level = &memory[l];
			const bool fits = spare == 2;
			uint64_t bytes[MOST_DISKS];
			struct faulty f;
			struct disks d;

			memcpy(bytes, sizes, sizeof(bytes));
			bytes[1] += spare == 1 ? 2 * G4_MIB : 0; /* which fails; the spare is as large as the others */
			format_sizes(&d, level, spare > 0, bytes);
			mount_memory(&d, &f);
			look(&d); /* nothing has failed: no gate closes, and nothing is let go */
			assert_true(g4_direct_is_open(past) && closed == 0);
			uint8_t *super = rig_memory(G4_PAGE_BYTES, 1);
			assert_int_equal(g4_dev_read(d.rig.wg, f.set, G4_SUPERBLOCK_ADDRESS, super, G4_PAGE_BYTES), 0);
			g4_dev_fault_set(f.fault[1], &(struct g4_fault){.write_through = true, .fail_write_at = 1});
			assert_int_equal(g4_dev_write(d.rig.wg, f.set, G4_SUPERBLOCK_ADDRESS, super, G4_PAGE_BYTES, 0),
					 0);
			free(super);
			assert_int_equal(state_of(f.set, 1), G4_DISK_DROPPED);
			assert_true(g4_direct_is_open(past) && past->table.missing == 0);
			assert_int_equal(disks_put(&d, 0, 2), 0);
			look(&d);
			assert_int_equal(closed, spare > 0);
			assert_true(fits || (g4_direct_is_open(past) && past->table.missing == 1));
			assert_int_equal(state_of(f.set, 1), fits ? G4_DISK_REBUILDING : G4_DISK_DROPPED);
			for (uint32_t n = 1; n < FILES; n++)
				assert_int_equal(disks_put(&d, n, 2), 0);
			disks_expect_files(&d, FILES, 2);
			if (fits)
				finish(&d);
			disks_expect_files(&d, FILES, 2);
			past = NULL;
			disks_unmount_fs(&d, f.set, true);
			disks_free(&d);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_disks_fail_at_once),
		cmocka_unit_test(one_that_waits_knows_the_disks_of_now),
		cmocka_unit_test(a_spare_that_can_not_be_opened_costs_nothing),
		cmocka_unit_test(one_that_dies_under_a_paused_rebuild_is_followed_by_the_next),
		cmocka_unit_test(a_look_at_a_missing_disk_does_not_cost_the_spare),
		cmocka_unit_test(that_no_spare_will_do_is_told_each_time),
		cmocka_unit_test(one_that_can_not_discard_is_not_asked_to),
		cmocka_unit_test(one_that_is_dead_can_be_withdrawn),
		cmocka_unit_test(an_order_of_an_earlier_life_keeps_no_spare_away),
		cmocka_unit_test(the_power_fails_while_an_order_takes_one_out),
		cmocka_unit_test(one_that_was_away_while_all_others_were_replaced_is_stale),
		cmocka_unit_test(one_that_replaced_all_others_itself_was_written_apart),
		cmocka_unit_test(no_disk_that_is_used_is_two_generations_behind),
		cmocka_unit_test(a_generation_that_has_no_next_is_refused),
		cmocka_unit_test(lies_are_told),
		cmocka_unit_test(the_superblock_of_the_later_mount_counts_whatever_the_clock_said),
		cmocka_unit_test(superblocks_are_written_while_spares_come_and_go),
		cmocka_unit_test(a_disk_that_lanes_use_is_not_let_go),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
