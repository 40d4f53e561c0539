/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk is rebuilt while users write: what they write is right on what has been rebuilt and on what has not, the rebuild goes on after an
 * unmount and after a crash at any request, and whatever fails meanwhile costs nothing that was synced.
 */
#define FILES 5u
#define FILE_BYTES (192 * 1024u)
#include "moving.h"
#include "rebuilding.h"
#include "removing.h"

#include <unistd.h>

#include "fs/rebuild_host.h"
#include "space/set_types_host.h"

struct level {
	uint32_t disks, copies, parity; /* parity 0: copies */
};
static const struct level levels[] = {{2, 2, 0}, {3, 2, 0}, {3, 3, 0}, {3, 0, 1}, {4, 0, 1}, {5, 0, 2}};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static const uint64_t sizes[MOST_DISKS] = {10 * G4_MIB, 10 * G4_MIB, 10 * G4_MIB, 10 * G4_MIB, 10 * G4_MIB};

/*
 * Whether test number `turn` takes the level. Under ThreadSanitizer each takes a quarter of them and all together every one, as what
 * differs between levels has one thread; threads_write_while_a_disk_is_rebuilt() takes them all.
 */
static bool takes(uint32_t turn, uint32_t l)
{
	return (l + turn) % rig_every(1) == 0;
}

static uint32_t tolerated(const struct level *level)
{
	return level->parity ? level->parity : level->copies - 1;
}

static void format(struct disks *d, const struct level *level)
{
	disks_make(d, level->disks, sizes);
	if (level->parity)
		disks_format_rows(d, level->parity, G4_CHECKSUM_NONE);
	else
		disks_format_copies(d, G4_RAID_1, level->copies, G4_CHECKSUM_NONE);
}

/* Mounted. Of copies only what is in use is made again: so much that it takes several steps, and not all. */
#define BALLAST_BYTES (4 * G4_MIB)
static void add_ballast(struct disks *d, const struct level *level)
{
	uint8_t *data = rig_memory(BALLAST_BYTES, 8);
	uint64_t ino, done = 0;

	if (!level->parity) {
		assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "ballast", G4_S_IFREG | 0644, &ino), 0);
		assert_int_equal(op_write(&d->rig, ino, 0, 0, data, BALLAST_BYTES, &done), 0);
		assert_int_equal(done, BALLAST_BYTES);
	}
	free(data);
}

static void let_go(struct disks *d, uint8_t **before)
{
	for (uint32_t n = 0; n < d->count; n++)
		free(before[n]);
}

/* ---- users ---- */

/* Whichever disks are lost, the others have everything. The file system is not mounted. */
static void expect_everywhere(struct disks *d, const struct level *level, struct model *m)
{
	const uint32_t all = (1u << d->count) - 1;
	uint8_t *before[MOST_DISKS];
	struct g4_dev *dev;

	keep_disks(d, before);
	for (uint32_t which = 1; which <= all; which++) {
		if (which != all && (d->count - (uint32_t)__builtin_popcount(which) != tolerated(level) ||
				     !disks_takes_loss(all & ~which)))
			continue;
		disks_expect_clean(d, which);
		disks_mount_fs(d, which, &dev);
		expect_model(m, d);
		if (which == all)
			assert_int_equal(disks_scrub(d), 0);
		disks_unmount_fs(d, dev, true);
		restore_disks(d, before);
	}
	let_go(d, before);
}

/* A set of which a disk has missed writes, and is being rebuilt; mounted. */
static void begin_at(struct disks *d, const struct level *level, struct model *m, uint32_t disk, bool is_new,
		     struct g4_dev **dev)
{
	const uint32_t all = (1u << level->disks) - 1;

	format(d, level);
	disks_mount_fs(d, all, dev);
	add_ballast(d, level);
	begin_model(m, d);
	for (uint32_t k = 0; k < 40; k++)
		use(m, d);
	disks_unmount_fs(d, *dev, true);
	disks_mount_fs(d, all & ~(1u << disk), dev);
	for (uint32_t k = 0; k < 40; k++)
		use(m, d);
	if (is_new)
		memset(d->memory[disk], 0xa5, d->bytes[disk]);
	begin(d, is_new ? G4_DISK_REPLACE : G4_DISK_REBUILD, disk);
	assert_int_equal(state_of(*dev, disk), G4_DISK_REBUILDING);
}

static void users_write_while_a_disk_is_rebuilt(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t disk = 0; takes(0, l) && disk < levels[l].disks; disk += levels[l].disks - 1) {
			struct model m;
			struct disks d;
			struct g4_dev *dev;
			begin_at(&d, &levels[l], &m, disk, disk > 0, &dev);
			while (job_of(&d).state == G4_JOB_RUNNING) {
				for (uint32_t k = 0; k < 10; k++)
					use(&m, &d);
				step(&d);
			}
			assert_int_equal(job_of(&d).state, G4_JOB_DONE);
			assert_int_equal(state_of(dev, disk), G4_DISK_ACTIVE);
			for (uint32_t k = 0; k < 20; k++)
				use(&m, &d);
			expect_model(&m, &d);
			disks_unmount_fs(&d, dev, true);
			expect_everywhere(&d, &levels[l], &m);
			end_model(&m);
			disks_free(&d);
		}
}

/* ---- several threads ---- */

/* Out and in again, under their hands; requests to what is out may be under way for a moment. */
static void rebuild_first(struct disks *d, bool gives_way)
{
	int rc;

	begin(d, G4_DISK_OFFLINE, 0);
	do
		rc = order_as(d, G4_DISK_REBUILD, d->names[0], gives_way ? 0 : G4_JOB_EAGER);
	while (rc == -G4_E_BUSY && strstr(d->message, "under way"));
	if (rc < 0)
		fail_msg("%s", d->message);
	while (job_of(d).state == G4_JOB_RUNNING)
		usleep(1000);
}

static uint32_t versions_of(struct user *users)
{
	uint32_t versions = 0;

	for (uint32_t n = 0; n < THREADS; n++)
		versions += g4_load32_acq(&users[n].version);
	return versions;
}

/*
 * A rebuild that gives way does a step a second while they write. The last one does so, since it hides what those before it did wrong;
 * under a sanitizer, which sees a race itself, of one level. The others do the same steps at once.
 */
#define ROUNDS 4u
static void threads_write_while_a_disk_is_rebuilt(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct user users[THREADS];
		struct disks d;
		uint32_t stop = 0;
		format(&d, &levels[l]);
		disks_mount(&d, (1u << d.count) - 1);
		begin_users(users, &d, &stop);
		for (uint32_t round = 0; round < ROUNDS;) { /* in which they wrote */
			const uint32_t before = versions_of(users);
			rebuild_first(&d, round == ROUNDS - 1 && (l == 0 || !rig_slow()));
			round += versions_of(users) > before;
		}
		end_users(users);
		assert_int_equal(job_of(&d).state, G4_JOB_DONE);
		disks_unmount(&d);
		/* the disk stands for another one */
		disks_expect_clean(&d, (1u << d.count) - 1);
		disks_mount(&d, ((1u << d.count) - 1) & ~2u);
		expect_users(users, &d);
		disks_unmount(&d);
		disks_free(&d);
	}
}

/* ---- who writes and what is copied ---- */

/* A request that is under way keeps what it writes to from being copied, and nothing else. */
static void nothing_is_copied_under_a_write(void **state)
{
	const struct level level = {2, 2, 0};
	struct g4_dev_order step_on = {.op = G4_ORDER_STEP}, ask = {.op = G4_ORDER_ASK};
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3);
	struct g4_iov iov = {page, G4_PAGE_BYTES};
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &level);
	if (disks_try_open(&d, 1, true, 0, &dev) < 0)
		fail_msg("%s", d.message);
	struct g4_dev_order begin_it = {
		.op = G4_ORDER_REPLACE, .name = d.names[1], .text = d.message, .text_bytes = sizeof(d.message)};
	if (g4_dev_order(wg, dev, &begin_it) < 0)
		fail_msg("%s", d.message);
	/* its address on the disk is 1 MiB more */
	struct g4_io io = {.op = G4_IO_WRITE, .offset_bytes = 3 * G4_MIB + 512 * 1024, .iov = &iov, .iov_count = 1};
	g4_dev_submit(wg, dev, &io);
	do
		assert_int_equal(g4_dev_order(wg, dev, &step_on), 0);
	while (step_on.bytes > 0);
	assert_int_equal(step_on.done, 4 * G4_MIB + 512 * 1024);
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	assert_int_equal(g4_dev_order(wg, dev, &step_on), 0);
	assert_true(step_on.bytes > 0);
	assert_int_equal(g4_dev_order(wg, dev, &ask), 0);
	assert_true(ask.done > 4 * G4_MIB + 512 * 1024);
	assert_memory_equal(d.memory[1] + 4 * G4_MIB + 512 * 1024, page, G4_PAGE_BYTES);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	free(page);
	disks_free(&d);
}

struct copier {
	struct g4_dev *dev;
	uint64_t bytes;
	uint32_t ended; /* atomic */
};

#define TRIES 1000u
static void *copy_on(void *argument)
{
	struct copier *c = (struct copier *)argument;
	struct g4_wg *wg = g4_wg_create(1);

	for (uint32_t k = 0; k < TRIES && c->bytes == 0; k++) {
		struct g4_dev_order step_on = {.op = G4_ORDER_STEP};
		assert_int_equal(g4_dev_order(wg, c->dev, &step_on), 0);
		c->bytes = step_on.bytes;
	}
	g4_wg_destroy(wg);
	g4_store32_rel(&c->ended, 1);
	return NULL;
}

/* Where there is always somebody who writes, others are kept from it after a while, and the copy comes to its turn. */
static void a_copy_is_not_kept_out_for_ever(void **state)
{
	const struct level level = {2, 2, 0};
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3);
	struct g4_iov iov = {page, G4_PAGE_BYTES};
	struct g4_wg *wg = g4_wg_create(0);
	struct copier c = {.bytes = 0};
	struct disks d;
	pthread_t thread;

	(void)state;
	format(&d, &level);
	if (disks_try_open(&d, 1, true, 0, &c.dev) < 0)
		fail_msg("%s", d.message);
	struct g4_dev_order begin_it = {
		.op = G4_ORDER_REPLACE, .name = d.names[1], .text = d.message, .text_bytes = sizeof(d.message)};
	if (g4_dev_order(wg, c.dev, &begin_it) < 0)
		fail_msg("%s", d.message);
	struct g4_set_window *window = &((struct g4_set *)c.dev->host)->window;
	struct g4_io io = {.op = G4_IO_WRITE, .offset_bytes = 4 * G4_PAGE_BYTES, .iov = &iov, .iov_count = 1};
	g4_dev_submit(wg, c.dev, &io);
	assert_int_equal(pthread_create(&thread, NULL, copy_on, &c), 0);
	for (bool kept_out = false; !kept_out && !g4_load32_acq(&c.ended);) {
		pthread_mutex_lock(&window->lock);
		kept_out = window->from != window->to;
		pthread_mutex_unlock(&window->lock);
		sched_yield();
	}
	assert_int_equal(g4_dev_wait(wg, c.dev, &io), 0);
	pthread_join(thread, NULL);
	assert_true(c.bytes > 0);
	g4_dev_close(c.dev);
	g4_wg_destroy(wg);
	free(page);
	disks_free(&d);
}

struct writer {
	struct g4_set_window *window;
	uint32_t entered;
};

static void *write_there(void *argument)
{
	struct writer *w = (struct writer *)argument;

	g4_set_window_enter(w->window, 0, G4_PAGE_BYTES);
	g4_store32_rel(&w->entered, 1);
	g4_set_window_leave(w->window, 0, G4_PAGE_BYTES);
	return NULL;
}

static void nobody_writes_to_what_is_copied(void **state)
{
	struct g4_set_window *window = (struct g4_set_window *)calloc(1, sizeof(*window));
	struct writer w = {.window = window};
	pthread_t thread;

	(void)state;
	assert_int_equal(g4_set_window_begin(window), 0);
	g4_set_window_enter(window, G4_MIB, 1);
	g4_set_window_enter(window, G4_MIB, 3 * G4_MIB);
	assert_false(g4_set_window_open(window, 0, 2 * G4_MIB));
	g4_set_window_leave(window, G4_MIB, 3 * G4_MIB);
	assert_false(g4_set_window_open(window, 0, 2 * G4_MIB));
	g4_set_window_leave(window, G4_MIB, 1);
	assert_true(g4_set_window_open(window, 0, 2 * G4_MIB));
	assert_int_equal(pthread_create(&thread, NULL, write_there, &w), 0);
	g4_set_window_enter(window, 2 * G4_MIB, G4_MIB); /* elsewhere */
	for (uint32_t k = 0; k < 1000; k++)
		assert_int_equal(g4_load32_acq(&w.entered), 0);
	g4_set_window_close(window);
	pthread_join(thread, NULL);
	assert_int_equal(w.entered, 1);
	/* one that is longer than there are parts counts in each */
	g4_set_window_enter(window, 0, 2048 * G4_MIB);
	assert_false(g4_set_window_open(window, 1900 * G4_MIB, 1));
	g4_set_window_leave(window, 0, 2048 * G4_MIB);
	g4_set_window_leave(window, 2 * G4_MIB, G4_MIB);
	assert_true(g4_set_window_open(window, 0, 2048 * G4_MIB));
	g4_set_window_end(window);
	free(window);
}

/* ---- going on ---- */

static void it_goes_on_after_an_unmount_and_after_a_crash(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t crash = 0; takes(1, l) && crash < 3; crash++) {
			const uint32_t all = (1u << levels[l].disks) - 1;
			uint8_t *before[MOST_DISKS];
			struct g4_dev *dev;
			struct model m;
			struct disks d;
			begin_at(&d, &levels[l], &m, 1, true, &dev);
			for (uint32_t k = 0; k < 3; k++)
				step(&d);
			tell(&d, G4_JOB_PAUSE);
			const struct g4_job_record paused = job_of(&d);
			assert_int_equal(paused.state, G4_JOB_PAUSED);
			assert_true(paused.done > 0 && paused.done < paused.units);
			if (crash == 2)
				tell(&d, G4_JOB_RESUME);
			for (uint32_t k = 0; k < 20; k++) {
				use(&m, &d);
				step(&d); /* nothing while it is paused */
			}
			assert_int_equal(op_sync(&d.rig), 0);
			if (crash) /* what is on the disks now is what there is */
				keep_disks(&d, before);
			disks_unmount_fs(&d, dev, !crash);
			if (crash) {
				restore_disks(&d, before);
				let_go(&d, before);
			}
			disks_mount_fs(&d, all, &dev); /* nothing is missing */
			expect_model(&m, &d);
			if (crash < 2) {
				assert_int_equal(state_of(dev, 1), G4_DISK_REBUILDING);
				assert_int_equal(job_of(&d).state, G4_JOB_PAUSED);
				tell(&d, G4_JOB_RESUME);
				finish(&d);
				/* what was done is not done again, but for what of a MiB there was */
				assert_true((job_of(&d).bytes - paused.bytes) / G4_PAGE_BYTES <=
					    paused.units - paused.done + G4_MIB / G4_PAGE_BYTES);
			}
			finish(&d);
			for (uint32_t k = 0; k < 20; k++)
				use(&m, &d);
			disks_unmount_fs(&d, dev, true);
			expect_everywhere(&d, &levels[l], &m);
			end_model(&m);
			disks_free(&d);
		}
}

/* Also by the command for a set that nobody uses. */
static void it_is_finished_offline(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		if (!takes(2, l))
			continue;
		const char *names[MOST_DISKS];
		struct g4_dev *dev;
		struct model m;
		struct disks d;
		uint32_t disk;
		begin_at(&d, &levels[l], &m, 0, false, &dev);
		for (uint32_t k = 0; k < 4; k++)
			step(&d);
		disks_unmount_fs(&d, dev, true);
		for (uint32_t n = 0; n < d.count; n++)
			names[n] = d.names[n];
		if (g4_rebuild_offline(names, d.count, true, NULL, &disk, d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
		assert_int_equal(disk, 0);
		expect_everywhere(&d, &levels[l], &m);
		/* the job finds that out */
		disks_mount_fs(&d, (1u << d.count) - 1, &dev);
		assert_int_equal(job_of(&d).state, G4_JOB_DONE);
		disks_unmount_fs(&d, dev, true);
		end_model(&m);
		disks_free(&d);
	}
}

/* A mount without the disk writes what it will never have: it can not go on where it was. */
static void a_disk_that_is_left_out_meanwhile_is_stale(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		if (!takes(3, l))
			continue;
		const uint32_t all = (1u << levels[l].disks) - 1;
		struct g4_dev *dev;
		struct model m;
		struct disks d;
		begin_at(&d, &levels[l], &m, 1, true, &dev);
		for (uint32_t k = 0; k < 3; k++)
			step(&d);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, all & ~2u, &dev);
		assert_int_equal(job_of(&d).state, G4_JOB_FAILED);
		assert_int_equal(job_of(&d).code, G4_E_NO_TARGET);
		for (uint32_t k = 0; k < 20; k++)
			use(&m, &d);
		disks_unmount_fs(&d, dev, true);
		assert_int_equal(disks_try_open(&d, all, true, 0, &dev), -G4_E_SB_DISKS);
		assert_non_null(strstr(d.message, "stale"));
		disks_mount_fs(&d, all & ~2u, &dev);
		begin(&d, G4_DISK_REBUILD, 1);
		assert_int_equal(job_of(&d).done, 0);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], &m);
		end_model(&m);
		disks_free(&d);
	}
}

/* ---- what fails meanwhile ---- */

/* Half way, not mounted. */
static void half_way(struct disks *d, const struct level *level, struct model *m)
{
	struct g4_dev *dev;

	begin_at(d, level, m, 1, true, &dev);
	for (uint32_t k = 0; k < 3; k++)
		step(d);
	disks_unmount_fs(d, dev, true);
}

static void a_disk_that_fails_while_it_is_rebuilt_ends_that(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t kind = 0; takes(4, l) && kind < 2; kind++) {
			const struct g4_fault fault = {.fail_write_at = kind ? 0 : 3, .fail_flush_at = kind ? 1 : 0};
			const uint32_t all = (1u << levels[l].disks) - 1;
			struct faulty f;
			struct model m;
			struct disks d;
			half_way(&d, &levels[l], &m);
			mount_faulty(&d, &f, NULL);
			g4_dev_fault_set(f.fault[1], &fault);
			while (job_of(&d).state == G4_JOB_RUNNING) {
				for (uint32_t k = 0; k < 5; k++)
					use(&m, &d);
				step(&d);
			}
			const struct g4_job_record job = job_of(&d);
			assert_int_equal(job.state, G4_JOB_FAILED);
			assert_true(job.code == G4_E_TARGET || job.code == G4_E_NO_TARGET);
			assert_int_equal(state_of(f.set, 1), G4_DISK_DROPPED);
			for (uint32_t k = 0; k < 20; k++)
				use(&m, &d);
			assert_int_equal(op_sync(&d.rig), 0);
			expect_model(&m, &d);
			disks_unmount_fs(&d, f.set, true);
			struct g4_dev *dev;
			assert_int_equal(disks_try_open(&d, all, true, 0, &dev), -G4_E_SB_DISKS);
			assert_non_null(strstr(d.message, "stale"));
			disks_mount_fs(&d, all & ~2u, &dev);
			expect_model(&m, &d);
			disks_unmount_fs(&d, dev, true);
			end_model(&m);
			disks_free(&d);
		}
}

/* Where the level tolerates two. */
static void another_disk_fails_while_one_is_rebuilt(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t at = 1; at < 60 && tolerated(&levels[l]) > 1; at += 9 * (uint32_t)rig_every(1)) {
			const struct g4_fault fault = {.fail_write_at = at};
			const uint32_t all = (1u << levels[l].disks) - 1;
			struct faulty f;
			struct model m;
			struct disks d;
			struct g4_dev *dev;
			half_way(&d, &levels[l], &m);
			mount_faulty(&d, &f, NULL);
			g4_dev_fault_set(f.fault[2], &fault);
			while (job_of(&d).state == G4_JOB_RUNNING) {
				for (uint32_t k = 0; k < 10; k++)
					use(&m, &d);
				step(&d);
			}
			assert_int_equal(job_of(&d).state, G4_JOB_DONE);
			while (state_of(f.set, 2) == G4_DISK_ACTIVE)
				use(&m, &d);
			expect_model(&m, &d);
			disks_unmount_fs(&d, f.set, true);
			disks_mount_fs(&d, all & ~4u, &dev);
			expect_model(&m, &d);
			/* and it is the next */
			begin(&d, G4_DISK_REBUILD, 2);
			finish(&d);
			disks_unmount_fs(&d, dev, true);
			expect_everywhere(&d, &levels[l], &m);
			end_model(&m);
			disks_free(&d);
		}
}

/* What can not be read of any other disk can not be rebuilt; users go on as they are. */
static void a_source_that_can_not_be_read_ends_it(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		if (!takes(6, l))
			continue;
		struct faulty f;
		struct model m;
		struct disks d;
		half_way(&d, &levels[l], &m);
		mount_faulty(&d, &f, NULL);
		/* each step's first read of each, or with parity all */
		const struct g4_fault fault = {.fail_read_at = 1, .bad_bytes = levels[l].parity ? UINT64_MAX : 0};
		while (job_of(&d).state == G4_JOB_RUNNING) {
			for (uint32_t n = 0; n < d.count; n++)
				if (n != 1)
					g4_dev_fault_set(f.fault[n], &fault);
			step(&d);
		}
		for (uint32_t n = 0; n < d.count; n++)
			g4_dev_fault_set(f.fault[n], &(struct g4_fault){.fail_read_at = 0});
		/* one failure of each is read again page by page */
		if (levels[l].parity) {
			assert_int_equal(job_of(&d).state, G4_JOB_FAILED);
			assert_int_equal(job_of(&d).code, G4_E_SOURCE);
			assert_int_equal(state_of(f.set, 1), G4_DISK_DROPPED);
		} else {
			assert_int_equal(job_of(&d).state, G4_JOB_DONE);
		}
		for (uint32_t k = 0; k < 20; k++)
			use(&m, &d);
		expect_model(&m, &d);
		disks_unmount_fs(&d, f.set, true);
		end_model(&m);
		disks_free(&d);
	}
}

/* ---- the power fails ---- */

#define PUTS 14u
struct cut {
	struct disks_order order;
	uint32_t begun[PUTS], durable[PUTS]; /* requests */
	uint32_t noting, noted;		     /* while its progress was made durable */
	uint32_t done;			     /* when the disk was as the others */
};

/* All that was synced before a request is there, or what came later. */
static void expect_puts(struct disks *d, const struct cut *c, uint32_t at, uint32_t which)
{
	for (uint32_t n = 0; n < PUTS; n++)
		if (c->durable[n] <= at && (n + FILES >= PUTS || c->begun[n + FILES] >= at) &&
		    disks_has(d, n % FILES, n) != 1)
			fail_msg("put %u (requests %u to %u) of %u disks is lost with disks %x at request %u: %d", n,
				 c->begun[n], c->durable[n], d->count, which, at, disks_has(d, n % FILES, n));
}

/* The power fails after a request and these disks are left: as they are found, and after what was begun is finished. */
static void judge_cut(struct disks *crashed, const struct level *level, const struct cut *c, uint32_t at,
		      uint32_t which, uint64_t *states)
{
	const uint32_t all = (1u << level->disks) - 1;
	struct g4_dev *dev;

	const int rc = disks_try_open(crashed, which, true, 0, &dev);
	if (rc < 0) { /* it counts for nothing before the end */
		if (at >= c->done || (uint32_t)__builtin_popcount(all & ~(which & ~2u)) <= tolerated(level))
			fail_msg("with disks %x at request %u of %u: %s", which, at, c->done, crashed->message);
		return;
	}
	g4_dev_close(dev);
	++*states;
	disks_mount_fs(crashed, which, &dev);
	expect_puts(crashed, c, at, which);
	if (which == all && job_of(crashed).state == G4_JOB_PAUSED)
		tell(crashed, G4_JOB_RESUME);
	if (which == all)
		finish(crashed);
	if (which == all && level->parity == 1) /* rows fit together, what the crash has cut short as well */
		assert_int_equal(disks_scrub(crashed), 0);
	assert_int_equal(disks_put(crashed, FILES, 1), 0);
	disks_unmount_fs(crashed, dev, true);
	disks_expect_clean(crashed, which);
	if (which != all)
		return;
	const uint32_t later = all & ~(1u << (at % 2 ? 0 : level->disks - 1)); /* it stands for another one */
	disks_mount_fs(crashed, later, &dev);
	expect_puts(crashed, c, at, later);
	disks_unmount_fs(crashed, dev, true);
	disks_expect_clean(crashed, later);
}

static void explore(const struct level *level, uint32_t every, uint64_t *states)
{
	struct cut *c = (struct cut *)calloc(1, sizeof(*c));
	const uint32_t all = (1u << level->disks) - 1;
	uint64_t random = 4711 + level->disks;
	uint8_t *start[MOST_DISKS];
	struct disks d, crashed;
	struct faulty f;
	struct model m;

	half_way(&d, level, &m);
	end_model(&m);
	keep_disks(&d, start);
	mount_faulty(&d, &f, &c->order);
	for (uint32_t n = 0; n < PUTS; n++) {
		c->begun[n] = c->order.count;
		assert_int_equal(disks_put(&d, n % FILES, n), 0);
		c->durable[n] = c->order.count;
		if (job_of(&d).state == G4_JOB_RUNNING)
			step(&d);
		if (n == 0) { /* its progress is durable here */
			c->noting = c->order.count;
			tell(&d, G4_JOB_PAUSE);
			c->noted = c->order.count;
			tell(&d, G4_JOB_RESUME);
		}
		if (!c->done && job_of(&d).state == G4_JOB_DONE)
			c->done = c->order.count;
	}
	assert_true(c->done > 0);
	disks_make(&crashed, level->disks, sizes);
	for (uint32_t at = 0; at <= c->order.count; at++)
		for (uint32_t which = 1; which <= all; which++) {
			const bool is_noting = c->noting <= at && at < c->noted && which == all;
			if (at % every != 0 && !is_noting)
				continue;
			if (level->disks - (uint32_t)__builtin_popcount(which) > tolerated(level))
				continue;
			disks_crash(&crashed, start, &f, &c->order, at, &random);
			judge_cut(&crashed, level, c, at, which, states);
		}
	disks_unmount_fs(&d, f.set, true);
	let_go(&d, start);
	disks_free(&crashed);
	disks_free(&d);
	free(c);
}

static void the_power_fails_at_any_request(void **state)
{
	const uint32_t every = (uint32_t)rig_setting("G4_CRASH_EVERY", 9 * rig_every(4));
	uint64_t states = 0;

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		if (takes(7, l))
			explore(&levels[l], every * (1 + tolerated(&levels[l])), &states);
	print_message("%llu states\n", (unsigned long long)states);
}

/* ---- what is refused ---- */

static void what_can_not_be_done_is_told(void **state)
{
	const struct level level = {3, 2, 0};
	struct g4_dev *dev;
	struct disks d, other;

	(void)state;
	format(&d, &level);
	format(&other, &level);
	disks_mount_fs(&d, 7, &dev);
	assert_int_equal(order(&d, G4_DISK_REPLACE, other.names[0]), -G4_E_INVAL);
	assert_non_null(strstr(d.message, "no disk is missing"));
	assert_int_equal(order(&d, G4_DISK_OFFLINE, other.names[0]), -G4_E_NOENT);
	begin(&d, G4_DISK_OFFLINE, 0);
	assert_int_equal(state_of(dev, 0), G4_DISK_DROPPED);
	assert_int_equal(order(&d, G4_DISK_OFFLINE, d.names[0]), -G4_E_NOENT);
	assert_int_equal(order(&d, G4_DISK_OFFLINE, d.names[1]), -G4_E_BUSY);
	assert_non_null(strstr(d.message, "do not have all"));
	assert_int_equal(order(&d, G4_DISK_REBUILD, other.names[0]), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "no disk of this file system"));
	assert_int_equal(ftruncate(other.fds[0], 8 * G4_MIB), 0);
	assert_int_equal(order(&d, G4_DISK_REPLACE, other.names[0]), -G4_E_DEV_SMALL);
	assert_int_equal(order(&d, G4_DISK_REBUILD, "/nowhere"), -G4_E_NOENT);
	assert_int_equal(order(&d, 77, d.names[0]), -G4_E_INVAL);
	assert_int_equal(job_of(&d).kind, G4_JOB_NONE);
	begin(&d, G4_DISK_REBUILD, 0);
	assert_int_equal(order(&d, G4_DISK_REPLACE, other.names[1]), -G4_E_BUSY);
	step(&d);
	tell(&d, G4_JOB_CANCEL);
	assert_int_equal(state_of(dev, 0), G4_DISK_DROPPED);
	assert_int_equal(job_of(&d).state, G4_JOB_CANCELLED);
	begin(&d, G4_DISK_REBUILD, 0);
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	disks_free(&other);
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_write_while_a_disk_is_rebuilt),
		cmocka_unit_test(threads_write_while_a_disk_is_rebuilt),
		cmocka_unit_test(nothing_is_copied_under_a_write),
		cmocka_unit_test(a_copy_is_not_kept_out_for_ever),
		cmocka_unit_test(nobody_writes_to_what_is_copied),
		cmocka_unit_test(it_goes_on_after_an_unmount_and_after_a_crash),
		cmocka_unit_test(it_is_finished_offline),
		cmocka_unit_test(a_disk_that_is_left_out_meanwhile_is_stale),
		cmocka_unit_test(a_disk_that_fails_while_it_is_rebuilt_ends_that),
		cmocka_unit_test(another_disk_fails_while_one_is_rebuilt),
		cmocka_unit_test(a_source_that_can_not_be_read_ends_it),
		cmocka_unit_test(the_power_fails_at_any_request),
		cmocka_unit_test(what_can_not_be_done_is_told),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
