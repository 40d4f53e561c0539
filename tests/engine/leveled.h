/* SPDX-License-Identifier: Apache-2.0 */
/* A set of disks with copies, room for another level, and a directory that asks for that, for tests. */
#ifndef LEVELED_H
#define LEVELED_H

#include "rebuilding.h"

#include "fs/resize_host.h"

#define BYTES (28 * G4_MIB)
#define LEVEL G4_LEVEL_PARITY

struct world {
	struct disks d;
	struct g4_dev *set;
	uint64_t dir;
	uint64_t free_at_first; /* of the level */
};

static inline uint32_t all(const struct world *w)
{
	return (1u << w->d.count) - 1;
}

static inline void mount_world(struct world *w)
{
	disks_mount_fs(&w->d, all(w), &w->set);
}

/* Copies on four disks, 60 % of which are for RAID 5, as far as so many bytes go; and a directory that asks for it. */
static inline void begin_sized(struct world *w, uint32_t checksum, uint64_t most, uint64_t disk_bytes)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_1, .copies = 2, .leave_percent = 60};
	uint64_t sizes[MOST_DISKS], bytes;

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = disk_bytes;
	disks_make(&w->d, 5, sizes);
	w->d.count = 4;
	disks_format_plan(&w->d, &plan, checksum);
	assert_int_equal(disks_try_open(&w->d, all(w), false, 0, &w->set), 0);
	if (g4_set_assign_to(w->set, LEVEL, most, w->d.message, sizeof(w->d.message)) < 0 ||
	    g4_resize_device(w->set, 0, &bytes, w->d.message, sizeof(w->d.message)) < 0)
		fail_msg("%s", w->d.message);
	g4_dev_close(w->set);
	mount_world(w);
	w->free_at_first = g4_alloc_free_in(&w->d.rig.fs->alloc, LEVEL);
	assert_true(w->free_at_first * G4_PAGE_BYTES > (most ? most - 2 * G4_MIB : 32 * G4_MIB));
	assert_int_equal(op_mkdir(&w->d.rig, G4_NODE_ROOT, "level", 0755, &w->dir), 0);
	assert_int_equal(op_setxattr(&w->d.rig, w->dir, "gpu4fs.raid", "5", 1, 0), 0);
}

static inline void begin_part(struct world *w, uint32_t checksum, uint64_t most)
{
	begin_sized(w, checksum, most, BYTES);
}

static inline void begin_world(struct world *w, uint32_t checksum)
{
	begin_part(w, checksum, 0);
}

static inline void free_world(struct world *w)
{
	w->d.count = 5;
	disks_free(&w->d);
}

static inline void end_world(struct world *w)
{
	disks_unmount_fs(&w->d, w->set, true);
	disks_expect_clean(&w->d, all(w));
	free_world(w);
}

static inline uint32_t level_at(const struct world *w, uint64_t address)
{
	struct g4_chunk chunk;
	uint32_t level = G4_LEVEL_OWN;

	for (uint32_t n = 0; g4_set_chunk(w->set, n, &chunk) && chunk.address <= address; n++)
		level = chunk.level;
	return level;
}

/* All that is mapped of a file lies in chunks of a level. How many pages. */
static inline uint64_t expect_level(struct world *w, uint64_t ino, uint32_t level)
{
	struct g4_map_extent extents[64];
	uint64_t pages = 0, at = 0;
	uint32_t count = 1;

	assert_int_equal(op_sync(&w->d.rig), 0);
	while (count > 0) {
		assert_int_equal(op_map(&w->d.rig, ino, at, extents, 64, &count), 0);
		for (uint32_t e = 0; e < count; e++) {
			for (uint64_t byte = 0; byte < extents[e].length; byte += G4_PAGE_BYTES)
				assert_int_equal(level_at(w, extents[e].address + byte), level);
			pages += extents[e].length / G4_PAGE_BYTES;
			at = extents[e].offset + extents[e].length;
		}
	}
	return pages;
}

static inline uint64_t make_file(struct world *w, uint64_t dir, const char *name)
{
	uint64_t ino;

	assert_int_equal(op_mknod(&w->d.rig, dir, name, G4_S_IFREG | 0644, &ino), 0);
	return ino;
}

/* Nothing is reserved of the level, and what is free of it is what nobody has. */
static inline void expect_free(struct world *w, uint64_t used)
{
	const struct g4_alloc *alloc = &w->d.rig.fs->alloc;

	assert_int_equal(op_sync(&w->d.rig), 0);
	assert_int_equal(alloc->pool_reserved[LEVEL], 0);
	assert_int_equal(g4_alloc_free_in(alloc, LEVEL), w->free_at_first - used);
}

#endif
