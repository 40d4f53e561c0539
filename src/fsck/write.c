/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a repair. Order, and why a crash at any line is harmless:
 *
 *   1. The superblocks, in state *error*: the one that was not used first, so that the newer one is whole until both say
 *      the same. From here on a mount keeps the flag and -p does not skip the check. *Clean* stays, if it was there: with
 *      it no mount replays what a damaged header has left in the log.
 *   2. Copies of contents, into space that nothing uses. Flush.
 *   3. The changed pages, as records of the journal: written, flushed, then written home, flushed, then the tail moves.
 *      A crash in between leaves a record that the next replay brings home, or none: no page is ever torn. A repair
 *      that fits one record is one transaction. A larger one takes several, new pages first, so that what leads to them
 *      comes later; between two of them the image has some of its old damage and pages in use or not that the maps say
 *      otherwise of, which the next repair finds. Old pages of directories are not overwritten by this repair, so every
 *      entry, slot and pointer that was readable before is readable then.
 *   4. The superblocks, *clean*.
 *
 * The journal is replayed by the engine's own function: there is one implementation of what a mount does, and fsck has
 * to leave what a mount would find. Of the engine nothing else writes here.
 */
#include <stdlib.h>

#include "base/clock_host.h"
#include "format/sums.h"
#include "fsck/journal.h"
#include "fsck/tables.h"
#include "hash/crc32c.h"
#include "journal/block.h"
#include "journal/journal.h"
#include "simt/simt_host.h"

#define COPY_PAGES 256u

struct writer {
	struct g4_fsck *fsck;
	struct g4_image *image;
	struct g4_dev *dev;
	struct g4_wg *wg;
	uint64_t sequence, head; /* of the next record */
	uint8_t *page;		 /* one, aligned */
};

static int open_writer(struct writer *w, struct g4_dev *target)
{
	w->dev = target;
	w->wg = g4_wg_create(0);
	w->page = aligned_alloc(G4_PAGE_BYTES, G4_PAGE_BYTES);
	return w->wg == NULL || w->page == NULL ? -G4_E_NOMEM : 0;
}

static void close_writer(struct writer *w)
{
	if (w->wg != NULL)
		g4_wg_destroy(w->wg);
	free(w->page);
}

static int write_page(struct writer *w, struct g4_address address, const void *contents)
{
	struct g4_fsck *fsck = w->fsck;

	memcpy(w->page, contents, G4_PAGE_BYTES);
	if (fsck != NULL && fsck->stop_at_write != 0 && --fsck->stop_at_write == 0) {
		g4_dev_write(w->wg, w->dev, g4_address_stored(address), w->page, G4_PAGE_BYTES / 2, 0);
		fsck->stop_at_write = 1;
		return -G4_E_IO;
	}
	return g4_dev_write(w->wg, w->dev, g4_address_stored(address), w->page, G4_PAGE_BYTES, 0);
}

static int flush(struct writer *w)
{
	return g4_dev_flush(w->wg, w->dev);
}

/* ------------------------------------------------------------------ superblocks */

static int write_superblock(struct writer *w, struct g4_address address, uint32_t state)
{
	struct g4_superblock sb = w->image->sb;

	sb.state = state;
	sb.written_ns = g4_clock_ns(CLOCK_REALTIME);
	g4_block_seal(&sb, G4_BLOCK_SUPERBLOCK, address, w->sequence - 1, w->image->fs_tag);
	const int status = write_page(w, address, &sb);
	return status < 0 ? status : flush(w);
}

static int write_superblocks(struct writer *w, uint32_t state)
{
	const bool second_first = !w->image->from_backup;
	const struct g4_address addresses[2] = {G4_SUPERBLOCK, g4_layout_backup(&w->image->layout)};
	const int status = write_superblock(w, addresses[second_first], state);

	return status < 0 ? status : write_superblock(w, addresses[!second_first], state);
}

/* ------------------------------------------------------------------ the journal */

static int move_tail(struct writer *w)
{
	struct g4_journal_header header;

	memset(&header, 0, sizeof(header));
	header.tail_sequence = w->sequence;
	header.tail_page = w->head;
	const struct g4_address address = g4_layout_journal(&w->image->layout);
	g4_block_seal(&header, G4_BLOCK_JOURNAL_HEADER, address, w->sequence - 1, w->image->fs_tag);
	const int status = write_page(w, address, &header);
	return status < 0 ? status : flush(w);
}

/* The generation of a page in a record is the record's sequence. */
static void reseal(const struct writer *w, uint8_t *page, struct g4_address address)
{
	struct g4_indirect_header indirect;
	struct g4_block_header header;

	memcpy(&header, page, sizeof(header));
	if (header.magic == G4_BLOCK_MAGIC && header.address == g4_address_stored(address)) {
		g4_block_seal(page, header.type, address, w->sequence, w->image->fs_tag);
		return;
	}
	struct g4_sums_page *sums = (struct g4_sums_page *)(void *)page;
	struct g4_sums_header sums_header;
	g4_sums_extract(sums, &sums_header);
	if (sums_header.header.magic == G4_BLOCK_MAGIC && sums_header.header.address == g4_address_stored(address)) {
		g4_sums_seal(sums, sums_header.inode, sums_header.level, sums_header.quarter, address, w->sequence,
			     w->image->fs_tag);
		return;
	}
	g4_le64 *slots = (g4_le64 *)(void *)page;
	g4_indirect_extract(slots, &indirect);
	g4_indirect_seal(slots, indirect.inode, indirect.level, address, w->sequence, w->image->fs_tag);
}

static int put_log_page(struct writer *w, uint64_t at, const void *page, uint32_t *crc)
{
	*crc = g4_crc32c(*crc, page, G4_PAGE_BYTES);
	return write_page(w, g4_image_log_address(w->image, w->head + at), page);
}

/* One record of `count` pages: descriptors, images, commit page. Durable when it returns 0. */
static int write_record(struct writer *w, const struct g4_address *addresses, uint64_t count)
{
	const uint64_t descriptors = (count + G4_JOURNAL_TAGS - 1) / G4_JOURNAL_TAGS;
	struct g4_journal_commit commit;
	uint64_t at = 0;
	uint32_t crc = 0;
	int status = 0;

	for (uint64_t index = 0; index < descriptors && status == 0; index++, at++) {
		struct g4_journal_descriptor page;
		memset(&page, 0, sizeof(page));
		page.sequence = w->sequence;
		page.block_count = (uint32_t)count;
		page.page_index = (uint32_t)index;
		page.page_count = (uint32_t)descriptors;
		for (uint64_t tag = 0; tag < G4_JOURNAL_TAGS && index * G4_JOURNAL_TAGS + tag < count; tag++)
			page.tags[tag] = g4_address_stored(addresses[index * G4_JOURNAL_TAGS + tag]);
		g4_block_seal(&page, G4_BLOCK_JOURNAL_DESCRIPTOR, g4_image_log_address(w->image, w->head + at),
			      w->sequence, w->image->fs_tag);
		status = put_log_page(w, at, &page, &crc);
	}
	for (uint64_t i = 0; i < count && status == 0; i++, at++) {
		uint8_t *page = g4_image_patch(w->image, addresses[i]);
		reseal(w, page, addresses[i]);
		status = put_log_page(w, at, page, &crc);
	}
	memset(&commit, 0, sizeof(commit));
	commit.sequence = w->sequence;
	commit.record_pages = at + 1;
	commit.record_crc32c = crc;
	g4_block_seal(&commit, G4_BLOCK_JOURNAL_COMMIT, g4_image_log_address(w->image, w->head + at), w->sequence,
		      w->image->fs_tag);
	if (status == 0)
		status = put_log_page(w, at, &commit, &crc);
	return status == 0 ? flush(w) : status;
}

static int write_batch(struct writer *w, const struct g4_address *addresses, uint64_t count)
{
	const uint64_t pages = (count + G4_JOURNAL_TAGS - 1) / G4_JOURNAL_TAGS + count + 1;
	int status = write_record(w, addresses, count);

	for (uint64_t i = 0; i < count && status == 0; i++)
		status = write_page(w, addresses[i], g4_image_patch(w->image, addresses[i]));
	if (status == 0)
		status = flush(w);
	w->sequence++;
	w->head = (w->head + pages) % g4_layout_log_pages(&w->image->layout);
	return status == 0 ? move_tail(w) : status;
}

/* New pages first: those that no map calls used. */
static void order_pages(struct writer *w, struct g4_address *addresses, uint64_t count)
{
	struct g4_address *ordered = malloc(count * sizeof(*ordered));
	uint64_t at = 0;

	if (ordered == NULL)
		return; /* any order can be repaired again; this one only leaves less to do */
	for (int old = 0; old < 2; old++) {
		for (uint64_t i = 0; i < count; i++) {
			if (g4_fsck_bit(w->fsck->first_alloc, g4_address_page(addresses[i])) == (old != 0))
				ordered[at++] = addresses[i];
		}
	}
	memcpy(addresses, ordered, count * sizeof(*ordered));
	free(ordered);
}

/*
 * A changed page that nothing leads to in the end stays as it was: with the generation of this repair a slab that was
 * given up would look newer than the map that calls it free.
 */
static uint64_t keep_used(const struct writer *w, struct g4_address *addresses, uint64_t count)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (g4_fsck_bit(w->fsck->used, g4_address_page(addresses[i])))
			addresses[kept++] = addresses[i];
	}
	return kept;
}

/* What fits one record. */
static uint64_t record_room(const struct writer *w)
{
	const uint64_t pages = g4_layout_log_pages(&w->image->layout);

	return pages - 2 - pages / G4_JOURNAL_TAGS;
}

static int write_batches(struct writer *w, const struct g4_address *addresses, uint64_t count)
{
	const uint64_t room = record_room(w);
	int status = 0;

	for (uint64_t at = 0; at < count && status == 0; at += room)
		status = write_batch(w, addresses + at, g4_min64(room, count - at));
	return status;
}

static int write_patches(struct writer *w)
{
	uint64_t count;
	struct g4_address *addresses = g4_image_patched(w->image, &count);
	int status = 0;

	if (addresses == NULL)
		return w->image->patches.count != 0 ? -G4_E_NOMEM : 0;
	count = keep_used(w, addresses, count);
	if (count > record_room(w))
		order_pages(w, addresses, count);
	status = write_batches(w, addresses, count);
	free(addresses);
	return status;
}

/* ------------------------------------------------------------------ contents */

static int copy_contents(struct writer *w, const struct g4_fsck_copy *copy)
{
	uint8_t *buffer = aligned_alloc(G4_PAGE_BYTES, COPY_PAGES * G4_PAGE_BYTES);
	int status = buffer == NULL ? -G4_E_NOMEM : 0;

	for (uint64_t done = 0; done < copy->pages && status == 0; done += COPY_PAGES) {
		const uint64_t bytes = g4_min64(COPY_PAGES, copy->pages - done) * G4_PAGE_BYTES;
		status =
			g4_dev_read(w->wg, w->dev, g4_address_stored(copy->from) + done * G4_PAGE_BYTES, buffer, bytes);
		if (status == 0)
			status = g4_dev_write(w->wg, w->dev, g4_address_stored(copy->to) + done * G4_PAGE_BYTES, buffer,
					      bytes, 0);
	}
	free(buffer);
	return status;
}

static int copy_all(struct writer *w)
{
	int status = 0;

	for (uint64_t i = 0; i < w->fsck->copy_count && status == 0; i++)
		status = copy_contents(w, &w->fsck->copies[i]);
	return status == 0 && w->fsck->copy_count != 0 ? flush(w) : status;
}

/* ------------------------------------------------------------------ all of it */

static bool superblocks_are_fine(const struct g4_fsck *fsck)
{
	const struct g4_image *image = fsck->image;

	return image->primary_status == 0 && image->backup_status == 0 && fsck->by_kind[G4_FSCK_SUPERBLOCK] == 0 &&
	       image->primary.state == G4_STATE_CLEAN && image->backup.state == G4_STATE_CLEAN &&
	       (image->sb.features_incompat & ~image->primary.features_incompat & G4_FEATURE_INCOMPAT_EQUAL_HASHES) ==
		       0;
}

static int write_all(struct writer *w)
{
	const bool pages = w->image->patches.count != 0 || w->fsck->copy_count != 0 || w->fsck->reset_journal;
	int status = pages ? write_superblocks(w, G4_STATE_ERROR | (w->image->sb.state & G4_STATE_CLEAN)) : 0;

	if (status == 0)
		status = copy_all(w);
	if (status == 0 && w->fsck->reset_journal)
		status = move_tail(w);
	if (status == 0)
		status = write_patches(w);
	return status == 0 ? write_superblocks(w, G4_STATE_CLEAN) : status;
}

/* Where the next record goes, if something more is to be written. */
static void end_records(const struct writer *w, struct g4_journal_state *journal)
{
	w->fsck->sequence = w->sequence;
	journal->next_page = w->head;
}

int g4_fsck_write(struct g4_fsck *fsck, struct g4_journal_state *journal)
{
	struct writer w = {.fsck = fsck, .image = fsck->image, .sequence = fsck->sequence};

	if (fsck->image->patches.count == 0 && fsck->copy_count == 0 && !fsck->reset_journal &&
	    superblocks_are_fine(fsck))
		return 0;
	w.head = fsck->reset_journal ? 0 : journal->next_page;
	int status = open_writer(&w, fsck->target);
	if (status == 0)
		status = write_all(&w);
	end_records(&w, journal);
	close_writer(&w);
	return status;
}

int g4_fsck_write_pages(struct g4_fsck *fsck, struct g4_journal_state *journal, const struct g4_address *addresses,
			uint64_t count)
{
	struct writer w = {.fsck = fsck, .image = fsck->image, .sequence = fsck->sequence, .head = journal->next_page};
	int status = open_writer(&w, fsck->target);

	if (status == 0)
		status = write_superblocks(&w, G4_STATE_ERROR | (w.image->sb.state & G4_STATE_CLEAN));
	if (status == 0)
		status = write_batches(&w, addresses, count);
	if (status == 0)
		status = write_superblocks(&w, G4_STATE_CLEAN);
	end_records(&w, journal);
	close_writer(&w);
	return status;
}

int g4_fsck_replay(const struct g4_image *image, const struct g4_journal_header *header, struct g4_dev *target)
{
	struct g4_image copy = *image;
	struct writer w = {.image = &copy};
	struct g4_space space;
	struct g4_meta meta = {.space = &space, .layout = image->layout, .fs_tag = image->fs_tag};
	struct g4_replay replayed;

	int status = open_writer(&w, target);
	if (status == 0 && header != NULL) {
		status = write_page(&w, g4_layout_journal(&image->layout), header);
		if (status == 0)
			status = flush(&w);
	}
	if (status == 0) {
		g4_space_init(&space, w.dev);
		status = g4_journal_replay(w.wg, &meta, &image->sb, G4_REPLAY_WRITE | G4_REPLAY_UP_TO_GAP, &replayed);
	}
	close_writer(&w);
	return status;
}
