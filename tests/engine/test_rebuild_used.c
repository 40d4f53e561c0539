/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a disk that is rebuilt only what is in use is made again: how much is read and written for it, and that what was left out is as
 * good as what was not, for whoever writes there meanwhile or later.
 */
#include "alloc/count.h"
#include "rebuilding.h"

#include "fs/rebuild_host.h"
#include "simt/simt_host.h"
#include "space/set_parity_host.h"

#define SPARSE_BYTES (80 * G4_MIB)
#define FILES 8u
#define UNTOUCHED 0xa5

struct level {
	uint32_t disks, copies, parity; /* parity 0: copies */
};
static const struct level levels[] = {{2, 2, 0}, {3, 2, 0}, {4, 0, 1}, {5, 0, 2}};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static const uint64_t sizes[MOST_DISKS] = {SPARSE_BYTES, SPARSE_BYTES, SPARSE_BYTES, SPARSE_BYTES, SPARSE_BYTES};

/*
 * Whether test number `turn` takes the level. Under ThreadSanitizer, which watches one thread here, and lanes that do the same at each
 * level, a test takes one of four; the other builds take all.
 */
static bool takes(uint32_t turn, uint32_t l)
{
	return (l + turn) % rig_every(1) == 0;
}

static uint32_t all_of(const struct level *level)
{
	return (1u << level->disks) - 1;
}

static uint32_t tolerated(const struct level *level)
{
	return level->parity ? level->parity : level->copies - 1;
}

static uint64_t used_pages(struct disks *d)
{
	struct g4_statfs s;

	assert_int_equal(op_statfs(&d->rig, &s), 0);
	return s.blocks - s.blocks_free;
}

/* All space was used once, and a little of it is; mounted. */
static void begin_sparse(struct disks *d, const struct level *level, struct g4_dev **dev)
{
	uint64_t ino;

	disks_make(d, level->disks, sizes);
	if (level->parity)
		disks_format_rows(d, level->parity, G4_CHECKSUM_NONE);
	else
		disks_format_copies(d, G4_RAID_1, level->copies, G4_CHECKSUM_NONE);
	disks_mount_fs(d, all_of(level), dev);
	disks_fill(d, &ino);
	assert_int_equal(op_unlink(&d->rig, G4_NODE_ROOT, "big"), 0);
	assert_int_equal(op_sync(&d->rig), 0);
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(d, n, 1), 0);
	assert_int_equal(op_sync(&d->rig), 0);
}

static uint64_t touched_bytes(const struct disks *d, uint32_t disk)
{
	uint64_t bytes = 0;

	for (uint64_t at = 0; at < d->bytes[disk]; at += G4_PAGE_BYTES) {
		uint64_t k = 0;
		while (k < G4_PAGE_BYTES && d->memory[disk][at + k] == UNTOUCHED)
			k++;
		bytes += k < G4_PAGE_BYTES ? G4_PAGE_BYTES : 0;
	}
	return bytes;
}

/* Each tolerable loss costs nothing. Not mounted. */
static void expect_everywhere(struct disks *d, const struct level *level, uint64_t ino, uint64_t bytes)
{
	struct g4_dev *dev;

	for (uint32_t which = 1; which <= all_of(level); which++) {
		if (which != all_of(level) && (level->disks - (uint32_t)__builtin_popcount(which) != tolerated(level) ||
					       !disks_takes_loss(all_of(level) & ~which)))
			continue;
		uint8_t *before[MOST_DISKS];
		for (uint32_t n = 0; n < d->count; n++) {
			before[n] = (uint8_t *)malloc(d->bytes[n]);
			rig_copy(before[n], d->memory[n], d->bytes[n]);
		}
		disks_expect_clean(d, which);
		disks_mount_fs(d, which, &dev);
		disks_expect_files(d, FILES, 1);
		disks_expect_filled(d, ino, bytes);
		if (which == all_of(level))
			assert_int_equal(disks_scrub(d), 0);
		disks_unmount_fs(d, dev, true);
		for (uint32_t n = 0; n < d->count; n++) {
			rig_copy(d->memory[n], before[n], d->bytes[n]);
			free(before[n]);
		}
	}
}

/* What is read of all disks. */
static void note_read(void *context, const struct g4_io *io)
{
	for (uint32_t k = 0; io->op == G4_IO_READ && k < io->iov_count; k++)
		__atomic_fetch_add((uint64_t *)context, io->iov[k].bytes, __ATOMIC_RELAXED);
}

static void only_what_is_in_use_is_copied(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		if (!takes(2, l))
			continue;
		const struct level *level = &levels[l];
		uint64_t read = 0, ino = 0, used;
		struct g4_dev *dev;
		struct faulty f;
		struct disks d;
		begin_sparse(&d, level, &dev);
		used = used_pages(&d) * G4_PAGE_BYTES;
		disks_unmount_fs(&d, dev, true);
		mount_faulty(&d, &f, NULL);
		begin(&d, G4_DISK_OFFLINE, 1);
		assert_int_equal(disks_put(&d, 0, 1), 0);
		memset(d.memory[1], UNTOUCHED, d.bytes[1]);
		begin(&d, G4_DISK_REPLACE, 1);
		for (uint32_t n = 0; n < d.count; n++)
			if (n != 1)
				g4_dev_fault_watch(f.fault[n], note_read, &read);
		finish(&d);
		for (uint32_t n = 0; n < d.count; n++)
			if (n != 1)
				g4_dev_fault_watch(f.fault[n], NULL, NULL);
		const uint64_t touched = touched_bytes(&d, 1);
		print_message("%u disks, parity %u: %llu KiB in use; %llu written of %llu, %llu read\n", level->disks,
			      level->parity, (unsigned long long)used / 1024, (unsigned long long)touched / 1024,
			      (unsigned long long)SPARSE_BYTES / 1024, (unsigned long long)read / 1024);
		assert_true(touched < SPARSE_BYTES / 2);
		assert_true(read < (level->parity ? level->disks : 1) * SPARSE_BYTES / 2);
		/* what was left out is written then */
		const uint64_t bytes = disks_fill(&d, &ino);
		assert_true(bytes > SPARSE_BYTES / 2);
		disks_unmount_fs(&d, f.set, true);
		expect_everywhere(&d, level, ino, bytes);
		disks_free(&d);
	}
}

/* ---- of one that is not mounted ---- */

/* How much of the last disk is written when a new one takes its place. */
static uint64_t replace_offline(struct disks *d)
{
	const char *names[MOST_DISKS];
	uint32_t disk = 0;

	for (uint32_t n = 0; n < d->count; n++)
		names[n] = d->names[n];
	memset(d->memory[d->count - 1], UNTOUCHED, d->bytes[d->count - 1]);
	if (g4_rebuild_offline(names, d->count, false, NULL, &disk, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
	assert_int_equal(disk, d->count - 1);
	return touched_bytes(d, disk);
}

static void of_one_that_is_not_mounted_too(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		if (!takes(3, l))
			continue;
		const struct level *level = &levels[l];
		struct g4_dev *dev;
		struct disks d;
		uint64_t ino;
		begin_sparse(&d, level, &dev);
		disks_unmount_fs(&d, dev, true);
		assert_true(replace_offline(&d) < SPARSE_BYTES / 2);
		disks_expect_clean(&d, all_of(level));
		/* also one that was not unmounted: its journal is replayed first */
		disks_mount_fs(&d, all_of(level), &dev);
		const uint64_t bytes = disks_fill(&d, &ino);
		assert_int_equal(op_fsync(&d.rig, ino), 0);
		disks_unmount_fs(&d, dev, false);
		assert_true(replace_offline(&d) > SPARSE_BYTES / 2);
		expect_everywhere(&d, level, ino, bytes);
		disks_free(&d);
	}
}

/* Nobody knows what is in use: all of it is made. */
static void of_one_that_can_not_be_mounted_all_is(void **state)
{
	const struct level *level = &levels[0];
	struct g4_layout layout;
	struct g4_superblock sb;
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_dev *dev;
	struct disks d;
	bool second;

	(void)state;
	begin_sparse(&d, level, &dev);
	disks_unmount_fs(&d, dev, true);
	assert_int_equal(disks_try_open(&d, 1, true, 0, &dev), 0);
	assert_int_equal(g4_superblock_read(wg, dev, &sb, &second), 0);
	g4_layout_of(&sb, &layout);
	struct g4_iov iov = {rig_memory(G4_PAGE_BYTES, 3), G4_PAGE_BYTES};
	struct g4_io io = {.op = G4_IO_WRITE, .offset_bytes = layout.root_address, .iov = &iov, .iov_count = 1};
	g4_dev_submit(wg, dev, &io);
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	g4_dev_close(dev);
	assert_true(replace_offline(&d) > SPARSE_BYTES - 2 * G4_MIB);
	free(iov.base);
	g4_wg_destroy(wg);
	disks_free(&d);
}

/* ---- maps that can not be believed ---- */

#define FORGOTTEN_BYTES (4 * G4_MIB)

/* A file as disks_fill() makes it, durable. */
static uint64_t put_forgotten(struct disks *d)
{
	uint8_t *data = rig_memory(G4_MIB, 5);
	uint64_t ino, done;

	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "forgotten", G4_S_IFREG | 0644, &ino), 0);
	for (uint64_t at = 0; at < FORGOTTEN_BYTES; at += G4_MIB) {
		assert_int_equal(op_write(&d->rig, ino, 0, at, data, G4_MIB, &done), 0);
		assert_int_equal(done, G4_MIB);
	}
	assert_int_equal(op_fsync(&d->rig, ino), 0);
	free(data);
	return ino;
}

static bool is_of_pattern(const uint8_t *page, const uint8_t *pattern)
{
	for (uint64_t at = 0; at < G4_MIB; at += G4_PAGE_BYTES)
		if (memcmp(page, pattern + at, G4_PAGE_BYTES) == 0)
			return true;
	return false;
}

/* The map and the descriptors call that file's pages free, with right checksums. Not mounted. */
static void forget(struct disks *d, const struct level *level)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 1), *pattern = rig_memory(G4_MIB, 5);
	struct g4_alloc_page *map = (struct g4_alloc_page *)rig_memory(G4_PAGE_BYTES, 1);
	struct g4_groups_page *groups = (struct g4_groups_page *)rig_memory(G4_PAGE_BYTES, 1);
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_superblock sb;
	struct g4_layout layout;
	struct g4_dev *dev;
	uint64_t forgotten = 0;
	bool second;

	assert_int_equal(disks_try_open(d, all_of(level), false, 0, &dev), 0);
	assert_int_equal(g4_superblock_read(wg, dev, &sb, &second), 0);
	g4_layout_of(&sb, &layout);
	assert_true(layout.group_count <= G4_GROUPS_PER_PAGE);
	assert_int_equal(g4_dev_read(wg, dev, layout.groups_address, groups, G4_PAGE_BYTES), 0);
	for (uint64_t group = 0; group < layout.group_count; group++) {
		const uint64_t at = layout.alloc_address + group * G4_PAGE_BYTES;
		if (!(groups->groups[group].flags & G4_GROUP_INITIALISED))
			continue;
		assert_int_equal(g4_dev_read(wg, dev, at, map, G4_PAGE_BYTES), 0);
		for (uint64_t n = 0; n < G4_GROUP_PAGES && group * G4_GROUP_PAGES + n < sb.total_bytes / G4_PAGE_BYTES;
		     n++) {
			struct g4_region *region = &map->regions[n / G4_REGION_PAGES];
			const uint64_t word = n % G4_REGION_PAGES / 64, bit = UINT64_C(1) << n % 64;
			if (!(region->used[word] & bit))
				continue;
			assert_int_equal(g4_dev_read(wg, dev, group * G4_GROUP_BYTES + n * G4_PAGE_BYTES, page,
						     G4_PAGE_BYTES),
					 0);
			if (!is_of_pattern(page, pattern))
				continue;
			region->used[word] &= ~bit;
			groups->groups[group].free_pages++;
			forgotten++;
		}
		g4_block_seal(map, G4_BLOCK_ALLOC, g4_address_from(at), map->header.generation, g4_superblock_tag(&sb));
		assert_int_equal(g4_dev_write(wg, dev, at, map, G4_PAGE_BYTES, 0), 0);
	}
	assert_true(forgotten >= FORGOTTEN_BYTES / G4_PAGE_BYTES);
	g4_block_seal(groups, G4_BLOCK_GROUPS, g4_address_from(layout.groups_address), groups->header.generation,
		      g4_superblock_tag(&sb));
	assert_int_equal(g4_dev_write(wg, dev, layout.groups_address, groups, G4_PAGE_BYTES, 0), 0);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	free(page);
	free(pattern);
	free(map);
	free(groups);
}

/* What they have forgotten is there for a repair, whichever disk is lost then. */
static void of_one_that_had_errors_all_is(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l += 2) {
		if (!takes(0, l))
			continue;
		struct rig_repair how = {.dry_run = false};
		const struct level *level = &levels[l];
		struct g4_dev *dev;
		struct disks d;
		begin_sparse(&d, level, &dev);
		const uint64_t ino = put_forgotten(&d);
		d.rig.fs->super.state |= G4_STATE_ERROR;
		disks_unmount_fs(&d, dev, true);
		forget(&d, level);
		assert_true(replace_offline(&d) > SPARSE_BYTES / 2);
		snprintf(d.rig.name, sizeof(d.rig.name), "%s", disks_name_of(&d, all_of(level)));
		if (rig_repair(&d.rig, &how) < 0)
			fail_msg("%s", how.words);
		assert_true(how.found > 0);
		free(how.text);
		expect_everywhere(&d, level, ino, FORGOTTEN_BYTES);
		disks_free(&d);
	}
}

/* A feature that is not known may have to do with what is in use. */
static void of_one_that_can_only_be_read_all_is(void **state)
{
	const struct level *level = &levels[0];
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	begin_sparse(&d, level, &dev);
	d.rig.fs->super.features_ro_compat |= UINT64_C(1) << 60;
	disks_unmount_fs(&d, dev, true);
	assert_true(replace_offline(&d) > SPARSE_BYTES - 2 * G4_MIB);
	disks_free(&d);
}

/* ---- who writes between the look and the order ---- */

static int give(struct g4_wg *wg, struct g4_dev *dev, uint32_t op, struct g4_dev_order *order)
{
	order->op = op;
	return g4_dev_order(wg, dev, order);
}

static void find_rows(struct g4_dev *set, struct g4_chunk *chunk)
{
	chunk->parity = 0;
	for (uint32_t n = 0; !chunk->parity; n++)
		assert_true(g4_set_chunk(set, n, chunk));
}

/* What lies before the rows; what comes next is in the order then. */
static void rebuild_front(struct g4_wg *wg, struct g4_dev *dev, const struct g4_chunk *chunk, struct g4_dev_order *o)
{
	do {
		o->bytes = 0;
		assert_int_equal(give(wg, dev, G4_ORDER_STEP, o), 0);
		assert_int_equal(give(wg, dev, G4_ORDER_NEXT, o), 0);
	} while (o->done < chunk->address);
}

static void what_is_written_meanwhile_is_made(void **state)
{
	const struct level *level = &levels[2];
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_iov iov = {page, G4_PAGE_BYTES};
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	begin_sparse(&d, level, &dev);
	disks_unmount_fs(&d, dev, true);
	memset(d.memory[1], UNTOUCHED, d.bytes[1]);
	if (disks_try_open(&d, all_of(level) & ~2u, true, 0, &dev) < 0)
		fail_msg("%s", d.message);
	struct g4_dev_order o = {.name = d.names[1], .text = d.message, .text_bytes = sizeof(d.message)};
	if (give(wg, dev, G4_ORDER_REPLACE, &o) < 0)
		fail_msg("%s", d.message);
	o = (struct g4_dev_order){.bytes = 0};
	struct g4_chunk chunk;
	find_rows(dev, &chunk);
	rebuild_front(wg, dev, &chunk, &o);
	const uint64_t address = o.done, all = o.bytes;
	assert_true(all > 2 * G4_PAGE_BYTES);
	/* a page of each column: one of them is on the disk that is being rebuilt */
	for (uint32_t c = 0; c + 1 < level->disks; c++) {
		struct g4_io io = {.op = G4_IO_WRITE,
				   .offset_bytes = address + c * (uint64_t)chunk.stripe_bytes,
				   .iov = &iov,
				   .iov_count = 1};
		g4_dev_submit(wg, dev, &io);
		assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	}
	o.bytes = all;
	assert_int_equal(give(wg, dev, G4_ORDER_SKIP, &o), 0);
	assert_int_equal(o.bytes, 0);
	/* nor without a look, nor twice after one */
	o.bytes = all;
	assert_int_equal(give(wg, dev, G4_ORDER_SKIP, &o), 0);
	assert_int_equal(o.bytes, 0);
	/* what of rows is less than a bit of the map is made as well */
	assert_int_equal(give(wg, dev, G4_ORDER_NEXT, &o), 0);
	assert_int_equal(o.done, address);
	o.bytes = G4_MIB;
	assert_int_equal(give(wg, dev, G4_ORDER_SKIP, &o), 0);
	assert_int_equal(o.bytes, 0);
	o.bytes = 0;
	while (give(wg, dev, G4_ORDER_STEP, &o) == 0)
		o.bytes = 0;
	for (uint32_t c = 0; c + 1 < level->disks; c++) {
		assert_int_equal(g4_dev_read(wg, dev, address + c * (uint64_t)chunk.stripe_bytes, found, G4_PAGE_BYTES),
				 0);
		assert_memory_equal(found, page, G4_PAGE_BYTES);
	}
	g4_dev_close(dev);
	disks_expect_clean(&d, all_of(level));
	g4_wg_destroy(wg);
	free(page);
	free(found);
	disks_free(&d);
}

/* ---- what can not be read where rows were left out ---- */

struct passed { /* a row of pages that was passed: of each disk, where it has its page of data; 0: it has parity there */
	uint64_t address[MOST_DISKS], at[MOST_DISKS];
};

/* One of which disks 1 and 3 have data. */
static struct passed find_passed(const struct disks *d, const struct g4_chunk *chunk)
{
	const uint32_t k = g4_chunk_data_columns(chunk);

	for (uint64_t stripe = 0; stripe < chunk->place_bytes / chunk->stripe_bytes; stripe++) {
		struct passed row = {.at = {0}};
		uint64_t n = 0;
		for (uint32_t c = 0; c < k; c++) {
			const uint64_t place = g4_chunk_place(chunk, stripe, c);
			row.address[g4_place_disk(place)] = chunk->address + (stripe * k + c) * chunk->stripe_bytes;
			row.at[g4_place_disk(place)] = g4_place_address(place) + stripe * chunk->stripe_bytes;
		}
		if (!row.at[1] || !row.at[3])
			continue;
		while (n < chunk->stripe_bytes && d->memory[1][row.at[1] + n] == UNTOUCHED)
			n++;
		if (n == chunk->stripe_bytes)
			return row;
	}
	fail_msg("no row was passed");
	return (struct passed){.at = {0}};
}

/* Beside a page that can not be read, and that nobody has ever used since: what is written is there without its disk. */
static void a_page_that_can_not_be_read_does_not_keep_parity_wrong(void **state)
{
	const struct level *level = &levels[3];
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
	const struct g4_fault none = {.bad_bytes = 0};
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_chunk chunk;
	uint32_t other = 0;
	struct g4_dev *dev;
	struct faulty f;
	struct disks d;

	(void)state;
	begin_sparse(&d, level, &dev);
	begin(&d, G4_DISK_OFFLINE, 1);
	memset(d.memory[1], UNTOUCHED, d.bytes[1]);
	begin(&d, G4_DISK_REPLACE, 1);
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	disks_open_faulty(&d, &f);
	find_rows(f.set, &chunk);
	const struct passed row = find_passed(&d, &chunk);
	while (other == 1 || other == 3 || !row.at[other])
		other++;
	const uint64_t address = row.address[other];
	const struct g4_fault bad = {.bad_at = row.at[3], .bad_bytes = G4_PAGE_BYTES},
			      lost = {.bad_at = row.at[other], .bad_bytes = G4_PAGE_BYTES};
	g4_dev_fault_set(f.fault[3], &bad);
	assert_int_equal(g4_dev_write(wg, f.set, address, page, G4_PAGE_BYTES, 0), 0);
	assert_int_equal(g4_dev_flush(wg, f.set), 0);
	/* without its page, and without both */
	g4_dev_fault_set(f.fault[other], &lost);
	for (uint32_t both = 0; both < 2; both++) {
		g4_dev_fault_set(f.fault[3], both ? &bad : &none);
		assert_int_equal(g4_dev_read(wg, f.set, address, found, G4_PAGE_BYTES), 0);
		assert_memory_equal(found, page, G4_PAGE_BYTES);
	}
	g4_dev_close(f.set);
	disks_expect_clean(&d, all_of(level));
	if (disks_try_open(&d, all_of(level) & ~(1u << other), true, 0, &dev) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(g4_dev_read(wg, dev, address, found, G4_PAGE_BYTES), 0);
	assert_memory_equal(found, page, G4_PAGE_BYTES);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	free(page);
	free(found);
	disks_free(&d);
}

/* ---- a map that is not on all disks ---- */

static uint8_t *map_of(const struct disks *d, uint32_t disk)
{
	const struct g4_superblock *sb =
		(const struct g4_superblock *)(const void *)(d->memory[0] + G4_SUPERBLOCK_ADDRESS);
	uint8_t *page = d->memory[disk] + G4_MIB + sb->parity_log_bytes - G4_PAGE_BYTES;

	assert_int_equal(((const struct g4_parity_log *)(const void *)page)->kind, G4_PARITY_LOG_MAP);
	return page;
}

static void take_disks(const struct disks *d, uint8_t **kept)
{
	for (uint32_t n = 0; n < d->count; n++) {
		kept[n] = (uint8_t *)malloc(d->bytes[n]);
		rig_copy(kept[n], d->memory[n], d->bytes[n]);
	}
}

static void put_disks_back(struct disks *d, uint8_t **kept)
{
	for (uint32_t n = 0; n < d->count; n++) {
		rig_copy(d->memory[n], kept[n], d->bytes[n]);
		free(kept[n]);
	}
}

static void open_some(struct disks *d, uint32_t which, struct g4_dev **dev)
{
	if (disks_try_open(d, which, true, 0, dev) < 0)
		fail_msg("%s", d->message);
}

/*
 * The power fails when only disk 0 has the map without the regions that are left out; after the rebuild has gone on to its end it fails
 * again, and disk 0 is lost.
 */
static void a_map_that_one_disk_has_gets_to_the_others(void **state)
{
	const struct level *level = &levels[3];
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
	const uint32_t all = all_of(level);
	struct g4_wg *wg = g4_wg_create(0);
	uint8_t map[G4_PAGE_BYTES], *kept[MOST_DISKS];
	struct g4_chunk chunk;
	struct g4_dev *dev;
	struct disks d;
	int rc = 0;

	(void)state;
	begin_sparse(&d, level, &dev);
	disks_unmount_fs(&d, dev, true);
	memset(d.memory[1], UNTOUCHED, d.bytes[1]);
	open_some(&d, all & ~2u, &dev);
	struct g4_dev_order o = {.name = d.names[1], .text = d.message, .text_bytes = sizeof(d.message)};
	if (give(wg, dev, G4_ORDER_REPLACE, &o) < 0)
		fail_msg("%s", d.message);
	o = (struct g4_dev_order){.bytes = 0};
	find_rows(dev, &chunk);
	rebuild_front(wg, dev, &chunk, &o);
	assert_int_equal(give(wg, dev, G4_ORDER_NOTE, &o), 0);
	take_disks(&d, kept);
	assert_int_equal(give(wg, dev, G4_ORDER_NEXT, &o), 0);
	assert_int_equal(give(wg, dev, G4_ORDER_SKIP, &o), 0);
	assert_true(o.bytes > 0);
	memcpy(map, map_of(&d, 0), G4_PAGE_BYTES);
	g4_dev_close(dev);
	put_disks_back(&d, kept);
	assert_memory_not_equal(map, map_of(&d, 0), G4_PAGE_BYTES);
	memcpy(map_of(&d, 0), map, G4_PAGE_BYTES);
	/* it goes on */
	open_some(&d, all, &dev);
	while (rc == 0) {
		assert_int_equal(give(wg, dev, G4_ORDER_NEXT, &o), 0);
		if (o.done >= chunk.address && o.bytes > 0)
			assert_int_equal(give(wg, dev, G4_ORDER_SKIP, &o), 0);
		else
			o.bytes = 0;
		if (o.bytes == 0)
			rc = give(wg, dev, G4_ORDER_STEP, &o);
	}
	assert_int_equal(rc, 1);
	const struct passed row = find_passed(&d, &chunk);
	take_disks(&d, kept);
	g4_dev_close(dev);
	put_disks_back(&d, kept);
	open_some(&d, all & ~1u, &dev);
	assert_int_equal(g4_dev_write(wg, dev, row.address[3], page, G4_PAGE_BYTES, 0), 0);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	g4_dev_close(dev);
	open_some(&d, all & ~9u, &dev);
	assert_int_equal(g4_dev_read(wg, dev, row.address[3], found, G4_PAGE_BYTES), 0);
	assert_memory_equal(found, page, G4_PAGE_BYTES);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	free(page);
	free(found);
	disks_free(&d);
}

/* ---- the power fails ---- */

#define CUT_BYTES (36 * G4_MIB)
#define PIECE_BYTES (2 * G4_MIB) /* each file has a region of the allocator */
#define PUTS 12u
static const struct level cut_levels[] = {{3, 0, 1}, {4, 0, 2}};

/* Full, but for what was in the middle, by address, where parity is right for what is there no more; mounted. */
static void fill_around(struct disks *d, const struct level *level, struct g4_dev **dev)
{
	const uint64_t bytes[MOST_DISKS] = {CUT_BYTES, CUT_BYTES, CUT_BYTES, CUT_BYTES};
	uint8_t *data = rig_memory(PIECE_BYTES, 6);
	struct g4_map_extent at[CUT_BYTES * MOST_DISKS / PIECE_BYTES];
	uint64_t ino, done = PIECE_BYTES;
	uint32_t count = 0, extents;
	struct g4_chunk chunk;
	char name[32];

	disks_make(d, level->disks, bytes);
	disks_format_rows(d, level->parity, G4_CHECKSUM_NONE);
	disks_mount_fs(d, all_of(level), dev);
	while (done == PIECE_BYTES) {
		snprintf(name, sizeof(name), "p%u", count);
		assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
		if (op_write(&d->rig, ino, 0, 0, data, PIECE_BYTES, &done) < 0)
			break;
		assert_int_equal(op_fsync(&d->rig, ino), 0);
		assert_int_equal(op_map(&d->rig, ino, 0, &at[count++], 1, &extents), 0);
		assert_int_equal(extents, 1);
	}
	find_rows(*dev, &chunk);
	for (uint32_t n = 0; n < count; n++) {
		const uint64_t within = at[n].address - chunk.address;
		if (within < chunk.bytes / 4 || within >= chunk.bytes * 3 / 4)
			continue;
		snprintf(name, sizeof(name), "p%u", n);
		assert_int_equal(op_unlink(&d->rig, G4_NODE_ROOT, name), 0);
	}
	assert_int_equal(op_sync(&d->rig), 0);
	free(data);
}

/* Whether all of one region of the map of rows is free. */
static bool has_gap(struct disks *d, struct g4_dev *dev)
{
	struct g4_chunk chunk;

	find_rows(dev, &chunk);
	const uint64_t pages = g4_chunk_data_columns(&chunk) * G4_PARITY_REGION_BYTES / G4_PAGE_BYTES;
	for (uint64_t from = 0; (from + pages) * G4_PAGE_BYTES <= chunk.bytes; from += pages)
		if (g4_alloc_count(d->rig.wg, &d->rig.fs->alloc, chunk.address / G4_PAGE_BYTES + from, pages, false) ==
		    pages)
			return true;
	return false;
}

/* Where metadata lies is not the test's to choose: in one of five file systems it is in the middle, and another one is made. */
static void begin_gap(struct disks *d, const struct level *level)
{
	struct g4_dev *dev;

	for (fill_around(d, level, &dev); !has_gap(d, dev); fill_around(d, level, &dev)) {
		disks_unmount_fs(d, dev, true);
		disks_free(d);
	}
	disks_unmount_fs(d, dev, true);
	memset(d->memory[1], UNTOUCHED, d->bytes[1]);
	disks_mount_fs(d, all_of(level) & ~2u, &dev);
	begin(d, G4_DISK_REPLACE, 1);
	disks_unmount_fs(d, dev, true);
}

struct cut {
	struct disks_order order;
	uint32_t begun[PUTS], durable[PUTS];
};

/* All that was synced before a request is there, or what came later. */
static void expect_puts(struct disks *d, const struct cut *c, uint32_t at, uint32_t which)
{
	for (uint32_t n = 0; n < PUTS; n++)
		if (c->durable[n] <= at && (n + FILES >= PUTS || c->begun[n + FILES] >= at) &&
		    disks_has(d, n % FILES, n) != 1)
			fail_msg("put %u is lost with disks %x at request %u", n, which, at);
}

static void judge_cut(struct disks *crashed, const struct level *level, const struct cut *c, uint32_t at)
{
	const uint32_t all = all_of(level), later = all & ~(1u << (at % 2 ? 0 : level->disks - 1));
	struct g4_dev *dev;

	disks_mount_fs(crashed, all, &dev);
	expect_puts(crashed, c, at, all);
	if (job_of(crashed).kind == G4_JOB_REBUILD)
		finish(crashed);
	assert_int_equal(disks_scrub(crashed), 0);
	assert_int_equal(disks_put(crashed, FILES, 1), 0);
	disks_unmount_fs(crashed, dev, true);
	disks_expect_clean(crashed, all);
	disks_mount_fs(crashed, later, &dev);
	expect_puts(crashed, c, at, later);
	assert_int_equal(disks_has(crashed, FILES, 1), 1);
	disks_unmount_fs(crashed, dev, true);
	disks_expect_clean(crashed, later);
}

/* Where the disk that is being rebuilt is lost, or others. */
static void judge_loss(struct disks *crashed, const struct level *level, const struct cut *c, uint32_t at)
{
	const uint32_t which = all_of(level) & ~2u;
	struct g4_dev *dev;

	disks_mount_fs(crashed, which, &dev);
	expect_puts(crashed, c, at, which);
	assert_int_equal(disks_put(crashed, FILES, 1), 0);
	disks_unmount_fs(crashed, dev, true);
	disks_expect_clean(crashed, which);
}

/* What is free before the gap is used first: what comes then lies in it. */
static void fill_border(struct disks *d)
{
	uint8_t *data = rig_memory(PIECE_BYTES, 7);
	uint64_t ino, done = 0;

	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "border", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&d->rig, ino, 0, 0, data, PIECE_BYTES, &done), 0);
	assert_int_equal(op_fsync(&d->rig, ino), 0);
	free(data);
}

static void explore(const struct level *level, uint32_t every, uint32_t *states)
{
	struct cut *c = (struct cut *)calloc(1, sizeof(*c));
	uint64_t random = 4711 + level->disks;
	uint8_t *start[MOST_DISKS];
	struct disks d, crashed;
	struct faulty f;
	uint32_t n = 0;

	begin_gap(&d, level);
	for (uint32_t k = 0; k < d.count; k++) {
		start[k] = (uint8_t *)malloc(d.bytes[k]);
		rig_copy(start[k], d.memory[k], d.bytes[k]);
	}
	mount_faulty(&d, &f, &c->order);
	/* writers wait until the gap was passed: else it is none */
	bool passed = false;
	for (struct g4_job_record before = job_of(&d), now; job_of(&d).state == G4_JOB_RUNNING; before = now) {
		step(&d);
		now = job_of(&d);
		passed = passed || now.done - before.done >= G4_PARITY_REGION_BYTES / G4_PAGE_BYTES;
		if (!passed || n == PUTS)
			continue;
		c->begun[n] = c->order.count;
		if (n == 0)
			fill_border(&d);
		assert_int_equal(disks_put(&d, n % FILES, n), 0);
		c->durable[n++] = c->order.count;
		if (n == 2) { /* how far it is becomes durable */
			tell(&d, G4_JOB_PAUSE);
			tell(&d, G4_JOB_RESUME);
		}
	}
	assert_true(n > 2);
	for (; n < PUTS; n++) {
		c->begun[n] = c->order.count;
		assert_int_equal(disks_put(&d, n % FILES, n), 0);
		c->durable[n] = c->order.count;
	}
	disks_make(&crashed, level->disks, d.bytes);
	/* before the gap nothing happens that other tests do not have */
	for (uint32_t at = c->begun[0] > 2 * every ? c->begun[0] - 2 * every : 0; at <= c->order.count; at += every)
		for (uint32_t lost = 0; lost < 2; lost++, ++*states) {
			disks_crash(&crashed, start, &f, &c->order, at, &random);
			if (lost)
				judge_loss(&crashed, level, c, at);
			else
				judge_cut(&crashed, level, c, at);
		}
	disks_unmount_fs(&d, f.set, true);
	for (uint32_t k = 0; k < d.count; k++)
		free(start[k]);
	disks_free(&crashed);
	disks_free(&d);
	free(c);
}

static void the_power_fails_where_rows_were_left_out(void **state)
{
	const uint32_t every = (uint32_t)rig_setting("G4_CRASH_EVERY", 21 * rig_every(4));
	uint32_t states = 0;

	(void)state;
	for (uint32_t l = 0; l < 2; l++)
		if (takes(3, l))
			explore(&cut_levels[l], every, &states);
	print_message("%u states\n", states);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_in_use_is_copied),
		cmocka_unit_test(of_one_that_is_not_mounted_too),
		cmocka_unit_test(of_one_that_can_not_be_mounted_all_is),
		cmocka_unit_test(of_one_that_had_errors_all_is),
		cmocka_unit_test(of_one_that_can_only_be_read_all_is),
		cmocka_unit_test(what_is_written_meanwhile_is_made),
		cmocka_unit_test(a_page_that_can_not_be_read_does_not_keep_parity_wrong),
		cmocka_unit_test(a_map_that_one_disk_has_gets_to_the_others),
		cmocka_unit_test(the_power_fails_where_rows_were_left_out),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
