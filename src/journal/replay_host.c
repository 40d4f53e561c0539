/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery. Reads the log from its tail, keeps the newest image of every block that was not revoked later, writes those
 * home, flushes, and moves the tail behind the last record. Crash during recovery: home writes are images of committed
 * records, the tail moves last, so a second recovery does the same again.
 *
 * The header is one page in one place. On mapped memory a crash may tear it (stores are atomic in units of 8 bytes), so
 * a header with a wrong checksum is replaced by what the log itself tells: the longest run of consecutive records that
 * ends with the newest one. That begins at the tail or before it, and to replay what is home already is harmless as long
 * as the run ends with the newest transaction of all: of every page the newest image counts, and what was freed later is
 * revoked later, in the same run.
 *
 * The log ends with the first record that is not whole. A crash tears the newest one only, for the next is written when it
 * is durable: so when a newer one has so much as begun, the log does not end there, and what was durable would be given
 * up without a word. Such a log is not replayed; fsck is what gives up.
 *
 * With several copies of the log a record is whole if one copy of it is, and then goes to the others first. A crash may have left the
 * newest in some of them; a commit is reported durable when all copies have it.
 *
 * A run that ends before that would put old metadata over new. Records stay in the log long after they went home, so it
 * takes no more than a damaged newest record. Two things tell:
 *
 *   - The superblock. It is written when the log is empty, with the newest transaction's number. No record up to that is
 *     replayed; nor is any without a header after a clean unmount, when there is nothing to replay. A header whose tail
 *     is not beyond it, and leads nowhere beyond it, is itself old.
 *   - Metadata in place, after a crash. Pages go home with the number of their transaction. A transaction that went home,
 *     and of which the log has nothing, left that in each page that it changed; and if it freed a page, in an allocation
 *     map. So when neither the pages that the run would write nor the maps have a higher number than the run's last,
 *     replaying takes nothing back.
 */
#include <stdlib.h>

#include "hash/crc32c.h"
#include "journal/journal.h"

struct image {
	uint64_t address;
	uint64_t sequence; /* of the record, or of the revoke */
	uint64_t log_page; /* UINT64_MAX: a revoke */
	uint32_t copy;	   /* of the log */
};

struct scan {
	struct g4_wg *wg;
	struct g4_meta *meta;
	struct g4_address area;
	uint64_t log_pages;
	uint64_t home; /* everything up to this transaction is home; 0: nobody knows */
	bool clean;    /* everything is */
	bool up_to_gap;
	bool write;	 /* what is found in one copy alone goes to the others */
	uint32_t copy;	 /* of the log that is read: with several, a crash leaves the newest record in some of them */
	uint32_t whole;	 /* the copy of the record in the buffer */
	uint64_t walked; /* pages of the records that were read */
	bool torn;	 /* the header is a mixture of two of its kind, as far as one can see */
	struct image *images;
	size_t count, capacity;
	uint8_t *buffer; /* one record */
	uint64_t buffer_pages;
	bool judge;				  /* the same counts as where it is written */
	struct g4_data_tag data[G4_TXN_MAX_DATA]; /* of the newest record */
	uint32_t data_count;
};

static struct g4_address page_address(const struct scan *scan, uint64_t page)
{
	return g4_address_after_pages(scan->area, 1 + page % scan->log_pages);
}

/* One page of a copy; where its disk is missing, of the next copy that has it. */
static int read_page(struct scan *scan, uint64_t page, uint8_t *to)
{
	const uint32_t copies = g4_space_copies(scan->meta->space);
	int rc = -G4_E_NOENT;

	for (uint32_t k = 0; k < copies && rc == -G4_E_NOENT; k++)
		rc = g4_space_read_copy(scan->wg, scan->meta->space, (scan->copy + k) % copies,
					page_address(scan, page), to, G4_PAGE_BYTES);
	return rc;
}

/*
 * Pages of one copy. With fewer copies than disks a copy lies in pieces on several of them: one that is missing takes its pieces away, and
 * not the copy. -G4_E_NOENT: no copy has all of them.
 */
static int read_pages(struct scan *scan, uint64_t page, uint64_t count, uint8_t *to)
{
	uint64_t start = page % scan->log_pages;
	uint64_t first = g4_min64(count, scan->log_pages - start);
	int rc = g4_space_read_copy(scan->wg, scan->meta->space, scan->copy, page_address(scan, start), to,
				    first * G4_PAGE_BYTES);

	if (rc == 0 && first < count)
		rc = g4_space_read_copy(scan->wg, scan->meta->space, scan->copy, page_address(scan, 0),
					to + first * G4_PAGE_BYTES, (count - first) * G4_PAGE_BYTES);
	if (rc != -G4_E_NOENT || g4_space_copies(scan->meta->space) == 1)
		return rc;
	rc = 0;
	for (uint64_t k = 0; k < count && rc == 0; k++)
		rc = read_page(scan, page + k, to + k * G4_PAGE_BYTES);
	return rc;
}

/* The same of any copy that can be read. */
static int read_any(struct scan *scan, uint64_t page, uint64_t count, uint8_t *to)
{
	const uint32_t copies = g4_space_copies(scan->meta->space);
	int rc = -G4_E_IO;

	for (scan->copy = 0; scan->copy < copies && rc < 0; scan->copy++)
		rc = read_pages(scan, page, count, to);
	scan->copy = 0;
	return rc;
}

static int grow_buffer(struct scan *scan, uint64_t pages)
{
	void *memory = NULL;

	if (pages <= scan->buffer_pages)
		return 0;
	if (posix_memalign(&memory, G4_PAGE_BYTES, pages * G4_PAGE_BYTES) != 0)
		return -G4_E_NOMEM;
	free(scan->buffer);
	scan->buffer = (uint8_t *)memory;
	scan->buffer_pages = pages;
	return 0;
}

static int remember(struct scan *scan, uint64_t address, uint64_t sequence, uint64_t log_page)
{
	if (scan->count == scan->capacity) {
		size_t capacity = scan->capacity ? scan->capacity * 2 : 1024;
		void *memory = realloc(scan->images, capacity * sizeof(struct image));
		if (!memory)
			return -G4_E_NOMEM;
		scan->images = (struct image *)memory;
		scan->capacity = capacity;
	}
	scan->images[scan->count++] =
		(struct image){.address = address, .sequence = sequence, .log_page = log_page, .copy = scan->whole};
	return 0;
}

/* Reads the record at log page `page` of one copy. Its length in pages, 0 when there is no valid record, or a negative code. */
static int64_t read_one_record(struct scan *scan, uint64_t page, uint64_t sequence)
{
	const struct g4_journal_descriptor *d;
	int rc = grow_buffer(scan, 64);

	if (rc == 0)
		rc = read_pages(scan, page, 1, scan->buffer);
	if (rc < 0)
		return rc;
	d = (const struct g4_journal_descriptor *)scan->buffer;
	if (g4_block_verify(d, G4_BLOCK_JOURNAL_DESCRIPTOR, page_address(scan, page), scan->meta->fs_tag) < 0 ||
	    d->sequence != sequence || d->page_index != 0)
		return 0;
	uint64_t tags = (uint64_t)d->block_count + d->revoke_count + 2 * (uint64_t)d->data_count;
	/* more than the tags need where blocks were freed while the transaction was open */
	uint64_t total = (uint64_t)d->page_count + d->block_count + 1;
	if (d->page_count == 0 || d->page_count * (uint64_t)G4_JOURNAL_TAGS < tags || total > scan->log_pages ||
	    d->data_count > G4_TXN_MAX_DATA)
		return 0;
	rc = grow_buffer(scan, total);
	if (rc == 0)
		rc = read_pages(scan, page, total, scan->buffer);
	if (rc < 0)
		return rc;
	const struct g4_journal_commit *commit =
		(const struct g4_journal_commit *)(scan->buffer + (total - 1) * G4_PAGE_BYTES);
	if (g4_block_verify(commit, G4_BLOCK_JOURNAL_COMMIT, page_address(scan, page + total - 1), scan->meta->fs_tag) <
		    0 ||
	    commit->sequence != sequence || commit->record_pages != total ||
	    commit->record_crc32c != g4_crc32c(0, scan->buffer, (total - 1) * G4_PAGE_BYTES))
		return 0;
	return (int64_t)total;
}

/* A record of which one copy is whole, in the buffer, is in all of them when this returns. */
static void complete_record(struct scan *scan, uint64_t page, uint64_t pages)
{
	const uint64_t start = page % scan->log_pages, first = g4_min64(pages, scan->log_pages - start);

	g4_space_mend(scan->wg, scan->meta->space, page_address(scan, start), scan->buffer, first * G4_PAGE_BYTES);
	g4_space_mend(scan->wg, scan->meta->space, page_address(scan, 0), scan->buffer + first * G4_PAGE_BYTES,
		      (pages - first) * G4_PAGE_BYTES);
}

/* The same of the first copy that is whole. A copy that can not be read counts only where no other can: a missing one not even then. */
static int64_t read_record(struct scan *scan, uint64_t page, uint64_t sequence)
{
	const uint32_t copies = g4_space_copies(scan->meta->space);
	int64_t pages = -G4_E_NOENT;

	for (scan->copy = 0; scan->copy < copies && pages <= 0 && pages != -G4_E_NOMEM; scan->copy++) {
		const int64_t one = read_one_record(scan, page, sequence);
		scan->whole = scan->copy;
		if (one >= 0 || one == -G4_E_NOMEM || pages == -G4_E_NOENT)
			pages = one;
	}
	scan->copy = 0;
	if (pages > 0 && copies > 1 && scan->write && sequence > scan->home)
		complete_record(scan, page, (uint64_t)pages);
	return pages == -G4_E_NOENT ? -G4_E_IO : pages;
}

static bool home_ok(const struct scan *scan, uint64_t address)
{
	return (address & (G4_PAGE_BYTES - 1)) == 0 && address >= scan->meta->layout.groups_address &&
	       address < scan->meta->layout.backup_address;
}

/* Tag n of the record in the buffer. */
static uint64_t tag_of(const struct scan *scan, uint32_t n)
{
	const struct g4_journal_descriptor *d =
		(const struct g4_journal_descriptor *)(scan->buffer + n / G4_JOURNAL_TAGS * G4_PAGE_BYTES);
	return d->tags[n % G4_JOURNAL_TAGS];
}

/*
 * The same of one data page, which is in all copies then. A mount that can not write there would be given any copy by later reads: there
 * all have to have arrived.
 */
static int page_arrived(struct scan *scan, const struct g4_data_tag *data)
{
	const struct g4_address address = data->address;
	const uint32_t copies = g4_space_copies(scan->meta->space), versions = g4_space_versions(scan->meta->space);
	uint32_t right = 0, there = 0;
	int rc = -G4_E_NOENT;

	for (uint32_t copy = 0; copy < versions; copy++) {
		const bool made = copy >= copies; /* of other pages, by parity */
		const int one =
			g4_space_read_copy(scan->wg, scan->meta->space, copy, address, scan->buffer, G4_PAGE_BYTES);
		there += one != -G4_E_NOENT && !made;
		/* what could not be read counts where nothing could */
		rc = !made && (one == 0 || rc == -G4_E_NOENT) ? one : rc;
		if (one < 0 || g4_crc32c(0, scan->buffer, G4_PAGE_BYTES) != data->crc32c)
			continue;
		right += !made;
		if (scan->write && versions > 1) {
			g4_space_mend(scan->wg, scan->meta->space, address, scan->buffer, G4_PAGE_BYTES);
			return 1;
		}
		if (scan->judge)
			return 1;
	}
	if (right > 0)
		return right == there;
	return rc == -G4_E_NOENT ? -G4_E_IO : rc;
}

/* 1: all data pages that the newest record relies on have arrived; 0: not all; or a negative code. */
static int data_arrived(struct scan *scan)
{
	int rc = 1;

	for (uint32_t k = 0; k < scan->data_count && rc == 1; k++)
		rc = home_ok(scan, g4_address_stored(scan->data[k].address)) ? page_arrived(scan, &scan->data[k]) : 0;
	return rc;
}

/* Forgets the newest record. */
static void drop_newest(struct scan *scan, struct g4_replay *out, uint64_t start)
{
	size_t kept = 0;

	out->next_sequence--;
	out->records--;
	out->head_page = start;
	for (size_t i = 0; i < scan->count; i++)
		if (scan->images[i].sequence != out->next_sequence)
			scan->images[kept++] = scan->images[i];
	scan->count = kept;
}

static int collect_tags(struct scan *scan, uint64_t page, uint64_t sequence)
{
	const struct g4_journal_descriptor *first = (const struct g4_journal_descriptor *)scan->buffer;
	uint32_t blocks = first->block_count, total = first->block_count + first->revoke_count;

	scan->data_count = first->data_count;
	for (uint32_t k = 0; k < first->data_count; k++) {
		scan->data[k].address = g4_address_from(tag_of(scan, total + 2 * k));
		scan->data[k].crc32c = tag_of(scan, total + 2 * k + 1);
	}
	for (uint32_t n = 0; n < total; n++) {
		uint64_t address = tag_of(scan, n);
		uint64_t at = n < blocks ? (page + first->page_count + n) % scan->log_pages : UINT64_MAX;
		int rc;

		if (!home_ok(scan, address))
			return -G4_E_CORRUPT_JOURNAL;
		rc = remember(scan, address, sequence, at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* By address; of one address the decisive entry (newest; a revoke after an image of its own transaction) last. */
static int compare_images(const void *a, const void *b)
{
	const struct image *x = (const struct image *)a, *y = (const struct image *)b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->sequence != y->sequence)
		return x->sequence < y->sequence ? -1 : 1;
	return (x->log_page == UINT64_MAX) - (y->log_page == UINT64_MAX);
}

/* Where it lies, for readers. */
static struct g4_in_log place_of(const struct scan *scan, const struct image *image)
{
	return (struct g4_in_log){.home = g4_address_from(image->address),
				  .log = page_address(scan, image->log_page),
				  .sequence = image->sequence,
				  .copy = image->copy};
}

#define BATCH 256u
struct batch { /* images on their way home */
	struct g4_space_io requests[BATCH];
	struct g4_iov iovs[BATCH];
	const struct image *images[BATCH]; /* by address */
	uint32_t count;
};

/*
 * Reads a batch out of the log into the buffer, or writes it home: all at once, neighbours in one request. Of several copies of the log
 * the one that was verified is read: another one that could not be written may have older images there.
 */
static int transfer(struct scan *scan, struct batch *batch, uint32_t op)
{
	const bool several = g4_space_copies(scan->meta->space) > 1;
	uint32_t count = 0;

	for (uint32_t k = 0; k < batch->count; k++) {
		const struct image *image = batch->images[k];
		const struct g4_address address =
			op == G4_IO_READ ? page_address(scan, image->log_page) : g4_address_from(image->address);
		const uint32_t flags = op == G4_IO_READ && several ? G4_IO_COPY(image->copy) : 0;
		struct g4_space_io *last = count ? &batch->requests[count - 1] : NULL;
		if (!last || last->io.flags != flags ||
		    !g4_address_is(g4_address_after_pages(last->address, last->io.iov_count), address)) {
			last = &batch->requests[count++];
			g4_space_io_init(last, op, address, &batch->iovs[k], 0);
			last->io.flags = flags;
		}
		batch->iovs[k].base = scan->buffer + k * G4_PAGE_BYTES;
		batch->iovs[k].bytes = G4_PAGE_BYTES;
		last->io.iov_count++;
	}
	return g4_space_transfer(scan->wg, scan->meta->space, batch->requests, count);
}

/* Not all of a batch could be read: what is in another copy comes from there. */
static int read_again(struct scan *scan, const struct batch *batch)
{
	int rc = 0;

	for (uint32_t k = 0; k < batch->count && rc == 0; k++) {
		const struct g4_in_log at = place_of(scan, batch->images[k]);
		uint8_t *page = scan->buffer + k * G4_PAGE_BYTES;
		rc = g4_space_read_copy(scan->wg, scan->meta->space, at.copy, at.log, page, G4_PAGE_BYTES);
		if (rc < 0)
			rc = g4_block_read_image(scan->wg, scan->meta, &at, page);
	}
	return rc;
}

static int carry_home(struct scan *scan, struct batch *batch)
{
	int rc = batch->count ? transfer(scan, batch, G4_IO_READ) : 0;

	if (rc < 0 && g4_space_copies(scan->meta->space) > 1)
		rc = read_again(scan, batch);
	if (rc == 0 && batch->count)
		rc = transfer(scan, batch, G4_IO_WRITE);
	batch->count = 0;
	return rc;
}

/* The images that count, in the order of their addresses, come first from now on; how many there are. */
static size_t select_images(struct scan *scan)
{
	size_t kept = 0;

	if (scan->count)
		qsort(scan->images, scan->count, sizeof(struct image), compare_images);
	for (size_t i = 0; i < scan->count; i++) {
		const struct image *image = &scan->images[i];
		if (i + 1 < scan->count && scan->images[i + 1].address == image->address)
			continue;
		if (image->log_page != UINT64_MAX)
			scan->images[kept++] = *image;
	}
	return kept;
}

static int write_home(struct scan *scan, struct g4_replay *out)
{
	struct batch *batch = (struct batch *)calloc(1, sizeof(*batch));
	int rc = batch ? grow_buffer(scan, BATCH) : -G4_E_NOMEM;

	out->blocks = select_images(scan);
	for (uint64_t i = 0; i < out->blocks && rc == 0; i++) {
		batch->images[batch->count++] = &scan->images[i];
		if (batch->count == BATCH)
			rc = carry_home(scan, batch);
	}
	if (rc == 0)
		rc = carry_home(scan, batch);
	free(batch);
	return rc == 0 ? g4_space_flush(scan->wg, scan->meta->space) : rc;
}

/* Instead of that: where the images are. */
static int tell_images(struct scan *scan, struct g4_replay *out)
{
	out->blocks = select_images(scan);
	out->in_log = (struct g4_in_log *)malloc((out->blocks + 1) * sizeof(*out->in_log));
	if (!out->in_log)
		return -G4_E_NOMEM;
	for (uint64_t i = 0; i < out->blocks; i++)
		out->in_log[i] = place_of(scan, &scan->images[i]);
	return 0;
}

/* The data pages of the newest record, for whoever judges. */
static int tell_data(const struct scan *scan, struct g4_replay *out)
{
	out->data = (struct g4_data_tag *)malloc((scan->data_count + 1) * sizeof(*out->data));
	if (!out->data)
		return -G4_E_NOMEM;
	out->data_count = scan->data_count;
	memcpy(out->data, scan->data, scan->data_count * sizeof(*out->data));
	return 0;
}

static int move_tail(struct scan *scan, const struct g4_replay *out)
{
	struct g4_journal_header *header = (struct g4_journal_header *)scan->buffer;

	memset(header, 0, sizeof(*header));
	header->tail_sequence = out->next_sequence;
	header->tail_page = out->head_page;
	g4_block_seal(header, G4_BLOCK_JOURNAL_HEADER, scan->area, out->next_sequence - 1, scan->meta->fs_tag);
	return g4_space_write(scan->wg, scan->meta->space, scan->area, header, G4_PAGE_BYTES, G4_IO_FUA);
}

/* ------------------------------------------------------------------ the tail */

struct found { /* a complete record */
	uint64_t sequence, page, pages;
};

/* The sequence of the record whose first page this is, a copy of log page `page`, whether it is complete or not; 0: none's. */
static uint64_t first_of_record(const struct scan *scan, const void *copy, uint64_t page)
{
	const struct g4_journal_descriptor *d = (const struct g4_journal_descriptor *)copy;

	if (d->header.type != G4_BLOCK_JOURNAL_DESCRIPTOR || d->page_index != 0 || d->sequence >> 62 != 0 ||
	    g4_block_verify(d, G4_BLOCK_JOURNAL_DESCRIPTOR, page_address(scan, page), scan->meta->fs_tag) < 0)
		return 0;
	return d->sequence;
}

/* The same of a page of the log, the highest of its copies, or a negative code. */
static int64_t starts_record(struct scan *scan, uint64_t page)
{
	const uint32_t copies = g4_space_copies(scan->meta->space);
	int64_t best = -G4_E_IO;
	int rc = grow_buffer(scan, 1);

	for (scan->copy = 0; scan->copy < copies && rc == 0; scan->copy++) {
		const int one = read_pages(scan, page, 1, scan->buffer);
		const int64_t sequence = one < 0 ? one : (int64_t)first_of_record(scan, scan->buffer, page);
		best = sequence > best ? sequence : best;
	}
	scan->copy = 0;
	return rc < 0 ? rc : best;
}

/*
 * -G4_E_JOURNAL_GAP: in what was not walked, from page `head` on, a record beyond `next` has begun, the first that is not
 * whole. Read in large pieces.
 */
static int check_end(struct scan *scan, uint64_t head, uint64_t next)
{
	const uint64_t pages = scan->log_pages - scan->walked, most = g4_log_read_pages(scan->log_pages);
	int rc = grow_buffer(scan, most);

	for (uint64_t first = 0; first < pages && rc == 0; first += most) {
		const uint64_t count = g4_min64(most, pages - first);
		rc = read_any(scan, head + first, count, scan->buffer);
		for (uint64_t i = 0; i < count && rc == 0; i++)
			if (first_of_record(scan, scan->buffer + i * G4_PAGE_BYTES, head + first + i) > next)
				rc = -G4_E_JOURNAL_GAP;
	}
	return rc;
}

/*
 * All complete records of the log that may not be home, wherever they lie; the highest sequence of all, and the lowest that
 * may not be home, of those that have so much as begun. *found is malloc'ed.
 */
static int find_records(struct scan *scan, struct found **found, size_t *count, uint64_t *highest, uint64_t *lowest)
{
	size_t room = 0;

	for (uint64_t page = 0; page < scan->log_pages;) {
		const int64_t sequence = starts_record(scan, page);
		if (sequence < 0)
			return (int)sequence;
		*highest = g4_max64(*highest, (uint64_t)sequence);
		if ((uint64_t)sequence > scan->home)
			*lowest = g4_min64(*lowest, (uint64_t)sequence);
		int64_t pages = !scan->clean && (uint64_t)sequence > scan->home ?
					read_record(scan, page, (uint64_t)sequence) :
					0;
		if (pages < 0)
			return (int)pages;
		if (pages > 0 && *count == room) {
			room = room ? 2 * room : 64;
			void *memory = realloc(*found, room * sizeof(struct found));
			if (!memory)
				return -G4_E_NOMEM;
			*found = (struct found *)memory;
		}
		if (pages > 0)
			(*found)[(*count)++] = (struct found){(uint64_t)sequence, page, (uint64_t)pages};
		page += pages > 0 ? (uint64_t)pages : 1;
	}
	return 0;
}

static int compare_found(const void *a, const void *b)
{
	const struct found *x = (const struct found *)a, *y = (const struct found *)b;

	return x->sequence < y->sequence ? 1 : x->sequence > y->sequence ? -1 : 0; /* newest first */
}

/* -G4_E_JOURNAL_OLD: a copy of a page in place is newer than transaction `last`. */
static int check_page_age(struct scan *scan, struct g4_address at, uint64_t last)
{
	const uint32_t copies = g4_space_copies(scan->meta->space);
	int rc = -G4_E_IO;

	for (uint32_t copy = 0; copy < copies; copy++) {
		const int one = g4_space_read_copy(scan->wg, scan->meta->space, copy, at, scan->buffer, G4_PAGE_BYTES);
		if (one == 0 && g4_block_generation(scan->buffer, at, scan->meta->fs_tag) > last)
			return -G4_E_JOURNAL_OLD;
		rc = one == 0 || (rc == -G4_E_IO && one != -G4_E_NOENT) ? one : rc;
	}
	return rc;
}

/* The same of metadata in place; `last` is the newest that the log has. */
static int check_age(struct scan *scan, uint64_t last)
{
	const struct g4_layout *layout = &scan->meta->layout;
	int rc = grow_buffer(scan, 1);

	for (uint64_t at = layout->groups_address; at < layout->data_address && rc == 0; at += G4_PAGE_BYTES)
		rc = check_page_age(scan, g4_address_from(at), last);
	for (size_t i = 0; i < scan->count && rc == 0; i++)
		if (scan->images[i].log_page != UINT64_MAX) /* else a revoke: file data may be there */
			rc = check_page_age(scan, g4_address_from(scan->images[i].address), last);
	return rc;
}

/* The tail without a header: `code` where the log tells nothing either, unless there is nothing to be told. */
static int search_tail(struct scan *scan, struct g4_replay *out, int code)
{
	struct found *found = NULL;
	size_t count = 0, first = 0;
	uint64_t highest = scan->home, lowest = UINT64_MAX;
	int rc = find_records(scan, &found, &count, &highest, &lowest);

	if (rc == 0 && count == 0) {
		/* the log starts anew, with numbers that nothing had before */
		out->next_sequence = highest + 1;
		out->head_page = 0;
		/* a header that was torn before anything was committed is no damage; one that is gone may have had records */
		return scan->clean ? 0 : scan->torn && scan->home != 0 ? check_age(scan, scan->home) : code;
	}
	if (rc == 0) {
		qsort(found, count, sizeof(struct found), compare_found);
		for (uint64_t total = found[0].pages; first + 1 < count; first++) {
			const struct found *older = &found[first + 1], *newer = &found[first];
			total += older->pages;
			if (older->sequence + 1 != newer->sequence || total > scan->log_pages ||
			    (older->page + older->pages) % scan->log_pages != newer->page)
				break;
		}
		out->next_sequence = found[first].sequence;
		out->head_page = found[first].page;
		/*
		 * Whether a record that is not whole was home nobody can tell. What overwrites the oldest one begins with its
		 * first page, and the newest may be torn: any other is damage, if the superblock tells where the row begins.
		 */
		if (!scan->up_to_gap &&
		    (highest > found[0].sequence + 1 || (scan->home != 0 && lowest < out->next_sequence)))
			rc = -G4_E_JOURNAL_GAP;
	}
	free(found);
	return rc;
}

static bool is_torn(const struct scan *scan, const struct g4_journal_header *header)
{
	for (size_t i = 0; i < sizeof(header->reserved); i++)
		if (header->reserved[i] != 0)
			return false;
	return header->header.magic == G4_BLOCK_MAGIC && header->header.type == G4_BLOCK_JOURNAL_HEADER &&
	       header->header.fs_tag == scan->meta->fs_tag && header->header.address == g4_address_stored(scan->area) &&
	       header->tail_sequence > scan->home && header->tail_page < scan->log_pages;
}

/* The header as one copy has it, in the buffer. */
static int read_header(struct scan *scan, uint32_t copy)
{
	const struct g4_journal_header *header = (const struct g4_journal_header *)scan->buffer;
	int rc = g4_space_read_copy(scan->wg, scan->meta->space, copy, scan->area, scan->buffer, G4_PAGE_BYTES);

	if (rc < 0)
		return rc;
	rc = g4_block_verify(header, G4_BLOCK_JOURNAL_HEADER, scan->area, scan->meta->fs_tag);
	scan->torn = scan->torn || (rc == -G4_E_CHECKSUM && is_torn(scan, header));
	if (rc == 0 && header->tail_page >= scan->log_pages)
		rc = -G4_E_CORRUPT_JOURNAL;
	return rc;
}

/*
 * Where the header says that the oldest record that may not be home begins, and its sequence. Of several copies the newest counts: the
 * others are the one before it, for the tail has moved only when all before it was home in all copies.
 */
static int read_tail(struct scan *scan, struct g4_replay *out)
{
	const struct g4_journal_header *header;
	const uint32_t copies = g4_space_copies(scan->meta->space);
	int rc = grow_buffer(scan, 1), first = -G4_E_NOENT;
	bool found = false;

	scan->torn = false;
	for (uint32_t copy = 0; copy < copies && rc == 0; copy++) {
		const int one = read_header(scan, copy);
		header = (const struct g4_journal_header *)scan->buffer;
		if (one == 0 && (!found || header->tail_sequence > out->next_sequence)) {
			out->next_sequence = header->tail_sequence;
			out->head_page = header->tail_page;
			found = true;
		} else if (one < 0 && first == -G4_E_NOENT) {
			first = one;
		}
	}
	if (found)
		scan->torn = false;
	return rc < 0 || found ? rc : first;
}

/* The records from the tail on; of those that may not be home it collects the images. *newest: where the last starts. */
static int walk(struct scan *scan, struct g4_replay *out, uint64_t *newest)
{
	for (scan->walked = 0; scan->walked < scan->log_pages;) {
		int64_t pages = read_record(scan, out->head_page, out->next_sequence);
		int rc = 0;
		if (pages < 0)
			return (int)pages;
		if (pages == 0 || scan->walked + (uint64_t)pages > scan->log_pages)
			break;
		if (out->next_sequence > scan->home) {
			rc = collect_tags(scan, out->head_page, out->next_sequence);
			*newest = out->head_page;
			out->records++;
		}
		if (rc < 0)
			return rc;
		scan->walked += (uint64_t)pages;
		out->head_page = (out->head_page + (uint64_t)pages) % scan->log_pages;
		out->next_sequence++;
	}
	return 0;
}

/* The records that are to be replayed, wherever the header, if there is one, says that they begin. */
static int collect(struct scan *scan, struct g4_replay *out, uint64_t *newest)
{
	int rc = read_tail(scan, out);

	if (rc == 0)
		rc = walk(scan, out, newest);
	if (rc == 0 && out->next_sequence <= scan->home)
		rc = -G4_E_JOURNAL_OLD; /* the header: the log is known to go on */
	else if (rc == 0 && !scan->clean && !scan->up_to_gap)
		rc = check_end(scan, out->head_page, out->next_sequence);
	if (rc != -G4_E_CHECKSUM && rc != -G4_E_JOURNAL_OLD)
		return rc;
	rc = search_tail(scan, out, rc);
	if (rc == 0)
		rc = walk(scan, out, newest);
	return rc == 0 && out->records > 0 ? check_age(scan, out->next_sequence - 1) : rc;
}

static int run(struct scan *scan, bool write, struct g4_replay *out)
{
	uint64_t newest = 0; /* where the newest record starts */
	int rc = collect(scan, out, &newest);

	if (rc == 0 && out->records > 0) {
		rc = data_arrived(scan);
		if (rc == 0)
			drop_newest(scan, out, newest);
		else if (rc > 0 && scan->judge)
			rc = tell_data(scan, out);
	}
	if (rc < 0)
		return rc;
	if (out->records == 0)
		return 0;
	if (!write)
		return tell_images(scan, out);
	/* a record that was in one copy alone is in all of them before a page of it goes home: then no loss of a disk leaves half of it */
	rc = g4_space_copies(scan->meta->space) > 1 ? g4_space_flush(scan->wg, scan->meta->space) : 0;
	if (rc == 0)
		rc = write_home(scan, out);
	return rc < 0 ? rc : move_tail(scan, out);
}

int g4_journal_replay(struct g4_wg *wg, struct g4_meta *meta, const struct g4_superblock *sb, uint32_t flags,
		      struct g4_replay *out)
{
	struct scan scan = {
		.wg = wg,
		.meta = meta,
		.area = g4_layout_journal(&meta->layout),
		.log_pages = g4_layout_log_pages(&meta->layout),
		.home = g4_superblock_home(sb),
		.clean = (sb->state & G4_STATE_CLEAN) != 0,
		.up_to_gap = (flags & G4_REPLAY_UP_TO_GAP) != 0,
		.write = (flags & G4_REPLAY_WRITE) != 0,
		.judge = (flags & G4_REPLAY_JUDGE) != 0,
	};
	int rc;

	memset(out, 0, sizeof(*out));
	rc = run(&scan, (flags & G4_REPLAY_WRITE) != 0, out);
	free(scan.images);
	free(scan.buffer);
	return rc;
}

int g4_journal_skip(struct g4_wg *wg, struct g4_meta *meta, struct g4_replay *replay)
{
	struct scan scan = {.wg = wg, .meta = meta, .area = g4_layout_journal(&meta->layout)};
	int rc = grow_buffer(&scan, 1);

	replay->next_sequence++;
	if (rc == 0)
		rc = move_tail(&scan, replay);
	free(scan.buffer);
	return rc;
}
