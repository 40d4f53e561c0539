/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of which a disk is lost, and made again by lanes: as the engine does it, and order by order. For tests. */
#ifndef LOST_H
#define LOST_H

#include "rebuilding.h"

#include "space/space.h"

#define STRIPE (16 * 1024u)
#define FILES 6u
#define LARGE_BYTES (3 * G4_MIB)

struct level {
	struct g4_set_plan plan;
	uint32_t disks, spare; /* so many may be lost */
};

static const struct level levels[] = {
	{{.raid = G4_RAID_1, .copies = 2}, 2, 1},
	{{.raid = G4_RAID_1, .copies = 3}, 4, 2},
	{{.raid = G4_RAID_PARITY, .parity = 1, .stripe_bytes = STRIPE, .journal_bytes = JOURNAL_BYTES}, 4, 1},
	{{.raid = G4_RAID_PARITY, .parity = 2, .stripe_bytes = STRIPE, .journal_bytes = JOURNAL_BYTES}, 6, 2},
};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static inline uint32_t all_of(const struct disks *d)
{
	return (1u << d->count) - 1;
}

static inline struct g4_direct *direct_of(const struct disks *d)
{
	return &d->rig.fs->space.direct;
}

static inline uint64_t made(const struct disks *d)
{
	return g4_load64_rlx(&direct_of(d)->made_bytes);
}

/* A file of several MiB, so that there is something to be made; which one, by its content. */
static inline void put_large(struct disks *d, uint32_t version)
{
	uint8_t *data = rig_memory(LARGE_BYTES, 1);
	struct g4_attr attr;
	uint64_t ino, done = 0;

	rig_pattern(data, 1000 + version, LARGE_BYTES);
	if (op_lookup(&d->rig, G4_NODE_ROOT, "large", &attr) == 0)
		ino = attr.ino;
	else
		assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "large", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&d->rig, ino, 0, 0, data, LARGE_BYTES, &done), 0);
	assert_int_equal(done, LARGE_BYTES);
	assert_int_equal(op_fsync(&d->rig, ino), 0);
	free(data);
}

static inline void expect_large(struct disks *d, uint32_t version)
{
	uint8_t *data = rig_memory(LARGE_BYTES, 1), *found = rig_memory(LARGE_BYTES, 2);
	struct g4_attr attr;
	uint64_t done = 0;

	rig_pattern(data, 1000 + version, LARGE_BYTES);
	assert_int_equal(op_lookup(&d->rig, G4_NODE_ROOT, "large", &attr), 0);
	assert_int_equal(op_read(&d->rig, attr.ino, 0, 0, found, LARGE_BYTES, &done), 0);
	assert_int_equal(done, LARGE_BYTES);
	assert_memory_equal(found, data, LARGE_BYTES);
	free(data);
	free(found);
}

static inline void fill(struct disks *d, const struct level *level, struct g4_dev **dev)
{
	disks_format_plan(d, &level->plan, G4_CHECKSUM_BLAKE3);
	disks_mount_fs(d, all_of(d), dev);
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(d, n, 1), 0);
	put_large(d, 1);
}

static inline void make(struct disks *d, const struct level *level, struct g4_dev **dev)
{
	disks_make(d, level->disks, NULL);
	fill(d, level, dev);
}

/* One that is new, so that nothing of it is right by itself. */
static inline void lose(struct disks *d, uint32_t disk)
{
	begin(d, G4_DISK_OFFLINE, disk);
	memset(d->memory[disk], 0xa5, d->bytes[disk]);
}

/* Whichever disks are lost, the others have everything. Not mounted. */
static inline void expect_everywhere(struct disks *d, const struct level *level, uint32_t version, uint32_t large)
{
	struct g4_dev *dev;

	disks_expect_clean(d, all_of(d));
	for (uint32_t which = 1; which <= all_of(d); which++) {
		if (d->count - (uint32_t)__builtin_popcount(which) > level->spare ||
		    !disks_takes_loss(all_of(d) & ~which))
			continue;
		if (disks_try_open(d, which, true, G4_DEV_READ_ONLY, &dev) < 0)
			fail_msg("%s", d->message);
		disks_begin_fs(d, dev, G4_FS_READ_ONLY);
		disks_expect_files(d, FILES, version);
		expect_large(d, large);
		disks_unmount_fs(d, dev, true);
	}
}

/* ---- orders by hand ---- */

static inline int give(struct disks *d, uint32_t op, struct g4_dev_order *order)
{
	order->op = op;
	return g4_space_order(d->rig.wg, &d->rig.fs->space, order);
}

static inline uint64_t position(struct disks *d)
{
	struct g4_dev_order o = {0};

	assert_int_equal(give(d, G4_ORDER_ASK, &o), 0);
	return o.done;
}

/* What was taken, by what TAKE has answered. */
static inline struct g4_direct_lost lost_of(const struct g4_dev_order *taken)
{
	return (struct g4_direct_lost){.chunk = taken->disk,
				       .place = (uint32_t)(taken->all & ((UINT64_C(1) << G4_TAKEN_NUMBER_SHIFT) - 1)),
				       .number = taken->all >> G4_TAKEN_NUMBER_SHIFT,
				       .within = taken->done,
				       .bytes = taken->bytes};
}

/* So much of what comes next, as far as there is that much. */
static inline bool take(struct disks *d, uint64_t bytes, struct g4_direct_lost *lost)
{
	struct g4_dev_order o = {.bytes = bytes, .all = bytes};

	assert_int_equal(give(d, G4_ORDER_TAKE, &o), 0);
	*lost = lost_of(&o);
	return o.bytes > 0;
}

static inline uint64_t say_made(struct disks *d, const struct g4_direct_lost *lost)
{
	struct g4_dev_order o = {.bytes = lost->bytes, .all = lost->number};

	assert_int_equal(give(d, G4_ORDER_MADE, &o), 0);
	return o.bytes;
}

static inline void make_taken(struct disks *d, struct g4_direct_lost *lost)
{
	assert_true(g4_direct_begin_lost(d->rig.wg, direct_of(d), lost));
	assert_true(g4_direct_make(d->rig.wg, direct_of(d), lost, 0, lost->bytes));
}

/* An address that lies in what was taken, or right behind it. */
static inline uint64_t address_in(const struct disks *d, const struct g4_direct_lost *lost, bool behind)
{
	const struct g4_chunk *chunk = &direct_of(d)->table.chunks[lost->chunk];
	const uint64_t within = lost->within + (behind ? lost->bytes : 0);

	return chunk->parity ? chunk->address + within / chunk->stripe_bytes * g4_chunk_stripe_data(chunk) :
			       chunk->address + within;
}

/* What is there is written again: to the user nothing has changed. With parity it goes to its place at once. */
static inline void write_at(struct disks *d, uint64_t address)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 0);
	struct g4_space *space = &d->rig.fs->space;

	assert_int_equal(g4_space_read(d->rig.wg, space, g4_address_from(address), page, G4_PAGE_BYTES), 0);
	assert_int_equal(g4_space_write(d->rig.wg, space, g4_address_from(address), page, G4_PAGE_BYTES, G4_IO_FUA), 0);
	assert_int_equal(g4_space_flush(d->rig.wg, space), 0);
	free(page);
}

static inline void keep_disks(const struct disks *d, uint8_t *kept[MOST_DISKS])
{
	for (uint32_t n = 0; n < d->count; n++) {
		kept[n] = malloc(d->bytes[n]);
		assert_non_null(kept[n]);
		memcpy(kept[n], d->memory[n], d->bytes[n]);
	}
}

static inline void restore_disks(const struct disks *d, uint8_t *kept[MOST_DISKS])
{
	for (uint32_t n = 0; n < d->count; n++) {
		memcpy(d->memory[n], kept[n], d->bytes[n]);
		free(kept[n]);
	}
}

#endif
