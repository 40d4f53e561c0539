/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows whose columns do not fit together, and what of them is wrong. The set has no sums, so it goes by what there is, in this order:
 *
 *   1. A column that can not be read is wrong.
 *   2. With several parities: parities are wrong that are no more than half of them, and if there is one column of data of which all
 *      parities make the same other contents, that is wrong, unless somebody can tell (3.), who is asked first then.
 *   3. A page of data that is no metadata in its place, and is if parity makes it, is wrong. Nothing else looks like that. The same is true
 *      of a page of which whoever asks has told the print (G4_ORDER_ROWS_TELL). If all pages of data are metadata in their places, or have
 *      the print that was told, or are nobody's, parity is wrong.
 *   4. Of a row that a crash has cut short (set_cut_host.c asks whether it was, where somebody knows), parity is wrong. So it is of a row whose parity was never made; what of its data can not be
 *      read is then what the first parities make of it, and the others follow. Of any other row it is not known, and nothing of it is
 *      written: what parity has may be the last good version of a page, as of a file without a name, or of one that has rotted since it
 *      was read.
 *
 * The map: which regions have only rows that fit together. What a disk had before the set was made does not, and is no rot: a region that
 * nobody has written to yet gets its parity, all of it, before the first row there is written. From then on a row that does not fit is one
 * that has rotted.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "base/log_host.h"
#include "space/sealed.h"
#include "space/set_drain_host.h"
#include "space/space.h"

enum reason { CUT_SHORT, NEVER_MADE, ROTTED };

struct judged { /* a page of each column */
	struct g4_wg *wg;
	struct g4_set *set;
	const struct g4_row *row;
	enum reason reason;
	uint64_t unreadable; /* have[] has what the others make of them */
	uint8_t *have[G4_ROW_COLUMNS];
	uint8_t *made[G4_ROW_COLUMNS]; /* room */
};

static uint64_t differing(const struct judged *j, uint64_t columns)
{
	uint64_t differ = 0;

	for (uint32_t c = 0; c < j->row->chunk->columns; c++)
		if ((columns >> c & 1) && memcmp(j->have[c], j->made[c], G4_PAGE_BYTES) != 0)
			differ |= UINT64_C(1) << c;
	return differ;
}

static uint64_t parities(const struct g4_chunk *chunk)
{
	return g4_row_mask(chunk->columns) & ~g4_row_mask(g4_chunk_data_columns(chunk));
}

/* Parities that are not those of the data; what they should be is in made[]. */
static uint64_t wrong_parities(const struct judged *j)
{
	const struct g4_chunk *chunk = j->row->chunk;
	uint8_t *columns[G4_ROW_COLUMNS];

	for (uint32_t c = 0; c < chunk->columns; c++)
		columns[c] = c < g4_chunk_data_columns(chunk) ? j->have[c] : j->made[c];
	g4_row_encode(j->wg, chunk, columns, G4_PAGE_BYTES);
	return differing(j, parities(chunk));
}

/* A column of data as one parity makes it, in made[]. */
static void make_by(const struct judged *j, uint32_t column, uint32_t parity)
{
	const struct g4_chunk *chunk = j->row->chunk;
	const uint64_t by = UINT64_C(1) << (g4_chunk_data_columns(chunk) + parity);
	const uint64_t lost = UINT64_C(1) << column | (parities(chunk) & ~by);
	uint8_t *columns[G4_ROW_COLUMNS];

	for (uint32_t c = 0; c < chunk->columns; c++)
		columns[c] = c == column ? j->made[c] : (lost >> c & 1) ? NULL : j->have[c];
	g4_row_reconstruct(j->wg, chunk, lost, columns, G4_PAGE_BYTES);
}

/* Whether all parities make the same of a column, which is in made[] then. */
static bool all_make(const struct judged *j, uint32_t column)
{
	struct judged with = *j;

	make_by(j, column, 0);
	with.have[column] = j->made[column];
	with.made[column] = j->have[column];
	return wrong_parities(&with) == 0;
}

static uint64_t address_of(const struct judged *j, uint32_t column)
{
	const struct g4_row *row = j->row;
	const uint64_t at = row->stripe * g4_chunk_data_columns(row->chunk) + column;

	return row->chunk->address + at * row->chunk->stripe_bytes + row->within;
}

static bool is_metadata(const struct judged *j, uint32_t column, const uint8_t *page)
{
	uint64_t generation;

	memcpy(j->set->parity->kept, page, G4_PAGE_BYTES);
	return g4_block_is_whole(j->set->parity->kept, g4_address_from(address_of(j, column)), j->set->parity->tag,
				 &generation);
}

static int ascending(const void *a, const void *b)
{
	const struct g4_parity_asked *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* No more are noted: what was is in order. */
static void end_asking(struct g4_set_parity *p)
{
	if (p->asking)
		qsort(p->asked, p->asked_count, sizeof(*p->asked), ascending);
	p->asking = false;
}

/* Of a page that was asked for; NULL: it was not, or others may still be. */
static struct g4_parity_asked *asked_of(const struct g4_set_parity *p, uint64_t address)
{
	const struct g4_parity_asked key = {.address = address};

	return p->asking || p->asked_count == 0 ? NULL :
						  bsearch(&key, p->asked, p->asked_count, sizeof(key), ascending);
}

/* What was told of a column's page. */
static uint64_t told_of(const struct judged *j, uint32_t column)
{
	const struct g4_parity_asked *asked =
		j->reason == NEVER_MADE ? NULL : asked_of(j->set->parity, address_of(j, column));

	return g4_set_is_super(j->set, address_of(j, column)) ? G4_PAGE_IS_FREE :
	       asked					      ? asked->print :
								G4_PAGE_IS_UNKNOWN;
}

/* Whether one of the data is nobody's: then it may be that which has rotted. */
static bool has_free(const struct judged *j)
{
	uint32_t c = 0;

	while (c < g4_chunk_data_columns(j->row->chunk) && told_of(j, c) != G4_PAGE_IS_FREE)
		c++;
	return c < g4_chunk_data_columns(j->row->chunk);
}

/* Whether a page is what it is to be, and nothing else could be. */
static bool is_right(const struct judged *j, uint32_t column, const uint8_t *page)
{
	const uint64_t told = told_of(j, column);

	if (told > G4_PAGE_HAS_NO_SUM)
		return told == g4_space_page_print(address_of(j, column), page);
	return is_metadata(j, column, page);
}

/*
 * Whether what all parities make of a column is to be believed. It need not be the last good version: a page that rotted while it was
 * nobody's, and was written then, has parity that makes neither of both (parity changes by what was there before). So whoever can tell is asked.
 */
static bool is_believed(const struct judged *j, uint32_t column)
{
	const uint64_t told = told_of(j, column);

	return j->reason != ROTTED || !j->set->parity->asks || told == G4_PAGE_IS_FREE || told == G4_PAGE_HAS_NO_SUM ||
	       is_right(j, column, j->made[column]);
}

/* Whether a column is wrong by 2. or 3. of the above; as it should be in made[] then. */
static bool is_wrong(const struct judged *j, uint32_t column)
{
	const uint32_t parity = j->row->chunk->parity;

	if (is_right(j, column, j->have[column]))
		return false;
	if (parity > 1 && all_make(j, column))
		return is_believed(j, column);
	for (uint32_t p = 0; p < parity; p++) {
		make_by(j, column, p);
		if (is_right(j, column, j->made[column]))
			return true;
	}
	return false;
}

static void take(struct judged *j, uint64_t columns)
{
	for (uint32_t c = 0; c < j->row->chunk->columns; c++)
		if (columns >> c & 1)
			memcpy(j->have[c], j->made[c], G4_PAGE_BYTES);
}

/* Whether nothing of the data is wrong. */
static bool all_are_right(const struct judged *j)
{
	for (uint32_t c = 0; c < g4_chunk_data_columns(j->row->chunk); c++)
		if (told_of(j, c) != G4_PAGE_IS_FREE && !is_right(j, c, j->have[c]))
			return false;
	return true;
}

/* Nobody can tell what is wrong: whoever has a sum of the data could. */
static void ask_for(const struct judged *j)
{
	struct g4_set_parity *p = j->set->parity;
	const uint32_t count = g4_chunk_data_columns(j->row->chunk);

	if (!p->asking || j->reason == NEVER_MADE || p->asked_count + count > G4_PARITY_ASKED_MOST)
		return;
	for (uint32_t c = 0; c < count; c++)
		p->asked[p->asked_count++] = (struct g4_parity_asked){address_of(j, c), G4_PAGE_IS_UNKNOWN};
}

/* Whether these parities and no others are wrong: too few for anything else to explain it. */
static bool are_few(const struct judged *j, uint64_t parities)
{
	return 2 * __builtin_popcountll(parities) + __builtin_popcountll(j->unreadable) <= j->row->chunk->parity;
}

/*
 * The columns of a row that are wrong, which have what they should be in have[] then. *known: that is all of them; else nobody can tell,
 * and nothing is to be written. With columns that could not be read nothing but parities is found.
 */
static uint64_t judge(struct judged *j, bool *known)
{
	const struct g4_chunk *chunk = j->row->chunk;
	uint64_t wrong = 0, fits = wrong_parities(j);

	while (fits && !j->unreadable && __builtin_popcountll(wrong) < chunk->parity && !are_few(j, fits)) {
		uint32_t c = 0;
		while (c < g4_chunk_data_columns(chunk) && ((wrong >> c & 1) || !is_wrong(j, c)))
			c++;
		if (c == g4_chunk_data_columns(chunk))
			break;
		take(j, UINT64_C(1) << c);
		wrong |= UINT64_C(1) << c;
		fits = wrong_parities(j);
	}
	*known = !fits || are_few(j, fits) || all_are_right(j) || j->reason == NEVER_MADE ||
		 (j->reason == CUT_SHORT && !(j->unreadable & ~parities(chunk)));
	if (fits) {
		wrong_parities(j); /* made[] was used */
		take(j, fits);
	}
	return j->unreadable | wrong | fits;
}

/* ---- rows on disks ---- */

static uint64_t away(const struct g4_set *set, const struct g4_row *row)
{
	uint64_t columns = 0;

	for (uint32_t c = 0; c < row->chunk->columns; c++)
		columns |= (uint64_t)!g4_row_has(set, row, c) << c;
	return columns;
}

static void count_mended(struct g4_set *set, const struct g4_row *row, uint64_t columns)
{
	for (uint32_t c = 0; c < row->chunk->columns; c++)
		if (columns >> c & 1)
			g4_set_count_mended(set, g4_place_disk(g4_row_place(row, c)), row->bytes / G4_PAGE_BYTES);
}

/* A row of pages, into the memory of `columns`, with what the others make of those that can not be read. False: those are more than it has parity. */
static bool read_row(struct judged *j, uint8_t *const *columns)
{
	const struct g4_row *row = j->row;

	for (uint32_t c = 0; c < row->chunk->columns; c++) {
		j->have[c] = columns[c];
		j->made[c] = columns[c + G4_ROW_COLUMNS];
	}
	j->unreadable = g4_row_transfer(j->wg, j->set, row, G4_IO_READ, G4_IO_CLASS(G4_CLASS_BACKGROUND),
					g4_row_mask(row->chunk->columns), j->have);
	return !j->unreadable || g4_row_reconstruct(j->wg, row->chunk, j->unreadable, j->have, row->bytes);
}

/* One row of pages. 1: something is wrong still, or a negative code. */
static int check_row(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint8_t *const *columns,
		     bool write, enum reason reason)
{
	struct judged j = {.wg = wg, .set = set, .row = row, .reason = reason};
	bool known;

	if (!read_row(&j, columns)) {
		g4_log(G4_LOG_WARN, "more of a row than it has parity can not be read");
		return 1;
	}
	const uint64_t wrong = judge(&j, &known);
	if (!wrong)
		return 0;
	if (!known)
		ask_for(&j);
	if (!known || !write)
		return 1;
	const int rc = g4_row_write(wg, set, row, 0, wrong, j.have);
	if (rc == 0 && reason == ROTTED && (row->chunk->parity > 1 || !has_free(&j)))
		count_mended(set, row, wrong);
	return rc;
}

/*
 * Rows of which a disk is not there: what is lost of the data is what the first parities make of it, and so the others are. 1: it can not
 * be read.
 */
static int remake(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint8_t *const *columns,
		  uint64_t missing)
{
	const uint64_t data = g4_row_mask(g4_chunk_data_columns(row->chunk)), parity = parities(row->chunk) & ~missing;
	uint64_t differ = 0;

	if (!parity)
		return 0;
	if (g4_row_read(wg, set, row, data, 0, columns) < 0) {
		g4_log(G4_LOG_WARN, "parity of %llu bytes can not be made again", (unsigned long long)row->bytes);
		return 1;
	}
	g4_row_encode(wg, row->chunk, columns, row->bytes);
	const uint64_t failed = g4_row_transfer(wg, set, row, G4_IO_READ, G4_IO_CLASS(G4_CLASS_BACKGROUND), parity,
						columns + G4_ROW_COLUMNS);
	for (uint32_t c = 0; c < row->chunk->columns; c++)
		if ((parity >> c & 1) &&
		    ((failed >> c & 1) || memcmp(columns[c], columns[G4_ROW_COLUMNS + c], row->bytes) != 0))
			differ |= UINT64_C(1) << c;
	return differ ? g4_row_write(wg, set, row, 0, differ, columns) : 0;
}

/* Whether all columns can be read and fit together, of any number of rows. */
static bool fit(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint8_t *const *columns)
{
	const uint32_t k = g4_chunk_data_columns(rows->chunk), count = rows->chunk->columns;
	uint8_t *memory[G4_ROW_COLUMNS] = {NULL};
	bool same = true;

	for (uint32_t c = 0; c < count; c++)
		memory[c] = columns[c < k ? c : c + G4_ROW_COLUMNS];
	if (g4_row_transfer(wg, set, rows, G4_IO_READ, G4_IO_CLASS(G4_CLASS_BACKGROUND), g4_row_mask(count), memory))
		return false;
	g4_row_encode(wg, rows->chunk, columns, rows->bytes);
	for (uint32_t c = k; c < count && same; c++)
		same = memcmp(columns[c], memory[c], rows->bytes) == 0;
	return same;
}

static int check_pages(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, bool write, enum reason reason)
{
	uint8_t *const *columns = set->parity->columns;
	int rc = 0;

	if (fit(wg, set, rows, columns))
		return 0;
	for (uint64_t at = 0; at < rows->bytes && rc >= 0; at += G4_PAGE_BYTES) {
		const struct g4_row row = {rows->chunk, rows->stripe, rows->within + at, G4_PAGE_BYTES};
		const int one = check_row(wg, set, &row, columns, write, reason);
		rc = one < 0 || one > rc ? one : rc;
	}
	return rc;
}

static int complete(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
		    enum reason reason)
{
	bool left = false;
	int rc = g4_rows_settle(wg, set);

	for (uint64_t at = from, some; at < to && rc == 0; at += some) {
		const uint64_t within = at % chunk->stripe_bytes;
		some = g4_min64(to - at, chunk->stripe_bytes - within);
		const struct g4_row rows = {chunk, at / chunk->stripe_bytes, within, some};
		const uint64_t missing = away(set, &rows);
		const int one = missing ? remake(wg, set, &rows, set->parity->columns, missing) :
					  check_pages(wg, set, &rows, true, reason);
		left = left || one > 0;
		rc = one < 0 ? one : 0;
	}
	return rc == 0 && left ? 1 : rc;
}

/* ---- what a crash has cut short, by what is known of the data ---- */

/* What can be read of rows fits together with what is made of all else, of any number of them. */
static bool fit_as_made(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint8_t *const *columns)
{
	const uint32_t k = g4_chunk_data_columns(rows->chunk), count = rows->chunk->columns;
	uint8_t *memory[G4_ROW_COLUMNS] = {NULL};
	bool same = true;

	for (uint32_t c = 0; c < count; c++)
		memory[c] = columns[c < k ? c : c + G4_ROW_COLUMNS];
	const uint64_t lost = g4_row_transfer(wg, set, rows, G4_IO_READ, G4_IO_CLASS(G4_CLASS_BACKGROUND),
					      g4_row_mask(count), memory);
	if (lost && !g4_row_reconstruct(wg, rows->chunk, lost, memory, rows->bytes))
		return false;
	g4_row_encode(wg, rows->chunk, columns, rows->bytes);
	for (uint32_t c = k; c < count && same; c++)
		same = (lost >> c & 1) || memcmp(columns[c], memory[c], rows->bytes) == 0;
	return same;
}

/* The version of a column that has the print that was told of it, in made[]. have[] is as it was read. */
static bool find_told(const struct judged *j, uint32_t column)
{
	const struct g4_chunk *chunk = j->row->chunk;
	uint8_t *columns[G4_ROW_COLUMNS];
	bool found = false;
	uint64_t lost;

	for (uint32_t v = 0; !found && g4_row_lost_to(j->row, column, v, &lost); v++) {
		lost |= j->unreadable;
		for (uint32_t c = 0; c < chunk->columns; c++)
			columns[c] = c == column ? j->made[c] : (lost >> c & 1) ? NULL : j->have[c];
		found = g4_row_reconstruct(j->wg, chunk, lost, columns, G4_PAGE_BYTES) &&
			is_right(j, column, j->made[column]);
	}
	return found;
}

/* What is known of a row that does not fit: its columns of which nothing was told, and those that are wrong by a print. */
struct knowledge {
	uint64_t unknown, printed, wrong;
};

static struct knowledge known_of(const struct judged *j)
{
	struct knowledge known = {0, 0, 0};

	for (uint32_t c = 0; c < g4_chunk_data_columns(j->row->chunk); c++) {
		const uint64_t told = told_of(j, c), bit = UINT64_C(1) << c;
		known.unknown |= told == G4_PAGE_IS_UNKNOWN || told == G4_PAGE_HAS_NO_SUM ? bit : 0;
		known.printed |= told > G4_PAGE_HAS_NO_SUM ? bit : 0;
		known.wrong |= told > G4_PAGE_HAS_NO_SUM && !is_right(j, c, j->have[c]) ? bit : 0;
	}
	return known;
}

/*
 * One row of pages that may have been cut short. It was, if nobody has a page of it but those that were told: then these are what was told of them, whatever else there
 * is stays, and parity is of that. Of one that was not a page has rotted, and parity is right.
 */
static int settle_row(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint8_t *const *columns,
		      bool in_use)
{
	struct judged j = {.wg = wg, .set = set, .row = row, .reason = CUT_SHORT};

	if (!read_row(&j, columns)) {
		g4_log(G4_LOG_WARN, "more of a row than it has parity can not be read");
		return 0;
	}
	if (!wrong_parities(&j))
		return 0;
	const struct knowledge known = known_of(&j);
	if (known.unknown && !in_use)
		return 0;
	if (known.unknown && !known.printed) {
		const uint64_t missing = away(set, row);
		return missing ? remake(wg, set, row, columns, missing) :
				 check_row(wg, set, row, columns, true, CUT_SHORT);
	}
	for (uint32_t c = 0; known.wrong >> c != 0; c++)
		if ((known.wrong >> c & 1) && !find_told(&j, c))
			return 0;
	take(&j, known.wrong);
	const uint64_t fits = wrong_parities(&j);
	take(&j, fits);
	return g4_row_write(wg, set, row, 0, j.unreadable | known.wrong | fits, j.have);
}

int g4_rows_note_cut(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to)
{
	uint8_t *const *columns = set->parity->columns;

	for (uint64_t at = from, some; at < to; at += some) {
		const uint64_t within = at % chunk->stripe_bytes;
		some = g4_min64(to - at, chunk->stripe_bytes - within);
		struct g4_row row = {chunk, at / chunk->stripe_bytes, within, some};
		if (fit_as_made(wg, set, &row, columns))
			continue;
		row.bytes = G4_PAGE_BYTES;
		for (; row.within < within + some; row.within += G4_PAGE_BYTES) {
			struct judged j = {.wg = wg, .set = set, .row = &row, .reason = CUT_SHORT};
			if (read_row(&j, columns) && wrong_parities(&j))
				ask_for(&j);
		}
	}
	return 0;
}

int g4_rows_settle_cut(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
		       bool in_use)
{
	int rc = 0;

	end_asking(set->parity);
	for (uint64_t at = from; at < to && rc >= 0; at += G4_PAGE_BYTES) {
		const struct g4_row row = {chunk, at / chunk->stripe_bytes, at % chunk->stripe_bytes, G4_PAGE_BYTES};
		if (asked_of(set->parity, g4_row_address(&row))) /* it did not fit, and nothing was written since */
			rc = settle_row(wg, set, &row, set->parity->columns, in_use);
	}
	return rc < 0 ? rc : 0;
}

int g4_rows_complete(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to)
{
	return complete(wg, set, chunk, from, to, CUT_SHORT);
}

/* ---- the map ---- */

static bool is_made(const struct g4_set *set, uint64_t bit)
{
	return set->parity->made[bit / 8] >> bit % 8 & 1;
}

int g4_rows_make(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to)
{
	struct g4_set_parity *p = set->parity;
	bool made = false;

	for (uint64_t at = g4_align_down(from, G4_PARITY_REGION_BYTES); at < to; at += G4_PARITY_REGION_BYTES) {
		const uint64_t bit = g4_set_log_region(set, chunk, at / G4_PARITY_REGION_BYTES);
		if (is_made(set, bit))
			continue;
		const int rc = complete(wg, set, chunk, at, g4_min64(at + G4_PARITY_REGION_BYTES, chunk->place_bytes),
					NEVER_MADE);
		if (rc < 0)
			return rc;
		if (rc > 0) /* it is tried again with the next write there */
			continue;
		p->made[bit / 8] |= (uint8_t)(1u << bit % 8);
		made = p->made_changed = true;
	}
	/* a crash that finds the map without it would have parity made once more, of what has rotted since */
	return made ? g4_set_log_empty(wg, set) : 0;
}

int g4_rows_forget(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to)
{
	struct g4_set_parity *p = set->parity;

	for (uint64_t at = from; at < to; at += G4_PARITY_REGION_BYTES) {
		const uint64_t bit = g4_set_log_region(set, chunk, at / G4_PARITY_REGION_BYTES);
		if (!is_made(set, bit))
			continue;
		p->made[bit / 8] &= (uint8_t) ~(1u << bit % 8);
		p->made_changed = true;
	}
	/* also what an earlier call could not write */
	return p->made_changed ? g4_set_log_empty(wg, set) : 0;
}

/* A place reads as zeros then, or it is not certain. */
static bool clear_place(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t place)
{
	struct g4_dev *disk = set->disks[g4_place_disk(place)].dev;
	struct g4_io io = {
		.op = G4_IO_DISCARD, .offset_bytes = g4_place_address(place), .discard_bytes = chunk->place_bytes};

	if (!g4_dev_props(disk)->discard || !g4_dev_props(disk)->zeroes)
		return false;
	g4_dev_submit(wg, disk, &io);
	return g4_dev_wait(wg, disk, &io) == 0;
}

void g4_rows_clear(struct g4_wg *wg, struct g4_set *set)
{
	bool cleared = true;

	for (uint32_t n = 0; n < set->super->chunk_count; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		for (uint32_t c = 0; chunk->parity && c < chunk->columns && cleared; c++)
			cleared = clear_place(wg, set, chunk, chunk->places[c]);
	}
	if (cleared)
		memset(set->parity->made, 0xff, set->parity->regions / 8 + 1);
	set->parity->made_changed = true; /* there may be one of an older set */
}

int g4_rows_compare(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t stripe)
{
	const struct g4_row rows = {chunk, stripe, 0, chunk->stripe_bytes};
	const uint64_t region = stripe * chunk->stripe_bytes / G4_PARITY_REGION_BYTES;

	if (!is_made(set, g4_set_log_region(set, chunk, region)) || away(set, &rows))
		return 0;
	/* a disk that is missing elsewhere is told of before anything is written, which this is not worth */
	return check_pages(wg, set, &rows, !set->dev.props.read_only && !g4_load32_acq(&set->unrecorded), ROTTED);
}

bool g4_rows_fit(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t stripe)
{
	const struct g4_row rows = {chunk, stripe, 0, chunk->stripe_bytes};
	const uint64_t region = stripe * chunk->stripe_bytes / G4_PARITY_REGION_BYTES;
	uint8_t *const *columns = set->parity->columns;

	if (!is_made(set, g4_set_log_region(set, chunk, region)) || away(set, &rows) || fit(wg, set, &rows, columns))
		return true;
	for (uint64_t at = 0; at < rows.bytes; at += G4_PAGE_BYTES) {
		const struct g4_row row = {chunk, stripe, at, G4_PAGE_BYTES};
		struct judged j = {.wg = wg, .set = set, .row = &row, .reason = ROTTED};
		if (read_row(&j, columns) && wrong_parities(&j))
			return false;
	}
	return true;
}

/* ---- what others know of the data ---- */

int g4_rows_begin_asking(struct g4_set_parity *p, bool begins)
{
	p->asked_count = 0;
	p->asks = begins;
	p->asking = false;
	if (!begins)
		return 0;
	if (!p->asked)
		p->asked = malloc(G4_PARITY_ASKED_MOST * sizeof(*p->asked));
	p->asking = p->asked != NULL;
	return p->asking ? 0 : -G4_E_NOMEM;
}

static int tell_next(struct g4_set_parity *p, uint64_t number, uint64_t *address)
{
	end_asking(p);
	if (number >= p->asked_count)
		return -G4_E_NOENT;
	*address = p->asked[number].address;
	return 0;
}

void g4_rows_untell(struct g4_set *set, uint64_t address, uint64_t bytes)
{
	struct g4_set_parity *p = set->parity;

	for (uint64_t at = address; p->asked_count > 0 && at < address + bytes; at += G4_PAGE_BYTES) {
		struct g4_parity_asked *asked = asked_of(p, at);
		if (asked)
			asked->print = G4_PAGE_IS_UNKNOWN;
	}
}

int g4_rows_order(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	struct g4_set_parity *p = set->parity;
	int rc = 0;

	if (!p)
		return -G4_E_NOTSUP;
	g4_rows_lock(wg, set);
	struct g4_parity_asked *asked = order->op == G4_ORDER_ROWS_TELL ? asked_of(p, order->bytes) : NULL;
	if (order->op == G4_ORDER_ROWS_ASK && order->disk == G4_ROWS_ASK_ROOM)
		order->all = p->asking ? G4_PARITY_ASKED_MOST - p->asked_count : 0;
	else if (order->op == G4_ORDER_ROWS_ASK)
		rc = g4_rows_begin_asking(p, order->disk == G4_ROWS_ASK_BEGIN);
	else if (order->op == G4_ORDER_ROWS_NEXT)
		rc = tell_next(p, order->done, &order->bytes);
	else if (asked)
		asked->print = order->all;
	else
		rc = -G4_E_NOENT;
	pthread_rwlock_unlock(&p->lock);
	return rc;
}
