/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of files compared with their sums: after the check of everything else, and after a repair, which changes none of it.
 *
 * Several threads take pieces of files, slab by slab, each with a workgroup and a cache of its own. Unlike the rest of the check they go
 * on when something is damaged: what they find is put in order at the end, so that a report does not depend on which was first, and only
 * then is a name looked for. Sums are believed where the check has found what they stand in good; what else is wrong about them it has
 * told already.
 *
 * Where somebody hashes beside the processor (hash/page_hasher_host.h), pages are read into its slots instead, and each reader goes on to
 * the next slot while one is hashed. What does not match there, or goes wrong, is judged as everything else is.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "data/sums.h"
#include "fsck/fsck.h"
#include "fsck/inode.h"
#include "fsck/journal.h"
#include "fsck/listed.h"
#include "fsck/report.h"
#include "fsck/tables.h"
#include "fsck/tree.h"
#include "hash/page_hasher_host.h"
#include "simt/simt_host.h"

/* Pages read at a time: those whose sums stand in one page. */
#define RUN_PAGES G4_SUMS_SLOTS
/* A large file is in several hands: so many pages at a time, and at most so many pieces. */
#define PIECE_PAGES UINT64_C(16384)
#define FILE_PIECES 256u
/* What is damaged beyond that is counted alone. */
#define DAMAGES_KEPT 65536u
#define SLAB_SLOTS 16u
/* Of a hasher beside the processor. */
#define SLOTS_EACH 3u

struct piece { /* pages of a file */
	uint64_t ino, from, to;
	struct g4_inode inode;
};

struct run { /* pages in a row */
	uint64_t ino, page;
	struct g4_address address;
	uint32_t count;
};

struct batch { /* in a slot of the hasher, one run behind the other */
	struct run *runs;
	struct g4_sum_entry *expected;
	uint32_t slot, run_count, pages;
	bool started;
};

struct check {
	struct g4_fsck *fsck;
	uint64_t done; /* pages of the pieces so far; atomic */
	uint64_t *
		maps; /* bit p: the contents below this indirect page of level 1 were compared, for all owners; atomic. NULL: none is shared */

	pthread_mutex_t lock; /* of all that follows, and of fsck->image and what is found */
	uint64_t *slabs;
	uint64_t slab_count, slab;
	uint32_t slot;
	uint64_t page; /* of the file in this slot */
};

struct reader {
	struct check *check;
	struct g4_image image;
	struct g4_map_walk walk;
	const struct piece *piece;
	struct g4_sums_page sums;	/* of the indirect page of which the last entry was asked for */
	struct g4_address sums_address; /* 0: none */
	int sums_status;

	uint8_t *pages; /* RUN_PAGES */
	uint64_t run_page;
	struct g4_address run_address;
	uint32_t run_count;
	struct g4_sum_entry expected[RUN_PAGES];

	struct g4_page_hasher *hasher; /* NULL: there is none, or it failed */
	struct batch batches[SLOTS_EACH];
	uint32_t batch; /* that is filled */

	uint64_t compared, without, unverified;
	uint64_t beside; /* of those compared: by the hasher */
	pthread_t thread;
};

/* ------------------------------------------------------------------ pages */

static void note_damage(struct check *check, const struct g4_fsck_damage *damage)
{
	struct g4_fsck *fsck = check->fsck;

	pthread_mutex_lock(&check->lock);
	fsck->damaged_pages++;
	if (fsck->damage_count < DAMAGES_KEPT && g4_fsck_reserve(fsck, (void **)&fsck->damages, fsck->damage_count,
								 &fsck->damage_room, sizeof(*fsck->damages)))
		fsck->damages[fsck->damage_count++] = *damage;
	pthread_mutex_unlock(&check->lock);
}

/* What a repair will move and has not yet. */
static struct g4_address place_of(const struct g4_fsck *fsck, struct g4_address address)
{
	for (uint64_t i = fsck->written ? fsck->copy_count : 0; i < fsck->copy_count; i++) {
		const struct g4_fsck_copy *copy = &fsck->copies[i];
		if (g4_address_in(address, copy->to, copy->pages))
			return g4_address_after_pages(copy->from, g4_address_page(address) - g4_address_page(copy->to));
	}
	return address;
}

/* Into reader->pages, at place k. */
static int read_page(struct reader *reader, uint32_t copy, struct g4_address address, uint32_t k)
{
	return g4_space_read_copy(reader->image.wg, &reader->image.space, copy, place_of(reader->check->fsck, address),
				  reader->pages + k * G4_PAGE_BYTES, G4_PAGE_BYTES);
}

/* Page k of a run that does not match, or could not be read with the others, is read once more: all copies of it. False: there is none. */
static bool judge_page(struct reader *reader, const struct run *run, uint32_t k, const struct g4_sum_entry *expected)
{
	const void *page = reader->pages + k * G4_PAGE_BYTES;
	struct g4_fsck_damage damage = {
		.ino = run->ino,
		.file_page = run->page + k,
		.address = g4_address_after_pages(run->address, k),
		.expected = *expected,
	};

	bool there = false;

	for (uint32_t copy = 0; copy < g4_space_copies(&reader->image.space); copy++) {
		struct g4_sum_entry found = {0};
		uint32_t differs = 0, unknown = 0;
		int code = read_page(reader, copy, damage.address, k);
		if (code == -G4_E_NOENT)
			continue; /* its disk is missing */
		there = true;
		if (code >= 0) {
			g4_sums_compare(reader->image.wg, &page, 1, expected, &found, &differs, &unknown);
			code = unknown != 0 ? -G4_E_CORRUPT_SUMS : differs != 0 ? -G4_E_DATA : 0;
		}
		damage.other_whole = damage.other_whole || code == 0;
		if (code < 0 && damage.code == 0) {
			damage.code = code;
			damage.found = found;
		}
	}
	if (!there)
		damage.code = -G4_E_IO;
	if (damage.code < 0)
		note_damage(reader->check, &damage);
	if (damage.code == 0 || damage.other_whole)
		g4_fsck_vouch_listed(reader->check->fsck, damage.address);
	else
		g4_fsck_doubt_listed(reader->check->fsck, damage.address);
	return there;
}

/* Page k of a run was compared; those that are not `good` are judged. Whether it counts as compared. */
static bool settle_page(struct reader *reader, const struct run *run, uint32_t k, bool good,
			const struct g4_sum_entry *expected)
{
	if (!good)
		return judge_page(reader, run, k, expected);
	g4_fsck_vouch_listed(reader->check->fsck, g4_address_after_pages(run->address, k));
	return true;
}

/* Pages in memory, at most RUN_PAGES: bad[k] is set for those that are not what their entry says. */
static void compare_pages(struct reader *reader, const uint8_t *memory, const struct g4_sum_entry *expected,
			  uint32_t pages_count, bool *bad)
{
	struct g4_sum_entry found[G4_SUMS_AT_ONCE];
	const void *pages[G4_SUMS_AT_ONCE];
	uint32_t differ, unknown;

	for (uint32_t first = 0; first < pages_count; first += G4_SUMS_AT_ONCE) {
		const uint32_t count = (uint32_t)g4_min64(pages_count - first, G4_SUMS_AT_ONCE);
		for (uint32_t k = 0; k < count; k++)
			pages[k] = memory + (first + k) * G4_PAGE_BYTES;
		g4_sums_compare(reader->image.wg, pages, count, &expected[first], found, &differ, &unknown);
		for (uint32_t k = 0; k < count; k++)
			bad[first + k] = bad[first + k] || ((differ | unknown) >> k & 1) != 0;
	}
}

/* ------------------------------------------------------------------ pages that somebody else hashes */

/* What was started is over: its pages are judged. Where the sums can not be had they are made here. */
static void finish_batch(struct reader *reader, struct batch *batch)
{
	const uint8_t *memory = g4_page_hasher_slot(reader->check->fsck->hasher, batch->slot);
	const struct g4_sum_entry *expected = batch->expected;
	const struct g4_sum *sums = NULL;

	if (batch->started && reader->hasher->wait(reader->hasher, batch->slot, &sums) < 0)
		sums = NULL;
	for (uint32_t r = 0; r < batch->run_count; r++) {
		const struct run *run = &batch->runs[r];
		bool bad[RUN_PAGES] = {false};
		if (sums == NULL)
			compare_pages(reader, memory, expected, run->count, bad);
		for (uint32_t k = 0; sums != NULL && k < run->count; k++)
			bad[k] = memcmp(&sums[k], &expected[k], sizeof(expected[k])) != 0;
		for (uint32_t k = 0; k < run->count; k++)
			reader->compared += settle_page(reader, run, k, !bad[k], &expected[k]);
		sums = sums == NULL ? NULL : sums + run->count;
		expected += run->count;
		memory += run->count * G4_PAGE_BYTES;
	}
	reader->beside += sums != NULL ? batch->pages : 0;
	batch->run_count = batch->pages = 0;
	batch->started = false;
}

/* Hands over what was filled, and makes the next slot empty. */
static void next_batch(struct reader *reader)
{
	struct batch *batch = &reader->batches[reader->batch];

	batch->started = batch->pages > 0 && reader->hasher->start(reader->hasher, batch->slot, batch->pages) == 0;
	reader->batch = (reader->batch + 1) % SLOTS_EACH;
	finish_batch(reader, &reader->batches[reader->batch]);
}

/* Whether the run is in a slot now. With several copies each is compared here, and so is what has another sum than BLAKE3's. */
static bool hash_beside(struct reader *reader, const struct run *run)
{
	struct batch *batch = &reader->batches[reader->batch];

	if (reader->hasher == NULL || g4_space_copies(&reader->image.space) > 1)
		return false;
	for (uint32_t k = 0; k < run->count; k++)
		if (g4_sum_entry_algorithm(&reader->expected[k]) != G4_CHECKSUM_BLAKE3)
			return false;
	if (batch->pages + run->count > reader->hasher->slot_pages)
		next_batch(reader);
	batch = &reader->batches[reader->batch];
	if (g4_space_read_copy(reader->image.wg, &reader->image.space, 0, run->address,
			       g4_page_hasher_slot(reader->hasher, batch->slot) + batch->pages * G4_PAGE_BYTES,
			       run->count * G4_PAGE_BYTES) != 0)
		return false;
	memcpy(&batch->expected[batch->pages], reader->expected, run->count * sizeof(reader->expected[0]));
	batch->runs[batch->run_count++] = *run;
	batch->pages += run->count;
	return true;
}

static void finish_all(struct reader *reader)
{
	for (uint32_t k = 0; reader->hasher != NULL && k < SLOTS_EACH; k++)
		next_batch(reader);
}

static void free_batches(struct reader *reader)
{
	for (uint32_t k = 0; k < SLOTS_EACH; k++) {
		free(reader->batches[k].runs);
		free(reader->batches[k].expected);
	}
}

/* Slots for reader `index`; without them, or memory, it hashes itself. */
static void take_slots(struct reader *reader, uint32_t index)
{
	struct g4_page_hasher *hasher = reader->check->fsck->hasher;
	bool made = hasher != NULL && (index + 1) * SLOTS_EACH <= hasher->slots && hasher->slot_pages >= RUN_PAGES;

	for (uint32_t k = 0; made && k < SLOTS_EACH; k++) {
		struct batch *batch = &reader->batches[k];
		batch->slot = index * SLOTS_EACH + k;
		batch->runs = calloc(hasher->slot_pages, sizeof(*batch->runs));
		batch->expected = calloc(hasher->slot_pages, sizeof(*batch->expected));
		made = batch->runs != NULL && batch->expected != NULL;
	}
	reader->hasher = made ? hasher : NULL;
}

/* ------------------------------------------------------------------ runs */

static void end_run(struct reader *reader)
{
	const struct g4_fsck *fsck = reader->check->fsck;
	const bool in_place = fsck->written || fsck->copy_count == 0;
	const struct run run = {.page = reader->run_page,
				.address = reader->run_address,
				.count = reader->run_count,
				.ino = reader->piece->ino};
	bool bad[RUN_PAGES] = {false}, compared = false;

	reader->run_count = 0;
	if (run.count > 0 && in_place && hash_beside(reader, &run))
		return;
	for (uint32_t copy = 0; run.count > 0 && copy < g4_space_copies(&reader->image.space); copy++) {
		const int status = !in_place ?
					   -G4_E_IO :
					   g4_space_read_copy(reader->image.wg, &reader->image.space, copy, run.address,
							      reader->pages, run.count * G4_PAGE_BYTES);
		if (status == 0)
			compare_pages(reader, reader->pages, reader->expected, run.count, bad);
		compared = compared || status == 0;
		/* of a run that lies in two chunks one part may be on a disk that is missing, and the other one not */
		for (uint32_t k = 0; status < 0 && k < run.count; k++)
			bad[k] = bad[k] || status != -G4_E_NOENT ||
				 read_page(reader, copy, g4_address_after_pages(run.address, k), k) != -G4_E_NOENT;
	}
	for (uint32_t k = 0; k < run.count; k++)
		reader->compared += settle_page(reader, &run, k, compared && !bad[k], &reader->expected[k]);
}

static void add_page(struct reader *reader, uint64_t file_page, struct g4_address address,
		     const struct g4_sum_entry *entry)
{
	const uint32_t n = reader->run_count, algorithm = g4_sum_entry_algorithm(entry);

	if (algorithm == G4_CHECKSUM_NONE || algorithm == G4_CHECKSUM_LOST) {
		reader->without += algorithm == G4_CHECKSUM_NONE;
		reader->unverified += algorithm == G4_CHECKSUM_LOST;
		return;
	}
	if (n == RUN_PAGES || file_page != reader->run_page + n ||
	    !g4_address_is(address, g4_address_after_pages(reader->run_address, n)))
		end_run(reader);
	if (reader->run_count == 0) {
		reader->run_page = file_page;
		reader->run_address = address;
	}
	reader->expected[reader->run_count++] = *entry;
}

/* ------------------------------------------------------------------ a file */

/* The entry of the slot of an item that the walk stands at. 0, or why it can not be had. */
static int entry_of(struct reader *reader, const struct g4_map_item *item, struct g4_sum_entry *entry)
{
	const struct g4_map_frame *frame = &reader->walk.frames[reader->walk.depth];
	const struct g4_sums_places *places = &frame->sums;
	const struct g4_inode *inode = &reader->piece->inode;
	const uint32_t quarter = item->slot / G4_SUMS_SLOTS;
	struct g4_sums_block block;

	memset(entry, 0, sizeof(*entry));
	if (g4_address_is_none(item->page) && (inode->flags & G4_INODE_SUMS_INLINE) != 0) {
		*entry = inode->few.sums[item->slot];
		return 0;
	}
	if (g4_address_is_none(item->page)) {
		const int status = g4_fsck_read_block(&reader->image, inode, &block);
		*entry = block.entries[item->slot];
		return status;
	}
	const struct g4_address address = g4_sums_place(places, item->page, quarter);
	if (g4_address_is_none(address))
		return 0;
	if (!g4_address_is(address, reader->sums_address)) {
		reader->sums_address = address;
		reader->sums_status = g4_fsck_read_sums(&reader->image, address, frame->maker, item->height + 1,
							quarter, NULL, &reader->sums);
	}
	if (reader->sums_status == 0)
		*entry = reader->sums.entries[item->slot % G4_SUMS_SLOTS];
	return reader->sums_status;
}

/* How many of these pages are the piece's. */
static uint64_t overlap(const struct piece *piece, uint64_t file_page, uint64_t pages)
{
	const uint64_t from = g4_max64(file_page, piece->from);
	const uint64_t to = g4_min64(file_page + pages, piece->to);

	return from < to ? to - from : 0;
}

/* 2 MiB, whose sums are where its entry says. A piece has all of it or nothing. */
static void add_row(struct reader *reader, uint64_t file_page, struct g4_address address,
		    const struct g4_sum_entry *entry)
{
	const uint32_t algorithm = g4_sum_entry_algorithm(entry);
	const uint64_t maker = reader->walk.frames[reader->walk.depth].maker;
	struct g4_sums_page page;

	if (algorithm != G4_CHECKSUM_LARGE) {
		*(algorithm == G4_CHECKSUM_NONE ? &reader->without : &reader->unverified) += G4_INDIRECT_SLOTS;
		return;
	}
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
		const uint64_t first = (uint64_t)quarter * G4_SUMS_SLOTS;
		const int status =
			g4_fsck_read_sums(&reader->image, g4_address_after_pages(g4_sum_entry_place(entry), quarter),
					  maker, 1, quarter, entry, &page);
		for (uint32_t i = 0; status == 0 && i < G4_SUMS_SLOTS; i++)
			add_page(reader, file_page + first + i, g4_address_after_pages(address, first + i),
				 &page.entries[i]);
		reader->unverified += status < 0 ? G4_SUMS_SLOTS : 0;
	}
}

/* 1 GiB: each of its entries leads to those of 2 MiB. */
static void add_rows(struct reader *reader, uint64_t file_page, struct g4_address address,
		     const struct g4_sum_entry *entry)
{
	const uint64_t row_pages = G4_INDIRECT_SLOTS, quarter_pages = G4_SUMS_SLOTS * row_pages;
	const uint32_t algorithm = g4_sum_entry_algorithm(entry);
	const uint64_t maker = reader->walk.frames[reader->walk.depth].maker;
	struct g4_sums_page page;

	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
		const uint64_t first = quarter * quarter_pages;
		const uint64_t pages = overlap(reader->piece, file_page + first, quarter_pages);
		if (pages == 0)
			continue;
		if (algorithm == G4_CHECKSUM_NONE) {
			reader->without += pages;
			continue;
		}
		if (algorithm != G4_CHECKSUM_LARGE ||
		    g4_fsck_read_sums(&reader->image, g4_address_after_pages(g4_sum_entry_place(entry), quarter), maker,
				      2, quarter, entry, &page) < 0) {
			reader->unverified += pages;
			continue;
		}
		for (uint64_t i = 0; i < G4_SUMS_SLOTS; i++)
			if (overlap(reader->piece, file_page + first + i * row_pages, row_pages) > 0)
				add_row(reader, file_page + first + i * row_pages,
					g4_address_after_pages(address, first + i * row_pages), &page.entries[i]);
	}
}

static void add_data(struct reader *reader, const struct g4_map_item *item)
{
	const struct g4_address address = g4_ptr_address(item->ptr);
	struct g4_sum_entry entry;

	if ((item->ptr & G4_PTR_VALID) == 0)
		return; /* reserved and never written */
	if (entry_of(reader, item, &entry) < 0)
		reader->unverified += overlap(reader->piece, item->file_page, g4_tag_pages(g4_ptr_tag(item->ptr)));
	else if (item->height == 0)
		add_page(reader, item->file_page, address, &entry);
	else if (item->height == 1)
		add_row(reader, item->file_page, address, &entry);
	else
		add_rows(reader, item->file_page, address, &entry);
}

/* Whether somebody else compares what hangs at a shared page of level 1, which no border of pieces divides. */
static bool is_compared(struct reader *reader, const struct g4_map_item *item)
{
	const uint64_t page = g4_address_page(g4_ptr_address(item->ptr)), bit = UINT64_C(1) << page % 64;
	uint64_t *maps = reader->check->maps;

	if (maps == NULL || item->height != 1)
		return false;
	return (__atomic_fetch_or(&maps[page / 64], bit, __ATOMIC_RELAXED) & bit) != 0;
}

static void read_piece(struct reader *reader, const struct piece *piece)
{
	reader->piece = piece;
	reader->sums_address = G4_NO_ADDRESS;
	g4_map_walk_start(&reader->walk, &reader->image, piece->ino, &piece->inode);
	if (reader->walk.shares)
		reader->walk.most = g4_max64(reader->walk.most, piece->inode.pages);
	for (;;) {
		const struct g4_map_item *item = g4_map_walk_next(&reader->walk);
		if (item->kind == G4_MAP_END || item->file_page >= piece->to)
			break;
		if (overlap(reader->piece, item->file_page, UINT64_C(1) << 9 * item->height) == 0)
			continue;
		if (item->kind == G4_MAP_DATA)
			add_data(reader, item);
		else if (item->kind == G4_MAP_INDIRECT && !is_compared(reader, item))
			(void)g4_map_walk_enter(&reader->walk); /* the check has told */
	}
	end_run(reader);
}

/* ------------------------------------------------------------------ sharing the work */

static bool has_contents(const struct g4_inode *inode)
{
	return (S_ISREG(inode->mode) || S_ISLNK(inode->mode)) && (inode->flags & G4_INODE_INLINE) == 0 &&
	       inode->nlink != 0;
}

/* The next pages of the file in the slot at hand. False: it has no more, or is none. Locked. */
static bool take_part(struct check *check, struct piece *piece)
{
	const struct g4_fsck_cell *slab = g4_fsck_find(&check->fsck->slabs, check->slabs[check->slab]);

	piece->ino = g4_ino_of_slot(g4_page_address(check->slabs[check->slab]), check->slot);
	if (slab->c != 0 || (slab->b >> check->slot & 1) == 0 ||
	    g4_image_inode(check->fsck->image, piece->ino, &piece->inode) < 0 || !has_contents(&piece->inode))
		return false;
	const uint64_t pages = piece->inode.size / G4_PAGE_BYTES + 1;
	const uint64_t part = g4_max64(PIECE_PAGES, g4_align_up(pages / FILE_PIECES + 1, G4_INDIRECT_SLOTS));
	if (check->page >= pages)
		return false;
	piece->from = check->page;
	check->page += part;
	piece->to = check->page >= pages ? UINT64_MAX : check->page; /* all that there is beyond the end, too */
	return true;
}

static bool take_piece(struct check *check, struct piece *piece)
{
	bool taken = false;

	pthread_mutex_lock(&check->lock);
	while (!taken && check->slab < check->slab_count && check->fsck->fatal == 0) {
		taken = take_part(check, piece);
		if (taken)
			break;
		check->page = 0;
		if (++check->slot < SLAB_SLOTS)
			continue;
		check->slot = 0;
		check->slab++;
	}
	pthread_mutex_unlock(&check->lock);
	return taken;
}

static void read_pieces(struct reader *reader, struct g4_progress *progress)
{
	struct check *check = reader->check;
	struct piece piece;
	uint64_t before = 0;

	while (take_piece(check, &piece)) {
		read_piece(reader, &piece);
		const uint64_t pages = reader->compared + reader->without + reader->unverified;
		const uint64_t done = __atomic_add_fetch(&check->done, pages - before, __ATOMIC_RELAXED);
		before = pages;
		if (progress != NULL)
			g4_progress_step(progress, done, check->fsck->pages_met);
	}
	finish_all(reader);
}

static void *work(void *argument)
{
	read_pieces(argument, NULL);
	return NULL;
}

/* Its memory; false: there is none. */
static bool make_reader(struct reader *reader, struct check *check, uint32_t index)
{
	reader->check = check;
	reader->pages = aligned_alloc(G4_PAGE_BYTES, RUN_PAGES * G4_PAGE_BYTES);
	if (reader->pages != NULL && g4_image_share(check->fsck->image, index, &reader->image) == 0) {
		take_slots(reader, index - 1);
		return true;
	}
	free(reader->pages);
	return false;
}

static void end_reader(struct reader *reader)
{
	struct g4_fsck *fsck = reader->check->fsck;

	fsck->data_compared += reader->compared;
	fsck->data_without += reader->without;
	fsck->data_unverified += reader->unverified;
	fsck->data_beside += reader->beside;
	g4_image_close(&reader->image);
	free_batches(reader);
	free(reader->pages);
}

static void read_all(struct check *check)
{
	struct g4_fsck *fsck = check->fsck;
	const uint32_t wanted = (uint32_t)g4_max64(fsck->threads, 1);
	struct reader *readers = calloc(wanted, sizeof(*readers));
	uint32_t made = 1, started = 1;

	if (readers == NULL || !make_reader(&readers[0], check, 1)) {
		fsck->fatal = -G4_E_NOMEM;
		free(readers);
		return;
	}
	/* all of them first: what they share of the image changes once the first one runs */
	while (made < wanted && make_reader(&readers[made], check, made + 1))
		made++;
	while (started < made && pthread_create(&readers[started].thread, NULL, work, &readers[started]) == 0)
		started++;
	read_pieces(&readers[0], &fsck->progress);
	for (uint32_t i = 0; i < made; i++) {
		if (i > 0 && i < started)
			pthread_join(readers[i].thread, NULL);
		end_reader(&readers[i]);
	}
	free(readers);
}

/* ------------------------------------------------------------------ other owners */

static int compare_damages(const void *a, const void *b)
{
	const struct g4_fsck_damage *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return x->file_page < y->file_page ? -1 : x->file_page > y->file_page;
}

static int compare_places(const void *a, const void *b)
{
	const uint64_t x = g4_address_stored(((const struct g4_fsck_damage *)a)->address),
		       y = g4_address_stored(((const struct g4_fsck_damage *)b)->address);

	return x < y ? -1 : x > y;
}

/* What was found damaged, in the order of files and of places. */
struct found {
	const struct g4_fsck_damage *by_file, *by_place;
	uint64_t count;
};

/* What hangs at a data pointer of a file's map. Whether any of it is damaged. */
static bool add_again(struct check *check, const struct found *found, const struct piece *piece,
		      const struct g4_map_item *item)
{
	const uint64_t pages = g4_tag_pages(g4_ptr_tag(item->ptr));
	bool any = false;

	for (uint64_t k = 0; k < pages; k++) {
		const struct g4_fsck_damage here = {.ino = piece->ino,
						    .file_page = item->file_page + k,
						    .address = g4_address_after_pages(g4_ptr_address(item->ptr), k)};
		const struct g4_fsck_damage *damage =
			bsearch(&here, found->by_place, found->count, sizeof(here), compare_places);
		if (damage == NULL)
			continue;
		any = true;
		if (overlap(piece, here.file_page, 1) == 0 ||
		    bsearch(&here, found->by_file, found->count, sizeof(here), compare_damages) != NULL)
			continue;
		struct g4_fsck_damage same = *damage;
		same.ino = here.ino;
		same.file_page = here.file_page;
		note_damage(check, &same);
	}
	return any;
}

/* A piece of a file that shares its map. What was walked for another one, and has nothing damaged, is not walked again. */
static void add_owner(struct check *check, const struct found *found, const struct piece *piece)
{
	struct g4_map_walk *walk = &check->fsck->map_walk;
	struct g4_address at = G4_NO_ADDRESS; /* the page of level 1 whose slots come now */
	bool any = false;

	g4_map_walk_start(walk, check->fsck->image, piece->ino, &piece->inode);
	walk->most = g4_max64(walk->most, piece->inode.pages);
	for (;;) {
		const struct g4_map_item *item = g4_map_walk_next(walk);
		if (!g4_address_is_none(at) && (item->kind == G4_MAP_END || !g4_address_is(item->page, at))) {
			if (any)
				g4_fsck_clear_bit(check->maps, g4_address_page(at));
			at = G4_NO_ADDRESS;
		}
		if (item->kind == G4_MAP_END || item->file_page >= piece->to)
			return;
		if (item->kind == G4_MAP_DATA && (item->ptr & G4_PTR_VALID) != 0)
			any = add_again(check, found, piece, item) || any;
		if (item->kind != G4_MAP_INDIRECT ||
		    overlap(piece, item->file_page, UINT64_C(1) << 9 * item->height) == 0)
			continue;
		const bool single = item->height == 1;
		const struct g4_address address = g4_ptr_address(item->ptr);
		if (single && g4_fsck_bit(check->maps, g4_address_page(address)))
			continue;
		if (g4_map_walk_enter(walk) < 0)
			continue; /* the check has told */
		if (single) {
			g4_fsck_set_bit(check->maps, g4_address_page(address));
			at = address;
			any = false;
		}
	}
}

/* What hangs at an indirect page of several files was compared once, and is told of all of them. */
static void add_owners(struct check *check)
{
	struct g4_fsck *fsck = check->fsck;
	const uint64_t bytes = fsck->damage_count * sizeof(*fsck->damages);
	struct found found = {.count = fsck->damage_count};
	struct piece piece;

	if (check->maps == NULL || found.count == 0)
		return;
	struct g4_fsck_damage *copies = malloc(2 * bytes);
	if (copies == NULL) {
		fsck->fatal = -G4_E_NOMEM;
		return;
	}
	memcpy(copies, fsck->damages, bytes);
	memcpy(copies + found.count, fsck->damages, bytes);
	qsort(copies, found.count, sizeof(*copies), compare_damages);
	qsort(copies + found.count, found.count, sizeof(*copies), compare_places);
	found.by_file = copies;
	found.by_place = copies + found.count;
	memset(check->maps, 0, fsck->bitmap_words * sizeof(*check->maps));
	check->slab = check->slot = 0;
	check->page = 0;
	while (take_piece(check, &piece))
		if ((piece.inode.flags & G4_INODE_SHARES_MAP) != 0)
			add_owner(check, &found, &piece);
	free(copies);
}

/* ------------------------------------------------------------------ names */

struct names { /* that damaged files are told by: the first one met on the way from the root */
	struct g4_fsck *fsck;
	uint32_t dir; /* at hand */
	struct g4_fsck_table files, dirs;
	uint64_t missing; /* files without one so far */
};

/* Of a file's cell: a: directory + 1, b and c: the leaf's page, d: the unit. */
static bool take_name(void *context, const struct g4_entry_view *view)
{
	struct names *names = context;
	struct g4_fsck *fsck = names->fsck;
	const uint64_t page = g4_address_page(view->leaf_address);
	const struct g4_fsck_where where = {
		.dir = names->dir, .leaf_address = view->leaf_address, .unit = view->unit, .ino = view->entry.inode};
	struct g4_fsck_cell *cell = g4_fsck_find(&names->files, where.ino);

	if (cell != NULL && cell->a == 0) {
		cell->a = names->dir + 1;
		cell->b = (uint32_t)page;
		cell->c = (uint32_t)(page >> 32);
		cell->d = view->unit;
		names->missing--;
	}
	if (view->entry.file_type == S_IFDIR >> 12 && g4_fsck_find(&names->dirs, where.ino) == NULL &&
	    g4_fsck_add(fsck, &names->dirs, where.ino) != NULL)
		g4_fsck_push(fsck, where.ino, &where);
	return names->missing == 0 || fsck->fatal != 0;
}

static void look_for_names(struct names *names)
{
	const struct g4_fsck_where nowhere = {.dir = G4_NO_DIR};
	struct g4_fsck *fsck = names->fsck;
	struct g4_inode inode;
	struct g4_root root;

	fsck->dir_count = fsck->name_bytes = fsck->stack_count = 0;
	if (g4_image_root(fsck->image, &root) == 0)
		g4_fsck_push(fsck, root.root_inode, &nowhere);
	while (fsck->stack_count > 0 && names->missing > 0 && fsck->fatal == 0) {
		struct g4_dir_walk *walk = &fsck->dir_walk;
		names->dir = fsck->stack[--fsck->stack_count];
		if (g4_image_inode(fsck->image, fsck->dirs[names->dir].ino, &inode) < 0 || !S_ISDIR(inode.mode))
			continue;
		g4_dir_walk_start(walk, fsck->image, &inode);
		while (names->missing > 0 && fsck->fatal == 0 && g4_dir_walk_next(walk))
			if (g4_dir_walk_enter(walk) == 0 && walk->type == G4_BLOCK_DIR_LEAF)
				g4_leaf_each_entry(&walk->leaf, walk->address, take_name, names);
	}
}

static void tell_all(struct g4_fsck *fsck)
{
	struct names names = {.fsck = fsck};

	if (fsck->damage_count == 0)
		return;
	qsort(fsck->damages, fsck->damage_count, sizeof(*fsck->damages), compare_damages);
	for (uint64_t i = 0; i < fsck->damage_count; i++)
		if (i == 0 || fsck->damages[i].ino != fsck->damages[i - 1].ino)
			names.missing += g4_fsck_add(fsck, &names.files, fsck->damages[i].ino) != NULL;
	look_for_names(&names);
	for (uint64_t i = 0; i < fsck->damage_count && fsck->fatal == 0; i++) {
		const struct g4_fsck_cell *cell = g4_fsck_find(&names.files, fsck->damages[i].ino);
		const struct g4_fsck_where where = {
			.dir = cell->a == 0 ? G4_NO_DIR : cell->a - 1,
			.leaf_address = g4_page_address((uint64_t)cell->c << 32 | cell->b),
			.unit = cell->d,
			.ino = fsck->damages[i].ino,
		};
		g4_fsck_tell_damage(fsck, &where, &fsck->damages[i]);
	}
	fsck->by_kind[G4_FSCK_DATA] = fsck->damaged_pages;
	free(names.files.cells);
	free(names.dirs.cells);
}

/* ------------------------------------------------------------------ parity */

#define PARITY_BYTES UINT64_C(65536)

/* Rows of a set with parity, which is told and no more: what of them is wrong a scrub finds out, and mends. */
static void compare_parity(struct g4_fsck *fsck)
{
	struct g4_image *image = fsck->image;
	const uint64_t end = g4_space_bytes(&image->space);
	struct g4_dev_order asks = {.op = G4_ORDER_ROWS_ASK,
				    .disk = G4_ROWS_ASK_BEGIN}; /* nothing is written, for nobody tells */

	if (g4_space_versions(&image->space) == g4_space_copies(&image->space))
		return;
	if (fsck->progress.label != NULL)
		g4_progress_start(&fsck->progress, "comparing parity");
	(void)g4_space_order(image->wg, &image->space, &asks);
	for (uint64_t at = 0; at < end && fsck->fatal == 0; at += PARITY_BYTES) {
		const int status =
			g4_space_check(image->wg, &image->space, g4_address_from(at), g4_min64(PARITY_BYTES, end - at));
		if (status == -G4_E_PARITY)
			g4_fsck_tell_parity(fsck, at);
		else if (status < 0)
			fsck->fatal = status;
		g4_progress_step(&fsck->progress, at, end);
	}
	g4_progress_clear(&fsck->progress);
}

int g4_fsck_data(struct g4_fsck *fsck)
{
	struct check check = {.fsck = fsck, .lock = PTHREAD_MUTEX_INITIALIZER};

	if (fsck->progress.label != NULL)
		g4_progress_start(&fsck->progress, "comparing");
	if ((fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_SHARED_MAPS) != 0) {
		check.maps = calloc(fsck->bitmap_words, sizeof(*check.maps));
		if (check.maps == NULL)
			fsck->fatal = -G4_E_NOMEM;
	}
	check.slabs = g4_fsck_keys(fsck, &fsck->slabs, &check.slab_count);
	if (check.slabs != NULL && fsck->fatal == 0)
		read_all(&check);
	if (check.slabs != NULL && fsck->fatal == 0)
		add_owners(&check);
	free(check.slabs);
	free(check.maps);
	g4_progress_clear(&fsck->progress);
	if (fsck->fatal == 0)
		tell_all(fsck);
	if (fsck->fatal == 0)
		compare_parity(fsck);
	return fsck->fatal;
}

int g4_fsck_unlist_damaged(struct g4_fsck *fsck, struct g4_journal_state *journal)
{
	struct g4_address *changed;
	uint64_t changed_count;
	int status = 0;

	if (fsck->problems != 0)
		return 0; /* nothing else was written either */
	const uint64_t count = g4_fsck_drop_doubtful(fsck, &changed, &changed_count);
	if (count > 0 && fsck->fatal == 0)
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
			       "deduplication does not find %" PRIu64
			       " pages any more that are damaged, or have no sum",
			       count);
	if (count > 0 && fsck->fatal == 0 && fsck->target != NULL)
		status = g4_fsck_write_pages(fsck, journal, changed, changed_count);
	free(changed);
	return fsck->fatal != 0 ? fsck->fatal : status;
}
