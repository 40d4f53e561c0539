/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of disks by an engine as users have it, on whatever it runs: every level is written and found again, with disks missing, rotten,
 * failing while it is mounted, taken out and rebuilt. G4_TEST_ENGINE: disks.h; so it is what runs of sets on a GPU. A mount takes
 * seconds there: G4_TEST_LEVELS is a string with the numbers of levels to be tried (all without it), each with one choice of lost disks.
 * With G4_TEST_MAPPED disks are memory, which lanes reach past the set (space/direct.h).
 */
#define _GNU_SOURCE 1
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rebuilding.h"

#define BYTES (32 * G4_MIB)

struct level {
	struct g4_set_plan plan;
	uint32_t disks;
	uint32_t spare; /* disks that may be lost */
};

static const struct level levels[] = {
	{{.raid = G4_RAID_0, .stripe_bytes = 16 * 1024}, 3, 0},
	{{.raid = G4_RAID_1, .copies = 2}, 2, 1},
	{{.raid = G4_RAID_1, .copies = 3}, 3, 2},
	{{.raid = G4_RAID_PARITY, .parity = 1, .stripe_bytes = 16 * 1024, .journal_bytes = JOURNAL_BYTES}, 4, 1},
	{{.raid = G4_RAID_PARITY, .parity = 2, .stripe_bytes = 16 * 1024, .journal_bytes = JOURNAL_BYTES}, 5, 2},
	{{.raid = G4_RAID_PARITY, .parity = 3, .stripe_bytes = 16 * 1024, .journal_bytes = JOURNAL_BYTES}, 6, 3},
};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static bool is_asked_for(uint32_t l)
{
	const char *asked = getenv("G4_TEST_LEVELS");

	return !asked || strchr(asked, (int)('0' + l));
}

/* What a disk's file is called. */
static void name_of(int fd, char *name, size_t bytes)
{
	snprintf(name, bytes, "%s/proc/self/fd/%d", getenv("G4_TEST_MAPPED") ? "dax:" : "", fd);
}

static uint32_t all_of(const struct level *level)
{
	return (1u << level->disks) - 1;
}

/* Files, of which requests take time, but where they are mapped. */
static void make(struct disks *d, const struct level *level)
{
	uint64_t bytes[MOST_DISKS];

	for (uint32_t n = 0; n < level->disks; n++)
		bytes[n] = BYTES;
	disks_make(d, level->disks, bytes);
	for (uint32_t n = 0; n < level->disks; n++)
		name_of(d->fds[n], d->names[n], sizeof(d->names[n]));
	disks_format_plan(d, &level->plan, G4_CHECKSUM_BLAKE3);
	disks_mount(d, all_of(level));
	disks_populate(d);
	disks_expect_all(d);
	disks_unmount(d);
	disks_expect_clean(d, all_of(level));
}

/* The newest job of a kind when it has come to its end. */
static struct g4_job_record await_job(struct disks *d, uint32_t kind)
{
	struct g4_job_record newest;

	do {
		sched_yield();
		newest = *rig_last_job(&d->rig, &disks_health);
		assert_int_equal(newest.kind, kind);
	} while (newest.state == G4_JOB_RUNNING);
	assert_int_equal(newest.state, G4_JOB_DONE);
	return newest;
}

static void rebuild(struct disks *d, uint32_t what, const char *name)
{
	while (order(d, what, name) < 0)
		if (!strstr(d->message, "under way")) /* requests to it as it was before */
			fail_msg("%s", d->message);
	await_job(d, G4_JOB_REBUILD);
}

static void every_level_keeps_what_is_written(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		const uint32_t spare = levels[l].spare, count = levels[l].disks;
		uint8_t *before[MOST_DISKS];
		struct disks d;
		if (!is_asked_for(l))
			continue;
		make(&d, &levels[l]);
		for (uint32_t n = 0; n < count; n++) {
			before[n] = (uint8_t *)malloc(BYTES);
			rig_copy(before[n], d.memory[n], BYTES);
		}
		/* neighbours are lost; who was written without them would have them rebuilt first */
		const uint32_t choices = getenv("G4_TEST_LEVELS") ? 1 : count - spare + 1;
		for (uint32_t first = 0; first < choices; first++) {
			const uint32_t there = all_of(&levels[l]) & ~(((1u << spare) - 1) << first);
			disks_mount(&d, there);
			disks_expect_all(&d);
			assert_int_equal(disks_put(&d, 11, first), 0);
			disks_unmount(&d);
			disks_mount(&d, there);
			assert_int_equal(disks_has(&d, 11, first), 1);
			disks_unmount(&d);
			disks_expect_clean(&d, there);
			for (uint32_t n = 0; n < count; n++)
				rig_copy(d.memory[n], before[n], BYTES);
		}
		for (uint32_t n = 0; n < count; n++)
			free(before[n]);
		disks_free(&d);
	}
}

static void rot_is_mended(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct disks d;
		if (!levels[l].spare || !is_asked_for(l))
			continue;
		make(&d, &levels[l]);
		disks_rot(&d, 1);
		disks_mount(&d, all_of(&levels[l]));
		disks_expect_all(&d);
		if (levels[l].plan.parity ==
		    1) { /* of what nobody reads, parity among it, one parity can not tell what is wrong */
			disks_unmount(&d);
			disks_free(&d);
			continue;
		}
		assert_int_equal(op_job_start(&d.rig, G4_JOB_SCRUB, 0, 0), 0);
		assert_int_equal(await_job(&d, G4_JOB_SCRUB).errors, 0);
		disks_unmount(&d);
		disks_mount(&d, all_of(&levels[l]) & ~1u); /* so it counts */
		disks_expect_all(&d);
		disks_unmount(&d);
		disks_expect_clean(&d, all_of(&levels[l]) & ~1u);
		disks_free(&d);
	}
}

/* What no disk has counts for the disk that it lies on. */
static void damage_counts_for_its_disk(void **state)
{
	uint8_t *data = rig_memory(FILE_PAGES * G4_PAGE_BYTES, 77), *page = data + 3 * G4_PAGE_BYTES, back[16];
	uint32_t disks = 0;
	uint64_t ino, done;
	struct disks d;

	(void)state;
	make(&d, &levels[0]);
	disks_mount(&d, 7);
	assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "damaged", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&d.rig, ino, 0, 0, data, FILE_PAGES * G4_PAGE_BYTES, &done), 0);
	disks_unmount(&d);
	for (uint32_t n = 0; n < 3; n++)
		for (uint64_t at = 0; at < BYTES; at += G4_PAGE_BYTES)
			if (memcmp(d.memory[n] + at, page, G4_PAGE_BYTES) == 0) {
				d.memory[n][at + 99] ^= 4;
				disks |= 1u << n;
			}
	assert_int_equal(__builtin_popcount(disks), 1);
	disks_mount(&d, 7);
	assert_int_equal(op_read(&d.rig, ino, 0, 3 * G4_PAGE_BYTES, back, sizeof(back), &done), -G4_E_DATA);
	rig_last_job(&d.rig, &disks_health);
	assert_int_equal(disks_health.disk_count, 3);
	assert_int_equal(disks_health.last_disks, disks);
	for (uint32_t n = 0; n < 3; n++)
		assert_int_equal(disks_health.disk_damaged[n], disks >> n & 1);
	disks_unmount(&d);
	free(data);
	disks_free(&d);
}

static void a_disk_that_fails_is_done_without(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		const struct g4_fault fault = {.cut_after_writes = 20, .cut_inside = true, .seed = l};
		struct faulty f;
		struct disks d;
		if (!levels[l].spare || !is_asked_for(l))
			continue;
		make(&d, &levels[l]);
		disks_open_faulty(&d, &f);
		disks_mount_faulty(&d, &f);
		g4_dev_fault_set(f.fault[1], &fault);
		for (uint32_t n = 0; n < 20; n++)
			assert_int_equal(disks_put(&d, n % 10, n), 0);
		assert_int_equal(state_of(f.set, 1), G4_DISK_DROPPED);
		disks_unmount(&d);
		disks_mount(&d, all_of(&levels[l]) & ~2u);
		for (uint32_t n = 10; n < 20; n++)
			assert_int_equal(disks_has(&d, n % 10, n), 1);
		rebuild(&d, G4_DISK_REBUILD, d.names[1]);
		disks_unmount(&d);
		disks_mount(&d, all_of(&levels[l]) & ~1u);
		for (uint32_t n = 10; n < 20; n++)
			assert_int_equal(disks_has(&d, n % 10, n), 1);
		disks_unmount(&d);
		disks_expect_clean(&d, all_of(&levels[l]) & ~1u);
		disks_free(&d);
	}
}

static void disks_are_taken_out_and_rebuilt(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		char name[64];
		struct disks d;
		if (!is_asked_for(l))
			continue;
		make(&d, &levels[l]);
		disks_mount(&d, all_of(&levels[l]));
		assert_int_equal(order(&d, G4_DISK_OFFLINE, "/no/such/disk"), -G4_E_NOENT);
		assert_non_null(strstr(d.message, "/no/such/disk: is no disk"));
		if (!levels[l].spare) {
			assert_int_equal(order(&d, G4_DISK_OFFLINE, d.names[0]), -G4_E_BUSY);
			assert_non_null(strstr(d.message, "do not have all"));
			disks_unmount(&d);
			disks_free(&d);
			continue;
		}
		begin(&d, G4_DISK_OFFLINE, 0);
		for (uint32_t n = 0; n < 10; n++)
			assert_int_equal(disks_put(&d, n, 1), 0);
		rebuild(&d, G4_DISK_REBUILD, d.names[0]);
		begin(&d, G4_DISK_OFFLINE, 1);
		/* another one in its place */
		const int fd = memfd_create("gpu4fs-disk", MFD_CLOEXEC);
		assert_return_code(ftruncate(fd, BYTES), 0);
		name_of(fd, name, sizeof(name));
		rebuild(&d, G4_DISK_REPLACE, name);
		disks_expect_all(&d);
		disks_unmount(&d);
		munmap(d.memory[1], d.bytes[1]);
		close(d.fds[1]);
		d.fds[1] = fd;
		d.memory[1] = (uint8_t *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		assert_true(d.memory[1] != MAP_FAILED);
		memcpy(d.names[1], name, sizeof(name));
		disks_mount(&d, all_of(&levels[l]) & ~1u);
		disks_expect_all(&d);
		disks_unmount(&d);
		disks_expect_clean(&d, all_of(&levels[l]) & ~1u);
		disks_free(&d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_level_keeps_what_is_written),
		cmocka_unit_test(rot_is_mended),
		cmocka_unit_test(damage_counts_for_its_disk),
		cmocka_unit_test(a_disk_that_fails_is_done_without),
		cmocka_unit_test(disks_are_taken_out_and_rebuilt),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
