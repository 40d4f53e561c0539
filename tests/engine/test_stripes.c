/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large writes to stripes with parity by several workgroups (data/store.c, space/direct.h): whole stripes that lie in a row are granted once and written in
 * pieces by whoever has nothing else to do. What is stored is what one workgroup stores; while a grant lasts nothing is asked of the device, who
 * has to wait for it does, and a process that is killed meanwhile loses nothing that was synced.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>

#include "helping.h"
#include "rebuilding.h"

#include "dev/agent_host.h"
#include "dev/dev_ops_host.h"
#include "fs/fs.h"
#include "space/set_rows_host.h"

#define DISKS 4u
#define EACH_BYTES (48 * G4_MIB)
#define FILE_BYTES (6 * G4_MIB)
#define FILES 6u /* that were synced before */

static struct disks d;
static struct g4_dev *set;
static uint8_t *data, *found; /* a page more than a file */
static uint64_t ino;

static uint32_t all_of(void)
{
	return (1u << d.count) - 1;
}

/* ------------------------------------------------------------------ the set, and who asks it for what */

static const struct g4_dev_ops *own_ops;
static struct g4_dev_ops watched_ops;
static uint64_t grants, granted_bytes; /* atomic */
static __thread uint32_t mine[64], mine_count;

/* Nothing is asked of the device by a thread that has a grant. */
static void expect_none_of_mine(void)
{
	while (mine_count > 0)
		assert_int_not_equal(g4_load32_acq_sys(&g4_dev_words(set)[mine[--mine_count]]), 0);
}

static int watched_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number)
{
	expect_none_of_mine();
	const int rc = own_ops->grant(wg, dev, address, bytes, number);
	if (rc == 0) {
		mine[mine_count++] = number & ~G4_DEV_GRANT_IN_USE;
		g4_add64(&grants, 1);
		g4_add64(&granted_bytes, bytes);
	}
	return rc;
}

static void watched_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	expect_none_of_mine();
	own_ops->submit(wg, dev, first);
}

static int watched_execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	expect_none_of_mine();
	return own_ops->execute(wg, dev, io);
}

static int watched_flush(struct g4_dev *dev)
{
	expect_none_of_mine();
	return own_ops->flush(dev);
}

static void watch(void)
{
	own_ops = set->ops;
	watched_ops = *own_ops;
	watched_ops.grant = watched_grant;
	watched_ops.submit = watched_submit;
	watched_ops.execute = own_ops->execute ? watched_execute : NULL;
	watched_ops.flush = watched_flush;
	set->ops = &watched_ops;
	mine_count = 0; /* what this thread had of another set, and asked that for nothing after */
	g4_store64_rel(&grants, 0);
	g4_store64_rel(&granted_bytes, 0);
}

static void make(uint32_t parity, uint32_t algorithm)
{
	uint64_t sizes[DISKS];

	for (uint32_t n = 0; n < DISKS; n++)
		sizes[n] = EACH_BYTES;
	disks_make(&d, DISKS, sizes);
	disks_format_rows(&d, parity, algorithm);
	disks_mount_fs(&d, all_of(), &set);
	assert_true(g4_direct_is_open(&d.rig.fs->space.direct));
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(&d, n, 1), 0);
	assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "large", G4_S_IFREG | 0600, &ino), 0);
	data = rig_memory(FILE_BYTES + G4_PAGE_BYTES, 11);
	found = rig_memory(FILE_BYTES + G4_PAGE_BYTES, 12);
}

static void expect_stored(struct disks *disks, uint64_t bytes)
{
	uint64_t done;

	memset(found, 0, bytes);
	assert_int_equal(op_read(&disks->rig, ino, 0, 0, found, bytes, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, data, bytes);
}

static void expect_rows_fit(struct disks *disks, struct g4_dev *dev)
{
	assert_int_equal(g4_space_check(disks->rig.wg, &disks->rig.fs->space, g4_page_address(0),
					g4_dev_props(dev)->size_bytes),
			 0);
}

/* With any disks lost that may be, what was synced is there; `bytes` of the large file, too. Where tests are slow each call has some of the cases. */
static void expect_survived(uint32_t parity, uint64_t bytes)
{
	static uint32_t calls;
	const uint32_t step = (uint32_t)disks_every(3);

	for (uint32_t lost = calls++ % step; lost < 1u << DISKS; lost += step) {
		static struct disks other;
		struct g4_dev *dev;

		if ((uint32_t)__builtin_popcount(lost) > parity)
			continue;
		disks_make(&other, DISKS, d.bytes);
		for (uint32_t n = 0; n < DISKS; n++)
			memcpy(other.memory[n], d.memory[n], d.bytes[n]);
		if (disks_try_open(&other, all_of() & ~lost, lost != 0, 0, &dev) < 0)
			fail_msg("%s", other.message);
		disks_begin_fs(&other, dev, 0);
		if (lost == 0)
			expect_rows_fit(&other, dev);
		disks_expect_files(&other, FILES, 1);
		expect_stored(&other, bytes);
		disks_unmount_fs(&other, dev, true);
		if (lost == 0)
			disks_expect_clean(&other, all_of());
		disks_free(&other);
	}
}

static void end(void)
{
	set->ops = own_ops;
	disks_unmount_fs(&d, set, true);
	disks_expect_clean(&d, all_of());
	disks_free(&d);
	free(data);
	free(found);
}

/* ------------------------------------------------------------------ tests */

static const struct kind {
	uint32_t parity, algorithm;
	bool dedup;
} kinds[] = {
	{1, G4_CHECKSUM_NONE, false}, {1, G4_CHECKSUM_BLAKE3, false}, {1, G4_CHECKSUM_BLAKE3, true},
	{2, G4_CHECKSUM_NONE, false}, {2, G4_CHECKSUM_BLAKE3, false},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void make_kind(const struct kind *kind)
{
	if (kind->dedup)
		setenv("G4_TEST_DEDUP", "1", 1);
	make(kind->parity, kind->algorithm);
	unsetenv("G4_TEST_DEDUP");
	watch();
}

static void one_grant_is_for_all_that_lies_in_a_row(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < KINDS; k++) {
		make_kind(&kinds[k]);
		start_helpers(d.rig.fs);
		for (uint64_t pages = 0; pages < 4; pages++) { /* not all begin where a stripe does */
			const uint64_t at = pages * 5 * G4_PAGE_BYTES, bytes = FILE_BYTES - at;
			rig_pattern(data + at, (uint32_t)(20 + pages), bytes);
			g4_store64_rel(&grants, 0);
			g4_store64_rel(&granted_bytes, 0);
			assert_int_equal(op_write(&d.rig, ino, 0, at, data + at, bytes, NULL), 0);
			/* a batch each, of 2 MiB where there are sums, and some more where what is free does not lie in a row */
			const uint64_t batches = kinds[k].algorithm == G4_CHECKSUM_NONE ? 1 : 4;
			assert_in_range(grants, 1, batches + 3);
			assert_in_range(granted_bytes, bytes / 10 * 9, bytes);
			expect_stored(&d, FILE_BYTES);
		}
		while (helped() == 0)
			assert_int_equal(op_write(&d.rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
		stop_helpers(d.rig.fs);
		assert_int_equal(op_sync(&d.rig), 0);
		expect_rows_fit(&d, set);
		expect_survived(kinds[k].parity, FILE_BYTES);
		end();
	}
}

/* Who would only wait longer does something else: the owner writes what nobody helps with. */
static void no_more_help_than_the_host_s_memory_takes(void **state)
{
	(void)state;
	make_kind(&kinds[0]);
	struct g4_split *split = &d.rig.fs->split;
	g4_store32_rel(&split->stripe_helpers, G4_SPLIT_STRIPE_HELPERS);
	start_helpers(d.rig.fs);
	for (uint32_t turn = 0; turn < 8; turn++)
		assert_int_equal(op_write(&d.rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	assert_int_equal(helped(), 0);
	expect_stored(&d, FILE_BYTES);
	g4_store32_rel(&split->stripe_helpers, 0);
	while (helped() == 0)
		assert_int_equal(op_write(&d.rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	stop_helpers(d.rig.fs);
	expect_stored(&d, FILE_BYTES);
	assert_int_equal(op_sync(&d.rig), 0);
	expect_rows_fit(&d, set);
	end();
}

/* Behind an agent, in the way that a GPU's lanes go. */
static void few_requests_go_through_an_agent(void **state)
{
	struct g4_dev *remote;

	(void)state;
	make(1, G4_CHECKSUM_NONE);
	own_ops = set->ops;
	disks_unmount_fs(&d, set, true);
	assert_int_equal(disks_try_open(&d, all_of(), false, 0, &set), 0);
	assert_int_equal(g4_dev_remote_open(set, NULL, &remote), 0);
	disks_begin_fs(&d, remote, 0);
	assert_true(g4_direct_is_open(&d.rig.fs->space.direct));
	struct g4_agent *agent = g4_dev_remote_agent(remote);
	start_helpers(d.rig.fs);
	const uint64_t before = g4_agent_counts(agent).requests;
	assert_int_equal(op_write(&d.rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	const uint64_t after = g4_agent_counts(agent).requests;
	stop_helpers(d.rig.fs);
	assert_in_range(after - before, 1, 2 * 3); /* a grant, and what is no whole stripe, of two rows at most */
	expect_stored(&d, FILE_BYTES);
	set = remote;
	own_ops = remote->ops;
	end();
}

/* A large write that is on its way, with pieces that helpers keep. */
static struct writer {
	pthread_t thread;
	struct rig rig;
	uint32_t returned; /* atomic */
	int rc;
} writer;

static void *write_large(void *unused)
{
	(void)unused;
	writer.rc = op_write(&writer.rig, ino, 0, 0, data, FILE_BYTES, NULL);
	g4_store32_rel(&writer.returned, 1);
	return NULL;
}

static void begin_writing(void)
{
	g4_store32_rel(&hold, 1);
	start_helpers(d.rig.fs);
	writer.rig = d.rig;
	writer.rig.wg = g4_wg_create(7);
	do { /* again where it was done before a helper came */
		g4_store32_rel(&writer.returned, 0);
		assert_int_equal(pthread_create(&writer.thread, NULL, write_large, NULL), 0);
		while (g4_load32_acq(&holders) == 0 && !g4_load32_acq(&writer.returned))
			sched_yield();
		if (g4_load32_acq(&holders) == 0)
			pthread_join(writer.thread, NULL);
	} while (g4_load32_acq(&holders) == 0);
	/* all other pieces are written, and the grant lasts */
	while (g4_load64_acq(&d.rig.fs->split.open) != 0)
		sched_yield();
	assert_int_equal(g4_load32_acq(&writer.returned), 0);
}

static void end_writing(void)
{
	g4_store32_rel(&hold, 0);
	pthread_join(writer.thread, NULL);
	g4_wg_destroy(writer.rig.wg);
	assert_int_equal(writer.rc, 0);
	stop_helpers(d.rig.fs);
}

static void who_is_killed_before_all_pieces_are_written_loses_nothing(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < KINDS; k++) {
		make_kind(&kinds[k]);
		assert_int_equal(op_write(&d.rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
		assert_int_equal(op_sync(&d.rig), 0);
		uint8_t *old = data;
		data = rig_memory(FILE_BYTES + G4_PAGE_BYTES, 99);
		uint8_t *new = data;
		begin_writing();
		data = old;
		expect_survived(kinds[k].parity, FILE_BYTES);
		data = new;
		end_writing();
		expect_stored(&d, FILE_BYTES);
		free(old);
		end();
	}
}

static struct other {
	pthread_t thread;
	struct g4_wg *wg;
	uint32_t returned; /* atomic */
	int rc;
} other;

static void *empty_the_log(void *unused)
{
	struct g4_set *host = (struct g4_set *)set->host;

	(void)unused;
	pthread_rwlock_wrlock(&host->parity->lock);
	other.rc = g4_set_log_empty(other.wg, host);
	pthread_rwlock_unlock(&host->parity->lock);
	g4_store32_rel(&other.returned, 1);
	return NULL;
}

static void *give_an_order(void *unused)
{
	struct disks theirs = d;

	(void)unused;
	theirs.rig.wg = other.wg;
	other.rc = order(&theirs, G4_DISK_OFFLINE, d.names[1]);
	g4_store32_rel(&other.returned, 1);
	return NULL;
}

static void orders_and_the_log_wait_for_all_pieces(void **state)
{
	(void)state;
	for (uint32_t turn = 0; turn < 2; turn++) {
		make_kind(&kinds[0]);
		begin_writing();
		other.wg = g4_wg_create(8);
		g4_store32_rel(&other.returned, 0);
		assert_int_equal(pthread_create(&other.thread, NULL, turn ? give_an_order : empty_the_log, NULL), 0);
		if (turn) { /* until it has shut the gate */
			while (g4_direct_is_open(&d.rig.fs->space.direct)) {
				assert_int_equal(g4_load32_acq(&other.returned), 0);
				sched_yield();
			}
		} else { /* until it has the lock of rows */
			pthread_rwlock_t *lock = &((struct g4_set *)set->host)->parity->lock;
			while (pthread_rwlock_tryrdlock(lock) == 0) {
				pthread_rwlock_unlock(lock);
				assert_int_equal(g4_load32_acq(&other.returned), 0);
				sched_yield();
			}
		}
		for (uint32_t k = 0; k < 1000; k++) {
			assert_int_equal(g4_load32_acq(&other.returned), 0);
			sched_yield();
		}
		end_writing();
		pthread_join(other.thread, NULL);
		g4_wg_destroy(other.wg);
		assert_int_equal(other.rc, 0);
		expect_stored(&d, FILE_BYTES);
		if (turn) { /* what was written by lanes makes up for the disk that is gone now */
			assert_int_equal(d.rig.fs->space.direct.table.missing, 1);
			begin(&d, G4_DISK_REBUILD, 1);
			finish(&d);
		}
		expect_rows_fit(&d, set);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_grant_is_for_all_that_lies_in_a_row),
		cmocka_unit_test(no_more_help_than_the_host_s_memory_takes),
		cmocka_unit_test(few_requests_go_through_an_agent),
		cmocka_unit_test(who_is_killed_before_all_pieces_are_written_loses_nothing),
		cmocka_unit_test(orders_and_the_log_wait_for_all_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
