/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a disk that is rebuilt lacks is made by lanes (src/space/direct_lost.c, src/space/set_taken_host.c): it counts if nobody has written there
 * meanwhile, and else is made again; helpers share it; orders to disks wait for those who make it; a kill, a cancelled job and a disk that goes in the
 * middle of it cost what was taken and no more; and each disk has what the others stand for.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>

#include "lost.h"

#include "fs/help.h"

static void what_was_written_meanwhile_is_made_again(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct g4_direct_lost lost;
		struct g4_dev *dev;
		struct disks d;
		make(&d, &levels[l], &dev);
		lose(&d, 1);
		put_large(&d, 2);
		begin(&d, G4_DISK_REPLACE, 1);
		assert_true(g4_direct_makes(direct_of(&d)));
		assert_false(g4_direct_is_open(direct_of(&d)));
		uint64_t at = position(&d);
		uint32_t rows = 0, copies = 0;
		while (take(&d, 256 * G4_KIB, &lost)) {
			const bool parity = direct_of(&d)->table.chunks[lost.chunk].parity > 0;
			if (rows + copies == 0) { /* a crossing too many changes nothing */
				assert_int_equal(say_made(&d, &(struct g4_direct_lost){.bytes = 0}), 0);
				assert_int_equal(say_made(&d, &lost), 0);
				assert_true(take(&d, 256 * G4_KIB, &lost));
			}
			/* written before it is made, and after */
			if (parity ? rows < 2 : copies < 2) {
				for (uint32_t after = 0; after < 2; after++) {
					if (after)
						make_taken(&d, &lost);
					write_at(&d, address_in(&d, &lost, false));
					if (!after)
						make_taken(&d, &lost);
					assert_int_equal(say_made(&d, &lost), 0);
					assert_int_equal(position(&d), at);
					assert_true(take(&d, 256 * G4_KIB, &lost));
				}
				if (lost.within + lost.bytes < direct_of(&d)->table.chunks[lost.chunk].place_bytes)
					write_at(&d, address_in(&d, &lost, true)); /* elsewhere */
			}
			make_taken(&d, &lost);
			assert_int_equal(say_made(&d, &lost), lost.bytes);
			assert_true(position(&d) >= at + lost.bytes);
			at = position(&d);
			rows += parity;
			copies += !parity;
		}
		assert_true(levels[l].plan.parity ? rows > 2 && copies > 0 : copies > 2);
		finish(&d); /* nothing is left but to say so */
		assert_true(g4_direct_is_open(direct_of(&d)));
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], 1, 2);
		disks_free(&d);
	}
}

/* The disk that was being made is given up, or another one begins: what was taken of it before does not count. */
static void what_was_taken_of_another_does_not_count(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct g4_direct_lost lost;
		struct g4_dev_order o = {0};
		struct g4_dev *dev;
		struct disks d;
		make(&d, &levels[l], &dev);
		lose(&d, 0);
		begin(&d, G4_DISK_REPLACE, 0);
		assert_true(take(&d, 256 * G4_KIB, &lost));
		begin(&d, G4_DISK_OFFLINE, 0);
		assert_false(g4_direct_begin_lost(d.rig.wg, direct_of(&d), &lost));
		if (l % 2 == 0) { /* else it is said when the next one has begun */
			o.bytes = lost.bytes;
			assert_int_equal(give(&d, G4_ORDER_MADE, &o), -G4_E_NO_TARGET);
			assert_int_equal(o.bytes, 0);
		}
		o.bytes = o.all = 256 * G4_KIB;
		assert_int_equal(give(&d, G4_ORDER_TAKE, &o), -G4_E_NO_TARGET);
		step(&d); /* the job finds that out */
		begin(&d, G4_DISK_REBUILD, 0);
		assert_int_equal(say_made(&d, &lost), 0);
		assert_int_equal(position(&d), 0);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], 1, 1);
		disks_free(&d);
	}
}

/* What is said to be taken is checked by the table. */
static void nothing_else_is_made(void **state)
{
	struct g4_direct_lost lost, wrong;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	make(&d, &levels[2], &dev);
	wrong = (struct g4_direct_lost){.bytes = STRIPE};
	assert_false(g4_direct_begin_lost(d.rig.wg, direct_of(&d), &wrong)); /* nothing is rebuilt */
	lose(&d, 1);
	begin(&d, G4_DISK_REPLACE, 1);
	assert_true(take(&d, 256 * G4_KIB, &lost));
	const struct g4_direct_table *table = &direct_of(&d)->table;
	wrong = lost;
	wrong.chunk = table->chunk_count;
	assert_false(g4_direct_begin_lost(d.rig.wg, direct_of(&d), &wrong));
	wrong = lost;
	wrong.place = G4_CHUNK_PLACES;
	assert_false(g4_direct_begin_lost(d.rig.wg, direct_of(&d), &wrong));
	wrong = lost;
	wrong.place =
		(lost.place + 1) % ((uint32_t)table->chunks[lost.chunk].columns * table->chunks[lost.chunk].copies);
	assert_false(g4_direct_begin_lost(d.rig.wg, direct_of(&d), &wrong)); /* another disk's */
	wrong = lost;
	wrong.within = table->chunks[lost.chunk].place_bytes;
	assert_false(g4_direct_begin_lost(d.rig.wg, direct_of(&d), &wrong));
	assert_int_equal(say_made(&d, &(struct g4_direct_lost){.bytes = 0}), 0);
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	expect_everywhere(&d, &levels[2], 1, 1);
	disks_free(&d);
}

/* ---- more disks than one ---- */

/* In the middle another one goes, where that can be done without: lanes go on with those that are left. */
static void another_disk_goes_meanwhile(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct g4_dev *dev;
		struct disks d;
		make(&d, &levels[l], &dev);
		lose(&d, 1);
		begin(&d, G4_DISK_REPLACE, 1);
		step(&d);
		const uint64_t before = made(&d);
		assert_true(before > 0);
		assert_int_equal(job_of(&d).state, G4_JOB_RUNNING);
		const int rc = order(&d, G4_DISK_OFFLINE, d.names[0]);
		assert_int_equal(rc < 0, levels[l].spare < 2);
		assert_true(g4_direct_makes(direct_of(&d)));
		put_large(&d, 2);
		finish(&d);
		assert_true(made(&d) > before);
		if (rc == 0) {
			begin(&d, G4_DISK_REBUILD, 0);
			finish(&d);
		}
		assert_true(g4_direct_is_open(direct_of(&d)));
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], 1, 2);
		disks_free(&d);
	}
}

/* The same between what is taken and what is made: what nobody has written to counts, made of what is left. */
static void another_disk_goes_while_a_part_is_made(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct g4_direct_lost lost;
		struct g4_dev *dev;
		struct disks d;
		if (levels[l].spare < 2)
			continue;
		make(&d, &levels[l], &dev);
		lose(&d, 1);
		begin(&d, G4_DISK_REPLACE, 1);
		assert_true(take(&d, 256 * G4_KIB, &lost));
		begin(&d, G4_DISK_OFFLINE, 0);
		make_taken(&d, &lost);
		assert_int_equal(say_made(&d, &lost), lost.bytes);
		assert_true(take(&d, 256 * G4_KIB, &lost));
		write_at(&d, address_in(&d, &lost, false));
		make_taken(&d, &lost);
		assert_int_equal(say_made(&d, &lost), 0);
		finish(&d);
		begin(&d, G4_DISK_REBUILD, 0);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], 1, 1);
		disks_free(&d);
	}
}

/* A rebalancing that was going on asks what to move next, and may not disturb what is watched for the rebuild, nor its table. */
static void who_moves_places_meanwhile_does_not_disturb(void **state)
{
	(void)state;
	for (uint32_t early = 0; early < 2; early++) { /* it has asked before the rebuild began, or then */
		struct g4_direct_lost lost;
		struct g4_dev_order o;
		struct g4_dev *dev;
		struct disks d;
		disks_make(&d, 3, NULL);
		d.count = 2;
		fill(&d, &levels[0], &dev);
		disks_unmount_fs(&d, dev, true);
		disks_mount(&d, all_of(&d)); /* an engine, which can grow */
		begin(&d, G4_DISK_ADD, 2);   /* it has room for what the others have */
		d.count = 3;
		disks_unmount(&d);
		disks_mount_fs(&d, all_of(&d), &dev);
		memset(&o, 0, sizeof(o));
		if (early) {
			assert_int_equal(give(&d, G4_ORDER_SPREAD_NEXT, &o), 0);
			assert_true(o.bytes > 0);
		}
		lose(&d, 1);
		begin(&d, G4_DISK_REPLACE, 1);
		assert_true(g4_direct_makes(direct_of(&d)));
		assert_true(take(&d, 256 * G4_KIB, &lost));
		memset(&o, 0, sizeof(o));
		assert_int_equal(give(&d, G4_ORDER_SPREAD_NEXT, &o), 0);
		assert_true(o.bytes > 0);
		assert_true(g4_direct_makes(direct_of(&d)));
		make_taken(&d, &lost);
		assert_int_equal(say_made(&d, &lost), lost.bytes);
		finish(&d);
		assert_true(made(&d) > lost.bytes);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[0], 1, 1);
		disks_free(&d);
	}
}

/* ---- what ends it ---- */

/* The engine is killed when something is taken, half of it is made, all of it, it counts, and when that is noted; with and without writers before. */
static void a_kill_costs_what_was_taken(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t stage = 0; stage < 5; stage++) {
			const uint32_t version = 1 + stage % 2;
			uint8_t *kept[MOST_DISKS];
			struct g4_direct_lost lost;
			struct g4_dev_order note = {0};
			struct g4_dev *dev;
			struct disks d;
			make(&d, &levels[l], &dev);
			lose(&d, 1);
			begin(&d, G4_DISK_REPLACE, 1);
			step(&d);
			assert_true(take(&d, 256 * G4_KIB, &lost));
			if (stage > 0) {
				assert_true(g4_direct_begin_lost(d.rig.wg, direct_of(&d), &lost));
				for (uint64_t at = 0; at < lost.bytes / (stage == 1 ? 2 : 1); at += lost.part_bytes)
					assert_true(g4_direct_make(d.rig.wg, direct_of(&d), &lost, at,
								   g4_min64(lost.part_bytes, lost.bytes - at)));
			}
			if (stage > 2)
				assert_int_equal(say_made(&d, &lost), lost.bytes);
			if (stage > 3)
				assert_int_equal(give(&d, G4_ORDER_NOTE, &note), 0);
			if (version > 1)
				put_large(&d, version);
			keep_disks(&d, kept);
			disks_unmount_fs(&d, dev, false);
			restore_disks(&d, kept);
			const bool loses = levels[l].spare > 1 && stage % 2 == 0; /* another one besides */
			disks_mount_fs(&d, all_of(&d) & ~(uint32_t)loses, &dev);
			expect_large(&d, version);
			assert_int_equal(job_of(&d).state, G4_JOB_RUNNING);
			finish(&d);
			assert_true(made(&d) > 0);
			if (loses) {
				begin(&d, G4_DISK_REBUILD, 0);
				finish(&d);
			}
			disks_unmount_fs(&d, dev, true);
			expect_everywhere(&d, &levels[l], 1, version);
			disks_free(&d);
		}
}

/* A job that is cancelled, or a file system that is unmounted, with something taken: it is forgotten. */
static void what_was_taken_ends_with_its_job(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t unmounts = 0; unmounts < 2; unmounts++) {
			struct g4_direct_lost lost;
			struct g4_dev_order o = {0};
			struct g4_dev *dev;
			struct disks d;
			make(&d, &levels[l], &dev);
			lose(&d, 0);
			begin(&d, G4_DISK_REPLACE, 0);
			assert_true(take(&d, 256 * G4_KIB, &lost));
			if (unmounts) {
				disks_unmount_fs(&d, dev, true);
				disks_mount_fs(&d, all_of(&d), &dev);
				assert_true(g4_direct_makes(direct_of(&d)));
				assert_int_equal(say_made(&d, &lost), 0);
			} else {
				tell(&d, G4_JOB_CANCEL);
				o.bytes = lost.bytes;
				assert_int_equal(give(&d, G4_ORDER_MADE, &o), -G4_E_NO_TARGET);
				assert_int_equal(o.bytes, 0);
				assert_false(g4_direct_makes(direct_of(&d)));
				assert_int_equal(state_of(dev, 0), G4_DISK_DROPPED);
				begin(&d, G4_DISK_REBUILD, 0);
			}
			assert_int_equal(position(&d), 0);
			finish(&d);
			assert_true(made(&d) > 0);
			disks_unmount_fs(&d, dev, true);
			expect_everywhere(&d, &levels[l], 1, 1);
			disks_free(&d);
		}
}

/* ---- who writes ---- */

/* The last page in front of what was taken, and the first one behind it, are others'. */
static void who_writes_next_to_it_changes_nothing(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		uint32_t fronts = 0, behinds = 0;
		struct g4_direct_lost lost;
		struct g4_dev *dev;
		struct disks d;
		make(&d, &levels[l], &dev);
		lose(&d, 1);
		begin(&d, G4_DISK_REPLACE, 1);
		while (take(&d, 256 * G4_KIB, &lost)) {
			const struct g4_chunk *chunk = &direct_of(&d)->table.chunks[lost.chunk];
			const bool front = lost.within > 0, behind = lost.within + lost.bytes < chunk->place_bytes;
			if (front)
				write_at(&d, address_in(&d, &lost, false) - G4_PAGE_BYTES);
			make_taken(&d, &lost);
			if (behind)
				write_at(&d, address_in(&d, &lost, true));
			assert_int_equal(say_made(&d, &lost), lost.bytes);
			fronts += front;
			behinds += behind;
		}
		assert_true(fronts > 0 && behinds > 0);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], 1, 1);
		disks_free(&d);
	}
}

/* Of copies: who has begun and is not done may write to the disks that he chose before, so nothing is taken there, and less is wanted next. */
static void nothing_is_taken_under_a_write(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 0);
	struct g4_iov iov = {page, G4_PAGE_BYTES};
	struct g4_direct_lost lost;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	make(&d, &levels[0], &dev);
	lose(&d, 1);
	begin(&d, G4_DISK_REPLACE, 1);
	assert_true(take(&d, 256 * G4_KIB, &lost));
	assert_int_equal(say_made(&d, &(struct g4_direct_lost){.bytes = 0}), 0);
	const uint64_t address = address_in(&d, &lost, false) + lost.bytes - G4_PAGE_BYTES;
	struct g4_io io = {.op = G4_IO_WRITE, .offset_bytes = address, .iov = &iov, .iov_count = 1};
	assert_int_equal(g4_dev_read(d.rig.wg, dev, address, page, G4_PAGE_BYTES), 0);
	g4_dev_submit(d.rig.wg, dev,
		      &io); /* to the set itself, where it is collected: an agent would do that at once */
	assert_false(take(&d, 256 * G4_KIB, &lost));
	g4_store32_rel(&d.rig.fs->split.helpers, 16); /* so many MiB would be made at once */
	step(&d);
	g4_store32_rel(&d.rig.fs->split.helpers, 0);
	assert_int_equal(made(&d), 0);
	assert_int_equal(direct_of(&d)->lost_most, 8 * G4_MIB);
	assert_int_equal(g4_dev_wait(d.rig.wg, dev, &io), 0);
	finish(&d);
	assert_true(made(&d) > 0);
	disks_unmount_fs(&d, dev, true);
	expect_everywhere(&d, &levels[0], 1, 1);
	disks_free(&d);
	free(page);
}

/* ---- several workgroups ---- */

#define HELPERS 2u
#define WRITERS 2u

struct worker {
	pthread_t thread;
	struct disks own; /* of a writer: a way of its own to the same file system */
	struct g4_fs *fs;
	uint32_t number;
	uint32_t done; /* atomic: pieces, or versions of a file */
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

static void *write_file(void *argument)
{
	struct worker *w = (struct worker *)argument;
	bool good = true;

	while (good && !g4_load32_acq(w->stop)) {
		good = disks_put(&w->own, FILES + w->number, w->done + 1) == 0 &&
		       disks_has(&w->own, FILES + w->number, w->done + 1) == 1;
		g4_store32_rel(&w->done, w->done + 1);
	}
	return good ? NULL : w;
}

static void begin_workers(struct disks *d, struct worker *w, uint32_t count, void *(*run)(void *), uint32_t *stop)
{
	for (uint32_t n = 0; n < count; n++) {
		memset(&w[n], 0, sizeof(w[n]));
		w[n].fs = d->rig.fs;
		w[n].own.rig.fs = d->rig.fs;
		w[n].own.rig.wg = g4_wg_create(1 + n);
		w[n].number = n;
		w[n].stop = stop;
		assert_int_equal(pthread_create(&w[n].thread, NULL, run, &w[n]), 0);
	}
}

static void end_workers(struct worker *w, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++) {
		void *failed;
		assert_int_equal(pthread_join(w[n].thread, &failed), 0);
		assert_null(failed);
		g4_wg_destroy(w[n].own.rig.wg);
	}
}

/* The disk that goes and comes may have requests to it as it was. */
static void replace(struct disks *d, uint32_t disk)
{
	while (order(d, G4_DISK_REPLACE, d->names[disk]) < 0)
		assert_non_null(strstr(d->message, "under way"));
	finish(d);
}

static void helpers_share_it_while_users_write(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct worker helpers[HELPERS], writers[WRITERS];
		uint32_t stop = 0, rounds = 0;
		struct g4_dev *dev;
		struct disks d;
		make(&d, &levels[l], &dev);
		g4_store32_rel(&d.rig.fs->split.helpers, HELPERS);
		begin_workers(&d, helpers, HELPERS, help, &stop);
		begin_workers(&d, writers, WRITERS, write_file, &stop);
		for (uint32_t helped = 0, wrote = 0; rounds < 3 || helped == 0 || wrote < 3; rounds++) {
			const uint32_t before = g4_load32_acq(&writers[0].done),
				       pieces = g4_load32_acq(&helpers[0].done);
			begin(&d, G4_DISK_OFFLINE, rounds % d.count);
			replace(&d, rounds % d.count);
			helped += g4_load32_acq(&helpers[0].done) != pieces;
			wrote += g4_load32_acq(&writers[0].done) != before;
		}
		g4_store32_rel(&stop, 1);
		end_workers(writers, WRITERS);
		end_workers(helpers, HELPERS);
		g4_store32_rel(&d.rig.fs->split.helpers, 0);
		assert_true(made(&d) > 0);
		assert_int_equal(disks_scrub(&d), 0);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], 1, 1);
		disks_mount_fs(&d, all_of(&d) & ~1u, &dev);
		for (uint32_t w = 0; w < WRITERS; w++)
			assert_int_equal(disks_has(&d, FILES + w, writers[w].done), 1);
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_meanwhile_is_made_again),
		cmocka_unit_test(what_was_taken_of_another_does_not_count),
		cmocka_unit_test(nothing_else_is_made),
		cmocka_unit_test(another_disk_goes_meanwhile),
		cmocka_unit_test(another_disk_goes_while_a_part_is_made),
		cmocka_unit_test(who_moves_places_meanwhile_does_not_disturb),
		cmocka_unit_test(a_kill_costs_what_was_taken),
		cmocka_unit_test(what_was_taken_ends_with_its_job),
		cmocka_unit_test(who_writes_next_to_it_changes_nothing),
		cmocka_unit_test(nothing_is_taken_under_a_write),
		cmocka_unit_test(helpers_share_it_while_users_write),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
