/* SPDX-License-Identifier: Apache-2.0 */
/* Reading contents from the device, and comparing them with their sums. */
#include "data/fetch.h"

#include "alloc/share.h"
#include "data/map.h"
#include "data/sums.h"
#include "inode/events.h"

#define SMALL_BYTES (16 * G4_PAGE_BYTES) /* files of so much are read with what lies beside them */
#define SURVEY G4_IO_CLASS(G4_CLASS_BACKGROUND)

/* A few pages of a transfer, while they are verified. In scratch memory. */
struct check {
	uint32_t count;
	uint32_t flags; /* the class of who asks: what is read again has it, too */
	bool in_place;	/* the pages are the device's own */
	uint64_t page;	/* of the file: the first */
	void *pages[G4_SUMS_AT_ONCE];
	struct g4_address addresses[G4_SUMS_AT_ONCE];
	struct g4_sum_entry expected[G4_SUMS_AT_ONCE];
	struct g4_sum_entry found[G4_SUMS_AT_ONCE];
};

/* Where the device, which is memory, has what is stored at an address. */
G4_FN static uint8_t *in_memory(const struct g4_fs *fs, struct g4_address address)
{
	return (uint8_t *)(uintptr_t)g4_space_memory(&fs->space, address);
}

/*
 * Pages are damaged or can not be read, one of them at least: what is written again is stored again. The workgroup that does
 * jobs has them unlisted.
 */
G4_FN static void suspect(struct g4_fs *fs, struct g4_address address, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += G4_PAGE_BYTES)
		g4_ddt_suspect(&fs->ddt, g4_address_after(address, at));
	g4_add32(&fs->jobs.changed, 1);
	g4_wake(&fs->jobs.changed);
}

G4_FN static void suspect_request(struct g4_fs *fs, const struct g4_space_io *request)
{
	uint64_t bytes = 0;

	for (uint32_t part = 0; part < request->io.iov_count; part++)
		bytes += request->io.iov[part].bytes;
	suspect(fs, request->address, bytes);
}

/*
 * Page k of the check does not match. It is read again, into memory that nobody else can change: that decides, whatever a caller
 * does with its own memory meanwhile. A copy that matches takes the place of those that do not: the inode is locked, so the page is
 * its own as long, and data is not overwritten in place.
 */
G4_FN static int read_again(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			    const struct check *check, uint32_t k)
{
	const uint32_t mark = g4_scratch_mark(wg), algorithm = g4_sum_entry_algorithm(&check->expected[k]);
	const uint32_t copies = g4_space_copies(&fs->space), versions = g4_space_versions(&fs->space);
	uint8_t *page = g4_scratch_take_page(wg);
	const void *pages[1] = {page};
	struct g4_sum_entry found;
	uint32_t differs = 1, unknown;
	int rc = -G4_E_NOENT;

	g4_space_distrust(&fs->space, check->addresses[k], G4_PAGE_BYTES);
	for (uint32_t copy = 0; copy < versions && differs; copy++) {
		const int one = g4_space_read_copy_as(wg, &fs->space, copy, check->addresses[k], page, G4_PAGE_BYTES,
						      check->flags);
		rc = rc < 0 ? one : rc;
		if (one == 0)
			g4_sums_compare(wg, pages, 1, &check->expected[k], &found, &differs, &unknown);
	}
	if (rc == 0) {
		if (!differs) {
			if (!check->in_place)
				g4_copy(wg, check->pages[k], page, G4_PAGE_BYTES);
			if (copies > 1)
				g4_space_mend(wg, &fs->space, check->addresses[k], page, G4_PAGE_BYTES);
		} else {
			struct g4_event event = {inode->ino,
						 check->page + k,
						 g4_address_stored(check->addresses[k]),
						 0,
						 G4_E_DATA,
						 algorithm,
						 {0},
						 {0}};
			memcpy(event.expected, check->expected[k].bytes, sizeof(event.expected));
			memcpy(event.found, found.bytes, sizeof(event.found));
			g4_event_post(wg, fs, &event);
			rc = -G4_E_DATA;
		}
	}
	if (rc < 0)
		suspect(fs, check->addresses[k], G4_PAGE_BYTES);
	g4_scratch_release(wg, mark);
	return rc;
}

/*
 * All pages of the check that have a sum. The first error, in order of the pages; *bad has the bits of all that have one, *unverified of
 * those whose sums can not be had.
 */
G4_FN static int verify(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, struct check *check,
			uint32_t *bad, uint32_t *unverified)
{
	const uint32_t all = UINT32_MAX >> (32 - check->count);
	uint32_t differ;
	int rc = g4_map_sums(wg, fs, inode, check->page, check->count, check->expected);

	*bad = rc < 0 ? all : 0;
	*unverified = rc == -G4_E_CORRUPT_SUMS ? all : 0;
	if (rc < 0)
		return rc;
	g4_sums_compare(wg, (const void *const *)check->pages, check->count, check->expected, check->found, &differ,
			unverified);
	*bad = *unverified;
	for (uint32_t k = 0; k < check->count && (differ | *unverified) >> k; k++) {
		int here = *unverified >> k & 1 ? -G4_E_CORRUPT_SUMS : 0;
		if (differ >> k & 1) {
			here = read_again(wg, fs, inode, check, k);
			*bad |= here < 0 ? UINT32_C(1) << k : 0;
		}
		rc = rc == 0 ? here : rc;
	}
	return rc;
}

/* g4_fetch_matching(), the pages in `pages`. */
G4_FN static uint32_t matching(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			       const uint8_t *pages, uint64_t count)
{
	const struct g4_sum_entry *expected;
	uint32_t line;

	count = g4_min64(count, G4_SUMS_SLOTS - page % G4_SUMS_SLOTS);
	if (g4_map_sums_page(wg, fs, inode, page, &line, &expected) < 0 || line == G4_NO_LINE)
		return 0;
	const bool match = g4_sums_match(wg, pages, (uint32_t)count, expected);
	g4_cache_put(&fs->cache, line);
	return match ? (uint32_t)count : 0;
}

G4_FN uint32_t g4_fetch_matching(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
				 struct g4_address address, uint64_t count)
{
	if (!g4_space_is_mapped(&fs->space) ||
	    !(g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SUMS))
		return 0;
	return matching(wg, fs, inode, page, in_memory(fs, address), count);
}

/* Puts pages that lie in a row on the device, and in memory, into an empty check. */
G4_FN static void check_row(struct check *check, uint64_t page, struct g4_address address, uint8_t *pages,
			    uint32_t count)
{
	check->page = page;
	check->count = count;
	for (uint32_t k = 0; k < count; k++) {
		check->addresses[k] = g4_address_after_pages(address, k);
		check->pages[k] = pages + (uint64_t)k * G4_PAGE_BYTES;
	}
}

/* Pages in a row where the device, which is memory, has them. The first error. */
G4_FN static int verify_in_place(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
				 struct g4_address address, uint64_t count, uint32_t flags)
{
	uint8_t *pages = in_memory(fs, address);
	uint32_t n, bad, unverified;
	int rc = 0;

	for (uint64_t at = 0; at < count && rc == 0; at += n) {
		n = matching(wg, fs, inode, page + at, pages + at * G4_PAGE_BYTES, count - at);
		if (n > 0)
			continue;
		const uint32_t mark = g4_scratch_mark(wg);
		struct check *check = (struct check *)g4_scratch_take(wg, sizeof(*check));
		n = (uint32_t)g4_min64(count - at, G4_SUMS_AT_ONCE);
		check->in_place = true;
		check->flags = flags;
		check_row(check, page + at, g4_address_after_pages(address, at), pages + at * G4_PAGE_BYTES, n);
		rc = verify(wg, fs, inode, check, &bad, &unverified);
		g4_scratch_release(wg, mark);
	}
	return rc;
}

/*
 * Where the device is memory pages are compared there, before they are copied: on a GPU the copy may lie behind PCIe, and would come
 * back to be hashed.
 */
G4_FN static int verify_sources(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
				const struct g4_space_io *requests, uint32_t count)
{
	int rc = 0;

	for (uint32_t r = 0; r < count && rc == 0; r++) {
		uint64_t pages = 0;
		for (uint32_t part = 0; part < requests[r].io.iov_count; part++)
			pages += requests[r].io.iov[part].bytes >> G4_PAGE_SHIFT;
		rc = verify_in_place(wg, fs, inode, page, requests[r].address, pages, requests[r].io.flags);
		page += pages;
	}
	return rc;
}

/* The pages of requests where they were transferred to. The first error. */
G4_FN static int verify_copies(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			       const struct g4_space_io *requests, uint32_t count)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct check *check = (struct check *)g4_scratch_take(wg, sizeof(*check));
	uint32_t bad, unverified;
	int rc = 0;

	check->in_place = false;
	check->page = page;
	check->count = 0;
	for (uint32_t r = 0; r < count && rc == 0; r++) {
		struct g4_address address = requests[r].address;
		check->flags = requests[r].io.flags; /* the same in all */
		for (uint32_t part = 0; part < requests[r].io.iov_count && rc == 0; part++) {
			const struct g4_iov *iov = &requests[r].io.iov[part];
			for (uint64_t at = 0; at < iov->bytes && rc == 0; at += G4_PAGE_BYTES) {
				check->pages[check->count] = (uint8_t *)iov->base + at;
				check->addresses[check->count++] = address;
				address = g4_address_after(address, G4_PAGE_BYTES);
				if (check->count < G4_SUMS_AT_ONCE)
					continue;
				rc = verify(wg, fs, inode, check, &bad, &unverified);
				check->page += check->count;
				check->count = 0;
			}
		}
	}
	if (rc == 0 && check->count > 0)
		rc = verify(wg, fs, inode, check, &bad, &unverified);
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN static int fetch(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		       struct g4_space_io *requests, uint32_t count)
{
	const bool sums = g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SUMS;
	const bool in_place = sums && g4_space_is_mapped(&fs->space);
	int rc = in_place ? verify_sources(wg, fs, inode, page, requests, count) : 0;

	if (rc < 0)
		return rc;
	rc = g4_space_fetch(wg, &fs->space, requests, count, inode->size <= SMALL_BYTES);
	for (uint32_t r = 0; r < count && rc < 0; r++)
		if (count == 1 || requests[r].io.result < 0) /* one alone has no result of its own */
			suspect_request(fs, &requests[r]);
	return rc < 0 || !sums || in_place ? rc : verify_copies(wg, fs, inode, page, requests, count);
}

/* A page that can not be read counts for the disks that have it, where it was asked for alone: of several nobody knows which it is. */
G4_FN static void tell_unreadable(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
				  struct g4_address address, int code)
{
	const struct g4_event event = {inode->ino, page, g4_address_stored(address), 0, (uint32_t)-code, 0, {0}, {0}};

	g4_event_post(wg, fs, &event);
}

G4_FN int g4_fetch(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		   struct g4_space_io *requests, uint32_t count)
{
	const int rc = fetch(wg, fs, inode, page, requests, count);

	if (rc < 0 && !g4_fetch_is_damage(rc) && count == 1 && requests[0].io.iov_count == 1 &&
	    requests[0].io.iov[0].bytes == G4_PAGE_BYTES)
		tell_unreadable(wg, fs, inode, page, requests[0].address, rc);
	return rc;
}

/* The caller tells. */
G4_FN static int fetch_page(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			    struct g4_address address, void *to, uint32_t flags)
{
	struct g4_iov iov = {to, G4_PAGE_BYTES};
	struct g4_space_io request;

	g4_space_io_init(&request, G4_IO_READ, address, &iov, 1);
	request.io.flags = flags;
	return fetch(wg, fs, inode, page, &request, 1);
}

G4_FN int g4_fetch_page(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			struct g4_address address, void *to)
{
	const int rc = fetch_page(wg, fs, inode, page, address, to, G4_IO_CLASS(G4_CLASS_FOREGROUND));

	if (rc < 0 && !g4_fetch_is_damage(rc))
		tell_unreadable(wg, fs, inode, page, address, rc);
	return rc;
}

/* Of one copy. */
G4_FN static int survey_copy(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			     uint32_t copy, struct g4_address address, uint8_t *to, uint32_t count, uint64_t *bad,
			     uint64_t *unverified)
{
	int rc = to ? g4_space_read_copy_as(wg, &fs->space, copy, address, to, count * G4_PAGE_BYTES, SURVEY) : 0;

	*bad = rc < 0 ? UINT64_MAX : 0;
	*unverified = 0;
	if (rc < 0 && rc != -G4_E_NOENT) /* not that its disk is missing */
		suspect(fs, address, count * (uint64_t)G4_PAGE_BYTES);
	if (rc < 0 || !(g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SUMS))
		return rc;
	uint8_t *const pages = to ? to : in_memory(fs, address);
	const uint32_t mark = g4_scratch_mark(wg);
	struct check *check = (struct check *)g4_scratch_take(wg, sizeof(*check));
	check->in_place = !to;
	check->flags = SURVEY;
	for (uint32_t at = 0, n; at < count; at += n) {
		const uint64_t row = G4_SUMS_SLOTS - (page + at) % G4_SUMS_SLOTS; /* with sums that stand together */
		uint8_t *here = pages + (uint64_t)at * G4_PAGE_BYTES;
		uint32_t some, without;
		n = check->in_place ? matching(wg, fs, inode, page + at, here, count - at) : 0;
		if (n > 0)
			continue;
		n = (uint32_t)g4_min64(g4_min64(count - at, row), G4_SUMS_AT_ONCE);
		check_row(check, page + at, g4_address_after_pages(address, at), here, n);
		int verified = verify(wg, fs, inode, check, &some, &without);
		*bad |= (uint64_t)some << at;
		*unverified |= (uint64_t)without << at;
		rc = rc == 0 ? verified : rc;
	}
	g4_scratch_release(wg, mark);
	return rc;
}

/* The same, page by page: one that this copy's disk can not read is written again from another copy. */
G4_FN static int survey_each(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			     uint32_t copy, struct g4_address address, uint8_t *to, uint32_t count, uint64_t *bad,
			     uint64_t *unverified)
{
	int rc = 0;

	*bad = *unverified = 0;
	for (uint32_t k = 0; k < count; k++) {
		const struct g4_address at = g4_address_after_pages(address, k);
		uint8_t *here = to + k * G4_PAGE_BYTES;
		uint64_t one_bad, without;
		int one = survey_copy(wg, fs, inode, page + k, copy, at, here, 1, &one_bad, &without);
		/*
		 * What was unreadable for a moment may be the only good one: it is not written over by what is wrong, nor by what lies in
		 * memory, where without a sum nobody knows whether it has changed.
		 */
		if (one == -G4_E_IO)
			g4_space_distrust(&fs->space, at, G4_PAGE_BYTES);
		if (one == -G4_E_IO && fetch_page(wg, fs, inode, page + k, at, here, SURVEY) == 0 &&
		    g4_space_mend(wg, &fs->space, at, here, G4_PAGE_BYTES) != 0)
			one = survey_copy(wg, fs, inode, page + k, copy, at, here, 1, &one_bad, &without);
		*bad |= (one_bad & 1) << k;
		*unverified |= (without & 1) << k;
		rc = rc == 0 ? one : rc;
	}
	return rc;
}

G4_FN int g4_fetch_survey(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			  struct g4_address address, uint8_t *to, uint32_t count, uint64_t *bad, uint64_t *unverified)
{
	const uint32_t copies = g4_space_copies(&fs->space);
	uint64_t here, without;
	int rc = 0, there = -G4_E_IO;

	*bad = *unverified = 0;
	for (uint32_t copy = 0; copy < copies; copy++) {
		int one = survey_copy(wg, fs, inode, page, copy, address, to, count, &here, &without);
		if (one == -G4_E_NOENT)
			continue; /* its disk is missing */
		if (one == -G4_E_IO && copies > 1)
			one = survey_each(wg, fs, inode, page, copy, address, to, count, &here, &without);
		there = 0;
		*bad |= here;
		*unverified |= without;
		rc = rc == 0 ? one : rc;
	}
	return there < 0 ? there : rc;
}

/* Whether a page has the sum that it is listed with. */
G4_FN static bool has_key(struct g4_wg *wg, const void *page, const struct g4_listing_key *key, uint64_t domain)
{
	const void *const pages[1] = {page};
	struct g4_sum_entry made;

	g4_sums_make(wg, g4_listing_algorithm(key->bytes), pages, 1, &made);
	const struct g4_listing_key has = g4_listing_key(&made, domain);
	return g4_bytes_equal(has.bytes, key->bytes, G4_LISTING_SUM_BYTES);
}

G4_FN int g4_fetch_is(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, const struct g4_listing_key *key,
		      uint64_t domain, uint32_t mark, const void *bytes)
{
	const uint8_t *at = in_memory(fs, address);
	const uint32_t scratch = g4_scratch_mark(wg);
	int rc = 0;

	if (at == NULL) {
		uint8_t *page = g4_scratch_take_page(wg);
		struct g4_iov iov = {page, G4_PAGE_BYTES};
		struct g4_space_io request;

		g4_space_io_init(&request, G4_IO_READ, address, &iov, 1);
		rc = g4_space_transfer(wg, &fs->space, &request, 1);
		at = page;
	}
	const bool same = rc == 0 && g4_bytes_equal(at, bytes, G4_PAGE_BYTES);
	if (!same && (rc < 0 || !has_key(wg, at, key, domain))) {
		g4_fence_acq(); /* the mark is loaded last: if it is the same, all that was read is of the page that is listed */
		if (mark == g4_share_mark(&fs->alloc, address))
			suspect(fs, address, G4_PAGE_BYTES);
	}
	g4_scratch_release(wg, scratch);
	return same;
}
