/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of rows with parity whose places are moved, for tests. */
#ifndef ROWS_MOVING_H
#define ROWS_MOVING_H

#include "rebuilding.h"
#include "removing.h"

#define ROWS_BYTES (64 * G4_MIB)
#define UNIT (8 * G4_MIB)

struct shape {
	uint32_t disks, parity, added;
	uint64_t ballast;
};

/* ---- a set with a disk that has nothing ---- */

static inline void format(struct disks *d, const struct shape *shape, uint64_t *ballast)
{
	uint8_t *data = rig_memory(G4_MIB, 5); /* as disks_fill() */
	uint64_t sizes[MOST_DISKS], done = 0, big;
	struct g4_dev *dev;

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = ROWS_BYTES;
	disks_make(d, shape->disks + shape->added, sizes);
	d->count = shape->disks;
	disks_format_rows(d, shape->parity, G4_CHECKSUM_CRC32C);
	disks_mount_fs(d, all_of(d), &dev);
	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "ballast", G4_S_IFREG | 0644, ballast), 0);
	for (uint64_t at = 0; at < shape->ballast; at += G4_MIB)
		assert_int_equal(op_write(&d->rig, *ballast, 0, at, data, G4_MIB, &done), 0);
	disks_unmount_fs(d, dev, true);
	for (uint32_t n = 0; n < shape->added; n++) { /* a disk that is added need not be empty */
		rig_pattern(d->memory[d->count], 77 + n, d->bytes[d->count]);
		add_next(d, true);
	}
	/* all of it was written to once: parity is right everywhere, as the map says, and what is free is not zeros */
	rig_pattern(data, 6, G4_MIB); /* other bytes than what is moved, wherever that goes */
	disks_mount_fs(d, all_of(d), &dev);
	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "big", G4_S_IFREG | 0644, &big), 0);
	for (uint64_t at = 0; op_write(&d->rig, big, 0, at, data, G4_MIB, &done) == 0 && done == G4_MIB;)
		at += G4_MIB;
	disks_unmount_fs(d, dev, true);
	disks_mount_fs(d, all_of(d), &dev);
	assert_int_equal(op_unlink(&d->rig, G4_NODE_ROOT, "big"), 0);
	disks_unmount_fs(d, dev, true);
	free(data);
}

/*
 * All that is left, in writes of parts of rows, whose parity is made of what was there: where the map of regions says more than is true it is
 * wrong afterwards. How much.
 */
#define SMALL_BYTES (5 * G4_PAGE_BYTES)
static inline uint64_t fill_in_small_pieces(struct disks *d, uint64_t *ino)
{
	uint8_t *data = rig_memory(SMALL_BYTES, 8);
	uint64_t done = 0, at = 0;

	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "small", G4_S_IFREG | 0644, ino), 0);
	while (op_write(&d->rig, *ino, 0, at, data, SMALL_BYTES, &done) == 0 && done == SMALL_BYTES &&
	       op_fsync(&d->rig, *ino) == 0)
		at += SMALL_BYTES;
	free(data);
	return at;
}

static inline void expect_small_pieces(struct disks *d, uint64_t ino, uint64_t bytes)
{
	uint8_t *data = rig_memory(SMALL_BYTES, 8), *found = rig_memory(SMALL_BYTES, 9);
	uint64_t done = 0;

	for (uint64_t at = 0; at < bytes; at += SMALL_BYTES) {
		assert_int_equal(op_read(&d->rig, ino, 0, at, found, SMALL_BYTES, &done), 0);
		assert_int_equal(done, SMALL_BYTES);
		assert_memory_equal(found, data, SMALL_BYTES);
	}
	free(data);
	free(found);
}

/* The sets of disks that the level does without, the empty one first. */
static inline uint32_t lost_of(const struct disks *d, const struct shape *shape, uint32_t number)
{
	uint32_t lost = 0;

	for (uint32_t k = 0; k <= number; lost++)
		k += (uint32_t)__builtin_popcount(lost) <= shape->parity && lost <= all_of(d);
	return lost - 1;
}

static inline uint32_t lost_sets(const struct disks *d, const struct shape *shape)
{
	uint32_t count = 0;

	for (uint32_t lost = 0; lost <= all_of(d); lost++)
		count += (uint32_t)__builtin_popcount(lost) <= shape->parity;
	return count;
}

#endif
