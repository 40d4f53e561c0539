/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mount knows of rows with parity that a crash may have cut short (space/set_cut_host.c), before anything is written: the journal was read, and which of its records
 * count is known, but no page went home. A page that is asked for is
 *
 *   - nobody's, if no map has it as in use, or the journal has an image of it that is written over it whatever lies there;
 *   - what the newest record says, if that relies on it: the version that has the record's checksum, and its print is told;
 *   - else somebody's, and was durable before that record was written: nothing is told of it, and so its row was not being written.
 *
 * The same records count when the journal is replayed behind this: what was told as right has been made right, and nothing else became so.
 */
#define _GNU_SOURCE 1

#include "fs/cut_host.h"

#include <stdlib.h>

#include "hash/crc32c.h"

static int order(struct g4_wg *wg, struct g4_dev *dev, uint32_t op, struct g4_dev_order *order)
{
	order->op = op;
	return g4_dev_order(wg, dev, order);
}

int g4_cut_next(struct g4_wg *wg, struct g4_dev *dev, uint64_t *asked)
{
	struct g4_dev_order next = {.disk = G4_ROWS_CUT_NEXT};
	const int rc = g4_dev_props(dev)->remakes > 0 && !g4_dev_props(dev)->read_only ?
			       order(wg, dev, G4_ORDER_ROWS_CUT, &next) :
			       -G4_E_NOTSUP;

	*asked = rc == 0 ? next.all : 0;
	return rc == -G4_E_NOTSUP ? 0 : rc;
}

int g4_cut_end(struct g4_wg *wg, struct g4_dev *dev)
{
	struct g4_dev_order end = {.disk = G4_ROWS_CUT_UNKNOWN};

	return order(wg, dev, G4_ORDER_ROWS_CUT, &end);
}

static bool has_image(const struct g4_replay *replayed, uint64_t address)
{
	uint64_t low = 0, high = replayed->in_log ? replayed->blocks : 0;

	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;
		const uint64_t home = g4_address_stored(replayed->in_log[middle].home);

		if (home == address)
			return true;
		if (home < address)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

static const struct g4_data_tag *find_tag(const struct g4_replay *replayed, uint64_t address)
{
	for (uint32_t k = 0; k < replayed->data_count; k++)
		if (g4_address_stored(replayed->data[k].address) == address)
			return &replayed->data[k];
	return NULL;
}

/* The print of the version that is right. */
static uint64_t print_of(struct g4_wg *wg, struct g4_space *space, const struct g4_data_tag *tag, uint8_t *page)
{
	const uint32_t versions = g4_space_versions(space);

	for (uint32_t v = 0; v < versions; v++)
		if (g4_space_read_copy(wg, space, v, tag->address, page, G4_PAGE_BYTES) == 0 &&
		    g4_crc32c(0, page, G4_PAGE_BYTES) == tag->crc32c)
			return g4_space_page_print(g4_address_stored(tag->address), page);
	return G4_PAGE_IS_UNKNOWN;
}

/* What is known of a page. G4_PAGE_IS_UNKNOWN: it is somebody's, or may be, for its map can not be read. */
static uint64_t known_of(struct g4_wg *wg, struct g4_space *space, struct g4_alloc *alloc,
			 const struct g4_replay *replayed, uint64_t address, uint8_t *page)
{
	const struct g4_data_tag *tag = find_tag(replayed, address);

	if (has_image(replayed, address))
		return G4_PAGE_IS_FREE;
	if (tag)
		return print_of(wg, space, tag, page);
	if (address / G4_PAGE_BYTES / G4_REGION_PAGES >= g4_load64_acq(&alloc->region_count))
		return G4_PAGE_IS_FREE;
	return g4_alloc_in_use(wg, alloc, g4_address_from(address)) == 0 ? G4_PAGE_IS_FREE : G4_PAGE_IS_UNKNOWN;
}

int g4_cut_tell(struct g4_wg *wg, struct g4_space *space, struct g4_alloc *alloc, const struct g4_replay *replayed,
		uint64_t asked)
{
	struct g4_dev_order all = {.disk = G4_ROWS_CUT_TOLD};
	struct g4_dev *dev = space->disks[0];
	uint8_t *page = NULL;
	int rc = 0;

	if (posix_memalign((void **)&page, G4_PAGE_BYTES, G4_PAGE_BYTES) != 0)
		return -G4_E_NOMEM;
	for (uint64_t k = 0; k < asked && rc == 0; k++) {
		struct g4_dev_order next = {.done = k}, told = {0};
		rc = order(wg, dev, G4_ORDER_ROWS_NEXT, &next);
		if (rc < 0)
			break;
		told.bytes = next.bytes;
		told.all = known_of(wg, space, alloc, replayed, next.bytes, page);
		if (told.all != G4_PAGE_IS_UNKNOWN)
			rc = order(wg, dev, G4_ORDER_ROWS_TELL, &told);
	}
	free(page);
	return rc == 0 ? order(wg, dev, G4_ORDER_ROWS_CUT, &all) : rc;
}
