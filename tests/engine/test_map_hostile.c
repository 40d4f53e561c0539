/* SPDX-License-Identifier: Apache-2.0 */
/* Shared indirect pages where it is tight: many groups, a small journal, a device that is almost full. */
#include <pthread.h>

#include "damage.h"
#include "rig.h"

#include "data/map.h"
#include "format/indirect.h"
#include "fs/fs.h"
#include "fs/jobs.h"
#include "fs/super.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define LARGE (512u * G4_PAGE_BYTES)

static struct rig rig;
static uint8_t *data;

static void begin(uint32_t checksum, uint32_t dedup, uint64_t bytes, uint64_t cache_bytes)
{
	rig_open_as(&rig, checksum, dedup, bytes, 2 * G4_MIB);
	if (cache_bytes)
		rig.cache_bytes = cache_bytes;
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	data = rig_memory(LARGE, 1);
}

static void unmount(const char *when)
{
	struct g4_statfs statfs;

	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
	assert_int_equal(rig.fs->journal.aborted, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_expect_clean(&rig, statfs.blocks_free, when);
}

static int teardown(void **state)
{
	(void)state;
	if (rig.fs)
		unmount("at the end");
	rig_close(&rig);
	g4_wg_destroy(rig.wg);
	free(data);
	return 0;
}

static uint64_t make(const char *name)
{
	uint64_t ino;

	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	return ino;
}

static void put(uint64_t ino, uint64_t page, uint32_t pages, uint64_t seed)
{
	uint64_t done = 0;

	rig_pattern(data, seed, (uint64_t)pages * G4_PAGE_BYTES);
	for (uint64_t at = 0; at < (uint64_t)pages * G4_PAGE_BYTES; at += done)
		assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES + at, data + at,
					  (uint64_t)pages * G4_PAGE_BYTES - at, &done),
				 0);
}

static void copy(uint64_t from, uint64_t to, uint64_t bytes)
{
	uint64_t in, out, copied = 0, done = 0;

	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to, G4_OPEN_WRITE, &out), 0);
	for (; copied < bytes; copied += done)
		assert_int_equal(op_copy(&rig, in, copied, out, copied, bytes - copied, &done), 0);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
}

static int setup_groups(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_NONE, 0, 1536 * G4_MIB, 2 * G4_MIB);
	return 0;
}

static int setup_groups_sums(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_BLAKE3, 0, 1536 * G4_MIB, 2 * G4_MIB);
	return 0;
}

/* Large pages in so many groups as may be lent, and single pages in as many regions: a write finds room, which there is. */
static void what_was_lent_can_be_changed(void **state)
{
	const uint32_t parts = (uint32_t)rig_setting("G4_PARTS", 20);
	const uint64_t a = make("a"), b = make("b");
	char name[16];

	(void)state;
	for (uint32_t k = 0; k < parts; k++) {
		put(a, (uint64_t)k * 512, 512, k + 1);
		if (k % 5 == 0)
			put(a, (uint64_t)(40 + k / 5) * 512, 7, 100 + k);
		assert_int_equal(op_fsync(&rig, a), 0);
		snprintf(name, sizeof(name), "fill%u", k);
		assert_int_equal(op_fallocate(&rig, make(name), 0, 0, 56 * G4_MIB), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 0; k < parts; k++)
		copy(a, b, (uint64_t)43 * LARGE + 7 * G4_PAGE_BYTES);
	unmount("after the copy");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	put(b, 3, 1, 777);
	put(b, 41 * 512 + 3, 1, 778);
	assert_int_equal(op_sync(&rig), 0);
	unmount("after changes");
}

static int setup_dedup(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_BLAKE3, 1, 400 * G4_MIB, 0);
	return 0;
}

#define SINGLE 40u

/* Takes all space but what single pages of small files have, each of which can be given back. */
static void fill(void)
{
	char name[16];

	for (uint32_t k = 0; k < SINGLE; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		const uint64_t ino = make(name);
		put(ino, 0, 1, 1000 + k);
		assert_int_equal(op_fsync(&rig, ino), 0);
	}
	const uint64_t filler = make("filler");
	uint64_t at = 0;
	for (uint64_t bytes = 64 * G4_MIB; bytes >= G4_PAGE_BYTES;) {
		const int rc = op_fallocate(&rig, filler, 0, at, bytes);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		at += rc == 0 ? bytes : 0;
		bytes = rc == 0 ? bytes : bytes / 2;
	}
	assert_int_equal(op_sync(&rig), 0);
}

/* A large write that is deduplicated, into a file whose indirect page can not be copied: it is refused, and all goes on. */
static void a_staged_write_finds_no_room_for_a_copy(void **state)
{
	const uint64_t a = make("a"), b = make("b");
	char name[16];
	uint64_t done;
	uint32_t refused = 0;
	int rc = -G4_E_NOSPC;

	(void)state;
	assert_int_equal(op_setxattr(&rig, a, "gpu4fs.dedup", "off", 3, 0), 0);
	for (uint32_t k = 0; k < 4; k++) {
		put(a, 100 * k, 8, 50 + k);
		assert_int_equal(op_fsync(&rig, a), 0);
		assert_int_equal(op_fallocate(&rig, a, 0, 2 * G4_MIB + k * 64 * G4_MIB, 64 * G4_MIB), 0);
	}
	copy(a, b, 308 * G4_PAGE_BYTES);
	assert_int_equal(op_sync(&rig), 0);
	fill();
	for (uint32_t k = 0; k < SINGLE && rc == -G4_E_NOSPC; k++) {
		rig_pattern(data, 5000 + k, 64 * G4_PAGE_BYTES);
		rc = op_write(&rig, b, 0, 0, data, 64 * G4_PAGE_BYTES, &done);
		assert_int_equal(rig.fs->journal.aborted, 0);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		refused += rc != 0;
		snprintf(name, sizeof(name), "s%u", k);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
		assert_int_equal(op_sync(&rig), 0);
	}
	assert_int_equal(rc, 0);
	assert_true(refused > 0);
}

static uint32_t stop;

static void *come_and_go(void *arg)
{
	uint8_t *bytes = rig_memory(16 * G4_PAGE_BYTES, 77);
	uint64_t ino = *(uint64_t *)arg, n = 0, done;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		(void)op_truncate(&rig, ino, 0);
		(void)op_sync(&rig);
		memcpy(bytes, &n, sizeof(n));
		for (uint32_t k = 0; k < 16; k++)
			memcpy(bytes + k * G4_PAGE_BYTES, &n, sizeof(n)), n++;
		(void)op_write(&rig, ino, 0, 0, bytes, (n / 16 % 14 + 2) * G4_PAGE_BYTES, &done);
		(void)op_fsync(&rig, ino);
	}
	free(bytes);
	return NULL;
}

/* The same while others give space back and take it. */
static void staged_writes_on_a_full_device(void **state)
{
	const uint64_t a = make("a"), b = make("b");
	uint64_t come[3], done;
	pthread_t threads[3];
	uint32_t refused = 0;
	char name[16];

	(void)state;
	assert_int_equal(op_setxattr(&rig, a, "gpu4fs.dedup", "off", 3, 0), 0);
	for (uint32_t k = 0; k < 4; k++) {
		put(a, 100 * k, 8, 50 + k);
		assert_int_equal(op_fsync(&rig, a), 0);
		assert_int_equal(op_fallocate(&rig, a, 0, 2 * G4_MIB + k * 64 * G4_MIB, 64 * G4_MIB), 0);
	}
	fill();
	for (uint32_t k = 0; k < 3; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, name, &(struct g4_attr){0}), 0);
		come[k] = make(name + 1);
	}
	for (uint32_t k = 0; k < 30; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_mount(&rig);
	stop = 0;
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, come_and_go, &come[k]), 0);
	for (uint32_t k = 0; k < 3000; k++) {
		uint64_t in, out;
		if (op_truncate(&rig, b, 0) != 0)
			fail_msg("truncate");
		assert_int_equal(op_open(&rig, a, G4_OPEN_READ, &in), 0);
		assert_int_equal(op_open(&rig, b, G4_OPEN_WRITE, &out), 0);
		int rc = op_copy(&rig, in, 0, out, 0, 308 * G4_PAGE_BYTES, &done);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		assert_int_equal(op_release(&rig, in), 0);
		assert_int_equal(op_release(&rig, out), 0);
		rig_pattern(data, 5000 + k, 64 * G4_PAGE_BYTES);
		rc = op_write(&rig, b, 0, 0, data, 64 * G4_PAGE_BYTES, &done);
		if (rc != 0 && rc != -G4_E_NOSPC)
			fail_msg("%d in round %u, %u refused", rc, k, refused);
		refused += rc != 0;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(pthread_join(threads[k], NULL), 0);
	printf("%u refused\n", refused);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after all");
}

/* ------------------------------------------------------------------ sums that come later */

static int setup_late(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_NONE, 0, 96 * G4_MIB, 0);
	return 0;
}

static void expect(uint64_t ino, uint64_t page, uint32_t pages, uint64_t seed)
{
	uint8_t *bytes = rig_memory((uint64_t)pages * G4_PAGE_BYTES, 1);
	uint64_t done;

	rig_pattern(data, seed, (uint64_t)pages * G4_PAGE_BYTES);
	for (uint64_t at = 0; at < (uint64_t)pages * G4_PAGE_BYTES; at += done) {
		assert_int_equal(op_read(&rig, ino, 0, page * G4_PAGE_BYTES + at, bytes + at,
					 (uint64_t)pages * G4_PAGE_BYTES - at, &done),
				 0);
		assert_true(done > 0);
	}
	assert_memory_equal(bytes, data, (uint64_t)pages * G4_PAGE_BYTES);
	free(bytes);
}

static void expect_all(uint64_t ino)
{
	for (uint32_t k = 0; k < 12; k++)
		expect(ino, (uint64_t)k * 512, 512, k + 1);
	for (uint32_t k = 0; k < 60; k++)
		expect(ino, 20 * 512 + 2 * k, 1, 200 + k);
}

/* A scrub gives sums to files that share their maps, while they have dirty pages, and each keeps what it has. */
static void a_scrub_adds_sums(void **state)
{
	uint64_t inos[4];
	const char *names[4] = {"a", "b", "c", "d"};
	struct g4_health health;

	(void)state;
	for (uint32_t k = 0; k < 4; k++)
		inos[k] = make(names[k]);
	for (uint32_t k = 0; k < 12; k++)
		put(inos[0], (uint64_t)k * 512, 512, k + 1);
	for (uint32_t k = 0; k < 60; k++)
		put(inos[0], 20 * 512 + 2 * k, 1, 200 + k);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 1; k < 4; k++)
		copy(inos[0], inos[k], (20 * 512 + 119) * G4_PAGE_BYTES);
	unmount("after copies");
	for (uint32_t k = 1; k < 4; k++)
		assert_true(damage_inode(&rig, inos[k])->map[0] == damage_inode(&rig, inos[0])->map[0]);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(g4_super_add_feature(rig.wg, rig.fs, G4_FEATURE_INCOMPAT_SUMS), 0);
	rig.fs->super.policy = g4_policy_of(G4_CHECKSUM_BLAKE3);
	assert_int_equal(g4_super_write(rig.wg, rig.fs, g4_layout_backup(&rig.fs->meta.layout)), 0);
	assert_int_equal(g4_super_write(rig.wg, rig.fs, G4_SUPERBLOCK), 0);
	put(inos[1], 20 * 512 + 6, 1, 203);
	put(inos[2], 512, 60, 2);
	struct g4_cmd cmd = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB, .flags = G4_JOB_ADD_SUMS};
	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
	while (rig_last_job(&rig, &health)->state == G4_JOB_RUNNING)
		assert_int_equal(g4_jobs_serve(rig.wg, rig.fs, true), 0);
	for (uint32_t k = 0; k < 4; k++)
		expect(inos[k], 0, 8, 1);
	for (uint32_t k = 0; k < 4; k++)
		expect_all(inos[k]);
	unmount("after the scrub");
	char *text = NULL;
	const struct rig_data seen = rig_fsck_data(&rig, 1, &text);
	free(text);
	assert_int_equal(seen.problems, 0);
	assert_int_equal(seen.without, 0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	for (uint32_t k = 0; k < 4; k++) {
		expect_all(inos[k]);
		copy(inos[(k + 1) % 4], inos[k], (20 * 512 + 119) * G4_PAGE_BYTES);
		put(inos[k], 20 * 512 + 2, 1, 201);
		expect_all(inos[k]);
	}
}

/* The same while the device is full, and making room for a copy writes back what is dirty elsewhere in the file. */
static void a_scrub_adds_sums_where_there_is_no_room(void **state)
{
	const uint64_t a = make("a"), b = make("b"), drain = make("drain");
	struct g4_health health;
	uint64_t at = 0;

	(void)state;
	for (uint32_t k = 0; k < 100; k++) {
		put(a, 2 * k, 1, k + 1);
		put(a, 512 + 2 * k, 1, k + 300);
	}
	assert_int_equal(op_sync(&rig), 0);
	copy(a, b, (512 + 199) * G4_PAGE_BYTES);
	put(b, 512, 1, 300);
	assert_int_equal(g4_super_add_feature(rig.wg, rig.fs, G4_FEATURE_INCOMPAT_SUMS), 0);
	rig.fs->super.policy = g4_policy_of(G4_CHECKSUM_BLAKE3);
	assert_int_equal(op_setxattr(&rig, a, "gpu4fs.checksum", "none", 4, 0), 0);
	const uint64_t spare = make("spare");
	for (uint32_t k = 0; k < 4; k++)
		put(spare, 512 * k, 512, 5);
	assert_int_equal(op_sync(&rig), 0);
	fill();
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "spare"), 0);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 0; k < 100; k++)
		put(b, 512 + 2 * k, 1, k + 300);
	for (uint32_t k = 0; k < 90; k++)
		put(b, 512 + 2 * k + 1, 1, k + 300);
	assert_int_equal(rig.fs->dirty_pages, 190);
	for (;;) {
		const struct g4_alloc *alloc = &rig.fs->alloc;
		const uint64_t left = alloc->free_pages - alloc->reserved - g4_alloc_keep(alloc);
		if (left == 0 || left > 100000)
			break;
		const uint64_t pages = left > 20 ? left - 12 : 1;
		assert_int_equal(op_fallocate(&rig, drain, 0, at, pages * G4_PAGE_BYTES), 0);
		at += pages * G4_PAGE_BYTES;
	}
	struct g4_cmd cmd = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB, .flags = G4_JOB_ADD_SUMS};
	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
	int rc = 0;
	while (rig_last_job(&rig, &health)->state == G4_JOB_RUNNING && rc == 0)
		rc = g4_jobs_serve(rig.wg, rig.fs, true);
	assert_int_equal(rig.fs->dirty_pages, 0); /* that was written back for it */
	for (uint32_t k = 0; k < 100; k++) {
		expect(a, 2 * k, 1, k + 1);
		expect(b, 2 * k, 1, k + 1);
		expect(b, 512 + 2 * k, 1, k + 300);
	}
}

/* Space for what has space already needs none, and leaves what is shared as it is. */
static void nothing_is_allocated_where_all_is_there(void **state)
{
	const uint64_t a = make("a"), b = make("b");

	(void)state;
	put(a, 0, 300, 5);
	put(a, 512, 300, 6);
	assert_int_equal(op_sync(&rig), 0);
	copy(a, b, 812 * G4_PAGE_BYTES);
	fill();
	assert_int_equal(op_fallocate(&rig, b, 0, 0, 300 * G4_PAGE_BYTES), 0);
	expect(b, 0, 300, 5);
	expect(b, 512, 300, 6);
	unmount("after allocation");
	assert_true(damage_inode(&rig, a)->map[0] == damage_inode(&rig, b)->map[0]);
	assert_true(damage_inode(&rig, a)->map[1] == damage_inode(&rig, b)->map[1]);
}

/* On a full device all of a file's contents can go by a hole, as by an end: what goes as a whole needs no space. */
static void a_hole_for_all_needs_no_space(void **state)
{
	const uint64_t a = make("a"), b = make("b");

	(void)state;
	put(a, 0, 300, 5);
	put(a, 512, 300, 6);
	assert_int_equal(op_sync(&rig), 0);
	copy(a, b, 812 * G4_PAGE_BYTES);
	fill();
	assert_int_equal(
		op_fallocate(&rig, b, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, 812 * (uint64_t)G4_PAGE_BYTES), 0);
	expect(a, 0, 300, 5);
	expect(a, 512, 300, 6);
}

/* Nor does an end that nothing is behind. */
static void an_end_behind_all_needs_no_space(void **state)
{
	const uint64_t a = make("a"), b = make("b");

	(void)state;
	put(a, 0, 300, 5);
	assert_int_equal(op_truncate(&rig, a, 2000 * (uint64_t)G4_PAGE_BYTES + 77), 0);
	assert_int_equal(op_sync(&rig), 0);
	copy(a, b, 2000 * G4_PAGE_BYTES + 77);
	fill();
	assert_int_equal(op_truncate(&rig, b, 1000 * (uint64_t)G4_PAGE_BYTES + 77), 0);
	assert_int_equal(op_truncate(&rig, b, 400 * (uint64_t)G4_PAGE_BYTES), 0);
	assert_int_equal(op_truncate(&rig, b, 300 * (uint64_t)G4_PAGE_BYTES), 0);
	expect(a, 0, 300, 5);
	expect(b, 0, 300, 5);
	unmount("after ends");
	assert_true(damage_inode(&rig, a)->map[0] == damage_inode(&rig, b)->map[0]);
}

/* Space in a file's second GiB: a page of level 2 of its own, whatever is in front of it. */
#define BEHIND (512u * 512u)

/* A hole that ends inside 2 MiB of a shared page of level 2 leaves what is behind it there, which nothing follows in other 2 MiB. */
static void a_hole_leaves_what_is_behind_it(void **state)
{
	const uint64_t a = make("a"), b = make("b"), c = make("c");
	const uint32_t punch = G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE;

	(void)state;
	put(a, BEHIND, 100, 5);
	put(a, BEHIND + 700, 200, 6);
	assert_int_equal(op_sync(&rig), 0);
	copy(a, b, (BEHIND + 900) * (uint64_t)G4_PAGE_BYTES);
	copy(a, c, (BEHIND + 900) * (uint64_t)G4_PAGE_BYTES);
	unmount("after copies");
	assert_true(damage_inode(&rig, a)->map[1] == damage_inode(&rig, b)->map[1]);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(op_fallocate(&rig, b, punch, BEHIND * (uint64_t)G4_PAGE_BYTES, 700 * (uint64_t)G4_PAGE_BYTES),
			 0);
	expect(b, BEHIND + 700, 200, 6);
	unmount("after the hole");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	expect(b, BEHIND + 700, 200, 6);
	expect(a, BEHIND, 100, 5);
	expect(a, BEHIND + 700, 200, 6);
	/* and for all of it none of it has to be copied */
	fill();
	assert_int_equal(op_fallocate(&rig, c, punch, BEHIND * (uint64_t)G4_PAGE_BYTES, 900 * (uint64_t)G4_PAGE_BYTES),
			 0);
	expect(a, BEHIND + 700, 200, 6);
}

/* ------------------------------------------------------------------ power cuts */

#define CUT_BYTES (16 * G4_MIB)
static uint64_t cut_files[5];
static uint8_t *image, *whole, *found;
#define KEPT (1100u * G4_PAGE_BYTES)

static int setup_cuts(void **state)
{
	(void)state;
	begin((uint32_t)rig_setting("G4_CUT_SUM", G4_CHECKSUM_BLAKE3), 0, CUT_BYTES, 0);
	return 0;
}

static int script(uint32_t variant)
{
	const uint64_t a = cut_files[0], b = cut_files[1], c = cut_files[2];
	int rc = 0;

	rig_pattern(data, 99, 16 * G4_PAGE_BYTES);
	switch (variant) {
	case 0:
		rc = op_write(&rig, b, 0, 3 * G4_PAGE_BYTES, data, 4 * G4_PAGE_BYTES, NULL);
		rc = rc ? rc : op_fsync(&rig, b);
		rc = rc ? rc : op_write(&rig, c, 0, 700 * G4_PAGE_BYTES, data, 4 * G4_PAGE_BYTES, NULL);
		rc = rc ? rc : op_sync(&rig);
		rc = rc ? rc : op_unlink(&rig, G4_NODE_ROOT, "a");
		rc = rc ? rc : op_sync(&rig);
		rc = rc ? rc : op_write(&rig, b, 0, 5 * G4_PAGE_BYTES, data, 4 * G4_PAGE_BYTES, NULL);
		return rc ? rc : op_sync(&rig);
	case 1:
		rc = op_unlink(&rig, G4_NODE_ROOT, "a");
		rc = rc ? rc : op_unlink(&rig, G4_NODE_ROOT, "b");
		rc = rc ? rc :
			  op_fallocate(&rig, c, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 20 * G4_PAGE_BYTES,
				       900 * G4_PAGE_BYTES);
		return rc ? rc : op_sync(&rig);
	case 2:
		rc = op_fallocate(&rig, b, G4_FALLOC_INSERT_RANGE, 4 * G4_PAGE_BYTES, 7 * G4_PAGE_BYTES);
		rc = rc ? rc : op_fallocate(&rig, c, G4_FALLOC_COLLAPSE_RANGE, 4 * G4_PAGE_BYTES, 7 * G4_PAGE_BYTES);
		return rc ? rc : op_sync(&rig);
	case 3:
		rc = op_truncate(&rig, b, 600 * G4_PAGE_BYTES + 77);
		rc = rc ? rc : op_truncate(&rig, a, 5 * G4_PAGE_BYTES + 77);
		rc = rc ? rc : op_fsync(&rig, a);
		rc = rc ? rc : op_truncate(&rig, c, 0);
		return rc ? rc : op_sync(&rig);
	case 4: /* of three that lead to the same below pages of their own two leave, and the third gives up all by holes */
		rc = op_write(&rig, a, 0, 3 * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL);
		rc = rc ? rc : op_write(&rig, b, 0, 700 * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL);
		rc = rc ? rc : op_sync(&rig);
		rc = rc ? rc : op_unlink(&rig, G4_NODE_ROOT, "a");
		rc = rc ? rc : op_sync(&rig);
		rc = rc ? rc :
			  op_fallocate(&rig, c, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, 9003 * G4_PAGE_BYTES);
		rc = rc ? rc : op_unlink(&rig, G4_NODE_ROOT, "b");
		rc = rc ? rc :
			  op_fallocate(&rig, c, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, 9009 * G4_PAGE_BYTES);
		return rc ? rc : op_sync(&rig);
	default:
		rc = op_fallocate(&rig, a, G4_FALLOC_INSERT_RANGE, 0, 512 * G4_PAGE_BYTES);
		rc = rc ? rc : op_sync(&rig);
		rc = rc ? rc : op_fallocate(&rig, b, G4_FALLOC_COLLAPSE_RANGE, 0, 512 * G4_PAGE_BYTES);
		rc = rc ? rc : op_sync(&rig);
		return rc;
	}
}

static void power_cuts(void **state)
{
	uint64_t cuts = 0;
	const char *names[5] = {"a", "b", "c", "d", "e"};

	(void)state;
	image = (uint8_t *)malloc(CUT_BYTES);
	whole = (uint8_t *)malloc(KEPT);
	found = rig_memory(KEPT, 1);
	for (uint32_t k = 0; k < 5; k++)
		cut_files[k] = make(names[k]);
	for (uint32_t k = 0; k < 40; k++) {
		put(cut_files[0], 2 * k, 1, k + 1);
		put(cut_files[0], 512 + 3 * k, 2, k + 100);
	}
	put(cut_files[0], 1024, 76, 9);
	put(cut_files[0], 9000, 9, 10); /* two levels */
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 1; k < 5; k++)
		copy(cut_files[0], cut_files[k], 9009 * G4_PAGE_BYTES);
	uint64_t done;
	assert_int_equal(op_read(&rig, cut_files[3], 0, 0, found, KEPT, &done), 0);
	assert_int_equal(done, KEPT);
	memcpy(whole, found, KEPT);
	unmount("before cuts");
	rig_copy(image, rig.image, CUT_BYTES);
	for (uint32_t variant = 0; variant < 6; variant++) {
		bool through = false;
		for (uint64_t n = 1; !through; n++) {
			for (uint32_t rule = 0; rule < 5; rule++) {
				const struct g4_fault fault = {.cut_after_writes = n,
							       .keep_unflushed = rule == 0 || rule == 3,
							       .cut_inside = rule == 2 || rule == 3,
							       .seed = rule == 4 || rule == 2 ? n * 77 + 1 : 0};
				struct g4_statfs statfs;
				rig_copy(rig.image, image, CUT_BYTES);
				if (rig_try_mount_fs(&rig, rig.wg, &fault, &rig.fs) == 0) {
					through = script(variant) == 0;
					rig_unmount_fs(&rig, rig.wg, rig.fs, false);
				}
				rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
				memset(found, 0, KEPT);
				assert_int_equal(op_read(&rig, cut_files[3], 0, 0, found, KEPT, &done), 0);
				if (memcmp(found, whole, KEPT) != 0)
					fail_msg("variant %u, cut at %lu, rule %u", variant, (unsigned long)n, rule);
				for (uint32_t k = 0; k < 3; k++)
					(void)op_write(&rig, cut_files[k], 0, 5000, "word", 4, NULL);
				assert_int_equal(op_sync(&rig), 0);
				assert_int_equal(op_statfs(&rig, &statfs), 0);
				assert_int_equal(rig.fs->alloc.reserved, 0);
				assert_int_equal(rig.fs->journal.aborted, 0);
				rig_unmount_fs(&rig, rig.wg, rig.fs, true);
				rig.fs = NULL;
				char text[60];
				snprintf(text, sizeof(text), "variant %u, cut at %lu, rule %u", variant,
					 (unsigned long)n, rule);
				rig_expect_clean(&rig, statfs.blocks_free, text);
				cuts++;
			}
		}
	}
	free(image);
	free(whole);
	free(found);
}

/* ------------------------------------------------------------------ together */

#define SHARERS 4u
#define ROUNDS 60u
static uint64_t together[SHARERS];
static uint64_t source;

static void check_page(uint64_t ino, uint64_t page, uint64_t first, uint64_t second)
{
	static __thread uint8_t bytes[G4_PAGE_BYTES] __attribute__((aligned(4096)));
	static __thread uint8_t wanted[G4_PAGE_BYTES];
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, page * G4_PAGE_BYTES, bytes, G4_PAGE_BYTES, &done), 0);
	rig_pattern(wanted, first, G4_PAGE_BYTES);
	if (memcmp(bytes, wanted, G4_PAGE_BYTES) == 0)
		return;
	rig_pattern(wanted, second, G4_PAGE_BYTES);
	if (memcmp(bytes, wanted, G4_PAGE_BYTES) != 0)
		fail_msg("page %lu of %lx", (unsigned long)page, (unsigned long)ino);
}

/*
 * What a page of a copy of a copy may be: the source's, or what one of the others has written there. A copy of another one's file is several commands, between
 * which that one may be cut to nothing, written to and filled again: so there may be `holes` in it.
 */
static bool is_any(const uint8_t *bytes, uint64_t n, bool holes)
{
	static __thread uint8_t wanted[G4_PAGE_BYTES];

	memset(wanted, 0, sizeof(wanted));
	if (holes && memcmp(bytes, wanted, G4_PAGE_BYTES) == 0)
		return true;
	for (uint32_t k = 0; k <= SHARERS; k++) {
		rig_pattern(wanted, k == SHARERS ? n + 1 : 7000 + k, G4_PAGE_BYTES);
		if (memcmp(bytes, wanted, G4_PAGE_BYTES) == 0)
			return true;
	}
	return false;
}

static void *share(void *arg)
{
	const uint32_t k = (uint32_t)(uintptr_t)arg;
	uint8_t *bytes = rig_memory(4 * G4_PAGE_BYTES, 1);
	uint64_t random = 1234 + k, in, out, done;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		const uint64_t ino = together[k], from = round % 3 ? together[(k + 1) % SHARERS] : source;
		uint64_t at = 0;
		assert_int_equal(op_truncate(&rig, ino, 0), 0);
		assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
		assert_int_equal(op_open(&rig, ino, G4_OPEN_WRITE, &out), 0);
		for (done = 1; done > 0 && at < 9009 * G4_PAGE_BYTES; at += done)
			assert_int_equal(op_copy(&rig, in, at, out, at, 9009 * G4_PAGE_BYTES - at, &done), 0);
		assert_int_equal(op_release(&rig, in), 0);
		assert_int_equal(op_release(&rig, out), 0);
		for (uint32_t w = 0; w < 4; w++) {
			const uint64_t n = rig_random(&random) % 40;
			rig_pattern(bytes, 7000 + k, G4_PAGE_BYTES);
			assert_int_equal(op_write(&rig, ino, 0, 2 * n * G4_PAGE_BYTES, bytes, G4_PAGE_BYTES, &done), 0);
			if (rig_random(&random) % 2)
				assert_int_equal(op_fsync(&rig, ino), 0);
		}
		if (rig_random(&random) % 2)
			assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
						      520 * G4_PAGE_BYTES, 600 * G4_PAGE_BYTES),
					 0);
		for (uint32_t n = 0; n < 40; n++) {
			assert_int_equal(op_read(&rig, ino, 0, 2 * n * G4_PAGE_BYTES, bytes, G4_PAGE_BYTES, &done), 0);
			if (at == 9009 * G4_PAGE_BYTES && !is_any(bytes, n, from != source))
				fail_msg("page %u of %u in round %u", 2 * n, k, round);
		}
		if (k == 0) {
			rig_pattern(bytes, 1, G4_PAGE_BYTES);
			assert_int_equal(op_write(&rig, source, 0, 0, bytes, G4_PAGE_BYTES, &done), 0);
		}
	}
	free(bytes);
	return NULL;
}

static void several_at_once(void **state)
{
	pthread_t threads[SHARERS];
	struct g4_statfs statfs;
	char name[16];

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_mount(&rig);
	source = make("source");
	for (uint32_t k = 0; k < SHARERS; k++) {
		snprintf(name, sizeof(name), "t%u", k);
		together[k] = make(name);
	}
	for (uint32_t k = 0; k < 40; k++) {
		put(source, 2 * k, 1, k + 1);
		put(source, 512 + 3 * k, 2, k + 100);
	}
	put(source, 9000, 9, 10);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 0; k < SHARERS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, share, (void *)(uintptr_t)k), 0);
	for (uint32_t k = 0; k < SHARERS; k++)
		assert_int_equal(pthread_join(threads[k], NULL), 0);
	for (uint32_t n = 0; n < 40; n++)
		check_page(source, 2 * n, n + 1, n + 1);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, statfs.blocks_free, "after all");
}

static int setup_together(void **state)
{
	(void)state;
	begin((uint32_t)rig_setting("G4_CUT_SUM", G4_CHECKSUM_BLAKE3), 0, 48 * G4_MIB, 0);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{"what_was_lent_can_be_changed", what_was_lent_can_be_changed, setup_groups, teardown, NULL},
		{"what_was_lent_can_be_changed with sums", what_was_lent_can_be_changed, setup_groups_sums, teardown,
		 NULL},
		{"a_staged_write_finds_no_room_for_a_copy", a_staged_write_finds_no_room_for_a_copy, setup_dedup,
		 teardown, NULL},
		{"a_scrub_adds_sums", a_scrub_adds_sums, setup_late, teardown, NULL},
		{"a_scrub_adds_sums_where_there_is_no_room", a_scrub_adds_sums_where_there_is_no_room, setup_late,
		 teardown, NULL},
		{"nothing_is_allocated_where_all_is_there", nothing_is_allocated_where_all_is_there, setup_late,
		 teardown, NULL},
		{"a_hole_for_all_needs_no_space", a_hole_for_all_needs_no_space, setup_late, teardown, NULL},
		{"an_end_behind_all_needs_no_space", an_end_behind_all_needs_no_space, setup_late, teardown, NULL},
		{"a_hole_leaves_what_is_behind_it", a_hole_leaves_what_is_behind_it, setup_late, teardown, NULL},
		{"staged_writes_on_a_full_device", staged_writes_on_a_full_device, setup_dedup, teardown, NULL},
		{"power_cuts", power_cuts, setup_cuts, teardown, NULL},
		{"several_at_once", several_at_once, setup_together, teardown, NULL},
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests_name("map_hostile", tests, NULL, NULL);
}
