/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/scrub_rows.h"

#include "alloc/alloc.h"
#include "alloc/count.h"
#include "data/sums.h"

#define ROWS_BYTES (G4_SCRUB_PAGES * G4_PAGE_BYTES)
/* pages of the rows that begin in so many bytes: the last one may reach further */
#define MOST_OF_A_CHECK (G4_SCRUB_PAGES + G4_STRIPE_MAX / G4_PAGE_BYTES * G4_CHUNK_PLACES)
G4_STATIC_ASSERT(MOST_OF_A_CHECK < G4_SCRUB_ASKED, "a round takes something");

G4_FN bool g4_scrub_has_rows(const struct g4_fs *fs)
{
	return g4_space_versions(&fs->space) > g4_space_copies(&fs->space);
}

G4_FN static int order(struct g4_scrub_step *step, uint32_t op, struct g4_dev_order *order)
{
	order->op = op;
	return g4_space_order(step->wg, &step->fs->space, order);
}

/* What the order says; 0 also where nothing can be noted. */
G4_FN static uint64_t ask(struct g4_scrub_step *step, enum g4_rows_ask what)
{
	struct g4_dev_order asks = {0};

	asks.disk = what;
	return order(step, G4_ORDER_ROWS_ASK, &asks) < 0 ? 0 : asks.all;
}

G4_FN static void begin_round(struct g4_scrub_step *step)
{
	step->scrub->misfit_count = 0;
	step->scrub->rounds++;
	(void)ask(step, G4_ROWS_ASK_BEGIN);
}

/* ------------------------------------------------------------------ what does not fit */

G4_FN static void compare(struct g4_scrub_step *step, uint64_t at, bool last)
{
	struct g4_scrub *scrub = step->scrub;
	const struct g4_address address = g4_address_from(at);
	const uint64_t bytes = g4_min64(ROWS_BYTES, g4_space_bytes(&step->fs->space) - at);
	const int rc = g4_space_check(step->wg, &step->fs->space, address, bytes);

	if (rc == -G4_E_PARITY && !last && scrub->misfit_count < G4_SCRUB_MISFITS)
		scrub->misfits[scrub->misfit_count++] = at;
	else if (rc < 0)
		g4_scrub_find_metadata(step, 0, address, rc);
	g4_scrub_count(step, (uint32_t)(bytes / G4_PAGE_BYTES));
}

/* Whether what does not fit next may not be noted as a whole. */
G4_FN static bool is_full(struct g4_scrub_step *step)
{
	return step->scrub->misfit_count == G4_SCRUB_MISFITS ||
	       (step->scrub->misfit_count > 0 && ask(step, G4_ROWS_ASK_ROOM) < MOST_OF_A_CHECK);
}

/* The pages that have to be known: the set notes no more from then on. */
G4_FN static void list_asked(struct g4_scrub_step *step)
{
	struct g4_scrub *scrub = step->scrub;
	struct g4_dev_order next = {0};

	scrub->asked_count = 0;
	while (scrub->asked_count < G4_SCRUB_ASKED) {
		next.done = scrub->asked_count;
		if (order(step, G4_ORDER_ROWS_NEXT, &next) < 0)
			break;
		scrub->asked[scrub->asked_count++] = next.bytes;
	}
}

G4_FN int g4_scrub_compare_rows(struct g4_scrub_step *step, uint64_t *at)
{
	const uint64_t end = g4_space_bytes(&step->fs->space);
	struct g4_scrub *scrub = step->scrub;

	if (*at == 0)
		begin_round(step);
	if (*at < end) {
		compare(step, *at, scrub->rounds > G4_SCRUB_ROUNDS);
		*at += ROWS_BYTES;
	}
	if (*at < end && !is_full(step))
		return 0;
	if (scrub->misfit_count > 0) {
		list_asked(step);
		scrub->rows_at = *at;
		scrub->errors = step->record->errors;
		scrub->again = true;
	} else {
		(void)ask(step, G4_ROWS_ASK_END);
	}
	return 1;
}

/* ------------------------------------------------------------------ what is known */

/* The first page that is asked for from an address on; its number. */
G4_FN static uint32_t first_asked(const struct g4_scrub *scrub, uint64_t address)
{
	uint32_t low = 0, high = scrub->asked_count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (scrub->asked[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

G4_FN static void tell(struct g4_scrub_step *step, uint64_t address, uint64_t print)
{
	struct g4_dev_order told = {0};

	told.bytes = address;
	told.all = print;
	(void)order(step, G4_ORDER_ROWS_TELL, &told); /* what is not told is not known */
}

/* Pages in a row, all of them asked for. */
G4_FN static void read_and_tell(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page,
				struct g4_address address, uint32_t pages)
{
	const uint64_t bad = g4_scrub_read(step, inode, page, address, pages);
	const uint32_t mark = g4_scratch_mark(step->wg);
	struct g4_sum_entry *sum = (struct g4_sum_entry *)g4_scratch_take(step->wg, sizeof(*sum));

	for (uint32_t k = 0; k < pages; k++) {
		const uint64_t at = g4_address_stored(g4_address_after_pages(address, k));

		if ((bad >> k & 1) || g4_map_sums(step->wg, step->fs, inode, page + k, 1, sum) < 0)
			continue;
		tell(step, at,
		     g4_sum_entry_algorithm(sum) == G4_CHECKSUM_NONE ?
			     G4_PAGE_HAS_NO_SUM :
			     g4_space_page_print(at, step->to + k * G4_PAGE_BYTES));
	}
	g4_scratch_release(step->wg, mark);
}

G4_FN uint64_t g4_scrub_read_asked(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page,
				   struct g4_address address, uint64_t pages)
{
	const struct g4_scrub *scrub = step->scrub;
	const uint64_t from = g4_address_stored(address);
	const uint32_t first = first_asked(scrub, from);
	const uint64_t before = first < scrub->asked_count ? (scrub->asked[first] - from) / G4_PAGE_BYTES : pages;
	uint32_t n = 0;

	if (before >= pages) {
		step->pages++;
		return pages;
	}
	while (n < G4_SCRUB_PAGES && before + n < pages && first + n < scrub->asked_count &&
	       scrub->asked[first + n] == from + (before + n) * G4_PAGE_BYTES)
		n++;
	read_and_tell(step, inode, page + before, g4_address_after_pages(address, before), n);
	return before + n;
}

G4_FN void g4_scrub_tell_reserved(struct g4_scrub_step *step, struct g4_address address, uint64_t pages)
{
	const struct g4_scrub *scrub = step->scrub;
	const uint64_t end = g4_address_stored(g4_address_after_pages(address, pages));

	for (uint32_t n = first_asked(scrub, g4_address_stored(address));
	     n < scrub->asked_count && scrub->asked[n] < end; n++)
		tell(step, scrub->asked[n], G4_PAGE_IS_FREE);
}

/* ------------------------------------------------------------------ once more */

G4_FN static bool is_free(struct g4_scrub_step *step, uint64_t address)
{
	return g4_alloc_count(step->wg, &step->fs->alloc, address / G4_PAGE_BYTES, 1, false) == 1;
}

/*
 * What nobody has of the pages that are asked for: in the view of memory, so that nobody has it durably either. It is looked at again once
 * it was told, for who claimed it before may have written before as well; who claims it later writes later, and makes it unknown.
 */
G4_FN static void tell_free(struct g4_scrub_step *step)
{
	const struct g4_scrub *scrub = step->scrub;

	for (uint32_t n = 0; n < scrub->asked_count; n++) {
		if (!is_free(step, scrub->asked[n]))
			continue;
		tell(step, scrub->asked[n], G4_PAGE_IS_FREE);
		if (!is_free(step, scrub->asked[n]))
			tell(step, scrub->asked[n], G4_PAGE_IS_UNKNOWN);
	}
}

G4_FN int g4_scrub_mend_rows(struct g4_scrub_step *step, uint64_t *at)
{
	struct g4_scrub *scrub = step->scrub;

	const bool damaged = *at == 0 && step->record->errors != scrub->errors;

	for (; damaged && *at < scrub->misfit_count; ++*at)
		g4_scrub_find_metadata(step, 0, g4_address_from(scrub->misfits[*at]), -G4_E_PARITY);
	if (*at == 0)
		tell_free(step);
	if (*at < scrub->misfit_count)
		compare(step, scrub->misfits[(*at)++], true);
	if (*at < scrub->misfit_count)
		return 0;
	(void)ask(step, G4_ROWS_ASK_END);
	if (damaged || scrub->rows_at >= g4_space_bytes(&step->fs->space))
		return 1;
	*at = scrub->rows_at;
	begin_round(step);
	return 2;
}
