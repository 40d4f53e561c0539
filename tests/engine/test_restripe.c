/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving pages of files to where their policy says: contents, sums, sizes and times stay, nothing is leaked; what can not be moved is
 * left as it is and counted; and nobody who reads or writes meanwhile sees anything of it.
 */
#include "leveled.h"

#include <pthread.h>

#include "data/restripe.h"
#include "inode/icache.h"

#define MIB_PAGES (G4_MIB / G4_PAGE_BYTES)

static struct g4_restriped told;

static int restripe_from(struct rig *rig, uint64_t ino, uint64_t offset)
{
	struct g4_cmd cmd = {
		.op = G4_CMD_RESTRIPE, .node = ino, .offset = offset, .data = &told, .length = sizeof(told)};

	return rig->engine ? g4_engine_execute(rig->engine, &cmd) : g4_execute(rig->wg, rig->fs, &cmd);
}

/* All of a file; the sums of what was told. */
static int restripe(struct rig *rig, uint64_t ino, struct g4_restriped *all)
{
	int rc = 0;

	memset(all, 0, sizeof(*all));
	do {
		rc = restripe_from(rig, ino, all->next);
		if (rc < 0)
			break;
		assert_true(told.next == 0 || told.next > all->next);
		all->moved += told.moved;
		all->shared += told.shared;
		all->damaged += told.damaged;
		all->next = told.next;
	} while (all->next > 0);
	return rc;
}

/* How much of a file is elsewhere. */
static uint64_t would_move(struct rig *rig, uint64_t ino)
{
	struct g4_cmd cmd = {
		.op = G4_CMD_RESTRIPE, .node = ino, .data = &told, .length = sizeof(told), .flags = G4_RESTRIPE_LOOK};
	uint64_t bytes = 0;

	do {
		assert_int_equal(g4_execute(rig->wg, rig->fs, &cmd), 0);
		bytes += told.moved;
		cmd.offset = told.next;
	} while (told.next > 0);
	return bytes;
}

static void ask_for(struct world *w, uint64_t ino, const char *level)
{
	assert_int_equal(op_setxattr(&w->d.rig, ino, "gpu4fs.raid", level, strlen(level), 0), 0);
}

static uint64_t sum_of_sums(struct world *w, uint64_t ino)
{
	static struct g4_page_sum sums[4096];
	struct g4_cmd cmd = {.op = G4_CMD_SUMS, .node = ino, .data = sums, .length = sizeof(sums)};
	uint64_t all = 1;

	assert_int_equal(g4_execute(w->d.rig.wg, w->d.rig.fs, &cmd), 0);
	for (uint64_t k = 0; k < cmd.value / sizeof(sums[0]); k++) {
		uint64_t word;
		memcpy(&word, sums[k].sum, sizeof(word));
		all = all * 31 + word + sums[k].algorithm + sums[k].offset;
	}
	return all;
}

static uint64_t own_free(struct world *w)
{
	assert_int_equal(op_sync(&w->d.rig), 0);
	return g4_alloc_free_in(&w->d.rig.fs->alloc, G4_LEVEL_OWN);
}

static void expect_contents(struct world *w, uint64_t ino, uint64_t offset, const uint8_t *data, uint64_t bytes)
{
	uint8_t *found = (uint8_t *)malloc(bytes);
	uint64_t done = 0;

	assert_int_equal(op_read(&w->d.rig, ino, 0, offset, found, bytes, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, data, bytes);
	free(found);
}

static bool is_huge(struct world *w, uint64_t ino)
{
	struct g4_map_extent extent;
	uint32_t count;

	assert_int_equal(op_map(&w->d.rig, ino, 0, &extent, 1, &count), 0);
	return count == 1 && (extent.flags & G4_MAP_HUGE) != 0;
}

enum { LARGE, SMALL, HOLES, ROOM, TINY, FILES };

/* Each kind of file, of level *own*. */
static void make_files(struct world *w, const uint8_t *data, uint64_t *inos)
{
	static const char *const names[FILES] = {"large", "small", "holes", "room", "tiny"};
	uint64_t done = 0;

	for (uint32_t k = 0; k < FILES; k++)
		inos[k] = make_file(w, G4_NODE_ROOT, names[k]);
	assert_int_equal(op_write(&w->d.rig, inos[LARGE], 0, 0, data, 5 * G4_MIB, &done), 0);
	assert_int_equal(op_write(&w->d.rig, inos[SMALL], 0, 0, data, 5000, &done), 0);
	for (uint64_t k = 0; k < 300; k++)
		assert_int_equal(op_write(&w->d.rig, inos[HOLES], 0, k * 3 * G4_PAGE_BYTES, data + k * G4_PAGE_BYTES,
					  G4_PAGE_BYTES, &done),
				 0);
	assert_int_equal(op_fallocate(&w->d.rig, inos[ROOM], G4_FALLOC_KEEP_SIZE, 0, 3 * G4_MIB), 0);
	assert_int_equal(op_write(&w->d.rig, inos[ROOM], 0, 50 * G4_PAGE_BYTES, data, 9000, &done), 0);
	assert_int_equal(op_write(&w->d.rig, inos[TINY], 0, 0, data, 50, &done), 0);
	assert_int_equal(op_sync(&w->d.rig), 0);
}

static void expect_files(struct world *w, const uint8_t *data, const uint64_t *inos)
{
	expect_contents(w, inos[LARGE], 0, data, 5 * G4_MIB);
	expect_contents(w, inos[SMALL], 0, data, 5000);
	for (uint64_t k = 0; k < 300; k++)
		expect_contents(w, inos[HOLES], k * 3 * G4_PAGE_BYTES, data + k * G4_PAGE_BYTES, G4_PAGE_BYTES);
	expect_contents(w, inos[ROOM], 50 * G4_PAGE_BYTES, data, 9000);
	expect_contents(w, inos[TINY], 0, data, 50);
}

static void remount(struct world *w)
{
	disks_unmount_fs(&w->d, w->set, true);
	disks_expect_clean(&w->d, all(w));
	mount_world(w);
}

static void files_move_to_where_they_are_asked_to_be(void **state)
{
	static const uint32_t algorithms[] = {G4_CHECKSUM_NONE, G4_CHECKSUM_XXH3, G4_CHECKSUM_BLAKE3};
	uint8_t *data = rig_memory(5 * G4_MIB, 5);

	(void)state;
	for (uint32_t a = 0; a < 3; a++) {
		struct g4_attr before[FILES], after;
		struct g4_restriped done;
		uint64_t inos[FILES], sums[FILES], pages[FILES], moved = 0;
		struct world w;

		begin_world(&w, algorithms[a]);
		make_files(&w, data, inos);
		const uint64_t free_before = own_free(&w);
		assert_true(is_huge(&w, inos[LARGE]));
		for (uint32_t k = 0; k < FILES; k++) {
			ask_for(&w, inos[k], "5");
			assert_int_equal(op_getattr(&w.d.rig, inos[k], &before[k]), 0);
			sums[k] = sum_of_sums(&w, inos[k]);
			pages[k] = k == TINY ? 0 : expect_level(&w, inos[k], G4_LEVEL_OWN);
			assert_int_equal(would_move(&w.d.rig, inos[k]), pages[k] * G4_PAGE_BYTES);
			assert_int_equal(restripe(&w.d.rig, inos[k], &done), 0);
			assert_int_equal(done.moved, pages[k] * G4_PAGE_BYTES);
			assert_int_equal(done.shared + done.damaged, 0);
			moved += pages[k];
			assert_true(k == TINY || expect_level(&w, inos[k], LEVEL) == pages[k]);
		}
		assert_true(is_huge(&w, inos[LARGE]));
		expect_free(&w, moved);
		assert_int_equal(own_free(&w), free_before + moved);
		for (uint32_t k = 0; k < FILES; k++) {
			assert_int_equal(op_getattr(&w.d.rig, inos[k], &after), 0);
			after.change_count = before[k].change_count; /* it counts what is logged of the inode */
			assert_memory_equal(&after, &before[k], sizeof(after));
			assert_int_equal(sum_of_sums(&w, inos[k]), sums[k]);
			/* there is nothing left to do */
			assert_int_equal(restripe(&w.d.rig, inos[k], &done), 0);
			assert_int_equal(done.moved, 0);
			assert_int_equal(would_move(&w.d.rig, inos[k]), 0);
		}
		expect_files(&w, data, inos);
		remount(&w);
		expect_files(&w, data, inos);
		/* and back, whatever sums it says by now */
		for (uint32_t k = 0; k < FILES; k++) {
			ask_for(&w, inos[k], "default");
			assert_int_equal(op_setxattr(&w.d.rig, inos[k], "gpu4fs.checksum", "none", 4, 0), 0);
			assert_int_equal(restripe(&w.d.rig, inos[k], &done), 0);
			assert_int_equal(done.moved, pages[k] * G4_PAGE_BYTES);
			assert_int_equal(sum_of_sums(&w, inos[k]), sums[k]);
		}
		expect_free(&w, 0);
		assert_int_equal(own_free(&w), free_before);
		remount(&w);
		expect_files(&w, data, inos);
		end_world(&w);
	}
	free(data);
}

static void shared_pages_stay_with_their_other_owners(void **state)
{
	uint8_t *data = rig_memory(2 * G4_MIB, 5);
	struct g4_restriped done;
	struct world w;
	uint64_t n = 0;

	(void)state;
	begin_world(&w, G4_CHECKSUM_XXH3);
	const uint64_t file = make_file(&w, G4_NODE_ROOT, "file"), copy = make_file(&w, G4_NODE_ROOT, "copy");
	assert_int_equal(op_write(&w.d.rig, file, 0, 0, data, 2 * G4_MIB, &n), 0);
	uint64_t from, to;
	assert_int_equal(op_open(&w.d.rig, file, G4_OPEN_READ, &from), 0);
	assert_int_equal(op_open(&w.d.rig, copy, G4_OPEN_WRITE, &to), 0);
	assert_int_equal(op_copy_as(&w.d.rig, from, G4_MIB, to, 0, 64 * G4_PAGE_BYTES, G4_COPY_SHARE, &n), 0);
	assert_int_equal(n, 64 * G4_PAGE_BYTES);
	ask_for(&w, file, "5");
	assert_int_equal(restripe(&w.d.rig, file, &done), 0);
	assert_int_equal(done.shared, 64 * G4_PAGE_BYTES);
	assert_int_equal(done.moved, 2 * G4_MIB - 64 * G4_PAGE_BYTES);
	expect_free(&w, 2 * MIB_PAGES - 64);
	expect_level(&w, copy, G4_LEVEL_OWN);
	expect_contents(&w, file, 0, data, 2 * G4_MIB);
	expect_contents(&w, copy, 0, data + G4_MIB, 64 * G4_PAGE_BYTES);
	/* the last owner may move them */
	assert_int_equal(op_release(&w.d.rig, from), 0);
	assert_int_equal(op_release(&w.d.rig, to), 0);
	assert_int_equal(op_unlink(&w.d.rig, G4_NODE_ROOT, "copy"), 0);
	assert_int_equal(restripe(&w.d.rig, file, &done), 0);
	assert_int_equal(done.moved, 64 * G4_PAGE_BYTES);
	assert_int_equal(expect_level(&w, file, LEVEL), 2 * MIB_PAGES);
	free(data);
	end_world(&w);
}

/* In all copies: nobody can mend it. */
static void rot(struct world *w, uint64_t address)
{
	struct g4_chunk chunk;

	for (uint32_t n = 0; g4_set_chunk(w->set, n, &chunk); n++)
		if (address >= chunk.address && address - chunk.address < chunk.bytes)
			break;
	assert_int_equal(chunk.columns, 1);
	for (uint32_t c = 0; c < chunk.copies; c++)
		w->d.memory[g4_place_disk(chunk.places[c])]
			   [g4_place_address(chunk.places[c]) + address - chunk.address + 100] ^= 1;
}

static void a_damaged_page_is_left_with_its_sum(void **state)
{
	uint8_t *data = rig_memory(2 * G4_MIB, 5), *page = rig_memory(G4_PAGE_BYTES, 6);
	struct g4_map_extent extents[4];
	struct g4_restriped done;
	uint32_t count;
	struct world w;
	uint64_t n = 0;

	(void)state;
	begin_world(&w, G4_CHECKSUM_XXH3);
	const uint64_t file = make_file(&w, G4_NODE_ROOT, "file");
	assert_int_equal(op_write(&w.d.rig, file, 0, 0, data, 2 * G4_MIB, &n), 0);
	remount(&w);
	assert_int_equal(op_map(&w.d.rig, file, 40 * G4_PAGE_BYTES, extents, 1, &count), 0);
	rot(&w, extents[0].address + 40 * G4_PAGE_BYTES - extents[0].offset);
	ask_for(&w, file, "5");
	const uint64_t sums = sum_of_sums(&w, file);
	for (uint32_t k = 0; k < 2; k++) {
		assert_int_equal(restripe(&w.d.rig, file, &done), 0);
		assert_int_equal(done.damaged, G4_PAGE_BYTES);
		assert_int_equal(done.moved, k == 0 ? 2 * G4_MIB - G4_PAGE_BYTES : 0);
	}
	expect_free(&w, 2 * MIB_PAGES - 1);
	assert_int_equal(sum_of_sums(&w, file), sums);
	assert_true(op_read(&w.d.rig, file, 0, 40 * G4_PAGE_BYTES, page, G4_PAGE_BYTES, &n) < 0);
	expect_contents(&w, file, 0, data, 40 * G4_PAGE_BYTES);
	expect_contents(&w, file, 41 * G4_PAGE_BYTES, data + 41 * G4_PAGE_BYTES, 2 * G4_MIB - 41 * G4_PAGE_BYTES);
	/* who writes it anew has it where it belongs */
	assert_int_equal(op_write(&w.d.rig, file, 0, 40 * G4_PAGE_BYTES, data + 40 * G4_PAGE_BYTES, G4_PAGE_BYTES, &n),
			 0);
	assert_int_equal(expect_level(&w, file, LEVEL), 2 * MIB_PAGES);
	free(data);
	free(page);
	end_world(&w);
}

static void what_finds_no_space_stays_where_it_is(void **state)
{
	uint8_t *data = rig_memory(12 * G4_MIB, 5);
	struct g4_restriped done;
	struct world w;
	uint64_t n = 0;

	(void)state;
	begin_part(&w, G4_CHECKSUM_XXH3, 8 * G4_MIB);
	const uint64_t file = make_file(&w, G4_NODE_ROOT, "file");
	assert_int_equal(op_write(&w.d.rig, file, 0, 0, data, 12 * G4_MIB, &n), 0);
	ask_for(&w, file, "5");
	assert_int_equal(restripe(&w.d.rig, file, &done), -G4_E_NOSPC);
	assert_true(done.moved > 4 * G4_MIB && done.next >= done.moved);
	expect_free(&w, done.moved / G4_PAGE_BYTES);
	expect_contents(&w, file, 0, data, 12 * G4_MIB);
	assert_int_equal(restripe(&w.d.rig, file, &done), -G4_E_NOSPC);
	remount(&w);
	expect_contents(&w, file, 0, data, 12 * G4_MIB);
	/* what it gave up of the level is free for it once that is durable */
	assert_int_equal(op_truncate(&w.d.rig, file, 6 * G4_MIB), 0);
	assert_int_equal(restripe(&w.d.rig, file, &done), 0);
	assert_int_equal(expect_level(&w, file, LEVEL), 6 * MIB_PAGES);
	expect_contents(&w, file, 0, data, 6 * G4_MIB);
	free(data);
	end_world(&w);
}

/* The journal has stopped, so that what was stored can not be published. */
static void what_is_not_published_gives_its_space_back(void **state)
{
	uint8_t *data = rig_memory(G4_MIB, 5);
	struct g4_restripe step = {0};
	struct g4_restriped done;
	struct world w;
	uint64_t n = 0;
	uint32_t i;

	(void)state;
	begin_world(&w, G4_CHECKSUM_XXH3);
	struct g4_fs *fs = w.d.rig.fs;
	const uint64_t file = make_file(&w, G4_NODE_ROOT, "file"), room = make_file(&w, G4_NODE_ROOT, "room");
	for (uint64_t at = 0; at < G4_MIB; at += G4_MIB / 256) /* lines that were dirty before */
		assert_int_equal(op_write(&w.d.rig, file, 0, at, data + at, G4_MIB / 256, &n), 0);
	assert_int_equal(op_fallocate(&w.d.rig, room, 0, 0, G4_MIB), 0);
	ask_for(&w, file, "5");
	ask_for(&w, room, "5");
	for (uint32_t k = 0; k < 2; k++) {
		const uint64_t own = own_free(&w), reserved = fs->alloc.reserved;
		assert_int_equal(g4_icache_get(w.d.rig.wg, fs, k ? room : file, &i), 0);
		g4_write_lock(&g4_icache_at(fs, i)->lock);
		g4_store32_rel(&fs->journal.aborted, 1);
		assert_int_equal(g4_restripe_step(w.d.rig.wg, fs, i, &step), -G4_E_ROFS);
		g4_store32_rel(&fs->journal.aborted, 0);
		g4_write_unlock(&g4_icache_at(fs, i)->lock);
		g4_icache_put(fs, i);
		assert_int_equal(step.page + step.moved + step.shared + step.damaged, 0);
		assert_int_equal(fs->alloc.reserved, reserved);
		expect_free(&w, 0);
		assert_int_equal(own_free(&w), own);
	}
	expect_contents(&w, file, 0, data, G4_MIB);
	assert_int_equal(restripe(&w.d.rig, file, &done), 0);
	assert_int_equal(restripe(&w.d.rig, room, &done), 0);
	expect_free(&w, 2 * MIB_PAGES);
	free(data);
	end_world(&w);
}

/* Of a mount that only reads it is told how much is elsewhere, and nothing moves. */
static void a_mount_that_reads_is_looked_at(void **state)
{
	uint8_t *data = rig_memory(G4_MIB, 3);
	uint64_t done = 0;
	struct world w;

	(void)state;
	begin_world(&w, G4_CHECKSUM_NONE);
	const uint64_t file = make_file(&w, G4_NODE_ROOT, "file");
	assert_int_equal(op_write(&w.d.rig, file, 0, 0, data, G4_MIB, &done), 0);
	ask_for(&w, file, "5");
	disks_unmount_fs(&w.d, w.set, true);
	assert_int_equal(disks_try_open(&w.d, all(&w), false, 0, &w.set), 0);
	disks_begin_fs(&w.d, w.set, G4_FS_READ_ONLY);
	assert_int_equal(would_move(&w.d.rig, file), G4_MIB);
	assert_int_equal(restripe_from(&w.d.rig, file, 0), -G4_E_ROFS);
	disks_unmount_fs(&w.d, w.set, true);
	mount_world(&w);
	assert_int_equal(would_move(&w.d.rig, file), G4_MIB);
	free(data);
	end_world(&w);
}

static void what_is_not_a_file_is_refused(void **state)
{
	struct g4_cmd cmd = {.op = G4_CMD_RESTRIPE, .data = &told, .length = sizeof(told) - 1};
	struct world w;
	uint64_t link, handle;

	(void)state;
	begin_world(&w, G4_CHECKSUM_NONE);
	const uint64_t file = make_file(&w, w.dir, "file");
	assert_int_equal(op_symlink(&w.d.rig, w.dir, "link", "file", &link), 0);
	assert_int_equal(restripe_from(&w.d.rig, w.dir, 0), -G4_E_ISDIR);
	assert_int_equal(restripe_from(&w.d.rig, link, 0), -G4_E_INVAL);
	assert_int_equal(restripe_from(&w.d.rig, file, UINT64_MAX), -G4_E_INVAL);
	assert_int_equal(restripe_from(&w.d.rig, file, G4_MIB), 0);
	assert_int_equal(told.next, 0);
	cmd.node = file;
	assert_int_equal(g4_execute(w.d.rig.wg, w.d.rig.fs, &cmd), -G4_E_INVAL);
	cmd.length = sizeof(told);
	cmd.flags = 2;
	assert_int_equal(g4_execute(w.d.rig.wg, w.d.rig.fs, &cmd), -G4_E_INVAL);
	cmd.flags = 0;
	assert_int_equal(op_open(&w.d.rig, file, G4_OPEN_READ, &handle), 0);
	cmd.handle = handle;
	cmd.node = 0;
	cmd.length = sizeof(told);
	assert_int_equal(g4_execute(w.d.rig.wg, w.d.rig.fs, &cmd), -G4_E_BADF);
	cmd.flags = G4_RESTRIPE_LOOK; /* which who reads may do */
	assert_int_equal(g4_execute(w.d.rig.wg, w.d.rig.fs, &cmd), 0);
	assert_int_equal(op_release(&w.d.rig, handle), 0);
	end_world(&w);
}

/* What a page was listed for is found where it lies now. */
static void pages_that_are_listed_stay_so(void **state)
{
	uint8_t *data = rig_memory(2 * G4_MIB, 5);
	struct g4_map_extent first[4], second[4];
	struct g4_restriped done;
	struct world w;
	uint32_t count;
	uint64_t n = 0;

	(void)state;
	begin_world(&w, G4_CHECKSUM_BLAKE3);
	const uint64_t file = make_file(&w, G4_NODE_ROOT, "file"), other = make_file(&w, w.dir, "other");
	assert_int_equal(op_setxattr(&w.d.rig, file, "gpu4fs.dedup", "on", 2, 0), 0);
	assert_int_equal(op_setxattr(&w.d.rig, other, "gpu4fs.dedup", "on", 2, 0), 0);
	assert_int_equal(op_write(&w.d.rig, file, 0, 0, data, 2 * G4_MIB, &n), 0);
	ask_for(&w, file, "5");
	assert_int_equal(restripe(&w.d.rig, file, &done), 0);
	assert_int_equal(done.moved, 2 * G4_MIB);
	assert_int_equal(expect_level(&w, file, LEVEL), 2 * MIB_PAGES);
	assert_int_equal(op_write(&w.d.rig, other, 0, 0, data, 2 * G4_MIB, &n), 0);
	expect_free(&w, 2 * MIB_PAGES);
	assert_int_equal(op_map(&w.d.rig, file, 0, first, 4, &count), 0);
	assert_int_equal(op_map(&w.d.rig, other, 0, second, 4, &count), 0);
	assert_int_equal(first[0].address, second[0].address);
	expect_contents(&w, file, 0, data, 2 * G4_MIB);
	/* what is listed elsewhere with the same contents does not take the place of what is to lie here */
	const uint64_t third = make_file(&w, G4_NODE_ROOT, "third");
	assert_int_equal(op_write(&w.d.rig, third, 0, 0, data, G4_MIB, &n), 0);
	assert_int_equal(op_setxattr(&w.d.rig, third, "gpu4fs.dedup", "on", 2, 0), 0);
	ask_for(&w, third, "5");
	assert_int_equal(restripe(&w.d.rig, third, &done), 0);
	assert_int_equal(done.moved, G4_MIB);
	expect_free(&w, 3 * MIB_PAGES);
	/* they are shared now */
	ask_for(&w, file, "default");
	assert_int_equal(restripe(&w.d.rig, file, &done), 0);
	assert_int_equal(done.shared, 2 * G4_MIB);
	free(data);
	end_world(&w);
}

#define WRITERS 3u
#define WRITER_BYTES (3 * G4_MIB)

struct writer {
	pthread_t thread;
	struct rig rig;
	uint64_t ino, offset, random;
	uint8_t *model, *found;
	uint32_t stop, failed;
};

/* Writes, cuts holes and reads in its part of the file; what it reads is what it wrote. */
static void *work(void *argument)
{
	struct writer *writer = (struct writer *)argument;

	while (!g4_load32_acq(&writer->stop) && !writer->failed) {
		const uint64_t at = rig_random(&writer->random) % WRITER_BYTES;
		const uint64_t bytes =
			g4_min64(1 + rig_random(&writer->random) % (rig_random(&writer->random) % 8 ? 30000 : G4_MIB),
				 WRITER_BYTES - at);
		const uint64_t what = rig_random(&writer->random) % 8;
		uint64_t done = 0;
		int rc = 0;

		if (what < 4) {
			rig_pattern(writer->model + at, rig_random(&writer->random), bytes);
			for (uint64_t n = 0; n < bytes && rc == 0; n += done)
				rc = op_write(&writer->rig, writer->ino, 0, writer->offset + at + n,
					      writer->model + at + n, bytes - n, &done);
		} else if (what == 4) {
			memset(writer->model + at, 0, bytes);
			rc = op_fallocate(&writer->rig, writer->ino, G4_FALLOC_ZERO_RANGE | G4_FALLOC_KEEP_SIZE,
					  writer->offset + at, bytes);
		} else {
			for (uint64_t n = 0; n < bytes && rc == 0; n += done) {
				rc = op_read(&writer->rig, writer->ino, 0, writer->offset + at + n, writer->found + n,
					     bytes - n, &done);
				if (rc == 0 && done == 0)
					rc = -G4_E_IO;
			}
			if (rc == 0 && memcmp(writer->found, writer->model + at, bytes) != 0)
				rc = -G4_E_DATA;
		}
		writer->failed = (uint32_t)-rc;
	}
	return NULL;
}

static void who_writes_and_reads_meanwhile_sees_nothing_of_it(void **state)
{
	const struct g4_mount_options options = {.commit_ms = 20, .cache_bytes = 16 * G4_MIB};
	const uint32_t rounds = 20;
	struct writer writers[WRITERS] = {0};
	uint64_t seed = rig_setting("G4_TEST_SEED", 7), moved = 0, done_bytes = 0;
	uint8_t *end = rig_memory(G4_PAGE_BYTES, 3);
	struct g4_restriped done;
	struct world w;

	(void)state;
	begin_world(&w, G4_CHECKSUM_XXH3);
	const uint64_t file = make_file(&w, G4_NODE_ROOT, "file");
	/* so that none of them is at its end */
	assert_int_equal(op_write(&w.d.rig, file, 0, WRITERS * WRITER_BYTES, end, G4_PAGE_BYTES, &done_bytes), 0);
	disks_unmount_fs(&w.d, w.set, true);
	assert_int_equal(disks_try_open(&w.d, all(&w), false, 0, &w.set), 0);
	memset(&w.d.rig, 0, sizeof(w.d.rig));
	assert_int_equal(g4_engine_mount_device(w.set, &options, &w.d.rig.engine, w.d.message, sizeof(w.d.message)), 0);
	for (uint32_t k = 0; k < WRITERS; k++) {
		writers[k] = (struct writer){.rig = w.d.rig,
					     .ino = file,
					     .offset = k * WRITER_BYTES,
					     .random = seed + k,
					     .model = (uint8_t *)calloc(1, WRITER_BYTES),
					     .found = (uint8_t *)malloc(WRITER_BYTES)};
		assert_int_equal(pthread_create(&writers[k].thread, NULL, work, &writers[k]), 0);
	}
	for (uint32_t round = 0; round < rounds || moved < 8 * G4_MIB; round++) {
		ask_for(&w, file, round % 2 ? "default" : "5");
		assert_int_equal(restripe(&w.d.rig, file, &done), 0);
		assert_int_equal(done.shared + done.damaged, 0);
		moved += done.moved;
	}
	ask_for(&w, file, "5");
	for (uint32_t k = 0; k < WRITERS; k++) {
		g4_store32_rel(&writers[k].stop, 1);
		pthread_join(writers[k].thread, NULL);
		assert_int_equal(writers[k].failed, 0);
	}
	assert_int_equal(restripe(&w.d.rig, file, &done), 0);
	expect_level(&w, file, LEVEL);
	for (uint32_t k = 0; k < WRITERS; k++)
		expect_contents(&w, file, writers[k].offset, writers[k].model, WRITER_BYTES);
	disks_unmount(&w.d);
	disks_expect_clean(&w.d, all(&w));
	mount_world(&w);
	expect_free(&w, expect_level(&w, file, LEVEL));
	for (uint32_t k = 0; k < WRITERS; k++) {
		expect_contents(&w, file, writers[k].offset, writers[k].model, WRITER_BYTES);
		free(writers[k].model);
		free(writers[k].found);
	}
	free(end);
	end_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_move_to_where_they_are_asked_to_be),
		cmocka_unit_test(shared_pages_stay_with_their_other_owners),
		cmocka_unit_test(a_damaged_page_is_left_with_its_sum),
		cmocka_unit_test(what_finds_no_space_stays_where_it_is),
		cmocka_unit_test(what_is_not_published_gives_its_space_back),
		cmocka_unit_test(pages_that_are_listed_stay_so),
		cmocka_unit_test(who_writes_and_reads_meanwhile_sees_nothing_of_it),
		cmocka_unit_test(a_mount_that_reads_is_looked_at),
		cmocka_unit_test(what_is_not_a_file_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
