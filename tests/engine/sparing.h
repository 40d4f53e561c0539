/* SPDX-License-Identifier: Apache-2.0 */
/* Sets with spares behind their disks, for tests: made, with a disk that fails, and what is expected of them afterwards. */
#ifndef SPARING_H
#define SPARING_H

#include "rebuilding.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fs/rebuild_host.h"

#define FILES 5u

struct level {
	uint32_t disks, copies, parity; /* parity 0: copies */
};
static const uint64_t sizes[MOST_DISKS] = {10 * G4_MIB, 10 * G4_MIB, 10 * G4_MIB, 10 * G4_MIB,
					   10 * G4_MIB, 10 * G4_MIB, 10 * G4_MIB, 10 * G4_MIB};

static inline uint32_t tolerated(const struct level *level)
{
	return level->parity ? level->parity : level->copies - 1;
}

static inline uint32_t all_of(const struct disks *d)
{
	return (1u << d->count) - 1;
}

static inline uint32_t spares_of(const struct g4_dev *set)
{
	struct g4_disk_info info;
	uint32_t n = 0;

	while (g4_set_spare(set, n, &info)) {
		assert_int_equal(info.state, G4_DISK_SPARE);
		n++;
	}
	return n;
}

/* The next device of d becomes a spare of the set, which nobody uses. */
static inline int add_spare(struct disks *d, uint32_t disks, const char *name)
{
	struct g4_dev *set;

	if (disks_try_open(d, disks, false, G4_DEV_READ_ONLY, &set) < 0)
		fail_msg("%s", d->message);
	const int rc = g4_set_add_spare(set, name, d->message, sizeof(d->message));
	g4_dev_close(set);
	return rc;
}

/* A set with spares behind its disks, and files of version 1. */
static inline void format_sizes(struct disks *d, const struct level *level, uint32_t spares, const uint64_t *bytes)
{
	struct g4_dev *dev;

	disks_make(d, level->disks + spares, bytes);
	d->count = level->disks;
	if (level->parity)
		disks_format_rows(d, level->parity, G4_CHECKSUM_NONE);
	else
		disks_format_copies(d, G4_RAID_1, level->copies, G4_CHECKSUM_NONE);
	disks_mount_fs(d, all_of(d), &dev);
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(d, n, 1), 0);
	disks_unmount_fs(d, dev, true);
	const uint32_t disks = all_of(d);
	d->count += spares;
	for (uint32_t n = level->disks; n < d->count; n++)
		if (add_spare(d, disks, d->names[n]) < 0)
			fail_msg("%s", d->message);
}

static inline void format(struct disks *d, const struct level *level, uint32_t spares)
{
	format_sizes(d, level, spares, sizes);
}

/* Its next write fails, and with that it is dropped. */
static inline void fail_disk(struct disks *d, struct faulty *f, uint32_t disk)
{
	const struct g4_fault fault = {.fail_write_at = 1};

	g4_dev_fault_set(f->fault[disk], &fault);
	for (uint32_t k = 1; state_of(f->set, disk) != G4_DISK_DROPPED; k++)
		assert_int_equal(disks_put(d, FILES, k), 0);
}

/* As whoever commits in the background has it, and whoever does jobs. */
static inline void look(struct disks *d)
{
	g4_jobs_look(d->rig.fs);
	step(d);
}

/* How many lines with these words are logged by so many looks. */
static inline uint32_t looks_that_tell(struct disks *d, uint32_t looks, const char *words)
{
	static char text[65536];
	const int file = memfd_create("log", 0), before = dup(STDERR_FILENO);
	uint32_t count = 0;

	assert_true(file >= 0 && before >= 0);
	dup2(file, STDERR_FILENO);
	while (looks-- > 0)
		look(d);
	dup2(before, STDERR_FILENO);
	close(before);
	const ssize_t bytes = pread(file, text, sizeof(text) - 1, 0);
	assert_true(bytes >= 0);
	text[bytes] = 0;
	for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
		count++;
	close(file);
	return count;
}

/* Not mounted: a disk takes the place of the one that is missing among those that are there. */
static inline void replace_with(struct disks *d, uint32_t there, uint32_t by)
{
	const char *names[MOST_DISKS + 1];
	uint32_t count = 0, disk;

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		if (there >> n & 1)
			names[count++] = d->names[n];
	names[count++] = d->names[by];
	if (g4_rebuild_offline(names, count, false, NULL, &disk, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
}

/* With any others lost that may be, all is there; and all is good. */
static inline void expect_everywhere(struct disks *d, const struct level *level, uint32_t disks, uint32_t version)
{
	struct g4_dev *dev;

	disks_expect_clean(d, disks);
	for (uint32_t which = 1; which <= disks; which++) {
		if ((which & ~disks) || level->disks - (uint32_t)__builtin_popcount(which) != tolerated(level))
			continue;
		if (disks_try_open(d, which, false, G4_DEV_READ_ONLY, &dev) < 0)
			fail_msg("with %x: %s", which, d->message);
		disks_begin_fs(d, dev, G4_FS_READ_ONLY);
		disks_expect_files(d, FILES, version);
		disks_unmount_fs(d, dev, true);
	}
}

#endif
