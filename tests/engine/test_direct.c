/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to mapped disks by those who make them, past the set (space/direct.h): what is written so is found by way of the set and the other way
 * around, nobody goes past a set in which something is special, and orders wait for those who are on the way.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rebuilding.h"

#include "dev/agent_host.h"
#include "space/sealed.h"
#include "space/set_rows_host.h"
#include "space/space.h"

#define STRIPE (16 * 1024u)

struct level {
	struct g4_set_plan plan;
	uint32_t disks;
};

static const struct level levels[] = {
	{{.raid = G4_RAID_NONE}, 2},
	{{.raid = G4_RAID_0, .stripe_bytes = STRIPE}, 3},
	{{.raid = G4_RAID_1, .copies = 2}, 3},
	{{.raid = G4_RAID_1, .copies = 3}, 3},
	{{.raid = G4_RAID_PARITY, .parity = 1, .stripe_bytes = STRIPE, .journal_bytes = JOURNAL_BYTES}, 4},
	{{.raid = G4_RAID_PARITY, .parity = 2, .stripe_bytes = STRIPE, .journal_bytes = JOURNAL_BYTES}, 4},
};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static void make(struct disks *d, const struct level *level)
{
	disks_make(d, level->disks, NULL);
	disks_format_plan(d, &level->plan, G4_CHECKSUM_BLAKE3);
}

static uint32_t all_of(const struct disks *d)
{
	return (1u << d->count) - 1;
}

static bool is_open(const struct disks *d)
{
	return g4_direct_is_open(&d->rig.fs->space.direct);
}

/* These disks alone, of which nothing is written: whoever looks at others next finds them as they were. */
static struct g4_dev *look_at(struct disks *d, uint32_t which)
{
	struct g4_dev *dev;

	if (disks_try_open(d, which, true, G4_DEV_READ_ONLY, &dev) < 0)
		fail_msg("%s", d->message);
	disks_begin_fs(d, dev, G4_FS_READ_ONLY);
	assert_int_equal(is_open(d), strncmp(d->names[0], "dax:", 4) == 0);
	return dev;
}

/* The disks are files, or memory. */
static void be_mapped(struct disks *d, bool mapped)
{
	for (uint32_t n = 0; n < d->count; n++)
		snprintf(d->names[n], sizeof(d->names[n]), "%s/proc/self/fd/%d", mapped ? "dax:" : "", d->fds[n]);
}

static void both_ways_lead_to_the_same(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct g4_dev *dev;
		struct disks d;

		make(&d, &levels[l]);
		for (uint32_t turn = 0; turn < 4; turn++) {
			be_mapped(&d, turn % 2 == 0);
			disks_mount_fs(&d, all_of(&d), &dev);
			assert_int_equal(is_open(&d), turn % 2 == 0);
			if (turn > 0)
				disks_expect_files(&d, 12, turn - 1);
			for (uint32_t n = 0; n < 12; n++)
				assert_int_equal(disks_put(&d, n, turn), 0);
			disks_expect_files(&d, 12, turn);
			disks_unmount_fs(&d, dev, true);
			disks_expect_clean(&d, all_of(&d));
		}
		/* each copy has all of it */
		for (uint32_t n = 0; n < d.count && levels[l].plan.copies == d.count; n++) {
			dev = look_at(&d, 1u << n);
			disks_expect_files(&d, 12, 3);
			disks_unmount_fs(&d, dev, true);
		}
		disks_free(&d);
	}
}

/* Requests of several parts that cross stripes, chunks and superblocks; the file system is not told, so it is made anew afterwards. */
static void requests_are_cut_as_the_set_does(void **state)
{
	enum { PAGES = 40, TURNS = 300 };
	uint8_t *data = rig_memory(PAGES * G4_PAGE_BYTES, 3), *found = rig_memory(PAGES * G4_PAGE_BYTES, 4);

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct g4_dev *dev;
		struct disks d;
		uint64_t seed = 77 + l;

		make(&d, &levels[l]);
		disks_mount_fs(&d, all_of(&d), &dev);
		assert_true(is_open(&d));
		struct g4_space *space = &d.rig.fs->space;
		const uint64_t pages = g4_space_bytes(space) / G4_PAGE_BYTES;
		for (uint32_t turn = 0; turn < TURNS; turn++) {
			struct g4_iov parts[4];
			struct g4_space_io request;
			uint64_t bytes = 0;

			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			/* the first and the last pages more often; superblocks are not written over */
			uint64_t at =
				turn % 4 == 0 ? pages - 1 - (seed >> 33) % (2 * PAGES) : (seed >> 33) % (pages - PAGES);
			for (uint32_t k = 0; k < 4; k++) {
				const uint64_t some = ((seed >> (8 * k)) % 10) * G4_PAGE_BYTES;
				parts[k] = (struct g4_iov){data + bytes, some};
				bytes += some;
			}
			bool super = at + bytes / G4_PAGE_BYTES >= pages;
			for (uint32_t k = 0; k < G4_DIRECT_SUPERS; k++) {
				const uint64_t page = space->direct.table.supers[k] / G4_PAGE_BYTES;
				super = super || (page >= at && page < at + bytes / G4_PAGE_BYTES);
			}
			if (super || bytes == 0)
				continue;
			rig_pattern(data, (uint32_t)(l * TURNS + turn), bytes);
			g4_space_io_init(&request, G4_IO_WRITE, g4_page_address(at), parts, 4);
			if (turn % 2) {
				assert_int_equal(g4_space_transfer(d.rig.wg, space, &request, 1), 0);
				assert_int_equal(g4_space_flush(d.rig.wg, space), 0); /* what is kept, too */
			} else
				assert_int_equal(g4_dev_write(d.rig.wg, dev, at * G4_PAGE_BYTES, data, bytes, 0), 0);
			memset(found, 0, bytes);
			if (turn % 2)
				assert_int_equal(g4_dev_read(d.rig.wg, dev, at * G4_PAGE_BYTES, found, bytes), 0);
			else
				assert_int_equal(g4_space_read(d.rig.wg, space, g4_page_address(at), found, bytes), 0);
			assert_memory_equal(found, data, bytes);
			for (uint32_t c = 0; c < g4_space_copies(space); c++) {
				memset(found, 0, bytes);
				const int rc =
					g4_space_read_copy(d.rig.wg, space, c, g4_page_address(at), found, bytes);
				if (levels[l].plan.parity && c > 0 && rc == -G4_E_NOENT)
					continue; /* it lies in rows */
				assert_int_equal(rc, 0);
				assert_memory_equal(found, data, bytes);
			}
		}
		assert_int_equal(g4_space_check(d.rig.wg, space, g4_page_address(0), pages * G4_PAGE_BYTES), 0);
		/* beyond the end */
		assert_int_equal(g4_space_read(d.rig.wg, space, g4_page_address(pages), found, G4_PAGE_BYTES),
				 -G4_E_DEV_RANGE);
		assert_int_equal(g4_space_write(d.rig.wg, space, g4_page_address(pages - 1), found, 2 * G4_PAGE_BYTES,
						0),
				 -G4_E_DEV_RANGE);
		disks_unmount_fs(&d, dev, false);
		disks_free(&d);
	}
	free(data);
	free(found);
}

/* A superblock by way of the lanes would be one of a disk of its own, and of no set. */
static void superblocks_are_the_sets(void **state)
{
	uint8_t *page = rig_memory(2 * G4_PAGE_BYTES, 1), *before = rig_memory(2 * G4_PAGE_BYTES, 2);
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	make(&d, &levels[1]);
	disks_mount_fs(&d, all_of(&d), &dev);
	struct g4_space *space = &d.rig.fs->space;
	for (uint32_t k = 0; k < G4_DIRECT_SUPERS; k++) {
		const uint64_t at = space->direct.table.supers[k];
		assert_int_equal(g4_dev_read(d.rig.wg, dev, at, before, G4_PAGE_BYTES), 0);
		assert_int_equal(g4_space_read(d.rig.wg, space, g4_address_from(at), page, G4_PAGE_BYTES), 0);
		assert_memory_equal(page, before, G4_PAGE_BYTES);
		assert_int_equal(((struct g4_superblock *)page)->disk_count, 3);
	}
	/* in the middle of a request, too */
	const uint64_t second = space->direct.table.supers[1];
	assert_int_equal(
		g4_space_read(d.rig.wg, space, g4_address_from(second - G4_PAGE_BYTES), page, 2 * G4_PAGE_BYTES), 0);
	assert_memory_equal(page + G4_PAGE_BYTES, before, 16);
	disks_unmount_fs(&d, dev, true);
	disks_expect_clean(&d, all_of(&d));
	disks_free(&d);
	free(page);
	free(before);
}

static void nobody_goes_past_what_is_special(void **state)
{
	struct g4_dev *dev;
	struct faulty f;
	struct disks d;

	(void)state;
	make(&d, &levels[3]);
	disks_open_faulty(&d, &f); /* no memory */
	disks_begin_fs(&d, f.set, 0);
	assert_false(is_open(&d));
	disks_unmount_fs(&d, f.set, true);
	assert_int_equal(disks_try_open(&d, all_of(&d), false, G4_DEV_READ_ONLY, &dev), 0);
	disks_begin_fs(&d, dev, G4_FS_READ_ONLY);
	assert_true(is_open(&d));
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 1);
	assert_int_equal(g4_space_write(d.rig.wg, &d.rig.fs->space, g4_page_address(2000), page, G4_PAGE_BYTES, 0),
			 -G4_E_DEV_READONLY);
	free(page);
	disks_unmount_fs(&d, dev, true);

	disks_mount_fs(&d, all_of(&d), &dev);
	assert_int_equal(disks_put(&d, 1, 1), 0);
	begin(&d, G4_DISK_OFFLINE, 1);
	assert_true(is_open(&d)); /* for reads: test_degraded.c */
	assert_int_equal(disks_put(&d, 1, 2), 0);
	begin(&d, G4_DISK_REBUILD, 1);
	while (job_of(&d).state == G4_JOB_RUNNING) {
		assert_false(is_open(&d));
		step(&d);
	}
	assert_int_equal(job_of(&d).state, G4_JOB_DONE);
	assert_true(is_open(&d));
	assert_int_equal(disks_put(&d, 1, 3), 0);
	disks_unmount_fs(&d, dev, true);
	for (uint32_t n = 0; n < d.count; n++) {
		dev = look_at(&d, 1u << n);
		assert_int_equal(disks_has(&d, 1, 3), 1);
		disks_unmount_fs(&d, dev, true);
	}
	disks_free(&d);
}

static void an_agent_is_asked_for_nothing(void **state)
{
	struct g4_dev *set, *remote;
	struct disks d;

	(void)state;
	make(&d, &levels[2]);
	assert_int_equal(disks_try_open(&d, all_of(&d), false, 0, &set), 0);
	assert_int_equal(g4_dev_remote_open(set, NULL, &remote), 0);
	disks_begin_fs(&d, remote, 0);
	assert_true(is_open(&d));
	struct g4_agent *agent = g4_dev_remote_agent(remote);
	const uint64_t before = g4_agent_counts(agent).requests;
	for (uint32_t n = 0; n < 8; n++)
		assert_int_equal(disks_put(&d, n, 1), 0);
	disks_expect_files(&d, 8, 1);
	assert_int_equal(g4_agent_counts(agent).requests, before);
	disks_unmount_fs(&d, remote, true);
	disks_expect_clean(&d, all_of(&d));
	disks_free(&d);
}

/* Chunks of a table that is none of this set's disks: the set says so of each request, and nobody reads behind a mapping. */
static void places_behind_a_disks_end_are_not_reached(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 1);
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	make(&d, &levels[1]);
	for (uint32_t copy = 0; copy < 2;
	     copy++) { /* disk 0 speaks, and says that the last one is longer than that says itself */
		const uint64_t at = g4_set_label_address(d.bytes[0], copy == 1);
		struct g4_superblock *sb = (struct g4_superblock *)(void *)(d.memory[0] + at);
		sb->disk_bytes[2] += 2 * d.bytes[2];
		sb->header.generation += 1;
		g4_block_seal(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(at), sb->header.generation,
			      g4_superblock_tag(sb));
	}
	for (uint32_t n = 0; n < d.count; n++) {
		const struct g4_superblock *sb =
			(const struct g4_superblock *)(const void *)(d.memory[n] + G4_SUPERBLOCK_ADDRESS);
		const uint64_t at = sb->chunk_list_head;
		struct g4_chunks_page *chunks = (struct g4_chunks_page *)(void *)(d.memory[n] + at);
		for (uint32_t k = 0; k < chunks->count; k++)
			for (uint32_t p = 0; p < (uint32_t)chunks->chunks[k].columns * chunks->chunks[k].copies; p++)
				if (k == chunks->count - 1 && g4_place_disk(chunks->chunks[k].places[p]) == 2)
					chunks->chunks[k].places[p] += d.bytes[2];
		g4_block_seal(chunks, G4_BLOCK_CHUNKS, g4_address_from(at), 0, g4_superblock_tag(sb));
	}
	if (disks_try_open(&d, all_of(&d), false, G4_DEV_READ_ONLY, &dev) < 0)
		fail_msg("%s", d.message);
	struct g4_wg *wg = g4_wg_create(0);
	uint32_t refused = 0;
	for (uint32_t k = 2; k < 5; k++) { /* a stripe of each disk */
		const uint64_t at = g4_dev_props(dev)->size_bytes - k * STRIPE;
		refused += g4_dev_read(wg, dev, at, page, G4_PAGE_BYTES) == -G4_E_DEV_RANGE;
	}
	assert_int_equal(refused, 1);
	struct g4_direct *direct = (struct g4_direct *)calloc(1, sizeof(*direct));
	assert_non_null(direct);
	g4_direct_ask(wg, direct, dev);
	assert_false(g4_direct_is_open(direct));
	free(direct);
	g4_wg_destroy(wg);
	g4_dev_close(dev);
	disks_free(&d);
	free(page);
}

/* What an order watched while it lasted keeps nobody out behind it. */
static void the_gate_is_open_again_when_all_was_moved(void **state)
{
	(void)state;
	for (uint32_t removes = 0; removes < 2; removes++) {
		const uint32_t kind = removes ? G4_JOB_REMOVE : G4_JOB_REBALANCE;
		uint64_t sizes[4], done = 0, ino;
		struct g4_dev *dev;
		struct disks d;

		for (uint32_t n = 0; n < 4; n++)
			sizes[n] = 24 * G4_MIB;
		disks_make(&d, 4, sizes);
		d.count = removes ? 4 : 3;
		disks_format_plan(&d, &levels[2].plan, G4_CHECKSUM_CRC32C);
		disks_mount_fs(&d, all_of(&d), &dev);
		assert_true(is_open(&d));
		uint8_t *data = rig_memory(G4_MIB, 5);
		assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "some", G4_S_IFREG | 0644, &ino), 0);
		for (uint64_t at = 0; at < 6 * G4_MIB; at += G4_MIB)
			assert_int_equal(op_write(&d.rig, ino, 0, at, data, G4_MIB, &done), 0);
		free(data);
		if (!removes) {
			disks_unmount_fs(&d, dev, true);
			assert_int_equal(disks_try_open(&d, all_of(&d), false, 0, &dev), 0);
			assert_int_equal(g4_set_add_to(dev, NULL, d.names[d.count++], d.message, sizeof(d.message)), 0);
			disks_begin_fs(&d, dev, 0);
			assert_true(is_open(&d));
		}
		if (order(&d, removes ? G4_DISK_REMOVE : G4_DISK_REBALANCE, removes ? d.names[1] : "") < 0)
			fail_msg("%s", d.message);
		for (uint32_t steps = 0; newest_of(&d, kind).state == G4_JOB_RUNNING; steps++) {
			step(&d);
			assert_true(steps < 2000);
		}
		assert_int_equal(newest_of(&d, kind).state, G4_JOB_DONE);
		assert_true(is_open(&d));
		assert_int_equal(disks_put(&d, 1, 1), 0);
		disks_expect_filled(&d, ino, 6 * G4_MIB);
		disks_unmount_fs(&d, dev, true);
		disks_expect_clean(&d, removes ? all_of(&d) & ~2u : all_of(&d));
		disks_free(&d);
	}
}

/* Mappings of those who make requests, as a GPU has them: one of each device that they were told of. */
struct placed {
	uint8_t *at[MOST_DISKS];
	uint64_t opened[MOST_DISKS], bytes[MOST_DISKS];
	uint32_t count;
	bool refuses;
};

static int place(void *context, void *memory, uint64_t bytes)
{
	struct placed *placed = (struct placed *)context;
	struct g4_direct_table *table = (struct g4_direct_table *)memory;

	if (placed->refuses || bytes < sizeof(*table))
		return -G4_E_NOTSUP;
	for (uint32_t d = 0; d < table->disk_count; d++) {
		uint32_t n = 0;
		if (table->disks[d] == 0)
			continue;
		while (n < placed->count && placed->opened[n] != table->opened[d])
			n++;
		if (n == placed->count) {
			void *at = mremap((void *)(uintptr_t)table->disks[d], 0, table->disk_bytes[d], MREMAP_MAYMOVE);
			if (at == MAP_FAILED || n == MOST_DISKS)
				return -G4_E_NOTSUP;
			placed->at[n] = (uint8_t *)at;
			placed->opened[n] = table->opened[d];
			placed->bytes[n] = table->disk_bytes[d];
			placed->count++;
		}
		table->disks[d] = (uintptr_t)placed->at[n];
	}
	return 0;
}

static bool is_placed(const struct placed *placed, uint64_t at)
{
	for (uint32_t n = 0; n < placed->count; n++)
		if ((uintptr_t)placed->at[n] == at)
			return true;
	return false;
}

/* Also what an order opens, and as long as it can be had; then the set is used. */
static void disks_are_used_where_they_were_placed(void **state)
{
	struct placed placed = {.count = 0};
	struct g4_dev *set, *remote;
	struct disks d;

	(void)state;
	make(&d, &levels[3]);
	assert_int_equal(disks_try_open(&d, all_of(&d), false, 0, &set), 0);
	assert_int_equal(g4_dev_remote_open(set, NULL, &remote), 0);
	g4_agent_place(g4_dev_remote_agent(remote), place, &placed);
	disks_begin_fs(&d, remote, 0);
	struct g4_direct *direct = &d.rig.fs->space.direct;
	for (uint32_t turn = 0; turn < 3; turn++) {
		assert_true(is_open(&d));
		assert_int_equal(placed.count, d.count + turn);
		for (uint32_t n = 0; n < d.count; n++)
			assert_true(is_placed(&placed, direct->table.disks[n]));
		assert_int_equal(disks_put(&d, turn, 1), 0);
		if (turn == 2)
			break;
		begin(&d, G4_DISK_OFFLINE, turn);
		assert_int_equal(direct->table.missing, 1);
		assert_int_equal(direct->table.disks[turn], 0);
		begin(&d, G4_DISK_REBUILD, turn);
		assert_true(g4_direct_makes(direct));
		finish(&d);
	}
	assert_true(g4_load64_rlx(&direct->made_bytes) > 0);
	placed.refuses = true;
	begin(&d, G4_DISK_OFFLINE, 0);
	begin(&d, G4_DISK_REBUILD, 0);
	finish(&d);
	assert_false(is_open(&d));
	assert_int_equal(disks_put(&d, 3, 1), 0);
	disks_expect_files(&d, 4, 1);
	disks_unmount_fs(&d, remote, true);
	for (uint32_t n = 0; n < placed.count; n++)
		munmap(placed.at[n], placed.bytes[n]);
	disks_expect_clean(&d, all_of(&d));
	disks_free(&d);
}

/* ---- rows with parity ---- */

/* The last stripes of the last chunk with parity, in which nothing is in use: so many. The address; *bytes: of one. */
static uint64_t free_stripes(const struct disks *d, uint32_t count, uint64_t *bytes)
{
	const struct g4_direct_table *table = &d->rig.fs->space.direct.table;
	const struct g4_chunk *chunk = &table->chunks[table->chunk_count - 1];

	assert_true(chunk->parity > 0);
	*bytes = (uint64_t)chunk->stripe_bytes * g4_chunk_data_columns(chunk);
	return chunk->address + (chunk->bytes / *bytes - count - 1) * *bytes;
}

static struct g4_set *set_of(const struct g4_dev *dev)
{
	return (struct g4_set *)dev->host;
}

/* What the disks have, as the machine's memory keeps it when the process is killed. */
static void kill_now(struct disks *killed, const struct disks *d)
{
	disks_make(killed, d->count, d->bytes);
	for (uint32_t n = 0; n < d->count; n++)
		memcpy(killed->memory[n], d->memory[n], d->bytes[n]);
}

/* With any disks lost that may be, 8 files are as they were, and a set that has all of its disks has rows that fit. */
static void expect_survived(const struct disks *d, uint32_t parity)
{
	for (uint32_t lost = 0; lost < 1u << d->count; lost++) {
		struct g4_dev *dev;
		struct disks killed;

		if ((uint32_t)__builtin_popcount(lost) > parity)
			continue;
		kill_now(&killed, d);
		if (disks_try_open(&killed, all_of(d) & ~lost, lost != 0, 0, &dev) < 0)
			fail_msg("%s", killed.message);
		disks_begin_fs(&killed, dev, 0);
		if (lost == 0)
			assert_int_equal(g4_space_check(killed.rig.wg, &killed.rig.fs->space, g4_page_address(0),
							g4_dev_props(dev)->size_bytes),
					 0);
		disks_expect_files(&killed, 8, 1);
		assert_int_equal(disks_put(&killed, 9, 1), 0);
		disks_unmount_fs(&killed, dev, true);
		if (lost == 0)
			disks_expect_clean(&killed, all_of(d));
		disks_free(&killed);
	}
}

static void who_is_killed_with_a_grant_leaves_rows_that_are_completed(void **state)
{
	uint8_t *data = rig_memory(1 * G4_MIB, 9);

	(void)state;
	for (uint32_t l = 4; l < LEVELS; l++) {
		struct g4_dev *dev;
		struct disks d;
		uint64_t bytes;

		make(&d, &levels[l]);
		disks_mount_fs(&d, all_of(&d), &dev);
		for (uint32_t n = 0; n < 8; n++)
			assert_int_equal(disks_put(&d, n, 1), 0);
		const uint64_t at = free_stripes(&d, 3, &bytes);
		g4_dev_words(dev)[5] = 7;
		assert_int_equal(g4_dev_grant(d.rig.wg, dev, at, 3 * bytes, 5), 0);
		assert_int_equal(g4_dev_words(dev)[5], 0);
		const struct g4_chunk *chunk = g4_chunk_find(&set_of(dev)->map, at);
		for (uint32_t columns = 0; columns <= chunk->columns; columns++) { /* of each stripe are written */
			for (uint64_t s = (at - chunk->address) / bytes, k = 0; k < 3 && columns > 0; k++) {
				const uint64_t place = g4_chunk_place(chunk, s + k, columns - 1);
				memcpy(d.memory[g4_place_disk(place)] + g4_place_address(place) +
					       (s + k) * chunk->stripe_bytes,
				       data + (3 * columns + k) * chunk->stripe_bytes / 2, chunk->stripe_bytes);
			}
			expect_survived(&d, levels[l].plan.parity);
		}
		g4_dev_end_grant(dev, 5);
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
	free(data);
}

/*
 * The log has room for one more mark, and a grant needs two, of two regions: the log is emptied for the second one. Both are there when it is given.
 */
static void a_grant_over_two_regions_is_marked_as_a_whole(void **state)
{
	const uint64_t sizes[4] = {40 * G4_MIB, 40 * G4_MIB, 40 * G4_MIB, 40 * G4_MIB};
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 9);
	struct g4_dev *dev;
	uint64_t bytes;
	struct disks d;

	(void)state;
	disks_make(&d, 4, sizes);
	disks_format_plan(&d, &levels[4].plan, G4_CHECKSUM_BLAKE3);
	disks_mount_fs(&d, all_of(&d), &dev);
	for (uint32_t n = 0; n < 8; n++)
		assert_int_equal(disks_put(&d, n, 1), 0);
	const uint64_t last = free_stripes(&d, 1, &bytes);
	const struct g4_chunk *chunk = g4_chunk_find(&set_of(dev)->map, last);
	const struct g4_set_parity *p = set_of(dev)->parity;
	const uint64_t regions = (chunk->place_bytes - 1) / G4_PARITY_REGION_BYTES, /* without the last one */
		each = G4_PARITY_REGION_BYTES / chunk->stripe_bytes * bytes, border = chunk->address + regions * each;
	assert_true(regions >= 2);
	while (p->pages - p->head > 3) {
		assert_int_equal(g4_dev_write(d.rig.wg, dev, last, page, G4_PAGE_BYTES, 0), 0);
		assert_int_equal(g4_dev_flush(d.rig.wg, dev), 0);
	}
	for (uint32_t n = 1; p->pages - p->head > 1; n++) { /* a unit each, from the end to the beginning */
		assert_int_equal(g4_dev_grant(d.rig.wg, dev, border + each / 2 - n * each / 16, bytes, 0), 0);
		g4_dev_end_grant(dev, 0);
	}
	const uint64_t epoch = p->epoch;
	assert_int_equal(g4_dev_grant(d.rig.wg, dev, border - bytes, 2 * bytes, 0), 0);
	assert_true(p->epoch > epoch);	   /* it was emptied for that */
	for (uint32_t n = 0; n < 2; n++) { /* a column of each stripe is written, and the process is killed */
		const uint64_t stripe = (border - chunk->address) / bytes - 1 + n,
			       place = g4_chunk_place(chunk, stripe, 1);
		memcpy(d.memory[g4_place_disk(place)] + g4_place_address(place) + stripe * chunk->stripe_bytes, page,
		       G4_PAGE_BYTES);
	}
	expect_survived(&d, 1);
	g4_dev_end_grant(dev, 0);
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);
	free(page);
}

/* A clock that jumps for the one who waits, as it does for a process that was stopped. */
static __thread bool is_waiter;
static uint64_t waiter_jumped_ns;
static uint32_t waiter_looks; /* atomic, at the clock */

int clock_gettime(clockid_t id, struct timespec *now)
{
	const int rc = (int)syscall(SYS_clock_gettime, id, now);

	if (is_waiter) {
		now->tv_sec += (time_t)(g4_load64_acq(&waiter_jumped_ns) / UINT64_C(1000000000));
		g4_add32(&waiter_looks, 1);
	}
	return rc;
}

struct waiter {
	struct g4_dev *dev;
	uint64_t address, bytes;
	uint32_t kind;
	uint32_t returned; /* atomic */
	int rc;
};

static void *wait_for_a_grant(void *argument)
{
	struct waiter *w = (struct waiter *)argument;
	struct g4_set *set = set_of(w->dev);
	struct g4_wg *wg = g4_wg_create(2);
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 1);

	is_waiter = true;
	switch (w->kind) {
	case 0:
		pthread_rwlock_wrlock(&set->parity->lock);
		w->rc = g4_set_log_empty(wg, set);
		pthread_rwlock_unlock(&set->parity->lock);
		break;
	case 1:
		w->rc = g4_set_parity_check(wg, set, w->address, w->bytes);
		break;
	case 2:
		w->rc = g4_dev_write(wg, w->dev, w->address, page, G4_PAGE_BYTES, 0);
		break;
	default:
		w->rc = g4_dev_grant(wg, w->dev, w->address, w->bytes, 1);
		g4_dev_end_grant(w->dev, 1);
	}
	g4_store32_rel(&w->returned, 1);
	free(page);
	g4_wg_destroy(wg);
	return NULL;
}

static void a_grant_is_waited_for(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind < 4; kind++) {
		struct waiter w = {.kind = kind};
		uint64_t bytes;
		pthread_t thread;
		struct disks d;

		make(&d, &levels[4]);
		disks_mount_fs(&d, all_of(&d), &w.dev);
		assert_int_equal(disks_put(&d, 1, 1), 0);
		w.address = free_stripes(&d, 2, &bytes);
		w.bytes = 2 * bytes;
		assert_int_equal(g4_dev_grant(d.rig.wg, w.dev, w.address, w.bytes, 0), 0);
		assert_int_equal(pthread_create(&thread, NULL, wait_for_a_grant, &w), 0);
		while (pthread_rwlock_tryrdlock(&set_of(w.dev)->parity->lock) == 0) { /* until it has that */
			assert_int_equal(g4_load32_acq(&w.returned), 0);
			pthread_rwlock_unlock(&set_of(w.dev)->parity->lock);
			sched_yield();
		}
		for (uint32_t k = 0; k < 1000; k++) { /* and keeps it, for it waits */
			assert_int_equal(g4_load32_acq(&w.returned), 0);
			assert_int_not_equal(pthread_rwlock_tryrdlock(&set_of(w.dev)->parity->lock), 0);
			sched_yield();
		}
		g4_dev_end_grant(w.dev, 0);
		pthread_join(thread, NULL);
		assert_int_equal(w.rc, 0);
		disks_unmount_fs(&d, w.dev, true);
		disks_free(&d);
	}
}

/* Who was stopped for long has waited no longer for that, and who has the grant goes on as well. */
static void time_in_which_nobody_runs_is_no_waiting(void **state)
{
	struct waiter w = {.kind = 2};
	uint64_t bytes;
	pthread_t thread;
	struct disks d;

	(void)state;
	make(&d, &levels[4]);
	disks_mount_fs(&d, all_of(&d), &w.dev);
	w.address = free_stripes(&d, 2, &bytes);
	assert_int_equal(g4_dev_grant(d.rig.wg, w.dev, w.address, 2 * bytes, 0), 0);
	g4_store32_rel(&waiter_looks, 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_a_grant, &w), 0);
	for (uint32_t turn = 1; turn <= 3; turn++) {
		const uint32_t before = g4_load32_acq(&waiter_looks);
		while (g4_load32_acq(&waiter_looks) < before + 10) { /* it has begun, and goes on */
			assert_int_equal(g4_load32_acq(&w.returned), 0);
			sched_yield();
		}
		g4_store64_rel(&waiter_jumped_ns, turn * UINT64_C(3600000000000));
	}
	g4_dev_end_grant(w.dev, 0);
	pthread_join(thread, NULL);
	g4_store64_rel(&waiter_jumped_ns, 0);
	assert_int_equal(w.rc, 0);
	disks_unmount_fs(&d, w.dev, true);
	disks_free(&d);
}

/* Grants are of whole stripes of one chunk with parity, and of a set that can be written. */
static void what_is_no_grant_is_refused(void **state)
{
	struct g4_dev *dev;
	struct disks d;
	uint64_t bytes;

	(void)state;
	make(&d, &levels[5]);
	disks_mount_fs(&d, all_of(&d), &dev);
	const uint64_t at = free_stripes(&d, 2, &bytes), end = g4_dev_props(dev)->size_bytes;
	const struct {
		uint64_t address, bytes;
		uint32_t number;
	} wrong[] = {
		{at + G4_PAGE_BYTES, bytes, 0},
		{at, bytes - G4_PAGE_BYTES, 0},
		{at, 0, 0},
		{at, UINT64_MAX - G4_PAGE_BYTES + 1, 0},
		{end, bytes, 0},
		{UINT64_MAX - G4_PAGE_BYTES + 1, bytes, 0},
		{at, 1000 * bytes, 0},
		{0, bytes, 0}, /* copies */
		{at, bytes, G4_DEV_GRANTS},
	};
	g4_dev_words(dev)[0] = 5;
	for (uint32_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++) {
		assert_int_equal(g4_dev_grant(d.rig.wg, dev, wrong[n].address, wrong[n].bytes, wrong[n].number),
				 -G4_E_INVAL);
		assert_int_equal(g4_dev_words(dev)[0], 5);
	}
	assert_int_equal(g4_dev_grant(d.rig.wg, dev, at, bytes, 3), 0);
	assert_int_equal(g4_dev_grant(d.rig.wg, dev, at + bytes, bytes, 3), -G4_E_BUSY); /* that has one */
	g4_dev_end_grant(dev, 3);
	assert_int_equal(g4_dev_grant(d.rig.wg, dev, at + bytes, bytes, 3), 0);
	g4_dev_end_grant(dev, 3);
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);
	make(&d, &levels[2]);
	disks_mount_fs(&d, all_of(&d), &dev);
	assert_null(g4_dev_words(dev));
	assert_int_equal(g4_dev_grant(d.rig.wg, dev, at, bytes, 0), -G4_E_NOTSUP);
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);
}

/* By the words that whoever reads by himself looks at. */
static uint32_t rows_held(const struct g4_dev *dev)
{
	uint32_t rows = 0;

	for (uint32_t n = 0; n < G4_DEV_HELD; n++)
		rows += (uint32_t)*g4_dev_held_word(g4_dev_words(dev), n * G4_MIB);
	return rows;
}

/* What is held back is in the set's memory alone: who reads is told so, and who writes over it has the last word. */
static void what_is_held_back_is_the_sets(void **state)
{
	enum { STRIPES = 4 };
	uint8_t *data = rig_memory(G4_MIB, 3), *found = rig_memory(G4_MIB, 4);

	(void)state;
	for (uint32_t l = 4; l < LEVELS; l++) {
		struct g4_dev *dev;
		struct disks d;
		uint64_t bytes;

		make(&d, &levels[l]);
		disks_mount_fs(&d, all_of(&d), &dev);
		struct g4_space *space = &d.rig.fs->space;
		const uint64_t at = free_stripes(&d, STRIPES, &bytes), all = STRIPES * bytes;
		const struct g4_address address = g4_address_from(at);
		assert_int_equal(g4_space_write(d.rig.wg, space, address, data, all, 0), 0);
		assert_int_equal(rows_held(dev), 0);
		for (uint32_t n = 0; n < STRIPES; n++) { /* a page of each stripe */
			const uint64_t page = n * bytes + n * G4_PAGE_BYTES;
			rig_pattern(data + page, 50 + n, G4_PAGE_BYTES);
			assert_int_equal(g4_space_write(d.rig.wg, space, g4_address_after(address, page), data + page,
							G4_PAGE_BYTES, 0),
					 0);
		}
		assert_int_equal(rows_held(dev), STRIPES);
		assert_int_equal(g4_set_held_count(set_of(dev)), STRIPES);
		assert_int_equal(g4_space_read(d.rig.wg, space, address, found, all), 0);
		assert_memory_equal(found, data, all);
		rig_pattern(data, 77, all);
		assert_int_equal(g4_space_write(d.rig.wg, space, address, data, all, 0), 0);
		assert_int_equal(rows_held(dev), 0);
		assert_int_equal(g4_space_flush(d.rig.wg, space), 0);
		assert_int_equal(g4_set_parity_check(d.rig.wg, set_of(dev), 0, g4_dev_props(dev)->size_bytes), 0);
		for (uint32_t turn = 0; turn < 2; turn++) {
			memset(found, 0, all);
			assert_int_equal(turn ? g4_space_read(d.rig.wg, space, address, found, all) :
						g4_dev_read(d.rig.wg, dev, at, found, all),
					 0);
			assert_memory_equal(found, data, all);
		}
		disks_unmount_fs(&d, dev, true);
		disks_expect_clean(&d, all_of(&d));
		disks_free(&d);
	}
	free(data);
	free(found);
}

/* What lanes wrote is made of the others, for each disk that is lost. */
static void lanes_make_the_sets_parity(void **state)
{
	uint8_t *data = rig_memory(G4_MIB, 3), *found = rig_memory(G4_MIB, 4);

	(void)state;
	for (uint32_t l = 4; l < LEVELS; l++) {
		const uint32_t parity = levels[l].plan.parity;
		struct g4_iov parts[5];
		struct g4_space_io request;
		struct g4_dev *dev;
		struct disks d;
		uint64_t bytes, made = 0;

		make(&d, &levels[l]);
		disks_mount_fs(&d, all_of(&d), &dev);
		const uint64_t at = free_stripes(&d, 4, &bytes), all = 4 * bytes;
		for (uint32_t k = 0; k < 5; k++) { /* neither stripes nor columns */
			const uint64_t some = k < 4 ? (2 + 3 * k) * G4_PAGE_BYTES : all - made;
			parts[k] = (struct g4_iov){data + made, some};
			made += some;
		}
		g4_space_io_init(&request, G4_IO_WRITE, g4_address_from(at), parts, 5);
		assert_int_equal(g4_space_transfer(d.rig.wg, &d.rig.fs->space, &request, 1), 0);
		assert_false(g4_set_held_any(set_of(dev)));
		disks_unmount_fs(&d, dev, true);
		for (uint32_t lost = 0; lost < 1u << d.count; lost++) {
			if ((uint32_t)__builtin_popcount(lost) > parity)
				continue;
			assert_int_equal(disks_try_open(&d, all_of(&d) & ~lost, lost != 0, G4_DEV_READ_ONLY, &dev), 0);
			struct g4_wg *wg = g4_wg_create(0);
			memset(found, 0, all);
			assert_int_equal(g4_dev_read(wg, dev, at, found, all), 0);
			assert_memory_equal(found, data, all);
			g4_wg_destroy(wg);
			g4_dev_close(dev);
		}
		disks_free(&d);
	}
	free(data);
	free(found);
}

/*
 * Memory of a caller's that is changed while it is written: it is where column 1 is to lie, so it changes when that is stored. Parity is of what is stored, or
 * pages that get a place in the row later are lost with a disk.
 */
static void parity_is_of_what_is_stored(void **state)
{
	uint8_t *data = rig_memory(G4_MIB, 3);

	(void)state;
	for (uint32_t l = 4; l < LEVELS; l++) {
		struct g4_iov parts[2];
		struct g4_space_io request;
		struct g4_dev *dev;
		struct disks d;
		uint64_t bytes;

		make(&d, &levels[l]);
		disks_mount_fs(&d, all_of(&d), &dev);
		const struct g4_direct_table *table = &d.rig.fs->space.direct.table;
		const uint64_t at = free_stripes(&d, 1, &bytes);
		const struct g4_chunk *chunk = g4_chunk_find(&set_of(dev)->map, at);
		const uint64_t stripe = (at - chunk->address) / bytes, place = g4_chunk_place(chunk, stripe, 1);
		uint8_t *there = (uint8_t *)(uintptr_t)table->disks[g4_place_disk(place)] + g4_place_address(place) +
				 stripe * chunk->stripe_bytes;
		parts[0] = (struct g4_iov){there, chunk->stripe_bytes};
		parts[1] = (struct g4_iov){data, bytes - chunk->stripe_bytes};
		g4_space_io_init(&request, G4_IO_WRITE, g4_address_from(at), parts, 2);
		assert_int_equal(g4_space_transfer(d.rig.wg, &d.rig.fs->space, &request, 1), 0);
		assert_memory_equal(there, data, chunk->stripe_bytes);
		assert_int_equal(g4_set_parity_check(d.rig.wg, set_of(dev), at, bytes), 0);
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
	free(data);
}

/* ---- orders beside those who are on the way ---- */

#define WRITERS 2u
#define FILES_EACH 4u

struct writer {
	pthread_t thread;
	struct disks own; /* a way of its own to the same file system */
	uint32_t first;
	uint32_t rounds; /* atomic */
	uint32_t *stop;
};

/* Each goes on for a round at least. */
static void let_write(const struct writer *writers)
{
	for (uint32_t w = 0; w < WRITERS; w++) {
		const uint32_t before = g4_load32_acq(&writers[w].rounds);
		while (g4_load32_acq(&writers[w].rounds) < before + 2)
			sched_yield();
	}
}

static void *write_files(void *argument)
{
	struct writer *w = (struct writer *)argument;

	bool good = true;

	for (uint32_t round = 1; !g4_load32_acq(w->stop); round++) {
		for (uint32_t n = 0; n < FILES_EACH && good; n++)
			good = disks_put(&w->own, w->first + n, round) == 0 &&
			       disks_has(&w->own, w->first + n, round) == 1;
		g4_store32_rel(&w->rounds, round);
	}
	return good ? NULL : w; /* a file was not written, or is not as it was */
}

static void orders_wait_for_those_on_the_way(void **state)
{
	struct writer writers[WRITERS];
	uint32_t stop = 0;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	make(&d, &levels[2]);
	disks_mount_fs(&d, all_of(&d), &dev);
	for (uint32_t w = 0; w < WRITERS; w++) {
		memset(&writers[w], 0, sizeof(writers[w]));
		writers[w].own.rig.fs = d.rig.fs;
		writers[w].own.rig.wg = g4_wg_create(w + 1);
		writers[w].first = w * FILES_EACH;
		writers[w].stop = &stop;
		assert_int_equal(pthread_create(&writers[w].thread, NULL, write_files, &writers[w]), 0);
	}
	for (uint32_t turn = 0; turn < 6; turn++) {
		let_write(writers);
		begin(&d, G4_DISK_OFFLINE, turn % 3);
		assert_int_equal(d.rig.fs->space.direct.table.missing, 1);
		let_write(writers);
		while (order(&d, G4_DISK_REBUILD, d.names[turn % 3]) < 0) /* requests to it as it was before */
			assert_non_null(strstr(d.message, "under way"));
		finish(&d);
		assert_true(is_open(&d));
	}
	g4_store32_rel(&stop, 1);
	for (uint32_t w = 0; w < WRITERS; w++) {
		void *failed;
		assert_int_equal(pthread_join(writers[w].thread, &failed), 0);
		assert_null(failed);
		g4_wg_destroy(writers[w].own.rig.wg);
	}
	disks_unmount_fs(&d, dev, true);
	disks_expect_clean(&d, all_of(&d));
	for (uint32_t without = 0; without < d.count; without++) {
		dev = look_at(&d, all_of(&d) & ~(1u << without));
		for (uint32_t w = 0; w < WRITERS; w++)
			for (uint32_t n = 0; n < FILES_EACH; n++)
				assert_int_equal(disks_has(&d, writers[w].first + n, writers[w].rounds), 1);
		disks_unmount_fs(&d, dev, true);
	}
	disks_free(&d);
}

/* ---- a disk that leaves ---- */

struct streamer {
	pthread_t thread;
	struct rig rig; /* a way of its own to the same file system */
	uint64_t ino;
	uint32_t number, rounds; /* atomic: rounds */
	uint32_t *stop;
};

/* Whole stripes, which lanes write by grants while the gate is open. NULL: all was written, and read. */
static void *write_stripes(void *argument)
{
	struct streamer *s = (struct streamer *)argument;
	uint8_t *data = rig_memory(2 * G4_MIB, 1), *found = rig_memory(2 * G4_MIB, 2);
	bool good = true;

	while (good && !g4_load32_acq(s->stop)) {
		uint64_t written = 0, read = 0;
		rig_pattern(data, 100 * s->number + s->rounds + 1, 2 * G4_MIB);
		good = op_write(&s->rig, s->ino, 0, 0, data, 2 * G4_MIB, &written) == 0 &&
		       op_fsync(&s->rig, s->ino) == 0 &&
		       op_read(&s->rig, s->ino, 0, 0, found, 2 * G4_MIB, &read) == 0 && read == written &&
		       memcmp(found, data, 2 * G4_MIB) == 0;
		g4_store32_rel(&s->rounds, s->rounds + 1);
	}
	free(data);
	free(found);
	return good ? NULL : s;
}

/* What the streamers wrote last, in whatever is mounted. */
static void expect_stripes(struct disks *d, const struct streamer *streamers)
{
	uint8_t *data = rig_memory(2 * G4_MIB, 1), *found = rig_memory(2 * G4_MIB, 2);

	for (uint32_t k = 0; k < WRITERS; k++) {
		uint64_t read = 0;
		rig_pattern(data, 100 * k + streamers[k].rounds, 2 * G4_MIB);
		assert_int_equal(op_read(&d->rig, streamers[k].ino, 0, 0, found, 2 * G4_MIB, &read), 0);
		assert_int_equal(read, 2 * G4_MIB);
		assert_memory_equal(found, data, 2 * G4_MIB);
	}
	free(data);
	free(found);
}

/* Each step waits for grants, lanes write between them, and when it is out rows are written by the numbers that disks have then. */
static void a_disk_of_rows_leaves_while_lanes_write_stripes(void **state)
{
	struct streamer streamers[WRITERS];
	char name[8] = "s0";
	uint64_t sizes[5];
	uint32_t stop = 0, opened = 0;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	for (uint32_t n = 0; n < 5; n++)
		sizes[n] = 64 * G4_MIB;
	disks_make(&d, 5, sizes);
	d.count = 4;
	disks_format_plan(&d, &levels[4].plan, G4_CHECKSUM_CRC32C);
	assert_int_equal(disks_try_open(&d, all_of(&d), false, 0, &dev), 0);
	assert_int_equal(g4_set_add_to(dev, NULL, d.names[d.count++], d.message, sizeof(d.message)), 0);
	disks_begin_fs(&d, dev, 0);
	assert_true(is_open(&d));
	memset(streamers, 0, sizeof(streamers));
	for (uint32_t k = 0; k < WRITERS; k++) {
		name[1] = (char)('0' + k);
		assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &streamers[k].ino), 0);
		streamers[k].rig.fs = d.rig.fs;
		streamers[k].rig.wg = g4_wg_create(k + 1);
		streamers[k].number = k;
		streamers[k].stop = &stop;
		assert_int_equal(pthread_create(&streamers[k].thread, NULL, write_stripes, &streamers[k]), 0);
	}
	if (order(&d, G4_DISK_REMOVE, d.names[0]) < 0)
		fail_msg("%s", d.message);
	for (uint32_t steps = 0; newest_of(&d, G4_JOB_REMOVE).state == G4_JOB_RUNNING; steps++) {
		step(&d);
		opened += is_open(&d);
		const uint32_t before = g4_load32_acq(&streamers[steps % WRITERS].rounds);
		while (g4_load32_acq(&streamers[steps % WRITERS].rounds) == before)
			sched_yield();
		assert_true(steps < 2000);
	}
	assert_int_equal(newest_of(&d, G4_JOB_REMOVE).state, G4_JOB_DONE);
	assert_true(opened > 0);
	assert_true(is_open(&d));
	for (uint32_t k = 0; k < WRITERS; k++) {
		const uint32_t before = g4_load32_acq(&streamers[k].rounds);
		while (g4_load32_acq(&streamers[k].rounds) < before + 2)
			sched_yield();
	}
	g4_store32_rel(&stop, 1);
	for (uint32_t k = 0; k < WRITERS; k++) {
		void *failed;
		assert_int_equal(pthread_join(streamers[k].thread, &failed), 0);
		assert_null(failed);
		g4_wg_destroy(streamers[k].rig.wg);
	}
	assert_int_equal(disks_scrub(&d), 0);
	disks_unmount_fs(&d, dev, true);
	const uint32_t rest = all_of(&d) & ~1u;
	disks_expect_clean(&d, rest);
	for (uint32_t without = 1; without < d.count; without++) {
		dev = look_at(&d, rest & ~(1u << without));
		expect_stripes(&d, streamers);
		disks_unmount_fs(&d, dev, false);
	}
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways_lead_to_the_same),
		cmocka_unit_test(requests_are_cut_as_the_set_does),
		cmocka_unit_test(lanes_make_the_sets_parity),
		cmocka_unit_test(parity_is_of_what_is_stored),
		cmocka_unit_test(what_is_held_back_is_the_sets),
		cmocka_unit_test(what_is_no_grant_is_refused),
		cmocka_unit_test(a_grant_is_waited_for),
		cmocka_unit_test(time_in_which_nobody_runs_is_no_waiting),
		cmocka_unit_test(who_is_killed_with_a_grant_leaves_rows_that_are_completed),
		cmocka_unit_test(a_grant_over_two_regions_is_marked_as_a_whole),
		cmocka_unit_test(an_agent_is_asked_for_nothing),
		cmocka_unit_test(superblocks_are_the_sets),
		cmocka_unit_test(nobody_goes_past_what_is_special),
		cmocka_unit_test(disks_are_used_where_they_were_placed),
		cmocka_unit_test(orders_wait_for_those_on_the_way),
		cmocka_unit_test(places_behind_a_disks_end_are_not_reached),
		cmocka_unit_test(the_gate_is_open_again_when_all_was_moved),
		cmocka_unit_test(a_disk_of_rows_leaves_while_lanes_write_stripes),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
