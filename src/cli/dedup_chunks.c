/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record a chunk: a key made of its BLAKE3, the pages of the device that it lies in, and where it is in which file. All records of a
 * range of keys are in memory at a time; where there are more than fit, it becomes smaller, and the rest is for another pass over the
 * contents. Sorted, chunks of the same contents lie in a row, in those the ones that begin at the same place of a page, and in those the
 * ones that are one copy by the pages that they lie in.
 *
 * Of each place of a page the first copy stays, and the others become jobs. Jobs that continue each other, in both files, are a row of
 * bytes; the pages in it are the same, and those at its ends are if their sums say so, or what is in them.
 */
#include "cli/dedup_chunks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/units_host.h"
#include "cli/attach.h"
#include "cli/dedup_share.h"
#include "shredder/shredder.h"

#define BUFFER_PAGES 1024u /* read at once; more than the longest chunk */
#define SUMS_AT_ONCE 512u
#define PLACES 4096u /* of a page, where a chunk may begin */

struct record {
	uint64_t key;	   /* of a job: where in the file `from` the same bytes are */
	uint64_t position; /* a hash of the addresses of the pages that it lies in */
	uint64_t offset;
	uint32_t file, length;
	uint32_t from;
	uint32_t counts; /* of a job: it is a copy of its own; else its pages are another job's, too */
};

struct cutter {
	struct g4_dedup *dedup;
	shredder *shredder;
	struct g4_dedup_handles *handles;
	/* bytes of a file that follow each other, from `begin` on, and the addresses of the pages that they are in */
	uint8_t *buffer;
	uint64_t *addresses;
	uint64_t begin, bytes;
	uint32_t file;
	/* a pass: records of keys from low to high */
	uint64_t low, high;
	struct record *records;
	uint64_t count, room;
	/* of a key of which more records came than fit: those that stay, by place */
	bool keeps;
	uint64_t kept_key;
	struct record *stays; /* PLACES; length 0: none */
	uint32_t *places;     /* which of them are not, in any order */
	uint32_t places_count;
	struct gpu4fs_page_sum *listed, *to_sums, *from_sums;
	uint8_t *pages;	   /* two, to compare */
	uint8_t *contents; /* of `listed`, as they were read */
};

/* ------------------------------------------------------------------ what is the same */

static int compare64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_place(const void *a, const void *b)
{
	const struct record *first = a, *second = b;
	const int files = compare64(first->file, second->file);

	return files != 0 ? files : compare64(first->offset, second->offset);
}

static int by_contents(const void *a, const void *b)
{
	const struct record *first = a, *second = b;
	int order = compare64(first->key, second->key);

	if (order == 0)
		order = compare64(first->offset % PLACES, second->offset % PLACES);
	if (order == 0)
		order = compare64(first->position, second->position);
	return order != 0 ? order : by_place(a, b);
}

/* Chunks of one key that begin at one place of a page: counts them, and makes jobs. Returns how many. */
static uint64_t plan_place(struct cutter *cutter, const struct record *group, uint64_t count, bool alone,
			   struct record *jobs)
{
	struct g4_dedup_chunks *chunks = &cutter->dedup->chunks;
	struct record *stays = &cutter->stays[group->offset % PLACES];
	uint64_t made = 0;

	if (stays->length == 0) {
		cutter->places[cutter->places_count++] = (uint32_t)(group->offset % PLACES);
		*stays = *group;
		for (uint64_t i = 1; i < count; i++)
			if (by_place(&group[i], stays) < 0)
				*stays = group[i];
		if (!alone) {
			chunks->duplicate_bytes += stays->length;
			chunks->unaligned_bytes += stays->length;
		}
	}
	for (uint64_t i = 0; i < count; i++) {
		const struct record record = group[i];
		const bool counts = i == 0 || record.position != group[i - 1].position;
		if (record.position == stays->position)
			continue;
		if (counts)
			chunks->duplicate_bytes += record.length;
		if (!counts && !cutter->dedup->share)
			continue;
		jobs[made] = record;
		jobs[made].key = stays->offset;
		jobs[made].from = stays->file;
		jobs[made++].counts = counts;
	}
	return made;
}

/* Chunks of one key, sorted. */
static uint64_t plan_key(struct cutter *cutter, const struct record *group, uint64_t count, struct record *jobs)
{
	uint64_t made = 0;
	bool alone = false;

	if (!cutter->keeps || cutter->kept_key != group->key) {
		for (; cutter->places_count > 0; cutter->places_count--)
			cutter->stays[cutter->places[cutter->places_count - 1]].length = 0;
		cutter->kept_key = group->key;
		cutter->keeps = alone = true;
	}
	for (uint64_t i = 0, n; i < count; i += n) {
		for (n = 1; i + n < count && group[i + n].offset % PLACES == group[i].offset % PLACES; n++)
			;
		made += plan_place(cutter, &group[i], n, alone, &jobs[made]);
		alone = false;
	}
	return made;
}

/* ------------------------------------------------------------------ rows */

/* Bytes of an open file, zeros behind its end. */
static int read_all(const struct g4_dedup_handle *handle, uint64_t offset, uint8_t *to, uint64_t bytes)
{
	for (uint64_t done = 0; done < bytes;) {
		const int64_t got = g4_dedup_read(handle, offset + done, to + done, bytes - done);
		if (got < 0)
			return (int)got;
		if (got == 0)
			memset(to + done, 0, bytes - done);
		done += got == 0 ? bytes - done : (uint64_t)got;
	}
	return 0;
}

/* False: it can not be read. */
static bool read_page(struct cutter *cutter, uint32_t file, uint64_t offset, uint8_t *to)
{
	struct g4_dedup_handle *handle;

	return g4_dedup_handles_get(cutter->dedup, cutter->handles, file, false, &handle) == 0 &&
	       read_all(handle, offset, to, G4_DEDUP_PAGE_BYTES) == 0;
}

/* Whether two pages are the same, by their sums, or by what is in them. */
static bool same_pages(struct cutter *cutter, uint32_t file, const struct gpu4fs_page_sum *to, uint32_t from_file,
		       const struct gpu4fs_page_sum *from)
{
	uint8_t *a = cutter->pages, *b = a + G4_DEDUP_PAGE_BYTES;

	if (g4_dedup_has_sum(to) && to->algorithm == from->algorithm)
		return memcmp(to->sum, from->sum, sizeof(to->sum)) == 0;
	return read_page(cutter, file, to->offset, a) && read_page(cutter, from_file, from->offset, b) &&
	       memcmp(a, b, G4_DEDUP_PAGE_BYTES) == 0;
}

/* What is known of so many pages of a file, at most SUMS_AT_ONCE; address 0: it has none there. */
static int get_sums(struct cutter *cutter, uint32_t file, uint64_t page, uint32_t pages, struct gpu4fs_page_sum *out)
{
	static const struct gpu4fs_page_sum none;
	struct gpu4fs_page_sum some[64];
	struct g4_dedup_handle *handle;
	int64_t rc = g4_dedup_handles_get(cutter->dedup, cutter->handles, file, false, &handle);
	uint64_t next = page;

	for (uint32_t k = 0; k < pages; k++)
		out[k] = none;
	while (rc >= 0 && next < page + pages) {
		rc = g4_dedup_sums(handle, (int64_t)(next * G4_DEDUP_PAGE_BYTES), some, 64);
		if (rc <= 0)
			break;
		for (int64_t i = 0; i < rc && some[i].offset / G4_DEDUP_PAGE_BYTES < page + pages; i++)
			out[some[i].offset / G4_DEDUP_PAGE_BYTES - page] = some[i];
		next = some[rc - 1].offset / G4_DEDUP_PAGE_BYTES + 1;
	}
	return g4_dedup_ends_all(rc) ? (int)rc : 0;
}

/* Bytes of a file that are the same at another place, which begins at the same place of a page. */
struct stretch {
	uint32_t file, from;
	uint64_t offset, from_offset, bytes;
	bool counts;
};

/* Of the page of the file whose sum this is: counts what the stretch has of it. True: it can be shared. */
static bool judge(struct cutter *cutter, const struct stretch *stretch, uint64_t page, const struct gpu4fs_page_sum *to,
		  const struct gpu4fs_page_sum *from)
{
	struct g4_dedup_chunks *chunks = &cutter->dedup->chunks;
	const uint64_t begin = g4_max64(page * G4_DEDUP_PAGE_BYTES, stretch->offset),
		       end = g4_min64((page + 1) * G4_DEDUP_PAGE_BYTES, stretch->offset + stretch->bytes),
		       bytes = stretch->counts ? end - begin : 0;
	const bool known = to->address != 0 && from->address != 0;

	if (known && to->address == from->address) {
		chunks->duplicate_bytes -= bytes;
		return false;
	}
	const bool same = known && (end - begin == G4_DEDUP_PAGE_BYTES ||
				    same_pages(cutter, stretch->file, to, stretch->from, from));
	*(same ? &chunks->aligned_bytes : &chunks->partial_bytes) += bytes;
	return same;
}

/* Pages of one file are not shared with a range of it that they are in. */
static uint32_t most_pages(const struct g4_dedup_row *row)
{
	const uint32_t distance =
		row->from_page > row->to_page ? row->from_page - row->to_page : row->to_page - row->from_page;

	return row->from_file == row->to_file ? distance : UINT32_MAX;
}

static int share(struct cutter *cutter, struct g4_dedup_row *row)
{
	int rc = cutter->dedup->share ? g4_dedup_share(cutter->dedup, cutter->handles, row) : 0;

	if (rc == 0) /* the sums of the next stretch tell what was shared */
		rc = g4_dedup_flush(cutter->dedup);
	row->pages = 0;
	return rc;
}

static int share_stretch(struct cutter *cutter, const struct stretch *stretch)
{
	const uint64_t first = stretch->offset / G4_DEDUP_PAGE_BYTES, from = stretch->from_offset / G4_DEDUP_PAGE_BYTES,
		       end = (stretch->offset + stretch->bytes - 1) / G4_DEDUP_PAGE_BYTES + 1;
	int rc = 0;

	for (uint64_t page = first; page < end && rc == 0; page += SUMS_AT_ONCE) {
		const uint32_t pages = (uint32_t)g4_min64(end - page, SUMS_AT_ONCE);
		struct g4_dedup_row row = {.from_file = stretch->from, .to_file = stretch->file};
		rc = g4_cli_interrupted() ? -EINTR : get_sums(cutter, stretch->file, page, pages, cutter->to_sums);
		if (rc == 0)
			rc = get_sums(cutter, stretch->from, from + (page - first), pages, cutter->from_sums);
		for (uint32_t k = 0; k < pages && rc == 0; k++) {
			const bool more = judge(cutter, stretch, page + k, &cutter->to_sums[k], &cutter->from_sums[k]);
			if (!more || (row.pages > 0 && row.pages == most_pages(&row)))
				rc = share(cutter, &row);
			if (more && row.pages++ == 0) {
				row.to_page = (uint32_t)(page + k);
				row.from_page = (uint32_t)(from + (page - first) + k);
			}
		}
		if (rc == 0)
			rc = share(cutter, &row);
	}
	return rc;
}

/* All records, which are used up. */
static int plan_all(struct cutter *cutter)
{
	struct record *jobs = cutter->records;
	uint64_t made = 0;
	int rc = 0;

	if (cutter->count > 0)
		qsort(cutter->records, cutter->count, sizeof(*jobs), by_contents);
	for (uint64_t i = 0, n; i < cutter->count; i += n) {
		for (n = 1; i + n < cutter->count && jobs[i + n].key == jobs[i].key; n++)
			;
		made += plan_key(cutter, &jobs[i], n, &jobs[made]);
	}
	cutter->count = 0;
	if (made > 0)
		qsort(jobs, made, sizeof(*jobs), by_place);
	for (uint64_t i = 0, n; i < made && rc == 0; i += n) {
		struct stretch stretch = {jobs[i].file, jobs[i].from,	jobs[i].offset,
					  jobs[i].key,	jobs[i].length, jobs[i].counts != 0};
		for (n = 1; i + n < made && jobs[i + n].file == stretch.file && jobs[i + n].from == stretch.from &&
			    (jobs[i + n].counts != 0) == stretch.counts &&
			    jobs[i + n].offset == stretch.offset + stretch.bytes &&
			    jobs[i + n].key == stretch.from_offset + stretch.bytes;
		     n++)
			stretch.bytes += jobs[i + n].length;
		rc = share_stretch(cutter, &stretch);
	}
	return rc;
}

/* ------------------------------------------------------------------ chunks */

/*
 * Room for another record: fewer keys, or of one key what is there is dealt with at once. The middle one of those that are there is the last
 * key then, so that one key with most of the records does not take a pass for each bit of it.
 */
static int make_room(struct cutter *cutter)
{
	while (cutter->count == cutter->room) {
		uint64_t kept = cutter->count / 2;
		if (cutter->low == cutter->high)
			return plan_all(cutter);
		qsort(cutter->records, cutter->count, sizeof(*cutter->records), by_contents);
		while (kept > 0 && cutter->records[kept].key == cutter->high)
			kept--;
		cutter->high = g4_min64(cutter->records[kept].key, cutter->high - 1);
		for (kept = 0; kept < cutter->count && cutter->records[kept].key <= cutter->high; kept++)
			;
		cutter->count = kept;
	}
	return 0;
}

static uint64_t position_of(const struct cutter *cutter, uint64_t offset, uint64_t length)
{
	const uint64_t first = cutter->begin / G4_DEDUP_PAGE_BYTES;
	uint64_t hash = 0;

	for (uint64_t page = offset / G4_DEDUP_PAGE_BYTES; page * G4_DEDUP_PAGE_BYTES < offset + length; page++) {
		hash = (hash ^ cutter->addresses[page - first]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	return hash;
}

static int take_chunk(struct cutter *cutter, const struct shredder_chunk *chunk)
{
	struct record record = {
		.offset = cutter->begin + chunk->offset, .file = cutter->file, .length = (uint32_t)chunk->length};
	int rc = 0;

	memcpy(&record.key, chunk->digest, sizeof(record.key));
	if (cutter->low == 0) {
		cutter->dedup->chunks.count++;
		cutter->dedup->chunks.bytes += chunk->length;
	}
	if (record.key < cutter->low || record.key > cutter->high)
		return 0;
	record.position = position_of(cutter, record.offset, chunk->length);
	if (cutter->count == cutter->room)
		rc = make_room(cutter);
	if (rc == 0 && record.key <= cutter->high)
		cutter->records[cutter->count++] = record;
	return rc;
}

static int of_shredder(int code)
{
	return code == SHREDDER_E_NOMEM ? -ENOMEM : -EIO;
}

/*
 * What is in the buffer. Unless it ends there, what it ends with may be a part of a chunk, and stays for the next time: where a chunk is
 * cut depends on its own bytes alone.
 */
static int cut(struct cutter *cutter, bool ends)
{
	struct shredder_chunk chunk;
	uint64_t done = 0;
	int rc, result = 0;

	if (cutter->bytes == 0)
		return 0;
	rc = shredder_begin_buffer(cutter->shredder, cutter->buffer, cutter->bytes);
	while (rc >= 0 && result == 0 && (rc = shredder_next(cutter->shredder, &chunk)) == 1) {
		if (!ends && chunk.offset + chunk.length == cutter->bytes)
			continue;
		result = take_chunk(cutter, &chunk);
		done = chunk.offset + chunk.length;
	}
	shredder_abandon(cutter->shredder);
	if (rc < 0)
		return of_shredder(rc);
	const uint64_t first = cutter->begin / G4_DEDUP_PAGE_BYTES,
		       moved = (cutter->begin + done) / G4_DEDUP_PAGE_BYTES - first,
		       last = (cutter->begin + cutter->bytes + G4_DEDUP_PAGE_BYTES - 1) / G4_DEDUP_PAGE_BYTES - first;
	memmove(cutter->buffer, cutter->buffer + done, cutter->bytes - done);
	memmove(cutter->addresses, cutter->addresses + moved, (last - moved) * sizeof(*cutter->addresses));
	cutter->begin += done;
	cutter->bytes -= done;
	return result;
}

/* Pages that follow each other in the file, behind those of the buffer or, where others lie between, instead of them. */
static int add_pages(struct cutter *cutter, const struct gpu4fs_page_sum *pages, const uint8_t *contents,
		     uint32_t count)
{
	const uint64_t bytes = count * G4_DEDUP_PAGE_BYTES;
	const bool follows = pages->offset == cutter->begin + cutter->bytes;
	int rc = 0;

	if (!follows || cutter->bytes + bytes > BUFFER_PAGES * G4_DEDUP_PAGE_BYTES)
		rc = g4_cli_interrupted() ? -EINTR : cut(cutter, !follows);
	if (!follows)
		cutter->begin = pages->offset;
	const uint64_t at = pages->offset / G4_DEDUP_PAGE_BYTES - cutter->begin / G4_DEDUP_PAGE_BYTES;
	if (rc < 0)
		return rc;
	memcpy(cutter->buffer + cutter->bytes, contents, bytes);
	for (uint32_t i = 0; i < count; i++)
		cutter->addresses[at + i] = pages[i].address;
	cutter->bytes += bytes;
	return 0;
}

/* Pages of zeros in a row. Those that have sums were found by them before. */
static int take_zeros(struct cutter *cutter, const struct gpu4fs_page_sum *pages, uint32_t count)
{
	struct g4_dedup *dedup = cutter->dedup;
	int rc = 0;

	for (uint32_t i = 0, n; i < count && rc == 0 && cutter->low == 0; i += n) {
		const bool known = g4_dedup_has_sum(&pages[i]);
		const uint32_t page = (uint32_t)(pages[i].offset / G4_DEDUP_PAGE_BYTES);
		for (n = 1; i + n < count && g4_dedup_has_sum(&pages[i + n]) == known; n++)
			;
		const struct g4_dedup_row row = {G4_DEDUP_ZEROS, page, cutter->file, page, n};
		dedup->zeros += known ? 0 : n;
		if (!known && dedup->share)
			rc = g4_dedup_share(dedup, cutter->handles, &row);
	}
	return rc;
}

static bool is_zeros(const uint8_t *page)
{
	return page[0] == 0 && memcmp(page, page + 1, G4_DEDUP_PAGE_BYTES - 1) == 0;
}

/* Stored pages that follow each other. Behind the end of a file are zeros, as in its last page. */
static int take_pages(struct cutter *cutter, const struct g4_dedup_handle *handle, const struct gpu4fs_page_sum *pages,
		      uint32_t count)
{
	const uint64_t bytes = count * G4_DEDUP_PAGE_BYTES;
	int rc = g4_dedup_yield(cutter->dedup);

	if (rc == 0)
		rc = read_all(handle, pages->offset, cutter->contents, bytes);
	for (uint32_t i = 0, n; i < count && rc == 0; i += n) {
		const uint8_t *contents = cutter->contents + i * G4_DEDUP_PAGE_BYTES;
		const bool zeros = is_zeros(contents);
		for (n = 1; i + n < count && is_zeros(contents + n * G4_DEDUP_PAGE_BYTES) == zeros; n++)
			;
		rc = zeros ? take_zeros(cutter, &pages[i], n) : add_pages(cutter, &pages[i], contents, n);
	}
	return rc;
}

/* All stored pages of an open file. Holes end what is cut, and so do pages of zeros, which may become holes. */
static int take_contents(struct cutter *cutter, const struct g4_dedup_handle *handle)
{
	int64_t offset = 0, count = 0;
	int rc = 0;

	cutter->bytes = 0;
	while (rc == 0 && (count = g4_dedup_sums(handle, offset, cutter->listed, SUMS_AT_ONCE)) > 0) {
		const struct gpu4fs_page_sum *pages = cutter->listed;
		for (uint32_t i = 0, n; i < (uint32_t)count && rc == 0; i += n) {
			for (n = 1; i + n < (uint32_t)count &&
				    pages[i + n].offset == pages[i].offset + n * G4_DEDUP_PAGE_BYTES;
			     n++)
				;
			rc = take_pages(cutter, handle, &pages[i], n);
		}
		offset = (int64_t)(pages[count - 1].offset + G4_DEDUP_PAGE_BYTES);
	}
	if (rc == 0 && count == 0)
		rc = cut(cutter, true);
	return rc < 0 ? rc : (int)count;
}

/* ------------------------------------------------------------------ passes */

/* 0, or what ends the pass. */
static int take_file(struct cutter *cutter)
{
	struct g4_dedup *dedup = cutter->dedup;
	const struct g4_dedup_file *file = &dedup->file_list[cutter->file];
	struct g4_dedup_handle handle;
	int rc = g4_dedup_open(&dedup->place, file->path, false, &handle);

	if (rc == 0) {
		rc = take_contents(cutter, &handle);
		g4_dedup_close(&handle);
	}
	if (rc < 0 && cutter->low == 0 && !g4_dedup_ends_all(rc) && !g4_dedup_has_gone(rc)) {
		dedup->chunks.left_out++;
		g4_dedup_tell(file->path, rc);
	}
	return g4_dedup_ends_all(rc) ? rc : 0;
}

static void show(struct cutter *cutter)
{
	struct g4_dedup *dedup = cutter->dedup;
	char size[24], text[128];

	if (!g4_progress_wanted(&dedup->progress))
		return;
	g4_format_size(dedup->chunks.bytes, size, sizeof(size));
	snprintf(text, sizeof(text), "chunks, pass %llu: file %llu of %llu, %s cut",
		 (unsigned long long)dedup->chunks.passes + 1, (unsigned long long)cutter->file + 1,
		 (unsigned long long)dedup->files, size);
	g4_progress_text(&dedup->progress, text);
}

static int take_all(struct cutter *cutter)
{
	int rc = 0;

	for (cutter->low = 0;; cutter->low = cutter->high + 1) {
		cutter->high = UINT64_MAX;
		for (uint64_t i = 0; i < cutter->dedup->files && rc == 0; i++) {
			cutter->file = (uint32_t)i;
			rc = g4_cli_interrupted() ? -EINTR : take_file(cutter);
			show(cutter);
		}
		cutter->dedup->chunks.passes++;
		if (rc == 0)
			rc = plan_all(cutter);
		if (rc < 0 || cutter->high == UINT64_MAX)
			return rc;
	}
}

static int allocate(struct cutter *cutter)
{
	const uint64_t stays_bytes = PLACES * (sizeof(*cutter->stays) + sizeof(*cutter->places));

	cutter->handles = g4_dedup_handles_new();
	cutter->room = (cutter->dedup->memory_bytes - stays_bytes) /
		       (2 * sizeof(*cutter->records)); /* qsort() may take as much again */
	cutter->records = malloc(cutter->room * sizeof(*cutter->records));
	cutter->stays = calloc(PLACES, sizeof(*cutter->stays));
	cutter->places = malloc(PLACES * sizeof(*cutter->places));
	cutter->buffer = malloc((BUFFER_PAGES + 2 + SUMS_AT_ONCE) * G4_DEDUP_PAGE_BYTES);
	cutter->addresses = malloc((BUFFER_PAGES + 1) * sizeof(*cutter->addresses));
	cutter->listed = malloc(3 * SUMS_AT_ONCE * sizeof(*cutter->listed));
	if (cutter->handles == NULL || cutter->records == NULL || cutter->stays == NULL || cutter->places == NULL ||
	    cutter->buffer == NULL || cutter->addresses == NULL || cutter->listed == NULL)
		return -ENOMEM;
	cutter->pages = cutter->buffer + BUFFER_PAGES * G4_DEDUP_PAGE_BYTES;
	cutter->contents = cutter->pages + 2 * G4_DEDUP_PAGE_BYTES;
	cutter->to_sums = cutter->listed + SUMS_AT_ONCE;
	cutter->from_sums = cutter->to_sums + SUMS_AT_ONCE;
	return 0;
}

static void release(struct cutter *cutter)
{
	g4_dedup_handles_free(cutter->handles);
	free(cutter->records);
	free(cutter->stays);
	free(cutter->places);
	free(cutter->buffer);
	free(cutter->addresses);
	free(cutter->listed);
}

int g4_dedup_chunks(struct g4_dedup *dedup)
{
	const struct shredder_options options = {
		.size = sizeof(options), .engine = "cpu", .threads = 1, .buffers = 2, .buffer_bytes = G4_MIB};
	struct cutter cutter = {.dedup = dedup};
	const uint64_t before = dedup->shared;
	int rc = allocate(&cutter);

	if (rc == 0) {
		const int code = shredder_open(&options, &cutter.shredder);
		rc = code < 0 ? of_shredder(code) : take_all(&cutter);
		shredder_close(cutter.shredder);
	}
	dedup->chunks.shared = dedup->shared - before;
	release(&cutter);
	return rc;
}
